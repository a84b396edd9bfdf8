#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-mcp.py - sandboxes of E2B's SDK with servers of MCP"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, test  # pylint: disable=wrong-import-position
from e2b_world import E2bWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position

WORLD = []
STATE = tempfile.mkdtemp(prefix="warren-test-")


def w():
    if not WORLD:
        WORLD.append(E2bWorld())
    return WORLD[0]


@test
def a_template_with_the_gateway_serves_mcp():
    os.chdir(STATE)  # the program writes what it uploads
    w().python("mcp.py")


@test
def settings_of_servers_are_bounded():
    key = w().key()
    nested = 1
    for _ in range(6):
        nested = {"a": nested}
    for servers in (nested, [], "x", {f"s{n}": {} for n in range(257)}, {"a": {"b": "x" * 70000}}):
        status, body = w().call("POST", "/v2/sandboxes", {"templateID": "base", "mcp": servers}, X_API_Key=key)
        eq(status, 400, body)
        ok(body["message"].startswith("mcp"), body)
    status, box = w().call("POST", "/v2/sandboxes", {"templateID": "base", "mcp": {"a": {"b": "x"}}}, X_API_Key=key)
    eq(status, 201, box)
    eq(w().call("DELETE", f"/sandboxes/{box['sandboxID']}", X_API_Key=key)[0], 204)


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, STATE))
