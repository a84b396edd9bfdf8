# SPDX-License-Identifier: Apache-2.0
"""egress_clients.py - unmodified programs inside, and the servers outside that they expect"""
import http.server
import os
import shutil
import ssl
import subprocess

from checks import Skip
from egress_world import SELF, run

ALLOW_A = {"host": "a.example", "protocols": ["http", "https"]}


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Skip(f"needs {program}")


def inside(w, directory, *argv, timeout=120, **env):
    """Runs a program in the sandbox's network, with its resolver; returns (status, stdout, stderr)."""
    need(argv[0])
    conf = os.path.join(directory, "resolv.conf")
    with open(conf, "w", encoding="ascii") as f:
        f.write(f"nameserver {SELF}\n")
    p = w.inside.popen("unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"', conf, *argv,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=directory,
                       env={"PATH": os.environ["PATH"], "HOME": directory, "GIT_CONFIG_NOSYSTEM": "1", **env})
    try:
        out, err = p.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
        return "timeout", out, err.decode(errors="replace")
    return p.returncode, out, err.decode(errors="replace")


class Site:
    """The certificate of some names, and a directory whose files are served."""

    def __init__(self, directory, *names):
        self.root = os.path.join(directory, "site")
        self.cert, key = os.path.join(directory, "site.pem"), os.path.join(directory, "site.key")
        os.makedirs(self.root)
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", f"/CN={names[0]}", "-addext", "subjectAltName=" + ",".join(f"DNS:{n}" for n in names),
            "-keyout", key, "-out", self.cert)
        self.key = key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.cert, key)

    def put(self, path, content):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        return path

    def serve(self, w, address="1.2.3.4", plain=80, tls=443, handler=None):
        """Serves over HTTP and over TLS; returns both servers, which count their connections."""
        return (serve_files(w, self.root, address, plain, handler=handler),
                serve_files(w, self.root, address, tls, self.context, handler=handler))


class Files(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send_head(self):
        if os.path.isdir(self.translate_path(self.path)) and self.path.endswith("/"):
            self.path += "index.html"
        return super().send_head()


def serve_files(w, directory, address, port, context=None, handler=None):
    """Serves the files of a directory over HTTP or TLS."""
    class Quiet:  # the attributes of a server that a handler needs
        server_name, server_port = address, port

    def handle(_, s):
        if context:
            s = context.wrap_socket(s, server_side=True)
        (handler or Files)(s, (address, port), Quiet, directory=directory)
        s.close()

    return w.serve(address, port, handle)


class Git(Files):
    """Serves repositories with git's own program, as web servers do."""

    def answer(self):
        path, _, query = self.path.partition("?")
        n = self.headers.get("Content-Length")
        data = self.rfile.read(int(n)) if n else self.read_chunks()
        p = subprocess.run(["git", "-c", "safe.directory=*", "http-backend"], input=data, check=True, capture_output=True,
                           env={"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": self.directory, "GIT_HTTP_EXPORT_ALL": "1",
                                "REQUEST_METHOD": self.command, "PATH_INFO": path, "QUERY_STRING": query,
                                "CONTENT_TYPE": self.headers.get("Content-Type", ""), "REMOTE_USER": "t",
                                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "GIT_CONFIG_COUNT": "2",
                                "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
                                "GIT_CONFIG_KEY_1": "http.receivepack", "GIT_CONFIG_VALUE_1": "true"})
        head, _, body = p.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n"))
        status = int(fields.pop(b"Status", b"200").split()[0])
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.decode(), value.decode())
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def read_chunks(self):
        data = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while n := int(self.rfile.readline(), 16):
                data += self.rfile.read(n)
                self.rfile.readline()
            self.rfile.readline()
        return data

    do_GET = do_POST = answer


def repository(directory):
    """Creates a bare repository with one file; returns its path."""
    work, bare = os.path.join(directory, "work"), os.path.join(directory, "repo.git")
    run("git", "init", "-q", work)
    with open(os.path.join(work, "file"), "w", encoding="ascii") as f:
        f.write("tracked")
    run("git", "-C", work, "add", "file")
    run("git", "-C", work, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "first")
    run("git", "clone", "-q", "--bare", work, bare)
    run("git", "-C", bare, "update-server-info")
    return bare
