#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-oci.py - pull, load and import images, and run them

Prints TAP. $WARREN is the program, $WARREN_BUILD where it was built.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from oci_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position


# ------------------------------------------------------------------ pulling


@test
def a_tag_is_pulled_and_run():
    s, image = Store(), simple("hello\n")
    ref = registry().push(image, "a/b", "1.0")
    lines = s.image("pull", ref).splitlines()
    eq(lines, [f"Digest: {image.digest}", f"Image ID: {image.id}", ref])
    for layer in image.layers:
        short = layer.digest[7:19]
        ok(f"{short}: downloading " in s.said and f"{short}: done\n" in s.said, s.said)
    eq(s.run(ref), "hello\n")
    eq(s.run(image.id), "hello\n")
    eq(s.run(image.id[7:19]), "hello\n")
    # The second pull downloads nothing.
    s.image("pull", ref)
    ok("already present" in s.said and "downloading" not in s.said, s.said)
    eq(s.pull(ref), image.id)
    eq(s.said, "")
    eq(json.loads(s.image("pull", "--json", ref)), {"id": image.id, "digest": image.digest, "reference": ref})


@test
def a_digest_is_pulled_and_run():
    s, image = Store(), simple("by digest")
    ref = registry().push(image, "digest/x")
    eq(s.pull(ref), image.id)
    eq(s.run(ref), "by digest")
    row = s.image("ls").splitlines()[1].split()
    eq(row[:3], [ref.split("@")[0], "<none>", image.id[7:19]])
    other = ref[:-64] + "0" * 64
    s.bad("image", "pull", other, words=[other])


@test
def an_index_selects_this_machines_platform():
    for family in ("oci", "docker"):
        s = Store()
        mine, other = (simple(a, arch=a, family=family) for a in (ARCH, OTHER))
        arm = simple("v7", arch="arm", variant="v7", family=family)
        for i in (mine, other, arm):
            registry().push(i, f"multi/{family}")
        ref = registry().push_manifest(f"multi/{family}", "latest", *index(other, mine, arm, family=family))
        eq(s.pull(ref), mine.id)
        eq(s.run(ref), ARCH)
        eq(s.pull(ref, "--platform", f"linux/{OTHER}"), other.id)
        eq(s.pull(ref, "--platform", "linux/arm/v7"), arm.id)
        # --missing applies to that platform.
        eq(s.pull(ref, "--missing", "--platform", f"linux/{ARCH}"), mine.id)
        s.bad("image", "pull", "--platform", "linux/riscv64", ref, words=[ref, "linux/riscv64"])


@test
def an_image_for_another_platform_is_refused():
    s = Store()
    ref = registry().push(simple(arch=OTHER), "wrong/x", "1")
    s.bad("image", "pull", ref, words=[ref, f"linux/{OTHER}"])
    s.empty()


@test
def all_media_types_and_compressions_are_supported():
    for family, how in LAYER_TYPES:
        s = Store()
        image = Image(Layer(base_members(), how), Layer({"text": f"{family} {how}"}, how), family=family,
                      config={"Cmd": ["cat", "/text"]})
        ref = registry().push(image, f"types/{family}-{how or 'plain'}".lower(), "1")
        eq(s.pull(ref), image.id)
        eq(s.run(ref), f"{family} {how}")


@test
def images_copied_by_skopeo_are_pulled():
    s, image = Store(), simple("by skopeo")
    path = layout(f"{folder()}/layout", {"1": image})
    for name, *options in (("oci",), ("docker", "--format", "v2s2"), ("zstd", "--dest-compress-format", "zstd")):
        ref = f"{registry().host}/skopeo/{name}:1"
        skopeo("copy", "--dest-tls-verify=false", *options, f"oci:{path}:1", f"docker://{ref}")
        s.pull(ref)
        eq(s.run(ref), "by skopeo")
    eq(len(s.directories()), 2, "layers, whatever they were compressed with")


@test
def images_that_cannot_be_pulled_are_reported():
    s, r = Store(), registry()
    image = simple("bad")
    r.push(image, "bad/x", "good")
    unknown = json.loads(image.manifest)
    unknown["layers"][1]["mediaType"] = "application/x-surprise"
    refs = {
        f"{r.host}/bad/none:1": ["no such image"], f"{r.host}/bad/x:none": ["no such image"],
        "127.0.0.1:1/x:1": ["onnect"],
        "no such thing": ["is not an image reference"],
        f"{r.host}/Bad": ["is not an image reference"],
        r.push_manifest("bad/x", "surprise", image.type, json.dumps(unknown).encode()): ["application/x-surprise"],
    }
    for ref, words in refs.items():
        s.bad("image", "pull", ref, words=[ref, *words])
        s.bad("run", "--image", ref, "--", "true", words=[ref, *words])
        report = json.loads(s.call("run", "--json", "--image", ref, "--", "true")[1])
        ok(ref in report["error"]["message"] and report["error"]["status"] == 125, report)
    wrong = Image(base(), config={})
    wrong.config = wrong.config.replace(base().diff_id.encode(), digest(b"").encode())
    wrong.id = digest(wrong.config)
    wrong.manifest = wrong.manifest.replace(digest(Image(base(), config={}).config).encode(), wrong.id.encode())
    ref = r.push(wrong, "bad/diff", "1")
    s.bad("image", "pull", ref, words=[ref, "diff"])
    s.empty()


@test
def the_pull_option_decides_when_to_pull():
    s, one, two = Store(), simple("one"), simple("two")
    ref = registry().push(one, "when/x", "1")
    s.bad("run", "--pull", "never", "--image", ref, words=[ref])
    eq(s.good("run", "--image", ref), "one")
    ok("downloading" in s.said, s.said)
    registry().push(two, "when/x", "1")
    eq(s.good("run", "--image", ref), "one")
    eq(s.said, "")
    eq(s.good("run", "--image", ref, "--pull", "always"), "two")
    eq(s.good("run", "--pull", "never", "--image", ref), "two")
    eq([x["names"] for x in s.ls() if x["id"] == one.id], [[]], "names of the one that was replaced")
    # Another missing object is not mistaken for a missing image.
    line = s.bad("run", "--image", ref, "-u", "nobody-there", "--", "true")
    ok("nobody-there" in line, line)
    s.bad("run", "--pull", "sometimes", "--image", ref, words=["missing, always and never"])
    s.bad("run", "--pull", "never", "--platform", f"linux/{OTHER}", "--image", ref, words=["--platform"])
    eq(s.good("run", "--quiet", "--platform", f"linux/{ARCH}", "--image", ref), "two")


@test
def layers_that_are_missing_are_pulled_again():
    s, image = Store(), simple("whole again")
    ref = registry().push(image, "missing/x", "1")
    s.pull(ref)
    link = f"{s.path}/layers/{image.layers[1].diff_id[7:]}"
    os.unlink(link)
    s.bad("run", "--pull", "never", "--image", ref, words=[image.layers[1].diff_id])
    eq(s.good("run", "--image", ref), "whole again")


# -------------------------------------------------------- contents of images


@test
def whiteouts_and_opaque_directories_are_applied():
    image = Image(base(), Layer({"d": directory(), "d/gone": "x", "d/kept": "x", "o": directory(), "o/a": "x", "o/sub": directory(),
                                 "o/sub/b": "x", "whole": directory(), "whole/x": "x", "f": "file"}),
                  Layer({"d/.wh.gone": "", "o": directory(), "o/.wh..wh..opq": "", "o/new": "x", ".wh.whole": "",
                         ".wh.f": "", "f2": "x"}),
                  Layer({"f": directory(), "f/now-a-directory": "x", "whole": directory(), "whole/y": "x"}))
    s = Store()
    ref = registry().push(image, "whiteout/x", "1")
    s.pull(ref)
    out = s.run(ref, "sh", "-c", "cd /; find d o whole f f2 | sort | while read x; do echo -n \"$x \"; done")
    eq(out.split(), ["d", "d/kept", "f", "f/now-a-directory", "f2", "o", "o/new", "whole", "whole/y"])
    eq(s.run(ref, "sh", "-c", "find / -xdev -name '.wh.*'; echo end"), "end\n")


@test
def links_modes_and_owners_are_preserved():
    members = {"a": "linked", "hard": hardlink("a"), "soft": symlink("a"), "up": symlink("../../../../etc/passwd"),
               "su": File("x", 0o4755), "sg": File("x", 0o2755), "sticky": directory(0o1777), "dir": directory(0o750, uid=1234, gid=1235),
               "dir/f": File("x", 0o600, uid=1234, gid=1235), "big": File(uid=65535, gid=65535), "name with blank": "x",
               "ünï": "x", "l" * 200: "long"}
    s, image = Store(), Image(base(), Layer(members))
    ref = registry().push(image, "links/x", "1")
    s.pull(ref)
    out = s.run(ref, "sh", "-c", "cd /; for f in a hard su sg sticky dir dir/f big; do stat -c '%n %a %h %u:%g' $f; done;"
                                 "test a -ef hard && cat soft up; echo -n long:; cat l*")
    eq(out.splitlines()[:8], ["a 644 2 0:0", "hard 644 2 0:0", "su 4755 1 0:0", "sg 2755 1 0:0", "sticky 1777 2 0:0",
                              "dir 750 2 1234:1235" if ROOT else "dir 750 2 0:0",
                              "dir/f 600 1 1234:1235" if ROOT else "dir/f 600 1 0:0",
                              "big 644 1 65535:65535" if ROOT else "big 644 1 0:0"])
    ok("linkedroot:x:0:0" in out and out.endswith("long:long"), out)


@test
def set_id_bits_have_no_effect():
    s = Store()
    with open("/bin/busybox", "rb") as f:
        su = Layer({"su": directory(), "su/busybox": File(f.read(), 0o6755)})
    image = Image(base(), su)
    ref = registry().push(image, "setid/x", "1")
    s.pull(ref)
    eq(s.run(ref, "sh", "-c", "stat -c %a /su/busybox; /su/busybox id -u", options=["-u", "1234"]), "6755\n1234\n")


@test
def the_image_configuration_is_applied_as_by_docker():
    s, n = Store(), 0
    rows = [  # configuration of the image, options, command, output
        ({"Cmd": ["echo", "cmd"]}, [], [], "cmd\n"),
        ({"Cmd": ["echo", "cmd"]}, [], ["echo", "other"], "other\n"),
        ({"Entrypoint": ["echo", "entry"]}, [], [], "entry\n"),
        ({"Entrypoint": ["echo", "entry"]}, [], ["more"], "entry more\n"),
        ({"Entrypoint": ["echo", "entry"], "Cmd": ["cmd"]}, [], [], "entry cmd\n"),
        ({"Entrypoint": ["echo", "entry"], "Cmd": ["cmd"]}, [], ["own"], "entry own\n"),
        ({"Entrypoint": ["echo", "entry"], "Cmd": ["cmd"]}, ["--entrypoint", "/bin/printf"], ["%s", "x"], "x"),
        ({"Entrypoint": ["echo", "entry"], "Cmd": ["cmd"]}, ["--entrypoint", "/bin/echo"], [], "\n"),
        ({"Entrypoint": ["echo", "entry"], "Cmd": ["cmd"]}, ["--entrypoint", ""], ["echo", "own"], "own\n"),
        ({"Env": ["A=1", "B=two words", "PATH=/bin"]}, [], ["sh", "-c", "echo $A $B $PATH"], "1 two words /bin\n"),
        ({"Env": ["A=1"]}, ["-e", "A=2"], ["sh", "-c", "echo $A"], "2\n"),
        ({"WorkingDir": "/home/app"}, [], ["pwd"], "/home/app\n"),
        ({"WorkingDir": "/made/for/it"}, [], ["pwd"], "/made/for/it\n"),
        ({"WorkingDir": "/home/app"}, ["-w", "/tmp"], ["pwd"], "/tmp\n"),
        ({"Labels": {"a": "b"}, "ExposedPorts": {"80/tcp": {}}, "StopSignal": "SIGINT"}, [], ["echo", "fine"], "fine\n"),
        (None, [], ["pwd"], "/\n"),
    ]
    if ROOT:
        rows += [
            ({"User": "app"}, [], ["id"], "uid=1234(app) gid=1235(apps) groups=77(extra),1235(apps)\n"),
            ({"User": "app"}, [], ["sh", "-c", "echo $HOME"], "/home/app\n"),
            ({"User": "1234"}, [], ["id", "-u"], "1234\n"),
            ({"User": "4000:4001"}, [], ["id"], "uid=4000 gid=4001 groups=4001\n"),
            ({"User": "4000"}, [], ["sh", "-c", "id -G; grep ^Groups: /proc/self/status"], "0\nGroups:\t0 \n"),
            ({"User": "app:extra"}, [], ["id", "-g"], "77\n"),
            ({"User": "app"}, ["-u", "0"], ["id", "-u"], "0\n"),
        ]
    wrong = []
    for config, options, command, want in rows:
        n += 1
        image = Image(base(), config=config or {})
        ref = registry().push(image, "config/x", str(n))
        s.pull(ref)
        status, out, err = s.call("run", "--pull", "never", "--image", ref, *options, "--", *command)
        if status or out != want:
            wrong.append(f"{config} {options} {command}: {status} {out!r} {err[-200:]!r}, not {want!r}")
    eq(wrong, [], "rows")
    eq(len(s.directories()), 1, "layers")
    none = registry().push(Image(base(), config={}), "config/x", "none")
    s.pull(none)
    s.bad("run", "--image", none, words=["no command"])
    s.bad("run", "--image", registry().push(Image(base(), config={"User": "stranger", "Cmd": ["id"]}), "config/x", "s"),
          "--quiet", words=["stranger"])


@test
def volumes_are_writable_under_read_only():
    s = Store()
    image = Image(base(), Layer({"data": directory(), "data/from-image": "x"}), config={"Volumes": {"/data": {}, "/new/vol": {}}})
    ref = registry().push(image, "volumes/x", "1")
    s.pull(ref)
    script = "cat /data/from-image; echo 1 > /data/f && echo 1 > /new/vol/f && echo ok; touch /else 2>/dev/null || echo sealed"
    eq(s.run(ref, "sh", "-c", script, options=["--read-only"]), "xok\nsealed\n")
    eq(s.run(ref, "sh", "-c", "cat /data/from-image; touch /else && echo open"), "xopen\n")


@test
def images_with_many_layers_work():
    for n in (40, 440):
        s = Store()
        image = Image(base(), *(Layer({f"n{i}": str(i), "last": str(i)}) for i in range(n - 1)),
                      config={"Cmd": ["sh", "-c", "cat /last; ls / | wc -l"]})
        ref = registry().push(image, "many/x", str(n))
        s.pull(ref)
        eq(len(s.directories()), n, "layers")
        last, count = s.run(ref).replace(str(n - 2), f"{n - 2} ", 1).split()
        eq(last, str(n - 2))
        ok(int(count) > n, count)
    for n in (441,):
        many = Image(base(), *(Layer({f"n{i}": str(i)}) for i in range(n - 1)))
        ref = registry().push(many, "many/x", str(n))
        s = Store()
        s.bad("image", "pull", ref, words=[ref, f"it has {n} layers; the maximum is 440"])
        s.empty()
        d = folder()
        s.bad("image", "import", layout(f"{d}/layout", {"many:1": many}), words=[f"{d}/layout", f"it has {n} layers; the maximum is 440"])
        s.empty()


# ---------------------------------------------------- archives and directories


def check_loaded(s, out, name, text):
    ok(f"Loaded image: {name}\n" in out, out)
    ok(any(name in x["names"] for x in s.ls()), s.ls())
    eq(s.run(name), text)


@test
def archives_are_loaded():
    image = simple("loaded")
    d = folder()
    path = layout(f"{d}/layout", {"ref:1": image})
    skopeo("copy", f"oci:{path}:ref:1", f"docker-archive:{d}/docker.tar:mine/docker:1")
    skopeo("copy", f"oci:{path}:ref:1", f"oci-archive:{d}/oci.tar:mine/oci:1")
    with tarfile.open(f"{d}/plain.tar", "w") as t:
        t.add(path, ".")
    for name in ("docker", "oci", "plain"):
        with open(f"{d}/{name}.tar", "rb") as f:
            data = f.read()
        for how in ("gzip", "zstd", None):
            with open(f"{d}/x", "wb") as f:
                f.write(compress(data, how))
            ref = "ref:1" if name == "plain" else f"mine/{name}:1"
            s = Store()
            check_loaded(s, s.image("load", f"{d}/x"), ref, "loaded")
            s = Store()
            check_loaded(s, s.image("load", "-i", f"{d}/x"), ref, "loaded")
    s = Store()
    with open(f"{d}/docker.tar", "rb") as f:
        check_loaded(s, s.image("load", stdin=f), "mine/docker:1", "loaded")
    s = Store()
    with open(f"{d}/docker.tar", "rb") as f:
        id_ = s.image("load", "-q", "-", input=f.read()).strip()
    eq([x["id"] for x in s.ls()], [id_])
    eq(len(s.directories()), 2)


@test
def invalid_archives_are_refused():
    image = simple("x" * 100000)
    d = folder()
    path = layout(f"{d}/layout", {"bad:1": image})
    with tarfile.open(f"{d}/good.tar", "w") as t:
        t.add(path, ".")
    with open(f"{d}/good.tar", "rb") as f:
        good = f.read()
    middle = good.index(image.layers[0].blob) + len(image.layers[0].blob) // 2
    cases = {"empty": b"", "noise": noise(100000, 1), "truncated": good[:len(good) // 2],
             "corrupt": good[:middle] + b"\xff\x00\xff" + good[middle + 3:], "half.gz": gzip.compress(good)[:200000],
             "no-image": tar({"hello": "x"}), "text": b"not an archive\n" * 1000}
    for name, data in cases.items():
        s = Store()
        with open(f"{d}/{name}", "wb") as f:
            f.write(data)
        s.bad("image", "load", "-q", f"{d}/{name}", words=[f"{d}/{name}"])
        s.empty()
    s = Store()
    s.bad("image", "load", f"{d}/nowhere", words=[f"{d}/nowhere", "No such file"])
    s.bad("image", "load", "-i", f"{d}/x", f"{d}/y", words=["one archive"])


@test
def root_filesystems_are_imported():
    d = folder()
    plain = tar({**base_members(), "text": "imported"})
    with open(f"{d}/rootfs.tar", "wb") as f:
        f.write(plain)
    with open(f"{d}/rootfs.tar.gz", "wb") as f:
        f.write(gzip.compress(plain))
    os.mkdir(f"{d}/root")
    subprocess.run(["tar", "-xf", f"{d}/rootfs.tar", "-C", f"{d}/root", "--no-same-owner"], check=True)
    s = Store()
    for n, source in enumerate(("rootfs.tar", "rootfs.tar.gz", "root")):
        id_ = s.image("import", f"{d}/{source}", f"mine:{n}").strip()
        eq(s.run(f"mine:{n}", "cat", "/text"), "imported")
        eq(s.run(id_, "cat", "/text"), "imported")
        told = {"action": "loaded", "id": id_, "reference": f"mine:{n}"}
        eq(json.loads(s.image("import", "--json", f"{d}/{source}", f"mine:{n}")), told)
        eq(json.loads(s.image("tag", "--json", id_, "other:1")), {**told, "action": "tagged", "reference": "other:1"})
    gone = [json.loads(line) for line in s.image("rm", "--json", "other:1", "mine:2").splitlines()]
    eq([(g["action"], g["reference"]) for g in gone[:2]], [("untagged", "other:1"), ("untagged", "mine:2")], "names")
    eq([(g["action"], g["id"], g["reference"]) for g in gone[2:]], [("deleted", id_, None)], "the image, with its last name")
    id_ = s.image("import", "-", input=plain).strip()
    eq(s.run(id_, "cat", "/text"), "imported")
    s.bad("image", "import", f"{d}/nowhere", words=[f"{d}/nowhere"])
    s.bad("image", "import", f"{d}/rootfs.tar", "Not/Valid:x", words=["not an image reference"])


@test
def layouts_are_imported():
    s, d = Store(), folder()
    image, other = simple("layout"), simple("other")
    out = s.image("import", layout(f"{d}/a", {"from-layout:3": image}), "named:1")
    ok("Loaded image: from-layout:3\n" in out and "Loaded image: named:1\n" in out, out)
    eq(s.run("named:1"), "layout")
    out = s.image("import", layout(f"{d}/b", {"a:1": image, "b:1": other}))
    eq((s.run("a:1"), s.run("b:1")), ("layout", "other"))
    os.truncate(f"{d}/b/blobs/sha256/{other.layers[1].digest[7:]}", 20)
    s = Store()
    s.bad("image", "import", "-q", f"{d}/b", words=[f"{d}/b"])
    s.empty()  # the first image, which was complete, is not stored either


# ------------------------------------------------------------------- ordinary users


@test
@needs_root
def an_ordinary_user_can_pull_and_run_images():
    image = simple("rootless", Layer({".wh.root": "", "d": directory(0), "d/f": File("x", 0), "own": File("x", 0o644, uid=1234, gid=77)}))
    ref = registry().push(image, "rootless/x", "1")
    by_app = registry().push(Image(*image.layers, config={"User": "app", "Cmd": ["id", "-u"]}), "rootless/app", "1")
    for sub in (False, True) if shutil.which("newuidmap") and os.path.exists("/etc/subuid") else (False,):
        s = as_user(sub)
        eq(s.good("run", "--quiet", "--image", ref, "--", "sh", "-c", "cat /text; ls -d /root 2>/dev/null; id -u"), "rootless0\n")
        eq(s.run(ref), "rootless")
        # The user owns all files, whatever the archive says; other users exist only with subordinate ids.
        eq(s.run(ref, "stat", "-c", "%u:%g", "/own"), "0:0\n")
        s.pull(by_app)
        if sub:
            eq(s.run(by_app), "1234\n")
        else:
            s.bad("run", "--image", by_app, words=["user 'app'", "subuid"])
        ok(os.path.isdir(f"{s.path}/layers/d"), "its store is in its own home")
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as t:
            t.add(layout(f"{folder()}/layout", {"loaded:1": image}), ".")
        s.image("load", "-", input=data.getvalue())
        eq(s.run("loaded:1"), "rootless")
        for name in (ref, by_app, "loaded:1"):
            s.image("rm", name)
        s.empty()


if __name__ == "__main__":
    sys.exit(main())
