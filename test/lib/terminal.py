# SPDX-License-Identifier: Apache-2.0
"""terminal.py - run a program of Warren in a terminal that the test controls"""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from checks import WARREN, eq, ok

WAIT = 20  # in seconds; no operation here takes as long


class Terminal:
    """A command of warren (default: run) in a new terminal, as a session leader."""

    def __init__(self, *args, command=("run",), rows=33, cols=99, before=None, **kw):
        self.master, self.slave = pty.openpty()
        self.resize(rows, cols)
        self.was = termios.tcgetattr(self.slave)
        self.seen = b""

        def prepare():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            if before:
                before()

        kw.setdefault("stdin", self.slave)
        kw.setdefault("stdout", self.slave)
        kw.setdefault("stderr", self.slave)
        kw.setdefault("env", {"PATH": os.environ["PATH"], "TERM": "vt100"})
        self.p = subprocess.Popen([WARREN, *command, *args], start_new_session=True, preexec_fn=prepare, **kw)

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, data):
        os.write(self.master, data)

    def expect(self, pattern):
        deadline = time.monotonic() + WAIT
        while not (m := re.search(pattern, self.seen, re.S)):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.master], [], [], left)[0]:
                raise AssertionError(f"{pattern!r} was not seen in {self.seen[-300:]!r}")
            self.seen += os.read(self.master, 65536)
        self.seen = self.seen[m.end():]
        return m

    def drain(self):
        while select.select([self.master], [], [], 0.1)[0]:
            self.seen += os.read(self.master, 65536)
        return self.seen

    def raw(self):
        return not termios.tcgetattr(self.slave)[3] & (termios.ICANON | termios.ECHO | termios.ISIG)

    def wait(self):
        deadline = time.monotonic() + WAIT
        while self.p.poll() is None:
            self.drain()
            ok(time.monotonic() < deadline, f"it hangs: {self.seen[-300:]!r}")
        self.drain()
        return self.p.returncode

    def restored(self):
        eq(termios.tcgetattr(self.slave), self.was, "the terminal's settings")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.p.poll() is None:
            self.p.kill()
            self.p.wait()
        os.close(self.master)
        os.close(self.slave)
