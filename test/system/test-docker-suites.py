#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-docker-suites.py - run the unchanged suites of the service with docker as the default backend

Prints TAP, with one result for each suite. The test starts a separate daemon, and its image has this machine's tools.
"""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
from dockerd import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from serve_world import IMAGES  # pylint: disable=wrong-import-position

SECONDS = 600  # for a suite, on a loaded machine
# For long suites: the tests whose code differs between this backend and others.
FILES = ("a_file_is_written_and_read", "a_killed_service_leaves_no_partial_files", "links_are_followed_inside",
         "users_have_their_own_rights", "an_archive_is_uploaded_and_downloaded", "changes_are_reported")
EXECS = ("results_are_exact", "directory_user_and_environment_are_set", "a_timeout_kills_the_whole_tree",
         "a_timeout_kills_a_command_that_has_just_started", "signals_reach_the_right_processes",
         "dropped_output_is_counted_to_the_byte", "stdin_is_streamed", "a_command_that_does_not_read_delays_only_itself")
DURABLE = ("a_stream_continues_at_its_cursor", "the_ends_of_execs_are_recorded_after_a_restart",
           "a_stop_leaves_sandboxes_and_the_next_start_finds_them", "a_sandbox_whose_init_dies_has_failed")
REX = ("a_session_outlives_the_service", "a_command_that_ignores_interrupts_is_ended", "another_client_can_interrupt_a_command",
       "a_command_waits_for_the_previous_one", "commands_may_change_the_settings_of_the_shell",
       "expected_patterns_and_texts_are_found", "archives_are_unpacked", "file_paths_stay_inside_the_sandbox")
OVERDUE = ("a_paused_sandbox_with_an_overdue_exec_is_deleted", "a_pause_during_a_kill_does_not_prevent_it",
           "hundreds_of_overdue_execs_are_ended_after_a_restart")
MCP = ("a_session_has_one_sandbox_until_it_ends", "a_command_returns_its_output_and_result", "progress_messages_contain_the_output_so_far",
       "files_are_written_read_and_edited", "binary_files_are_uploaded_and_downloaded", "directories_are_listed_and_searched",
       "a_shell_keeps_its_state", "files_logs_and_sandboxes_are_resources",
       "subscribers_get_messages_about_output", "subscribers_get_messages_about_files", "a_modern_client_can_listen_for_messages")
MCP_EDGES = ("tenants_do_not_see_each_other", "a_session_ends_with_its_token", "cancellation_kills_the_process",
             "a_disconnecting_modern_client_cancels_its_call", "a_disconnecting_legacy_client_does_not_cancel_its_call",
             "a_killed_service_leaves_no_sandbox")
HIBERNATE = ("a_use_wakes_a_sandbox_with_its_files", "many_uses_wake_it_once", "it_hibernates_again_and_again",
             "it_survives_each_process_of_the_service", "a_hibernating_sandbox_is_deleted_with_its_files",
             "start_wakes_it_and_wake_on_use_is_obeyed", "an_idle_sandbox_hibernates_and_wakes", "a_deletion_ends_a_hibernation",
             "its_main_command_runs_again", "its_files_are_found_after_a_reboot", "no_file_is_lost_whenever_the_service_is_killed")
KILLS = ("each_sandbox_is_usable_afterwards_and_has_all_its_files", "its_main_command_runs_again_and_on_exit_does_not_apply",
         "a_reset_is_done_or_not_but_the_sandbox_is_usable")
SNAPSHOTS = ("a_snapshot_has_the_files_of_its_instant", "a_directory_that_replaced_another_is_kept",
             "a_backend_refuses_snapshots_that_it_cannot_use", "a_snapshot_is_taken_while_files_are_written", "names_move_and_are_removed",
             "another_tenant_sees_and_uses_nothing", "a_fork_has_files_environment_limits_and_labels",
             "a_reset_brings_back_the_image_with_the_same_id", "a_reset_runs_the_main_command_again_and_renews_sessions",
             "a_reset_goes_back_to_the_snapshot", "nothing_is_lost_whenever_the_service_is_killed",
             "a_sandbox_continues_if_the_api_is_killed_during_a_copy", "a_reset_is_completed_whenever_the_service_is_killed",
             "a_fork_that_exceeds_the_quota_creates_nothing")
ESCAPES = ("directories_inside_can_be_entered", "the_directory_of_an_exec_cannot_lead_outside",
           "the_directory_of_a_session_cannot_lead_outside", "the_directory_of_a_swerex_command_cannot_lead_outside",
           "links_created_inside_cannot_lead_outside", "the_path_of_a_program_cannot_lead_outside", "a_search_for_a_program_cannot_lead_outside",
           "the_directory_of_a_sandbox_cannot_lead_outside", "file_paths_cannot_lead_outside")
VOLUMES = ("files_outlive_the_sandbox_and_have_their_owners_in_the_next_one", "owners_are_the_same_on_every_backend",
           "sandboxes_share_a_volume_and_one_of_them_only_reads", "the_size_is_a_hard_limit",
           "a_volume_is_mounted_where_it_was_after_kill_9_of_the_service",
           "a_sandbox_wakes_if_its_volume_has_another_device", "a_copy_is_consistent_and_independent",
           "running_sandboxes_keep_their_volume_when_the_service_stops", "a_sandbox_that_dies_by_itself_releases_its_volume",
           "set_id_programs_and_devices_in_a_volume_have_no_effect", "users_of_a_volume_come_and_go_at_the_same_time",
           "a_damaged_volume_is_an_error_for_that_volume_only")


def suite(name, *points):
    d = shared(lambda d: d.call("import", "-", IMAGES["docker"], input=tar(host_like())))
    env = {**os.environ, "WARREN_TEST_BACKEND": "docker", "WARREN_TEST_DOCKER": d.socket}
    try:
        p = subprocess.run([sys.executable, f"{HERE}/{name}.py", *points], env=env, timeout=SECONDS, stdin=subprocess.DEVNULL,
                           capture_output=True, check=False)
    except subprocess.TimeoutExpired:
        # Remove leftovers, so that they do not affect the next suite.
        for left in d.call("ps", "-aq").split():
            d.call("rm", "-f", left.decode())
        raise
    lines = p.stdout.decode().splitlines()
    passed = [x for x in lines if x.startswith("ok ") and "# SKIP" not in x]
    ok(p.returncode == 0 and len(passed) >= (len(points) or 5),
       "\n".join(x for x in lines if x not in passed) + p.stderr.decode()[-500:])
    eq(d.call("ps", "-aq"), b"", "containers are left")


@test
def the_session_tests_pass_on_docker():
    suite("test-sessions")


@test
def the_mcp_tests_pass_on_docker():
    suite("test-mcp", *MCP)


@test
def the_mcp_edge_tests_pass_on_docker():
    suite("test-mcp-edges", *MCP_EDGES)


@test
def the_hibernation_tests_pass_on_docker():
    suite("test-hibernate", *HIBERNATE)


@test
def the_tests_of_killed_hibernations_pass_on_docker():
    suite("test-hibernate-kills", *KILLS)


@test
def the_snapshot_tests_pass_on_docker():
    suite("test-snapshots", *SNAPSHOTS)


@test
def the_session_output_tests_pass_on_docker():
    suite("test-session-output")


@test
def the_terminal_tests_pass_on_docker():
    suite("test-terminals")


@test
def the_exec_tests_pass_on_docker():
    suite("test-serve-exec", *EXECS)


@test
def the_file_tests_pass_on_docker():
    suite("test-files", *FILES)


@test
def the_durability_tests_pass_on_docker():
    suite("test-serve-durable", *DURABLE)


@test
def the_network_tests_pass_on_docker():
    suite("test-network")


@test
def the_trust_tests_pass_on_docker():
    suite("test-network-trust")


@test
def the_overdue_tests_pass_on_docker():
    suite("test-overdue", *OVERDUE)


@test
def the_e2b_tests_pass_on_docker():
    suite("test-e2b-backends", "the_sdk_works", "what_a_backend_cannot_do_is_refused")


@test
def the_escape_tests_pass_on_docker():
    suite("test-escape", *ESCAPES)


@test
def the_stop_and_start_tests_pass_on_docker():
    suite("test-stop-start")


@test
def the_volume_tests_pass_on_docker():
    suite("test-named-volumes", *VOLUMES)


@test
def the_swerex_tests_pass_on_docker():
    suite("test-swerex", *REX)


if __name__ == "__main__":
    sys.exit(main(run))
