# SPDX-License-Identifier: Apache-2.0
"""surface.py sync|async - call every public method of e2b and e2b-code-interpreter once

The methods are found by introspection. The program fails if it did not call one of them itself, and prints
all of them, so that the test can look for them in the documentation.
"""
import asyncio
import contextvars
import enum
import functools
import inspect
import os
import sys
import tempfile

import e2b
import e2b_code_interpreter as ci
from e2b.template.main import TemplateBuilder
from expect import done, eq

ASYNC = sys.argv[1] == "async"
# Classes with public methods that do not use the service.
LOCAL = {"ApiClient", "ConnectionConfig", "VolumeConnectionConfig", "ReadyCmd", "EntryInfo", "WriteInfo", "TemplateBase",
         "Context", "Execution", "ExecutionError", "Logs", "Result"}
INSIDE = contextvars.ContextVar("a method of the SDK is running", default=False)
WANTED, CALLED = set(), set()
NAME = f"surface_{sys.argv[1]}"


class Recorder:
    """A method that notes that the program called it; calls of the SDK itself do not count."""

    def __init__(self, key, method):
        self.key, self.method = key, method

    def __get__(self, thing, kind=None):
        bound = self.method.__get__(thing, kind) if hasattr(self.method, "__get__") else self.method
        return functools.partial(self.run, bound)

    def run(self, bound, *args, **kw):
        if not INSIDE.get():
            CALLED.add(self.key)
        token = INSIDE.set(True)
        try:
            result = bound(*args, **kw)
        finally:
            INSIDE.reset(token)
        return self.later(result) if inspect.iscoroutine(result) else result

    @staticmethod
    async def later(coroutine):
        token = INSIDE.set(True)
        try:
            return await coroutine
        finally:
            INSIDE.reset(token)


def methods(kind):
    return {n for n in dir(kind) if not n.startswith("_") and callable(getattr(kind, n)) and not inspect.isclass(getattr(kind, n))}


def watch(kind):
    """Has all calls of public methods of a class noted."""
    for name in methods(kind):
        key = (kind.__name__, name)
        if key not in WANTED:
            WANTED.add(key)
            setattr(kind, name, Recorder(key, inspect.getattr_static(kind, name)))


def exported():
    """The classes of both packages whose methods use the service, of this flavour."""
    twins = {n for n in dir(ci) if n.startswith("Async")}
    for name in dir(ci):
        kind = getattr(ci, name)
        if not inspect.isclass(kind) or name in LOCAL or not kind.__module__.startswith("e2b") or \
                issubclass(kind, (BaseException, dict, str, enum.Enum)):
            continue
        # A class without a twin is that of both.
        mine = name.startswith("Async") == ASYNC if name in twins or f"Async{name}" in twins or name == "Git" else True
        if mine and methods(kind):
            yield kind


async def x(value):
    return await value if inspect.isawaitable(value) else value


async def until(condition, what):
    for _ in range(300):
        if await condition():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"not within 30 s: {what}")


async def fails(call, text):
    """Checks that a call raises an error with this text."""
    try:
        await x(call())
    except Exception as e:  # pylint: disable=broad-except
        assert text in str(e), f"{text!r} is not in {e!r}"
        return
    raise AssertionError(f"no error with {text!r}")


def kinds():
    prefix = "Async" if ASYNC else ""
    return [getattr(ci, prefix + n) for n in ("Sandbox", "Volume", "Template", "Secret")]


async def lifecycle(s):
    Sandbox = kinds()[0]
    info = await x(s.get_info())
    eq((info.sandbox_id, await x(s.is_running())), (s.sandbox_id, True))
    await x(s.set_timeout(600))
    eq((await x(Sandbox.connect(s.sandbox_id))).sandbox_id, s.sandbox_id)
    eq(len(await x(Sandbox.list(limit=10).next_items())) > 0, True)
    eq((await x(s.get_metrics()))[0].cpu_count > 0, True)
    eq(s.get_host(80).startswith("80-" + s.sandbox_id), True)
    assert "signature" in await x(s.download_url("f")) and "signature" in await x(s.upload_url("f"))
    await x(s.update_network({"deny_out": ["0.0.0.0/0"]}))
    eq(await x(s.pause()), True)
    await x(s.connect())
    await x(s.beta_pause())
    await x(s.connect())
    snapshot = await x(s.create_snapshot())
    eq([i.snapshot_id for i in await x(s.list_snapshots().next_items())], [snapshot.snapshot_id])
    eq(await x(Sandbox.delete_snapshot(snapshot.snapshot_id)), True)
    for copy in await x(s.fork(count=1)):
        eq(await x(copy.kill()), True)
    eq(s.get_mcp_url().endswith("/mcp"), True)
    await x(s.commands.run("mkdir /etc/mcp-gateway; echo -n t >/etc/mcp-gateway/.token", user="root"))
    eq(await x(s.get_mcp_token()), "t")


async def files(s):
    f = s.files
    eq((await x(f.write("a", "1"))).path, "/home/user/a")
    eq(len(await x(f.write_files([{"path": "b", "data": "2"}, {"path": "c", "data": "3"}]))), 2)
    eq((await x(f.read("a")), (await x(f.get_info("a"))).size, await x(f.exists("a"))), ("1", 1, True))
    eq((await x(f.make_dir("d")), sorted(e.name for e in await x(f.list("d")))), (True, []))
    await x(f.rename("a", "d/a"))
    await x(f.remove("b"))
    seen = []
    watcher = await x(f.watch_dir("d", on_event=seen.append) if ASYNC else f.watch_dir("d"))
    await x(f.write("d/new", "x"))

    async def came():
        if not ASYNC:
            seen.extend(watcher.get_new_events())
        return any(e.name == "new" for e in seen)
    await until(came, "the change")
    await x(watcher.stop())


async def commands(s):
    c = s.commands
    eq((await x(c.run("echo hi"))).stdout, "hi\n")
    h = await x(c.run("cat", background=True, stdin=True))
    eq(h.pid in [p.pid for p in await x(c.list())], True)
    again = await x(c.connect(h.pid))
    await x(c.send_stdin(h.pid, "1\n"))
    await x(h.send_stdin("2\n"))
    if ASYNC:
        stream = c.stream_input(h.pid)
        await stream.send("3\n")
        await stream.close()
    else:
        c.stream_input(h.pid, ["3\n"])
    await x(c.close_stdin(h.pid))
    eq((await x(h.wait())).stdout, "1\n2\n3\n")
    await x(again.disconnect())
    h = await x(c.run("cat", background=True, stdin=True))
    await x(h.close_stdin())
    eq((await x(h.wait())).exit_code, 0)
    for end in (lambda h: h.kill(), lambda h: c.kill(h.pid)):
        eq(await x(end(await x(c.run("sleep 1000", background=True)))), True)


async def terminals(s):
    p, size, data = s.pty, e2b.PtySize(24, 80), []
    t = await x(p.create(size, on_data=data.append) if ASYNC else p.create(size))
    await x(p.resize(t.pid, e2b.PtySize(30, 100)))
    again = await x(p.connect(t.pid, on_data=data.append) if ASYNC else p.connect(t.pid))
    if ASYNC:
        stream = p.stream_input(t.pid)
        await stream.send(b"stty size\n")
        await stream.close()
    else:
        p.stream_input(t.pid, [b"stty size\n"])
    await x(p.send_stdin(t.pid, b"exit\n"))
    if ASYNC:
        eq((await t.wait()).exit_code, 0)
        assert b"30 100" in b"".join(data), data
    else:
        out = []
        eq(t.wait(on_pty=out.append).exit_code, 0)
        assert b"30 100" in b"".join(out), out
    await x(again.disconnect())
    t = await x(p.create(size, on_data=data.append) if ASYNC else p.create(size))
    eq(await x(p.kill(t.pid)), True)


async def git(s):
    g = s.git
    await x(g.configure_user("a", "a@example.org"))
    await x(g.set_config("init.defaultBranch", "main"))
    eq(await x(g.get_config("init.defaultBranch")), "main")
    await x(g.init("up.git", bare=True, initial_branch="main"))
    await x(g.clone("file:///home/user/up.git", "work"))
    await x(s.files.write("work/f", "1"))
    await x(g.add("work"))
    await x(g.commit("work", "first"))
    await x(g.push("work", remote="origin", branch="main"))
    await x(g.pull("work", remote="origin", branch="main"))
    await x(g.create_branch("work", "side"))
    await x(g.checkout_branch("work", "main"))
    eq(sorted((await x(g.branches("work"))).branches), ["main", "side"])
    await x(g.delete_branch("work", "side"))
    await x(g.remote_add("work", "other", "https://example.org/x.git"))
    eq(await x(g.remote_get("work", "other")), "https://example.org/x.git")
    await x(s.files.write("work/f", "2"))
    eq((await x(g.status("work"))).has_changes, True)
    await x(g.restore("work", ["f"]))
    await x(g.reset("work", mode="hard"))
    eq((await x(g.status("work"))).has_changes, False)
    await x(g.dangerously_authenticate("u", "p", host="example.org"))


async def cells(s):
    context = await x(s.create_code_context(language="python"))
    eq((await x(s.run_code("y = 6 * 7\ny", context=context))).text, "42")
    eq(context.id in [c.id for c in await x(s.list_code_contexts())], True)
    await x(s.restart_code_context(context))
    await x(s.remove_code_context(context))


async def volumes():
    Volume = kinds()[1]
    v = await x(Volume.create(NAME))
    eq((await x(Volume.get_info(v.volume_id))).name, NAME)
    eq((await x(Volume.connect(v.volume_id))).name, NAME)
    # As a method of the class, `list` means all volumes, and `get_info` one of them.
    eq(NAME in [i.name for i in await x(Volume.list())], True)
    await x(v.make_dir("/d"))
    await x(v.write_file("/d/f", "x"))
    eq(([e.name for e in await x(v.list("/d"))], (await x(v.get_info("/d/f"))).size), (["f"], 1))
    eq((await x(v.read_file("/d/f")), await x(v.exists("/d/f"))), ("x", True))
    await x(v.update_metadata("/d/f", mode=0o600))
    await x(v.remove("/d/f"))
    eq(await x(Volume.destroy(v.volume_id)), True)


async def secrets():
    Secret = kinds()[3]
    await x(Secret.create(NAME, "value"))
    eq((await x(Secret.exists(NAME)), (await x(Secret.get_info(NAME))).name), (True, NAME))
    await x(Secret.update(NAME, "other"))
    eq(NAME in [i.name for i in await x(Secret.list().next_items())], True)
    eq(Secret.fill(NAME), "${e2b.secrets." + NAME + "}")
    await fails(lambda: kinds()[0].create(iam={"tokens": {"t": Secret.iam_token(audience="a", token_type="JWT-SVID")}}), "iam")
    eq(await x(Secret.destroy(NAME)), True)


def stubs():
    """A directory with programs that templates need, which only note their arguments."""
    path = tempfile.mkdtemp(prefix="warren-test-")
    for name in ("apt-get", "pip", "npm", "bun", "mcp-gateway", "devcontainer"):
        with open(f"{path}/{name}", "w", encoding="ascii") as f:
            f.write('#!/bin/sh\necho "${0##*/} $@" >>/home/user/log\n')
        os.chmod(f"{path}/{name}", 0o755)
    return path


async def templates():
    Sandbox, _, Template, _ = kinds()
    new = Template
    for variant in ("alpine", "arch", "bun", "debian", "fedora", "node", "python", "ubuntu"):
        assert "fromImage" in await x(Template.to_json(getattr(new(), f"from_{variant}_image")()))
    assert Template.to_dockerfile(new().from_image("debian:stable").run_cmd("true")).startswith("FROM debian:stable")
    for private in (new().from_aws_registry("x/y", "a", "b", "c"), new().from_gcp_registry("x/y", {}),
                    new().from_image("x/y", username="u", password="p")):
        await fails(lambda t=private: Template.build(t, NAME), "warren image pull")
    programs = new(file_context_path=stubs()).from_base_image()
    programs = programs.copy_items([{"src": n, "dest": "/home/user/bin/", "mode": 0o755}
                                    for n in ("apt-get", "pip", "npm", "bun")])
    programs = programs.copy("mcp-gateway", "/home/user/bin/", mode=0o755).copy("devcontainer", "/home/user/bin/", mode=0o755)
    programs = programs.run_cmd("for h in /root /home/user; do echo 'PATH=/home/user/bin:$PATH' >$h/.bash_profile; done; "
                                "touch /home/user/log; chmod 666 /home/user/log", user="root")
    await x(Template.build(programs, "mcp-gateway"))
    await x(Template.build(new().from_template("mcp-gateway").run_cmd("true"), "devcontainer"))
    await x(Template.build(new().from_template("mcp-gateway").add_mcp_server("exa"), f"{NAME}-servers"))
    prebuilt = new().from_template("devcontainer").beta_dev_container_prebuild("/home/user")
    await x(Template.build(prebuilt, f"{NAME}-prebuilt"))
    started = new().from_template("devcontainer").beta_set_dev_container_start("/home/user")
    assert "devcontainer up" in await x(Template.to_json(started))
    eq("fromDockerfile" in await x(Template.to_json(new().from_dockerfile("FROM debian:stable\nRUN true"))), False)
    ready = (e2b.wait_for_port(1), e2b.wait_for_url("http://127.0.0.1:1"), e2b.wait_for_process("x"), e2b.wait_for_timeout(1000))
    for one in ready:
        assert "readyCmd" in await x(Template.to_json(new().from_base_image().set_ready_cmd(one)))
    steps = new().skip_cache().from_template("mcp-gateway").apt_install("a").pip_install("b").npm_install("c", g=True)
    steps = steps.bun_install("d").make_dir("m").run_cmd("git init --bare -q r.git; touch m/x").git_clone("file:///home/user/r.git", "w")
    steps = steps.rename("m/x", "m/y").make_symlink("m/y", "l").remove("r.git", recursive=True).skip_cache()
    steps = steps.set_envs({"A": "b"}).set_workdir("/home/user/m").set_user("user")
    lines = []
    background = await x(Template.build_in_background(
        steps.set_start_cmd("touch /tmp/started", e2b.wait_for_file("/tmp/started")), NAME, on_build_logs=lines.append))

    async def ready_now():
        state = await x(Template.get_build_status(background))
        assert state.status.value != "error", [e.message for e in state.log_entries]
        return state.status.value == "ready"
    await until(ready_now, "the build")
    eq((await x(Template.exists(NAME)), await x(Template.alias_exists(NAME))), (True, True))
    await x(Template.assign_tags(f"{NAME}:default", ["v1"]))
    eq(sorted(t.tag for t in await x(Template.get_tags(background.template_id))), ["default", "v1"])
    await x(Template.remove_tags(NAME, ["v1"]))
    s = await x(Sandbox.create(NAME))
    out = (await x(s.commands.run("pwd; echo $A; cat ~/log; ls ~ | tr '\\n' ' '; ls /tmp/started"))).stdout
    eq([line.strip() for line in out.splitlines()],
       ["/home/user/m", "b", "apt-get update", "apt-get install -y a", "pip install b", "npm install -g c", "bun install d",
        "bin l log m w /tmp/started"])
    await x(s.kill())


async def main():
    for kind in exported():
        watch(kind)
    watch(TemplateBuilder)
    Sandbox = kinds()[0]
    s = await x(Sandbox.create())
    for name in dir(Sandbox):
        part = getattr(s, name) if isinstance(inspect.getattr_static(Sandbox, name), property) else None
        kind = type(part)
        if kind.__module__.startswith("e2b") and kind.__name__ not in LOCAL:
            watch(kind)
    try:
        for part in (lifecycle, files, commands, terminals, git, cells):
            await part(s)
    finally:
        eq(await x(s.kill()), True)
    for part in (volumes, secrets, templates):
        await part()
    client = e2b.E2B(api_key=os.environ["E2B_API_KEY"])
    eq(await x((client.AsyncSandbox if ASYNC else client.Sandbox).list().next_items()), [])
    eq(WANTED - CALLED, set(), "methods that were not called")
    for kind, name in sorted(WANTED):
        print(f"method {kind} {name}")
    done()


if __name__ == "__main__":
    asyncio.run(main())
