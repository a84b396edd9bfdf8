# SPDX-License-Identifier: Apache-2.0
"""call_world.py - a service in which one system call at a time fails, in one way (callfaults.c)"""
import errno
import mmap
import os
import re
import struct

from checks import BUILD, SOURCE
from serve_world import World

PRELOAD = os.path.join(BUILD, "test", "libcallfaults.so")
ROOM = 256

CLASSES = {
    "FD": (errno.EMFILE, errno.ENFILE, errno.ENOMEM),
    "FILE": (errno.ENOSPC, errno.EDQUOT, errno.EIO),
    "WAIT": (errno.EINTR,),
    "MEM": (errno.ENOMEM,),
    "SOCK": (errno.EAGAIN, errno.ENOMEM),
    "PROC": (errno.EAGAIN, errno.ENOMEM),
    "DISK": (errno.EIO,),
    "RARE": (),
}


def table():
    """Returns the table of callfaults.c: (name, errors, one in so many), by position."""
    with open(f"{SOURCE}/test/lib/callfaults.c", encoding="utf-8") as f:
        found = re.findall(r"^\tCALL\((\w+), (?:MINUS|NONE|CODE|CLOSES), ([A-Z ]+)\)", f.read(), re.M)
    return [(name, tuple(dict.fromkeys(e for c in classes.split() for e in CLASSES[c])), 100 if "RARE" in classes else 3)
            for name, classes in found]


class Page:
    """The page that callfaults.c reads."""

    SIZE = 24 + 16 * ROOM

    def __init__(self, path):
        with open(path, "wb") as f:
            f.write(bytes(2 * 4096 + 4096))
        os.chmod(path, 0o666)
        with open(path, "r+b") as f:
            self.page = mmap.mmap(f.fileno(), 3 * 4096)

    def set(self, place, code, one_in, seed):
        self.page[4:24] = struct.pack("=iIIQ", code, one_in, 0, seed)
        self.page[:4] = struct.pack("=I", place + 1)

    def off(self):
        self.page[:4] = bytes(4)

    def counts(self):
        """Returns how often each call was made, and how often it failed."""
        n = struct.unpack(f"={2 * ROOM}Q", self.page[24:self.SIZE])
        return n[:ROOM], n[ROOM:]


class CallWorld(World):
    def __init__(self, *options):
        super().__init__(*options, start=False)
        self.page = Page(f"{self.dir}/calls")
        self.start()

    def start(self, wait=True):
        os.environ.update(LD_PRELOAD=PRELOAD, WARREN_FAULTS=f"{self.dir}/calls")
        try:
            return super().start(wait)
        finally:
            del os.environ["LD_PRELOAD"], os.environ["WARREN_FAULTS"]

    def fail(self, name, code, one_in=1):
        """From now on, makes a fraction of these calls fail, according to the table."""
        self.page.set(next(i for i, (call, _, _) in enumerate(table()) if call == name), code, one_in, 1)

    def failed(self, name):
        """Returns how often the call has failed."""
        return self.page.counts()[1][next(i for i, (call, _, _) in enumerate(table()) if call == name)]
