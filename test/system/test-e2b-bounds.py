#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-bounds.py - what E2B's data plane keeps for clients is limited, and counts for their tenant"""
import contextlib
import http.client
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, ok, eq  # pylint: disable=wrong-import-position
from e2b_raw import RawWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from serve_world import until  # pylint: disable=wrong-import-position

WORLD = []
SANITIZED = "WARREN_SANITIZE" in os.environ  # then memory that was freed is kept for a while
LIST, WATCH = "filesystem.Filesystem/ListDir", "filesystem.Filesystem/CreateWatcher"
EVENTS, STREAM = "filesystem.Filesystem/GetWatcherEvents", "filesystem.Filesystem/WatchDir"


# Room for many files.
CONFIG = """
templates:
  large: { image: host, limits: { disk: 1g, memory: 2g } }
"""


def w():
    if not WORLD:
        WORLD.append(RawWorld(config=CONFIG))
    return WORLD[0]


def peak(again=False):
    """The largest amount of memory that the api has used, so far or from now on, in MiB."""
    if again:
        with open(f"/proc/{w().api}/clear_refs", "w", encoding="ascii") as f:
            f.write("5")
    with open(f"/proc/{w().api}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM:")) >> 10


def make_files(box, directory, n):
    w().shell(box, f"mkdir -p {directory} && cd {directory} && seq -w {n} | xargs touch")


@test
def a_large_list_is_complete_and_takes_little_memory():
    with w().e2b_box() as box:
        make_files(box, "/tmp/many/inner", 60000)
        w().shell(box, "cd /tmp/many && ln -s inner/00001 link && echo x >last")
        w().rpc(box, LIST, {"path": "/tmp"})
        before = peak(again=True)
        status, answer = w().rpc(box, LIST, {"path": "/tmp/many", "depth": 2})
        eq(status, 200, answer)
        names = [e["path"] for e in answer["entries"]]
        wanted = ["/tmp/many/inner"] + [f"/tmp/many/inner/{i:05}" for i in range(1, 60001)]
        eq(names, wanted + ["/tmp/many/last", "/tmp/many/link"])
        eq([e["symlinkTarget"] for e in answer["entries"] if e.get("isSymlink")], ["/tmp/many/inner/00001"])
        ok(SANITIZED or peak() - before < 16, f"{before} MiB, then {peak()}")


@test
def a_client_that_does_not_read_a_list_keeps_nothing_in_memory():
    with w().e2b_box() as box:
        make_files(box, "/tmp/many", 30000)
        w().rpc(box, LIST, {"path": "/tmp"})
        before = peak(again=True)
        slow = [w().open_request("POST", f"/{LIST}", {"path": "/tmp/many"}, **w().plane(box)) for _ in range(8)]
        answers = [c.getresponse() for c in slow]
        eq(len(w().rpc(box, LIST, {"path": "/tmp/many"})[1]["entries"]), 30000)
        ok(SANITIZED or peak() - before < 40, f"{before} MiB, then {peak()}")
        eq({len(json.loads(r.read())["entries"]) for r in answers}, {30000})
        for c in slow:
            c.close()


@test
def a_directory_with_too_many_entries_is_refused():
    with w().e2b_box(templateID="large") as box:
        make_files(box, "/tmp/many", 100000)
        eq(len(w().rpc(box, LIST, {"path": "/tmp/many"})[1]["entries"]), 100000)
        w().shell(box, "touch /tmp/many/one-more")
        status, answer = w().rpc(box, LIST, {"path": "/tmp/many"})
        eq((status, answer["code"]), (429, "resource_exhausted"), answer)
        ok("more than 100000 entries" in answer["message"], answer)


@test
def watchers_take_little_memory_and_lose_nothing():
    with w().e2b_box() as box:
        w().shell(box, "mkdir /tmp/w")
        watchers = [w().rpc(box, WATCH, {"path": "/tmp/w", "includeEntry": True})[1]["watcherId"] for _ in range(40)]
        before = peak(again=True)
        w().shell(box, "cd /tmp/w && for i in $(seq 3000); do n=$(printf '%0200d' $i); : >$n; done")
        until(lambda: w().shell(box, "ls /tmp/w | wc -l") == "3000\n", "the files")
        found = []

        def collect():
            status, answer = w().rpc(box, EVENTS, {"watcherId": watchers[0]})
            eq(status, 200, answer)
            found.extend(e["name"] for e in answer["events"] if e["type"] == "EVENT_TYPE_CREATE")
            return len(found) == 3000
        until(collect, "all changes")
        eq(found, [f"{i:0200}" for i in range(1, 3001)])
        ok(SANITIZED or peak() - before < 64, f"{before} MiB, then {peak()}")


@test
def the_end_of_a_sandbox_aborts_its_watches():
    for fields in ({}, {"recursive": True, "includeEntry": True}):
        with w().e2b_box() as box, contextlib.closing(w().open_stream(box, STREAM, {"path": "/tmp", **fields})) as c:
            r = c.getresponse()
            begun = r.read1()
            ok(b'"start"' in begun, begun)
            eq(w().control("DELETE", f"/sandboxes/{box['sandboxID']}")[0], 204)
            try:
                rest = r.read()
                whole = True
            except http.client.IncompleteRead as e:
                rest, whole = e.partial, False
            eq((b"\x02\0\0" in rest, whole), (False, False), rest)
    with w().e2b_box() as box:
        last = w().stream(box, STREAM, {"path": "/tmp"}, **{"Connect-Timeout-Ms": "100"})[-1]
        eq(last["error"]["code"], "deadline_exceeded", last)


@test
def streams_of_one_tenant_leave_connections_for_others():
    with RawWorld("--request-connections", "64") as other:
        with other.e2b_box() as box, contextlib.ExitStack() as busy:
            refused = None
            for n in range(64):
                c = other.open_stream(box, "filesystem.Filesystem/WatchDir", {"path": "/tmp"})
                busy.callback(c.close)
                got = c.getresponse().read1()
                if b'"start"' not in got:
                    refused = got
                    break
            ok(refused and b"requests in progress over TCP" in refused, f"after {n}: {refused}")
            # Others can connect, and so can the same tenant when it ends a stream.
            status, _ = other.request("GET", "/v2/sandboxes", None, **{"X-API-Key": other.key(tenant="modest")})
            eq(status, 200)
            busy.close()
            until(lambda: other.request("GET", "/health", None, **other.plane(box))[0] == 204, "a free connection")


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
