#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-init-user.py - no process inside a sandbox can become the user of its init, or affect it by a system call

Prints TAP. A program inside takes every user id from 0 to one above that of init, with all capabilities of root
inside, and tries each call on pid 1 that the kernel permits by user id: limits, priorities, scheduling, processors,
memory placement, tracing, /proc. The same calls must work on a child of the program, so that a call that always fails
does not count as refused.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib/posture"))
from harness import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position

INSIDE = r'''
import ctypes, os, platform, signal, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)
ARM = platform.machine() == "aarch64"
NR = dict(zip(("setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setpriority sched_setparam "
               "sched_setscheduler sched_setaffinity sched_setattr ioprio_set prlimit64 migrate_pages move_pages ptrace "
               "process_vm_readv pidfd_open pidfd_getfd kcmp process_madvise get_robust_list kill").split(),
              (146, 144, 145, 143, 147, 149, 151, 152, 140, 118, 119, 122, 274, 30, 261, 238, 239, 117, 270, 434, 438, 272, 440,
               100, 129) if ARM else
              (105, 106, 113, 114, 117, 119, 122, 123, 141, 142, 144, 203, 314, 251, 302, 256, 279, 101, 310, 434, 438, 312, 440,
               274, 62)))
low = ctypes.create_string_buffer(struct.pack("QQ", 3, 3))       # struct rlimit64
mask = ctypes.create_string_buffer(struct.pack("Q", 1))          # the first processor
param = ctypes.create_string_buffer(struct.pack("i", 0))
attr = ctypes.create_string_buffer(struct.pack("IIQiIQQQII", 56, 5, 0, 0, 0, 0, 0, 0, 0, 0)) # SCHED_IDLE
nodes = ctypes.create_string_buffer(struct.pack("Q", 1))
room = ctypes.create_string_buffer(64)
iov = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(room), 8))


def call(name, *args):
    """Returns 0 if the call succeeded, otherwise the errno."""
    ctypes.set_errno(0)
    r = libc.syscall(NR[name], *(ctypes.c_ulong(a) if isinstance(a, int) else ctypes.c_void_p(ctypes.addressof(a)) for a in args))
    return 0 if r >= 0 else ctypes.get_errno()


# Calls that change the limits, priority, scheduling or memory of process @p, which leads process group @p.
def attempts(p, user):
    return {
        "prlimit NOFILE": call("prlimit64", p, 7, low, 0),
        "prlimit NOFILE, upper bits": call("prlimit64", p | 1 << 32, 7, low, 0),
        "prlimit AS": call("prlimit64", p, 9, low, 0),
        "prlimit, asking": call("prlimit64", p, 7, 0, room),
        "setpriority": call("setpriority", 0, p, 19),
        "setpriority of the group": call("setpriority", 1, p, 19),
        "ioprio_set": call("ioprio_set", 1, p, 3 << 13),
        "ioprio_set of the group": call("ioprio_set", 2, p, 3 << 13),
        "sched_setaffinity": call("sched_setaffinity", p, 8, mask),
        "sched_setscheduler": call("sched_setscheduler", p, 3, param),
        "sched_setparam": call("sched_setparam", p, param),
        "sched_setattr": call("sched_setattr", p, attr, 0),
        "move_pages": call("move_pages", p, 0, 0, 0, 0, 0),
        "ptrace": call("ptrace", 0x4206, p, 0, 0),
        "process_vm_readv": call("process_vm_readv", p, iov, 1, iov, 1, 0),
    }

# Calls for all processes of a user; later attempts do not depend on their effect.
BY_USER = {"setpriority of the user": ("setpriority", 2), "ioprio_set of the user": ("ioprio_set", 3)}
FILES = "oom_score_adj oom_adj autogroup coredump_filter comm clear_refs sched mem uid_map gid_map".split()


def files(p):
    got = {}
    for name in FILES:
        try:
            os.close(os.open(f"/proc/{p}/{name}", os.O_WRONLY))
            got[name] = 0
        except OSError as e:
            got[name] = e.errno
    return got


def own_child():
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        time.sleep(1000)
    os.setpgid(pid, pid)
    return pid

init_ids = {int(n) for line in open("/proc/1/status") if line.startswith(("Uid:", "Gid:")) for n in line.split()[1:4]}
print("init", *sorted(init_ids))
root = os.getuid() == 0

# Controls: the same calls work on a child of this program.
child = own_child()
for what, r in attempts(child, 0).items():
    if r:
        print("control", what, os.strerror(r))
os.kill(child, signal.SIGKILL)
os.wait()
child = own_child()
for name, r in files(child).items():
    if r and name not in ("sched", "oom_adj", "autogroup", "comm"): # missing on some kernels; comm can be written only by the process's own threads
        print("control", name, os.strerror(r))
os.kill(child, signal.SIGKILL)
os.wait()

def judge(user, took):
    for what, r in {**attempts(1, user), **files(1)}.items():
        if r == 0:
            print("reached", user, what)
    for what, (name, which) in BY_USER.items():
        if call(name, which, user, 19 if which == 2 else 3 << 13) == 0 and user in init_ids:
            print("reached", user, what)

last = max(init_ids | {65535}) + 1
if not root:
    judge(os.getuid(), True)
    last = 0
took = 0
for user in range(last):
    # The saved ids stay those of root, so that the next id can be taken; no call checks them.
    if call("setresgid", user, user, 0) == 0 and call("setresuid", user, user, 0) == 0:
        took += 1
        judge(user, True)
        if user in init_ids and user:
            print("became", user)
    call("setresuid", 0, 0, 0)
    call("setresgid", 0, 0, 0)
print("took", took)

# All other calls that set an id.
NONE = 0xffffffff
for user in init_ids - {0}:
    ways = [("setuid", user), ("setgid", user), ("setfsuid", user), ("setfsgid", user)]
    ways += [(f"setre{k}", *v) for k in ("uid", "gid") for v in ((user, NONE), (NONE, user), (user, user), (0, user))]
    ways += [(f"setres{k}", *v) for k in ("uid", "gid") for v in ((user, NONE, NONE), (NONE, user, NONE), (NONE, NONE, user), (0, 0, user))]
    ways += [(w[0], *(a | 1 << 32 for a in w[1:])) for w in ways]
    for way in ways:
        pid = os.fork()
        if pid == 0:
            call(*way)
            with open("/proc/self/status") as f:
                ids = {int(n) for line in f if line.startswith(("Uid:", "Gid:")) for n in line.split()[1:]}
            os._exit(user in ids)
        if os.wait()[1]:
            print("became", user, *way)
    # Controls: these calls work for another id.
    for way in ways if root else ():
        pid = os.fork()
        if pid == 0:
            other = tuple(a - user + 4242 if (a & NONE) == user else a for a in way[1:])
            call(way[0], *other)
            with open("/proc/self/status") as f:
                ids = {int(n) for line in f if line.startswith(("Uid:", "Gid:")) for n in line.split()[1:]}
            os._exit(4242 not in ids)
        if os.wait()[1]:
            print("control", "cannot become 4242 by", *way)

# Calls that need a privilege that no process inside has.
for way in (("pidfd_getfd", os.pidfd_open(1), 0, 0), ("kcmp", 1, os.getpid(), 2, 0, 0), ("get_robust_list", 1, room, room),
            ("process_madvise", os.pidfd_open(1), iov, 1, 4, 0)):
    if call(*way) == 0:
        print("reached", 0, way[0])
for sig in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV):
    os.kill(1, sig) if root else None
print("end", [l.split()[1] for l in open("/proc/1/status") if l.startswith("State:")][0])
'''


def run_inside(*args, program=INSIDE):
    p = warren("run", *args, "--", "/usr/bin/python3", "-c", program, timeout=120)
    out = p.stdout.decode(errors="replace")
    ok(p.returncode == 0, f"status {p.returncode}: {out[-500:]} {p.stderr[-500:]!r}")
    return out.splitlines()


def judge(lines, ids):
    """Checks that no call affected init, that the controls worked, and that all ids were tried."""
    bad = [line for line in lines if line.startswith(("reached", "became", "control"))]
    eq(bad, [], "what reached init, or a control that did not work")
    took = [int(line.split()[1]) for line in lines if line.startswith("took")]
    eq(took, [ids], "how many ids were tried")
    ok(lines[-1].startswith("end ") and lines[-1].split()[1] in "SRD", f"init: {lines[-1:]}")


@test
def no_user_inside_has_access_to_init():
    lines = run_inside()
    judge(lines, 65536 if ROOT or has_subids() else 1)
    if ROOT or has_subids():
        eq(lines[0], "init 65536", "init's ids")


def has_subids():
    p = warren("run", "--", "cat", "/proc/self/uid_map", timeout=60)
    return sum(int(line.split()[2]) for line in p.stdout.decode().splitlines()) > 65536


@test
def the_last_ids_belong_to_ordinary_users():
    if not ROOT and not has_subids():
        raise Skip("there is one id")
    for user in ("65534", "65535", "65535:65535"):
        judge(run_inside("--user", user, program=INSIDE), 0)
    p = warren("run", "--user", "65536", "--", "true", timeout=60)
    ok(p.returncode != 0 and b"65535, the last id" in p.stderr, f"{p.returncode}, {p.stderr!r}")


@test
@needs_root
def an_image_cannot_name_the_user_of_init():
    """An entry in the image's passwd names init's id as the user of an exec."""
    with scratch() as d:
        os.chmod(d, 0o755)
        os.makedirs(f"{d}/root/bin")
        os.makedirs(f"{d}/root/etc")
        shutil.copy(need("busybox"), f"{d}/root/bin/busybox")
        for name in ("id", "true"):
            os.symlink("busybox", f"{d}/root/bin/{name}")
        with open(f"{d}/root/etc/passwd", "w", encoding="ascii") as f:
            f.write("root:x:0:0::/:/bin/sh\nevil:x:65536:65536::/:/bin/sh\nfine:x:65535:65535::/:/bin/sh\n")
        p = warren("run", "--image", f"dir:{d}/root", "--user", "fine", "--", "id", "-u", timeout=60)
        eq((p.returncode, p.stdout), (0, b"65535\n"), "an ordinary user of the passwd")
        p = warren("run", "--image", f"dir:{d}/root", "--user", "evil", "--", "id", "-u", timeout=60)
        ok(p.returncode != 0 and b"cannot exist in" in p.stderr, f"{p.returncode}, {p.stdout!r}, {p.stderr!r}")


if __name__ == "__main__":
    sys.exit(main())
