#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-backends.py - several backends in one service: which backends exist, which one is chosen, and which requests
are refused

Prints TAP.
"""
import contextlib
import importlib
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, SOURCE, eq, ok, run_tests, scratch, test, warren  # pylint: disable=wrong-import-position
from dockerd import Docker, rootfs  # pylint: disable=wrong-import-position
from serve_world import SERVE, WAIT, World, check_error, running, until  # pylint: disable=wrong-import-position

SHIM = os.path.join(BUILD, "warren-shim")

LOOSE = """
  loose:
    kind: command
    create: ['true']
    exec: [env, '{argv}']
    destroy: ['true']
"""


# --------------------------------------------------------------- list of backends


@test
def backends_are_listed_with_their_features():
    with World(config=f"backends:\n  docker: false\n{LOOSE}") as w:
        found = {b["name"]: b for b in w.get("/v1/backends")["backends"]}
        eq(sorted(found), ["gvisor", "loose", "native"], "backends")
        eq([(b["kind"], b["tier"], b["default"]) for _, b in sorted(found.items())],
           [("gvisor", "gvisor", False), ("command", "none", False), ("native", "namespace", True)], "what they are")
        native = found["native"]
        eq((native["available"], native["reason"], native["fix"]), (True, None, None), "native")
        ok(len(native["features"]) > 5, f"features: {native['features']}")
        for b in found.values():
            ok(b["available"] == (b["reason"] is None), f"one or the other: {b}")
            for f in b["features"]:
                ok(f["ok"] or not f["required"] or not b["available"], f"{b['name']} is available without {f}")


@test
def unsupported_features_of_a_backend_are_shown_and_refused():
    with World(config=f"backends:\n  docker: false\n{LOOSE}") as w:
        found = {b["name"]: {f["name"]: f["ok"] for f in b["features"]} for b in w.get("/v1/backends")["backends"]}
        cannot = {"pause": False, "checkpoint": False, "statistics": False, "update": False, "watch": False, "accounts": False}
        ok(cannot.items() <= found["loose"].items(), f"{found['loose']}")
        ok({"pause": True, "checkpoint": True, "statistics": True, "watch": False}.items() <= found["gvisor"].items(), f"{found['gvisor']}")
        box = w.create(backend="loose")
        at = f"/v1/sandboxes/{box}"
        for method, where, body in (("POST", "/pause", None), ("POST", "/pause", {"checkpoint": True}), ("GET", "/files/watch?path=/tmp", None), ("GET", "/stats", None),
                                    ("PATCH", "", {"limits": {"memory": "64m"}}), ("POST", "/hibernate", None), ("POST", "/reset", None), ("POST", "/snapshots", {}),
                                    ("POST", "/fork", {"count": 1})):
            r = w.ask(method, at + where, body)
            ok("loose" in check_error(r, 501, "not_supported")["message"], f"{where}: {r}")
        box = w.create()
        with w.client() as c:
            r = c.send("GET", f"/v1/sandboxes/{box}/files/watch", query={"path": "/tmp"})
            eq((r.status, r.readline()), (200, b'{"type":"ready"}\n'), "where it can be watched")


@contextlib.contextmanager
def docker_like(runtime):
    """Listens at a socket, and answers every request like /info of a daemon with that runtime."""
    body = json.dumps({"ServerVersion": "20", "Driver": "overlay2", "DefaultRuntime": runtime}).encode()
    with scratch() as d, socket.socket(socket.AF_UNIX) as s:
        s.bind(f"{d}/s")
        s.listen()

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    with s.accept()[0] as c:
                        c.recv(65536)
                        c.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        t = threading.Thread(target=serve)
        t.start()
        try:
            yield f"{d}/s"
        finally:
            s.shutdown(socket.SHUT_RDWR)
            t.join()


@test
def the_features_of_docker_depend_on_its_runtime():
    """The guest agent enters containers of runc and can watch files; containers with a separate kernel cannot be
    entered."""
    for runtime, can in (("runc", True), ("crun", True), ("youki", True), ("runsc", False), ("kata-runtime", False)):
        with docker_like(runtime) as path:
            p = subprocess.run([SHIM, "probe", "docker"], input=json.dumps({"socket": path}).encode(), capture_output=True,
                               timeout=WAIT, check=True)
        found = [f for f in json.loads(p.stdout) if f["name"] == "watch"]
        eq([(f["ok"], bool(f["effect"])) for f in found], [(can, not can)], runtime)
        ok(can or all(name in found[0]["fix"] for name in ("runc", "crun", "youki")), f"what would do: {found}")


@test
def a_shim_reports_how_long_a_step_may_take():
    """The time is that of the backend's configuration; the time for docker's daemon is some seconds shorter."""
    for kind, config, secs in (("command", {"exec": ["true", "{argv}"]}, 180), ("docker", {"socket": "/nowhere"}, 180),
                               ("command", {"exec": ["true", "{argv}"], "timeout": 86400}, 3 * 86400),
                               ("docker", {"socket": "/nowhere", "timeout": 3600}, 3 * 3610)):
        p = subprocess.run(["sh", "-c", 'exec "$0" features "$1" 3>&1 >/dev/null', SHIM, kind], input=json.dumps(config).encode(),
                           capture_output=True, timeout=WAIT, check=True)
        eq(struct.unpack_from("=I", p.stdout), (secs,), f"{kind} {config}")
        eq(struct.unpack_from("=i", p.stdout, 4), (0,), "then how it went")
        ok(b"watch\0" in p.stdout, "and what was asked")


@test
def an_unknown_backend_error_lists_the_backends():
    p = warren("image", "pull", "--backend", "nosuch", "x:1")
    eq((p.returncode, p.stdout, p.stderr), (125, b"", b"warren image pull: there is no backend 'nosuch' here; "
                                            b"available: docker, gvisor, command\n"))


@test
def backend_and_tier_are_shown_and_can_be_requested():
    with World() as w:
        s = w.show(w.create(labels={"a": "b"}))
        eq((s["backend"], s["tier"]), ("native", "namespace"), "of one that asks for nothing")
        s = w.show(w.create(backend="native", tier="container"))
        eq((s["backend"], s["tier"]), ("native", "namespace"), "a stronger wall than asked for")
        eq(len(w.sandboxes(backend="native")), 2, "by backend")
        eq(len(w.sandboxes(tier="namespace", label="a")), 1, "by tier")
        eq([w.sandboxes(backend="docker"), w.sandboxes(tier="gvisor")], [[], []], "by others")
        check_error(w.ask("GET", "/v1/sandboxes?tier=strong"), 400, "invalid_request")
        metrics = w.ask("GET", "/metrics").body.decode()
        ok('warren_backend_sandboxes{backend="native",tier="namespace"} 2\n' in metrics, metrics)


# --------------------------------------------------------------------- refusals


@test
def a_tier_is_provided_or_refused_with_its_name():
    with World(config=f"backends:\n{LOOSE}") as w:
        for spec, words in (({"tier": "vm"}, "tier 'vm' is requested, but no backend provides it here"),
                            ({"backend": "native", "tier": "gvisor"}, "backend 'native' is of tier 'namespace'"),
                            ({"backend": "docker", "image": "x", "tier": "namespace"}, "is of tier 'container'"),
                            ({"backend": "loose", "tier": "container"}, "backend 'loose' is of tier 'none'")):
            e = check_error(w.ask("POST", "/v1/sandboxes", spec), 422, "tier_unavailable")
            ok(words in e["message"] and "native (namespace)" in e["message"], f"{spec}: {e}")
        e = check_error(w.ask("POST", "/v1/sandboxes", {"backend": "nosuch"}), 503, "backend_unavailable")
        ok("there is no backend 'nosuch' here" in e["message"] and e["detail"]["backend"] == "nosuch", e)
        check_error(w.ask("POST", "/v1/sandboxes", {"tier": "strong"}), 400, "invalid_request")
        w.check_empty()
        # A batch creates all of its sandboxes or none.
        check_error(w.ask("POST", "/v1/sandboxes/batch", {"sandboxes": [{}, {"tier": "vm"}]}), 422, "tier_unavailable")
        eq(w.sandboxes(), [], "sandboxes")


@test
def options_that_a_backend_does_not_control_are_refused_by_name():
    with World(config=f"backends:\n{LOOSE}") as w:
        for spec, words in (({"backend": "loose", "image": "x"}, "/image: backend 'loose' has no images"),
                            ({"backend": "loose", "network": "none"}, "/network: backend 'loose' does not control"),
                            ({"backend": "docker", "image": "x", "pull": "always"}, "/pull: backend 'docker'"),
                            ({"backend": "docker", "image": "x", "platform": "linux/arm64"}, "/platform: backend")):
            e = check_error(w.ask("POST", "/v1/sandboxes", spec), 501, "not_supported")
            ok(words in e["message"], f"{spec}: {e}")
        e = check_error(w.ask("POST", "/v1/sandboxes", {"backend": "docker"}), 400, "invalid_request")
        ok("has no default image" in e["message"], e)


@test
def the_service_can_require_a_tier():
    with World("--min-tier", "namespace", "--tenant-tiers", "careful:vm", tcp=True) as w:
        w.delete(w.create())
        e = check_error(w.ask("POST", "/v1/sandboxes", {"backend": "docker", "image": "x"}), 422, "tier_unavailable")
        ok("is required by the service" in e["message"], e)
        token = w.token("read", "write", tenant="careful")
        e = check_error(w.ask("POST", "/v1/sandboxes", {}, token=token, tcp=True), 422, "tier_unavailable")
        ok("tier 'vm' is required by the service, but no backend provides it here" in e["message"], e)
        check_error(w.ask("POST", "/v1/sandboxes", {"backend": "native"}, token=token, tcp=True), 422, "tier_unavailable")
        other = w.token("read", "write", tenant="careless")
        w.delete(w.create(token=other, tcp=True), token=other, tcp=True)


# ------------------------------------------------------------------ configuration


def serve(text, *options):
    """Runs warren-serve with this configuration, with which it must exit."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(text)
        f.flush()
        return subprocess.run([SERVE, "--config", f.name, *options], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL)


@test
def a_configuration_is_checked_before_it_is_used():
    r = serve(f"backend: loose\nbackends:\n{LOOSE}    tier: vm\n", "--check", "--user", "nobody")
    eq((r.returncode, r.stderr), (0, ""), "a good one")
    ok('  loose: {"create": ["true"]' in r.stdout and '"tier": "vm"' in r.stdout, r.stdout)
    for text, words in (("backends:\n  x: {kind: command, exec: [a]}\n", ".yaml:2: backends.x"),
                        ("backends:\n  docker: {socket: here}\n", ".yaml:2: backends.docker.socket: 'here' is not"),
                        ("min_tier: strong\n", "'strong' is not one of none, container, namespace, gvisor, vm")):
        r = serve(text, "--check")
        ok(r.returncode == 1 and words in r.stderr, f"{text}: {r}")


@test
def the_settings_of_one_backend_are_shown():
    name, kind, tier, settings = serve(f"backends:\n{LOOSE}", "--show-backend", "loose").stdout.split(" ", 3)
    eq((name, kind, tier, json.loads(settings)["exec"]), ("loose", "command", "none", ["env", "{argv}"]), "settings")
    eq(serve("", "--show-backend", "docker").stdout, 'docker docker container {"kind":"docker","name":"docker"}\n', "of one by itself")
    eq(serve("", "--show-backend", ":gvisor").stdout.split(" ")[0], "gvisor", "by tier")
    for which, words in (("nosuch", "there is no backend 'nosuch'"), ("native:vm", "is of tier 'namespace'"),
                         (":vm", "no backend provides it here"), (":strong", "there is no tier 'strong'")):
        r = serve("", "--show-backend", which)
        ok(r.returncode == 1 and words in r.stderr, r)


# --------------------------------------------------------------------- examples


def example(name):
    with open(f"{SOURCE}/packaging/examples/{name}.yaml", encoding="utf-8") as f:
        return f.read()


def works(w, **spec):
    """Uses each feature of a sandbox once; returns the sandbox."""
    box = w.create(**spec)
    at = f"/v1/sandboxes/{box}"
    e = w.run(box, "echo out; echo err >&2; pwd; echo $X; exit 3", cwd="/tmp", env={"X": "a b"})
    eq((e["stdout"], e["stderr"], e["result"]["exit_code"]), ("out\n/tmp\na b\n", "err\n", 3), "an exec")
    eq(w.run(box, "cat", input="in")["stdout"], "in", "its stdin")
    ok(w.run(box, "sleep 5017.5", timeout_ms=300)["result"]["timed_out"], "it was not in time")
    until(lambda: not running("sleep", "5017.5"), "it is still running, inside")
    s = w.post(at + "/sessions", {}, status=201)["id"]
    command = lambda text, **more: w.post(f"{at}/sessions/{s}/run", {"command": text, **more})  # noqa: E731
    command("cd /tmp; x=5; f() { echo \"f $x\"; }")
    eq((command("f; pwd")["stdout"], command("false")["exit_code"]), ("f 5\n/tmp\n", 1), "a session")
    ok(command("sleep 5018.5", timeout_ms=300)["timed_out"], "a command that is out of time")
    eq(command("echo $x")["stdout"], "5\n", "the session after it")
    data = bytes(range(256)) * 4096
    r = w.ask("PUT", at + "/files", data, query={"path": f"/tmp/warren-{box}"})
    eq(r.status, 201, f"write a file: {r}")
    eq(w.ask("GET", at + "/files", query={"path": f"/tmp/warren-{box}"}).body, data, "a file")
    w.ask("DELETE", at + "/files", query={"path": f"/tmp/warren-{box}"}, status=204)
    w.kill("api", "warden")
    w.start()
    eq(command("f")["stdout"], "f 5\n", "the session, by another service")
    return box


@test
def the_example_configurations_are_valid():
    for name in ("docker-cli", "ssh"):
        r = serve(example(name), "--check", "--user", "nobody")
        eq((r.returncode, r.stderr), (0, ""), name)


@test
def the_docker_cli_example_works():
    with Docker() as docker:
        with open(rootfs(), "rb") as f:
            docker.call("import", "-", "example:1", stdin=f)
        os.environ["DOCKER_HOST"] = f"unix://{docker.socket}"
        try:
            with World(config=example("docker-cli")) as w:
                box = works(w, backend="docker-cli", image="example:1", limits={"memory": "64m"})
                shown = w.show(box)
                eq((shown["tier"], shown["image"]), ("container", "example:1"), "what it is")
                ok({"memory": True, "disk": False}.items() <= {e["name"]: e["enforced"] for e in shown["enforced"]}.items(),
                   f"what is enforced: {shown['enforced']}")
                e = check_error(w.ask("POST", "/v1/sandboxes", {"backend": "docker-cli", "image": "nosuch:1"}), 503,
                                "backend_unavailable")
                ok("docker-cli: create: " in e["message"], e)
                check_error(w.ask("POST", "/v1/sandboxes", {"backend": "docker-cli", "image": "example:1",
                                                            "limits": {"disk": "1m"}}), 501, "not_supported")
        finally:
            del os.environ["DOCKER_HOST"]
        eq(docker.call("ps", "-aq").decode().split(), [], "containers that are left")


@test
def the_ssh_example_works():
    with importlib.import_module("test-contract-others").Sshd() as sshd:
        with open(f"{sshd.dir}/client", "w", encoding="utf-8") as f:
            f.write(f"Host build-host\n HostName 127.0.0.1\n Port {sshd.port}\n User root\n IdentityFile {sshd.dir}/key\n"
                    f" UserKnownHostsFile {sshd.dir}/known\n")
        config = example("ssh").replace("[ssh, ", f"[ssh, -F, {sshd.dir}/client, ").replace("/run/warren/ssh", sshd.dir + "/s")
        with World(config=config) as w:
            works(w, backend="build-host", tier="vm")


if __name__ == "__main__":
    sys.exit(run_tests())
