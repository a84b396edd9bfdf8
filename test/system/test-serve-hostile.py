#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-serve-hostile.py - hostile requests, floods, and a machine without free resources

Prints TAP. After each attack, the service answers, and its state is unchanged.
"""
import contextlib
import json
import os
import resource
import select
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import MIB, Skip, eq, free_port, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import WAIT, World, check_error, rss, slurp, until  # pylint: disable=wrong-import-position

w = token = None  # pylint: disable=invalid-name


def raw(data, tcp=True, seconds=WAIT, wait_close=False):
    """Sends raw bytes; returns the data until the answer is complete, or the connection ends."""
    if tcp:
        s = socket.create_connection(("127.0.0.1", w.port), seconds)
    else:
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(seconds)
        s.connect(w.socket)
    with s:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            s.sendall(data)
        got = b""
        with contextlib.suppress(ConnectionResetError, socket.timeout):
            while True:
                piece = s.recv(65536)
                if not piece:
                    break
                got += piece
                head, mark, body = got.partition(b"\r\n\r\n")
                if mark and not wait_close:
                    size = [int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length:")]
                    if size and len(body) >= size[0]:
                        break
        return got


def status(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


def body(answer):
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def request(*lines, data=b"", auth=True, host=True):
    head = [lines[0]]
    if host:
        head.append(f"Host: 127.0.0.1:{w.port}")
    if auth:
        head.append(f"Authorization: Bearer {token}")
    return ("\r\n".join([*head, *lines[1:]]) + "\r\n\r\n").encode() + data


def check_grown(before, most, what="", pid=None):
    """Checks the memory of the api, or @pid. A sanitizer keeps some memory that was freed."""
    pid = pid or w.api
    now = rss(pid)
    ok(now - before < most or "asan" in slurp(f"/proc/{pid}/maps"), f"memory grew from {before} to {now}{what}")


def rows():
    return w.rows("SELECT count(*) FROM sandboxes")[0][0]


# ------------------------------------------------------------------------ HTTP


@test
def requests_that_are_not_http_are_refused():
    before = rows()
    good = b'{"labels":{"x":"y"}}'
    for what, data, want, code in (
            ("two lengths", request("POST /v1/sandboxes HTTP/1.1", "Content-Length: 5", "Content-Length: 20", data=good),
             400, "malformed_request"),
            ("length and chunks", request("POST /v1/sandboxes HTTP/1.1", "Content-Length: 20", "Transfer-Encoding: chunked",
                                          data=good), 400, "malformed_request"),
            ("a signed length", request("POST /v1/sandboxes HTTP/1.1", "Content-Length: +20", data=good), 400,
             "malformed_request"),
            ("a huge length", request("POST /v1/sandboxes HTTP/1.1", "Content-Length: 99999999999999999999"), 400,
             "malformed_request"),
            ("two hosts", request("POST /v1/sandboxes HTTP/1.1", "Host: x", "Content-Length: 20", data=good), 400,
             "malformed_request"),
            ("a bad chunk", request("POST /v1/sandboxes HTTP/1.1", "Transfer-Encoding: chunked", data=b"zz\r\n"), 400,
             "malformed_request"),
            ("no host", request("GET /version HTTP/1.1", host=False), 400, "malformed_request"),
            ("a folded header", request("GET /version HTTP/1.1", "X: a", " b"), 400, "malformed_request"),
            ("a space before the colon", request("GET /version HTTP/1.1", "X : a"), 400, "malformed_request"),
            ("a large head", request("GET /version HTTP/1.1", "X: " + "a" * 70000), 431, "headers_too_large"),
            ("many headers", request("GET /version HTTP/1.1", *[f"X{i}: a" for i in range(5000)]), 431, "headers_too_large"),
            ("another version", request("GET /version HTTP/3.0"), 505, "version_not_supported"),
            ("an expectation", request("POST /v1/sandboxes HTTP/1.1", "Expect: miracles", "Content-Length: 2"), 417,
             "expectation_failed"),
            ("a large body", request("POST /v1/sandboxes HTTP/1.1", "Content-Length: 100000000"), 413, "body_too_large")):
        got = raw(data)
        eq(status(got), want, f"status of {what}: {got[:300]}")
        e = body(got)
        eq((sorted(e), e["code"]), (["code", "detail", "message", "request_id"], code), f"{what}: {e}")
        if code == "malformed_request" or want in (431, 505):
            until(lambda e=e: f"[{e['request_id']}]" in slurp(w.log_path), f"{what} is not in the log")
    for path in ("/v1/../v1/sandboxes", "/v1//sandboxes", "/v1/sandboxes/%2e%2e", "/v1/sandboxes/%00", "/v1/sandboxes/..",
                 "/v1/sandboxes/" + "x" * 5000, "/V1/sandboxes"):
        got = raw(request(f"DELETE {path} HTTP/1.1"))
        ok(400 <= status(got) < 500, f"{path[:60]}: {got[:200]}")
    eq(rows(), before, "sandboxes")
    eq(status(raw(request("GET /version HTTP/1.1"))), 200, "status of a good one")


@test
def slow_headers_and_bodies_end_the_connection():
    with World("--request-header-timeout", "1s", "--request-body-timeout", "1s", tcp=True) as s:
        global w, token  # pylint: disable=global-statement
        saved, w, token = (w, token), s, s.token("admin")
        try:
            ends = []

            def slow(data, piece):
                with socket.create_connection(("127.0.0.1", s.port), WAIT) as c:
                    c.sendall(data)
                    end = time.monotonic() + 10
                    while time.monotonic() < end:
                        if select.select([c], [], [], 0.2)[0]:
                            ends.append(status(c.recv(65536)))
                            return
                        with contextlib.suppress(OSError):
                            c.sendall(piece)
                    ends.append(None)
            threads = [threading.Thread(target=slow, args=a) for a in
                       [(b"GET /version HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X: y\r\n")] * 30 +
                       [(request("POST /v1/sandboxes HTTP/1.1", "Content-Length: 500", data=b"{"), b"")] * 10]
            for t in threads:
                t.start()
            eq(s.run(s.create(), "echo lively")["stdout"], "lively\n", "a command meanwhile")
            for t in threads:
                t.join()
            eq(set(ends), {408}, "how they end")
        finally:
            w, token = saved


@test
def hostile_json_is_refused():
    for text, want in (("[" * 100000, 400), ('{"labels":' * 100000, 400), ('{"a":' + "[" * 500000, 400),
                       ('{"name":"' + "x" * 900000 + '"}', 400), ('{"ttl_ms":1e999}', 400), ('{"ttl_ms":' + "9" * 5000 + "}", 400),
                       ('{"env":{' + ",".join(f'"E{i}":"x"' for i in range(20000)) + "}}", 400), ("\ufeff{}", 400)):
        r = w.ask("POST", "/v1/sandboxes", text.encode(), token=token, tcp=True,
                  headers={"Content-Type": "application/json"})
        check_error(r, want)
    eq(w.ask("GET", "/version").status, 200, "status")


# --------------------------------------------------------------------- browsers


@test
def requests_from_foreign_pages_are_refused():
    here = f"127.0.0.1:{w.port}"
    for lines, want in (((f"Host: {here}",), 200), (("Host: evil.example",), 403), (("Host: evil.example:80",), 403),
                        (("Host: 127.0.0.1.evil.example",), 403), ((f"Host: {here}", f"Origin: http://{here}"), 200),
                        ((f"Host: {here}", "Origin: https://evil.example"), 403), ((f"Host: {here}", "Origin: null"), 403),
                        ((f"Host: {here}", f"Origin: http://evil.example:{w.port}"), 403), (("Host: localhost",), 200),
                        (("Host: [::1]:80",), 200), (("Host: [evil.example",), 400), (("Host: [::1]evil.example",), 400)):
        got = raw(request("GET /v1/sandboxes HTTP/1.1", *lines, host=False))
        eq(status(got), want, f"status with {lines}: {got[:300]}")
        ok(b"access-control-allow" not in got.lower(), f"CORS: {got[:300]}")
    got = raw(request("OPTIONS /v1/sandboxes HTTP/1.1", "Origin: https://evil.example",
                      "Access-Control-Request-Method: POST"))
    ok(status(got) >= 400 and b"access-control-allow" not in got.lower(), got[:300])
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        got = raw(request("POST /v1/sandboxes HTTP/1.1", f"Content-Type: {kind}", "Content-Length: 2", data=b"{}"))
        eq(status(got), 415, f"status with {kind}")


@test
def without_a_token_nothing_is_revealed():
    for path in ("/v1/sandboxes", "/v1/events", "/metrics", "/v1/tokens", "/v1/backends"):
        got = raw(request(f"GET {path} HTTP/1.1", auth=False))
        eq((status(got), body(got)["code"]), (401, "unauthorized"), f"answer to {path}")
    for path in ("/healthz", "/version"):
        eq(status(raw(request(f"GET {path} HTTP/1.1", auth=False))), 200, f"status of {path}")
    # Another user of this machine has no access through the unix socket either. The result comes through a pipe,
    # because reap_orphans() may already have reaped the child.
    said, say = os.pipe()
    if os.fork() == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            socket.socket(socket.AF_UNIX).connect(w.socket)
            os.write(say, b"connected")
        except PermissionError:
            os.write(say, b"refused")
        os._exit(0)
    os.close(say)
    eq(os.read(said, 100), b"refused", "another user who connects")
    os.close(said)


@test
def a_public_listener_needs_a_token():
    with World(start=False) as s:
        s.options += ["--listen", f"tcp:0.0.0.0:{free_port()}"]
        p = subprocess.run(s.command(), stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT, check=False)
        eq(p.returncode, 1, f"status: {p}")
        ok(b"token" in p.stderr, p.stderr)
        s.options = s.options[:-2]


# ----------------------------------------------------------------------- floods


@test
def a_flood_of_output_uses_little_memory():
    b = w.create()
    w.run(b, "true")
    with w.client() as reader, w.client() as stuck:
        e = w.exec(b, "yes")
        before = rss(w.api), rss(w.warden)
        r = reader.send("GET", f"/v1/sandboxes/{b}/execs/{e}/output")
        stuck.send("GET", f"/v1/sandboxes/{b}/execs/{e}/output?format=raw")
        end, lost, last = time.monotonic() + 4, 0, 0
        while time.monotonic() < end:
            event = json.loads(r.readline())
            if event["type"] == "gap":
                lost += event["lost"]
            last = event["cursor"]
            time.sleep(0.002)
        check_grown(before[0], 16 * MIB)
        check_grown(before[1], 16 * MIB, " in the warden", w.warden)
        ok(last > 10 * MIB, f"only {last} bytes were written")
        ok(lost > 0, "no gap was told")
    eq(w.run(b, "echo lively")["stdout"], "lively\n", "a command beside it")
    w.delete(b)
    w.check_empty()


@test
def unread_responses_are_not_kept_in_memory():
    """Output is six times as long in JSON, and each waiting client has a separate answer."""
    b = w.create()
    size = 16 * MIB
    ask = {"command": f"head -c {size} /dev/zero | tr '\\0' '\\1'", "output_limit": "32m"}
    w.run(b, "true")
    with contextlib.ExitStack() as stack:
        before = rss(w.api)
        answers = [stack.enter_context(w.client()).send("POST", f"/v1/sandboxes/{b}/run", ask) for _ in range(4)]
        eq([r.status for r in answers], [200] * 4, "statuses")
        check_grown(before, 24 * MIB)
        text = answers[0].read()
        check_grown(before, 24 * MIB, " while it was read")
        e = json.loads(text)
        eq((len(text) > 6 * size, e["stdout"] == "\1" * size, e["lost"]), (True, True, 0), "the answer, when it is taken")
    w.delete(b)


@test
def stored_answers_of_all_sessions_are_bounded():
    b = w.create()
    size, n = 40 * MIB, 5
    ask = {"command": f"head -c {size} /dev/zero | tr '\\0' '\\1'"}
    w.run(b, "true")
    before = rss(w.api)
    paths = [f"/v1/sandboxes/{b}/sessions/{w.post(f'/v1/sandboxes/{b}/sessions', {'output_limit': '64m'}, status=201)['id']}/run"
             for _ in range(n)]
    with contextlib.ExitStack() as stack:
        answers = [stack.enter_context(w.client()).send("POST", path, ask) for path in paths]
        eq([r.status for r in answers], [200] * n, "statuses")
        check_grown(before, 160 * MIB)
        first, last = (json.loads(r.read()) for r in (answers[0], answers[-1]))
        eq((len(first["stdout"]), first["lost"]), (size, 0), "the first")
        ok(last["lost"] > 0, "the last has all, beside all others")
        eq(len(last["stdout"]) + last["lost"], size, "what was dropped is counted")
        eq(w.run(b, "echo lively")["stdout"], "lively\n", "a command beside them")
    until(lambda: w.post(paths[-1], ask)["lost"] == 0, "there is room again")
    w.delete(b)


@test
def a_thousand_idle_streams_are_cheap():
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limit[1]), limit[1]))
    b = w.create()
    e = w.exec(b, "sleep 1000")
    path = f"/v1/sandboxes/{b}/execs/{e}/output"
    line = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    streams = []

    def more(n):
        for _ in range(n):
            s = socket.socket(socket.AF_UNIX)
            s.connect(w.socket)
            s.sendall(line)
            streams.append(s)
        for s in streams[-n:]:
            ok(s.recv(4096).startswith(b"HTTP/1.1 200"), "no stream")
    more(50)
    before = rss(w.api)
    more(1000)
    each = (rss(w.api) - before) / 1000
    try:
        if "asan" not in open(f"/proc/{w.api}/maps", encoding="utf-8").read():
            ok(each < 10000, f"{each:.0f} bytes for each stream")
        print(f"# {each:.0f} bytes for each idle stream", flush=True)
        eq(w.run(b, "echo lively")["stdout"], "lively\n", "a command beside them")
    finally:
        for s in streams:
            s.close()
    w.delete(b)
    until(lambda: w.descriptors()["api"] < 100, lambda: f"descriptors: {w.descriptors()}")


@test
def one_tenant_cannot_use_all_watches():
    """The kernel counts watches for the user of the service, for all tenants together."""
    limit = int(slurp("/proc/sys/fs/inotify/max_user_instances"))
    if limit > 1024:
        raise Skip(f"{limit} watches are too many to use up")
    greedy, modest = (w.token("read", "write", "files", tenant=name) for name in ("greedy", "modest"))
    mine, theirs = (w.post("/v1/sandboxes", {"wait_ms": 20000}, status=201, token=t)["id"] for t in (greedy, modest))

    def watch(stack, box, t):
        c = stack.enter_context(w.client(t))
        return c, c.send("GET", f"/v1/sandboxes/{box}/files/watch", query={"path": "/tmp"})

    with contextlib.ExitStack() as stack:
        held, refused = [], None
        while not refused:
            c, r = watch(stack, mine, greedy)
            if r.status == 200:
                eq(r.readline(), b'{"type":"ready"}\n', "the first event")
                held.append(c)
                ok(len(held) < limit, "all are one tenant's")
            else:
                refused = r
        e = json.loads(refused.read())
        eq((refused.status, e["code"], e["detail"]["quota"]), (429, "quota_exceeded", "watches"), f"{e}")
        eq((e["detail"]["used"], e["detail"]["maximum"]), (len(held), len(held)), f"{e}")
        eq(len(held), (limit + 1) // 2, f"what one tenant has of {limit}")
        ok(int(refused.headers["retry-after"]) >= 1, refused.headers)
        c, r = watch(stack, theirs, modest)
        eq((r.status, r.readline()), (200, b'{"type":"ready"}\n'), "a watch of another tenant")
        c.close()
        for c in held[:2]:
            c.close()
        until(lambda: watch(stack, mine, greedy)[1].status == 200, "after one ended there is room")
    w.delete(mine)
    w.delete(theirs)


# -------------------------------------------------------------------- leftovers


@test
def lack_of_descriptors_causes_typed_errors_and_is_temporary():
    def limits():
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    with World("--defaults-nofile", "64", limits=limits) as s:
        shim = s.create()
        streams, refused = [], []
        try:
            for _ in range(150):
                c = s.client(timeout=2)
                try:
                    r = c.ask("POST", "/v1/sandboxes", {"wait_ms": 20000})
                    streams.append(c)
                    if r.status == 201:
                        s.seen.add(r.json()["id"])
                    else:
                        refused.append(r)
                except OSError:
                    c.close()
                    break
        finally:
            for c in streams:
                c.close()
        ok(refused or len(streams) < 150, "150 connections and sandboxes with 100 descriptors")
        for r in refused:
            check_error(r, r.status)
            ok(r.status in (429, 503, 507), r)
        until(lambda: s.alive() and s.ask("GET", "/version").status == 200, "it answers again")
        for x in s.sandboxes():
            if x["id"] != shim:
                until(lambda x=x: s.ask("DELETE", f"/v1/sandboxes/{x['id']}").status in (204, 404), "it is deleted")
        eq(s.run(shim, "echo fine")["stdout"], "fine\n", "the one that was there before")
        s.match()
        s.create()  # a new one can be created again


@test
def a_full_disk_is_reported_until_space_is_free():
    with contextlib.ExitStack() as stack:
        s = stack.enter_context(World(start=False))
        os.makedirs(s.state)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=0755", "none", s.state], check=True)
        stack.push(lambda *_: subprocess.run(["umount", "-l", s.state], capture_output=True,
                                             check=False) and None)
        s.start()
        b = s.create(limits={"disk": "16m", "memory": "64m"})
        eq(s.run(b, "echo before")["stdout"], "before\n", "a command")
        filler = f"{s.state}/serve/filler"
        with open(filler, "wb", buffering=0) as f, contextlib.suppress(OSError):
            while True:
                f.write(b"x" * 65536)
        with open(filler, "ab", buffering=0) as f, contextlib.suppress(OSError):
            while True:
                f.write(b"x" * 512)
        answers = []
        for _ in range(5):
            answers.append(s.ask("POST", "/v1/sandboxes", {"limits": {"disk": "16m", "memory": "64m"}}))
            answers.append(s.ask("POST", f"/v1/sandboxes/{b}/run", {"command": "echo x; seq 1 100000"}))
            answers.append(s.ask("PATCH", f"/v1/sandboxes/{b}", {"labels": {"x": "y" * 200}}))
        bad = [r for r in answers if r.status >= 400]
        ok(bad, "a disk that is full is noticed by nobody")
        for r in bad:
            check_error(r, r.status)
            ok(r.status in (429, 503, 507), r)
        eq(s.ask("GET", f"/v1/sandboxes/{b}").status, 200, "status of a look at it")
        os.unlink(filler)
        eq(s.run(b, "echo after")["stdout"], "after\n", "a command once there is room")
        s.ask("PATCH", f"/v1/sandboxes/{b}", {"labels": {"x": "z"}}, status=200)
        s.integrity()
        s.match()
        for x in s.sandboxes():
            s.delete(x["id"])
        s.check_empty()
        s.stop()
        s.start()
        s.create(limits={"disk": "16m", "memory": "64m"})
        s.empty()
        s.stop()
        subprocess.run(["umount", s.state], check=True)
        os.makedirs(f"{s.state}", exist_ok=True)


# --------------------------------------------------------------- other sandboxes


HOSTILE = {
    "fork bomb": "f() { f | f & }; f; sleep 100",
    "memory hog": "while :; do head -c 900000000 /dev/zero | tail > /dev/null; done",
    "disk filler": "while :; do cat /dev/zero > /a; done",
    "many files": "i=0; while :; do i=$((i+1)); : > /tmp/$i; done",
    "a deep tree": "while mkdir d 2>/dev/null && cd d; do :; done; sleep 100",
    "ignores signals": "trap '' TERM INT HUP QUIT; while :; do sleep 0.01; done",
    "zombies": "for i in $(seq 900); do (sleep 0.01 & exec sleep 100) & done; wait",
    "endless output": "yes & yes >&2",
}


@test
def hostile_sandboxes_do_not_harm_others():
    quiet = w.create()
    ticking = w.exec(quiet, "while :; do echo x; sleep 0.05; done")
    for what, command in HOSTILE.items():
        b = w.create(limits={"memory": "64m", "pids": 200, "cpu_millis": 500, "disk": "32m"})
        w.exec(b, command)
        time.sleep(0.8)
        began = time.monotonic()
        eq(w.run(quiet, "echo neighbour")["stdout"], "neighbour\n", f"a command beside a {what}")
        ok(time.monotonic() - began < 30, f"{what}: the neighbour waits")
        r = w.ask("POST", f"/v1/sandboxes/{b}/run", {"command": "echo inside", "wait_ms": 2000})
        if r.status != 200:
            check_error(r, r.status)
        began = time.monotonic()
        w.delete(b)
        ok(time.monotonic() - began < 30, f"{what}: the delete took {time.monotonic() - began:.1f} s")
        w.match()
    size = w.get(f"/v1/sandboxes/{quiet}/execs/{ticking}")["output_to"]
    until(lambda: w.get(f"/v1/sandboxes/{quiet}/execs/{ticking}")["output_to"] > size, "it ticks on")
    w.delete(quiet)
    w.check_empty()


def main():
    global w, token  # pylint: disable=global-statement
    try:
        with World(tcp=True) as w:
            token = w.token("admin")
            return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
