#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-edges.py - answers of E2B's data plane in cases that the SDKs meet rarely"""
import contextlib
import json
import os
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, ok, eq  # pylint: disable=wrong-import-position
from e2b_raw import RawWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from serve_world import until  # pylint: disable=wrong-import-position

WORLD = []
FS = "filesystem.Filesystem"


def w():
    if not WORLD:
        WORLD.append(RawWorld())
    return WORLD[0]


# ---------------------------------------------------------------- files

LINKS = """cd /tmp; mkdir -p d/sub e; echo x >f; chmod 640 f; chmod 750 d; mkfifo fifo
ln -s d to_dir; ln -s /tmp/d absolute; ln -s to_dir chain; ln -s f to_file; ln -s /tmp/nothing dangling; ln -s fifo to_fifo
ln -s loop loop; ln -s /tmp/d/sub e/up; ln -s e/up/../../f through; ln -s /tmp/no/thing lost"""
WANTED = {
    "to_dir": ("FILE_TYPE_DIRECTORY", 0o750, "/tmp/d"),
    "absolute": ("FILE_TYPE_DIRECTORY", 0o750, "/tmp/d"),
    "chain": ("FILE_TYPE_DIRECTORY", 0o750, "/tmp/d"),
    "to_file": ("FILE_TYPE_FILE", 0o640, "/tmp/f"),
    "through": ("FILE_TYPE_FILE", 0o640, "/tmp/f"),
    "to_fifo": ("FILE_TYPE_UNSPECIFIED", None, "/tmp/fifo"),
    "dangling": ("FILE_TYPE_UNSPECIFIED", None, "/tmp/nothing"),
    "loop": ("FILE_TYPE_UNSPECIFIED", None, None),
    "lost": ("FILE_TYPE_UNSPECIFIED", None, None),
}


def is_link(entry, wanted, what):
    kind, mode, target = wanted
    eq((entry["type"], entry.get("symlinkTarget"), entry["isSymlink"], entry["permissions"]),
       (kind, target, True, "Lrwxrwxrwx"), what)
    ok(mode is None or entry["mode"] == mode, f"{what}: {entry}")


@test
def a_link_to_a_name_that_is_too_long_leads_nowhere():
    with w().e2b_box() as box:
        w().shell(box, f"mkdir /tmp/l; touch /tmp/l/{'a' * 255}; ln -s {'a' * 255} /tmp/l/fits; ln -s {'a' * 256} /tmp/l/long")
        status, listed = w().rpc(box, f"{FS}/ListDir", {"path": "/tmp/l"})
        eq((status, len(listed.get("entries", []))), (200, 3), listed)
        listed = {e["name"]: e for e in listed["entries"]}
        eq(listed["fits"].get("type"), "FILE_TYPE_FILE", "a control")
        ok(listed["long"].get("type") != "FILE_TYPE_FILE", listed["long"])


@test
def a_link_has_the_type_of_what_it_leads_to():
    with w().e2b_box() as box:
        w().shell(box, LINKS)
        status, listed = w().rpc(box, f"{FS}/ListDir", {"path": "/tmp"})
        eq(status, 200, listed)
        listed = {e["name"]: e for e in listed["entries"]}
        for name, wanted in WANTED.items():
            status, found = w().rpc(box, f"{FS}/Stat", {"path": f"/tmp/{name}"})
            eq(status, 200, found)
            is_link(found["entry"], wanted, f"Stat {name}")
            is_link(listed[name], wanted, f"ListDir {name}")
        # A directory on the way may be a link, too.
        found = w().rpc(box, f"{FS}/Stat", {"path": "/tmp/chain/../to_file"})[1]["entry"]
        is_link(found, WANTED["to_file"], found)
        w().shell(box, "ln -s sub /tmp/d/inner")
        is_link(w().rpc(box, f"{FS}/Stat", {"path": "/tmp/chain/inner"})[1]["entry"],
                ("FILE_TYPE_DIRECTORY", None, "/tmp/d/sub"), "below a link")
        ok("isSymlink" not in listed["d"] and listed["d"]["type"] == "FILE_TYPE_DIRECTORY", listed["d"])


@test
def a_change_of_a_link_describes_what_it_leads_to():
    with w().e2b_box() as box:
        w().shell(box, "mkdir -m 750 /tmp/d /tmp/w")
        watcher = w().rpc(box, f"{FS}/CreateWatcher", {"path": "/tmp/w", "includeEntry": True})[1]
        w().shell(box, "cd /tmp/w; ln -s /tmp/d link; touch last")
        events = []

        def complete():
            events.extend(w().rpc(box, f"{FS}/GetWatcherEvents", watcher)[1]["events"])
            return any(e["name"] == "last" for e in events)

        until(complete, "the changes")
        is_link(next(e for e in events if e["name"] == "link")["entry"], ("FILE_TYPE_DIRECTORY", 0o750, "/tmp/d"), events)


@test
def files_of_new_directories_are_reported_once():
    """A file in a new directory is reported, whether it is older or newer than the watch of the directory."""
    with w().e2b_box() as box:
        w().shell(box, "mkdir /tmp/w")
        watcher = w().rpc(box, f"{FS}/CreateWatcher", {"path": "/tmp/w", "recursive": True, "includeEntry": True})[1]
        for turn in range(8):
            top, pause = f"t{turn}", "sleep 0.01" if turn % 2 else ":"
            w().shell(box, f"cd /tmp/w; mkdir -p {top}/sub/deep {top}/gone; for i in 1 2 3 4 5 6; do touch {top}/f$i; {pause}; "
                           f"echo x >{top}/sub/g$i; ln -s x {top}/sub/deep/l$i; mkdir -p {top}/d$i/e; echo y >{top}/d$i/e/h; done; "
                           f"touch {top}/gone/x; rm {top}/gone/x; touch {top}/gone/x; touch end{turn}")
            made = {x[len("/tmp/w/"):] for x in w().shell(box, f"find /tmp/w/{top} /tmp/w/end{turn}").split()}
            events = []

            def complete(turn=turn, made=made, events=events):
                events.extend(w().rpc(box, f"{FS}/GetWatcherEvents", watcher)[1]["events"])
                return made | {f"end{turn}"} <= {e["name"] for e in events}

            until(complete, lambda made=made, events=events: made - {e["name"] for e in events})
            created = [e["name"] for e in events if e["type"] == "EVENT_TYPE_CREATE"]
            removed = [e["name"] for e in events if e["type"] == "EVENT_TYPE_REMOVE"]
            for name in created:
                eq(created.count(name), 1 + removed.count(name), f"{name}: {events}")
            ok(made <= set(created), made - set(created))
            parents = [x for x in made if any(y.startswith(f"{x}/") for y in made)]
            for parent in parents:
                ok(all(created.index(parent) < created.index(x) for x in created if x.startswith(f"{parent}/")), (parent, created))


def stream_error(box, method, message):
    """The code of the first message that is an error; None: it begins without one."""
    with contextlib.closing(w().open_stream(box, method, message)) as c:
        r = c.getresponse()
        eq(r.status, 200)
        first = json.loads(r.read(struct.unpack(">BI", r.read(5))[1]))
        return first.get("error", {}).get("code")


@test
def every_request_about_files_has_the_code_of_its_error():
    with w().e2b_box() as box:
        w().shell(box, "cd /tmp; mkdir -p closed/in open/full/x; touch file; ln -s loop loop; chmod 0 closed")
        paths = {
            "/tmp/open": None,
            "/root": "permission_denied",
            "/tmp/closed": "permission_denied",
            "/tmp/closed/in": "permission_denied",
            "/tmp/nothing": "not_found",
            "/tmp/file": "invalid_argument",
            "/tmp/file/x": "invalid_argument",
            "/tmp/loop/x": "invalid_argument",
            "/" + "x" * 300: "invalid_argument",
        }
        for path, code in paths.items():
            for method in ("ListDir", "CreateWatcher"):
                got = w().rpc(box, f"{FS}/{method}", {"path": path})
                eq(got[1].get("code") if got[0] != 200 else None, code, f"{method} {path}: {got}")
            eq(stream_error(box, f"{FS}/WatchDir", {"path": path}), code, f"WatchDir {path}")
        others = [
            ("Stat", {"path": "/tmp/closed/in"}, "permission_denied"),
            ("Stat", {"path": "/tmp/file/x"}, "invalid_argument"),
            ("Stat", {"path": "/tmp/nothing"}, "not_found"),
            ("MakeDir", {"path": "/root/x"}, "permission_denied"),
            ("MakeDir", {"path": "/tmp/file"}, "invalid_argument"),
            ("MakeDir", {"path": "/tmp/file/x"}, "invalid_argument"),
            ("MakeDir", {"path": "/tmp/open"}, "already_exists"),
            ("Move", {"source": "/tmp/nothing", "destination": "/tmp/x"}, "not_found"),
            ("Move", {"source": "/tmp/file", "destination": "/root/x"}, "permission_denied"),
            ("Move", {"source": "/tmp/closed/in", "destination": "/tmp/x"}, "permission_denied"),
            ("Remove", {"path": "/etc/passwd"}, "permission_denied"),
            ("Remove", {"path": "/tmp/closed/in"}, "permission_denied"),
            ("Remove", {"path": "/tmp/nothing"}, None),
        ]
        for method, message, code in others:
            got = w().rpc(box, f"{FS}/{method}", message)
            eq(got[1].get("code") if got[0] != 200 else None, code, f"{method} {message}: {got}")
        w().shell(box, "chmod 700 /tmp/closed")


# ---------------------------------------------------------------- input of commands

PROCESS = "process.Process"
STDIN = {"input": {"stdin": "eA=="}}


def begun(box, text, **fields):
    """Starts a command, whose client leaves; returns what names it."""
    start = {"process": {"cmd": "/bin/bash", "args": ["-c", text]}, **fields}
    with contextlib.closing(w().open_stream(box, f"{PROCESS}/Start", start)) as c:
        r = c.getresponse()
        first = json.loads(r.read(struct.unpack(">BI", r.read(5))[1]))
    return {"process": first["event"]["start"]}


def is_idle(box):
    return not w().rpc(box, f"{PROCESS}/List", {})[1]["processes"]


def ended(box, text):
    which = begun(box, text)
    until(lambda: is_idle(box), "the end of the command")
    return which


def code(answer):
    return answer[1].get("code") if answer[0] != 200 else None


@test
def a_command_that_has_ended_takes_no_input():
    with w().e2b_box() as box:
        running = begun(box, "cat >/tmp/got")
        eq(code(w().rpc(box, f"{PROCESS}/SendInput", {**running, **STDIN})), None, "positive control")
        for _ in range(2):
            eq(code(w().rpc(box, f"{PROCESS}/CloseStdin", running)), None, "running, or closed before")
        until(lambda: is_idle(box), "the end of the command")
        eq(w().shell(box, "cat /tmp/got"), "x")
        for which in (running, ended(box, "exit 3")):
            for _ in range(2):
                eq(code(w().rpc(box, f"{PROCESS}/CloseStdin", which)), None, which)
            for method, more in (("SendInput", STDIN), ("SendSignal", {"signal": "SIGNAL_SIGTERM"}),
                                 ("Update", {"pty": {"size": {"rows": 1, "cols": 1}}})):
                eq(code(w().rpc(box, f"{PROCESS}/{method}", {**which, **more})), "not_found", method)
        eq(code(w().rpc(box, f"{PROCESS}/CloseStdin", {"process": {"pid": 99999}})), "not_found")
        deaf = begun(box, "sleep 60", stdin=False)
        eq(code(w().rpc(box, f"{PROCESS}/CloseStdin", deaf)), None, "there is nothing to close")
        eq(w().rpc(box, f"{PROCESS}/SendInput", {**deaf, **STDIN}),
           (500, {"code": "internal", "message": "error writing to stdin: stdin not enabled or closed"}))


def input_stream(box, body):
    """Returns the messages of an answer to StreamInput."""
    with contextlib.closing(w().open_request("POST", f"/{PROCESS}/StreamInput", body,
                                             **{**w().plane(box), "Content-Type": "application/connect+json"})) as c:
        r = c.getresponse()
        eq((r.status, r.getheader("Content-Type")), (200, "application/connect+json"))
        rest, found = r.read(), []
    while rest:
        flags, n = struct.unpack(">BI", rest[:5])
        found.append((flags, json.loads(rest[5:5 + n])))
        rest = rest[5 + n:]
    return found


def framed(message):
    text = json.dumps(message).encode()
    return struct.pack(">BI", 0, len(text)) + text


@test
def a_stream_of_input_that_is_not_complete_is_an_error():
    with w().e2b_box() as box:
        running = begun(box, "cat >/tmp/got")
        start, data = framed({"start": running}), framed({"data": STDIN})
        eq(input_stream(box, start + data), [(0, {}), (2, {})], "positive control")
        eq(input_stream(box, start), [(0, {}), (2, {})], "without data")
        for body in (b"", None, start[:3], start[:-1], start + data[:4], start + data[:-1]):
            found = input_stream(box, body)
            eq([(flags, m.get("error", {}).get("code")) for flags, m in found], [(2, "invalid_argument")], body)
        w().rpc(box, f"{PROCESS}/CloseStdin", running)
        gone = framed({"start": ended(box, "true")})
        eq(input_stream(box, gone + data)[-1][1]["error"]["code"], "not_found")


# ---------------------------------------------------------------- the control plane


@test
def times_of_metrics_are_checked():
    with w().e2b_box() as box:
        path = f"/sandboxes/{box['sandboxID']}/metrics"
        for query in ("start=x", "end=-1", "start=99999999999999999999", "end=1.5", "start=0x10", "start=1&end=%20"):
            status, answer = w().control("GET", f"{path}?{query}")
            eq((status, answer["code"]), (400, 400), f"{query}: {answer}")
            ok(answer["message"].startswith(("start: ", "end: ")), answer)
        for query, n in (("", 1), ("?start=1&end=9999999999", 1), ("?end=1", 0), ("?start=9999999999", 0), ("?unknown=x", 1), ("?start=", 1)):
            status, answer = w().control("GET", f"{path}{query}")
            eq((status, len(answer)), (200, n), f"{query}: {answer}")


@test
def a_sandbox_needs_a_template():
    for path in ("/sandboxes", "/v2/sandboxes"):
        for body in (None, "", {}, {"templateID": None}, {"timeout": 60}, {"templateID": ""}):
            status, answer = w().control("POST", path, body)
            eq((status, answer["code"]), (400, 400), f"{body}: {answer}")
        status, made = w().control("POST", path, {"templateID": "base"})  # positive control
        eq(status, 201, made)
        eq(w().control("DELETE", f"/sandboxes/{made['sandboxID']}")[0], 204)
    eq(w().control("GET", "/v2/sandboxes"), (200, []))


def end_of(box):
    """The end of a sandbox in the words of both APIs."""
    status, answer = w().control("GET", f"/sandboxes/{box}")
    eq(status, 200, answer)
    return answer["endAt"][:10], w().get(f"/v1/sandboxes/{box}", token=w().secret)["ttl_ms"]


@test
def a_sandbox_without_an_end_does_not_look_expired():
    w().control("GET", "/v2/sandboxes")  # makes the key
    box = w().create(token=w().secret, image="host", user="user")
    at, never = f"/sandboxes/{box}", ("9999-12-31", None)
    eq(end_of(box), never)
    for body in ({}, {"timeout": 60}):
        eq(w().control("POST", f"/v2{at}/connect", body)[0], 200)
        eq(end_of(box), never, "a running sandbox does not get an end")
    eq(w().control("POST", f"{at}/pause", {})[0], 204)
    ok(end_of(box)[0] < "9", "the time of its pause")
    eq(w().control("POST", f"/v2{at}/connect", {})[0], 201)
    eq(end_of(box), never)
    eq(w().control("POST", f"{at}/pause", {})[0], 204)
    eq(w().control("POST", f"/v2{at}/connect", {"timeout": 600})[0], 201)
    ok(end_of(box)[0] < "9" and end_of(box)[1], "the client has asked for an end")
    eq(w().control("DELETE", at)[0], 204)


# ---------------------------------------------------------------- the authority of warren-egress


def with_header(status):
    """Creates a sandbox with a rule that adds a header; returns the error."""
    rules = {"a.test": [{"transform": {"headers": {"X-A": "b"}}}]}
    found, made = w().control("POST", "/v2/sandboxes", {"templateID": "base", "network": {"rules": rules}})
    ok(found in status, f"{found}: {made}")
    if found != 201:
        return made["message"]
    eq(w().control("DELETE", f"/sandboxes/{made['sandboxID']}")[0], 204)
    return None


@test
def an_authority_that_could_not_be_created_is_created_when_it_is_needed():
    # It is as if the disk were full: no file can be created next to the database.
    with w().e2b_box() as box:
        os.chmod(f"{w().state}/serve", 0o555)
        try:
            eq(w().control("PUT", f"/sandboxes/{box['sandboxID']}/network", {"allow_internet_access": True})[0], 204)
            ok(not os.path.exists(f"{w().state}/serve/authority.pem"), "it was created")
            with_header(range(400, 600))
        finally:
            os.chmod(f"{w().state}/serve", 0o700)
        with_header([201])
        ok(os.path.exists(f"{w().state}/serve/authority.pem"), "it was not created")
        with_header([201])


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
