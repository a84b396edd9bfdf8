#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-serve-durable.py - kill -9 of the service, at any moment, under load: no acknowledged change is lost

Prints TAP. Clients create, run, read and delete while the api, the warden or both are killed again and again; then
every answer is compared with the state of the service.
"""
import contextlib
import http.client
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import (BACKEND, SERVE, WAIT, World, below, cgroups_of, check_error, fitted, has, is_apart, needs, slurp,  # pylint: disable=wrong-import-position
                         start_time, until)

BROKEN = (OSError, http.client.HTTPException)
random.seed(os.environ.get("WARREN_SEED") or 7)


def init_of(w, box):
    """The first process inside, or its counterpart outside, as (pid, start time)."""
    for pid in below(os.getpid()):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if BACKEND != "native" and box.encode() in f.read() and is_apart(pid):
                    return pid, start_time(pid)
            with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
                numbers = next(x for x in f if x.startswith("NSpid:")).split()[1:]
            with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
                if numbers[-1] != "1" and box in f.read():
                    return pid, start_time(pid)
        except (OSError, StopIteration):
            continue
    raise AssertionError(f"nothing runs in {box}")


class Load:
    """Clients that never stop; their answers are recorded here."""

    def __init__(self, w):
        self.w, self.over, self.lock = w, threading.Event(), threading.Lock()
        self.made, self.deleted, self.maybe_deleted = {}, set(), set()
        self.ran, self.wrong = [], []
        self.threads = [threading.Thread(target=self.loop, args=(f,)) for f in (self.churn, self.churn, self.work)]
        for t in self.threads:
            t.start()

    def loop(self, f):
        n = 0
        while not self.over.is_set():
            n += 1
            try:
                f(n)
            except BROKEN:
                time.sleep(0.01)
            except AssertionError as why:
                self.wrong.append(str(why))

    def churn(self, n):
        w = self.w
        r = w.ask("POST", "/v1/sandboxes", fitted({"labels": {"n": str(n)}}))
        if r.status != 201:
            ok(r.status in (500, 502, 503, 504), f"create: {r}")
            return
        box = r.json()["id"]
        with self.lock:
            self.made[box] = r.json()["state"]
        if random.random() < 0.6:
            with self.lock:
                self.maybe_deleted.add(box)
            r = w.ask("DELETE", f"/v1/sandboxes/{box}")
            if r.status in (204, 404):
                with self.lock:
                    self.deleted.add(box)

    def work(self, n):
        with self.lock:
            alive = [b for b in self.made if b not in self.maybe_deleted]
        if not alive:
            time.sleep(0.01)
            return
        box = random.choice(alive)
        r = self.w.ask("POST", f"/v1/sandboxes/{box}/execs", {"command": f"echo {n}; exit {n % 120}"})
        if r.status == 201:
            with self.lock:
                self.ran.append((box, r.json()["id"], n))

    def stop(self):
        self.over.set()
        for t in self.threads:
            t.join(2 * WAIT)
            ok(not t.is_alive(), "a client hangs")
        eq(self.wrong, [], "answers")

    def check(self):
        """Checks that all answers were true."""
        w = self.w
        there = {s["id"]: s for s in w.sandboxes()}
        for box in self.made:
            if box in self.deleted:
                ok(box not in there, f"{box} was deleted, and is there")
            elif box not in self.maybe_deleted:
                ok(box in there, f"{box} was made, and is gone")
                eq(there[box]["state"], "running", f"state of {box}")
        for box, e, n in self.ran:
            if box in there and box not in self.maybe_deleted:
                eq(w.result(box, e)["exit_code"], n % 120, f"exit code of {e} in {box}")
                eq(w.raw(box, e), f"{n}\n".encode(), f"output of {e} in {box}")


def rounds(who, n):
    with World("--log-level", "error") as w:
        shim = w.create(labels={"keeps": "yes"})
        ticking = w.exec(shim, "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done", output_limit="16m")
        asleep = w.create()
        if has("pause"):
            w.post(f"/v1/sandboxes/{asleep}/pause")
        before = init_of(w, shim)
        load = Load(w)
        for _ in range(n):
            time.sleep(random.uniform(0.05, 0.4))
            w.kill(*(who if isinstance(who, tuple) else random.choice(who)))
            if not w.alive():
                time.sleep(random.uniform(0, 0.1))
                w.start()
            else:
                w.ready()
        # Even on a slow machine, there are enough answers to check.
        end = time.monotonic() + 2 * WAIT
        while (len(load.made) <= n or len(load.ran) <= n) and time.monotonic() < end:
            time.sleep(0.05)
        load.stop()
        w.ready()
        eq(init_of(w, shim), before, "the process that ran all the time")
        w.integrity()
        w.match()
        load.check()
        ok(len(load.made) > n and len(load.ran) > n, f"little was done: {len(load.made)} {len(load.ran)}")
        if has("pause"):
            eq(w.show(asleep)["state"], "paused", "state of the one that slept")
            w.post(f"/v1/sandboxes/{asleep}/resume")
        eq(w.run(asleep, "echo up")["stdout"], "up\n", "a command in it")
        w.post(f"/v1/sandboxes/{shim}/execs/{ticking}/signal", {"signal": "KILL"}, status=204)
        w.result(shim, ticking)
        numbers = [int(x) for x in w.raw(shim, ticking).split()]
        eq(numbers, list(range(1, len(numbers) + 1)), "what it wrote all the time")


@test
def nothing_is_lost_when_the_api_is_killed():
    rounds(("api",), 8)


@test
def nothing_is_lost_when_the_warden_is_killed():
    rounds(("warden",), 8)


@test
def nothing_is_lost_when_api_and_warden_are_killed():
    rounds(("api", "warden"), 8)


@test
def nothing_is_lost_when_random_processes_are_killed():
    rounds([("api",), ("warden",), ("api", "warden")], 8)


@test
def a_stream_continues_at_its_cursor():
    with World() as w:
        box = w.create()
        n = 3000
        e = w.exec(box, f"i=0; while [ $i -lt {n} ]; do i=$((i+1)); echo $i; [ $((i % 100)) -ne 0 ] || sleep 0.05; done; "
                   "exit 9", output_limit="16m", stdin=True)
        got, cursor, result, kills = "", 0, None, 0
        end = time.monotonic() + 2 * WAIT
        while result is None:
            ok(time.monotonic() < end, f"at {cursor} after {kills} kills")
            try:
                for event in w.output(box, e, **{"from": cursor}):
                    cursor = event["cursor"]
                    ok(event["type"] != "gap", event)
                    got += event.get("data", "")
                    result = event.get("result")
                    if kills < 6 and len(got) > 2000 * (kills + 1):
                        kills += 1
                        w.kill(*random.choice((("api",), ("warden",), ("api", "warden"))))
                        if not w.alive():
                            w.start(wait=False)
            except BROKEN:
                time.sleep(0.02)
        eq(got == "".join(f"{i}\n" for i in range(1, n + 1)), True, "every byte is there")
        eq((result["exit_code"], kills), (9, 6), "exit code, kills")


@test
def the_ends_of_execs_are_recorded_after_a_restart():
    with World() as w:
        box = w.create()
        fast = [(w.exec(box, f"sleep 0.{i % 4}; echo {i}; exit {i}"), i) for i in range(20)]
        slow = w.exec(box, "sleep 0.5; kill -9 $$")
        late = w.exec(box, "sleep 100", timeout_ms=600)
        reads = w.exec(box, "cat; exit 3", stdin=True)
        w.post(f"/v1/sandboxes/{box}/execs/{reads}/stdin", "before ")
        w.kill("api", "warden")
        time.sleep(1.2)
        w.start()
        for e, i in fast:
            eq((w.result(box, e)["exit_code"], w.raw(box, e)), (i, f"{i}\n".encode()), f"result of {i}")
        eq(w.result(box, slow)["signal"], 9, "signal")
        ok(w.result(box, late)["timed_out"], "its time was over while nobody looked")
        eq(w.get(f"/v1/sandboxes/{box}/execs/{reads}")["state"], "running", "state of the one that reads")
        w.post(f"/v1/sandboxes/{box}/execs/{reads}/stdin?close=true", "after")
        eq((w.result(box, reads)["exit_code"], w.raw(box, reads)), (3, b"before after"), "what it read")


@test
def a_reported_end_is_recorded_after_a_restart():
    """The answer is sent before the row is written: if the api is killed in between, the journal has the result."""
    with World() as w:
        box = w.create()
        told = w.run(box, "sleep 0.05; echo x; exit 7")
        w.stop()
        with contextlib.closing(sqlite3.connect(f"{w.state}/serve/warren.db")) as db, db:
            changed = db.execute("UPDATE execs SET ended_at = NULL, exit_code = NULL, wall_usec = NULL WHERE id = ?",
                                 (told["id"],)).rowcount
            eq(changed, 1, "rows that were made to run on")
            db.execute("UPDATE tenants SET execs = execs + 1 WHERE name = 'local'")
        w.start()
        now = w.get(f"/v1/sandboxes/{box}/execs/{told['id']}")
        eq({k: now[k] for k in now if k in told}, {k: told[k] for k in told if k in now}, "the exec")
        eq(w.rows("SELECT execs FROM tenants WHERE name = 'local'"), [(0,)], "what is charged")


def is_frozen(box):
    for d in cgroups_of(box):
        for name in ("freezer.state", "box/cgroup.events", "cgroup.events"):
            with contextlib.suppress(OSError):
                if {"FROZEN", "frozen 1"} & set(slurp(f"{d}/{name}").splitlines()):
                    return True
    return False


@test
def a_pause_interrupted_by_a_kill_is_recorded_correctly():
    """Afterwards, the row is correct, whether the kill came before, during or after the pause."""
    needs("pause", "walls")  # a freezer that is visible from outside
    with World() as w:
        box = w.create()
        at = f"/v1/sandboxes/{box}"

        def ask_and_kill(verb, when):
            with w.client() as c:
                c.open().request("POST", f"{at}/{verb}")
                when()
                w.kill("api", "warden")

        def check(what):
            w.start()
            is_now = "paused" if is_frozen(box) else "running"
            eq(w.get(at)["state"], is_now, f"state {what}")
            if is_now == "paused":
                eq(w.post(f"{at}/resume")["state"], "running", f"state {what}, resumed")
            eq((w.run(box, "echo lively")["stdout"], is_frozen(box)), ("lively\n", False), f"a command {what}")

        for verb in ("pause", "resume") * 2:
            if verb == "resume":
                eq(w.post(f"{at}/pause")["state"], "paused", "state")
            # The warden carries it out, but the api cannot record it.
            with contextlib.closing(sqlite3.connect(f"{w.state}/serve/warren.db", timeout=WAIT, isolation_level=None)) as db:
                db.execute("BEGIN IMMEDIATE")
                ask_and_kill(verb, lambda v=verb: until(lambda: is_frozen(box) == (v == "pause"), f"{v} was begun"))
                told = db.execute("SELECT state FROM sandboxes").fetchone()
            eq(is_frozen(box), verb == "pause", f"what a {verb} has left")
            check(f"after a {verb} whose row is {told}")
        for i in range(20):
            verb = ("pause", "resume")[i % 2]
            if verb == "resume":
                w.post(f"{at}/pause")
            ask_and_kill(verb, lambda: time.sleep(random.random() * 0.003))
            check(f"after a {verb}")


@test
def an_exec_that_cannot_be_recorded_does_not_run():
    """The database fails, or the api is killed before it can write."""
    with World() as w:
        box = w.create()
        at = f"/v1/sandboxes/{box}"
        for kill in (False, True):
            with contextlib.closing(sqlite3.connect(f"{w.state}/serve/warren.db", timeout=WAIT, isolation_level=None)) as db:
                db.execute("BEGIN IMMEDIATE")
                with w.client() as c:
                    c.open().request("POST", f"{at}/run", json.dumps({"command": "echo >/tmp/ran"}),
                                     {"Content-Type": "application/json"})
                    if kill:
                        time.sleep(0.2)  # it waits up to two seconds for the database
                        w.kill("api", "warden")
                    else:
                        r = c.http.getresponse()
                        ok(r.status >= 400, f"an exec without a store: {r.status} {r.read()}")
            if kill:
                w.start()
            eq(w.get(f"{at}/execs")["execs"], [], f"execs, killed: {kill}")
            eq(w.run(box, "test -e /tmp/ran; echo $?")["stdout"], "1\n", f"what it made, killed: {kill}")
            box = w.create()
            at = f"/v1/sandboxes/{box}"
        eq(w.run(box, "echo >/tmp/ran; test -e /tmp/ran; echo $?")["stdout"], "0\n", "one that is written down")


@test
def a_pause_that_cannot_be_recorded_does_not_happen():
    needs("pause", "walls")
    with World() as w:
        box = w.create()
        with contextlib.closing(sqlite3.connect(f"{w.state}/serve/warren.db", timeout=WAIT, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            with w.client() as c:
                c.open().request("POST", f"/v1/sandboxes/{box}/pause")
                until(lambda: is_frozen(box), "it was begun")
                r = c.http.getresponse()
                ok(r.status >= 400, f"a pause without a store: {r.status} {r.read()}")
        until(lambda: not is_frozen(box), "it goes on")
        eq(w.get(f"/v1/sandboxes/{box}")["state"], "running", "state")
        eq(w.run(box, "echo lively")["stdout"], "lively\n", "a command")
        eq((w.post(f"/v1/sandboxes/{box}/pause")["state"], is_frozen(box)), ("paused", True), "a pause after it")


@test
def incomplete_sandboxes_are_removed_after_a_restart():
    with World() as w:
        for i in range(8):
            with w.client() as c:
                c.open().request("POST", "/v1/sandboxes/batch", json.dumps({"sandboxes": [fitted({})], "count": 40}),
                                 {"Content-Type": "application/json"})
                time.sleep(0.02 * i)
                w.kill("api", "warden")
            w.start()
            w.match(seconds=4 * WAIT)  # they are removed one after the other
            ok(all(s["state"] == "running" for s in w.sandboxes()), [s["state"] for s in w.sandboxes()])
            w.empty()
        w.check_empty()
        eq(w.rows("SELECT sandboxes, memory FROM tenants WHERE name = 'local'"), [(0, 0)], "what is charged")


@test
def a_deletion_is_finished_by_the_next_service():
    with World() as w:
        for who in (("api",), ("warden",), ("api", "warden")):
            made = w.post("/v1/sandboxes/batch", {"sandboxes": [fitted({})], "count": 20}, status=201)["sandboxes"]
            w.look()

            def delete(part):
                for s in part:
                    try:
                        w.ask("DELETE", f"/v1/sandboxes/{s['id']}")
                    except BROKEN:
                        return
            threads = [threading.Thread(target=delete, args=(made[i::4],)) for i in range(4)]
            for t in threads:
                t.start()
            time.sleep(0.02)
            w.kill(*who)
            for t in threads:
                t.join()
            if not w.alive():
                w.start()
            w.ready()
            w.match()
            until(lambda: all(s["state"] == "running" for s in w.sandboxes()), "one is neither there nor gone")
            w.empty()
            w.check_empty()


@test
def a_stop_leaves_sandboxes_and_the_next_start_finds_them():
    with World() as w:
        box = w.create(labels={"a": "b"}, ttl_ms=600000)
        e = w.exec(box, "while :; do echo x; sleep 0.05; done")
        before, shown = init_of(w, box), w.show(box)
        w.stop()
        eq(init_of(w, box), before, "the process, while nobody serves")
        w.start()
        now = w.show(box)
        shown.pop("last_used_at"), now.pop("last_used_at")
        eq(now, shown, "the sandbox")
        eq(init_of(w, box), before, "the process")
        size = w.get(f"/v1/sandboxes/{box}/execs/{e}")["output_to"]
        until(lambda: w.get(f"/v1/sandboxes/{box}/execs/{e}")["output_to"] > size, "it goes on")
        # A request that is in progress is answered before the end.
        answer = []
        t = threading.Thread(target=lambda: answer.append(w.run(box, "sleep 0.5; echo done")))
        t.start()
        time.sleep(0.2)
        w.stop()
        t.join()
        eq(answer[0]["stdout"] if answer else None, "done\n", "the answer of a request under way")


@test
def the_ttl_of_a_sandbox_passes_while_no_service_runs():
    with World() as w:
        box = w.create(ttl_ms=5000)
        w.kill("api", "warden")
        time.sleep(5.2)
        w.start()
        until(lambda: w.ask("GET", f"/v1/sandboxes/{box}").status == 404, "it outlives its time")


@test
def a_sandbox_whose_init_dies_has_failed():
    with World() as w:
        box = w.create()
        e = w.exec(box, "sleep 100")
        pid = init_of(w, box)[0]
        parent = int(open(f"/proc/{pid}/stat", encoding="ascii").read().rpartition(")")[2].split()[1])
        os.kill(parent if BACKEND == "native" else pid, signal.SIGKILL)  # its init, or its counterpart outside
        until(lambda: w.show(box)["state"] == "failed", lambda: w.show(box))
        ok(w.show(box)["error"], "no word why")
        eq(w.get(f"/v1/sandboxes/{box}/execs/{e}")["state"], "lost", "state of what ran in it")
        check_error(w.ask("POST", f"/v1/sandboxes/{box}/run", {"command": "true"}), 409, "wrong_state")
        other = w.create()
        w.kill("api", "warden")

        w.start()
        eq(w.show(box)["state"], "failed", "state after a restart")
        eq(w.run(other, "echo fine")["stdout"], "fine\n", "another one")
        w.delete(box)


@test
def a_second_service_is_refused():
    with World() as w:
        box = w.create()
        for change in ({}, {"run": True}):
            command = w.command()
            if change:
                command[command.index("--run-dir") + 1] = f"{w.dir}/run2"
            command[command.index("--listen") + 1] = f"unix:{w.dir}/second.sock"
            p = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT, check=False)
            eq(p.returncode, 1, f"status: {p}")
            ok(p.stderr.strip(), "no word why")
        eq(w.run(box, "echo fine")["stdout"], "fine\n", "a command of the first")


@test
def an_unknown_schema_is_refused():
    with World() as w:
        box = w.create()
        w.stop()
        db = sqlite3.connect(f"{w.state}/serve/warren.db")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        ok(version > 0, f"user_version is {version}")
        db.execute(f"PRAGMA user_version = {version + 1}")
        db.commit()
        db.close()
        p = subprocess.run(w.command(), stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT, check=False)
        eq(p.returncode, 1, f"status: {p}")
        ok(b"newer" in p.stderr or b"version" in p.stderr, p.stderr)
        db = sqlite3.connect(f"{w.state}/serve/warren.db")
        db.execute(f"PRAGMA user_version = {version}")
        db.commit()
        db.close()
        w.start()
        eq(w.run(box, "echo kept")["stdout"], "kept\n", "a command after all")


def main():
    if not os.access(SERVE, os.X_OK) or os.geteuid() != 0:
        print("1..0 # SKIP needs root, and warren-serve")
        return 0
    return run_tests()


if __name__ == "__main__":
    sys.exit(main())
