// SPDX-License-Identifier: Apache-2.0
// domain.mjs - find a service by its domain with the JavaScript SDK of E2B
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'

const require = createRequire(process.env.E2B_CLIENTS + '/x.js')

// There is no name server for the domain: all names below localhost lead to this machine.
const dns = require('node:dns')
const lookup = dns.lookup
dns.lookup = (name, options, done) => lookup(name.endsWith('.localhost') ? '127.0.0.1' : name, options, done)

const { Sandbox, Volume } = require('e2b')

assert(process.env.E2B_DOMAIN && !process.env.E2B_API_URL && !process.env.E2B_SANDBOX_URL)
const s = await Sandbox.create()
try {
  assert.equal((await s.commands.run('echo hello')).stdout, 'hello\n')
  await s.files.write('a.txt', 'of a domain')
  assert.equal(await s.files.read('a.txt'), 'of a domain')
  const host = s.getHost(8000)
  assert.equal(host, `8000-${s.sandboxId}.${process.env.E2B_DOMAIN}`)
  assert.equal((await fetch(`https://${host}/a.txt`)).status, 502)
  await s.commands.run('python3 -m http.server 8000', { background: true })
  await s.commands.run('until (: >/dev/tcp/127.0.0.1/8000) 2>/dev/null; do sleep 0.1; done')
  assert.equal(await (await fetch(`https://${host}/a.txt`)).text(), 'of a domain')
  assert.equal(await (await fetch(await s.downloadUrl('a.txt', { useSignatureExpiration: 600 }))).text(), 'of a domain')
} finally {
  await s.kill()
}
const gone = await fetch(`https://${s.getHost(8000)}/a.txt`)
assert.deepEqual([gone.status, await gone.json()],
  [502, { sandboxId: s.sandboxId, message: 'The sandbox was not found', code: 502 }])
const v = await Volume.create('domain')
try {
  await v.writeFile('/b.txt', 'of a volume')
  assert.equal(await v.readFile('/b.txt'), 'of a volume')
} finally {
  assert.equal(await Volume.destroy(v.volumeId), true)
}
console.log('done')
