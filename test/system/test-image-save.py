#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-image-save.py - images leave the store as archives, which Warren, docker, podman and skopeo accept

Prints TAP. Each test has a separate store. Every image has files of all kinds, so that the files that another program
unpacks can be compared.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from dockerd import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from terminal import Terminal  # pylint: disable=wrong-import-position

LISTING = ("cd /t; for f in gone kept hidden/x hidden/y set link hard1 hard2 fifo sticky; do "
           "stat -c '%n %A %u:%g %Y %h' $f 2>/dev/null || echo no $f; done; cat kept hard2 hidden/y")
LISTED = ["no gone", "kept -rw-r--r-- 7:8 1700000000 1", "no hidden/x", "hidden/y -rw-r--r-- 0:0 1700000000 1",
          "set -rwsr-sr-x 0:0 1700000000 1", "link lrwxrwxrwx 0:0 1700000000 1", "hard1 -rw-r--r-- 0:0 1700000000 2",
          "hard2 -rw-r--r-- 0:0 1700000000 2", "fifo prw------- 0:0 1700000000 1", "sticky drwxrwxrwt 0:0 1700000000 2"]


def rich(text="rich"):
    """Returns an image of two layers with links, whiteouts, owners and modes."""
    lower = Layer({"t": directory(), "t/gone": "x", "t/kept": File("kept\n", uid=7, gid=8), "t/hidden": directory(), "t/hidden/x": "x"})
    upper = Layer({"t/.wh.gone": "", "t/hidden/.wh..wh..opq": "", "t/hidden/y": "y\n", "t/set": File("x", 0o6755),
                   "t/link": symlink("/nowhere"), "t/hard1": "hard\n", "t/hard2": hardlink("t/hard1"),
                   "t/fifo": File(kind=tarfile.FIFOTYPE, mode=0o600), "t/sticky": directory(0o1777)})
    return Image(base(), lower, upper, Layer({"text": text}), config={"Cmd": ["cat", "/text"], "Env": ["A=b"], "Labels": {"k": "v"}})


def listed(s, ref):
    eq(s.run(ref, "sh", "-c", LISTING).splitlines(), [*LISTED, "kept", "hard", "y"], "the files of the image")


def load(s, *images):
    """Loads {name: image} from a layout; returns the ids."""
    path = layout(f"{folder()}/layout", {n: i for n, i in images})
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as t:
        t.add(path, ".")
    s.image("load", "-q", "-", input=data.getvalue())


def save(s, *args):
    """Returns the archive as bytes."""
    p = s.start("image", "save", *args)
    out, err = p.communicate(timeout=WAIT)
    ok(p.returncode == 0, f"save {args}: {p.returncode}, {err[-400:]!r}")
    return out


def members(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as t:
        return {m.name: t.extractfile(m).read() if m.isreg() else None for m in t}


@test
def an_image_survives_save_and_load():
    s, other = Store(), Store()
    load(s, ("a.example/rich:1", rich()))
    data = save(s, "a.example/rich:1")
    eq(other.image("load", "-", input=data), "Loaded image: a.example/rich:1\n")
    eq(other.run("a.example/rich:1"), "rich")
    listed(other, "a.example/rich:1")
    (told,) = json.loads(other.image("inspect", "a.example/rich:1"))
    eq((told["config"]["config"]["Labels"], told["config"]["config"]["Env"]), ({"k": "v"}, ["A=b"]), "configuration")
    # After Warren has packed it once, archive, id and diff ids stay the same.
    ok(save(other, "a.example/rich:1") == data, "the archive of the loaded image differs")
    third = Store()
    third.image("load", "-", input=data)
    eq(third.ls()[0]["id"], other.ls()[0]["id"], "the id")
    ok(other.ls()[0]["id"] != s.ls()[0]["id"], "the layers of this image cannot have kept their diff ids")


@test
def the_archive_is_an_oci_layout_and_has_dockers_manifest():
    s = Store()
    load(s, ("rich:1", rich()))
    found = members(save(s, "rich:1"))
    for name, data in found.items():
        if name.startswith("blobs/sha256/") and data is not None:
            eq(digest(data)[7:], name[13:], "the digest of a blob")
    index, (docker,) = json.loads(found["index.json"]), json.loads(found["manifest.json"])
    (entry,) = index["manifests"]
    eq(entry["annotations"], {"io.containerd.image.name": "docker.io/library/rich:1", "org.opencontainers.image.ref.name": "1"})
    manifest = json.loads(found[f"blobs/sha256/{entry['digest'][7:]}"])
    eq(docker["RepoTags"], ["rich:1"], "names")
    eq([x[13:] for x in docker["Layers"]], [x["digest"][7:] for x in manifest["layers"]], "layers")
    eq(docker["Config"], f"blobs/sha256/{manifest['config']['digest'][7:]}", "configuration")
    config = json.loads(found[docker["Config"]])
    eq(config["rootfs"]["diff_ids"], [x["digest"] for x in manifest["layers"]], "diff ids")
    eq({x["mediaType"] for x in manifest["layers"]}, {OCI + "layer.v1.tar"}, "types")


@test
def layers_can_be_compressed():
    s = Store()
    load(s, ("rich:1", rich()))
    plain, sizes = save(s, "rich:1"), {}
    for how, head in (("gzip", b"\x1f\x8b"), ("zstd", b"\x28\xb5\x2f\xfd")):
        data = save(s, "--compress", how, "rich:1")
        sizes[how] = len(data)
        found = members(data)
        (docker,) = json.loads(found["manifest.json"])
        ok(all(found[x].startswith(head) for x in docker["Layers"]), f"the layers are not {how}")
        other = Store()
        other.image("load", "-", input=data)
        listed(other, "rich:1")
        ok(save(other, "rich:1") == plain, "compression changes the image")
        ok(save(s, "--compress", how, "rich:1") == data, "the archive differs the second time")
    ok(max(sizes.values()) < len(plain) * 0.8, f"{sizes}, without compression {len(plain)}")
    s.bad("image", "save", "--compress", "xz", "rich:1", words=["--compress", "'xz' is not none, gzip or zstd"])


@test
def several_images_share_their_layers_in_the_archive():
    s, other = Store(), Store()
    load(s, ("one:1", simple("one")), ("two:1", simple("two")))
    s.image("tag", "one:1", "again.example/one:2")
    data = save(s, "one:1", "two:1", "again.example/one:2")
    names = [m.name for m in tarfile.open(fileobj=io.BytesIO(data))]
    eq(len(names), len(set(names)), "members")
    eq(sum(len(x) > 1_000_000 for x in members(data).values() if x), 1, "copies of the base layer")
    out = other.image("load", "-", input=data)
    eq(sorted(out.splitlines()), ["Loaded image: again.example/one:2", "Loaded image: one:1", "Loaded image: two:1"])
    eq((other.run("one:1"), other.run("two:1"), other.run("again.example/one:2")), ("one", "two", "one"))


@test
def an_image_saved_by_its_id_has_no_name():
    s, other = Store(), Store()
    load(s, ("one:1", simple("one")))
    full = s.ls()[0]["id"]
    for text in (full, full[7:], full[7:19]):
        data = save(s, text)
        eq(json.loads(members(data)["manifest.json"])[0]["RepoTags"], None, "names")
    out = other.image("load", "-", input=data)
    ok(out.startswith("Loaded image ID: sha256:"), out)
    eq(other.run(other.ls()[0]["id"]), "one")


@test
@needs_root
def an_image_that_warren_built_keeps_its_id():
    s, other, third, context = Store(), Store(), Store(), folder()
    load(s, ("one:1", simple("one")))
    other.image("load", "-q", "-", input=save(s, "one:1"))
    with open(f"{context}/Dockerfile", "w", encoding="ascii") as f:
        f.write("FROM one:1\nRUN rm /text && mkdir -m 1777 /made && echo built >/made/x\nCMD [\"cat\", \"/made/x\"]\n")
    other.image("build", "-q", "-t", "built:1", context)
    third.image("load", "-q", "-", input=save(other, "--compress", "gzip", "built:1"))
    ids = [i["id"] for x in (other, third) for i in x.ls() if "built" in str(i["names"])]
    eq((len(ids), ids[0] == ids[-1]), (2, True), f"the ids {ids}")
    eq(third.run("built:1"), "built\n")
    eq(third.run("built:1", "sh", "-c", "ls /text 2>/dev/null; stat -c %a /made"), "1777\n")


@test
def json_lists_the_ids_in_the_archive():
    s, other, path = Store(), Store(), folder()
    load(s, ("one:1", simple("one")))
    ident = s.ls()[0]["id"]
    told = [json.loads(x) for x in s.image("save", "--json", "-o", f"{path}/a.tar", "one:1", ident).splitlines()]
    other.image("load", "-q", f"{path}/a.tar")
    new = other.ls()[0]["id"]
    eq(told, [{"action": "saved", "id": new, "reference": "one:1"}, {"action": "saved", "id": new, "reference": None}])
    for output in ((), ("-o", "-")):
        s.bad("image", "save", "--json", *output, "one:1", words=["--json needs -o FILE"])


@test
def docker_loads_the_archive():
    s = Store()
    load(s, ("rich:1", rich()), ("a.example/x:2", simple("two")))
    with Docker() as docker:
        for args in ((), ("--compress", "gzip"), ("--compress", "zstd")):
            out = docker.call("load", input=save(s, *args, "rich:1", "a.example/x:2")).decode()
            ok("Loaded image: rich:1" in out and "Loaded image: a.example/x:2" in out, out)
        tree = docker.call("create", "rich:1").decode().strip()
        with tarfile.open(fileobj=io.BytesIO(docker.call("export", tree))) as t:
            found = {m.name: m for m in t}
        ok("t/gone" not in found and "t/hidden/x" not in found, "docker shows removed files")
        eq((found["t/kept"].uid, found["t/kept"].gid, found["t/set"].mode & 0o7777, found["t/sticky"].mode & 0o7777),
           (7, 8, 0o6755, 0o1777), "owners and modes")
        eq((found["t/link"].linkname, found["t/fifo"].type, int(found["t/kept"].mtime)), ("/nowhere", tarfile.FIFOTYPE, 1700000000))
        # Warren loads an archive that docker saves, with the diff ids that Warren wrote, and so with the same files.
        other, again = Store(), Store()
        other.image("load", "-q", "-", input=docker.call("save", "rich:1"))
        again.image("load", "-q", "-", input=save(s, "rich:1"))
        eq(other.ls()[0]["id"], again.ls()[0]["id"], "the id")
        listed(other, "rich:1")


@test
def podman_and_skopeo_read_the_archive():
    s, path = Store(), folder()
    load(s, ("a.example/rich:1", rich()))
    s.image("save", "-o", f"{path}/a.tar", "a.example/rich:1")
    for source in ("docker-archive", "oci-archive"):
        skopeo("copy", f"{source}:{path}/a.tar", f"oci:{path}/{source}:x")
        other = Store()
        with tarfile.open(f"{path}/{source}.tar", "w") as t:
            t.add(f"{path}/{source}", ".")
        ident = other.image("load", "-q", f"{path}/{source}.tar").strip()
        listed(other, ident)


@test
def a_file_is_complete_or_does_not_exist():
    s, path = Store(), folder()
    load(s, ("one:1", simple("one")))
    s.bad("image", "save", "-o", f"{path}/a.tar", "one:1", "two:1", words=["there is no image 'two:1' on this machine"])
    eq(os.listdir(path), [], "files")
    s.image("save", "-o", f"{path}/a.tar", "one:1")
    eq((os.listdir(path), oct(os.stat(f"{path}/a.tar").st_mode)), (["a.tar"], "0o100600"))
    with open(f"{path}/a.tar", "rb") as f:
        before = f.read()
    s.bad("image", "save", "-o", f"{path}/a.tar", "two:1", words=["two:1"])
    s.bad("image", "save", "-o", f"{path}/no/a.tar", "one:1", words=["create", "No such file or directory"])
    s.bad("image", "save", "-o", path, "one:1", words=["Is a directory"])
    with open(f"{path}/a.tar", "rb") as f:
        ok(f.read() == before, "the file has changed")
    s.image("save", "-o", "/dev/null", "one:1")
    ok(os.path.exists("/dev/null") and not os.path.isfile("/dev/null"), "/dev/null was replaced")
    os.symlink("a.tar", f"{path}/link")
    s.image("save", "-o", f"{path}/link", "one:1")
    ok(os.path.islink(f"{path}/link"), "the link was replaced")
    Store(folder() + "/none").bad("image", "save", "one:1", words=["there is no image 'one:1'"])


@test
def an_archive_is_not_written_to_a_terminal():
    s = Store()
    load(s, ("one:1", simple("one")))
    with Terminal("save", "one:1", command=("image",), env={**s.env, "TERM": "vt100"}) as t:
        t.expect(rb"stdout is a terminal: give a file with -o")
        eq(t.wait(), 125, "status")


@test
@needs_root
def a_full_disk_is_reported_and_leaves_no_file():
    s, path = Store(), folder()
    load(s, ("one:1", simple("one")))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", path], check=True)
    try:
        s.bad("image", "save", "-o", f"{path}/a.tar", "one:1", words=["save one:1", "No space left on device"])
        eq(os.listdir(path), [], "files")
    finally:
        subprocess.run(["umount", path], check=True)
    s.image("save", "-o", f"{path}/a.tar", "one:1")


@test
@needs_root
def damage_in_the_store_is_reported():
    def store():
        s = Store()
        load(s, ("one:1", simple("one")))
        ident = s.ls()[0]["id"][7:]
        with open(f"{s.path}/images/{ident}/config.json", encoding="ascii") as f:
            top = json.load(f)["rootfs"]["diff_ids"][-1]
        return s, f"{s.path}/layers/{os.readlink(f'{s.path}/layers/{top[7:]}')}", f"{s.path}/images/{ident}/config.json", top
    s, layer, _, top = store()
    os.mknod(f"{layer}/disk", 0o60600, os.makedev(8, 0))
    s.bad("image", "save", "-o", "/dev/null", "one:1", words=[f"save one:1: pack its layer {top[:19]}: 'disk' is a device"])
    os.unlink(f"{layer}/disk")
    s.image("save", "-o", "/dev/null", "one:1")
    shutil.rmtree(layer)
    s.bad("image", "save", "-o", "/dev/null", "one:1", words=[f"its layer {top[:19]} is missing", "pull or load the image again"])
    s, _, config, _ = store()
    with open(config, "r+", encoding="ascii") as f:
        f.write(f.read().replace("linux", "lynux"))
    s.bad("image", "save", "-o", "/dev/null", "one:1", words=["its configuration is damaged"])


@test
def an_image_that_is_not_complete_without_this_machine_is_refused():
    s = Store()
    load(s, ("one:1", simple("one")))
    record = f"{s.path}/images/{s.ls()[0]['id'][7:]}/record"
    with open(record, "a", encoding="ascii") as f:
        f.write("base host\n")
    for command in (("save", "-o", "/dev/null", "one:1"), ("push", "-q", "one:1", "127.0.0.1:1/x:1")):
        s.bad("image", *command, words=["is stacked on 'host', which exists only on this machine"])


@test
def an_image_that_is_removed_at_the_same_time_is_saved_completely():
    s, other = Store(), Store()
    load(s, ("one:1", simple("one")))
    whole = save(s, "one:1")
    p = s.start("image", "save", "one:1")
    first = os.read(p.stdout.fileno(), 4096)  # the rest does not fit into the pipe
    s.image("rm", "one:1")
    s.image("prune")
    data = first + p.communicate(timeout=WAIT)[0]
    eq((p.returncode, data == whole), (0, True), "status, and whether the archive is the same")
    other.image("load", "-q", "-", input=data)
    eq(other.run("one:1"), "one")
    s.image("prune")
    s.empty()


@test
def an_interrupted_save_leaves_no_file():
    s, path = Store(), folder()
    load(s, ("big:1", Image(base(), Layer({f"f{i}": noise(20 << 20, i) for i in range(8)}, None))))
    p = s.start("image", "save", "-o", f"{path}/a.tar", "big:1")
    while not os.listdir(path):
        ok(p.poll() is None, f"it ended: {p.stderr and p.stderr.read()}")
    p.send_signal(signal.SIGINT)
    err = p.communicate(timeout=WAIT)[1]
    if p.returncode != 0:  # the program may have been faster
        eq((p.returncode, os.listdir(path)), (130, []), f"status and files ({err[-200:]!r})")


@test
@needs_root
def an_ordinary_user_saves_files_without_permissions():
    uid = 52347
    path = folder()
    os.chown(path, uid, uid)
    os.chmod(work, 0o755)
    s = Store(f"{path}/state", prefix=["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"])
    s.env["HOME"] = path
    load(s, ("one:1", Image(base(), Layer({"d": directory(0), "d/f": File("x", 0), "text": "mine"}), config={"Cmd": ["cat", "/text"]})))
    data = save(s, "one:1")
    (docker,) = json.loads(members(data)["manifest.json"])
    with tarfile.open(fileobj=io.BytesIO(members(data)[docker["Layers"][-1]])) as t:
        eq({m.name: (m.mode, m.uid, m.gid) for m in t if m.name.startswith("d")}, {"d": (0, 0, 0), "d/f": (0, 0, 0)}, "modes and owners")
    other = Store()
    other.image("load", "-q", "-", input=data)
    eq(other.run("one:1"), "mine")


if __name__ == "__main__":
    sys.exit(main())
