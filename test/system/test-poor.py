#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-poor.py - images without tools: operations work if they can, and otherwise name the missing tool

Each image is a root with a shell and some tools of busybox, on a backend that uses chroot(8). Prints TAP.
"""
import io
import os
import shutil
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import MIB, ROOT, eq, noise, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, check_error  # pylint: disable=wrong-import-position

TOOLS = ("cat", "chmod", "chown", "dd", "env", "find", "grep", "ln", "ls", "mkdir", "mv", "readlink", "rm", "rmdir", "sleep",
         "stat", "tail", "touch", "wc")
CONFIG = """
backend: poor
backends:
  poor:
    kind: command
    create:
      - sh
      - -ec
      - cp -a "$0" "$1" && mkdir "$1/proc" "$1/dev" && mount --rbind --make-rslave /proc "$1/proc" && mount --bind /dev "$1/dev"
      - '@DIR@/image-{image}'
      - '@DIR@/{id}'
    exec: [chroot, --userspec, '{user}', '@DIR@/{id}', '{argv}']
    destroy: [sh, -c, 'if [ -d $0 ]; then umount -R -l $0/proc; umount -l $0/dev; rm -rf $0; fi', '@DIR@/{id}']
"""

world = None


def make_root(name, tools, shell="dash", extra=()):
    """dash has only builtins; busybox's sh has all of busybox, even without links to it."""
    root = f"{world.dir}/image-{name}"
    for d in ("bin", "tmp", "etc"):
        os.makedirs(f"{root}/{d}", exist_ok=True)
    files = [shutil.which(shell)]
    if shell == "dash":
        for word in subprocess.run(["ldd", files[0]], capture_output=True, text=True, check=True).stdout.split():
            if word.startswith("/"):
                files.append(word)
    for path in files:
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(path, root + path)
    os.symlink(files[0], f"{root}/bin/sh")
    if tools or extra:
        os.makedirs(f"{root}/opt", exist_ok=True)
        shutil.copy(shutil.which("busybox"), f"{root}/opt/busybox")
    for tool in tools:
        os.symlink("/opt/busybox", f"{root}/bin/{tool}")
    for link, target in extra:
        os.symlink(target, f"{root}/{link}")
    os.makedirs(f"{root}/d/sub")
    with open(f"{root}/d/file", "wb") as f:
        f.write(b"content\n")
    os.utime(f"{root}/d/file", (1234567890, 1234567890))
    os.symlink("../d/file", f"{root}/d/sub/link")
    return root


class Box:
    """A sandbox with such an image, and a method for every file operation."""

    def __init__(self, image):
        self.id = world.create(image=image)
        self.at = f"/v1/sandboxes/{self.id}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        world.delete(self.id)

    def outside(self, path):
        """The path on this machine: the sandbox's root is a directory."""
        return f"{world.dir}/{self.id}{path}"

    def ask(self, method, where, body=None, **query):
        return world.ask(method, f"{self.at}/files{where}", body, query=query)

    def good(self, *args, **query):
        r = self.ask(*args, **query)
        ok(r.status < 300, f"{args[:2]} {query}: {r}")
        return r

    # Each method returns the answer, and checks the effect if the operation succeeded.

    def stat(self):
        r = self.ask("GET", "/stat", path="/d/file")
        if r.status == 200:
            s = r.json()
            eq([s[k] for k in ("type", "size", "mode", "uid", "modified_at")],
               ["file", 8, "0644", 0, "2009-02-13T23:31:30.000Z"], "stat")
        return r

    def list(self):
        r = self.ask("GET", "/list", path="/d", depth=2)
        if r.status == 200:
            eq([(e["path"], e["type"], e.get("link_target")) for e in r.json()["entries"]],
               [("/d/file", "file", None), ("/d/sub", "directory", None), ("/d/sub/link", "link", "../d/file")], "list")
        return r

    def devices(self):
        r = self.ask("GET", "/stat", path="/dev/null")
        if r.status == 200:
            eq(r.json()["type"], "char_device", "a device")
        return r

    def read(self):
        r = self.ask("GET", "", path="/d/file")
        if r.status == 200:
            eq(r.body, b"content\n", "read")
        return r

    def write(self):
        data = noise(3000)
        r = self.ask("PUT", "", data, path="/tmp/small")
        if r.status == 201:
            eq(r.json()["size"], 3000, "its size")
            again = self.ask("GET", "", path="/tmp/small")
            ok(again.status == 501 or again.body == data, f"written: {again}")
        return r

    def write_large(self):
        data = noise(MIB)
        r = self.ask("PUT", "", data, path="/tmp/large")
        if r.status == 201:
            again = self.ask("GET", "", path="/tmp/large")
            ok(again.status == 501 or again.body == data, f"written: {again.status}")
        return r

    def write_program(self):
        r = self.ask("PUT", "", b"#!/bin/sh\necho runs\n", path="/tmp/program", mode="0755")
        if r.status == 201:
            eq(world.run(self.id, "/tmp/program")["stdout"], "runs\n", "a program")
        return r

    def append(self):
        r = self.ask("POST", "/append", b"more\n", path="/d/file")
        if r.status == 200:
            eq(world.run(self.id, "while read -r l; do echo $l; done </d/file")["stdout"], "content\nmore\n", "appended")
        return r

    def mkdir(self):
        r = self.ask("POST", "/mkdir", {"path": "/tmp/made/deep"})
        if r.status < 300:
            ok(os.path.isdir(self.outside("/tmp/made/deep")), "no directory")
        return r

    def move(self):
        r = self.ask("POST", "/move", {"from": "/d/sub", "to": "/d/moved"})
        if r.status == 200:
            eq(world.run(self.id, "[ -d /d/moved ] && [ ! -e /d/sub ]")["result"]["exit_code"], 0, "moved")
            self.good("POST", "/move", {"from": "/d/moved", "to": "/d/sub"})
        return r

    def chmod(self):
        r = self.ask("POST", "/chmod", {"path": "/d/file", "mode": "0640"})
        if r.status < 300:
            eq(os.stat(self.outside("/d/file")).st_mode & 0o7777, 0o640, "its mode")
        return r

    def chown(self):
        r = self.ask("POST", "/chown", {"path": "/d/file", "owner": "12:34"})
        if r.status < 300:
            s = os.stat(self.outside("/d/file"))
            eq((s.st_uid, s.st_gid), (12, 34), "its owner")
        return r

    def remove(self):
        r = self.ask("DELETE", "", path="/d/sub/link")
        if r.status < 300:
            ok(not os.path.lexists(self.outside("/d/sub/link")), "the link is there")
            ok(os.path.exists(self.outside("/d/file")), "what it led to is gone")
        return r

    def remove_tree(self):
        r = self.ask("DELETE", "", path="/d/sub", recursive="true")
        if r.status < 300:
            ok(not os.path.lexists(self.outside("/d/sub")), "the tree is there")
        return r

    def tree_up(self):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:") as tar:
            for name, kind, data in (("a", tarfile.DIRTYPE, b""), ("a/x", tarfile.REGTYPE, b"1"), ("l", tarfile.SYMTYPE, b""),
                                     ("a/y", tarfile.REGTYPE, noise(100000))):
                info = tarfile.TarInfo(name)
                info.mtime, info.mode, info.size, info.type = 1234567890, 0o755 if name == "a" else 0o644, len(data), kind
                info.linkname = "a/x" if kind == tarfile.SYMTYPE else ""
                tar.addfile(info, io.BytesIO(data))
        r = self.ask("PUT", "/tar", out.getvalue(), path="/tmp/up")
        if r.status == 200:
            eq(self.good("GET", "/stat", path="/tmp/up/a/y").json()["modified_at"], "2009-02-13T23:31:30.000Z", "its time")
            eq(self.good("GET", "", path="/tmp/up/a/y").body, noise(100000), "what came up")
        return r

    def tree_down(self):
        r = self.ask("GET", "/tar", path="/d")
        if r.status == 200:
            with tarfile.open(fileobj=io.BytesIO(r.body)) as tar:
                eq(sorted(tar.getnames()), ["file", "sub", "sub/link"], "names")
                eq(tar.getmember("sub/link").linkname, "../d/file", "a link")
        return r

    def search(self):
        r = self.ask("POST", "/search", {"path": "/d", "content": "conte"})
        if r.status == 200:
            eq([m["path"] for m in r.json()["matches"]], ["/d/file"], "found")
        return r


# The order matters: operations that change files come last.
OPERATIONS = ("stat", "list", "devices", "read", "search", "tree_down", "write", "write_large", "write_program", "mkdir", "move",
              "tree_up", "chmod", "chown", "append", "remove", "remove_tree")


def works(box):
    """These operations need only a shell."""
    e = world.run(box.id, "echo out; echo err >&2; exit 3")
    eq((e["stdout"], e["stderr"], e["result"]["exit_code"]), ("out\n", "err\n", 3), "an exec")
    s = world.post(box.at + "/sessions", {}, status=201)["id"]
    command = lambda text, **more: world.post(f"{box.at}/sessions/{s}/run", {"command": text, **more})  # noqa: E731
    command("cd /d; x=5; f() { echo \"f $x\"; }")
    eq((command("f; pwd")["stdout"], command("false")["exit_code"]), ("f 5\n/d\n", 1), "a session")
    ok(command("while :; do :; done", timeout_ms=300)["timed_out"], "a command that is out of time")
    eq(command("f")["stdout"], "f 5\n", "the session after it")
    ok(command("echo 'x")["exit_code"] != 0, "a quote that is not closed")


def check(box, lacks):
    """Checks that every operation works, except those in @lacks, whose error names the missing tool."""
    for name in OPERATIONS:
        r = getattr(box, name)()
        if name in lacks:
            e = check_error(r, 501, "not_supported")
            ok(lacks[name] in e["message"], f"{name}: {e['message']!r} does not say {lacks[name]!r}")
            ok(".warren-" not in e["message"], f"{name}: {e['message']!r} names what nobody has asked for")
        else:
            ok(r.status < 300, f"{name}: {r}")
    left = world.run(box.id, "for f in /tmp/.warren-* /tmp/up/a/.warren-* /d/.warren-*; do [ ! -e \"$f\" ] || echo \"$f\"; done")["stdout"]
    ok(not left or "remove" in lacks, f"left: {left!r}")


# Operations that need a tool without a substitute.
NEEDS = {
    "mkdir": {"mkdir": "no mkdir", "tree_up": "no mkdir"},
    "mv": {"move": "no mv", "write": "no mv", "write_large": "no mv", "write_program": "no mv",
           "tree_up": "no mv"},
    "rm": {"remove": "no rm", "remove_tree": "no rm"},
    "chmod": {"chmod": "no chmod", "write_program": "no chmod", "tree_up": "no chmod"},
    "chown": {"chown": "no chown"},
    "ln": {"tree_up": "no ln"},
    "touch": {"tree_up": "no touch"},
}


@test
def everything_works_with_only_busybox():
    make_root("busybox", (), shell="busybox", extra=[("bin/busybox", "/opt/busybox")])
    with Box("busybox") as box:
        works(box)
        check(box, {})


@test
def tools_are_found_inside_busybox():
    make_root("nameless", (), extra=[("bin/busybox", "/opt/busybox")])
    with Box("nameless") as box:
        eq(world.run(box.id, "mv")["result"]["exit_code"], 127, "exit code of mv, which has no name")
        check(box, {})


@test
def a_missing_tool_disables_only_what_needs_it():
    for tool in TOOLS:
        make_root(f"no-{tool}", [t for t in TOOLS if t != tool])
        with Box(f"no-{tool}") as box:
            check(box, NEEDS.get(tool, {}))


@test
def one_of_several_tools_is_enough():
    rest = [t for t in TOOLS if t not in ("cat", "dd", "tail", "stat", "find", "ls", "readlink", "wc", "grep", "env", "sleep")]
    for tools in (("cat", "stat", "readlink"), ("dd", "ls"), ("tail", "stat", "ls"), ("dd", "stat", "readlink", "wc")):
        make_root("-".join(tools), [*rest, *tools])
        with Box("-".join(tools)) as box:
            check(box, {})


@test
def an_image_without_copy_tools_is_reported():
    make_root("no-copies", [t for t in TOOLS if t not in ("cat", "dd", "tail")])
    with Box("no-copies") as box:
        check(box, dict.fromkeys(("read", "search", "tree_down", "write_large", "tree_up"), "none of cat dd tail"))


@test
def commands_work_in_an_image_with_only_a_shell():
    make_root("shell", ())
    with Box("shell") as box:
        works(box)
        check(box, dict.fromkeys(OPERATIONS, "the image has no") | {"stat": "none of stat, find -printf and ls --full-time"})


if __name__ == "__main__":
    if not ROOT or not shutil.which("busybox") or not shutil.which("dash"):
        print("1..0 # SKIP needs root, busybox and dash")
        sys.exit()
    with World(config=CONFIG) as world:
        failed = run_tests()
    sys.exit(failed)
