# SPDX-License-Identifier: Apache-2.0
"""mcp.py - Sandbox.create(mcp=...) of the Python SDK: the program mcp-gateway is in a template of the client"""
import json
import os
import urllib.error
import urllib.request

import e2b
from e2b import Sandbox, Template
from expect import done, eq, raises, until

SERVERS = {"github": {"token": "x", "args": ["a", 1, True], "deep": {"b": {"c": None}}}, "time": {}}
# A gateway that answers with its settings to clients that have the token.
GATEWAY = r'''#!/usr/bin/python3
import http.server, json, os, sys
os.makedirs("/etc/mcp-gateway", exist_ok=True)
open("/etc/mcp-gateway/.token", "w").write(os.environ["GATEWAY_ACCESS_TOKEN"])
if os.fork():
    sys.exit()
os.setsid()
for fd in range(3):
    os.dup2(os.open("/dev/null", os.O_RDWR), fd)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        ok = self.headers["Authorization"] == "Bearer " + os.environ["GATEWAY_ACCESS_TOKEN"] and self.path == "/mcp"
        self.send_response(200 if ok else 401)
        self.end_headers()
        self.wfile.write(sys.argv[2].encode() if ok else b"")
http.server.HTTPServer(("127.0.0.1", 50005), Handler).serve_forever()
'''


def get(s, token):
    r = urllib.request.Request(os.environ["E2B_SANDBOX_URL"] + "/mcp", headers={
        "E2b-Sandbox-Id": s.sandbox_id, "E2b-Sandbox-Port": "50005", "Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(r) as f:
            return f.status, f.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()


raises(e2b.SandboxException, lambda: Sandbox.create(mcp=SERVERS), "build a template that contains the program mcp-gateway")
raises(e2b.SandboxException, lambda: Sandbox.create("base", mcp=SERVERS), "Failed to start MCP gateway")
with open("mcp-gateway", "w", encoding="ascii") as program:
    program.write(GATEWAY)
template = (Template(file_context_path=os.getcwd()).from_base_image().copy("mcp-gateway", "/home/user/bin/mcp-gateway", mode=0o755)
            .run_cmd("echo 'PATH=/home/user/bin:$PATH' >/root/.bash_profile", user="root"))
Template.build(template, "mcp-gateway")
sandbox = Sandbox.create(mcp=SERVERS)
try:
    eq(sandbox.get_mcp_url(), f"https://{sandbox.get_host(50005)}/mcp")
    until(lambda: get(sandbox, sandbox.get_mcp_token())[0] == 200, "the gateway")
    eq(json.loads(get(sandbox, sandbox.get_mcp_token())[1]), SERVERS)
    eq(get(sandbox, "other")[0], 401)
    again = Sandbox.connect(sandbox.sandbox_id)
    eq(again.get_mcp_token(), sandbox.get_mcp_token(), "the token, which is read from the sandbox")
finally:
    sandbox.kill()
eq(Sandbox.list().next_items(), [])
done()
