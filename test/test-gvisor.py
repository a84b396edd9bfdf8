#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-gvisor.py - the wall of gVisor's through the service: chosen by tier, proven inside, gone when it is over

What the suites of the service check on any backend is run on this one by WARREN_TEST_BACKEND=gvisor.
"""
import glob
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time

from checks import WARREN, Skip, eq, ok, run_tests, test
from serve_world import World, cgroups_of, check_error, until

QUESTION = "uname -r; dmesg 2>/dev/null | head -1; grep -c . /proc/version"
CGROUP = "/sys/fs/cgroup"


def processes_of(box):
    """What the sandbox is outside, by its cgroup: process ids by the name that they have."""
    found = {}
    for base in (f"{CGROUP}/freezer/warren/{box}", f"{CGROUP}/warren/{box}/box/e0"):
        if os.path.exists(f"{base}/cgroup.procs"):
            for pid in open(f"{base}/cgroup.procs", encoding="ascii").read().split():
                name = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")[0].decode()
                found.setdefault(os.path.basename(name), []).append(int(pid))
    return found


def gone(found):
    return not any(os.path.exists(f"/proc/{pid}") for pids in found.values() for pid in pids)


@test
def the_wall_is_the_one_that_was_asked_for():
    box = w.create(tier="gvisor")
    s = w.show(box)
    eq((s["backend"], s["tier"]), ("gvisor", "gvisor"), "of one that asks for the tier")
    enforced = {e["name"]: e for e in s["enforced"]}
    for name in ("kernel", "memory", "cpus", "pids", "disk", "nofile", "network", "capabilities", "no_new_privs"):
        ok(enforced[name]["enforced"], enforced)
    inside = w.run(box, QUESTION)["stdout"]
    ok("Starting gVisor" in inside, inside)
    ok(not inside.startswith(platform.release()), inside)
    # The same question behind the other wall: a dead check would pass here, too.
    other = w.run(w.create(backend="native"), QUESTION)["stdout"]
    ok(other.startswith(platform.release()) and "gVisor" not in other, other)


@test
def its_processes_are_nobodys():
    box = w.create(backend="gvisor")
    found = processes_of(box)
    (sentry,) = found["runsc-sandbox"]
    status = dict(line.split(":\t", 1) for line in open(f"/proc/{sentry}/status", encoding="utf-8").read().splitlines()
                  if ":\t" in line)
    eq(status["Uid"].split(), ["65534"] * 4, "uid of the sentry")
    eq((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), "its own cage")
    for kind in ("user", "mnt", "net", "ipc", "uts"):
        ok(os.readlink(f"/proc/{sentry}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}"), kind)
    w.delete(box)
    until(lambda: gone(found), lambda: f"left: {found}")


@test
def a_session_and_files():
    box = w.create(backend="gvisor")
    path = f"/v1/sandboxes/{box}/sessions"
    sid = w.post(path, {}, status=201)["id"]
    w.post(f"{path}/{sid}/run", {"command": "cd /tmp; x=kept"})
    eq(w.post(f"{path}/{sid}/run", {"command": "echo $x; pwd"})["stdout"], "kept\n/tmp\n", "state of the shell")
    data = bytes(range(256)) * 4096
    w.ask("PUT", f"/v1/sandboxes/{box}/files", data, query={"path": "/root/blob"}, status=201)
    eq(w.ask("GET", f"/v1/sandboxes/{box}/files", query={"path": "/root/blob"}, status=200).body, data, "a file")
    eq(w.run(box, "wc -c </root/blob")["stdout"].strip(), str(len(data)), "its size inside")


@test
def paused_it_stands_still():
    box = w.create(backend="gvisor")
    w.exec(box, "while :; do :; done")
    w.post(f"/v1/sandboxes/{box}/pause", status=200)
    before = w.get(f"/v1/sandboxes/{box}/stats")["cpu_usec"]
    time.sleep(0.3)
    eq(w.get(f"/v1/sandboxes/{box}/stats")["cpu_usec"], before, "time while paused")
    w.post(f"/v1/sandboxes/{box}/resume", status=200)
    until(lambda: w.get(f"/v1/sandboxes/{box}/stats")["cpu_usec"] > before, "it does not go on")


@test
def limits_that_change_and_one_that_cannot():
    box = w.create(backend="gvisor", limits={"memory": "256m"})
    w.ask("PATCH", f"/v1/sandboxes/{box}", {"limits": {"memory": "512m"}}, status=200)
    eq(w.show(box)["limits"]["memory"], 512 << 20, "memory")
    e = check_error(w.ask("PATCH", f"/v1/sandboxes/{box}", {"limits": {"pids": 7}}), 501, "not_supported")
    ok("pids" in e["message"], e)


@test
def whoever_kills_it_the_truth_is_told():
    for name in ("runsc-sandbox", "runsc-gofer"):
        box = w.create(backend="gvisor")
        e = w.exec(box, "sleep 1000")
        found = processes_of(box)
        os.kill(found[name][0], signal.SIGKILL)
        eq(w.result(box, e)["signal"], 9, f"the exec's end, with {name} killed")
        until(lambda b=box: w.show(b)["state"] == "failed", lambda b=box: f"state {w.show(b)}")
        ok("killed from outside" in w.show(box)["error"], w.show(box)["error"])
        w.delete(box)
        until(lambda f=found: gone(f), lambda f=found: f"left: {f}")


@test
def a_damaged_state_is_told_and_removed():
    good = w.create(backend="gvisor")
    for what in ("bundle/config.json", "limits", "made", "place", ""):
        box = w.create(backend="gvisor")
        found = processes_of(box)
        place, = glob.glob(f"{w.run_dir}/kept/gvisor.*/{box}")
        if what:
            os.unlink(f"{place}/{what}")
        else:
            shutil.rmtree(place)
        if what in ("bundle/config.json", ""):
            e = check_error(w.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]}), 500)
            ok("config.json" in e["message"], e)
        elif what == "limits":
            r = w.ask("PATCH", f"/v1/sandboxes/{box}", {"limits": {"memory": "512m"}})
            ok(r.status >= 400 and "gvisor" in r.json()["message"], f"{r}")
        else:
            eq(w.run(box, "echo on")["stdout"], "on\n", f"without {what}")
        w.delete(box)
        until(lambda f=found: gone(f), lambda f=found, n=what: f"left without {n!r}: {f}")
        until(lambda b=box: not cgroups_of(b), lambda b=box: f"left: {cgroups_of(b)}")
    eq(w.run(good, "echo on")["stdout"], "on\n", "another one")


@test
def what_it_cannot_do_is_listed_by_name():
    found = {b["name"]: b for b in w.get("/v1/backends")["backends"]}["gvisor"]
    features = {f["name"]: f for f in found["features"]}
    ok(not features["checkpoint"]["ok"] and "stream" in features["checkpoint"]["detail"], features["checkpoint"])
    for name in ("pause", "ports"):
        ok(features[name]["ok"], features[name])


# In a pid namespace of its own, with which all ends that runsc leaves.
CHECKPOINT = r"""
cd "$1" || exit
r() { runsc --root "$PWD/state" --platform=ptrace --network=none --ignore-cgroups "$@"; }
quiet() { "$@" </dev/null >/dev/null 2>said; }
count() { r exec $1 cat /count; }
# It has counted on, from there: a new one would begin with 1.
counts() { a=$(count $1); while [ "$(count $1)" -le "$a" ]; do sleep 0.1; done; [ "$a" -ge ${2:-0} ]; }
quiet r run --detach --bundle bundle one || { cat said; exit 1; }
r exec one sh -c '(i=100; while :; do i=$((i+1)); echo $i >/next; mv /next /count; sleep 0.05; done) </dev/null >/dev/null 2>&1 &
until [ -s /count ]; do sleep 0.1; done'
counts one && n=$(count one) && echo "counts"
quiet r checkpoint --image-path a one && echo saved
quiet r restore --detach --bundle bundle --image-path a two && counts two $n && echo "counts on"
mkfifo stream
r exec two sh -c 'echo; while :; do sleep 1; done' <>stream >begun 2>&1 &
until [ -s begun ]; do sleep 0.1; done
quiet r checkpoint --image-path b two && echo saved
quiet r restore --detach --bundle bundle --image-path b three && echo restored
head -1 said
"""


@test
def a_checkpoint_takes_nothing_that_has_a_stream_of_ours():
    """What is said of runsc, by runsc: a process is restored, and none that has a descriptor from outside."""
    d = f"{w.dir}/checkpoint"
    for name in ("a", "b", "bundle/rootfs/bin", "bundle/rootfs/proc"):
        os.makedirs(f"{d}/{name}")
    shutil.copy(shutil.which("busybox"), f"{d}/bundle/rootfs/bin/busybox")
    for name in ("cat", "mv", "sh", "sleep"):
        os.symlink("busybox", f"{d}/bundle/rootfs/bin/{name}")
    with open(f"{d}/bundle/config.json", "w", encoding="ascii") as f:
        json.dump({"ociVersion": "1.0.2", "root": {"path": "rootfs"},
                   "process": {"user": {"uid": 0, "gid": 0}, "args": ["sleep", "1000"], "env": ["PATH=/bin"], "cwd": "/"},
                   "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
                   "linux": {"namespaces": [{"type": t} for t in ("pid", "network", "ipc", "uts", "mount")]}}, f)
    said = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", CHECKPOINT, "sh", d],
                          capture_output=True, text=True, timeout=120, check=False).stdout
    eq(said.splitlines()[:4], ["counts", "saved", "counts on", "saved"], "with streams of its own, and one that has ours")
    ok("restored" not in said and "bad file descriptor" in said, said)


@test
def a_port_needs_nothing_of_the_image():
    root = f"{w.dir}/bare"
    os.makedirs(f"{root}/srv")
    shutil.copy(shutil.which("busybox"), f"{root}/srv/busybox")
    with open(f"{root}/srv/page", "wb") as f:
        f.write(bytes(range(256)) * 4096)
    subprocess.run([WARREN, "image", "import", "--quiet", root, "bare:1"], check=True, timeout=60,
                   env={**os.environ, "WARREN_STATE": w.state}, stdout=subprocess.DEVNULL)
    box = w.create(backend="gvisor", image="bare:1")
    r = w.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["/bin/sh", "-c", "true"]})
    eq(check_error(r, r.status)["code"], "command_not_found", "a shell in this image")
    at = f"/v1/sandboxes/{box}/ports"
    check_error(w.ask("GET", f"{at}/8000/page"), 502, "port_closed")
    w.exec(box, ["/srv/busybox", "httpd", "-f", "-p", "127.0.0.1:8000", "-h", "/srv"])
    r = until(lambda: (r := w.ask("GET", f"{at}/8000/page")).status == 200 and r, "nothing at port 8000")
    ok(r.body == bytes(range(256)) * 4096, f"{len(r.body)} bytes, others than there are")
    eq(w.ask("GET", f"{at}/8000/none").status, 404, "the server's own word")
    # Nobody stays inside for a connection that has ended.
    until(lambda: w.get(f"/v1/sandboxes/{box}/stats")["pids"] <= 2, lambda: w.get(f"/v1/sandboxes/{box}/stats"))
    w.delete(box)


@test
def a_runsc_that_dies_is_told():
    empty()  # what is left is looked for among all processes of the test
    path = os.path.join(w.dir, "runsc")
    with open(path, "w", encoding="ascii") as f:
        f.write("#!/bin/sh\ncase $1 in --version) exec runsc --version;; esac\nkill -9 $$\n")
    os.chmod(path, 0o755)
    with World(config=f"backends:\n  gvisor:\n    runsc: {path}\n") as other:
        r = other.ask("POST", "/v1/sandboxes", {"backend": "gvisor"})
        e = check_error(r, r.status)
        ok(r.status >= 500 and "gvisor" in e["message"] and "runsc" in e["message"], e)
        other.check_empty()


def empty():
    for s in w.sandboxes():
        w.delete(s["id"])
    w.check_empty()


@test
def without_runsc_it_is_refused_by_name():
    empty()  # what is left is looked for among all processes of the test
    with World(config="backends:\n  gvisor:\n    runsc: /nowhere/runsc\n") as other:
        for spec in ({"backend": "gvisor"}, {"tier": "gvisor"}):
            r = other.ask("POST", "/v1/sandboxes", spec)
            e = check_error(r, r.status)
            ok(e["code"] in ("backend_unavailable", "tier_unavailable"), e)
            ok("runsc" in e["message"], e)
        until(lambda: other.sandboxes() == [], lambda: f"instead: {other.sandboxes()}")
        found = {b["name"]: b for b in other.get("/v1/backends")["backends"]}["gvisor"]
        eq((found["available"], found["fix"]), (False, "apt-get install runsc"), "as it is listed")


@test
def memory_is_its_own_and_its_end_is_told():
    box = w.create(backend="gvisor", limits={"memory": "128m"})
    eq(w.run(box, "head -c 20000000 /dev/zero | tail | wc -c")["stdout"], "20000000\n", "what fits")
    e = w.run(box, "head -c 300000000 /dev/zero | tail | wc -c")
    eq((e["result"]["signal"], e["result"]["oom"]), (9, True), "what does not")
    until(lambda: w.show(box)["state"] == "failed", lambda: f"state {w.show(box)}")
    ok("out of memory" in w.show(box)["error"], w.show(box)["error"])


def main():
    global w  # pylint: disable=global-statement
    try:
        if not os.access("/usr/bin/runsc", os.X_OK):
            raise Skip("runsc is not installed")
        with World(config="backend: native\n") as w:
            code = run_tests()
            empty()
            return code
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
