#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-files.py - the data plane of E2B: uploads and downloads, users, browsers, input of commands"""
import base64
import contextlib
import gzip
import json
import os
import socket
import struct
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, ok, eq  # pylint: disable=wrong-import-position
from e2b_world import E2bWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position

WORLD = []
RAW = {"Content-Type": "application/octet-stream"}
FORM = {"Content-Type": "multipart/form-data; boundary=b"}
BODY_TIMEOUT = 1  # in seconds


def w():
    if not WORLD:
        WORLD.append(E2bWorld("--request-body-timeout", f"{BODY_TIMEOUT}s"))
    return WORLD[0]


class Sandbox:
    """A sandbox, and requests to its data plane."""

    def __init__(self):
        self.key = w().key()
        status, box = w().call("POST", "/v2/sandboxes", {"templateID": "base"}, X_API_Key=self.key)
        eq(status, 201)
        self.id = box["sandboxID"]
        self.headers = {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": "49983", "X-Access-Token": box["envdAccessToken"]}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        eq(w().call("DELETE", f"/sandboxes/{self.id}", X_API_Key=self.key)[0], 204)

    def ask(self, method, path, body=None, headers=None):
        with w().client(tcp=True) as c:
            return c.ask(method, path, body, headers={**self.headers, **(headers or {})})

    def write(self, path, data, headers=None):
        query = f"?path={urllib.parse.quote(path)}" if path else ""
        return self.ask("POST", f"/files{query}", data, {**RAW, **(headers or {})})

    def read(self, path, headers=None):
        return self.ask("GET", f"/files?path={urllib.parse.quote(path)}", headers=headers)

    def rpc(self, method, body, headers=None):
        return self.ask("POST", f"/filesystem.Filesystem/{method}", body, headers)


def form(*files):
    """The body of a form; each file is a name and its bytes."""
    parts = [f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + data + b"\r\n"
             for name, data in files]
    return b"".join(parts) + b"--b--\r\n"


def refused(reply, status, text=""):
    """Checks an error of /files, whose code is a number."""
    eq((reply.status, reply.json()["code"]), (status, status), f"{reply}")
    ok(text in reply.json()["message"], f"{text!r} is not in {reply}")


@test
def the_python_sdk_compresses_uploads():
    w().python("files.py", "sync")
    w().python("files.py", "async")


@test
def the_javascript_sdk_compresses_uploads():
    w().node("files.mjs")


@test
def the_python_sdk_sets_metadata_of_files():
    w().python("files.py", "metadata")


def entry(s, path):
    r = s.rpc("Stat", {"path": path})
    eq(r.status, 200, r)
    return r.json()["entry"]


@test
def names_in_forms_are_read_as_by_go():
    """The SDKs write '"' as %22, and Python's writes a backslash twice; Go does not decode percent sequences."""
    fine = {r'a\\b': "a\\b", r'C:\dev\new': "C:\\dev\\new", r'say \"x\"': 'say "x"', "a%22b %5C %0A%": "a%22b %5C %0A%", r"d/e\;f": "d/e;f",
            r"end\\": "end\\", "a;name=b": "a;name=b", "; filename=x": "; filename=x", "\u00e4/\u20ac": "\u00e4/\u20ac", r"\\\\": "\\\\"}
    with Sandbox() as s:
        for name, wanted in fine.items():
            r = s.write("", form((name, b"1")), FORM)
            eq((r.status, r.json()[0]["path"] if r.status == 200 else r.json()), (200, f"/home/user/{wanted}"))
            eq(s.read(wanted).body, b"1", wanted)

        def disposition(text):
            return s.write("", f"--b\r\nContent-Disposition: form-data; {text}\r\n\r\n2\r\n--b--\r\n".encode(), FORM)

        for text, wanted in (("name=file; filename=plain.txt", "plain.txt"), ("filename=\"first\" ; name=\"file\"", "first"),
                             ("name=\"file\"; filename=\"x\"; filename*=UTF-8''%C3%A4%20%22", "\u00e4 \""),
                             ("name=\"file\"; filename*=utf-8'en'y; filename=\"x\"", "y"),
                             ("name=\"file\"; other=\"filename=\\\"no\\\"\"; FileName=\"z\"", "z")):
            r = disposition(text)
            eq((r.status, r.json()[0]["path"] if r.status == 200 else r.json()), (200, f"/home/user/{wanted}"), text)
        for text in ("name=\"file\"; filename=\"x", "name=\"file\"; filename*=utf-16''x", "name=\"file\"; filename*=x", "filename=\"x\"",
                     "name=\"file\"; filename*=utf-8''%zz", f"name=\"file\"; filename=\"{'x' * 4096}\""):
            refused(disposition(text), 400, "form")
        # The path in the query counts, whatever the form says.
        r = s.ask("POST", "/files?path=asked", form((r"x\"y", b"3")), FORM)
        eq((r.json()[0]["path"], s.read("asked").body), ("/home/user/asked", b"3"))


@test
def metadata_of_files_are_attributes():
    with Sandbox() as s:
        tagged = {"X-Metadata-Key": "v 1", "x-metadata-OTHER": "~"}
        wanted = {"key": "v 1", "other": "~"}
        eq(s.write("f", b"x", tagged).json()[0]["metadata"], wanted)
        eq(s.write("", form(("a", b"1"), ("b", b"2")), {**FORM, **tagged}).json()[1]["metadata"], wanted)
        for path in ("f", "a", "b"):
            eq(entry(s, path)["metadata"], wanted)
        # Code in the sandbox sees and sets them, even to what no client could set.
        script = r'''import os
print(sorted((n, os.getxattr("/home/user/f", n)) for n in os.listxattr("/home/user/f") if n.startswith("user.")))
os.mkdir("/home/user/d")
for name, value in (("user.e2b.mine", "ü"), ("user.e2b.nul", b"a\0b"), ("user.e2b.bad", b"\xff"), ("user.e2b.a/b", b"x"), ("user.else", b"x"),
                    ("user.e2b.", b"x")):
    os.setxattr("/home/user/d", name, value.encode() if isinstance(value, str) else value)
'''
        got = w().run(s.id, ["python3", "-c", script], user="user")
        eq(got["stdout"], "[('user.e2b.key', b'v 1'), ('user.e2b.other', b'~')]\n", got)
        eq(entry(s, "d")["metadata"], {"mine": "ü"})
        r = s.rpc("ListDir", {"path": "/home/user", "depth": 1})
        eq({e["name"]: e.get("metadata") for e in r.json()["entries"] if e["name"] in "abdf"},
           {"a": wanted, "b": wanted, "d": {"mine": "ü"}, "f": wanted})
        ok("metadata" not in entry(s, "/etc/passwd"), "a file without any")
        # The attributes of others stay when the metadata are replaced.
        w().run(s.id, ["python3", "-c", "import os; os.setxattr('/home/user/f', 'user.else', b'x')"], user="user")
        eq(s.write("f", b"y").json(), [{"path": "/home/user/f", "name": "f", "type": "file"}])
        ok("metadata" not in entry(s, "f"), "it was cleared")
        got = w().run(s.id, ["python3", "-c", "import os; print(os.listxattr('/home/user/f'))"])
        eq(got["stdout"], "['user.else']\n", got)


@test
def metadata_have_limits():
    with Sandbox() as s:
        for headers in ({"X-Metadata-": "v"}, {"X-Metadata-" + "k" * 247: "v"}, {"X-Metadata-K": "v" * 4087},
                        {"X-Metadata-K": "\u00fc"}, {"X-Metadata-A": "x" * 2100, "X-Metadata-B": "x" * 2100}):
            refused(s.write("f", b"x", headers), 400, "metadata of a file")
        refused(s.read("f"), 404)
        longest = {"X-Metadata-" + "k" * 246: "v"}
        eq(s.write("f", b"x", longest).json()[0]["metadata"], {"k" * 246: "v"})
        eq(s.write("f", b"x", {"X-Metadata-K": "v" * 1000}).status, 200)


@test
def files_without_a_size_are_read():
    with Sandbox() as s:
        for path in ("/proc/cpuinfo", "/proc/meminfo", "/proc/version", "/proc/sys/kernel/hostname", "/proc/sys/kernel/osrelease",
                     "/proc/mounts", "/proc/self/mountinfo", "/proc/net/tcp", "/proc/1/cmdline", "/proc/1/limits"):
            got = s.read(path)
            eq(got.status, 200, got)
            eq(int(got.headers["content-length"]), len(got.body))
            if path not in ("/proc/cpuinfo", "/proc/meminfo"):  # these change all the time
                eq(got.body.decode(), w().run(s.id, ["cat", path])["stdout"], path)
            ok(len(got.body) > 3, f"{path}: {got.body}")
        eq(s.read("/proc/version", {"Range": "bytes=0-4"}).body, b"Linux")
        # Other files of processes stay closed: the process that reads them has secrets.
        for path in ("/proc/self/environ", "/proc/thread-self/mem", "/proc/1/maps", "/proc/self/status", "/proc/self/fd/3",
                     "/proc/self/../self/maps", "/proc/1/root/etc/passwd", "/proc/self/root/etc/passwd", "/proc/1/environ",
                     "/proc/thread-self/mounts", "/proc/self/net", "/proc/1/task/1/status"):
            ok(s.read(path).status in (400, 403, 404), f"{path}: {s.read(path)}")
        w().run(s.id, ["sh", "-c", "ln -s /proc/self /tmp/me; ln -s /proc/version /tmp/version"])
        ok(s.read("/tmp/me/maps").status in (400, 403, 404), "by a link")
        eq(s.read("/tmp/version").status, 200, "a link to a file of no process")
        for path in ("/proc/sys/kernel/hostname", "/proc/version", "/proc/new"):
            got = s.write(path, b"x")
            ok(400 <= got.status < 500, f"write to {path}: {got}")


@test
def an_unknown_user_is_an_error_of_authentication():
    w().python("files.py", "users")
    with Sandbox() as s:
        refused(s.ask("GET", "/files?path=/etc/passwd&username=missing"), 401, "invalid username: 'missing'")
        basic = {"Authorization": "Basic " + base64.b64encode(b"missing:").decode()}
        r = s.rpc("Stat", {"path": "/"}, basic)
        eq((r.status, r.json()["code"]), (401, "unauthenticated"))


@test
def forms_may_be_compressed_too():
    with Sandbox() as s:
        packed = gzip.compress(form(("a/x.txt", b"first"), ("y.txt", b"second" * 100000)))
        r = s.write("", packed, {**FORM, "Content-Encoding": "gzip"})
        eq([f["path"] for f in r.json()], ["/home/user/a/x.txt", "/home/user/y.txt"])
        eq((s.read("a/x.txt").body, s.read("y.txt").body), (b"first", b"second" * 100000))
        eq(s.write("z", gzip.compress(b"one") + gzip.compress(b"two"), {"Content-Encoding": "GZIP"}).status, 200)
        eq(s.read("z").body, b"onetwo", "two streams, one after the other")


@test
def damaged_compression_is_refused():
    with Sandbox() as s:
        packed = gzip.compress(os.urandom(100000))
        for body, text in ((b"not compressed", "not valid"), (packed[:-9], "not complete"), (packed[:5], "not complete"),
                           (packed[:50000] + b"x" * 1000 + packed[51000:], "not valid")):
            refused(s.write("f", body, {"Content-Encoding": "gzip"}), 400, text)
        refused(s.write("f", b"x", {"Content-Encoding": "br"}), 400, "use gzip")
        eq(s.write("f", packed, {"Content-Encoding": "gzip"}).status, 200, "the positive control")


@test
def compression_cannot_use_up_memory():
    """Bytes before the first part of a form are dropped, however many there are."""
    with Sandbox() as s:
        def api_rss():
            with open(f"/proc/{w().api}/status", encoding="ascii") as f:
                return int(f.read().split("VmRSS:")[1].split()[0]) << 10
        before = api_rss()
        bomb = gzip.compress(bytes(200 << 20) + b"\r\n" + form(("f", b"after all")))
        ok(len(bomb) < 1 << 20, "a bomb")
        r = s.write("", bomb, {**FORM, "Content-Encoding": "gzip"})
        ok(r.status in (200, 400), r)
        ok(api_rss() - before < 64 << 20, "the memory of the service grew")


@test
def each_path_is_written_once():
    with Sandbox() as s:
        refused(s.write("", form(("a", b"1"), ("b", b"2"), ("./a", b"3")), FORM), 400, "same path '/home/user/a'")
        refused(s.write("one", form(("a", b"1"), ("b", b"2")), FORM), 400, "same path '/home/user/one'")
        eq(s.write("one", form(("a", b"1")), FORM).json(), [{"path": "/home/user/one", "name": "one", "type": "file"}])


@test
def errors_of_files_have_numbers():
    with Sandbox() as s:
        refused(s.read("x" * 4090), 400, "too long")
        refused(s.write("x" * 4090, b"x"), 400, "too long")
        refused(s.read("missing"), 404, "path '/home/user/missing' does not exist")
        refused(s.read("/tmp"), 400, "path '/tmp' is a directory")
        refused(s.write("/tmp", b"x"), 400, "is a directory")
        refused(s.write("f", b"", {"Content-Type": "text/plain"}), 400, "must be")
        refused(s.write("f", b"", FORM), 400, "no end")
        eq(s.write("f", b"").status, 200, "an empty file")


@test
def browsers_get_the_name_of_a_file():
    with Sandbox() as s:
        for name, wanted in (("a-b.txt", "inline; filename=a-b.txt"),
                             ("ü \"1\".txt", "inline; filename*=utf-8''%C3%BC%20%221%22.txt"),
                             ("x\ny", "inline; filename*=utf-8''x%0Ay")):
            eq(s.write(f"/tmp/{name}", b"x").status, 200)
            r = s.read(f"/tmp/{name}", {"Range": "bytes=0-0"})
            eq((r.status, r.headers["content-disposition"]), (206, wanted))


@test
def a_client_that_accepts_only_compressed_files_is_refused():
    with Sandbox() as s:
        eq(s.write("f", b"x").status, 200)
        for value, status in (("identity;q=0", 406), ("gzip, *;q=0", 406), ("gzip, identity; q=0.000", 406),
                              ("gzip", 200), ("*;q=0, identity;q=0.1", 200), ("gzip;q=0", 200), ("", 200)):
            eq(s.read("f", {"Accept-Encoding": value}).status, status, value)


@test
def pages_of_every_origin_may_use_the_data_plane():
    page = {"Origin": "https://example.org"}
    preflight = {**page, "Access-Control-Request-Method": "POST"}
    with Sandbox() as s, w().client(tcp=True) as c:
        wanted = "authorization,content-type,e2b-sandbox-id,e2b-sandbox-port,x-access-token"
        for path, more in (("/files", {}), ("/process.Process/Start", {}), ("/filesystem.Filesystem/Stat", {}),
                           ("/health", {"Access-Control-Request-Headers": wanted}), ("/health", s.headers)):
            r = c.ask("OPTIONS", path, headers={**preflight, **more})
            eq((r.status, r.headers.get("access-control-allow-origin")), (204, "*"), f"{path} {more}")
            ok("POST" in r.headers["access-control-allow-methods"], r.headers)
            eq(r.headers.get("access-control-allow-headers"), more.get("Access-Control-Request-Headers"))
        for r in (s.ask("GET", "/health", headers=page), s.write("f", b"x", page), s.read("f", page),
                  s.rpc("Stat", {"path": "missing"}, page), s.ask("GET", "/files?path=f", headers={**page, "X-Access-Token": "x"})):
            eq(r.headers.get("access-control-allow-origin"), "*", r)
        ok("access-control-allow-origin" not in s.read("f").headers, "without an origin")
        # Everything else of the service is not for pages of other origins.
        for path in ("/v1/sandboxes", "/sandboxes", "/health", "/metrics", "/v2/sandboxes", "/v1/files"):
            with contextlib.closing(w().client(tcp=True).open()) as plain:
                plain.request("OPTIONS", path, headers=preflight)
                r = plain.getresponse()
                ok(r.status >= 400 and not r.getheader("Access-Control-Allow-Origin"), f"{path} {r.status} {r.getheaders()}")


def message(value):
    data = json.dumps(value).encode()
    return struct.pack(">BI", 0, len(data)) + data


def messages(data):
    """Yields the flags and the value of each message in @data."""
    while data:
        flags, n = struct.unpack(">BI", data[:5])
        yield flags, json.loads(data[5:5 + n])
        data = data[5 + n:]


class Input:
    """A request that writes to a command, message by message."""

    def __init__(self, sandbox, **headers):
        self.sock = socket.create_connection(("127.0.0.1", w().port), 20)
        lines = ["POST /process.Process/StreamInput HTTP/1.1", "Host: a", "Content-Type: application/connect+json",
                 "Transfer-Encoding: chunked", *(f"{k.replace('_', '-')}: {v}" for k, v in {**sandbox.headers, **headers}.items())]
        self.sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")

    def send(self, value):
        data = message(value)
        self.sock.sendall(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def answer(self):
        """Reads to the end of the response, in chunks; returns its status and its messages."""
        with self.sock.makefile("rb") as f:
            status = int(f.readline().split()[1])
            while f.readline().strip():
                pass
            body = b""
            while n := int(f.readline(), 16):
                body += f.read(n)
                f.readline()
        self.sock.close()
        return status, list(messages(body))


@contextlib.contextmanager
def command(sandbox, *argv):
    """Starts a command with input; yields its pid, and a function that reads its next event."""
    with w().client(tcp=True) as c:
        r = c.send("POST", "/process.Process/Start", message({"process": {"cmd": argv[0], "args": argv[1:]}, "stdin": True}),
                   {**sandbox.headers, "Content-Type": "application/connect+json"})

        def event():
            n = struct.unpack(">BI", r.read(5))[1]
            return json.loads(r.read(n))["event"]
        yield event()["start"]["pid"], event


@test
def the_input_of_a_command_may_pause():
    """A client sends a message every 50 seconds, which is longer than any other request may pause."""
    with Sandbox() as s, command(s, "/bin/cat") as (pid, event):
        stream = Input(s)
        stream.send({"start": {"process": {"pid": pid}}})
        for text in (b"one\n", b"two\n"):
            time.sleep(1.5 * BODY_TIMEOUT)
            stream.send({"keepalive": {}})
            time.sleep(1.5 * BODY_TIMEOUT)
            stream.send({"data": {"input": {"stdin": base64.b64encode(text).decode()}}})
            eq(base64.b64decode(event()["data"]["stdout"]), text)
        stream.sock.sendall(b"0\r\n\r\n")
        eq(stream.answer(), (200, [(0, {}), (2, {})]))
        # But not for longer than the client says, and another request may not pause at all.
        status, told = (stream := Input(s, Connect_Timeout_Ms=300)).answer()
        eq((status, [(f, m["error"]["code"]) for f, m in told]), (200, [(2, "deadline_exceeded")]))
        with socket.create_connection(("127.0.0.1", w().port), 20) as other:
            lines = [f"{k}: {v}" for k, v in {**s.headers, **RAW, "Content-Length": "9"}.items()]
            other.sendall("\r\n".join(["POST /files?path=f HTTP/1.1", "Host: a", *lines]).encode() + b"\r\n\r\nx")
            ok(other.recv(100).startswith(b"HTTP/1.1 408 "), "a file that stops")


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
