#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-stop-jobs.py - requests that wait for a stop, a start or a pause: how long, in which order, and how many

Prints TAP. Limits are checked by order of magnitude.
"""
import contextlib
import json
import os
import signal
import socket
import sqlite3
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, check_error, fitted, has, shell, slurp, stat_of, together, until  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name
LONG = 120000  # in ms: longer than anything here may take


def pids(*argv):
    """The pids on this machine of processes with exactly these arguments."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if slurp(f"/proc/{name}/cmdline").split("\0")[:-1] == list(argv) and stat_of(name)[0] not in "ZX":
                found.append(int(name))
    return found


def init_of(box):
    with open(f"{w.run_dir}/boxes/{box}.state", "rb") as f:
        return int(dict(x.split(b"=", 1) for x in f.read().split(b"\0") if b"=" in x)[b"init_pid"])


def stubborn(token=None, **spec):
    """A sandbox whose main command ignores SIGTERM."""
    main = shell("trap '' TERM; echo ready; while :; do sleep 0.1; done")
    s = w.post("/v1/sandboxes", fitted({"main": main, **spec}), status=201, token=token)
    until(lambda: w.raw(s["id"], s["main"]["exec_id"], follow="false"), "it is ready")
    return s["id"]


class Asked:
    """A request on another connection, sent by another thread."""

    def __init__(self, method, path, body=None, token=None):
        self.reply, self.failure = None, None
        self.thread = threading.Thread(target=self.work, args=(method, path, body, token))
        self.thread.start()
        time.sleep(0.3)  # the service has received it by then

    def work(self, method, path, body, token):
        try:
            with w.client(token) as c:
                self.reply = c.ask(method, path, body)
        except OSError as e:  # revoking a token closes its connections
            self.failure = e

    @property
    def waits(self):
        return self.thread.is_alive()

    def status(self, seconds=30):
        self.thread.join(seconds)
        ok(not self.waits, "an answer in time")
        return self.reply.status if self.reply else None


def stopping(box, ms=LONG, token=None):
    s = Asked("POST", f"/v1/sandboxes/{box}/stop", {"timeout_ms": ms}, token)
    ok(s.waits and w.state_of(box) == "running", "the grace has not passed")
    return s


# ---------------------------------------------------------------- time limits


@test
def a_delete_does_not_wait_for_the_grace_period_of_a_stop():
    box = stubborn()
    stop = stopping(box)
    start = Asked("POST", f"/v1/sandboxes/{box}/start")
    again = Asked("POST", f"/v1/sandboxes/{box}/stop", {"timeout_ms": LONG})
    ok(stop.waits and start.waits and again.waits, "what has no hurry waits")
    begun = time.monotonic()
    w.ask("DELETE", f"/v1/sandboxes/{box}", status=204)
    ok(time.monotonic() - begun < 20, "deleted at once")
    eq(w.state_of(box), "gone")
    for asked in (stop, start, again):
        ok(asked.status() in (200, 404, 409), "each has its answer")


@test
def an_expiry_does_not_wait_for_the_grace_period_of_a_stop():
    box = stubborn(ttl_ms=3000)
    stop = stopping(box)
    w.reaches(box, "gone")
    ok(stop.status() in (200, 404, 409), "it has its answer")


@test
def a_kill_or_a_shorter_stop_shortens_the_grace_period():
    for ms in (0, 500):
        box = stubborn()
        stop = stopping(box)
        eq(Asked("POST", f"/v1/sandboxes/{box}/stop", {"timeout_ms": ms}).status(), 200)
        eq((stop.status(), w.state_of(box)), (200, "stopped"))
        w.delete(box)
    # A second stop with a longer timeout does not change the first one.
    box = stubborn()
    stop = stopping(box, 3000)
    begun = time.monotonic()
    eq(Asked("POST", f"/v1/sandboxes/{box}/stop", {"timeout_ms": LONG}).status(), 200)
    ok(1 < time.monotonic() - begun < 60, "the grace of the first")
    eq(stop.status(), 200)
    w.delete(box)


@test
def an_init_that_dies_during_a_stop_is_noticed_at_once():
    box = stubborn()
    stop = stopping(box)
    os.kill(init_of(box), signal.SIGKILL)
    w.reaches(box, "failed")
    ok(stop.status() >= 400, "it was not stopped")
    w.delete(box)


@test
def other_processes_keep_their_grace_period_when_the_main_command_ends():
    box = w.create(main={"argv": ["sleep", "1021"]}, on_exit="delete")
    other = w.exec(box, "trap 'sleep 1.5; echo saved; exit 7' TERM; echo ready; while :; do sleep 0.1; done")
    until(lambda: w.raw(box, other, follow="false"), "it is ready")
    seen = Asked("GET", f"/v1/sandboxes/{box}/execs/{other}?wait_ms=60000")
    eq(Asked("POST", f"/v1/sandboxes/{box}/stop", {"timeout_ms": LONG}).status(), 200)
    eq((seen.status(), seen.reply.json()["result"]["exit_code"]), (200, 7), "it ended by itself")
    w.reaches(box, "gone")


@test
def leftover_processes_of_an_exec_get_the_grace_period():
    box = w.create()
    trap = "trap 'sleep 1; echo saved > /tmp/saved; exit' TERM; touch /tmp/ready; while :; do sleep 0.1; done"
    w.run(box, f"setsid sh -c \"{trap}\" </dev/null >/dev/null 2>&1 & until [ -e /tmp/ready ]; do sleep 0.1; done")
    begun = time.monotonic()
    w.post(f"/v1/sandboxes/{box}/stop", {"timeout_ms": 25000})
    ok(time.monotonic() - begun < 20, "no longer than it needs")
    w.post(f"/v1/sandboxes/{box}/start")
    eq(w.run(box, "cat /tmp/saved")["stdout"], "saved\n")
    # Processes that do not catch the signal are not waited for: the idle shell of a session, a plain process.
    w.post(f"/v1/sandboxes/{box}/sessions", {}, status=201)
    w.run(box, "setsid sleep 1028 </dev/null >/dev/null 2>&1 & sleep 0.1")
    begun = time.monotonic()
    w.post(f"/v1/sandboxes/{box}/stop", {"timeout_ms": 25000})
    ok(time.monotonic() - begun < 15, "at once")
    ok(not pids("sleep", "1028"), "it has ended")
    # A process that does not end in time is killed.
    w.post(f"/v1/sandboxes/{box}/start")
    w.run(box, "rm /tmp/ready; setsid sh -c \"trap : TERM; touch /tmp/ready; while :; do sleep 0.1; done\" "
               "</dev/null >/dev/null 2>&1 & until [ -e /tmp/ready ]; do sleep 0.1; done")
    begun = time.monotonic()
    w.post(f"/v1/sandboxes/{box}/stop", {"timeout_ms": 1500})
    ok(1.5 <= time.monotonic() - begun < 20, "after its time")
    w.delete(box)


# ------------------------------------------------- other requests and tenants


def has_stopped(pid):
    return all(slurp(f"/proc/{pid}/task/{t}/stat").rpartition(")")[2].split()[0] == "T" for t in os.listdir(f"/proc/{pid}/task"))


def try_to_stop(pid):
    """A thread that waits for the execve of its child (vfork) does not stop, and the child may wait for another
    thread."""
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        if has_stopped(pid):
            return True
        time.sleep(0.01)
    os.kill(pid, signal.SIGCONT)
    return False


@contextlib.contextmanager
def a_slow_warden():
    """Requests to the warden wait until the end of the block."""
    pid = w.warden
    try:
        until(lambda: try_to_stop(pid), "it has stopped")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@test
def a_waiting_job_does_not_start_when_its_token_is_revoked():
    def token():
        return w.post("/v1/tokens", {"name": "t", "scopes": ["read", "write", "exec"], "tenant": "jobs"}, status=201)

    doomed, good = token(), token()
    jobs = [("DELETE", "", None), ("POST", "/stop", {"timeout_ms": 0}), ("POST", "/resume", None)]
    jobs += [("PATCH", "", {"limits": {"pids": 77}})] if has("limits") else []
    boxes = [w.create(token=good["secret"]) for _ in jobs]
    control = w.create(token=good["secret"])
    with a_slow_warden():
        asked = [Asked("POST", f"/v1/sandboxes/{box}/pause") for box in boxes + [control]]
        asked += [Asked(method, f"/v1/sandboxes/{box}{path}", body, doomed["secret"])
                  for box, (method, path, body) in zip(boxes, jobs)]
        asked.append(Asked("DELETE", f"/v1/sandboxes/{control}", None, good["secret"]))
        ok(all(a.waits for a in asked), f"they wait: {[str(a.reply) for a in asked]}")
        w.ask("DELETE", f"/v1/tokens/{doomed['id']}", status=204)
    w.reaches(control, "gone")
    for a in asked:
        a.status()
    for box in boxes:
        w.reaches(box, "paused")
        ok(w.show(box)["limits"].get("pids") != 77, "no limit was changed")
        w.delete(box)
    # A start does not have to wait for the warden.
    for t in (token(), good):
        box = stubborn(token=good["secret"])
        stop, first = stopping(box, 3000), w.show(box)["main"]["exec_id"]
        start = Asked("POST", f"/v1/sandboxes/{box}/start", None, t["secret"])
        ok(start.waits, "it waits")
        if t is not good:
            w.ask("DELETE", f"/v1/tokens/{t['id']}", status=204)
        eq(stop.status(), 200)
        start.status()
        eq(w.show(box)["main"]["exec_id"] != first, t is good, "it was started again")
        w.delete(box)


@test
def an_unused_stopped_sandbox_is_deleted_if_requested():
    idle = {"main": shell("exec sleep 1031"), "idle_timeout_ms": 1000}
    kept, gone, late = w.create(**idle), w.create(**idle, on_idle="delete"), w.create(**idle, on_idle="delete")
    for box in (kept, gone):
        w.post(f"/v1/sandboxes/{box}/stop", {"timeout_ms": 0})
    w.reaches(gone, "gone")
    # A sandbox that became idle while no service ran.
    w.post(f"/v1/sandboxes/{late}/stop", {"timeout_ms": 0})
    w.kill("api", "warden")
    time.sleep(1)
    w.start()
    w.reaches(late, "gone")
    eq(w.state_of(kept), "stopped", "there is nothing to pause")
    w.delete(kept)


# ------------------------------------------------- number of waiting requests


def left_behind(token, method, path, body=None):
    """Sends a request and disconnects before the answer; returns what was received until then."""
    data = json.dumps(body).encode() if body is not None else b""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(w.socket)
        s.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
                  f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        s.settimeout(0.05)
        with contextlib.suppress(TimeoutError):
            return s.recv(4096)
    return b""


@test
def the_number_of_waiting_jobs_is_limited():
    token = w.token("read", "write", "exec", tenant="queues")
    box = stubborn(token=token)
    stop = stopping(box)
    said = [left_behind(token, "POST", f"/v1/sandboxes/{box}/start") for _ in range(80)]
    eq(said[0], b"", "the first waits")
    ok(b" 503 " in said[-1] and b"requests already wait" in said[-1], said[-1])
    e = check_error(w.ask("PATCH", f"/v1/sandboxes/{box}", {"limits": {"pids": 50}}), 503, "overloaded")
    ok("delete the sandbox" in e["message"], e["message"])
    # It can still be stopped.
    w.post(f"/v1/sandboxes/{box}/stop", {"timeout_ms": 0})
    eq(stop.status(), 200)
    until(lambda: w.ask("PATCH", f"/v1/sandboxes/{box}", {"limits": {"pids": 50}}).status != 503, "there is room again")
    w.delete(box)
    box = stubborn(token=token)
    stop = stopping(box)
    for _ in range(80):
        left_behind(token, "POST", f"/v1/sandboxes/{box}/start")
    w.delete(box)
    eq(w.state_of(box), "gone")
    stop.status()


@test
def waiting_commands_are_charged_to_the_memory_of_their_tenant():
    token, other = (w.token("read", "write", "exec", tenant=t) for t in ("hoarder", "neighbour"))
    body = {"argv": ["true"] + ["x" * 120000] * 12}
    boxes = [stubborn(token=token) for _ in range(4)]
    stops = [stopping(box) for box in boxes]
    said = [left_behind(token, "POST", f"/v1/sandboxes/{box}/execs", body) for box in boxes for _ in range(60)]
    eq(said[0], b"", "the first waits")
    refusals = [x for x in said if x]
    ok(refusals and all(b" 429 " in x and b"bytes of the service's memory" in x for x in refusals), refusals[:1])
    # The control: the exec of another tenant is started, and there is room again afterwards.
    box = w.create(token=other)
    eq(w.ask("POST", f"/v1/sandboxes/{box}/execs", body, token=other).status, 201)
    w.delete(box)
    for box in boxes:
        w.delete(box)
    for stop in stops:
        stop.status()
    box = w.create(token=token)
    eq(w.ask("POST", f"/v1/sandboxes/{box}/execs", body, token=token).status, 201)
    w.delete(box)


# ------------------------------------------------------------------------- interruptions


def change_rows(*statements):
    """Changes the database to the state that a process killed at that moment would leave."""
    w.kill("api", "warden")
    with contextlib.closing(sqlite3.connect(f"{w.state}/serve/warren.db")) as db, db:
        for text, values in statements:
            db.execute(text, values)
    w.start()


@test
def a_delete_after_a_stop_is_finished_after_a_restart():
    kept, lost = (w.create(main={"argv": ["sleep", "1022"]}) for _ in range(2))
    doomed = w.create(main={"argv": ["sleep", "1023"]}, on_exit="delete")
    for box in (kept, lost):
        w.post(f"/v1/sandboxes/{box}/stop")
    on_exit = w.rows("SELECT on_exit FROM sandboxes WHERE id = ?", doomed)[0][0]
    change_rows(("UPDATE sandboxes SET on_exit = ? WHERE id = ?", (on_exit, lost)))
    w.reaches(lost, "gone")
    eq((w.state_of(kept), w.state_of(doomed)), ("stopped", "running"))
    for box in (kept, doomed):
        w.delete(box)


@test
def an_interrupted_start_can_be_repeated():
    box, control = (w.create(main={"argv": ["sleep", n]}, on_exit="keep") for n in ("1024", "1025"))
    w.post(f"/v1/sandboxes/{box}/stop")
    runs = w.rows("SELECT state FROM sandboxes WHERE id = ?", control)[0][0]
    change_rows(("UPDATE sandboxes SET state = ? WHERE id = ?", (runs, box)))
    eq((w.state_of(box), pids("sleep", "1024")), ("running", []), "it runs, and its command does not")
    first = w.show(box)["main"]["exec_id"]
    together = [Asked("POST", f"/v1/sandboxes/{box}/start") for _ in range(3)]
    for asked in together:
        eq(asked.status(), 200)
    ok(w.show(box)["main"]["exec_id"] != first, "another exec")
    until(lambda: len(pids("sleep", "1024")) == 1, "it runs once")
    eq(w.post(f"/v1/sandboxes/{control}/start")["main"], w.show(control)["main"], "what runs is not started twice")
    eq(len(pids("sleep", "1025")), 1)
    for one in (box, control):
        w.delete(one)


@test
def a_hanging_start_leaves_nothing_when_the_service_is_killed():
    for killed in (("api",), ("warden",), ("api", "warden")):
        mute, late, other = (w.create(main={"argv": ["sleep", n]}) for n in ("1041", "1042", "1043"))
        inits = {box: init_of(box) for box in (mute, late)}
        for box in inits:
            w.post(f"/v1/sandboxes/{box}/stop", {"timeout_ms": 0})
            os.kill(inits[box], signal.SIGSTOP)
        starts = [Asked("POST", f"/v1/sandboxes/{box}/start") for box in inits]
        for box in inits:
            w.reaches(box, "running")  # its init has not answered yet
        ok(all(s.waits for s in starts), f"they wait: {[str(s.reply) for s in starts]}")
        w.kill(*killed)
        if not w.alive():
            w.start()
        os.kill(inits[late], signal.SIGCONT)
        w.ready()
        # The start was recorded, so an init that continues carries it out, once. A sandbox whose init does not answer
        # has failed.
        until(lambda: pids("sleep", "1042"), "its command runs")
        w.reaches(mute, "failed")
        eq([w.state_of(box) for box in (late, other)], ["running", "running"])
        eq([len(pids("sleep", n)) for n in ("1041", "1042", "1043")], [0, 1, 1], "commands")
        for s in starts:
            s.status()
        w.post(f"/v1/sandboxes/{late}/start")
        eq(len(pids("sleep", "1042")), 1, "what runs is not started twice")
        w.post(f"/v1/sandboxes/{late}/stop", {"timeout_ms": 0})
        eq(pids("sleep", "1042"), [], "after a stop")
        for box in (mute, late, other):
            w.delete(box)
        for box, pid in inits.items():
            until(lambda pid=pid: not os.path.exists(f"/proc/{pid}") or stat_of(pid)[0] in "ZX", f"the init of {box} is gone")


@test
def concurrent_changes_of_one_sandbox_end_in_a_correct_state():
    for ends in ("stop", "start", "delete"):
        box = w.create(main={"argv": ["sleep", "1044"]})
        at = f"/v1/sandboxes/{box}"
        changes = [("POST", f"{at}/start", None), ("POST", f"{at}/stop", {"timeout_ms": 0}), ("POST", f"{at}/execs", {"argv": ["sleep", "1045"]}),
                   ("POST", f"{at}/stop", {"timeout_ms": 200}), ("POST", f"{at}/start", None), ("POST", f"{at}/run", {"argv": ["true"]})]

        def change(i, ends=ends, at=at, changes=changes):
            said = []
            with w.client() as c:
                for n in range(6):
                    last = ends == "delete" and i == 0 and n == 3
                    said.append(c.ask(*(("DELETE", at) if last else changes[(i + n) % len(changes)])).status)
            return said
        said = together(6, change)
        ok(all(isinstance(s, list) and set(s) <= {200, 201, 204, 404, 409, 410, 503} for s in said), f"each has its answer: {said}")
        if ends == "delete":
            w.reaches(box, "gone")
        elif ends == "stop":
            w.post(f"{at}/stop", {"timeout_ms": 0})
            eq(w.state_of(box), "stopped")
        else:
            w.post(f"{at}/start")
            eq(w.state_of(box), "running")
            w.post(f"{at}/start")
        eq(len(pids("sleep", "1044")), int(ends == "start"), f"main commands after {ends}")
        if ends != "start":
            eq(pids("sleep", "1045"), [], f"other commands after {ends}")
        if ends != "delete":
            w.delete(box)
        eq(pids("sleep", "1044") + pids("sleep", "1045"), [], "what is left")


@test
def a_main_command_that_ends_during_a_pause_stops_the_sandbox():
    box = w.create(main={"argv": ["sleep", "1027"]})
    other = w.create(main={"argv": ["sleep", "1026"]})
    with a_slow_warden():
        pause = [Asked("POST", f"/v1/sandboxes/{b}/pause") for b in (box, other)]
        ok(all(p.waits for p in pause), f"it waits: {[str(p.reply) for p in pause]}")
        os.kill(pids("sleep", "1027")[0], signal.SIGKILL)
        until(lambda: not pids("sleep", "1027"), "it has ended")
        time.sleep(0.3)
    eq([p.status() for p in pause], [200, 200])
    for b in (box, other):
        if w.state_of(b) == "paused":
            w.post(f"/v1/sandboxes/{b}/resume")
    w.reaches(box, "stopped")
    eq(w.state_of(other), "running", "one whose command runs")
    for b in (box, other):
        w.delete(b)


if __name__ == "__main__":
    with World() as w:
        failed = run_tests()
    sys.exit(failed)
