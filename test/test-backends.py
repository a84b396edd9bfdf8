#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-backends.py - many backends behind one service: which there are, which one is taken, what is refused

Speaks TAP.
"""
import json
import subprocess
import sys
import tempfile

from checks import eq, ok, run_tests, test
from serve_world import SERVE, World, check_error

LOOSE = """
  loose:
    kind: command
    create: ['true']
    exec: [env, '{argv}']
    destroy: ['true']
"""


# ------------------------------------------------------------------ what there is


@test
def backends_are_listed_feature_by_feature():
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
def what_a_sandbox_has_is_shown_and_can_be_asked_for():
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
def a_wall_is_given_or_refused_by_name():
    with World(config=f"backends:\n{LOOSE}") as w:
        before = w.objects()
        for spec, words in (({"tier": "vm"}, "tier 'vm' is asked for, and is not to be had here"),
                            ({"backend": "native", "tier": "gvisor"}, "backend 'native' is of tier 'namespace'"),
                            ({"backend": "docker", "image": "x", "tier": "namespace"}, "is of tier 'container'"),
                            ({"backend": "loose", "tier": "container"}, "backend 'loose' is of tier 'none'")):
            e = check_error(w.ask("POST", "/v1/sandboxes", spec), 422, "tier_unavailable")
            ok(words in e["message"] and "native (namespace)" in e["message"], f"{spec}: {e}")
        e = check_error(w.ask("POST", "/v1/sandboxes", {"backend": "nosuch"}), 503, "backend_unavailable")
        ok("there is no backend 'nosuch' here" in e["message"] and e["detail"]["backend"] == "nosuch", e)
        check_error(w.ask("POST", "/v1/sandboxes", {"tier": "strong"}), 400, "invalid_request")
        eq(w.objects(), before, "what is left")
        # All or none of a batch.
        check_error(w.ask("POST", "/v1/sandboxes/batch", {"sandboxes": [{}, {"tier": "vm"}]}), 422, "tier_unavailable")
        eq(w.sandboxes(), [], "sandboxes")


@test
def what_a_backend_does_not_govern_is_refused_by_name():
    with World(config=f"backends:\n{LOOSE}") as w:
        for spec, words in (({"backend": "loose", "image": "x"}, "/image: backend 'loose' has no images"),
                            ({"backend": "loose", "network": "none"}, "/network: backend 'loose' does not govern"),
                            ({"backend": "docker", "image": "x", "pull": "always"}, "/pull: backend 'docker'"),
                            ({"backend": "docker", "image": "x", "platform": "linux/arm64"}, "/platform: backend")):
            e = check_error(w.ask("POST", "/v1/sandboxes", spec), 501, "not_supported")
            ok(words in e["message"], f"{spec}: {e}")
        e = check_error(w.ask("POST", "/v1/sandboxes", {"backend": "docker"}), 400, "invalid_request")
        ok("has images of its own" in e["message"], e)


@test
def the_service_can_require_a_wall():
    with World("--min-tier", "namespace", "--tenant-tiers", "careful:vm", tcp=True) as w:
        w.delete(w.create())
        e = check_error(w.ask("POST", "/v1/sandboxes", {"backend": "docker", "image": "x"}), 422, "tier_unavailable")
        ok("is what the service requires" in e["message"], e)
        token = w.token("read", "write", tenant="careful")
        e = check_error(w.ask("POST", "/v1/sandboxes", {}, token=token, tcp=True), 422, "tier_unavailable")
        ok("tier 'vm' is what the service requires, and is not to be had here" in e["message"], e)
        check_error(w.ask("POST", "/v1/sandboxes", {"backend": "native"}, token=token, tcp=True), 422, "tier_unavailable")
        other = w.token("read", "write", tenant="careless")
        w.delete(w.create(token=other, tcp=True), token=other, tcp=True)


# -------------------------------------------------------------- the configuration


def serve(text, *options):
    """warren-serve with this configuration, which is not to serve."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(text)
        f.flush()
        return subprocess.run([SERVE, "--config", f.name, *options], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL)


@test
def a_configuration_is_checked_before_it_is_used():
    r = serve(f"backend: loose\nbackends:\n{LOOSE}    tier: vm\n", "--check")
    eq((r.returncode, r.stderr), (0, ""), "a good one")
    ok('  loose: {"create": ["true"]' in r.stdout and '"tier": "vm"' in r.stdout, r.stdout)
    for text, words in (("backends:\n  x: {kind: command, exec: [a]}\n", ".yaml:2: backends.x"),
                        ("backends:\n  docker: {socket: here}\n", ".yaml:2: backends.docker.socket: 'here' is not"),
                        ("min_tier: strong\n", "'strong' is none of none, container, namespace, gvisor, vm")):
        r = serve(text, "--check")
        ok(r.returncode == 1 and words in r.stderr, f"{text}: {r}")


@test
def the_settings_of_one_backend_are_told():
    name, kind, tier, settings = serve(f"backends:\n{LOOSE}", "--show-backend", "loose").stdout.split(" ", 3)
    eq((name, kind, tier, json.loads(settings)["exec"]), ("loose", "command", "none", ["env", "{argv}"]), "settings")
    eq(serve("", "--show-backend", "docker").stdout, 'docker docker container {"kind":"docker","name":"docker"}\n', "of one by itself")
    eq(serve("", "--show-backend", ":gvisor").stdout.split(" ")[0], "gvisor", "by tier")
    for which, words in (("nosuch", "there is no backend 'nosuch'"), ("native:vm", "is of tier 'namespace'"),
                         (":vm", "not to be had here"), (":strong", "there is no tier 'strong'")):
        r = serve("", "--show-backend", which)
        ok(r.returncode == 1 and words in r.stderr, r)


if __name__ == "__main__":
    sys.exit(run_tests())
