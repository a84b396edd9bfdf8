#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-hibernate.py - a sandbox that hibernates keeps its files and nothing else, and wakes when it is used"""
import concurrent.futures
import contextlib
import glob
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from reboot import reboot  # pylint: disable=wrong-import-position
from serve_world import BACKEND, CONFIGS, World, has, refused, until  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name


def sh(box, text, **kw):
    r = w.run(box, ["sh", "-c", text], **kw)
    eq(r["result"]["exit_code"], 0, r)
    return r["stdout"]


def hibernate(box, **body):
    r = w.ask("POST", f"/v1/sandboxes/{box}/hibernate", body or None, status=200).json()
    eq(r["state"], "hibernated")


def saved(box):
    return glob.glob(f"{w.state}/saved/**/*{box}", recursive=True)


def state(box):
    return w.get(f"/v1/sandboxes/{box}")["state"]


def remains():
    """What exists of sandboxes in the kernel, apart from what the service prepares in advance."""
    return {k: n for k, n in w.objects().items() if n and k in ("processes", "namespaces", "cgroups", "mounts", "boxes", "links")}


@test
def a_use_wakes_a_sandbox_with_its_files():
    box = w.create(image="host", env={"A": "b"}, workdir="/root")
    sh(box, "echo kept >/root/x; chown 12:34 /root/x; rm /etc/group; sleep 1000 >/dev/null 2>&1 &")
    ok(len(remains()) > 2, remains())  # the control
    hibernate(box, timeout_ms=0)
    until(lambda: remains() == {}, remains)
    eq(sh(box, "cat x; find x -printf '%U %G\\n'; echo $A; test ! -e /etc/group; ps ax | grep -c '[s]leep 1000' || true"),
       "kept\n12 34\nb\n0\n")
    eq(state(box), "running")
    w.delete(box)


@test
def many_uses_wake_it_once():
    box = w.create(image="host")
    sh(box, "echo 1 >/root/x")
    hibernate(box)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        eq(set(pool.map(lambda i: sh(box, f"echo {i} >/root/y{i}; cat /root/x"), range(20))), {"1\n"})
    eq(sh(box, "echo /root/[xy]* | wc -w"), "21\n")
    w.delete(box)


@test
def it_hibernates_again_and_again():
    box = w.create(image="host")
    for i in range(5):
        sh(box, f"echo {i} >>/root/x")
        hibernate(box, timeout_ms=0)
        hibernate(box, timeout_ms=0)
    eq(sh(box, "cat /root/x"), "0\n1\n2\n3\n4\n")
    w.delete(box)


@test
def it_survives_each_process_of_the_service():
    box = w.create(image="host")
    sh(box, "echo kept >/root/x")
    hibernate(box)
    for victims in (["api"], ["warden"], ["api", "warden"]):
        w.kill(*victims)
        if "warden" in victims:
            w.start()
        w.ready()
        eq(state(box), "hibernated")
    eq(sh(box, "cat /root/x"), "kept\n")
    w.delete(box)


@test
def a_hibernating_sandbox_is_deleted_with_its_files():
    box = w.create(image="host")
    hibernate(box)
    ok(saved(box), "the control: no saved files")
    w.delete(box)
    eq(saved(box), [], "its files were left")


@test
def start_wakes_it_and_wake_on_use_is_obeyed():
    box = w.create(image="host", wake_on_use=False)
    sh(box, "echo kept >/root/x")
    hibernate(box)
    refused(w.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]}), 409, None, "hibernated")
    w.ask("POST", f"/v1/sandboxes/{box}/start", status=200)
    eq(sh(box, "cat /root/x"), "kept\n")
    w.delete(box)


@test
def an_idle_sandbox_hibernates_and_wakes():
    box = w.create(image="host", idle_timeout_ms=1000, on_idle="hibernate")
    sh(box, "echo kept >/root/x")
    until(lambda: state(box) == "hibernated", lambda: state(box))
    eq(sh(box, "cat /root/x"), "kept\n")
    w.ask("POST", f"/v1/sandboxes/{box}/stop", status=200)
    until(lambda: state(box) == "hibernated", lambda: state(box))  # a stopped one too
    w.ask("PATCH", f"/v1/sandboxes/{box}", {"idle_action": "pause"}, status=200)
    eq(w.get(f"/v1/sandboxes/{box}")["on_idle"], "pause")
    eq(sh(box, "cat /root/x"), "kept\n")
    until(lambda: state(box) == "paused", lambda: state(box))
    w.delete(box)


@test
def a_used_sandbox_is_not_idle():
    box = w.create(image="host", idle_timeout_ms=1000, idle_action="hibernate")
    eq(w.get(f"/v1/sandboxes/{box}")["on_idle"], "hibernate")
    eq(sh(box, "sleep 3; echo done"), "done\n")  # a running command keeps it awake
    eq(state(box), "running")
    w.delete(box)


@test
def at_the_end_of_its_time_a_sandbox_hibernates_or_pauses():
    boxes = {action: w.create(image="host", ttl_ms=1500, on_ttl=action) for action in ("hibernate", "pause", "delete")}
    before = w.get(f"/v1/sandboxes/{boxes['hibernate']}")
    eq((before["lifetime_ms"], before["on_ttl"]), (1500, "hibernate"))
    ended = w.ask("POST", f"/v1/sandboxes/{boxes['hibernate']}/execs", {"argv": ["sleep", "1000"]}, status=201).json()
    until(lambda: state(boxes["hibernate"]) == "hibernated", lambda: state(boxes["hibernate"]))
    until(lambda: state(boxes["pause"]) == "paused", lambda: state(boxes["pause"]))
    until(lambda: w.ask("GET", f"/v1/sandboxes/{boxes['delete']}").status == 404, boxes)
    eq(w.get(f"/v1/sandboxes/{boxes['hibernate']}/execs/{ended['id']}")["result"]["signal"], 15)
    w.ask("PATCH", f"/v1/sandboxes/{boxes['hibernate']}", {"ttl_ms": 600000}, status=200)
    for action in ("hibernate", "pause"):  # a use begins the time anew
        sh(boxes[action], "true")
    eq(w.get(f"/v1/sandboxes/{boxes['hibernate']}")["lifetime_ms"], 600000)
    until(lambda: state(boxes["pause"]) == "paused", lambda: state(boxes["pause"]))
    eq(state(boxes["hibernate"]), "running")
    for action in ("hibernate", "pause"):
        w.delete(boxes[action])


@test
def on_idle_and_idle_action_exclude_each_other():
    refused(w.ask("POST", "/v1/sandboxes", {"idle_action": "pause", "on_idle": "delete"}), 400, None, "another name")
    box = w.create(image="host")
    refused(w.ask("PATCH", f"/v1/sandboxes/{box}", {"idle_action": "pause", "on_idle": "delete"}), 400, None, "another name")
    w.delete(box)


@test
def uses_wait_for_a_hibernation_that_is_in_progress():
    box = w.create(image="host")
    sh(box, "echo 0 >/root/n")
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        asked = []
        for i in range(60):
            body = {"argv": ["sh", "-c", "cat /root/n"]} if i % 4 else {"timeout_ms": 0}
            asked.append((i % 4, pool.submit(lambda body=body, i=i: w.client().ask(
                "POST", f"/v1/sandboxes/{box}/{'run' if i % 4 else 'hibernate'}", body))))
        for use, answer in asked:
            r = answer.result()
            eq(r.status, 200, (use, r))
            # The hibernation may end the command with SIGKILL, but no request fails.
            ok(not use or r.json()["result"]["signal"] == 9 or r.json()["stdout"] == "0\n", r)
    eq(sh(box, "cat /root/n"), "0\n")
    w.delete(box)


@test
def resets_and_hibernations_do_not_disturb_each_other():
    if BACKEND != "native":
        raise Skip("the service does the same for all backends")
    box = w.create(image="host")
    for _ in range(3):
        verbs = [("hibernate", {"timeout_ms": 0}), ("reset", None), ("run", {"argv": ["true"]}), ("run", {"argv": ["true"]})] * 8
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda v: (v[0], w.client().ask("POST", f"/v1/sandboxes/{box}/{v[0]}", v[1])), verbs))
        for verb, r in answers:
            eq(r.status, 200, (verb, r))
        hibernate(box)
        eq(sh(box, "echo 1"), "1\n")
    w.delete(box)


@test
def a_deletion_ends_a_hibernation():
    box = w.create(image="host")
    w.ask("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]}, status=201)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        asleep = [pool.submit(lambda: w.client().ask("POST", f"/v1/sandboxes/{box}/hibernate", {"timeout_ms": 600000}))
                  for _ in range(2)]
        until(lambda: all(f.running() for f in asleep), asleep)
        w.delete(box)
        for f in asleep:
            ok(f.result().status in (200, 404, 409), f.result())
    eq(saved(box), [], "its files were left")
    until(lambda: remains() == {}, remains)


@test
def its_main_command_runs_again():
    box = w.create(image="host", main={"argv": ["sh", "-c", "echo run >>/tmp/log; exec sleep 1000"]}, on_exit="delete", workdir="/root/w")

    def log():
        return w.run(box, ["cat", "/tmp/log"], cwd="/")["stdout"]
    until(lambda: log() == "run\n", log)
    for n in (2, 3):
        hibernate(box, timeout_ms=0)
        if n == 3:
            w.kill("api")
            w.ready()
        until(lambda n=n: log() == "run\n" * n, log)
    if has("init"):  # others start nothing without this directory
        sh(box, "cd /root && rmdir w && touch w")
        hibernate(box, timeout_ms=0)
        for _ in range(2):
            eq(log(), "run\n" * 3)  # its command cannot start any more, but it runs
    w.delete(box)


@test
def execs_say_that_a_hibernation_ended_them():
    box = w.create(image="host")
    ended = w.ask("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["sleep", "1000"]}, status=201).json()
    other = w.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]}, status=200).json()
    text = w.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["echo", "hello"]}, status=200).json()["id"]
    eq((ended["ended_by"], other["ended_by"]), (None, None))
    hibernate(box)
    for _ in range(2):  # before and after a restart, without waking the sandbox
        eq({e["id"]: (e["ended_by"], e["state"]) for e in w.get(f"/v1/sandboxes/{box}/execs")["execs"]},
           {text: (None, "exited"), other["id"]: (None, "exited"), ended["id"]: ("hibernate", "exited")})
        eq(w.get(f"/v1/sandboxes/{box}/execs/{ended['id']}")["result"]["signal"], 15)
        ok(b"hello" in w.ask("GET", f"/v1/sandboxes/{box}/execs/{text}/output", status=200).body, text)
        w.kill("api")
        w.ready()
    eq(state(box), "hibernated")
    w.delete(box)


@test
def a_session_continues_with_a_new_shell_and_says_so():
    box = w.create(image="host", workdir="/root")
    session = w.ask("POST", f"/v1/sandboxes/{box}/sessions", {"env": {"A": "given"}}, status=201).json()["id"]

    def run(text):
        return w.ask("POST", f"/v1/sandboxes/{box}/sessions/{session}/run", {"command": text}, status=200).json()
    r = run("B=mine; cd /tmp; echo $A $B >/root/x; cat /root/x")
    eq((r["stdout"], r["cwd"], r["new_state"]), ("given mine\n", "/tmp", False))
    for restarts in (False, True):
        hibernate(box, timeout_ms=0)
        if restarts:
            w.kill("api")
            w.ready()
        eq([s["state"] for s in w.get(f"/v1/sandboxes/{box}/sessions")["sessions"]], ["idle"])
        r = run("echo $B; cat /root/x")
        eq((r["stdout"], r["cwd"], r["new_state"], r["ended"]), ("\ngiven mine\n", "/root", True, False))
        eq(run("echo $?")["new_state"], False)
    eq(len(w.get(f"/v1/sandboxes/{box}/sessions")["sessions"]), 1)
    hibernate(box, timeout_ms=0)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: w.client().ask("POST", f"/v1/sandboxes/{box}/sessions/{session}/run", {"command": "true"}), range(8)))
    ok(all(r.status in (200, 409) for r in answers), answers)  # 409: a command of another client runs
    eq([r.json()["new_state"] for r in answers if r.status == 200].count(True), 1)
    w.ask("DELETE", f"/v1/sandboxes/{box}/sessions/{session}", status=204)
    refused(w.ask("POST", f"/v1/sandboxes/{box}/sessions/{session}/run", {"command": "true"}), 404, "session_not_found")
    w.delete(box)


def shells(box):
    """The execs of shells."""
    return w.rows("SELECT id FROM execs WHERE sandbox = ? AND session", box)


@test
def a_session_whose_shell_cannot_start_waits_for_its_next_use():
    box = w.create(image="host")
    sh(box, "cp /bin/sh /root/shell; cp /bin/sh /root/good")
    session = w.ask("POST", f"/v1/sandboxes/{box}/sessions", {"shell": "/root/shell"}, status=201).json()["id"]

    def run(text):
        return w.ask("POST", f"/v1/sandboxes/{box}/sessions/{session}/run", {"command": text})
    eq(run("echo 1").json()["stdout"], "1\n")
    for restarts in (False, True):
        for broken in ("rm -f /root/shell", "rm /root/shell; printf '#!/bin/sh\\nexit 3\\n' >/root/shell; chmod 755 /root/shell"):
            sh(box, broken)
            hibernate(box, timeout_ms=0)
            for _ in range(2):
                r = run("true")
                ok(r.status in (400, 404, 409, 422), (broken, r))
                eq([(s["id"], s["shell"]) for s in w.get(f"/v1/sandboxes/{box}/sessions")["sessions"]],
                   [(session, "/root/shell")])
                # Nothing is left of the shell that did not start, without a restart either.
                until(lambda: len(shells(box)) == 1, shells)
                if restarts:
                    w.kill("api")
                    w.ready()
            sh(box, "rm -f /root/shell; cp /root/good /root/shell")
            r = run("echo 1")
            eq((r.status, r.json()["stdout"], r.json()["new_state"]), (200, "1\n", True), r)
            eq(run("true").json()["new_state"], False)
    eq(len(shells(box)), 1)
    w.ask("DELETE", f"/v1/sandboxes/{box}/sessions/{session}", status=204)
    eq(refused(w.ask("POST", f"/v1/sandboxes/{box}/sessions", {"shell": "/bin/false"}), 409, "wrong_state")["code"], "wrong_state")
    until(lambda: not shells(box), "nothing is left of a session that was not opened")
    w.delete(box)


@test
def a_session_keeps_its_shell_if_another_one_fails():
    box = w.create(image="host", env={"PATH": "/root"})

    def run(text):
        r = w.run(box, ["/bin/sh", "-c", f"PATH=/usr/bin:/bin; cd /root && {text}"])
        eq(r["result"]["exit_code"], 0, r)
    run("ln -s /bin/bash bash; ln -s /bin/sh sh")
    at = f"/v1/sandboxes/{box}/sessions"
    session = w.post(at, {}, status=201)
    eq(session["shell"], "bash")
    # There is no bash, so sh is tried; that is no shell.
    run("rm bash sh; printf '#!/bin/sh\\nexit 3\\n' >sh; chmod 755 sh")
    hibernate(box, timeout_ms=0)
    ok(w.ask("POST", f"{at}/{session['id']}/run", {"command": "true"}).status in (400, 404, 409, 422), "it has no shell")
    for _ in range(2):
        shown = w.get(f"{at}/{session['id']}")
        eq((shown["shell"], shown["created_at"]), ("bash", session["created_at"]))
        w.kill("api")
        w.ready()
    run("rm sh; ln -s /bin/bash bash; ln -s /bin/sh sh")
    r = w.post(f"{at}/{session['id']}/run", {"command": "echo ${BASH:+bash}"})
    eq((r["stdout"], r["new_state"]), ("bash\n", True))
    eq(w.get(f"{at}/{session['id']}")["created_at"], session["created_at"])
    w.delete(box)


@test
def a_full_service_wakes_its_own():
    with World("--quota-sandboxes", "8", config=CONFIGS[BACKEND] + "max:\n  sandboxes: 2\n") as v:
        def run(box):
            return v.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]}, status=200).json()["result"]["exit_code"]

        def full():
            return refused(v.ask("POST", "/v1/sandboxes", {"image": "host", "backend": BACKEND, "wait_ms": 30000}), 429,
                           "quota_exceeded", "max.sandboxes")
        boxes = [v.create(image="host") for _ in range(2)]
        full()
        # The error is about no quota of a tenant, whatever was refused to others before.
        many = {"sandboxes": [{"image": "host", "backend": BACKEND}], "count": 9}
        eq(refused(v.ask("POST", "/v1/sandboxes/batch", many), 429, "quota_exceeded")["detail"]["quota"], "sandboxes")
        ok("quota" not in full()["detail"], full())
        for restarts in (False, True):
            for b in boxes:  # they count while they hibernate, so there is room for them when they wake
                v.ask("POST", f"/v1/sandboxes/{b}/hibernate", {"timeout_ms": 0}, status=200)
                full()
            if restarts:
                v.kill("api", "warden")
                v.start()
                full()
            eq([run(b) for b in boxes], [0, 0])
            full()
        # One that is deleted while it hibernates no longer counts.
        v.ask("POST", f"/v1/sandboxes/{boxes[0]}/hibernate", {"timeout_ms": 0}, status=200)
        v.delete(boxes[0])
        boxes[0] = v.create(image="host")
        full()
        for b in boxes:
            v.delete(b)


@test
def its_files_are_found_after_a_reboot():
    box = w.create(image="host")
    # Containers of a daemon do not end by what this test does.
    lost = w.create(image="host") if BACKEND != "docker" else None
    sh(box, "echo kept >/root/x")
    hibernate(box)
    reboot(w)
    eq(sh(box, "cat /root/x"), "kept\n")
    w.delete(box)
    if lost:
        until(lambda: state(lost) == "lost", lambda: state(lost))
        ok("restarted" in w.get(f"/v1/sandboxes/{lost}")["error"], lost)
        refused(w.ask("POST", f"/v1/sandboxes/{lost}/run", {"argv": ["true"]}), 409, "wrong_state", "lost")
        eq([b["id"] for b in w.get("/v1/sandboxes", query={"state": ["lost"]})["sandboxes"]], [lost])
        eq(w.get(f"/v1/sandboxes/{lost}/wait", query={"state": ["failed"]})["state"], "lost")
        w.delete(lost)


@test
def no_file_is_lost_whenever_the_service_is_killed():
    rng = random.Random(os.environ.get("WARREN_TEST_SEED", "1"))
    box, written = w.create(image="host"), []
    for i in range(16):
        sh(box, f"echo {i} >>/root/x")
        written.append(str(i))
        if i % 2:
            hibernate(box, timeout_ms=0)
        request = ("run", {"argv": ["true"]}) if i % 2 else ("hibernate", {"timeout_ms": 0})

        def ask(request=request):
            with contextlib.suppress(Exception):
                w.client().ask("POST", f"/v1/sandboxes/{box}/{request[0]}", request[1])

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(rng.random() * 0.03)
        who = rng.choice((["api"], ["warden"], ["api", "warden"]))
        w.kill(*who)
        thread.join()
        if "warden" in who:
            w.start()
        w.ready()
        if state(box) == "stopped":
            w.ask("POST", f"/v1/sandboxes/{box}/start", status=200)
        eq(sh(box, "cat /root/x").split(), written, (i, request, who))
    w.delete(box)
    until(lambda: remains() == {}, remains)


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
