#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-swerex-edges.py - SWE-ReX in unusual situations: authentication comes first, errors do not show scripts,
timeouts include the output"""
import sys
import threading
import time
import os

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import swerex_world  # pylint: disable=wrong-import-position
from checks import QUARANTINE, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, rss  # pylint: disable=wrong-import-position

WORLD = World(tcp=True)
ADMIN = WORLD.token("admin")
TIMEOUT = "swerex.exceptions.CommandTimeoutError"


def face(box=None, token=ADMIN, prefix=True):
    return swerex_world.Face(WORLD, WORLD.create() if box is None else box, token, prefix)


# ------------------------------------------------------------------- authentication


@test
def a_token_is_checked_before_existence():
    box = WORLD.create()
    nobody = [face(where, token) for where in (box, "0" * 12, "short", "x" * 40, "UPPERCASE123", "")
              for token in (None, "wrong", "wrn_" + "0" * 64)]
    for f in nobody:
        for path, method in (("/is_alive", "GET"), ("/execute", "POST"), ("/nope", "GET"), ("/execute", "GET"), ("", "GET")):
            r = f.ask(path, {"command": ["true"]} if method == "POST" else None, method)
            eq((r.status, r.json()), (401, {"detail": "Invalid API Key"}), f"{method} {f.prefix}{path}")
    # Positive control: with a token, missing objects are reported.
    eq(face(box).ask("/is_alive", method="GET").status, 200)
    for f in (face("0" * 12), face("short"), face("x" * 40), face("UPPERCASE123"), face("")):
        eq(f.ask("/is_alive", method="GET").status, 404, f.prefix)
    eq(face(box).ask("/nope", method="GET").status, 404)
    eq(face(box).ask("/execute", method="GET").status, 405)
    # A token for one sandbox does not reveal whether other sandboxes exist.
    scoped = WORLD.token("exec", sandbox_id=box)
    eq(face("short", scoped).ask("/is_alive", method="GET").status, 401)
    eq(face(box, scoped).ask("/is_alive", method="GET").status, 200)


# ------------------------------------------------------------------------- execute


@test
def errors_of_a_shell_do_not_repeat_the_script():
    f = face()
    script = "echo before\n" + "true # a long line of the script\n" * 100 + "/no/such/program\nnosuchcommand\necho $0"
    for merged in (False, True):
        r = f.good("/execute", {"command": script, "shell": True, "merge_output_streams": merged})
        said = r["stdout"] if merged else r["stderr"]
        ok("a long line" not in r["stdout"] + r["stderr"], f"the script is in {said[:300]!r}")
        ok("/no/such/program" in said and "nosuchcommand" in said, f"positive control: its errors are there: {said[:300]!r}")
        ok(r["stdout"].startswith("before\n") and r["stdout"].endswith("/bin/sh\n"), f"$0 of {r['stdout'][-200:]!r}")
    r = f.good("/execute", {"command": "echo 'unbalanced # a long line", "shell": True, "merge_output_streams": True})
    ok(r["exit_code"] != 0 and r["stdout"].count("a long line") == 0, r)
    # Output is in order, and arguments work like in subprocess.run(): the words after the script are its $0 and $1.
    eq(f.good("/execute", {"command": "echo a; echo b >&2; echo c", "shell": True, "merge_output_streams": True})["stdout"],
       "a\nb\nc\n")
    for merged in (False, True):
        eq(f.good("/execute", {"command": ["echo $0 $1", "zero", "one"], "shell": True, "merge_output_streams": merged})["stdout"],
           "zero one\n")
        eq(f.good("/execute", {"command": ["echo", "$0"], "merge_output_streams": merged})["stdout"], "$0\n")


@test
def an_execute_that_times_out_returns_its_output():
    f = face()
    command = "printf 'out\\n'; printf 'err\\n' >&2; sleep 100"
    e = f.raised("/execute", {"command": command, "shell": True, "timeout": 1}, TIMEOUT)
    ok(e["message"].startswith("Timeout (1.0s) exceeded while running command"), e)
    eq(e["extra_info"], {"stdout": "out\n", "stderr": "err\n"})
    ok("out\n" in e["message"] and "err\n" in e["message"], e)
    e = f.raised("/execute", {"command": command, "shell": True, "timeout": 1, "merge_output_streams": True}, TIMEOUT)
    eq(e["extra_info"], {"stdout": "out\nerr\n", "stderr": ""})
    e = f.raised("/execute", {"command": ["sleep", "100"], "timeout": 0.5}, TIMEOUT)
    eq((e["message"], e["extra_info"]), ("Timeout (0.5s) exceeded while running command", {"stdout": "", "stderr": ""}))


# ------------------------------------------------------------------------ sessions


@test
def a_command_that_times_out_returns_its_output():
    f = face()
    f.open()
    e = f.raised("/run_in_session", {"command": "echo begun; sleep 100", "timeout": 1}, TIMEOUT)
    ok(e["message"].startswith("timeout after 1.0 seconds while running command 'echo begun; sleep 100'"), e)
    ok(e["message"].endswith("begun\n"), e)
    eq(e["extra_info"], {"output": "begun\n"})
    eq(f.interrupt()["exit_code"], 0)
    eq(f.out("echo on"), "on\n")
    # The output is complete; the message has only its end.
    e = f.raised("/run_in_session", {"command": "seq 1 20000; sleep 100", "timeout": 3}, TIMEOUT)
    eq(e["extra_info"]["output"], "".join(f"{i}\n" for i in range(1, 20001)))
    ok(e["message"].endswith("\n19999\n20000\n") and len(e["message"]) < 10000, len(e["message"]))
    f.interrupt()
    # The same is true for a command whose expected text does not appear.
    e = f.raised("/run_in_session", {"command": "echo ready; cat", "is_interactive_command": True, "expect": ["never"],
                                     "timeout": 1}, TIMEOUT)
    eq(e["extra_info"], {"output": "ready\n"})


@test
def memory_for_screens_is_shared_among_tenants():
    """The output of running commands is in the service's memory: each tenant has a share of it."""
    many = {}
    for name in ("greedy", "modest"):
        token = WORLD.token("read", "write", "exec", "files", tenant=name)
        many[name] = face(WORLD.create(token=token), token)
    before = rss(WORLD.api)
    threads = []

    def fill(session):  # waits until the sandbox is deleted, however slow the machine is
        with WORLD.client(tcp=True, timeout=1000) as c:
            c.ask("POST", f"{many['greedy'].prefix}/run_in_session", {
                "command": "yes 0123456789012345678901234567890123456789 | head -c 62000000; sleep 1000", "session": session,
                "timeout": 1000}, headers={"X-API-Key": many["greedy"].token})

    for i in range(8):
        many["greedy"].open(session=f"s{i}")
        threads.append(threading.Thread(target=fill, args=(f"s{i}",), daemon=True))
        threads[-1].start()
    sizes = [rss(WORLD.api)]
    while sizes[-1] - before < 128 << 20 or len(sizes) < 4 or sizes[-1] - sizes[-4] > 1 << 20:
        ok(len(sizes) < 120, f"it does not come to an end: {sizes[-4:]}")
        time.sleep(1)
        sizes.append(rss(WORLD.api))
    grown = sizes[-1] - before
    ok(grown < (400 << 20) + QUARANTINE, f"eight screens of 62 MB take {grown >> 20} MB")
    many["modest"].open()
    out = many["modest"].out("yes 0123456789 | head -c 20000000")
    eq((len(out.replace("\r", "")), "dropped" in out), (20000000, False), "the output of another tenant")
    # The memory is freed afterwards.
    WORLD.delete(many["greedy"].box)
    for t in threads:
        t.join(1000)
    again = face(WORLD.create(token=many["greedy"].token), many["greedy"].token)
    again.open()
    out = again.out("yes 0123456789 | head -c 60000000")
    eq((len(out.replace("\r", "")), "dropped" in out), (60000000, False), "a large output when there is room again")


@test
def a_command_may_be_any_shell_text():
    f = face()
    f.open()
    eq(f.out("echo a \\"), "a \\\n", "a backslash at the end")
    eq(f.run("")["exit_code"], 0, "no command")
    eq(f.out("alias hi='echo aliased'\nhi"), "aliased\n")
    eq(f.out("shopt -s extglob\ncase ab in +(a|b)) echo glob;; esac"), "glob\n")
    # If one of several lines has a syntax error, none is run.
    e = f.raised("/run_in_session", {"command": "touch /tmp/ran\necho 'unbalanced"}, "swerex.exceptions.BashIncorrectSyntaxError")
    ok("unexpected EOF" in e["extra_info"]["bash_stderr"], e)
    e = f.raised("/run_in_session", {"command": "touch /tmp/ran\nfi"}, "swerex.exceptions.BashIncorrectSyntaxError")
    ok("line 2: " in e["extra_info"]["bash_stderr"], e)
    eq(f.run("test -e /tmp/ran", check="silent")["exit_code"], 1, "it ran")
    eq(f.run("true\n" * 30000 + "(exit 5)", check="silent", timeout=60)["exit_code"], 5, "30,000 lines")


@test
def another_bash_replaces_the_shell():
    f = face()
    f.open()
    f.run("X=5; export Y=6; cd /tmp")
    eq(f.run("exec bash", timeout=20)["exit_code"], 0)
    eq(f.out("echo \"[$X]\" $Y; pwd", timeout=20), "[] 6\n/tmp\n", "it is another one, and it is used")
    eq(f.run("(exit 3)", check="silent")["exit_code"], 3)
    f.raised("/run_in_session", {"command": "sleep 100", "timeout": 0.5}, TIMEOUT)
    eq(f.interrupt()["exit_code"], 0)
    eq(f.out("echo on"), "on\n", "after an interrupt")


@test
def output_larger_than_the_journal_is_complete():
    """The journal of a session has 16 MB; a command that writes more waits until the output was read."""
    f = face()
    f.open()
    r = f.run("seq 1 4000000", timeout=300)
    eq((len(r["output"]), r["failure_reason"]), (sum(len(str(i)) + 1 for i in range(1, 4000001)), ""))
    ok(r["output"] == "".join(f"{i}\n" for i in range(1, 4000001)), "what 30 MB say")


@test
def dropped_output_is_reported_with_its_position():
    f = face()
    f.open()
    r = f.run("head -c 68000000 /dev/zero | tr '\\0' x", timeout=300)
    kept = 64 << 20
    eq(r["output"][:kept].count("x"), kept)
    eq(r["output"][kept:], f"\n[{68000000 - kept} bytes of output were dropped here]\n")
    ok(f"{68000000 - kept} bytes" in r["failure_reason"], r["failure_reason"])
    r = f.good("/execute", {"command": "head -c 70000000 /dev/zero | tr '\\0' x; echo end", "shell": True})
    ok(r["stdout"].startswith("\n[") and "were dropped here" in r["stdout"][:200], r["stdout"][:200])
    ok(r["stdout"].endswith("xend\n"), r["stdout"][-200:])


if __name__ == "__main__":
    with WORLD:
        status = run_tests()
    sys.exit(status)
