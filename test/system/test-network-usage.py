#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-network-usage.py - the network usage of sandboxes is in results, stats, metrics and events"""
import datetime
import json
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import network_world as nw  # pylint: disable=wrong-import-position
from checks import WARREN, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from loopback_dns import Dns  # pylint: disable=wrong-import-position
from serve_world import World, until  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name
dns, server = Dns(), nw.Server()
OWNER = "local"  # tenant of sandboxes that are created without a token
ZERO = {"connections": 0, "denied": 0, "bytes_in": 0, "bytes_out": 0}
# A client asks for the IPv4 and the IPv6 addresses of "a.test".
NAMES_OUT, NAMES_IN = 2 * 24, 2 * 24 + 16 + 28
COUNTERS = {"connections": "connections", "denied": "denied", "bytes_in": "received_bytes", "bytes_out": "sent_bytes"}


def open_box(**more):
    return w.create(image="host", network={"allow": [{"host": "a.test", "ports": [server.port]}, nw.HERE]}, **more)


def run(box, host="a.test", text=""):
    """Returns the answer to a client that sends lines."""
    return w.run(box, nw.client(host, server.port), input=text)


def used(received, sent):
    """What a client has used that received and sent these numbers of bytes after it had resolved a name."""
    return {"connections": 1, "denied": 0, "bytes_in": NAMES_IN + received, "bytes_out": NAMES_OUT + sent}


def stats(box):
    return w.get(f"/v1/sandboxes/{box}/stats")


def metrics(tenant, counters=None):
    """Returns the network counters of a tenant."""
    text = w.ask("GET", "/metrics", status=200).body.decode()
    found = {}
    for member, name in (counters or COUNTERS).items():
        line = re.search(rf'^warren_network_{name}_total{{tenant="{re.escape(tenant)}"}} (\d+)$', text, re.M)
        found[member] = int(line.group(1)) if line else 0
        ok(f"# TYPE warren_network_{name}_total counter\n" in text, name)
    return found


def difference(after, before):
    return {k: after[k] - before[k] for k in after}


@test
def a_result_has_the_network_usage():
    box = open_box()
    eq(w.run(box, ["true"])["network"], ZERO)
    eq(run(box, text="12345\n")["network"], used(12, 6))
    r = run(box, host="b.test")
    eq((r["stdout"], r["network"]["denied"] > 0), ("unknown\n", True))
    eq(dict(r["network"], denied=0), used(12, 6))
    # The next process of the service knows it too.
    w.kill("api")
    w.ready()
    eq(w.run(box, ["true"])["network"], r["network"])
    until(lambda: run(box)["stdout"] == "hello\n", "the network is open again")
    w.delete(box)


@test
def a_result_without_a_policy_has_no_network():
    box = w.create(image="host")
    r = w.run(box, ["true"])
    eq((r["result"]["exit_code"], "network" in r), (0, False))
    eq(stats(box)["network"], ZERO)
    w.delete(box)


@test
def stats_and_metrics_count_bytes():
    before = metrics(OWNER)
    box = open_box()
    eq(run(box, text="12345\n")["stdout"], "hello\n12345\n")
    eq(stats(box)["network"], used(12, 6))
    eq(difference(metrics(OWNER), before), used(12, 6))
    w.delete(box)


@test
def metrics_include_the_last_bytes_of_a_deleted_sandbox():
    before = metrics(OWNER)
    box = open_box()
    id_ = w.exec(box, nw.client("a.test", server.port), input="x" * 4999 + "\n")
    eq(w.result(box, id_)["exit_code"], 0)
    w.delete(box)
    until(lambda: difference(metrics(OWNER), before)["bytes_out"] == NAMES_OUT + 5000, lambda: metrics(OWNER))
    eq(difference(metrics(OWNER), before), used(5006, 5000))


@test
def metrics_count_lookups():
    ask = ("import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.connect(('198.18.0.1', 53))\n"
           "head = bytes([0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0])\n"
           "for i in range(50): s.send(head + b'\\3n%02d\\4test\\0\\0\\1\\0\\1' % i)\n"
           "for i in range(50): s.recv(2048)")
    counters = {"lookups": "lookups", "limited": "lookups_limited"}
    for limits, few in (({"lookups_per_second": 1}, True), ({}, False)):
        before = metrics(OWNER, counters)
        box = w.create(image="host", network={"allow": [{"host": "*.test"}], "limits": limits})
        eq(w.run(box, ["python3", "-c", ask])["result"]["exit_code"], 0)
        w.delete(box)
        until(lambda b=before: difference(metrics(OWNER, counters), b)["lookups"] >= 5, lambda: metrics(OWNER, counters))
        after = difference(metrics(OWNER, counters), before)
        eq(after, {"lookups": 50, "limited": 0} if not few else after)
        ok(not few or (after["lookups"] < 50 and after["limited"] >= 50 - after["lookups"]), after)


@test
def metrics_are_by_tenant():
    before = metrics(OWNER)
    token = w.token("read", "write", "exec", tenant="other")
    box = open_box(token=token)
    eq(w.run(box, nw.client("a.test", server.port), token=token)["stdout"], "hello\n")
    w.delete(box, token=token)
    until(lambda: metrics("other")["bytes_in"] == NAMES_IN + 6, lambda: metrics("other"))
    eq((metrics(OWNER), metrics("")), (before, ZERO))
    # Without the scope admin, a tenant sees only its own.
    for token, seen in ((w.token("metrics", tenant="other"), True), (w.token("metrics", tenant="third"), False),
                        (w.token("admin"), True)):
        text = w.ask("GET", "/metrics", token=token, status=200).body.decode()
        eq('warren_network_connections_total{tenant="other"}' in text, seen, text)


@test
def a_denial_is_an_event_that_says_what_would_have_allowed_it():
    box = open_box()
    eq(run(box, host="b.test")["stdout"], "unknown\n")
    for event in w.events("/v1/events", since=0, type="network.denied", format="ndjson"):
        if event.get("sandbox_id") == box:
            break
    eq((event["denial"]["host"], event["denial"]["reason"], event["denial"]["rule"], event["state"]),
       ("b.test", "no rule allows b.test", {"host": "b.test"}, "running"))
    p = subprocess.run([WARREN, "events", "--since", "0", "--type", "network.denied", "-n", "2"], check=True,
                       capture_output=True, text=True, env={**os.environ, "WARREN_HOST": f"unix:{w.socket}"})
    ok(p.stdout.strip().endswith("no rule allows b.test"), p.stdout)
    # The next process of the service reads it from the database.
    w.kill("api")
    w.ready()
    again = next(e for e in w.events("/v1/events", since=0, type="network.denied", format="ndjson")
                 if e.get("sandbox_id") == box)
    eq(again, event)
    until(lambda: run(box)["stdout"] == "hello\n", "the network is open again")
    w.delete(box)


@test
def many_denials_cause_few_events():
    box = open_box()
    ask = ("import socket\nfor i in range(500):\n try: socket.getaddrinfo(f'{i}.' + 'long' * 15 + '.test', 80)\n"
           " except OSError: pass")
    eq(w.run(box, ["python3", "-c", ask])["network"]["denied"] >= 500, True)
    w.delete(box)
    times = []
    for event in w.events("/v1/events", since=0, format="ndjson", sandbox_id=box):
        if event["type"] == "sandbox.deleted":
            break
        if event["type"] == "network.denied":
            times.append(datetime.datetime.fromisoformat(event["time"].rstrip("Z")))
    # There is about one event per second; the events and the limit use different clocks.
    ok(1 <= len(times) <= (times[-1] - times[0]).total_seconds() * 1.5 + 2, times)


@test
def a_stopped_egress_does_not_block_clients_of_the_service():
    box = open_box()
    used = run(box, text="12345\n")["network"]
    os.kill(w.egress, signal.SIGSTOP)
    try:
        # No packet leaves, and the answers contain the last known values.
        accepted = server.accepted
        eq(stats(box)["network"], used)
        eq(w.get(f"/v1/sandboxes/{box}/network")["usage"], used)
        ok("live" not in w.get(f"/v1/sandboxes/{box}/network"), "live connections are unknown")
        eq(w.run(box, ["true"])["network"], used)
        eq(w.get("/v1/sandboxes/" + box)["state"], "running")
        eq(server.accepted, accepted)
    finally:
        os.kill(w.egress, signal.SIGCONT)
    eq(run(box)["stdout"], "hello\n")
    w.delete(box)


@test
def the_policy_of_what_was_used_suffices():
    box = w.create(image="host", network={"allow": [{"public": True}, nw.HERE]})
    eq(run(box)["stdout"], "hello\n")
    used = w.get(f"/v1/sandboxes/{box}/network")["used"]
    w.delete(box)
    box = w.create(image="host", network={"allow": used["allow"]})
    eq((run(box)["stdout"], run(box, host="b.test")["stdout"]), ("hello\n", "unknown\n"))
    w.delete(box)


@test
def what_was_not_reached_was_not_used():
    box = w.create(image="host", network={"allow": [{"host": "a.test"}]})
    ok(run(box)["stdout"] in ("refused\n", "closed\n"), "its address is not allowed")
    state = w.get(f"/v1/sandboxes/{box}/network")
    # If the reset arrives early, the client tries the next address of the name.
    eq((state["used"]["allow"], {d["host"] for d in state["denials"]}), ([], {"a.test"}))
    w.delete(box)


@test
def exec_prints_the_network_usage_as_json():
    box, closed = open_box(), w.create(image="host")
    outcome = {}
    for id_, argv in ((box, nw.client("a.test", server.port)), (closed, ["true"])):
        p = subprocess.run([WARREN, "exec", "--json", id_, "--", *argv], stdin=subprocess.DEVNULL,
                           env={**os.environ, "WARREN_HOST": f"unix:{w.socket}"}, capture_output=True,
                           text=True, check=True)
        outcome[id_] = json.loads(p.stdout)
    eq((outcome[box]["network"], "network" in outcome[closed]), (used(6, 0), False))
    for id_ in (box, closed):
        w.delete(id_)


@test
def top_shows_bytes_in_and_out():
    box = open_box()
    eq(run(box, text="12345\n")["stdout"], "hello\n12345\n")
    for word in ("top", "stats"):
        p = subprocess.run([WARREN, word, "--once"], check=True, capture_output=True, text=True,
                           env={**os.environ, "WARREN_HOST": f"unix:{w.socket}"})
        head, row = p.stdout.splitlines()[:2]
        eq(row[head.index("NET I/O"):].split("  ")[0], f"{NAMES_IN + 12}B / {NAMES_OUT + 6}B", p.stdout)
    w.delete(box)


def main():
    global w  # pylint: disable=global-statement
    try:
        with World(config=nw.CONFIG.format(dns=dns.port)) as w:
            return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
