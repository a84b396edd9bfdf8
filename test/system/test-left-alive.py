#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-left-alive.py - a failed create or delete leaves no process behind, without a restart of the service

Prints TAP. callfaults.c makes system calls of the service fail, and a platform refuses to destroy a sandbox for as
long as the test requires.
"""
import errno
import os
import sqlite3
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from call_world import PRELOAD, CallWorld  # pylint: disable=wrong-import-position
from checks import Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, cgroups_of, check_error, slurp, stat_of, until  # pylint: disable=wrong-import-position

# A sandbox is a directory. A create fails afterwards if the file `bad` exists, and a destroy fails if `deny` exists.
PLATFORM = """
backends:
  dirs:
    kind: command
    create: [sh, -c, 'mkdir -p $0/all/$1 && [ ! -e $0/bad ]', '@DIR@', '{id}']
    exec: [env, '{argv}']
    destroy: [sh, -c, 'if [ -e $0/deny ]; then touch $0/denied; exit 1; fi; rm -rf $0/all/$1', '@DIR@', '{id}']
"""


class Dirs(World):
    def __init__(self):
        super().__init__(config=PLATFORM)
        os.makedirs(f"{self.dir}/all", exist_ok=True)

    def let(self, name, yes):
        if yes:
            open(f"{self.dir}/{name}", "w", encoding="utf-8").close()
        else:
            os.unlink(f"{self.dir}/{name}")

    def platform(self):
        return set(os.listdir(f"{self.dir}/all"))


def faulty():
    if not os.path.exists(PRELOAD):
        raise Skip("callfaults.c is not built: with sanitizers, the calls are theirs")
    return CallWorld()


def init_of(w, box):
    """The init or shim of a sandbox: the process that its state file names."""
    state = dict(field.split("=", 1) for field in slurp(f"{w.run_dir}/boxes/{box}.state").split("\0") if field)
    return int(state["init_pid"])


def same_service(w, before, what):
    eq((w.warden, w.api), before, f"the service after {what}")


@test
def a_sandbox_not_destroyed_at_the_start_is_destroyed_later():
    with Dirs() as w:
        bystander, orphan = w.create(backend="dirs"), w.create(backend="dirs")
        w.kill("api", "warden")
        with sqlite3.connect(f"{w.state}/serve/warren.db", timeout=10) as db:
            db.execute("PRAGMA foreign_keys = ON")
            eq(db.execute("DELETE FROM sandboxes WHERE id = ?", (orphan,)).rowcount, 1, "rows deleted")
        db.close()
        w.let("deny", True)
        w.start()
        until(lambda: os.path.exists(f"{w.dir}/denied"), "the service did not try")
        eq(w.platform(), {bystander, orphan}, "what there is")
        before = w.warden, w.api
        w.let("deny", False)
        until(lambda: w.platform() == {bystander}, lambda: f"it is alive: {w.said()}")
        eq(w.run(bystander, "echo here")["stdout"], "here\n", "the bystander")
        same_service(w, before, "it")


@test
def a_failed_inspection_does_not_end_a_sandbox():
    with faulty() as w:
        box = w.create()
        init = init_of(w, box)
        eq(w.get(f"/v1/sandboxes/{box}/stats")["pids"] >= 0, True, "stats")
        w.fail("stat64", errno.EIO)
        check_error(w.ask("GET", f"/v1/sandboxes/{box}/stats"), 500)
        ok(w.failed("stat64") > 0, "nothing failed")
        ok(w.ask("DELETE", f"/v1/sandboxes/{box}").status >= 500, "it was deleted although its init could not be looked at")
        ok(stat_of(init)[0] not in "ZX", "its init has ended")
        w.page.off()
        until(lambda: w.state_of(box) == "gone", lambda: f"{w.state_of(box)}: {w.said()}")
        ok(not os.path.exists(f"/proc/{init}") or stat_of(init)[0] in "ZX", "its init lives on")


@test
def a_failed_native_create_is_cleaned_up_later():
    with faulty() as w:
        if not cgroups_of(w.create()):
            raise Skip("there are no cgroups here")
        before = w.warden, w.api
        # No client has the id of the first one, so it is deleted at once. The second one stays, as `failed`.
        for name, wait_ms in (("first", 60000), ("second", 0)):
            w.fail("unlinkat", errno.EIO)
            w.ask("POST", "/v1/sandboxes", {"name": name, "user": "no-such-user", "wait_ms": wait_ms})
            until(lambda: w.failed("unlinkat") > 0, "nothing failed")
            found = until(lambda name=name: [s for s in w.sandboxes() if s["name"] == name and s["state"] in ("failed", "deleting")],
                          lambda: f"a row without a sandbox, or a sandbox without a row: {w.slots()}, {w.sandboxes()}")
            left = found[0]["id"]
            w.seen.add(left)
            ok(cgroups_of(left) and left in w.slots().values(), "nothing is left of it")
            w.page.off()
            until(lambda left=left: not cgroups_of(left) and left not in w.slots().values(), lambda: f"it is left: {w.said()}")
        same_service(w, before, "it")


@test
def a_failed_create_of_a_platform_is_cleaned_up_later():
    with Dirs() as w:
        bystander = w.create(backend="dirs")
        before = w.warden, w.api
        w.let("bad", True)
        w.let("deny", True)
        ok(w.ask("POST", "/v1/sandboxes", {"backend": "dirs"}).status >= 500, "it was created")
        eq(len(w.platform() - {bystander}), 1, "what is left of it")
        w.let("deny", False)
        until(lambda: w.platform() == {bystander}, lambda: f"left: {w.platform()}; {w.said()}")
        same_service(w, before, "it")
        w.let("bad", False)
        eq(w.run(bystander, "echo here")["stdout"], "here\n", "the bystander")


@test
def a_sandbox_is_gone_only_after_its_platform_destroyed_it():
    with Dirs() as w:
        bystander, box = w.create(backend="dirs"), w.create(backend="dirs")
        before = w.warden, w.api
        w.let("deny", True)
        os.kill(init_of(w, box), 9)
        w.reaches(box, "failed")
        ok(w.ask("DELETE", f"/v1/sandboxes/{box}").status >= 500, "it is deleted")
        eq((w.state_of(box), w.platform()), ("deleting", {bystander, box}), "what there is")
        w.let("deny", False)
        until(lambda: w.state_of(box) == "gone", lambda: f"{w.state_of(box)}: {w.said()}")
        eq(w.platform(), {bystander}, "what is left")
        same_service(w, before, "it")


def one_look(w):
    """Creates an orphan and waits until it is removed; by then, the service has checked every other sandbox too."""
    w.let("bad", True)
    w.let("deny", True)
    known = w.platform()
    ok(w.ask("POST", "/v1/sandboxes", {"backend": "dirs"}).status >= 500, "it was created")
    w.let("bad", False)
    w.let("deny", False)
    until(lambda: w.platform() <= known, lambda: f"left: {w.platform()}; {w.said()}")


@test
def a_sandbox_with_a_row_is_never_removed_as_a_leftover():
    with Dirs() as w:
        running, paused, stopped, other = w.create(), w.create(), w.create(), w.create(backend="dirs")
        w.post(f"/v1/sandboxes/{paused}/pause")
        w.post(f"/v1/sandboxes/{stopped}/stop", {"timeout_ms": 0})
        codes, made, over = [], [], threading.Event()

        def create():
            while not over.is_set():
                made.append(w.create())

        def code():
            while not over.is_set():
                codes.append(w.post("/v1/code", {"language": "python", "code": "print(6 * 7)"})["stdout"])
        threads = [threading.Thread(target=t) for t in (create, code)]
        for t in threads:
            t.start()
        try:
            for _ in range(3):
                one_look(w)
        finally:
            over.set()
            for t in threads:
                t.join()
        ok(len(made) > 0 and len(codes) > 0 and set(codes) == {"42\n"}, f"at the same time: {len(made)} sandboxes, {set(codes)}")
        w.post(f"/v1/sandboxes/{paused}/resume")
        w.post(f"/v1/sandboxes/{stopped}/start")
        for box in (running, paused, stopped, other, *made):
            eq(w.run(box, "echo here")["stdout"], "here\n", f"{box}, one of {len(made) + 4}")


if __name__ == "__main__":
    sys.exit(run_tests())
