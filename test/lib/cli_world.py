# SPDX-License-Identifier: Apache-2.0
"""cli_world.py - `warren run` for tests, and a check that nothing is left of a sandbox"""
import contextlib
import glob
import json
import os
import signal
import subprocess
import time

from checks import be_alone, check_isolated, eq, left_cgroups, ok, RUN_DIR, run_tests, WARREN, warren

WAIT = 20  # in seconds; no operation here takes as long


def run(*args, status=0, stderr=b"", **kw):
    """Runs a command, and checks its status and stderr; returns its stdout."""
    p = warren("run", *args, **kw)
    if p.returncode != status or (stderr is not None and p.stderr != stderr):
        raise AssertionError(
            f"{args}: status {p.returncode} (wanted {status}), stderr {p.stderr[:300]!r} "
            f"(wanted {stderr!r}), stdout {(p.stdout or b'')[:200]!r}")
    return p.stdout


def sh(script, *args, **kw):
    return run(*args, "--", "sh", "-c", script, **kw)


def run_json(*args, status=0, stderr=b"", **kw):
    text = run("--json", *args, status=status, stderr=stderr, **kw)
    eq(text.count(b"\n"), 1, "lines of JSON")
    return json.loads(text.decode("utf-8", "strict"))


def start(*args, **kw):
    kw.setdefault("stdin", subprocess.DEVNULL)
    kw.setdefault("stdout", subprocess.PIPE)
    kw.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen([WARREN, "run", *args], **kw)


def finish(p):
    try:
        out, err = p.communicate(timeout=WAIT)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
        raise AssertionError(f"it hangs; stdout {out[-200:]!r}, stderr {err[-200:]!r}") from None
    return p.returncode, out, err


# ---------------------------------------------------------------- leftovers


def locked_inodes():
    with open("/proc/locks", encoding="ascii") as f:
        return {int(line.split()[5].split(":")[2]) for line in f if "->" not in line}


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def leftovers():
    """Returns leftovers that have no owner, or belong to one of the test's processes."""
    locked = locked_inodes()
    left, owned = set(), set()
    for path in glob.glob(f"{RUN_DIR}/engines/*"):
        with contextlib.suppress(FileNotFoundError):
            if os.stat(path).st_ino not in locked:
                left.add(path)
    for path in glob.glob(f"{RUN_DIR}/ids/*"):
        with contextlib.suppress(OSError):
            engine, sandbox = os.readlink(path).split("/")
            if os.stat(f"{RUN_DIR}/engines/{engine}").st_ino in locked:
                owned.add(sandbox)
            else:
                left.add(path)
    left |= left_cgroups(owned)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as f:
        left |= {mount for mount in (line.split()[4] for line in f) if "warren" in mount and mount != RUN_DIR}
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as f:
        left |= {f"process {pid}" for pid in f.read().split() if is_alive(pid)}
    return left


def check_nothing_left(before, seconds=10):
    """Checks that nothing is left. Removal may continue for a moment after SIGKILL."""
    left = leftovers() - before
    deadline = time.monotonic() + seconds
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left &= leftovers()
    ok(not left, f"left behind: {sorted(left)[:10]}")


def and_nothing_left(t):
    before = leftovers()
    t()
    check_nothing_left(before)


def main():
    # The caller may ignore signals (like nohup), and children would inherit that.
    for ignored in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(ignored, signal.SIG_DFL)
    os.environ.pop("TERM", None)
    be_alone()
    check_isolated()
    return run_tests(and_nothing_left)
