# SPDX-License-Identifier: Apache-2.0
"""work_world.py - for tests of works: a user with a project and separate directories"""
import os
import re
import shutil
import subprocess
import tempfile

from checks import test, eq, remove_tree, WARREN, ROOT
from cli_world import WAIT

UID = 53000 + os.getpid() % 1000
PROGRAMS = ("warren", "warren-work", "warren-egress")


def slurp(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def spill(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


class User:
    """The current user, or (.other) an ordinary one that root becomes."""

    def __init__(self, other):
        self.other = other
        self.dir = tempfile.mkdtemp(prefix="warren-test-")
        os.chmod(self.dir, 0o755)
        self.project = f"{self.dir}/project"
        self.store = f"{self.dir}/data/warren"
        for name in ("home", "run", "data", "data/warren", "project"):
            os.mkdir(f"{self.dir}/{name}", 0o755 if name == "project" else 0o700)
        self.env = {"HOME": f"{self.dir}/home", "XDG_RUNTIME_DIR": f"{self.dir}/run", "XDG_DATA_HOME": f"{self.dir}/data",
                    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        if ROOT and not other:
            self.env["WARREN_STATE"] = self.store
        self.prefix, self.program = [], WARREN
        if other:
            self.prefix = ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"]
            os.mkdir(f"{self.dir}/bin")
            for name in PROGRAMS:
                shutil.copy(f"{os.path.dirname(WARREN)}/{name}", f"{self.dir}/bin")
            self.program = f"{self.dir}/bin/warren"
            self.own()

    def own(self):
        """Gives the files of the test to its user."""
        argv = ["chown", "-Rh", f"{UID}:{UID}", self.dir]
        # Files of a work that has ended may still be removed in the background.
        while self.other and subprocess.run(argv, check=False, capture_output=True, timeout=WAIT).returncode:
            pass

    def run(self, *argv):
        self.own()
        return subprocess.run([*self.prefix, *argv], env=self.env, cwd=self.project, capture_output=True, timeout=WAIT, check=True)

    def warren(self, *words, **kw):
        self.own()
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("timeout", WAIT)
        return subprocess.run([*self.prefix, self.program, *words], env=self.env, cwd="/", capture_output=True, check=False, **kw)

    def start(self, *words):
        self.own()
        return subprocess.Popen([*self.prefix, self.program, *words], env=self.env, cwd="/", stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def work(self, *argv, options=(), status=0):
        project = [] if "--resume" in options else [self.project]
        p = self.warren("work", *options, *project, "--", *argv)
        eq(p.returncode, status, f"{options} {argv}: {p}")
        return p

    def works(self):
        """Returns the ids of all works."""
        p = self.warren("work", "--list")
        eq((p.returncode, p.stderr), (0, b""), f"{p}")
        return [i.decode() for i in re.findall(rb"^([0-9a-z]{12}) ", p.stdout, re.M)]

    def done(self):
        for work in self.works():
            eq(self.warren("work", "--remove", work).returncode, 0, f"remove {work}")
        remove_tree(self.dir)


def each_user(f, only_root=False):
    """Makes tests of @f: as the current user and, if that is root, as an ordinary user. @only_root: runs @f now."""
    def point(other):
        u = User(other)
        try:
            f(u)
        finally:
            u.done()

    if only_root:
        return point(False)
    for other in (False, True) if ROOT else (False,):
        def wrapped(other=other):
            point(other)

        wrapped.__name__ = f.__name__ + ("_as_an_ordinary_user" if other else "")
        test(wrapped)
    return f
