#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b.py - the official SDKs of E2B with Warren"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, ok, eq  # pylint: disable=wrong-import-position
from published import Published  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from serve_world import World, until  # pylint: disable=wrong-import-position

SECONDS = 300
CLIENTS = Published("e2b-clients")
WORLD = []


def w():
    if not WORLD:
        WORLD.append(World(tcp=True))
    return WORLD[0]


def key(**spec):
    return w().token("read", "write", "exec", "files", "secrets", e2b=True, **spec)


def program(*command, **env):
    """Runs a client. A failed check in it is a failure here."""
    url = f"http://127.0.0.1:{w().port}"
    r = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                       timeout=SECONDS, check=False,
                       env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "E2B_API_KEY": key(), "E2B_API_URL": url,
                            "E2B_SANDBOX_URL": url, **env})
    ok(r.returncode == 0 and r.stdout.splitlines()[-1:] == ["done"],
       f"status {r.returncode}: {r.stdout[-500:]} {r.stderr[-2500:]}")


def python(area, version="new"):
    program(CLIENTS.python(f"python-{version}"), "-B", f"{CLIENTS.wanted}/client.py", area)


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
    program("node", f"{CLIENTS.wanted}/client.mjs", E2B_CLIENTS=CLIENTS.node())


def ask(method, path, body=None, **headers):
    """Returns the status and the body of a response."""
    with w().client(tcp=True) as c:
        r = c.ask(method, path, body, headers={k.replace("_", "-"): v for k, v in headers.items()})
        return r.status, r.json() if r.body else None


@test
def an_unknown_field_is_refused():
    status, body = ask("POST", "/v2/sandboxes", {"templateID": "base", "egressProxy": {}}, X_API_Key=key())
    eq(status, 400)
    ok("egressProxy" in body["message"], body)
    status, body = ask("POST", "/v2/sandboxes", {"templateID": "base", "metadata": None}, X_API_Key=key())
    eq(status, 201, "null is as good as nothing")
    eq(ask("DELETE", f"/sandboxes/{body['sandboxID']}", X_API_Key=key())[0], 204)


@test
def keys_reach_only_the_sandboxes_of_their_tenant():
    mine, other = key(), key(tenant="other")
    status, box = ask("POST", "/v2/sandboxes", {}, X_API_Key=mine)
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
    status, theirs = ask("POST", "/v2/sandboxes", {}, X_API_Key=other)
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
    status, box = ask("POST", "/v2/sandboxes", {}, X_API_Key=key())
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
    status, box = ask("POST", "/v2/sandboxes", {"timeout": 2}, X_API_Key=key())
    eq(status, 201)
    status, short = ask("POST", "/v2/sandboxes", {"timeout": 2}, X_API_Key=key())
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
    first = ask("POST", "/v2/sandboxes", {"metadata": {"a": "1"}}, **headers)
    again = ask("POST", "/v2/sandboxes", {"metadata": {"a": "1"}}, **headers)
    eq((first[0], again[0]), (201, 201))
    eq(first[1]["sandboxID"], again[1]["sandboxID"])
    eq(ask("POST", "/v2/sandboxes", {"metadata": {"a": "2"}}, **headers)[0], 422)
    eq(ask("DELETE", f"/sandboxes/{first[1]['sandboxID']}", X_API_Key=headers["X_API_Key"])[0], 204)


@test
def a_client_connects_again_after_a_restart():
    status, box = ask("POST", "/v2/sandboxes", {}, X_API_Key=key())
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
