#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-client-images.py - warren image with WARREN_HOST uses the images of that service, and no others"""
import filecmp
import os
import socket
import sys
import tarfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from oci_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from serve_world import World, slurp_if_there, until  # pylint: disable=wrong-import-position

world = None


class Service(World):
    def processes(self):
        return [p for p in super().processes() if "docker-registry" not in slurp_if_there(f"/proc/{p}/cmdline")]


class Remote(Store):
    """The program with WARREN_HOST and a separate store, which must stay empty."""

    def __init__(self):
        super().__init__()
        self.local = Store(self.path)
        self.env["WARREN_HOST"] = f"unix:{world.socket}"


def names():
    return sorted(n for i in world.get("/v1/images")["images"] for n in i["names"])


@test
def an_image_is_pulled_listed_shown_and_removed_by_the_service():
    image, s = simple("remote", config={"Cmd": ["cat", "/text"]}), Remote()
    ref = registry().push(image, "client/a", "1")
    eq(s.good("image", "pull", "-q", ref), image.id + "\n")
    eq(names(), [ref], "images of the service")
    eq(s.local.ls(), [], "images of this machine")
    eq(s.good("pull", ref), f"Image ID: {image.id}\n")
    eq(json.loads(s.good("pull", "--json", ref)), {"id": image.id, "reference": ref})
    shown = world.get("/v1/images/inspect", query={"image": ref})
    eq(json.loads(s.good("image", "inspect", ref, image.id)), [shown, shown])
    eq(json.loads(s.good("images", "--json")), [shown])
    head, row = (line.split() for line in s.good("images").splitlines())
    eq(head, ["REPOSITORY", "TAG", "IMAGE", "ID", "CREATED", "SIZE"])
    eq(row[:3], [ref.rsplit(":", 1)[0], "1", image.id[7:19]])
    eq(s.good("images", "-q"), image.id[7:19] + "\n")
    eq(s.good("images", "-q", "--no-trunc"), image.id + "\n")
    # If the variable is empty or missing, the command uses this machine's images.
    for env in ({}, {"WARREN_HOST": ""}):
        eq(s.local.good("images", "-q", env=env), "")
    eq(s.good("rmi", ref), f"Removed: {ref}\n")
    eq(names(), [])
    s.pull(ref)
    eq(json.loads(s.good("rmi", "--json", "-f", image.id, "missing:1")), {"removed": image.id})
    eq(names(), [])
    s.bad("rmi", ref, words=["image rm: ", ref])
    s.bad("image", "inspect", ref, words=["image inspect: ", ref])


@test
def only_a_missing_image_is_pulled():
    image, s = simple("missing"), Remote()
    ref = registry().push(image, "client/missing", "1")
    eq(s.pull(ref, "--missing"), image.id)
    newer = simple("newer")
    registry().push(newer, "client/missing", "1")
    eq(s.pull(ref, "--missing"), image.id, "it was there")
    line = s.bad("image", "pull", "--missing", "--platform", "linux/s390x", ref, words=["image pull: "])
    ok("s390x" in line, f"another platform is pulled: {line}")
    eq(s.pull(ref), newer.id)
    s.bad("image", "pull", "--missing", "--backend", "docker", ref, words=["--missing", "--backend"])


@test
def errors_of_the_service_are_reported():
    s = Remote()
    s.bad("pull", f"{registry().host}/no/such:1", words=["image pull: ", "no/such:1"])
    s.bad("pull", "Not A Reference", words=["image pull: "])
    s.bad("images", words=["image ls: "], env={"WARREN_HOST": f"unix:{folder()}/none.sock"})
    s.bad("images", words=["WARREN_HOST: 'nonsense' is neither"], env={"WARREN_HOST": "nonsense"})
    s.bad("images", "--digests", words=["unknown option '--digests'"])
    s.bad("pull", "--insecure", "a.test", "a.test/x", words=["unknown option '--insecure'"])


def packed(path):
    with tarfile.open(f"{path}.tar", "w") as t:
        t.add(path, arcname=".")
    return f"{path}.tar"


@test
def a_snapshot_is_tagged_saved_and_pushed_like_an_image():
    image, s = simple("before"), Remote()
    ref, file = registry().push(image, "client/snapped", "1"), f"{folder()}/snapshot.tar"
    s.pull(ref)
    box = world.create(image=ref)
    eq(world.run(box, ["sh", "-c", "echo after >/text"])["result"]["exit_code"], 0)
    made = world.ask("POST", f"/v1/sandboxes/{box}/snapshots", {"name": "snapped"}, status=201).json()
    before = names()
    ok(not any(n.startswith("warren.snapshot") for n in before) and made["image"] not in json.dumps(world.get("/v1/images")), before)
    token = world.token("read", "write", "images", tenant="other")
    for word in ("snapped", made["id"], f"warren.snapshot/{made['id']}", f"warren.snapshot/{made['id']}:latest"):
        for path, body in (("/v1/images/tag", {"image": word, "name": "stolen:1"}), ("/v1/images/push", {"image": word})):
            r = world.ask("POST", path, body, token=token)
            ok(r.status >= 400 or b"image_not_found" in r.body, (path, word, r.status, r.body))
        ok(world.ask("GET", "/v1/images/archive", query={"image": word}, token=token).status >= 400, word)
        ok(world.ask("DELETE", "/v1/images", query={"image": word}, token=token).status >= 400, word)
    ok(world.ask("POST", "/v1/images/tag", {"image": ref, "name": f"warren.snapshot/{made['id']}"}).status >= 400, "tagged over it")
    stolen = f"{folder()}/stolen"
    layout(stolen, {f"warren.snapshot/{made['id']}:latest": image})
    s.bad("image", "load", stolen if os.path.isfile(stolen) else packed(stolen), words=["warren.snapshot"])
    s.good("tag", "snapped", "client/kept:1")
    ok("warren.snapshot" not in s.good("image", "inspect", "client/kept:1"), "inspect shows the reference of the service")
    eq(sorted(set(names()) - set(before)), ["client/kept:1"])
    s.good("image", "save", "-o", file, "client/kept:1")
    here = Store()
    here.good("image", "load", file)
    eq(here.run("client/kept:1"), "after\n")
    again = f"{registry().host}/client/pushed:2"
    s.good("image", "push", "snapped", again)
    eq(here.run(here.pull(again)), "after\n")
    world.delete(box)
    world.ask("DELETE", "/v1/snapshots/snapped", status=204)
    eq(world.run(world.create(image="client/kept:1"), ["cat", "/text"])["stdout"], "after\n")  # the name keeps it
    for b in world.get("/v1/sandboxes")["sandboxes"]:
        world.delete(b["id"])
    s.good("rmi", "client/kept:1", ref)


@test
def an_image_is_saved_loaded_tagged_and_pushed_by_the_service():
    image, s = simple("archive", config={"Cmd": ["cat", "/text"]}), Remote()
    ref, file = registry().push(image, "client/archive", "1"), f"{folder()}/image.tar"
    s.pull(ref)
    s.good("image", "save", "-o", file, ref)
    eq(os.stat(file).st_mode & 0o777, 0o600, "an image can contain secrets")
    with open(f"{file}.2", "wb") as f:
        eq(s.start("save", ref, stdout=f).wait(WAIT), 0)
    ok(filecmp.cmp(file, f"{file}.2", shallow=False), "the archive on stdout is the same")
    # Another program can read it, and it has the same files.
    here = Store()
    eq(here.good("image", "load", file), f"Loaded image: {ref}\n")
    eq(here.run(ref), "archive")
    s.good("tag", ref, "mine:1")
    ok({ref, "mine:1"} <= set(names()), names())
    s.good("rmi", ref, "mine:1")
    ok(not {ref, "mine:1"} & set(names()), names())
    eq(s.good("image", "load", "-i", file), f"Loaded image: {ref}\n")
    ok(ref in names(), names())
    eq([i["name"] for i in map(json.loads, s.good("load", "--json", file).splitlines())], [ref])
    again = f"{registry().host}/client/again:2"
    said = json.loads(s.good("image", "push", "--json", ref, again))
    eq(said["reference"], again)
    s.good("rmi", "-f", said["id"])
    s.pull(again)
    ok(again in names(), "what was pushed can be pulled")
    s.good("rmi", again)
    eq(s.local.ls(), [], "images of this machine")
    s.local.good("image", "prune", "-f", env={"WARREN_HOST": ""})  # as docker scripts do


@test
def archives_and_names_that_are_not_valid_are_refused():
    s, file, before = Remote(), f"{folder()}/none.tar", names()
    s.bad("image", "save", "-o", file, "no/such:1", words=["image save: ", "no/such:1"])
    eq(os.listdir(os.path.dirname(file)), [], "nothing is left")
    s.bad("tag", "no/such:1", "b:1", words=["image tag: ", "no/such:1"])
    s.bad("tag", "a:1", "Not A Reference", words=["image tag: "])
    s.bad("image", "push", f"{registry().host}/no/such:1", words=["image push: ", "no/such:1"])
    s.bad("image", "push", "no/such:1", "127.0.0.2:1/a:1", words=["image push: "])
    for data in (b"", b"x" * 100_000, b"\0" * 10240):
        r = world.ask("POST", "/v1/images/archive", data, headers={"Content-Type": "application/x-tar"})
        eq((r.status, r.json()["code"]), (400, "invalid_request"), r)
    eq(names(), before)


@test
def a_push_reaches_only_registries_that_the_service_allows():
    image, s = simple("guard"), Remote()
    ref = registry().push(image, "client/guard", "1")
    s.pull(ref)
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.setblocking(False)
        s.bad("image", "push", ref, f"127.0.0.1:{other.getsockname()[1]}/x:1", words=["image push: ", "cannot be reached"])
        try:
            other.accept()
            ok(False, "the service has connected to it")
        except BlockingIOError:
            pass
    s.good("image", "push", "-q", ref, f"{registry().host}/client/guard:2")  # the control
    s.good("rmi", ref)


@test
def archives_need_the_scope_of_images():
    image, s = simple("scope"), Remote()
    ref = registry().push(image, "client/scope", "1")
    s.pull(ref)
    for scope, status in ((["read", "write", "exec", "files", "pull"], 403), (["images"], 200)):
        token = world.token(*scope)
        eq(world.ask("GET", "/v1/images/archive", query={"image": ref}, token=token).status, status)
        eq(world.ask("POST", "/v1/images/tag", {"image": ref, "name": ref}, token=token).status, 204 if status == 200 else status)
        for path in ("/v1/images/push", "/v1/images/archive"):
            r = world.ask("POST", path, {"image": ref}, token=token)
            eq(r.status == 403, status == 403, r)
    s.good("rmi", ref)


@test
def a_client_that_disconnects_ends_its_transfer():
    image, s = simple("slow", Layer({"big": os.urandom(30 << 20)})), Remote()
    ref = registry().push(image, "client/slow", "1")
    s.pull(ref)
    before = len(world.processes())
    for _ in range(6):  # more than may run at the same time, so that each one must end
        c = world.client()
        eq(c.send("GET", "/v1/images/archive", query={"image": ref}).status, 200)
        c.close()
    until(lambda: len(world.processes()) == before, "no process is left")
    until(lambda: world.ask("GET", "/v1/images/archive", query={"image": ref}).status == 200, "there is room again")
    s.good("rmi", ref)


@test
def image_commands_that_the_api_lacks_are_refused():
    s = Remote()
    for words in (["image", "import", "/dev/null", "x:1"], ["image", "prune"], ["image", "du"],
                  ["login", "-u", "me", "a.test"], ["logout", "a.test"], ["help", "image", "prune"]):
        s.bad(*words, words=["does not work with WARREN_HOST: ", "run it on the service's machine"])
    ok(not os.path.exists(f"{s.path}/images") and not os.path.exists(f"{s.path}/layers"), "something was done here")
    s.bad("image", "pul", words=["did you mean 'warren image pull'?"])
    text = s.good("image", "--help")
    ok("pull" in text and "  prune" not in text, text)
    ok("  prune" in s.local.good("image", "--help"), "without it, all is there")
    words = {line.split("\t")[0] for line in s.good("__complete", "image", "").splitlines()}
    eq(words, {"build", "pull", "push", "load", "save", "tag", "ls", "inspect", "rm"}, "completion")
    words = {line.split("\t")[0] for line in s.good("__complete", "images", "--").splitlines()}
    eq(words, {"--quiet", "--no-trunc", "--json", "--help"}, "completion of an alias")


def run_all():
    global world  # pylint: disable=global-statement
    try:
        world = Service("--insecure-registries", registry().host)
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0
    with world:
        return run_tests()


if __name__ == "__main__":
    sys.exit(main(run_all))
