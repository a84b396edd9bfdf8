# SPDX-License-Identifier: Apache-2.0
"""code.py - drive the code interpreter of a service with the Python SDK of E2B"""
import asyncio
import json
import os
import socket
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import e2b
from e2b_code_interpreter import AsyncSandbox, Sandbox
from expect import done, eq, raises, step, until


def http(s, method, path, body=None, **headers):
    """Returns the status and the text of a response of the interpreter."""
    data = json.dumps(body).encode() if body is not None else None
    r = urllib.request.Request(os.environ["E2B_SANDBOX_URL"] + path, data, {
        "E2b-Sandbox-Id": s.sandbox_id, "E2b-Sandbox-Port": "49999", "Content-Type": "application/json", **headers},
        method=method)
    try:
        with urllib.request.urlopen(r) as f:
            return f.status, f.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def token(s):
    return {"X-Access-Token": s._envd_access_token}  # pylint: disable=protected-access


def kernels(s):
    """Returns the pids of kernels in the sandbox."""
    return s.commands.run("pgrep -f '[t]he source of the kernel' || true").stdout.split()


NODE = "command -v node || command -v nodejs || true"  # the image of the test may lack it


# ------------------------------------------------------------------------- areas


def cells(s):
    r = s.run_code("x = 41\nprint('printed')\nx + 1")
    eq((r.text, r.logs.stdout, r.error, r.execution_count), ("42", ["printed\n"], None, 1))
    r = s.run_code("x")
    eq((r.text, r.execution_count), ("41", 2), "variables are kept")
    r = s.run_code("1 / 0")
    eq((r.error.name, "1 / 0" in r.error.traceback), ("ZeroDivisionError", True))
    eq(s.run_code("import os; os.environ['Q']", envs={"Q": "of call"}).text, "of call")
    eq(s.run_code("os.environ.get('Q')").text, None)
    eq(s.run_code("os.environ['E2B_SANDBOX'], os.environ['E2B_SANDBOX_ID'] == %r" % s.sandbox_id).text,
       "('true', True)")
    eq(s.run_code("os.environ['OF_BOX']").text, "b x", "a variable of the sandbox")
    eq(s.commands.list(), [], "a kernel is no command")
    first = s.run_code("cd /tmp; X=5; pwd", language="bash")
    eq((first.logs.stdout, s.run_code("pwd; echo $X", language="bash").logs.stdout), (["/tmp\n"], ["/tmp\n5\n"]))
    out, err, results, errors = [], [], [], []
    s.run_code("import time, sys\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.2)\n"
               "print('bad', file=sys.stderr)\ndisplay('shown')\n'main'\n",
               on_stdout=lambda m: out.append(m.line), on_stderr=lambda m: err.append(m.line),
               on_result=results.append, on_error=errors.append)
    eq(("".join(out), "".join(err), [(r.text, r.is_main_result) for r in results], errors),
       ("0\n1\n2\n", "bad\n", [("shown", False), ("main", True)], []))
    s.run_code("raise ValueError('\u00e4')", on_error=errors.append)
    eq([(e.name, e.value) for e in errors], [("ValueError", "\u00e4")])
    eq(s.run_code("'\u00e4\U0001f600'").text, "\u00e4\U0001f600")
    raises(e2b.TimeoutException, lambda: s.run_code("import time; time.sleep(1000)", timeout=1))
    eq(s.run_code("x").text, "41", "after an interrupt")
    eq(s.run_code("import os; os._exit(3)").error.name, "KernelDied")
    eq(s.run_code("'x' in globals()").text, "False", "after the end of a kernel")
    # A result of 5 MB, and the cells after it.
    eq(len(s.run_code("'y' * 5_000_000").text), 5_000_000)
    class_of = "class P:\n    def _repr_html_(self): return 'z' * 5_000_000\n"
    eq(len(s.run_code(class_of + "P()").results[0].html), 5_000_000)
    eq(s.run_code("7").text, "7")
    raises(Exception, lambda: s.run_code("1", language="r"), "no kernel for 'r'")


def results(s):
    r = s.run_code("""
class Rich:
    def __repr__(self): return 'plain'
    def _repr_html_(self): return '<b>h</b>'
    def _repr_markdown_(self): return '*m*'
    def _repr_svg_(self): return '<svg/>'
    def _repr_png_(self): return b'\\x89PNG'
    def _repr_jpeg_(self): return b'\\xff\\xd8'
    def _repr_latex_(self): return '$x$'
    def _repr_json_(self): return {'a': [1, None]}
    def _repr_javascript_(self): return 'alert(1)'
    def _repr_pdf_(self): return b'%PDF'
Rich()
""").results[0]
    eq((r.text, r.html, r.markdown, r.svg, r.png, r.jpeg, r.latex, r.json, r.javascript, r.pdf),
       ("plain", "<b>h</b>", "*m*", "<svg/>", "iVBORw==", "/9g=", "$x$", {"a": [1, None]}, "alert(1)", "JVBERg=="))
    r = s.run_code("print({'a': 1})\n{'a': 1}")
    eq((r.results[0].text, r.logs.stdout), ("{'a': 1}", ["{'a': 1}\n"]))


def charts(s):
    """With matplotlib and pandas in the sandbox."""
    r = s.run_code("""
import matplotlib.pyplot as plt
plt.plot([1, 2, 3], [4, 5, 6], label='l')
plt.title('T'); plt.xlabel('X'); plt.ylabel('Y')
plt.show()
""")
    assert r.error is None, r.error
    chart = r.results[0].chart
    eq((chart.type.value, chart.title, chart.x_label, chart.y_label), ("line", "T", "X", "Y"))
    eq([(line.label, [tuple(p) for p in line.points]) for line in chart.elements], [("l", [(1, 4), (2, 5), (3, 6)])])
    assert r.results[0].png.startswith("iVBORw"), r.results[0].png[:20]
    r = s.run_code("plt.bar(['a', 'b'], [1, 2])\nplt.show()")
    eq([(b.label, b.value) for b in r.results[0].chart.elements], [("a", 1), ("b", 2)])
    r = s.run_code("plt.pie([1, 3], labels=['a', 'b'])\nplt.show()")
    eq((r.results[0].chart.type.value, [p.label for p in r.results[0].chart.elements]), ("pie", ["a", "b"]))
    r = s.run_code("import pandas as pd\npd.DataFrame({'n': [1, 2], 's': ['x', 'y']})")
    eq((r.results[0].data, "<table" in r.results[0].html), ({"n": [1, 2], "s": ["x", "y"]}, True))
    eq(s.run_code("%timeit -n1 -r1 1\n").error, None, "a magic of IPython")


def contexts(s):
    first = s.list_code_contexts()
    eq(sorted((c.language, c.cwd) for c in first), [("javascript", "/home/user"), ("python", "/home/user")],
       "the default contexts")
    s.run_code("x = 1")
    eq(sorted(c.id for c in s.list_code_contexts()), sorted(c.id for c in first), "after a cell")
    default = next(c for c in first if c.language == "python")
    eq(s.run_code("x", context=default).text, "1", "the default context by its id")
    a, b = s.create_code_context(cwd="/tmp"), s.create_code_context(language="bash", cwd="/")
    eq(((a.language, a.cwd), (b.language, b.cwd)), (("python", "/tmp"), ("bash", "/")))
    eq(s.run_code("import os; os.getcwd()", context=a).text, "/tmp")
    eq(s.run_code("'x' in globals()", context=a).text, "False")
    eq(s.run_code("pwd", context=b).logs.stdout, ["/\n"])
    eq({a.id, b.id} <= {c.id for c in s.list_code_contexts()}, True)
    s.restart_code_context(a)
    eq(s.run_code("'os' in globals()", context=a).text, "False", "after a restart")
    s.remove_code_context(a)
    raises(Exception, lambda: s.run_code("1", context=a), "not found")
    raises(Exception, lambda: s.restart_code_context(a), "not found")
    raises(Exception, lambda: s.remove_code_context(a), "not found")
    until(lambda: len(kernels(s)) == 2, "the end of the kernel")
    # The directory does not exist: the error says so, and not that python is missing.
    c = s.create_code_context(cwd="/none")
    error = s.run_code("1", context=c).error
    eq((error.name, "/none" in error.value, "package" in error.value), ("KernelError", True, False))
    eq(http(s, "POST", "/execute", {"code": "1", "context_id": c.id, "language": "python"}, **token(s))[0], 400)
    # There is a limit, for which default contexts do not count.
    n = len({x.id for x in s.list_code_contexts()} - {x.id for x in first})
    many = [s.create_code_context() for _ in range(32 - n)]
    eq(http(s, "POST", "/contexts", {})[0], 429)
    for x in many:
        s.remove_code_context(x)
    s.remove_code_context(s.create_code_context())


def parallel(s):
    """Contexts run at the same time, cells of one context after another."""
    a, b = s.create_code_context(), s.create_code_context()
    done = {}

    def run(name, context, code):
        done[name] = s.run_code(code, context=context)

    # Each waits for a file that the other creates.
    wait = ("import os, time\nopen('/tmp/{}', 'w').close()\n"
            "while not os.path.exists('/tmp/{}'): time.sleep(0.01)\n'{}'")
    threads = [threading.Thread(target=run, args=("a", a, wait.format("a", "b", "A"))),
               threading.Thread(target=run, args=("b", b, wait.format("b", "a", "B")))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    eq((done["a"].text, done["b"].text), ("A", "B"))
    s.run_code("order = []", context=a)
    threads = [threading.Thread(target=run, args=(i, a, f"order.append({i})\nlen(order)")) for i in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    eq(sorted(int(done[i].text) for i in range(20)), list(range(1, 21)), "20 cells of one context")


def limits(s):
    """Cells that wait are limited, and so is the memory of a kernel that writes without end."""
    before = int(step("memory"))
    context = s.create_code_context()
    held = threading.Thread(target=lambda: s.run_code(
        "import os, time\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)", context=context))
    held.start()
    answers = []
    body = {"code": "#" * 1000, "context_id": context.id}
    threads = [threading.Thread(target=lambda: answers.append(http(s, "POST", "/execute", body, **token(s))))
               for _ in range(70)]
    for t in threads:
        t.start()
    until(lambda: len(answers) >= 7, "the refusals")
    s.files.write("/tmp/go", "")
    for t in [held, *threads]:
        t.join()
    eq(sorted({status for status, _ in answers}), [200, 429])
    eq(sum(status == 200 for status, _ in answers), 63, "cells that waited")
    # A kernel that writes a line without end, in many contexts: only what is for a client is stored.
    flood = ("import os, re\n"
             "for name in os.listdir('/proc/self/fd'):\n"
             "    n = int(name)\n"
             "    try:\n"
             "        if n > 2 and os.readlink(f'/proc/self/fd/{name}').startswith('pipe:'):\n"
             "            os.set_blocking(n, False)\n"
             "            for _ in range(4000):\n"
             "                try:\n"
             "                    os.write(n, b'{\"type\":\"result\",\"text\":\"' + b'x' * 60000)\n"
             "                except BlockingIOError:\n"
             "                    import time; time.sleep(0.001)\n"
             "    except OSError: pass\n")
    made = [s.create_code_context() for _ in range(4)]
    threads = [threading.Thread(target=lambda c=c: s.run_code(flood, context=c, timeout=20)) for c in made]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    after = int(step("memory"))
    assert after < before + 250_000, f"{before} kB, then {after} kB"
    eq(s.run_code("1 + 1").text, "2", "after all this")


def lies(s):
    """The code of a cell can write events itself: they reach only its own client, and only whole ones."""
    event = "display.__self__.output.event"
    line = '{"type":"result","is_main_result":true,"text":"%s","extra":{}}'
    eq(s.run_code(f"{event}('{line % 'own'}')").text, "own")
    # Longer than any event may be.
    r = s.run_code(f"{event}('{line}' % ('x' * (17 << 20)))\nprint('after')")
    eq((r.error.name, r.text, r.logs.stdout), ("ResultTooLarge", None, ["after\n"]))
    r = s.run_code(f"{event}('{line}' % ('x' * (15 << 20)))")
    eq((r.error, len(r.text)), (None, 15 << 20))
    eq((s.run_code(f"{event}('')\n'fine'").text), "fine", "an empty line")
    # What is no event ends the cell with an error; the variables stay.
    s.run_code("kept = 'fine'")
    for bad in ('{"type":"result",', "[]", "{}", '{"type":"other"}', '{"type":"result","text":nul}', "x" * 100_000,
                '{"type": "result"}', '{"type":"result"}}', '{"type":"result","text":"\\x00"}'):
        eq(s.run_code(f"{event}({bad!r})\n'not shown'").error.name, "KernelBroken", bad[:40])
        r = s.run_code("kept")
        eq((r.text, r.error), ("fine", None), bad[:40])
    # A false end: what follows does not reach the client of the next cell.
    s.run_code(event + "('{\"type\":\"end_of_execution\"}')\nimport time\ntime.sleep(0.5)\nprint('late')\n'late'")
    r = s.run_code("'next'")
    eq((r.text, r.logs.stdout, r.error), ("next", [], None))
    # The kernel is restarted in the middle of a long event: the connection is cut, and not continued with an error.
    url = urllib.parse.urlparse(os.environ["E2B_SANDBOX_URL"])
    context = s.create_code_context()
    body = json.dumps({"code": f"{event}('{line}' % ('x' * (15 << 20)))", "context_id": context.id}).encode()
    with socket.create_connection((url.hostname, url.port), timeout=30) as c:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        c.sendall((f"POST /execute HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: {s.sandbox_id}\r\nE2b-Sandbox-Port: 49999\r\n"
                   f"X-Access-Token: {token(s)['X-Access-Token']}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body)
        got = c.recv(65536)
        while len(got) < 500_000:
            got += c.recv(65536)
        s.restart_code_context(context)
        while True:
            try:
                more = c.recv(1 << 20)
            except ConnectionResetError:
                break
            got += more[-100:]
            if not more:
                break
    eq((b"KernelStopped" in got, got.endswith(b"0\r\n\r\n")), (False, False), "the rest of the response")
    eq(s.run_code("1", context=context).text, "1")
    s.remove_code_context(context)
    # A kernel that does not read: its cells end, when their clients leave, and the next cell gets another kernel.
    s.run_code("x = 1")
    pid = kernels(s)[0]
    s.commands.run(f"kill -STOP {pid}")
    raises(e2b.TimeoutException, lambda: s.run_code("#" * 3_000_000, timeout=1))
    eq(s.run_code("'x' in globals()").text, "False")
    until(lambda: pid not in kernels(s), "the end of the kernel")


def restarts(s):
    """The service is killed, or restarted, between cells and during one."""
    context = s.create_code_context(cwd="/tmp")
    s.run_code("x = 41; import os; pid = os.getpid()", context=context)
    s.run_code("y = 1")
    s.run_code("Z=bash", language="bash")
    node = s.commands.run(NODE).stdout != ""
    if node:
        s.run_code("let j = 5", language="js")
    before = kernels(s)
    for how in ("kill", "restart", "kill"):
        step(how)
        r = s.run_code("x += 1; (x, pid == os.getpid(), os.getcwd())", context=context)
        assert r.text.endswith(", True, '/tmp')"), (how, r.text, r.error)
        eq(s.run_code("y").text, "1", how)
        eq(s.run_code("echo $Z", language="bash").logs.stdout, ["bash\n"], how)
        if node:
            eq(s.run_code("j", language="js").text, "5", how)
        eq(context.id in [c.id for c in s.list_code_contexts()], True)
        eq((kernels(s), s.commands.list()), (before, []), "the kernels")
    eq(s.run_code("x", context=context).text, "44")
    # During a cell.
    for how in ("kill", "restart"):
        failed, seen = [], []

        def run():
            try:
                r = s.run_code("import time\nprint('begun', flush=True)\ntime.sleep(1000)", context=context,
                               on_stdout=seen.append)
                failed.append(r.error.name)  # pylint: disable=cell-var-from-loop
            except Exception as e:  # pylint: disable=broad-exception-caught
                failed.append(type(e).__name__)  # pylint: disable=cell-var-from-loop
        t = threading.Thread(target=run)
        t.start()
        until(lambda: seen, "the output")  # pylint: disable=cell-var-from-loop
        step(how)
        t.join()
        eq(len(failed), 1)
        assert how == "kill" or failed == ["ServiceStopped"], failed
        eq(s.run_code("x", context=context).text, "44", "the cell was interrupted, and the variables are there")
    # A cell that nobody waits for any more is interrupted without a further request.
    seen = []

    def alone():
        try:
            s.run_code("print('begun', flush=True)\nimport time\ntry:\n    time.sleep(1000)\n"
                       "finally:\n    open('/tmp/interrupted', 'w').close()", context=context, on_stdout=seen.append)
        except Exception:  # pylint: disable=broad-exception-caught
            pass
    t = threading.Thread(target=alone)
    t.start()
    until(lambda: seen, "the output")
    step("kill")
    t.join()
    until(lambda: s.files.exists("/tmp/interrupted"), "the interrupt")
    # A restarted or removed context is gone for good.
    s.restart_code_context(context)
    step("kill")
    eq(s.run_code("'x' in globals()", context=context).text, "False")
    s.remove_code_context(context)
    step("kill")
    raises(Exception, lambda: s.run_code("1", context=context), "not found")
    eq(s.run_code("y").text, "1")
    until(lambda: len(kernels(s)) == len(before) - 1, "the end of the kernel")


def torn(s):
    """The service is killed while it sends a long cell, or starts a kernel."""
    context = s.create_code_context()
    s.run_code("x = 1", context=context)
    body = {"code": "#" * 3_500_000 + "\nx += 1\nx", "context_id": context.id}
    # The kernel is stopped, so that the request fills the pipe.
    pid = kernels(s)[0]
    s.commands.run(f"kill -STOP {pid}")
    t = threading.Thread(target=lambda: quietly(lambda: http(s, "POST", "/execute", body, **token(s))))
    t.start()
    time.sleep(0.5)  # a kill before the request arrives is no failure, but shows less
    step("kill")
    t.join()
    s.commands.run(f"kill -CONT {pid}")
    eq(s.run_code("x", context=context).text, "1", "half a request is ignored")
    eq(kernels(s), [pid])
    # While kernels start: none is left behind that no context has.
    threads = [threading.Thread(target=lambda c=c: quietly(lambda: s.run_code("1", context=c)))
               for c in [s.create_code_context() for _ in range(4)]]
    for t in threads:
        t.start()
    step("kill")
    for t in threads:
        t.join()
    for c in s.list_code_contexts():
        if c.language == "python":
            eq(s.run_code("1", context=c).text, "1")
    until(lambda: len(kernels(s)) <= 6, "the end of other kernels")
    for c in s.list_code_contexts():
        s.remove_code_context(c)
    until(lambda: kernels(s) == [], "the end of all kernels")


def quietly(f):
    try:
        f()
    except Exception:  # pylint: disable=broad-exception-caught
        pass


def tenants(s):
    """Another tenant cannot use the contexts."""
    context = s.create_code_context()
    other = Sandbox.create(api_key=step("key"))
    try:
        raises(Exception, lambda: other.run_code("1", context=context), "not found")
        eq(http(other, "DELETE", f"/contexts/{context.id}")[0], 404)
        eq(http(other, "POST", f"/contexts/{context.id}/restart")[0], 404)
        eq(context.id in [c.id for c in other.list_code_contexts()], False)
        eq(http(s, "POST", "/execute", {"code": "1"}, **token(other))[0], 401)
        eq(http(s, "POST", "/execute", {"code": "1"})[0], 401)
        eq(http(s, "POST", "/execute", {"code": "1"}, **token(s))[0], 200)
    finally:
        other.kill()
    private = Sandbox.create(network={"allow_public_traffic": False})
    try:
        eq(private.run_code("1 + 1").text, "2")
        for method, path in (("GET", "/contexts"), ("POST", "/contexts"), ("DELETE", "/contexts/x")):
            eq(http(private, method, path, {} if method == "POST" else None)[0], 403, method)
    finally:
        private.kill()


def killed(s):
    """The sandbox is killed during a cell, or paused between two."""
    s.run_code("x = 5")
    s.pause()
    s = Sandbox.connect(s.sandbox_id)
    eq(s.run_code("x").text, "5", "after a pause")
    seen, failed = [], []

    def run():
        try:
            s.run_code("print('begun', flush=True)\nimport time\ntime.sleep(1000)", on_stdout=seen.append)
        except Exception as e:  # pylint: disable=broad-exception-caught
            failed.append(e)
        else:
            failed.append(None)
    t = threading.Thread(target=run)
    t.start()
    until(lambda: seen, "the output")
    s.kill()
    t.join()
    eq(len(failed), 1)


async def with_async(_):
    s = await AsyncSandbox.create()
    try:
        await s.run_code("x = 1")
        a, b = await asyncio.gather(s.create_code_context(), s.create_code_context(language="bash"))
        out = []
        r = await asyncio.gather(s.run_code("x + 1"), s.run_code("2 + 3", context=a),
                                 s.run_code("echo $((6 * 7))", context=b, on_stdout=lambda m: out.append(m.line)))
        eq(([x.text for x in r], out), (["2", "5", None], ["42\n"]))
        if (await s.commands.run(NODE)).stdout:
            eq((await s.run_code("6 * 7", language="js")).text, "42")
        eq({a.id, b.id} <= {c.id for c in await s.list_code_contexts()}, True)
        await s.restart_code_context(a)
        await s.remove_code_context(b)
        try:
            await s.run_code("import time; time.sleep(1000)", timeout=1)
            raise AssertionError("no timeout")
        except e2b.TimeoutException:
            pass
        eq((await s.run_code("x")).text, "1", "after the interrupt")
        # A task that is cancelled interrupts its cell.
        task = asyncio.create_task(s.run_code("print('begun', flush=True)\nimport time; time.sleep(1000)",
                                              on_stdout=lambda m: out.append(m.line)))
        while "begun\n" not in out:
            await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])
        eq((await s.run_code("x")).text, "1", "after the client left")
    finally:
        await s.kill()


def main():
    area = globals()[sys.argv[1]]
    if area is with_async:
        asyncio.run(area(None))
    else:
        s = Sandbox.create(envs={"OF_BOX": "b x"}, **({"template": "charts"} if area is charts else {}))
        try:
            area(s)
        finally:
            s.kill()
    done()


if __name__ == "__main__":
    main()
