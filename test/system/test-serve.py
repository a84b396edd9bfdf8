#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-serve.py - the service's sandboxes: create, find, change, count, and permissions

Prints TAP. All tests share one service, over its unix socket and TCP. Every answer is checked against the API
description that the service serves.
"""
import contextlib
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from review_world import project  # pylint: disable=wrong-import-position
from serve_world import NOBODY, SERVE, World, check_error, together, until  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name


# --------------------------------------------------------------- API description


class Shape:
    """The part of JSON Schema that the API description uses."""

    def __init__(self, document):
        self.document = document

    def follow(self, schema):
        while "$ref" in schema:
            at = self.document
            for name in schema["$ref"][2:].split("/"):
                at = at[name]
            schema = {**at, **{k: v for k, v in schema.items() if k != "$ref"}}
        return schema

    KINDS = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list, "null": type(None),
             "number": (int, float)}

    def check(self, value, schema, where):
        schema = self.follow(schema)
        for part in schema.get("allOf", []):
            self.check(value, part, where)
        if "oneOf" in schema and all("type" in self.follow(s) for s in schema["oneOf"]):
            fits = 0
            for part in schema["oneOf"]:
                with contextlib.suppress(AssertionError):
                    self.check(value, part, where)
                    fits += 1
            eq(fits, 1, f"{where}: shapes that {value!r} has")
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if kinds:
            ok(any(isinstance(value, self.KINDS[k]) and not (k == "integer" and isinstance(value, bool))
                   for k in kinds), f"{where}: {value!r} is not {kinds}")
        if "enum" in schema:
            ok(value in schema["enum"], f"{where}: {value!r} is none of {schema['enum']}")
        if isinstance(value, str):
            if "pattern" in schema:
                ok(re.search(schema["pattern"], value), f"{where}: {value!r} is not like {schema['pattern']}")
            ok(len(value) <= schema.get("maxLength", len(value)), f"{where}: too long")
        if isinstance(value, int) and not isinstance(value, bool):
            ok(schema.get("minimum", value) <= value <= schema.get("maximum", value), f"{where}: {value} out of bounds")
        if isinstance(value, list) and "items" in schema:
            for i, item in enumerate(value):
                self.check(item, schema["items"], f"{where}/{i}")
        if isinstance(value, dict):
            for name in schema.get("required", []):
                ok(name in value, f"{where}: no {name} in {value}")
            for name, item in value.items():
                if name in schema.get("properties", {}):
                    self.check(item, schema["properties"][name], f"{where}/{name}")

    def answer(self, operation, value, status="2"):
        for methods in self.document["paths"].values():
            for op in methods.values():
                if isinstance(op, dict) and op.get("operationId") == operation:
                    good = next(r for s, r in op["responses"].items() if s.startswith(status))
                    kinds = good["content"]
                    kind = "application/json" if "application/json" in kinds else "application/x-ndjson"
                    self.check(value, kinds[kind]["schema"], operation)
                    return
        raise AssertionError(f"no {operation}")


def works_match(shape):
    with project() as p:
        p.env["WARREN_STATE"] = w.state
        p.put("a", b"1\n")
        p.put("b", b"1\n")
        work = f"/v1/works/{p.work('echo 2 >a; echo 2 >b; mv b c; ln -s /etc out')}"
        shape.answer("list_works", w.get("/v1/works"))
        shape.answer("get_work", w.get(work))
        shape.answer("list_work_changes", w.get(work + "/changes"))
        shape.answer("reject_work", w.post(work + "/reject", {"paths": ["c"]}))
        p.put("a", b"3\n")
        shape.answer("accept_work", w.ask("POST", work + "/accept", {}, status=409).json(), "409")
        shape.answer("accept_work", w.post(work + "/accept", {"conflicts": "skip"}))
        w.ask("DELETE", work, status=204)


@test
def responses_match_the_api_description():
    shape = Shape(w.get("/openapi.json"))
    try:
        shape.answer("get_version", {"version": 1, "api": "v1"})
    except AssertionError:
        pass
    else:
        raise AssertionError("the check is blind")
    shape.answer("get_version", w.get("/version"))
    shape.answer("get_health", w.get("/healthz"))
    shape.answer("list_templates", w.get("/v1/templates"))
    shape.answer("list_backends", w.get("/v1/backends"))
    made = w.post("/v1/sandboxes", {"labels": {"a": "b"}, "env": {"X": "y"}, "ttl_ms": 600000, "user": "1000",
                                    "workdir": "/work", "hostname": "burrow", "name": "shape",
                                    "mounts": [{"target": "/scratch", "size": "1m"}]}, status=201)
    shape.answer("create_sandbox", made)
    w.seen.add(made["id"])
    at = f"/v1/sandboxes/{made['id']}"
    shape.answer("create_sandboxes", w.post("/v1/sandboxes/batch", {"sandboxes": [{}], "count": 2}, status=201))
    shape.answer("get_sandbox", w.get(at))
    shape.answer("list_sandboxes", w.get("/v1/sandboxes"))
    shape.answer("pause_sandbox", w.post(at + "/pause"))
    shape.answer("resume_sandbox", w.post(at + "/resume"))
    shape.answer("update_sandbox", w.ask("PATCH", at, {"labels": {"c": "d"}}, status=200).json())
    shape.answer("wait_sandbox", w.get(at + "/wait", query={"state": "running"}))
    shape.answer("get_sandbox_stats", w.get(at + "/stats"))
    w.post(at + "/run", {"command": "echo x >/tmp/x", "undoable": True})
    shape.answer("list_changes", w.get(at + "/diff"))
    shape.answer("undo_command", w.post(at + "/undo"))
    e = w.post(at + "/execs", {"argv": ["sh", "-c", "echo a; echo b >&2; exit 3"], "timeout_ms": 5000}, status=201)
    shape.answer("start_exec", e)
    shape.answer("get_exec", w.get(f"{at}/execs/{e['id']}", query={"wait_ms": 5000}))
    shape.answer("run_exec", w.post(at + "/run", {"command": "pwd; id -u"}))
    shape.answer("list_execs", w.get(at + "/execs"))
    code = {"language": "bash", "code": "echo a; echo b >&2; echo c >c; exit 3", "artifacts": ["*"]}
    shape.answer("run_code", w.post("/v1/code", code))
    for line in w.ask("POST", "/v1/code/stream", code, status=200).body.splitlines():
        shape.answer("stream_code", json.loads(line))
    for event in w.output(made["id"], e["id"]):
        shape.answer("read_output", event)
    token = w.post("/v1/tokens", {"name": "shape", "scopes": ["read"], "expires_in_ms": 60000}, status=201)
    shape.answer("create_token", token)
    shape.answer("list_tokens", w.get("/v1/tokens"))
    w.ask("PUT", "/v1/secrets/SHAPE", {"value": "x"}, status=201)
    shape.answer("list_secrets", w.get("/v1/secrets"))
    w.ask("DELETE", "/v1/secrets/SHAPE", status=204)
    shape.answer("create_volume", w.post("/v1/volumes", {"name": "shape", "size": "16m"}, status=201))
    shape.answer("copy_volume", w.post("/v1/volumes/shape/copy", {"name": "shape-2"}, status=201))
    shape.answer("list_volumes", w.get("/v1/volumes"))
    shape.answer("get_volume", w.get("/v1/volumes/shape"))
    w.ask("DELETE", "/v1/volumes/shape", status=204)
    w.ask("DELETE", "/v1/volumes/shape-2", status=204)
    works_match(shape)
    for event in w.events("/v1/events", format="ndjson", since=0):
        if event["type"] not in ("gap", "heartbeat"):
            shape.answer("stream_events", event)
        if event.get("type") == "exec.finished" and event.get("exec_id") == e["id"]:
            break
    w.empty()


# --------------------------------------------------------------------- creation


@test
def a_sandbox_matches_its_request():
    spec = {"env": {"COLOUR": "blue", "EMPTY": ""}, "labels": {"team": "search", "n": "1"}, "name": "one",
            "hostname": "burrow", "user": "1000:1000", "workdir": "/work/here", "network": "none",
            "limits": {"memory": "64m", "cpu_millis": 500, "pids": 50, "disk": 16 << 20, "nofile": 100},
            "ttl_ms": 600000, "mounts": [{"target": "/scratch", "size": "1m"}]}
    with w.box(**spec) as b:
        s = w.show(b)
        for key in ("labels", "name", "hostname", "user", "workdir", "network", "env"):
            eq(s[key], spec[key], key)
        eq(s["limits"], {"memory": 64 << 20, "cpu_millis": 500, "pids": 50, "disk": 16 << 20, "nofile": 100}, "limits")
        ok(all(e["enforced"] for e in s["enforced"] if e["name"] in ("memory", "pids", "disk", "cpus")), s["enforced"])
        out = w.run(b, "id -u; id -g; pwd; hostname; echo $COLOUR; ulimit -n; ls /sys/class/net /scratch -d; "
                    "cat /proc/net/dev | tail -n +3 | wc -l")["stdout"].split()
        eq(out[:6], ["1000", "1000", "/work/here", "burrow", "blue", "100"], "seen inside")


@test
def a_failed_create_leaves_nothing():
    before = w.settled()
    check_error(w.ask("POST", "/v1/sandboxes", {"image": "nowhere.invalid/not/here:1", "pull": "never"}), 404)
    e = check_error(w.ask("POST", "/v1/sandboxes", {"user": "nosuchuser"}), 400, "invalid_request")
    ok("no user 'nosuchuser'" in e["message"], e)
    check_error(w.ask("POST", "/v1/sandboxes", {"mounts": [{"source": "/etc", "target": "/x"}]}), 403, "policy_refused")
    r = w.ask("POST", "/v1/sandboxes", {"backend": "nosuch"})
    ok(r.status in (400, 422, 503), r)
    check_error(r, r.status)
    until(lambda: w.objects() == before, lambda: f"{before} became {w.objects()}")


@test
def unknown_or_out_of_bounds_fields_are_refused_by_name():
    for body, pointer in (({"imgae": "host"}, "/imgae"), ({"limits": {"mem": 1}}, "/limits/mem"),
                          ({"limits": {"memory": 5}}, "/limits/memory"), ({"limits": {"pids": "many"}}, "/limits/pids"),
                          ({"env": {"A=B": "c"}}, "/env"), ({"ttl_ms": 1}, "/ttl_ms"), ({"ttl_ms": 1.5}, "/ttl_ms"),
                          ({"labels": {"a": "x\ny"}}, "/labels"), ({"name": "../up"}, "/name"),
                          ({"user": "a b"}, "/user"), ({"workdir": "../x"}, "/workdir"),
                          ({"workdir": "/a/../b"}, "/workdir"), ({"network": "host"}, "/network"),
                          ({"mounts": [{"source": "/"}]}, "/mounts"), ({"hostname": "a_b"}, "/hostname")):
        e = check_error(w.ask("POST", "/v1/sandboxes", body), 400, "invalid_request")
        ok(e["message"].startswith(pointer), f"{body}: {e}")
        ok(e["detail"]["pointer"].startswith(pointer), f"{body}: {e}")
    for query, name in (({"limt": 1}, "limt"), ({"limit": 0}, "limit"), ({"limit": 1001}, "limit"),
                        ({"state": "dead"}, "state"), ({"cursor": "%"}, "cursor"), ({"token": "x"}, "token")):
        e = check_error(w.ask("GET", "/v1/sandboxes", query=query), 400, "invalid_request")
        eq(e["detail"]["parameter"], name, "parameter")
    for raw in ("{", "[]", "nul", '{"name":"a","name":"b"}', '{"name":"\\ud800"}', b'{"name":"\xff"}', "{} {}", "\0"):
        r = w.ask("POST", "/v1/sandboxes", raw, headers={"Content-Type": "application/json"})
        e = check_error(r, 400)
        ok(e["code"] in ("invalid_json", "invalid_request"), e)
    check_error(w.ask("POST", "/v1/sandboxes", "a=b", headers={"Content-Type": "application/x-www-form-urlencoded"}),
                415, "unsupported_media_type")
    check_error(w.ask("GET", "/v1/nothing"), 404, "not_found")
    check_error(w.ask("GET", f"/v1/sandboxes/{NOBODY}"), 404, "sandbox_not_found")
    eq(check_error(w.ask("PUT", "/v1/sandboxes"), 405, "method_not_allowed")["detail"]["allow"].count("POST"), 1, "allow")
    eq(w.ask("HEAD", "/version").body, b"", "body of HEAD")


@test
def an_idempotency_key_creates_one_sandbox():
    spec = {"idempotency_key": "once", "labels": {"k": "1"}}
    made = {r["id"] for r in together(20, lambda i: w.post("/v1/sandboxes", spec, status=201))}
    eq(len(made), 1, "sandboxes of one key")
    again = w.post("/v1/sandboxes", spec, status=201)
    eq(again["id"], made.copy().pop(), "the sandbox of a repeated request")
    eq(again["state"], "running", "its state")
    check_error(w.ask("POST", "/v1/sandboxes", {**spec, "labels": {"k": "2"}}), 409, "idempotency_conflict")
    # Another tenant's key is a different key.
    other = w.token("write", tenant="keys")
    theirs = w.post("/v1/sandboxes", spec, status=201, token=other)
    ok(theirs["id"] not in made, "a key of one tenant shows the sandbox of another")
    many = {"sandboxes": [{}], "count": 5, "idempotency_key": "five"}
    first = [s["id"] for s in w.post("/v1/sandboxes/batch", many, status=201)["sandboxes"]]
    second = [s["id"] for s in w.post("/v1/sandboxes/batch", many, status=201)["sandboxes"]]
    eq(second, first, "sandboxes of a repeated batch")
    w.empty()


@test
def an_idempotency_key_is_valid_while_the_first_request_runs():
    answers = together(10, lambda i: w.post("/v1/sandboxes", {"idempotency_key": "busy"}, status=201))
    for a in answers:
        eq(a["state"], "running", "state that a repeated request is answered with")
    w.empty()


@test
def a_hundred_sandboxes_are_created_in_one_request():
    made = w.post("/v1/sandboxes/batch", {"sandboxes": [{"labels": {"b": "1"}}, {"labels": {"b": "2"}}], "count": 50},
                  status=201)["sandboxes"]
    eq([s["state"] for s in made], ["running"] * 100, "states")
    eq([s["labels"]["b"] for s in made], ["1"] * 50 + ["2"] * 50, "order")
    eq(len({s["id"] for s in made}), 100, "ids")
    eq(w.run(made[57]["id"], "echo $((6*7))")["stdout"], "42\n", "a command in one of them")
    w.match()
    check_error(w.ask("POST", "/v1/sandboxes/batch", {"sandboxes": [{}, {}], "count": 501}), 400, "invalid_request")
    before = w.rows("SELECT count(*) FROM sandboxes")
    check_error(w.ask("POST", "/v1/sandboxes/batch", {"sandboxes": [{}, {"user": "a b"}], "count": 3}), 400)
    eq(w.rows("SELECT count(*) FROM sandboxes"), before, "rows after a refused batch")
    gone = together(10, lambda i: [w.ask("DELETE", f"/v1/sandboxes/{s['id']}").status for s in made[i::10]])
    eq({s for part in gone for s in part}, {204}, "statuses of deletes")
    w.check_empty()


# ------------------------------------------------------------------------- search


@test
def lists_are_filtered_and_paged():
    ids = [w.create(labels={"n": str(i), "odd": str(i % 2)}, name=f"nr-{i}") for i in range(9)]
    w.post(f"/v1/sandboxes/{ids[0]}/pause")

    def found(**query):
        return [s["id"] for s in w.sandboxes(**query)]
    newest = ids[::-1]
    eq(found(), newest, "all")
    for limit in (1, 2, 4, 9, 10):
        eq(found(limit=limit), newest, f"all, {limit} at a time")
    eq(found(label="odd=1", limit=2), [i for i in newest if ids.index(i) % 2], "by label")
    eq(found(label=["odd=1", "n=3"]), [ids[3]], "by two labels")
    eq(found(label="odd=3"), [], "by a label that none has")
    eq(found(label="n", limit=3), newest, "by a label of any value")
    eq(found(state="paused"), [ids[0]], "by state")
    eq(found(state=["paused", "running"]), newest, "by two states")
    eq(found(state="creating"), [], "by a state that none is in")
    eq(found(name="nr-4", limit=2), [ids[4]], "by name")
    eq(found(owner="local"), newest, "by owner")
    eq(found(owner="nobody"), [], "by another owner")
    # A cursor stays valid while sandboxes are created and deleted.
    page = w.get("/v1/sandboxes", query={"limit": 4})
    w.create()
    w.delete(ids[5])
    w.delete(ids[3])
    rest = w.get("/v1/sandboxes", query={"limit": 100, "cursor": page["next_cursor"]})
    eq([s["id"] for s in rest["sandboxes"]], [ids[4], ids[2], ids[1], ids[0]], "the rest of the pages")
    eq(rest["next_cursor"], None, "the last cursor")
    # An invalid cursor is refused, and does not return the first page.
    for where in ("/v1/sandboxes", f"/v1/sandboxes/{ids[0]}/execs", f"/v1/sandboxes/{ids[0]}/sessions", "/v1/tokens"):
        eq(w.ask("GET", where, query={"cursor": "1"}).status, 200, where)
        for cursor in ("abc", "1x", "-1", "9" * 19, "9" * 30):
            e = check_error(w.ask("GET", where, query={"cursor": cursor}), 400, "invalid_request")
            eq(e["detail"], {"parameter": "cursor"}, f"{where} {cursor}")
    w.empty()


# -------------------------------------------------------------------------- changes


@test
def labels_and_lifetimes_can_be_changed():
    with w.box(labels={"a": "1", "b": "2"}) as b:
        s = w.ask("PATCH", f"/v1/sandboxes/{b}", {"labels": {"a": "9", "b": None, "c": "3"}}, status=200).json()
        eq(s["labels"], {"a": "9", "c": "3"}, "labels")
        eq([x["id"] for x in w.sandboxes(label="b=2")], [], "found by a label that it had")
        eq([x["id"] for x in w.sandboxes(label="c=3")], [b], "found by a label that it has")
        s = w.ask("PATCH", f"/v1/sandboxes/{b}", {"ttl_ms": 60000, "idle_timeout_ms": 5000}, status=200).json()
        left = (datetime.datetime.fromisoformat(s["expires_at"].replace("Z", "+00:00"))
                - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
        ok(30 < left <= 60, f"expires in {left} s")
        eq(s["idle_timeout_ms"], 5000, "idle time")
        s = w.ask("PATCH", f"/v1/sandboxes/{b}", {"ttl_ms": None, "idle_timeout_ms": None}, status=200).json()
        eq((s["expires_at"], s["idle_timeout_ms"]), (None, None), "times")
        check_error(w.ask("PATCH", f"/v1/sandboxes/{b}", {}), 400)
        check_error(w.ask("PATCH", f"/v1/sandboxes/{b}", {"limits": {"disk": "1g"}}), 400)


@test
def limits_of_a_running_sandbox_can_be_changed():
    with w.box(limits={"memory": "64m", "pids": 20}, mounts=[{"target": "/scratch", "size": "24m"}]) as b:
        at = f"/v1/sandboxes/{b}"
        hog = "head -c 100000000 /dev/zero | tail | wc -c"
        e = w.run(b, hog)
        ok(e["result"]["oom"], f"100 MB fit into 64: {e}")
        s = w.ask("PATCH", at, {"limits": {"memory": "256m", "pids": 100, "cpu_millis": 1500}}, status=200).json()
        eq([s["limits"][k] for k in ("memory", "pids", "cpu_millis")], [256 << 20, 100, 1500], "limits")
        e = w.run(b, hog)
        eq((e["result"]["oom"], e["stdout"].strip()), (False, "100000000"), "after it was raised")
        many = "for i in $(seq 60); do sleep 0.3 & done 2>/dev/null; wait; echo fits"
        eq(w.run(b, many)["stdout"], "fits\n", "60 processes within 100")
        w.ask("PATCH", at, {"limits": {"pids": 20}}, status=200)
        ok("fits" not in w.run(b, many)["stdout"], "60 processes within 20")
        # A limit below the current usage is refused, and nothing else of the request is changed either.
        until(lambda: w.get(at + "/stats")["pids"] == 0, "all has ended")
        eq(w.run(b, "head -c 20000000 /dev/zero > /scratch/big")["result"]["exit_code"], 0, "exit code")
        before = w.show(b)
        r = w.ask("PATCH", at, {"limits": {"memory": "8m"}, "labels": {"x": "y"}})
        check_error(r, 422, "limit_refused")
        now = w.show(b)
        eq((now["limits"], now["labels"]), (before["limits"], before["labels"]), "limits and labels after a refusal")
        w.run(b, "rm /scratch/big")
        w.ask("PATCH", at, {"limits": {"memory": "56m"}}, status=200)
        ok(w.run(b, hog)["result"]["oom"], "100 MB fit into 56")


@test
def a_sandbox_is_paused_and_resumed():
    with w.box() as b:
        at = f"/v1/sandboxes/{b}"
        e = w.exec(b, "while :; do echo x; sleep 0.01; done")
        until(lambda: w.get(f"{at}/execs/{e}")["output_to"] > 10, "it writes")
        eq(w.post(at + "/pause")["state"], "paused", "state")
        eq(w.post(at + "/pause")["state"], "paused", "state when paused twice")
        first = w.get(f"{at}/execs/{e}")["output_to"]
        time.sleep(0.2)
        eq(w.get(f"{at}/execs/{e}")["output_to"], first, "what a paused command wrote")
        err = check_error(w.ask("POST", at + "/run", {"command": "true"}), 409, "wrong_state")
        eq(err["detail"]["state"], "paused", "the state that stands against it")
        ok("resume it first" in err["message"], f"what to do: {err}")
        eq(w.post(at + "/resume")["state"], "running", "state")
        until(lambda: w.get(f"{at}/execs/{e}")["output_to"] > first, "it goes on")
        w.post(at + "/pause")
    w.check_empty()  # deleted while it was paused


@test
def concurrent_changes_leave_a_consistent_state():
    """In any order, acknowledged changes are visible at the end, and nothing hangs."""
    with w.box() as b:
        at = f"/v1/sandboxes/{b}"
        answers = together(24, lambda i: w.ask("POST", at + ("/pause", "/resume")[i % 2]).status)
        eq(set(answers), {200}, "statuses")
        w.post(at + "/resume")
        eq(w.run(b, "echo ok")["stdout"], "ok\n", "a command")
        gone = together(10, lambda i: w.ask("DELETE", at).status)
        ok(set(gone) <= {204, 404} and 204 in gone, f"deletes: {gone}")
        check_error(w.ask("GET", at), 404, "sandbox_not_found")


@test
def a_request_can_wait_for_a_state():
    with w.box() as b:
        at = f"/v1/sandboxes/{b}/wait"
        r = w.get(at, query={"state": "running"})
        eq((r["reached"], r["state"], r["sandbox"]["id"]), (True, "running", b), "a state that it is in")
        r = w.get(at, query={"state": "paused", "timeout_ms": 50})
        eq((r["reached"], r["state"]), (False, "running"), "a state that does not come")
        waiting = [None]

        def wait(i):
            if i == 0:
                waiting[0] = w.get(at, query={"state": "paused"})
            else:
                time.sleep(0.1)
                w.post(f"/v1/sandboxes/{b}/pause")
        eq(together(2, wait), [None, None], "errors")
        eq((waiting[0]["reached"], waiting[0]["state"]), (True, "paused"), "a state that comes")

        def wait_gone(i):
            if i == 0:
                waiting[0] = w.get(at, query={"state": ["gone", "failed"]})
            else:
                time.sleep(0.1)
                w.delete(b)
        eq(together(2, wait_gone), [None, None], "errors")
        eq(waiting[0], {"reached": True, "state": "gone"}, "the end of it")


@test
def a_sandbox_is_deleted_when_its_ttl_passes():
    keeps = w.create(ttl_ms=5000)
    b = w.create(ttl_ms=5000)
    w.ask("PATCH", f"/v1/sandboxes/{keeps}", {"ttl_ms": 60000}, status=200)
    w.exec(b, "sleep 100")  # a running command does not extend its lifetime
    r = w.get(f"/v1/sandboxes/{b}/wait", query={"state": "gone", "timeout_ms": 20000})
    ok(r["reached"], r)
    check_error(w.ask("GET", f"/v1/sandboxes/{b}"), 404, "sandbox_not_found")
    eq(w.show(keeps)["state"], "running", "one whose time was prolonged")
    w.empty()
    w.check_empty()


# ------------------------------------------------------------------ idle sandboxes


def wait_for(b, state, ms=10000):
    r = w.get(f"/v1/sandboxes/{b}/wait", query={"state": state, "timeout_ms": ms})
    ok(r["reached"], f"not {state}: {r}")


@test
def an_idle_sandbox_is_paused_and_wakes_by_use():
    with w.box(idle_timeout_ms=1000) as b:
        e = w.exec(b, "sleep 1.5; echo done")  # a sandbox with a running command is not idle
        time.sleep(1.3)
        eq(w.show(b)["state"], "running", "state while a command runs")
        wait_for(b, "paused")
        eq(w.result(b, e)["exit_code"], 0, "exit code")
        eq(w.run(b, "echo awake")["stdout"], "awake\n", "a command that wakes it")
        eq(w.show(b)["state"], "running", "state after it")
        wait_for(b, "paused")
        for _ in range(8):  # one request wakes it for all
            answers = together(5, lambda i: w.run(b, "echo awake")["stdout"])
            eq(answers, ["awake\n"] * 5, "commands that wake it")
            time.sleep(0.95)  # about when it is paused again
        # A sandbox that was paused by a request is not woken.
        w.post(f"/v1/sandboxes/{b}/pause")
        check_error(w.ask("POST", f"/v1/sandboxes/{b}/run", {"command": "true"}), 409, "wrong_state")


@test
def an_idle_sandbox_is_treated_as_requested():
    with w.box(idle_timeout_ms=1000, on_idle="delete") as b, w.box(idle_timeout_ms=1000, wake_on_use=False) as c, \
            w.box(idle_timeout_ms=1000) as d:
        wait_for(b, "gone")
        wait_for(c, "paused")
        check_error(w.ask("POST", f"/v1/sandboxes/{c}/run", {"command": "true"}), 409, "wrong_state")
        # It stays paused through a restart, and wakes afterwards.
        wait_for(d, "paused")
        w.kill("api")
        w.ready()
        eq(w.show(d)["state"], "paused", "state after a restart")
        eq(w.run(d, "echo awake")["stdout"], "awake\n", "a command that wakes it after a restart")
        check_error(w.ask("POST", f"/v1/sandboxes/{c}/run", {"command": "true"}), 409, "wrong_state")


@test
def use_keeps_a_sandbox_from_being_paused():
    with w.box(idle_timeout_ms=1500) as b:
        seen = []

        def watch():
            for e in w.events("/v1/events", format="ndjson", sandbox_id=b, type=["sandbox.paused", "sandbox.deleted"]):
                if e["type"] == "sandbox.deleted":
                    return
                seen.append(e)
        t = threading.Thread(target=watch)
        t.start()
        for _ in range(12):
            w.run(b, "true")
            time.sleep(0.4)
        eq([e for e in seen if e["type"] == "sandbox.paused"], [], "pauses of a sandbox in use")
        w.delete(b)
        t.join(10)
        ok(not t.is_alive(), "no sandbox.deleted came")


# -------------------------------------------------------------------------- events


def collect(n, **query):
    found = []
    for e in w.events("/v1/events", format="ndjson", **query):
        if e["type"] not in ("gap", "heartbeat"):
            found.append(e)
        if len(found) == n:
            return found
    return found


@test
def events_report_each_change_once():
    b = w.create()
    at = f"/v1/sandboxes/{b}"
    w.run(b, "exit 7")
    w.run(b, "head -c 900000000 /dev/zero | tail")
    w.post(at + "/pause")
    w.post(at + "/resume")
    w.ask("PATCH", at, {"labels": {"a": "b"}}, status=200)
    w.delete(b)
    want = ["sandbox.created", "sandbox.running", "exec.started", "exec.finished", "exec.started", "exec.finished",
            "sandbox.oom", "sandbox.paused", "sandbox.resumed", "sandbox.updated", "sandbox.deleted"]
    got = collect(len(want), since=0, sandbox_id=b)
    eq([e["type"] for e in got], want, "events")
    numbers = [e["id"] for e in got]
    eq(numbers, sorted(set(numbers)), "numbers")
    eq(got[3]["result"]["exit_code"], 7, "exit code in the event")
    eq((got[7]["state"], got[8]["state"]), ("paused", "running"), "states")
    eq([e["id"] for e in collect(3, since=numbers[4], sandbox_id=b)], numbers[5:8], "events after one of them")
    eq([e["type"] for e in collect(2, since=0, sandbox_id=b, type=["sandbox.oom", "sandbox.paused"])],
       ["sandbox.oom", "sandbox.paused"], "events by type")
    # The form that browsers use.
    with w.client() as c:
        r = c.send("GET", f"/v1/events?sandbox_id={b}", headers={"Last-Event-ID": str(numbers[-2])})
        ok(r.getheader("Content-Type").startswith("text/event-stream"), r.getheaders())
        eq(r.readline(), f"id: {numbers[-1]}\n".encode(), "the first line")
        ok(r.readline().startswith(b"data: {"), "no data")
    for last in ("abc", "-1", "1x", str(1 << 53), "9" * 30):
        check_error(w.ask("GET", "/v1/events", headers={"Last-Event-ID": last}), 400, "invalid_request")


@test
def a_client_ahead_of_the_events_gets_an_error():
    b = w.create()
    for since in (collect(2, since=0, sandbox_id=b)[-1]["id"] + 1000000, (1 << 53) - 1):
        got = []
        for e in w.events("/v1/events", format="ndjson", sandbox_id=b, since=since):
            got.append(e["type"])
            if len(got) == 3:
                break
        eq(got, ["gap", "sandbox.created", "sandbox.running"], f"since {since}")
    w.delete(b)


@test
def events_contain_a_reason():
    b = w.create(idle_timeout_ms=1000)
    wait_for(b, "paused")
    w.run(b, "true")
    w.post(f"/v1/sandboxes/{b}/pause")
    w.delete(b)
    c = w.create(ttl_ms=1000)
    wait_for(c, "gone")

    got = [(e["type"], e.get("reason")) for e in collect(4, since=0, sandbox_id=b, type=[
        "sandbox.paused", "sandbox.resumed", "sandbox.deleted"])]
    eq(got, [("sandbox.paused", "idle"), ("sandbox.resumed", "use"), ("sandbox.paused", "request"),
             ("sandbox.deleted", "request")], "reasons")
    eq([e.get("reason") for e in collect(1, since=0, sandbox_id=c, type="sandbox.deleted")], ["ttl"], "reason")


@test
def events_have_higher_numbers_after_a_restart():
    b = w.create()
    last = collect(2, since=0, sandbox_id=b)[-1]["id"]
    w.kill("api")
    w.ready()
    w.run(b, "true")
    got = []
    for e in w.events("/v1/events", format="ndjson", since=last):
        got.append(e)
        if e["type"] == "exec.finished":
            break
    ok(all(e["id"] > last for e in got if "id" in e), f"{got} after {last}")
    ok(any(e["type"] == "gap" for e in got) or got[0]["type"] == "exec.started", f"what was missed is not told: {got}")
    w.delete(b)


# ------------------------------------------------------------------------- metrics


def figures():
    text = w.ask("GET", "/metrics", status=200).body.decode()
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            m = re.fullmatch(r"([a-zA-Z_:][a-zA-Z0-9_:]*(?:\{[^}]*\})?) ([0-9.e+-]+|NaN|\+Inf)", line)
            ok(m, f"a line of metrics: {line!r}")
            ok(m[1] not in found, f"twice: {line!r}")
            found[m[1]] = float(m[2])
    return found


@test
def metrics_count_operations():
    before = figures()
    with w.box() as b:
        for _ in range(3):
            w.run(b, "true")
        now = figures()
        changed = {k: now[k] - before.get(k, 0) for k in now if now[k] != before.get(k, 0)}
        ok(any("exec" in k and k.endswith("_count") and v == 3 for k, v in changed.items()), f"execs: {changed}")
        ok(any("create" in k and k.endswith("_count") and v == 1 for k, v in changed.items()), f"creates: {changed}")
        ok(any("running" in k and v == 1 for k, v in changed.items()), f"running: {changed}")
    for name in {k.partition("_bucket{")[0] for k in now if "_bucket{" in k}:
        rows = [v for k, v in now.items() if k.startswith(name + "_bucket{")]
        eq(rows, sorted(rows), f"buckets of {name}")
        eq(rows[-1], now[name + "_count"], f"the last bucket of {name}")


# -------------------------------------------------- templates, prepared parts, limits


@test
def a_sandbox_can_be_created_from_a_template():
    config = """
templates:
  snake:
    hostname: snake
    limits: { memory: 64m, pids: 50 }
    env: { A: '1', B: '2' }
    labels: { kind: reptile }
  other: { read_only: true }
"""
    with World(config=config) as s:
        listed = s.get("/v1/templates")
        eq([t["name"] for t in listed["templates"]], ["snake", "other"], "templates")
        box = s.create(template="snake", env={"B": "3", "C": "4"}, limits={"pids": 60}, labels={"run": "7"})
        eq(s.run(box, "hostname; echo $A $B $C")["stdout"], "snake\n1 3 4\n", "of both")
        shown = s.show(box)
        eq((shown["template"], shown["limits"]["memory"], shown["limits"]["pids"], shown["labels"]),
           ("snake", 64 << 20, 60, {"kind": "reptile", "run": "7"}), "shown")
        eq(s.run(s.create(template="snake", hostname="lizard"), "hostname")["stdout"], "lizard\n", "the request's own")
        eq(s.run(s.create(), "hostname; echo $A")["stdout"].splitlines()[1], "", "without one")
        ok(s.run(s.create(template="other"), "touch /x")["result"]["exit_code"] != 0, "a root that is read-only")
        check_error(s.ask("POST", "/v1/sandboxes", {"template": "none"}), 404, "template_not_found")
        many = s.post("/v1/sandboxes/batch", {"sandboxes": [{"template": "snake"}], "count": 2}, status=201)["sandboxes"]
        eq([m["hostname"] for m in many], ["snake", "snake"], "several")
    for wrong, words in (("{ a: { hostnam: x } }", "hostnam"), ("{ a: { name: x } }", "belongs to a single sandbox"),
                         ("{ a: { limits: { memory: 5 } } }", "memory"), ("{ A_: {} }", "not a name"), ("[a]", "mapping")):
        path = os.path.join(w.dir, "wrong.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"templates: {wrong}\n")
        r = subprocess.run([SERVE, "--config", path, "--check"], capture_output=True, text=True, check=False)
        ok(r.returncode == 1 and words in r.stderr, f"{wrong}: {r}")


@test
def parts_of_sandboxes_are_prepared_in_advance():
    def figures(world):
        text = world.ask("GET", "/metrics").body.decode()
        return {line.split()[0]: int(line.split()[1]) for line in text.splitlines() if line.startswith("warren_parts")}

    with World("--pool-min", "2", "--pool-max", "3") as s:
        ready = 'warren_parts{is="ready"}'
        until(lambda: figures(s)[ready] == 2, lambda: f"{figures(s)}")
        boxes = [s.create(hostname=f"h{i}", limits={"memory": "64m"}) for i in range(2)]
        eq(figures(s)["warren_parts_taken_total"], 2, "made of parts")
        eq([s.run(b, command="hostname")["stdout"] for b in boxes], ["h0\n", "h1\n"], "host names")
        # After too many creates at once, the pool grows up to its limit; its parts belong to no tenant.
        boxes += [b["id"] for b in s.post("/v1/sandboxes/batch", {"sandboxes": [{}], "count": 9}, status=201)["sandboxes"]]
        until(lambda: figures(s)[ready] == 3, lambda: f"{figures(s)}")
        ok(figures(s)["warren_parts_missed_total"] >= 6, f"{figures(s)}")
        eq(sorted(b["id"] for b in s.sandboxes()), sorted(boxes), "sandboxes")
        ahead = s.parts()
        eq(len(ahead), 3, "parts")
        for box in ahead:
            eq(s.ask("GET", f"/v1/sandboxes/{box}").status, 404, "a part by its id")
        # Prepared parts die with the warden, and are prepared again.
        s.kill("api", "warden")
        s.start()
        until(lambda: figures(s)[ready] == 2, lambda: f"{figures(s)}")
        eq(s.parts() & ahead, set(), "parts of before")
        eq(s.run(boxes[0], command="hostname")["stdout"], "h0\n", "a sandbox of before")
    with World("--pool-max", "24") as s:
        s.post("/v1/sandboxes/batch", {"sandboxes": [{}], "count": 40}, status=201)
        # When there have been no requests for a while, the pool grows further.
        until(lambda: figures(s)[ready] == 24, lambda: f"{figures(s)}")
    with World("--pool-max", "0") as s:
        s.create()
        got = figures(s)
        eq((got["warren_parts_taken_total"], got["warren_parts_missed_total"], s.parts()), (0, 1, set()), "without")


@test
def prepared_parts_keep_no_filesystem_of_the_machine():
    def parent(pid):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return int(f.read().rpartition(")")[2].split()[1])
        return 0

    def users(path, of):
        """Returns how many descendants of the process have their own mounts, and how many of them have one at the path."""
        seen, using, own = 0, 0, os.readlink("/proc/self/ns/mnt")
        for pid in (int(x) for x in os.listdir("/proc") if x.isdigit()):
            at = parent(pid)
            while at not in (0, of):
                at = parent(at)
            with contextlib.suppress(OSError), open(f"/proc/{pid}/mountinfo", encoding="ascii") as f:
                if at == of and os.readlink(f"/proc/{pid}/ns/mnt") != own:
                    seen += 1
                    using += any(line.split()[4].endswith(path) for line in f)
        return seen, using

    mounted = tempfile.mkdtemp(prefix="warren-mounted-")
    subprocess.run(["mount", "-t", "tmpfs", "warren-test", mounted], check=True)
    try:
        # Positive control: a process with copies of the mounts.
        with subprocess.Popen(["sh", "-c", "unshare --mount --propagation private sleep 300; :"]) as other:
            until(lambda: users(mounted, other.pid) == (1, 1), lambda: f"{users(mounted, other.pid)}")
            subprocess.run(["pkill", "-P", str(other.pid)], check=True)
        with World("--pool-min", "2", "--pool-max", "2") as s:
            until(lambda: len(s.parts()) == 2, "the parts")
            # Each part is init and the process that mounts.
            until(lambda: (lambda n, using: n >= 4 and not using)(*users(mounted, s.warden)), lambda: f"{users(mounted, s.warden)}")
            box = s.create()
            eq(s.run(box, command="ls /dev /proc/self/status >/dev/null && echo x >/tmp/f && cat /tmp/f")["stdout"], "x\n")
    finally:
        subprocess.run(["umount", mounted], check=True)
        os.rmdir(mounted)


@test
def limits_above_the_maximum_are_refused():
    with World("--max-memory", "128m", "--max-pids", "100", "--defaults-pids", "50", "--max-ttl", "60s", "--defaults-memory", "64m",
               "--journal-max", "1m", "--journal-execs", "5", "--host-image", "true") as m:
        for limits in ({"memory": "129m"}, {"pids": 101}):
            check_error(m.ask("POST", "/v1/sandboxes", {"limits": limits}), 403, "policy_refused")
        check_error(m.ask("POST", "/v1/sandboxes", {"ttl_ms": 61000}), 403, "policy_refused")
        b = m.create(limits={"memory": "128m", "pids": 100})
        ok(m.show(b)["expires_at"], "a sandbox that lives for ever, where none may")
        check_error(m.ask("PATCH", f"/v1/sandboxes/{b}", {"limits": {"memory": "129m"}}), 403, "policy_refused")
        check_error(m.ask("PATCH", f"/v1/sandboxes/{b}", {"ttl_ms": None}), 403, "policy_refused")
        check_error(m.ask("POST", f"/v1/sandboxes/{b}/run", {"command": "true", "output_limit": "2m"}), 403,
                    "policy_refused")
        m.run(b, "true", output_limit="1m")
        kept = [m.run(b, f"exit {i}")["id"] for i in range(20)][-5:]
        until(lambda: m.objects()["journals"] <= 5, lambda: f"journals are kept for ever: {m.objects()}")
        eq([e["id"] for e in m.get(f"/v1/sandboxes/{b}/execs")["execs"]][-5:], kept, "the execs that are remembered")
        eq(m.result(b, kept[0])["exit_code"], 15, "exit code of one of them")


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
