#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-serve-limits.py - limits on the resources of the service and the machine that a sandbox and its tenant can use

Each test uses as much of a resource as it can get, and checks that it is refused in time with a message, and that
others still get enough. Each refusal has a control that is allowed.
"""
import errno
import os
import resource
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, cgroups_of, check_error, descriptors, running, slurp, until  # pylint: disable=wrong-import-position

MIB = 1 << 20


def limited(n):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))


def meminfo(key):
    return int(slurp("/proc/meminfo").partition(f"{key}:")[2].split()[0]) << 10


# -------------------------------------------------------------- descriptors of the api


@test
def idle_execs_of_one_tenant_leave_descriptors_for_others():
    with World("--defaults-nofile", "64", limits=limited(480), tcp=True) as w:
        greedy, other = (w.token("read", "write", "exec", "files", tenant=t) for t in ("greedy", "other"))
        api, boxes, refused = w.api, [], None
        for i in range(480):  # a sandbox has at most 512 execs; each of these needs three descriptors
            if i % 40 == 0:
                r = w.ask("POST", "/v1/sandboxes", {}, token=greedy)
                if r.status != 201:
                    refused = r
                    break
                boxes.append(r.json()["id"])
                w.seen.add(boxes[-1])
            r = w.ask("POST", f"/v1/sandboxes/{boxes[-1]}/execs", {"argv": ["sleep", "600"], "stdin": True}, token=greedy)
            if r.status != 201:
                refused = r
                break
        ok(refused, "480 execs with 480 descriptors")
        e = check_error(refused, 429, "quota_exceeded")
        ok(e["detail"]["quota"] == "open files of the service" and e["detail"]["used"] + 3 > e["detail"]["maximum"] > 50, e)
        ok(descriptors(api) < 480, "descriptors are left")
        # Another tenant creates a sandbox, runs a command and writes a file, before anything is freed.
        b = w.create(token=other)
        eq(w.run(b, "echo fine", token=other)["stdout"], "fine\n", "another tenant's command")
        w.ask("PUT", f"/v1/sandboxes/{b}/files", b"x", token=other, status=201, query={"path": "/tmp/x"})
        eq(w.api, api, "the api is the one it was")
        held = w.get(f"/v1/sandboxes/{boxes[0]}/stats", token=greedy)["descriptors"]
        ok(held >= 3 * 20, f"stats tell of {held} descriptors")
        for x in boxes:
            w.delete(x, token=greedy)
        w.create(token=greedy)


def next_descriptor(pid):
    used = {int(n) for n in os.listdir(f"/proc/{pid}/fd")}
    return next(n for n in range(len(used) + 1) if n not in used)


def limit_descriptors(pid, n):
    """Acts as the user of the process: for other users, this needs a capability that root may lack."""
    ids = [int(x) for key in ("Uid", "Gid") for x in slurp(f"/proc/{pid}/status").partition(f"\n{key}:")[2].split()[:1]]
    said, say = os.pipe()  # the world reaps children of other users
    if os.fork() == 0:
        try:
            os.setresgid(*[ids[1]] * 3)
            os.setresuid(*[ids[0]] * 3)
            hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (n or hard, hard))
            os.write(say, b"done")
        finally:
            os._exit(0)
    os.close(say)
    with open(said, "rb") as f:
        eq(f.read(), b"done", "what prlimit(2) did")


@test
def a_descriptor_that_cannot_be_received_does_no_harm():
    """EMFILE while a message brings a descriptor: that request fails, and the connection continues."""
    with World(tcp=False) as w:
        api, shim = w.api, w.create()
        eq(w.run(shim, "true")["result"]["exit_code"], 0, "positive control")
        # The warden sends the connection of a new sandbox when no descriptor is free.
        answers = []
        for room in (0, 1, 2, 3):
            w.get("/version")  # opens the connection of this thread
            limit_descriptors(api, next_descriptor(api) + room)
            try:
                answers.append(w.ask("POST", "/v1/sandboxes", {}))
                answers.append(w.ask("POST", f"/v1/sandboxes/{shim}/execs", {"argv": ["sleep", "31.4159"], "stdin": True}))
                answers.append(w.ask("GET", f"/v1/sandboxes/{shim}/files", query={"path": "/etc/passwd"}))
            finally:
                limit_descriptors(api, 0)
        ok(any(r.status == 503 for r in answers), f"nothing ran out: {answers}")
        for r in answers:
            if r.status >= 400:
                check_error(r, 503, "overloaded")
        eq(w.api, api, "the api is the one it was")
        for r in answers:
            if r.status == 201 and b'"argv"' in r.body:
                x = r.json()["id"]
                w.ask("POST", f"/v1/sandboxes/{shim}/execs/{x}/signal", {"signal": "KILL"})
        until(lambda: not running("sleep", "31.4159"), "what could not be handed over is ended")
        for x in w.sandboxes():
            w.seen.add(x["id"])
            if x["id"] != shim:
                w.ask("DELETE", f"/v1/sandboxes/{x['id']}", status=204)
                until(lambda x=x: not cgroups_of(x["id"]), "nothing is left of a sandbox that was not taken")
        eq(w.run(shim, "echo fine")["stdout"], "fine\n", "the one that was there before")
        w.delete(w.create())
        w.match()


# ---------------------------------------------------------------------------- output


def journal_bytes(w):
    at = f"{w.state}/serve/journals"
    return sum(os.stat(f"{at}/{n}").st_blocks * 512 for n in os.listdir(at))


@test
def all_output_of_a_sandbox_is_bounded():
    with World("--journal-total", "4m", "--journal-max", "2m", "--journal-default", "1m") as w:
        b = w.create(limits={"disk": "16m", "memory": "64m"})
        base, first = journal_bytes(w), None
        for _ in range(12):
            x = w.run(b, "head -c 3000000 /dev/zero | tr '\\0' x")
            first = first or x["id"]
            ok(journal_bytes(w) - base <= 4 * MIB + 65536, f"{journal_bytes(w)} bytes of output")
        # The oldest exec was deleted, and the newest is present.
        check_error(w.ask("GET", f"/v1/sandboxes/{b}/execs/{first}"), 404)
        ok(len(w.raw(b, x["id"])) > 900000, "the newest output")
        ok(MIB < w.get(f"/v1/sandboxes/{b}/stats")["output"] <= 4 * MIB, "stats tell of it")
        # Running execs keep their reservations: two of 1.5 MiB leave no space for a third.
        runs = [w.exec(b, ["sleep", "600"], output_limit="1536k") for _ in range(2)]
        r = w.ask("POST", f"/v1/sandboxes/{b}/execs", {"argv": ["sleep", "600"], "output_limit": "1536k"})
        e = check_error(r, 429, "quota_exceeded")
        eq((e["detail"]["quota"], e["detail"]["maximum"]), ("bytes of output", 4 * MIB), "what is denied")
        eq(w.get(f"/v1/sandboxes/{b}/execs/{runs[0]}")["state"], "running", "what runs")
        # Another sandbox has its own quota; here, the end of an exec frees space.
        other = w.create()
        eq(w.run(other, "echo fine")["stdout"], "fine\n", "in another sandbox")
        w.ask("POST", f"/v1/sandboxes/{b}/execs/{runs[0]}/signal", {"signal": "KILL"})
        w.result(b, runs[0])
        w.exec(b, ["sleep", "600"], output_limit="1536k")
        # A restarted service counts the same.
        w.kill("api", "warden")
        w.start()
        r = w.ask("POST", f"/v1/sandboxes/{b}/execs", {"argv": ["sleep", "600"], "output_limit": "1536k"})
        check_error(r, 429, "quota_exceeded")


@test
def disk_space_for_output_is_shared_among_tenants():
    with World("--journal-all", "8m", "--journal-total", "64m", "--journal-max", "1m", tcp=True) as w:
        greedy, other = (w.token("read", "write", "exec", "files", tenant=t) for t in ("greedy", "other"))
        b, refused = w.create(token=greedy), None
        for n in range(10):
            refused = w.ask("POST", f"/v1/sandboxes/{b}/execs", {"argv": ["sleep", "600"], "output_limit": "1m"}, token=greedy)
            if refused.status != 201:
                break
        eq(check_error(refused, 429, "quota_exceeded")["detail"]["quota"], "bytes of output", "what is denied")
        ok(2 <= n <= 5, f"{n} MiB of 8 for one tenant")
        x = w.create(token=other)
        eq(w.run(x, "echo fine", token=other, output_limit="1m")["stdout"], "fine\n", "another tenant's")


# ---------------------------------------------------------------------------- memory


@test
def writes_by_the_service_fit_into_the_memory_limit():
    with World("--request-body", "4m") as w:
        # Sizes that do not fit are refused, alone and in total; those that fit are accepted.
        for mounts in ([("/t", "900g")], [("/t", "65m")], [("/t", "40m"), ("/u", "40m")]):
            r = w.ask("POST", "/v1/sandboxes", {"limits": {"memory": "64m", "disk": "8m"},
                                                "mounts": [{"target": t, "size": s} for t, s in mounts]})
            ok(r.status in (400, 422) or r.json().get("state") == "failed", f"{mounts}: {r}")
            if r.status == 201:
                w.seen.add(r.json()["id"])
                ok("memory limit" in r.json()["error"], r)
        b = w.create(limits={"memory": "64m", "disk": "16m"}, mounts=[{"target": "/t", "size": "24m"}, {"target": "/u"}])
        before, chunk = meminfo("Shmem"), os.urandom(4 * MIB)
        written = {}
        for place in ("/", "/dev/shm", "/t", "/u"):
            for i in range(64):
                r = w.ask("PUT", f"/v1/sandboxes/{b}/files", chunk, query={"path": f"{place}/f{i}"})
                if r.status != 201:
                    # The sandbox can use all its memory, minus the kernel's overhead.
                    ok(check_error(r, 507)["code"] in ("disk_full", "out_of_memory"), r)
                    break
                written[place] = written.get(place, 0) + len(chunk)
            else:
                raise AssertionError(f"256 MiB into {place}: {written}")
        ok(written["/"] >= 8 * MIB and written["/t"] >= 20 * MIB, f"the room that was asked for: {written}")
        ok(sum(written.values()) <= 64 * MIB, f"{written} in a sandbox of 64 MiB")
        ok(meminfo("Shmem") - before <= 80 * MIB, "what the machine says of it")
        s = w.get(f"/v1/sandboxes/{b}/stats")
        ok(s["disk"] >= written["/"], f"stats tell of it: {s}")


@test
def empty_files_are_bounded_too():
    with World() as w:
        b = w.create(limits={"memory": "64m", "disk": "32m"}, mounts=[{"target": "/t", "size": "4m"}])
        inside = "df --output=itotal {} | tail -1"
        for place, most in (("/", 64 * 256 + 2048), ("/t", 4 * 256 + 1024), ("/dev/shm", 64 * 256 + 2048)):
            total = int(w.run(b, inside.format(place))["stdout"])
            ok(512 <= total <= most, f"{total} inodes in {place}")
        w.ask("PUT", f"/v1/sandboxes/{b}/files", b"", query={"path": "/one"}, status=201)
        ok(w.get(f"/v1/sandboxes/{b}/stats")["inodes"] > 5, "stats tell of them")


# Fills the buffers of many connections whose other end is not read; prints the number of bytes.
TCP = r"""
import socket, sys
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen(400)
keep, sent = [], 0
for _ in range(200):
    c = socket.create_connection(l.getsockname()); s, _ = l.accept(); c.setblocking(False); keep += [c, s]
    try:
        while True: sent += c.send(b"x" * 65536)
    except BlockingIOError: pass
print(sent, flush=True)
sys.stdin.read()
"""
UDP = r"""
import socket, sys
c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); keep = []
for _ in range(100):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0)); keep.append(s)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
    for _ in range(150): c.sendto(b"x" * 60000, s.getsockname())
sent = 0
for s in keep:
    s.setblocking(False)
    try:
        while True: sent += len(s.recv(65536, socket.MSG_PEEK)); break
    except BlockingIOError: pass
print(sent, flush=True)
sys.stdin.read()
"""


@test
def buffers_of_sockets_are_bounded():
    with World() as w:
        for name, code in (("TCP", TCP), ("UDP", UDP)):
            b = w.create(limits={"memory": "64m"})
            before = sum(int(x) for line in slurp("/proc/net/sockstat").splitlines() if line.startswith(name)
                         for x in line.partition(" mem ")[2].split()[:1])
            x = w.exec(b, ["python3", "-c", code], stdin=True)
            at = f"/v1/sandboxes/{b}/execs/{x}"
            until(lambda x=x, b=b: w.raw(b, x, follow="false") or w.get(at)["state"] != "running", f"{name} is full")
            s = w.get(f"/v1/sandboxes/{b}/stats")
            now = sum(int(x) for line in slurp("/proc/net/sockstat").splitlines() if line.startswith(name)
                      for x in line.partition(" mem ")[2].split()[:1])
            ok((now - before) * 4096 <= 96 * MIB, f"{name}: {(now - before) * 4096} bytes in buffers of a 64 MiB sandbox")
            if w.get(at)["state"] == "running":  # no process was killed
                ok(int(w.raw(b, x, follow="false").split()[0]) > 0, "some was sent")
                ok(s["sockets"] > MIB, f"stats tell of it: {s}")
            w.delete(b)


OPTIONS = '''
import socket, struct
def groups(s):
    for n in range(10000):
        try:
            s.setsockopt(socket.IPPROTO_IPV6, 20, socket.inet_pton(socket.AF_INET6, f"ff05::{n + 1:x}") + struct.pack("I", 1))
        except OSError as e:
            return n, e.errno
print(*groups(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)), open("/proc/sys/net/ipv4/tcp_rto_max_ms").read())
'''


@test
def options_of_sockets_are_bounded():
    outside = subprocess.run(["unshare", "-n", "ls", "/proc/sys/net/core", "/proc/sys/net/ipv4"], capture_output=True, text=True,
                             check=True).stdout.split()
    if "optmem_max" not in outside or "tcp_rto_max_ms" not in outside:
        raise Skip("on this kernel these limits are the machine's, not a network namespace's")
    here = slurp("/proc/sys/net/core/optmem_max")
    with World() as w:
        for network in ("loopback", "none"):
            b = w.create(network=network)
            n, code, rto = (int(x) for x in w.run(b, ["python3", "-c", OPTIONS])["stdout"].split())
            ok(0 < n < 300 and code == errno.ENOMEM or network == "none", f"{n} groups of one socket with {network}, error {code}")
            eq(rto, 10000, "the longest time between two probes")
            eq(w.run(b, ["cat", "/proc/sys/net/core/optmem_max"])["stdout"], "8192\n", f"the limit with {network}")
    eq(slurp("/proc/sys/net/core/optmem_max"), here, "the machine's own")
    ok(int(here) > 8192, "which is larger")


# -------------------------------------------------------------- processes and terminals


@test
def sandboxes_cannot_use_all_process_ids_of_the_machine():
    with World("--max-pids", "4194304") as w:
        pid_max = int(slurp("/proc/sys/kernel/pid_max"))
        r = w.ask("POST", "/v1/sandboxes", {"limits": {"pids": pid_max}})
        ok(r.status in (400, 422) or r.json()["state"] == "failed", r)
        if r.status == 201:
            w.seen.add(r.json()["id"])
            ok("pids" in r.json()["error"], r)
        b = w.create(limits={"pids": 2000})
        r = w.ask("PATCH", f"/v1/sandboxes/{b}", {"limits": {"pids": pid_max}})
        ok(r.status in (400, 422), r)
        w.ask("PATCH", f"/v1/sandboxes/{b}", {"limits": {"pids": 3000}}, status=200)
        all_of_us = [p for p in ("/sys/fs/cgroup/pids/warren/pids.max", "/sys/fs/cgroup/warren/pids.max") if os.path.exists(p)]
        if not all_of_us:
            raise Skip("no pids cgroup")
        ok(int(slurp(all_of_us[0])) <= pid_max * 3 // 4, "sandboxes together have a share of the process ids")


@test
def a_sandbox_cannot_use_all_terminals():
    code = r"""
import os
keep = []
try:
    while len(keep) < 4096: keep.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError as e: print(len(keep), e.errno)
"""
    with World() as w:
        b = w.create()
        n, errno = w.run(b, ["python3", "-c", code])["stdout"].split()
        ok(16 <= int(n) <= 64 and int(errno) == 28, f"{n} terminals, then {errno}")
        eq(w.run(b, "tty", pty=True)["stdout"].strip()[:5], "/dev/", "a terminal when they are free again")


# The maximum number of seccomp filters of maximum size per process.
FILTERS = r"""
import ctypes, os, signal, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
n = 4096
prog = struct.pack("HBBI", 0x20, 0, 0, 0) + b"".join(struct.pack("HBBI", 0x34, 0, 0, 12345 + i) for i in range(n - 2))
prog = ctypes.create_string_buffer(prog + struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000))
class Fprog(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
f = Fprog(n, ctypes.addressof(prog))
r, w = os.pipe()
count, pids = 0, []
for _ in range(int(sys.argv[1])):
    try: pid = os.fork()
    except OSError: break
    if pid == 0:
        libc.prctl(38, 1, 0, 0, 0)
        while libc.prctl(22, 2, ctypes.byref(f), 0, 0) == 0: os.write(w, b"x")
        os.write(w, b".")
        signal.pause()
    pids.append(pid)
    while os.read(r, 1) == b"x": count += 1
    print(count, flush=True)
for pid in pids: os.kill(pid, signal.SIGKILL)
"""


@test
def compiled_filters_are_charged_as_memory():
    with World() as w:
        b = w.create(limits={"memory": "64m", "pids": 1000})
        one = w.run(b, ["python3", "-c", FILTERS, "1"])
        ok(int(one["stdout"].split()[-1]) >= 1, f"a filter of one's own: {one}")
        x = w.run(b, ["python3", "-c", FILTERS, "900"], timeout_ms=60000)
        most = int((x["stdout"].split() or ["0"])[-1])
        # Each filter takes 56 kB of machine code, plus its source, which is counted.
        ok(most * 56 * 1024 <= 128 * MIB, f"{most} filters in 64 MiB")
        eq(w.run(w.create(), "echo fine")["stdout"], "fine\n", "a sandbox and its filter, meanwhile")



if __name__ == "__main__":
    sys.exit(run_tests())
