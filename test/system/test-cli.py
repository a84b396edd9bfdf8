#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-cli.py - the program as its users meet it: options, statuses, signals, terminals

Speaks TAP. $WARREN is the program (default build/warren). After every test nothing may be left of
a sandbox. What would be hostile outside of a sandbox is bounded by itself, and nothing is run at
all before a probe has shown that commands are isolated.
"""
import contextlib
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from terminal import Terminal  # pylint: disable=wrong-import-position

WAIT = 20  # seconds that nothing here takes


def run(*args, status=0, stderr=b"", **kw):
    """A run with its status and stderr checked; returns its stdout."""
    p = warren("run", *args, **kw)
    if p.returncode != status or (stderr is not None and p.stderr != stderr):
        raise AssertionError(
            f"{args}: status {p.returncode} (wanted {status}), stderr {p.stderr[:300]!r} "
            f"(wanted {stderr!r}), stdout {(p.stdout or b'')[:200]!r}")
    return p.stdout


def sh(script, *args, **kw):
    return run(*args, "--", "sh", "-c", script, **kw)


def run_json(*args, status=0, stderr=b"", **kw):
    text = run("--json", *args, status=status, stderr=stderr, **kw)
    eq(text.count(b"\n"), 1, "lines of JSON")
    return json.loads(text.decode("utf-8", "strict"))


def start(*args, **kw):
    kw.setdefault("stdin", subprocess.DEVNULL)
    kw.setdefault("stdout", subprocess.PIPE)
    kw.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen([WARREN, "run", *args], **kw)


def finish(p):
    try:
        out, err = p.communicate(timeout=WAIT)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
        raise AssertionError(f"it hangs; stdout {out[-200:]!r}, stderr {err[-200:]!r}") from None
    return p.returncode, out, err


# ------------------------------------------------------------- what is left


def locked_inodes():
    with open("/proc/locks", encoding="ascii") as f:
        return {int(line.split()[5].split(":")[2]) for line in f if "->" not in line}


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def leftovers():
    """What nobody owns, or one of our own processes."""
    locked = locked_inodes()
    left, owned = set(), set()
    for path in glob.glob(f"{RUN_DIR}/engines/*"):
        with contextlib.suppress(FileNotFoundError):
            if os.stat(path).st_ino not in locked:
                left.add(path)
    for path in glob.glob(f"{RUN_DIR}/ids/*"):
        with contextlib.suppress(OSError):
            engine, sandbox = os.readlink(path).split("/")
            if os.stat(f"{RUN_DIR}/engines/{engine}").st_ino in locked:
                owned.add(sandbox)
            else:
                left.add(path)
    left |= left_cgroups(owned)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as f:
        left |= {mount for mount in (line.split()[4] for line in f) if "warren" in mount and mount != RUN_DIR}
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as f:
        left |= {f"process {pid}" for pid in f.read().split() if is_alive(pid)}
    return left


def check_nothing_left(before, seconds=10):
    """Removal may go on for a moment after a SIGKILL of ours."""
    left = leftovers() - before
    deadline = time.monotonic() + seconds
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left &= leftovers()
    ok(not left, f"left behind: {sorted(left)[:10]}")


@test
def why_a_sandbox_could_not_be_made_is_told_every_time():
    """Its first process may be gone before it is asked for anything."""
    for _ in range(30):
        p = warren("run", "--quiet", "--tmpfs", "/usr/x", "--", "true")
        eq((p.returncode, b"mount point '/usr/x': Read-only file system" in p.stderr), (125, True), p.stderr)


@test
def what_is_left_would_be_seen():
    """The control for the check after every other test."""
    bases = [d for d in ("/sys/fs/cgroup/memory/warren", "/sys/fs/cgroup/warren") if os.path.isdir(d)]
    if not ROOT or not bases:
        raise Skip("no cgroups of Warren's to make one in")
    before = leftovers()
    fake = f"{bases[0]}/left-{os.getpid()}"
    os.mkdir(fake)
    try:
        check_nothing_left(before, seconds=1)
    except AssertionError as e:
        ok(fake in str(e), e)
    else:
        raise AssertionError("a cgroup that was left behind is not noticed")
    finally:
        os.rmdir(fake)


# ------------------------------------------------------------ bad arguments

EXAMPLE = "warren run -m 512m --timeout 30s -- make test"
MANY = "x" * 300

# Arguments of `warren run` and the line that answers them, each with status 125.
BAD = [
    ([], "no command to run (example: warren run -- uname -n)"),
    ([""], "no command to run (example: warren run -- uname -n)"),
    (["--"], "no command to run (example: warren run -- uname -n)"),
    (["-z", "true"], f"unknown option '-z' (see --help; example: {EXAMPLE})"),
    (["--frobnicate", "true"], f"unknown option '--frobnicate' (see --help; example: {EXAMPLE})"),
    (["--memroy", "1g", "true"], "unknown option '--memroy', did you mean --memory? (example: --memory 512m)"),
    (["--mem=1g", "true"], "unknown option '--mem=1g', did you mean --memory? (example: --memory 512m)"),
    (["--red-only", "true"], "unknown option '--red-only', did you mean --read-only? (example: --read-only)"),
    (["-iz", "true"], f"unknown option '-z' (see --help; example: {EXAMPLE})"),
    (["--bad\nline", "true"], f"unknown option '--bad?line' (see --help; example: {EXAMPLE})"),
    (["--memory"], "--memory needs a value (example: --memory 512m)"),
    (["-m"], "--memory needs a value (example: --memory 512m)"),
    (["-e"], "--env needs a value (example: --env DEBUG=1)"),
    (["--read-only=yes", "true"], "--read-only takes no value (example: --read-only)"),
    (["--memory", "lots", "true"], "--memory: 'lots' is not a size: use a number with k, m, g or t (example: --memory 512m)"),
    (["-mlots", "true"], "--memory: 'lots' is not a size: use a number with k, m, g or t (example: --memory 512m)"),
    (["--memory=", "true"], "--memory: '' is not a size: use a number with k, m, g or t (example: --memory 512m)"),
    (["--memory", "-5m", "true"], "--memory: '-5m' is not a size: use a number with k, m, g or t (example: --memory 512m)"),
    (["--memory", "0", "true"], "--memory: size '0' is less than a byte (example: --memory 512m)"),
    (["--memory", "99999999t", "true"], "--memory: size '99999999t' is too large (example: --memory 512m)"),
    (["--memory", "1k", "true"], "--memory: '1k' is less than 1m (example: --memory 512m)"),
    (["--disk", "1023k", "true"], "--disk: '1023k' is less than 1m (example: --disk 1g)"),
    (["--disk", "1x", "true"], "--disk: '1x' is not a size: use a number with k, m, g or t (example: --disk 1g)"),
    (["--cpus", "two", "true"], "--cpus: 'two' is not a number of processors (example: --cpus 1.5)"),
    (["--cpus", "0", "true"], "--cpus: '0' is not between 0.001 and 1000 processors (example: --cpus 1.5)"),
    (["--cpus", "1001", "true"], "--cpus: '1001' is not between 0.001 and 1000 processors (example: --cpus 1.5)"),
    (["--pids", "0", "true"], "--pids: '0' is less than 1 (example: --pids 100)"),
    (["--pids", "-1", "true"], "--pids: '-1' is not a whole number (example: --pids 100)"),
    (["--pids", "1e3", "true"], "--pids: '1e3' is not a whole number (example: --pids 100)"),
    (["--pids", "4194305", "true"], "--pids: '4194305' is more than 4194304 (example: --pids 100)"),
    (["--nofile", "3", "true"], "--nofile: '3' is less than 4 (example: --nofile 1024)"),
    (["--nofile", "1.5", "true"], "--nofile: '1.5' is not a whole number (example: --nofile 1024)"),
    (["--nofile", "99999999", "true"], "--nofile: '99999999' is more than 1048576 (example: --nofile 1024)"),
    (["--timeout", "30x", "true"], "--timeout: '30x' is not a duration: use seconds, or a number with ms, s, m or h (example: --timeout 30s)"),
    (["--timeout", "0s", "true"], "--timeout: duration '0s' is less than 1ms (example: --timeout 30s)"),
    (["--timeout", "999999999999h", "true"], "--timeout: duration '999999999999h' is too long (example: --timeout 30s)"),
    (["--network", "host", "true"], "--network: 'host' is not none or loopback (example: --network none)"),
    (["--image", "", "true"], "--image: '' is not an image (example: --image dir:./rootfs)"),
    (["--image", "--", "true"], "--image: '--' is not an image (example: --image dir:./rootfs)"),
    (["--pull", "never", "--image", "no such", "true"],
     "image 'no such': 'no such' is not an image reference: names are lower-case letters and digits, separated by . _ - (example: python:3.12)"),
    (["--pull", "never", "--image", "no/such:thing", "true"], "create a sandbox: image 'no/such:thing': there is no image 'no/such:thing' on this machine"),
    (["--pull", "now", "true"], "--pull: 'now' is not missing, always or never (example: --pull always)"),
    (["--platform", "arm64", "true"], "--platform: 'arm64' is not OS/ARCH[/VARIANT] (example: --platform linux/arm64)"),
    (["--platform", "linux/arm64", "--pull", "never", "--image", "x", "true"], "--platform selects what to pull, but --pull never forbids pulling"),
    (["--platform", "linux/arm64", "true"], "--platform selects what to pull, but 'host' is not pulled"),
    (["--pull", "always", "--image", "dir:/", "true"], "--pull always: 'dir:/' is not pulled"),
    (["--entrypoint", ""], "no command to run (example: warren run -- uname -n)"),
    (["--image", "dir:/nowhere", "true"], "--image: '/nowhere': No such file or directory (example: --image dir:./rootfs)"),
    (["--image", "dir:/etc/passwd", "true"], "--image: '/etc/passwd': Not a directory (example: --image dir:./rootfs)"),
    (["--image", "dir:", "true"], "--image: '': No such file or directory (example: --image dir:./rootfs)"),
    (["--hostname", "-a", "true"], "--hostname: '-a' is not a host name: letters, digits and inner hyphens, at most 63 (example: --hostname burrow)"),
    (["--hostname", "a..b", "true"], "--hostname: 'a..b' is not a host name: letters, digits and inner hyphens, at most 63 (example: --hostname burrow)"),
    (["--hostname", "a_b", "true"], "--hostname: 'a_b' is not a host name: letters, digits and inner hyphens, at most 63 (example: --hostname burrow)"),
    (["--hostname", "", "true"], "--hostname: '' is not a host name: letters, digits and inner hyphens, at most 63 (example: --hostname burrow)"),
    (["--hostname", "a" * 64, "true"], f"--hostname: '{'a' * 64}' is not a host name: letters, digits and inner hyphens, at most 63 (example: --hostname burrow)"),
    (["--workdir", "src", "true"], "--workdir: 'src' is not an absolute path (example: --workdir /work)"),
    (["--user", "", "true"], "--user: '' is not a user: a name, uid or uid:gid (example: --user 1000:1000)"),
    (["--user", "a b", "true"], "--user: 'a b' is not a user: a name, uid or uid:gid (example: --user 1000:1000)"),
    (["--user", "root:root", "true"], "--user: 'root:root' is not a user: a name, uid or uid:gid (example: --user 1000:1000)"),
    (["--user", "1:x", "true"], "--user: 'x' is not a whole number (example: --user 1000:1000)"),
    (["--user", "0x10", "true"], "--user: '0x10' is not a whole number (example: --user 1000:1000)"),
    (["--user", "4294967295", "true"], "--user: '4294967295' is more than 4294967294 (example: --user 1000:1000)"),
    (["--user", "65536", "true"], "--user: '65536' is above 65535, the last id in a sandbox (example: --user 1000:1000)"),
    (["--user", "1:65536", "true"], "--user: '1:65536' is above 65535, the last id in a sandbox (example: --user 1000:1000)"),
    (["--env", "=1", "true"], "--env: '=1' has no name before the '=' (example: --env DEBUG=1)"),
    (["--env", "", "true"], "--env: '' has no name before the '=' (example: --env DEBUG=1)"),
    (["--env", "A B=1", "true"], "--env: the name 'A B' contains a space (example: --env DEBUG=1)"),
    (["--env-file", "/nowhere", "true"], "--env-file: '/nowhere': No such file or directory (example: --env-file ./settings.env)"),
    (["--env-file", "/", "true"], "--env-file: '/': Is a directory (example: --env-file ./settings.env)"),
    (["--volume", "/tmp", "true"], "--volume: '/tmp' is not SRC:DST[:ro|:rw] (example: --volume ./data:/data:ro)"),
    (["--volume", ":/x", "true"], "--volume: ':/x' is not SRC:DST[:ro|:rw] (example: --volume ./data:/data:ro)"),
    (["--volume", "/tmp:", "true"], "--volume: '/tmp:' is not SRC:DST[:ro|:rw] (example: --volume ./data:/data:ro)"),
    (["--volume", "/tmp:/x:z", "true"], "--volume: '/tmp:/x:z' ends in neither :ro nor :rw (example: --volume ./data:/data:ro)"),
    (["--volume", "/tmp:x", "true"], "--volume: 'x' is not an absolute path (example: --volume ./data:/data:ro)"),
    (["--volume", "data:/x", "true"], "--volume: 'data' is not a path: write ./data (example: --volume ./data:/data:ro)"),
    (["--volume", "./nowhere:/x", "true"], "--volume: './nowhere': No such file or directory (example: --volume ./data:/data:ro)"),
    (["--tmpfs", "x", "true"], "--tmpfs: 'x' is not an absolute path (example: --tmpfs /scratch:size=64m)"),
    (["--tmpfs", "/", "true"], "--tmpfs: nothing can be mounted over the root (example: --tmpfs /scratch:size=64m)"),
    (["-v", "/tmp:/a/../b", "true"], "--volume: '/a/../b' contains '..' (example: --volume ./data:/data:ro)"),
    (["-w", "/a:b/..", "true"], "--workdir: '/a:b/..' contains '..' (example: --workdir /work)"),
    (["-w", "/a/./b", "true"], "--workdir: '/a/./b' contains '.' (example: --workdir /work)"),
    (["-e", MANY + "=1", "true"], f"--env: the name '{'x' * 32}...' is longer than 256 letters (example: --env DEBUG=1)"),
    (["--tmpfs", "/x:mode=1", "true"], "--tmpfs: '/x:mode=1' is not DST[:size=SIZE] (example: --tmpfs /scratch:size=64m)"),
    (["--tmpfs", "/x:size=big", "true"], "--tmpfs: 'big' is not a size: use a number with k, m, g or t (example: --tmpfs /scratch:size=64m)"),
    (["--tmpfs", "/x", "-v", "/tmp:/x", "true"], "two mounts at '/x': each --volume and --tmpfs needs its own path (example: --tmpfs /scratch)"),
    (["--quiet", "--verbose", "true"], "--quiet and --verbose exclude each other: one asks for less, the other for more"),
    (["-t", "--json", "true"], "--json and --tty exclude each other: a terminal mixes the streams that --json reports apart"),
    (["-it", "true"], "--tty: stdin is not a terminal; leave out -t to forward it (example: echo hello | warren run -i -- cat)"),
]


@test
def bad_arguments_get_one_line_and_125():
    for args, message in BAD:
        p = warren("run", *args)
        eq((p.returncode, p.stderr.decode()), (125, f"warren run: {message}\n"), f"answer to {args}")
        if "--json" in args:
            eq(json.loads(p.stdout)["error"]["message"], message, "error in JSON")
        else:
            eq(p.stdout, b"", f"stdout of {args}")


@test
def a_complaint_about_a_long_value_keeps_its_example():
    p = warren("run", "--memory", MANY * 40, "true")
    eq(p.returncode, 125)
    eq(p.stderr.count(b"\n"), 1, "lines")
    ok(p.stderr.endswith(b" (example: --memory 512m)\n"), p.stderr[-80:])


@test
def an_error_is_json_too_when_json_comes_after_it():
    p = warren("run", "--memory", "lots", "--json", "true")
    eq(p.returncode, 125)
    e = json.loads(p.stdout)
    eq(e, {"error": {"message": "--memory: 'lots' is not a size: use a number with k, m, g or t "
                     "(example: --memory 512m)", "errno": "EINVAL", "status": 125}})


@test
def commands_that_are_not_there():
    for args, status, line in [
        ([], 125, "warren: no command given (see 'warren --help'; example: warren run -- uname -n)"),
        (["rnu"], 125, "warren: there is no command 'rnu', did you mean 'warren run'?"),
        (["docter"], 125, "warren: there is no command 'docter', did you mean 'warren doctor'?"),
        (["xyzzy"], 125, "warren: there is no command 'xyzzy' (see 'warren --help'; example: warren run -- uname -n)"),
        (["help", "rnu"], 125, "warren: there is no command 'rnu', did you mean 'warren run'?"),
        (["help", "run", "run"], 125, "warren help: 'warren run' has no subcommands (example: warren help run)"),
        (["--verison"], 125, "warren: unknown option '--verison', did you mean --version? (example: --version)"),
        (["version", "x"], 125, "warren version: unexpected argument 'x' (example: warren version)"),
        (["doctor", "x"], 125, "warren doctor: unexpected argument 'x' (example: warren doctor --json)"),
        (["doctor", "--jsno"], 125, "warren doctor: unknown option '--jsno', did you mean --json? (example: --json)"),
    ]:
        p = warren(*args)
        eq((p.returncode, p.stdout, p.stderr.decode()), (status, b"", line + "\n"), f"answer to {args}")


@test
def an_entrypoint_of_ones_own():
    eq(run("--entrypoint", "/bin/echo"), b"\n")
    eq(run("--entrypoint", "/bin/echo", "--", "a", ""), b"a \n")
    eq(run("--entrypoint", "", "--", "echo", "a"), b"a\n")


# --------------------------------------------------------------------- help


def help_text(*args):
    p = warren(*args)
    eq((p.returncode, p.stderr), (0, b""), f"{args}")
    return p.stdout.decode()


def long_options(text):
    return set(re.findall(r"^  (?:-.,|   ) --([a-z-]+)", text, re.M))


@test
def help_is_the_same_however_one_asks():
    eq(help_text("help"), help_text("--help"))
    eq(help_text("-h"), help_text("--help"))
    for command in re.findall(r"^  ([a-z]+) {2,}", help_text("help"), re.M):
        eq(help_text("help", command), help_text(command, "--help"))
        eq(help_text(command, "-h"), help_text(command, "--help"))
    eq(help_text("run", "-ih"), help_text("run", "--help"))
    eq(help_text("run", "--nonsense", "--help"), help_text("run", "--help"))
    ok(max(map(len, help_text("run", "--help").split("\n"))) <= 90, "lines of help are short")


@test
def version_is_one_line():
    ok(re.fullmatch(r"warren [0-9]+\.[0-9]+\.[0-9]+\S*\n", help_text("version")), help_text("version"))
    eq(help_text("--version"), help_text("version"))


@test
def help_that_cannot_be_written_fails():
    with open("/dev/full", "wb") as full:
        p = warren("--help", stdout=full)
    eq((p.returncode, p.stderr), (125, b"warren: write to stdout: No space left on device\n"))


@test
def every_option_is_in_the_manual():
    for command, page in [("run", "warren-run.1"), ("doctor", "warren-doctor.1"), ("gc", "warren-gc.1"), (None, "warren.1")]:
        with open(os.path.join(SOURCE, "man", page), encoding="utf-8") as f:
            manual = f.read()
        text = help_text(*([command] if command else []), "--help")
        for name in long_options(text):
            ok(re.search(rf"^\.It .*Fl -{name}\b", manual, re.M), f"--{name} is not in {page}")
        for letter in re.findall(r"^  -(.),", text, re.M):
            ok(re.search(rf"^\.It Fl {letter} ,", manual, re.M), f"-{letter} is not in {page}")
        for name in re.findall(r"^\.It .*Fl -([a-z-]+)", manual, re.M):
            ok(name in long_options(text), f"{page} has --{name}, which does not exist")
        if not command:
            for name in re.findall(r"^  ([a-z]+) {2,}", text, re.M):
                ok(re.search(rf"^\.It Ic {name}\b", manual, re.M), f"{name} is not in {page}")


@test
def every_option_has_a_test():
    with open(__file__, encoding="utf-8") as f:
        positive = f.read().split("# ---- options at work", 2)[2]
    for other in ("test-oci.py", "test-client.py"):  # what matters for images of registries only, or the service
        with open(f"{SOURCE}/test/system/{other}", encoding="utf-8") as f:
            positive += f.read()
    for name in long_options(help_text("run", "--help")) - {"help"}:
        ok(f'"--{name}' in positive, f"--{name} has no test")
    for letter in re.findall(r"^  -(.),", help_text("run", "--help"), re.M):
        ok(letter == "h" or re.search(rf'"-[a-z]*{letter}', positive), f"-{letter} has no test")


@test
def a_program_that_is_here_and_not_there():
    with scratch() as d:
        os.chmod(d, 0o755)
        path = shutil.copy("/bin/true", f"{d}/mine")
        p = warren("run", "--", path)
        eq((p.returncode, p.stdout), (127, b""), f"{p}")
        ok(b"No such file or directory; it exists on this machine, but not in the sandbox (example: -v" in p.stderr, f"{p}")
        eq(warren("run", "-v", f"{d}:{d}:ro", "--", path).returncode, 0, "as it says")
        for words in (["--", f"{d}/none"], ["--", "mine"], ["-v", f"{d}:/there", "--", path]):
            p = warren("run", *words)
            ok(p.returncode == 127 and b"on this machine" not in p.stderr, f"{words}: {p}")


# ------------------------------------------------------------------- doctor


@test
def doctor_tells_in_words_and_in_json():
    p = warren("doctor", "--json")
    eq(p.stderr, b"")
    d = json.loads(p.stdout)
    eq(set(d), {"version", "ok", "features", "backends", "orphans"})
    eq(p.returncode, 0 if d["ok"] else 1, "status")
    promised = {"kernel", "namespaces", "overlay", "seccomp", "id-mapped mounts", "cgroups", "rootless", "landlock",
                "loop devices", "criu", "runsc", "kvm"}
    ok(promised <= {f["name"] for f in d["features"]}, f"not told: {promised - {f['name'] for f in d['features']}}")
    for f in d["features"]:
        eq(set(f), {"name", "ok", "required", "detail", "effect", "fix"})
        ok(f["ok"] or f["effect"], f"{f['name']} is missing, and what that means is not said")
    text = warren("doctor")
    eq(text.returncode, p.returncode, "status")
    for f in d["features"]:
        word = "ok" if f["ok"] else "MISSING" if f["required"] else "missing"
        ok(re.search(rf"^{word} +{re.escape(f['name'])}  ", text.stdout.decode(), re.M),
           f"{f['name']} is not in the table as {word}")
    eq([b["name"] for b in d["backends"]], ["docker", "gvisor"], "backends beside the native one")
    for b in d["backends"]:
        eq(set(b), {"name", "kind", "tier", "ok", "reason", "features"})
        ok(b["ok"] or b["reason"] or any(f["required"] and not f["ok"] for f in b["features"]), f"not said why: {b}")
        part = text.stdout.decode().partition(f"\nBackend {b['name']} (tier {b['tier']}): ")[2].partition("\n\n")[0]
        want = [f["name"] for f in b["features"] if b["ok"] or (f["required"] and not f["ok"])]
        eq(re.findall(r"^(?:ok|missing|MISSING) +(.*?)  ", part, re.M), want, f"what is told of {b['name']}")
        for f in b["features"]:
            ok(len(f["detail"]) < 159, f"it is cut off: {f}")
    last = text.stdout.decode().strip().split("\n")[-1]
    ok(last.startswith(f"{sum(f['ok'] for f in d['features'])} of {len(d['features'])} found."), last)


@test
def doctor_works_for_anyone():
    if not ROOT:
        raise Skip("is not root anyway")
    with scratch() as d:  # the program may lie where only root can see it
        os.chmod(d, 0o755)
        copy = shutil.copy(WARREN, os.path.join(d, "warren"))
        p = subprocess.run([copy, "doctor", "--json"], stdin=subprocess.DEVNULL, capture_output=True,
                           timeout=WAIT, user=65534, group=65534, extra_groups=[], cwd="/")
    ok(p.returncode in (0, 1), f"status {p.returncode}: {p.stderr!r}")
    eq(p.returncode == 0, json.loads(p.stdout)["ok"])


# ---- options at work -------------------------------------------------------


@test
def the_forms_of_an_option():
    for form in (["-e", "A=1"], ["-eA=1"], ["--env", "A=1"], ["--env=A=1"], ["-ieA=1"]):
        eq(sh("echo $A", *form), b"1\n", f"with {form}")
    eq(run("--env", "A=1", "sh", "-c", "echo $A"), b"1\n", "the first word ends the options")
    eq(run("echo", "-e", "--json"), b"--json\n", "what follows is the command's")
    eq(run("--", "echo", "--", "-i"), b"-- -i\n")


@test
def statuses():
    sh("exit 0")
    sh("exit 1", status=1)
    sh("exit 255", status=255)
    for name in ("KILL", "TERM", "SEGV", "USR1"):
        sh(f"kill -{name} $$", status=128 + getattr(signal, f"SIG{name}"))


@test
def a_command_that_is_not_there():
    p = warren("run", "no-such-command")
    eq((p.returncode, p.stdout), (127, b""))
    ok(re.fullmatch(rb"warren run: [^\n]*no-such-command[^\n]*\n", p.stderr), p.stderr)
    eq(warren("run", "/no/such").returncode, 127)


@test
def a_command_that_cannot_be_executed():
    for command in ("/etc", "/etc/ld.so.cache"):
        p = warren("run", command)
        eq((p.returncode, p.stdout), (126, b""), command)
        ok(re.fullmatch(rb"warren run: [^\n]*" + command.encode() + rb"[^\n]*\n", p.stderr), p.stderr)
    with scratch() as d:
        with open(f"{d}/empty.bin", "wb") as f:
            f.write(b"\x7fELF nonsense")
        os.chmod(f"{d}/empty.bin", 0o755)
        eq(warren("run", "-v", f"{d}:/d", "/d/empty.bin").returncode, 126)


@test
def env():
    caller = {"PATH": os.environ["PATH"], "SECRET": "leak", "TAKEN": "yes", "EMPTY": ""}
    out = run("--env", "A=1", "-e", "B=x=y z", "-e", "TAKEN", "-e", "UNSET", "-e", "EMPTY",
              "-e", "A=2", "env", env=caller).decode().split("\n")
    variables = dict(line.split("=", 1) for line in out if line)
    eq({n: variables.get(n) for n in ("A", "B", "TAKEN", "EMPTY")},
       {"A": "2", "B": "x=y z", "TAKEN": "yes", "EMPTY": ""})
    eq(len([line for line in out if line.startswith("A=")]), 1, "values of A")
    ok("UNSET" not in variables, "a variable that the caller does not have")
    ok("SECRET" not in variables, "the caller's environment leaks")
    eq(set(variables) - {"A", "B", "TAKEN", "EMPTY"} - {"PATH", "HOME", "HOSTNAME", "LANG", "USER", "LOGNAME"},
       set(), "variables that nobody asked for")
    eq(sh("echo $PATH", "-e", "PATH=/usr/bin:/bin"), b"/usr/bin:/bin\n", "PATH can be set")


@test
def env_file():
    with scratch() as d:
        f = f"{d}/env"
        with open(f, "wb") as out:
            out.write(b"\xef\xbb\xbf# a comment\n\n  \t# another\nA=1\n  B=two words \nC='quoted'\r\n"
                      b"TAKEN\nUNSET\nD=\nE=a=b # c\nA=3\nLAST=x")
        out = sh('printf "%s|" "$A" "$B" "$C" "$TAKEN" "${UNSET-unset}" "${D-unset}" "$E" "$LAST"',
                 "--env-file", f, env={"TAKEN": "yes", "PATH": "/bin"})
        eq(out, b"3|two words |'quoted'|yes|unset||a=b # c|x|")
        eq(sh("echo $A$Z", "-e", "A=9", "--env-file", f, "-e", "Z=8"), b"98\n", "--env outdoes a file")
        for content, line in [
            (b"A=1\n=2\n", f"{f}, line 2: '=2' has no name before the '='"),
            (b"A=1\n\n#\nB C=2\n", f"{f}, line 4: the name 'B C' contains a space"),
            (b"A=1\nB=\x00\n", f"{f}, line 2: contains a NUL byte"),
            (b"A=" + b"x" * MIB, f"'{f}' is larger than 1 MiB"),
        ]:
            with open(f, "wb") as out:
                out.write(content)
            run("--env-file", f, "true", status=125,
                stderr=f"warren run: --env-file: {line} (example: --env-file ./settings.env)\n".encode())
        p = subprocess.run(["bash", "-c", f"'{WARREN}' run --env-file <(sleep 0.2; echo A=1) env"],
                           capture_output=True, timeout=WAIT)
        ok(b"A=1\n" in p.stdout, f"a file that is a pipe: {p}")


@test
def workdir():
    eq(run("pwd"), b"/\n")
    eq(run("--workdir", "/usr", "pwd"), b"/usr\n")
    eq(run("-w", "/made/for/it", "sh", "-c", "pwd; touch here"), b"/made/for/it\n")
    eq(run("-w", "/a:b/..c/d.", "pwd"), b"/a:b/..c/d.\n", "an odd name")
    run("-w", "/etc/passwd", "true", status=125,
        stderr=b"warren run: enter the directory '/etc/passwd': Not a directory\n")


@needs_root
def user():
    script = 'echo "$(id -u):$(id -g)"'
    eq(sh(script), b"0:0\n")
    eq(sh(script, "--user", "1000:1001"), b"1000:1001\n")
    eq(sh(script, "-u", "1000")[:5], b"1000:")
    eq(sh(script, "-u", "nobody"), b"65534:65534\n")
    p = warren("run", "-u", "no-such-user", "true")
    eq((p.returncode, p.stdout), (125, b""))
    ok(re.fullmatch(rb"warren run: [^\n]*'no-such-user'[^\n]*\n", p.stderr), p.stderr)


test(user)


@test
def hostname():
    eq(run("--hostname", "burrow", "uname", "-n"), b"burrow\n")
    eq(run("--hostname", "a.b-c.D9", "uname", "-n"), b"a.b-c.D9\n")
    name = ".".join(["a" * 31, "b" * 31])
    eq(run("--hostname", name, "uname", "-n"), name.encode() + b"\n", "of 63 letters")
    r = run_json("uname", "-n")
    eq(r["stdout"], r["id"] + "\n", "the default is the id")


@needs_root
def memory():
    # Bounded: 256 MiB at most, wherever it runs.
    hog = "head -c 256M /dev/zero | exec tail"
    r = run_json("--memory", "64m", "sh", "-c", hog, status=137, stderr=None)
    eq((r["oom"], r["timed_out"]), (True, False))
    ok(r["max_memory_bytes"] <= 64 * MIB, f"it had {r['max_memory_bytes']} bytes")
    p = warren("run", "-m", "64m", "sh", "-c", hog)
    ok(b"warren run: out of memory: " in p.stderr, p.stderr)
    run_json("-m", "64m", "sh", "-c", "head -c 1M /dev/zero | exec tail >/dev/null")


test(memory)


@needs_root
def cpus():
    spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"

    def share(*limit):
        r = run_json(*limit, "sh", "-c", spin)
        return (r["user_ms"] + r["system_ms"]) / r["wall_ms"]
    held = share("--cpus", "0.2")
    ok(held < 0.5, f"{held} of a processor, with a fifth of one")
    # The control has what the machine has to give, which may not be much at a time.
    free = []
    while not free or max(free) <= held:
        free.append(share())
        ok(len(free) < 10, f"the control is held too: {free}, not more than {held}")


test(cpus)


@needs_root
def pids():
    # Bounded: 30 processes, wherever it runs.
    many = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 3 & done; echo all"
    p = warren("run", "--pids", "8", "sh", "-c", many)
    ok(b"ork" in p.stderr and b"all" not in p.stdout, f"8 processes are enough: {p}")
    eq(sh(many, "--pids", "40"), b"all\n")


test(pids)


@needs_root
def disk():
    fill = "head -c 24M /dev/zero >/var/tmp/x 2>/dev/null || head -c 24M /dev/zero >/x"
    p = warren("run", "--disk", "8m", "sh", "-c", f"mkdir -p /var/tmp; {fill}; ls -l /x")
    ok(b"No space left" in p.stderr, f"8 MiB are enough for 24: {p}")
    sh("head -c 24M /dev/zero >/x", "--disk", "64m")


test(disk)


@test
def nofile():
    eq(sh("ulimit -n", "--nofile", "123"), b"123\n")
    eq(sh("ulimit -Hn", "--nofile", "123"), b"123\n")


@test
def timeout():
    for args in (["--timeout", "300ms", "sleep", "30"],
                 ["--timeout", "0.3s", "sh", "-c", "trap '' TERM INT HUP; while :; do sleep 1; done"],
                 ["--timeout", "300ms", "sh", "-c", "(trap '' TERM; sleep 30) & sleep 30"]):
        before = time.monotonic()
        run(*args, status=124, stderr=b"warren run: timed out after 300ms\n")
        took = time.monotonic() - before
        ok(0.25 < took < 5, f"{args} took {took} s")
    run("--timeout", "300ms", "--quiet", "sleep", "30", status=124)
    run("--timeout", "1.5s", "sleep", "30", status=124, stderr=b"warren run: timed out after 1.500s\n")
    sh("exit 3", "--timeout", "10s", status=3)
    r = run_json("--timeout", "200ms", "sh", "-c", "echo early; sleep 30", status=124, stderr=None)
    eq((r["timed_out"], r["exit_code"], r["signal"], r["stdout"]), (True, None, "SIGKILL", "early\n"))


@test
def timeout_with_a_reader_that_does_not_read():
    p = start("--timeout", "500ms", "cat", "/dev/zero")
    time.sleep(1.5)  # nobody reads, and yet it must be over
    eq(p.poll(), None, "the last output waits for its reader")
    status, out, err = finish(p)
    eq((status, err), (124, b"warren run: timed out after 500ms\n"))
    ok(len(out) > 0, "what was written before")


@test
def volume():
    with scratch() as d:
        os.chmod(d, 0o755)
        with open(f"{d}/mine", "w", encoding="ascii") as f:
            f.write("outside\n")
        eq(sh("cat /d/mine; echo inside >/d/new; stat -c %u:%g /d/mine /d/new", "--volume", f"{d}:/d"),
           b"outside\n0:0\n0:0\n")
        with open(f"{d}/new", encoding="ascii") as f:
            eq(f.read(), "inside\n")
        st = os.stat(f"{d}/new")
        eq((st.st_uid, st.st_gid), (os.geteuid(), os.getegid()), "owner outside")
        eq(sh("cat /d/mine; echo x 2>/dev/null >/d/mine || echo kept", "-v", f"{d}:/d:ro"),
           b"outside\nkept\n", "read-only")
        eq(sh("echo more >>/d/mine; cat /d/mine", "-v", f"{d}:/d:rw"), b"outside\nmore\n")
        eq(run("-v", f"{d}/mine:/deep/in/it", "cat", "/deep/in/it"), b"outside\nmore\n", "a file")
        eq(run("-v", "./mine:/m", "cat", "/m", cwd=d), b"outside\nmore\n", "relative")
        eq(run("-v", ".:/m", "cat", "/m/mine", cwd=d), b"outside\nmore\n", "here")
        os.symlink("mine", f"{d}/link")
        eq(run("-v", f"{d}/link:/m", "cat", "/m"), b"outside\nmore\n", "a link")
        eq(sh("cat /a/mine /b/mine", "-v", f"{d}:/a", "-v", f"{d}:/b:ro"), b"outside\nmore\n" * 2)


@needs_root
def volume_of_another_user():
    """The owner of the source is the sandbox's user inside; everybody else is nobody."""
    with scratch() as d:
        os.chmod(d, 0o700)
        os.chown(d, 1000, 1001)
        script = "echo x >/d/$1; stat -c %u:%g /d /d/$1"
        for args, inside, name in [(["-u", "1000:1001"], b"1000:1001\n", "a"), ([], b"0:0\n", "b"),
                                   (["-u", "2000:2001"], b"2000:2001\n", "c")]:
            eq(run(*args, "-v", f"{d}:/d", "sh", "-c", script, "sh", name), inside * 2, f"inside with {args}")
            st = os.stat(f"{d}/{name}")
            eq((st.st_uid, st.st_gid), (1000, 1001), f"owner outside with {args}")
        with open(f"{d}/other", "w", encoding="ascii"):
            os.chown(f"{d}/other", 1234, 1235)
        eq(run("-v", f"{d}:/d", "stat", "-c", "%u:%g", "/d/other"), b"65534:65534\n", "somebody else's file")


test(volume_of_another_user)


@test
def tmpfs():
    eq(sh("stat -f -c %T /t; stat -f -c '%b %S' /t | { read b s; echo $((b*s)); }",
          "--tmpfs", "/t:size=8m"), b"tmpfs\n8388608\n")
    eq(sh("stat -f -c '%b %S' /t | { read b s; echo $((b*s)); }", "--tmpfs", "/t"), b"67108864\n")
    sh("head -c 9M /dev/zero >/t/x 2>/dev/null", "--tmpfs", "/t:size=8m", status=1)


@test
def read_only():
    eq(sh("touch /x 2>/dev/null || echo refused", "--read-only"), b"refused\n")
    eq(sh("touch /x && echo written"), b"written\n", "the control")
    eq(sh("touch /t/x && echo written", "--read-only", "--tmpfs", "/t"), b"written\n")


@test
def backend_and_tier():
    eq(run("--backend", "native", "echo", "hi"), b"hi\n")
    eq(run("--tier", "container", "echo", "hi"), b"hi\n", "a stronger wall than asked for")
    for args, words in ((["--backend", "nosuch"], b"there is no backend 'nosuch' here; available: native (namespace)"),
                        (["--tier", "vm"], b"tier 'vm' is requested, but no backend provides it here"),
                        (["--backend", "native", "--tier", "gvisor"], b"backend 'native' is of tier 'namespace'"),
                        (["--tier", "strong"], b"there is no tier 'strong'")):
        p = warren("run", *args, "true")
        ok(p.returncode == 125 and p.stderr.startswith(b"warren run: ") and words in p.stderr, f"{args}: {p}")


@test
def image():
    eq(run("--image", "host", "echo", "hi"), b"hi\n")
    busybox = shutil.which("busybox")
    with scratch() as d:
        os.chmod(d, 0o755)
        os.mkdir(f"{d}/bin")
        if not busybox or b"statically" not in subprocess.run(
                ["file", "-L", busybox], capture_output=True, check=False).stdout:
            # Whatever it takes to run one program.
            for path in {"/bin/sh", *re.findall(r"(/\S+) \(0x", subprocess.run(
                    ["ldd", "/bin/sh"], capture_output=True, check=True).stdout.decode())}:
                os.makedirs(d + os.path.dirname(path), exist_ok=True)
                shutil.copy(path, d + path)
        else:
            shutil.copy(busybox, f"{d}/bin/sh")
        eq(sh("echo $0; echo x >/new && echo written", "--image", f"dir:{d}"), b"sh\nwritten\n")
        ok(not os.path.exists(f"{d}/new"), "the image was written to")
        eq(sh("echo hi", "--image", f"dir:./{os.path.basename(d)}", cwd=os.path.dirname(d)), b"hi\n")


@test
def network():
    up = "cat /proc/net/dev | sed '1,2d;s/:.*//'; ip link show lo 2>/dev/null | head -1"
    ok(re.search(rb"^ *lo\n.*[<,]UP[,>]", sh(up, "--network", "loopback"), re.S) or not shutil.which("ip"),
       "lo is up")
    connect = "exec 3<>/dev/tcp/127.0.0.1/9"
    refused = run("--network", "loopback", "bash", "-c", connect, status=1, stderr=None)
    eq(refused, b"")
    p = warren("run", "--network", "none", "bash", "-c", connect)
    ok(b"unreachable" in p.stderr, f"none: {p.stderr}")
    p = warren("run", "bash", "-c", connect)
    ok(b"refused" in p.stderr, f"the default is loopback: {p.stderr}")
    p = warren("run", "bash", "-c", "exec 3<>/dev/tcp/192.0.2.1/9")
    ok(b"unreachable" in p.stderr, f"a way out: {p.stderr}")


@test
def interactive():
    eq(run("cat", input=b"lost"), b"", "without -i stdin is empty")
    eq(run("readlink", "/proc/self/fd/0", input=b""), b"/dev/null\n")
    eq(run("--interactive", "cat", input=b"hello"), b"hello")
    eq(run("-i", "sh", "-c", "read a; echo $a"), b"\n", "with /dev/null")
    data = os.urandom(10 * MIB)
    ok(run("-i", "cat", input=data) == data, "10 MiB are not the same on the way back")
    with tempfile.TemporaryFile() as f:
        f.write(data)
        f.seek(0)
        ok(run("-i", "cat", stdin=f) == data, "10 MiB from a file are not the same")
        f.seek(0)
        with tempfile.TemporaryFile() as out:
            run("-i", "cat", stdin=f, stdout=out)
            out.seek(0)
            ok(out.read() == data, "10 MiB from file to file are not the same")


@test
def stdin_that_the_command_does_not_read():
    eq(run("-i", "true", input=b"x" * (8 * MIB)), b"")
    p = start("-i", "sh", "-c", "exec <&-; echo closed; sleep 0.3", stdin=subprocess.PIPE)
    eq(p.stdout.readline(), b"closed\n")
    with contextlib.suppress(BrokenPipeError):
        p.stdin.write(b"x" * (4 * MIB))
        p.stdin.flush()
    eq(finish(p)[0], 0)


@test
def json_result():
    r = run_json("--json", "sh", "-c", "echo out; echo err >&2; exit 7", status=7)
    eq({k: r[k] for k in ("exit_code", "signal", "timed_out", "oom", "stdout", "stderr",
                          "stdout_truncated", "stdout_lost_bytes")},
       {"exit_code": 7, "signal": None, "timed_out": False, "oom": False, "stdout": "out\n",
        "stderr": "err\n", "stdout_truncated": False, "stdout_lost_bytes": 0})
    eq(set(r), {"id", "exit_code", "signal", "timed_out", "oom", "wall_ms", "user_ms", "system_ms",
                "max_memory_bytes", "read_bytes", "written_bytes", "enforced", "stdout", "stderr",
                "stdout_truncated", "stderr_truncated", "stdout_lost_bytes", "stderr_lost_bytes"})
    ok(0 < r["wall_ms"] < 10000, "wall_ms")
    ok(r["max_memory_bytes"] > 0, "max_memory_bytes")
    ok(r["enforced"] and all(set(e) == {"name", "enforced", "detail"} for e in r["enforced"]), "enforced")
    if ROOT:
        held = {e["name"]: e["enforced"] for e in run_json("-m", "64m", "--pids", "50", "true")["enforced"]}
        ok(held.get("memory") and held.get("pids"), f"limits are enforced: {held}")
    r = run_json("sh", "-c", "kill -TERM $$", status=143)
    eq((r["exit_code"], r["signal"]), (None, "SIGTERM"))


@test
def json_with_output_that_is_no_text():
    r = run_json("sh", "-c", r"""printf 'a\000b\377\303\251\000\000\n\033\\"'""")
    eq(r["stdout"], 'a\0b\ufffd\u00e9\0\0\n\x1b\\"')
    eq(run_json("printf", r"\000")["stdout"], "\0")
    eq(run_json("head", "-c", "300000", "/dev/zero")["stdout"], "\0" * 300000)
    run_json("head", "-c", "500000", "/dev/urandom")


@test
def json_with_more_output_than_it_keeps():
    r = run_json("sh", "-c", f"head -c {MIB + 1234567} /dev/zero | tr '\\0' x; printf y >&2")
    eq((len(r["stdout"]), r["stdout_truncated"], r["stdout_lost_bytes"]), (MIB, True, 1234567))
    eq((r["stderr"], r["stderr_truncated"], r["stderr_lost_bytes"]), ("y", False, 0))


@test
def json_when_the_command_cannot_run():
    r = run_json("no-such-command", status=127, stderr=None)
    eq((r["error"]["errno"], r["error"]["status"]), ("ENOENT", 127))
    ok("no-such-command" in r["error"]["message"], r)


@test
def json_with_stdin():
    eq(run_json("-i", "cat", input=b"through")["stdout"], "through")


@test
def quiet_and_verbose():
    eq(run("--quiet", "echo", "hi"), b"hi\n")
    p = warren("run", "--verbose", "echo", "hi")
    eq((p.returncode, p.stdout), (0, b"hi\n"))
    lines = p.stderr.decode().strip().split("\n")
    ok(all(line.startswith("warren run: ") for line in lines), p.stderr)
    ok(re.fullmatch(r"warren run: sandbox \S+", lines[0]), lines[0])
    ok(any(line.startswith("warren run: enforced ") for line in lines), "what is enforced")
    ok(any(re.match(r"warren run: +[0-9.]+ ms \+[0-9.]+ ", line) for line in lines), "steps")
    ok(re.fullmatch(r"warren run: exit code 0 after [0-9.]+ ms, user .*", lines[-1]), lines[-1])
    run("--quiet", "no-such-command", status=127, stderr=None)


# ------------------------------------------------------------------- output


@test
def streams_are_apart_and_complete():
    p = warren("run", "sh", "-c", "seq 1 200000; seq 1 1000 >&2")
    eq(p.returncode, 0)
    ok(p.stdout == b"".join(b"%d\n" % i for i in range(1, 200001)), "stdout")
    ok(p.stderr == b"".join(b"%d\n" % i for i in range(1, 1001)), "stderr")


@test
def output_of_what_is_left_in_the_background():
    before = time.monotonic()
    eq(sh("sleep 30 & echo done"), b"done\n")
    ok(time.monotonic() - before < 25, "a background process kept us waiting")


@test
@needs_root
def the_callers_umask_is_not_that_of_the_machine():
    """The layer of 'host' is made once, by whoever comes first."""
    with scratch() as d:
        for mask in (0o077, 0o002):
            p = warren("run", "-u", "1000", "--", "sh", "-c", "stat -c %a / /etc /etc/alternatives /tmp; umask",
                       env={**os.environ, "WARREN_STATE": f"{d}/{mask}"}, umask=mask)
            eq((p.returncode, p.stdout.split()), (0, [b"755", b"755", b"755", b"1777", b"0022"]), f"{mask:o}: {p.stderr}")


@test
def output_to_a_file_that_is_appended_to():
    with scratch() as d:
        for word in ("one", "two"):
            with open(f"{d}/f", "ab") as f:
                run("echo", word, stdout=f)
        with open(f"{d}/f", "rb") as f:
            eq(f.read(), b"one\ntwo\n")


@test
def output_to_one_file_for_both_streams():
    with tempfile.TemporaryFile() as f:
        warren("run", "sh", "-c", "echo a; sleep 0.1; echo b >&2; sleep 0.1; echo c", stdout=f, stderr=f)
        f.seek(0)
        eq(f.read(), b"a\nb\nc\n")


@test
def output_to_a_socket():
    a, b = socket.socketpair()
    with a, b:
        p = start("seq", "1", "200000", stdout=b)
        b.close()
        time.sleep(0.3)
        data = b""
        while piece := a.recv(65536):
            data += piece
        eq(p.wait(WAIT), 0)
        p.stderr.close()
        ok(data == b"".join(b"%d\n" % i for i in range(1, 200001)), "what came over a socket")


@test
def output_to_a_slow_reader():
    p = start("seq", "1", "300000")
    data = b""
    while piece := os.read(p.stdout.fileno(), 20000):
        data += piece
        if len(data) < 400000:
            time.sleep(0.005)
    eq(finish(p)[0], 0)
    ok(data == b"".join(b"%d\n" % i for i in range(1, 300001)), "what a slow reader got")


@test
def a_reader_that_is_slow_does_not_keep_signals_away():
    p = start("cat", "/dev/zero")
    time.sleep(0.5)  # by now every pipe is full
    p.send_signal(signal.SIGTERM)
    status, out, err = finish(p)
    eq((status, err), (143, b""))
    ok(len(out) >= 65536, "what was written before")


@test
def a_reader_that_never_comes_back():
    p = start("sh", "-c", "head -c 8M /dev/zero")
    time.sleep(0.5)
    p.send_signal(signal.SIGTERM)  # to head or sh, whichever it is now
    time.sleep(0.5)
    p.send_signal(signal.SIGTERM)  # it is over, what is left cannot be written: this is for us
    eq(p.wait(WAIT), 143)
    finish(p)


@test
def a_reader_that_leaves():
    p = subprocess.run(["bash", "-c", f"'{WARREN}' run yes | head -n 1; echo ${{PIPESTATUS[0]}}"],
                       capture_output=True, timeout=WAIT, stdin=subprocess.DEVNULL)
    eq((p.stdout, p.stderr), (b"y\n141\n", b""))


@test
def output_that_cannot_be_written():
    with open("/dev/full", "wb") as full:
        run("echo", "hi", stdout=full, status=125,
            stderr=b"warren run: write to stdout: No space left on device\n")
        run("--json", "true", stdout=full, status=125,
            stderr=b"warren run: write to stdout: No space left on device\n")


@test
def descriptors_that_the_caller_closed():
    for redirect, status, err in [("<&-", 0, b""), ("2>&-", 0, b""),
                                  (">&-", 125, b"warren run: write to stdout: Bad file descriptor\n")]:
        p = subprocess.run(["sh", "-c", f"'{WARREN}' run -i echo hi {redirect}"], capture_output=True,
                           timeout=WAIT, stdin=subprocess.DEVNULL)
        eq((p.returncode, p.stderr), (status, err), f"with {redirect}")
        eq(p.stdout, b"hi\n" if status == 0 else b"")
    eq(sh("ls /proc/self/fd | wc -l"), b"4\n", "descriptors inside, one of them to look with")


@test
def our_stdout_is_not_made_nonblocking():
    r, w = os.pipe()
    try:
        run("echo", "hi", stdout=w)
        ok(not fcntl.fcntl(w, fcntl.F_GETFL) & os.O_NONBLOCK, "the pipe's flags were changed")
        eq(os.read(r, 10), b"hi\n")
    finally:
        os.close(r)
        os.close(w)


# ------------------------------------------------------------------ signals

TRAPS = ("for s in INT TERM HUP QUIT USR1; do trap \"echo $s\" $s; done; trap 'echo USR2; exit 3' USR2; "
         "echo ready; while :; do sleep 0.05; done")


@test
def signals_are_passed_on():
    for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2"):
        p = start("sleep", "30")
        time.sleep(0.2)
        p.send_signal(getattr(signal, f"SIG{name}"))
        status, out, err = finish(p)
        eq((status, out, err), (128 + getattr(signal, f"SIG{name}"), b"", b""), f"after SIG{name}")


@test
def a_command_may_catch_signals_again_and_again():
    p = start("sh", "-c", TRAPS)
    eq(p.stdout.readline(), b"ready\n")
    for name in ("INT", "INT", "TERM", "TERM", "HUP", "USR1", "QUIT", "USR2"):
        p.send_signal(getattr(signal, f"SIG{name}"))
        eq(p.stdout.readline(), name.encode() + b"\n")
    eq(finish(p)[0], 3)


@test
def a_stopped_command_is_continued():
    p = start("sh", "-c", "echo ready; kill -STOP $$; echo on")
    eq(p.stdout.readline(), b"ready\n")
    time.sleep(0.2)
    p.send_signal(signal.SIGCONT)
    status, out, _ = finish(p)
    eq((status, out), (0, b"on\n"))


@test
def an_ignored_signal_stays_ignored():
    p = start("sh", "-c", "trap 'echo hup' HUP; echo ready; sleep 0.6", stderr=subprocess.PIPE,
              preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    eq(p.stdout.readline(), b"ready\n")
    p.send_signal(signal.SIGHUP)
    status, out, _ = finish(p)
    eq((status, out), (0, b""))


@test
def signal_dispositions_inside_are_the_defaults():
    ignore = [signal.SIGHUP, signal.SIGPIPE, signal.SIGINT]

    def prepare():
        for s in ignore:
            signal.signal(s, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM])

    out = run("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status", preexec_fn=prepare)
    eq(out, b"SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n")


@test
def a_signal_at_any_moment_leaves_nothing():
    for i in range(40):
        p = start("sleep", "30")
        time.sleep(i * 0.0003)
        p.send_signal(signal.SIGTERM)
        status, _, err = finish(p)
        # Before main() had a chance the signal ends the program itself.
        ok(status in (143, -signal.SIGTERM), f"status {status} after {i}: {err!r}")


@test
def killing_the_program_kills_the_sandbox():
    marker = f"{30 + os.getpid() % 1000}.{os.getpid()}"
    p = start("sh", "-c", f"sleep {marker} & echo ready; wait")
    eq(p.stdout.readline(), b"ready\n")

    def alive():
        return subprocess.run(["pgrep", "-fx", f"sleep {marker}"], stdout=subprocess.DEVNULL,
                              check=False).returncode == 0

    deadline = time.monotonic() + WAIT
    while not alive():  # the control: it can be seen from outside, once the shell's child is a sleep
        ok(time.monotonic() < deadline, "the command is not seen from outside")
        time.sleep(0.01)
    p.kill()
    finish(p)
    deadline = time.monotonic() + WAIT
    while alive():
        ok(time.monotonic() < deadline, "the command outlived the program")
        time.sleep(0.01)
    run("true")  # finds and removes what is left


# ----------------------------------------------------------------- terminals


@test
def a_terminal():
    with Terminal("-it", "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && tty && stty size && echo $TERM") as t:
        eq(t.wait(), 0)
        eq(t.seen, b"/dev/pts/0\r\n33 99\r\nvt100\r\n")
        t.restored()
    with Terminal("--tty", "--interactive", "sh", "-c", "exit 5") as t:
        eq(t.wait(), 5)
        t.restored()


@test
def a_terminal_is_called_xterm_when_nobody_says():
    with Terminal("-it", "sh", "-c", "echo $TERM", env={"PATH": os.environ["PATH"]}) as t:
        eq((t.wait(), t.seen), (0, b"xterm\r\n"))
    with Terminal("-it", "-e", "TERM=dumb", "sh", "-c", "echo $TERM") as t:
        eq((t.wait(), t.seen), (0, b"dumb\r\n"))
    ok(b"TERM" not in run("env", env={"PATH": os.environ["PATH"], "TERM": "vt100"}), "TERM without a terminal")


@test
def a_terminal_is_raw_while_it_runs():
    with Terminal("-it", "sh", "-c", "echo ready; read x; echo got $x") as t:
        t.expect(b"ready")
        ok(t.raw(), "the terminal is not raw")
        t.type(b"words\r")
        t.expect(b"words\r\ngot words\r\n")  # echoed by the terminal inside
        eq(t.wait(), 0)
        t.restored()


@test
def a_terminal_of_another_size():
    with Terminal("-it", "sh", "-c", "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done",
                  rows=20, cols=70) as t:
        t.expect(b"ready")
        t.resize(44, 111)
        os.kill(t.p.pid, signal.SIGWINCH)  # the kernel sends it to the group in the foreground, too
        t.expect(rb"44 111\r\n")
        eq(t.wait(), 0)


@test
def keys_reach_the_command():
    with Terminal("-it", "cat") as t:
        t.type(b"runs\r")
        t.expect(b"runs\r\nruns\r\n")  # echoed by the terminal, then by the command
        t.type(b"\x03")
        eq(t.wait(), 130, "status after ^C")
        t.restored()
    with Terminal("-it", "cat") as t:
        t.type(b"line\r")
        t.expect(b"line\r\nline\r\n")
        t.type(b"\x04")
        eq(t.wait(), 0, "status after ^D")


@test
def job_control_works_inside():
    with Terminal("-it", "bash", "--norc", "--noprofile", "-i", "-e", "PS1=x") as t:
        t.wait()
    with Terminal("-it", "-e", "PS1=$ ", "bash", "--norc", "--noprofile", "-i") as t:
        t.expect(rb"\$ ")
        ok(b"job control" not in t.seen, "bash has no job control")
        t.type(b"sleep 30\r")
        time.sleep(0.3)
        t.type(b"\x1a")
        t.expect(b"Stopped")
        t.type(b"jobs; bg; jobs; kill %1; wait; echo o''ver\r")
        t.expect(b"Running")
        t.expect(b"over\r\n")
        t.type(b"sleep 30\r")
        time.sleep(0.3)
        t.type(b"\x03")
        t.type(b"echo still h''ere $?; exit 9\r")
        t.expect(b"still here 130\r\n")
        eq(t.wait(), 9)
        t.restored()


@test
def the_terminal_is_restored_however_it_ends():
    for name in ("TERM", "HUP", "INT", "QUIT"):
        with Terminal("-it", "sh", "-c", "echo ready; exec sleep 30") as t:
            t.expect(b"ready")
            ok(t.raw(), "the terminal is not raw")
            t.p.send_signal(getattr(signal, f"SIG{name}"))
            eq(t.wait(), 128 + getattr(signal, f"SIG{name}"), f"status after SIG{name}")
            t.restored()
    for name in ("SEGV", "ABRT", "ALRM"):
        with Terminal("-it", "sh", "-c", "echo ready; exec sleep 30") as t:
            t.expect(b"ready")
            t.p.send_signal(getattr(signal, f"SIG{name}"))
            eq(t.wait(), -getattr(signal, f"SIG{name}"), f"status after SIG{name}")
            t.restored()
    with Terminal("-it", "no-such-command") as t:
        eq(t.wait(), 127)
        t.restored()
        ok(re.fullmatch(rb"warren run: [^\r\n]*no-such-command[^\r\n]*\r\n", t.seen), t.seen)
    with Terminal("-it", "--timeout", "400ms", "sleep", "30") as t:
        eq(t.wait(), 124)
        t.restored()
        eq(t.seen, b"warren run: timed out after 400ms\r\n")


@test
def a_terminal_while_we_are_stopped():
    with Terminal("-it", "sh", "-c", "echo ready; read x; echo got $x") as t:
        t.expect(b"ready")
        t.p.send_signal(signal.SIGTSTP)
        eq(os.waitpid(t.p.pid, os.WUNTRACED)[1] & 0xff, 0x7f, "it is stopped")
        t.restored()
        t.p.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + WAIT
        while not t.raw():
            ok(time.monotonic() < deadline, "the terminal is not raw again")
            time.sleep(0.01)
        t.type(b"on\r")
        t.expect(b"got on")
        eq(t.wait(), 0)
        t.restored()


@test
def a_terminal_without_stdin():
    out = run("-t", "sh", "-c", "test -t 1 && stty size && tty")
    eq(out, b"24 80\r\n/dev/pts/0\r\n")
    with Terminal("-t", "sh", "-c", "stty size; echo ready; exec sleep 30") as t:
        t.expect(b"33 99\r+\n.*ready")
        ok(not t.raw(), "the terminal is raw, and nobody reads it")
        t.type(b"\x03")
        eq(t.wait(), 130, "status after ^C")
        t.restored()


@test
def stdin_from_a_terminal_that_the_command_does_not_have():
    with Terminal("-i", "sh", "-c", "test -t 0 || echo pipe; cat") as t:
        t.expect(b"pipe\r\n")
        ok(not t.raw(), "the terminal is raw")
        t.type(b"line\r")
        t.expect(b"line\r\nline\r\n")  # echoed by our terminal
        t.type(b"\x04")
        eq(t.wait(), 0, "status after ^D")


@test
def a_terminal_inside_with_output_elsewhere():
    with Terminal("-it", "sh", "-c", "test -t 1 && seq 1 30000", stdout=subprocess.PIPE) as t:
        eq(t.p.stdout.read(), b"".join(b"%d\r\n" % i for i in range(1, 30001)))
        eq(t.wait(), 0)
        t.restored()
        t.p.stdout.close()


@test
def much_output_on_a_terminal():
    with Terminal("-it", "sh", "-c", "seq 1 20000; echo end") as t:
        eq(t.wait(), 0)
        ok(t.seen == b"".join(b"%d\r\n" % i for i in range(1, 20001)) + b"end\r\n", "not all of it came")


@test
def an_interrupt_from_the_keyboard_comes_once():
    # No terminal inside: ^C goes to our group as a signal, and on to the command, not both ways.
    with Terminal("sh", "-c", "trap 'echo int' INT; echo ready; sleep 1 & wait; wait; echo end") as t:
        t.expect(b"ready")
        t.type(b"\x03")
        eq(t.wait(), 0)
        eq(t.seen.count(b"int\r\n"), 1, f"interrupts in {t.seen!r}")


# --------------------------------------------------------------------- main


def and_nothing_left(t):
    before = leftovers()
    t()
    check_nothing_left(before)


def main():
    os.environ.pop("TERM", None)
    be_alone()
    check_isolated()
    return run_tests(and_nothing_left)


if __name__ == "__main__":
    # Whoever starts this may ignore signals (nohup does), and children would, too.
    for ignored in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(ignored, signal.SIG_DFL)
    sys.exit(main())
