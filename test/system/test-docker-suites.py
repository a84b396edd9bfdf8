#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-docker-suites.py - the suites of the service as they are, with docker for the default backend

Speaks TAP: a point for each suite. The daemon is this test's own, and the image has the machine's own tools.
"""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
from dockerd import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from serve_world import IMAGES  # pylint: disable=wrong-import-position

SECONDS = 600  # for a suite, of a machine with much else to do
# Of those that take long, the points that are another matter on this backend than on others.
FILES = ("a_file_is_written_and_read", "a_killed_service_leaves_no_partial_files", "links_are_followed_inside",
         "users_have_their_own_rights", "an_archive_goes_up_and_comes_down", "changes_are_reported")
EXECS = ("results_are_exact", "directory_and_user", "a_timeout_kills_the_whole_tree",
         "a_timeout_kills_a_command_that_has_hardly_begun", "signals_reach_the_right_processes",
         "dropped_output_is_counted_to_the_byte", "stdin_is_streamed", "a_command_that_does_not_read_delays_only_itself")
DURABLE = ("a_stream_continues_at_its_cursor", "execs_that_end_while_no_service_runs",
           "a_stop_leaves_sandboxes_and_the_next_start_finds_them", "a_sandbox_that_ended_by_itself_has_failed")
REX = ("a_session_outlives_the_service", "an_interrupt_that_is_ignored", "an_interrupt_from_another_client",
       "a_command_waits_for_the_one_before", "a_shell_that_is_changed_by_its_commands",
       "patterns_and_texts_that_are_expected", "archives", "files_end_inside")
OVERDUE = ("a_paused_sandbox_with_an_overdue_exec_is_deleted", "a_pause_in_the_middle_of_a_kill",
           "hundreds_are_overdue_when_the_service_comes_back")
MCP = ("a_session_has_one_sandbox_until_it_ends", "a_command_gives_its_output_and_its_result", "progress_has_the_output_so_far",
       "files_are_written_read_and_edited", "bytes_go_up_and_down", "directories_are_listed_and_searched",
       "a_shell_keeps_its_state", "files_logs_and_sandboxes_are_resources",
       "subscribers_get_messages_about_output", "subscribers_get_messages_about_files", "a_modern_client_listens")
MCP_EDGES = ("tenants_do_not_see_each_other", "a_session_ends_with_its_token", "cancellation_kills_the_process",
             "a_modern_client_that_leaves_cancels", "a_legacy_client_that_leaves_does_not_cancel",
             "a_killed_service_leaves_no_sandbox")
ESCAPES = ("directories_inside_are_entered", "the_directory_of_an_exec", "the_directory_of_a_session", "the_directory_of_a_swerex_command",
           "links_that_were_planted_inside", "programs", "searches", "the_directory_of_a_sandbox", "files")


def suite(name, *points):
    d = shared(lambda d: d.call("import", "-", IMAGES["docker"], input=tar(host_like())))
    env = {**os.environ, "WARREN_TEST_BACKEND": "docker", "WARREN_TEST_DOCKER": d.socket}
    try:
        p = subprocess.run([sys.executable, f"{HERE}/{name}.py", *points], env=env, timeout=SECONDS, stdin=subprocess.DEVNULL,
                           capture_output=True, check=False)
    except subprocess.TimeoutExpired:
        # What it leaves is not the next one's fault.
        for left in d.call("ps", "-aq").split():
            d.call("rm", "-f", left.decode())
        raise
    lines = p.stdout.decode().splitlines()
    passed = [x for x in lines if x.startswith("ok ") and "# SKIP" not in x]
    ok(p.returncode == 0 and len(passed) >= (len(points) or 5),
       "\n".join(x for x in lines if x not in passed) + p.stderr.decode()[-500:])
    eq(d.call("ps", "-aq"), b"", "containers are left")


@test
def sessions():
    suite("test-sessions")


@test
def mcp():
    suite("test-mcp", *MCP)


@test
def mcp_edges():
    suite("test-mcp-edges", *MCP_EDGES)


@test
def session_output():
    suite("test-session-output")


@test
def terminals():
    suite("test-terminals")


@test
def execs():
    suite("test-serve-exec", *EXECS)


@test
def files():
    suite("test-files", *FILES)


@test
def durability():
    suite("test-serve-durable", *DURABLE)


@test
def overdue():
    suite("test-overdue", *OVERDUE)


@test
def escapes():
    suite("test-escape", *ESCAPES)


@test
def stop_and_start():
    suite("test-stop-start")


@test
def swerex():
    suite("test-swerex", *REX)


if __name__ == "__main__":
    sys.exit(main(run))
