# SPDX-License-Identifier: Apache-2.0
"""mcp_stdio.py - `warren mcp` as an agent sees it, and a service that a test simulates"""
import contextlib
import http.server
import json
import os
import queue
import shutil
import subprocess
import threading

from checks import be_alone, ok, run_tests, ROOT, WARREN

WAIT = 60
MODERN = "2026-07-28"
LEGACY = "2025-11-25"


def environ(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("WARREN_") or k == "WARREN_LIBEXEC"}
    return {**env, **more}


class Bridge:
    """A process of `warren mcp`, and messages as Python objects."""

    def __init__(self, *options, env=None, **kw):
        self.process = subprocess.Popen([WARREN, "mcp", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=env or environ(), **kw)
        self.lines, self.others, self.number = queue.Queue(), [], 0
        self.reader = threading.Thread(target=self.read_all, daemon=True)
        self.reader.start()

    def read_all(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """Ends it as a client does; returns the exit status and the output on stderr."""
        if self.process.stdout.closed:
            return self.process.returncode, b""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            status = self.process.wait(WAIT)
        finally:
            self.process.kill()
        self.reader.join(WAIT)
        said = self.process.stderr.read()
        self.process.stderr.close()
        self.process.stdout.close()
        return status, said

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        self.write(json.dumps(message).encode() + b"\n")

    def request(self, method, params=None, modern=False, number=None):
        """Sends a request; returns its id."""
        if number is None:
            self.number += 1
            number = self.number
        params = dict(params or {})
        if modern:
            params["_meta"] = {**params.get("_meta", {}), "io.modelcontextprotocol/protocolVersion": MODERN,
                               "io.modelcontextprotocol/clientCapabilities": {}}
        self.send({"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params else {})})
        return number

    def message(self):
        """Returns the next line, whatever it is."""
        line = self.lines.get(timeout=WAIT)
        ok(line is not None, f"stdout has ended: {self.process.poll()}")
        ok(line.endswith(b"\n"), "a whole line")
        return json.loads(line)

    def answer(self, number):
        """Returns the answer to this request; earlier messages are kept in `others`."""
        for m in self.others:
            if m.get("id") == number and "method" not in m:
                self.others.remove(m)
                return m
        while True:
            m = self.message()
            if m.get("id") == number and "method" not in m:
                return m
            self.others.append(m)

    def call(self, method, params=None, modern=False):
        m = self.answer(self.request(method, params, modern))
        ok("result" in m, f"{method}: {m}")
        return m["result"]

    def initialize(self, version=LEGACY):
        result = self.call("initialize", {"protocolVersion": version, "capabilities": {},
                                          "clientInfo": {"name": "test", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def tool(self, tool, modern=False, **arguments):
        return self.call("tools/call", {"name": tool, "arguments": arguments}, modern)


class Played:
    """A service at a port of loopback; the test provides answer(request, message)."""

    def __init__(self, answer):
        self.requests, self.cond = [], threading.Condition()
        played = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                message = json.loads(body) if body else None
                with played.cond:
                    played.requests.append((self.command, dict(self.headers.items()), message))
                    played.cond.notify_all()
                with contextlib.suppress(OSError):
                    answer(self, message)

            do_GET = do_DELETE = do_POST

            def log_message(self, *_):
                pass

            def json(self, message, status=200, headers=()):
                data = json.dumps(message).encode() if message is not None else b""
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def stream(self, *parts):
                """Returns the bytes of an event stream, each event separately; then the end."""
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream; charset=utf-8")
                self.send_header("Connection", "close")
                self.end_headers()
                for part in parts:
                    self.wfile.write(part)
                    self.wfile.flush()
                self.close_connection = True

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()
        self.host = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join(WAIT)
        self.server.server_close()

    def wait(self, condition, what):
        """Returns the first request (method, headers, message) for which the condition holds."""
        with self.cond:
            ok(self.cond.wait_for(lambda: any(condition(*r) for r in self.requests), WAIT),
               f"{what}: {self.requests}")
            return next(r for r in self.requests if condition(*r))


def run_alone(worlds, state):
    """Runs the tests of a program; then ends the services in @worlds, and removes the directory @state."""
    try:
        if not ROOT:
            print("1..0 # SKIP needs root")
            return 0
        be_alone()
        failed = run_tests()
        for world in worlds:
            with world:
                pass
    finally:
        shutil.rmtree(state, ignore_errors=True)
    return failed
