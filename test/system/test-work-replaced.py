#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-work-replaced.py - what is accepted was shown before: files, directories and links replace each other

Prints TAP. $WARREN is the program (default build/warren).
"""
import json
import os
import random
import re
import shlex
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, needs_root, ok, run_tests, test  # pylint: disable=wrong-import-position
from review_world import project, tree  # pylint: disable=wrong-import-position

# How each kind of entry is made; {p} is its path, and {n} a number.
KINDS = {
    "file": "seq {n} >{p}", "empty": ":>{p}", "program": "echo 'echo {n}' >{p}; chmod 755 {p}", "private": "echo {n} >{p}; chmod 600 {p}",
    "binary": "printf 'x\\0{n}' >{p}", "no end": "printf 'line {n}\\nno end' >{p}", "link": "ln -s 'to {n}' {p}",
    "void": "mkdir {p}", "open": "mkdir {p}; chmod 700 {p}",
    "files": "mkdir {p}; echo {n} >{p}/x; seq {n} >{p}/y",
    "deep": "mkdir -p {p}/d/e; echo {n} >{p}/d/e/f; ln -s f {p}/d/e/l; mkdir {p}/d/void",
    "nothing": ":",
}


def make(kind, path, n):
    return KINDS[kind].format(p=shlex.quote(f"./{path}"), n=n)


def entries(top):
    """Returns all entries of a tree, with their types, modes and contents."""
    found, top = {}, os.fsencode(top)
    for d, dirs, files in os.walk(top):
        dirs[:] = [n for n in dirs if n != b".git"]
        for path in [os.path.join(d, n) for n in dirs + files]:
            mode = os.lstat(path).st_mode
            data = os.readlink(path) if os.path.islink(path) else b"" if os.path.isdir(path) else open(path, "rb").read()
            found[os.path.relpath(path, top).decode()] = (mode, data)
    return found


def git_counts(p, seen):
    """Returns the lines that git counts between the project and the tree @seen: {path: (added, removed)}."""
    repo = f"{p.top}/repo"
    shutil.copytree(p.path, repo, symlinks=True)
    p.sh("git init -q; git add -A; git commit -qm one --allow-empty; find . -mindepth 1 -maxdepth 1 ! -name .git -exec rm -r {} +;"
         f" cp -a {seen}/. .; git add -A", cwd=repo)
    out = p.sh("git diff --cached --numstat -z --no-renames", cwd=repo)
    rows = [row.split("\t", 2) for row in os.fsdecode(out).split("\0") if row]
    return {path: (added, removed) for added, removed, path in rows}


def differing(a, b):
    """Returns the paths of what differs, as far as its directory does not say so already."""
    paths = {k for k in a.keys() | b.keys() if a.get(k) != b.get(k)}

    def said(k):
        full = [t for t in (a, b) if k in t and any(o.startswith(k + "/") for o in t)]
        return len(full) == (k in a) + (k in b) and not (k in a and k in b)
    return {k for k in paths if not said(k)}


def check_shown(p, wid, seen, why):
    """Everything that differs is in each of the lists, with the lines that git counts."""
    want, counts = differing(entries(p.path), entries(seen)), git_counts(p, seen)
    changes = json.loads(p.warren("diff", wid, "--json").stdout)["changes"]
    by = {c["path"]: c for c in changes}
    eq(len(by), len(changes), f"a path is listed once: {changes}")
    listed = by.keys() | {c["from"] for c in changes if "from" in c}
    eq(want - listed, set(), f"{changes}")
    for path, c in by.items():
        if c["kind"] != "renamed":
            got = ("-", "-") if c["binary"] else (str(c["lines_added"]), str(c["lines_removed"]))
            eq(got, counts.get(path, ("0", "0")), f"{c} {why}")
    stat, diff = (p.warren("diff", wid, *o).stdout.decode() for o in (("--stat",), ()))
    for path in want:
        ok(re.search(rf"(^ [AMDTR] | => |^ R ){re.escape(path)} ", stat, re.M), f"{path}: {stat}")
        ok(re.search(rf"^ [AMDTR] .*{re.escape(path)} |^diff --git .*[ab]/{re.escape(path)}$|^rename from {re.escape(path)}$|"
                     rf"^diff --git a/{re.escape(path)} ", diff, re.M), f"{path}: {diff}")
    sums = re.search(r"; (\d+) lines added, (\d+) removed\n", stat)
    eq([int(n) for n in sums.groups()] if sums else [0, 0], [sum(c[f"lines_{k}"] for c in changes) for k in ("added", "removed")])
    for path, c in by.items():
        if c["kind"] == "type" and c["new_mode"] == "100755":
            ok(re.search(rf"^ T {re.escape(path)} .*-> file, executable$", stat, re.M), f"{path}: {stat}")


def check(p, before, after):
    p.sh(before or ":")
    seen, applied = f"{p.top}/seen", f"{p.top}/applied"
    os.mkdir(seen)
    wid = p.work(after, copy=seen)
    shutil.copytree(p.path, applied, symlinks=True)
    check_shown(p, wid, seen, f"{before}\n{after}")
    patch = p.warren("diff", wid, "--patch").stdout
    if patch:
        p.sh("find . -mindepth 1 -type d -empty -delete", cwd=applied)  # git knows no empty directories, not even to remove them
        p.sh("git apply --whitespace=nowarn", cwd=applied, data=patch)
    eq(tree(applied), tree(seen), f"{before}\n{after}\n{patch}")
    p.warren("accept", wid)
    eq(entries(p.path), entries(seen), f"{before}\n{after}")
    eq(p.works(), [])


@test
@needs_root
def each_kind_replaces_each_other_kind():
    for old in KINDS:
        with project() as p:
            p.put("stays", b"1\n")
            p.put("d/stays", b"1\n")
            paths = [(new, f"{d}{i}") for d in ("", "d/") for i, new in enumerate(KINDS)]
            check(p, "\n".join(make(old, path, n + 3) for n, (_, path) in enumerate(paths)),
                  "\n".join(f"rm -rf {path}\n" + make(new, path, n + 5) for n, (new, path) in enumerate(paths)))


@test
@needs_root
def random_trees_are_shown_as_they_are_accepted():
    for seed in range(4):
        r = random.Random(seed)
        with project() as p:
            p.put("stays", b"1\n")
            names = [f"{d}{i}" for d in ("", "sub/", "sub/deep/", "b b/") for i in range(8)]
            before = "mkdir -p sub/deep 'b b'\n" + "\n".join(make(r.choice(list(KINDS)), n, r.randrange(2, 9)) for n in names)
            after = "\n".join(f"rm -rf {shlex.quote(n)}\n" + make(r.choice(list(KINDS)), n, r.randrange(2, 9))
                              for n in r.sample(names, 22))
            check(p, before, after + r.choice(("", "\nrm -r sub/deep; echo 1 >sub/deep", "\nrm -r 'b b'; ln -s sub 'b b'")))


@test
@needs_root
def the_review_shows_what_replaces_a_directory():
    with project() as p:
        p.put("d/f", b"x\n")
        os.mkdir(f"{p.path}/bin")
        os.mkdir(f"{p.path}/l")
        p.put("c", b"hello\n")
        wid = p.work("rm -r d; printf '#!/bin/sh\\nevil\\n' >d; chmod +x d; rmdir bin l; echo more >bin; ln -s sneaky l; "
                     "rm c; mkdir c; echo hello >c/x; mkdir none; chmod 700 none")
        stat = p.warren("diff", wid, "--stat").stdout.decode()
        for row in (r" T d +\|     2 \+\+ directory -> file, executable\n", r" T bin +\|     1 \+ directory -> file\n",
                    r" T l +\|     1 \+ directory -> link\n", r" T c +\|     1 - file -> directory\n", r" A none +\| directory, mode 0700\n"):
            ok(re.search(row, stat), f"{row}: {stat}")
        eq(stat.count("bin "), 1, stat)
        shown = (rb"\+evil\r?\n", rb"\+more\r?\n", rb"\+sneaky\r?\n", rb"-hello\r?\n", rb"A none +\| directory, mode 0700")
        out = p.warren("diff", wid)
        for want in shown:
            ok(re.search(want, out.stdout), f"{want}: {out}")
        eq(out.stderr, b"", "nothing is left out")
        patch = p.warren("diff", wid, "--patch")
        ok(b"none" not in patch.stdout and b"1 change is not shown, because a patch cannot contain it" in patch.stderr, patch)
        with p.terminal("work", "--resume", wid, "--", "true", env={"TERM": "dumb"}) as t:
            t.expect(rb"\?\]\? ?")
            t.type(b"v\r")
            seen = t.expect(rb"v\r\n(.*)\[a\]ccept all.*?\?\]\? ?").group(1)
            for want in shown:
                ok(re.search(want, seen), f"key v, {want}: {seen}")
            t.type(b"c\r")
            seen = b""
            for _ in range(7):
                seen += t.expect(rb".*?\?\]\? ?").group()
                t.type(b"n\r")
            for want in (*shown[:4], rb"d: type, directory -> file, executable", rb"c: type, file -> directory", rb"none: added, mode 0700"):
                ok(re.search(want, seen), f"key c, {want}: {seen}")
            t.expect(rb"later.*?\?\]\? ?")
            t.type(b"k\r")
            t.wait()


@test
@needs_root
def what_needs_permission_is_shown_too():
    with project() as p:
        p.put("a", b"1\n")
        p.git()
        wid = p.work("echo evil >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo 2 >>a")
        out, patch = (p.warren("diff", wid, *o) for o in ((), ("--patch",)))
        ok(b"new file mode 100755" in out.stdout and b"\n+evil\n" in out.stdout and b"\n+2\n" in out.stdout, out)
        ok(b"evil" not in patch.stdout and b"\n+2\n" in patch.stdout, patch)
        ok(b"1 change is not shown, because a patch cannot contain it" in patch.stderr, patch)


run_tests()
