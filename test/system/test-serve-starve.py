#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-serve-starve.py - clients are answered soon despite readers of endless output and hundreds that do not read

Prints TAP. A busy machine delays everything, so elapsed time says little. The test measures how long the api's loop
computes between a request and its answer (/proc/PID/schedstat): a request would wait as long on an idle machine, and
readers could increase that time. So it only makes requests that the api answers alone: while the api waits for
another process, the loop may compute for other clients.
"""
import contextlib
import subprocess
import sys
import time
import os

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World  # pylint: disable=wrong-import-position

MOST = 0.020  # maximum processor time in seconds before an answer, for 99 of 100 requests
ASKED = 100


def computed(pid):
    """Processor time of the main thread, which runs the loop, in seconds."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as f:
        return int(f.read().split()[0]) / 1e9


READERS = """
import select, socket, sys, time
path, request, n, reads = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3]), sys.argv[4] == "reads"
found = []
for _ in range(n):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    s.sendall(request)
    assert s.recv(12) == b"HTTP/1.1 200", "the head"
    found.append(s)
print("ready", flush=True)
while True:
    for s in select.select(found, [], [], 1)[0] if reads else time.sleep(1) or []:
        s.recv(1 << 16)
"""


@contextlib.contextmanager
def readers(w, path, n, how):
    """Clients in a separate process."""
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"
    with subprocess.Popen([sys.executable, "-c", READERS, w.socket, request, str(n), how], stdout=subprocess.PIPE) as p:
        try:
            eq(p.stdout.readline(), b"ready\n", "the readers")
            yield
        finally:
            p.kill()


def worst(w, what):
    """The 99th percentile of the loop's processor time per request, in seconds."""
    took, api = [], w.api
    with w.client() as c:
        for i in range(ASKED):
            path = what[i % len(what)]
            begun = computed(api)
            eq(c.ask("GET", path).status, 200, path)
            took.append(computed(api) - begun)
    return sorted(took)[len(took) * 99 // 100 - 1]


@test
def readers_of_a_flood_do_not_starve_others():
    with World() as w:
        box, other = w.create(), w.create()
        e = w.exec(box, "yes")
        output = f"/v1/sandboxes/{box}/execs/{e}/output?follow=true"
        what = ["/version", f"/v1/sandboxes/{other}", f"/v1/sandboxes/{other}/execs"]
        seen = {"nobody": worst(w, what)}
        for n, how, form in ((1, "reads", ""), (200, "never", "")):
            with readers(w, output + form, n, how):
                time.sleep(0.5)
                seen[f"{n} {how} {form}"] = worst(w, what)
            print(f"# {n} {how} {form}: {seen[f'{n} {how} {form}'] * 1000:.1f} ms", flush=True)
        ok(seen["nobody"] > 0, "the measure sees nothing")
        ok(all(s <= MOST for s in seen.values()), seen)


if __name__ == "__main__":
    run_tests()
