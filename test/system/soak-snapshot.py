#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""soak-snapshot.py - a snapshot of very many small files: it is complete, and others notice little

Prints TAP and the figures: the time of each step, the most memory of each process, and the latency of other requests
meanwhile. It has $WARREN_SOAK_FILES files (default 20,000; a million with WARREN_SOAK, as in `make soak`).
"""
import contextlib
import os
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, below, rss, slurp, until  # pylint: disable=wrong-import-position

FILES = int(os.environ.get("WARREN_SOAK_FILES", 1000000 if os.environ.get("WARREN_SOAK") else 20000))
HOUR = 3600
MIB = 1 << 20
MAKE = ("import os\nfor n in range({files}):\n if n % 1000 == 0: os.mkdir(f'/srv/{{n // 1000}}')\n"
        " with open(f'/srv/{{n // 1000}}/{{n}}', 'w') as f: f.write(str(n))\n")
SUM = ("import os\nn = total = 0\nfor d, _, files in os.walk('/srv'):\n for f in files:\n  n += 1; total += int(open(f'{d}/{f}').read()) == int(f)\n"
       "print(n, total)\n")


class Watch:
    """Sends small requests and samples the memory of the service's processes, until it is left."""

    def __init__(self, w, other):
        self.w, self.other = w, other
        self.most, self.latencies, self.step = {}, {}, "none"
        self.over, self.failures = threading.Event(), []
        self.threads = [threading.Thread(target=self.ask), threading.Thread(target=self.sample)]

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for t in self.threads:
            t.join()

    def ask(self):
        with self.w.client() as client:
            while not self.over.wait(0.02):
                begin = time.monotonic()
                for method, path, body in (("GET", f"/v1/sandboxes/{self.other}", None),
                                           ("POST", f"/v1/sandboxes/{self.other}/run", {"argv": ["true"]})):
                    r = client.ask(method, path, body)
                    if r.status != 200:
                        self.failures.append(r)
                self.latencies.setdefault(self.step, []).append(time.monotonic() - begin)

    def sample(self):
        while not self.over.wait(0.2):
            for p in (self.w.warden, *below(self.w.warden)):
                with contextlib.suppress(OSError, TypeError):
                    name = slurp(f"/proc/{p}/comm").strip()
                    if name.startswith("warren"):
                        self.most[name] = max(self.most.get(name, 0), rss(p))

    def time(self, step, f):
        self.step, begin = step, time.monotonic()
        result = f()
        took, self.step = time.monotonic() - begin, "none"
        times = sorted(self.latencies.get(step, [0]))
        print(f"# {step:<8} {took:8.1f} s; a request and a command of another sandbox: median {times[len(times) // 2] * 1000:.1f} ms, "
              f"99% {times[len(times) * 99 // 100] * 1000:.1f} ms, most {times[-1] * 1000:.1f} ms")
        return result


@test
def a_snapshot_of_many_small_files_is_complete():
    with World() as w:
        size = {"memory": max(256 * MIB, FILES * 8192), "disk": max(256 * MIB, FILES * 6000)}
        box, other = w.create(image="host", limits=size), w.create(image="host")

        def run(sandbox, code):
            r = w.client(timeout=HOUR).ask("POST", f"/v1/sandboxes/{sandbox}/run", {"argv": ["python3", "-c", code], "timeout_ms": HOUR * 1000})
            eq((r.status, r.json()["result"]["exit_code"]), (200, 0), r)
            return r.json()["stdout"]

        def ask(*args, status):
            r = w.client(timeout=HOUR).ask(*args)
            eq(r.status, status, r)
            return r
        with Watch(w, other) as watch:
            watch.time("write", lambda: run(box, MAKE.format(files=FILES)))
            watch.time("snapshot", lambda: ask("POST", f"/v1/sandboxes/{box}/snapshots", {"name": "many"}, status=201))
            copy = watch.time("create", lambda: w.create(image="many", limits=size))
            eq(watch.time("read", lambda: run(copy, SUM)), f"{FILES} {FILES}\n")
            w.delete(copy)
            watch.time("delete", lambda: ask("DELETE", "/v1/snapshots/many", status=204))
            watch.time("remove", lambda: until(lambda: w.rows("SELECT count(*) FROM snapshots") == [(0,)], "no row", seconds=HOUR))
        eq(os.listdir(f"{w.state}/layers/d"), [])
        eq(watch.failures, [])
        for name, bytes_ in sorted(watch.most.items()):
            print(f"# {name:<16} {bytes_ / MIB:6.0f} MB at most")
            ok(bytes_ < 256 * MIB, f"{name} needs {bytes_} bytes")
        for b in (box, other):
            w.delete(b)


if __name__ == "__main__":
    sys.exit(run_tests())
