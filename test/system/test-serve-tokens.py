#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-serve-tokens.py - permissions: tokens, tenants, quotas"""
import json
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, test, ok, eq, run_tests  # pylint: disable=wrong-import-position
from serve_world import NOBODY, World, check_error, together  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name


# ---------------------------------------------------------------------- permissions


@test
def tokens_allow_what_their_scopes_say():
    with w.box() as b:
        at = f"/v1/sandboxes/{b}"
        tries = {"read": ("GET", at, None, 200), "write": ("PATCH", at, {"labels": {}}, 200),
                 "exec": ("POST", at + "/run", {"command": "true"}, 200),
                 "tokens": ("GET", "/v1/tokens", None, 200), "metrics": ("GET", "/metrics", None, 200)}
        for tcp in (False, True):
            for scope in ("read", "write", "exec", "files", "images", "tokens", "metrics", "admin"):
                t = w.token(scope)
                for needed, (method, path, body, good) in tries.items():
                    r = w.ask(method, path, body, token=t, tcp=tcp)
                    if scope in (needed, "admin"):
                        eq(r.status, good, f"{scope}: {method} {path}: {r}")
                    else:
                        eq(check_error(r, 403, "forbidden")["detail"]["scope"], needed, "the scope that lacks")


@test
def expired_and_revoked_tokens_are_refused():
    t = w.post("/v1/tokens", {"name": "short", "scopes": ["read"], "expires_in_ms": 1000}, status=201)
    u = w.post("/v1/tokens", {"name": "revoked", "scopes": ["read"]}, status=201)
    for x in (t, u):
        w.get("/v1/sandboxes", token=x["secret"], tcp=True)
    ok(not any(u["secret"] in json.dumps(x) for x in w.get("/v1/tokens")["tokens"]), "a secret is shown twice")
    with open(f"{w.state}/serve/warren.db", "rb") as f:
        ok(u["secret"].encode() not in f.read(), "a secret is in the database")
    ok(u["secret"] not in w.said(), "a secret is in the log")
    w.ask("DELETE", f"/v1/tokens/{u['id']}", status=204)
    time.sleep(1.1)
    for x in (t["secret"], u["secret"], "wrn_" + "0" * 32, "", "x" * 5000):
        r = w.ask("GET", "/v1/sandboxes", tcp=True, headers={"Authorization": f"Bearer {x}"})
        check_error(r, 401, "unauthorized")
        eq(r.headers.get("www-authenticate"), "Bearer", "WWW-Authenticate")
    # A wrong token is also refused on the unix socket, where no token is needed.
    check_error(w.ask("GET", "/v1/sandboxes", token=u["secret"]), 401, "unauthorized")
    check_error(w.ask("DELETE", f"/v1/tokens/{NOBODY}"), 404)


@test
def no_token_creates_one_with_more_rights():
    t = w.token("tokens", "read", tenant="small")
    check_error(w.ask("POST", "/v1/tokens", {"name": "x", "scopes": ["write"]}, token=t), 403, "forbidden")
    check_error(w.ask("POST", "/v1/tokens", {"name": "x", "scopes": ["admin"]}, token=t), 403, "forbidden")
    check_error(w.ask("POST", "/v1/tokens", {"name": "x", "scopes": ["read"], "tenant": "local"}, token=t), 403)
    u = w.post("/v1/tokens", {"name": "x", "scopes": ["read"]}, token=t, status=201)
    eq((u["tenant"], u["expires_at"]), ("small", None), "tenant and end")
    # A new token cannot outlive the one that created it, whatever its scopes.
    for scope in ("tokens", "admin"):
        m = w.post("/v1/tokens", {"name": "m", "scopes": [scope], "expires_in_ms": 600000}, status=201)
        short = {"name": "x", "scopes": ["tokens"], "expires_in_ms": 60000}
        ok(w.post("/v1/tokens", short, token=m["secret"], status=201)["expires_at"] < m["expires_at"], "a shorter one")
        eq(w.post("/v1/tokens", {"name": "x", "scopes": ["tokens"]}, token=m["secret"], status=201)["expires_at"],
           m["expires_at"], "the end of one that does not say")
        check_error(w.ask("POST", "/v1/tokens", {**short, "expires_in_ms": 6000000}, token=m["secret"]), 403, "forbidden")
    mine = {x["tenant"] for x in w.get("/v1/tokens", token=t)["tokens"]}
    eq(mine, {"small"}, "tenants whose tokens are listed")
    other = next(x["id"] for x in w.get("/v1/tokens")["tokens"] if x["tenant"] != "small")
    check_error(w.ask("DELETE", f"/v1/tokens/{other}", token=t), 404)


@test
def objects_of_another_tenant_are_not_found():
    everything = ("read", "write", "exec", "files")
    a, b = w.token(*everything, tenant="left"), w.token(*everything, tenant="right")
    theirs = w.create(token=a)
    e = w.exec(theirs, "sleep 100", token=a)
    eq(w.show(theirs, token=a)["owner"], "left", "owner")
    at, none = f"/v1/sandboxes/{theirs}", f"/v1/sandboxes/{NOBODY}"
    for method, path, body in (("GET", "", None), ("DELETE", "", None), ("PATCH", "", {"labels": {}}),
                               ("POST", "/pause", None), ("POST", "/resume", None), ("POST", "/run", {"command": "id"}),
                               ("POST", "/execs", {"command": "id"}), ("GET", "/execs", None),
                               ("GET", f"/execs/{e}", None), ("GET", f"/execs/{e}/output", None),
                               ("POST", f"/execs/{e}/signal", {"signal": "KILL"}), ("GET", "/stats", None),
                               ("GET", "/wait?state=running", None), ("POST", f"/execs/{e}/stdin", None),
                               ("GET", "/files?path=/etc/passwd", None), ("GET", "/ports/80/", None),
                               ("POST", "/sessions", {}), ("GET", "/sessions", None)):
        r, control = w.ask(method, at + path, body, token=b), w.ask(method, none + path, body, token=b)
        eq(r.status, control.status, f"status of {method} {path}")
        if r.status != 501:  # a 501 reveals nothing about other tenants
            eq(r.status, 404, f"status of {method} {path}")

        def plain(x, name):
            return re.sub('"request_id":"[^"]*"', "", x.body.decode()).replace(name, "ID")
        eq(plain(r, theirs), plain(control, NOBODY), f"answer to {method} {path}")
        eq(sorted(r.headers), sorted(control.headers), f"headers of {method} {path}")
    eq(w.get("/v1/sandboxes", token=b)["sandboxes"], [], "list")
    check_error(w.ask("GET", "/v1/sandboxes?owner=left", token=b), 403, "forbidden")
    mine = w.create(token=b)
    check_error(w.ask("GET", f"/v1/sandboxes/{mine}/execs/{e}", token=b), 404, "exec_not_found")
    with w.client(token=b) as c:
        r = c.send("GET", "/v1/events?format=ndjson&since=0")
        owners = set()
        while True:
            event = json.loads(r.readline())
            owners.add(event.get("owner", "right"))
            if event.get("sandbox_id") == mine and event["type"] == "sandbox.running":
                break
        eq(owners, {"right"}, "whose events are heard")
    eq(w.show(theirs, token=a)["state"], "running", "state after all that")
    eq({s["id"] for s in w.sandboxes()}, {mine, theirs}, "what an admin sees")
    w.empty()


@test
def a_tenant_has_the_quota_of_the_configuration():
    """The quota at the creation of the tenant does not matter; sandboxes above a new quota stay."""
    with World("--quota-sandboxes", "2") as q:
        t = q.token("read", "write", "exec", tenant="early")
        q.create(token=t)
        box = q.create(token=t)
        for quota in ("3", "1", "none", "4"):
            q.stop()
            q.options = ["--quota-sandboxes", quota]
            q.start()
            eq(len(q.get("/v1/sandboxes", token=t)["sandboxes"]), 2, f"with a quota of {quota}")
            for _ in range(0 if quota == "1" else 3 if quota == "none" else int(quota) - 2):
                q.create(token=t)
            if quota != "none":
                e = check_error(q.ask("POST", "/v1/sandboxes", {}, token=t), 429, "quota_exceeded")
                eq((e["detail"]["quota"], e["detail"]["maximum"]), ("sandboxes", int(quota)), "what is denied")
            for s in q.get("/v1/sandboxes", token=t)["sandboxes"][:-2]:
                q.delete(s["id"], token=t)
        eq(q.run(box, "echo here", token=t)["stdout"], "here\n", "a sandbox that was there before")
        # The same applies to later tenants and to the machine's owner.
        late = q.token("read", "write", tenant="late")
        for token in (late, None):
            ids = [q.create(token=token) for _ in range(4)]
            check_error(q.ask("POST", "/v1/sandboxes", {}, token=token), 429, "quota_exceeded")
            for s in ids:
                q.delete(s, token=token)


@test
def quotas_are_exact():
    with World("--quota-sandboxes", "7", "--quota-execs", "5", "--quota-memory", "4g", tcp=True) as q:
        t = q.token("read", "write", "exec", "files", tenant="many")

        def create(i):
            return q.ask("POST", "/v1/sandboxes", {}, token=t, tcp=i % 2 == 0)
        answers = together(50, create)
        made = [r for r in answers if r.status == 201]
        eq(len(made), 7, f"sandboxes made: {answers}")
        for r in answers:
            if r.status != 201:
                e = check_error(r, 429, "quota_exceeded")
                eq((e["detail"]["quota"], e["detail"]["maximum"]), ("sandboxes", 7), "the quota")
                ok(int(r.headers["retry-after"]) >= 1, r.headers)
        q.create()  # another tenant has its own quota
        first = made[0].json()["id"]
        q.delete(first, token=t)
        eq([create(i).status for i in range(2)], [201, 429], "after one was deleted")
        ids = [s["id"] for s in q.get("/v1/sandboxes", token=t)["sandboxes"]]
        check_error(q.ask("POST", "/v1/sandboxes/batch", {"sandboxes": [{}], "count": 2}, token=t), 429, "quota_exceeded")
        starts = together(20, lambda i: q.ask("POST", f"/v1/sandboxes/{ids[i % 7]}/execs", {"command": "sleep 100"}, token=t))
        eq(sorted(r.status for r in starts), [201] * 5 + [429] * 15, "execs")
        # A refused exec never begins; the service's own count is separate from the tenant's.
        check_error(q.ask("POST", f"/v1/sandboxes/{ids[0]}/run", {"command": "echo >/tmp/ran"}, token=t), 429, "quota_exceeded")
        missing = q.ask("GET", f"/v1/sandboxes/{ids[0]}/files/stat?path=/tmp/ran", token=t)
        eq(missing.status, 404, f"what a refused exec made: {missing}")
        e = next(r for r in starts if r.status == 201).json()
        q.post(f"/v1/sandboxes/{e['sandbox_id']}/execs/{e['id']}/signal", {"signal": "KILL"}, status=204)
        q.result(e["sandbox_id"], e["id"])
        q.post(f"/v1/sandboxes/{ids[0]}/run", {"command": "echo >/tmp/ran"}, token=t)
        eq(q.ask("GET", f"/v1/sandboxes/{ids[0]}/files/stat?path=/tmp/ran", token=t).status, 200, "what one that is not refused makes")
        eq(q.ask("POST", f"/v1/sandboxes/{ids[0]}/execs", {"command": "sleep 100"}, token=t).status, 201, "after one ended")
        check_error(q.ask("POST", "/v1/sandboxes", {"limits": {"memory": "8g"}}), 429, "quota_exceeded")
        # The counts match the existing objects, even after a crash.
        q.kill("api", "warden")
        q.start()
        eq(create(0).status, 429, "after a restart")
        eq(q.rows("SELECT sandboxes, execs FROM tenants WHERE name = 'many'"), [(7, 5)], "what is counted")
        q.empty()
        eq(q.rows("SELECT sandboxes, execs, memory, cpu_millis, disk FROM tenants WHERE name = 'many'"),
           [(0, 0, 0, 0, 0)], "what is counted of nothing")


def main():
    global w  # pylint: disable=global-statement
    try:
        with World("--quota-sandboxes", "none", tcp=True) as w:
            return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
