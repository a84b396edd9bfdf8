#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-oci-collect.py - layers are freed while the store is in use, and in spite of damaged images

Prints TAP. $WARREN is the program, $WARREN_BUILD where it was built.
"""
import fcntl
import glob
import os
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from oci_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from registry_server import Evil  # pylint: disable=wrong-import-position
from registry_server import Image as ServerImage  # pylint: disable=wrong-import-position


def wait_for(condition, what):
    deadline = time.monotonic() + WAIT
    while not condition():
        ok(time.monotonic() < deadline, f"{what} does not happen")
        time.sleep(0.01)


def slow_registry(image, layer):
    """Serves the image; the layer only after the event that is returned, too."""
    go = threading.Event()
    served = ServerImage()
    served.manifest, served.type, served.blobs = image.manifest, image.type, image.blobs()

    def behave(request, _):
        if request.path.endswith(layer.digest):
            go.wait(WAIT)
        return False
    return Evil(served, behave), go


def layer_path(s, layer):
    return f"{s.path}/layers/{layer.diff_id[7:]}"


def record_path(s, image):
    return f"{s.path}/images/{image.id[7:]}/record"


# ------------------------------------------------------------------ steady use


@test
def layers_are_freed_while_a_pull_lasts():
    """The pull needs a layer of an image that is removed in the meantime, and one that comes late."""
    s, shared, own, late = Store(), Layer({"shared": "1"}), Layer({"own": "2"}), Layer({"late": "3"})
    old = Image(base(), shared, own)
    new = Image(base(), shared, late, config={"Cmd": ["cat", "/shared", "/late"]})
    s.image("import", "-q", layout(f"{folder()}/old", {"old:1": old}))
    server, go = slow_registry(new, late)
    with server:
        p = s.start("image", "pull", "-q", f"{server.ref}:latest")
        try:
            wait_for(lambda: [x for x in server.seen if x.path.endswith(late.digest)], "the pull")
            with open(f"{s.path}/images/lock", "rb") as f:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the pull does not hold it
            eq(s.image("rm", "old:1"), f"Untagged: old:1\nDeleted: {old.id}\n")
            eq(s.said, "")
            ok(not os.path.lexists(layer_path(s, own)), "the layer was not freed")
            ok(os.path.exists(layer_path(s, shared)), "a layer that the pull needs was removed")
            s.image("prune", "-a")
            eq(p.poll(), None, "the pull has ended")  # positive control
            go.set()
            out, err = p.communicate(timeout=WAIT)
            eq((p.returncode, out.decode().strip(), err), (0, new.id, b""))
        finally:
            go.set()
            p.kill()
            p.communicate()
    eq(s.run(f"{server.ref}:latest"), "13")
    eq(glob.glob(f"{s.path}/images/.new-*"), [])
    s.image("prune", "-a")
    s.empty()


@test
def layers_of_a_killed_pull_are_freed():
    s, shared, late = Store(), Layer({"shared": "1"}), Layer({"late": "4"})
    old, new = Image(base(), shared), Image(base(), shared, late)
    s.image("import", "-q", layout(f"{folder()}/old", {"old:1": old}))
    server, go = slow_registry(new, late)
    with server:
        p = s.start("image", "pull", "-q", f"{server.ref}:latest")
        wait_for(lambda: [x for x in server.seen if x.path.endswith(late.digest)], "the pull")
        s.image("rm", "old:1")
        eq(len(s.directories()), 2)  # positive control
        p.kill()
        p.communicate()
        go.set()
    wait_for(lambda: s.image("prune") is not None and not s.directories(), "the end of the layers")
    s.empty()


@test
def a_load_that_lasts_keeps_its_layers():
    s, image = Store(), Image(base(), *(Layer({f"{n}/{i}": "x" for i in range(500)}) for n in range(6)), config={"Cmd": ["ls", "/5"]})
    path = layout(f"{folder()}/many", {"many:1": image})
    for _ in range(3):
        p = s.start("image", "import", "-q", path)
        while p.poll() is None:
            s.image("prune")
        eq((p.wait(), len(s.directories())), (0, 7), p.stderr.read())
        p.communicate()
        eq(len(s.run("many:1").split()), 500)
        s.image("rm", "many:1")
        s.empty()


# -------------------------------------------------------------- damaged images


def text(data):
    def damage(path):
        with open(path, "wb") as f:
            f.write(data)
    return damage


def cut(path):
    """Removes the last layer of a record, and a part of its line."""
    os.truncate(path, os.path.getsize(path) - 10)


def zeros(path):
    """What a power failure may leave: the length, but not the last block."""
    with open(path, "r+b") as f:
        f.seek(-20, os.SEEK_END)
        f.write(bytes(20))


def directory_instead(path):
    os.unlink(path)
    os.mkdir(path)


DAMAGES = (text(b"no record"), text(b""), text(b"x" * (5 << 20)), cut, zeros, directory_instead)


def damaged_store(damage):
    """Returns a store with a damaged image and two others, and these images."""
    s = Store()
    images = [Image(base(), Layer({"text": f"{n}"}), config={"Cmd": ["cat", "/text"]}) for n in range(3)]
    s.image("import", "-q", layout(f"{folder()}/three", {f"i{n}:1": x for n, x in enumerate(images)}))
    eq(len(s.ls()), 3)
    damage(record_path(s, images[0]))
    return s, *images


@test
def a_damaged_record_hides_no_other_image():
    for damage in DAMAGES:
        s, bad, two, three = damaged_store(damage)
        eq(sorted(x["id"] for x in s.ls()), sorted([two.id, three.id]))
        ok(bad.id in s.said and f"warren image rm {bad.id[:19]}" in s.said, s.said)
        eq(len(s.du()["images"]), 2)
        eq(s.run("i1:1"), "1")
        s.bad("run", "--pull", "never", "--image", "i0:1", words=["i0"])
        # Its configuration says which layers it needs, so others are freed.
        s.image("rm", "i1:1")
        ok(not os.path.lexists(layer_path(s, two.layers[1])), "the layer was not freed")
        ok(os.path.exists(layer_path(s, bad.layers[1])), "a layer of the damaged image was removed")
        # It is found by its name, and by the beginning of its id.
        for word, names in (("i0:1", 1), (bad.id[7:19], 0)):
            if not names:
                s.image("import", "-q", layout(f"{folder()}/again", {"i0:1": bad}))
                s.image("tag", "i0:1", "x:1")
                s.image("rm", "i0:1")
                s.image("tag", "x:1", "i0:1")
                s.image("rm", "x:1")
                damage(record_path(s, bad))
            eq(s.image("rm", word), f"Untagged: i0:1\nDeleted: {bad.id}\n")
            ok(not os.path.lexists(layer_path(s, bad.layers[1])), "the layer was not freed")
        eq((s.run("i2:1"), [x["id"] for x in s.ls()], s.said), ("2", [three.id], ""))
        s.image("prune", "-a")
        s.empty()


@test
def prune_removes_a_damaged_image():
    s, bad, _, three = damaged_store(text(b"?"))
    s.image("rm", "i1:1")
    out = s.image("prune")
    ok(f"Deleted: {bad.id}\n" in out, out)
    eq(([x["id"] for x in s.ls()], s.said, len(s.directories())), ([three.id], "", 2))
    eq(os.listdir(f"{s.path}/images/refs"), [x for x in os.listdir(f"{s.path}/images/refs") if "i2" in x])


@test
def an_image_whose_layers_are_unknown_keeps_all():
    s, bad, two, three = damaged_store(text(b"?"))
    config = f"{s.path}/images/{bad.id[7:]}/config.json"
    text(b'{"rootfs": {"type": "layers", "diff_ids": []}}')(config)
    s.image("rm", "i1:1")
    ok(bad.id in s.said and "no layers were removed" in s.said, s.said)
    for x in (bad, two, three):
        ok(os.path.exists(layer_path(s, x.layers[1])), "a layer was removed")
    # Leftovers that no image can need are still removed.
    os.mkdir(f"{s.path}/layers/d/.new-abc")
    s.image("rm", "-f", "none:1")
    ok(not os.path.exists(f"{s.path}/layers/d/.new-abc"), "a leftover stays")
    s.image("rm", bad.id)
    eq((len(s.directories()), s.run("i2:1")), (2, "2"))
    s.image("prune", "-a")
    s.empty()


@test
def adding_a_damaged_image_again_repairs_it():
    for damage in DAMAGES[:-1]:
        s, bad, _, _ = damaged_store(damage)
        s.bad("run", "--pull", "never", "--image", "i0:1", words=["i0"])  # positive control
        s.image("import", "-q", layout(f"{folder()}/again", {"i0:1": bad}))
        eq((s.run("i0:1"), len(s.ls()), s.said), ("0", 3, ""))


@test
def many_images_are_listed_and_removed_together():
    """The time grows with the number of images, not with its square."""
    s = Store()
    s.image("prune")

    def took(n):
        for i in range(n):
            x = f"{i:064x}"
            os.mkdir(f"{s.path}/images/{x}")
            with open(f"{s.path}/images/{x}/record", "w", encoding="ascii") as f:
                f.write(f"warren-image 1\nid sha256:{x}\nsize 0\n")
                f.write("".join(f"layer sha256:{i * 8 + k:064x}\n" for k in range(8)))
        started = time.monotonic()
        eq(len(s.image("ls", "-q", "--all").split()), n)
        eq(len(s.du()["images"]), n)
        got = time.monotonic() - started
        eq(json.loads(s.image("prune", "--json"))["images"], n)
        return got
    took(100)
    few, many = took(500), took(8000)
    ok(many < 16 * 4 * max(few, 0.02), f"500 images took {few:.3f} s, 8000 took {many:.3f} s")
    s.empty()


if __name__ == "__main__":
    sys.exit(main())
