#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-serve-exec.py - execs over the service: start, input, output from a cursor, signals, end

Prints TAP. Most tests share one sandbox.
"""
import base64
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import random
import re
import signal
import sys
import threading
import time
import os

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import MIB, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import BACKEND, WAIT, World, check_error, has, needs, running, until  # pylint: disable=wrong-import-position

NOBODY = "k3f9x2m7qd1w"
w = b = at = None  # pylint: disable=invalid-name


def events(exec_id, **query):
    """All output events of an exec except heartbeats; cursors are checked as well."""
    found, cursor = [], query.get("from", 0)
    for e in w.output(b, exec_id, **query):
        if e["type"] == "heartbeat":
            continue
        ok(e["cursor"] >= cursor, f"cursors go back: {e} after {cursor}")
        cursor = e["cursor"]
        found.append(e)
    return found


def text(found, stream=None):
    return "".join(e["data"] for e in found if e["type"] == "output" and stream in (None, e["stream"]))


# -------------------------------------------------------------- start and end


@test
def processes_left_by_an_exec_belong_to_the_sandbox():
    e = w.exec(b, "sleep 4321 >/dev/null 2>&1 </dev/null & echo $!; exit 0")
    eq(w.result(b, e)["exit_code"], 0)
    pid = w.raw(b, e).decode().strip()
    eq(w.run(b, f"kill -0 {pid}")["result"]["exit_code"], 0, "it is not left running")
    for to in ("tree", "first", "others"):
        said = check_error(w.ask("POST", f"{at}/execs/{e}/signal", {"signal": "KILL", "to": to}), 409, "wrong_state")
        ok("another exec" in said["message"], f"it does not say what to do: {said}")
    eq(w.run(b, f"kill -9 {pid}; sleep 0.1; kill -0 {pid} 2>/dev/null")["result"]["exit_code"], 1, "another exec cannot kill it")


@test
def results_are_exact():
    for command, code, sig in (("exit 0", 0, 0), ("exit 1", 1, 0), ("exit 255", 255, 0), ("kill -TERM $$", -1, 15),
                               ("kill -KILL $$", -1, 9), ("kill -SEGV $$", -1, 11)):
        r = w.run(b, command)["result"]
        eq((r["exit_code"], r["signal"], r["timed_out"], r["oom"]), (code, sig, False, False), command)
    e = w.run(b, "echo out; echo err >&2; exit 3")
    eq((e["stdout"], e["stderr"], e["lost"], e["state"]), ("out\n", "err\n", 0, "exited"), "output")
    e = w.run(b, ["/bin/echo", "a b", "", "c\nd", "é"])
    eq(e["stdout"], "a b  c\nd é\n", "arguments")
    e = w.run(b, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
    ok(e["result"]["wall_usec"] >= 1000, e["result"])
    if has("accounts"):
        ok(e["result"]["user_usec"] > 1000, e["result"])
    else:
        eq([e["result"][k] for k in ("user_usec", "system_usec", "max_memory", "read_bytes", "written_bytes")], [None] * 5,
           "what nobody counts")


def as_text(data):
    """The text as in JSON: each byte that is not UTF-8 becomes U+FFFD."""
    out, at = [], 0
    while at < len(data):
        for n in (1, 2, 3, 4):
            try:
                out.append(data[at:at + n].decode())
                break
            except UnicodeDecodeError:
                pass
        else:
            out.append("\ufffd")
            n = 1
        at += n
    return "".join(out)


@test
def a_long_response_is_complete():
    """A long response is created in pieces, which may end at any byte; a short one is created at once."""
    random.seed(7)
    kinds = {"random": random.randbytes(150001), "controls": bytes(range(1, 32)) * 7000,
             "characters": "x\u00e9\u20ac\U0001f600".encode() * 20011, "cut": "\u20ac".encode() * 30000 + b"\xf0\x9f"}
    for name, data in kinds.items():
        for size in (len(data), 999):
            encoded = base64.b64encode(data[:size]).decode()
            start = {"command": "cat > /tmp/x; cat /tmp/x; cat /tmp/x >&2", "input_base64": encoded, "output_limit": "16m"}
            e = w.post(f"/v1/sandboxes/{b}/run", {**start, "encoding": "base64"})
            eq([base64.b64decode(e[s]) == data[:size] for s in ("stdout", "stderr")], [True, True], f"{name}, {size} as base64")
            e = w.post(f"/v1/sandboxes/{b}/run", start)
            eq([e[s] == as_text(data[:size]) for s in ("stdout", "stderr")], [True, True], f"{name}, {size} as text")
            eq(e["lost"], 0, "what is missing")


@test
def a_response_is_bounded_and_reports_truncation():
    e = w.run(b, "echo first; head -c 70000000 /dev/zero | tr '\\0' x; echo; echo last", output_limit="100m")
    whole = len("first\n") + 70000000 + len("\nlast\n")
    eq((e["output_from"], e["output_to"]), (0, whole), "what the journal has")
    eq((len(e["stdout"]), e["lost"]), (64 * MIB, whole - 64 * MIB), "what the answer has, and has not")
    ok(e["stdout"].endswith("x\nlast\n"), "the oldest goes first")
    eq(w.raw(b, e["id"], max_bytes=6), b"first\n", "what was left out is still there")
    eq(w.run(b, "echo short")["lost"], 0, "of a short one")


@test
def directory_user_and_environment_are_set():
    user = {"user": "1234"} if has("user") else {}
    out = w.run(b, "pwd; id -u; echo $X", cwd="/tmp", env={"X": "y z"}, **user)["stdout"].split("\n")
    eq(out[:3], ["/tmp", user.get("user", "0"), "y z"], "seen inside")
    if not user:
        check_error(w.ask("POST", at + "/run", {"argv": ["true"], "user": "1234"}), 501, "not_supported")
    for spec, codes in (({"argv": ["/no/such"]}, ("command_not_found",)), ({"argv": ["nosuchprogram"]}, ("command_not_found",)),
                        ({"argv": ["/etc/passwd"]}, ("command_not_executable",)),
                        ({"argv": ["true"], "cwd": "/no/such"}, ("command_not_found",))):
        e = check_error(w.ask("POST", at + "/run", spec), 422)
        ok(e["code"] in codes, e)
    for spec in ({}, {"argv": []}, {"argv": ["true"], "command": "true"}, {"argv": ["a"], "nosuch": 1},
                 {"argv": [""], "cwd": "relative"}, {"argv": ["true"], "input": "a", "input_base64": "YQ=="},
                 {"argv": ["true"], "timeout_ms": 0}, {"argv": ["true"], "env": {"": "x"}}, {"argv": "true"},
                 *([{"argv": ["true"], "user": "nosuchuser"}, {"argv": ["true"], "user": "root:nosuchgroup"}] if user else [])):
        check_error(w.ask("POST", at + "/run", spec), 400, "invalid_request")
    before = w.settled()
    check_error(w.ask("POST", at + "/execs", {"argv": ["/no/such"]}), 422)
    until(lambda: w.objects() == before, lambda: f"a start that failed leaves: {before}, {w.objects()}")
    check_error(w.ask("GET", f"{at}/execs/{NOBODY}"), 404, "exec_not_found")


@test
def a_timeout_kills_the_whole_tree():
    e = w.run(b, "(sleep 50.125; echo never) & sleep 60.125 & trap '' TERM; sleep 70.125; echo never", timeout_ms=300)
    ok(e["result"]["timed_out"], e["result"])
    eq((e["result"]["exit_code"], e["result"]["signal"], e["stdout"]), (-1, 9, ""), "result")
    until(lambda: not any(running("sleep", t) for t in ("50.125", "60.125", "70.125")), "processes are left")
    if has("accounts"):
        until(lambda: w.get(at + "/stats")["pids"] == 0, "processes are left")
    elif not has("stats"):
        check_error(w.ask("GET", at + "/stats"), 501, "not_supported")
    ok(not w.run(b, "sleep 0.1", timeout_ms=20000)["result"]["timed_out"], "one that is in time")


def start_and_time_out(box, commands, timeouts):
    """Runs each command with each timeout, 16 at a time; returns how many timed out. All of them have ended."""
    todo = [(command, ms) for command in commands for ms in timeouts]

    def one(work):
        r = w.ask("POST", f"/v1/sandboxes/{box}/run", {"command": work[0], "timeout_ms": work[1], "wait_ms": WAIT * 1000})
        eq(r.status, 200, f"{work}: {r}")
        e = r.json()
        eq(e["state"], "exited", f"{work} runs on: {e}")
        return e["result"]["timed_out"]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return sum(pool.map(one, todo))


@test
def a_timeout_kills_a_command_that_has_just_started():
    """At the timeout, the command may not have joined its cgroup yet, or may be about to fork or to leave its
    parents."""
    mark = f"81{os.getpid()}"
    commands = (f"while :; do :; done; : {mark}", f"exec sleep {mark}", f"trap '' TERM; sleep {mark}; sleep {mark}",
                f"for i in 1 2 3 4 5 6 7 8; do (while :; do sleep {mark}; done) & done; wait",
                f"setsid sleep {mark} & setsid sleep {mark} & sleep {mark}")
    timeouts = [1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 30, 35, 40, 50] * (2 if BACKEND == "native" else 1)
    box, bounded = w.create(), w.create(limits={"pids": 40, "memory": "128m"})

    def alive(place):
        look = f"grep -lsa '{mark[0]}[{mark[1]}]{mark[2:]}' /proc/[0-9]*/cmdline; true"
        r = w.ask("POST", f"/v1/sandboxes/{place}/run", {"command": look})
        if r.status != 200:
            check_error(r, 503, "overloaded")
            return ["so many that none can be started"]
        return r.json()["stdout"].split()
    e = w.exec(bounded, commands[0])
    until(lambda: alive(bounded), "a command that runs is not seen")
    w.post(f"/v1/sandboxes/{bounded}/execs/{e}/signal", {"signal": "KILL"}, status=204)
    until(lambda: not alive(bounded), lambda: f"it was killed, and lives: {alive(bounded)}")
    eq(start_and_time_out(box, commands, timeouts), len(commands) * len(timeouts), "commands that timed out")
    until(lambda: not alive(box), lambda: f"these live on: {alive(box)}")
    w.delete(box)
    if has("accounts"):  # each exec has a cgroup
        for ms in timeouts[::4]:
            bomb = f"(f() {{ f & f & sleep {mark}; }}; f) & while :; do :; done"
            eq(start_and_time_out(bounded, [bomb], [ms]), 1, "fork bombs that timed out")
            until(lambda: not alive(bounded), lambda: f"these live on: {alive(bounded)}")
    w.delete(bounded)


@test
def an_out_of_memory_kill_is_reported_in_the_response():
    needs("limits", "oom")
    box = b if has("oom_outlived") else w.create(limits={"memory": "128m"})
    eq(w.run(box, "head -c 1000000 /dev/zero | tail | wc -c")["result"]["oom"], False, "what fits")
    with_oom = w.run(box, "head -c 300000000 /dev/zero | tail | wc -c")
    ok(with_oom["result"]["oom"], with_oom)
    if has("oom_outlived"):
        eq(w.run(box, "echo fine")["result"]["oom"], False, "the next one")
    else:
        until(lambda: w.show(box)["state"] == "failed", lambda: f"state {w.show(box)}")
        ok("out of memory" in w.show(box)["error"], w.show(box)["error"])
        w.delete(box)


@test
def a_request_waits_no_longer_than_wait_ms():
    e = w.run(b, "echo early; sleep 30", wait_ms=300)
    eq((e["state"], e["result"], e["stdout"]), ("running", None, "early\n"), "answer")
    eq(w.get(f"{at}/execs/{e['id']}", query={"wait_ms": 50})["state"], "running", "state")
    w.post(f"{at}/execs/{e['id']}/signal", {"signal": "KILL"}, status=204)
    eq(w.result(b, e["id"])["signal"], 9, "signal")


@test
def signals_reach_the_right_processes():
    script = "trap 'echo first' USR1; sh -c 'trap \"echo child; exit\" USR1; while :; do sleep 0.05; done' & " \
             "echo up; while :; do sleep 0.05; done"

    def begin():
        e = w.exec(b, script)
        until(lambda: w.get(f"{at}/execs/{e}")["output_to"] >= 3, "it is up")
        time.sleep(0.2)
        return e
    for whom, want in (("first", {"first"}), ("tree", {"first", "child"}), ("others", {"child"})):
        e = begin()
        w.post(f"{at}/execs/{e}/signal", {"signal": "USR1" if whom != "tree" else "SIGUSR1", "to": whom}, status=204)
        said = lambda e=e: set(w.raw(b, e, follow="false").decode().split()) & {"first", "child"}  # noqa: E731
        until(lambda: said() == want, lambda: f"{whom}: {said()}")
        w.post(f"{at}/execs/{e}/signal", {"signal": "KILL"}, status=204)
        eq(w.result(b, e)["signal"], 9, "signal")
        check_error(w.ask("POST", f"{at}/execs/{e}/signal", {"signal": "TERM"}), 409, "wrong_state")
    if has("accounts"):
        until(lambda: w.get(at + "/stats")["pids"] == 0, "processes are left")
    until(lambda: not running("sh", "-c", 'trap "echo child; exit" USR1; while :; do sleep 0.05; done'), "a child is left")
    check_error(w.ask("POST", f"{at}/execs/{NOBODY}/signal", {"signal": "NOSUCH"}), 400)


@test
def execs_are_listed_and_paged():
    c = w.create()
    ids = [w.run(c, f"exit {i}")["id"] for i in range(7)]
    live = w.exec(c, "sleep 100")
    found, cursor = [], None
    while True:
        page = w.get(f"/v1/sandboxes/{c}/execs", query={"limit": 3, **({"cursor": cursor} if cursor else {})})
        found += [e["id"] for e in page["execs"]]
        cursor = page["next_cursor"]
        if not cursor:
            break
    eq(found, ids + [live], "execs, page by page")
    eq([e["id"] for e in w.get(f"/v1/sandboxes/{c}/execs", query={"state": "running"})["execs"]], [live], "running ones")
    w.delete(c)


@test
def many_execs_run_at_the_same_time():
    n, codes = 60, {}

    def one(i):
        codes[i] = w.run(b, f"echo {i}; exit {i}")
    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    eq({i: (e["result"]["exit_code"], e["stdout"]) for i, e in codes.items()},
       {i: (i, f"{i}\n") for i in range(n)}, "results")


@test
def exceeding_the_maximum_of_execs_is_a_typed_error():
    c = w.create(limits={"pids": 2000})
    refused, made = None, 0
    while made < 1000:
        r = w.ask("POST", f"/v1/sandboxes/{c}/execs", {"argv": ["sleep", "100"]})
        if r.status != 201:
            refused = r
            break
        made += 1
    ok(refused is not None, f"{made} execs at once in one sandbox")
    check_error(refused, refused.status)
    ok(refused.status in (409, 429, 503), refused)
    ok(made >= 100, f"only {made}: {refused}")
    eq(w.run(b, "echo neighbour")["stdout"], "neighbour\n", "another sandbox")
    e = w.get(f"/v1/sandboxes/{c}/execs", query={"limit": 1})["execs"][0]["id"]
    w.post(f"/v1/sandboxes/{c}/execs/{e}/signal", {"signal": "KILL"}, status=204)
    w.result(c, e)
    eq(w.run(c, "echo again")["stdout"], "again\n", "after one ended")
    w.delete(c)


# --------------------------------------------------------------------- output


@test
def output_is_read_from_a_cursor():
    e = w.exec(b, "for i in 1 2 3; do echo out$i; echo err$i >&2; sleep 0.05; done; exit 4")
    found = events(e)
    eq(text(found, "stdout"), "out1\nout2\nout3\n", "stdout")
    eq(text(found, "stderr"), "err1\nerr2\nerr3\n", "stderr")
    eq((found[-1]["type"], found[-1]["result"]["exit_code"], found[-1]["cursor"]), ("exit", 4, 30), "the end")
    eq(events(e), found if len(found) == len(events(e)) else events(e), "the same again")
    for at_byte in range(31):
        rest = events(e, **{"from": at_byte})
        eq(sum(len(x["data"]) for x in rest if x["type"] == "output"), 30 - at_byte, f"bytes from {at_byte}")
        eq(rest[-1]["type"], "exit", "the end")
    eq(text(events(e, stream="stderr")), "err1\nerr2\nerr3\n", "one stream")
    eq(w.raw(b, e, stream="stdout"), b"out1\nout2\nout3\n", "raw")
    part = events(e, max_bytes=7)
    eq(sum(len(x["data"]) for x in part if x["type"] == "output"), 7, "no more than asked for")
    eq(part[-1]["cursor"], 7, "where to go on")
    with w.client() as c:
        r = c.send("GET", f"{at}/execs/{e}/output?format=sse", headers={"Last-Event-ID": "25"})
        got = r.read().decode()
        ids = [int(x) for x in re.findall(r"^id: (\d+)$", got, re.M)]
        data = [json.loads(x) for x in re.findall(r"^data: (.*)$", got, re.M)]
        eq(ids, [d["cursor"] for d in data], "ids")
        eq(sum(len(d["data"]) for d in data if d["type"] == "output"), 5, "bytes after the last id")
    check_error(w.ask("GET", f"{at}/execs/{e}/output", query={"from": -1}), 400)
    for last in ("abc", "5x", "-1", "9" * 30):
        check_error(w.ask("GET", f"{at}/execs/{e}/output", headers={"Last-Event-ID": last}), 400, "invalid_request")


@test
def a_client_that_reconnects_loses_no_output():
    """Readers disconnect at any point while the exec writes, and still get every byte with their cursors."""
    n = 20000
    e = w.exec(b, f"seq 1 {n}; sleep 0.2; seq 1 {n} >&2", output_limit="4m")
    want = "".join(f"{i}\n" for i in range(1, n + 1))
    pieces, cursor, ended, turns = {"stdout": b"", "stderr": b""}, 0, False, 0
    while not ended:
        turns += 1
        taken = 0
        for event in w.output(b, e, encoding="base64", **{"from": cursor}):
            cursor = event["cursor"]
            ended = event["type"] == "exit"
            ok(event["type"] != "gap", f"a gap: {event}")
            if event["type"] == "output":
                pieces[event["stream"]] += base64.b64decode(event["data"])
                taken += 1
            if taken >= 2:
                break  # the connection ends here
    ok(turns > 2, f"read in {turns} turns")
    eq(pieces["stdout"].decode() == want, True, "stdout is complete")
    eq(pieces["stderr"].decode() == want, True, "stderr is complete")


@test
def output_is_held_for_a_later_reader():
    size, most = 4 * MIB, 65536
    command = f"head -c {size} /dev/zero | tr '\\0' x"
    unread = w.exec(b, command, output_limit=most, hold=True)
    for hold in (True, False):
        e = w.exec(b, command, output_limit=most, hold=hold)

        def shown(e=e):
            return w.get(f"{at}/execs/{e}")
        if hold:
            until(lambda: shown()["output_to"] > most // 2, "it has written what is kept")
            eq((shown()["state"], shown()["output_from"]), ("running", 0), "it waits, and nothing was dropped")
        else:
            until(lambda: shown()["state"] == "exited", "without, it waits for nobody")
        found = events(e, hold="true")
        eq(len(text(found)) == size, hold, f"the output is whole, held: {hold}")
        eq([x["type"] for x in found if x["type"] == "gap"], [] if hold else ["gap"], "gaps")
    eq(w.result(b, unread)["exit_code"], 0, "one whom nobody reads goes on after a while")


@test
def dropped_output_is_counted_to_the_byte():
    size, limit = 300000, 65536
    e = w.exec(b, f"head -c {size} /dev/zero | tr '\\0' x", output_limit=limit)
    w.result(b, e)
    shown = w.get(f"{at}/execs/{e}")
    eq(shown["output_to"], size, "bytes written")
    ok(0 < shown["output_to"] - shown["output_from"] <= limit, shown)
    found = events(e)
    eq(found[0]["type"], "gap", "the first event")
    kept = sum(len(x["data"]) for x in found if x["type"] == "output")
    eq(sum(x["lost"] for x in found if x["type"] == "gap") + kept, size, "lost and kept together")
    eq(found[0]["lost"], shown["output_from"], "the gap")
    ok(0 < kept <= limit, f"kept {kept} of {limit}")
    ran = w.run(b, f"head -c {size} /dev/zero | tr '\\0' x", output_limit=limit)
    eq(ran["lost"] + len(ran["stdout"]), size, "lost and kept by run")


@test
def multibyte_characters_are_never_split():
    script = r"printf 'a\303'; sleep 0.3; printf '\251b'; sleep 0.1; printf '\342\202'; sleep 0.3; printf '\254'; " \
             r"sleep 0.1; printf '\360\237\220'; sleep 0.3; printf '\207!'"
    e = w.exec(b, script)
    got = []
    for event in w.output(b, e):
        if event["type"] == "output":
            got.append(event["data"])
    eq("".join(got), "aéb€🐇!", "text, followed")
    ok("\ufffd" not in "".join(got), got)
    # The same with reads that do not follow, while the exec writes.
    e = w.exec(b, script)
    said, cursor = "", 0
    end = time.monotonic() + WAIT
    while time.monotonic() < end and not said.endswith("!"):
        for event in w.output(b, e, follow="false", **{"from": cursor}):
            cursor = event["cursor"]
            said += event.get("data", "")
        time.sleep(0.02)
    eq(said, "aéb€🐇!", "text, by single reads")
    # This works with pieces of any size.
    for size in (4, 5, 6, 7):
        said, cursor = "", 0
        while not said.endswith("!"):
            before = cursor
            for event in w.output(b, e, max_bytes=size, **{"from": cursor}):
                cursor = event["cursor"]
                said += event.get("data", "")
            ok(cursor > before, f"no progress at {cursor}")
        eq(said, "aéb€🐇!", f"text, {size} bytes at a time")
    # Binary output is complete as base64, and does not block others.
    raw = bytes(range(256))
    octal = "".join(f"\\{n:03o}" for n in raw)
    ran = w.run(b, f"printf '{octal}'", encoding="base64")
    eq(base64.b64decode(ran["stdout"]), raw, "bytes by run")
    eq(w.raw(b, ran["id"]), raw, "bytes, raw")
    eq(base64.b64decode("".join(x["data"] for x in events(ran["id"], encoding="base64") if x["type"] == "output")), raw,
       "bytes, as base64")
    # An incomplete character is replaced when the command has ended.
    e = w.run(b, r"printf 'x\303'")
    eq(e["stdout"], "x\ufffd", "a character that has no end")


@test
def readers_do_not_block_each_other():
    """One reader reads nothing, and another one reads everything."""
    e = w.exec(b, "head -c 30000000 /dev/zero | tr '\\0' y; echo end >&2", output_limit="64m")
    with w.client() as stuck:
        stuck.send("GET", f"{at}/execs/{e}/output?format=raw")
        eq(len(w.raw(b, e, stream="stdout")), 30000000, "bytes that the other one got")
        eq(w.result(b, e)["exit_code"], 0, "exit code")


# ----------------------------------------------------------------------- input


@test
def stdin_is_streamed():
    e = w.exec(b, "while read -r n; do echo $((n * 2)); done; echo end", stdin=True)
    for i in range(1, 4):
        eq(w.post(f"{at}/execs/{e}/stdin", f"{i}\n"), {"written": 2}, "answer")
        until(lambda i=i: w.raw(b, e, follow="false").endswith(f"{2 * i}\n".encode()), f"{2 * i} comes back")
    w.ask("POST", f"{at}/execs/{e}/stdin/close", status=204)
    eq(w.result(b, e)["exit_code"], 0, "exit code")
    eq(w.raw(b, e), b"2\n4\n6\nend\n", "output")
    check_error(w.ask("POST", f"{at}/execs/{e}/stdin", "late"), 409, "stdin_closed")
    n = 5 << 20
    e = w.exec(b, "wc -c", stdin=True)
    eq(w.post(f"{at}/execs/{e}/stdin?close=true", b"z" * n), {"written": n}, "answer")
    w.result(b, e)
    eq(w.raw(b, e).split(), [str(n).encode()], "bytes counted inside")
    check_error(w.ask("POST", f"{at}/execs/{w.exec(b, 'sleep 1')}/stdin", "x"), 409, "stdin_closed")
    for spec in ({"input": "one\ntwo\n"}, {"input_base64": base64.b64encode(b"one\ntwo\n").decode()}):
        eq(w.run(b, "cat; echo .", **spec)["stdout"], "one\ntwo\n.\n", "input in the request")
    eq(w.run(b, "wc -c", input="x" * 1000000)["stdout"].strip(), "1000000", "a large one")
    eq(w.run(b, "head -c 3; exit 5", input="x" * 1000000)["result"]["exit_code"], 5, "one that is not read to its end")


@test
def a_command_that_does_not_read_delays_only_itself():
    e = w.exec(b, "until [ -e /tmp/enough ]; do sleep 0.05; done; exit 6", stdin=True)
    answer = []

    def write():
        with w.client() as c:
            answer.append(c.ask("POST", f"{at}/execs/{e}/stdin", b"q" * (1 << 20)))
    t = threading.Thread(target=write)
    t.start()
    time.sleep(0.3)
    ok(t.is_alive(), f"a pipe took a megabyte: {answer}")
    eq(w.run(b, "echo lively")["stdout"], "lively\n", "another command meanwhile")
    ok(t.is_alive(), f"it ended meanwhile: {answer}")
    w.run(b, "touch /tmp/enough")
    eq(w.result(b, e)["exit_code"], 6, "exit code")
    t.join(WAIT)
    ok(not t.is_alive(), "who writes to what has ended waits for ever")
    err = check_error(answer[0], 409, "stdin_closed")
    ok(err["detail"]["written"] < 1 << 20, err)


@test
def input_for_a_sandbox_that_has_gone_is_refused():
    for end in (("DELETE", ""), *([("POST", "/hibernate")] if BACKEND == "native" else [])):
        box = w.create()
        e = w.exec(box, "head -c 1 >/tmp/got; sleep 1000", stdin=True)
        gone = threading.Event()

        def parts(gone=gone):
            yield b"x"
            ok(gone.wait(WAIT), "the sandbox is still there")
            for _ in range(3):
                yield b"x" * 100000

        def write(box=box, e=e, parts=parts):
            with w.client() as c, contextlib.suppress(OSError, http.client.HTTPException):
                c.send("POST", f"/v1/sandboxes/{box}/execs/{e}/stdin", parts()).read()
        t = threading.Thread(target=write)
        t.start()
        until(lambda box=box: w.run(box, "cat /tmp/got")["stdout"] == "x", "the first byte")
        eq(w.ask(end[0], f"/v1/sandboxes/{box}{end[1]}").status // 100, 2, end)
        gone.set()
        t.join(WAIT)
        ok(not t.is_alive(), "the request does not end")
        w.delete(box) if end[1] else None  # pylint: disable=expression-not-assigned
    eq(w.run(b, "echo alive")["stdout"], "alive\n", "the service")


@test
def execs_leave_no_open_descriptors():
    w.run(b, "true")
    before = w.descriptors()
    for _ in range(30):
        w.run(b, "cat", input="x")
        w.run(b, "true", pty=True)
        e = w.exec(b, "cat", stdin=True)
        w.post(f"{at}/execs/{e}/stdin", "x")
        w.post(f"{at}/execs/{e}/signal", {"signal": "KILL"}, status=204)
        w.result(b, e)
        w.raw(b, e)
    until(lambda: w.descriptors()["api"] <= before["api"] + 3, lambda: f"{before} became {w.descriptors()}")
    # There are fewer if prepared parts were used in the meantime.
    ok(w.descriptors()["warden"] <= before["warden"], f"{before} became {w.descriptors()}")


@test
def files_for_output_are_prepared():
    kept = pathlib.Path(w.state, "serve/journals")

    def taken_over():
        """Is the journal of a new exec a recycled file?"""
        ahead = {f.stat().st_ino for f in kept.glob(".blank-*")}
        return (kept / w.run(b, "true")["id"]).stat().st_ino in ahead
    until(taken_over, "an exec whose file was there")
    for f in kept.glob(".blank-*"):
        f.unlink(missing_ok=True)
    eq([w.run(b, f"echo {i}")["stdout"] for i in range(20)], [f"{i}\n" for i in range(20)], "output without them")
    until(taken_over, "an exec whose file was there, again")


@test
def files_for_output_are_reused_if_no_process_has_them_open():
    kept = pathlib.Path(w.state, "serve/journals")

    def spare():
        return {f.stat().st_ino: f.stat().st_size for f in kept.glob(".blank-*")}

    def left_by_a_deleted_one(look):
        """Returns the inode of the output of a sandbox that is deleted while @look() holds it."""
        other = w.create()
        f = kept / w.run(other, "echo secret; echo secret >&2")["id"]
        with look(f):
            inode = f.stat().st_ino
            w.delete(other)
            until(lambda: not f.exists(), "its name is gone")
            return inode, spare()
    while len(spare()) >= 64:  # leaves room for one more
        w.run(b, "true")
    inode, after = left_by_a_deleted_one(lambda f: contextlib.nullcontext())
    eq(after.get(inode), 0, "size of the file that was kept")
    for i in range(64):
        e = w.run(b, f"echo {i}")
        eq((e["stdout"], e["stderr"]), (f"{i}\n", ""), "output in whatever file")
        if (kept / e["id"]).stat().st_ino == inode:
            break
    else:
        raise AssertionError("none of 64 execs had the file that was kept")
    held = []

    @contextlib.contextmanager
    def holding(f):
        with f.open("rb") as reader:
            yield
            held.append(reader.read())
    inode, after = left_by_a_deleted_one(holding)
    ok(inode not in after, f"a file that somebody had open was kept: {inode} of {after}")
    eq(held[0].count(b"secret"), 2, "what its reader saw of it")

    @contextlib.contextmanager
    def linking(f):
        copy = kept / ".a-backup"
        copy.hardlink_to(f)
        yield
        held.append(copy.read_bytes())
        copy.unlink()
    inode, after = left_by_a_deleted_one(linking)
    ok(inode not in after, f"a file that has another name was kept: {inode} of {after}")
    eq(held[1].count(b"secret"), 2, "what is behind the other name")


# ------------------------------------------------------------------- terminals


@test
def an_exec_with_pty_has_a_terminal():
    e = w.run(b, "test -t 0 && test -t 1 && test -t 2 && stty size; echo err >&2", pty=True, rows=33, cols=77)
    eq(e["stdout"], "33 77\r\nerr\r\n", "output")
    # Use bash, whose read continues after a trap; in other shells, it may end.
    e = w.exec(b, "exec bash -c 'trap \"stty size\" WINCH; stty -echo; echo up; while read -r l; do echo \"<$l>\"; done'",
               pty=True)
    until(lambda: w.raw(b, e, follow="false") == b"up\r\n", "it is up")
    w.post(f"{at}/execs/{e}/resize", {"rows": 40, "cols": 100}, status=204)
    w.post(f"{at}/execs/{e}/stdin", "one\n")
    until(lambda: b"<one>" in w.raw(b, e, follow="false"), "a line comes back")

    def resized():
        """Bash runs the trap after the next line, and a signal may be delayed."""
        w.post(f"{at}/execs/{e}/stdin", "more\n")
        return b"40 100" in w.raw(b, e, follow="false")
    until(resized, lambda: w.raw(b, e, follow="false"))
    w.post(f"{at}/execs/{e}/stdin", "\x04")
    eq(w.result(b, e)["exit_code"], 0, "exit code after ^D")
    e = w.exec(b, "sleep 100", pty=True)
    time.sleep(0.2)
    w.post(f"{at}/execs/{e}/stdin", "\x03")
    eq(w.result(b, e)["signal"], int(signal.SIGINT), "signal of ^C")
    check_error(w.ask("POST", f"{at}/execs/{w.exec(b, 'sleep 1')}/resize", {"rows": 1, "cols": 1}), 501, "not_supported")


def main():
    global w, b, at  # pylint: disable=global-statement
    try:
        with World() as w:
            b = w.create(limits={"memory": "128m"})
            at = f"/v1/sandboxes/{b}"
            return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
