#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-client-hosts.py - ports, tokens, TLS, and a socket that systemd opened"""
import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, test, ok, eq, noise, scratch, BUILD, WARREN  # pylint: disable=wrong-import-position
from client_world import w, environ, call, call_json, start, sandbox, main  # pylint: disable=wrong-import-position
from serve_world import below, until  # pylint: disable=wrong-import-position


# ---------------------------------------------------------------- ports, tokens, hosts


@test
def a_port_of_a_sandbox_can_be_forwarded():
    with sandbox() as box:
        r = w().ask("GET", f"/v1/sandboxes/{box}/ports/8080/")
        if r.status == 501:
            raise Skip("the service has no ports")
        eq(call("port", box, "8080"), f"unix:{w().socket} /v1/sandboxes/{box}/ports/8080/\n".encode())
        eq(call_json("port", "--json", box, "8080")["path"], f"/v1/sandboxes/{box}/ports/8080")
        call("exec", "-d", box, "sh", "-c", "mkdir /tmp/w; cd /tmp/w; echo page > index.html; "
             "exec python3 -m http.server 8080")
        call("exec", box, "sh", "-c", "until grep -q :1F90 /proc/net/tcp; do sleep .05; done")
        with forwarded(box, 8080) as port:
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            c.request("GET", "/index.html", headers={"Origin": "http://elsewhere.example"})
            eq(c.getresponse().read(), b"page\n")
            c.close()


# A server with its own protocol: it sends first, echoes its input, and at the end sends the number of bytes. "flood"
# makes it send 16 MB while it reads as much, without waiting for either.
PEER = r'''
import socketserver, struct, threading

class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        s, n = self.request, 0
        s.sendall(b"\x00\xffhello")
        first = s.recv(5, 256)
        if first == b"flood":
            sender = threading.Thread(target=s.sendall, args=(b"x" * (16 << 20),))
            sender.start()
            while data := s.recv(65536):
                n += len(data)
            sender.join()
        else:
            s.sendall(first)
            n = len(first)
            while data := s.recv(65536):
                n += len(data)
                s.sendall(data)
        s.sendall(b"end" + struct.pack(">Q", n))

class Server(socketserver.ThreadingTCPServer):
    daemon_threads, allow_reuse_address, request_queue_size = True, True, 100

Server(("127.0.0.1", 9000), Handler).serve_forever()
'''

# An HTTP/1.1 server with persistent connections that answers with the request.
SHIM = r'''
import http.server

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        said = self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

http.server.ThreadingHTTPServer(("127.0.0.1", 9001), Handler).serve_forever()
'''


@contextlib.contextmanager
def forwarded(box, port, env=None):
    """Runs warren port --listen while the block runs; yields the address it listens on."""
    p = start("port", box, str(port), "--listen", "127.0.0.1:0", "--json", env=env)
    try:
        where = json.loads(p.stdout.readline())
        eq((where["address"], where["sandbox_id"], where["sandbox_port"]), ("127.0.0.1", box, port))
        yield where["port"]
        eq(p.poll(), None, "it goes on until it is told")
    finally:
        p.terminate()
        eq(p.wait(20), -signal.SIGTERM)
        p.stdout.close()
        p.stderr.close()
    until(lambda: not any(b"port" in open(f"/proc/{q}/cmdline", "rb").read().split(b"\0")[1:2]
                          for q in below(os.getpid()) if os.path.exists(f"/proc/{q}/cmdline")),
          "its processes go with it")


def dialogue(port, data, flood=False):
    """Sends all of @data, and then returns everything that the peer sends."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        if flood:
            s.sendall(b"flood")
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: s.recv(65536), b""))


@test
def a_forwarded_port_carries_any_bytes():
    with sandbox() as box:
        call("exec", "-d", box, "python3", "-c", PEER)
        call("exec", "-d", box, "python3", "-c", SHIM)
        call("exec", box, "sh", "-c",
             "for p in 2328 2329; do until grep -q :$p /proc/net/tcp; do sleep .05; done; done")
        token = call("token", "create", "--scope", "exec", "--scope", "read", "tunnel").decode().strip()
        ways = {"unix": {}, "tls": {"WARREN_HOST": f"https://127.0.0.1:{w().tls}", "WARREN_TOKEN": token,
                                    "WARREN_CA": w().cert}}
        for way, env in ways.items():
            with forwarded(box, 9000, environ(**env)) as port:
                data = bytes(range(256)) * 16
                whole = b"\0\xffhello" + data + b"end" + struct.pack(">Q", len(data))
                eq(dialogue(port, data), whole, f"{way}: bytes, and what comes after our end")
                with concurrent.futures.ThreadPoolExecutor(40) as pool:
                    for got in pool.map(lambda _, port=port: dialogue(port, data), range(40)):
                        eq(got, whole, f"{way}: one of many")
                got = dialogue(port, b"y" * (16 << 20), flood=True)
                eq((len(got), got[-11:]), (7 + (16 << 20) + 11, b"end" + struct.pack(">Q", 16 << 20)),
                   f"{way}: both at once, neither waiting")
        with forwarded(box, 9001) as port:
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            socks = []
            for path in ("/a", "/b"):
                c.request("GET", path)
                eq(c.getresponse().read(), path.encode(), "on one connection")
                socks.append(c.sock)
            s = socks[0]
            ok(s is not None and s is socks[1], "the connection is kept")
            s.sendall(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % i for i in range(20)))
            got = b""
            while not got.endswith(b"/19"):
                piece = s.recv(65536)
                ok(piece, f"it ends after {got[-200:]!r}")
                got += piece
            eq(re.findall(rb"\r\n\r\n(/\d+)", got), [b"/%d" % i for i in range(20)], "pipelined")
            c.close()


@test
def a_connection_to_a_port_without_a_listener_is_reset():
    with sandbox() as box:
        p = start("port", box, "9000", "--listen", "127.0.0.1:0")
        try:
            port = int(re.fullmatch(rb"127\.0\.0\.1:(\d+)\n", p.stdout.readline())[1])
            with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
                try:
                    s.recv(1)
                    raise AssertionError("an end looks like an answer")
                except ConnectionResetError:
                    pass
            eq(p.stderr.readline(), f"warren port: nothing listens on port 9000 of sandbox '{box}'\n".encode())
            eq(p.poll(), None, "it waits for the next")
        finally:
            p.terminate()
            eq(p.wait(20), -signal.SIGTERM)
            p.stdout.close()
            p.stderr.close()


@test
def a_client_of_another_host_needs_a_token():
    secret = call("token", "create", "--scope", "read", "--scope", "write", "--expires", "1h", "for tests").decode().strip()
    ok(secret.startswith("wrn_"), "a secret")
    told = call_json("token", "ls", "--json")
    mine = next(t for t in told if t["name"] == "for tests")
    eq((mine["scopes"], "secret" in mine), (["read", "write"], False))
    ok("for tests" in call("token", "ls").decode(), "the table")
    tcp = {"WARREN_HOST": f"http://127.0.0.1:{w().port}"}
    call("ls", env=tcp, status=125, stderr=re.compile(rb"^warren ls: [^\n]*set WARREN_TOKEN to a token\)\n$"))
    call("ls", env={**tcp, "WARREN_TOKEN": "wrn_" + "0" * 64}, status=125, stderr=re.compile(rb"WARREN_TOKEN"))
    with sandbox() as box:
        eq(call("ls", "-q", env={**tcp, "WARREN_TOKEN": secret}), box.encode() + b"\n")
        call("exec", box, "true", env={**tcp, "WARREN_TOKEN": secret}, status=125, stderr=re.compile(rb"exec"))
        other = call("token", "create", "--json", "--scope", "read", "--scope", "exec", "--tenant", "local", "runner")
        eq(call("exec", box, "echo", "hello", env={**tcp, "WARREN_TOKEN": json.loads(other)["secret"]}), b"hello\n")
    eq(len(call("token", "ls", "-q").split()), len(call_json("token", "ls", "--json")))
    eq(call_json("token", "rm", "--json", mine["id"]), {"id": mine["id"], "state": "gone"})
    call("ls", env={**tcp, "WARREN_TOKEN": secret}, status=125, stderr=None)
    call("token", "rm", "../sandboxes", status=125, stderr=None)
    for token in call("token", "ls", "-q").decode().split():
        call("token", "rm", token)


@test
def a_client_can_use_tls_with_a_private_certificate():
    env = {"WARREN_HOST": f"https://127.0.0.1:{w().tls}", "WARREN_TOKEN": w().token("read", "exec")}
    call("ls", "-q", env=env, status=125, stderr=re.compile(rb"certificate|SSL|CA"))
    with sandbox() as box:
        env["WARREN_CA"] = w().cert
        eq(call("ls", "-q", env=env), box.encode() + b"\n")
        data = noise(300000)
        eq(call("exec", "-i", box, "cat", env=env, input=data), data)
    for token in call("token", "ls", "-q").decode().split():
        call("token", "rm", token)


# --------------------------------------------------------------------------- systemd


@test
def serve_accepts_an_inherited_socket_and_reports_readiness():
    with scratch() as d, socket.socket(socket.AF_UNIX) as listener, \
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        os.chmod(d, 0o755)
        listener.bind(f"{d}/early.sock")
        listener.listen()
        notified.bind(f"{d}/notify")
        notified.settimeout(20)
        command = ["sh", "-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"", "sh", WARREN, "serve", "--config", "/dev/null",
                   "--state-dir", f"{d}/state", "--run-dir", f"{d}/run", "--log-format", "text", "--listen",
                   f"unix:{d}/early.sock"]
        with open(f"{d}/log", "wb") as log:
            p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, close_fds=False,
                                 env=environ(NOTIFY_SOCKET=f"{d}/notify", WARREN_LIBEXEC=BUILD),
                                 preexec_fn=lambda: os.dup2(os.dup(listener.fileno()), 3))
        try:
            eq(notified.recv(100), b"READY=1")
            eq(call("ls", "-q", env={"WARREN_HOST": f"unix:{d}/early.sock"}), b"")
            ok(not os.path.exists(f"{d}/run/warren.sock"), "it listens nowhere else")
            p.terminate()
            eq(notified.recv(100), b"STOPPING=1")
            eq(p.wait(20), 0)
        finally:
            if p.poll() is None:
                p.kill()
                p.wait()


if __name__ == "__main__":
    sys.exit(main())
