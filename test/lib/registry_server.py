# SPDX-License-Identifier: Apache-2.0
"""registry_server.py - registries for the tests of the client: Debian's real one, and one that misbehaves as a test
requests. Both listen only on loopback, and are stopped by the process that started them."""
import base64
import hashlib
import http.server
import json
import os
import socket
import ssl
import subprocess
import threading
import time

from checks import free_port

OCI = "application/vnd.oci.image."
MANIFEST = OCI + "manifest.v1+json"
INDEX = OCI + "index.v1+json"


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class Image:
    """A manifest, its blobs, and both as a registry serves them."""

    def __init__(self, *layers, size=None, **more):
        config = b'{"architecture":"amd64","os":"linux"}'
        self.blobs = {sha256(b): b for b in (config, *layers)}
        describe = lambda b: {"mediaType": OCI + "layer.v1.tar", "digest": sha256(b),
                              "size": len(b) if size is None or b is config else size}
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": describe(config),
            "layers": [describe(b) for b in layers], **more}).encode()
        self.type = MANIFEST
        self.layer = sha256(layers[-1]) if layers else None


class Seen:
    """A copy of a request: the handler continues with the next one of its connection."""

    def __init__(self, handler):
        self.command, self.path, self.headers = handler.command, handler.path, handler.headers
        self.server = handler.server


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle(self):
        # If a client uses TLS with a server without TLS, real servers notice it and close the connection.
        try:
            if not self.server.tls and self.connection.recv(1, socket.MSG_PEEK) == b"\x16":
                self.server.hellos += 1
                return
            super().handle()
        except OSError:
            pass

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", headers=(), length=None):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def error(self, status, code, message, headers=()):
        body = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
        self.answer(status, body, {"Content-Type": "application/json", **dict(headers)})

    def drop(self):
        """Closes the connection immediately."""
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def blob(self, digest):
        """Answers like a correct registry, with ranges."""
        data, status, headers = self.server.image.blobs[digest], 200, {}
        want = self.headers.get("Range")
        if want:
            start = int(want.removeprefix("bytes=").removesuffix("-"))
            if start >= len(data):
                return self.answer(416)
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            data, status = data[start:], 206
        self.answer(status, data, headers)

    def do_POST(self):
        self.form = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        self.do_GET()

    def do_GET(self):
        server = self.server
        server.seen.append(Seen(self))
        kind = self.path.split("/")[-2] if self.path.startswith("/v2/") else ""
        if server.behave and server.behave(self, kind):
            return
        last = self.path.rsplit("/", 1)[-1]
        if kind == "manifests" and last in ("latest", sha256(server.image.manifest)):
            self.answer(200, server.image.manifest, {"Content-Type": server.image.type})
        elif kind == "blobs" and last in server.image.blobs:
            self.blob(last)
        else:
            self.error(404, "MANIFEST_UNKNOWN", "manifest unknown")


class Evil(http.server.ThreadingHTTPServer):
    """Serves image, unless behave(request, "manifests" | "blobs" | "") does something else and
    returns true. seen holds the requests."""
    daemon_threads = True
    block_on_close = False

    def __init__(self, image, behave=None, cert=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.image, self.behave, self.tls = image, behave, cert is not None
        self.seen, self.hellos = [], 0
        if cert:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*cert)
            self.socket = context.wrap_socket(self.socket, server_side=True,
                                              do_handshake_on_connect=False)
        self.port = self.server_address[1]
        self.host = f"127.0.0.1:{self.port}"
        self.ref = f"{self.host}/a/b"
        self.url = f"{'https' if cert else 'http'}://{self.host}"
        self.thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)

    def handle_error(self, request, client_address):
        pass

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.shutdown()
        self.server_close()

    def requests(self, kind):
        return [r for r in self.seen if f"/{kind}/" in r.path]

    def ranges(self):
        return [r.headers["Range"] for r in self.requests("blobs") if r.headers["Range"]]


class Registry:
    """Debian's docker-registry over a folder."""

    def __init__(self, folder, storage, auth=None, cert=None):
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        config = {
            "version": 0.1, "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": storage}},
            "http": {"addr": self.host, "secret": "of no importance"},
        }
        if auth:
            config["auth"] = auth
        if cert:
            config["http"]["tls"] = {"certificate": cert[0], "key": cert[1]}
        self.file = os.path.join(folder, f"registry-{self.port}.yml")
        with open(self.file, "w") as f:
            json.dump(config, f)  # JSON is also YAML

    def __enter__(self):
        self.log = open(self.file + ".log", "wb")
        self.process = subprocess.Popen(["docker-registry", "serve", self.file],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        for _ in range(200):
            if self.process.poll() is not None:
                break
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.05)
        self.__exit__()
        raise RuntimeError("docker-registry does not start: " + open(self.file + ".log").read())

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()
        self.log.close()


def make_certificate(folder, name, signer=None):
    """Creates a key and a certificate for 127.0.0.1, signed by the signer or by itself."""
    path = os.path.join(folder, name)
    extension = "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:registry.test"
    if not signer:
        extension = "basicConstraints=critical,CA:TRUE"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
               f"/CN={name}", "-keyout", path + ".key", "-out", path + ".pem", "-addext", extension]
    if signer:
        subprocess.run(["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
                        "-keyout", path + ".key", "-out", path + ".csr"], check=True,
                       capture_output=True)
        with open(path + ".ext", "w") as f:
            f.write(extension + "\n")
        command = ["openssl", "x509", "-req", "-in", path + ".csr", "-CA", signer[0], "-CAkey",
                   signer[1], "-CAcreateserial", "-days", "2", "-extfile", path + ".ext", "-out",
                   path + ".pem"]
    subprocess.run(command, check=True, capture_output=True)
    return path + ".pem", path + ".key"


def make_token(cert, service, access, seconds=60):
    """Returns the token that docker-registry's "token" authentication requires: a JWT signed with a key that it
    trusts."""
    text = lambda d: base64.urlsafe_b64encode(d).rstrip(b"=")
    der = "".join(open(cert[0]).read().split("-----")[2].split())
    now = int(time.time())
    head = {"typ": "JWT", "alg": "RS256", "x5c": [der]}
    claims = {"iss": "test", "sub": "me", "aud": service, "exp": now + seconds, "nbf": now - 10,
              "iat": now, "jti": str(now), "access": access}
    signed = text(json.dumps(head).encode()) + b"." + text(json.dumps(claims).encode())
    signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", cert[1]], input=signed,
                               check=True, capture_output=True).stdout
    return (signed + b"." + text(signature)).decode()
