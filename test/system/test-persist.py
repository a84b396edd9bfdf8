#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-persist.py - the files of a sandbox that persists are on disk, whatever ends its processes"""
import contextlib
import glob
import os
import re
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import MIB, Skip, WARREN, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from fault_world import small_disk  # pylint: disable=wrong-import-position
from reboot import reboot  # pylint: disable=wrong-import-position
from serve_world import World, refused, until  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name
SMALL = {"memory": "128m", "disk": "64m"}


def create(**spec):
    return w.create(image="host", persist=True, limits=SMALL, **spec)


def sh(box, text, **kw):
    r = w.run(box, ["sh", "-c", text], **kw)
    eq(r["result"]["exit_code"], 0, r)
    return r["stdout"]


def show(box):
    return w.get(f"/v1/sandboxes/{box}")


def state(box):
    return show(box)["state"]


def post(box, what, body=None, **kw):
    return w.ask("POST", f"/v1/sandboxes/{box}/{what}", body, **kw)


def on_disk(box):
    return glob.glob(f"{w.state}/saved/**/*{box}", recursive=True) + glob.glob(f"{w.state}/saved/**/.*{box}", recursive=True)


def remains():
    kinds = ("processes", "namespaces", "cgroups", "mounts", "boxes", "links", "loops")
    return {k: n for k, n in w.objects().items() if n and k in kinds}


def ends(box):
    """Deletes the sandbox; nothing of it may be left."""
    w.delete(box)
    eq(on_disk(box), [], "its files were left")
    until(lambda: remains() == {}, remains)


def kill_all():
    """Kills the service and all processes of all sandboxes, but keeps the run directory."""
    w.kill("api", "warden")
    w.look()
    for p in w.processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(p, signal.SIGKILL)
    until(lambda: w.processes() == [], w.processes)
    w.start()
    w.ready()


@test
def a_main_command_that_cannot_start_leaves_nothing():
    body = {"image": "host", "persist": True, "limits": SMALL, "name": "stillborn", "main": {"argv": ["/no/such/program"]}}
    r = w.ask("POST", "/v1/sandboxes", body)
    eq((r.status, r.json()["code"]), (422, "command_not_found"))
    until(lambda: w.ask("GET", "/v1/sandboxes/stillborn").status == 404, "its removal")
    eq([f for d in glob.glob(f"{w.state}/saved/disks*") for f in os.listdir(d)], [], "disks that are left")
    box = w.ask("POST", "/v1/sandboxes", {**body, "main": {"argv": ["sleep", "1000"]}}, status=201).json()["id"]
    eq(state(box), "running")
    ends(box)


@test
def its_files_are_on_disk_from_the_start():
    box = create()
    eq((show(box)["persist"], show(box)["limits"]["disk"]), (True, 64 * MIB))
    ok(any(e["name"] == "disk" and "in a file" in e["detail"] for e in show(box)["enforced"]), show(box))
    eq([os.path.basename(p) for p in on_disk(box) if "/disks." in p], [box])
    for path in (p for p in on_disk(box) if "/disks." in p):
        eq([os.stat(at).st_mode & 0o777 for at in (path, os.path.dirname(path))], [0o600, 0o700])
    sh(box, "echo kept >/root/x; sync")
    r = w.run(box, ["sh", "-c", "head -c 100000000 /dev/zero >/root/big"])
    ok(r["result"]["exit_code"] != 0, "the limit of the disk is not hard")
    eq(sh(box, "cat /root/x; rm /root/big"), "kept\n")
    ends(box)
    control = w.create(image="host", limits=SMALL)
    eq((show(control)["persist"], on_disk(control)), (False, []))
    ends(control)


@test
def a_reboot_stops_it_and_a_use_wakes_it():
    box, control = create(env={"A": "b"}), w.create(image="host", limits=SMALL)
    paused, stopped = create(), create()
    sh(box, "echo kept >/root/x; chown 12:34 /root/x; rm /etc/group; ln -s x /root/l; sync")
    ran = post(box, "execs", {"argv": ["sleep", "1000"]}, status=201).json()["id"]
    done = post(box, "run", {"argv": ["echo", "hello"]}, status=200).json()["id"]
    session = post(box, "sessions", {}, status=201).json()["id"]
    eq(post(box, f"sessions/{session}/run", {"command": "V=1; echo $V"}, status=200).json()["stdout"], "1\n")
    for one, what in ((paused, "pause"), (stopped, "stop")):
        sh(one, f"echo {what} >/root/x; sync")
        post(one, what, status=200)
    reboot(w)
    for one in (box, paused, stopped):
        until(lambda one=one: state(one) == "stopped", lambda one=one: show(one))
        eq(show(one)["error"], None)
    until(lambda: state(control) == "lost", lambda: state(control))
    until(lambda: remains() == {}, remains)
    eq({b["id"] for b in w.get("/v1/sandboxes", query={"state": ["stopped"]})["sandboxes"]}, {box, paused, stopped})
    eq(w.get(f"/v1/sandboxes/{box}/wait", query={"state": ["stopped"]})["state"], "stopped")
    execs = {e["id"]: e for e in w.get(f"/v1/sandboxes/{box}/execs")["execs"]}
    eq((execs[ran]["ended_by"], execs[ran]["state"], execs[ran]["result"]["signal"]), ("reboot", "exited", 9))
    eq((execs[done]["ended_by"], execs[done]["result"]["exit_code"]), (None, 0))
    eq(state(box), "stopped")  # reading does not wake it
    r = post(box, f"sessions/{session}/run", {"command": "echo V$V; cat /root/x"}, status=200).json()
    eq((r["stdout"], r["new_state"]), ("V\nkept\n", True))
    eq(state(box), "running")
    eq(sh(box, "find /root/x -printf '%U %G\\n'; readlink /root/l; test ! -e /etc/group; echo $A"), "12 34\nx\nb\n")
    for one, what in ((paused, "pause"), (stopped, "stop")):
        eq(sh(one, "cat /root/x"), f"{what}\n")
    for one in (paused, stopped, control):
        w.delete(one)
    ends(box)


@test
def wake_on_use_is_obeyed_and_its_main_command_runs_again():
    box = create(wake_on_use=False, main={"argv": ["sh", "-c", "echo run >>/root/log; sync; exec sleep 1000"]}, on_exit="delete")

    def log():
        return w.run(box, ["cat", "/root/log"])["stdout"]
    until(lambda: log() == "run\n", log)
    sh(box, "sync")
    reboot(w)
    until(lambda: state(box) == "stopped", lambda: show(box))
    refused(post(box, "run", {"argv": ["true"]}), 409, "wrong_state", "start it first")
    post(box, "stop", status=200)
    post(box, "start", status=200)
    until(lambda: log() == "run\nrun\n", log)
    ends(box)


@test
def it_outlives_all_its_processes():
    box, control = create(), w.create(image="host", limits=SMALL)
    sh(box, "echo kept >/root/x")
    kill_all()
    until(lambda: (state(box), state(control)) == ("stopped", "failed"), lambda: (show(box), show(control)))
    eq(sh(box, "cat /root/x"), "kept\n")
    for p in w.processes():  # while the service runs
        with contextlib.suppress(ProcessLookupError):
            os.kill(p, signal.SIGKILL)
    until(lambda: state(box) == "stopped", lambda: show(box))
    eq(sh(box, "cat /root/x"), "kept\n")
    w.delete(control)
    ends(box)


@test
def it_hibernates_without_a_copy():
    box = create()
    for i in range(3):
        sh(box, f"echo {i} >>/root/x")
        eq(post(box, "hibernate", {"timeout_ms": 0}, status=200).json()["state"], "hibernated")
        until(lambda: remains() == {}, remains)
        eq([p for p in on_disk(box) if os.path.isdir(p)], [])
        if i == 1:
            reboot(w)
            eq(state(box), "hibernated")
    eq(sh(box, "cat /root/x"), "0\n1\n2\n")
    sh(box, "sync")
    reboot(w)
    until(lambda: state(box) == "stopped", lambda: show(box))
    eq(post(box, "hibernate", status=200).json()["state"], "hibernated")
    eq(sh(box, "cat /root/x"), "0\n1\n2\n")
    ends(box)


@test
def reset_diff_undo_snapshot_and_fork_work():
    box = create()
    sh(box, "echo 1 >/root/x")
    post(box, "run", {"argv": ["sh", "-c", "echo 2 >/root/x"], "undoable": True}, status=200)
    post(box, "undo", status=200)
    eq(sh(box, "cat /root/x"), "1\n")
    ok("/root/x" in w.ask("GET", f"/v1/sandboxes/{box}/diff", status=200).body.decode(), "no change")
    copies = [c["id"] for c in post(box, "fork", {}, status=201).json()["sandboxes"]]
    eq([(show(c)["persist"], sh(c, "cat /root/x")) for c in copies], [(True, "1\n")])
    sh(copies[0], "echo copy >/root/x; sync")
    post(box, "reset", status=200)
    eq(sh(box, "ls /root/x 2>/dev/null || echo none"), "none\n")
    sh(box, "echo 3 >/root/x; sync")
    reboot(w)
    eq((sh(box, "cat /root/x"), sh(copies[0], "cat /root/x")), ("3\n", "copy\n"))
    w.delete(copies[0])
    ends(box)


@test
def a_damaged_or_missing_disk_is_an_error_of_one_sandbox():
    good, damaged, missing = create(), create(), create()
    for box in (good, damaged, missing):
        sh(box, f"echo {box} >/root/x")
        post(box, "hibernate", {"timeout_ms": 0}, status=200)
    until(lambda: remains() == {}, remains)
    with open(glob.glob(f"{w.state}/saved/disks.*/{damaged}")[0], "r+b") as f:
        f.write(b"\xff" * 65536)
    os.unlink(glob.glob(f"{w.state}/saved/disks.*/{missing}")[0])
    for box, word, then in ((damaged, "damaged", "hibernated"), (missing, "missing", "lost")):
        r = post(box, "run", {"argv": ["true"]})
        ok(r.json()["code"] == "sandbox_failed" and word in r.json()["message"], r)
        eq(state(box), then)
    eq(sh(good, "cat /root/x"), f"{good}\n")
    for box in (damaged, missing):
        w.delete(box)
    ends(good)


@contextlib.contextmanager
def unreadable(box):
    """Each look at the disk of the sandbox is an error for a time, which does not mean that there is none."""
    disks = os.path.dirname(glob.glob(f"{w.state}/saved/disks.*/{box}")[0])
    os.rename(disks, f"{disks}.aside")
    os.symlink(disks, disks)
    try:
        yield
    finally:
        os.unlink(disks)
        os.rename(f"{disks}.aside", disks)


@test
def a_disk_that_cannot_be_looked_for_is_not_missing():
    box, asleep = create(), create()
    for one in (box, asleep):
        sh(one, f"echo {one} >/root/x; sync")
    post(asleep, "hibernate", {"timeout_ms": 0}, status=200)
    with unreadable(box):
        for p in w.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(p, signal.SIGKILL)
        until(lambda: post(box, "run", {"argv": ["true"]}).status >= 400, lambda: show(box))
        ok(post(asleep, "run", {"argv": ["true"]}).status >= 400, "it woke without its disk")
        time.sleep(2)  # the service has tried again
        eq((state(box), state(asleep)), ("running", "hibernated"))
        ok(w.ask("DELETE", f"/v1/sandboxes/{asleep}").status >= 400, "it was deleted")
    until(lambda: state(box) == "stopped", lambda: show(box))
    eq(sh(box, "cat /root/x"), f"{box}\n")
    until(lambda: w.ask("GET", f"/v1/sandboxes/{asleep}").status == 404, "the deletion was not tried again")
    ends(box)


@test
def a_reset_drops_only_the_disk_that_it_was_to_drop():
    box = create()
    post(box, "reset", status=200)
    disk = glob.glob(f"{w.state}/saved/disks.*/{box}")[0]
    number = os.stat(disk).st_ino
    for text in ("reset", "reset 1", f"reset {number + 1}", f"reset {number}"):
        sh(box, "echo kept >/root/x")
        post(box, "hibernate", {"timeout_ms": 0}, status=200)
        with open(f"{w.state}/saved/{box}", "w", encoding="utf-8") as f:
            f.write(text)
        # the last one is what a reset leaves that is killed half way: it is completed
        eq(sh(box, "cat /root/x 2>/dev/null || echo none"), "none\n" if text == f"reset {number}" else "kept\n", text)
        eq(os.path.exists(f"{w.state}/saved/{box}"), False)
    ends(box)


@test
def a_reset_that_was_not_carried_out_drops_no_disk_later():
    def marker(box):
        """What a reset leaves if the warden is killed before it ends the sandbox."""
        number = os.stat(glob.glob(f"{w.state}/saved/disks.*/{box}")[0]).st_ino
        with open(f"{w.state}/saved/{box}", "w", encoding="utf-8") as f:
            f.write(f"reset {number}")
    box = create()
    sh(box, "echo kept >/root/x; sync")
    marker(box)
    post(box, "hibernate", {"timeout_ms": 0}, status=200)
    eq(sh(box, "cat /root/x"), "kept\n")
    marker(box)
    w.kill("api")
    w.ready()
    until(lambda: not os.path.exists(f"{w.state}/saved/{box}"), "it stays although the sandbox is alive")
    reboot(w)
    eq(sh(box, "cat /root/x"), "kept\n")
    ends(box)


@test
def a_disk_whose_first_directories_a_power_cut_took_is_new():
    box = create()

    def change(*commands):
        """Changes the filesystem of the sandbox, which is not mounted."""
        post(box, "hibernate", {"timeout_ms": 0}, status=200)
        until(lambda: remains() == {}, remains)
        disk = glob.glob(f"{w.state}/saved/disks.*/{box}")[0]
        script = "".join(f"{c}\n" for c in commands).encode()
        subprocess.run(["debugfs", "-w", "-f", "/dev/stdin", disk], input=script, capture_output=True, check=True)
        subprocess.run(["e2fsck", "-fy", disk], check=False, capture_output=True)
    # What is left: all, some and none of the directories, in the order of their creation.
    for kept in ("rwu", "rw", "r", ""):
        sh(box, "echo kept >/root/x")
        if kept == "rwu":
            change()
        else:
            change("unlink u", "unlink w", "unlink r", "unlink m", *(f"mkdir {name}" for name in kept))
        eq(sh(box, "cat /root/x 2>/dev/null || echo none"), "kept\n" if kept == "rwu" else "none\n", kept)
    # It had files before: this is damage, and not a new disk.
    change("unlink u")
    refused(post(box, "run", {"argv": ["true"]}), 502, "sandbox_failed", "damaged")
    ends(box)


@test
def a_disk_without_room_for_the_id_of_the_boot_wakes():
    """An earlier version needed less room on the disk, and its sandbox has filled all the rest."""
    box = create()
    sh(box, "echo kept >/root/x; cat /dev/zero >/root/fill 2>/dev/null; sync")
    post(box, "hibernate", {"timeout_ms": 0}, status=200)
    until(lambda: remains() == {}, remains)
    disk = glob.glob(f"{w.state}/saved/disks.*/{box}")[0]

    def debugfs(*commands):
        return subprocess.run(["debugfs", "-w", "-f", "/dev/stdin", disk], input="\n".join(commands) + "\n", capture_output=True,
                              check=True, text=True).stdout

    def blocks(which):
        return int(re.search(rf"^{which}: +([0-9]+)", debugfs("stats -h"), re.M)[1])
    # Room for two directories, but not for a file; ext4 keeps a fiftieth for itself.
    room = blocks("Block count") // 50 + 2
    with tempfile.NamedTemporaryFile() as f:
        f.write(b"x" * 1024)
        f.flush()
        debugfs(*(f"write {f.name} f{n}" for n in range(blocks("Free blocks") - room)))
    eq(blocks("Free blocks"), room)
    eq(sh(box, "cat /root/x /proc/sys/kernel/random/boot_id"), "kept\n")
    sh(box, "rm /root/fill")
    post(box, "hibernate", {"timeout_ms": 0}, status=200)
    eq(len(sh(box, "cat /root/x /proc/sys/kernel/random/boot_id")), 5 + 37, "with an id again")
    ends(box)


@test
def its_image_is_kept():
    env = {**os.environ, "WARREN_STATE": w.state}

    def image(*args):
        return subprocess.run([WARREN, "image", *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)
    with tempfile.TemporaryDirectory() as d:
        os.makedirs(f"{d}/bin")
        shutil.copy("/bin/busybox", f"{d}/bin/busybox")
        for name in ("sh", "cat", "sync"):
            os.symlink("busybox", f"{d}/bin/{name}")
        eq(image("import", d, "needed:1").returncode, 0)
    box = w.create(image="needed:1", persist=True, limits=SMALL)
    sh(box, "echo kept >/x; sync")
    reboot(w)
    until(lambda: state(box) == "stopped", lambda: show(box))
    said = image("rm", "needed:1").stdout
    ok("a sandbox uses it" in said, said)
    eq(image("prune", "--all").returncode, 0)
    eq(sh(box, "cat /x"), "kept\n")
    ends(box)
    image("prune", "--all")
    eq(image("ls", "-q").stdout, "")  # nothing keeps it now


@test
def files_without_a_sandbox_are_removed():
    box = create()
    sh(box, "echo kept >/root/x")
    post(box, "hibernate", {"timeout_ms": 0}, status=200)
    own = glob.glob(f"{w.state}/saved/disks.*/{box}")[0]
    stray = os.path.join(os.path.dirname(own), "b" * len(box))
    with open(stray, "wb") as f:
        f.write(b"x")
    w.kill("api")
    w.ready()
    until(lambda: not os.path.exists(stray), "a file without a sandbox was left")
    eq(sh(box, "cat /root/x"), "kept\n")  # the control
    ends(box)


@test
def it_is_charged_for_its_disk():
    with World(config="quota:\n  disk: 100m\n  memory: 128m\n") as other:
        token = other.token("read", "write", "exec", tenant="small")
        first = other.create(image="host", persist=True, limits=SMALL, token=token)
        other.run(first, ["sync"], token=token)
        reboot(other)
        until(lambda: other.get(f"/v1/sandboxes/{first}")["state"] == "stopped", first)
        r = other.ask("POST", "/v1/sandboxes", {"image": "host", "limits": SMALL}, token=token)
        refused(r, 429, "quota_exceeded", "disk")
        second = other.create(image="host", limits={"memory": "128m", "disk": "32m"}, token=token)
        refused(other.ask("POST", f"/v1/sandboxes/{first}/run", {"argv": ["true"]}, token=token), 429, "quota_exceeded", "memory")
        other.delete(second)
        eq(other.run(first, ["echo", "up"], token=token)["stdout"], "up\n")
        other.delete(first)


@test
def disks_never_promise_more_than_the_machine_has():
    with small_disk("tmpfs", 160 * MIB) as at, World(state=at) as other:
        def ask(status):
            r = other.ask("POST", "/v1/sandboxes", {"image": "host", "persist": True, "limits": SMALL})
            eq(r.status, status, r)
            return r.json()
        boxes = [ask(201)["id"], ask(201)["id"]]
        ok("the disks of all sandboxes" in ask(507)["message"], "not why")
        eq(len(glob.glob(f"{other.state}/saved/disks.*/*") + glob.glob(f"{other.state}/saved/disks.*/.new-*")), 2)
        # What is promised can be used, and a reset needs no second disk.
        eq(other.run(boxes[0], ["sh", "-c", "head -c 40000000 /dev/zero >/root/x && sync"])["result"]["exit_code"], 0)
        other.ask("POST", f"/v1/sandboxes/{boxes[1]}/reset", {}, status=200)
        ask(507)
        other.delete(boxes[0])
        boxes[0] = ask(201)["id"]
        for box in boxes:
            other.delete(box)


@test
def empty_filesystems_are_kept_for_some_sizes_only():
    made = [f"{w.state}/disk-1-{n}" for n in range(64)]
    for i, path in enumerate(made):
        with open(path, "wb"):
            os.utime(path, (1000 + i, 1000 + i))
    box = w.create(image="host", persist=True, limits={"memory": "64m", "disk": 20 * MIB + 8192})
    own = f"{w.state}/disk-1-{20 * MIB + 8192}-journal"
    eq((os.path.exists(own), os.path.exists(made[0]), os.path.exists(made[-1])), (True, False, True))
    ok(len(glob.glob(f"{w.state}/disk-1-*")) <= 64 + 2, "not removed")
    for path in made[1:]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    ends(box)


@test
def what_cannot_persist_is_refused_by_name():
    refused(w.ask("POST", "/v1/sandboxes", {"image": "host", "persist": True, "limits": {"memory": "64m", "disk": "2m"}}), 400, None, "persist")
    with World(config="backends:\n  other:\n    kind: command\n    create: ['true']\n    exec: [env, '{argv}']\n    destroy: ['true']\n") as other:
        refused(other.ask("POST", "/v1/sandboxes", {"backend": "other", "persist": True}), 501, "not_supported", "/persist")


@test
def no_file_is_lost_whenever_it_is_killed():
    rng = random.Random(os.environ.get("WARREN_TEST_SEED", "1"))
    box, written = create(), []
    for i in range(12):
        sh(box, f"echo {i} >>/root/x; sync")
        written.append(str(i))
        if i % 2:
            post(box, "hibernate", {"timeout_ms": 0}, status=200)
        request = ("run", {"argv": ["true"]}) if i % 2 else ("hibernate", {"timeout_ms": 0})

        def ask(request=request):
            with contextlib.suppress(Exception):
                w.client().ask("POST", f"/v1/sandboxes/{box}/{request[0]}", request[1])
        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(rng.random() * 0.04)
        if i % 3 == 2:
            kill_all()
        else:
            w.kill("api", "warden")
            w.start()
            w.ready()
        thread.join()
        if state(box) == "stopped":
            post(box, "start", status=200)
        eq(sh(box, "cat /root/x").split(), written, (i, request))
    ends(box)


@test
def a_creation_or_deletion_that_is_killed_leaves_nothing():
    rng = random.Random(os.environ.get("WARREN_TEST_SEED", "2"))
    for i in range(8):
        box = create() if i % 2 else None
        body = {"image": "host", "persist": True, "limits": SMALL}

        def ask(box=box, body=body):
            with contextlib.suppress(Exception):
                w.client().ask(*(("DELETE", f"/v1/sandboxes/{box}") if box else ("POST", "/v1/sandboxes", body)))
        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(rng.random() * 0.04)
        w.kill("api", "warden")
        thread.join()
        w.start()
        w.ready()
        for one in w.get("/v1/sandboxes")["sandboxes"]:
            r = w.ask("DELETE", f"/v1/sandboxes/{one['id']}")
            ok(r.status in (204, 404), r)  # the service completes a deletion by itself
        until(lambda: w.get("/v1/sandboxes")["sandboxes"] == [], "it is not deleted")
        until(lambda: glob.glob(f"{w.state}/saved/disks.*/*") == [], "its disk was left")
        until(lambda: remains() == {}, remains)


def main():
    global w  # pylint: disable=global-statement
    try:
        with World() as w:
            probe = w.ask("POST", "/v1/sandboxes", {"image": "host", "persist": True, "limits": SMALL})
            if probe.status >= 400 and "loop devices" in probe.json()["message"]:
                raise Skip("this machine has no loop devices")
            w.delete(probe.json()["id"])
            return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
