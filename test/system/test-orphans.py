#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-orphans.py - a sandbox without its run directory is found and removed; a sandbox with one never is

Prints TAP. The services are killed, not stopped, so that they leave sandboxes behind. `gc` gets the ids of this
test's sandboxes, because the machine may have other orphans.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import WARREN, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, cgroups_of, until  # pylint: disable=wrong-import-position


def warren(*args, stdin=subprocess.DEVNULL):
    return subprocess.run([WARREN, *args], stdin=stdin, capture_output=True, text=True, timeout=60, check=False)


def orphans():
    p = warren("doctor", "--json")
    found = json.loads(p.stdout)["orphans"]
    if found is None:
        raise Skip("this kernel does not tell of unix sockets, or this is not root")
    return {o["id"]: o for o in found}


def init_of(w, box):
    with open(f"{w.run_dir}/boxes/{box}.state", "rb") as f:
        return int(re.search(rb"init_pid\W+(\d+)", f.read())[1])


def lives(pid):
    """Is the process alive? A zombie is not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def stays(pid):
    """Is the process alive for another second?"""
    for _ in range(10):
        time.sleep(0.1)
        if not lives(pid):
            return False
    return True


def left_by(w):
    """Returns two sandboxes of a killed service: one runs a command, and one is frozen."""
    orphans()
    boxes = [w.create() for _ in range(2)]
    w.exec(boxes[0], "sleep 1000")
    w.post(f"/v1/sandboxes/{boxes[1]}/pause", {})
    w.kill("api", "warden")
    return boxes


def check_removed(boxes, pids):
    # A mount namespace of another test may hold the filesystem for a moment.
    until(lambda: all(box in orphans() for box in boxes), "they are not listed")
    found = orphans()
    for box in boxes:
        ok(box in found and found[box]["pid"] == pids[box], f"{box} is not listed: {found.get(box)}")
        ok("run directory is gone" in found[box]["detail"], found[box])
    text = warren("doctor").stdout
    ok(all(box in text for box in boxes) and "warren gc" in text, text[-500:])
    # Without --yes, nothing is removed.
    p = warren("gc", *boxes)
    eq(p.returncode, 1, p.stderr)
    ok("--yes" in p.stderr and all(box in p.stdout for box in boxes), p)
    p = warren("gc", "--json", *boxes)
    eq([o["removed"] for o in json.loads(p.stdout)["orphans"]], [False] * len(boxes), p)
    ok(all(lives(pids[box]) for box in boxes), "one was removed unasked")
    p = warren("gc", "--yes", "--json", *boxes)
    eq(p.returncode, 0, p)
    eq({o["id"]: o["removed"] for o in json.loads(p.stdout)["orphans"]}, dict.fromkeys(boxes, True), p)
    for box in boxes:
        ok(not lives(pids[box]), f"init of {box} lives")
        eq(cgroups_of(box), [], f"cgroups of {box}")
    ok(not set(boxes) & set(orphans()), "they are listed again")
    eq(warren("gc", *boxes).stdout, "No orphans.\n")


@test
def orphans_are_found_after_their_run_directory_was_deleted():
    with World() as alive:
        kept = alive.create()
        alive.exec(kept, "sleep 1000")
        w = World()
        try:
            boxes = left_by(w)
            pids = {box: init_of(w, box) for box in boxes}
            # The service is dead and its sandboxes live: their directory exists, so they are not removed.
            ok(not {*boxes, kept} & set(orphans()), "a sandbox is taken for an orphan")
            p = warren("gc", "--yes", "--json", *boxes, kept)
            eq((p.returncode, json.loads(p.stdout)["orphans"]), (0, []), p)
            # A directory that was moved can still be used at its new path.
            os.rename(w.run_dir, f"{w.dir}/moved")
            ok(not set(boxes) & set(orphans()), "a sandbox whose directory was moved is taken for an orphan")
            ok(all(lives(pid) for pid in pids.values()), "one is dead")
            shutil.rmtree(f"{w.dir}/moved")
            check_removed(boxes, pids)
        finally:
            shutil.rmtree(w.dir, ignore_errors=True)
            World.worlds.remove(w)
        # The other sandboxes are not affected.
        eq(alive.run(kept, "echo on")["stdout"], "on\n")
        ok(kept not in orphans(), "a sandbox of a service that runs is taken for an orphan")


@test
def orphans_are_found_when_the_run_directory_is_a_tmpfs():
    """The tmpfs is emptied, or it is unmounted everywhere."""
    for end in ("wiped", "unmounted"):
        w = World(start=False)
        os.makedirs(w.run_dir, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "warren-test", w.run_dir], check=True)
        try:
            w.start()
            boxes = left_by(w)
            pids = {box: init_of(w, box) for box in boxes}
            ok(not set(boxes) & set(orphans()), "a sandbox is taken for an orphan")
            if end == "wiped":
                for name in os.listdir(w.run_dir):
                    path = f"{w.run_dir}/{name}"
                    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
            else:
                subprocess.run(["umount", "-l", w.run_dir], check=True)
            check_removed(boxes, pids)
        finally:
            if end == "wiped":
                subprocess.run(["umount", "-l", w.run_dir], check=True)
            shutil.rmtree(w.dir, ignore_errors=True)
            World.worlds.remove(w)


@test
def an_init_killed_while_frozen_is_found():
    """On cgroup v1, it cannot end before the frozen processes of its sandbox, and its socket is closed."""
    with World() as alive:
        kept = alive.create()
        w = World()
        try:
            orphans()
            box = w.create()
            w.exec(box, "sleep 1000")
            w.post(f"/v1/sandboxes/{box}/pause", {})
            init = init_of(w, box)
            w.kill("api", "warden")
            shutil.rmtree(w.run_dir)
            os.kill(init, signal.SIGKILL)
            if not stays(init):
                raise Skip("this kernel lets frozen processes end (cgroup v2)")
            until(lambda: box in orphans(), "it is not listed")
            eq((orphans()[box]["pid"], "killed" in orphans()[box]["detail"]), (init, True), orphans()[box])
            p = warren("gc", "--yes", "--json", box, kept)
            eq((p.returncode, [o["id"] for o in json.loads(p.stdout)["orphans"]]), (0, [box]), p)
            until(lambda: not lives(init) and not cgroups_of(box), "something of it is left")
        finally:
            shutil.rmtree(w.dir, ignore_errors=True)
            World.worlds.remove(w)
        eq(alive.run(kept, "echo on")["stdout"], "on\n")


@test
def a_sandbox_being_deleted_is_not_an_orphan():
    """An init that is ending is not stuck: its service removes it, whether it was paused or not."""
    with World() as w:
        boxes = [w.create() for _ in range(16)]
        for box in boxes[::2]:
            w.post(f"/v1/sandboxes/{box}/pause", {})
        looks = subprocess.Popen([WARREN, "gc", "--json", *boxes], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        found = set()
        for box in boxes:
            w.delete(box)
            if looks.poll() is not None:
                found |= {o["id"] for o in json.loads(looks.communicate()[0])["orphans"]}
                looks = subprocess.Popen([WARREN, "gc", "--json", *boxes], stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE)
        found |= {o["id"] for o in json.loads(looks.communicate()[0])["orphans"]}
        eq(found, set(), "orphans")


@test
def gc_explains_why_it_needs_root():
    """Sandboxes that are not orphans are left alone, and an ordinary user gets the reason why none is listed."""
    p = warren("gc", "--frobnicate")
    eq(p.returncode, 125, p)
    p = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "env", "XDG_RUNTIME_DIR=/nonexistent",
                        "HOME=/nonexistent", WARREN, "gc"], capture_output=True, text=True, timeout=60, check=False)
    eq(p.returncode, 125, p)
    ok(p.stderr.startswith("warren gc: "), p.stderr)
    ok("warren gc" in warren("gc", "--help").stdout and "--yes" in warren("gc", "--help").stdout, "help")


if __name__ == "__main__":
    sys.exit(run_tests())
