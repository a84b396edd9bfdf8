# SPDX-License-Identifier: Apache-2.0
"""swerex_world.py - the official client of SWE-ReX, in a separate Python environment, and its own server

    python = client_python()               # has the packages of swerex-requirements.txt
    with Reference() as r:                 # SWE-ReX's server, on loopback
        points(r.url, r.token, r.dir)
    Face(world, box, token).out("echo x")  # the protocol, without a client
"""
import contextlib
import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

from checks import BUILD, SOURCE, Skip, eq, free_port
from serve_world import until

VENV = os.path.join(BUILD, "swerex-venv")
WANTED = os.path.join(SOURCE, "test/lib", "swerex-requirements.txt")


def client_python():
    """Creates the environment once, in the build directory, and again when the required packages change."""
    with open(f"{VENV}.lock", "w", encoding="ascii") as lock:  # only one test may do this at a time
        fcntl.flock(lock, fcntl.LOCK_EX)
        return make_python(f"{VENV}/bin/python", f"{VENV}/wanted")


def make_python(python, stamp):
    with open(WANTED, encoding="utf-8") as f:
        wanted = f.read()
    with contextlib.suppress(OSError), open(stamp, encoding="utf-8") as f:
        if f.read() == wanted:
            return python
    shutil.rmtree(VENV, ignore_errors=True)
    for command in ([sys.executable, "-m", "venv", VENV],
                    [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", WANTED]):
        r = subprocess.run(command, capture_output=True, text=True)
        if r.returncode != 0:
            raise Skip(f"the client of SWE-ReX cannot be installed: {(r.stderr or r.stdout).strip()[-200:]}")
    with open(stamp, "w", encoding="utf-8") as f:
        f.write(wanted)
    return python


class Face:
    """The protocol as a client uses it: a token, JSON, a number for each request."""

    def __init__(self, world, box, token, prefix=True):
        self.world, self.box, self.token, self.prefix = world, box, token, f"/swerex/{box}" if prefix else ""

    def ask(self, path, body=None, method="POST", **headers):
        h = {"X-API-Key": self.token} if self.token else {}
        h.update({k.replace("_", "-"): v for k, v in headers.items()})
        with self.world.client(tcp=True) as c:
            return c.ask(method, self.prefix + path, body, headers=h)

    def good(self, path, body=None, **headers):
        r = self.ask(path, body, **headers)
        eq(r.status, 200, f"status of {path}: {r}")
        return r.json()

    def raised(self, path, body=None, cls=None):
        r = self.ask(path, body)
        eq(r.status, 511, f"status of {path}: {r}")
        e = r.json()["swerexception"]
        eq(sorted(e), ["class_path", "extra_info", "message", "traceback"])
        if cls:
            eq(e["class_path"], cls, e)
        return e

    def open(self, **kw):
        return self.good("/create_session", {"startup_timeout": 20, **kw})

    def run(self, command, **kw):
        return self.good("/run_in_session", {"command": command, "action_type": "bash", **kw})

    def out(self, command, **kw):
        return self.run(command, **kw)["output"]

    def interrupt(self, **kw):
        return self.good("/run_in_session", {"action_type": "bash_interrupt", **kw})

    def upload(self, target, data, unzip=False, **headers):
        word = unzip if isinstance(unzip, bytes) else b"true" if unzip else b"false"
        parts = [(b'name="file"; filename="f"', data), (b'name="target_path"', target.encode()), (b'name="unzip"', word)]
        return self.form(parts, **headers)

    def form(self, parts, tail=b"--XX--\r\n", **headers):
        body = b"".join(b"--XX\r\nContent-Disposition: form-data; " + h + b"\r\n\r\n" + d + b"\r\n" for h, d in parts)
        headers.setdefault("Content_Type", "multipart/form-data; boundary=XX")
        return self.ask("/upload", body + tail, **headers)


class Reference:
    """SWE-ReX's own server. It runs as root, so it has a separate directory and home."""

    token = "reference"

    def __enter__(self):
        python = client_python()
        self.dir = tempfile.mkdtemp(prefix="warren-swerex-")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [python, "-m", "swerex.server", "--host", "127.0.0.1", "--port", str(self.port), "--auth-token", self.token],
            cwd=self.dir, env={"PATH": os.environ["PATH"], "HOME": self.dir, "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self.answers, "SWE-ReX's server does not answer")
        return self

    def answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
            return True
        except OSError:
            return False

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def points(url, token, scratch):
    """Returns the client's results with that server, by point."""
    r = subprocess.run([client_python(), os.path.join(SOURCE, "test/lib", "swerex_points.py"), url, token, scratch],
                       capture_output=True, text=True)
    if r.returncode != 0:
        raise AssertionError(f"the client failed: {r.stderr[-2000:]}")
    return json.loads(r.stdout.splitlines()[-1])
