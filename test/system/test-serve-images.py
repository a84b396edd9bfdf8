#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-serve-images.py - images through the service: pulled, listed, removed, and pulled for a sandbox"""
import http.client
import http.server
import os
import sqlite3
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from oci_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from checks import free_port  # pylint: disable=wrong-import-position
from serve_world import World, check_error, family, slurp, slurp_if_there, until  # pylint: disable=wrong-import-position

INSECURE = "registry.lan:5000"
SLOW_PORT = free_port()  # the port of each Slow, which the configuration must list
world = None


class Slow(http.server.ThreadingHTTPServer):
    """A proxy for a registry that delays blobs until .go is set, and records requests."""

    daemon_threads = True

    def __init__(self):
        self.asked, self.go, self.broken = [], threading.Event(), False
        super().__init__(("127.0.0.1", SLOW_PORT), SlowHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.go.set()
        self.shutdown()
        self.server_close()

    def ref(self, ref):
        return ref.replace(registry().host, f"127.0.0.1:{self.server_port}")


class SlowHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked.append(self.path)
        if "/blobs/" in self.path:
            self.server.go.wait(60)
            if self.server.broken:
                self.send_error(404)
                return
        c = http.client.HTTPConnection("127.0.0.1", registry().port, timeout=60)
        c.request(self.command, self.path, headers={"Accept": ", ".join(self.headers.get_all("Accept", []))})
        r = c.getresponse()
        data = r.read()
        try:
            self.send_response(r.status)
            for k, v in r.getheaders():
                if k.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(k, v)
            length = r.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            pass
        c.close()

    do_HEAD = do_GET


class Service(World):
    def processes(self):
        return [p for p in super().processes() if "docker-registry" not in slurp_if_there(f"/proc/{p}/cmdline")]


def pulling():
    """The command lines of warren-image processes of the service."""
    found = []
    for pid, (parent, state) in family().items():
        if parent == world.warden and state not in "ZX":
            try:
                line = slurp(f"/proc/{pid}/cmdline")
            except OSError:
                continue
            if line.startswith("warren-image\0"):
                found.append(line.split("\0"))
    return found


def pull(ref, **kw):
    """The events of a pull."""
    with world.client() as c:
        r = c.send("POST", "/v1/images/pull", {"image": ref, **kw})
        eq(r.status, 200, "status")
        return [json.loads(line) for line in r]


def images():
    return world.get("/v1/images")["images"]


def names():
    return sorted(n for i in images() for n in i["names"])


@test
def an_image_is_pulled_shown_and_removed():
    image = simple("hello\n", config={"Cmd": ["cat", "/text"], "User": "app", "WorkingDir": "/tmp", "Env": ["A=b"]})
    ref = registry().push(image, "serve/a", "1")
    before = images()
    events = pull(ref)
    eq(events[-1]["type"], "done", f"the last of {events}")
    layers = {e["digest"]: e["phase"] for e in events if e["type"] == "layer"}
    eq(layers, {x.digest: "present" for x in image.layers}, "layers in the end")
    shown = events[-1]["image"]
    eq((shown["id"], shown["names"], shown["layers"], shown["platform"]), (image.id, [ref], 2, f"linux/{ARCH}"), "image")
    eq((shown["user"], shown["workdir"], shown["cmd"], shown["created_at"]),
       ("app", "/tmp", ["cat", "/text"], "2024-02-29T12:00:00Z"), "configuration")
    ok("A=b" in shown["env"] and shown["pulled_at"], shown)
    for name in (ref, image.id):
        eq(world.get("/v1/images/inspect", query={"image": name}), shown, f"by {name}")
    eq(len(images()), len(before) + 1, "images")
    box = world.create(image=ref, pull="never")
    eq(world.run(box, ["cat", "/text"])["stdout"], "hello\n", "a sandbox of it")
    eq([e["detail"] for e in world.show(box)["enforced"] if e["name"] == "image"], [image.id], "what the reference meant")
    world.delete(box)
    world.ask("DELETE", "/v1/images", query={"image": ref}, status=204)
    check_error(world.ask("GET", "/v1/images/inspect", query={"image": ref}), 404, "image_not_found")
    check_error(world.ask("DELETE", "/v1/images", query={"image": ref}), 404, "image_not_found")
    eq(images(), before, "images after that")


@test
def changes_of_images_are_reported():
    ref = registry().push(simple("told"), "serve/told", "1")
    found = []
    with world.client(world.token("read", tenant="other")) as c:
        r = c.send("GET", "/v1/events?format=ndjson")
        pull(ref)
        boxes = [world.create(image=ref)]  # the image is present
        world.ask("DELETE", "/v1/images", query={"image": ref}, status=204)
        world.ask("DELETE", "/v1/images", query={"image": ref}, status=404)
        eq(pull(ref.replace("told:1", "nothing:1"))[-1]["type"], "error")
        boxes.append(world.create(image=ref))  # the image is missing
        for b in boxes:
            world.delete(b)
        world.ask("DELETE", "/v1/images", query={"image": ref}, status=204)
        for line in r:
            e = json.loads(line)
            found.append((e["type"], e.get("image"), e.get("owner"), e.get("sandbox_id")))
            if len(found) == 4:
                break
    eq(found, [("image.pulled", ref, None, None), ("image.removed", ref, None, None)] * 2, "what another tenant sees")


@test
def events_are_available_as_server_sent_events():
    ref = registry().push(simple("sse"), "serve/sse", "1")
    r = world.ask("POST", "/v1/images/pull", {"image": ref}, query={"format": "sse"})
    eq(r.headers["content-type"], "text/event-stream")
    ok(b'data: {"type":"done"' in r.body, r.body)
    world.ask("DELETE", "/v1/images", query={"image": ref}, status=204)


@test
def failed_pulls_report_a_cause():
    for ref, code in ((f"{registry().host}/no/such:1", "image_not_found"), ("127.0.0.1:1/x/y:1", "registry_failed")):
        e = pull(ref)[-1]
        eq((e["type"], e["error"]["code"]), ("error", code), f"the last of {ref}")
        ok(ref.split("/")[0] in e["error"]["message"] and e["error"]["request_id"], e)
        r = world.ask("POST", "/v1/sandboxes", {"image": ref})
        eq(check_error(r, {"image_not_found": 404, "registry_failed": 502}[code], code)["message"],
           e["error"]["message"], "of a sandbox")
    registry().push(simple("theirs", arch=OTHER), "serve/other", "1")
    r = world.ask("POST", "/v1/sandboxes", {"image": f"{registry().host}/serve/other:1"})
    check_error(r, 404, "image_not_found")
    e = check_error(world.ask("POST", "/v1/sandboxes", {"image": f"{registry().host}/no/such:1", "pull": "never"}), 404,
                    "image_not_found")
    ok("never" in e["message"], e)
    for bad in ("host", "sha256:" + "0" * 64):
        check_error(world.ask("POST", "/v1/images/pull", {"image": bad}), 400, "invalid_request")
    for bad in ("--insecure", "-x", "dir:/etc", "a b", "a//b:1", ""):
        r = world.ask("POST", "/v1/images/pull", {"image": bad})
        ok(r.status == 400 or r.json()["error"]["code"] == "invalid_request", f"{bad!r}: {r}")
    eq(world.sandboxes(), [], "sandboxes that are left")


@test
def pages_of_images_are_complete():
    refs = [registry().push(simple(f"page {i}"), "serve/page", str(i)) for i in range(5)]
    for ref in refs:
        eq(pull(ref)[-1]["type"], "done")
    seen, cursor = [], None
    while True:
        page = world.get("/v1/images", query={"limit": 2, **({"cursor": cursor} if cursor else {})})
        ok(len(page["images"]) <= 2, page)
        seen += page["images"]
        cursor = page["next_cursor"]
        if not cursor:
            break
    eq(seen, images(), "all pages")
    eq(len({i["id"] for i in seen}), 5, "images")
    for ref in refs:
        world.ask("DELETE", "/v1/images", query={"image": ref}, status=204)


@test
def an_image_with_several_names_is_deleted_only_by_force():
    image = simple("named twice")
    refs = [registry().push(image, f"serve/name{i}", "1") for i in range(2)]
    for ref in refs:
        pull(ref)
    check_error(world.ask("DELETE", "/v1/images", query={"image": image.id}), 409, "image_in_use")
    world.ask("DELETE", "/v1/images", query={"image": refs[0]}, status=204)
    eq(world.get("/v1/images/inspect", query={"image": image.id})["names"], refs[1:], "names")
    pull(refs[0])
    world.ask("DELETE", "/v1/images", query={"image": image.id, "force": "true"}, status=204)
    eq(images(), [], "images")


@test
def a_missing_image_is_pulled_for_a_sandbox():
    image = simple("for a sandbox")
    ref = registry().push(image, "serve/missing", "1")
    check_error(world.ask("POST", "/v1/sandboxes", {"image": ref, "pull": "never"}), 404, "image_not_found")
    box = world.create(image=ref)
    eq(world.run(box, ["cat", "/text"])["stdout"], "for a sandbox", "what is in it")
    # The tag moves: only `pull: always` notices it.
    registry().push(simple("a newer one"), "serve/missing", "1")
    same, newer = world.create(image=ref), world.create(image=ref, pull="always")
    eq(world.run(same, ["cat", "/text"])["stdout"], "for a sandbox", "pull: missing")
    eq(world.run(newer, ["cat", "/text"])["stdout"], "a newer one", "pull: always")
    other = registry().push(simple("theirs", arch=OTHER), "serve/platform", "1")
    theirs = world.create(image=other, platform=f"linux/{OTHER}", wait_ms=20000)
    eq(world.show(theirs)["state"], "running", "of another platform")
    # Removing an image in use removes its name, and the sandbox continues.
    world.ask("DELETE", "/v1/images", query={"image": ref}, status=204)
    eq(world.run(newer, ["cat", "/text"])["stdout"], "a newer one", "after its image was removed")
    for b in (box, same, newer, theirs):
        world.delete(b)


@test
def many_requests_for_one_image_pull_it_once():
    ref = registry().push(simple("once"), "serve/once", "1")
    with Slow() as slow:
        ref = slow.ref(ref)
        boxes = [world.post("/v1/sandboxes", {"image": ref, "wait_ms": 0}, status=201) for _ in range(8)]
        more = world.post("/v1/sandboxes/batch", {"sandboxes": [{"image": ref}], "count": 8, "wait_ms": 0}, status=201)
        boxes += more["sandboxes"]
        eq({b["state"] for b in boxes}, {"creating"}, "states")
        until(lambda: any("/blobs/" in p for p in slow.asked), "no blob is asked for")
        eq(len(pulling()), 1, f"pulls: {pulling()}")
        ok(INSECURE in pulling()[0], f"{INSECURE} is not in {pulling()[0]}")
        # A create waits as long as requested.
        begun = time.monotonic()
        s = world.post("/v1/sandboxes", {"image": ref, "wait_ms": 300}, status=201)
        eq(s["state"], "creating", "after its time")
        ok(time.monotonic() - begun > 0.25, "it did not wait")
        boxes.append(s)
        # One of them is deleted, at once.
        gone = boxes.pop(0)
        world.delete(gone["id"])
        slow.go.set()
        for b in boxes:
            w = world.get(f"/v1/sandboxes/{b['id']}/wait", query={"state": ["running", "failed"]})
            eq(w["state"], "running", f"state of {w}")
        manifests = [p for p in slow.asked if "/manifests/" in p]
        blobs = [p for p in slow.asked if "/blobs/" in p]
        eq((len(blobs), len(set(blobs))), (3, 3), f"blobs that were asked for: {slow.asked}")
        ok(len(manifests) <= 2, manifests)
    for b in boxes:
        world.delete(b["id"])


@test
def the_pull_ends_when_no_client_waits():
    ref = registry().push(simple("given up"), "serve/given-up", "1")
    with Slow() as slow:
        s = world.post("/v1/sandboxes", {"image": slow.ref(ref), "wait_ms": 0}, status=201)
        until(lambda: any("/blobs/" in p for p in slow.asked), "no blob is asked for")
        eq(len(pulling()), 1, "pulls")
        world.delete(s["id"])
        until(lambda: not pulling(), "it goes on", 20)
        # The control: an explicit pull continues.
        with world.client() as c:
            eq(c.send("POST", "/v1/images/pull", {"image": slow.ref(ref)}).status, 200)
            until(pulling, "no pull")
        time.sleep(1)
        eq(len(pulling()), 1, "pulls after the client went")
        slow.go.set()
        until(lambda: slow.ref(ref) in names(), "it is not here")


@test
def a_failed_create_leaves_no_sandbox():
    ref = registry().push(simple("never made"), "serve/never", "1")
    with Slow() as slow:
        body = {"image": slow.ref(ref), "wait_ms": 60000}
        with world.client() as c:
            c.open().request("POST", "/v1/sandboxes", json.dumps(body), {"Content-Type": "application/json"})
            until(lambda: any("/blobs/" in p for p in slow.asked), "no blob is asked for")
            unheard, = [s["id"] for s in world.get("/v1/sandboxes")["sandboxes"]]
        known = [world.post("/v1/sandboxes", {**body, **how, "wait_ms": 0}, status=201)["id"]
                 for how in ({}, {"idempotency_key": "again"})]
        until(lambda: "path=/v1/sandboxes status=0 " in slurp(world.log_path), "nobody noticed that the client went")
        slow.broken = True
        slow.go.set()
        until(lambda: world.ask("GET", f"/v1/sandboxes/{unheard}").status == 404, "nobody can ask for it")
    for b in known:
        until(lambda b=b: world.show(b)["state"] == "failed", lambda b=b: world.show(b))
    world.kill("api", "warden")
    world.start()
    eq([world.show(b)["state"] for b in known], ["failed"] * 2, "those who know its id can ask")
    world.kill("api", "warden")
    with contextlib.closing(sqlite3.connect(f"{world.state}/serve/warren.db", timeout=10)) as db, db:
        db.execute("UPDATE sandboxes SET changed_at = changed_at - 3600000 WHERE id = ?", (known[0],))
    world.start()
    until(lambda: world.ask("GET", f"/v1/sandboxes/{known[0]}").status == 404, "for an hour")
    eq(world.show(known[1])["state"], "failed", "one that is younger")
    world.delete(known[1])


@test
def a_killed_service_leaves_no_incomplete_sandbox():
    ref = registry().push(simple("killed"), "serve/killed", "1")
    with Slow() as slow:
        s = world.post("/v1/sandboxes", {"image": slow.ref(ref), "wait_ms": 0}, status=201)
        until(lambda: any("/blobs/" in p for p in slow.asked), "no blob is asked for")
        world.kill("api", "warden")
        world.start()
        until(lambda: world.ask("GET", f"/v1/sandboxes/{s['id']}").status == 404, "it is still there")
    until(lambda: not [p for p in world.processes() if "warren-image" in slurp(f"/proc/{p}/comm")], "a pull is left", 20)


@test
def image_operations_need_their_scopes():
    read, both = world.token("read"), world.token("read", "images")
    for method, path, body, query in (("POST", "/v1/images/pull", {"image": "127.0.0.1:1/x:1"}, None),
                                      ("DELETE", "/v1/images", None, {"image": "nothing:1"})):
        check_error(world.ask(method, path, body, token=read, query=query), 403, "forbidden")
        ok(world.ask(method, path, body, token=both, query=query).status in (200, 404), path)
    eq(world.ask("GET", "/v1/images", token=read).status, 200)


def around(run):
    run()
    for i in images():
        world.ask("DELETE", "/v1/images", query={"image": i["id"], "force": "true"}, status=204)


def run_all():
    global world  # pylint: disable=global-statement
    try:
        world = Service(*(x for host in (INSECURE, registry().host, f"127.0.0.1:{SLOW_PORT}")
                          for x in ("--insecure-registries", host)))
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0
    with world:
        return run_tests(around)


if __name__ == "__main__":
    sys.exit(main(run_all))
