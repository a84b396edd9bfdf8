# SPDX-License-Identifier: Apache-2.0
"""reboot.py - end everything of a service that a reboot of the machine would end"""
import contextlib
import glob
import os
import shutil
import signal

from serve_world import until


def reboot(w, meanwhile=None):
    """Ends all processes, the run directory and the cgroups, and starts the service. @meanwhile is called in between."""
    w.kill("api", "warden")
    w.look()
    boxes = w.seen | set(w.slots().values())
    for p in w.processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(p, signal.SIGKILL)
    until(lambda: w.processes() == [], w.processes)
    for top in (p for box in boxes for p in glob.glob(f"/sys/fs/cgroup/*/warren*/{box}") + glob.glob(f"/sys/fs/cgroup/warren*/{box}")):
        for path, _, _ in os.walk(top, topdown=False):
            os.rmdir(path)
    shutil.rmtree(w.run_dir)
    if meanwhile:
        meanwhile()
    w.start()
    w.ready()
