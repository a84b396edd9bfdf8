#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-upload.py - the body of an upload becomes a file of a sandbox: received once and completely, without the data
after it

The event loop receives a body of known length into memory from which a worker of the sandbox writes. The data after
the body, which is another request with a token, must never be received there. A body that arrives in pieces of any
size, with pauses, plain or over TLS, must become the file.

Prints TAP.
"""
import contextlib
import hashlib
import os
import random
import re
import socket
import ssl
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import MIB, Skip, eq, free_port, noise, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import WAIT, World, until  # pylint: disable=wrong-import-position

SIZE = 64 * MIB

w = box = token = tls = None  # pylint: disable=invalid-name


def connect(how):
    if how == "unix":
        s = socket.socket(socket.AF_UNIX)
        s.connect(w.socket)
    else:
        s = socket.create_connection(("127.0.0.1", tls if how == "tls" else w.port))
    s.settimeout(WAIT)
    if how == "tls":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        s = context.wrap_socket(s)
    return contextlib.closing(s)


def head(method, path, how, verb="", length=None):
    return (f"{method} /v1/sandboxes/{box}/files{verb}?path={path} HTTP/1.1\r\nHost: localhost\r\n" +
            (f"Authorization: Bearer {token}\r\n" if how != "unix" else "") +
            (f"Content-Length: {length}\r\n" if length is not None else "") + "\r\n").encode()


def answer(s, rest=b""):
    """Returns the head, the body, and the data received after them. @rest is data that was received before."""
    data = rest
    while b"\r\n\r\n" not in data:
        more = s.recv(65536)
        ok(more, f"the connection ends: {data[:300]}")
        data += more
    top, _, data = data.partition(b"\r\n\r\n")
    want = int(re.search(rb"(?i)content-length: (\d+)", top)[1])
    while len(data) < want:
        more = s.recv(65536)
        ok(more, "the connection ends in an answer")
        data += more
    return top, data[:want], data[want:]


def expect(s, status, rest=b""):
    top, body, rest = answer(s, rest)
    ok(top.startswith(b"HTTP/1.1 %d" % status), f"{top} {body[:300]}")
    return body, rest


def digest(path):
    return w.run(box, f"sha256sum < {path}", wait_ms=60000)["stdout"].split()[0]


def written():
    """The number of bytes that the api has written with write(2) and similar calls, except to sockets."""
    with open(f"/proc/{w.api}/io", encoding="ascii") as f:
        return int(re.search(r"wchar: (\d+)", f.read())[1])


@test
def a_body_is_received_without_a_copy():
    """In an earlier version, a body was received, copied into another file, and copied from there, at half the speed."""
    data = noise(SIZE)
    for how in ("unix", "tcp", "tls"):
        before = written()
        with connect(how) as s:
            s.sendall(head("PUT", f"/{how}", how, length=SIZE))
            s.sendall(data)
            expect(s, 201)
        copied = written() - before
        ok(copied < SIZE // 8, f"{how}: {copied} of {SIZE} bytes were copied once more")
        eq(digest(f"/{how}"), hashlib.sha256(data).hexdigest(), f"the file, by {how}")
        w.run(box, f"rm /{how}")


@test
def the_test_detects_a_copy():
    """A control: a chunked body contains framing, and is copied."""
    data = noise(8 * MIB)
    before = written()
    with connect("unix") as s:
        s.sendall(head("PUT", "/chunked", "unix")[:-2] + b"Transfer-Encoding: chunked\r\n\r\n")
        for i in range(0, len(data), MIB):
            s.sendall(b"%x\r\n" % MIB + data[i:i + MIB] + b"\r\n")
        s.sendall(b"0\r\n\r\n")
        expect(s, 201)
    # Not everything is copied: pieces of up to 16 KiB are sent to the worker in a message, and their number depends
    # on the speed.
    copied = written() - before
    ok(copied >= len(data) // 2, f"of {len(data)} bytes, the control copies {copied}")
    eq(digest("/chunked"), hashlib.sha256(data).hexdigest(), "a chunked file")


@test
def a_body_may_arrive_in_pieces_of_any_size():
    """Pieces are small and large, sent at once and after pauses, to a new file and after another request."""
    rand = random.Random(7)
    for how in ("unix", "tcp", "tls"):
        exists = how != "unix"
        for length in (1, 16384, 16385, 262143, 262144, 262145, 524288, 5 * MIB + 3):
            data = noise(length)
            for method, verb, whole in (("PUT", "", data), ("POST", "/append", data + data)):
                with connect(how) as s:
                    s.sendall(head(method, "/pieces", how, verb, length))
                    sent = 0
                    while sent < length:
                        n = rand.choice((1, 1000, 16384, 40000, 262144, MIB))
                        s.sendall(data[sent:sent + n])
                        sent += n
                        if n == 1000:
                            time.sleep(0.002)
                    expect(s, 200 if method == "POST" or exists else 201)
                exists = True
                eq(digest("/pieces"), hashlib.sha256(whole).hexdigest(), f"{length} bytes by {how}, {method}")


def memory_of_api(mark):
    """Is @mark in memory that the api shares with workers?"""
    with open(f"/proc/{w.api}/maps", encoding="ascii") as maps, open(f"/proc/{w.api}/mem", "rb", 0) as mem:
        for line in maps:
            if "warren-write" not in line:
                continue
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            mem.seek(start)
            if mark in mem.read(end - start):
                return True
    return False


@test
def bytes_after_a_body_are_not_in_the_memory_of_the_body():
    """The head of the next request waits in the socket while the body is received."""
    mark = b"very-secret-%d" % os.getpid()
    data = bytes(3 * MIB) + mark.replace(b"secret", b"public")
    with connect("unix") as s:
        s.sendall(head("PUT", "/behind", "unix", length=len(data) + 1))
        s.sendall(data)
        # All except one byte: the memory exists and contains the body (a control); then the rest and the next request
        # in one write.
        until(lambda: memory_of_api(mark.replace(b"secret", b"public")), "the body is not in the memory")
        s.sendall(b"x" + head("GET", "/behind", "unix")[:-2] + b"X-Mark: " + mark + b"\r\n\r\n")
        for _ in range(20):
            ok(not memory_of_api(mark), "the next request is in memory that the sandbox can read")
        body, rest = expect(s, 201)
        body, rest = expect(s, 200, rest)
        ok(body == data + b"x", "the file is not what was sent")


@test
def an_aborted_upload_leaves_no_memory_or_descriptors():
    """No memory and no descriptors stay behind."""
    def held():
        fds = []
        for n in os.listdir(f"/proc/{w.api}/fd"):
            with contextlib.suppress(FileNotFoundError):  # the file was just closed
                fds.append(os.readlink(f"/proc/{w.api}/fd/{n}"))
        with open(f"/proc/{w.api}/maps", encoding="ascii") as f:
            return sum("warren-write" in x for x in fds) + f.read().count("warren-write")
    for n in (1, 100000, 3 * MIB):
        with connect("unix") as s:
            s.sendall(head("PUT", "/never", "unix", length=SIZE))
            s.sendall(noise(n))
            if n == 3 * MIB:
                until(held, "the control holds nothing")
    until(lambda: held() == 0, "memory or descriptors are left")
    eq(w.ask("GET", f"/v1/sandboxes/{box}/files/stat", query={"path": "/never"}).status, 404, "status of what never was")


def main():
    global w, box, token, tls  # pylint: disable=global-statement
    try:
        with World(tcp=True, start=False) as w:
            tls, cert = free_port(), f"{w.dir}/cert.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                            "-subj", "/CN=localhost", "-keyout", f"{cert}.key", "-out", cert], check=True, capture_output=True)
            for path in (cert, f"{cert}.key"):
                os.chmod(path, 0o600)
            w.options += ["--listen", f"tls:127.0.0.1:{tls}", "--tls-cert", cert, "--tls-key", f"{cert}.key"]
            w.start()
            token = w.token("admin")
            box = w.create(limits={"memory": "1g", "disk": "512m"})
            return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
