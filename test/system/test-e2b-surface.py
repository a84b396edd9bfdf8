#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-surface.py - every public method of E2B's packages is called, and is in doc/e2b.md"""
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import SOURCE, eq, ok, test  # pylint: disable=wrong-import-position
from e2b_world import E2bWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position

WORLD = []
STATE = tempfile.mkdtemp(prefix="warren-test-")
# What stands before the methods of a class in the tables of doc/e2b.md.
PREFIX = {"Sandbox": "", "Commands": "commands.", "Filesystem": "files.", "Pty": "pty.", "Git": "git.", "Volume": "Volume.",
          "Secret": "Secret.", "Template": "Template.", "TemplateBase": "Template.", "TemplateBuilder": "", "CommandHandle": "handle.",
          "CommandInputHandle": "input.", "WatchHandle": "watch.", "SandboxPaginator": "pages.",
          "SnapshotPaginator": "pages.", "SecretPaginator": "pages."}


def w():
    if not WORLD:
        WORLD.append(E2bWorld())
    return WORLD[0]


def documented():
    """The methods in the first columns of the tables; a prefix applies to the methods that follow it in a row."""
    names = set()
    with open(os.path.join(SOURCE, "doc/e2b.md"), encoding="utf-8") as f:
        for line in f:
            prefix = ""
            for word in re.findall(r"`([^`]*)`", line.split("|")[1]) if line.startswith("| ") else ():
                head, dot, name = re.match(r"[\w.]*", word)[0].rpartition(".")
                prefix = head + dot or prefix
                names.add(prefix + name)
    return names


def snake(name):
    """The name of a method of JavaScript in Python: fromAWSRegistry is from_aws_registry."""
    return re.sub(r"([a-z])([A-Z])|([A-Z])([A-Z][a-z])", r"\1\3_\2\4", name).lower()


def check(output):
    found = [line.split()[1:] for line in output.splitlines() if line.startswith("method ")]
    ok(len(found) > 90, f"only {len(found)} methods")
    names, missing = documented(), []
    for kind, name in found:
        prefix = PREFIX[kind.removeprefix("Async")]
        forms = {name, snake(name)}
        # The methods of a new template are in a table of their own, and the files of a volume in another row.
        before = {prefix, prefix.lower()} | ({""} if prefix == "Template." else set())
        if not {b + n for b in before for n in forms} & names:
            missing.append(f"{kind}.{name}")
    eq(missing, [], "methods that doc/e2b.md does not have")


@test
def every_method_of_the_python_packages_is_called_and_documented():
    check(w().python("surface.py", "sync", TMPDIR=STATE))


@test
def every_asynchronous_method_of_the_python_packages_is_called_and_documented():
    check(w().python("surface.py", "async", TMPDIR=STATE))


@test
def every_method_of_the_javascript_packages_is_called_and_documented():
    eq(snake("fromAWSRegistry"), "from_aws_registry")
    check(w().node("surface.mjs", TMPDIR=STATE))


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, STATE))
