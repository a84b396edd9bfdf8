#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-gvisor.py - the gVisor tier through the service: selection, isolation, and cleanup

WARREN_TEST_BACKEND=gvisor runs the general suites of the service on this backend.
"""
import glob
import io
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import WARREN, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, cgroups_of, check_error, slurp, stat_of, until  # pylint: disable=wrong-import-position

QUESTION = "uname -r; dmesg 2>/dev/null | head -1; grep -c . /proc/version"
CGROUP = "/sys/fs/cgroup"


def processes_of(box):
    """The sandbox's processes on the host, by its cgroup: pids by name."""
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
def a_sandbox_has_the_requested_tier():
    box = w.create(tier="gvisor")
    s = w.show(box)
    eq((s["backend"], s["tier"]), ("gvisor", "gvisor"), "of one that asks for the tier")
    enforced = {e["name"]: e for e in s["enforced"]}
    for name in ("kernel", "memory", "cpus", "pids", "disk", "nofile", "network", "capabilities", "no_new_privs"):
        ok(enforced[name]["enforced"], enforced)
    inside = w.run(box, QUESTION)["stdout"]
    ok("Starting gVisor" in inside, inside)
    ok(not inside.startswith(platform.release()), inside)
    # The control: the other tier gives a different answer.
    other = w.run(w.create(backend="native"), QUESTION)["stdout"]
    ok(other.startswith(platform.release()) and "gVisor" not in other, other)


@test
def tools_that_do_not_work_in_gvisor_are_reported():
    """The report depends on the tools of this image, and appears in `show`, at creation, and in `warren run`."""
    box = w.create(backend="gvisor")
    fails = w.run(box, "ls -d /")["result"]["exit_code"] != 0
    told = [e for e in w.show(box)["enforced"] if e["name"] == "stat"]
    eq([e["enforced"] for e in told], [False] if fails else [], told)
    said = subprocess.run([WARREN, "create", "--backend", "gvisor"], capture_output=True, text=True, check=False, timeout=60,
                          env={**os.environ, "WARREN_HOST": f"unix:{w.socket}"})
    eq(said.returncode, 0, said.stderr)
    eq("'ls' and 'stat'" in said.stderr, fails, said.stderr)
    w.delete(said.stdout.strip())
    w.delete(box)
    # If the tools of an image need no such feature, nothing is reported.
    root = f"{w.dir}/plain"
    os.makedirs(f"{root}/bin")
    shutil.copy(shutil.which("busybox"), f"{root}/bin/busybox")
    for name in ("sh", "ls"):
        os.symlink("busybox", f"{root}/bin/{name}")
    p = subprocess.run([WARREN, "run", "--json", "--backend", "gvisor", "--image", f"dir:{root}", "--", "ls", "-d", "/"],
                       capture_output=True, text=True, check=False, timeout=60)
    eq(p.returncode, 0, p.stderr)
    eq([e for e in json.loads(p.stdout)["enforced"] if e["name"] == "stat"], [], p.stdout)


@test
def processes_of_a_gvisor_sandbox_are_unprivileged():
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
def sessions_and_files_work_in_gvisor():
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
def an_archive_is_read_without_a_program_for_each_file():
    """Starting a program takes milliseconds in gVisor, so the guest agent makes the system calls."""
    box = w.create(backend="gvisor")

    def last_pid():
        return int(w.run(box, "echo $$")["stdout"])

    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for i in range(100):
            entry = tarfile.TarInfo(f"d/f{i}")
            entry.size, entry.mtime, entry.mode = 2, 1000000000 + i, 0o755
            tar.addfile(entry, io.BytesIO(b"x\n"))
    before = last_pid()
    w.ask("PUT", f"/v1/sandboxes/{box}/files/tar?path=/tmp", archive.getvalue(), status=200)
    started = last_pid() - before
    ok(started < 20, f"{started} processes for 100 files")
    entry = w.get(f"/v1/sandboxes/{box}/files/stat?path=/tmp/d/f99")
    eq((entry["mode"], entry["modified_at"][:19]), ("0755", "2001-09-09T01:48:19"), "the last of them")
    eq(w.run(box, "cat /tmp/d/f* | wc -l")["stdout"], "100\n", "lines")
    w.delete(box)


@test
def a_paused_sandbox_does_not_run():
    box = w.create(backend="gvisor")
    w.exec(box, "while :; do :; done")
    w.post(f"/v1/sandboxes/{box}/pause", status=200)
    before = w.get(f"/v1/sandboxes/{box}/stats")["cpu_usec"]
    time.sleep(0.3)
    eq(w.get(f"/v1/sandboxes/{box}/stats")["cpu_usec"], before, "time while paused")
    w.post(f"/v1/sandboxes/{box}/resume", status=200)
    until(lambda: w.get(f"/v1/sandboxes/{box}/stats")["cpu_usec"] > before, "it does not go on")


@test
def the_memory_limit_can_be_changed_and_the_process_limit_cannot():
    box = w.create(backend="gvisor", limits={"memory": "256m"})
    w.ask("PATCH", f"/v1/sandboxes/{box}", {"limits": {"memory": "512m"}}, status=200)
    eq(w.show(box)["limits"]["memory"], 512 << 20, "memory")
    e = check_error(w.ask("PATCH", f"/v1/sandboxes/{box}", {"limits": {"pids": 7}}), 501, "not_supported")
    ok("pids" in e["message"], e)


@test
def the_reason_for_the_end_of_a_sandbox_is_reported():
    for name, restored in (("runsc-sandbox", False), ("runsc-gofer", False), ("runsc-sandbox", True), ("runsc-gofer", True)):
        box = w.create(backend="gvisor")
        if restored:
            save(box, status=200)
            w.post(f"/v1/sandboxes/{box}/resume")
        e = w.exec(box, "sleep 1000")
        found = processes_of(box)
        os.kill(found[name][0], signal.SIGKILL)
        until(lambda b=box: w.show(b)["state"] == "failed", lambda b=box: f"state {w.show(b)}")
        eq(w.ask("GET", f"/v1/sandboxes/{box}/execs/{e}").json()["state"], "lost", f"the exec's end, with {name} killed")
        ok("killed from outside" in w.show(box)["error"], w.show(box)["error"])
        w.delete(box)
        until(lambda f=found: gone(f), lambda f=found: f"left: {f}")


@test
def a_kill_from_inside_is_not_reported_as_one_from_outside():
    box = w.create(backend="gvisor")
    eq(w.run(box, "kill -0 1 && echo can")["stdout"], "can\n")
    found = processes_of(box)
    w.exec(box, "kill -9 1; sleep 1000")
    until(lambda: w.show(box)["state"] == "failed", lambda: f"state {w.show(box)}")
    said = w.show(box)["error"]
    ok("killed from inside" in said and "outside" not in said, said)
    w.delete(box)
    until(lambda: gone(found), lambda: f"left: {found}")


@test
def a_damaged_state_is_reported_and_removed():
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
    # If the deletion fails, the error is reported, and the sandbox is kept.
    box = w.create(backend="gvisor")
    found = processes_of(box)
    place, = glob.glob(f"{w.run_dir}/kept/gvisor.*/{box}")
    shutil.rmtree(place)
    with open(place, "w", encoding="ascii"):
        r = w.ask("DELETE", f"/v1/sandboxes/{box}")
    ok(r.status >= 400 and place in r.json()["message"], r)
    eq(w.show(box)["state"], "deleting", "state")
    os.unlink(place)
    until(lambda: w.ask("DELETE", f"/v1/sandboxes/{box}").status in (204, 404), lambda: w.show(box))
    until(lambda: gone(found) and not cgroups_of(box), lambda: f"left: {found}, {cgroups_of(box)}")
    eq(w.run(good, "echo on")["stdout"], "on\n", "another one")


@test
def the_features_of_gvisor_are_listed_by_name():
    found = {b["name"]: b for b in w.get("/v1/backends")["backends"]}
    features = {f["name"]: f for f in found["gvisor"]["features"]}
    for name in ("pause", "ports", "checkpoint"):
        ok(features[name]["ok"], features[name])
    ok("stream of a command" in features["checkpoint"]["detail"], features["checkpoint"])
    ok(not features["watch"]["ok"], features["watch"])


COUNTER = ("(i=100; while :; do i=$((i+1)); echo $i >/root/next && mv /root/next /root/count; sleep 0.05; done) "
           "</dev/null >/dev/null 2>&1 & until [ -s /root/count ]; do sleep 0.05; done")


def fill(mib):
    """A shell variable of @mib MiB, built without a pipe, which would move only 128 bytes at a time."""
    return f"x={'x' * mib}; for i in {' '.join('x' * 20)}; do x=$x$x; done"


def count(box):
    r = w.run(box, "cat /root/count")
    ok(r["stdout"], f"count: {r}")
    return int(r["stdout"])


def save(box, **kw):
    return w.ask("POST", f"/v1/sandboxes/{box}/pause", {"checkpoint": True}, **kw)


def begin_save(c, box):
    """Sends the request over the connection @c, and waits until it is in progress."""
    c.open().request("POST", f"/v1/sandboxes/{box}/pause", '{"checkpoint": true}', {"Content-Type": "application/json"})
    until(images, "it does not begin")


def counts_on(box, n):
    """The counter continues from @n; a new one would begin with 101."""
    ok(count(box) >= n, "it started again")
    n = count(box)
    until(lambda: count(box) > n, "it does not count on")


def images():
    """The unnamed files that shims have open in the state directory, as paths in /proc."""
    found = []
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            name = os.readlink(path)
        except OSError:
            continue
        if name.startswith(w.state) and name.endswith("(deleted)"):
            found.append(path)
    return found


def workers(shim):
    """The children of the shim that have such a file open."""
    pids = {path.split("/")[2] for path in images()}
    return [int(pid) for pid in pids if stat_of(pid)[1] == str(shim)]


@test
def a_saved_sandbox_needs_no_memory_and_continues():
    for network in ("loopback", "none"):
        box = w.create(backend="gvisor", network=network, limits={"memory": "300m", "disk": "50m"}, labels={"a": "b"})
        before = w.show(box)
        w.run(box, COUNTER)
        # 60 MB of memory that is in no file
        w.run(box, f"({fill(60)}; while :; do sleep 1; echo ${{#x}} >/root/size; done) "
                   "</dev/null >/dev/null 2>&1 & until [ -s /root/size ]; do sleep 0.1; done; echo kept >/srv/file; rm /root/size")
        w.ask("PUT", f"/v1/sandboxes/{box}/files", b"blob", query={"path": "/root/blob"}, status=201)
        n = count(box)
        used = w.get(f"/v1/sandboxes/{box}/stats")["memory"]
        found = processes_of(box)
        ok(used > 60000000 and found["runsc-sandbox"], f"{used} bytes, {found}")
        s = save(box, status=200).json()
        eq((s["state"], s["checkpoint"]), ("paused", True), "as it is answered")
        ok(gone(found) and not processes_of(box), f"left: {found}")
        stats = w.get(f"/v1/sandboxes/{box}/stats")
        ok(stats["memory"] < used / 2 and stats["pids"] == 0, f"{stats}, before: {used}")
        eq([b["checkpoint"] for b in w.sandboxes() if b["id"] == box], [True], "in the list")
        p = subprocess.run([WARREN, "pause", "--checkpoint", "--json", box], check=True, timeout=60, stdout=subprocess.PIPE,
                           env={**os.environ, "WARREN_HOST": f"unix:{w.socket}"})  # repeating it changes nothing
        ok(json.loads(p.stdout)["checkpoint"], p.stdout)
        for method, path, body in (("POST", "run", {"argv": ["true"]}), ("POST", "sessions", {}), ("GET", "files?path=/root/blob", None)):
            check_error(w.ask(method, f"/v1/sandboxes/{box}/{path}", body), 409)
        w.ask("PATCH", f"/v1/sandboxes/{box}", {"limits": {"memory": "400m"}}, status=200)
        s = w.post(f"/v1/sandboxes/{box}/resume")
        eq((s["state"], s["checkpoint"]), ("running", False), "resumed")
        counts_on(box, n)
        until(lambda b=box: w.run(b, "cat /root/size")["stdout"] == f"{60 << 20}\n", "its memory is another")
        eq(w.run(box, "cat /srv/file /root/blob")["stdout"], "kept\nblob", "its files")
        eq(w.run(box, "head -c 70000000 /dev/zero >/srv/large")["result"]["exit_code"], 1, "beyond the limit of its disk")
        w.run(box, "rm /srv/large")
        eq(w.run(box, "grep -c lo: /proc/net/dev")["stdout"], f"{int(network == 'loopback')}\n", "loopback")
        after = w.show(box)
        eq({k: after[k] for k in ("labels", "limits", "network")},
           {"labels": {"a": "b"}, "limits": {**before["limits"], "memory": 400 << 20}, "network": network}, "what it is")
        eq(images(), [], "files of what was saved")
        # A restored sandbox can be saved again.
        n = count(box)
        save(box, status=200)
        w.post(f"/v1/sandboxes/{box}/resume")
        counts_on(box, n)
        w.delete(box)


@test
def a_process_that_cannot_be_saved_is_named_and_nothing_changes():
    box = w.create(backend="gvisor")
    w.run(box, COUNTER)

    def refused(*words):
        message = check_error(save(box), 409, "conflict")["message"]
        for word in ("gvisor", *words):
            ok(word in message, message)
        eq((w.show(box)["state"], w.show(box)["checkpoint"]), ("running", False), "state")
        counts_on(box, 0)

    def tail_runs():
        return w.run(box, "grep -qx tail /proc/[0-9]*/comm")["result"]["exit_code"] == 0

    e = w.exec(box, "exec tail -f /dev/null")
    until(tail_runs, "it does not begin")
    refused("a command is running", "(tail)")
    w.post(f"/v1/sandboxes/{box}/execs/{e}/signal", {"signal": "KILL"}, status=204)
    w.result(box, e)
    e = w.exec(box, "exec </dev/null >/dev/null 2>&1; exec tail -f /dev/null")
    until(tail_runs, "it does not begin")
    refused("a command is running", "(tail)")
    w.post(f"/v1/sandboxes/{box}/execs/{e}/signal", {"signal": "KILL"}, status=204)
    w.result(box, e)
    sid = w.post(f"/v1/sandboxes/{box}/sessions", {}, status=201)["id"]
    refused("a command is running", "sh)")
    eq(w.post(f"/v1/sandboxes/{box}/sessions/{sid}/run", {"command": "echo on"})["stdout"], "on\n", "the session")
    w.ask("DELETE", f"/v1/sandboxes/{box}/sessions/{sid}", status=204)
    w.run(box, "tail -f /dev/null >/root/log & echo $! >/root/pid; until grep -qx tail /proc/$!/comm; do sleep 0.1; done")
    refused("(tail)", "stream", f"process {w.run(box, 'cat /root/pid')['stdout'].strip()} ")
    w.run(box, "kill $(cat /root/pid)")
    w.run(box, "(exec 5>/root/gone; rm /root/gone; exec tail -f /dev/null) </dev/null >/dev/null 2>&1 & echo $! >/root/pid; "
               "until grep -qx tail /proc/$!/comm; do sleep 0.1; done")
    refused("tail", "removed")
    w.run(box, "kill $(cat /root/pid)")
    w.run(box, "until ! grep -qx tail /proc/[0-9]*/comm; do sleep 0.1; done")
    # A sandbox is also refused if its image would not fit into its limit.
    w.ask("PATCH", f"/v1/sandboxes/{box}", {"limits": {"memory": w.get(f"/v1/sandboxes/{box}/stats")["memory"] + (8 << 20)}}, status=200)
    refused("memory", "limit")
    w.ask("PATCH", f"/v1/sandboxes/{box}", {"limits": {"memory": "512m"}}, status=200)
    # Without these obstacles, the checkpoint works.
    n = count(box)
    save(box, status=200)
    w.post(f"/v1/sandboxes/{box}/resume")
    counts_on(box, n)
    w.post(f"/v1/sandboxes/{box}/pause")
    ok("resume" in check_error(save(box), 409, "wrong_state")["message"], "of one that is paused")
    w.delete(box)
    other = w.create(backend="native")
    ok("not supported by backend 'native'" in check_error(save(other), 501, "not_supported")["message"], "who does not")
    eq(w.run(other, "echo on")["stdout"], "on\n", "unharmed")
    check_error(w.ask("POST", f"/v1/sandboxes/{other}/pause", {"checkpoint": "yes"}), 400)
    w.delete(other)


@test
def a_saved_sandbox_outlives_the_service():
    box = w.create(backend="gvisor")
    w.run(box, COUNTER)
    n = count(box)
    save(box, status=200)
    w.kill("api", "warden")
    w.start()
    eq((w.show(box)["state"], w.show(box)["checkpoint"]), ("paused", True), "after the service was killed")
    w.post(f"/v1/sandboxes/{box}/resume")
    counts_on(box, n)
    # The service is killed, so the result of the checkpoint is lost.
    n = count(box)
    with w.client() as c:
        begin_save(c, box)
        w.kill("api", "warden")
    w.start()
    eq(w.show(box)["state"], "paused", "of one that was about to be saved")
    until(lambda: w.ask("POST", f"/v1/sandboxes/{box}/resume").status == 200, lambda: w.show(box))
    counts_on(box, n)
    save(box, status=200)
    ok(images(), "nothing is saved")
    w.delete(box)
    eq(images(), [], "what is left of it")
    until(lambda: not cgroups_of(box), lambda: f"left: {cgroups_of(box)}")


@test
def a_damaged_checkpoint_is_reported():
    box = w.create(backend="gvisor")
    w.run(box, COUNTER)
    save(box, status=200)
    path, = images()
    os.truncate(path, os.stat(path).st_size // 2)
    e = check_error(w.ask("POST", f"/v1/sandboxes/{box}/resume"), 502, "sandbox_failed")
    ok("restore" in e["message"], e)
    until(lambda: w.show(box)["state"] == "failed", lambda: w.show(box))
    ok("restore" in w.show(box)["error"], w.show(box)["error"])
    w.delete(box)
    until(lambda: not cgroups_of(box), lambda: f"left: {cgroups_of(box)}")
    eq(images(), [], "what is left of it")
    # A sandbox that passes the checks, but cannot be saved, is lost, and the error says so.
    box = w.create(backend="gvisor")
    w.run(box, "mkdir /root/d; cd /root/d; sleep 1000 </dev/null >/dev/null 2>&1 & rmdir /root/d")
    e = check_error(save(box), 502, "sandbox_failed")
    ok("could not be saved, and has ended" in e["message"] and "removed" in e["message"], e)
    until(lambda: w.show(box)["state"] == "failed", lambda: w.show(box))
    ok("could not be saved" in w.show(box)["error"], w.show(box)["error"])
    w.delete(box)
    # The shim of a saved sandbox, which holds the image, is killed.
    box = w.create(backend="gvisor")
    save(box, status=200)
    path, = images()
    os.kill(int(path.split("/")[2]), signal.SIGKILL)
    until(lambda: w.show(box)["state"] == "failed", lambda: w.show(box))
    w.delete(box)
    eq(images(), [], "what is left of it")


@test
def a_killed_checkpoint_does_not_harm_the_sandbox():
    """The checkpoint is in progress, and the sandbox's kernel is stopped. If no process is killed, the sandbox
    continues."""
    for whom in (None, "warren-worker", "warren-shim"):
        box = w.create(backend="gvisor")
        w.run(box, COUNTER)
        n = count(box)
        found = processes_of(box)
        (sentry,) = found["runsc-sandbox"]
        os.kill(sentry, signal.SIGSTOP)
        with w.client() as c:
            begin_save(c, box)
            pids = {int(path.split("/")[2]) for path in images()}
            shim = next(pid for pid in pids if slurp(f"/proc/{pid}/comm") == "warren-shim\n")
            if whom == "warren-worker":
                until(lambda k=shim: workers(k), "nobody saves it")
                os.kill(workers(shim)[0], signal.SIGKILL)
            elif whom:
                os.kill(shim, signal.SIGKILL)
            else:
                os.kill(sentry, signal.SIGCONT)
            answer = c.http.getresponse()
            said = answer.read()
        if whom:
            ok(answer.status == 502 and b"lost" in said, f"{whom}: the answer is {answer.status}, {said}")
            until(lambda b=box: w.show(b)["state"] == "failed", lambda b=box: w.show(b))
            ok(w.show(box)["error"], w.show(box))
        else:
            eq(answer.status, 200, f"status of the answer, when nobody is killed: {said}")
            w.post(f"/v1/sandboxes/{box}/resume")
            counts_on(box, n)
        w.delete(box)
        until(lambda f=found: gone(f), lambda f=found, b=whom: f"left by {b}: {f}")
        until(lambda b=box: not cgroups_of(b), lambda b=box: f"left: {cgroups_of(b)}")
        eq(images(), [], "what is left of it")


# It runs in a separate pid namespace, so that all processes of runsc end with it.
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
# Several: the number of a descriptor that the new kernel happens to have is taken for that.
for i in 1 2 3 4 5; do r exec two sh -c 'echo; while :; do sleep 1; done' <>stream >>begun 2>&1 & done
until [ "$(wc -l <begun)" -ge 5 ]; do sleep 0.1; done
quiet r checkpoint --image-path b two && echo saved
quiet r restore --detach --bundle bundle --image-path b three && echo restored
head -1 said
"""


@test
def a_checkpoint_refuses_processes_with_a_stream_from_outside():
    """Checks with runsc that a process is restored, unless it has a descriptor from outside."""
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
def a_full_disk_is_reported_and_nothing_changes():
    empty()  # the check for leftovers looks at all processes of the test
    state = f"{w.dir}/small"
    os.mkdir(state)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", state], check=True)
    try:
        with World(config="backend: native\n", state=state) as other:
            box = other.create(backend="gvisor", limits={"memory": "400m"})
            other.run(box, f"({fill(90)}; while :; do sleep 1; : >/root/there; done) "
                           "</dev/null >/dev/null 2>&1 & until [ -e /root/there ]; do sleep 0.1; done; rm /root/there")
            e = check_error(other.ask("POST", f"/v1/sandboxes/{box}/pause", {"checkpoint": True}), 507, "disk_full")
            ok("reserve" in e["message"] and state in e["message"], e)
            until(lambda: other.run(box, "test -e /root/there")["result"]["exit_code"] == 0, "it does not go on")
            # A copy of a file is also refused if it would fill the disk.
            other.run(box, "head -c 70000000 /dev/zero >/root/large; echo small >/root/small")
            files = f"/v1/sandboxes/{box}/files"
            e = check_error(other.ask("GET", files, query={"path": "/root/large"}), 507, "disk_full")
            ok("no space for a copy" in e["message"], e)
            eq(other.ask("GET", files, query={"path": "/root/small"}).body, b"small\n", "one that fits")
            other.delete(box)
            other.check_empty()
    finally:
        subprocess.run(["umount", "-l", state], check=True)


@test
def a_port_can_be_used_without_tools_in_the_image():
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
    # Each open connection has one process inside, besides the first process and the servers.
    def pids():
        return w.get(f"/v1/sandboxes/{box}/stats")["pids"]
    until(lambda: pids() <= 2, lambda: f"{pids()} processes when all was answered")
    w.exec(box, ["/srv/busybox", "nc", "-l", "-p", "8001"], stdin=True)
    until(lambda: ":8001 " in w.run(box, ["/srv/busybox", "netstat", "-ltn"])["stdout"], "a server that says nothing")
    until(lambda: pids() == 3, lambda: f"{pids()} processes, nobody connected")
    with w.client() as c:
        http = c.open()
        http.putrequest("GET", f"{at}/8001/")
        http.endheaders()
        until(lambda: pids() == 4, lambda: f"{pids()} processes with a connection open")
    until(lambda: pids() <= 2, lambda: f"{pids()} processes after it")
    w.delete(box)


@test
def a_runsc_that_dies_is_reported():
    empty()  # the check for leftovers looks at all processes of the test
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
def a_missing_runsc_is_named_in_the_error():
    empty()  # the check for leftovers looks at all processes of the test
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
def an_out_of_memory_sandbox_is_reported_and_others_continue():
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
