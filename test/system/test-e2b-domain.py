#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-domain.py - a service with a domain, found by the official SDKs of E2B through TLS"""
import http.client
import json
import os
import socket
import ssl
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, test, ok, eq  # pylint: disable=wrong-import-position
from e2b_world import E2bWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from serve_world import free_port  # pylint: disable=wrong-import-position

DOMAIN = "box.localhost"
WORLD = []


def cert(*args):
    return subprocess.run([f"{BUILD}/warren", "cert", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, check=False)


def made(directory, domain=DOMAIN):
    r = cert("--json", "--dir", directory, domain)
    eq((r.returncode, r.stderr), (0, ""))
    return json.loads(r.stdout)


def w():
    if not WORLD:
        world = E2bWorld(start=False)
        files, port = made(f"{world.dir}/tls"), free_port()
        world.options += ["--domain", DOMAIN, "--tls-cert", files["cert"], "--tls-key", files["key"],
                          "--listen", f"tls:127.0.0.1:{port}"]
        world.tls_port, world.ca = port, files["ca"]
        world.environment = {"E2B_DOMAIN": f"{DOMAIN}:{port}", "SSL_CERT_FILE": files["ca"],
                             "NODE_EXTRA_CA_CERTS": files["ca"]}
        WORLD.append(world.start())
    return WORLD[0]


def connect(name, *protocols):
    """Connects to the service as the host @name, whose certificate is checked."""
    context = ssl.create_default_context(cafile=w().ca)
    context.set_alpn_protocols(list(protocols))
    return context.wrap_socket(socket.create_connection(("127.0.0.1", w().tls_port), timeout=60), server_hostname=name)


def ask(name, path, host=None, **headers):
    """Returns the status and the body of a response."""
    c = http.client.HTTPConnection(name)
    c.sock = connect(name, "http/1.1")
    c.request("GET", path, headers={"Host": host or f"{name}:{w().tls_port}", **headers})
    r = c.getresponse()
    body = r.read()
    c.close()
    return r.status, json.loads(body)


@test
def the_authority_is_created_once_and_is_for_one_domain():
    with tempfile.TemporaryDirectory(prefix="warren-cert-") as d:
        files = made(f"{d}/new/tls", "a.example.org")
        eq(files["domain"], "a.example.org")
        first = {}
        for name in ("ca.pem", "ca.key", "cert.pem", "key.pem"):
            with open(f"{d}/new/tls/{name}", "rb") as f:
                first[name] = f.read()
            eq(stat.S_IMODE(os.stat(f"{d}/new/tls/{name}").st_mode), 0o600 if "key" in name else 0o644, name)
        eq(made(f"{d}/new/tls", "a.example.org")["ca"], f"{d}/new/tls/ca.pem")
        for name, was in first.items():
            with open(f"{d}/new/tls/{name}", "rb") as f:
                eq(f.read() == was, name != "cert.pem", f"only the certificate changes: {name}")
        eq(sorted(os.listdir(f"{d}/new/tls")), sorted(first))
        for domain in ("b.example.org", "example.org", "xa.example.org"):
            r = cert("--dir", f"{d}/new/tls", domain)
            eq(r.returncode, 125, domain)
            ok("for another domain" in r.stderr, r.stderr)
        eq(cert("--dir", f"{d}/new/tls", "b.a.example.org").returncode, 0, "a domain below it")
        for domain in ("", "A.example.org", "a..b", ".a", "a-", "a b", "*.a", "a,DNS:b"):
            r = cert("--dir", f"{d}/bad", domain)
            eq(r.returncode, 125, domain)
        eq(os.path.exists(f"{d}/bad"), False)
        text = cert("--dir", f"{d}/new/tls", "a.example.org").stdout
        ok(f"cert: {d}/new/tls/cert.pem" in text and "domain: a.example.org" in text, text)


@test
def the_python_sdk_finds_the_service_by_its_domain():
    for version in ("1.1", "2"):
        w().python("domain.py", E2B_HTTP_VERSION=version)


@test
def the_javascript_sdk_finds_the_service_by_its_domain():
    w().node("domain.mjs")


@test
def both_versions_of_http_are_offered():
    for name in (DOMAIN, f"api.{DOMAIN}", f"8000-abc.{DOMAIN}"):
        for protocols, chosen in ((("h2", "http/1.1"), "h2"), (("http/1.1",), "http/1.1")):
            with connect(name, *protocols) as s:
                eq(s.selected_alpn_protocol(), chosen, name)
    for name in ("localhost", f"a.b.{DOMAIN}", "box.example.org"):
        try:
            connect(name, "h2").close()
        except ssl.SSLCertVerificationError:
            continue
        ok(False, f"the certificate is valid for {name}")


@test
def a_host_name_selects_the_api_or_a_sandbox():
    key = w().key()
    api = f"api.{DOMAIN}"
    eq(ask(api, "/v2/sandboxes", **{"X-API-Key": key}), (200, []))
    eq(ask(api, "/v2/sandboxes")[0], 401)
    eq(ask(api, "/v1/sandboxes", Authorization=f"Bearer {key}")[0], 200, "v1 has the same name")
    # The certificate does not limit which host a request names; the service does.
    eq(ask(api, "/v2/sandboxes", host="api.example.org", **{"X-API-Key": key})[0], 403)
    eq(ask(api, "/v2/sandboxes", host=f"api.{DOMAIN}.example.org", **{"X-API-Key": key})[0], 403)
    for name in (f"49983-bbbbbbbbbbbb.{DOMAIN}", f"49999-x.{DOMAIN}", f"49983-.{DOMAIN}", f"80-bbbbbbbbbbbb.{DOMAIN}"):
        status, body = ask(name, "/health")
        eq((status, body["message"]), (502, "The sandbox was not found"), name)
    # Ports of a sandbox of another API need a token, as without a domain.
    with w().box() as box:
        eq(ask(f"8000-{box}.{DOMAIN}", "/")[0], 401)
        eq(ask(f"8000-{box}.{DOMAIN}", "/", Authorization=f"Bearer {key}")[1]["code"], "port_closed")
    eq(ask(f"8000-{box}.{DOMAIN}", "/", Authorization=f"Bearer {key}")[0], 404)


UPGRADE = ("GET /socket HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
# It accepts one connection, and sends back what it receives.
ECHO = """
import socket
with socket.create_server(("127.0.0.1", 8000)) as s:
    c, _ = s.accept()
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        head += c.recv(4096)
    c.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n"
              b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\\r\\n\\r\\n")
    while data := c.recv(4096):
        c.sendall(data.upper())
"""


@test
def a_port_of_a_sandbox_serves_web_sockets():
    key = w().key()
    status, made_box = w().call("POST", "/v2/sandboxes", {"templateID": "base"}, X_API_Key=key)
    eq(status, 201, made_box)
    box = made_box["sandboxID"]
    w().exec(box, ["python3", "-c", ECHO])
    eq(w().run(box, "until grep -q ':1F40 00000000:0000 0A' /proc/net/tcp; do sleep 0.1; done")["result"]["exit_code"], 0)
    name = f"8000-{box}.{DOMAIN}"
    with connect(name, "http/1.1") as s:
        s.sendall(UPGRADE.format(host=f"{name}:{w().tls_port}").encode())
        got = b""
        while b"\r\n\r\n" not in got:
            piece = s.recv(4096)
            ok(piece, f"the connection ended after {got}")
            got += piece
        ok(got.startswith(b"HTTP/1.1 101 "), got)
        s.sendall(b"hello")
        got = got.partition(b"\r\n\r\n")[2]
        while len(got) < 5:
            got += s.recv(4096)
        eq(got, b"HELLO")
    eq(w().call("DELETE", f"/sandboxes/{box}", X_API_Key=key)[0], 204)


@test
def nothing_is_left():
    eq(ask(f"api.{DOMAIN}", "/v2/sandboxes", **{"X-API-Key": w().key()})[1], [])
    eq(w().rows("SELECT name FROM volumes"), [])


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
