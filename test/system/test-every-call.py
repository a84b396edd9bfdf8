#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-every-call.py - each system call of api and warden fails, one after the other, with each of its errors

Prints TAP. callfaults.c makes the calls fail and has their table. Calls that are not tested are listed below, with
the reason; a call that is in neither list is a failure. While a call fails, a client creates a sandbox, runs a
command, a session and a file operation, creates a token, pauses and deletes. Afterwards, acknowledged changes must be
present, the warden must be the same process, and the service must work. With WARREN_SOAK, each error of each call is
tested, otherwise one error of each call. $WARREN_CALLS names the calls to test (default: all).
"""
import collections
import contextlib
import errno
import http.client
import os
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from call_world import PRELOAD, CallWorld, table  # pylint: disable=wrong-import-position
from checks import Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import BACKEND, SERVE, Client, fitted, has, until  # pylint: disable=wrong-import-position

SEED = int(os.environ.get("WARREN_SEED", time.time_ns() % (1 << 48)))
ONLY = os.environ.get("WARREN_CALLS", "").split()
LONG = bool(os.environ.get("WARREN_SOAK"))
BROKEN = (OSError, http.client.HTTPException)

# Calls that cannot fail like those of the table, or that a running service does not make.
LEFT_OUT = {
    "asks the kernel for what it always has": "clock_gettime getegid geteuid getpid getrandom getrlimit64 isatty sysconf sysinfo time uname",
    "changes only its own process, and cannot fail": "_exit abort exit raise sched_yield signal sigaction sigprocmask pthread_sigmask "
                                                     "umask sigtimedwait setfsgid setfsuid getcwd personality",
    "undoes something, and has nobody to tell": "closedir close_range epoll_create fclose inotify_rm_watch munmap shutdown",
    "once, before the service is ready, which says why it does not start": "getpwnam prctl setgroups setresgid setresuid setrlimit64 signalfd "
                                                                           "landlock seccomp",
    "in a child, which tells of its errors (test-crash.c and test-prepared.c fail every step)": "dup3 execve execvp sethostname setsid",
    "of a terminal, in the command line's code": "tcgetattr tcsetattr",
    "reads what another call has opened": "readdir64 eventfd_read eventfd_write fgets __getdelim",
    "waits, and is only late": "usleep sleep",
}
LIBRARIES = ("libuv.so.1", "libsqlite3.so.0")
# All functions of the C library that are thin wrappers of system calls; the service uses some of them.
SYSTEM = """_Fork __open64_2 accept4 access bind chdir chmod chown clock_gettime clone close close_range connect copy_file_range dup2 dup3
epoll_create1 epoll_ctl epoll_pwait epoll_wait eventfd execve execvp faccessat fallocate64 fchdir fchmod fchmodat fchown fchownat fcntl64
fdatasync fdopen fdopendir flock fopen64 fork fsconfig fsetxattr fsmount fsopen fspick fstat64 fstatat64 fstatfs64 fstatvfs64 fsync
ftruncate64 getpeername getrandom getsockname getsockopt inotify_add_watch inotify_init1 inotify_rm_watch ioctl kill linkat listen lseek64
lstat64 madvise memfd_create mkdir mkdirat mknod mknodat mlock mmap64 mount mount_setattr move_mount mremap msync munmap nanosleep open64
name_to_handle_at open_by_handle_at open_tree openat64 opendir pidfd_getfd pidfd_open pidfd_send_signal pipe2 poll posix_spawn posix_spawnp ppoll prctl pread64
preadv preadv2 process_vm_readv pthread_create pwrite64 pwritev pwritev2 read readlink readlinkat readv realpath recv recvfrom recvmmsg recvmsg
rename renameat renameat2 rmdir send sendfile64 sendmmsg sendmsg sendto setgroups sethostname setns setresgid setresuid setrlimit64 setsid
setsockopt shutdown signalfd socket socketpair splice stat64 statfs64 statvfs64 symlinkat sync_file_range syncfs syscall tee timerfd_create
timerfd_settime umount2 uname unlink unlinkat unshare utimensat vmsplice wait4 waitid waitpid write writev""".split()


class Acknowledged:
    """The changes that were acknowledged while calls failed, to be compared with the state of the service."""

    def __init__(self, w):
        self.w, self.done, self.not_done = w, 0, 0
        self.boxes, self.gone, self.execs, self.files, self.tokens, self.variables = [], [], [], [], [], []

    def ask(self, method, at, body=None, **query):
        try:
            with Client(self.w.socket, timeout=30) as c:
                r = c.ask(method, at, body, query=query)
        except BROKEN as e:
            ok(not isinstance(e, TimeoutError), f"{method} {at}: no answer in 30 s")
            self.not_done += 1
            return None
        self.done += r.status < 400
        self.not_done += r.status >= 400
        return r.json() if r.status < 400 and r.body and r.headers.get("content-type", "").startswith("application/json") else \
            r.status < 400

    def everything(self, n):
        r = self.ask("POST", "/v1/tokens", {"name": "calls", "scopes": ["read"]})
        if r:
            self.tokens.append(r["id"])
        r = self.ask("POST", "/v1/sandboxes", fitted({"labels": {"n": str(n)}}))
        if not r:
            return
        box = r["id"]
        self.w.seen.add(box)
        self.boxes.append(box)
        at = f"/v1/sandboxes/{box}"
        r = self.ask("POST", f"{at}/execs", {"command": f"echo {n}; exit {n % 100}", "output_limit": 65536})
        if r:
            self.execs.append((box, r["id"], n))
        if self.ask("PUT", f"{at}/files", f"file {n}".encode(), path="/tmp/f"):
            self.files.append((box, f"file {n}".encode()))
        self.ask("GET", f"{at}/files", path="/tmp/f")
        r = self.ask("POST", f"{at}/sessions", {"output_limit": 65536})
        if r and self.ask("POST", f"{at}/sessions/{r['id']}/run", {"command": f"V={n}"}):
            self.variables.append((f"{at}/sessions/{r['id']}", n))
        if has("pause") and self.ask("POST", f"{at}/pause"):
            self.ask("POST", f"{at}/resume")
        if has("stats"):
            self.ask("GET", f"{at}/stats")
        if n % 2:
            self.boxes.remove(box)
            if self.ask("DELETE", at):
                self.gone.append(box)

    def check(self):
        w = self.w
        there = {s["id"]: s["state"] for s in w.sandboxes()}
        for box in self.boxes:
            ok(there.get(box) in ("running", "paused", "deleting"), f"{box} was made, and is {there.get(box)}: {w.said([box])}")
            if there[box] == "paused":  # the client got no answer to its resume request
                w.post(f"/v1/sandboxes/{box}/resume")
        ok(not set(self.gone) & set(there), f"deleted, and there: {set(self.gone) & set(there)}")
        alive = {b for b in self.boxes if there[b] != "deleting"}
        for box, e, n in self.execs:
            if box in alive:
                eq((w.result(box, e)["exit_code"], w.raw(box, e)), (n % 100, f"{n}\n".encode()), "an exec")
        for box, data in self.files:
            if box in alive:
                eq(w.ask("GET", f"/v1/sandboxes/{box}/files", query={"path": "/tmp/f"}).body, data, "a file")
        for at, n in self.variables:
            if at.split("/")[3] in alive:
                eq(w.post(f"{at}/run", {"command": "echo $V"})["stdout"], f"{n}\n", "a session")
        tokens = {t["id"] for t in w.get("/v1/tokens", query={"limit": 1000})["tokens"]}
        ok(set(self.tokens) <= tokens, f"tokens are gone: {set(self.tokens) - tokens}")

    def remove(self):
        for t in self.tokens:
            self.w.ask("DELETE", f"/v1/tokens/{t}", status=204)
        self.w.empty()


def healthy(w):
    with contextlib.suppress(*BROKEN), Client(w.socket, timeout=10) as c:
        return c.ask("GET", "/healthz").status == 200
    return False


def try_one(w, place, code, one_in, seed):
    """Makes one call fail in one way. Returns how often it failed, and what was acknowledged."""
    before, api = w.page.counts()[1][place], w.api
    a = Acknowledged(w)
    w.page.set(place, code, one_in, seed)
    try:
        for n in range(4 if LONG else 2):
            a.everything(n)
    finally:
        w.page.off()
    ok(w.alive(), f"the warden has ended: {w.said()}")
    until(lambda: healthy(w), lambda: f"it is not healthy after: {w.said()}", 60)
    a.check()
    a.remove()
    return w.page.counts()[1][place] - before, a.done, w.api != api


@test
def every_call_of_the_service_is_in_the_table():
    if BACKEND != "native":
        raise Skip("it is the same program")
    names = {name for name, _, _ in table()}
    left_out = {name for words in LEFT_OUT.values() for name in words.split()}
    eq(sorted(names & left_out), [], "both tried and left out")
    used = subprocess.run(["nm", "-D", "--undefined-only", SERVE], capture_output=True, text=True, check=True).stdout
    used = {line.split()[1].partition("@")[0] for line in used.splitlines()}
    ok(len(used & set(SYSTEM)) > 80, "the list of what it calls is too short to mean anything")
    eq(sorted((used & set(SYSTEM)) - names - left_out), [], "calls of the service that no test fails")


@test
def a_failure_of_any_system_call_does_no_harm():
    # The soak tries all errors; otherwise each call has one error, another one for each seed.
    ways = [(place, name, code, one_in) for place, (name, codes, one_in) in enumerate(table())
            for code in (codes if LONG or ONLY else [codes[(SEED + place) % len(codes)]]) if not ONLY or name in ONLY]
    failures, counts, struck = [], collections.Counter(), {}
    print(f"# backend {BACKEND}, seed {SEED}, {len(ways)} ways to fail", flush=True)
    with CallWorld("--log-level", "warning") as w:
        bystander = w.create()
        session = w.post(f"/v1/sandboxes/{bystander}/sessions", {}, 201)["id"]
        w.post(f"/v1/sandboxes/{bystander}/sessions/{session}/run", {"command": "X=untouched"})
        waiting = w.exec(bystander, "read x; echo $x; exit 9", stdin=True)
        empty, w.empty = w.empty, lambda: [w.ask("DELETE", f"/v1/sandboxes/{s['id']}") for s in w.sandboxes()
                                           if s["id"] != bystander]
        for place, name, code, one_in in ways:
            try:
                n, done, restarted = try_one(w, place, code, one_in, SEED + place)
                counts.update(faults=n, operations=done, restarts=restarted, ways=n > 0)
                struck[name] = struck.get(name, 0) + n
                if restarted:
                    print(f"# another api after {name} {errno.errorcode[code]}", flush=True)
                eq(w.post(f"/v1/sandboxes/{bystander}/sessions/{session}/run", {"command": "echo $X"})["stdout"], "untouched\n",
                   "the session of a bystander")
                eq(w.get(f"/v1/sandboxes/{bystander}/execs/{waiting}")["state"], "running", "the exec of a bystander")
            except (AssertionError, *BROKEN) as why:
                at = " ".join(str(f.lineno) for f in traceback.extract_tb(why.__traceback__) if f.filename == __file__)
                failures.append(f"{name} {errno.errorcode[code]} (line {at}): {why!r}"[:900])
                print(f"# {failures[-1]}".replace("\n", "\n# "), flush=True)
                if not w.alive():
                    w.start()
                until(lambda: healthy(w), "it never is healthy again", 60)
        w.ask("POST", f"/v1/sandboxes/{bystander}/execs/{waiting}/stdin", b"on\n", status=200)
        eq((w.result(bystander, waiting)["exit_code"], w.raw(bystander, waiting)), (9, b"on\n"), "the exec of a bystander")
        called = w.page.counts()[0]
        never = [name for place, (name, _, _) in enumerate(table()) if called[place] == 0 and (not ONLY or name in ONLY)]
        print(f"# {dict(counts)}; never called: {' '.join(never)}", flush=True)
        print(f"# called, and never failed: {' '.join(n for n, k in struck.items() if k == 0 and n not in never)}", flush=True)
        w.empty = empty
    eq(failures, [], "ways to fail that the service does not get over")
    ok(ONLY or (counts["faults"] > 100 and counts["ways"] > 25), f"too few faults to mean anything: {counts}")


if __name__ == "__main__":
    if not os.path.exists(PRELOAD):
        print("1..0 # SKIP callfaults.c is not built: with sanitizers, the calls are theirs")
        sys.exit(0)
    sys.exit(run_tests())
