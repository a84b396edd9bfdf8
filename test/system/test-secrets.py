#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-secrets.py - secrets are set, listed and deleted, and their values are never shown again"""
import glob
import json
import os
import pty
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, refused, slurp, until  # pylint: disable=wrong-import-position

VALUE = "s3cr3t-value-that-stays-hidden"
w = None  # pylint: disable=invalid-name


def names(**kw):
    return [s["name"] for s in w.ask("GET", "/v1/secrets", status=200, **kw).json()["secrets"]]


def put(name, value, status=None, **kw):
    return w.ask("PUT", f"/v1/secrets/{name}", {"value": value}, status=status, **kw)


def state_files():
    return [p for p in glob.glob(f"{w.state}/serve/**", recursive=True) if os.path.isfile(p)]


def holders(text):
    """The files of the service that contain the text."""
    found = []
    for path in state_files():
        with open(path, "rb") as f:
            if text.encode() in f.read():
                found.append(path)
    return found


@test
def a_secret_is_set_listed_and_deleted():
    eq(put("GITHUB_TOKEN", VALUE).status, 201)
    eq(put("GITHUB_TOKEN", VALUE + "2").status, 204)
    eq(put("_other1", "x").status, 201)
    listed = w.get("/v1/secrets")
    eq([sorted(s) for s in listed["secrets"]], [["created_at", "name", "updated_at"]] * 2)
    eq(names(), ["GITHUB_TOKEN", "_other1"])
    page = w.ask("GET", "/v1/secrets", query={"limit": 1}, status=200).json()
    eq((len(page["secrets"]), page["next_cursor"]), (1, "GITHUB_TOKEN"))
    page = w.ask("GET", "/v1/secrets", query={"limit": 1, "cursor": page["next_cursor"]}, status=200).json()
    eq((page["secrets"][0]["name"], page["next_cursor"]), ("_other1", None))
    w.ask("DELETE", "/v1/secrets/_other1", status=204)
    refused(w.ask("DELETE", "/v1/secrets/_other1"), 404, "not_found")
    eq(names(), ["GITHUB_TOKEN"])


@test
def a_name_or_value_that_is_not_valid_is_refused_without_the_value():
    for name in ("9a", "a-b", "a.b", "x" * 65):
        refused(put(name, VALUE), 404, "not_found")
    for value in ("", VALUE + "\n", VALUE + "\r\nX: y", VALUE + "\u0001", "x" * 16385, 7, None):
        r = put("BAD", value)
        refused(r, 400, "invalid_request")
        ok(VALUE not in r.body.decode() and "xxx" not in r.body.decode(), f"the error contains the value: {r}")
    refused(w.ask("PUT", "/v1/secrets/BAD", {"value": "x", "more": 1}), 400, "invalid_request")
    # A value of another type, and bodies that are not JSON: their errors repeat nothing either.
    for body, code in ((b'{"value": 8675309}', "invalid_request"), (b'{"value": 86753.09}', "invalid_request"),
                       (b'{"value": "8675309', "invalid_json"), (b'{"value": 8675309"}', "invalid_json"),
                       (b'{"value": x8675309}', "invalid_json")):
        r = w.ask("PUT", "/v1/secrets/BAD", body, headers={"Content-Type": "application/json"})
        refused(r, 400, code)
        ok("86753" not in r.body.decode(), f"the error contains the value: {r}")
    ok("86753" not in slurp(w.log_path), "the log contains the value")
    refused(w.ask("GET", "/v1/secrets/GITHUB_TOKEN"), 405, "method_not_allowed")
    ok("BAD" not in names(), "a value that is not valid was stored")
    eq(put("LONGEST", "x" * 16384).status, 201)
    w.ask("DELETE", "/v1/secrets/LONGEST", status=204)


@test
def another_tenant_sees_nothing():
    other = w.token("secrets", "read", tenant="other")
    own = w.token("secrets", "read", tenant="own")
    eq(put("TOKEN", "own's", token=own).status, 201)
    eq(names(token=other), [])
    refused(w.ask("DELETE", "/v1/secrets/TOKEN", token=other), 404, "not_found")
    eq(put("TOKEN", "other's", token=other).status, 201)
    w.ask("DELETE", "/v1/secrets/TOKEN", token=other, status=204)
    eq(names(token=own), ["TOKEN"])
    for scope in ("read", "write", "exec", "files", "tokens", "metrics"):
        refused(w.ask("GET", "/v1/secrets", token=w.token(scope, tenant="own")), 403, "forbidden")
        refused(put("TOKEN", "x", token=w.token(scope, tenant="own")), 403, "forbidden")
    eq(names(token=w.token("admin", tenant="own")), ["TOKEN"])


@test
def a_policy_uses_secrets_only_with_the_scope_for_them():
    def network(text):
        return {"network": {"allow": [{"host": "a.test", "headers": {"X-Key": text}}]}}

    few = w.token("read", "write", "exec", tenant="scoped")
    full = w.token("read", "write", "secrets", tenant="scoped")
    eq(put("KEY", "x", token=full).status, 201)
    for name in ("KEY", "MISSING"):  # the answer does not say which secrets exist
        r = w.ask("POST", "/v1/sandboxes", {"image": "host", **network("${secret.%s}" % name)}, token=few)
        refused(r, 403, "forbidden", "/network", "scope 'secrets'")
    # The control: no secret is named here.
    box = w.create(image="host", token=few, **network("$${secret.KEY}"))
    refused(w.ask("PATCH", f"/v1/sandboxes/{box}", network("${secret.KEY}"), token=few), 403, "forbidden", "secrets")
    w.ask("PATCH", f"/v1/sandboxes/{box}", network("${secret.KEY}"), token=full, status=200)
    w.ask("DELETE", f"/v1/sandboxes/{box}", token=full, status=204)


@test
def a_secret_that_a_policy_uses_cannot_be_deleted():
    def network(text):
        return {"network": {"allow": [{"host": "a.test", "headers": {"X-Key": text}}]}}

    for name in ("USED", "USE"):  # one name begins with the other
        eq(put(name, "x").status, 201)
    box = w.create(image="host", **network("Bearer ${secret.USED}"))
    refused(w.ask("DELETE", "/v1/secrets/USED"), 409, "conflict", box)
    w.ask("DELETE", "/v1/secrets/USE", status=204)
    # The characters themselves are no use of the secret.
    w.ask("PATCH", f"/v1/sandboxes/{box}", network("$${secret.USED}"), status=200)
    w.ask("DELETE", "/v1/secrets/USED", status=204)
    w.delete(box)


@test
def the_value_is_in_no_file_log_or_event():
    eq(put("HIDDEN", VALUE).status, 201)
    w.ask("DELETE", "/v1/secrets/HIDDEN", status=204)
    seen = []
    for event in w.events("/v1/events", format="ndjson", since=0):
        seen.append(event)
        if event["type"] == "secret.deleted" and event.get("secret") == "HIDDEN":
            break
    ok(any(e["type"] == "secret.set" and e["secret"] == "HIDDEN" and e["owner"] == "local" for e in seen), "no event for the secret")
    ok(VALUE not in json.dumps(seen), "an event contains the value")
    eq(holders(VALUE), [])
    ok(holders("GITHUB_TOKEN"), "the name is not in the database: the check looks in the wrong place")
    ok(VALUE not in slurp(w.log_path), "the log contains the value")


@test
def the_key_is_private_and_needed():
    key = f"{w.state}/serve/secrets.key"
    eq(os.stat(key).st_mode & 0o777, 0o600)
    with open(key, encoding="ascii") as f:
        text = f.read()
    eq(len(text), 65)
    os.rename(key, key + ".away")
    r = put("NEW", "x")
    refused(r, 409, "conflict", "secrets.key", "missing")
    ok(not os.path.exists(key), "a new key was created although secrets exist")
    w.kill("api", "warden")
    w.start()
    ok(names(), "the service does not start without the key")
    refused(put("NEW", "x"), 409, "conflict", "missing")
    with open(key, "w", encoding="ascii") as f:
        os.fchmod(f.fileno(), 0o644)
        f.write(text)
    os.chown(key, os.stat(key + ".away").st_uid, -1)
    refused(put("NEW", "x"), 409, "conflict", "0600")
    os.remove(key)
    os.rename(key + ".away", key)
    eq(put("NEW", "x").status, 201)
    w.ask("DELETE", "/v1/secrets/NEW", status=204)


def warren(*args, **kw):
    env = {**os.environ, "WARREN_HOST": f"unix:{w.socket}"}
    return subprocess.run([os.path.join(BUILD, "warren"), *args], env=env, capture_output=True, timeout=60, check=False,
                          **kw)


@test
def the_command_reads_the_value_from_stdin():
    done = warren("secret", "set", "FROM_STDIN", input=b"from stdin\n")
    eq((done.returncode, done.stdout, done.stderr), (0, b"", b""))
    ok("FROM_STDIN" in warren("secret", "ls").stdout.decode(), "the table lacks the secret")
    eq(warren("secret", "ls", "-q").stdout.decode().split(), names())
    eq([s["name"] for s in json.loads(warren("secret", "ls", "--json").stdout)], names())
    for args, given in ((["set", "X", VALUE], b""), (["set", "9x"], b"x"), (["set", "X"], b""), (["set", "X"], b"\n"),
                        (["set", "X"], b"a\nb\n"), (["set", "X"], b"a\0b"), (["set", "X"], b"x" * 20000)):
        done = warren("secret", *args, input=given)
        ok(done.returncode != 0, f"warren secret {args} with {given[:10]} succeeds")
    eq(warren("secret", "rm", "--json", "FROM_STDIN").stdout, b'{"name":"FROM_STDIN"}\n')
    ok(warren("secret", "rm", "FROM_STDIN").returncode != 0, "a secret was deleted twice")
    ok("X" not in names(), "a value that is not valid was stored")


@test
def a_value_typed_at_a_terminal_is_not_shown():
    ours, theirs = pty.openpty()
    env = {**os.environ, "WARREN_HOST": f"unix:{w.socket}"}
    shown = b""
    with subprocess.Popen([os.path.join(BUILD, "warren"), "secret", "set", "TYPED"], env=env, stdin=theirs,
                          stdout=theirs, stderr=theirs) as p:
        os.close(theirs)
        while b"not shown" not in shown:
            shown += os.read(ours, 4096)
        os.write(ours, VALUE.encode() + b"\n")
        eq(p.wait(60), 0)
    os.set_blocking(ours, False)
    try:
        shown += os.read(ours, 4096)
    except OSError:
        pass
    os.close(ours)
    ok(VALUE.encode() not in shown, f"the value was shown: {shown}")
    until(lambda: "TYPED" in names(), "the secret")


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
