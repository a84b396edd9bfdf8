#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-ports.py - servers in a sandbox are reached by path and by host name, and are not trusted"""
import base64
import http.client
import json
import re
import socket
import struct
import sys
import threading
import time
import zlib
import os

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_socket import BINARY, CLOSE, Refused, Socket, TEXT  # pylint: disable=wrong-import-position
from serve_world import World, check_error, until  # pylint: disable=wrong-import-position

DOMAIN = "boxes.test"

# Headers that a browser applies to the whole host.
HOST_WIDE = {"Set-Cookie": "a=b; Path=/", "Strict-Transport-Security": "max-age=31536000", "Clear-Site-Data": '"cookies"',
             "Alt-Svc": 'h3=":443"', "Service-Worker-Allowed": "/"}

# The server that runs inside, with python3 of the image "host". It answers with the request.
SERVER = f"HOST_WIDE = {HOST_WIDE!r}" + r'''
import base64, hashlib, http.server, json, socketserver, struct, sys

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while True:
                n = int(self.rfile.readline(), 16)
                data += self.rfile.read(n)
                self.rfile.readline()
                if n == 0:
                    return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def echo_socket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        while True:
            head = self.rfile.read(2)
            if len(head) < 2:
                break
            n = head[1] & 127
            if n == 126:
                n = struct.unpack(">H", self.rfile.read(2))[0]
            mask, data = self.rfile.read(4), self.rfile.read(n)
            data = bytes(c ^ mask[i % 4] for i, c in enumerate(data))
            self.wfile.write(bytes([head[0]]) + (bytes([n]) if n < 126 else b"\x7e" + struct.pack(">H", n)) + data)
            if head[0] & 15 == 8:
                break
        self.close_connection = True

    def answer(self):
        if self.headers.get("Upgrade") == "websocket":
            return self.echo_socket()
        seen = {"method": self.command, "target": self.path, "body": self.body().decode(),
                "headers": [[k.lower(), v] for k, v in self.headers.items()]}
        data = json.dumps(seen).encode()
        self.send_response({"/odd": 299, "/busy": 503}.get(self.path, 200))
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Inside", "yes")
        for name, value in HOST_WIDE.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_HEAD = do_BREW = answer

class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
'''

# A server that sends one fixed answer to any request, and disconnects.
LIAR = r'''
import base64, socket, sys, zlib
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1])))
s.listen()
while True:
    c = s.accept()[0]
    c.recv(65536)
    try:
        c.sendall(zlib.decompress(base64.b64decode(sys.argv[2])))
    except OSError:
        pass
    c.close()
'''


# A server that sends first, in binary, echoes its input, and at the end sends the number of bytes.
BYTES = r'''
import socketserver, struct, sys

class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"\x00hello\xff\r\n")
        n = 0
        while data := self.request.recv(65536):
            n += len(data)
            self.request.sendall(data)
        self.request.sendall(b"end" + struct.pack(">Q", n))

class Server(socketserver.ThreadingTCPServer):
    daemon_threads, allow_reuse_address, request_queue_size = True, True, 100

Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
'''


class Ports:
    """One service and one sandbox for all tests, created on first use."""

    def __init__(self):
        self.world = World("--domain", DOMAIN, tcp=True)
        self.box = self.world.create(image="host")
        self.admin = self.world.token("admin")
        self.serve(8000, SERVER)

    def serve(self, port, program, *args):
        self.world.exec(self.box, ["python3", "-c", program, str(port), *args])
        until(lambda: self.ask("GET", port, "/").status != 502 or self.listens(port), f"nothing at port {port}")

    def listens(self, port):
        found = self.world.run(self.box, f"grep -c ':{port:04X} 00000000:0000 0A' /proc/net/tcp")["stdout"]
        return found.strip() not in ("", "0")

    def path(self, port, rest):
        return f"/v1/sandboxes/{self.box}/ports/{port}{rest}"

    def host(self, port, box=None):
        return f"{port}-{box or self.box}.{DOMAIN}"

    def ask(self, method, port, rest, body=None, **kw):
        return self.world.ask(method, self.path(port, rest), body, **kw)


ports = None


def headers_of(reply, name):
    return [v for k, v in reply.json()["headers"] if k == name]


@test
def requests_are_forwarded_by_path():
    r = ports.ask("GET", 8000, "/a/b%20c?x=1&x=2&y=%2F")
    eq(r.status, 200)
    eq(r.json()["target"], "/a/b%20c?x=1&x=2&y=%2F", "target")
    eq(r.headers["x-inside"], "yes", "a header of the answer")
    eq(headers_of(r, "host"), ["localhost:8000"], "Host")
    eq(ports.ask("GET", 8000, "").json()["target"], "/", "an empty path")
    eq(ports.ask("GET", 8000, "/a//../%2e%2e/x").json()["target"], "/a//../%2e%2e/x", "a path as it is")
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        r = ports.ask(method, 8000, "/m", b"some bytes", headers={"Content-Type": "text/x"})
        eq((r.json()["method"], r.json()["body"]), (method, "some bytes"), method)
    r = ports.ask("HEAD", 8000, "/")
    eq((r.status, r.body), (200, b""), "HEAD")
    eq(ports.ask("GET", 8000, "/odd").status, 299, "a status of the server's own")
    r = ports.ask("GET", 8000, "/busy")
    eq((r.status, r.headers.get("x-inside"), r.headers.get("retry-after")), (503, "yes", None), "what is not said inside")
    chunks = iter([b"one ", b"two ", b"x" * 100000])
    eq(ports.ask("POST", 8000, "/", chunks).json()["body"], "one two " + "x" * 100000, "a chunked body")


@test
def pages_served_by_path_are_restricted_by_a_csp():
    ok("sandbox" in ports.ask("GET", 8000, "/").headers["content-security-policy"], "no CSP by path")
    r = by_host("GET", "/")
    ok("content-security-policy" not in r.headers, "a CSP by host name")


def by_host(method, target, token=None, host=None, tcp=True, **kw):
    headers = {"Host": host or ports.host(8000), **kw.pop("headers", {})}
    return ports.world.ask(method, target, token=token or (ports.admin if tcp else None), tcp=tcp, headers=headers,
                           **kw)


@test
def requests_are_forwarded_by_host_name():
    for tcp in (True, False):
        r = by_host("GET", "/v1/sandboxes?x=1", tcp=tcp)
        eq((r.status, r.json()["target"]), (200, "/v1/sandboxes?x=1"), "a path that is one of the API's, too")
        eq(headers_of(r, "host"), [ports.host(8000)], "Host")
    eq(by_host("GET", "/", host=ports.host(8000).upper() + ":1234").status, 200, "in capitals, with a port")
    # Other names that look similar belong to the API.
    for name in (f"8000-{ports.box}x.{DOMAIN}", f"08000-{ports.box}.{DOMAIN}", f"8000-{ports.box}.a.{DOMAIN}",
                 f"70000-{ports.box}.{DOMAIN}", DOMAIN):
        eq(ports.world.ask("GET", "/version", headers={"Host": name}).json()["api"], "v1", name)
    check_error(by_host("GET", "/", host=ports.host(8000, "0" * 12)), 404, "sandbox_not_found")


@test
def host_wide_headers_are_forwarded_only_by_host_name():
    """By path, the host is that of the API and of all other sandboxes."""
    by_path, by_name = ports.ask("GET", 8000, "/x"), by_host("GET", "/x")
    eq((by_path.headers["x-inside"], by_name.headers["x-inside"]), ("yes", "yes"), "a header of the server's own")
    for name, value in HOST_WIDE.items():
        ok(name.lower() not in by_path.headers, f"{name} by path: {by_path.headers}")
        eq(by_name.headers.get(name.lower()), value, f"{name} by host name")


@test
def requests_for_other_apis_are_forwarded_by_host_name():
    for path, headers in (("/is_alive", {}), ("/execute", {}), ("/", {"X-API-Key": "mine"}),
                          (f"/swerex/{ports.box}/is_alive", {"X-API-Key": ports.admin})):
        r = by_host("GET", path, headers=headers)
        eq((r.status, r.json()["target"]), (200, path), f"{path} {headers}")
        eq(headers_of(r, "x-api-key"), [v for v in headers.values() if v != ports.admin], f"{path} {headers}")
    # With the service's own host name, the SWE-ReX API gets the header.
    r = ports.world.ask("GET", f"/swerex/{ports.box}/is_alive", tcp=True, headers={"X-API-Key": ports.admin})
    eq((r.status, r.json()["is_alive"]), (200, True), "the face itself")


@test
def a_client_without_a_token_cannot_connect():
    w = ports.world
    for headers in ({}, {"Host": ports.host(8000)}):
        path = "/" if headers else ports.path(8000, "/")
        check_error(w.ask("GET", path, tcp=True, headers=headers), 401, "unauthorized")
        check_error(w.ask("GET", path, tcp=True, token=w.token("read"), headers=headers), 403, "forbidden")
        eq(w.ask("GET", path, tcp=True, token=w.token("exec"), headers=headers).status, 200, "with the scope")
        other = w.token("exec", tenant="other")
        check_error(w.ask("GET", path, tcp=True, token=other, headers=headers), 404, "sandbox_not_found")
    # A page of another origin.
    r = by_host("GET", "/", headers={"Origin": "http://evil.test"})
    check_error(r, 403, "forbidden")
    eq(by_host("GET", "/", headers={"Origin": "http://" + ports.host(8000)}).status, 200, "its own page")


@test
def tokens_are_not_forwarded_to_the_sandbox():
    r = ports.ask("GET", 8000, "/", token=ports.admin, tcp=True, headers={"X-Api-Key": "mine"})
    eq(headers_of(r, "authorization"), [], "Authorization inside")
    eq(headers_of(r, "x-api-key"), ["mine"], "another header")
    r = ports.ask("GET", 8000, "/", token=ports.admin, tcp=True, headers={"X-Api-Key": ports.admin})
    eq((r.status, headers_of(r, "x-api-key")), (200, []), "a token where clients of SWE-ReX have it")
    r = ports.ask("GET", 8000, "/", token=ports.admin)
    eq(headers_of(r, "authorization"), [], "Authorization by the unix socket")
    # Without a token of Warren, the header is for the server.
    r = ports.ask("GET", 8000, "/", headers={"Authorization": "Basic eDp5"})
    eq(headers_of(r, "authorization"), ["Basic eDp5"], "an authorization that is not for us")
    check_error(ports.ask("GET", 8000, "/", tcp=True, headers={"Authorization": "Basic eDp5"}), 401, "unauthorized")


@test
def forged_forwarding_headers_are_replaced():
    r = ports.ask("GET", 8000, "/", headers={"X-Forwarded-For": "1.2.3.4", "Forwarded": "for=1.2.3.4"})
    eq(headers_of(r, "x-forwarded-for"), ["unix"], "X-Forwarded-For")
    eq(headers_of(r, "forwarded"), [], "Forwarded")


@test
def websockets_are_forwarded():
    w = ports.world
    for kw in ({"path": ports.path(8000, "/ws")}, {"path": "/ws", "host": ports.host(8000)}):
        with Socket(w.socket, **kw) as s:
            for n in (0, 5, 125, 126, 60000):
                s.send(BINARY, b"x" * n)
                eq(s.read(), (BINARY, b"x" * n), f"{n} bytes")
            s.send(TEXT, "grüße".encode())
            eq(s.read(), (TEXT, "grüße".encode()), "text")
            s.send(CLOSE, b"\x03\xe8")
            eq(s.read()[0], CLOSE, "its goodbye")
    try:
        Socket(("127.0.0.1", w.port), ports.path(8000, "/ws"), host=f"127.0.0.1:{w.port}")
        raise AssertionError("without a token")
    except Refused as e:
        eq(e.status, 401)


def tunnel(port, path=None, headers="Upgrade: tcp\r\nConnection: Upgrade\r\n", token=None, tcp=False):
    """Returns the upgraded connection and the head of the answer."""
    if tcp:
        s = socket.create_connection(("127.0.0.1", ports.world.port), timeout=60)
    else:
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(60)
        s.connect(ports.world.socket)
    if token:
        headers += f"Authorization: Bearer {token}\r\n"
    path = path or f"/v1/sandboxes/{ports.box}/tunnels/{port}"
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += s.recv(1) or b"\r\n\r\n"
    return s, head.decode()


def all_of(s):
    return b"".join(iter(lambda: s.recv(65536), b""))


@test
def any_bytes_go_through_a_tunnel():
    ports.world.exec(ports.box, ["python3", "-c", BYTES, "9000"])
    until(lambda: ports.listens(9000), "it does not listen")
    everything = bytes(range(256)) * 4096
    for how in ({}, {"tcp": True, "token": ports.admin}):
        s, head = tunnel(9000, **how)
        with s:
            ok(head.startswith("HTTP/1.1 101 ") and "\r\nUpgrade: tcp\r\n" in head, f"{how}: {head}")
            eq(s.recv(9, socket.MSG_WAITALL), b"\0hello\xff\r\n", "the server speaks first")
            s.sendall(b"GET / HTTP/1.1\r\n\r\n")
            eq(s.recv(18, socket.MSG_WAITALL), b"GET / HTTP/1.1\r\n\r\n", "what looks like a request is none")
            sender = threading.Thread(target=lambda: (s.sendall(everything), s.shutdown(socket.SHUT_WR)))
            sender.start()
            got = all_of(s)
            sender.join()
            ok(got[:-11] == everything, f"{len(got)} bytes came back, others than were sent")
            eq(got[-11:], b"end" + struct.pack(">Q", len(everything) + 18), "after the end of our half")


@test
def tunnels_need_permission_and_an_upgrade():
    may = ports.world.token("exec")
    for path, headers, token, status, code in (
            (None, "Upgrade: tcp\r\nConnection: Upgrade\r\n", may, 101, None),
            (None, "", may, 426, "upgrade_required"),
            (None, "Upgrade: websocket\r\nConnection: Upgrade\r\n", may, 426, "upgrade_required"),
            (None, "Upgrade: tcp\r\n", may, 426, "upgrade_required"),
            (None, "Upgrade: tcp\r\nConnection: Upgrade\r\n", None, 401, "unauthorized"),
            (None, "Upgrade: tcp\r\nConnection: Upgrade\r\n", ports.world.token("read"), 403, "forbidden"),
            (f"/v1/sandboxes/{ports.box}/tunnels/9", "Upgrade: tcp\r\nConnection: Upgrade\r\n", may, 502,
             "port_closed"),
            (f"/v1/sandboxes/{ports.box}/tunnels/0", "Upgrade: tcp\r\nConnection: Upgrade\r\n", may, 404, "not_found"),
            ("/v1/sandboxes/zzzzzzzzzzzz/tunnels/8000", "Upgrade: tcp\r\nConnection: Upgrade\r\n", may, 404,
             "sandbox_not_found")):
        s, head = tunnel(8000, path, headers, token, tcp=True)
        with s:
            eq(head.split(" ")[1], str(status), f"{path} with {headers!r}")
            if status == 426:
                ok("\r\nUpgrade: tcp\r\n" in head, f"what to ask for is not said: {head}")
            if code:
                length = int(re.search(r"Content-Length: (\d+)", head)[1])
                eq(json.loads(s.recv(length, socket.MSG_WAITALL))["code"], code, f"{path} with {headers!r}")


@test
def a_tunnel_ends_with_its_sandbox():
    w = ports.world
    box = w.create(image="host")
    w.exec(box, ["python3", "-c", BYTES, "9000"])
    path = f"/v1/sandboxes/{box}/tunnels/9000"

    def opened():
        s, head = tunnel(9000, path)
        if " 101 " in head:
            return s
        s.close()
        return None
    with until(opened, "it does not listen") as s:
        eq(s.recv(9, socket.MSG_WAITALL), b"\0hello\xff\r\n")
        w.delete(box)
        try:
            eq(all_of(s), b"", "the rest")
        except ConnectionError:
            pass


@test
def closed_ports_are_reported():
    check_error(ports.ask("GET", 9, "/"), 502, "port_closed")
    check_error(by_host("GET", "/", host=ports.host(9)), 502, "port_closed")
    for bad in ("0", "65536", "-1", "x", "8000x"):
        check_error(ports.ask("GET", bad, "/"), 404, "not_found")
    box = ports.world.create(image="host", network="none")
    check_error(ports.world.ask("GET", f"/v1/sandboxes/{box}/ports/8000/"), 502, "port_closed")
    ports.world.delete(box)


def lie(answer, port=[8100]):
    port[0] += 1
    ports.serve(port[0], LIAR, base64.b64encode(zlib.compress(answer.encode())).decode())
    return ports.ask("GET", port[0], "/")


@test
def responses_of_hostile_servers_become_a_502():
    head = "HTTP/1.1 200 OK\r\n"
    eq(lie(head + "Content-Length: 2\r\n\r\nok").body, b"ok", "an honest one")
    check_error(lie(""), 502, "port_closed")
    for answer in ("SSH-2.0-OpenSSH_9\r\n\r\n", head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
                   head + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
                   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
                   head + "A: " + "x" * 100000 + "\r\n\r\n", "HTTP/1.1 999999 OK\r\n\r\n",
                   head + "X: a\x00b\r\n\r\n"):
        r = lie(answer)
        eq((r.status, r.json()["code"]), (502, "bad_gateway"), f"answer to {answer[:60]!r}")
    # A truncated answer: the client must notice it.
    try:
        lie(head + "Content-Length: 100\r\n\r\nshort")
        raise AssertionError("a short answer looks whole")
    except (http.client.IncompleteRead, ConnectionError):
        pass
    eq(ports.ask("GET", 8000, "/").status, 200, "others after that")


@test
def a_slow_or_silent_server_does_not_block_other_clients():
    silent = ("import socket,time\ns=socket.socket()\ns.bind(('127.0.0.1',8200))\ns.listen(50)\nk=[]\n"
              "while True: k.append(s.accept())")
    ports.world.exec(ports.box, ["python3", "-c", silent])
    until(lambda: ports.listens(8200), "it does not listen")
    waiting = []
    for _ in range(20):
        s = socket.socket(socket.AF_UNIX)
        s.connect(ports.world.socket)
        s.sendall(f"GET {ports.path(8200, '/')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        waiting.append(s)
    begun = time.monotonic()
    eq(ports.ask("GET", 8000, "/").status, 200, "another port")
    eq(ports.world.run(ports.box, "echo hi")["stdout"], "hi\n", "a command")
    ok(time.monotonic() - begun < 20, "others wait")
    for s in waiting:
        s.close()


@test
def a_flood_waits_for_its_reader():
    flood = ("import socket\ns=socket.socket()\ns.bind(('127.0.0.1',8300))\ns.listen()\nwhile True:\n"
             " c=s.accept()[0]\n c.recv(9999)\n c.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n')\n"
             " try:\n  while True: c.sendall(b'y'*65536)\n except OSError: pass")
    ports.world.exec(ports.box, ["python3", "-c", flood])
    until(lambda: ports.listens(8300), "it does not listen")
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(ports.world.socket)
        s.sendall(f"GET {ports.path(8300, '/')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        ok(b"200" in s.recv(100), "no answer")
        def memory():
            with open(f"/proc/{ports.world.api}/status") as f:
                return [int(l.split()[1]) for l in f if l.startswith("VmRSS")][0]
        before = memory()
        time.sleep(1)
        ok(memory() - before < 4096, f"it grows from {before} to {memory()} kB")
        got = 0
        while got < 50 << 20:
            got += len(s.recv(1 << 20))


@test
def a_deleted_sandbox_ends_its_connections():
    w = ports.world
    box = w.create(image="host")
    w.exec(box, ["python3", "-c", SERVER, "8000"])
    path = f"/v1/sandboxes/{box}/ports/8000/ws"
    until(lambda: w.ask("GET", path).status == 200, "it does not listen")
    with Socket(w.socket, path) as s:
        s.send(TEXT, b"hi")
        eq(s.read(), (TEXT, b"hi"))
        w.delete(box)
        try:
            s.read()
            raise AssertionError("it goes on")
        except (EOFError, ConnectionError):
            pass
    check_error(w.ask("GET", path), 404, "sandbox_not_found")


@test
def a_connection_keeps_its_sandbox_awake_and_a_request_wakes_it():
    w = ports.world
    box = w.create(image="host", idle_timeout_ms=1000, on_idle="pause")
    # The server is not an exec of the service, so that only connections count.
    w.run(box, ["sh", "-c", 'setsid python3 -c "$0" 8000 >/dev/null 2>&1 </dev/null &', SERVER])
    path = f"/v1/sandboxes/{box}/ports/8000/ws"
    until(lambda: w.ask("GET", path).status == 200, "it does not listen")
    with Socket(w.socket, path) as s:
        time.sleep(2.5)
        eq(w.show(box)["state"], "running", "state while somebody is connected")
        s.send(TEXT, b"hi")
        eq(s.read(), (TEXT, b"hi"))
    until(lambda: w.show(box)["state"] == "paused", "it is not paused")
    eq(w.ask("GET", path).status, 200, "a request to a sandbox that sleeps")
    eq(w.show(box)["state"], "running", "state after it")
    w.delete(box)


@test
def requests_are_in_the_log():
    w = ports.world
    w.ask("POST", f"/v1/sandboxes/{ports.box}/run?secret=1", {"command": "true"}, tcp=True, token=ports.admin)
    r = w.ask("POST", f"/v1/sandboxes/{ports.box}/run", {"command": "true"}, tcp=True, token=ports.admin)
    said = until(lambda: (t := open(w.log_path).read()) and r.headers["x-request-id"] in t and t, "no line")
    line = [l for l in said.splitlines() if r.headers["x-request-id"] in l][0]
    for word in ("method=POST", f"path=/v1/sandboxes/{ports.box}/run ", "status=200", "usec=", "tenant="):
        ok(word in line, f"no {word} in {line!r}")
    ok("secret" not in said and ports.admin not in said, "the log tells secrets")


def main():
    global ports  # pylint: disable=global-statement
    try:
        ports = Ports()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0
    with ports.world:
        return run_tests()


if __name__ == "__main__":
    sys.exit(main())
