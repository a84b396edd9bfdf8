#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-client-files.py - `warren cp` copies files and trees into and out of sandboxes"""
import os
import re
import stat
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, ok, eq, noise, scratch, warren, ROOT, MIB  # pylint: disable=wrong-import-position
from client_world import environ, call, call_json, start, sandbox, served, main  # pylint: disable=wrong-import-position
from serve_world import until  # pylint: disable=wrong-import-position


# ---------------------------------------------------------------------------- files


@test
def output_that_cannot_be_written_is_an_error():
    with sandbox() as box, open("/dev/full", "wb") as full:
        call("exec", box, "echo", "x")
        for words in (("ls",), ("ls", "-q"), ("ls", "--json"), ("ls", box), ("show", box), ("show", "--json", box), ("logs", box),
                      ("logs", "--json", box), ("top",), ("top", "--json"), ("backends",), ("exec", box, "echo", "x"),
                      ("exec", "--json", box, "true"), ("session", box, "echo x"), ("session", "run", "--json", box, "true"),
                      ("session", "ls", box), ("events", "--since", "0", "-n", "1"), ("cp", f"{box}:/etc/passwd", "-"),
                      ("pause", box), ("resume", box), ("wait", "--state", "running", box), ("port", box, "80"), ("token", "ls"),
                      ("completion", "bash"), ("help",), ("version",), ("doctor",), ("run", "--daemon", "echo", "x")):
            p = warren(*words, env=environ(), stdout=full)
            eq(p.returncode, 125, f"status of {words}")
            ok(re.fullmatch(rb"warren[a-z ]*: write to (stdout|'-'): No space left on device\n", p.stderr), f"{words} said {p.stderr!r}")
        for option in ("--example", "--check", "--help"):
            p = warren("serve", option, stdout=full)
            eq((p.returncode, p.stderr), (1, b"warren serve: write to stdout: No space left on device\n"), option)
            ok(warren("serve", option).returncode == 0, f"serve {option}")
    for name in ("state_dir", "run_dir"):
        p = warren("serve", "--check", f"--{name.replace('_', '-')}=")
        eq((p.returncode, p.stdout), (1, b""), name)
        ok(p.stderr.startswith(f"warren serve: {name} is empty (example: /".encode()), p.stderr)


@test
def a_directory_that_the_api_cannot_reach_is_named():
    with scratch() as d:
        os.makedirs(f"{d}/private/within")
        os.chmod(d, 0o755)
        os.chmod(f"{d}/private", 0o700)
        words = ("serve", "--state-dir", f"{d}/private/within/state", "--run-dir", f"{d}/run")
        p = warren(*words)
        eq((p.returncode, p.stdout), (1, b""), "one that only root may pass")
        ok(f"cannot enter '{d}/private': allow it (chmod o+x '{d}/private')".encode() in p.stderr, p.stderr)
        os.chmod(f"{d}/private", 0o711)
        with start(*words) as p:
            host = {**os.environ, "WARREN_HOST": f"unix:{d}/run/warren.sock"}
            try:
                until(lambda: warren("ls", env=host).returncode == 0, "it serves")
            finally:
                p.terminate()


@test
def files_and_trees_are_copied_in_both_directions():
    data = noise(3 * MIB)
    with sandbox("--name", "files") as box, scratch() as d:
        served("/v1/sandboxes", box, "files/stat?path=/tmp")
        with open(f"{d}/run.sh", "wb") as f:
            f.write(b"#!/bin/sh\necho ran\n")
        os.chmod(f"{d}/run.sh", 0o755)
        call("cp", f"{d}/run.sh", "files:/tmp/")
        eq(call("exec", box, "/tmp/run.sh"), b"ran\n", "with its permissions")
        call("cp", f"{d}/run.sh", f"{box}:/tmp/deep/er/other.sh")
        eq(call("exec", box, "/tmp/deep/er/other.sh"), b"ran\n")
        call("cp", "-", f"{box}:/tmp/data", input=data)
        eq(call("cp", f"{box}:/tmp/data", "-"), data, "by stdin and stdout")
        told = {"sandbox_id": box, "inside": "/tmp/data", "outside": f"{d}/copy", "type": "file", "bytes": len(data)}
        eq(call_json("cp", "--json", f"{box}:/tmp/data", f"{d}/copy"), {**told, "direction": "out"})
        eq(call_json("cp", "--json", f"{d}/copy", f"files:/tmp/data"), {**told, "direction": "in"})
        call("cp", "--json", f"{box}:/tmp/data", "-", status=125, stderr=re.compile(rb"both write to stdout"))
        eq(call_json("cp", "--json", f"{box}:/tmp/.", f"{d}/all")["type"], "tree")
        with open(f"{d}/copy", "rb") as f:
            eq(f.read(), data)
        call("cp", "-u", "1000:1000", f"{d}/run.sh", f"{box}:/tmp/owned")
        eq(call("exec", box, "stat", "-c", "%u", "/tmp/owned"), b"1000\n")

        os.makedirs(f"{d}/tree/sub/empty")
        with open(f"{d}/tree/sub/a", "wb") as f:
            f.write(b"A")
        os.symlink("sub/a", f"{d}/tree/link")
        call("cp", f"{d}/tree", f"{box}:/tmp/new")
        call("cp", f"{d}/tree", f"{box}:/tmp")
        call("cp", "-q", f"{d}/tree/.", f"{box}:/tmp/deep")
        eq(call("exec", box, "cat", "/tmp/new/sub/a", "/tmp/tree/link", "/tmp/deep/link"), b"AAA")
        call("cp", f"{box}:/tmp/tree", f"{d}/back")
        call("cp", f"{box}:/tmp/tree", f"{d}/back")
        eq(sorted(os.listdir(f"{d}/back")), ["link", "sub", "tree"], "as docker has it")
        eq(os.readlink(f"{d}/back/tree/link"), "sub/a")
        ok(os.path.isdir(f"{d}/back/sub/empty"), "empty directories, too")

        archive = call("cp", f"{box}:/tmp/tree", "-")
        with open(f"{d}/t.tar", "wb") as f:
            f.write(archive)
        with tarfile.open(f"{d}/t.tar") as tar:
            ok(any(n.endswith("sub/a") for n in tar.getnames()), tar.getnames())
        call("cp", "--tar", "-", f"{box}:/tmp/from-tar", input=archive)
        eq(call("exec", box, "cat", "/tmp/from-tar/sub/a"), b"A")

        call("cp", f"{box}:/tmp/nothing", d, status=125, stderr=re.compile(rb"there is no '/tmp/nothing'"))
        call("cp", f"{d}/nothing", f"{box}:/tmp/", status=125, stderr=re.compile(rb"No such file"))


@test
def files_copied_from_a_sandbox_stay_in_their_directory():
    with sandbox() as box, scratch() as d:
        served("/v1/sandboxes", box, "files/stat?path=/tmp")
        os.mkdir(f"{d}/victim")
        call("exec", box, "sh", "-c", f"mkdir -p /tmp/x; cd /tmp/x; ln -s {d}/victim out; echo s > s; chmod 6777 s; "
             "mkfifo pipe; mkdir sub; echo b > sub/b")
        call("cp", f"{box}:/tmp/x", f"{d}/got", stderr=None)
        eq(os.listdir(f"{d}/victim"), [], "nothing was written through the link")
        eq(os.stat(f"{d}/got/s").st_mode & 0o7000, 0, "no rights to become somebody")
        ok(not os.path.exists(f"{d}/got/pipe"), "no special files")
        eq(os.readlink(f"{d}/got/out"), f"{d}/victim", "a link is a link")
        # Copy the same tree again, with a directory in place of the link: the copy does not follow the old link.
        call("exec", box, "sh", "-c", "cd /tmp/x; rm out; mkdir out; echo evil > out/evil")
        os.rename(f"{d}/got", f"{d}/x")
        warren("cp", f"{box}:/tmp/x", d, env=environ())
        eq(os.listdir(f"{d}/victim"), [], "nor on a second copy")


@test
def a_copy_does_not_replace_something_that_is_not_a_file():
    with sandbox() as box, scratch() as d:
        served("/v1/sandboxes", box, "files/stat?path=/tmp")
        call("cp", "-", f"{box}:/tmp/hello", input=b"hello\n")
        os.mkfifo(f"{d}/pipe")
        with subprocess.Popen(["cat", f"{d}/pipe"], stdout=subprocess.PIPE) as reader:
            call("cp", f"{box}:/tmp/hello", f"{d}/pipe")
            eq(reader.communicate(timeout=30)[0], b"hello\n", "what came through the pipe")
        ok(stat.S_ISFIFO(os.lstat(f"{d}/pipe").st_mode), "a pipe stays one")
        os.symlink("/dev/null", f"{d}/null")
        call("cp", f"{box}:/tmp/hello", f"{d}/null", status=125, stderr=re.compile(rb"is a link to something that is not a file"))
        eq(os.readlink(f"{d}/null"), "/dev/null", "a link to a device stays")
        if ROOT:
            os.mknod(f"{d}/full", 0o666 | stat.S_IFCHR, os.makedev(1, 7))
            call("cp", f"{box}:/tmp/hello", f"{d}/full", status=125,
                 stderr=re.compile(rb"\Awarren cp: write to '[^']*/full': No space left on device\n\Z"))
            ok(stat.S_ISCHR(os.lstat(f"{d}/full").st_mode), "a device stays one")
        # A link to a file may have been copied out of a sandbox: the user did not name its target.
        for name, target in (("link", f"{d}/target"), ("dangling", f"{d}/nowhere")):
            os.symlink(target, f"{d}/{name}")
        with open(f"{d}/target", "w", encoding="ascii") as f:
            f.write("mine")
        for name in ("link", "dangling", "target2"):
            call("cp", f"{box}:/tmp/hello", f"{d}/{name}")
            ok(stat.S_ISREG(os.lstat(f"{d}/{name}").st_mode), f"{name} is a file")
        with open(f"{d}/target", encoding="ascii") as f:
            eq(f.read(), "mine", "the target of a link")
        eq(sorted(os.listdir(d)), sorted({"pipe", "null", "link", "dangling", "target", "target2", *(["full"] * ROOT)}))


@test
def file_names_may_contain_any_bytes():
    names = ["ű".encode(), b"bad\xff", "ő".encode() * 100, b"\xfe" * 200, b"new\nline", b" "]
    with sandbox() as box, scratch() as d:
        served("/v1/sandboxes", box, "files/stat?path=/tmp")
        os.mkdir(f"{d}/tree")
        for n, name in enumerate(names):
            with open(os.path.join(f"{d}/tree".encode(), name), "w", encoding="ascii") as f:
                f.write(str(n))
            os.symlink(name, f"{d}/tree/link{n}".encode())
            os.link(os.path.join(f"{d}/tree".encode(), name), f"{d}/tree/hard{n}".encode())
        for lang in ("C", "C.UTF-8"):
            call("cp", f"{d}/tree", f"{box}:/tmp/{lang}", env={"LC_ALL": lang})
            eq(call("exec", box, "sh", "-c", f"cd /tmp/{lang}; cat link? hard?"), b"012345" * 2, "what is in them inside")
            call("cp", f"{box}:/tmp/{lang}", f"{d}/{lang}", env={"LC_ALL": lang})
            eq(subprocess.run(["diff", "-r", f"{d}/tree", f"{d}/{lang}"], capture_output=True).stdout, b"", "and back")


if __name__ == "__main__":
    sys.exit(main())
