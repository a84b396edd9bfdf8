#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-orphan-identity.py - `warren gc` is not misled by processes that look like the init or shim of a sandbox

Prints TAP. Each imitation listens at sockets that are named with the id of a sandbox, has no files, and uses the
process name of an init or a shim. The imitated sandbox is alive, and must stay alive. If its own run directory is
gone, it is an orphan, whether it is imitated or not.
"""
import contextlib
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import WARREN, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, cgroups_of  # pylint: disable=wrong-import-position

IMITATION = r"""
import ctypes, os, socket, sys, time
box, name, creator, uid = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3]), int(sys.argv[4])
os.setgroups([])
os.setresgid(creator, creator, 0)
os.setresuid(creator, creator, 0)
base = f"/dev/shm/warren-imitation.{os.getpid()}"
os.mkdir(base, 0o700)
kept = []
for _ in range(8):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(f"{base}/{box}")
    s.listen(1)
    os.unlink(f"{base}/{box}")
    kept.append(s)
os.rmdir(base)
os.setresuid(0, 0, 0)
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
print("ready", flush=True)
sys.stdin.read()
"""

# Process name, creator of the sockets, user of the process.
IMITATIONS = [
    ("warren-shim", 65534, 65534),     # another user
    ("warren-shim", 0, 0),             # root, but another program
    ("init", 65534, 0x10000000),         # a user id that sandboxes use
    ("init", 0, 0x10000000),             # a socket of root
]


def gc(*args):
    return subprocess.run([WARREN, "gc", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)


@contextlib.contextmanager
def imitated(box, name, creator, uid):
    with subprocess.Popen([sys.executable, "-c", IMITATION, box, name, str(creator), str(uid)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as p:
        try:
            eq(p.stdout.readline(), "ready\n")
            yield p
        finally:
            p.kill()


@test
def a_process_that_imitates_an_init_is_not_an_orphan():
    if os.geteuid() != 0:
        raise Skip("only root collects orphans")
    with World() as w:
        box = w.create()
        run = w.exec(box, "sleep 1000")
        for name, creator, uid in IMITATIONS:
            with imitated(box, name, creator, uid) as p:
                found = gc("--yes", box)
                eq((found.returncode, found.stdout), (0, "No orphans.\n"), (name, creator, uid, found))
                ok(p.poll() is None, f"gc ended the imitation {name} of {uid}")
        eq(w.get(f"/v1/sandboxes/{box}")["state"], "running")
        eq(w.get(f"/v1/sandboxes/{box}/execs/{run}")["state"], "running", "the exec was ended")
        eq(w.run(box, "echo on")["stdout"], "on\n")


@test
def an_orphan_is_removed_even_if_imitated():
    if os.geteuid() != 0:
        raise Skip("only root collects orphans")
    w = World()
    try:
        box = w.create()
        w.exec(box, "sleep 1000")
        w.kill("api", "warden")
        shutil.rmtree(w.run_dir)
        with imitated(box, *IMITATIONS[0]) as p:
            found = gc("--yes", box)
            eq(found.returncode, 0, found)
            ok(box in found.stdout and p.poll() is None, found)
        eq(gc(box).stdout, "No orphans.\n")
        eq(cgroups_of(box), [])
    finally:
        shutil.rmtree(w.dir, ignore_errors=True)
        World.worlds.remove(w)


if __name__ == "__main__":
    sys.exit(run_tests())
