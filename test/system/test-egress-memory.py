#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-egress-memory.py - kernel memory of the sockets of warren-egress"""
import os
import re
import resource
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import Skip, eq, ok, test  # noqa: E402
import egress_world as ew  # noqa: E402
from egress_world import until, world  # noqa: E402

MANY = 1100
PORT = 7000
ANY = {"host": "1.2.3.4", "protocols": ["tcp"]}
LIMIT = 256 << 20  # see "Memory" in doc/network.md
GROWN = 4  # SOCKMEM_GRANTS_EACH
SMALL = 2 * (192 << 10)  # SOCKMEM_MAX, which the kernel doubles
ZEROS = b"\0" * (1 << 20)


def pour(_, s):
    """Sends endlessly, with a small send buffer."""
    while True:
        s.sendall(ZEROS)


def serve(w, handle):
    server = w.serve("1.2.3.4", PORT, handle)
    server.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)


def sockets(ns, ours):
    """The memory of the sockets of warren-egress: [{name: bytes}].

    @ours is 4 for the sockets whose peer is the server, and 3 for those whose address is the server's.
    """
    out = subprocess.run(["ss", "-Htnm", "state", "established"], check=True, capture_output=True, text=True,
                         preexec_fn=(lambda: ew.enter_net(ns)) if ns else None).stdout.splitlines()
    found = []
    for address, memory in zip(out[::2], out[1::2]):
        if address.split()[ours - 1].endswith(f":{PORT}"):
            found.append({name: int(n) for name, n in re.findall(r"[(,]([a-z]+)(\d+)", memory)})
            found[-1]["peer"] = int(address.rpartition(":")[2])
    return found


def held(w):
    all_sockets = sockets(None, 4) + sockets(w.inside.ns, 3)
    return sum(m["r"] + m["w"] + m["f"] for m in all_sockets)


def raise_limits():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < 4 * MANY:
        raise Skip(f"needs {4 * MANY} descriptors, has {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def receive(s, n):
    buffer, got = bytearray(1 << 20), 0
    while got < n:
        more = s.recv_into(buffer, min(n - got, len(buffer)))
        ok(more > 0, "the end of the data")
        got += more


@test
def slow_readers_hold_little_memory_of_the_kernel():
    raise_limits()
    with world(ANY) as w:
        serve(w, pour)
        opened = []
        for i in range(MANY):
            s = w.inside.connect("1.2.3.4", PORT)
            opened.append(s)
            # Some are fast at first, so that their buffers grow before they stop.
            if i % 10 == 0:
                receive(s, 1 << 20)
        eq(len(sockets(None, 4)), MANY, "connections to the server")
        last, now = -1, 0
        while now > last:  # until nothing more fits
            last = now
            time.sleep(0.5)
            now = held(w)
        print(f"# {MANY} connections hold {now >> 10} KiB")
        ok(MANY * 4096 < now < LIMIT, f"{now} bytes")
        receive(opened[-1], 1 << 20)
        receive(opened[0], 1 << 20)
        for s in opened:
            s.close()


def large():
    """Returns the number of connections whose buffers have grown."""
    return len([m for m in sockets(None, 4) if m["rb"] > SMALL])


@test
def only_a_few_connections_of_a_sandbox_have_large_buffers():
    with world(ANY) as w:
        w.serve("1.2.3.4", PORT, pour)
        opened = [w.inside.connect("1.2.3.4", PORT) for _ in range(GROWN + 4)]

        def grow(connections, n):
            """Waits until a buffer has grown: the kernel decides when it does."""
            for s in connections:
                receive(s, 4 << 20)
            return large() == n

        until(lambda: grow(opened, GROWN), "the growth of some")
        for _ in range(4):
            ok(grow(opened, GROWN), f"{large()} connections have large buffers")
        for s in opened[:GROWN]:
            s.close()
        until(lambda: len(sockets(None, 4)) == 4, "the end of some")
        until(lambda: grow(opened[GROWN:], 4), "the growth of the others")
        for s in opened[GROWN:]:
            s.close()


@test
def a_connection_without_data_gives_its_buffers_to_another():
    total = 4 << 20

    def answer(_, s):
        while s.recv(1):
            s.sendall(b"\0" * total)

    with world(ANY) as w:
        w.serve("1.2.3.4", PORT, answer)
        opened = [w.inside.connect("1.2.3.4", PORT) for _ in range(GROWN + 1)]

        def ask(s):
            s.sendall(b"\0")
            receive(s, total)

        def has_grown(s):
            ask(s)
            return any(m["peer"] == s.getsockname()[1] and m["rb"] > SMALL for m in sockets(w.inside.ns, 3))

        for s in opened[:GROWN]:
            until(lambda s=s: has_grown(s), "the growth of a connection")
        # The others have no data now, so one of them becomes small.
        until(lambda: has_grown(opened[GROWN]), "the growth of another one")
        ok(large() <= GROWN, f"{large()} connections have large buffers")
        for s in opened:
            ask(s)
        for s in opened:
            s.close()


if __name__ == "__main__":
    sys.exit(ew.run_outside())
