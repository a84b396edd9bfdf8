#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-egress-load.py - many connections, several sandboxes, and the death of warren-egress"""
import contextlib
import os
import resource
import signal
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import Skip, eq, ok, test  # noqa: E402
import egress_world as ew  # noqa: E402
from egress_world import ID, echo, http, is_reset, until, world  # noqa: E402

OTHER = "bbbbbbbbbbbb"
TCP_A = {"host": "a.example", "protocols": ["tcp"]}
FLOWS_MAX = 4096
MANY = 10000


@contextlib.contextmanager
def second_sandbox(w, policy):
    inside = ew.Inside()
    try:
        w.egress.add(OTHER, policy, inside)
        yield inside
        w.egress.remove(OTHER)
    finally:
        inside.close()


def resolve(inside, name):
    with inside.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((ew.SELF, 53))
        s.send(ew.question(name))
        return ew.parse_answer(s.recv(2048))[1][0]


def open_many(inside, address, port, n):
    """Opens connections without waiting for them."""
    def connect_all():
        opened = []
        for _ in range(n):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex((address, port))
            opened.append(s)
        return opened
    return inside.call(connect_all)


def raise_limits():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < MANY + 2000:
        raise Skip(f"needs {MANY + 2000} descriptors, has {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@test
def ten_thousand_connections_do_not_stop_another_sandbox():
    raise_limits()
    with world({"host": "1.2.3.4", "protocols": ["tls"]}) as w, \
            second_sandbox(w, {"allow": [{"host": "a.example", "protocols": ["http"]}]}) as inside:
        w.serve("1.2.3.4", 80, http)
        address = resolve(inside, "a.example")
        opened = []
        for _ in range(10):
            # Connections that send nothing stay open until they time out; the others are reset.
            opened += open_many(w.inside, "1.2.3.4", 7000, MANY // 10)
            with inside.connect(address, 80) as s:
                s.sendall(b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
                ok(ew.read_all(s).startswith(b"HTTP/1.1 200"), "the answer to the other sandbox")
        until(lambda: w.egress.query(ID)["connections"] >= MANY, "all connections", 60)
        ok(w.egress.query(ID)["live_count"] <= FLOWS_MAX, "live connections")
        ok(w.egress.query(ID)["denied"] >= MANY - FLOWS_MAX, "refused connections")
        for s in opened:
            s.close()
        until(lambda: w.egress.query(ID)["live_count"] == 0, "the end of all connections", 60)


@test
def many_busy_sandboxes_leave_connections_to_another():
    greedy = [f"{c}{c * 11}" for c in "cdfghj"]
    # Descriptors for about 740 connections: each sandbox may have 185.
    with world({"host": "1.2.3.4", "protocols": ["tls"]}, files=2000) as w, contextlib.ExitStack() as stack:
        opened, insides = [], []
        for id_ in greedy:
            insides.append(ew.Inside())
            stack.callback(insides[-1].close)
            w.egress.add(id_, {"allow": [{"host": "1.2.3.4", "protocols": ["tls"]}]}, insides[-1])
        for inside in insides:
            opened += open_many(inside, "1.2.3.4", 7000, 300)
        until(lambda: all(w.egress.query(id_)["connections"] == 300 for id_ in greedy), "all connections", 60)
        live = [w.egress.query(id_)["live_count"] for id_ in greedy]
        ok(300 < sum(live) <= 740 and min(live) > 0, live)
        # A sandbox that is added last can still resolve a name and gets its answer.
        w.serve("1.2.3.4", 80, http)
        with second_sandbox(w, {"allow": [{"host": "a.example", "protocols": ["http"]}]}) as inside, \
                inside.connect(resolve(inside, "a.example"), 80) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
            ok(ew.read_all(s).startswith(b"HTTP/1.1 200"), "the answer to the other sandbox")
        for s in opened:
            s.close()
        eq(w.egress.process.poll(), None)


@test
def a_sandbox_whose_descriptors_do_not_fit_is_refused():
    with world(TCP_A, files=64) as w, contextlib.ExitStack() as stack:
        failed, last, ids = None, None, [c * 12 for c in "cdfghjklmnpqrstvwxyz0123456789"]
        for id_ in ids:
            inside = ew.Inside()
            stack.callback(inside.close)
            try:
                w.egress.add(id_, {"allow": [TCP_A]}, inside)
            except Exception as why:  # pylint: disable=broad-except
                failed = str(why)
                break
            last = id_
        ok(failed and "open files" in failed, failed)
        w.egress.remove(last)
        w.egress.remove(ids[0])
        with second_sandbox(w, {"allow": [TCP_A]}):
            eq(w.egress.process.poll(), None)


def connect_and_reset(inside, address, port, data=b""):
    with contextlib.suppress(OSError), inside.connect(address, port) as s:
        s.sendall(data)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@test
def lookups_of_closed_connections_share_a_query():
    with world(TCP_A) as w:
        w.serve("1.2.3.4", 7000, echo)
        address, known = w.address("a.example"), w.dns.names["a.example"]
        w.dns.names["a.example"] = "silent"
        del w.dns.asked[:]
        for _ in range(300):
            connect_and_reset(w.inside, address, 7000)
        until(lambda: w.egress.query(ID)["connections"] == 300 and w.egress.query(ID)["live_count"] == 0,
              "the end of all connections", 60)
        # A query is two questions, which are asked at most twice, and fails after four seconds.
        ok(2 <= len(w.dns.asked) < 60, len(w.dns.asked))
        # They end, and then others begin.
        w.dns.names["a.example"] = known
        with w.inside.connect(address, 7000) as s:
            s.settimeout(60)
            s.sendall(b"x")
            eq(s.recv(1), b"x")


@test
def lookups_of_one_sandbox_do_not_delay_another():
    """16 threads connect to names that no server answers for, and reset their connections."""
    threads, each, lookups_max = 16, 25, 32

    def attack(w, first):
        for i in range(first * each, (first + 1) * each):
            connect_and_reset(w.inside, ew.SELF, 3128, b"CONNECT n%d.busy.example:443 HTTP/1.1\r\n"
                                                       b"Host: n%d.busy.example:443\r\n\r\n" % (i, i))

    with world({"host": "*.busy.example", "protocols": ["tcp"]}) as w, \
            second_sandbox(w, {"allow": [TCP_A]}) as inside:
        for i in range(threads * each):
            w.dns.names[f"n{i}.busy.example"] = "silent"
        attackers = [threading.Thread(target=attack, args=(w, i)) for i in range(threads)]
        for t in attackers:
            t.start()
        until(lambda: len(set(w.dns.asked)) >= lookups_max, "lookups", 60)
        resolve(inside, "a.example")
        before = set(w.dns.asked[:w.dns.asked.index("a.example")])
        for t in attackers:
            t.join()
        # A query counts until it fails; in the meantime, only a few could have begun.
        ok(len(before) <= 3 * lookups_max, len(before))


@test
def a_missing_name_is_asked_for_once_in_a_while():
    with world({"host": "*.example", "protocols": ["tcp"]}) as w:
        for _ in range(200):
            eq(w.lookup("missing.example"), (3, []))
        ok(2 <= w.dns.asked.count("missing.example") < 200, len(w.dns.asked))
        # A name that exists is looked up each time, with one query for each of the two address families.
        for _ in range(5):
            w.address("a.example")
        eq(w.dns.asked.count("a.example"), 10)


@test
def many_connections_to_one_name_all_work():
    raise_limits()
    with world(TCP_A) as w:
        w.serve("1.2.3.4", 7000, echo)
        opened = open_many(w.inside, w.address("a.example"), 7000, 500)
        for s in opened:
            s.settimeout(60)
            s.sendall(b"\0")
        for s in opened:
            eq(s.recv(1), b"\0")
            s.close()


@test
def names_of_one_sandbox_are_unknown_in_another():
    with world(TCP_A, {"host": "b.example", "protocols": ["tcp"]}) as w, \
            second_sandbox(w, {"allow": [TCP_A]}) as inside:
        w.serve("1.2.3.4", 7000, lambda _, s: s.sendall(b"a"))
        w.serve("5.6.7.8", 7000, lambda _, s: s.sendall(b"b"))
        first, second = w.address("b.example"), resolve(inside, "a.example")
        ok(inside.refuses(first, 7000, b"\0"), "an address that another sandbox was given")
        for sandbox, address, answer in ((w.inside, first, b"b"), (inside, second, b"a")):
            with sandbox.connect(address, 7000) as s:
                eq(s.recv(1), answer)


@test
def the_network_is_closed_while_egress_is_dead_and_reopened_unchanged():
    names = 2 * (2 * len(ew.question("a.example")) + 16)  # the bytes of two lookups
    policy = {"allow": [TCP_A], "deny": [], "limits": {"total_bytes": names + 120}}
    with world(*policy["allow"], limits=policy["limits"]) as w:
        server = w.serve("1.2.3.4", 7000, echo)
        address = w.address("a.example")
        with w.inside.connect(address, 7000) as s:
            s.sendall(b"\0" * 30)
            eq(len(ew.read_exactly(s, 30)), 30)
            # Before it reports what was used.
            w.egress.process.send_signal(signal.SIGKILL)
            w.egress.process.wait()
            w.egress.read_events()
            eq(s.recv(1) if not is_reset(s) else b"", b"", "the connection after its death")
        usage, reserved = w.egress.usage[ID], w.egress.reserved[ID]
        ok(60 <= sum(usage[2:]) + reserved - names // 2 <= 100, f"{usage} and {reserved} reserved")
        n = server.n
        with w.inside.connect(address, 7000) as s:
            s.sendall(b"\0")
            eq(server.n, n, "connections while it is dead")
            w.egress = ew.Egress()
            w.egress.add(ID, policy, w.inside, usage=usage, reserved=reserved)
            # The previous process assigned the address: the client must resolve the name again.
            ok(is_reset(s), "a connection to a name that is not known any more")
        eq(w.lookup("b.example")[0], 3)
        address = w.address("a.example")
        with w.inside.connect(address, 7000) as s:
            s.sendall(b"\0" * 10)
            eq(len(ew.read_exactly(s, 10)), 10)
            s.sendall(b"\0" * 40)
            ok(len(ew.read_all(s)) < 40, "the limit counts what was used before")
        ok(w.inside.refuses(address, 7000, b"\0"), "after that, connections are reset")


@test
def egress_ends_with_its_connection():
    with world(TCP_A):
        pass  # leaving the block checks the exit status


@test
def a_message_that_is_not_valid_ends_it():
    w = ew.Egress()
    w.control.send(b"nonsense")
    eq(w.process.wait(20), 0)
    w.control.close()


@test
def egress_confines_itself_for_every_user():
    for user, bounding in ((0, {0}), (ew.NOBODY, None)):
        e = ew.Egress(user=user)
        try:
            e.request(ew.QUERY, ID)
            ok(False, "a sandbox that was never added was found")
        except ew.Refused:
            pass  # it answers, so it has confined itself
        with open(f"/proc/{e.process.pid}/status", encoding="ascii") as f:
            status = {line.partition(":")[0]: line.partition(":")[2].strip() for line in f}
        eq((status["NoNewPrivs"], status["Seccomp"], int(status["CapEff"], 16), int(status["CapPrm"], 16)),
           ("1", "2", 0, 0), f"the privileges for user {user}")
        ok(bounding is None or int(status["CapBnd"], 16) in bounding, status["CapBnd"])
        eq(e.close(), 0)


if __name__ == "__main__":
    sys.exit(ew.run_outside())
