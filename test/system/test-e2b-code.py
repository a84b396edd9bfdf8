#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-code.py - the code interpreter, with the published packages of E2B"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, test, eq  # pylint: disable=wrong-import-position
from e2b_restart import RestartWorld  # pylint: disable=wrong-import-position
from kernel_world import PACKAGES, python_with_packages  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from serve_world import BACKEND, CONFIGS  # pylint: disable=wrong-import-position

VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"
# The packages of another python, which sandboxes do not have, for that of this machine.
CONFIG = f"""
mounts: ["{PACKAGES}:ro"]
templates:
  charts:
    image: host
    env: {{ PYTHONPATH: '/home/python/lib/{VERSION}/site-packages', MPLCONFIGDIR: /tmp }}
    mounts:
      - {{ source: {PACKAGES}, target: /home/python, read_only: true }}
"""
WORLD = []


def w():
    if not WORLD:
        WORLD.append(RestartWorld(config=CONFIGS[BACKEND] + CONFIG))
    return WORLD[0]


def python(area):
    w().python("code.py", area)


@test
def cells_keep_variables_and_stream_their_output():
    python("cells")


@test
def results_have_all_representations():
    python("results")


@test
def figures_and_data_frames_have_descriptions():
    have = subprocess.run(["/usr/bin/python3", "-c", "import sys; print('python%d.%d' % sys.version_info[:2])"], text=True,
                          capture_output=True, check=False, timeout=60).stdout.strip()
    if have != VERSION:
        raise Skip(f"sandboxes have {have}, and the packages are for {VERSION}")
    python_with_packages()
    python("charts")


@test
def contexts_are_created_listed_restarted_and_removed():
    python("contexts")


@test
def contexts_run_at_the_same_time():
    python("parallel")


@test
def waiting_cells_and_long_lines_take_a_limited_amount_of_memory():
    python("limits")


@test
def events_that_a_cell_forges_do_no_harm():
    python("lies")


@test
def kernels_survive_a_restart_of_the_service():
    python("restarts")


@test
def requests_and_starts_that_a_kill_interrupts_leave_nothing_behind():
    python("torn")


@test
def other_tenants_cannot_use_a_context():
    python("tenants")


@test
def a_pause_keeps_variables_and_a_killed_sandbox_ends_its_cell():
    python("killed")


@test
def the_asynchronous_sdk_works():
    python("with_async")


@test
def the_javascript_sdk_works():
    w().node("code.mjs")


@test
def no_context_is_left():
    eq(w().rows("SELECT count(*) FROM contexts"), [(0,)])


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
