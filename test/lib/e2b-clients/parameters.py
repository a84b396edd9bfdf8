# SPDX-License-Identifier: Apache-2.0
"""parameters.py sync|async - use every parameter of every public method of e2b and e2b-code-interpreter

The parameters are found by introspection. One counts as used when the program, or surface.py, calls the method
with a value that is not the default. The program fails if one is missing, so a new parameter of a newer SDK is
noticed. The options that all methods share (`**opts`) count once for each method, and each of them once.
"""
import asyncio
import inspect
import logging
import os
import sys
import tempfile

import e2b
import surface
from e2b.connection_config import ApiParams
from expect import done, eq
from surface import ASYNC, Recorder, fails, kinds, until, x

USED, OPTIONS = set(), set()
KEY, URL = os.environ["E2B_API_KEY"], os.environ["E2B_API_URL"]
COMMON = {"request_timeout": 50.0, "retries": 2, "headers": {"X-Note": "1"}, "api_headers": {"X-Other": "2"}, "api_key": KEY,
          "validate_api_key": False, "api_url": URL, "sandbox_url": URL, "http_version": "1.1", "domain": "box.localhost",
          "debug": False}
T = {"request_timeout": 50.0}
NAME = f"parameters_{sys.argv[1]}"


def note(key, bound, args, kw):
    """Notes the parameters of a call that are not the default."""
    s = inspect.signature(bound)
    if next(iter(s.parameters), "") == "self":  # a method of the class and of its objects
        args = (None, *args)
    try:
        given = s.bind(*args, **kw)
    except TypeError:  # a call of the class, whose method has other parameters first
        given = s.bind_partial(None, **kw)
    for name, value in given.arguments.items():
        p = given.signature.parameters[name]
        if p.kind is p.VAR_KEYWORD:
            OPTIONS.update(value)
            USED.add((*key, name))
        elif p.default is p.empty or value is not p.default:
            USED.add((*key, name))


class ParameterRecorder(Recorder):
    def run(self, bound, *args, **kw):
        if not surface.INSIDE.get():
            note(self.key, bound, args, kw)
        return super().run(bound, *args, **kw)


def parameters():
    """All parameters of the methods that are watched."""
    for (kind, name), method in WATCHED.items():
        try:
            signatures = [inspect.signature(method)]
        except ValueError:
            continue
        for s in signatures:
            for p in s.parameters.values():
                if p.name not in ("self", "cls") and p.kind is not p.VAR_POSITIONAL:
                    yield kind, name, p.name


WATCHED = {}


def watch(kind):
    for name in surface.methods(kind):
        key = (kind.__name__, name)
        if key not in WATCHED:
            WATCHED[key] = getattr(kind, name)
            surface.WANTED.add(key)
            setattr(kind, name, ParameterRecorder(key, inspect.getattr_static(kind, name)))


async def sandboxes():
    Sandbox, Volume, _, Secret = kinds()
    volume = await x(Volume.create(NAME, **COMMON))
    s = await x(Sandbox.create("base", timeout=600, metadata={"m": NAME}, envs={"E": "1"}, secure=True, allow_internet_access=False,
                               network={"deny_out": ["0.0.0.0/0"], "allow_public_traffic": False},
                               lifecycle={"on_timeout": "pause", "auto_resume": True}, volume_mounts={"/mnt/v": volume},
                               idempotency_key=NAME.replace("_", "-"), logger=logging.getLogger(NAME), **COMMON))
    try:
        info = await x(s.get_info(**T))
        eq((info.metadata, info.lifecycle["on_timeout"]), ({"m": NAME}, "pause"))
        eq((await x(s.commands.run("echo $E; ls -d /mnt/v"))).stdout, "1\n/mnt/v\n")
        eq(await x(s.is_running(**T)), True)
        await x(s.set_timeout(500, **T))
        # The service takes a request for itself that has the form of one to a proxy.
        eq((await x(Sandbox.get_info(s.sandbox_id, proxy=URL))).sandbox_id, s.sandbox_id)
        await x(s.update_network({"deny_out": ["10.0.0.0/8"]}, **T))
        found = Sandbox.list(query=e2b.SandboxQuery(metadata={"m": NAME}), limit=1, order="asc", **T)
        eq([i.sandbox_id for i in await x(found.next_items())], [s.sandbox_id])
        start = info.started_at
        await x(s.get_metrics(start=start, end=start.replace(year=start.year + 1), **T))
        await x(s.pause(keep_memory=False, strict=True, **T))
        await x(s.connect(timeout=400, **T))
        await x(s.pause(mode="filesystem", **T))
        await x(s.connect(timeout=400, on_resume="reboot", **T))
        await x(s.beta_pause(keep_memory=False, **T))
        await x(s.connect())
        await x(s.beta_pause(mode="filesystem", **T))
        await x(Sandbox.connect(s.sandbox_id, timeout=400, **COMMON))
        snapshot = await x(s.create_snapshot(name=NAME, mode="filesystem", **T))
        eq([i.snapshot_id for i in await x(s.list_snapshots(limit=5, name=NAME, **T).next_items())], [snapshot.snapshot_id])
        eq(await x(Sandbox.delete_snapshot(snapshot.snapshot_id, **T)), True)
        for copy in await x(s.fork(timeout=60, count=2, **T)):
            await x(copy.kill(**T))
        for make in (s.download_url, s.upload_url):
            url = await x(make("f", user="root", use_signature_expiration=60))
            assert "signature_expiration=" in url and "username=root" in url, url
    finally:
        eq(await x(s.kill(**T)), True)
    eq(await x(Volume.destroy(volume.volume_id, **T)), True)
    await fails(lambda: Sandbox.create(iam={"tokens": {"t": Secret.iam_token(audience="a", token_type="JWT-SVID")}}), "iam")


async def files(s):
    f, d, W = s.files, "/root/p", {"user": "root", "request_timeout": 50.0}
    eq(await x(f.make_dir(d, **W)), True)
    await x(f.write(f"{d}/a", "1", gzip=True, use_octet_stream=True, metadata={"k": "v"}, **W))
    await x(f.write_files([{"path": f"{d}/s/b", "data": "2"}], gzip=True, use_octet_stream=True, metadata={"k": "w"}, **W))
    eq(bytes(await x(f.read(f"{d}/a", format="bytes", gzip=True, **W))), b"1")
    stream = await x(f.read(f"{d}/a", format="stream", stream_idle_timeout=30, **W))
    eq(b"".join([c async for c in stream] if ASYNC else list(stream)), b"1")
    info = await x(f.get_info(f"{d}/a", **W))
    eq((info.owner, info.metadata), ("root", {"k": "v"}))
    eq(sorted(e.name for e in await x(f.list(d, depth=2, **W))), ["a", "b", "s"])
    eq((await x(f.rename(f"{d}/a", f"{d}/c", **W))).name, "c")
    eq(await x(f.exists(f"{d}/c", **W)), True)
    seen, how = [], {"recursive": True, "include_entry": True, "allow_network_mounts": True, **W}
    left = {"on_event": seen.append, "on_exit": lambda *_: None, "timeout": 50} if ASYNC else {}
    watcher = await x(f.watch_dir(d, **left, **how))
    await x(f.write(f"{d}/s/n", "x", user="root"))

    async def came():
        if not ASYNC:
            seen.extend(watcher.get_new_events(**T))
        return any(e.name == "s/n" and e.entry for e in seen)
    await until(came, "the change")
    await x(watcher.stop() if ASYNC else watcher.stop(**T))
    await x(f.remove(d, **W))


async def commands(s):
    c, out, err = s.commands, [], []
    r = await x(c.run("echo $A; pwd; id -un; echo e >&2", envs={"A": "b"}, user="root", cwd="/tmp", on_stdout=out.append, on_stderr=err.append,
                      timeout=50, **T))
    eq((r.stdout, "".join(out), "".join(err)), ("b\n/tmp\nroot\n", "b\n/tmp\nroot\n", "e\n"))
    taken = {"retain_output": False}
    on = {"on_stdout": out.append, "on_stderr": err.append} if ASYNC else {}
    h = await x(c.run("cat", background=True, stdin=True, **taken, **T))
    again = await x(c.connect(h.pid, timeout=50, **taken, **on, **T))
    eq(h.pid in [p.pid for p in await x(c.list(**T))], True)
    await x(c.send_stdin(h.pid, "1\n", **T))
    await x(h.send_stdin("2\n", **T))
    if ASYNC:
        stream = c.stream_input(h.pid, timeout=50)
        await stream.send("3\n")
        await stream.close()
    else:
        c.stream_input(h.pid, ["3\n"], timeout=50)
    await x(again.disconnect())
    await x(c.close_stdin(h.pid, **T))
    await x(h.wait() if ASYNC else h.wait(on_stdout=out.append, on_stderr=err.append, on_pty=out.append))
    h = await x(c.run("cat", background=True, stdin=True))
    await x(h.close_stdin(**T))
    await x(h.wait())
    h = await x(c.run("sleep 1000", background=True))
    eq(await x(c.kill(h.pid, **T)), True)


async def terminals(s):
    p, size, data = s.pty, e2b.PtySize(24, 80), []
    on = {"on_data": data.append} if ASYNC else {}
    t = await x(p.create(size, user="root", cwd="/tmp", envs={"A": "b"}, timeout=50, **on, **T))
    await x(p.resize(t.pid, e2b.PtySize(30, 100), **T))
    again = await x(p.connect(t.pid, timeout=50, **on, **T))
    text = [b"echo $A-$(id -un)-$PWD\n"]
    if ASYNC:
        stream = p.stream_input(t.pid, timeout=50)
        await stream.send(text[0])
        await stream.close()
    else:
        p.stream_input(t.pid, text, timeout=50)
    await x(p.send_stdin(t.pid, b"exit\n", **T))
    await x(t.wait() if ASYNC else t.wait(on_pty=data.append))
    assert b"b-root-/tmp" in b"".join(data), data
    await x(again.disconnect())
    t = await x(p.create(size, **on))
    eq(await x(p.kill(t.pid, **T)), True)


async def git(s):
    g, G = s.git, {"envs": {"X": "1"}, "user": "user", "cwd": "/home/user", "timeout": 50.0, "request_timeout": 50.0}
    login = {"username": "u", "password": "p"}
    await x(g.configure_user("a", "a@example.org", scope="global", path=None, **G))
    await x(g.init("pu.git", bare=True, initial_branch="main", **G))
    await x(g.init("p", initial_branch="main", **G))
    await x(g.configure_user("b", "b@example.org", scope="local", path="p", **G))
    await x(g.set_config("x.y", "1", scope="local", path="p", **G))
    eq(await x(g.get_config("x.y", scope="local", path="p", **G)), "1")
    await x(s.files.write("p/f", "1"))
    await x(g.add("p", files=["f"], all=False, **G))
    await x(g.commit("p", "first", author_name="n", author_email="n@example.org", allow_empty=True, **G))
    await x(g.remote_add("p", "origin", "file:///home/user/pu.git", fetch=True, overwrite=True, **G))
    eq(await x(g.remote_get("p", "origin", **G)), "file:///home/user/pu.git")
    await x(g.push("p", remote="origin", branch="main", set_upstream=False, **G))
    for call in (lambda: g.push("p", remote="origin", branch="main", **login, **G), lambda: g.pull("p", remote="origin", branch="main", **login, **G),
                 lambda: g.clone("file:///home/user/pu.git", "no", **login, dangerously_store_credentials=True, **G)):
        await fails(call, "http")  # credentials need such an address
    await x(g.pull("p", remote="origin", branch="main", **G))
    await x(g.clone("file:///home/user/pu.git", "q", branch="main", depth=1, **G))
    await x(g.create_branch("p", "side", **G))
    await x(g.checkout_branch("p", "main", **G))
    eq(sorted((await x(g.branches("p", **G))).branches), ["main", "side"])
    await x(g.delete_branch("p", "side", force=True, **G))
    await x(s.files.write("p/f", "2"))
    await x(g.restore("p", paths=["f"], staged=True, worktree=True, source="HEAD", **G))
    await x(g.reset("p", target="HEAD", paths=["f"], **G))
    await x(g.reset("p", mode="hard", target="HEAD", **G))
    eq((await x(g.status("p", **G))).has_changes, False)
    await x(g.dangerously_authenticate("u", "p", host="example.org", protocol="http", **G))


async def cells(s):
    c = await x(s.create_code_context(cwd="/tmp", language="python", **T))
    seen = []
    on = {f"on_{n}": seen.append for n in ("stdout", "stderr", "result", "error")}
    code = "import os, sys\nprint(os.environ['A'], os.getcwd())\nprint('e', file=sys.stderr)\n1"
    eq((await x(s.run_code(code, context=c, envs={"A": "b"}, timeout=50, **on, **T))).text, "1")
    eq((await x(s.run_code("raise ValueError('x')", language="python", **on))).error.name, "ValueError")
    eq(len(seen), 4)
    await x(s.restart_code_context(c))
    await x(s.remove_code_context(c))


async def volumes():
    Volume = kinds()[1]
    v = await x(Volume.create(NAME, **T))
    eq(((await x(Volume.connect(v.volume_id, **T))).name, (await x(Volume.get_info(v.volume_id, **T))).name), (NAME, NAME))
    eq(NAME in [i.name for i in await x(Volume.list(**T))], True)
    A = {"uid": 1234, "gid": 5, "mode": 0o700, **T}
    await x(v.make_dir("/a/b", force=True, **A))
    await x(v.write_file("/a/c/f", "x", force=True, **A))
    stream = await x(v.read_file("/a/c/f", format="stream", stream_idle_timeout=30, **T))
    eq(b"".join([c async for c in stream] if ASYNC else list(stream)), b"x")
    await x(v.update_metadata("/a/c/f", uid=1, gid=2, mode=0o640, **T))
    i = await x(v.get_info("/a/c/f"))
    eq((i.uid, i.gid, i.mode & 0o777), (1, 2, 0o640))
    eq(sorted(e.name for e in await x(v.list("/a", depth=2, **T))), ["b", "c", "f"])
    eq(await x(v.exists("/a/c/f", **T)), True)
    await x(v.remove("/a/c/f", **T))
    eq(await x(Volume.destroy(v.volume_id, **T)), True)


async def secrets():
    Secret = kinds()[3]
    await fails(lambda: Secret.create(NAME, "v", metadata={"a": "b"}, **T), "metadata")
    await x(Secret.create(NAME, "v", **T))
    await fails(lambda: Secret.update(NAME, "w", metadata={"a": "b"}, **T), "metadata")
    await x(Secret.update(NAME, "w", **T))
    await x(Secret.get_info(NAME, **T))
    eq(await x(Secret.exists(NAME, **T)), True)
    eq(NAME in [i.name for i in await x(Secret.list(limit=100, **T).next_items())], True)
    eq(await x(Secret.destroy(NAME, **T)), True)


def steps_of(new, context):
    """A template with every parameter of every step."""
    t = new(file_context_path=context, file_ignore_patterns=["*.no"]).from_template("mcp-gateway")
    t = t.copy("one", "/home/user/o/", force_upload=True, user="root:user", mode=0o640, resolve_symlinks=True, gzip=False)
    t = t.copy_items([{"src": "one", "dest": "/home/user/two", "forceUpload": True, "user": "root", "mode": 0o600, "resolveSymlinks": True, "gzip": False}])
    t = t.apt_install(["a"], no_install_recommends=True, fix_missing=True).pip_install(["b"], g=False)
    t = t.npm_install(["c"], g=True, dev=True).bun_install(["d"], g=True, dev=True)
    t = t.make_dir("md", mode=0o700, user="root").make_symlink("md", "ml", user="root", force=True)
    t = t.run_cmd(["git init -q -b m r", "cd r && git -c user.name=a -c user.email=b commit -q --allow-empty -m 1"], user="user")
    t = t.git_clone("file:///home/user/r", path="w", branch="m", depth=1, user="user")
    t = t.rename("md", "mx", force=True, user="root").remove("ml", force=True, recursive=True, user="root")
    t = t.set_envs({"A": "b"}).set_workdir("/home/user/w").set_user("user").skip_cache().run_cmd("true")
    return t.set_start_cmd("touch /tmp/started", ready_cmd="test -f /tmp/started")


async def templates():
    Sandbox, _, Template, _ = kinds()
    new, context, lines = Template, tempfile.mkdtemp(prefix="warren-test-"), []
    with open(f"{context}/one", "w", encoding="ascii") as f:
        f.write("1")
    for name in ("alpine", "arch", "bun", "debian", "fedora", "node", "ubuntu"):
        assert ":other" in await x(Template.to_json(getattr(new(), f"from_{name}_image")(variant="other")))
    assert ":other" in await x(Template.to_json(new().from_python_image(version="other")))
    await fails(lambda: Template.build(new().from_aws_registry("x/y", access_key_id="a", secret_access_key="b", region="c"), NAME), "warren image pull")
    await fails(lambda: Template.build(new().from_gcp_registry("x/y", service_account_json={"a": "b"}), NAME), "warren image pull")
    await fails(lambda: Template.build(new().from_image("x/y", username="u", password="p"), NAME), "warren image pull")
    how = {"cpu_count": 1, "memory_mb": 512, "min_free_disk_mb": 100, "skip_cache": True, "on_build_logs": lines.append}
    made = await x(Template.build(steps_of(new, context), NAME, tags=["t1"], **how, **COMMON))
    assert any("git clone" in line.message for line in lines), lines
    await x(Template.build(new().from_base_image(), alias=f"{NAME}-old", **T))
    await x(Template.build_in_background(new().from_base_image(), alias=f"{NAME}-old", **T))
    later = await x(Template.build_in_background(steps_of(new, context), NAME, tags=["t2"], **how, **T))

    async def ready():
        state = await x(Template.get_build_status(later, logs_offset=1, **T))
        assert state.status.value != "error", [e.message for e in state.log_entries]
        return state.status.value == "ready"
    await until(ready, "the build")
    eq((await x(Template.exists(NAME, **T)), await x(Template.alias_exists(NAME, **T))), (True, True))
    await x(Template.assign_tags(f"{NAME}:t1", ["t3"], **T))
    eq(sorted(t.tag for t in await x(Template.get_tags(made.template_id, **T))), ["t1", "t2", "t3"])
    await x(Template.remove_tags(NAME, ["t3"], **T))
    servers = {"exa": {"apiKey": "k"}}
    await fails(lambda: Sandbox.create(mcp=servers, template="no-such-template"), "no-such-template")
    s = await x(Sandbox.create(f"{NAME}:t1", mcp=servers, **T))
    try:
        out = (await x(s.commands.run("cd /home/user; stat -c '%n %a %U:%G' o/one two mx; ls ml 2>&1; cat log; pwd; echo $A; cat o/one", user="root"))).stdout
        for text in ("o/one 640 root:user", "two 600 root:root", "mx 700", "mcp-gateway --config", "--no-install-recommends", "pip install --user b",
                     "npm install -g --save-dev c", "bun install -g --dev d"):
            assert text in out, f"{text!r} is not in {out}"
        info = await x(s.get_info())
        eq((info.cpu_count, info.memory_mb), (1, 512))
    finally:
        await x(s.kill())


async def pages():
    """The second page of each list."""
    Sandbox, _, _, Secret = kinds()
    boxes = [await x(Sandbox.create(metadata={"p": NAME})) for _ in range(2)]
    for n in "ab":
        await x(Secret.create(f"{NAME}_{n}", "v"))
        await x(boxes[0].create_snapshot())
    for start in (lambda **kw: Sandbox.list(limit=1, **kw), lambda **kw: boxes[0].list_snapshots(limit=1, **kw), lambda **kw: Secret.list(limit=1, **kw)):
        first = start()
        one = await x(first.next_items(**T))
        eq((len(one), first.has_next), (1, True))
        assert (await x(start(next_token=first.next_token).next_items(**T)))[0] != one[0]
    for snapshot in await x(boxes[0].list_snapshots().next_items()):
        await x(Sandbox.delete_snapshot(snapshot.snapshot_id))
    for n in "ab":
        await x(Secret.destroy(f"{NAME}_{n}"))
    for s in boxes:
        await x(s.kill())


async def main():
    surface.watch = watch
    surface.done = lambda: None
    await surface.main()
    s = await x(kinds()[0].create())
    try:
        for part in (files, commands, terminals, git, cells):
            await part(s)
    finally:
        await x(s.kill())
    for part in (sandboxes, volumes, secrets, templates, pages):
        await part()
    missing = sorted(set(parameters()) - USED)
    print("used", len(USED))
    eq(missing, [], "parameters that were not used")
    eq(sorted(set(ApiParams.__annotations__) - OPTIONS), [], "options that were not used")
    done()


if __name__ == "__main__":
    asyncio.run(main())
