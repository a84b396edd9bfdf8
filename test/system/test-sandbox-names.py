#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-sandbox-names.py - a sandbox is found by its name and by a prefix of its id, and names are unique

Prints TAP.
"""
import contextlib
import os
import sqlite3
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import WARREN, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, refused  # pylint: disable=wrong-import-position


def warren(*words, status=0, **env):
    p = subprocess.run([WARREN, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                       env={**os.environ, "WARREN_HOST": f"unix:{w.socket}", **env}, timeout=60, check=False)
    eq(p.returncode, status, f"status of {words}: {p.stderr}")
    return p


@contextlib.contextmanager
def two_with_one_beginning():
    """Creates sandboxes until two ids begin with the same letter; yields these two."""
    boxes = {}
    try:
        while True:
            box = w.create()
            if box[0] in boxes:
                yield boxes[box[0]], box
                w.delete(box)
                return
            boxes[box[0]] = box
    finally:
        for box in boxes.values():
            w.delete(box)


@test
def a_name_works_wherever_an_id_does():
    box = w.create(name="My_app.v1-2", labels={"a": "b"})
    at = "/v1/sandboxes/My_app.v1-2"
    eq(w.get(at)["id"], box)
    eq(w.run("My_app.v1-2", "echo hello")["stdout"], "hello\n")
    e = w.exec("My_app.v1-2", "cat", stdin=True)
    w.post(f"{at}/execs/{e}/stdin/close", status=204)
    eq(w.result("My_app.v1-2", e)["exit_code"], 0)
    w.ask("PUT", f"{at}/files", b"x", query={"path": "/root/f"}, status=201)
    eq(w.ask("GET", f"{at}/files", query={"path": "/root/f"}, status=200).body, b"x")
    s = w.post(f"{at}/sessions", {}, status=201)
    eq(s["sandbox_id"], box)
    eq(w.post(f"{at}/sessions/{s['id']}/run", {"command": "echo $((1+2))"})["stdout"], "3\n")
    w.post(f"{at}/pause")
    eq(w.post(f"{at}/resume")["state"], "running")
    eq(w.ask("PATCH", at, {"labels": {"a": "c"}}, status=200).json()["labels"], {"a": "c"})
    eq(w.get(f"{at}/wait", query={"state": "running"})["reached"], True)
    ok(w.get(f"{at}/stats")["pids"] > 0, "stats")
    refused(w.ask("GET", f"{at}/ports/1/"), 502, "port_closed", box)
    events = w.events("/v1/events", format="ndjson", sandbox_id="My_app.v1-2", since=0)
    eq(next(e for e in events if "sandbox_id" in e)["sandbox_id"], box)
    t = w.post("/v1/tokens", {"name": "t", "scopes": ["read"], "sandbox_id": "My_app.v1-2"}, status=201)
    eq(t["sandbox_id"], box)
    eq(w.get(at, token=t["secret"])["id"], box)
    eq(w.get(f"/v1/sandboxes/{box[:8]}", token=t["secret"])["id"], box)
    other = w.create(name="other")
    refused(w.ask("GET", "/v1/sandboxes/other", token=t["secret"]), 403, "forbidden")
    refused(w.ask("GET", "/v1/sandboxes/absent", token=t["secret"]), 403, "forbidden")
    w.delete("My_app.v1-2")
    refused(w.ask("GET", at), 404, "sandbox_not_found", "My_app.v1-2")
    w.delete(other)


@test
def a_unique_prefix_of_an_id_is_enough():
    with two_with_one_beginning() as (a, b):
        eq(w.get(f"/v1/sandboxes/{a[:11]}")["id"], a)
        n = len(os.path.commonprefix([a, b]))
        refused(w.ask("GET", f"/v1/sandboxes/{a[:n]}"), 409, "ambiguous_id", a[:n], "more of the id")
        refused(w.ask("DELETE", f"/v1/sandboxes/{a[:n]}"), 409, "ambiguous_id")
        eq(w.get(f"/v1/sandboxes/{a[:n + 1]}")["id"], a)
        eq(w.get(f"/v1/sandboxes/{b[:n + 1]}")["id"], b)
        said = warren("show", a[:n], status=125).stderr
        ok("ambiguous" in said and "more of the id" in said, said)
        eq(warren("exec", a[:n + 1], "--", "sh", "-c", "echo $HOSTNAME; hostname").stdout.split()[-1], a)
        # A name takes precedence over a prefix of an id.
        c = w.create(name=a[:n + 1])
        eq(w.get(f"/v1/sandboxes/{a[:n + 1]}")["id"], c)
        # But a full id takes precedence over names.
        d = w.create(name=a)
        eq(w.get(f"/v1/sandboxes/{a}")["id"], a)
        w.delete(c)
        w.delete(d)
    refused(w.ask("GET", "/v1/sandboxes/zzzz"), 404, "sandbox_not_found", "zzzz")


@test
def names_are_unique_for_each_tenant():
    box = w.create(name="one")
    refused(w.ask("POST", "/v1/sandboxes", {"name": "one"}), 409, "name_in_use", "one", box)
    before = len(w.sandboxes())
    refused(w.ask("POST", "/v1/sandboxes/batch", {"sandboxes": [{"name": "twin"}], "count": 2}), 409, "name_in_use", "twin")
    eq(len(w.sandboxes()), before, "sandboxes: all or none")
    said = warren("create", "--name", "one", status=125).stderr
    ok("'one' is in use" in said, said)
    # Each tenant has separate names.
    token = w.token("read", "write", "exec", tenant="other")
    theirs = w.create(name="one", token=token)
    eq(w.get("/v1/sandboxes/one", token=token)["id"], theirs)
    eq(w.get("/v1/sandboxes/one")["id"], box, "the administrator's own")
    w.delete("one")
    for word in ("one", theirs[:3], theirs[:11]):
        refused(w.ask("GET", f"/v1/sandboxes/{word}"), 404, "sandbox_not_found", word)
        refused(w.ask("DELETE", f"/v1/sandboxes/{word}"), 404, "sandbox_not_found", word)
    eq(w.get(f"/v1/sandboxes/{theirs}")["id"], theirs, "by its whole id")
    eq(w.get(f"/v1/sandboxes/{theirs[:11]}", token=token)["id"], theirs, "its own tenant's")
    box = w.create(name="one")
    refused(w.ask("GET", f"/v1/sandboxes/{box[:6]}", token=token), 404, "sandbox_not_found")
    w.delete(box)
    w.delete(theirs)


@test
def a_tenants_name_does_not_capture_an_administrators_id():
    token = w.token("read", "write", tenant="other")
    mine = w.create()
    theirs = [w.create(name=mine[:n], token=token) for n in (4, 11)]
    theirs.append(w.create(name=mine, token=token))
    for n in (4, 11, 12):
        eq(w.get(f"/v1/sandboxes/{mine[:n]}")["id"], mine)
        eq(w.get(f"/v1/sandboxes/{mine[:n]}", token=token)["id"], theirs[(4, 11, 12).index(n)], "to its own tenant it is a name")
    eq(warren("exec", mine[:4], "--", "hostname").stdout.strip(), mine)
    # The client's own names take precedence; another tenant's name is never found.
    own = w.create(name=mine[:4])
    eq(w.get(f"/v1/sandboxes/{mine[:4]}")["id"], own)
    w.delete(mine[:4])
    w.delete(mine[:4])
    eq(w.ask("GET", f"/v1/sandboxes/{own}").status, 404)
    for n in (4, 11, 12):
        refused(w.ask("DELETE", f"/v1/sandboxes/{mine[:n]}"), 404, "sandbox_not_found")
    for box in theirs:
        w.delete(box)


@test
def the_database_refuses_a_duplicate_name():
    box = w.create(name="only")
    owner, = w.rows("SELECT owner FROM sandboxes WHERE id = ?", box)[0]
    copy = f"{w.dir}/copy.db"
    with w.database() as db, contextlib.closing(sqlite3.connect(copy)) as other:
        db.backup(other)
        columns = "state, backend, memory, cpu_millis, disk, created_at, changed_at, expires_at, idle_timeout_ms, last_used"
        insert = (f"INSERT INTO sandboxes (seq, id, owner, name, {columns}) "
                  f"SELECT seq + ?, ?, owner, ?, {columns} FROM sandboxes WHERE id = ?")
        other.execute(insert, (1, "bbbbbbbbbbbb", "another", box))
        try:
            other.execute(insert, (2, "cccccccccccc", "only", box))
        except sqlite3.IntegrityError as e:
            ok("UNIQUE" in str(e), e)
        else:
            raise AssertionError(f"two sandboxes of {owner} have the name 'only'")
    w.delete(box)


@test
def a_sandbox_can_be_renamed():
    box, other = w.create(name="before"), w.create(name="taken")
    refused(w.ask("PATCH", f"/v1/sandboxes/{box}", {"name": "taken"}), 409, "name_in_use", other)
    eq(w.show(box)["name"], "before")
    eq(w.ask("PATCH", "/v1/sandboxes/before", {"name": "before"}, status=200).json()["name"], "before")
    eq(w.ask("PATCH", "/v1/sandboxes/before", {"name": "after"}, status=200).json()["name"], "after")
    eq(w.get("/v1/sandboxes/after")["id"], box)
    refused(w.ask("GET", "/v1/sandboxes/before"), 404, "sandbox_not_found")
    w.kill("api", "warden")
    w.start()
    eq(w.get("/v1/sandboxes/after")["id"], box)
    w.delete(box)
    w.delete(other)


@test
def invalid_names_are_refused():
    for name in ("batch", "", "-a", ".a", "a b", "a/b", "ä", "x" * 64):
        refused(w.ask("POST", "/v1/sandboxes", {"name": name}), 400, "invalid_request", "/name")
    box = w.create(name="x" * 63)
    w.delete("x" * 63)
    refused(w.ask("GET", f"/v1/sandboxes/{box}"), 404, "sandbox_not_found")


if __name__ == "__main__":
    with World() as w:
        failed = run_tests()
    sys.exit(failed)
