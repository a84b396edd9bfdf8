// SPDX-License-Identifier: Apache-2.0
// process.mjs - commands of the JavaScript SDK of E2B: restarts of the service, killed sandboxes
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const require = createRequire(process.env.E2B_CLIENTS + '/x.js')
const { Sandbox, CommandExitError, NotFoundError } = require('e2b')

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

// Has the test do something with the service.
async function step(name) {
  console.log(`step ${name}`)
  return (await answers.next()).value
}

const s = await Sandbox.create()
try {
  for (const how of ['kill', 'restart']) {
    const reader = await s.commands.run('read line; echo got $line; exit 7', { background: true, stdin: true })
    const broken = reader.wait().then(() => null, e => e)
    await step(how)
    const error = await broken
    assert.ok(error && !(error instanceof CommandExitError), `${error}`)
    assert.deepEqual((await s.commands.list()).map(p => p.pid), [reader.pid])
    let seen = ''
    const again = await s.commands.connect(reader.pid, { onStdout: text => { seen += text } })
    await s.commands.sendStdin(reader.pid, 'hello\n')
    await assert.rejects(again.wait(), e => e instanceof CommandExitError && e.exitCode === 7)
    assert.equal(seen, 'got hello\n')
    assert.equal(await s.commands.kill(reader.pid), false)
  }
  await assert.rejects(s.commands.connect(999999), e => e instanceof NotFoundError)

  // A client that leaves does not end its command; one that comes late gets the result.
  const left = await s.commands.run('sleep 1000', { background: true })
  await left.disconnect()
  assert.deepEqual((await s.commands.list()).map(p => p.pid), [left.pid])
  const found = await s.commands.connect(left.pid)
  assert.equal(await found.kill(), true)
  await assert.rejects(found.wait(), { name: 'CommandExitError' })
  await assert.rejects((await s.commands.connect(left.pid)).wait(), { name: 'CommandExitError' })

  // The sandbox is killed while a command runs.
  const last = await s.commands.run('sleep 1000', { background: true })
  const end = last.wait().then(() => null, e => e)
  assert.equal(await s.kill(), true)
  const why = await end
  assert.ok(why && !(why instanceof CommandExitError), `${why}`)
} finally {
  await s.kill()
}
console.log('done')
process.exit(0)
