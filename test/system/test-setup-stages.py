#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-setup-stages.py - steps that have not changed do not run again (warren setup)

Prints TAP. $WARREN is the program (default build/warren). After every test, no trace of a sandbox may remain.
"""
import json
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, eq, ok, Skip  # pylint: disable=wrong-import-position
from cli_world import main, WAIT  # pylint: disable=wrong-import-position
from setup_world import put, World  # pylint: disable=wrong-import-position


def steps(w, *items):
    """Writes steps: (title, extra commands, files or None)."""
    put(w.project, {"warren.yaml": "steps:\n" + "".join(
        f"  - run: |\n      : {title}\n      {run}\n" + (f"    files: [{', '.join(files)}]\n" if files is not None else "")
        for title, run, files in items)})


def ran(w, *words, status=0):
    """The titles of the steps that a setup runs."""
    err = w.run("setup", *words, status=status).stderr.decode()
    return re.findall(r"^warren setup: : (\w+)  ", err, re.M)


THREE = [(n, f"echo {n} $(cat {n}) >>/srv/log; mkdir -p node_modules; cp /srv/log node_modules/log", [n]) for n in ("one", "two", "three")]


def log(w):
    return w.run("work", "-q", "--no-sync", "--", "cat", "/srv/log", "node_modules/log").stdout.decode()


@test
def only_the_steps_from_the_changed_one_on_run_again():
    with World() as w:
        steps(w, *THREE)
        put(w.project, {"one": "1\n", "two": "1\n", "three": "1\n"})
        eq(ran(w), ["one", "two", "three"])
        eq(log(w), "one 1\ntwo 1\nthree 1\n" * 2)
        for name, again, now in (("three", ["three"], (1, 1, 2)), ("two", ["two", "three"], (1, 2, 2)),
                                 ("one", ["one", "two", "three"], (2, 2, 2))):
            put(w.project, {name: "2\n"})
            eq(ran(w), again, name)
            eq(log(w), "one %d\ntwo %d\nthree %d\n" % now * 2, name)
        put(w.project, {"one": "1\n"})
        eq((ran(w), log(w)), ([], "one 1\ntwo 2\nthree 2\n" * 2), "an earlier result")
        put(w.project, {"two": "3\n"})
        eq((ran(w), log(w)), (["two", "three"], "one 1\ntwo 3\nthree 2\n" * 2), "the first one has a result")


@test
def a_failing_step_keeps_the_results_of_those_before_it():
    with World() as w:
        steps(w, *THREE[:2], ("three", "false", ["three"]))
        put(w.project, {"one": "1\n", "two": "1\n"})
        eq(ran(w, status=125), ["one", "two", "three"])
        eq(ran(w, status=125), ["three"])
        steps(w, *THREE)
        eq(ran(w), ["three"])
        eq(w.left(), [])
        # What cannot be verified is not kept.
        put(w.project, {"warren.yaml": "steps:\n- {run: ': first', verify: 'false', files: [x]}\n- {run: ': second', files: [x]}\n"})
        eq((ran(w, status=125), ran(w, status=125)), (["first"], ["first"]))
        put(w.project, {"warren.yaml": "steps:\n- {run: ': first', verify: 'test ! -e /srv/bad', files: [x]}\n"
                                       "- run: |\n    : second\n    touch /srv/bad\n  files: [x]\n"})
        eq((ran(w, status=125), ran(w, status=125)), (["first", "second"], ["second"]))


@test
def two_setups_share_the_steps_that_are_the_same():
    with World() as w:
        first = ("one", "touch half; sleep 2; date +%N >/srv/one", ["one"])
        steps(w, first, ("two", "cp /srv/one log", ["two"]))
        p = w.start("setup")
        deadline = time.monotonic() + WAIT
        while not w.found("half") and time.monotonic() < deadline:
            time.sleep(0.05)
        steps(w, first, ("three", "cp /srv/one log", ["two"]))
        q = w.start("setup")
        ends = [x.communicate(timeout=3 * WAIT) for x in (p, q)]
        eq([x.returncode for x in (p, q)], [0, 0], f"{ends}")
        ok(b"waiting for it" in ends[1][1] and b": : one  " in ends[0][1] and b": : one  " not in ends[1][1], f"{ends}")
        eq(len({w.read(out.decode(), "project", "log") for out, _ in ends}), 1, "the same result of the first step")
        eq((len(w.list()), w.left()), (3, []))


@test
def steps_that_read_everything_run_together():
    with World() as w:
        steps(w, THREE[0], ("all", "touch /tmp/x", None), ("last", "test -e /tmp/x -a ! -e /tmp/y", ["two"]))
        put(w.project, {"one": "1\n"})
        eq(ran(w), ["one", "all", "last"])
        eq(len(w.list()), 2)
        put(w.project, {"README": "1\n"})
        eq(ran(w), ["all", "last"])
        put(w.project, {"one": "2\n"})
        eq(ran(w), ["one", "all", "last"])
        # What the steps before left in /tmp is gone, and so is what is not kept of the project.
        steps(w, ("one", "touch /tmp/y not-kept; mkdir node_modules; touch node_modules/kept", ["one"]),
              ("two", "test -e node_modules/kept -a ! -e /tmp/y -a ! -e not-kept", ["one"]))
        eq(ran(w), ["one", "two"])


@test
def manifests_that_read_least_are_installed_first():
    with World() as w:
        for program in ("npm", "cmake"):
            if w.run("run", "--", "sh", "-c", f"command -v {program}", status=None).returncode != 0:
                raise Skip(f"the image host has no {program}")
        put(w.project, {"CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(x NONE)\n",
                        "web/package.json": json.dumps({"name": "x", "version": "1.0.0"})})
        plan = json.loads(w.run("detect", "--json").stdout)
        eq([s["title"] for s in plan["steps"]], ["npm install", "cmake -S . -B build"])
        w.run("setup")
        put(w.project, {"main.c": "1\n"})
        err = w.run("setup").stderr
        ok(b" cmake -S . -B build  " in err and b"setup: npm install" not in err and b"verify npm install" in err, err)


@test
def a_refresh_replaces_the_results_of_all_steps():
    with World() as w:
        steps(w, ("one", "date +%N >/srv/one", ["one"]), ("two", "cat two", ["two"]))
        put(w.project, {"two": "1\n"})
        shown = ("work", "-q", "--no-sync", "--", "cat", "/srv/one")
        eq(ran(w), ["one", "two"])
        before = w.run(*shown).stdout
        put(w.project, {"two": "2\n"})
        eq((ran(w), w.run(*shown).stdout), (["two"], before))
        eq(ran(w, "--refresh"), ["one", "two"])
        after = w.run(*shown).stdout
        ok(after != before, f"{after}")
        # No result of the old first step is left.
        for text in ("1\n", "3\n"):
            put(w.project, {"two": text})
            eq((ran(w), w.run(*shown).stdout), (["two"], after), text)


@test
def removing_a_result_removes_what_only_it_needs():
    with World() as w:
        steps(w, *THREE)
        put(w.project, {"one": "1\n", "two": "1\n", "three": "1\n"})
        first = w.setup().split()[0]
        put(w.project, {"three": "2\n"})
        second = w.setup().split()[0]
        eq(len(w.list()), 4)
        w.run("setup", "rm", second)
        eq((len(w.list()), w.setup("--quiet").split()[1]), (3, "created"))
        second = w.list()[0]["key"]
        put(w.project, {"three": "1\n"})
        ok(w.setup().endswith("ready"), "the other result")
        w.run("setup", "rm", first, second)
        eq((w.list(), w.left()), ([], []))


@test
def the_number_of_layers_is_limited():
    with World() as w:
        names = [f"f{i}" for i in range(20)]
        put(w.project, {n: f"{n}\n" for n in names})
        all_steps = [(n, f"cat {n} >>/srv/log; mkdir -p node_modules; cp /srv/log node_modules/log", [n]) for n in names]
        steps(w, *all_steps)
        eq(ran(w), names)
        eq(log(w), "".join(f"{n}\n" for n in names) * 2)
        ok(len(w.list()) <= 8, f"{len(w.list())} layers")
        put(w.project, {names[-1]: "new\n"})
        again = ran(w)
        ok(0 < len(again) < 5, f"{again}")
        eq(log(w), "".join(f"{n}\n" for n in names[:-1] + ["new"]) * 2)
        # A chain that has grown step by step.
        for n in range(1, len(names), 2):
            steps(w, *all_steps[:n])
            ran(w)
            eq(log(w), "".join(f"{name}\n" for name in names[:n]) * 2)


STEP = "{run: 'cat %s >>/srv/log; cat /srv/log >log; echo >/root/%s', files: [%s]}"


@test
def steps_start_from_the_result_of_the_steps_before_them():
    with World() as w:
        def steps(*names):
            put(w.project, {"warren.yaml": f"steps: [{', '.join(STEP % (n, n, n) for n in names)}]\n"})
            return w.setup()

        put(w.project, {"one": "1\n", "two": "2\n", "three": "3\n"})
        steps("one")
        p = w.run("setup")
        ok(b"ready" in p.stdout, p.stdout)
        last = steps("one", "two")
        eq(w.read(last, "project", "log"), "1\n2\n")
        layers = w.list()
        eq((len(layers), layers[0]["base"], layers[1]["base"]), (2, layers[1]["key"], None))
        eq(w.read(steps("one", "two", "three"), "project", "log"), "1\n2\n3\n")
        # A file of the last step has changed: those before it have a result.
        put(w.project, {"three": "33\n"})
        eq(w.read(w.setup(), "project", "log"), "1\n2\n33\n")
        ok(w.list()[0]["base"].startswith(last.split()[0]), f"the base: {w.list()[0]}")
        # A file of the first step has changed: no part of its result is used.
        put(w.project, {"one": "11\n"})
        again = w.setup()
        eq(w.read(again, "project", "log"), "11\n2\n33\n")
        # The length of a chain is limited.
        names = [f"f{i}" for i in range(10)]
        put(w.project, {n: f"{n}\n" for n in names})
        for n in range(1, len(names) + 1):
            last = steps(*names[:n])
            eq(w.read(last, "project", "log"), "".join(f"{name}\n" for name in names[:n]))


@test
def nothing_stays_of_a_step_that_has_changed():
    with World() as w:
        put(w.project, {"warren.yaml": "steps: [{run: 'sh ./install.sh'}]\n",
                        "install.sh": "echo 'echo POISONED' >/root/.bashrc; mkdir node_modules; echo bad >node_modules/x\n"})
        first = w.setup()
        show = ("work", "-q", "--no-sync", "--", "sh", "-c", "cat /root/.bashrc node_modules/x 2>/dev/null; echo end")
        eq(w.run(*show).stdout, b"echo POISONED\nbad\nend\n")
        put(w.project, {"install.sh": "mkdir node_modules\n"})
        ok(w.setup().endswith("created"), first)
        eq(w.run(*show).stdout, b"end\n")


@test
def refresh_starts_again():
    with World() as w:
        put(w.project, {"warren.yaml": "steps: [{run: 'date +%s%N >made'}]\n"})
        first = w.setup()
        made = w.read(first, "project", "made")
        eq(w.setup("--refresh"), first)
        ok(w.read(first, "project", "made") != made, "the step did not run again")


@test
def what_a_later_step_removed_stays_removed():
    with World() as w:
        first = "{run: 'mkdir node_modules; touch log node_modules/x', files: [dep]}"
        put(w.project, {"warren.yaml": f"steps: [{first}]\n", "dep": "1\n"})
        eq(w.layer_files(w.setup(), "project"), ["log", "node_modules/x"])
        put(w.project, {"warren.yaml": f"steps: [{first}, {{run: 'rm log node_modules/x', files: [dep]}}]\n"})
        ok(w.setup().endswith("created"), "another step")
        ok(w.list()[0]["base"], "it starts from the first step")
        eq(w.run("work", "-q", "--no-sync", "--", "sh", "-c", "ls; ls node_modules").stdout.split(),
           [b"dep", b"node_modules", b"warren.yaml"])


if __name__ == "__main__":
    sys.exit(main())
