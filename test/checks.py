# SPDX-License-Identifier: Apache-2.0
"""checks.py - what the tests in Python share: where things are, the list of tests, TAP

A test is a function; its name says what must be true. A failed check raises; Skip says why not.
"""
import contextlib
import ctypes
import functools
import glob
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

SOURCE = os.environ.get("WARREN_SOURCE", os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("WARREN_BUILD", os.path.join(SOURCE, "build"))
WARREN = os.path.abspath(os.environ.get("WARREN", os.path.join(BUILD, "warren")))
ROOT = os.geteuid() == 0
RUN_DIR = "/run/warren"
MIB = 1 << 20
CLONE_NEWNS = 0x20000
PR_SET_CHILD_SUBREAPER = 36
START = time.time()

tests = []

# A background job of a shell has these ignored, and so would all that it starts.
for _sig in (signal.SIGINT, signal.SIGQUIT):
    signal.signal(_sig, signal.SIG_DFL)


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
    """Bytes that do not compress, and are the same each time."""
    return hashlib.shake_128(str(seed).encode()).digest(n)


@contextlib.contextmanager
def scratch():
    d = tempfile.mkdtemp(prefix="warren-test-")
    try:
        yield d
    finally:
        shutil.rmtree(d)


def warren(*args, **kw):
    """The program to its end, in 30 s at most."""
    kw.setdefault("stdin", subprocess.DEVNULL)
    if "input" in kw:
        kw.pop("stdin")
    kw.setdefault("stdout", subprocess.PIPE)
    kw.setdefault("stderr", subprocess.PIPE)
    kw.setdefault("timeout", 30)
    return subprocess.run([WARREN, *args], **kw)


def check_isolated():
    """Nothing hostile may run outside of a sandbox."""
    try:
        p = warren("run", "--", "sh", "-c", "readlink /proc/self/ns/pid; set -- /proc/[0-9]*; echo $#")
    except (OSError, subprocess.TimeoutExpired) as e:
        print(f"Bail out! {e}")
        sys.exit(1)
    lines = p.stdout.decode().split()
    if p.returncode != 0 or len(lines) != 2 or lines[0] == os.readlink("/proc/self/ns/pid") or int(lines[1]) > 5:
        print(f"Bail out! '{WARREN} run' does not isolate: {p}")
        sys.exit(1)


# ------------------------------------------------------------- who else is there


def be_alone():
    """A mount namespace and a run directory of our own: what others do meanwhile is not seen there."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not ROOT or libc.unshare(CLONE_NEWNS) < 0:
        return
    os.makedirs(RUN_DIR, 0o700, exist_ok=True)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0700", "warren-test", RUN_DIR], check=True)
    # Whatever is left running comes to us.
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def lives(pid):
    """Not gone, and not a zombie either: those come to us, and we are no init."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def is_lived_in(cgroup):
    for base, _, _ in os.walk(cgroup):
        with contextlib.suppress(OSError), open(f"{base}/cgroup.procs", encoding="ascii") as f:
            if f.read():
                return True
    return False


def left_cgroups(owned=()):
    """Those of sandboxes that are gone. Others', with a run directory of their own, are lived in or older than we are."""
    groups, left = {}, set()
    for pattern in ("/sys/fs/cgroup/*/warren/*/", "/sys/fs/cgroup/warren/*/"):
        for d in glob.glob(pattern):
            groups.setdefault(os.path.basename(d[:-1]), []).append(d)
    for name, dirs in groups.items():
        with contextlib.suppress(FileNotFoundError):
            if name not in owned and os.stat(dirs[0]).st_mtime >= START and not any(map(is_lived_in, dirs)):
                left.update(dirs)
    return left


def explain(why):
    """Where and why, as a comment of TAP; with the last words of a program that failed."""
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
    """Those named as arguments, or all, each by @around(test). Returns the exit status."""
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
