#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-diff.py - the changed files of a sandbox are listed, and nothing else"""
import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import WARREN, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import NOBODY, World, family, is_apart, refused, until  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name


def sh(box, text, **kw):
    r = w.run(box, ["sh", "-c", text], **kw)
    eq(r["result"]["exit_code"], 0, r)
    return r["stdout"]


def diff(box, **query):
    return w.ask("GET", f"/v1/sandboxes/{box}/diff", query=query or None, status=200).json()


def changes(box, **query):
    answer = diff(box, **query)
    eq((answer["next_offset"], answer["too_deep"]), (None, False))
    return {c["path"]: c for c in answer["changes"]}


def kinds(box, **query):
    return {path: c["kind"] for path, c in changes(box, **query).items()}


def snapshot(box, name, **kw):
    return w.ask("POST", f"/v1/sandboxes/{box}/snapshots", {"name": name}, status=201, **kw).json()["id"]


def warren(*args):
    return subprocess.run([WARREN, *args], env={**os.environ, "WARREN_HOST": f"unix:{w.socket}"}, capture_output=True, text=True, check=False)


@test
def a_new_sandbox_has_no_changes_and_later_exactly_its_own():
    box = w.create(image="host")
    eq(kinds(box), {})
    sh(box, "mkdir /srv/d; printf abc >/srv/d/x; chmod 640 /srv/d/x; chown 12:34 /srv/d/x; rm /etc/login.defs; echo x >>/etc/profile;"
            "chmod 600 /etc/passwd; chmod 644 /etc/passwd; echo gone >/srv/gone; rm /srv/gone")
    eq(kinds(box), {"/srv/d": "added", "/srv/d/x": "added", "/etc/login.defs": "deleted", "/etc/profile": "changed"})
    x = changes(box)["/srv/d/x"]
    eq((x["type"], x["size"], x["mode"], x["uid"], x["gid"]), ("file", 3, "0640", 12, 34))
    ok("path_base64" not in x, x)
    w.delete(box)


@test
def paused_stopped_and_hibernating_sandboxes_are_compared():
    box = w.create(image="host")
    sh(box, "echo x >/srv/x")
    for word, state in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
        w.ask("POST", f"/v1/sandboxes/{box}/{word}", status=200)
        eq(kinds(box), {"/srv/x": "added"})
        eq(w.get(f"/v1/sandboxes/{box}")["state"], state)
    w.ask("POST", f"/v1/sandboxes/{box}/hibernate", status=200)
    eq(kinds(box), {"/srv/x": "added"})
    w.delete(box)


@test
def odd_names_are_exact():
    box = w.create(image="host")
    names = [b"new\nline", b"tab\tand\\backslash", b"\xff\xfe", b"\x1b[31mred", b"-rf", b"quote\"'", "gr\u00fc\u00dfe".encode(), b"x" * 255]
    sh(box, "cd /srv && python3 -c 'import sys,base64\nfor n in sys.argv[1:]: open(base64.b64decode(n), \"w\")' "
       + " ".join(base64.b64encode(n).decode() for n in names))
    found = {base64.b64decode(c["path_base64"]) if "path_base64" in c else c["path"].encode() for c in diff(box)["changes"]}
    eq(found, {b"/srv/" + n for n in names})
    p = subprocess.run([WARREN, "diff", box], env={**os.environ, "WARREN_HOST": f"unix:{w.socket}"}, capture_output=True, check=True)
    ok(b"A /srv/new\\012line\n" in p.stdout and b"\\033[31mred" in p.stdout and b"\x1b" not in p.stdout, p)
    eq(len(p.stdout.splitlines()), len(names))
    w.delete(box)


@test
def many_changes_come_in_pages():
    box = w.create(image="host", limits={"disk": "100m"})
    sh(box, "python3 -c 'import os\nos.mkdir(\"/srv/d\")\nfor i in range(3000): open(f\"/srv/d/{i}\", \"w\")'")
    seen, offset = [], 0
    while offset is not None:
        page = diff(box, limit=1000, offset=offset)
        ok(len(page["changes"]) <= 1000, len(page["changes"]))
        seen += [c["path"] for c in page["changes"]]
        offset = page["next_offset"]
    eq((len(seen), len(set(seen))), (3001, 3001))
    p = subprocess.run([WARREN, "diff", "--json", box], env={**os.environ, "WARREN_HOST": f"unix:{w.socket}"}, capture_output=True, check=True)
    eq(len(json.loads(p.stdout)), 3001)
    for query in ({"limit": 0}, {"limit": 20001}, {"offset": -1}):
        refused(w.ask("GET", f"/v1/sandboxes/{box}/diff", query=query), 400, "invalid_request")
    w.delete(box)


@test
def a_sandbox_is_compared_with_its_snapshot():
    box = w.create(image="host")
    sh(box, "cd /srv; mkdir -p d/e; echo 1 >d/e/same; echo 2 >d/changed; echo 3 >gone; mkdir old; echo 4 >old/f; rm /etc/login.defs;"
            "rm -rf /etc/security; mkdir /etc/security; echo own >/etc/security/own")
    one = snapshot(box, "diff-one")
    eq(kinds(box, snapshot="diff-one"), {})
    eq(kinds(box, snapshot=one), {})
    sh(box, "cd /srv; echo more >>d/changed; rm gone; rm -r old; echo 5 >d/new; echo defs >/etc/login.defs; rm -rf /etc/security; mkdir /etc/pam2;"
            "echo x >/etc/profile; touch -d 2001-01-01 d")
    expected = {"/srv/d/changed": "changed", "/srv/gone": "deleted", "/srv/old": "deleted", "/srv/d/new": "added", "/etc/login.defs": "added",
                "/etc/security": "deleted", "/etc/pam2": "added", "/etc/profile": "changed"}
    eq(kinds(box, snapshot="diff-one"), expected)
    eq(kinds(box)["/srv/d/e/same"], "added")
    eq(changes(box, snapshot=one)["/srv/gone"]["size"], 2)
    p = warren("diff", box, "diff-one")
    eq(sorted(p.stdout.splitlines()), sorted(f"{k[0].upper()} {path}" for path, k in expected.items()), p)
    eq({c["path"]: c["kind"] for c in json.loads(warren("diff", "--json", box, one).stdout)}, expected)
    w.ask("POST", f"/v1/sandboxes/{box}/reset", status=200)
    eq(kinds(box, snapshot="diff-one")["/srv/d"], "deleted")
    w.delete(box)
    w.ask("DELETE", "/v1/snapshots/diff-one", status=204)


@test
def a_snapshot_of_a_sandbox_on_a_snapshot_has_several_layers():
    box = w.create(image="host")
    sh(box, "mkdir -p /srv/d/e; echo 1 >/srv/d/e/one; echo 1 >/srv/d/gone; echo 1 >/srv/both; mkdir /srv/hidden; echo 1 >/srv/hidden/f")
    snapshot(box, "diff-low")
    second = w.create(image="diff-low")
    eq(kinds(second, snapshot="diff-low"), {})
    sh(second, "cd /srv; rm d/gone; echo 2 >>both; echo 2 >d/e/two; rm -rf hidden; mkdir hidden; echo 2 >hidden/g; rm -rf /etc/pam.d; echo f >/etc/pam.d")
    eq(kinds(second, snapshot="diff-low"), kinds(second))
    snapshot(second, "diff-high")
    eq(kinds(second, snapshot="diff-high"), {})
    eq(kinds(box, snapshot="diff-low"), {})
    found = kinds(box, snapshot="diff-high")
    ok(found.pop("/etc/pam.d/common-auth", "added") == "added", found)
    found = {path: kind for path, kind in found.items() if not path.startswith("/etc/pam.d/")}
    eq(found, {"/srv/d/gone": "added", "/srv/both": "changed", "/srv/d/e/two": "deleted", "/srv/hidden/f": "added", "/srv/hidden/g": "deleted",
               "/etc/pam.d": "changed"})
    # Not the same base: a snapshot of the first sandbox does not begin with the image of the second.
    sh(box, "echo 3 >/srv/third")
    snapshot(box, "diff-other")
    refusal = refused(w.ask("GET", f"/v1/sandboxes/{second}/diff", query={"snapshot": "diff-other"}), 400, "invalid_request")
    ok("do not begin with the image" in refusal["message"], refusal)
    for each in (box, second):
        w.delete(each)
    for name in ("diff-low", "diff-high", "diff-other"):
        w.ask("DELETE", f"/v1/snapshots/{name}", status=204)


def comparing():
    """The processes of the warden that read files of a sandbox: with its ids, but outside of it."""
    found = set()
    for p, (parent, state) in family().items():
        with contextlib.suppress(OSError):
            if parent == w.warden and state not in "ZX" and not is_apart(p) \
                    and os.readlink(f"/proc/{p}/ns/user") != os.readlink(f"/proc/{w.warden}/ns/user"):
                found.add(p)
    return found


@test
def a_long_comparison_delays_nothing_and_ends_with_its_client():
    box = w.create(image="host", limits={"disk": "100m"})
    # Each name is compared for itself: that takes minutes.
    sh(box, "head -c 30000000 /dev/urandom >/srv/0; mkdir /srv/d; python3 -c 'import os\nfor i in range(20000): os.link(\"/srv/0\", f\"/srv/d/{i}\")'")
    snapshot(box, "diff-slow")
    query = {"snapshot": "diff-slow"}
    refused(w.ask("GET", f"/v1/sandboxes/{box}/diff", query={**query, "timeout_ms": 1000}), 504, "timeout", "more than 1 seconds")
    until(lambda: not comparing(), comparing)
    with w.client() as client:
        client.open().request("GET", f"/v1/sandboxes/{box}/diff?snapshot=diff-slow")
        until(comparing, "it compares")
        w.ask("POST", f"/v1/sandboxes/{box}/pause", status=200)
        w.ask("POST", f"/v1/sandboxes/{box}/resume", status=200)
        sh(box, "echo x >/srv/x", undoable=True)
        sh(box, "rm /srv/x")
        ok(comparing(), "it still compares")
    until(lambda: not comparing(), comparing)
    # It ends with the api, too.
    with w.client() as client:
        client.open().request("GET", f"/v1/sandboxes/{box}/diff?snapshot=diff-slow")
        until(comparing, "it compares")
        w.kill("api")
        until(lambda: not comparing(), comparing)
    until(w.answers, "it answers")
    # It ends with the files of the sandbox, which it would keep.
    with w.client() as client:
        connection = client.open()
        connection.request("GET", f"/v1/sandboxes/{box}/diff?snapshot=diff-slow")
        until(comparing, "it compares")
        w.delete(box)
        answer = connection.getresponse()
        eq((answer.status, json.loads(answer.read())["code"]), (409, "wrong_state"))
    until(lambda: not comparing(), comparing)
    w.ask("DELETE", "/v1/snapshots/diff-slow", status=204)


@test
def a_stopped_sandbox_hibernates_when_it_has_been_compared():
    box = w.create(image="host", limits={"disk": "100m"})
    sh(box, "head -c 30000000 /dev/urandom >/srv/0; mkdir /srv/d; for i in $(seq 100); do ln /srv/0 /srv/d/$i; done")
    snapshot(box, "diff-stopped")
    sh(box, "echo x >/srv/x")
    w.ask("POST", f"/v1/sandboxes/{box}/stop", status=200)
    answers = {}

    def ask(what, *request):
        def run():
            answers[what] = w.client().ask(*request)
        threads.append(threading.Thread(target=run))
        threads[-1].start()
    threads = []
    ask("diff", "GET", f"/v1/sandboxes/{box}/diff?snapshot=diff-stopped")
    pid = until(comparing, "it compares").pop()
    os.kill(pid, signal.SIGSTOP)
    try:
        ask("hibernate", "POST", f"/v1/sandboxes/{box}/hibernate", {"timeout_ms": 25000})
        time.sleep(0.5)
        eq((answers, w.get(f"/v1/sandboxes/{box}")["state"]), ({}, "stopped"))
    finally:
        os.kill(pid, signal.SIGCONT)
    for t in threads:
        t.join()
    eq({what: r.status for what, r in answers.items()}, {"diff": 200, "hibernate": 200}, answers)
    eq([c["path"] for c in answers["diff"].json()["changes"]], ["/srv/x"])
    eq(w.get(f"/v1/sandboxes/{box}")["state"], "hibernated")
    w.delete(box)
    w.ask("DELETE", "/v1/snapshots/diff-stopped", status=204)


@test
def a_snapshot_of_another_tenant_does_not_exist():
    box = w.create(image="host")
    other = w.token("read", "write", "exec", "files", tenant="other")
    theirs = w.ask("POST", "/v1/sandboxes", {"image": "host"}, token=other, status=201).json()["id"]
    ids = [snapshot(theirs, "diff-theirs", token=other), "diff-theirs", "diff-none", NOBODY]
    words = set()
    for word in ids:
        answer = refused(w.ask("GET", f"/v1/sandboxes/{box}/diff", query={"snapshot": word}), 404, "snapshot_not_found")
        words.add(answer["message"].replace(word, "X"))
    eq(len(words), 1, words)
    eq(w.ask("GET", f"/v1/sandboxes/{theirs}/diff", query={"snapshot": "diff-theirs"}, token=other, status=200).json()["changes"], [])
    refused(w.ask("GET", f"/v1/sandboxes/{box}/diff", query={"snapshot": "../x"}), 400, "invalid_request")
    p = warren("diff", box, "../x")
    ok(p.returncode != 0 and "is not the name of a snapshot" in p.stderr, p)
    p = warren("diff", box, "diff-none")
    ok(p.returncode != 0 and "diff-none" in p.stderr, p)
    w.ask("DELETE", f"/v1/sandboxes/{theirs}", token=other)
    w.ask("DELETE", "/v1/snapshots/diff-theirs", token=other, status=204)
    w.delete(box)


@test
def only_the_tenant_of_a_sandbox_sees_its_changes():
    box = w.create(image="host")
    other = w.token("read", "write", "exec", "files", tenant="other")
    refused(w.ask("GET", f"/v1/sandboxes/{box}/diff", token=other), 404, "sandbox_not_found")
    refused(w.ask("GET", f"/v1/sandboxes/{NOBODY}/diff"), 404, "sandbox_not_found")
    reader = w.token("read")
    refused(w.ask("GET", f"/v1/sandboxes/{box}/diff", token=reader), 403, "forbidden")
    eq(w.ask("GET", f"/v1/sandboxes/{box}/diff", token=w.token("files")).status, 200)
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
