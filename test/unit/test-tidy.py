#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-tidy.py - tools/check/tidy checks a file again when its result can differ, and only then

Prints TAP.
"""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import SOURCE, eq, ok, run_tests, test  # pylint: disable=wrong-import-position

# Instead of clang-tidy: it records the file, and complains about the word "bad".
PROGRAM = """#!/bin/sh
echo "$2" >>../checked
! grep bad "$2"
"""


@contextlib.contextmanager
def tree():
    """Creates a tree of two files, of which one has a header, and makes it the current directory."""
    with tempfile.TemporaryDirectory() as d:
        before = os.getcwd()
        os.chdir(d)
        try:
            for folder in ("src", "build", "bin"):
                os.mkdir(folder)
            put("src/a.h", "int a(void);\n")
            put("src/a.c", '#include "a.h"\nint a(void) { return A; }\n')
            put("src/b.c", "int b(void) { return 1; }\n")
            put(".clang-tidy", "Checks: '*'\n")
            put("bin/clang-tidy", PROGRAM)
            os.chmod("bin/clang-tidy", 0o755)
            os.symlink(shutil.which("gcc"), "bin/clang")  # lists headers in the same way
            commands("-DA=1")
            yield
        finally:
            os.chdir(before)


def put(path, text):
    pathlib.Path(path).write_text(text, encoding="utf-8")


def commands(flag):
    """Writes the compile commands; a.c is part of two programs."""
    put("build/compile_commands.json", json.dumps([
        {"directory": "build", "file": f"../src/{name}.c",
         "command": f"cc {flag} -MD -MQ {out} -MF {out}.d -o {out} -c ../src/{name}.c"}
        for name, out in (("a", "one.o"), ("b", "b.o"), ("a", "two.o"))]))


def checked(*wanted, status=0):
    """Runs the check, and returns the names of the files that clang-tidy was started for."""
    put("checked", "")
    done = subprocess.run([f"{SOURCE}/tools/check/tidy", "build", *wanted],
                          env={**os.environ, "PATH": f"{os.getcwd()}/bin:{os.environ['PATH']}"},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    eq(done.returncode, status, done.stdout)
    ok(" files, " in done.stdout, done.stdout)
    return sorted(os.path.basename(f) for f in pathlib.Path("checked").read_text(encoding="utf-8").split())


@test
def each_file_is_checked_once_until_it_changes():
    with tree():
        eq(checked(), ["a.c", "b.c"])
        eq(checked(), [])
        put("src/b.c", "int b(void) { return 2; }\n")
        eq(checked(), ["b.c"])


@test
def a_change_of_a_header_or_a_flag_or_the_configuration_counts():
    with tree():
        eq(checked(), ["a.c", "b.c"])
        put("src/a.h", "int a(void); /* a comment may be NOLINT */\n")
        eq(checked(), ["a.c"])
        commands("-DA=2")
        eq(checked(), ["a.c", "b.c"])
        put(".clang-tidy", "Checks: 'bugprone-*'\n")
        eq(checked(), ["a.c", "b.c"])
        put("bin/clang-tidy", PROGRAM + "# another version\n")
        eq(checked(), ["a.c", "b.c"])


@test
def a_file_with_findings_is_checked_until_it_passes():
    with tree():
        put("src/b.c", "int bad(void) { return 1; }\n")
        eq(checked(status=1), ["a.c", "b.c"])
        eq(checked(status=1), ["b.c"])
        put("src/b.c", "int b(void) { return 1; }\n")
        eq(checked(), ["b.c"])


@test
def a_file_that_does_not_compile_never_passes():
    with tree():
        put("src/b.c", '#include "missing.h"\n')
        eq(checked(status=1), ["a.c", "b.c"])
        eq(checked(status=1), ["b.c"])


@test
def results_of_older_contents_are_removed_by_a_whole_run():
    with tree():
        checked()
        put("src/b.c", "int b(void) { return 3; }\n")
        eq(checked("src/b.c"), ["b.c"])
        eq(len(os.listdir("build/tidy")), 3)
        eq(checked(), [])
        eq(len(os.listdir("build/tidy")), 2)


if __name__ == "__main__":
    sys.exit(run_tests())
