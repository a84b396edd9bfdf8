// SPDX-License-Identifier: Apache-2.0
// client.mjs - drive a service with the JavaScript SDK of E2B; the environment says where it is
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'

const require = createRequire(process.env.E2B_CLIENTS + '/x.js')
const { Sandbox } = require('e2b')

const wait = ms => new Promise(r => setTimeout(r, ms))

async function until(fn, what) {
  for (let i = 0; i < 300; i++) {
    if (await fn()) return
    await wait(100)
  }
  throw new Error(`${what}: not within 30 s`)
}

const s = await Sandbox.create({ metadata: { a: 'b c' }, envs: { FOO: 'x' } })
try {
  const r = await s.commands.run('echo hi $FOO; id -un')
  assert.deepEqual([r.stdout, r.stderr, r.exitCode], ['hi x\nuser\n', '', 0])
  await assert.rejects(s.commands.run('exit 3'), e => e.exitCode === 3)
  await assert.rejects(s.commands.run('sleep 100', { timeoutMs: 300 }), { name: 'TimeoutError' })

  await s.files.write('a/b.txt', 'hello')
  assert.equal(await s.files.read('a/b.txt'), 'hello')
  assert.deepEqual((await s.files.list('.')).map(e => [e.name, e.type]), [['a', 'dir']])
  assert.deepEqual([await s.files.exists('no'), await s.files.makeDir('d'), await s.files.makeDir('d')],
    [false, true, false])
  await assert.rejects(s.files.read('no'), { name: 'FileNotFoundError' })
  const events = []
  const watch = await s.files.watchDir('d', e => events.push(`${e.type} ${e.name}`))
  await s.files.write('d/q', '1')
  await until(() => events.includes('create q'), 'the change')
  await watch.stop()

  const cat = await s.commands.run('cat', { background: true, stdin: true })
  await s.commands.sendStdin(cat.pid, 'yo\n')
  await until(() => cat.stdout === 'yo\n', 'the output')
  await cat.kill()
  await assert.rejects(cat.wait(), { name: 'CommandExitError' })

  const pty = await s.pty.create({ cols: 80, rows: 24, onData: () => {} })
  await s.pty.resize(pty.pid, { cols: 100, rows: 30 })
  await s.pty.sendInput(pty.pid, new TextEncoder().encode('exit\n'))
  assert.equal((await pty.wait()).exitCode, 0)

  const down = await fetch(await s.downloadUrl('a/b.txt'))
  assert.deepEqual([down.status, await down.text()], [200, 'hello'])
  const form = new FormData()
  form.append('file', new Blob(['up']), 'up.txt')
  const up = await fetch(await s.uploadUrl('up.txt'), { method: 'POST', body: form })
  assert.deepEqual(await up.json(), [{ path: '/home/user/up.txt', name: 'up.txt', type: 'file' }])

  assert.equal(await s.isRunning(), true)
  assert.equal(await s.pause(), true)
  assert.equal(await s.isRunning(), false)
  const again = await Sandbox.connect(s.sandboxId)
  assert.equal((await again.commands.run('cat a/b.txt')).stdout, 'hello')
  const paginator = Sandbox.list({ query: { metadata: { a: 'b c' } } })
  assert.deepEqual((await paginator.nextItems()).map(x => x.sandboxId), [s.sandboxId])
} finally {
  assert.equal(await s.kill(), true)
}
assert.equal(await s.kill(), false)
await assert.rejects(s.commands.run('true'))
console.log('done')
