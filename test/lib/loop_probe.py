# SPDX-License-Identifier: Apache-2.0
"""loop_probe.py - measure how long clients wait for the service during a large operation

    probe = Probe(world)
    with probe.bounded("many downloads"):
        at_once(8, download)
    probe.close()

One event loop serves all clients. So the probe, a separate process, requests /healthz all the time. Its waiting time
is compared with that of a sleep in the same process (a busy machine delays both), and the service's watchdog reports
what the loop did.
"""
import concurrent.futures
import contextlib
import json
import os
import re
import select
import socket
import time

from checks import ok
from serve_world import WAIT

LATE = 0.4       # maximum time in seconds that the probe may wait for an answer, on an idle machine
CPU = 0.12       # maximum time in seconds that the loop may compute in one turn
EVERY = 0.003    # time between two requests of the probe


def stolen():
    """Returns the processor time in seconds that other virtual machines have used so far. The kernel counts it as
    computing."""
    with open("/proc/stat", encoding="ascii") as f:
        return int(f.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def at_once(n, work):
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        return [f.result() for f in [pool.submit(work, i) for i in range(n)]]


def probe_main(path, commands, answers):
    """Runs in a separate process: "b" begins, "e" ends and prints [requests, longest answer, longest sleep, all
    answers]."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(4 * WAIT)
    s.connect(path)
    times, sleeps = [], []
    while True:
        before = time.monotonic()
        if select.select([commands], [], [], EVERY)[0]:
            word = os.read(commands, 1)
            if not word:
                os._exit(0)
            if word == b"e":
                times.sort()
                said = [len(times), times[-1], max(sleeps), times[len(times) // 2], times[len(times) * 99 // 100]]
                os.write(answers, (json.dumps(said) + "\n").encode())
            times, sleeps = [], []
            continue
        now = time.monotonic()
        sleeps.append(now - before - EVERY)
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        data = b""
        while b"\"warden\"" not in data:
            more = s.recv(65536)
            if not more:
                os._exit(1)
            data += more
        times.append(time.monotonic() - now)


class Probe:
    def __init__(self, world):
        self.world, self.api = world, world.api
        self.n = self.worst = self.slept = self.median = self.p99 = 0
        self.begin()

    def begin(self):
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self.commands)
                probe_main(self.world.socket, commands, answers)
            finally:
                os._exit(1)
        os.close(commands)
        os.close(answers)

    def check(self):
        """Checks that the service was the same process all the time, and answered; if not, explains why, and starts a
        new probe."""
        ended = os.waitpid(self.pid, os.WNOHANG)
        if ended == (0, 0) and self.world.api == self.api:
            return
        said = f"the probe: {ended}; the api was {self.api} and is {self.world.api}: {self.world.said()}"
        os.close(self.commands)
        os.close(self.answers)
        if ended == (0, 0):
            os.waitpid(self.pid, 0)
        self.api = self.world.api
        self.begin()
        ok(False, said)

    def __enter__(self):
        self.check()
        os.write(self.commands, b"b")
        time.sleep(10 * EVERY)
        return self

    def __exit__(self, *failure):
        time.sleep(10 * EVERY)
        os.write(self.commands, b"e")
        data = b""
        while not data.endswith(b"\n"):
            more = os.read(self.answers, 4096)
            ok(more, f"the probe has died: {self.world.said()}")
            data += more
        self.n, self.worst, self.slept, self.median, self.p99 = json.loads(data)

    def close(self):
        os.close(self.commands)
        os.waitpid(self.pid, 0)

    def turns(self):
        """Returns the slow turns by operation, and the most processor time that one of them took."""
        text = self.world.ask("GET", "/metrics", status=200).body.decode()
        f = {m[1]: float(m[2]) for m in re.finditer(r"^(\w+(?:\{[^}]*\})?) ([0-9.e+-]+)$", text, re.M)}
        return ({k.partition('"')[2].rstrip('"}'): v for k, v in f.items() if k.startswith("warren_loop_slow_turns_total")},
                f["warren_loop_longest_turn_cpu_seconds"])

    @contextlib.contextmanager
    def bounded(self, what, most=CPU):
        """Checks that during the block no client waits for long, and the loop does not compute for long. The yielded
        value gets the slow turns."""
        before, longest = self.turns()
        lost = stolen()
        slow = {}
        with self:
            yield slow
        lost = stolen() - lost
        after, cpu = self.turns()
        cpu = cpu if cpu > longest else 0  # an earlier operation had the longest turn, and reported it
        slow.update({k: v - before.get(k, 0) for k, v in after.items() if v > before.get(k, 0)})
        said = (f"{what}: {self.n} answers, the worst after {self.worst:.3f} s where a sleep was late by {self.slept:.3f} s and {lost:.2f} s were stolen; "
                f"the loop computed for {cpu:.3f} s at most; turns over 50 ms: {slow}")
        print(f"# {said}", flush=True)
        ok(self.worst < LATE + 4 * self.slept + lost, said)
        ok(cpu < most + self.slept + lost, said)
