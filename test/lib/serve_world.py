# SPDX-License-Identifier: Apache-2.0
"""serve_world.py - a separate service for a test: started, killed, started again, and checked for leftovers

    with World() as w:                   # warren-serve on private directories
        box = w.create(labels={"a": "b"})
        eq(w.run(box, "echo hello")["stdout"], "hello\\n")
        w.kill("api", "warden")          # kill -9
        w.start()

At the end, all sandboxes are deleted and the service is stopped; then nothing may be left. The test adopts orphans
(it is a subreaper), so all processes below it were started by its own service.
"""
import concurrent.futures
import contextlib
import ctypes
import glob
import http.client
import json
import os
import re
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
import urllib.parse
import weakref

import api_schema
from checks import BUILD, Skip, eq, free_port, ok
from processes import (FIRST_ID, IDS, below, cgroups_of, descriptors, family, is_apart, is_ours,  # noqa: F401 pylint: disable=unused-import
                       rss, running, slurp, slurp_if_there, start_time, stat_of, uid_of)

SERVE = os.path.join(BUILD, "warren-serve")
WAIT = 30  # in seconds; no operation here takes as long
NOBODY = "k3f9x2m7qd1w"  # an id that does not exist
PR_SET_CHILD_SUBREAPER = 36

# Backends on which a whole test can run, by WARREN_TEST_BACKEND: the service's default backend. @DIR@ is the
# directory of the test.
CONFIGS = {
    "native": "",
    # No isolation, but a separate root, so that tests do not write to this machine.
    "chroot": """
backend: chroot
backends:
  chroot:
    kind: command
    create:
      - sh
      - -ec
      - |
        mkdir -p $0 && mount -t tmpfs -o size=24m,mode=755 warren-test $0 && cd $0
        mkdir -m 755 usr etc dev proc var root home && mkdir -m 1777 tmp
        mount --rbind --make-rslave /dev dev && mount --rbind --make-rslave /proc proc
        mount --bind /usr usr && mount -o remount,bind,ro usr
        cp -a /etc/passwd /etc/group /etc/alternatives /etc/ld.so.cache etc
        for i in bin sbin lib lib64; do ln -s usr/$i $i; done
      - '@DIR@/{id}'
    exec: [chroot, --userspec, '{user}', '@DIR@/{id}', '{argv}']
    destroy: [sh, -c, 'if [ -d $0 ]; then umount -R -l $0; rmdir $0; fi', '@DIR@/{id}']
""",
    "gvisor": "backend: gvisor\n",
    # The caller of the test has prepared a daemon and an image (test-docker-serve.py).
    "docker": f"""
backend: docker
backends:
  docker:
    kind: docker
    socket: {os.environ.get("WARREN_TEST_DOCKER", "/var/run/docker.sock")}
""",
}
BACKEND = os.environ.get("WARREN_TEST_BACKEND", "native")
# Features that the backend lacks: fields of a sandbox, and names of other features.
LACKS = {
    # Execs have no accounting, and a sandbox does not survive running out of memory.
    "gvisor": {"accounts", "oom_outlived", "control", "watch", "init", "tty_name"},
    "chroot": {"image", "limits", "network", "mounts", "read_only", "hostname", "accounts", "stats", "oom", "walls",
               "pause", "watch", "control", "init"},
    # docker has its own isolation and images.
    "docker": {"image", "accounts", "disk", "oom", "control", "init"},
}
# Backends whose sandboxes must name an image: the image they use.
IMAGES = {"docker": "host-like:1"}


def has(thing):
    return thing not in LACKS.get(BACKEND, ())


def fitted(spec, image=None):
    """Returns a request for a sandbox, without fields that the backend of the test does not support. @image: an image that it has."""
    spec = {field: value for field, value in spec.items() if has(field)}
    if image:
        return {**spec, "image": image}
    return {**spec, "image": IMAGES[BACKEND]} if BACKEND in IMAGES and "backend" not in spec else spec


def needs(*things):
    """Skips a test of a feature that the backend of the test does not have."""
    for thing in things:
        if not has(thing):
            raise Skip(f"backend {BACKEND} has no {thing}")


def until(condition, what, seconds=WAIT):
    """Waits until it is true; returns its value.

    A slow condition is checked less often, because what it waits for also needs the processors.
    """
    before = time.monotonic()
    end = before + seconds
    while not (said := condition()):
        now = time.monotonic()
        ok(now < end, f"not after {seconds} s: {what() if callable(what) else what}")
        time.sleep(min(max(0.01, 3 * (now - before)), 0.1))
        before = time.monotonic()
    return said


# ------------------------------------------------------ processes of the test


class StartedProcess(subprocess.Popen):
    """A process whose exit status its caller waits for, whatever its user: reap_orphans() leaves it alone."""
    lock, all = threading.Lock(), weakref.WeakSet()

    def __init__(self, *args, **named):
        with self.lock:
            super().__init__(*args, **named)
            self.all.add(self)


subprocess.Popen = StartedProcess  # subprocess.run() uses it too
# A child of fork(2) has one thread: a lock that another thread held would never be released.
os.register_at_fork(after_in_child=lambda: setattr(StartedProcess, "lock", threading.Lock()))


def reap_orphans():
    """Reaps zombies of a dead service; processes that the test forked have the test's user id."""
    with StartedProcess.lock:
        ours = {p.pid for p in StartedProcess.all if p.returncode is None}
        for listing in glob.glob("/proc/self/task/*/children"):
            with contextlib.suppress(OSError):
                for pid in set(map(int, slurp(listing).split())) - ours:
                    with contextlib.suppress(OSError, ChildProcessError, TypeError):
                        status = slurp(f"/proc/{pid}/status")
                        if "\nState:\tZ" in status and int(re.search(r"\nUid:\t(\d+)", status)[1]) != os.geteuid():
                            os.waitpid(pid, os.WNOHANG)


def keep_reaping():
    while True:
        time.sleep(0.02)
        # Usually, no child has ended. WNOWAIT: others may wait for one that has.
        with contextlib.suppress(ChildProcessError):
            if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                reap_orphans()


def together(n, f):
    """Runs f(0) to f(n - 1), each in its own thread; returns their results."""
    results, gate = [None] * n, threading.Barrier(n)

    def one(i):
        gate.wait()
        try:
            results[i] = f(i)
        except Exception as why:  # pylint: disable=broad-except
            results[i] = why
    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


# ------------------------------------------------------------------------ client


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:600]!r}"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("warren", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Client:
    """A persistent connection, over the unix socket, or over TCP with a token."""

    def __init__(self, where, token=None, timeout=WAIT):
        self.token, self.where, self.timeout = token, where, timeout
        self.http = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.http:
            self.http.close()
        self.http = None

    def open(self):
        if not self.http:
            self.http = (UnixConnection(self.where, self.timeout) if isinstance(self.where, str) else
                         http.client.HTTPConnection(*self.where, timeout=self.timeout))
        return self.http

    def send(self, method, path, body=None, headers=None, query=None):
        """Sends a request, and returns the answer with its body unread."""
        headers = dict(headers or {})
        if self.token:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None and not isinstance(body, (bytes, str)) and not hasattr(body, "read") \
                and not hasattr(body, "__next__"):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        if query:
            path += "?" + urllib.parse.urlencode(query, doseq=True)
        c = self.open()
        c.request(method, path, body, headers)
        return c.getresponse()

    def ask(self, method, path, body=None, headers=None, query=None):
        try:
            r = self.send(method, path, body, headers, query)
            reply = Reply(r.status, {k.lower(): v for k, v in r.getheaders()}, r.read())
        except BaseException:
            self.close()
            raise
        if not any(name.lower() == "host" for name in headers or ()):  # otherwise, the request may be forwarded to a sandbox
            api_schema.check(method, path, reply.status, reply.headers, reply.body)
        return reply


def check_error(reply, status, code=None):
    """Checks that the answer is an error; all errors have the same form. Returns the error."""
    eq(reply.status, status, f"status of {reply}")
    e = reply.json()
    eq(sorted(e), ["code", "detail", "message", "request_id"], "fields of an error")
    ok(isinstance(e["message"], str) and e["message"], f"no message: {e}")
    ok(re.fullmatch("[0-9b-df-hj-np-tv-z]{12}", e["request_id"]), f"no request id: {e}")
    eq(reply.headers.get("x-request-id"), e["request_id"], "X-Request-Id")
    again = status in (429, 503)
    ok(re.fullmatch("[1-9][0-9]*" if again else "", reply.headers.get("retry-after", "")), f"Retry-After of {reply.headers}")
    eq("retry_after_ms" in (e["detail"] or {}), again, f"retry_after_ms of {e}")
    if code:
        eq(e["code"], code, f"code of {e}")
    return e


def refused(reply, status, code, *words):
    """Checks that the answer is an error whose message has these words. Returns the error."""
    e = check_error(reply, status, code)
    for word in words:
        ok(word in e["message"], f"'{word}' in {e['message']!r}")
    return e


def shell(text):
    """Returns a main command, or the beginning of an exec."""
    return {"argv": ["/bin/sh", "-c", text]}


# ----------------------------------------------------------------------- service


class World:
    worlds = []  # one test at a time has sandboxes

    def __init__(self, *options, tcp=False, state=None, limits=None, start=True, config=""):
        if os.geteuid() != 0:
            raise Skip("needs root")
        if not os.access(SERVE, os.X_OK):
            raise Skip("warren-serve is not built")
        self.dir = tempfile.mkdtemp(prefix="warren-serve-")
        os.chmod(self.dir, 0o755)  # the directory is no secret, and the api has another user
        self.state, self.run_dir = state or f"{self.dir}/state", f"{self.dir}/run"
        self.socket, self.log_path = f"{self.dir}/w.sock", f"{self.dir}/log"
        self.port = free_port() if tcp else None
        self.options, self.limits, self.program = list(options), limits, SERVE
        self.config = f"{self.dir}/warren.yaml"
        with open(self.config, "w", encoding="utf-8") as f:
            f.write((config or CONFIGS[BACKEND]).replace("@DIR@", self.dir))
        self.seen, self.process, self.log = set(), None, open(self.log_path, "ab", buffering=0)
        self.local = threading.local()
        World.worlds.append(self)
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if not any(t.name == "reaper" for t in threading.enumerate()):
            threading.Thread(target=keep_reaping, name="reaper", daemon=True).start()
        if start:
            try:
                self.start()
            except BaseException:
                self.discard()
                raise

    def command(self):
        listen = ["--listen", f"unix:{self.socket}"]
        if self.port:
            listen += ["--listen", f"tcp:127.0.0.1:{self.port}"]
        return [self.program, "--config", self.config, "--state-dir", self.state, "--run-dir", self.run_dir, *listen,
                "--log-format", "text", *self.options]

    def start(self, wait=True):
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        preexec_fn=self.limits)
        if wait:
            self.ready()
        return self

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the service has ended: {self.said()}")
        try:
            with Client(self.socket, timeout=5) as c:
                return c.ask("GET", "/version").status == 200
        except (OSError, http.client.HTTPException):
            return False

    def ready(self):
        until(self.answers, lambda: f"it does not answer: {self.said()}")

    def said(self, about=()):
        """Returns the end of the log, or the lines about these sandboxes, if there are any."""
        lines = [line for line in slurp(self.log_path).splitlines() if any(box in line for box in about)]
        return "\n".join(lines)[-4000:] or slurp(self.log_path)[-2000:]

    @property
    def warden(self):
        return self.process.pid

    def child(self, name, found, wanted=lambda p: True):
        """The child of the warden with this name; None: it does not run. @found: the result of family()."""
        for p, (parent, state) in found.items():
            with contextlib.suppress(OSError):
                if parent == self.warden and state not in "ZX" and slurp(f"/proc/{p}/comm").startswith(name) and wanted(p):
                    return p
        return None

    def api_among(self, found):
        """The child of the warden that has no separate pid namespace: sandboxes begin with the same name."""
        ours = os.readlink("/proc/self/ns/pid")
        return self.child("warren-serve", found, lambda p: os.readlink(f"/proc/{p}/ns/pid") == ours)

    @property
    def api(self):
        return self.api_among(family())

    @property
    def egress(self):
        """The warren-egress that the warden started."""
        return self.child("warren-egress", family())

    def kill(self, *who):
        """Kills "api", "warden" or both with SIGKILL, one right after the other."""
        pids = [getattr(self, name) for name in who]
        for pid in pids:
            if pid:
                os.kill(pid, signal.SIGKILL)
        if "warden" in who:
            self.process.wait(WAIT)
        self.local = threading.local()
        self.look()

    def stop(self):
        """Stops the service as an administrator would."""
        self.process.terminate()
        try:
            status = self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            self.kill("api", "warden")
            raise AssertionError(f"it does not stop: {self.said()}") from None
        eq(status, 0, "status of a service that was stopped")
        self.local = threading.local()

    def alive(self):
        return self.process is not None and self.process.poll() is None

    # --------------------------------------------------------------- requests

    def client(self, token=None, tcp=False, timeout=WAIT):
        return Client(("127.0.0.1", self.port) if tcp else self.socket, token, timeout)

    def ask(self, method, path, body=None, token=None, tcp=False, status=None, **kw):
        """Uses one connection per thread. @status is checked if it is given."""
        clients = self.local.__dict__.setdefault("clients", {})
        c = clients.setdefault((token, tcp), self.client(token, tcp))
        if c.http and c.http.sock and select.select([c.http.sock], [], [], 0)[0]:
            c.close()  # the connection has ended in the meantime
        r = c.ask(method, path, body, **kw)
        if status is not None:
            eq(r.status, status, f"status of {method} {path}: {r}")
        return r

    def get(self, path, status=200, **kw):
        return self.ask("GET", path, status=status, **kw).json()

    def post(self, path, body=None, status=200, **kw):
        r = self.ask("POST", path, body, status=status, **kw)
        return r.json() if r.body else None

    def create(self, token=None, tcp=False, snapshot=None, **spec):
        """Creates a sandbox, of a snapshot or an image, and waits until it runs; returns its id."""
        s = self.post("/v1/sandboxes", fitted(spec, snapshot), status=201, token=token, tcp=tcp)
        self.seen.add(s["id"])
        eq(s["state"], "running", f"state of {s}")
        return s["id"]

    @contextlib.contextmanager
    def box(self, **spec):
        """Creates a sandbox for the time of the block; yields its id."""
        made = self.create(**spec)
        try:
            yield made
        except BaseException:
            self.ask("DELETE", f"/v1/sandboxes/{made}")
            raise
        r = self.ask("DELETE", f"/v1/sandboxes/{made}")
        ok(r.status in (204, 404), r)

    def delete(self, box, **kw):
        self.ask("DELETE", f"/v1/sandboxes/{box}", status=204, **kw)

    def state_of(self, box):
        r = self.ask("GET", f"/v1/sandboxes/{box}")
        return r.json()["state"] if r.status == 200 else "gone"

    def reaches(self, box, what):
        until(lambda: self.state_of(box) == what, lambda: f"{what}: it is {self.state_of(box)}; {self.said()}")

    def show(self, box, **kw):
        return self.get(f"/v1/sandboxes/{box}", **kw)

    def run(self, box, command, token=None, **spec):
        """Runs a command to its end; returns the exec with its output and result."""
        spec["argv" if isinstance(command, (list, tuple)) else "command"] = command
        return self.post(f"/v1/sandboxes/{box}/run", spec, token=token)

    def exec(self, box, command, token=None, **spec):
        """Starts a command; returns its id."""
        spec["argv" if isinstance(command, (list, tuple)) else "command"] = command
        return self.post(f"/v1/sandboxes/{box}/execs", spec, status=201, token=token)["id"]

    def result(self, box, exec_id, wait_ms=WAIT * 1000):
        e = self.get(f"/v1/sandboxes/{box}/execs/{exec_id}", query={"wait_ms": wait_ms})
        ok(e["state"] == "exited", f"it has not ended: {e}")
        return e["result"]

    def events(self, path, client=None, **query):
        """Yields the objects of a stream as they arrive. The connection ends with the generator."""
        c = client or self.client()
        with c:
            r = c.send("GET", path, query=query)
            if r.status != 200:
                raise AssertionError(f"{path}: {r.status} {r.read()!r}")
            kind = r.headers["Content-Type"]
            for line in r:
                api_schema.check("GET", path, 200, {"content-type": kind}, line)
                yield json.loads(line)

    def output(self, box, exec_id, **query):
        return self.events(f"/v1/sandboxes/{box}/execs/{exec_id}/output", **query)

    def raw(self, box, exec_id, **query):
        """Returns all output of an exec, as bytes."""
        with self.client() as c:
            return c.ask("GET", f"/v1/sandboxes/{box}/execs/{exec_id}/output",
                         query={"format": "raw", **query}).body

    def sandboxes(self, **query):
        """Returns all sandboxes, page by page."""
        found, cursor = [], None
        while True:
            page = self.get("/v1/sandboxes", query={"limit": 1000, **query, **({"cursor": cursor} if cursor else {})})
            found += page["sandboxes"]
            cursor = page["next_cursor"]
            if not cursor:
                return found

    def token(self, *scopes, **spec):
        """Returns the secret of a new token."""
        return self.post("/v1/tokens", {"name": "test", "scopes": list(scopes), **spec}, status=201)["secret"]

    # ---------------------------------------------------------- existing objects

    def database(self):
        db = sqlite3.connect(f"file:{self.state}/serve/warren.db?mode=ro", uri=True, timeout=10)
        return contextlib.closing(db)

    def rows(self, query, *values):
        with self.database() as db:
            return db.execute(query, values).fetchall()

    def integrity(self):
        with self.database() as db:
            eq(db.execute("PRAGMA integrity_check").fetchall(), [("ok",)], "integrity of the database")
            eq(db.execute("PRAGMA foreign_key_check").fetchall(), [], "broken references in the database")

    def slots(self):
        """Returns the owner of each range of ids."""
        found = {}
        for link in glob.glob(f"{self.run_dir}/ids/*"):
            with contextlib.suppress(OSError):
                found[int(os.path.basename(link))] = os.readlink(link).partition("/")[2]
        return found

    def boxes(self):
        return {os.path.basename(p) for p in glob.glob(f"{self.run_dir}/boxes/" + "?" * 12)}

    def parts(self):
        """Returns the prepared parts of the service, which belong to no sandbox."""
        if not self.alive():
            return set()
        ready = self.boxes() | set(self.slots().values())
        ready -= {os.path.basename(p).partition(".")[0] for p in glob.glob(f"{self.run_dir}/boxes/*.state*")}
        with contextlib.suppress(sqlite3.Error):
            ready -= {r[0] for r in self.rows("SELECT id FROM sandboxes")}
        return ready

    def linked(self):
        """Returns the sandboxes that hold a range of ids."""
        return set(self.slots().values()) - self.parts()

    def look(self):
        """Records the existing sandboxes, so that their leftovers can be found."""
        with contextlib.suppress(sqlite3.Error):
            self.seen |= {r[0] for r in self.rows("SELECT id FROM sandboxes")}
        self.seen |= self.linked()
        self.seen |= self.boxes()

    def processes(self):
        """Returns the processes below the test except services: sandboxes, and programs of the test."""
        # The processes come first: a part that is prepared after that is not among them. There may be hundreds of each.
        every = family()
        services = {p for world in World.worlds if world.alive()
                    for p in (world.warden, world.api_among(every), world.child("warren-egress", every))}
        found = {p: uid_of(p) for p in below(os.getpid(), every) if p not in services and (is_apart(p) or is_ours(p))}
        prepared = set()
        for world in World.worlds:
            parts = world.parts()
            prepared |= {slot for slot, box in world.slots().items() if box in parts}
        return [p for p, uid in found.items() if uid < FIRST_ID or (uid - FIRST_ID) // (IDS + 1) not in prepared]

    def objects(self):
        """Returns the number of objects of each kind that sandboxes consist of."""
        self.look()
        inside = self.processes()
        files = glob.glob(f"{self.run_dir}/boxes/*")
        parts = self.parts()
        spaces = set()
        for p in inside:
            for kind in ("pid", "net", "mnt", "user"):
                with contextlib.suppress(OSError):
                    spaces.add(os.readlink(f"/proc/{p}/ns/{kind}"))
        for kind in ("pid", "net", "mnt", "user"):
            spaces.discard(os.readlink(f"/proc/self/ns/{kind}"))
        loops = [p for p in glob.glob("/sys/block/loop*/loop/backing_file") if self.dir in slurp_if_there(p)]
        mounts = [m for m in slurp("/proc/self/mountinfo").splitlines()
                  if self.dir in m and f" {self.state} " not in m]
        return {
            "processes": len(inside),
            "namespaces": len(spaces),
            "cgroups": sum(len(cgroups_of(s)) for s in self.seen - parts),
            "loops": len(loops),
            "mounts": len(mounts),
            "boxes": sum(os.path.basename(p).partition(".")[0] not in parts for p in files),
            "links": len(self.linked()),
            "journals": len(glob.glob(f"{self.state}/serve/journals/*")),
            "sandboxes": self.rows("SELECT count(*) FROM sandboxes")[0][0],
            "execs": self.rows("SELECT count(*) FROM execs")[0][0],
        }

    def settled(self):
        """Returns objects(), after the service has finished preparing parts."""
        found = [None]

        def same():
            time.sleep(0.1)
            found[:] = [found[-1], self.objects()]
            return found[0] == found[1]
        until(same, lambda: f"is never at rest: {found}")
        return found[1]

    def descriptors(self):
        return {"api": descriptors(self.api), "warden": descriptors(self.warden)}

    NOTHING = dict.fromkeys(("processes", "namespaces", "cgroups", "loops", "mounts", "boxes", "links", "journals",
                             "sandboxes", "execs"), 0)

    def check_empty(self, seconds=2 * WAIT):
        """Checks that there is no sandbox, and no leftover of one."""
        until(lambda: self.objects() == self.NOTHING, lambda: f"left: {self.objects()} of {self.boxes() - self.parts()}; "
              + self.said(self.boxes() - self.parts()), seconds)

    def match(self, seconds=WAIT):
        """Checks that the sandboxes in the API, in the database and on the machine are the same."""
        def differences():
            self.look()
            told = {s["id"] for s in self.sandboxes() if s["state"] in ("running", "paused")}
            every = {s["id"] for s in self.sandboxes()}
            rows = {r[0] for r in self.rows("SELECT id FROM sandboxes")}
            parts = self.parts()
            boxes = self.boxes() - parts
            groups = {s for s in self.seen - parts if cgroups_of(s)}
            sets = {"rows": rows ^ every, "boxes": boxes ^ told}
            if BACKEND == "native":
                sets["links"] = self.linked() ^ told
            if (told or groups) and BACKEND == "native":
                sets["cgroups"] = groups ^ told
            return {k: v for k, v in sets.items() if v}
        until(lambda: not differences(), lambda: f"they differ: {differences()}; {self.said()}", seconds)

    def beside(self, box, work):
        """Returns the result of @work(ms), or raises. At the same time, @box runs one command after another, and must
        answer some.

        @ms is how long endless work continues, which is enough time for many commands.
        """
        before, answered = time.monotonic(), 0
        self.run(box, "true")
        ms = min(max(1000, int(20000 * (time.monotonic() - before))), 500 * WAIT)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            ended = pool.submit(work, ms)
            while not ended.done():
                self.run(box, "true")
                answered += 1
            result = ended.result()
        ok(answered >= 3, f"{answered} commands of a neighbour meanwhile")
        return result

    # ------------------------------------------------------- end of the service

    def empty(self):
        """Deletes all sandboxes."""
        for s in self.sandboxes():
            self.seen.add(s["id"])
            r = self.ask("DELETE", f"/v1/sandboxes/{s['id']}")
            ok(r.status in (204, 404), f"delete: {r}")

    def discard(self):
        """Removes everything that is left of it."""
        self.look()
        if self.alive():
            self.kill("api", "warden")
        self.seen |= set(self.slots().values())  # including prepared parts
        for pid in below(os.getpid()):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid"):
                    os.kill(pid, signal.SIGKILL)
        for group in (g for s in self.seen for g in cgroups_of(s)):
            for path, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(path)
        self.log.close()
        World.worlds.remove(self)
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                if not self.alive():
                    self.start()
                self.ready()  # the service may just have been killed
                self.empty()
                self.check_empty()
                self.integrity()
                self.stop()
                # Another service may be creating a part, which has no owner for a moment.
                until(lambda: not self.processes(), lambda: f"processes are left: {self.processes()}")
        finally:
            said = "" if kind is None else self.said()
            try:
                if kind is not None:
                    with contextlib.suppress(Exception):
                        self.ready()
                        self.empty()
            finally:
                self.discard()
            # This comes last, because it may fail: the reader of the output may be gone.
            if kind is not None:
                print("# " + said.replace("\n", "\n# "), flush=True)
