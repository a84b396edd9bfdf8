#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-work-patch.py - exactly the files and hunks of a patch are accepted or rejected, or nothing

Prints TAP. $WARREN is the program (default build/warren).
"""
import json
import os
import random
import re
import shlex
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, needs_root, ok, run_tests, test  # pylint: disable=wrong-import-position
from review_world import project, tree  # pylint: disable=wrong-import-position

NAMES = ["plain", "with space", "-dash", 'quote"d', "back\\slash", "tab\there", "new\nline", "ä€", "esc\x1b[31m"]
# Several hunks, one of which can be split, and every other kind of change.
CHANGE = """sed -i 's/^line 7$/seven/; s/^line 9$/nine/; s/^line 30$/thirty/; s/^line 60$/sixty/' a.c; rm gone; mv old new
chmod +x run.sh; sed -i 's/^2$/two/; s/^25$/twentyfive/' both; chmod +x both; printf 'x\\0y' >data; printf 'no end' >added
rm file; ln -s 'to file' file; ln -s a.c link; mkdir -p target; echo 1 >target/x; ln -s /etc out; :>empty"""


def fill(p):
    p.put("a.c", b"".join(b"line %d\n" % i for i in range(80)))
    p.put("both", b"".join(b"%d\n" % i for i in range(30)))
    p.put("gone", b"1\n2\n")
    p.put("old", b"a file that moves\n" * 5)
    p.put("run.sh", b"#!/bin/sh\n")
    p.put("data", bytes(range(256)) * 10)
    p.put("file", b"this becomes a link\n")
    p.put(".gitignore", b"target/\n")
    p.git()


def sections(patch):
    """Returns the files of a patch, in order; a file whose type changes is one."""
    parts = re.split(rb"^(?=diff --git )", patch, flags=re.M)[1:]
    joined = []
    for part in parts:
        if joined and joined[-1].split(b"\n", 1)[0] == part.split(b"\n", 1)[0]:
            joined[-1] += part
        else:
            joined.append(part)
    return joined


def hunks(section):
    """Returns the header of a file in a patch, and its hunks."""
    head, *rest = re.split(rb"^(?=@@ )", section, flags=re.M)
    return head, rest


def section_of(patch, name):
    found = [s for s in sections(patch) if s.startswith(b"diff --git a/%s b/" % name)]
    eq(len(found), 1, f"{name} in {patch}")
    return found[0]


def refused(p, wid, patch, why, verb="accept", options=()):
    """The patch is refused with this reason, and nothing is changed."""
    before, changes = tree(p.path), p.warren("diff", wid, "--json").stdout
    said = p.warren(verb, wid, "--patch", "-", *options, data=patch, status=125)
    ok(why in said.stderr and not said.stdout, f"{why} is not in {said}")
    eq((tree(p.path), p.warren("diff", wid, "--json").stdout), (before, changes), f"nothing has changed: {patch}")


@test
@needs_root
def hunks_of_a_file_are_accepted_and_others_stay():
    with project() as p:
        fill(p)
        wid = p.work(CHANGE)
        head, own = hunks(section_of(p.warren("diff", wid, "--patch").stdout, b"a.c"))
        eq(len(own), 3, own)
        said = json.loads(p.warren("accept", wid, "--json", "--patch", "-", data=head + own[1]).stdout)
        eq((said["id"], said["accepted"], said["conflicts"]), (wid, 1, []))
        text = p.get("a.c")
        ok(b"\nthirty\n" in text and b"\nline 7\n" in text and b"\nline 60\n" in text, text)
        ok(os.path.lexists(f"{p.path}/gone") and os.path.isfile(f"{p.path}/file"), "nothing else")
        refused(p, wid, head + own[1], b"hunk 1 (line 28) is not one of the hunks of the work")
        with open(f"{p.top}/rest.patch", "wb") as f:
            f.write(head + own[0] + own[2])
        p.warren("accept", wid, "--patch", f"{p.top}/rest.patch")
        ok(b"\nseven\n" in p.get("a.c") and b"\nsixty\n" in p.get("a.c"), p.get("a.c"))
        ok(b"a.c" not in p.warren("diff", wid, "a.c", status=125).stdout, "nothing of a.c is left")


@test
@needs_root
def shifted_lines_and_parts_of_hunks_are_found():
    with project() as p:
        fill(p)
        wid = p.work(CHANGE)
        head, own = hunks(section_of(p.warren("diff", wid, "--patch").stdout, b"a.c"))
        shifted = re.sub(rb"^@@ -58,7 \+58,7 @@", b"@@ -158,7 +161,7 @@", own[2])
        ok(shifted != own[2], own[2])
        p.warren("accept", wid, "--patch", "-", data=head + shifted)
        ok(b"\nsixty\n" in p.get("a.c"), p.get("a.c"))
        part = b"@@ -5,5 +5,5 @@\n line 4\n line 5\n line 6\n-line 7\n+seven\n line 8\n"
        ok(part.split(b"\n", 1)[1] in own[0], own[0])
        p.warren("accept", wid, "--patch", "-", data=head + part)
        ok(b"\nseven\n" in p.get("a.c") and b"\nline 9\n" in p.get("a.c"), "one part of the hunk")


@test
@needs_root
def equal_hunks_are_told_apart_by_their_place():
    block = b"".join(b"same %d\n" % i for i in range(20)) * 9
    with project() as p:
        p.put("f", block)
        wid = p.work("sed -i 's/^same 10$/changed/' f")
        head, own = hunks(p.warren("diff", wid, "--patch").stdout)
        eq((len(own), len({h.split(b"@@", 2)[2] for h in own})), (9, 1), "hunks, and different ones")
        p.warren("accept", wid, "--patch", "-", data=head + own[3] + own[7])
        lines = p.get("f").split(b"\n")
        eq([i // 20 for i, line in enumerate(lines) if line == b"changed"], [3, 7])


@test
@needs_root
def each_kind_of_change_is_accepted_or_rejected_as_a_whole():
    with project() as p:
        fill(p)
        wid = p.work(CHANGE, name="mine")
        patch = p.warren("diff", wid, "--patch").stdout
        pick = {n: section_of(patch, n) for n in (b"gone", b"old", b"run.sh", b"data", b"file", b"link", b"added", b"empty")}
        p.warren("accept", "mine", "--patch", "-", data=b"From: someone\n\n" + pick[b"file"] + pick[b"data"] + pick[b"run.sh"])
        eq((os.readlink(f"{p.path}/file"), p.get("data")), ("to file", b"x\0y"))
        ok(os.stat(f"{p.path}/run.sh").st_mode & 0o100 and os.path.isfile(f"{p.path}/old"), "only those three")
        out = p.warren("reject", "mine", "--patch", "-", data=pick[b"link"] + pick[b"gone"]).stdout
        ok(b"2 changes rejected" in out, out)
        p.warren("accept", "mine", "--patch", "-", data=pick[b"old"] + pick[b"added"] + pick[b"empty"])
        ok(not os.path.lexists(f"{p.path}/old") and p.get("new") and p.get("gone"), "renamed; and still there")
        eq((p.get("added"), p.get("empty")), (b"no end", b""))
        left = p.warren("diff", wid, "--name-only").stdout.split(b"\n")
        eq(sorted(left), [b"", b"a.c", b"both", b"out", b"target/"])


@test
@needs_root
def hunks_are_rejected_and_others_stay():
    with project() as p:
        fill(p)
        wid = p.work(CHANGE)
        head, own = hunks(section_of(p.warren("diff", wid, "--patch").stdout, b"a.c"))
        refused(p, wid, head + own[0].replace(b"+seven", b"+eight"), b"is not one of the hunks", verb="reject")
        p.warren("reject", wid, "--patch", "-", data=head + own[0])
        eq(hunks(section_of(p.warren("diff", wid, "--patch").stdout, b"a.c"))[1], own[1:], "the others")
        ok(b"\nline 7\n" in p.get("a.c") and b"\nline 30\n" in p.get("a.c"), "the project did not change")


@test
@needs_root
def the_mode_needs_all_hunks_and_hunks_do_not_need_the_mode():
    with project() as p:
        fill(p)
        wid = p.work(CHANGE)
        head, own = hunks(section_of(p.warren("diff", wid, "--patch").stdout, b"both"))
        eq(len(own), 2)
        refused(p, wid, head + own[0], b"the mode can only be decided on together with all hunks")
        bare = re.sub(rb"^(old|new) mode .*\n", b"", head, flags=re.M)
        p.warren("accept", wid, "--patch", "-", data=bare + own[0] + own[1])
        ok(b"\ntwo\n" in p.get("both") and b"\ntwentyfive\n" in p.get("both"), "both hunks")
        eq(os.stat(f"{p.path}/both").st_mode & 0o111, 0, "not the mode")
        only = section_of(p.warren("diff", wid, "--patch").stdout, b"both")
        ok(b"new mode 100755" in only and b"@@" not in only, only)
        p.warren("accept", wid, "--patch", "-", data=only)
        eq(os.stat(f"{p.path}/both").st_mode & 0o100, 0o100, "now the mode")


@test
@needs_root
def what_is_not_a_change_of_the_work_is_refused_as_a_whole():
    with project() as p:
        fill(p)
        wid = p.work(CHANGE)
        patch = p.warren("diff", wid, "--patch").stdout
        good, data = section_of(patch, b"link"), section_of(patch, b"data")
        head, own = hunks(section_of(patch, b"a.c"))
        file1, file2 = re.split(rb"^(?=diff --git )", section_of(patch, b"file"), flags=re.M)[1:]
        other = b"diff --git a/%s b/%s\n--- a/%s\n+++ b/%s\n@@ -1 +1 @@\n-x\n+y\n"
        for bad, why in (
                (other % ((b"not-there",) * 4), b"file 'not-there' of the patch: the work has no such change"),
                (other % ((b".gitignore",) * 4), b"file '.gitignore' of the patch: the work has no such change"),
                (other % ((b"../p/a.c",) * 4), b"the patch is not valid"),
                (other % ((b"/etc/passwd",) * 4), b"the patch is not valid"),
                (other % ((b"a.c",) * 4), b"hunk 1 (line 1) is not one of the hunks"),
                (head + own[0] + own[0], b"hunk 2 (line 5) is not one of the hunks"),
                (head + own[0] + head + own[1], b"the file is in the patch twice"),
                (head, b"the patch contains no hunk of it"),
                (section_of(patch, b"added").replace(b"+no end", b"+an end"), b"the contents are not those of the work"),
                (section_of(patch, b"added").replace(b"100644", b"100755"), b"the work has a different mode"),
                (section_of(patch, b"run.sh").replace(b"mode 100755", b"mode 100644"), b"the work has a different mode"),
                (section_of(patch, b"old").replace(b"rename from old", b"rename from gone"), b"had another name before"),
                (section_of(patch, b"old").replace(b"rename ", b"copy "), b"not changed in this way"),
                (section_of(patch, b"gone").replace(b"-2\n", b"-3\n"), b"the contents are not those of the work"),
                (re.sub(rb"GIT binary.*", b"Binary files a/data and b/data differ\n", data, flags=re.S), b"contents are not those"),
                (re.sub(rb"literal 2560\n.*", b"", data, flags=re.S).replace(b"literal 3\n", b"literal 4\n"), b"the patch is not valid"),
                (file1, b"the patch contains only half of that"), (file2, b"the patch contains only half of that"),
                (file1 + file2 + file2, b"the file is in the patch twice"),
                (b"@@ -1 +1 @@\n-x\n+y\n", b"the patch cannot be read: it names no file"),
                (b"garbage\n", b"the patch cannot be read: it names no file"), (b"", b"the patch is empty")):
            for text in (bad, good + bad) if b"is empty" not in why and b"cannot be read" not in why else (bad,):
                refused(p, wid, text, why)
        refused(p, wid, good + other % ((b"a.c",) * 4), b"is not one of the hunks", verb="reject")
        p.warren("accept", wid, "--patch", "-", data=good)
        eq(os.readlink(f"{p.path}/link"), "a.c", "the good half alone is accepted")


@test
@needs_root
def a_patch_gives_no_permissions():
    with project() as p:
        fill(p)
        wid = p.work(CHANGE)
        good = section_of(p.warren("diff", wid, "--patch").stdout, b"gone")
        patch = p.warren("diff", wid, "--patch", "--ignored").stdout
        out, ignored = section_of(patch, b"out"), section_of(patch, b"target/x")
        refused(p, wid, good + out, b"--allow link")
        refused(p, wid, good + ignored, b"is ignored by .gitignore")
        p.warren("accept", wid, "--patch", "-", "--allow", "link", "--ignored", data=good + out + ignored)
        eq((os.readlink(f"{p.path}/out"), p.get("target/x")), ("/etc", b"1\n"))


@test
@needs_root
def a_conflict_is_reported_and_nothing_is_accepted():
    with project() as p:
        fill(p)
        wid = p.work(CHANGE)
        good = section_of(p.warren("diff", wid, "--patch").stdout, b"gone")
        p.put("gone", b"1\n2\nand mine\n")
        said = p.warren("accept", wid, "--patch", "-", "--json", data=section_of(p.warren("diff", wid, "--patch").stdout, b"gone"),
                        status=1)
        eq([c["path"] for c in json.loads(said.stdout)["conflicts"]], ["gone"])
        refused(p, wid, good, b"the contents are not those of the work")
        eq(p.get("gone"), b"1\n2\nand mine\n")


@test
@needs_root
def options_that_contradict_each_other_are_refused():
    with project() as p:
        fill(p)
        wid = p.work(CHANGE)
        for words in (["--hunks"], ["--as-commits"], ["--paths-from", "-"]):
            ok(b"--patch" in p.warren("accept", wid, "--patch", "-", *words, status=125).stderr, words)
        ok(b"--patch takes no paths" in p.warren("accept", wid, "a.c", "--patch", "-", status=125).stderr, "paths")
        ok(b"open '/nonexistent'" in p.warren("accept", wid, "--patch", "/nonexistent", status=125).stderr, "no file")


@test
@needs_root
def paths_are_read_from_a_file():
    with project() as p:
        fill(p)
        p.put("new\nline", b"1\n")
        wid = p.work(CHANGE + "; echo 2 >'new\nline'")
        listed = p.warren("diff", wid, "--name-only", "--paths-from", "-", "gone", data=b"new\nline\0a.c\0").stdout
        eq(listed, b'a.c\ngone\n"new\\nline"\n')
        for bad, why in ((b"", b"there are no paths"), (b"a.c", b"does not end with a NUL byte"), (b"../x\0", b"not in the project"),
                         (b"\0a.c\0", b"a path is empty"),
                         (b"none\0", b"nothing was changed at 'none'")):
            ok(why in p.warren("accept", wid, "--paths-from", "-", data=bad, status=125).stderr, bad)
        p.warren("accept", wid, "--paths-from", "-", data=b"new\nline\0gone\0")
        eq(p.get("new\nline"), b"2\n")
        p.warren("reject", wid, "--paths-from", "-", data=b"a.c\0")
        ok(b"a.c" not in p.warren("diff", wid, "--name-only").stdout and b"seven" not in p.get("a.c"), "rejected")


def change(r, name):
    """Returns a command that changes the file @name in some way."""
    q = shlex.quote(f"./{name}")
    return r.choice((
        f"printf '%s\\n' {r.random()} >>{q}", f"rm {q}", f"chmod +x {q}", f"mv {q} {q}.moved",
        f"rm {q}; ln -s 'to {r.random()}' {q}", f"head -c {r.choice((1, 52, 4000))} /dev/urandom >{q}", f": >{q}",
        f"sed -i '2d;15s/.*/changed/;29s/.*/too/' {q}", f"cp {q} {q}.copy; chmod 755 {q}; echo more >>{q}",
        f"mkdir -p {q}.d/e; echo {r.random()} >{q}.d/e/f"))


@test
@needs_root
def any_part_of_a_patch_has_the_result_of_git_apply():
    r = random.Random(11)
    for _ in range(4):
        with project() as p:
            for i in range(50):
                data = r.choice((b"", b"one\n" * 9, b"".join(b"%d\n" % r.randrange(9) for _ in range(40)), r.randbytes(300), b"x"))
                p.put(f"{i % 7}/{i}{r.choice(NAMES)}", data, r.choice((0o644, 0o755)))
            files = [os.path.relpath(os.path.join(d, f), p.path) for d, _, names in os.walk(p.path) for f in names]
            script = "\n".join(change(r, f) for f in r.sample(files, 40))
            os.mkdir(f"{p.top}/applied")
            wid = p.work(script)
            for _ in range(3):
                p.sh(f"rm -rf {p.top}/applied; cp -a . {p.top}/applied")
                picked = b""
                for part in sections(p.warren("diff", wid, "--patch").stdout) if wid in p.works() else ():
                    head, own = hunks(part)
                    few = [h for h in own if r.random() < 0.6]
                    whole = b"mode" in head or b"rename" in head
                    if r.random() < 0.6 and (few or not own):
                        picked += part if whole else head + b"".join(few)
                if not picked:
                    continue
                p.sh("git apply --whitespace=nowarn --recount", cwd=f"{p.top}/applied", data=picked)
                p.warren("accept", wid, "--patch", "-", data=picked)
                eq(tree(p.path), tree(f"{p.top}/applied"), f"{script}\n{picked}")


@test
@needs_root
def an_accepted_part_is_no_longer_a_change_in_any_mode():
    for mode in ("overlay", "copy"):
        with project() as p:
            p.put("a", b"".join(b"%d\n" % i for i in range(1, 61)))
            p.put("b", b"1\n")
            p.put("m", b"1\n", 0o644)
            p.warren("work", "-q", "--keep", "--no-setup", "--mode", mode, "--name", "w", p.path, "--", "sh", "-c",
                     "sed -i 's/^5$/five/; s/^50$/fifty/' a; echo 2 >>b; chmod 4755 b m; echo n >n; chmod 4711 n; "
                     "mkdir -m 3777 d; echo f >d/f")
            whole = p.warren("diff", "w", "--patch", "a").stdout
            head, own = hunks(whole)
            p.warren("accept", "-q", "w", "--patch", "-", data=head + own[0])
            ok(b"five\n" in p.get("a") and b"\n50\n" in p.get("a"), f"{mode}: a control: one hunk is accepted")
            p.put("a", p.get("a").replace(b"five\n", b"mine\n"))  # the user changes the accepted line
            ok(b"five" not in b"".join(x for x in p.warren("diff", "w", "a").stdout.splitlines(True) if x[:1] == b"+"), mode)
            p.warren("accept", "-q", "w", "b", "m", "n", "d")
            left = p.warren("diff", "w", "--stat").stdout.decode()
            for row in ("b | mode 0755 -> 4755", "m | mode 0755 -> 4755", "n | mode 0711 -> 4711", "d | directory, mode 1777 -> 3777"):
                ok(row in left, f"{mode}: {row}: {left}")
            p.warren("accept", "-q", "w")  # without a conflict about the modes
            eq(p.get("a"), b"".join(b"%s\n" % {5: b"mine", 50: b"fifty"}.get(i, b"%d" % i) for i in range(1, 61)), mode)
            eq((p.get("b"), p.get("n"), p.get("d/f")), (b"1\n2\n", b"n\n", b"f\n"))
            p.warren("accept", "-q", "w", "--allow", "set-id")
            eq([oct(os.stat(f"{p.path}/{f}").st_mode & 0o7777) for f in "bmnd"], ["0o4755", "0o4755", "0o4711", "0o3777"])
            eq(p.works(), [], f"{mode}: nothing is left")


run_tests()
