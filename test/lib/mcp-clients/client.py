# SPDX-License-Identifier: Apache-2.0
"""client.py - the official Python client, version 1 or 2: use Warren's tools, and print the results

    python client.py MODE stdio '{"env":{},"command":["warren","mcp"],"arguments":{}}'
    python client.py MODE http '{"url":"http://127.0.0.1:8080/mcp","token":"...","arguments":{"sandbox":"ID"}}'
    python client.py MODE sse '{"url":"http://127.0.0.1:8080/sse","token":"...","arguments":{}}'

MODE is "session" (both versions), or "auto" or "legacy" (version 2).
"""
import asyncio
import contextlib
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
import mcp.client.streamable_http as http


@contextlib.asynccontextmanager
async def http_streams(o):
    headers = {"Authorization": f"Bearer {o['token']}"}
    if hasattr(http, "streamablehttp_client"):
        async with http.streamablehttp_client(o["url"], headers=headers) as streams:
            yield streams
    else:
        async with http.create_mcp_http_client(headers=headers) as client:
            async with http.streamable_http_client(o["url"], http_client=client) as streams:
                yield streams


def streams_of(kind, o):
    if kind == "http":
        return http_streams(o)
    if kind == "sse":
        return sse_client(o["url"], headers={"Authorization": f"Bearer {o['token']}"})
    return stdio_client(StdioServerParameters(command=o["command"][0], args=o["command"][1:], env=o["env"]))


def member(value, *names):
    """Versions write the names of members in different ways."""
    return next(getattr(value, n) for n in names if hasattr(value, n))


async def use(client, o):
    async def call(tool, **arguments):
        r = await client.call_tool(tool, {**arguments, **o["arguments"]})
        return {"error": bool(member(r, "isError", "is_error")), "text": r.content[0].text,
                "structured": member(r, "structuredContent", "structured_content")}
    tools = await client.list_tools()
    progress = []

    async def on_progress(done, total, message):  # pylint: disable=unused-argument
        progress.append(done)
    out = {"tools": sorted(t.name for t in tools.tools)}
    out["write"] = await call("write_file", path="/tmp/x", content="é\n")
    out["read"] = await call("read_file", path="/tmp/x")
    out["run"] = await call("run_command", command="cat /tmp/x; echo oops >&2; exit 3")
    out["missing"] = await call("read_file", path="/nosuch")
    out["many"] = [r["structured"]["stdout"] for r in await asyncio.gather(
        *(call("run_command", command=f"echo {i}") for i in range(10)))]
    await client.call_tool("run_command", {"command": "for i in 1 2 3; do echo $i; sleep 0.3; done", **o["arguments"]},
                           progress_callback=on_progress)
    out["progress"] = progress
    return out


async def main(mode, kind, o):
    if mode == "session":
        async with streams_of(kind, o) as streams, ClientSession(streams[0], streams[1]) as session:
            first = await session.initialize()
            out = await use(session, o)
            out["version"] = member(first, "protocolVersion", "protocol_version")
    else:
        from mcp import Client  # pylint: disable=import-outside-toplevel
        async with Client(streams_of(kind, o), mode=mode) as client:
            out = await use(client, o)
            out["version"] = client.protocol_version
    print(json.dumps(out))


asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
