#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-templates.py - tools of a command backend that fail, hang, or write endlessly, at each step; and shims

An error names the backend and the step, comes in time, does not change the state, and leaves nothing behind. The tool
is a script that runs on this machine itself; files control what its steps do. Prints TAP.
"""
import glob
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import MIB, eq, noise, ok, run_tests, scratch, test  # pylint: disable=wrong-import-position
from serve_world import WAIT, World, below, check_error, running, slurp, until  # pylint: disable=wrong-import-position

PATIENCE = 3  # time limit of a step, in seconds
TOOL = """#!/bin/sh
step=$1 id=$2 mode=
shift 2
[ ! -e @DIR@/mode-$step ] || read -r mode <@DIR@/mode-$step
case $mode in
hang) exec sleep 5031.5;;
fail) echo "words of $step" >&2; exit 3;;
garbage) head -c 300000 /dev/urandom >&2; exit 3;;
talk) exec yes "$step" >&2;;
flood) exec yes "$step";;
leave) sleep 5032.5 &;;
esac
case $step in
create) echo >@DIR@/made-$id;;
exec) exec "$@";;
destroy) rm -f @DIR@/made-$id;;
copy_in) exec cat >"$1";;
copy_out) exec cat "$1";;
esac
"""
STEPS = ("create", "exec", "destroy", "copy_in", "copy_out")
HOLES = {"exec": ", '{argv}'", "copy_in": ", '{path}'", "copy_out": ", '{path}'"}
CONFIG = f"backend: toy\nbackends:\n  toy:\n    kind: command\n    timeout: {PATIENCE}\n" + "".join(
    f"    {step}: [sh, @DIR@/tool, {step}, '{{id}}'{HOLES.get(step, '')}]\n" for step in STEPS)

world = None


class Mode:
    """Changes the behavior of a step during the block, and measures how long the block took."""

    def __init__(self, step, mode):
        self.path = f"{world.dir}/mode-{step}"
        with open(self.path, "w", encoding="ascii") as f:
            f.write(mode + "\n")
        self.begin = time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        os.unlink(self.path)
        ok(kind or time.monotonic() - self.begin < WAIT, "it took too long")


def nothing_runs():
    until(lambda: not running("sleep", "5031.5") and not any(running("yes", step) for step in STEPS),
          "the tool is still running")


def nothing_left():
    """A sandbox whose create failed is forgotten when its resources are removed."""
    until(lambda: not world.sandboxes() and not glob.glob(f"{world.dir}/made-*"), "something is left")
    nothing_runs()
    world.check_empty()


def refused(reply, words, code=None):
    """The reply must be an error with these words; it is valid JSON even if the message contains arbitrary bytes."""
    ok(reply.status >= 500, f"{reply}")
    e = check_error(reply, reply.status, code)
    ok(words in e["message"] and len(e["message"]) < 1000, f"{e['message']!r} does not say {words!r}")


def file(box, method, name="file", body=None):
    return world.ask(method, f"/v1/sandboxes/{box}/files", body, query={"path": f"{world.dir}/{name}"})


@test
def a_failing_create_tool_is_reported():
    for mode, words, code in (("fail", "toy: create: 'sh' failed: words of create", "backend_unavailable"),
                              ("garbage", "toy: create: 'sh' failed: ", "backend_unavailable"),
                              ("hang", f"toy: create: 'sh' did not end within {PATIENCE} seconds, and was killed", None),
                              ("talk", f"toy: create: 'sh' did not end within {PATIENCE} seconds, and was killed", None),
                              ("flood", "toy: create: 'sh' did not end within", None)):
        with Mode("create", mode):
            refused(world.ask("POST", "/v1/sandboxes", {}), words, code)
        nothing_left()


@test
def a_tool_may_leave_a_process_running():
    with Mode("create", "leave"):
        box = world.create()
    ok(running("sleep", "5032.5"), "it is not there")
    eq(world.run(box, "echo hello")["stdout"], "hello\n", "a command")
    world.delete(box)
    until(lambda: not running("sleep", "5032.5"), "it outlives the sandbox")


@test
def a_failing_exec_tool_at_the_start_is_reported():
    for mode, words in (("fail", "toy: exec: words of exec"), ("garbage", "toy: exec: "),
                        ("hang", f"toy: exec: nothing inside answered within {PATIENCE} seconds"),
                        ("talk", "toy: exec: "), ("flood", "toy: exec: ")):
        with Mode("exec", mode):
            refused(world.ask("POST", "/v1/sandboxes", {}), words)
        nothing_left()


@test
def a_failing_exec_tool_is_reported():
    with open(f"{world.dir}/file", "wb") as f:
        f.write(b"content")
    for mode, words in (("fail", "toy: exec: words of exec"), ("garbage", "toy: exec: "),
                        ("hang", "toy: exec: the command did not start in time"),
                        ("talk", "toy: exec: the tool prints too much before the command starts")):
        box = world.create()
        with Mode("exec", mode):
            refused(world.ask("POST", f"/v1/sandboxes/{box}/run", {"command": "echo"}), words)
            eq(world.show(box)["state"], "running", f"state: {mode}")
            r = file(box, "GET")
            ok(r.status >= 500 and "toy: exec: " in r.json()["message"], f"a file: {mode}: {r}")
        nothing_runs()
        eq(world.show(box)["state"], "running", "state")
        eq((world.run(box, "echo again")["stdout"], file(box, "GET").body), ("again\n", b"content"), f"after it: {mode}")
        world.delete(box)


@test
def a_failing_destroy_tool_is_reported_and_retried():
    for mode, words in (("fail", "toy: destroy: 'sh' failed: words of destroy"),
                        ("hang", f"toy: destroy: 'sh' did not end within {PATIENCE} seconds, and was killed")):
        box = world.create()
        with Mode("destroy", mode):
            refused(world.ask("DELETE", f"/v1/sandboxes/{box}"), words)
            eq(world.show(box)["state"], "deleting", f"state: {mode}")
            ok(glob.glob(f"{world.dir}/made-*"), "it is gone, or this shows nothing")
        nothing_runs()
        r = world.ask("DELETE", f"/v1/sandboxes/{box}")
        ok(r.status in (204, 404), f"once more, by us or by the service: {r}")
        nothing_left()


@test
def a_failing_copy_tool_is_reported():
    box, data = world.create(), noise(MIB)
    eq(file(box, "PUT", "large", data).status, 201, "without a fault")
    eq(file(box, "GET", "large").body, data, "and back")
    for mode, words in (("fail", "words of copy_in"), ("garbage", "toy: copy_in: "), ("talk", "toy: copy_in: "),
                        ("hang", f"toy: copy_in: 'sh' transferred no data within {PATIENCE} seconds, and was killed")):
        with Mode("copy_in", mode):
            refused(file(box, "PUT", "large", data[::-1]), words)
        nothing_runs()
        eq(file(box, "GET", "large").body, data, f"what was there: {mode}")
        until(lambda: not glob.glob(f"{world.dir}/.warren-*"), "something is left beside it")
    for mode, words in (("fail", "words of copy_out"), ("hang", "toy: copy_out: 'sh' transferred no data within"),
                        ("flood", "toy: the file does not end")):
        with Mode("copy_out", mode):
            refused(file(box, "GET", "large"), words)
        nothing_runs()
        eq(file(box, "GET", "large").body, data, f"after it: {mode}")
    eq(world.show(box)["state"], "running", "state")
    world.delete(box)


# -------------------------------------------------------------------------- the shim


def shim():
    """The shim of the only sandbox: the first process of its pid namespace."""
    found = [p for p in below(os.getpid()) if slurp(f"/proc/{p}/comm") == "warren-shim\n"
             and slurp(f"/proc/{p}/status").partition("\nNSpid:")[2].split("\n")[0].split()[-1] == "1"]
    eq(len(found), 1, "shims")
    return found[0]


@test
def a_killed_shim_loses_nothing_acknowledged():
    box = world.create()
    at = f"/v1/sandboxes/{box}"
    done = world.run(box, "echo kept; exit 7")
    under_way = world.exec(box, "echo begun; sleep 5031.5")
    until(lambda: b"begun" in world.raw(box, under_way, follow="false"), "it has begun")
    answers = []
    with Mode("copy_in", "hang"):
        upload = threading.Thread(target=lambda: answers.append(file(box, "PUT", "lost", noise(MIB))))
        upload.start()
        until(lambda: running("sleep", "5031.5") and glob.glob(f"{world.dir}/.warren-*"), "it is being written")
        os.kill(shim(), signal.SIGKILL)
        upload.join(WAIT)
    eq(len(answers), 1, "answers to the upload")
    ok(answers[0].status >= 500, f"the upload: {answers[0]}")
    until(lambda: world.show(box)["state"] == "failed", lambda: f"state: {world.show(box)}")
    ok(world.show(box)["error"], "it gives no reason")
    again = world.get(f"{at}/execs/{done['id']}")
    eq((again["result"], world.raw(box, done["id"])), (done["result"], b"kept\n"), "what had ended")
    e = world.get(f"{at}/execs/{under_way}")
    eq((e["state"], world.raw(box, under_way, follow="false")), ("lost", b"begun\n"), "what had begun")
    check_error(world.ask("POST", at + "/run", {"command": "echo"}), 409)
    nothing_runs()
    world.delete(box)
    nothing_left()
    box = world.create()
    eq(world.run(box, "echo on")["stdout"], "on\n", "another, of the same service")
    world.delete(box)
    for path in glob.glob(f"{world.dir}/.warren-*"):  # files on this machine, outside of any sandbox
        os.unlink(path)


@test
def a_full_disk_of_the_service_is_reported():
    with scratch() as state:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "warren-test", state], check=True)
        try:
            with World(config=CONFIG.replace("@DIR@/tool", f"{world.dir}/tool"), state=state) as w:
                box = w.create()
                at = f"/v1/sandboxes/{box}/files"
                path = {"path": f"{world.dir}/big"}
                w.ask("PUT", at, b"old", query=path, status=201)
                check_error(w.ask("PUT", at, noise(32 * MIB), query=path), 507, "disk_full")
                eq(w.ask("GET", at, query=path).body, b"old", "what was there")
                until(lambda: not glob.glob(f"{world.dir}/.warren-*"), "something is left beside it")
                with open(f"{world.dir}/big", "wb") as f:
                    f.write(noise(32 * MIB))
                check_error(w.ask("GET", at, query=path), 507, "disk_full")
                eq(w.run(box, "echo alive")["stdout"], "alive\n", "a command")
                data = noise(8 * MIB)
                w.ask("PUT", at, data, query=path, status=200)
                eq(w.ask("GET", at, query=path).body, data, "with room for it")
        finally:
            subprocess.run(["umount", "-l", state], check=True)


if __name__ == "__main__":
    with World(config=CONFIG) as world:
        with open(f"{world.dir}/tool", "w", encoding="ascii") as tool:
            tool.write(TOOL.replace("@DIR@", world.dir))
        failed = run_tests()
    sys.exit(failed)
