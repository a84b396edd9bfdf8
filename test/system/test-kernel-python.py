#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-kernel-python.py - cells of Python keep state, and their output, results and errors become events

Prints TAP. Starts the kernel (src/code/kernel) as a process without a sandbox, with a Python that has no IPython;
test-kernel-rich.py checks it with IPython, matplotlib and pandas.
"""
import contextlib
import json
import os
import signal
import sys
import time

from os.path import abspath, dirname, join
sys.path[:0] = [join(dirname(abspath(__file__)), "../lib")]
from checks import eq, ok, run_tests, scratch, test  # pylint: disable=wrong-import-position
from kernel_world import Kernel  # pylint: disable=wrong-import-position


@contextlib.contextmanager
def kernel(**kw):
    """Starts a kernel that cannot import IPython, whether it is installed or not."""
    with scratch() as d:
        os.mkdir(f"{d}/IPython")
        with open(f"{d}/IPython/__init__.py", "w", encoding="ascii") as f:
            f.write("raise ImportError('not installed')")
        with Kernel("python", env={"PYTHONPATH": d}, **kw) as k:
            yield k


def failed(k, code, **kw):
    """Runs a cell that must fail; returns its error."""
    cell = k.run(code, **kw)
    ok(cell.error is not None, f"no error: {cell}")
    return cell.error


@test
def state_is_kept_and_the_last_expression_is_the_result():
    with kernel() as k:
        cell = k.run("x = 20\ndef f(y):\n    return x + y")
        eq([e["type"] for e in cell.events], ["number_of_executions", "end_of_execution"])
        eq(k.run("import math\nf(22)").text, "42")
        eq(k.run("x;").text, None, "the result of a cell that ends with a semicolon")
        eq(k.run("None").text, None)
        eq(k.run("if x:\n    x").text, None)
        eq(k.run("'it is'").text, "it is", "text without quotes")
        eq(k.run("_").text, "it is")
        eq(k.run("[1, 'a']").events[1], {"type": "result", "is_main_result": True, "text": "[1, 'a']", "extra": {}})
        event = k.run("").events[0]
        eq(event, {"type": "number_of_executions", "execution_count": 9, "id": event["id"]})
        eq(k.run("__name__, display.__name__").text, "('__main__', 'display')")
        eq(k.run("from __future__ import annotations").text, None)
        eq(k.run("def g(a: nosuch): pass\ng.__annotations__").text, "{'a': 'nosuch'}")


@test
def output_of_every_origin_is_captured_in_order():
    with kernel() as k:
        cell = k.run("import os, sys, subprocess\nprint('a')\nos.write(1, b'b\\n')\nprint('c', 'd')\nos.system('echo e')\n"
                     "sys.stdout.write('f\\n'); subprocess.run(['echo', 'g'])\nsys.stdout.buffer.write(b'h\\n');")
        eq(cell.stdout, "a\nb\nc d\ne\nf\ng\nh\n")
        cell = k.run("print('1'); print('2', file=sys.stderr); print('3'); os.write(2, b'4\\n'); print('5')")
        eq([(e["type"], e["text"]) for e in cell.events[1:-1] if e["type"] != "result"],
           [("stdout", "1\n"), ("stderr", "2\n"), ("stdout", "3\n"), ("stderr", "4\n"), ("stdout", "5\n")])
        eq(k.run("import ctypes\nctypes.CDLL(None).printf(b'from C\\n');").stdout, "from C\n")
        eq(k.run("print('x', end='', flush=True)\n7").events[1]["text"], "x", "output comes before the result")


@test
def output_cannot_forge_events_and_children_do_not_inherit_the_protocol():
    with kernel() as k:
        line = json.dumps({"type": "end_of_execution"})
        cell = k.run(f"import os\nprint({line!r})\nos.system('echo \\'{line}\\'; ls /proc/self/fd | wc -l');")
        eq(cell.stdout, f"{line}\n{line}\n4\n")


@test
def any_bytes_and_much_output_become_whole_events():
    with kernel() as k:
        eq(k.run("import os, sys\nos.write(1, b'\\xff\\xfe\\xc3');").stdout, "\ufffd\ufffd\ufffd")
        eq(k.run("os.write(1, 'é'.encode()[:1]); os.write(1, 'é'.encode()[1:]);").stdout, "é")
        eq(k.run("print('\\ud800 \\U0001f600')").stdout, "\ufffd \U0001f600\n")
        cell = k.run("print('é' * 1000000)\nprint('\\x00\\x01\\u2028')")
        eq(cell.stdout, "é" * 1000000 + "\n\x00\x01\u2028\n")
        cell = k.run("os.system('head -c 3000000 /dev/zero | tr \"\\\\0\" x');")
        eq(len(cell.stdout), 3000000)
        cell = k.run("for i in range(100000): print(i)")
        eq(cell.stdout, "".join(f"{i}\n" for i in range(100000)))
        ok(len(cell.events) < 5000, f"{len(cell.events)} events")
        eq(len(k.run("'x' * 20000000").text), (1 << 20) + 3, "a result that is too large is cut")


@test
def errors_have_a_name_a_value_and_a_traceback_with_the_line_of_the_cell():
    with kernel() as k:
        k.run("def divide(a):\n    return a / 0")
        e = failed(k, "divide(1)")
        eq((e["name"], e["value"]), ("ZeroDivisionError", "division by zero"))
        eq([line.strip() for line in e["traceback"].split("\n") if "~" not in line and "^" not in line],
           ["Traceback (most recent call last):", 'File "Cell In[2]", line 1, in <module>', "divide(1)",
            'File "Cell In[1]", line 2, in divide', "return a / 0", "ZeroDivisionError: division by zero"])
        e = failed(k, "x = 1\nx = = 2")
        ok(e["name"] == "SyntaxError" and 'File "Cell In[3]", line 2\n    x = = 2\n' in e["traceback"], e)
        e = failed(k, "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e")
        ok(e["name"] == "KeyError" and "direct cause" in e["traceback"] and "<kernel>" not in e["traceback"], e)
        e = failed(k, "def r(): r()\nr()")
        ok(e["name"] == "RecursionError" and len(e["traceback"]) < 10000, e)
        e = failed(k, "class Bad(Exception):\n    def __str__(self): raise ValueError\nraise Bad")
        eq((e["name"], e["value"]), ("Bad", "<exception str() failed>"))
        e = failed(k, "class Worse(Exception):\n    def __str__(self): raise SystemExit\nraise Worse")
        eq((e["name"], e["value"]), ("Worse", "<exception str() failed>"))
        eq(k.run("print('out')\n1 / 0").stdout, "out\n")
        eq(k.run("import inspect\nlen(inspect.getsource(divide))").text, "31")
        eq(k.run("1").text, "1")


@test
def a_cell_that_exits_or_reads_input_gets_an_error_and_the_kernel_stays():
    with kernel() as k:
        k.run("x = 1")
        for code, value in (("exit()", "None"), ("import sys; sys.exit(3)", "3"), ("raise SystemExit('bye')", "bye")):
            e = failed(k, code)
            eq((e["name"], e["value"]), ("SystemExit", value))
        e = failed(k, "input('name? ')")
        ok(e["name"] == "StdinNotImplementedError" and "no standard input" in e["value"], e)
        eq(k.run("import sys\nsys.stdin.read()").text, "")
        eq(k.run("x").text, "1")


@test
def await_works_at_the_top_and_tasks_go_on_between_cells():
    with kernel() as k:
        eq(k.run("import asyncio\nasync def f(): return 5\nawait f()").text, "5")
        eq(k.run("y = await f()\ny + 1").text, "6")
        eq(k.run("async with asyncio.Lock() as l: print('in')").stdout, "in\n")
        eq(k.run("[v async for v in (i async for i in (await asyncio.sleep(0, j) for j in range(3)))]").text, "[0, 1, 2]")
        eq(k.run("asyncio.run(f())").text, "5")
        k.run("done = []\nasync def later():\n    for i in range(3):\n        await asyncio.sleep(0.01); done.append(i)\n"
              "task = asyncio.create_task(later())\nawait asyncio.sleep(0)")
        deadline = time.monotonic() + 60
        while k.run("len(done)").text != "3" and time.monotonic() < deadline:
            time.sleep(0.05)
        eq(k.run("done").text, "[0, 1, 2]")
        e = failed(k, "await asyncio.wait_for(asyncio.sleep(10), 0.01)")
        eq(e["name"], "TimeoutError")


@test
def environment_variables_are_set_for_one_cell():
    with scratch() as d, kernel(cwd=d) as k:
        k.run("import os\nos.environ['OLD'] = 'before'")
        code = "os.environ.get('NEW'), os.environ.get('OLD'), os.popen('echo $NEW').read()"
        eq(k.run(code, {"NEW": "n\u00e9", "OLD": "during"}).text, "('né', 'during', 'né\\n')")
        eq(k.run(code).text, "(None, 'before', '\\n')")
        failed(k, "1 / 0", env_vars={"NEW": "x"})
        eq(k.run(code).text, "(None, 'before', '\\n')", "after an error")
        eq(k.run("os.getcwd()").text, os.path.realpath(d))
        with open(f"{d}/local_module.py", "w", encoding="ascii") as f:
            f.write("value = 3")
        eq(k.run("import local_module\nlocal_module.value").text, "3")
    with scratch() as d:
        for name in ("codecs", "select", "io"):
            with open(f"{d}/{name}.py", "w", encoding="ascii") as f:
                f.write("raise ImportError")
        with kernel(cwd=d) as k:
            eq(k.run("2").text, "2", "files with the names of modules")


@test
def threads_and_children_can_write_after_their_cell():
    with kernel() as k:
        k.run("import threading, subprocess\nr = threading.Event()\n"
              "t = threading.Thread(target=lambda: (r.wait(), print('late'))); t.start()")
        eq(k.run("r.set(); t.join()").stdout, "late\n")
        k.run("p = subprocess.Popen('read x; echo $x', shell=True, stdin=subprocess.PIPE)")
        eq(k.run("p.communicate(b'child\\n');").stdout, "child\n")
        cell = k.run("t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()")
        ok(cell.error is None and "ZeroDivisionError" in cell.stderr, cell)


SLOW = {
    "in sleep": "import time\nprint('go', flush=True)\ntime.sleep(1000)",
    "in a loop": "print('go', flush=True)\nwhile True: pass",
    "in os.system": "import os, sys\nprint('go', flush=True)\nwhile True:\n    if os.system('sleep 1000'): raise KeyboardInterrupt",
    "in a child": "import subprocess\nprint('go', flush=True)\nsubprocess.run(['sleep', '1000'])",
    "in await": "import asyncio\nprint('go', flush=True)\nawait asyncio.sleep(1000)",
    "in print": "while True: print('go')",
    "in print within a coroutine": "async def f():\n    while True: print('go')\nawait f()",
    "in a shell command": "print('go', flush=True)\n!sleep 1000",
}


@test
def an_interrupt_stops_the_cell_wherever_it_is():
    with kernel() as k:
        k.run("x = 5")
        for where, code in SLOW.items():
            k.send(code)
            k.wait_for("go")
            k.interrupt()
            cell = k.finish()
            ok(cell.error and cell.error["name"] == "KeyboardInterrupt", f"{where}: {cell}")
            ok("<kernel>" not in cell.error["traceback"], f"{where}: {cell}")
        eq(k.run("x").text, "5")


@test
def an_interrupt_of_another_cell_is_ignored():
    with kernel() as k:
        k.run("1")
        k.interrupt()  # this cell has ended
        eq(k.run("import time\ntime.sleep(0.2)\n2").text, "2")
        number = k.send("print('go', flush=True)\ntime.sleep(0.3)\n3")
        k.wait_for("go")
        k.interrupt(number + 1)
        eq(k.finish().text, "3")
        k.send("print('go', flush=True)\ntime.sleep(1000)")
        k.wait_for("go")
        k.request(op="interrupt")  # without an id: the one that runs
        eq(k.finish().error["name"], "KeyboardInterrupt")
        k.send("time.sleep(0.2)")
        k.send("time.sleep(1000)")
        k.interrupt()  # this cell has not begun
        eq([k.finish().error, k.finish().error["name"]], [None, "KeyboardInterrupt"])
        k.send("try: print('go', flush=True); time.sleep(1000)\nexcept KeyboardInterrupt: print('caught')")
        k.wait_for("go")
        k.interrupt()
        eq(k.finish().stdout, "caught\n")
        k.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN);")
        k.send("print('go', flush=True)\ntime.sleep(1000)")
        k.wait_for("go")
        k.interrupt()
        eq(k.finish().error["name"], "KeyboardInterrupt", "after a cell that ignored the signal")


@test
def a_fork_writes_output_but_no_events():
    with kernel() as k:
        cell = k.run("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('parent' if pid else 'child')\n9")
        eq((cell.stdout, cell.text), ("child\nparent\n", "9"))
        cell = k.run("pid = os.fork()\nif not pid: 1 / 0\nos.waitpid(pid, 0)[1]")
        ok(cell.text == "256" and "ZeroDivisionError" in cell.stderr, cell)
        cell = k.run("import multiprocessing\nc = multiprocessing.get_context('fork')\n"
                     "with c.Pool(2) as pool: print(sum(pool.map(abs, [-1, -2, -3])))")
        eq(cell.stdout, "6\n")
        eq(k.run("10").text, "10")


@test
def a_kernel_that_ends_in_a_cell_ends_its_output():
    for code, status in (("import os\nos._exit(3)", 3), ("import os\nos.closerange(3, 100)", 1), ("import os, signal\nos.kill(os.getpid(), 9)", -signal.SIGKILL)):
        with kernel() as k:
            eq(k.run("1").text, "1")
            k.send(code)
            eq(k.ended(), status)


@test
def the_end_of_requests_ends_the_kernel_even_in_a_cell():
    with kernel() as k:
        k.run("import atexit\natexit.register(lambda: print('bye'));")
        k.request(op="exit")
        eq(k.ended(), 0)
    with kernel() as k:
        k.send("while True:\n    try:\n        print('go', flush=True)\n        while True: pass\n    except KeyboardInterrupt: pass")
        k.wait_for("go")
        k.process.stdin.close()
        eq(k.ended(), 1)


KINDS = {
    "_repr_html_": ("html", "'<b>é</b>'", "<b>é</b>"), "_repr_markdown_": ("markdown", "'# m'", "# m"),
    "_repr_svg_": ("svg", "'<svg/>'", "<svg/>"), "_repr_png_": ("png", "b'\\x89PNG'", "iVBORw=="),
    "_repr_jpeg_": ("jpeg", "b'jpeg'", "anBlZw=="), "_repr_pdf_": ("pdf", "b'%PDF'", "JVBERg=="),
    "_repr_latex_": ("latex", "'$x$'", "$x$"), "_repr_json_": ("json", "{'a': [1, None, float('nan')]}", {"a": [1, None, None]}),
    "_repr_javascript_": ("javascript", "'alert()'", "alert()"),
}


@test
def values_are_shown_in_every_representation_they_have():
    with kernel() as k:
        for method, (field, code, want) in KINDS.items():
            cell = k.run(f"class A:\n    def {method}(self): return {code}\n    def __repr__(self): return 'an A'\nA()")
            eq(cell.results, [{"type": "result", "is_main_result": True, field: want, "text": "an A", "extra": {}}])
        cell = k.run("class B:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
                     "        return {'text/html': 'h', 'text/x-own': {'k': 1}}, {}\ndisplay(B(), 2)\n3")
        eq([r["is_main_result"] for r in cell.results], [False, False, True])
        eq((cell.results[0]["html"], cell.results[0]["extra"]), ("h", {"text/x-own": {"k": 1}}))
        cell = k.run("class C:\n    def _repr_html_(self): raise ValueError('no')\n    def __repr__(self): return 'a C'\nC()")
        ok(cell.text == "a C" and "ValueError: no" in cell.stderr, cell)
        cell = k.run("class D:\n    def __repr__(self): raise ValueError('no')\nD()")
        ok("repr() failed" in cell.text, cell)
        cell = k.run("class E:\n    def __getattr__(self, name): return lambda *a, **k: 'anything'\n    def __repr__(self): return 'E'\nE()")
        eq(cell.results, [{"type": "result", "is_main_result": True, "text": "E", "extra": {}}])
        eq(k.run("display({'text/html': 'raw'}, raw=True)").results[0]["html"], "raw")


@test
def common_magics_work_without_ipython():
    with scratch() as d, kernel(cwd=d) as k:
        eq(k.run("name = 'v'\n!echo $name {name} $((1+1))").stdout, "v v 2\n")
        eq(k.run("lines = !printf 'a\\nb\\n'\nlines").text, "['a', 'b']")
        eq(k.run("for i in range(2):\n    !echo {i}").stdout, "0\n1\n")
        eq(k.run("%cd /\n%pwd").text, "/")
        ok(k.run("%pip --version").stdout.startswith("pip "), "pip")
        eq(k.run("%env A=b\nimport os\nos.environ['A']").text, "b")
        eq(k.run("%matplotlib inline").events[1]["type"], "end_of_execution")
        eq(k.run("%%bash\necho $((2+3))").stdout, "5\n")
        eq(k.run("%%writefile " + d + "/f\nx = 1\n").error, None)
        with open(f"{d}/f", encoding="ascii") as f:
            eq(f.read(), "x = 1\n")
        e = failed(k, "%nosuch 1")
        ok(e["name"] == "UsageError" and "needs IPython" in e["value"], e)
        eq(k.run("s = '''\n!not a command\n%not a magic\n'''\nlen(s)").text, "29")
        e = failed(k, "x = = 1\n!echo")
        eq(e["name"], "SyntaxError")


@test
def requests_of_any_size_are_read():
    with kernel() as k:
        eq(k.run(f"len({'é' * 1000000!r})").text, "1000000")
        k.write(b"".join(json.dumps({"op": "execute", "id": i, "code": f"{i}"}).encode() + b"\n" for i in range(2, 30)))
        eq([k.finish().text for _ in range(2, 30)], [str(i) for i in range(2, 30)], "several requests at once")


@test
def a_cell_can_close_and_replace_the_standard_streams():
    with kernel() as k:
        k.run("import os, sys, io\nsaved = os.dup(1)\nos.close(1)")
        eq(k.run("print('still')").stdout, "still\n")
        eq(k.run("os.dup2(saved, 1)\nos.write(1, b'back\\n');").stdout, "back\n")
        eq(k.run("sys.stdout.close(); sys.stdout.reconfigure(encoding='ascii'); print('open')").stdout, "open\n")
        eq(k.run("import contextlib\nb = io.StringIO()\nwith contextlib.redirect_stdout(b): print('in')\nb.getvalue()").text, "in\\n")
        eq(k.run("sys.stdout.isatty(), sys.stdout.fileno(), sys.stdout.encoding").text, "(False, 1, 'utf-8')")


if __name__ == "__main__":
    sys.exit(run_tests())
