#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-requests.py - the hosts that requests can reach, and when requests end: pulls, tokens, connections"""
import contextlib
import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, eq, free_port, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_socket import Socket  # pylint: disable=wrong-import-position
from serve_world import Client, World, check_error, needs, slurp, until  # pylint: disable=wrong-import-position

world = None
LISTED, OTHER, CLOSED = free_port(), free_port(), free_port()


# ------------------------------------------------------------------- pulls


class Spy(http.server.ThreadingHTTPServer):
    """A server on this machine that records its requests; a function creates the answers."""

    daemon_threads = True

    def __init__(self, port, answer, address="127.0.0.1"):
        self.asked, self.answer = [], answer
        super().__init__((address, port), SpyHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class SpyHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked.append(self.path)
        status, headers, body = self.server.answer(self.path)
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k, v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


SECRET = "what-only-the-inside-knows"
DENIED = (404, {}, json.dumps({"errors": [{"code": "X", "message": SECRET}]}).encode())


def refusing(status=404, headers=None):
    return lambda path: (status, headers or {}, DENIED[2])


def pull(ref, token=None):
    """Returns the error of a pull."""
    with world.client(token) as c:
        r = c.send("POST", "/v1/images/pull", {"image": ref})
        eq(r.status, 200, f"status of a pull of {ref}")
        last = [json.loads(line) for line in r][-1]
    eq(last["type"], "error", f"the end of a pull of {ref}: {last}")
    return last["error"]


def sentence(error, ref):
    """The message without the names that the client gave."""
    host = ref.split("/")[0]
    return error["code"], error["message"].replace(ref, "REF").replace(host, "HOST")


@test
def a_pull_reaches_no_address_that_is_not_listed():
    token = world.token("read", "write", "pull")
    with Spy(OTHER, refusing()) as spy, Spy(LISTED, refusing()) as listed:
        said = set()
        for host in ("127.0.0.1", "localhost", "127.1", "0.0.0.0", "127.0.0.2", "2130706433", "0x7f000001", "017700000001",
                     "0x7f.1", "ip6-localhost", socket.gethostname()):
            for port in (OTHER, CLOSED):
                ref = f"{host}:{port}/x:1"
                e = pull(ref, token)
                eq(e["code"], "registry_failed", f"{ref}: {e}")
                ok(SECRET not in json.dumps(e), f"{ref}: {e}")
                said.add(sentence(e, ref))
        eq(spy.asked, [], "what the server of the inside was asked for")
        eq(len(said), 1, f"sentences for open and closed ports: {said}")
        # The control: a listed registry is contacted, without TLS, and its answer causes another error.
        ref = f"127.0.0.1:{LISTED}/x:1"
        e = pull(ref, token)
        eq(e["code"], "image_not_found", f"a registry that is listed: {e}")
        ok(SECRET not in json.dumps(e), f"the words of the answer: {e}")
        ok(listed.asked, "a registry that is listed is not asked")


@test
def ipv6_addresses_do_not_bypass_the_check():
    try:
        spy = Spy6(OTHER, refusing())
    except OSError as e:
        raise Skip(f"no IPv6 here: {e}") from e
    with spy:
        for host in ("[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"):
            with world.client() as c:
                r = c.send("POST", "/v1/images/pull", {"image": f"{host}:{OTHER}/x:1"})
                body = r.read()
            ok(r.status == 400 or b'"error"' in body, f"{host}: {r.status} {body}")
            ok(SECRET.encode() not in body, f"{host}: {body}")
        eq(spy.asked, [], "what the server was asked for")


class Spy6(Spy):
    address_family = socket.AF_INET6

    def __init__(self, port, answer):
        super().__init__(port, answer, "::")

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


@test
def a_redirect_and_a_token_server_are_checked_like_the_registry():
    token = world.token("read", "write", "pull")
    inside = [f"http://127.0.0.1:{OTHER}/admin?drop=1", f"http://localhost:{OTHER}/admin", f"https://127.0.0.1:{OTHER}/admin",
              f"http://0x7f.1:{OTHER}/admin", f"http://127.0.0.1:{CLOSED}/admin", "http://169.254.169.254/latest/meta-data/"]
    with Spy(OTHER, refusing(200)) as spy:
        said = set()
        for url in inside:
            answers = {"redirect": (307, {"Location": url}, b""),
                       "realm": (401, {"WWW-Authenticate": f'Bearer realm="{url}",service="s"'}, b"")}
            for way, answer in answers.items():
                with Spy(LISTED, lambda _path, answer=answer: answer) as front:
                    ref = f"127.0.0.1:{LISTED}/{way}:1"
                    e = pull(ref, token)
                    ok(front.asked, f"{way} to {url}: the front was not asked")
                    said.add((e["code"], e["message"].replace(f"/{way}:", "/WAY:")))
        eq(spy.asked, [], "what the server of the inside was asked for")
        eq(len(said), 1, f"sentences: {said}")
        ok("cannot be reached" in next(iter(said))[1], said)
    # The control: a redirect from a listed registry to itself.
    hops = []

    def answer(path):
        hops.append(path)
        return DENIED if "moved" in path else (307, {"Location": f"http://127.0.0.1:{LISTED}/moved"}, b"")
    with Spy(LISTED, answer):
        eq(pull(f"127.0.0.1:{LISTED}/x:1", token)["code"], "image_not_found", "at the end of a permitted redirect")
    ok("/moved" in hops, f"a permitted redirect is not followed: {hops}")


@test
def the_log_says_why_a_pull_failed():
    pull(f"127.0.0.1:{CLOSED}/why:1")
    until(lambda: "its address is not public" in slurp(world.log_path), lambda: f"the log: {world.said()}", 10)


@test
def a_pull_needs_a_separate_scope():
    write, both = world.token("read", "write"), world.token("read", "write", "pull")
    images = world.token("read", "images")
    ref = f"127.0.0.1:{LISTED}/scope:1"
    with Spy(LISTED, refusing()) as spy:
        check_error(world.ask("POST", "/v1/images/pull", {"image": ref}, token=write), 403, "forbidden")
        e = check_error(world.ask("POST", "/v1/sandboxes", {"image": ref}, token=write), 404, "image_not_found")
        ok("scope 'pull'" in e["message"], e)
        check_error(world.ask("POST", "/v1/sandboxes", {"image": ref, "pull": "always"}, token=write), 403, "forbidden")
        eq(spy.asked, [], "what the registry was asked for")
        # The controls: with the scope, the registry is contacted; a local image needs no scope; `images` includes it.
        check_error(world.ask("POST", "/v1/sandboxes", {"image": ref}, token=both), 404, "image_not_found")
        ok(spy.asked, "the registry is not asked")
        eq(pull(ref, images)["code"], "image_not_found", "with the scope images")
    box = world.create(token=write)
    world.delete(box)


@test
def slow_pulls_of_one_tenant_do_not_block_others():
    """Many pulls from a registry that never answers."""
    slow, other = (world.token("read", "write", "pull", tenant=t) for t in ("slow", "other"))
    clients = []
    with socket.create_server(("127.0.0.1", LISTED), backlog=64):
        try:
            for n in range(20):
                clients.append(world.client(slow))
                eq(clients[-1].send("POST", "/v1/images/pull", {"image": f"127.0.0.1:{LISTED}/slow{n}:1"}).status, 200, "a slow pull")
            began = time.monotonic()
            eq(pull(f"127.0.0.1:{CLOSED}/x:1", other)["code"], "registry_failed", "another tenant's")
            ok(time.monotonic() - began < 10, "another tenant's pull waits for the slow ones")
        finally:
            for c in clients:
                c.close()


@test
def a_user_pulls_with_their_own_authority():
    """warren image pull works without a service: it may use loopback, without a list."""
    env = {**os.environ, "WARREN_STATE": f"{world.dir}/own"}
    warren = os.path.join(os.path.dirname(world.command()[0]), "warren")
    with Spy(OTHER, refusing()) as spy:
        p = subprocess.run([warren, "image", "pull", f"127.0.0.1:{OTHER}/x:1"], env=env, capture_output=True, timeout=60)
        eq(p.returncode, 125, p)
        ok(spy.asked and SECRET.encode() in p.stderr, f"{spy.asked} {p.stderr}")
        spy.asked.clear()
        p = subprocess.run([warren, "image", "pull", "--public-only", f"127.0.0.1:{OTHER}/x:1"], env=env, capture_output=True,
                           timeout=60)
        ok(p.returncode == 125 and not spy.asked and b"cannot be reached" in p.stderr, f"{spy.asked} {p.stderr}")
        p = subprocess.run([warren, "image", "pull", "--public-only", "--insecure", f"127.0.0.1:{OTHER}", f"127.0.0.1:{OTHER}/x:1"],
                           env=env, capture_output=True, timeout=60)
        ok(spy.asked, f"--insecure: {p.stderr}")


@test
def a_proxy_from_the_environment_is_used_only_for_names():
    """Literal addresses are checked before the proxy is used; the proxy resolves names."""
    warren = os.path.join(os.path.dirname(world.command()[0]), "warren")
    with Spy(OTHER, refusing()) as proxy:
        seen = []
        proxy.RequestHandlerClass.do_CONNECT = lambda self: (seen.append(self.path), self.send_error(502))
        env = {**os.environ, "WARREN_STATE": f"{world.dir}/own", "https_proxy": f"http://127.0.0.1:{OTHER}", "no_proxy": "direct.test"}

        def ask(host):
            return subprocess.run([warren, "image", "pull", "--public-only", f"{host}/x:1"], env=env, capture_output=True, timeout=60)
        for host in ("127.0.0.1:5000", "10.0.0.1", "localhost", "0x7f.1:80", "169.254.169.254"):
            eq(ask(host).returncode, 125, host)
        eq(seen, [], "what the proxy was asked for")
        ask("registry.example")
        ok("registry.example:443" in seen, f"a name goes to the proxy: {seen}")
        seen.clear()
        ask("direct.test")
        eq(seen, [], "what no_proxy names")
        del proxy.RequestHandlerClass.do_CONNECT


REGISTRY = """
import http.server, ssl, sys
class H(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_GET(self): self.send_error(404)
s = http.server.HTTPServer((sys.argv[1], 443), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
c.load_cert_chain(sys.argv[2])
s.socket = c.wrap_socket(s.socket, server_side=True)
print("ready", flush=True)
s.serve_forever()
"""


@contextlib.contextmanager
def two_networks(here, there):
    """Two network namespaces that are connected, with a process in each; yields their pids."""
    held = [subprocess.Popen(["unshare", "--net", "sleep", "120"]) for _ in range(2)]
    try:
        for p in held:
            until(lambda p=p: os.readlink(f"/proc/{p.pid}/ns/net") != os.readlink("/proc/self/ns/net"), "no namespace", 10)
        made = subprocess.run(["nsenter", "-t", str(held[0].pid), "-n", "ip", "link", "add", "near", "type", "veth", "peer", "name", "far",
                               "netns", str(held[1].pid)], capture_output=True, check=False)
        if made.returncode:
            raise Skip(f"no veth here: {made.stderr.decode().strip()}")
        for p, name, address in ((held[0], "near", here), (held[1], "far", there)):
            for words in (["addr", "add", f"{address}/24", "dev", name], ["link", "set", name, "up"]):
                subprocess.run(["nsenter", "-t", str(p.pid), "-n", "ip", *words], check=True)
        yield [str(p.pid) for p in held]
    finally:
        for p in held:
            p.kill()
            p.wait()


@test
def a_public_registry_can_be_used():
    """The control for all refusals: the same machine and connection, with a public and then with a private
    address."""
    for tool in ("unshare", "nsenter", "ip", "openssl"):
        if not shutil.which(tool):
            raise Skip(f"{tool} is not installed")
    warren = os.path.join(os.path.dirname(world.command()[0]), "warren")
    for here, there, reached in (("9.9.9.1", "9.9.9.2", True), ("10.9.9.1", "10.9.9.2", False)):
        pem = f"{world.dir}/{there}.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                        "/CN=registry", "-addext", f"subjectAltName=IP:{there}", "-days", "2", "-out", pem, "-keyout", f"{pem}.key"],
                       check=True, capture_output=True, timeout=60)
        with open(pem, "a", encoding="ascii") as f:
            f.write(slurp(f"{pem}.key"))
        with two_networks(here, there) as (ours, theirs):
            server = subprocess.Popen(["nsenter", "-t", theirs, "-n", sys.executable, "-c", REGISTRY, there, pem], stdout=subprocess.PIPE)
            try:
                eq(server.stdout.readline(), b"ready\n", "the registry")
                env = {**os.environ, "WARREN_STATE": f"{world.dir}/own"}
                for options, found in ((["--public-only"], reached), (["--public-only", "--trusted", there], True), ([], True)):
                    p = subprocess.run(["nsenter", "-t", ours, "-n", warren, "image", "pull", "--ca", pem, *options, f"{there}/x:1"],
                                       env=env, capture_output=True, timeout=60, check=False)
                    eq(b"no such image" in p.stderr, found, f"{there} {options}: {p.stderr}")
                    eq(b"cannot be reached" in p.stderr, not found, f"{there} {options}: {p.stderr}")
            finally:
                server.kill()
                server.wait()
                server.stdout.close()


# ------------------------------------------------------------------ tokens


def ended(sock, what, seconds=5.0):
    """Checks that the server closes the connection soon."""
    sock.settimeout(seconds)
    begin = time.monotonic()
    try:
        while sock.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        raise AssertionError(f"{what}: still open after {seconds} s") from None
    return time.monotonic() - begin


def raw(token, head, where=None, body=b"", api_key=False):
    """Starts a request; returns the socket."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(where or world.socket)
    name = f"X-API-Key: {token}" if api_key else f"Authorization: Bearer {token}"
    s.sendall(f"{head}\r\nHost: localhost\r\n{name}\r\n\r\n".encode() + body)
    return s


def openers(box, exec_id, session, port):
    """All long-lived requests, by name: a function that takes a token and returns the socket of a running request."""
    at = f"/v1/sandboxes/{box}"

    def terminal(token):
        s = Socket(world.socket, f"{at}/terminals", token=token, query={"shell": "sh"})
        s.event()
        return s.sock

    def tunnel(token):
        s = raw(token, f"GET {at}/tunnels/{port} HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: tcp")
        ok(b" 101 " in s.recv(4096), "a tunnel")
        return s

    def stream(path, method="GET", body=None):
        def begin(token):
            data = json.dumps(body).encode() if body is not None else b""
            more = f"\r\nContent-Type: application/json\r\nContent-Length: {len(data)}" if data else ""
            s = raw(token, f"{method} {path} HTTP/1.1{more}", body=data)
            return s
        return begin

    def upload(token):
        s = raw(token, f"PUT {at}/files?path=/tmp/up HTTP/1.1\r\nContent-Length: 1000000")
        s.sendall(b"some of it")
        return s

    def swerex(token):
        data = json.dumps({"command": "sleep 60", "shell": True, "timeout": 60}).encode()
        return raw(token, f"POST /swerex/{box}/execute HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len(data)}",
                   body=data, api_key=True)

    return {
        "terminal": terminal,
        "tunnel": tunnel,
        "events": stream("/v1/events"),
        "output": stream(f"{at}/execs/{exec_id}/output?follow=true"),
        "wait for an exec": stream(f"{at}/execs/{exec_id}?wait_ms=60000"),
        "wait for a sandbox": stream(f"{at}/wait?state=failed&timeout_ms=60000"),
        "watch": stream(f"{at}/files/watch?path=/tmp"),
        "run": stream(f"{at}/run", "POST", {"command": "sleep 60"}),
        "session": stream(f"{at}/sessions/{session}/run", "POST", {"command": "sleep 60"}),
        "upload": upload,
        "SWE-ReX": swerex,
        "proxied port": stream(f"{at}/ports/{port}/"),
    }


def served(box):
    """A port in the sandbox that accepts connections and sends nothing."""
    script = "import socket,time\ns=socket.socket();s.bind(('127.0.0.1',8099));s.listen(50)\nwhile 1: time.sleep(9)"
    world.exec(box, ["python3", "-c", script])
    until(lambda: world.run(box, "python3 -c \"import socket; socket.create_connection(('127.0.0.1', 8099))\"")["result"]["exit_code"]
          == 0, "the port is not served")
    return 8099


def all_open(box, token):
    exec_id = world.exec(box, "sleep 300")
    session = world.post(f"/v1/sandboxes/{box}/sessions", {}, status=201)["id"]
    opened = {name: begin(token) for name, begin in openers(box, exec_id, session, served(box)).items()}
    time.sleep(0.5)
    for name, s in opened.items():
        s.setblocking(False)
        try:
            data = s.recv(1 << 16)
            ok(data and (b"HTTP/1.1" not in data or b" 200 " in data or b" 101 " in data), f"{name}: not under way: {data}")
        except BlockingIOError:
            pass
        s.setblocking(True)
    return opened


def check_ended(opened, why):
    slowest = max((ended(s, f"{name}, after {why}"), name) for name, s in opened.items())
    ok(slowest[0] < 3, f"after {why}: {slowest}")
    for s in opened.values():
        s.close()


@test
def requests_end_when_their_token_is_revoked():
    needs("watch")
    box = world.create()
    doomed = world.post("/v1/tokens", {"name": "doomed", "scopes": ["admin"]}, status=201)
    lasting = world.post("/v1/tokens", {"name": "lasting", "scopes": ["admin"]}, status=201)
    control = raw(lasting["secret"], "GET /v1/events HTTP/1.1")
    opened = all_open(box, doomed["secret"])
    world.ask("DELETE", f"/v1/tokens/{doomed['id']}", status=204)
    check_ended(opened, "the token was revoked")
    control.settimeout(0.5)
    try:  # the stream of another token continues: it gets events, and does not end
        while True:
            ok(control.recv(1 << 16), "the stream of another token has ended")
    except TimeoutError:
        pass
    control.close()
    world.delete(box)


@test
def requests_end_when_their_token_expires():
    needs("watch")
    box = world.create()
    short = world.post("/v1/tokens", {"name": "short", "scopes": ["admin"], "expires_in_ms": 12000}, status=201)
    made = time.monotonic()
    opened = all_open(box, short["secret"])
    took = time.monotonic() - made
    ok(took < 11, f"opening took {took} s: the machine is too slow for this test")
    time.sleep(max(0, 11.5 - took))
    check_ended(opened, "the token expired")
    world.delete(box)


@test
def requests_end_when_the_sandbox_of_their_token_is_deleted():
    """The database deletes a token for one sandbox together with the sandbox, as it deletes the tokens of a tenant."""
    box, other = world.create(), world.create()
    t = world.post("/v1/tokens", {"name": "one", "scopes": ["read", "exec"], "sandbox_id": box}, status=201)["secret"]
    begun = raw(t, f"GET /v1/sandboxes/{box}/wait?state=failed&timeout_ms=60000 HTTP/1.1")
    time.sleep(0.3)
    world.delete(box)
    ended(begun, "after the sandbox was deleted")
    begun.close()
    world.delete(other)


@test
def a_request_without_an_answer_gets_the_reason():
    t = world.post("/v1/tokens", {"name": "told", "scopes": ["admin"]}, status=201)
    box = world.create()
    s = raw(t["secret"], f"GET /v1/sandboxes/{box}/wait?state=failed&timeout_ms=60000 HTTP/1.1")
    time.sleep(0.3)
    world.ask("DELETE", f"/v1/tokens/{t['id']}", status=204)
    s.settimeout(5)
    data = s.recv(4096)
    ok(data.startswith(b"HTTP/1.1 401 ") and b'"unauthorized"' in data and b"revoked" in data, data)
    s.close()
    world.delete(box)


# -------------------------------------------------------------- public operations and invalid tokens


@test
def public_operations_stay_public():
    """An invalid token does not prevent public requests, and does not permit others."""
    with World(tcp=True) as w:
        for token in ("wrn_" + "0" * 64, "nonsense"):
            for path in ("/healthz", "/version", "/docs"):
                eq(w.ask("GET", path, token=token, tcp=True).status, w.ask("GET", path, tcp=True).status, path)
                eq(w.ask("GET", path, token=token, tcp=True).status, 200, path)
            check_error(w.ask("GET", "/v1/sandboxes", token=token, tcp=True), 401, "unauthorized")
        eq(w.ask("GET", "/healthz", tcp=True, headers={"Authorization": "Basic eDp5"}).status, 200, "another kind of login")


@test
def an_unsupported_encoding_is_refused():
    box = world.create()
    at = f"/v1/sandboxes/{box}"
    body = json.dumps({"command": "true"})
    for encoding in ("gzip", "br", "zstd", "nonsense", "gzip, identity"):
        h = {"Content-Encoding": encoding}
        check_error(world.ask("POST", f"{at}/run", body, headers={**h, "Content-Type": "application/json"}), 415, "unsupported_media_type")
        check_error(world.ask("PUT", f"{at}/files", b"x", headers=h, query={"path": "/tmp/x"}), 415, "unsupported_media_type")
        eq(world.ask("POST", f"/swerex/{box}/execute", body, headers={**h, "Content-Type": "application/json"}).status, 415, encoding)
    for encoding in ("identity", "Identity"):  # the control
        eq(world.ask("POST", f"{at}/run", body, headers={"Content-Encoding": encoding, "Content-Type": "application/json"}).status, 200)
    world.delete(box)


# ------------------------------------------------------------------ connections


def hold(n, port):
    """Opens @n connections that send nothing."""
    held = []
    for _ in range(n):
        s = socket.socket()
        s.settimeout(10)
        s.connect(("127.0.0.1", port))
        held.append(s)
    return held


@test
def unauthenticated_clients_leave_connections_for_others():
    """Connections without a token exclude neither the owner nor clients with a token."""
    with World("--request-connections", "64", tcp=True) as w:
        token = w.token("admin")
        with w.client(token, tcp=True, timeout=5) as kept:
            eq(kept.ask("GET", "/v1/sandboxes").status, 200, "with a token")
            held = hold(200, w.port)
            begin = time.monotonic()
            with w.client(timeout=5) as owner:
                eq(owner.ask("GET", "/v1/sandboxes").status, 200, "the owner")
            with w.client(token, tcp=True, timeout=5) as c:
                eq(c.ask("GET", "/v1/sandboxes").status, 200, "one with a token who comes later")
            ok(time.monotonic() - begin < 3, "they waited")
            sock = kept.http.sock
            eq(kept.ask("GET", "/v1/sandboxes").status, 200, "one who was there before")
            ok(kept.http.sock is sock, "its connection was taken from it")
            for s in held:
                s.close()


@test
def a_client_gets_an_answer_when_no_connection_is_free():
    """All connections are busy with requests of authenticated clients: the answer is a 503 at once, but connections
    are reserved for the owner."""
    with World("--request-connections", "16", tcp=True) as w:
        token = w.token("admin")
        busy = []
        for _ in range(14):  # two of 16 are reserved for unix sockets
            s = socket.create_connection(("127.0.0.1", w.port), 10)
            s.sendall(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
            ok(s.recv(4096).startswith(b"HTTP/1.1 200"), "a stream of events")
            busy.append(s)
        begin = time.monotonic()
        with Client(("127.0.0.1", w.port), token, timeout=5) as c:
            check_error(c.ask("GET", "/v1/sandboxes"), 503)
        with w.client(timeout=5) as owner:
            eq(owner.ask("GET", "/v1/sandboxes").status, 200, "the owner")
        ok(time.monotonic() - begin < 3, "they waited")
        busy.pop().close()
        with Client(("127.0.0.1", w.port), token, timeout=5) as c:  # the control: a connection is free again
            until(lambda: c.ask("GET", "/v1/sandboxes").status == 200, "there is room, and no answer", 5)
        for s in busy:
            s.close()


@test
def busy_connections_of_one_tenant_leave_some_for_others():
    """A tenant can use at most fifteen of sixteen TCP connections, and the error says so."""
    with World("--request-connections", "128", tcp=True) as w:
        greedy, modest = (w.token("read", "write", tenant=t) for t in ("greedy", "modest"))
        busy, refused = [], None
        while not refused and len(busy) < 128:
            s = socket.create_connection(("127.0.0.1", w.port), 10)
            s.sendall(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {greedy}\r\n\r\n".encode())
            head = s.recv(65536)
            if head.startswith(b"HTTP/1.1 200"):
                busy.append(s)
            else:
                refused = head
                s.close()
        ok(refused and refused.startswith(b"HTTP/1.1 429"), f"after {len(busy)} streams: {refused}")
        ok(b"quota_exceeded" in refused and b"requests in progress over TCP" in refused and b"greedy" in refused, refused)
        eq(len(busy), 105, "of the 112 that TCP has")  # 112 * 15 / 16
        # Others can connect over TCP and over the unix socket, which is not counted.
        for _ in range(3):
            with Client(("127.0.0.1", w.port), modest, timeout=10) as c:
                eq(c.ask("GET", "/v1/sandboxes").status, 200, "another tenant")
        with w.client(greedy) as c:
            eq(c.ask("GET", "/v1/sandboxes").status, 200, "the same tenant by the unix socket")
        # A closed connection is free for the tenant again.
        busy.pop().close()
        with Client(("127.0.0.1", w.port), greedy, timeout=10) as c:
            until(lambda: c.ask("GET", "/v1/sandboxes").status == 200, "there is room again")
        for s in busy:
            s.close()


def run_all():
    global world  # pylint: disable=global-statement
    try:
        world = World("--insecure-registries", f"127.0.0.1:{LISTED}")
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0
    with world:
        return run_tests()


if __name__ == "__main__":
    sys.exit(run_all())
