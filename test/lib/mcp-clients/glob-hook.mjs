// SPDX-License-Identifier: Apache-2.0
// glob-hook.mjs - the conformance suite imports fs.globSync, which node 20 lacks, but calls it only for other commands
import fs from "node:fs";
import { register } from "node:module";

const more = encodeURIComponent('export * from "node:fs"; export function globSync() { throw new Error("globSync"); }');
const hook = `export async function resolve(name, context, next) {
  return name === "fs" && context.parentURL?.includes("/conformance/")
    ? { url: "data:text/javascript,${more}", shortCircuit: true } : next(name, context);
}`;
if (!fs.globSync) register("data:text/javascript," + encodeURIComponent(hook));
