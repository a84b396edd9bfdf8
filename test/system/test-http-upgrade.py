#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-http-upgrade.py - TLS, WebSockets, upgraded connections, and the proxy

Prints TAP. Everything is on loopback; servers behind the proxy are threads of this program, and
most of them are hostile.
"""
import base64
import contextlib
import hashlib
import http.server
import os
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
import warnings
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from net_harness import (MIB, WAIT, Client, Server, Skip, certificate, eq, main, ok, test,  # pylint: disable=wrong-import-position
                         tls_client, work)

# An independent client, run by Debian's Python: the one on the PATH may be another.
PYTHON = "/usr/bin/python3"
TALK = """
import asyncio, sys, websockets

async def parts():
    for part in ("in ", "three ", "parts"):
        yield part

async def talk(url, wait):
    async with websockets.connect(url, subprotocols=["echo"], max_size=None) as w:
        assert w.subprotocol == "echo", w.subprotocol
        for message in ("text", b"bytes", "\\u00fc" * 100000, b"x" * 500000):
            await w.send(message)
            assert await asyncio.wait_for(w.recv(), wait) == message
        await w.send(parts())
        assert await asyncio.wait_for(w.recv(), wait) == "in three parts"
        await asyncio.wait_for(await w.ping(), wait)

asyncio.run(talk(sys.argv[1], int(sys.argv[2])))
"""


# ----------------------------------------------------------------- TLS

@test
def requests_are_served_over_tls():
    cert, key = certificate("first")
    with Server("--cert", cert, "--key", key) as server:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with tls_client(server, cert, maximum_version=version) as c:
                eq(c.ask("GET", "/hello").body, b"hello\n")
                eq(c.ask("GET", "/about/").json()["tls"], True)
                eq(len(c.ask("GET", "/chunks?n=3000000").body), 3000000)
                data = os.urandom(2 * MIB)
                eq(c.ask("PUT", "/sum", body=data).body.decode(),
                   f"{len(data)} {hashlib.sha256(data).hexdigest()}")
                eq(c.ask("POST", "/echo", body=b"x" * 100000).body, b"x" * 100000)
                with open("/proc/self/exe", "rb") as f:
                    program = f.read()
                path = os.path.realpath("/proc/self/exe")
                eq(c.ask("GET", "/file" + path).body, program, "a file")
                eq(c.ask("GET", f"/file{path}?off=100&n=50").body, program[100:150], "a part of it")
                eq(c.ask("GET", "/hello", "Connection: close").status, 200)
                eq(c.rest(), b"", "after the end")
        with server.connect() as c:  # the plain port of the same server
            eq(c.ask("GET", "/about/").json()["tls"], False)


@test
def invalid_tls_connections_are_refused():
    cert, key = certificate("refuses")
    with Server("--cert", cert, "--key", key, "--header-ms", 400) as server:
        with Client(socket.create_connection(("127.0.0.1", server.tls), WAIT)) as c:
            c.send(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                ok(b"HTTP" not in c.rest(), "plain text was answered")
        with Client(socket.create_connection(("127.0.0.1", server.tls), WAIT)) as c:
            ok(c.closed(), "a handshake that does not come is waited for")
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        with contextlib.suppress(ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the test uses a deprecated version on purpose
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        try:
            old.wrap_socket(socket.create_connection(("127.0.0.1", server.tls), WAIT))
            raise AssertionError("TLS 1.1 was accepted")
        except (ssl.SSLError, ConnectionError):
            pass
        with tls_client(server, cert) as c:
            eq(c.ask("GET", "/hello").status, 200)


@test
def tls_1_2_has_forward_secrecy_and_authenticated_ciphers():
    """Static RSA and CBC are refused. Each cipher is offered as the only one, with a certificate of the right
    type."""
    rsa, rsa_key = os.path.join(work.name, "rsa.pem"), os.path.join(work.name, "rsa.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", rsa_key, "-out", rsa, "-days", "2",
                    "-subj", "/CN=localhost"], check=True, stderr=subprocess.DEVNULL)

    def speaks(server, suite):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(suite + ":@SECLEVEL=0")
        try:
            with context.wrap_socket(socket.create_connection(("127.0.0.1", server.tls), WAIT)) as s:
                return s.cipher()[0] == suite
        except (ssl.SSLError, ConnectionError):
            return False
    with Server("--cert", rsa, "--key", rsa_key) as server:
        good = ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305")
        bad = ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA", "AES256-SHA256", "ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES256-SHA384",
               "DHE-RSA-AES128-GCM-SHA256")
        eq([s for s in good if not speaks(server, s)], [], "suites that are refused and should not be")
        eq([s for s in bad if speaks(server, s)], [], "suites that are accepted")


@test
def certificates_can_be_replaced_while_serving():
    cert, key = certificate("before")
    new_cert, new_key = certificate("after")
    with Server("--cert", cert, "--key", key) as server:
        with tls_client(server, cert) as old:
            eq(old.ask("GET", "/hello").status, 200)
            before = cert + ".before"
            shutil.copy(cert, before)
            shutil.copy(new_cert, cert)
            server.order("r")
            eq(server.line(), "reload -22", "with the key of another")
            with tls_client(server, before) as c:
                eq(c.ask("GET", "/hello").status, 200, "as before")
            shutil.copy(new_key, key)
            server.order("r")
            eq(server.line(), "reload 0")
            with tls_client(server, new_cert) as c:
                eq(c.ask("GET", "/hello").status, 200, "the new one")
            eq(old.ask("GET", "/hello").status, 200, "a connection from before")


@test
def tls_memory_is_bounded():
    cert, key = certificate("memory")
    with Server("--cert", cert, "--key", key) as server:
        clients = []
        for n in (50, 300):
            before, have = server.rss(), len(clients)
            for _ in range(n):
                clients.append(tls_client(server, cert))
                clients[-1].send(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
                clients[-1].until(b"first")
        each = (server.rss() - before) / (len(clients) - have) / 1024
        print(f"# TLS streams: {each:.1f} kB each")
        ok(server.sanitized() or each < 64, f"{each} kB each")
        with tls_client(server, cert) as c:  # back-pressure works like without TLS
            before = server.rss()
            c.send(b"GET /chunks?n=4000000000 HTTP/1.1\r\nHost: a\r\n\r\n")
            time.sleep(0.3)
            ok(server.sanitized() or server.rss() - before < 6 * MIB, "memory grew")
        for c in clients:
            c.sock.close()


# -------------------------------------- connections that a handler takes over

@test
def an_upgraded_connection_carries_any_bytes():
    with Server() as server:
        with server.connect() as c:
            c.send(b"GET /raw HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nabc")
            status, headers = c.head()
            eq((status, headers["upgrade"], headers["connection"]), (101, "echo", "Upgrade"))
            eq(c.take(3), b"abc", "what came with the request")
            data = os.urandom(5 * MIB)
            sender = threading.Thread(target=c.send, args=(data,))
            sender.start()
            ok(c.take(len(data)) == data, "other bytes came back")
            sender.join()
            c.send(b"last")
            c.sock.shutdown(socket.SHUT_WR)
            eq(c.rest(), b"last")
        with server.connect() as c:
            eq(c.ask("POST", "/raw", body=b"abc").status, 400, "with a body")
        with server.connect() as c:
            eq(c.ask("GET", "/raw", version="1.0").status, 400, "HTTP/1.0")
        server.until(lambda s: s["open"] == 1, "over")


# ----------------------------------------------------------------- WebSocket

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
SHAKE = ("Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
         f"Sec-WebSocket-Key: {KEY}")
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def frame(opcode, payload=b"", fin=True, mask=b"\x01\x02\x03\x04", rsv=0):
    n = len(payload)
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    bit = 0x80 if mask else 0
    head += (bytes([bit | n]) if n < 126 else bytes([bit | 126]) + struct.pack(">H", n)
             if n < 65536 else bytes([bit | 127]) + struct.pack(">Q", n))
    if not mask:
        return head + payload
    pad = (mask * (n // 4 + 1))[:n]
    return head + mask + (int.from_bytes(payload, "big") ^ int.from_bytes(pad, "big")).to_bytes(n, "big")


class Socket(Client):
    def read(self):
        first, second = self.take(2)
        ok(not second & 0x80, "a masked frame from the server")
        n = second & 0x7f
        if n > 125:
            n = int.from_bytes(self.take(2 if n == 126 else 8), "big")
        ok(first & 0x80, "a fragment")
        return first & 15, self.take(n)

    def close_code(self):
        opcode, payload = self.read()
        eq(opcode, CLOSE, f"opcode (with {payload[:80]!r})")
        return int.from_bytes(payload[:2], "big") if payload else None


@contextlib.contextmanager
def web_socket(server, target="/ws", *headers):
    with Socket(socket.create_connection(("127.0.0.1", server.port), WAIT)) as c:
        reply = c.ask("GET", target, *SHAKE, *headers)
        eq(reply.status, 101)
        eq(reply.headers["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        ok("sec-websocket-extensions" not in reply.headers, "extensions")
        c.reply = reply
        yield c


@test
def handshakes_are_checked():
    with Server() as server:
        for bad, status in (("Connection: keep-alive", 400), ("Upgrade: h2c", 400),
                            ("Sec-WebSocket-Version: 8", 426), ("Sec-WebSocket-Key: short", 400),
                            ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=a", 400)):
            headers = [bad if h.startswith(bad.split(":")[0] + ":") else h for h in SHAKE]
            with server.connect() as c:
                reply = c.ask("GET", "/ws", *headers)
                eq(reply.status, status, bad)
                ok(status != 426 or reply.headers["sec-websocket-version"] == "13", "version")
        with server.connect() as c:
            eq(c.ask("POST", "/ws", *SHAKE).status, 400, "POST")
        with web_socket(server, "/ws", "Sec-WebSocket-Protocol: chat, echo") as c:
            eq(c.reply.headers["sec-websocket-protocol"], "echo")
        with web_socket(server, "/ws", "Sec-WebSocket-Extensions: permessage-deflate") as c:
            ok("sec-websocket-protocol" not in c.reply.headers, "a protocol")


@test
def websocket_messages_are_echoed():
    with Server() as server, web_socket(server) as c:
        for payload in (b"", b"x", b"y" * 125, b"z" * 126, b"a" * 65535, b"b" * 65536, b"c" * MIB):
            for opcode in (TEXT, BINARY):
                sender = threading.Thread(target=c.send, args=(frame(opcode, payload),))
                sender.start()
                eq(c.read(), (opcode, payload))
                sender.join()
        c.send(frame(BINARY, bytes(range(256))))
        eq(c.read(), (BINARY, bytes(range(256))))
        c.send(frame(TEXT, "grüße €😀".encode()))
        eq(c.read()[1].decode(), "grüße €😀")
        c.send(b"".join(frame(TEXT, str(i).encode()) for i in range(5000)))  # many frames in one read
        for i in range(5000):
            eq(c.read(), (TEXT, str(i).encode()))
        c.send(frame(CLOSE, struct.pack(">H", 1000) + b"done"))
        eq(c.close_code(), 1000)
        ok(c.closed(), "still open")
        eq(server.until(lambda s: s["open"] == 1, "closed")["last_why"], 1000)


@test
def fragmented_messages_and_control_frames_are_accepted():
    with Server() as server, web_socket(server) as c:
        c.send(frame(TEXT, b"a", fin=False) + frame(PING, b"between") + frame(0, b"b", fin=False)
               + frame(0, b"", fin=False) + frame(0, b"c"))
        eq(c.read(), (PONG, b"between"))
        eq(c.read(), (TEXT, b"abc"))
        euro = "€".encode()
        c.send(frame(TEXT, euro[:1], fin=False) + frame(0, euro[1:]))  # a message that is split inside a character
        eq(c.read(), (TEXT, euro))
        data = frame(BINARY, b"slow")
        for i in range(len(data)):
            c.send(data[i:i + 1])
        eq(c.read(), (BINARY, b"slow"))
        c.send(frame(PONG, b"nobody asked") + frame(PING))
        eq(c.read(), (PONG, b""))
        c.send(frame(TEXT, b"bye"))
        eq(c.close_code(), 1000)
        c.send(frame(CLOSE, struct.pack(">H", 1000)))
        ok(c.closed(), "still open")


@test
def protocol_violations_close_the_websocket():
    cases = [
        (1002, frame(TEXT, b"a", mask=b""), "not masked"),
        (1002, frame(TEXT, b"a", rsv=4), "a reserved bit"),
        (1002, frame(3, b"a"), "a reserved opcode"),
        (1002, frame(11, b"a"), "a reserved control opcode"),
        (1002, frame(PING, b"a" * 126), "a long ping"),
        (1002, frame(PING, b"a", fin=False), "a ping in pieces"),
        (1002, frame(0, b"a"), "a continuation of nothing"),
        (1002, frame(TEXT, b"a", fin=False) + frame(TEXT, b"b"), "a message inside another"),
        (None, frame(CLOSE, b"a"), "half a code"),
        (1002, frame(CLOSE, struct.pack(">H", 1005)), "a code that is never sent"),
        (1007, frame(TEXT, b"\xff"), "not UTF-8"),
        (1007, frame(TEXT, b"\xc0\x80"), "an overlong NUL"),
        (1007, frame(TEXT, b"\xed\xa0\x80"), "a surrogate"),
        (1007, frame(TEXT, b"\xe2\x82"), "a character cut short"),
        (1009, frame(TEXT, b"a" * 1001), "1,001 bytes"),
        (1009, frame(TEXT, b"a" * 600, fin=False) + frame(0, b"a" * 600), "1,200 bytes in two"),
        (1002, b"\x82\xff" + b"\xff" * 8 + b"\0\0\0\0", "a length with its top bit set"),
        (1009, b"\x82\xff\x7f" + b"\xff" * 7 + b"\0\0\0\0", "a frame of 2^63 - 1 bytes"),
    ]
    with Server() as server:
        for code, data, what in cases:
            with web_socket(server, "/ws?max=1000") as c:
                c.send(frame(TEXT, b"fine"))
                eq(c.read(), (TEXT, b"fine"))
                c.send(data + frame(TEXT, b"more"))
                eq(c.close_code(), code, what)
                ok(c.closed(), f"{what}: still open")
        with web_socket(server, "/ws?max=1000") as c:
            c.send(frame(TEXT, b"a" * 1000))
            eq(c.read(), (TEXT, b"a" * 1000), "the longest")
        server.until(lambda s: s["open"] == 1 and s["connections"] == 1, "all closed")


@test
def silent_websockets_are_probed():
    with Server() as server:
        with web_socket(server, "/ws?ping=100") as c:
            for _ in range(3):
                eq(c.read(), (PING, b""))
                c.send(frame(PONG))
            eq(c.read(), (PING, b""))
            ok(c.closed(), "a dead one is kept")
        eq(server.until(lambda s: s["open"] == 1, "gone")["last_why"], 1006)


@test
def websockets_have_back_pressure():
    with Server() as server:
        before = server.rss()
        with web_socket(server) as c:  # a client that reads neither its echo nor its pongs
            data = frame(BINARY, b"x" * 60000) + frame(PING, b"p" * 100) * 50
            c.sock.settimeout(0.5)
            try:
                while True:
                    c.sock.send(data)
            except TimeoutError:
                pass
            ok(server.sanitized() or server.rss() - before < 8 * MIB, "memory grew")
        with web_socket(server, "/ws?pause=10") as c:  # messages wait while it pauses
            got = server.stats()["received"]
            c.send(b"".join(frame(TEXT, str(i).encode()) for i in range(50)))
            eq(c.read(), (TEXT, b"0"))
            ok(server.stats()["received"] - got < 40, "no pause took effect")
            for i in range(1, 50):
                eq(c.read(), (TEXT, str(i).encode()))
        server.until(lambda s: s["open"] == 1, "all closed")


@test
def the_websockets_package_works_as_a_client():
    if subprocess.run([PYTHON, "-c", "import websockets"], capture_output=True, check=False).returncode:
        raise Skip("python3-websockets is not installed")
    with Server() as server:
        subprocess.run([PYTHON, "-c", TALK, f"ws://127.0.0.1:{server.port}/ws", str(WAIT)], check=True,
                       capture_output=True, timeout=4 * WAIT)
        eq(server.until(lambda s: s["open"] == 1, "closed")["last_why"], 1000)


# --------------------------------------------------------------------- proxy

class Upstream:
    """A server that reads and records a head, and then calls @act."""

    def __init__(self, act):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.act, self.heads = self.listener.getsockname()[1], act, []
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                with Client(self.listener.accept()[0]) as c, contextlib.suppress(EOFError, OSError):
                    self.heads.append(c.until(b"\r\n\r\n").decode())
                    self.act(c)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


def says(data):
    return lambda c: c.send(data)


@test
def requests_are_forwarded_by_the_proxy():
    def act(c):
        n = int(upstream.heads[-1].lower().partition("content-length: ")[2].split("\r")[0] or 0)
        body = c.take(n) if n else c.chunks() if "chunked" in upstream.heads[-1] else b""
        c.send(b"HTTP/1.1 201 Made\r\nX-Up: yes\r\nConnection: X-Hop\r\nX-Hop: no\r\nKeep-Alive: 3\r\n"
               b"Content-Length: %d\r\n\r\n" % len(body) + body)
    with Server() as server, Upstream(act) as upstream, server.connect() as c:
        for headers, data, body in (((), b"", b""), ((), b"", b"abc"),
                                    (("Transfer-Encoding: chunked",), b"3\r\nabc\r\n0\r\n\r\n", b"")):
            c.send("\r\n".join([
                f"PUT /proxy/{upstream.port}/a%20b?c=d HTTP/1.1", "Host: name:1", "X-Mine: 1",
                "Connection: x-secret", "X-Secret: 1", "Keep-Alive: 5", "TE: trailers",
                "X-Forwarded-For: 6.6.6.6", "Proxy-Authorization: x", *headers,
                *([f"Content-Length: {len(body)}"] if body else [])]).encode() + b"\r\n\r\n" + data + body)
            reply = c.answer()
            eq((reply.status, reply.body, reply.headers["x-up"]), (201, body or (b"abc" if data else b""), "yes"))
            ok("x-hop" not in reply.headers and "keep-alive" not in reply.headers, reply.headers)
            head = upstream.heads[-1].split("\r\n")
            eq(head[0], "PUT /a%20b?c=d HTTP/1.1")
            for line in ("Host: name:1", "X-Mine: 1", "X-Forwarded-For: 127.0.0.1",
                         "X-Forwarded-Proto: http", "X-Forwarded-Host: name:1", "Connection: close"):
                ok(head.count(line) == 1, f"{line} in {head}")
            names = [line.partition(":")[0].lower() for line in head[1:]]
            eq(len(names), len(set(names)), f"no name twice in {head}")
            for name in ("x-secret", "keep-alive", "te", "proxy-authorization"):
                ok(name not in names, f"{name} in {head}")


@test
def responses_with_every_framing_are_forwarded():
    cases = [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, b"abc"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;x\r\nbc\r\n0\r\nT: u\r\n\r\n",
         200, b"abc"),
        (b"HTTP/1.1 200 OK\r\n\r\nabc", 200, b"abc"),
        (b"HTTP/1.0 404 No\r\n\r\n", 404, b""),
        (b"HTTP/1.1 204 None\r\nContent-Length: 3\r\n\r\nabc", 204, b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nX: y\r\n\r\n"
         b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, b"abc"),
        (b"HTTP/1.1 103 Hints\r\n\r\n" * 64 + b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, b"abc"),
        (b"HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\n\r\nnot yours", 200, b"abc"),
    ]
    with Server() as server, server.connect() as c:
        for data, status, body in cases:
            with Upstream(says(data)) as upstream:
                reply = c.ask("GET", f"/proxy/{upstream.port}/")
                eq((reply.status, reply.body), (status, body), data)
                eq(c.ask("HEAD", f"/proxy/{upstream.port}/").status, status, "HEAD")
                eq(c.ask("GET", "/hello").body, b"hello\n", "what comes behind it")


@test
def hostile_responses_are_refused():
    good = b"HTTP/1.1 200 OK\r\n"
    cases = [
        b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\n\n", b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 999 OK\r\n\r\n", b"HTTP/1.1 20 OK\r\n\r\n", b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 O\x00K\r\n\r\n", b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
        good + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        good + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        good + b"Content-Length: -1\r\n\r\n", good + b"X: a\rY: b\r\n\r\n",
        good + b"X: a\nY: b\r\n\r\n", good + b"X : a\r\n\r\n", good + b"X: a\r\n b\r\n\r\n",
        good + b"X: a\x00b\r\n\r\n", good + b"Transfer-Encoding: gzip\r\n\r\n",
        good + b"X: " + b"a" * 100000 + b"\r\n\r\n", good + b"X: y\r\n" * 300 + b"\r\n",
        good, good + b"X: never ends", b"HTTP/1.1 103 Hints\r\n\r\n" * 65 + good + b"Content-Length: 0\r\n\r\n",
    ]
    silent = (b"", good, good + b"X: never ends")
    with Server() as server, server.connect() as c:
        for data in cases:
            with Upstream(says(data)) as upstream:
                reply = c.ask("GET", f"/proxy/{upstream.port}/")
                eq((reply.status, reply.json()["code"]),
                   (502, "bad_gateway" if data not in silent else "port_closed"), data[:80])
                eq(c.ask("GET", "/hello").body, b"hello\n", "what comes behind it")
        for data in (b"Content-Length: 9\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
                     b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nxyz\r\n"):
            with Upstream(says(good + data)) as upstream, server.connect() as d:
                d.send(f"GET /proxy/{upstream.port}/ HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                try:  # a partial response cannot be withdrawn, but must not look complete
                    reply = d.answer()
                    raise AssertionError(f"{data}: {reply.body}")
                except EOFError:
                    pass
        eq(c.ask("GET", "/proxy/1/").status, 502, "nothing listens")
        with Upstream(lambda c: c.rest()) as upstream:
            eq(c.ask("GET", f"/proxy/{upstream.port}/?ms=300").status, 504, "no answer")
        def reset(c):
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        with Upstream(reset) as upstream:
            eq(c.ask("GET", f"/proxy/{upstream.port}/").status, 502, "a reset")


@test
def proxied_data_has_back_pressure():
    def pour(c):
        c.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            c.send(b"x" * MIB)
    def swallow(c):
        time.sleep(1)
    def count(c):
        n = 200 * MIB
        got = hashlib.sha256()
        while n > 0:
            if not c.buffer:
                c.more()
            got.update(c.buffer)
            n -= len(c.buffer)
            c.buffer = b""
        c.send(b"HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n" + got.hexdigest().encode())
    with Server() as server:
        before = server.rss()
        with Upstream(pour) as upstream, server.connect() as c:
            c.send(f"GET /proxy/{upstream.port}/ HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            c.until(b"\r\n\r\n")
            time.sleep(0.5)
            ok(server.sanitized() or server.rss() - before < 6 * MIB, "memory grew down")
            c.sock.close()
        with Upstream(swallow) as upstream, server.connect() as c:
            c.send(f"PUT /proxy/{upstream.port}/ HTTP/1.1\r\nHost: a\r\n"
                   f"Content-Length: 9999999999\r\n\r\n".encode())
            c.sock.settimeout(0.5)
            with contextlib.suppress(TimeoutError, ConnectionError):
                while True:
                    c.sock.send(b"x" * MIB)
            ok(server.sanitized() or server.rss() - before < 6 * MIB, "memory grew up")
        with Upstream(count) as upstream, server.connect() as c:
            c.send(f"PUT /proxy/{upstream.port}/ HTTP/1.1\r\nHost: a\r\n"
                   f"Content-Length: {200 * MIB}\r\n\r\n".encode())
            want = hashlib.sha256()
            for _ in range(200):
                c.send(b"y" * MIB)
                want.update(b"y" * MIB)
            eq(c.answer().body.decode(), want.hexdigest(), "200 MiB")
        server.until(lambda s: s["open"] == 1, "over")


@test
def a_disconnecting_client_ends_the_upstream_connection():
    ended = threading.Event()
    def act(c):
        c.send(b"HTTP/1.1 200 OK\r\n\r\nfirst")
        c.rest()
        ended.set()
    with Server("--half-close-ms", 200) as server, Upstream(act) as upstream:
        with server.connect() as c:
            c.send(f"GET /proxy/{upstream.port}/ HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            c.until(b"first")
        ok(ended.wait(WAIT), "the server behind goes on")


@test
def a_python_http_server_works_behind_the_proxy():
    folder = os.path.join(work.name, "www")
    os.mkdir(folder)
    data = os.urandom(3 * MIB)
    with open(os.path.join(folder, "file"), "wb") as f:
        f.write(data)
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=folder)
        def log_message(self, *_):
            pass
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as up, Server() as server:
        thread = threading.Thread(target=up.serve_forever)
        thread.start()
        try:
            with server.connect() as c:
                where = f"/proxy/{up.server_address[1]}"
                ok(c.ask("GET", where + "/file").body == data, "other bytes")
                eq(c.ask("HEAD", where + "/file").headers["content-length"], str(len(data)))
                eq(c.ask("GET", where + "/none").status, 404)
                ok(b"file" in c.ask("GET", where + "/").body, "listing")
                eq(c.ask("POST", where + "/file", body=b"x" * 1000).status, 501)
        finally:
            up.shutdown()
            thread.join()


@test
def a_response_sent_before_a_reset_is_delivered():
    def act(c):
        c.send(b"HTTP/1.1 413 No\r\nContent-Length: 3\r\n\r\nbig")
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    with Server() as server, Upstream(act) as upstream, server.connect() as c:
        for _ in range(50):
            reply = c.ask("POST", f"/proxy/{upstream.port}/", body=b"x" * 1000)
            eq((reply.status, reply.body), (413, b"big"))


@test
def upgrades_are_forwarded():
    def act(c):
        ok("Upgrade: websocket" in upstream.heads[-1], "no Upgrade")
        key = upstream.heads[-1].partition("Sec-WebSocket-Key: ")[2].split("\r")[0]
        digest = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        c.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
               b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\nearly")
        while True:
            if not c.buffer:
                c.more()
            c.send(c.buffer)
            c.buffer = b""
    with Server() as server, Upstream(act) as upstream:
        with web_socket(server, f"/proxy/{upstream.port}/") as c:
            eq(c.take(5), b"early")
            data = os.urandom(5 * MIB)
            sender = threading.Thread(target=c.send, args=(data,))
            sender.start()
            ok(c.take(len(data)) == data, "other bytes came back")
            sender.join()
            c.sock.shutdown(socket.SHUT_WR)
            eq(c.rest(), b"", "the end passes through, both ways")
        server.until(lambda s: s["open"] == 1, "over")
        with web_socket(server, f"/proxy/{upstream.port}/") as c:
            eq(c.take(5), b"early")
        server.until(lambda s: s["open"] == 1, "over")
    with Server() as server:  # the server is its own proxy
        with web_socket(server, f"/proxy/{server.port}/ws") as c:
            c.send(frame(TEXT, b"around the corner"))
            eq(c.read(), (TEXT, b"around the corner"))
            c.send(frame(CLOSE, struct.pack(">H", 1000)))
            eq(c.close_code(), 1000)
            ok(c.closed(), "still open")


if __name__ == "__main__":
    main()
