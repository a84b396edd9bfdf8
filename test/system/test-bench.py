#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-bench.py - the reference sandboxes of warren-bench are confined as it claims

The "floor" of warren-bench measures the kernel's share of the cost of a sandbox. Its sandboxes must be confined like
Warren's, or the comparison would be wrong. Prints TAP.
"""
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, be_alone, eq, left_cgroups, needs_root, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import slurp  # pylint: disable=wrong-import-position

BENCH = f"{BUILD}/bench/warren-bench"
NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
SAME = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters")


def loopback(fib_trie):
    """Is loopback up? An interface that is down exists, but has no address."""
    return "127.0.0.1" in fib_trie


def limits(root):
    """The limits of the cgroups that belong to the user @root, for both versions of cgroups."""
    found = {}
    for d in left_cgroups():
        for name in ("memory.limit_in_bytes", "pids.max", "box/memory.max", "box/pids.max"):
            if os.stat(d).st_uid == root and os.path.exists(d + name):
                found[name] = slurp(d + name).strip()
    return found


def posture(pid):
    """How a process is confined, seen from outside, without values that differ between sandboxes."""
    status = dict(re.findall(r"^(\w+):\s*(.*)$", slurp(f"/proc/{pid}/status"), re.M))
    mounts = []
    for line in slurp(f"/proc/{pid}/mountinfo").splitlines():
        left, right = line.split(" - ")
        mounts.append((left.split()[4], set(left.split()[5].split(",")), right.split()[0]))
    uid_map = slurp(f"/proc/{pid}/uid_map").split()
    return {
        "namespaces": [n for n in NAMESPACES
                       if os.readlink(f"/proc/{pid}/ns/{n}") != os.readlink(f"/proc/self/ns/{n}")],
        "mounts": sorted((at, sorted(o & {"ro", "nodev", "nosuid", "noexec"}), kind) for at, o, kind in mounts),
        "ids": (uid_map[0], uid_map[2], uid_map[1] != "0"),
        "loopback": loopback(slurp(f"/proc/{pid}/net/fib_trie")),
        "limits": limits(int(uid_map[1])),
        **{k: status[k] for k in SAME},
    }


def children(pid):
    return slurp(f"/proc/{pid}/task/{pid}/children").split()


def program(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe").split()[0].replace("/memfd:", ""))
    except OSError:
        return None


def look_at(bench, name):
    """Returns the posture of the first of two children that execute @name: when the second one exists, the first is
    complete. The bench is stopped while it is inspected."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and bench.poll() is None:
        os.kill(bench.pid, signal.SIGSTOP)
        try:
            found = [pid for pid in children(bench.pid) if program(pid) == name]
            if len(found) > 1:
                return posture(found[0])
        finally:
            os.kill(bench.pid, signal.SIGCONT)
        time.sleep(0.01)
    raise AssertionError(f"no {name} was seen")


@test
@needs_root
def the_baseline_is_confined_like_warren():
    with subprocess.Popen([BENCH, "--alive", "8", "alive"], stdout=subprocess.PIPE, text=True) as bench:
        ours, floor = look_at(bench, "init"), look_at(bench, "warren-bench-idle")  # the order matters
        out = bench.communicate(timeout=240)[0]
    eq(bench.returncode, 0, f"status of the bench; it said {out}")
    eq(ours["namespaces"], list(NAMESPACES), "our own namespaces")
    eq(ours["Seccomp"], "2", "our own filter")
    ok(ours["loopback"], "our own loopback is down")
    down = subprocess.run(["unshare", "-n", "cat", "/proc/self/net/fib_trie"], capture_output=True, text=True, check=True)
    ok(not loopback(down.stdout), f"loopback that is down looks as one that is up: {down.stdout}")
    # This shows that cgroups are visible, so that a missing limit below is not just invisible.
    ok(any("memory" in name for name in ours["limits"]) and "1024" in ours["limits"].values(), f"our own limits: {ours['limits']}")
    for what in ours:
        eq(floor[what], ours[what], f"of the floor: {what}")
    for row in ("floor: memory each", "memory each", "floor: create with all alive, to with none"):
        ok(re.search(rf"^  {row} ", out, re.M), f"no row '{row}' in {out}")
    eq(left_cgroups(), set(), "cgroups of a bench that ended")


@test
@needs_root
def the_baseline_is_measured_and_leaves_nothing_behind():
    p = subprocess.run([BENCH, "--rounds", "5", "--warmup", "1", "--seconds", "4", "--workers", "3", "create", "rate"],
                       capture_output=True, text=True, timeout=240, check=False)
    eq((p.returncode, p.stderr), (0, ""), "status and errors")
    for row in ("floor: create", "create", "floor: create+true+destroy", "floor: create+destroy, 3 at once"):
        ok(re.search(rf"^  {re.escape(row)} ", p.stdout, re.M), f"no row '{row}' in {p.stdout}")
    eq(left_cgroups(), set(), "cgroups of a bench that ended")


@test
@needs_root
def creates_with_other_steps_are_reported_but_not_counted():
    """Prepared parts may be claimed before they are ready. Their number depends on the speed of the machine."""
    p = subprocess.run([BENCH, "--rounds", "40", "--warmup", "1", "--seconds", "10", "ahead"],
                       capture_output=True, text=True, timeout=240, check=False)
    eq((p.returncode, p.stderr), (0, ""), "status and errors")
    ok(re.search("^  read the spec ", p.stdout, re.M), f"no steps in {p.stdout}")
    told = re.findall(r"^  (\d+) of (\d+) creates had other steps", p.stdout, re.M)
    ok(all(0 < int(n) < int(of) <= 40 for n, of in told) and len(told) <= 1, told)
    eq(left_cgroups(), set(), "cgroups of a bench that ended")


if __name__ == "__main__":
    be_alone()
    sys.exit(run_tests())
