#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-http2-clients.py - HTTP/2 with clients that others have written: curl, httpx, node and h2load

Prints TAP. Everything is on loopback; each test has a separate server.
"""
import concurrent.futures
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import threading
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from net_harness import MIB, Skip, eq, main, ok, test, work  # pylint: disable=wrong-import-position
from h2_raw import H2Server, get  # pylint: disable=wrong-import-position

# Debian's Python: the one on the PATH may be another.
PYTHON = "/usr/bin/python3"
LARGE = 50 * 1000 * 1000

HTTPX = r"""
import asyncio, hashlib, sys
import httpx

LARGE = 50 * 1000 * 1000

async def pieces():
    for _ in range(LARGE // 50000):
        yield b"u" * 50000

async def main(url, cert):
    async with httpx.AsyncClient(http2=True, verify=cert, base_url=url, timeout=120) as client:
        r = await client.get("/about/")
        assert (r.http_version, r.json()["version"]) == ("HTTP/2", 20), r
        r = await client.post("/echo", content=b"abc")
        assert r.content == b"abc"
        r = await client.post("/echo?max=10", content=b"x" * 100)
        assert r.status_code == 413, r

        async def small():
            for _ in range(50):
                assert (await client.get("/hello")).text == "hello\n"

        async def up():
            want = hashlib.sha256(b"u" * LARGE).hexdigest()
            assert (await client.put("/sum", content=pieces())).text == f"{LARGE} {want}"

        async def down(what):
            n = 0
            async with client.stream("GET", f"/{what}?n={LARGE}") as r:
                async for piece in r.aiter_bytes():
                    n += len(piece)
            assert n == LARGE, n

        await asyncio.gather(up(), up(), down("chunks"), down("sized"), *[small() for _ in range(10)])
        async with client.stream("GET", "/events") as r:  # left in the middle
            async for piece in r.aiter_bytes():
                assert piece == b"first\n"
                break
        assert (await client.get("/stats")).json()["open"] <= 2

asyncio.run(main(*sys.argv[1:]))
"""

NODE = r"""
const http2 = require("http2"), fs = require("fs"), crypto = require("crypto");
const [url, cert] = process.argv.slice(2);
const client = http2.connect(url, { ca: fs.readFileSync(cert), maxSessionMemory: 100 });

function ask(headers, body) {
	return new Promise((resolve, reject) => {
		const req = client.request(headers);
		let status, got = [];
		req.on("response", (h) => { status = h[":status"]; });
		req.on("data", (d) => got.push(d));
		req.on("end", () => resolve({ status, body: Buffer.concat(got) }));
		req.on("error", reject);
		req.end(body);
	});
}

function assert(condition, what) {
	if (!condition)
		throw new Error(what);
}

async function main() {
	const up = Buffer.alloc(20000000, "n");
	const want = crypto.createHash("sha256").update(up).digest("hex");
	const answers = await Promise.all([
		ask({ ":path": "/sum", ":method": "PUT" }, up),
		ask({ ":path": "/chunks?n=20000000" }),
		...Array.from({ length: 100 }, (_, i) => ask({ ":path": "/echo", ":method": "POST" }, "m" + i)),
	]);
	assert(answers[0].body.toString() === `20000000 ${want}`, "up");
	assert(answers[1].body.length === 20000000, "down");
	for (let i = 0; i < 100; i++)
		assert(answers[2 + i].body.toString() === "m" + i, "echo");
	const failed = await ask({ ":path": "/sized?n=10&lie=1" }).then(() => null, (e) => e);
	assert(failed, "an answer that was cut off");
	const gone = client.request({ ":path": "/events" });
	await new Promise((resolve) => gone.once("data", resolve));
	gone.close(http2.constants.NGHTTP2_CANCEL);
	assert((await ask({ ":path": "/hello" })).body.toString() === "hello\n", "afterwards");
	client.close();
}

main().catch((e) => { console.error(e); process.exit(1); });
"""


def run(*command, data=None, seconds=120):
    r = subprocess.run(command, input=data, timeout=seconds, check=False, capture_output=True)
    ok(r.returncode == 0, f"{command[0]}: status {r.returncode}: {r.stderr.decode()[-2000:]}")
    return r.stdout


def need(program):
    path = shutil.which(program)
    if not path:
        raise Skip(f"{program} is not installed")
    return path


def url_of(server):
    return f"https://127.0.0.1:{server.tls}"


@test
def curl_works_as_a_client():
    curl = need("curl")
    if b"HTTP2" not in run(curl, "--version"):
        raise Skip("curl does not support HTTP/2")
    with H2Server() as server:
        url = url_of(server)
        def ask(*args, data=None):
            return run(curl, "-sS", "--fail", "--http2", "--cacert", server.cert, *args, data=data)
        eq(ask("-w", "%{http_version}", url + "/hello"), b"hello\n2")
        eq(ask("--http1.1", "-w", "%{http_version}", url + "/hello"), b"hello\n1.1", "without HTTP/2")
        eq(ask("-d", "a=b", url + "/echo"), b"a=b")
        eq(len(ask(url + "/chunks?n=5000000")), 5000000)
        data = os.urandom(3 * MIB)
        want = f"{len(data)} {hashlib.sha256(data).hexdigest()}"
        eq(ask("-T", "-", url + "/sum", data=data).decode(), want, "of unknown length")
        eq(ask("--data-binary", "@-", url + "/sum", data=data).decode(), want, "of known length")
        with open("/proc/self/exe", "rb") as f:
            program = f.read()
        path = os.path.realpath("/proc/self/exe")
        eq(ask(url + "/file" + path), program, "a file")
        eq(ask(f"{url}/file{path}?off=100&n=50"), program[100:150], "a part of it")
        eq(json.loads(ask("-b", "a=1; b=2", url + "/about/"))["headers"]["cookie"], "a=1; b=2")


@test
def httpx_works_as_a_client():
    if subprocess.run([PYTHON, "-c", "import httpx, h2"], capture_output=True, check=False).returncode:
        raise Skip("python3-httpx or python3-h2 is not installed")
    with H2Server() as server:
        before = server.rss()
        run(PYTHON, "-c", HTTPX, url_of(server), server.cert, seconds=300)
        ok(server.sanitized() or server.rss() - before < 16 * MIB, "memory grew")
        server.until(lambda s: s["open"] == 1, "all closed")


@test
def node_works_as_a_client():
    node = need("node")
    with H2Server() as server:
        path = os.path.join(work.name, "client.js")
        with open(path, "w", encoding="ascii") as f:
            f.write(NODE)
        run(node, path, url_of(server), server.cert, seconds=300)
        server.until(lambda s: s["open"] == 1, "all closed")


@test
def h2load_is_served():
    h2load = need("h2load")
    with H2Server() as server:
        before = server.rss()
        for args in (("-n", "1000", "-c", "1", "-m", "100"), ("-n", "20000", "-c", "20", "-m", "100")):
            text = run(h2load, *args, url_of(server) + "/hello").decode()
            n = int(args[1])
            ok(f"{n} succeeded, 0 failed, 0 errored, 0 timeout" in text and f"{n} 2xx" in text, text)
        ok(server.sanitized() or server.rss() - before < 32 * MIB, f"memory grew by {server.rss() - before}")
        server.until(lambda s: s["connections"] == 1, "all closed")


@test
def large_transfers_and_small_requests_share_connections():
    """Uploads and downloads of 50 MB at once, with small requests in between."""
    h2load, curl = need("h2load"), need("curl")
    with H2Server() as server:
        url, path = url_of(server), os.path.join(work.name, "large")
        with open(path, "wb") as f:
            f.write(b"f" * LARGE)
        want = hashlib.sha256(b"f" * LARGE).hexdigest()
        before = server.rss()
        def transfer(*args):
            return run(curl, "-sS", "--fail", "--http2", "--cacert", server.cert, *args, seconds=300)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            ups = [pool.submit(transfer, "-T", path, url + "/sum") for _ in range(2)]
            downs = [pool.submit(transfer, "-o", f"{path}.{i}", target) for i, target in
                     enumerate((f"{url}/file{path}", f"{url}/sized?n={LARGE}"))]
            small = pool.submit(run, h2load, "-n", "2000", "-c", "2", "-m", "20", url + "/hello", seconds=300)
            for up in ups:
                eq(up.result().decode(), f"{LARGE} {want}")
            for down in downs:
                down.result()
            ok("2000 succeeded" in small.result().decode(), "small requests")
        with open(f"{path}.0", "rb") as f:
            eq(hashlib.sha256(f.read()).hexdigest(), want, "the file")
        eq(os.path.getsize(f"{path}.1"), LARGE, "the other")
        ok(server.sanitized() or server.rss() - before < 24 * MIB, f"memory grew by {server.rss() - before}")


class Echo(http.server.BaseHTTPRequestHandler):
    """A server behind the proxy that tells what it got."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        text = json.dumps([self.command, self.path, dict(self.headers.items()), len(body),
                           hashlib.sha256(body).hexdigest()]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Keep-Alive", "timeout=5")
        self.send_header("X-Upper-Case", "Yes")
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_POST = answer


@test
def requests_are_forwarded_to_servers_of_http_1():
    curl = need("curl")
    upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=upstream.serve_forever)
    thread.start()
    try:
        with H2Server() as server:
            base = f"{url_of(server)}/proxy/{upstream.server_port}"
            def ask(*args, data=None):
                return run(curl, "-sS", "--fail", "--http2", "--cacert", server.cert, *args, data=data)
            method, path, headers, n, _ = json.loads(ask("-b", "a=1", base + "/x?y=z"))
            eq((method, path, n), ("GET", "/x?y=z", 0))
            eq((headers["X-Forwarded-Proto"], headers["cookie"], headers["Connection"]), ("https", "a=1", "close"))
            data = os.urandom(2 * MIB)
            for args in (("-T", "-"), ("--data-binary", "@-")):
                _, _, headers, n, digest = json.loads(ask(*args, base + "/up", data=data))
                eq((n, digest), (len(data), hashlib.sha256(data).hexdigest()), "body")
            head = ask("-D", "-", "-o", "/dev/null", base + "/").decode()
            ok("x-upper-case: Yes" in head and "keep-alive" not in head.lower(), head)
            with server.raw() as c:
                eq(c.ask(f"/proxy/{upstream.server_port}/", extra=[("x-a", "b")])[0], 200)
                eq(c.ask("/proxy/1/")[0], 502, "nothing listens there")
                streams = [c.request(get(f"/proxy/{upstream.server_port}/{i}")) for i in range(20)]
                for i, s in enumerate(streams):
                    eq(json.loads(c.answer(s)[1])[1], f"/{i}")
    finally:
        upstream.shutdown()
        thread.join()
        upstream.server_close()


@test
def idle_connections_are_cheap():
    n = 200
    with H2Server() as server:
        clients = [server.raw() for _ in range(20)]
        for c in clients:
            eq(c.ask("/hello")[0], 200)
        before = server.rss()
        for _ in range(n):
            clients.append(server.raw())
            eq(clients[-1].ask("/hello")[0], 200)
        each = (server.rss() - before) / n / 1024
        print(f"# {each:.1f} kB each")
        ok(server.sanitized() or each <= 40, f"{each} kB each")
        for c in clients:
            c.sock.close()
        server.until(lambda s: s["connections"] == 1, "all gone")


if __name__ == "__main__":
    main()
