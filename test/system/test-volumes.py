#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-volumes.py - a volume appears at its target, whatever else is mounted there, and its content is kept

Prints TAP. WARREN_TEST_BACKEND is the backend (default: native).
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from oci_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position

BACKEND = os.environ.get("WARREN_TEST_BACKEND", "native")
# Targets with and without mounts of Warren or the image.
PLACES = ["/tmp/vol", "/tmp/deep/er/vol", "/tmp", "/dev/shm/vol", "/run/vol", "/var/tmp/vol", "/srv/vol"]


def prepared(d, name):
    os.makedirs(f"{d}/{name}")
    with open(f"{d}/{name}/from-outside", "w", encoding="ascii") as f:
        f.write(f"outside {name}\n")
    return f"{d}/{name}"


def run(script, *options, image=()):
    p = warren("run", "--quiet", "--backend", BACKEND, *options, *image, "--", "sh", "-c", script, timeout=60)
    eq(p.returncode, 0, p.stderr)
    return p.stdout.decode()


def check_place(d, at, *options, image=()):
    """Checks both directions: existing files are visible, and new files are kept."""
    name = at.strip("/").replace("/", "-") + ("-ro" if "--read-only" in options else "")
    source = prepared(d, name)
    eq(run(f"cat {at}/from-outside; echo inside > {at}/from-inside", "-v", f"{source}:{at}", *options, image=image),
       f"outside {name}\n", at)
    with open(f"{source}/from-inside", encoding="ascii") as f:
        eq(f.read(), "inside\n", at)


@test
@needs_root
def a_volume_can_be_mounted_anywhere():
    with scratch() as d:
        for at in PLACES:
            check_place(d, at)


@test
@needs_root
def a_volume_is_writable_with_a_read_only_root():
    with scratch() as d:
        for at in PLACES:
            check_place(d, at, "--read-only")
        # A file works too, and the rest of /tmp is sealed.
        with open(f"{d}/file", "w", encoding="ascii") as f:
            f.write("a file\n")
        eq(run("cat /tmp/a/file; touch /tmp/else 2>/dev/null || echo sealed", "--read-only", "-v", f"{d}/file:/tmp/a/file"),
           "a file\nsealed\n")


@test
@needs_root
def nested_volumes_work_in_any_order():
    """One volume is below the other, and is not hidden by it. (Options for a tmpfs come after all volumes.)"""
    with scratch() as d:
        below, above = prepared(d, "below"), prepared(d, "above")
        os.makedirs(f"{above}/b")
        eq(run("cat /srv/a/from-outside /srv/a/b/from-outside", "-v", f"{below}:/srv/a/b", "-v", f"{above}:/srv/a"),
           "outside above\noutside below\n")
        eq(run("cat /srv/a/b/c/from-outside; echo x > /srv/a/b/c/kept; touch /srv/a/own && echo tmpfs",
               "-v", f"{below}:/srv/a/b/c", "--tmpfs", "/srv/a"), "outside below\ntmpfs\n")
        ok(os.path.exists(f"{below}/kept"), "what was written below a tmpfs is lost")


@test
@needs_root
def a_volume_can_be_below_a_declared_volume_of_the_image():
    s = Store()
    image = Image(base(), Layer({"data": directory(), "data/from-image": "x"}), config={"Volumes": {"/data": {}, "/tmp/v": {}}})
    s.pull(registry().push(image, "volumes/below", BACKEND))
    with scratch() as d:
        for options in ((), ("--read-only",)):
            for n, at in enumerate(("/data/vol", "/tmp/v/vol")):
                source = prepared(d, f"{n}{len(options)}")
                script = (f"cat {at}/from-outside; echo inside > {at}/kept; cat /data/from-image; echo 1 > /data/f && echo writable; "
                          "touch /else 2>/dev/null || echo sealed")
                eq(s.run(image.id, "sh", "-c", script, options=["--backend", BACKEND, "-v", f"{source}:{at}", *options]),
                   f"outside {n}{len(options)}\nxwritable\n" + ("sealed\n" if options else ""), at)
                ok(os.path.exists(f"{source}/kept"), f"what was written to {at} is lost")


if __name__ == "__main__":
    be_alone()
    sys.exit(run_tests())
