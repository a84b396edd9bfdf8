#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-serve-prune.py - tokens and shells of closed sessions are deleted when they expire; keys are kept until then

Prints TAP.
"""
import contextlib
import os
import sqlite3
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import WAIT, World, check_error, until  # pylint: disable=wrong-import-position

DAY = 24 * 3600 * 1000


def rows(w, text, *args):
    with contextlib.closing(sqlite3.connect(f"{w.state}/serve/warren.db", timeout=WAIT)) as db, db:
        return db.execute(text, args).fetchall()


def journals(w):
    """Names of journals that belong to execs, without spare ones."""
    return set(os.listdir(f"{w.state}/serve/journals")) & {name for name, in rows(w, "SELECT journal FROM execs")}


@test
def expired_tokens_are_deleted_after_a_day():
    with World() as w:
        def made(**spec):
            return w.post("/v1/tokens", {"name": "test", "scopes": ["read"], **spec}, status=201)["id"]
        revoked, lately = [made() for _ in range(300)], made()
        expired, lasting, endless = made(expires_in_ms=1000), made(expires_in_ms=3600 * 1000), made()
        for t in (*revoked, lately):
            w.ask("DELETE", f"/v1/tokens/{t}", status=204)
        w.stop()

        rows(w, f"UPDATE tokens SET revoked_at = revoked_at - {DAY} - 60000 WHERE revoked_at <> 0 AND id <> ?", lately)
        rows(w, f"UPDATE tokens SET expires_at = expires_at - {DAY} - 60000 WHERE id = ?", expired)
        w.start()
        until(lambda: len(rows(w, "SELECT id FROM tokens")) <= 3, lambda: rows(w, "SELECT count(*) FROM tokens"))
        eq({t for t, in rows(w, "SELECT id FROM tokens")}, {lately, lasting, endless}, "tokens that are left")


@test
def a_closed_session_leaves_no_exec_and_no_journal():
    with World() as w:
        box = w.create()
        kept = w.post(f"/v1/sandboxes/{box}/sessions", {}, status=201)
        for n in range(20):
            s = w.post(f"/v1/sandboxes/{box}/sessions", {}, status=201)
            command = "exit 3" if n % 2 else "echo hello"  # one command that has ended, and one that still runs
            w.post(f"/v1/sandboxes/{box}/sessions/{s['id']}/run", {"command": command})
            w.ask("DELETE", f"/v1/sandboxes/{box}/sessions/{s['id']}", status=204)
        until(lambda: len(rows(w, "SELECT id FROM execs")) == 1, lambda: rows(w, "SELECT id, session, ended_at FROM execs"))
        eq((rows(w, "SELECT id FROM execs"), len(journals(w))), ([(kept["exec_id"],)], 1), "what is left")
        # A session was closed, and the service was killed before it ended the shell.
        s = w.post(f"/v1/sandboxes/{box}/sessions", {}, status=201)
        w.kill("api", "warden")
        rows(w, "DELETE FROM sessions WHERE id = ?", s["id"])
        w.start()
        until(lambda: len(rows(w, "SELECT id FROM execs")) == 1, lambda: rows(w, "SELECT id, session, ended_at FROM execs"))
        eq(w.post(f"/v1/sandboxes/{box}/sessions/{kept['id']}/run", {"command": "echo on"})["stdout"], "on\n", "the one that is open")
        e = w.run(box, "echo kept")["id"]
        ok(e in journals(w), "an exec's output is kept")


@test
def an_idempotency_key_outlives_its_sandbox():
    with World() as w:
        spec = {"idempotency_key": "once", "labels": {"a": "b"}}
        first = w.post("/v1/sandboxes", spec, status=201)["id"]
        eq(w.post("/v1/sandboxes", spec, status=201)["id"], first, "the same again")
        w.delete(first)
        check_error(w.ask("POST", "/v1/sandboxes", spec), 409, "conflict")
        w.kill("api", "warden")

        w.start()
        check_error(w.ask("POST", "/v1/sandboxes", spec), 409, "conflict")
        check_error(w.ask("POST", "/v1/sandboxes", {**spec, "labels": {}}), 409, "idempotency_conflict")
        ok(w.create(idempotency_key="twice") != first, "another key")
        # A failed create may be tried again.
        broken = {"idempotency_key": "broken", "image": "/nonexistent/root"}
        for _ in range(2):
            eq(w.ask("POST", "/v1/sandboxes", broken).status >= 400, True, "what cannot be made")
        eq(rows(w, "SELECT key FROM requests WHERE key = 'broken' AND NOT EXISTS "
                   "(SELECT 1 FROM sandboxes WHERE request_key = 'broken')"), [], "its key")
        w.stop()

        rows(w, f"UPDATE requests SET at = at - {DAY} - 60000")
        w.start()
        until(lambda: not rows(w, "SELECT key FROM requests"), lambda: rows(w, "SELECT key, at FROM requests"))
        again = w.post("/v1/sandboxes", spec, status=201)["id"]
        ok(again != first, "the key is free after a day")
        twice = w.post("/v1/sandboxes", {"idempotency_key": "twice"}, status=201)["id"]
        eq(twice in {s["id"] for s in w.sandboxes()} and len(w.sandboxes()) == 2, True, "a key whose sandbox lives")


@test
def one_tenant_has_a_maximum_of_keys():
    with World() as w:
        w.create()
        w.stop()

        rows(w, """WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100600)
                   INSERT INTO requests (owner, key, hash, at)
                   SELECT 'local', 'key' || i, x'00', (SELECT max(created_at) FROM sandboxes) FROM n""")
        w.start()
        until(lambda: rows(w, "SELECT count(*), min(key = 'key1') FROM requests") == [(100000, 0)],
              lambda: rows(w, "SELECT count(*) FROM requests"))
        ok(rows(w, "SELECT 1 FROM requests WHERE key = 'key100600'"), "the newest")


if __name__ == "__main__":
    run_tests()
