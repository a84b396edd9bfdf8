#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-work-review.py - changes are accepted and rejected, as a whole or hunk by hunk with real keys

Prints TAP. $WARREN is the program (default build/warren).
"""
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import WARREN, eq, needs_root, ok, run_tests, test  # pylint: disable=wrong-import-position
from review_world import project, tree  # pylint: disable=wrong-import-position

OLD = [b"line %d\n" % i for i in range(1, 61)]


def numbered(**changed):
    """The lines of the file, some of which are replaced: {"l7": "seven"}."""
    return b"".join(changed.get(f"l{i}", line.decode()[:-1]).encode() + b"\n" for i, line in enumerate(OLD, 1))


def three_hunks(p, more=""):
    p.put("a", numbered())
    return p.work(f"sed -i 's/^line 7$/seven/; s/^line 9$/nine/; s/^line 30$/thirty/; s/^line 50$/fifty/' a; {more}")


def keys(p, wid, typed, command="accept", status=0):
    """Types keys with Enter, each when it is asked for, and returns what was on the terminal."""
    seen = b""
    with p.terminal(command, wid, "--hunks") as t:
        for key in typed:
            seen += t.expect(rb".*\?\]\? ?").group()
            t.type(key.encode() + b"\r")
        eq(t.wait(), status, t.seen)
        t.restored()
        return seen + t.seen


@test
@needs_root
def all_changes_are_accepted_or_rejected():
    with project() as p:
        p.put("a", b"1\n")
        p.put("gone", b"2\n")
        p.git()
        wid = p.work("echo 3 >>a; rm gone; mkdir d; echo 4 >d/new; chmod +x d/new")
        ok(b"3 changes accepted" in p.warren("accept", wid).stdout, "it says how many")
        eq((p.get("a"), p.get("d/new"), os.path.exists(f"{p.path}/gone")), (b"1\n3\n", b"4\n", False))
        ok(os.access(f"{p.path}/d/new", os.X_OK), "the executable bit")
        eq(p.works(), [], "nothing was left to decide")
        before = tree(p.path)
        wid = p.work("echo 5 >>a; rm d/new; echo 6 >other", name="second")
        out = p.warren("reject", "second", "a").stdout
        ok(b"1 change rejected" in out and b"2 changes are left" in out, out)
        eq(json.loads(p.warren("reject", wid, "--json").stdout), {"id": wid, "rejected": 2, "remaining": 0, "removed": True})
        eq(p.works(), [])
        eq(tree(p.path), before)
        p.work("echo 7 >>a")
        found = json.loads(p.warren("accept", "--json").stdout)
        eq((found["accepted"], found["merged"], found["conflicts"]), (1, 0, []))
        ok(b"no changes to decide on" in p.warren("accept", status=125).stderr, "there is no work")


@test
@needs_root
def changes_of_the_user_are_merged_or_reported():
    with project() as p:
        p.put("a", numbered())
        p.git()
        p.work("sed -i 's/^line 7$/seven/' a; echo new >b")
        p.put("a", numbered(l50="mine"))
        ok(b"merged" in p.warren("accept").stdout, "a merge")
        eq(p.get("a"), numbered(l7="seven", l50="mine"))
        p.git()
        wid = p.work("sed -i 's/^seven$/7/' a; echo more >>b")
        p.put("a", numbered(l7="my seven", l50="mine"))
        refused = p.warren("accept", wid, status=1)
        ok(b"conflict: a: " in refused.stderr and b"--conflicts" in refused.stderr, refused)
        eq(p.get("b"), b"new\n", "all or nothing")
        found = json.loads(p.warren("accept", wid, "--json", status=1).stdout)
        eq((found["accepted"], [c["path"] for c in found["conflicts"]]), (0, ["a"]))
        p.warren("accept", wid, "--conflicts", "skip", status=1)
        eq((p.get("b"), p.get("a")), (b"new\nmore\n", numbered(l7="my seven", l50="mine")))
        p.warren("accept", wid, "--conflicts", "theirs")
        eq(p.get("a"), numbered(l7="7", l50="mine"))


@test
@needs_root
def what_needs_permission_is_left_and_named():
    with project() as p:
        p.put("a", b"1\n")
        p.put(".gitignore", b"*.log\n")
        p.git()
        wid = p.work("echo 2 >a; echo x >b.log; echo evil >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; ln -s /etc/passwd out")
        said = p.warren("accept", wid).stderr
        for piece in (b"--ignored", b"--allow git", b"--allow link"):
            ok(piece in said, f"{piece}: {said}")
        eq(p.get("a"), b"2\n")
        pipe = p.warren("diff", p.work("mkfifo pipe; ln -s /etc/passwd other", name="pipe"), "--stat").stdout
        ok(b"[can never be accepted]" in pipe and b"--allow link" in pipe and b"--allow device" not in pipe, pipe)
        for path in ("b.log", ".git/hooks/pre-commit", "out"):
            ok(not os.path.lexists(f"{p.path}/{path}"), path)
        p.warren("accept", wid, "--ignored", "b.log")
        p.warren("accept", wid, "--allow", "link", "out")
        eq((p.get("b.log"), os.readlink(f"{p.path}/out")), (b"x\n", "/etc/passwd"))
        wrong = p.warren("accept", wid, "--allow", "everything", status=125).stderr
        ok(b"--allow" in wrong, wrong)


@test
@needs_root
def a_hidden_file_of_the_user_is_never_replaced_silently():
    for script, now in (("echo x >>.env", b"x\n"), ("touch .env", b"")):
        with project() as p:
            p.put(".env", b"S=1\n", 0o600)
            p.put("key.pem", b"-----BEGIN PRIVATE KEY-----\n")
            p.git()
            p.warren("work", "-q", "--keep", "--name", "w", p.path, "--", "sh", "-c", f"{script}; echo 1 >.env.local; echo 2 >a")
            rows = p.warren("diff", "w", "--stat").stdout.splitlines()
            eq([(b"[needs --allow hidden]" in r, b"[you have a file there]" in r) for r in rows[:3]],
               [(True, True), (False, False), (False, False)], rows)
            ok(b"[you have a file there]" in p.warren("diff", "w").stdout, "a diff says it, too")
            eq([c["changed_by_user"] for c in json.loads(p.warren("diff", "w", "--json").stdout)["changes"]], [True, False, False])
            patch = p.warren("diff", "w", "--patch")
            ok(b".env.local" in patch.stdout and b"a/.env b/.env\n" not in patch.stdout and b"1 change is not shown" in patch.stderr, patch)
            refused = p.warren("accept", "w", "--allow", "hidden", status=1)
            ok(b"conflict: .env: you and the sandbox added different files" in refused.stderr, refused)
            eq((p.get(".env"), os.path.exists(f"{p.path}/a")), (b"S=1\n", False))
            with p.terminal("accept", "w", "--allow", "hidden", "--hunks") as t:
                t.expect(rb"\.env: added, and you have a file there.*\?\]\? ")
                t.type(b"y\r")
                for _ in range(2):
                    t.expect(rb"\?\]\? ")
                    t.type(b"n\r")
                eq(t.wait(), 1, t.seen)
            p.warren("accept", "w", "--allow", "hidden", "--conflicts", "skip", status=1)
            eq((p.get(".env"), p.get("a"), p.get(".env.local")), (b"S=1\n", b"2\n", b"1\n"))
            p.warren("accept", "w", "--allow", "hidden", "--conflicts", "theirs")
            eq((p.get(".env"), os.stat(f"{p.path}/.env").st_mode & 0o777), (now, 0o600))


@test
@needs_root
def credentials_that_were_not_shown_stay_in_the_configuration():
    for mode in ("overlay", "copy"):
        with project() as p:
            p.git()
            p.sh("git remote add origin https://u:token@example.com/r.git")
            p.warren("work", "-q", "--keep", "--mode", mode, "--name", "w", p.path, "--", "sh", "-c",
                     "grep -q token .git/config && exit 9; git config my.key v")
            shown = p.warren("diff", "w").stdout
            ok(b"+[my]" in shown and b"-\turl" not in shown, shown)
            p.warren("accept", "w", "--allow", "git")
            eq(p.sh("git remote get-url origin; git config my.key"), b"https://u:token@example.com/r.git\nv\n", mode)
            p.warren("work", "-q", "--keep", "--mode", mode, "--name", "x", p.path, "--", "git", "remote", "set-url", "origin", "https://other")
            ok(b"conflict: .git/config" in p.warren("accept", "x", "--allow", "git", status=1).stderr, "a control: the same line")


@test
@needs_root
def accepting_other_names_of_the_configuration_keeps_credentials():
    for mode in ("overlay", "copy"):
        for script, added in (("touch name other", b""), ("git config -f name my.key v; touch other", b"v\n")):
            with project() as p:
                p.git()
                p.sh("git remote add origin https://u:token@example.com/r.git; git config z.z z; ln .git/config name; echo 1 >other")
                p.warren("work", "-q", "--keep", "--mode", mode, "--name", "w", p.path, "--", "sh", "-ec",
                         f"! grep token name; {script}; echo 2 >other")
                shown = p.warren("diff", "w").stdout
                ok(b"+2" in shown and b"-\turl" not in shown and (b"+[my]" in shown) == bool(added), shown)
                p.warren("accept", "w")
                eq(p.sh("git config -f name remote.origin.url; git config -f name my.key || :; cat other"),
                   b"https://u:token@example.com/r.git\n" + added + b"2\n", f"{mode}: {script}")


@test
@needs_root
def the_reflog_is_shown_without_passwords_and_keeps_them():
    for mode in ("overlay", "copy"):
        with project() as p:
            p.git()
            p.sh("git update-ref -m 'pull https://u:token@h/r: Fast-forward' HEAD HEAD")
            p.warren("work", "-q", "--keep", "--mode", mode, "--name", "w", p.path, "--", "sh", "-ec",
                     "! grep -r token .git/logs; git reflog -1 | grep -q 'pull https://h/r: Fast-forward'; git update-ref -m mine HEAD HEAD; echo 2 >new")
            p.warren("accept", "w", "--allow", "git")
            eq((p.sh("git reflog -1 --format=%gs"), p.sh("cat new")), (b"pull https://u:token@h/r: Fast-forward\n", b"2\n"), mode)


@test
@needs_root
def hunks_are_chosen_with_the_keys_of_git_add():
    seven, all_four = {"l7": "seven", "l9": "nine"}, {"l7": "seven", "l9": "nine", "l30": "thirty", "l50": "fifty"}
    for typed, wanted in (("yny", {**seven, "l50": "fifty"}), ("nyn", {"l30": "thirty"}), ("a", all_four), ("d", {}),
                          ("yq", seven), ("q", {}), ("synd", {"l7": "seven"}), ("snyd", {"l9": "nine"}),
                          ("JyKay", all_four), ("jyyn", {"l30": "thirty", "l50": "fifty"}), ("JJyKnn", {"l50": "fifty"}),
                          ("?xyd", seven), ("kKyd", seven), ("ynKkyn", {**seven, "l30": "thirty"})):
        with project() as p:
            wid = three_hunks(p)
            seen = keys(p, wid, typed)
            eq(p.get("a"), numbered(**wanted), f"{typed}: {seen}")
            eq(bool(p.works()), wanted != all_four, "the rest is kept")
            if p.works():
                p.warren("accept", wid)
                eq(p.get("a"), numbered(**all_four), f"{typed}, and then the rest")


@test
@needs_root
def hunks_are_rejected_searched_numbered_and_edited():
    with project() as p:
        wid = three_hunks(p)
        ok(b"Reject this hunk" in keys(p, wid, "nyn", command="reject"), "the question")
        p.warren("accept", wid)
        eq(p.get("a"), numbered(l7="seven", l9="nine", l50="fifty"))
        wid = three_hunks(p)
        with p.terminal("accept", wid, "-p") as t:
            t.expect(rb"\(1/3\) Accept this hunk \[y,n,q,a,d,v,j,J,g,/,s,e,\?\]\? ")
            t.type(b"/\r")
            t.expect(rb"expression\): ")
            t.type(b"fif+ty\r")
            t.expect(rb"\+fifty.*\(3/3\) ")
            t.type(b"y\r")
            t.expect(rb"\(1/3\) ")
            t.type(b"g\r")
            t.expect(rb"Go to which hunk\? ")
            t.type(b"2\r")
            t.expect(rb"\+thirty.*\(2/3\) ")
            t.type(b"\x1b[A\r\n q\r")  # an arrow key, and keys that mean nothing
            eq(t.wait(), 0, t.seen)
        eq(p.get("a"), numbered(l50="fifty"))
        with open(f"{p.top}/editor", "w", encoding="ascii") as f:
            f.write("#!/bin/sh\nsed -i '/^+seven/d; s/^-line 7/ line 7/; s/^+nine/+NINE/' \"$1\"\n")
        os.chmod(f"{p.top}/editor", 0o755)
        p.env["EDITOR"] = f"{p.top}/editor"
        keys(p, wid, "ed")
        eq(p.get("a"), numbered(l9="NINE", l50="fifty"))
    with project() as p:
        wid = three_hunks(p)
        for editor, reason in (("sed -i 's/^ line/ other/'", b"The hunk is as before"), ("false", b"The hunk is as before"),
                               ("sed -i 's/^ line/?line/'", b"must begin with")):
            p.env["EDITOR"] = editor
            ok(reason in keys(p, wid, "eq"), editor)
        eq(p.get("a"), numbered())


def editor(p, script):
    with open(f"{p.top}/editor", "w", encoding="ascii") as f:
        f.write(f"#!/bin/sh\nsed -i '{script}' \"$1\"\n")
    os.chmod(f"{p.top}/editor", 0o755)
    p.env["EDITOR"] = f"{p.top}/editor"


@test
@needs_root
def the_editor_is_the_one_that_git_uses():
    def script(p, name):
        with open(f"{p.top}/{name}", "w", encoding="ascii") as f:
            f.write(f"#!/bin/sh\necho {name} >>{p.top}/ran\nsed -i 's/^+seven/+{name}/' \"$1\"\n")
        os.chmod(f"{p.top}/{name}", 0o755)
        return f"{p.top}/{name}"

    order = ["GIT_EDITOR", "core.editor", "VISUAL", "EDITOR", "vi"]
    for i, used in enumerate(order):
        with project() as p:
            p.put("a", numbered())
            p.git()
            p.sh(f"git config core.editor {script(p, 'repository')}")
            wid = p.work("sed -i 's/^line 7$/seven/' a")
            p.env["PATH"] = f"{p.top}:{p.env['PATH']}"
            for name in order[i:]:
                path = script(p, name)
                if name == "core.editor":
                    p.env["GIT_CONFIG_GLOBAL"] = f"{p.top}/gitconfig"
                    with open(f"{p.top}/gitconfig", "w", encoding="ascii") as f:
                        f.write(f"[core]\n\teditor = {path}\n")
                elif name != "vi":
                    p.env[name] = path
            keys(p, wid, "e")
            with open(f"{p.top}/ran", encoding="ascii") as f:
                eq(f.read(), f"{used}\n", "it alone was run")
            eq(p.get("a"), numbered(l7=used))


@test
@needs_root
def an_edited_hunk_is_decided():
    with project() as p:
        p.put("a", numbered())
        p.git()
        wid = p.work("sed -i 's/^line 7$/seven/' a")
        editor(p, "s/^+seven/+SEVEN/")
        keys(p, wid, "e")
        eq((p.get("a"), p.works()), (numbered(l7="SEVEN"), []), "nothing is left")
    for answers, mine, then in (("ed", {}, {"l7": "SEVEN", "l9": "nine"}), ("eyd", {}, {"l7": "SEVEN", "l9": "nine", "l30": "thirty"}),
                                ("ned", {}, {"l30": "THIRTY"}), ("ed", {"l40": "mine"}, {"l7": "SEVEN", "l9": "nine"}),
                                ("yKed", {}, {"l7": "SEVEN", "l9": "nine"})):
        with project() as p:
            wid = three_hunks(p)
            if mine:
                p.put("a", numbered(**mine))
            editor(p, "s/^+seven/+SEVEN/; s/^+thirty/+THIRTY/")
            seen = keys(p, wid, answers)
            eq(p.get("a"), numbered(**mine, **then), f"{answers}: {seen}")
            shown = p.warren("diff", wid).stdout
            ok(b"SEVEN" not in shown and b"THIRTY" not in shown, shown)
            p.warren("accept", wid)
            rest = {"l7": "seven", "l9": "nine", "l30": "thirty", "l50": "fifty", **then, **mine}
            eq((p.get("a"), p.works()), (numbered(**rest), []), answers)
    with project() as p:  # controls: an edit that leaves nothing to accept decides nothing, and the mode stays open
        wid = three_hunks(p, "chmod +x a")
        editor(p, "/^+/d; s/^-/ /")
        keys(p, wid, "eyy")
        ok(b"+seven" in p.warren("diff", wid).stdout, "it is still there")
        editor(p, "s/^+nine/+NINE/")
        keys(p, wid, "e")
        eq((p.get("a"), os.access(f"{p.path}/a", os.X_OK)), (numbered(l7="seven", l9="NINE", l30="thirty", l50="fifty"), False))
        p.warren("accept", wid)
        eq((p.get("a"), os.access(f"{p.path}/a", os.X_OK)), (numbered(l7="seven", l9="NINE", l30="thirty", l50="fifty"), True))
        wid = p.work("sed -i 's/^nine$/9/; s/^seven$/7/' a", name="r")
        ok(b"Only hunks that are accepted" in keys(p, wid, "en", command="reject"), "an edited hunk cannot be rejected in part")


@test
@needs_root
def files_of_all_kinds_are_chosen():
    with project() as p:
        p.put("bin", b"\0" * 10)
        p.put("gone", b"1\n")
        p.put("run", b"#!\n")
        p.put("old", b"a file that moves\n" * 9)
        name = "-n \x1b[31m\n'\"ä"
        wid = p.work(f"printf 'x\\0' >bin; rm gone; chmod +x run; mv old moved; echo 2 >{shlex.quote('./' + name)}; mkdir empty; ln -s run link")
        seen = keys(p, wid, "y" * 7)
        ok(b"\x1b" not in re.sub(rb"\x1b\[\?2004[hl]", b"", seen) and b"Binary contents: 10B -> 2B" in seen and b"now executable" in seen and b"(from old)" in seen, seen)
        eq((p.get("bin"), p.get(name), os.readlink(f"{p.path}/link"), os.listdir(f"{p.path}/empty")), (b"x\0", b"2\n", "run", []))
        ok(os.access(f"{p.path}/run", os.X_OK) and not os.path.exists(f"{p.path}/gone") and not os.path.exists(f"{p.path}/old"), "run, gone, old")
        eq(p.works(), [])


@test
@needs_root
def an_interruption_changes_nothing():
    def interrupt(how):
        with project() as p:
            wid = three_hunks(p)
            t = p.terminal("accept", wid, "-p")
            t.expect(rb"\(1/3\) ")
            t.type(b"y\r")
            t.expect(rb"\(2/3\) ")
            how(t)
            status = t.p.wait(20)
            ok(status != 0, status)
            eq((p.get("a"), len(p.works())), (numbered(), 1))
            p.warren("accept", wid)
            eq(p.get("a"), numbered(l7="seven", l9="nine", l30="thirty", l50="fifty"))
            return t

    for typed in (b"\x03", b"\x04"):
        with interrupt(lambda t, typed=typed: t.type(typed)) as t:
            t.restored()
    for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
        with interrupt(lambda t, sig=sig: t.p.send_signal(sig)) as t:
            if sig != signal.SIGKILL:
                t.restored()
    interrupt(lambda t: (os.close(t.master), os.close(t.slave)))  # the terminal dies


@test
@needs_root
def a_resize_and_a_stop_do_no_harm():
    with project() as p:
        wid = three_hunks(p)
        with p.terminal("accept", wid, "-p") as t:
            t.expect(rb"\(1/3\) ")
            t.resize(10, 40)
            t.type(b"y\r")
            t.expect(rb"\(2/3\) ")
            t.p.send_signal(signal.SIGSTOP)
            time.sleep(0.1)
            t.p.send_signal(signal.SIGCONT)
            t.type(b"d\r")
            eq(t.wait(), 0, t.seen)
            t.restored()
        eq(p.get("a"), numbered(l7="seven", l9="nine"))
        refused = p.warren("accept", wid, "--hunks", status=125).stderr
        ok(b"a terminal is needed" in refused, refused)


@test
@needs_root
def a_patch_and_accept_have_the_same_effect():
    r = random.Random(8)
    names = ["plain", "with space", "-dash", 'q"uote', "back\\slash", "new\nline", "ä€", "esc\x1b[31m"]
    for _ in range(3):
        with project() as p:
            for i in range(40):
                p.put(f"{i % 5}/{i}{r.choice(names)}", r.choice((b"", b"one\n" * 9, r.randbytes(300), b"x", numbered())), r.choice((0o644, 0o755)))
            files = [os.path.relpath(os.path.join(d, f), p.path) for d, _, fs in os.walk(p.path) for f in fs]
            script = []
            for f in r.sample(files, 30):
                q = shlex.quote(f"./{f}")
                script.append(r.choice((
                    f"echo {r.random()} >>{q}", f"rm {q}", f"chmod +x {q}", f"mv {q} {q}.moved", f"rm {q}; ln -s to {q}",
                    f"head -c 500 /dev/urandom >{q}", f"sed -i '2d;30s/.*/changed/' {q}", f"printf 'no end' >>{q}",
                    f"mkdir -p {q}.d/e; echo {r.random()} >{q}.d/e/f")))
            os.mkdir(f"{p.top}/applied")
            wid = p.work("\n".join(script))
            p.sh(f"cp -a . {p.top}/applied")
            p.sh("git apply --whitespace=nowarn", cwd=f"{p.top}/applied", data=p.warren("diff", wid, "--patch").stdout)
            p.warren("accept", wid)
            eq(tree(p.path), tree(f"{p.top}/applied"), script)


def at_exit(p, *steps, script="sed -i 's/^line 7$/seven/; s/^line 50$/fifty/' a; echo 1 >new; echo 2 >x.log"):
    """Runs a command on the project, answers the questions after it, and returns what was on the terminal."""
    seen = b""
    with p.terminal("work", p.path, "--", "sh", "-c", script) as t:
        for pattern, typed in steps:
            seen += t.expect(rb".*?" + pattern).group()
            t.type(typed if typed in (b"\x03", b"\x04") else typed + b"\r")
        eq(t.wait(), 130 if steps and steps[-1][1] == b"\x03" else 0, t.seen)
        t.restored()
        return seen + t.seen


MENU = rb"\[a,r,c,(?:i,)?v,k,\?\]\? "


@test
@needs_root
def after_a_command_the_user_decides():
    with project() as p:
        p.put("a", numbered())
        p.put(".gitignore", b"*.log\n")
        both = numbered(l7="seven", l50="fifty")
        seen = at_exit(p, (MENU, b"?"), (MENU, b"v"), (rb"\+fifty.*" + MENU, b"k"))
        ok(b" M a " in seen and b" A new " in seen and b"ignored x.log" in seen and b"1 added, 1 modified" in seen, seen)
        ok(b"the changes are kept" in seen and b"warren accept" in seen, seen)
        eq((p.get("a"), len(p.works())), (numbered(), 1))
        p.warren("reject", p.works()[0])
        seen = at_exit(p, (MENU, b"r"), (rb"\[y,n\]\? ", b"n"), (MENU, b"r"), (rb"\[y,n\]\? ", b"y"))
        eq((p.get("a"), p.works(), os.path.exists(f"{p.path}/new")), (numbered(), [], False), seen)
        seen = at_exit(p, (MENU, b"c"), (rb"\(1/2\) ", b"y"), (rb"\(2/2\) ", b"n"), (rb"\(1/1\) ", b"n"), (MENU, b"a"), (MENU, b"q"))
        eq((p.get("a"), p.get("new"), len(p.works())), (both, b"1\n", 1), seen)
        ok(b"1 ignored file is left" in seen, seen)
        p.warren("accept", p.works()[0], "--ignored")
        eq((p.get("x.log"), p.works()), (b"2\n", []))
        ok(b"accept all" not in at_exit(p, script="cat a"), "without a change, there is no question")
        eq(p.works(), [])


GUARDED = ("echo hook >.git/hooks/pre-push; chmod +x .git/hooks/pre-push; printf '[x]\\n' >>.git/config; ln -s /etc/passwd l; "
           "cp /bin/true t; chmod 4755 t; echo 1 >z")


@test
@needs_root
def what_needs_permission_is_not_chosen_by_habit():
    with project() as p:
        p.put("a", b"1\n")
        p.git()
        config = p.get(".git/config")
        wid = p.work(GUARDED)
        seen = keys(p, wid, "yy")  # t, z
        eq((os.stat(f"{p.path}/t").st_mode & 0o7777, p.get("z"), p.get(".git/config")), (0o755, b"1\n", config), seen)
        ok(not os.path.lexists(f"{p.path}/l") and not os.path.exists(f"{p.path}/.git/hooks/pre-push"), seen)
        for name in (b"git", b"set-id", b"link"):
            ok(b"warren accept " + wid.encode() + b" --allow " + name in seen, seen)
        with p.terminal("accept", wid, "-p", "--allow", "git", "--allow", "link", "--allow", "set-id") as t:
            for name, key in ((rb"config", b"n"), (rb"pre-push", b"y"), (rb"\bl", b"y"), (rb"\bt", b"y")):
                t.expect(name + rb": .*Accept this (change|hunk) \[y,n,.*\]\? ")
                t.type(key + b"\r")
            eq(t.wait(), 0, t.seen)
        eq((p.get(".git/hooks/pre-push"), os.readlink(f"{p.path}/l"), os.stat(f"{p.path}/t").st_mode & 0o7777), (b"hook\n", "/etc/passwd", 0o4755))
        ok(b"Careful" in keys(p, wid, "y", command="reject"), "a control: what is rejected needs no permission")
        eq((p.get(".git/config"), p.works()), (config, []))


@test
@needs_root
def the_review_asks_for_permissions_by_their_names():
    with project() as p:
        p.put("a", b"1\n")
        p.git()
        config = p.get(".git/config")
        blocked = rb"type 'git' instead.*"
        seen = at_exit(p, (MENU, b"c"), (rb"config: .*hunk \[git,n,q,d,v.*\?\]\? ", b"y"), (blocked + rb"\?\]\? ", b"a"), (blocked + rb"\?\]\? ", b"e"),
                       (blocked + rb"\?\]\? ", b"gi"), (rb"\?\]\? ", b"link"), (rb"\?\]\? ", b"?"), (rb"git - Accept.*\?\]\? ", b"n"),
                       (rb"pre-push: .*\[git,n,q,d,v,\?\]\? ", b" git "), (rb"l: .*\[link,n,q,d,v,\?\]\? ", b"git"), (rb"\?\]\? ", b"n"),
                       (rb"t: .*\[y,set-id,n,q,a,d,v,\?\]\? ", b"y"), (rb"u: .*\[y,set-id,n,q,a,d,v,\?\]\? ", b"set-id"),
                       (rb"z: .*\[y,n,q,a,d,v,\?\]\? ", b"y"), (MENU, b"c"), (rb"config: .*\?\]\? ", b"n"), (rb"l: .*\?\]\? ", b"link"),
                       (rb"t: mode.*\[set-id,n,q,d,v,\?\]\? ", b"y"), (rb"set-id' instead.*\?\]\? ", b"n"), (MENU, b"q"), script=GUARDED + "; cp -p t u")
        eq((p.get(".git/config"), p.get(".git/hooks/pre-push"), os.readlink(f"{p.path}/l"), p.get("z")), (config, b"hook\n", "/etc/passwd", b"1\n"), seen)
        eq((os.stat(f"{p.path}/t").st_mode & 0o7777, os.stat(f"{p.path}/u").st_mode & 0o7777), (0o755, 0o4755), "each file has its own permission")


@test
@needs_root
def ignored_files_are_chosen_with_a_key():
    with project() as p:
        p.put(".gitignore", b"*.log\nout/\nin/\n")
        p.git()
        menu = rb"\[i\]gnored files, .*\[a,r,c,i,v,k,\?\]\? "
        seen = at_exit(p, (menu, b"?"), (rb"i - choose among.*" + menu, b"i"), (rb"in/: added.*A directory: 1 file.*\?\]\? ", b"n"),
                       (rb"out/: added.*A directory: 2 files; v lists them.*\?\]\? ", b"v"), (rb"A\tout/d/y\r?\nA\tout/x\r?\n.*\?\]\? ", b"y"),
                       (rb"x\.log: .*\?\]\? ", b"y"), (rb"y\.log: .*\?\]\? ", b"n"), (rb"ignored y\.log.*" + menu, b"c"),
                       (rb"a: added.*\(1/1\) ", b"y"), (menu, b"k"),
                       script="mkdir -p out/d in; echo 1 | tee out/x out/d/y in/x x.log y.log >a")
        eq((p.get("out/x"), p.get("out/d/y"), p.get("x.log"), p.get("a")), (b"1\n",) * 4, seen)
        eq((os.path.exists(f"{p.path}/in"), os.path.exists(f"{p.path}/y.log")), (False, False), seen)
        ok(b"[i]gnored" not in at_exit(p, (MENU, b"k"), script="echo 2 >a"), "a control: without any, there is no such key")


@test
@needs_root
def an_interrupted_review_keeps_everything():
    with project() as p:
        p.put("a", numbered())
        for typed in (b"\x03", b"\x04"):
            seen = at_exit(p, (MENU, b"c"), (rb"\(1/2\) ", b"y"), (rb"\(2/2\) ", typed))
            ok(b"the changes are kept" in seen, seen)
        for sig in (signal.SIGHUP, signal.SIGTERM, signal.SIGKILL):
            with p.terminal("work", p.path, "--", "sh", "-c", "echo 1 >b") as t:
                t.expect(MENU)
                t.p.send_signal(sig)
                t.p.wait(20)
        eq((p.get("a"), len(p.works()), os.path.exists(f"{p.path}/b")), (numbered(), 5, False))
        for wid in p.works():
            p.warren("diff", wid)
            p.warren("reject", wid)
        eq(p.works(), [])


@test
@needs_root
def keys_typed_for_the_command_are_not_answers():
    with project() as p:
        with p.terminal("work", p.path, "--", "sh", "-c", "echo 1 >b; echo ready; sleep 1") as t:
            t.expect(rb"ready")
            t.type(b"aaaa")
            t.expect(MENU)
            ok(not os.path.exists(f"{p.path}/b"), "nothing was accepted")
            t.type(b"a\r")
            eq(t.wait(), 0)
        eq(p.get("b"), b"1\n")


# What a terminal sends unasked, or for keys without a character; all contain letters that are answers.
SEQUENCES = (b"\x1b[Maaa", b"\x1b[M\raa", b"\x1b[<35;10;10M", b"\x1bP>|tmux 3.3a\ra\r\x1b\\", b"\x1b]10;rgb:aa\r\x07",
             b"\x1b]l\xc3\x9c a\r\x1b\\", b"\x1b_a\ra\r\x1b\\", b"\x1b^a\r\x1b\\", b"\x1bXa\r\x1b\\", b"\x1bOa", b"\x1b[[A", b"\x1ba", b"\x1b(a",
             b"\x1b[?62;22c", b"\x1b[0n", b"\xc2\x9b1a", b"\x9d0;a\ra\r\x9c", b"\x90a\r\x9c", b"\xc3\xa4\x7f")


@test
@needs_root
def what_the_terminal_sends_is_not_an_answer():
    with project() as p:
        p.env["TERM"] = "xterm"
        with p.terminal("work", p.path, "--", "sh", "-c", "echo 1 >b; printf '\\033[?1003h'") as t:
            t.expect(rb"1003[^l]*l.*\x1b\[5n")  # the reports of the mouse end
            t.type(b"\x1b[Maaaa\r")
            time.sleep(0.15)
            t.type(b"\x1bP>|tmux 3.3a\x1b\\a\ra\r\x1b[0n")
            t.expect(MENU)
            for sent in SEQUENCES:
                t.type(sent + b"\r")
                t.expect(MENU)
                ok(not os.path.exists(f"{p.path}/b"), sent)
            t.type(b"\x1bP>|tmux 3.3")  # a part of one, which the pause ends
            time.sleep(0.7)
            t.type(b"\r")
            t.expect(MENU)
            for typed in (b"aa\r", b"a\x15\r", b"xa\r"):
                t.type(typed)
                t.expect(MENU)
            t.type(b"a")
            time.sleep(0.2)
            ok(not os.path.exists(f"{p.path}/b"), "Enter is needed")
            t.type(b"\r")
            eq(t.wait(), 0, t.seen)
        eq(p.get("b"), b"1\n")


# What a program could leave: its own colors (also reversed), held output, margins, character sets, another screen, ...
RESETS = ("[!p", "[?2026l", "]104", "]110", "]111", "]112", "]117", "]119", "[?5l", "[?6l", "[?69l", "[r", "[?1049l", "[?7h",
          "[?25h", "[?5W", "[0m", "(B", ")B", "*B", "+B", "_Ga=d", "%G", "[12h")


@test
@needs_root
def nothing_in_the_terminal_outlives_the_command():
    with project() as p:
        for options in ((), ("--keep",), ("--no-sync",)):
            env = {"TERM": "xterm", "LANG": "C.UTF-8"}
            with p.terminal("work", *options, p.path, "--", "sh", "-c", "echo 1 >b; printf '\\033]4;2;rgb:00/00/00\\007end\\033]0;x'",
                            env=env) as t:
                t.expect(rb"end\x1b\]0;x\x18\x1b\\")  # a title that does not end hides nothing
                seen = t.expect(rb".*?\x1b%G").group()
                for want in RESETS:
                    ok(b"\x1b" + want.encode() in seen, f"{want}: {seen}")
                if not options:
                    t.expect(MENU)
                    t.type(b"k\r")
                eq(t.wait(), 0, t.seen)
        with p.terminal("work", "--keep", p.path, "--", "true", env={"TERM": "dumb"}) as t:
            eq((t.wait(), t.seen.count(b"\x1b")), (0, 0))


def tmux(p, script, until):
    """Runs a script in a terminal of tmux, and returns the lines of its screen when @until is there."""
    at = ["tmux", "-u", "-S", f"{p.top}/tmux", "-f", "/dev/null"]
    env = {**p.env, "LANG": "C.UTF-8", "PATH": f"{os.path.dirname(WARREN)}:{p.env['PATH']}"}
    subprocess.run([*at, "new-session", "-d", "-x", "80", "-y", "24", "sh", "-c", f"{script}; sleep 100"], cwd=p.path, env=env, check=True)
    try:
        for _ in range(400):
            screen = subprocess.run([*at, "capture-pane", "-p"], env=env, check=True, capture_output=True).stdout.decode()
            if until in screen:
                return screen.splitlines()
            time.sleep(0.05)
        raise AssertionError(screen)
    finally:
        subprocess.run([*at, "kill-server"], env=env, check=True)


@test
@needs_root
def the_review_comes_after_the_output_of_the_command():
    work = "warren work -q -- sh -c"
    for before, inside in (("", "seq 9"), ("printf '\\033[?1049h\\033[9;9H'; seq 3; printf '\\033[?1049l'; seq 3", "seq 9"),
                           ("seq 5", "seq 9; printf '\\033[?1049h'; seq 3"), ("seq 5", "seq 9; printf '\\033[?47h'; seq 3"),
                           ("seq 30", "seq 9; printf '\\0337\\033[H'; printf '\\0338'")):
        with project() as p:
            lines = tmux(p, f"{before or 'true'}; {work} \"{inside}; touch f\"", "?]?")
            found = [line.rstrip() for line in lines]
            at = found.index("9")
            eq(found[at - 8:at + 1], [str(i) for i in range(1, 10)], found)
            rest = [line for line in found[at + 1:] if line]  # a cursor that the command lost may be lower
            ok(rest[0].startswith(" A f") and "1 added" in rest[1], found)
    with project() as p:
        lines = tmux(p, f"{work} \"printf 'no end of line'; touch f\"", "?]?")
        eq(lines[0], "no end of line")
        ok(lines[1].startswith(" A f"), lines)


@test
@needs_root
def pasted_text_is_not_an_answer():
    with project() as p:
        with p.terminal("work", p.path, "--", "sh", "-c", "echo 1 >b") as t:
            t.expect(rb"\x1b\[5n")
            t.type(b"\x1b[0n")
            t.expect(rb"\x1b\[\?2004h.*" + MENU)
            t.type(b"\x1b[200~foo\na\nbar\r\x1b[2a\r\x1b[201~")
            time.sleep(0.3)
            t.drain()
            ok(MENU[:4] not in t.seen and not os.path.exists(f"{p.path}/b"), t.seen)
            t.type(b"v\r")
            t.expect(rb"\x1b\[\?2004l.*\+1.*\x1b\[\?2004h.*" + MENU)  # not for the pager
            t.type(b"c\r")
            t.expect(rb"\?\]\? ")
            t.type(b"\x1b[200~y\r\x1b[201~n\r")
            t.expect(MENU)
            ok(not os.path.exists(f"{p.path}/b"), "nothing was accepted")
            t.type(b"a\r")
            t.expect(rb"\x1b\[\?2004l")
            eq(t.wait(), 0, t.seen)
        eq(p.get("b"), b"1\n")


@test
@needs_root
def a_conflict_is_decided_at_the_terminal():
    conflict = rb"\[m,s,t,k\]\? "
    for typed, wanted in ((b"t", numbered(l7="seven")), (b"s", numbered(l7="mine")), (b"m", None)):
        with project() as p:
            p.put("a", numbered())
            p.git()
            with p.terminal("work", p.path, "--", "sh", "-c", "sed -i 's/^line 7$/seven/' a; echo 1 >b") as t:
                t.expect(MENU)
                p.put("a", numbered(l7="mine"))
                t.type(b"a\r")
                t.expect(rb"conflict: a.*" + conflict)
                ok(not os.path.exists(f"{p.path}/b"), "all or nothing")
                t.type(typed + b"\r")
                eq(t.wait(), 0, t.seen)
            eq(p.get("b"), b"1\n")
            if wanted:
                eq(p.get("a"), wanted)
            else:
                ok(b"<<<<<<<" in p.get("a") and b"mine" in p.get("a") and b"seven" in p.get("a"), p.get("a"))


@test
@needs_root
def commits_are_accepted_as_a_branch():
    with project() as p:
        p.put("a", b"1\n")
        p.git()
        wid = p.work("echo 2 >a; git -c safe.directory='*' commit -qam two; git -c safe.directory='*' checkout -q -b other", name="agent")
        found = json.loads(p.warren("accept", wid, "--as-commits", "--json").stdout)
        eq((found["id"], found["branch"], found["commits"]), (wid, "warren/agent", 1))
        eq((found["remaining"], found["removed"]), (2, False), "a and .git")
        eq(p.sh("git log --format=%s warren/agent; git status --short"), b"two\none\n")
        eq(p.get("a"), b"1\n")
        eq(len(p.works()), 1)
        p.warren("accept", wid)
        eq(p.works(), [])
        wid = p.work("git -c safe.directory='*' commit -q --allow-empty -m three", name="other")
        found = json.loads(p.warren("accept", wid, "--as-commits", "--json").stdout)
        eq((found["id"], found["commits"], found["remaining"], found["removed"], p.works()), (wid, 1, 0, True, []), found)


@test
@needs_root
def an_editor_that_cannot_be_run_is_named():
    with project() as p:
        wid = three_hunks(p)
        p.env["EDITOR"] = "/nonexistent/editor --wait"
        seen = keys(p, wid, "eq")
        ok(b"'/nonexistent/editor --wait' could not be run" in seen, seen)
        p.env["EDITOR"] = "true"
        ok(b"could not be run" not in keys(p, wid, "eq"), "a control")


@test
@needs_root
def files_with_long_paths_are_named_in_a_refusal():
    git = "git -c safe.directory='*'"
    long = "/".join(["d" * 200] * 6)
    for directory in (long, "short"):
        with project() as p:
            p.put("a", b"1\n")
            p.git()
            wid = p.work(f"mkdir -p {directory}; echo >{directory}/.gitmodules; {git} add -A; {git} commit -qm two")
            q = p.warren("accept", wid, "--as-commits", status=125)
            named = f"'{long[:150]}...'" if directory is long else "'short/.gitmodules'"
            ok(q.stderr.rstrip().endswith(named.encode()), q)


@test
@needs_root
def repositories_are_accepted_as_a_whole_or_not_at_all():
    git = "git -c safe.directory='*'"
    make = f"{git} init -qb main; {git} add .; {git} commit -q --allow-empty -m one; echo x >.git/hooks/pre-push"
    with project() as p:
        p.put("a", b"1\n")
        p.work(f"{make}; {git} init -q --bare bare; mkdir -p d/r; cd d/r; {make}", name="new")
        ok(b"accept it with --allow git" in p.warren("accept", "new", "--as-commits", status=125).stderr, "a new repository")
        ok(b"--allow git" in p.warren("accept", "new", status=125).stderr, "permission")
        eq(os.listdir(p.path), ["a"])
        p.warren("accept", "new", "--allow", "git")
        eq((p.sh("git log --format=%s; git fsck --strict 2>/dev/null; git -C d/r log --format=%s; git -C bare rev-parse --is-bare-repository"),
            p.get(".git/hooks/pre-push"), p.works()), (b"one\none\ntrue\n", b"x\n", []))
    with project() as p:
        p.put("a", b"1\n")
        p.git()
        p.work(f"{git} worktree add -q wt; {git} init -q ../made; {git} -C ../made commit -q --allow-empty -m one; "
               f"{git} -c protocol.file.allow=always submodule --quiet add $PWD/../made sub; rm -rf ../made; {git} config a.b 1; echo 2 >c", name="linked")
        rows = p.warren("diff", "linked", "--stat").stdout
        for path in (b"wt/.git", b"sub/.git", b".git/worktrees/wt/gitdir", b".git/modules/sub/config"):
            ok(re.search(b" A " + re.escape(path) + rb" .*\[a part of a new worktree or submodule is not accepted\]", rows), rows)
        ok(b"repository .git/" in rows and b"[needs --as-commits]" in rows, rows)
        found = p.warren("accept", "linked", "--allow", "git")
        ok(b"add it in the project" in found.stderr, found)
        eq((p.get("c"), os.path.exists(f"{p.path}/.gitmodules"), os.path.exists(f"{p.path}/wt/.git"), os.path.exists(f"{p.path}/.git/modules")),
           (b"2\n", True, False, False))
        p.sh("git fsck --strict 2>/dev/null; git config a.b; git worktree list")


@test
@needs_root
def a_work_ends_when_its_commits_are_merged():
    git = "git -c safe.directory='*'"
    for merge, left in (("--ff-only", b"0 changes"), ("--no-ff", b"1 change")):
        for command in ("reject", "accept"):
            with project() as p:
                p.put("a", b"1\n")
                p.git()
                p.work(f"echo 2 >a; {git} commit -qam two", name="agent")
                p.warren("accept", "agent", "--as-commits")
                p.sh(f"git merge -q {merge} -m m warren/agent")
                out = p.warren(command, "agent").stdout
                eq(p.works(), [], out)
                ok(command == "accept" or left in out, out)


if __name__ == "__main__":
    sys.exit(run_tests())
