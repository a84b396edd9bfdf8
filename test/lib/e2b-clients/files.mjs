// SPDX-License-Identifier: Apache-2.0
// files.mjs - compressed uploads and metadata of files with the JavaScript SDK of E2B
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'

const require = createRequire(process.env.E2B_CLIENTS + '/x.js')
const { Sandbox } = require('e2b')

const s = await Sandbox.create()
try {
  const large = Buffer.concat([randomBytes(1 << 20), Buffer.alloc(2 << 20)])
  await s.files.write('large', new Blob([large]), { gzip: true })
  assert.ok(large.equals(Buffer.from(await s.files.read('large', { format: 'bytes', gzip: true }))))
  await s.files.write('small.txt', 'hello', { gzip: true })
  assert.equal(await s.files.read('small.txt'), 'hello')
  const tagged = await s.files.write('tagged', 'x', { metadata: { Key: 'a value' } })
  assert.deepEqual(tagged.metadata, { key: 'a value' })
  assert.deepEqual((await s.files.getInfo('tagged')).metadata, { key: 'a value' })
  await assert.rejects(s.files.read('small.txt', { user: 'missing' }), { name: 'AuthenticationError' })
} finally {
  await s.kill()
}
console.log('done')
