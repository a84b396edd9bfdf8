#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-errors.py - errors of E2B's API: their form, and the names of fields in them"""
import contextlib
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, ok, eq  # pylint: disable=wrong-import-position
from e2b_world import E2bWorld  # pylint: disable=wrong-import-position
from h2_raw import Raw, get as h2_get  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from serve_world import free_port  # pylint: disable=wrong-import-position

WORLD = []
MANY = 5 << 20  # bytes: more than any body of the API may have
V1_FIELDS = ("/", "image:", "mounts", "ttl_ms", "env:", "/limits", "on_ttl", "network/")


def w():
    if not WORLD:
        # Time enough for a client that sends at once, and soon over for one that does not.
        world = E2bWorld(config="request:\n  body_timeout: 2s\n  header_timeout: 2s\n", start=False)
        world.tls, world.cert = free_port(), f"{world.dir}/cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{world.dir}/key.pem",
                        "-out", world.cert, "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True, timeout=60)
        world.options += ["--listen", f"tls:127.0.0.1:{world.tls}", "--tls-cert", world.cert, "--tls-key",
                          f"{world.dir}/key.pem"]
        WORLD.append(world.start())
        world.secret = world.key()
    return WORLD[0]


def ask(method, path, body=None, **headers):
    return w().call(method, path, body, **headers, X_API_Key=w().secret)


@contextlib.contextmanager
def sandbox(**fields):
    status, box = ask("POST", "/v2/sandboxes", {"templateID": "base", **fields})
    eq(status, 201, box)
    try:
        yield box
    finally:
        eq(ask("DELETE", f"/sandboxes/{box['sandboxID']}")[0], 204)


def plane(box, port="49983"):
    return {"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": port, "X-Access-Token": box["envdAccessToken"]}


def refused(method, path, body=None, headers=None, announced=None):
    """Sends a request, perhaps one with less than the announced body; returns the response and its body."""
    head = {"Host": "127.0.0.1", "X-API-Key": w().secret, "Content-Type": "application/json", **(headers or {})}
    if body is not None:
        head["Content-Length"] = str(len(body) if announced is None else announced)
    with socket.create_connection(("127.0.0.1", w().port), timeout=60) as s:
        text = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in head.items()) + "\r\n"
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the answer comes before the end of the request
            s.sendall(text.encode() + (body or b""))
        r = http.client.HTTPResponse(s, method=method)
        r.begin()
        return r, r.read()


def is_rest(status, **request):
    r, body = refused(**request)
    eq((r.status, r.getheader("Content-Type")), (status, "application/json"), body)
    answer = json.loads(body)
    eq((sorted(answer), answer["code"]), (["code", "message"], status))
    ok(answer["message"], body)


def is_rpc(status, code, **request):
    r, body = refused(**request)
    eq((r.status, r.getheader("Content-Type")), (status, "application/json"), body)
    answer = json.loads(body)
    eq((sorted(answer), answer["code"]), (["code", "message"], code))


def is_stream(code, **request):
    r, body = refused(**request)
    eq((r.status, r.getheader("Content-Type")), (200, "application/connect+json"), body)
    flags, n = struct.unpack(">BI", body[:5])
    eq((flags, n), (2, len(body) - 5))
    eq(json.loads(body[5:])["error"]["code"], code, body)


def is_v1(status, **request):
    r, body = refused(**request)
    eq(r.status, status, body)
    ok(isinstance(json.loads(body)["code"], str), body)


UNARY, STREAM = "/filesystem.Filesystem/Stat", "/process.Process/Start"


@test
def a_body_that_is_too_large_is_refused_in_the_form_of_the_api():
    big = b"{" + b" " * MANY
    is_rest(413, method="POST", path="/v2/sandboxes", body=big)
    with sandbox() as box:
        is_rpc(413, "resource_exhausted", method="POST", path=UNARY, body=big, headers=plane(box))
        is_stream("resource_exhausted", method="POST", path=STREAM, body=big,
                  headers={**plane(box), "Content-Type": "application/connect+json"})
        r, _ = refused("POST", UNARY, big, {**plane(box), "Origin": "https://example.org"})
        eq((r.status, r.getheader("Access-Control-Allow-Origin")), (413, "*"), "for a page of another origin")
        is_rest(413, method="POST", path="/execute", body=big, headers=plane(box, "49999"))
    is_v1(413, method="POST", path="/v1/sandboxes", body=big, headers={"Authorization": f"Bearer {w().secret}"})


@test
def a_head_that_is_too_large_is_refused_in_the_form_of_the_api():
    for long in ({"X-Long": "x" * 70000}, {f"X-{n}": "x" for n in range(300)}):
        is_rest(431, method="POST", path="/v2/sandboxes", headers=long)
        is_rest(431, method="GET", path="/sandboxes/abc", headers=long)
        is_rest(431, method="GET", path="/files?path=x", headers=long)
        is_rpc(431, "resource_exhausted", method="POST", path=UNARY, headers=long)
        is_stream("resource_exhausted", method="POST", path=STREAM, headers=long)
        is_v1(431, method="GET", path="/v1/sandboxes", headers=long)


@test
def a_request_that_stops_is_refused_in_the_form_of_the_api():
    is_rest(408, method="POST", path="/v2/sandboxes", body=b"{", announced=100)
    with sandbox() as box:
        is_rpc(408, "deadline_exceeded", method="POST", path=UNARY, body=b"{", announced=100, headers=plane(box))
        is_stream("deadline_exceeded", method="POST", path=STREAM, body=b"\0", announced=100,
                  headers={**plane(box), "Content-Type": "application/connect+json"})
    is_v1(408, method="POST", path="/v1/sandboxes", body=b"{", announced=100,
          headers={"Authorization": f"Bearer {w().secret}"})
    with socket.create_connection(("127.0.0.1", w().port), timeout=60) as s:
        s.sendall(b"POST /v2/sandboxes HTTP/1.1\r\nHost:")
        r = http.client.HTTPResponse(s)
        r.begin()
        eq((r.status, json.loads(r.read())["code"]), (408, 408))


@test
def a_request_that_is_not_valid_is_refused_in_the_form_of_the_api():
    twice = {"Content-Length": "1", "Transfer-Encoding": "chunked"}
    is_rest(400, method="POST", path="/v2/sandboxes", headers=twice)
    is_rpc(400, "invalid_argument", method="POST", path=UNARY, headers=twice)
    is_v1(400, method="POST", path="/v1/sandboxes", headers=twice)
    with sandbox() as box:
        r, body = refused("POST", UNARY, b"zz\r\n", {**plane(box), "Transfer-Encoding": "chunked", "Content-Length": ""})
        eq((r.status, json.loads(body)["code"]), (400, "invalid_argument"), body)


@test
def refusals_over_http2_have_the_form_of_the_api():
    def ask_h2(path, *fields, kind="application/json", **kw):
        with Raw(w(), w().cert) as c:
            head = h2_get(path, "POST", host="127.0.0.1") + [("x-api-key", w().secret), ("content-type", kind)]
            return c.answer(c.request(head + list(fields), b"{", **kw))

    def code(answer):
        status, body = answer
        return status, json.loads(body)["code"]
    long = ("content-length", str(MANY))
    eq(code(ask_h2("/v2/sandboxes", long, more=True)), (413, 413))
    eq(code(ask_h2("/v2/sandboxes", ("content-length", "9"), more=True)), (408, 408))
    eq(code(ask_h2("/v2/sandboxes", ("host", "other"))), (400, 400))
    eq(code(ask_h2(UNARY, ("host", "other"))), (400, "invalid_argument"))
    status, name = code(ask_h2("/v1/sandboxes", ("host", "other")))
    eq((status, type(name)), (400, str))
    with sandbox() as box:
        fields = [(k.lower(), v) for k, v in plane(box).items()]
        eq(code(ask_h2(UNARY, long, *fields, more=True)), (413, "resource_exhausted"))
        status, body = ask_h2(STREAM, long, *fields, kind="application/connect+json", more=True)
        eq((status, body[0], json.loads(body[5:])["error"]["code"]), (200, 2, "resource_exhausted"))


@test
def a_server_in_a_sandbox_that_does_not_speak_http_is_named():
    broken = ("import socket; s = socket.create_server(('', 8000))\n"
              "while True:\n    c, _ = s.accept(); c.recv(9999); c.sendall(b'nonsense\\r\\n\\r\\n'); c.close()\n")
    silent = broken.replace("8000", "8001").replace("c.sendall(b'nonsense\\r\\n\\r\\n'); ", "")
    ok("nonsense" not in silent, silent)
    with sandbox() as box:
        for port, program in ((8000, broken), (8001, silent)):
            w().exec(box["sandboxID"], ["python3", "-c", program])
            w().run(box["sandboxID"], ["bash", "-c", f"until : </dev/tcp/127.0.0.1/{port}; do sleep 0.05; done 2>/dev/null"])
        r, body = refused("GET", "/", headers=plane(box, "8000"))
        answer = json.loads(body)
        eq((r.status, answer["code"], answer["sandboxId"]), (502, 502, box["sandboxID"]))
        r, body = refused("GET", "/", headers=plane(box, "8001"))
        eq((r.status, json.loads(body)), (502, {"sandboxId": box["sandboxID"], "port": 8001, "code": 502,
                                               "message": "The sandbox is running but port is not open"}))


@test
def a_rule_with_headers_does_not_open_what_the_request_closes():
    def create(host="api.example.org", **fields):
        network = {**fields.pop("network", {}), "rules": {host: [{"transform": {"headers": {"A": "b"}}}]}}
        status, body = ask("POST", "/v2/sandboxes", {"templateID": "base", "network": network, **fields})
        if status == 201:
            eq(ask("DELETE", f"/sandboxes/{body['sandboxID']}")[0], 204)
        return status, body.get("message", "").split(":")[0]
    closed = {"denyOut": ["0.0.0.0/0"]}
    for fields in ({"allow_internet_access": False}, {"network": closed}, {"network": {**closed, "allowOut": ["example.org"]}},
                   {"network": {**closed, "allowOut": ["*.api.example.org", "9.9.9.9"]}}):
        eq(create(**fields), (400, "network.rules"), fields)
    for fields in ({}, {"allow_internet_access": True}, {"network": {**closed, "allowOut": ["API.example.org"]}},
                   {"network": {**closed, "allowOut": ["*.example.org"]}},
                   {"allow_internet_access": False, "network": {"allowOut": ["api.example.org"]}}):
        eq(create(**fields), (201, ""), fields)
    eq(create("*.example.org", network={**closed, "allowOut": ["*.example.org"]}), (400, "network.rules"))


@test
def one_of_several_kills_ends_the_sandbox():
    def kills(before=None):
        """Returns the answers to a request, and to three kills that arrive before it has ended."""
        status, box = ask("POST", "/v2/sandboxes", {"templateID": "base"})
        eq(status, 201, box)
        path = f"/sandboxes/{box['sandboxID']}"
        with ThreadPoolExecutor(4) as pool:
            os.kill(w().warden, signal.SIGSTOP)
            try:
                first = pool.submit(ask, "POST", f"{path}/{before[0]}", before[1]) if before else None
                time.sleep(0.1)
                answers = [pool.submit(ask, "DELETE", path) for _ in range(3)]
                time.sleep(0.3)  # they wait for the warden now
            finally:
                os.kill(w().warden, signal.SIGCONT)
            gone = {"code": 404, "message": f"Sandbox \"{box['sandboxID']}\" doesn't exist or you don't have access to it"}
            eq(sorted((x.result() for x in answers), key=str), [(204, None), (404, gone), (404, gone)], before)
            return first and first.result()[0]

    kills()
    for before in (("pause", {}), ("pause", {"memory": False}), ("snapshots", {})):
        ok(kills(before) in (201, 204, 404), "a request that a kill overtakes")


@test
def errors_name_the_fields_of_the_request():
    for fields, name in (({"templateID": 7}, "templateID:"), ({"templateID": ""}, "template"),
                         ({"templateID": "a b\n"}, "templateID:"), ({"templateID": "UPPER//x"}, "templateID:"),
                         ({"envVars": {"A=B": "x"}}, "envVars.A=B:"), ({"envVars": {"A": 1}}, "envVars.A:"),
                         ({"envVars": {"": "x"}}, "envVars"), ({"metadata": {"a": 1}}, "metadata.a:"),
                         ({"volumeMounts": [{"name": "none-such", "path": "/data"}]}, "volumeMounts[0]"),
                         ({"volumeMounts": [{"name": "none-such"}]}, "volumeMounts[0].path:"),
                         ({"volumeMounts": [{"name": "../x", "path": "/data"}]}, "volumeMounts[0].name:"),
                         ({"network": {"allowOut": ["not a host"]}}, "network.allowOut:"),
                         ({"network": {"allowOut": [1]}}, "network.allowOut[0]:"),
                         ({"allow_internet_access": True, "network": {"denyOut": ["http://x"]}}, "network.denyOut:"),
                         ({"network": {"rules": {"*": [{"transform": {"headers": {"A": "b"}}}]}}}, "network.rules:"),
                         ({"network": {"rules": {"a.org": [{"transform": {"headers": {"A b": "c"}}}]}}}, "network.rules:"),
                         ({"timeout": "x"}, "timeout:"), ({"autoResume": {"enabled": 1}}, "autoResume.enabled:"),
                         ({"unknown": 1}, "unknown:")):
        status, body = ask("POST", "/v2/sandboxes", {"templateID": "base", **fields})
        ok(status in (400, 404) and body["code"] == status, (fields, status, body))
        ok(body["message"].startswith(name), f"{fields}: {body['message']} does not begin with {name}")
        ok(not body["message"].startswith(V1_FIELDS), body)
    with sandbox() as box:
        status, body = ask("PUT", f"/sandboxes/{box['sandboxID']}/network", {"allowOut": ["not a host"]})
        eq((status, body["message"].split(":")[0]), (400, "network.allowOut"), body)
        r, body = refused("POST", STREAM, struct.pack(">BI", 0, 28) + b'{"process":{"cmd":"x","a":1}}'[:28].ljust(28),
                          {**plane(box), "Content-Type": "application/connect+json"})
        eq(r.status, 200)
        r, body = refused("POST", UNARY, b'{"path":1}', plane(box))
        eq(json.loads(body)["message"].split(":")[0], "path")


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
