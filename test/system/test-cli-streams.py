#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-cli-streams.py - output and signals of `warren run`

Prints TAP. $WARREN is the program (default build/warren). After every test, no trace of a sandbox may remain. Hostile
commands limit themselves, and none runs before a probe has shown that commands are isolated.
"""
import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, needs_root, ok, eq, scratch, warren, WARREN  # pylint: disable=wrong-import-position
from cli_world import WAIT, run, sh, start, finish, main  # pylint: disable=wrong-import-position


# ------------------------------------------------------------------- output


@test
def stdout_and_stderr_are_separate_and_complete():
    p = warren("run", "sh", "-c", "seq 1 200000; seq 1 1000 >&2")
    eq(p.returncode, 0)
    ok(p.stdout == b"".join(b"%d\n" % i for i in range(1, 200001)), "stdout")
    ok(p.stderr == b"".join(b"%d\n" % i for i in range(1, 1001)), "stderr")


@test
def background_processes_do_not_delay_the_end():
    before = time.monotonic()
    eq(sh("sleep 30 & echo done"), b"done\n")
    ok(time.monotonic() - before < 25, "a background process kept us waiting")


@test
@needs_root
def the_callers_umask_does_not_affect_the_sandbox():
    """The layer of 'host' is created once, by the first run."""
    with scratch() as d:
        for mask in (0o077, 0o002):
            p = warren("run", "-u", "1000", "--", "sh", "-c", "stat -c %a / /etc /etc/alternatives /tmp; umask",
                       env={**os.environ, "WARREN_STATE": f"{d}/{mask}"}, umask=mask)
            eq((p.returncode, p.stdout.split()), (0, [b"755", b"755", b"755", b"1777", b"0022"]), f"{mask:o}: {p.stderr}")


@test
def output_can_be_appended_to_a_file():
    with scratch() as d:
        for word in ("one", "two"):
            with open(f"{d}/f", "ab") as f:
                run("echo", word, stdout=f)
        with open(f"{d}/f", "rb") as f:
            eq(f.read(), b"one\ntwo\n")


@test
def both_streams_can_share_one_file():
    with tempfile.TemporaryFile() as f:
        warren("run", "sh", "-c", "echo a; sleep 0.1; echo b >&2; sleep 0.1; echo c", stdout=f, stderr=f)
        f.seek(0)
        eq(f.read(), b"a\nb\nc\n")


@test
def output_can_go_to_a_socket():
    a, b = socket.socketpair()
    with a, b:
        p = start("seq", "1", "200000", stdout=b)
        b.close()
        time.sleep(0.3)
        data = b""
        while piece := a.recv(65536):
            data += piece
        eq(p.wait(WAIT), 0)
        p.stderr.close()
        ok(data == b"".join(b"%d\n" % i for i in range(1, 200001)), "what came over a socket")


@test
def a_slow_reader_receives_all_output():
    p = start("seq", "1", "300000")
    data = b""
    while piece := os.read(p.stdout.fileno(), 20000):
        data += piece
        if len(data) < 400000:
            time.sleep(0.005)
    eq(finish(p)[0], 0)
    ok(data == b"".join(b"%d\n" % i for i in range(1, 300001)), "what a slow reader got")


@test
def a_slow_reader_does_not_delay_signals():
    p = start("cat", "/dev/zero")
    time.sleep(0.5)  # every pipe is full now
    p.send_signal(signal.SIGTERM)
    status, out, err = finish(p)
    eq((status, err), (143, b""))
    ok(len(out) >= 65536, "what was written before")


@test
def a_signal_ends_a_run_whose_reader_never_reads():
    p = start("sh", "-c", "head -c 8M /dev/zero")
    time.sleep(0.5)
    p.send_signal(signal.SIGTERM)  # reaches head or sh, depending on the moment
    time.sleep(0.5)
    p.send_signal(signal.SIGTERM)  # the command has ended, but its output cannot be written: this signal ends the program
    eq(p.wait(WAIT), 143)
    finish(p)


@test
def a_run_ends_when_its_reader_leaves():
    p = subprocess.run(["bash", "-c", f"'{WARREN}' run yes | head -n 1; echo ${{PIPESTATUS[0]}}"],
                       capture_output=True, timeout=WAIT, stdin=subprocess.DEVNULL)
    eq((p.stdout, p.stderr), (b"y\n141\n", b""))


@test
def output_that_cannot_be_written_is_reported():
    with open("/dev/full", "wb") as full:
        run("echo", "hi", stdout=full, status=125,
            stderr=b"warren run: write to stdout: No space left on device\n")
        run("--json", "true", stdout=full, status=125,
            stderr=b"warren run: write to stdout: No space left on device\n")


@test
def closed_descriptors_of_the_caller_are_handled():
    for redirect, status, err in [("<&-", 0, b""), ("2>&-", 0, b""),
                                  (">&-", 125, b"warren run: write to stdout: Bad file descriptor\n")]:
        p = subprocess.run(["sh", "-c", f"'{WARREN}' run -i echo hi {redirect}"], capture_output=True,
                           timeout=WAIT, stdin=subprocess.DEVNULL)
        eq((p.returncode, p.stderr), (status, err), f"with {redirect}")
        eq(p.stdout, b"hi\n" if status == 0 else b"")
    eq(sh("ls /proc/self/fd | wc -l"), b"4\n", "descriptors inside, one of them to look with")


@test
def the_callers_stdout_stays_blocking():
    r, w = os.pipe()
    try:
        run("echo", "hi", stdout=w)
        ok(not fcntl.fcntl(w, fcntl.F_GETFL) & os.O_NONBLOCK, "the pipe's flags were changed")
        eq(os.read(r, 10), b"hi\n")
    finally:
        os.close(r)
        os.close(w)


# ------------------------------------------------------------------ signals

TRAPS = ("for s in INT TERM HUP QUIT USR1; do trap \"echo $s\" $s; done; trap 'echo USR2; exit 3' USR2; "
         "echo ready; while :; do sleep 0.05; done")


@test
def signals_are_passed_on():
    for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2"):
        p = start("sleep", "30")
        time.sleep(0.2)
        p.send_signal(getattr(signal, f"SIG{name}"))
        status, out, err = finish(p)
        eq((status, out, err), (128 + getattr(signal, f"SIG{name}"), b"", b""), f"after SIG{name}")


@test
def a_command_may_catch_repeated_signals():
    p = start("sh", "-c", TRAPS)
    eq(p.stdout.readline(), b"ready\n")
    for name in ("INT", "INT", "TERM", "TERM", "HUP", "USR1", "QUIT", "USR2"):
        p.send_signal(getattr(signal, f"SIG{name}"))
        eq(p.stdout.readline(), name.encode() + b"\n")
    eq(finish(p)[0], 3)


@test
def a_stopped_command_is_continued():
    p = start("sh", "-c", "echo ready; kill -STOP $$; echo on")
    eq(p.stdout.readline(), b"ready\n")
    time.sleep(0.2)
    p.send_signal(signal.SIGCONT)
    status, out, _ = finish(p)
    eq((status, out), (0, b"on\n"))


@test
def an_ignored_signal_stays_ignored():
    p = start("sh", "-c", "trap 'echo hup' HUP; echo ready; sleep 0.6", stderr=subprocess.PIPE,
              preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    eq(p.stdout.readline(), b"ready\n")
    p.send_signal(signal.SIGHUP)
    status, out, _ = finish(p)
    eq((status, out), (0, b""))


@test
def signal_dispositions_inside_are_the_defaults():
    ignore = [signal.SIGHUP, signal.SIGPIPE, signal.SIGINT]

    def prepare():
        for s in ignore:
            signal.signal(s, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM])

    out = run("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status", preexec_fn=prepare)
    eq(out, b"SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n")


@test
def a_signal_at_any_moment_leaves_nothing_behind():
    for i in range(40):
        p = start("sleep", "30")
        time.sleep(i * 0.0003)
        p.send_signal(signal.SIGTERM)
        status, _, err = finish(p)
        # If main() has not started yet, the signal ends the program itself.
        ok(status in (143, -signal.SIGTERM), f"status {status} after {i}: {err!r}")


@test
def killing_the_program_kills_the_sandbox():
    marker = f"{30 + os.getpid() % 1000}.{os.getpid()}"
    p = start("sh", "-c", f"sleep {marker} & echo ready; wait")
    eq(p.stdout.readline(), b"ready\n")

    def alive():
        return subprocess.run(["pgrep", "-fx", f"sleep {marker}"], stdout=subprocess.DEVNULL,
                              check=False).returncode == 0

    deadline = time.monotonic() + WAIT
    while not alive():  # the control: the command is visible from outside as soon as the shell has started sleep
        ok(time.monotonic() < deadline, "the command is not seen from outside")
        time.sleep(0.01)
    p.kill()
    finish(p)
    deadline = time.monotonic() + WAIT
    while alive():
        ok(time.monotonic() < deadline, "the command outlived the program")
        time.sleep(0.01)
    run("true")  # finds and removes leftovers


if __name__ == "__main__":
    sys.exit(main())
