#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-userdirs.py - clients of an ordinary user connect to the user's own service or root's, and to no other"""
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, eq, ok, run_tests, test  # pylint: disable=wrong-import-position

# No other user has these ids, and no concurrent test uses them.
USER = 54000 + os.getpid() % 1000
STRANGER = USER + 1000
TOKEN = "wrn_" + "5" * 64
PROGRAMS = ("warren", "warren-client", "warren-serve", "warren-shim", "warren-image")

home = None


class Listener:
    """A service of @uid at @path that answers everything with an empty list and records its input."""

    def __init__(self, path, uid):
        self.heard = b""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(path)
        os.chmod(path, 0o777)
        parent, child = socket.socketpair()
        # The peer of a socket is the process that listens, so a child with that user listens.
        self.pid = os.fork()
        if self.pid == 0:
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            self.sock.listen(8)
            child.send(b"x")
            with contextlib.suppress(OSError):
                while True:
                    c, _ = self.sock.accept()
                    c.settimeout(5)
                    data = b""
                    with contextlib.suppress(OSError):
                        data = c.recv(1 << 16)
                    child.send(b"C" + data)
                    if data:
                        body = b'{"sandboxes":[],"next_cursor":null}'
                        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: "
                                  + str(len(body)).encode() + b"\r\n\r\n" + body)
                    c.close()
            os._exit(0)
        child.close()
        self.news = parent
        self.news.settimeout(10)
        self.news.recv(1)

    def sent(self):
        """Returns what clients have sent so far."""
        self.news.settimeout(0.3)
        with contextlib.suppress(TimeoutError):
            while data := self.news.recv(1 << 16):
                self.heard += data.removeprefix(b"C")
        return self.heard

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        self.sock.close()
        self.news.close()


def directory(path, uid, mode=0o755):
    os.mkdir(path)
    os.chmod(path, mode)
    os.chown(path, uid, uid)
    return path


@contextlib.contextmanager
def tmp_dir(uid):
    """Creates the predictable name in /tmp, as @uid."""
    path = f"/tmp/warren-{USER}"
    try:
        yield directory(path, uid, 0o777 if uid == STRANGER else 0o700)
    finally:
        shutil.rmtree(path)


def warren(*args, **env):
    return subprocess.run(["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", f"{home}/warren", *args],
                          env={"PATH": os.environ["PATH"], "WARREN_TOKEN": TOKEN, **env}, cwd="/", stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, check=False)


@test
def a_directory_in_tmp_is_not_trusted():
    with tmp_dir(STRANGER) as d, Listener(f"{d}/warren.sock", STRANGER) as stranger:
        for env in ({"HOME": f"{home}/user"}, {}):
            p = warren("ls", **env)
            eq(p.returncode, 125, f"{env}: {p}")
            eq(stranger.sent(), b"", f"{env}: what the stranger was sent")
        ok(b"not a directory that only you can use" in p.stderr, p.stderr)  # without a home directory
        p = warren("image", "ls")
        ok(p.returncode == 125 and b"not a directory that only you can use" in p.stderr, p)
        p = warren("serve", "--check")
        ok(p.returncode != 0 and b"not a directory that only you can use" in p.stderr, p)


@test
def a_directory_in_tmp_of_the_same_user_is_trusted():
    with tmp_dir(USER) as d, Listener(f"{d}/warren.sock", USER) as own:
        p = warren("ls")
        eq(p.returncode, 0, p)
        ok(TOKEN.encode() in own.sent(), "his own service was not asked")


@test
def the_listener_is_checked_before_anything_is_sent():
    for uid, status in ((STRANGER, 125), (USER, 0), (0, 0)):
        d = directory(f"{home}/run-{uid}", USER, 0o700)
        directory(f"{d}/warren", USER, 0o700)
        with Listener(f"{d}/warren/warren.sock", uid) as there:
            p = warren("ls", HOME=f"{home}/user", XDG_RUNTIME_DIR=d)
            eq(p.returncode, status, p)
            eq(TOKEN.encode() in there.sent(), status == 0, f"whether a listener of {uid} has the token")
            ok(status == 0 or b"belongs to another user" in p.stderr, p.stderr)
            if uid == STRANGER:  # the control: an explicit address is used
                p = warren("ls", HOME=f"{home}/user", WARREN_HOST=f"unix:{d}/warren/warren.sock")
                ok(p.returncode == 0 and TOKEN.encode() in there.sent(), p)


@test
def a_link_to_another_users_directory_is_not_followed():
    theirs = directory(f"{home}/theirs", STRANGER)
    d = directory(f"{home}/run-link", USER, 0o700)
    os.symlink(theirs, f"{d}/warren")
    with Listener(f"{theirs}/warren.sock", STRANGER) as stranger:
        eq(warren("ls", HOME=f"{home}/user", XDG_RUNTIME_DIR=d).returncode, 125, "status")
        eq(stranger.sent(), b"", "what the stranger was sent")


@test
def the_run_directory_is_in_the_home_without_a_runtime_directory():
    p = warren("ls", HOME=f"{home}/user")
    ok(p.returncode == 125 and f"{home}/user/.local/share/warren/run/warren.sock".encode() in p.stderr, p)
    ok(not os.path.exists(f"/tmp/warren-{USER}"), "a directory in /tmp was made")


def run():
    global home  # pylint: disable=global-statement
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root, to be two users")
        return 0
    home = tempfile.mkdtemp(prefix="warren-test-")
    try:
        os.chmod(home, 0o755)
        directory(f"{home}/user", USER, 0o700)
        for name in PROGRAMS:
            shutil.copy(os.path.join(BUILD, name), home)
        return run_tests()
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    sys.exit(run())
