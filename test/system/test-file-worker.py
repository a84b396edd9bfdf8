#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-file-worker.py - the process that handles files of a sandbox: it stays within the sandbox's memory limit, and
is isolated from code inside

Prints TAP. A child of the sandbox's init carries out file requests. Its writes count as the sandbox's memory. A
request that code inside delays does not delay others. Only root inside can affect the process, by killing it.
"""
import contextlib
import ctypes
import http.client
import io
import json
import os
import sys
import tarfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import BACKEND, World, check_error, family, slurp, until  # pylint: disable=wrong-import-position

MIB = 1 << 20


def put(box, path, data, **query):
    return w.ask("PUT", f"/v1/sandboxes/{box}/files", data, query={"path": path, **query})


def stat(box, path):
    return w.ask("GET", f"/v1/sandboxes/{box}/files/stat", query={"path": path})


def memory(box):
    return w.get(f"/v1/sandboxes/{box}/stats")["memory"]


def state(box):
    return w.get(f"/v1/sandboxes/{box}")["state"]


def workers(box):
    """Returns the pids of a sandbox's file workers on the host, which are in its memory cgroup."""
    found = []
    for pid in family():
        with contextlib.suppress(OSError):
            if slurp(f"/proc/{pid}/comm") == "files\n" and f"/{box}/" in slurp(f"/proc/{pid}/cgroup"):
                found.append(pid)
    return found


# ---------------------------------------------------------------------------- memory


@test
def written_files_are_charged_to_the_sandboxs_memory():
    box = w.create(limits={"memory": "128m", "disk": "48m"}, mounts=[{"target": "/t", "size": "24m"}])
    put(box, "/tmp/small", b"x")
    before = memory(box)
    ok(before < 16 * MIB, f"{before} bytes before")
    sizes = {"/tmp/root": 32 * MIB, "/t/tmpfs": 16 * MIB, "/dev/shm/shm": 4 * MIB}
    for path, size in sizes.items():
        have = memory(box)
        eq(put(box, path, os.urandom(size)).status, 201, path)
        ok(memory(box) - have >= size * 3 // 4, f"{size} bytes to {path}: from {have} to {memory(box)}")
    # The memory of removed files is freed.
    for path in sizes:
        w.ask("DELETE", f"/v1/sandboxes/{box}/files", query={"path": path}, status=204)
    until(lambda: memory(box) < before + 16 * MIB, lambda: f"{memory(box)} bytes are left")
    w.delete(box)


@test
def a_write_that_does_not_fit_fails_and_kills_no_process():
    box = w.create(limits={"memory": "64m", "disk": "48m"})
    e = w.exec(box, ["python3", "-c", "import time; x = bytearray(b'x') * (36 << 20); print('held', flush=True); time.sleep(1000)"])
    path = f"/v1/sandboxes/{box}/execs/{e}"
    until(lambda: b"held" in w.ask("GET", f"{path}/output?follow=false&format=raw").body, "the memory")
    said = check_error(put(box, "/tmp/large", os.urandom(40 * MIB)), 507, "out_of_memory")
    ok("memory" in said["message"], said)
    eq(w.get(path)["state"], "running", "who was there before")
    eq((state(box), stat(box, "/tmp/large").status), ("running", 404), "nothing is left of it")
    # A file that fits is written, by another worker.
    eq(put(box, "/tmp/small", b"x" * MIB).status, 201, "what fits")
    eq(w.run(box, "wc -c < /tmp/small")["stdout"], f"{MIB}\n")
    w.delete(box)


# ---------------------------------------------------------------------------- locks

LOCKERS = """
import os, threading
fd = os.open('/tmp/locked', os.O_RDWR | os.O_CREAT, 0o666)
data = bytes(100 << 20)
threading.stack_size(65536)
def write():
    while True:
        os.pwrite(fd, data, 0)
for _ in range(300):
    threading.Thread(target=write).start()
"""


@test
def a_file_that_is_locked_inside_delays_no_other_call():
    box = w.create(limits={"memory": "512m", "disk": "256m", "pids": 500, "cpu_millis": 1000})
    w.exec(box, ["python3", "-c", LOCKERS])
    until(lambda: stat(box, "/tmp/locked").json().get("size") == 100 * MIB, "the file")
    time.sleep(2)  # until all of them wait
    seen = []

    def held(verb):
        with w.client(timeout=120) as c:
            if verb == "append":
                r = c.ask("POST", f"/v1/sandboxes/{box}/files/append", b"x", query={"path": "/tmp/locked"})
            else:
                r = c.ask("POST", f"/v1/sandboxes/{box}/files/chmod", {"path": "/tmp/locked", "mode": "0600"})
            seen.append((verb, r.status))
    threads = [threading.Thread(target=held, args=(v,)) for v in ("chmod", "append")]
    begun = time.monotonic()
    for t in threads:
        t.start()
    others = 0
    while any(t.is_alive() for t in threads) and time.monotonic() < begun + 25:
        eq(stat(box, "/etc").status, 200, "another file meanwhile")
        eq(put(box, "/tmp/other", b"y").status in (200, 201), True, "another file, written")
        others += 1
    took = time.monotonic() - begun
    eq(w.run(box, "echo fine")["stdout"], "fine\n", "its init is heard of")
    for t in threads:
        t.join()
    ok(took < 1 or others > took, f"{others} other calls in {took:.1f} s")
    # Each request was carried out, or abandoned in time.
    eq(sorted((verb, s in (200, 204, 504)) for verb, s in seen), [("append", True), ("chmod", True)], f"held: {seen}")
    eq(state(box), "running", "the sandbox")
    w.delete(box)


# --------------------------------------------------------------------------- watches


def instances_of(pid):
    """How many more inotify instances the user of process @pid can create."""
    ids = [int(x) for key in ("Uid", "Gid") for x in slurp(f"/proc/{pid}/status").partition(f"\n{key}:")[2].split()[:1]]
    said, say = os.pipe()
    child = os.fork()
    if child == 0:
        n = 0
        try:
            os.setresgid(*[ids[1]] * 3)
            os.setresuid(*[ids[0]] * 3)
            init = ctypes.CDLL(None).inotify_init1
            while init(0) >= 0:
                n += 1
            os.write(say, str(n).encode())
        finally:
            os._exit(0)
    os.close(say)
    with open(said, "rb") as f:
        text = f.read()
    return int(text)


@test
def watches_belong_to_one_sandbox():
    box = w.create()
    w.run(box, "mkdir /w")
    before = instances_of(w.api)
    ok(before > 20, f"{before} instances are free")
    clients = []
    for _ in range(10):
        c = w.client(timeout=60)
        r = c.send("GET", f"/v1/sandboxes/{box}/files/watch", query={"path": "/w"})
        eq((r.status, r.readline()), (200, b'{"type":"ready"}\n'))
        clients.append((c, r))
    eq(instances_of(w.api), before, "what is left for the api's user")
    put(box, "/w/x", b"x")
    for _, r in clients:
        while json.loads(r.readline())["path"] != "/w/x":  # the file had another name before
            pass
    # A client that does not read blocks only its own stream.
    w.run(box, "cd /w; for i in $(seq 3000); do : > f$i; done; rm -f f*")
    eq((stat(box, "/w").status, w.ask("GET", "/healthz").status), (200, 200))
    # Killing the processes that forward the events ends the streams, and has no other effect.
    got = w.run(box, "for p in $(grep -lx watch /proc/[0-9]*/comm | cut -d/ -f3); do kill -9 $p; echo $?; done")
    eq(got["stdout"].split(), ["0"] * 10, "root's kill")
    for c, r in clients:
        with contextlib.suppress(http.client.IncompleteRead, ConnectionError):
            while r.readline():
                pass
        c.close()
    with w.client() as c:
        r = c.send("GET", f"/v1/sandboxes/{box}/files/watch", query={"path": "/w"})
        eq((r.status, r.readline()), (200, b'{"type":"ready"}\n'), "another watch")
    until(lambda: w.run(box, "grep -lx watch /proc/[0-9]*/comm | wc -l")["stdout"] == "0\n", "they end with their streams")
    w.delete(box)


# ------------------------------------------------------- isolation from code inside

REACH = r"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
mine = [int(p) for p in os.listdir("/proc") if p.isdigit() and open(f"/proc/{p}/comm").read() == "files\n"]
print("workers", len(mine))
p = mine[0]
ids = {int(n) for l in open(f"/proc/{p}/status") if l.startswith(("Uid:", "Gid:")) for n in l.split()[1:4]}
print("ids", *sorted(ids))
child = os.fork()
if child == 0:
    import time; time.sleep(1000)
low = (ctypes.c_ulong * 2)(3, 3)
def tries(p):
    got = {}
    got["prlimit"] = libc.prlimit(p, 7, low, None) == 0
    got["setpriority"] = libc.setpriority(0, p, 19) == 0
    got["affinity"] = libc.sched_setaffinity(p, 8, ctypes.byref(ctypes.c_ulong(1))) == 0
    got["ptrace"] = libc.ptrace(0x4206, p, None, None) == 0
    room = ctypes.create_string_buffer(8)
    iov = (ctypes.c_ulong * 2)(ctypes.addressof(room), 8)
    got["process_vm_readv"] = libc.process_vm_readv(p, iov, 1, iov, 1, 0) >= 0
    for name in ("mem", "oom_score_adj", "coredump_filter", "clear_refs"):
        try:
            os.close(os.open(f"/proc/{p}/{name}", os.O_WRONLY)); got[name] = True
        except OSError: got[name] = False
    for name in ("fd", "cwd", "root", "exe", "environ", "maps"):
        try:
            f = f"/proc/{p}/{name}"
            os.listdir(f) if name == "fd" else os.readlink(f) if name in ("cwd", "root", "exe") else open(f).read()
            got[name] = True
        except OSError: got[name] = False
    return got
for sig in (1, 2, 11, 15): os.kill(p, sig)      # all are blocked
print("reached", *[k for k, v in tries(p).items() if v])
print("control", *[k for k, v in tries(child).items() if not v])
os.kill(child, 9)
"""


@test
def processes_inside_cannot_access_a_worker():
    box = w.create()
    eq(stat(box, "/").status, 200)
    eq(put(box, "/tmp/reach.py", REACH).status, 201)
    lines = w.run(box, "python3 /tmp/reach.py")["stdout"].splitlines()
    ok(lines and lines[0] != "workers 0", f"inside: {lines}")
    eq(lines[1:], ["ids 65536", "reached", "control"], "from root inside")
    # An ordinary user inside cannot even signal the worker; root can kill it, and the next request gets another one.
    got = w.run(box, "for p in $(grep -lx files /proc/[0-9]*/comm | cut -d/ -f3); do kill -0 $p; echo $?; done", user="1000")
    ok(set(got["stdout"].split()) == {"1"}, f"a signal of a user's: {got}")
    got = w.run(box, "for p in $(grep -lx files /proc/[0-9]*/comm | cut -d/ -f3); do kill -9 $p; echo $?; done")
    ok(set(got["stdout"].split()) == {"0"}, f"root's: {got}")
    until(lambda: stat(box, "/").status == 200, "a call after that")
    eq((put(box, "/tmp/x", b"x").status, state(box)), (201, "running"))
    # A worker that root has stopped delays only its own request.
    w.run(box, "for p in $(grep -lx files /proc/[0-9]*/comm | cut -d/ -f3); do kill -STOP $p; done")
    done = []

    def held():
        with w.client(timeout=120) as c:
            done.append(c.ask("GET", f"/v1/sandboxes/{box}/files/stat", query={"path": "/"}).status)
    t = threading.Thread(target=held)
    t.start()
    time.sleep(1)  # until the stopped worker has the request
    begun = time.monotonic()
    eq(stat(box, "/tmp").status, 200, "a call beside it")
    ok(time.monotonic() - begun < 15, "in time")
    w.run(box, "for p in $(grep -lx files /proc/[0-9]*/comm | cut -d/ -f3); do kill -CONT $p; done")
    t.join()
    eq(done, [200], "the call that was held up")
    # A request whose worker is killed reports that.
    w.run(box, "for p in $(grep -lx files /proc/[0-9]*/comm | cut -d/ -f3); do kill -STOP $p; done")
    t = threading.Thread(target=held)
    t.start()
    time.sleep(1)
    w.run(box, "for p in $(grep -lx files /proc/[0-9]*/comm | cut -d/ -f3); do kill -9 $p; done")
    t.join()
    eq(done[1:], [502], "the call of one that was killed")
    until(lambda: stat(box, "/tmp").status == 200, "one that follows")
    w.delete(box)


@test
def a_file_cannot_be_given_to_inits_user():
    box, out = w.create(), io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for n in (65535, 65536):
            info = tarfile.TarInfo(f"of{n}")
            info.uid = info.gid = n
            tar.addfile(info)
    w.ask("PUT", f"/v1/sandboxes/{box}/files/tar", out.getvalue(), query={"path": "/tmp", "owners": "true"}, status=200)
    eq([stat(box, f"/tmp/of{n}").json()["uid"] for n in (65535, 65536)], [65535, 0], "owners")


@test
def a_worker_has_no_descriptor_that_leads_out():
    box = w.create()
    eq(stat(box, "/").status, 200)
    e = w.exec(box, ["sleep", "1000"])
    eq(put(box, "/tmp/x", b"x").status, 201)
    found = workers(box)
    ok(found, "there is a worker")
    for pid in found:
        links = sorted(os.readlink(f"/proc/{pid}/fd/{n}").partition(":")[0] for n in os.listdir(f"/proc/{pid}/fd"))
        eq(links, ["/dev/null", "/dev/null", "/dev/null", "socket"], "what is open")
        eq(os.readlink(f"/proc/{pid}/root"), "/", "its root")
        ok("/files" in next(line for line in slurp(f"/proc/{pid}/cgroup").splitlines() if "memory" in line or line.startswith("0::")),
           slurp(f"/proc/{pid}/cgroup"))
        eq(slurp(f"/proc/{pid}/oom_score_adj").strip(), "1000", "who is killed first")
    w.get(f"/v1/sandboxes/{box}/execs/{e}")
    w.delete(box)
    until(lambda: not set(found) & set(workers(box)), "they end with the sandbox")


if __name__ == "__main__":
    if BACKEND != "native":
        sys.exit(print("1..0 # SKIP native sandboxes have them") or 0)
    with World() as w:
        sys.exit(run_tests())
