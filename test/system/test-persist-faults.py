#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-persist-faults.py - what is said of a sandbox that persists is true after a power cut

Prints TAP. callfaults.c makes system calls of the service fail.
"""
import errno
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from call_world import PRELOAD, CallWorld  # pylint: disable=wrong-import-position
from checks import Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import until  # pylint: disable=wrong-import-position

SPEC = {"image": "host", "limits": {"memory": "64m", "disk": "32m"}}
w = None  # pylint: disable=invalid-name


def create(**more):
    return w.ask("POST", "/v1/sandboxes", {**SPEC, **more}, status=201).json()["id"]


def clear():
    w.page.off()
    for one in w.sandboxes():
        w.delete(one["id"])


@test
def creations_are_answered_when_they_survive_a_power_cut():
    box = create(persist=True)
    one, many = {**SPEC, "persist": True}, {"sandboxes": [SPEC, {**SPEC, "persist": True}]}
    for path, body in (("/v1/sandboxes", one), ("/v1/sandboxes/batch", many), (f"/v1/sandboxes/{box}/fork", {"count": 2})):
        before, known = w.failed("fdatasync"), {b["id"] for b in w.sandboxes()}
        w.fail("fdatasync", errno.EIO)
        r = w.ask("POST", path, body)
        w.page.off()
        ok(r.status >= 500 and w.failed("fdatasync") > before, (path, r))
        # No client knows them, so none of them stays.
        until(lambda: {b["id"] for b in w.sandboxes()} == known, w.sandboxes)
        r = w.ask("POST", path, body)  # the control
        eq(r.status, 201, (path, r))
    # A client that repeats a request finds what the first one created.
    keyed = {**one, "idempotency_key": "once"}
    w.fail("fdatasync", errno.EIO)
    ok(w.ask("POST", "/v1/sandboxes", keyed).status >= 500, "an answer")
    w.page.off()
    first = w.ask("POST", "/v1/sandboxes", keyed, status=201).json()["id"]
    w.fail("fdatasync", errno.EIO)
    ok(w.ask("POST", "/v1/sandboxes", keyed).status >= 500, "an answer")
    w.page.off()
    eq(w.show(first)["state"], "running")
    w.fail("fdatasync", errno.EIO)
    create()  # nothing of it would outlive the machine
    clear()


@test
def a_hibernation_whose_files_cannot_be_written_changes_nothing():
    box = create(persist=True)
    eq(w.run(box, ["sh", "-c", "echo kept >/root/x"])["result"]["exit_code"], 0)
    w.fail("syncfs", errno.EIO)
    ok(w.ask("POST", f"/v1/sandboxes/{box}/hibernate", {"timeout_ms": 0}).status >= 500, "it hibernates")
    ok(w.failed("syncfs") > 0, "nothing failed")
    until(lambda: w.show(box)["state"] == "running", lambda: w.show(box))
    eq(w.run(box, ["cat", "/root/x"])["stdout"], "kept\n")
    w.page.off()
    eq(w.ask("POST", f"/v1/sandboxes/{box}/hibernate", {"timeout_ms": 0}, status=200).json()["state"], "hibernated")
    eq(w.run(box, ["cat", "/root/x"])["stdout"], "kept\n")
    clear()


def main():
    global w  # pylint: disable=global-statement
    try:
        if not os.path.exists(PRELOAD):
            raise Skip("callfaults.c is not built: with sanitizers, the calls are theirs")
        with CallWorld() as w:
            probe = w.ask("POST", "/v1/sandboxes", {**SPEC, "persist": True})
            if probe.status >= 400 and "loop devices" in probe.json()["message"]:
                raise Skip("this machine has no loop devices")
            clear()
            return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
