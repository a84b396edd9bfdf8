#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-snapshot-limits.py - snapshots beside other users of the image store: locks, full disks, equal layers, too many at once"""
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from fault_world import small_disk  # pylint: disable=wrong-import-position
from serve_world import World, below, refused, slurp_if_there, until  # pylint: disable=wrong-import-position

MIB = 1 << 20


def sh(v, box, text):
    r = v.run(box, ["sh", "-c", text])
    eq(r["result"]["exit_code"], 0, r)
    return r["stdout"]


def snapshot(v, box, name, **kw):
    return v.ask("POST", f"/v1/sandboxes/{box}/snapshots", {"name": name}, **kw)


def drop(v, word, force=False):
    v.ask("DELETE", f"/v1/snapshots/{word}{'?force=true' if force else ''}", status=204)


def image(v, *args):
    return subprocess.run([f"{BUILD}/warren", "image", *args], capture_output=True, text=True, check=False,
                          env={**os.environ, "WARREN_STATE": v.state, "WARREN_LIBEXEC": BUILD})


def directories(v):
    return sorted(os.listdir(f"{v.state}/layers/d"))


@contextlib.contextmanager
def locked(v, how):
    """Holds the lock of the image store; LOCK_SH: as a process that adds an image."""
    with open(f"{v.state}/images/lock", "rb") as f:
        fcntl.flock(f, how)
        yield


def programs(v):
    """The pids of warren-image that the service has started."""
    return [p for p in below(v.warden) if "warren-image" in (slurp_if_there(f"/proc/{p}/cmdline") or "")]


@test
def a_locked_store_delays_only_the_files_of_deleted_snapshots():
    with World("--quota-snapshot-bytes", str(9 * MIB)) as v:
        box = v.create(image="host")
        snapshot(v, box, "first", status=201)
        before = directories(v)
        sh(v, box, f"head -c {3 * MIB} /dev/urandom >/srv/a")
        for n in ("one", "two"):
            snapshot(v, box, n, status=201)
        with locked(v, fcntl.LOCK_SH):
            for n in ("one", "two"):
                drop(v, n)
            eq([s["names"] for s in v.get("/v1/snapshots")["snapshots"]], [["first"]])
            # Their files exist, and count in the quota.
            until(lambda: not programs(v), lambda: programs(v))
            eq(v.rows("SELECT count(*) FROM snapshots WHERE state = 2"), [(2,)])
            ok(len(directories(v)) > len(before), directories(v))
            sh(v, box, f"head -c {3 * MIB} /dev/urandom >/srv/b")
            refused(snapshot(v, box, "three"), 429, "quota_exceeded", "of at most 9437184, and the new snapshot adds ")
            # Attempts are rare, and one process at a time.
            for _ in range(200):
                ok(len(programs(v)) <= 1, programs(v))
        until(lambda: v.rows("SELECT count(*) FROM snapshots") == [(1,)], lambda: v.rows("SELECT * FROM snapshots"))
        until(lambda: directories(v) == before, lambda: directories(v))
        snapshot(v, box, "three", status=201)
        v.delete(box)
        for n in ("first", "three"):
            drop(v, n)


@test
def layers_are_freed_while_a_snapshot_is_created():
    with World() as v:
        box, replies = v.create(image="host"), []
        sh(v, box, "echo old >/srv/old")
        snapshot(v, box, "old", status=201)
        sh(v, box, f"rm /srv/old; head -c {64 * MIB} /dev/urandom >/srv/f")
        thread = threading.Thread(target=lambda: replies.append(snapshot(v, box, "new")))
        thread.start()
        pid = until(lambda: [p for p in programs(v) if "--snapshot" in (slurp_if_there(f"/proc/{p}/cmdline") or "")], "the snapshot")[0]
        os.kill(pid, signal.SIGSTOP)
        try:
            eq(len([d for d in directories(v) if d.startswith(".new-")]), 1)  # positive control: it is not complete
            with locked(v, fcntl.LOCK_EX | fcntl.LOCK_NB):
                pass
            drop(v, "old")
            until(lambda: v.rows("SELECT count(*) FROM snapshots") == [(1,)], lambda: v.rows("SELECT * FROM snapshots"))
            image(v, "prune")
            eq([d[:5] for d in directories(v)], [".new-"])
            # It cannot be deleted before it exists: it would be stored afterwards.
            new = v.rows("SELECT id FROM snapshots")[0][0]
            removed = image(v, "rm", f"warren.snapshot/{new}")
            eq((removed.returncode, "is being created" in removed.stderr), (125, True), removed.stderr)
        finally:
            os.kill(pid, signal.SIGCONT)
            thread.join()
        eq([r.status for r in replies], [201])
        copy = v.create(image="new")
        eq(sh(v, copy, "wc -c </srv/f").strip(), str(64 * MIB))
        for b in (box, copy):
            v.delete(b)
        drop(v, "new")
        until(lambda: directories(v) == [], lambda: directories(v))


@test
def equal_layers_that_are_added_at_once_are_stored_once():
    with World() as v:
        box, count = v.create(image="host"), 4
        snapshot(v, box, "control", status=201)
        before, replies = directories(v), [None] * count
        sh(v, box, f"yes | head -c {8 * MIB} >/srv/f")

        def take(i):
            replies[i] = snapshot(v, box, f"equal{i}")
        threads = [threading.Thread(target=take, args=(i,)) for i in range(count)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        eq([r.status for r in replies], [201] * count)
        eq(len(directories(v)), len(before) + 1, directories(v))
        for i in range(count - 1):
            drop(v, f"equal{i}")
        eq(len(directories(v)), len(before) + 1, directories(v))  # the last one needs it
        last = v.create(image=f"equal{count - 1}")
        eq(sh(v, last, "wc -c </srv/f").strip(), str(8 * MIB))
        for b in (box, last):
            v.delete(b)
        for n in ("control", f"equal{count - 1}"):
            drop(v, n)


@test
def the_image_of_a_snapshot_in_use_stays():
    with World() as v:
        box = v.create(image="host")
        sh(v, box, "echo kept >/srv/f")
        made = snapshot(v, box, "used", status=201).json()
        user = v.create(image="used")
        drop(v, "used", force=True)
        for args in (("prune", "-a"), ("rm", "-f", made["image"])):
            image(v, *args)
            eq(sh(v, user, "cat /srv/f"), "kept\n")
        v.ask("POST", f"/v1/sandboxes/{user}/reset", None, status=200)
        eq(sh(v, user, "cat /srv/f"), "kept\n")
        v.delete(user)
        until(lambda: v.rows("SELECT count(*) FROM snapshots") == [(0,)], lambda: v.rows("SELECT * FROM snapshots"))
        until(lambda: made["image"] not in image(v, "ls", "-a", "--json").stdout, "no image")
        v.delete(box)


@test
def the_number_of_waiting_snapshots_is_bounded():
    with World() as v:
        box = v.create(image="host")
        snapshot(v, box, "first", status=201)
        replies, waiting = [], threading.Semaphore(0)

        def take(i):
            with v.client(timeout=600) as client:  # the last ones wait for all others
                replies.append(client.ask("POST", f"/v1/sandboxes/{box}/snapshots", {"name": f"n{i}"}))
            waiting.release()
        threads = [threading.Thread(target=take, args=(i,)) for i in range(80)]
        with locked(v, fcntl.LOCK_EX):
            for t in threads:
                t.start()
            waiting.acquire()  # the first that is refused
            refused(replies[0], 503, "overloaded")
        for t in threads:
            t.join()
        made = [r for r in replies if r.status == 201]
        ok(64 <= len(made) < 80, len(made))
        ok(all(r.status == 503 for r in replies if r not in made), replies)
        v.delete(box)
        for r in made:
            drop(v, r.json()["id"])
        drop(v, "first")


@test
def a_full_disk_fails_a_snapshot_and_nothing_else():
    with small_disk("tmpfs", 96 * MIB) as at, World(state=f"{at}/state") as v:
        box = v.create(image="host", limits={"memory": 800 * MIB})
        sh(v, box, f"head -c {4 * MIB} /dev/urandom >/srv/small")
        snapshot(v, box, "small", status=201)
        before = directories(v)
        sh(v, box, f"head -c {80 * MIB} /dev/urandom >/srv/big")
        for _ in range(3):
            r = snapshot(v, box, "big")
            eq((r.status, r.json()["code"]), (507, "disk_full"), r)
            eq(sh(v, box, "wc -c </srv/big").strip(), str(80 * MIB))  # it continues
            until(lambda: directories(v) == before, lambda: directories(v))
            until(lambda: v.rows("SELECT count(*) FROM snapshots") == [(1,)], lambda: v.rows("SELECT * FROM snapshots"))
        sh(v, box, "rm /srv/big; echo x >/srv/y")
        snapshot(v, box, "next", status=201)
        user = v.create(image="next")
        eq(sh(v, user, "cat /srv/y"), "x\n")
        for b in (box, user):
            v.delete(b)
        for n in ("small", "next"):
            drop(v, n)


if __name__ == "__main__":
    sys.exit(run_tests())
