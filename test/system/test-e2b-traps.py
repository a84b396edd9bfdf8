#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Details of E2B's protocol that SDKs depend on, tested with raw requests."""
import base64
import contextlib
import hashlib
import http.client
import json
import os
import re
import struct
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import test, ok, eq  # pylint: disable=wrong-import-position
from e2b_world import E2bWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from serve_world import until  # pylint: disable=wrong-import-position

WORLD = []
PLANE, STREAM = "49983", "application/connect+json"


def w():
    if not WORLD:
        WORLD.append(E2bWorld())
        WORLD[0].secret = None
    return WORLD[0]


def key():
    w().secret = w().secret or w().key()
    return w().secret


class Answer:
    """A response, with the names of its headers in lower case."""

    def __init__(self, r):
        self.status, self.body = r.status, r.read()
        self.headers = {k.lower(): v for k, v in r.getheaders()}

    def json(self):
        return json.loads(self.body)

    def messages(self):
        """The messages of a stream: (flags, object)."""
        found, rest = [], self.body
        while rest:
            flags, n = struct.unpack(">BI", rest[:5])
            found.append((flags, json.loads(rest[5:5 + n])))
            rest = rest[5 + n:]
        return found

    def __repr__(self):
        return f"{self.status} {self.headers} {self.body[:500]!r}"


def send(method, path, body=None, headers=None, **kw):
    """Sends a request; a body that is an iterator is sent in chunks. Returns the connection."""
    c = http.client.HTTPConnection("127.0.0.1", w().port, timeout=60)
    c.request(method, path, body, headers or {}, **kw)
    return c


def ask(method, path, body=None, headers=None, **kw):
    with contextlib.closing(send(method, path, body, headers, **kw)) as c:
        return Answer(c.getresponse())


def control(method, path, body=None, **headers):
    text = None if body is None else json.dumps(body)
    return ask(method, path, text, {"X-API-Key": key(), "Content-Type": "application/json", **headers})


@contextlib.contextmanager
def sandbox(**fields):
    r = control("POST", "/v2/sandboxes", {"templateID": "base", **fields})
    eq(r.status, 201, r)
    box = r.json()
    try:
        yield box
    finally:
        r = control("DELETE", f"/sandboxes/{box['sandboxID']}")
        ok(r.status in (204, 404), r)


def plane(box, port=PLANE, **more):
    return {"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": port, "X-Access-Token": box["envdAccessToken"], **more}


def rpc(box, method, message, **headers):
    return ask("POST", f"/{method}", json.dumps(message), plane(box, **{"Content-Type": "application/json", **headers}))


def framed(message):
    text = json.dumps(message).encode()
    return struct.pack(">BI", 0, len(text)) + text


def stream(box, method, message, **headers):
    return ask("POST", f"/{method}", framed(message), plane(box, **{"Content-Type": STREAM, **headers}))


def command(text, **fields):
    return {"process": {"cmd": "/bin/bash", "args": ["-c", text]}, "stdin": False, **fields}


def outcome(answer):
    """The output and the end of a command."""
    out, end = b"", None
    for _, m in answer.messages():
        event = m.get("event", {})
        out += base64.b64decode(event.get("data", {}).get("stdout", ""))
        end = event.get("end", end)
    return out.decode(), end


def run(box, text):
    r = stream(box, "process.Process/Start", command(text))
    out, end = outcome(r)
    ok(end is not None, r)
    return out


@test
def numbers_in_api_errors_and_words_in_rpc_errors():
    r = control("GET", "/sandboxes/000000000000")
    eq((r.status, r.json()["code"]), (404, 404))
    eq(r.json()["message"], 'Sandbox "000000000000" doesn\'t exist or you don\'t have access to it')
    eq(r.headers["content-type"], "application/json")
    for method, path, body, status in (
            ("POST", "/v2/sandboxes", {"templateID": 1}, 400), ("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 0}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "no-such-template"}, 404), ("PUT", "/v2/sandboxes", {}, 405),
            ("POST", "/sandboxes/000000000000/pause", {}, 404), ("DELETE", "/sandboxes/000000000000", None, 404)):
        r = control(method, path, body)
        eq((r.status, r.json()["code"]), (status, status), f"{method} {path}")
        ok(isinstance(r.json()["message"], str) and r.json()["message"], r)
    eq(ask("GET", "/v2/sandboxes").json()["code"], 401)
    with sandbox() as box:
        r = rpc(box, "filesystem.Filesystem/Stat", {"path": "/missing"})
        eq((r.status, r.json()["code"]), (404, "not_found"))
        r = rpc(box, "process.Process/SendSignal", {"process": {"pid": 99999}, "signal": "SIGNAL_SIGKILL"})
        eq((r.status, r.json()["code"], r.json()["message"]), (404, "not_found", "process with pid 99999 not found"))


@test
def an_error_of_a_stream_is_its_last_message():
    with sandbox() as box:
        r = stream(box, "process.Process/Connect", {"process": {"pid": 99999}})
        eq((r.status, r.headers["content-type"]), (200, STREAM))
        eq([(f, m["error"]["code"]) for f, m in r.messages()], [(2, "not_found")])
        good = stream(box, "process.Process/Start", command("echo hello"))
        eq(good.headers["content-type"], STREAM, "without a charset")
        eq(good.messages()[-1], (2, {}))
        eq(outcome(good), ("hello\n", {"exitCode": 0, "exited": True, "status": "exit status 0"}))
        failed = outcome(stream(box, "process.Process/Start", command("exit 3")))[1]
        eq(failed, {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"})
        killed = outcome(stream(box, "process.Process/Start", command("kill -9 $$")))[1]
        eq((killed["exitCode"], killed.get("exited", False), killed["status"]), (-1, False, "signal: killed"))


@test
def connect_tells_running_from_paused_and_never_shortens():
    with sandbox(timeout=3000) as box:
        at = f"/sandboxes/{box['sandboxID']}"
        end = control("GET", at).json()["endAt"]
        for version in ("", "/v2"):
            eq(control("POST", f"{version}{at}/connect", {"timeout": 15}).status, 200)
            eq(control("GET", at).json()["endAt"], end)
        eq(control("POST", f"{at}/connect", {"timeout": 6000}).status, 200)
        ok(control("GET", at).json()["endAt"] > end, f"a later end than {end}")
        eq(control("POST", f"{at}/pause", {}).status, 204)
        r = control("POST", f"{at}/pause", {})
        eq((r.status, r.json()["message"]),
           (409, f"Error pausing sandbox - sandbox '{box['sandboxID']}' is already paused"))
        r = control("POST", f"/v2{at}/connect", {})
        eq(r.status, 201)
        eq((r.json()["sandboxID"], r.json()["envdAccessToken"]), (box["sandboxID"], box["envdAccessToken"]))
        eq(run(box, "echo again"), "again\n")


@test
def a_sandbox_that_is_gone_or_paused_is_a_bad_gateway():
    with sandbox() as box:
        health = ("GET", "/health", None, plane(box))
        eq(ask(*health).status, 204)
        eq(control("POST", f"/sandboxes/{box['sandboxID']}/pause", {}).status, 204)
        gone = {"sandboxId": box["sandboxID"], "message": "The sandbox was not found", "code": 502}
        r = ask(*health)
        eq((r.status, r.json()), (502, gone))
        eq(control("POST", f"/sandboxes/{box['sandboxID']}/connect", {"timeout": 100}).status, 201)
        eq(ask(*health).status, 204)
        r = ask("GET", "/", None, plane(box, port="8000"))
        eq((r.status, r.json()), (502, {"sandboxId": box["sandboxID"], "port": 8000, "code": 502,
                                        "message": "The sandbox is running but port is not open"}))
        eq(control("DELETE", f"/sandboxes/{box['sandboxID']}").status, 204)
        for method, path in (("GET", "/health"), ("POST", "/process.Process/List"), ("GET", "/files?path=x")):
            r = ask(method, path, None if method == "GET" else "{}", plane(box))
            eq((r.status, r.json()), (502, gone), path)


@test
def the_end_of_a_sandbox_aborts_its_streams():
    with sandbox() as box:
        c = send("POST", "/process.Process/Start", framed(command("echo begun; sleep 1000")),
                 plane(box, **{"Content-Type": STREAM}))
        r = c.getresponse()
        head = r.read1()
        ok(b'"start"' in head, head)
        eq(control("DELETE", f"/sandboxes/{box['sandboxID']}").status, 204)
        try:
            rest = r.read()
        except http.client.IncompleteRead as e:
            rest = e.partial
        ok(b"\x02\0\0\0" not in head + rest, "the stream has no last message")
        c.close()


@test
def the_output_of_fast_commands_is_complete():
    with sandbox() as box:
        results = []

        def many():
            for i in range(25):
                r = stream(box, "process.Process/Start", command(f"echo {i}"))
                results.append(outcome(r) == (f"{i}\n", {"exitCode": 0, "exited": True, "status": "exit status 0"}))
        threads = [threading.Thread(target=many) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        eq(results, [True] * 100)


@test
def request_bodies_may_come_in_chunks():
    parts = lambda text: iter([text[:3], text[3:]])
    chunked = {"Transfer-Encoding": "chunked", "Content-Type": "application/json", "X-API-Key": key()}
    r = ask("POST", "/v2/sandboxes", parts(b'{"templateID":"base"}'), chunked, encode_chunked=True)
    eq(r.status, 201)
    box = r.json()
    more = {"Transfer-Encoding": "chunked"}
    r = ask("POST", "/process.Process/List", parts(b"{         }"), plane(box, **more, **{"Content-Type": "application/json"}),
            encode_chunked=True)
    eq(r.status, 200)
    r = ask("POST", "/files?path=a.txt", parts(b"content"), plane(box, **more, **{"Content-Type": "application/octet-stream"}),
            encode_chunked=True)
    eq(r.status, 200, r)
    eq(ask("GET", "/files?path=a.txt", None, plane(box)).body, b"content")
    eq(control("DELETE", f"/sandboxes/{box['sandboxID']}").status, 204)


@test
def a_form_has_whole_paths_and_the_answer_exact_keys():
    with sandbox() as box:
        form = b"".join(
            f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: text/x-odd\r\n\r\n'
            f'{text}\r\n'.encode() for name, text in (("/tmp/deep/er/one.txt", "1"), ("zwei ä.txt", "2"))) + b"--b--\r\n"
        r = ask("POST", "/files", form, plane(box, **{"Content-Type": "multipart/form-data; boundary=b"}))
        eq((r.status, r.json()), (200, [{"path": "/tmp/deep/er/one.txt", "name": "one.txt", "type": "file"},
                                        {"path": "/home/user/zwei ä.txt", "name": "zwei ä.txt", "type": "file"}]))
        eq(run(box, "cat /tmp/deep/er/one.txt '/home/user/zwei ä.txt'; stat -c %U-%a /tmp/deep /tmp/deep/er/one.txt"),
           "12user-755\nuser-644\n")


def signed(box, path, operation, user="", expires=None):
    raw = f"{path}:{operation}:{user}:{box['envdAccessToken']}" + (f":{expires}" if expires is not None else "")
    return "v1_" + base64.b64encode(hashlib.sha256(raw.encode()).digest()).decode().rstrip("=")


@test
def signed_addresses_need_no_header():
    with sandbox() as box, sandbox() as other:
        write = signed(box, "s.txt", "write").replace("+", "%2B").replace("/", "%2F")
        read = signed(box, "s.txt", "read").replace("+", "%2B").replace("/", "%2F")
        raw = {"Content-Type": "application/octet-stream"}
        eq(ask("POST", f"/files?path=s.txt&signature={write}", b"text", raw).status, 200)
        eq(ask("GET", f"/files?path=s.txt&signature={read}").body, b"text")
        for query, message in ((f"path=s.txt&signature={write}", "invalid signature"),
                               (f"path=other&signature={read}", "invalid signature")):
            r = ask("GET", f"/files?{query}", None, plane(box) | {"X-Access-Token": ""})
            eq(r.status, 401, query)
        late = int(time.time()) - 10
        expired = signed(box, "s.txt", "read", expires=late).replace("+", "%2B").replace("/", "%2F")
        headers = {k: v for k, v in plane(box).items() if k != "X-Access-Token"}
        r = ask("GET", f"/files?path=s.txt&signature={expired}&signature_expiration={late}", None, headers)
        eq((r.status, r.json()["message"]), (401, "signature is already expired"))
        r = ask("GET", "/files?path=s.txt", None, headers)
        eq((r.status, r.json()["message"]), (401, "missing signature query parameter"))
        r = ask("GET", "/files?path=s.txt", None, headers | {"X-Access-Token": other["envdAccessToken"]})
        eq((r.status, r.json()["message"]), (401, "access token present in header but does not match"))


@test
def metadata_is_decoded_three_times():
    with sandbox(metadata={"a": "b c", "k&=": "v%/ü"}) as box, sandbox(metadata={"a": "other"}):
        for query in ("a%3Db%252520c", "k%252526%25253D%3Dv%252525%25252F%2525C3%2525BC"):
            r = control("GET", f"/v2/sandboxes?metadata={query}&state=running%2Cpaused")
            eq(([x["sandboxID"] for x in r.json()], r.status), ([box["sandboxID"]], 200), query)
            ok("x-next-token" not in r.headers, "the last page")
        eq(control("GET", "/v2/sandboxes?template=no-such-template").json(), [])
        eq(len(control("GET", "/v2/sandboxes?template=base").json()), 2)
        r = control("GET", "/v2/sandboxes?limit=1")
        ok(r.headers["x-next-token"], r)


@test
def servers_in_a_sandbox_see_the_host_of_the_client():
    server = ("import socket; s = socket.create_server(('127.0.0.1', 8000)); open('/tmp/up', 'w')\n"
              "while True:\n c = s.accept()[0]; d = c.recv(65536)\n"
              " c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n' % len(d) + d); c.close()")
    with sandbox() as box:
        w().exec(box["sandboxID"], ["python3", "-c", server])
        until(lambda: "up" in run(box, "ls /tmp"), "the server")
        r = ask("GET", "/x?y=1", None, plane(box, port="8000", Host="example.test"))
        eq(r.status, 200, r)
        ok(b"GET /x?y=1 HTTP/1.1\r\n" in r.body, r)
        ok(b"\r\nHost: example.test\r\n" in r.body, f"the name is capitalised: {r}")


@test
def a_sandbox_has_its_own_loopback_pids_and_boot():
    with sandbox() as box:
        eq(run(box, "python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); "
                    "socket.create_connection(s.getsockname()); print(\"up\")'"), "up\n")
        c = send("POST", "/process.Process/Start", framed(command("echo $$; exec sleep 1000")),
                 plane(box, **{"Content-Type": STREAM}))
        r, seen = c.getresponse(), b""
        while b'"data"' not in seen:
            seen += r.read1()
        pid = json.loads(seen[5:5 + struct.unpack(">I", seen[1:5])[0]])["event"]["start"]["pid"]
        eq(run(box, f"kill -0 {pid} && echo yes"), "yes\n", "a pid of the sandbox")
        c.close()
        eq(run(box, f"kill -0 {pid} && echo yes"), "yes\n", "the client left, the command stays")
        eq(rpc(box, "process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}).status, 200)
        boot, at = run(box, "cat /proc/sys/kernel/random/boot_id"), f"/sandboxes/{box['sandboxID']}"
        eq(control("POST", f"{at}/pause", {"memory": True}).status, 204)
        eq(control("POST", f"{at}/connect", {"timeout": 100}).status, 201)
        eq(run(box, "cat /proc/sys/kernel/random/boot_id"), boot)
        eq(control("POST", f"{at}/pause", {"memory": False}).status, 204)
        eq(control("GET", at).json()["pauseMode"], "filesystem")
        eq(control("POST", f"{at}/connect", {"timeout": 100}).status, 201)
        ok(run(box, "cat /proc/sys/kernel/random/boot_id") != boot, "it is another boot")


@test
def the_version_allows_all_that_sdks_ask_for():
    with sandbox() as box:
        eq(box["envdVersion"], "0.9.1")
        eq(sorted(k for k in ("clientID", "envdAccessToken", "sandboxID", "templateID") if box.get(k)),
           ["clientID", "envdAccessToken", "sandboxID", "templateID"])
        ok(box["sandboxID"].isalnum(), box)
        listed = control("GET", "/v2/sandboxes").json()[0]
        for field in ("clientID", "cpuCount", "diskSizeMB", "endAt", "envdVersion", "memoryMB", "sandboxID", "startedAt", "state",
                      "templateID"):
            ok(field in listed, f"{field} in {listed}")
        eq(control("GET", f"/sandboxes/{box['sandboxID']}-old").status, 200, "the id with that of a client")


@test
def a_timeout_ends_the_command_that_was_started_with_it():
    with sandbox() as box:
        r = stream(box, "process.Process/Start", command("exec sleep 1000"), **{"Connect-Timeout-Ms": "300"})
        flags, last = r.messages()[-1]
        eq((flags, last["error"]["code"]), (2, "deadline_exceeded"))
        until(lambda: rpc(box, "process.Process/List", {}).json().get("processes", []) == [], "the end of the command")
        pid = None
        c = send("POST", "/process.Process/Start", framed(command("exec sleep 1000")), plane(box, **{"Content-Type": STREAM}))
        first = c.getresponse().read1()
        pid = json.loads(first[5:5 + struct.unpack(">I", first[1:5])[0]])["event"]["start"]["pid"]
        r = stream(box, "process.Process/Connect", {"process": {"pid": pid}}, **{"Connect-Timeout-Ms": "300"})
        eq(r.messages()[-1][1]["error"]["code"], "deadline_exceeded")
        eq([p["pid"] for p in rpc(box, "process.Process/List", {}).json()["processes"]], [pid], "only the stream ended")
        c.close()


@test
def snapshots_are_deleted_by_their_encoded_names():
    with sandbox() as box:
        r = control("POST", f"/sandboxes/{box['sandboxID']}/snapshots", {"name": "trap-one"})
        eq(r.status, 201, r)
        name = r.json()["snapshotID"]
        path = "/templates/" + name.replace(":", "%3A").replace("/", "%2F")
        eq(control("DELETE", path).status, 204, name)
        eq(control("DELETE", path).status, 404, "it is gone")


@test
def each_version_has_its_default_time():
    for path, seconds in (("/sandboxes", 15), ("/v2/sandboxes", 300)):
        r = control("POST", path, {"templateID": "base"})
        eq(r.status, 201)
        shown = w().show(r.json()["sandboxID"])
        eq(shown["ttl_ms"], seconds * 1000, path)
        eq(control("DELETE", f"/sandboxes/{r.json()['sandboxID']}").status, 204)
    with sandbox(timeout=1000) as box:
        r = control("POST", f"/sandboxes/{box['sandboxID']}/fork", {})
        eq((r.status, len(r.json())), (201, 1))
        copy = r.json()[0]["sandbox"]
        end, now = control("GET", f"/sandboxes/{copy['sandboxID']}").json()["endAt"], control(
            "GET", f"/sandboxes/{box['sandboxID']}").json()["endAt"]
        ok(end < now, f"the copy ends at {end}, its source at {now}")
        eq(control("DELETE", f"/sandboxes/{copy['sandboxID']}").status, 204)


@test
def refusals_that_will_not_heal_say_so():
    r = control("POST", "/v2/sandboxes", {"templateID": "base", "timeout": -1})
    eq((r.status, r.headers.get("should-retry"), r.headers.get("retry-after")), (400, "false", None))


@test
def input_is_streamed():
    with sandbox() as box:
        c = send("POST", "/process.Process/Start",
                 framed({"process": {"cmd": "/bin/bash", "args": ["-c", "read a; echo got $a; read b; echo and $b"]}}),
                 plane(box, **{"Content-Type": STREAM}))
        r = c.getresponse()
        first = r.read1()
        pid = json.loads(first[5:5 + struct.unpack(">I", first[1:5])[0]])["event"]["start"]["pid"]

        def parts():
            yield framed({"start": {"process": {"pid": pid}}})
            yield framed({"data": {"input": {"stdin": base64.b64encode(b"one\n").decode()}}})
            yield framed({"keepalive": {}})
            yield framed({"data": {"input": {"stdin": base64.b64encode(b"two\n").decode()}}})
        sent = ask("POST", "/process.Process/StreamInput", parts(),
                   plane(box, **{"Content-Type": STREAM, "Transfer-Encoding": "chunked"}), encode_chunked=True)
        eq((sent.status, sent.messages()), (200, [(0, {}), (2, {})]))
        text = first + r.read()
        data = "".join(base64.b64decode(m).decode() for m in re.findall(rb'"stdout":"([^"]+)"', text))
        eq(data, "got one\nand two\n")
        c.close()


@test
def identity_and_null_mean_nothing():
    with sandbox(metadata=None, envVars=None, timeout=None) as box:
        r = rpc(box, "process.Process/List", {}, **{"Content-Encoding": "identity", "Accept-Encoding": "identity"})
        eq(r.status, 200, r)
        r = stream(box, "process.Process/Start", command("echo x", tag=None, pty=None),
                   **{"Connect-Content-Encoding": "identity", "Connect-Accept-Encoding": "identity",
                      "Accept-Encoding": "zstd,gzip,br"})
        eq(outcome(r)[0], "x\n")
        ok("content-encoding" not in r.headers, r)


@test
def a_key_without_exec_and_files_does_not_open_a_sandbox():
    with sandbox() as box:
        at = f"/sandboxes/{box['sandboxID']}"
        for scopes in (("read",), ("read", "write"), ("read", "write", "exec"), ("read", "write", "files")):
            weak = w().key(*scopes)
            for method, path in (("POST", "/v2/sandboxes"), ("POST", "/sandboxes"), ("POST", f"{at}/connect"),
                                 ("POST", f"/v2{at}/connect"), ("POST", f"{at}/fork"), ("POST", f"{at}/resume")):
                r = control(method, path, {}, **{"X-API-Key": weak})
                eq((r.status, "Token" in r.body.decode()), (403, False), f"{path} with {scopes}")
            r = control("GET", at, **{"X-API-Key": weak})
            eq((r.status, r.json().get("envdAccessToken")), (200, None), scopes)
        eq(control("GET", at).json()["envdAccessToken"], box["envdAccessToken"])


@test
def contexts_of_sandboxes_of_other_apis_are_not_public():
    plain = w().create()
    with sandbox() as box:
        for sandbox_id, status in ((plain, 502), (box["sandboxID"], 200)):
            r = ask("GET", "/contexts", None, {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": "49999"})
            eq(r.status, status, r)
    w().delete(plain)


@test
def watches_beyond_a_quota_are_refused():
    with sandbox() as one, sandbox() as two, sandbox() as three:
        answers = [rpc(box, "filesystem.Filesystem/CreateWatcher", {"path": "/tmp"}) for box in (one, two, three)
                   for _ in range(60)]
        refused = {r.json()["message"] for r in answers if (r.status, r.json().get("code")) == (429, "resource_exhausted")}
        eq([r for r in answers if r.status not in (200, 429)], [])
        ok(any("cannot have more" in m for m in refused), refused)


@test
def a_watch_ends_with_many_changes_waiting():
    with sandbox() as box:
        run(box, "mkdir -p /tmp/w")
        r = rpc(box, "filesystem.Filesystem/CreateWatcher", {"path": "/tmp/w", "includeEntry": True})
        eq(r.status, 200, r)
        run(box, "cd /tmp/w; touch $(seq 3500)")
        eq(control("DELETE", f"/sandboxes/{box['sandboxID']}").status, 204)
    with sandbox() as box:
        eq(run(box, "echo alive"), "alive\n")


def start(box, script):
    """Starts a command; returns the open response and the pid."""
    c = send("POST", "/process.Process/Start", framed({"process": {"cmd": "/bin/sh", "args": ["-c", script]}, "stdin": True}),
             plane(box, **{"Content-Type": STREAM}))
    first = c.getresponse().read1()
    return c, json.loads(first[5:5 + struct.unpack(">I", first[1:5])[0]])["event"]["start"]["pid"]


def input_and_leave(box, pid, size):
    """Sends input, and leaves if there is no answer soon. Returns the status and the message, or None."""
    c = send("POST", "/process.Process/SendInput",
             json.dumps({"process": {"pid": pid}, "input": {"stdin": base64.b64encode(b"x" * size).decode()}}),
             plane(box, **{"Content-Type": "application/json"}))
    c.sock.settimeout(0.3)
    try:
        r = c.getresponse()
        return r.status, json.loads(r.read()).get("message", "")
    except TimeoutError:
        return None
    finally:
        c.close()


@test
def input_that_no_command_of_a_tenant_reads_is_limited():
    with sandbox() as box:
        started, refused = [], None
        while not refused and len(started) < 120:
            started.append(start(box, "sleep 1000"))
            input_and_leave(box, started[-1][1], 2_900_000)
            refused = input_and_leave(box, started[-1][1], 2_900_000)
        eq((refused or (None, ""))[0], 429, f"after {len(started)} commands")
        ok("memory for data that waits is used up" in refused[1] and len(started) > 4, refused)
        for c, _ in started:
            c.close()
    with sandbox() as box:  # the positive control: the memory is free again
        c, pid = start(box, "sleep 1000")
        eq(input_and_leave(box, pid, 2_900_000), None)
        c.close()


@test
def input_that_a_command_does_not_read_is_limited():
    with sandbox() as box:
        c = send("POST", "/process.Process/Start",
                 framed({"process": {"cmd": "/bin/sh", "args": ["-c", "while [ ! -e /tmp/go ]; do sleep 0.1; done; wc -c"]}}),
                 plane(box, **{"Content-Type": STREAM}))
        first = c.getresponse().read1()
        pid = json.loads(first[5:5 + struct.unpack(">I", first[1:5])[0]])["event"]["start"]["pid"]
        message = json.dumps({"process": {"pid": pid}, "input": {"stdin": base64.b64encode(b"x" * 700000).decode()}})
        statuses = []
        for _ in range(20):  # a client that leaves without an answer
            part = send("POST", "/process.Process/SendInput", message, plane(box, **{"Content-Type": "application/json"}))
            part.sock.settimeout(0.3)
            try:
                statuses.append(part.getresponse().status)
            except TimeoutError:
                statuses.append(None)
            part.close()
        ok(statuses[0] is None and statuses[-1] == 429, statuses)
        small = json.dumps({"process": {"pid": pid}, "input": {"stdin": "eA=="}})
        eq(rpc(box, "process.Process/CloseStdin", {"process": {"pid": 99999}}).status, 404)
        r = ask("POST", "/process.Process/SendInput", message, plane(box, **{"Content-Type": "application/json"}))
        eq((r.status, r.json()["code"]), (429, "resource_exhausted"))
        run(box, "touch /tmp/go")
        until(lambda: ask("POST", "/process.Process/SendInput", small,
                          plane(box, **{"Content-Type": "application/json"})).status == 200, "room for input")
        c.close()


@test
def a_restriction_does_not_open_the_network():
    def policy(**fields):
        with sandbox(**fields) as box:
            kind = w().show(box["sandboxID"])["network"]
            shown = w().get(f"/v1/sandboxes/{box['sandboxID']}/network").get("policy") or {}
            return kind if kind == "loopback" else [[rule.get("host", rule) for rule in shown[k]] for k in ("allow", "deny")]
    eq(policy(network={"denyOut": ["1.1.1.1"]}), "loopback")
    eq(policy(network={"allowOut": ["example.com"]}), [["example.com"], []])
    eq(policy(allow_internet_access=True, network={"denyOut": ["1.1.1.1"]}), [[{"public": True}], ["1.1.1.1"]])
    r = control("POST", "/v2/sandboxes", {"templateID": "base", "allow_internet_access": True, "network": {"allow_internet_access": False}})
    eq(r.status, 400, r)


@test
def a_template_that_was_never_built_hides_nothing():
    r = control("POST", "/v3/templates", {"name": "base"})
    eq(r.status, 202, r)
    with sandbox() as box:
        eq(run(box, "echo alive"), "alive\n")
    eq(control("DELETE", f"/templates/{r.json()['templateID']}").status, 204)


@test
def settings_that_are_not_supported_are_refused():
    with sandbox() as box:
        for user, status in (("!!!", 401), (base64.b64encode(b"user\0:").decode(), 401), ("A" * 5000, 401),
                             (base64.b64encode(b"root:").decode(), 200)):
            r = rpc(box, "filesystem.Filesystem/Stat", {"path": "/"}, Authorization=f"Basic {user}")
            eq(r.status, status, user[:20])
        for timeout in ("abc", "-1", "1.5", "9" * 30):
            r = rpc(box, "process.Process/List", {}, **{"Connect-Timeout-Ms": timeout})
            eq((r.status, r.json()["code"]), (400, "invalid_argument"), timeout)
        r = stream(box, "process.Process/Start", command("true"), **{"Connect-Content-Encoding": "gzip"})
        eq([(f, m["error"]["code"]) for f, m in r.messages()], [(2, "unimplemented")])
        eq(ask("GET", "/files?path=a%00b", None, plane(box)).status, 400)
        eq(control("GET", "/v2/sandboxes?template=a:b").status, 400)


@test
def a_request_has_the_type_of_its_method_and_one_message():
    with sandbox() as box:
        for method, types, wanted in (("process.Process/List", ("application/proto", "application/connect+json", "text/plain", "application/jsonx", ""),
                                       "application/json"),
                                      ("filesystem.Filesystem/WatchDir", ("application/connect+proto", "application/json", "text/plain", ""), STREAM),
                                      ("process.Process/StreamInput", ("application/json", ""), STREAM),
                                      ("process.Process/Start", ("application/connect+proto", "application/json", ""), STREAM)):
            for kind in types:
                body = framed(command("touch /tmp/never")) if wanted == STREAM else b"{}"
                r = ask("POST", f"/{method}", body, plane(box, **({"Content-Type": kind} if kind else {})))
                eq((r.status, r.headers.get("accept-post"), r.json()["code"]), (415, wanted, "invalid_argument"), f"{method} {kind!r}")
        for kind in ("application/json", "Application/JSON; charset=utf-8"):  # positive controls
            eq(rpc(box, "process.Process/List", {}, **{"Content-Type": kind}).status, 200, kind)
        eq(stream(box, "process.Process/Start", command("true"), **{"Content-Type": f"{STREAM}; charset=utf-8"}).messages()[-1], (2, {}))
        two = framed(command("touch /tmp/first")) + framed(command("touch /tmp/second"))
        r = ask("POST", "/process.Process/Start", two, plane(box, **{"Content-Type": STREAM}))
        eq([(f, m["error"]["code"]) for f, m in r.messages()], [(2, "invalid_argument")])
        for body in (b"{}{}", b'{"path":"/"} {"path":"/"}', b"{} x"):
            r = ask("POST", "/filesystem.Filesystem/Stat", body, plane(box, **{"Content-Type": "application/json"}))
            eq((r.status, r.json()["code"]), (400, "invalid_argument"), body)
        eq(run(box, "ls /tmp"), "", "a command of a refused request has run")


@test
def strangers_do_not_resume_a_sandbox():
    with sandbox(autoPause=True, autoResume={"enabled": True}, network={"allowPublicTraffic": False}) as box:
        at = f"/sandboxes/{box['sandboxID']}"
        stranger = {k: v for k, v in plane(box).items() if k != "X-Access-Token"}
        eq(control("POST", f"{at}/pause", {}).status, 204)
        for path, status in (("/health", 502), ("/files?path=x", 401), ("/files?path=x&signature=v1_x", 401)):
            eq(ask("GET", path, None, stranger).status, status, path)
            eq(control("GET", at).json()["state"], "paused", path)
        eq(ask("GET", "/health", None, plane(box)).status, 204)
        eq(control("GET", at).json()["state"], "running")


@test
def the_controls_of_envd_are_not_reachable():
    with sandbox() as box:
        for path in ("/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw", "/upgrade"):
            ok(ask("POST", path, "{}", plane(box)).status in (403, 404), path)
        eq(ask("GET", "/envs", None, plane(box)).status, 200)


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
