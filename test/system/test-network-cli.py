#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-network-cli.py - the network settings that commands send to the service, and how commands show the answers

The test acts as the service: it records requests and sends fixed responses.
"""
import http.server
import json
import os
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import eq, ok, run_tests, test, warren  # noqa: E402

ID = "k3f9x2m7qd1w"
SANDBOX = {"id": ID, "state": "running", "enforced": [], "network": "policy"}
NETWORK = {
    "network": "policy",
    "policy": {"allow": [{"host": "a.example", "ports": [443, "8000-8001"], "protocols": ["https"]}, {"public": True},
                         {"host": "s.example", "headers": {"X-Key": "${secret.KEY}", "X-More": "1"}}],
               "deny": [{"host": "*.b.example"}], "limits": {"connections": 5, "total_bytes": 2000000}},
    "usage": {"connections": 7, "denied": 2, "bytes_in": 1500000, "bytes_out": 20},
    "live_count": 1,
    "live": [{"host": "a.example", "port": 443, "protocol": "tls", "address": "1.2.3.4", "bytes_in": 10, "bytes_out": 20,
              "age_ms": 3000}],
    "denials": [{"time": "2025-01-20T15:04:05.123Z", "host": "c.example", "port": 80, "protocol": "http",
                 "reason": "no rule allows c.example:80 (http)\x1b[2J\nrm -rf", "rule": {"host": "c.example", "ports": [80]}},
                {"time": "2025-01-20T15:04:06.123Z", "host": "x.b.example", "reason": "the rule for *.b.example denies it"},
                {"host": "d e", "reason": "bad", "rule": {"host": "$(reboot)"}}],
    "used": {"allow": [{"host": "a.example", "ports": [443], "protocols": ["tls"]}, {"host": "2600::1", "ports": [22]}]},
    "used_complete": True,
}


class Played(http.server.ThreadingHTTPServer):
    """A service that the test simulates."""

    def __init__(self):
        self.requests = []
        played = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                n = int(self.headers.get("Content-Length", 0))
                played.requests.append((self.command, self.path, json.loads(self.rfile.read(n)) if n else None))
                data = json.dumps(NETWORK if self.path.endswith("/network") else SANDBOX).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_DELETE = answer

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def call(self, *args, status=0, **kw):
        env = {**os.environ, "WARREN_HOST": f"http://127.0.0.1:{self.server_port}"}
        p = warren(*args, env=env, **kw)
        eq(p.returncode, status, f"status of {args}, which said {p.stderr!r},")
        return p

    def sent(self, method, *args):
        """The `network` that a command sends."""
        self.requests.clear()
        self.call(*args)
        found = [body for m, _, body in self.requests if m == method]
        eq(len(found), 1, f"{method} requests of {args}")
        return found[0].get("network")


SERVICE = Played()

# Options, and the resulting member `network`.
BODIES = [
    ([], None),
    (["--network", "loopback"], "loopback"),
    (["--network", "none"], "none"),
    (["--network", "packages"], "packages"),
    (["--network", "packages,of-the-service"], "packages,of-the-service"),
    (["--network", "learn"], {"allow": [{"public": True}]}),
    (["--network", "learn", "--deny", "b.example"], {"allow": [{"public": True}], "deny": [{"host": "b.example"}]}),
    (["--allow", "a.example:443"], {"allow": [{"host": "a.example", "ports": [443]}]}),
    (["--network", "loopback", "--allow", "a.example"], {"allow": [{"host": "a.example"}]}),
    (["--network", "packages,git", "--allow", "10.0.0.0/8", "--deny", "*.b.example", "--deny", "[2600::1]:22"],
     {"capabilities": ["packages", "git"], "allow": [{"host": "10.0.0.0/8"}],
      "deny": [{"host": "*.b.example"}, {"host": "2600::1", "ports": [22]}]}),
]


@test
def create_and_run_send_the_network():
    for options, want in BODIES:
        eq(SERVICE.sent("POST", "create", *options), want, f"create {options}")
        eq(SERVICE.sent("POST", "run", "-d", *options, "--image", "host", "--", "true"), want, f"run {options}")


@test
def network_changes_a_sandbox():
    for options, want in BODIES[1:]:
        eq(SERVICE.sent("PATCH", "network", *options, ID), want, f"{options}")
    SERVICE.requests.clear()
    SERVICE.call("network", ID)
    eq([r for r in SERVICE.requests if r[0] != "GET"], [], "without options")


@test
def contradictions_are_refused_before_the_service_is_asked():
    for command in (["create"], ["network", ID]):
        for options, why in ((["--network", "none", "--allow", "a.example"], b"contradict each other"),
                             (["--deny", "a.example"], b"nothing is allowed that it could deny"),
                             (["--allow", "a.example:99999"], b"is not a port"),
                             (["--allow", "*"], b"is every host: use --network web"),
                             (["--network", "a,,b"], b"is not loopback, none, learn, or a list of capabilities")):
            SERVICE.requests.clear()
            p = SERVICE.call(*command, *options, status=125)
            ok(why in p.stderr, f"{command} {options}: {p.stderr}")
            eq([r for r in SERVICE.requests if r[0] != "GET"], [], f"{command} {options}")
    SERVICE.call("network", "--suggest", "--allow", "a.example", ID, status=125)


@test
def network_prints_tables():
    text = SERVICE.call("network", ID).stdout.decode()
    for line in ("network:      policy", "connections:  7 (1 live)", "denied:       2", "received:     1.50MB",
                 "sent:         20B", "limits:       5 connections, 2.00MB in total"):
        ok(line + "\n" in text, f"{line}: {text}")
    rows = [line.split() for line in text.splitlines()]
    for row in (["RULE", "HOST", "PORTS", "PROTOCOLS", "METHODS", "PATHS", "HEADERS"],
                ["allow", "a.example", "443,8000-8001", "https", "-", "-", "-"],
                ["allow", "(every", "public", "host)", "-", "-", "-", "-", "-"],
                ["allow", "s.example", "-", "-", "-", "-", "X-Key,X-More"],
                ["deny", "*.b.example", "-", "-", "-", "-", "-"],
                ["a.example", "443", "tls", "1.2.3.4", "10B", "20B", "3"]):
        ok(row in rows, f"{row}: {text}")
    ok("c.example     80     http" in text and "ago" in text, text)
    # Only a rule that is valid becomes an option.
    denied = text[text.index("TO ALLOW IT"):].splitlines()[1:]
    eq([line.split("   ")[-1].strip() for line in denied], ["--allow c.example:80", "-", "-"])
    ok("secret" not in text, "the value of a header")
    ok("\x1b" not in text and "\nrm" not in text, "control characters of a sandbox")


@test
def network_reports_what_is_unknown():
    whole = dict(NETWORK)
    for key in ("live_count", "live", "denials", "used", "used_complete"):
        del NETWORK[key]
    try:
        text = SERVICE.call("network", ID).stdout.decode()
        ok("warren-egress did not answer" in text and "a.example" in text, text)
    finally:
        NETWORK.update(whole)
    ok("did not answer" not in SERVICE.call("network", ID).stdout.decode(), "all is known")


@test
def network_prints_json():
    eq(json.loads(SERVICE.call("network", "--json", ID).stdout), NETWORK)


@test
def suggest_prints_options_and_a_policy():
    want = ("--allow a.example:443 --allow [2600::1]:22\n"
            "# denied: no rule allows c.example:80 (http)?[2J?rm -rf\n--allow c.example:80\n"
            "# denied: the rule for *.b.example denies it\n# denied: bad\n")
    eq(SERVICE.call("network", "--suggest", ID).stdout.decode(), want)
    policy = json.loads(SERVICE.call("network", "--suggest", "--json", ID).stdout)
    eq(policy["allow"], NETWORK["used"]["allow"] + [{"host": "c.example", "ports": [80]}])
    SERVICE.requests.clear()
    record = json.dumps(NETWORK).encode()
    eq(SERVICE.call("network", "--suggest", "-", input=record).stdout.decode(), want)
    eq(SERVICE.requests, [], "requests for a record on stdin")
    eq(SERVICE.call("network", "--suggest", "-", input=b"{}").stdout, b"# no connections\n")
    p = SERVICE.call("network", "--suggest", "-", input=b"[", status=125)
    ok(b"stdin is not the output of 'warren network --json'" in p.stderr, f"{p.stderr}")
    bad = json.dumps({"used": {"allow": [{"host": "; reboot"}]}}).encode()
    SERVICE.call("network", "--suggest", "-", input=bad, status=125)


@test
def a_policy_in_a_file_is_sent_as_it_is():
    policy = {"capabilities": ["git"], "allow": [{"host": "a.example", "methods": ["GET"], "paths": ["/x/*"]}],
              "limits": {"lookups_per_second": 5}}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        f.write(json.dumps(policy))
        f.flush()
        for options in ((f.name,), ("-",)):
            for argv, method in ((("network", ID), "PATCH"), (("create",), "POST")):
                SERVICE.requests.clear()
                SERVICE.call(*argv, "--policy", *options, input=json.dumps(policy).encode())
                eq([body["network"] for m, _, body in SERVICE.requests if m == method], [policy], argv)
        for option in ("--network=web", "--allow=b.example", "--deny=b.example", "--suggest"):
            p = SERVICE.call("network", "--policy", f.name, option, ID, status=125)
            ok(b"--policy" in p.stderr, f"{p.stderr}")
        # What --suggest prints can be used.
        SERVICE.requests.clear()
        suggested = SERVICE.call("network", "--suggest", "--json", ID).stdout
        SERVICE.call("network", "--policy", "-", ID, input=suggested)
        eq(SERVICE.requests[-2][2]["network"], json.loads(suggested))
    SERVICE.requests.clear()
    for text, words in ((b"{", b"line 1"), (b"[]", b"is not a JSON object"), (b'{"allow": [], "allow": []}', b"duplicate"),
                        (b'{"allow": [{"host": "*"}]}', b"/allow/0/host"), (b'{"allowed": []}', b"allowed"),
                        (b'{"limits": {"lookups_per_second": 0}}', b"/limits/lookups_per_second")):
        p = SERVICE.call("network", "--policy", "-", ID, input=text, status=125)
        ok(words in p.stderr, f"{text}: {p.stderr}")
    ok(b"open '/nowhere'" in SERVICE.call("create", "--policy", "/nowhere", status=125).stderr, "a file that does not exist")
    eq(SERVICE.requests, [], "a policy that is not valid is not sent")


@test
def suggest_names_both_a_host_and_its_address():
    rule = {"host": "10.1.2.3", "ports": [443], "protocols": ["tls"]}
    record = {"used": {"allow": []}, "denials": [
        {"host": "a.example", "port": 443, "address": "10.1.2.3", "reason": "private", "rule": rule}]}

    def suggest(*options):
        return SERVICE.call("network", "--suggest", *options, "-", input=json.dumps(record).encode()).stdout.decode()

    eq(suggest(), "# denied: private\n--allow a.example:443 --allow 10.1.2.3:443\n")
    eq(json.loads(suggest("--json"))["allow"], [dict(rule, host="a.example"), rule])
    # A connection to an address has no other host.
    record["denials"][0]["host"] = "10.1.2.3"
    eq(suggest(), "# denied: private\n--allow 10.1.2.3:443\n")


if __name__ == "__main__":
    sys.exit(run_tests())
