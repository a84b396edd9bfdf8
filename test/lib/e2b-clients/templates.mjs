// SPDX-License-Identifier: Apache-2.0
// templates.mjs - build templates with the JavaScript SDK of E2B; the environment says where the service is
import assert from 'node:assert/strict'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'

const require = createRequire(process.env.E2B_CLIENTS + '/x.js')
const { Sandbox, Template, waitForFile } = require('e2b')

const path = mkdtempSync(`${tmpdir()}/warren-test-`)
writeFileSync(`${path}/a.txt`, 'A')

assert.equal(await Template.exists('js'), false)
const template = Template({ fileContextPath: path }).fromBaseImage().copy('a.txt', 'sub/').setEnvs({ X: 'y' })
  .runCmd('cat sub/a.txt; echo; echo $X').setWorkdir('/home/user/sub').setStartCmd('touch /tmp/up; sleep 1000', waitForFile('/tmp/up'))
const lines = []
const info = await Template.build(template, 'js:v1', { tags: ['default'], onBuildLogs: e => lines.push(e.message) })
assert.ok(lines.includes('A') && lines.includes('y'), lines.join('|'))
assert.equal(await Template.exists('js'), true)
const s = await Sandbox.create('js')
try {
  assert.equal((await s.commands.run('pwd; cat a.txt; ls /tmp/up')).stdout, '/home/user/sub\nA/tmp/up\n')
} finally {
  await s.kill()
}
assert.equal((await Template.assignTags('js:v1', ['v2'])).buildId, info.buildId)
assert.deepEqual((await Template.getTags('js')).map(t => t.tag).sort(), ['default', 'v1', 'v2'])
await Template.removeTags('js', 'v2')
assert.deepEqual((await Template.getTags('js')).map(t => t.tag).sort(), ['default', 'v1'])
await assert.rejects(Template.build(Template().fromBaseImage().runCmd('exit 4'), 'js-bad'),
  e => e.name === 'BuildError' && e.message.includes("failed to run command 'exit 4': exit status 4"))
const again = await Template.buildInBackground(template, 'js')
let status
for (let i = 0; i < 300; i++) {
  status = await Template.getBuildStatus(again)
  if (!['waiting', 'building'].includes(status.status)) break
  await new Promise(r => setTimeout(r, 100))
}
assert.equal(status.status, 'ready')
console.log('done')
