#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-http2.py - HTTP/2, frame by frame: what the server refuses, what it limits, and what stays independent

Prints TAP. Everything is on loopback; each test has a separate server.
"""
import contextlib
import hashlib
import json
import os
import signal
import socket
import ssl
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from net_harness import MIB, WAIT, eq, main, ok, test, tls_client  # pylint: disable=wrong-import-position
from h2_raw import (ACK, CALM, CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, FLOW_CONTROL_ERROR,  # pylint: disable=wrong-import-position
                    HEADERS, INITIAL_WINDOW, INTERNAL_ERROR, NO_ERROR, PADDED, PING, PREFACE, PRIORITY, PROTOCOL_ERROR,
                    REFUSED, RST, SETTINGS, WINDOW, H2Server, block, frame, get, integer)

STREAMS = 128  # of one connection, as the server announces
FIRST_WINDOW = 16 << 10


def refused(connection, stream):
    """Was the request on this stream refused, by a status or by a reset?"""
    connection.until(lambda: stream in connection.ended or stream in connection.reset, f"a refusal on {stream}")
    return connection.reset.get(stream, connection.status.get(stream))


# ---------------------------------------------------------------- heads

MALFORMED = [
    ([(":method", "GET"), (":scheme", "https"), (":authority", "a")], "no path"),
    ([(":method", "GET"), (":path", "/"), (":authority", "a")], "no scheme"),
    ([(":scheme", "https"), (":path", "/"), (":authority", "a")], "no method"),
    ([*get("/hello"), (":path", "/hello")], "two paths"),
    ([*get("/hello"), (":status", "200")], "a pseudo-header field of responses"),
    ([*get("/hello"), (":other", "x")], "an unknown pseudo-header field"),
    ([("x", "y"), *get("/hello")], "a field before the pseudo-header fields"),
    ([(":method", "GET"), (":scheme", "https"), (":path", "/hello")], "neither :authority nor Host"),
    (get("hello"), "a path without a slash"),
    (get("http://a/hello"), "an absolute path"),
    (get(""), "an empty path"),
    (get("/a b"), "a space in the path"),
    (get("/hello HTTP/1.1\r\nx: y"), "a line end in the path"),
    (get("/a#b"), "a fragment"),
    (get("*"), "a star without OPTIONS"),
    (get("/hello", "G T"), "a method that is no token"),
    (get("/hello", "CONNECT"), "CONNECT with a path"),
    ([(":method", "CONNECT"), (":authority", "a:1")], "CONNECT"),
    (get("/hello", host="u@a"), "a user in :authority"),
    (get("/hello", host="a/b"), "a path in :authority"),
    ([*get("/hello"), ("host", "other")], "a Host that differs"),
    ([*get("/hello"), ("X-Upper", "y")], "an upper-case name"),
    ([*get("/hello"), ("x y", "z")], "a space in a name"),
    ([*get("/hello"), ("", "z")], "an empty name"),
    ([*get("/hello"), ("x", "a\r\nb: c")], "a line end in a value"),
    ([*get("/hello"), ("x", "a\0b")], "a NUL in a value"),
    ([*get("/hello"), ("connection", "close")], "Connection"),
    ([*get("/hello"), ("keep-alive", "1")], "Keep-Alive"),
    ([*get("/hello"), ("proxy-connection", "close")], "Proxy-Connection"),
    ([*get("/hello"), ("transfer-encoding", "chunked")], "Transfer-Encoding"),
    ([*get("/hello"), ("upgrade", "websocket")], "Upgrade"),
    ([*get("/hello"), ("te", "gzip")], "another TE"),
    ([*get("/hello"), ("content-length", "x")], "a length that is no number"),
    ([*get("/hello"), ("content-length", "5")], "a length without a body"),
    ([*get("/hello"), ("content-length", "0"), ("content-length", "0")], "two lengths"),
    ([*get("/hello"), ("authorization", "a"), ("authorization", "b")], "two of Authorization"),
    ([*get("/hello"), ("expect", "tea")], "another expectation"),
    ([*get("/hello"), *[("x", "y")] * 200], "many fields"),
    ([*get("/hello"), ("x", "y" * 15000), ("z", "y" * 15000), ("w", "y" * 15000)], "long fields"),
]


def send_head(connection, fields):
    """Sends a head of any size, in frames of at most 16,000 bytes."""
    stream, connection.next = connection.next, connection.next + 2
    data = block(fields)
    parts = [data[i:i + 16000] for i in range(0, len(data), 16000)]
    for i, part in enumerate(parts):
        flags = END_HEADERS if i + 1 == len(parts) else 0
        connection.send(frame(CONTINUATION if i else HEADERS, flags | (0 if i else END_STREAM), stream, part))
    return stream


@test
def malformed_requests_are_refused():
    with H2Server() as server:
        for fields, what in MALFORMED:
            with server.raw() as c:
                code = refused(c, send_head(c, fields))
                ok(code in (PROTOCOL_ERROR, INTERNAL_ERROR, 400, 417, 431), f"{what}: {code}")
                eq(c.ask("/hello"), (200, b"hello\n"), f"the next request after {what}")
        eq(server.stats()["answered"], len(MALFORMED), "requests that a handler saw")


@test
def a_malformed_head_does_not_end_other_requests():
    with H2Server("--header-ms", 300, "--body-ms", 300) as server:
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(server.raw()) for _ in MALFORMED]
            others = [c.request(get("/wait?ms=900")) for c in connections]
            for c, (fields, _) in zip(connections, MALFORMED):
                send_head(c, fields)
            for c, other, (_, what) in zip(connections, others, MALFORMED):
                eq(c.answer(other), (200, b"hello\n"), f"the other request, with {what}")
        with server.raw() as c:
            stream = c.request(get("/wait?ms=900", "POST"), b"x", more=True)
            c.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, block([(":path", "/")])))
            other = c.request(get("/wait?ms=900"))
            eq(c.answer(other), (200, b"hello\n"), "the other request, with malformed trailers")
        with server.raw() as c:  # the positive control: a head that does not end
            c.request(get("/hang"))
            c.send(frame(HEADERS, END_STREAM, c.next, block(get("/hello"))))
            eq(c.closed(), NO_ERROR, "GOAWAY")


@test
def heads_too_large_get_431():
    with H2Server() as server, server.raw() as c:
        for fields in ([("x", "y")] * 200, [("x", "y" * 15000)] * 3):
            eq(refused(c, send_head(c, get("/hello") + fields)), 431)
        stream = send_head(c, get("/hello") + [("x", "y" * 10000)] * 3)
        eq(c.answer(stream), (200, b"hello\n"), "one of nearly the maximum, in three frames")


@test
def handlers_get_the_parsed_request():
    with H2Server() as server, server.raw() as c:
        extra = [("cookie", "a=1"), ("x-test", "t"), ("cookie", "b=2"), ("te", "trailers")]
        status, body = c.ask("/about/x%20y?q=1", extra=extra)
        about = json.loads(body)
        eq(status, 200)
        eq((about["method"], about["path"], about["query"], about["host"], about["version"], about["test"], about["tls"]),
           ("GET", "/about/x%20y", "q=1", "test", 20, "t", True))
        eq(about["headers"]["cookie"], "a=1; b=2", "cookies")
        eq(about["length"], 0, "length without a body")
        about = json.loads(c.ask("/about/", b"12345", extra=[("content-length", "5")])[1])
        eq(about["length"], 5, "length")
        about = json.loads(c.ask("/about/", b"12345")[1])
        eq(about["length"], -1, "length that is not announced")
        stream = c.request([(":method", "GET"), (":scheme", "https"), (":path", "/about/"), ("host", "old")])
        eq(json.loads(c.answer(stream)[1])["host"], "old", "Host without :authority")
        stream = c.request(get("/hello", "HEAD"))
        eq(c.answer(stream), (200, b""), "HEAD")
        eq(c.ask("/nothing"), (204, b""))
        eq(c.ask("/chunks?n=1000", method="HEAD"), (200, b""), "HEAD of a streamed answer")
        eq(c.ask("/sized?n=0"), (200, b""), "an empty streamed answer")
        stream = c.request(get("/events", "HEAD"))
        c.settle()
        ok(c.status[stream] == 200 and stream not in c.ended, "the answer ended before its handler ended it")
        eq(server.stats()["open"], 2, "open requests")


@test
def both_protocols_are_offered():
    with H2Server() as server:
        for offer, want in ((["h2", "http/1.1"], "h2"), (["http/1.1", "h2"], "h2"), (["http/1.1"], "http/1.1"), (None, None)):
            context = ssl.create_default_context(cafile=server.cert)
            if offer:
                context.set_alpn_protocols(offer)
            with context.wrap_socket(socket.create_connection(("127.0.0.1", server.tls), WAIT),
                                     server_hostname="127.0.0.1") as s:
                eq(s.selected_alpn_protocol(), want, f"protocol for {offer}")
        context.set_alpn_protocols(["spdy/3"])
        try:
            context.wrap_socket(socket.create_connection(("127.0.0.1", server.tls), WAIT), server_hostname="127.0.0.1")
            raise AssertionError("an unknown protocol was accepted")
        except (ssl.SSLError, ConnectionError):
            pass


# ---------------------------------------------------------------- violations of the protocol

VIOLATIONS = [
    (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1"),
    (PREFACE[:-1] + b"x" + frame(SETTINGS), "a bad preface"),
    (PREFACE + frame(PING, payload=b"12345678"), "no settings"),
    (PREFACE + frame(SETTINGS) + frame(PING, payload=b"123"), "a short PING"),
    (PREFACE + frame(SETTINGS) + frame(DATA, 0, 1, b"x"), "DATA on an idle stream"),
    (PREFACE + frame(SETTINGS) + frame(DATA, 0, 0, b"x"), "DATA without a stream"),
    (PREFACE + frame(SETTINGS) + frame(HEADERS, END_HEADERS | END_STREAM, 2, block(get("/hello"))), "an even stream"),
    (PREFACE + frame(SETTINGS) + frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x80"), "an invalid index"),
    (PREFACE + frame(SETTINGS) + frame(CONTINUATION, END_HEADERS, 1, b""), "CONTINUATION without HEADERS"),
    (PREFACE + frame(SETTINGS) + frame(HEADERS, 0, 1, block(get("/hello"))) + frame(PING, payload=b"12345678"),
     "a frame between HEADERS and CONTINUATION"),
    (PREFACE + frame(SETTINGS) + frame(WINDOW, 0, 0, b"\0\0\0\0"), "an empty window update"),
    (PREFACE + frame(SETTINGS) + frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff") * 2, "a window beyond 31 bits"),
    (PREFACE + frame(SETTINGS, payload=struct.pack(">HI", INITIAL_WINDOW, 1 << 31)), "a setting beyond 31 bits"),
    (PREFACE + frame(SETTINGS, ACK, payload=b"123456"), "an acknowledgement with settings"),
    (PREFACE + frame(SETTINGS) + b"\xff\xff\xff" + b"\0" * 6, "a frame of 16 MB"),
    (PREFACE + frame(SETTINGS) + frame(HEADERS, END_HEADERS | END_STREAM | PADDED, 1, b"\xff" + block(get("/hello"))),
     "more padding than frame"),
]


@test
def protocol_violations_end_the_connection():
    with H2Server() as server:
        for data, what in VIOLATIONS:
            with server.raw(greet=False) as c:
                c.send(data)
                code = c.closed()
                ok(code not in (None, NO_ERROR), f"{what}: GOAWAY {code}")
        with server.raw() as c:
            eq(c.ask("/hello")[0], 200, "the positive control")
        eq(server.until(lambda s: s["open"] == 1, "all closed")["answered"], 1)


FLOODS = [
    (frame(PING, payload=b"12345678"), "PING"),
    (frame(SETTINGS), "SETTINGS"),
    (frame(PRIORITY, 0, 9, b"\0\0\0\0\1"), "PRIORITY"),
    (frame(WINDOW, 0, 0, b"\0\0\0\1"), "WINDOW_UPDATE"),
]


@test
def floods_of_frames_end_the_connection():
    with H2Server() as server:
        for data, what in FLOODS:
            with server.raw() as c:
                c.send(data * 400)
                eq(c.ask("/hello")[0], 200, f"after some of {what}")
                try:
                    for _ in range(50):
                        c.send(data * 100)
                except OSError:
                    pass
                eq(c.closed(), CALM, f"GOAWAY after many of {what}")
        with server.raw() as c:
            stream = c.request(get("/sum", "PUT"), b"x", more=True)
            c.send(frame(DATA, 0, stream) * 400)
            eq(c.ask("/hello")[0], 200, "after some empty DATA frames")
            try:
                for _ in range(50):
                    c.send(frame(DATA, 0, stream) * 100)
            except OSError:
                pass
            eq(c.closed(), CALM, "GOAWAY after many empty DATA frames")


@test
def rapid_resets_end_the_connection():
    with H2Server() as server:
        def burst(c, n):
            data = b""
            for _ in range(n):
                stream, c.next = c.next, c.next + 2
                data += frame(HEADERS, END_HEADERS | END_STREAM, stream, block(get("/hang")))
                data += frame(RST, 0, stream, struct.pack(">I", CANCEL))
            c.send(data)
        with server.raw() as c:
            burst(c, 400)
            eq(c.ask("/hello")[0], 200, "after some resets")
            eq(server.until(lambda s: s["open"] == 1, "all closed")["lost"], 400, "requests that were reset")
            try:
                for _ in range(50):
                    burst(c, 100)
            except OSError:
                pass
            ok(c.closed() not in (None, NO_ERROR), "GOAWAY")
        server.until(lambda s: s["open"] == 1, "all closed")


@test
def resets_that_the_client_provokes_count_too():
    """A client can make the server reset streams, for example with a malformed frame for each."""
    with H2Server() as server, server.raw() as c:
        try:
            for _ in range(30):
                data = b""
                for _ in range(100):
                    stream, c.next = c.next, c.next + 2
                    data += frame(HEADERS, END_HEADERS | END_STREAM, stream, block(get("/hang")))
                    data += frame(WINDOW, 0, stream, b"\0\0\0\0")
                c.send(data)
        except OSError:
            pass
        ok(c.closed() not in (None, NO_ERROR), "GOAWAY")
        server.until(lambda s: s["open"] == 1, "all closed")


@test
def floods_of_continuations_end_the_connection():
    with H2Server() as server, server.raw() as c:
        c.send(frame(HEADERS, END_STREAM, 1, block(get("/hello"))))
        try:
            for _ in range(10000):
                c.send(frame(CONTINUATION, 0, 1, block([("x", "y" * 1000)])))
        except OSError:
            pass
        ok(c.closed() not in (None, NO_ERROR), "GOAWAY")
        eq(server.stats()["answered"], 0, "requests")


def referring(times):
    """A head whose field of 4,000 bytes is sent once, and then as references of one byte."""
    return block(get("/hello")) + b"\x40" + integer(1, 7) + b"x" + integer(4000, 7) + b"y" * 4000 + b"\xbe" * times


@test
def heads_that_grow_by_references_end_the_connection():
    with H2Server() as server:
        with server.raw() as c:
            c.send(frame(HEADERS, END_STREAM | END_HEADERS, 1, referring(5)))
            eq(c.answer(1), (200, b"hello\n"), "a few references")
        with server.raw() as c:
            try:
                c.send(frame(HEADERS, END_STREAM, 1, referring(10000)))
                for _ in range(14):
                    c.send(frame(CONTINUATION, 0, 1, b"\xbe" * 16000))
            except OSError:
                pass
            eq(c.closed(), CALM, "GOAWAY")
        eq(server.stats()["answered"], 1, "requests")


@test
def many_heads_that_are_too_large_end_the_connection():
    with H2Server() as server, server.raw() as c:
        eq(refused(c, send_head(c, get("/hello") + [("x", "y" * 15000)] * 3)), 431)
        eq(c.ask("/hello"), (200, b"hello\n"), "after one such head")
        try:
            for _ in range(100):
                send_head(c, get("/hello") + [("x", "y" * 15000)] * 3)
        except OSError:
            pass
        eq(c.closed(), CALM, "GOAWAY")


# ---------------------------------------------------------------- streams

@test
def the_number_of_streams_is_limited():
    with H2Server() as server, server.raw() as c:
        streams = [c.request(get("/hang")) for _ in range(STREAMS)]
        c.settle()
        c.send(frame(RST, 0, streams[0], struct.pack(">I", CANCEL)))
        eq(c.ask("/hello"), (200, b"hello\n"), "in the place of another")
        c.request(get("/hang"))
        c.request(get("/hello"))
        eq(c.closed(), PROTOCOL_ERROR, "one too many, against the settings")
        ok(c.next - 2 not in c.ended, "it was served")
        server.until(lambda s: s["open"] == 1, "all closed")


@test
def answers_do_not_wait_for_each_other():
    with H2Server() as server, server.raw() as c:
        slow = c.request(get("/wait?ms=300"))
        eq(c.ask("/hello")[0], 200)
        ok(slow not in c.ended, "the slow one was first")
        eq(c.answer(slow), (200, b"hello\n"))


@test
def unread_bodies_stop_their_stream_only():
    with H2Server() as server, server.raw() as c:
        piece = b"x" * 8192
        hang = c.request(get("/hang", "PUT"), piece, more=True)
        c.send(frame(DATA, 0, hang, piece))
        data = os.urandom(MIB)
        eq(upload(c, "/sum", data)[1].decode(), f"{len(data)} {hashlib.sha256(data).hexdigest()}")
        eq(c.windows[hang], 0, "window of the request that reads nothing")
        c.send(frame(DATA, 0, hang, b"x"))  # one byte too much
        c.until(lambda: hang in c.reset or c.goaway is not None, "the reaction")
        ok(FLOW_CONTROL_ERROR in (c.reset.get(hang), c.goaway), f"{c.reset} {c.goaway}")


@test
def a_paused_reader_stops_its_stream_only():
    with H2Server() as server:
        before = server.rss()
        with server.raw() as c:
            slow = [c.request(get("/sum?pause=60000", "PUT"), b"x" * 8192, more=True) for _ in range(20)]
            c.until(lambda: all(c.windows[s] > 400000 for s in slow), "windows")
            for s in slow:
                left = FIRST_WINDOW + c.windows[s] - 8192
                c.send(b"".join(frame(DATA, 0, s, b"x" * min(16384, left - at)) for at in range(0, left, 16384)))
            windows = {s: c.windows[s] for s in slow}
            for _ in range(20):
                eq(c.ask("/echo", b"abc"), (200, b"abc"))
            c.settle()
            for s in slow:
                ok(c.windows[s] == windows[s], f"a window grew while the reader paused: {windows[s]}, {c.windows[s]}")
            ok(server.sanitized() or server.rss() - before < 32 * MIB, "memory grew")
        server.until(lambda s: s["open"] == 1, "all gone")


def upload(c, path, data, size=16000):
    """Sends a body as the windows allow; returns the answer."""
    stream, sent = c.request(get(path, "PUT"), more=True), 0
    while sent < len(data):
        c.until(lambda: FIRST_WINDOW + c.windows[stream] > sent, "a window")  # pylint: disable=cell-var-from-loop
        n = min(size, FIRST_WINDOW + c.windows[stream] - sent, len(data) - sent)
        c.send(frame(DATA, END_STREAM if sent + n == len(data) else 0, stream, data[sent:sent + n]))
        sent += n
    return c.answer(stream)


@test
def bodies_arrive_completely_whatever_pauses_the_reader():
    with H2Server() as server, server.raw() as c:
        data = os.urandom(3 * MIB)
        want = f"{len(data)} {hashlib.sha256(data).hexdigest()}"
        for pause, size in ((0, 16000), (1, 16000), (1, 16384), (1, 5000)):
            eq(upload(c, f"/sum?pause={pause}", data, size)[1].decode(), want, f"sum with a pause of {pause}, {size} bytes")


@test
def uploads_continue_without_memory_for_a_wide_window():
    with H2Server("--bodies", 200000) as server, server.raw() as c:
        data = os.urandom(MIB)
        eq(upload(c, "/sum?pause=1", data)[1].decode(), f"{len(data)} {hashlib.sha256(data).hexdigest()}")


@test
def a_slow_reader_of_one_stream_does_not_delay_others():
    with H2Server() as server:
        before = server.rss()
        with server.raw(settings=[(INITIAL_WINDOW, 0)]) as c:
            big = [c.request(get("/chunks?n=100000000") + [("x-known", "1")]) for _ in range(60)]
            c.until(lambda: all(s in c.status for s in big), "heads")
            for _ in range(5):
                stream = c.request(get("/hello"))
                c.open_window(stream, 100)
                eq(c.answer(stream), (200, b"hello\n"))
            ok(not any(c.body[s] for s in big), "data without a window")
            ok(server.sanitized() or server.rss() - before < 24 * MIB, f"memory grew by {server.rss() - before}")
            c.open_window(big[0], 100000)  # the positive control; the connection has 65,535
            c.until(lambda: len(c.body[big[0]]) > 60000, "data with a window")
        server.until(lambda s: s["open"] == 1, "all gone")


@test
def large_unread_answers_hold_back_further_requests():
    with H2Server() as server:
        before = server.rss()
        with server.raw(settings=[(INITIAL_WINDOW, 0)]) as c:
            bodies = {}
            for _ in range(2):  # each answer is in memory as a whole
                s = c.request(get("/echo?max=4000000", "POST"), more=True)
                sent = 0
                while sent < 200000:
                    c.until(lambda: FIRST_WINDOW + c.windows[s] > sent, "a window")  # pylint: disable=cell-var-from-loop
                    n = min(16000, FIRST_WINDOW + c.windows[s] - sent, 200000 - sent)
                    c.send(frame(DATA, END_STREAM if sent + n == 200000 else 0, s, b"e" * n))
                    sent += n
                bodies[s] = 200000
                c.settle()
            answered = server.until(lambda s: s["open"] == 1, "answered")["answered"]
            late = [c.request(get("/hello")) for _ in range(50)]
            c.settle()
            ok(not any(s in c.status for s in late), "a request was started")
            # Nothing is kept for the bodies of requests that wait, unless the client is known.
            body = c.request(get("/sum", "PUT"), b"x" * 1000, more=True)
            eq(refused(c, body), REFUSED, "a body")
            eq(server.stats()["answered"], answered + 1, "requests that were started")
            ok(server.sanitized() or server.rss() - before < 16 * MIB, "memory grew")
            c.open_window(0, 10000000)
            for s in [*bodies, *late]:
                c.open_window(s, 1000000)
            for s in bodies:
                eq(len(c.answer(s)[1]), 200000)
            for s in late:
                eq(c.answer(s), (200, b"hello\n"))


def hanging(c, known, make):
    """How many of 60 requests that take memory does the server keep? The handler reads nothing."""
    eq(c.answer(c.request(get("/hello") + ([("x-known", "1")] if known else [])))[0], 200)
    open_ = [make() for _ in range(60)]
    for _ in range(2):  # the answer to a PING overtakes other frames
        c.settle()
    return sum(s not in c.reset for s in open_)


@test
def a_client_that_is_not_known_can_keep_little_in_memory():
    long = [("x-long", "x" * 8000)]
    for known, heads, bodies in ((False, 16, 8), (True, 60, 60)):
        with H2Server() as server:
            with server.raw() as c:
                eq(hanging(c, known, lambda: c.request(get("/hang") + long)), heads, f"heads, known: {known}")
            with server.raw() as c:
                eq(hanging(c, known, lambda: c.request(get("/hang", "PUT"), b"x" * 16384, more=True)), bodies,
                   f"bodies, known: {known}")
            with server.raw() as c:
                eq(c.ask("/hello")[0], 200, "another connection")


@test
def a_handler_that_ignores_back_pressure_loses_its_stream():
    with H2Server() as server, server.raw(settings=[(INITIAL_WINDOW, 0)]) as c:
        stream = c.request(get("/careless?n=4000000000"))
        c.until(lambda: stream in c.reset, "the reset")
        eq(server.stats()["last_why"], -105, "why")
        eq(refused(c, c.request(get("/nothing"))), 204, "the connection goes on")


@test
def answers_that_contradict_their_heads_reset_the_stream():
    with H2Server() as server, server.raw() as c:
        stream = c.request(get("/sized?n=1000&lie=1"))
        c.until(lambda: stream in c.reset, "the reset")
        eq(c.reset[stream], INTERNAL_ERROR)
        ok(stream not in c.ended, "a complete answer")
        eq(c.ask("/hello")[0], 200, "the connection goes on")
        eq(server.stats()["last_why"], 0, "why")


@test
def requests_are_cut_off_on_their_stream_only():
    with H2Server() as server, server.raw() as c:
        begun, other = c.request(get("/cut?begin=1")), c.request(get("/cut"))
        eq(c.answer(other)[0], 401)
        c.until(lambda: begun in c.reset, "the reset")
        eq(c.body[begun], b"first\n")
        eq(c.ask("/hello")[0], 200, "the connection goes on")


@test
def a_client_that_resets_or_leaves_is_noticed():
    with H2Server() as server:
        with server.raw() as c:
            stream = c.request(get("/events"))
            c.until(lambda: c.body[stream], "the first event")
            c.send(frame(RST, 0, stream, struct.pack(">I", CANCEL)))
            eq(server.until(lambda s: s["lost"] == 1, "lost")["last_why"], -104)
            eq(c.ask("/hello")[0], 200, "the connection goes on")
            c.request(get("/hang"))
            c.settle()
        server.until(lambda s: s["lost"] == 2 and s["open"] == 1, "the rest lost")


@test
def bodies_too_large_are_refused():
    with H2Server("--bodies", 200000) as server, server.raw() as c:
        eq(refused(c, c.request(get("/echo?max=10", "POST"), b"x" * 11)), 413)
        eq(refused(c, c.request(get("/echo?max=10", "POST") + [("content-length", "11")], more=True)), 413)
        eq(c.ask("/echo?max=10", b"x" * 10), (200, b"x" * 10))
        stream, sent = c.request(get("/echo", "POST"), more=True), 0
        while sent < 300000 and stream not in c.status:
            n = min(16000, FIRST_WINDOW + c.windows[stream] - sent)
            if n:
                c.send(frame(DATA, 0, stream, b"x" * n))
                sent += n
            else:
                c.take()
        eq(refused(c, stream), 503, "more than the server has for bodies")
        eq(c.ask("/hello")[0], 200, "the connection goes on")


@test
def a_body_that_is_not_needed_is_dropped():
    with H2Server() as server, server.raw() as c:
        stream = c.request(get("/hello", "POST"), b"x" * 5000, more=True)
        eq(c.answer(stream), (200, b"hello\n"))
        sent = 5000
        while sent < 200000:
            n = min(16000, FIRST_WINDOW + c.windows[stream] - sent)
            if n:
                c.send(frame(DATA, 0, stream, b"x" * n))
                sent += n
            else:
                c.until(lambda: FIRST_WINDOW + c.windows[stream] > sent, "a window")  # pylint: disable=cell-var-from-loop
        c.send(frame(DATA, END_STREAM, stream, b""))
        eq(c.ask("/hello")[0], 200)
        endless = c.request(get("/hello", "POST"), b"x", more=True)
        c.until(lambda: endless in c.reset, "a body that does not end")
        eq(c.reset[endless], NO_ERROR)


@test
def trailers_and_interim_answers_are_handled():
    with H2Server() as server, server.raw() as c:
        stream = c.request(get("/echo", "POST"), b"abc", more=True)
        c.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, block([("x-trailer", "y")])))
        eq(c.answer(stream), (200, b"abc"), "with trailers")
        stream = c.request(get("/echo", "POST") + [("expect", "100-continue")], more=True)
        c.until(lambda: stream in c.status, "100 Continue")
        eq(c.status[stream], 100)
        c.send(frame(DATA, END_STREAM, stream, b"abc"))
        eq(c.answer(stream), (200, b"abc"), "after 100")
        for path in ("/raw", "/ws"):
            eq(c.ask(path)[0], 400, f"{path} over HTTP/2")


# ---------------------------------------------------------------- time limits, drain

@test
def slow_clients_lose_their_stream():
    with H2Server("--body-ms", 300, "--write-ms", 300) as server:
        with server.raw(settings=[(INITIAL_WINDOW, 0)]) as c:
            slow = c.request(get("/sum", "PUT"), b"x", more=True)
            c.until(lambda: slow in c.status, "the refusal")
            eq(c.status[slow], 408, "a body that stops")
            stuck = c.request(get("/chunks?n=1000000"))
            c.until(lambda: stuck in c.reset, "the reset")
            eq(c.reset[stuck], CANCEL, "an answer that is not read")
            eq(c.ask("/nothing")[0], 204, "the connection goes on")


@test
def a_handler_can_allow_slow_bodies():
    with H2Server("--body-ms", 1000) as server, server.raw() as c:
        stream = c.request(get("/sum?slow=1", "PUT"), b"x", more=True)
        time.sleep(1.5)
        c.send(frame(DATA, END_STREAM, stream, b"y"))
        eq(c.answer(stream), (200, f"2 {hashlib.sha256(b'xy').hexdigest()}".encode()))
        stream = c.request(get("/sum?slow=1", "PUT"), b"x", more=True)
        c.until(lambda: stream in c.status, "the refusal")
        eq(c.status[stream], 408, "a body that stops")


@contextlib.contextmanager
def stopped(server, seconds):
    """Stops the server for a while, after what the block does."""
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
        time.sleep(seconds)
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


@test
def frames_that_waited_for_a_stopped_server_are_in_time():
    with H2Server("--body-ms", 2000) as server, server.raw() as c:
        stream = c.request(get("/sum", "PUT"), b"x", more=True)
        c.settle()
        for _ in range(2):
            with stopped(server, 2.2):
                c.send(frame(DATA, 0, stream, b"x"))
            c.settle()
        c.send(frame(DATA, END_STREAM, stream, b"x"))
        eq(c.answer(stream), (200, f"4 {hashlib.sha256(b'xxxx').hexdigest()}".encode()))


def unread(port):
    """How many bytes wait in the kernel for the client, of connections of this port of the server."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        rows = [line.split() for line in f.readlines()[1:]]
    return sum(int(r[4].split(":")[0], 16) for r in rows if int(r[1].split(":")[1], 16) == port)


@test
def a_flood_of_a_client_that_reads_nothing_ends_the_connection():
    """The server has freed all streams then, and must not send frames that it had begun."""
    with H2Server("--write-ms", 1000) as server, server.raw(settings=[(INITIAL_WINDOW, MIB << 6)]) as c:
        c.open_window(0, MIB << 6)
        for _ in range(4):
            c.request(get("/sized?n=50000000"))
        before, now, end = -1, 0, time.monotonic() + WAIT
        while now == 0 or before != now:  # until nothing more fits into the sockets
            ok(time.monotonic() < end, "the sockets do not fill")
            time.sleep(0.1)
            before, now = now, unread(server.tls)
        c.send(frame(PING, payload=b"12345678") * 2000)
        stats = server.until(lambda s: s["open"] == 1 and s["lost"] == 4, "the end of the requests")
        eq(stats["last_why"], -71, "why")
        server.until(lambda s: s["connections"] == 1, "the end of the connection")
        with server.raw() as other:
            eq(other.ask("/hello"), (200, b"hello\n"), "the server goes on")


@test
def too_many_connections_are_told_so():
    with H2Server("--connections", 2) as server, server.raw() as busy, server.raw() as other:
        for c in (busy, other):
            c.request(get("/hang"))
            c.settle()
        with server.raw() as c:
            eq(c.closed(), CALM, "GOAWAY")
        with tls_client(server, server.cert) as c:
            c.send(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
            eq(c.answer().status, 503, "over HTTP/1.1")
        other.sock.close()
        end = time.monotonic() + WAIT
        while True:  # it is served as soon as there is room
            with contextlib.suppress(AssertionError, OSError), server.raw() as c:
                eq(c.ask("/hello"), (200, b"hello\n"))
                break
            ok(time.monotonic() < end, "there is room, and no answer")
            time.sleep(0.05)


@test
def slow_heads_and_idle_connections_end():
    with H2Server("--header-ms", 300, "--idle-ms", 600) as server:
        with server.raw() as c:
            c.send(frame(HEADERS, END_STREAM, 1, block(get("/hello"))))  # not complete
            eq(c.closed(), NO_ERROR, "GOAWAY")
        with server.raw() as c:
            eq(c.ask("/hello")[0], 200)
            eq(c.closed(), NO_ERROR, "GOAWAY")
        with server.raw() as c:  # PINGs do not keep an idle connection
            eq(c.ask("/hello")[0], 200)
            end = time.monotonic() + WAIT
            try:
                while time.monotonic() < end:
                    c.settle()
                    time.sleep(0.05)
                raise ValueError("it stays open")
            except (AssertionError, OSError):
                pass
        eq(server.stats()["answered"], 2, "requests")


@test
def draining_finishes_active_requests():
    with H2Server() as server:
        with server.raw() as idle, server.raw() as busy:
            eq(idle.ask("/hello")[0], 200)
            streams = [busy.request(get("/wait?ms=400")) for _ in range(3)]
            busy.settle()
            server.order("d")
            eq(idle.closed(), NO_ERROR, "GOAWAY of the idle one")
            busy.until(lambda: busy.goaway is not None, "GOAWAY of the busy one")
            eq(busy.goaway, NO_ERROR)
            busy.request(get("/hello"))  # after GOAWAY: not served
            for s in streams:
                eq(busy.answer(s), (200, b"hello\n"))
            busy.closed()
            eq(len(busy.ended), 3, "answers")


if __name__ == "__main__":
    main()
