# SPDX-License-Identifier: Apache-2.0
"""sdks.py - the API of E2B with its published SDKs, compared with the same requests without an SDK

bench/run calls this. The difference between the figures of an SDK and those "by bytes" is the SDK's own time.
"""
import json
import pathlib
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "test/lib"))
import serve  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SIZE, BURST = 50_000_000, 100
CALLS = {"create": "create", "run": "commands.run('true')", "read": "files.read of 1 kB"}


def large(name, seconds):
    """The best of some transfers."""
    value = SIZE / min(seconds) / 1e6
    print(f"  {name:44} {value:8.0f} MB/s", flush=True)
    return serve.entry(name, "MB/s", value=round(value, 1))


def whole(name, seconds):
    print(f"  {name:44} {min(seconds):8.3f} s", flush=True)
    return serve.entry(name, "s", value=round(min(seconds), 4))


def show(who, result):
    figures = []
    for call, name in CALLS.items():
        took = iter(result[call])
        figures.append(serve.times(f"{who}: {name}", len(result[call]), lambda t=took: next(t)))
    figures += [large(f"{who}: upload of 50 MB", result["write_large"]),
                large(f"{who}: download of 50 MB", result["read_large"])]
    if "burst" in result:
        figures.append(whole(f"{who}: {BURST} creates at the same time", result["burst"]))
    return figures


class Bytes:
    """A client that sends what the SDKs send."""

    def __init__(self, world, key):
        self.control = serve.Client(world, key)
        self.control.head = f"Host: 127.0.0.1\r\nX-API-Key: {key}\r\n"
        self.address = ("127.0.0.1", world.port)

    def create(self):
        return json.loads(self.control.ask("POST", "/v2/sandboxes", '{"templateID":"base","timeout":300,"secure":true}'))

    def kill(self, box):
        self.control.ask("DELETE", f"/sandboxes/{box['sandboxID']}")

    def enter(self, box):
        """Connects to the data plane of a sandbox."""
        self.plane = serve.Client.__new__(serve.Client)
        self.plane.sock = socket.create_connection(self.address)
        self.plane.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.plane.head = (f"Host: 127.0.0.1\r\nE2b-Sandbox-Id: {box['sandboxID']}\r\nE2b-Sandbox-Port: 49983\r\n"
                           f"X-Access-Token: {box['envdAccessToken']}\r\n")

    def run(self):
        message = json.dumps({"process": {"cmd": "/bin/bash", "args": ["-l", "-c", "true"]}}).encode()
        body = struct.pack(">BI", 0, len(message)) + message
        self.plane.sock.sendall(f"POST /process.Process/Start HTTP/1.1\r\n{self.plane.head}Connect-Protocol-Version: 1\r\n"
                                f"Content-Type: application/connect+json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = b""
        while not answer.endswith(b"0\r\n\r\n"):
            answer += self.plane.sock.recv(65536)
        if b'"exited":true' not in answer:
            raise RuntimeError(f"Start: {answer[:500]!r}")

    def write(self, path, data):
        self.plane.sock.sendall(f"POST /files?path={path} HTTP/1.1\r\n{self.plane.head}Content-Type: application/octet-stream\r\n"
                                f"Content-Length: {len(data)}\r\n\r\n".encode())
        self.plane.sock.sendall(data)
        answer = self.plane.sock.recv(65536)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"write: {answer[:500]!r}")

    def read(self, path):
        return self.plane.ask("GET", f"/files?path={path}")


def by_bytes(world, key, rounds):
    c = Bytes(world, key)
    result = {"create": []}
    for _ in range(rounds + 1):
        start = time.perf_counter()
        box = c.create()
        result["create"].append(time.perf_counter() - start)
        c.kill(box)
    result["create"].pop(0)
    box = c.create()
    c.enter(box)
    result["run"] = [serve.timed(c.run) for _ in range(rounds)]
    c.write("/tmp/small", b"x" * 1000)
    result["read"] = [serve.timed(lambda: c.read("/tmp/small")) for _ in range(rounds)]
    data = b"x" * SIZE
    result["write_large"] = [serve.timed(lambda: c.write("/tmp/large", data)) for _ in range(5)]
    result["read_large"] = [serve.timed(lambda: c.read("/tmp/large")) for _ in range(5)]
    c.kill(box)
    return result


def by_sdk(world, rounds, *command, **env):
    out = subprocess.run([*command, str(rounds)], check=True, capture_output=True, text=True, timeout=600,
                         env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "E2B_API_KEY": world.key(),
                              **world.environment, **env}).stdout
    return json.loads(out.splitlines()[-1])


def section(rounds=200):
    """Prints the section; returns its figures, and 1 if something of Warren failed."""
    from checks import Skip  # pylint: disable=import-outside-toplevel
    from e2b_world import E2bWorld  # pylint: disable=import-outside-toplevel
    print(f"\n{'E2B, by its own SDKs':46} {'p50':>8} {'p99':>8} {'n':>9}", flush=True)
    try:
        with E2bWorld("--log-level", "error", "--quota-sandboxes", "none") as world:
            python, node = world.clients.python("python-new"), world.clients.node()
            figures = [*show("by bytes", by_bytes(world, world.key(), rounds)),
                       *show("Python", by_sdk(world, rounds, python, "-B", str(HERE / "e2b_client.py"))),
                       *show("JavaScript", by_sdk(world, rounds, "node", str(HERE / "e2b_client.mjs"), E2B_CLIENTS=node))]
        return [f | {"bench": "e2b"} for f in figures], 0
    except Skip as why:
        print(f"  {why}")
        return [], 0
    except (RuntimeError, OSError, AssertionError, subprocess.SubprocessError) as why:
        print(f"  failed: {why} {getattr(why, 'stderr', '')}")
        return [], 1
