# SPDX-License-Identifier: Apache-2.0
"""kernel_world.py - the kernels of code interpreters, started as processes without a sandbox

    with Kernel("python") as k:
        eq(k.run("1 + 1").text, "2")
        cell = k.send("while True: pass")
    python_with_packages()               # a directory for PATH: a python with kernel-requirements.txt
"""
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time

from checks import BUILD, SOURCE, Skip, eq, ok
from published import attempt

START = os.path.join(BUILD, "test", "kernel-start")
PACKAGES = os.path.join(BUILD, "kernel-python")
WANTED = os.path.join(SOURCE, "test/lib/kernel-requirements.txt")
LINE_MAX = 16 << 20
PATIENCE = 60


def python_with_packages():
    """Creates the environment once, in the build directory, and again when the required packages change."""
    with open(WANTED, encoding="utf-8") as f:
        wanted = f.read()
    with open(f"{PACKAGES}.lock", "w", encoding="ascii") as lock:  # only one test may do this at a time
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(OSError), open(f"{PACKAGES}/wanted", encoding="utf-8") as f:
            if f.read() == wanted:
                return f"{PACKAGES}/bin"
        shutil.rmtree(PACKAGES, ignore_errors=True)
        why = attempt(sys.executable, "-m", "venv", PACKAGES) or attempt(
            f"{PACKAGES}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", WANTED)
        if why:
            raise Skip(f"the packages cannot be installed: {why}")
        with open(f"{PACKAGES}/wanted", "w", encoding="utf-8") as f:
            f.write(wanted)
        return f"{PACKAGES}/bin"


class Cell:
    """The events of a cell."""

    def __init__(self, events):
        self.events = events
        self.results = [e for e in events if e["type"] == "result"]
        self.error = next((e for e in events if e["type"] == "error"), None)

    def written(self, kind):
        return "".join(e["text"] for e in self.events if e["type"] == kind)

    @property
    def stdout(self):
        return self.written("stdout")

    @property
    def stderr(self):
        return self.written("stderr")

    @property
    def text(self):
        """The text of the main result, or None."""
        ok(self.error is None, f"the cell failed: {self.error}")
        return next((r["text"] for r in self.results if r["is_main_result"]), None)

    def __repr__(self):
        return repr(self.events)[:3000]


class Kernel:
    def __init__(self, language, path=None, env=None, cwd=None, stderr=None):
        variables = {**os.environ, **(env or {})}
        if path:
            variables["PATH"] = f"{path}:{variables['PATH']}"
        source = subprocess.run([START, "--source", language], stdout=subprocess.PIPE, check=True, timeout=60).stdout
        with open(stderr, "wb") if stderr else contextlib.nullcontext() as err:
            self.process = subprocess.Popen([START, language], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                                            stderr=err, env=variables, cwd=cwd, start_new_session=True)
        self.id, self.rest, self.lines = 0, b"", []
        self.write(source)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        self.process.stdout.close()

    def write(self, data):
        while data:
            data = data[self.process.stdin.write(data):]

    def request(self, **fields):
        self.write(json.dumps(fields, separators=(",", ":")).encode() + b"\n")

    def send(self, code, env_vars=None, **more):
        self.id += 1
        self.request(op="execute", id=self.id, code=code, env_vars=env_vars, **more)
        return self.id

    def interrupt(self, number=None):
        self.request(op="interrupt", id=number or self.id)

    def event(self):
        """Returns the next event, or None at the end of the output."""
        deadline = time.monotonic() + PATIENCE
        while not any(self.lines):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            ok(ready, "no event")
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                eq(self.rest, b"", "an incomplete line")
                return None
            *self.lines, self.rest = (self.rest + data).split(b"\n")
        line = b""
        while not line:  # there are empty lines before the begin and the end of a cell
            line = self.lines.pop(0)
        ok(len(line) < LINE_MAX and line.isascii(), f"a line of {len(line)} bytes: {line[:200]!r}")
        event = json.loads(line)
        ok(isinstance(event, dict), f"not an object: {event!r}")
        if event["type"] in ("stdout", "stderr"):
            ok(event["text"] and event["timestamp"].endswith("Z"), f"an incomplete event: {event}")
        return event

    def wait_for(self, text):
        """Waits until the running cell has written @text; earlier output is dropped."""
        seen = ""
        while text not in seen:
            event = self.event()
            ok(event is not None and event["type"] != "end_of_execution", f"no '{text}', but {event}")
            seen += event.get("text", "")

    def finish(self):
        """Returns the rest of the events of the running cell."""
        events = []
        while not events or events[-1]["type"] != "end_of_execution":
            event = self.event()
            ok(event is not None, f"the kernel ended: {events}")
            events.append(event)
        return Cell(events)

    def run(self, code, env_vars=None, **more):
        self.send(code, env_vars, **more)
        return self.finish()

    def ended(self):
        """Waits until the kernel has ended; returns its status."""
        while self.event() is not None:
            pass
        return self.process.wait(PATIENCE)
