#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-serve-events.py - events survive restarts: cursors continue, and every start has its end

Prints TAP.
"""
import contextlib
import os
import re
import signal
import sqlite3
import threading
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import WAIT, World, below, needs, slurp, until  # pylint: disable=wrong-import-position

STARTS = {"exec.started": "exec.finished", "session.opened": "session.closed", "sandbox.created": "sandbox.deleted"}
ENDS = {end: start for start, end in STARTS.items()}


def since(w, cursor, last=lambda e: False, **query):
    """The events after @cursor up to the one for which @last is true; without @last, up to the first heartbeat."""
    found = []
    for e in w.events("/v1/events", format="ndjson", since=cursor, **query):
        if e["type"] == "heartbeat":
            break
        found.append(e)
        if last(e):
            break
    return found


def deleted(box):
    return lambda e: e["type"] == "sandbox.deleted" and e["sandbox_id"] == box


def about(e):
    """The id of the object that starts or ends."""
    return e.get("exec_id") or e.get("session_id") or e["sandbox_id"]


def check_pairs(events):
    """Checks that each start has one end after it, and that nothing else ends."""
    begun, over = {}, {}
    for n, e in enumerate(events):
        if e["type"] in STARTS:
            ok(about(e) not in begun, f"it begins twice: {e}")
            begun[about(e)] = (n, e["type"])
        elif e["type"] in ENDS:
            ok(about(e) in begun and begun[about(e)][1] == ENDS[e["type"]], f"an end without a start: {e}")
            ok(about(e) not in over, f"it ends twice: {e}")
            over[about(e)] = e
    eq(sorted(set(begun) - set(over)), [], "what began and never ended")
    ids = [e["id"] for e in events]
    eq(ids, sorted(set(ids)), "ids")
    return over


def newest(w):
    """The id of the newest event."""
    box = w.create()
    w.delete(box)
    e = None
    for e in w.events("/v1/events", format="ndjson", since=0):
        if deleted(box)(e):
            break
    return e["id"]


def open_session(w, box):
    return w.post(f"/v1/sandboxes/{box}/sessions", {}, status=201)["id"]


@test
def execs_and_sessions_of_a_deleted_sandbox_have_ended():
    with World() as w:
        cursor = newest(w)
        box = w.create()
        alive = [w.exec(box, "sleep 1000") for _ in range(3)]
        sessions = [open_session(w, box) for _ in range(2)]
        closed = open_session(w, box)
        w.ask("DELETE", f"/v1/sandboxes/{box}/sessions/{closed}", status=204)
        done = w.run(box, "exit 7")["id"]
        w.delete(box)
        events = since(w, cursor, deleted(box), sandbox_id=box)
        ends = check_pairs(events)
        for e in alive:
            eq((ends[e].get("result"), ends[e]["reason"]), (None, "deleted"), "the end of what was alive")
        for s in sessions:
            eq(ends[s]["reason"], "deleted", "the end of a session that was open")
        ok("reason" not in ends[closed], f"a session that was closed: {ends[closed]}")
        eq(ends[done]["result"]["exit_code"], 7, "the end of what ended by itself")
        eq(events[-1]["type"], "sandbox.deleted", "the last of them")


@test
def execs_of_a_failed_sandbox_end_once():
    needs("init")
    with World() as w:
        cursor = newest(w)
        box = w.create()
        alive, session = w.exec(box, "sleep 1000"), open_session(w, box)
        for pid in below(os.getpid()):
            with contextlib.suppress(OSError):
                numbers = re.search(r"NSpid:(.*)", slurp(f"/proc/{pid}/status"))[1].split()
                if len(numbers) > 1 and numbers[-1] == "1":
                    os.kill(pid, signal.SIGKILL)
        until(lambda: w.show(box)["state"] == "failed", lambda: w.show(box))
        ends = {about(e): e for e in since(w, cursor, lambda e: e["type"] == "sandbox.failed", sandbox_id=box)
                if e["type"] in ENDS}
        eq((ends[alive].get("result"), ends[alive]["reason"]), (None, "failed"), "the exec")
        eq(ends[session]["reason"], "failed", "the session")
        eq(w.get(f"/v1/sandboxes/{box}/execs/{alive}")["state"], "lost", "state of the exec")
        w.kill("api", "warden")

        w.start()
        eq(w.get(f"/v1/sandboxes/{box}/execs/{alive}")["state"], "lost", "state of the exec after a restart")
        w.delete(box)
        check_pairs(since(w, cursor, deleted(box), sandbox_id=box))


@test
def cursors_outlive_the_service():
    with World() as w:
        cursor = newest(w)
        box = w.create()
        seen = []
        for n, how in enumerate(("stop", "api", "warden", "both", "stop")):
            alive = w.exec(box, f"sleep 1000; : {n}")
            short = w.run(box, f"exit {n}")["id"]
            session = open_session(w, box)
            if how == "stop":
                w.stop()
                w.start()
            elif how == "api":
                w.kill("api", "warden")  # the warden ends with the api: both are restarted
                w.start()
            else:
                w.kill(*({"warden": ["warden"], "both": ["api", "warden"]}[how]))
                w.start()
            at = seen[-1]["id"] if seen else cursor
            seen += since(w, at, lambda e, s=session: e.get("session_id") == s)
            ok("gap" not in [e["type"] for e in seen], f"a gap after {how}: {seen}")
            eq([e["result"]["exit_code"] for e in seen if e["type"] == "exec.finished" and e["exec_id"] == short], [n],
               "what happened before the restart")
            ok(any(e["type"] == "exec.started" and e["exec_id"] == alive for e in seen), "the start of what lives on")
        w.delete(box)
        seen += since(w, seen[-1]["id"], deleted(box))
        check_pairs(seen)
        eq(seen, since(w, cursor, deleted(box)), "the same once more, from its beginning")
        # An unknown cursor, and one before the oldest event: each gets one gap.
        for wrong in (seen[-1]["id"] + 1000, 1):
            eq(next(w.events("/v1/events", format="ndjson", since=wrong))["type"], "gap", f"what {wrong} gets")


@test
def kills_of_the_service_under_load_lose_no_event():
    """Clients create and delete objects while the service is killed. Afterwards, all events come in pairs, and
    include each acknowledged start."""
    with World() as w:
        cursor = newest(w)
        told, over = [], threading.Event()

        def client(n):
            while not over.is_set():
                try:
                    box = w.create()
                    told.append(box)
                    told.append(w.exec(box, "sleep 1000"))
                    told.append(w.run(box, f"exit {n}")["id"])
                    told.append(open_session(w, box))
                    w.delete(box)
                except Exception:  # noqa: BLE001 - the service was killed
                    w.local.__dict__.clear()

        threads = [threading.Thread(target=client, args=(n,)) for n in range(3)]
        for t in threads:
            t.start()
        for n in range(8):
            before = len(told)
            until(lambda b=before: len(told) > b + 5, "nothing happens")
            w.kill("api", "warden")
            w.start()
        over.set()
        for t in threads:
            t.join(WAIT)
        for s in w.sandboxes():
            if s["state"] != "deleting":
                w.ask("DELETE", f"/v1/sandboxes/{s['id']}")
        until(lambda: not w.sandboxes(), "sandboxes are left")
        last = newest(w)
        events = since(w, cursor, lambda e: e["id"] >= last)
        ok("gap" not in [e["type"] for e in events], "a gap")
        starts = {about(e) for e in events if e["type"] in STARTS}
        eq([x for x in told if x not in starts], [], "what was acknowledged, and has no event")
        ends = [about(e) for e in events if e["type"] in ENDS]
        eq(len(ends), len(set(ends)), "ends that were told twice")
        eq(sorted(starts - set(ends)), [], "starts without an end")
        ok(len(starts) > 50, f"only {len(starts)} starts")


def rows(w, text, *args):
    with contextlib.closing(sqlite3.connect(f"{w.state}/serve/warren.db", timeout=WAIT)) as db, db:
        return db.execute(text, args).fetchall()


@test
def old_and_excess_events_are_deleted():
    with World() as w:
        cursor = newest(w)
        box = w.create()
        for n in range(4200):  # more than the service keeps in memory
            w.ask("PATCH", f"/v1/sandboxes/{box}", {"labels": {"n": str(n)}}, status=200)
        events = since(w, cursor, lambda e: e["type"] == "sandbox.updated" and e["id"] >= cursor + 4202)
        eq([e["id"] for e in events], list(range(cursor + 1, cursor + 4203)), "all of them, in their order")
        w.stop()

        rows(w, "UPDATE events SET clock = clock - 3600 * 1000 WHERE id <= ?", cursor + 1000)
        w.start()
        until(lambda: rows(w, "SELECT min(id) FROM events")[0][0] == cursor + 1001, lambda: rows(w, "SELECT min(id) FROM events"))
        eq([next(w.events("/v1/events", format="ndjson", since=x))["type"] for x in (cursor, cursor + 1000)],
           ["gap", "sandbox.updated"], "before and after what was forgotten")
        w.stop()

        last = rows(w, "SELECT max(id) FROM events")[0][0]
        rows(w, """WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100500)
                   INSERT INTO events (id, at, clock, type, state)
                   SELECT ?1 + i, at, clock, type, -1 FROM n, events WHERE id = ?1""", last)
        w.start()
        until(lambda: rows(w, "SELECT count(*) FROM events")[0][0] <= 100000, lambda: rows(w, "SELECT count(*) FROM events"))
        eq(next(w.events("/v1/events", format="ndjson", since=cursor + 1000))["type"], "gap", "what is too much")
        w.delete(box)
        w.stop()

        # All events are old: the last one is kept, so that ids continue.
        rows(w, "UPDATE events SET clock = clock - 2 * 3600 * 1000")
        last = rows(w, "SELECT max(id) FROM events")[0][0]
        w.start()
        until(lambda: rows(w, "SELECT count(*) FROM events")[0][0] == 1, "all but the last")
        w.stop()
        w.start()
        eq(newest(w) > last, True, "an id after that")
        ok(all(e["type"] != "gap" for e in since(w, last, lambda e: e["type"] == "sandbox.deleted")), "the cursor of the last")


if __name__ == "__main__":
    run_tests()
