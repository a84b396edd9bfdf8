// SPDX-License-Identifier: Apache-2.0
// surface.mjs - call every public method of e2b and @e2b/code-interpreter once
//
// The methods are found by introspection; the types of the packages say which are private. The program fails if it
// did not call one of them itself, and prints all of them, so that the test can look for them in the documentation.
import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { chmodSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'

const require = createRequire(process.env.E2B_CLIENTS + '/x.js')
const sdk = require('@e2b/code-interpreter')
const { Sandbox, Secret, Template, TemplateBase, Volume } = sdk

// Classes with public methods that do not use the service.
const LOCAL = new Set(['ApiClient', 'ConnectionConfig', 'LogEntry', 'LogEntryStart', 'LogEntryEnd', 'ReadyCmd', 'default',
  'Template', 'E2B', 'defaultBuildLogger'])
const NAME = 'surface_js'
const inside = new AsyncLocalStorage()
const wanted = new Set(), called = new Set()

// Names of members that the types declare to be private, by class.
function hidden() {
  const found = new Map()
  for (const name of ['e2b', '@e2b/code-interpreter']) {
    const parts = readFileSync(require.resolve(name).replace(/\.js$/, '.d.ts'), 'utf8').split(/^declare (?:abstract )?class /m)
    for (const part of parts.slice(1)) {
      const names = part.split(/^}/m)[0].matchAll(/^\s*(private|protected) (static )?(?:readonly |get )?(\w+)/gm)
      const all = [...names].map(([, , isStatic, member]) => `${isStatic ? 'static ' : ''}${member}`)
      const key = part.match(/\w+/)[0]
      found.set(key, new Set([...(found.get(key) ?? []), ...all]))
    }
  }
  return found
}
const HIDDEN = hidden()

function isHidden(owner, isStatic, name) {
  return [...(HIDDEN.get(owner) ?? []), ...(HIDDEN.get('ClientFactory') ?? [])].includes(`${isStatic ? 'static ' : ''}${name}`)
}

function record(key, method) {
  return function (...args) {
    if (!inside.getStore()) called.add(key)
    return inside.run(true, () => method.apply(this, args))
  }
}

function watchMembers(kind, object, isStatic) {
  for (let at = object; at && at !== Object.prototype && at !== Function.prototype; at = Object.getPrototypeOf(at)) {
    const owner = isStatic ? at.name : at.constructor.name
    for (const name of Object.getOwnPropertyNames(at)) {
      const d = Object.getOwnPropertyDescriptor(at, name)
      if (name === 'constructor' || name.startsWith('_') || typeof d.value !== 'function' || isHidden(owner, isStatic, name) ||
          isHidden(kind, isStatic, name) || d.value.prototype?.constructor === d.value || d.value.watched) continue
      const key = `${kind} ${name}`
      wanted.add(key)
      const f = record(key, d.value)
      f.watched = true
      Object.defineProperty(at, name, { ...d, value: f })
    }
  }
}

// Has all calls of public methods of the class of an object noted.
function watch(object) {
  watchMembers(object.constructor.name, Object.getPrototypeOf(object), false)
  return object
}

for (const [name, kind] of Object.entries(sdk)) {
  if (typeof kind !== 'function' || !kind.prototype || kind.prototype instanceof Error || LOCAL.has(name)) continue
  watchMembers(name, kind, true)
  watchMembers(name, kind.prototype, false)
}
// `Template` has the same methods as its class.
for (const name of Object.getOwnPropertyNames(Template))
  if (typeof TemplateBase[name] === 'function' && typeof Template[name] === 'function') Template[name] = TemplateBase[name].bind(TemplateBase)

async function until(fn, what) {
  for (let i = 0; i < 300; i++) {
    if (await fn()) return
    await new Promise(r => setTimeout(r, 100))
  }
  throw new Error(`${what}: not within 30 s`)
}

async function lifecycle(s) {
  assert.equal((await s.getInfo()).sandboxId, s.sandboxId)
  assert.equal((await Sandbox.getFullInfo(s.sandboxId)).sandboxId, s.sandboxId)
  assert.equal(await s.isRunning(), true)
  await s.setTimeout(600000)
  assert.equal((await Sandbox.connect(s.sandboxId)).sandboxId, s.sandboxId)
  assert.ok((await watch(Sandbox.list()).nextItems()).length > 0)
  assert.ok((await s.getMetrics())[0].cpuCount > 0)
  assert.ok(s.getHost(80).startsWith(`80-${s.sandboxId}`))
  assert.ok((await s.downloadUrl('f')).includes('signature') && (await s.uploadUrl('f')).includes('signature'))
  await s.updateNetwork({ denyOut: ['0.0.0.0/0'] })
  assert.equal(await s.pause(), true)
  await s.connect()
  await s.betaPause()
  await s.connect()
  const snapshot = await s.createSnapshot()
  assert.deepEqual((await watch(s.listSnapshots()).nextItems()).map(x => x.snapshotId), [snapshot.snapshotId])
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
  for (const copy of await s.fork({ count: 1 })) assert.equal(await copy.kill(), true)
  assert.ok(s.getMcpUrl().endsWith('/mcp'))
  await s.commands.run('mkdir /etc/mcp-gateway; echo -n t >/etc/mcp-gateway/.token', { user: 'root' })
  assert.equal(await s.getMcpToken(), 't')
}

async function files(s) {
  const f = watch(s.files)
  assert.equal((await f.write('a', '1')).path, '/home/user/a')
  assert.equal((await f.writeFiles([{ path: 'b', data: '2' }, { path: 'c', data: '3' }])).length, 2)
  assert.deepEqual([await f.read('a'), (await f.getInfo('a')).size, await f.exists('a')], ['1', 1, true])
  assert.deepEqual([await f.makeDir('d'), (await f.list('d')).length], [true, 0])
  await f.rename('a', 'd/a')
  await f.remove('b')
  const seen = []
  const watcher = watch(await f.watchDir('d', e => seen.push(e.name)))
  await f.write('d/new', 'x')
  await until(() => seen.includes('new'), 'the change')
  await watcher.stop()
}

async function commands(s) {
  const c = watch(s.commands)
  assert.equal((await c.run('echo hi')).stdout, 'hi\n')
  let h = watch(await c.run('cat', { background: true, stdin: true }))
  assert.ok((await c.list()).some(p => p.pid === h.pid))
  const again = await c.connect(h.pid)
  await c.sendStdin(h.pid, '1\n')
  await h.sendStdin('2\n')
  await c.closeStdin(h.pid)
  assert.equal((await h.wait()).stdout, '1\n2\n')
  await again.disconnect()
  h = await c.run('cat', { background: true, stdin: true })
  await h.closeStdin()
  assert.equal((await h.wait()).exitCode, 0)
  for (const end of [x => x.kill(), x => c.kill(x.pid)]) {
    h = await c.run('sleep 1000', { background: true })
    assert.equal(await end(h), true)
    await assert.rejects(h.wait())
  }
}

async function terminals(s) {
  const p = watch(s.pty), data = []
  let t = await p.create({ cols: 80, rows: 24, onData: x => data.push(...x) })
  await p.resize(t.pid, { cols: 100, rows: 30 })
  const again = await p.connect(t.pid, { onData: () => {} })
  await p.sendInput(t.pid, new TextEncoder().encode('stty size; exit\n'))
  assert.equal((await t.wait()).exitCode, 0)
  assert.ok(Buffer.from(data).includes('30 100'))
  await again.disconnect()
  t = await p.create({ cols: 80, rows: 24, onData: () => {} })
  assert.equal(await p.kill(t.pid), true)
  await assert.rejects(t.wait())
}

async function git(s) {
  const g = watch(s.git)
  await g.configureUser('a', 'a@example.org')
  await g.setConfig('init.defaultBranch', 'main')
  assert.equal(await g.getConfig('init.defaultBranch'), 'main')
  await g.init('up.git', { bare: true, initialBranch: 'main' })
  await g.clone('file:///home/user/up.git', { path: 'work' })
  await s.files.write('work/f', '1')
  await g.add('work')
  await g.commit('work', 'first')
  await g.push('work', { remote: 'origin', branch: 'main' })
  await g.pull('work', { remote: 'origin', branch: 'main' })
  await g.createBranch('work', 'side')
  await g.checkoutBranch('work', 'main')
  assert.deepEqual((await g.branches('work')).branches.sort(), ['main', 'side'])
  await g.deleteBranch('work', 'side')
  await g.remoteAdd('work', 'other', 'https://example.org/x.git')
  assert.equal(await g.remoteGet('work', 'other'), 'https://example.org/x.git')
  await s.files.write('work/f', '2')
  assert.equal((await g.status('work')).hasChanges, true)
  await g.restore('work', { paths: ['f'] })
  await g.reset('work', { mode: 'hard' })
  assert.equal((await g.status('work')).hasChanges, false)
  await g.dangerouslyAuthenticate({ username: 'u', password: 'p', host: 'example.org' })
}

async function cells(s) {
  const context = await s.createCodeContext({ language: 'python' })
  assert.equal((await s.runCode('6 * 7', { context })).text, '42')
  assert.ok((await s.listCodeContexts()).some(c => c.id === context.id))
  await s.restartCodeContext(context)
  await s.removeCodeContext(context)
}

async function volumes() {
  const v = await Volume.create(NAME)
  assert.equal((await Volume.getInfo(v.volumeId)).name, NAME)
  assert.equal((await Volume.connect(v.volumeId)).name, NAME)
  assert.ok((await Volume.list()).some(x => x.name === NAME))
  await v.makeDir('/d')
  await v.writeFile('/d/f', 'x')
  assert.deepEqual([(await v.list('/d')).map(e => e.name), (await v.getInfo('/d/f')).size], [['f'], 1])
  assert.deepEqual([await v.readFile('/d/f'), await v.exists('/d/f')], ['x', true])
  await v.updateMetadata('/d/f', { mode: 0o600 })
  await v.remove('/d/f')
  assert.equal(await Volume.destroy(v.volumeId), true)
}

async function secrets() {
  await Secret.create(NAME, 'value')
  assert.deepEqual([await Secret.exists(NAME), (await Secret.getInfo(NAME)).name], [true, NAME])
  await Secret.update(NAME, 'other')
  assert.ok((await watch(Secret.list()).nextItems()).some(x => x.name === NAME))
  assert.equal(Secret.fill(NAME), '${e2b.secrets.' + NAME + '}')
  const tokens = { t: Secret.iamToken({ audience: 'a', tokenType: 'JWT-SVID' }) }
  await assert.rejects(Sandbox.create({ iam: { tokens } }), /iam/)
  assert.equal(await Secret.destroy(NAME), true)
}

// A directory with programs that templates need, which only note their arguments.
function stubs() {
  const path = mkdtempSync(`${tmpdir()}/warren-test-`)
  for (const name of ['apt-get', 'pip', 'npm', 'bun', 'mcp-gateway', 'devcontainer']) {
    writeFileSync(`${path}/${name}`, '#!/bin/sh\necho "${0##*/} $@" >>/home/user/log\n')
    chmodSync(`${path}/${name}`, 0o755)
  }
  return path
}

async function templates() {
  for (const variant of ['Alpine', 'Arch', 'Bun', 'Debian', 'Fedora', 'Node', 'Python', 'Ubuntu'])
    assert.ok((await Template.toJSON(Template()[`from${variant}Image`]())).includes('fromImage'))
  assert.ok(Template.toDockerfile(Template().fromImage('debian:stable').runCmd('true')).startsWith('FROM debian:stable'))
  for (const t of [Template().fromAWSRegistry('x/y', { accessKeyId: 'a', secretAccessKey: 'b', region: 'c' }),
    Template().fromGCPRegistry('x/y', { serviceAccountJSON: {} }), Template().fromImage('x/y', { username: 'u', password: 'p' })])
    await assert.rejects(Template.build(t, NAME), /warren image pull/)
  const to = { mode: 0o755 }
  const programs = Template({ fileContextPath: stubs() }).fromBaseImage()
    .copyItems(['apt-get', 'pip', 'npm', 'bun'].map(src => ({ src, dest: '/home/user/bin/', mode: 0o755 })))
    .copy('mcp-gateway', '/home/user/bin/', to).copy('devcontainer', '/home/user/bin/', to)
    .runCmd("for h in /root /home/user; do echo 'PATH=/home/user/bin:$PATH' >$h/.bash_profile; done; " +
            'touch /home/user/log; chmod 666 /home/user/log', { user: 'root' })
  await Template.build(programs, 'mcp-gateway')
  await Template.build(Template().fromTemplate('mcp-gateway').runCmd('true'), 'devcontainer')
  await Template.build(Template().fromTemplate('mcp-gateway').addMcpServer('exa'), `${NAME}-servers`)
  await Template.build(Template().fromTemplate('devcontainer').betaDevContainerPrebuild('/home/user'), `${NAME}-prebuilt`)
  const started = Template().fromTemplate('devcontainer').betaSetDevContainerStart('/home/user')
  assert.ok((await Template.toJSON(started)).includes('devcontainer up'))
  await Template.toJSON(Template().fromDockerfile('FROM debian:stable\nRUN true'))
  for (const ready of [sdk.waitForPort(1), sdk.waitForURL('http://127.0.0.1:1'), sdk.waitForProcess('x'), sdk.waitForTimeout(1000)])
    assert.ok((await Template.toJSON(Template().fromBaseImage().setReadyCmd(ready))).includes('readyCmd'))
  const steps = Template().skipCache().fromTemplate('mcp-gateway').aptInstall('a').pipInstall('b').npmInstall('c', { g: true })
    .bunInstall('d').makeDir('m').runCmd('git init --bare -q r.git; touch m/x').gitClone('file:///home/user/r.git', 'w')
    .rename('m/x', 'm/y').makeSymlink('m/y', 'l').remove('r.git', { recursive: true })
    .setEnvs({ A: 'b' }).setWorkdir('/home/user/m').setUser('user')
    .setStartCmd('touch /tmp/started', sdk.waitForFile('/tmp/started'))
  const build = await Template.buildInBackground(steps, NAME)
  await until(async () => {
    const state = await Template.getBuildStatus(build)
    assert.notEqual(state.status, 'error', JSON.stringify(state))
    return state.status === 'ready'
  }, 'the build')
  assert.deepEqual([await Template.exists(NAME), await Template.aliasExists(NAME)], [true, true])
  await Template.assignTags(`${NAME}:default`, ['v1'])
  assert.deepEqual((await Template.getTags(build.templateId)).map(t => t.tag).sort(), ['default', 'v1'])
  await Template.removeTags(NAME, ['v1'])
  const s = await Sandbox.create(NAME)
  const out = (await s.commands.run("pwd; echo $A; cat ~/log; ls ~ | tr '\\n' ' '; ls /tmp/started")).stdout
  assert.deepEqual(out.trim().split('\n'), ['/home/user/m', 'b', 'apt-get update', 'apt-get install -y a', 'pip install b',
    'npm install -g c', 'bun install d', 'bin l log m w /tmp/started'])
  await s.kill()
}

const s = await Sandbox.create()
try {
  for (const part of [lifecycle, files, commands, terminals, git, cells]) await part(s)
} finally {
  assert.equal(await s.kill(), true)
}
for (const part of [volumes, secrets, templates]) await part()
const client = new sdk.E2B({ apiKey: process.env.E2B_API_KEY })
assert.deepEqual(await client.Sandbox.list().nextItems(), [])
assert.deepEqual([...wanted].filter(key => !called.has(key)).sort(), [], 'methods that were not called')
for (const key of [...wanted].sort()) console.log(`method ${key}`)
console.log('done')
process.exit(0)
