#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-hibernate-kills.py - a hibernation or a reset that kill -9 of the service interrupts costs a sandbox nothing but
its processes

Prints TAP. $WARREN_TEST_SEED selects the moments.
"""
import contextlib
import os
import random
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from fault_world import children  # pylint: disable=wrong-import-position
from serve_world import World, has, slurp, stat_of, until  # pylint: disable=wrong-import-position

ROUNDS = 10
LIMITS = {"memory": "128m", **({"disk": "64m"} if has("disk") else {})}
MAIN = {"argv": ["sh", "-c", "trap 'sleep 0.05; exit 3' TERM; echo run >>/root/log; while :; do sleep 0.02; done"]}
w = None  # pylint: disable=invalid-name


def sh(box, text):
    r = w.run(box, ["sh", "-c", text])
    eq(r["result"]["exit_code"], 0, r)
    return r["stdout"]


def state(box):
    return w.get(f"/v1/sandboxes/{box}")["state"]


def ask_all(boxes, what, body):
    """Sends a request for each sandbox; the service may be killed before it answers."""
    def ask(box):
        with contextlib.suppress(Exception):
            w.client().ask("POST", f"/v1/sandboxes/{box}/{what}", body)
    threads = [threading.Thread(target=ask, args=(box,)) for box in boxes]
    for t in threads:
        t.start()
    return threads


def killed_during(rng, i, boxes, what, body):
    threads = ask_all(boxes, what, body)
    time.sleep(rng.random() * 0.25)
    kill = (("api",), ("warden",), ("api", "warden"))[i % 3]
    w.kill(*kill)
    for t in threads:
        t.join()
    if "warden" in kill:
        w.start()
    w.ready()


@test
def each_sandbox_is_usable_afterwards_and_has_all_its_files():
    rng = random.Random(os.environ.get("WARREN_TEST_SEED", "17"))
    boxes = [w.create(image="host", limits=LIMITS) for _ in range(3)]
    seen = set()
    for box in boxes:
        sh(box, "head -c 20000000 /dev/urandom >/root/big; sha256sum /root/big >/root/sum; sync")
    for i in range(ROUNDS):
        for box in boxes:
            sh(box, f"echo {i} >>/root/x")
        killed_during(rng, i, boxes, "hibernate", {"timeout_ms": 50})
        for box in boxes:
            seen.add(state(box))
            eq(sh(box, "sha256sum -c /root/sum >&2 && cat /root/x").split(), [str(k) for k in range(i + 1)], i)
    ok(seen <= {"running", "hibernated", "stopped"}, seen)
    for box in boxes:
        w.delete(box)


@test
def its_main_command_runs_again_and_on_exit_does_not_apply():
    rng = random.Random(os.environ.get("WARREN_TEST_SEED", "18"))
    boxes = [w.create(image="host", limits=LIMITS, main=MAIN, on_exit=how) for how in ("delete", "stop", "keep")]
    for i in range(ROUNDS):
        for box in boxes:
            sh(box, f"echo {i} >>/root/x")
        killed_during(rng, i, boxes, "hibernate", {"timeout_ms": 300})
        for box in boxes:
            eq(sh(box, "cat /root/x").split(), [str(k) for k in range(i + 1)], i)

            def runs(box=box):
                execs = w.get(f"/v1/sandboxes/{box}/execs")["execs"]
                return [e for e in execs if e["state"] == "running"]
            until(runs, lambda box=box: w.get(f"/v1/sandboxes/{box}/execs"))
            eq([e["ended_by"] for e in runs()], [None])
    w.delete(boxes[1])
    w.delete(boxes[2])
    # The control: an end that nothing but the command itself causes.
    eq(state(boxes[0]), "running")
    main = [e for e in w.get(f"/v1/sandboxes/{boxes[0]}/execs")["execs"] if e["state"] == "running"][0]["id"]
    r = w.ask("POST", f"/v1/sandboxes/{boxes[0]}/execs/{main}/signal", {"signal": "KILL"})
    ok(r.status in (204, 404, 409), r)  # the sandbox may be deleted before the answer
    until(lambda: w.ask("GET", f"/v1/sandboxes/{boxes[0]}").status == 404, "on_exit: delete does not apply")


@test
def a_main_command_that_outlives_an_interrupted_hibernation_ends_once():
    stubborn = {"argv": ["sh", "-c", "trap '' TERM; echo run >>/root/log; while [ ! -e /root/end ]; do sleep 0.02; done"]}
    boxes = {how: w.create(image="host", limits=LIMITS, main=stubborn, on_exit=how) for how in ("delete", "stop")}
    for box in boxes.values():
        until(lambda box=box: sh(box, "cat /root/log || true") == "run\n", "it does not run")
    asked = {box: w.exec(box, ["sleep", "1000"]) for box in boxes.values()}
    threads = ask_all(boxes.values(), "hibernate", {"timeout_ms": 3000})
    for box, one in asked.items():  # this one obeys the signal of the hibernation
        until(lambda box=box, one=one: w.get(f"/v1/sandboxes/{box}/execs/{one}")["state"] != "running", "no signal was sent")
    w.kill("api")
    for t in threads:
        t.join()
    w.ready()
    time.sleep(8.5)  # the grace period of the hibernation has passed, and the time for late ends
    for box in boxes.values():
        eq(state(box), "running")
        w.ask("PUT", f"/v1/sandboxes/{box}/files", b"", query={"path": "/root/end"}, status=201)
    until(lambda: w.ask("GET", f"/v1/sandboxes/{boxes['delete']}").status == 404, "on_exit: delete does not apply")
    until(lambda: state(boxes["stop"]) == "stopped", "on_exit: stop does not apply")
    execs = w.get(f"/v1/sandboxes/{boxes['stop']}/execs")["execs"]
    eq([e["ended_by"] for e in execs if e["argv"][0] == "sh" and "trap" in e["argv"][2]], [None])
    w.delete(boxes["stop"])


def copies(pid):
    """Does the process copy the file `big`?"""
    return any(os.readlink(f"/proc/{pid}/fd/{fd}").endswith("/big") for fd in os.listdir(f"/proc/{pid}/fd"))


def stop_copy(before, threads):
    """Stops the process that copies the files of the sandbox to disk; 0: it was too late for that."""
    while threads[0].is_alive():
        for pid in children(w.warden) - before:
            with contextlib.suppress(OSError):
                if not copies(pid):
                    continue
                os.kill(pid, signal.SIGSTOP)
                until(lambda pid=pid: stat_of(pid)[0] in "TZX", "it does not stop")
                if copies(pid):
                    return pid
                os.kill(pid, signal.SIGCONT)
    return 0


@contextlib.contextmanager
def half_hibernated(box):
    """The api was killed while the warden copied the files; the copy goes on at the end of the context."""
    sh(box, "head -c 150000000 /dev/zero >/root/big; echo kept >/root/x")
    pid, threads = 0, []
    for _ in range(50):
        before = children(w.warden)
        threads = ask_all([box], "hibernate", {"timeout_ms": 0})
        pid = stop_copy(before, threads)
        if pid:
            break
        for t in threads:
            t.join()
        sh(box, "true")  # it wakes
    ok(pid, "the files were always saved too fast")
    try:
        w.kill("api")
        for t in threads:
            t.join()
        w.ready()
        until(lambda: f"sandbox {box}: connect to its init, retrying" in slurp(w.log_path), "it does not try to connect")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@test
def uses_wait_for_the_end_of_an_interrupted_hibernation():
    box = w.create(image="host", limits={"memory": "256m", "disk": "256m"})
    answers = {}

    def use(name, *request, **kw):
        def ask():
            answers[name] = w.client().ask(*request, **kw)
        t = threading.Thread(target=ask)
        t.start()
        return t
    at = f"/v1/sandboxes/{box}"
    with half_hibernated(box):
        eq(state(box), "stopped")
        threads = [use("run", "POST", f"{at}/run", {"argv": ["cat", "/root/x"]}), use("start", "POST", f"{at}/start"),
                   use("file", "GET", f"{at}/files", query={"path": "/root/x"}), use("session", "POST", f"{at}/sessions", {})]
        time.sleep(3)  # longer than the service waits for one connection
        eq(answers, {})
    for t in threads:
        t.join()
    eq({name: r.status for name, r in answers.items()}, {"run": 200, "start": 200, "file": 200, "session": 201}, answers)
    eq((answers["run"].json()["stdout"], answers["file"].body), ("kept\n", b"kept\n"))
    eq(state(box), "running")
    w.delete(box)


@test
def a_deletion_does_not_wait_for_uses_that_wait():
    box = w.create(image="host", limits={"memory": "256m", "disk": "256m"})
    with half_hibernated(box):
        threads = ask_all([box], "run", {"argv": ["true"]})
        time.sleep(0.2)  # it waits
        r = w.ask("DELETE", f"/v1/sandboxes/{box}")
        ok(r.status >= 400, r)  # the warden still copies its files
        for t in threads:
            t.join()
    until(lambda: w.ask("GET", f"/v1/sandboxes/{box}").status == 404, "the deletion is not completed")


@test
def a_stop_that_a_client_requested_stays_a_stop():
    box = w.create(image="host", limits=LIMITS)
    w.ask("POST", f"/v1/sandboxes/{box}/stop", {"timeout_ms": 0}, status=200)
    w.kill("api", "warden")
    w.start()
    w.ready()
    eq(state(box), "stopped")
    eq(w.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]}).status, 409)
    w.delete(box)


@test
def a_reset_is_done_or_not_but_the_sandbox_is_usable():
    rng = random.Random(os.environ.get("WARREN_TEST_SEED", "19"))
    boxes = [w.create(image="host", limits=LIMITS) for _ in range(3)]
    for i in range(ROUNDS // 2):
        for box in boxes:
            sh(box, f"echo {i} >/root/x")
        killed_during(rng, i, boxes, "reset", {})
        for box in boxes:
            ok(sh(box, "cat /root/x 2>/dev/null || true") in ("", f"{i}\n"), (i, state(box)))
    for box in boxes:
        w.delete(box)


def main():
    global w  # pylint: disable=global-statement
    with World() as w:
        return run_tests()


if __name__ == "__main__":
    sys.exit(main())
