# SPDX-License-Identifier: Apache-2.0
"""serve.py - the service over its API: sandboxes and commands, bursts, and many live sandboxes

bench/run calls this. A minimal client sends raw bytes, so that it hardly affects the figures, over the unix socket
and over TCP on loopback. For comparison, the same run measures nginx for small requests, and docker exec for
commands.

WARREN_BENCH_ALIVE is the number of live sandboxes (1000), and WARREN_BENCH_STATE is the state directory (by default a
new directory in /var/lib, like that of a service). Each exec has a file there. On an ext4 without a journal, creating
a file takes half a millisecond if many files have just been removed nearby, as in /tmp after tests.
"""
import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "test/lib"))
import net  # noqa: E402

ALIVE = int(os.environ.get("WARREN_BENCH_ALIVE", "1000"))


def entry(name, unit, **values):
    return {"bench": "serve", "name": name, "unit": unit, **values}


class Client:
    """One connection, which reads answers with a Content-Length."""

    def __init__(self, world, token=None):
        if token:
            self.sock = socket.create_connection(("127.0.0.1", world.port))
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(world.socket)
        self.head = "Host: 127.0.0.1\r\n" + (f"Authorization: Bearer {token}\r\n" if token else "")

    def ask(self, method, path, body=""):
        self.sock.sendall(f"{method} {path} HTTP/1.1\r\n{self.head}Content-Type: application/json\r\n"
                          f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        data = self.sock.recv(65536)
        while b"\r\n\r\n" not in data:
            data += self.sock.recv(65536)
        head, _, rest = data.partition(b"\r\n\r\n")
        size = re.search(rb"(?i)content-length: (\d+)", head)
        parts, got = [rest], len(rest)
        while size and got < int(size[1]):
            parts.append(self.sock.recv(1 << 20))
            got += len(parts[-1])
        if not head.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(f"{method} {path}: {data[:300]!r}")
        return b"".join(parts)

    def create(self):
        return json.loads(self.ask("POST", "/v1/sandboxes", "{}"))["id"]


TRUE = '{"argv":["/bin/true"]}'


def percentile(values, percent):
    values = sorted(values)
    return values[(len(values) - 1) * percent // 100]


def times(name, rounds, once):
    """Returns the times of @once() in microseconds; @once() itself returns the time that counts."""
    values = [once() * 1e6 for _ in range(rounds)]
    row = entry(name, "us", p50=round(percentile(values, 50), 1), p99=round(percentile(values, 99), 1), n=rounds)
    print(f"  {name:44} {row['p50'] / 1e3:8.2f} {row['p99'] / 1e3:8.2f} ms {rounds:6}", flush=True)
    return row


def timed(f):
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def first_result(c):
    def once():
        start = time.perf_counter()
        box = c.create()
        c.ask("POST", f"/v1/sandboxes/{box}/run", TRUE)
        took = time.perf_counter() - start
        c.ask("DELETE", f"/v1/sandboxes/{box}")
        return took
    return once


def one_by_one(world, token, rounds):
    figures = []
    for how, c in (("unix", Client(world)), ("tcp", Client(world, token))):
        first_result(c)()
        figures.append(times(f"create to first result, {how}", rounds, first_result(c)))
        box = c.create()
        at = f"/v1/sandboxes/{box}"
        figures.append(times(f"exec /bin/true, {how}", 2 * rounds, lambda: timed(lambda: c.ask("POST", at + "/run", TRUE))))
        shell = json.loads(c.ask("POST", at + "/sessions", "{}"))["id"]
        figures.append(times(f"command in a session, {how}", 2 * rounds, lambda: timed(
            lambda: c.ask("POST", f"{at}/sessions/{shell}/run", '{"command":"true"}'))))
        figures.append(times(f"pause and resume, {how}", rounds, lambda: timed(
            lambda: (c.ask("POST", at + "/pause"), c.ask("POST", at + "/resume")))))
        c.ask("DELETE", at)
    return figures


def small_requests(world, token, folder, rounds):
    """Compares GET of a sandbox with nginx, by turns; wrk has a processor to itself."""
    nginx = net.start_nginx(folder)
    if not nginx:
        print("  nginx or wrk is not installed")
        return []
    c = Client(world)
    box = c.create()
    best = {}
    try:
        os.sched_setaffinity(world.api, {net.processors()[0]})
        for _ in range(rounds):
            for name, port, path in (("warren", world.port, f"/v1/sandboxes/{box}"), ("nginx", nginx.port, "/hello")):
                out = subprocess.run(["taskset", "-c", str(net.processors()[1]), "wrk", "-t1", f"-c{net.CONNECTIONS}",
                                      f"-d{net.SECONDS}", "-H", f"Authorization: Bearer {token}",
                                      f"http://127.0.0.1:{port}{path}"], check=True, capture_output=True,
                                     timeout=60).stdout.decode()
                if "Non-2xx" in out or "Socket errors" in out:
                    raise RuntimeError(out)
                best[name] = max(best.get(name, 0), float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]))
    finally:
        nginx.stop()
        os.sched_setaffinity(world.api, os.sched_getaffinity(0))
    c.ask("DELETE", f"/v1/sandboxes/{box}")
    for name, value in best.items():
        print(f"  {'GET of a sandbox, ' + name:44} {value:8.0f} /s", flush=True)
    return [entry(f"GET of a sandbox, {name}", "/s", value=round(value, 1)) for name, value in best.items()]


def with_alive(c, n):
    """Measures the cost of one more sandbox, and of a page of the list, with this number alive."""
    return [times(f"create with {n} alive", 50, lambda: create_alone(c)),
            times(f"list with {n} alive", 50, lambda: timed(lambda: c.ask("GET", "/v1/sandboxes?limit=100")))]


def burst(world, n):
    """Creates a thousand at a time until there are @n; measures a request with none, a thousand, ten thousand and
    all."""
    c = Client(world)
    figures = with_alive(c, 0)
    took = []
    for at in range(0, n, 1000):
        size = min(1000, n - at)
        took.append(timed(lambda size=size: c.ask("POST", "/v1/sandboxes/batch", json.dumps(
            {"sandboxes": [{"limits": {"memory": "64m", "disk": "32m"}}], "count": size}))))
        if at == 0:
            print(f"  {f'burst of {size} until all run':44} {took[0]:8.2f} s", flush=True)
        if at + size in (1000, 10000, n):
            figures += with_alive(c, at + size)
    return figures + [entry("burst of 1000", "s", value=round(took[0] * 1000 / min(1000, n), 3))]


def create_alone(c):
    start = time.perf_counter()
    box = c.create()
    took = time.perf_counter() - start
    c.ask("DELETE", f"/v1/sandboxes/{box}")
    return took


GIB = 1 << 30
PIECE = bytes(4 << 20)


def upload(c, at):
    """Uploads a file of 1 GiB; the answer arrives when the file is complete."""
    c.sock.sendall(f"PUT {at}/files?path=/tmp/big HTTP/1.1\r\n{c.head}Content-Type: application/octet-stream\r\n"
                   f"Content-Length: {GIB}\r\n\r\n".encode())
    for _ in range(GIB // len(PIECE)):
        c.sock.sendall(PIECE)
    head = c.sock.recv(65536)
    if not head.startswith(b"HTTP/1.1 20"):
        raise RuntimeError(f"upload: {head[:300]!r}")


def download(c, at):
    room = bytearray(4 << 20)
    c.sock.sendall(f"GET {at}/files?path=/tmp/big HTTP/1.1\r\n{c.head}\r\n".encode())
    got = c.sock.recv_into(room)
    head, _, rest = bytes(room[:got]).partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"download: {head[:300]!r}")
    left = GIB - len(rest)
    while left > 0:
        got = c.sock.recv_into(room)
        if got == 0:
            raise RuntimeError(f"download: it ends {left} bytes early")
        left -= got


def transfers(world, token):
    """Returns the best of several, because the machine may first have to free memory."""
    figures = []
    for how, c in (("unix", Client(world)), ("tcp", Client(world, token))):
        at = "/v1/sandboxes/" + json.loads(c.ask("POST", "/v1/sandboxes", json.dumps(
            {"limits": {"memory": "3g", "disk": "2560m"}})))["id"]
        for name, f in (("upload of 1 GiB", upload), ("download of 1 GiB", download)):
            value = max(GIB / timed(lambda f=f: f(c, at)) for _ in range(3)) / 1e9
            print(f"  {f'{name}, {how}':44} {value:8.2f} GB/s", flush=True)
            figures.append(entry(f"{name}, {how}", "GB/s", value=round(value, 3)))
        c.ask("DELETE", at)
    return figures


STREAMS = 2000


def event_stream(world, token, context):
    """Opens a stream of events, of which there are none; measures the time until its first line."""
    sock = socket.create_connection(("127.0.0.1", world.tls if context else world.port))
    if context:
        sock = context.wrap_socket(sock)
    sock.sendall(f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
                 "Accept: text/event-stream\r\n\r\n".encode())
    if not sock.recv(4096).startswith(b"HTTP/1.1 200"):
        raise RuntimeError("a stream of events is refused")
    return sock


def idle_streams(world, token):
    """Returns how much the api's memory grows for each stream. The first hundred streams allocate what is needed
    once."""
    from serve_world import rss  # pylint: disable=import-outside-toplevel
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(world.cert)
    context.check_hostname = False
    figures = []
    for how, with_tls in (("plain", None), ("TLS", context)):
        open_ones = [event_stream(world, token, with_tls) for _ in range(100)]
        before = rss(world.api)
        open_ones += [event_stream(world, token, with_tls) for _ in range(STREAMS)]
        each = (rss(world.api) - before) / STREAMS / 1e3
        for sock in open_ones:
            sock.close()
        print(f"  {f'an idle stream of {STREAMS}, {how}':44} {each:8.2f} kB", flush=True)
        figures.append(entry(f"idle stream, {how}", "kB", value=round(each, 2)))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return figures


def with_tls(world):
    """Returns a listener with its own certificate, before it is started."""
    from checks import free_port  # pylint: disable=import-outside-toplevel
    world.tls, world.cert = free_port(), f"{world.dir}/cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{world.dir}/key.pem", "-out",
                    world.cert, "-days", "2", "-subj", "/CN=localhost"], check=True, capture_output=True, timeout=60)
    world.options += ["--listen", f"tls:127.0.0.1:{world.tls}", "--tls-cert", world.cert, "--tls-key",
                      f"{world.dir}/key.pem"]
    return world.start()


def docker_exec(docker, rounds):
    """Uses the daemon's own client, as people do."""
    if docker.call("run", "-d", "--name", "warren-bench-exec", "--network", "none", "warren-bench",
                   "/bin/busybox", "sleep", "1000"):
        print("  docker exec: its container does not start")
        return []
    try:
        return [times("docker exec /bin/true", rounds, lambda: timed(
            lambda: docker.call("exec", "warren-bench-exec", "/bin/true")))]
    finally:
        docker.call("rm", "-f", "warren-bench-exec")


@contextlib.contextmanager
def run_folder():
    """Returns a directory for sockets below /run, as for a service; if /run is on a disk, on a separate tmpfs."""
    folder = tempfile.mkdtemp(prefix="warren-bench-", dir="/run")
    kind = subprocess.run(["stat", "-f", "-c", "%T", "/run"], check=True, capture_output=True, timeout=10).stdout
    mounted = kind.strip() != b"tmpfs" and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "mode=755", "warren-bench", folder], check=False, timeout=10).returncode == 0
    os.chmod(folder, 0o755)
    tempfile.tempdir = folder
    try:
        yield
    finally:
        tempfile.tempdir = None
        if mounted:
            subprocess.run(["umount", "-l", folder], check=True, timeout=10)
        shutil.rmtree(folder, ignore_errors=True)


def section(folder, docker=None, rounds=200):
    """Prints the section; returns its figures, and 1 if something of Warren failed."""
    from serve_world import World  # pylint: disable=import-outside-toplevel
    print(f"\n{'the service':46} {'p50':>8} {'p99':>8} {'n':>9}", flush=True)
    folder = pathlib.Path(folder) / "serve"
    folder.mkdir()
    own = None if os.environ.get("WARREN_BENCH_STATE") else tempfile.mkdtemp(prefix="warren-bench-", dir="/var/lib")
    try:
        if own:
            os.chmod(own, 0o755)
        with run_folder(), with_tls(World("--log-level", "error", tcp=True, start=False,
                                          state=own or os.environ["WARREN_BENCH_STATE"])) as world:
            token = world.token("admin")
            figures = one_by_one(world, token, rounds)
            if docker:
                figures += docker_exec(docker, max(1, rounds // 10))
            figures += transfers(world, token)
            figures += idle_streams(world, token)
            figures += small_requests(world, token, folder, 2)
            figures += burst(world, ALIVE)
            start = time.perf_counter()
            world.empty()
            took = time.perf_counter() - start
            print(f"  {f'delete of {ALIVE}, one by one':44} {took:8.2f} s", flush=True)
            return figures + [entry("delete of all", "s", value=round(took, 3))], 0
    except (RuntimeError, OSError, AssertionError, subprocess.SubprocessError) as why:
        print(f"  failed: {why}")
        return [], 1
    finally:
        if own:
            shutil.rmtree(own, ignore_errors=True)
