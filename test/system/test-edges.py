#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-edges.py - requests at resource limits are answered at once, with a final answer

Prints TAP. A request that cannot be granted gets an answer with the reason; if a retry cannot succeed, the answer
does not suggest one.
"""
import ctypes
import io
import os
import subprocess
import sys
import tarfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import CLONE_NEWNS, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, check_error, until  # pylint: disable=wrong-import-position

def deep(n, name="f"):
    return "/".join(["d"] * n + [name])


def archive(*names):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
    return out.getvalue()


@test
def missing_directories_of_a_deep_path_are_created():
    box = w.create()
    for n in (1, 200, 600, 2000):
        r = w.ask("PUT", f"/v1/sandboxes/{box}/files/tar?path=/tmp/t{n}", archive(deep(n), deep(n, "g")))
        eq((r.status, r.json()), (200, {"entries": 2, "bytes": 2}), f"{n} directories: {r.body}")
        got = w.run(box, f"cd /tmp/t{n}; i=0; while [ -d d ]; do cd -P d; i=$((i+1)); done; echo $i; cat f g")
        eq(got["stdout"], f"{n}\nxx", got)
    # A path that is too long is refused permanently.
    r = w.ask("PUT", f"/v1/sandboxes/{box}/files/tar?path=/tmp/t", archive(deep(2100)))
    eq((r.status, r.headers.get("retry-after")), (400, None), r.body)
    w.delete(box)


@test
def reading_output_past_its_end_is_an_error():
    box = w.create()
    e = w.exec(box, "echo 12345; sleep 1000")
    path = f"/v1/sandboxes/{box}/execs/{e}/output"
    until(lambda: w.ask("GET", f"{path}?follow=false&format=raw").body == b"12345\n", "there is no output")
    eq(w.ask("GET", f"{path}?from=5&follow=false&format=raw", status=200).body, b"\n")
    eq(w.ask("GET", f"{path}?from=6&follow=false&format=raw", status=200).body, b"")
    for form in ("raw", "ndjson", "sse"):
        for follow in ("false", "true"):
            for past in (7, 1 << 40, (1 << 53) - 1):
                said = check_error(w.ask("GET", f"{path}?from={past}&follow={follow}&format={form}"), 416, "range_not_satisfiable")
                ok("6" in said["message"] and str(past) in said["message"], said)
    check_error(w.ask("GET", f"{path}?format=sse", headers={"Last-Event-ID": "7"}), 416, "range_not_satisfiable")
    w.delete(box)


def private_etc():
    """For the service: a mount namespace in which /etc can be changed without changing the machine."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) < 0:
        os._exit(1)
    for command in (["mount", "--make-rprivate", "/"], ["mount", "-t", "tmpfs", "etc", "/mnt"], ["mkdir", "/mnt/u", "/mnt/w"],
                    ["mount", "-t", "overlay", "etc", "-o", "lowerdir=/etc,upperdir=/mnt/u,workdir=/mnt/w", "/etc"]):
        subprocess.run(command, check=True)


@test
def sandboxes_keep_their_files_when_the_machine_changes():
    with World(limits=private_etc) as other:
        boxes = [other.create()]
        for i in range(3):
            subprocess.run(["nsenter", "-t", str(other.process.pid), "-m", "sh", "-c",
                            f"echo warren-test-{i}:x:{900 + i}:{900 + i}::/:/bin/sh >>/etc/passwd"], check=True)
            # Sandboxes that were prepared before are used first.
            until(lambda: boxes.append(other.create()) or
                  other.run(boxes[-1], "grep -c warren-test- /etc/passwd")["stdout"] == f"{i + 1}\n", "the change")
        for box in boxes:
            found = other.run(box, "ls / /usr | wc -l")["stdout"]
            ok(int(found or 0) > 20, f"{box}: {found!r}")
            other.delete(box)


if __name__ == "__main__":
    with World() as w:
        failed = run_tests()
    sys.exit(failed)
