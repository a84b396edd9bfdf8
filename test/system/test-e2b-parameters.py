#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-parameters.py - every parameter of every method of E2B's Python packages is used once"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import ok, test  # pylint: disable=wrong-import-position
from e2b_world import E2bWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position

WORLD = []
STATE = tempfile.mkdtemp(prefix="warren-test-")


def w():
    if not WORLD:
        WORLD.append(E2bWorld())
    return WORLD[0]


def check(output):
    used = next(int(line.split()[1]) for line in output.splitlines() if line.startswith("used "))
    ok(used > 400, f"only {used} parameters")


@test
def every_parameter_of_the_python_packages_is_used():
    check(w().python("parameters.py", "sync", TMPDIR=STATE))


@test
def every_parameter_of_the_asynchronous_python_packages_is_used():
    check(w().python("parameters.py", "async", TMPDIR=STATE))


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, STATE))
