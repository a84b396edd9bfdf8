# SPDX-License-Identifier: Apache-2.0
"""egress_world.py - warren-egress between two network namespaces that a test creates

The test itself enters a namespace without interfaces, in which it assigns public addresses to lo. This namespace is
the outside: servers listen there, and warren-egress runs there. Each sandbox is another namespace, which
egress_capture.c creates.
"""
import atexit
import contextlib
import ctypes
import functools
import json
import os
import queue
import resource
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time

from checks import BUILD, ROOT, Skip, needs_root, run_tests, tests

CLONE_NEWNET = 0x40000000
VERSION = 3
ADD, CHANGE, REMOVE, QUERY, REPLY, DENIED, USAGE = 1, 2, 3, 4, 64, 65, 66
HEADER = "=IIQ"
ERROR_SIZE = 512
SELF = "198.18.0.1"
NAMESERVER = "9.9.9.9"
NOBODY = 65534

libc = ctypes.CDLL(None, use_errno=True)


def unshare_net():
    if libc.unshare(CLONE_NEWNET) < 0:
        raise Skip(f"needs a network namespace: {os.strerror(ctypes.get_errno())}")


def enter_net(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        if libc.setns(fd, CLONE_NEWNET) < 0:
            raise OSError(ctypes.get_errno(), f"enter {path}")
    finally:
        os.close(fd)


def run(*argv, **kw):
    subprocess.run(argv, check=True, capture_output=True, **kw)


class Inside(threading.Thread):
    """A thread in a separate namespace; it creates sockets there for the others."""

    def __init__(self):
        super().__init__(daemon=True)
        self.calls, self.results = queue.Queue(), queue.Queue()
        self.start()
        self.call(self.capture)

    def run(self):
        while True:
            f, args = self.calls.get()
            if f is None:
                return
            try:
                self.results.put((f(*args), None))
            except Exception as e:  # pylint: disable=broad-except
                self.results.put((None, e))

    def call(self, f, *args):
        self.calls.put((f, args))
        result, why = self.results.get()
        if why:
            raise why
        return result

    def capture(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            self.holder = subprocess.Popen([os.path.join(BUILD, "test", "egress_capture")], stdin=subprocess.PIPE,
                                           preexec_fn=lambda: os.dup2(theirs.fileno(), 3, inheritable=True),
                                           pass_fds=(3,), close_fds=True)
            theirs.close()
            _, fds, _, _ = socket.recv_fds(ours, 1, 2)
        self.tcp, self.udp = (socket.socket(fileno=fd) for fd in fds)
        self.ns = f"/proc/{self.holder.pid}/ns/net"
        enter_net(self.ns)

    def socket(self, family=socket.AF_INET, kind=socket.SOCK_STREAM):
        s = self.call(socket.socket, family, kind)
        s.settimeout(20)
        return s

    def connect(self, host, port):
        s = self.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        s.connect((host, port))
        return s

    def refuses(self, host, port, what=b""):
        """Is the connection reset, at once or after the client has sent something?"""
        try:
            with self.connect(host, port) as s:
                return is_reset(s, what)
        except ConnectionResetError:
            return True

    def popen(self, *argv, **kw):
        return subprocess.Popen(argv, preexec_fn=lambda: enter_net(self.ns), **kw)

    def close(self):
        self.calls.put((None, None))
        self.join()
        self.tcp.close()
        self.udp.close()
        self.holder.stdin.close()
        self.holder.wait()


# ----------------------------------------------------------------------- servers outside


def read_all(s):
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := s.recv(65536):
            data += piece
    return data


def read_exactly(s, n):
    data = b""
    while len(data) < n and (piece := s.recv(n - len(data))):
        data += piece
    return data


def read_until(s, end):
    data = b""
    while end not in data:
        piece = s.recv(65536)
        if not piece:
            break
        data += piece
    return data


class Server:
    """Accepts connections, each in a thread that calls handle(socket); counts them."""

    def __init__(self, address, port, handle):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((address, port))
        self.listener.listen(4096)
        self.handle, self.n, self.received = handle, 0, b""
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                s, _ = self.listener.accept()
                self.n += 1
                threading.Thread(target=self.one, args=(s,), daemon=True).start()

    def one(self, s):
        with contextlib.suppress(OSError), s:
            self.handle(self, s)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def echo(server, s):
    """Echoes everything, and ends when its input ends."""
    while piece := s.recv(65536):
        server.received += piece
        s.sendall(piece)
    s.shutdown(socket.SHUT_WR)


def banner(server, s):
    """Sends first, then echoes its input."""
    s.sendall(b"220 ready\r\n")
    echo(server, s)


def http(server, s):
    """Answers each request with its head as the body; keeps the received data."""
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            piece = s.recv(65536)
            if not piece:
                return
            server.received += piece
            data += piece
        head, _, data = data.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        n = int(fields.get(b"content-length", 0))
        while len(data) < n:
            piece = s.recv(65536)
            server.received += piece
            data += piece
        body, data = head + b"\n" + data[:n], data[n:]
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
        if not head.startswith(b"HEAD"):
            s.sendall(body)
        if fields.get(b"connection") == b"close":
            return


class Dns:
    """A DNS server: {name: [addresses]}; a function can return another answer each time."""

    def __init__(self):
        self.names, self.asked = {}, []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((NAMESERVER, 53))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                data, peer = self.socket.recvfrom(2048)
                if not data:
                    return
                reply = self.answer(data)
                if reply:
                    self.socket.sendto(reply, peer)

    def answer(self, data):
        name, at = [], 12
        while data[at]:
            name.append(data[at + 1:at + 1 + data[at]].decode())
            at += 1 + data[at]
        kind = struct.unpack(">H", data[at + 1:at + 3])[0]
        name = ".".join(name).lower()
        self.asked.append(name)
        found = self.names.get(name)
        if found == "silent":
            return None
        found = found(kind) if callable(found) else found
        question, records = data[12:at + 5], b""
        family, n = {1: (socket.AF_INET, 0), 28: (socket.AF_INET6, 0)}.get(kind, (None, 0))
        for address in found or ():
            if family == (socket.AF_INET6 if ":" in address else socket.AF_INET):
                packed = socket.inet_pton(family, address)
                records += b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(packed)) + packed
                n += 1
        flags = 0x8180 | (3 if found is None else 0)
        return data[:2] + struct.pack(">HHHHH", flags, 1, n, 0, 0) + question + records

    def close(self):
        self.socket.sendto(b"", (NAMESERVER, 53))
        self.thread.join()
        self.socket.close()


# ------------------------------------------------------------------------- warren-egress


class Refused(Exception):
    pass


@functools.cache
def program():
    """A copy of warren-egress that an ordinary user can execute."""
    directory = tempfile.mkdtemp(prefix="warren-test-")
    atexit.register(shutil.rmtree, directory)
    os.chmod(directory, 0o755)
    return shutil.copy(os.path.join(BUILD, "warren-egress"), directory)


class Egress:
    """The program, which runs as @user with at most @files descriptors, and its protocol.

    Arguments name files of the test, which are root's.
    """

    def __init__(self, *args, user=None, files=None):
        if user is None:
            user = 0 if args else NOBODY
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(20)

        def become():
            os.dup2(theirs.fileno(), 3, inheritable=True)
            if files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
            if user:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)

        self.process = subprocess.Popen([program(), "--dns-servers", NAMESERVER, *args],
                                        preexec_fn=become, pass_fds=(3,), close_fds=True)
        theirs.close()
        self.cookie, self.denied, self.usage, self.reserved, self.lookups = 0, [], {}, {}, {}

    def event(self, data):
        kind = struct.unpack_from(HEADER, data)[1]
        if kind == DENIED:
            self.denied.append(json.loads(data[40:].rstrip(b"\0")))
        elif kind == USAGE:
            n = struct.unpack_from("=I", data, 16)[0]
            for i in range(n):
                row = data[24 + 72 * i:24 + 72 * (i + 1)]
                *usage, reserved, lookups, limited = struct.unpack("=QQQQQQQ", row[16:])
                self.usage[row[:12].decode()] = tuple(usage)
                self.reserved[row[:12].decode()] = reserved
                self.lookups[row[:12].decode()] = lookups, limited

    def wait_event(self, done):
        while not done():
            self.event(self.control.recv(65536))

    def read_events(self):
        """Everything that it has sent, after its end."""
        with contextlib.suppress(ConnectionError):
            while data := self.control.recv(65536):
                self.event(data)

    def request(self, kind, id_, fds=(), extra=b""):
        self.cookie += 1
        message = struct.pack(HEADER + "16s", VERSION, kind, self.cookie, id_.encode()) + extra
        socket.send_fds(self.control, [message], fds)
        while True:
            data, got, _, _ = socket.recv_fds(self.control, 65536, 1)
            if not data:
                raise EOFError("warren-egress has ended")
            head = struct.unpack_from(HEADER, data)
            if head[1] != REPLY:
                self.event(data)
                continue
            assert head[2] == self.cookie
            code = struct.unpack_from("=i", data, 16)[0]
            if code:
                raise Refused(data[20:16 + ERROR_SIZE].split(b"\0")[0].decode())
            size = struct.unpack_from("=I", data, 16 + ERROR_SIZE)[0]
            body = data[24 + ERROR_SIZE:]
            if got:
                with os.fdopen(got[0], "rb") as f:
                    body = f.read()
            assert len(body) == size
            return body

    @staticmethod
    def policy_fd(policy):
        fd = os.memfd_create("policy", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.write(fd, policy if isinstance(policy, bytes) else json.dumps(policy).encode())
        libc.fcntl(fd, 1033, 14)  # F_ADD_SEALS: shrink, grow, write
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def add(self, id_, policy, inside, usage=(0, 0, 0, 0), reserved=0, sockets=None):
        fd = self.policy_fd(policy)
        try:
            tcp, udp = sockets or (inside.tcp, inside.udp)
            self.request(ADD, id_, [fd, tcp.fileno(), udp.fileno()], struct.pack("=QQQQQQQ", *usage, reserved, 0, 0))
        finally:
            os.close(fd)

    def change(self, id_, policy):
        fd = self.policy_fd(policy)
        try:
            self.request(CHANGE, id_, [fd])
        finally:
            os.close(fd)

    def remove(self, id_):
        self.request(REMOVE, id_)

    def query(self, id_):
        return json.loads(self.request(QUERY, id_))

    def close(self):
        self.control.close()
        return self.process.wait(20)


# ------------------------------------------------------------------------ complete setup


PUBLIC = ["1.2.3.4", "1.2.3.5", "5.6.7.8", "2600::1", NAMESERVER]
ID = "0123456789bc"


class World:
    """One sandbox; the outside has PUBLIC addresses, names and servers."""

    def __init__(self, policy, args=(), files=None, **kw):
        self.dns, self.servers = Dns(), []
        self.dns_in = self.dns_out = 0  # bytes of the lookups that succeeded
        self.dns.names.update({"a.example": ["1.2.3.4"], "b.example": ["5.6.7.8"], "six.example": ["2600::1"]})
        self.inside = Inside()
        self.egress = Egress(*args, files=files)
        self.egress.add(ID, policy, self.inside, **kw)

    def serve(self, address, port, handle):
        self.servers.append(Server(address, port, handle))
        return self.servers[-1]

    def lookup(self, name, kind=1, server=SELF, raw=False):
        """Resolves a name by UDP; returns (rcode, addresses)."""
        s = self.inside.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM)
        with s:
            s.connect((server, 53))
            s.send(question(name, kind))
            data = s.recv(2048)
        answer = parse_answer(data)
        if answer[0] == 0:
            self.dns_out += len(question(name, kind))
            self.dns_in += len(data)
        return answer

    def address(self, name):
        code, found = self.lookup(name)
        assert code == 0 and found, f"{name} is answered with {code}, {found}"
        return found[0]

    def connect(self, name, port):
        return self.inside.connect(self.address(name), port)

    def refuses(self, name, port, what=b""):
        return self.inside.refuses(self.address(name), port, what)

    def close(self):
        status = self.egress.close()
        for server in self.servers:
            server.close()
        self.inside.close()
        self.dns.close()
        assert status == 0, f"warren-egress ended with {status}"


@contextlib.contextmanager
def world(*allow, deny=(), limits=None, secrets=None, **kw):
    policy = {"allow": list(allow), "deny": list(deny)}
    if secrets:
        policy["secrets"] = secrets
    if limits:
        policy["limits"] = limits
    w = World(policy, **kw)
    try:
        yield w
    finally:
        w.close()


def question(name, kind=1):
    labels = b"".join(bytes([len(p)]) + p for p in name.encode().split(b".")) + b"\0"
    return struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + struct.pack(">HH", kind, 1)


def parse_answer(data):
    flags, _, n = struct.unpack(">HHH", data[2:8])
    at = 12
    while data[at]:
        at += 1 + data[at]
    at += 5
    found = []
    for _ in range(n):
        at += 2
        kind, _, _, size = struct.unpack(">HHIH", data[at:at + 10])
        packed = data[at + 10:at + 10 + size]
        found.append(socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, packed))
        at += 10 + size
    return flags & 15, found


def enter_outside():
    """Leaves the machine's network: the addresses of the tests exist only here."""
    unshare_net()
    run("ip", "link", "set", "lo", "up")
    for address in PUBLIC + ["10.0.0.1", "169.254.169.254"]:
        bits = 128 if ":" in address else 32
        run("ip", "addr", "add", f"{address}/{bits}", "dev", "lo", *(["nodad"] if bits == 128 else []))


def run_outside():
    if ROOT:
        enter_outside()
    else:
        tests[:] = [needs_root(t) for t in tests]
    return run_tests()


def is_reset(s, what=b""):
    """Does the peer reset the connection without sending anything?"""
    try:
        if what:
            s.sendall(what)
        return s.recv(1) == b"never"
    except (ConnectionResetError, BrokenPipeError):
        return True


def make_certificate(directory, name):
    key, cert = os.path.join(directory, "key.pem"), os.path.join(directory, "cert.pem")
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-subj", f"/CN={name}",
        "-days", "2")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


def client_hello(name):
    """Returns the bytes that a TLS client sends first."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(into, out, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return out.read()


def until(condition, what, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.01)
