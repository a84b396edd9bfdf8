#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-http.py - the HTTP server: what it refuses, what it limits, and what it must handle correctly

Prints TAP. Everything is on loopback; each test has a separate server.
"""
import contextlib
import email.utils
import hashlib
import json
import os
import resource
import shutil
import socket
import stat
import subprocess
import threading
import time
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from net_harness import MIB, Client, Server, Skip, eq, main, ok, test, work  # pylint: disable=wrong-import-position

GET = b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"


# ---------------------------------------------------------------- refused requests

MALFORMED = [
    (400, b"GET /hello HTTP/1.1\r\n\r\n", "no Host"),
    (400, b"GET /hello HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "two of Host"),
    (400, b"GET /hello HTTP/1.1\r\nHost : a\r\n\r\n", "a space before the colon"),
    (400, b"GET /hello HTTP/1.1\r\nHost: a b\r\n\r\n", "a space in Host"),
    (400, b"GET /hello HTTP/1.1\r\nHost:\r\n\r\n", "an empty Host"),
    (400, b"GET /hello HTTP/1.1\nHost: a\n\n", "bare LF"),
    (400, b"GET /hello HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", "one bare LF"),
    (400, b"GET /hello HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", "a bare CR in a value"),
    (400, b"GET /hello\rHTTP/1.1\r\nHost: a\r\n\r\n", "a bare CR in the first line"),
    (400, b"GET /hello HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", "a folded line"),
    (400, b"GET /hello HTTP/1.1\r\n X: b\r\nHost: a\r\n\r\n", "a folded first field"),
    (400, b"GET /hello HTTP/1.1\r\nHost: a\r\nX: b\x00c\r\n\r\n", "a NUL in a value"),
    (400, b"GET /hello HTTP/1.1\r\nHost: a\r\nX: b\x7fc\r\n\r\n", "DEL in a value"),
    (400, b"GET /hello HTTP/1.1\r\nHost: a\r\nX\x00: b\r\n\r\n", "a NUL in a name"),
    (400, b"GET /hello HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", "no name"),
    (400, b"GET /hello HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", "no colon"),
    (400, b"GET /a\x00b HTTP/1.1\r\nHost: a\r\n\r\n", "a NUL in the target"),
    (400, b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", "a fragment"),
    (400, "GET /ä HTTP/1.1\r\nHost: a\r\n\r\n".encode(), "a target that is not ASCII"),
    (400, b"GET hello HTTP/1.1\r\nHost: a\r\n\r\n", "a target without a slash"),
    (400, b"GET ftp://b/hello HTTP/1.1\r\nHost: a\r\n\r\n", "an absolute target of another scheme"),
    (400, b"GET http:///hello HTTP/1.1\r\nHost: a\r\n\r\n", "an absolute target without a host"),
    (400, b"GET http://u@b/hello HTTP/1.1\r\nHost: a\r\n\r\n", "an absolute target with a user"),
    (400, b"GET http://b:1:2/hello HTTP/1.1\r\nHost: a\r\n\r\n", "an absolute target with two ports"),
    (400, b"GET http://b/hello HTTP/1.1\r\n\r\n", "an absolute target, and no Host"),
    (400, b"GET http://b/hello HTTP/1.1\r\nHost: a:1:2\r\n\r\n", "an absolute target, and a bad Host"),
    (400, b"GET /hello HTTP/1.1\r\nHost: a:1:2\r\n\r\n", "two ports in Host"),
    (400, b"GET /hello HTTP/1.1\r\nHost: a:b\r\n\r\n", "a port that is no number"),
    (400, b"GET /hello HTTP/1.1\r\nHost: :80\r\n\r\n", "a port, and no host"),
    (400, b"GET /hello HTTP/1.1\r\nHost: [::1\r\n\r\n", "an open bracket"),
    (400, b"GET /hello HTTP/1.1\r\nHost: a/b\r\n\r\n", "a path in Host"),
    (400, b"GET /hello HTTP/1.1\r\nHost: u@a\r\n\r\n", "a user in Host"),
    (400, b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT"),
    (400, b"GET  /hello HTTP/1.1\r\nHost: a\r\n\r\n", "two spaces"),
    (400, b"GET /hello HTTP/1.1 \r\nHost: a\r\n\r\n", "a space at the end"),
    (400, b"GET /hello\r\nHost: a\r\n\r\n", "no version"),
    (400, b"G(T /hello HTTP/1.1\r\nHost: a\r\n\r\n", "a method that is no token"),
    (400, b"\r\n\r\n", "nothing"),
    (400, b"\x16\x03\x01\x02\x00", "TLS where there is none"),
    (505, b"GET /hello HTTP/2.0\r\nHost: a\r\n\r\n", "HTTP/2.0"),
    (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "the preface of HTTP/2"),
    (505, b"GET /hello HTTP/1.2\r\nHost: a\r\n\r\n", "HTTP/1.2"),
    (400, b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
          b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "two framings"),
    (400, b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
          b"Content-Length: 3\r\n\r\n0\r\n\r\n", "two framings, turned round"),
    (400, b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
     "two lengths"),
    (400, b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\nabc", "a list of lengths"),
    (400, b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc", "a sign"),
    (400, b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\nabc", "hexadecimal"),
    (400, b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n", "an empty length"),
    (400, b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
     "a length beyond 64 bits"),
    (501, b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "gzip"),
    (501, b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", "not chunked"),
    (400, b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
          b"Transfer-Encoding: chunked\r\n\r\n", "two encodings"),
    (400, b"POST /echo HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     "chunks in HTTP/1.0"),
    (417, b"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n", "another expectation"),
    (400, b"GET /hello HTTP/1.1\r\nHost: a\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n",
     "two of Authorization"),
    (431, b"GET /hello HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 200 + b"\r\n", "many fields"),
    (431, b"GET /hello HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 40000 + b"\r\n\r\n", "a long field"),
    (431, b"GET /" + b"a" * 40000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", "a long target"),
]

BAD_CHUNKS = [
    (b"x\r\n", "no digit"),
    (b"\r\n", "no size"),
    (b"-1\r\n", "a sign"),
    (b"0x1\r\na\r\n0\r\n\r\n", "a prefix"),
    (b"1 \r\na\r\n0\r\n\r\n", "a space"),
    (b"1\na\r\n0\r\n\r\n", "bare LF after the size"),
    (b"1\r\na\n0\r\n\r\n", "bare LF after the data"),
    (b"1\r\nab\r\n0\r\n\r\n", "more data than the size"),
    (b"1;a\nb\r\na\r\n0\r\n\r\n", "bare LF in an extension"),
    (b"1;" + b"a" * 5000 + b"\r\na\r\n0\r\n\r\n", "a long extension"),
    (b"fffffffffffffffff\r\n", "a size beyond 64 bits"),
    (b"1\r\na\r\n0\r\nX: y\n\r\n", "bare LF in a trailer"),
    (b"1\r\na\r\n0\r\nno colon\r\n\r\n", "a trailer without a colon"),
    (b"1\r\na\r\n0\r\nnocolon\r\n\r\n", "a trailer that is one word"),
    (b"1\r\na\r\n0\r\nX : y\r\n\r\n", "a space before the colon of a trailer"),
    (b"1\r\na\r\n0\r\n" + b"X: y\r\n" * 1000 + b"\r\n", "many trailers"),
]


def is_refusal(reply, status, what):
    eq(reply.status, status, f"status of {what} ({reply.body!r})")
    eq(reply.headers.get("connection"), "close", f"Connection of {what}")
    eq(reply.headers["content-type"], "application/json", "type")
    eq(sorted(reply.json()), ["code", "detail", "message", "request_id"], "keys")
    eq(reply.json()["detail"], None, "detail")
    ok(len(reply.json()["request_id"]) == 12, reply.body)


@test
def malformed_requests_are_refused():
    with Server() as server:
        for status, data, what in MALFORMED:
            with server.connect() as c:
                c.send(data)
                is_refusal(c.answer(), status, what)
                ok(c.closed(), f"{what}: the connection goes on")
        eq(server.stats()["answered"], 0, "requests that a handler saw")
        with server.connect() as c:  # the positive control
            c.send(GET)
            eq(c.answer().body, b"hello\n")


@test
def malformed_requests_in_small_pieces_are_refused():
    with Server() as server:
        for status, data, what in MALFORMED[:30]:
            with server.connect() as c:
                try:
                    for i in range(len(data)):
                        c.send(data[i:i + 1])
                except ConnectionError:
                    pass
                is_refusal(c.answer(), status, what)


@test
def nothing_after_a_refused_request_is_served():
    with Server() as server, server.connect() as c:
        c.send(b"GET /hello HTTP/1.1\r\nHost : a\r\n\r\n" + GET)
        is_refusal(c.answer(), 400, "the first")
        ok(c.closed(), "the second was answered")


@test
def malformed_chunks_are_refused():
    with Server() as server:
        start = b"POST /%s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        for where in (b"echo", b"sum"):
            for data, what in BAD_CHUNKS:
                with server.connect() as c:
                    c.send(start % where + data)
                    is_refusal(c.answer(), 400, what)
            with server.connect() as c:
                c.send(start % where + b"1;x=y\r\na\r\n00a\r\n0123456789\r\n0\r\nT: u\r\n\r\n" + GET)
                good = c.answer()
                eq(good.status, 200)
                ok(good.body in (b"a0123456789", b"11 " + hashlib.sha256(b"a0123456789").hexdigest()
                                 .encode()), good.body)
                eq(c.answer().body, b"hello\n", "the one behind")
        eq(server.stats()["open"], 1, "open requests (this one)")


@test
def bodies_too_large_are_refused():
    with Server() as server:
        with server.connect() as c:
            is_refusal(c.ask("POST", "/echo?max=10", body=b"x" * 11), 413, "11 bytes")
        with server.connect() as c:
            c.send(b"POST /echo?max=10 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                   b"9\r\n123456789\r\n2\r\nab\r\n")
            is_refusal(c.answer(), 413, "11 bytes in chunks")
        with server.connect() as c:  # a body that is too long is refused before it is sent
            c.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999\r\n\r\n")
            is_refusal(c.answer(), 413, "10 GB")
        with server.connect() as c:
            eq(c.ask("POST", "/echo?max=10", body=b"x" * 10).body, b"x" * 10)
            eq(c.ask("POST", "/echo?max=10").body, b"", "no body")


@test
def all_bodies_together_are_bounded():
    with Server("--bodies", str(MIB)) as server, contextlib.ExitStack() as clients:
        def half(n):
            c = clients.enter_context(server.connect())
            c.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (2 * n) + b"x" * n)
            return c
        held = [half(300000) for _ in range(3)]
        server.until_read(*held)  # the fourth one then exceeds the limit
        is_refusal(half(300000).answer(), 503, "a fourth")
        # Small requests are accepted, and the first requests are served.
        with server.connect() as c:
            eq(len(c.ask("POST", "/echo", body=b"x" * 16000).body), 16000, "a small one")
        held[0].sock.close()
        held[1].send(b"x" * 300000)
        eq(len(held[1].answer().body), 600000, "one of the first")
        # Their memory is free for others again.
        with server.connect() as c:
            eq(len(c.ask("POST", "/echo", body=b"x" * 500000).body), 500000, "a large one")


@test
def response_headers_cannot_be_split():
    with Server() as server, server.connect() as c:
        eq(c.ask("GET", "/inject?fine").headers["x-out"], "fine")
        reply = c.ask("GET", "/inject?a%0d%0aSet-Cookie:%20b")
        eq(reply.status, 500)
        ok("set-cookie" not in reply.headers, reply.headers)
        eq(c.ask("GET", "/hello").body, b"hello\n", "afterwards")


# ------------------------------------------------------------- timeouts

@test
def slow_request_heads_end_the_connection():
    with Server("--header-ms", 300) as server:
        with server.connect() as c:  # without a request, there is no answer
            ok(c.closed(), "still open")
        with server.connect() as c:  # sending slowly does not help
            c.send(b"GET /hello HTTP/1.1\r\n")
            try:
                for _ in range(200):
                    c.send(b"X: y\r\n")
                    time.sleep(0.02)
                raise AssertionError("the trickle went on")
            except ConnectionError:
                pass
        with server.connect() as c:
            c.send(b"GET /hello HTTP/1.1\r\n")
            is_refusal(c.answer(), 408, "half a head")
            ok(c.closed(), "still open")
        with server.connect() as c:
            c.send(GET[:10])
            time.sleep(0.1)
            c.send(GET[10:])
            eq(c.answer().body, b"hello\n", "one in time")


@test
def idle_connections_are_closed():
    with Server("--idle-ms", 200) as server, server.connect() as c:
        eq(c.ask("GET", "/hello").status, 200)
        ok(c.closed(), "still open")
    with Server("--idle-ms", 200, "--kept-ms", 5000) as server, server.connect() as known, server.connect() as c:
        eq(known.ask("GET", "/hello", "X-Known: yes").status, 200)
        eq(c.ask("GET", "/hello").status, 200)
        ok(c.closed(), "still open")
        eq(known.ask("GET", "/hello").status, 200, "a client that is known may wait longer")
        ok(known.closed(), "still open")


@test
def slow_bodies_end_the_connection():
    with Server("--body-ms", 200) as server:
        for where in ("echo", "sum"):
            with server.connect() as c:
                c.send(f"POST /{where} HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n123".encode())
                is_refusal(c.answer(), 408, "a body that stops")
        with server.connect() as c:  # a client is not slow if the server delays it
            c.send(b"POST /sum?pause=500 HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n123")
            time.sleep(0.4)
            c.send(b"456")
            eq(c.answer().status, 200)
    with Server("--body-ms", 1000) as server:
        with server.connect() as c:  # the handler allows pauses four times as long
            c.send(b"POST /sum?slow=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n123")
            time.sleep(1.5)
            c.send(b"456")
            eq(c.answer().status, 200, "a slow body")
            c.send(b"POST /sum?slow=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n123")
            is_refusal(c.answer(), 408, "a slow body that stops")


@test
def connections_of_clients_that_do_not_read_are_closed():
    with Server("--write-ms", 300) as server, server.connect() as c:
        c.send(b"GET /chunks?n=1000000000 HTTP/1.1\r\nHost: a\r\n\r\n")
        eq(server.until(lambda s: s["lost"] == 1, "lost")["last_why"], -110, "why")


# ----------------------------------------------------------------- keep-alive, pipelines, methods

@test
def one_connection_serves_many_requests():
    with Server() as server, server.connect() as c:
        for _ in range(500):
            eq(c.ask("GET", "/hello").body, b"hello\n")
        eq(c.ask("POST", "/echo", body=b"abc").body, b"abc")
        eq(c.ask("HEAD", "/hello").headers["content-length"], "6")
        eq(c.ask("GET", "/nothing").status, 204)
        eq(c.ask("HEAD", "/chunks").status, 200)
        eq(c.ask("GET", "/none").status, 404)
        eq(c.ask("OPTIONS", "*").status, 404)
        eq(c.ask("GET", "/chunks?n=100000").body[:3], b"abc")
        eq(c.ask("GET", "/hello", "Connection: close").headers["connection"], "close")
        ok(c.closed(), "still open")
        c.sock.close()
        server.until(lambda s: s["connections"] == 1, "gone")


@test
def responses_have_a_date_header():
    with Server() as server, server.connect() as c:
        date = email.utils.parsedate_to_datetime(c.ask("GET", "/hello").headers["date"])
        ok(abs(date.timestamp() - time.time()) < 60, date)
        text = c.ask("GET", "/hello").headers["date"]
        eq(email.utils.format_datetime(email.utils.parsedate_to_datetime(text), usegmt=True), text)


@test
def http_1_0_clients_are_served():
    with Server() as server:
        with server.connect() as c:
            eq(c.ask("GET", "/hello", version="1.0").body, b"hello\n")
            ok(c.closed(), "still open")
        with server.connect() as c:
            c.send(b"GET /hello HTTP/1.0\r\n\r\n")  # HTTP/1.0 requests need no Host
            eq(c.answer().body, b"hello\n")
        with server.connect() as c:
            reply = c.ask("GET", "/hello", "Connection: keep-alive", version="1.0")
            eq(reply.headers["connection"], "keep-alive")
            reply = c.ask("GET", "/chunks?n=100000", "Connection: keep-alive", version="1.0")
            ok("transfer-encoding" not in reply.headers, "chunks for HTTP/1.0")
            eq(len(reply.body), 100000, "until the end")


@test
def pipelined_requests_are_answered_in_order():
    with Server() as server, server.connect() as c:
        n, sizes = 10000, []
        def send():
            for i in range(n):
                c.send(f"GET /{'wait?ms=1&' if i % 1000 == 7 else 'about/'}{i} HTTP/1.1\r\n"
                       f"Host: a\r\n\r\n".encode())
        sender = threading.Thread(target=send)
        sender.start()
        for i in range(n):
            reply = c.answer()
            if i % 1000 == 7:
                eq(reply.body, b"hello\n")
            else:
                eq(reply.json()["path"], f"/about/{i}")
            if i % 1000 == 0:
                sizes.append(server.rss())
        sender.join()
        ok(server.sanitized() or sizes[-1] - sizes[1] < 4 * MIB, f"memory grew: {sizes}")


@test
def unread_pipelined_requests_use_little_memory():
    with Server() as server, server.connect() as c:
        before = server.rss()
        c.sock.settimeout(0.5)
        try:
            while True:
                c.sock.send(b"GET /sized?n=100000 HTTP/1.1\r\nHost: a\r\n\r\n" * 1000)
        except TimeoutError:
            pass
        ok(server.sanitized() or server.rss() - before < 6 * MIB, "memory grew")
        with server.connect() as d:  # the others are not affected
            eq(d.ask("GET", "/hello").body, b"hello\n")


@test
def empty_lines_before_a_request_are_skipped():
    with Server() as server, server.connect() as c:
        c.send(b"\r\n" + GET + b"\r\n" + GET)
        eq((c.answer().body, c.answer().body), (b"hello\n", b"hello\n"))


@test
def an_unused_body_is_skipped():
    with Server() as server:
        with server.connect() as c:
            eq(c.ask("POST", "/hello", body=b"x" * 1000).body, b"hello\n")
            eq(c.ask("GET", "/hello").body, b"hello\n", "the next one")
        with server.connect() as c:
            c.send(b"POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\nabc")
            eq(c.answer().headers["connection"], "close")
            ok(c.closed(), "still open")
        with server.connect() as c:  # a request inside a body is not a request
            body = GET * 3
            eq(c.ask("POST", "/hello", body=body).body, b"hello\n")
            c.sock.settimeout(0.2)
            try:
                raise AssertionError(c.sock.recv(100))
            except TimeoutError:
                pass


@test
def continue_is_sent_when_the_body_is_needed():
    with Server() as server:
        head = b"POST /%s HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
        with server.connect() as c:
            c.send(head % b"echo")
            eq(c.head()[0], 100)
            c.send(b"abc" + GET)
            eq((c.answer().body, c.answer().body), (b"abc", b"hello\n"))
        with server.connect() as c:
            c.send(head % b"hello")
            reply = c.answer()
            eq((reply.status, reply.headers["connection"]), (200, "close"))
        with server.connect() as c:
            c.send(head % b"echo?max=2")
            is_refusal(c.answer(), 413, "without 100")


@test
def handlers_get_the_parsed_request():
    with Server() as server, server.connect() as c:
        about = c.ask("GET", "/about/%41%2f?x=%20&y", "x-TEST: \t yes \t").json()
        eq((about["path"], about["query"], about["decoded"]), ("/about/%41%2f", "x=%20&y", 9))
        eq((about["test"], about["host"], about["tls"]), ("yes", "test", False))
        ok(about["peer"].startswith("127.0.0.1:"), about["peer"])
        for bad in ("%", "%4", "%zz", "%00", "a%0"):
            eq(c.ask("GET", f"/about/{bad}").json()["decoded"], -22, bad)
        ids = {c.ask("GET", "/about/").json()["id"] for _ in range(20)}
        eq(len(ids), 20, "different ids")


# --------------------------------------------------------- clients that disconnect

@test
def a_client_that_disconnects_is_noticed():
    with Server("--half-close-ms", 200) as server:
        for what in ("hang", "events", "wait?ms=60000", "chunks?n=100000000000"):
            lost = server.stats()["lost"]
            with server.connect() as c:
                c.send(f"GET /{what} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                if what == "events":
                    c.until(b"first")
                server.until(lambda s: s["open"] == 2, f"{what} is open")
            server.until(lambda s: s["lost"] == lost + 1 and s["open"] == 1, what)
        with server.connect() as c:  # a client with more requests in the pipeline than are ever read
            c.send(b"GET /hang HTTP/1.1\r\nHost: a\r\n\r\n" + GET * 10)
            server.until(lambda s: s["open"] == 2, "the one ahead is open")
        server.until(lambda s: s["open"] == 1, "the one ahead")
        for body in (b"Content-Length: 9\r\n\r\n123", b"Transfer-Encoding: chunked\r\n\r\n3\r\n123"):
            with server.connect() as c:  # a client that disconnects in the middle of a body
                c.send(b"POST /sum HTTP/1.1\r\nHost: a\r\n" + body)
                server.until(lambda s: s["open"] == 2, "the body is open")
            server.until(lambda s: s["open"] == 1, "the body")


@test
def a_closed_connection_frees_its_slot():
    """A client that has shut down its sending half may wait for its answer, unless a new client needs the slot."""
    with Server("--connections", 10, "--half-close-ms", 60000) as server:
        def stream():
            c = server.connect()
            try:
                c.send(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
                return c if c.until(b"\r\n\r\n").startswith(b"HTTP/1.1 200") else None
            except (BrokenPipeError, ConnectionResetError):
                return None  # closed before the request was sent; the response is lost then

        for _ in range(3):
            now, again = [], time.monotonic() + 20
            while len(now) < 10:  # the server may see the new connection before it sees the end of the old ones
                now += filter(None, [stream()])
                ok(time.monotonic() < again, "there is room, and no answer")
            ok(not stream(), "one too many while all are there")
            for c in now:
                c.sock.close()


@test
def half_closed_clients_get_their_response():
    with Server() as server:
        for what, n in (("hello", 6), ("wait?ms=300", 6), ("chunks?n=20000000", 20000000)):
            with server.connect() as c:
                c.send(f"GET /{what} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                c.sock.shutdown(socket.SHUT_WR)
                eq(len(c.answer().body), n, what)
                ok(c.closed(), "still open")


@test
def connection_resets_do_no_harm():
    with Server() as server:
        for i in range(200):
            c = server.connect()
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            c.send(b"GET /chunks?n=1000000 HTTP/1.1\r\nHost: a\r\n\r\n"[:20 + i])
            c.sock.close()
        server.until(lambda s: s["connections"] == 1 and s["open"] == 1, "all gone")


# --------------------------------------- large bodies and many connections

def feed(c, n, piece=b"\x5a" * MIB):
    while n > 0:
        c.send(piece[:n])
        n -= min(n, len(piece))


@test
def a_gibibyte_is_uploaded_and_downloaded_in_little_memory():
    n = 1 << 30
    with Server() as server:
        want, piece = hashlib.sha256(), b"\x5a" * MIB
        for _ in range(n // MIB):
            want.update(piece)
        start = server.rss()
        with server.connect() as c:
            c.send(f"PUT /sum HTTP/1.1\r\nHost: a\r\nContent-Length: {n}\r\n\r\n".encode())
            feed(c, n)
            eq(c.answer().body.decode(), f"{n} {want.hexdigest()}", "sum of what went up")
        path = os.path.join(work.name, "big")
        with open(path, "wb") as f:
            f.truncate(n)
            f.seek(n - 5)
            f.write(b"tail!")
        for target in (f"/chunks?n={n}", f"/file{path}"):
            with server.connect() as c:
                c.send(f"GET {target} HTTP/1.0\r\nHost: a\r\n\r\n".encode())
                c.head()
                got, view, buffer = len(c.buffer), b"", bytearray(MIB)
                while k := c.sock.recv_into(buffer):
                    got += k
                    view = bytes(buffer[max(0, k - 5):k])
                eq(got, n, target)
                ok(target.startswith("/chunks") or view == b"tail!", view)
        os.unlink(path)
        ok(server.sanitized() or server.rss() - start < 8 * MIB, "memory grew")


@test
def streams_have_back_pressure():
    with Server() as server:
        before = server.rss()
        with server.connect() as c, server.connect() as d:
            c.send(b"GET /chunks?n=4000000000 HTTP/1.1\r\nHost: a\r\n\r\n")
            d.send(b"PUT /sum?pause=50 HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000000\r\n\r\n")
            d.sock.settimeout(0.3)
            try:  # an endless body, and a slow reader
                feed(d, 4000000000)
            except TimeoutError:
                pass
            ok(server.stats()["received"] < 100 * MIB, "the slow reader was not slow")
            ok(server.sanitized() or server.rss() - before < 6 * MIB, "memory grew")
        server.until(lambda s: s["open"] == 1, "both gone")


@test
def a_handler_that_ignores_back_pressure_is_cut_off():
    with Server() as server:
        before = server.rss()
        with server.connect() as c:
            c.send(b"GET /careless?n=4000000000 HTTP/1.1\r\nHost: a\r\n\r\n")
            eq(server.until(lambda s: s["lost"] == 1, "cut off")["last_why"], -105)
            ok(server.sanitized() or server.rss() - before < 24 * MIB, "memory grew")


@test
def responses_that_contradict_their_headers_end_the_connection():
    with Server() as server, server.connect() as c:
        c.send(b"GET /sized?n=1000&lie=1 HTTP/1.1\r\nHost: a\r\n\r\n")
        ok(len(c.rest().partition(b"\r\n\r\n")[2]) < 1001, "more than there was")
        eq(server.stats()["last_why"], -103, "why")


@test
def idle_connections_are_cheap():
    n = 2000
    need = 2 * n + 100
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < need:
        raise Skip("too few descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, need), hard))
    for what, request in (("streams", b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n"),
                          ("kept alive", GET)):
        with Server() as server:
            clients = [server.connect() for _ in range(100)]
            for c in clients:
                c.send(request)
                c.until(b"Content-Type")
            before = server.rss()
            for _ in range(n):
                clients.append(server.connect())
                clients[-1].send(request)
            for c in clients[100:]:
                c.until(b"Content-Type")
            each = (server.rss() - before) / n / 1024
            print(f"# {what}: {each:.2f} kB each")
            ok(server.sanitized() or each <= 10, f"{each} kB each")
            for c in clients:
                c.sock.close()
            server.until(lambda s: s["connections"] == 1, "all gone")
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@test
def request_targets_may_be_absolute():
    """Like requests to a proxy: the host of the target overrides the header field."""
    with Server() as server, server.connect() as c:
        for target, path, query, host in (("http://b/about/x?q=1", "/about/x", "q=1", "b"), ("HTTP://b:81/about/", "/about/", None, "b:81"),
                                          ("https://[::1]:81/about/?", "/about/", "", "[::1]:81")):
            seen = c.ask("GET", target).json()
            eq((seen["path"], seen["query"], seen["host"]), (path, query, host), target)
        for target in ("http://b", "http://b?x=1"):  # an empty path is "/"
            eq(c.ask("GET", target).status, 404, target)
        for host in ("a", "a:80", "a:", "1.2.3.4:5", "[::1]", "[::1]:80", "a_b.c-d", "%41"):
            c.send(f"GET /about/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            eq(c.answer().json()["host"], host)


@test
def the_number_of_connections_is_limited():
    with Server("--connections", 10) as server:
        idle = [server.connect() for _ in range(10)]
        for c in idle:
            eq(c.ask("GET", "/hello").status, 200)
        with server.connect() as c:  # the connection that has been idle for the longest time is closed
            eq(c.ask("GET", "/hello").status, 200)
            ok(idle[0].closed(), "the first is still there")
            eq(idle[9].ask("GET", "/hello").status, 200, "a younger one")
        busy = [server.connect() for _ in range(10)]
        for c in busy:
            c.send(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
            c.until(b"first")
        with server.connect() as c:  # if none is idle, the new one gets an error at once
            c.send(GET)
            r = c.answer()
            eq(r.status, 503, "one more")
            ok(int(r.headers["retry-after"]) > 0, r.headers)
        busy[3].sock.close()
        again = time.monotonic() + 10
        while True:  # it is served as soon as there is room
            with server.connect() as c:
                if c.ask("GET", "/hello").status == 200:
                    break
            ok(time.monotonic() < again, "there is room, and no answer")
        for c in idle + busy:
            c.sock.close()


@test
def unauthenticated_connections_replace_each_other():
    """Of 16 connections, 2 are reserved for unix sockets and 2 for authenticated clients."""
    path = os.path.join(work.name, "reserved")
    with Server("--unix", path, "--connections", 16, "--reserve", 2) as server:
        known = server.connect()
        eq(known.ask("GET", "/hello", "X-Known: yes").status, 200, "one that is known")
        held = [server.connect() for _ in range(40)]
        eq(held[39].ask("GET", "/hello").status, 200, "the youngest")
        ok(held[0].closed(), "the oldest is still there")
        eq(known.ask("GET", "/hello").status, 200, "one that is known is nobody's room")
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)
        with Client(s) as c:
            eq(c.ask("GET", "/hello").status, 200, "by the unix socket")
        for c in [known, *held]:
            c.sock.close()


@test
def busy_connections_leave_slots_for_unix_sockets():
    path = os.path.join(work.name, "own")
    with Server("--unix", path, "--connections", 16, "--reserve", 2) as server:
        busy = []
        for _ in range(14):  # one after another: unauthenticated connections are limited to 12
            busy.append(server.connect())
            busy[-1].send(b"GET /events HTTP/1.1\r\nHost: a\r\nX-Known: yes\r\n\r\n")
            busy[-1].until(b"first")
        with server.connect() as c:
            eq(c.ask("GET", "/hello").status, 503, "one more by TCP")
        for _ in range(2):
            s = socket.socket(socket.AF_UNIX)
            s.connect(path)
            busy.append(Client(s))
            eq(busy[-1].ask("GET", "/hello").status, 200, "by the unix socket")
        for c in busy:
            c.sock.close()


@test
def the_server_recovers_from_running_out_of_descriptors():
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    with Server(preexec_fn=few) as server:
        clients = [server.connect() for _ in range(60)]
        eq(clients[0].ask("GET", "/hello").status, 200, "one that was accepted")
        clients[59].send(GET)
        for c in clients[:50]:
            c.sock.close()
        eq(clients[59].answer().body, b"hello\n", "one that had to wait")
        for c in clients[50:]:
            c.sock.close()


# ----------------------------------------------------------------- listeners

@test
def unix_sockets_are_served():
    path = os.path.join(work.name, "socket")
    with Server("--unix", path) as server:
        eq(stat.S_IMODE(os.stat(path).st_mode), 0o600, "mode")
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)
        with Client(s) as c:
            eq(c.ask("GET", "/about/").json()["peer"], f"unix:pid={os.getpid()},uid={os.getuid()}")
        second = subprocess.run([server.process.args[0], "--unix", path], capture_output=True,
                                stdin=subprocess.DEVNULL, timeout=20)
        ok(second.returncode == 1 and b"in use" in second.stderr, second)
    ok(not os.path.exists(path), "the socket is left behind")
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(path)
    stale.close()
    with Server("--unix", path):  # a stale socket is replaced
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)
        with Client(s) as c:
            eq(c.ask("GET", "/hello").status, 200)


@test
def an_inherited_socket_is_served():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        with Server("--fd", s.fileno(), pass_fds=[s.fileno()]):
            with Client(socket.create_connection(s.getsockname())) as c:
                eq(c.ask("GET", "/hello").body, b"hello\n")


@test
def draining_finishes_active_requests():
    with Server() as server:
        idle, busy = server.connect(), server.connect()
        eq(idle.ask("GET", "/hello").status, 200)
        busy.send(b"GET /wait?ms=500 HTTP/1.1\r\nHost: a\r\n\r\n")
        server.until(lambda s: s["open"] == 2, "the busy one")
        server.order("d")
        ok(idle.closed(), "the idle one is still there")
        reply = busy.answer()
        eq((reply.body, reply.headers["connection"]), (b"hello\n", "close"))
        try:
            server.connect()
            raise AssertionError("it still accepts")
        except ConnectionError:
            pass
        idle.sock.close()
        busy.sock.close()


@test
def curl_works_as_a_client():
    curl = shutil.which("curl")
    if not curl:
        raise Skip("curl is not installed")
    with Server() as server:
        url = f"http://127.0.0.1:{server.port}"
        def run(*args, data=None):
            return subprocess.run([curl, "-sS", "--fail", *args], input=data, timeout=60, check=True,
                                  capture_output=True).stdout
        eq(run(url + "/hello"), b"hello\n")
        eq(run("-d", "a=b", url + "/echo"), b"a=b")
        eq(run("--http1.0", url + "/hello"), b"hello\n")
        eq(len(run(url + "/chunks?n=5000000")), 5000000)
        data = os.urandom(3 * MIB)
        want = f"{len(data)} {hashlib.sha256(data).hexdigest()}"
        eq(run("-T", "-", url + "/sum", data=data).decode(), want, "chunked")
        eq(run("-H", "Expect: 100-continue", "--data-binary", "@-", url + "/sum", data=data).decode(),
           want, "after 100")
        eq(run(url + "/hello", url + "/hello"), b"hello\nhello\n", "on one connection")
        eq(json.loads(run(url + "/about/"))["method"], "GET")


if __name__ == "__main__":
    main()
