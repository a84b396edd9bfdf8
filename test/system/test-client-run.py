#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-client-run.py - `warren exec`, `shell`, `session`, `run --daemon`, and the output that commands leave"""
import json
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, ok, eq, noise, warren, MIB  # pylint: disable=wrong-import-position
from client_world import w, environ, call, call_json, start, sandbox, served, main  # pylint: disable=wrong-import-position
from serve_world import until  # pylint: disable=wrong-import-position
from terminal import Terminal  # pylint: disable=wrong-import-position


# --------------------------------------------------------------------------- exec


@test
def the_exit_status_of_exec_is_that_of_the_command():
    with sandbox() as box:
        for argv, status in ((["true"], 0), (["sh", "-c", "exit 3"], 3), (["no-such-command"], 127), (["/etc"], 126),
                             (["sh", "-c", "kill -9 $$"], 137), (["sh", "-c", "kill -TERM $$"], 143)):
            call("exec", box, *argv, status=status, stderr=None)
            call("exec", box, "--", *argv, status=status, stderr=None)
        call("exec", "--timeout", "200ms", box, "sleep", "20", status=124,
             stderr=b"warren exec: timed out after 200 ms\n")
        call("exec", "-q", "--timeout", "200ms", box, "sleep", "20", status=124)
        p = warren("exec", box, "sh", "-c", "echo out; echo err >&2", env=environ())
        eq((p.stdout, p.stderr), (b"out\n", b"err\n"))
        eq(call("exec", "-e", "A=1", "-w", "/tmp", "-u", "1000:1000", box, "sh", "-c", "echo $A $(pwd) $(id -u)"),
           b"1 /tmp 1000\n")
        call("exec", "-m", "16m", box, "sh", "-c", "head -c 64m /dev/zero | tail", status=137, stderr=None)
        r = call_json("exec", "--json", box, "sh", "-c", "echo hello; exit 4", status=4)
        eq((r["stdout"], r["result"]["exit_code"]), ("hello\n", 4))
        eq(call_json("exec", "--json", "-i", box, "cat", input=b"given\n")["stdout"], "given\n")


@test
def streams_are_complete():
    data = noise(5 * MIB)
    with sandbox() as box:
        eq(call("exec", "-i", box, "cat", input=data), data, "there and back")
        eq(call("exec", box, "cat", input=b"unread"), b"", "without -i there is no stdin")
        for _ in range(10):
            eq(len(call("exec", box, "head", "-c", str(8 * MIB), "/dev/zero")), 8 * MIB, "from the first byte on")
        eq(call("exec", "-i", box, "head", "-c", "3", input=data), data[:3], "what is not read does not hang")
        eq(call("exec", "-i", box, "sh", "-c", "exec <&-; sleep 0.1; echo gone", input=data), b"gone\n")
        p = start("exec", box, "yes")
        ok(p.stdout.read(4096).startswith(b"y\ny\n"), "it flows")
        p.stdout.close()
        eq(p.wait(20), 141, "a reader that left is told as a pipe tells it")
        p.stderr.close()


@test
def signals_are_passed_on():
    with sandbox() as box:
        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            p = start("exec", box, "sh", "-c", "echo ready; exec sleep 60")
            eq(p.stdout.readline(), b"ready\n")
            p.send_signal(sig)
            eq((p.wait(20), p.stderr.read()), (128 + sig, b""))
        p = start("exec", box, "sh", "-c", "trap 'echo caught; exit 9' USR1; echo ready; while :; do sleep 0.05; done")
        eq(p.stdout.readline(), b"ready\n")
        p.send_signal(signal.SIGUSR1)
        out, err = p.communicate(timeout=20)
        ok(p.returncode in (9, 138) and (p.returncode != 9 or b"caught\n" in out), (p.returncode, out, err))


@test
def exec_gives_the_command_a_terminal():
    with sandbox() as box:
        with Terminal("-it", box, "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && stty size && echo $TERM",
                      command=("exec",), env=environ()) as t:
            t.expect(rb"33 99\r\nvt100\r\n")
            eq(t.wait(), 0)
            t.restored()
        with Terminal("-it", box, "sh", command=("exec",), env=environ()) as t:
            t.expect(rb"[$#] ")
            ok(t.raw(), "keys go to the other terminal")
            t.type(b"stty size; echo se''en\n")
            t.expect(rb"33 99\r\nseen\r\n")
            t.resize(40, 120)
            t.type(b"sleep 0.3; stty size\n")
            t.expect(rb"40 120\r\n")
            t.type(b"sleep 60\n")
            time.sleep(0.3)
            t.type(b"\x03")
            t.type(b"echo af''ter $?\n")
            t.expect(rb"after 130\r\n")
            t.type(b"exit 7\n")
            eq(t.wait(), 7)
            t.restored()


@test
def the_terminal_is_restored_whatever_ends_the_client():
    with sandbox() as box:
        for end in (lambda t: t.p.send_signal(signal.SIGSEGV), lambda t: call("rm", "-q", "-f", box)):
            with Terminal("-it", box, "sh", command=("exec",), env=environ()) as t:
                t.expect(rb"[$#] ")
                ok(t.raw(), "it is raw")
                end(t)
                t.wait()
                t.restored()


@test
def shell_works_in_a_new_and_in_an_existing_sandbox():
    with Terminal("--memory", "64m", command=("shell",), env=environ()) as t:
        t.expect(rb"[$#] ")
        eq(len(call("ls", "-q").split()), 1)
        t.type(b"echo in''side; exit 5\n")
        t.expect(rb"inside\r\n")
        eq(t.wait(), 5)
        t.restored()
    eq(call("ls", "-q"), b"", "it is gone with its shell")
    eq(call("shell", "--keep", "--name", "kept", "--image", "host", "--shell", "sh", input=b"echo piped\n",
            stderr=re.compile(rb"the sandbox is [a-z0-9]{12}\n")), b"piped\n")
    eq(call("shell", "kept", "-e", "A=b", "-w", "/tmp", input=b"echo $A; pwd; exit 3\n", status=3), b"b\n/tmp\n")
    call("shell", "--image", "host", "kept", status=125, stderr=re.compile(rb"already exists"))
    call("rm", "kept")


# ------------------------------------------------------------- output, time, events


@test
def output_is_kept_and_read_from_any_position():
    with sandbox() as box:
        first = call("exec", "-d", box, "sh", "-c", "echo 0123456789; echo err >&2; exit 6").decode().strip()
        eq(call("wait", "--exec", first[:11], box, status=6), b"6\n")
        p = warren("logs", box, env=environ())
        eq((p.returncode, p.stdout, p.stderr), (0, b"0123456789\n", b"err\n"))
        eq(call("logs", "--stream", "stdout", "--from", "4", box, first), b"456789\n")
        call("logs", "-f", box, first, status=6, stderr=b"err\n")
        events = [json.loads(line) for line in call("logs", "--json", box, first[:11]).splitlines()]
        eq("".join(e.get("data", "") for e in events if e.get("stream") == "stdout"), "0123456789\n")

        second = call("exec", "-d", "-q", box, "sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.2; done").decode().strip()
        eq(call("logs", "-f", box), b"1\n2\n3\n", "the last one is meant")
        eq(call("ls", "-q", box).decode().split(), [first, second])
        listed = call("ls", box).decode()
        ok("exited 6" in listed and "exited 0" in listed, listed)
        eq(call_json("exec", "-d", "--json", box, "true")["sandbox_id"], box)


@test
def output_of_leftover_processes_is_kept():
    with sandbox() as box:
        script = "(sleep 1; echo late) & echo early; exit 3"
        call("exec", box, "sh", "-c", script, status=3, stderr=None)
        left = call("exec", "-d", box, "sh", "-c", script).decode().strip()
        call("wait", "--exec", left, box, status=3)
        eq(call("logs", "-f", box, left, status=3), b"early\nlate\n", "who comes after the end of the first process")
        for _ in range(40):  # the end of the output and the end of the command arrive in any order
            call("exec", box, "sh", "-c", "exit 3", status=3)
        left = call("exec", "-d", box, "sh", "-c", "sleep 60 & exit 3").decode().strip()
        call("wait", "--exec", left, box, status=3)
        p = start("logs", "-f", box, left)
        time.sleep(0.3)
        call("rm", box)
        eq((p.communicate(timeout=20), p.returncode), ((b"", b""), 3), "a sandbox that goes takes its writers along")


@test
def output_continues_after_the_service_is_killed():
    with sandbox() as box:
        p = start("exec", box, "sh", "-c", "for i in $(seq 1 60); do echo $i; sleep 0.05; done; exit 8")
        eq(p.stdout.readline(), b"1\n")
        w().kill("api")
        out, err = p.communicate(timeout=30)
        eq((p.returncode, out, err), (8, b"".join(b"%d\n" % i for i in range(2, 61)), b""))
        p = start("exec", box, "sh", "-c", "echo begun; sleep 1.5; echo over")
        eq(p.stdout.readline(), b"begun\n")
        w().kill("api", "warden")
        w().start()
        eq(p.communicate(timeout=30), (b"over\n", b""))
        eq(p.returncode, 0)


@test
def wait_returns_when_a_state_is_reached():
    with sandbox("--name", "awaited") as box:
        eq(call("wait", "-s", "running", "awaited"), b"running\n")
        call("wait", "--timeout", "200ms", box, status=124, stderr=b"warren wait: timed out\n")
        eq(call("wait", "-q", "--timeout", "200ms", box, status=124), b"")
        p = start("wait", box)
        time.sleep(0.2)
        call("rm", box)
        eq(p.communicate(timeout=20), (b"gone\n", b""))
    with sandbox() as box:
        eq(call_json("wait", "--json", "--state", "running", box)["reached"], True)


@test
def each_event_is_one_line():
    p = start("events", "-n", "3", "--type", "sandbox.created", "--type", "sandbox.deleted", "--type", "exec.finished")
    time.sleep(0.3)
    with sandbox() as box:
        call("exec", box, "sh", "-c", "exit 2", status=2)
    out, err = p.communicate(timeout=20)
    lines = out.decode().splitlines()
    eq((p.returncode, err, len(lines)), (0, b"", 3), lines)
    for line, kind in zip(lines, ("sandbox.created", "exec.finished", "sandbox.deleted")):
        ok(re.match(r"\d{4}-\d\d-\d\dT[0-9:.]+Z +\d+ " + kind + r" +sandbox_id=" + box, line), line)
    ok(" exit_code=2" in lines[1], lines[1])
    since = lines[0].split()[1]
    again = [json.loads(e) for e in call("events", "--json", "--since", since, "--sandbox", box, "-n", "1").splitlines()]
    ok(again[0]["id"] > int(since) and again[0]["sandbox_id"] == box, again)


@test
def top_shows_the_resources_of_sandboxes():
    with sandbox("--name", "busy", "-l", "top=1"):
        lines = call("top").decode().splitlines()
        eq(lines[0].split()[:4], ["ID", "NAME", "STATE", "CPU"])
        eq(lines[1].split()[1:3], ["busy", "running"])
        eq(len(call_json("top", "--json", "-l", "top=1")), 1)
        eq(call_json("top", "--once", "--json", "-l", "top=2"), [])
        with Terminal(command=("top",), env=environ()) as t:
            t.expect(rb"ID +NAME.*busy +running")
            t.expect(rb"busy +running +[0-9.]+%")
            t.type(b"q")
            eq(t.wait(), 0)
            t.restored()


# ------------------------------------------------------------------------- sessions


@test
def a_session_keeps_its_state():
    with sandbox("--name", "shelly") as box:
        served("/v1/sandboxes", box, "sessions")
        call("session", "shelly", "cd /tmp; export A=1; f() { echo \"f $1\"; }")
        eq(call("session", box, "pwd; echo $A; f x"), b"/tmp\n1\nf x\n")
        eq(len(call("session", "ls", "-q", box).split()), 1, "it was one session")
        call("session", box, "--", "(exit 5)", status=5)
        p = warren("session", "run", box, "echo out; echo err >&2", env=environ())
        eq((p.returncode, p.stdout, p.stderr), (0, b"out\n", b"err\n"))
        call("session", "run", "--timeout", "300ms", box, "sleep 30", status=124, stderr=re.compile(rb"timed out"))
        eq(call("session", box, "echo $A"), b"1\n", "the shell was kept")
        second = call("session", "open", "-e", "B=2", "-w", "/", "--shell", "sh", "-u", "0:0", box).decode().strip()
        call("session", box, "true", status=125, stderr=re.compile(rb"2 sessions: name one"))
        eq(call("session", "run", "-s", second[:11], box, "echo $B"), b"2\n")
        r = call_json("session", "run", "--json", "--session", second, box, "cd /usr; exit 3", status=3)
        eq((r["exit_code"], r["ended"]), (3, True))
        eq(call_json("session", "close", "--json", box, second), {"id": second, "state": "gone"})
        eq(len(call_json("session", "ls", "--json", box)), 1)
        ok("idle" in call("session", "ls", box).decode(), "the table")
        eq(call("session", box, "head -c 300000 /dev/zero | tr '\\0' x"), b"x" * 300000)


@test
def the_short_form_of_a_session_takes_options():
    with sandbox() as box:
        eq(call("session", box, "X=5; echo $X"), b"5\n", "without any")
        p = warren("session", "--timeout", "500ms", box, "sleep 100", env=environ())
        eq(p.returncode, 124, f"its status: {p.stderr}")
        eq(call("session", "-q", box, "echo $X"), b"5\n", "the same shell")
        p = warren("session", "--no-such", box, "true", env=environ())
        ok(p.returncode == 125 and b"--no-such" in p.stderr, f"an option that there is not: {p}")


@test
def a_client_that_disconnects_leaves_no_command_in_a_session():
    with sandbox() as box:
        session = call("session", "open", box).decode().strip()
        for n, (sig, json_, status) in enumerate(((signal.SIGINT, [], 130), (signal.SIGINT, ["--json"], 130), (signal.SIGTERM, [], 143))):
            p = start("session", "run", *json_, box, f"touch /tmp/begun{n}; sleep 100; echo not reached")
            until(lambda n=n: warren("exec", box, "test", "-e", f"/tmp/begun{n}", env=environ()).returncode == 0, "it runs")
            p.send_signal(sig)
            out, err = p.communicate(timeout=30)
            eq((p.returncode, err, b"not reached" in out), (status, b"", False), f"{sig.name} {json_}")
            until(lambda: json.loads(call("session", "ls", "--json", box))[0]["state"] == "idle", "the command has ended")
        with start("session", box, "yes") as p:
            ok(p.stdout.readline(), "it says something")
            p.stdout.close()
            eq((p.wait(timeout=30), p.stderr.read()), (141, b""), "who reads no more")
        until(lambda: json.loads(call("session", "ls", "--json", box))[0]["state"] == "idle", "and the command with it")
        eq(call("session", "ls", "-q", box).decode().split(), [session], "the shell was kept")


# ------------------------------------------------------------------------ run --daemon


@test
def run_can_use_the_service():
    for argv, status in ((["true"], 0), (["sh", "-c", "exit 3"], 3), (["no-such-command"], 127), (["/etc"], 126),
                         (["sh", "-c", "kill -9 $$"], 137)):
        call("run", "--daemon", "--", *argv, status=status, stderr=None)
    eq(call("run", "--daemon", "-i", "-e", "A=b", "-m", "64m", "sh", "-c", "echo $A; cat", input=b"in\n"), b"b\nin\n")
    call("run", "--daemon", "--timeout", "300ms", "sleep", "20", status=124,
         stderr=b"warren run: timed out after 300ms\n")
    ours, theirs = (json.loads(warren("run", *extra, "--json", "sh", "-c", "echo x; exit 2", env=environ()).stdout)
                    for extra in ([], ["--daemon"]))
    eq((theirs["exit_code"], theirs["stdout"], theirs["signal"]), (2, "x\n", None))
    eq(list(theirs), list(ours), "what is told, and in which order")
    much = ["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; printf 'y\\377\\000' >&2; exec cat"]
    ours, theirs = (json.loads(warren("run", *extra, "-i", "--json", *much, env=environ(), input=b"z" * 2000000).stdout)
                    for extra in ([], ["--daemon"]))
    eq((len(ours["stdout"]), ours["stdout_truncated"], ours["stdout_lost_bytes"]), (MIB, True, 5000000 - MIB), "of much output")
    shape = [k for k in ours if k.startswith("std")]
    eq({k: theirs[k] for k in shape} == {k: ours[k] for k in shape}, True, "the same by both")
    with Terminal("--daemon", "-it", "sh", "-c", "stty size; exit 6", env=environ()) as t:
        t.expect(rb"33 99\r\n")
        eq(t.wait(), 6)
        t.restored()
    p = start("run", "--daemon", "sh", "-c", "echo ready; exec sleep 60")
    eq(p.stdout.readline(), b"ready\n")
    p.terminate()
    eq((p.wait(20), p.stderr.read()), (143, b""))
    eq(call("ls", "-q"), b"", "nothing is left")
    p = warren("run", "--daemon", "true", env=environ(WARREN_HOST="unix:/nonexistent"))
    ok(p.returncode == 125 and b"start one with 'warren serve'" in p.stderr, p)


if __name__ == "__main__":
    sys.exit(main())
