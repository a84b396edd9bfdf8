#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-systemd.py - the units under a real systemd: installation, socket activation, stop, kill, upgrade

systemd/boot creates a machine from namespaces, with cgroups below those of the test, in which systemd is pid 1 and
finds the result of 'meson install' in a directory.
"""
import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, ROOT, SOURCE, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import slurp, start_time, until  # pylint: disable=wrong-import-position

SYSTEMD = "/lib/systemd/systemd"
UNITS = "/usr/local/lib/systemd/system"
NAME = f"warren-systemd-{os.getpid()}"


def our_cgroups():
    """The directory of the test's cgroup in each hierarchy."""
    top = "/sys/fs/cgroup"
    for line in slurp("/proc/self/cgroup").splitlines():
        _, name, path = line.split(":", 2)
        if not name:
            where = top if os.path.exists(f"{top}/cgroup.procs") else f"{top}/unified"
        else:
            where = f"{top}/{name.removeprefix('name=')}"
        # In a cgroup namespace without its own mounts, the path is not visible.
        if os.path.exists(f"{where}{path}/cgroup.procs"):
            yield f"{where}{path}".rstrip("/")


class Machine:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="warren-systemd-")
        self.process, self.cgroups, self.pid = None, [], None

    def install(self):
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", self.dir], check=True,
                       stdout=subprocess.DEVNULL)
        if not os.path.exists(f"{self.dir}{UNITS}/warren.service"):
            raise Skip("this build does not install units, or elsewhere than in /usr/local")

    def make_cgroups(self):
        for parent in our_cgroups():
            d = f"{parent}/{NAME}"
            os.mkdir(d)
            self.cgroups.append(d)
            for f in ("cpuset.cpus", "cpuset.mems"):
                if os.path.exists(f"{parent}/{f}") and "/cpuset" in parent:
                    with open(f"{d}/{f}", "w", encoding="ascii") as out:
                        out.write(slurp(f"{parent}/{f}"))

    def enter(self):
        for d in self.cgroups:
            with open(f"{d}/cgroup.procs", "w", encoding="ascii") as f:
                f.write(str(os.getpid()))

    def boot(self):
        self.make_cgroups()
        with open(f"{self.dir}/log", "wb") as log:
            self.process = subprocess.Popen(
                ["unshare", "--kill-child", "--fork", "--mount", "--pid", "--cgroup", "--net", "--ipc", "--uts",
                 "--propagation", "private", f"{SOURCE}/test/lib/systemd/boot", self.dir],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=self.enter)
        until(self.is_up, self.said)
        self.call("systemctl", "start", "systemd-journald.service")
        self.call("systemd-sysusers")

    def is_up(self):
        ok(self.process.poll() is None, f"it has ended: {self.said()}")
        children = slurp(f"/proc/{self.process.pid}/task/{self.process.pid}/children").split()
        if not children or slurp(f"/proc/{children[0]}/comm") != "systemd\n":
            return False
        self.pid = int(children[0])
        return self.ask("systemctl", "is-active", "multi-user.target").returncode == 0

    def said(self):
        return "".join(slurp(f"{self.dir}/{f}")[-2000:] for f in ("log", "console") if os.path.exists(f"{self.dir}/{f}"))

    def ask(self, *argv, **kw):
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin", "LC_ALL": "C", "SYSTEMD_PAGER": "",
               "SYSTEMD_UNIT_PATH": f"/etc/systemd/system:{UNITS}"}
        return subprocess.run(["nsenter", "-t", str(self.pid), "-a", *argv], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=40, env=env, **kw)

    def call(self, *argv):
        """Runs a command, which must succeed. Returns its output."""
        p = self.ask(*argv)
        ok(p.returncode == 0, f"{' '.join(argv)}: {p.stdout}{p.stderr}{self.journal()}")
        return p.stdout.strip()

    def journal(self):
        return self.ask("journalctl", "-q", "-u", "warren.service", "-n", "12", "-o", "cat").stdout

    def show(self, unit, *names):
        out = self.call("systemctl", "show", unit, *(f"-p{n}" for n in names))
        found = dict(line.split("=", 1) for line in out.splitlines())
        return found[names[0]] if len(names) == 1 else found

    def state(self, unit="warren.service"):
        return self.show(unit, "ActiveState")

    def main(self):
        return int(self.show("warren.service", "MainPID"))

    def write(self, path, text):
        """Writes a file of the machine, whose root is accessible through its first process."""
        path = f"/proc/{self.pid}/root{path}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def remove(self, path):
        os.unlink(f"/proc/{self.pid}/root{path}")

    def outer(self, inner):
        """The pid here of the process with this pid inside the machine."""
        for status in glob.glob("/proc/[0-9]*/status"):
            with contextlib.suppress(OSError, StopIteration):
                numbers = next(line for line in slurp(status).splitlines() if line.startswith("NSpid:")).split()[1:]
                pid = int(numbers[0])
                if len(numbers) > 1 and int(numbers[1]) == inner and \
                        os.readlink(f"/proc/{pid}/ns/pid") == os.readlink(f"/proc/{self.pid}/ns/pid"):
                    return pid
        raise AssertionError(f"there is no process {inner}")

    def end(self):
        if self.process:
            if self.process.poll() is None:
                self.process.kill()  # --kill-child also ends all processes of the machine
            self.process.wait()
            for d in self.cgroups:
                until(lambda d=d: not slurp(f"{d}/cgroup.procs").split(), f"processes in {d}")
        for d in self.cgroups:
            for below, _, _ in os.walk(d, topdown=False):
                until(lambda d=below: attempt_rmdir(d), f"remove {below}")
        shutil.rmtree(self.dir)


def attempt_rmdir(d):
    try:
        os.rmdir(d)
    except OSError:
        return not os.path.exists(d)
    return True


def marked(text):
    """The pid, on this machine, of the process that was started as 'sleep TEXT' in any sandbox."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if slurp(path) == f"sleep\0{text}\0":
                return int(path.split("/")[2])
    return None


M = None
SECONDS = str(100000 + os.getpid())  # identifies the process in a sandbox
BOX = []


def box():
    """One sandbox with a command that runs during the whole test; created on first use."""
    if not BOX:
        BOX.append(M.call("warren", "create", "-m", "64m", "--disk", "16m"))
        M.call("warren", "exec", "-d", BOX[0], "--", "sleep", SECONDS)
        pid = until(lambda: marked(SECONDS), "the command runs")
        BOX.extend([pid, start_time(pid)])
    return BOX[0]


def check_box():
    """Checks that the sandbox and its command were not disturbed, and that the sandbox works."""
    eq(marked(SECONDS), BOX[1], "the command's process")
    eq(start_time(BOX[1]), BOX[2], "its start time")
    eq(M.call("warren", "ls", "-q"), BOX[0])
    eq(M.call("warren", "exec", BOX[0], "--", "echo", "hello"), "hello")


@test
def the_unit_files_are_valid():
    p = M.ask("systemd-analyze", "--man=no", "verify", f"{UNITS}/warren.service", f"{UNITS}/warren.socket")
    lines = [line for line in p.stderr.splitlines() if "warren." in line]
    eq((p.returncode, lines), (0, []), "what systemd says of them")
    # A control: systemd reports a wrong setting.
    bad = M.call("sed", "s/^KillMode=.*/KillMode=never/", f"{UNITS}/warren.service")
    M.write("/etc/systemd/system/warren-bad.service", bad)
    p = M.ask("systemd-analyze", "--man=no", "verify", "/etc/systemd/system/warren-bad.service")
    M.remove("/etc/systemd/system/warren-bad.service")
    ok("warren-bad.service" in p.stderr and "never" in p.stderr, f"{p}")


@test
def the_first_client_starts_the_service():
    M.call("systemctl", "enable", "warren.socket", "warren.service")
    M.call("systemctl", "start", "warren.socket")
    eq((M.state("warren.socket"), M.state()), ("active", "inactive"))
    eq(M.call("stat", "-c", "%a %U", "/run/warren/warren.sock"), "600 root")
    eq(M.call("warren", "ls", "-q"), "")
    eq(M.show("warren.service", "ActiveState", "SubState", "Type", "Result"),
       {"ActiveState": "active", "SubState": "running", "Type": "notify", "Result": "success"})
    ok("unix:/run/warren/warren.sock, passed by systemd" in M.journal(), M.journal())


@test
def the_api_has_a_separate_account():
    box()
    api = M.call("pgrep", "-P", str(M.main()), "-x", "warren-serve", "-u", "warren")
    eq(M.call("stat", "-c", "%U", f"/proc/{api}/status"), "root", "it is not dumpable, so its files are root's")
    eq(slurp(f"/proc/{M.outer(int(api))}/status").partition("\nCapEff:\t")[2][:16], "0" * 16, "what it may")
    check_box()


@test
def the_umask_of_the_service_does_not_affect_sandboxes():
    eq(M.show("warren.service", "UMask"), "0077")
    eq(M.call("warren", "exec", "--user", "1000", box(), "--", "sh", "-c", "stat -c %a / /etc /etc/alternatives; umask"),
       "755\n755\n755\n0022")


@test
def stopping_leaves_sandboxes_and_the_next_client_finds_them():
    box()
    before = M.main()
    M.call("systemctl", "stop", "warren.service")
    eq((M.state(), M.show("warren.service", "Result")), ("inactive", "success"))
    eq(marked(SECONDS), BOX[1], "the command goes on")
    check_box()
    ok(M.main() not in (0, before), "another process")
    eq(M.state(), "active")


@test
def without_a_socket_the_error_says_how_to_start_a_service():
    box()
    M.call("systemctl", "stop", "warren.socket", "warren.service")
    p = M.ask("warren", "ls")
    ok(p.returncode != 0 and "start one with 'warren serve'" in p.stderr, p)
    M.call("systemctl", "start", "warren.service")
    eq(M.state("warren.socket"), "active", "it brings its socket")
    check_box()


@test
def the_service_is_ready_when_systemd_reports_it():
    """Uses a listener that systemd does not hold, so that connections would fail: start returns, and the service
    answers."""
    box()
    M.call("ip", "link", "set", "lo", "up")
    M.write("/etc/warren/warren.yaml", "listen:\n  - unix:/run/warren/warren.sock\n  - tcp:127.0.0.1:7070\n")
    try:
        for _ in range(3):
            M.call("systemctl", "restart", "warren.service")
            p = M.ask("curl", "-sS", "http://127.0.0.1:7070/healthz")
            eq((p.returncode, json.loads(p.stdout or "null") is not None), (0, True), f"{p}")
    finally:
        M.remove("/etc/warren/warren.yaml")
        M.call("systemctl", "restart", "warren.service")
    check_box()


@test
def an_upgrade_keeps_sandboxes():
    box()
    before = M.main()
    for path in ("bin/warren", "libexec/warren/warren-serve", "libexec/warren/warren-shim"):
        path = f"{M.dir}/usr/local/{path}"
        shutil.copy(path, f"{path}.new")
        os.rename(f"{path}.new", path)
    M.call("systemctl", "daemon-reload")
    M.call("systemctl", "restart", "warren.service")
    ok("(deleted)" not in os.readlink(f"/proc/{M.outer(M.main())}/exe"), "the new program runs")
    ok(M.main() != before, "another process")
    check_box()


@test
def a_killed_service_is_restarted():
    box()
    before = M.main()
    os.kill(M.outer(before), signal.SIGKILL)
    until(lambda: M.main() not in (0, before) and M.state() == "active", M.journal)
    check_box()


@test
def missing_loop_devices_are_reported():
    p = M.ask("warren", "create", "-m", "32m", "--disk", "64m")
    ok(p.returncode != 0 and "this machine has no loop devices" in p.stderr, p)


@test
def lack_of_memory_affects_only_the_sandbox():
    before, other = M.main(), M.call("warren", "create", "-m", "32m", "--disk", "16m")
    eq(M.call("warren", "exec", other, "--", "sh", "-c", "head -c 1000 /dev/zero | tail -c 1 | wc -c"), "1", "what fits")
    p = M.ask("warren", "exec", other, "--", "sh", "-c", "tail /dev/zero")
    eq(p.returncode, 128 + signal.SIGKILL, f"{p}")
    M.call("warren", "rm", other)
    eq((M.main(), M.state()), (before, "active"))


@test
def additional_listeners_are_opened():
    box()
    M.call("ip", "link", "set", "lo", "up")
    M.write("/etc/warren/warren.yaml", "listen:\n  - unix:/run/warren/warren.sock\n  - tcp:127.0.0.1:7070\n")
    try:
        M.call("systemctl", "restart", "warren.service")
        p = M.ask("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://127.0.0.1:7070/v1/sandboxes")
        eq((p.returncode, p.stdout), (0, "401"), "over TCP a token is wanted")
        check_box()
        # A socket of systemd that is not in 'listen' is refused, with the reason.
        M.write("/etc/warren/warren.yaml", "listen: [tcp:127.0.0.1:7070]\n")
        ok(M.ask("systemctl", "restart", "warren.service").returncode != 0, "it starts")
        until(lambda: "systemd passes 'unix:/run/warren/warren.sock', which is not in 'listen'" in M.journal(),
              M.journal)
    finally:
        M.remove("/etc/warren/warren.yaml")
    # After the correction, the service recovers, and clients have only waited.
    check_box()


@test
def the_stopped_service_leaves_nothing_behind():
    box()
    M.call("warren", "rm", BOX[0])
    M.call("systemctl", "stop", "warren.socket", "warren.service")
    M.call("systemctl", "disable", "warren.socket", "warren.service")
    eq(M.ask("pgrep", "-a", "warren").stdout, "", "processes")
    until(lambda: marked(SECONDS) is None, "the command is gone")
    for d in M.cgroups:
        left = [below for below, _, _ in os.walk(f"{d}/warren") if below != f"{d}/warren"]
        eq(left, [], "cgroups of sandboxes")
    eq(M.call("sh", "-c", "ls /run/warren/ids /run/warren/boxes | grep -v : | grep . || true"), "", "files")


def main():
    global M
    why = None if ROOT else "needs root"
    for need, there in (("systemd", os.path.exists(SYSTEMD)), ("meson", shutil.which("meson")),
                        ("curl", shutil.which("curl")), ("iproute2", shutil.which("ip")),
                        ("procps", shutil.which("pgrep"))):
        if not there:
            why = why or f"{need} is not installed: tools/run/install-deps test"
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    M = Machine()
    try:
        M.install()
        M.boot()
        return run_tests()
    except Skip as reason:
        print(f"1..0 # SKIP {reason}")
        return 0
    except Exception:
        print("# " + M.said().replace("\n", "\n# "), flush=True)
        raise
    finally:
        M.end()


if __name__ == "__main__":
    sys.exit(main())
