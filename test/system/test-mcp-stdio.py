#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-mcp-stdio.py - warren mcp: messages between stdio and a service that the test simulates"""
import json
import os
import signal
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, ok, eq, run_tests, scratch, warren, ROOT, WARREN  # pylint: disable=wrong-import-position
from mcp_stdio import Bridge, Played, environ, LEGACY, MODERN, WAIT  # pylint: disable=wrong-import-position

SESSION = "a-session"


def result(message, **members):
    return {"jsonrpc": "2.0", "id": message["id"], "result": members}


def opened(r, message):
    r.json(result(message, protocolVersion=LEGACY, capabilities={}), headers=[("Mcp-Session-Id", SESSION)])


def common(r, message):
    """Answers the messages that every session sends. Returns whether it was one of them."""
    if r.command == "GET":
        r.json({"code": "no", "message": "no stream here"}, 405)
    elif r.command == "DELETE":
        r.json(None, 204)
    elif message.get("method") == "initialize":
        opened(r, message)
    elif "id" not in message:
        r.json(None, 202)
    else:
        return False
    return True


def echo(r, message):
    if not common(r, message):
        r.json(result(message, method=message["method"]))


def bridge(played, *options, **kw):
    return Bridge(*options, env=environ(WARREN_HOST=played.host), **kw)


@test
def requests_of_a_session_have_the_required_headers():
    with Played(echo) as s, bridge(s, "--image", "python:3.12", "--network", "none", "--keep") as b:
        eq(b.initialize()["protocolVersion"], LEGACY)
        eq(b.call("tools/list")["method"], "tools/list")
        _, first, _ = s.requests[0]
        eq((first.get("Mcp-Session-Id"), first.get("MCP-Protocol-Version")), (None, None), "of initialize")
        eq(first["Accept"], "application/json, text/event-stream")
        eq((first["Warren-Image"], first["Warren-Network"], first["Warren-Keep"]), ("python:3.12", "none", "1"))
        _, later, _ = s.wait(lambda _, h, m: m and m.get("method") == "tools/list", "the list")
        eq((later["Mcp-Session-Id"], later["MCP-Protocol-Version"]), (SESSION, LEGACY))
        eq(later["Warren-Session"], first["Warren-Session"])
        ok(len(first["Warren-Session"]) >= 24, "a name that cannot be guessed")
        _, stream, _ = s.wait(lambda c, h, m: c == "GET" and h.get("Mcp-Session-Id"), "the stream")
        eq(stream["Accept"], "text/event-stream")
        eq(b.end(), (0, b""))
        _, last, _ = s.wait(lambda c, h, m: c == "DELETE", "the end")
        eq((last["Mcp-Session-Id"], last["Warren-Session"]), (SESSION, first["Warren-Session"]))


@test
def modern_requests_are_described_in_headers():
    with Played(echo) as s, bridge(s) as b:
        b.call("server/discover", modern=True)
        b.call("tools/call", {"name": "read_file"}, modern=True)
        b.call("resources/read", {"uri": "warren://x/ü"}, modern=True)
        posts = [h for c, h, m in s.requests if c == "POST"]
        eq([h["Mcp-Method"] for h in posts], ["server/discover", "tools/call", "resources/read"])
        eq([h.get("Mcp-Name") for h in posts], [None, "read_file", "=?base64?d2FycmVuOi8veC/DvA==?="])
        eq({h["MCP-Protocol-Version"] for h in posts}, {MODERN})
        eq(len({h["Warren-Session"] for h in posts}), 1, "names of the session")
        ok(not any("Mcp-Session-Id" in h for h in posts), "no session of the protocol")
    with Played(echo) as s, bridge(s) as other:
        other.call("server/discover", modern=True)
        ok(s.requests[0][1]["Warren-Session"] != posts[0]["Warren-Session"], "another process, another name")


@test
def the_body_is_forwarded_unchanged():
    bodies = []

    def keep(r, message):
        bodies.append(message)
        echo(r, message)
    with Played(keep) as s, bridge(s) as b:
        b.initialize()
        for number in (0, "text", -7):
            b.send({"method": "ping", "id": number, "jsonrpc": "2.0", "params": {"x": "\u0000\u2028é"}})
            eq(b.answer(number)["id"], number)
        eq(bodies[-1]["params"], {"x": "\u0000\u2028é"})


@test
def answers_may_come_in_any_order():
    gates = {n: threading.Event() for n in range(50)}

    def gated(r, message):
        if not common(r, message):
            gates[message["params"]["n"]].wait(WAIT)
            r.json(result(message, n=message["params"]["n"]))
    with Played(gated) as s, bridge(s) as b:
        b.initialize()
        ids = {n: b.request("tools/call", {"n": n}) for n in gates}
        s.wait(lambda *_: sum(m is not None and m.get("method") == "tools/call" for _, _, m in s.requests) == 50,
               "all at once")
        for n in reversed(gates):
            gates[n].set()
            eq(b.message(), {"jsonrpc": "2.0", "id": ids[n], "result": {"n": n}})


@test
def each_event_becomes_a_line():
    def events(r, message):
        if common(r, message):
            return
        progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}
        last = json.dumps(result(message, text="é")).encode()
        r.stream(b": ping\n\nid: 1\nretry: 10\ndata:\n\n", b"event: message\r\ndata: " + json.dumps(progress).encode()[:20],
                 json.dumps(progress).encode()[20:] + b"\r\n\r", b"\ndata: {\ndata: " + last[1:5], last[5:] + b"\n\n")
    with Played(events) as s, bridge(s) as b:
        b.initialize()
        n = b.request("tools/call")
        eq(b.message()["params"]["progress"], 1)
        eq(b.message(), {"jsonrpc": "2.0", "id": n, "result": {"text": "é"}})


@test
def a_json_answer_with_line_breaks_is_one_line():
    def pretty(r, message):
        if not common(r, message):
            data = json.dumps(result(message, a=[1, 2]), indent=2).encode()
            r.send_response(200)
            r.send_header("Content-Type", "application/json")
            r.send_header("Content-Length", str(len(data)))
            r.end_headers()
            r.wfile.write(data)
    with Played(pretty) as s, bridge(s) as b:
        b.initialize()
        eq(b.call("x"), {"a": [1, 2]})


@test
def messages_of_the_service_are_written_to_stdout():
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}

    def streaming(r, message):
        if r.command == "GET" and r.headers.get("Mcp-Session-Id"):
            r.stream(b"data: " + json.dumps(changed).encode() + b"\n\n")
        else:
            echo(r, message)
    with Played(streaming) as s, bridge(s) as b:
        b.initialize()
        eq(b.message(), changed)


@test
def invalid_lines_are_answered_with_an_error():
    with Played(echo) as s, bridge(s) as b:
        b.initialize()
        for line, code in ((b"{\n", -32700), (b"\xff\n", -32700), (b"[1,\n", -32700),
                           (b'{"x":"' + b"y" * (8 << 20) + b'"}\n', -32600)):
            b.write(line)
            m = b.message()
            eq((m["id"], m["error"]["code"]), (None, code), f"answer to {line[:20]!r}")
        b.write(b"\r\n  \n\n")
        eq(b.call("ping")["method"], "ping")
        # A message of the maximum length.
        start, end = b'{"jsonrpc":"2.0","id":"long","method":"x","params":{"y":"', b'"}}'
        b.write(start + b"z" * ((8 << 20) - len(start) - len(end)) + end + b"\n")
        eq(b.answer("long")["result"]["method"], "x")


@test
def errors_of_the_service_become_answers():
    def refusing(r, message):
        if common(r, message):
            return
        kind = message["params"]["kind"]
        if kind == "rpc":
            r.json({"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "bad"}}, 400)
        elif kind == "api":
            r.json({"code": "unauthorized", "message": "no such token"}, 403)
        elif kind == "page":
            r.json("a page", 502)
        elif kind == "short":
            r.stream(b": nothing\n\n")
        else:
            r.close_connection = True  # no answer at all
    with Played(refusing) as s, bridge(s) as b:
        b.initialize()
        for kind, code, words in (("rpc", -32602, "bad"), ("api", -32603, "no such token"), ("page", -32603, "502"),
                                  ("short", -32603, "did not answer"), ("gone", -32603, "connection")):
            m = b.answer(b.request("x", {"kind": kind}))
            eq(m["error"]["code"], code, kind)
            ok(words in m["error"]["message"], f"{kind}: {m}")


@test
def messages_after_initialize_wait_for_it():
    gate = threading.Event()

    def slow(r, message):
        if message and message.get("method") == "initialize":
            gate.wait(WAIT)
        echo(r, message)
    with Played(slow) as s, bridge(s) as b:
        first = b.request("initialize", {"protocolVersion": LEGACY})
        b.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        second = b.request("tools/list")
        s.wait(lambda c, h, m: m and m["method"] == "initialize", "the first")
        modern = b.request("server/discover", modern=True)
        ok("result" in b.answer(modern), "modern requests do not wait")
        ok(not any(m and m["method"] == "tools/list" for _, _, m in s.requests), "the list waits")
        gate.set()
        ok("result" in b.answer(first) and "result" in b.answer(second), "both are answered")
        _, h, _ = s.wait(lambda c, h, m: m and m["method"] == "tools/list", "the list")
        eq(h["Mcp-Session-Id"], SESSION)


@test
def a_lost_session_is_opened_again():
    sessions = []

    def forgetful(r, message):
        if message and message.get("method") == "initialize":
            sessions.append(f"s{len(sessions)}")
            r.json(result(message, protocolVersion=LEGACY), headers=[("Mcp-Session-Id", sessions[-1])])
        elif r.command == "POST" and r.headers.get("Mcp-Session-Id") != sessions[-1]:
            r.json({"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "no such session"}}, 404)
        else:
            echo(r, message)
    with Played(forgetful) as s, bridge(s) as b:
        b.initialize()
        b.call("ping")
        sessions.append("unknown")
        ids = [b.request("ping") for _ in range(5)]
        for n in ids:
            ok("result" in b.answer(n), "answered in the new session")
        eq(len([x for x in sessions if x.startswith("s")]), 2, "sessions")
        eq(b.others, [], "lines that the client did not ask for")


@test
def a_legacy_request_is_cancelled_by_a_message():
    cancelled = threading.Event()

    def cancelling(r, message):
        if message and message.get("method") == "notifications/cancelled":
            cancelled.set()
        if message and message.get("method") == "tools/call":
            cancelled.wait(WAIT)
            r.json({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32800, "message": "cancelled"}})
        else:
            echo(r, message)
    with Played(cancelling) as s, bridge(s) as b:
        b.initialize()
        n = b.request("tools/call")
        s.wait(lambda c, h, m: m and m["method"] == "tools/call", "the call")
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": n}}
        b.send(cancel)
        b.send(cancel)
        b.send({**cancel, "params": {"requestId": "unknown"}})
        _, h, m = s.wait(lambda c, h, m: m and m["method"] == "notifications/cancelled", "the cancellation")
        eq((m["params"]["requestId"], h["Mcp-Session-Id"]), (n, SESSION))
        b.call("ping")
        eq([x for x in b.others if x.get("id") == n], [], "answers to what was cancelled")


@test
def a_modern_request_is_cancelled_by_the_end_of_its_connection():
    gone = threading.Event()

    def watching(r, message):
        if message and message["method"] == "tools/call":
            r.connection.settimeout(WAIT)
            eq(r.connection.recv(1), b"", "what follows the request")
            gone.set()
            r.close_connection = True
        else:
            echo(r, message)
    with Played(watching) as s, bridge(s) as b:
        n = b.request("tools/call", {"name": "x"}, modern=True)
        s.wait(lambda c, h, m: m and m["method"] == "tools/call", "the call")
        b.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": n}})
        ok(gone.wait(WAIT), "the connection is closed")
        ok("result" in b.answer(b.request("server/discover", modern=True)), "the next request")
        eq(b.others, [], "answers to what was cancelled")


def ends(how):
    """A call is in progress and never ends."""
    def hanging(r, message):
        if message and message.get("method") == "tools/call":
            r.connection.settimeout(WAIT)
            r.connection.recv(1)
            r.close_connection = True
        else:
            echo(r, message)
    with Played(hanging) as s, bridge(s) as b:
        b.initialize()
        b.request("tools/call")
        s.wait(lambda c, h, m: m and m["method"] == "tools/call", "the call")
        how(b)
        eq(b.process.wait(WAIT), 0, "status")
        s.wait(lambda c, h, m: c == "DELETE" and h["Mcp-Session-Id"] == SESSION, "the end of the session")


@test
def a_bridge_ends_at_the_end_of_stdin():
    ends(lambda b: b.process.stdin.close())


@test
def a_bridge_ends_on_sigterm():
    ends(lambda b: b.process.send_signal(signal.SIGTERM))


@test
def a_bridge_ends_when_stdout_is_closed():
    with Played(echo) as s:
        reader, writer = os.pipe()
        with subprocess.Popen([WARREN, "mcp"], stdin=subprocess.PIPE, stdout=writer, env=environ(WARREN_HOST=s.host)) as p:
            os.close(writer)
            os.close(reader)
            p.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n')
            p.stdin.flush()
            eq(p.wait(WAIT), 0, "status while stdin is open")


@test
def a_last_line_without_a_newline_is_a_message():
    with Played(echo) as s:
        p = warren("mcp", env=environ(WARREN_HOST=s.host), input=json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}).encode())
        eq((p.returncode, json.loads(p.stdout)["id"], p.stderr), (0, 1, b""))


@test
def requests_fail_if_the_service_is_missing():
    with scratch() as d, Bridge(env=environ(WARREN_HOST=f"unix:{d}/none.sock")) as b:
        m = b.answer(b.request("initialize", {"protocolVersion": LEGACY}))
        ok("no service at" in m["error"]["message"], f"{m}")
        eq(b.end(), (0, b""))


@test
def wrong_options_are_refused():
    for options, words in ((["--project", "/no/such/dir"], b"/no/such/dir"), (["--project", "/etc/passwd"], b"directory"),
                           (["--sandbox", "x", "--image", "y"], b"--image"), (["word"], b"word"),
                           (["--network", "learn"], b"warren create --network learn"), (["--network", "git,"], b"capabilities")):
        p = warren("mcp", *options, env=environ(WARREN_HOST="http://127.0.0.1:1"))
        eq((p.returncode, p.stdout), (125, b""), f"{options}")
        ok(words in p.stderr, f"{options}: {p.stderr}")


def main():
    if not ROOT:
        print("1..0 # SKIP needs root")
        return 0
    return run_tests()


if __name__ == "__main__":
    sys.exit(main())
