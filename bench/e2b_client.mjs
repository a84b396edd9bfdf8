// SPDX-License-Identifier: Apache-2.0
// e2b_client.mjs - times of E2B's JavaScript SDK, in seconds, as one line of JSON
//
// bench/sdks.py calls this. E2B_CLIENTS is the directory with the SDK. Argument: number of rounds.
import { createRequire } from 'node:module'

const require = createRequire(`${process.env.E2B_CLIENTS}/package.json`)
const { Sandbox } = require('e2b')
const SIZE = 50_000_000
const BURST = 100
const rounds = Number(process.argv[2])

async function timed(f) {
  const start = process.hrtime.bigint()
  const value = await f()
  return [Number(process.hrtime.bigint() - start) / 1e9, value]
}

async function repeat(n, f) {
  const all = []
  for (let i = 0; i < n; i++) all.push((await timed(f))[0])
  return all
}

const result = { create: [] }
for (let i = 0; i < rounds + 1; i++) {
  const [took, sandbox] = await timed(() => Sandbox.create())
  if (i > 0) result.create.push(took)
  await sandbox.kill()
}
const sandbox = await Sandbox.create({ timeoutMs: 600_000 })
await sandbox.commands.run('true')
result.run = await repeat(rounds, () => sandbox.commands.run('true'))
await sandbox.files.write('/tmp/small', 'x'.repeat(1000))
result.read = await repeat(rounds, () => sandbox.files.read('/tmp/small'))
const data = new ArrayBuffer(SIZE)
result.write_large = await repeat(5, () => sandbox.files.write('/tmp/large', data))
result.read_large = await repeat(5, () => sandbox.files.read('/tmp/large', { format: 'bytes' }))
await sandbox.kill()
result.burst = []
for (let i = 0; i < 3; i++) {
  const [took, made] = await timed(() => Promise.all(Array.from({ length: BURST }, () => Sandbox.create())))
  result.burst.push(took)
  await Promise.all(made.map((s) => s.kill()))
}
console.log(JSON.stringify(result))
