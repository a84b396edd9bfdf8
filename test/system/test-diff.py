#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-diff.py - the changed files of a sandbox are listed, and nothing else"""
import base64
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import WARREN, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import NOBODY, World, refused  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name


def sh(box, text, **kw):
    r = w.run(box, ["sh", "-c", text], **kw)
    eq(r["result"]["exit_code"], 0, r)
    return r["stdout"]


def diff(box, **query):
    return w.ask("GET", f"/v1/sandboxes/{box}/diff", query=query or None, status=200).json()


def changes(box):
    answer = diff(box)
    eq((answer["next_offset"], answer["too_deep"]), (None, False))
    return {c["path"]: c for c in answer["changes"]}


def kinds(box):
    return {path: c["kind"] for path, c in changes(box).items()}


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
