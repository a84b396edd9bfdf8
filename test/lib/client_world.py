# SPDX-License-Identifier: Apache-2.0
"""client_world.py - a service and the commands that use it"""
import contextlib
import json
import os
import re
import subprocess

from checks import Skip, ok, eq, free_port, warren, run_tests, WARREN, ROOT
from serve_world import World

WORLD = []  # the service, once there is one


def w():
    if not WORLD:
        port = free_port()
        world = World("--listen", f"tls:127.0.0.1:{port}", tcp=True, start=False)
        world.tls, world.cert = port, f"{world.dir}/cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{world.dir}/key.pem",
                        "-out", world.cert, "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True, timeout=60)
        world.options += ["--tls-cert", world.cert, "--tls-key", f"{world.dir}/key.pem"]
        world.start()
        WORLD.append(world)
    return WORLD[0]


def environ(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("WARREN_") or k == "WARREN_LIBEXEC"}
    return {**env, "WARREN_HOST": f"unix:{w().socket}", "TERM": "vt100", **more}


def call(*args, status=0, stderr=b"", env=None, **kw):
    """Runs a command to its end. stderr: exactly this, a pattern, or None for anything."""
    p = warren(*args, env=environ(**(env or {})), **kw)
    eq(p.returncode, status, f"status of {args}, which said {p.stderr[-500:]!r},")
    if isinstance(stderr, re.Pattern):
        ok(stderr.search(p.stderr), f"{args} said {p.stderr!r}")
    elif stderr is not None:
        eq(p.stderr, stderr, f"stderr of {args}")
    return p.stdout


def call_json(*args, **kw):
    return json.loads(call(*args, **kw))


def start(*args, env=None, **kw):
    kw.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen([WARREN, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env or environ(), **kw)


@contextlib.contextmanager
def sandbox(*options):
    """Creates a sandbox for the time of the block; yields its id."""
    box = call("create", *options).decode().strip()
    ok(re.fullmatch("[0-9b-df-hj-np-tv-z]{12}", box), f"an id: {box!r}")
    w().seen.add(box)
    try:
        yield box
    finally:
        call("rm", "-f", "-q", box)


def served(*path):
    """Skips the test if the service does not have it."""
    r = w().ask("GET", "/".join(path))
    if r.status == 501:
        raise Skip(f"the service does not have it: {r.json()['message']}")


def around(t):
    t()
    if WORLD:
        eq(call("ls", "-q"), b"", "sandboxes that the test left")


def main():
    if not ROOT:
        print("1..0 # SKIP needs root")
        return 0
    failed = run_tests(around)
    for world in WORLD:
        with world:
            pass
    return failed
