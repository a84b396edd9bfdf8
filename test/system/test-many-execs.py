#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-many-execs.py - the maximum number of running execs and sessions of a sandbox survives every restart

Prints TAP. $WARREN_RESTARTS is the number of restarts (default 6; the soak does 100).
"""
import concurrent.futures
import contextlib
import ctypes
import os
import signal
import socket
import stat
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, check_error, needs, until  # pylint: disable=wrong-import-position

EXECS_MAX = 512  # PROTO_EXECS_MAX
SESSIONS = 64
SYS_PIDFD_GETFD = 438
RESTARTS = int(os.environ.get("WARREN_RESTARTS", 6))
KEPT = 65536  # bytes of output: 512 journals of the default size would exceed the sandbox's quota


def init_of(w, box):
    """The pid of the sandbox's init, from the credentials of its socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(f"{w.run_dir}/boxes/{box}")
        return struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def begin(w, box, n):
    """Starts execs that wait for a line on stdin, and then print it."""
    def one(i):
        return i, w.exec(box, f"read x; echo $x; exit {i % 100}", stdin=True, output_limit=KEPT)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return dict(pool.map(one, range(n)))


def sessions_of(w, box, n):
    found = []
    for i in range(n):
        s = w.post(f"/v1/sandboxes/{box}/sessions", {"output_limit": KEPT}, 201)["id"]
        eq(w.post(f"/v1/sandboxes/{box}/sessions/{s}/run", {"command": f"X={i}"})["exit_code"], 0, "a command")
        found.append(s)
    return found


def states(w, box):
    """The number of execs in each state."""
    found, cursor = {}, None
    while True:
        page = w.get(f"/v1/sandboxes/{box}/execs", query={"limit": 1000, **({"cursor": cursor} if cursor else {})})
        for e in page["execs"]:
            found[e["state"]] = found.get(e["state"], 0) + 1
        cursor = page.get("next_cursor")
        if not cursor:
            return found


def restart(w, how):
    if how == "stop":
        w.stop()
        w.start()
    elif how == "api":
        w.kill("api")
        w.ready()  # the warden has started another one
    else:
        w.kill(*how.split("+"))
        w.start()


def end(w, box, execs):
    """Sends each exec its line, and checks that it ends with its own number."""
    def one(item):
        i, e = item
        at = f"/v1/sandboxes/{box}/execs/{e}"
        w.ask("POST", at + "/stdin", f"line {i}\n".encode(), status=200)
        result = w.result(box, e)
        return i, result["exit_code"], w.raw(box, e)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for i, code, out in pool.map(one, execs.items()):
            eq((code, out), (i % 100, f"line {i}\n".encode()), f"of exec {i}")


@test
def every_exec_and_session_survives_restarts():
    needs("init")
    ways = ["warden", "stop", "api+warden", "api"]
    with World() as w:
        box = w.create(limits={"pids": 2048})
        sessions = sessions_of(w, box, SESSIONS)
        execs = begin(w, box, EXECS_MAX - SESSIONS)
        eq(states(w, box), {"running": EXECS_MAX}, "execs before, those of the sessions among them")
        for n in range(RESTARTS):
            restart(w, ways[n % len(ways)])
            eq(w.show(box)["state"], "running", f"the sandbox after restart {n} ({ways[n % len(ways)]}): {w.said([box])}")
            eq(states(w, box), {"running": EXECS_MAX}, f"execs after restart {n}")
        for i, s in enumerate(sessions):
            r = w.post(f"/v1/sandboxes/{box}/sessions/{s}/run", {"command": "echo $X"})
            eq(r["stdout"], f"{i}\n", "the variable of a session")
        end(w, box, execs)
        # All at the same time: the messages about their ends do not fit into a socket buffer.
        execs = begin(w, box, 400)
        restart(w, "api+warden")
        end(w, box, execs)


@test
def an_exec_over_the_limit_is_refused_with_the_limits_name():
    needs("init")
    with World() as w:
        box = w.create(limits={"pids": 2048})
        execs = begin(w, box, EXECS_MAX)
        e = check_error(w.ask("POST", f"/v1/sandboxes/{box}/execs", {"command": "true", "output_limit": KEPT}), 429,
                        "quota_exceeded")
        ok(str(EXECS_MAX) in e["message"] and "execs" in e["message"], f"the limit is not named: {e}")
        eq((e["detail"]["quota"], e["detail"]["maximum"]), ("running execs", EXECS_MAX), "its detail")
        # The end of an exec makes room for the next one.
        i, first = next(iter(execs.items()))
        w.ask("POST", f"/v1/sandboxes/{box}/execs/{first}/stdin", b"x\n", status=200)
        eq(w.result(box, first)["exit_code"], i % 100, "of the first")
        until(lambda: w.ask("POST", f"/v1/sandboxes/{box}/run", {"command": "true", "output_limit": KEPT}).status == 200,
              "there is no room after an exec has ended")
        del execs[i]


@test
def the_ends_of_hundreds_of_execs_reach_a_slow_reader():
    """The api is stopped while hundreds of execs end: init keeps its messages."""
    needs("init")
    with World() as w:
        box = w.create(limits={"pids": 2048})
        waiting = "while [ ! -e /tmp/go ]; do sleep 0.5; done; exit "
        execs = [w.exec(box, waiting + str(i % 100), output_limit=KEPT) for i in range(400)]
        gate = w.exec(box, "sleep 1; touch /tmp/go; sleep 4", output_limit=KEPT)
        api = w.api
        os.kill(api, signal.SIGSTOP)
        time.sleep(5)
        os.kill(api, signal.SIGCONT)
        for i, e in enumerate(execs):
            eq(w.result(box, e)["exit_code"], i % 100, f"of exec {i}")
        eq(w.result(box, gate)["exit_code"], 0, "of the last")
        eq(w.show(box)["state"], "running", "the sandbox")


def cut_line(w, box):
    """Shuts down the api's connection to the init of @box, from a third process."""
    libc = ctypes.CDLL(None, use_errno=True)
    api = w.api
    pidfd = os.pidfd_open(api)
    try:
        for name in os.listdir(f"/proc/{api}/fd"):
            fd = libc.syscall(SYS_PIDFD_GETFD, pidfd, int(name), 0)
            if fd < 0 or not stat.S_ISSOCK(os.fstat(fd).st_mode):
                if fd >= 0:
                    os.close(fd)
                continue
            with socket.socket(fileno=fd) as s, contextlib.suppress(OSError):
                if s.type == socket.SOCK_SEQPACKET and str(s.getpeername()).endswith(box):
                    s.shutdown(socket.SHUT_RDWR)
                    return
    finally:
        os.close(pidfd)
    raise AssertionError(f"the api has no connection to {box}")


@test
def a_broken_connection_is_reopened():
    needs("init")
    with World() as w:
        box = w.create()
        s = w.post(f"/v1/sandboxes/{box}/sessions", {}, 201)["id"]
        at = f"/v1/sandboxes/{box}/sessions/{s}/run"
        w.post(at, {"command": "X=kept"})
        feed = w.exec(box, "cat; exit 5", stdin=True)
        ended = w.exec(box, "cat >/dev/null; exit 6", stdin=True)
        follower = w.output(box, feed, follow="true")
        w.ask("POST", f"/v1/sandboxes/{box}/execs/{feed}/stdin", b"before\n", status=200)
        eq(next(follower)["data"], "before\n", "what a reader hears before")
        for _ in range(3):
            cut_line(w, box)
            until(lambda: w.ask("POST", f"/v1/sandboxes/{box}/run", {"command": "true"}).status == 200,
                  lambda: f"it is not connected again: {w.said([box])}")
        eq(w.show(box)["state"], "running", "the sandbox")
        eq(w.post(at, {"command": "echo $X"})["stdout"], "kept\n", "a session")
        w.ask("POST", f"/v1/sandboxes/{box}/execs/{feed}/stdin", b"after\n", status=200)
        eq(next(follower)["data"], "after\n", "what the same reader hears after")
        for e, code in ((feed, 5), (ended, 6)):
            w.ask("POST", f"/v1/sandboxes/{box}/execs/{e}/stdin", b"", query={"close": "true"}, status=200)
            eq(w.result(box, e)["exit_code"], code, "an exec that began before")
        # A sandbox whose init is gone fails soon.
        os.kill(init_of(w, box), signal.SIGKILL)
        until(lambda: w.show(box)["state"] == "failed", "a sandbox whose init was killed has not failed")


if __name__ == "__main__":
    sys.exit(run_tests())
