#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-kernel-rich.py - the kernel of Python uses IPython, matplotlib and pandas if they are installed

Prints TAP. Installs them in the build directory, and starts the kernel (src/code/kernel) as a process without a
sandbox.
"""
import base64
import sys

from os.path import abspath, dirname, join
sys.path[:0] = [join(dirname(abspath(__file__)), "../lib")]
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from kernel_world import Kernel, python_with_packages  # pylint: disable=wrong-import-position

PLOT = "import matplotlib.pyplot as plt\n"


def kernel():
    path = python_with_packages()
    return Kernel("python", path=path, env={"HOME": dirname(path), "XDG_CACHE_HOME": dirname(path)})


def chart_of(k, code):
    """Runs a cell that must display one figure; returns its chart."""
    cell = k.run(PLOT + code)
    ok(cell.error is None, cell)
    figures = [r for r in cell.results if "png" in r]
    eq(len(figures), 1, "figures")
    ok(base64.b64decode(figures[0]["png"]).startswith(b"\x89PNG"), "an image")
    return figures[0]["chart"]


@test
def figures_are_displayed_and_closed():
    with kernel() as k:
        cell = k.run(PLOT + "plt.plot([1, 2]);\nplt.show()\nprint('after')")
        eq([e["type"] for e in cell.events], ["number_of_executions", "result", "stdout", "end_of_execution"])
        eq((cell.results[0]["is_main_result"], cell.results[0]["text"]), (False, "<Figure size 640x480 with 1 Axes>"))
        eq(k.run("plt.get_fignums()").text, "[]")
        cell = k.run("fig, ax = plt.subplots()\nax.plot([1])\nfig")
        eq([(r["is_main_result"], "png" in r) for r in cell.results], [(True, True)], "a figure is shown once")
        cell = k.run("plt.plot([3])")
        eq([(r["is_main_result"], "png" in r) for r in cell.results], [(True, False), (False, True)])
        cell = k.run("plt.plot([4])\n1 / 0")
        eq((len(cell.results), cell.error["name"]), (1, "ZeroDivisionError"), "also after an error")
        eq(k.run("plt.get_backend().lower()").text, "agg")


@test
def charts_of_lines_and_points():
    with kernel() as k:
        c = chart_of(k, "plt.plot([1, 2, 3], [4, 5, float('nan')], label='a'); plt.plot([1, 2], [3, 4]); plt.axhline(1)\n"
                     "plt.title('T'); plt.xlabel('time (s)'); plt.ylabel('mass [kg]'); plt.yscale('log');")
        eq((c["type"], c["title"]), ("line", "T"))
        eq(c["elements"], [{"label": "a", "points": [[1, 4.0], [2, 5.0], [3, None]]},
                           {"label": "Line 1", "points": [[1, 3], [2, 4]]}])
        eq({n: c[n] for n in ("x_label", "x_unit", "y_label", "y_unit", "x_scale", "y_scale")},
           {"x_label": "time (s)", "x_unit": "s", "y_label": "mass [kg]", "y_unit": "kg", "x_scale": "linear", "y_scale": "log"})
        eq(len(c["x_ticks"]), len(c["x_tick_labels"]), "ticks and their labels")
        c = chart_of(k, "plt.scatter([1, 2], [3, 4], label='s');")
        eq((c["type"], c["elements"]), ("scatter", [{"label": "s", "points": [[1.0, 3.0], [2.0, 4.0]]}]))
        c = chart_of(k, "import datetime as d\nplt.scatter([d.datetime(2020, 1, 1), d.datetime(2020, 1, 2)], [1, 2]);")
        eq((c["x_scale"], c["elements"][0]["points"][0]), ("datetime", ["2020-01-01T00:00:00+00:00", 1.0]))
        c = chart_of(k, "import pandas as pd\nplt.plot(pd.date_range('2020-01-01', periods=2), [1, 2]);")
        ok(c["elements"][0]["points"][1][0].startswith("2020-01-02T00:00:00"), c)
        c = chart_of(k, "plt.plot(['a', 'b'], [1, 2]);")
        eq((c["x_scale"], c["x_tick_labels"], c["elements"][0]["points"]), ("categorical", ["a", "b"], [["a", 1], ["b", 2]]))


@test
def charts_of_bars_pies_boxes_and_several():
    with kernel() as k:
        c = chart_of(k, "plt.bar(['a', 'b'], [1, 2], label='g'); plt.bar(['a', 'b'], [3, 4], bottom=[1, 2], label='h');")
        eq((c["type"], c["elements"]), ("bar", [
            {"label": "a", "group": "g", "value": 1}, {"label": "b", "group": "g", "value": 2},
            {"label": "a", "group": "h", "value": 3}, {"label": "b", "group": "h", "value": 4}]))
        c = chart_of(k, "plt.barh(['a', 'b'], [1, 2]);")
        eq(c["elements"], [{"label": "a", "group": "Group 0", "value": 1}, {"label": "b", "group": "Group 0", "value": 2}])
        c = chart_of(k, "import pandas as pd\npd.DataFrame({'p': [1], 'q': [2]}, index=['row']).plot.bar();")
        eq(c["elements"], [{"label": "row", "group": "p", "value": 1}, {"label": "row", "group": "q", "value": 2}])
        c = chart_of(k, "plt.pie([1, 3], labels=['x', 'y']); plt.title('P');")
        eq(c, {"type": "pie", "title": "P", "elements": [{"label": "x", "angle": 90.0, "radius": 1.0},
                                                         {"label": "y", "angle": 270.0, "radius": 1.0}]})
        c = chart_of(k, "plt.boxplot([[1, 2, 3, 4, 100]]);")
        eq((c["type"], c["elements"]), ("box_and_whisker", [
            {"label": "1", "min": 1.0, "first_quartile": 2.0, "median": 3.0, "third_quartile": 4.0, "max": 4.0,
             "outliers": [100]}]))
        c = chart_of(k, "fig, ax = plt.subplots(1, 2); fig.suptitle('S'); ax[0].plot([1]); ax[1].scatter([1], [2]);")
        eq((c["type"], c["title"], [e["type"] for e in c["elements"]]), ("superchart", "S", ["line", "scatter"]))
        eq(chart_of(k, "plt.imshow([[1, 2]]); plt.colorbar();"), {"type": "unknown", "title": None, "elements": []})


@test
def data_frames_have_html_and_data():
    with kernel() as k:
        cell = k.run("import pandas as pd\ndf = pd.DataFrame({'n': [1, 2], 't': pd.to_datetime(['2020-01-01', None]), "
                     "'f': [1.5, None], 's': ['x', None], 5: [True, False]})\ndf")
        result = cell.results[0]
        ok("<table" in result["html"] and result["text"].startswith("   n"), result)
        eq(result["data"], {"n": [1, 2], "t": ["2020-01-01T00:00:00", None], "f": [1.5, None], "s": ["x", None],
                            "5": [True, False]})
        ok("data" not in k.run("pd.DataFrame({'a': range(300000)})").results[0], "a frame that is too large has no data")
        ok("html" not in k.run("pd.Series([1, 2])").results[0], "a series has text")
        eq(k.run("display(df.head(1))").results[0]["data"]["n"], [1])


@test
def ipython_takes_over_when_a_cell_needs_it_and_keeps_the_variables():
    with kernel() as k:
        eq(k.run("x = 5\nimport sys\n'IPython' in sys.modules").text, "False")
        eq(k.run("%who_ls int").text, "['x']")
        eq(k.run("type(get_ipython()).__mro__[1].__name__").text, "InteractiveShell")
        eq(k.run("y = !echo a; echo b\ny").text, "['a', 'b']")
        eq(k.run("!echo {x} $x; echo err >&2").stdout, "5 5\n")
        eq(k.run("x").text, "5")
        eq(k.run("Out[6]").text, "5")
        eq(k.run("'a b'").text, "a b")
        eq(k.run("x;").text, None)
        eq(k.run("import asyncio\nawait asyncio.sleep(0, 9)").text, "9")
        ok(k.run("%pip --version").stdout.startswith("pip "), "pip")
        ok("Wall time" in k.run("%%time\nx").stdout, "time")
        eq(k.run("%cd /\nimport os\nos.getcwd()").text, "/")
        eq(k.run("%%bash\necho $((1+2))").stdout, "3\n")
        ok(len(k.run(PLOT + "%matplotlib inline\nplt.plot([1]);").results) == 1, "a figure")
        ok("Type:" in k.run("x?").stdout, "help")


@test
def ipython_takes_over_when_a_cell_imports_it():
    with kernel() as k:
        cell = k.run("from IPython.display import display, HTML, Markdown, JSON, Latex, Javascript\ndisplay(HTML('<b>'))\n"
                     "Markdown('# m')")
        eq([(r["is_main_result"], r.get("html"), r.get("markdown")) for r in cell.results],
           [(False, "<b>", None), (True, None, "# m")])
        eq(k.run("JSON({'a': 1})").results[0]["json"], {"a": 1})
        eq(k.run("Latex('$x$')").results[0]["latex"], "$x$")
        eq(k.run("Javascript('a()')").results[0]["javascript"], "a()")
        ok("data" in k.run("import pandas as pd\npd.DataFrame({'a': [1]})").results[0], "data")
        cell = k.run(PLOT + "plt.bar(['a'], [1]);")
        eq(cell.results[0]["chart"]["type"], "bar")


@test
def errors_and_interrupts_are_the_same_with_ipython():
    with kernel() as k:
        k.run("import IPython\ndef divide(a):\n    return a / 0")
        e = k.run("divide(1)").error
        eq((e["name"], e["value"]), ("ZeroDivisionError", "division by zero"))
        ok(e["traceback"].startswith('Traceback (most recent call last):\n  File "Cell In[2]", line 1, in <module>\n')
           and 'File "Cell In[1]", line 3, in divide\n    return a / 0\n' in e["traceback"], e)
        e = k.run("x = = 1").error
        ok(e["name"] == "SyntaxError" and e["traceback"].startswith('  File "Cell In[3]", line 1\n'), e)
        eq(k.run("exit()").error["name"], "SystemExit")
        eq(k.run("input()").error["name"], "StdinNotImplementedError")
        eq(k.run("%nosuch").error["name"], "UsageError")
        for code in ("import time\nprint('go', flush=True)\ntime.sleep(1000)", "print('go', flush=True)\nwhile True: pass",
                     "print('go', flush=True)\n!sleep 1000",
                     "import asyncio\nprint('go', flush=True)\nawait asyncio.sleep(1000)"):
            k.send(code)
            k.wait_for("go")
            k.interrupt()
            eq(k.finish().error["name"], "KeyboardInterrupt", code)
        cell = k.run("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('parent' if pid else 'child')\n9")
        eq((cell.stdout, cell.text), ("child\nparent\n", "9"))
        eq(k.run("os.environ['A']", {"A": "b"}).text, "b")


if __name__ == "__main__":
    sys.exit(run_tests())
