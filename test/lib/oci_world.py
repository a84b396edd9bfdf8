# SPDX-License-Identifier: Apache-2.0
"""oci_world.py - shared by the tests of images: generated images, a registry, stores, checks

Each test has a separate store. The registry is Debian's docker-registry on loopback; images are pushed byte by byte
with its protocol, so that a test can use any media type and any archive.
"""
import atexit
import contextlib
import gzip
import hashlib
import http.client
import io
import json
import os
import platform
import shutil
import signal
import ssl
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from checks import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
import registry_server  # pylint: disable=wrong-import-position

WAIT = 60 * PATIENCE
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
OTHER = "arm64" if ARCH == "amd64" else "amd64"

OCI = "application/vnd.oci.image."
DOCKER = "application/vnd.docker."
LAYER_TYPES = {
    ("oci", "gzip"): OCI + "layer.v1.tar+gzip", ("oci", "zstd"): OCI + "layer.v1.tar+zstd",
    ("oci", None): OCI + "layer.v1.tar", ("docker", "gzip"): DOCKER + "image.rootfs.diff.tar.gzip",
    ("docker", None): DOCKER + "image.rootfs.diff.tar",
}
TYPES = {
    "oci": {"manifest": OCI + "manifest.v1+json", "config": OCI + "config.v1+json", "index": OCI + "index.v1+json"},
    "docker": {"manifest": DOCKER + "distribution.manifest.v2+json", "config": DOCKER + "container.image.v1+json",
               "index": DOCKER + "distribution.manifest.list.v2+json"},
}

work = tempfile.mkdtemp(prefix="warren-oci-")
os.chmod(work, 0o755)


@atexit.register
def _remove_work(pid=os.getpid()):
    if os.getpid() == pid:
        shutil.rmtree(work, ignore_errors=True)


def folder():
    return tempfile.mkdtemp(dir=work)


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


# ------------------------------------------------------------------- images


class File:
    """A member of a layer: a file with data, or another kind of entry (.kind)."""

    def __init__(self, data=b"", mode=0o644, kind=tarfile.REGTYPE, link="", uid=0, gid=0):
        self.data = data.encode() if isinstance(data, str) else data
        self.mode, self.kind, self.link, self.uid, self.gid = mode, kind, link, uid, gid


def directory(mode=0o755, **kw):
    return File(mode=mode, kind=tarfile.DIRTYPE, **kw)


def symlink(to):
    return File(mode=0o777, kind=tarfile.SYMTYPE, link=to)


def hardlink(to):
    return File(kind=tarfile.LNKTYPE, link=to)


def tar(members):
    """Returns a plain archive of a dict: name to File, bytes or text."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, f in members.items():
            if not isinstance(f, File):
                f = File(f)
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.type, info.linkname = len(f.data), f.mode, f.kind, f.link
            info.uid, info.gid, info.mtime = f.uid, f.gid, 1700000000
            t.addfile(info, io.BytesIO(f.data))
    return out.getvalue()


def compress(data, how):
    if how == "gzip":
        return gzip.compress(data, 1, mtime=0)
    if how == "zstd":
        return subprocess.run(["zstd", "-qc1"], input=data, stdout=subprocess.PIPE, check=True).stdout
    return data


class Layer:
    def __init__(self, members, how="gzip"):
        plain = members if isinstance(members, bytes) else tar(members)
        self.how, self.size, self.diff_id = how, len(plain), digest(plain)
        self.blob = compress(plain, how)
        self.digest = digest(self.blob)


APPLETS = ("sh", "ls", "cat", "echo", "env", "id", "pwd", "true", "touch", "sleep", "stat", "test", "wc", "mkdir",
           "find", "rm", "printf", "sort")


def base_members():
    with open("/bin/busybox", "rb") as f:
        busybox = f.read()
    return {
        "bin": directory(), "bin/busybox": File(busybox, 0o755), **{f"bin/{a}": symlink("busybox") for a in APPLETS},
        "etc": directory(), "etc/passwd": "root:x:0:0::/root:/bin/sh\napp:x:1234:1235:An app:/home/app:/bin/sh\n",
        "etc/group": "root:x:0:\napps:x:1235:\nextra:x:77:app\n", "tmp": directory(0o1777), "root": directory(0o700),
        "home": directory(), "home/app": directory(uid=1234, gid=1235),
    }


_base = []


def base():
    """The layer below all others; always the same one."""
    if not _base:
        _base.append(Layer(base_members()))
    return _base[0]


class Image:
    """Layers and a configuration, and everything that is derived from them."""

    def __init__(self, *layers, config=None, arch=ARCH, family="oci", variant=None, created="2024-02-29T12:00:00Z"):
        self.layers, self.family = layers, family
        self.platform = {"os": "linux", "architecture": arch, **({"variant": variant} if variant else {})}
        self.config = json.dumps({**self.platform, "created": created, "config": config or {},
                                  "rootfs": {"type": "layers", "diff_ids": [x.diff_id for x in layers]},
                                  "history": []}).encode()
        self.id = digest(self.config)
        self.type = TYPES[family]["manifest"]
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": self.type,
            "config": {"mediaType": TYPES[family]["config"], "digest": self.id, "size": len(self.config)},
            "layers": [{"mediaType": LAYER_TYPES[family, x.how], "digest": x.digest, "size": len(x.blob)}
                       for x in layers]}).encode()
        self.digest = digest(self.manifest)

    def blobs(self):
        return {self.id: self.config, **{x.digest: x.blob for x in self.layers}}

    def descriptor(self, name=None):
        return {"mediaType": self.type, "digest": self.digest, "size": len(self.manifest), "platform": self.platform,
                **({"annotations": {"org.opencontainers.image.ref.name": name}} if name else {})}


def index(*images, family="oci"):
    body = json.dumps({"schemaVersion": 2, "mediaType": TYPES[family]["index"],
                       "manifests": [i.descriptor() for i in images]}).encode()
    return TYPES[family]["index"], body


def simple(text="x", *more, config=None, **kw):
    """Returns an image with the base, a file /text, and further layers."""
    return Image(base(), Layer({"text": text}), *more, config=config or {"Cmd": ["cat", "/text"]}, **kw)


def layout(path, images):
    """Writes an OCI layout of {name: image} at path."""
    os.makedirs(f"{path}/blobs/sha256")

    def put(data):
        with open(f"{path}/blobs/sha256/{digest(data)[7:]}", "wb") as f:
            f.write(data)
    for image in images.values():
        for blob in (*image.blobs().values(), image.manifest):
            put(blob)
    with open(f"{path}/oci-layout", "w", encoding="ascii") as f:
        f.write('{"imageLayoutVersion": "1.0.0"}')
    with open(f"{path}/index.json", "w", encoding="ascii") as f:
        json.dump({"schemaVersion": 2, "manifests": [i.descriptor(n) for n, i in images.items()]}, f)
    return path


def skopeo(*args):
    if not shutil.which("skopeo"):
        raise Skip("skopeo is not installed")
    subprocess.run(["skopeo", "--insecure-policy", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                   stderr=subprocess.STDOUT, timeout=WAIT, check=True)


# ----------------------------------------------------------------- registry


class Registry(registry_server.Registry):
    """Debian's registry, on a free port; images are pushed with its own protocol, over TLS and with a login if
    configured."""

    def __init__(self, storage=None, login=None, ca=None, **kw):
        for tool in ("docker-registry", *(["htpasswd"] if login else [])):
            if not shutil.which(tool):
                raise Skip(f"{tool} is not installed")
        path = folder()
        if login:
            subprocess.run(["htpasswd", "-Bbc", f"{path}/users", *login], check=True, capture_output=True, timeout=WAIT)
            kw["auth"] = {"htpasswd": {"realm": "here", "path": f"{path}/users"}}
        self.login, self.context = login, ssl.create_default_context(cafile=ca) if ca else None
        super().__init__(path, storage or f"{path}/data", **kw)

    def connect(self):
        if self.context:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=WAIT, context=self.context)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)

    def call(self, method, path, body=None, headers=None, want=(200, 201, 202)):
        c = self.connect()
        login = {"Authorization": registry_server.basic(*self.login)} if self.login else {}
        try:
            c.request(method, path, body, {**login, **(headers or {})})
            r = c.getresponse()
            r.read()
            ok(r.status in want, f"{method} {path}: {r.status}")
            return r
        finally:
            c.close()

    def push_blob(self, name, data):
        if self.call("HEAD", f"/v2/{name}/blobs/{digest(data)}", want=(200, 404)).status == 200:
            return
        where = self.call("POST", f"/v2/{name}/blobs/uploads/").getheader("Location").split(self.host)[-1]
        self.call("PUT", f"{where}&digest={digest(data)}", data, {"Content-Type": "application/octet-stream"})

    def push(self, image, name, tag=None):
        """Pushes the image by tag or digest; returns its reference."""
        for blob in image.blobs().values():
            self.push_blob(name, blob)
        return self.push_manifest(name, tag or image.digest, image.type, image.manifest)

    def push_manifest(self, name, tag, kind, body):
        self.call("PUT", f"/v2/{name}/manifests/{tag}", body, {"Content-Type": kind})
        return f"{self.host}/{name}{'@' if ':' in tag else ':'}{tag}"


_registry = []


def registry():
    if not _registry:
        _registry.append(Registry().__enter__())
    return _registry[0]


# ---------------------------------------------------------- stores and runs


class Store:
    """A state directory, and the program that uses it."""

    def __init__(self, path=None, prefix=(), program=WARREN):
        self.path = path or folder()
        self.prefix, self.program = list(prefix), program
        self.env = {"PATH": os.environ["PATH"], "HOME": work, "WARREN_STATE": self.path,
                    **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS") or k == "WARREN_LIBEXEC"}}

    def start(self, *args, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        env = {**self.env, **kw.pop("env", {})}
        return subprocess.Popen([*self.prefix, self.program, *args], env=env, cwd="/", **kw)

    def call(self, *args, **kw):
        data = kw.pop("input", None)
        if data is not None:
            kw["stdin"] = subprocess.PIPE
        p = self.start(*args, **kw)
        try:
            out, err = p.communicate(data, timeout=WAIT)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            raise AssertionError(f"{args} hangs; stderr {err[-300:]!r}") from None
        return p.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")

    def good(self, *args, **kw):
        status, out, err = self.call(*args, **kw)
        ok(status == 0, f"{args}: status {status}, stderr {err[-500:]!r}, stdout {out[-300:]!r}")
        self.said = err
        return out

    def bad(self, *args, words=(), status=125, **kw):
        """Runs a command that must fail with one line at the end; returns that line."""
        got, out, err = self.call(*args, **kw)
        lines = [x for x in err.splitlines() if x.startswith("warren")]
        ok(got == status and len(lines) == 1 and err.endswith(lines[0] + "\n"),
           f"{args}: status {got} (wanted {status}), stderr {err[-600:]!r}, stdout {out[-200:]!r}")
        for word in words:
            ok(word in lines[0], f"{word!r} is not in {lines[0]!r}")
        return lines[0]

    def image(self, *args, **kw):
        return self.good("image", *args, **kw)

    def pull(self, ref, *args, **kw):
        return self.image("pull", "--quiet", *args, ref, **kw).strip()

    def run(self, ref, *command, options=(), **kw):
        return self.good("run", "--pull", "never", "--image", ref, *options, "--", *command, **kw)

    def ls(self):
        return json.loads(self.image("ls", "--json"))

    def du(self):
        return json.loads(self.image("du", "--json"))

    def directories(self):
        """Returns the layers on disk."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(n for n in os.listdir(f"{self.path}/layers/d") if not n.startswith("."))
        return []

    def empty(self):
        """Checks that nothing is stored after a prune, which found no image."""
        eq(self.ls(), [], "images")
        self.image("prune")
        eq(self.directories(), [], "layers")
        for d in ("layers", "layers/d", "images", "images/refs"):
            names = os.listdir(f"{self.path}/{d}") if os.path.isdir(f"{self.path}/{d}") else []
            left = [n for n in names if n not in ("d", "refs", "lock")]
            eq(left, [], f"what is left in {d}")


def as_user(sub):
    """A store of an ordinary user; with @sub, the user has subordinate ids, in files that only the user's programs
    see."""
    uid, first = 52346, 1_200_000_000
    d = folder()
    for name in ("warren", "warren-image"):
        shutil.copy(os.path.join(os.path.dirname(WARREN), name), f"{d}/{name}")
    os.chmod(d, 0o755)
    for name in ("home", "run", "data"):
        os.mkdir(f"{d}/{name}", 0o700)
        os.chown(f"{d}/{name}", uid, uid)
    prefix = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
    if sub:
        mounts = []
        for name, line in (("passwd", f"warren-test:x:{uid}:{uid}::/:/bin/sh\n"), ("subuid", f"{uid}:{first}:65536\n"),
                           ("subgid", f"{uid}:{first}:65536\n")):
            with open(f"{d}/{name}", "w", encoding="ascii") as f:
                f.write("root:x:0:0::/root:/bin/sh\n" * (name == "passwd") + line)
            mounts.append(f"mount --bind {d}/{name} /etc/{name}")
        prefix = ["unshare", "-m", "sh", "-c", " && ".join(mounts) + ' && exec "$@"', "sh", *prefix]
    s = Store(f"{d}/data/warren", prefix, f"{d}/warren")
    s.env |= {"HOME": f"{d}/home", "XDG_RUNTIME_DIR": f"{d}/run", "XDG_DATA_HOME": f"{d}/data"}
    del s.env["WARREN_STATE"]
    s.env.pop("WARREN_LIBEXEC", None)
    return s


# --------------------------------------------------------------------- main


def main(run=run_tests):
    if not os.path.exists("/bin/busybox"):
        print("1..0 # SKIP busybox-static is not installed")
        return 0
    try:
        return run()
    finally:
        for r in _registry:
            r.__exit__()
