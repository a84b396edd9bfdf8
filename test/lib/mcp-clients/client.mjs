// SPDX-License-Identifier: Apache-2.0
// client.mjs - the official TypeScript client, version 1 or 2: use Warren's tools, print what came back
//
//    node client.mjs MODE stdio '{"env":{},"command":["warren","mcp"],"arguments":{}}'
//
// MODE is "sdk" (version 1), "default" or "auto" (version 2). The packages are those of MCP_CLIENTS.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [mode, kind, text] = process.argv.slice(2);
const o = JSON.parse(text);
const from = (name) => import(pathToFileURL(createRequire(process.env.MCP_CLIENTS + "/x.cjs").resolve(name)).href);

async function parts() {
  if (mode === "sdk") {
    const sdk = "@modelcontextprotocol/sdk/client/";
    return { ...(await from(sdk + "index.js")), ...(await from(sdk + "stdio.js")), ...(await from(sdk + "streamableHttp.js")),
      ...(await from(sdk + "sse.js")) };
  }
  const all = { ...(await from("@modelcontextprotocol/client")), ...(await from("@modelcontextprotocol/client/stdio")) };
  return all.default ? { ...all.default, ...all } : all;
}

const { Client, StdioClientTransport, StreamableHTTPClientTransport, SSEClientTransport } = await parts();
const client = new Client({ name: "test", version: "1" }, mode === "auto" ? { versionNegotiation: { mode: "auto" } } : {});
const authorized = { requestInit: { headers: { Authorization: `Bearer ${o.token}` } } };
const transport = kind === "http"
  ? new StreamableHTTPClientTransport(new URL(o.url), authorized)
  : kind === "sse" ? new SSEClientTransport(new URL(o.url), authorized)
  : new StdioClientTransport({ command: o.command[0], args: o.command.slice(1), env: o.env });
const call = async (name, args, options) => {
  const params = { name, arguments: { ...args, ...o.arguments } };
  const r = await (mode === "sdk" ? client.callTool(params, undefined, options) : client.callTool(params, options));
  return { error: !!r.isError, text: r.content[0].text, structured: r.structuredContent };
};

await client.connect(transport);
const out = { tools: (await client.listTools()).tools.map((t) => t.name).sort(), progress: [] };
out.write = await call("write_file", { path: "/tmp/x", content: "é\n" });
out.read = await call("read_file", { path: "/tmp/x" });
out.run = await call("run_command", { command: "cat /tmp/x; echo oops >&2; exit 3" });
out.missing = await call("read_file", { path: "/nosuch" });
out.many = await Promise.all([...Array(10).keys()].map(async (i) =>
  (await call("run_command", { command: `echo ${i}` })).structured.stdout));
await call("run_command", { command: "for i in 1 2 3; do echo $i; sleep 0.3; done" },
  { onprogress: (p) => out.progress.push(p.progress) });
await client.close();
console.log(JSON.stringify(out));
