#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-stop-start.py - a sandbox with a main command: start, stop, restart, and the end of the command

Prints TAP.
"""
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import BACKEND, World, fitted, refused, running, shell, together, until  # pylint: disable=wrong-import-position


def sleeps(box, seconds):
    """Does the command run inside? Processes in gVisor are not visible on the machine, so the sandbox itself is
    asked."""
    if BACKEND != "gvisor":
        return running("sleep", seconds)
    r = w.ask("POST", f"/v1/sandboxes/{box}/run", {"command": "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"})
    return r.status == 200 and f"sleep {seconds} " in r.json()["stdout"]


@test
def the_main_command_starts_with_the_sandbox():
    s = w.post("/v1/sandboxes", fitted({"main": shell("echo begun; exec sleep 1001"), "workdir": "/tmp"}), status=201)
    eq((s["state"], s["on_exit"]), ("running", "stop"))
    main = s["main"]
    eq(main["argv"][:2], ["/bin/sh", "-c"])
    until(lambda: w.raw(s["id"], main["exec_id"], follow="false") == b"begun\n", "its output")
    e = w.get(f"/v1/sandboxes/{s['id']}/execs/{main['exec_id']}")
    eq((e["state"], e["cwd"]), ("running", "/tmp"))
    until(lambda: sleeps(s["id"], "1001"), "it runs")
    w.delete(s["id"])
    ok(not sleeps(s["id"], "1001"), "it ended with its sandbox")
    box = w.create()
    eq(w.show(box)["main"], None)
    w.delete(box)


@test
def stop_ends_all_processes_and_keeps_the_files():
    s = w.post("/v1/sandboxes", fitted({"main": shell("echo $$ >> /tmp/runs; exec sleep 1002")}), status=201)
    box = s["id"]
    # A process that an exec left behind, in another group and session, and a shell.
    w.run(box, "setsid sleep 1003 </dev/null >/dev/null 2>&1 & sleep 0.1")
    w.post(f"/v1/sandboxes/{box}/sessions", {}, status=201)
    other = w.exec(box, "sleep 1004")
    until(lambda: all(sleeps(box, n) for n in ("1002", "1003", "1004")), "they run")
    eq(w.post(f"/v1/sandboxes/{box}/stop", {"timeout_ms": 30000})["state"], "stopped")
    for n in ("1002", "1003", "1004"):
        ok(not sleeps(box, n), f"sleep {n} has ended")
    eq(w.result(box, other)["signal"], 15, "it got SIGTERM first")
    eq(w.post(f"/v1/sandboxes/{box}/stop")["state"], "stopped", "twice is no mistake")
    refused(w.ask("POST", f"/v1/sandboxes/{box}/run", {"command": "true"}), 409, "wrong_state", "stopped", "start it first")
    refused(w.ask("POST", f"/v1/sandboxes/{box}/pause"), 409, "wrong_state", "stopped")
    again = w.post(f"/v1/sandboxes/{box}/start")
    eq(again["state"], "running")
    ok(again["main"]["exec_id"] != s["main"]["exec_id"], "another exec")
    until(lambda: w.run(box, "wc -l < /tmp/runs")["stdout"].strip() == "2", "the command ran twice, on the same files")
    ok(sleeps(box, "1002"), "and it runs")
    for n in ("1003", "1004"):
        ok(not sleeps(box, n), f"sleep {n} does not come back")
    w.ask("PUT", f"/v1/sandboxes/{box}/files", b"x", query={"path": "/tmp/file"}, status=201)
    eq(w.run(box, "cat /tmp/file")["stdout"], "x", "files are at hand again")
    eq(w.post(f"/v1/sandboxes/{box}/start")["main"]["exec_id"], again["main"]["exec_id"], "what runs is not started twice")
    eq(w.result(box, s["main"]["exec_id"])["signal"], 15, "of the first one")
    w.delete(box)


@test
def processes_that_ignore_sigterm_are_killed_later():
    s = w.post("/v1/sandboxes", fitted({"main": shell("trap '' TERM; echo ready; while :; do sleep 0.1; done")}), status=201)
    box = s["id"]
    until(lambda: w.raw(box, s["main"]["exec_id"], follow="false"), "it is ready")
    begun = time.monotonic()
    eq(w.post(f"/v1/sandboxes/{box}/stop", {"timeout_ms": 700})["state"], "stopped")
    ok(time.monotonic() - begun >= 0.7, "it had its time")
    eq(w.result(box, s["main"]["exec_id"])["signal"], 9)
    w.post(f"/v1/sandboxes/{box}/start")
    begun = time.monotonic()
    w.post(f"/v1/sandboxes/{box}/stop", {"timeout_ms": 0})
    ok(time.monotonic() - begun < 20, "at once")
    w.delete(box)


@test
def processes_that_fork_do_not_survive_a_stop():
    """Each process starts its successor and exits at once: a single scan of all processes misses some."""
    box = w.create(main={"argv": ["sleep", "1011"]})
    chain = b"trap '' TERM\n: > /tmp/beat\n[ -e /tmp/end ] || sh /tmp/chain &\n"
    w.ask("PUT", f"/v1/sandboxes/{box}/files", chain, query={"path": "/tmp/chain"}, status=201)
    beats = "rm -f /tmp/beat; n=0; until [ -e /tmp/beat ] || [ $n = {} ]; do sleep 0.05; n=$((n + 1)); done; [ -e /tmp/beat ]"
    for _ in range(3):
        w.run(box, "for i in 1 2 3 4 5 6; do setsid sh /tmp/chain </dev/null >/dev/null 2>&1 & done")
        eq(w.run(box, beats.format(600))["result"]["exit_code"], 0, "they run")
        eq(w.post(f"/v1/sandboxes/{box}/stop", {"timeout_ms": 0})["state"], "stopped")
        eq(w.post(f"/v1/sandboxes/{box}/start")["state"], "running")
        eq(w.run(box, beats.format(8))["result"]["exit_code"], 1, "none of them runs")
    w.delete(box)


@test
def many_clients_can_start_and_stop_one_sandbox():
    """Whatever the order, a running sandbox has its command, and a stopped one has none."""
    box = w.create(main={"argv": ["sleep", "1012"]})
    at = f"/v1/sandboxes/{box}"

    def ask(i):
        with w.client() as c:
            return c.ask("POST", f"{at}/{'start' if i % 2 else 'stop'}", None if i % 2 else {"timeout_ms": 0})
    for _ in range(4 if BACKEND == "native" else 2):
        for r in together(8, ask):
            ok(r.status in (200, 409), r)
        until(lambda: w.state_of(box) in ("running", "stopped"), "it has a state")
        w.post(f"{at}/stop", {"timeout_ms": 0})
        ok(not sleeps(box, "1012"), "stopped")
        main = w.post(f"{at}/start")["main"]["exec_id"]
        eq(w.get(f"{at}/execs/{main}")["state"], "running")
        until(lambda: sleeps(box, "1012"), "it runs")
    w.delete(box)


@test
def the_end_of_the_main_command_stops_deletes_or_keeps_the_sandbox():
    for on_exit, end in (("stop", "stopped"), ("delete", "gone")):
        box = w.post("/v1/sandboxes", fitted({"main": shell("sleep 0.3; exit 3"), "on_exit": on_exit}), status=201)["id"]
        w.reaches(box, end)
    box = w.post("/v1/sandboxes", fitted({"main": shell("exit 3"), "on_exit": "keep"}), status=201)["id"]
    eq(w.result(box, w.show(box)["main"]["exec_id"])["exit_code"], 3)
    eq(w.run(box, "echo alive")["stdout"], "alive\n")
    w.delete(box)
    # Stop a sandbox that is deleted when its command ends.
    box = w.post("/v1/sandboxes", fitted({"main": {"argv": ["sleep", "1005"]}, "on_exit": "delete"}), status=201)["id"]
    w.ask("POST", f"/v1/sandboxes/{box}/stop", status=200)
    w.reaches(box, "gone")
    for s in w.sandboxes():
        w.delete(s["id"])


@test
def a_failed_start_leaves_nothing():
    refused(w.ask("POST", "/v1/sandboxes", fitted({"main": {"argv": ["no-such-program"]}})), 422, "command_not_found",
            "no-such-program")
    until(lambda: w.sandboxes() == [], "nothing is left")
    refused(w.ask("POST", "/v1/sandboxes", fitted({"main": {"argv": ["/etc/passwd"]}})), 422, "command_not_executable")
    refused(w.ask("POST", "/v1/sandboxes", fitted({"main": {"argv": [""]}})), 400, "invalid_request", "/main/argv/0")
    refused(w.ask("POST", "/v1/sandboxes", fitted({"main": {"argv": ["x" * 40000, "x" * 40000]}})), 400, "invalid_request",
            "64 KiB")
    refused(w.ask("POST", "/v1/sandboxes", fitted({"on_exit": "delete"})), 400, "invalid_request", "/main")
    until(lambda: w.sandboxes() == [], "nothing is left")
    # A start that fails leaves the sandbox stopped.
    box = w.create(main=shell("exec sleep 1006"))
    w.run(box, "rm -f /bin/sh 2>/dev/null || rm -f /usr/bin/sh")
    w.post(f"/v1/sandboxes/{box}/stop")
    r = w.ask("POST", f"/v1/sandboxes/{box}/start")
    if r.status != 200:  # if files of the image can be removed
        refused(r, 422, "command_not_found")
        w.reaches(box, "stopped")
    w.delete(box)


@test
def a_stopped_sandbox_outlives_every_process_of_the_service():
    box = w.create(main=shell("echo run >> /tmp/runs; exec sleep 1007"), name="kept")
    until(lambda: sleeps(box, "1007"), "it runs")
    w.post("/v1/sandboxes/kept/stop")
    running_box = w.create(main=shell("until [ -e /tmp/end ]; do sleep 0.1; done"))
    w.kill("api", "warden")
    w.start()
    eq((w.state_of(box), w.state_of(running_box)), ("stopped", "running"))
    eq(w.get(f"/v1/sandboxes/{running_box}/execs/{w.show(running_box)['main']['exec_id']}")["state"], "running", "what ran runs")
    ok(not sleeps(box, "1007"), "and nothing else")
    refused(w.ask("POST", f"/v1/sandboxes/{box}/run", {"command": "true"}), 409, "wrong_state", "stopped")
    w.post("/v1/sandboxes/kept/start")
    until(lambda: w.run(box, "wc -l < /tmp/runs")["stdout"].strip() == "2", "the command ran again")
    # The command ends while no service runs: the next process handles its end.
    w.exec(running_box, "sleep 0.5; touch /tmp/end")
    w.kill("api", "warden")
    time.sleep(2)
    w.start()
    w.reaches(running_box, "stopped")
    w.delete(box)
    w.delete(running_box)


@test
def events_report_stops_and_starts():
    since = next(e for e in w.events("/v1/events", format="ndjson", since=0) if "id" in e)["id"]
    box = w.create(main={"argv": ["sleep", "1010"]})
    w.post(f"/v1/sandboxes/{box}/stop")
    w.post(f"/v1/sandboxes/{box}/start")
    w.delete(box)
    seen = []
    for e in w.events("/v1/events", format="ndjson", since=since, sandbox_id=box):
        seen.append(e["type"])
        if e["type"] == "sandbox.deleted":
            break
    want = ["sandbox.created", "sandbox.running", "sandbox.stopped", "sandbox.running", "sandbox.deleted"]
    eq([t for t in seen if t.startswith("sandbox.")], want)


if __name__ == "__main__":
    with World() as w:
        failed = run_tests()
    sys.exit(failed)
