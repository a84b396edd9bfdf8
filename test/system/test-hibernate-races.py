#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-hibernate-races.py - every use of a sandbox succeeds while it hibernates again and again"""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name
SECONDS = 3


def write_file(box, i):
    return w.client().ask("PUT", f"/v1/sandboxes/{box}/files", f"{i}".encode(), query={"path": f"/srv/{i}"})


def read_file(box, _):
    r = w.client().ask("GET", f"/v1/sandboxes/{box}/files", query={"path": "/srv/first"})
    ok(r.status != 200 or r.body == b"kept", r.body)
    return r


def list_files(box, _):
    return w.client().ask("GET", f"/v1/sandboxes/{box}/files/list", query={"path": "/srv"})


def run(box, _):
    return w.client().ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]})


def diff(box, _):
    return w.client().ask("GET", f"/v1/sandboxes/{box}/diff")


def snapshot(box, _):
    r = w.client().ask("POST", f"/v1/sandboxes/{box}/snapshots", {})
    return w.client().ask("DELETE", f"/v1/snapshots/{r.json()['id']}") if r.status == 201 else r


def reset(box, _):
    return w.client().ask("POST", f"/v1/sandboxes/{box}/reset")


USES = (write_file, read_file, list_files, run, diff, snapshot, reset)


def meets(box, use):
    """Calls @use again and again while the sandbox hibernates again and again; returns the answers."""
    end, answers, slept, errors = time.monotonic() + SECONDS, [], [], []

    def again(fn):
        i = 0
        while time.monotonic() < end or i < 3:
            i += 1
            try:
                fn(i)
            except Exception as e:  # pylint: disable=broad-exception-caught
                errors.append(e)
                return

    def sleep(_):
        r = w.client().ask("POST", f"/v1/sandboxes/{box}/hibernate", {"timeout_ms": 0})
        slept.append((r.status, r.body))

    threads = [threading.Thread(target=again, args=(f,))
               for f in (sleep, *[lambda i, u=use: answers.append(u(box, i))] * 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    eq(errors, [])
    eq([s for s in slept if s[0] != 200], [])
    return answers


def make(use):
    def point():
        box = w.create(image="host")
        w.ask("PUT", f"/v1/sandboxes/{box}/files", b"kept", query={"path": "/srv/first"}, status=201)
        answers = meets(box, use)
        ok(len(answers) >= 9, len(answers))
        eq([(a.status, a.body[:300]) for a in answers if a.status not in (200, 201, 204)], [])
        w.delete(box)
    point.__name__ = f"{use.__name__}_meets_hibernations"
    return point


for one in USES:
    test(make(one))


def main():
    global w  # pylint: disable=global-statement
    with World() as w:
        return run_tests()


if __name__ == "__main__":
    sys.exit(main())
