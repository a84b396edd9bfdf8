#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-egress-flows.py - connections of a sandbox: names, decisions, TLS, raw bytes, limits"""
import contextlib
import ipaddress
import os
import socket
import ssl
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import eq, noise, ok, scratch, test  # noqa: E402
import egress_world as ew  # noqa: E402
from egress_world import ID, SELF, banner, client_hello, echo, is_reset, read_all, read_until, until, world  # noqa: E402

TCP_A = {"host": "a.example", "protocols": ["tcp"]}


# ----------------------------------------------------------------------------------- DNS


@test
def allowed_names_have_addresses_and_others_do_not():
    with world({"host": "a.example"}) as w:
        address = w.address("a.example")
        ok(ipaddress.ip_address(address) in ipaddress.ip_network("198.18.0.0/15"), address)
        eq(w.lookup("A.Example"), (0, [address]))
        six = ipaddress.ip_address(w.lookup("a.example", 28)[1][0])
        ok(six in ipaddress.ip_network("fd77:6172:7265:6e::/96"), six)
        eq(int(six) & 0x1ffff, int(ipaddress.ip_address(address)) & 0x1ffff, "the low bits of both addresses")
        eq(w.lookup("a.example", 16), (0, []))
        eq(w.lookup("b.example"), (3, []))
        eq(w.dns.asked.count("b.example"), 0, "questions about a name that is not allowed")
        denied = w.egress.query(ID)["denials"]
        eq([d["host"] for d in denied], ["b.example"])
        eq(denied[0]["rule"], {"host": "b.example"})


@test
def answers_say_whether_a_name_exists():
    with world({"host": "*.example"}) as w:
        w.dns.names["empty.example"] = []
        eq(w.lookup("missing.example"), (3, []))
        eq(w.lookup("empty.example"), (0, []))
        eq(w.lookup("b.example")[0], 0)


@test
def every_address_answers_dns_queries():
    with world({"host": "a.example"}) as w:
        for server in ("8.8.8.8", "2001:4860:4860::8888", "fd77:6172:7265:6e::1", "127.0.0.1", "::1"):
            eq(w.lookup("a.example", server=server), (0, [w.address("a.example")]), server)


@test
def dns_over_tcp_answers_several_queries():
    q = ew.question("a.example")
    with world({"host": "a.example"}) as w:
        for server in ("8.8.8.8", "127.0.0.1", "::1"):
            with w.inside.connect(server, 53) as s:
                for _ in range(3):
                    s.sendall(struct.pack(">H", len(q)) + q[:5])
                    s.sendall(q[5:])
                    n = struct.unpack(">H", s.recv(2, socket.MSG_WAITALL))[0]
                    eq(ew.parse_answer(s.recv(n, socket.MSG_WAITALL)), (0, [w.address("a.example")]))


@test
def a_name_server_that_is_silent_delays_only_its_names():
    with world({"host": "*.example"}) as w:
        slow = [f"slow{i}.example" for i in range(20)]
        w.dns.names.update((name, "silent") for name in slow)
        with w.inside.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect((SELF, 53))
            for name in slow:
                s.send(ew.question(name))
            until(lambda: set(slow) <= set(w.dns.asked), "the queries")
            eq(w.lookup("a.example")[0], 0)


# -------------------------------------------------------------------------- raw connections


@test
def tcp_works_by_name_over_both_families():
    with world(TCP_A, {"host": "six.example", "protocols": ["tcp"]}) as w:
        server = w.serve("1.2.3.4", 7000, echo)
        w.serve("2600::1", 7000, echo)
        for name, kind in (("a.example", 1), ("a.example", 28), ("six.example", 1)):
            address = w.lookup(name, kind)[1][0]
            with w.inside.connect(address, 7000) as s:
                s.sendall(b"\0ping")
                s.shutdown(socket.SHUT_WR)
                eq(read_all(s), b"\0ping", f"the echo of {name} at {address}")
        eq(server.n, 2)
        live = w.egress.query(ID)
        eq((live["connections"], live["bytes_in"], live["bytes_out"]), (3, w.dns_in + 15, w.dns_out + 15))
        eq(live["used"]["allow"], [{"host": "a.example", "ports": [7000], "protocols": ["tcp"]},
                                   {"host": "six.example", "ports": [7000], "protocols": ["tcp"]}])


@test
def a_server_may_speak_first_where_tcp_is_allowed():
    with world(TCP_A, {"host": "b.example", "protocols": ["tls"]}) as w:
        w.serve("1.2.3.4", 25, banner)
        server = w.serve("5.6.7.8", 25, banner)
        with w.connect("a.example", 25) as s:
            eq(read_until(s, b"\n"), b"220 ready\r\n")
            s.sendall(b"EHLO x\r\n")
            eq(read_until(s, b"\n"), b"EHLO x\r\n")
        ok(w.refuses("b.example", 25, b"EHLO x\r\n"), "other protocols need tcp")
        eq(server.n, 0, "connections to a server whose protocol is not allowed")


@test
def half_a_close_is_carried_in_both_directions():
    def end_first(server, s):
        s.sendall(b"first")
        s.shutdown(socket.SHUT_WR)
        server.received = read_all(s)

    with world(TCP_A) as w:
        server = w.serve("1.2.3.4", 7000, end_first)
        with w.connect("a.example", 7000) as s:
            eq(read_all(s), b"first")
            s.sendall(b"still open")
            s.shutdown(socket.SHUT_WR)
            until(lambda: server.received == b"still open", "the rest")


@test
def a_lot_of_data_arrives_unchanged():
    data = noise(32 << 20)
    with world(TCP_A) as w:
        w.serve("1.2.3.4", 7000, lambda _, s: s.sendall(data))
        w.serve("1.2.3.4", 7001, lambda _, s: setattr(w, "got", read_all(s)))
        with w.connect("a.example", 7000) as s:
            ok(read_all(s) == data, "the data that the server sent")
        with w.connect("a.example", 7001) as s:
            s.sendall(data)
        until(lambda: getattr(w, "got", None) == data, "the data that the client sent")
        usage = w.egress.query(ID)
        eq((usage["bytes_in"], usage["bytes_out"]), (w.dns_in + len(data), w.dns_out + len(data)))


@test
def addresses_need_rules_with_addresses():
    with world({"host": "1.2.3.4", "ports": [7000]}, {"host": "*.example"}, {"public": True, "protocols": ["http"]}) as w:
        server = w.serve("1.2.3.4", 7000, echo)
        other = w.serve("1.2.3.5", 7000, echo)
        with w.inside.connect("1.2.3.4", 7000) as s:
            s.sendall(b"\0hello")
            eq(s.recv(6), b"\0hello")
        ok(w.inside.refuses("1.2.3.5", 7000, b"\0hello"), "an address without a rule is reset")
        ok(w.inside.refuses("198.18.7.7", 7000, b"\0hello"), "an address that stands for nothing is reset")
        eq((server.n, other.n), (1, 0))


@test
def special_addresses_need_separate_rules():
    with world({"host": "*.example", "protocols": ["tcp"]}) as w:
        server = w.serve("10.0.0.1", 7000, echo)
        metadata = w.serve("169.254.169.254", 7000, echo)
        w.dns.names.update({"in.example": ["10.0.0.1"], "meta.example": ["169.254.169.254"],
                            "mapped.example": ["::ffff:10.0.0.1"], "both.example": ["10.0.0.1", "1.2.3.4"]})
        public = w.serve("1.2.3.4", 7000, echo)
        for name in ("in.example", "meta.example", "mapped.example"):
            ok(w.refuses(name, 7000, b"\0"), f"{name} is reset")
        with w.connect("both.example", 7000) as s:
            s.sendall(b"\0")
            eq(s.recv(1), b"\0", "the public address is used")
        eq((server.n, metadata.n, public.n), (0, 0, 1))
        reason = w.egress.query(ID)["denials"][0]["reason"]
        ok("special-purpose" in reason, reason)
        w.egress.change(ID, {"allow": [{"host": "*.example", "protocols": ["tcp"]}, {"host": "10.0.0.0/8"}]})
        with w.connect("in.example", 7000) as s:
            s.sendall(b"\0")
            eq(s.recv(1), b"\0", "with a rule for the network, it is allowed")


@test
def rebinding_does_not_reach_a_special_address():
    with world({"host": "*.example", "protocols": ["tcp"]}) as w:
        private = w.serve("10.0.0.1", 7000, echo)
        public = w.serve("1.2.3.4", 7000, echo)
        answers = ["1.2.3.4"]
        w.dns.names["re.example"] = lambda _: list(answers)
        address = w.address("re.example")
        with w.inside.connect(address, 7000) as s:
            s.sendall(b"\0")
            eq(s.recv(1), b"\0")
        answers[:] = ["10.0.0.1"]
        ok(w.inside.refuses(address, 7000, b"\0"), "the new address is judged")
        eq((private.n, public.n), (0, 1))


@test
def the_next_address_is_tried():
    with world({"host": "*.example", "protocols": ["tcp"]}) as w:
        w.serve("1.2.3.4", 7000, echo)
        w.dns.names["two.example"] = ["1.2.3.5", "5.6.7.8", "1.2.3.4"]
        with w.connect("two.example", 7000) as s:
            s.sendall(b"\0")
            eq(s.recv(1), b"\0")
        ok(w.refuses("two.example", 7001, b"\0"), "no address accepts the connection")


# ------------------------------------------------------------------------------------- TLS


def tls_answer(context):
    def handle(_, s):
        with context.wrap_socket(s, server_side=True) as t:
            t.sendall(b"secret " + t.recv(100))
    return handle


@test
def tls_works_for_the_name_of_the_destination():
    with scratch() as d, world({"host": "a.example", "protocols": ["https"]}) as w:
        w.serve("1.2.3.4", 443, tls_answer(ew.make_certificate(d, "a.example")))
        client = ssl.create_default_context(cafile=os.path.join(d, "cert.pem"))
        client.check_hostname = False
        with client.wrap_socket(w.connect("a.example", 443), server_hostname="a.example") as t:
            t.sendall(b"hello")
            eq(t.recv(100), b"secret hello")
        eq(w.egress.query(ID)["used"]["allow"], [{"host": "a.example", "ports": [443], "protocols": ["https"]}])


@test
def another_name_in_tls_is_reset():
    with world({"host": "a.example", "protocols": ["tls"]}, {"host": "b.example"}) as w:
        server = w.serve("1.2.3.4", 443, echo)
        hello = client_hello("a.example")
        with w.connect("a.example", 443) as s:
            s.sendall(hello)
            eq(s.recv(len(hello), socket.MSG_WAITALL), hello, "the message of the right name")
        ok(w.refuses("a.example", 443, client_hello("b.example")), "another name is reset")
        ok(w.refuses("a.example", 443, client_hello(None)), "without a name, tcp is needed")
        eq(server.n, 1)
        reasons = [d["reason"] for d in w.egress.query(ID)["denials"]]
        ok("names another host" in reasons[0], reasons)


@test
def tls_without_a_name_needs_tcp():
    with world(TCP_A) as w:
        w.serve("1.2.3.4", 443, echo)
        hello = client_hello(None)
        with w.connect("a.example", 443) as s:
            s.sendall(hello)
            eq(s.recv(len(hello), socket.MSG_WAITALL), hello)
        ok(w.refuses("a.example", 443, client_hello("b.example")), "a wrong name is reset even so")


@test
def a_split_client_hello_is_reassembled():
    with world({"host": "a.example", "protocols": ["tls"]}) as w:
        server = w.serve("1.2.3.4", 443, echo)
        for name, allowed in (("a.example", True), ("b.example", False)):
            hello = client_hello(name)
            body = hello[5:]
            # Send the same message in records of seven bytes, byte by byte.
            pieces = b"".join(hello[:3] + struct.pack(">H", len(p)) + p
                              for p in (body[i:i + 7] for i in range(0, len(body), 7)))
            with w.connect("a.example", 443) as s:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for i in range(len(pieces) - 1):
                    s.send(pieces[i:i + 1])
                eq(server.received, b"", f"bytes that were forwarded before the decision about {name}")
                if allowed:
                    s.sendall(pieces[-1:])
                    eq(s.recv(len(pieces), socket.MSG_WAITALL), pieces)
                    server.received = b""
                else:
                    ok(is_reset(s, pieces[-1:]), "a wrong name is reset")
        eq(server.n, 1)


@test
def a_denied_name_is_not_reached_by_its_address():
    with world({"host": "1.2.3.4"}, deny=[{"host": "evil.example"}]) as w:
        server = w.serve("1.2.3.4", 443, echo)
        hello = client_hello("good.example")
        with w.inside.connect("1.2.3.4", 443) as s:
            s.sendall(hello)
            eq(s.recv(len(hello), socket.MSG_WAITALL), hello)
        ok(w.inside.refuses("1.2.3.4", 443, client_hello("evil.example")), "a rule denies the name")
        ok(client_hello("evil.example")[:3] + b"evil" not in server.received, "nothing was forwarded")


@test
def a_denied_name_is_not_hidden_from_the_decision():
    request = b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    hidden = [b"\r\n" + request, b"\n" + request, b"\r\n\r\n" + request, b" " + request, b"\t" + request,
              b"get" + request[3:], request.replace(b" / ", b"\t/ "), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
              b"PROXY UNKNOWN\r\n" + request, b"\r\n\r\n\0\r\nQUIT\n" + request,
              b"\x15\3\1\0\2\1\0" + client_hello("evil.example"), b"\x80\x2e\1\3\1" + b"\0" * 44]
    with world({"host": "1.2.3.4"}, deny=[{"host": "evil.example"}]) as w:
        server = w.serve("1.2.3.4", 80, echo)
        for what in hidden:
            for cut in (0, 1, 3):
                with w.inside.connect("1.2.3.4", 80) as s:
                    # Send it in two segments, if they arrive as such; an early reset also counts as a refusal.
                    with contextlib.suppress(ConnectionError):
                        s.sendall(what[:cut])
                        s.sendall(what[cut:])
                    ok(b"evil" not in read_all(s), f"{what!r}, divided at {cut}")
        eq(server.received, b"", "what the server has received")
        # The same bytes are allowed if no name is denied, and other protocols are allowed even if one is.
        for what in (b"SSH-2.0-x\r\n", b"\0\0\0\x08\4", b"get key\r\n"):
            with w.inside.connect("1.2.3.4", 80) as s:
                s.sendall(what)
                eq(s.recv(len(what), socket.MSG_WAITALL), what)
        w.egress.change(ID, {"allow": [{"host": "1.2.3.4"}]})
        with w.inside.connect("1.2.3.4", 80) as s:
            s.sendall(hidden[5])
            eq(s.recv(len(hidden[5]), socket.MSG_WAITALL), hidden[5])


def with_ech(hello):
    """Adds the extension of Encrypted Client Hello to a ClientHello, with content that means nothing."""
    extension = struct.pack(">HH", 0xfe0d, 8) + b"\0" * 8
    body = bytearray(hello[9:])
    at = 34
    at += 1 + body[at]
    at += 2 + struct.unpack_from(">H", body, at)[0]
    at += 1 + body[at]
    struct.pack_into(">H", body, at, struct.unpack_from(">H", body, at)[0] + len(extension))
    body += extension
    return b"\x16\3\1" + struct.pack(">HB", len(body) + 4, 1) + struct.pack(">I", len(body))[1:] + bytes(body)


@test
def an_encrypted_name_is_refused_where_a_rule_denies_a_name():
    hello = with_ech(client_hello("a.example"))
    with world({"host": "a.example"}) as w:
        server = w.serve("1.2.3.4", 443, echo)
        with w.connect("a.example", 443) as s:
            s.sendall(hello)
            eq(ew.read_exactly(s, len(hello)), hello, "without such a rule")
        w.egress.change(ID, {"allow": [{"host": "a.example"}], "deny": [{"host": "evil.example"}]})
        server.received = b""
        ok(w.refuses("a.example", 443, hello), "with such a rule")
        eq(server.received, b"")
        with w.connect("a.example", 443) as s:
            s.sendall(client_hello("a.example"))
            ok(s.recv(1), "a handshake without an encrypted name")


@test
def a_host_whose_address_is_denied_is_not_listed_as_used():
    with world({"host": "a.example"}, {"host": "b.example"}) as w:
        w.dns.names["b.example"] = ["10.0.0.1"]
        w.serve("1.2.3.4", 7000, echo)
        with w.connect("a.example", 7000) as s:
            s.sendall(b"\0")
            eq(s.recv(1), b"\0")
        ok(w.refuses("b.example", 7000, b"\0"), "a private address")
        ok(w.refuses("b.example", 443, client_hello("b.example")), "the same, with TLS")
        eq([r["host"] for r in w.egress.query(ID)["used"]["allow"]], ["a.example"])


@test
def a_malformed_name_is_counted_as_a_denial():
    with world(TCP_A) as w:
        eq(w.lookup("a.example")[0], 0)
        eq(w.egress.query(ID)["denied"], 0)
        eq(w.lookup("-a!.example")[0], 3)
        eq(w.egress.query(ID)["denied"], 1)


# --------------------------------------------------------------------------- SOCKS and limits


def socks(w, host, port):
    s = w.inside.connect(SELF, 1080)
    s.sendall(b"\5\1\0")
    eq(s.recv(2), b"\5\0")
    s.sendall(b"\5\1\0\3" + bytes([len(host)]) + host.encode() + struct.pack(">H", port))
    return s, s.recv(10, socket.MSG_WAITALL)[1]


@test
def socks_is_judged_the_same_way():
    with world(TCP_A, {"host": "b.example", "protocols": ["tls"]}) as w:
        w.serve("1.2.3.4", 7000, banner)
        server = w.serve("5.6.7.8", 7000, echo)
        s, code = socks(w, "a.example", 7000)
        with s:
            eq(code, 0)
            eq(read_until(s, b"\n"), b"220 ready\r\n")
        s, code = socks(w, "a.example", 7001)
        s.close()
        eq(code, 4, "the code for a server that cannot be reached")
        s, code = socks(w, "c.example", 7000)
        s.close()
        eq(code, 2, "the code for a host that is not allowed")
        s, code = socks(w, "b.example", 7000)
        with s:
            eq(code, 0)
            hello = client_hello("b.example")
            s.sendall(hello)
            eq(s.recv(len(hello), socket.MSG_WAITALL), hello)
        s, code = socks(w, "b.example", 7000)
        with s:
            ok(is_reset(s, b"\0\0"), "what is not TLS is reset")
        eq(server.n, 1)


@test
def connections_are_limited():
    with world(TCP_A, limits={"connections": 2}) as w:
        w.serve("1.2.3.4", 7000, echo)
        open_ = [w.connect("a.example", 7000) for _ in range(2)]
        for s in open_:
            s.sendall(b"\0")
            eq(s.recv(1), b"\0")
        ok(w.refuses("a.example", 7000), "a third connection is reset")
        open_.pop().close()
        until(lambda: w.egress.query(ID)["live_count"] == 1, "the end of a connection")
        with w.connect("a.example", 7000) as s:
            s.sendall(b"\0")
            eq(s.recv(1), b"\0", "after one has ended")
        open_.pop().close()


@test
def total_bytes_end_all_connections():
    with world(TCP_A, limits={"total_bytes": 2000}, usage=(0, 0, 1190, 0)) as w:
        w.serve("1.2.3.4", 7000, echo)
        address = w.address("a.example")
        with w.connect("a.example", 7000) as idle, w.connect("a.example", 7000) as s:
            s.sendall(b"\0" * 200)
            eq(len(ew.read_exactly(s, 200)), 200)
            s.sendall(b"\0" * 200)
            ok(is_reset(idle), "all connections end")
        ok(w.inside.refuses(address, 7000, b"\0"), "new connections are reset")
        asked = len(w.dns.asked)
        eq((w.lookup("a.example"), len(w.dns.asked)), ((5, []), asked), "names are refused and not looked up")
        eq(w.lookup("b.example"), (3, []), "a name that is not allowed")
        w.egress.change(ID, {"allow": [TCP_A], "limits": {"total_bytes": 5000}})
        with w.connect("a.example", 7000) as s:
            s.sendall(b"\0")
            eq(s.recv(1), b"\0", "after the limit was raised")


@test
def messages_of_names_count_as_bytes():
    q = ew.question("a.example")

    def usage():
        return tuple(w.egress.query(ID)[k] for k in ("bytes_in", "bytes_out"))

    with world(TCP_A) as w:
        eq((w.lookup("b.example")[0], w.lookup("a.example", 16)), (3, (0, [])), "what is not looked up outside")
        w.dns_in = w.dns_out = 0
        eq(usage(), (0, 0))
        for kind in (1, 28):
            w.lookup("a.example", kind)
            eq(usage(), (w.dns_in, w.dns_out))
        eq(w.dns_out, 2 * len(q))
        before = usage()
        with w.inside.connect("8.8.8.8", 53) as s:
            s.sendall(struct.pack(">H", len(q)) + q)
            n = struct.unpack(">H", s.recv(2, socket.MSG_WAITALL))[0]
            eq(len(s.recv(n, socket.MSG_WAITALL)), n)
        eq(usage(), (before[0] + 2 + n, before[1] + 2 + len(q)), "with their lengths, over TCP")


@test
def names_alone_use_up_total_bytes():
    limit = 10 * (2 * len(ew.question("a.example")) + 16)
    for rest in (0, 1, 50):
        with world(TCP_A, limits={"total_bytes": limit + rest}) as w:
            for i in range(10):
                eq(w.lookup("a.example")[0], 0, i)
            eq((w.dns_in + w.dns_out, w.lookup("a.example"), len(w.dns.asked) <= 22), (limit, (5, []), True))
            used = w.egress.query(ID)
            ok(limit <= used["bytes_in"] + used["bytes_out"] <= limit + rest, used)


def ask_many(w, names):
    """Sends a query for each name, without waiting for answers; returns the answers by their codes."""
    with w.inside.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((ew.SELF, 53))
        codes = []
        for i in range(0, len(names), 20):  # as many as fit into the buffers of the sockets
            for name in names[i:i + 20]:
                s.send(ew.question(name))
            codes += [ew.parse_answer(s.recv(2048))[0] for _ in names[i:i + 20]]
    return {code: codes.count(code) for code in set(codes)}


@test
def names_per_second_are_limited():
    names = [f"n{i}.example" for i in range(100)]
    for limits, args, limited in (({"lookups_per_second": 2}, (), True), ({}, ("--lookups-per-second", "2"), True),
                                  ({"lookups_per_second": 50}, ("--lookups-per-second", "2"), True), ({}, (), False)):
        with world({"host": "*.example"}, limits=limits, args=args) as w:
            w.serve("1.2.3.4", 7000, echo)
            w.dns.names.update((name, ["1.2.3.4"]) for name in names)
            began = time.monotonic()
            codes = ask_many(w, names)
            most = 10 + 2 * (time.monotonic() - began + 1)  # a burst of five seconds, and what time has permitted since
            asked = len(set(w.dns.asked))
            eq(codes.get(0), asked, codes)
            if not limited:
                eq(codes, {0: 100})
                continue
            ok(10 <= asked <= most, (asked, most, codes))
            eq(codes[2], 100 - asked, "the others are told to ask again")
            w.egress.wait_event(lambda w=w, n=asked: all(a >= b for a, b in zip(w.egress.lookups.get(ID, (0, 0)), (n, 100 - n))))
            eq(w.egress.query(ID)["denials"][-1]["reason"], "too many names at a time")
            # Connections wait instead, and reach their server.
            with w.inside.connect(ew.SELF, 3128) as s:
                s.sendall(b"CONNECT a.example:7000 HTTP/1.1\r\nHost: a.example:7000\r\n\r\n")
                ok(ew.read_until(s, b"\r\n\r\n").startswith(b"HTTP/1.1 200"), "the connection waited")


@test
def a_rate_lets_all_bytes_through():
    with world(TCP_A, limits={"bytes_per_second": 200000}) as w:
        w.serve("1.2.3.4", 7000, lambda _, s: s.sendall(b"x" * 100000))
        with w.connect("a.example", 7000) as s:
            eq(len(read_all(s)), 100000)
        w.serve("1.2.3.4", 7001, lambda _, s: s.sendall(b"x" * 2000))
        opened = [w.connect("a.example", 7001) for _ in range(100)]
        for s in opened:
            eq(len(read_all(s)), 2000, "the bytes of one of many connections")
            s.close()


# ------------------------------------------------------------------------- changes of policy


@test
def a_policy_change_ends_only_forbidden_connections():
    with world({"host": "*.example", "protocols": ["tcp"]}) as w:
        w.serve("1.2.3.4", 7000, echo)
        w.serve("5.6.7.8", 7000, echo)
        a, b = w.connect("a.example", 7000), w.connect("b.example", 7000)
        for s in (a, b):
            s.sendall(b"\0")
            eq(s.recv(1), b"\0")
        w.egress.change(ID, {"allow": [{"host": "*.example", "protocols": ["tcp"]}], "deny": []})
        w.egress.change(ID, {"allow": [TCP_A]})
        ok(is_reset(b), "the forbidden connection is reset")
        a.sendall(b"\1")
        eq(a.recv(1), b"\1", "the other one continues")
        eq(w.lookup("b.example")[0], 3)
        a.close()
        b.close()


@test
def an_early_connection_is_judged_again():
    with world(TCP_A) as w:
        w.serve("1.2.3.4", 25, banner)
        with w.connect("a.example", 25) as s:
            eq(read_until(s, b"\n"), b"220 ready\r\n")
            w.egress.change(ID, {"allow": [{"host": "a.example", "protocols": ["tls"]}]})
            ok(is_reset(s), "the connection was open for a form that is not allowed any more")


@test
def requests_that_are_not_valid_change_nothing():
    with world(TCP_A) as w:
        w.serve("1.2.3.4", 7000, echo)
        for policy in (b"{", b'{"allow":[{"host":"*"}]}', b'{"unknown":1}'):
            try:
                w.egress.change(ID, policy)
                ok(False, f"{policy} was accepted")
            except ew.Refused:
                pass
        with socket.socket() as plain:
            try:
                w.egress.add("bbbbbbbbbbbb", {}, None, sockets=(plain, plain))
                ok(False, "a socket that does not listen was accepted")
            except ew.Refused as e:
                ok("listening" in str(e), e)
        try:
            w.egress.add(ID, {}, w.inside)
            ok(False, "a second sandbox with the same id was accepted")
        except ew.Refused:
            pass
        with w.connect("a.example", 7000) as s:
            s.sendall(b"\0")
            eq(s.recv(1), b"\0")


@test
def removed_sandboxes_are_closed():
    with world(TCP_A) as w:
        w.serve("1.2.3.4", 7000, echo)
        with w.connect("a.example", 7000) as s:
            s.sendall(b"\0")
            eq(s.recv(1), b"\0")
            w.egress.remove(ID)
            ok(is_reset(s), "its connections are reset")


@test
def usage_and_denials_are_reported():
    with world(TCP_A) as w:
        w.serve("1.2.3.4", 7000, echo)
        eq(w.lookup("b.example")[0], 3)
        with w.connect("a.example", 7000) as s:
            s.sendall(b"\0" * 10)
            eq(len(s.recv(10, socket.MSG_WAITALL)), 10)
        w.egress.wait_event(lambda: w.egress.usage.get(ID) == (1, 1, w.dns_in + 10, w.dns_out + 10))
        eq([d["host"] for d in w.egress.denied], ["b.example"])


@test
def a_live_connection_whose_server_sends_first_is_used():
    with world(TCP_A, {"host": "b.example", "protocols": ["tcp"]}) as w:
        w.serve("1.2.3.4", 25, banner)
        w.serve("5.6.7.8", 25, echo)
        with w.connect("a.example", 25) as s, w.connect("b.example", 25):
            eq(read_until(s, b"\n"), b"220 ready\r\n")
            eq(w.egress.query(ID)["used"]["allow"], [{"host": "a.example", "ports": [25], "protocols": ["tcp"]}])


if __name__ == "__main__":
    sys.exit(ew.run_outside())
