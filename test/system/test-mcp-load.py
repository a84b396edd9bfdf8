#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-mcp-load.py - MCP with messages of maximum size: other clients are served at the same time, and answers are
complete

Limits are checked by order of magnitude, as in test-loop-load.py. In an earlier version, large answers were copied in
one turn of the loop, which took 0.1 seconds of processor time and delayed others by 3.7 seconds on a busy machine.
"""
import base64
import hashlib
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import MIB, eq, noise, ok, run_tests, test  # pylint: disable=wrong-import-position
from loop_probe import Probe, at_once  # pylint: disable=wrong-import-position
from mcp_world import Legacy, Modern  # pylint: disable=wrong-import-position
from serve_world import World  # pylint: disable=wrong-import-position

TURN = 0.05  # seconds of processor time that one turn of the loop may take
CLIENTS = 8
WORLD = World()
BOX = WORLD.create(limits={"memory": "1g", "disk": "512m"})
PROBE = Probe(WORLD)


def large(what, method, params, check, clients=CLIENTS):
    """Makes the same call from several clients at once; check(result) raises an exception if the result is wrong."""
    def one(_):
        return Modern(WORLD).result(method, params)
    with PROBE.bounded(what, most=TURN):
        results = at_once(clients, one)
    for r in results:
        check(r)


def tool(what, check, **arguments):
    large(what, "tools/call", {"name": what, "arguments": {"sandbox": BOX, **arguments}},
          lambda r: check(r.get("structuredContent"), r))


@test
def the_largest_files_keep_turns_short():
    WORLD.run(BOX, "head -c 4194304 /dev/urandom >/noise; tr '\\0' '\\1' </dev/zero | head -c 4194304 >/ones; seq 2000000 >/lines; "
                   "mkdir /many; cd /many; seq 20000 | xargs touch", timeout_ms=60000, wait_ms=60000)
    tool("download", lambda s, r: eq((s["length"], len(r["content"][1]["resource"]["blob"])), (4 * MIB, 5592408)),
         path="/noise", limit=4 * MIB)
    tool("read_file", lambda s, _: eq((s["truncated"], s["content"]), (True, "\1" * 262144)), path="/ones")
    tool("read_file", lambda s, _: ok(s["content"].startswith("1900000\n"), s["content"][:20]), path="/lines", offset=1900000)
    # Each byte takes six in JSON; the service keeps at most 128 MiB of answers.
    large("a resource", "resources/read", {"uri": f"warren://{BOX}/ones"},
          lambda r: eq(len(r["contents"][0]["text"]), 4 * MIB), clients=4)
    # Earlier versions copied files as a whole, several times in one turn. Now they are copied in pieces, which must
    # arrive in order.
    data, text = noise(5 * MIB), noise(7 * MIB // 2).hex()
    tool("upload", lambda s, _: eq(s["size"], 5 * MIB), path="/up", data=base64.b64encode(data).decode())
    tool("write_file", lambda s, _: eq(s["size"], 7 * MIB), path="/wr", content=text)
    eq(WORLD.run(BOX, "sha256sum </up; sha256sum </wr")["stdout"].split()[::2],
       [hashlib.sha256(x).hexdigest() for x in (data, text.encode())], "what was written")
    tool("list_files", lambda s, _: eq((len(s["entries"]), s["truncated"]), (5000, True)), path="/many", limit=5000)
    tool("search_files", lambda s, _: ok(s["truncated"], "all matches"), path="/", content="1", max_matches=2000)


@test
def the_largest_output_keeps_turns_short():
    zeros = "head -c 600000 /dev/zero; head -c 600000 /dev/zero >&2"
    tool("run_command", lambda s, _: eq((s["stdout"].count("\0"), s["stderr"].count("\0")), (262144,) * 2),
         command=zeros, max_output=262144)
    tool("run_command", lambda s, _: eq(s["stdout"], f"{6 * MIB}\n"), command="wc -c", stdin="x" * (6 * MIB))
    large("code_run", "tools/call", {"name": "code_run", "arguments": {
        "language": "bash", "code": zeros, "files": {f"f{i}": "x" * 300000 for i in range(20)}}},
        lambda r: ok(r["structuredContent"]["truncated"], "output that is not truncated"))


@test
def the_largest_arrays_keep_turns_short():
    def lists(m):
        return [m.message("tools/list") for _ in range(100)]

    def downloads(m):
        return [m.message("tools/call", {"name": "download", "arguments": {"sandbox": BOX, "path": "/noise", "limit": 4 * MIB}})
                for _ in range(4)]

    for what, messages in (("lists", lists), ("downloads", downloads)):
        def one(_, messages=messages):
            with Legacy(WORLD, version="2025-03-26") as m:
                asked = messages(m)
                a = m.raw(asked)
                eq(a.status, 200)
                return sorted(x["id"] for x in a.last if "result" in x) == sorted(x["id"] for x in asked)
        with PROBE.bounded(f"arrays of {what}", most=TURN):
            eq(at_once(4, one), [True] * 4, "all answers of an array")


@test
def the_largest_bodies_are_refused_in_short_turns():
    """The requests are refused. In an earlier version, forty thousand variables took forty seconds."""
    m = Modern(WORLD)
    for what, more in (("values", {"x": [[]] * 90000}), ("variables", {"env": {f"E{i:05}": "x" * 24 for i in range(40000)}}),
                       ("text", {"x": "\u00e4" * (3 * MIB)})):
        message = m.message("tools/call", {"name": "run_command", "arguments": {"sandbox": BOX, "command": "true", **more}})
        body = json.dumps(message, ensure_ascii=False).encode()
        with PROBE.bounded(f"{what}: {len(body) >> 10} KiB", most=TURN):
            answers = at_once(CLIENTS, lambda _, body=body, h=m.headers_for(message): Modern(WORLD).raw(body, headers=h))
        for a in answers:
            ok("error" in a.last or a.last["result"]["isError"], f"{what}: {a}")
    # The maximum number of variables.
    large("variables", "tools/call", {"name": "run_command", "arguments": {
        "sandbox": BOX, "command": "echo $E01023", "env": {f"E{i:05}": "x" * 1000 for i in range(1024)}}},
        lambda r: eq(r["structuredContent"]["stdout"], "x" * 1000 + "\n"), clients=2)


@test
def fifty_sessions_keep_turns_short():
    def one(i):
        with Legacy(WORLD) as m:
            m.good("write_file", path="/mine", content=str(i))
            return m.good("run_command", command="cat /mine")["stdout"]
    with PROBE.bounded("fifty sessions", most=TURN):
        eq(at_once(50, one), [str(i) for i in range(50)])


if __name__ == "__main__":
    with WORLD:
        status = run_tests()
        PROBE.close()
    sys.exit(status)
