#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-escape.py - no path from a client or an image leads outside through a descriptor

A path such as /proc/self/fd/8 names a descriptor of the process that resolves it. If it is one of Warren's own
processes, and the descriptor is a directory of the host, code can escape from its root (CVE-2024-21626). So each path
of a request is tried with every descriptor number, and every name that leads to descriptors, on the backend in
WARREN_TEST_BACKEND. A process that starts nevertheless must be inside: its root is above its working directory, and
the kernel reports a path that begins with a slash.

A backend with slow execs uses every number only for the directory of an exec, with one name for each, and the first
64 elsewhere; `make soak` tries all.
"""
import contextlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from serve_socket import Refused, Socket  # pylint: disable=wrong-import-position
from serve_world import BACKEND, World, below, fitted, has, needs, slurp, until  # pylint: disable=wrong-import-position

NUMBERS = range(256)
PREFIXES = ["/proc/self/fd", "/proc/thread-self/fd", "/dev/fd", "/proc/1/fd"]
if BACKEND == "chroot":
    PREFIXES = PREFIXES[:3]  # it has the machine's /proc, in which process 1 is not Warren's
FAST, SOAK = BACKEND == "native", bool(os.environ.get("WARREN_SOAK"))
UP = "../" * 12
# Whether the root is above the working directory, and the kernel's path for that directory. It uses only the shell:
# external tools may need system calls that another kernel does not have.
LOOK = f'[ / -ef {UP}. ] && echo "same $(pwd -P)" || echo "other $(pwd -P)"'

world = box = None


def paths(tail="", every=False):
    """Every number with every name, or fewer numbers with one name each, in turn."""
    whole = FAST or SOAK
    for n in NUMBERS if whole or every else NUMBERS[:64]:
        for prefix in PREFIXES if whole else [PREFIXES[n % len(PREFIXES)]]:
            yield f"{prefix}/{n}{tail}"


def check_inside(said, what):
    ok(said.replace("\r", "").startswith("same /"), f"{what}: outside: {said!r}")


def judge(reply, what):
    """Checks that nothing was started, or that it is inside; returns whether the request was refused."""
    if reply.status >= 400:
        ok(reply.status < 500 or reply.status == 511, f"{what}: {reply}")
        return True
    body = reply.json()
    code = body.get("exit_code", body.get("result", {}).get("exit_code"))
    if code in (126, 127):
        return True
    eq(code, 0, f"{what}: status of {body}")
    check_inside(body["stdout"], what)
    return False


def ask_run(sandbox=None, **spec):
    return world.ask("POST", f"/v1/sandboxes/{sandbox or box}/run", spec)


def run_at(cwd, sandbox=None, **spec):
    return judge(ask_run(sandbox, argv=["sh", "-c", LOOK], cwd=cwd, **spec), f"cwd {cwd}")


def program_refused(what, name, **spec):
    """Runs the shell by another name."""
    return judge(ask_run(argv=[name, "-c", LOOK], **spec), what)


def all_refused(refused):
    """The native backend must refuse every name that leads through a descriptor. On other backends, a process that
    starts must be inside."""
    seen = list(refused)
    ok(len(seen) >= 64, f"only {len(seen)} were tried")
    if BACKEND == "native":
        eq(seen.count(False), 0, "how many were not refused")


@test
def the_check_detects_an_escape():
    """A positive control: a process whose working directory is not below its root."""
    with scratch() as d:
        for name in ("bin", "proc"):
            os.mkdir(f"{d}/{name}")
        with open(f"{d}/bin/busybox", "wb") as f, open("/bin/busybox", "rb") as b:
            f.write(b.read())
        os.chmod(f"{d}/bin/busybox", 0o755)
        os.symlink("busybox", f"{d}/bin/sh")
        subprocess.run(["mount", "--rbind", "--make-rslave", "/proc", f"{d}/proc"], check=True)
        try:
            for out, cwd in ((False, d), (True, "/tmp")):
                def enter(cwd=cwd):
                    os.chdir(cwd)
                    os.chroot(d)
                p = subprocess.run(["/bin/sh", "-c", LOOK], preexec_fn=enter, env={"PATH": "/bin"}, capture_output=True, text=True,
                                   check=True)
                try:
                    check_inside(p.stdout, cwd)
                    seen = False
                except AssertionError:
                    seen = True
                eq(seen, out, f"is it seen: {p.stdout}")
        finally:
            subprocess.run(["umount", "-R", "-l", f"{d}/proc"], check=True)


@test
def directories_inside_can_be_entered():
    """A control: paths inside are accepted, so the refusals below have the expected reason."""
    world.run(box, ["sh", "-c", "mkdir -p /tmp/link && ln -sfn /usr/bin /tmp/link/good"])
    for cwd in ("/", "/tmp", "/usr/bin", "/tmp/link/good"):
        ok(not run_at(cwd), f"{cwd} is refused")
    ok(not program_refused("a program", "/usr/bin/sh"), "a program is refused")
    ok(not program_refused("a search", "sh", env={"PATH": "/nowhere:/usr/bin"}), "a search is refused")


@test
def the_directory_of_an_exec_cannot_lead_outside():
    all_refused(run_at(p) for p in paths(every=True))


@test
def an_exec_cannot_leave_through_a_descriptor():
    all_refused(run_at(p) for p in paths("/" + UP + "etc"))


@test
def the_directory_of_a_terminal_cannot_lead_outside():
    def refused(cwd):
        try:
            with Socket(world.socket, f"/v1/sandboxes/{box}/terminals", query={"shell": "sh", "cwd": cwd}) as s:
                return not s.event().get("exec_id")
        except Refused as e:
            ok(e.status < 500, f"{cwd}: {e}")
            return True
    ok(not refused("/tmp"), "a terminal in /tmp is refused")
    all_refused(refused(p) for p in paths())
    all_refused(run_at(p, pty=True) for p in paths())


@test
def the_directory_of_a_session_cannot_lead_outside():
    def refused(cwd):
        r = world.ask("POST", f"/v1/sandboxes/{box}/sessions", {"cwd": cwd})
        if r.status != 201:
            ok(r.status < 500, f"{cwd}: {r}")
            return True
        where = f"/v1/sandboxes/{box}/sessions/{r.json()['id']}"
        answer = world.post(f"{where}/run", {"command": LOOK})
        world.ask("DELETE", where)
        check_inside(answer["stdout"], f"session in {cwd}")
        return False
    ok(not refused("/tmp"), "a session in /tmp is refused")
    all_refused(refused(p) for p in paths())


@test
def the_directory_of_a_swerex_command_cannot_lead_outside():
    def refused(cwd):
        r = world.ask("POST", f"/swerex/{box}/execute", {"command": ["sh", "-c", LOOK], "cwd": cwd})
        return judge(r, f"swerex in {cwd}")
    ok(not refused("/tmp"), "a command in /tmp is refused")
    all_refused(refused(p) for p in paths())


@test
def links_created_inside_cannot_lead_outside():
    names = list(paths())
    script = "mkdir -p /tmp/l && cd /tmp/l && i=0 && while read -r to; do ln -sfn \"$to\" $i; i=$((i+1)); done"
    world.ask("PUT", f"/v1/sandboxes/{box}/files", "".join(n + "\n" for n in names).encode(), query={"path": "/tmp/names"})
    eq(world.run(box, ["sh", "-c", script + " </tmp/names"])["result"]["exit_code"], 0, "planting")
    all_refused(run_at(f"/tmp/l/{i}") for i in range(len(names)))
    all_refused(program_refused(f"link {i}", f"/tmp/l/{i}/{UP}usr/bin/sh") for i in range(len(names)))


@test
def the_path_of_a_program_cannot_lead_outside():
    all_refused(program_refused(p, p) for p in paths("/" + UP + "usr/bin/sh"))


@test
def a_search_for_a_program_cannot_lead_outside():
    all_refused(program_refused(p, "sh", env={"PATH": p}) for p in paths("/" + UP + "usr/bin"))


def sandbox_refused(what, look, **spec):
    r = world.ask("POST", "/v1/sandboxes", {**fitted({}), **spec})
    if r.status != 201:
        ok(r.status < 500, f"{what}: {r}")
        return True
    b = r.json()["id"]
    world.seen.add(b)
    try:
        return judge(ask_run(b, argv=look), what)
    finally:
        world.delete(b)


@test
def the_directory_of_a_sandbox_cannot_lead_outside():
    def refused(path):
        return sandbox_refused(f"workdir {path}", ["sh", "-c", LOOK], workdir=path)
    ok(not refused("/tmp"), "/tmp is refused")
    names = list(paths())
    if FAST or SOAK:
        all_refused(refused(p) for p in names)
    else:
        eq([p for p in names[:24] if not refused(p)], [], "not refused")


@test
def the_directory_of_an_image_cannot_lead_outside():
    needs("image")
    from oci_world import Image, Layer, Store, base, directory, layout  # pylint: disable=import-outside-toplevel
    names = list(paths()) if FAST or SOAK else list(paths())[:16]
    layers = [base(), Layer({"text": "x", "tmp": directory(0o1777)})]
    with scratch() as d:
        images = {f"wd/{i}:1": Image(*layers, config={"WorkingDir": p}) for i, p in enumerate(["/tmp", *names])}
        Store(world.state).image("import", layout(f"{d}/layout", images))

    def refused(name, path):
        return sandbox_refused(f"WorkingDir {path}", ["/bin/busybox", "sh", "-c", LOOK], image=name, pull="never")
    ok(not refused("wd/0:1", "/tmp"), "an image that names /tmp")
    eq([p for i, p in enumerate(names) if not refused(f"wd/{i + 1}:1", p)], [], "not refused")


@test
def mount_targets_cannot_lead_outside():
    needs("mounts")

    def refused(target):
        return sandbox_refused(f"mount at {target}", ["sh", "-c", LOOK], mounts=[{"target": target, "size": "1m"}])
    ok(not refused("/scratch"), "/scratch is refused")
    names = list(paths("/x"))
    followed = [p for p in (names if FAST or SOAK else names[:16]) if not refused(p)]
    eq(followed if BACKEND == "native" else [], [], "not refused")


@test
def file_paths_cannot_lead_outside():
    where = f"/v1/sandboxes/{box}/files"
    eq(world.ask("GET", where, query={"path": "/etc/passwd"}).status, 200, "a file")
    for p in paths("/" + UP + "etc/hostname"):
        r = world.ask("GET", where, query={"path": p})
        ok(400 <= r.status < 500, f"read {p}: {r}")
        if FAST:
            r = world.ask("PUT", where, b"x", query={"path": p + ".new"})
            ok(400 <= r.status < 500, f"write {p}: {r}")


# ------------------------------------------------------- descriptors that could be found, on the native backend


def inits(sandbox):
    """The sandbox's init, found by its directory, which has the sandbox's name."""
    b = world.run(sandbox, ["cat", "/proc/sys/kernel/hostname"])["stdout"].strip()
    for pid in below(world.warden):
        with contextlib.suppress(OSError):
            if slurp(f"/proc/{pid}/comm").strip() == "init" and \
                    subprocess.run(["nsenter", "-t", str(pid), "-u", "hostname"], capture_output=True, text=True,
                                   check=False).stdout.strip() == b:
                return pid
    raise AssertionError("its init is not found")


def as_user(uid, *argv, **kw):
    """Runs a command below a shell, because the test reaps children of other users as processes of the service."""
    return subprocess.run(["sh", "-c", '"$@"; exit', "sh", "setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", *argv],
                          capture_output=True, text=True, check=False, **kw)


def leads_out(pid, fd):
    """Whether the descriptor is a directory with a parent outside."""
    link = f"/proc/{pid}/fd/{fd}"
    st = os.stat(link)
    if not stat.S_ISDIR(st.st_mode):
        return False
    up = os.stat(f"{link}/..")
    return (up.st_dev, up.st_ino) != (st.st_dev, st.st_ino)


@test
def init_has_no_access_to_the_outside():
    needs("init")
    pid = inits(box)
    fds = sorted(os.listdir(f"/proc/{pid}/fd"), key=int)
    directories = [fd for fd in fds if stat.S_ISDIR(os.stat(f"/proc/{pid}/fd/{fd}").st_mode)]
    ok(directories, f"it has none of its cgroup's, so that nothing is seen here: {fds}")
    eq([(fd, os.readlink(f"/proc/{pid}/fd/{fd}")) for fd in fds if leads_out(pid, fd)], [], "what leads out of it")
    with tempfile.TemporaryDirectory() as d:
        fd = os.open(d, os.O_PATH)
        ok(leads_out(os.getpid(), fd), "the check does not see a directory")
        os.close(fd)
    ids = int(slurp(f"/proc/{pid}/uid_map").split()[1])
    for fd in directories:  # with a user id of the sandbox, for each descriptor
        p = as_user(ids, "stat", f"/sys/fs/cgroup/memory/warren/{box}")
        ok(p.returncode != 0 and "Permission denied" in p.stderr, f"{p.stdout}{p.stderr}")


LEASE = """
import fcntl, os, shutil, signal, sys, time
shutil.copy("/bin/true", "/tmp/leased"); os.chmod("/tmp/leased", 0o755)
signal.signal(signal.SIGIO, signal.SIG_IGN)
fd = os.open("/tmp/leased", os.O_RDONLY)
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
time.sleep(60)
"""


@test
def nothing_of_init_is_visible_between_fork_and_execve():
    """A lease on the program delays execve(2) after the path lookup, so that the child's descriptors can be
    inspected."""
    needs("init")
    b = world.create()
    try:
        pid = inits(b)
        before = set(below(pid))
        holder = world.exec(b, ["python3", "-c", LEASE])
        until(lambda: any(e.get("data") for e in world.output(b, holder, follow="false")), "the lease")
        world.post(f"/v1/sandboxes/{b}/execs", {"argv": ["true"], "cwd": "/tmp"}, status=201)
        with world.client(timeout=20) as c:
            c.http = c.http or c.open()
            c.http.request("POST", f"/v1/sandboxes/{b}/execs", json.dumps({"argv": ["/tmp/leased"], "cwd": "/tmp", "stdin": True}),
                           {"Content-Type": "application/json"})

            def held():
                """Returns the child of init that waits for the lease: it stays in one system call for some time."""
                for p in set(below(pid)) - before:
                    with contextlib.suppress(OSError):
                        at = slurp(f"/proc/{p}/syscall").split()
                        time.sleep(0.1)
                        if os.readlink(f"/proc/{p}/exe").startswith("/memfd:init") and at[0] != "running" and \
                                slurp(f"/proc/{p}/syscall").split() == at:
                            return p
                return None
            child = until(held, "a child before its execve")
            found = {}
            for fd in os.listdir(f"/proc/{child}/fd"):
                st = os.stat(f"/proc/{child}/fd/{fd}")
                found[int(fd)] = "pipe" if stat.S_ISFIFO(st.st_mode) else "null" if st.st_rdev == os.makedev(1, 3) else \
                    os.readlink(f"/proc/{child}/fd/{fd}")
            ok({0, 1, 2} <= set(found), f"its streams are not in place yet: {found}")
            eq({fd: what for fd, what in found.items() if what not in ("pipe", "null")}, {}, "what a lookup could go through")
            ok(len(found) <= 5, f"more than its streams, the report and the gate: {found}")
            eq(os.readlink(f"/proc/{child}/cwd"), "/tmp", "where it is")
    finally:
        world.delete(b)


@test
def sandboxes_of_an_ordinary_user_cannot_be_left():
    """The same for `warren run` by an ordinary user."""
    needs("init")
    uid = 54321
    with scratch() as d:
        os.chmod(d, 0o755)
        for name in ("home", "run", "data"):
            os.mkdir(f"{d}/{name}", 0o700)
            os.chown(f"{d}/{name}", uid, uid)
        subprocess.run(["cp", WARREN, f"{d}/warren"], check=True)
        env = {"HOME": f"{d}/home", "XDG_RUNTIME_DIR": f"{d}/run", "XDG_DATA_HOME": f"{d}/data", "PATH": os.environ["PATH"]}

        def run(cwd):
            p = as_user(uid, f"{d}/warren", "run", "-w", cwd, "--", "sh", "-c", LOOK, env=env, cwd="/")
            if p.returncode == 0:
                check_inside(p.stdout, f"cwd {cwd}")
            return p.returncode
        eq(run("/tmp"), 0, "status in /tmp")
        all_refused(run(f"{PREFIXES[n % 4]}/{n}") != 0 for n in NUMBERS)


MOVE = """
import errno, os
def tried(a, b):
    try:
        os.rename(a, b)
        return "done"
    except OSError as e:
        return errno.errorcode[e.errno]
os.mkdir("/fresh")
print(tried("/fresh", "/fresher"), tried("/dev", "/tmp/dev"), tried("/dev/pts", "/dev/other"), tried("/proc", "/tmp/proc"))
"""


@test
def paths_that_init_opens_stay_inside():
    """init opens the terminal in /dev and reads /proc: root inside cannot place links there."""
    needs("init")
    eq(world.run(box, ["python3", "-c", MOVE])["stdout"], "done EXDEV EBUSY EBUSY\n", "renames")


def main():
    global world, box  # pylint: disable=global-statement
    try:
        world = World()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0
    with world:
        box = world.create()
        return run_tests()


if __name__ == "__main__":
    sys.exit(main())
