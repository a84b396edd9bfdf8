# SPDX-License-Identifier: Apache-2.0
"""serve_socket.py - a minimal WebSocket client, for tests of the service"""
import base64
import json
import os
import socket
import struct
import urllib.parse

from checks import eq, ok

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
WAIT = 30


class Refused(Exception):
    """The handshake was refused, with this status and body."""

    def __init__(self, status, body):
        super().__init__(f"{status} {body!r}")
        self.status, self.body = status, body


def connect(where):
    if isinstance(where, str):
        s = socket.socket(socket.AF_UNIX)
    else:
        s = socket.socket()
    s.settimeout(WAIT)
    s.connect(where)
    return s


class Socket:
    """where: the path of a unix socket, or (address, port)."""

    def __init__(self, where, path, token=None, host="localhost", query=None, headers=()):
        self.sock, self.data = connect(where), b""
        if query:
            path += "?" + urllib.parse.urlencode(query)
        lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "Connection: Upgrade", "Upgrade: websocket",
                 "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)).decode(),
                 *headers]
        if token:
            lines.append(f"Authorization: Bearer {token}")
        self.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        while b"\r\n\r\n" not in self.data:
            self.more()
        head, self.data = self.data.split(b"\r\n\r\n", 1)
        status = int(head.split()[1])
        if status != 101:
            length = [int(h.split(b":")[1]) for h in head.split(b"\r\n") if h.lower().startswith(b"content-length:")]
            while length and len(self.data) < length[0]:
                self.more()
            self.sock.close()
            raise Refused(status, self.data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def more(self):
        piece = self.sock.recv(1 << 16)
        if not piece:
            raise EOFError(self.data)
        self.data += piece

    def take(self, n):
        while len(self.data) < n:
            self.more()
        piece, self.data = self.data[:n], self.data[n:]
        return piece

    def send(self, opcode, data=b""):
        n, mask = len(data), os.urandom(4)
        head = bytes([0x80 | opcode])
        if n < 126:
            head += bytes([0x80 | n])
        elif n < 65536:
            head += bytes([0x80 | 126]) + struct.pack(">H", n)
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", n)
        whole = int.from_bytes(data, "big") ^ int.from_bytes((mask * (n // 4 + 1))[:n], "big")
        self.sock.sendall(head + mask + whole.to_bytes(n, "big"))

    def say(self, **event):
        self.send(TEXT, json.dumps(event).encode())

    def read(self):
        """Returns the next message: opcode and bytes. Pings are answered."""
        while True:
            first, second = self.take(2)
            n = second & 0x7f
            ok(not second & 0x80, "a server's frame is masked")
            if n == 126:
                n = struct.unpack(">H", self.take(2))[0]
            elif n == 127:
                n = struct.unpack(">Q", self.take(8))[0]
            data = self.take(n)
            if first & 15 != PING:
                return first & 15, data
            self.send(PONG, data)

    def event(self):
        """Returns the next message, which must be JSON."""
        opcode, data = self.read()
        eq(opcode, TEXT, f"kind of message ({data[:200]!r})")
        return json.loads(data)

    def until(self, mark):
        """Returns the bytes of binary messages up to @mark, and the events that arrive before it."""
        seen, events = b"", []
        while mark not in seen:
            opcode, data = self.read()
            if opcode == BINARY:
                seen += data
            elif opcode == TEXT:
                events.append(json.loads(data))
            else:
                raise AssertionError(f"closed ({data!r}) before {mark!r}: {seen[-500:]!r}")
        return seen, events

    def close_code(self):
        """Returns the close code, after all other messages."""
        while True:
            opcode, data = self.read()
            if opcode == CLOSE:
                return struct.unpack(">H", data[:2])[0]
