#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-egress-clients.py - unmodified programs reach what a policy allows, and fail at once otherwise"""
import os
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import Skip, eq, ok, scratch, test  # noqa: E402
import egress_world as ew  # noqa: E402
from egress_clients import ALLOW_A, Git, Site, inside, need, repository  # noqa: E402
from egress_world import SELF, run, world  # noqa: E402

USER = 65534  # user of the ssh server
TCP_A = {"host": "a.example", "protocols": ["tcp"]}


def curl(w, directory, *args):
    return inside(w, directory, "curl", "-sS", "--max-time", "30", *args)


def content_site(w, directory):
    """Serves the same file on the hosts a.example and b.example."""
    site = Site(directory, "a.example", "b.example")
    site.put("file", "content")
    site.serve(w)
    site.other = site.serve(w, "5.6.7.8")
    return site


# ----------------------------------------------------------------------------- HTTP


@test
def curl_reaches_allowed_hosts_and_gets_the_reason_for_denials():
    with scratch() as d, world(ALLOW_A, {"host": "b.example", "protocols": ["tls"]}) as w:
        cert = content_site(w, d).cert
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
def curl_reaches_the_same_hosts_through_proxies():
    with scratch() as d, world(ALLOW_A) as w:
        cert = content_site(w, d).cert
        for proxy in (f"http://{SELF}:3128", f"socks5h://{SELF}:1080", f"socks5://{SELF}:1080"):
            eq(curl(w, d, "-x", proxy, "http://a.example/file"), (0, b"content", ""), proxy)
            eq(curl(w, d, "-x", proxy, "--cacert", cert, "https://a.example/file"), (0, b"content", ""), proxy)
            ok(curl(w, d, "-x", proxy, "https://c.example/file")[0] != 0, f"another host by {proxy}")


def http2_server(w, directory, site):
    """A server for HTTP/2, outside; it answers with the version of the request."""
    need("node")
    script = os.path.join(directory, "server.js")
    with open(script, "w", encoding="ascii") as f:
        f.write("""
const fs = require('fs');
const s = require('http2').createSecureServer({ allowHTTP1: true, cert: fs.readFileSync(process.argv[2]),
                                                key: fs.readFileSync(process.argv[3]) });
s.on('request', (q, r) => { r.setHeader('Alt-Svc', 'h3=":443"'); r.end('version ' + q.httpVersion); });
s.listen(443, '1.2.3.4', () => console.log('ready'));
""")
    p = subprocess.Popen(["node", script, site.cert, site.key], stdout=subprocess.PIPE)
    eq(p.stdout.readline(), b"ready\n")
    return p


@test
def curl_uses_http2_and_falls_back_from_http3():
    with scratch() as d, world(ALLOW_A) as w:
        site = Site(d, "a.example")
        server = http2_server(w, d, site)
        try:
            url = ("--cacert", site.cert, "https://a.example/")
            eq(curl(w, d, "--http2", *url), (0, b"version 2.0", ""))
            eq(curl(w, d, "--http1.1", *url), (0, b"version 1.1", ""))
            # If curl does not support HTTP/3, it reads Alt-Svc and does not use it.
            features = subprocess.run(["curl", "--version"], capture_output=True, check=True).stdout
            http3 = ("--http3",) if b"HTTP3" in features else ("--alt-svc", os.path.join(d, "alt"))
            eq(curl(w, d, *http3, *url, *url[2:]), (0, b"version 2.0version 2.0", ""))
        finally:
            server.kill()
            server.wait()


@test
def datagrams_of_http3_are_rejected_at_once():
    with world(ALLOW_A) as w, w.inside.socket(kind=socket.SOCK_DGRAM) as s:
        s.connect((w.address("a.example"), 443))
        s.send(b"x" * 1200)
        try:
            s.recv(1)
            ok(False, "there is an answer")
        except ConnectionRefusedError:
            pass


@test
def wget_reaches_allowed_hosts():
    with scratch() as d, world(ALLOW_A) as w:
        site = content_site(w, d)
        for scheme in ("http", "https"):
            get = ("wget", "-q", "-O-", "--tries=1", "--timeout=30", f"--ca-certificate={site.cert}")
            eq(inside(w, d, *get, f"{scheme}://a.example/file"), (0, b"content", ""), scheme)
            ok(inside(w, d, *get, f"{scheme}://b.example/file")[0] not in (0, "timeout"), f"another host over {scheme}")
        eq([s.n for s in site.other], [0, 0], "connections to another host")


LIBRARIES = {
    "urllib": "import urllib.request as u; print(u.urlopen(url).read().decode())",
    "requests": "import requests; print(requests.get(url).text)",
    "aiohttp": """
import aiohttp, asyncio, ssl
async def get():
    async with aiohttp.ClientSession() as s, s.get(url, ssl=ssl.create_default_context()) as r:
        print(await r.text())
asyncio.run(get())""",
}


def python_with(name):
    """Returns an interpreter that has a library: this one, or the system's."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", f"import {name}"], capture_output=True, check=False).returncode == 0:
            return python
    raise Skip(f"needs the Python library {name}")


def library(name):
    def points():
        python = python_with(name)
        with scratch() as d, world(ALLOW_A) as w:
            site = content_site(w, d)
            for scheme in ("http", "https"):
                def get(host, scheme=scheme):
                    return inside(w, d, python, "-c", f"url = '{scheme}://{host}/file'\n{LIBRARIES[name]}",
                                  SSL_CERT_FILE=site.cert, REQUESTS_CA_BUNDLE=site.cert)
                code, out, err = get("a.example")
                eq((code, out), (0, b"content\n"), err)
                code, out, err = get("b.example")
                eq((code, out), (1, b""), f"another host over {scheme} ({err})")
            eq([s.n for s in site.other], [0, 0], "connections to another host")
    points.__name__ = f"the_python_library_{name}_reaches_allowed_hosts"
    test(points)


for _name in LIBRARIES:
    library(_name)


@test
def fetch_of_node_reaches_allowed_hosts():
    with scratch() as d, world(ALLOW_A) as w:
        need("node")
        site = content_site(w, d)

        def fetch(url):
            return inside(w, d, "node", "-e", f"fetch('{url}').then(r => r.text()).then(t => process.stdout.write(t))"
                          ".catch(e => process.exit(7))", NODE_EXTRA_CA_CERTS=site.cert)

        for scheme in ("http", "https"):
            code, out, err = fetch(f"{scheme}://a.example/file")
            eq((code, out), (0, b"content"), err)
            eq(fetch(f"{scheme}://b.example/file")[0], 7, f"another host over {scheme}")
        eq([s.n for s in site.other], [0, 0], "connections to another host")


JAVA = """
import java.net.*;
public class Get {
    public static void main(String[] args) throws Exception {
        System.out.print(new String(new URL(args[0]).openStream().readAllBytes()));
    }
}
"""


@test
def java_reaches_allowed_hosts():
    with scratch() as d, world(ALLOW_A) as w:
        need("java", "javac", "keytool")
        site = content_site(w, d)
        with open(os.path.join(d, "Get.java"), "w", encoding="ascii") as f:
            f.write(JAVA)
        run("javac", "-d", d, os.path.join(d, "Get.java"))
        store = os.path.join(d, "store")
        run("keytool", "-importcert", "-noprompt", "-alias", "site", "-file", site.cert, "-keystore", store, "-storepass", "secret")

        def get(url):
            return inside(w, d, "java", "-XX:TieredStopAtLevel=1", f"-Djavax.net.ssl.trustStore={store}",
                          "-Djavax.net.ssl.trustStorePassword=secret", "-cp", d, "Get", url)

        for scheme in ("http", "https"):
            code, out, err = get(f"{scheme}://a.example/file")
            eq((code, out), (0, b"content"), err)
            eq(get(f"{scheme}://b.example/file")[0], 1, f"another host over {scheme}")
        eq([s.n for s in site.other], [0, 0], "connections to another host")


# ------------------------------------------------------------------------------- git


def check_clone(w, directory, url, into, **env):
    code, _, err = inside(w, directory, "git", "clone", "-q", url, into, **env)
    eq(code, 0, f"the exit status of git clone {url} ({err})")
    with open(os.path.join(directory, into, "file"), encoding="ascii") as f:
        eq(f.read(), "tracked")


def check_push(w, directory, copy, **env):
    """Commits a file, and pushes it."""
    git = ("git", "-C", os.path.join(directory, copy), "-c", "user.name=t", "-c", "user.email=t@example.com")
    run(*git, "commit", "--allow-empty", "-qm", "second")
    code, _, err = inside(w, directory, *git, "push", "-q", "origin", "HEAD", **env)
    eq(code, 0, f"the exit status of git push ({err})")


@test
def git_clones_and_pushes_over_https():
    need("git")
    with scratch() as d, world(ALLOW_A) as w:
        site = Site(d, "a.example", "b.example")
        bare = repository(site.root)
        site.serve(w, handler=Git)
        other = site.serve(w, "5.6.7.8", handler=Git)
        trust = {"GIT_SSL_CAINFO": site.cert, "GIT_TERMINAL_PROMPT": "0"}
        for scheme in ("http", "https"):
            check_clone(w, d, f"{scheme}://a.example/repo.git", scheme, **trust)
            check_push(w, d, scheme, **trust)
            ok(inside(w, d, "git", "clone", "-q", f"{scheme}://b.example/repo.git", f"{scheme}-b", **trust)[0] not in (0, "timeout"),
               f"another host over {scheme}")
        eq([s.n for s in other], [0, 0], "connections to another host")
        log = subprocess.run(["git", "-C", bare, "log", "--format=%s"], capture_output=True, check=True).stdout
        eq(log.split(), [b"second"] * 2 + [b"first"])


@test
def git_clones_files_that_a_plain_web_server_has():
    need("git")
    with scratch() as d, world(ALLOW_A) as w:
        site = Site(d, "a.example")
        repository(site.root)
        site.serve(w)
        check_clone(w, d, "https://a.example/repo.git", "copy", GIT_SSL_CAINFO=site.cert)


@test
def a_policy_of_methods_allows_git_to_read_only():
    """Reading needs GET, and POST to one path."""
    need("git")
    allow = {"host": "a.example", "protocols": ["http"], "methods": ["GET"]}
    upload = {"host": "a.example", "protocols": ["http"], "methods": ["POST"], "paths": ["/repo.git/git-upload-pack"]}
    with scratch() as d, world(allow, upload) as w:
        site = Site(d, "a.example")
        repository(site.root)
        site.serve(w, handler=Git)
        check_clone(w, d, "http://a.example/repo.git", "copy")
        git = ("git", "-C", os.path.join(d, "copy"))
        run(*git, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--allow-empty", "-qm", "second")
        code, _, err = inside(w, d, *git, "push", "-q", "origin", "HEAD")
        ok(code not in (0, "timeout") and "403" in err, (code, err))


# ------------------------------------------------------------------------------- ssh


class Sshd:
    """An sshd of an ordinary user, with a process for each connection, as inetd starts it."""

    def __init__(self, directory):
        need("ssh", "ssh-keygen", "/usr/sbin/sshd")
        self.directory = directory
        for name in ("host", "user"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path(name))
        with open(self.path("host.pub"), encoding="ascii") as f:
            key = " ".join(f.read().split()[:2])
        self.write("known", "".join(f"{name} {key}\n" for name in ("a.example", "b.example")))
        self.write("passwd", f"root:x:0:0::/:/bin/sh\ngit:x:{USER}:{USER}::{directory}:/bin/sh\n")
        self.write("config", f"HostKey {self.path('host')}\nAuthorizedKeysFile {self.path('user.pub')}\nStrictModes no\n"
                             "UsePAM no\nPidFile none\nPasswordAuthentication no\nLogLevel ERROR\n")
        os.chmod(directory, 0o755)
        os.chown(self.path("host"), USER, USER)

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="ascii") as f:
            f.write(text)

    def handle(self, server, s):
        """The user exists only in a passwd file of the server's mount namespace."""
        p = subprocess.Popen(["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/passwd && exec "$@"', self.path("passwd"),
                              "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups",
                              "/usr/sbin/sshd", "-i", "-e", "-f", self.path("config")],
                             stdin=s, stdout=s, stderr=subprocess.PIPE)
        s.close()
        server.received += p.communicate()[1]

    def client(self):
        return ["ssh", "-F", "none", "-i", self.path("user"), "-o", f"UserKnownHostsFile={self.path('known')}",
                "-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30",
                "-o", "GlobalKnownHostsFile=/dev/null"]


@test
def ssh_and_git_over_ssh_reach_an_allowed_host():
    need("git")
    with scratch() as d, world({"host": "a.example", "ports": [22]}) as w:
        sshd = Sshd(d)
        bare = repository(d)
        run("chown", "-R", f"{USER}:{USER}", bare)
        server = w.serve("1.2.3.4", 22, sshd.handle)
        more = [w.serve("1.2.3.4", 2222, sshd.handle), w.serve("5.6.7.8", 22, sshd.handle)]
        code, out, err = inside(w, d, *sshd.client(), "git@a.example", "echo $SSH_CONNECTION")
        eq((code, out.split()[-2:]), (0, [b"1.2.3.4", b"22"]), f"{err} {server.received}")
        env = {"GIT_SSH_COMMAND": " ".join(sshd.client())}
        check_clone(w, d, f"ssh://git@a.example{bare}", "copy", **env)
        check_push(w, d, "copy", **env)
        for options, host in ((["-p", "2222"], "git@a.example"), ([], "git@b.example"), ([], "git@1.2.3.4")):
            eq(inside(w, d, *sshd.client(), *options, host, "true")[0], 255, f"ssh {options} {host}")
        ok(inside(w, d, "git", "clone", "-q", f"ssh://git@b.example{bare}", "other", **env)[0] not in (0, "timeout"), "another host")
        eq([s.n for s in more], [0, 0], "connections to what is not allowed")


@test
def ssh_needs_a_rule_for_tcp():
    with scratch() as d, world({"host": "a.example", "protocols": ["http", "https"]}) as w:
        sshd = Sshd(d)
        server = w.serve("1.2.3.4", 22, sshd.handle)
        eq((inside(w, d, *sshd.client(), "git@a.example", "true")[0], server.n), (255, 0))


# ----------------------------------------------------------------- other protocols


def postgres(server, s):
    """Implements enough of PostgreSQL for psql to run one query."""
    def message(kind, body):
        return kind + struct.pack(">I", len(body) + 4) + body

    def read(n):
        data = b""
        while len(data) < n:
            piece = s.recv(n - len(data))
            if not piece:
                raise OSError("the end")
            data += piece
        return data

    size, code = struct.unpack(">II", read(8))
    if code == 80877103:  # a request for TLS
        s.sendall(b"N")
        size, code = struct.unpack(">II", read(8))
    read(size - 8)
    ready = message(b"Z", b"I")
    s.sendall(message(b"R", struct.pack(">I", 0)) + ready)
    while True:
        kind, size = struct.unpack(">cI", read(5))
        server.received += read(size - 4)
        if kind != b"Q":
            return
        s.sendall(message(b"T", struct.pack(">H", 1) + b"x\0" + struct.pack(">IHIHIH", 0, 0, 25, 0xffff, 0xffffffff, 0)) +
                  message(b"D", struct.pack(">HI", 1, 2) + b"42") + message(b"C", b"SELECT 1\0") + ready)


@test
def psql_reaches_an_allowed_host():
    with scratch() as d, world(TCP_A) as w:
        w.serve("1.2.3.4", 5432, postgres)
        other = w.serve("5.6.7.8", 5432, postgres)

        def psql(host):
            return inside(w, d, "psql", "-h", host, "-U", "me", "-At", "-c", "select 42", "-w", PGCONNECT_TIMEOUT="30",
                          PGGSSENCMODE="disable")

        code, out, err = psql("a.example")
        eq((code, out), (0, b"42\n"), err)
        eq((psql("b.example")[0], other.n), (2, 0))


def smtp(server, s):
    """A server that sends first."""
    s.sendall(b"220 a.example ready\r\n")
    with s.makefile("rb") as f:
        for line in f:
            server.received += line
            s.sendall(b"221 bye\r\n" if line.startswith(b"quit") else b"250 fine\r\n")


def redis(server, s):
    with s.makefile("rb") as f:
        for line in f:
            server.received += line
            if line.strip() == b"PING":
                s.sendall(b"+PONG\r\n")


@test
def protocols_without_names_reach_an_allowed_host():
    script = """
import smtplib, socket, sys
host = sys.argv[1]
s = smtplib.SMTP(host, 25, timeout=30)
print(s.noop(), s.quit())
c = socket.create_connection((host, 6379), 30)
c.sendall(b"*1\\r\\n$4\\r\\nPING\\r\\n")
print(c.recv(100))
"""
    with scratch() as d, world(TCP_A) as w:
        w.serve("1.2.3.4", 25, smtp)
        w.serve("1.2.3.4", 6379, redis)
        others = w.serve("5.6.7.8", 25, smtp), w.serve("5.6.7.8", 6379, redis)
        code, out, err = inside(w, d, sys.executable, "-c", script, "a.example")
        eq((code, out), (0, b"(250, b'fine') (221, b'bye')\nb'+PONG\\r\\n'\n"), err)
        eq((inside(w, d, sys.executable, "-c", script, "b.example")[0], [s.n for s in others]), (1, [0, 0]))


if __name__ == "__main__":
    sys.exit(ew.run_outside())
