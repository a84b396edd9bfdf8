# SPDX-License-Identifier: Apache-2.0
"""registry_harness.py - what the tests of the registry client share

The program under test is registry-pull: the manifest and the blobs of a reference, into a folder.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("WARREN_BUILD", os.path.join(SOURCE, "build"))
PULL = os.path.join(BUILD, "test", "registry-pull")
MIB = 1 << 20

tests = []
work = tempfile.TemporaryDirectory(prefix="registry-client-")


class Skip(Exception):
    pass


def test(f):
    tests.append(f)
    return f


def ok(condition, what):
    if not condition:
        raise AssertionError(what)


def eq(got, want, what="value"):
    if got != want:
        raise AssertionError(f"{what} is {got!r}, not {want!r}")


def noise(n, seed=b"x"):
    return hashlib.shake_128(seed).digest(n)


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
    """Run registry-pull with a docker configuration (a dict) and no other environment."""
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
    """A pull that works: everything there, and everything right."""
    got = pull(ref, *args, **kw)
    eq((got.status, got.error), (0, ""), "status and error")
    eq(got.file("manifest.json"), image.manifest, "manifest")
    for digest, data in image.blobs.items():
        ok(got.file(digest) == data, f"{digest} is not what was served")
        ok(f"{digest} {len(data)} of {len(data)} verified" in got.out, got.out)
    return got


def bad(errno, pattern, ref, *args, **kw):
    """A pull that fails with one line, that names the reference."""
    got = pull(ref, *args, **kw)
    eq(got.status, 1, f"status ({got.error})")
    whole = ref if re.search(r":[\w.-]+$|@", ref.split("/", 1)[1]) else ref + ":latest"
    start = f"{errno}: pull {whole}: "
    ok(got.error.startswith(start), f"{got.error!r} does not start with {start!r}")
    ok(re.search(pattern, got.error), f"{got.error!r} does not match {pattern!r}")
    ok(got.error.count("\n") == 1 and got.error[:-1].isprintable(), repr(got.error))
    return got


def attempt(t):
    try:
        t()
    except Exception as why:
        return why


def explain(why):
    where = [f"{os.path.basename(f.filename)}:{f.lineno}"
             for f in traceback.extract_tb(why.__traceback__) if f.filename.startswith(SOURCE)]
    text = f"{type(why).__name__}: {why}".replace("\n", "\n# ")
    if isinstance(why, subprocess.CalledProcessError):
        text += f" {why.stderr[-500:]!r}"
    return f"# {' '.join(where)}: {text}"


def main():
    failed, names = 0, sys.argv[1:]
    chosen = [t for t in tests if not names or t.__name__ in names]
    with work:
        for n, t in enumerate(chosen, 1):
            why = attempt(t)
            if isinstance(why, Skip):
                print(f"ok {n} - {t.__name__} # SKIP {why}", flush=True)
            elif why is None:
                print(f"ok {n} - {t.__name__}", flush=True)
            else:
                failed += 1
                print(f"{explain(why)}\nnot ok {n} - {t.__name__}", flush=True)
    print(f"1..{len(chosen)}")
    return 1 if failed else 0
