// SPDX-License-Identifier: Apache-2.0
// volumes.mjs - use volumes with the JavaScript SDK of E2B; the environment says where the service is
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'

const require = createRequire(process.env.E2B_CLIENTS + '/x.js')
const { Sandbox, Volume } = require('e2b')

const made = await Volume.create('javascript')
try {
  assert.deepEqual(await Volume.list(), [{ volumeId: made.volumeId, name: 'javascript' }])
  const v = await Volume.connect(made.volumeId)
  assert.equal(v.token, made.token)
  const stat = await v.writeFile('/a.txt', 'hello', { uid: 1001, gid: 1002, mode: 0o600 })
  assert.deepEqual([stat.name, stat.type, stat.path, stat.uid, stat.gid, stat.mode],
    ['a.txt', 'file', '/a.txt', 1001, 1002, 0o600])
  assert(stat.mtime instanceof Date && stat.atime instanceof Date && stat.ctime instanceof Date)
  assert.equal(await v.readFile('/a.txt'), 'hello')
  assert.deepEqual(await v.readFile('/a.txt', { format: 'bytes' }), new TextEncoder().encode('hello'))
  assert.equal(await (await v.readFile('/a.txt', { format: 'blob' })).text(), 'hello')
  assert.equal(await new Response(await v.readFile('/a.txt', { format: 'stream' })).text(), 'hello')
  await v.writeFile('/blob', new Blob(['blob'], { type: 'text/plain' }))
  assert.equal(await v.readFile('/blob'), 'blob')
  await v.writeFile('/stream', new Blob(['x'.repeat(2000000)]).stream())
  assert.equal((await v.readFile('/stream')).length, 2000000)
  await v.writeFile('/empty', '')
  assert.equal(await v.readFile('/empty'), '')
  await assert.rejects(v.readFile('/missing'), { name: 'VolumePathNotFoundError' })

  assert.equal((await v.makeDir('/d/e', { force: true })).type, 'directory')
  await assert.rejects(v.makeDir('/x/y'), { name: 'VolumePathNotFoundError' })
  await v.writeFile('/d/e/f', '1')
  assert.deepEqual((await v.list('/d', { depth: 2 })).map(e => e.path), ['/d/e', '/d/e/f'])
  const changed = await v.updateMetadata('/d/e/f', { uid: 3, mode: 0o755 })
  assert.deepEqual([changed.uid, changed.gid, changed.mode], [3, 1000, 0o755])

  const s = await Sandbox.create({ volumeMounts: { '/data': v } })
  try {
    assert.deepEqual((await s.getInfo()).volumeMounts, [{ name: 'javascript', path: '/data' }])
    const r = await s.commands.run('cat /data/d/e/f; echo 2 >/data/new')
    assert.equal(r.stdout, '1')
    assert.equal(await v.readFile('/new'), '2\n')
    await assert.rejects(Volume.destroy(v.volumeId))
  } finally {
    await s.kill()
  }
  await v.remove('/d')
  assert.deepEqual([await v.exists('/d'), await v.exists('/new')], [false, true])
} finally {
  assert.equal(await Volume.destroy(made.volumeId), true)
}
assert.equal(await Volume.destroy(made.volumeId), false)
await assert.rejects(Volume.connect(made.volumeId), { name: 'VolumeNotFoundError' })
console.log('done')
