#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-overdue.py - execs whose timeout passes while their sandbox is paused, or just before

Timeouts continue during a pause: overdue execs are killed as soon as the sandbox resumes, and nothing else waits for
that. Prints TAP; uses the backend in $WARREN_TEST_BACKEND.
"""
import concurrent.futures
import sys
import time
import os

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import BACKEND, World, needs, until  # pylint: disable=wrong-import-position

MANY = {"native": 400, "docker": 120}.get(BACKEND, 300)  # on gVisor, more than a shim's worker can handle at once
KEPT = 65536  # bytes of output


def alive(w, box):
    """The processes of the test that run inside."""
    r = w.run(box, "grep -ls '991[7]' /proc/[0-9]*/cmdline; true")
    eq(r["result"]["exit_code"], 0, f"of looking: {r}")
    return r["stdout"].split()


def overdue(w, box, timeout_ms, command="sleep 9917"):
    return w.exec(box, command, timeout_ms=timeout_ms, output_limit=KEPT)


def check_timed_out(w, box, execs):
    for e in execs:
        r = w.result(box, e, 60000)
        eq((r["timed_out"], r["signal"]), (True, 9), f"of an exec that is out of time: {r}")


@test
def a_paused_sandbox_with_an_overdue_exec_is_deleted():
    needs("pause")
    with World() as w:
        box, other = w.create(), w.create()
        e = overdue(w, box, 1000, "sleep 9917 & sleep 9917")
        w.post(f"/v1/sandboxes/{box}/pause")
        time.sleep(2)  # the timeout has passed, and the kill waits
        eq(w.get(f"/v1/sandboxes/{box}/execs/{e}")["state"], "running", "of what cannot be killed yet")
        w.delete(box)
        eq(w.ask("GET", f"/v1/sandboxes/{box}").status, 404, "of what was deleted")
        eq(w.run(other, "echo on")["stdout"], "on\n", "another sandbox")


@test
def a_pause_during_a_kill_does_not_prevent_it():
    """The kill reads the list of processes several times; a pause may come between any two reads."""
    needs("pause")
    tree = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do (trap '' TERM; while :; do sleep 9917; done) & done; wait"
    with World() as w:
        for after, length in ((0.9, 1), (1.0, 1), (1.02, 2), (1.05, 1), (1.1, 1), (1.2, 13)):
            box = w.create()
            begun = time.monotonic()
            e = overdue(w, box, 1000, tree)
            time.sleep(max(0, begun + after - time.monotonic()))
            w.post(f"/v1/sandboxes/{box}/pause")
            time.sleep(length)
            w.post(f"/v1/sandboxes/{box}/resume")
            check_timed_out(w, box, [e])
            # When the exec has ended, its processes must be gone.
            until(lambda box=box: not alive(w, box), lambda box=box: f"processes live on after a kill {after}: {alive(w, box)}")
            w.delete(box)


@test
def hundreds_of_overdue_execs_are_ended_after_a_restart():
    needs("pause")
    with World() as w:
        box, other = w.create(limits={"pids": 4096}), w.create()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            begun = time.monotonic()
            list(pool.map(lambda _: overdue(w, box, 600000, "true"), range(16)))
            # All begin before their timeout, which is at the same moment.
            end = time.monotonic() + max(8, MANY / 16 * 3 * (time.monotonic() - begun))
            begun = time.monotonic()
            execs = list(pool.map(lambda _: overdue(w, box, max(1, int(1000 * (end - time.monotonic())))), range(MANY)))
        took = time.monotonic() - begun
        ok(time.monotonic() < end, f"it took {took} s to begin them: they are out of time before")
        w.post(f"/v1/sandboxes/{box}/pause")
        w.kill("api", "warden")
        time.sleep(max(0, end - time.monotonic()) + 1)
        w.start()
        begun = time.monotonic()
        eq(w.show(box)["state"], "paused", "the sandbox after a restart")
        eq(w.run(other, "echo on")["stdout"], "on\n", "another sandbox")
        e = w.get(f"/v1/sandboxes/{box}/execs/{execs[-1]}")
        eq(e["state"], "running", "of what cannot be killed yet")
        ok(time.monotonic() - begun < 15, f"{time.monotonic() - begun} s for three small requests")
        w.post(f"/v1/sandboxes/{box}/resume")
        begun = time.monotonic()
        check_timed_out(w, box, execs)
        print(f"# {MANY} execs: {took:.1f} s to begin, {time.monotonic() - begun:.1f} s to end", flush=True)
        until(lambda: not alive(w, box), lambda: f"processes live on: {len(alive(w, box))}")
        eq(w.run(box, "echo here")["stdout"], "here\n", "the sandbox after")


if __name__ == "__main__":
    sys.exit(run_tests())
