#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-serve-faults.py - memory, descriptors and disk space run out, and calls fail, at random points

Requests are carried out or answered with an error of the API. The service stays alive, works as before afterwards,
and leaves nothing behind. faults.c makes calls fail; a seed ($WARREN_SEED) selects them, and is printed.
"""
import contextlib
import http.client
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from fault_world import (DESCRIPTORS, DISK, INTERRUPTS, MEMORY, MESSAGES, PRELOAD, SIGNALS, SPACE, FaultyWorld)  # pylint: disable=wrong-import-position
from serve_world import Client, until  # pylint: disable=wrong-import-position

SEED = int(os.environ.get("WARREN_SEED", time.time_ns() % (1 << 48)))
w = None  # pylint: disable=invalid-name


# ----------------------------------------------------------------- client that tolerates errors


class Patient:
    """A client that accepts errors of the API and broken connections."""

    def __init__(self):
        self.done, self.refused, self.broken = 0, {}, 0

    def ask(self, method, at, body=None, **query):
        """Returns the answer if the request succeeded, otherwise None."""
        try:
            with Client(w.socket, timeout=20) as c:
                r = c.ask(method, at, body, query=query)
        except (OSError, http.client.HTTPException) as e:
            ok(not isinstance(e, TimeoutError), f"{method} {at}: no answer in 20 s")
            self.broken += 1
            return None
        if r.status < 400:
            self.done += 1
            return r
        try:
            e = r.json()
        except ValueError as why:
            raise AssertionError(f"{method} {at}: {r} is no error of the API") from why
        eq(sorted(e), ["code", "detail", "message", "request_id"], f"fields of {e}")
        ok(e["message"] and e["code"], f"{method} {at}: {e}")
        ok(e["code"] not in ("invalid_request", "invalid_json"), f"{method} {at}: it is not the request's mistake: {e}")
        self.refused[e["code"]] = self.refused.get(e["code"], 0) + 1
        return None


def one_round(p, number):
    """Uses each common operation once. Acknowledged operations must have taken effect."""
    r = p.ask("POST", "/v1/sandboxes", {"labels": {"round": str(number)}})
    if not r:
        return
    at = f"/v1/sandboxes/{r.json()['id']}"
    r = p.ask("POST", at + "/run", {"command": f"echo {number}; echo err >&2; exit 3"})
    if r:
        e = r.json()
        eq((e["stdout"], e["stderr"], e["result"]["exit_code"]), (f"{number}\n", "err\n", 3), f"of {e}")
    data = os.urandom(50000)
    if p.ask("PUT", at + "/files", data, path="/tmp/d/x", parents="true"):
        r = p.ask("GET", at + "/files", path="/tmp/d/x")
        eq(r.body if r else data, data, "a file")
    r = p.ask("POST", at + "/sessions", {})
    if r:
        at_session = f"{at}/sessions/{r.json()['id']}"
        if p.ask("POST", at_session + "/run", {"command": f"X={number}; cd /tmp"}):
            r = p.ask("POST", at_session + "/run", {"command": "echo $X $PWD"})
            eq(r.json()["stdout"] if r else f"{number} /tmp\n", f"{number} /tmp\n", "of a session")
    p.ask("GET", at)
    p.ask("GET", at + "/execs")
    p.ask("GET", "/v1/sandboxes", limit=5)
    if number % 2:
        p.ask("DELETE", at)


def everything_works():
    b = w.create()
    eq(w.run(b, "echo fine")["stdout"], "fine\n", "a run")
    w.ask("PUT", f"/v1/sandboxes/{b}/files", b"data", query={"path": "/tmp/x"}, status=201)
    s = w.post(f"/v1/sandboxes/{b}/sessions", {}, 201)["id"]
    eq(w.post(f"/v1/sandboxes/{b}/sessions/{s}/run", {"command": "cat /tmp/x"})["stdout"], "data", "a session")
    w.delete(b)


def links(pid):
    """The targets of a process's descriptors."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    # SQLite keeps descriptors that it could not close because of a lock, for its next open of the file.
    return sorted(name for name in found if not name.endswith("/warren.db"))


class Bystander:
    """A sandbox that is not involved in the faults: it must stay unchanged, with everything that runs in it."""

    def __init__(self):
        self.box = w.create(labels={"bystander": "1"})
        at = f"/v1/sandboxes/{self.box}"
        self.session = w.post(at + "/sessions", {}, 201)["id"]
        w.post(f"{at}/sessions/{self.session}/run", {"command": "X=untouched"})
        self.waiting = w.exec(self.box, "cat; exit 7", stdin=True)
        self.ending = w.exec(self.box, "sleep 1; echo over; exit 8")

    def check(self):
        at = f"/v1/sandboxes/{self.box}"
        eq(w.show(self.box)["state"], "running", f"a sandbox that did nothing: {w.said([self.box])}")
        # The service may still be restoring a connection that broke.
        until(lambda: w.ask("POST", at + "/run", {"command": "true"}).status == 200, "it cannot be used")
        eq(w.post(f"{at}/sessions/{self.session}/run", {"command": "echo $X"})["stdout"], "untouched\n", "its session")
        w.ask("POST", f"{at}/execs/{self.waiting}/stdin", b"line\n", query={"close": "true"}, status=200)
        for e, said in ((self.waiting, (7, b"line\n")), (self.ending, (8, b"over\n"))):
            eq((w.result(self.box, e)["exit_code"], w.raw(self.box, e)), said, "its exec")
        w.delete(self.box)


def storm(kinds, one_in, rounds=60):
    """Runs @rounds while calls fail; afterwards, everything must be as before."""
    everything_works()
    before, pids = links(w.api), (w.api, w.warden)
    bystander = Bystander()
    p = Patient()
    w.faults.set(kinds, one_in, SEED)
    try:
        # A fault can make everything fail for a while: continue until something has worked.
        for number in range(10 * rounds):
            if number >= rounds and p.done >= rounds / 10:
                break
            one_round(p, number)
    finally:
        struck = w.faults.off()
    print(f"# seed {SEED}: {sum(struck)} faults, {p.done} done, {p.broken} broken off, refused {json.dumps(p.refused)}",
          flush=True)
    ok(sum(struck) >= rounds / 10, f"too few faults to mean anything: {struck}")
    ok(p.done >= rounds / 10, "nothing worked at all")
    eq((w.api, w.warden), pids, "the processes of the service")
    bystander.check()
    everything_works()
    w.empty()
    w.check_empty()
    w.integrity()
    until(lambda: len(links(w.api)) <= len(before), lambda: f"descriptors: {before}, now {links(w.api)}")


@test
def the_service_survives_lack_of_memory():
    storm(MEMORY, 400)


@test
def the_service_survives_lack_of_descriptors():
    storm(DESCRIPTORS, 12)


@test
def the_service_survives_a_full_disk():
    storm(SPACE, 12)


@test
def the_service_survives_disk_errors():
    storm(DISK, 20)


@test
def the_service_survives_failed_messages():
    storm(MESSAGES, 5)


@test
def the_service_survives_undelivered_signals():
    storm(SIGNALS, 2)


@test
def the_service_survives_interrupted_calls():
    storm(INTERRUPTS, 10)


@test
def the_service_survives_all_faults_together():
    storm(MEMORY | DESCRIPTORS | SPACE | DISK | MESSAGES | SIGNALS | INTERRUPTS, 150)


if __name__ == "__main__":
    if not os.path.exists(PRELOAD):
        print("1..0 # SKIP faults.c is not built: with sanitizers, malloc(3) is theirs")
        sys.exit(0)
    with FaultyWorld() as w:
        failed = run_tests()
    sys.exit(failed)
