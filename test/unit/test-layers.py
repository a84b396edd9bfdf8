#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-layers.py - check-layers detects violations, in an artificial tree

Prints TAP.
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import SOURCE, eq, ok, run_tests, test  # pylint: disable=wrong-import-position

LICENCE = "SPDX-License-Identifier: Apache-2.0"


def load():
    """The check as a separate module, whose tables a test may change."""
    loader = importlib.machinery.SourceFileLoader("check_layers", f"{SOURCE}/tools/check/check-layers")
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_layers", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


@contextlib.contextmanager
def tree():
    """Creates a tree with one layer, and makes it the current directory."""
    with tempfile.TemporaryDirectory() as d:
        before = os.getcwd()
        os.chdir(d)
        try:
            put("src/base/a.c", ['#include "base/a.h"'])
            put("src/base/a.h", [])
            yield
        finally:
            os.chdir(before)


def put(path, lines):
    """Writes a correct file that contains @lines."""
    p = pathlib.Path(path)
    p.parent.mkdir(parents=True, exist_ok=True)
    if p.suffix == ".py":
        head = ["#!/usr/bin/env python3", f"# {LICENCE}"]
    else:
        head = [f"/* {LICENCE} */", f"/* {p.name} - a file */"]
    p.write_text("\n".join([*head, *lines, ""]), encoding="utf-8")
    listing = p.parent / "meson.build"
    if p.suffix == ".c" and p.parts[0] == "src":
        old = listing.read_text(encoding="utf-8") if listing.exists() else ""
        listing.write_text(f"{old}files('{p.name}')\n", encoding="utf-8")


def complaints(module=None):
    module = module or load()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = module.main()
    lines = said.getvalue().splitlines()
    eq(status, 0 if lines == ["every file is in its layer"] else 1, f"status with {lines}")
    return [] if status == 0 else lines


@test
def a_correct_tree_is_accepted():
    with tree():
        put("src/os/b.h", ['#include "base/a.h"'])
        eq(complaints(), [])


def one_complaint(path, line, words):
    with tree():
        put(path, [line])
        found = complaints()
        ok(len(found) == 1 and path in found[0] and words in found[0], f"{path}, {line}: {found}")


@test
def an_include_of_a_higher_layer_is_reported():
    for path, line, words in (
            ("src/base/x.h", '#include "os/mount.h"', "base/ may not use os/"),
            ("src/service/core/x.h", '#include "service/exec/exec.h"', "service/core/ may not use service/exec/"),
            ("src/service/exec/x.h", '#include "service/session/session.h"', "may not use service/session/"),
            ("src/service/files/x.h", '#include "service/session/session.h"', "may not use service/session/"),
            ("src/service/exec/x.h", '#include "service/core/internal.h"', "is for service/core/ alone"),
            ("src/api/x.h", '#include "service/exec/internal.h"', "is for service/exec/ alone"),
            ("src/warden/x.h", '#include "image/store.h"', "may use only"),
            ("src/cli/x.h", '#include "x.h"', "with its layer in front")):
        one_complaint(path, line, words)


@test
def includes_in_the_table_are_accepted():
    for path, header in (("src/service/exec/x.h", "service/core/module.h"), ("src/service/core/x.h", "service/core/internal.h"),
                         ("src/service/session/x.h", "service/exec/exec.h"), ("src/warden/x.h", "image/ref.h")):
        with tree():
            put(path, [f'#include "{header}"'])
            eq(complaints(), [], f"{path}, {header}")


@test
def the_table_has_no_cycle():
    """A layer may use only the layers above it in the table, no matter how long the cycle would be."""
    for changes in ({"base": {"os"}}, {"service/core": {"service/exec"}}, {"proto": {"service/files"}}):
        module = load()
        eq(list(module.check_table()), [], "the table as it is")
        for layer, uses in changes.items():
            module.MAY_USE[layer] = module.MAY_USE[layer] | uses
        found = list(module.check_table())
        ok(len(found) == 1 and "must stand above it" in found[0], f"{changes}: {found}")


@test
def sizes_are_limited_in_scripts_and_tests_too():
    long_file = ["x = 1"] * 799
    for path, lines, words in (
            ("test/system/x.py", long_file, "801 lines"),
            ("tools/x.py", ["def f():", *["    x = 1"] * 81], "a function of 81 lines"),
            ("test/unit/x.c", ["int f(void)", "{", *["\tg();"] * 81, "}"], "a function of 81 lines"),
            ("src/base/x.h", [""] * 799, "801 lines")):
        with tree():
            put(path, lines)
            found = complaints()
            ok(len(found) == 1 and words in found[0], f"{path}: {found}")
            put(path, lines[:-1] if len(lines) > 200 else [*lines[:-2], lines[-1]])
            eq(complaints(), [], f"{path} with a line less")


@test
def a_source_that_is_not_built_is_reported():
    with tree():
        put("src/base/lost.c", [])
        os.truncate("src/base/meson.build", 0)
        ok(any("lost.c: no meson.build lists it" in line for line in complaints()), complaints())


@test
def a_test_that_never_runs_is_reported():
    with tree():
        for name in ("test-one.c", "test-two.py", "test-three.py"):
            put(f"test/unit/{name}", [])
        pathlib.Path("test/meson.build").write_text("'one', 'test-two', 'unit/test-three.py'", encoding="utf-8")
        eq(complaints(), [])
        put("test/unit/test-ones.py", [])
        eq(complaints(), ["test/unit/test-ones.py: test/meson.build does not list it, so it never runs"])


if __name__ == "__main__":
    sys.exit(run_tests())
