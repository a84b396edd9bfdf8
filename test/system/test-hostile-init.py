#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-hostile-init.py - a service whose sandbox has a hostile init: one that is silent, slow or dead, sends too
much, or sends false data

Prints TAP. The init of a sandbox is killed while the service is stopped, and test/hostile-init replaces it: with the
same user and the same socket. Then the service starts, and must detect it: it serves its other clients as before,
ends the hostile process before the sandbox becomes failed, and removes everything. A neighbour gets requests all the
time, and must not be affected.
"""
import contextlib
import glob
import http.client
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import WAIT, World, cgroups_of, start_time, stat_of, until  # pylint: disable=wrong-import-position

PROGRAM = os.path.join(BUILD, "test", "hostile-init")
SOON = 10  # in seconds, for operations that take milliseconds on an idle machine
MUTE = 40  # in seconds, until an init that does not answer counts as dead (its limit is 20)

if os.geteuid() != 0:
    print("1..0 # SKIP a process that takes another user needs root")
    sys.exit(0)


def read_state(w, box):
    with open(f"{w.run_dir}/boxes/{box}.state", "rb") as f:
        return f.read()


def fields(state):
    return dict(x.split(b"=", 1) for x in state.split(b"\0") if b"=" in x)


def ended(pid, start):
    try:
        return start_time(pid) != start
    except (OSError, IndexError):
        return True


class Hostile:
    """A hostile process in place of the init of @box."""

    def __init__(self, w, box, mode):
        state = read_state(w, box)
        f = fields(state)
        ok(b"init_pid" in f, "the state does not say which process init is")
        old, started = int(f[b"init_pid"]), int(f[b"init_start"])
        eq(start_time(old), started, "start of init, by its state")
        os.kill(old, signal.SIGKILL)
        until(lambda: ended(old, started), "init does not die")
        path = f"{w.run_dir}/boxes/{box}"
        os.unlink(path)
        self.process = subprocess.Popen([PROGRAM, path, str(int(f[b"base_id"]) + 65536), mode],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        eq(self.process.stdout.readline(), b"ready\n", "the hostile init")
        os.set_blocking(self.process.stdout.fileno(), False)
        self.pid, self.start = self.process.pid, start_time(self.process.pid)
        new = state.replace(b"init_pid=%d\0" % old, b"init_pid=%d\0" % self.pid)
        new = new.replace(b"init_start=%d\0" % started, b"init_start=%d\0" % self.start)
        with open(f"{path}.state", "wb") as out:
            out.write(new)

    def dead(self):
        return self.process.poll() is not None

    def close(self):
        if not self.dead():
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@contextlib.contextmanager
def hostile(mode, n=1):
    """A service, a running neighbour, and sandboxes with hostile inits."""
    w = World()
    found = []
    try:
        neighbour = w.create()
        boxes = [w.create() for _ in range(n)]
        eq(w.run(boxes[0], "echo fine")["stdout"], "fine\n", "before")
        w.stop()
        for box in boxes:
            found.append(Hostile(w, box, mode))
        begun = time.monotonic()
        w.start()
        ok(time.monotonic() - begun < SOON, f"it took {time.monotonic() - begun:.1f} s to start")
        yield w, neighbour, boxes, found
        fine(w, neighbour)
        for box in boxes:
            gone(w, box)
        w.delete(neighbour)
        w.stop()
    finally:
        for h in found:
            h.close()
        w.discard()


def timed(what, f, *args, **kw):
    begun = time.monotonic()
    r = f(*args, **kw)
    took = time.monotonic() - begun
    ok(took < SOON, f"{what} took {took:.1f} s")
    return r


def fine(w, neighbour):
    """Checks that other sandboxes are served as before."""
    eq(timed("a neighbour's exec", w.run, neighbour, "echo here")["stdout"], "here\n", "a neighbour's output")
    other = timed("a neighbour's create", w.create)
    timed("a neighbour's stats", w.get, f"/v1/sandboxes/{other}/stats")
    timed("a neighbour's delete", w.delete, other)
    eq(timed("health", w.get, "/healthz")["status"], "ok", "health")


def gone(w, box):
    """Checks that the sandbox can be deleted without leftovers."""
    if w.ask("GET", f"/v1/sandboxes/{box}").status != 404:
        timed("the delete", w.delete, box)
    eq([x for x in os.listdir(f"{w.run_dir}/boxes") if x.startswith(box)], [], "what is left of it in boxes")
    eq(cgroups_of(box), [], "its cgroups")


def fails(w, box, h, seconds):
    """Checks that the sandbox fails, and that the process is dead by then, because it is ended first."""
    end = time.monotonic() + seconds
    while w.show(box)["state"] != "failed":
        ok(time.monotonic() < end, f"it is {w.show(box)['state']} after {seconds} s: {w.said()}")
        time.sleep(0.02)
    ok(h.dead(), "it is failed, and its init lives")
    eq(w.ask("POST", f"/v1/sandboxes/{box}/run", {"command": "true"}).status, 409, "an exec in it")


def ask_in_vain(w, box, seconds):
    """Starts an exec, which must get an error in time."""
    begun = time.monotonic()
    with w.client(timeout=seconds) as c:
        r = c.ask("POST", f"/v1/sandboxes/{box}/run", {"command": "true"})
    ok(r.status >= 400, f"an exec: {r}")
    ok(time.monotonic() - begun < seconds, "an exec takes for ever")


@test
def a_sandbox_with_a_silent_init_is_deleted_at_once():
    for mode in ("mute", "deaf", "dribble", "progress", "late"):
        with hostile(mode) as (w, neighbour, (box,), (h,)):
            fine(w, neighbour)
            timed(f"{mode}: the delete", w.delete, box)
            ok(h.dead(), f"{mode}: it lives after the delete")


@test
def a_sandbox_with_a_silent_init_can_be_measured_paused_and_limited():
    with hostile("mute") as (w, _, (box,), (h,)):
        timed("stats", w.get, f"/v1/sandboxes/{box}/stats")
        timed("update", w.ask, "PATCH", f"/v1/sandboxes/{box}", {"limits": {"memory": "300m"}}, status=200)
        timed("pause", w.post, f"/v1/sandboxes/{box}/pause")
        eq(w.show(box)["state"], "paused", "state")
        timed("resume", w.post, f"/v1/sandboxes/{box}/resume")
        ok(not h.dead(), "it was ended by that")


@test
def an_init_that_answers_late_or_never_is_killed():
    for mode in ("mute", "dribble", "late"):
        with hostile(mode) as (w, neighbour, (box,), (h,)):
            if mode == "late":
                ask_in_vain(w, box, MUTE)
            fails(w, box, h, MUTE)
            fine(w, neighbour)


@test
def an_init_that_violates_the_protocol_is_killed_at_once():
    for mode in ("malformed", "version", "close", "flood", "busy", "unkept", "progress", "deaf"):
        with hostile(mode) as (w, neighbour, (box,), (h,)):
            fails(w, box, h, SOON)
            fine(w, neighbour)


@test
def an_init_whose_sandbox_persists_is_killed_once_its_files_can_be_kept():
    with World() as w:
        r = w.ask("POST", "/v1/sandboxes", {"image": "host", "persist": True, "limits": {"disk": "32m"}})
        if r.status >= 400 and "loop devices" in r.json()["message"]:
            raise Skip("this machine has no loop devices")
        box, neighbour = r.json()["id"], w.create()
        w.run(box, "echo kept >/root/x; sync")
        w.stop()
        h = Hostile(w, box, "close")
        disks = os.path.dirname(glob.glob(f"{w.state}/saved/disks.*/{box}")[0])
        try:
            os.rename(disks, f"{w.dir}/aside")
            os.symlink(disks, disks)  # now each look at the disk is an error
            w.start()
            until(lambda: "retrying" in w.said(), w.said)
            eq(w.run(neighbour, "echo here")["stdout"], "here\n")
            time.sleep(3)  # its end has failed by now, or is about to; either must be right
            eq(w.show(box)["state"], "running")
            os.unlink(disks)
            os.rename(f"{w.dir}/aside", disks)
            until(lambda: w.show(box)["state"] == "stopped", lambda: (w.show(box), w.said()))
            ok(h.dead(), "the hostile init lives on")
            eq(w.run(box, "cat /root/x")["stdout"], "kept\n")
            w.delete(box)
        finally:
            h.close()


@test
def wrong_messages_about_an_exec_end_the_sandbox():
    for mode in ("zero", "capacity", "overrun", "unasked"):
        with hostile(mode) as (w, neighbour, (box,), (h,)):
            with w.client(timeout=MUTE) as c:
                r = c.ask("POST", f"/v1/sandboxes/{box}/execs", {"command": "true"})
                if r.status == 201:
                    with contextlib.suppress(http.client.HTTPException):
                        c.ask("GET", f"/v1/sandboxes/{box}/execs/{r.json()['id']}/output")
            fails(w, box, h, SOON)
            if mode == "overrun":
                sizes = [e.stat().st_size for e in os.scandir(f"{w.state}/serve/journals")]
                ok(max(sizes) <= (1 << 20) + 4096, f"journals of {sizes} bytes")
            fine(w, neighbour)


@test
def a_directory_cannot_be_stdin():
    with hostile("descriptors") as (w, neighbour, (box,), (h,)):
        e = w.exec(box, "cat", stdin=True)
        r = w.ask("POST", f"/v1/sandboxes/{box}/execs/{e}/stdin", b"x" * 100, headers={"Content-Type": "application/octet-stream"})
        ok(r.status >= 400, f"input into a directory: {r}")
        fine(w, neighbour)


@test
def many_silent_inits_do_not_delay_clients():
    with hostile("mute", 12) as (w, neighbour, boxes, found):
        fine(w, neighbour)
        begun = time.monotonic()
        for box in boxes[:6]:
            w.delete(box)
        ok(time.monotonic() - begun < SOON, "six deletes")
        ok(all(h.dead() for h in found[:6]), "some live")
        # The next start does not wait for the remaining ones.
        w.stop()
        begun = time.monotonic()
        w.start()
        ok(time.monotonic() - begun < SOON, "a second start")
        fine(w, neighbour)


@test
def the_service_can_be_stopped_while_it_starts():
    """SIGTERM works at any moment, even if inits do not answer."""
    with hostile("mute", 4) as (w, _, _, _):
        w.stop()
        for wait in (0, 0.05, 0.2, 0.6):
            w.start(wait=False)
            time.sleep(wait)
            w.process.terminate()
            begun = time.monotonic()
            w.process.wait(WAIT)
            ok(time.monotonic() - begun < SOON, f"SIGTERM after {wait} s took {time.monotonic() - begun:.1f} s")
        w.start()


@test
def a_warden_that_hangs_is_not_healthy():
    w = World()
    try:
        eq(w.get("/healthz")["status"], "ok", "health")
        os.kill(w.warden, signal.SIGSTOP)
        until(lambda: stat_of(w.warden)[0] == "T", "it does not stop")
        r = timed("health", w.ask, "GET", "/healthz")
        os.kill(w.warden, signal.SIGCONT)
        eq(r.status, 503, "health of a service whose warden hangs")
        eq({c["name"]: c["ok"] for c in r.json()["checks"]}, {"store": True, "disk": True, "warden": False}, "checks")
        until(lambda: w.ask("GET", "/healthz").status == 200, "it is not healthy again")
        w.stop()
    finally:
        w.discard()


def limit_files(pid, box, w, to=None):
    """Sets the limit as init's user, who may do so without CAP_SYS_RESOURCE; it is a user id of the host, outside the
    sandbox."""
    user = int(fields(read_state(w, box))[b"base_id"]) + 65536
    r, t = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        was = resource.prlimit(pid, resource.RLIMIT_NOFILE, *([to] if to else []))
        os.write(t, b"%d %d" % was)
        os._exit(0)
    os.close(t)
    with os.fdopen(r) as f:
        was = tuple(int(x) for x in f.read().split())
    with contextlib.suppress(ChildProcessError):  # another thread reaps children too
        os.waitpid(child, 0)
    return was


@test
def an_init_without_descriptors_does_not_spin():
    """An init accepts connections again when it has descriptors."""
    w = World()
    try:
        box = w.create()
        pid = int(fields(read_state(w, box))[b"init_pid"])
        used = len(os.listdir(f"/proc/{pid}/fd"))
        old = limit_files(pid, box, w)
        limit_files(pid, box, w, (used, old[1]))
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.connect(f"{w.run_dir}/boxes/{box}")

            def ticks():
                with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
                    return sum(int(x) for x in f.read().rpartition(")")[2].split()[11:13])
            before = ticks()
            time.sleep(2)
            spent = ticks() - before
            ok(spent < 50, f"init spent {spent} ticks in two seconds")
            limit_files(pid, box, w, old)
            s.settimeout(SOON)
            hello = (2).to_bytes(2, "little") + (8).to_bytes(2, "little") + (1).to_bytes(4, "little") + bytes(8)
            s.send(hello)
            ok(len(s.recv(100)) == 32, "it does not answer again")
        eq(w.run(box, "echo fine")["stdout"], "fine\n", "output")
        w.delete(box)
        w.stop()
    finally:
        w.discard()


# A create waits while the file `hang` exists.
HANGS = """
backends:
  docker: false
  gvisor: false
  slow:
    kind: command
    create: [sh, -c, 'while test -e @DIR@/hang; do sleep 0.1; done']
    exec: [env, '{argv}']
    destroy: ['true']
"""


@test
def hanging_creates_do_not_block_other_requests():
    with World(config=HANGS) as w:
        greedy, modest = (w.token("read", "write", "exec", tenant=name) for name in ("greedy", "modest"))
        box = w.create(token=modest, backend="slow")
        with open(f"{w.dir}/hang", "w", encoding="ascii"):
            pass
        threads = [threading.Thread(target=w.ask, args=("POST", "/v1/sandboxes", {"backend": "slow"}),
                                    kwargs={"token": greedy}) for _ in range(36)]
        for t in threads:
            t.start()
        until(lambda: len(w.get("/v1/sandboxes", token=greedy, query={"state": "creating"})["sandboxes"]) >= 36, "36 creates")
        # The warden and its threads still answer; an error because the backend has no statistics is also an answer.
        timed("stats of another tenant", w.ask, "GET", f"/v1/sandboxes/{box}/stats", token=modest)
        timed("a delete of another tenant", w.delete, box, token=modest)
        os.unlink(f"{w.dir}/hang")
        for t in threads:
            t.join(WAIT)
        for s in w.get("/v1/sandboxes", token=greedy, query={"limit": 1000})["sandboxes"]:
            w.delete(s["id"], token=greedy)


if __name__ == "__main__":
    sys.exit(run_tests())
