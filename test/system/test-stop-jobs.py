#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-stop-jobs.py - what waits behind a stop, a start or a pause of a sandbox: how long, for whom, and how much

Speaks TAP. Bounds are of orders of magnitude.
"""
import os
import signal
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, fitted, until  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name
LONG = 120000  # ms: longer than anything here may take


def shell(text):
    return {"argv": ["/bin/sh", "-c", text]}


def state(box):
    r = w.ask("GET", f"/v1/sandboxes/{box}")
    return r.json()["state"] if r.status == 200 else "gone"


def reaches(box, what):
    until(lambda: state(box) == what, lambda: f"{what}: it is {state(box)}; {w.said()}")


def stubborn(token=None, **spec):
    """A sandbox whose main command ignores SIGTERM, and says so."""
    main = shell("trap '' TERM; echo ready; while :; do sleep 0.1; done")
    s = w.post("/v1/sandboxes", fitted({"main": main, **spec}), status=201, token=token)
    until(lambda: w.raw(s["id"], s["main"]["exec_id"], follow="false"), "it is ready")
    return s["id"]


class Asked:
    """A request on a connection of its own, whose answer is waited for elsewhere."""

    def __init__(self, method, path, body=None, token=None):
        self.reply, self.failure = None, None
        self.thread = threading.Thread(target=self.work, args=(method, path, body, token))
        self.thread.start()
        time.sleep(0.3)  # it is with the service by then

    def work(self, method, path, body, token):
        try:
            with w.client(token) as c:
                self.reply = c.ask(method, path, body)
        except OSError as e:  # a token that is revoked takes its connections along
            self.failure = e

    @property
    def waits(self):
        return self.thread.is_alive()

    def status(self, seconds=30):
        self.thread.join(seconds)
        ok(not self.waits, "an answer in time")
        return self.reply.status if self.reply else None


def stopping(box, ms=LONG, token=None):
    s = Asked("POST", f"/v1/sandboxes/{box}/stop", {"timeout_ms": ms}, token)
    ok(s.waits and state(box) == "running", "the grace has not passed")
    return s


# ------------------------------------------------------------------- how long


@test
def a_deletion_does_not_wait_for_the_grace_of_a_stop():
    box = stubborn()
    stop = stopping(box)
    start = Asked("POST", f"/v1/sandboxes/{box}/start")
    again = Asked("POST", f"/v1/sandboxes/{box}/stop", {"timeout_ms": LONG})
    ok(stop.waits and start.waits and again.waits, "what is no hurry waits")
    begun = time.monotonic()
    w.ask("DELETE", f"/v1/sandboxes/{box}", status=204)
    ok(time.monotonic() - begun < 20, "deleted at once")
    eq(state(box), "gone")
    for asked in (stop, start, again):
        ok(asked.status() in (200, 404, 409), "each has its answer")


@test
def an_expiry_does_not_wait_for_the_grace_of_a_stop():
    box = stubborn(ttl_ms=3000)
    stop = stopping(box)
    reaches(box, "gone")
    ok(stop.status() in (200, 404, 409), "it has its answer")


@test
def a_kill_and_a_shorter_stop_cut_the_grace_short():
    for ms in (0, 500):
        box = stubborn()
        stop = stopping(box)
        eq(Asked("POST", f"/v1/sandboxes/{box}/stop", {"timeout_ms": ms}).status(), 200)
        eq((stop.status(), state(box)), (200, "stopped"))
        w.delete(box)
    # A longer one does not lengthen it, nor does it shorten it.
    box = stubborn()
    stop = stopping(box, 3000)
    begun = time.monotonic()
    eq(Asked("POST", f"/v1/sandboxes/{box}/stop", {"timeout_ms": LONG}).status(), 200)
    ok(1 < time.monotonic() - begun < 60, "the grace of the first")
    eq(stop.status(), 200)
    w.delete(box)


@test
def the_end_of_the_main_command_leaves_others_their_grace():
    box = w.create(main={"argv": ["sleep", "1021"]}, on_exit="delete")
    other = w.exec(box, "trap 'sleep 1.5; echo saved; exit 7' TERM; echo ready; while :; do sleep 0.1; done")
    until(lambda: w.raw(box, other, follow="false"), "it is ready")
    seen = Asked("GET", f"/v1/sandboxes/{box}/execs/{other}?wait_ms=60000")
    eq(Asked("POST", f"/v1/sandboxes/{box}/stop", {"timeout_ms": LONG}).status(), 200)
    eq((seen.status(), seen.reply.json()["result"]["exit_code"]), (200, 7), "it ended by itself")
    reaches(box, "gone")


if __name__ == "__main__":
    with World() as w:
        failed = run_tests()
    sys.exit(failed)
