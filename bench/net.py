# SPDX-License-Identifier: Apache-2.0
"""net.py - the HTTP server compared with nginx, and HTTP/2 with HTTP/1.1: small requests and bytes per second

bench/run calls this. The servers take turns; each has one processor to itself, and wrk has another. In addition to
the rate, the processor time of a request is reported, because other work on the machine does not change it.
"""
import contextlib
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "test/lib"))

CONNECTIONS = 64
SECONDS = 2
AMOUNT = 1 << 30
TICK = os.sysconf("SC_CLK_TCK")

NGINX = """
worker_processes 1;
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
	access_log off;
	sendfile on;
	keepalive_requests 1000000000;
	client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
	uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
	server {{
		listen 127.0.0.1:{port};
		location /hello {{ default_type text/plain; return 200 "hello\\n"; }}
		location /file/ {{ alias /; }}
	}}
}}
"""


def entry(name, unit, **values):
    return {"bench": "net", "name": name, "unit": unit, **values}


def processors():
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[0], cpus[-1]


class Running:
    """A server process on the first processor."""

    def __init__(self, argv, port=None, **kw):
        self.process = subprocess.Popen(["taskset", "-c", str(processors()[0]), *argv], **kw)
        self.port = port

    def seconds(self):
        """Returns the processor time used so far."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def wait(self):
        for _ in range(200):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            time.sleep(0.02)
        raise RuntimeError("a server does not listen")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                stream.close()


def start_ours(build, *options):
    """With a certificate, the port is that of TLS."""
    server = Running([f"{build}/test/net-server", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    while (line := server.process.stdout.readline().decode().split()) != ["ready"]:
        if not line:
            raise RuntimeError("net-server has ended")
        server.port = int(line[1])
    return server


def start_nginx(folder):
    nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    if not nginx or not shutil.which("wrk"):
        return None
    from checks import free_port  # pylint: disable=import-outside-toplevel
    port = free_port()
    conf = folder / "nginx.conf"
    conf.write_text(NGINX.format(folder=folder, port=port), encoding="ascii")
    return Running([nginx, "-c", str(conf), "-e", f"{folder}/error.log"], port).wait()


def load(server):
    """Returns requests per second, and microseconds of the server's processor time for each."""
    before = server.seconds()
    out = subprocess.run(["taskset", "-c", str(processors()[1]), "wrk", "-t1", f"-c{CONNECTIONS}",
                          f"-d{SECONDS}", f"http://127.0.0.1:{server.port}/hello"], check=True,
                         capture_output=True, timeout=60).stdout.decode()
    if "Non-2xx" in out or "Socket errors" in out:
        raise RuntimeError(out)
    count = int(re.search(r"(\d+) requests in", out)[1])
    return (float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]),
            (server.seconds() - before) / count * 1e6)


def download(server, target):
    """Returns the rate in GB/s to a client that discards the data."""
    buffer, got = bytearray(1 << 20), 0
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        s.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        start = time.perf_counter()
        while n := s.recv_into(buffer):
            got += n
        took = time.perf_counter() - start
    if got < AMOUNT:
        raise RuntimeError(f"{got} bytes of {target}")
    return got / took / 1e9


def upload(server):
    piece = bytes(1 << 20)
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        start = time.perf_counter()
        s.sendall(f"PUT /sink HTTP/1.1\r\nHost: a\r\nContent-Length: {AMOUNT}\r\n\r\n".encode())
        for _ in range(AMOUNT // len(piece)):
            s.sendall(piece)
        if b" 200 " not in s.recv(1000):
            raise RuntimeError("the upload was not taken")
        return AMOUNT / (time.perf_counter() - start) / 1e9


def requests(servers, rounds):
    figures, ours = [], None
    results = {name: [] for name in servers}
    for _ in range(rounds):
        for name, server in servers.items():
            results[name].append(load(server))
    print(f"\nGET of 6 bytes, {CONNECTIONS} connections, one processor each{'req/s':>13} {'best':>9}"
          f" {'us each':>8} {'to ours':>8}")
    for name, all_rounds in results.items():
        rate = statistics.median(r[0] for r in all_rounds)
        us = statistics.median(r[1] for r in all_rounds)
        best = max(r[0] for r in all_rounds)
        ours = ours or rate
        print(f"  {name:54} {rate:11.0f} {best:9.0f} {us:8.2f} {rate / ours:8.2f}")
        figures.append(entry(f"GET, {name}", "req/s", value=round(rate), best=round(best),
                             us=round(us, 3)))
    return figures


def amounts(servers, folder, rounds):
    figures, big = [], folder / "big"
    with open(big, "wb") as f:
        f.truncate(AMOUNT)
    rows = {f"1 GiB of a file, {name}": (download, server, f"/file{big}")
            for name, server in servers.items()}
    rows["1 GiB streamed in chunks, warren"] = (download, servers["warren"], f"/chunks?n={AMOUNT}")
    rows["1 GiB taken in, warren"] = (upload, servers["warren"])
    print(f"  {'':54} {'GB/s':>11} {'best':>9}")
    for name, (f, *args) in rows.items():
        rates = [f(*args) for _ in range(rounds)]
        print(f"  {name:54} {statistics.median(rates):11.2f} {max(rates):9.2f}")
        figures.append(entry(name, "GB/s", value=round(statistics.median(rates), 3),
                             best=round(max(rates), 3)))
    return figures


# The protocols over TLS, and the options of h2load for small requests: as many at once in both.
PROTOCOLS = {"HTTP/1.1": ("--h1", f"-c{CONNECTIONS}"), "HTTP/2": (f"-c{CONNECTIONS // 16}", "-m16")}
PIECE = 64 << 20
PIECES = 8


def h2load(server, n, *options, target="/hello"):
    """Returns requests per second, and microseconds of the server's processor time for each."""
    before = server.seconds()
    out = subprocess.run(["taskset", "-c", str(processors()[1]), "h2load", f"-n{n}", *options,
                          f"https://127.0.0.1:{server.port}{target}"], check=True, capture_output=True,
                         timeout=120).stdout.decode()
    if f" {n} succeeded" not in out:
        raise RuntimeError(out)
    return float(re.search(r"([\d.]+) req/s", out)[1]), (server.seconds() - before) / n * 1e6


def over_tls(build, folder, rounds):
    """HTTP/2 beside HTTP/1.1, both over TLS, with the same client."""
    if not shutil.which("h2load") or not shutil.which("openssl"):
        print("\nnet: h2load or openssl is not installed")
        return []
    cert, key, body, figures = folder / "cert.pem", folder / "key.pem", folder / "body", []
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-subj", "/CN=bench", "-days", "2", "-out", str(cert), "-keyout", str(key)], check=True,
                   capture_output=True, timeout=60)
    with open(body, "wb") as f:
        f.truncate(PIECE)
    server = start_ours(build, "--cert", str(cert), "--key", str(key))
    try:
        results = {name: {what: [] for what in ("requests", "down", "up")} for name in PROTOCOLS}
        for _ in range(rounds):
            for name, options in PROTOCOLS.items():
                one = ("--h1",) if "--h1" in options else ("-m1",)
                results[name]["requests"].append(h2load(server, 50000, *options))
                results[name]["down"].append(h2load(server, PIECES, "-c1", *one, target=f"/chunks?n={PIECE}"))
                results[name]["up"].append(h2load(server, PIECES, "-c1", *one, "-d", str(body), target="/sink"))
    finally:
        server.stop()
    print(f"\nover TLS, the same client for both{'':22} {'req/s':>10} {'us each':>8} {'down GB/s':>10} {'up GB/s':>8}")
    for name, all_rounds in results.items():
        rate, us = (statistics.median(r[i] for r in all_rounds["requests"]) for i in (0, 1))
        down, up = (statistics.median(r[0] for r in all_rounds[what]) * PIECE / 1e9 for what in ("down", "up"))
        print(f"  {name:54} {rate:10.0f} {us:8.2f} {down:10.2f} {up:8.2f}")
        figures += [entry(f"GET over TLS, {name}", "req/s", value=round(rate), us=round(us, 3)),
                    entry(f"streamed over TLS, {name}", "GB/s", value=round(down, 3)),
                    entry(f"taken in over TLS, {name}", "GB/s", value=round(up, 3))]
    return figures


def section(build, folder, rounds=3):
    """Prints the section; returns its figures, and 1 if something of Warren failed."""
    folder = pathlib.Path(folder) / "net"
    folder.mkdir()
    servers = {}
    try:
        servers["warren"] = start_ours(build)
        if nginx := start_nginx(folder):
            servers["nginx"] = nginx
        else:
            print("\nnet: nginx or wrk is not installed")
        figures = requests(servers, rounds) if nginx else []
        figures += amounts(servers, folder, rounds)
        return figures + over_tls(build, folder, rounds), 0
    except (RuntimeError, OSError, subprocess.SubprocessError) as why:
        print(f"  failed: {why}")
        return [], 1
    finally:
        for server in servers.values():
            server.stop()
