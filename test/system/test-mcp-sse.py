#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-mcp-sse.py - MCP over HTTP+SSE, the transport of old clients: one stream with all responses, and messages by
POST"""
import contextlib
import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from mcp_world import Legacy, Modern, Wire, events, gone  # pylint: disable=wrong-import-position
from serve_world import World, below, running, slurp, until  # pylint: disable=wrong-import-position

WORLD = World(tcp=True)
OLDEST = "2024-11-05"


def token_of(tenant):
    return WORLD.post("/v1/tokens", {"name": tenant, "tenant": tenant, "scopes": ["read", "write", "exec", "files"]}, status=201)["secret"]


class Old(Wire):
    """A client of HTTP+SSE: call() waits for its response on the stream."""

    def __init__(self, token=None, headers=None, version=OLDEST):
        super().__init__(WORLD, token, headers=headers)
        self.stream = self.client()
        r = self.stream.send("GET", "/sse", headers={"Accept": "text/event-stream", **self.own})
        eq((r.status, r.getheader("Content-Type")), (200, "text/event-stream"))
        eq(r.readline(), b"event: endpoint\n")
        self.path = r.readline().decode().removeprefix("data: ").strip()
        self.messages, self.seen = events(r), []
        self.begun = self.wait(self.post("initialize", {
            "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}))["result"]

    def post_raw(self, body, path=None, **headers):
        with self.client() as c:
            return c.ask("POST", path or self.path, body, {"Content-Type": "application/json", **headers})

    def post(self, method, params=None):
        m = self.message(method, params)
        r = self.post_raw(json.dumps(m))
        eq((r.status, r.body), (202, b""), r)
        return m["id"]

    def wait(self, ident):
        """Returns the response to this request; other messages are kept in `seen`."""
        for m in self.seen:
            if m.get("id") == ident and "method" not in m:
                self.seen.remove(m)
                return m
        for m in self.messages:
            if m.get("id") == ident and "method" not in m:
                return m
            self.seen.append(m)
        raise AssertionError(f"the stream has ended without a response to {ident}: {self.seen}")

    def run(self, command):
        return self.post("tools/call", {"name": "run_command", "arguments": {"command": command}})

    def good_run(self, command):
        return self.wait(self.run(command))["result"]["structuredContent"]

    def close(self):
        self.stream.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


@test
def all_responses_arrive_on_the_stream():
    with Old() as m:
        eq(m.begun["protocolVersion"], OLDEST)
        eq(m.wait(m.post("ping"))["result"], {})
        eq(len(m.wait(m.post("tools/list"))["result"]["tools"]), 16)
        first = m.good_run("echo hello")
        eq(first["stdout"], "hello\n")
        # Requests overlap: the second one makes the first one end.
        waits = m.run("until [ -e /go ]; do sleep 0.02; done; echo went")
        eq(m.good_run("touch /go; echo other")["stdout"], "other\n")
        eq(m.wait(waits)["result"]["structuredContent"]["stdout"], "went\n")
        eq(m.wait(m.post("nonsense"))["error"]["code"], -32601)
        eq(m.wait(m.post("tools/call", {"name": "nonsense"}))["error"]["code"], -32602)
        ident = m.post("tools/call", {"name": "run_command", "_meta": {"progressToken": "p"}, "arguments": {
            "command": "rm /go; echo so far; until [ -e /go ]; do sleep 0.02; done"}})
        p = next(x for x in m.messages if x.get("method") == "notifications/progress")
        eq((p["params"]["progressToken"], p["params"]["message"]), ("p", "so far\n"))
        m.run("touch /go")
        eq(m.wait(ident)["result"]["structuredContent"]["exit_code"], 0)
    gone(WORLD, first["sandbox"])
    with Old(version="2025-11-25", headers={"Warren-Network": "none"}) as m:
        eq(m.begun["protocolVersion"], "2025-11-25", "newer clients use this transport, too")
        eq(WORLD.show(m.good_run("true")["sandbox"])["network"], "none")


@test
def a_call_is_cancelled_by_a_message_or_by_the_end_of_the_stream():
    with Old() as m:
        for _ in range(2):
            ident = m.run("exec sleep 7541")
            until(lambda: running("sleep", "7541"), "positive control: it runs")
            eq(m.post_raw(json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": ident}})).status, 202)
            eq(m.wait(ident)["error"]["code"], -32800)
            until(lambda: not running("sleep", "7541"), "the process still runs")
        box = m.good_run("true")["sandbox"]
        m.run("exec sleep 7542")
        until(lambda: running("sleep", "7542"), "positive control: it runs")
    until(lambda: not running("sleep", "7542"), "the process still runs")
    gone(WORLD, box)
    eq(m.post_raw(json.dumps(m.message("ping"))).status, 404, "the session has ended")


@test
def a_token_can_use_only_its_own_session():
    one, two = token_of("one"), token_of("two")
    with Old(one) as m, Old(two) as other:
        ping = json.dumps(m.message("ping"))
        for path in ("/sse", "/sse?session_id=", "/sse?session_id=" + "0" * 24, "/sse?session_id=" + "0" * 5000, "/sse?session_id=%zz",
                     other.path):
            eq(m.post_raw(ping, path).status, 404, path[:100])
        eq(m.post_raw(ping).status, 202, "positive control")
        with Legacy(WORLD, one) as s:
            eq(m.post_raw(ping, f"/sse?session_id={s.session}").status, 404, "a session of the other transport")
        for body, status in ((b"", 400), (b"{", 400), (b"[]", 400), (f"[{ping}]".encode(), 400), (b'{"jsonrpc":"2.0","id":1}', 400),
                             (b"x" * ((8 << 20) + 1), 413)):
            eq(m.post_raw(body).status, status, body[:40])
        eq(m.post_raw(ping, **{"Content-Type": "text/plain"}).status, 415)
        eq(m.post_raw(ping, Origin="http://evil.example").status, 403)
        eq(m.post_raw(ping, Host="evil.example").status, 403)
    with WORLD.client(tcp=True) as c:
        eq(c.ask("GET", "/sse").status, 401)
    with WORLD.client(token=one, tcp=True) as c:
        eq(c.ask("GET", "/sse", headers={"Accept": "text/html"}).status, 406)
        for method in ("DELETE", "PUT"):
            r = c.ask(method, "/sse")
            eq((r.status, r.headers["allow"]), (405, "POST, GET"))


@test
def a_response_too_large_for_an_event_is_an_error():
    with Old() as m:
        m.good_run("head -c 3000000 /dev/urandom >/big")
        e = m.wait(m.post("tools/call", {"name": "download", "arguments": {"path": "/big"}}))["error"]
        ok("ask for less" in e["message"], e)
        r = m.wait(m.post("tools/call", {"name": "download", "arguments": {"path": "/big", "limit": 500000}}))["result"]
        eq(r["structuredContent"]["length"], 500000)


@test
def responses_wait_for_a_client_that_does_not_read():
    with Old() as m:
        m.good_run("head -c 600000 /dev/urandom >/big")
        idents = [m.post("tools/call", {"name": "download", "arguments": {"path": "/big"}}) for _ in range(8)]
        for ident in idents:
            eq(m.wait(ident)["result"]["structuredContent"]["length"], 600000)
        eq(m.good_run("echo alive")["stdout"], "alive\n")


@test
def a_client_that_never_reads_is_limited():
    with Old() as m:
        box = m.good_run("head -c 600000 /dev/urandom >/big")["sandbox"]
        with contextlib.suppress(AssertionError):  # the session ends in the middle
            for _ in range(200):
                m.post("tools/call", {"name": "download", "arguments": {"path": "/big"}})
        gone(WORLD, box)


@test
def a_stopping_service_answers_calls():
    with Old() as m, Old() as idle:
        ends, never = m.run("exec sleep 7544"), m.run("exec sleep 7543")
        until(lambda: running("sleep", "7544") and running("sleep", "7543"), "they do not begin")
        WORLD.process.terminate()
        eq(list(idle.messages), [], "a stream without calls ends at once")
        for pid in below(os.getpid()):
            with contextlib.suppress(OSError):
                if slurp(f"/proc/{pid}/cmdline") == "sleep\0007544\0":
                    os.kill(pid, signal.SIGTERM)
        eq(m.wait(ends)["result"]["structuredContent"]["signal"], signal.SIGTERM)
        e = m.wait(never)["error"]
        ok("stopping" in e["message"], e)
        eq(list(m.messages), [], "the stream ends")
        eq(WORLD.process.wait(60), 0)
    WORLD.local.__dict__.clear()
    WORLD.start()
    until(lambda: not WORLD.sandboxes(), "sandboxes of sessions are left")


@test
def streams_cannot_be_resumed():
    """Events have no ids, so clients cannot resume; a client that tries is refused."""
    with Legacy(WORLD) as m:
        a = m.raw(None, "GET", {"Last-Event-ID": "1"})
        eq(a.status, 400)
        ok("resumed" in a.last["error"]["message"], a)
        with m.client() as c:
            eq(m.send(c, None, "GET").status, 200, "positive control")
    # The modern protocol ignores the header.
    modern = Modern(WORLD)
    message = modern.message("tools/list")
    eq(modern.raw(message, headers={**modern.headers_for(message), "Last-Event-ID": "1"}).status, 200)


if __name__ == "__main__":
    with WORLD:
        status = run_tests()
    sys.exit(status)
