#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-snapshots.py - snapshots keep the files of a sandbox as an image; sandboxes are forked from them and reset to them

WARREN_TEST_BACKEND is the backend of the sandboxes (default: native). Some tools, such as ls(1), do not work in old versions of gVisor.
"""
import contextlib
import glob
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import BACKEND, CONFIGS, IMAGES, World, has, refused, until  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name


def sh(box, text, **kw):
    r = w.run(box, ["sh", "-c", text], **kw)
    eq(r["result"]["exit_code"], 0, r)
    return r["stdout"]


def snapshot(box, name=None, status=201, **kw):
    return w.ask("POST", f"/v1/sandboxes/{box}/snapshots", {"name": name} if name else {}, status=status, **kw).json()


def fork(box, count, status=201):
    r = w.ask("POST", f"/v1/sandboxes/{box}/fork", {"count": count}, status=status).json()
    return [b["id"] for b in r["sandboxes"]] if status == 201 else r


def reset(box):
    eq(w.ask("POST", f"/v1/sandboxes/{box}/reset", None, status=200).json()["state"], "running")


def names():
    return sorted(n for s in w.get("/v1/snapshots")["snapshots"] for n in s["names"])


def drop(word, status=204, force=False):
    return w.ask("DELETE", f"/v1/snapshots/{word}{'?force=true' if force else ''}", status=status)


def stored():
    """The ids of the snapshots that the image store has."""
    out = subprocess.run([f"{BUILD}/warren", "image", "ls", "--json"], capture_output=True, check=True,
                         env={**os.environ, "WARREN_STATE": w.state, "WARREN_LIBEXEC": BUILD}).stdout
    return sorted(n.split("/")[1].split(":")[0] for i in json.loads(out) for n in i["names"] if n.startswith("warren.snapshot/"))


@test
def a_snapshot_has_the_files_of_its_instant():
    box = w.create(image="host")
    sh(box, "mkdir /srv/d; echo one >/srv/d/x; chown 12:34 /srv/d/x; chmod 640 /srv/d/x; ln /srv/d/x /srv/y; ln -s d/x /srv/z; rm /etc/login.defs")
    made = snapshot(box, "ready")
    eq((made["names"], made["source"], made["users"]), (["ready"], box, 0))
    sh(box, "echo two >/srv/d/x")
    other = w.create(snapshot="ready")
    eq(sh(other, "cat /srv/d/x /srv/z; find /srv/d/x -printf '%U %G %m %n\\n'; test ! -e /etc/login.defs && echo gone"),
       "one\none\n12 34 640 2\ngone\n")
    eq(sh(box, "cat /srv/d/x"), "two\n")  # the source continues
    eq(w.get("/v1/snapshots/ready")["users"], 1)
    eq(w.get(f"/v1/sandboxes/{other}")["image"], "ready")
    # A snapshot of that one has both layers.
    sh(other, "echo three >/srv/new")
    snapshot(other, "second")
    third = w.create(snapshot="second:latest")
    eq(sh(third, "cat /srv/d/x /srv/new"), "one\nthree\n")
    for b in (box, other, third):
        w.delete(b)
    drop("ready")
    drop("second")
    eq(names(), [])
    until(lambda: stored() == [], stored)


@test
def without_the_service_an_error_says_how_to_name_a_snapshot():
    def image(*args):
        return subprocess.run([f"{BUILD}/warren", "image", *args], capture_output=True, text=True, check=False,
                              env={**os.environ, "WARREN_STATE": w.state, "WARREN_LIBEXEC": BUILD})
    hint = "is found by its name only with WARREN_HOST (example: WARREN_HOST=unix:"
    ok(hint not in image("save", "-o", "/dev/null", "ready").stderr, "there is no snapshot")
    box = w.create(image="host")
    made = snapshot(box, "ready")
    for args in (("save", "-o", "/dev/null", "ready"), ("tag", "ready", "x:1"), ("inspect", "ready"), ("push", "ready", "127.0.0.1:1/x")):
        r = image(*args)
        ok(r.returncode == 125 and "there is no image 'ready' on this machine" in r.stderr and hint in r.stderr, r)
    if BACKEND != "docker":  # whose snapshots have no other names
        eq(image("tag", made["image"], "x:1").returncode, 0)
        eq(image("rm", "x:1").returncode, 0)
    w.delete(box)
    drop("ready")


@test
def a_directory_that_replaced_another_is_kept():
    box = w.create(image="host")
    sh(box, "rm -rf /home /etc/login.defs; mkdir /home /etc/login.defs; echo 1 >/home/new; rm /etc/group; echo 2 >/etc/group")
    snapshot(box, "replaced")
    other = w.create(snapshot="replaced")
    eq(sh(other, "echo /home/*; test -d /etc/login.defs; cat /etc/group"), "/home/new\n2\n")
    reset(other)
    eq(sh(other, "echo /home/*; test -d /etc/login.defs; cat /etc/group"), "/home/new\n2\n")
    for b in (box, other):
        w.delete(b)
    drop("replaced")


@test
def a_backend_refuses_snapshots_that_it_cannot_use():
    if BACKEND != "docker":
        raise Skip("native and gVisor can use snapshots of each other")
    box = w.create()
    native = w.post("/v1/sandboxes", {"backend": "native", "image": "host"}, status=201)["id"]
    w.seen.add(native)
    snapshot(box, "theirs")
    snapshot(native, "ours")
    for backend, name in (("native", "theirs"), ("docker", "ours")):
        refused(w.ask("POST", "/v1/sandboxes", {"backend": backend, "image": name}), 501, "not_supported", "docker")
    for backend, name in (("native", "ours"), ("docker", "theirs")):  # the control
        other = w.post("/v1/sandboxes", {"backend": backend, "image": name}, status=201)["id"]
        w.seen.add(other)
        w.delete(other)
    for verb in ("save", "push"):
        r = subprocess.run([f"{BUILD}/warren", "image", verb, *(("-o", "/dev/null") if verb == "save" else ()), "theirs", *(("127.0.0.1:9/x",) if verb == "push" else ())],
                           capture_output=True, check=False, env={**os.environ, "WARREN_HOST": f"unix:{w.socket}", "WARREN_LIBEXEC": BUILD})
        ok(r.returncode != 0 and b"docker:sha256" in r.stderr, (verb, r))
    for b in (box, native):
        w.delete(b)
    drop("theirs")
    drop("ours")


@test
def a_snapshot_is_taken_while_files_are_written():
    box = w.create(image="host")
    w.ask("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["sh", "-c", "i=0; while :; do echo $i >/srv/a; echo $i >/srv/b; i=$((i+1)); done"]})
    until(lambda: sh(box, "cat /srv/b 2>/dev/null || true") != "", "nothing was written")
    for _ in range(3):
        snapshot(box, "busy")
        other = w.create(snapshot="busy")
        a, b = sh(other, "cat /srv/a").strip(), sh(other, "cat /srv/b").strip()
        # The loop writes a before b, so at any instant a is b or one ahead; either may be empty while it is truncated.
        ok(a == "" or b == "" or 0 <= int(a) - int(b) <= 1, (a, b))
        w.delete(other)
    before = int(sh(box, "cat /srv/a").strip() or 0)
    until(lambda: int(sh(box, "cat /srv/a").strip() or 0) > before, "the sandbox does not continue")
    w.delete(box)
    drop("busy")


@test
def names_move_and_are_removed():
    box = w.create(image="host")
    sh(box, "echo 1 >/srv/x")
    first = snapshot(box, "n")["id"]
    eq(w.ask("POST", "/v1/snapshots/n/tag", {"name": "n:v1"}, status=200).json()["names"], ["n", "n:v1"])
    sh(box, "echo 2 >/srv/x")
    second = snapshot(box, "n")["id"]
    eq(w.get("/v1/snapshots/n:v1")["id"], first)
    eq(w.get("/v1/snapshots/n")["id"], second)
    user = w.create(snapshot="n:v1")
    eq(sh(user, "cat /srv/x"), "1\n")
    refused(drop("n:v1", status=409), 409, "snapshot_in_use")
    drop("n:v1", force=True)
    eq(names(), ["n"])
    eq(sh(user, "cat /srv/x"), "1\n")
    reset(user)
    eq(sh(user, "cat /srv/x"), "1\n")
    w.delete(user)
    until(lambda: stored() == [second], stored)  # the first is gone with its last user
    drop("n")
    refused(drop("n", status=404), 404, "snapshot_not_found")
    until(lambda: stored() == [], stored)
    w.delete(box)


@test
def bad_names_are_refused():
    box = w.create(image="host")
    for name in ("../x", "a/b", "A", "x" * 64, "a:", "a:b:c", "a b", "host", "host:latest", "1a", ""):
        r = w.ask("POST", f"/v1/sandboxes/{box}/snapshots", {"name": name})
        eq((name, r.status), (name, 400))
    for image in ("warren.snapshot/abc", "WARREN.SNAPSHOT/abc:latest"):
        refused(w.ask("POST", "/v1/sandboxes", {"image": image}), 400, "invalid_request")
    eq(names(), [])
    w.delete(box)


@test
def an_id_comes_before_a_name():
    box = w.create(image="host")
    first = snapshot(box, "first")["id"]
    second = snapshot(box, first)["id"]
    eq(w.get(f"/v1/snapshots/{first}")["id"], first)
    w.ask("DELETE", f"/v1/snapshots/{first}", status=204)
    eq(w.get(f"/v1/snapshots/{second}")["id"], second)
    eq(w.get(f"/v1/snapshots/{first}")["id"], second)  # now it is only a name
    drop(second)
    w.delete(box)


@test
def a_snapshot_has_a_bounded_number_of_names():
    box = w.create(image="host")
    made = snapshot(box, "n0")["id"]
    with w.client() as client:
        for i in range(1, 1000):
            eq(client.ask("POST", f"/v1/snapshots/{made}/tag", {"name": f"n{i}"}).status // 100, 2)
        eq(client.ask("POST", f"/v1/snapshots/{made}/tag", {"name": "more"}).status, 429)
    eq(len(w.get(f"/v1/snapshots/{made}")["names"]), 1000)
    drop(made)
    w.delete(box)


@test
def a_token_for_one_sandbox_makes_no_copies_of_it():
    box = w.create(image="host")
    token = w.token("read", "write", "exec", "files", sandbox_id=box)
    for path, body in (("snapshots", {"name": "golden"}), ("snapshots", {}), ("fork", {"count": 1})):
        r = w.ask("POST", f"/v1/sandboxes/{box}/{path}", body, token=token)
        eq((path, r.status), (path, 403))
        ok(b"not for copies of it" in r.body, r.body)
    eq(w.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]}, token=token).status, 200)  # the control
    eq((names(), len(w.get("/v1/sandboxes")["sandboxes"])), ([], 1))
    if BACKEND == "native":
        other = w.create(image="host")
        snapshot(other, "others")
        snapshot(box, "own")
        for name, status in (("others", 404), ("own", 200)):
            eq(w.ask("GET", f"/v1/sandboxes/{box}/diff", query={"snapshot": name}, token=token).status, status)
        drop("others")
        drop("own")
        w.delete(other)
    w.delete(box)


def images(image, token):
    """Tries every operation on an image: none finds it."""
    for method, path, body, query in (
            ("POST", "tag", {"image": image, "name": "stolen:1"}, None),
            ("GET", "inspect", None, {"image": image}),
            ("GET", "archive", None, {"image": image}),
            ("POST", "push", {"image": image, "name": "127.0.0.1:1/stolen"}, None),
            ("DELETE", "", None, {"image": image})):
        r = w.ask(method, f"/v1/images/{path}".rstrip("/"), body, token=token, query=query)
        found = r.status not in (400, 404) and b'"code":"image_not_found"' not in r.body
        ok(not found, (method, path, image, r.status, r.body[:300]))


@test
def another_tenant_sees_and_uses_nothing():
    box = w.create(image="host")
    sh(box, "echo secret >/srv/x")
    made = snapshot(box, "mine")
    token = w.token("read", "write", "exec", "images", tenant="other")
    eq(w.get("/v1/snapshots", token=token)["snapshots"], [])
    for word in ("mine", made["id"]):
        eq(w.ask("GET", f"/v1/snapshots/{word}", token=token).status, 404)
        eq(w.ask("DELETE", f"/v1/snapshots/{word}", token=token).status, 404)
        eq(w.ask("POST", f"/v1/snapshots/{word}/tag", {"name": "stolen"}, token=token).status, 404)
    words = ("mine", made["id"], made["image"], made["image"][7:], made["image"][:20], made["image"][7:30],
             f"warren.snapshot/{made['id']}", f"warren.snapshot/{made['id']}:latest", f"WARREN.snapshot/{made['id']}")
    never = {"pull": "never"} if has("image") else {}  # a daemon pulls nothing either, because the token lacks the scope
    for image in words:
        r = w.ask("POST", "/v1/sandboxes", {"image": image, **never}, token=token)
        ok(r.status in (400, 404), (image, r.status, r.body))
        r = w.ask("POST", "/v1/sandboxes/batch", {"sandboxes": [{"image": image, **never}]}, token=token)
        ok(r.status in (201, 400, 404), (image, r.status, r.body))
        for b in r.json()["sandboxes"] if r.status == 201 else ():
            eq(b["state"], "failed", image)
            w.ask("DELETE", f"/v1/sandboxes/{b['id']}", token=token, status=204)
        r = w.ask("POST", "/v1/code", {"language": "bash", "code": "cat /srv/x", "image": image}, token=token)
        ok(r.status >= 400 and b"secret" not in r.body, (image, r.status, r.body))
        images(image, token)
    r = w.ask("POST", "/v1/code", {"language": "bash", "code": "echo one", "image": IMAGES.get(BACKEND, "host")}, token=token, status=200)
    ok(b"one" in r.body, r.body)  # the control
    eq(sh(w.create(snapshot="mine"), "cat /srv/x"), "secret\n")  # the control
    for word in ("mine", made["id"]):
        r = w.ask("POST", "/v1/images/tag", {"image": word, "name": "shown:1"})  # the control
        if BACKEND == "docker":
            refused(r, 501, "not_supported")  # its base is in the daemon alone
            continue
        eq(r.status, 204)
        w.ask("DELETE", "/v1/images", query={"image": "shown:1"}, status=204)
    shown = json.dumps(w.get("/v1/images"))
    ok(made["image"] not in shown and made["id"] not in shown, shown)
    for b in w.get("/v1/sandboxes")["sandboxes"]:
        w.delete(b["id"])
    drop("mine")


@test
def a_fork_has_files_environment_limits_and_labels():
    box = w.create(image="host", env={"A": "b"}, labels={"k": "v"}, limits={"memory": "64m"}, workdir="/srv", ttl_ms=3600000)
    sh(box, "echo x >f; sleep 1000 >/dev/null 2>&1 &")
    copies = fork(box, 5)
    eq(len(set(copies)), 5)
    for c in copies:
        eq(sh(c, "cat f; echo $A; ps ax | grep -c '[s]leep 1000' || true"), "x\nb\n0\n")
        shown = w.get(f"/v1/sandboxes/{c}")
        eq((shown["labels"], shown["limits"]["memory"]), ({"k": "v"}, 64 << 20))
        sh(c, f"echo {c} >f")
    eq(sh(box, "cat f; ps ax | grep -c '[s]leep 1000'"), "x\n1\n")
    eq(sorted(sh(c, "cat f").strip() for c in copies), sorted(copies))
    # What happens when it is idle, or its time has passed.
    w.ask("PATCH", f"/v1/sandboxes/{copies[1]}", {"on_ttl": "hibernate", "idle_timeout_ms": 600000, "on_idle": "delete"}, status=200)
    other, = fork(copies[1], 1)
    shown = w.get(f"/v1/sandboxes/{other}")
    eq([shown[k] for k in ("on_ttl", "on_idle", "idle_timeout_ms")], ["hibernate", "delete", 600000])
    w.delete(other)
    # A fork of a fork, and a fork that hibernates.
    inner, = fork(copies[0], 1)
    eq(sh(inner, "cat f").strip(), copies[0])
    w.ask("POST", f"/v1/sandboxes/{inner}/hibernate", None, status=200)
    eq(sh(inner, "cat f").strip(), copies[0])
    for b in (box, *copies, inner):
        w.delete(b)
    until(lambda: stored() == [], stored)


@test
def a_reset_brings_back_the_image_with_the_same_id():
    box = w.create(image="host", env={"A": "b"})
    sh(box, "echo x >/srv/f; rm /etc/login.defs; sleep 1000 >/dev/null 2>&1 &")
    hosts = sh(box, "cat /etc/hosts")
    reset(box)
    eq(sh(box, "echo /srv/*; test -e /etc/login.defs && echo there; echo $A; ps ax | grep -c '[s]leep 1000' || true"), "/srv/*\nthere\nb\n0\n")
    eq(sh(box, "cat /etc/hosts"), hosts)
    # A paused, a stopped and a hibernating one too.
    for verb in ("pause", "stop", "hibernate"):
        sh(box, "echo x >/srv/f")
        w.ask("POST", f"/v1/sandboxes/{box}/{verb}", None, status=200)
        reset(box)
        eq(sh(box, "echo /srv/*"), "/srv/*\n")
    w.delete(box)


@test
def a_reset_runs_the_main_command_again_and_renews_sessions():
    box = w.create(image="host", main={"argv": ["sh", "-c", "echo run >>/srv/log; exec sleep 1000"]})
    session = w.ask("POST", f"/v1/sandboxes/{box}/sessions", {}, status=201).json()["id"]

    def run(text):
        r = w.ask("POST", f"/v1/sandboxes/{box}/sessions/{session}/run", {"command": text}, status=200).json()
        return r["stdout"], r["new_state"]
    eq(run("A=mine; echo $A"), ("mine\n", False))
    for _ in range(2):
        reset(box)
        until(lambda: sh(box, "cat /srv/log 2>/dev/null || true") == "run\n", "the main command does not run")
        eq(run("echo [$A]"), ("[]\n", True))
        eq(run("A=mine; echo $A"), ("mine\n", False))
    w.delete(box)


@test
def a_reset_goes_back_to_the_snapshot():
    box = w.create(image="host")
    sh(box, "echo 1 >/srv/x")
    snapshot(box, "base")
    other = w.create(snapshot="base")
    sh(box, "echo 2 >/srv/x")
    snapshot(box, "base")  # the name is another's now
    sh(other, "echo 3 >/srv/x")
    w.ask("POST", f"/v1/sandboxes/{other}/hibernate", None, status=200)
    eq(sh(other, "cat /srv/x"), "3\n")
    reset(other)
    eq(sh(other, "cat /srv/x"), "1\n")
    w.delete(other)
    w.delete(box)
    drop("base")


@test
def nothing_is_lost_whenever_the_service_is_killed():
    rng = random.Random(os.environ.get("WARREN_TEST_SEED", "1"))
    box = w.create(image="host")
    sh(box, "dd if=/dev/zero of=/srv/big bs=1M count=20 2>/dev/null; echo 1 >/srv/x")
    for i in range(10):
        answers = []

        def ask(i=i, answers=answers):
            with contextlib.suppress(Exception):
                answers.append(w.client().ask("POST", f"/v1/sandboxes/{box}/snapshots", {"name": f"k{i}"}).status)

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(rng.random() * 0.06)
        who = rng.choice((["api"], ["warden"], ["api", "warden"]))
        w.kill(*who)
        thread.join()
        if "warden" in who:
            w.start()
        w.ready()
        eq(sh(box, "cat /srv/x"), "1\n")  # the sandbox continues
        ok(201 not in answers or f"k{i}" in names(), (i, who, names()))
        if f"k{i}" in names():
            other = w.create(snapshot=f"k{i}")
            eq(sh(other, "cat /srv/x; stat -c %s /srv/big"), "1\n20971520\n")
            w.delete(other)
            drop(f"k{i}")
    w.delete(box)
    until(lambda: stored() == [], stored)


def layers():
    return sorted(os.listdir(f"{w.state}/layers"))


@test
def a_sandbox_continues_if_the_api_is_killed_during_a_copy():
    box = w.create(image="host", limits={"memory": 800 << 20, **({"disk": 400 << 20} if has("disk") else {})})
    sh(box, "dd if=/dev/zero of=/srv/big bs=1M count=150 2>/dev/null; echo 1 >/srv/x")
    before = layers() if os.path.isdir(f"{w.state}/layers") else ["d"]
    for i, (path, body) in enumerate((("snapshots", {}), ("fork", {"count": 2}), ("run", {"argv": ["true"], "undoable": True})) * 3):
        if path == "run" and BACKEND != "native":
            continue

        def ask(path=path, body=body):
            with contextlib.suppress(Exception):
                w.client().ask("POST", f"/v1/sandboxes/{box}/{path}", body)

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(0.03 + i * 0.05)  # while the files are copied, or their checksum is computed
        w.kill("api")
        thread.join()
        w.ready()
        eq(sh(box, "cat /srv/x"), "1\n", path)  # no client has paused it
        eq(w.get(f"/v1/sandboxes/{box}")["state"], "running", path)
    for b in w.get("/v1/sandboxes")["sandboxes"]:
        r = w.ask("DELETE", f"/v1/sandboxes/{b['id']}")
        ok(r.status in (204, 404), r)  # copies of a fork that was killed go by themselves
    for s in w.get("/v1/snapshots")["snapshots"]:
        drop(s["id"])
    until(lambda: stored() == [], stored)
    until(lambda: set(layers()) <= set(before), layers)  # what other tests left may be gone by now


@test
def a_reset_is_completed_whenever_the_service_is_killed():
    rng = random.Random(os.environ.get("WARREN_TEST_SEED", "2"))
    box = w.create(image="host")
    for i in range(10):
        sh(box, "echo 1 >/srv/x")

        def ask():
            with contextlib.suppress(Exception):
                w.client().ask("POST", f"/v1/sandboxes/{box}/reset")

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(rng.random() * 0.02)
        who = rng.choice((["api"], ["warden"], ["api", "warden"]))
        w.kill(*who)
        thread.join()
        if "warden" in who:
            w.start()
        w.ready()
        if w.get(f"/v1/sandboxes/{box}")["state"] == "stopped":
            w.ask("POST", f"/v1/sandboxes/{box}/start", status=200)
        ok(sh(box, "cat /srv/x 2>/dev/null || true") in ("", "1\n"), (i, who))
    reset(box)
    eq(sh(box, "echo /srv/*"), "/srv/*\n")
    w.delete(box)


@test
def deletions_begin_although_many_snapshots_are_being_created():
    """The warden is stopped, so that they stay incomplete."""
    with World() as v:
        tokens, asking = [v.token("read", "write", tenant=f"t{i}") for i in range(2)], []
        boxes = [(v.create(image="host", token=token), token) for token in tokens for _ in range(4)]
        for name in ("kept", "gone"):
            v.ask("POST", f"/v1/sandboxes/{boxes[0][0]}/snapshots", {"name": name}, token=tokens[0], status=201)

        def ask(box, token):
            with v.client(token) as c:
                c.ask("POST", f"/v1/sandboxes/{box}/snapshots", {})
        os.kill(v.warden, signal.SIGSTOP)
        try:
            for box in boxes:
                asking.append(threading.Thread(target=ask, args=box))
                asking[-1].start()
            until(lambda: v.rows("SELECT count(*) FROM snapshots WHERE state = 0") == [(len(boxes),)], "they do not begin")
            v.ask("POST", "/v1/snapshots/kept/tag", {"name": "kept:2"}, token=tokens[0], status=200)  # looks for leftovers
            since = time.monotonic()
            v.ask("DELETE", "/v1/snapshots/gone", token=tokens[0], status=204)
            # The service waits this long for a deletion that has begun.
            ok(time.monotonic() - since >= 4.9, "the deletion has not begun")
        finally:
            os.kill(v.warden, signal.SIGCONT)
        for t in asking:
            t.join()
        eq(v.rows("SELECT count(*) FROM snapshots WHERE state = 1"), [(len(boxes) + 1,)])
        for box, token in boxes:
            v.delete(box, token=token)
        for token in tokens:
            for s in v.get("/v1/snapshots", token=token)["snapshots"]:
                v.ask("DELETE", f"/v1/snapshots/{s['id']}", token=token, status=204)
        until(lambda: v.rows("SELECT count(*) FROM snapshots") == [(0,)], lambda: v.rows("SELECT * FROM snapshots"), seconds=90)


@test
def a_tenant_has_a_quota_of_snapshots():
    with World("--quota-snapshots", "2") as v:
        box = v.create(image="host")
        for i in range(2):
            v.ask("POST", f"/v1/sandboxes/{box}/snapshots", {"name": f"q{i}"}, status=201)
        refused(v.ask("POST", f"/v1/sandboxes/{box}/snapshots", {"name": "q3"}), 429, "quota_exceeded")
        refused(v.ask("POST", f"/v1/sandboxes/{box}/fork", {"count": 2}), 429, "quota_exceeded")
        v.ask("DELETE", "/v1/snapshots/q0", status=204)
        v.ask("POST", f"/v1/sandboxes/{box}/snapshots", {"name": "q3"}, status=201)
        v.delete(box)
        for n in ("q1", "q3"):
            v.ask("DELETE", f"/v1/snapshots/{n}", status=204)


@test
def a_fork_that_exceeds_the_quota_creates_nothing():
    with World("--quota-sandboxes", "3") as v:
        box = v.create(image="host")
        refused(v.ask("POST", f"/v1/sandboxes/{box}/fork", {"count": 3}), 429, "quota_exceeded")
        eq(len(v.get("/v1/sandboxes")["sandboxes"]), 1)
        eq(len(v.ask("POST", f"/v1/sandboxes/{box}/fork", {"count": 2}, status=201).json()["sandboxes"]), 2)  # the control
        for b in v.get("/v1/sandboxes")["sandboxes"]:
            v.delete(b["id"])
        until(lambda: v.rows("SELECT count(*) FROM snapshots") == [(0,)], lambda: v.rows("SELECT * FROM snapshots"))


@test
def a_fork_of_which_one_copy_fails_leaves_nothing():
    with World(config=CONFIGS[BACKEND] + "max:\n  sandboxes: 4\n") as v:
        box = v.create(image="host")
        for _ in range(3):
            refused(v.ask("POST", f"/v1/sandboxes/{box}/fork", {"count": 8}), 429, "quota_exceeded")
            # Each is deleted; none is shown as failed.
            until(lambda: [b["id"] for b in v.get("/v1/sandboxes")["sandboxes"]] == [box], lambda: v.get("/v1/sandboxes"))
        eq(len(v.ask("POST", f"/v1/sandboxes/{box}/fork", {"count": 3}, status=201).json()["sandboxes"]), 3)  # the control
        for b in v.get("/v1/sandboxes")["sandboxes"]:
            v.delete(b["id"])


@test
def a_fork_is_complete_or_gone_whenever_the_service_is_killed():
    rng = random.Random(os.environ.get("WARREN_TEST_SEED", "1"))
    box, count, rounds = w.create(image="host"), *((24, 16) if BACKEND == "native" else (4, 3))
    sh(box, "echo x >/srv/x")
    for i in range(rounds):
        def ask():
            with contextlib.suppress(Exception):
                w.client().ask("POST", f"/v1/sandboxes/{box}/fork", {"count": count})

        thread = threading.Thread(target=ask)
        thread.start()
        # Some of the copies exist already; the source does, too.
        until(lambda n=rng.randrange(1, count): len(glob.glob(f"{w.run_dir}/boxes/*.state")) > n, "the copies are not created")
        who = rng.choice((["api"], ["warden"], ["api", "warden"]))
        w.kill(*who)
        thread.join()
        if "warden" in who:
            w.start()
        w.ready()
        rows = w.rows("SELECT id FROM sandboxes WHERE state = (SELECT state FROM sandboxes WHERE id = ?) AND id != ?", box, box)
        ok(len(rows) in (0, count), (i, who, len(rows)))
        until(lambda n=len(rows): len(w.sandboxes()) == n + 1, w.sandboxes)
        for c in rows:
            eq(sh(c[0], "cat /srv/x"), "x\n")
            w.delete(c[0])
    w.delete(box)
    until(lambda: stored() == [], stored)


@test
def the_beginning_of_an_id_tells_nothing_about_snapshots():
    box = w.create(image="host")
    image = snapshot(box, "mine")["image"].removeprefix("sha256:")
    found, = glob.glob(f"{w.state}/images/**/{image}", recursive=True)
    twin = image[:-1] + ("0" if image[-1] != "0" else "1")
    copy = os.path.join(os.path.dirname(found), twin)
    shutil.copytree(found, copy)

    def record(text):
        with open(f"{copy}/record", "w", encoding="utf-8") as f:
            f.write(text.replace(image, twin))

    def inspect(word):
        r = subprocess.run([f"{BUILD}/warren", "image", "inspect", word], capture_output=True, text=True, check=False,
                           env={**os.environ, "WARREN_STATE": w.state, "WARREN_LIBEXEC": BUILD})
        return r.returncode == 0, r.stdout + r.stderr
    with open(f"{found}/record", encoding="utf-8") as f:
        before = f.read()
    try:
        record(before)  # two snapshots
        for word in (image[:12], image[:63]):
            good, said = inspect(word)
            ok(not good and "there is no image" in said, said)
        record("".join(line + "\n" for line in before.splitlines() if not line.startswith("snapshot ")))
        for word in (image[:12], image[:63], twin):  # only one of them is an image that others may know
            good, said = inspect(word)
            ok(good and twin in said and image not in said, said)
    finally:
        shutil.rmtree(copy)
    w.delete(box)
    drop("mine")


def main():
    global w  # pylint: disable=global-statement
    with World() as w:
        return run_tests()


if __name__ == "__main__":
    sys.exit(main())
