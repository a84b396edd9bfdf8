#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-work-scale.py - work on a project of 100,000 files is exact, and costs what the changes cost

Prints TAP. $WARREN is the program (default build/warren). Times say little on a busy machine, so system calls are counted
(strace -f -c): those of a review must not grow with the project, and those of a start only with its directories.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, eq, ok, Skip, WARREN  # pylint: disable=wrong-import-position
from cli_world import WAIT, main  # pylint: disable=wrong-import-position

MEMORY = "/dev/shm"
DIRS, SMALL = 1000, 100  # directories of the large project and of the small one
FILES = 100              # in each directory
FEW, MANY = 100, 1000    # changed files; both projects have them
LIMIT = 3 * WAIT
# Calls that keep the contents of a project without a repository: six for each directory of the first 50,000 files.
KEEP = 6 * 50_000 // FILES


class Project:
    """A project with @dirs directories of FILES files, and a state directory for it."""

    def __init__(self, top, dirs):
        self.top, self.path, self.dirs = top, f"{top}/project", dirs
        for name in ("project", "state", "home"):
            os.mkdir(f"{top}/{name}", 0o755 if name == "project" else 0o700)
        for d in range(dirs):
            where = f"{self.path}/{self.dir_of(d)}"
            os.makedirs(where)
            for f in range(FILES):
                with open(f"{where}/f{f}", "wb", 0) as out:
                    if d < SMALL and f < 10:
                        out.write(b"old\n")
        self.env = {**os.environ, "WARREN_STATE": f"{top}/state", "HOME": f"{top}/home"}

    @staticmethod
    def dir_of(d):
        return f"d{d // 40}/s{d % 40}"

    def run(self, *words, trace=None, status=0):
        command = ["strace", "-f", "-c", "-o", trace, WARREN, *words] if trace else [WARREN, *words]
        p = subprocess.run(command, env=self.env, cwd=self.path, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT,
                           check=False)
        eq(p.returncode, status, f"{words}: {p.stderr}")
        return p.stdout

    def calls(self, *words):
        """Runs a command, and returns the number of its system calls."""
        if not shutil.which("strace"):
            raise Skip("strace is not installed")
        trace = f"{self.top}/trace"
        self.run(*words, trace=trace)
        total = pathlib.Path(trace).read_text(encoding="ascii").splitlines()[-1].split()
        eq(total[-1], "total")
        return int(total[3] if len(total) > 4 else total[2])

    def calls_at_best(self, *words):
        """The fewest calls of some runs: on a busy machine, others read a directory again, or files are still being removed."""
        return min(self.calls(*words) for _ in range(4))

    def changed(self, n):
        """The first @n of the files that are changed: 10 of each directory."""
        return [f"{self.dir_of(i // 10)}/f{i % 10}" for i in range(n)]

    def change(self, name, n):
        script = "while read -r f; do echo new >>\"$f\"; done"
        p = subprocess.run([WARREN, "work", "-q", "--keep", "--name", name, "--", "sh", "-c", script], env=self.env, cwd=self.path,
                           input="".join(f"{f}\n" for f in self.changed(n)).encode(), capture_output=True, timeout=LIMIT, check=False)
        eq(p.returncode, 0, f"{p.stderr}")

    def state(self):
        """What identifies each file."""
        found = {}
        for top, dirs, names in os.walk(self.path):
            dirs.sort()
            for name in names:
                st = os.lstat(f"{top}/{name}")
                found[os.path.relpath(f"{top}/{name}", self.path)] = (st.st_ino, st.st_size, st.st_mtime_ns, st.st_mode)
        return found

    def restore(self):
        for path in self.changed(MANY):
            with open(f"{self.path}/{path}", "wb", 0) as f:
                f.write(b"old\n")


class Worlds:
    """Both projects, created once."""

    def __init__(self):
        self.top = None

    def __call__(self):
        if not self.top:
            self.top = tempfile.mkdtemp(prefix="warren-scale-", dir=MEMORY if os.access(MEMORY, os.W_OK) else "/var/tmp")
            for name, dirs in (("small", SMALL), ("large", DIRS)):
                os.mkdir(f"{self.top}/{name}")
                setattr(self, name, Project(f"{self.top}/{name}", dirs))
        return self.small, self.large

    def done(self):
        if self.top:
            shutil.rmtree(self.top)


worlds = Worlds()


@test
def a_start_shows_all_files():
    _, large = worlds()
    eq(large.run("work", "-q", "--", "sh", "-c", "find . -type f | wc -l; cat d0/s0/f0").split(), [str(DIRS * FILES).encode(), b"old"])


@test
def a_start_costs_two_calls_for_each_directory_and_none_for_a_file():
    small, large = worlds()
    calls = []
    for p in (small, large):
        for _ in range(2):  # the second one remembers the names in directories
            p.run("work", "-q", "--", "true")
        calls.append(p.calls_at_best("work", "-q", "--", "true"))
    more = (DIRS - SMALL) * 41 / 40
    ok(calls[1] - calls[0] < KEEP + 2.1 * more + 100, f"{calls}: more than two calls for each of {more:.0f} directories")
    # A control: the calls are counted.
    ok(calls[0] > 200 and calls[1] - calls[0] > more, f"{calls}")


@test
def a_start_with_a_ready_setup_reads_only_what_determines_it():
    small, large = worlds()
    calls = []
    for p in (small, large):
        with open(f"{p.path}/warren.yaml", "w", encoding="ascii") as f:
            f.write("steps: [{run: 'mkdir target; touch target/ready', files: [d0/s0/f0]}]\n")
        for _ in range(2):
            p.run("work", "-q", "--", "test", "-e", "target/ready")
        calls.append(p.calls_at_best("work", "-q", "--", "true"))
        os.unlink(f"{p.path}/warren.yaml")
    ok(calls[1] - calls[0] < KEEP + 2.1 * (DIRS - SMALL) * 41 / 40 + 100, f"{calls}")


@test
def a_diff_is_exact_and_does_not_grow_with_the_project():
    calls = []
    for p in worlds():
        p.change("few", FEW)
        eq(p.run("diff", "--name-status", "few").decode().splitlines(), [f"M\t{path}" for path in sorted(p.changed(FEW))])
        patch = p.run("diff", "few").decode().splitlines()
        eq((patch.count("+new"), sum(line.startswith("-") and not line.startswith("---") for line in patch)), (FEW, 0))
        calls.append(p.calls("diff", "few"))
    ok(abs(calls[1] - calls[0]) < calls[0] / 5, f"{calls}: the project has ten times as many files")
    ok(calls[1] < 60 * FEW, f"{calls}: too many for {FEW} changes")


@test
def a_reject_changes_nothing_and_does_not_grow_with_the_project():
    calls = []
    for p in worlds():
        before = p.state()
        calls.append(p.calls("reject", "few"))
        ok(p.state() == before, "the project")
        ok(b"few" not in p.run("work", "--list"), "the work")
    ok(abs(calls[1] - calls[0]) < calls[0] / 5, f"{calls}")


@test
def an_accept_is_exact_and_does_not_grow_with_the_project():
    calls = []
    for p in worlds():
        p.change("many", MANY)
        before = p.state()
        calls.append(p.calls("accept", "many"))
        after = p.state()
        eq(sorted(path for path in before if after.get(path) != before[path]), sorted(p.changed(MANY)))
        eq(len(after), len(before))
        for path in p.changed(MANY):
            with open(f"{p.path}/{path}", "rb") as f:
                eq(f.read(), b"old\nnew\n")
        p.restore()
    ok(abs(calls[1] - calls[0]) < calls[0] / 5, f"{calls}: the project has ten times as many files")
    ok(calls[1] < 100 * MANY, f"{calls}: too many for {MANY} changes")


if __name__ == "__main__":
    try:
        STATUS = main()
    finally:
        worlds.done()
    sys.exit(STATUS)
