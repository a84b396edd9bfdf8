# SPDX-License-Identifier: Apache-2.0
"""mcp_relay.py - a port of loopback between the conformance suite of MCP and a service

The suite sends no token, and calls tools, prompts and resources of its reference server. The relay adds the token,
and replaces these names by tools, prompts and resources of Warren that answer in the same form.
"""
import contextlib
import http.client
import http.server
import json
import threading

HOP = ("connection", "keep-alive", "transfer-encoding", "content-length")
# Writes until the client has received three progress messages; then the relay creates /enough.
PROGRESS = "rm -f /enough; until [ -e /enough ]; do echo line; sleep 0.05; done"


def substitutes(box):
    """The names that the suite calls, and their replacements: a name, and arguments or a function of the
    arguments."""
    def run(command):
        return "run_command", {"sandbox": box, "command": command}
    return {
        "test_simple_text": run("echo text"),
        "test_error_handling": run("echo 'this fails' >&2; exit 1"),
        "test_tool_with_progress": run(PROGRESS),
        "test_image_content": ("download", {"sandbox": box, "path": "/image"}),
        "test_embedded_resource": ("download", {"sandbox": box, "path": "/text"}),
        "test_simple_prompt": ("debug_command", {"command": "ls"}),
        "test_prompt_with_arguments": ("try_code", lambda a: {"task": a["arg1"], "language": a["arg2"]}),
        "test://static-text": (f"warren://{box}/text", None),
        "test://static-binary": (f"warren://{box}/binary", None),
        "test://template/123/data": (f"warren://{box}/123", None),
        "test://watched-resource": (f"warren://{box}/text", None),
    }


def translate(message, names):
    """Replaces the names in the message."""
    params = message.get("params") if isinstance(message, dict) else None
    if not isinstance(params, dict):
        return
    member = "uri" if message.get("method", "").startswith("resources/") else "name"
    if message.get("method") == "completion/complete":
        params["ref"]["name"], _ = names.get(params["ref"].get("name"), (params["ref"].get("name"), None))
        params["argument"]["name"] = "language" if params["argument"]["name"] == "arg1" else params["argument"]["name"]
    elif isinstance(params.get(member), str) and params[member] in names:
        params[member], arguments = names[params[member]]
        if arguments is not None:
            params["arguments"] = arguments(params["arguments"]) if callable(arguments) else arguments


class Relay(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, world, box):
        self.world, self.box, self.names = world, box, substitutes(box)
        self.token = world.token("admin", name="relay")
        for path, content in (("/text", b"text"), ("/binary", b"\xff\0"), ("/123", b"this is 123"),
                              ("/image", b"\x89PNG\r\n\x1a\n and more")):
            self.write(path, content)
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/mcp"

    def write(self, path, content):
        self.world.ask("PUT", f"/v1/sandboxes/{self.box}/files", content, query={"path": path})

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        """A client that disconnects early is no error."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass

    def body(self):
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with contextlib.suppress(ValueError, AttributeError, KeyError, TypeError):
            message = json.loads(data)
            translate(message, self.server.names)
            data = json.dumps(message).encode()
        return data

    def relay(self):
        data = self.body()
        to = http.client.HTTPConnection("127.0.0.1", self.server.world.port)
        to.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() == "mcp-name":
                value = self.server.names.get(value, (value,))[0]
            if name.lower() not in HOP:
                to.putheader(name, value)
        to.putheader("Authorization", f"Bearer {self.server.token}")
        to.putheader("Content-Length", str(len(data)))
        to.endheaders(data)
        with to.getresponse() as r:
            self.send_response_only(r.status)
            for name, value in r.getheaders():
                if name.lower() not in HOP:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            self.copy(r)
        to.close()

    def copy(self, r):
        seen, told = b"", False
        while piece := r.read1(65536):
            self.wfile.write(piece)
            self.wfile.flush()
            seen += piece
            if not told and seen.count(b'"notifications/progress"') >= 3:
                self.server.write("/enough", b"")
                told = True

    do_GET = do_POST = do_DELETE = relay
