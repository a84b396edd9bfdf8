#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-mcp-edges.py - MCP in unusual situations: malformed messages, tokens of others, cancellation, clients that
disconnect, many sessions, a killed service"""
import json
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from mcp_world import Legacy, META, MODERN, Modern, Wire, events, gone  # pylint: disable=wrong-import-position
from serve_world import World, together, until  # pylint: disable=wrong-import-position

WORLD = World(tcp=True)
ADMIN = WORLD.token("admin")
MISSING = "k3f9x2m7qd1w"  # an id that does not exist


def token_of(tenant, *scopes, **spec):
    return WORLD.post("/v1/tokens", {"name": tenant, "tenant": tenant, "scopes": list(scopes), **spec}, status=201)


def is_running(m, box, word):
    """Does a process whose command line has the word run in the sandbox?"""
    r = m.good("run_command", sandbox=box, command=f"grep -al {word}[.]mark /proc/[0-9]*/cmdline | grep -v self; true")
    return bool(r["stdout"].strip())


# ------------------------------------------------------------------------ messages


@test
def malformed_messages_are_refused():
    m = Legacy(WORLD)
    bad = [
        (b"", -32700), (b"{", -32700), (b"nonsense", -32700), (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700),
        (b'"text"', -32600), (b"5", -32600), (b"null", -32600), (b"{}", -32600),
        (b'{"id":1,"method":"ping"}', -32600), (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600), (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":[],"method":"ping"}', -32600), (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600), (b'{"jsonrpc":"2.0","id":1,"method":"ping\\u0000"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":5}}', -32602),
        (b'{"jsonrpc":"2.0","id":"' + b"x" * 2000 + b'","method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","x":"\xff"}', -32700),
        (b"[" * 1000 + b"]" * 1000, -32700), (b"[]", -32600), (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
    ]
    for body, code in bad:
        a = m.raw(body)
        eq((a.status, a.last["error"]["code"], a.last["id"]), (400, code, None), f"{body[:80]}: {a}")
    for ident in (0, -1, 2**53, "", "text", "\u00e9\0"):
        a = m.raw({"jsonrpc": "2.0", "id": ident, "method": "ping"})
        eq((a.status, a.last), (200, {"jsonrpc": "2.0", "id": ident, "result": {}}))
    m.error("nonsense", code=-32601, status=200)
    m.error("server/discover", code=-32601, status=200)
    m.error("tasks/list", code=-32601, status=200)
    # Without the capability, a request for a task is ignored.
    r = m.result("tools/call", {"name": "sandbox_list", "arguments": {}, "task": {"ttl": 1000}})
    ok("task" not in r and "sandboxes" in r["structuredContent"], r)
    m.error("tools/call", {}, code=-32602, status=200)
    m.error("tools/call", {"name": "nonsense"}, code=-32602, status=200)
    m.error("tools/call", {"name": "read_file\0"}, code=-32602, status=200)
    m.error("tools/call", {"name": "read_file", "arguments": []}, code=-32602, status=200)
    eq(m.raw({"jsonrpc": "2.0", "method": "notifications/nonsense"}).status, 202)
    eq(m.raw({"jsonrpc": "2.0", "id": 1, "result": {}}).status, 202)
    m.close()


@test
def only_one_protocol_revision_accepts_batches():
    with Legacy(WORLD, version="2025-03-26") as m:
        a = m.raw([m.message("ping"), {"jsonrpc": "2.0", "method": "notifications/x"}, m.message("nonsense"), 5,
                   m.message("initialize", {}), m.message("tools/call", {"name": "run_command", "arguments": {"command": "echo x"}})])
        eq(a.status, 200)
        answers = {json.dumps(x["id"]): x for x in a.last}
        eq(len(a.last), 5)
        ok("result" in answers["1"] and answers["2"]["error"]["code"] == -32601 and answers["null"]["error"]["code"] == -32600
           and answers["3"]["error"]["code"] == -32600, a)
        eq(answers["4"]["result"]["structuredContent"]["stdout"], "x\n")
        eq(m.raw([{"jsonrpc": "2.0", "method": "notifications/x"}]).status, 202)
        eq(m.raw([m.message("ping")] * 101).status, 400)
    m = Modern(WORLD)
    message = m.message("tools/list")
    a = m.raw([message], headers=m.headers_for(message))
    eq((a.status, a.last["error"]["code"]), (400, -32600))


@test
def a_session_can_end_in_the_middle_of_an_array():
    api = WORLD.api
    m = Legacy(WORLD, version="2025-03-26")
    messages = [m.message("tools/list") for _ in range(90)] + [m.message("logging/setLevel", {"level": "info"}) for _ in range(10)]
    with m.client() as c:
        c.open().request("POST", "/mcp", json.dumps(messages), {"Accept": "application/json", "Content-Type": "application/json", **m.own})
        eq(m.close(), 204)
        answers = json.loads(c.http.getresponse().read())
    if isinstance(answers, list):  # otherwise, the connection ended before
        eq(sorted(a["id"] for a in answers), sorted(x["id"] for x in messages))
    eq(WORLD.api, api, "the service has crashed")


@test
def modern_requests_are_checked_in_order():
    m = Modern(WORLD)

    def ask(change=None, headers=None, method="tools/list", **params):
        message = m.message(method, params)
        if change:
            change(message["params"]["_meta"])
        return m.raw(message, headers={**m.headers_for(message), **(headers or {})})

    def code(a, status, number):
        eq((a.status, a.last["error"]["code"]), (status, number), a)
        return a.last["error"]

    eq(ask().status, 200)
    code(ask(lambda x: x.pop(META + "protocolVersion")), 400, -32602)
    code(ask(lambda x: x.pop(META + "clientCapabilities")), 400, -32602)
    code(ask(headers={"MCP-Protocol-Version": "2099-01-01"}), 400, -32020)
    code(ask(headers={"MCP-Protocol-Version": None}), 400, -32020)
    code(ask(headers={"MCP-Protocol-Version": "2025-11-25"}), 400, -32020)
    code(ask(headers={"Mcp-Method": None}), 400, -32020)
    code(ask(headers={"Mcp-Method": "tools/call"}), 400, -32020)
    code(ask(method="tools/call", name="run_command", headers={"Mcp-Name": "x"}), 400, -32020)
    e = code(ask(lambda x: x.update({META + "protocolVersion": "2099-01-01"}), {"MCP-Protocol-Version": "2099-01-01"}), 400, -32022)
    eq(e["data"], {"supported": [MODERN], "requested": "2099-01-01"})
    # Removed methods, methods of undeclared extensions, and methods that never existed.
    for unknown in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/get", "tasks/cancel", "skills/list", "nonsense"):
        code(ask(method=unknown), 404, -32601)
    ok("extensions" not in ask(method="server/discover").last["result"]["capabilities"], "an extension is declared")
    a = ask(method="tools/call", name="sandbox_list", headers={"Mcp-Name": "=?base64?c2FuZGJveF9saXN0?="})
    eq(a.status, 200, "an encoded name")
    code(ask(lambda x: x.update({META + "logLevel": "loud"})), 400, -32602)
    eq(m.raw({"jsonrpc": "2.0", "method": "notifications/x"}, headers={"MCP-Protocol-Version": MODERN}).status, 202)
    eq(m.raw({"jsonrpc": "2.0", "id": 1, "result": {}}, headers={"MCP-Protocol-Version": MODERN}).status, 400)
    for method in ("GET", "DELETE"):
        a = m.raw(None, method, {"MCP-Protocol-Version": MODERN})
        eq((a.status, a.headers["allow"]), (405, "POST"))


@test
def http_methods_and_headers_are_checked():
    m = Legacy(WORLD)
    ping = m.message("ping")
    eq(m.raw(ping, headers={"Content-Type": "text/plain"}).status, 415)
    eq(m.raw(ping, headers={"Content-Type": None}).status, 415)
    eq(m.raw(ping, headers={"Content-Type": "application/json; charset=utf-8"}).status, 200)
    eq(m.raw(ping, headers={"Content-Encoding": "gzip"}).status, 415)
    eq(m.raw(ping, headers={"Accept": "text/html"}).status, 406)
    for accept in (None, "*/*", "application/json"):
        eq(m.raw(ping, headers={"Accept": accept}).status, 200)
    eq(m.raw(None, "GET", {"Accept": "application/json"}).status, 406)
    for method in ("PUT", "PATCH", "OPTIONS"):
        eq(m.raw(None, method).status, 405, method)
    eq(m.raw(b"x" * ((8 << 20) + 1)).status, 413)
    eq(m.raw(json.dumps(m.message("tools/call", {"name": "write_file", "arguments": {
        "path": "/big", "content": "x" * (7 << 20)}}))).last["result"]["structuredContent"]["size"], 7 << 20)
    eq(m.raw(ping, headers={"Mcp-Session-Id": None}).status, 200, "ping needs no session")
    eq(m.raw(m.message("tools/list"), headers={"Mcp-Session-Id": None}).status, 400)
    eq(m.raw(m.message("tools/list"), headers={"Mcp-Session-Id": "0" * 24}).status, 404)
    eq(m.raw(m.message("tools/list"), headers={"Warren-Image": "other"}).status, 400)
    eq(m.close(), 204)
    eq(m.close(), 404)
    eq(m.raw(m.message("tools/list")).status, 404)


@test
def a_large_result_is_never_sent_as_an_event():
    with Legacy(WORLD) as m:
        m.good("run_command", command="head -c 3000000 /dev/urandom >/big")
        a = m.call("tools/call", {"name": "download", "arguments": {"path": "/big"}})
        ok(not a.streamed and len(a.last["result"]["content"][1]["resource"]["blob"]) == 4000000, "the whole file")
        # Each NUL takes 13 bytes in a result.
        a = m.call("tools/call", {"name": "run_command", "_meta": {"progressToken": 1}, "arguments": {
            "command": "head -c 300000 /dev/zero; sleep 0.5", "max_output": 262144}})
        ok(len(json.dumps(a.last)) < 1 << 20 if a.streamed else True, "an event is too large")


# --------------------------------------------------------------------------- access


@test
def the_token_is_checked_first():
    for token in (None, "wrong", "wrn_" + "0" * 64):
        w = Wire(WORLD, token, tcp=True)
        for method, body in (("POST", w.message("ping")), ("GET", None), ("DELETE", None), ("PUT", None)):
            a = w.raw(body, method)
            eq((a.status, a.headers.get("www-authenticate")), (401, "Bearer"), f"{method} with {token}")
    with Legacy(WORLD, ADMIN) as m:
        eq(m.result("ping"), {}, "positive control")


@test
def requests_from_pages_of_other_origins_are_refused():
    w = Wire(WORLD, ADMIN)
    ping = w.message("ping")
    for header in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Origin": "null"}):
        eq(w.raw(ping, headers=header).status, 403, header)
    eq(w.raw(ping).status, 200)
    eq(w.raw(ping, headers={"Origin": f"http://127.0.0.1:{WORLD.port}"}).status, 200)


@test
def tenants_do_not_see_each_other():
    one, two = (token_of(t, "read", "write", "exec", "files")["secret"] for t in ("one", "two"))
    a, b = Legacy(WORLD, one), Legacy(WORLD, two)
    box = a.good("run_command", command="true")["sandbox"]
    for tool, arguments in (("run_command", {"command": "true"}), ("read_file", {"path": "/etc/passwd"}), ("sandbox_delete", {}),
                            ("sandbox_pause", {}), ("list_files", {}), ("port_url", {"port": 80}), ("session_run", {"command": "true"})):
        foreign, missing = (b.bad(tool, sandbox=which, **arguments).text for which in (box, MISSING))
        eq(foreign.replace(box, "X"), missing.replace(MISSING, "X"), tool)
    eq(b.good("sandbox_list")["sandboxes"], [])
    eq([s["sandbox"] for s in a.good("sandbox_list")["sandboxes"]], [box], "positive control")
    # A session belongs to its token.
    for other in (two, ADMIN, token_of("one", "read")["secret"]):
        w = Wire(WORLD, other, headers={"Mcp-Session-Id": a.session})
        for method, body in (("POST", w.message("tools/list")), ("GET", None), ("DELETE", None)):
            eq(w.raw(body, method).status, 404, method)
    eq(a.good("run_command", command="true")["sandbox"], box)
    named = [Modern(WORLD, t, headers={"Warren-Session": "same"}) for t in (one, two)]
    ok(len({n.good("run_command", command="true")["sandbox"] for n in named}) == 2, "two tenants share a named session")
    for n in named:
        n.raw(None, "DELETE")
    a.close()
    b.close()


@test
def scopes_and_sandboxes_of_tokens_are_enforced():
    with Legacy(WORLD, token_of("scopes", "read")["secret"]) as m:
        m.bad("run_command", "'exec'", command="true")
        m.bad("read_file", "'files'", path="/x")
        m.bad("sandbox_create", "'write'")
        m.good("sandbox_list")
    with Legacy(WORLD, token_of("scopes", "exec")["secret"]) as m:
        m.bad("run_command", "'write'", command="true")
    box, other = WORLD.create(), WORLD.create()
    m = Modern(WORLD, WORLD.token("exec", "read", "write", sandbox_id=box))
    eq(m.good("run_command", command="true")["sandbox"], box)
    m.bad("run_command", "only for", command="true", sandbox=other)
    m.bad("sandbox_create", "only for")
    eq([s["sandbox"] for s in m.good("sandbox_list")["sandboxes"]], [box])
    WORLD.delete(box)
    WORLD.delete(other)


@test
def a_session_ends_with_its_token():
    token = token_of("short", "read", "write", "exec")
    m = Legacy(WORLD, token["secret"])
    box = m.good("run_command", command="true")["sandbox"]
    with m.client() as c:
        stream = m.send(c, None, "GET")
        eq(stream.status, 200)
        WORLD.ask("DELETE", f"/v1/tokens/{token['id']}", status=204)
        eq(m.raw(m.message("ping")).status, 401)
        stream.read()
    gone(WORLD, box)


# --------------------------------------------------------------------- cancellation


def begin(m, c, tool, arguments):
    """Starts a call whose process reports that it runs; returns the unread response and the id."""
    message = m.message("tools/call", {"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}})
    r = m.send(c, message, headers=m.headers_for(message))
    it = events(r)
    eq(next(it)["params"]["message"], "begun\n")
    return it, message["id"]


def long(word):
    return f"echo begun; exec bash -c 'exec -a {word}.mark sleep 1000'"


@test
def cancellation_kills_the_process():
    m = Legacy(WORLD)
    box = m.good("run_command", command="true")["sandbox"]
    for tool in ("run_command", "session_run"):
        with m.client() as c:
            command = long("cancel") if tool == "run_command" else long("cancel").replace("exec bash", "bash")
            it, ident = begin(m, c, tool, {"command": command})
            # During execve(2), a process has no arguments.
            until(lambda: is_running(m, box, "cancel"), "positive control: it runs")
            eq(m.notify("notifications/cancelled", {"requestId": "other"}).status, 202)
            eq(m.notify("notifications/cancelled", {"requestId": str(ident)}).status, 202)
            until(lambda: is_running(m, box, "cancel"), "another id cancels it")
            eq(m.notify("notifications/cancelled", {"requestId": ident, "reason": "test"}).status, 202)
            eq(m.notify("notifications/cancelled", {"requestId": ident}).status, 202)
            last = [x for x in it if "id" in x]
            eq((len(last), last[0]["id"], last[0]["error"]["code"]), (1, ident, -32800))
            until(lambda: not is_running(m, box, "cancel"), f"{tool}: the process still runs")
        eq(m.notify("notifications/cancelled", {"requestId": ident}).status, 202)
    eq(m.notify("notifications/cancelled", {}).status, 202)
    until(lambda: m.tool("session_run", command="echo alive").data, "the shell is busy")
    m.close()


@test
def a_disconnecting_modern_client_cancels_its_call():
    m, box = Modern(WORLD), WORLD.create()
    with m.client() as c:
        begin(m, c, "run_command", {"command": long("leave"), "sandbox": box})
        until(lambda: is_running(m, box, "leave"), "positive control: it runs")
        c.http.sock.shutdown(socket.SHUT_RDWR)
    until(lambda: not is_running(m, box, "leave"), "the process still runs")
    WORLD.delete(box)


@test
def a_disconnecting_legacy_client_does_not_cancel_its_call():
    m = Legacy(WORLD)
    box = m.good("run_command", command="true")["sandbox"]
    with m.client() as c:
        begin(m, c, "run_command", {"command": "echo begun; until [ -e /go ]; do sleep 0.02; done; echo done >/done"})
        c.http.sock.shutdown(socket.SHUT_RDWR)
    m.good("write_file", path="/go", content="")
    until(lambda: not m.tool("read_file", path="/done").failed, "it was cancelled")
    with m.client() as c:
        begin(m, c, "run_command", {"command": long("ends")})
        m.close()
    gone(WORLD, box)


# ------------------------------------------------------------------------- sessions


@test
def fifty_sessions_work_at_the_same_time():
    before = len(WORLD.sandboxes())

    def one(i):
        with Legacy(WORLD) as m:
            m.good("write_file", path="/mine", content=str(i))
            return m.good("run_command", command="cat /mine")["stdout"]

    eq(together(50, one), [str(i) for i in range(50)])
    until(lambda: len(WORLD.sandboxes()) == before, "some sandboxes are left")


@test
def a_session_has_one_stream_and_bounded_calls():
    m = Legacy(WORLD)
    box = m.good("run_command", command="true")["sandbox"]
    with m.client() as c:
        r = m.send(c, None, "GET")
        eq((r.status, r.getheader("Content-Type")), (200, "text/event-stream"))
        eq(m.raw(None, "GET").status, 409)
        waiting = [m.client() for _ in range(64)]
        for w in waiting:
            h = {"Accept": "application/json", "Content-Type": "application/json", **m.own}
            w.open().request("POST", "/mcp", json.dumps(m.message("tools/call", {
                "name": "run_command", "arguments": {"command": "sleep 1000"}})), h)
        until(lambda: "error" in m.call("tools/list").last, "the session has no limit")
        m.error("tools/list", code=-32603, status=200)
        eq(m.close(), 204)
        eq(r.read(), b"", "the stream ends with the session")
        for w in waiting:
            answer = json.loads(w.http.getresponse().read())
            ok(answer["error"]["code"] in (-32800, -32603), answer)
            w.close()
    gone(WORLD, box)


@test
def a_killed_service_leaves_no_sandbox():
    m = Legacy(WORLD)
    own = m.good("run_command", command="true")["sandbox"]
    with Legacy(WORLD, headers={"Warren-Keep": "1"}) as k:
        kept = k.good("run_command", command="true")["sandbox"]
    WORLD.kill("api", "warden")
    WORLD.start()
    gone(WORLD, own)
    eq(WORLD.state_of(kept), "running")
    eq(m.raw(m.message("tools/list")).status, 404)
    WORLD.delete(kept)


if __name__ == "__main__":
    with WORLD:
        status = run_tests()
    sys.exit(status)
