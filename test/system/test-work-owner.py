#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-work-owner.py - an ordinary user decides on changes whose files belong to others, or deny access

Prints TAP. $WARREN is the program (default build/warren). Root becomes an ordinary user with subordinate ids, which only
the test sees. After every test, no trace of a sandbox may remain.
"""
import contextlib
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, needs_root, eq, ok, scratch, Skip  # pylint: disable=wrong-import-position
from cli_world import WAIT, main  # pylint: disable=wrong-import-position
from work_world import UID, User, slurp, spill  # pylint: disable=wrong-import-position

SUB = 2_100_000_000 + os.getpid() % 500 * 65536
# What the sandbox does at the end to the owners and modes of directories.
DENIALS = ["chown -R 1000:1000 .", "chown 55 .", "chmod 555 .", "chmod 500 .", "chmod 0 .", "chown 55 .; chmod 700 .",
           "chown -R 55:55 d; chmod 700 d d/e; chmod 0 a", "chmod 0 d/e d .", "chown 55 d; chmod 1777 d"]
SCRIPT = "echo new >a; rm gone; echo new >d/b; mkdir -p d/e; echo new >d/e/c; ln -s a l; "


@contextlib.contextmanager
def subordinate():
    """Adds the ranges to the machine's files, visible only to this test: it has a separate mount namespace."""
    if not shutil.which("newuidmap") or not shutil.which("newgidmap"):
        raise Skip("newuidmap is not installed")
    lines = {"/etc/subuid": f"{UID}:{SUB}:65536\n", "/etc/subgid": f"{UID}:{SUB}:65536\n",
             "/etc/passwd": f"warren-test-{UID}:x:{UID}:{UID}::/nonexistent:/usr/sbin/nologin\n"}
    with scratch() as d, contextlib.ExitStack() as mounts:
        for path, line in lines.items():
            copy = f"{d}/{os.path.basename(path)}"
            with open(path, "a+b") as original, open(copy, "wb") as f:
                original.seek(0)
                f.write(original.read() + line.encode())
            subprocess.run(["mount", "--bind", copy, path], check=True)
            mounts.callback(subprocess.run, ["umount", path], check=True)
        yield


class Owner(User):
    """An ordinary user, whose files keep the owners that the sandbox gave them."""

    def __init__(self):
        self.owned = False
        super().__init__(True)
        spill(f"{self.project}/a", "old\n")
        spill(f"{self.project}/gone", "old\n")
        os.mkdir(f"{self.project}/d")
        spill(f"{self.project}/d/b", "old\n")
        super().own()
        self.owned = True

    def own(self):
        if not self.owned:
            super().own()

    def begin(self, script, *options):
        self.work("sh", "-c", script, options=["--no-setup", "-q", "--name", "w", "--keep", *options])

    def say(self, *words, status=0):
        p = self.warren(*words)
        eq(p.returncode, status, f"{words}: {p}")
        return p

    def files(self):
        found = {}
        for d, dirs, names in os.walk(self.project):
            for name in names + dirs:
                path = os.path.join(d, name)
                found[os.path.relpath(path, self.project)] = slurp(path) if os.path.isfile(path) else ""
        return found

    def nothing_left(self):
        """Nothing is left in the project or among the works; removal in the background takes a moment."""
        eq([n for n in os.listdir(self.project) if n.startswith(".warren-")], [])
        deadline = time.monotonic() + WAIT
        while left := [n for n in os.listdir(f"{self.store}/works") if not n.startswith(".scan-")]:
            ok(time.monotonic() < deadline, f"what is left: {left}")
            time.sleep(0.02)


OLD = {"a": "old\n", "gone": "old\n", "d": "", "d/b": "old\n"}
NEW = {"a": "new\n", "l": "new\n", "d": "", "d/b": "new\n", "d/e": "", "d/e/c": "new\n"}


def each_denial(f):
    for i, denial in enumerate(DENIALS):
        def wrapped(denial=denial):
            with subordinate():
                u = Owner()
                try:
                    f(u, SCRIPT + denial)
                finally:
                    u.done()

        wrapped.__name__ = f"{f.__name__}_{i}"
        test(needs_root(wrapped))
    return f


@each_denial
def all_changes_are_shown_and_accepted(u, script):
    u.begin(script)
    shown = u.say("diff", "w").stdout
    ok(shown.count(b"+new\n") == 3 and b"gone" in shown, f"{shown}")
    u.say("accept", "w")
    eq(u.files(), NEW)
    u.nothing_left()


@each_denial
def changes_are_accepted_one_by_one(u, script):
    u.begin(script)
    u.say("accept", "w", "a")
    eq(u.files(), {**OLD, "a": "new\n"})
    eq([n for n in os.listdir(u.project) if n.startswith(".warren-")], [])
    u.say("accept", "w", "d/b", "gone")
    eq(u.files(), {k: v for k, v in {**OLD, "a": "new\n", "d/b": "new\n"}.items() if k != "gone"})
    u.say("reject", "w", "l")
    u.say("accept", "w")
    eq(u.files(), {k: v for k, v in NEW.items() if k != "l"})
    u.nothing_left()


@each_denial
def all_changes_are_rejected(u, script):
    u.begin(script)
    u.say("reject", "w", "d/b")
    u.say("reject", "w")
    eq(u.files(), OLD)
    u.nothing_left()


@each_denial
def the_work_is_resumed_and_removed(u, script):
    u.begin(script)
    eq(u.work("sh", "-c", "cat a d/b d/e/c; echo more >>a", options=["--resume", "w", "--keep"]).stdout, b"new\n" * 3)
    ok(b"+more\n" in u.say("diff", "w").stdout, "a control")
    u.say("work", "--remove", "w")
    eq(u.files(), OLD)
    u.nothing_left()


@test
@needs_root
def files_of_the_user_that_deny_access_are_compared_and_accepted():
    for sub in (contextlib.nullcontext(), subordinate()):
        for new in ("new", "longer than before"):
            with sub if new == "new" else contextlib.nullcontext():
                u = Owner()
                try:
                    os.chmod(f"{u.project}/a", 0)
                    u.begin(f"cat a; echo {new} >a; echo new >d/b")
                    shown = u.say("diff", "w").stdout
                    ok(b"-old\n" in shown and b"+%s\n" % new.encode() in shown, f"{shown}")
                    u.say("accept", "w")
                    eq(os.stat(f"{u.project}/a").st_mode & 0o777, 0)
                    eq((slurp(f"{u.project}/a"), slurp(f"{u.project}/d/b")), (f"{new}\n", "new\n"))
                    u.nothing_left()
                finally:
                    u.done()


def hide_closed(mode):
    u = User(True)
    try:
        for name in ("lk/sub", "open", "hk"):
            os.makedirs(f"{u.project}/{name}")
        for name in ("lk/.env", "lk/sub/known", "open/.env", "open/known", "hk/a.sh"):
            spill(f"{u.project}/{name}", "secret\n")
        u.run("git", "init", "-q", "lk/sub")
        u.run("git", "-C", "lk/sub", "config", "core.hooksPath", f"{u.project}/hk")
        see = ["sh", "-c", "cat lk/.env lk/sub/known open/.env open/known lk/sub/.git/config; ls -d lk; true"]
        os.chmod(f"{u.project}/lk", mode)
        p = u.work(*see)
        eq(p.stdout, b"secret\n", f"{oct(mode)}: only open/known is visible: {p}")
        ok(b"1 directory is hidden, because you cannot list or search it: lk " in p.stderr, f"{p}")
        ok(b"1 file is hidden" in p.stderr and b"open/.env" in p.stderr, f"{p}")
        u.work("sh", "-c", "echo new >>hk/a.sh", options=["--name", "w", "--keep"])
        ok(b"--allow git" in u.warren("diff", "--stat", "w").stdout, "a repository that cannot be seen may name the script")
        os.chmod(f"{u.project}/lk", 0o700)
        p = u.work(*see)
        ok(b"secret\nsecret\n" in p.stdout and b"because you cannot list" not in p.stderr, f"a control: {p}")
        u.run("rm", "-r", "lk/sub")
        u.work("sh", "-c", "echo new >>hk/a.sh", options=["--name", "v", "--keep"])
        ok(b"--allow git" not in u.warren("diff", "--stat", "v").stdout, "a control: nothing names the script")
    finally:
        os.chmod(f"{u.project}/lk", 0o700)
        u.done()


@test
@needs_root
def directories_that_the_user_cannot_list_or_search_are_hidden():
    for mode in (0, 0o300, 0o600, 0o077):
        hide_closed(mode)


@test
@needs_root
def parts_of_a_repository_that_the_user_cannot_list_are_hidden():
    u = User(True)
    try:
        u.run("git", "init", "-q", ".")
        os.makedirs(f"{u.project}/.git/modules/m")
        spill(f"{u.project}/.git/modules/m/config", "[x]\ntoken = secret\n")
        u.own()
        see = ["sh", "-c", "cat .git/modules/m/config; git config core.bare; true"]
        for mode in (0, 0o300, 0o600):
            os.chmod(f"{u.project}/.git/modules", mode)
            eq(u.work(*see).stdout, b"false\n", oct(mode))
        os.chmod(f"{u.project}/.git/modules", 0o700)
        eq(u.work(*see).stdout, b"[x]\nfalse\n", "a control: without the password")
    finally:
        os.chmod(f"{u.project}/.git/modules", 0o700)
        u.done()


if __name__ == "__main__":
    sys.exit(main())
