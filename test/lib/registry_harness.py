# SPDX-License-Identifier: Apache-2.0
"""registry_harness.py - shared by the tests of the registry client

The program under test is registry-pull, which fetches the manifest and the blobs of a reference into a directory.
"""
import json
import os
import re
import subprocess
import tempfile
import time

from checks import BUILD, MIB, Skip, eq, noise, ok, run_tests, test  # noqa: F401 pylint: disable=unused-import

PULL = os.path.join(BUILD, "test", "registry-pull")

work = tempfile.TemporaryDirectory(prefix="registry-client-")


class Pulled:
    def __init__(self, process, folder, seconds):
        self.status, self.folder, self.seconds = process.returncode, folder, seconds
        self.out, self.error = process.stdout.decode(), process.stderr.decode()

    def file(self, name):
        with open(os.path.join(self.folder, name.removeprefix("sha256:")), "rb") as f:
            return f.read()


def folder():
    return tempfile.mkdtemp(dir=work.name)


def pull(ref, *args, into=None, env=None, config=None, backoff=10):
    """Runs registry-pull with a docker configuration (a dict) and no other environment."""
    into = into or folder()
    path = os.path.join(folder(), "config.json")
    with open(path, "w") as f:
        json.dump(config or {}, f)
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **(env or {})}
    environment.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    started = time.monotonic()
    p = subprocess.run([PULL, "--config", path, "--backoff", str(backoff), *args, ref, into],
                       stdin=subprocess.DEVNULL, capture_output=True, timeout=100, env=environment)
    return Pulled(p, into, time.monotonic() - started)


def good(image, ref, *args, **kw):
    """Pulls, which must succeed: everything is present and correct."""
    got = pull(ref, *args, **kw)
    eq((got.status, got.error), (0, ""), "status and error")
    eq(got.file("manifest.json"), image.manifest, "manifest")
    for digest, data in image.blobs.items():
        ok(got.file(digest) == data, f"{digest} is not what was served")
        ok(f"{digest} {len(data)} of {len(data)} verified" in got.out, got.out)
    return got


def bad(errno, pattern, ref, *args, **kw):
    """Pulls, which must fail with one line that names the reference."""
    got = pull(ref, *args, **kw)
    eq(got.status, 1, f"status ({got.error})")
    whole = ref if re.search(r":[\w.-]+$|@", ref.split("/", 1)[1]) else ref + ":latest"
    start = f"{errno}: pull {whole}: "
    ok(got.error.startswith(start), f"{got.error!r} does not start with {start!r}")
    ok(re.search(pattern, got.error), f"{got.error!r} does not match {pattern!r}")
    ok(got.error.count("\n") == 1 and got.error[:-1].isprintable(), repr(got.error))
    return got


def main():
    with work:
        return run_tests()
