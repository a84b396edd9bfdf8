#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-network.py - a sandbox of the service reaches what its network policy allows, and nothing else"""
import json
import os
import pwd
import re
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, eq, ok, run_tests, test, warren  # pylint: disable=wrong-import-position
import network_world as nw  # pylint: disable=wrong-import-position
from loopback_dns import Dns  # pylint: disable=wrong-import-position
from serve_world import BACKEND, CONFIGS, World, fitted, refused, slurp, until  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name
HERE = {"host": "127.0.0.0/8"}  # the servers of this test have no public addresses


dns, server, other, banned = Dns(), nw.Server(), nw.Server(), nw.Server()
tls = None  # pylint: disable=invalid-name

def reach(box, host, port):
    """Returns the output of a client in the sandbox."""
    return nw.reach(w, box, host, port)


def Live(box, host, port):  # pylint: disable=invalid-name
    return nw.Live(w, box, host, port)


def policy(*hosts, **more):
    return {"allow": [{"host": h, "ports": [server.port]} for h in hosts] + [HERE], **more}


def new_box(**spec):
    """Creates a sandbox with this machine's programs; a container gets them by a mount."""
    if BACKEND == "docker":
        spec["mounts"] = [{"source": "/usr", "target": "/usr", "read_only": True}]
    return w.create(image="host", **spec)


def open_box(*hosts, **more):
    return new_box(network=policy(*hosts, **more))


def shown(box):
    return w.get(f"/v1/sandboxes/{box}/network")


@test
def a_sandbox_reaches_what_its_policy_names_and_nothing_else():
    box = open_box("a.test", "*.deep.test")
    eq(w.show(box)["network"], "policy")
    eq(reach(box, "a.test", server.port), "hello")
    eq(reach(box, "x.deep.test", server.port), "hello")
    before = server.accepted, other.accepted
    eq(reach(box, "b.test", server.port), "unknown")
    eq(reach(box, "deep.test", server.port), "unknown")
    eq(reach(box, "a.test", other.port), "refused")
    eq(reach(box, "8.8.8.8", server.port), "refused")
    eq((server.accepted, other.accepted), before)
    w.delete(box)


@test
def a_sandbox_without_a_policy_reaches_nothing():
    for network in ("loopback", "none"):
        box = new_box(network=network)
        eq(shown(box), {"network": network, "usage": {"connections": 0, "denied": 0, "bytes_in": 0, "bytes_out": 0}})
        ok(reach(box, "8.8.8.8", server.port) in ("Network is unreachable", "No route to host", "refused"), network)
        w.delete(box)


@test
def a_policy_change_ends_forbidden_connections():
    box = open_box("a.test", "b.test")
    a, b = Live(box, "a.test", server.port), Live(box, "b.test", server.port)
    w.ask("PATCH", f"/v1/sandboxes/{box}", {"labels": {"unrelated": "1"}}, status=200)
    eq((a.say("one"), b.say("two")), ("one", "two"))
    w.ask("PATCH", f"/v1/sandboxes/{box}", {"network": policy("b.test")}, status=200)
    eq(b.say("three"), "three")
    ok(a.say("four") in ("refused", "closed"), a.out())
    eq(reach(box, "a.test", server.port), "unknown")
    eq(reach(box, "b.test", server.port), "hello")
    w.ask("PATCH", f"/v1/sandboxes/{box}", {"network": "loopback"}, status=200)
    eq((w.show(box)["network"], reach(box, "b.test", server.port)), ("loopback", "unknown"))
    w.ask("PATCH", f"/v1/sandboxes/{box}", {"network": policy("b.test")}, status=200)
    eq(reach(box, "b.test", server.port), "hello")
    w.delete(box)


@test
def a_port_that_a_process_inside_uses_is_a_conflict():
    if BACKEND != "native":
        raise Skip("the process needs the privilege to bind the port")
    box = w.create(image="host")
    live = nw.Live(w, box, "python3", "-c", "import socket, sys\ns = socket.create_server(('', 1))\n"
                                      "print('hello', flush=True)\nsys.stdin.readline()\ns.close()\n"
                                      "print('closed', flush=True)")
    refused(w.ask("PATCH", f"/v1/sandboxes/{box}", {"network": policy("a.test")}), 409, "conflict", "TCP port 1")
    eq(w.show(box)["network"], "loopback")
    eq(live.say(""), "closed")
    w.ask("PATCH", f"/v1/sandboxes/{box}", {"network": policy("a.test")}, status=200)
    eq(reach(box, "a.test", server.port), "hello")
    w.delete(box)


@test
def a_rule_that_needs_certificates_is_refused_where_they_cannot_be_added():
    rule = {"allow": [{"host": "a.test", "ports": [443], "headers": {"X-Test": "1"}}]}
    box = open_box("a.test")
    r = w.ask("PATCH", f"/v1/sandboxes/{box}", {"network": rule})
    if BACKEND != "gvisor":
        eq(r.status, 200, r)
        w.delete(box)
        return
    refused(r, 501, "not_supported", "create a sandbox with such a rule")
    eq(reach(box, "a.test", server.port), "hello")  # the policy from before applies
    w.delete(box)
    box = new_box(network=rule)  # the control: one that was created with such a rule has the file
    for network in (policy("a.test"), rule):
        w.ask("PATCH", f"/v1/sandboxes/{box}", {"network": network}, status=200)
    w.kill("api")
    w.ready()
    for network in (policy("a.test"), rule):
        w.ask("PATCH", f"/v1/sandboxes/{box}", {"network": network}, status=200)
    w.delete(box)


@test
def a_sandbox_gets_its_first_policy_while_it_runs():
    box = new_box()
    eq(reach(box, "a.test", server.port), "unknown")
    if BACKEND == "gvisor":
        refused(w.ask("PATCH", f"/v1/sandboxes/{box}", {"network": policy("a.test")}), 501, "not_supported", "without a network policy")
        eq((w.show(box)["network"], reach(box, "a.test", server.port)), ("loopback", "unknown"))
    else:
        w.ask("PATCH", f"/v1/sandboxes/{box}", {"network": policy("a.test")}, status=200)
        eq(reach(box, "a.test", server.port), "hello")
    w.delete(box)


@test
def the_network_is_closed_while_egress_is_down_and_the_same_afterwards():
    box = open_box("a.test")
    live = Live(box, "a.test", server.port)
    pid = w.egress
    ok(pid, "warren-egress does not run")
    # While the warden is stopped, it cannot start warren-egress again.
    os.kill(w.warden, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    ok(live.say("cut") in ("refused", "closed"), live.out())
    before = server.accepted
    eq((reach(box, "a.test", server.port), reach(box, "8.8.8.8", server.port), server.accepted),
       ("unknown", "refused", before))
    os.kill(w.warden, signal.SIGCONT)
    until(lambda: w.egress not in (None, pid), "warren-egress runs again")
    ok("warren-egress ended; " in slurp(w.log_path), "the log says that it ended")
    ok(int(re.search(r"^warren_egress_ends_total (\d+)$", w.ask("GET", "/metrics").body.decode(), re.M)[1]) > 0, "it is counted")
    until(lambda: reach(box, "a.test", server.port) == "hello", "the network is open again")
    eq((reach(box, "b.test", server.port), reach(box, "a.test", other.port)), ("unknown", "refused"))
    w.delete(box)


@test
def the_policy_survives_each_process_of_the_service():
    box = open_box("a.test")
    eq(reach(box, "a.test", server.port), "hello")
    until(lambda: shown(box)["usage"]["bytes_in"] >= 6, "usage")
    used = shown(box)["usage"]
    for who in (("api",), ("warden",), ("api", "warden")):
        w.kill(*who)
        if "warden" in who:
            w.start()
        w.ready()
        until(lambda: reach(box, "a.test", server.port) == "hello", "the network is open again")
        eq((reach(box, "b.test", server.port), reach(box, "a.test", other.port)), ("unknown", "refused"))
        eq(shown(box)["policy"]["allow"][0], {"host": "a.test", "ports": [server.port]})
        ok(shown(box)["usage"]["connections"] >= used["connections"], "usage became less")
    w.delete(box)


@test
def denials_say_what_would_have_allowed_them():
    box = open_box("a.test")
    eq(reach(box, "a.test", server.port), "hello")
    eq(reach(box, "b.test", server.port), "unknown")
    eq(reach(box, "a.test", other.port), "refused")
    n = shown(box)
    eq([(d["host"], d.get("rule", {}).get("host")) for d in n["denials"]], [("b.test", "b.test"), ("a.test", "a.test")])
    ok(str(other.port) in n["denials"][1]["reason"], n["denials"])
    # The name alone would not suffice, because its address is not public.
    used = {r["host"] for r in n["used"]["allow"]}
    eq(used, {"a.test", "127.0.0.1"})
    eq((n["usage"]["denied"] >= 2, n["live"], n["used_complete"]), (True, [], True))
    for event in w.events("/v1/events", since=0, type="network.denied", format="ndjson"):
        if event.get("sandbox_id") == box:
            break
    w.delete(box)


@test
def limits_end_connections():
    box = open_box("a.test", limits={"total_bytes": 100000})
    address = w.run(box, ["python3", "-c", "import socket; print(socket.gethostbyname('a.test'))"])["stdout"].strip()
    eq(reach(box, address, server.port), "hello")
    r = w.run(box, ["python3", "-c", nw.CLIENT.replace("for line in sys.stdin:", "for line in ['x' * 200000 + chr(10)] * 9:"),
                    "a.test", str(server.port)])
    ok(r["stdout"].split()[-1][:7] in ("refused", "closed"), r["stdout"][-100:])
    eq((reach(box, address, server.port), reach(box, "a.test", server.port)), ("refused", "unknown"))
    ok(shown(box)["usage"]["bytes_out"] <= 100000, shown(box)["usage"])
    w.delete(box)


@test
def capabilities_come_from_the_configuration():
    box = new_box(network="here,git")
    eq(reach(box, "a.test", server.port), "hello")
    eq(reach(box, "b.test", server.port), "unknown")
    w.delete(box)
    box = new_box(network={"capabilities": ["here"], "deny": [{"host": "a.test"}]})
    eq(reach(box, "a.test", server.port), "unknown")
    w.delete(box)
    refused(w.ask("POST", "/v1/sandboxes", fitted({"image": "host", "network": "nowhere"})), 400, "invalid_request", "/network", "nowhere", "here")


@test
def a_configuration_with_policies_that_are_not_valid_is_refused():
    with tempfile.TemporaryDirectory(prefix="test-network-") as folder:
        for network, words in (
                ("{ capabilities: { a: { allow: [{ host: a.test }] } } }", ""),
                ("{ capabilities: { a: { allow: [{ host: '*' }] } } }", "network.capabilities.a"),
                ("{ capabilities: { a: { limits: { connections: 3 } } } }", "has no limits"),
                ("{ permit: { allow: 7 } }", "network.permit"),
                ("{ allow: [] }", "there is no key 'allow'"),
                ("{ dns_servers: [] }", "network.dns_servers"),
                ("{ lookups_per_second: 1 }", ""),
                ("{ lookups_per_second: 0 }", "network.lookups_per_second: must be a number from 1"),
                ("{ lookups_per_second: many }", "network.lookups_per_second: must be a number from 1")):
            with open(f"{folder}/w.yaml", "w", encoding="utf-8") as f:
                f.write(f"network: {network}\n")
            p = subprocess.run([w.program, "--config", f"{folder}/w.yaml", "--state-dir", folder, "--run-dir", folder, "--check"],
                               check=False, capture_output=True, text=True)
            eq(p.returncode != 0, bool(words), p.stderr)
            ok(words in p.stderr, f"{network}: {p.stderr}")


@test
def what_the_administrator_denies_or_limits_holds_for_every_policy():
    box = new_box(network={"allow": [{"host": "a.test"}, HERE]})
    full = shown(box)["policy"]
    eq((full["deny"], full["limits"]), ([{"host": "127.0.0.0/8", "ports": [banned.port]}], {"connections": 3000}))
    eq((reach(box, "a.test", server.port), reach(box, "a.test", banned.port), banned.accepted), ("hello", "refused", 0))
    # A policy that is sent back does not grow, and lower limits are kept.
    w.ask("PATCH", f"/v1/sandboxes/{box}", {"network": dict(full, limits={"connections": 7})}, status=200)
    eq(shown(box)["policy"], dict(full, limits={"connections": 7}))
    refused(w.ask("PATCH", f"/v1/sandboxes/{box}", {"network": dict(full, limits={"connections": 3001})}), 403,
            "policy_refused", "limits/connections: must be at most 3000")
    w.delete(box)


@test
def a_policy_that_is_not_valid_or_not_permitted_is_refused():
    for network, words in (
            ({"allow": [{"host": ""}]}, ["/network/allow/0/host"]),
            ({"allow": [{"host": "*"}]}, ["/network/allow/0/host"]),
            ({"allow": [{"host": "a.*.test"}]}, ["/network/allow/0/host"]),
            ({"allow": [{"host": "a.test."}]}, ["/network/allow/0/host"]),
            ({"allow": [{"host": "user@a.test"}]}, ["/network/allow/0/host"]),
            ({"allow": [{"host": "a.test", "ports": [0]}]}, ["/network/allow/0/ports/0"]),
            ({"allow": [{"host": "a.test", "ports": ["9-1"]}]}, ["/network/allow/0/ports/0"]),
            ({"allow": [{"host": "a.test", "more": 1}]}, ["/network/allow/0", "more"]),
            ({"allowed": []}, ["/network", "allowed"]),
            ({"allow": [{}]}, ["/network/allow/0"]),
            ({"allow": [{"host": "a.test", "headers": {"X-Key": "${secret.NOT_SET}"}}]}, ["/network", "NOT_SET"]),
            (7, ["/network"])):
        refused(w.ask("POST", "/v1/sandboxes", fitted({"image": "host", "network": network})), 400, "invalid_request", *words)
    for host in ("10.0.0.0/8", "169.254.169.254", "::1"):
        refused(w.ask("POST", "/v1/sandboxes", fitted({"image": "host", "network": {"allow": [{"host": host}]}})), 403,
                "policy_refused", "/network", "network.permit", host)
    for network, words in (({"allow": [{"host": "10.0.0.1"}]}, "--policy: /allow: the service does not permit"),
                           ({"capabilities": ["nowhere"]}, "--policy: /capabilities: 'nowhere'"),
                           ({"allow": [{"host": "a.test", "headers": {"X-Key": "${secret.NOT_SET}"}}]},
                            "--policy: /allow/0/headers/X-Key: there is no secret")):
        p = warren("create", "--image", fitted({"image": "host"})["image"], "--policy", "-",
                   input=json.dumps(network).encode(),
                   env={**os.environ, "WARREN_HOST": f"unix:{w.socket}"})
        ok(p.returncode == 125 and words in p.stderr.decode(), p)
    box = open_box("a.test")
    refused(w.ask("PATCH", f"/v1/sandboxes/{box}", {"network": {"allow": [{"host": "10.0.0.1"}]}}), 403, "policy_refused")
    refused(w.ask("PATCH", f"/v1/sandboxes/{box}", {"network": "none"}), 400, "invalid_request")
    refused(w.ask("PATCH", f"/v1/sandboxes/{box}", {"network": "loopback", "limits": {"pids": 99}}), 400, "invalid_request")
    eq(reach(box, "a.test", server.port), "hello")
    w.delete(box)


@test
def two_sandboxes_do_not_reach_each_other():
    one, two = open_box("a.test"), open_box("a.test")
    w.exec(one, ["python3", "-c", "import socket; s = socket.create_server(('', 8123)); s.accept()[0].sendall(b'one')"])
    until(lambda: reach(one, "127.0.0.1", 8123) == "one", "the server inside")
    w.exec(one, ["python3", "-c", "import socket; s = socket.create_server(('', 8123)); s.accept()[0].sendall(b'one')"])
    for address in ("198.18.0.1", "127.0.0.1", "fd77:6172:7265:6e::1"):
        eq(reach(two, address, 8123), "refused")
    w.delete(one)
    w.delete(two)


# Tries to change the namespace: an interface, a route, rules, another namespace; and to replace its listeners.
CHANGES = """
import ctypes, errno, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, f):
    try:
        r = f()
        print(name, "done" if r is None or r == 0 or not isinstance(r, int) else errno.errorcode[ctypes.get_errno()])
    except OSError as e:
        print(name, errno.errorcode[e.errno])
def link(up):
    import fcntl
    with socket.socket() as s:
        fcntl.ioctl(s, 0x8914, struct.pack("16sH14s", b"lo", up, b""))
def route(kind):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.send(struct.pack("=IHHII", 28, kind, 5, 1, 0) + struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 255, 4, 254, 2, 0))
    code = -struct.unpack("=i", s.recv(4096)[16:20])[0]
    if code:
        raise OSError(code, "")
def listen(port):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("", port))
    s.listen()
def transparent():
    s = socket.socket()
    s.setsockopt(socket.IPPROTO_IP, 19, 1)
attempt("link", lambda: link(0))
attempt("route", lambda: route(25))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
attempt("namespace", lambda: libc.unshare(0x40000000))
attempt("transparent", transparent)
attempt("listen", lambda: listen(1))
attempt("other", lambda: listen(8999))
"""


@test
def nothing_inside_can_change_the_captured_network():
    box = open_box("a.test")
    r = w.run(box, ["python3", "-c", CHANGES])
    said = dict(line.split() for line in r["stdout"].splitlines())
    eq(said.pop("other"), "done", r)  # every program may do this
    if BACKEND == "gvisor":
        said.pop("transparent")  # gVisor's kernel ignores the option
    for name in said:
        ok(said[name] != "done", f"{name}: {r}")
    eq((reach(box, "a.test", server.port), reach(box, "b.test", server.port), reach(box, "8.8.8.8", server.port)),
       ("hello", "unknown", "refused"))
    w.delete(box)


@test
def a_sandbox_with_a_policy_cannot_be_saved():
    if BACKEND != "gvisor":
        raise Skip("only gVisor saves sandboxes")
    box = open_box("a.test")
    refused(w.ask("POST", f"/v1/sandboxes/{box}/pause", {"checkpoint": True}), 501, "not_supported", "network policy")
    eq(reach(box, "a.test", server.port), "hello")
    w.delete(box)


@test
def a_backend_that_cannot_enforce_policies_refuses_them():
    with World(config="backends:\n  toy:\n    kind: command\n    exec: [env, '{argv}']\n") as other_world:
        r = other_world.ask("POST", "/v1/sandboxes", {"backend": "toy", "network": policy("a.test")})
        refused(r, 501, "not_supported", "'toy' does not control the network")


@test
def egress_has_no_privileges_and_no_environment():
    box = open_box("a.test")
    status = dict(line.split(":\t", 1) for line in slurp(f"/proc/{w.egress}/status").splitlines() if ":\t" in line)
    eq({status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}, {"0" * 16})
    eq((status["NoNewPrivs"], status["Seccomp"], status["Groups"].strip()), ("1", "2", ""))
    user = pwd.getpwnam(nw.EGRESS_USER)
    eq((set(status["Uid"].split()), set(status["Gid"].split())), ({str(user.pw_uid)}, {str(user.pw_gid)}))
    ok(os.stat(f"/proc/{w.api}").st_uid not in (0, user.pw_uid), "the api has another user")
    ok(slurp(f"/proc/{w.warden}/environ"), "the warden has an environment")
    if not os.environ.get("ASAN_OPTIONS"):
        eq(slurp(f"/proc/{w.egress}/environ"), "")
    w.delete(box)


@test
def a_sandbox_with_connections_is_deleted():
    box = open_box("a.test")
    live = [Live(box, "a.test", server.port) for _ in range(3)]
    eq([c.say("x") for c in live], ["x"] * 3)
    w.delete(box)
    w.check_empty()


@test
def a_sandbox_deleted_while_its_network_is_opened_leaves_nothing():
    other_box = open_box("a.test")
    egress = w.egress
    os.kill(egress, signal.SIGSTOP)  # it has the request to add the sandbox, and does not answer
    statuses = []
    try:
        spec = fitted({"image": "host", "network": policy("a.test"), "labels": {"deleted": "soon"}})
        create = threading.Thread(target=lambda: statuses.append(w.ask("POST", "/v1/sandboxes", spec).status))
        create.start()
        found = until(lambda: [s for s in w.sandboxes() if s["id"] != other_box], "a sandbox that is being created")
        eq(found[0]["state"], "creating")
        delete = threading.Thread(target=lambda: statuses.append(w.ask("DELETE", f"/v1/sandboxes/{found[0]['id']}").status))
        delete.start()
    finally:
        os.kill(egress, signal.SIGCONT)
    create.join()
    delete.join()
    until(lambda: w.state_of(found[0]["id"]) == "gone", "it is gone")
    until(lambda: reach(other_box, "a.test", server.port) == "hello", statuses)
    w.delete(other_box)
    w.check_empty()


@test
def a_secret_is_added_outside_and_never_seen_inside():
    value = "s3cret-value"
    w.ask("PUT", "/v1/secrets/KEY", {"value": value}, status=201)
    rule = {"host": "a.test", "ports": [tls.port], "headers": {"X-Key": "Bearer ${secret.KEY}"}}
    box = new_box(network={"allow": [rule, HERE]})
    fetch = ["curl", "-sS", "-m", "50", f"https://a.test:{tls.port}/"]

    # A client that does not trust the service's authority sends nothing.
    r = w.run(box, ["sh", "-c", 'for i in /usr/share/ca-certificates/mozilla/*; do exec "$@" --cacert "$i"; done', "sh", *fetch])
    eq((r["result"]["exit_code"], tls.keys), (60, []), r)
    r = w.run(box, [*fetch, "-H", "X-Key: mine"])
    eq((r["stdout"], tls.keys), ("ok\n", [[f"Bearer {value}"]]), r)
    r = w.run(box, ["python3", "-c", f"import urllib.request as u; print(u.urlopen('{fetch[-1]}').read())"])
    eq((r["stdout"], len(tls.keys)), ("b'ok\\n'\n", 2), r)
    w.ask("PUT", "/v1/secrets/KEY", {"value": value + "-2"}, status=204)
    until(lambda: w.run(box, fetch)["stdout"] == "ok\n"
          and tls.keys[-1] == [f"Bearer {value}-2"], lambda: tls.keys)
    looked = w.run(box, ["sh", "-c", "env; cat /proc/self/mountinfo; cat /proc/[0-9]*/environ"])["stdout"]
    ok(value not in looked and "PATH=" in looked, looked)
    ok(value not in str(shown(box)) and "secret.KEY" in str(shown(box)), shown(box))
    ok(value not in slurp(w.log_path), "the log contains the value")
    eq([m for m in w.show(box)["mounts"] if m["target"] != "/usr"], [])
    w.delete(box)


@test
def only_a_sandbox_whose_tls_is_terminated_trusts_the_authority():
    look = ["sh", "-c", "echo $SSL_CERT_FILE; for i in /etc/warren/ca*; do [ -s $i ] && echo $i; done"]
    box = open_box("a.test")
    eq(w.run(box, look)["stdout"], "\n")
    w.delete(box)
    box = new_box(read_only=True, env={"PIP_CERT": "mine"},
                  network={"allow": [{"host": "a.test", "protocols": ["https"], "methods": ["GET"]}, HERE]})
    eq(w.run(box, look)["stdout"], "/etc/warren/ca-certificates.crt\n" * 2)
    r = w.run(box, ["sh", "-c", "echo x >>$SSL_CERT_FILE; echo $PIP_CERT; grep -c BEGIN $SSL_CERT_FILE"])
    eq(r["stdout"].split()[0], "mine")
    ok(int(r["stdout"].split()[1]) > 1 and "Read-only" in r["stderr"], r)
    fetch = ["curl", "-sS", "-m", "50", "-o", "/dev/null", "-w", "%{http_code}", f"https://a.test:{tls.port}/"]
    eq(w.run(box, fetch)["stdout"], "200")
    eq(w.run(box, [*fetch, "-X", "POST"])["stdout"], "403")
    w.delete(box)


CONFIG = """
egress_user: {egress_user}
mounts: ['/usr:ro']
network:
  permit:
    allow: [{{ public: true }}, {{ host: 127.0.0.0/8 }}]
    deny: [{{ host: 127.0.0.0/8, ports: [{banned}] }}]
    limits: {{ connections: 3000 }}
  capabilities:
    here: {{ allow: [{{ host: a.test, ports: [{port}] }}, {{ host: 127.0.0.0/8 }}] }}
  dns_servers: '127.0.0.1:{dns}'
  ca_file: {authority}
"""


def main():
    global tls, w  # pylint: disable=global-statement
    try:
        with tempfile.TemporaryDirectory(prefix="test-network-") as folder:
            os.chmod(folder, 0o755)
            tls = nw.TlsServer(folder)
            with World(config=CONFIGS[BACKEND] + CONFIG.format(
                    port=server.port, banned=banned.port, dns=dns.port, authority=tls.authority, egress_user=nw.EGRESS_USER)) as w:
                return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
