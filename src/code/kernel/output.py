# SPDX-License-Identifier: Apache-2.0
# output.py - requests and events of a kernel (kernel.h), and the capture of what its cells write
#
# The descriptors of the requests and events are moved away and closed in children. Descriptors 1
# and 2 are pipes that the kernel itself reads, so the output of child processes and of libraries in
# C becomes events, too. Objects in place of sys.stdout and sys.stderr create events directly, after
# they have emptied the pipes, so the events are in the order of the writes.
#
# Three threads: the main thread runs the cells; one thread reads requests, so that an interrupt
# arrives while a cell runs; one thread reads the pipes. Modules are imported when they are needed
# first, because imports are most of the time that a kernel takes to start.
import sys
SAFE_PATH = sys.path[:1] != [""]
if not SAFE_PATH:
    del sys.path[0]  # a file of a cell must not take the place of a module of the kernel
import _signal
import _thread
import codecs
import io
import os
import select
import time
try:
    from _json import encode_basestring_ascii as quote, make_scanner
except ImportError:  # not CPython
    make_scanner = None
    from json.encoder import py_encode_basestring_ascii as quote

PARTS = {}
LINE_MAX = (16 << 20) - (1 << 16)
TEXT_MAX = 16384     # characters in an event of output
PENDING_MAX = 8192   # characters that wait for more
PENDING_SECONDS = 0.02
DEPTH_MAX = 64
KINDS = ("stdout", "stderr")

clock, monotonic, calendar, as_text = time.time, time.monotonic, time.gmtime, time.strftime
os_read, os_write, get_ident, time_sleep = os.read, os.write, _thread.get_ident, time.sleep


def timestamp():
    now = clock()
    return as_text("%Y-%m-%dT%H:%M:%S", calendar(now)) + ".%06dZ" % (now % 1 * 1e6)


def clean(text):
    """Returns @text without halves of surrogate pairs, which are not valid in JSON for every reader."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def plain(value):
    """Returns a value that JSON has for one of another type: of NumPy, of pandas, a date."""
    for method in ("isoformat", "tolist", "item"):
        convert = getattr(value, method, None)
        if convert is not None and not isinstance(value, type):
            return convert()
    return str(value)


def to_json(value, depth=0):
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return quote(clean(str(value)))
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value) if value - value == 0 else "null"
    if depth > DEPTH_MAX:
        raise ValueError("nested too deeply for JSON")
    if isinstance(value, dict):
        return "{" + ",".join(to_json(str(k)) + ":" + to_json(v, depth + 1) for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple, set, frozenset)):
        return "[" + ",".join(to_json(v, depth + 1) for v in value) + "]"
    return to_json(plain(value), depth + 1)


class Scanner:
    """What the scanner of the json module wants to know."""
    strict, object_hook, object_pairs_hook, memo = False, None, None, {}
    parse_float, parse_int, parse_constant = float, int, float


def from_json(text):
    if make_scanner is None:
        import json
        return json.loads(text)
    return make_scanner(Scanner)(text, 0)[0]


class Section:
    """A part of the main thread that SIGINT may not leave in the middle; for all threads, a lock."""

    def __init__(self):
        self.lock, self.main = _thread.RLock(), get_ident()
        self.depth, self.deferred = 0, False

    def __enter__(self):
        if get_ident() == self.main:
            self.depth += 1
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()
        if get_ident() == self.main:
            self.depth -= 1
            if not self.depth and self.deferred:
                self.deferred = False
                raise KeyboardInterrupt


class Output:
    """All events. Output is collected for up to PENDING_SECONDS, unless a line begins a new series."""

    def __init__(self, fd):
        self.fd, self.pid = fd, os.getpid()
        self.section, self.forked = Section(), False
        self.pending, self.size, self.kind, self.last = [], 0, "stdout", 0.0
        self.wake_in, self.wake_out = os.pipe()
        self.private = [fd, self.wake_in, self.wake_out]
        self.pipes, self.decoders = {}, {}
        self.ready = select.poll()
        for number, kind in enumerate(KINDS, 1):
            reader, writer = os.pipe()
            os.dup2(writer, number)  # @writer stays open, so that a cell can close descriptor 1
            os.set_blocking(reader, False)
            self.private += [reader, writer]
            self.pipes[reader] = kind
            self.decoders[kind] = codecs.getincrementaldecoder("utf-8")("replace")
            self.ready.register(reader, select.POLLIN)
        os.register_at_fork(before=self.before_fork,
                            after_in_parent=lambda: self.section.lock.release(), after_in_child=self.after_fork)
        _thread.start_new_thread(self.pump, ())

    def before_fork(self):
        if not self.forked:  # the threads of the kernel are no reason for a warning
            import warnings
            warnings.filterwarnings("ignore", r".*is multi-threaded, use of \w+\(\) may", DeprecationWarning)
            self.forked = True
        self.section.lock.acquire()

    def after_fork(self):
        """A child writes to the pipes like any other process, and has no part in the protocol."""
        self.section = Section()
        self.pending, self.size = [], 0
        while self.private:  # once, as a fork can fork, too
            os.close(self.private.pop())

    def is_child(self):
        return os.getpid() != self.pid

    # ------------------------------------------------------------ with the lock

    def line(self, text):
        data = memoryview(text.encode("ascii") + b"\n")
        try:
            while data:
                data = data[os_write(self.fd, data):]
        except OSError:
            os._exit(1)  # there is no reader, or the cell has closed the descriptor

    def flush_pending(self):
        if not self.pending:
            return
        text, self.pending, self.size = clean("".join(self.pending)), [], 0
        for i in range(0, len(text), TEXT_MAX):
            self.line('{"type":"%s","text":%s,"timestamp":"%s"}' % (self.kind, quote(text[i:i + TEXT_MAX]), timestamp()))
        self.last = monotonic()

    def append(self, kind, text):
        if kind != self.kind:
            self.flush_pending()
            self.kind = kind
        started = not self.pending
        self.pending.append(text)
        self.size += len(text)
        if self.size > PENDING_MAX or ("\n" in text and monotonic() - self.last > PENDING_SECONDS):
            self.flush_pending()
        elif started:
            os_write(self.wake_out, b"x")

    def drain(self, final=False):
        """Empties the pipes, in which is what other code than Python's own wrote."""
        while True:
            ready = self.ready.poll(0)
            for fd, _ in ready:
                try:
                    data = os_read(fd, 65536)
                except BlockingIOError:
                    continue
                except OSError:
                    os._exit(1)  # the cell has closed the descriptor
                self.append(self.pipes[fd], self.decoders[self.pipes[fd]].decode(data))
            if not ready:
                break
        if final:
            for kind, decoder in self.decoders.items():
                text = decoder.decode(b"", True)
                decoder.reset()
                if text:
                    self.append(kind, text)

    # --------------------------------------------------------- without the lock

    def text(self, kind, text):
        if self.is_child():
            self.child_text(kind, text)
        elif text:
            with self.section:
                self.drain()
                self.append(kind, text)

    def child_text(self, kind, text):
        data = text.encode("utf-8", "replace")
        while data:
            data = data[os_write(1 + KINDS.index(kind), data):]

    def bytes(self, kind, data):
        if self.is_child():
            while data:
                data = data[os_write(1 + KINDS.index(kind), data):]
        else:
            with self.section:
                self.drain()
                self.append(kind, self.decoders[kind].decode(data))

    def flush(self):
        if not self.is_child():
            with self.section:
                self.drain()
                self.flush_pending()

    def event(self, text):
        with self.section:
            self.drain(final=True)
            self.flush_pending()
            self.line(text)

    def mark(self, text):
        """Writes the begin or the end of a cell, in a new line: the cell can have written a part of one."""
        self.event("\n" + text)

    def pump(self):
        _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        wait = select.poll()
        for fd in (self.wake_in, *self.pipes):
            wait.register(fd, select.POLLIN)
        while True:
            ready = wait.poll(None)
            if any(fd == self.wake_in for fd, _ in ready):
                os_read(self.wake_in, 65536)
            else:
                with self.section:
                    self.drain()
            while self.pending:
                time_sleep(PENDING_SECONDS)
                with self.section:
                    self.drain()
                    self.flush_pending()


class Binary(io.RawIOBase):
    """sys.stdout.buffer and sys.stderr.buffer."""

    def __init__(self, output, kind):
        super().__init__()
        self.output, self.kind, self.name = output, kind, f"<{kind}>"

    def writable(self):
        return True

    def fileno(self):
        return 1 + KINDS.index(self.kind)

    def write(self, data):
        data = bytes(data)
        self.output.bytes(self.kind, data)
        return len(data)

    def flush(self):
        self.output.flush()

    def close(self):
        pass


class Stream(io.TextIOBase):
    """sys.stdout and sys.stderr."""
    encoding, errors, line_buffering, write_through, mode = "utf-8", "replace", True, False, "w"

    def __init__(self, output, kind):
        super().__init__()
        self.output, self.kind, self.name = output, kind, f"<{kind}>"
        self.buffer = Binary(output, kind)

    def writable(self):
        return True

    def fileno(self):
        return self.buffer.fileno()

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self.output.text(self.kind, str(text))
        return len(text)

    def writelines(self, lines):
        self.write("".join(lines))

    def flush(self):
        self.output.flush()

    def reconfigure(self, **_):
        pass

    def close(self):
        pass


class Kernel:
    """Reads requests, and calls execute(request) of its subclass for each cell."""

    def __init__(self):
        self.requests = os.dup(0)
        events = os.dup(1)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.close(null)
        self.output = Output(events)
        self.output.private.append(self.requests)
        self.count, self.running, self.target, self.handled = 0, None, None, False
        try:
            os.setpgid(0, 0)
        except OSError:
            pass  # the leader of a session leads a group, too
        _signal.signal(_signal.SIGINT, self.on_interrupt)
        self.accepted, self.cancelled = set(), set()  # cells that have not ended, by their ids
        self.queue, self.waiting = [], _thread.allocate_lock()
        self.waiting.acquire()
        _thread.start_new_thread(self.read, ())

    def on_interrupt(self, *_):
        target, self.target = self.target, None
        if self.output.is_child():
            raise KeyboardInterrupt
        if self.running is None or target not in (None, self.running):
            return
        self.handled = True
        if self.output.section.depth:
            self.output.section.deferred = True
        else:
            raise KeyboardInterrupt

    def interrupt(self, target=None):
        """Stops the cell, and what runs in its process group, as a terminal does."""
        if target is not None and target != self.running and target in self.accepted:
            self.cancelled.add(target)
        cell = self.running
        if cell is not None and target in (None, cell):
            self.handled = False
            self.signal_cell(cell)
            _thread.start_new_thread(self.insist, (cell,))

    def signal_cell(self, cell):
        self.target = cell
        if os.getpgrp() == os.getpid():
            os.killpg(0, _signal.SIGINT)
        else:
            os.kill(os.getpid(), _signal.SIGINT)

    def insist(self, cell):
        """Repeats a signal that was lost: it came before a child had started, or the child handled it."""
        _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        for pause in (0.2, 0.4, 0.8, 1.6, 3.2):
            time_sleep(pause)
            if self.running != cell or self.handled:
                return
            self.signal_cell(cell)

    def read(self):
        _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        try:
            self.read_requests()
        except BaseException:  # also if the cell has closed the descriptor
            os._exit(1)
        self.put({"op": "exit"})
        self.interrupt()
        time_sleep(2)
        os._exit(1)  # the cell does not end

    def read_requests(self):
        rest = []
        while True:
            data = os_read(self.requests, 1 << 20)
            if not data:
                return
            *lines, last = data.split(b"\n")
            for line in lines:
                self.request(b"".join(rest) + line)
                rest = []
            rest.append(last)

    def request(self, line):
        try:
            request = from_json(line.decode("utf-8", "surrogateescape"))
        except (ValueError, StopIteration, SystemError):  # the scanner raises all of them
            return  # its writer was killed in the middle of the line
        if request["op"] == "interrupt":
            self.interrupt(request.get("id"))
        else:
            self.put(request)

    def put(self, request):
        self.accepted.add(request.get("id"))
        self.queue.append(request)
        if self.waiting.locked():
            self.waiting.release()

    def wait(self):
        """Waits for the next request."""
        while not self.queue:
            self.waiting.acquire()
        return self.queue.pop(0)

    def error(self, name, value, text):
        self.output.event('{"type":"error","name":%s,"value":%s,"traceback":%s}' % tuple(
            quote(clean(s[:1 << 20])) for s in (name, value, text)))

    def serve(self):
        while True:
            request = self.wait()
            if request["op"] == "exit":
                return
            self.cell(request)

    def cell(self, request):
        self.count += 1
        number = request.get("id", 0)
        self.output.mark('{"type":"number_of_executions","execution_count":%d,"id":%d}' % (self.count, number))
        self.running = number
        try:
            try:
                if self.running in self.cancelled:
                    raise KeyboardInterrupt
                self.execute(request)
            finally:
                self.accepted.discard(self.running)
                self.cancelled.discard(self.running)
                self.running, self.output.section.deferred = None, False
        except KeyboardInterrupt:  # before the start of its code, or after the end
            self.error("KeyboardInterrupt", "", "KeyboardInterrupt")
        if self.output.is_child():
            os._exit(0)  # a fork that came to the end of its cell
        self.output.mark('{"type":"end_of_execution"}')
