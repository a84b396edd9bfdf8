#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-oci-docker.py - images saved by a real dockerd can be loaded, and look the same as there

Prints TAP. The daemon is started for these tests: its folders, socket, /etc and mounts are separate; it has no
network and changes none. It runs no containers: it builds, saves and exports.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from dockerd import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position

@test
def archives_of_docker_save_are_loaded():
    with Docker() as docker:
        with open(rootfs(), "rb") as f:
            docker.call("import", "-c", 'CMD ["echo", "imported"]', "-", "imported:1", stdin=f)
        context = folder()
        with open(f"{context}/x", "w", encoding="ascii") as f:
            f.write("copied\n")
        with open(f"{context}/Dockerfile", "w", encoding="ascii") as f:
            f.write('FROM imported:1\nCOPY --chown=1234:77 x /d/x\nENV A="b c"\nWORKDIR /w/d\nLABEL k=v\nVOLUME /data\nUSER app\n'
                    'ENTRYPOINT ["sh", "-c"]\nCMD ["echo $A; pwd; id -u; stat -c %u:%g /d/x; cat /d/x"]\n')
        docker.call("build", "-t", "mine/built:1", "-t", "mine/built:latest", context)
        built = docker.call("inspect", "-f", "{{.Id}}", "mine/built:1").decode().strip()
        both = docker.call("save", "imported:1", "mine/built:1", "mine/built")
        unnamed = docker.call("save", built)
    said = "b c\n/w/d\n1234\n1234:77\ncopied\n"
    s = Store()
    out = s.image("load", "-", input=both)
    eq(sorted(out.splitlines()), ["Loaded image: imported:1", "Loaded image: mine/built:1", "Loaded image: mine/built:latest"])
    eq(s.run("imported:1"), "imported\n")
    for ref in ("mine/built:1", "mine/built", built):
        eq(s.run(ref), said)
    (told,) = json.loads(s.image("inspect", "mine/built"))
    eq((told["id"], told["config"]["config"]["Labels"]), (built, {"k": "v"}))
    eq(s.run("mine/built", "touch /data/f && echo writable; touch /d/f 2>&1 | wc -l", options=["--read-only", "-u", "0"]), "writable\n1\n")
    s.image("rm", "imported:1")
    eq(s.run("mine/built"), said)
    s = Store()
    for data in (unnamed, gzip.compress(unnamed)):
        eq(s.image("load", "-", input=data), f"Loaded image ID: {built}\n")
        eq(s.run(built), said)
    for cut in (len(both) // 3, len(both) // 2, 600):
        s = Store()
        s.bad("image", "load", "-q", "-", input=both[:cut], words=["load '-'"])
        s.empty()


def lines_of_export(data):
    """The entries below t/ in the tar of a container, in the form of our own listing."""
    kinds = {tarfile.REGTYPE: "f", tarfile.LNKTYPE: "f", tarfile.DIRTYPE: "d", tarfile.SYMTYPE: "l", tarfile.FIFOTYPE: "p"}
    found = []
    with tarfile.open(fileobj=io.BytesIO(data)) as t:
        for m in t:
            if m.name.startswith("t/"):
                found.append(f"{m.name} {kinds.get(m.type, '?')} {m.mode & 0o7777:o} {m.uid}:{m.gid} {m.linkname if m.issym() else ''}".rstrip())
    return sorted(found)


def lines_of_run(s, ref):
    script = ("cd /; find t | while read -r n; do test \"$n\" = t && continue; k=f; test -d \"$n\" && k=d; test -p \"$n\" && k=p; to=;"
              " if test -L \"$n\"; then k=l; to=\" $(readlink \"$n\")\"; fi; echo \"$n $k $(stat -c '%a %u:%g' \"$n\")$to\"; done")
    return sorted(x.rstrip() for x in s.run(ref, "sh", "-c", script).splitlines())


@test
def an_unpacked_image_equals_that_of_docker():
    """Layers with everything that differs between engines: Warren shows the same files as docker."""
    lower = Layer({"t": directory(), "t/usr": directory(), "t/usr/lib": directory(), "t/usr/lib/old": "old", "t/lib": symlink("usr/lib"),
                   "t/lib/same-layer": "x", "t/abs": symlink("/t/usr/lib"), "t/abs/through": "x", "t/etc": directory(0o750, uid=1234),
                   "t/etc/a": "a", "t/gone": "x", "t/opaque": directory(), "t/opaque/x": "x", "t/file": "x", "t/dir": directory(),
                   "t/dir/x": "x", "t/replaced": symlink("usr"), "t/sticky": directory(0o1777), "t/set": File("x", 0o6755),
                   "t/emptied": directory(), "t/emptied/x": "x"})
    upper = Layer({"t/lib/upper-layer": "x", "t/etc/b": "b", "t/.wh.gone": "", "t/opaque/.wh..wh..opq": "", "t/opaque/y": "y",
                   "t/file": directory(), "t/file/in": "x", "t/dir": "now a file", "t/replaced": directory(0o711), "t/replaced/x": "x",
                   "t/sticky/x": "x", "t/p": File(kind=tarfile.FIFOTYPE, mode=0o600), "t/hard": "h", "t/hard2": hardlink("t/hard"),
                   "t/emptied/.wh.x": "", "t/made/by/nobody": "x", "t/usr/lib/new": "x", "t/l2": symlink("usr/lib"), "t/l2/again": "x"})
    image = Image(Layer({**base_members(), "bin/readlink": symlink("busybox")}), lower, upper)
    ref = registry().push(image, "same/x", "1")
    s = Store()
    s.pull(ref)
    ours = lines_of_run(s, ref)
    with Docker() as docker:
        docker.call("pull", ref)
        docker.call("create", "--name", "it", ref, "true")
        theirs = lines_of_export(docker.call("export", "it"))
        docker.call("rm", "it")
    ok(len(theirs) > 30 and "t/p p 600 0:0" in theirs, theirs)
    eq([x for x in ours if x not in theirs], [], "what only we show")
    eq([x for x in theirs if x not in ours], [], "what only docker shows")


@test
def the_docker_daemon_leaves_nothing_behind():
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as f:
        eq([line.split()[4] for line in f if work in line], [], "mounts")
    docker = Docker()
    ok(docker.processes(), "the daemon is not seen while it runs")
    docker.__exit__(None)
    eq(docker.processes(), [], "processes")


if __name__ == "__main__":
    sys.exit(main())
