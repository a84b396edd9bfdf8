#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-run-tests.py - run-tests leaves nothing behind when it is ended, and sees the reports of all sanitizers

Prints TAP. The build folder has one test, which is a script of this test.
"""
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import SOURCE, eq, ok, run_tests, scratch, test  # pylint: disable=wrong-import-position
from serve_world import until  # pylint: disable=wrong-import-position

# Starts a process in another session, like a dockerd, which the test ends itself.
SCRIPT = """
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from checks import run_tests, test
pids = sys.argv[2]
sys.argv[1:] = []

@test
def waits():
    other = subprocess.Popen(["sleep", "5061.5"], start_new_session=True)
    try:
        with open(pids, "w") as f:
            f.write(f"{os.getpid()} {other.pid}")
        other.wait()
    finally:
        other.kill()
        other.wait()

sys.exit(run_tests())
"""


# A program whose test passes. Its child has no output and can open no file, like the confined processes of Warren.
CHILD = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	pid_t child = fork();
	if (child == 0) {
		(void)close(0), (void)close(1), (void)close(2);
		(void)setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, 0 });
		char *volatile room = malloc(4);
		int volatile most = 0x7fffffff;
		if (argc > 1 && strcmp(argv[1], "address") == 0)
			room[4] = 1;
		if (argc > 1 && strcmp(argv[1], "undefined") == 0)
			most = most + argc;
		_exit(most == 0);
	}
	(void)waitpid(child, NULL, 0);
	return puts("ok 1 - passes\\n1..1") < 0;
}
"""


# Each run notes which points ran; "fails" fails in the first one.
POINTS = """
import os, sys
sys.path.insert(0, sys.argv[1])
from checks import ok, run_tests, test, Skip
note = sys.argv[2]
names = sys.argv[3:] if sys.argv[3:4] != ["deaf"] else []
sys.argv[1:] = names
ran = open(note).read() if os.path.exists(note) else ""
open(note, "a").write(f"{names}\\n")

@test
def passes():
    pass

@test
def is_skipped():
    raise Skip("for a reason")

@test
def fails():
    ok(ran, "the first run")

@test
def always_fails():
    ok("hopeless" not in os.environ, "each run")

sys.exit(run_tests())
"""


def is_gone(pid):
    return not os.path.exists(f"/proc/{pid}")


def write_build(d, name, cmd, env):
    """Writes a build folder with one test."""
    os.makedirs(f"{d}/meson-info", exist_ok=True)
    with open(f"{d}/build.ninja", "w", encoding="utf-8") as f:
        f.write("rule nothing\n  command = true\nbuild all: phony\n")
    with open(f"{d}/meson-info/intro-tests.json", "w", encoding="utf-8") as f:
        json.dump([{"name": name, "suite": ["p:unit"], "protocol": "tap", "timeout": 600, "env": env, "workdir": None,
                    "cmd": cmd}], f)
    return [sys.executable, f"{SOURCE}/tools/run/run-tests", "--build", d]


@test
def an_interrupted_test_run_leaves_nothing_behind():
    with scratch() as d:
        with open(f"{d}/script.py", "w", encoding="utf-8") as f:
            f.write(SCRIPT)
        run = subprocess.Popen(write_build(d, "waits", [sys.executable, f"{d}/script.py", f"{SOURCE}/test/lib", f"{d}/pids"], {}),
                               stdout=subprocess.PIPE)
        until(lambda: os.path.exists(f"{d}/pids") and os.path.getsize(f"{d}/pids") > 0, "it has begun")
        with open(f"{d}/pids", encoding="utf-8") as f:
            pids = [int(p) for p in f.read().split()]
        ok(not any(is_gone(p) for p in pids), "control: both run")
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=60)
        eq([p for p in pids if not is_gone(p)], [], "processes that are left")


@test
def only_the_points_that_failed_are_run_again_if_that_takes_long():
    for name, env, last, runs, options in (
            ("long", {}, "3 passed, 0 failed, 1 skipped", ["[]", "['fails']"], {}),
            ("short", {}, "3 passed, 0 failed, 1 skipped", ["[]", "[]"], {"LONG": 300}),
            ("deaf", {}, "3 passed, 0 failed, 1 skipped", ["[]", "[]"], {}),
            ("hopeless", {"hopeless": "1"}, "2 passed, 1 failed, 1 skipped",
             ["[]", "['fails', 'always_fails']", "['always_fails']"], {})):
        with scratch() as d:
            with open(f"{d}/script.py", "w", encoding="utf-8") as f:
                f.write(POINTS)
            deaf = ["deaf"] if name == "deaf" else []
            command = write_build(d, name, [sys.executable, f"{d}/script.py", f"{SOURCE}/test/lib", f"{d}/ran", *deaf], env)
            out = subprocess.run([*command, "--retries", "2"], stdout=subprocess.PIPE, timeout=60, check=False,
                                 env={**os.environ, "WARREN_LONG": str(options.get("LONG", 0))}).stdout.decode()
            with open(f"{d}/ran", encoding="utf-8") as f:
                eq((out.splitlines()[-1], f.read().splitlines()), (last, runs), f"{name}: {out}")
            ok("Unsteady:\n  unit/" in out and "fails" in out, out)


@test
def a_report_of_a_confined_process_fails_a_test_that_passes():
    with scratch() as d:
        with open(f"{d}/child.c", "w", encoding="utf-8") as f:
            f.write(CHILD)
        sanitize = "-fsanitize=address,undefined"
        subprocess.run(["gcc", sanitize, "-g", "-o", f"{d}/child", f"{d}/child.c", f"{SOURCE}/test/lib/sanitizer_log.c",
                        f"-I{SOURCE}/src", "-D_GNU_SOURCE", f'-DSANITIZER_LOG="{d}/sanitizer-log"'], check=True)
        for fault, words, result in (("none", "", "1 passed, 0 failed"),
                                     ("address", "heap-buffer-overflow", "1 passed, 1 failed"),
                                     ("undefined", "runtime error: ", "1 passed, 1 failed")):
            command = write_build(d, fault, [f"{d}/child", fault], {"WARREN_SANITIZE": sanitize})
            out = subprocess.run(command, stdout=subprocess.PIPE, timeout=60).stdout.decode()
            ok(words in out and result in out, f"{fault}: {out}")


if __name__ == "__main__":
    sys.exit(run_tests())
