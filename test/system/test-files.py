#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-files.py - files of a sandbox over HTTP: the documented behavior, and hostile files

The API uses no tool of the image: one of the sandboxes has an empty image.
"""
import contextlib
import gzip
import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, MIB, eq, noise, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, check_error, descriptors, has, needs, slurp, until  # pylint: disable=wrong-import-position

world = None


class Files:
    """The files of one sandbox."""

    def __init__(self, **spec):
        self.box = world.create(**spec)
        self.base = f"/v1/sandboxes/{self.box}/files"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        world.delete(self.box)

    def ask(self, method, where="", body=None, headers=None, status=None, **query):
        query = {k: str(v).lower() if isinstance(v, bool) else v for k, v in query.items()}
        return world.ask(method, self.base + where, body, headers=headers, query=query, status=status)

    def put(self, path, data=b"", status=None, **query):
        r = self.ask("PUT", "", data, path=path, **query)
        ok(r.status in ((200, 201) if status is None else (status,)), f"write {path}: {r}")
        return r.json()

    def get(self, path, status=200, headers=None, **query):
        return self.ask("GET", "", headers=headers, status=status, path=path, **query)

    def stat(self, path, status=200, **query):
        return self.ask("GET", "/stat", status=status, path=path, **query).json()

    def list(self, path, **query):
        return self.ask("GET", "/list", status=200, path=path, **query).json()

    def names(self, path, **query):
        return [e["path"] for e in self.list(path, **query)["entries"]]

    def post(self, verb, status=200, **body):
        return self.ask("POST", "/" + verb, body, status=status).json()

    def remove(self, path, status=204, **query):
        return self.ask("DELETE", "", status=status, path=path, **query)

    def search(self, status=200, **body):
        return self.post("search", status, **body)

    def run(self, command, **spec):
        r = world.run(self.box, command, **spec)
        eq(r["result"]["exit_code"], 0, f"exit code of {command!r}: {r}")
        return r["stdout"]


# ---------------------------------------------------------------- reading and writing


LOCKERS = """
import os, threading
fd = os.open('/tmp/locked', os.O_RDWR | os.O_CREAT, 0o666)
data = bytes(100 << 20)
threading.stack_size(65536)
def write():
    while True:
        os.pwrite(fd, data, 0)
for _ in range(300):
    threading.Thread(target=write).start()
os.write(1, b'go')
"""


@test
def a_file_that_is_locked_inside_delays_only_its_writer():
    """write(2) waits for processes inside that write to the same file; other requests do not wait."""
    needs("init")
    with Files(limits={"memory": "512m", "disk": "256m", "pids": 500, "cpu_millis": 1000}) as f:
        world.exec(f.box, ["python3", "-c", LOCKERS])
        until(lambda: f.ask("GET", "/stat", path="/tmp/locked").json().get("size") == 100 * MIB, "the file")
        time.sleep(2)  # until all of them wait
        seen, ended = [], threading.Event()

        def append():
            try:
                with world.client(timeout=300) as c:
                    seen.append(c.ask("POST", f.base + "/append", b"x", query={"path": "/tmp/locked"}).status)
            finally:
                ended.set()
        t = threading.Thread(target=append)
        begun = time.monotonic()
        t.start()
        answers = 0
        with world.client() as c:
            while not ended.wait(0.02):
                eq(c.ask("GET", "/healthz").status, 200, "health meanwhile")
                answers += not ended.is_set()
        took = time.monotonic() - begun
        t.join()
        # The request is abandoned after half a minute, but may still have been carried out.
        ok(seen in ([200], [504]), f"the append: {seen}")
        ok(took < 1 or answers > 10 * took, f"{answers} answers in {took:.1f} s")


@test
def a_file_is_written_and_read():
    with Files() as f:
        data = noise(3 * MIB + 17)
        made = f.put("/work/deep/er/x.bin", data, status=201, mode="0640")
        eq([made[k] for k in ("path", "type", "size", "mode", "uid")],
           ["/work/deep/er/x.bin", "file", len(data), "0640", 0], "what was made")
        r = f.get("/work/deep/er/x.bin")
        eq(r.body, data, "what was read")
        eq(r.headers["etag"], made["etag"], "etag")
        eq(f.run("cat /work/deep/er/x.bin | wc -c").strip(), str(len(data)), "what the sandbox sees")
        again = f.put("/work/deep/er/x.bin", b"short", status=200)
        eq((again["size"], again["mode"]), (5, "0640"), "size, and the mode that was there")
        ok(again["etag"] != made["etag"], "the etag did not change")
        eq(f.names("/work/deep/er"), ["/work/deep/er/x.bin"], "what is in the directory")
        f.put("/work/deep/er/empty", b"")
        eq(f.get("/work/deep/er/empty").body, b"", "an empty file")
        check_error(f.ask("PUT", "", b"x", path="/no/where/x", parents=False), 404, "file_not_found")
        check_error(f.ask("PUT", "", b"x", path="/work/deep"), 409, "is_a_directory")
        check_error(f.ask("PUT", "", b"x", path="/work/deep/er/empty/x"), 409, "not_a_directory")


@test
def chunked_bodies_are_written():
    with Files() as f:
        r = f.ask("PUT", "", iter([b"one ", b"two ", b"three"]), path="/tmp/x")
        eq(r.status, 201, f"{r}")
        eq(f.get("/tmp/x").body, b"one two three", "content")


@test
def ranges_and_etags_are_supported():
    with Files() as f:
        f.put("/tmp/x", b"0123456789")
        for text, status, body, where in (
                ("bytes=0-3", 206, b"0123", "bytes 0-3/10"), ("bytes=7-", 206, b"789", "bytes 7-9/10"),
                ("bytes=-4", 206, b"6789", "bytes 6-9/10"), ("bytes=5-99", 206, b"56789", "bytes 5-9/10"),
                ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"), ("bytes=4-2", 200, b"0123456789", None),
                ("bytes=x", 200, b"0123456789", None), ("bytes=0-1,3-4", 200, b"0123456789", None)):
            r = f.get("/tmp/x", None, headers={"Range": text})
            eq((r.status, r.body, r.headers.get("content-range")), (status, body, where), text)
        for text in ("bytes=10-", "bytes=99-100", "bytes=-0"):
            check_error(f.get("/tmp/x", None, headers={"Range": text}), 416, "range_not_satisfiable")
        etag = f.get("/tmp/x").headers["etag"]
        r = f.get("/tmp/x", None, headers={"If-None-Match": etag})
        eq((r.status, r.body), (304, b""), "unchanged")
        f.put("/tmp/x", b"9876543210")
        eq(f.get("/tmp/x", None, headers={"If-None-Match": etag}).status, 200, "changed")
        r = f.ask("HEAD", "", path="/tmp/x")
        eq((r.status, r.headers["content-length"], r.body), (200, "10", b""), "HEAD")


@test
def the_working_directory_of_init_is_its_root():
    needs("init")
    eq(os.path.samefile(f"/proc/{world.warden}/cwd", "/"), False, "the service is elsewhere, or this shows nothing")
    with Files() as f:
        inits = [p for p in world.processes() if slurp(f"/proc/{p}/comm") == "init\n"]
        ok(inits, "no init at all")
        for p in inits:
            ok(os.path.samestat(os.stat(f"/proc/{p}/cwd"), os.stat(f"/proc/{p}/root")), f"{os.readlink(f'/proc/{p}/cwd')}")
        f.run("mkdir /seen-inside")
        ok("/seen-inside" in f.names("/"), "a listing of the root")


def uploads():
    """The unnamed files that the api has open."""
    found = []
    for fd in os.listdir(f"/proc/{world.api}/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/{world.api}/fd/{fd}"))
    return [name for name in found if "/#" in name and name.endswith(" (deleted)")]


def begin_upload(f, path, whole, part):
    """Starts a PUT, and waits until a part of its body has arrived."""
    before = len(uploads())
    s = socket.socket(socket.AF_UNIX)
    s.connect(world.socket)
    s.sendall(f"PUT {f.base}?path={path} HTTP/1.1\r\nHost: x\r\nContent-Length: {whole}\r\n\r\n".encode() + part)
    until(lambda: len(uploads()) == before + 1, "an upload under way")
    return s


@test
def an_aborted_upload_changes_nothing():
    with Files() as f:
        f.put("/tmp/d/x", b"old")
        s = begin_upload(f, "/tmp/d/x", 1000000, b"n" * 200000)
        eq(f.get("/tmp/d/x").body, b"old", "while it arrives")
        s.close()
        until(lambda: not uploads(), "the rest of it is gone")
        eq((f.names("/tmp/d"), f.get("/tmp/d/x").body), (["/tmp/d/x"], b"old"), "after it broke off")


@test
def a_killed_service_leaves_no_partial_files():
    with Files() as f:
        f.put("/tmp/d/x", b"old")
        with begin_upload(f, "/tmp/d/x", 1000000, b"n" * 200000), begin_upload(f, "/tmp/d/y", 10, b"12345"):
            world.kill("api", "warden")
            world.start()
        eq((f.names("/tmp/d"), f.get("/tmp/d/x").body), (["/tmp/d/x"], b"old"), "afterwards")
        with begin_upload(f, "/tmp/d/x", 10, b"12345") as s:
            s.sendall(b"67890")
            ok(s.recv(4096).startswith(b"HTTP/1.1 200 "), "one that is not cut short")
        eq(f.get("/tmp/d/x").body, b"1234567890", "its file")


@test
def appended_bytes_are_added():
    with Files() as f:
        eq(f.ask("POST", "/append", b"one\n", status=200, path="/tmp/n/log").json()["size"], 4, "size")
        eq(f.ask("POST", "/append", b"two\n", status=200, path="/tmp/n/log").json()["size"], 8, "size")
        eq(f.get("/tmp/n/log").body, b"one\ntwo\n", "content")


@test
def links_are_followed_inside():
    with Files() as f:
        f.run("mkdir /work /d; echo real > /d/real; ln -s ../d/real /work/rel; ln -s /d/real /work/abs; "
              "ln -s /work/loop /work/loop; ln -s /d/new /work/dangling; ln -s ../../../../../etc/passwd /work/up")
        f.put("/work/rel", b"written", status=200)
        eq(f.get("/d/real").body, b"written", "through a link")
        eq(f.stat("/work/rel")["type"], "link", "the link is still there")
        eq(f.stat("/work/rel")["link_target"], "../d/real", "and says")
        eq(f.stat("/work/abs", follow=True)["type"], "file", "followed")
        f.put("/work/dangling", b"x", status=201)
        eq(f.get("/d/new").body, b"x", "made where the link says")
        check_error(f.ask("PUT", "", b"x", path="/work/loop"), 400, "invalid_request")
        check_error(f.ask("GET", "", path="/work/loop"), 400, "invalid_request")
        eq(f.get("/work/up").body.decode(), f.run("cat /etc/passwd"), "above the root is the root")
        f.remove("/work/abs")
        eq(f.stat("/d/real")["type"], "file", "what a removed link pointed at")


@test
def special_files_do_not_block_clients():
    with Files() as f:
        f.run("mkfifo /tmp/fifo; mkdir /tmp/t; mkfifo /tmp/t/fifo; echo needle > /tmp/t/x")
        for path in ("/tmp/fifo", "/dev/zero", "/dev/null", "/dev/tty", "/dev/ptmx"):
            r = f.ask("GET", "", path=path)
            ok(r.status in (403, 409), f"read {path}: {r}")
            r = f.ask("PUT", "", b"x", path=path)
            ok(r.status in (403, 409), f"write {path}: {r}")
            r = f.ask("POST", "/append", b"x", path=path)
            ok(r.status in (403, 409), f"append to {path}: {r}")
        check_error(f.ask("GET", "", path="/tmp/fifo"), 409, "special_file")
        for path in ("/proc/self/mem", "/proc/1/root/etc/passwd", "/proc/self/fd/3", "/proc/1/environ"):
            r = f.ask("GET", "", path=path)
            ok(400 <= r.status < 500 or (not has("walls") and b"EIO" in r.body), f"read {path}: {r}")
        eq([m["path"] for m in f.search(path="/tmp/t", content="needle")["matches"]], ["/tmp/t/x"], "found")
        eq(tarfile.open(fileobj=io.BytesIO(f.ask("GET", "/tar", path="/tmp/t").body)).getnames(), ["x"], "archived")
        f.put("/tmp/fine", b"x")


@test
def users_have_their_own_rights():
    with Files() as f:
        f.run("mkdir -m 700 /tmp/secret; echo s > /tmp/secret/x; chmod 600 /tmp/secret/x; mkdir -m 777 /tmp/open")
        check_error(f.ask("GET", "", path="/tmp/secret/x", user="1000"), 403, "permission_denied")
        check_error(f.ask("GET", "/list", path="/tmp/secret", user="1000"), 403, "permission_denied")
        e = check_error(f.ask("PUT", "", b"x", path="/etc/x", user="1000"), 403, "permission_denied")
        ok("'/etc/x'" in e["message"], f"it names what was asked for: {e}")
        f.run("mkdir -m 777 /tmp/theirs; mkdir -m 755 /tmp/theirs/not")
        e = check_error(f.ask("PUT", "/tar", archive([("not/a", b"1")]), path="/tmp/theirs", user="1000"), 403)
        ok("'not/a'" in e["message"], f"it names what was asked for: {e}")
        check_error(f.ask("DELETE", "", path="/tmp/secret", user="1000", recursive=True), 403, "permission_denied")
        check_error(f.ask("POST", "/chmod", {"path": "/tmp/secret", "mode": "0777", "user": "1000"}), 403,
                    "permission_denied")
        eq(f.get("/tmp/secret/x").body, b"s\n", "as root")
        made = f.put("/tmp/open/mine", b"x", user="1000:1001")
        eq((made["uid"], made["gid"]), (1000, 1001), "owner")
        eq(f.run("find /tmp/open/mine -printf %U:%G"), "1000:1001", "owner, seen inside")
        f.put("/tmp/open/mine", b"as root")
        eq(f.stat("/tmp/open/mine")["uid"], 1000, "the owner stays when root replaces it")
        check_error(f.ask("GET", "", path="/tmp/x", user="no-such-user"), 400, "invalid_request")


# ----------------------------------------------------------------------------- trees


@test
def directories_are_listed_created_moved_and_removed():
    with Files() as f:
        eq(f.post("mkdir", 201, path="/w/a/b", mode="0700")["mode"], "0700", "mode")
        eq(f.stat("/w/a")["mode"], "0755", "mode of one on the way")
        f.post("mkdir", 200, path="/w/a/b")
        check_error(f.ask("POST", "/mkdir", {"path": "/w/a/b", "parents": False}), 409, "file_exists")
        check_error(f.ask("POST", "/mkdir", {"path": "/x/y", "parents": False}), 404, "file_not_found")
        f.put("/w/a/file", b"1")
        check_error(f.ask("POST", "/mkdir", {"path": "/w/a/file"}), 409, "file_exists")
        f.put("/w/z", b"22")
        f.run("ln -s a /w/link")
        eq(f.names("/w"), ["/w/a", "/w/link", "/w/z"], "one level")
        eq(f.names("/w/", depth=3), ["/w/a", "/w/a/b", "/w/a/file", "/w/link", "/w/z"], "all levels, by name")
        short = f.list("/w", depth=3, limit=2)
        eq((len(short["entries"]), short["truncated"]), (2, True), "cut off")
        eq(f.list("/w", depth=3, limit=5)["truncated"], False, "just enough")
        eq(f.post("move", 200, **{"from": "/w/z", "to": "/w/y"})["path"], "/w/y", "moved")
        f.put("/w/other", b"o")
        check_error(f.ask("POST", "/move", {"from": "/w/y", "to": "/w/other", "overwrite": False}), 409, "file_exists")
        f.post("move", 200, **{"from": "/w/y", "to": "/w/other"})
        eq(f.get("/w/other").body, b"22", "overwritten")
        check_error(f.ask("POST", "/move", {"from": "/w/nothing", "to": "/w/x"}), 404, "file_not_found")
        check_error(f.ask("DELETE", "", path="/w"), 409, "directory_not_empty")
        f.remove("/w/other")
        f.remove("/w", recursive=True)
        check_error(f.ask("GET", "/stat", path="/w"), 404, "file_not_found")
        check_error(f.ask("DELETE", "", path="/w", recursive=True), 404, "file_not_found")
        check_error(f.ask("GET", "/list", path="/etc/passwd"), 409, "not_a_directory")


@test
def a_move_replaces_its_target_and_never_moves_into_it():
    with Files() as f:
        f.run("mkdir -p /m/empty /m/d/e /m/full/x /m/target; echo 1 >/m/file; echo 2 >/m/file2; ln -s /m/target /m/link; "
              "ln -s /m/target /tmp/link")
        for path in ("/m/empty", "/m/full"):
            f.post("move", 200, **{"from": path, "to": path})
        check_error(f.ask("POST", "/move", {"from": "/m/d", "to": "/m/d/e"}), 400, "invalid_request")
        eq(f.stat("/m/empty")["type"], "directory", "a directory that was moved to itself")
        eq(f.stat("/m/d/e")["type"], "directory", "the target of a move that was refused")
        for path, link in (("/m/file", "/m/link"), ("/m/file2", "/tmp/link")):  # /tmp is another filesystem
            f.post("move", 200, **{"from": path, "to": link})
            eq(f.stat(link)["type"], "file", f"{link}, which was a link to a directory")
        eq(f.list("/m/target")["entries"], [], "the directory that the links pointed to")
        f.post("move", 200, **{"from": "/m/d", "to": "/m/empty"})
        eq(f.stat("/m/empty/e")["type"], "directory", "in place of an empty directory")


@test
def modes_and_owners_of_trees_are_changed():
    with Files() as f:
        f.run("mkdir -p /t/a/b /out; touch /t/x /t/a/y /t/a/b/z /out/o; chmod 600 /out/o; ln -s /out/o /t/a/link; "
              "ln -s /out /t/dirlink")
        f.post("chmod", 200, path="/t", mode="0750", recursive=True)
        eq({e["mode"] for e in f.list("/t", depth=9)["entries"] if e["type"] != "link"}, {"0750"}, "modes")
        f.post("chown", 200, path="/t", owner="1000:1001", recursive=True)
        eq({(e["uid"], e["gid"]) for e in f.list("/t", depth=9)["entries"]}, {(1000, 1001)}, "owners")
        out = f.stat("/out/o")
        eq((out["mode"], out["uid"], f.stat("/out")["uid"]), ("0600", 0, 0), "what links point at")
        eq(f.post("chmod", 200, path="/out/o", mode="4711")["mode"], "4711", "one file")
        eq(f.post("chown", 200, path="/out/o", owner="root")["uid"], 0, "by name")


@test
def large_and_deep_trees_are_listed_and_removed():
    with Files(limits={"memory": "512m"}) as f:
        f.run("mkdir -p /t/many; cd /t/many; seq 10000 | xargs touch; cd /t; d=$(printf 'd/%.0s' $(seq 1000)); "
              "mkdir -p $d; touch ${d}bottom", timeout_ms=60000)
        listing = f.list("/t/many", limit=100000)
        eq((len(listing["entries"]), listing["truncated"]), (10000, False), "entries")
        eq(sorted(e["path"] for e in listing["entries"]), [e["path"] for e in listing["entries"]], "order")
        eq(len(f.list("/t", depth=64, limit=100000)["entries"]), 10001 + 64, "with 64 levels")
        f.remove("/t", recursive=True)
        check_error(f.ask("GET", "/stat", path="/t"), 404)
        long = "/l" + "/x" * 2000
        f.post("mkdir", 201, path=long)
        eq(f.stat(long)["type"], "directory", "2,000 levels")
        check_error(f.ask("GET", "/stat", path="/" + "y" * 300), 400, "invalid_request")


@test
def many_requests_at_once_do_not_interfere():
    with Files() as f:
        f.run("mkdir /m; cd /m; seq 3000 | xargs touch; echo hello > /tmp/x")
        wrong = []

        def work(i):
            try:
                for _ in range(5 if has("init") else 1):
                    eq(len(f.list("/m")["entries"]), 3000, "entries")
                    eq(f.get("/tmp/x").body, b"hello\n", "content")
                    f.put(f"/tmp/own-{i}", b"%d" % i)
            except Exception as e:  # pylint: disable=broad-except
                wrong.append(e)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(24)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        eq(wrong, [], "failures")
        eq(world.show(f.box)["state"], "running", "state")
        eq([f.get(f"/tmp/own-{i}").body for i in range(24)], [b"%d" % i for i in range(24)], "files")


# --------------------------------------------------------------------------- archives


def archive(entries, kind=""):
    """A tar archive of (name, content) or (name, (type, link))."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{kind}", format=tarfile.PAX_FORMAT) as tar:
        for name, what in entries:
            info = tarfile.TarInfo(name)
            info.mode, info.mtime, info.uid, info.gid = 0o644, 1234567890, 42, 43
            if isinstance(what, tuple):
                info.type, info.linkname = what
                if info.type == tarfile.DIRTYPE:
                    info.mode = 0o755
                tar.addfile(info)
            else:
                info.size = len(what)
                tar.addfile(info, io.BytesIO(what))
    return out.getvalue()


DIR, SYM, HARD = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


@test
def an_archive_is_uploaded_and_downloaded():
    with Files() as f:
        long = "long/" + "n" * 120 + "/" + "m" * 150
        entries = [("d", (DIR, "")), ("d/a", b"alpha"), ("d/b", noise(700001)), ("l", (SYM, "d/a")), ("h", (HARD, "d/a")),
                   (long, b"far"), ("empty", b""), ("w/i/thout/parents", b"x"), ("long-link", (SYM, "t" * 300))]
        for kind in ("", "gz", "zstd"):
            data = archive(entries, kind if kind != "zstd" else "")
            if kind == "zstd":
                data = subprocess.run(["zstd", "-c"], input=data, check=True, capture_output=True).stdout
            r = f.ask("PUT", "/tar", data, path=f"/up/{kind}x")
            eq(r.status, 200, f"{kind}: {r}")
            eq(r.json(), {"entries": len(entries), "bytes": 5 + 700001 + 3 + 1}, "told")
        eq(f.get("/up/x/d/b").body, noise(700001), "content")
        a = f.stat("/up/x/d/a")
        eq((a["mode"], a["modified_at"], a["uid"]), ("0644", "2009-02-13T23:31:30.000Z", 0), "mode, time, owner")
        eq(f.stat("/up/x/l")["link_target"], "d/a", "link")
        eq(f.run("find /up/x/h -printf %n"), "2", "names of one file")
        f.ask("PUT", "/tar", archive(entries), path="/up/x", owners=True, status=200)
        eq([f.stat("/up/x/d/a")[k] for k in ("uid", "gid")], [42, 43], "kept owners")
        for kind in ("none", "gzip", "zstd"):
            data = f.ask("GET", "/tar", path="/up/x", compression=kind, status=200).body
            if kind == "zstd":
                data = subprocess.run(["zstd", "-dc"], input=data, check=True, capture_output=True).stdout
            elif kind == "gzip":
                data = gzip.decompress(data)
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                eq(sorted(tar.getnames()), sorted([n for n, _ in entries] + ["long", "long/" + "n" * 120, "w", "w/i",
                                                                            "w/i/thout"]), "names")
                eq(tar.extractfile("d/b").read(), noise(700001), "content")
                eq(tar.extractfile(long).read(), b"far", "content of one with a long name")
                eq((tar.getmember("d/a").uid, tar.getmember("d/a").mtime), (42, 1234567890), "owner and time")
                eq(tar.getmember("long-link").linkname, "t" * 300, "a long link")
        one = f.ask("GET", "/tar", path="/up/x/d/a", status=200).body
        eq(tarfile.open(fileobj=io.BytesIO(one)).getnames(), ["a"], "of one file")
        check_error(f.ask("GET", "/tar", path="/nothing"), 404, "file_not_found")


@test
def an_archive_that_is_cut_short_by_a_kill_can_be_sent_again():
    """The upload was not acknowledged: the entries received so far exist, no others do, and the next upload works."""
    data = archive([("a", b"whole"), ("old", b"new"), ("b", noise(900000)), ("d/b", noise(900000)), ("c", b"last")])
    with Files() as f:
        f.put("/up/other", b"other")
        f.put("/up/b", b"kept")
        for who in ((), ("api",), ("warden",), ("api", "warden")):
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(world.socket)
                s.sendall(f"PUT {f.base}/tar?path=/up HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-tar\r\n"
                          f"Content-Length: {len(data)}\r\n\r\n".encode() + data[:500000])
                until(lambda: f.ask("GET", "/stat", path="/up/old").status == 200, "some of it is there")
                if who:
                    world.kill(*who)
                if "warden" in who:
                    world.start()
                world.ready()
            # A file is replaced only when the new one is complete.
            eq([f.get(f"/up/{n}").body for n in ("a", "b", "other")], [b"whole", b"kept", b"other"],
               f"after kill -9 of {who}")
            until(lambda: sorted(f.names("/up")) == ["/up/a", "/up/b", "/up/old", "/up/other"],
                  lambda: f"after kill -9 of {who}: {f.names('/up')}")
            f.remove("/up/old")
        f.ask("PUT", "/tar", data, path="/up", status=200)
        eq([len(f.get(f"/up/{n}").body) for n in ("a", "b", "c", "old", "d/b")], [5, 900000, 4, 3, 900000], "the whole")


@test
def files_of_an_archive_replace_existing_files():
    with Files() as f:
        f.put("/up/file", b"old")
        f.put("/up/dir/x", b"old")
        f.run("cd /up && ln -s /etc/passwd link && ln file other && chmod 600 file")
        data = archive([("file", b"new"), ("link", b"mine"), ("deep/er/x", b"1"), ("deep/er/y", b"2"), ("deep/z", b"3"),
                        ("last", b"4")])
        eq(f.ask("PUT", "/tar", data, path="/up", status=200).json(), {"entries": 6, "bytes": 11}, "what was unpacked")
        eq([f.get(f"/up/{n}").body for n in ("file", "link", "other", "deep/er/x", "deep/er/y", "deep/z", "last")],
           [b"new", b"mine", b"old", b"1", b"2", b"3", b"4"], "contents")
        check_error(f.ask("PUT", "/tar", archive([("a", b"1"), ("dir", b"2")]), path="/up"), 409)
        eq((f.get("/up/dir/x").body, f.get("/up/a").body), (b"old", b"1"), "a directory is in the way")
        check_error(f.ask("PUT", "/tar", archive([("a", (DIR, ""))]), path="/up"), 409)
        eq(f.get("/up/a").body, b"1", "a file is in the way")
        f.ask("PUT", "/tar", archive([("dir", (DIR, ""))]), path="/up", status=200)  # the control
        deep = "/".join(["n"] * 200)  # directories that are not in the archive
        f.ask("PUT", "/tar", archive([(f"{deep}/file", b"deep")]), path="/up", status=200)
        eq(f.get(f"/up/{deep}/file").body, b"deep", "200 levels")
        eq([n for n in f.names("/up") if ".warren" in n], [], "what is left")


@test
def hostile_archives_stay_inside():
    with Files() as f:
        f.put("/outside/victim", b"safe")
        good = archive([("fine", b"1")])
        flipped = bytearray(good)
        flipped[0] ^= 1
        cases = {
            "absolute": archive([("/outside/victim", b"bad")]),
            "climbing": archive([("../outside/victim", b"bad")]),
            "climbing inside": archive([("a/../../outside/victim", b"bad")]),
            "through a link": archive([("l", (SYM, "/outside")), ("l/victim", b"bad")]),
            "through a relative link": archive([("l", (SYM, "../outside")), ("l/victim", b"bad")]),
            "a directory through a link": archive([("l", (SYM, "/outside")), ("l/dir", (DIR, ""))]),
            "directories through a link": archive([("a/b/l", (SYM, "/outside")), ("a/b/l/c/d/e/victim", b"bad")]),
            "a link to a file outside": archive([("h", (HARD, "../outside/victim"))]),
            "a link by a link": archive([("l", (SYM, "/outside")), ("h", (HARD, "l/victim"))]),
            "a device": archive([("dev", (tarfile.CHRTYPE, ""))]),
            "a pipe": archive([("fifo", (tarfile.FIFOTYPE, ""))]),
            "a wrong sum": bytes(flipped),
            "cut off": archive([("fine", b"1" * 600)])[:900],
            "not a tar": noise(5000),
            "cut gzip": gzip.compress(good)[:-9],
            "nothing": b"",
        }
        for what, data in cases.items():
            r = f.ask("PUT", "/tar", data, path="/in")
            ok(400 <= r.status < 500, f"{what}: {r}")
            eq(f.get("/outside/victim").body, b"safe", what)
            eq(f.names("/outside"), ["/outside/victim"], what)
            f.remove("/in", status=None, recursive=True)
        # An entry that replaces a link does not write to the link's target.
        r = f.ask("PUT", "/tar", archive([("x", (SYM, "/outside/victim")), ("x", b"mine")]), path="/in")
        eq((r.status, f.get("/outside/victim").body, f.get("/in/x").body), (200, b"safe", b"mine"), f"{r}")
        eq(f.ask("PUT", "/tar", good, path="/in").status, 200, "a good one")


@test
def the_compression_window_is_bounded():
    """The beginning of an archive states how much memory its decompression needs."""
    def zstd(data, window):  # in uncompressed blocks
        head = b"\x28\xb5\x2f\xfd\x00" + bytes([(window - 10) << 3])
        return head + (len(data) << 3 | 1).to_bytes(3, "little") + data
    data = archive([("x", b"1")])
    with Files() as f:
        f.ask("PUT", "/tar", zstd(data, 23), path="/up", parents=True, status=200)
        eq(f.get("/up/x").body, b"1", "a window of 8 MiB")
        for window in (24, 27, 31):
            e = check_error(f.ask("PUT", "/tar", zstd(data, window), path="/up"), 400, "invalid_request")
            ok("8 MiB" in e["message"], e)


@test
def a_bomb_fills_only_the_disk_of_its_sandbox():
    needs("disk")
    with Files(limits={"disk": "16m"}) as f:
        bomb = gzip.compress(archive([("zeros", b"\0" * (64 * MIB))]))
        check_error(f.ask("PUT", "/tar", bomb, path="/tmp/in"), 507, "disk_full")
        check_error(f.ask("PUT", "", noise(32 * MIB), path="/tmp/x"), 507, "disk_full")
        f.remove("/tmp/in", recursive=True)
        f.put("/tmp/x", b"there is room again")
        eq(f.names("/tmp"), ["/tmp/x"], "what is left")


# ------------------------------------------------------------------- search and watch


@test
def files_are_found_by_name_and_content():
    with Files() as f:
        f.run("mkdir -p /s/src/.git /s/doc; cd /s; printf 'import os\\n\\ndef main():\\n  pass\\n' > src/main.py; "
              "printf 'def helper(): Main\\n' > src/util.py; echo 'def main' > doc/x.txt; echo 'def main' > src/.git/c; "
              "printf 'def main\\0' > src/bin.py; ln -s /s /s/loop")
        r = f.search(path="/s", name="*.py", content="def main")
        eq(r, {"matches": [{"path": "/s/src/main.py", "type": "file", "line": 3, "column": 1, "text": "def main():"}],
               "truncated": False, "timed_out": False}, "both")
        paths = lambda **q: sorted(m["path"] for m in f.search(path="/s", **q)["matches"])  # noqa: E731
        eq(paths(content="main"), ["/s/doc/x.txt", "/s/src/.git/c", "/s/src/main.py"], "by content")
        eq(paths(content="main", hidden=False), ["/s/doc/x.txt", "/s/src/main.py"], "not what is hidden")
        eq(paths(content="MAIN", ignore_case=True, name="*.PY"), ["/s/src/main.py", "/s/src/util.py"], "any case")
        eq(paths(content="^def [a-z]+\\(", regex=True), ["/s/src/main.py", "/s/src/util.py"], "by an expression")
        eq(paths(name="src/*.py"), ["/s/src/bin.py", "/s/src/main.py", "/s/src/util.py"], "by path")
        eq(paths(type="directory"), ["/s/doc", "/s/src", "/s/src/.git"], "directories")
        eq(paths(type="link"), ["/s/loop"], "links")
        eq(f.search(path="/s", content="def", max_matches=2)["truncated"], True, "cut off")
        eq([m["line"] for m in f.search(path="/s/src/main.py", content="pass")["matches"]], [4], "one file")
        for bad in ("(", "a{2", "[a", "(a)\\1", "*"):
            r = f.ask("POST", "/search", {"path": "/s", "content": bad, "regex": True})
            ok(r.status == 400 or bad == "a{2", f"{bad}: {r}")
        check_error(f.ask("POST", "/search", {"path": "/nothing", "content": "x"}), 404, "file_not_found")


@test
def a_hostile_search_does_not_block_other_clients():
    with Files() as f:
        f.put("/tmp/a", b"a" * (8 * MIB))
        done = []
        t = threading.Thread(target=lambda: done.append(
            f.search(path="/tmp", content="(a|aa|a*)*(a?){40}b", regex=True, timeout_ms=3000)))
        t.start()
        answered = 0
        while t.is_alive():
            world.get("/version")
            answered += t.is_alive()
            time.sleep(0.02)
        t.join()
        eq((done[0]["matches"], done[0]["timed_out"]), ([], True), "what was found in time")
        ok(answered >= 3, f"others had {answered} answers while it went on")


@test
def changes_are_reported():
    if not has("watch"):
        with Files() as f:
            check_error(f.ask("GET", "/watch", path="/tmp"), 501, "not_supported")
    needs("watch")
    with Files() as f:
        f.run("mkdir -p /w/sub; echo x > /w/old")
        with world.client() as c:
            r = c.send("GET", f.base + "/watch", query={"path": "/w", "recursive": "true"})
            eq(r.status, 200, "status")
            told = (json.loads(line) for line in r)
            eq(next(told), {"type": "ready"}, "the first event")

            def expect(kind, path, start=None):
                want = {"type": kind, "path": path, **({"from": start} if start else {})}
                seen = []
                for event in told:
                    if event == want:
                        return
                    seen.append(event)
                    ok(len(seen) < 50, f"no {want} in {seen}")
            f.run("echo y > /w/new")
            expect("created", "/w/new")
            expect("modified", "/w/new")
            f.run("chmod 600 /w/old")
            expect("attributes", "/w/old")
            f.run("mv /w/new /w/sub/newer")
            expect("moved", "/w/sub/newer", "/w/new")
            f.run("mkdir -p /w/n1/n2; echo z > /w/n1/n2/z")
            expect("created", "/w/n1/n2/z")
            f.run("mv /w/n1 /w/renamed; echo again > /w/renamed/n2/z2")
            expect("created", "/w/renamed/n2/z2")
            f.post("mkdir", 201, path="/w/by-api")
            expect("created", "/w/by-api")
            f.run("rm /w/old")
            expect("removed", "/w/old")
        with world.client() as c:
            r = c.send("GET", f.base + "/watch", query={"path": "/w/sub/newer", "format": "sse"})
            eq(r.readline() + r.readline(), b'id: 1\ndata: {"type":"ready"}\n', "as SSE")
            r.readline()
            f.run("echo more >> /w/sub/newer")
            r.readline()
            eq(r.readline(), b'data: {"type":"modified","path":"/w/sub/newer"}\n', "of one file")
        check_error(f.ask("GET", "/watch", path="/nothing"), 404, "file_not_found")
        f.run("mkdir -m 700 /w/secret")
        check_error(f.ask("GET", "/watch", path="/w/secret", user="1000"), 403, "permission_denied")


# --------------------------------------------------------------------- hostile files


@test
def swapped_links_do_not_lead_outside():
    marker = os.path.join(world.dir, "host-secret")
    with open(marker, "w", encoding="utf-8") as m:
        m.write("host")
    with Files() as f:
        f.run(f"mkdir -p /t/real{world.dir} /t/a; echo inside > /t/real/x; mkdir -p {world.dir}; "
              f"echo decoy > {marker}")
        swap = world.exec(f.box, "while :; do mv /t/a /t/b; ln -s / /t/a; rm /t/a; ln -s ../../../../.. /t/a; rm /t/a; "
                                 "mv /t/b /t/a; done 2>/dev/null")
        end = time.monotonic() + 4
        seen = set()
        while time.monotonic() < end:
            for r in (f.ask("GET", "", path=f"/t/a{marker}"), f.ask("PUT", "", b"inside", path=f"/t/a{marker}"),
                      f.ask("GET", "/list", path="/t/a", depth=2, limit=50),
                      f.ask("PUT", "/tar", archive([("d/e", b"x"), ("d/f", b"y")]), path="/t/a/up"),
                      f.ask("DELETE", "", path="/t/a/up", recursive=True)):
                ok(r.status < 500 or (not has("init") and b"EIO" in r.body), f"{r}")
                seen.add(r.status)
                if r.status == 200 and b"host" == r.body:
                    raise AssertionError("a file of the host was read")
            with open(marker, encoding="utf-8") as m:
                eq(m.read(), "host", "the file of the host")
        ok(200 in seen and 404 in seen, f"the swapping had no effect: {seen}")
        world.post(f"/v1/sandboxes/{f.box}/execs/{swap}/signal", {"signal": "KILL"}, status=None)
        eq(world.show(f.box)["state"], "running", "state")


@test
def encoded_paths_are_decoded_and_checked():
    with Files() as f:
        f.put("/tmp/ü b", b"1")
        eq(f.get("/tmp/ü b").body, b"1", "a name that is not ASCII")
        raw = lambda path: world.ask("GET", f"{f.base}?path={path}")  # noqa: E731
        eq(raw("/tmp/%C3%BC%20b").body, b"1", "encoded")
        for bad in ("/tmp/../etc/passwd", "/tmp/%2e%2e/etc/passwd", "/tmp/..%2fetc", "relative", "", "/a%00b", "/%ff",
                    "/tmp/./x", "/" + "a/" * 4000):
            r = raw(bad)
            ok(400 <= r.status < 500 and r.status != 404, f"{bad[:30]}: {r}")
        eq(f.stat("//tmp///")["path"], "/tmp", "tidied")


@test
def files_can_be_used_in_an_empty_image():
    needs("image")
    empty = archive([("etc", (DIR, ""))])
    path = os.path.join(world.dir, "empty.tar")
    with open(path, "wb") as out:
        out.write(empty)
    subprocess.run([os.path.join(BUILD, "warren-image"), "import", path, "scratch:1"], check=True, capture_output=True,
                   env={**os.environ, "WARREN_STATE": world.state})
    with Files(image="scratch:1") as f:
        if not has("init"):
            e = check_error(f.ask("PUT", "", b"x", path="/work/x"), 501, "not_supported")
            ok("the image has no shell" in e["message"], f"what it lacks: {e}")
            return
        f.put("/work/x", b"1 needle 2")
        eq(f.get("/work/x").body, b"1 needle 2", "read")
        eq(len(f.search(path="/work", content="needle")["matches"]), 1, "searched")
        f.ask("PUT", "/tar", archive([("a/b", b"c")]), path="/up", status=200)
        eq(f.names("/up", depth=9), ["/up/a", "/up/a/b"], "unpacked")
        f.post("chmod", 200, path="/up", mode="0700", recursive=True)
        f.remove("/up", recursive=True)


@test
def a_deleted_sandbox_ends_its_requests():
    needs("watch")
    with Files() as f:
        f.run("mkdir /t; cd /t; seq 5000 | xargs touch")
        before = descriptors(world.api)
        c = world.client()
        r = c.send("GET", f.base + "/watch", query={"path": "/t", "recursive": "true"})
        eq(r.readline(), b'{"type":"ready"}\n', "ready")
        s = begin_upload(f, "/t/x", 10, b"12345")
        world.delete(f.box)
        s.sendall(b"67890")
        ok(b"HTTP/1.1 4" in s.recv(4096), "the upload is refused")
        s.close()
        c.close()
        until(lambda: descriptors(world.api) <= before, "descriptors are closed")
        f.box = world.create()


if __name__ == "__main__":
    with World() as world:
        failed = run_tests()
    sys.exit(failed)
