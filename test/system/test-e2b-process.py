#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-process.py - commands of E2B's SDKs: restarts, late and lost clients, killed sandboxes"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test  # pylint: disable=wrong-import-position
from e2b_restart import RestartWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position

WORLD = []


def w():
    if not WORLD:
        WORLD.append(RestartWorld())
    return WORLD[0]


def python(area):
    w().python("process.py", area)


@test
def sdks_connect_again_after_a_restart_of_the_service():
    python("restarts")


@test
def late_clients_get_the_result():
    python("late")


@test
def clients_that_vanish_leave_their_commands_running():
    python("vanished")


@test
def clients_of_a_sandbox_that_ends_get_an_error():
    python("killed")


@test
def other_tenants_cannot_reach_a_command():
    python("tenants")


@test
def commands_are_found_by_their_tag():
    python("tags")


@test
def traffic_resumes_a_paused_sandbox():
    python("resumes")


@test
def many_commands_run_at_once():
    python("with_async")


@test
def the_javascript_sdk_connects_again():
    w().node("process.mjs")


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
