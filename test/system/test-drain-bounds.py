#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-drain-bounds.py - a stopping service ends operations that could last forever: pulls, uploads, downloads,
tunnels

Prints TAP. After SIGTERM, requests have ten seconds to end; those whose duration depends on the peer have five. Each
ends with the error of its protocol, and no partial result looks complete.
"""
import contextlib
import json
import socket
import sys
import threading
import time
import os

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, free_port, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, until  # pylint: disable=wrong-import-position

ALL = 9  # in seconds: a stop that takes this long has waited for its time limit
ECHO = r"""
import socketserver, sys

class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)

class Server(socketserver.ThreadingTCPServer):
    daemon_threads, allow_reuse_address = True, True

Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def stop(w):
    """Stops the service; returns how long that took."""
    begun = time.monotonic()
    w.stop()
    return time.monotonic() - begun


def connect(w):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(w.socket)
    return s


def head_of(s):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += s.recv(1) or b"\r\n\r\n"
    return head.decode()


def rest_of(s):
    """Reads until the end of the connection, or until it breaks."""
    data = b""
    with contextlib.suppress(OSError):
        while more := s.recv(65536):
            data += more
    return data


def dribble(s, over, data=b"x"):
    """Sends data again and again, so that the connection is not idle."""
    with contextlib.suppress(OSError):
        while not over.wait(0.1):
            s.sendall(data)


@contextlib.contextmanager
def in_background(f, *args):
    over = threading.Event()
    t = threading.Thread(target=f, args=(*args[:1], over, *args[1:]), daemon=True)
    t.start()
    try:
        yield
    finally:
        over.set()
        t.join(30)


def opened_tunnel(w, box):
    w.exec(box, ["python3", "-c", ECHO, "9000"])
    s = None

    def open_it():
        nonlocal s
        s = connect(w)
        s.sendall(f"GET /v1/sandboxes/{box}/tunnels/9000 HTTP/1.1\r\nHost: a\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n".encode())
        return "101" in head_of(s).partition("\r\n")[0]
    until(open_it, "there is no tunnel")
    s.sendall(b"hello")
    eq(s.recv(5), b"hello", "what comes through the tunnel")
    return s


@test
def a_tunnel_ends_when_the_service_stops():
    with World() as w:
        box = w.create()
        idle, busy = opened_tunnel(w, box), opened_tunnel(w, box)
        with in_background(dribble, busy):
            took = stop(w)
        ok(took < ALL, f"it took {took:.1f} s to stop")
        for s in (idle, busy):
            rest_of(s)
            s.close()
        w.start()
        # The server inside still runs: the next tunnel reaches it.
        s = opened_tunnel(w, box)
        s.close()


@test
def a_pull_ends_when_the_service_stops():
    """The registry accepts the connection and sends nothing."""
    with socket.create_server(("127.0.0.1", free_port())) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        with World("--trusted-registries", where, "--insecure-registries", where) as w, w.client() as c:
            r = c.send("POST", "/v1/images/pull", {"image": f"{where}/a/b:1"})
            eq(r.status, 200, "status of a pull")
            silent.settimeout(20)
            conn = silent.accept()[0]
            took = stop(w)
            ok(took < ALL, f"it took {took:.1f} s to stop")
            lines = [json.loads(line) for line in r]
            eq((lines[-1]["type"], lines[-1]["error"]["code"]), ("error", "shutting_down"), f"the end of {lines}")
            conn.close()
            w.start()


@test
def an_upload_ends_when_the_service_stops():
    with World() as w:
        box = w.create()
        w.ask("PUT", f"/v1/sandboxes/{box}/files", b"before", query={"path": "/tmp/x"}, status=201)
        s = connect(w)
        s.sendall(f"PUT /v1/sandboxes/{box}/files?path=/tmp/x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n".encode())
        with in_background(dribble, s):
            took = stop(w)
        ok(took < ALL, f"it took {took:.1f} s to stop")
        answer = rest_of(s)
        ok(answer.startswith(b"HTTP/1.1 503") and b'"shutting_down"' in answer, f"the answer: {answer[:400]}")
        s.close()
        w.start()
        eq(w.ask("GET", f"/v1/sandboxes/{box}/files", query={"path": "/tmp/x"}).body, b"before", "what half an upload leaves")


@test
def a_slow_download_ends_when_the_service_stops():
    def sip(s, over):
        with contextlib.suppress(OSError):
            while not over.wait(0.1) and s.recv(1000):
                pass
    with World() as w:
        box = w.create()
        w.run(box, "head -c 20000000 /dev/zero >/tmp/x")
        s = connect(w)
        s.sendall(f"GET /v1/sandboxes/{box}/files?path=/tmp/x HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        ok(head_of(s).startswith("HTTP/1.1 200"), "the head")
        with in_background(sip, s):
            took = stop(w)
        ok(took < ALL, f"it took {took:.1f} s to stop")
        s.close()
        w.start()
        eq(len(w.ask("GET", f"/v1/sandboxes/{box}/files", query={"path": "/tmp/x"}).body), 20000000, "all of it, after")


if __name__ == "__main__":
    sys.exit(run_tests())
