// SPDX-License-Identifier: Apache-2.0
// node.js - the kernel of JavaScript and TypeScript, for node 16 and later
//
// The main thread evaluates cells through V8's inspector, as the console of a browser does: so
// const and let can be declared again, and await works outside of functions. A worker thread does
// everything else. It reads requests (descriptor 3), so that it can stop a cell that does not
// return to the event loop; it reads what was written to descriptors 1 and 2 (through 5 and 6, see
// kernel.c); and it alone writes events (4), in the order of the messages of the main thread.
// Before and after the main thread starts a child process, it waits until the worker has written
// all earlier output.
//
// The kernel runs in a context of its own, with its own built-ins: a cell that changes those of its
// context (Object.prototype, JSON, Promise) must not stop the kernel. What the kernel needs of node
// is copied before the first cell, and objects that node creates are copied before they are read,
// without what their prototype has. @main is the global object of the cells.
((require, load, main) => {
  'use strict';
  const { Worker } = require('worker_threads');
  const { Session } = require('inspector');
  const { Writable, Readable } = require('stream');
  const { createRequire } = require('module');
  const { inspect, types } = require('util');
  const url = { ...require('url') }, path = { ...require('path') };
  const { process, Buffer } = main, { env: variables } = process, { apply } = Reflect;
  const kernel = globalThis.__kernel;
  const TEXT_MAX = 16384, LINE_MAX = (16 << 20) - (1 << 16), QUEUE_MAX = 1 << 20,
    DEPTH_MAX = 64, MESSAGE = 256; // what a message takes, at least
  // Indexes of the numbers that both threads use.
  const OUTSTANDING = 0, SYNCED = 1, RUNNING = 2, HEARD = 3, STOPPED = 4;
  const shared = new Int32Array(new SharedArrayBuffer(20));

  // ------------------------------------------------------------ the worker

  function work() {
    const { parentPort, workerData, receiveMessageOnPort } = require('worker_threads');
    const { Session: Remote } = require('inspector');
    const fs = require('fs'), net = require('net');
    const { StringDecoder } = require('string_decoder');
    const { shared, TEXT_MAX, MESSAGE, OUTSTANDING, SYNCED, RUNNING, HEARD, STOPPED } = workerData;
    const readers = { stdout: 5, stderr: 6 }, decoders = {};
    let kind = 'stdout', pending = [], size = 0, credit = 0;

    // JSON.stringify() leaves characters that are not ASCII as they are.
    const ascii = s => s.replace(/[\u007f-\uffff]/g, c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));

    function line(text) {
      const data = Buffer.from(ascii(text) + '\n', 'latin1');
      for (let i = 0; i < data.length;) {
        try {
          i += fs.writeSync(4, data, i);
        } catch (e) {
          if (e.code !== 'EAGAIN')
            process.kill(process.pid, 'SIGKILL'); // there is no reader
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
        }
      }
    }

    function flush() {
      // Half of a surrogate pair is not valid JSON for every reader.
      const text = Buffer.from(pending.join('')).toString();
      pending = [];
      for (let i = 0, end; i < text.length; i = end) {
        end = Math.min(i + TEXT_MAX, text.length);
        if (end < text.length && (text.charCodeAt(end - 1) & 0xfc00) === 0xd800)
          end--;
        const timestamp = new Date().toISOString().replace('Z', '000Z');
        line(JSON.stringify({ type: kind, text: text.slice(i, end), timestamp }));
      }
      if (size && !credit)
        setImmediate(allow);
      credit += size;
      size = 0;
    }

    // Output may go on after the worker has looked for requests, so that they are not delayed.
    function allow() {
      Atomics.sub(shared, OUTSTANDING, credit);
      Atomics.notify(shared, OUTSTANDING);
      credit = 0;
    }

    function append(to, text) {
      if (to !== kind)
        flush();
      kind = to;
      pending.push(text);
    }

    // Reads what is in the FIFOs now.
    function drain() {
      const buffer = Buffer.alloc(65536);
      for (const name of Object.keys(readers)) {
        try {
          for (let n; (n = fs.readSync(readers[name], buffer)) > 0;)
            append(name, decoders[name].write(buffer.subarray(0, n)));
        } catch (e) {
          if (e.code !== 'EAGAIN')
            throw e;
        }
      }
    }

    const messages = {
      text({ to, text }) {
        append(to, text);
        size += text.length + MESSAGE;
        if (size > TEXT_MAX * 4)
          flush();
      },
      event({ text }) {
        flush();
        line(text);
      },
      sync({ last }) {
        drain();
        for (const name of last ? Object.keys(decoders) : [])
          append(name, decoders[name].end());
        flush();
        Atomics.add(shared, SYNCED, 1);
        Atomics.notify(shared, SYNCED);
      },
    };

    parentPort.on('message', function take(message) {
      for (let n = 0; message; message = n++ < 200 && (receiveMessageOnPort(parentPort) || {}).message)
        messages[message.op](message);
      flush();
    });

    for (const name of Object.keys(readers)) {
      decoders[name] = new StringDecoder('utf8');
      new net.Socket({ fd: readers[name], readable: true, writable: false }).on('data', data => {
        append(name, decoders[name].write(data));
        flush();
      });
    }

    // ---------------------------------------------------------- requests

    let remote = null;

    function leadsGroup() {
      try {
        return fs.readFileSync('/proc/self/stat', 'latin1').split(') ').pop().split(' ')[2] === String(process.pid);
      } catch (e) {
        return false; // there is no /proc
      }
    }

    // A cell that waits for a promise is left by the main thread. One that does not return to
    // the event loop is stopped by V8, and its children by a signal. Both are repeated, because
    // the signal can come before a child has started.
    function interrupt(id) {
      const target = id || Atomics.load(shared, RUNNING), heard = Atomics.load(shared, HEARD);
      if (!target)
        return;

      function stop() {
        Atomics.store(shared, STOPPED, target);
        if (leadsGroup())
          process.kill(-process.pid, 'SIGINT');
      }

      function insist() {
        if (Atomics.load(shared, HEARD) !== heard)
          return;
        if (Atomics.load(shared, RUNNING) === target) {
          stop();
          if (!remote) {
            remote = new Remote();
            remote.connectToMainThread();
          }
          remote.post('Runtime.terminateExecution', () => {});
          parentPort.postMessage({ op: 'interrupt', id: target });
        }
        setTimeout(insist, 200);
      }

      if (Atomics.load(shared, RUNNING) === target)
        stop();
      parentPort.postMessage({ op: 'interrupt', id: target });
      setTimeout(insist, 200);
    }

    function request(text) {
      let r;
      try {
        r = JSON.parse(text);
      } catch (e) {
        return; // the writer was killed in the middle of a line
      }
      if (r.op === 'interrupt')
        interrupt(r.id);
      else
        parentPort.postMessage(r);
    }

    let rest = [];
    const input = new net.Socket({ fd: 3, readable: true, writable: false });
    input.on('data', data => {
      for (let end; (end = data.indexOf(10)) >= 0; data = data.subarray(end + 1)) {
        rest.push(data.subarray(0, end));
        request(Buffer.concat(rest).toString());
        rest = [];
      }
      rest.push(data);
    });
    input.on('error', () => {});
    input.on('close', () => {
      parentPort.postMessage({ op: 'exit' });
      setTimeout(() => process.kill(process.pid, 'SIGKILL'), 2000);
    });
  }

  const { postMessage } = Worker.prototype, { emit } = require('events').prototype;
  const worker = new Worker(`(${work})()`, {
    eval: true, workerData: { shared, TEXT_MAX, MESSAGE, OUTSTANDING, SYNCED, RUNNING, HEARD, STOPPED },
  });
  Object.defineProperty(worker, 'emit', { value: emit });
  const send = message => apply(postMessage, worker, [message]);

  // ---------------------------------------------------------------- output

  function write(to, text) {
    for (let n; (n = Atomics.load(shared, OUTSTANDING)) > QUEUE_MAX;)
      Atomics.wait(shared, OUTSTANDING, n, 1000);
    Atomics.add(shared, OUTSTANDING, text.length + MESSAGE);
    send({ op: 'text', to, text });
  }

  function sync(last) {
    const before = Atomics.load(shared, SYNCED);
    send({ op: 'sync', last });
    while (Atomics.load(shared, SYNCED) === before)
      Atomics.wait(shared, SYNCED, before, 1000);
  }

  const event = fields => send({ op: 'event', text: JSON.stringify(fields) });
  // The begin or the end of a cell, in a new line: the cell can have written a part of one.
  const mark = fields => send({ op: 'event', text: '\n' + JSON.stringify(fields) });

  function stream(to, fd) {
    const out = new Writable({
      decodeStrings: false, autoDestroy: false, emitClose: false,
      write(chunk, encoding, done) {
        write(to, typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString());
        done();
      },
      destroy(error, done) { done(); },
    });
    const end = (chunk, ...rest) => { // the stream stays open
      if (typeof chunk === 'string' || types.isUint8Array(chunk))
        out.write(chunk, ...rest);
      return out;
    };
    return Object.assign(out, { fd, isTTY: false, end });
  }

  // Also after an interrupt, which can leave a stream in the middle of a write.
  function openStreams() {
    const stdout = stream('stdout', 1), stderr = stream('stderr', 2), stdin = Object.assign(Readable.from([]), { fd: 0 });
    for (const [name, value] of Object.entries({ stdout, stderr, stdin }))
      Object.defineProperty(process, name, { value, configurable: true, writable: true });
    main.console = new Console({ stdout, stderr, colorMode: false });
    main.console.Console = Console;
  }

  const { Console } = main.console;
  openStreams();

  const children = require('child_process');
  for (const name of ['spawn', 'fork', 'exec', 'execFile', 'spawnSync', 'execSync', 'execFileSync']) {
    const original = children[name];
    const wrapped = function (...args) {
      sync(false);
      try {
        return apply(original, this, args);
      } finally {
        if (name.endsWith('Sync'))
          sync(false);
      }
    };
    children[name] = Object.defineProperties(wrapped, Object.getOwnPropertyDescriptors(original));
  }

  class ProcessExit extends main.Error {
    constructor(code) {
      super(`process.exit(${code === undefined ? '' : code}) is not possible in a cell`);
      this.name = 'ProcessExit';
    }
  }
  const exit = process.exit.bind(process);
  process.exit = code => { throw new ProcessExit(code); };

  // --------------------------------------------------------------- results

  const FIELDS = {
    __proto__: null,
    'text/plain': 'text', 'text/html': 'html', 'text/markdown': 'markdown', 'image/svg+xml': 'svg',
    'image/png': 'png', 'image/jpeg': 'jpeg', 'application/pdf': 'pdf', 'text/latex': 'latex',
    'application/json': 'json', 'application/javascript': 'javascript',
  };
  const METHODS = {
    _toHtml: 'text/html', _toMarkdown: 'text/markdown', _toSvg: 'image/svg+xml', _toPng: 'image/png',
    _toJpeg: 'image/jpeg', _toPdf: 'application/pdf', _toLatex: 'text/latex',
  };
  const SHOW = Symbol.for('Jupyter.display');

  function unquoted(text) {
    return text.length > 1 && text[0] === text[text.length - 1] && '\'"`'.includes(text[0]) ? text.slice(1, -1) : text;
  }

  async function bundle(value) {
    let found = {};
    if (value !== null && (typeof value === 'object' || typeof value === 'function')) {
      try {
        if (typeof value[SHOW] === 'function')
          found = { ...await value[SHOW]() };
        else if (typeof value._toMime === 'function')
          found = { ...await value._toMime() };
        for (const [name, kind] of Object.entries(METHODS))
          if (typeof value[name] === 'function')
            found[kind] = await value[name]();
      } catch (e) {
        write('stderr', `the representation of a value failed: ${e}\n`);
      }
    }
    if (!('text/plain' in found))
      found['text/plain'] = trimmed(unquoted(inspect(value, { depth: 6, maxArrayLength: 1000, maxStringLength: LINE_MAX })));
    return found;
  }

  // The worker writes a character that is not ASCII as six.
  function lineLength(text) {
    return text.length * 6 <= LINE_MAX ? text.length : text.length + 5 * text.replace(/[\0-\x7e]+/g, '').length;
  }

  function depthOf(json) {
    let depth = 0, most = 0;
    for (let i = 0; i < json.length; i++) {
      if (json[i] === '"')
        while (json[++i] !== '"')
          i += json[i] === '\\';
      else if (json[i] === '[' || json[i] === '{')
        most = Math.max(most, ++depth);
      else if (json[i] === ']' || json[i] === '}')
        depth--;
    }
    return most;
  }

  function result(found, isMain) {
    const fields = { type: 'result', is_main_result: isMain }, extra = {};
    for (const [kind, value] of Object.entries(found)) {
      const name = FIELDS[kind];
      if (value === undefined || value === null)
        continue;
      if (!name)
        extra[kind] = value;
      else
        fields[name] = types.isUint8Array(value) ? Buffer.from(value).toString('base64')
          : name === 'json' ? value : String(value);
    }
    let text = JSON.stringify({ ...fields, extra });
    if (lineLength(text) > LINE_MAX || ((fields.json || Object.keys(extra).length) && depthOf(text) > DEPTH_MAX)) {
      const all = fields.text || '', cut = lineLength(all) > LINE_MAX - 1024;
      write('stderr', `the result is too large or too deep; only ${cut ? 'the begin of ' : ''}its text is shown\n`);
      text = JSON.stringify({ type: 'result', is_main_result: isMain, text: cut ? all.slice(0, 1 << 20) + '...' : all, extra: {} });
    }
    sync(false);
    send({ op: 'event', text });
  }

  let displays = Promise.resolve();
  const show = found => { displays = displays.then(async () => result(await found, false)); };
  const display = (...values) => values.forEach(v => show(bundle(v)));
  const kinds = { text: 'text/plain', html: 'text/html', markdown: 'text/markdown', svg: 'image/svg+xml',
    png: 'image/png', jpeg: 'image/jpeg', json: 'application/json', latex: 'text/latex' };
  const $$ = { mime: show, display };
  for (const [name, kind] of Object.entries(kinds))
    $$[name] = data => show({ [kind]: data });

  // ---------------------------------------------------------------- errors

  // Removes the lines of the kernel from a stack; a line can end with the brace of an object.
  function trimmed(text) {
    return text.replace(/\n\s+at Session\.post \(node:inspector(?:[^\n]*\n\s+at )*[^\n]*?( \{)?(?=\n|$)/g, '$1')
      .replace(/\n\s+at (?:[^\n]*\()?kernel:\d+:\d+\)?( \{)?(?=\n|$)/g, '$1');
  }

  function stackOf(error) {
    if (error instanceof KeyboardInterrupt)
      return error.stack;
    return types.isNativeError(error) ? trimmed(inspect(error)) : `Uncaught ${inspect(error)}`;
  }

  function describe(error) {
    const own = error !== null && typeof error === 'object';
    return {
      type: 'error', name: String(own && (error.name || error.constructor.name) || 'Error').slice(0, 1 << 16),
      value: String(own && error.message !== undefined ? error.message : inspect(error)).slice(0, 1 << 20),
      traceback: stackOf(error).slice(0, 1 << 20),
    };
  }

  // Calls a function that uses what a cell can have changed.
  function attempt(fn, otherwise) {
    try {
      return fn();
    } catch (e) {
      return otherwise;
    }
  }

  const HIDDEN = 'the description of the error failed';
  const report = error => event(attempt(() => describe(error), { type: 'error', name: 'Error', value: HIDDEN, traceback: HIDDEN }));
  const later = error => write('stderr', `Uncaught ${attempt(() => stackOf(error), HIDDEN).replace(/^Uncaught /, '')}\n`);
  process.on('uncaughtException', later);
  process.on('unhandledRejection', later);
  process.on('SIGINT', () => {});

  class KeyboardInterrupt extends Error {
    constructor() {
      super('the cell was interrupted');
      this.name = 'KeyboardInterrupt';
      this.stack = 'KeyboardInterrupt: the cell was interrupted';
    }
  }

  // ----------------------------------------------------------------- cells

  const session = new Session();
  session.connect();
  const { post: sessionPost } = Session.prototype, common = main.Object.prototype;

  // node sends a message as JSON, for which Object.prototype must have no toJSON(). It is put back
  // when the parameters are converted, which is after the message and before the cell runs.
  function params(fields) {
    const found = Object.getOwnPropertyDescriptor(common, 'toJSON');
    if (found && !Reflect.deleteProperty(common, 'toJSON'))
      throw new TypeError('Object.prototype.toJSON cannot be removed; restart the context');
    return {
      toJSON() {
        if (found)
          Object.defineProperty(common, 'toJSON', found);
        return fields;
      },
    };
  }

  const post = (method, fields) => new Promise((resolve, reject) =>
    apply(sessionPost, session, [method, params(fields), (error, found) => error ? reject(error) : resolve({ ...found })]));

  const base = () => path.join(process.cwd(), 'cell.js');
  let last, taken;
  Object.defineProperty(main, '__kernel', { enumerable: false, value: Object.freeze({
    // Paths are relative to the current directory, also after process.chdir().
    async load(name, options) {
      name = String(name);
      if (options && options.with && options.with.type === 'json')
        return last = { default: createRequire(base())(name) };
      if (/^\.{0,2}\//.test(name)) {
        name = url.pathToFileURL(path.resolve(name)).href;
      } else if (!/^\w+:/.test(name)) {
        try {
          const found = createRequire(base()).resolve(name);
          name = path.isAbsolute(found) ? url.pathToFileURL(found).href : found;
        } catch (e) { /* import() has the better message */ }
      }
      return last = await load(name);
    },
    get meta() {
      return { url: url.pathToFileURL(base()).href, dirname: process.cwd(), filename: base() };
    },
    get last() { return last; },
    take(value) { taken = value; },
  }) });
  Object.assign(main, { display, $$ });
  for (const name of ['module', 'exports', '__filename', '__dirname'])
    delete main[name];
  Object.defineProperty(main, 'require', { configurable: true, writable: true, enumerable: false,
    value: Object.assign(name => createRequire(base())(name), require, { resolve: (...a) => createRequire(base()).resolve(...a) }) });

  // Gets the value that the inspector describes.
  async function valueOf(described) {
    const remote = { ...described };
    if (remote.objectId === undefined)
      return remote.unserializableValue === undefined ? remote.value
        : remote.type === 'bigint' ? BigInt(remote.unserializableValue.slice(0, -1)) : Number(remote.unserializableValue);
    await post('Runtime.callFunctionOn', {
      objectId: remote.objectId, functionDeclaration: 'function (v) { __kernel.take(v); }',
      arguments: [{ objectId: remote.objectId }],
    });
    await post('Runtime.releaseObject', { objectId: remote.objectId });
    const value = taken;
    taken = undefined;
    return value;
  }

  function withoutTypes(code) {
    const module = require('module');
    if (module.stripTypeScriptTypes) {
      try {
        return module.stripTypeScriptTypes(code, { mode: 'transform' });
      } catch (e) {
        throw Object.assign(new SyntaxError(e.message), { stack: `SyntaxError: ${e.message}` });
      }
    }
    try {
      const ts = createRequire(base())('typescript');
      return ts.transpileModule(code, { compilerOptions: { target: 'esnext', module: 'esnext' } }).outputText;
    } catch (e) { /* not installed */ }
    const done = children.spawnSync('esbuild', ['--loader=ts', '--log-level=error'], { input: code, encoding: 'utf8' });
    if (done.status === 0)
      return done.stdout;
    if (!done.error)
      throw Object.assign(new SyntaxError(done.stderr.trim()), { stack: `SyntaxError: ${done.stderr.trim()}` });
    throw new Error(`TypeScript needs node 22.13 or later (this is ${process.versions.node}), or the package ` +
      'typescript or esbuild in the image');
  }

  let count = 0, current = null;
  const queue = [];

  async function evaluate(cell, code, env, language) {
    cell.before = Object.keys(env || {}).map(name => [name, variables[name]]);
    Object.assign(variables, env);
    if (language === 'typescript')
      code = withoutTypes(code);
    const found = await post('Runtime.evaluate', {
      expression: `${kernel.rewrite(code)}\n//# sourceURL=cell_${count}.js`, replMode: true, awaitPromise: true,
      userGesture: true,
    });
    if (found.exceptionDetails)
      throw await valueOf(found.exceptionDetails.exception || {});
    const value = await valueOf(found.result);
    const shown = displays;
    displays = Promise.resolve(); // one that fails is not an error of later cells
    await shown;
    if (value !== undefined)
      result(await bundle(value), true);
  }

  function begin() {
    const { op, id, code, env_vars: env, language, cancelled } = queue.shift();
    if (op !== 'execute')
      exit(0);
    const cell = current = { id: id || -1, before: [] };
    mark({ type: 'number_of_executions', execution_count: ++count, id: id || 0 });
    Atomics.store(shared, RUNNING, cell.id);
    if (cancelled)
      end(cell, { error: new KeyboardInterrupt() });
    else
      evaluate(cell, code, env, language).then(() => end(cell), error => end(cell, { error }));
  }

  // This is called a second time if a cell goes on after an interrupt.
  function end(cell, failure) {
    if (cell !== current)
      return;
    Atomics.store(shared, RUNNING, 0);
    sync(true);
    if (Atomics.load(shared, STOPPED) === cell.id)
      attempt(openStreams);
    if (failure)
      report(Atomics.load(shared, STOPPED) === cell.id ? new KeyboardInterrupt() : failure.error);
    for (const [name, value] of cell.before)
      attempt(() => value === undefined ? delete variables[name] : variables[name] = value);
    mark({ type: 'end_of_execution' });
    current = null;
    if (queue.length)
      begin();
  }

  worker.on('message', message => {
    const request = { ...message };
    if (request.op === 'interrupt') {
      Atomics.add(shared, HEARD, 1);
      for (const waiting of queue)
        waiting.cancelled ||= waiting.id === request.id;
      if (current && current.id === request.id)
        end(current, { error: new KeyboardInterrupt() });
      return;
    }
    queue.push(request);
    if (!current)
      begin();
  });
  worker.on('error', error => {
    require('fs').writeSync(7, `the kernel failed: ${error.stack}\n`);
    process.reallyExit(1);
  });
})
