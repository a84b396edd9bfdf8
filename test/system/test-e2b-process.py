#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-process.py - commands of E2B's SDKs: restarts, late and lost clients, killed sandboxes"""
import base64
import contextlib
import glob
import json
import os
import signal
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, eq  # pylint: disable=wrong-import-position
from e2b_raw import RawWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from serve_world import until  # pylint: disable=wrong-import-position

WORLD = []


def w():
    if not WORLD:
        WORLD.append(RawWorld())
    return WORLD[0]


def python(area):
    w().python("process.py", area)


@test
def sdks_connect_again_after_a_restart_of_the_service():
    python("restarts")


ACCOUNT = 'echo "$HOME $USER $LOGNAME $(id -u):$(id -g) $E2B_SANDBOX $E2B_EVENTS_ADDRESS"'


def account_of(box, user=None, **envs):
    """Returns what a command sees of its account."""
    auth = {"Authorization": "Basic " + base64.b64encode(f"{user}:".encode()).decode()} if user else {}
    events = [m.get("event", {}) for m in w().stream(box, "process.Process/Start", {
        "process": {"cmd": "/bin/sh", "args": ["-c", ACCOUNT], "envs": envs}, "stdin": False}, **auth)]
    return base64.b64decode("".join(e["data"]["stdout"] for e in events if "data" in e)).decode().split()


@test
def commands_have_the_variables_of_their_account():
    rest = ["true", "http://192.0.2.1"]
    with w().e2b_box() as box:
        eq(account_of(box), ["/home/user", "user", "user", "1000:1000", *rest])
        eq(account_of(box), ["/home/user", "user", "user", "1000:1000", *rest], "the second command")
        eq(account_of(box, "root"), ["/root", "root", "root", "0:0", *rest])
        eq(account_of(box, "daemon"), ["/usr/sbin", "daemon", "daemon", "1:1", *rest])
        # A number has the account with it; without one, the group is root's, as in docker.
        eq(account_of(box, "1000"), ["/home/user", "user", "user", "1000:1000", *rest])
        eq(account_of(box, "0"), ["/root", "root", "root", "0:0", *rest])
        eq(account_of(box, "1234"), ["/", "1234", "1234", "1234:0", *rest])
        eq(account_of(box, USER="other", E2B_EVENTS_ADDRESS="x"), ["/home/user", "other", "user", "1000:1000", "true", "x"])
    with w().e2b_box(envVars={"USER": "mine", "HOME": "/srv"}) as box:
        eq(account_of(box), ["/srv", "mine", "user", "1000:1000", *rest])
        eq(account_of(box, HOME="/own"), ["/own", "mine", "user", "1000:1000", *rest])


def pids_of(word):
    """The processes with this word in their command line, in any sandbox."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            with open(path, "rb") as f:
                if word in f.read().split(b"\0"):
                    found.append(int(path.split("/")[2]))
    return found


@test
def a_command_that_ended_while_the_service_was_down_is_known_by_its_pid():
    word = f"ends-{os.getpid()}"
    start = {"process": {"cmd": "/bin/bash", "args": ["-c", "trap 'exit 5' TERM; while :; do sleep 0.05; done", word]}}
    with w().e2b_box() as box:
        for how in ("kill", "stop"):
            with contextlib.closing(w().open_stream(box, "process.Process/Start", start)) as c:
                r = c.getresponse()
                first = json.loads(r.read(struct.unpack(">BI", r.read(5))[1]))
                if how == "kill":
                    w().kill("api", "warden")
                else:
                    w().stop()
            for pid in pids_of(word.encode()):
                os.kill(pid, signal.SIGTERM)
            until(lambda: not pids_of(word.encode()), "the end of the command")
            w().start()
            which = {"process": first["event"]["start"]}
            got = w().stream(box, "process.Process/Connect", which)
            eq(got, [first, {"event": {"end": {"exitCode": 5, "exited": True, "status": "exit status 5",
                                               "error": "exit status 5"}}}, {}], how)
            eq(w().stream(box, "process.Process/Connect", {"process": {"pid": 99999}})[0]["error"]["code"], "not_found")


@test
def a_command_that_ends_after_a_restart_of_the_service_has_a_result():
    word = f"later-{os.getpid()}"
    start = {"process": {"cmd": "/bin/bash", "args": ["-c", "trap 'echo out; exit 5' TERM; while :; do sleep 0.05; done", word]}}
    with w().e2b_box() as box:
        for how in ("kill", "stop"):
            with contextlib.closing(w().open_stream(box, "process.Process/Start", start)) as c:
                r = c.getresponse()
                first = json.loads(r.read(struct.unpack(">BI", r.read(5))[1]))
                if how == "kill":
                    w().kill("api", "warden")
                else:
                    w().stop()
            w().start()
            processes = w().rpc(box, "process.Process/List", {})[1]["processes"]
            eq([p["pid"] for p in processes], [first["event"]["start"]["pid"]], how)
            for pid in pids_of(word.encode()):
                os.kill(pid, signal.SIGTERM)
            until(lambda: not w().rpc(box, "process.Process/List", {})[1]["processes"], "the end of the command")
            which = {"process": first["event"]["start"]}
            for _ in range(2):
                got = w().stream(box, "process.Process/Connect", which)
                eq(got, [first, {"event": {"end": {"exitCode": 5, "exited": True, "status": "exit status 5",
                                                   "error": "exit status 5"}}}, {}], how)
            eq(w().rpc(box, "process.Process/SendSignal", {**which, "signal": "SIGNAL_SIGKILL"})[1]["code"], "not_found")


@test
def late_clients_get_the_result():
    python("late")


@test
def clients_that_vanish_leave_their_commands_running():
    python("vanished")


@test
def clients_of_a_sandbox_that_ends_get_an_error():
    python("killed")


@test
def other_tenants_cannot_reach_a_command():
    python("tenants")


@test
def commands_are_found_by_their_tag():
    python("tags")


@test
def traffic_resumes_a_paused_sandbox():
    python("resumes")


@test
def many_commands_run_at_once():
    python("with_async")


@test
def the_javascript_sdk_connects_again():
    w().node("process.mjs")


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
