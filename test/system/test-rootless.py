#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-rootless.py - an ordinary user runs the same program

Prints TAP. If root runs the test, it becomes a temporary user with separate directories; otherwise it uses the
current user. Every test runs without subordinate ids and, if newuidmap(1) is installed, with a range of them (only as
root: with another line in /etc/passwd, subuid and subgid, which only the test sees).
"""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib/posture"))
from harness import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position

# No concurrent test uses these ids, and sandboxes of root do not reach them.
UID = 52000 + os.getpid() % 1000 if ROOT else os.geteuid()
COUNT = 65536
SUB = 2_000_000_000 + os.getpid() % 1000 * COUNT
KEPT = "00000000800405fb"


class User:
    """The user of the test, and its directories. .sub: with subordinate ids."""

    def __init__(self, sub):
        self.sub = sub
        self.dir = tempfile.mkdtemp(prefix="warren-test-")
        os.chmod(self.dir, 0o755)
        self.program = f"{self.dir}/warren"
        shutil.copy(WARREN, self.program)
        for name in ("home", "run", "data"):
            os.mkdir(f"{self.dir}/{name}", 0o700)
            if ROOT:
                os.chown(f"{self.dir}/{name}", UID, UID)
        self.env = {"HOME": f"{self.dir}/home", "XDG_RUNTIME_DIR": f"{self.dir}/run", "XDG_DATA_HOME": f"{self.dir}/data",
                    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        self.prefix = ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"] if ROOT else []

    def warren(self, *args, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("timeout", WAIT)
        return subprocess.run([*self.prefix, self.program, *args], env=self.env, cwd="/", stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, **kw)

    def run(self, *args, status=0, **kw):
        p = self.warren("run", *args, **kw)
        ok(p.returncode == status, f"{args}: status {p.returncode}, stderr {p.stderr[-400:]!r}, stdout {p.stdout[-300:]!r}")
        self.said = p.stderr.decode()
        return p.stdout.decode()

    def path(self, name):
        return f"{self.dir}/home/{name}"

    def left(self):
        found = [f"{b}/{n}" for b, d, f in os.walk(f"{self.dir}/run") for n in (*d, *f) if b.endswith(("ids", "engines"))]
        if ROOT:
            for n in os.listdir("/proc"):
                with contextlib.suppress(OSError, KeyError, ValueError):
                    uid = int(status_of(n)["Uid"].split()[0]) if n.isdigit() else -1
                    if uid == UID or uid in range(SUB, SUB + COUNT):
                        found.append(f"process {n} {slurp(f'/proc/{n}/comm').strip()}")
        return found


    @contextlib.contextmanager
    def service(self):
        """Starts a service of the user, without options."""
        for name in ("warren-serve", "warren-client", "warren-shim"):
            shutil.copy(os.path.join(os.path.dirname(os.path.abspath(WARREN)), name), self.dir)
        p = subprocess.Popen([*self.prefix, self.program, "serve"], env=self.env, cwd="/", stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            said = []
            for line in p.stderr:
                said.append(line)
                if "ready; " in line:
                    break
            ok(said and "ready; " in said[-1], f"the service does not come up: {said}")
            yield
        finally:
            p.terminate()
            try:
                p.communicate(timeout=WAIT)
            finally:
                p.kill()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.dir}/run/warren/engines/serve")  # an engine with a name does not delete its lock file


def users():
    yield False
    if ROOT and shutil.which("newuidmap") and shutil.which("newgidmap"):
        yield True


@contextlib.contextmanager
def subordinate():
    """Adds the ranges to the machine's files, visible only to this test: it has a separate mount namespace
    (be_alone)."""
    lines = {"/etc/subuid": f"{UID}:{SUB}:{COUNT}\n", "/etc/subgid": f"{UID}:{SUB}:{COUNT}\n",
             "/etc/passwd": f"warren-test-{UID}:x:{UID}:{UID}::/nonexistent:/usr/sbin/nologin\n"}
    with scratch() as d, contextlib.ExitStack() as mounts:
        for path, line in lines.items():
            copy = f"{d}/{os.path.basename(path)}"
            with open(path, "a+b") as original, open(copy, "wb") as f:
                original.seek(0)
                f.write(original.read() + line.encode())
            subprocess.run(["mount", "--bind", copy, path], check=True)
            mounts.callback(subprocess.run, ["umount", path], check=True)
        yield


def both(f):
    """Runs a test with both kinds of users."""
    for sub in users():
        def wrapped(sub=sub):
            with subordinate() if sub else contextlib.nullcontext():
                u = User(sub)
                try:
                    f(u)
                    deadline = time.monotonic() + 10
                    while u.left() and time.monotonic() < deadline:
                        time.sleep(0.05)
                    eq(u.left(), [], "what is left")
                finally:
                    shutil.rmtree(u.dir)

        wrapped.__name__ = f.__name__ + ("_with_subordinate_ids" if sub else "")
        test(wrapped)
    return f


@both
def an_ordinary_user_can_run_a_command(u):
    eq(u.run("--", "sh", "-c", "echo hello; id -u; hostname | wc -c; exit 0").split()[:2], ["hello", "0"])
    u.run("--", "sh", "-c", "exit 7", status=7)
    u.run("--", "no-such-command", status=127)
    u.run("--timeout", "300ms", "--", "sleep", "30", status=124)
    u.run("--", "sh", "-c", "kill -9 $$", status=137)


@both
def limits_that_are_not_enforced_are_listed(u):
    got = json.loads(u.run("--json", "--", "true"))
    text = json.dumps(got)
    ok('"enforced"' in text, text)
    rows = got["enforced"]
    rows = {r["name"]: r for r in rows} if isinstance(rows, list) else rows
    def in_force(name):
        r = rows[name]
        return r["enforced"] if isinstance(r, dict) else r is True
    ok(in_force("namespaces") and in_force("seccomp") and in_force("network"), text)
    ok(not in_force("memory") and not in_force("pids"), f"claims limits that nobody enforces: {text}")
    p = u.warren("run", "--verbose", "--", "true")
    ok(re.search(rb"memory.*(not|no) ", p.stderr), f"--verbose says {p.stderr!r}")


@both
def requested_limits_that_cannot_be_enforced_are_refused(u):
    for option, value, word in (("-m", "64m", "memory"), ("--cpus", "0.5", "cpu"), ("--pids", "10", "pids")):
        p = u.warren("run", option, value, "--", "true")
        eq(p.returncode, 125, f"status with {option}")
        ok(p.stdout == b"" and p.stderr.count(b"\n") == 1 and word.encode() in p.stderr.lower(), p.stderr)
        ok(b"cgroup" in p.stderr or b"uid" in p.stderr, f"no reason: {p.stderr!r}")


@both
def an_ordinary_user_can_run_a_separate_service(u):
    """Default limits are soft for such a service; an explicit limit that cannot be enforced is refused."""
    def call(*args, status=0):
        p = u.warren(*args)
        eq(p.returncode, status, f"{args}, {p.stderr!r}: status")
        return (p.stderr if status else p.stdout).decode()
    with u.service():
        box = call("create").strip()
        eq(call("exec", box, "sh", "-c", "echo hello; id -u"), "hello\n0\n", "a command")
        call("session", box, "X=5; cd /tmp")
        eq(call("session", box, "echo $X; pwd"), "5\n/tmp\n", "a session")
        forced = {e["name"]: e["enforced"] for e in json.loads(call("show", "--json", box))["enforced"]}
        ok(forced["namespaces"] and not forced["memory"] and not forced["pids"], f"what is in force: {forced}")
        eq(call("run", "--daemon", "--", "echo", "passing"), "passing\n", "a run")
        for option, value, word in (("-m", "64m", "memory"), ("--cpus", "0.5", "cpu"), ("--pids", "10", "pids")):
            said = call("create", option, value, status=125)
            ok(word in said and "cannot be enforced" in said, f"{option}: {said}")
        eq(call("ls", "-q").split(), [box], "sandboxes")
        call("rm", box)


@both
def the_sandbox_has_the_expected_restrictions(u):
    out = u.run("--", "sh", "-c", "cat /proc/self/status; readlink /proc/self/ns/*; cat /proc/self/uid_map; ls /proc/self/fd; cat /proc/self/mountinfo")
    s = dict(line.split(":\t", 1) for line in out.splitlines() if ":\t" in line)
    eq((s["CapEff"], s["CapPrm"], s["CapBnd"], s["CapInh"], s["CapAmb"]), (KEPT, KEPT, KEPT, "0" * 16, "0" * 16), "capabilities")
    eq((s["NoNewPrivs"], s["Seccomp"], s["Seccomp_filters"]), ("1", "2", "1"), "privileges and filter")
    for n in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
        inside = re.search(rf"^{n}:\[\d+\]$", out, re.M)
        ok(inside and inside[0] != os.readlink(f"/proc/self/ns/{n}"), f"the {n} namespace is the machine's")
    rows = mountinfo("\n".join(line for line in out.splitlines() if " - " in line))
    ok(len(rows) > 10, "mounts")
    for m in rows:
        ok("nosuid" in m["flags"], f"set-user-ID works: {m['line']}")
        ok("nodev" in m["flags"] or m["target"].startswith("/dev/"), f"devices work: {m['line']}")
        ok(u.dir not in m["line"] and "warren" not in m["line"], f"a path of the machine's: {m['line']}")
    # the descriptors of sh, and the one with which ls reads the directory
    eq(re.findall(r"^\d$", out, re.M), ["0", "1", "2", "3"], "descriptors")
    maps = [[int(n) for n in m] for m in re.findall(r"^ +(\d+) +(\d+) +(\d+)$", out, re.M)]
    ok([0, UID, 1] in maps, f"root inside is not the caller outside: {maps}")
    count = sum(m[2] for m in maps)
    ok(count >= 65536 if u.sub else count == 1, f"{maps}")


@both
def dangerous_calls_are_refused(u):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib/probe-calls.c")
    program = compile_c(source, f"{u.dir}/probe", "-static", "-pthread")
    got = dict(line.split(" ", 1) for line in u.run("-v", f"{program}:/probe:ro", "--", "/probe", timeout=60).splitlines())
    for name in ("mount unshare-user clone-user setns keyctl bpf io_uring_setup ptrace-init process_vm_readv-init tiocsti "
                 "mknod-mem mknod-disk raise-nofile capset-admin socket-alg sethostname").split():
        eq(got[name], "EPERM", name)
    for name in "pthread clone ptrace-child openpty memfd chroot-ends-inside fchdir-ends-inside mknod-fifo bind-80 connect alive".split():
        eq(got[name], "ok", name)
    eq(got["clone3"], "ENOSYS", "clone3")


@both
def the_machine_cannot_be_accessed(u):
    with Live() if ROOT else contextlib.nullcontext() as other:
        pid = other.payload if other else os.getppid()
        out = u.run("--", "sh", "-c", f"kill -0 {pid} 2>&1; ls /proc | grep -c '^[0-9]'; cat /etc/shadow 2>&1; ls /home /root; "
                    "echo x > /new && echo y > /tmp/y && echo written; echo x > /usr/bin/new; rm -f /usr/bin/env; cat /proc/1/environ 2>&1 | tail -1; kill -9 1; echo alive")
    ok("No such process" in out and "written" in out and "alive" in out and "ermission denied" in out, out)
    ok(os.path.exists("/usr/bin/env") and not os.path.exists("/usr/bin/new"), "the machine's own files")
    ok(not os.path.exists("/new"), "written to the machine's root")


@both
def volumes_belong_to_the_caller(u):
    os.mkdir(u.path("v"))
    os.chmod(u.path("v"), 0o755)
    if ROOT:
        os.chown(u.path("v"), UID, UID)
    eq(u.run("-v", f"{u.path('v')}:/v", "--", "sh", "-c", "stat -c %u /v; echo data > /v/f; stat -c %u /v/f"), "0\n0\n")
    st = os.stat(u.path("v/f"))
    eq((st.st_uid, st.st_gid), (UID, UID if ROOT else os.getegid()), "owner of what was written")
    u.run("-v", f"{u.path('v')}:/v:ro", "--", "sh", "-c", "echo x > /v/g", status=2)
    ok(not os.path.exists(u.path("v/g")), "written to a read-only volume")
    if ROOT:
        os.mkdir(u.path("foreign"), 0o700)
        p = u.warren("run", "-v", f"{u.path('foreign')}:/v", "--", "sh", "-c", "ls /v; touch /v/x")
        ok(p.returncode != 0 and os.listdir(u.path("foreign")) == [], "a directory that the caller may not write")


@both
def other_users_exist_inside_only_with_subordinate_ids(u):
    p = u.warren("run", "-u", "1000:1000", "--", "sh", "-c", "id -u; id -g; grep CapEff /proc/self/status")
    if not u.sub:
        eq(p.returncode, 125, "status without subordinate ids")
        ok(b"subuid" in p.stderr and p.stderr.count(b"\n") == 1, p.stderr)
        return
    eq((p.returncode, p.stdout), (0, b"1000\n1000\nCapEff:\t0000000000000000\n"), f"a user inside {p.stderr!r}")
    out = u.run("--", "sh", "-c", "cd /tmp; echo x > f; chown 33:33 f; stat -c %u:%g f; setpriv --reuid 1000 --regid 1000 --clear-groups id -u")
    eq(out, "33:33\n1000\n")


@both
def a_private_directory_can_be_the_root(u):
    root = u.path("root")
    os.makedirs(f"{root}/bin")
    shutil.copy(need("busybox"), f"{root}/bin/busybox")
    for n in ("sh", "cat", "ls"):
        os.symlink("busybox", f"{root}/bin/{n}")
    os.symlink("/etc", f"{root}/etc")
    os.symlink(u.dir, f"{root}/tmp")
    os.mkfifo(f"{root}/dev")
    if ROOT:
        subprocess.run(["chown", "-hR", f"{UID}:{UID}", root], check=True)
    before = fingerprint(root)
    out = u.run("--image", f"dir:{root}", "--", "/bin/sh", "-c", "echo x > /new; echo y > /tmp/y; ls /dev; cat /proc/1/comm")
    ok("null" in out and "init" in out, out)
    eq(fingerprint(root), before, "the root directory")
    ok(not os.path.exists(f"{u.dir}/y"), "written through a link")


@both
def hostile_commands_are_ended(u):
    u.run("--timeout", "1s", "--", "sh", "-c", "kill -STOP -1; kill -STOP $$; sleep 60", status=124)
    u.run("--", "sh", "-c", "(setsid sleep 300 &); sleep 301 & exit 5", status=5)
    u.run("--timeout", "1s", "--", "sh", "-c", "setsid sh -c 'sleep 302 & sleep 303' & sleep 60", status=124)


@both
def doctor_works_for_an_ordinary_user(u):
    p = u.warren("doctor")
    ok(p.returncode in (0, 1) and p.stdout, f"{p.returncode} {p.stderr!r}")
    ok(b"rootless" in p.stdout.lower() or b"subuid" in p.stdout.lower() or b"subordinate" in p.stdout.lower(), p.stdout)
    got = json.loads(u.warren("doctor", "--json").stdout)
    ok(got, "doctor --json is empty")


@both
def directories_of_others_are_not_used(u):
    """A run directory in a shared place that belongs to another user, or a link to a directory of the caller."""
    if not ROOT:
        raise Skip("needs root to be somebody else")
    os.mkdir(f"{u.dir}/run/warren", 0o755)
    p = u.warren("run", "--", "true")
    eq(p.returncode, 125, "status with root's run directory")
    os.rmdir(f"{u.dir}/run/warren")
    os.symlink(f"{u.dir}/home", f"{u.dir}/run/warren")
    p = u.warren("run", "--", "true")
    eq(os.listdir(f"{u.dir}/home"), [], f"what a planted link led to (status {p.returncode})")
    os.unlink(f"{u.dir}/run/warren")
    u.run("--", "true")


@contextlib.contextmanager
def mounted(*command_and_target):
    subprocess.run(["mount", *command_and_target], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", command_and_target[-1]], check=True)


@both
def mounts_in_directories_of_the_machine_are_hidden(u):
    """Mounts are not part of the image: a sandbox shows the tree, with an empty directory in place of each mount."""
    if not ROOT:
        raise Skip("needs root to mount something")
    # Mounted over /opt, visible only to this test.
    with mounted("-t", "tmpfs", "-o", "mode=755", "test", "/opt"), contextlib.ExitStack() as mounts:
        for name in ("plain", "own", "with a space", "file"):
            (os.mkdir if name != "file" else os.mknod)(f"/opt/{name}")
        with open("/opt/plain/shown", "w", encoding="ascii") as f:
            f.write("shown")
        for name in ("own", "with a space"):
            mounts.enter_context(mounted("-t", "tmpfs", "test", f"/opt/{name}"))
            os.mkdir(f"/opt/{name}/below")
            mounts.enter_context(mounted("-t", "tmpfs", "test", f"/opt/{name}/below"))
            for d in (name, f"{name}/below"):
                with open(f"/opt/{d}/secret", "w", encoding="ascii") as f:
                    f.write("secret")
        mounts.enter_context(mounted("--bind", "/opt/own/secret", "/opt/file"))
        eq(u.warren("doctor").returncode, 0, "what doctor says")
        out = u.run("--", "sh", "-c", "cat /opt/plain/shown; echo; ls -A /opt; ls -A /opt/own /opt/with*; wc -c < /opt/file; "
                    "touch /opt/own/x 2>/dev/null || echo sealed")
        eq(out.split("\n"), ["shown", "file", "own", "plain", "with a space", "/opt/own:", "", "/opt/with a space:", "0", "sealed", ""])
        # A root directory with a mount below it is refused, with the reason.
        p = u.warren("run", "--image", "dir:/opt/own", "--", "true")
        eq(p.returncode, 125, p.stderr)
        ok(b"something is mounted below '/opt/own'" in p.stderr, p.stderr)


def check_possible():
    u = User(False)
    try:
        p = u.warren("run", "--", "true")
        if p.returncode == 125 and (b"user namespace" in p.stderr or b"in new namespaces" in p.stderr):
            print(f"1..0 # SKIP this machine has no user namespaces for ordinary users: {p.stderr.decode().strip()}")
            sys.exit(0)
    finally:
        shutil.rmtree(u.dir)


@both
def a_service_of_an_ordinary_user_refuses_volumes_with_the_reason(u):
    with u.service():
        for _ in range(2):  # a refused volume does not keep its name
            p = u.warren("volume", "create", "data")
            ok(p.returncode != 0 and b"volumes need a service that root has started" in p.stderr, p)
        eq(u.warren("volume", "ls", "-q").stdout, b"")
        p = u.warren("create", "-v", "data:/data")
        ok(p.returncode != 0 and b"root" in p.stderr, p)


if __name__ == "__main__":
    sys.exit(main(check_possible))
