#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-textdiff-git.py - git applies our patches, and our diffs and merges are as good as git's

Prints TAP.
"""
import contextlib
import os
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, eq, ok, run_tests, test  # pylint: disable=wrong-import-position

DRIVE = os.path.join(BUILD, "test/textdiff_drive")
ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CEILING_DIRECTORIES": "/"}
CODE = [b"int f(void)\n", b"{\n", b"}\n", b"\n", b"\treturn 0;\n", b"\tif (a)\n", b"\t\tb();\n", b"#include <x>\n"]


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory() as d:
        before = os.getcwd()
        os.chdir(d)
        try:
            yield
        finally:
            os.chdir(before)


def run(*argv, data=b"", status=(0,)):
    done = subprocess.run(argv, input=data, capture_output=True, check=False, env=ENV)
    ok(done.returncode in status, f"{argv}: {done.returncode} {done.stderr!r}")
    return done.stdout


def git(*argv, data=b"", status=(0,)):
    return run("git", "-c", "core.fileMode=true", *argv, data=data, status=status)


def drive(*argv, words=(), data=None):
    return run(DRIVE, *argv, data=b"".join(w + b"\0" for w in words) if data is None else data)


def put(path, data, mode=0o644):
    os.makedirs(os.path.dirname(path) or b".", exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    os.chmod(path, mode)


def read(path):
    if os.path.islink(path):
        return b"link " + os.readlink(path)
    with open(path, "rb") as f:
        return f.read()


def lines(r, n):
    """Returns lines of which many are equal, as in programs, or of which few are."""
    if r.random() < 0.5:
        return [r.choice(CODE) for _ in range(n)]
    return [b"line %d\n" % r.randrange(max(1, 3 * n)) for _ in range(n)]


def edited(r, text, edits):
    text = list(text)
    for _ in range(edits):
        at = r.randrange(len(text) + 1)
        what = r.randrange(4)
        if what == 0:
            text[at:at] = lines(r, r.randrange(1, 5))
        elif what == 1:
            del text[at:at + r.randrange(1, 5)]
        elif what == 2:
            text[at:at + 1] = lines(r, 1)
        else:  # move
            part = text[at:at + 3]
            del text[at:at + 3]
            at = r.randrange(len(text) + 1)
            text[at:at] = part
    return text


def joined(r, text):
    data = b"".join(text)
    return data[:-1] if data and r.random() < 0.15 else data


def pair(r):
    old = lines(r, r.choice((0, 1, 3, 10, 40, 200)))
    return joined(r, old), joined(r, edited(r, old, r.choice((0, 1, 1, 2, 5, 20))))


@test
def git_applies_a_thousand_diffs():
    r = random.Random(1)
    with folder():
        names, originals = [b"f%d" % i for i in range(1000)], {}
        for name in names:
            old, new = pair(r)
            put(b"old/" + name, old)
            put(b"new/" + name, new)
            originals[name] = old
        patch = drive("diff", "old", "new", words=[w for name in names for w in (name, name)])
        os.chdir("old")
        git("apply", "--whitespace=nowarn", data=patch)
        for name in names:
            eq(read(name), read(b"../new/" + name))
        git("apply", "--whitespace=nowarn", "-R", data=patch)
        for name in names:
            eq(read(name), originals[name])


NAMES = [b"plain", b"with space", b"-dash", b'quote"d', b"back\\slash", b"tab\there", b"new\nline", b"\xc3\xa4\xe2\x82\xac",
         b"bad\xff\xfe", b"esc\x1b[31m", b"d/e e/p", b"\x01\x7f", b"a/", b"trailing "]


def contents(r):
    kind = r.randrange(5)
    if kind == 0:
        return r.randbytes(r.choice((1, 51, 52, 53, 5000)))
    if kind == 1:
        return b"\0" * r.choice((1, 100000))
    if kind == 2:
        return b""
    return joined(r, lines(r, 20))


def put_any(r, path, data):
    """Makes a file or a link; returns nothing."""
    if r.random() < 0.2:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(data.replace(b"\0", b"0")[:200] or b"x", path)
    else:
        put(path, data, r.choice((0o644, 0o755)))


def mode(path):
    return "link" if os.path.islink(path) else os.lstat(path).st_mode & 0o100


def tree(top):
    found = [os.path.join(d, f) for d, _, files in os.walk(top) for f in files]
    return {f[len(top):]: (mode(f), read(f)) for f in found}


@test
def git_applies_patches_of_trees_with_any_files_and_names():
    r = random.Random(5)
    with folder():
        words = []
        for i in range(400):
            name = b"%d/" % i + r.choice(NAMES[:-2] + NAMES[-1:])
            kind = r.choice(("add", "remove", "change", "change", "rename"))
            other = b"%d/" % i + r.choice(NAMES[:12]) + b".to" if kind == "rename" else name
            data = contents(r)
            if kind != "add":
                put_any(r, b"old/" + name, data)
                subprocess.run([b"mkdir", b"-p", b"new/"], check=True)
            if kind == "rename":  # without a change of the type
                os.makedirs(os.path.dirname(b"new/" + other), exist_ok=True)
                subprocess.run([b"cp", b"-dp", b"--", b"old/" + name, b"new/" + other], check=True)
                if r.random() < 0.5 and not os.path.islink(b"new/" + other):
                    put(b"new/" + other, data + b"more\n", r.choice((0o644, 0o755)))
            elif kind != "remove":
                put_any(r, b"new/" + other, data if r.random() < 0.3 else contents(r))
            words += [b"" if kind == "add" else name, b"" if kind == "remove" else other]
        patch = drive("diff", "old", "new", words=words)
        before, wanted = tree(b"old"), tree(b"new")
        os.chdir("old")
        git("apply", "--whitespace=nowarn", data=patch)
        eq(tree(b"."), wanted)
        git("apply", "--whitespace=nowarn", "-R", data=patch)
        eq(tree(b"."), before)
        ok(len(wanted) > 200, "enough files")


def numstat(patch):
    """Returns the numbers of added and removed lines by file."""
    got, name = {}, None
    for line in patch.split(b"\n"):
        m = re.fullmatch(rb"diff --git a/.* b/(?:new/)?(.*)", line)
        if m:
            name, hunk = m[1], False
            got[name] = [0, 0]
        elif line.startswith(b"@@"):
            hunk = True
        elif name and hunk and line[:1] in (b"+", b"-"):
            got[name][line[:1] == b"-"] += 1
    return got


@test
def diffs_are_as_short_as_the_shortest_of_git():
    r = random.Random(2)
    with folder():
        names = [b"f%d" % i for i in range(1000)]
        for name in names:
            old, new = pair(r)
            put(b"old/" + name, old)
            put(b"new/" + name, new)
        ours = numstat(drive("diff", "old", "new", words=[w for name in names for w in (name, name)]))
        theirs = numstat(git("diff", "--no-index", "--minimal", "old", "new", status=(0, 1)))
        differ = [name for name in theirs if ours[name] != theirs[name]]
        eq(differ, [])
        ok(len(theirs) > 700, len(theirs))


@test
def most_hunks_are_exactly_those_of_git():
    r = random.Random(3)
    with folder():
        names = [b"f%d" % i for i in range(500)]
        for name in names:
            old = [b"\tline %d\n" % i for i in range(r.randrange(1, 100))]
            old[::9] = [b"int f%d(void)\n" % i for i in range(len(old[::9]))]
            put(b"old/" + name, joined(r, old))
            new = list(old)
            for _ in range(r.randrange(1, 6)):
                at = r.randrange(len(new) + 1)
                new[at:at + r.randrange(2)] = [b"new %d\n" % r.randrange(1000)]
            put(b"new/" + name, joined(r, new))
        ours = drive("diff", "old", "new", words=[w for name in sorted(names) for w in (name, name)])
        theirs = git("diff", "--no-index", "--full-index", "old", "new", status=(0, 1))
        theirs = re.sub(rb"\b([ab])/(old|new)/", rb"\1/", theirs)
        same = set(ours.split(b"diff --git ")) & set(theirs.split(b"diff --git "))
        ok(len(same) > 490, f"{len(same)} of 500")


@test
def patches_of_git_are_parsed_and_applied():
    r = random.Random(6)
    with folder():
        for i in range(300):
            old, new = pair(r)
            name = b"%d/" % i + r.choice(NAMES[:12])
            put(b"a/" + name, old)
            put(b"b/" + name, new)
        os.mkdir("out")
        patch = git("diff", "--no-index", "--no-prefix", "--text", "a", "b", status=(0, 1))
        paths = drive("apply", "a", "out", data=patch).split(b"\0")[:-1]
        ok(len(paths) > 200, len(paths))
        for i, path in enumerate(paths):
            eq(read(b"out/%d" % i), read(b"b/" + path), path)
        ours = drive("diff", "a", "b", words=[w for path in paths for w in (path, path)])
        eq(drive("apply", "a", "out", data=ours).split(b"\0")[:-1], paths)
        for i, path in enumerate(paths):
            eq(read(b"out/%d" % i), read(b"b/" + path), path)
        shifted = patch.replace(b"@@ -1,", b"@@ -4,").replace(b"+1,", b"+4,")  # hunks are found where they are
        drive("apply", "a", "out", data=shifted)
        bad = subprocess.run([DRIVE, "apply", "a", "out"], input=re.sub(rb"\n-(?!-)", rb"\n-x", patch), capture_output=True, check=False)
        ok(bad.returncode == 1 and b"does not fit" in bad.stderr, bad)
        for hostile in (b"--- a/../x\n+++ b/../x\n", b"--- /etc/x\n+++ /etc//x\n", b'--- "a/x\n+++ b/x\n',
                        b"--- a/x\n+++ b/x\n@@ -1,99 +1 @@\n", b"--- a/x\n+++ b/x\n@@ -0,2 +1 @@\n-a\n-b\n+c\n"):
            bad = subprocess.run([DRIVE, "apply", "a", "out"], input=hostile, capture_output=True, check=False)
            ok(bad.returncode == 1 and b"line " in bad.stderr, f"{hostile}: {bad}")


def triple(r):
    base = lines(r, r.choice((0, 1, 5, 20, 60)))
    if r.random() < 0.5:  # lines that are unique, so that there is only one shortest diff
        base = [b"line %d\n" % i for i in range(len(base))]
    return [joined(r, base), joined(r, edited(r, base, r.randrange(4))), joined(r, edited(r, base, r.randrange(4)))]


@test
def merges_are_those_of_git():
    r = random.Random(4)
    with folder():
        words, cases = [], []
        for i in range(1000):
            cases.append(triple(r))
            for name, data in zip((b"base", b"ours", b"theirs"), cases[-1]):
                words.append(b"%d.%s" % (i, name))
                put(words[-1], data)
            words.append(b"%d.out" % i)
        got = [int(n) for n in drive("merge", words=words).split()]
        equal = clean = conflicts = 0
        for i in range(1000):
            done = subprocess.run(
                ["git", "merge-file", "-p", "-L", "ours", "-L", "base", "-L", "theirs", f"{i}.ours", f"{i}.base", f"{i}.theirs"],
                capture_output=True, check=False, env=ENV)
            mine = read(b"%d.out" % i)
            same = mine == done.stdout and got[i] == done.returncode
            equal += same
            clean += not got[i]
            conflicts += got[i] > 0
            if not same:
                print("#", i, got[i], done.returncode)
        ok(equal > 950, f"{equal} of 1000 are equal")
        ok(clean > 200 and conflicts > 200, f"{clean} {conflicts}")


if __name__ == "__main__":
    sys.exit(run_tests())
