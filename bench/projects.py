# SPDX-License-Identifier: Apache-2.0
"""projects.py - warren work on a project of 100,000 files, next to cp -a and git worktree add

bench/run calls this. The project is in memory. It measures the time until the command runs, that is,
until its first output arrives. The results of the setup are in a separate state directory, which is
removed at the end.
"""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import serve

DIRS, FILES, MEMORY = 1000, 100, "/dev/shm"
CHANGED, ACCEPTED = 100, 1000
GIT = ["git", "-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0"]


def create_project(project):
    for d in range(DIRS):
        where = project / f"d{d // 40}" / f"s{d % 40}"
        where.mkdir(parents=True)
        for f in range(FILES):
            (where / f"f{f}.c").write_text(f"int x{d}_{f};\n", encoding="ascii")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*GIT, *words], cwd=project, check=True)


class Bench:
    def __init__(self, warren, folder):
        self.folder, self.project = folder, folder / "project"
        self.project.mkdir()
        self.warren = warren
        self.env = {**os.environ, "WARREN_STATE": str(folder / "state"), "HOME": str(folder / "home")}
        for name in ("state", "home"):
            (folder / name).mkdir(mode=0o700)

    def run(self, *words, **kw):
        return subprocess.run([self.warren, *words], env=self.env, cwd=self.project, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, check=True, **kw)

    def until_output(self, *words):
        """Returns the seconds until the command has printed something."""
        start = time.perf_counter()
        with subprocess.Popen([self.warren, *words, "--", "echo", "x"], env=self.env, cwd=self.project,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as p:
            p.stdout.readline()
            took = time.perf_counter() - start
            if p.wait() != 0:
                raise RuntimeError(f"warren {words} failed")
        return took

    def starts(self, rounds):
        rows = [serve.times("start, warren run", rounds, lambda: self.until_output("run", "-q")),
                serve.times("start, overlay", rounds, lambda: self.until_output("work", "-q"))]
        (self.project / "setup.sh").write_text("#!/bin/sh\nmkdir target\ntouch target/ready\n", encoding="ascii")
        (self.project / "warren.yaml").write_text("steps: [{run: sh setup.sh, files: [setup.sh]}]\n", encoding="ascii")
        self.run("work", "-q", "--", "test", "-e", "target/ready")
        rows.append(serve.times("start, cached setup", rounds, lambda: self.until_output("work", "-q")))
        # A script may read any file, so all files are examined (doc/setup.md).
        (self.project / "warren.yaml").unlink()
        self.run("work", "-q", "--yes", "--", "test", "-e", "target/ready")
        rows.append(serve.times("start, cached setup of all files", max(1, rounds // 4),
                                lambda: self.until_output("work", "-q", "--yes")))
        (self.project / "setup.sh").unlink()
        return rows

    def copies(self, rounds):
        """Returns what others do to work apart from the project."""
        to = self.folder / "copy"

        def copy():
            took = serve.timed(lambda: subprocess.run(["cp", "-a", self.project, to], check=True))
            shutil.rmtree(to)
            return took

        def worktree():
            took = serve.timed(lambda: subprocess.run([*GIT, "worktree", "add", "-q", "--detach", to], cwd=self.project,
                                                      check=True))
            subprocess.run([*GIT, "worktree", "remove", "--force", to], cwd=self.project, check=True)
            return took

        return [serve.times("cp -a", rounds, copy), serve.times("git worktree add", rounds, worktree)]

    def change(self, name, n):
        script = f'for i in $(seq 0 {n // 10 - 1}); do for j in 0 1 2 3 4 5 6 7 8 9; do ' \
                 'echo "int y;" >>d$((i / 40))/s$((i % 40))/f$j.c; done; done'
        self.run("work", "-q", "--keep", "--name", name, "--", "sh", "-c", script)

    def changes(self, rounds):
        self.change("few", CHANGED)
        rows = [serve.times(f"diff of {CHANGED} changes", rounds, lambda: serve.timed(lambda: self.run("diff", "few")))]
        self.run("work", "--remove", "few")

        def accept():
            self.change("many", ACCEPTED)
            took = serve.timed(lambda: self.run("accept", "many"))
            subprocess.run([*GIT, "checkout", "-q", "."], cwd=self.project, check=True)
            return took

        rows.append(serve.times(f"accept of {ACCEPTED} files", max(1, rounds // 10), accept))
        return rows


def section(warren, rounds=40):
    print(f"\n{f'a project of {DIRS * FILES} files':46} {'p50':>8} {'p99':>8}    {'n':>6}", flush=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="warren-bench-", dir=MEMORY))
    try:
        bench = Bench(os.path.abspath(warren), folder)
        create_project(bench.project)
        rows = bench.starts(rounds) + bench.copies(max(1, rounds // 13)) + bench.changes(rounds)
    finally:
        shutil.rmtree(folder)
    return [{**row, "bench": "projects"} for row in rows], 0
