#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-docker.py - the docker driver without the service, with a separate dockerd, and with podman

Prints TAP. docker_drive.c calls the driver's functions one at a time, as the shim does. Containers are inspected from
outside with the daemon's own client, or from inside with a command.
"""
import hashlib
import os
import pty
import select
import socket
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from dockerd import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position

DRIVE = os.path.join(os.environ.get("WARREN_BUILD", "build"), "test/docker-drive")
APPLETS_MORE = ("grep", "kill", "head", "dd", "stty", "hostname", "ps", "readlink", "chmod", "ln", "seq", "tty", "df", "mount")
ALPHABET = "0123456789bcdfghjklmnpqrstvwxyz"
MIB = 1 << 20


def members():
    return {**base_members(), **{f"bin/{a}": symlink("busybox") for a in APPLETS_MORE}}


def new_id():
    return "".join(ALPHABET[b % len(ALPHABET)] for b in os.urandom(12))


class Box:
    """A sandbox that the driver manages; the driver identifies it only by its id."""

    def __init__(self, socket_path, image="base:1", engine=None, create=True, config=None, **spec):
        self.id, self.dir = new_id(), engine or folder()
        self.config = {"kind": "docker", "socket": socket_path, **(config or {})}
        self.enforced = {}
        if create:
            out = self.call("create", json.dumps({"image": image, **spec})).decode()
            self.enforced = {w[0]: (w[1] == "1", w[2]) for w in (line.split(" ", 2) for line in out.splitlines())}

    def made(self):
        """Acts as if the container had been created: writes its id to the file."""
        os.makedirs(f"{self.dir}/{self.id}", exist_ok=True)
        with open(f"{self.dir}/{self.id}/docker", "w", encoding="ascii") as f:
            f.write("cd" * 32)

    def argv(self, *args):
        return [DRIVE, self.id, self.dir, json.dumps(self.config), *args]

    def start(self, *args, **kw):
        kw = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kw}
        return subprocess.Popen(self.argv(*args), env={"PATH": "/usr/bin:/bin", **kw.pop("env", {})}, **kw)

    def run(self, *args, data=None, **kw):
        p = self.start(*args, **({"stdin": subprocess.PIPE} if data is not None else {}), **kw)
        try:
            out, err = p.communicate(data, timeout=WAIT)
        finally:
            p.kill()
            p.wait()
        return subprocess.CompletedProcess(args, p.returncode, out, err)

    def call(self, *args, **kw):
        p = self.run(*args, **kw)
        ok(p.returncode == 0, f"{args}: {p.returncode} {p.stderr[-500:]!r}")
        return p.stdout

    def bad(self, *args, code, words, **kw):
        """The call must fail with this error code, and its message must have all of these words."""
        p = self.run(*args, **kw)
        eq((p.returncode, p.stderr.decode().split(" ", 1)[0]), (125, code), f"{args}: {p.stderr!r}")
        for word in words:
            ok(word in p.stderr.decode(), f"{word!r} is not in {p.stderr!r}")

    def sh(self, script, *options, **kw):
        """Returns the output of the script."""
        return self.call("exec", *options, "--", "sh", "-c", script, **kw).decode()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        p = self.run("destroy")
        ok(p.returncode == 0 or exc[0], f"destroy: {p.stderr!r}")


def two_images(d):
    """One image with tools, and one without any."""
    for name, data in (("base:1", tar(members())), ("empty:1", tar({"etc": directory(), "etc/x": "x\n"}))):
        d.call("import", "-", name, input=data)


def docker():
    return shared(two_images)


def containers(d):
    return d.call("ps", "-aq", "--no-trunc").decode().split()


# ------------------------------------------------------------------- commands


@test
def streams_and_exit_codes_are_returned():
    with Box(docker().socket) as b:
        p = b.run("exec", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
        eq((p.returncode, p.stdout, p.stderr), (7, b"out\n", b"err\n"))
        for code in (0, 1, 126, 127, 128, 255):
            eq(b.run("exec", "--", "sh", "-c", f"exit {code}").returncode, code)
        p = b.run("exec", "--", "sh", "-c", "kill -9 $$")
        eq((p.returncode, p.stderr), (137, b"outcome signal 9 \n"))
        # Output that looks like the daemon's message that a command could not be started.
        p = b.run("exec", "--", "sh", "-c", "printf 'OCI runtime exec failed: no\\r\\n'; exit 126")
        eq((p.returncode, p.stdout, p.stderr), (126, b"OCI runtime exec failed: no\r\n", b""))
        # The command closes its streams, and ends later.
        eq(b.run("exec", "--", "sh", "-c", "exec >&- 2>&-; sleep 1; exit 9").returncode, 9)


@test
def commands_that_cannot_be_started_are_reported():
    with Box(docker().socket) as b:
        for args, code, words in (
                (["--", "no-such-command"], 2, "no-such-command"), (["--", "/etc/passwd"], 13, "permission denied"),
                (["-w", "/no/such", "--", "true"], 2, "/no/such"), (["-u", "stranger", "--", "true"], 22, "stranger")):
            p = b.run("exec", *args)
            said = p.stderr.decode()
            eq((p.returncode, p.stdout, said.split(" ", 3)[:3]), (126, b"", ["outcome", "not-started", str(code)]), said)
            ok("docker: start the exec: " in said and words in said, said)
        p = b.run("exec", "--", "echo", b"\xff")
        ok(p.returncode == 126 and b"not UTF-8" in p.stderr, p.stderr)
        eq(b.sh("echo still here"), "still here\n")


@test
def large_binary_input_is_passed_unchanged():
    data = noise(30 * MIB)
    with Box(docker().socket) as b:
        p = b.run("exec", "-i", "--", "cat", data=data)
        eq((p.returncode, hashlib.sha256(p.stdout).digest()), (0, hashlib.sha256(data).digest()))
        # The command's input ends with the caller's; without -i it is empty.
        eq(b.call("exec", "-i", "--", "sh", "-c", "cat; echo end", data=b"in"), b"inend\n")
        eq(b.sh("cat; echo none"), "none\n")
        # A command that does not read its input can still write, and the input does not delay its end.
        p = b.run("exec", "-i", "--", "sh", "-c", "seq 100000 | tail -n 1 2>/dev/null || echo 100000", data=data[:4 * MIB])
        eq((p.returncode, p.stdout[-7:]), (0, b"100000\n"))
        # Both streams are large and mixed; each keeps its order.
        p = b.run("exec", "--", "sh", "-c", "for i in $(seq 3000); do echo out $i; echo err $i >&2; done")
        eq(p.stdout.decode().split()[1::2], [str(i) for i in range(1, 3001)])
        eq(p.stderr.decode().split()[1::2], [str(i) for i in range(1, 3001)])


@test
def a_command_continues_when_its_reader_is_gone():
    """The command runs to its end; its unread output blocks no other process."""
    with Box(docker().socket) as b:
        p = b.start("exec", "--", "sh", "-c", "seq 200000; echo done > /tmp/done")
        p.stdout.close()
        eq(p.wait(timeout=WAIT), 0)
        p.stderr.close()
        eq(b.sh("cat /tmp/done"), "done\n")


@test
def unread_stdout_does_not_block_stderr():
    """A caller that waits for a line on stderr before it reads stdout gets that line, and then all of stdout."""
    size = 8 * MIB
    with Box(docker().socket) as b:
        p = b.start("exec", "--", "sh", "-c", f"head -c {size} /dev/zero; echo started >&2; seq 100000; echo more >&2")
        try:
            ok(select.select([p.stderr], [], [], WAIT)[0], "stderr waits for stdout")
            eq(p.stderr.readline(), b"started\n")
            out, err = p.communicate(timeout=WAIT)
        finally:
            p.kill()
            p.wait()
        eq((p.returncode, err, out.count(0), out[:size].count(0)), (0, b"more\n", size, size))
        eq(out[size:].split(), [b"%d" % i for i in range(1, 100001)])


@test
def user_directory_and_environment_are_set():
    with Box(docker().socket, user="app", workdir="/made/here", env=["A=of sandbox", "B=b"], hostname="burrow") as b:
        # The shim remembers the user of commands; the first process is root, and opens files for that user.
        eq(b.sh("id -u; id -g; pwd; echo $A $B; hostname", "-u", "app"), "1234\n1235\n/made/here\nof sandbox b\nburrow\n")
        eq(b.sh("id -u; pwd; echo $A $B", "-u", "0:0", "-w", "/tmp", "-e", "A=of exec"), "0\n/tmp\nof exec b\n")


def on_terminal(b, script, keys=b"", resize=None):
    """What appears on a terminal of 31 by 99 characters while the script runs. After "ready", the keys and the new
    size are sent."""
    ours, theirs = pty.openpty()
    termios_size(theirs, 31, 99)
    p = b.start("exec", "-t", "--", "sh", "-c", script, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen, told = b"", False
    with contextlib.suppress(OSError):
        while select.select([ours], [], [], WAIT)[0]:
            seen += os.read(ours, 4096)
            if b"ready" in seen and not told:
                told = True
                os.write(ours, keys)
                if resize:
                    termios_size(ours, *resize)
                    p.send_signal(signal.SIGWINCH)
    os.close(ours)
    return p.wait(timeout=WAIT), seen


def termios_size(fd, rows, cols):
    import fcntl  # pylint: disable=import-outside-toplevel
    import struct  # pylint: disable=import-outside-toplevel
    import termios  # pylint: disable=import-outside-toplevel
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


@test
def terminals_have_a_size_and_pass_keys_on():
    with Box(docker().socket) as b:
        wait_for = "until test \"$(stty size 2>/dev/null)\" = '{}'; do sleep 0.05; done; "
        code, seen = on_terminal(b, wait_for.format("31 99") + "tty; stty size; exit 5")
        eq((code, seen), (5, b"/dev/pts/0\r\n31 99\r\n"))
        code, seen = on_terminal(b, "echo ready; " + wait_for.format("40 120") + "stty size", resize=(40, 120))
        eq((code, seen), (0, b"ready\r\n40 120\r\n"))
        # Keys arrive unchanged, including docker's detach keys and the interrupt character.
        keys = bytes(c for c in range(256) if c != 0x1e) + b"\x10\x11\x10\x11"
        code, seen = on_terminal(b, f"stty raw -echo; echo ready; head -c {len(keys)}", keys=keys)
        eq((code, seen), (0, b"ready\n" + keys))
        code, seen = on_terminal(b, "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done", keys=b"\x03")
        eq((code, b"caught" in seen), (3, True), seen)


@test
def a_killed_relay_does_no_harm():
    with Box(docker().socket) as b:
        p = b.start("exec", "--", "sleep", "1000")
        while "sleep 1000" not in b.sh("ps"):
            time.sleep(0.05)
        p.terminate()
        eq(p.wait(timeout=WAIT), -signal.SIGTERM)
        p.stdout.close()
        p.stderr.close()


@test
def clients_do_not_wait_for_each_other():
    """One command whose output is not read, and thirty others."""
    with Box(docker().socket) as b:
        stuck = b.start("exec", "--", "sh", "-c", "while :; do echo y; done")
        results = []
        threads = [threading.Thread(target=lambda i=i: results.append(b.sh(f"echo {i}"))) for i in range(30)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(WAIT)
        eq(sorted(int(r) for r in results), list(range(30)))
        stuck.kill()
        stuck.communicate()


# ------------------------------------------------------------------ containers


@test
def containers_are_identified_by_name_and_labels():
    d = docker()
    with Box(d.socket) as b:
        (told,) = json.loads(d.call("inspect", f"warren-{b.id}"))
        eq(told["Config"]["Labels"], {"warren.id": b.id, "warren.engine": b.dir, "warren.snapshot": ""})
    eq(containers(d), [])
    # A container with that name that belongs to another engine is left alone.
    b = Box(d.socket, create=False)
    for labels in ([], ["--label", f"warren.id={b.id}", "--label", "warren.engine=/elsewhere"]):
        d.call("create", "--name", f"warren-{b.id}", *labels, "base:1", "true")
        b.call("destroy")
        eq(len(containers(d)), 1)
        b.bad("create", '{"image": "base:1"}', code="EBUSY", words=["docker: create the container: ", "already in use"])
        eq(len(containers(d)), 1)
        d.call("rm", f"warren-{b.id}")
    b.call("destroy")


@test
def a_container_has_the_expected_restrictions():
    d = docker()
    with Box(d.socket) as b:
        (told,) = json.loads(d.call("inspect", f"warren-{b.id}"))
        host = told["HostConfig"]
        eq((host["NetworkMode"], host["Privileged"], host["IpcMode"], host["CgroupnsMode"], host["SecurityOpt"], host["PidMode"]),
           ("none", False, "private", "private", ["no-new-privileges"], ""))
        eq(b.sh("grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status").split(),
           ["CapInh:", "0" * 16, *[w for n in ("Prm", "Eff", "Bnd") for w in (f"Cap{n}:", "00000000800405fb")], "CapAmb:", "0" * 16,
            "NoNewPrivs:", "1", "Seccomp:", "2"])
        eq(b.sh("grep -E '^Cap(Prm|Eff)' /proc/self/status", "-u", "1234").split()[1::2], ["0" * 16] * 2)
        eq(b.sh("ls /sys/class/net; cat /sys/class/net/lo/flags"), "lo\n0x9\n")
        # Warren adds one file and a socket, which cannot be changed and are in no layer of the image.
        eq(b.sh("touch /dev/.warren 2>&1 | wc -l; busybox mv /dev/.warren-door /dev/x 2>&1 | wc -l; kill -9 1; ls -A /"), "1\n1\n" + b.sh("ls -A /"))
        changed = {line.split()[1] for line in d.call("diff", f"warren-{b.id}").decode().splitlines()}
        ok(not any("warren" in path for path in changed), changed)
        for name in ("namespaces", "capabilities", "seccomp", "no_new_privs", "network", "memory", "pids", "nofile"):
            ok(b.enforced[name][0], f"{name}: {b.enforced}")
        for name in ("ids", "disk"):
            ok(not b.enforced[name][0], f"{name}: {b.enforced}")
    # There is no network, not even loopback.
    with Box(d.socket, network=1) as b:
        eq((b.sh("ls /sys/class/net; cat /sys/class/net/lo/flags"), b.enforced["network"]), ("lo\n0x8\n", (True, "none")))
    eq(containers(d), [])


@test
def orphans_are_reaped():
    with Box(docker().socket) as b:
        b.sh("for i in 1 2 3 4 5; do (sleep 0.2 & ) ; done")
        deadline = time.monotonic() + WAIT
        while "sleep" in b.sh("cat /proc/[0-9]*/stat 2>/dev/null | grep -v 'cat\\|grep' || true") and time.monotonic() < deadline:
            time.sleep(0.1)
        eq(b.sh("grep -l '^State:.*Z' /proc/[0-9]*/status 2>/dev/null || true"), "")


@test
def limits_are_enforced_by_docker():
    d = docker()
    with Box(d.socket, memory=64 * MIB, cpu_millis=1500, pids=20, nofile=77) as b:
        host = json.loads(d.call("inspect", f"warren-{b.id}"))[0]["HostConfig"]
        eq([host[k] for k in ("Memory", "MemorySwap", "CpuPeriod", "CpuQuota", "PidsLimit")],
           [64 * MIB, 64 * MIB, 100000, 150000, 20])
        eq(b.sh("ulimit -n"), "77\n")
        eq((b.enforced["memory"][0], b.enforced["cpus"][0], b.enforced["pids"][0]), (True, True, True))
        # Each limit has a positive control: usage within the limit works.
        eq(b.sh("dd if=/dev/zero of=/dev/null bs=32M count=1 2>/dev/null && echo fits"), "fits\n")
        eq(b.run("exec", "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=256M", "count=1").returncode, 137)
        ok(b.run("exec", "--", "sh", "-c", "for i in $(seq 40); do sleep 2 & done; wait").returncode != 0, "forty processes")
        eq(b.sh("for i in 1 2 3; do sleep 0.1 & done; wait; echo all"), "all\n")
        usage = [int(n) for n in b.call("stats").split()]
        ok(0 < usage[0] <= 64 * MIB and usage[1] >= 32 * MIB and usage[2] > 0 and usage[3] >= 1, usage)
        eq(usage[4], 1, "killed for want of memory")
        b.call("update", str(128 * MIB), "5", "500")
        host = json.loads(d.call("inspect", f"warren-{b.id}"))[0]["HostConfig"]
        eq([host[k] for k in ("Memory", "MemorySwap", "CpuPeriod", "CpuQuota", "PidsLimit")],
           [128 * MIB, 128 * MIB, 1000000, 5000, 500])
        b.call("update", "0", str((1 << 64) - 1), "0")
        eq(json.loads(d.call("inspect", f"warren-{b.id}"))[0]["HostConfig"]["CpuQuota"], -1)


@test
def unsupported_options_are_refused():
    d = docker()
    b = Box(d.socket, create=False)
    b.bad("create", json.dumps({"image": "base:1", "disk": 64 * MIB}), code="EOPNOTSUPP", words=["docker: disk: "])
    b.bad("create", '{"image": "dir:/srv"}', code="EOPNOTSUPP", words=["docker: image 'dir:/srv'"])
    b.bad("create", "{}", code="EINVAL", words=["docker: no image"])
    for config, words in (({"sockets": "x"}, "'sockets' is not known"), ({"socket": 5}, "'socket' is not a string"),
                          ({"pull": "often"}, "missing, never or always"), ({"socket": "tcp://x"}, "not a unix socket")):
        c = Box(d.socket, create=False, config=config)
        c.bad("create", '{"image": "base:1"}', code="EINVAL", words=[words])
    eq(containers(d), [])
    # A soft limit, and a limit that is fulfilled in another way.
    with Box(d.socket, disk=64 * MIB, soft_limits=8) as b:
        eq(b.enforced["disk"][0], False)
    with Box(d.socket, disk=64 * MIB, read_only=True) as b:
        eq((b.enforced["disk"][0], b.enforced["read_only"][0]), (True, True))
        eq(b.sh("touch /x 2>/dev/null || echo refused"), "refused\n")


@test
def mounts_are_created():
    path = folder()
    with open(f"{path}/f", "w", encoding="ascii") as f:
        f.write("host\n")
    with Box(docker().socket, mounts=[{"source": path, "target": "/ro", "read_only": True}, {"source": path, "target": "/rw"},
                                      {"target": "/t", "size": 2 * MIB}]) as b:
        eq(b.sh("cat /ro/f; touch /ro/x 2>/dev/null || echo refused; echo new > /rw/g; df -k /t | grep -c 2048"), "host\nrefused\n1\n")
        eq(b.sh("dd if=/dev/zero of=/t/x bs=1M count=1 2>/dev/null && echo fits; dd if=/dev/zero of=/t/y bs=1M count=5 2>/dev/null || echo full"),
           "fits\nfull\n")
    with open(f"{path}/g", encoding="ascii") as f:
        eq(f.read(), "new\n")
    Box(docker().socket, create=False).bad("create", json.dumps({"image": "base:1", "mounts": [{"source": "/no/such", "target": "/m"}]}),
                                           code="EINVAL", words=["docker: create the container: ", "/no/such"])


@test
def the_checked_file_is_the_mounted_file():
    """The daemon resolves a path again: if the file has changed since the check, nothing is run."""
    path, other = folder(), folder()
    with open(f"{path}/f", "w", encoding="ascii") as f:
        f.write("host\n")
    os.symlink(other, f"{path}/link")
    with Box(docker().socket, mounts=[{"source": path, "target": "/m", "judged": path}]) as b:
        eq(b.sh("cat /m/f"), "host\n")
    for source, judged in ((path, other), (f"{path}/link", path), ("/usr", path)):
        Box(docker().socket, create=False).bad(
            "create", json.dumps({"image": "base:1", "mounts": [{"source": source, "target": "/m", "judged": judged}]}),
            code="ESTALE", words=["docker: volume '", "no longer refers to the same file"])


@test
def a_container_is_paused_and_resumed():
    with Box(docker().socket) as b:
        b.call("pause")
        b.call("pause")
        p = b.run("exec", "--", "true")
        ok(p.returncode == 126 and b"is paused" in p.stderr, p.stderr)
        b.call("resume")
        b.call("resume")
        eq(b.sh("echo on"), "on\n")
        b.call("pause")
    eq(containers(docker()), [], "a paused one is destroyed as well")
    b.bad("pause", code="ESRCH", words=["docker: pause the container: "])


@test
def an_empty_image_can_be_used():
    with Box(docker().socket, image="empty:1") as b:
        p = b.run("exec", "--", "sh")
        ok(p.returncode == 126 and b'"sh"' in p.stderr, p.stderr)
        eq(b.run("exec", "--", "/dev/.warren", "nothing").returncode, 1)
        # Files are written and read without tools of the image.
        data = noise(3 * MIB + 17)
        b.call("write", "/etc/new", str(len(data)), "640", "12", "3000000", data=data)
        eq(b.call("read", "/etc/new", "0", str(1 << 40)), data)
        eq(b.call("read", "/etc/new", "1000", "50000"), data[1000:51000])
        eq(b.call("read", "/etc/new", str(len(data)), "10"), b"")


@test
def files_are_copied_as_archives():
    with Box(docker().socket) as b:
        long = "n" * 200
        for path, data in (("/tmp/a", b""), ("/tmp/b", noise(512)), (f"/tmp/{long}", b"long"), ("/tmp/\u00fc \n'\"", b"odd"), ("/top", b"x" * 513)):
            b.call("write", path, str(len(data)), "4750", "1234", "77", data=data)
            eq(b.call("read", path, "0", "10000000"), data)
        eq(b.sh(f"stat -c '%a %u %g %s' /tmp/a /tmp/{long}"), "4750 1234 77 0\n4750 1234 77 4\n")
        b.sh("ln -s b /tmp/l; ln -s /tmp/l /l2; ln -s loop /tmp/loop; mkdir /tmp/d")
        eq(b.call("read", "/l2", "0", "10000"), noise(512))
        for path, code in (("/tmp/none", "ENOENT"), ("/tmp/d", "EISDIR"), ("/tmp/loop", "ELOOP"), ("/tmp/none/x", "ENOENT")):
            b.bad("read", path, "0", "10", code=code, words=["docker: read"])
        b.bad("write", "/tmp/none/x", "1", "644", "0", "0", data=b"x", code="ENOENT", words=["docker: write a file"])
        # A write with fewer bytes than announced fails.
        eq(b.run("write", "/tmp/half", "100", "644", "0", "0", data=b"half").returncode, 125)


# ---------------------------------------------------------------------- images


@test
def images_are_pulled_on_request():
    d = docker()
    ref = registry().push(simple("pulled"), "docker/x", "1")
    never = Box(d.socket, create=False, config={"pull": "never"})
    never.bad("create", json.dumps({"image": ref}), code="ENOMEDIUM", words=["pull: never", ref])
    with Box(d.socket, image=ref) as b:
        eq(b.sh("cat /text"), "pulled")
    digest_ref = registry().push(simple("by digest"), "docker/y")
    with Box(d.socket, image=digest_ref) as b:
        eq(b.sh("cat /text"), "by digest")
    with Box(d.socket, image=None, config={"image": ref}) as b:
        eq(b.sh("cat /text"), "pulled")
    b = Box(d.socket, create=False)
    for name, code in ((f"{registry().host}/no/such:1", "ENOMEDIUM"), ("No Image", "EINVAL")):
        b.bad("create", json.dumps({"image": name}), code=code, words=["docker: ", name])
    # A tag that has moved is pulled again only if the configuration says so.
    registry().push(simple("moved"), "docker/x", "1")
    for pull, text in (("missing", "pulled"), ("always", "moved")):
        with Box(d.socket, image=ref, config={"pull": pull}) as b:
            eq(b.sh("cat /text"), text)
    eq(containers(d), [])


@test
def images_are_loaded_from_archives():
    d = docker()
    d.call("tag", "base:1", "some/saved:1")
    path = folder()
    archive = f"{path}/some_saved:1.tar"
    with open(archive, "wb") as f:
        f.write(d.call("save", "some/saved:1"))
    os.symlink(archive, f"{path}/other:1.tar")
    d.call("rmi", "some/saved:1")
    config = {"archives": path, "pull": "never"}
    with Box(d.socket, image="some/saved:1", config=config) as b:
        eq(b.sh("echo loaded"), "loaded\n")
    b = Box(d.socket, create=False, config=config)
    b.bad("create", '{"image": "other:1"}', code="ENOMEDIUM", words=["does not contain the image 'other:1'"])
    b.bad("create", '{"image": "missing:1"}', code="ENOMEDIUM", words=["has no image 'missing:1'"])
    with open(archive, "wb") as f:
        f.write(b"no archive")
    d.call("rmi", "some/saved:1")
    b.bad("create", '{"image": "some/saved:1"}', code="ENOMEDIUM", words=["docker: load the image: "])


# ---------------------------------------------------------------------- faults


@test
def a_container_killed_from_outside_is_reported_as_lost():
    d = docker()
    with Box(d.socket) as b:
        p = b.start("exec", "--", "sleep", "1000")
        waiter = b.start("wait")
        while "sleep 1000" not in b.sh("ps"):
            time.sleep(0.05)
        eq(waiter.poll(), None)
        d.call("kill", f"warren-{b.id}")
        out, err = p.communicate(timeout=WAIT)
        eq((p.returncode, out, err), (137, b"", b"outcome lost 9 \n"))
        eq(waiter.wait(timeout=WAIT), 0)
        waiter.communicate()
        p = b.run("exec", "--", "true")
        ok(p.returncode == 126 and b"outcome not-started 3 docker: create an exec: " in p.stderr and b"is not running" in p.stderr, p.stderr)
    with Box(d.socket) as b:
        waiter = b.start("wait")
        d.call("rm", "-f", f"warren-{b.id}")
        eq(waiter.wait(timeout=WAIT), 0)
        waiter.communicate()
        p = b.run("exec", "--", "true")
        ok(b"outcome not-started 3 docker: create an exec: No such container" in p.stderr, p.stderr)


@test
def a_missing_daemon_is_reported():
    path = f"{folder()}/s"
    b = Box(path, create=False)
    b.bad("create", '{"image": "base:1"}', code="EHOSTDOWN", words=["docker: ", "there is no socket", path, "systemctl start docker"])
    b.bad("destroy", code="EHOSTDOWN", words=["docker: "])
    b.made()
    p = b.run("exec", "--", "true")
    ok(p.returncode == 126 and b"docker: create an exec: there is no socket" in p.stderr, p.stderr)
    lines = [line.split("|") for line in b.call("probe").decode().splitlines()]
    eq((len(lines), lines[0][:2]), (1, ["daemon", "0"]))
    ok(lines[0][3] and lines[0][4], lines)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
    b.bad("destroy", code="EHOSTDOWN", words=["nothing listens on"])
    os.chmod(path, 0o600)
    if ROOT:
        p = subprocess.run(b.argv("destroy"), user=65534, group=65534, extra_groups=[], capture_output=True, timeout=WAIT, check=False)
        ok(p.returncode == 125 and p.stderr.startswith(b"EACCES docker: ") and b"group" in p.stderr, p.stderr)


class Silent:
    """A daemon that accepts every connection, sends @first, and then @again without end; or sends nothing."""

    def __init__(self, first=b"", again=b""):
        self.path, self.first, self.again, self.done = f"{folder()}/s", first, again, threading.Event()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.connections = []
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                self.connections.append(self.listener.accept()[0])
                threading.Thread(target=self.speak, args=(self.connections[-1],), daemon=True).start()

    def speak(self, connection):
        with contextlib.suppress(OSError):
            connection.sendall(self.first)
            while self.again and not self.done.wait(0.05):
                connection.sendall(self.again)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.done.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join(WAIT)
        for s in (self.listener, *self.connections):
            s.close()


@test
def a_silent_daemon_causes_a_timeout():
    """Each step times out with an error that names it; a container that was never requested need not be removed."""
    head = b"HTTP/1.1 200 OK\r\n"
    for words in ((), (head + b"\r\n", b"["), (head, b"X: y\r\n")):
        with Silent(*words) as d:
            b = Box(d.path, create=False, config={"timeout": 1})
            b.bad("create", '{"image": "base:1"}', code="ETIMEDOUT", words=["docker: identify the daemon: ", d.path, "does not answer"])
            b.bad("destroy", code="ETIMEDOUT", words=["docker: inspect the container: ", d.path])
            b.made()
            p = b.run("exec", "--", "true")
            ok(p.returncode == 126 and p.stderr.startswith(b"outcome not-started 110 docker: create an exec: "), p.stderr)
    for timeout in (0, 86401, "1"):
        Box("/s", create=False, config={"timeout": timeout}).bad("create", "{}", code="EINVAL", words=["'timeout' must be 1 to 86400"])


@test
def a_daemon_that_stops_answering_is_reported():
    """The daemon confirms an exec and then stops answering: its state is unknown, and it is not reported as
    started."""
    path = f"{folder()}/s"
    made = http(b'{"Id":"' + b"ab" * 32 + b'"}', "201 Created")
    b = Box(path, create=False, config={"timeout": 1})
    b.made()
    done = threading.Event()
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        s.listen()

        def serve():
            with s.accept()[0] as c:
                c.recv(65536)
                c.sendall(made)
            with s.accept()[0]:
                done.wait(WAIT)
        t = threading.Thread(target=serve)
        t.start()
        p = b.run("exec", "--", "true")
        done.set()
        t.join(WAIT)
    ok(p.returncode == 126 and p.stderr.startswith(b"outcome not-started 110 docker: start the exec: ") and b"does not answer" in p.stderr, p.stderr)


def answers(path, *replies):
    """A daemon that sends these bytes, one reply per connection, and nothing else."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    s = socket.socket(socket.AF_UNIX)
    s.bind(path)
    s.listen()

    def serve():
        for reply in replies:
            c, _ = s.accept()
            with c, contextlib.suppress(OSError):
                c.recv(65536)
                c.sendall(reply)
        s.close()
    t = threading.Thread(target=serve, daemon=True)
    t.start()
    return t


def http(body, status="200 OK"):
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@test
def answers_that_are_not_from_docker_are_refused():
    path = f"{folder()}/s"
    made = http(b'{"Id":"' + b"ab" * 32 + b'"}', "201 Created")
    b = Box(path, create=False)
    b.made()
    for replies, words in (([b"hello\r\n\r\n"], b"docker: create an exec: "), ([http(b"[]")], b"is not from the Engine API"),
                           ([http(b'{"Id":"../x"}')], b"is not from the Engine API"), ([made, b"nonsense\r\n\r\n"], b"is not from the Engine API"),
                           ([made, b""], b"closed the connection"), ([made, http(b'{"message":"so\x01not\\n"}', "500 No")], b"docker: start the exec: "),
                           ([http(b'{"message":"' + b"x" * 5000000 + b'"}', "500 No")], b"docker: create an exec: ")):
        t = answers(path, *replies)
        p = b.run("exec", "--", "true")
        ok(p.returncode == 126 and b"outcome not-started" in p.stderr and words in p.stderr, f"{replies[-1][:60]!r}: {p.stderr!r}")
        t.join(WAIT)
    # An invalid frame ends the streams, but the result is still used.
    up = b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n"
    result = http(b'{"Running":false,"ExitCode":4,"Pid":7}')
    t = answers(path, made, up + b"\x01\0\0\0\0\0\0\x03abc\x07\x07\x07\x07more", result)
    p = b.run("exec", "--", "true")
    eq((p.returncode, p.stdout), (4, b"abc"))
    t.join(WAIT)


@test
def a_daemon_without_disk_space_is_reported():
    """The error does not blame the image or the request, whatever the operation."""
    path = f"{folder()}/s"
    full = b'{"message":"mkdir /var/lib/docker/overlay2/x: no space left on device"}'
    none = http(b'{"message":"No such image"}', "404 No")
    info, there = http(b'{"ServerVersion":"1","Driver":"overlay2"}'), http(b"{}")
    pulling = b'{"status":"Extracting","id":"ab"}\r\n{"error":"failed to register layer: write /x: no space left on device"}\r\n'
    b = Box(path, create=False)
    for replies, step in (([info, none, http(pulling)], "pull the image"),
                          ([info, none, http(full, "500 No")], "pull the image"),
                          ([info, there, there, there, http(full, "500 No"), *[http(b"{}", "404 No")] * 2], "create the container")):
        t = answers(path, *replies)
        p = b.run("create", '{"image": "base:1"}')
        ok(p.stderr.startswith(b"ENOSPC docker: " + step.encode()) and b"no space left" in p.stderr, p.stderr)
        t.join(WAIT)
    eq(os.listdir(f"{b.dir}/{b.id}"), [], "what is left of it here")


@test
def a_restarted_daemon_is_handled():
    with Docker() as d:
        d.call("import", "-", "base:1", input=tar(members()))
        b = Box(d.socket)
        p = b.start("exec", "--", "sleep", "1000")
        waiter = b.start("wait")
        while "sleep 1000" not in b.sh("ps"):
            time.sleep(0.05)
        d.restart()
        out, err = p.communicate(timeout=WAIT)
        eq((p.returncode, out), (137, b""), err)
        eq(waiter.wait(timeout=WAIT), 0)
        waiter.communicate()
        ok(b"is not running" in b.run("exec", "--", "true").stderr, "exec on a stopped container")
        # The next sandbox of the same engine removes containers without a directory, and no others.
        kept, gone = Box(d.socket, engine=b.dir), Box(d.socket, engine=b.dir)
        other = Box(d.socket)
        for x in (kept, gone, other):
            d.call("kill", f"warren-{x.id}")
        for x in (b, gone, other):
            shutil.rmtree(f"{x.dir}/{x.id}")
        with Box(d.socket, engine=b.dir) as fresh:
            names = d.call("ps", "-a", "--format", "{{.Names}}").decode().split()
            eq(sorted(names), sorted(f"warren-{x.id}" for x in (kept, other, fresh)))
        for x in (b, gone, kept, other):
            x.call("destroy")
        eq(containers(d), [])


@test
def no_container_is_left_behind():
    d = docker()
    eq(containers(d), [])
    eq(d.call("volume", "ls", "-q"), b"")


# ---------------------------------------------------------------------- podman


@test
def podman_can_be_used_instead_of_docker():
    if not ROOT or not shutil.which("podman"):
        raise Skip("podman is not installed, or we are not root")
    path = folder()
    env = {"PATH": os.environ["PATH"], "HOME": path}
    # Podman's usual runtime, crun, does not support machines with both versions of cgroups.
    common = ["podman", *(["--runtime", "runc"] if shutil.which("runc") else []), "--root", f"{path}/root", "--runroot", f"{path}/run", "--tmpdir", f"{path}/tmp", "--cgroup-manager", "cgroupfs",
              "--storage-driver", "vfs", "--events-backend", "file"]
    p = subprocess.run([*common, "import", "-", "localhost/base:1"], input=tar(members()), capture_output=True, timeout=WAIT, check=False,
                       env=env)
    if p.returncode:
        raise Skip(f"podman does not work here: {p.stderr[-200:]!r}")
    with open(f"{path}/log", "wb") as log:
        service = subprocess.Popen([*common, "system", "service", "--time", "0", f"unix://{path}/s"], stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=log, env=env)
    try:
        deadline = time.monotonic() + 20
        while not os.path.exists(f"{path}/s") and time.monotonic() < deadline:
            time.sleep(0.05)
        with Box(f"{path}/s", image="localhost/base:1", memory=128 * MIB) as b:
            p = b.run("exec", "-i", "--", "sh", "-c", "cat; echo err >&2; exit 7", data=b"through podman\n")
            eq((p.returncode, p.stdout, p.stderr), (7, b"through podman\n", b"err\n"))
            p = b.run("exec", "--", "no-such-command")
            ok(p.returncode == 126 and b"outcome not-started 2 " in p.stderr, p.stderr)
            eq(b.sh("grep NoNewPrivs /proc/self/status; ls /sys/class/net"), "NoNewPrivs:\t1\nlo\n")
            eq(b.run("exec", "--", "true").returncode, 0)
            p = b.run("exec", "--", "sh", "-c", "echo 'Error: mine: OCI ' >&2; exit 3")
            eq((p.returncode, p.stderr), (3, b"Error: mine: OCI \n"))
            eq(on_terminal(b, "echo ready; exit 5"), (5, b"ready\r\n"))
            b.call("pause")
            b.call("resume")
            ok(int(b.call("stats").split()[0]) > 0, "memory")
        eq(subprocess.run([*common, "ps", "-aq"], capture_output=True, timeout=WAIT, check=True, env=env).stdout, b"")
    finally:
        service.terminate()
        service.wait()
        subprocess.run([*common, "rm", "-af"], capture_output=True, timeout=WAIT, check=False, env=env)


if __name__ == "__main__":
    sys.exit(main(run))
