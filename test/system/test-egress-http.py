#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-egress-http.py - HTTP of a sandbox: each request is checked, and written again"""
import os
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import eq, noise, ok, test  # noqa: E402
import egress_world as ew  # noqa: E402
from egress_world import ID, SELF, client_hello, echo, http, is_reset, read_all, read_until, until, world  # noqa: E402

HTTP_A = {"host": "a.example", "protocols": ["http"]}
ONLY_GET = {"host": "a.example", "protocols": ["http"], "methods": ["GET"], "paths": ["/ok*"]}


def read_exactly(s, n):
    data = b""
    while len(data) < n and (piece := s.recv(n - len(data))):
        data += piece
    return data


def head(s):
    """Returns (status, fields, body) of the next response."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        piece = s.recv(1)
        if not piece:
            return None, {}, data
        data += piece
    lines = data[:-4].split(b"\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in lines[1:])
    n = int(fields.get(b"content-length", 0))
    return int(lines[0].split()[1]), fields, read_exactly(s, n)


def ask(s, method="GET", path="/", host="a.example", more="", body=b""):
    s.sendall(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode() + body)
    return head(s)


@test
def a_request_is_forwarded_with_one_host():
    with world(HTTP_A) as w:
        server = w.serve("1.2.3.4", 80, http)
        with w.connect("a.example", 80) as s:
            status, _, body = ask(s, path="/x?y=1", more="X-A: b\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n")
            eq(status, 200)
            eq(body, b"GET /x?y=1 HTTP/1.1\r\nHost: a.example\r\nX-A: b\n")
            eq(ask(s, path="http://a.example/abs")[2], b"GET /abs HTTP/1.1\r\nHost: a.example\n")
        eq(server.n, 1)
        usage = w.egress.query(ID)
        eq(usage["bytes_out"], w.dns_out + len(server.received))
        eq(usage["used"]["allow"], [{"host": "a.example", "ports": [80], "protocols": ["http"]}])


@test
def a_denied_request_is_answered_with_the_reason():
    with world(HTTP_A, {"host": "b.example", "protocols": ["tls"]}, ) as w:
        server = w.serve("5.6.7.8", 80, http)
        with w.connect("b.example", 80) as s:
            status, fields, body = ask(s, host="b.example", path="/secret")
            eq(status, 403)
            eq(body, b"warren: no rule allows b.example:80 (http) GET /secret\n")
            eq(fields[b"connection"], b"close")
            eq(s.recv(1), b"")
        with w.connect("b.example", 80) as s:
            eq(ask(s, host="b.example", path="/" + 8000 * "x")[0], 403, "the status of a long request")
        with w.inside.connect("1.2.3.5", 80) as s:
            eq(ask(s, host="1.2.3.5")[0], 403, "the status for an address without any rule")
        eq(server.n, 0)
        denial = w.egress.query(ID)["denials"][0]
        eq(denial["rule"], {"host": "b.example", "ports": [80], "protocols": ["http"], "methods": ["GET"],
                            "paths": ["/secret"]})


@test
def each_request_of_a_connection_is_judged():
    with world(ONLY_GET) as w:
        server = w.serve("1.2.3.4", 80, http)
        for method, path in (("POST", "/ok"), ("GET", "/no"), ("GET", "/ok/../no"), ("GET", "/%2e%2e/ok"),
                             ("GET", "/ok/%c0%ae%c0%ae/no"), ("GET", "/ok/..%20/no"), ("GET", "/ok/a%3fb")):
            with w.connect("a.example", 80) as s:
                eq(ask(s, path="/ok/1")[0], 200)
                eq(ask(s, path="/ok/2")[0], 200)
                eq(ask(s, method, path)[0], 403, f"{method} {path}")
        ok(b"POST" not in server.received and b"/no" not in server.received, server.received)
        eq(server.received.count(b"GET /ok/2"), 7)


@test
def headers_that_override_the_path_or_the_method_are_judged():
    overrides = [f"{name}: {value}\r\n" for value, names in (
        ("/no", ("X-Original-URL", "X-Rewrite-URL", "x_original_url")),
        ("delete", ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X_Http-Method_Override")))
                 for name in names]
    with world(ONLY_GET) as w:
        server = w.serve("1.2.3.4", 80, http)
        for more in overrides:
            with w.connect("a.example", 80) as s:
                eq(ask(s, path="/ok/1")[0], 200)
                eq(ask(s, path="/ok/2", more=more)[0], 403, more)
        ok(b"/ok/2" not in server.received, server.received)
        with w.connect("a.example", 80) as s:
            eq(ask(s, path="/ok/3", more="X-HTTP-Method-Override: get\r\nX-Original: /no\r\n")[0], 200)
    with world(HTTP_A) as w:  # no rule is about paths or methods
        w.serve("1.2.3.4", 80, http)
        with w.connect("a.example", 80) as s:
            eq([ask(s, more=more)[0] for more in overrides], [200] * len(overrides))


@test
def whitespace_before_a_request_does_not_hide_its_host():
    request = b"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n"
    with world({"host": "a.example", "protocols": ["tcp"]}) as w:
        server = w.serve("1.2.3.4", 7000, echo)
        for before in (b" ", b"\t", b"\n ", b"\r\n\r\n", b"\v", b" " * 200):
            with w.connect("a.example", 7000) as s:
                ok(is_reset(s, before + request), before)
            with w.connect("a.example", 7000) as s:  # in two pieces
                s.sendall(before)
                until(lambda: w.egress.query(ID)["live"], "the connection")
                ok(is_reset(s, request), before)
        for before in (b"", b"\r\n"):
            with w.connect("a.example", 7000) as s:
                s.sendall(before + request)
                eq(head(s)[0], 421, before)
        eq(server.received, b"")
        # Other protocols may begin with whitespace.
        with w.connect("a.example", 7000) as s:
            s.sendall(b"\r\n hello")
            eq(ew.read_exactly(s, 8), b"\r\n hello")
        w.serve("1.2.3.4", 7001, ew.banner)
        with w.connect("a.example", 7001) as s:
            eq(ew.read_exactly(s, 11), b"220 ready\r\n")
            s.sendall(b"\r\n")
            eq(ew.read_exactly(s, 2), b"\r\n")


@test
def pipelined_requests_are_answered_in_order():
    with world(ONLY_GET) as w:
        server = w.serve("1.2.3.4", 80, http)
        with w.connect("a.example", 80) as s:
            one = "GET /ok/{} HTTP/1.1\r\nHost: a.example\r\n\r\n"
            s.sendall("".join(one.format(i) for i in range(20)).encode() + b"DELETE /ok HTTP/1.1\r\nHost: a.example\r\n\r\n"
                      + one.format(99).encode())
            for i in range(20):
                status, _, body = head(s)
                eq((status, body.split(b" ")[1]), (200, b"/ok/%d" % i))
            eq(head(s)[0], 403)
            eq(s.recv(1), b"", "the end after a refusal")
        ok(b"DELETE" not in server.received and b"/ok/99" not in server.received, "nothing after the refused request")


@test
def other_hosts_are_refused():
    with world(HTTP_A, {"host": "b.example"}) as w:
        server = w.serve("1.2.3.4", 80, http)
        for request in (b"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n",
                        b"GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
                        b"GET http://b.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n",
                        b"GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n",
                        b"GET / HTTP/1.1\r\nHost : a.example\r\n\r\n",
                        b"GET / HTTP/1.1\r\nHost: a.example@b.example\r\n\r\n",
                        b"GET / HTTP/1.1\r\nHost: a.example:81\r\n\r\n"):
            with w.connect("a.example", 80) as s:
                s.sendall(request)
                status, _, body = head(s)
                ok(status in (400, 421), f"{request} is answered with {status}")
                ok(body.startswith(b"warren: "), body)
        eq(server.n, 0)
        with w.connect("a.example", 80) as s:
            eq(ask(s, host="A.EXAMPLE:80")[0], 200)


@test
def requests_cannot_be_smuggled():
    hidden = b"GET /hidden HTTP/1.1\r\nHost: a.example\r\n\r\n"
    with world(ONLY_GET | {"methods": ["GET", "POST"]}) as w:
        server = w.serve("1.2.3.4", 80, http)
        for fields, body in ((b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + hidden),
                             (b"Content-Length: 4\r\nContent-Length: 80\r\n", b"abcd" + hidden),
                             (b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n" + hidden),
                             (b"Transfer-Encoding: chunked\r\n", b"1;\nx\r\n0\r\n\r\n" + hidden),
                             (b"Content-Length: +4\r\n", b"abcd" + hidden),
                             (b"X: a\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + hidden)):
            with w.connect("a.example", 80) as s:
                s.sendall(b"POST /ok HTTP/1.1\r\nHost: a.example\r\n" + fields + b"\r\n" + body)
                read_all(s)
        ok(b"/hidden" not in server.received, server.received)
        # The control: with a length, the same bytes are a body, and are forwarded as one.
        with w.connect("a.example", 80) as s:
            eq(ask(s, "POST", "/ok", more=f"Content-Length: {len(hidden)}\r\n", body=hidden)[0], 200)
            eq(ask(s, path="/ok/after")[0], 200)


class Careless(BaseHTTPRequestHandler):
    """Reads the body of a POST only, so that other bodies are the next requests on a connection that stays open."""
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.server.paths.append(self.path)
        if self.command == "POST":
            self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_GET = do_POST = do_DELETE = do_OPTIONS = do_PROPFIND = answer

    def log_message(self, *_):
        pass


@test
def a_body_that_a_server_does_not_read_is_not_a_request():
    hidden = b"GET /hidden HTTP/1.1\r\nHost: a.example\r\n\r\n"
    length = f"Content-Length: {len(hidden)}\r\n"
    with ThreadingHTTPServer(("1.2.3.4", 80), Careless) as server, \
            world({**HTTP_A, "paths": ["/x"]}) as w:
        server.paths, server.handle_error = [], lambda *_: None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # The server is careless:
        with socket.create_connection(("1.2.3.4", 80)) as s:
            eq(ask(s, path="/x", more=length, body=hidden)[0], 200)
            eq((head(s)[0], server.paths), (200, ["/x", "/hidden"]))
        server.paths.clear()
        for method in ("GET", "DELETE", "OPTIONS", "PROPFIND"):
            for framing, body in ((length, hidden),
                                  ("Transfer-Encoding: chunked\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(hidden), hidden))):
                with w.connect("a.example", 80) as s:
                    eq(ask(s, method, "/x", more=framing, body=body)[0], 200)
                    eq(read_all(s), b"", "the connection ends")
        eq(server.paths, ["/x"] * 8)
        # Other requests may follow each other.
        with w.connect("a.example", 80) as s:
            for method, framing, body in (("POST", length, hidden), ("GET", "Content-Length: 0\r\n", b""), ("GET", "", b"")):
                eq(ask(s, method, "/x", more=framing, body=body)[0], 200)
        eq(server.paths, ["/x"] * 11)
        server.shutdown()


@test
def the_rest_of_a_request_is_not_sent_after_its_response():
    hidden = b"GET /hidden HTTP/1.1\r\nHost: a.example\r\n\r\n"

    def early(server, s):
        server.received = read_until(s, b"\r\n\r\n")
        s.sendall(b"HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n")
        server.received += read_all(s)
        server.done = True

    for expect in ("Expect: 100-continue\r\n", ""):
        with world(HTTP_A) as w:
            server = w.serve("1.2.3.4", 80, early)
            server.done = False
            with w.connect("a.example", 80) as s:
                eq(ask(s, "POST", "/x", more=f"{expect}Content-Length: {len(hidden)}\r\n")[0], 417)
                s.sendall(hidden)
                until(lambda server=server: server.done, "the end of the connection to the server")
            ok(b"POST /x" in server.received and b"hidden" not in server.received, server.received)


@test
def bodies_of_any_framing_arrive():
    data = noise(3 << 20)

    def receive(server, s):
        got = b""
        while not got.endswith(b"0\r\n\r\n"):
            got += s.recv(65536)
        server.received = got
        s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(0, len(data), 1 << 18):
            s.sendall(b"%x\r\n" % len(data[i:i + (1 << 18)]) + data[i:i + (1 << 18)] + b"\r\n")
        s.sendall(b"0\r\n\r\n")
        read_all(s)

    with world(HTTP_A) as w:
        server = w.serve("1.2.3.4", 80, receive)
        with w.connect("a.example", 80) as s:
            s.sendall(b"PUT / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n")
            for i in range(0, len(data), 100000):
                piece = data[i:i + 100000]
                s.sendall(b"%x\r\n" % len(piece) + piece + b"\r\n")
            s.sendall(b"0\r\n\r\n")
            got = read_until(s, b"\r\n0\r\n\r\n")
        body, rest = b"", got.partition(b"\r\n\r\n")[2]
        while not rest.startswith(b"0\r\n"):
            size, _, rest = rest.partition(b"\r\n")
            body, rest = body + rest[:int(size, 16)], rest[int(size, 16) + 2:]
        ok(body == data, "the body of the response")
        sent, rest = b"", server.received.partition(b"\r\n\r\n")[2]
        while not rest.startswith(b"0\r\n"):
            size, _, rest = rest.partition(b"\r\n")
            sent, rest = sent + rest[:int(size, 16)], rest[int(size, 16) + 2:]
        ok(sent == data, "the body of the request")


@test
def large_bodies_arrive_in_order():
    data = noise(8 << 20)
    bodies = {b"/large": data, b"/small": b"small", b"/other": data[::-1]}

    def send(_, s):
        while path := read_until(s, b"\r\n\r\n").split(b" ")[1:2]:
            s.sendall(answer(path[0]))

    def answer(path):
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(bodies[path]) + bodies[path]

    with world(HTTP_A) as w:
        w.serve("1.2.3.4", 80, send)
        paths = [b"/large", b"/small", b"/other", b"/large", b"/small"]
        with w.connect("a.example", 80) as s:
            # All at once: each response begins only after the previous one has ended, although the client reads late.
            s.sendall(b"".join(b"GET %s HTTP/1.1\r\nHost: a.example\r\n\r\n" % path for path in paths))
            for path in paths:
                status, _, body = head(s)
                ok(status == 200 and body == bodies[path], (status, path, len(body)))
            for path in paths:
                status, _, body = ask(s, path=path.decode())
                ok(status == 200 and body == bodies[path], (status, path, len(body)))
        eq(w.egress.query(ID)["bytes_in"], w.dns_in + 2 * sum(len(answer(path)) for path in paths))


@test
def a_large_body_that_is_cut_off_is_not_completed():
    data = noise(4 << 20)
    with world(HTTP_A) as w:
        w.serve("1.2.3.4", 80, lambda _, s: (read_until(s, b"\r\n\r\n"), s.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(data) + 1) + data)))
        with w.connect("a.example", 80) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
            got = b""
            try:
                while piece := s.recv(1 << 20):
                    got += piece
            except ConnectionResetError:
                got += b"reset"
            ok(got.endswith(b"reset"), f"{len(got)} bytes, and a regular end")


@test
def a_client_that_leaves_a_large_body_frees_the_connection():
    data = noise(16 << 20)
    with world(HTTP_A) as w:
        server = w.serve("1.2.3.4", 80, lambda _, s: (read_until(s, b"\r\n\r\n"), s.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data) + data)))
        for _ in range(40):  # more than there are pipes
            with w.connect("a.example", 80) as s:
                s.sendall(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
                eq(len(read_exactly(s, 1 << 20)), 1 << 20)
        until(lambda: not w.egress.query(ID).get("live"), lambda: w.egress.query(ID))
        eq(server.n, 40)


@test
def a_response_until_the_end_of_the_connection_arrives():
    data = noise(8 << 20)
    with world(HTTP_A) as w:
        w.serve("1.2.3.4", 80, lambda _, s: (read_until(s, b"\r\n\r\n"), s.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + data)))
        with w.connect("a.example", 80) as s:
            s.sendall(b"GET / HTTP/1.0\r\nHost: a.example\r\n\r\n")
            ok(read_all(s) == b"HTTP/1.0 200 OK\r\n\r\n" + data, "the response")


@test
def interim_responses_and_heads_have_no_body():
    with world(HTTP_A) as w:
        def handle(server, s):
            read_until(s, b"\r\n\r\n")
            s.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            server.received = s.recv(4, socket.MSG_WAITALL)
            s.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            http(server, s)

        server = w.serve("1.2.3.4", 80, handle)
        with w.connect("a.example", 80) as s:
            s.sendall(b"PUT / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
            eq(head(s)[0], 100)
            s.sendall(b"body")
            eq(head(s)[0], 204)
            eq(server.received, b"body")
            s.sendall(b"HEAD / HTTP/1.1\r\nHost: a.example\r\n\r\n")
            ok(read_until(s, b"\r\n\r\n").startswith(b"HTTP/1.1 200"), "the response to HEAD")
            eq(ask(s)[0], 200, "the status of the request after HEAD")


@test
def websocket_data_waits_until_the_server_agrees():
    def agree(server, s):
        server.received = read_until(s, b"\r\n\r\n")
        server.early = b""
        s.setblocking(False)
        try:
            server.early = s.recv(100)
        except BlockingIOError:
            pass
        s.setblocking(True)
        s.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello")
        echo(server, s)

    upgrade = "Connection: Upgrade\r\nUpgrade: {}\r\nSec-WebSocket-Key: x\r\n"
    with world(HTTP_A) as w:
        server = w.serve("1.2.3.4", 80, agree)
        w.serve("1.2.3.4", 81, http)
        with w.connect("a.example", 80) as s:
            s.sendall(f"GET / HTTP/1.1\r\nHost: a.example\r\n{upgrade.format('websocket')}\r\nfirst".encode())
            ok(b"101" in read_until(s, b"\r\n\r\nhello"), "the agreement")
            s.sendall(b"DELETE / HTTP/1.1\r\n\r\n")
            eq(read_until(s, b"\r\n\r\n"), b"firstDELETE / HTTP/1.1\r\n\r\n")
            ok(b"Upgrade: websocket" in server.received and b"Sec-WebSocket-Key" in server.received, server.received)
            eq(server.early, b"", "bytes that the server got before it agreed")
            w.egress.change(ID, {"allow": [{"host": "b.example"}]})
            ok(is_reset(s), "it is judged again after a change")
    with world(HTTP_A) as w:
        w.serve("1.2.3.4", 80, http)
        with w.connect("a.example", 80) as s:
            status, _, body = ask(s, more=upgrade.format("h2c") + "HTTP2-Settings: AA\r\n")
            eq((status, b"pgrade" in body, b"Settings" in body), (200, False, False))


@test
def a_policy_change_ends_requests_in_progress():
    with world(ONLY_GET) as w:
        server = w.serve("1.2.3.4", 80, lambda server, s: (read_until(s, b"\r\n\r\n"), setattr(server, "received", b"yes"),
                                                           read_all(s)))
        with w.connect("a.example", 80) as s:
            s.sendall(b"GET /ok HTTP/1.1\r\nHost: a.example\r\n\r\n")
            until(lambda: server.received == b"yes", "the request")
            w.egress.change(ID, {"allow": [ONLY_GET | {"methods": ["GET", "POST"]}]})
            eq(w.egress.query(ID)["live_count"], 1, "live connections after a change that still allows it")
            w.egress.change(ID, {"allow": [ONLY_GET | {"paths": ["/other"]}]})
            ok(is_reset(s), "a request that is not allowed any more is reset")


@test
def servers_that_fail_are_reported():
    with world(HTTP_A) as w:
        w.serve("1.2.3.4", 81, lambda _, s: read_until(s, b"\r\n\r\n"))
        w.serve("1.2.3.4", 82, lambda _, s: (read_until(s, b"\r\n\r\n"), s.sendall(b"nonsense\r\n\r\n"), read_all(s)))
        for port in (80, 81, 82):
            with w.connect("a.example", port) as s:
                status, _, body = ask(s, host=f"a.example:{port}")
                eq(status, 502, f"the status of port {port}")
                ok(body.startswith(b"warren: "), body)


@test
def heads_that_are_too_long_are_refused():
    with world(HTTP_A) as w:
        server = w.serve("1.2.3.4", 80, http)
        with w.connect("a.example", 80) as s:
            eq(ask(s, more=f"X: {'a' * 60000}\r\n")[0], 200)
        with w.connect("a.example", 80) as s:
            status = ask(s, more=f"X: {'a' * 70000}\r\n")[0]
            eq(status, 431)
        eq(server.n, 1)


# --------------------------------------------------------------------------------- proxies


@test
def a_proxy_serves_several_hosts():
    with world(HTTP_A, {"host": "b.example", "protocols": ["http"]}) as w:
        w.serve("1.2.3.4", 80, http)
        w.serve("5.6.7.8", 8080, http)
        with w.inside.connect(SELF, 3128) as s:
            for host, path in (("a.example", "/1"), ("b.example:8080", "/2"), ("b.example:8080", "/3"), ("a.example", "/4")):
                status, _, body = ask(s, path=f"http://{host}{path}", host=host)
                eq((status, body), (200, f"GET {path} HTTP/1.1\r\nHost: {host}\n".encode()))
            eq(ask(s, path="http://c.example/", host="c.example")[0], 403)
        with w.inside.connect(SELF, 3128) as s:
            eq(ask(s, path="/", host="a.example")[0], 400, "a request without a host in its target")


@test
def tunnels_are_judged_by_their_content():
    with world({"host": "a.example", "protocols": ["tls"]}, {"host": "b.example", "protocols": ["tcp"]}) as w:
        server = w.serve("1.2.3.4", 443, echo)
        w.serve("5.6.7.8", 22, ew.banner)

        def connect(host, more=b""):
            s = w.inside.connect(SELF, 3128)
            s.sendall(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() + more)
            return s, head(s)[0]

        hello = client_hello("a.example")
        for more in (b"", hello):
            s, status = connect("a.example:443", more)
            with s:
                eq(status, 200)
                if not more:
                    s.sendall(hello)
                eq(s.recv(len(hello), socket.MSG_WAITALL), hello)
        s, status = connect("a.example:443")
        with s:
            eq(status, 200)
            ok(is_reset(s, client_hello("b.example")), "another name in the tunnel is reset")
        s, status = connect("a.example:443")
        with s:
            eq(ask(s, host="a.example:443")[0], 403, "HTTP in a tunnel that is for TLS")
        s, status = connect("b.example:22")
        with s:
            eq((status, read_until(s, b"\n")), (200, b"220 ready\r\n"))
        s, status = connect("b.example:23")
        s.close()
        eq(status, 502)
        s, status = connect("c.example:443")
        s.close()
        eq(status, 403)
        eq(server.n, 2)


if __name__ == "__main__":
    sys.exit(ew.run_outside())
