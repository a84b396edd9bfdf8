# SPDX-License-Identifier: Apache-2.0
"""loopback_dns.py - a DNS server for tests and measurements of network policies"""
import socket
import struct
import threading


class Dns(threading.Thread):
    """Answers every name that ends in .test with an address; other names do not exist."""

    def __init__(self, listen=("127.0.0.1", 0), address="127.0.0.1"):
        super().__init__(daemon=True)
        self.address = socket.inet_aton(address)
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(listen)
        self.port = self.sock.getsockname()[1]
        self.start()

    def run(self):
        while True:
            query, client = self.sock.recvfrom(4096)
            end = 12
            while query[end]:
                end += query[end] + 1
            kind = struct.unpack(">H", query[end + 1:end + 3])[0]
            known = query[12:end].endswith(b"\x04test")
            answer = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + self.address if known and kind == 1 else b""
            flags = 0x8180 if known else 0x8183
            self.sock.sendto(query[:2] + struct.pack(">HHHHH", flags, 1, bool(answer), 0, 0) + query[12:end + 5] + answer,
                             client)
