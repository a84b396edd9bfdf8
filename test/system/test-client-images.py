#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-client-images.py - warren image with WARREN_HOST uses the images of that service, and no others"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from oci_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from serve_world import World, slurp  # pylint: disable=wrong-import-position

world = None


class Service(World):
    def processes(self):
        return [p for p in super().processes() if "docker-registry" not in slurp(f"/proc/{p}/cmdline")]


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


@test
def image_commands_that_the_api_lacks_are_refused():
    s = Remote()
    for words in (["image", "load", "-i", "/dev/null"], ["load"], ["image", "import", "/dev/null", "x:1"], ["tag", "a:1", "b:1"],
                  ["image", "prune"], ["image", "du"], ["login", "-u", "me", "a.test"], ["logout", "a.test"], ["help", "image", "load"]):
        s.bad(*words, words=["does not work with WARREN_HOST: ", "run it on the service's machine"])
    ok(not os.path.exists(f"{s.path}/images") and not os.path.exists(f"{s.path}/layers"), "something was done here")
    s.bad("image", "pul", words=["did you mean 'warren image pull'?"])
    text = s.good("image", "--help")
    ok("pull" in text and "  load" not in text, text)
    ok("  load" in s.local.good("image", "--help"), "without it, all is there")
    words = {line.split("\t")[0] for line in s.good("__complete", "image", "").splitlines()}
    eq(words, {"pull", "ls", "inspect", "rm"}, "completion")
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
