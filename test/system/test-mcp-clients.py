#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-mcp-clients.py - the official clients and the inspector of MCP with Warren"""
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, ok, eq, WARREN  # pylint: disable=wrong-import-position
from mcp_clients import python_client, node_clients, WANTED  # pylint: disable=wrong-import-position
from mcp_stdio import LEGACY, MODERN, run_alone  # pylint: disable=wrong-import-position
from serve_world import World  # pylint: disable=wrong-import-position

SECONDS = 300
STATE = tempfile.mkdtemp(prefix="warren-test-")
os.chmod(STATE, 0o755)
ENV = {"PATH": os.environ["PATH"], "WARREN_STATE": STATE}
HOME = os.path.join(STATE, "home")  # for programs that need a home directory
WORLD = []


def w():
    if not WORLD:
        WORLD.append(World(tcp=True))
    return WORLD[0]


def program(*command, **env):
    r = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                       timeout=SECONDS, check=False, env={**ENV, "HOME": HOME, **env})
    eq(r.returncode, 0, f"status of {' '.join(command)[:200]}, which said {r.stderr[-1500:]!r},")
    return r.stdout


def check(text, version=None):
    """Checks the output of client.py and client.mjs."""
    out = json.loads(text.splitlines()[-1])
    ok({"run_command", "read_file", "write_file"} <= set(out["tools"]), f"{out['tools']}")
    ok(not out["write"]["error"] and not out["read"]["error"], f"{out['write']} {out['read']}")
    eq(out["read"]["structured"]["content"], "é\n")
    run = out["run"]["structured"]
    eq((run["stdout"], run["stderr"], run["exit_code"]), ("é\n", "oops\n", 3))
    eq(json.loads(out["run"]["text"]), run, "the text next to the structured content")
    ok(out["missing"]["error"] and "/nosuch" in out["missing"]["text"], f"{out['missing']}")
    eq(out["many"], [f"{i}\n" for i in range(10)])
    eq(out["progress"], sorted(set(out["progress"])), "progress, which always increases")
    if version:
        eq(out["version"], version)


def over_stdio():
    return ["stdio", json.dumps({"env": ENV, "command": [WARREN, "mcp"], "arguments": {}})]


@contextlib.contextmanager
def over_http():
    token = w().token("admin", name="clients")
    with w().box() as box:
        yield ["http", json.dumps({"url": f"http://127.0.0.1:{w().port}/mcp", "token": token,
                                   "arguments": {"sandbox": box}})]


def over_sse():
    return ["sse", json.dumps({"url": f"http://127.0.0.1:{w().port}/sse", "token": w().token("admin", name="old"),
                               "arguments": {}})]


def python(version, mode, speaks):
    interpreter, script = python_client(version), f"{WANTED}/client.py"
    check(program(interpreter, "-B", script, mode, *over_stdio()), speaks)
    with over_http() as target:
        check(program(interpreter, "-B", script, mode, *target), speaks)


def typescript(mode):
    packages, script = node_clients(), f"{WANTED}/client.mjs"
    check(program("node", script, mode, *over_stdio(), MCP_CLIENTS=packages))
    with over_http() as target:
        check(program("node", script, mode, *target, MCP_CLIENTS=packages))


@test
def version_1_of_the_python_client_works():
    python(1, "session", LEGACY)


@test
def version_2_of_the_python_client_works_with_a_session():
    python(2, "session", LEGACY)


@test
def version_2_of_the_python_client_works_in_legacy_mode():
    python(2, "legacy", LEGACY)


@test
def version_2_of_the_python_client_works_in_modern_mode():
    python(2, "auto", MODERN)


@test
def version_1_of_the_typescript_client_works():
    typescript("sdk")


@test
def version_2_of_the_typescript_client_works():
    typescript("default")


@test
def version_2_of_the_typescript_client_negotiates():
    typescript("auto")


@test
def the_python_clients_work_over_http_and_sse():
    for version in (1, 2):
        check(program(python_client(version), "-B", f"{WANTED}/client.py", "session", *over_sse()), LEGACY)


@test
def the_typescript_clients_work_over_http_and_sse():
    for mode in ("sdk", "default"):
        check(program("node", f"{WANTED}/client.mjs", mode, *over_sse(), MCP_CLIENTS=node_clients()))


@test
def the_command_line_of_the_inspector_works():
    inspector = ["node", f"{node_clients()}/node_modules/.bin/mcp-inspector", "--cli"]
    tools = json.loads(program(*inspector, WARREN, "mcp", "--method", "tools/list"))
    ok("run_command" in [t["name"] for t in tools["tools"]], f"{tools}")
    r = subprocess.run([*inspector, WARREN, "mcp", "--strict", "--method", "tools/list"], stdin=subprocess.DEVNULL,
                       capture_output=True, text=True, timeout=SECONDS, check=False, env={**ENV, "HOME": HOME})
    eq((r.returncode, re.findall("Warning: .*|Error: .*", r.stderr)), (0, []), "what is wrong with the schemas")
    r = json.loads(program(*inspector, WARREN, "mcp", "--method", "tools/call", "--tool-name", "run_command",
                           "--tool-arg", "command=echo inspected"))
    eq(r["structuredContent"]["stdout"], "inspected\n")
    # The example of doc/mcp.md.
    token = program(WARREN, "token", "create", "--scope", "read", "--scope", "write", "--scope", "exec", "--scope", "files",
                    "agent", WARREN_HOST=f"unix:{w().socket}").strip()
    r = json.loads(program(*inspector, f"http://127.0.0.1:{w().port}/mcp", "--transport", "http", "--header",
                           f"Authorization: Bearer {token}", "--method", "tools/call", "--tool-name", "run_command",
                           "--tool-arg", "command=echo inspected"))
    eq(r["structuredContent"]["stdout"], "inspected\n")
    tools = json.loads(program(*inspector, f"http://127.0.0.1:{w().port}/mcp", "--transport", "http", "--header",
                               f"Authorization: Bearer {token}", "--method", "tools/list"))
    ok("run_command" in [t["name"] for t in tools["tools"]], f"{tools}")


if __name__ == "__main__":
    os.makedirs(HOME)
    sys.exit(run_alone(WORLD, STATE))
