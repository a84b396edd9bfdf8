#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-write-timeout.py - request.write_timeout ends every response that is not read, and no other

Prints TAP. Handlers, timers, workers and files write responses: the limit is the same for all.
"""
import json
import os
import socket
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World  # pylint: disable=wrong-import-position
from swerex_world import Face  # pylint: disable=wrong-import-position

LIMIT = 4          # seconds
LATER = 12         # time at which all late responses have been cut off
SIZE = 20_000_000  # more than the sockets of both sides hold


class Held:
    """A request whose answer is read later."""

    def __init__(self, w, token, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else b""
        self.sock = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        self.sock.connect(("127.0.0.1", w.port))
        self.sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {token}\r\nAuthorization: Bearer {token}\r\n"
                          f"Connection: close\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)

    def begun(self):
        """Waits until the answer has begun."""
        self.sock.settimeout(60)
        ok(self.sock.recv(1, socket.MSG_PEEK), "there is no answer")

    def read(self, pause=0.0, slow_bytes=0):
        """Returns how many bytes arrive until the end; reads the first @slow_bytes slowly."""
        self.sock.settimeout(60)
        n = 0
        while True:
            try:
                data = self.sock.recv(1 << 18 if n < slow_bytes else 1 << 20)
            except ConnectionResetError:
                return n
            if not data:
                return n
            n += len(data)
            if n < slow_bytes:
                time.sleep(pause)


def answers(w, token, box, run, session):
    """Returns one answer of each kind, all larger than SIZE."""
    v1 = f"/v1/sandboxes/{box}"
    return {
        "file": ("GET", f"{v1}/files?path=/tmp/f"),
        "tar": ("GET", f"{v1}/files/tar?path=/tmp"),
        "output raw": ("GET", f"{v1}/execs/{run}/output?format=raw"),
        "output ndjson": ("GET", f"{v1}/execs/{run}/output"),
        "run": ("POST", f"{v1}/run", {"command": "cat /tmp/f", "output_limit": 64 << 20}),
        "session stream": ("POST", f"{v1}/sessions/{session}/stream", {"command": "cat /tmp/f"}),
        "swerex read_file": ("POST", f"/swerex/{box}/read_file", {"path": "/tmp/f"}),
        "swerex run_in_session": ("POST", f"/swerex/{box}/run_in_session",
                                  {"command": "cat /tmp/f", "timeout": 60, "action_type": "bash"}),
    }


def prepared(w):
    token = w.token("read", "write", "exec", "files", tenant="modest")
    box = w.create(token=token)
    Face(w, box, token).open()
    run = w.exec(box, f"yes 0123456789 | head -c {SIZE} | tee /tmp/f", output_limit=64 << 20)
    w.result(box, run)
    return token, box, run, w.post(f"/v1/sandboxes/{box}/sessions", {}, status=201)["id"]


@test
def a_response_that_is_not_read_is_cut_off():
    with World("--request-write-timeout", f"{LIMIT}s", tcp=True) as w:
        known = prepared(w)
        held = {name: Held(w, known[0], *ask) for name, ask in answers(w, *known).items()}
        for h in held.values():
            h.begun()
        time.sleep(LATER)
        got = {name: h.read() for name, h in held.items()}
        ok(all(n < SIZE for n in got.values()), f"answers went on after {LATER} s of which nothing was taken: {got}")


@test
def a_response_that_is_read_slowly_is_complete():
    """The reader reads parts of the response, each well within the limit, for longer than the limit."""
    with World("--request-write-timeout", f"{LIMIT}s", tcp=True) as w:
        known = prepared(w)
        got, threads = {}, []
        for name, ask in answers(w, *known).items():
            if name.startswith("swerex run"):  # its session runs one command at a time
                continue
            def take(name=name, ask=ask):
                start = time.monotonic()
                n = Held(w, known[0], *ask).read(0.1, 12_000_000)
                got[name] = (n, time.monotonic() - start)
            threads.append(threading.Thread(target=take))
            threads[-1].start()
        for t in threads:
            t.join()
        ok(all(n >= SIZE for n, _ in got.values()), got)
        ok(any(seconds > LIMIT + 1 for _, seconds in got.values()), f"nothing was slow: {got}")


@test
def a_stream_without_data_does_not_time_out():
    with World("--request-write-timeout", f"{LIMIT}s", tcp=True) as w:
        token = w.token("read", "write", "exec", "files", tenant="modest")
        box = w.create(token=token)
        run = w.exec(box, f"echo one; sleep {2 * LIMIT + 1}; echo two", token=token)
        with w.client(token=token, tcp=True) as c:
            r = c.send("GET", f"/v1/sandboxes/{box}/execs/{run}/output", query={"format": "raw", "follow": "true"})
            eq(r.read(), b"one\ntwo\n")


if __name__ == "__main__":
    sys.exit(run_tests())
