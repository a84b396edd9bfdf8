# SPDX-License-Identifier: Apache-2.0
"""set_id_attempts.py - for tests: try every way to a file with set-id bits or capabilities

The text runs as a program in a sandbox, with a directory as its argument. It prints the ways that succeeded. Outside,
remains() returns the files of a directory that have such bits.
"""
import os

ATTEMPTS = r"""
import ctypes, os, struct, sys
os.chdir(sys.argv[1])
libc, x86 = ctypes.CDLL(None, use_errno=True), os.uname().machine == "x86_64"
AT, SET = -100, 0o6755
CREATE, TEMP = os.O_CREAT | os.O_WRONLY, os.O_TMPFILE | os.O_WRONLY
HOW = ctypes.create_string_buffer(struct.pack("QQQ", CREATE, SET, 0))
NR = dict(openat=(257, 56), fchmod=(91, 52), fchmodat=(268, 53), fchmodat2=(452, 452), mknodat=(259, 33),
          openat2=(437, 437), open=(2, None), creat=(85, None), chmod=(90, None), mknod=(133, None))


def plain(name):
    open(name, "w").close()
    return name.encode()


def call(name, *args):
    number = NR[name][0 if x86 else 1]
    return number and libc.syscall(number, *args)


def by_fd(name):
    fd = os.open(plain(name), os.O_RDWR)
    call("fchmod", fd, SET)


def temporary(name):
    fd = libc.syscall(NR["openat"][0 if x86 else 1], AT, b".", TEMP, SET)
    if fd >= 0:
        libc.linkat(AT, f"/proc/self/fd/{fd}".encode(), AT, name.encode(), 0x400)


def capabilities(name):
    os.setxattr(plain(name), "security.capability", struct.pack("<5I", 0x02000001, 1 << 7, 0, 0, 0))


def later(name):  # the bits of a new file do not depend on an old one
    call("openat", AT, plain(name), CREATE, 0o755)
    call("fchmodat", AT, name.encode(), 0o2711)


ways = {
    "openat": lambda n: call("openat", AT, n.encode(), CREATE, SET),
    "openat2": lambda n: call("openat2", AT, n.encode(), HOW, 24),
    "open": lambda n: call("open", n.encode(), CREATE, SET),
    "creat": lambda n: call("creat", n.encode(), SET),
    "mknod": lambda n: call("mknod", n.encode(), 0o100000 | SET, 0),
    "mknodat": lambda n: call("mknodat", AT, n.encode(), 0o100000 | SET, 0),
    "chmod": lambda n: call("chmod", plain(n), SET),
    "fchmod": by_fd,
    "fchmodat": lambda n: call("fchmodat", AT, plain(n), SET),
    "fchmodat2": lambda n: call("fchmodat2", AT, plain(n), SET, 0),
    "tmpfile": temporary,
    "group": later,
    "capability": capabilities,
}
for way, make in ways.items():
    try:
        make(way)
    except OSError:
        pass
    try:
        done = os.stat(way).st_mode & 0o6000 or "security.capability" in os.listxattr(way)
    except OSError:
        done = False
    if done:
        print(way)
plain("plain")
os.chmod("plain", 0o1751)
"""


def remains(top):
    found = []
    for root, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(root, name)
            if os.lstat(path).st_mode & 0o6000 or "security.capability" in os.listxattr(path, follow_symlinks=False):
                found.append(path)
    return found
