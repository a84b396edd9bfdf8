#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-process.py - commands of E2B's SDKs: restarts, late and lost clients, killed sandboxes"""
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
