#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-registry-hostile.py - the registry client with hostile servers: manifests, blobs and retries

Prints TAP. Each server that misbehaves also serves the same image correctly, in the same test or the one before: that
is the control.
"""
import contextlib
import json
import os
import re
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from registry_harness import MIB, bad, eq, folder, good, main, noise, ok, pull, test  # pylint: disable=wrong-import-position
from registry_server import INDEX, MANIFEST, Evil, Image, sha256  # pylint: disable=wrong-import-position


# ------------------------------------------------------------------------- manifests

@test
def manifests_of_all_kinds_are_recognised():
    image = Image(b"layer")
    docker = "application/vnd.docker.distribution.manifest."
    with Evil(image) as server:
        good(image, f"{server.ref}@{sha256(image.manifest)}")
        ok({MANIFEST, INDEX, docker + "list.v2+json", docker + "v2+json"} <=
           set(server.seen[0].headers.get_all("Accept")), "Accept")
        for image.type in ("application/json", "text/plain; charset=utf-8", MANIFEST + "; x=y"):
            ok(good(image, server.ref).out.startswith(MANIFEST + " "), image.type)
        for image.type in (docker + "v1+prettyjws", docker + "v1+json"):
            bad("EOPNOTSUPP", "schema 1, which is not supported", server.ref)
        image.type = docker + "v2+json"
        bad("EBADMSG", "contradicts the type it was sent with", server.ref)
        image.type, whole = MANIFEST, image.manifest
        for body in (b'{"schemaVersion":1}', ):
            image.manifest = body
            bad("EOPNOTSUPP", "schema 1", server.ref)
        for body in (b"", b"x", b"<html>", b"[]", whole[:-1], whole + b"x", b"[" * 100000,
                     b'{"a":' * 50000, b'{"schemaVersion":2,"schemaVersion":2}', b"\xff\xfe", b"\0"):
            image.manifest = body
            bad("EPROTO", "not a JSON object", server.ref)
        image.type = "application/json"
        for body in (b'{"x":1}', b'{"mediaType":"%s"}' % (b"x" * 200), b'{"mediaType":"a\\u001bb"}'):
            image.manifest = body
            bad("EPROTO", "manifest", server.ref)
        image.type = MANIFEST
        image.manifest = whole[:-1] + b',"manifests":[]}'
        bad("EBADMSG", "contradicts the type it was sent with", server.ref)
        image.manifest = whole
        good(image, server.ref)


@test
def an_index_is_resolved_to_a_manifest():
    image = Image(b"layer")
    index = json.dumps({"schemaVersion": 2, "manifests": [
        {"digest": sha256(image.manifest), "size": len(image.manifest)}]}).encode()

    def behave(r, kind):
        if r.path.endswith("/manifests/latest"):
            r.answer(200, index, {"Content-Type": INDEX})
            return True

    with Evil(image, behave) as server:
        got = good(image, server.ref)
        eq(got.out.splitlines()[:2], [f"{INDEX} {sha256(index)}",
                                      f"{MANIFEST} {sha256(image.manifest)}"], "output")


@test
def a_manifest_with_the_wrong_digest_is_refused():
    image = Image(b"layer")
    wanted = sha256(b"another")

    def behave(r, kind):
        if kind == "manifests":
            r.answer(200, image.manifest, {"Content-Type": MANIFEST, "Docker-Content-Digest": wanted})
            return True

    with Evil(image, behave) as server:
        good(image, server.ref)
        bad("EBADMSG", f"has the digest {sha256(image.manifest)}$", f"{server.ref}@{wanted}")


@test
def an_endless_manifest_is_refused():
    def behave(r, kind):
        r.send_response(200)
        r.send_header("Content-Type", MANIFEST)
        r.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(1000):
                r.wfile.write(b" " * MIB)
        return True

    with Evil(Image(b"x"), behave) as server:
        got = bad("EFBIG", "larger than 4194304 bytes", server.ref)
        ok(got.seconds < 10, f"it took {got.seconds} s")
    image = Image(b"x")
    image.manifest += b" " * (4 * MIB - len(image.manifest))
    with Evil(image) as server:
        good(image, server.ref)


@test
def messages_of_servers_are_made_printable():
    said = ["?"]

    def behave(r, kind):
        r.error(400, "X", said[0])
        return True

    with Evil(Image(b"x"), behave) as server:
        for said[0] in ("bad\x1b[2Jthing", "a\r\nb", "\u202e\x9b31m", "x" * 100000, ""):
            bad("EPROTO", r"refused to send the image \(400", server.ref)
        said[0] = "too\tbad"
        bad("EPROTO", r"\(400 toobad\)$", server.ref)
    for body in (b"\x1b[2J", b"<html>" * 100000, b"[" * 100000):
        with Evil(Image(b"x"), lambda r, kind: r.answer(403, body) or True) as server:
            bad("EACCES", r"refuses access \(403\)$", server.ref)


# ----------------------------------------------------------------------------- blobs

def of_layer(r, kind):
    return kind == "blobs" and r.path.endswith(r.server.image.layer)


@test
def many_blobs_are_downloaded_in_parallel():
    image = Image(*(noise(200000 + n, bytes([n])) for n in range(20)), b"")
    now, most, lock = [0], [0], threading.Lock()

    def behave(r, kind):
        if kind == "blobs":
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            time.sleep(0.02)
            r.blob(r.path.rsplit("/", 1)[-1])
            with lock:
                now[0] -= 1
            return True

    for n in (1, 4):
        most[0] = 0
        with Evil(image, behave) as server:
            good(image, server.ref, "--parallel", str(n))
            eq(most[0], n, "most at once")
            eq(len(server.requests("blobs")), 21, "requests")


@test
def blobs_of_the_wrong_size_are_refused():
    data = noise(100000)
    with Evil(Image(data)) as server:
        good(server.image, server.ref)
    for size in (99999, 100001, 1, 1 << 62):
        with Evil(Image(data, size=size)) as server:
            got = bad("EBADMSG", f"has 100000 bytes, but the manifest says {size}$", server.ref)
            eq(got.file(server.image.layer), b"", "what is left")
            ok(len(server.requests("blobs")) <= 2, "it was retried")


@test
def an_endless_blob_is_refused():
    sent = [0]

    def behave(r, kind):
        if not of_layer(r, kind):
            return False
        r.send_response(200)
        r.send_header("Connection", "close")
        r.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(2000):
                r.wfile.write(b"x" * MIB)
                sent[0] += 1
        r.close_connection = True
        return True

    with Evil(Image(noise(100000)), behave) as server:
        bad("EBADMSG", "is larger than the 100000 bytes stated in the manifest", server.ref)
        ok(sent[0] < 100, f"{sent[0]} MiB were taken")
        eq(len([r for r in server.requests("blobs") if of_layer(r, "blobs")]), 1, "tries")


@test
def blobs_with_the_wrong_digest_are_refused():
    image, lies = Image(noise(100000)), [0]

    def behave(r, kind):
        if of_layer(r, kind) and lies[0] > 0:
            lies[0] -= 1
            r.answer(200, noise(100000, b"y"))
            return True

    for n in (0, 1):
        lies[0] = n
        with Evil(image, behave) as server:
            good(image, server.ref)
            eq(len(server.requests("blobs")), 2 + n, "requests")
    lies[0] = 100
    with Evil(image, behave) as server:
        got = bad("EBADMSG", f"blob {image.layer[:19]} that the registry sent has the digest "
                  f"{sha256(noise(100000, b'y'))}$", server.ref, "--parallel", "1")
        eq(lies[0], 98, "lies left")
        eq(got.file(image.layer), b"", "what is left")
        config = [d for d in image.blobs if d != image.layer][0]
        ok(f"{config} 37 of 37 verified" in got.out, got.out)


def dropping(at, times, length=True, ranges=True):
    """Closes the connection after @at bytes of an answer, @times times."""
    left = [times]

    def behave(r, kind):
        if not of_layer(r, kind):
            return False
        if not ranges:
            del r.headers["Range"]
        if left[0] == 0:
            r.blob(r.server.image.layer)
            return True
        left[0] -= 1
        data = r.server.image.blobs[r.server.image.layer]
        start = int((r.headers["Range"] or "bytes=0-")[6:-1])
        r.send_response(206 if start else 200)
        if start:
            r.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        if length:
            r.send_header("Content-Length", str(len(data) - start))
        else:
            r.send_header("Connection", "close")
        r.end_headers()
        r.wfile.write(data[start:start + at])
        r.drop()
        return True

    return behave


@test
def broken_downloads_are_resumed():
    image = Image(noise(5 * MIB))
    for length in (True, False):
        with Evil(image, dropping(MIB // 2, 3, length)) as server:
            good(image, server.ref)
            eq(server.ranges(), [f"bytes={n * MIB // 2}-" for n in (1, 2, 3)], "ranges")
    # A download is continued as long as it makes progress, and abandoned after that.
    image = Image(noise(12 * MIB))
    with Evil(image, dropping(MIB + 1000, 10)) as server:
        good(image, server.ref)
        eq(len(server.ranges()), 10, "ranges")
    with Evil(image, dropping(1000, 100)) as server:
        got = bad("EPIPE", r"aborted its answer: .*\(tried 6 times\)$", server.ref)
        eq(got.file(image.layer), image.blobs[image.layer][:6000], "what is left")
        eq(len(server.ranges()), 5, "ranges")


@test
def downloads_work_with_a_server_without_ranges():
    image = Image(noise(2 * MIB))
    with Evil(image, dropping(MIB // 2, 2, ranges=False)) as server:
        good(image, server.ref)
        eq(server.ranges(), [], "ranges that it saw")
        eq(len([r for r in server.requests("blobs") if of_layer(r, "blobs")]), 3, "tries")

    def elsewhere(r, kind):  # answers with another range than requested
        if of_layer(r, kind) and r.headers["Range"]:
            r.answer(206, b"x" * 10, {"Content-Range": f"bytes 7-16/{2 * MIB}"})
            return True
        return of_layer(r, kind) and once(r, kind)

    once = dropping(MIB // 2, 1)
    with Evil(image, elsewhere) as server:
        good(image, server.ref)
        eq(len(server.ranges()), 1, "ranges")


@test
def files_of_an_earlier_attempt_are_reused_or_replaced():
    image = Image(noise(3 * MIB))
    data = image.blobs[image.layer]
    cases = ((data[:MIB], [f"bytes={MIB}-"], 2),		# continued
             (data, [], 1),					# complete: nothing is downloaded
             (data + b"x", [], 2),				# too long: it starts again
             (b"y" * MIB, [f"bytes={MIB}-"], 3),		# wrong digest: it starts again
             (b"y" * len(data), [], 2))				# complete, but wrong: it starts again
    for there, ranges, requests in cases:
        into = folder()
        with open(os.path.join(into, image.layer[7:]), "wb") as f:
            f.write(there)
        with Evil(image) as server:
            good(image, server.ref, into=into)
            eq(server.ranges(), ranges, f"ranges for {len(there)} bytes")
            eq(len(server.requests("blobs")), requests, f"requests for {len(there)} bytes")


@test
def a_missing_blob_is_reported():
    def behave(r, kind):
        if of_layer(r, kind):
            r.error(404, "BLOB_UNKNOWN", "blob unknown to registry")
            return True

    with Evil(Image(b"layer"), behave) as server:
        bad("ENOENT", r"no such blob sha256:\w{12} \(404 blob unknown to registry\)$", server.ref)
        eq(len(server.requests("blobs")), 2, "requests")


# --------------------------------------------------------------------------- retries

def failing(status, times, kinds, headers=()):
    left = [times]

    def behave(r, kind):
        if kind in kinds and left[0] > 0:
            left[0] -= 1
            r.error(status, "UNAVAILABLE", "not now", headers)
            return True

    return behave


@test
def temporary_errors_are_retried():
    image = Image(noise(1000))
    for status in (500, 502, 503, 429, 408):
        for kind in ("manifests", "blobs"):
            with Evil(image, failing(status, 4, [kind])) as server:
                good(image, server.ref)
    with Evil(image, failing(503, 100, ["manifests"])) as server:
        bad("EIO", r"had an internal error \(503 not now\) \(tried 6 times\)$", server.ref)
        eq(len(server.seen), 6, "requests")
    with Evil(image, failing(429, 100, ["blobs"])) as server:
        bad("EBUSY", r"limits the rate of requests \(429 not now\) \(tried 6 times\)$", server.ref)
    for status in (400, 403, 404, 405, 410):
        with Evil(image, failing(status, 1, ["manifests"])) as server:
            pulled = pull(server.ref)
            eq((pulled.status, len(server.seen)), (1, 1), f"{status}: status and requests")


@test
def the_retry_delay_of_the_server_is_used():
    image = Image(noise(1000))
    with Evil(image, failing(429, 1, ["blobs"], {"Retry-After": "2"})) as server:
        got = good(image, server.ref)
        ok(2 <= got.seconds < 6, f"it took {got.seconds} s")
    with Evil(image, failing(429, 1, ["blobs"], {"Retry-After": "soon"})) as server:
        ok(good(image, server.ref).seconds < 2, "it waited")
    with Evil(image, failing(503, 3, ["manifests"])) as server:
        got = good(image, server.ref, backoff=200)  # 200 + 400 + 800 ms, plus or minus half
        ok(0.7 <= got.seconds < 5, f"it took {got.seconds} s")


@test
def a_download_that_is_too_slow_is_aborted():
    image, drips = Image(noise(100000)), [0]

    def behave(r, kind):
        if not of_layer(r, kind) or drips[0] == 0:
            return False
        drips[0] -= 1
        r.send_response(200)
        r.send_header("Content-Length", "100000")
        r.end_headers()
        with contextlib.suppress(OSError):
            for n in range(200):
                r.wfile.write(image.blobs[image.layer][n:n + 1])
                time.sleep(0.1)
        r.close_connection = True
        return True

    drips[0] = 1
    with Evil(image, behave) as server:
        good(image, server.ref, "--stall", "1")
        eq(len(server.ranges()), 1, "ranges")
    drips[0] = 100
    with Evil(image, behave) as server:
        bad("ETIMEDOUT", "is too slow, or does not answer", server.ref, "--stall", "1")
        eq(100 - drips[0], 6, "tries")


@test
def a_request_to_a_silent_server_is_retried():
    image, quiet = Image(noise(1000)), [1]

    def behave(r, kind):
        if kind == "manifests" and quiet[0] > 0:
            quiet[0] -= 1
            time.sleep(3)
            r.drop()
            return True

    with Evil(image, behave) as server:
        good(image, server.ref, "--stall", "1")


@test
def a_download_can_be_cancelled():
    image = Image(noise(3 * MIB))
    with Evil(image) as server:
        ok(int(re.search(r"called (\d+) times", good(image, server.ref).out)[1]) > 0, "no progress")
        bad("ECANCELED", ": cancelled$", server.ref, "--cancel-after", "0")
    with Evil(image, dropping(MIB, 100)) as server:
        got = bad("ECANCELED", ": cancelled$", server.ref, "--cancel-after", str(MIB), backoff=5000)
        ok(got.seconds < 2, f"it took {got.seconds} s")
        eq(len(got.file(image.layer)), MIB, "what is left for the next")


if __name__ == "__main__":
    sys.exit(main())
