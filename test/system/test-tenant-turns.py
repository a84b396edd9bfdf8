#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-tenant-turns.py - a tenant with many requests, or with a backend that hangs, does not delay other tenants

Prints TAP. Time limits are an order of magnitude above usual times, because machines are busy.
"""
import contextlib
import json
import os
import socket
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World  # pylint: disable=wrong-import-position
from swerex_world import Face  # pylint: disable=wrong-import-position

SCOPES = ("read", "write", "exec", "files")
ASKED = 120  # many more than are created while a tenant sends its few requests


def send(w, token, method, path, body=None):
    """Sends a request without waiting for the answer."""
    data = json.dumps(body).encode() if body is not None else b""
    s = socket.create_connection(("127.0.0.1", w.port))
    s.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
              f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    return s


def status_of(s):
    s.settimeout(60)
    with contextlib.closing(s):
        return int(s.recv(4096)[9:12])


def answered(socks):
    """Returns how many of them have an answer now."""
    n = 0
    for s in socks:
        s.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            n += len(s.recv(1, socket.MSG_PEEK))
    return n


@contextlib.contextmanager
def silent_daemon():
    """A server that accepts connections and never sends anything."""
    with tempfile.TemporaryDirectory(prefix="warren-silent-") as d, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{d}/sock")
        listener.listen(200)
        kept = []

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    kept.append(listener.accept()[0])
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"{d}/sock"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for c in kept:
                c.close()


@test
def a_hanging_backend_does_not_delay_others():
    with silent_daemon() as path, \
            World(tcp=True, config=f"backends:\n  docker:\n    kind: docker\n    socket: {path}\n") as w:
        greedy, modest = w.token("read", tenant="greedy"), w.token(*SCOPES, tenant="modest")
        box = w.create(token=modest)
        asked = [send(w, greedy, "GET", "/v1/backends") for _ in range(40)]
        time.sleep(1)
        start = time.monotonic()
        for _ in range(3):
            w.ask("GET", f"/v1/sandboxes/{box}/stats", token=modest, status=200)
            w.delete(w.create(token=modest), token=modest)
            w.ask("GET", "/healthz", status=200)
        took = time.monotonic() - start
        eq(answered(asked), 0, "the backend does not hang, so nothing was shown")
        ok(took < 5, f"a tenant waited {took:.1f} s for another's question")
        for s in asked:
            s.close()


@test
def concurrent_requests_share_one_answer():
    """The positive control: if the machine answers, all clients get the answer at once."""
    with World(tcp=True) as w:
        token = w.token("read", tenant="modest")
        eq({status_of(s) for s in [send(w, token, "GET", "/v1/backends") for _ in range(40)]}, {200})
        native = w.ask("GET", "/v1/backends", token=token, status=200).json()
        ok("native" in json.dumps(native), native)


@test
def creates_of_tenants_take_turns():
    with World(tcp=True) as w:
        greedy, modest = w.token(*SCOPES, tenant="greedy"), w.token(*SCOPES, tenant="modest")
        box = w.create(token=modest)
        asked = [send(w, greedy, "POST", "/v1/sandboxes", {"limits": {"memory": "64m", "disk": "1g"}}) for _ in range(ASKED)]
        for _ in range(2):
            w.ask("GET", f"/v1/sandboxes/{box}/stats", token=modest, status=200)
            w.delete(w.create(token=modest), token=modest)
        early = answered(asked)
        codes = [status_of(s) for s in asked]
        for x in w.sandboxes():
            if x["owner"] == "greedy":
                w.seen.add(x["id"])
                w.ask("DELETE", f"/v1/sandboxes/{x['id']}", status=204)
        eq(set(codes), {201}, "the creates of the other")
        ok(early < ASKED / 2, f"a tenant's two creates waited for {early} of another's {ASKED}")


@test
def searches_of_tenants_take_turns():
    """The api uses other threads for expensive searches of one tenant and a file that another reads."""
    with World(tcp=True) as w:
        greedy, modest = w.token(*SCOPES, tenant="greedy"), w.token(*SCOPES, tenant="modest")
        theirs, mine = w.create(token=greedy), w.create(token=modest)
        w.run(theirs, "mkdir /s; head -c 16000000 /dev/zero | tr '\\0' a >/s/f", token=greedy)
        w.run(mine, "yes | head -c 100000 >/tmp/f", token=modest)
        face = Face(w, mine, modest)
        face.open()
        eq(face.ask("/read_file", {"path": "/tmp/f"}).status, 200, "alone")
        asked = [send(w, greedy, "POST", f"/v1/sandboxes/{theirs}/files/search",
                      {"path": "/s", "content": "([a-z]?){155}X", "regex": True, "timeout_ms": 12000}) for _ in range(60)]
        time.sleep(1)
        start = time.monotonic()
        for _ in range(3):
            eq(face.ask("/read_file", {"path": "/tmp/f"}).status, 200, "beside searches")
        took = time.monotonic() - start
        early = answered(asked)
        eq({status_of(s) for s in asked}, {200}, "the searches")
        ok(early < len(asked), f"a tenant's three files waited {took:.1f} s for all of another's searches")
        ok(took < 5, f"a tenant's three files took {took:.1f} s beside another's searches")


if __name__ == "__main__":
    sys.exit(run_tests())
