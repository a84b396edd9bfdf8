#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-named-volumes.py - volumes outlive sandboxes, have a hard size, and belong to their tenant

WARREN_TEST_BACKEND is the backend of the sandboxes (default: native).
"""
import concurrent.futures
import fcntl
import json
import os
import socket
import sqlite3
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import BACKEND, CONFIGS, World, below, fitted, is_apart, refused, shell, together, until  # pylint: disable=wrong-import-position

SIZE = 32 << 20
FIFREEZE = 0xC0045877
w = None  # pylint: disable=invalid-name


def make(name, size=SIZE, status=201, **kw):
    return w.ask("POST", "/v1/volumes", {"name": name, "size": size}, status=status, **kw).json()


def drop(name, status=204):
    return w.ask("DELETE", f"/v1/volumes/{name}", status=status)


def mounted(name, target="/data", **more):
    return {"mounts": [{"volume": name, "target": target, **more}]}


def out(box, command):
    r = w.run(box, command)
    eq(r["result"]["exit_code"], 0, f"{command}: {r}")
    return r["stdout"]


def path_of(name):
    return f"{w.state}/volumes/{w.rows('SELECT id FROM volumes WHERE name = ?', name)[0][0]}"


def loops():
    """The loop devices whose file is in the service's directory."""
    found = []
    for name in os.listdir("/sys/block"):
        try:
            with open(f"/sys/block/{name}/loop/backing_file", encoding="utf-8") as f:
                if w.state in f.read():
                    found.append(name)
        except OSError:
            pass
    return found


@test
def a_volume_is_created_shown_listed_and_deleted():
    made = make("data")
    eq((made["name"], made["size"], made["users"]), ("data", SIZE, 0))
    w.ask("POST", "/v1/volumes", {"name": "logs", "size": "16m", "labels": {"team": "a"}}, status=201)
    shown = w.get("/v1/volumes/logs")
    eq((shown["labels"], shown["sandboxes"], shown["size"]), ({"team": "a"}, [], 16 << 20))
    ok(shown["disk_bytes"] < shown["size"], f"a new volume is sparse: {shown}")
    eq([v["name"] for v in w.get("/v1/volumes")["volumes"]], ["data", "logs"])
    page = w.get("/v1/volumes", query={"limit": 1})
    eq((page["volumes"][0]["name"], page["next_cursor"]), ("data", "data"))
    refused(w.ask("POST", "/v1/volumes", {"name": "data"}), 409, "name_in_use", "data")
    drop("data")
    drop("logs")
    refused(drop("data", 404), 404, "volume_not_found")
    refused(w.ask("GET", "/v1/volumes/data"), 404, "volume_not_found")
    eq(w.get("/v1/volumes")["volumes"], [])
    eq(os.listdir(f"{w.state}/volumes"), [])


@test
def files_outlive_the_sandbox_and_have_their_owners_in_the_next_one():
    make("data")
    with w.box(**mounted("data")) as one:
        out(one, "echo hello >/data/a && mkdir /data/d && chown 1000:1001 /data/d && chmod 4755 /data/a")
        eq(w.show(one)["mounts"], [{"volume": "data", "target": "/data", "read_only": False}])
    until(lambda: not loops(), "the loop device is gone with the sandbox")
    with w.box(**mounted("data", "/elsewhere/x")) as two:
        eq(out(two, "cat /elsewhere/x/a; find /elsewhere/x/a /elsewhere/x/d -printf '%U:%G %m\\n'"),
           "hello\n0:0 4755\n1000:1001 755\n")
        options = out(two, "grep /elsewhere/x /proc/mounts")
        ok(BACKEND == "gvisor" or ("nosuid" in options and "nodev" in options), options)  # it does not show them
    drop("data")


@test
def owners_are_the_same_on_every_backend():
    make("data")
    see = "cd /data && find a b c -printf '%f %U:%G %m\\n' && id -u"
    expected = "a 0:0 644\nb 1000:1001 640\nc 33:44 755\n"
    with w.box(**mounted("data")) as one:
        out(one, "cd /data && echo a >a && echo b >b && mkdir c && chmod 644 a && chmod 640 b && chmod 755 c && "
                 "chown 1000:1001 b && chown 33:44 c")
        eq(out(one, see), f"{expected}0\n")
    with w.box(backend="native", **mounted("data")) as two:
        eq(out(two, see), f"{expected}0\n")
        out(two, "chown 7:8 /data/b")
        w.run(two, "touch /data/c/n", user="33")
    with w.box(**mounted("data")) as three:
        eq(out(three, "find /data/b /data/c/n -printf '%f %U:%G\\n'"), "b 7:8\nn 33:33\n")
        ok(w.run(three, "cat /data/b", user="1000")["result"]["exit_code"] != 0, "modes hold for users inside")
        eq(w.run(three, "cat /data/b", user="7")["stdout"], "b\n")
    entries = w.get("/v1/volumes/data/files/list", query={"path": "/"})["entries"]
    eq([(e["uid"], e["gid"]) for e in entries if e["path"] == "/b"], [(7, 8)])
    drop("data")


@test
def sandboxes_share_a_volume_and_one_of_them_only_reads():
    make("shared")
    with w.box(**mounted("shared")) as one, w.box(**mounted("shared", read_only=True)) as two:
        out(one, "echo first >/data/f")
        eq(out(two, "cat /data/f"), "first\n")
        r = w.run(two, "echo no >/data/f")
        ok(r["result"]["exit_code"] != 0 and "Read-only" in r["stderr"], r)
        eq(len(loops()), 1, "one loop device for both")
        eq(sorted(w.get("/v1/volumes/shared")["sandboxes"]), sorted([one, two]))
        e = refused(drop("shared", 409), 409, "volume_in_use", one, two)
        ok("2 sandboxes" in e["message"], e)
    drop("shared")


@test
def the_size_is_a_hard_limit():
    make("small", 16 << 20)
    with w.box(**mounted("small")) as one:
        r = w.run(one, "head -c 64M /dev/zero >/data/f")
        ok(r["result"]["exit_code"] != 0 and "No space left" in r["stderr"], r)
        ok(int(out(one, "wc -c </data/f")) < 16 << 20, "no more than the size is written")
    drop("small")


@test
def a_volume_is_mounted_where_it_was_after_kill_9_of_the_service():
    make("data")
    box = w.create(**mounted("data"))
    out(box, "echo kept >/data/f")
    w.kill("api", "warden")
    w.start()
    eq(out(box, "cat /data/f"), "kept\n")
    with w.box(**mounted("data")) as two:
        eq(out(two, "cat /data/f; echo more >>/data/f"), "kept\n")
        eq(len(loops()), 1)
    eq(out(box, "cat /data/f"), "kept\nmore\n")
    w.delete(box)
    until(lambda: not loops(), "the loop device is gone with the last sandbox")
    drop("data")


@test
def one_of_several_creations_of_a_name_succeeds():
    got = together(8, lambda i: w.ask("POST", "/v1/volumes", {"name": "race", "size": SIZE}).status)
    eq(sorted(got), [201] + 7 * [409])
    drop("race")


@test
def a_sandbox_wakes_if_its_volume_has_another_device():
    make("first")
    make("second")
    box = w.create(**mounted("first"))
    out(box, ["sh", "-c", "echo first >/data/x"])
    w.ask("POST", f"/v1/sandboxes/{box}/hibernate", None, status=200)
    other = w.create(**mounted("second"))  # gets the device that is free now
    out(other, ["sh", "-c", "echo second >/data/x"])
    eq(out(box, ["cat", "/data/x"]), "first\n")
    eq(out(other, ["cat", "/data/x"]), "second\n")
    for b in (box, other):
        w.delete(b)
    until(lambda: loops() == [], loops)
    drop("first")
    drop("second")


@test
def a_copy_is_consistent_and_independent():
    make("source")
    with w.box(**mounted("source")) as one:
        out(one, "echo a >/data/f && sync")
        r = w.ask("POST", "/v1/volumes/source/copy", {"name": "target"}, status=201).json()
        eq((r["name"], r["size"]), ("target", SIZE))
        out(one, "echo b >/data/f")  # writes continue after the copy
    with w.box(**mounted("target")) as two:
        eq(out(two, "cat /data/f"), "a\n")
    refused(w.ask("POST", "/v1/volumes/nothing/copy", {"name": "x"}), 404, "volume_not_found")
    refused(w.ask("POST", "/v1/volumes/source/copy", {"name": "target"}), 409, "name_in_use")
    drop("source")
    drop("target")


@test
def files_are_read_and_written_without_a_sandbox():
    make("data")
    url = "/v1/volumes/data/files"
    body = os.urandom(3 << 20)
    said = w.ask("PUT", url, body, query={"path": "/a/b/f"}, status=200).json()
    eq((said["path"], said["size"], said["uid"], said["mode"]), ("/a/b/f", len(body), 0, "0644"))
    eq(w.ask("GET", url, query={"path": "/a/b/f"}, status=200).body, body)
    eq(w.ask("GET", url, query={"path": "/a/b/f"}, headers={"Range": "bytes=10-19"}, status=206).body, body[10:20])
    w.ask("PUT", url, b"", query={"path": "/empty"}, status=200)
    eq(w.ask("GET", url, query={"path": "/empty"}, status=200).body, b"")
    w.post(f"{url}/mkdir", {"path": "/new/dir"})
    listed = w.get(f"{url}/list", query={"path": "/"})
    eq([e["path"] for e in listed["entries"]], ["/a", "/empty", "/lost+found", "/new"])
    eq(w.get(f"{url}/list", query={"path": "/", "limit": 2})["truncated"], True)
    eq(w.get(f"{url}/stat", query={"path": "/new/dir"})["type"], "directory")
    refused(w.ask("GET", url, query={"path": "/a"}), 409, "is_a_directory")
    refused(w.ask("GET", url, query={"path": "/none"}), 404, "file_not_found")
    refused(w.ask("DELETE", url, query={"path": "/a"}), 409, "directory_not_empty")
    w.ask("DELETE", url, query={"path": "/a", "recursive": "true"}, status=204)
    refused(w.ask("GET", f"{url}/stat", query={"path": "/a"}), 404, "file_not_found")
    with w.box(**mounted("data")) as one:
        out(one, "chown 7:8 /data/empty; chmod 600 /data/empty")
        w.ask("PUT", url, b"new", query={"path": "/empty"}, status=200)
        eq(out(one, "cat /data/empty; find /data/empty -printf ' %U:%G %m\\n'; "
                    "find /data -mindepth 1 -maxdepth 1 -printf '%f\\n' | sort"),
           "new 7:8 600\nempty\nlost+found\nnew\n")
    until(lambda: not loops(), "the loop device is gone")
    drop("data")


@test
def no_link_leads_out_of_a_volume():
    make("data")
    url = "/v1/volumes/data/files"
    with w.box(**mounted("data")) as one:
        out(one, "cd /data && echo mine >etc && ln -s /etc/passwd abs && ln -s ../../../../../etc/passwd up && "
                 "ln -s /proc/self/root/etc/passwd magic && ln -s / root && ln -s /etc good && mkfifo pipe")
        for name in ("abs", "up", "magic"):
            r = w.ask("GET", url, query={"path": f"/{name}"})
            ok(r.status in (404, 409), r)
        eq(w.ask("GET", url, query={"path": "/good"}, status=200).body, b"mine\n")
        eq(w.ask("GET", url, query={"path": "/root/etc"}, status=200).body, b"mine\n")
        if BACKEND != "gvisor":  # which keeps pipes to itself
            refused(w.ask("GET", url, query={"path": "/pipe"}), 409, "special_file")
        w.ask("PUT", url, b"x", query={"path": "/root/written"}, status=200)
        eq(out(one, "cat /data/written"), "x")
        w.ask("DELETE", url, query={"path": "/root", "recursive": "true"}, status=204)
        eq(out(one, "cat /data/etc"), "mine\n")
    drop("data")


@test
def a_request_that_ends_early_leaves_no_file():
    make("data")

    def pieces():
        yield b"x" * 65536
        raise InterruptedError
    try:
        w.client().send("PUT", "/v1/volumes/data/files?path=/f", pieces(), {"Content-Length": "1000000"})
    except InterruptedError:
        pass
    until(lambda: [e["path"] for e in w.get("/v1/volumes/data/files/list", query={"path": "/"})["entries"]]
          == ["/lost+found"], "the temporary file is removed")
    drop("data")


@test
def an_upload_to_a_killed_service_leaves_no_file():
    make("data")
    url, listed = "/v1/volumes/data/files", lambda: sorted(e["path"] for e in w.get(f"{url}/list", query={"path": "/"})["entries"])
    w.ask("PUT", url, b"old", query={"path": "/old"}, status=200)
    sent = []
    for name in ("new", "old"):
        sent.append(socket.socket(socket.AF_UNIX))
        sent[-1].connect(w.socket)
        sent[-1].sendall(f"PUT {url}?path=/{name} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n".encode() + b"x" * 65536)

    def open_files():
        """Returns the sizes of files that the api has open, and that have no name."""
        fds = f"/proc/{w.api}/fd"
        return [os.stat(f"{fds}/{fd}").st_size for fd in os.listdir(fds)
                if os.path.lexists(f"{fds}/{fd}") and os.readlink(f"{fds}/{fd}").endswith("(deleted)")]

    until(lambda: open_files().count(65536) == 2, "the uploads")  # positive control
    eq(listed(), ["/lost+found", "/old"])
    w.kill("api", "warden")
    w.start()
    for s in sent:
        s.close()
    eq(listed(), ["/lost+found", "/old"])
    eq(w.ask("GET", url, query={"path": "/old"}, status=200).body, b"old")
    for name in ("new", "old"):
        w.ask("PUT", url, b"whole", query={"path": f"/{name}"}, status=200)
        eq(w.ask("GET", url, query={"path": f"/{name}"}, status=200).body, b"whole")
    eq(listed(), ["/lost+found", "/new", "/old"])
    drop("data")


@test
def invalid_names_are_refused_with_the_rule():
    for name in ("../x", "a/b", ".", "..", "", "-x", "x" * 64, "x" * 300, "ä", "a b"):
        e = refused(w.ask("POST", "/v1/volumes", {"name": name}), 400, "invalid_request")
        ok("name" in e["message"], e)
    refused(w.ask("POST", "/v1/volumes", {"name": "a\0b"}), 400, "invalid_json")
    for size in (1, 16 << 20, "15m"):
        r = w.ask("POST", "/v1/volumes", {"name": "x", "size": size})
        eq(r.status, 201 if size == 16 << 20 else 400, r)
    drop("x")
    refused(w.ask("POST", "/v1/sandboxes", mounted("nothing")), 404, "volume_not_found", "nothing")
    refused(w.ask("POST", "/v1/sandboxes", mounted("x", source="/srv")), 400, "invalid_request")
    refused(w.ask("POST", "/v1/sandboxes", mounted("x", size=4096)), 400, "invalid_request")


@test
def the_volume_of_another_tenant_does_not_exist():
    make("mine")
    token = w.token("read", "write", "exec", "files", tenant="other")
    eq(w.get("/v1/volumes", token=token)["volumes"], [])
    refused(w.ask("GET", "/v1/volumes/mine", token=token), 404, "volume_not_found")
    refused(w.ask("DELETE", "/v1/volumes/mine", token=token), 404, "volume_not_found")
    refused(w.ask("POST", "/v1/volumes/mine/copy", {"name": "y"}, token=token), 404, "volume_not_found")
    refused(w.ask("GET", "/v1/volumes/mine/files", query={"path": "/f"}, token=token), 404, "volume_not_found")
    refused(w.ask("POST", "/v1/sandboxes", mounted("mine"), token=token), 404, "volume_not_found")
    make("mine", token=token)  # names are unique for each tenant
    w.ask("DELETE", "/v1/volumes/mine", token=token, status=204)
    eq(w.get("/v1/volumes/mine")["name"], "mine")
    drop("mine")


@test
def a_damaged_volume_is_an_error_for_that_volume_only():
    make("good")
    make("bad")
    make("short")
    make("lost")
    with open(path_of("bad"), "r+b") as f:
        f.write(os.urandom(1 << 20))
    os.truncate(path_of("short"), 8 << 20)
    os.unlink(path_of("lost"))
    for name in ("bad", "short", "lost"):
        refused(w.ask("GET", f"/v1/volumes/{name}/files/list", query={"path": "/"}), 409, "volume_damaged")
        r = w.ask("POST", "/v1/sandboxes", fitted(mounted(name)))
        refused(r, 409, "volume_damaged")
    with w.box(**mounted("good")) as one:
        out(one, "echo fine >/data/f")
    for box in w.sandboxes():
        w.delete(box["id"])
    for name in ("good", "bad", "short", "lost"):
        drop(name)
    eq(os.listdir(f"{w.state}/volumes"), [])


@test
def unfinished_volumes_of_a_killed_service_are_removed():
    make("kept")
    w.kill("api", "warden")
    with sqlite3.connect(f"{w.state}/serve/warren.db") as db:
        for i, state in ((0, 0), (1, 2)):
            db.execute("INSERT INTO volumes (id, tenant, name, size, state, labels, created_at) "
                       "VALUES (?, 'local', ?, 1, ?, '{}', 0)", (f"bcdfghjklmn{i}", f"n{i}", state))
            with open(f"{w.state}/volumes/bcdfghjklmn{i}", "wb") as f:
                f.truncate(SIZE)
    with open(f"{w.state}/volumes/bcdfghjklmn2.new", "wb") as f:
        f.truncate(SIZE)
    w.start()
    until(lambda: len(os.listdir(f"{w.state}/volumes")) == 1, "the files are removed")
    until(lambda: w.rows("SELECT name FROM volumes") == [("kept",)],
          lambda: w.rows("SELECT name, state, tenant FROM volumes"))
    eq([v["name"] for v in w.get("/v1/volumes")["volumes"]], ["kept"])
    drop("kept")


def warren(*args, status=0, **kw):
    env = {**os.environ, "WARREN_HOST": f"unix:{w.socket}", "WARREN_LIBEXEC": BUILD}
    r = subprocess.run([f"{BUILD}/warren", *args], env=env, capture_output=True, check=False, **kw)
    eq(r.returncode, status, f"warren {args}: {r}")
    return r.stdout.decode(), r.stderr.decode()


@test
def the_command_line_creates_copies_and_deletes_volumes():
    eq(warren("volume", "create", "--size", "16m", "-l", "team=a", "cli"), ("cli\n", ""))
    eq(json.loads(warren("volume", "inspect", "cli")[0])["labels"], {"team": "a"})
    warren("volume", "cp", "-", "cli:/in/a", input=b"from stdin")
    eq(warren("volume", "cp", "cli:/in/a", "-")[0], "from stdin")
    source, target = f"{w.dir}/source", f"{w.dir}/target"
    with open(source, "wb") as f:
        f.write(os.urandom(300_000))
    os.chmod(source, 0o750)
    warren("volume", "cp", source, "cli:/b")
    eq(w.get("/v1/volumes/cli/files/stat", query={"path": "/b"})["mode"], "0750")
    warren("volume", "cp", "cli:/b", target)
    with open(source, "rb") as a, open(target, "rb") as b:
        eq(a.read() == b.read(), True, "the file comes back unchanged")
    warren("volume", "cp", "cli", "cli-2")
    eq(warren("volume", "cp", "cli-2:/in/a", "-")[0], "from stdin")
    eq(warren("volume", "ls", "-q")[0], "cli\ncli-2\n")
    ok("16 MiB" in warren("volume", "ls")[0] or "16" in warren("volume", "ls")[0], "the list has sizes")
    for bad in (("cp", "../x:/a", "-"), ("cp", "a", "b/c"), ("rm", "../x"), ("create", "a/b"), ("cp", "/", "../x:/d")):
        ok(warren("volume", *bad, status=125)[1], f"{bad} is refused with a reason")
    ok("no volume" in warren("volume", "rm", "nothing", status=125)[1], "the error names the reason")
    said, why = warren("create", "-v", "cli:/data:ro", "-v", "fresh:/new")
    box = said.strip()
    w.seen.add(box)
    ok("created the volume 'fresh'" in why and "'cli'" not in why, why)
    eq(out(box, "cat /data/in/a; touch /new/f; touch /data/f || echo read-only"), "from stdinread-only\n")
    ok(box in warren("volume", "rm", "cli", status=125)[1], "the error names the sandbox")
    eq(warren("volume", "prune", "-f")[0], "cli-2\n")
    warren("volume", "rm", "-f", "nothing")
    w.delete(box)
    warren("volume", "rm", "cli", "fresh")


def tree(path):
    """Returns {path: content, mode, or target of a link} of everything below."""
    found = {}
    for top, dirs, files in os.walk(path):
        for name in dirs + files:
            at = os.path.join(top, name)
            short = os.path.relpath(at, path)
            if os.path.islink(at):
                found[short] = ("link", os.readlink(at))
            elif os.path.isdir(at):
                found[short] = ("dir",)
            else:
                with open(at, "rb") as f:
                    found[short] = ("file", f.read(), os.stat(at).st_mode & 0o777)
    return found


@test
def the_command_line_copies_directories():
    make("data")
    top = f"{w.dir}/tree"
    os.makedirs(f"{top}/a/b c/d")
    for name, data, mode in (("x", b"1", 0o644), ("a/run", b"#!", 0o755), ("a/b c/d/ä", os.urandom(200_000), 0o600)):
        with open(f"{top}/{name}", "wb") as f:
            f.write(data)
        os.chmod(f"{top}/{name}", mode)
    os.symlink("../x", f"{top}/a/up")
    os.symlink("/etc/passwd", f"{top}/abs")
    os.mkfifo(f"{top}/pipe")
    ok("pipe" in warren("volume", "cp", top, "data:/in/t")[1], "what is left out is named")
    os.unlink(f"{top}/pipe")
    warren("volume", "cp", "data:/in/t/", f"{w.dir}/back")
    eq(tree(f"{w.dir}/back"), tree(top))
    warren("volume", "cp", "data:/in/t", f"{w.dir}/back")  # again, over the same files
    eq(tree(f"{w.dir}/back"), tree(top))
    warren("volume", "cp", f"{top}/a", "data:/")
    eq(warren("volume", "cp", "data:/run", "-")[0], "#!")
    with w.box(**mounted("data")) as box:
        eq(out(box, "cd /data/in/t && readlink abs a/up && cat a/up && find a/run -printf '%U:%G %m\\n'"),
           "/etc/passwd\n../x\n10:0 755\n")
    refused(w.ask("PUT", "/v1/volumes/data/files", b"x", query={"path": "/l", "link": "y"}), 400, "invalid_request")
    refused(w.ask("PUT", "/v1/volumes/data/files", query={"path": "/in", "link": "y"}), 409, "is_a_directory")
    drop("data")


@test
def a_copy_to_this_machine_stays_in_its_directory():
    make("data")
    outside, into = f"{w.dir}/outside", f"{w.dir}/into"
    os.mkdir(outside)
    os.makedirs(into)
    os.symlink(outside, f"{into}/d")  # as an earlier copy of a hostile volume may have left it
    os.symlink(f"{outside}/f", f"{into}/f")
    for path in ("/d/x", "/f"):
        w.ask("PUT", "/v1/volumes/data/files", b"hostile", query={"path": path, "parents": "true"}, status=200)
    ok("d" in warren("volume", "cp", "data:/", into, status=125)[1], "the link is refused by its name")
    eq(os.listdir(outside), [])
    os.unlink(f"{into}/d")
    warren("volume", "cp", "data:/", into)
    eq((os.listdir(outside), tree(into)["f"][1], tree(into)["d/x"][1]), ([], b"hostile", b"hostile"))
    drop("data")


@test
def events_and_metrics_report_volumes():
    seen = []
    make("noted")
    ok("\nwarren_volumes 1\n" in w.ask("GET", "/metrics", status=200).body.decode(), "metrics count volumes")
    drop("noted")
    for event in w.events("/v1/events", format="ndjson", since=0):
        if event.get("volume") == "noted":
            seen.append(event["type"])
        if len(seen) == 2:
            break
    eq(seen, ["volume.created", "volume.deleted"])


@test
def a_killed_service_leaves_a_whole_volume_or_none():
    for _ in range(6):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            names = [f"k{i}" for i in range(4)]
            jobs = [pool.submit(lambda n: w.ask("POST", "/v1/volumes", {"name": n, "size": SIZE}).status, n)
                    for n in names]
            next(concurrent.futures.as_completed(jobs))
            w.kill("api", "warden")
            done = {n for n, j in zip(names, jobs) if not j.exception() and j.result() == 201}
        w.start()
        listed = {v["name"] for v in w.get("/v1/volumes")["volumes"]}
        ok(done <= listed, f"acknowledged: {done}, listed: {listed}")
        until(lambda: len(os.listdir(f"{w.state}/volumes")) == len(w.get("/v1/volumes")["volumes"]),
              "no file without a row")
        for name in listed:
            eq(w.ask("GET", f"/v1/volumes/{name}/files/list", query={"path": "/"}).status, 200)
            drop(name)


@test
def a_tenant_has_a_quota_of_volumes():
    with World("--quota-volumes", "2", "--quota-volume-bytes", "64m") as other:
        def create(name, size):
            return other.ask("POST", "/v1/volumes", {"name": name, "size": size})
        eq(create("a", "16m").status, 201)
        e = refused(create("b", "63m"), 429, "quota_exceeded")
        eq((e["detail"]["quota"], e["detail"]["used"], e["detail"]["maximum"]), ("bytes of volumes", 16 << 20, 64 << 20))
        eq(create("b", "16m").status, 201)
        eq(refused(create("c", "16m"), 429, "quota_exceeded")["detail"]["quota"], "volumes")
        refused(other.ask("POST", "/v1/volumes/a/copy", {"name": "c"}), 429, "quota_exceeded")
        other.ask("DELETE", "/v1/volumes/a", status=204)
        eq(create("c", "16m").status, 201)
        refused(other.ask("POST", "/v1/volumes", {"name": "d", "size": "16t"}), 429, "quota_exceeded")


@test
def a_volume_that_does_not_fit_on_the_disk_is_refused():
    e = refused(w.ask("POST", "/v1/volumes", {"name": "huge", "size": "16t"}), 507, "disk_full")
    ok("17592186044416" in e["message"], e)
    refused(w.ask("GET", "/v1/volumes/huge"), 404, "volume_not_found")


@test
def running_sandboxes_keep_their_volume_when_the_service_stops():
    make("data")
    box = w.create(**mounted("data"))
    ticks = w.exec(box, "while :; do echo x >>/data/log; sync; sleep 0.1; done")
    w.stop()
    eq(len(loops()), 1, "the sandbox keeps its loop device")
    with open("/proc/self/mounts", encoding="utf-8") as f:
        ok(f"{w.state}/volumes" not in f.read(), "nothing is mounted on the host")
    w.start()
    before = int(out(box, "wc -l </data/log"))
    until(lambda: int(out(box, "wc -l </data/log")) > before, "it goes on writing")
    ok(ticks in [e["id"] for e in w.get(f"/v1/sandboxes/{box}/execs")["execs"]], "the exec is still there")
    w.delete(box)
    until(lambda: not loops(), "the loop device is gone with the sandbox")
    drop("data")


@test
def a_sandbox_that_dies_by_itself_releases_its_volume():
    make("data")
    made = w.post("/v1/sandboxes", fitted({**mounted("data"), "main": shell("echo done >/data/f"), "on_exit": "delete"}),
                  status=201)
    w.reaches(made["id"], "gone")
    until(lambda: not loops(), "the loop device is gone")
    eq(w.ask("GET", "/v1/volumes/data/files", query={"path": "/f"}, status=200).body, b"done\n")
    drop("data")


@test
def other_backends_refuse_volumes_by_name():
    with World(config=CONFIGS["chroot"]) as other:
        other.ask("POST", "/v1/volumes", {"name": "data", "size": SIZE}, status=201)
        refused(other.ask("POST", "/v1/sandboxes", mounted("data")), 501, "not_supported", "chroot", "volumes")
        with other.box(backend="native", **mounted("data")) as box:  # the control
            eq(other.run(box, "touch /data/f")["result"]["exit_code"], 0)
        other.ask("DELETE", "/v1/volumes/data", status=204)


@test
def a_template_mounts_a_volume():
    with World(config="templates:\n  t:\n    mounts:\n      - { volume: data, target: /data }\n") as other:
        refused(other.ask("POST", "/v1/sandboxes", {"template": "t"}), 404, "volume_not_found")
        other.ask("POST", "/v1/volumes", {"name": "data", "size": SIZE}, status=201)
        with other.box(template="t") as box:
            eq(other.run(box, "touch /data/f")["result"]["exit_code"], 0)
        other.ask("DELETE", "/v1/volumes/data", status=204)


@test
def set_id_programs_and_devices_in_a_volume_have_no_effect():
    make("data")
    with w.box(**mounted("data")) as box:
        out(box, "cp /usr/bin/id /data/id && chmod 4755 /data/id && chown 0:0 /data/id && chmod 4755 /data/id")
        r = w.run(box, ["/data/id", "-u"], user="1000")
        eq(r["stdout"], "1000\n", "a set-uid program runs as its caller")
        ok(w.run(box, "mknod /data/null c 1 3 && echo x >/data/null")["result"]["exit_code"] != 0, "no device is usable")
    drop("data")


@test
def a_volume_that_a_killed_copy_froze_is_writable_again():
    if BACKEND != "native":
        raise Skip("the mount of another backend's sandbox is not visible in /proc")
    make("data")
    with w.box(**mounted("data")) as box:
        w.exec(box, "sleep 1000")
        inside = [p for p in below(w.warden) if is_apart(p) and os.path.isdir(f"/proc/{p}/root/data/lost+found")]
        top = os.open(f"/proc/{inside[0]}/root/data", os.O_RDONLY)
        fcntl.ioctl(top, FIFREEZE, 0)  # as a copy does, which then dies
        os.close(top)
        with open(f"{w.state}/volumes/bcdfghjklmn0.new", "wb"):
            pass
        w.kill("api", "warden")
        w.start()
        out(box, "echo more >>/data/f && sync")
    drop("data")


@test
def users_of_a_volume_come_and_go_at_the_same_time():
    make("busy")

    def use(i):
        for n in range(6):
            if i < 2:
                with w.box(**mounted("busy")) as box:
                    out(box, f"echo {n} >>/data/{i} && sync")
            else:
                w.ask("PUT", "/v1/volumes/busy/files", b"x", query={"path": f"/f{i}-{n}"}, status=200)
                w.ask("GET", "/v1/volumes/busy/files", query={"path": f"/f{i}-{n}"}, status=200)
    eq(together(4, use), [None] * 4)
    for i in (0, 1):
        eq(w.ask("GET", "/v1/volumes/busy/files", query={"path": f"/{i}"}, status=200).body, b"0\n1\n2\n3\n4\n5\n")
    until(lambda: not loops(), "no loop device is left")
    eq(subprocess.run(["e2fsck", "-fn", path_of("busy")], capture_output=True, check=False).returncode, 0)
    drop("busy")


def main():
    global w  # pylint: disable=global-statement
    try:
        with World() as w:
            return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
