# SPDX-License-Identifier: Apache-2.0
"""processes.py - the processes of this machine, as /proc shows them, for serve_world.py and its tests"""
import contextlib
import glob
import os
import re


def slurp(path):
    with open(path, encoding="utf-8", errors="surrogateescape") as f:
        return f.read()


def slurp_if_there(path):
    """Like slurp(), but "" if the file is gone: another test may have detached its loop device."""
    try:
        return slurp(path)
    except OSError:
        return ""


def stat_of(pid):
    """Returns the fields of /proc/PID/stat after the name: [0] state, [1] parent, [19] start time.

    Tests often read these files of all processes, and Python's open() is slower than os.open().
    """
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096).rpartition(b")")[2].decode().split()
    finally:
        os.close(fd)


def start_time(pid):
    return int(stat_of(pid)[19])


def family():
    """Returns the parent and the state of every process."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                s = stat_of(name)
                found[int(name)] = (int(s[1]), s[0])
    return found


FIRST_ID, IDS = 0x10000000, 65536  # first id of sandboxes, and number of ids of each


def uid_of(pid):
    """Returns the owner of a process; -1: it is gone."""
    try:
        return int(slurp(f"/proc/{pid}/status").partition("\nUid:")[2].split()[0])
    except OSError:
        return -1


def below(pid, parents=None):
    """Returns all living descendants of @pid, of those that family() has found."""
    parents = parents or family()
    children = {}
    for p, (parent, _) in parents.items():
        children.setdefault(parent, []).append(p)
    found, todo = [], [pid]
    while todo:
        for p in children.get(todo.pop(), []):
            todo.append(p)
            if parents[p][1] not in "ZX":
                found.append(p)
    return found


def running(*argv):
    """Does a process with exactly these arguments run on this machine, in whatever sandbox?"""
    want = b"".join(a.encode() + b"\0" for a in argv)
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and open(f"/proc/{name}/cmdline", "rb").read() == want and stat_of(name)[0] not in "ZX":
                return True
    return False


def is_apart(pid):
    """Does the process have a separate pid namespace? False if the process is gone."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid")
    except OSError:
        return False


def is_ours(pid):
    try:
        return slurp(f"/proc/{pid}/comm").startswith("warren")
    except OSError:
        return False


def rss(pid):
    return int(re.search(r"VmRSS:\s+(\d+) kB", slurp(f"/proc/{pid}/status"))[1]) << 10


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def cgroups_of(sandbox):
    found = []
    for pattern in ("", "*/", "*/*/"):
        found += glob.glob(f"/sys/fs/cgroup/{pattern}warren/{sandbox}")
    return found
