#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-session-output.py - all output of a session command arrives, however slow the reader is; a gap is reported at
its position"""
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import api_schema  # pylint: disable=wrong-import-position
from checks import MIB, WARREN, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import WAIT, World, has, needs, until  # pylint: disable=wrong-import-position

WORLD = World()
LINES = 300000
# Twice as much output as a journal keeps, and its expected content.
COMMAND, TEXT = f"seq 1 {LINES}", b"".join(b"%d\n" % i for i in range(1, LINES + 1))


class Session:
    def __init__(self, box=None, **spec):
        self.box = box or WORLD.create()
        shown = WORLD.post(f"/v1/sandboxes/{self.box}/sessions", spec, 201)
        self.id, self.exec = shown["id"], shown["exec_id"]
        self.path = f"/v1/sandboxes/{self.box}/sessions/{self.id}"

    def run(self, command, **spec):
        with WORLD.client(timeout=4 * WAIT) as c:
            r = c.ask("POST", f"{self.path}/run", {"command": command, **spec})
        eq(r.status, 200, f"status of a run: {r}")
        return r.json()

    @contextlib.contextmanager
    def stream(self, command, **spec):
        """The events of a command, one by one, each checked against its schema; the next one is read only when
        requested."""
        with WORLD.client(timeout=4 * WAIT) as c:
            r = c.send("POST", f"{self.path}/stream", {"command": command, **spec})
            eq(r.status, 200, "status of a stream")
            kind = {"content-type": r.headers["Content-Type"]}

            def events():
                for line in r:
                    api_schema.check("POST", f"{self.path}/stream", 200, kind, line)
                    yield json.loads(line)
            yield events()

    def state(self):
        return WORLD.get(self.path)["state"]

    def exists(self, path):
        return WORLD.run(self.box, ["test", "-e", path])["result"]["exit_code"] == 0


def same(got, want, what):
    """Compares without printing megabytes."""
    if got == want:
        return
    where = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
    ok(False, f"{what}: {len(got)} bytes, not {len(want)}; they part at {where}: {got[where - 20:where + 20]!r}")


def collect(events, pause=0):
    """Returns the output, the gaps, and the last event."""
    text, gaps, last = [], [], None
    for e in events:
        last = e
        if e["type"] == "output":
            text.append(e["data"])
            if pause and len(text) % 8 == 1:
                time.sleep(pause)
        elif e["type"] == "gap":
            gaps.append(e)
    return "".join(text).encode(), gaps, last


@test
def the_command_line_shows_all_output():
    box = WORLD.create()
    for i in range(3):
        p = subprocess.run([WARREN, "session", box, COMMAND], capture_output=True, timeout=4 * WAIT, check=False,
                           env={**os.environ, "WARREN_HOST": f"unix:{WORLD.socket}"})
        eq((p.returncode, p.stderr), (0, b""), f"run {i}")
        same(p.stdout, TEXT, f"run {i}")


@test
def a_stream_and_an_answer_have_all_output():
    s = Session()
    with s.stream(COMMAND) as events:
        text, gaps, last = collect(events)
    same(text, TEXT, "a stream")
    eq((gaps, last["type"], last["session"]["lost"]), ([], "result", 0))
    r = s.run(COMMAND)
    same(r["stdout"].encode(), TEXT, "an answer")
    eq((r["lost"], r["gaps"]), (0, []))
    # Use the smallest journal, and both streams.
    small = Session(s.box, output_limit=65536)
    for i in range(20):  # the ring wraps many times, and no output may be missing
        r = small.run(f"{COMMAND}; {COMMAND} >&2")
        eq((r["lost"], r["gaps"]), (0, []), f"round {i}")
        same(r["stdout"].encode(), TEXT, f"stdout with a small journal, round {i}")
        same(r["stderr"].encode(), TEXT, f"stderr with a small journal, round {i}")


@test
def output_in_single_bytes_is_complete():
    """A byte takes sixteen bytes of the ring: the writer is blocked earlier, and continues."""
    s = Session(output_limit=65536)
    text = s.run("i=0; while [ $i -lt 30000 ]; do printf $((i % 10)); i=$((i + 1)); done")["stdout"]
    same(text.encode(), b"0123456789" * 3000, "single bytes")


@test
def a_writer_waits_for_a_slow_reader():
    s = Session()
    with s.stream(f"{COMMAND}; {COMMAND}; {COMMAND}; {COMMAND}; touch /tmp/written") as events:
        first = next(events)
        time.sleep(1.5)
        ok(not s.exists("/tmp/written"), "it did not wait for its reader")
        eq(s.state(), "busy")
        text, gaps, last = collect(events, 0.01)
    same(first["data"].encode() + text, 4 * TEXT, "what a slow reader got")
    eq((gaps, last["session"]["exit_code"]), ([], 0))
    ok(s.exists("/tmp/written"), "it ran to its end")
    eq(s.run("echo alive")["stdout"], "alive\n", "the next command")


@test
def a_command_continues_when_its_reader_disconnects():
    s = Session()
    with s.stream(f"{COMMAND}; {COMMAND}; {COMMAND}; {COMMAND}; touch /tmp/written") as events:
        next(events)
        time.sleep(0.5)
        ok(not s.exists("/tmp/written"), "it did not wait for its reader")
    until(lambda: s.state() == "idle", "the command goes on without its reader")
    ok(s.exists("/tmp/written"), "it ran to its end")
    eq(s.run("echo alive")["stdout"], "alive\n", "the next command")


@test
def all_output_arrives_before_the_end_of_the_shell():
    for command in (f"{COMMAND}; exit 3", f"{COMMAND}; sleep 100 & {COMMAND}; exit 3", f"{COMMAND}; exec sh -c '{COMMAND}; exit 3'"):
        times = command.count(COMMAND)
        s = Session()
        with s.stream(command) as events:
            first = next(events)
            time.sleep(0.5)
            text, gaps, last = collect(events, 0.005)
        same(first["data"].encode() + text, times * TEXT, command)
        eq((gaps, last["session"]["exit_code"], last["session"]["ended"]), ([], 3, True), command)
        r = Session(s.box).run(command)
        same(r["stdout"].encode(), times * TEXT, f"an answer of {command}")
        eq((r["exit_code"], r["ended"], r["lost"]), (3, True, 0), command)


@test
def output_does_not_overwrite_a_result():
    """A background job fills the journal again and again; the result of each command is found."""
    s = Session(output_limit=65536)
    s.run("while :; do echo flood flood flood flood flood flood; done & J=$!", timeout_ms=1000 * WAIT)
    for i in range(20):
        r = s.run(f"echo I$((1{i:02} + 1)).", timeout_ms=1000 * WAIT)
        ok(f"I{101 + i}.\n" in r["stdout"], f"command {i}: {r['stdout'][:200]}")
        eq((r["timed_out"], r["lost"]), (False, 0), f"command {i}")
        time.sleep(0.02 * (i % 3))
    s.run("kill $J; wait $J 2>/dev/null")


@test
def output_between_commands_is_not_held():
    s = Session(output_limit=65536)
    s.run("(i=0; while [ $i -lt 200 ]; do head -c 65536 /dev/zero | tr '\\0' x; i=$((i + 1)); done; touch /tmp/written) &")
    until(lambda: s.exists("/tmp/written"), "a job that writes 13 MB, and that nobody reads")


@test
def each_piece_of_output_has_a_cursor():
    needs("control")  # otherwise, the output of the exec has markers
    s = Session()
    with s.stream("printf abc; sleep 0.2; printf def >&2") as events:
        seen = list(events)
    eq([(e["type"], e.get("data")) for e in seen], [("output", "abc"), ("output", "def"), ("result", None)])
    eq(seen[0]["cursor"] + 3, seen[1]["cursor"], "cursors of pieces")
    ok(seen[2]["cursor"] >= seen[1]["cursor"], "the result's cursor")
    s.run("printf later")
    eq(WORLD.raw(s.box, s.exec, **{"from": seen[2]["cursor"], "follow": "false"}), b"later", "from the result on")
    eq(WORLD.raw(s.box, s.exec, **{"from": seen[0]["cursor"], "follow": "false"}), b"deflater", "from the first piece on")


@test
def output_beyond_an_answer_is_reported_with_its_position():
    s = Session(WORLD.create(), output_limit=4 * MIB)
    most = 64 * MIB
    r = s.run(f"echo before >&2; head -c {most + 1000} /dev/zero | tr '\\0' x; echo after >&2")
    eq((len(r["stdout"]), r["stderr"], r["lost"]), (most, "before\nafter\n", 1000))
    eq(r["gaps"], [{"stdout_at": most, "stderr_at": None, "lost": 1000}])
    # A stream has all of it.
    with s.stream(f"head -c {most + 1000} /dev/zero | tr '\\0' x", encoding="base64") as events:
        size = sum(len(e["data"]) // 4 * 3 - e["data"].count("=") for e in events if e["type"] == "output")
    eq(size, most + 1000, "bytes in a stream")


@test
def a_client_that_does_not_read_keeps_its_session():
    """The result of a command that timed out follows unread output: the shell reacted, and is kept."""
    s = Session(output_limit=65536)
    s.run("X=kept")
    with s.stream("yes", timeout_ms=500) as events:
        next(events)
        time.sleep(9)  # longer than all steps that stop a command
        _, gaps, last = collect(events)
    eq((last["type"], last["session"]["timed_out"], last["session"]["ended"], gaps), ("result", True, False, []))
    eq(s.run("echo $X")["stdout"], "kept\n", "the shell's state")


@test
def a_session_with_an_unread_result_survives_interrupts():
    """The shell blocks in a full pipe while it writes its result: each interrupt fails that write, and the shell
    repeats it."""
    for shell in ("/bin/bash", "/bin/sh"):
        s = Session(output_limit=65536, shell=shell)
        s.run("X=kept")
        with s.stream("yes") as events:
            next(events)
            for _ in range(5):
                time.sleep(0.4)
                WORLD.ask("POST", f"{s.path}/interrupt", {}, status=204)
            time.sleep(0.4)
            _, gaps, last = collect(events)
        eq((last["type"], last["session"]["interrupted"], last["session"]["ended"], gaps), ("result", True, False, []))
        eq(s.run("echo $X")["stdout"], "kept\n", f"the state of {shell}")


@test
def a_stuck_shell_is_ended_despite_slow_output():
    s = Session()
    r = s.run("trap '' INT; while :; do echo drop; sleep 0.1; done", timeout_ms=300)
    eq((r["timed_out"], r["ended"]), (True, True), "a shell that goes on writing after all that it was sent")
    eq(set(r["stdout"].split()), {"drop"}, "what it wrote")


@test
def unread_output_of_a_deleted_sandbox_is_reported_as_lost():
    """The only case in which a stream has a gap: the sandbox is gone and cannot wait for the client."""
    s = Session(output_limit="16m")
    with s.stream(f"{COMMAND}; {COMMAND}; {COMMAND}; {COMMAND}; sleep 100") as events:
        first = next(events)
        time.sleep(1)
        WORLD.delete(s.box)
        text, gaps, last = collect(events)
    text = first["data"].encode() + text
    eq((last["type"], last["session"]["ended"]), ("result", True))
    eq(len(gaps), 1, "one hole")
    ok(len(text) < 4 * len(TEXT), "positive control: the client had not taken all of it")
    same(text, (4 * TEXT)[:len(text)], "up to the hole")
    eq(last["session"]["lost"], gaps[0]["lost"])
    eq(gaps[0]["cursor"], last["cursor"], "the hole is the end")
    if has("control"):
        eq(len(text) + gaps[0]["lost"], 4 * len(TEXT), "to the byte")


@test
def logs_report_dropped_output():
    """Nothing blocked the exec, so its oldest output is gone, which is reported before the rest."""
    box = WORLD.create()
    e = WORLD.exec(box, COMMAND, output_limit=65536)
    WORLD.result(box, e)
    p = subprocess.run([WARREN, "logs", box, e], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT,
                       check=False, env={**os.environ, "WARREN_HOST": f"unix:{WORLD.socket}"})
    head, _, rest = p.stdout.partition(b"\n")
    ok(head.startswith(b"warren") and head.endswith(b"bytes of output were dropped here"), f"the first line: {head[:200]}")
    lost = int(head.split(b" bytes")[0].rsplit(b" ")[-1])
    same(rest, TEXT[lost:], "after the hole")


@test
def the_schema_check_detects_invalid_responses():
    """Positive control: an answer without a required member is invalid."""
    result = {"serial": 1, "exit_code": 0, "lost": 0, "cwd": "/", "timed_out": False, "interrupted": False,
              "syntax_error": False, "ended": False, "wall_usec": 1}
    eq(api_schema.wrong("OutputEvent", {"type": "result", "cursor": 1, "session": result}), None)
    for bad in ({"type": "result", "session": result}, {"type": "result", "cursor": 1, "session": {}},
                {"type": "result", "cursor": "1", "session": result}, {"type": "gone", "cursor": 1}):
        ok(api_schema.wrong("OutputEvent", bad), f"nothing wrong with {bad}")
    try:
        api_schema.check("POST", "/v1/sandboxes/k3f9x2m7qd1w/sessions/k3f9x2m7qd1w/stream", 200,
                         {"content-type": "application/x-ndjson"}, b'{"type":"result","session":{}}\n')
    except AssertionError:
        return
    raise AssertionError("a result without a cursor passed")


if __name__ == "__main__":
    eq(hashlib.sha256(TEXT).hexdigest()[:8], subprocess.run(f"{COMMAND} | sha256sum", shell=True, check=True,
                                                         capture_output=True, text=True).stdout[:8], "what seq writes")
    with WORLD:
        status = run_tests()
    sys.exit(status)
