# SPDX-License-Identifier: Apache-2.0
"""mcp_world.py - plain clients of MCP over HTTP, legacy and modern

    with Legacy(world) as m:                     # initialize, then a session
        r = m.tool("run_command", command="echo hello")
        eq(r.data["stdout"], "hello\\n")
    m = Modern(world)                            # each request is independent
    box = m.tool("sandbox_create").data["sandbox"]

A result is a Result: its structured content is `data`, and its text is `text`.
"""
import itertools
import json

from checks import eq, ok
from serve_world import BACKEND, IMAGES, WAIT, until

NEWEST = "2025-11-25"
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
BOTH = "application/json, text/event-stream"


class Result:
    def __init__(self, result):
        self.all, self.failed = result, result.get("isError", False)
        self.data = result.get("structuredContent")
        self.text = "".join(c["text"] for c in result["content"] if c["type"] == "text")

    def __repr__(self):
        return json.dumps(self.all)[:2000]


class Answer:
    """An answer: its status, headers, and messages, the last of which is the response."""

    def __init__(self, status, headers, messages, streamed):
        self.status, self.headers, self.messages, self.streamed = status, headers, messages, streamed

    @property
    def last(self):
        return self.messages[-1] if self.messages else None

    def notified(self, method):
        return [m["params"] for m in self.messages[:-1] if m.get("method") == method]

    def __repr__(self):
        return f"{self.status} {json.dumps(self.messages)[:2000]}"


def events(response):
    """Yields the messages of a stream as they arrive."""
    data = []
    for line in response:
        line = line.decode().rstrip("\r\n")
        if line.startswith("data:"):
            data.append(line[5:].strip())
        elif not line and data:
            yield json.loads("\n".join(data))
            data = []


TYPES = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list}


def conform(schema, value, where):
    """Raises an exception unless the value matches the schema."""
    ok(type(value) is TYPES[schema["type"]], f"{where} is no {schema['type']}: {value!r}")
    if "enum" in schema:
        ok(value in schema["enum"], f"{where}: {value!r}")
    if schema["type"] == "object":
        properties = schema.get("properties", {})
        eq(sorted(set(schema.get("required", ())) - set(value)), [], f"{where} lacks")
        eq(sorted(set(value) - set(properties)), [], f"{where} has")
        for key, item in value.items():
            conform(properties[key], item, f"{where}.{key}")
    if schema["type"] == "array":
        for i, item in enumerate(value):
            conform(schema["items"], item, f"{where}[{i}]")


def gone(world, box):
    """Waits until there is no such sandbox."""
    until(lambda: all(b["id"] != box for b in world.sandboxes()), f"sandbox {box} is still there")


def with_image(headers):
    """The headers of a session whose sandbox has the image that the backend of the whole test needs."""
    return {**({"Warren-Image": IMAGES[BACKEND]} if BACKEND in IMAGES else {}), **(headers or {})}


class Wire:
    """Code that both kinds of clients share."""
    schemas = {}

    def __init__(self, world, token=None, tcp=None, headers=None):
        self.world, self.token, self.tcp = world, token, bool(token) if tcp is None else tcp
        self.own, self.ids = dict(headers or {}), itertools.count(1)

    def client(self, timeout=WAIT):
        return self.world.client(token=self.token, tcp=self.tcp, timeout=timeout)

    def send(self, client, body, method="POST", headers=None):
        """Returns the answer, with its body unread."""
        h = {"Accept": BOTH, "Content-Type": "application/json", **self.own, **(headers or {})}
        h = {k: v for k, v in h.items() if v is not None}
        return client.send(method, "/mcp", body if isinstance(body, (bytes, str, type(None))) else json.dumps(body), h)

    def raw(self, body, method="POST", headers=None):
        with self.client() as c:
            r = self.send(c, body, method, headers)
            h = {k.lower(): v for k, v in r.getheaders()}
            if h.get("content-type") == "text/event-stream":
                return Answer(r.status, h, list(events(r)), True)
            data = r.read()
            return Answer(r.status, h, [json.loads(data)] if data else [], False)

    def message(self, method, params=None, **_):
        m = {"jsonrpc": "2.0", "id": next(self.ids), "method": method}
        return m if params is None else {**m, "params": params}

    def headers_for(self, _message):
        return {}

    def call(self, method, params=None):
        m = self.message(method, params)
        a = self.raw(m, headers=self.headers_for(m))
        ok(a.last is not None, f"no response to {method}: {a}")
        eq(a.last.get("id"), m["id"], f"id of {a}")
        return a

    def result(self, method, params=None):
        a = self.call(method, params)
        ok("result" in a.last, f"{method}: {a}")
        eq(a.status, 200, a)
        return a.last["result"]

    def error(self, method, params=None, code=None, status=None):
        a = self.call(method, params)
        ok("error" in a.last, f"{method} is no error: {a}")
        if code:
            eq(a.last["error"]["code"], code, a)
        if status:
            eq(a.status, status, a)
        return a.last["error"]

    def tool(self, tool, /, **arguments):
        r = Result(self.result("tools/call", {"name": tool, "arguments": arguments}))
        if not Wire.schemas:
            Wire.schemas.update({t["name"]: t["outputSchema"] for t in self.result("tools/list")["tools"]})
        if r.data is not None or not r.failed:
            conform(Wire.schemas[tool], r.data, tool)
        return r

    def good(self, tool, /, **arguments):
        r = self.tool(tool, **arguments)
        ok(not r.failed, f"{tool}: {r}")
        return r.data

    def bad(self, tool, /, *words, **arguments):
        r = self.tool(tool, **arguments)
        ok(r.failed, f"{tool} is no error: {r}")
        for word in words:
            ok(word in r.text, f"'{word}' is not in {r.text!r}")
        return r


class Legacy(Wire):
    def __init__(self, world, token=None, tcp=None, version=NEWEST, headers=None):
        super().__init__(world, token, tcp, headers if "Warren-Sandbox" in (headers or ()) else with_image(headers))
        self.open(version)

    def open(self, version):
        a = self.raw({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}})
        eq(a.status, 200, a)
        self.begun = a.last["result"]
        self.session = a.headers["mcp-session-id"]
        self.own.update({"Mcp-Session-Id": self.session, "MCP-Protocol-Version": self.begun["protocolVersion"]})
        eq(self.raw({"jsonrpc": "2.0", "method": "notifications/initialized"}).status, 202)

    def notify(self, method, params):
        return self.raw({"jsonrpc": "2.0", "method": method, "params": params})

    def close(self):
        return self.raw(None, "DELETE").status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Modern(Wire):
    def __init__(self, world, token=None, tcp=None, headers=None):
        super().__init__(world, token, tcp, with_image(headers) if "Warren-Session" in (headers or ()) else headers)

    def message(self, method, params=None, meta=None, **_):
        params = dict(params or {})
        params["_meta"] = {META + "protocolVersion": MODERN, META + "clientCapabilities": {},
                           **params.get("_meta", {}), **(meta or {})}
        return super().message(method, params)

    def headers_for(self, message):
        p = message.get("params", {})
        h = {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"]}
        name = p.get("uri") if message["method"] == "resources/read" else p.get("name")
        if message["method"] in ("tools/call", "prompts/get", "resources/read") and isinstance(name, str):
            h["Mcp-Name"] = name
        return h
