# SPDX-License-Identifier: Apache-2.0
"""egress.py - the cost of a network policy (creation, requests, bytes, memory and decisions), compared with the same
client without one

bench/run calls this. The same client runs inside a sandbox, where it uses warren-egress, and on the host, where it
connects directly. The server is nginx on loopback.
"""
import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "test/lib"))
import net  # noqa: E402
import serve  # noqa: E402

REQUESTS, SANDBOXES, TURNS = 2000, 1000, 5
FILES = ("dentry", "buffer_head", "radix_tree_node", "ext4_inode_cache", "inode_cache", "proc_inode_cache",
         "ovl_inode", "shmem_inode_cache", "filp", "vm_area_struct", "anon_vma", "anon_vma_chain", "maple_node")
SETTLE = 2  # time in seconds for the kernel to finish its work after a deletion
CONFIG = """
network:
  permit: {{ allow: [{{ public: true }}, {{ host: 127.0.0.0/8 }}] }}
  dns_servers: '127.0.0.1:{dns}'
"""
POLICY = {"allow": [{"host": "a.test"}, {"host": "127.0.0.0/8"}]}

# Measures requests on one connection, in microseconds each, and then a large file, in GB/s.
CLIENT = """
import json, socket, sys, time
host, port, n, path, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
c = socket.create_connection((host, port))
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
request = f"GET /hello HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n".encode()
took = []
for _ in range(n):
    start = time.perf_counter()
    c.sendall(request)
    data = c.recv(4096)
    while not data.endswith(b"hello\\n"):
        data += c.recv(4096)
    took.append((time.perf_counter() - start) * 1e6)
c = socket.create_connection((host, port))
c.sendall(f"GET /file{path} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\nConnection: close\\r\\n\\r\\n".encode())
buffer, got, start = bytearray(1 << 20), 0, time.perf_counter()
while more := c.recv_into(buffer):
    got += more
assert got > size, got
print(json.dumps({"took": took, "rate": got / (time.perf_counter() - start) / 1e9}))
"""


def creation(client, rounds):
    """Takes turns, so that other load on the machine affects both."""
    values = {"without a policy": [], "with a policy": []}
    for _ in range(rounds):
        for name, spec in (("without a policy", {}), ("with a policy", {"network": POLICY})):
            made = []
            values[name].append(serve.timed(lambda s=spec, m=made: m.append(json.loads(
                client.ask("POST", "/v1/sandboxes", json.dumps({"image": "host", **s}))))) * 1e6)
            client.ask("DELETE", f"/v1/sandboxes/{made[0]['id']}")
    rows = [row(f"create {name}", v) for name, v in values.items()]
    return [*rows, captured(rounds)]


def captured(rounds):
    """Measures what the kernel needs for a policy: without it, there is no network to open."""
    from checks import BUILD  # pylint: disable=import-outside-toplevel
    program = pathlib.Path(BUILD) / "bench/warren-bench-capture"
    one = json.loads(subprocess.run([program, str(rounds)], check=True, capture_output=True, text=True).stdout)
    name = "floor: the kernel captures a namespace"
    print(f"  {name:44} {one['p50'] / 1e3:8.3f} {one['p99'] / 1e3:8.3f} ms {one['n']:6}", flush=True)
    return serve.entry(name, "us", **one)


def row(name, values):
    p50, p99 = serve.percentile(values, 50), serve.percentile(values, 99)
    print(f"  {name:44} {p50 / 1e3:8.3f} {p99 / 1e3:8.3f} ms {len(values):6}", flush=True)
    return serve.entry(name, "us", p50=round(p50, 1), p99=round(p99, 1), n=len(values))


def amount(name, value, unit):
    print(f"  {name:44} {value:8.2f} {unit}", flush=True)
    return serve.entry(name, unit, value=value)


class Relay:
    """A program that only relays bytes to a server, without any policy: the floor."""

    def __init__(self, port):
        from checks import BUILD  # pylint: disable=import-outside-toplevel
        self.process = subprocess.Popen([pathlib.Path(BUILD) / "bench/warren-bench-relay", str(port)], stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def processor_ms(pid):
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as f:
        return int(f.read().split()[0]) / 1e6


def traffic(client, world, server, big):
    """Measures the same client on the host, through the relay, and in a sandbox; they take turns."""
    relay = Relay(server.port)
    try:
        return traffic_of(client, world, server, relay, big)
    finally:
        relay.stop()


def traffic_of(client, world, server, relay, big):
    argv = ["python3", "-c", CLIENT]
    rest = [str(server.port), str(REQUESTS), str(big), str(net.AMOUNT)]
    box = json.loads(client.ask("POST", "/v1/sandboxes", json.dumps({"image": "host", "network": POLICY})))["id"]
    figures = {"host": [], "relay": [], "sandbox": []}
    pids = {"relay": relay.process.pid, "sandbox": world.egress}
    before = {name: processor_ms(pid) for name, pid in pids.items()}
    for _ in range(TURNS):
        for name, port in (("host", server.port), ("relay", relay.port)):
            figures[name].append(json.loads(subprocess.run([*argv, "127.0.0.1", str(port), *rest[1:]], check=True,
                                                           capture_output=True).stdout))
        answer = json.loads(client.ask("POST", f"/v1/sandboxes/{box}/run", json.dumps({"argv": [*argv, "a.test", *rest]})))
        if answer["result"]["exit_code"] != 0:
            raise RuntimeError(answer["stderr"])
        figures["sandbox"].append(json.loads(answer["stdout"]))
    spent = {name: (processor_ms(pid) - before[name]) / TURNS for name, pid in pids.items()}
    client.ask("DELETE", f"/v1/sandboxes/{box}")
    rows = []
    for name, runs in figures.items():
        rows.append(row(f"request, {name}", [t for r in runs for t in r["took"]]))
        rows.append(amount(f"one stream, {name}", max(r["rate"] for r in runs), "GB/s"))
    direct, floor, ours = (rows[i]["value"] for i in (1, 3, 5))
    return [*rows, amount("one stream, sandbox to host", ours / direct * 100, "%"),
            amount("one stream, relay to host", floor / direct * 100, "%"),
            amount("one stream, sandbox to relay", ours / floor * 100, "%"),
            # Other load on the machine does not change these. They include the requests.
            amount("processor time of 1 GiB, relay", spent["relay"], "ms"),
            amount("processor time of 1 GiB, warren-egress", spent["sandbox"], "ms")]


def memory_in_use(world):
    """Returns the memory in KiB of the kernel's objects (except those of files, which other programs fill) and of the
    service's processes."""
    with open("/proc/meminfo", encoding="ascii") as f:
        kib = {line.partition(":")[0]: int(line.split()[1]) for line in f}
    with open("/proc/slabinfo", encoding="ascii") as f:
        slabs = [line.split() for line in f.readlines()[2:]]
    objects = sum(int(n) * int(size) for name, n, _, size, *_ in slabs if name not in FILES) / 1024
    processes = 0
    for pid in (world.warden, world.api, world.egress):
        if pid:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
                processes += next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
    return objects + kib["Percpu"] + kib["VmallocUsed"] + processes


def settled_memory(world):
    """Returns the smallest of several samples, because other programs use memory for a while."""
    time.sleep(SETTLE)
    return min(memory_in_use(world) for _ in range(5) if not time.sleep(0.2))


def crowd(client, world, spec):
    """Creates many sandboxes and deletes them; returns the memory of each, in KiB."""
    before, boxes = settled_memory(world), []
    for _ in range(SANDBOXES):
        boxes.append(json.loads(client.ask("POST", "/v1/sandboxes", json.dumps({"image": "host", **spec})))["id"])
    after = settled_memory(world)
    for box in boxes:
        client.ask("DELETE", f"/v1/sandboxes/{box}")
    return (after - before) / SANDBOXES


def memory(client, world):
    """Measures the kernel, the service and warren-egress together."""
    crowd(client, world, {"network": POLICY})  # memory that is allocated once, and kept
    without, with_policy = crowd(client, world, {}), crowd(client, world, {"network": POLICY})
    return [amount("memory of a sandbox without a policy", without, "KiB"),
            amount("memory of a sandbox with a policy", with_policy, "KiB"),
            amount("memory of a policy", with_policy - without, "KiB")]


def decisions():
    from checks import BUILD  # pylint: disable=import-outside-toplevel
    program = pathlib.Path(BUILD) / "bench/warren-bench-decide"
    lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    rows = []
    for one in map(json.loads, lines):
        print(f"  {one['name']:44} {one['p50']:8.3f} {one['p99']:8.3f} us {one['n']:6}", flush=True)
        rows.append(serve.entry(one["name"], "us", p50=one["p50"], p99=one["p99"], n=one["n"]))
    return rows


def section(folder, rounds=200):
    """Prints the section; returns its figures, and 1 if something of Warren failed."""
    from checks import Skip  # pylint: disable=import-outside-toplevel
    from loopback_dns import Dns  # pylint: disable=import-outside-toplevel
    from serve_world import World  # pylint: disable=import-outside-toplevel
    print(f"\n{'Network policies':46} {'p50':>8} {'p99':>8} {'n':>9}", flush=True)
    server = net.start_nginx(folder)
    if not server:
        print("  nginx is not installed")
        return [], 0
    big = pathlib.Path(folder) / "big"
    with open(big, "wb") as f:
        f.truncate(net.AMOUNT)
    pathlib.Path(folder).chmod(0o755)
    try:
        with World("--log-level", "error", "--quota-sandboxes", "none", config=CONFIG.format(dns=Dns().port)) as world:
            client = serve.Client(world)
            figures = [*creation(client, rounds), *traffic(client, world, server, big), *memory(client, world), *decisions()]
        return [f | {"bench": "network"} for f in figures], 0
    except Skip as why:
        print(f"  {why}")
        return [], 0
    except (RuntimeError, OSError, AssertionError, subprocess.SubprocessError) as why:
        print(f"  failed: {why}")
        return [], 1
    finally:
        server.stop()
