#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-held-memory.py - memory that the service uses for requests that wait for their turn or for their client

Waiting requests count against their tenant, are limited, and start only while their token is valid. Unread or unsent
data of one tenant does not affect others.

Prints TAP. Limits are checked by order of magnitude.
"""
import contextlib
import glob
import gzip
import io
import json
import os
import select
import socket
import sys
import tarfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import MIB, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, rss, until  # pylint: disable=wrong-import-position
from swerex_world import Face  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name


def tenant(name):
    """Returns a new token, a sandbox, and a session of SWE-ReX in it."""
    token = w.token("read", "write", "exec", "files", tenant=name)
    box = w.create(token=token)
    face = Face(w, box, token)
    face.open()
    return token, box, face


def sent(token, path, body, data=None):
    """Sends a request and does not read the answer; @data replaces the body."""
    s = socket.create_connection(("127.0.0.1", w.port))
    data = json.dumps(body).encode() if data is None else data
    s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {token}\r\nAuthorization: Bearer {token}\r\n"
              f"Content-Type: application/json\r\nContent-Length: {len(json.dumps(body))}\r\n\r\n".encode() + data)
    return s


def bash(command, **kw):
    return {"command": command, "action_type": "bash", **kw}


def is_there(box, path):
    return "yes" in w.run(box, f"[ -e {path} ] && echo yes; true")["stdout"]


# ------------------------------------------------------------------- tokens


@test
def a_waiting_command_does_not_start_when_its_token_is_revoked():
    token, box, face = tenant("waits")
    doomed = w.post("/v1/tokens", {"name": "doomed", "scopes": ["exec"], "tenant": "waits"}, status=201)
    short = w.post("/v1/tokens", {"name": "short", "scopes": ["exec"], "tenant": "waits", "expires_in_ms": 3000}, status=201)
    path, held = f"/swerex/{box}/run_in_session", []
    held.append(sent(token, path, bash("until [ -e /tmp/go ]; do sleep 0.1; done")))
    time.sleep(0.5)
    for secret, name in ((doomed["secret"], "revoked"), (short["secret"], "expired"), (token, "control")):
        held.append(sent(secret, path, bash(f"touch /tmp/{name}")))
        time.sleep(0.3)
    w.ask("DELETE", f"/v1/tokens/{doomed['id']}", status=204)
    time.sleep(3)
    w.run(box, "touch /tmp/go")
    until(lambda: is_there(box, "/tmp/control"), "the command of a good token did not begin")
    eq(face.out("echo $((6 * 7))").strip(), "42", "the session after that")
    for name in ("revoked", "expired"):
        ok(not is_there(box, f"/tmp/{name}"), f"a command began although its token was {name}")
    for s in held:
        s.close()
    w.delete(box)


# --------------------------------------------------------- commands that wait for their turn


def waiting(secret, box, command, number=None, patience=0.2):
    """Sends a command that waits for another one, and disconnects."""
    body = json.dumps(bash(command)).encode()
    s = socket.create_connection(("127.0.0.1", w.port))
    s.sendall(f"POST /swerex/{box}/run_in_session HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {secret}\r\n".encode() +
              (f"X-Request-ID: {number}\r\n".encode() if number else b"") +
              f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    s.settimeout(patience)
    with contextlib.suppress(TimeoutError):
        return s.recv(4096)  # the request was refused
    s.close()
    return b""


@test
def a_waiting_command_is_dropped_when_its_client_disconnects():
    token, box, face = tenant("leaves")
    first = sent(token, f"/swerex/{box}/run_in_session", bash("until [ -e /tmp/go ]; do sleep 0.1; done"))
    time.sleep(0.5)
    before = rss(w.api)
    for _ in range(40):
        eq(waiting(token, box, "touch /tmp/left; true " + "x" * 4_000_000), b"", "answer")
    until(lambda: rss(w.api) - before < 200 * MIB, "memory is held for clients that are gone")
    time.sleep(5)  # the service would wait for a client that only shut down its sending half
    waiting(token, box, "touch /tmp/asked-again; echo result", number="again")  # this command can be repeated
    w.run(box, "touch /tmp/go")
    eq(face.good("/run_in_session", bash("touch /tmp/asked-again; echo result"), X_Request_ID="again")["output"].strip(), "result")
    ok(is_there(box, "/tmp/asked-again"), "a command that can be asked for again did not run")
    ok(not is_there(box, "/tmp/left"), "a command began although its client was gone")
    first.close()
    w.delete(box)


@test
def waiting_idempotent_requests_are_bounded():
    token, box, _ = tenant("queues")
    _, other, modest = tenant("modest-queues")
    first = sent(token, f"/swerex/{box}/run_in_session", bash("sleep 1000"))
    time.sleep(0.5)
    before = rss(w.api)
    said = [waiting(token, box, "true " + "x" * 4_000_000, number=f"large{i}") for i in range(40)]
    said.append(waiting(token, box, "true " + "x" * 4_000_000, number="last", patience=20))
    ok(rss(w.api) - before < 250 * MIB, f"{rss(w.api) - before >> 20} MB are held for commands that wait")
    ok(said[0] == b"" and b" 503 " in said[-1] and b"nothing was started" in said[-1], said[-1][:300])
    eq(modest.out("true " + "x" * 4_000_000), "", "output of another tenant's large command")
    said = [waiting(token, box, "true", number=f"small{i}", patience=0.01) for i in range(64)]
    said.append(waiting(token, box, "true", number="last-small", patience=20))
    ok(said[0] == b"" and b" 511 " in said[-1] and b"too many commands are waiting" in said[-1], said[-1][:400])
    first.close()
    w.delete(box)
    w.delete(other)


# ---------------------------------------------------------- answers that wait for their client


@test
def memory_for_unread_answers_is_bounded():
    token, box, _ = tenant("unread")
    _, other, modest = tenant("modest-unread")
    before, held = rss(w.api), []
    for _ in range(10):
        c = w.client(tcp=True, timeout=60)
        r = c.send("POST", f"/swerex/{box}/run_in_session", bash("yes 0123456789 | head -c 55000000", timeout=60),
                   headers={"X-API-Key": token})
        eq(r.status, 200, "status")
        held.append(c)
    ok(rss(w.api) - before < 420 * MIB, f"{rss(w.api) - before >> 20} MB are held for answers that nobody reads")
    eq(len(modest.out("yes 0123456789 | head -c 20000000", timeout=60)), 20000000, "bytes of another tenant's output")
    for c in held:
        c.close()
    until(lambda: rss(w.api) - before < 150 * MIB, "memory is left of them")
    w.delete(box)
    w.delete(other)


@test
def a_screen_that_was_read_is_freed():
    token, box, face = tenant("screens")
    before, held = rss(w.api), []
    for i in range(8):
        face.open(session=f"s{i}")
        face.ask("/run_in_session", bash("sleep 0.5; yes 0123456789 | head -c 55000000", session=f"s{i}", timeout=0.1))
        held.append(sent(token, f"/swerex/{box}/run_in_session", bash("touch /tmp/begun; sleep 1000", session=f"s{i}")))
        until(lambda: is_there(box, "/tmp/begun"), "the next command did not begin")  # pylint: disable=cell-var-from-loop
        w.run(box, "rm /tmp/begun")
    ok(rss(w.api) - before < 200 * MIB, f"{rss(w.api) - before >> 20} MB are held for screens that were taken")
    for s in held:
        s.close()
    w.delete(box)


@test
def unread_data_of_one_tenant_does_not_harm_another():
    token, box, _ = tenant("hoards")
    _, other, modest = tenant("modest-hoards")
    frugal = modest.token
    session = w.post(f"/v1/sandboxes/{other}/sessions", {}, status=201, token=frugal)["id"]

    def served(when):
        r = w.ask("POST", f"/v1/sandboxes/{other}/sessions/{session}/run", {"command": "seq 20000"}, token=frugal, tcp=True).json()
        eq((len(r["stdout"]), r["lost"]), (108894, 0), f"output of another tenant's session, {when}")
        r = w.ask("POST", f"/v1/sandboxes/{other}/run", {"command": "true #" + "x" * 100000}, token=frugal, tcp=True)
        eq(r.status, 200, f"another tenant's request, {when}: {r}")
        r = modest.ask("/write_file", {"path": "/tmp/x", "content": "x" * 200000})
        eq(r.status, 200, f"another tenant's file, {when}: {r}")

    served("before")
    held = []
    for _ in range(3):
        mine = w.post(f"/v1/sandboxes/{box}/sessions", {}, status=201, token=token)["id"]
        c = w.client(token=token, tcp=True, timeout=60)
        r = c.send("POST", f"/v1/sandboxes/{box}/sessions/{mine}/run", {"command": "yes 0123456789 | head -c 60000000"})
        eq(r.status, 200, "status")
        held.append(c)
    served("beside answers that nobody reads")
    for c in held:
        c.close()
    body = {"command": "true #" + "x" * 4_100_000}
    data = json.dumps(body).encode()
    held = [sent(token, f"/v1/sandboxes/{box}/run", body, data[:-1000]) for _ in range(40)]
    held += [sent(token, f"/v1/sandboxes/{box}/run", body, data[:100_000]) for _ in range(400)]
    time.sleep(1)
    served("beside bodies that do not end")
    said = sent(token, f"/v1/sandboxes/{box}/run", body)
    ok(b" 503 " in said.recv(4096), "the tenant that has its share was not refused more")
    for s in held + [said]:
        s.close()
    w.delete(box)
    w.delete(other)


# ------------------------------------------------------------------- turns


@test
def expected_output_is_found_while_other_clients_search():
    token, box, face = tenant("looks")
    _, other, modest = tenant("modest-looks")

    def seen(when):
        r = modest.ask("/run_in_session", bash("seq 100; echo foooo; sleep 60", expect=["fo+o"], check="ignore", timeout=10))
        ok(r.status == 200 and r.json()["expect_string"] == "fo+o", f"another tenant's expect, {when}: {r}")
        modest.interrupt()

    seen("before")
    held, costly = [], "yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa | tr -d '\\n' | head -c 3000000; sleep 1000"
    for i in range(30):
        face.open(session=f"s{i}")
        held.append(sent(token, f"/swerex/{box}/run_in_session",
                         bash(costly, session=f"s{i}", expect=["([a-z]?){100}X"], check="ignore", timeout=900)))
    time.sleep(3)
    seen("beside many that cost time")
    seen("again")
    for s in held:
        s.close()
    w.delete(box)
    w.delete(other)


# ------------------------------------------------------------------- names of directories


@test
def paths_kept_by_a_watch_are_charged_to_the_tenant():
    token, _, _ = tenant("watches")
    _, other, _ = tenant("modest-watches")
    box = w.create(token=token, limits={"memory": "1g", "disk": "512m"})
    r = w.run(box, ["python3", "-c", """
import os
os.chdir("/tmp")
while len(os.getcwd()) < 3700: os.mkdir("d" * 200); os.chdir("d" * 200)
for i in range(40000): os.mkdir("%0150d" % i)
"""], token=token)
    eq(r["result"]["exit_code"], 0, f"making the directories: {r['stderr'][-300:]}")

    def watch(where):
        c = w.client(timeout=120)
        r = c.send("GET", f"/v1/sandboxes/{where}/files/watch", query={"path": "/tmp", "recursive": "true"})
        return c, r.status, r.readline()

    before = rss(w.api)
    large, status, said = watch(box)
    ok(status == 429 or b"quota" in said, f"a watch of 40,000 long paths: {status} {said}")
    ok(rss(w.api) - before < 200 * MIB, f"{rss(w.api) - before >> 20} MB are held for a watch")
    control, status, said = watch(other)
    ok(status == 200 and b"ready" in said, f"another tenant's watch: {status} {said}")
    for c in (large, control):
        c.close()
    w.delete(box)


@test
def directories_of_endless_archives_are_charged_to_the_tenant():
    token, box, _ = tenant("archives")
    frugal, other, _ = tenant("modest-archives")

    def entry(name, kind, size=0):
        e = tarfile.TarInfo(name[:90])
        e.type, e.size, e.mode = kind, size, 0o755
        return e.tobuf(tarfile.USTAR_FORMAT)

    name = ("/".join(["d" * 250] * 15) + "/e").encode() + b"\0"
    one = entry("././@LongLink", b"L", len(name)) + name + b"\0" * (-len(name) % 512) + entry("x", tarfile.DIRTYPE)
    data, held, before = gzip.compress(one * 6000, 9), [], rss(w.api)
    for _ in range(9):  # each has 22 MB
        s = socket.create_connection(("127.0.0.1", w.port))
        s.sendall(f"PUT /v1/sandboxes/{box}/files/tar?path=/tmp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
                  "Content-Type: application/gzip\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + b"%x\r\n" % len(data) + data + b"\r\n")
        held.append(s)
    until(lambda: select.select(held, [], [], 0)[0], "none of the uploads was refused", seconds=120)
    said = select.select(held, [], [], 0)[0][0].recv(4096)
    ok(b" 429 " in said and b"bytes of the service's memory" in said, said[:400])
    ok(rss(w.api) - before < 200 * MIB, f"{rss(w.api) - before >> 20} MB are held for archives")
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as t:
        for i in range(100):
            e = tarfile.TarInfo(f"tree{i}")
            e.type, e.mode = tarfile.DIRTYPE, 0o750
            t.addfile(e)
    r = w.ask("PUT", f"/v1/sandboxes/{other}/files/tar", whole.getvalue(), token=frugal, tcp=True, query={"path": "/tmp"},
              headers={"Content-Type": "application/x-tar"})
    ok(r.status < 300, f"another tenant's archive: {r}")
    eq(w.run(other, "stat -c %a /tmp/tree99", token=frugal)["stdout"], "750\n", "mode of its last directory")
    for s in held:
        s.close()
    w.delete(box)
    w.delete(other)


# ------------------------------------------------------------------- data of ended execs


def stored():
    return sum(os.path.getsize(p) for p in glob.glob(f"{w.state}/serve/warren.db*"))


@test
def long_command_lines_are_shortened_in_memory():
    token, box, _ = tenant("words")
    short = ["sh", "-c", "echo $#" + " " * 4000, "a", "", "ü"]
    eq(w.run(box, short, token=token)["argv"], short, "a command line of 4 kB")
    before = stored()
    for argv in (["sh", "-c", "echo $#"] + ["x" * 100_000] * 18, ["true"] + ["\1" * 100_000] * 3, ["true", "ü" * 60_000]):
        for _ in range(10):
            r = w.run(box, argv, token=token)
        eq(r["result"]["exit_code"], 0, "exit code")
        eq(r["argv"][0], argv[0], "its first word")
        ok(all(a.startswith(b) for a, b in zip(argv, r["argv"][:-1])), "what is kept is not its beginning")
        kept = sum(len(a.encode()) for a in r["argv"][:-1])
        eq(r["argv"][-1], f"[{sum(len(a.encode()) for a in argv) - kept} more bytes were dropped]", "the mark")
        ok(512 < kept <= 8192, f"{kept} bytes are kept")
    eq(w.run(box, ["sh", "-c", "echo $#"] + ["x" * 100_000] * 18, token=token)["stdout"], "17\n", "what the program is given")
    ok(stored() - before < 6 * MIB, f"{stored() - before >> 20} MB are stored for 31 execs")
    r = w.ask("GET", f"/v1/sandboxes/{box}/execs", token=token, query={"limit": 1000})
    eq((r.status, len(r.json()["execs"])), (200, 33), "the list of them")
    w.delete(box)


def main():
    global w  # pylint: disable=global-statement
    try:
        with World(tcp=True) as w:
            return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
