#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-work-accept.py - accepting changes: what is interrupted, changed at the same time, or has unusual names

Prints TAP. $WARREN is the program (default build/warren).
"""
import glob
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import WARREN, eq, needs_root, ok, run_tests, test  # pylint: disable=wrong-import-position
from review_world import DRIVE, project  # pylint: disable=wrong-import-position


def half_accepted(p, name=None):
    """Returns a work whose accept was killed after the first of two files."""
    p.put("a", b"1\n")
    p.put("b", b"1\n")
    wid = p.work("echo 2 >a; echo 2 >b", name=name)
    eq(subprocess.run([DRIVE, "killed", wid], env=p.env, check=False).returncode, -signal.SIGKILL)
    eq({p.get("a"), p.get("b")}, {b"1\n", b"2\n"}, "a control: it is half accepted")
    return wid


def undone(p):
    eq((p.get("a"), p.get("b")), (b"1\n", b"1\n"))
    eq([n for n in os.listdir(p.path) if n.startswith(".warren-")], [])


@test
@needs_root
def every_command_finishes_an_accept_that_was_killed_first():
    commands = {"diff": lambda p, wid: ok(p.warren("diff", wid).stdout.count(b"+2\n") == 2, "both changes are shown"),
                "work": lambda p, wid: eq(p.warren("work", "--no-sync", p.path, "--", "cat", "a", "b").stdout, b"1\n1\n"),
                "resume": lambda p, wid: eq(p.warren("work", "--resume", wid, "--", "cat", "a", "b").stdout, b"2\n2\n"),
                "detect": lambda p, wid: p.warren("detect", p.path),
                "setup": lambda p, wid: p.warren("setup", p.path)}
    for name, command in commands.items():
        with project() as p:
            wid = half_accepted(p)
            command(p, wid)
            undone(p)
            p.warren("accept", wid)
            eq((p.get("a"), p.get("b")), (b"2\n", b"2\n"), name)


@test
@needs_root
def commands_about_other_works_of_the_project_finish_it_too():
    with project() as p:
        p.put("d/c", b"1\n")
        other = p.work("echo 2 >d/c", name="other")
        half_accepted(p)
        p.warren("accept", other)
        undone(p)
        eq(p.get("d/c"), b"2\n")
    with project() as p:
        p.put("d/c", b"1\n")
        half_accepted(p)
        eq(p.warren("work", "--no-sync", f"{p.path}/d", "--", "cat", "c").stdout, b"1\n")
        undone(p)
    with project() as p, project() as q:
        q.env = p.env
        q.put("x", b"1\n")
        half_accepted(p)
        eq(q.warren("work", "--no-sync", q.path, "--", "cat", "x").stdout, b"1\n")
        eq({p.get("a"), p.get("b")}, {b"1\n", b"2\n"}, "a control: another project is not looked at")


@test
@needs_root
def an_accept_of_another_process_is_waited_for_or_named():
    with project() as p:
        p.put("a", b"1\n")
        p.put("b", b"1\n")
        wid = p.work("echo 2 >a; echo 2 >b")
        with subprocess.Popen([DRIVE, "stopped", wid], env=p.env) as accept:
            try:
                os.waitid(os.P_PID, accept.pid, os.WSTOPPED | os.WNOWAIT)
                for words in (["diff", wid], ["work", "--no-sync", p.path, "--", "cat", "a"], ["detect", p.path]):
                    q = p.warren(*words, status=125)
                    ok(b"another process is accepting" in q.stderr and not q.stdout, f"{q}")
                with subprocess.Popen([WARREN, "work", "--no-sync", p.path, "--", "cat", "a", "b"],
                                      env=p.env, stdout=subprocess.PIPE) as late:
                    time.sleep(0.3)
                    accept.send_signal(signal.SIGCONT)
                    eq(late.communicate()[0], b"2\n2\n", "it waited")
            finally:
                accept.kill()


@test
@needs_root
def an_accept_that_was_killed_before_it_changed_anything_leaves_nothing():
    for command in (("diff",), ("detect",), ("setup", "-q"), ("work", "--no-setup", "--no-sync", "--", "ls", "-A")):
        with project() as p:
            p.put("a", b"1\n")
            wid = p.work("echo 2 >a")
            for name in (wid, "aaaaaaaaaaaa"):
                os.mkdir(f"{p.path}/.warren-{name}", 0o700)
                p.put(f".warren-{name}/new", b"2\n")
            out = subprocess.run([WARREN, *command], cwd=p.path, env=p.env, capture_output=True, check=False).stdout
            eq((sorted(os.listdir(p.path)), p.get("a")), ([".warren-aaaaaaaaaaaa", "a"], b"1\n"), f"{command}: control: others stay")
            ok(wid.encode() not in out or command == ("diff",), f"{command}: {out}")
            p.warren("accept", wid)
            eq(p.get("a"), b"2\n")


LINES = b"".join(b"%d\n" % i for i in range(1, 61))


@test
@needs_root
def a_file_that_is_edited_while_the_user_chooses_is_not_touched():
    edits = {"moved": lambda text: b"0\n" * 9 + text, "end": lambda text: text + b"61\n", "same": lambda text: text,
             "other": lambda text: b"other\n", "gone": None}
    for command in ("accept", "reject"):
        for name, edit in edits.items():
            for answers in ((b"y", b"n"), (b"y", b"y")):
                with project() as p:
                    p.put("a", LINES)
                    p.put("b", b"1\n")
                    wid = p.work("sed -i 's/^5$/five/; s/^55$/fiftyfive/' a; echo 2 >b")
                    with p.terminal(command, wid, "--hunks") as t:
                        t.expect(rb"\(1/2\) ")
                        if edit:
                            p.put("a", edit(LINES))
                        else:
                            os.unlink(f"{p.path}/a")
                        for answer in (*answers, b"n"):
                            t.type(answer + b"\r")
                            t.expect(rb"\n")
                        status = t.wait()
                    now = p.get("a") if edit else None
                    what = f"{command} {name} {answers}: {status} {t.seen}"
                    if command == "reject" and answers == (b"y", b"y"):
                        eq(now, edit(LINES) if edit else None, what)
                    elif name == "same":
                        ok(status == 0 and (now != LINES) == (command == "accept"), what)
                    else:
                        eq((status, now), (125, edit(LINES) if edit else None), what)
                        ok(b"'a' was changed in the project while you chose" in t.seen, what)
                        ok(b"+five" in p.warren("diff", wid).stdout, "the sandbox's change is kept")


@test
@needs_root
def a_file_that_is_edited_before_the_user_sees_it_is_merged():
    for answers, wanted in ((b"yyy", (b"five", b"fiftyfive")), (b"yny", (b"fiftyfive",)), (b"ynn", ())):
        with project() as p:
            p.put("a", LINES)
            p.put("b", LINES)
            p.git()
            wid = p.work("echo 61 >>a; sed -i 's/^5$/five/; s/^55$/fiftyfive/' b")
            mine = LINES.replace(b"30\n", b"mine\n")
            with p.terminal("accept", wid, "--hunks") as t:
                t.expect(rb"\(1/1\) ")
                p.put("b", mine)
                for i, answer in enumerate(answers):
                    t.type(bytes([answer]) + b"\r")
                    if i == 0:
                        t.expect(rb"b: modified, and you changed it, too")
                    t.expect(rb"\n")
                eq(t.wait(), 0, t.seen)
                ok(b"-mine" not in t.seen, t.seen)
            for word in wanted:
                mine = mine.replace(b"\n5\n" if word == b"five" else b"\n55\n", b"\n" + word + b"\n")
            eq((p.get("a"), p.get("b")), (LINES + b"61\n", mine), answers)


@test
@needs_root
def files_that_git_writes_again_are_not_changes_of_the_user():
    """Branches are changed while a work waits for a decision; only what is different afterwards was changed."""
    for edit, conflicts in ((None, []), ("bin", ["bin"]), ("d/x", ["d/x"])):
        with project() as p:
            p.put("bin", b"1\0")
            p.put("d/x", b"1\n")
            p.put("text", LINES)
            p.git()
            p.sh("git checkout -qb other; echo 2 >>bin; rm -r d; echo 61 >>text; git commit -qam other; git checkout -q -")
            wid = p.work("echo 3 >>bin; rm -r d; sed -i s/^5$/five/ text")
            time.sleep(0.05)
            p.sh("git checkout -q other; git checkout -q -")
            if edit:
                p.put(edit, b"2\0" if edit == "bin" else b"2\n")
            shown = p.warren("diff", "--stat", wid).stdout
            eq(shown.count(b"you changed it, too"), len(conflicts), shown)
            eq([c["path"] for c in json.loads(p.warren("diff", "--json", wid).stdout)["changes"] if c["changed_by_user"]], conflicts)
            q = p.warren("accept", wid, status=1 if edit else 0)
            if edit:
                ok(f"conflict: {edit}".encode() in q.stdout + q.stderr, f"{q}")
                eq(p.get(edit)[:1], b"2")
            else:
                eq((p.get("bin"), os.path.exists(f"{p.path}/d"), b"five\n" in p.get("text")), (b"1\x003\n", False, True))


@test
@needs_root
def new_files_do_not_need_a_process_each():
    """To know whether the user has removed a file, or the sandbox added it, the commit is read once."""
    started = {}
    for n in (1, 50):
        with project() as p:
            for name in ("a", "s p", "d/\xe4", "new\nline"):
                p.put(name, LINES)
            p.git()
            wid = p.work(f"for i in $(seq {n}); do echo $i >$i; done; for f in a 's p' d/\xe4 'new\nline'; do echo 2 >>\"$f\"; done")
            for name in ("a", "s p", "d/\xe4", "new\nline"):
                os.unlink(f"{p.path}/{name}")
            trace = f"{p.top}/trace"
            subprocess.run(["strace", "-f", "-e", "trace=execve", "-o", trace, WARREN, "accept", wid, "--conflicts", "skip"],
                           env=p.env, cwd=p.path, capture_output=True, check=False)
            with open(trace, encoding="utf-8") as f:
                started[n] = f.read().count('git"')
            eq(sorted(name for name in os.listdir(p.path) if name[0] != "."), sorted(["d", *(str(i) for i in range(1, n + 1))]),
               "what the user removed stays a conflict")
            eq(json.loads(p.warren("accept", wid, "--json", status=1).stdout)["accepted"], 0)
    eq(started[1], started[50], "processes of git")
    ok(started[1] > 0, "control: they are counted")


@test
@needs_root
def files_that_were_never_committed_are_merged():
    for repository in (True, False):
        with project() as p:
            if repository:
                p.git()
            p.put("a", LINES)
            p.put(".env", b"SECRET=1\n")
            with subprocess.Popen([WARREN, "work", "--name", "w", p.path, "--", "sh", "-c", "sed -i s/^5$/five/ a; echo up; read x"],
                                  env=p.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as q:
                eq(q.stdout.readline(), b"up\n")
                before = f"{p.top}/state/works/{p.works()[0]}/before"
                deadline = time.monotonic() + 20
                while not os.path.exists(f"{before}/a"):
                    ok(time.monotonic() < deadline, "the file is not kept")
                    time.sleep(0.02)
                eq(os.listdir(before), ["a"], "secrets are not copied")
                p.put("a", LINES.replace(b"55\n", b"fiftyfive\n"))
                q.communicate(b"\n")
            ok(b"merged" in p.warren("accept", "w").stdout, "both have changed it")
            eq(p.get("a"), LINES.replace(b"55\n", b"fiftyfive\n").replace(b"\n5\n", b"\nfive\n"))


@test
@needs_root
def a_resumed_work_begins_with_the_files_of_the_user():
    with project() as p:
        p.put("a", LINES)
        p.git()
        p.put("u", b"u\n")
        run = ["sh", "-c", "cat u; echo ag >>u; sed -i s/^5$/ag/ a; touch new; sed -i 's/.*/&!/' new"]
        p.warren("work", "-q", "--name", "w", "--keep", p.path, "--", "true")
        p.put("u", b"u\nu2\n")
        p.put("a", LINES.replace(b"\n5\n", b"\nuser\n"))
        eq(p.warren("work", "-q", "--resume", "w", "--", *run[:2], run[2].replace("^5$", "^user$")).stdout, b"u\nu2\n")
        p.warren("accept", "w", "a", "u")
        eq((p.get("a"), p.get("u")), (LINES.replace(b"\n5\n", b"\nag\n"), b"u\nu2\nag\n"))
        p.put("a", LINES)
        p.put("u", b"u\nu2\nbetter\n")
        p.warren("work", "-q", "--resume", "w", "--", *run)
        p.warren("accept", "w")
        eq((p.get("a"), p.get("u")), (LINES.replace(b"\n5\n", b"\nag\n"), b"u\nu2\nbetter\nag\n"))
        # A control: a file that the sandbox had changed before keeps its version.
        p.warren("work", "-q", "--name", "x", "--keep", p.path, "--", "sh", "-c", "echo 1 >>u")
        p.put("u", b"u\nu2\nbetter\nbest\n")
        p.warren("work", "-q", "--resume", "x", "--", "true")
        p.warren("accept", "x", status=1)


@test
@needs_root
def a_project_may_have_any_path():
    for name in (b"new\nline", b"\xff\xfe", b"sp ace 'q\"", b"%s\\n", b"-dash", b"esc\x1b[31m"):
        with project() as p:
            p.path = os.path.join(os.fsencode(p.top), name)
            os.mkdir(p.path)
            p.put("a", b"1\n")
            eq(p.warren("work", "--name", "w", p.path, "--", "sh", "-c", "echo 2 >a; echo 3 >b; ls").stdout, b"a\nb\n", name)
            ok(p.warren("work", "--list").stdout.count(b"\n") == 2, "one row for each work")
            ok(b"+2\n" in p.warren("diff", "w").stdout and p.warren("diff", "--json").stdout, "both are shown")
            p.warren("reject", "w", "b")
            p.warren("work", "--resume", "w", "--", "sh", "-c", "echo 4 >c")
            p.warren("accept", b"w", os.path.join(p.path, b"a"))
            p.warren("accept")
            eq((p.get("a"), p.get("c"), sorted(os.listdir(p.path))), (b"2\n", b"4\n", [b"a", b"c"]), name)


@test
@needs_root
def works_on_one_project_are_accepted_one_after_the_other():
    for commit in (True, False):
        with project() as p:
            p.put("a", LINES)
            p.put("b", b"1\n")
            if commit:
                p.git()
            one = p.work("sed -i s/^5$/five/ a; echo 2 >b; echo new >c")
            two = p.work("sed -i s/^55$/fiftyfive/ a; echo 3 >d")
            three = p.work("sed -i s/^5$/5.0/ a")
            p.warren("accept", one)
            ok(b"merged" in p.warren("accept", two).stdout, "the second one is merged")
            both = LINES.replace(b"\n5\n", b"\nfive\n").replace(b"55\n", b"fiftyfive\n")
            eq((p.get("a"), p.get("b"), p.get("c"), p.get("d")), (both, b"2\n", b"new\n", b"3\n"))
            refused = p.warren("accept", three, status=1)
            ok(b"the same lines" in refused.stderr, refused)
            eq(p.get("a"), both)


@test
@needs_root
def names_of_warren_are_never_accepted_and_never_removed():
    with project() as p:
        p.put(".warren-notes", b"mine\n")
        p.put(".warren-dir/x", b"mine\n")
        wid = p.work("echo bad >.warren-notes; rm -r .warren-dir; mkdir .warren-new; echo 1 >.warren-new/a; echo 1 >ok")
        out = p.warren("accept", wid, "--allow", "git")
        ok(b".warren-" in out.stderr, out)
        p.warren("accept", wid, ".warren-notes", status=125)
        eq((p.get(".warren-notes"), p.get(".warren-dir/x"), p.get("ok")), (b"mine\n", b"mine\n", b"1\n"))
        eq(sorted(os.listdir(p.path)), [".warren-dir", ".warren-notes", "ok"])
        p.put("d/.warren-x", b"mine\n")
        p.put("d/.warren", b"1\n")
        wid = p.work("echo bad >d/.warren-x; echo 2 >d/.warren; echo 2 >d/x.warren-x")
        p.warren("accept", wid)
        p.warren("accept", wid, "d/.warren-x", status=125)
        eq((p.get("d/.warren-x"), p.get("d/.warren"), p.get("d/x.warren-x")), (b"mine\n", b"2\n", b"2\n"), "in any directory")


@test
@needs_root
def a_file_that_was_moved_to_an_ignored_place_is_never_lost():
    move = "mkdir build; mv notes d build; echo new >build/other; mv log log.tmp; rm gone; echo 2 >a"

    def begin(p):
        for name in ("a", "notes", "d/x", "log", "gone"):
            p.put(name, b"only in %s\n" % name.encode())
        p.put(".gitignore", b"build/\n*.tmp\n")
        p.git()
        return p.work(move)

    with project() as p:
        wid = begin(p)
        ok(b" ignored notes => build/notes" in p.warren("diff", wid, "--stat").stdout, "the move is shown")
        ok(b"notes" not in p.warren("diff", wid, "--patch").stdout, "a patch does not remove the old file, either")
        q = p.warren("accept", wid)
        ok(b"3 of them were moved to an ignored place" in q.stderr and b"4 ignored files are left" in q.stderr, q)
        eq((p.get("a"), os.path.exists(f"{p.path}/gone")), (b"2\n", False), "a control: the others are accepted")
        p.warren("accept", wid, "notes", status=125)
        p.warren("reject", wid)
        eq([p.get(n) for n in ("notes", "d/x", "log")], [b"only in notes\n", b"only in d/x\n", b"only in log\n"])
        eq((os.path.exists(f"{p.path}/build"), p.works()), (False, []))
    with project() as p:
        wid = begin(p)
        p.warren("accept", wid, "--ignored", "notes")
        eq((os.path.exists(f"{p.path}/notes"), p.get("build/notes")), (False, b"only in notes\n"), "both parts of one move")
        p.warren("accept", wid, "--ignored")
        eq([p.get(n) for n in ("build/d/x", "build/other", "log.tmp")], [b"only in d/x\n", b"new\n", b"only in log\n"])
        eq((sorted(os.listdir(p.path)), p.works()), ([".git", ".gitignore", "a", "build", "log.tmp"], []))
    with project() as p:
        wid = begin(p)
        p.warren("reject", wid, "build")
        q = p.warren("work", "--resume", wid, "--", "sh", "-c", "ls; cat notes d/x")
        eq(q.stdout, b"a\nd\nlog.tmp\nnotes\nonly in notes\nonly in d/x\n", "the sandbox has them in their old places again")
    with project() as p:
        p.put("hook", b"only\n")
        p.git()
        wid = p.work("mv hook .git/hooks/pre-commit")
        p.warren("accept", wid, status=125)
        eq(p.get("hook"), b"only\n", "it needs a permission")
        p.warren("accept", wid, "--allow", "git")
        eq((os.path.exists(f"{p.path}/hook"), p.get(".git/hooks/pre-commit")), (False, b"only\n"))


@test
@needs_root
def versions_of_files_with_markers_stay_until_the_work_is_removed():
    with project() as p:
        for name in ("a", "b", "c"):
            p.put(name, LINES)
        p.git()
        wid = p.work("for f in a b c; do sed -i s/^5$/five/ $f; done")
        for name in ("a", "b"):
            p.put(name, LINES.replace(b"\n5\n", b"\n5.0\n"))
        named = []
        for words in (["a"], ["b"], ["c"]):
            q = p.warren("accept", wid, "--json", "--conflicts", "markers", *words, status=0 if words == ["c"] else 1)
            said = json.loads(q.stdout)
            eq((said["accepted"], said["remaining"], said["removed"]), (1, 3 - ord(words[0]) + ord("a") - 1, False), said)
            named += said["conflicts"]
        eq([c["path"] for c in named], ["a", "b"])
        for c in named:
            ok(b"<<<<<<< yours\n5.0\n" in p.get(c["path"]), "it has markers")
            for side, line in (("yours", b"5.0"), ("theirs", b"five")):
                with open(c[side], "rb") as f:
                    eq(f.read(), LINES.replace(b"\n5\n", b"\n" + line + b"\n"), c)
        p.warren("reject", wid)
        eq(p.works(), [wid], "it is removed only on request")
        p.warren("work", "--remove", wid)
        wid = p.work("echo 61 >>c")
        eq(json.loads(p.warren("accept", wid, "--json", "--conflicts", "markers").stdout)["removed"], True, "a control: no conflict")
        eq(p.works(), [])


@test
@needs_root
def versions_of_files_with_markers_are_only_those_that_were_accepted():
    names = [f"{d}/x" for d in "abcd"]
    with project() as p:
        for name in names:
            p.put(name, LINES)
        p.put("a/x", b"1\0\n")
        p.put("z/x", LINES)
        p.git()
        change = "for f in b c d z; do sed -i s/^5$/five/ $f/x; done; printf '2\\0\\n' >a/x"
        wid, other = p.work(change), p.work(change)
        p.put("a/x", b"3\0\n")
        for name in names[1:]:
            p.put(name, LINES.replace(b"\n5\n", b"\n5.0 in %s\n" % name.encode()))
        said = []
        for words in (["a/x", "b/x"], ["a/x", "c/x"]):
            found = json.loads(p.warren("accept", wid, "--json", "--conflicts", "markers", *words, status=1).stdout)
            eq([c["path"] for c in found["conflicts"]], words, "the first one cannot have markers")
            said += found["conflicts"][1:]
        marked = f"{p.top}/state/works/{wid}/marked"
        subprocess.run(["mount", "--bind", f"{p.path}/z", f"{p.path}/z"], check=True)
        try:
            for work in (wid, other):
                q = p.warren("accept", work, "--conflicts", "markers", "d/x", "z/x", status=125)
                ok(b"another filesystem" in q.stderr, q)
        finally:
            subprocess.run(["umount", f"{p.path}/z"], check=True)
        eq(p.get("d/x"), LINES.replace(b"\n5\n", b"\n5.0 in d/x\n"), "nothing was accepted")
        eq(sorted(os.listdir(marked)), ["1", "2"], "those that were accepted stay")
        for c in said:
            with open(c["yours"], "rb") as f:
                ok(b"5.0 in %s\n" % c["path"].encode() in f.read(), c)
        p.warren("accept", wid, "--conflicts", "theirs")
        ok(wid in p.works(), "a control: it keeps them")
        p.warren("reject", other)
        eq(p.works(), [wid], "this one keeps nothing")


@test
@needs_root
def commands_that_are_suggested_name_the_same_paths():
    names = ["plain.log", "with blank.log", "it's.log", "new\nline.log", "\xff\xe4.log".encode("latin-1"), "-dash.log"]
    with project() as p:
        for name in ("a", "other.log", *names):
            p.put(name, b"1\n")
        p.put(".gitignore", b"*.log\n*.tmp\n")
        p.sh("git init -q; git add .gitignore; git commit -qm one")
        wid = p.work("for f in a *.log; do echo 2 >>\"$f\"; done; echo 1 >.git/hooks/pre-commit; echo 1 >new.tmp")
        q = p.warren("accept", wid, "--conflicts", "skip", "--", "a", *names)
        line = next(x for x in q.stderr.splitlines() if b"--ignored" in x)
        env = {**p.env, "PATH": f"{os.path.dirname(os.path.abspath(WARREN))}:{p.env['PATH']}"}
        subprocess.run(["bash", "-ec", line.split(b": ", 2)[2]], env=env, cwd=p.path, check=True, capture_output=True)
        eq([p.get(n).count(b"2") for n in ("a", *names)], [1] * 7, f"the command is complete: {line}")
        eq((p.get("other.log"), os.path.exists(f"{p.path}/new.tmp")), (b"1\n", False), "and it accepts nothing else")
        ok(b"--conflicts skip" in line and b" a " not in line, "nothing is left to accept at a")
        q = p.warren("accept", wid, "--ignored", ".git", "new.tmp")
        line = next(x for x in q.stderr.splitlines() if b"--allow git" in x)
        ok(line.endswith(f"warren accept {wid} --allow git --ignored .git".encode()), line)
        many = [f"{'long' * 50}{i}" for i in range(20)]
        wid = p.work(f"for f in {' '.join(many)}; do echo >$f; chmod u+s $f; done")
        q = p.warren("accept", wid, *many)
        ok(f"{wid} --allow set-id PATH... (the same paths)".encode() in q.stderr, q)


@test
@needs_root
def hidden_files_do_not_look_deleted_if_the_index_is_split():
    for version in (2, 4):
        for split in (True, False):
            with project() as p:
                for name in [".env", "a", "b", "c", "d/secret.p12", *(f"many/{i}" for i in range(300))]:
                    p.put(name, b"%s\n" % name.encode())
                p.git()
                p.sh(f"git config splitIndex.maxPercentChange 100; git update-index --index-version {version}")
                if split:
                    p.sh("git update-index --split-index")
                p.put("c", b"other\n")
                p.put("ba", b"new\n")
                p.sh("git add -A; git rm -q b many/7 many/100; git rm -q --cached .env; git add .env; chmod +x many/200; git add -A")
                eq((bool(glob.glob(f"{p.path}/.git/sharedindex.*")), b"link" in p.get(".git/index")), (split, split), "control")
                p.sh("git commit -qm two")
                eq(b"link" in p.get(".git/index"), split, "control: still")
                inside = p.warren("work", "-q", "--no-sync", "--no-setup", p.path, "--", "sh", "-c", "git status --porcelain; git ls-files -s; ls -A")
                files = p.sh("git ls-files -s")
                ok(inside.stdout == files + b".git\na\nba\nc\nd\nmany\n", f"{version} {split}: {inside.stdout[:99]}")
                tags = p.warren("work", "-q", "--no-sync", "--no-setup", p.path, "--", "git", "ls-files", "-t").stdout
                eq([x for x in tags.splitlines() if x[:1] != b"H"], [b"S .env", b"S d/secret.p12"])


# What the sandbox does, what the user does then, and the file of the user that must stay as it is.
MOVES = [
    ("rm -r d", "mv mine d/new", "d/new/a"),
    ("rm -r d; mkdir d; echo n >d/n", "mv mine d/new", "d/new/a"),
    ("mkdir -p lib/new; echo agent >lib/new/a", "mv mine lib/new", "lib/new/a"),
    ("mkdir docs; echo agent >docs/a", "mv ../outside docs", "docs/a"),
    ("echo agent >>d/sub/a", "mv d old; mv e d", "d/sub/a"),
    ("rm d/sub/a", "mv d old; mv e d", "d/sub/a"),
    ("rm -r d/sub", "mv d old; mv e d", "d/sub/extra"),
    ("rm -r d", "mv d/sub old; mv mine d/sub", "d/sub/a"),
    ("mv d d2; mkdir d", "rm -r d/sub; mv mine d/sub", "d/sub/a"),
]


def tree(p):
    for name, text in (("d/x", b"1\n"), ("d/sub/a", b"1\n"), ("d/sub/bin", b"\0001"), ("lib/x", b"1\n"), ("e/sub/a", b"of the user\n"),
                       ("e/sub/extra", b"of the user\n"), ("mine/a", b"of the user\n"), ("../outside/a", b"of the user\n")):
        p.put(name, text)


@test
@needs_root
def files_in_directories_that_the_user_moved_are_not_lost():
    for mode in ("overlay", "copy"):
        for inside, move, name in MOVES:
            for resumed in (False, True) if mode == "overlay" else (False,):
                with project() as p:
                    tree(p)
                    p.sh("git init -q; git add d lib; git commit -qm one")
                    p.warren("work", "-q", "--no-setup", "--name", "w", "--mode", mode, p.path, "--", "sh", "-ec", inside)
                    p.sh(f"sleep 0.02; {move}")
                    if resumed:
                        p.warren("work", "-q", "--no-setup", "--resume", "w", "--", "true")
                    subprocess.run([WARREN, "accept", "w"], env=p.env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
                    ok(os.path.exists(f"{p.path}/{name}") and p.get(name) == b"of the user\n", f"{mode} {resumed}: {inside}; {move}: {name}")


@test
@needs_root
def directories_in_which_the_user_only_works_were_not_moved():
    for move in ("true", "echo new >d/sub/new", "mv d/sub/y d/sub/z; rm d/sub/z", "mv d old; mv old d", "mkdir d/sub/n d/n"):
        with project() as p:
            tree(p)
            p.put("d/sub/y", b"1\n")
            p.sh("git init -q; git add d; git commit -qm one")
            p.warren("work", "-q", "--no-setup", "--name", "w", p.path, "--", "sh", "-ec", "printf 2 >>d/sub/bin; rm d/sub/a; ln -s x d/sub/l")
            p.sh(f"sleep 0.02; {move}")
            out = p.warren("accept", "w").stdout
            ok(out.startswith(b"3 changes accepted"), f"{move}: {out}")
            eq((p.get("d/sub/bin"), os.path.exists(f"{p.path}/d/sub/a")), (b"\00012", False), move)


OPERATIONS = """git branch -m main; git config user.name a; git config user.email a@b; export GIT_EDITOR=true
git checkout -qb feat; echo 2 >b; git add b; git commit -q; git tag -am x v1; git notes add -m n; git stash -q || :; echo 3 >b; git stash -q
git checkout -q main; echo 4 >b; git add b; git commit -qm four; git merge -q feat || git merge --abort; git cherry-pick feat || :
git rebase -q feat || git rebase --abort; git revert --no-edit HEAD; git bisect start HEAD HEAD~1; git bisect reset -q; git rerere
git format-patch -q -1 --stdout >x; git reset -q --hard HEAD~; git am -q x; git worktree add -q wt; git worktree remove wt; git fsck --lost-found
git branch --edit-description; git sparse-checkout set --no-cone '/*'; git sparse-checkout disable; git gc -q; git config --unset user.name"""


@test
@needs_root
def files_that_git_does_not_know_are_not_lost():
    with project() as p:
        for name in ("data", "notes"):
            p.put(name, f"{name} of the user\n".encode())
        p.put(".gitignore", b"/data\n")
        p.git()
        wid = p.work("mkdir -p .git/annex/objects/K .git/backup; mv data .git/annex/objects/K/; ln -s .git/annex/objects/K/data data;"
                     "mv notes .git/backup/; mkdir -p .git/lfs/objects/ab; echo big >.git/lfs/objects/ab/cd; git branch -q b")
        out = p.warren("accept", "--ignored", wid)
        ok(b"--allow git" in out.stderr, f"{out}")
        eq(p.get("notes"), b"notes of the user\n", "not removed without its new place")
        eq(p.warren("work", "--resume", wid, "--", "cat", ".git/annex/objects/K/data").stdout, b"data of the user\n", "nor lost")
        p.warren("accept", "--ignored", "--allow", "git", "--allow", "link", wid)
        eq([p.get(x) for x in ("data", ".git/backup/notes", ".git/lfs/objects/ab/cd")], [b"data of the user\n", b"notes of the user\n", b"big\n"])
        ok(not os.path.exists(f"{p.path}/notes"), "moved")
        # Control: what git itself writes is no such file.
        wid = p.work(f"set +e; ({OPERATIONS}) >log 2>&1; cp .git/config .git/config.old; git checkout -qf main")
        listed = p.warren("diff", "--name-only", wid).stdout.decode().split("\n")
        eq([x for x in listed if x.startswith(".git/")], [".git/config", ".git/config.worktree"], f"{listed}")


def mounted(p, kind, where, *options):
    subprocess.run(["mount", "-t", kind, *options, where], check=True)
    return lambda: subprocess.run(["umount", "-l", where], check=True)


@test
@needs_root
def a_read_only_project_stays_as_it_is():
    with project() as p:
        p.put("a", b"1\n")
        p.put("d/b", b"1\n")
        umount = mounted(p, "none", p.path, "-o", "bind", p.path)
        try:
            wid = p.work("echo 2 >a; rm d/b; echo 3 >c")
            subprocess.run(["mount", "-o", "remount,bind,ro", p.path], check=True)
            for words in (["accept", wid], ["accept", wid, "a"]):
                out = p.warren(*words, status=125)
                ok(b"Read-only file system" in out.stderr and p.path.encode() in out.stderr, out)
            eq((p.get("a"), p.get("d/b"), sorted(os.listdir(p.path))), (b"1\n", b"1\n", ["a", "d"]))
            eq(p.warren("work", "--resume", wid, "--", "cat", "a", "c").stdout, b"2\n3\n", "work on it goes on")
            p.warren("reject", wid, "c")
            subprocess.run(["mount", "-o", "remount,bind,rw", p.path], check=True)
            p.warren("accept", wid)
            eq((p.get("a"), sorted(os.listdir(p.path)), os.listdir(f"{p.path}/d")), (b"2\n", ["a", "d"], []))
        finally:
            umount()


@test
def a_work_is_removed_when_its_commits_and_files_are_accepted():
    with project() as p:
        p.put("a", b"1\n")
        p.git()
        commit = "git -c user.name=a -c user.email=a@b commit -q"
        for first, second in ((["--as-commits"], []), ([], ["--as-commits"])):
            wid = p.work(f"echo x{len(first)} >a; {commit} -am two; touch new{len(first)}")
            out = p.warren("accept", wid, *first)
            eq(out.stdout.startswith(b"1 new commit in branch warren/" if first else b"2 changes accepted\n"), True, out)
            eq(b"--as-commits" in out.stderr, not first, out)
            if first:
                eq(p.warren("accept", wid, *first).stdout.decode(), f"nothing is new: all commits are in branch warren/{wid}\n")
            out = p.warren("accept", wid, *second)
            ok(b"Nothing is left to decide" in out.stdout and b"--as-commits" not in out.stderr, out)
            eq(p.warren("work", "--list", "--json").stdout.count(wid.encode()), 0)
            eq(p.sh(f"git log -1 --format=%s warren/{wid}"), b"two\n")
            p.sh(f"git add -A; {commit} -m more")


@test
def commits_of_other_branches_are_named():
    with project() as p:
        p.put("a", b"1\n")
        p.git()
        commit = "git -c user.name=a -c user.email=a@b commit -q"
        wid = p.work(f"git checkout -q -b feat; echo 2 >a; {commit} -am two; git checkout -q -")
        for words, status in ((["accept", wid], 0), (["accept", wid, "--as-commits"], 125)):
            out = p.warren(*words, status=status)
            ok(f"warren work --resume {wid} -- git checkout feat".encode() in out.stderr, out)
            eq(b"made no commits" in out.stderr, False, out)
        p.warren("work", "--resume", wid, "-q", "--", "git", "checkout", "-q", "feat")
        out = p.warren("accept", wid, "--as-commits")
        eq(out.stdout.decode().splitlines()[0], f"1 new commit in branch warren/{wid}")
        eq((out.stderr, p.sh(f"git log -1 --format=%s warren/{wid}")), (b"", b"two\n"))


@test
def a_work_stays_while_a_reference_or_the_reflog_has_other_commits():
    with project() as p:
        p.put("a", b"1\n")
        p.git()
        # Each commit has its own message: an equal one in the same second would have an id that the user has.
        commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m"
        works = lambda: p.warren("work", "--list", "--json").stdout.count(b'"id"')
        for how, named in (
            (f"git checkout -q --detach; git checkout -q -; {commit} two; git reset -q --hard HEAD~", None),
            (f"git checkout -q --detach; {commit} three; git checkout -q -", "commits in no branch: "),
            (f"{commit} four; git update-ref refs/backup/x HEAD; git reset -q --hard HEAD~", "git checkout refs/backup/x"),
        ):
            p.warren("work", "--no-setup", "-q", "--", "sh", "-c", how)
            eq(works(), 1 if named else 0, how)
            if not named:
                continue
            out = p.warren("diff", "--stat")
            ok(b"[needs --as-commits]" in out.stdout, out)
            out = p.warren("accept")
            ok(named.encode() in out.stderr and b"is removed" not in out.stdout, out)
            eq(works(), 1, how)
            command = out.stderr.decode().split("warren work ")[1].split(")")[0].split()
            p.warren("work", "-q", "--keep", *command)
            out = p.warren("accept", "--as-commits")
            ok(out.stdout.startswith(b"1 new commit in branch warren/") and b"is removed" in out.stdout, out)
            eq(works(), 0, how)


@test
@needs_root
def worktrees_and_submodules_are_accepted_like_other_projects():
    with project() as p:
        p.put("a", b"1\n")
        p.git()
        main = p.path
        p.sh(f"git worktree add -q {p.top}/tree; git -c protocol.file.allow=always submodule add -q {main} sub; git commit -qm two")
        for p.path in (f"{p.top}/tree", f"{main}/sub"):
            link = p.get(".git")
            wid = p.work("echo 2 >a; echo 3 >b; echo 'gitdir: /tmp' >.git")
            out = p.warren("accept", wid)
            ok(b"--allow git" in out.stderr, out)
            eq((p.get("a"), p.get("b"), p.get(".git")), (b"2\n", b"3\n", link))
            eq(p.sh("git status --short"), b" M a\n?? b\n", "git works as before")
        p.path = main
        wid = p.work("echo 4 >sub/a; rm sub/.git")
        p.warren("accept", wid)
        eq((p.get("sub/a"), p.get("sub/.git")), (b"4\n", link))


@test
@needs_root
def files_that_a_filter_converts_are_left_as_they_are():
    with project() as p:
        p.sh("git init -q; git config filter.rot.clean 'tr a-z n-za-m'; git config filter.rot.smudge 'tr n-za-m a-z'")
        p.sh(f"git config filter.lfs.clean 'touch {p.top}/ran; cat'; git config filter.lfs.required true")
        p.put(".gitattributes", b"*.rot filter=rot\n*.bin filter=lfs\n*.txt text eol=crlf\n")
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 9\n"
        text = b"".join(b"line %s\r\n" % chr(97 + i).encode() for i in range(20))
        p.put("x.rot", b"abc\n" * 30)
        p.put("x.bin", pointer % 1)
        p.put("x.txt", text)
        p.put("a", b"1\n")
        p.sh("git add -A; git commit -qm one")
        p.put("x.bin", b"\0smudged")
        p.sh(f"git update-index --refresh -q || true; rm -f {p.top}/ran")
        wid = p.work("echo 2 >a; touch x.rot x.bin x.txt; cat x.rot x.bin >/dev/null; chmod 644 x.bin")
        eq(p.warren("diff", wid, "--name-only").stdout, b"a\n", "files that were only touched are not changed")
        p.warren("accept", wid)
        eq((p.get("x.rot"), p.get("x.bin"), p.get("x.txt")), (b"abc\n" * 30, b"\0smudged", text))
        # Both change it: the commit has other contents.
        wid = p.work("sed -i 2s/.*/two/ x.rot; sed -i 's/line c/LINE C/' x.txt; touch ready", name="both")
        p.put("x.rot", b"abc\n" * 29 + b"last\n")
        p.put("x.txt", text.replace(b"line s", b"LINE S"))
        os.rename(f"{p.top}/state/works/{wid}/base", f"{p.top}/base")  # as if you had changed it during the run
        out = p.warren("accept", wid, "x.rot", status=1)
        ok(b"not known" in out.stderr, out)
        eq(p.get("x.rot"), b"abc\n" * 29 + b"last\n", "nothing is made of it")
        ok(b"merged" in p.warren("accept", wid, "x.txt").stdout, "a control: git itself converts ends of lines")
        eq(p.get("x.txt"), text.replace(b"line s", b"LINE S").replace(b"line c", b"LINE C"))
        ok(not os.path.exists(f"{p.top}/ran"), "no filter was started")


def fill(path):
    """Writes a file until no block is free."""
    with open(path, "wb", buffering=0) as f:
        for size in (1 << 20, 4096, 512):
            try:
                while f.write(b"x" * size) == size:
                    os.fsync(f.fileno())
            except OSError:
                pass


@test
@needs_root
def a_full_disk_during_the_run_loses_nothing():
    with project() as p:
        p.put("a", b"1\n")
        p.sh(f"truncate -s 24M {p.top}/disk; mkfs.ext4 -q {p.top}/disk")
        umount = mounted(p, "ext4", f"{p.top}/state", "-o", "loop", f"{p.top}/disk")
        try:
            script = "echo 2 >a; echo 3 >b; cat /dev/zero >big 2>/dev/null; cat /dev/zero >big2 2>/dev/null; exit 7"
            out = p.warren("work", "--name", "w", p.path, "--", "sh", "-c", script, status=7)
            ok(b"kept" in out.stderr, out)
            eq((p.get("a"), os.listdir(p.path)), (b"1\n", ["a"]))
            eq(p.warren("diff", "w", "a").stdout.count(b"+2\n"), 1)
            fill(f"{p.top}/state/rest")
            full = p.warren("accept", "w", "a", status=125)
            ok(b"No space left" in full.stderr, full)
            eq((p.get("a"), os.listdir(p.path)), (b"1\n", ["a"]), "nothing was accepted")
            p.warren("reject", "w", "big", "big2")
            p.warren("accept", "w")
            eq((p.get("a"), p.get("b"), sorted(os.listdir(p.path))), (b"2\n", b"3\n", ["a", "b"]))
        finally:
            umount()


@test
@needs_root
def an_accept_waits_for_the_accept_of_another_work():
    with project() as p:
        for i in range(150):
            p.put(f"f{i}", b"".join(b"%d\n" % n for n in range(30)))
        for name, line in (("one", 5), ("two", 25)):
            p.work(f"sed -i 's/^{line}$/{name}/' f*", name=name)
        before = [subprocess.Popen([WARREN, "accept", name], env=p.env, cwd=p.path, stdout=subprocess.DEVNULL,  # pylint: disable=consider-using-with
                                   stderr=subprocess.PIPE) for name in ("one", "two")]
        errors = [x.communicate(timeout=60)[1] for x in before]
        eq(([x.returncode for x in before], errors), ([0, 0], [b"", b""]))
        ok(all(b"one\n" in p.get(f"f{i}") and b"two\n" in p.get(f"f{i}") for i in range(150)), "both are in all files")
        # Any process can lock the directory, but an accept waits only for some seconds.
        p.work("echo 2 >f1", name="three")
        with subprocess.Popen(["flock", p.path, "sleep", "100"]) as other:
            start = time.monotonic()
            p.warren("accept", "three")
            other.kill()
        ok(5 < time.monotonic() - start < 60, "a control: the lock is the one that it waits for")
        eq(p.get("f1"), b"2\n")


if __name__ == "__main__":
    sys.exit(run_tests())
