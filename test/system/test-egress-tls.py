#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-egress-tls.py - terminated TLS: headers with secrets, and rules about requests"""
import contextlib
import hashlib
import os
import socket
import ssl
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import ROOT, eq, ok, test  # noqa: E402
import egress_world as ew  # noqa: E402
from egress_world import ID, SELF, client_hello, http, read_until, run, until, world  # noqa: E402

VALUE = "s3cr3t-value-that-stays-outside"
SECRETS = {"KEY": VALUE}
WITH_KEY = {"host": "a.example", "headers": {"Authorization": "Bearer ${secret.KEY}"}}
RAW_B = {"host": "b.example", "protocols": ["tls"]}
DIR = tempfile.mkdtemp(prefix="test-egress-tls-")


# ------------------------------------------------------------------------- certificates


def path(name):
    return os.path.join(DIR, name)


def make_ca(name):
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
        path(name + ".key"), "-out", path(name + ".crt"), "-subj", f"/CN={name}", "-days", "2")


def server_context(host, ca="trusted"):
    """Returns the TLS context of a server with a certificate for the host."""
    at = path(f"{ca}-{host}")
    if not os.path.exists(at + ".crt"):
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", at + ".key",
            "-out", at + ".csr", "-subj", f"/CN={host}")
        with open(at + ".ext", "w", encoding="ascii") as f:
            f.write(f"subjectAltName=DNS:{host}\n")
        run("openssl", "x509", "-req", "-in", at + ".csr", "-CA", path(ca + ".crt"), "-CAkey", path(ca + ".key"),
            "-CAcreateserial", "-out", at + ".crt", "-days", "2", "-extfile", at + ".ext")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(at + ".crt", at + ".key")
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def over_tls(context, handle):
    def one(server, s):
        with contextlib.suppress(ssl.SSLError), context.wrap_socket(s, server_side=True) as t:
            handle(server, t)
    return one


def authority():
    """Returns the certificate that sandboxes trust."""
    with open(path("authority.pem"), encoding="ascii") as f:
        text = f.read()
    return text[text.index("-----BEGIN CERTIFICATE"):]


# -------------------------------------------------------------------------------- setup


def terminating(*allow, **kw):
    kw.setdefault("secrets", SECRETS)
    return world(*allow, args=("--authority", path("authority.pem"), "--ca-file", path("trusted.crt")), **kw)


@contextlib.contextmanager
def client(w, host="a.example", port=443, alpn=("http/1.1",), trust=None, raw=None):
    context = ssl.create_default_context(cadata=trust or authority())
    context.set_alpn_protocols(list(alpn))
    with raw or w.connect(host, port) as s, context.wrap_socket(s, server_hostname=host) as t:
        yield t


def head(s):
    """Returns (status, fields, body) of the next response."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        piece = s.recv(1)
        if not piece:
            return None, {}, data
        data += piece
    lines = data[:-4].split(b"\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in lines[1:])
    n, body = int(fields.get(b"content-length", 0)), b""
    while len(body) < n:
        body += s.recv(n - len(body))
    return int(lines[0].split()[1]), fields, body


def ask(s, method="GET", target="/", host="a.example", more="", body=b""):
    s.sendall(f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode() + body)
    return head(s)


def quiet(server, s):
    """Like http(), but the response does not repeat the request."""
    while True:
        data = read_until(s, b"\r\n\r\n")
        if not data:
            return
        server.received += data
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


# -------------------------------------------------------------------------------- tests


@test
def a_header_with_a_secret_is_added_outside():
    headers = {**WITH_KEY["headers"], "X-Key": "$${a} ${secret.KEY}"}
    with terminating({**WITH_KEY, "headers": headers}) as w:
        server = w.serve("1.2.3.4", 443, over_tls(server_context("a.example"), quiet))
        with client(w) as s:
            for more in ("", "Authorization: mine\r\nX-A: b\r\nX-Key: mine\r\nx-key: again\r\nX_Key: mine\r\nx.key: mine\r\n",
                         "Connection: Authorization\r\nAUTHORIZATION: hop\r\n"):
                eq(ask(s, more=more)[::2], (200, b"ok"))
        eq(server.received.count(b"\r\nAuthorization: Bearer " + VALUE.encode() + b"\r\n"), 3)
        eq(server.received.count(b"\r\nX-Key: ${a} " + VALUE.encode() + b"\r\n"), 3)
        for name in (b"authorization:", b"x-key:"):
            eq(server.received.lower().count(name), 3, "the client's own headers were forwarded")
        ok(b"mine" not in server.received, "headers that a server could take for the same were forwarded")
        ok(b"X-A: b\r\n" in server.received, "another header of the client is missing")
        eq(server.n, 1)


@test
def tls_is_terminated_only_for_hosts_with_headers():
    with terminating(WITH_KEY, RAW_B) as w:
        server = w.serve("5.6.7.8", 443, over_tls(server_context("b.example"), quiet))
        with open(path("trusted.crt"), encoding="ascii") as f:
            trusted = f.read()
        with client(w, "b.example", trust=trusted) as s:
            eq(ask(s, host="b.example")[0], 200)
        ok(VALUE.encode() not in server.received, "the secret was sent to another host")
        with contextlib.suppress(OSError), client(w, "b.example") as s:
            ok(False, "b.example shows a certificate of the authority")


@test
def a_request_that_the_rule_does_not_allow_gets_no_header():
    rule = {**WITH_KEY, "methods": ["GET"], "paths": ["/v1*"]}
    with terminating(rule, {"host": "a.example", "protocols": ["https"], "methods": ["POST"]}) as w:
        server = w.serve("1.2.3.4", 443, over_tls(server_context("a.example"), quiet))
        with client(w) as s:
            status, _, body = ask(s, target="/v2")
            eq(status, 403)
            ok(VALUE.encode() not in body, "the refusal contains the secret")
        eq(server.n, 0, "the server was connected for a denied request")
        with client(w) as s:
            eq(ask(s, "POST", "/v1/x", more="Content-Length: 0\r\n")[0], 200)
            ok(b"uthorization" not in server.received, "a request of another rule has the header")
            eq(ask(s, target="/v1/x")[0], 200)
            eq(server.received.count(VALUE.encode()), 1)
            eq(ask(s, target="/v1/../v2")[0], 403)
        ok(b"v2" not in server.received, "a denied request was forwarded")


@test
def the_value_appears_nowhere_inside():
    with terminating({**WITH_KEY, "paths": ["/ok"]}) as w:
        w.serve("1.2.3.4", 443, over_tls(server_context("a.example"), quiet))
        seen = b""
        for target, more in (("/ok", ""), ("/no", ""), ("/ok", "Host: x\r\n"), ("/ok", "X" * 70000 + ": y\r\n")):
            with client(w) as s:
                status, fields, body = ask(s, target=target, more=more)
                seen += repr((status, fields)).encode() + body
        seen += w.egress.request(ew.QUERY, ID)
        until(lambda: w.egress.query(ID) and w.egress.denied, "a denial")
        seen += repr(w.egress.denied).encode()
        ok(b"/no" in seen and b"a.example" in seen, "the check looks in the wrong place")
        ok(VALUE.encode() not in seen, "the secret is inside")


@test
def trace_requests_do_not_reveal_added_headers():
    with terminating(WITH_KEY) as w:
        server = w.serve("1.2.3.4", 443, over_tls(server_context("a.example"), http))
        with client(w) as s:
            eq(ask(s, "TRACE")[0], 405)
        with client(w) as s:
            eq(ask(s)[0], 200)
        ok(b"TRACE" not in server.received, "TRACE was forwarded")


@test
def a_server_must_prove_its_name():
    wrong = (("the name of another host", server_context("b.example")),
             ("an unknown authority", server_context("a.example", "stranger")))
    for what, context in wrong:
        with terminating(WITH_KEY) as w:
            server = w.serve("1.2.3.4", 443, over_tls(context, quiet))
            with client(w) as s:
                status, _, body = ask(s)
            eq(status, 502, what)
            ok(b"TLS with a.example: " in body and VALUE.encode() not in body, f"{what}: {body}")
            eq(server.received, b"", what)
    with terminating(WITH_KEY) as w:
        w.serve("1.2.3.4", 443, lambda _, s: s.sendall(b"HTTP/1.1 400 this is not TLS\r\n\r\n"))
        with client(w) as s:
            eq(ask(s)[0], 502)


@test
def rules_about_requests_hold_inside_tls():
    with terminating({"host": "*.example", "protocols": ["https"], "methods": ["GET"], "paths": ["/ok*"]}) as w:
        server = w.serve("1.2.3.4", 443, over_tls(server_context("a.example"), http))
        with client(w) as s:
            eq(ask(s, target="/ok/1")[0], 200)
            eq(ask(s, target="/ok/2")[0], 200)
            eq(ask(s, "POST", "/ok", more="Content-Length: 0\r\n")[0], 403)
        with client(w) as s:
            eq(ask(s, target="/no")[0], 403)
        with client(w) as s:
            eq(ask(s, target="/ok", host="b.example")[0], 421)
        ok(b"POST" not in server.received and b"/no" not in server.received, server.received)
        used = w.egress.query(ID)["used"]["allow"]
        eq(used, [{"host": "a.example", "ports": [443], "protocols": ["https"]}])
    with terminating({"host": "a.example"}, deny=[{"host": "a.example", "paths": ["/admin*"]}]) as w:
        w.serve("1.2.3.4", 443, over_tls(server_context("a.example"), http))
        with client(w) as s:
            eq(ask(s, target="/x")[0], 200)
            eq(ask(s, target="/admin/x")[0], 403)


@test
def a_redirect_does_not_take_the_secret_along():
    def redirect(server, s):
        server.received += read_until(s, b"\r\n\r\n")
        s.sendall(b"HTTP/1.1 302 Found\r\nLocation: https://b.example/\r\nContent-Length: 0\r\n\r\n")

    with terminating(WITH_KEY, {"host": "b.example", "protocols": ["https"], "methods": ["GET"]}) as w:
        a = w.serve("1.2.3.4", 443, over_tls(server_context("a.example"), redirect))
        b = w.serve("5.6.7.8", 443, over_tls(server_context("b.example"), quiet))
        with open(path("inside.pem"), "w", encoding="ascii") as f:
            f.write(authority())
        p = w.inside.popen("curl", "-sSL", "--cacert", path("inside.pem"), "--resolve",
                           f"a.example:443:{w.address('a.example')}", "--resolve",
                           f"b.example:443:{w.address('b.example')}", "https://a.example/", stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, env={**os.environ, "HOME": DIR})
        eq(p.communicate(timeout=60), (b"ok", b""))
        ok(VALUE.encode() in a.received, "the first server did not get the secret")
        ok(b"GET / " in b.received and b"uthorization" not in b.received, f"the second server got {b.received}")


@test
def a_changed_secret_is_used_by_the_next_request():
    with terminating(WITH_KEY) as w:
        server = w.serve("1.2.3.4", 443, over_tls(server_context("a.example"), quiet))
        with client(w) as s:
            eq(ask(s)[0], 200)
            w.egress.change(ID, {"allow": [WITH_KEY], "secrets": {"KEY": "another-value"}})
            eq(ask(s)[0], 200)
            ok(b"Bearer another-value\r\n" in server.received, "the old value was sent")
            w.egress.change(ID, {"allow": [RAW_B]})
            try:
                eq(s.recv(1), b"", "a flow that the new policy does not allow")
            except (ConnectionResetError, ssl.SSLError):
                pass


@test
def a_connection_from_before_does_not_carry_the_secret_in_clear():
    any_a = {"host": "a.example"}
    received = []

    def record(_, s):
        received.append(b"")
        at = len(received) - 1
        while piece := s.recv(65536):
            received[at] += piece

    for before, count in (([any_a], 2), ([any_a, WITH_KEY], 1)):
        received.clear()
        with terminating(*before) as w:
            w.serve("1.2.3.4", 443, record)
            with w.connect("a.example", 443) as raw:
                # Where nothing is terminated, the connection to the server is made before the client sends.
                until(lambda n=count - 1: len(received) == n, "the first connection")
                w.egress.change(ID, {"allow": [any_a, WITH_KEY], "secrets": SECRETS})
                with client(w, raw=raw) as s:
                    s.sendall(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
                    # The server does not answer; what it gets is a handshake, on a connection of its own.
                    until(lambda n=count: len(received) == n and received[-1], "the second connection")
                    eq((received[:-1], received[-1][:2]), ([b""] * (count - 1), b"\x16\x03"))
        ok(not any(VALUE.encode() in data for data in received), received)


@test
def tls_from_before_ends_when_it_would_be_terminated():
    any_a = {"host": "a.example"}
    with open(path("trusted.crt"), encoding="ascii") as f:
        trusted = f.read()
    with terminating(any_a) as w:
        w.serve("1.2.3.4", 443, over_tls(server_context("a.example"), quiet))
        w.serve("1.2.3.4", 7000, ew.echo)
        with client(w, trust=trusted) as s, w.connect("a.example", 7000) as other:
            other.sendall(b"\0")
            eq((ask(s)[0], other.recv(1)), (200, b"\0"))
            w.egress.change(ID, {"allow": [any_a], "deny": [RAW_B]})
            eq(ask(s)[0], 200, "another change")
            w.egress.change(ID, {"allow": [any_a, WITH_KEY], "secrets": SECRETS})
            try:
                eq(s.recv(1), b"", "a connection without the header of the rule")
            except (ConnectionResetError, ssl.SSLError):
                pass
            other.sendall(b"\0")
            eq(other.recv(1), b"\0", "what is not TLS continues")
        with client(w) as s:
            eq(ask(s)[0], 200)


@test
def large_bodies_arrive_whole():
    body = os.urandom(3 << 20)

    def digest(server, s):
        read, n = read_until(s, b"\r\n\r\n").split(b"\r\n\r\n", 1)[1], len(body)
        while len(read) < n:
            read += s.recv(65536)
        server.received = read
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % n + body)

    for limits in (None, {"bytes_per_second": 4 << 20}):
        with terminating(WITH_KEY, limits=limits) as w:
            server = w.serve("1.2.3.4", 443, over_tls(server_context("a.example"), digest))
            with client(w) as s:
                status, _, got = ask(s, "PUT", more=f"Content-Length: {len(body)}\r\n", body=body)
            eq(status, 200)
            eq(hashlib.sha256(got).digest(), hashlib.sha256(body).digest())
            eq(hashlib.sha256(server.received).digest(), hashlib.sha256(body).digest())


@test
def an_upgrade_to_websocket_works():
    def upgrade(server, s):
        server.received += read_until(s, b"\r\n\r\n")
        s.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        while piece := s.recv(65536):
            s.sendall(piece)

    with terminating(WITH_KEY) as w:
        server = w.serve("1.2.3.4", 443, over_tls(server_context("a.example"), upgrade))
        with client(w) as s:
            eq(ask(s, more="Connection: Upgrade\r\nUpgrade: websocket\r\n")[0], 101)
            for data in (b"hello", os.urandom(100000)):
                s.sendall(data)
                got = b""
                while len(got) < len(data):
                    got += s.recv(65536)
                eq(got, data)
        ok(VALUE.encode() in server.received, "the upgrade has no header")


@test
def other_protocols_inside_tls_are_refused():
    with terminating(WITH_KEY) as w:
        server = w.serve("1.2.3.4", 443, over_tls(server_context("a.example"), http))
        try:
            with client(w, alpn=("h2",)):
                ok(False, "a client that only speaks HTTP/2 was accepted")
        except (ssl.SSLError, ConnectionResetError):
            pass
        with client(w) as s:
            s.sendall(b"\x00\x01\x02\x03 something else\r\n\r\n")
            eq(head(s)[0], 400)
        for hello in (client_hello("b.example"), client_hello(None)):
            ok(w.refuses("a.example", 443, hello), "a handshake for another name was accepted")
        eq(server.n, 0)
        with client(w, alpn=("h2", "http/1.1")) as s:
            eq(s.selected_alpn_protocol(), "http/1.1")
            eq(ask(s)[0], 200)


@test
def a_proxy_terminates_in_the_same_way():
    with terminating(WITH_KEY) as w:
        server = w.serve("1.2.3.4", 443, over_tls(server_context("a.example"), quiet))
        raw = w.inside.connect(SELF, 3128)
        raw.sendall(b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n")
        eq(read_until(raw, b"\r\n\r\n").split()[1], b"200")
        with client(w, raw=raw) as s:
            eq(ask(s)[0], 200)
        ok(VALUE.encode() in server.received, "the request has no header")


@test
def a_hello_in_pieces_and_slow_clients_are_served():
    with terminating(WITH_KEY) as w:
        w.serve("1.2.3.4", 443, over_tls(server_context("a.example"), quiet))
        context = ssl.create_default_context(cadata=authority())
        into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
        t = context.wrap_bio(into, out, server_hostname="a.example")
        with w.connect("a.example", 443) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def step(f, *args):
                while True:
                    try:
                        result = f(*args)
                    except ssl.SSLWantReadError:
                        result = None
                    for b in out.read():
                        s.sendall(bytes([b]))
                    if result is not None or f == t.do_handshake and t.version() and t.cipher():
                        return result
                    into.write(s.recv(1))

            step(t.do_handshake)
            step(t.write, b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
            got = b""
            while not got.endswith(b"ok"):
                got += step(t.read, 7)
            ok(got.startswith(b"HTTP/1.1 200"), got)


@test
def headers_over_plain_http_must_be_requested():
    with terminating({**WITH_KEY, "protocols": ["http", "https"]}) as w:
        server = w.serve("1.2.3.4", 80, quiet)
        with w.connect("a.example", 80) as s:
            eq(ask(s)[0], 200)
        ok(VALUE.encode() in server.received, "the header is missing")
    with terminating(WITH_KEY) as w:
        server = w.serve("1.2.3.4", 80, quiet)
        with w.connect("a.example", 80) as s:
            eq(ask(s)[0], 403)
        eq(server.n, 0)


@test
def headers_without_an_authority_or_a_value_are_refused():
    for args, secrets, word in (((), SECRETS, "certificate authority"),
                                (("--authority", path("authority.pem")), {"OTHER": VALUE}, "/secrets/KEY")):
        with world(RAW_B, args=args) as w:
            try:
                w.egress.change(ID, {"allow": [WITH_KEY], "secrets": secrets})
                ok(False, "the policy was accepted")
            except ew.Refused as e:
                ok(word in str(e) and VALUE not in str(e), str(e))
            if args:
                w.egress.change(ID, {"allow": [WITH_KEY], "secrets": SECRETS})


@test
def the_files_belong_to_another_user():
    user, owner = 65534, 12345
    at = path("owned")
    os.mkdir(at, 0o700)
    os.chown(at, owner, owner)
    os.chmod(DIR, 0o711)
    args = ("--user", f"{user}:{user}", "--owner", f"{owner}:{owner}", "--authority", at + "/authority.pem",
            "--bundle", at + "/trust/all.crt")
    for _ in ("created", "read again"):
        with world(WITH_KEY, args=args, secrets=SECRETS) as w:
            with open(f"/proc/{w.egress.process.pid}/status", encoding="ascii") as f:
                status = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
            eq([set(status[k].split()) for k in ("Uid", "Gid", "CapPrm", "CapEff", "CapBnd")],
               [{str(user)}, {str(user)}, {"0" * 16}, {"0" * 16}, {"0" * 16}])
            # Its authority works for the client, which is all that is tested here.
            with open(at + "/trust/all.crt", encoding="utf-8") as f, client(w, trust=f.read()) as s:
                eq(s.version(), "TLSv1.3")
        eq({os.stat(os.path.join(at, name)).st_uid for name in ("authority.pem", "trust", "trust/all.crt")}, {owner})
    eq(os.stat(at + "/authority.pem").st_mode & 0o777, 0o600)
    run("rm", "-r", at)


@contextlib.contextmanager
def small_disk():
    """A filesystem; fill() writes until it is full."""
    at = path("disk")
    os.mkdir(at)
    run("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", at)

    def fill():
        with contextlib.suppress(OSError), open(os.path.join(at, "fill"), "wb", buffering=0) as f:
            while f.write(b"x" * 4096):
                pass

    try:
        yield at, fill
    finally:
        run("umount", at)
        os.rmdir(at)


@test
def a_full_disk_does_not_keep_egress_from_starting():
    with small_disk() as (at, fill):
        fill()
        args = ("--authority", at + "/authority.pem", "--bundle", at + "/trust/all.crt", "--ca-file", path("trusted.crt"))
        with world(RAW_B, args=args) as w:  # there is no authority
            w.serve("5.6.7.8", 443, over_tls(server_context("b.example"), http))
            with open(path("trusted.crt"), encoding="ascii") as f, client(w, "b.example", trust=f.read()) as s:
                eq(ask(s, host="b.example")[0], 200)
            try:
                w.egress.change(ID, {"allow": [WITH_KEY], "secrets": SECRETS})
                ok(False, "the policy was accepted")
            except ew.Refused as e:
                ok("certificate authority" in str(e), str(e))
        os.unlink(at + "/fill")
        for full in (False, True):
            if full:
                fill()
            with world(WITH_KEY, args=args, secrets=SECRETS) as w:
                w.serve("1.2.3.4", 443, over_tls(server_context("a.example"), quiet))
                with open(at + "/trust/all.crt", encoding="utf-8") as f, client(w, trust=f.read()) as s:
                    eq(ask(s)[::2], (200, b"ok"), full)


def main():
    if ROOT:
        for name in ("trusted", "stranger"):
            make_ca(name)
    try:
        return ew.run_outside()
    finally:
        run("rm", "-rf", DIR)


if __name__ == "__main__":
    sys.exit(main())
