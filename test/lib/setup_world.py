# SPDX-License-Identifier: Apache-2.0
"""setup_world.py - a project and a separate state directory, for tests of `warren setup`"""
import glob
import json
import os
import shutil
import subprocess
import tempfile

from checks import eq, WARREN, warren


def put(d, files):
    for path, text in files.items():
        os.makedirs(os.path.dirname(f"{d}/{path}"), exist_ok=True)
        with open(f"{d}/{path}", "w", encoding="utf-8") as f:
            f.write(text)


# What the steps of the tests leave in the project, and .gitignore excludes.
RESULTS = "".join(f"/{name}\n" for name in ("made", "log", "env", "err", "ran", "state", "half", "whole", "seen", "a", "b c",
                                            "dir/new", "never"))


class World:
    """A project below a directory that is removed at the end."""

    def __enter__(self):
        self.top = tempfile.mkdtemp(prefix="warren-setup-", dir="/var/tmp")
        self.project, self.state = f"{self.top}/project", f"{self.top}/state"
        put(self.project, {".gitignore": RESULTS})
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.top)

    def environ(self, env=None):
        return {**os.environ, "WARREN_STATE": self.state, **(env or {})}

    def run(self, *words, status=0, env=None):
        p = warren(*words, cwd=self.project, env=self.environ(env))
        if status is not None:
            eq(p.returncode, status, f"{words}: {p.stdout} {p.stderr}")
        return p

    def start(self, *words):
        return subprocess.Popen([WARREN, *words], cwd=self.project, env=self.environ(), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def setup(self, *words, env=None):
        """Prepares the project; returns "KEY created" or "KEY ready"."""
        return self.run("setup", *words, env=env).stdout.decode().strip()

    def list(self):
        return [json.loads(line) for line in self.run("setup", "ls", "--json").stdout.splitlines()]

    def left(self):
        """Names in the store that are neither layers nor answers."""
        return sorted(n for n in os.listdir(f"{self.state}/setups") if n.startswith((".new", ".old", ".lock")))

    def upper(self, made, part):
        found = glob.glob(f"{self.state}/setups/{made.split()[0]}*/{part}/upper")
        eq(len(found), 1, f"layers of {made}")
        return found[0]

    def tops(self, made, part):
        """Dependencies are over the project, and everything else is below it."""
        upper = self.upper(made, part)
        return [upper] + ([os.path.dirname(upper) + "/below"] if part == "project" else [])

    def layer_files(self, made, part):
        return sorted(os.path.relpath(f"{d}/{n}", top) for top in self.tops(made, part)
                      for d, _, names in os.walk(top) for n in names)

    def read(self, made, part, path):
        (found,) = [f"{top}/{path}" for top in self.tops(made, part) if os.path.exists(f"{top}/{path}")]
        with open(found, encoding="utf-8") as f:
            return f.read()

    def found(self, name):
        """Has a step that runs written this file to the project?"""
        return bool(glob.glob(f"{self.state}/setups/.new-*/project/upper/{name}"))
