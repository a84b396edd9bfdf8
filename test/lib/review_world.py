# SPDX-License-Identifier: Apache-2.0
"""review_world.py - a project, and works whose changes are made by scripts instead of sandboxes"""
import contextlib
import os
import subprocess

from checks import BUILD, WARREN, eq, ok, remove_tree, scratch
from terminal import Terminal

DRIVE = os.path.join(BUILD, "test/work_drive")
GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
       "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
# What the sandbox does, in the overlay that it would have.
INSIDE = """mount -t overlay overlay -o "userxattr,lowerdir=$DIR/hide:$PROJECT,upperdir=$DIR/writes/upper,workdir=$DIR/writes/work" "$MERGED"
cd "$MERGED"; eval "$INSIDE"; cd /; if [ "$COPY" ]; then cp -a "$MERGED/." "$COPY"; fi; umount "$MERGED"
"""


class Project:
    """A directory with a project, and the state of its works."""

    def __init__(self, top):
        self.top, self.path = top, f"{top}/p"
        for name in ("p", "m", "state"):
            os.mkdir(f"{top}/{name}")
        self.env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "WARREN_STATE": f"{top}/state", **GIT}

    def put(self, path, data, mode=0o644):
        full = os.path.join(os.fsencode(self.path), os.fsencode(path))
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as f:
            f.write(data)
        os.chmod(full, mode)

    def get(self, path):
        with open(os.path.join(os.fsencode(self.path), os.fsencode(path)), "rb") as f:
            return f.read()

    def sh(self, script, cwd=None, data=b""):
        p = subprocess.run(["sh", "-ec", script], cwd=cwd or self.path, env=self.env, input=data, capture_output=True, check=False)
        eq(p.returncode, 0, f"{script}: {p.stderr!r}")
        return p.stdout

    def git(self):
        self.sh("git init -q; git add -A; git commit -qm one --allow-empty")

    def work(self, script, name=None, copy=""):
        """Creates a work in which @script has run, and returns its id. @copy gets a copy of what the sandbox saw."""
        out = subprocess.run([DRIVE, "create", self.path, *([name] if name else [])], env=self.env, capture_output=True,
                             check=True).stdout
        wid, where = os.fsdecode(out).splitlines()
        env = {**self.env, "DIR": where, "PROJECT": self.path, "MERGED": f"{self.top}/m", "INSIDE": script, "COPY": copy}
        p = subprocess.run(["unshare", "-m", "sh", "-ec", INSIDE], env=env, capture_output=True, check=False)
        eq((p.returncode, p.stderr), (0, b""), script)
        subprocess.run([DRIVE, "end", wid], env=self.env, check=True)
        return wid

    def warren(self, *words, status=0, cwd=None, data=b""):
        p = subprocess.run([WARREN, *words], env=self.env, cwd=cwd or self.path, capture_output=True, check=False, input=data)
        eq(p.returncode, status, f"{words}: {p}")
        return p

    def terminal(self, *words, **kw):
        env = {**self.env, "TERM": "xterm", "NO_COLOR": "1", "PAGER": "cat", **kw.pop("env", {})}
        return Terminal(*words[1:], command=words[:1], env=env, cwd=kw.pop("cwd", self.path), **kw)

    def works(self):
        path = f"{self.top}/state/works"
        return [name for name in os.listdir(path) if name[0] != "."] if os.path.isdir(path) else []


@contextlib.contextmanager
def project():
    with scratch() as d:
        try:
            yield Project(d)
        finally:
            remove_tree(f"{d}/state")


def tree(top):
    """Returns what is in a tree: the types, executable bits and contents."""
    found, top = {}, os.fsencode(top)
    for d, _, files in os.walk(top):
        for name in files + [b"."]:
            path = os.path.join(d, name)
            if os.path.islink(path):
                found[os.path.relpath(path, top)] = ("link", os.readlink(path))
            elif name != b".":
                with open(path, "rb") as f:
                    found[os.path.relpath(path, top)] = (os.stat(path).st_mode & 0o100, f.read())
    ok(found, "the tree is not empty")
    return found
