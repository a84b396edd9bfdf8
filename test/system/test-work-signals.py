#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-work-signals.py - signals end 'warren work' at any time, and its changes are kept

Prints TAP. $WARREN is the program (default build/warren).
"""
import glob
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import WARREN, eq, needs_root, ok, run_tests, test  # pylint: disable=wrong-import-position
from review_world import project  # pylint: disable=wrong-import-position

WAIT = 30
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MENU = rb"\[a,r,c,v,k,\?\]\? "
SLEEP = f"sleep 3{os.getpid()}"  # no other process has this command


def running():
    """Returns the processes of the sandbox that are left."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                if f.read().replace(b"\0", b" ").strip() == SLEEP.encode():
                    found.append(path)
        except OSError:
            pass
    return found


def nothing_is_left(p, works):
    """No process, no mount, and that many works, which can be decided on."""
    deadline = time.monotonic() + WAIT
    while running() and time.monotonic() < deadline:
        time.sleep(0.02)
    eq(running(), [])
    with open("/proc/self/mounts", encoding="utf-8") as f:
        ok(p.top not in f.read(), "a mount is left")
    eq(len(p.warren("work", "--list").stdout.splitlines()) - 1, works)


def started(p, script, *options, ready="up", **kw):
    """Starts a work without a terminal, and waits until its command has printed a line."""
    q = subprocess.Popen([WARREN, "work", *options, *([] if "--resume" in options else [p.path]), "--", "sh", "-c", script], env=p.env,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
    if ready:
        eq(q.stdout.readline(), ready.encode() + b"\n")
    return q


@test
@needs_root
def a_signal_ends_the_command_and_the_changes_are_kept():
    for sig in SIGNALS:
        with project() as p:
            with started(p, f"echo 1 >a; echo up; {SLEEP}") as q:
                q.send_signal(sig)
                _, err = q.communicate(timeout=WAIT)
            eq(q.returncode, 128 + sig, err)
            ok(b"the changes are kept: warren diff" in err and b"warren accept" in err, err)
            nothing_is_left(p, 1)
            p.warren("accept", p.works()[0])
            eq(p.get("a"), b"1\n")


@test
@needs_root
def a_command_that_ignores_signals_is_killed_after_some_seconds():
    for sig in SIGNALS:
        with project() as p:
            begun = time.monotonic()
            with started(p, f"trap '' INT TERM HUP; echo 1 >a; echo up; {SLEEP}; {SLEEP}", "--sync") as q:
                q.send_signal(sig)
                _, err = q.communicate(timeout=WAIT)
            eq(q.returncode, 128 + sig, err)
            ok(4 < time.monotonic() - begun < 15, "it has some seconds to end")
            ok(b"the changes are kept" in err, err)
            eq(os.path.exists(f"{p.path}/a"), False, "not accepted, although --sync was given")
            nothing_is_left(p, 1)


@test
@needs_root
def a_command_may_handle_a_signal_and_its_status_is_passed_on():
    for own, status in ((7, 7), (0, 143)):
        with project() as p:
            with started(p, f"trap 'echo 2 >a; exit {own}' TERM; echo up; while :; do sleep 0.1; done") as q:
                q.send_signal(signal.SIGTERM)
                _, err = q.communicate(timeout=WAIT)
            eq(q.returncode, status, err)
            nothing_is_left(p, 1)
            eq(p.warren("diff", p.works()[0]).stdout.count(b"+2\n"), 1)


@test
@needs_root
def a_closed_terminal_ends_the_sandbox():
    for script in (f"echo 1 >a; echo up; {SLEEP}", f"trap '' HUP INT TERM; echo 1 >a; echo up; {SLEEP}; {SLEEP}"):
        with project() as p:
            t = p.terminal("work", p.path, "--", "sh", "-c", script)
            t.expect(rb"up")
            os.close(t.slave)
            os.close(t.master)
            eq(t.p.wait(WAIT), 128 + signal.SIGHUP)
            nothing_is_left(p, 1)
            p.warren("accept", p.works()[0])
            eq(p.get("a"), b"1\n")


@test
@needs_root
def a_signal_to_a_terminal_restores_it():
    for sig in SIGNALS:
        with project() as p:
            with p.terminal("work", p.path, "--", "sh", "-c", f"echo 1 >a; echo up; {SLEEP}") as t:
                t.expect(rb"up")
                ok(t.raw(), "a control: it is in raw mode")
                t.p.send_signal(sig)
                eq(t.wait(), 128 + sig, t.seen)
                t.restored()
                ok(b"the changes are kept" in t.seen and b"accept all" not in t.seen, t.seen)
            nothing_is_left(p, 1)


@test
@needs_root
def a_signal_to_the_review_keeps_the_changes():
    for sig in SIGNALS:
        with project() as p:
            with p.terminal("work", p.path, "--", "sh", "-c", "echo 1 >a") as t:
                t.expect(MENU)
                t.p.send_signal(sig)
                eq(t.wait(), 128 + sig, t.seen)
                t.restored()
                ok(b"the changes are kept" in t.seen and b"warren accept" in t.seen, t.seen)
            nothing_is_left(p, 1)
    with project() as p:
        with p.terminal("work", p.path, "--", "sh", "-c", "echo 1 >a") as t:
            t.expect(MENU)
            t.type(b"\x03")
            eq(t.wait(), 130, t.seen)
            t.restored()
        nothing_is_left(p, 1)


SETUP = f"steps: [{{run: 'touch begun; {SLEEP}'}}]\n"


def setup_begun(p):
    deadline = time.monotonic() + WAIT
    while not glob.glob(f"{p.top}/state/setups/.new-*/project/upper/begun"):
        ok(time.monotonic() < deadline, "the setup does not start")
        time.sleep(0.02)


@test
@needs_root
def a_signal_during_the_setup_leaves_nothing():
    for sig in SIGNALS:
        with project() as p:
            p.put("warren.yaml", SETUP.encode())
            with started(p, "echo 1 >a", ready=None) as q:
                setup_begun(p)
                q.send_signal(sig)
                _, err = q.communicate(timeout=WAIT)
            eq(q.returncode, 128 + sig, err)
            ok(b"interrupted during the setup" in err, err)
            nothing_is_left(p, 0)
    with project() as p:
        p.put("warren.yaml", SETUP.encode())
        with p.terminal("work", p.path, "--", "true") as t:
            setup_begun(p)
            t.type(b"\x03")
            eq(t.wait(), 130, t.seen)
            t.restored()
        nothing_is_left(p, 0)


@test
@needs_root
def a_signal_before_a_work_continues_keeps_its_changes():
    with project() as p:
        with started(p, "echo 1 >a", "--name", "w", ready=None) as q:
            q.communicate(timeout=WAIT)
        p.put("warren.yaml", SETUP.encode())
        with started(p, "echo 2 >a", "--resume", "w", ready=None) as q:
            setup_begun(p)
            q.send_signal(signal.SIGTERM)
            _, err = q.communicate(timeout=WAIT)
        eq(q.returncode, 143, err)
        ok(b"kept: warren diff w" in err, err)
        nothing_is_left(p, 1)
        eq(p.warren("diff", "w").stdout.count(b"+1\n"), 1)


@test
@needs_root
def a_signal_at_a_question_of_the_setup_leaves_nothing():
    for sig in SIGNALS:
        with project() as p:
            p.put("setup.sh", b"#!/bin/sh\ntouch x\n")
            with p.terminal("work", p.path, "--", "true") as t:
                t.expect(rb"\[y,n,v,\?\]\? ")
                t.p.send_signal(sig)
                eq(t.wait(), 128 + sig, t.seen)
                t.restored()
                ok(b"interrupted" in t.seen, t.seen)
            nothing_is_left(p, 0)
            eq(p.warren("work", "--no-setup", "--no-sync", p.path, "--", "ls").stdout, b"setup.sh\n")
            eq(p.works(), [], "the next work has removed what was left")


def stopped(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        return f.read().rsplit(")", 1)[1].split()[0] == "T"


def until(what, true):
    deadline = time.monotonic() + WAIT
    while not true():
        ok(time.monotonic() < deadline, what)
        time.sleep(0.02)


@test
@needs_root
def a_stop_key_goes_to_the_shell_inside():
    with project() as p:
        with p.terminal("work", "--keep", p.path, "--", "bash", "--norc", "-i") as t:
            t.expect(rb"# ")
            t.type(b"cat\r")
            time.sleep(0.5)
            t.type(b"\x1a")
            t.expect(rb"Stopped")
            t.type(b"fg\r")
            t.expect(rb"fg\r\n.*cat\r\n")
            t.type(b"again\r")
            t.expect(rb"again\r\nagain\r\n")
            t.type(b"\x04")
            t.expect(rb"# ")
            t.type(b"exit 3\r")
            eq(t.wait(), 3, t.seen)
            t.restored()


@test
@needs_root
def a_stop_key_does_not_stop_a_command_without_a_shell():
    script = "import signal, sys; print('up', flush=True); [print('got', l.strip(), flush=True) for l in iter(sys.stdin.readline, 'q\\n')]"
    with project() as p:
        with p.terminal("work", "--keep", p.path, "--", "python3", "-c", script) as t:
            t.expect(rb"up")
            for line in (b"one", b"two"):
                t.type(b"\x1a")
                time.sleep(0.2)
                ok(not stopped(t.p.pid), "warren is not stopped")
                t.type(line + b"\n")
                t.expect(rb"got " + line)
            t.type(b"q\n")
            eq(t.wait(), 0, t.seen)
            t.restored()


@test
@needs_root
def a_stop_signal_stops_warren_and_restores_the_terminal():
    with project() as p:
        with p.terminal("work", "--keep", p.path, "--", "sh", "-c", "echo up; read x; echo got $x") as t:
            t.expect(rb"up")
            ok(t.raw(), "a control: it is in raw mode")
            t.p.send_signal(signal.SIGTSTP)
            until("it does not stop", lambda: stopped(t.p.pid))
            t.restored()
            t.p.send_signal(signal.SIGCONT)
            until("it is not in raw mode again", t.raw)
            t.type(b"it\n")
            t.expect(rb"got it")
            eq(t.wait(), 0, t.seen)
            t.restored()


@test
@needs_root
def a_command_that_stops_itself_can_be_continued_or_ended():
    with project() as p:
        for sig, status in ((signal.SIGCONT, 0), (signal.SIGTERM, 143)):
            with p.terminal("work", "--keep", p.path, "--", "python3", "-c",
                            "import os, signal; print('up', flush=True); os.kill(os.getpid(), signal.SIGSTOP); print('on')") as t:
                t.expect(rb"up")
                time.sleep(0.3)
                t.p.send_signal(sig)
                eq(t.wait(), status, t.seen)
                t.restored()


@test
@needs_root
def nohup_is_respected():
    with project() as p:
        with started(p, "echo 1 >a; echo up; read x; echo 2 >a", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as q:
            q.send_signal(signal.SIGHUP)
            time.sleep(0.2)
            _, err = q.communicate(b"\n", timeout=WAIT)
        eq(q.returncode, 0, err)
        eq(p.warren("diff", p.works()[0]).stdout.count(b"+2\n"), 1)


if __name__ == "__main__":
    sys.exit(run_tests())
