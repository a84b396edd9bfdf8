#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-work-diff.py - warren diff shows what a work changed, and git applies its patches

Prints TAP. $WARREN is the program (default build/warren).
"""
import json
import os
import random
import re
import shlex
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import WARREN, eq, needs_root, ok, run_tests, test  # pylint: disable=wrong-import-position
from review_world import project, tree  # pylint: disable=wrong-import-position

NAMES = ["plain", "with space", "-dash", 'quote"d', "back\\slash", "tab\there", "new\nline", "ä€", "esc\x1b[31m", "\x01\x7f"]


def fill(p):
    p.put("a.c", b"".join(b"line %d\n" % i for i in range(50)))
    p.put("gone", b"1\n2\n")
    p.put("old name", b"a file that moves\n" * 5)
    p.put("run.sh", b"#!/bin/sh\n")
    p.put("data", bytes(range(256)) * 10)
    p.put(".gitignore", b"target/\n*.log\n")


CHANGE = """sed -i 's/line 7$/seven/; s/line 40$/forty/' a.c; rm gone; mv 'old name' 'new name'; chmod +x run.sh
printf 'x\\0y' >data; printf 'no end' >added; mkdir -p target/deep empty; echo 1 >target/deep/x; echo 2 >target/y; echo 3 >b.log
ln -s a.c link; touch same"""


@test
@needs_root
def ids_are_short_except_in_a_patch():
    with project() as p:
        fill(p)
        p.git()
        wid = p.work("sed -i 's/line 7$/seven/' a.c; rm gone; echo 1 >added; chmod +x run.sh; echo >>run.sh")
        out, patch = p.warren("diff", wid).stdout, p.warren("diff", wid, "--patch").stdout
        short, full = (re.findall(rb"^index ([0-9a-f]+)\.\.([0-9a-f]+)( 100644)?$", x, re.M) for x in (out, patch))
        eq(({len(i) for x in short for i in x[:2]}, {len(i) for x in full for i in x[:2]}), ({7}, {40}))
        eq(short, [(a[:7], b[:7], mode) for a, b, mode in full], "the same ids")
        p.sh("git apply -", data=out)
        p.sh("git add -A")
        theirs = re.findall(rb"^index ([0-9a-f]+)\.\.([0-9a-f]+)( 100644)?$", p.sh("git diff --cached --no-renames --abbrev=7"), re.M)
        eq(short, theirs, "those of git")


@test
@needs_root
def the_difference_is_that_of_git():
    with project() as p:
        fill(p)
        p.git()
        wid = p.work(CHANGE)
        out = p.warren("diff", wid).stdout
        eq(p.warren("diff").stdout, out, "the only work of the directory")
        eq(p.warren("diff", wid[:6]).stdout, out, "by a prefix")
        for piece in (b"--- a/a.c\n+++ b/a.c\n@@ -5,7 +5,7 @@", b"-line 7\n+seven\n", b"deleted file mode 100644",
                      b"rename from old name\nrename to new name\n", b"old mode 100644\nnew mode 100755\n",
                      b"Binary files a/data and b/data differ\n", b"+no end\n\\ No newline at end of file\n",
                      b"new file mode 120000"):
            ok(piece in out, f"{piece}: {out}")
        ok(b"target" not in out and b".log" not in out and b"\x1b" not in out, out)
        ok(b"diff --git a/b.log b/b.log" in p.warren("diff", wid, "--ignored").stdout, "ignored files on request")
        only = p.warren("diff", wid, "a.c").stdout
        ok(only.count(b"diff --git") == 1 and only in out, only)
        refused = p.warren("diff", wid, "nothing-here", status=125).stderr
        ok(b"nothing was changed at 'nothing-here'" in refused, refused)
        refused = p.warren("diff", wid, "../other", status=125).stderr
        ok(b"is not in the project" in refused, refused)


@test
@needs_root
def summaries_list_every_change():
    with project() as p:
        fill(p)
        p.git()
        wid = p.work(CHANGE, name="mine")
        names = p.warren("diff", "mine", "--name-status").stdout.decode()
        for line in ("M\ta.c", "A\tadded", "M\tdata", "A\tempty", "D\tgone", "A\tlink", "R\told name\tnew name", "M\trun.sh",
                     "A\tb.log", "A\ttarget/"):
            ok(f"{line}\n" in names, f"{line}: {names}")
        eq(len(p.warren("diff", wid, "--name-only").stdout.splitlines()), len(names.splitlines()))
        stat = p.warren("diff", wid, "--stat").stdout.decode()
        for pattern in (r" M a\.c +\|     4 \+\+--\n", r" M data +\| binary 2\.56kB -> 3B\n", r"old name => new name",
                        r"run\.sh +\| now executable", r" ignored target/ \(2 files\)\n", r" ignored b\.log\n",
                        r"; \d+ lines added, \d+ removed\n"):
            ok(re.search(pattern, stat), f"{pattern}: {stat}")
        found = json.loads(p.warren("diff", wid, "--json").stdout)
        eq((found["id"], found["name"], found["project"]), (wid, "mine", p.path))
        by = {c["path"]: c for c in found["changes"]}
        eq((by["a.c"]["kind"], by["a.c"]["lines_added"], by["a.c"]["lines_removed"]), ("modified", 2, 2))
        eq((by["new name"]["kind"], by["new name"]["from"]), ("renamed", "old name"))
        eq((by["data"]["binary"], by["a.c"]["binary"]), (True, False))
        eq((by["target"]["ignored"], by["target"]["files"], by["target"]["directory"]), (True, 2, True))
        eq((by["run.sh"]["old_mode"], by["run.sh"]["new_mode"]), ("100644", "100755"))


@test
@needs_root
def modes_that_git_does_not_know_are_shown():
    with project() as p:
        fill(p)
        os.mkdir(f"{p.path}/d", 0o755)
        p.put("private", b"1\n")
        wid = p.work("chmod 600 private; chmod 700 d run.sh; chmod 640 a.c; echo 1 >>a.c; umask 0; echo 2 >all; mkdir open; "
                     "echo 3 >set; chmod 4755 set; chmod 755 data")
        stat = p.warren("diff", wid, "--stat").stdout.decode()
        for pattern in (r"private +\| mode 0644 -> 0600\n", r" M d +\| directory, mode 0755 -> 0700\n", r"a\.c +\| +1 \+ mode 0644 -> 0640\n",
                        r"all +\| +1 \+ mode 0666\n", r"open +\| directory, mode 0777\n", r"data +\| now executable, mode 0644 -> 0755\n",
                        r"run\.sh +\| now executable, mode 0644 -> 0700", r"set +\| +1 \+ mode 4755 \[needs --allow set-id\]\n"):
            ok(re.search(pattern, stat), f"{pattern}: {stat}")
        by = {c["path"]: c for c in json.loads(p.warren("diff", wid, "--json").stdout)["changes"]}
        eq([by["private"][k] for k in ("kind", "old_mode", "new_mode")], ["mode", "100644", "100600"])
        eq([by["d"][k] for k in ("kind", "old_mode", "new_mode")], ["mode", "040755", "040700"])
        # A patch contains what git can represent, and git applies it.
        out = p.warren("diff", wid, "--patch")
        ok(b"b/private" not in out.stdout and b"b/run.sh\nold mode 100644\nnew mode 100755\n" in out.stdout, out.stdout)
        ok(b"changes are not shown, because a patch cannot contain them" in out.stderr, out.stderr)
        p.sh(f"mkdir {p.top}/applied; cp -a . {p.top}/applied")
        p.sh("git apply", cwd=f"{p.top}/applied", data=out.stdout)
        eq(os.stat(f"{p.top}/applied/run.sh").st_mode & 0o777, 0o755)
        accepted = p.warren("accept", wid)
        ok(b"--allow set-id" in accepted.stderr and b"1 change is left" in accepted.stdout, accepted)
        eq([os.stat(f"{p.path}/{n}").st_mode & 0o7777 for n in ("private", "d", "run.sh", "a.c", "all", "open", "set", "data")],
           [0o600, 0o700, 0o700, 0o640, 0o666, 0o777, 0o755, 0o755])
        again = p.warren("accept", wid, status=125)
        ok(b"nothing to accept" in again.stderr and b"--allow set-id" in again.stderr, again)
        eq(p.works(), [wid])
        p.warren("accept", wid, "--allow", "set-id")
        eq((p.works(), os.stat(f"{p.path}/set").st_mode & 0o7777), ([], 0o4755))


def change(r, name):
    """Returns a command that changes the file @name in some way."""
    q = shlex.quote(f"./{name}")
    return r.choice((
        f"printf '%s\\n' {r.random()} >>{q}", f"rm {q}", f"chmod +x {q}", f"mv {q} {q}.moved",
        f"rm {q}; ln -s 'to {r.random()}' {q}", f"head -c {r.choice((1, 52, 53, 4000))} /dev/urandom >{q}", f": >{q}",
        f"sed -i '2d;5s/.*/changed/' {q}", f"printf 'no end' >>{q}", f"cp {q} {q}.copy; chmod 755 {q}; echo more >>{q}",
        f"echo {r.random()} >{q}.new", f"mkdir -p {q}.d/e; echo {r.random()} >{q}.d/e/f"))


@test
@needs_root
def git_applies_the_patch_of_any_changes():
    r = random.Random(7)
    for _ in range(4):
        with project() as p:
            for i in range(60):
                data = r.choice((b"", b"one\n" * 9, b"".join(b"%d\n" % r.randrange(20) for _ in range(30)), r.randbytes(300), b"x"))
                p.put(f"{i % 7}/{i}{r.choice(NAMES)}", data, r.choice((0o644, 0o755)))
            files = [os.path.relpath(os.path.join(d, f), p.path) for d, _, names in os.walk(p.path) for f in names]
            script = "\n".join(change(r, f) for f in r.sample(files, 40))
            for d in ("seen", "applied"):
                os.mkdir(f"{p.top}/{d}")
            wid = p.work(script, copy=f"{p.top}/seen")
            p.sh(f"cp -a . {p.top}/applied")
            patch = p.warren("diff", wid, "--patch").stdout
            p.sh("git apply --whitespace=nowarn", cwd=f"{p.top}/applied", data=patch)
            eq(tree(f"{p.top}/applied"), tree(f"{p.top}/seen"), f"{script}\n{patch}")


@test
@needs_root
def hostile_contents_do_no_harm_on_a_terminal():
    with project() as p:
        p.put("a", b"1\n")
        wid = p.work("printf '\\033]0;title\\007\\033[2J\\342\\200\\256x\\377\\n' >a; echo x >\"$(printf 'n\\033[31m\\nx')\"")
        for words in ([], ["--stat"], ["--name-status"], ["--patch"]):
            with p.terminal("diff", wid, *words) as t:
                eq(t.wait(), 0)
                ok(b"\x1b" not in t.seen and b"\xe2\x80\xae" not in t.seen and b"\x07" not in t.seen, f"{words}: {t.seen}")
                ok(b'n\\033[31m\\nx"' in t.seen, f"{words}: {t.seen}")
                if not words:
                    ok(b"+^[]0;title^G^[[2J<U+202E>x<FF>" in t.seen, t.seen)
        with p.terminal("diff", wid, "--json") as t:
            eq(t.wait(), 0)
            eq({c["path"] for c in json.loads(t.seen)["changes"]}, {"a", "n\x1b[31m\nx"})
        with p.terminal("diff", wid, "a", env={"NO_COLOR": ""}) as t:
            eq(t.wait(), 0)
            eq(set(re.findall(rb"\x1b[^m]*m", t.seen)), {b"\x1b[1m", b"\x1b[36m", b"\x1b[31m", b"\x1b[32m", b"\x1b[m"}, t.seen)
        with p.terminal("diff", wid, "a", env={"PAGER": "sed s/^/paged:/"}) as t:
            eq(t.wait(), 0)
            ok(b"paged:diff --git" in t.seen, t.seen)
        with p.terminal("diff", wid, "a", env={"PAGER": "no-such-pager"}) as t:
            eq(t.wait(), 0)
            ok(b"diff --git" in t.seen, "without a pager, it is printed")


# Each of them is invisible, moves other text, or controls the terminal; the others look like a space.
HIDDEN = "\u009b\u00ad\u034f\u061c\u115f\u1160\u17b4\u180e\u200b\u200d\u202e\u2066\u2800\u3164\ufe0f\ufeff\uffa0\U0001d173\U000e0041"
BLANKS = "\u00a0\u2003\u202f\u3000"


@test
@needs_root
def invisible_characters_are_seen():
    with project() as p:
        p.put("a", b"1\n")
        names = [f"n{c}" for c in HIDDEN] + [f"b{c}b" for c in BLANKS] + ["tail ", "trail /x", " lead", "two  blanks", "a => b", "a | b"]
        wid = p.work("\n".join(f"mkdir -p {shlex.quote(os.path.dirname('./' + n))}; echo '[{n}]' >{shlex.quote('./' + n)}" for n in names))
        for words in ([], ["--stat"], ["--name-status"], ["--json"]):
            with p.terminal("diff", wid, *words) as t:
                eq(t.wait(), 0)
                seen = t.seen.decode()
            eq([hex(ord(c)) for c in HIDDEN if c in seen], [], f"{words}")
            if words == ["--stat"]:
                for n in names:
                    q = "".join(chr(b) if b < 128 else f"\\{b:03o}" for b in n.encode())
                    ok(f' A "{q}" ' in seen, f"{n}: {seen}")
            if words == ["--json"]:
                eq({c["path"] for c in json.loads(seen)["changes"]}, set(names))
            if not words:
                for c in HIDDEN:
                    ok(f"<U+{ord(c):04X}>]" in seen, f"{c!r}: {seen}")
        p.put("é 中 x", b"2\n")
        other = p.work("rm 'é 中 x'")
        ok(" D é 中 x ".encode() in p.warren("diff", other, "--stat").stdout, "other scripts are not quoted")


@test
@needs_root
def modes_of_files_with_blanks_at_the_end_make_a_patch():
    with project() as p:
        names = ["trail /b", "trail /b ", " x/ y", "plain x", "x b/x"]
        for n in names:
            p.put(n, b"1\n")
        wid = p.work("find . -type f -exec chmod +x {} +")
        p.sh(f"mkdir {p.top}/applied; cp -a . {p.top}/applied")
        patch = p.warren("diff", wid, "--patch").stdout
        p.sh("git apply", cwd=f"{p.top}/applied", data=patch)
        eq([n for n in names if not os.access(f"{p.top}/applied/{n}", os.X_OK)], [])
        p.warren("accept", wid, "--patch", "-", data=patch)
        eq([n for n in names if not os.access(f"{p.path}/{n}", os.X_OK)], [])


@test
@needs_root
def wrong_arguments_are_explained():
    with project() as p:
        p.put("a", b"1\n")
        wid = p.work("echo 2 >a; echo 3 >f")
        for option in (("--stat",), ("--patch",), ("--name-only",), ("--paths-from", "-"), ("--paths-from=-",)):
            said = p.warren("diff", *option, "no-such-work", status=125).stderr
            ok(b"no-such-work" in said and b"unknown option" not in said, f"{option}: {said}")
        out = p.warren("diff", "--paths-from", "-", wid, data=b"f\0").stdout
        ok(b"b/f" in out and b"b/a" not in out, out)
        for words in (("diff", wid, ""), ("accept", wid, ""), ("reject", wid, ""), ("accept", wid, "a", "")):
            said = p.warren(*words, status=125).stderr
            ok(b"a path is empty" in said, f"{words}: {said}")
        said = p.warren("accept", wid, "--paths-from", "-", data=b"\0", status=125).stderr
        ok(b"empty" in said, said)
        eq((p.get("a"), os.path.exists(f"{p.path}/f"), p.works()), (b"1\n", False, [wid]))
        ok(b"2 changes accepted" in p.warren("accept", wid, ".").stdout, "the positive control")


@test
@needs_root
def rows_say_what_is_executable():
    with project() as p:
        p.put("q", b"1\n2\n")
        wid = p.work("mv q r; chmod +x r; echo 3 >new; chmod +x new; ln -s r l")
        stat = p.warren("diff", wid, "--stat").stdout.decode()
        for row in (r" R q => r +\| .*now executable", r" A new +\| .*executable\n"):
            ok(re.search(row, stat), f"{row}: {stat}")
        by = {c["path"]: c["new_mode"] for c in json.loads(p.warren("diff", wid, "--json").stdout)["changes"]}
        eq(by, {"r": "100755", "new": "100755", "l": "120000"})


@test
@needs_root
def what_is_too_deep_is_reported():
    deep = "i=0; while [ $i -lt 420 ]; do mkdir d; cd d; i=$((i+1)); done"
    for verb in ("accept", "reject"):
        with project() as p:
            p.put("a", b"1\n")
            wid = p.work(f"echo 2 >a; {deep}")
            out = p.warren(verb, wid).stdout.decode()
            ok("0 changes are left" not in out and "1 directory is too deep or cannot be read" in out
               and f"warren work --remove {wid}" in out, out)
            eq((p.works(), p.get("a")), ([wid], b"2\n" if verb == "accept" else b"1\n"))
            p.warren("work", "--remove", wid)
            eq(p.works(), [])


@test
@needs_root
def patterns_that_take_long_delay_no_decision():
    """They decide nothing then, which is said; the user's patterns go on doing that."""
    slow = ("for i in $(seq 10000); do printf '/**/*a***/*a***/*a***/*a***/*a*b%d\\n' $i; done >.gitignore; "
            "echo '*.log' >>.gitignore; d=$(for i in $(seq 30); do printf '%0100d/' 0 | tr 0 a; done); "
            "mkdir -p $d; touch ${d}f a.log a.key; echo 2 >a")
    said = b"matching the .gitignore files of the sandbox takes too long"
    with project() as p:
        p.put("a", b"1\n")
        p.put(".gitignore", b"*.key\n")
        wid = p.work("echo '*.log' >>.gitignore; touch a.log a.key")
        found = json.loads(p.warren("diff", wid, "--json").stdout)
        eq((found["gitignore"], {c["path"]: c["ignored"] for c in found["changes"]}),
           ("all", {".gitignore": False, "a.log": True, "a.key": True}))
        ok(said not in p.warren("diff", wid, "--stat").stdout, "said without a reason")
        p.warren("reject", wid)
        wid = p.work(slow)
        ok(said in p.warren("diff", wid, "--stat").stdout, "not said")
        found = json.loads(p.warren("diff", wid, "a.log", "a.key", "--json").stdout)
        eq((found["gitignore"], [c["ignored"] for c in found["changes"]]), ("user", [True, False]))
        r = p.warren("accept", wid, "a")
        ok(said in r.stderr and p.get("a") == b"2\n", r)
        p.warren("reject", wid)
        eq(p.works(), [])


@test
@needs_root
def the_project_of_a_work_cannot_deceive():
    with project() as p:
        p.path = f"{p.top}/p\u202e\u2800é"
        os.mkdir(p.path)
        p.put("a", b"1\n")
        p.work("echo 2 >a")
        out = p.warren("work", "--list").stdout
        ok("p\\342\\200\\256\\342\\240\\200é\n".encode() in out, out)


@test
@needs_root
def works_are_listed_and_removed():
    with project() as p:
        ids = [p.work("echo 2 >a", name=name) for name in ("one", "two", "three")]
        rows = [line.split() for line in p.warren("work", "--list").stdout.decode().splitlines()]
        eq(rows[0], ["WORK", "STATE", "MODE", "NAME", "ENDED", "PROJECT"])
        eq({(r[0], r[1], r[3], r[-1]) for r in rows[1:]}, {(i, "kept", n, p.path) for i, n in zip(ids, ("one", "two", "three"))})
        found = [json.loads(line) for line in p.warren("work", "--list", "--json").stdout.splitlines()]
        eq({(w["id"], w["name"], w["project"], w["running"]) for w in found}, {(i, n, p.path, False) for i, n in zip(ids, ("one", "two", "three"))})
        ok(b"--list" in p.warren("work", "--json", "--", "true", status=125).stderr, "of one work, there is no JSON")
        out = p.warren("work", "--remove", "one", "nosuch", ids[2], status=125)
        eq((out.stdout.decode().split(), p.works()), ([ids[0], ids[2]], [ids[1]]))
        ok(b"no work 'nosuch'" in out.stderr, out)
        eq(p.warren("work", "-q", "--remove", "two").stdout, b"")


@test
@needs_root
def new_directories_with_an_unusual_mode_have_a_row():
    script = "mkdir plain; touch plain/f; mkdir -m 0777 open open/sub; touch open/sub/f; mkdir -m 2755 group; touch group/f"
    rows = [(b"group", "042755"), (b"open", "040777"), (b"open/sub", "040777")]
    with project() as p:
        p.put("a", b"1\n")
        wid = p.work(script)
        changes = {c["path"]: c for c in json.loads(p.warren("diff", wid, "--json").stdout)["changes"]}
        eq(sorted(changes), ["group", "group/f", "open", "open/sub", "open/sub/f", "plain/f"], "a control: 'plain' has no row")
        eq([changes[n.decode()]["new_mode"] for n, _ in rows], [m for _, m in rows])
        stat = p.warren("diff", wid, "--stat").stdout
        ok(b"2755" in stat and stat.count(b"mode 0777") == 2, stat)
        p.warren("accept", wid)
        eq([oct(os.stat(f"{p.path}/{n}").st_mode & 0o7777) for n in ("open", "open/sub", "group")], ["0o777", "0o777", "0o755"])
        p.warren("accept", wid, "--allow", "set-id")
        eq((os.stat(f"{p.path}/group").st_mode & 0o7777, p.works()), (0o2755, []))
    with project() as p:
        p.put("a", b"1\n")
        wid = p.work(script)
        p.warren("accept", wid, "plain")
        p.warren("reject", wid)
        eq((sorted(os.listdir(p.path)), p.works()), (["a", "plain"], []), "all is discarded")


@test
@needs_root
def the_work_is_found_or_the_error_says_why():
    with project() as p:
        p.put("sub/a", b"1\n")
        nothing = p.warren("diff", status=125).stderr
        ok(b"no changes to decide on" in nothing, nothing)
        one = p.work("echo 2 >sub/a")
        ok(b"+2" in p.warren("diff", cwd=f"{p.path}/sub").stdout, "from a directory of the project")
        ok(b"+2" in p.warren("diff", one, "a", cwd=f"{p.path}/sub").stdout, "a path relative to it")
        p.work("echo 3 >sub/a")
        several = p.warren("diff", status=125).stderr
        ok(one.encode() in several and b"name one of them" in several, several)
        p.env["WARREN_HOST"] = "unix:/nonexistent/socket"
        service = p.warren("diff", "no-such-work", status=125).stderr
        ok(b"there is no work 'no-such-work': no service at unix:/nonexistent/socket" in service, service)
        both = p.warren("diff", "--stat", "--json", status=125).stderr
        ok(b"--stat" in both and b"--json" in both, both)


@test
@needs_root
def paths_need_no_work_before_them_if_there_is_only_one():
    with project() as p:
        for name in ("a", "src/b", "w"):
            p.put(name, b"1\n")
        p.env["WARREN_HOST"] = "unix:/nonexistent/socket"
        p.work("echo 2 >a; echo 2 >src/b; echo 2 >src/new; rm w; echo 2 >x", name="w")
        names = [p.warren("diff", "--name-only", *words).stdout for words in (("src",), ("--", "src"), ("a", "src/new"), ("w", "a"), ("w",))]
        eq(names, [b"src/b\nsrc/new\n", b"src/b\nsrc/new\n", b"a\nsrc/new\n", b"a\n", b"a\nsrc/b\nsrc/new\nw\nx\n"],
           "'w' is the work, not the file")
        eq(p.warren("diff", "--name-only", "b", "new", cwd=f"{p.path}/src").stdout, b"src/b\nsrc/new\n")
        ok(b"no service" in p.warren("diff", "y", status=125).stderr, "control: neither a work nor a path")
        ok(b"there is no work 'y'" in p.warren("accept", "y", status=125).stderr, "the same for accept")
        p.warren("accept", "x")
        p.warren("reject", "src/new")
        eq((p.get("x"), p.get("a"), p.warren("diff", "--name-only").stdout), (b"2\n", b"1\n", b"a\nsrc/b\nw\n"))
        p.work("echo 3 >a", name="other")
        ok(b"there is no work 'a'" in p.warren("accept", "a", status=125).stderr, "there are two works")


@test
@needs_root
def a_reader_that_stops_is_not_an_error():
    with project() as p:
        wid = p.work("seq 200000 >big")
        out = p.sh(f"{shlex.quote(WARREN)} diff {wid} | head -n 3; echo $?")
        ok(out.startswith(b"diff --git a/big b/big\n"), out)


@test
@needs_root
def a_project_can_be_a_part_of_a_repository():
    def names(p, wid):
        return [c["path"] for c in json.loads(p.warren("diff", wid, "--json").stdout)["changes"] if not c["ignored"]]

    with project() as p:
        p.put("a", b"1\n")
        p.put("kept.o", b"1\n")
        p.put("d/x", b"1\n")
        p.sh("printf '*.o\\n/p/top.txt\\ntarget/\\n!p/d/shown.o\\n/other/p\\n' >.gitignore; git init -q; echo '*.mine' >.git/info/exclude; "
             "git add -f p .gitignore; git commit -qm one", cwd=p.top)
        wid = p.work("echo 2 >a; echo 2 >kept.o; for f in n.o top.txt d/top.txt d/shown.o k.mine; do echo 2 >$f; done; "
                     "mkdir target; echo 2 >target/f", name="sub")
        eq(names(p, wid), ["a", "d/shown.o", "d/top.txt", "kept.o"])
        found = p.warren("diff", wid, "--patch")
        ok(b"git apply '--directory=p'" in found.stderr, found)
        p.sh("git apply --check --directory=p", data=found.stdout)
        p.sh("git apply --directory=p", data=found.stdout)
        eq((p.get("a"), p.get("d/shown.o")), (b"2\n", b"2\n"))
        p.sh("git checkout -q .; rm d/shown.o d/top.txt")
        p.warren("accept", wid)
        eq(sorted(os.listdir(p.path)), ["a", "d", "kept.o"], "what is ignored is not accepted")
        p.warren("accept", wid, "--ignored")
        eq(sorted(os.listdir(p.path)), ["a", "d", "k.mine", "kept.o", "n.o", "target", "top.txt"])
        # A control: in a repository that ignores the whole project, nothing is ignored.
        p.sh("echo /p/ >.gitignore", cwd=p.top)
        wid = p.work("echo 2 >new.o; echo 2 >b", name="none")
        eq(names(p, wid), ["b", "new.o"])
        p.sh("git init -q")  # and in its own repository, only that counts
        p.sh("echo '*' >.gitignore", cwd=p.top)
        found = p.warren("diff", wid, "--patch")
        eq(found.stderr.count(b"--directory"), 0)
        eq(names(p, wid), ["b", "new.o"])


if __name__ == "__main__":
    sys.exit(run_tests())
