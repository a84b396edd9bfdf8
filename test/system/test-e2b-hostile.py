#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-hostile.py - hostile cells, in every language: the service stays responsive with little memory, and a
restart of the context works"""
import contextlib
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, test, ok, eq  # pylint: disable=wrong-import-position
from e2b_raw import INTERPRETER, RawWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from serve_world import BACKEND, CONFIGS, IMAGES, rss, until  # pylint: disable=wrong-import-position

WORLD = []
MIB = 1 << 20
READ_MAX, READ_SECONDS = 64 * MIB, 2
SAY = {"python": "print(6 * 7)", "javascript": "console.log(6 * 7)", "bash": "echo $((6 * 7))"}

# Written to the pipe of events, without a line end after the last one.
GARBAGE = r"""[
    b'\n', b'\0' * 5000 + b'\n', b'\xff\xfe\n', b'[' * 200000 + b'\n', b'{"type":' * 50000 + b'\n', b'"' * 99999 + b'\n',
    b'{"type":"number_of_executions","execution_count":' + b'9' * 3000 + b',"id":' + b'9' * 3000 + b'}\n',
    b'{"type":"result","is_main_result":true,"text":"' + b'\\u0041' * 500000 + b'"}\n', b'{"type":"unknown"}\n',
    b'{"type":"stdout","text":1,"timestamp":[]}\n', b'{"type":"error"}\n', b'{"type":"end_of_execution"',
]"""
ATTACKS = {
    "python": {
        "garbage": f"import os\nfor line in {GARBAGE}:\n while line: line = line[os.write(4, line):]",
        "a thread with garbage": "import os, threading, time\ndef run():\n while True: os.write(4, b'x{'); time.sleep(0.001)\n"
                                 "threading.Thread(target=run, daemon=True).start()",
        "output without end": "while True: print('x' * 100000)",
        "events without end": "import os\nwhile True: os.write(4, b'x' * 65536)",
        "results without end": "while True: display('y' * 1000000)",
        "fork bomb": "import os\nwhile True:\n try: os.fork()\n except OSError: pass",
        "another program": "import os; os.execvp('sleep', ['sleep', '1000'])",
        "another program that writes": "import os; os.dup2(4, 1); os.execvp('yes', ['yes', '{\"type\":\"stdout\",'])",
        "closed descriptors": "import os; os.closerange(0, 1000)",
        "closed requests": "import os; os.close(3)",
        "stopped": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        "all stopped": "import os; os.system('kill -STOP -1')",
        "killed": "import os; os.kill(os.getpid(), 9)",
        "no interrupt": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        "memory": "x = []\nwhile True: x.append(bytearray(1 << 24))",
        "requests read": "import os\nwhile True: os.read(3, 1000)",
    },
    "javascript": {
        "garbage": "const fs = require('fs');\nfor (let i = 0; i < 300; i++)\n"
                   " try { fs.writeSync(4, '\\0[{\"type\":\"end_of_execution\"' + '['.repeat(i * 50) + (i % 2 ? '\\n' : '')) }\n"
                   " catch (e) {}",
        "output without end": "while (true) console.log('x'.repeat(100000))",
        "events without end": "const f = require('fs'); while (true) try { f.writeSync(4, 'x'.repeat(65536)) } catch (e) {}",
        "results without end": "while (true) display('y'.repeat(1000000))",
        "fork bomb": "const c = require('child_process');\n"
                     "for (;;) try { c.spawn('sh', ['-c', 'while :; do sh -c \"$0\" & done']) } catch (e) {}",
        "closed descriptors": "const g = require('fs'); for (let i = 3; i < 100; i++) try { g.closeSync(i) } catch (e) {}",
        "stopped": "process.kill(process.pid, 'SIGSTOP')",
        "killed": "process.kill(process.pid, 'SIGKILL')",
        "no return": "process.on('SIGINT', () => {}); while (true);",
        "memory": "const x = []; while (true) x.push(Buffer.alloc(1 << 24, 1))",
    },
    "bash": {
        "garbage": "for f in /proc/$PPID/fd/*; do [ -p $f ] && (printf 'x{[\\0\"' >$f) & done 2>/dev/null; sleep 0.3",
        "output without end": "yes",
        "fork bomb": "b() { b | b & }; b",
        "another program": "exec sleep 1000",
        "closed descriptors": "exec 0<&- 1>&- 2>&- 198>&- 199>&-",
        "stopped": "kill -STOP $PPID",
        "stopped shell": "kill -STOP $$",
        "killed": "kill -9 $PPID",
        "no interrupt": "trap '' INT; while :; do :; done",
        "an end of the shell": "set -e; false",
    },
}


TEMPLATES = {"docker": f"templates:\n  base: {{ image: '{IMAGES['docker']}' }}\n"}
# The kernel of gVisor is inside the limit of memory, so these end the whole sandbox. Docker cannot start a process in a
# container that has as many as it may have.
FATAL = {"gvisor": ("fork bomb", "memory"), "docker": ("fork bomb",)}


def w():
    if not WORLD:
        WORLD.append(RawWorld(config=CONFIGS[BACKEND] + TEMPLATES.get(BACKEND, "")))
    return WORLD[0]


def attack(box, context, code):
    """Runs the cell for a while, as a client that then leaves."""
    got, end = 0, time.monotonic() + READ_SECONDS
    with contextlib.closing(w().cell(box, code, context_id=context)) as c:
        c.sock.settimeout(READ_SECONDS)
        with contextlib.suppress(OSError):
            r = c.getresponse()
            eq(r.status, 200)
            while got < READ_MAX and time.monotonic() < end:
                data = r.read1(MIB)
                got += len(data)
                if not data:
                    break


def responds(box, other):
    """Does the service answer, for this sandbox and for another?"""
    for one in (box, other):
        eq(w().request("GET", "/health", None, **w().plane(one))[0], 204)
    eq(w().shell(other, "echo fine"), "fine\n")


def said(box, context, language):
    events = w().run_cell(box, SAY[language], context_id=context)
    eq([e for e in events if e["type"] == "error"], [])
    return "".join(e["text"] for e in events if e["type"] == "stdout")


def attacks(language):
    with w().e2b_box() as box, w().e2b_box() as other:
        if language == "javascript" and not w().shell(box, "command -v node nodejs || true"):
            raise Skip("the image has no node")
        plane = w().plane(box, INTERPRETER)
        context = w().request("POST", "/contexts", {"language": language}, **plane)[1]["id"]
        eq(said(box, context, language), "42\n", "before")
        before = rss(w().api)
        for name, code in ATTACKS[language].items():
            if name in FATAL.get(BACKEND, ()):
                continue
            attack(box, context, code)
            responds(box, other)
            eq(w().request("POST", f"/contexts/{context}/restart", None, **plane)[0], 204, name)
            eq(said(box, context, language), "42\n", name)
        ok("WARREN_SANITIZE" in os.environ or rss(w().api) - before < 64 * MIB,
           f"memory grew from {before >> 20} to {rss(w().api) >> 20} MiB")
        until(lambda: int(w().shell(box, "ls -d /proc/[0-9]* | wc -l")) < 20, "the end of what cells started")
        eq(w().request("DELETE", f"/contexts/{context}", None, **plane)[0], 204)


@test
def python_cells_harm_only_their_kernel():
    attacks("python")


@test
def javascript_cells_harm_only_their_kernel():
    attacks("javascript")


@test
def bash_cells_harm_only_their_kernel():
    attacks("bash")


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
