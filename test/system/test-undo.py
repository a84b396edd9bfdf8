#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-undo.py - the files of a sandbox become what they were before an undoable command, while it is the last one"""
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import WARREN, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from fault_world import children  # pylint: disable=wrong-import-position
from serve_world import World, refused, slurp, until  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name


def sh(box, text, **kw):
    r = w.run(box, ["sh", "-c", text], **kw)
    eq(r["result"]["exit_code"], 0, r)
    return r["stdout"]


def undo(box, status=200):
    return w.ask("POST", f"/v1/sandboxes/{box}/undo", status=status).json()


def nothing_to_undo(box):
    refused(w.ask("POST", f"/v1/sandboxes/{box}/undo"), 409, "wrong_state", "nothing to undo")


def still_running(box):
    refused(w.ask("POST", f"/v1/sandboxes/{box}/undo"), 409, "wrong_state", "still running")


def read(box, path):
    """Reads a file without running a command, after which nothing could be undone."""
    r = w.ask("GET", f"/v1/sandboxes/{box}/files", query={"path": path})
    return r.body.decode() if r.status == 200 else r.status


def put(box, path, text):
    r = w.ask("PUT", f"/v1/sandboxes/{box}/files", text.encode(), query={"path": path})
    ok(r.status in (200, 201), r)


@test
def files_come_back_and_processes_stay():
    box = w.create(image="host")
    nothing_to_undo(box)
    sh(box, "echo before >/srv/x; rm /etc/login.defs; (while :; do sleep 1; done) >/dev/null 2>&1 & echo $! >/dev/shm/pid")
    sh(box, "rm /srv/x /etc/profile; echo y >/srv/y; echo new >/etc/login.defs; echo more >>/etc/services", undoable=True)
    eq((read(box, "/srv/x"), read(box, "/srv/y")), (404, "y\n"))
    done = undo(box)
    eq((done["removed"], done["restored"]), (2, 3), done)
    eq((read(box, "/srv/x"), read(box, "/srv/y"), read(box, "/etc/login.defs")), ("before\n", 404, 404))
    nothing_to_undo(box)
    sh(box, "kill -0 $(cat /dev/shm/pid) && test -s /etc/profile && ! grep -q more /etc/services")
    w.delete(box)


@test
def a_socket_in_place_of_a_directory_does_not_keep_it_away():
    box = w.create(image="host")
    bind = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"%s\")'"
    sh(box, "mkdir /srv/d; echo kept >/srv/d/x; " + bind % "/srv/old")
    sh(box, "mv /srv/d /srv/moved; " + bind % "/srv/d" + "; " + bind % "/srv/new", undoable=True)
    eq((read(box, "/srv/moved/x"), read(box, "/srv/d/x") == "kept\n"), ("kept\n", False))  # the control
    undo(box)
    eq(read(box, "/srv/d/x"), "kept\n")
    eq(sh(box, "ls /srv; test -S /srv/old && echo socket"), "d\nnew\nold\nsocket\n")  # sockets of servers stay
    w.delete(box)


@test
def a_command_can_be_undone_when_it_has_ended():
    box = w.create(image="host")
    sh(box, "echo 1 >/srv/x; (while :; do sleep 1; done) >/dev/null 2>&1 &")
    for restarts in (False, True):
        runs = w.exec(box, ["sh", "-c", "echo 2 >/srv/x; exec sleep 1000"], undoable=True)
        until(lambda: read(box, "/srv/x") == "2\n", "it runs")
        if restarts:
            w.kill("api")
            w.ready()
        still_running(box)
        eq(read(box, "/srv/x"), "2\n")
        w.ask("POST", f"/v1/sandboxes/{box}/execs/{runs}/signal", {"signal": "KILL"}, status=204)
        w.result(box, runs)
        undo(box)
        eq(read(box, "/srv/x"), "1\n")
    # Commands that began before do not matter, whether they run or not.
    older = w.exec(box, ["sleep", "1000"])
    sh(box, "echo 3 >/srv/x", undoable=True)
    undo(box)
    eq((read(box, "/srv/x"), w.get(f"/v1/sandboxes/{box}/execs/{older}")["state"]), ("1\n", "running"))
    w.delete(box)


@test
def a_command_that_does_not_start_is_not_the_last_one():
    box = w.create(image="host")
    at = f"/v1/sandboxes/{box}"
    missing = {"argv": ["/does/not/exist"], "undoable": True}

    def copies():
        return sorted(os.listdir(f"{w.state}/undo"))
    eq(w.ask("POST", f"{at}/run", missing).status, 422)
    nothing_to_undo(box)
    sh(box, "echo 1 >/srv/x", undoable=True)
    for _ in range(2):
        eq(w.ask("POST", f"{at}/run", missing).status, 422)
    undo(box)
    eq(read(box, "/srv/x"), 404)
    nothing_to_undo(box)
    sh(box, "echo 1 >/srv/x", undoable=True)
    sh(box, "echo 2 >/srv/x", undoable=True)
    until(lambda: copies() == [box], "there is one copy")
    eq(w.ask("POST", f"{at}/run", missing).status, 422)
    until(lambda: copies() == [box], "there is one copy")
    undo(box)
    eq(read(box, "/srv/x"), "1\n")
    # The command before still runs.
    runs = w.exec(box, ["sh", "-c", "echo 3 >/srv/x; exec sleep 1000"], undoable=True)
    until(lambda: read(box, "/srv/x") == "3\n", "it runs")
    eq(w.ask("POST", f"{at}/run", missing).status, 422)
    still_running(box)
    w.ask("POST", f"{at}/execs/{runs}/signal", {"signal": "KILL"}, status=204)
    w.result(box, runs)
    undo(box)
    eq(read(box, "/srv/x"), "1\n")
    w.delete(box)


@test
def of_two_commands_at_once_the_last_copy_decides():
    box = w.create(image="host", limits={"memory": "512m", "disk": "256m"})
    at = f"/v1/sandboxes/{box}"
    sh(box, "head -c 50000000 /dev/zero >/srv/big")
    answers = {}

    def start(name, argv):
        def ask():
            answers[name] = w.client().ask("POST", f"{at}/execs", {"argv": argv, "undoable": True})
        thread = threading.Thread(target=ask)
        thread.start()
        return thread
    for i, last in enumerate([["sleep", "1000"], ["/does/not/exist"]] * 6):
        # The second copy is made as soon as the first one is: before the first command has begun, or soon after that.
        before = read(box, "/srv/x")
        first = start("first", ["sh", "-c", f"echo {i} >/srv/x"])
        until(lambda: any(os.path.exists(f"{w.state}/undo/{name}{box}") for name in ("", ".new-")), "a copy is made")
        second = start("second", last)
        first.join()
        second.join()
        w.result(box, answers["first"].json()["id"])
        if last[0] == "sleep":
            still_running(box)
            w.ask("POST", f"{at}/execs/{answers['second'].json()['id']}/signal", {"signal": "KILL"}, status=204)
            w.result(box, answers["second"].json()["id"])
        else:
            eq(answers["second"].status, 422)
        undo(box)
        nothing_to_undo(box)
        if last[0] != "sleep":
            eq(read(box, "/srv/x"), before)
    w.delete(box)


@test
def names_of_one_file_of_the_image_are_one_file_again():
    source = w.create(image="host")
    sh(source, "mkdir -p /srv/l/m; cd /srv/l; echo text >a; ln a b; ln a m/c; echo other >d")
    image = w.post(f"/v1/sandboxes/{source}/snapshots", {"name": "linked"}, status=201)
    box = w.create(image="linked")
    files = "cd /srv/l; stat -c '%n %h %s %Y' a b m/c d; stat -c %i a b m/c d | uniq -c | wc -l"
    before = sh(box, files)
    for command in ("rm -rf /srv/l", "rm -rf /srv/l; mkdir /srv/l; echo new >/srv/l/b", "cd /srv/l; rm a b m/c; echo x >>d"):
        sh(box, command, undoable=True)
        undo(box)
        eq(sh(box, files), before, command)
        eq(sh(box, "cd /srv/l; echo more >>b; cat m/c"), "text\nmore\n", command)
        w.ask("POST", f"/v1/sandboxes/{box}/reset", status=200)
    w.delete(box)
    w.delete(source)
    w.ask("DELETE", f"/v1/snapshots/{image['id']}", status=204)


@test
def only_the_last_command_can_be_undone():
    box = w.create(image="host")
    sh(box, "echo 1 >/srv/x", undoable=True)
    sh(box, "true")
    nothing_to_undo(box)
    sh(box, "echo 2 >/srv/x", undoable=True)
    sh(box, "echo 3 >/srv/x", undoable=True)
    undo(box)
    eq(read(box, "/srv/x"), "2\n")
    nothing_to_undo(box)
    sh(box, "echo 4 >/srv/x", undoable=True)
    put(box, "/srv/z", "z")
    nothing_to_undo(box)
    eq((read(box, "/srv/x"), read(box, "/srv/z")), ("4\n", "z"))
    w.delete(box)


@test
def a_command_in_a_session_can_be_undone_and_the_session_stays():
    box = w.create(image="host")
    at = f"/v1/sandboxes/{box}/sessions"
    session = w.post(at, {}, status=201)["id"]

    def run(command, **more):
        r = w.post(f"{at}/{session}/run", {"command": command, **more})
        eq(r["exit_code"], 0, r)
        return r["stdout"]
    run("A=1; echo 1 >/srv/x")
    nothing_to_undo(box)
    run("A=2; echo 2 >/srv/x", undoable=True)
    undo(box)
    eq(read(box, "/srv/x"), "1\n")
    eq(run("echo $A $(cat /srv/x)"), "2 1\n")
    run("echo 3 >/srv/x", undoable=True)
    run("true")
    nothing_to_undo(box)
    w.delete(box)


@test
def each_command_of_an_undoable_session_can_be_undone():
    box = w.create(image="host")
    at = f"/v1/sandboxes/{box}/sessions"
    eq(w.post(at, {}, status=201)["undoable"], False)
    shown = w.post(at, {"undoable": True}, status=201)
    eq(shown["undoable"], True)

    def run(command, **more):
        r = w.post(f"{at}/{shown['id']}/run", {"command": command, **more})
        eq(r["exit_code"], 0, r)
        return r
    nothing_to_undo(box)
    run("A=1; echo 1 >/srv/x")
    run("A=2; echo 2 >/srv/x", undoable=False)
    undo(box)
    eq(read(box, "/srv/x"), "1\n")
    nothing_to_undo(box)
    # The option survives both processes of the service, and a hibernation.
    w.kill("api", "warden")
    w.start()
    w.ready()
    eq(w.get(f"{at}/{shown['id']}")["undoable"], True)
    eq(run("echo $A; echo 3 >/srv/x")["stdout"], "2\n")
    undo(box)
    eq(read(box, "/srv/x"), "1\n")
    w.ask("POST", f"/v1/sandboxes/{box}/hibernate", status=200)
    eq(run("echo 4 >/srv/x")["new_state"], True)
    undo(box)
    eq((read(box, "/srv/x"), w.get(f"{at}/{shown['id']}")["undoable"]), ("1\n", True))
    # A busy session refuses a command. The one that runs can be undone when it has ended.
    run("echo 5 >/srv/x")
    with w.client() as busy:
        busy.open().request("POST", f"{at}/{shown['id']}/run", json.dumps({"command": "echo 6 >/srv/x; sleep 1000"}),
                            {"Content-Type": "application/json"})
        until(lambda: read(box, "/srv/x") == "6\n", "it runs")
        refused(w.ask("POST", f"{at}/{shown['id']}/run", {"command": "true"}), 409, "session_busy")
        still_running(box)
        w.kill("api")
        w.ready()
        still_running(box)
        w.ask("POST", f"{at}/{shown['id']}/interrupt", {}, status=204)
        until(lambda: w.get(f"{at}/{shown['id']}")["state"] == "idle", "its end")
        undo(box)
    eq(read(box, "/srv/x"), "5\n")
    w.delete(box)


@test
def an_undo_survives_each_process_of_the_service():
    box = w.create(image="host")
    for i, who in enumerate((["api"], ["warden"], ["api", "warden"])):
        sh(box, f"echo {i} >/srv/x")
        sh(box, "echo other >/srv/x", undoable=True)
        w.kill(*who)
        if "warden" in who:
            w.start()
        w.ready()
        undo(box)
        eq(read(box, "/srv/x"), f"{i}\n")
        sh(box, "true", undoable=True)
        w.kill(*who)
        if "warden" in who:
            w.start()
        w.ready()
        sh(box, "true")
        nothing_to_undo(box)
    w.delete(box)


def works_below(pid, path):
    """Has the process opened a file below @path?"""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/fd/{fd}").startswith(path):
                return True
    return False


def kill_in_the_middle(pid, path):
    """Kills a process if it works below @path. Returns whether it was killed."""
    def state():
        return slurp(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[0]
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGSTOP)
        until(lambda: state() in "TZX", "it is stopped")
        if state() == "T" and works_below(pid, path):
            os.kill(pid, signal.SIGKILL)
            return True
        os.kill(pid, signal.SIGCONT)
    return False


def undo_with_a_kill(box, path):
    """Kills the process that restores files below @path. Returns whether it was in the middle, and the answer."""
    before, answers, killed = children(w.warden), [], False
    thread = threading.Thread(target=lambda: answers.append(w.client().ask("POST", f"/v1/sandboxes/{box}/undo")))
    thread.start()
    while thread.is_alive() and not killed:
        for pid in children(w.warden) - before:
            killed = killed or kill_in_the_middle(pid, path)
    thread.join()
    return killed, answers[0]


@test
def an_undo_begins_again_if_the_process_that_restores_is_killed():
    box = w.create(image="host", limits={"memory": "512m", "disk": "256m"})
    sh(box, "mkdir /srv/t && cd /srv/t && head -c 60000000 /dev/zero >big && for i in $(seq 300); do mkdir d$i; echo $i >d$i/x; done")
    killed = rounds = 0
    while killed < 4:
        rounds += 1
        ok(rounds < 40, f"{killed} processes were killed in {rounds} rounds")
        sh(box, "rm -rf /srv/t", undoable=True)
        hit, answer = undo_with_a_kill(box, "/srv/t/")
        killed += hit
        eq(answer.status, 200, answer)
        eq(sh(box, "cd /srv/t && stat -c %s big && cat d*/x | sort -n | tail -1 && ls | wc -l"), "60000000\n300\n301\n")
    w.delete(box)


@test
def a_paused_sandbox_can_be_restored_and_one_that_hibernated_not():
    box = w.create(image="host")
    sh(box, "echo 1 >/srv/x", undoable=True)
    w.ask("POST", f"/v1/sandboxes/{box}/pause", status=200)
    undo(box)
    w.ask("POST", f"/v1/sandboxes/{box}/resume", status=200)
    eq(read(box, "/srv/x"), 404)
    sh(box, "echo 1 >/srv/x", undoable=True)
    ok(os.path.isdir(f"{w.state}/undo/{box}"), "the copy")
    w.ask("POST", f"/v1/sandboxes/{box}/hibernate", status=200)
    ok(not os.path.exists(f"{w.state}/undo/{box}"), "the copy is gone")
    w.ask("POST", f"/v1/sandboxes/{box}/start", status=200)
    nothing_to_undo(box)
    eq(read(box, "/srv/x"), "1\n")
    sh(box, "echo 1 >/srv/x", undoable=True)
    w.delete(box)
    eq(os.listdir(f"{w.state}/undo"), [])


@test
def a_copy_counts_as_disk_of_its_tenant():
    with World(config="quota:\n  disk: 100m\n") as other:
        token = other.token("read", "write", "exec", "files", tenant="small")
        box = other.create(image="host", limits={"memory": "256m", "disk": "64m"}, token=token)
        at = f"/v1/sandboxes/{box}"

        def run(text):
            return other.ask("POST", f"{at}/run", {"argv": ["sh", "-c", text], "undoable": True}, token=token)

        def fits(size):
            r = other.ask("POST", "/v1/sandboxes", {"image": "host", "limits": {"memory": "64m", "disk": size}}, token=token)
            if r.status == 201:
                other.delete(r.json()["id"])
            else:
                refused(r, 429, "quota_exceeded", "disk")
            return r.status == 201
        eq(run("head -c 20000000 /dev/zero >/srv/x").status, 200)
        eq(fits("34m"), True)  # the first copy is nearly empty
        for _ in range(3):  # each copy replaces the one before
            eq(run("true").status, 200)
            eq((fits("32m"), fits("8m")), (False, True))
        eq(run("head -c 20000000 /dev/zero >/srv/y").status, 200)
        refused(run("echo more >>/srv/x"), 429, "quota_exceeded", "disk")
        eq(other.ask("POST", f"{at}/undo", token=token).status, 200)  # the command before that one
        eq(other.ask("GET", f"{at}/files", query={"path": "/srv/y"}, token=token).status, 404)
        eq(fits("34m"), True)
        eq(run("true").status, 200)
        other.ask("POST", f"{at}/hibernate", status=200, token=token)
        eq(fits("34m"), True)  # the copy is gone
        other.delete(box)


@test
def only_the_tenant_of_a_sandbox_can_undo_its_commands():
    box = w.create(image="host")
    sh(box, "echo 1 >/srv/x", undoable=True)
    refused(w.ask("POST", f"/v1/sandboxes/{box}/undo", token=w.token("read", "write", "exec", "files", tenant="other")), 404,
            "sandbox_not_found")
    refused(w.ask("POST", f"/v1/sandboxes/{box}/undo", token=w.token("read", "files")), 403, "forbidden")
    eq(w.ask("POST", f"/v1/sandboxes/{box}/undo", token=w.token("exec")).status, 200)
    w.delete(box)


@test
def the_command_line_lists_changes_and_undoes_a_command():
    box = w.create(image="host")
    env = {**os.environ, "WARREN_HOST": f"unix:{w.socket}"}

    def warren(*words, status=0):
        p = subprocess.run([WARREN, *words], env=env, capture_output=True, check=False, encoding="utf-8")
        eq(p.returncode, status, p)
        return p.stdout + p.stderr
    warren("exec", "--undoable", box, "--", "sh", "-c", "echo x >/srv/x; rm /etc/profile")
    eq(sorted(warren("diff", box).splitlines()), ["A /srv/x", "D /etc/profile"])
    eq(warren("undo", box), "1 removed, 1 restored, 0 changed\n")
    eq(warren("diff", box), "")
    ok("nothing to undo" in warren("undo", box, status=125), "the reason")
    warren("session", "run", "--undoable", box, "echo y >/srv/y")
    eq(json.loads(warren("undo", "--json", box))["removed"], 1)
    session = warren("session", "open", "--undoable", box).strip()
    eq(warren("session", "run", "-s", session, box, "echo z >/srv/z"), "")
    eq(json.loads(warren("undo", "--json", box))["removed"], 1)
    # The message about a new shell comes once.
    warren("hibernate", box)
    said = warren("session", "run", "-s", session, box, "pwd")
    ok("this shell is new" in said, said)
    eq(warren("session", "run", "-s", session, box, "echo again"), "again\n")
    warren("hibernate", box)
    eq(json.loads(warren("session", "run", "--json", "-s", session, box, "pwd"))["new_state"], True)
    w.delete(box)


def main():
    global w  # pylint: disable=global-statement
    try:
        with World() as w:
            return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
