// SPDX-License-Identifier: Apache-2.0
// code.mjs - drive the code interpreter of a service with the JavaScript SDK of E2B
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const require = createRequire(process.env.E2B_CLIENTS + '/x.js')
const { Sandbox } = require('@e2b/code-interpreter')

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

// Has the test do something with the service.
async function step(name) {
  console.log(`step ${name}`)
  return (await answers.next()).value
}

const s = await Sandbox.create()
try {
  let r = await s.runCode('x = 41\nprint("printed")\nx + 1')
  assert.deepEqual([r.text, r.logs.stdout, r.error, r.executionCount], ['42', ['printed\n'], undefined, 1])
  assert.equal((await s.runCode('x')).text, '41')
  r = await s.runCode('1 / 0')
  assert.equal(r.error.name, 'ZeroDivisionError')
  assert.equal((await s.runCode('import os; os.environ["Q"]', { envs: { Q: 'q' } })).text, 'q')
  assert.equal((await s.runCode('"\u00e4\u{1f600}" * 3')).text, '\u00e4\u{1f600}'.repeat(3))

  // The image of the test may lack node.
  const node = (await s.commands.run('command -v node || command -v nodejs || true')).stdout !== ''
  const seen = []
  r = node && await s.runCode('const a = 1; console.log(a); console.error("bad"); [a, 2]', {
    language: 'js',
    onStdout: m => { seen.push(m.line) },
    onStderr: m => { seen.push(m.line) },
    onResult: x => { seen.push(x.text) },
  })
  if (node) {
    assert.deepEqual(seen, ['1\n', 'bad\n', '[ 1, 2 ]'])
    assert.equal((await s.runCode('a + 1', { language: 'js' })).text, '2')
  }
  assert.deepEqual((await s.runCode('echo $((6*7))', { language: 'bash' })).logs.stdout, ['42\n'])

  const context = await s.createCodeContext({ language: 'python', cwd: '/tmp' })
  assert.deepEqual([context.language, context.cwd], ['python', '/tmp'])
  assert.equal((await s.runCode('import os; y = 5; os.getcwd()', { context })).text, '/tmp')
  assert.ok((await s.listCodeContexts()).some(c => c.id === context.id))
  await assert.rejects(s.runCode('import time; time.sleep(1000)', { context, timeoutMs: 1000 }), { name: 'TimeoutError' })
  assert.equal((await s.runCode('y', { context })).text, '5', 'after the interrupt')
  assert.deepEqual((await Promise.all([1, 2, 3].map(n => s.runCode(`y + ${n}`, { context })))).map(x => x.text),
    ['6', '7', '8'])

  await step('kill')
  assert.equal((await s.runCode('y', { context })).text, '5', 'after a restart of the service')
  if (node)
    assert.equal((await s.runCode('a', { language: 'js' })).text, '1')

  await s.restartCodeContext(context)
  assert.equal((await s.runCode('y', { context })).error.name, 'NameError')
  await s.removeCodeContext(context)
  await assert.rejects(s.runCode('1', { context }), { name: 'NotFoundError' })
} finally {
  assert.equal(await s.kill(), true)
}
console.log('done')
process.exit(0)
