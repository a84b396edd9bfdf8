#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-full-disk.py - the disk with the service's state is full: acknowledged changes stay, and space can be freed

Prints TAP. The state directory is a small separate filesystem, which is filled to the last byte.
"""
import contextlib
import os
import shutil
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import MIB, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from fault_world import fill, free, small_disk  # pylint: disable=wrong-import-position
from serve_world import World, below, check_error, needs, slurp, stat_of, until  # pylint: disable=wrong-import-position


@contextlib.contextmanager
def world(kind):
    needs("init")
    if kind != "tmpfs" and not shutil.which("mkfs.ext4"):
        raise Skip("mkfs.ext4 is not installed")
    with small_disk(kind) as at, World(state=f"{at}/state") as w:
        try:
            yield w, at
        finally:
            free(at)
            until(lambda: health(w)[0] == 200, lambda: f"it is not healthy again: {health(w)}")


def health(w):
    r = w.ask("GET", "/healthz")
    return r.status, {c["name"]: c["ok"] for c in r.json()["checks"]}


def full(w, at):
    fill(at)
    until(lambda: health(w)[0] == 503, "a full disk is healthy")
    eq(health(w)[1], {"store": True, "warden": True, "disk": False}, "what is not in order")


def restart(w):
    w.kill("api", "warden")
    w.start()


def results_and_output(kind):
    """Execs that have already begun end with their own results, and lose no output."""
    with world(kind) as (w, at):
        eq(health(w), (200, {"store": True, "warden": True, "disk": True}), "health before")
        box = w.create()
        text = "x" * 99 + "\\n"
        many = w.exec(box, f"read x; i=0; while [ $i -lt 3000 ]; do printf '{text}'; i=$((i+1)); done; exit 7",
                      stdin=True, output_limit=MIB)
        brief = [w.exec(box, f"read x; exit {i}", stdin=True, output_limit=65536) for i in range(20)]
        tty = w.exec(box, "read x; seq 1 2000; exit 9", pty=True, output_limit=MIB)
        full(w, at)
        # New requests get an error that says what to do.
        e = check_error(w.ask("POST", f"/v1/sandboxes/{box}/run", {"command": "true"}), 507, "disk_full")
        ok("delete" in e["message"], f"it does not say what to do: {e}")
        check_error(w.ask("POST", "/v1/sandboxes", {}), 507, "disk_full")
        followed = []
        follower = threading.Thread(target=lambda: followed.extend(w.output(box, brief[7], follow="true")))
        follower.start()
        for e in (*brief, many, tty):
            w.ask("POST", f"/v1/sandboxes/{box}/execs/{e}/stdin", b"go\n", status=200)
        for i, e in enumerate(brief):
            eq(w.result(box, e)["exit_code"], i, f"of exec {i} on a full disk")
        follower.join(30)
        ok(not follower.is_alive() and not [e for e in followed if e["type"] == "gap"], f"a follower: {followed[:3]}")
        restart(w)
        for i, e in enumerate(brief):
            eq(w.result(box, e)["exit_code"], i, f"of exec {i} after a restart on a full disk")
        eq(w.show(box)["state"], "running", "the sandbox after a restart on a full disk")
        time.sleep(1)
        free(at)
        eq(w.result(box, many)["exit_code"], 7, "of the one that waited for room")
        eq(w.result(box, tty)["exit_code"], 9, "of that at a terminal")
        until(lambda: len(w.raw(box, many)) == 300000, lambda: f"output is missing: {len(w.raw(box, many))} of 300000")
        eq([e for e in w.output(box, many) if e["type"] == "gap"], [], "gaps in its output")
        want = b"".join(b"%d\r\n" % i for i in range(1, 2001))
        until(lambda: w.raw(box, tty).endswith(want), "output of the terminal is missing")
        for i, e in enumerate(brief):
            eq(w.result(box, e)["exit_code"], i, f"of exec {i} when there is room again")
        eq(w.run(box, "echo fine")["stdout"], "fine\n", "a run when there is room again")


def deletes_and_ttls(kind):
    """Deleting sandboxes frees space, and timers still take effect."""
    with world(kind) as (w, at):
        boxes = [w.create() for _ in range(12)]
        mortal = w.create(ttl_ms=3000)
        for b in boxes:
            w.exec(b, "yes | head -c 400000; sleep 1000", output_limit=512 << 10)
        full(w, at)
        w.delete(boxes[0])
        until(lambda: w.ask("GET", f"/v1/sandboxes/{mortal}").status == 404, "a TTL that passed is not enforced")
        for b in boxes[1:6]:
            w.delete(b)
        restart(w)
        for b in (*boxes[:6], mortal):
            eq(w.ask("GET", f"/v1/sandboxes/{b}").status, 404, "a deleted one after a restart")
        for b in boxes[6:]:
            eq(w.show(b)["state"], "running", "another one after a restart")
        fill(at)
        w.stop()
        w.start()
        for b in boxes[6:]:
            w.delete(b)
        free(at)
        w.integrity()
        w.delete(w.create())


@test
def the_service_starts_on_a_full_disk():
    """Other programs take the space that the last process freed: the next process can still load its whole state."""
    with world("ext4") as (w, at):
        box = w.create()
        e = w.exec(box, "yes | head -c 400000; read x; exit 7", stdin=True, output_limit=512 << 10)
        full(w, at)
        w.look()
        for _ in range(3):
            # w.kill() is not used, because it opens the database, which needs space.
            pids = w.warden, w.api
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):  # each process ends when the other one is killed
                    os.kill(pid, signal.SIGKILL)
            w.process.wait(60)
            w.local = threading.local()
            fill(at)
            w.start()
            eq([x["id"] for x in w.sandboxes()], [box], "sandboxes that are found again")
            eq(w.show(box)["state"], "running", "its state")
        w.ask("POST", f"/v1/sandboxes/{box}/execs/{e}/stdin", b"go\n", status=200)
        eq(w.result(box, e)["exit_code"], 7, "a result on such a disk")
        with open(w.log_path, encoding="utf-8") as f:
            # The api may notice the death of the warden before it is killed itself.
            bad = [line for line in f if " error " in line and "healthz" not in line and "the warden has ended" not in line]
        eq(bad, [], "what the service complained of")


def init_of(w, box):
    """The host's pid of the sandbox's init: the parent of processes that are started in it."""
    seconds = str(10000000 + os.getpid())
    e = w.exec(box, ["sleep", seconds])
    pid = until(lambda: next((p for p in below(os.getpid()) if cmdline(p) == ["sleep", seconds]), None), "it is not started")
    init = int(stat_of(pid)[1])
    w.post(f"/v1/sandboxes/{box}/execs/{e}/signal", {"signal": "KILL"}, status=204)
    eq(w.result(box, e)["signal"], 9, "the end of what was killed")
    return init


def cmdline(pid):
    with contextlib.suppress(OSError):
        return slurp(f"/proc/{pid}/cmdline").split("\0")[:-1]
    return []


# Programs that wait for a signal from outside, and then write.
AWAITS = "trap go=1 USR1; until [ $go ]; do sleep 0.05; done\n"
PROGRAMS = {  # argument: language and program
    "silent": ("bash", AWAITS + "exit 5"),
    "brief": ("bash", AWAITS + "echo last words; exit 5"),
    "long": ("bash", AWAITS + "seq 1 500000"),
    "compiles": ("twice", AWAITS),  # the next step cannot be started
}
LANGUAGES = """
code:
  languages:
    twice: { file: p.sh, compile: [bash, '{file}', compiles], run: [bash, '{file}'] }
"""


def code_runs(kind):
    """A run has a complete result or an error, no run is left behind, and runs work again when there is space."""
    needs("init")
    if kind != "tmpfs" and not shutil.which("mkfs.ext4"):
        raise Skip("mkfs.ext4 is not installed")
    answers = {}

    def run(w, name):
        language, text = PROGRAMS[name]
        args = {} if name == "compiles" else {"args": [name]}
        with w.client(timeout=120) as c:
            answers[name] = c.ask("POST", "/v1/code", {"language": language, "code": text, "timeout_ms": 20000, "max_output": "4m", **args})

    with small_disk(kind) as at, World(state=f"{at}/state", config=LANGUAGES) as w:
        threads = [threading.Thread(target=run, args=(w, name)) for name in PROGRAMS]
        for t in threads:
            t.start()
        pids = {name: until(lambda name=name: next((p for p in below(os.getpid()) if cmdline(p)[2:] == [name] and is_trapping(p)), None),
                            f"'{name}' is not started") for name in PROGRAMS}
        w.look()
        full(w, at)
        for path in ("/v1/code", "/v1/code/stream"):
            check_error(w.ask("POST", path, {"language": "bash", "code": "true"}), 507, "disk_full")
        for pid in pids.values():
            os.kill(pid, signal.SIGUSR1)
        for t in threads:
            t.join()
        eq((answers["silent"].status, answers["silent"].json()["exit_code"]), (200, 5), "a program without output")
        for name in ("long", "compiles"):
            check_error(answers[name], 507, "disk_full")
        if answers["brief"].status == 200:  # a deleted journal may have left space for a few bytes
            eq((answers["brief"].json()["exit_code"], answers["brief"].json()["stdout"]), (5, "last words\n"), "a result on a full disk")
        else:
            check_error(answers["brief"], 507, "disk_full")
        until(lambda: w.sandboxes() == [], lambda: f"sandboxes are left: {w.sandboxes()}")
        free(at)
        until(lambda: health(w)[0] == 200, "it is not healthy again")
        r = w.post("/v1/code", {"language": "bash", "code": "seq 1 100000; exit 5", "max_output": "4m"})
        eq((r["exit_code"], r["stdout"].count("\n")), (5, 100000), "a run when there is space again")
        w.check_empty()


@test
def code_runs_report_a_full_tmpfs():
    code_runs("tmpfs")


@test
def code_runs_report_a_full_disk():
    code_runs("ext4")


def is_trapping(pid):
    """Whether the shell already catches the signal."""
    with contextlib.suppress(OSError):
        return int(slurp(f"/proc/{pid}/status").partition("\nSigCgt:")[2].split()[0], 16) >> (signal.SIGUSR1 - 1) & 1
    return 0


@test
def a_session_outlives_its_commands_timeout():
    """The result follows output that cannot be written: the shell reacted to the timeout, and must not be killed."""
    with world("tmpfs") as (w, at):
        box = w.create()
        init = init_of(w, box)
        path = f"/v1/sandboxes/{box}/sessions"
        session = w.post(path, {"output_limit": MIB}, 201)["id"]
        w.post(f"{path}/{session}/run", {"command": "X=kept; mkfifo /tmp/go"})
        got = []
        with w.client(timeout=60) as c:
            t = threading.Thread(target=lambda: got.append(c.ask("POST", f"{path}/{session}/run", {
                "command": "read x </tmp/go; seq 1 1000000", "timeout_ms": 3000})))
            t.start()
            go = w.exec(box, "read x; echo go >/tmp/go", stdin=True)
            full(w, at)
            w.ask("POST", f"/v1/sandboxes/{box}/execs/{go}/stdin", b"go\n", status=200)
            time.sleep(12)  # longer than all steps that stop a command
            ok(t.is_alive() and not got, f"it was answered although nothing could be written: {got}")
            # On a busy machine, it takes time until output is written again.
            os.kill(init, signal.SIGSTOP)
            try:
                free(at)
                until(lambda: health(w)[0] == 200, "there is room, and it is not healthy")
                time.sleep(0.7)
            finally:
                os.kill(init, signal.SIGCONT)
            t.join(60)
        ok(got, "there is no answer")
        r = got[0].json()
        eq((r["timed_out"], r["ended"], r["lost"]), (True, False, 0), "its end")
        lines = r["stdout"].split("\n")
        eq(lines[:-1], [str(i + 1) for i in range(len(lines) - 1)], "its output")
        eq(w.post(f"{path}/{session}/run", {"command": "echo $X"})["stdout"], "kept\n", "the shell's state")


@test
def results_and_output_are_kept_on_a_full_tmpfs():
    results_and_output("tmpfs")


@test
def results_and_output_are_kept_on_a_full_disk():
    results_and_output("ext4")


@test
def deletes_and_ttls_work_on_a_full_tmpfs():
    deletes_and_ttls("tmpfs")


@test
def deletes_and_ttls_work_on_a_full_disk():
    deletes_and_ttls("ext4")


if __name__ == "__main__":
    sys.exit(run_tests())
