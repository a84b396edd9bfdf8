# SPDX-License-Identifier: Apache-2.0
"""net_harness.py - shared by the tests of src/net: the server program, and a client that sends raw bytes"""
import json
import os
import re
import select
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import traceback

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("WARREN_BUILD", os.path.join(SOURCE, "build"))
SERVER = os.path.join(BUILD, "test", "net-server")
WAIT = 20  # in seconds; no operation here takes as long
MIB = 1 << 20

tests = []
work = tempfile.TemporaryDirectory(prefix="warren-net-")


class Skip(Exception):
    pass


def test(f):
    tests.append(f)
    return f


def ok(condition, what):
    if not condition:
        raise AssertionError(what)


def eq(got, want, what="value"):
    if got != want:
        raise AssertionError(f"{what} is {got!r}, not {want!r}")


class Server:
    """The program, its ports, and a check at its end that no request was left open."""

    def __init__(self, *options, **kw):
        self.process = subprocess.Popen([SERVER, *map(str, options)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, **kw)
        self.port = self.tls = None
        while (line := self.line()) != "ready":
            name, _, value = line.partition(" ")
            setattr(self, name, int(value))

    def line(self):
        text = self.process.stdout.readline().decode()
        ok(text, "the server has ended")
        return text.strip()

    def order(self, text):
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.stdin.close()
        try:
            status = self.process.wait(WAIT)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
        if kind is None:
            eq(status, 0, "the server's status")

    def connect(self, **kw):
        return Client(socket.create_connection(("127.0.0.1", self.port), WAIT), **kw)

    def stats(self):
        with self.connect() as c:
            return json.loads(c.ask("GET", "/stats").body)

    def until(self, condition, what):
        """Waits until stats() match."""
        end = time.monotonic() + WAIT
        while not condition(stats := self.stats()):
            ok(time.monotonic() < end, f"{what}: {stats}")
            time.sleep(0.02)
        return stats

    def until_read(self, *clients):
        """Waits until the server has read everything that these have sent."""
        ends = {frozenset((self.port, c.sock.getsockname()[1])) for c in clients}
        end = time.monotonic() + WAIT
        while True:
            with open("/proc/net/tcp", encoding="ascii") as f:
                rows = [line.split() for line in f.readlines()[1:]]
            queues = [r[4] for r in rows if frozenset(int(a.split(":")[1], 16) for a in r[1:3]) in ends]
            if queues == ["00000000:00000000"] * 2 * len(clients):
                return
            ok(time.monotonic() < end, f"it is not read: {queues}")
            time.sleep(0.01)

    def rss(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return int(re.search(r"VmRSS:\s+(\d+) kB", f.read())[1]) << 10

    def sanitized(self):
        with open(f"/proc/{self.process.pid}/maps", encoding="utf-8") as f:
            return "asan" in f.read()


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


class Client:
    """A socket, and answers read from it strictly."""

    def __init__(self, sock):
        sock.settimeout(WAIT)
        self.sock, self.buffer = sock, b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def more(self):
        data = self.sock.recv(1 << 18)
        if not data:
            raise EOFError
        self.buffer += data

    def take(self, n):
        while len(self.buffer) < n:
            self.more()
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def until(self, mark):
        while mark not in self.buffer:
            self.more()
        data, _, self.buffer = self.buffer.partition(mark)
        return data

    def head(self):
        lines = self.until(b"\r\n\r\n").decode("latin1").split("\r\n")
        m = re.fullmatch(r"HTTP/1\.1 (\d{3}) [ -~]+", lines[0])
        ok(m, f"status line {lines[0]!r}")
        headers = {}
        for line in lines[1:]:
            name, colon, value = line.partition(": ")
            ok(colon and re.fullmatch(r"[A-Za-z0-9-]+", name), f"header {line!r}")
            ok(name.lower() not in headers, f"two of {name}")
            headers[name.lower()] = value
        return int(m[1]), headers

    def chunks(self):
        pieces = []
        while size := int(self.until(b"\r\n"), 16):
            pieces.append(self.take(size))
            eq(self.take(2), b"\r\n", "the end of a chunk")
        eq(self.take(2), b"\r\n", "the end of the chunks")
        return b"".join(pieces)

    def rest(self):
        try:
            while True:
                self.more()
        except EOFError:
            data, self.buffer = self.buffer, b""
            return data

    def answer(self, method="GET"):
        status, headers = self.head()
        if method == "HEAD" or status in (204, 304) or status < 200:
            return Reply(status, headers, b"")
        ok(not ("content-length" in headers and "transfer-encoding" in headers), "two framings")
        if "content-length" in headers:
            return Reply(status, headers, self.take(int(headers["content-length"])))
        if "transfer-encoding" in headers:
            return Reply(status, headers, self.chunks())
        return Reply(status, headers, self.rest())

    def ask(self, method, target, *headers, body=b"", version="1.1"):
        lines = [f"{method} {target} HTTP/{version}", "Host: test", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        return self.answer(method)

    def closed(self, seconds=WAIT):
        """Does the server close the connection without sending more?"""
        if self.buffer:
            return False
        ready, _, _ = select.select([self.sock], [], [], seconds)
        try:
            return bool(ready) and self.sock.recv(1) == b""
        except ConnectionError:
            return True


def certificate(name):
    """The paths of a certificate for localhost and its key."""
    if not shutil.which("openssl"):
        raise Skip("openssl is not installed")
    cert, key = (os.path.join(work.name, f"{name}.{kind}") for kind in ("crt", "key"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-days", "2", "-out", cert, "-keyout", key],
                   check=True, capture_output=True, timeout=60)
    return cert, key


def tls_client(server, cert, **kw):
    context = ssl.create_default_context(cafile=cert)
    for name, value in kw.items():
        setattr(context, name, value)
    return Client(context.wrap_socket(socket.create_connection(("127.0.0.1", server.tls), WAIT),
                                      server_hostname="127.0.0.1"))


def attempt(t):
    try:
        t()
    except Exception as why:
        return why


def explain(why):
    where = [f"{os.path.basename(f.filename)}:{f.lineno}"
             for f in traceback.extract_tb(why.__traceback__) if f.filename.startswith(SOURCE)]
    text = f"{type(why).__name__}: {why}".replace("\n", "\n# ")
    return f"# {' '.join(where)}: {text}"


def main():
    failed, names = 0, sys.argv[1:]
    chosen = [t for t in tests if not names or t.__name__ in names]
    with work:
        for n, t in enumerate(chosen, 1):
            why = attempt(t)
            if isinstance(why, Skip):
                print(f"ok {n} - {t.__name__} # SKIP {why}", flush=True)
            elif why:
                failed += 1
                print(explain(why))
                print(f"not ok {n} - {t.__name__}", flush=True)
            else:
                print(f"ok {n} - {t.__name__}", flush=True)
    print(f"1..{len(chosen)}")
    sys.exit(1 if failed else 0)
