# SPDX-License-Identifier: Apache-2.0
"""dockerd.py - a separate dockerd for a test

Its directories, socket, /etc and mounts are separate; it has no network and changes none.
"""
import os
import re
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from oci_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position

PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


class Docker:
    """A separate dockerd and its client."""

    def __init__(self):
        if not ROOT:
            raise Skip("needs root, to start dockerd")
        for tool in ("dockerd", "docker", "containerd"):
            if not shutil.which(tool, path=PATH):
                raise Skip(f"{tool} is not installed")
        self.dir = folder()
        self.socket = f"{self.dir}/s"
        os.mkdir(f"{self.dir}/etc")
        for name in ("passwd", "group", "hosts"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(f"/etc/{name}", f"{self.dir}/etc")
        for driver in ("overlay2", "vfs"):
            self.driver, self.process = driver, self.start(driver)
            if self.wait():
                return
            self.stop()
        with open(f"{self.dir}/log", encoding="utf-8", errors="replace") as f:
            raise Skip(f"dockerd does not start here: {f.read().strip().splitlines()[-1][-200:]}")

    def start(self, driver):
        command = ["dockerd", "--data-root", f"{self.dir}/data", "--exec-root", f"{self.dir}/exec", "--pidfile", f"{self.dir}/pid",
                   "-H", f"unix://{self.socket}", "--storage-driver", driver, "--bridge=none", "--iptables=false", "--ip6tables=false",
                   "--ip-forward=false", "--ip-masq=false", "--userland-proxy=false"]
        script = f'mount --bind {self.dir}/etc /etc && exec "$@"'
        with open(f"{self.dir}/log", "ab") as log:
            return subprocess.Popen(["unshare", "-m", "sh", "-c", script, "sh", *command], stdin=subprocess.DEVNULL, stdout=log,
                                    stderr=log, env={"PATH": PATH, "HOME": self.dir}, start_new_session=True)

    def restart(self):
        """Kills the daemon, like a crash; then starts another one on the same directories."""
        self.process.kill()
        self.process.wait()
        for pid in ("pid", "exec/containerd/containerd.pid"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.dir}/{pid}")
        self.process = self.start(self.driver)
        ok(self.wait(), "dockerd does not come back")

    def wait(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self.process.poll() is None:
            if os.path.exists(self.socket) and self.client("version").returncode == 0:
                return True
            time.sleep(0.1)
        return False

    def client(self, *args, **kw):
        return subprocess.run(["docker", "-H", f"unix://{self.socket}", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=WAIT, env={"PATH": PATH, "HOME": self.dir, "DOCKER_BUILDKIT": "0"}, **kw)

    def call(self, *args, **kw):
        """Returns its output, as bytes."""
        p = self.client(*args, **kw)
        ok(p.returncode == 0, f"docker {args}: {p.stderr[-400:]!r}")
        return p.stdout

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        left = self.processes()
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return left

    def processes(self):
        """Returns all processes with our directory in their arguments, including containerd."""
        found = []
        for n in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if n.isdigit() and int(n) != os.getpid():
                    with open(f"/proc/{n}/cmdline", "rb") as f:
                        if self.dir.encode() in f.read():
                            found.append(int(n))
        return found

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        left = self.stop()
        ok(not left or exc[0], f"processes are left: {left}")


class Proxy:
    """A proxy for a daemon. judge() sees each request; it may wait, and its result is the answer instead of the daemon's."""

    def __init__(self, d):
        self.daemon, self.socket = d.socket, f"{folder()}/p"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.socket)
        self.listener.listen(64)
        threading.Thread(target=self.serve, daemon=True).start()

    def judge(self, data):
        """Returns an answer, as bytes, or None."""

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                ours, theirs = self.listener.accept()[0], socket.socket(socket.AF_UNIX)
                theirs.connect(self.daemon)
                for pair in ((ours, theirs, self.judge), (theirs, ours, lambda _: None)):
                    threading.Thread(target=self.move, args=pair, daemon=True).start()

    @staticmethod
    def move(source, to, judge):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if answer := judge(data):
                    source.sendall(answer)
                else:
                    to.sendall(data)
        with contextlib.suppress(OSError):
            to.shutdown(socket.SHUT_WR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


_shared = []


def shared(prepare):
    """Returns the daemon of most tests of a program, prepared by @prepare; run() ends it."""
    if not _shared:
        d = Docker()
        _shared.append(d)
        prepare(d)
    return _shared[0]


def run():
    try:
        return run_tests()
    finally:
        for d in _shared:
            d.__exit__(None)


def rootfs():
    path = f"{folder()}/root.tar"
    with open(path, "wb") as f:
        f.write(tar(base_members()))
    return path


def host_like():
    """Returns the members of an image with the machine's own shells and small tools, and the libraries that they
    load."""
    programs = {"/bin/dash", "/bin/bash"}
    for package in ("coreutils", "grep", "sed", "findutils", "util-linux", "procps", "hostname", "tar"):
        listed = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=False, timeout=WAIT).stdout
        programs |= {f for f in listed.split() if re.match("(/usr)?/bin/", f) and os.path.isfile(f)}
    loaded = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False, timeout=WAIT).stdout
    found = {**{k: v for k, v in base_members().items() if not k.startswith("bin")}, "usr": directory(), "srv": directory(),
             "etc/login.defs": "UMASK 022\n"}
    for name in ("bin", "lib", "lib64"):
        found[f"usr/{name}"], found[name] = directory(), symlink(f"usr/{name}")

    def put(path, to):
        for n in range(1, to.count("/")):
            found.setdefault("/".join(to.split("/")[:n + 1]), directory())
        with open(path, "rb") as f:
            found[to] = File(f.read(), 0o755)
    for path in programs:
        put(path, f"usr/bin/{os.path.basename(path)}")
    for path in set(re.findall(r"/\S+\.so\S*", loaded)):
        put(path, path.strip("/") if path.startswith("/usr") else f"usr{path}")
    found["usr/bin/sh"] = symlink("dash")
    return {name: found[name] for name in sorted(found, key=lambda n: (n.count("/"), n))}
