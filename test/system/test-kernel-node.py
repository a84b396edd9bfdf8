#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-kernel-node.py - cells of JavaScript and TypeScript keep state, and can be stopped

Prints TAP. Starts the kernel (src/code/kernel) as a process without a sandbox. Needs node.
"""
import json
import os
import shutil
import sys
import functools

from os.path import abspath, dirname, join
sys.path[:0] = [join(dirname(abspath(__file__)), "../lib")]
from checks import Skip, eq, ok, run_tests, scratch, test  # pylint: disable=wrong-import-position
from kernel_world import Kernel  # pylint: disable=wrong-import-position

node = functools.partial(Kernel, "javascript")


@test
def state_is_kept_and_the_last_expression_is_the_result():
    with node() as k:
        eq(k.run("let r = 1, n = 2;").error, None, "names that the start of the kernel uses")
        cell = k.run("const a = 20; let b = 1; var c = 1; function f(x) { return a + x; } class C {}")
        eq([e["type"] for e in cell.events], ["number_of_executions", "end_of_execution"])
        eq(k.run("f(22)").text, "42")
        eq(k.run("const a = 1; let b = a + 1; b").text, "2", "const and let can be declared again")
        eq(k.run("[a, b, c, typeof C]").text, "[ 1, 2, 1, 'function' ]")
        for code, text in (("'it is'", "it is"), ("null", "null"), ("10n", "10n"), ("NaN", "NaN"), ("-0", "-0"),
                           ("({x: {y: [1]}})", "{ x: { y: [ 1 ] } }"), ("new Map([[1, 2]])", "Map(1) { 1 => 2 }"),
                           ("true", "true"), ("Symbol('s')", "Symbol(s)"), ("undefined", None), ("let z = 5", None)):
            eq(k.run(code).text, text, code)
        eq(k.run("").events[0]["execution_count"], 17)


@test
def await_and_imports_work():
    with scratch() as d, node(cwd=d) as k:
        for name, text in (("m.mjs", "export default 1; export const two = 2;"), ("c.js", "exports.three = 3;"),
                           ("j.json", '{"four": 4}')):
            with open(f"{d}/{name}", "w", encoding="ascii") as f:
                f.write(text)
        eq(k.run("await new Promise(r => setTimeout(() => r(7), 10))").text, "7")
        eq(k.run("const v = await Promise.resolve(8)\nv").text, "8")
        eq(k.run("for await (const x of [1, 2]) console.log(x)").stdout, "1\n2\n")
        eq(k.run("(await import('./m.mjs')).two").text, "2")
        eq(k.run("import one, { two as deux } from './m.mjs';\nimport * as os from 'node:os'\nimport 'fs'\n"
                 "[one, deux, typeof os.EOL]").text, "[ 1, 2, 'string' ]")
        eq(k.run("import { join,\n  basename } from 'path'; basename(join('a', 'b'))").text, "b")
        eq(k.run("import j from './j.json' with { type: 'json' }; j.four").text, "4")
        eq(k.run("require('./c').three + require('path').sep").text, "3/")
        eq(k.run("`${`import('x')`}` + 'import(1)' + /import(1)/.source // import('y')").text,
           "import(\\'x\\')import(1)import(1)".replace("\\", ""))
        eq(k.run("const o = { import: 1, export: 2 }; o.import + o.export / 1 / 1").text, "3")
        eq(k.run("export const exported = 6; export default function named() {}\nexported").text, "6")
        ok("nosuch" in k.run("await import('./nosuch.mjs')").error["value"], "the error of import()")


@test
def output_of_every_origin_is_captured_in_order():
    with node() as k:
        cell = k.run("const { execSync, spawnSync } = require('child_process');\nconsole.log('a', { b: 1 });\n"
                     "execSync('echo c', { stdio: 'inherit' });\nprocess.stdout.write('d\\n');\n"
                     "spawnSync('echo', ['e'], { stdio: 'inherit' }); console.info('f');\nexecSync('echo not shown');0")
        eq(cell.stdout, "a { b: 1 }\nc\nd\ne\nf\n")
        cell = k.run("console.log('1'); console.error('2'); console.log('3'); console.warn('4'); 5")
        eq([(e["type"], e["text"]) for e in cell.events[1:-1]],
           [("stdout", "1\n"), ("stderr", "2\n"), ("stdout", "3\n"), ("stderr", "4\n"), ("result", "5")])
        eq(k.run("require('fs').writeSync(1, 'raw\\n');0").stdout, "raw\n")
        eq(k.run("await new Promise(r => require('child_process').spawn('echo', ['x'], { stdio: 'inherit' }).on('close', r))")
           .stdout, "x\n")
        line = json.dumps({"type": "end_of_execution"})
        eq(k.run(f"console.log('{line}'); execSync('ls /proc/self/fd | wc -l', {{ stdio: 'inherit' }});0").stdout,
           f"{line}\n4\n")


@test
def any_text_and_much_output_become_whole_events():
    with node() as k:
        eq(k.run("console.log('é\\u{1f600}\\ud800')").stdout, "é\U0001f600\ufffd\n")
        eq(k.run("require('fs').writeSync(1, Buffer.from([0xff, 0xc3]));0").stdout, "\ufffd\ufffd")
        eq(k.run("console.log('\\u{1f600}'.repeat(300000))").stdout, "\U0001f600" * 300000 + "\n")
        eq(k.run("for (let i = 0; i < 100000; i++) console.log(i)").stdout, "".join(f"{i}\n" for i in range(100000)))
        eq(len(k.run("execSync = require('child_process').execSync; "
                     "execSync(\"head -c 3000000 /dev/zero | tr '\\\\0' x\", { stdio: 'inherit' });0").stdout), 3000000)
        eq(k.run(f"{'é' * 1000000!r}.length").text, "1000000")


@test
def errors_have_a_name_a_value_and_a_stack_with_the_line_of_the_cell():
    with node() as k:
        k.run("function fail() {\n  throw new TypeError('broken');\n}")
        e = k.run("\nfail()").error
        eq(e, {"type": "error", "name": "TypeError", "value": "broken",
               "traceback": "TypeError: broken\n    at fail (cell_1.js:2:9)\n    at cell_2.js:2:1"})
        eq(k.run("let x = ;").error["name"], "SyntaxError")
        eq(k.run("nosuch").error["value"], "nosuch is not defined")
        e = k.run("throw 42").error
        eq((e["name"], e["value"]), ("Error", "42"))
        e = k.run("await Promise.reject(new RangeError('r'))").error
        eq((e["name"], e["value"]), ("RangeError", "r"))
        e = k.run("process.exit(3)").error
        ok(e["name"] == "ProcessExit" and "process.exit(3)" in e["value"], e)
        cell = k.run("setTimeout(() => { throw new Error('later'); }, 0); await new Promise(r => setTimeout(r, 50)); 9")
        ok(cell.text == "9" and "Uncaught Error: later" in cell.stderr, cell)
        cell = k.run("Promise.reject(new Error('forgotten')); await new Promise(r => setTimeout(r, 50)); 10")
        ok(cell.text == "10" and "forgotten" in cell.stderr, cell)
        eq(k.run("const e = new Error('as a value'); e.stack = 'short'; e").text, "[short]")


@test
def values_are_shown_in_every_representation_they_have():
    with node() as k:
        cell = k.run("$$.html('<b>'); display({ _toPng() { return Buffer.from('png'); } });\n"
                     "({ [Symbol.for('Jupyter.display')]() { return { 'text/markdown': '# m', 'x/y': 1, 'text/plain': 't' }; } })")
        eq([r["is_main_result"] for r in cell.results], [False, False, True])
        eq(cell.results[0]["html"], "<b>")
        eq(cell.results[1]["png"], "cG5n")
        eq(cell.results[2], {"type": "result", "is_main_result": True, "markdown": "# m", "text": "t", "extra": {"x/y": 1}})
        cell = k.run("({ _toHtml() { throw new Error('no'); } })")
        ok("_toHtml" in cell.text and "no" in cell.stderr, cell)


# What polyfills, test libraries and mistakes change.
CHANGES = (
    "Object.prototype.toJSON = function () { return 'pwn'; }; ({ a: 1 })",
    "JSON.stringify = () => 'pwn'; JSON.parse = undefined; 3",
    "Array.prototype.push = Array.prototype.map = Array.prototype.join = function () { throw 1; }; 8",
    "for (const n of Object.getOwnPropertyNames(Array.prototype)) if (n !== 'constructor') Array.prototype[n] = null; 1",
    "for (const n of ['slice', 'replace', 'includes', 'endsWith']) String.prototype[n] = null; 1",
    "Promise.prototype.then = Promise.prototype.finally = function () { throw 1; }; 1",
    "Function.prototype.apply = Function.prototype.call = Function.prototype.bind = null; 1",
    "for (const n of ['keys', 'entries', 'assign', 'defineProperty']) Object[n] = null; 1",
    "RegExp.prototype.exec = RegExp.prototype[Symbol.replace] = null; 1",
    "Array.prototype[Symbol.iterator] = null; 1",
    "Object.prototype.cancelled = Object.prototype.exceptionDetails = true; Object.prototype.objectId = '1'; 1",
    "Object.defineProperty(Object.prototype, 'op', { set() { throw 1; }, get() { throw 1; } }); 1",
    "Promise = Atomics = JSON = String = Object = Array = Reflect = Buffer = undefined; 1",
    "require('util').inspect = require('path').join = null; require('events').prototype.emit = null; 1",
    "require('worker_threads').Worker.prototype.postMessage = require('inspector').Session.prototype.post = null; 1",
    "process.env = null; 1",
)


@test
def cells_that_change_built_ins_end_and_so_do_later_ones():
    for code in CHANGES:
        with node() as k:
            eq(k.run(code).error, None, code)
            for _ in range(2):
                eq(k.run("6 * 7").text, "42", code)
            k.run("console.log('x')")  # ends
    with node() as k:
        # A result is converted as the cell demands; an error that cannot be described is an error.
        eq(k.run("Object.prototype.toJSON = function () { return 'own'; }; JSON.stringify({})").text, '"own"')
        eq(k.run("JSON.stringify({})").text, '"own"', "the cell's change stays")
        eq(k.run("Object.prototype[Symbol.for('nodejs.util.inspect.custom')] = () => { throw 1; }; ({})").error["name"], "Error")
        ok(k.run("throw { get message() { throw 2; } }").error, "an error")
        eq(k.run("6 * 7").text, "42")
        eq(k.run("Object.freeze(Object.prototype); 1").text, "1")
        ok("restart the context" in k.run("6 * 7").error["value"], "the error of a cell that cannot run")
        ok(k.run("6 * 7").error, "the next one ends as well")
    with node() as k:
        k.run("$$.json({ get x() { throw new Error('not shown'); } })")
        eq(k.run("6 * 7").text, "42", "after a representation that failed")


@test
def large_results_are_whole_up_to_the_limit_of_an_event():
    with node() as k:
        eq(len(k.run("'y'.repeat(15 << 20)").text), 15 << 20)
        cell = k.run("'y'.repeat(17 << 20)")
        eq((cell.error, len(cell.text), cell.text[-4:]), (None, (1 << 20) + 3, "y..."))
        ok("too large" in cell.stderr, cell.stderr)
        cell = k.run("'\u00e9'.repeat(3 << 20)")  # six characters each
        eq((cell.error, len(cell.text)), (None, (1 << 20) + 3))
        cell = k.run("({ _toHtml: () => 'h'.repeat(17 << 20), a: 1 })")
        eq(("html" in cell.results[0], "a: 1" in cell.text), (False, True))
        ok("only its text" in cell.stderr, cell.stderr)
        cell = k.run("let deep = 1; for (let i = 0; i < 200; i++) deep = [deep]; $$.json(deep); $$.json([['\\\"[{']])")
        eq([r.get("json") for r in cell.results], [None, [['"[{']]], "too deep for the reader, and not")


@test
def environment_variables_are_set_for_one_cell():
    with node(env={"OLD": "before"}) as k:
        code = "[process.env.NEW, process.env.OLD]"
        eq(k.run(code, {"NEW": "né", "OLD": "during"}).text, "[ 'né', 'during' ]")
        eq(k.run(code).text, "[ undefined, 'before' ]")
        k.run("throw 1", {"NEW": "x"})
        eq(k.run(code).text, "[ undefined, 'before' ]")


@test
def an_interrupt_stops_the_cell_wherever_it_is():
    with node() as k:
        k.run("const a = 3; const { execSync } = require('child_process')")
        for code in ("console.log('go'); while (true);", "console.log('go'); await new Promise(() => {})",
                     "console.log('go'); execSync('sleep 1000', { stdio: 'inherit' })", "while (true) console.log('go')",
                     "setTimeout(() => { console.log('go'); while (true); }, 1); await new Promise(() => {})"):
            k.send(code)
            k.wait_for("go")
            k.interrupt()
            cell = k.finish()
            ok(cell.error and cell.error["name"] == "KeyboardInterrupt", f"{code}: {cell}")
            eq(k.run("console.log(a); a").stdout, "3\n", code)
        k.send("await new Promise(r => setTimeout(r, 300))")
        k.send("while (true);")
        k.interrupt()  # this cell has not begun
        eq([k.finish().error, k.finish().error["name"]], [None, "KeyboardInterrupt"])
        k.send("while (true);")
        k.interrupt()
        eq(k.finish().error["name"], "KeyboardInterrupt", "a cell that is about to begin")
        k.interrupt()  # this cell has ended
        eq(k.run("await new Promise(r => setTimeout(r, 500)); a").text, "3")


@test
def timers_go_on_after_their_cell():
    with node() as k:
        k.run("let resolve, done = new Promise(r => { resolve = r; }); setTimeout(() => { console.log('late'); resolve(); }, 1);0")
        k.run("await done")
        eq(k.run("1").text, "1")


@test
def typescript_runs_or_names_what_is_missing():
    with node() as k:
        cell = k.run("interface P { x: number }\nconst p: P = { x: 4 };\np.x as number", language="typescript")
        if cell.error:
            ok("TypeScript needs node 22.13" in cell.error["value"], cell)
            raise Skip("neither node 22.13 nor a compiler is installed")
        eq(cell.text, "4")
        eq(k.run("p.x + 1").text, "5", "the same variables in JavaScript")
        eq(k.run("const q: = 1", language="typescript").error["name"], "SyntaxError")


@test
def a_kernel_that_ends_in_a_cell_ends_its_output():
    with node() as k:
        k.send("process.kill(process.pid, 'SIGKILL')")
        eq(k.ended(), -9)
    with node() as k:
        eq(k.run("1").text, "1")
        k.request(op="exit")
        eq(k.ended(), 0)
    with node() as k:
        k.send("console.log('go'); while (true);")
        k.wait_for("go")
        k.process.stdin.close()
        eq(k.ended(), -9)


@test
def a_node_that_is_too_old_is_named():
    with scratch() as d:
        with open(f"{d}/node", "w", encoding="ascii") as f:
            f.write(f"#!/bin/sh\nexec {shutil.which('node')} -e \"delete require('worker_threads').Worker; $4\"\n")
        os.chmod(f"{d}/node", 0o755)
        k = node(path=d, stderr=f"{d}/err")
        with k:
            eq(k.ended(), 1)
        with open(f"{d}/err", encoding="utf-8") as f:
            ok("cannot run cells, which needs node 16 or later" in f.read(), "the reason")


@test
def the_kernel_leaves_no_files():
    with scratch() as d, node(env={"TMPDIR": d}) as k:
        eq(k.run("1").text, "1")
        eq(os.listdir(d), [])


if __name__ == "__main__":
    if not shutil.which("node") and not shutil.which("nodejs"):
        print("1..0 # SKIP node is not installed")
        sys.exit(0)
    sys.exit(run_tests())
