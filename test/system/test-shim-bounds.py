#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-shim-bounds.py - limits on the resources that a sandbox can make its shim use

A shim runs tools of the image to inspect the sandbox, and root inside can replace those tools. The test uses the
cheapest backend with a separate root (a chroot); gVisor and docker use the same shim. Prints TAP.
"""
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import MIB, eq, needs_root, ok, run_tests, scratch, test  # pylint: disable=wrong-import-position
from serve_world import CONFIGS, World, below, check_error, rss, slurp, stat_of, until  # pylint: disable=wrong-import-position

PATIENCE = 5  # time limit of a step of the platform, in seconds
CONFIG = CONFIGS["chroot"].replace("    kind: command\n", f"    kind: command\n    timeout: {PATIENCE}\n")
FIRST = 5_000_000  # no process of this machine has such a pid, so a signal to it does no harm

DISK = 512  # size of the separate disk of a service, in MiB
TERMINALS = 64  # maximum number of terminals of a sandbox

world = None


def hands():
    """Returns the worker processes of shims, which do work that may block."""
    found = []
    for pid in below(os.getpid()):
        try:
            if slurp(f"/proc/{pid}/comm").strip() == "warren-worker":
                found.append(pid)
        except OSError:
            pass
    return found


def busy():
    """Returns the processor time of all of them, in seconds."""
    total = 0
    for pid in hands():
        try:
            stat = stat_of(pid)
            total += (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            pass
    return total


def put(w, box, path, text):
    w.ask("PUT", f"/v1/sandboxes/{box}/files", text.encode(), query={"path": path, "mode": "0755"})


def replace_tools(box, w=None, **tools):
    """Replaces the sandbox's /bin/sh by one that finds these tools (in python) before those of the image."""
    w = w or world
    eq(w.run(box, "mkdir /evil && rm /bin && mkdir /bin && cp /usr/bin/dash /bin/sh")["result"]["exit_code"], 0, "setup")
    for name, text in tools.items():
        put(w, box, f"/evil/{name}", f"#!/usr/bin/python3\nimport os, sys\n{text}")
    put(w, box, "/evil/sh", '#!/usr/bin/dash\nPATH=/evil:$PATH\nexport PATH\nexec /usr/bin/dash "$@"\n')
    eq(w.run(box, ["/usr/bin/mv", "/evil/sh", "/bin/sh"])["result"]["exit_code"], 0, "the shell is another")
    for pid in hands():  # they already have a shell; the next request starts a new one
        os.kill(pid, signal.SIGKILL)


def chain(n):
    """Tools that report @n processes, each the child of the next; the last one belongs to the exec."""
    return {"cat": f"""
if not any(a.startswith("/proc/") for a in sys.argv): os.execv("/usr/bin/cat", sys.argv)
sys.stdout.write("".join(f"{{i}} (a) S {{i + 1}}" + " 0" * 17 + " 5 0 0\\n" for i in range({FIRST}, {FIRST + n})))
""", "grep": f"""
if not any(a.startswith("/proc/") for a in sys.argv): os.execv("/usr/bin/grep", sys.argv)
print("/proc/{FIRST + n - 1}/environ")
"""}


def send_term(box, exec_id):
    return world.ask("POST", f"/v1/sandboxes/{box}/execs/{exec_id}/signal", {"signal": "TERM"})


@test
@needs_root
def forged_process_lists_use_little_processor_time():
    box = world.create()
    r = world.run(box, "sleep 5041.5 & sleep 5041.5", timeout_ms=1000)["result"]
    ok(r["timed_out"], f"control: the time of an exec is up: {r}")
    replace_tools(box, **chain(60_000))
    r = world.run(box, ["/usr/bin/sleep", "5042.5"], timeout_ms=1000)["result"]
    ok(r["timed_out"], f"its time is up, whatever the sandbox lists: {r}")
    time.sleep(2)
    before = busy()
    time.sleep(3)
    took = busy() - before
    ok(took < 0.5, f"nobody is at work any more: {took} s of processor time in 3 s")
    x = world.exec(box, ["/usr/bin/sleep", "5043.5"])
    r = send_term(box, x)
    ok(r.status != 504, f"the next signal is answered: {r}")
    world.delete(box)


@test
@needs_root
def an_impossible_number_of_processes_is_refused():
    box = world.create()
    replace_tools(box, **chain(80_000))
    x = world.exec(box, ["/usr/bin/sleep", "5044.5"])
    check_error(send_term(box, x), 502, "sandbox_failed")
    world.delete(box)


@test
@needs_root
def a_worker_that_is_stuck_is_replaced():
    box = world.create()
    x = world.exec(box, "trap '' TERM; while :; do sleep 5045.5; done")
    eq(send_term(box, x).status, 204, "control: a signal")
    stuck = hands()
    for pid in stuck:
        os.kill(pid, signal.SIGSTOP)
    ok(stuck, "control: there are workers")
    ok(send_term(box, x).status >= 500, "nobody answers")
    until(lambda: any(pid not in hands() for pid in stuck), "the worker that is stuck is ended", 60)
    until(lambda: send_term(box, x).status == 204, "another delivers signals")
    for pid in set(stuck) & set(hands()):
        os.kill(pid, signal.SIGCONT)
    world.delete(box)


@contextlib.contextmanager
def own_disk():
    """A service whose state is on a small separate disk; yields it and a function that returns the free MiB."""
    with scratch() as state:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}m", "warren-test", state], check=True)
        try:
            with World(config=CONFIG, state=state) as w:
                yield w, lambda: os.statvfs(state).f_bavail * os.statvfs(state).f_frsize // MIB
        finally:
            subprocess.run(["umount", "-l", state], check=True)


@contextlib.contextmanager
def lowest(measure):
    """Yields a list with the lowest value of measure() during the block."""
    low, over = [measure()], threading.Event()

    def watch():
        while not over.wait(0.01):
            low[0] = min(low[0], measure())

    t = threading.Thread(target=watch)
    t.start()
    try:
        yield low
    finally:
        over.set()
        t.join()


@test
@needs_root
def a_sparse_file_uses_no_disk_space_of_the_service():
    with own_disk() as (w, free):
        box = w.create()
        files = f"/v1/sandboxes/{box}/files"
        w.run(box, "truncate -s 3G /root/huge; truncate -s 8M /root/some")
        eq(len(w.ask("GET", files, query={"path": "/root/some"}).body), 8 * MIB, "control: a file that fits")
        before = free()
        with lowest(free) as low:
            e = check_error(w.ask("GET", files, query={"path": "/root/huge"}), 507, "disk_full")
        ok(before - low[0] < 64, f"{before - low[0]} MiB of the disk were taken: {e}")
        ok("may have" in e["message"], e)


@test
@needs_root
def concurrent_copies_leave_space_on_the_disk():
    with own_disk() as (w, free):
        one, other = w.create(), w.create()
        for box in one, other:
            w.run(box, "truncate -s 220M /root/big")
        with w.client(timeout=60) as slow:
            r = slow.send("GET", f"/v1/sandboxes/{one}/files", query={"path": "/root/big"})
            eq(r.status, 200, "control: the first")
            with lowest(free) as low:
                e = check_error(w.ask("GET", f"/v1/sandboxes/{other}/files", query={"path": "/root/big"}), 507)
            ok("no space for a copy" in e["message"], e)
            ok(low[0] > DISK // 4, f"{low[0]} MiB were left")
        until(lambda: free() > DISK * 3 // 4, "the first copy is gone")
        with w.client(timeout=60) as c:
            eq(c.send("GET", f"/v1/sandboxes/{other}/files", query={"path": "/root/big"}).status, 200, "now there is room")


@test
@needs_root
def a_large_copy_leaves_space_for_small_ones():
    """Bytes that are already written are not free, but do not count twice. No sandbox can reserve all of the space."""
    with own_disk() as (w, _):
        one, other = w.create(), w.create()
        w.run(one, f"truncate -s {DISK * 45 // 100}M /root/big")
        w.run(other, "head -c 1000000 /dev/zero >/root/small")
        with w.client(timeout=60) as slow:
            r = slow.send("GET", f"/v1/sandboxes/{one}/files", query={"path": "/root/big"})
            eq(r.status, 200, "the large one")
            r = w.ask("GET", f"/v1/sandboxes/{other}/files", query={"path": "/root/small"})
            eq((r.status, len(r.body)), (200, 1000000), "a small one of another sandbox")
            r = w.ask("PUT", f"/v1/sandboxes/{other}/files", bytes(1000000), query={"path": "/root/up"},
                      headers={"Content-Type": "application/octet-stream"})
            ok(r.status < 300, f"a small upload: {r}")
            check_error(w.ask("GET", f"/v1/sandboxes/{one}/files", query={"path": "/root/big"}), 507)


@test
@needs_root
def a_small_copy_works_during_a_large_one():
    """The shim that writes is stopped, so it does not report its progress."""
    with own_disk() as (w, free):
        one, other = w.create(), w.create()
        size = DISK * 45 // 100
        w.run(one, f"truncate -s {size}M /root/big")
        w.run(other, "head -c 1000000 /dev/zero >/root/small")
        replace_tools(one, w, cat="""
import time
while not os.path.exists("/root/begin"): time.sleep(0.01)
while (data := os.read(0, 1 << 20)): os.write(1, data)
while not os.path.exists("/root/end"): time.sleep(0.01)
""")
        until(lambda: w.ask("GET", f"/v1/sandboxes/{one}/files/list", query={"path": "/root"}).status == 200, "its worker is back")
        large = []
        t = threading.Thread(target=lambda: large.append(w.client(timeout=60).ask("GET", f"/v1/sandboxes/{one}/files",
                                                                                  query={"path": "/root/big"}).status))
        t.start()
        def writers():
            return [p for p in hands() if any("/evil/cat" in slurp(f"/proc/{q}/cmdline") for q in below(p))]

        def let(what):
            w.run(one, ["/usr/bin/touch", f"/root/{what}"])
        stopped = until(writers, "it is being read")
        for p in stopped:
            os.kill(p, signal.SIGSTOP)
        try:
            let("begin")
            until(lambda: free() < DISK - size, "it is on the disk")
            r = w.ask("GET", f"/v1/sandboxes/{other}/files", query={"path": "/root/small"})
            eq((r.status, len(r.body)), (200, 1000000), "a small one of another sandbox")
        finally:
            let("end")
            for p in stopped:
                os.kill(p, signal.SIGCONT)
            t.join()
        eq(large, [200], "the large one")


@test
@needs_root
def an_endless_upload_is_stopped():
    with own_disk() as (w, free):
        box = w.create()
        files = f"/v1/sandboxes/{box}/files"
        w.ask("PUT", files, bytes(8 * MIB), query={"path": "/root/some"}, status=201)
        sent = DISK - 24  # fits exactly, unless reservations are counted
        with lowest(free) as low, w.client(timeout=60) as c:
            with contextlib.suppress(OSError):
                r = c.send("PUT", files, (bytes(MIB) for _ in range(sent)),
                           headers={"Content-Length": str(sent * MIB)}, query={"path": "/root/huge"})
                eq(r.status, 507, "the upload")
        ok(low[0] > 48, f"{low[0]} MiB were left")
        until(lambda: free() > DISK * 3 // 4, "nothing of it is left")
        eq(len(w.ask("GET", files, query={"path": "/root/some"}).body), 8 * MIB, "what was there")


@test
@needs_root
def an_endless_listing_uses_little_memory():
    box = world.create()
    at = f"/v1/sandboxes/{box}/files/list"
    eq(world.ask("GET", at, query={"path": "/"}).status, 200, "control: a listing")
    replace_tools(box, find="""
a = sys.argv
if "-mindepth" not in a: os.execv("/usr/bin/find", a)
m = a[a.index("-printf") + 1].split()[0]
chunk = "".join(f"{m} l {i}\\n{m} t x\\n{m} i lrwxrwxrwx 1 1 1 1 1 {i}\\n" for i in range(20000))
for i in range((250 << 20) // len(chunk)): sys.stdout.write(chunk)
""")

    def spare():
        most = 0
        for pid in hands():
            with contextlib.suppress(OSError, ValueError, IndexError):
                most = max(most, rss(pid))
        return -most

    with lowest(spare) as low:
        e = check_error(world.ask("GET", at, query={"path": "/"}), 507)
    ok("too many entries" in e["message"], e)
    ok(-low[0] < 96 * MIB, f"{-low[0] // MIB} MiB resident")
    world.delete(box)


@test
@needs_root
def a_sandbox_has_a_maximum_of_terminals():
    box = world.create()

    def begin():
        return world.ask("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["sleep", "5046.5"], "pty": True})

    first = begin()
    for i in range(1, TERMINALS):
        eq(begin().status, 201, f"terminal {i}")
    ok(begin().status in (429, 507), "one more")
    eq(world.run(box, "echo alive")["stdout"], "alive\n", "control: a command without one")
    world.ask("POST", f"/v1/sandboxes/{box}/execs/{first.json()['id']}/signal", {"signal": "KILL"})
    until(lambda: begin().status == 201, "one that has ended makes room")
    world.delete(box)


if __name__ == "__main__":
    with World(config=CONFIG) as world:
        failed = run_tests()
    sys.exit(failed)
