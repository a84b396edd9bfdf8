# SPDX-License-Identifier: Apache-2.0
"""peers.py - prepare the other runtimes to run /bin/true in a sandbox, and clean up afterwards

A peer that is missing or does not work on this machine keeps its row, which contains the reason. Everything for a
peer is in a temporary directory: bundles, state, and a separate docker daemon with its data and socket.
"""
import json
import os
import pathlib
import shutil
import subprocess
import time

SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
CGROUP = f"/warren-bench-{os.getpid()}"  # cgroup of docker, in every hierarchy


def find(name, package_first=()):
    """Returns the program of that name: the distribution's if there is one, otherwise the first in PATH."""
    for path in package_first:
        if os.access(path, os.X_OK):
            return path
    return shutil.which(name, path=os.environ.get("PATH", "") + ":" + SBIN)


class Peer:
    """One row: the command to execute, or why it cannot be executed."""

    def __init__(self, name, about, argv=None, why=None):
        self.name = name
        self.about = about
        self.argv = argv  # {id} in an argument becomes a name for each run
        self.why = why
        self.times = []  # in seconds, one for each round

    def command(self, number):
        return [a.replace("{id}", f"wb{os.getpid()}-{number}") for a in self.argv]

    def try_once(self):
        """Runs it once; if that fails, records the reason."""
        if self.why:
            return
        try:
            done = subprocess.run(self.command(0), stdin=subprocess.DEVNULL, timeout=60,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        except subprocess.TimeoutExpired:
            self.why = "does not end"
            return
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
            self.why = f"refused ({done.returncode}): {lines[-1][:160]}"


def bwrap():
    base = ["--unshare-all", "--ro-bind", "/", "/"]
    program = find("bwrap")
    why = None if program else "not installed"
    return [
        Peer("bwrap", "--unshare-all --ro-bind / /", [program or "bwrap", *base, "/bin/true"], why),
        Peer("bwrap+", "the same with --proc /proc --dev /dev",
             [program or "bwrap", *base, "--proc", "/proc", "--dev", "/dev", "/bin/true"], why),
    ]


def make_bundle(folder):
    """Creates an OCI bundle with a static busybox as its root; returns None without busybox, or without a spec."""
    busybox = find("busybox")
    maker = find("runc") or find("crun")
    if not busybox or not maker:
        return None
    root = folder / "rootfs"
    for name in ("bin", "proc", "dev", "sys", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(busybox, root / "bin/busybox")
    (root / "bin/true").symlink_to("busybox")
    if subprocess.run([maker, "spec"], cwd=folder, check=False).returncode:
        return None
    config = json.loads((folder / "config.json").read_text())
    config["process"]["terminal"] = False
    config["process"]["args"] = ["/bin/true"]
    config["root"] = {"path": "rootfs", "readonly": True}
    config["linux"].setdefault("resources", {}).update(
        {"memory": {"limit": 1 << 30}, "pids": {"limit": 1024}})
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def oci(folder, bundle):
    """Returns the runtimes that use a bundle. None of them has an overlay or a user namespace here."""
    made = []
    for name, options in (("runc", []), ("crun", []), ("runsc", ["--network", "none"])):
        program = find(name)
        why = None if program else "not installed"
        if program and not bundle:
            why = "no bundle: busybox or a runtime that writes a spec is missing"
        elif program and os.geteuid() != 0:
            why = "needs root"
        argv = [program or name, "--root", str(folder / name), *options, "run", "--bundle",
                str(bundle), "{id}"]
        made.append(Peer(name, " ".join([*options, "run, a bundle with busybox"]), argv, why))
    return made


class Docker:
    """A separate daemon for the time of the measurement, which does not change the host's network."""

    def __init__(self, folder, rootfs):
        self.folder = folder
        self.rootfs = rootfs
        self.daemon = None
        self.client = find("docker", ["/usr/bin/docker"])
        self.server = find("dockerd")
        self.host = f"unix://{folder}/socket"

    def peer(self):
        argv = [self.client or "docker", "-H", self.host, "run", "--rm", "--network", "none",
                "warren-bench", "/bin/true"]
        return Peer("docker", "run --rm --network none", argv, self.start())

    def start(self):
        """Starts the daemon; returns why it is not running, or None."""
        if not self.client or not self.server:
            return "not installed"
        if os.geteuid() != 0:
            return "needs root"
        if not self.rootfs:
            return "no image: busybox is missing"
        self.folder.mkdir()
        env = dict(os.environ, PATH=os.environ.get("PATH", "") + ":" + SBIN)
        with open(self.folder / "log", "wb") as log:
            self.daemon = subprocess.Popen(
                [self.server, "--data-root", str(self.folder / "data"), "--exec-root",
                 str(self.folder / "exec"), "--pidfile", str(self.folder / "pid"), "-H", self.host,
                 "--cgroup-parent", CGROUP, "--bridge", "none", "--iptables=false",
                 "--ip-forward=false", "--ip-masq=false"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        for _ in range(300):
            if self.daemon.poll() is not None:
                break
            if self.call("version") == 0:
                return self.load()
            time.sleep(0.1)
        self.stop()
        return "its daemon does not start: " + self.last_words()

    def call(self, *args, stdin=subprocess.DEVNULL):
        return subprocess.run([self.client, "-H", self.host, *args], stdin=stdin, check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode

    def load(self):
        archive = self.folder / "image.tar"
        subprocess.run(["tar", "-C", str(self.rootfs), "-cf", str(archive), "."], check=True)
        with open(archive, "rb") as image:
            return "cannot import an image" if self.call("import", "-", "warren-bench",
                                                         stdin=image) else None

    def last_words(self):
        lines = (self.folder / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1][-160:] if lines else "no message"

    def stop(self):
        """Stops the daemon. --rm has removed its containers, and it stops its containerd itself."""
        if self.daemon and self.daemon.poll() is None:
            self.daemon.terminate()
            try:
                self.daemon.wait(30)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
        self.daemon = None
        for made in pathlib.Path("/sys/fs/cgroup").glob(f"*{CGROUP}"):
            made.rmdir()


def unmount_below(folder):
    """Unmounts what a runtime left mounted in the temporary directory, the deepest mount first."""
    mounts = [line.split()[1] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    for target in sorted((m for m in mounts if m.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "-l", target], check=False)
