#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-hibernate-faults.py - sandboxes that hibernate: their image, damaged files, full disks, quotas"""
import concurrent.futures
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import MIB, Skip, WARREN, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from fault_world import small_disk  # pylint: disable=wrong-import-position
from reboot import reboot  # pylint: disable=wrong-import-position
from serve_world import World, refused  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name


def sh(world, box, text, **kw):
    r = world.run(box, ["sh", "-c", text], **kw)
    eq(r["result"]["exit_code"], 0, r)
    return r["stdout"]


def hibernate(world, box, **kw):
    return world.ask("POST", f"/v1/sandboxes/{box}/hibernate", {"timeout_ms": 0}, **kw)


def state(world, box):
    return world.get(f"/v1/sandboxes/{box}")["state"]


def image(*args):
    env = {"PATH": os.environ["PATH"], "WARREN_STATE": w.state, **{k: v for k, v in os.environ.items() if k == "WARREN_LIBEXEC"}}
    return subprocess.run([WARREN, "image", *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)


@test
def the_image_of_a_sandbox_that_hibernates_is_kept():
    with tempfile.TemporaryDirectory() as d:
        os.makedirs(f"{d}/bin")
        shutil.copy("/bin/busybox", f"{d}/bin/busybox")
        for name in ("sh", "cat"):
            os.symlink("busybox", f"{d}/bin/{name}")
        for name in ("needed:1", "other:1"):
            with open(f"{d}/name", "w", encoding="utf-8") as f:
                f.write(name)
            eq(image("import", d, name).returncode, 0)
    box = w.create(image="needed:1")
    sh(w, box, "echo kept >/x")
    hibernate(w, box, status=200)
    w.kill("api", "warden")
    w.start()
    w.ready()
    ok("a sandbox uses it" in image("rm", "needed:1").stdout, "the image was removed")
    ok("Deleted" in image("rm", "other:1").stdout, "the control: an image without sandboxes")
    eq(image("prune", "--all").returncode, 0)
    eq(sh(w, box, "cat /x /name"), "kept\nneeded:1")
    hibernate(w, box, status=200)
    w.delete(box)
    image("prune", "--all")
    eq(image("ls", "-q").stdout, "")  # nothing keeps it now


@test
def damaged_files_are_an_error_of_one_sandbox():
    good, missing, odd = (w.create(image="host") for _ in range(3))
    for box in (good, missing, odd):
        sh(w, box, f"echo {box} >/srv/x")
        hibernate(w, box, status=200)
    shutil.rmtree(f"{w.state}/saved/{missing}")
    shutil.rmtree(f"{w.state}/saved/{odd}")
    with open(f"{w.state}/saved/{odd}", "wb") as f:
        f.write(b"\0" * 100)
    for box, then in ((missing, "lost"), (odd, "hibernated")):
        r = w.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]})
        ok(r.json()["code"] == "sandbox_failed" and "saved files" in r.json()["message"], r)
        eq(state(w, box), then)
    eq(sh(w, good, "cat /srv/x"), f"{good}\n")
    for box in (good, missing, odd):
        w.delete(box)
        ok(not os.path.exists(f"{w.state}/saved/{box}"), "its files were left")


@test
def a_power_cut_after_a_wake_can_cost_the_files_but_the_state_says_so():
    """What is on disk then: the removal of the saved files, but not the new state."""
    box, control = w.create(image="host"), w.create(image="host")
    for one in (box, control):
        sh(w, one, "echo kept >/srv/x")
        hibernate(w, one, status=200)

    def former_database():
        shutil.rmtree(f"{w.state}/serve")
        os.rename(f"{w.dir}/before", f"{w.state}/serve")
    w.stop()
    subprocess.run(["cp", "-a", f"{w.state}/serve", f"{w.dir}/before"], check=True)
    w.start()
    sh(w, box, "true")
    reboot(w, former_database)
    eq((state(w, box), state(w, control)), ("hibernated", "hibernated"))
    refused(w.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]}), 502, "sandbox_failed", "missing")
    shown = w.get(f"/v1/sandboxes/{box}")
    ok(shown["state"] == "lost" and "missing" in shown["error"], shown)
    refused(w.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]}), 409, "wrong_state", "lost")
    eq(sh(w, control, "cat /srv/x"), "kept\n")
    for one in (box, control):
        w.delete(one)


@test
def a_sandbox_continues_if_the_disk_is_full():
    with small_disk("tmpfs", 64 * MIB) as at, World(state=at) as other:
        box = other.create(image="host", limits={"memory": "256m", "disk": "128m"})
        kept = other.ask("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["sleep", "1000"]}, status=201).json()["id"]
        sh(other, box, "head -c 100000000 /dev/urandom >/srv/x; sha256sum /srv/x >/srv/sum")
        e = refused(hibernate(other, box), 507, None, "bytes are free")
        ok("need 1" in e["message"], e)
        eq((state(other, box), other.get(f"/v1/sandboxes/{box}/execs/{kept}")["state"]), ("running", "running"))
        sh(other, box, "cd /srv && sha256sum -c sum && head -c 1000000 x >y && rm x")
        hibernate(other, box, status=200)  # the control: it fits now
        eq(sh(other, box, "wc -c </srv/y"), "1000000\n")
        other.delete(box)


@test
def a_hibernation_that_fails_leaves_nothing_on_disk():
    box = w.create(image="host")

    def left():
        return [name for name in os.listdir(f"{w.state}/saved") if box in name] if os.path.exists(f"{w.state}/saved") else []
    sh(w, box, "cd /srv; for i in $(seq 600); do mkdir d; cd d; done")
    refused(hibernate(w, box), 400, None, "500 levels")
    eq((state(w, box), left()), ("running", []))
    sh(w, box, "cd /srv; for i in $(seq 150); do mv d/d e; rm -r d; mv e d; done")
    hibernate(w, box, status=200)
    eq(sorted(left()), sorted([box, f".image-{box}"]))  # the control
    w.delete(box)
    eq(left(), [])


@test
def hibernations_at_once_do_not_count_on_the_same_space():
    with small_disk("tmpfs", 96 * MIB) as at, World(state=at) as other:
        boxes = [other.create(image="host", limits={"memory": "128m", "disk": "64m"}) for _ in range(4)]
        execs = {}
        for box in boxes:
            sh(other, box, "head -c 30000000 /dev/urandom >/srv/x")
            execs[box] = other.ask("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["sleep", "1000"]}, status=201).json()["id"]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = dict(zip(boxes, pool.map(lambda b: hibernate(other.client(), b), boxes)))
        slept = [b for b in boxes if answers[b].status == 200]
        ok(1 <= len(slept) <= 3, answers)
        for box in boxes:
            if box not in slept:
                refused(answers[box], 507, None, "bytes are free")
                # Nothing has ended.
                eq(other.get(f"/v1/sandboxes/{box}/execs/{execs[box]}")["state"], "running")
                other.delete(box)
        for box in slept:
            eq(sh(other, box, "wc -c </srv/x"), "30000000\n")
            other.delete(box)


@test
def a_reset_on_a_full_disk_changes_no_file():
    with small_disk("tmpfs", 64 * MIB) as at, World(state=at) as other:
        box = other.create(image="host")
        sh(other, box, "echo kept >/srv/x")
        with open(f"{at}/fill", "wb", buffering=0) as f, contextlib.suppress(OSError):
            while True:
                f.write(b"x" * 4096)
        r = other.ask("POST", f"/v1/sandboxes/{box}/reset")
        os.unlink(f"{at}/fill")
        eq(r.status, 507, r)
        eq(sh(other, box, "cat /srv/x"), "kept\n")
        other.ask("POST", f"/v1/sandboxes/{box}/reset", status=200)  # the control
        eq(sh(other, box, "ls /srv"), "")
        other.delete(box)
        ok(not os.path.exists(f"{at}/saved/{box}"), "its files were left")


@test
def waking_needs_the_quota_of_memory():
    with World(config="quota:\n  memory: 128m\n") as other:
        token = other.token("read", "write", "exec", tenant="small")
        spec = {"limits": {"memory": "128m"}}
        first = other.create(**spec, token=token)
        sh(other, first, "echo kept >/tmp/x", token=token)
        refused(other.ask("POST", "/v1/sandboxes", spec, token=token), 429, "quota_exceeded", "memory")
        hibernate(other, first, status=200, token=token)
        second = other.create(**spec, token=token)  # one that hibernates does not count
        refused(other.ask("POST", f"/v1/sandboxes/{first}/run", {"argv": ["true"]}, token=token), 429, "quota_exceeded", "memory")
        eq(state(other, first), "hibernated")
        other.delete(second)
        eq(sh(other, first, "cat /tmp/x", token=token), "kept\n")
        other.delete(first)


def main():
    global w  # pylint: disable=global-statement
    try:
        with World() as w:
            return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
