# SPDX-License-Identifier: Apache-2.0
"""checks.py - code that the tests in Python share: paths, the list of tests, TAP

A test is a function; its name says what must be true. A failed check raises an exception; Skip has a reason.
"""
import atexit
import contextlib
import ctypes
import errno
import functools
import glob
import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

SOURCE = os.environ.get("WARREN_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("WARREN_BUILD", os.path.join(SOURCE, "build"))
WARREN = os.path.abspath(os.environ.get("WARREN", os.path.join(BUILD, "warren")))
ROOT = os.geteuid() == 0
PATIENCE = 6 if "WARREN_SANITIZE" in os.environ else 1  # sanitizers make programs slow; as in the Makefile
RUN_DIR, STATE_DIR = "/run/warren", "/var/lib/warren"
MIB = 1 << 20
QUARANTINE = 256 * MIB if "WARREN_SANITIZE" in os.environ else 0  # freed memory that a program with sanitizers keeps
CGROUPS, OWN_CGROUP = "/sys/fs/cgroup", f"warren-test-{os.getpid()}"
CLONE_NEWNS = 0x20000
PR_SET_CHILD_SUBREAPER = 36

tests = []

# A background job of a shell ignores these signals, and its children would inherit that.
for _sig in (signal.SIGINT, signal.SIGQUIT):
    signal.signal(_sig, signal.SIG_DFL)


# A process that gets SIGTERM must leave nothing behind; a forked child of a test just ends.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))


class Skip(Exception):
    pass


def test(f):
    tests.append(f)
    return f


def needs_root(f):
    @functools.wraps(f)
    def wrapped():
        if not ROOT:
            raise Skip("needs root")
        f()
    return wrapped


def ok(condition, what):
    if not condition:
        raise AssertionError(what)


def eq(got, want, what="value"):
    if got != want:
        raise AssertionError(f"{what} is {got!r}, not {want!r}")


def noise(n, seed="x"):
    """Returns bytes that do not compress, and are the same each time."""
    return hashlib.shake_128(str(seed).encode()).digest(n)


def remove_tree(path):
    """
    Removes a directory in which Warren may still be removing files in the background: they can vanish at any time, and
    directories of a deep tree can appear in those above.
    """
    def failed(_call, _path, info):
        if not isinstance(info[1], FileNotFoundError) and getattr(info[1], "errno", 0) != errno.ENOTEMPTY:
            raise info[1]

    deadline = time.monotonic() + 30
    while os.path.lexists(path) and time.monotonic() < deadline:
        shutil.rmtree(path, onerror=failed)
    if os.path.lexists(path):
        shutil.rmtree(path)


@contextlib.contextmanager
def scratch():
    d = tempfile.mkdtemp(prefix="warren-test-")
    try:
        yield d
    finally:
        remove_tree(d)


def free_port():
    """Returns a free port of loopback, which the kernel assigns only on explicit request."""
    while True:
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", random.randrange(10000, 32768)))
            return s.getsockname()[1]


def warren(*args, **kw):
    """Runs the program to its end, in at most 30 s."""
    kw.setdefault("stdin", subprocess.DEVNULL)
    if "input" in kw:
        kw.pop("stdin")
    kw.setdefault("stdout", subprocess.PIPE)
    kw.setdefault("stderr", subprocess.PIPE)
    kw.setdefault("timeout", 30)
    return subprocess.run([WARREN, *args], **kw)


def check_isolated():
    """Checks that a command is isolated, because nothing hostile may run outside of a sandbox."""
    try:
        p = warren("run", "--", "sh", "-c", "readlink /proc/self/ns/pid; set -- /proc/[0-9]*; echo $#")
    except (OSError, subprocess.TimeoutExpired) as e:
        print(f"Bail out! {e}")
        sys.exit(1)
    lines = p.stdout.decode().split()
    if p.returncode != 0 or len(lines) != 2 or lines[0] == os.readlink("/proc/self/ns/pid") or int(lines[1]) > 5:
        print(f"Bail out! '{WARREN} run' does not isolate: {p}")
        sys.exit(1)


# ------------------------------------------------ isolation from other processes


def be_alone():
    """Enters separate mounts, a separate run directory and cgroups, where other processes are not visible.

    Does nothing for an ordinary user, who has separate directories and no cgroups.
    """
    if not ROOT:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) < 0:
        raise OSError(ctypes.get_errno(), "no mounts of our own")
    os.makedirs(RUN_DIR, 0o700, exist_ok=True)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0700", "warren-test", RUN_DIR], check=True)
    take_cgroups()
    # Remaining processes are adopted by this one.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def take_cgroups():
    """Mounts a separate cgroup over the top of each hierarchy that sandboxes use."""
    v2 = os.path.exists(f"{CGROUPS}/cgroup.controllers")
    tops = [CGROUPS] if v2 else [f"{CGROUPS}/{name}" for name in ("cpu", "cpuacct", "memory", "pids", "freezer")]
    for top in {os.path.realpath(d) for d in tops if os.path.isdir(d)}:
        if v2:  # as for an engine at the top of the hierarchy
            with contextlib.suppress(OSError), open(f"{top}/cgroup.subtree_control", "w", encoding="ascii") as f:
                f.write("+cpu +memory +pids")
        atexit.register(leave_cgroup, os.open(top, os.O_RDONLY | os.O_DIRECTORY))
        os.makedirs(f"{top}/{OWN_CGROUP}", exist_ok=True)  # one hierarchy may be mounted twice
        subprocess.run(["mount", "--bind", f"{top}/{OWN_CGROUP}", top], check=True)


def try_leave(top):
    """Removes it with everything below it; returns whether it is gone."""
    try:
        for _, below, _, fd in os.fwalk(OWN_CGROUP, topdown=False, dir_fd=top):
            for name in below:
                with contextlib.suppress(FileNotFoundError):
                    os.rmdir(name, dir_fd=fd)
        os.rmdir(OWN_CGROUP, dir_fd=top)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def leave_cgroup(top):
    """This is called at exit, when the status is already decided: the text makes it a failure."""
    deadline = time.monotonic() + 10  # processes may still be ending in it
    while not try_leave(top):
        if time.monotonic() > deadline:
            print(f"Bail out! processes are left in the cgroup '{OWN_CGROUP}'", flush=True)
            return
        time.sleep(0.02)


def lives(pid):
    """Is the process neither gone nor a zombie? This process adopts zombies, but is not an init that reaps them."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def left_cgroups(owned=()):
    """The cgroups of sandboxes except @owned, for a test that runs alone."""
    found = [d for pattern in ("*/warren/*/", "warren/*/") for d in glob.glob(f"{CGROUPS}/{pattern}")]
    return {d for d in found if ROOT and os.path.basename(d[:-1]) not in owned}


def explain(why):
    """Prints where and why a test failed as a TAP comment, with the last output of a program that failed."""
    where = [f"{os.path.basename(f.filename)}:{f.lineno}"
             for f in traceback.extract_tb(why.__traceback__) if f.filename.startswith(SOURCE)]
    text = f"{type(why).__name__}: {why}".replace("\n", "\n# ")
    said = b"".join(getattr(why, k, None) or b"" for k in ("output", "stderr"))
    return f"# {' '.join(where)}: {text}" + (f" {said[-500:]!r}" if said else "")


def attempt(t):
    try:
        t()
    except Exception as why:  # pylint: disable=broad-except
        return why


def run_tests(around=lambda t: t()):
    """Runs the tests named as arguments, or all, each through @around(test). Returns the exit status."""
    # Under nohup, or in the background of a script, these signals are ignored, and all children of a test would
    # inherit that.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    failed, names = 0, sys.argv[1:]
    chosen = [t for t in tests if not names or t.__name__ in names]
    for n, t in enumerate(chosen, 1):
        why = attempt(lambda t=t: around(t))
        if isinstance(why, Skip):
            print(f"ok {n} - {t.__name__} # SKIP {why}", flush=True)
        elif why is None:
            print(f"ok {n} - {t.__name__}", flush=True)
        else:
            failed += 1
            print(f"{explain(why)}\nnot ok {n} - {t.__name__}", flush=True)
    print(f"1..{len(chosen)}")
    return 1 if failed else 0
