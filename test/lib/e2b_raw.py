# SPDX-License-Identifier: Apache-2.0
"""e2b_raw.py - requests of E2B's protocol without an SDK, for clients that misbehave"""
import base64
import contextlib
import http.client
import json
import struct
import time

from checks import PATIENCE, eq, ok
from e2b_restart import RestartWorld

ENVD, INTERPRETER = "49983", "49999"
CELL_SECONDS = 120 * PATIENCE


class RawWorld(RestartWorld):
    secret = None

    def open_request(self, method, path, body=None, **headers):
        """Sends a request. Returns the connection, whose response was not read."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CELL_SECONDS)
        text = json.dumps(body) if isinstance(body, (dict, list)) else body
        c.request(method, path, text, {"Content-Type": "application/json", **headers})
        return c

    def request(self, *args, **headers):
        """Returns the status and the body of a response: an object, or bytes."""
        with contextlib.closing(self.open_request(*args, **headers)) as c:
            r = c.getresponse()
            body = r.read()
            return r.status, json.loads(body) if r.getheader("Content-Type", "") == "application/json" and body else body

    def control(self, method, path, body=None, **headers):
        self.secret = self.secret or self.key()
        return self.request(method, path, body, **{"X-API-Key": self.secret, **headers})

    @contextlib.contextmanager
    def e2b_box(self, **fields):
        status, made = self.control("POST", "/v2/sandboxes", {"templateID": "base", **fields})
        eq(status, 201, made)
        try:
            yield made
        finally:
            status, answer = self.control("DELETE", f"/sandboxes/{made['sandboxID']}")
            ok(status in (204, 404), answer)

    @staticmethod
    def plane(box, port=ENVD, token=True):
        named = {"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": port}
        return {**named, "X-Access-Token": box["envdAccessToken"]} if token else named

    def rpc(self, box, method, message):
        return self.request("POST", f"/{method}", message, **self.plane(box))

    def open_stream(self, box, method, message, **headers):
        text = json.dumps(message).encode()
        return self.open_request("POST", f"/{method}", struct.pack(">BI", 0, len(text)) + text,
                            **{**self.plane(box), "Content-Type": "application/connect+json", **headers})

    def stream(self, box, method, message, **headers):
        """Returns the messages of a stream."""
        with contextlib.closing(self.open_stream(box, method, message, **headers)) as c:
            rest = c.getresponse().read()
        found = []
        while rest:
            n = struct.unpack(">BI", rest[:5])[1]
            found.append(json.loads(rest[5:5 + n]))
            rest = rest[5 + n:]
        return found

    def shell(self, box, text):
        """Returns the output of a command, which must succeed."""
        out, end = b"", {}
        for m in self.stream(box, "process.Process/Start",
                             {"process": {"cmd": "/bin/bash", "args": ["-c", text]}, "stdin": False}):
            event = m.get("event", {})
            out += base64.b64decode(event.get("data", {}).get("stdout", ""))
            end = event.get("end", end)
        eq(end.get("status"), "exit status 0", f"{text}: {end} {out!r}")
        return out.decode()

    def cell(self, box, code, **fields):
        """Sends a cell. Returns the connection."""
        return self.open_request("POST", "/execute", {"code": code, **fields}, **self.plane(box, INTERPRETER))

    def run_cell(self, box, code, **fields):
        """Returns the events of a cell, without those that only show that it runs."""
        events, end = [], time.monotonic() + CELL_SECONDS
        with contextlib.closing(self.cell(box, code, **fields)) as c:
            r = c.getresponse()
            eq(r.status, 200, code)
            for line in r:
                events.append(json.loads(line))
                ok(time.monotonic() < end, f"the cell does not end: {events}")
        return [e for e in events if e["type"] != "keepalive"]
