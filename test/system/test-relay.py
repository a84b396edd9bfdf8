#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-relay.py - the relay of the guest agent, a stream to a port, run without a sandbox"""
import os
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, MIB, eq, noise, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import stat_of, until  # pylint: disable=wrong-import-position

GUEST = os.path.join(BUILD, "src/agent/guest/warren-guest")
WAIT = 60


class Relay:
    """A running relay, with the test's end of its stream and the result of the connect."""

    def __init__(self, port, address="127.0.0.1"):
        self.stream, theirs = socket.socketpair()
        self.stream.settimeout(WAIT)
        said, tell = os.pipe()
        self.process = subprocess.Popen([GUEST, "connect", address, str(port)], stdin=theirs, stdout=theirs, stderr=tell)
        theirs.close()
        os.close(tell)
        with os.fdopen(said, "rb") as f:
            (self.code,) = struct.unpack("i", f.read(4))
            eq(f.read(), b"", "what is said besides")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.ends()

    def ends(self):
        try:
            return self.process.wait(WAIT)
        finally:
            self.process.kill()


def listen(family=socket.AF_INET, backlog=5):
    s = socket.socket(family)
    s.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
    s.listen(backlog)
    s.settimeout(WAIT)
    return s, s.getsockname()[1]


def accept(s):
    c, _ = s.accept()
    c.settimeout(WAIT)
    return c


def all_of(s):
    return b"".join(iter(lambda: s.recv(MIB), b""))


@test
def both_directions_work_at_the_same_time_and_end_independently():
    up, down = noise(3 * MIB), noise(2 * MIB)
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        server, port = listen(family)
        with server, Relay(port, address) as r, accept(server) as c:
            eq(r.code, 0, f"connecting to {address}")
            senders = [threading.Thread(target=lambda s=s, data=data: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
                       for s, data in ((r.stream, up), (c, down))]
            got = []
            reader = threading.Thread(target=lambda c=c: got.append(all_of(c)))
            for t in (*senders, reader):
                t.start()
            ok(all_of(r.stream) == down, "other bytes came back")
            for t in (*senders, reader):
                t.join(WAIT)
            ok(got == [up], "other bytes came there")
            eq(r.ends(), 0, "its end, when both have ended")


@test
def one_direction_continues_when_the_other_is_closed():
    server, port = listen()
    with server, Relay(port) as r, accept(server) as c:
        r.stream.sendall(b"all")
        r.stream.shutdown(socket.SHUT_WR)
        eq(all_of(c), b"all", "until our end")
        c.sendall(b"an answer after it")
        c.shutdown(socket.SHUT_WR)
        eq(all_of(r.stream), b"an answer after it")
    with listen()[0] as server, Relay(server.getsockname()[1]) as r, accept(server) as c:
        c.shutdown(socket.SHUT_WR)
        eq(all_of(r.stream), b"", "the server's end first")
        r.stream.sendall(b"still heard")
        r.stream.shutdown(socket.SHUT_WR)
        eq(all_of(c), b"still heard")


@test
def data_sent_before_closing_is_delivered():
    data = noise(2 * MIB)
    server, port = listen()
    with server, Relay(port) as r, accept(server) as c:
        sender = threading.Thread(target=lambda: (r.stream.sendall(data), r.stream.close()))
        sender.start()
        ok(all_of(c) == data, "other bytes came there")
        sender.join(WAIT)
        c.close()
        eq(r.ends(), 0, "its end")
    # The client also gets what a server sent before it closed the connection.
    server, port = listen()
    with server, Relay(port) as r:
        with accept(server) as c:
            c.sendall(b"no\n")
        eq(r.stream.recv(3, socket.MSG_WAITALL), b"no\n")
        try:
            while True:
                r.stream.sendall(b"x" * 65536)
        except OSError:
            pass


@test
def a_disconnect_is_detected_at_once():
    server, port = listen()
    with server, Relay(port) as r, accept(server) as c:
        r.stream.close()
        eq(c.recv(1), b"", "the end at the port")
        c.sendall(b"to nobody")
        c.close()
        eq(r.ends(), 0, "its end")


def fill(s, relay):
    """Sends as much as fits, until the relay is idle; returns the number of bytes."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MIB)
    s.setblocking(False)
    sent = idle = 0
    while idle < 20:
        try:
            sent += s.send(b"x" * 65536)
            idle = 0
        except BlockingIOError:
            idle = idle + 1 if stat_of(relay)[0] == "S" else 0
            time.sleep(0.02)
    return sent


@test
def a_client_waits_idle_for_a_slow_server():
    """The server and the client have sent everything, and the client has disconnected: the relay is idle until the
    server reads."""
    server, port = listen()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # this disables automatic growth
    with server, Relay(port) as r, accept(server) as c:
        c.shutdown(socket.SHUT_WR)
        eq(all_of(r.stream), b"", "the server's end")
        sent = fill(r.stream, r.process.pid)
        r.stream.close()
        until(lambda: all(stat_of(r.process.pid)[0] == "S" for _ in range(100)), "it sleeps")
        eq(len(all_of(c)), sent, "bytes that the server gets at last")
        eq(r.ends(), 0, "its end")


@test
def impossible_requests_are_reported():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        with Relay(s.getsockname()[1]) as r:
            eq(os.strerror(r.code), "Connection refused")
            eq((r.stream.recv(1), r.ends()), (b"", 1), "then it ends")
    for port in ("0", "65536", "-1", "x", "", "80x"):
        with Relay(port) as r:
            eq(os.strerror(r.code), "Invalid argument", port)
            eq(r.ends(), 1)


@test
def a_client_waits_for_a_server_that_does_not_accept():
    """The server's queue is full: the connect is in progress, and data sent until then is not lost."""
    server, port = listen(backlog=0)
    with server, socket.create_connection(("127.0.0.1", port)), Relay(port) as r:
        eq(r.code, 0, "of one that may still be accepted")
        r.stream.sendall(b"patience")
        r.stream.shutdown(socket.SHUT_WR)
        accept(server).close()
        with accept(server) as c:
            eq(all_of(c), b"patience")


if __name__ == "__main__":
    sys.exit(run_tests())
