#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-code-room.py - a code run waits for quota, while its client disconnects or the service stops or is killed;
nothing is left behind

A run waits as long as the sandbox of an earlier run is being deleted. Here the warden is stopped, so that the
deletion does not end, and a quota of one sandbox is used up.
"""
import contextlib
import json
import os
import select
import signal
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import WAIT, World, slurp, until  # pylint: disable=wrong-import-position

CONFIG = "quota: { sandboxes: 1 }\n"
TRIES = 5  # a run waits for at most five seconds, which may not be enough on a busy machine


class Run:
    """A request to run code, whose answer is read later."""

    def __init__(self, w, code):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(2 * WAIT)
        self.socket.connect(w.socket)
        body = json.dumps({"language": "bash", "code": code, "timeout_ms": 600000}).encode()
        self.socket.sendall(f"POST /v1/code HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
                            f"Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def leave(self):
        self.socket.close()

    def is_answered(self):
        return bool(select.select([self.socket], [], [], 0)[0])

    def answer(self):
        """The status and body of the answer; (0, b"") if the connection ends without an answer."""
        data = b""
        with contextlib.suppress(ConnectionError), self.socket:
            while more := self.socket.recv(65536):
                data += more
        head, _, body = data.partition(b"\r\n\r\n")
        return int(head.split()[1]) if head else 0, body


def is_deleting(w):
    return [s["state"] for s in w.sandboxes()] == ["deleting"]


@contextlib.contextmanager
def held(w):
    """The sandbox of a run that has ended uses up the quota until the block ends or release() is called."""
    until(lambda: w.sandboxes() == [], "sandboxes of an earlier test")
    first = Run(w, "sleep 600")
    until(lambda: [s["id"] for s in w.sandboxes() if s["state"] == "running" and w.get(f"/v1/sandboxes/{s['id']}/execs")["execs"]],
          "the first run")
    w.look()
    warden = w.warden
    os.kill(warden, signal.SIGSTOP)
    try:
        first.leave()
        until(lambda: is_deleting(w), lambda: f"the sandbox is not being deleted: {w.sandboxes()}")
        yield lambda: os.kill(warden, signal.SIGCONT)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(warden, signal.SIGCONT)


def waiting(w, work, code="echo mine"):
    """Calls work(run, release) while a run waits for quota. Returns its result."""
    for _ in range(TRIES):
        with held(w) as release:
            run = Run(w, code)
            for _ in range(3):  # after that, the loop has received the request too
                w.get("/version")
            ok(is_deleting(w), "a run that waits has no sandbox")
            if not run.is_answered():
                return work(run, release)
            status, body = run.answer()
            eq(status, 429, f"a run that has waited too long: {body}")
    raise AssertionError("this machine is too slow for a run that waits")


def works_again(w):
    until(lambda: w.sandboxes() == [], lambda: f"sandboxes are left: {w.sandboxes()}")
    r = w.ask("POST", "/v1/code", {"language": "bash", "code": "echo again"})
    eq((r.status, r.json().get("stdout")), (200, "again\n"), f"the next run: {r}")
    w.check_empty()


@test
def a_run_that_waits_starts_when_there_is_room():
    def work(run, release):
        release()
        return run.answer()
    with World(config=CONFIG) as w:
        status, body = waiting(w, work)
        eq((status, json.loads(body).get("stdout")), (200, "mine\n"), "the run that waited")
        works_again(w)


@test
def a_run_that_waits_too_long_is_refused():
    with World(config=CONFIG) as w:
        def work(run, _):
            return run.answer()
        status, body = waiting(w, work)
        eq((status, json.loads(body)["code"]), (429, "quota_exceeded"), "its answer")
        works_again(w)


def ended(w):
    """The log entries of completed requests to run code."""
    return [line for line in slurp(w.log_path).splitlines() if "path=/v1/code " in line]


@test
def a_client_that_leaves_while_its_run_waits_leaves_nothing():
    with World(config=CONFIG) as w:
        def work(run, release):
            before = len(ended(w))
            run.leave()
            until(lambda: len(ended(w)) > before, "the service does not see that the client is gone")
            eq([s["state"] for s in w.sandboxes()], ["deleting"], "sandboxes, before there is room")
            release()
            return " status=0 " in ended(w)[-1]
        ok(any(waiting(w, work, code="sleep 600") for _ in range(TRIES)), "no client left before its run had waited too long")
        works_again(w)


@test
def a_service_that_stops_refuses_the_run_that_waits():
    with World(config=CONFIG) as w:
        def work(run, release):
            os.kill(w.api, signal.SIGTERM)  # as the warden does when it is told to stop
            answer = run.answer()
            w.process.terminate()
            release()
            eq(w.process.wait(WAIT), 0, "status of a service that was stopped")
            return answer
        status, body = waiting(w, work, code="sleep 600")
        eq((status, json.loads(body)["code"]), (503, "shutting_down"), "the answer of a service that stops")
        w.start()
        works_again(w)


@test
def a_killed_api_leaves_nothing_of_the_run_that_waits():
    with World(config=CONFIG) as w:
        def work(run, release):
            w.kill("api")
            answer = run.answer()
            release()
            return answer
        eq(waiting(w, work, code="sleep 600"), (0, b""), "the answer of a killed api")
        w.ready()
        works_again(w)
        eq(waiting(w, lambda run, _: (w.kill("api", "warden"), run.answer())[1], code="sleep 600"), (0, b""), "of a killed service")
        w.start()
        works_again(w)


if __name__ == "__main__":
    sys.exit(run_tests())
