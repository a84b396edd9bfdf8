# SPDX-License-Identifier: Apache-2.0
"""h2_raw.py - a client of HTTP/2 that sends any frames

It keeps no state of streams or windows, so it can break every rule. It understands of the answers what
tests need: frames, statuses and bodies. It asks the server not to use the dynamic table of HPACK, so
each status is an index of the static table or a literal.
"""
import collections
import select
import socket
import ssl
import struct

from net_harness import WAIT, Server, certificate, eq, ok

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
# Error codes.
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0, 1, 2, 3
REFUSED, CANCEL, CALM = 7, 8, 11
# Settings.
TABLE_SIZE, INITIAL_WINDOW = 1, 4
STATUSES = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}  # of the static table
DIGITS = {"00000": "0", "00001": "1", "00010": "2", **{f"{25 + i:06b}": str(3 + i) for i in range(7)}}

Frame = collections.namedtuple("Frame", "type flags stream payload")


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def integer(value, bits):
    """An integer of HPACK, whose first byte has @bits bits for it."""
    limit = (1 << bits) - 1
    if value < limit:
        return bytes([value])
    out, value = [limit], value - limit
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes(out + [value])


def field(name, value):
    """A literal field that is not indexed."""
    name, value = (x.encode("latin1") if isinstance(x, str) else x for x in (name, value))
    return b"\0" + integer(len(name), 7) + name + integer(len(value), 7) + value


def block(fields):
    return b"".join(field(*f) for f in fields)


def get(path, method="GET", **pseudo):
    return [(":method", method), (":scheme", "https"), (":path", path), (":authority", pseudo.get("host", "test"))]


def status_of(payload):
    """The status is the first field of a response."""
    while payload[0] & 0xe0 == 0x20:  # a new size of the dynamic table
        payload = payload[1:]
    if payload[0] & 0x80:
        return STATUSES[payload[0] & 0x7f]
    ok(payload[0] & 0x3f in (8, 0) or payload[0] & 0x0f == 8, f"a literal status: {payload[:8]!r}")
    length, value = payload[1] & 0x7f, payload[2:]
    if not payload[1] & 0x80:
        return int(value[:length])
    bits, text = "".join(f"{b:08b}" for b in value[:length]), ""
    while len(text) < 3:
        size = 5 if bits[:5] in DIGITS else 6
        text += DIGITS[bits[:size]]
        bits = bits[size:]
    return int(text)


class Raw:
    """A connection. Everything that was received for a stream is in .streams."""

    def __init__(self, server, cert, *, settings=(), greet=True):
        context = ssl.create_default_context(cafile=cert)
        context.set_alpn_protocols(["h2"])
        self.sock = context.wrap_socket(socket.create_connection(("127.0.0.1", server.tls), WAIT),
                                        server_hostname="127.0.0.1")
        eq(self.sock.selected_alpn_protocol(), "h2", "protocol")
        self.sock.settimeout(WAIT)
        self.buffer, self.next, self.goaway, self.frames = b"", 1, None, []
        self.status, self.body, self.reset = {}, collections.defaultdict(bytes), {}
        self.ended, self.windows, self.pongs = set(), collections.Counter(), 0
        if greet:
            pairs = [(TABLE_SIZE, 0), *settings]
            self.send(PREFACE + frame(SETTINGS, payload=b"".join(struct.pack(">HI", *p) for p in pairs)))
            self.until(lambda: any(f.type == SETTINGS and not f.flags & ACK for f in self.frames), "settings")
            self.send(frame(SETTINGS, ACK))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def request(self, fields, body=None, *, more=False):
        """Sends a request; @more: the body goes on. Returns its stream."""
        stream, self.next = self.next, self.next + 2
        self.send(frame(HEADERS, END_HEADERS | (0 if body is not None or more else END_STREAM), stream, block(fields)))
        if body is not None:
            self.send(frame(DATA, 0 if more else END_STREAM, stream, body))
        return stream

    def take(self):
        """Reads one frame; False: the connection has ended."""
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            try:
                data = self.sock.recv(1 << 18)
            except ConnectionError:
                data = b""
            if not data:
                return False
            self.buffer += data
        n = int.from_bytes(self.buffer[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
        f = Frame(kind, flags, stream, self.buffer[9:9 + n])
        self.buffer = self.buffer[9 + n:]
        self.note(f)
        return True

    def note(self, f):
        self.frames.append(f)
        if f.type == HEADERS:
            ok(f.flags & END_HEADERS, "a head in one frame")
            self.status[f.stream] = status_of(f.payload)
        elif f.type == DATA:
            ok(f.payload or f.flags & END_STREAM, "an empty DATA frame that is not the last")
            ok(f.stream not in self.ended, "DATA after the end")
            self.body[f.stream] += f.payload
        elif f.type == RST:
            self.reset[f.stream] = int.from_bytes(f.payload, "big")
        elif f.type == GOAWAY:
            self.goaway = int.from_bytes(f.payload[4:8], "big")
        elif f.type == WINDOW:
            self.windows[f.stream] += int.from_bytes(f.payload, "big")
        elif f.type == PING and f.flags & ACK:
            self.pongs += 1
        if f.type in (DATA, HEADERS) and f.flags & END_STREAM:
            self.ended.add(f.stream)

    def until(self, condition, what):
        while not condition():
            ok(self.take(), f"the connection ended: {what}; GOAWAY {self.goaway}, resets {self.reset}")

    def answer(self, stream):
        """The status and body of a complete response."""
        self.until(lambda: stream in self.ended or stream in self.reset, f"the answer on {stream}")
        ok(stream in self.ended, f"stream {stream} was reset: {self.reset.get(stream)}")
        return self.status[stream], self.body[stream]

    def ask(self, path, body=None, method=None, extra=()):
        return self.answer(self.request(get(path, method or ("GET" if body is None else "POST")) + list(extra), body))

    def open_window(self, stream, n):
        self.send(frame(WINDOW, 0, stream, struct.pack(">I", n)))

    def settle(self):
        """Waits until the server has processed every frame so far."""
        want = self.pongs + 1
        self.send(frame(PING, payload=b"12345678"))
        self.until(lambda: self.pongs >= want, "the answer to a PING")

    def closed(self):
        """Reads to the end. Returns the code of GOAWAY."""
        while self.take():
            pass
        return self.goaway

    def quiet(self):
        return not self.buffer and not self.sock.pending() and not select.select([self.sock], [], [], 0)[0]


class H2Server(Server):
    """The test server with a certificate."""

    def __init__(self, *options):
        self.cert, key = certificate("h2")
        super().__init__("--cert", self.cert, "--key", key, *options)

    def raw(self, **kw):
        return Raw(self, self.cert, **kw)
