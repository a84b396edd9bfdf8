# SPDX-License-Identifier: Apache-2.0
"""client.py AREA - drive a service with the Python SDK of E2B; the environment says where it is"""
import asyncio
import os
import sys
import urllib.error
import urllib.request

import e2b
from e2b import AsyncSandbox, Sandbox
from expect import done, eq, raises, until


def commands():
    s = Sandbox.create(envs={"FOO": "of sandbox", "BAR": "of sandbox"})
    try:
        r = s.commands.run("echo out; echo err >&2; id -un; pwd; echo $FOO $BAR $E2B_SANDBOX", envs={"BAR": "of command"})
        eq((r.stdout, r.stderr, r.exit_code), ("out\nuser\n/home/user\nof sandbox of command true\n", "err\n", 0))
        eq(raises(e2b.CommandExitException, lambda: s.commands.run("echo x; exit 3")).exit_code, 3)
        eq(s.commands.run("whoami", user="root").stdout, "root\n")
        eq(s.commands.run("pwd", cwd="/tmp").stdout, "/tmp\n")
        raises(e2b.InvalidArgumentException, lambda: s.commands.run("pwd", cwd="/missing"), "cwd '/missing' does not exist")
        raises(e2b.AuthenticationException, lambda: s.commands.run("id", user="nobody-here"),
               "invalid username: 'nobody-here'")
        raises(e2b.TimeoutException, lambda: s.commands.run("sleep 100", timeout=0.5))
        until(lambda: not s.commands.list(), "the end of a command after its time limit")
        # A command that writes more than any buffer holds loses nothing.
        eq(len(s.commands.run("head -c 5000000 /dev/zero | tr '\\0' x").stdout), 5000000)

        h = s.commands.run("echo started; sleep 1000", background=True)
        eq([(p.pid, p.args[-1]) for p in s.commands.list()], [(h.pid, "echo started; sleep 1000")])
        s.commands.run(f"kill -0 {h.pid}")  # the pid is that inside the sandbox
        eq(s.commands.kill(h.pid), True)
        eq(raises(e2b.CommandExitException, h.wait).exit_code, -1)
        eq(s.commands.kill(999999), False)

        h = s.commands.run("cat", background=True, stdin=True)
        s.commands.send_stdin(h.pid, "in\n")
        again = s.commands.connect(h.pid)
        s.commands.close_stdin(h.pid)
        eq(h.wait().stdout, "in\n")
        eq(again.wait().exit_code, 0)
        eq(s.commands.connect(h.pid).wait().exit_code, 0, "a late client")
        h = s.commands.run("sleep 1000", background=True)
        raises(e2b.SandboxException, lambda: s.commands.send_stdin(h.pid, "x"), "stdin not enabled or closed")
    finally:
        s.kill()
    raises(e2b.SandboxException, lambda: s.commands.run("true"))


def files():
    s = Sandbox.create()
    try:
        w = s.files.write("a/b.txt", "hello")
        eq((w.path, w.name, str(w.type.value)), ("/home/user/a/b.txt", "b.txt", "file"))
        eq(s.files.read("a/b.txt"), "hello")
        eq(bytes(s.files.read("a/b.txt", format="bytes")), b"hello")
        eq(b"".join(s.files.read("a/b.txt", format="stream")), b"hello")
        eq(s.files.read("~/a/b.txt"), "hello")
        s.files.write("/tmp/root.txt", "r", user="root")
        i = s.files.get_info("/tmp/root.txt")
        eq((i.owner, i.group, i.permissions, i.mode, i.size), ("root", "root", "-rw-r--r--", 0o644, 1))
        raises(e2b.NotFoundException, lambda: s.files.read("missing"), "does not exist")
        raises(e2b.InvalidArgumentException, lambda: s.files.read("a"), "is a directory")
        eq(s.files.exists("a"), True)
        eq(s.files.exists("missing"), False)
        eq(s.files.make_dir("d/e"), True)
        eq(s.files.make_dir("d/e"), False)
        raises(e2b.SandboxException, lambda: s.files.make_dir("a/b.txt"))
        s.commands.run("ln -s ../a/b.txt d/link; ln -s nowhere d/broken")
        listed = s.files.list("d", depth=2)
        eq([x.path for x in listed if x.name != "broken"], ["/home/user/d/e", "/home/user/d/link"])
        link = next(x for x in listed if x.name == "link")
        eq((link.symlink_target, link.permissions[0]), ("/home/user/a/b.txt", "L"))
        eq(s.files.rename("a/b.txt", "new/place.txt").path, "/home/user/new/place.txt")
        raises(e2b.NotFoundException, lambda: s.files.rename("a/b.txt", "x"))
        raises(e2b.InvalidArgumentException, lambda: s.files.list("new/place.txt"))
        s.files.remove("new")
        s.files.remove("new")
        eq(s.files.exists("new"), False)
        many = s.files.write_files([{"path": f"many/ü {n}.txt", "data": str(n)} for n in range(20)])
        eq([x.name for x in many], [f"ü {n}.txt" for n in range(20)])
        eq(s.files.read("many/ü 7.txt"), "7")
        big = bytes(range(256)) * 20000
        s.files.write("big", big)
        eq(bytes(s.files.read("big", format="bytes")) == big, True, "a large file")
        s.files.write("empty", "")
        eq(s.files.read("empty"), "")

        h = s.files.watch_dir("d", recursive=True)
        s.commands.run("touch d/x; echo 1 >d/x; mv d/x d/y; rm d/y; mkdir d/n; sleep 0.2; touch d/n/z")
        events = []
        until(lambda: events.extend(h.get_new_events()) or any(x.name == "n/z" for x in events), "the last change")
        names = [(x.type.value, x.name) for x in events]
        for wanted in [("create", "x"), ("write", "x"), ("rename", "x"), ("create", "y"), ("remove", "y"), ("create", "n")]:
            assert wanted in names, f"{wanted} is not in {names}"
        h.stop()
        raises(e2b.NotFoundException, lambda: s.files.watch_dir("missing"))

        for url, status in [(s.download_url("big"), 200), (s.download_url("big") + "x", 401),
                            (s.download_url("big", use_signature_expiration=-10), 401)]:
            try:
                with urllib.request.urlopen(url) as f:
                    eq((f.status, f.read() == big), (status, True), url)
            except urllib.error.HTTPError as e:
                eq(e.code, status, url)
    finally:
        s.kill()


def lifecycle():
    s = Sandbox.create(metadata={"run": "7 ü", "team": "a&b=c"}, timeout=600)
    other = Sandbox.create()
    try:
        eq(s.is_running(), True)
        i = s.get_info()
        eq((i.metadata, i.state.value, i.template_id), ({"run": "7 ü", "team": "a&b=c"}, "running", "base"))
        found = Sandbox.list(query=e2b.SandboxQuery(metadata={"run": "7 ü", "team": "a&b=c"})).next_items()
        eq([x.sandbox_id for x in found], [s.sandbox_id])
        page = Sandbox.list(limit=1)
        eq(len(page.next_items()), 1)
        eq(page.has_next, True)
        h = s.commands.run("sleep 1000", background=True)
        s.files.write("f", "kept")
        s.pause()
        eq(s.is_running(), False)
        eq(s.get_info().state.value, "paused")
        s.connect()
        eq([p.pid for p in s.commands.list()], [h.pid], "processes survive a pause")
        before = s.get_info().end_at
        s.set_timeout(1200)
        assert s.get_info().end_at > before
        eq(Sandbox.connect(s.sandbox_id, timeout=5).sandbox_id, s.sandbox_id)
        assert s.get_info().end_at > before, "connect shortened its life"
        eq(s.get_metrics()[0].cpu_count >= 1, True)

        snapshot = s.create_snapshot()
        copy = Sandbox.create(snapshot.snapshot_id)
        eq(copy.files.read("f"), "kept")
        copy.kill()
        eq([x.snapshot_id for x in s.list_snapshots().next_items()], [snapshot.snapshot_id])
        eq(Sandbox.delete_snapshot(snapshot.snapshot_id), True)
        eq(Sandbox.delete_snapshot(snapshot.snapshot_id), False)
        forks = s.fork(count=2)
        for f in forks:
            eq((f.files.read("f"), f.get_info().metadata["run"]), ("kept", "7 ü"))
            f.kill()
    finally:
        eq((s.kill(), s.kill(), other.kill()), (True, False, True))
    raises(e2b.NotFoundException, lambda: Sandbox.connect(s.sandbox_id))
    raises(e2b.SandboxException, lambda: Sandbox.create("no-such-template"), "template 'no-such-template' not found")
    raises(e2b.SandboxException, lambda: Sandbox.create(timeout=-1), "Timeout must be greater than 0")


def cold():
    """Pauses that keep the files only, and pauses at the end of a lifetime."""
    s = Sandbox.create()
    s.files.write("f", "kept")
    s.commands.run("sleep 1000", background=True)
    s.pause(keep_memory=False)
    eq(s.get_info().state.value, "paused")
    s = Sandbox.connect(s.sandbox_id)
    eq((s.files.read("f"), s.commands.list()), ("kept", []))
    s.kill()
    s = Sandbox.create(timeout=1, lifecycle={"on_timeout": "pause", "auto_resume": True})
    s.files.write("f", "kept")
    until(lambda: s.get_info().state.value == "paused", "the pause")
    eq(s.files.read("f"), "kept", "a request resumes it")
    s.kill()


def old():
    """What the oldest SDK that is supported can do."""
    s = Sandbox.create(metadata={"a": "b c"}, allow_internet_access=False)
    try:
        eq(s.commands.run("echo hi").stdout, "hi\n")
        s.files.write("f", "x")
        eq(s.files.read("f"), "x")
        eq(s.get_info().metadata, {"a": "b c"})
        eq(Sandbox.connect(s.sandbox_id).files.read("f"), "x")
    finally:
        eq(s.kill(), True)


async def with_async():
    s = await AsyncSandbox.create()
    try:
        r = await asyncio.gather(*[s.commands.run(f"echo {n}") for n in range(30)])
        eq([x.stdout for x in r], [f"{n}\n" for n in range(30)])
        seen = []
        h = await s.commands.run("for i in 1 2 3; do echo $i; sleep 0.1; done", background=True, on_stdout=seen.append)
        eq((await h.wait()).stdout, "1\n2\n3\n")
        eq("".join(seen), "1\n2\n3\n")
        await s.files.make_dir("w")
        events = []
        watch = await s.files.watch_dir("w", on_event=lambda e: events.append((e.type.value, e.name)))
        await s.files.write("w/q", "1")
        for _ in range(100):
            if ("create", "q") in events:
                break
            await asyncio.sleep(0.1)
        assert ("create", "q") in events, events
        await watch.stop()
        data = []
        t = await s.pty.create(size=e2b.PtySize(24, 80), on_data=data.append)
        await s.pty.resize(t.pid, e2b.PtySize(30, 100))
        await s.pty.send_stdin(t.pid, b"echo $((6*7)); stty size; exit 4\n")
        try:
            await t.wait()
            raise AssertionError("the terminal ended without a status")
        except e2b.CommandExitException as e:
            eq(e.exit_code, 4)
        text = b"".join(data)
        assert b"42" in text and b"30 100" in text, text
        # The sandbox is killed while a command runs.
        h = await s.commands.run("sleep 1000", background=True)
        await s.kill()
        try:
            await h.wait()
            raise AssertionError("the command of a killed sandbox ended well")
        except e2b.CommandExitException as e:
            raise AssertionError(f"the command ended by itself: {e}") from e
        except e2b.SandboxException:
            pass
    finally:
        await s.kill()


def ports():
    base = os.environ["E2B_SANDBOX_URL"]

    def get(s, port, path="/", **headers):
        r = urllib.request.Request(base + path, headers={"E2b-Sandbox-Id": s.sandbox_id, "E2b-Sandbox-Port": str(port),
                                                         **headers})
        try:
            with urllib.request.urlopen(r) as f:
                return f.status, f.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    server = "cd /tmp; echo hello >index.html; exec python3 -m http.server 8000"
    s = Sandbox.create()
    private = Sandbox.create(network={"allow_public_traffic": False})
    try:
        for x in (s, private):
            x.commands.run(server, background=True)
        until(lambda: get(s, 8000)[0] == 200, "the server")
        eq(get(s, 8000), (200, "hello\n"))
        status, text = get(s, 8001)
        eq((status, "port is not open" in text), (502, True))
        status, text = get(s, 49983, "/metrics")
        eq(status, 401, "the data plane without its token")
        eq(get(private, 8000)[0], 403)
        token = {"E2b-Traffic-Access-Token": private.traffic_access_token}
        until(lambda: get(private, 8000, **token)[0] == 200, "the private server")
    finally:
        s.kill()
        private.kill()
    status, text = get(s, 8000)
    eq((status, "was not found" in text), (502, True))


if __name__ == "__main__":
    area = {"commands": commands, "files": files, "lifecycle": lifecycle, "cold": cold, "old": old, "ports": ports,
            "async": lambda: asyncio.run(with_async())}[sys.argv[1]]
    area()
    done()
