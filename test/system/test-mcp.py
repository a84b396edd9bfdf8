#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-mcp.py - the Model Context Protocol over HTTP: legacy and modern versions, sessions, and every tool"""
import base64
import json
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from mcp_world import Legacy, META, MODERN, Modern, NEWEST, events, gone  # pylint: disable=wrong-import-position
from serve_world import World, needs, until  # pylint: disable=wrong-import-position

WORLD = World(tcp=True)
ADMIN = WORLD.token("admin")


# ------------------------------------------------------------------ initialization


@test
def versions_are_negotiated():
    for offered, got in (("2024-11-05",) * 2, ("2025-03-26",) * 2, ("2025-06-18",) * 2, (NEWEST,) * 2,
                         (MODERN, NEWEST), ("nonsense", NEWEST)):
        with Legacy(WORLD, version=offered) as m:
            eq(m.begun["protocolVersion"], got, f"of {offered}")
            eq(m.begun["serverInfo"]["name"], "warren")
            eq(m.result("ping"), {})
    d = Modern(WORLD).result("server/discover")
    eq((d["supportedVersions"], d["resultType"], d["ttlMs"], d["cacheScope"]), ([MODERN], "complete", 0, "private"))


@test
def tools_are_listed_with_their_schemas():
    with Legacy(WORLD) as m:
        tools = m.result("tools/list")["tools"]
        eq(tools, Modern(WORLD).result("tools/list")["tools"], "both eras have the same")
        for t in tools:
            for schema in (t["inputSchema"], t["outputSchema"]):
                eq(schema["type"], "object", t["name"])
                ok(set(schema.get("required", ())) <= set(schema["properties"]), t["name"])
                ok(all(p["description"] and p["type"] for p in schema["properties"].values()), t["name"])
            for name, p in t["inputSchema"]["properties"].items():
                ok(p["type"] not in ("object", "array") or p.get("maxProperties", p.get("maxItems")), f"{t['name']}: {name} has no limit")
            ok(t["description"] and t["title"], t["name"])
            eq(len(t["annotations"]), 5, t["name"])
        m.error("tools/list", {"cursor": "x"}, code=-32602, status=200)
    Modern(WORLD).error("tools/list", {"cursor": "x"}, code=-32602, status=400)


# ----------------------------------------------------------------- sandbox of a session


@test
def a_session_has_one_sandbox_until_it_ends():
    with Legacy(WORLD) as m:
        first = m.good("run_command", command="echo kept >/tmp/x")["sandbox"]
        eq(m.good("run_command", command="cat /tmp/x")["stdout"], "kept\n")
        with Legacy(WORLD) as other:
            ok(other.good("run_command", command="true")["sandbox"] != first, "two sessions share a sandbox")
    gone(WORLD, first)


@test
def a_modern_client_names_its_sandbox_or_its_session():
    m = Modern(WORLD)
    m.bad("run_command", "sandbox_create", command="true")
    box = WORLD.create()
    eq(m.good("run_command", command="echo hello", sandbox=box)["stdout"], "hello\n")
    eq(Modern(WORLD, headers={"Warren-Sandbox": box}).good("run_command", command="true")["sandbox"], box)
    for name in ("Warren-Keep", "Warren-Image", "Warren-Network"):
        Modern(WORLD, headers={name: "1"}).error("tools/list", code=-32602, status=400)
    named = Modern(WORLD, headers={"Warren-Session": "one"})
    own = named.good("run_command", command="echo kept >/tmp/x")["sandbox"]
    eq(named.good("run_command", command="cat /tmp/x")["stdout"], "kept\n")
    eq(named.raw(None, "DELETE", {"MCP-Protocol-Version": MODERN}).status, 204)
    gone(WORLD, own)
    WORLD.delete(box)


@test
def a_session_can_keep_its_sandbox_or_use_a_given_one():
    with Legacy(WORLD, headers={"Warren-Keep": "1"}) as m:
        kept = m.good("run_command", command="true")["sandbox"]
    eq(WORLD.state_of(kept), "running")
    with Legacy(WORLD, headers={"Warren-Sandbox": kept}) as m:
        eq(m.good("run_command", command="true")["sandbox"], kept)
    eq(WORLD.state_of(kept), "running")
    WORLD.delete(kept)
    with Legacy(WORLD, headers={"Warren-Network": "none"}) as m:
        eq(WORLD.show(m.good("run_command", command="true")["sandbox"])["network"], "none")
    with Legacy(WORLD, headers={"Warren-Network": "nonsense"}) as m:
        m.bad("run_command", "/network", command="true")


# -------------------------------------------------------------------------- commands


@test
def a_command_returns_its_output_and_result():
    with Legacy(WORLD) as m:
        r = m.good("run_command", command="echo out; echo err >&2; pwd; echo $A; cat", cwd="/tmp", env={"A": "b"},
                   stdin="in\u0000put")
        eq((r["stdout"], r["stderr"], r["exit_code"]), ("out\n/tmp\nb\nin\0put", "err\n", 0))
        r = m.bad("run_command", command="echo so far; exit 3")
        eq((r.data["stdout"], r.data["exit_code"]), ("so far\n", 3))
        r = m.bad("run_command", command="kill -9 $$")
        eq((r.data["exit_code"], r.data["signal"]), (137, 9))
        r = m.bad("run_command", command="echo so far; sleep 100", timeout_ms=300)
        eq((r.data["stdout"], r.data["timed_out"]), ("so far\n", True))
        r = m.good("run_command", command="printf 'a\\377b'")
        eq(r["stdout"], "a\ufffdb")
        r = m.good("run_command", command="seq 100000", max_output=1000)
        ok(r["stdout"].startswith("1\n2\n") and r["stdout"].endswith("\n100000\n") and "not shown" in r["stdout"], r["stdout"])
        eq(r["truncated"], True)
        r = m.good("run_command", command="head -c 1000000 /dev/zero", max_output=262144)
        eq(r["stdout"].count("\0"), 262144)
        m.bad("run_command", "cwd", "must", command="true", cwd=1)
        m.bad("run_command", "env", "1024", command="true", env={f"A{i}": "" for i in range(1025)})
        eq(m.good("run_command", command="echo $A1023", env={f"A{i}": str(i) for i in range(1024)})["stdout"], "1023\n")
        m.bad("run_command", "/nowhere", command="true", cwd="/nowhere")


def streamed(m, arguments, meta, act):
    """Calls run_command; act(message) is called for each message before the response. Returns all messages."""
    message = m.message("tools/call", {"name": "run_command", "arguments": arguments, "_meta": meta})
    seen = []
    with m.client() as c:
        r = m.send(c, message, headers=m.headers_for(message))
        eq(r.getheader("Content-Type"), "text/event-stream")
        for got in events(r):
            seen.append(got)
            if "id" not in got:
                act(got)
    eq(seen[-1]["id"], message["id"])
    return seen


@test
def progress_messages_contain_the_output_so_far():
    for m in (Legacy(WORLD), Modern(WORLD, headers={"Warren-Session": "progress"})):
        for token in (0, "text"):
            # The command continues when its first output has arrived.
            seen = streamed(m, {"command": "rm -f /go; echo one; until [ -e /go ]; do sleep 0.02; done; echo two"},
                            {"progressToken": token}, lambda _: m.good("write_file", path="/go", content=""))
            p = [x["params"] for x in seen[:-1]]
            eq([x["progressToken"] for x in p], [token] * len(p))
            eq([x["progress"] for x in p], sorted({x["progress"] for x in p}), "progress increases")
            eq(p[0]["message"], "one\n")
            eq(seen[-1]["result"]["structuredContent"]["stdout"], "one\ntwo\n")
        m.raw(None, "DELETE")


@test
def code_can_run_without_an_existing_sandbox():
    m = Modern(WORLD)
    until(lambda: not WORLD.sandboxes(), "the sandboxes of other tests are still there")
    r = m.good("code_run", language="python", code="import sys; print(6 * 7, sys.argv[1:], sys.stdin.read()); open('o.txt', 'w').write('x')"
               "; open('b.bin', 'wb').write(b'\\xff'); print(open('d/i').read())", args=["a"], stdin="in", files={"d/i": "file"},
               files_base64={"e": "AAEC"}, artifacts=["*.txt", "*.bin"])
    eq((r["stdout"], r["exit_code"], r["language"], r["phase"]), ("42 ['a'] in\nfile\n", 0, "python", "run"))
    eq([e["enforced"] for e in r["enforced"] if e["name"] in ("memory", "pids", "network")], [True] * 3, "what was enforced")
    eq(r["artifacts"], [{"path": "b.bin", "size": 1, "base64": "/w=="}, {"path": "o.txt", "size": 1, "text": "x"}])
    r = m.bad("code_run", language="bash", code="echo so far; exit 3")
    eq((r.data["stdout"], r.data["exit_code"]), ("so far\n", 3))
    # The text is for an agent, which pays for each word: it has everything except the list of enforced limits.
    enforced, text = r.data.pop("enforced"), json.loads(r.text)
    ok(enforced and "enforced" not in text, f"the text of {r}")
    eq(text.pop("not_enforced", ""), ", ".join(e["name"] for e in enforced if not e["enforced"]))
    eq(text, r.data, "the rest of the text")
    r = m.tool("code_run", language="bash", code="head -c 100000 /dev/zero | tr '\\0' x", max_output=100000)
    eq(json.loads(r.text)["stdout"], "x" * 100000, "a long text")
    r = m.bad("code_run", "Execution timed out", language="bash", code="sleep 100", timeout_ms=300)
    eq((r.data["timed_out"], r.data["exit_code"]), (True, 124))
    m.bad("code_run", "python", language="nonsense", code="")
    m.bad("code_run", "limits", language="bash", code="", limits={"cpu": 1})
    m.bad("code_run", "base64", language="bash", code="", files_base64={"x": "%"})
    until(lambda: not WORLD.sandboxes(), "the sandboxes of runs that ended are still there")
    with m.client() as c:
        message = m.message("tools/call", {"name": "code_run", "_meta": {"progressToken": 1},
                                           "arguments": {"language": "bash", "code": "echo begun; sleep 1000"}})
        r = m.send(c, message, headers=m.headers_for(message))
        eq(next(events(r))["params"]["message"], "begun\n")
        eq(len(WORLD.sandboxes()), 1, "positive control: it has a sandbox")
        c.http.sock.shutdown(socket.SHUT_RDWR)
    until(lambda: not WORLD.sandboxes(), "the sandbox of a run without a client is still there")


# ----------------------------------------------------------------------------- files


@test
def files_are_written_read_and_edited():
    with Legacy(WORLD) as m:
        r = m.good("write_file", path="deep/er/a.txt", content="one\ntwo\nthree\n\u00e9\0")
        eq((r["path"], r["created"], r["size"]), ("/deep/er/a.txt", True, 17))
        eq(m.good("write_file", path="/deep/er/a.txt", content="one\ntwo\nthree\n")["created"], False)
        r = m.good("read_file", path="/deep/../deep/er/a.txt")
        eq((r["content"], r["truncated"], r["binary"]), ("one\ntwo\nthree\n", False, False))
        r = m.good("read_file", path="/deep/er/a.txt", offset=2, limit=1)
        eq((r["content"], r["truncated"], r["next_offset"]), ("two\n", True, 3))
        eq(m.good("read_file", path="/deep/er/a.txt", offset=3)["content"], "three\n")
        eq(m.good("read_file", path="/deep/er/a.txt", offset=9)["content"], "")
        eq(m.good("edit_file", path="/deep/er/a.txt", old_text="two", new_text="2")["replacements"], 1)
        m.bad("edit_file", "does not occur", path="/deep/er/a.txt", old_text="two", new_text="2")
        m.bad("edit_file", "several times", path="/deep/er/a.txt", old_text="e", new_text="E")
        eq(m.good("edit_file", path="/deep/er/a.txt", old_text="e", new_text="E", replace_all=True)["replacements"], 3)
        eq(m.good("run_command", command="cat /deep/er/a.txt")["stdout"], "onE\n2\nthrEE\n")
        m.bad("read_file", "No such file", path="/nope")
        m.bad("read_file", "directory", path="/deep")
        m.bad("write_file", "directory", path="/deep", content="")
        m.bad("read_file", "path", path="")
        m.bad("read_file", "there is no such argument", path="/x", nonsense=1)
        m.bad("read_file", "offset", path="/x", offset=0)
        eq([e["path"] for e in m.good("list_files", path="/deep/er")["entries"]], ["/deep/er/a.txt"], "nothing else is left")


@test
def binary_files_are_uploaded_and_downloaded():
    data = bytes(range(256)) * 40
    with Legacy(WORLD) as m:
        r = m.good("upload", path="/tmp/b", data=base64.b64encode(data).decode(), mode="0750")
        eq((r["size"], r["created"]), (len(data), True))
        eq(m.good("run_command", command="find /tmp/b -printf %m")["stdout"], "750")
        r = m.tool("download", path="/tmp/b")
        eq(base64.b64decode(r.all["content"][1]["resource"]["blob"]), data)
        eq((r.data["size"], r.data["end"]), (len(data), True))
        r = m.tool("download", path="/tmp/b", offset=250, limit=10)
        eq(base64.b64decode(r.all["content"][1]["resource"]["blob"]), data[250:260])
        eq((r.data["length"], r.data["end"]), (10, False))
        eq(m.good("read_file", path="/tmp/b")["binary"], True)
        for kind, head in (("png", b"\x89PNG\r\n\x1a\n"), ("jpeg", b"\xff\xd8\xff"), ("gif", b"GIF89a"), ("webp", b"RIFF\0\0\0\0WEBPVP8 ")):
            image = base64.b64encode(head + data).decode()
            m.good("upload", path="/tmp/i", data=image)
            eq(m.tool("download", path="/tmp/i").all["content"][1], {"type": "image", "mimeType": f"image/{kind}", "data": image}, kind)
            part = m.tool("download", path="/tmp/i", limit=100).all["content"][1]
            eq((part["type"], len(base64.b64decode(part["resource"]["blob"]))), ("resource", 100), f"a part of a {kind}")
        m.bad("upload", "base64", path="/tmp/b", data="%%%")
        m.bad("upload", "mode", path="/tmp/b", data="", mode="9")


@test
def directories_are_listed_and_searched():
    with Legacy(WORLD) as m:
        m.good("run_command", command="mkdir -p /w/sub; cd /w; printf 'one\\nTwo x\\n' >a.py; echo two >sub/b.txt; ln -s a.py l; mkfifo f")
        r = m.good("list_files", path="/w")
        eq([(e["path"], e["type"]) for e in r["entries"]],
           [("/w/a.py", "file"), ("/w/f", "special"), ("/w/l", "link"), ("/w/sub", "directory")])
        eq((r["entries"][0]["size"], r["entries"][2]["target"], r["truncated"]), (10, "a.py", False))
        eq(len(m.good("list_files", path="/w", depth=2)["entries"]), 5)
        r = m.good("list_files", path="/w", limit=2)
        eq((len(r["entries"]), r["truncated"]), (2, True))
        m.bad("list_files", "No such file", path="/nope")
        eq([x["path"] for x in m.good("search_files", path="/w", name="*.txt")["matches"]], ["/w/sub/b.txt"])
        r = m.good("search_files", path="/w", content="two", ignore_case=True)["matches"]
        eq(sorted((x["path"], x["line"], x["text"]) for x in r), [("/w/a.py", 2, "Two x"), ("/w/sub/b.txt", 1, "two")])
        eq(len(m.good("search_files", path="/w", content="^[a-z]+$", regex=True)["matches"]), 2)
        m.bad("search_files", "name", path="/w")
        m.bad("search_files", path="/w", content="(", regex=True)


# ---------------------------------------------------------------------------- shells


@test
def a_shell_keeps_its_state():
    with Legacy(WORLD) as m:
        m.good("session_run", command="cd /tmp; A=5")
        r = m.good("session_run", command="pwd; echo $A; echo err >&2")
        eq((r["stdout"], r["stderr"], r["cwd"], r["session"]), ("/tmp\n5\n", "err\n", "/tmp", "main"))
        eq(m.good("session_run", command="echo $A", session="other")["stdout"], "\n")
        r = m.bad("session_run", command="false")
        eq((r.data["exit_code"], r.data["ended"]), (1, False))
        r = m.bad("session_run", command="echo so far; sleep 100", timeout_ms=300)
        eq((r.data["stdout"], r.data["timed_out"]), ("so far\n", True))
        eq(m.good("session_run", command="echo $A")["stdout"], "5\n", "the shell is still there")
        eq(m.tool("session_run", command="exit 0").data["ended"], True)
        eq(m.good("session_run", command="echo $A")["stdout"], "\n", "a new shell")


# ------------------------------------------------------------------------- sandboxes


@test
def sandboxes_are_created_listed_paused_and_deleted():
    m = Modern(WORLD)
    made = m.good("sandbox_create", name="mine", workdir="/tmp", env={"A": "b"}, limits={"memory": "64m"}, ttl_ms=3600000)
    box = made["sandbox"]
    eq((made["state"], made["name"]), ("running", "mine"))
    eq(WORLD.show(box)["limits"]["memory"], 64 << 20)
    eq(m.good("run_command", command="pwd; echo $A", sandbox="mine")["stdout"], "/tmp\nb\n")
    ok(box in [s["sandbox"] for s in m.good("sandbox_list")["sandboxes"]], "it is not listed")
    eq(m.good("sandbox_pause", sandbox=box)["state"], "paused")
    m.bad("run_command", "paused", sandbox=box, command="true")
    eq(m.good("sandbox_resume", sandbox=box)["state"], "running")
    eq(m.good("sandbox_delete", sandbox=box), {"sandbox": box, "deleted": True})
    m.bad("sandbox_delete", "sandbox_list", sandbox=box)
    m.bad("sandbox_create", "/workdir", workdir="relative")
    m.bad("sandbox_create", "network", network="internet")
    m.bad("sandbox_create", "/template", template="nope")
    m.bad("sandbox_delete", "sandbox_create")
    with Legacy(WORLD) as s:
        own = s.good("run_command", command="true")["sandbox"]
        eq(s.good("sandbox_list")["own"], own)
        s.good("sandbox_delete")
        ok(s.good("run_command", command="true")["sandbox"] != own, "a new one is created after that")
        WORLD.delete(s.good("sandbox_list")["own"])
        s.bad("run_command", "was deleted", command="true")
        s.good("run_command", command="true")


@test
def a_port_has_a_url():
    m = Modern(WORLD, ADMIN)
    box = WORLD.create()
    m.good("write_file", sandbox=box, path="/www/index.html", content="hello from inside")
    m.good("session_run", sandbox=box, command="cd /www; nohup python3 -m http.server 8000 >/dev/null 2>&1 &")
    r = m.good("port_url", sandbox=box, port=8000)
    eq(r["url"], f"http://127.0.0.1:{WORLD.port}{r['path']}")
    with WORLD.client(token=ADMIN, tcp=True) as c:
        until(lambda: c.ask("GET", r["path"]).body == b"hello from inside", "the server does not answer")
    ok("url" not in Modern(WORLD).good("port_url", sandbox=box, port=8000), "a URL for a client without TCP")
    m.bad("port_url", "port", sandbox=box, port=0)
    WORLD.delete(box)


# ---------------------------------------------------- resources, prompts, completion


@test
def files_logs_and_sandboxes_are_resources():
    for m in (Legacy(WORLD), Modern(WORLD, headers={"Warren-Session": "resources"})):
        r = m.good("run_command", command="printf 'a b' >'/x y%'; printf '\\377' >/bin.dat; echo out; echo err >&2")
        box, missing = r["sandbox"], (-32002, 200) if isinstance(m, Legacy) else (-32602, 400)

        def read(uri):
            return m.result("resources/read", {"uri": uri})["contents"]

        uri = f"warren://{box}/x%20y%25"
        eq(read(uri), [{"uri": uri, "mimeType": "text/plain", "text": "a b"}])
        eq(read(f"warren://{box}/bin.dat")[0]["blob"], "/w==")
        log = read(f"warren-log://{box}/{r['exec']}")[0]["text"]
        eq(sorted(log.split()), ["err", "out"])
        listed = m.result("resources/list")["resources"]
        eq([x["uri"] for x in listed], ["warren-list://sandboxes"])
        ok(box in read(listed[0]["uri"])[0]["text"], "the sandbox is not listed")
        eq([t["uriTemplate"] for t in m.result("resources/templates/list")["resourceTemplates"]],
           ["warren://{sandbox}/{+path}", "warren-log://{sandbox}/{exec}"])
        for bad in (f"warren://{box}/nope", "warren://k3f9x2m7qd1w/x", "file:///etc/passwd", f"warren-log://{box}/nope", "", "warren://",
                    f"warren://{box}/%zz", f"warren://{box}", "warren-list://other", f"warren://{box}/" + "x" * 9000):
            e = m.error("resources/read", {"uri": bad}, *missing)
            if len(bad) < 200:
                eq(e["data"], {"uri": bad})
        m.error("resources/read", {}, -32602)
        m.error("resources/list", {"cursor": "x"}, -32602)
        m.raw(None, "DELETE")


def updates(it, act, uri, earlier=None):
    """Changes the file, and waits for the message about it; a message about an earlier change may come first."""
    act()
    for got in it:
        if got.get("method") == "notifications/resources/updated":
            ok(got["params"]["uri"] in (uri, earlier), got)
            if got["params"]["uri"] == uri:
                return got["params"]
    raise AssertionError("the stream has ended")


@test
def subscribers_get_messages_about_output():
    with Legacy(WORLD) as m, m.client() as c:
        box = m.good("run_command", command="true")["sandbox"]
        it = events(m.send(c, None, "GET"))
        exec_id = WORLD.exec(box, "until [ -e /go ]; do sleep 0.02; done; echo x; until [ -e /end ]; do sleep 0.02; done")
        log = f"warren-log://{box}/{exec_id}"
        eq(m.result("resources/subscribe", {"uri": log}), {})
        updates(it, lambda: m.good("write_file", path="/go", content=""), log)
        m.good("write_file", path="/end", content="")
    gone(WORLD, box)


@test
def steady_output_does_not_delay_messages():
    """A line of output does not reset the time until the next message."""
    steady = "until [ -e /go ]; do echo x; sleep 0.01; done"
    with Legacy(WORLD) as m, m.client() as c:
        seen = streamed(m, {"command": steady}, {"progressToken": 1}, lambda _: m.good("write_file", path="/go", content=""))
        eq(seen[0]["method"], "notifications/progress")
        box = m.good("run_command", command="rm /go")["sandbox"]
        it = events(m.send(c, None, "GET"))
        log = f"warren-log://{box}/{WORLD.exec(box, steady)}"
        eq(m.result("resources/subscribe", {"uri": log}), {})
        updates(it, lambda: None, log)


@test
def subscribers_get_messages_about_files():
    needs("watch")
    with Legacy(WORLD) as m, m.client() as c:
        ok(m.begun["capabilities"]["resources"]["subscribe"], "not declared")
        box = m.good("write_file", path="/s/f", content="1")["sandbox"]
        it = events(m.send(c, None, "GET"))
        uri = f"warren://{box}/s/f"
        eq(m.result("resources/subscribe", {"uri": uri}), {})
        m.good("write_file", path="/s/other", content="not watched")
        updates(it, lambda: m.good("write_file", path="/s/f", content="2"), uri)
        updates(it, lambda: m.good("run_command", command="echo 3 >>/s/f"), uri)
        eq(m.result("resources/unsubscribe", {"uri": uri}), {})
        other = f"warren://{box}/s/after"
        eq(m.result("resources/subscribe", {"uri": other}), {})
        m.good("write_file", path="/s/f", content="3")
        updates(it, lambda: m.good("write_file", path="/s/after", content="1"), other, uri)
        eq(m.result("resources/unsubscribe", {"uri": other}), {})
        for bad in (f"warren://{box}/no/such/dir", "warren://k3f9x2m7qd1w/x", "warren-list://sandboxes", f"warren-log://{box}/x", ""):
            m.error("resources/subscribe", {"uri": bad}, -32002)
        for i in range(32):
            m.result("resources/subscribe", {"uri": f"warren://{box}/s/{i}"})
        m.error("resources/subscribe", {"uri": f"warren://{box}/s/more"}, -32002)
        m.error("resources/subscribe", {}, -32602)
    gone(WORLD, box)


@test
def a_modern_client_can_listen_for_messages():
    m, box = Modern(WORLD), WORLD.create()
    exec_id = WORLD.exec(box, "until [ -e /tmp/f ]; do sleep 0.02; done; echo x; sleep 1000")
    uri, bad = f"warren-log://{box}/{exec_id}", "warren://k3f9x2m7qd1w/x"
    message = m.message("subscriptions/listen", {"notifications": {"toolsListChanged": True, "resourceSubscriptions": [uri, bad, 5]}})
    with m.client() as c:
        it = events(m.send(c, message, headers=m.headers_for(message)))
        ack = next(it)
        eq(ack["method"], "notifications/subscriptions/acknowledged")
        eq(ack["params"]["_meta"], {META + "subscriptionId": message["id"]})
        eq(ack["params"]["notifications"], {"resourceSubscriptions": [uri]})
        p = updates(it, lambda: m.good("write_file", sandbox=box, path="/tmp/f", content="1"), uri)
        eq(p["_meta"], {META + "subscriptionId": message["id"]})
        WORLD.delete(box)
    m.error("subscriptions/listen", {}, -32602, 400)
    m.error("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["x"] * 33}}, -32602, 400)


@test
def prompts_and_their_completion_work():
    for m in (Legacy(WORLD), Modern(WORLD)):
        prompts = {p["name"]: p for p in m.result("prompts/list")["prompts"]}
        eq(len(prompts), 3)
        r = m.result("prompts/get", {"name": "try_code", "arguments": {"task": "add {language}", "language": "python"}})
        ok("Write a python program" in r["messages"][0]["content"]["text"] and "add {language}" in r["messages"][0]["content"]["text"], r)
        ok("(not given)" in m.result("prompts/get", {"name": "debug_command", "arguments": {"command": "x"}})["messages"][0]["content"]["text"], "")
        for bad in ({}, {"name": "nope"}, {"name": "try_code"}, {"name": "try_code", "arguments": {"task": "x", "language": 5}},
                    {"name": "set_up_project", "arguments": {"path": "x", "other": "y"}}):
            m.error("prompts/get", bad, -32602)
        ask = {"ref": {"type": "ref/prompt", "name": "try_code"}, "argument": {"name": "language", "value": "p"}}
        eq(m.result("completion/complete", ask)["completion"], {"values": ["perl", "php", "python"], "hasMore": False})
        ask["argument"] = {"name": "nope", "value": ""}
        m.error("completion/complete", ask, -32602)
        m.error("completion/complete", {}, -32602)
        box = WORLD.create()
        ask = {"ref": {"type": "ref/resource", "uri": "warren://{sandbox}/{+path}"}, "argument": {"name": "sandbox", "value": box[:6]}}
        eq(m.result("completion/complete", ask)["completion"]["values"], [box])
        ask["argument"]["value"] = "X"
        eq(m.result("completion/complete", ask)["completion"]["values"], [])
        WORLD.delete(box)
        m.raw(None, "DELETE")


@test
def log_messages_are_sent_on_request():
    with Legacy(WORLD) as m:
        eq(m.result("logging/setLevel", {"level": "info"}), {})
        a = m.call("tools/call", {"name": "run_command", "arguments": {"command": "true"}})
        eq([x["level"] for x in a.notified("notifications/message")], ["info"])
        eq(m.result("logging/setLevel", {"level": "error"}), {})
        eq(m.call("tools/call", {"name": "run_command", "arguments": {"command": "true"}}).streamed, False)
        m.error("logging/setLevel", {"level": "loud"}, -32602)
    m = Modern(WORLD)
    a = m.call("tools/call", {"name": "sandbox_create", "arguments": {}, "_meta": {META + "logLevel": "debug"}})
    eq([x["level"] for x in a.notified("notifications/message")], ["info"])
    WORLD.delete(a.last["result"]["structuredContent"]["sandbox"])
    a = m.call("tools/call", {"name": "sandbox_create", "arguments": {}})
    eq(a.notified("notifications/message"), [], "messages for a request that did not ask for them")
    WORLD.delete(a.last["result"]["structuredContent"]["sandbox"])


if __name__ == "__main__":
    with WORLD:
        status = run_tests()
    sys.exit(status)
