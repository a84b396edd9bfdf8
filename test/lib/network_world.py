# SPDX-License-Identifier: Apache-2.0
"""network_world.py - servers outside, and clients in sandboxes of a service, for tests of network policies"""
import http.server
import socket
import ssl
import subprocess
import threading

from checks import eq
from serve_world import until


class Server(threading.Thread):
    """Greets each connection, and then echoes its input."""

    def __init__(self, listen=("127.0.0.1", 0)):
        super().__init__(daemon=True)
        self.sock = socket.create_server(listen)
        self.port = self.sock.getsockname()[1]
        self.accepted = 0
        self.start()

    def run(self):
        while True:
            c, _ = self.sock.accept()
            self.accepted += 1
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        try:
            c.sendall(b"hello\n")
            while data := c.recv(65536):
                c.sendall(data)
        except OSError:
            pass
        c.close()


class TlsServer(threading.Thread):
    """An https server for a.test with a certificate of a test authority; it records a header of each request."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.keys = keys = []
        self.authority = f"{folder}/ca.pem"

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                keys.append(self.headers.get_all("X-Key"))
                self.send_response(200)
                self.send_header("Content-Length", "3")
                self.end_headers()
                self.wfile.write(b"ok\n")

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        openssl = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-x509", "-days", "2"]
        subprocess.run([*openssl, "-subj", "/CN=test authority", "-keyout", f"{folder}/ca.key", "-out", self.authority],
                       check=True, capture_output=True)
        subprocess.run([*openssl, "-subj", "/CN=a.test", "-addext", "subjectAltName=DNS:a.test", "-addext",
                        "basicConstraints=CA:FALSE", "-CA", self.authority, "-CAkey", f"{folder}/ca.key",
                        "-keyout", f"{folder}/a.key", "-out", f"{folder}/a.pem"], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{folder}/a.pem", f"{folder}/a.key")
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.port = self.http.socket.getsockname()[1]
        self.start()

    def run(self):
        self.http.serve_forever()


# Connects, and prints the greeting; then prints each line that is echoed, or how the connection ended.
CLIENT = """
import socket, sys
try:
    c = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=30)
    c.settimeout(None)
    f = c.makefile("rb")
    line = f.readline()
    print(line.decode().strip() or "closed", flush=True)
    for line in sys.stdin:
        c.sendall(line.encode())
        print(f.readline().decode().strip() or "closed", flush=True)
except socket.gaierror:
    print("unknown")
except OSError as e:
    print("refused" if isinstance(e, (ConnectionRefusedError, ConnectionResetError)) else e.strerror)
"""


def client(host, port):
    return ["python3", "-c", CLIENT, host, str(port)]


def reach(w, box, host, port):
    """Returns the output of a client in the sandbox."""
    return w.run(box, client(host, port))["stdout"].strip()


class Live:
    """A persistent connection from inside, or another program that answers lines."""

    def __init__(self, w, box, *argv):
        self.world, self.box = w, box
        self.id = w.exec(box, client(*argv) if len(argv) == 2 else list(argv), stdin=True)
        self.lines = 0
        eq(self.next(), "hello")

    def out(self):
        return self.world.raw(self.box, self.id, follow="false").decode().splitlines()

    def next(self):
        self.lines += 1
        return until(lambda: len(self.out()) >= self.lines, self.out) and self.out()[self.lines - 1]

    def say(self, text):
        self.world.ask("POST", f"/v1/sandboxes/{self.box}/execs/{self.id}/stdin", f"{text}\n".encode(),
                       headers={"Content-Type": "application/octet-stream"})
        return self.next()


# The servers of tests have no public addresses.
HERE = {"host": "127.0.0.0/8"}
EGRESS_USER = "daemon"  # an account that every machine has
CONFIG = """
backends:
  native: {{}}
network:
  permit: {{ allow: [{{ public: true }}, {{ host: 127.0.0.0/8 }}] }}
  dns_servers: '127.0.0.1:{dns}'
"""
