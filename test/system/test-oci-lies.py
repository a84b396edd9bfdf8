#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-oci-lies.py - archives whose manifest does not match their content, and archives that are too large

Prints TAP. Refused archives leave nothing in the store. Each has a control: the same archive with a correct manifest.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from oci_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position


class Liar(Image):
    """An image whose manifest was changed by @change."""

    def __init__(self, change, *args, **kw):
        super().__init__(*args, **kw)
        doc = json.loads(self.manifest)
        change(doc)
        self.manifest = json.dumps(doc).encode()
        self.digest = digest(self.manifest)


def set_size(where, by):
    def change(doc):
        blob = doc["config"] if where == "config" else doc["layers"][where]
        blob["size"] += by
    return change


def docker_save(image, layers=None, tags=("saved:1",)):
    """An archive in the form of docker save; its manifest lists @layers."""
    members = {"config.json": image.config, **{f"{i}.tar": x.blob for i, x in enumerate(image.layers)}}
    names = layers if layers is not None else [f"{i}.tar" for i in range(len(image.layers))]
    members["manifest.json"] = json.dumps([{"Config": "config.json", "RepoTags": tags, "Layers": names}])
    return tar(members)


def layers():
    return Layer({"one": "1" * 1000}), Layer({"two": "2" * 1000})


def write(data):
    path = f"{folder()}/a.tar"
    with open(path, "wb") as f:
        f.write(data)
    return path


@test
def names_that_are_not_references_are_refused():
    image = Image(*layers())
    for name in ("../x:1", "A:b", "dir:/etc", "", "warren.snapshot/abcdefgh"):
        s = Store()
        s.bad("image", "load", write(docker_save(image, tags=["good:1", name])), words=["its name for an image"])
        s.empty()
    s = Store()
    s.image("load", write(docker_save(image, tags=["good:1", "example.com/a/b:2"])))
    eq(sorted(n for i in s.ls() for n in i["names"]), ["example.com/a/b:2", "good:1"])
    s = Store()
    s.image("load", write(docker_save(image, tags=None)))
    eq([i["names"] for i in s.ls()], [[]])


@test
def declared_sizes_are_checked():
    for where, by, word in ((0, 1, "layer"), (0, -1, "layer"), (1, 1 << 40, "layer"), ("config", 1, "configuration")):
        s = Store()
        path = layout(f"{folder()}/l", {"lie:1": Liar(set_size(where, by), *layers())})
        s.bad("image", "import", path, words=[word, "bytes, but its manifest says"])
        s.empty()
    s = Store()
    s.image("import", layout(f"{folder()}/l", {"truth:1": Liar(set_size(0, 0), *layers())}))


@test
def the_number_of_layers_must_match_the_configuration():
    more = Layer({"three": "3"})

    def add(doc):
        doc["layers"].append({"mediaType": doc["layers"][0]["mediaType"], "digest": more.digest, "size": len(more.blob)})
    for change, words in ((add, "3 layers, but its configuration has 2"), (lambda doc: doc["layers"].pop(), "1 layers, but its configuration has 2")):
        s = Store()
        s.bad("image", "import", layout(f"{folder()}/l", {"lie:1": Liar(change, *layers())}), words=[words])
        s.empty()
    image = Image(*layers())
    for names, words in ((["0.tar", "1.tar", "1.tar"], "3 layers, but its configuration has 2"), (["0.tar"], "1 layers, but its configuration has 2")):
        s = Store()
        s.bad("image", "load", write(docker_save(image, names)), words=[words])
        s.empty()
    s = Store()
    s.image("load", write(docker_save(image)))


@test
def an_image_over_the_maximum_size_is_refused():
    size = 3 << 20
    root = {"large": "\0" * size}
    plain, packed = write(tar(root)), write(gzip.compress(tar(root)))
    made = folder()
    os.mkdir(f"{made}/root")
    with open(f"{made}/root/large", "wb") as f:
        f.write(bytes(size))
    image = Image(Layer(root))
    for verb, path in (("import", plain), ("import", packed), ("import", f"{made}/root"), ("load", write(docker_save(image))),
                       ("import", layout(f"{folder()}/l", {"large:1": image}))):
        s = Store()
        s.bad("image", verb, "--max-size", "1m", path, words=["larger than 1048576 bytes"])
        s.empty()
        s.image(verb, "--max-size", "16m", path)
    s = Store()
    s.bad("image", "import", "--max-size", "0", plain, words=["max-size"])


if __name__ == "__main__":
    sys.exit(main())
