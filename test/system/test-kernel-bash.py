#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-kernel-bash.py - cells of Bash run in one shell, and an interrupt ends a cell but not the shell

Prints TAP. Starts the kernel (src/code/kernel) as a process without a sandbox.
"""
import json
import sys

from os.path import abspath, dirname, join, realpath
sys.path[:0] = [join(dirname(abspath(__file__)), "../lib")]
from checks import eq, ok, run_tests, scratch, test  # pylint: disable=wrong-import-position
from kernel_world import Kernel  # pylint: disable=wrong-import-position


@test
def directory_variables_functions_and_aliases_are_kept():
    with scratch() as d, Kernel("bash", cwd=d) as k:
        eq(k.run("pwd").stdout, f"{realpath(d)}\n")
        cell = k.run("cd /; X='a b'; export Y=y; f() { echo \"f $X $1\"; }; alias hi='echo hello'")
        eq([e["type"] for e in cell.events], ["number_of_executions", "end_of_execution"])
        eq(k.run("pwd; f 1; hi; sh -c 'echo $Y'").stdout, "/\nf a b 1\nhello\ny\n")
        eq(k.run("for i in 1 2; do\n  echo $i\ndone\ncat <<E\nit's $X\nE").stdout, "1\n2\nit's a b\n")
        eq(k.run("echo 'é!' \"!x\"").stdout, "é! !x\n")
        eq(k.run("").events[0]["execution_count"], 6)


@test
def output_and_errors_are_separate():
    with Kernel("bash") as k:
        cell = k.run("echo out; echo err >&2")
        eq((cell.stdout, cell.stderr, cell.error), ("out\n", "err\n", None))
        cell = k.run("nosuchcommand")
        ok("nosuchcommand: command not found" in cell.stderr, cell)
        eq(cell.error, {"type": "error", "name": "ExitStatus", "value": "127", "traceback": "exit status 127"})
        eq(k.run("echo $?").stdout, "127\n", "the status of the cell before")
        eq(k.run("if then").error["value"], "2")
        eq(k.run("(exit 7)").error["value"], "7")
        eq(k.run("false; true").error, None)
        eq(k.run("printf '\\377'").stdout, "\ufffd")
        eq(len(k.run("head -c 3000000 /dev/zero | tr '\\0' x").stdout), 3000000)
        eq(k.run("yes | head -n 1").stdout, "y\n")
        line = json.dumps({"type": "end_of_execution"})
        eq(k.run(f"echo '{line}'; ls /proc/self/fd | wc -l").stdout, f"{line}\n4\n")


@test
def cells_have_no_input():
    with Kernel("bash") as k:
        eq(k.run("cat; read x; echo \"[$x]\"").stdout, "[]\n")


@test
def environment_variables_are_set_for_one_cell():
    with Kernel("bash", env={"OLD": "before"}) as k:
        code = "echo ${NEW-unset} $OLD; sh -c 'echo \"$NEW\"'"
        eq(k.run(code, {"NEW": "it's\nnew", "OLD": "during"}).stdout, "it's new during\nit's\nnew\n")
        eq(k.run(code).stdout, "unset before\n\n")
        eq(k.run("false", {"NEW": "x"}).error["value"], "1")
        eq(k.run(code).stdout, "unset before\n\n")
        eq(k.run("echo", {"A B": "x"}).error["name"], "ValueError")


@test
def a_shell_that_exits_is_replaced():
    with Kernel("bash") as k:
        for code, value in (("X=1; exit 3", "3"), ("X=1; set -e; false", "1"), ("X=1; kill -9 $$", "-9")):
            e = k.run(code).error
            ok(e["name"] == "ShellExit" and e["value"] == value and "variables are lost" in e["traceback"], e)
            eq(k.run("echo ${X-none}").stdout, "none\n")


@test
def an_interrupt_ends_the_cell_but_not_the_shell():
    with Kernel("bash") as k:
        k.run("X=7")
        for code in ("echo go; sleep 1000", "echo go; while :; do :; done", "while :; do echo go; sleep 0.01; done",
                     "f() { echo go; sleep 1000; echo not; }; f; f; echo not", "yes go"):
            k.send(code)
            k.wait_for("go")
            k.interrupt()
            cell = k.finish()
            ok(cell.error and cell.error["name"] == "KeyboardInterrupt" and "not" not in cell.stdout, f"{code}: {cell}")
            eq(k.run("echo $X").stdout, "7\n")
        k.send("sleep 0.2")
        k.send("sleep 1000")
        k.interrupt()  # this cell has not begun
        eq([k.finish().error, k.finish().error["name"]], [None, "KeyboardInterrupt"])
        k.interrupt()  # this cell has ended
        eq(k.run("sleep 0.2; echo $X").stdout, "7\n")


@test
def background_processes_can_write_after_their_cell():
    with scratch() as d, Kernel("bash", cwd=d) as k:
        k.run("mkfifo p; (read x <p; echo $x) &")
        eq(k.run("echo late >p; wait").stdout, "late\n")


@test
def the_end_of_requests_ends_the_kernel_and_the_shell():
    with scratch() as d, Kernel("bash", cwd=d) as k:
        k.run("trap 'echo >ended' EXIT")
        k.process.stdin.close()
        eq(k.ended(), 0)


if __name__ == "__main__":
    sys.exit(run_tests())
