#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-sessions.py - sessions over HTTP: shells that keep their state between commands, and survive restarts of the
service"""
import json
import sys
import threading
import time
import os

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import api_schema  # pylint: disable=wrong-import-position
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import WAIT, World, check_error, has, needs, until  # pylint: disable=wrong-import-position

WORLD = World()


class Session:
    def __init__(self, box, **spec):
        self.box = box
        self.id = WORLD.post(f"/v1/sandboxes/{box}/sessions", spec, 201)["id"]
        self.path = f"/v1/sandboxes/{box}/sessions/{self.id}"

    def run(self, command, status=200, **spec):
        # A shell reads a pipe byte by byte, and each read is a slow system call in gVisor.
        with WORLD.client(timeout=WAIT if len(command) < 100000 else 10 * WAIT) as c:
            r = c.ask("POST", f"{self.path}/run", {"command": command, **spec})
        eq(r.status, status, f"status of a run: {r}")
        return r.json()

    def out(self, command, **spec):
        return self.run(command, **spec)["stdout"]

    def show(self):
        return WORLD.get(self.path)


@test
def a_session_keeps_its_state_between_commands():
    s = Session(WORLD.create())
    r = s.run("cd /tmp; X=5; export Y=6; f() { echo f$1; }; echo out; echo err >&2; false")
    eq((r["exit_code"], r["stdout"], r["stderr"], r["cwd"]), (1, "out\n", "err\n", "/tmp"))
    eq(s.out('echo $? $X; sh -c "echo $Y"; f 1; pwd'), "1 5\n6\nf1\n/tmp\n")
    eq(s.out("printf 'no newline'"), "no newline")
    eq(s.out("cat <<E\n$X\nE\n# a comment"), "5\n")
    eq(s.run("# nothing but a comment")["exit_code"], 0)
    eq(s.show()["commands"], 5)


@test
def every_shell_of_an_image_can_be_used():
    for shell in ("bash", "sh", "/bin/dash"):
        s = Session(WORLD.create(), shell=shell)
        eq(s.out("X=1; echo $X"), "1\n", shell)
        eq(s.out("echo $X"), "1\n", shell)
    check_error(WORLD.ask("POST", f"/v1/sandboxes/{s.box}/sessions", {"shell": "/no/shell"}), 422,
                "command_not_found")


@test
def a_missing_shell_is_an_error():
    """A shell that never becomes ready is abandoned and removed; zsh, which is not supported, is refused at once."""
    box = WORLD.create()
    sessions = f"/v1/sandboxes/{box}/sessions"
    WORLD.run(box, "printf '#!/bin/sh\\nexec sleep 54321\\n' >/tmp/slow; printf '#!/bin/sh\\nexit 3\\n' >/tmp/ends; "
                   "chmod 755 /tmp/slow /tmp/ends")
    with WORLD.client(timeout=4 * WAIT) as c:
        e = check_error(c.ask("POST", sessions, {"shell": "/tmp/slow"}), 504, "timeout")
    ok("/tmp/slow" in e["message"] and "bash" in e["message"], e)
    until(lambda: "54321" not in WORLD.run(box, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 'sleep 5[4]321'; true")["stdout"],
          "it is gone")
    check_error(WORLD.ask("POST", sessions, {"shell": "/tmp/ends"}), 409)
    e = check_error(WORLD.ask("POST", sessions, {"shell": "sh", "env": {"ZSH_VERSION": "5.9"}}), 501, "not_supported")
    ok("zsh" in e["message"], e)
    eq(WORLD.get(sessions)["sessions"], [], "sessions that are none")
    eq(Session(box, shell="sh").out("echo $((1 + 1))"), "2\n", "positive control")


@test
def a_command_works_as_if_it_were_typed():
    """Some cases for each shell on every backend; test-shellproto-typed.c has all cases."""
    for shell in ("bash", "sh"):
        s = Session(WORLD.create(), shell=shell)
        eq(s.out("alias hi='echo aliased'\nhi"), "aliased\n", "an alias of the line before")
        eq(s.out("break 2>/dev/null; echo on"), "on\n", "a break outside of a loop")
        eq((s.run("")["exit_code"], s.run("\n")["exit_code"]), (0, 0), "no command")
        ok(s.out("echo a \\").startswith("a"), "a backslash at the end")
        r = s.run("true\n" * 30000 + "(exit 5)")
        eq((r["exit_code"], r["stderr"], r["ended"]), (5, "", False), "30,000 lines")
        r = s.run("echo one\necho two; )")
        eq((r["stdout"], r["syntax_error"], r["exit_code"]), ("one\n", True, 2), "an error in the second line")
        ok("done" not in r["stderr"] and "_" not in r["stderr"], f"something of ours is in {r['stderr']!r}")
        eq(s.run("(exit 2)")["syntax_error"], False, "a status of 2")
    s = Session(WORLD.create(), shell="bash")
    eq(s.out("shopt -s extglob\ncase ab in +(a|b)) echo glob;; esac"), "glob\n", "extglob of the line before")
    ok("line 2:" in s.run("echo one\n)")["stderr"], "lines are counted from the command's first")
    s.run("trap 'echo dbg' DEBUG")
    eq(s.out("true; echo x"), "dbg\ndbg\nx\n", "a DEBUG trap")
    s.run("trap - DEBUG")
    eq(s.out("true; echo x"), "x\n", "without it")


@test
def a_shell_starts_without_output():
    needs("control")  # otherwise, its reports are in its output
    for shell in ("bash", "sh"):
        s = Session(WORLD.create(), shell=shell, env={"BASH_ENV": "/nowhere", "ENV": "/nowhere"})
        exec_id = s.show()["exec_id"]
        eq(WORLD.raw(s.box, exec_id, follow="false"), b"", f"output of {shell} before its first command")
        eq(s.run("echo out; echo err >&2; exit 3")["exit_code"], 3)
        eq(sorted(WORLD.raw(s.box, exec_id).split()), [b"err", b"out"], f"output of {shell}")
        # Positive control: an interactive shell prints the complaint.
        ok("job control" in WORLD.run(s.box, ["bash", "-i", "-c", "true"])["stderr"], "bash has become silent")


@test
def a_syntax_error_is_reported_and_not_run():
    s = Session(WORLD.create())
    for text in ('echo ran; echo "', "echo ran; (", "echo ran; if true; then", "echo ran; )"):
        r = s.run(text)
        eq((r["syntax_error"], r["stdout"], r["ended"]), (True, "", False), text)
        ok(r["exit_code"] != 0 and r["stderr"], r)
    eq(s.out("echo alive"), "alive\n")


@test
def a_command_that_times_out_is_stopped_and_the_shell_is_kept():
    s = Session(WORLD.create())
    s.run("X=5")
    for text in ("sleep 100", "while :; do :; done", "sleep 100 & wait", "trap '' INT; sleep 100",
                 "sh -c 'trap \"\" INT TERM; sleep 100'"):
        r = s.run(text, timeout_ms=200)
        eq((r["timed_out"], r["ended"]), (True, False), text)
        eq(s.out("echo $X"), "5\n", text)


@test
def an_interrupt_ends_the_command_and_keeps_the_shell():
    s = Session(WORLD.create())
    command = "sleep 100; echo not reached"
    # An early interrupt works too: the shell needs a while to read the second command, before it begins.
    for text, at_once in ((command, False), (f"{command} # {'x' * (900000 if has('control') else 90000)}", True), (command, True)):
        got = []
        t = threading.Thread(target=lambda g=got, x=text: g.append(s.run(x)))
        t.start()
        until(lambda: s.show()["state"] == "busy", "it runs")
        if not at_once:
            check_error(WORLD.ask("POST", f"{s.path}/run", {"command": "true"}), 409, "session_busy")
        WORLD.ask("POST", f"{s.path}/interrupt", {}, status=204)
        t.join()
        eq((got[0]["interrupted"], got[0]["exit_code"], got[0]["stdout"]), (True, 130, ""))
        eq(s.run("true")["interrupted"], False)


@test
def a_shell_with_a_trap_gets_one_interrupt():
    box = WORLD.create()
    s, got = Session(box), []
    text = ("n=0; trap 'n=$((n + 1)); echo got' INT; echo ready; echo ready >/tmp/ready; "
            "until [ -e /tmp/go ]; do :; done; echo $n")
    t = threading.Thread(target=lambda: got.append(s.run(text)))
    t.start()
    until(lambda: WORLD.run(box, "cat /tmp/ready 2>&1")["stdout"] == "ready\n", "it has begun")
    WORLD.ask("POST", f"{s.path}/interrupt", {}, status=204)
    time.sleep(3)  # for this long, an interrupt that came too early is repeated
    WORLD.run(box, "touch /tmp/go")
    t.join()
    eq(got[0]["stdout"], "ready\ngot\n1\n")


@test
def the_end_of_a_shell_is_reported():
    for text, code in (("exit 4", 4), ("exec true", 0), ("kill -9 $$", 137)):
        s = Session(WORLD.create())
        r = s.run(text)
        eq((r["ended"], r["exit_code"], r["cwd"]), (True, code, None), text)
        check_error(WORLD.ask("POST", f"{s.path}/run", {"command": "true"}), 409, "session_ended")
        eq(s.show()["state"], "ended")
        WORLD.ask("DELETE", s.path, status=204)
        check_error(WORLD.ask("GET", s.path), 404, "session_not_found")


@test
def stdin_and_descriptors_belong_to_the_command():
    s = Session(WORLD.create())
    eq(s.out("cat; echo done"), "done\n", "stdin is empty")
    eq(s.out("sh -c 'cd /proc/self/fd && echo *'"), "0 1 2 3\n", "0, 1, 2 and the directory itself")
    s.run("exec 3>/tmp/f; echo x >&3")
    eq(s.out("cat /tmp/f"), "x\n")
    s.run("exec >/tmp/g; echo hidden")
    eq(s.out("cat /tmp/g >&2"), "")
    ok(s.run("true")["exit_code"] == 0, "with stdout elsewhere")


@test
def large_commands_and_large_output_work():
    s = Session(WORLD.create(), output_limit="64m")
    r = s.run("head -c 50000000 /dev/zero | tr '\\0' x")
    eq((len(r["stdout"]), r["lost"], r["gaps"]), (50000000, 0, []))
    text = "X='" + "y" * 1000000 + "'; echo ${#X}"
    eq(s.out(text), "1000000\n", "a command of a megabyte")
    r = s.run("printf '\\000\\377'", encoding="base64")
    eq(r["stdout"], "AP8=")
    small = Session(s.box, output_limit=65536)
    r = small.run("head -c 1000000 /dev/zero | tr '\\0' x")
    eq((len(r["stdout"]), r["lost"]), (1000000, 0), "more than is kept: it waits until it was read")


def stays(s, how, shorten):
    """A command times out while it cannot react: it is stopped when it can, and the shell is kept."""
    s.run("X=kept")
    results = []
    with WORLD.client(timeout=4 * WAIT) as c:
        t = threading.Thread(target=lambda: results.append(c.ask("POST", f"{s.path}/run", {"command": how, "timeout_ms": 4000})))
        t.start()
        shorten()
        t.join(2 * WAIT)
    ok(results, "there is no answer")
    r = results[0].json()
    eq((results[0].status, r.get("timed_out"), r.get("ended")), (200, True, False), f"its end: {r}")
    eq(s.out("echo $X"), "kept\n", "the shell's state")


@test
def a_timeout_passes_while_the_sandbox_is_paused():
    """Execs behave in the same way: those that are overdue end when the sandbox is resumed, and no others."""
    needs("pause")
    box = WORLD.create()
    at = f"/v1/sandboxes/{box}"
    execs = []

    def pause():
        execs[:] = [WORLD.exec(box, "sleep 1000", timeout_ms=5000),
                    WORLD.exec(box, "sleep 5; echo late; exit 3", timeout_ms=600000)]
        WORLD.post(f"{at}/pause")
        time.sleep(14)  # longer than all steps that stop a command
        eq([WORLD.get(f"{at}/execs/{e}")["state"] for e in execs], ["running"] * 2, "while it is paused")
        WORLD.post(f"{at}/resume")

    stays(Session(box), "sleep 1000", pause)
    r = WORLD.get(f"{at}/execs/{execs[0]}", query={"wait_ms": 30000})
    eq((r["state"], r["result"]["timed_out"]), ("exited", True), "one that was out of time")
    eq(WORLD.result(box, execs[1])["exit_code"], 3, "one that was not")
    eq(WORLD.run(box, "ps ax | grep -c '[s]leep 1000' || true")["stdout"], "0\n", "what is left of it")


@test
def background_jobs_continue():
    s = Session(WORLD.create())
    s.run("(while :; do echo tick; sleep 0.05; done) & J=$!")
    r = s.run("sleep 100", timeout_ms=200)
    eq(r["timed_out"], True)
    eq(s.out("kill -0 $J && echo alive").replace("tick\n", ""), "alive\n")
    s.run("kill $J; wait $J 2>/dev/null")


@test
def several_sessions_work_at_the_same_time():
    box = WORLD.create()
    all_ = [Session(box) for _ in range(8)]
    slow = threading.Thread(target=lambda: all_[0].run("sleep 1"))
    slow.start()
    begun = time.monotonic()
    for i, s in enumerate(all_[1:]):
        s.run(f"N={i}")
    for i, s in enumerate(all_[1:]):
        eq(s.out("echo $N"), f"{i}\n")
    ok(slow.is_alive() or time.monotonic() - begun > 1, "nobody waited for the slow one")
    slow.join()
    eq(len(WORLD.get(f"/v1/sandboxes/{box}/sessions")["sessions"]), 8)


@test
def output_of_a_session_can_be_streamed():
    s = Session(WORLD.create())
    with WORLD.client() as c:
        r = c.send("POST", f"{s.path}/stream", {"command": "echo a; sleep 0.1; echo b >&2; exit 3"})
        body = r.read()
        api_schema.check("POST", f"{s.path}/stream", r.status, {"content-type": r.headers["Content-Type"]}, body)
        events = [json.loads(line) for line in body.splitlines()]
    eq([(e["type"], e.get("stream"), e.get("data")) for e in events[:-1]],
       [("output", "stdout", "a\n"), ("output", "stderr", "b\n")])
    eq((events[-1]["type"], events[-1]["session"]["exit_code"], events[-1]["session"]["ended"]),
       ("result", 3, True))


@test
def a_stream_never_splits_characters():
    s = Session(WORLD.create())

    def pieces(command):
        with WORLD.client() as c:
            r = c.send("POST", f"{s.path}/stream", {"command": command})
            return [json.loads(line) for line in r.read().splitlines()][:-1]

    found = pieces("printf 'a\\342\\202'; sleep 0.2; printf '\\254b'; sleep 0.2; printf c")
    eq([e["data"] for e in found], ["a", "\u20acb", "c"], "a character in two pieces")
    ok(found[0]["cursor"] < found[1]["cursor"] - 3, f"the first piece's cursor is beyond it: {found}")
    eq([(e["stream"], e["data"]) for e in pieces("printf '\\342'; sleep 0.2; printf x >&2; sleep 0.2; printf '\\303'")],
       [("stdout", "\ufffd"), ("stderr", "x"), ("stdout", "\ufffd")], "characters without an end")
    text = "".join(e["data"] for e in pieces("i=0; while [ $i -lt 20000 ]; do printf '\\360\\237\\220\\260.\\342\\202\\254'; "
                                             "i=$((i+1)); done"))
    eq(text, "\U0001f430.\u20ac" * 20000, "160 kB of characters")


@test
def sessions_outlive_the_service():
    box = WORLD.create()
    idle, busy = Session(box), Session(box)
    idle.run("cd /tmp; X=5; f() { echo f; }")
    with WORLD.client() as c:
        c.open().request("POST", f"{busy.path}/run",
                         json.dumps({"command": "Y=1; until [ -e /tmp/go ]; do sleep 0.05; done; Y=2; echo late"}),
                         {"Content-Type": "application/json"})
        until(lambda: busy.show()["state"] == "busy", "it runs")
        WORLD.kill("api", "warden")
    WORLD.start()
    eq(idle.out("echo $X; f; pwd"), "5\nf\n/tmp\n")
    eq(busy.show()["state"], "busy")
    idle.run("touch /tmp/go")
    until(lambda: busy.show()["state"] == "idle", "the command ended")
    eq(busy.out("echo $Y"), "2\n")


@test
def a_flood_of_output_blocks_no_other_client():
    """Output comes faster than it is read: others are answered, and the command's timeout applies."""
    s, other = Session(WORLD.create()), WORLD.create()
    ended = WORLD.beside(other, lambda ms: s.run("yes " + "x" * 1000, timeout_ms=ms))
    ok(ended["timed_out"], f"it was not ended: {str(ended)[:300]}")
    eq(s.out("echo alive"), "alive\n", "after it")


@test
def sessions_are_listed():
    box = WORLD.create()
    opened = [Session(box).id for _ in range(6)]

    def page(**query):
        p = WORLD.get(f"/v1/sandboxes/{box}/sessions", query={"limit": 2, **query})
        return [s["id"] for s in p["sessions"]], p["next_cursor"]
    found, cursor = page()
    eq(found, [opened[5], opened[4]], "the newest first")
    # The cursor names a session, and stays valid when that session is gone.
    WORLD.ask("DELETE", f"/v1/sandboxes/{box}/sessions/{found[-1]}", status=204)
    WORLD.ask("DELETE", f"/v1/sandboxes/{box}/sessions/{opened[2]}", status=204)
    found, cursor = page(cursor=cursor)
    eq(found, [opened[3], opened[1]], "the next page")
    WORLD.kill("api")
    WORLD.ready()
    eq(page(cursor=cursor), ([opened[0]], None), "the last page, after a restart")
    WORLD.delete(box)


@test
def sessions_end_with_their_sandbox():
    s = Session(WORLD.create())
    WORLD.delete(s.box)
    check_error(WORLD.ask("GET", s.path), 404, "sandbox_not_found")


if __name__ == "__main__":
    with WORLD:
        status = run_tests()
    sys.exit(status)
