#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-egress-clients.py - unmodified programs reach what a policy allows"""
import functools
import http.server
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import Skip, eq, ok, scratch, test  # noqa: E402
import egress_world as ew  # noqa: E402
from egress_world import SELF, world  # noqa: E402

ALLOW_A = {"host": "a.example", "protocols": ["http", "https"]}


def inside(w, directory, *argv, **env):
    """Run a program in the sandbox's network, with its resolver."""
    if not shutil.which(argv[0]):
        raise Skip(f"needs {argv[0]}")
    conf = os.path.join(directory, "resolv.conf")
    with open(conf, "w", encoding="ascii") as f:
        f.write(f"nameserver {SELF}\n")
    p = w.inside.popen("unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"', conf, *argv,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=directory,
                       env={"PATH": os.environ["PATH"], "HOME": directory, "GIT_CONFIG_NOSYSTEM": "1", **env})
    out, err = p.communicate(timeout=60)
    return p.returncode, out, err.decode(errors="replace")


def curl(w, directory, *args):
    return inside(w, directory, "curl", "-sS", "--max-time", "30", *args)


class Files(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


def serve_files(w, directory, address, port, context=None):
    """Serves the files of a directory over HTTP or TLS."""
    class Quiet:  # the attributes of a server that a handler needs
        server_name, server_port = address, port

    def handle(_, s):
        if context:
            s = context.wrap_socket(s, server_side=True)
        Files(s, (address, port), Quiet, directory=directory)
        s.close()

    w.serve(address, port, handle)


@test
def curl_reaches_allowed_hosts_and_learns_why_not():
    with scratch() as d, world(ALLOW_A, {"host": "b.example", "protocols": ["tls"]}) as w:
        context = ew.make_certificate(d, "a.example")
        with open(os.path.join(d, "file"), "w", encoding="ascii") as f:
            f.write("content")
        serve_files(w, d, "1.2.3.4", 80)
        serve_files(w, d, "1.2.3.4", 443, context)
        cert = os.path.join(d, "cert.pem")
        eq(curl(w, d, "http://a.example/file"), (0, b"content", ""))
        eq(curl(w, d, "--cacert", cert, "https://a.example/file"), (0, b"content", ""))
        eq(curl(w, d, "-6", "--cacert", cert, "https://a.example/file"), (0, b"content", ""))
        eq(curl(w, d, "http://a.example/file", "http://a.example/file"), (0, b"contentcontent", ""))
        code, out, _ = curl(w, d, "http://b.example/file")
        eq((code, out), (0, b"warren: no rule allows b.example:80 (http) GET /file\n"))
        eq(curl(w, d, "https://c.example/")[0], 6, "the exit status for a name that is not allowed")
        eq(curl(w, d, "--connect-to", "c.example:443:a.example:443", "https://c.example/")[0], 35,
           "the exit status for another name in the handshake")


@test
def curl_reaches_the_same_by_proxies():
    with scratch() as d, world(ALLOW_A) as w:
        context = ew.make_certificate(d, "a.example")
        with open(os.path.join(d, "file"), "w", encoding="ascii") as f:
            f.write("content")
        serve_files(w, d, "1.2.3.4", 80)
        serve_files(w, d, "1.2.3.4", 443, context)
        cert = os.path.join(d, "cert.pem")
        for proxy in (f"http://{SELF}:3128", f"socks5h://{SELF}:1080", f"socks5://{SELF}:1080"):
            eq(curl(w, d, "-x", proxy, "http://a.example/file"), (0, b"content", ""), proxy)
            eq(curl(w, d, "-x", proxy, "--cacert", cert, "https://a.example/file"), (0, b"content", ""), proxy)
            ok(curl(w, d, "-x", proxy, "https://c.example/file")[0] != 0, f"another host by {proxy}")


@test
def git_clones_over_http():
    git = functools.partial(subprocess.run, check=True, capture_output=True)
    with scratch() as d, world(ALLOW_A) as w:
        if not shutil.which("git"):
            raise Skip("needs git")
        work, bare = os.path.join(d, "work"), os.path.join(d, "repo.git")
        as_user = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
        git(["git", "init", "-q", work])
        with open(os.path.join(work, "file"), "w", encoding="ascii") as f:
            f.write("tracked")
        git(["git", "-C", work, "add", "file"])
        git(["git", "-C", work, *as_user, "commit", "-qm", "first"])
        git(["git", "clone", "-q", "--bare", work, bare])
        git(["git", "-C", bare, "update-server-info"])
        serve_files(w, d, "1.2.3.4", 80)
        code, _, err = inside(w, d, "git", "clone", "-q", "http://a.example/repo.git", "copy")
        eq(code, 0, f"the exit status of git ({err})")
        with open(os.path.join(d, "copy", "file"), encoding="ascii") as f:
            eq(f.read(), "tracked")
        ok(inside(w, d, "git", "clone", "-q", "http://b.example/repo.git", "other")[0] != 0, "another host")


if __name__ == "__main__":
    sys.exit(ew.run_outside())
