#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-network-faults.py - no packet leaves while a process of the service is dead, and the same policy applies
afterwards

The service runs in a network namespace of the test. A pair of interfaces connects it to another namespace, the far
side, where the servers are. There is no other way out, so the number of packets that the far interface has received
is the number of all packets that left.
"""
import concurrent.futures
import contextlib
import json
import os
import queue
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import network_world as nw  # pylint: disable=wrong-import-position
from checks import ROOT, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from egress_world import run, unshare_net  # pylint: disable=wrong-import-position
from loopback_dns import Dns  # pylint: disable=wrong-import-position
from serve_world import World, slurp, until  # pylint: disable=wrong-import-position

NEAR, ALLOWED, OTHER, NAMES = "1.2.3.1", "1.2.3.4", "1.2.3.5", "1.2.3.53"
MAC = "02:00:00:00:00:01"
PORT, CLOSED_PORT = 7000, 7001
SANDBOXES = 4
POLICY = {"allow": [{"host": "a.test", "ports": [PORT]}]}
w = far = None  # pylint: disable=invalid-name

# Reads the number of attempts, connects to allowed and to denied addresses, and prints the results.
LOAD = """
import json, os, socket, sys
if float(sys.argv[1]) < 1:
    os.environ["RES_OPTIONS"] = "timeout:1 attempts:1"
def attempt(host, port):
    with socket.create_connection((host, port), timeout=float(sys.argv[1])) as c, c.makefile("rb") as f:
        c.sendall(b"x" * 1000 + b"\\n")
        return (f.readline(), f.readline()) == (b"hello\\n", b"x" * 1000 + b"\\n")
print("hello", flush=True)
for line in sys.stdin:
    said = {"done": 0, "failed": 0, "leaked": 0}
    for _ in range(int(line)):
        for host, port, name in %s:
            try:
                said[name] += attempt(host, port)
            except OSError:
                said["failed"] += name == "done"
    print(json.dumps(said), flush=True)
""" % [("a.test", PORT, "done"), ("b.test", PORT, "leaked"), (OTHER, PORT, "leaked"), (ALLOWED, PORT, "leaked"),
       ("a.test", CLOSED_PORT, "leaked")]


def disable_ipv6(interface):
    """Otherwise, the kernel would search for neighbours and routers."""
    with open(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6", "w", encoding="ascii") as f:
        f.write("1")


class Far(threading.Thread):
    """The far side: a thread in its own namespace, with servers, which counts the packets that arrive."""

    def __init__(self):
        super().__init__(daemon=True)
        self.ready, self.calls, self.results = threading.Event(), queue.Queue(), queue.Queue()
        self.start()
        self.ready.wait()
        # Both have the same MAC address, because neither requests that of the other.
        run("ip", "link", "add", "near", "address", MAC, "type", "veth", "peer", "name", "far", "address", MAC,
            "netns", str(self.native_id))
        disable_ipv6("near")
        for command in (["addr", "add", f"{NEAR}/24", "dev", "near"], ["link", "set", "near", "arp", "off", "up"],
                        ["link", "set", "lo", "up"]):
            run("ip", *command)
        self.call(self.open)

    def run(self):
        unshare_net()
        self.ready.set()
        while True:
            f = self.calls.get()
            try:
                self.results.put((f(), None))
            except Exception as e:  # pylint: disable=broad-except
                self.results.put((None, e))

    def call(self, f):
        self.calls.put(f)
        result, why = self.results.get()
        if why:
            raise why
        return result

    def open(self):
        """Without ARP and IPv6, only packets of connections and names arrive."""
        disable_ipv6("far")
        for address in (ALLOWED, OTHER, NAMES):
            run("ip", "addr", "add", f"{address}/24", "dev", "far")
        run("ip", "link", "set", "far", "arp", "off", "up")
        self.allowed = nw.Server((ALLOWED, PORT))
        self.closed = [nw.Server((ALLOWED, CLOSED_PORT)), nw.Server((OTHER, PORT))]
        Dns((NAMES, 53), ALLOWED)

    def packets(self):
        for line in self.call(lambda: slurp("/proc/thread-self/net/dev")).splitlines():
            name, _, fields = line.partition(":")
            if name.strip() == "far":
                return int(fields.split()[1])
        raise AssertionError("there is no far interface")

    def live(self):
        """Connections that have not ended here."""
        tables = self.call(lambda: slurp("/proc/thread-self/net/tcp")).splitlines()[1:]
        return [line for line in tables if line.split()[3] not in ("0A", "06")]

    def settled(self):
        """The number of packets, once the connections of a dead process have ended."""
        until(lambda: not self.live(), lambda: self.live())
        before = -1
        while before != (before := self.packets()):
            threading.Event().wait(0.3)
        return before


class Load(nw.Live):
    """A client in a new sandbox."""

    def __init__(self, timeout=20):
        super().__init__(w, w.create(image="host", network=POLICY), "python3", "-c", LOAD, str(timeout))

    def begin(self, n):
        self.lines += 1
        w.ask("POST", f"/v1/sandboxes/{self.box}/execs/{self.id}/stdin", f"{n}\n".encode(),
              headers={"Content-Type": "application/octet-stream"}, status=200)

    def end(self):
        return json.loads(until(lambda: self.out()[self.lines - 1:], self.out)[0])


@contextlib.contextmanager
def loaded():
    """Creates sandboxes with running clients."""
    clients = [Load() for _ in range(SANDBOXES)]
    eq(together(clients, 5), {"done": 5 * SANDBOXES, "failed": 0, "leaked": 0}, "before the fault")
    yield clients
    until(lambda: together(clients, 1)["done"] == SANDBOXES, "the network is open again")
    eq(together(clients, 20), {"done": 20 * SANDBOXES, "failed": 0, "leaked": 0}, "after the fault")
    eq([s.accepted for s in far.closed], [0, 0], "connections to what is not allowed")
    for c in clients:
        w.delete(c.box)


def collect(clients):
    total = {"done": 0, "failed": 0, "leaked": 0}
    for c in clients:
        for name, n in c.end().items():
            total[name] += n
    return total


def together(clients, n):
    for c in clients:
        c.begin(n)
    return collect(clients)


def busy(clients):
    """Starts many connections, and waits until some have been made."""
    before = far.allowed.accepted
    for c in clients:
        c.begin(300)
    until(lambda: far.allowed.accepted >= before + 20 * len(clients), "load")


def sandbox_packets(box):
    """The packets that a sandbox's loopback interface has received."""
    return w.run(box, ["sh", "-c", "sed -n 's/^ *lo: *[0-9]* *\\([0-9]*\\).*/\\1/p' /proc/net/dev"])["stdout"].strip()


@test
def the_counter_sees_each_packet():
    """A positive control for all other tests."""
    before = far.packets()
    client = Load()
    eq((far.packets(), far.settled()), (before, before), "packets before a connection")
    client.begin(1)
    eq(client.end(), {"done": 1, "failed": 0, "leaked": 0})
    ok(far.settled() > before, "packets of a connection")
    w.delete(client.box)


@test
def nothing_gets_out_while_egress_is_dead():
    with loaded() as clients:
        busy(clients)
        pid = w.egress
        os.kill(w.warden, signal.SIGSTOP)  # otherwise, it starts the next one at once
        try:
            os.kill(pid, signal.SIGKILL)
            packets = far.settled()
            said = collect(clients)
            ok(said["failed"] > 0 and said["leaked"] == 0, said)
            eq(together(clients, 50), {"done": 0, "failed": 50 * SANDBOXES, "leaked": 0})
            eq(far.packets(), packets, "packets while it was dead")
        finally:
            os.kill(w.warden, signal.SIGCONT)
        until(lambda: w.egress not in (None, pid), "warren-egress runs again")


@test
def nothing_gets_out_while_the_api_is_dead():
    with loaded() as clients:
        busy(clients)
        os.kill(w.warden, signal.SIGSTOP)
        try:
            w.kill("api")
            until(lambda: w.egress is None, "warren-egress ends with the api")
            packets = far.settled()
            # The clients have begun enough attempts to continue for a while.
            threading.Event().wait(1)
            eq(far.packets(), packets, "packets while it was dead")
        finally:
            os.kill(w.warden, signal.SIGCONT)
        w.ready()
        eq(collect(clients)["leaked"], 0)


@test
def nothing_gets_out_while_the_warden_is_dead():
    with loaded() as clients:
        busy(clients)
        w.kill("warden")
        packets = far.settled()
        threading.Event().wait(1)
        eq(far.packets(), packets, "packets while it was dead")
        w.start()
        eq(collect(clients)["leaked"], 0)


@test
def nothing_gets_out_while_all_processes_are_dead():
    with loaded() as clients:
        busy(clients)
        for pid in (w.egress, w.api):
            os.kill(pid, signal.SIGKILL)
        w.kill("warden")
        packets = far.settled()
        threading.Event().wait(1)
        eq(far.packets(), packets, "packets while they were dead")
        w.start()
        eq(collect(clients)["leaked"], 0)


def stopped():
    """A process that is stopped keeps its sockets, so the service cannot see this by their end."""
    pid = w.egress
    os.kill(pid, signal.SIGSTOP)
    until(lambda: slurp(f"/proc/{pid}/stat").rpartition(")")[2].split()[0] == "T", "the stop")
    return pid


@test
def a_stopped_egress_opens_nothing_and_is_replaced():
    with loaded() as clients:
        hasty = Load(timeout=0.5)
        os.kill(w.warden, signal.SIGSTOP)  # otherwise, it starts the next one
        try:
            pid = stopped()
            accepted, packets = far.allowed.accepted, far.packets()
            hasty.begin(1)
            eq(hasty.end(), {"done": 0, "failed": 1, "leaked": 0})
            # The kernel still acknowledges and ends connections that were open.
            ok(far.allowed.accepted == accepted and far.packets() <= packets + 10,
               (far.allowed.accepted, accepted, far.packets(), packets))
            eq(w.get("/v1/sandboxes/" + hasty.box)["state"], "running")
        finally:
            os.kill(w.warden, signal.SIGCONT)
        until(lambda: w.egress not in (None, pid), "warren-egress is replaced")
        ok(not os.path.exists(f"/proc/{pid}"), "the stopped process is gone")
        until(lambda: nw.reach(w, hasty.box, "a.test", PORT) == "hello", "the network is open again")
        w.delete(hasty.box)


@test
def a_stopped_egress_ends_with_the_warden():
    box = w.create(image="host", network=POLICY)
    pid = stopped()
    w.kill("warden")
    try:
        until(lambda: not os.path.exists(f"/proc/{pid}"), "the stopped process is gone")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        w.start()
    until(lambda: nw.reach(w, box, "a.test", PORT) == "hello", "the network is open again")
    w.delete(box)


@test
def a_policy_changes_although_egress_is_stopped():
    closed, opened = w.create(image="host", network=POLICY), w.create(image="host", network={"allow": []})
    eq((nw.reach(w, closed, "a.test", PORT), nw.reach(w, opened, "a.test", PORT)), ("hello", "unknown"))
    pid = stopped()
    for box, policy in ((closed, {"allow": []}), (opened, POLICY)):
        w.ask("PATCH", "/v1/sandboxes/" + box, {"network": policy}, status=200)
    ok(w.egress not in (None, pid) and not os.path.exists(f"/proc/{pid}"), "the stopped process is gone")
    eq((nw.reach(w, closed, "a.test", PORT), nw.reach(w, opened, "a.test", PORT)), ("unknown", "hello"))
    for box in (closed, opened):
        w.delete(box)


@test
def policies_change_after_egress_has_ended_several_times():
    """Each end lengthens the interval after which the service would try again, so that the next process serves the sandbox before."""
    box = w.create(image="host", network=POLICY)
    for _ in range(3):
        pid = w.egress
        os.kill(pid, signal.SIGKILL)
        until(lambda old=pid: w.egress not in (None, old), "warren-egress runs again")
        until(lambda: nw.reach(w, box, "a.test", PORT) == "hello", "the policy applies again")
        time.sleep(0.5)  # longer than the interval
    w.ask("PATCH", "/v1/sandboxes/" + box, {"network": {"allow": []}}, status=200)
    eq(nw.reach(w, box, "a.test", PORT), "unknown")
    w.delete(box)


@test
def a_change_fails_in_time_and_is_undone_if_nothing_can_replace_egress():
    box = w.create(image="host", network=POLICY)
    eq(nw.reach(w, box, "a.test", PORT), "hello")
    os.kill(w.warden, signal.SIGSTOP)
    try:
        pid = stopped()
        answer = w.ask("PATCH", "/v1/sandboxes/" + box, {"network": {"allow": []}}, status=504).json()
        ok("warren-egress does not answer" in answer["message"], answer)
    finally:
        os.kill(w.warden, signal.SIGCONT)
    until(lambda: w.egress not in (None, pid), "warren-egress is replaced")
    until(lambda: nw.reach(w, box, "a.test", PORT) == "hello", "the policy from before applies")
    eq((nw.reach(w, box, "b.test", PORT), w.get(f"/v1/sandboxes/{box}/network")["policy"]["allow"]),
       ("unknown", POLICY["allow"]))
    w.delete(box)


@test
def a_sandbox_is_deleted_while_its_network_is_opened_again():
    for _ in range(20):
        boxes = [w.create(image="host", network=POLICY) for _ in range(4)]
        pid = w.egress
        os.kill(pid, signal.SIGKILL)
        until(lambda old=pid: w.egress not in (None, old), "warren-egress runs again")
        for box in boxes:
            w.delete(box)


@test
def a_sandbox_that_hibernates_while_its_network_is_opened_again_wakes_with_it():
    boxes = [w.create(image="host", network=POLICY) for _ in range(24)]
    for _ in range(6):
        old = w.egress
        os.kill(old, signal.SIGKILL)
        pid = until(lambda old=old: w.egress not in (None, old) and w.egress, "warren-egress runs again")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)  # it has sockets of some of them, and replies later
        try:
            with concurrent.futures.ThreadPoolExecutor(24) as pool:
                list(pool.map(lambda box: w.client().ask("POST", f"/v1/sandboxes/{box}/hibernate", {"timeout_ms": 0}), boxes))
            eq({w.get("/v1/sandboxes/" + box)["state"] for box in boxes}, {"hibernated"})
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            eq(list(pool.map(lambda box: nw.reach(w, box, "a.test", PORT), boxes)), ["hello"] * len(boxes))
        eq(nw.reach(w, boxes[0], "b.test", PORT), "unknown")
    for box in boxes:
        w.delete(box)


@test
def no_packet_passes_between_sandboxes():
    listen = ("import socket; s = socket.create_server(('', 8123)); print('hello', flush=True)\n"
              "s.accept(); print('reached', flush=True)")
    one, two = w.create(image="host", network=POLICY), w.create(image="host", network=POLICY)
    server = nw.Live(w, one, "python3", "-c", listen)
    address = w.run(one, ["getent", "ahosts", "a.test"])["stdout"].split()[0]
    before = sandbox_packets(one), far.packets()
    for host in (address, "198.18.0.1", "127.0.0.1", "::1", "fd77:6172:7265:6e::1", "10.0.0.1", "169.254.1.1"):
        eq(nw.reach(w, two, host, 8123), "refused", host)
    eq((sandbox_packets(one), far.packets()), before, "packets of the other sandbox, and outside")
    # The counter and the server work: a connection from inside arrives.
    w.run(one, ["python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 8123))"])
    eq((server.next(), int(sandbox_packets(one)) > int(before[0])), ("reached", True))
    for box in (one, two):
        w.delete(box)


CONFIG = f"""
backends:
  native: {{}}
network:
  dns_servers: '{NAMES}'
"""


def main():
    global far, w  # pylint: disable=global-statement
    try:
        if not ROOT:
            raise Skip("needs root")
        unshare_net()
        far = Far()
        with World(config=CONFIG) as w:
            return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
