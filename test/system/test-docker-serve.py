#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-docker-serve.py - the service with the docker backend, and containers that are changed without the service

Prints TAP. The test starts a separate daemon. test-docker-suites.py has the tests that apply to all backends.
"""
import errno
import glob
import hashlib
import os
import re
import socket
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from dockerd import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from serve_world import World, until  # pylint: disable=wrong-import-position

IMAGE = "host-like:1"  # the same as in serve_world.py


def docker():
    return shared(lambda d: d.call("import", "-", IMAGE, input=tar(host_like())))


def world(d):
    return World("--trusted-registries", registry().host, config=f"backends:\n  docker:\n    kind: docker\n    socket: {d.socket}\n")


def traces(run_dir, but=()):
    """The files of sandboxes with a shim in the run directory."""
    found = glob.glob(f"{run_dir}/kept/*/*") + glob.glob(f"{run_dir}/boxes/*")
    return [p for p in found if os.path.basename(p).partition(".")[0] not in {"lock", *but}]


def names(d, *options):
    return d.call("ps", *options, "--format", "{{.Names}}").decode().split()


@test
def code_runs_in_a_container_that_is_then_removed():
    d = docker()
    with world(d) as w:
        def ask(language, text, **more):
            return w.ask("POST", "/v1/code", {"language": language, "code": text, "backend": "docker", "image": IMAGE,
                                              "timeout_ms": 60000, **more})
        r = ask("bash", "cat in -; mkdir out; echo made >out/a; echo x >/usr/x; exit 3", stdin="stdin", files={"in": "file "},
                artifacts=["out/*"]).json()
        eq((r["exit_code"], r["stdout"], [(a["path"], a["content"]) for a in r["artifacts"]]), (3, "file stdin", [("out/a", "made\n")]), r)
        ok("ead-only" in r["stderr"], r)
        eq([e["enforced"] for e in r["enforced"] if e["name"] in ("memory", "pids", "network")], [True] * 3, r["enforced"])
        r = ask("bash", "echo so far; sleep 600", timeout_ms=3000).json()
        eq((r["exit_code"], r["timed_out"], r["stdout"]), (124, True, "so far\n"), r)
        r = ask("rust", "")
        eq((r.status, r.json()["code"]), (422, "command_not_found"), r)
        ok("'rustc'" in r.json()["message"], r)
        until(lambda: names(d, "-a") == [], "containers are left")


@test
def a_sandbox_fails_when_its_container_is_killed():
    d = docker()
    with world(d) as w:
        lives, dies, goes = (w.post("/v1/sandboxes", {"backend": "docker", "image": IMAGE}, status=201)["id"] for _ in range(3))
        eq(sorted(names(d)), sorted(f"warren-{x}" for x in (lives, dies, goes)))
        e = w.post(f"/v1/sandboxes/{dies}/execs", {"argv": ["sleep", "1000"]}, status=201)["id"]
        d.call("kill", f"warren-{dies}")
        d.call("rm", "-f", f"warren-{goes}")
        for x in (dies, goes):
            until(lambda x=x: w.ask("GET", f"/v1/sandboxes/{x}").json().get("state") != "running", f"{x} is still said to run")
        r = w.ask("GET", f"/v1/sandboxes/{dies}/execs/{e}").json()
        # The result of a running exec is unknown; an exec that ended before has its result.
        eq((r["state"], r["result"]), ("lost", None), r)
        # The other sandbox is not affected.
        eq(w.run(lives, "echo on")["stdout"], "on\n")
        for x in (lives, dies, goes):
            w.ask("DELETE", f"/v1/sandboxes/{x}", status=204)
        until(lambda: names(d, "-a") == [], "containers are left")


@test
def a_container_can_resolve_its_name():
    """Without a network, the daemon does not add the name to /etc/hosts."""
    d = docker()
    with world(d) as w:
        for hostname, expected in ((None, ()), ("node7.example.org", ("node7.example.org", "node7"))):
            spec = {"backend": "docker", "image": IMAGE} | ({"hostname": hostname} if hostname else {})
            box = w.post("/v1/sandboxes", spec, status=201)["id"]
            eq(w.run(box, "hostname -i; echo $LANG")["stdout"].split(), ["127.0.0.1", "C.UTF-8"])
            found = [line.split() for line in w.run(box, "cat /etc/hosts")["stdout"].splitlines()]
            for name in expected or (box,):
                eq([line[0] for line in found if name in line[1:]], ["127.0.0.1"], name)
            w.ask("DELETE", f"/v1/sandboxes/{box}", status=204)


def bare(d):
    """An image with one program, which only works if it is called by its name, and a user that is not root."""
    if "bare" not in d.call("images", "--format", "{{.Repository}}").decode().split():
        with open("/bin/busybox", "rb") as f:
            d.call("import", "--change", "USER app", "--change", "WORKDIR /home/app", "-", "bare:1", input=tar({
                "busybox": File(f.read(), 0o755), "etc": directory(), "etc/text": "text", "home": directory(),
                "etc/passwd": "root:x:0:0::/root:/none\napp:x:1234:1235::/home/app:/none\n",
                "home/app": directory(uid=1234, gid=1235), "home/app/mine": File(b"mine", 0o600, uid=1234, gid=1235)}))


@test
def commands_run_in_an_image_without_a_shell():
    """Commands run and can be ended, missing commands are reported, and operations that need a shell report that it
    is missing."""
    d = docker()
    bare(d)
    with world(d) as w:
        box = w.post("/v1/sandboxes", {"backend": "docker", "image": "bare:1"}, status=201)["id"]
        at = f"/v1/sandboxes/{box}"
        for argv, code in ((["/busybox", "true"], 0), (["/busybox", "false"], 1), (["/busybox", "sleep", "0.3"], 0)):
            eq(w.post(f"{at}/run", {"argv": argv})["result"]["exit_code"], code)
        eq(w.post(f"{at}/run", {"argv": ["/busybox", "echo", "said"]})["stdout"], "said\n")
        r = w.ask("POST", f"{at}/run", {"argv": ["/no/such"]})
        eq((r.status, r.json()["code"]), (422, "command_not_found"), r.body)
        # A timeout and a signal end the process inside.
        r = w.post(f"{at}/run", {"argv": ["/busybox", "sleep", "1001"], "timeout_ms": 500})
        eq((r["result"]["timed_out"], r["result"]["signal"]), (True, signal.SIGKILL), r)
        e = w.post(f"{at}/execs", {"argv": ["/busybox", "sleep", "1002"]}, status=201)["id"]
        w.post(f"{at}/execs/{e}/signal", {"signal": "TERM"}, status=204)
        until(lambda: w.get(f"{at}/execs/{e}")["state"] == "exited", "it does not end")
        eq(w.get(f"{at}/execs/{e}")["result"]["signal"], signal.SIGTERM)
        eq([x for x in d.call("top", f"warren-{box}", "-eo", "pid,args").decode().splitlines() if "sleep" in x], [])
        r = w.ask("POST", f"{at}/sessions", {})
        ok(r.status in (422, 501) and "shell" in r.json()["message"], r.body)
        w.delete(box)


@test
def files_and_ports_work_in_an_image_without_a_shell():
    """The guest agent does the work; no program of the image is needed."""
    d = docker()
    bare(d)
    with world(d) as w:
        box = w.post("/v1/sandboxes", {"backend": "docker", "image": "bare:1"}, status=201)["id"]
        at = f"/v1/sandboxes/{box}"

        def ask(method, where="", body=None, status=200, **query):
            return w.ask(method, f"{at}/files{where}", body, query=query, status=status)
        eq(w.post(f"{at}/run", {"argv": ["/busybox", "id", "-u"]})["stdout"], "1234\n", "the image's user")
        eq(w.post(f"{at}/run", {"argv": ["/busybox", "pwd"]})["stdout"], "/home/app\n", "and its directory")
        data = os.urandom(3 << 20)
        ask("PUT", "", data, status=201, path="/home/app/new", mode="0640")
        ok(ask("GET", path="/home/app/new").body == data, "what was written is read")
        s = ask("GET", "/stat", path="/home/app/new").json()
        eq((s["type"], s["size"], s["mode"], s["uid"], s["gid"]), ("file", len(data), "0640", 1234, 1235), s)
        eq(w.post(f"{at}/run", {"argv": ["/busybox", "sha256sum", "new"]})["stdout"].split()[0],
           hashlib.sha256(data).hexdigest(), "and it is the same inside")
        # File requests have the permissions of the sandbox's user.
        eq(ask("GET", path="/home/app/mine").body, b"mine")
        eq(ask("GET", path="/home/app/mine", user="99", status=403).json()["code"], "permission_denied")
        eq(ask("PUT", "", b"x", path="/etc/text", status=403).json()["code"], "permission_denied")
        eq(ask("PUT", "", b"x", path="/etc/text", user="0").json()["size"], 1, "root may")
        # Trees, changes, searches and watches work.
        with w.client() as c:
            r = c.send("GET", f"{at}/files/watch", query={"path": "/home/app"})
            eq(r.readline(), b'{"type":"ready"}\n')
            ask("POST", "/mkdir", {"path": "/home/app/d"}, status=201)
            eq(json.loads(r.readline()), {"type": "created", "path": "/home/app/d"})
        ask("PUT", "/tar", tar({"a": directory(), "a/b": "needle"}), path="/home/app/d")
        eq(len(ask("POST", "/search", {"path": "/home/app/d", "content": "needle"}).json()["matches"]), 1)
        ask("POST", "/move", {"from": "/home/app/d/a", "to": "/home/app/e"})
        eq([e["path"] for e in ask("GET", "/list", path="/home/app").json()["entries"]],
           [f"/home/app/{x}" for x in ("d", "e", "mine", "new")])
        ask("DELETE", path="/home/app/e", recursive="true", status=204)
        eq(ask("GET", "/stat", path="/home/app/e", status=404).json()["code"], "file_not_found")
        eq(ask("GET", path="/proc/1/maps", user="0", status=403).json()["code"], "permission_denied")
        # A server.
        eq(w.ask("GET", f"{at}/ports/8000/text", status=502).json()["code"], "port_closed")
        w.post(f"{at}/execs", {"argv": ["/busybox", "httpd", "-f", "-p", "127.0.0.1:8000", "-h", "/etc"]}, status=201)
        until(lambda: w.ask("GET", f"{at}/ports/8000/text").status == 200, "nobody answers")
        eq(w.ask("GET", f"{at}/ports/8000/text").body, b"x")
        # The socket still exists, but refuses other clients.
        (door,) = glob.glob(f"{w.run_dir}/kept/*/{box}/door")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            eq(s.connect_ex(door), errno.ECONNREFUSED, door)
        w.delete(box)
        eq(names(d, "-a"), [], "containers")


@test
def a_sandbox_can_have_no_network_and_a_read_only_root():
    """Each sandbox is compared with one that has the network or a writable root."""
    d = docker()
    bare(d)
    with world(d) as w:
        boxes = [w.post("/v1/sandboxes", {"backend": "docker", "image": "bare:1", "user": "0", **spec}, status=201)["id"]
                 for spec in ({}, {"network": "none", "read_only": True, "mounts": [{"target": "/tmp", "size": 1 << 20}]})]

        def run(box, *argv):
            return w.post(f"/v1/sandboxes/{box}/run", {"argv": ["/busybox", *argv]})
        for box, shut in zip(boxes, (False, True)):
            at = f"/v1/sandboxes/{box}"
            r = run(box, "touch", "/etc/new")
            eq((r["result"]["exit_code"] != 0, "Read-only file system" in r["stderr"]), (shut, shut), r)
            r = w.ask("PUT", f"{at}/files", b"x", query={"path": "/etc/put"})
            eq((r.status, r.json().get("code")), (409, "read_only") if shut else (201, None), r)
            eq(run(box, "ls", "/etc/new", "/etc/put")["result"]["exit_code"] != 0, shut)
            # Mounted filesystems are not affected.
            w.ask("PUT", f"{at}/files", b"x", query={"path": "/tmp/x"}, status=201)
            w.post(f"{at}/execs", {"argv": ["/busybox", "httpd", "-f", "-p", "8000", "-h", "/etc"]}, status=201)
            until(lambda box=box: ":8000 " in run(box, "netstat", "-ltn")["stdout"], "nobody listens")
            eq(run(box, "wget", "-q", "-O", "-", "http://127.0.0.1:8000/text")["result"]["exit_code"] != 0, shut)
            eq(w.ask("GET", f"{at}/ports/8000/text").status, 502 if shut else 200)
            eq({e["name"]: e["detail"] for e in w.get(at)["enforced"]}["network"], "none" if shut else "loopback only")
            w.delete(box)


@test
def a_service_finds_only_its_own_containers():
    d = docker()
    with world(d) as mine, world(d) as theirs:
        boxes = [w.post("/v1/sandboxes", {"backend": "docker", "image": IMAGE}, status=201)["id"] for w in (mine, theirs)]
        mine.run(boxes[0], "echo kept >/tmp/x")
        mine.kill("api", "warden")
        mine.start()
        eq(mine.run(boxes[0], "cat /tmp/x")["stdout"], "kept\n")
        eq([[x["id"] for x in w.get("/v1/sandboxes")["sandboxes"]] for w in (mine, theirs)], [boxes[:1], boxes[1:]])
        # Containers of another engine have its label, and are not treated as leftovers of this one.
        eq(len({json.loads(d.call("inspect", f"warren-{x}"))[0]["Config"]["Labels"]["warren.engine"] for x in boxes}), 2)
        mine.delete(boxes[0])
        mine.delete(mine.post("/v1/sandboxes", {"backend": "docker", "image": IMAGE}, status=201)["id"])
        eq(names(d), [f"warren-{boxes[1]}"])
        eq(theirs.run(boxes[1], "echo on")["stdout"], "on\n")
        theirs.delete(boxes[1])


@test
def file_requests_for_a_frozen_container_are_refused():
    """The container is frozen without the service: requests report it, and a request that was given up is not carried
    out later."""
    d = docker()
    with world(d) as w:
        box = w.post("/v1/sandboxes", {"backend": "docker", "image": IMAGE}, status=201)["id"]
        at = f"/v1/sandboxes/{box}/files"
        w.ask("PUT", at, b"1", query={"path": "/tmp/x"}, status=201)
        d.call("pause", f"warren-{box}")
        r = w.ask("DELETE", at, query={"path": "/tmp/x"})
        ok(r.status >= 400 and "docker: the container is paused" in r.json()["message"], r)
        d.call("unpause", f"warren-{box}")
        eq(w.ask("GET", at, query={"path": "/tmp/x"}).body, b"1", "it is there")
        w.ask("DELETE", at, query={"path": "/tmp/x"}, status=204)
        w.delete(box)


@test
def requests_are_answered_when_the_daemon_restarts():
    """An exec, a session command and a create are in progress: each is answered, and nothing is left behind."""
    with Docker() as d:
        d.call("import", "-", IMAGE, input=tar(host_like()))
        with world(d) as w:
            box = w.post("/v1/sandboxes", {"backend": "docker", "image": IMAGE}, status=201)["id"]
            at, answers = f"/v1/sandboxes/{box}", {}
            e = w.post(f"{at}/execs", {"argv": ["sleep", "1000"]}, status=201)["id"]
            s = w.post(f"{at}/sessions", {}, status=201)["id"]

            def ask(key, path, body):
                with w.client() as c:
                    answers[key] = c.ask("POST", path, body)
            asking = [threading.Thread(target=ask, args=x) for x in (
                ("session", f"{at}/sessions/{s}/run", {"command": "touch /tmp/here; sleep 1000"}),
                ("create", "/v1/sandboxes", {"backend": "docker", "image": IMAGE}))]
            asking[0].start()
            until(lambda: w.ask("GET", f"{at}/files/stat", query={"path": "/tmp/here"}).status == 200, "it does not begin")
            asking[1].start()
            d.restart()
            for t in asking:
                t.join(WAIT)
            until(lambda: w.get(at)["state"] == "failed", lambda: w.get(at))
            ok(w.get(at)["error"], "no reason is given")
            r = w.get(f"{at}/execs/{e}")
            ok(r["state"] == "lost" or (r["state"], r["result"]["signal"]) == ("exited", signal.SIGKILL), r)
            r = answers["session"]
            ok(r.status >= 400 or r.json()["exit_code"] != 0, r)
            r = answers["create"]
            ok(r.status == 201 or (r.status >= 500 and "docker: " in r.json()["message"]), r)
            # The service works as before.
            fresh = w.post("/v1/sandboxes", {"backend": "docker", "image": IMAGE}, status=201)["id"]
            eq(w.run(fresh, "echo on")["stdout"], "on\n")
            for x in w.get("/v1/sandboxes")["sandboxes"]:
                w.ask("DELETE", f"/v1/sandboxes/{x['id']}")
            until(lambda: names(d, "-a") == [], lambda: f"containers are left: {names(d, '-a')}")
            until(lambda: traces(w.run_dir, w.slots().values()) == [], lambda: traces(w.run_dir, w.slots().values()))


@test
def a_command_for_a_frozen_container_is_refused():
    """The container is frozen without the service: the error says so, and commands run again afterwards."""
    d = docker()
    with world(d) as w:
        box = w.post("/v1/sandboxes", {"backend": "docker", "image": IMAGE}, status=201)["id"]
        d.call("pause", f"warren-{box}")
        r = w.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]})
        ok(r.status >= 400 and "docker: create an exec: " in r.json()["message"] and "paused" in r.json()["message"], r)
        d.call("unpause", f"warren-{box}")
        eq(w.run(box, "echo on")["stdout"], "on\n")
        w.delete(box)


class StartProxy(Proxy):
    """Delays each start of a command while .gate is closed, and counts pauses."""

    def __init__(self, d):
        self.gate, self.held, self.pauses = threading.Event(), 0, 0
        self.gate.set()
        super().__init__(d)

    def judge(self, data):
        if re.match(rb"POST /exec/\w+/start ", data) and not self.gate.is_set():
            self.held += 1
            self.gate.wait(WAIT)
        self.pauses += bool(re.match(rb"POST /containers/\w+/pause ", data))

    def __exit__(self, *exc):
        self.gate.set()
        super().__exit__(*exc)


def pause_is_waiting(w, box):
    """Whether a process holds the exclusive lock to pause the container (container_lock.c)."""
    inode = os.stat(glob.glob(f"{w.run_dir}/kept/*/{box}/docker")[0]).st_ino
    with open("/proc/locks", encoding="ascii") as f:
        return any(line.split()[1:4:2] == ["OFDLCK", "WRITE"] and line.split()[5].endswith(f":{inode}") for line in f)


@test
def a_pause_waits_for_commands_that_are_starting():
    """A command that is frozen while it starts would block the daemon, and the sandbox's deletion."""
    with StartProxy(docker()) as d, world(d) as w:
        box = w.post("/v1/sandboxes", {"backend": "docker", "image": IMAGE}, status=201)["id"]
        at, answers = f"/v1/sandboxes/{box}", {}

        def ask(key, path, body=None):
            with w.client() as c:
                answers[key] = c.ask("POST", f"{at}/{path}", body)
        asking = [threading.Thread(target=ask, args=x) for x in (("run", "run", {"argv": ["echo", "on"]}), ("pause", "pause"))]
        eq(w.run(box, "echo first")["stdout"], "first\n")
        d.gate.clear()
        asking[0].start()
        until(lambda: d.held, "no command starts")
        asking[1].start()
        until(lambda: d.pauses or pause_is_waiting(w, box), "no pause is under way")
        eq(d.pauses, 0, "pauses while a command starts")
        d.gate.set()
        asking[1].join(WAIT)
        eq((answers["pause"].status, d.pauses), (200, 1), answers)
        w.post(f"{at}/resume")
        asking[0].join(WAIT)
        eq((answers["run"].status, answers["run"].json()["stdout"]), (200, "on\n"), answers)
        # Many commands, several times: each runs, or is refused because the sandbox is paused.
        for _ in range(3):
            asking = [threading.Thread(target=ask, args=(i, "run", {"argv": ["echo", "on"]})) for i in range(6)]
            for t in asking:
                t.start()
            w.post(f"{at}/pause")
            w.post(f"{at}/resume")
            for t in asking:
                t.join(WAIT)
            for i in range(6):
                r = answers.pop(i)
                ok(r.json()["stdout"] == "on\n" if r.status == 200 else "paused" in r.json()["message"], r)
        eq(w.run(box, "echo last")["stdout"], "last\n")
        w.delete(box)


@test
def a_full_disk_is_reported():
    d = docker()
    with world(d) as w:
        box = w.post("/v1/sandboxes", {"backend": "docker", "image": IMAGE, "mounts": [{"target": "/small", "size": 1 << 20}]}, status=201)["id"]
        at = f"/v1/sandboxes/{box}/files"
        r = w.ask("PUT", at, bytes(2 << 20), query={"path": "/small/x"})
        eq((r.status, r.json()["code"]), (507, "disk_full"), r)
        eq(w.ask("GET", f"{at}/list", query={"path": "/small"}).json()["entries"], [], "what is left of it")
        w.ask("PUT", at, b"fits", query={"path": "/small/x"}, status=201)
        eq(w.ask("GET", at, query={"path": "/small/x"}).body, b"fits")
        w.delete(box)


@test
def requests_that_docker_cannot_fulfil_are_refused():
    d, missing = docker(), f"{registry().host}/no/such:1"
    with world(d) as w:
        for spec, status, words in (({"image": missing}, 404, missing), ({}, 400, "image"),
                                    ({"image": IMAGE, "limits": {"disk": 64 << 20}}, 501, "disk")):
            r = w.ask("POST", "/v1/sandboxes", {"backend": "docker", **spec})
            eq(r.status, status, r.body)
            ok(words in r.json()["message"], r.body)
        eq(names(d, "-a"), [], "containers")
        eq(traces(w.run_dir, w.slots().values()), [], "what is left of them")
    with World(config="backends:\n  docker:\n    kind: docker\n    socket: /no/such.sock\n") as w:
        r = w.ask("POST", "/v1/sandboxes", {"backend": "docker", "image": IMAGE})
        eq(r.status, 503, r.body)
        ok("docker: " in r.json()["message"] and "/no/such.sock" in r.json()["message"], r.body)
        eq(traces(w.run_dir, w.slots().values()), [], "what is left of it, although nobody could be asked")


@test
def a_registry_that_is_not_listed_is_not_contacted():
    """The daemon follows redirects of a registry, and Warren cannot check them, so it sends no such request."""
    d, ref = docker(), registry().push(simple("unlisted"), "docker/unlisted", "1")
    with World(config=f"backends:\n  docker:\n    kind: docker\n    socket: {d.socket}\n") as w:
        with w.client() as c:
            e = [json.loads(line) for line in c.send("POST", "/v1/images/pull", {"backend": "docker", "image": ref})]
        ok("trusted_registries" in json.dumps(e), e)
        r = w.ask("POST", "/v1/sandboxes", {"backend": "docker", "image": ref})
        eq(r.status, 404, r.body)
        ok("trusted_registries" in r.json()["message"], r.body)
        ok(ref not in d.call("images", "--format", "{{.Repository}}:{{.Tag}}").decode().split(), "it was pulled")
        w.delete(w.create(backend="docker", image=IMAGE))  # the control: an image that is present
    with world(d) as w:
        token = w.token("read", "write")
        r = w.ask("POST", "/v1/sandboxes", {"backend": "docker", "image": ref}, token=token)
        eq(r.status, 404, r.body)
        ok("scope 'pull'" in r.json()["message"], r.body)
        w.delete(w.create(backend="docker", image=ref))  # the control: listed, and requested by the owner


@test
def an_image_is_pulled_with_progress():
    """The service pulls the image; the command also pulls it without a service."""
    d = docker()
    refs = [registry().push(simple(f"pulled {i}"), f"docker/told{i}", "1") for i in range(2)]

    def pull(w, **spec):
        with w.client() as c:
            r = c.send("POST", "/v1/images/pull", {"backend": "docker", **spec})
            eq(r.status, 200, spec)
            return [json.loads(line) for line in r]
    with world(d) as w:
        ok(refs[0] not in d.call("images", "--format", "{{.Repository}}:{{.Tag}}").decode().split(), "it is there before")
        events = pull(w, image=refs[0])
        layers = {e["digest"]: e["phase"] for e in events if e["type"] == "layer"}
        eq((events[-1]["type"], set(layers.values())), ("done", {"present"}), events)
        told = events[-1]["image"]
        eq((told["names"], told["layers"], told["size"] > 0), ([refs[0]], len(layers), True), told)
        eq(told["id"], d.call("image", "inspect", "--format", "{{.Id}}", refs[0]).decode().strip())
        e = pull(w, image=f"{registry().host}/no/such:1")[-1]
        eq((e["type"], e["error"]["code"]), ("error", "image_not_found"), e)
        ok(e["error"]["message"].startswith("docker: pull the image: "), e)
        for spec, status, code in (({"backend": "none"}, 503, "backend_unavailable"), ({"platform": "linux/arm64"}, 501, "not_supported")):
            r = w.ask("POST", "/v1/images/pull", {"image": refs[0], "backend": "docker", **spec})
            eq((r.status, r.json()["code"]), (status, code), r.body)
    with World("--trusted-registries", registry().host, config="backends:\n  docker:\n    kind: docker\n    socket: /no/such.sock\n") as w:
        e = pull(w, image=refs[0])[-1]
        eq((e["type"], e["error"]["code"]), ("error", "backend_unavailable"), e)

    def command(*args, status=0, host=f"unix://{d.socket}"):
        p = subprocess.run([WARREN, "image", "pull", "--backend", "docker", *args], env={**os.environ, "DOCKER_HOST": host}, timeout=WAIT,
                           stdin=subprocess.DEVNULL, capture_output=True, check=False)
        eq(p.returncode, status, p.stderr)
        return p
    p = command(refs[1])
    eq(p.stdout.decode().split()[-1], d.call("image", "inspect", "--format", "{{.Id}}", refs[1]).decode().strip())
    ok(p.stderr, "nothing is said of layers")
    ok("there is no socket '/no/such.sock'" in command(refs[1], status=125, host="unix:///no/such.sock").stderr.decode(), "why not")
    ok("--platform" in command("--platform", "linux/arm64", refs[1], status=125).stderr.decode(), "what is not honoured is refused")


@test
def a_command_without_a_daemon_leaves_nothing_behind():
    d = docker()
    before = set(traces(RUN_DIR))
    for env, image, words in (({"DOCKER_HOST": "unix:///no/such.sock"}, IMAGE, "there is no socket '/no/such.sock'"),
                              ({"DOCKER_HOST": f"unix://{d.socket}"}, "No/Image", "No/Image")):
        p = subprocess.run([WARREN, "run", "--backend", "docker", "--image", image, "--", "true"], env={**os.environ, **env}, timeout=WAIT,
                           stdin=subprocess.DEVNULL, capture_output=True, check=False)
        ok(p.returncode == 125 and words in p.stderr.decode(), f"{p.returncode} {p.stderr!r}")
        eq(set(traces(RUN_DIR)) - before, set(), f"left of {image}")
    p = subprocess.run([WARREN, "run", "--backend", "docker", "--image", IMAGE, "--", "echo", "runs"], timeout=WAIT, capture_output=True,
                       env={**os.environ, "DOCKER_HOST": f"unix://{d.socket}"}, stdin=subprocess.DEVNULL, check=False)
    eq((p.returncode, p.stdout), (0, b"runs\n"), p.stderr)
    eq(set(traces(RUN_DIR)) - before, set(), "left of one that was made")


@test
def out_of_memory_is_reported():
    d = docker()
    with world(d) as w:
        box = w.post("/v1/sandboxes", {"backend": "docker", "image": IMAGE, "limits": {"memory": 64 << 20}}, status=201)["id"]
        at, hog = f"/v1/sandboxes/{box}", "head -c 200m /dev/zero | tail -c 200m >/dev/null"
        beside = w.post(f"{at}/execs", {"argv": ["sleep", "1000"]}, status=201)["id"]
        r = w.post(f"{at}/run", {"argv": ["sh", "-c", f"exec sh -c '{hog}; kill -9 $$'"]})["result"]
        eq((r["oom"], r["signal"]), (True, signal.SIGKILL), r)
        # The process is killed, but not because of its memory.
        r = w.post(f"{at}/run", {"argv": ["sh", "-c", "kill -9 $$"]})["result"]
        eq((r["oom"], r["signal"]), (False, signal.SIGKILL), r)
        # With several execs, an OOM kill cannot be attributed to one; a single exec reports the OOM kill of its
        # child.
        w.post(f"{at}/execs/{beside}/signal", {"signal": "KILL"}, status=204)
        until(lambda: w.get(f"{at}/execs/{beside}")["state"] == "exited", "it does not end")
        r = w.post(f"{at}/run", {"argv": ["sh", "-c", f"{hog}; exit 3"]})["result"]
        eq((r["oom"], r["exit_code"]), (True, 3), r)
        eq(w.run(box, "echo on")["result"]["oom"], False)
        eq(w.get(f"{at}/stats")["oom_kills"], 2, "how often")
        w.delete(box)


if __name__ == "__main__":
    sys.exit(main(run))
