#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-work-accept.py - accepting changes: what is interrupted, changed at the same time, or has unusual names

Prints TAP. $WARREN is the program (default build/warren).
"""
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


if __name__ == "__main__":
    sys.exit(run_tests())
