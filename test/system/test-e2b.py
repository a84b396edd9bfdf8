#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b.py - the official SDKs of E2B with Warren"""
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, ok, eq  # pylint: disable=wrong-import-position
from e2b_world import E2bWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from serve_world import until  # pylint: disable=wrong-import-position

WORLD = []


def w():
    if not WORLD:
        WORLD.append(E2bWorld())
    return WORLD[0]


def key(**spec):
    return w().key(**spec)


def ask(*args, **headers):
    return w().call(*args, **headers)


def python(area, version="new"):
    w().python("client.py", area, version=version)


@test
def a_key_has_the_form_that_sdks_accept():
    secret = key()
    ok(secret.startswith("e2b_") and len(secret) == 44 and set(secret[4:]) <= set("0123456789abcdef"), secret)


@test
def the_python_sdk_runs_commands():
    python("commands")


@test
def the_python_sdk_uses_files():
    python("files")


@test
def the_python_sdk_pauses_copies_and_ends_sandboxes():
    python("lifecycle")


@test
def a_pause_without_memory_keeps_the_files():
    python("cold")


@test
def the_python_sdk_works_asynchronously():
    python("async")


@test
def ports_are_public_unless_the_sandbox_says_otherwise():
    python("ports")


@test
def the_oldest_supported_python_sdk_works():
    python("old", "old")


@test
def the_javascript_sdk_works():
    w().node("client.mjs")


@test
def an_unknown_field_is_refused():
    status, body = ask("POST", "/v2/sandboxes", {"templateID": "base", "egressProxy": {}}, X_API_Key=key())
    eq(status, 400)
    ok("egressProxy" in body["message"], body)
    status, body = ask("POST", "/v2/sandboxes", {"templateID": "base", "metadata": None}, X_API_Key=key())
    eq(status, 201, "null is as good as nothing")
    eq(ask("DELETE", f"/sandboxes/{body['sandboxID']}", X_API_Key=key())[0], 204)


def unsupported():
    return int(re.search(rb"^warren_e2b_unsupported_total (\d+)$", w().ask("GET", "/metrics").body, re.M)[1])


@test
def what_is_not_served_is_refused_and_counted():
    before = unsupported()
    status, body = ask("POST", "/v2/sandboxes/x/unknown", {}, X_API_Key=key())
    eq((status, body["code"]), (501, 501))
    ok("doc/e2b.md" in body["message"], body)
    eq(unsupported(), before + 1)
    eq(ask("GET", "/v2/sandboxes", X_API_Key=key())[0], 200)
    eq(unsupported(), before + 1)


@test
def lists_have_an_order_and_pages():
    made = []
    for i in range(5):
        status, box = ask("POST", "/v2/sandboxes", {"templateID": "base", "metadata": {"list": "1", "i": str(i)}}, X_API_Key=key())
        eq(status, 201)
        made.append(box["sandboxID"])

    def pages(order):
        query, tokens, found = f"metadata=list%3D1&limit=2{order}", [], []
        token = ""
        while True:
            with w().client(tcp=True) as c:
                r = c.ask("GET", f"/v2/sandboxes?{query}{token}", headers={"X-API-Key": key()})
            eq(r.status, 200, r)
            found += [x["sandboxID"] for x in r.json()]
            last = r.headers.get("x-next-token")
            if not last:
                return found, tokens
            tokens.append(last)
            token = f"&nextToken={last}"
    newest, tokens = pages("")
    eq(newest, made[::-1])
    eq(pages("&order=desc")[0], made[::-1])
    oldest, other = pages("&order=asc")
    eq(oldest, made)
    eq(ask("GET", f"/v2/sandboxes?order=desc&nextToken={other[0]}", X_API_Key=key())[0], 400)
    eq(ask("GET", f"/v2/sandboxes?order=asc&nextToken={tokens[0]}", X_API_Key=key())[0], 400)
    eq(ask("GET", "/v2/sandboxes?order=up", X_API_Key=key())[0], 400)
    for box in made:
        eq(ask("DELETE", f"/sandboxes/{box}", X_API_Key=key())[0], 204)


@test
def no_timeout_is_longer_than_the_service_allows():
    status, box = ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 60}, X_API_Key=key())
    eq(status, 201)
    path, year = f"/sandboxes/{box['sandboxID']}", 365 * 86400
    for route, body in (("/v2/sandboxes", {"templateID": "base", "timeout": year + 1}), (f"{path}/timeout", {"timeout": year + 1}),
                        (f"{path}/connect", {"timeout": year + 1}), (f"{path}/fork", {"timeout": year + 1})):
        status, answer = ask("POST", route, body, X_API_Key=key())
        eq((status, answer.get("message")), (400, "Timeout cannot be greater than 8760 hours"), route)
    eq(ask("POST", f"{path}/timeout", {"timeout": year}, X_API_Key=key())[0], 204)
    status, copies = ask("POST", f"{path}/fork", {"timeout": 100}, X_API_Key=key())
    eq(status, 201)
    for sandbox in (box, copies[0]["sandbox"]):
        eq(ask("DELETE", f"/sandboxes/{sandbox['sandboxID']}", X_API_Key=key())[0], 204)


@test
def keys_reach_only_the_sandboxes_of_their_tenant():
    mine, other = key(), key(tenant="other")
    status, box = ask("POST", "/v2/sandboxes", {"templateID": "base"}, X_API_Key=mine)
    eq(status, 201)
    path = f"/sandboxes/{box['sandboxID']}"
    routes = [("GET", path), ("DELETE", path), ("POST", f"{path}/pause"), ("POST", f"{path}/connect"),
              ("POST", f"/v2{path}/connect"), ("POST", f"{path}/resume"), ("GET", f"{path}/metrics"),
              ("GET", f"{path}/logs"), ("POST", f"{path}/snapshots"), ("POST", f"{path}/fork"),
              ("POST", f"{path}/refreshes"), ("PUT", f"{path}/network")]
    for method, route in routes:
        status, body = ask(method, route, None if method in ("GET", "DELETE") else {}, X_API_Key=other)
        eq((status, body["code"]), (404, 404), f"{method} {route}")
        eq(ask(method, route, None if method in ("GET", "DELETE") else {})[0], 401, f"{method} {route} without a key")
    eq([x for x in ask("GET", "/v2/sandboxes", X_API_Key=other)[1] if x["sandboxID"] == box["sandboxID"]], [])
    eq(len([x for x in ask("GET", "/v2/sandboxes", X_API_Key=mine)[1] if x["sandboxID"] == box["sandboxID"]]), 1)
    # The access token of one sandbox is not that of another.
    status, theirs = ask("POST", "/v2/sandboxes", {"templateID": "base"}, X_API_Key=other)
    eq(status, 201)
    plane = {"E2b_Sandbox_Id": box["sandboxID"], "E2b_Sandbox_Port": "49983"}
    listing = ("POST", "/process.Process/List", {})
    eq(ask(*listing, **plane, X_Access_Token=theirs["envdAccessToken"])[0], 401)
    eq(ask(*listing, **plane, X_Access_Token=mine)[0], 401)
    eq(ask(*listing, **plane, X_Access_Token=box["envdAccessToken"])[0], 200)
    for secret, sandbox in ((mine, box), (other, theirs)):
        eq(ask("DELETE", f"/sandboxes/{sandbox['sandboxID']}", X_API_Key=secret)[0], 204)


@test
def ports_of_sandboxes_of_other_apis_need_a_token():
    serve = "import http.server as h; h.HTTPServer(('', 8080), h.SimpleHTTPRequestHandler).serve_forever()"
    status, box = ask("POST", "/v2/sandboxes", {"templateID": "base"}, X_API_Key=key())
    eq(status, 201)
    plain = w().create()
    for sandbox in (box["sandboxID"], plain):
        w().exec(sandbox, ["python3", "-c", serve])
        w().run(sandbox, ["sh", "-c", "until bash -c '</dev/tcp/127.0.0.1/8080' 2>/dev/null; do sleep 0.05; done"])

    def reach(sandbox):
        with w().client(tcp=True, token=None) as c:
            return c.ask("GET", "/", headers={"E2b-Sandbox-Id": sandbox, "E2b-Sandbox-Port": "8080"}).status
    eq(reach(box["sandboxID"]), 200, "created through E2B: public")
    eq(reach(plain), 502, "created through another API: as if it did not exist")
    eq(reach("000000000000"), 502)
    eq(ask("DELETE", f"/sandboxes/{box['sandboxID']}", X_API_Key=key())[0], 204)
    w().delete(plain)


@test
def a_paused_sandbox_has_no_end():
    status, box = ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 2}, X_API_Key=key())
    eq(status, 201)
    status, short = ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 2}, X_API_Key=key())
    eq(status, 201)
    path = f"/sandboxes/{box['sandboxID']}"
    eq(ask("POST", f"{path}/pause", {}, X_API_Key=key())[0], 204)
    until(lambda: ask("GET", f"/sandboxes/{short['sandboxID']}", X_API_Key=key())[0] == 404, "the end of the other sandbox")
    status, now = ask("GET", path, X_API_Key=key())
    eq((status, now["state"]), (200, "paused"))
    eq(ask("DELETE", path, X_API_Key=key())[0], 204)


@test
def a_repeated_creation_creates_one_sandbox():
    headers = {"X_API_Key": key(), "Idempotency_Key": "abc-1"}
    first = ask("POST", "/v2/sandboxes", {"templateID": "base", "metadata": {"a": "1"}}, **headers)
    again = ask("POST", "/v2/sandboxes", {"templateID": "base", "metadata": {"a": "1"}}, **headers)
    eq((first[0], again[0]), (201, 201))
    eq(first[1]["sandboxID"], again[1]["sandboxID"])
    status, body = ask("POST", "/v2/sandboxes", {"templateID": "base", "metadata": {"a": "2"}}, **headers)
    eq((status, body["error_code"]), (422, "idempotency_request_mismatch"))
    eq(ask("DELETE", f"/sandboxes/{first[1]['sandboxID']}", X_API_Key=headers["X_API_Key"])[0], 204)


@test
def a_client_connects_again_after_a_restart():
    status, box = ask("POST", "/v2/sandboxes", {"templateID": "base"}, X_API_Key=key())
    eq(status, 201)
    plane = {"E2b_Sandbox_Id": box["sandboxID"], "E2b_Sandbox_Port": "49983", "X_Access_Token": box["envdAccessToken"]}
    exec_id = w().exec(box["sandboxID"], ["sleep", "1000"])
    before = ask("POST", "/process.Process/List", {}, **plane)[1]["processes"]
    eq(len(before), 1, exec_id)
    w().stop()
    w().start()
    eq(ask("POST", "/process.Process/List", {}, **plane)[1]["processes"][0]["pid"], before[0]["pid"])
    eq(ask("POST", "/process.Process/SendSignal",
           {"process": {"pid": before[0]["pid"]}, "signal": "SIGNAL_SIGKILL"}, **plane)[0], 200)
    eq(ask("DELETE", f"/sandboxes/{box['sandboxID']}", X_API_Key=key())[0], 204)


@test
def no_sandbox_is_left():
    eq([x["sandboxID"] for x in ask("GET", "/v2/sandboxes", X_API_Key=key())[1]], [])


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
