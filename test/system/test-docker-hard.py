#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-docker-hard.py - the docker backend with misleading images and interference from other users of the daemon

Prints TAP. The test starts a separate daemon. An image declares volumes; a container is replaced by another one of
the same name; a container is killed without the service; the daemon is missing.
"""
import os
import signal
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from dockerd import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from serve_world import World, until  # pylint: disable=wrong-import-position

IMAGE, VOLUMES = "host-like:1", "volumes:1"


def images(d):
    data = tar({**host_like(), "data": directory(), "data/from-image": "kept\n", "var": directory(), "var/lib": directory()})
    d.call("import", "-", IMAGE, input=data)
    d.call("import", "--change", "VOLUME /data", "--change", "VOLUME /var/lib/db/", "-", VOLUMES, input=data)


def docker():
    return shared(images)


def world(d):
    return World(config=f"backends:\n  docker:\n    kind: docker\n    socket: {d.socket}\n")


def make(w, image=IMAGE, status=201, **spec):
    r = w.ask("POST", "/v1/sandboxes", {"backend": "docker", "image": image, **spec}, status=status).json()
    return r["id"] if status == 201 else r


def enforced(w, x):
    return {e["name"]: (e["enforced"], e["detail"]) for e in w.ask("GET", f"/v1/sandboxes/{x}").json()["enforced"]}


# ------------------------------------------------------------------- volumes


@test
def a_volume_is_as_read_only_as_the_root():
    d = docker()
    with world(d) as w:
        before = d.call("volume", "ls", "-q")
        x = make(w, VOLUMES, read_only=True)
        got = w.run(x, "for f in /x /data/x /var/lib/db/x; do echo x 2>/dev/null >$f && echo wrote $f; done; cat /data/from-image")
        eq(got["stdout"], "kept\n", got)
        eq((enforced(w, x)["read_only"][0], enforced(w, x)["disk"][0]), (True, True))
        # A sandbox can ask for a writable mount there.
        y = make(w, VOLUMES, read_only=True, mounts=[{"target": "/data", "size": 1 << 20}])
        got = w.run(y, "echo x >/data/x && echo wrote; echo x >/var/lib/db/x || echo refused")
        eq(got["stdout"], "wrote\nrefused\n", got)
        # The control: without read_only, the same image is writable.
        z = make(w, VOLUMES)
        eq(w.run(z, "echo x >/data/x && echo x >/var/lib/db/x && echo wrote")["stdout"], "wrote\n")
        for each in (x, y, z):
            w.ask("DELETE", f"/v1/sandboxes/{each}", status=204)
        eq(d.call("volume", "ls", "-q"), before, "volumes are left")


# ---------------------------------------------------------------- impostors


@test
def a_container_with_the_same_name_is_not_used():
    d = docker()
    with world(d) as w:
        x = make(w, labels={"a": "b"})
        eq(w.run(x, "echo ours")["stdout"], "ours\n")
        ours = d.call("inspect", "--format", "{{.Id}}", f"warren-{x}").decode().strip()
        d.call("rename", ours, "elsewhere")
        theirs = d.call("run", "-d", "--net=none", "--name", f"warren-{x}", "--label", f"warren.id={x}", IMAGE, "sh", "-c",
                        "echo theirs >/mark; sleep 1000").decode().strip()
        # Every operation uses the container that was created, not the one that has its name now.
        got = w.run(x, "cat /mark 2>/dev/null; echo still $?")
        eq(got["stdout"], "still 1\n", got)
        limit = 123 << 20
        w.ask("PATCH", f"/v1/sandboxes/{x}", {"limits": {"memory": limit}}, status=200)
        memory = "{{.HostConfig.Memory}}"
        eq([int(d.call("inspect", "--format", memory, c)) for c in (ours, theirs)], [limit, 0])
        w.ask("PUT", f"/v1/sandboxes/{x}/files?path=/put", body=b"y", status=None)
        w.ask("POST", f"/v1/sandboxes/{x}/pause", status=None)
        eq([d.call("inspect", "--format", "{{.State.Paused}}", c).decode().strip() for c in (ours, theirs)], ["true", "false"])
        w.ask("POST", f"/v1/sandboxes/{x}/resume", status=None)
        # When the original container is gone, the sandbox fails; the other container is left alone.
        d.call("rm", "-f", ours)
        until(lambda: w.ask("GET", f"/v1/sandboxes/{x}").json()["state"] != "running", "it is still said to run")
        w.ask("DELETE", f"/v1/sandboxes/{x}", status=204)
        eq(d.call("inspect", "--format", "{{.State.Running}}", theirs), b"true\n")
        d.call("rm", "-f", theirs)


@test
def a_container_that_replaced_a_removed_one_is_not_used():
    d = docker()
    with world(d) as w:
        x = make(w)
        d.call("rm", "-f", f"warren-{x}")
        theirs = d.call("run", "-d", "--net=none", "--name", f"warren-{x}", IMAGE, "sleep", "1000").decode().strip()
        for method, path, body in (("POST", "execs", {"argv": ["sh", "-c", "echo x >/mark"]}), ("GET", "stats", None),
                                   ("PATCH", "", {"limits": {"memory": 123 << 20}}), ("POST", "pause", None)):
            r = w.ask(method, f"/v1/sandboxes/{x}/{path}".rstrip("/"), *([body] if body else []))
            ok(r.status >= 400, f"{method} {path}: {r.status}")
        eq(d.call("exec", theirs, "sh", "-c", "ls /mark 2>/dev/null || echo none"), b"none\n")
        eq(int(d.call("inspect", "--format", "{{.HostConfig.Memory}}", theirs)), 0)
        w.ask("DELETE", f"/v1/sandboxes/{x}", status=204)
        eq(d.call("inspect", "--format", "{{.State.Running}}", theirs), b"true\n")
        d.call("rm", "-f", theirs)


# ------------------------------------------------------------------- faults


@test
def a_command_that_ended_with_its_container_is_lost():
    d = docker()
    with world(d) as w:
        for how in (("kill",), ("kill", "-s", "KILL"), ("rm", "-f"), ("stop", "-t", "0")):
            x = make(w)
            argvs = (["sleep", "1000"], ["sh", "-c", "sleep 1000; true"], ["sh", "-c", "kill -9 $$"], ["sh", "-c", "exit 7"])
            ids = [w.post(f"/v1/sandboxes/{x}/execs", {"argv": a}, status=201)["id"] for a in argvs]
            until(lambda: all(w.ask("GET", f"/v1/sandboxes/{x}/execs/{e}").json()["state"] == "exited" for e in ids[2:]), "they run on")
            d.call(*how, f"warren-{x}")
            until(lambda: w.ask("GET", f"/v1/sandboxes/{x}").json()["state"] == "failed", f"{how}: it is still said to run")
            got = [w.ask("GET", f"/v1/sandboxes/{x}/execs/{e}").json() for e in ids]
            eq([(g["state"], g["result"]) for g in got[:2]], [("lost", None)] * 2, (how, got))
            # The control: an exec whose end is known keeps its result, even if it was killed by a signal.
            eq([(g["state"], g["result"]["signal"] or 0, g["result"]["exit_code"]) for g in got[2:]],
               [("exited", signal.SIGKILL, -1), ("exited", 0, 7)], got)
            w.ask("DELETE", f"/v1/sandboxes/{x}", status=204)


@test
def a_stopped_daemon_makes_the_backend_unavailable():
    d = docker()
    with world(d) as w:
        x = make(w)
        eq(w.run(x, "echo on")["stdout"], "on\n")
        d.process.kill()
        d.process.wait()
        for method, path, body in (("POST", f"/{x}/execs", {"argv": ["true"]}), ("GET", f"/{x}/stats", None), ("POST", f"/{x}/pause", None),
                                   ("PATCH", f"/{x}", {"limits": {"memory": 123 << 20}}), ("POST", f"/{x}/sessions", {}),
                                   ("DELETE", f"/{x}", None), ("POST", "", {"backend": "docker", "image": IMAGE})):
            r = w.ask(method, f"/v1/sandboxes{path}", *([body] if body is not None else []))
            eq((r.status, r.json()["code"]), (503, "backend_unavailable"), f"{method} {path}: {r.body}")
        d.restart()
        until(lambda: w.ask("DELETE", f"/v1/sandboxes/{x}").status in (204, 404), "it is not deleted")


run()
