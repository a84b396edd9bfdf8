#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""soak-oracle.py - no acknowledged change is lost, whatever happens to the service

Clients create sandboxes, run execs and sessions, write files, create tokens, and delete all of them again. Each
client records what was acknowledged. At the same time, api and warden are killed or stopped, system calls fail, the
disk fills up and the system time jumps. At the end, everything that was acknowledged is compared with what exists.
Prints TAP, and a table at the end. It takes $WARREN_SOAK_SECONDS (default 20; ten minutes with WARREN_SOAK, as in
`make soak`), on the backend in $WARREN_TEST_BACKEND (default native). For docker, it starts a separate daemon.
"""
import collections
import concurrent.futures
import hashlib
import http.client
import os
import random
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import MIB, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from fault_world import (DESCRIPTORS, DISK, INTERRUPTS, KINDS, MEMORY, MESSAGES, PRELOAD, SIGNALS, SPACE, FaultyWorld, fill,  # pylint: disable=wrong-import-position
                         free, small_disk)
from serve_world import BACKEND, IMAGES, Client, fitted, until  # pylint: disable=wrong-import-position

LONG = bool(os.environ.get("WARREN_SOAK"))
SECONDS = int(os.environ.get("WARREN_SOAK_SECONDS", 600 if LONG else 20))
SEED = int(os.environ.get("WARREN_SEED", time.time_ns() % (1 << 48)))
# How many execs run during the whole test, and how many sandboxes exist at a time. On other backends, each needs
# several processes and more memory.
CROWD, BOXES_MAX = (300 if LONG else 40, 24) if BACKEND == "native" else (60 if LONG else 20, 8)
DAY = 86400
ONLY = os.environ.get("WARREN_TROUBLE", "").split()  # methods of Trouble to use, to find the cause of a loss
BROKEN = (OSError, http.client.HTTPException, ValueError)
# If operations are slower, there are fewer calls per second, so make a larger share of them fail.
FEWER = 1 if BACKEND == "native" else 3
FAULTS = ((MEMORY, 600), (DESCRIPTORS, 40), (SPACE, 20), (DISK, 40), (MESSAGES, 8), (SIGNALS, 3), (INTERRUPTS, 15))


class Oracle:
    """The acknowledged changes by kind, and those that turned out to be lost."""

    def __init__(self, w):
        self.w, self.over, self.lock = w, threading.Event(), threading.Lock()
        self.counts = collections.Counter()
        self.boxes, self.doomed, self.deleted = [], set(), set()
        self.execs, self.files, self.variables = [], {}, []  # (box, ...)
        self.tokens, self.revoked, self.in_doubt = {}, set(), set()
        self.lost, self.n = [], 0

    def number(self):
        with self.lock:
            self.n += 1
            return self.n

    def ask(self, what, method, at, body=None, **query):
        """Returns the answer if the change was acknowledged, otherwise None."""
        try:
            with Client(self.w.socket, timeout=60) as c:
                r = c.ask(method, at, body, query=query)
        except BROKEN as e:
            if isinstance(e, TimeoutError):
                self.lost.append(f"{method} {at}: no answer in a minute")
            self.counts["broken"] += 1
            return None
        # http.client accepts a truncated head, which may lack the length of the body.
        if r.status != 204 and not r.headers.get("content-length", "").isdigit() \
                and r.headers.get("transfer-encoding") != "chunked":
            self.counts["broken"] += 1
            return None
        if r.status >= 400:
            self.counts["refused"] += 1
            # An acknowledged object must be found, unless it is about to be deleted.
            if r.status == 404 and method != "DELETE":
                with self.lock:
                    if not any(b in at for b in self.doomed):
                        self.lost.append(f"{method} {at}: {r}")
            return None
        self.counts[what] += 1
        return r

    def some_box(self):
        with self.lock:
            alive = [b for b in self.boxes if b not in self.doomed]
        return random.choice(alive) if alive else None

    # ---------------------------------------------------------------- operations

    def create(self):
        with self.lock:
            if len(self.boxes) - len(self.doomed) >= BOXES_MAX:
                return self.delete
        r = self.ask("creates", "POST", "/v1/sandboxes", fitted({"labels": {"soak": "1"}}))
        if r:
            self.w.seen.add(r.json()["id"])
            with self.lock:
                self.boxes.append(r.json()["id"])
        return None

    def delete(self):
        box = self.some_box()
        if not box:
            return
        with self.lock:
            self.doomed.add(box)
        if self.ask("deletes", "DELETE", f"/v1/sandboxes/{box}"):
            with self.lock:
                self.deleted.add(box)

    def exec(self):
        box, n = self.some_box(), self.number()
        if not box:
            return
        r = self.ask("execs", "POST", f"/v1/sandboxes/{box}/execs",
                     {"command": f"echo {n}; sleep 0.{n % 10}; exit {n % 100}", "output_limit": 65536})
        if r:
            with self.lock:
                self.execs.append((box, r.json()["id"], n))

    def session(self):
        box = self.some_box()
        if not box:
            return
        r = self.ask("sessions", "POST", f"/v1/sandboxes/{box}/sessions", {"output_limit": 256 << 10})
        if not r:
            return
        at, last = f"/v1/sandboxes/{box}/sessions/{r.json()['id']}", []
        for _ in range(random.randint(1, 4)):
            n = self.number()
            if self.ask("commands", "POST", at + "/run", {"command": f"V{n}={n}"}):
                last.append(n)
        lines = random.choice([100, 20000, 1500000 if LONG else 150000])  # the last one prints 10 MB
        r = self.ask("commands", "POST", at + "/run", {"command": f"seq 1 {lines}", "timeout_ms": 50000})
        if r:
            e = r.json()
            want = "".join(f"{i}\n" for i in range(1, lines + 1))
            if e["exit_code"] == 0 and e["stdout"] != want and not e.get("gaps"):
                self.lost.append(f"{at}: {len(e['stdout'])} of {len(want)} bytes of output")
            self.counts["megabytes of sessions"] += len(want) / MIB
        with self.lock:
            self.variables += [(box, at, n) for n in last]

    def file(self):
        box, n = self.some_box(), self.number()
        if not box:
            return
        data = random.Random(n).randbytes(random.choice([10, 5000, 300000]))
        if self.ask("files", "PUT", f"/v1/sandboxes/{box}/files", data, path=f"/tmp/f{n}"):
            with self.lock:
                self.files[box, f"/tmp/f{n}"] = hashlib.sha256(data).hexdigest()

    def token(self):
        r = self.ask("tokens", "POST", "/v1/tokens", {"name": "soak", "scopes": ["read"]})
        if r:
            with self.lock:
                self.tokens[r.json()["id"]] = True
        if random.random() < 0.5:
            with self.lock:
                known = [t for t in self.tokens if t not in self.in_doubt]
                gone = random.choice(known) if known else None
                self.in_doubt.add(gone)
            if gone and self.ask("revocations", "DELETE", f"/v1/tokens/{gone}"):
                self.revoked.add(gone)

    def client(self, seed):
        random.seed(seed)
        todo = [self.create] * 3 + [self.exec] * 6 + [self.session] * 2 + [self.file] * 4 + [self.token, self.delete]
        while not self.over.is_set():
            try:
                then = random.choice(todo)()
                if then:
                    then()
            except Exception as why:  # pylint: disable=broad-except
                self.lost.append(f"a client failed: {why!r} at line {why.__traceback__.tb_next.tb_lineno}")
            time.sleep(random.uniform(0, 0.02))

    # ------------------------------------------------------------------- verdict

    def judge(self, what, is_so, words):
        self.counts["checks"] += 1
        if not is_so:
            self.lost.append(f"{what}: {words}")

    def check(self):
        w = self.w
        there = {s["id"]: s["state"] for s in w.sandboxes()}
        for box in self.boxes:
            if box in self.deleted:
                self.judge(box, box not in there, "it was deleted, and is there")
            elif box not in self.doomed:
                self.judge(box, there.get(box) == "running", f"it was made, and is {there.get(box)}: {w.said([box])[-500:]}")
        alive = {b for b in self.boxes if b not in self.doomed and there.get(b) == "running"}
        for box, e, n in self.execs:
            if box in alive:
                r = w.ask("GET", f"/v1/sandboxes/{box}/execs/{e}", query={"wait_ms": 30000})
                is_so = r.status == 200 and r.json()["state"] == "exited" and r.json()["result"]["exit_code"] == n % 100
                self.judge(e, is_so, f"it should say {n % 100}: {r}")
                self.judge(e, w.raw(box, e) == f"{n}\n".encode(), "its output")
        for (box, path), digest in self.files.items():
            if box in alive:
                r = w.ask("GET", f"/v1/sandboxes/{box}/files", query={"path": path})
                self.judge(box + path, r.status == 200 and hashlib.sha256(r.body).hexdigest() == digest, f"{r.status}")
        self.check_sessions(alive)
        tokens = {t["id"] for t in w.get("/v1/tokens", query={"limit": 1000})["tokens"]}
        for t in self.tokens:
            if t in self.revoked:
                self.judge(t, t not in tokens, "the token was revoked, and is there")
            elif t not in self.in_doubt:
                self.judge(t, t in tokens, "the token is gone")

    def check_sessions(self, alive):
        by_session = collections.defaultdict(list)
        for box, at, n in self.variables:
            if box in alive:
                by_session[at].append(n)
        for at, numbers in by_session.items():
            # The last command may still run: the service was killed while its client waited.
            until(lambda at=at: self.w.get(at)["state"] != "busy", f"{at} is busy", 60)
            r = self.w.ask("POST", at + "/run", {"command": " ; ".join(f"echo $V{n}" for n in numbers)})
            self.judge(at, r.status == 200 and r.json()["stdout"].split() == [str(n) for n in numbers], r)


class Crowd:
    """A sandbox with many execs that run during the whole test."""

    def __init__(self, w):
        self.w = w
        self.box = w.create(**({"limits": {"pids": 2048}}))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.execs = list(pool.map(lambda i: w.exec(self.box, f"read x; echo $x; exit {i % 100}", stdin=True,
                                                        output_limit=65536), range(CROWD)))

    def shown(self, at, e):
        return self.w.ask("GET", f"{at}/execs/{e}").body, self.w.ask("GET", f"{at}/execs/{e}/output").body

    def check(self, oracle):
        w, at = self.w, f"/v1/sandboxes/{self.box}"
        oracle.judge(self.box, w.show(self.box)["state"] == "running", f"the crowd's sandbox: {w.said([self.box])[-500:]}")
        for i, e in enumerate(self.execs):
            r = w.ask("POST", f"{at}/execs/{e}/stdin", f"{i}\n".encode())
            r = w.get(f"{at}/execs/{e}", query={"wait_ms": 30000}) if r.status == 200 else {"state": repr(r), "result": self.shown(at, e)}
            oracle.judge(e, r["state"] == "exited" and r["result"]["exit_code"] == i % 100
                         and w.raw(self.box, e) == f"{i}\n".encode(), f"of the crowd: {r}")


# ---------------------------------------------------------------------------- faults


class Trouble:
    def __init__(self, w, at):
        self.w, self.at, self.counts = w, at, collections.Counter()
        self.fault_kinds = []

    def begin_again(self, *who):
        self.w.kill(*who)
        self.counts["kills"] += len(who)
        if self.w.alive():
            self.w.ready()
        else:
            self.w.start()

    def kill_api(self):
        self.begin_again("api")

    def kill_warden(self):
        self.begin_again("warden")

    def kill_both(self):
        self.begin_again("api", "warden")

    def stop(self):
        self.w.stop()
        self.counts["stops"] += 1
        self.w.start()

    def faults(self):
        # Uses each kind of fault once per round.
        self.fault_kinds = self.fault_kinds or random.sample(FAULTS, len(FAULTS))
        kinds, one_in = self.fault_kinds.pop()
        self.w.faults.set(kinds, max(1, one_in // FEWER), random.getrandbits(48))
        time.sleep(random.uniform(0.5, 1.5))
        for kind, n in zip(KINDS, self.w.faults.off()):
            self.counts[f"faults ({kind})"] += n
            self.counts["faults"] += n

    def full_disk(self):
        fill(self.at)
        self.counts["full disks"] += 1
        time.sleep(random.uniform(0.3, 1))
        if random.random() < 0.5:
            self.kill_both()
        free(self.at)

    def clock(self):
        self.w.faults.shift_clock(random.choice([-DAY, -3600, 0, 3600, DAY]))
        self.counts["clock jumps"] += 1

    def all(self):
        """Causes each kind of trouble once per round, in random order."""
        while True:
            kinds = [self.kill_api, self.kill_warden, self.kill_both, self.stop, self.faults, self.faults, self.full_disk,
                     self.clock]
            kinds = [k for k in kinds if not ONLY or k.__name__ in ONLY]
            random.shuffle(kinds)
            yield from kinds


def table(oracle, trouble):
    done = {k: v for k, v in oracle.counts.items() if k not in ("broken", "refused", "checks", "megabytes of sessions")}
    rows = [("operations acknowledged", sum(done.values()), ", ".join(f"{v} {k}" for k, v in sorted(done.items()))),
            ("refused, or broken off", oracle.counts["refused"] + oracle.counts["broken"], "not acknowledged"),
            ("output of sessions", f"{oracle.counts['megabytes of sessions']:.0f} MiB", ""),
            ("kills", trouble.counts["kills"], f"and {trouble.counts['stops']} stops"),
            ("faults", trouble.counts["faults"], ", ".join(f"{v} {k[8:-1]}" for k, v in sorted(trouble.counts.items())
                                                           if k.startswith("faults ("))),
            ("full disks", trouble.counts["full disks"], ""),
            ("clock jumps", trouble.counts["clock jumps"], ""),
            ("checks", oracle.counts["checks"], ""),
            ("lost", len(oracle.lost), "")]
    for row in rows:
        print(f"# | {row[0]:24} | {row[1]!s:>10} | {row[2]}", flush=True)


@test
def no_acknowledged_operation_is_lost():
    random.seed(SEED)
    print(f"# backend {BACKEND}, seed {SEED}, {SECONDS} s", flush=True)
    with small_disk("tmpfs", 512 * MIB) as at, FaultyWorld("--log-level", "warning", state=f"{at}/state") as w:
        crowd, oracle, trouble = Crowd(w), Oracle(w), Trouble(w, at)
        threads = [threading.Thread(target=oracle.client, args=(SEED + i,)) for i in range(3)]
        for t in threads:
            t.start()
        end = time.monotonic() + SECONDS
        try:
            for happen in trouble.all():
                if time.monotonic() > end:
                    break
                time.sleep(random.uniform(0.2, 1))
                happen()
        finally:
            w.faults.off()
            free(at)
            oracle.over.set()
            for t in threads:
                t.join(90)
        ok(not any(t.is_alive() for t in threads), "a client hangs")
        until(lambda: w.ask("GET", "/healthz").status == 200, "it is not healthy in the end")
        oracle.check()
        crowd.check(oracle)
        table(oracle, trouble)
        for line in oracle.lost[:20]:
            print(f"# lost: {line}"[:1500].replace("\n", "\n# "), flush=True)
        eq(len(oracle.lost), 0, "what was acknowledged and lost")
        ok(oracle.counts["execs"] > 0 and (ONLY or trouble.counts["kills"] > 0), "too little happened to mean anything")
        w.faults.shift_clock(0)


def with_daemon():
    """Runs this test again with a separate dockerd that has the image."""
    from dockerd import Docker, Skip, host_like, tar  # pylint: disable=import-outside-toplevel
    try:
        daemon = Docker()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0
    with daemon as d:
        d.call("import", "-", IMAGES["docker"], input=tar(host_like()))
        env = {**os.environ, "WARREN_TEST_DOCKER": d.socket}
        status = subprocess.run([sys.executable, __file__], env=env, check=False).returncode
        left = d.call("ps", "-aq").split()
        ok(status != 0 or not left, f"containers are left: {left}")
        for container in left:
            d.call("rm", "-f", container.decode())
    return status


if __name__ == "__main__":
    if not os.path.exists(PRELOAD):
        print("1..0 # SKIP faults.c is not built: with sanitizers, malloc(3) is theirs")
        sys.exit(0)
    if BACKEND == "docker" and "WARREN_TEST_DOCKER" not in os.environ:
        sys.exit(with_daemon())
    sys.exit(run_tests())
