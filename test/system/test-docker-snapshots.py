#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-docker-snapshots.py - snapshots and resets of docker sandboxes: images that lie, full disks, daemons that fail

Prints TAP. The test starts a separate daemon. test-docker-suites.py has the tests of snapshots that apply to all backends.
"""
import contextlib
import glob
import http.client
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from dockerd import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from fault_world import MIB, small_disk  # pylint: disable=wrong-import-position
from serve_world import World, refused, until  # pylint: disable=wrong-import-position

IMAGE = "host-like:1"
FAILED = b'HTTP/1.1 500 Failed\r\nContent-Type: application/json\r\nContent-Length: 29\r\n\r\n{"message":"it is too early"}'


def docker():
    return shared(lambda d: d.call("import", "-", IMAGE, input=tar(host_like())))


def world(d, **kw):
    return World(config=f"backends:\n  docker:\n    kind: docker\n    socket: {d.socket}\n", **kw)


def make(w, image=IMAGE, **kw):
    return w.post("/v1/sandboxes", {"backend": "docker", "image": image}, status=201, **kw)["id"]


def sh(w, box, text, **kw):
    r = w.run(box, ["sh", "-c", text], **kw)
    eq(r["result"]["exit_code"], 0, r)
    return r["stdout"]


def snapshot(w, box, name=None, **kw):
    return w.ask("POST", f"/v1/sandboxes/{box}/snapshots", {"name": name} if name else {}, **kw)


def reset(w, box, **kw):
    return w.ask("POST", f"/v1/sandboxes/{box}/reset", **kw)


def marks(w):
    """The marks of sandboxes that are stopped for a copy."""
    return glob.glob(f"{w.state}/saved/*/.frozen-*")


class PauseProxy(Proxy):
    """Answers requests to pause, resume or stop a container itself, if .pause, .unpause or .stop is a function."""
    pause = unpause = stop = None

    def judge(self, data):
        found = re.match(rb"POST /containers/\w+/((?:un)?pause|stop)[ ?]", data)
        rule = getattr(self, found[1].decode()) if found else None
        return rule() if rule else None


@test
def the_label_of_an_image_gives_no_access_to_a_snapshot():
    d = docker()
    with world(d) as w:
        victim = make(w)
        sh(w, victim, "echo secret >/srv/x")
        made = snapshot(w, victim, "mine", status=201).json()
        d.call("import", "--change", f"LABEL warren.snapshot={made['id']}", "-", "liar:1", input=tar(host_like()))
        token = w.token("read", "write", "exec", "images", tenant="other")
        box = make(w, "liar:1", token=token)
        for _ in range(2):
            sh(w, box, "test ! -e /srv/x; echo own >/srv/y", token=token)
            reset(w, box, token=token, status=200)
            eq(sh(w, box, "cat /srv/* 2>/dev/null || true", token=token), "", "files after a reset")
        w.delete(box, token=token)
        # The control: a sandbox of the snapshot returns to it.
        own = w.create(snapshot="mine", backend="docker")
        sh(w, own, "rm /srv/x")
        reset(w, own, status=200)
        eq(sh(w, own, "cat /srv/x"), "secret\n")
        for each in (victim, own):
            w.delete(each)


@test
def a_snapshot_has_twenty_thousand_files():
    with world(docker()) as w:
        box = make(w)
        # Most are empty, because some disks take a millisecond to free the block of a file.
        sh(w, box, "cd /srv; for d in 0 1 2 3 4 5 6 7 8 9; do mkdir $d; i=0; while [ $i -lt 2000 ]; do : >$d/$i; i=$((i+1)); done; echo $d >$d/7; done")
        check = "cd /srv; find . -type f | wc -l; find . -type f | sort | cksum; cat */7"
        expected = sh(w, box, check)
        eq(expected.split()[0], "20000")
        snapshot(w, box, "many", status=201)
        sh(w, box, "rm -r /srv/3")
        other = w.create(snapshot="many", backend="docker")
        eq(sh(w, other, check), expected)
        for each in (box, other):
            w.delete(each)


@test
def a_sandbox_continues_if_the_disk_of_the_service_is_full():
    with small_disk("tmpfs", 64 * MIB) as at, world(docker(), state=at) as w:
        box = make(w)
        sh(w, box, "head -c 100000000 /dev/urandom >/srv/x; sha256sum /srv/x >/srv/sum")
        kept = w.exec(box, ["sleep", "1000"])
        free = os.statvfs(at).f_bavail
        e = refused(snapshot(w, box, "big"), 507, "disk_full", "its files need ", " bytes are free")
        need = int(re.search(r"need (\d+) bytes", e["message"])[1])
        ok(100000000 <= need < 110000000, e)
        eq((w.state_of(box), w.get(f"/v1/sandboxes/{box}/execs/{kept}")["state"]), ("running", "running"))
        eq(w.get("/v1/snapshots")["snapshots"], [])
        until(lambda: os.statvfs(at).f_bavail >= free - 1024, "space is lost")
        sh(w, box, "cd /srv && sha256sum -c sum && head -c 1000000 x >y && rm x")
        snapshot(w, box, "small", status=201)  # the control: it fits now
        w.delete(box)


@test
def too_many_files_are_refused_before_the_sandbox_is_paused():
    with small_disk("tmpfs", 64 * MIB, inodes=5000) as at, PauseProxy(docker()) as d, world(d, state=at) as w:
        box, pauses = make(w), []
        d.pause = lambda: pauses.append(1)
        # They fit, but not if 1024 inodes stay free.
        files = os.statvfs(at).f_favail - 512
        sh(w, box, f"cd /srv; i=0; while [ $i -lt {files} ]; do : >$i; i=$((i+1)); done")
        refused(snapshot(w, box), 507, "disk_full", "its files need ", " inodes are free")
        eq((pauses, w.state_of(box)), ([], "running"))
        sh(w, box, f"cd /srv; i=0; while [ $i -lt 1024 ]; do rm $i; i=$((i+1)); done")
        snapshot(w, box, status=201)  # the control: they fit now
        eq(pauses, [1])
        w.delete(box)


@test
def a_part_of_the_disk_stays_free_during_a_copy():
    """Others use up the space between the check and the copy."""
    with small_disk("tmpfs", 96 * MIB) as at, PauseProxy(docker()) as d, world(d, state=at) as w:
        box = make(w)
        sh(w, box, "head -c 60000000 /dev/urandom >/srv/x")

        def fill():
            with open(f"{at}/ballast", "wb") as f:
                f.write(bytes(40 * MIB))
        d.pause = fill
        refused(snapshot(w, box), 507, "disk_full", "its files need 6")
        os.unlink(f"{at}/ballast")
        eq((w.state_of(box), sh(w, box, "wc -c </srv/x"), marks(w)), ("running", "60000000\n", []))
        d.pause = None
        snapshot(w, box, status=201)  # the control
        w.delete(box)


@test
def a_sandbox_that_cannot_be_resumed_is_paused_until_its_next_use():
    with PauseProxy(docker()) as d, world(d) as w:
        box = make(w)
        d.unpause = lambda: FAILED
        refused(snapshot(w, box), 502, None, "it is paused", "it is too early")
        eq(w.state_of(box), "paused")
        d.unpause = None
        eq(sh(w, box, "echo on"), "on\n")
        eq((w.state_of(box), marks(w)), ("running", []))
        # A client can also resume it.
        d.unpause = lambda: FAILED
        refused(snapshot(w, box), 502, None, "it is paused")
        d.unpause = None
        w.post(f"/v1/sandboxes/{box}/resume")
        eq((w.state_of(box), marks(w)), ("running", []))
        snapshot(w, box, status=201)  # the control
        w.delete(box)


@contextlib.contextmanager
def daemon_down(d):
    """New connections to the daemon fail during the block."""
    os.rename(d.socket, f"{d.socket}.away")
    try:
        yield
    finally:
        os.rename(f"{d.socket}.away", d.socket)


@test
def a_failed_hibernation_or_wake_does_not_end_the_sandbox_later():
    """What such an attempt leaves is removed when the daemon works again, but not the sandbox itself."""
    with PauseProxy(docker()) as d, world(d) as w:
        box, written = make(w), []

        def is_well():
            for _ in range(2):
                written.append(str(len(written)))
                eq(sh(w, box, f"echo {written[-1]} >>/srv/x; cat /srv/x").split(), written)
                w.post(f"/v1/sandboxes/{box}/pause")  # looks for the sandbox, and for what is left of it
                w.post(f"/v1/sandboxes/{box}/resume")
        is_well()
        w.post(f"/v1/sandboxes/{box}/hibernate")
        with daemon_down(d):
            for _ in range(2):
                refused(w.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]}), 503, "backend_unavailable")
        is_well()
        d.stop = lambda: FAILED
        w.post(f"/v1/sandboxes/{box}/hibernate")
        refused(w.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]}), 500, None, "it is too early")
        eq(w.state_of(box), "hibernated")
        d.stop = None
        is_well()
        w.delete(box)


@test
def a_snapshot_fails_and_nothing_is_paused_while_the_daemon_is_down():
    with PauseProxy(docker()) as d, world(d) as w:
        box = make(w)
        kept = w.exec(box, ["sleep", "1000"])
        with daemon_down(d):
            refused(snapshot(w, box), 503, "backend_unavailable", "start the daemon")
            eq((w.state_of(box), marks(w)), ("running", []))
            refused(w.ask("POST", f"/v1/sandboxes/{box}/fork", {"count": 1}), 503, "backend_unavailable")
            eq((w.state_of(box), marks(w)), ("running", []))
        eq((sh(w, box, "echo on"), w.get(f"/v1/sandboxes/{box}/execs/{kept}")["state"]), ("on\n", "running"))
        snapshot(w, box, status=201)  # the control
        w.delete(box)


@test
def a_stopped_sandbox_that_cannot_be_resumed_is_resumed_by_its_next_start():
    with PauseProxy(docker()) as d, world(d) as w:
        box = make(w)
        for restart in (False, True):
            w.post(f"/v1/sandboxes/{box}/stop")
            d.unpause = lambda: FAILED
            refused(snapshot(w, box), 502, None, "it is paused")
            eq((w.state_of(box), marks(w)), ("stopped", []))
            if restart:
                w.kill("api", "warden")
                w.start()
            refused(w.ask("POST", f"/v1/sandboxes/{box}/start"), 500, None, "it is too early")
            eq(w.state_of(box), "stopped")
            d.unpause = None
            w.post(f"/v1/sandboxes/{box}/start")
            eq((w.state_of(box), sh(w, box, "echo on")), ("running", "on\n"))
        snapshot(w, box, status=201)  # the control
        w.delete(box)


@test
def requests_do_not_wait_for_a_copy_that_could_not_resume_the_sandbox():
    """As in requests_wait_while_the_files_are_copied(), the test stops the container first, so that there are such requests."""
    with PauseProxy(docker()) as d, world(d) as w:
        box, answers = make(w), {}
        w.ask("PUT", f"/v1/sandboxes/{box}/files", b"1", query={"path": "/tmp/x"}, status=201)
        snapshot(w, box, status=201)  # creates the directory of the marks
        with open(f"{glob.glob(f'{w.state}/saved/docker.*')[0]}/.frozen-{box}", "wb"):
            shared(None).call("pause", f"warren-{box}")

        def ask(key, *args, **kw):
            with w.client() as c:
                answers[key] = c.ask(*args, **kw)
        asking = [threading.Thread(target=ask, args=("file", "GET", f"/v1/sandboxes/{box}/files"), kwargs={"query": {"path": "/tmp/x"}}),
                  threading.Thread(target=ask, args=("run", "POST", f"/v1/sandboxes/{box}/run", {"argv": ["echo", "on"]}))]
        for t in asking:
            t.start()
        time.sleep(3)  # they have reached the shim
        eq(answers, {}, "answers of a stopped container")
        d.unpause = lambda: FAILED
        refused(snapshot(w, box), 502, None, "it is paused")
        for t in asking:
            t.join(WAIT)
        ok(all(answers[key].status >= 400 for key in ("file", "run")), answers)
        d.unpause = None
        eq((sh(w, box, "echo on"), marks(w)), ("on\n", []))  # the control
        w.delete(box)


@test
def a_pause_that_a_copy_has_left_ends_with_the_next_use_after_a_restart():
    """Of the api, of both processes, and of both while the daemon is down."""
    with PauseProxy(docker()) as d, world(d) as w:
        box = make(w)
        for who in (["api"], ["api", "warden"]):
            d.unpause = lambda: FAILED
            refused(snapshot(w, box), 502, None, "it is paused")
            w.kill(*who)
            if "warden" in who:
                w.start()
            else:
                w.ready()
            w.reaches(box, "paused")
            d.unpause = None
            eq((sh(w, box, "echo on"), w.state_of(box), marks(w)), ("on\n", "running", []))

        def pause():
            shared(None).call("pause", f"warren-{box}")
            w.kill("api", "warden")
            return FAILED
        d.pause = pause
        with contextlib.suppress(OSError, http.client.HTTPException):
            snapshot(w, box)
        d.pause = None
        ok(marks(w), "the service was not killed during a copy")
        with daemon_down(d):
            w.start()
            w.reaches(box, "paused")
            eq(marks(w), [])
            refused(w.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]}), 503, "backend_unavailable")
        eq((sh(w, box, "echo on"), w.state_of(box)), ("on\n", "running"))
        # A pause that a client has requested is not ended by a use.
        d.unpause = lambda: FAILED
        refused(snapshot(w, box), 502, None, "it is paused")
        w.post(f"/v1/sandboxes/{box}/pause")
        d.unpause = None
        w.kill("api")
        w.ready()
        refused(w.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]}), 409, "wrong_state")
        w.post(f"/v1/sandboxes/{box}/resume")
        eq(sh(w, box, "echo on"), "on\n")
        w.delete(box)


@test
def a_sandbox_continues_if_its_pause_is_reported_as_failed():
    with PauseProxy(docker()) as d, world(d) as w:
        box = make(w)

        def pause():
            shared(None).call("pause", f"warren-{box}")
            return FAILED
        d.pause = pause
        ok(snapshot(w, box).status >= 500, "the pause did not fail")
        d.pause = None
        eq((w.state_of(box), sh(w, box, "echo on"), marks(w)), ("running", "on\n", []))
        snapshot(w, box, status=201)  # the control
        w.delete(box)


@test
def requests_wait_while_the_files_are_copied():
    """The test stops the container like a copy. Without the mark, such requests are refused (test-docker-serve.py)."""
    d = docker()
    with world(d) as w:
        box, answers = make(w), {}
        w.ask("PUT", f"/v1/sandboxes/{box}/files", b"1", query={"path": "/tmp/x"}, status=201)
        snapshot(w, box, status=201)  # creates the directory of the marks
        mark = f"{glob.glob(f'{w.state}/saved/docker.*')[0]}/.frozen-{box}"
        with open(mark, "wb"):
            d.call("pause", f"warren-{box}")

        def ask(key, *args, **kw):
            with w.client() as c:
                answers[key] = c.ask(*args, **kw)
        asking = [threading.Thread(target=ask, args=("file", "GET", f"/v1/sandboxes/{box}/files"), kwargs={"query": {"path": "/tmp/x"}}),
                  threading.Thread(target=ask, args=("run", "POST", f"/v1/sandboxes/{box}/run", {"argv": ["echo", "on"]}))]
        for t in asking:
            t.start()
        time.sleep(7)  # longer than the shim waits for an answer
        eq(answers, {}, "answers of a stopped container")
        d.call("unpause", f"warren-{box}")
        os.unlink(mark)
        for t in asking:
            t.join(WAIT)
        eq((answers["file"].body, answers["run"].json()["stdout"]), (b"1", "on\n"), answers)
        w.delete(box)


@test
def a_reset_whose_snapshot_is_gone_keeps_the_files():
    with world(docker()) as w:
        first = make(w)
        sh(w, first, "echo base >/srv/x")
        made = snapshot(w, first, "base", status=201).json()
        box = w.create(snapshot="base", backend="docker")
        sh(w, box, "echo own >/srv/y")
        reset(w, box, status=200)  # the control
        eq(sh(w, box, "echo /srv/*; echo own >/srv/y"), "/srv/x\n")
        subprocess.run([f"{BUILD}/warren", "image", "rm", f"warren.snapshot/{made['id']}"], check=True, capture_output=True,
                       env={**os.environ, "WARREN_STATE": w.state, "WARREN_LIBEXEC": BUILD})
        for _ in range(2):
            r = reset(w, box)
            ok(r.status >= 400 and "it cannot be reset, and keeps its files" in r.json()["message"], r)
            eq(sh(w, box, "cat /srv/x /srv/y"), "base\nown\n")
        for each in (first, box):
            w.delete(each)


class CreateProxy(Proxy):
    """Holds requests for containers until .gate is open, and then refuses them, if .held is a list."""
    held, gate = None, None

    def judge(self, data):
        if self.held is None or not data.startswith(b"POST /containers/create"):
            return None
        self.held.append(data)
        self.gate.wait(WAIT)
        return FAILED


@test
def copies_of_a_failed_fork_are_deleted_when_the_database_can_be_written():
    with CreateProxy(docker()) as d, world(d) as w:
        box, answers = make(w), []
        d.gate, d.held = threading.Event(), []

        def fork():
            with w.client() as c:
                answers.append(c.ask("POST", f"/v1/sandboxes/{box}/fork", {"count": 2}))
        asking = threading.Thread(target=fork)
        asking.start()
        until(lambda: len(d.held) == 2, "no containers are requested")
        db = sqlite3.connect(f"{w.state}/serve/warren.db", timeout=WAIT, isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        d.gate.set()
        asking.join(WAIT)
        ok(answers and answers[0].status >= 400, answers)
        db.execute("ROLLBACK")
        db.close()
        until(lambda: [b["id"] for b in w.get("/v1/sandboxes")["sandboxes"]] == [box], lambda: w.get("/v1/sandboxes"))
        d.held = None
        eq(w.ask("POST", f"/v1/sandboxes/{box}/fork", {"count": 1}, status=201).status, 201)  # the control
        for b in w.get("/v1/sandboxes")["sandboxes"]:
            w.delete(b["id"])


if __name__ == "__main__":
    sys.exit(main(run))
