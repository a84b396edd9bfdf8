# SPDX-License-Identifier: Apache-2.0
"""fault_world.py - a service whose system calls fail while a test requests it (faults.c), and a disk that can be
filled"""
import contextlib
import mmap
import os
import shutil
import struct
import subprocess
import tempfile

from checks import BUILD, MIB, Skip
from serve_world import World

KINDS = ("memory", "descriptors", "space", "disk", "messages", "signals", "interrupts")
MEMORY, DESCRIPTORS, SPACE, DISK, MESSAGES, SIGNALS, INTERRUPTS = (1 << i for i in range(len(KINDS)))
PRELOAD = os.path.join(BUILD, "test", "libfaults.so")
CLOCK_AT = 16 + len(KINDS) * 8  # position of the clock shift in the page of faults.c


class Faults:
    """The page that faults.c reads."""

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as f:
            f.write(bytes(4096))
        os.chmod(path, 0o666)
        with open(path, "r+b") as f:
            self.page = mmap.mmap(f.fileno(), 4096)

    def set(self, kinds, one_in, seed):
        self.page[:CLOCK_AT] = struct.pack(f"=IIQ{len(KINDS)}Q", 0, one_in, seed, *[0] * len(KINDS))
        self.page[:4] = struct.pack("=I", kinds)

    def off(self):
        """Stops the faults; returns how often each kind has occurred."""
        self.page[:4] = struct.pack("=I", 0)
        return struct.unpack(f"={len(KINDS)}Q", self.page[16:CLOCK_AT])

    def shift_clock(self, seconds):
        """Shifts the system time that the service sees."""
        self.page[CLOCK_AT:CLOCK_AT + 8] = struct.pack("=q", seconds)


class FaultyWorld(World):
    def __init__(self, *options, **kw):
        super().__init__(*options, start=False, **kw)
        self.faults = Faults(f"{self.dir}/faults")
        self.start()

    def start(self, wait=True):
        os.environ.update(LD_PRELOAD=PRELOAD, WARREN_FAULTS=f"{self.dir}/faults")
        try:
            return super().start(wait)
        finally:
            del os.environ["LD_PRELOAD"], os.environ["WARREN_FAULTS"]


def children(pid):
    """The processes that a process has started and not waited for."""
    found = set()
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
            found.update(map(int, f.read().split()))
    return found


@contextlib.contextmanager
def small_disk(kind, size=128 * MIB, inodes=0):
    """Creates a directory on a filesystem of @size bytes, a tmpfs with at most so many @inodes (0: any number)."""
    at = tempfile.mkdtemp(prefix="warren-disk-")
    os.chmod(at, 0o755)
    image = f"{at}.img"
    try:
        if kind == "tmpfs":
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755,nr_inodes={inodes}", "warren-test", at], check=True)
        else:
            with open(image, "wb") as f:
                f.truncate(size)
            # Use small blocks, the default for such a small filesystem: a page has four of them.
            subprocess.run(["mkfs.ext4", "-q", "-b", "1024", "-m", "0", image], check=True)
            if subprocess.run(["mount", "-o", "loop", image, at], check=False, capture_output=True).returncode != 0:
                raise Skip("no loop device can be mounted here")
        yield at
    finally:
        subprocess.run(["umount", "-l", at], check=False, capture_output=True)
        with contextlib.suppress(OSError):
            os.unlink(image)
        shutil.rmtree(at, ignore_errors=True)


def fill(at):
    """Uses all space that an ordinary user gets, and then the rest."""
    with open(f"{at}/ballast", "wb", buffering=0) as f:
        for size in (MIB, 4096, 512, 1):
            with contextlib.suppress(OSError):
                while f.write(bytes(size)):
                    pass
    # Use space that others have freed in the meantime.
    with open(f"{at}/ballast2", "wb", buffering=0) as f, contextlib.suppress(OSError):
        while f.write(bytes(1024)):
            pass


def free(at):
    for name in ("ballast", "ballast2"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{at}/{name}")
