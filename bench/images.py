# SPDX-License-Identifier: Apache-2.0
"""images.py - images: pulls and saves compared with other programs, starts from many layers, and sharing

bench/run calls this. A registry on loopback serves an image of about 300 MB in several layers. It is made from this
machine's /usr, so that the sizes of files and their compression are realistic.
"""
import gzip
import hashlib
import http.client
import io
import json
import os
import pathlib
import platform
import shutil
import socket
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "test/lib"))

TARGET = 300 << 20
LAYERS = 8
SMALL = 40
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
TYPE = "application/vnd.oci.image."


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Layer:
    def __init__(self, plain):
        self.diff_id, self.size = digest(plain), len(plain)
        self.blob = gzip.compress(plain, 6, mtime=0)
        self.digest = digest(self.blob)


def tar(fill):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as t:
        fill(t)
    return Layer(out.getvalue())


def small_layer(name, text):
    def fill(t):
        info = tarfile.TarInfo(name)
        info.size = len(text)
        t.addfile(info, io.BytesIO(text))
    return tar(fill)


def busybox_layer():
    def fill(t):
        for d in ("bin", "etc", "tmp"):
            info = tarfile.TarInfo(d)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            t.addfile(info)
        t.add("/bin/busybox", "bin/busybox")
        for name in ("sh", "true"):
            info = tarfile.TarInfo(f"bin/{name}")
            info.type, info.linkname = tarfile.SYMTYPE, "busybox"
            t.addfile(info)
    return tar(fill)


def real_layers():
    """Returns files of /usr/lib and /usr/share, in the order of their names, until there is enough."""
    found, total = [], 0
    for top in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/share", "/usr/bin", "/usr/lib"):
        for folder, folders, names in os.walk(top):
            folders.sort()
            for name in sorted(names):
                path = f"{folder}/{name}"
                size = os.lstat(path).st_size
                if total + size > TARGET or not os.path.isfile(path) or os.path.islink(path):
                    continue
                found.append((path, size))
                total += size
    layers, share, part = [], total / LAYERS, []

    def add(paths):
        def fill(t):
            for path in paths:
                t.add(path, path.lstrip("/"), recursive=False)
        layers.append(tar(fill))
    filled = 0
    for path, size in found:
        part.append(path)
        filled += size
        if filled >= share * (len(layers) + 1):
            add(part)
            part = []
    if part:
        add(part)
    return layers


class Registry:
    def __init__(self, folder):
        from checks import free_port  # pylint: disable=import-outside-toplevel
        folder.mkdir()
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        (folder / "config.yml").write_text(
            "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\n"
            f"storage: {{filesystem: {{rootdirectory: {folder}/data}}}}\nhttp: {{addr: {self.host}}}\n")
        self.process = subprocess.Popen(["docker-registry", "serve", str(folder / "config.yml")],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("docker-registry does not start")

    def call(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request(method, path, body, headers or {})
        r = c.getresponse()
        r.read()
        c.close()
        return r

    def push_blob(self, name, data):
        if self.call("HEAD", f"/v2/{name}/blobs/{digest(data)}").status == 200:
            return
        where = self.call("POST", f"/v2/{name}/blobs/uploads/").getheader("Location").split(self.host)[-1]
        self.call("PUT", f"{where}&digest={digest(data)}", data, {"Content-Type": "application/octet-stream"})

    def push(self, layers, name):
        config = json.dumps({"os": "linux", "architecture": ARCH, "config": {"Cmd": ["/bin/true"]}, "rootfs": {
            "type": "layers", "diff_ids": [x.diff_id for x in layers]}}).encode()
        for blob in (config, *(x.blob for x in layers)):
            self.push_blob(name, blob)
        manifest = json.dumps({
            "schemaVersion": 2, "mediaType": TYPE + "manifest.v1+json",
            "config": {"mediaType": TYPE + "config.v1+json", "digest": digest(config), "size": len(config)},
            "layers": [{"mediaType": TYPE + "layer.v1.tar+gzip", "digest": x.digest, "size": len(x.blob)}
                       for x in layers]}).encode()
        self.call("PUT", f"/v2/{name}/manifests/1", manifest, {"Content-Type": TYPE + "manifest.v1+json"})
        return f"{self.host}/{name}:1"

    def stop(self):
        self.process.terminate()
        self.process.wait()


def run(argv, env=None):
    done = subprocess.run([str(a) for a in argv], env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        raise RuntimeError(f"{argv[0]}: {done.stderr.decode(errors='replace').strip()[-200:]}")


def timed(work):
    os.sync()  # do not measure data that others wrote before
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Pulls:
    """One way to get the image unpacked on this disk, each time from nothing."""

    def __init__(self, folder, warren, ref):
        self.folder, self.warren, self.ref, self.n = folder, warren, ref, 0
        self.ways = {"warren image pull": self.by_warren}
        self.missing = {}
        if shutil.which("skopeo") and shutil.which("umoci"):
            self.ways["skopeo copy + umoci unpack"] = self.by_skopeo
        else:
            self.missing["skopeo copy + umoci unpack"] = "not installed"
        if shutil.which("podman"):
            self.ways["podman pull"] = self.by_podman
        else:
            self.missing["podman pull"] = "not installed"

    def fresh(self):
        self.n += 1
        path = self.folder / f"pull{self.n}"
        path.mkdir()
        return path

    def by_warren(self):
        run([self.warren, "image", "pull", "--quiet", self.ref], {"WARREN_STATE": str(self.fresh())})

    def by_skopeo(self):
        path = self.fresh()
        run(["skopeo", "--insecure-policy", "copy", "-q", "--src-tls-verify=false", f"docker://{self.ref}",
             f"oci:{path}/layout:1"])
        options = [] if os.geteuid() == 0 else ["--rootless"]
        run(["umoci", "unpack", *options, "--image", f"{path}/layout:1", path / "bundle"])

    def by_podman(self):
        path = self.fresh()
        run(["podman", "--root", path / "root", "--runroot", path / "run", "pull", "-q", "--tls-verify=false", self.ref])

    def clean(self):
        subprocess.run(["rm", "-rf", *(str(p) for p in self.folder.glob("pull*"))], check=False)


def docker_pull(docker, ref):
    """Pulls with a running daemon of bench/peers.py; then the image is removed for the next time."""
    run([docker.client, "-H", docker.host, "image", "rm", "-f", ref])
    return timed(lambda: run([docker.client, "-H", docker.host, "pull", "-q", ref]))


def median(values):
    return sorted(values)[len(values) // 2]


def pulls(folder, warren, ref, rounds, docker):
    p = Pulls(folder, warren, ref)
    times, missing = {name: [] for name in p.ways}, dict(p.missing)
    for _ in range(rounds):
        for name, way in p.ways.items():
            try:
                times[name].append(timed(way))
            except RuntimeError as why:
                missing[name] = str(why)
            p.clean()
    if docker:
        try:
            times["docker pull"] = [docker_pull(docker, ref) for _ in range(rounds)]
        except RuntimeError as why:
            missing["docker pull"] = str(why)
    else:
        missing["docker pull"] = "not running"
    return {n: t for n, t in times.items() if t and n not in missing}, missing


def saves(folder, warren, ref, rounds, docker):
    """Seconds to write the image as an archive: to a file, by each program that has it."""
    env, out = {"WARREN_STATE": str(folder / "saves")}, folder / "saved.tar"
    run([warren, "image", "pull", "-q", ref], env)
    ways = {"warren image save": lambda: run([warren, "image", "save", "-q", "-o", out, ref], env),
            "warren image save --compress zstd": lambda: run([warren, "image", "save", "-q", "--compress", "zstd", "-o", out, ref], env)}
    if docker:
        run([docker.client, "-H", docker.host, "pull", "-q", ref])
        ways["docker save"] = lambda: run([docker.client, "-H", docker.host, "save", "-o", out, ref])
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(timed(way))
            out.unlink()
    return times


def print_times(times, ours):
    """Print a row for each way; the figures of all."""
    figures = []
    for name, t in times.items():
        print(f"  {name:62} {median(t):8.2f} {min(t):8.2f} {median(t) / ours if ours else 0:8.2f}")
        figures.append(entry(name, "s", p50=round(median(t), 3), best=round(min(t), 3), n=len(t)))
    return figures


def starts(folder, warren, registry, rounds):
    """Returns the median time of a run from one layer and from many, by turns, in milliseconds."""
    base = busybox_layer()
    many = [base, *(small_layer(f"f{i}", str(i).encode()) for i in range(SMALL - 1))]
    env = {**os.environ, "WARREN_STATE": str(folder / "starts")}
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
    took = {}
    for layers in ([base], many):
        ref = registry.push(layers, f"start{len(layers)}")
        run([warren, "image", "pull", "-q", ref], env)
        took[len(layers)] = (ref, [])
    for n in range(rounds + 3):
        for ref, times in took.values():
            argv = [warren, "run", "--quiet", "--pull", "never", "--image", ref, "--", "/bin/true"]
            start = time.perf_counter()
            pid = os.posix_spawn(argv[0], argv, env, file_actions=actions)
            status = os.waitpid(pid, 0)[1]
            if status:
                raise RuntimeError(f"a run from {ref} failed")
            if n >= 3:
                times.append((time.perf_counter() - start) * 1e3)
    os.close(null)
    return {n: median(times) for n, (ref, times) in took.items()}


def used(path):
    """Returns the bytes used on disk."""
    return int(subprocess.run(["du", "-s", "--block-size=1", str(path)], stdout=subprocess.PIPE, check=True).stdout.split()[0])


def sharing(folder, warren, registry, layers, ref):
    """Returns how many bytes a second image with one different layer adds, and the size of that layer."""
    state = folder / "sharing"
    env = {"WARREN_STATE": str(state)}
    own = small_layer("own", os.urandom(1 << 20))
    second = registry.push([*layers, own], "second")
    run([warren, "image", "pull", "-q", ref], env)
    before = used(state)
    run([warren, "image", "pull", "-q", second], env)
    return used(state) - before, own.size


def entry(name, unit, **figures):
    return {"bench": "images", "name": name, "unit": unit, **figures}


def section(warren, folder, rounds=3, start_rounds=100, docker=None):
    """Prints the section; returns its figures, and 1 if something of Warren failed."""
    folder = pathlib.Path(folder) / "images"
    folder.mkdir()
    if not shutil.which("docker-registry") or not os.path.exists("/bin/busybox"):
        print("\nimages: docker-registry or busybox is not installed")
        return [], 0
    registry = Registry(folder / "registry")
    try:
        layers = [busybox_layer(), *real_layers()]
        ref = registry.push(layers, "real")
        plain, packed = sum(x.size for x in layers) / 1e6, sum(len(x.blob) for x in layers) / 1e6
        print(f"\npull and unpack {plain:.0f} MB ({packed:.0f} MB compressed) in {len(layers)} layers, seconds"
              f"{'p50':>8} {'best':>8} {'to ours':>8}")
        times, missing = pulls(folder, warren, ref, rounds, docker)
        figures = print_times(times, median(times.get("warren image pull", [0])))
        for name, why in missing.items():
            print(f"  {name:62} {why}")
        times = saves(folder, warren, ref, rounds, docker)
        figures += print_times(times, median(times["warren image save"]))
        p50 = starts(folder, warren, registry, start_rounds)
        added, size = sharing(folder, warren, registry, layers, ref)
        print(f"  run from a cached image, ms: 1 layer {p50[1]:.2f}, {SMALL} layers {p50[SMALL]:.2f},"
              f" {SMALL - 1} more cost {p50[SMALL] - p50[1]:.2f}")
        print(f"  a second image with a layer of {size / 1e6:.2f} MB of its own adds {added / 1e6:.2f} MB")
        figures += [entry(f"run, {n} layers", "ms", p50=round(t, 3)) for n, t in p50.items()]
        figures.append(entry(f"{SMALL} layers more than 1", "ms", value=round(p50[SMALL] - p50[1], 3)))
        figures.append(entry("second image adds", "bytes", value=added, own=size))
        return figures, int("warren image pull" in missing)
    except RuntimeError as why:
        print(f"  failed: {why}")
        return [], 1
    finally:
        registry.stop()
