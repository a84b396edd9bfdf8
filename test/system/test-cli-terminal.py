#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-cli-terminal.py - `warren run` at a terminal

Prints TAP. $WARREN is the program (default build/warren). After every test, no trace of a sandbox may remain. Hostile
commands limit themselves, and none runs before a probe has shown that commands are isolated.
"""
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, ok, eq  # pylint: disable=wrong-import-position
from cli_world import WAIT, run, main  # pylint: disable=wrong-import-position
from terminal import Terminal  # pylint: disable=wrong-import-position


@test
def tty_gives_the_command_a_terminal():
    with Terminal("-it", "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && tty && stty size && echo $TERM") as t:
        eq(t.wait(), 0)
        eq(t.seen, b"/dev/pts/0\r\n33 99\r\nvt100\r\n")
        t.restored()
    with Terminal("--tty", "--interactive", "sh", "-c", "exit 5") as t:
        eq(t.wait(), 5)
        t.restored()


@test
def the_default_terminal_is_xterm():
    with Terminal("-it", "sh", "-c", "echo $TERM", env={"PATH": os.environ["PATH"]}) as t:
        eq((t.wait(), t.seen), (0, b"xterm\r\n"))
    with Terminal("-it", "-e", "TERM=dumb", "sh", "-c", "echo $TERM") as t:
        eq((t.wait(), t.seen), (0, b"dumb\r\n"))
    ok(b"TERM" not in run("env", env={"PATH": os.environ["PATH"], "TERM": "vt100"}), "TERM without a terminal")


@test
def a_terminal_is_raw_while_it_runs():
    with Terminal("-it", "sh", "-c", "echo ready; read x; echo got $x") as t:
        t.expect(b"ready")
        ok(t.raw(), "the terminal is not raw")
        t.type(b"words\r")
        t.expect(b"words\r\ngot words\r\n")  # echoed by the terminal inside
        eq(t.wait(), 0)
        t.restored()


@test
def a_new_terminal_size_is_passed_on():
    with Terminal("-it", "sh", "-c", "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done",
                  rows=20, cols=70) as t:
        t.expect(b"ready")
        t.resize(44, 111)
        os.kill(t.p.pid, signal.SIGWINCH)  # the kernel also sends it to the foreground process group
        t.expect(rb"44 111\r\n")
        eq(t.wait(), 0)


@test
def keys_reach_the_command():
    with Terminal("-it", "cat") as t:
        t.type(b"runs\r")
        t.expect(b"runs\r\nruns\r\n")  # echoed by the terminal, then by the command
        t.type(b"\x03")
        eq(t.wait(), 130, "status after ^C")
        t.restored()
    with Terminal("-it", "cat") as t:
        t.type(b"line\r")
        t.expect(b"line\r\nline\r\n")
        t.type(b"\x04")
        eq(t.wait(), 0, "status after ^D")


@test
def job_control_works_inside():
    with Terminal("-it", "bash", "--norc", "--noprofile", "-i", "-e", "PS1=x") as t:
        t.wait()
    with Terminal("-it", "-e", "PS1=$ ", "bash", "--norc", "--noprofile", "-i") as t:
        t.expect(rb"\$ ")
        ok(b"job control" not in t.seen, "bash has no job control")
        t.type(b"sleep 30\r")
        time.sleep(0.3)
        t.type(b"\x1a")
        t.expect(b"Stopped")
        t.type(b"jobs; bg; jobs; kill %1; wait; echo o''ver\r")
        t.expect(b"Running")
        t.expect(b"over\r\n")
        t.type(b"sleep 30\r")
        time.sleep(0.3)
        t.type(b"\x03")
        t.type(b"echo still h''ere $?; exit 9\r")
        t.expect(b"still here 130\r\n")
        eq(t.wait(), 9)
        t.restored()


@test
def the_terminal_is_restored_after_every_kind_of_end():
    for name in ("TERM", "HUP", "INT", "QUIT"):
        with Terminal("-it", "sh", "-c", "echo ready; exec sleep 30") as t:
            t.expect(b"ready")
            ok(t.raw(), "the terminal is not raw")
            t.p.send_signal(getattr(signal, f"SIG{name}"))
            eq(t.wait(), 128 + getattr(signal, f"SIG{name}"), f"status after SIG{name}")
            t.restored()
    for name in ("SEGV", "ABRT", "ALRM"):
        with Terminal("-it", "sh", "-c", "echo ready; exec sleep 30") as t:
            t.expect(b"ready")
            t.p.send_signal(getattr(signal, f"SIG{name}"))
            eq(t.wait(), -getattr(signal, f"SIG{name}"), f"status after SIG{name}")
            t.restored()
    with Terminal("-it", "no-such-command") as t:
        eq(t.wait(), 127)
        t.restored()
        ok(re.fullmatch(rb"warren run: [^\r\n]*no-such-command[^\r\n]*\r\n", t.seen), t.seen)
    with Terminal("-it", "--timeout", "400ms", "sleep", "30") as t:
        eq(t.wait(), 124)
        t.restored()
        eq(t.seen, b"warren run: timed out after 400ms\r\n")


@test
def the_terminal_is_restored_while_warren_is_stopped():
    with Terminal("-it", "sh", "-c", "echo ready; read x; echo got $x") as t:
        t.expect(b"ready")
        t.p.send_signal(signal.SIGTSTP)
        eq(os.waitpid(t.p.pid, os.WUNTRACED)[1] & 0xff, 0x7f, "it is stopped")
        t.restored()
        t.p.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + WAIT
        while not t.raw():
            ok(time.monotonic() < deadline, "the terminal is not raw again")
            time.sleep(0.01)
        t.type(b"on\r")
        t.expect(b"got on")
        eq(t.wait(), 0)
        t.restored()


@test
def tty_works_without_stdin():
    out = run("-t", "sh", "-c", "test -t 1 && stty size && tty")
    eq(out, b"24 80\r\n/dev/pts/0\r\n")
    with Terminal("-t", "sh", "-c", "stty size; echo ready; exec sleep 30") as t:
        t.expect(b"33 99\r+\n.*ready")
        ok(not t.raw(), "the terminal is raw, and nobody reads it")
        t.type(b"\x03")
        eq(t.wait(), 130, "status after ^C")
        t.restored()


@test
def stdin_can_be_a_terminal_without_tty():
    with Terminal("-i", "sh", "-c", "test -t 0 || echo pipe; cat") as t:
        t.expect(b"pipe\r\n")
        ok(not t.raw(), "the terminal is raw")
        t.type(b"line\r")
        t.expect(b"line\r\nline\r\n")  # echoed by the test's terminal
        t.type(b"\x04")
        eq(t.wait(), 0, "status after ^D")


@test
def output_of_a_terminal_can_go_to_a_pipe():
    with Terminal("-it", "sh", "-c", "test -t 1 && seq 1 30000", stdout=subprocess.PIPE) as t:
        eq(t.p.stdout.read(), b"".join(b"%d\r\n" % i for i in range(1, 30001)))
        eq(t.wait(), 0)
        t.restored()
        t.p.stdout.close()


@test
def a_large_output_on_a_terminal_is_complete():
    with Terminal("-it", "sh", "-c", "seq 1 20000; echo end") as t:
        eq(t.wait(), 0)
        ok(t.seen == b"".join(b"%d\r\n" % i for i in range(1, 20001)) + b"end\r\n", "not all of it came")


@test
def an_interrupt_from_the_keyboard_is_delivered_once():
    # There is no terminal inside: ^C sends a signal to the program's process group, and the program forwards it once.
    with Terminal("sh", "-c", "trap 'echo int' INT; echo ready; sleep 1 & wait; wait; echo end") as t:
        t.expect(b"ready")
        t.type(b"\x03")
        eq(t.wait(), 0)
        eq(t.seen.count(b"int\r\n"), 1, f"interrupts in {t.seen!r}")


if __name__ == "__main__":
    sys.exit(main())
