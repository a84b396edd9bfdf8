# SPDX-License-Identifier: Apache-2.0
"""build_world.py - code that the tests of image builds share: a store with a base image, contexts, listings"""
import os
import struct
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from oci_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position

# A listing of /t in an image: name, kind, mode, owner, and the target of a link or the first line.
LISTING = ("cd /; find t | while read -r n; do k=f; test -d \"$n\" && k=d; to=; if test -L \"$n\"; then k=l; to=\" $(readlink \"$n\")\";"
           " elif test -f \"$n\"; then to=\" $(head -n 1 \"$n\")\"; fi; echo \"$n $k $(stat -c '%a %u:%g' \"$n\")$to\"; done")


def base_image(config=None):
    links = {f"bin/{a}": symlink("busybox") for a in ("readlink", "chmod", "chown", "ln", "cp", "mv", "sed", "head", "kill", "nc")}
    return Image(Layer({**base_members(), **links}), config=config or {"Env": ["PATH=/bin"], "Cmd": ["sh"]})


def until(condition, what):
    end = time.monotonic() + WAIT
    while not condition():
        ok(time.monotonic() < end, f"no {what}")
        time.sleep(0.01)


def zstd_bomb(name, size):
    """A compressed archive with one file of @size zeros, which is thirty thousand times smaller."""
    info = tarfile.TarInfo(name)
    info.size = size
    header = info.tobuf(tarfile.GNU_FORMAT)
    blocks = (size + (1 << 16)) >> 17
    # A frame with a window of 128 KiB: a raw block, then blocks that repeat one byte.
    return (b"\x28\xb5\x2f\xfd\x00\x38" + struct.pack("<I", len(header) << 3)[:3] + header +
            (struct.pack("<I", (1 << 17) << 3 | 1 << 1)[:3] + b"\0") * blocks + struct.pack("<I", 1024 << 3 | 1 << 1 | 1)[:3] + b"\0")


def write_tree(path, files):
    """Creates a directory from {name: text, bytes, ("link", target) or ("dir", mode)}."""
    os.makedirs(path, exist_ok=True)
    for name, what in files.items():
        at = f"{path}/{name}"
        os.makedirs(os.path.dirname(at), exist_ok=True)
        if isinstance(what, tuple) and what[0] == "link":
            os.symlink(what[1], at)
        elif isinstance(what, tuple):
            os.makedirs(at, exist_ok=True)
            os.chmod(at, what[1])
        else:
            with open(at, "wb") as f:
                f.write(what if isinstance(what, bytes) else what.encode())
            os.chmod(at, 0o644)
    return path


class Builder(Store):
    """A store with the image base:1; with @user, a store of that ordinary user."""

    def __init__(self, *args, config=None, user=None, **kw):
        super().__init__(*args, **kw)
        if user:
            self.path, self.prefix, self.program, self.env = user.path, user.prefix, user.program, user.env
        path = layout(f"{folder()}/layout", {"base:1": base_image(config)})
        if user:
            subprocess.run(["chmod", "-R", "a+rX", os.path.dirname(path)], check=True)
        self.image("import", "-q", path)

    def build(self, dockerfile, *options, files=None, context=None, **kw):
        """Builds an image and returns its id. The output is in self.said."""
        context = write_tree(context or folder(), {**({"Dockerfile": dockerfile} if dockerfile else {}), **(files or {})})
        if self.prefix:
            subprocess.run(["chmod", "-R", "a+rX", context], check=True)
        return self.image("build", *options, context, **kw).strip()

    def refuse(self, dockerfile, *options, files=None, words=(), **kw):
        context = write_tree(folder(), {"Dockerfile": dockerfile, **(files or {})})
        if self.prefix:
            subprocess.run(["chmod", "-R", "a+rX", context], check=True)
        return self.bad("image", "build", *options, context, words=words, **kw)

    def steps(self):
        """Returns (cached, executed): the steps of the last build, without FROM."""
        lines, cached, executed = self.said.splitlines(), [], []
        for n, line in enumerate(lines):
            if line.startswith("[") and "] " in line and not line.split("] ")[1].startswith("FROM"):
                (cached if lines[n + 1:n + 2] == ["CACHED"] else executed).append(line.split("] ")[1])
        return cached, executed

    def config(self, ref):
        return json.loads(self.image("inspect", ref))[0]["config"]

    def listing(self, ref):
        return sorted(self.run(ref, "-c", LISTING, options=["--entrypoint", "sh", "-u", "0", "-w", "/"]).splitlines())
