#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-run-tests.py - when run-tests is ended, its tests clean up, and none is left behind

Prints TAP. The build folder has one test, which is a script of this test.
"""
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import SOURCE, eq, ok, run_tests, scratch, test  # pylint: disable=wrong-import-position
from serve_world import until  # pylint: disable=wrong-import-position

# Starts a process in another session, like a dockerd, which the test ends itself.
SCRIPT = """
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from checks import run_tests, test
pids = sys.argv[2]
sys.argv[1:] = []

@test
def waits():
    other = subprocess.Popen(["sleep", "5061.5"], start_new_session=True)
    try:
        with open(pids, "w") as f:
            f.write(f"{os.getpid()} {other.pid}")
        other.wait()
    finally:
        other.kill()
        other.wait()

sys.exit(run_tests())
"""


def is_gone(pid):
    return not os.path.exists(f"/proc/{pid}")


@test
def an_interrupted_test_run_leaves_nothing_behind():
    with scratch() as d:
        os.mkdir(f"{d}/meson-info")
        with open(f"{d}/build.ninja", "w", encoding="utf-8") as f:
            f.write("rule nothing\n  command = true\nbuild all: phony\n")
        with open(f"{d}/script.py", "w", encoding="utf-8") as f:
            f.write(SCRIPT)
        with open(f"{d}/meson-info/intro-tests.json", "w", encoding="utf-8") as f:
            json.dump([{"name": "waits", "suite": ["p:unit"], "protocol": "tap", "timeout": 600, "env": {}, "workdir": None,
                        "cmd": [sys.executable, f"{d}/script.py", f"{SOURCE}/test/lib", f"{d}/pids"]}], f)
        run = subprocess.Popen([sys.executable, f"{SOURCE}/tools/run/run-tests", "--build", d], stdout=subprocess.PIPE)
        until(lambda: os.path.exists(f"{d}/pids") and os.path.getsize(f"{d}/pids") > 0, "it has begun")
        with open(f"{d}/pids", encoding="utf-8") as f:
            pids = [int(p) for p in f.read().split()]
        ok(not any(is_gone(p) for p in pids), "control: both run")
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=60)
        eq([p for p in pids if not is_gone(p)], [], "processes that are left")


if __name__ == "__main__":
    sys.exit(run_tests())
