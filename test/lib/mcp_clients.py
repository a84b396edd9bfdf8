# SPDX-License-Identifier: Apache-2.0
"""mcp_clients.py - the official clients of MCP, installed once next to the build

    python = python_client(2)     # an interpreter with version 2 of the Python client
    packages = node_clients()     # a directory with the packages of mcp-clients/package.json
"""
from published import Published

CLIENTS = Published("mcp-clients")
WANTED = CLIENTS.wanted


def python_client(version):
    return CLIENTS.python(f"python-{version}")


def node_clients():
    return CLIENTS.node()
