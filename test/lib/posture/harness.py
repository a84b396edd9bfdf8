# SPDX-License-Identifier: Apache-2.0
"""harness.py - shared by the tests of isolation: run sandboxes, inspect them, count leftovers

A test is a function; its name says what must be true. Nothing hostile is run before a probe has shown that commands
are isolated, and every command has a time limit.
"""
import contextlib
import ctypes
import errno
import glob
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from checks import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position

HERE = os.path.dirname(os.path.abspath(__file__))
WAIT = 30  # in seconds; no operation here takes as long
libc = ctypes.CDLL(None, use_errno=True)


def need(program):
    """Returns the path of a program of the machine that the image `host` also contains."""
    path = shutil.which(program, path="/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin")
    if not path:
        raise Skip(f"{program} is not installed")
    return path


def run(*args, status=0, stderr=None, **kw):
    """Runs a command, whose status is checked; returns its stdout as text."""
    p = warren("run", *args, **kw)
    if p.returncode != status or (stderr is not None and p.stderr != stderr):
        raise AssertionError(f"{args}: status {p.returncode} (wanted {status}), "
                             f"stderr {p.stderr[-600:]!r}, stdout {(p.stdout or b'')[-600:]!r}")
    return p.stdout.decode(errors="backslashreplace")


def sh(script, *args, **kw):
    return run(*args, "--", "sh", "-c", script, **kw)


def compile_c(source, to, *flags):
    cc = shutil.which("cc") or shutil.which("gcc")
    if not cc:
        raise Skip("there is no C compiler")
    subprocess.run([cc, "-O1", "-Wall", "-o", to, source, *flags], check=True, timeout=120)
    os.chmod(to, 0o755)
    return to


# --------------------------------------------------------- live sandboxes


def slurp(path):
    with open(path, encoding="utf-8", errors="surrogateescape") as f:
        return f.read()


def children(pid):
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and int(slurp(f"/proc/{name}/stat").rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(name))
    return found


class Live:
    """`warren run ARGS -- COMMAND` in the background; .init and .payload are pids of this machine."""

    def __init__(self, *args, command=("sleep", "60"), **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        self.process = subprocess.Popen([WARREN, "run", *args, "--", *command], **kw)
        self.init = self.payload = None
        try:
            self.find(command[0])
        except BaseException:
            self.stop()
            raise

    def find(self, name):
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"it ended: {self.process.returncode}, {self.process.communicate()}")
            with contextlib.suppress(OSError, IndexError):
                self.init = children(self.process.pid)[0]
                self.payload = children(self.init)[0]
                if slurp(f"/proc/{self.payload}/comm").strip() == os.path.basename(name)[:15]:
                    return
            time.sleep(0.01)
        raise AssertionError("no command shows up")

    def stop(self):
        self.process.terminate()
        try:
            self.process.communicate(timeout=WAIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise AssertionError("a sandbox does not end") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def status_of(pid):
    return dict(line.split(":\t", 1) for line in slurp(f"/proc/{pid}/status").splitlines() if ":\t" in line)


def unescape(field):
    return field.encode().decode("unicode_escape").encode("latin-1").decode(errors="replace")


def mountinfo(text):
    """Returns one dict for each mount."""
    rows = []
    for line in text.splitlines():
        left, right = line.split(" - ", 1)
        f, g = left.split(" "), right.split(" ")
        rows.append({"root": unescape(f[3]), "target": unescape(f[4]), "flags": set(f[5].split(",")),
                     "optional": f[6:], "type": g[0], "source": unescape(g[1]), "super": g[2], "line": line})
    return rows


def cgroup_v2():
    return os.path.exists("/sys/fs/cgroup/cgroup.controllers")


def cgroup_dirs(pid):
    """Maps each controller to a directory; "" is the unified hierarchy. The test's cgroup is at the top of what it
    sees (be_alone)."""
    dirs = {}
    for line in slurp(f"/proc/{pid}/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            if name == "" and not cgroup_v2():
                continue
            dirs[name] = os.path.normpath(f"/sys/fs/cgroup/{name}/{path.replace(f'/{OWN_CGROUP}', '', 1)}")
    return dirs


# ---------------------------------------------------------------- leftovers


def leftovers():
    found = set()
    for what in ("engines", "ids"):
        with contextlib.suppress(OSError):
            found |= {f"{what}/{n}" for n in os.listdir(f"{RUN_DIR}/{what}")}
    found |= left_cgroups()
    found |= {line.split(" ", 1)[1] for line in slurp("/proc/self/mountinfo").splitlines()}
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # the process has just disappeared
            if slurp(path).startswith(STATE_DIR + "/"):
                found.add(path)
    return found


def check_nothing_left(before):
    """Checks that nothing is left. Processes of other users come and go; those that stay belong to the test."""
    new = leftovers() - before
    deadline = time.monotonic() + 20
    while new and time.monotonic() < deadline:
        time.sleep(0.05)
        new &= leftovers()
    ok(not new, f"left behind: {sorted(new)[:5]}")


def fingerprint(top):
    """Returns everything that is visible of a tree except access times."""
    h = hashlib.sha256()
    entries = [top]
    for base, dirs, files in os.walk(top):
        dirs.sort()
        entries += [os.path.join(base, n) for n in sorted(dirs + files)]
    for path in entries:
        st = os.lstat(path)
        h.update(repr((path, st.st_mode, st.st_uid, st.st_gid, st.st_size if not stat.S_ISDIR(st.st_mode) else 0,
                       st.st_mtime_ns, st.st_ctime_ns, st.st_nlink, st.st_ino, st.st_rdev)).encode())
        if stat.S_ISLNK(st.st_mode):
            h.update(os.readlink(os.fsencode(path)))
        elif stat.S_ISREG(st.st_mode) and st.st_size < 1 << 20:
            with open(path, "rb") as f:
                h.update(f.read())
    return h.hexdigest()


# --------------------------------------------------------------------- main


def and_nothing_left(t):
    before = leftovers()
    t()
    check_nothing_left(before)


def main(isolated=check_isolated):
    os.environ.pop("TERM", None)
    os.umask(0o022)
    be_alone()
    isolated()
    return run_tests(and_nothing_left)


def errno_name(code):
    return errno.errorcode.get(code, str(code))
