#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-kernels.py - cells that attack their kernel: the service stays responsive, and clients get their context back"""
import concurrent.futures
import contextlib
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, ok, eq  # pylint: disable=wrong-import-position
from e2b_raw import INTERPRETER, RawWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from serve_world import BACKEND, CONFIGS, until  # pylint: disable=wrong-import-position

WORLD = []
SET = {"python": "kept = 7", "javascript": "globalThis.kept = 7; undefined", "bash": "kept=7"}
SHOW = {"python": "print(kept)", "javascript": "console.log(kept)", "bash": "echo $kept"}


def w():
    if not WORLD:
        WORLD.append(RawWorld(config=CONFIGS[BACKEND]))
    return WORLD[0]


def languages(box):
    """The kernels that the image can run."""
    have = w().shell(box, "command -v node nodejs || true")
    return ["python", "bash"] + (["javascript"] if have else [])


def output(events):
    return "".join(e["text"] for e in events if e["type"] == "stdout")


def errors(events):
    return [e["name"] for e in events if e["type"] == "error"]


@contextlib.contextmanager
def running(box, code, **fields):
    """A cell that runs while the caller does something else; then its client leaves."""
    with contextlib.closing(w().cell(box, code, **fields)) as c:
        r = c.getresponse()
        ok(json.loads(r.readline())["type"] in ("number_of_executions", "keepalive"), "the cell began")
        yield r


def works(box, language):
    events = w().run_cell(box, SHOW[language], language=language)
    eq((output(events), errors(events), events[-1]["type"]), ("7\n", [], "end_of_execution"), language)


def is_new(box, language):
    """Has the context another kernel, without variables?"""
    w().run_cell(box, SET[language], language=language)
    works(box, language)


@test
def a_part_of_a_line_does_not_hide_the_end_of_a_cell():
    with w().e2b_box() as box:
        parts = {"python": "import os; os.write(4, b'x' * 100000)",
                 "javascript": "require('fs').writeSync(4, 'x'.repeat(60000)); undefined"}
        for language in set(languages(box)) & set(parts):
            w().run_cell(box, SET[language], language=language)
            events = w().run_cell(box, parts[language], language=language)
            eq((errors(events), events[-1]["type"]), (["KernelBroken"], "end_of_execution"), language)
            works(box, language)


@test
def a_line_that_is_no_event_ends_the_cell_with_an_error():
    # The cells would run for a long time, as one whose end the kernel cannot report.
    junk = {"python": "import os, time; os.write(4, b'\\nno event\\n'); time.sleep(1000)",
            "javascript": "require('fs').writeSync(4, '\\n[1]\\n'); await new Promise(r => setTimeout(r, 1e6))"}
    with w().e2b_box() as box:
        for language in set(languages(box)) & set(junk):  # a shell cannot open the pipe of its kernel
            w().run_cell(box, SET[language], language=language)
            events = w().run_cell(box, junk[language], language=language)
            eq((errors(events), events[-1]["type"]), (["KernelBroken"], "end_of_execution"), language)
            works(box, language)


STOPS = {"python": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", "bash": "kill -STOP $PPID",
         "javascript": "process.kill(process.pid, 'SIGSTOP')"}


@test
def a_kernel_that_does_not_answer_is_replaced_for_the_next_client():
    def stop(language):
        w().run_cell(box, SET[language], language=language)
        with running(box, STOPS[language], language=language):
            pass
        first = w().run_cell(box, SHOW[language], language=language)
        eq(errors(first), ["KernelStopped"], first)
        ok("variables are lost" in first[0]["value"], first)
        is_new(box, language)

    with w().e2b_box() as box, concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(stop, languages(box)))


@test
def a_kernel_that_becomes_another_program_is_replaced():
    with w().e2b_box() as box:
        with running(box, "import os; os.execvp('sleep', ['sleep', '1000'])"):
            pass
        eq(errors(w().run_cell(box, "1")), ["KernelStopped"])
        is_new(box, "python")
        until(lambda: w().shell(box, "pgrep -x sleep || true") == "", "the end of that program")


@test
def a_cell_that_ends_after_an_interrupt_keeps_its_kernel():
    with w().e2b_box() as box:
        for language, sleep in (("python", "import time; time.sleep(1000)"), ("bash", "sleep 1000")):
            w().run_cell(box, SET[language], language=language)
            with running(box, sleep, language=language):
                pass
            works(box, language)


@test
def a_waiting_cell_does_not_wake_a_sandbox_that_was_paused_without_memory():
    with w().e2b_box(autoPause=True, autoResume={"enabled": True}) as box:
        at = f"/sandboxes/{box['sandboxID']}"
        with running(box, "import time; time.sleep(1000)") as first:
            with contextlib.closing(w().cell(box, "open('ran', 'w'); 'ran'")) as c:
                waits = c.getresponse()
                eq(json.loads(waits.readline())["type"], "keepalive")
                eq(w().control("POST", f"{at}/pause", {"memory": False})[0], 204)
                ok(b'"KernelDied"' in first.read(), "the cell that ran")
                second = waits.read()
        ok(b'"error"' in second and b'"result"' not in second, second)
        eq(w().control("GET", at)[1]["state"], "paused")
        eq(w().control("POST", f"{at}/connect", {"timeout": 300})[0], 201)
        eq(w().shell(box, "ls /home/user"), "")
        is_new(box, "python")


@test
def contexts_can_be_listed_when_there_are_as_many_as_possible():
    with w().e2b_box() as box:
        plane = w().plane(box, INTERPRETER, token=False)
        made = [w().request("POST", "/contexts", {}, **plane) for _ in range(33)]
        eq([status for status, _ in made], [200] * 32 + [429])
        status, listed = w().request("GET", "/contexts", None, **plane)
        eq((status, len(listed)), (200, 34), listed)
        eq(w().request("DELETE", f"/contexts/{made[0][1]['id']}", None, **plane)[0], 204)
        eq([w().request("POST", "/contexts", {}, **plane)[0] for _ in range(2)], [200, 429])
        is_new(box, "python")


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
