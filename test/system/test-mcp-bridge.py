#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-mcp-bridge.py - warren mcp with a shared service and with a private one: operation and cleanup"""
import contextlib
import errno
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, ok, eq, scratch, warren, RUN_DIR, Skip, WARREN  # pylint: disable=wrong-import-position
from mcp_stdio import Bridge, environ, LEGACY, WAIT, run_alone  # pylint: disable=wrong-import-position
from serve_world import World, until, running, below, is_apart  # pylint: disable=wrong-import-position

STATE = tempfile.mkdtemp(prefix="warren-test-")  # state of private services, which are short-lived but have an image store
os.chmod(STATE, 0o755)
WORLD = []


def own(*options, **kw):
    """A bridge with a private service."""
    return Bridge(*options, env=environ(WARREN_STATE=STATE), **kw)


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as f:
            return f.read().strip()
    except OSError:
        return ""


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def leftovers():
    """Leftovers of private services: directories, sandboxes, locks, processes."""
    found = [p for pattern in (f"{STATE}/private/*", f"{RUN_DIR}/boxes/*", f"{RUN_DIR}/ids/*", f"{RUN_DIR}/engines/*",
                               f"{RUN_DIR}/kept/*") for p in glob.glob(pattern)]
    services = [pid for world in WORLD for pid in (world.warden, world.api)]
    found += [f"{comm(pid)} {pid}" for pid in below(os.getpid())
              if comm(pid).startswith("warren") and alive(pid) and pid not in services]
    return found


def nothing_left():
    until(lambda: not leftovers(), lambda: f"left: {leftovers()}")


def w():
    if not WORLD:
        WORLD.append(World())
    return WORLD[0]


def shared(*options, **kw):
    """A bridge with a shared service."""
    return Bridge(*options, env=environ(WARREN_HOST=f"unix:{w().socket}"), **kw)


def run(b, command, modern=False):
    r = b.tool("run_command", modern, command=command)["structuredContent"]
    eq(r["exit_code"], 0, f"{command}: {r}")
    return r["stdout"]


# -------------------------------------------------------------- private service


@test
def a_private_service_is_started_if_none_runs_and_leaves_nothing():
    for modern in (False, True):
        with own() as b:
            if not modern:
                b.initialize()
            run(b, "echo kept >/tmp/x", modern)
            eq(run(b, "cat /tmp/x", modern), "kept\n", "one sandbox for all calls")
            ok(leftovers(), "there is something that can be left")
            eq(b.end(), (0, b""))
        eq(leftovers(), [], "left when it has ended")


@test
def a_private_service_starts_only_when_it_is_needed():
    with own() as b:
        eq(b.end(), (0, b""))
        ok(not glob.glob(f"{STATE}/private/*"), "no service for no message")


@test
def a_private_service_serves_only_its_owner():
    def reach(uid):
        os.seteuid(uid)
        try:
            with socket.socket(socket.AF_UNIX) as s:
                return s.connect_ex(sock)
        finally:
            os.seteuid(0)
    with own() as b:
        b.initialize()
        [sock] = glob.glob(f"{STATE}/private/*/sock")
        eq((reach(0), reach(65534)), (0, errno.EACCES), "connections of the owner and of another user")
        eq(os.stat(os.path.dirname(sock)).st_mode & 0o777, 0o711, "mode of its directory")
    nothing_left()


@test
def a_killed_bridge_leaves_nothing_behind():
    with own() as b:
        b.initialize()
        run(b, "true")
        b.request("tools/call", {"name": "run_command", "arguments": {"command": "exec sleep 7531"}})
        until(lambda: running("sleep", "7531"), "the command does not run")
        b.process.kill()
        b.process.wait(WAIT)
    until(lambda: not running("sleep", "7531"), "the command still runs")
    nothing_left()


@test
def a_killed_process_group_leaves_nothing_behind():
    with own(start_new_session=True) as b:
        b.initialize()
        run(b, "true")
        os.killpg(b.process.pid, signal.SIGKILL)
        b.process.wait(WAIT)
    nothing_left()


@test
def a_private_service_removes_the_leftovers_of_a_killed_one():
    with own() as b:
        b.initialize()
        run(b, "true")
        service = [p for p in below(b.process.pid) if comm(p).startswith("warren-serve") and not is_apart(p)]
        ok(len(service) >= 2, f"processes of the service: {service}")
        b.process.send_signal(signal.SIGSTOP)
        try:
            for pid in service:
                with contextlib.suppress(ProcessLookupError):  # each process ends when the other one is killed
                    os.kill(pid, signal.SIGKILL)
            until(lambda: not any(alive(pid) for pid in service), "they are not killed")
        finally:
            b.process.kill()
        b.process.wait(WAIT)
    ok(glob.glob(f"{RUN_DIR}/boxes/*"), "a sandbox is left")
    with own() as b:
        b.initialize()
        eq(glob.glob(f"{RUN_DIR}/boxes/*"), [], "left of the killed one")
        run(b, "true")
    nothing_left()


@test
def several_bridges_do_not_interfere():
    bridges = [own() for _ in range(4)]
    try:
        for b in bridges:
            b.initialize()
        names = {run(b, "hostname") for b in bridges}
        eq(len(names), 4, "sandboxes")
    finally:
        for b in bridges:
            b.end()
    nothing_left()


@test
def sigterm_during_a_command_leaves_nothing_behind():
    with own() as b:
        b.initialize()
        b.request("tools/call", {"name": "run_command", "arguments": {"command": "exec sleep 7532"}})
        until(lambda: running("sleep", "7532"), "the command does not run")
        b.process.send_signal(signal.SIGTERM)
        eq(b.process.wait(WAIT), 0)
        ok(not running("sleep", "7532"), "the command still runs")
    nothing_left()


@test
def a_project_has_the_same_path_inside():
    with scratch() as d:
        with open(f"{d}/in", "w", encoding="ascii") as f:
            f.write("from outside\n")
        with own("--project", d) as b:
            b.initialize()
            eq(run(b, "pwd; cat in; echo from inside >out"), f"{d}\nfrom outside\n")
        with open(f"{d}/out", encoding="ascii") as f:
            eq(f.read(), "from inside\n")
    nothing_left()


@test
def options_that_need_a_service_are_refused_without_one():
    for options in (["--keep"], ["--sandbox", "mine"]):
        p = warren("mcp", *options, env=environ(WARREN_STATE=STATE))
        eq((p.returncode, p.stdout), (125, b""))
        ok(b"needs a service" in p.stderr and b"warren serve" in p.stderr, f"{p.stderr}")
    nothing_left()


@test
def a_bridge_works_without_a_home_and_reports_why_it_cannot_start():
    with Bridge(env={"PATH": os.environ["PATH"], "WARREN_STATE": STATE}) as b:
        b.initialize()
        run(b, "true")
    with Bridge(env=environ(WARREN_STATE="/proc/none")) as b:
        m = b.answer(b.request("initialize", {"protocolVersion": LEGACY}))
        ok("/proc/none" in m["error"]["message"] and "warren serve" in m["error"]["message"], f"{m}")
    nothing_left()


@test
def an_ordinary_user_has_a_private_service_too():
    home = tempfile.mkdtemp(prefix="warren-test-")
    project = f"{home}/project"
    user = {"env": {"PATH": os.environ["PATH"], "HOME": home}, "user": 65534, "group": 65534, "extra_groups": []}
    os.mkdir(project)
    for path in (home, project):
        os.chown(path, 65534, 65534)
    try:
        plain = subprocess.run([WARREN, "run", "--", "true"], capture_output=True, check=False, timeout=60, cwd="/", **user)
        if plain.returncode != 0:
            raise Skip(f"an ordinary user has no sandboxes here: {plain.stderr.decode()[-300:]}")
        with Bridge("--project", ".", cwd=project, **user) as b:
            b.initialize()
            eq(run(b, "id -u; pwd; echo inside >out"), f"0\n{project}\n")
            eq(b.tool("write_file", path="new", content="x")["structuredContent"]["path"], f"{project}/new")
            eq(b.tool("session_run", command="cat new")["structuredContent"]["stdout"], "x")
            r = b.tool("code_run", language="bash", code="echo code")
            eq(r["structuredContent"]["stdout"], "code\n")
            missing = [e["name"] for e in r["structuredContent"]["enforced"] if not e["enforced"]]
            eq(json.loads(r["content"][0]["text"]).get("not_enforced", ""), ", ".join(missing), "what the text says")
        eq(sorted((name, os.stat(f"{project}/{name}").st_uid) for name in os.listdir(project)), [("new", 65534), ("out", 65534)])
        eq(glob.glob(f"{home}/.local/share/warren/private/*"), [], "left")
    finally:
        shutil.rmtree(home)


# --------------------------------------------------------------- shared service


@test
def the_sandbox_of_a_bridge_ends_with_it():
    for modern in (False, True):
        with shared() as b:
            if not modern:
                b.initialize()
            box = run(b, "hostname", modern).strip()
            eq([s["id"] for s in w().sandboxes()], [box])
            eq(b.end(), (0, b""))
        until(lambda: not w().sandboxes(), "the sandbox is left")
    w().check_empty()


@test
def the_sandbox_of_a_bridge_ends_when_the_bridge_is_killed():
    for modern in (False, True):
        with shared() as b:
            if not modern:
                b.initialize()
            run(b, "true", modern)
            b.request("tools/call", {"name": "run_command", "arguments": {"command": "exec sleep 7533"}}, modern)
            until(lambda: running("sleep", "7533"), "the command does not run")
            b.process.kill()
            b.process.wait(WAIT)
        until(lambda: not running("sleep", "7533"), "the command still runs")
        until(lambda: not w().sandboxes(), "the sandbox is left")
    w().check_empty()


@test
def a_bridge_can_keep_its_sandbox_or_use_a_given_one():
    with shared("--keep") as b:
        b.initialize()
        box = run(b, "echo here >/tmp/x; hostname").strip()
        b.end()
    eq([s["id"] for s in w().sandboxes()], [box], "kept")
    with shared("--sandbox", box) as b:
        b.initialize()
        eq(run(b, "cat /tmp/x"), "here\n")
        b.end()
    eq([s["id"] for s in w().sandboxes()], [box], "not its own to delete")
    w().delete(box)
    w().check_empty()


@test
def a_project_needs_the_permission_of_the_service():
    with scratch() as d, shared("--project", d) as b:
        b.initialize()
        r = b.tool("run_command", command="true")
        ok(r.get("isError") and "mount" in r["content"][0]["text"], f"{r}")
    w().check_empty()


@test
def a_bridge_continues_after_a_restart_of_the_service():
    with shared() as b:
        b.initialize()
        run(b, "true")
        w().stop()
        w().start()
        eq(run(b, "echo again"), "again\n")
    w().check_empty()


@test
def a_cancelled_command_is_killed():
    for modern in (False, True):
        with shared() as b:
            if not modern:
                b.initialize()
            run(b, "true", modern)
            n = b.request("tools/call", {"name": "run_command", "arguments": {"command": "exec sleep 7534"}}, modern)
            until(lambda: running("sleep", "7534"), "the command does not run")
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": n}}
            b.send(cancel)
            until(lambda: not running("sleep", "7534"), "the command still runs")
            b.send(cancel)
            run(b, "true", modern)
            eq([m for m in b.others if m.get("id") == n], [], "answers to what was cancelled")
    w().check_empty()


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, STATE))
