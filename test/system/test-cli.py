#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-cli.py - the command line for users: arguments, help, doctor

Prints TAP. $WARREN is the program (default build/warren). After every test, no trace of a sandbox may remain. Hostile
commands limit themselves, and none runs before a probe has shown that commands are isolated.
"""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, test, ok, eq, scratch, warren, SOURCE, WARREN, ROOT, BUILD  # pylint: disable=wrong-import-position
from cli_world import WAIT, run, leftovers, check_nothing_left, main  # pylint: disable=wrong-import-position


@test
def the_reason_for_a_failed_create_is_always_reported():
    """The sandbox's first process may have ended before it gets a request."""
    for _ in range(30):
        p = warren("run", "--quiet", "--tmpfs", "/usr/x", "--", "true")
        eq((p.returncode, b"mount point '/usr/x': Read-only file system; choose a path outside of this directory, such as /mnt/NAME" in p.stderr), (125, True), p.stderr)


@test
def a_volume_that_cannot_be_mapped_is_named():
    p = warren("run", "-v", "/proc:/x", "--", "true")
    ok(p.returncode in (0, 125), p.stderr)  # a newer kernel may support id maps for it
    ok(p.returncode == 0 or (b"volume '/proc'" in p.stderr and b"''" not in p.stderr), p.stderr)


@test
def leftovers_would_be_detected():
    """A control for the check that runs after every other test."""
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


# -------------------------------------------------------- invalid arguments

EXAMPLE = "warren run -m 512m --timeout 30s -- make test"
MANY = "x" * 300

# Arguments of `warren run` and the expected error message; the status is always 125.
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
    (["--network", "host", "true"], "--network: 'host' is not a network capability; known: none, packages, git, web; or loopback, learn"),
    (["--network", "a b", "true"], "--network: 'a b' is not loopback, none, learn, or a list of capabilities "
                                   "(example: --network packages,git)"),
    (["--network", "", "true"], "--network: '' is not loopback, none, learn, or a list of capabilities "
                                "(example: --network packages,git)"),
    (["--network", "git,none", "true"], "--network: 'none' cannot be combined with other words (example: --network packages,git)"),
    (["--network", "learn,git", "true"], "--network: 'learn' cannot be combined with other words (example: --network packages,git)"),
    (["--network", "none", "--allow", "a.example", "true"],
     "--allow 'a.example' and --network none contradict each other: leave one of them out"),
    (["--deny", "a.example", "true"], "--deny 'a.example': nothing is allowed that it could deny; give --network or --allow, too "
                                      "(example: --network web --deny 'a.example')"),
    (["--allow", "a..example", "true"], "--allow: 'a..example': has an empty label (example: --allow example.com:443)"),
    (["--allow", "a.example:0", "true"], "--allow: 'a.example:0': '0' is not a port from 1 to 65535 (example: --allow example.com:443)"),
    (["--deny", "a.*.example", "true"], "--deny: 'a.*.example': a wildcard is only allowed at the beginning: '*.example.com' "
                                        "(example: --deny '*.example.com')"),
    (["--image", "", "true"], "--image: '' is not an image (example: --image dir:./rootfs)"),
    (["--image", "--", "true"], "--image: '--' is not an image (example: --image dir:./rootfs)"),
    (["--pull", "never", "--image", "no such", "true"],
     "image 'no such': 'no such' is not an image reference: names are lower-case letters and digits, separated by . _ - (example: python:3.12)"),
    (["--pull", "never", "--image", "no/such:thing", "true"], "create a sandbox: image 'no/such:thing': there is no image 'no/such:thing' on this machine"),
    (["--pull", "now", "true"], "--pull: 'now' is not one of missing, always and never (example: --pull always)"),
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
    (["--volume", "-data:/x", "true"], "--volume: '-data' is not the name of a volume (1 to 63 letters, digits, '_', '.' and "
     "'-', starting with a letter or digit); for a directory, write ./-data (example: --volume ./data:/data:ro)"),
    (["--volume", "data:/x", "true"], "volume 'data' needs the service: add --daemon, or -d to run in the background; for a "
     "directory, write ./data"),
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
    (["-t", "--json", "true"], "--json and --tty exclude each other: a terminal mixes the streams that --json reports separately"),
    (["-it", "true"], "--tty: stdin is not a terminal; leave out -t to forward it (example: echo hello | warren run -i -- cat)"),
]


@test
def invalid_arguments_cause_a_one_line_error_and_status_125():
    for args, message in BAD:
        p = warren("run", *args)
        eq((p.returncode, p.stderr.decode()), (125, f"warren run: {message}\n"), f"answer to {args}")
        if "--json" in args:
            eq(json.loads(p.stdout)["error"]["message"], message, "error in JSON")
        else:
            eq(p.stdout, b"", f"stdout of {args}")


@test
def an_error_about_a_long_value_keeps_its_example():
    p = warren("run", "--memory", MANY * 40, "true")
    eq(p.returncode, 125)
    eq(p.stderr.count(b"\n"), 1, "lines")
    ok(p.stderr.endswith(b" (example: --memory 512m)\n"), p.stderr[-80:])


@test
def an_error_is_json_even_if_the_option_follows_it():
    p = warren("run", "--memory", "lots", "--json", "true")
    eq(p.returncode, 125)
    e = json.loads(p.stdout)
    eq(e, {"error": {"message": "--memory: 'lots' is not a size: use a number with k, m, g or t "
                     "(example: --memory 512m)", "errno": "EINVAL", "status": 125}})


@test
def unknown_commands_are_refused_with_a_suggestion():
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
def entrypoint_replaces_that_of_the_image():
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
def every_form_of_help_prints_the_same_text():
    eq(help_text("help"), help_text("--help"))
    eq(help_text("-h"), help_text("--help"))
    for command in re.findall(r"^  ([a-z]+) {2,}", help_text("help"), re.M):
        eq(help_text("help", command), help_text(command, "--help"))
        eq(help_text(command, "-h"), help_text(command, "--help"))
    eq(help_text("run", "-ih"), help_text("run", "--help"))
    eq(help_text("run", "--nonsense", "--help"), help_text("run", "--help"))


def rows_of(text):
    """The names in the table of commands of a help text."""
    return re.findall(r"^  ([a-z]+) {2,}", text, re.M)


@test
def lines_of_help_fit_a_terminal():
    texts = {(c,): help_text(c, "--help") for c in rows_of(help_text("help"))}
    for (command,), text in list(texts.items()):
        if text.startswith(f"Usage: warren {command} COMMAND"):
            texts.update({(command, c): help_text(command, c, "--help") for c in rows_of(text)})
    ok(len(texts) >= 80, f"{len(texts)} help texts")
    eq([(*names, line) for names, text in texts.items() for line in text.split("\n") if len(line) > 90], [])


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
    for command, page in [("run", "warren-run.1"), ("doctor", "warren-doctor.1"), ("gc", "warren-gc.1"), ("diff", "warren-diff.1"), ("accept", "warren-accept.1"), ("reject", "warren-reject.1"), (None, "warren.1")]:
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
                ok(re.search(rf"^\.It Ic {name}\b", manual, re.M) or os.path.exists(f"{BUILD}/man/warren-{name}.1"),
                   f"{name} is not in {page}")


@test
def every_command_has_a_manual_page():
    """`man warren-exec` opens a page with that name that describes the command."""
    with open(os.path.join(SOURCE, "man/warren-client.1"), encoding="utf-8") as f:
        client = f.read()
    own = {"run", "image", "doctor", "gc", "serve", "work", "diff", "accept", "reject", "detect", "setup"}
    for name, summary in re.findall(r"^  ([a-z]+) {2,}(.*)$", help_text("help"), re.M):
        if summary.startswith("Alias of 'image "):
            with open(f"{BUILD}/man/warren-{name}.1", encoding="utf-8") as f:
                eq(f.read(), ".so man1/warren-image.1\n", name)
        if name in own | {"completion", "version", "help"} or summary.startswith("Alias of"):
            continue
        with open(f"{BUILD}/man/warren-{name}.1", encoding="utf-8") as f:
            eq(f.read(), ".so man1/warren-client.1\n", name)
        ok(re.search(rf"^\.Ss warren {name}\b", client, re.M), f"warren {name} is not in warren-client.1")


@test
def every_option_has_a_test():
    positive = ""
    # The last files test options that only matter for images of registries or with the service.
    for other in ("test-cli-options.py", "test-cli-terminal.py", "test-oci.py", "test-client-run.py",
                  "test-docker-words.py", "test-network-run.py"):
        with open(f"{SOURCE}/test/system/{other}", encoding="utf-8") as f:
            positive += f.read()
    for name in long_options(help_text("run", "--help")) - {"help"}:
        ok(f'"--{name}' in positive, f"--{name} has no test")
    for letter in re.findall(r"^  -(.),", help_text("run", "--help"), re.M):
        ok(letter == "h" or re.search(rf'"-[a-z]*{letter}', positive), f"-{letter} has no test")


@test
def a_program_missing_only_in_the_sandbox_is_explained():
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
def doctor_prints_text_and_json():
    p = warren("doctor", "--json")
    eq(p.stderr, b"")
    d = json.loads(p.stdout)
    eq(set(d), {"version", "ok", "features", "backends", "orphans"})
    eq(p.returncode, 0 if d["ok"] else 1, "status")
    promised = {"kernel", "namespaces", "overlay", "seccomp", "id-mapped mounts", "cgroups", "rootless", "landlock",
                "loop devices", "volumes", "criu", "runsc", "kvm"}
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
def doctor_works_for_every_user():
    if not ROOT:
        raise Skip("is not root anyway")
    with scratch() as d:  # the program may be in a directory that only root can access
        os.chmod(d, 0o755)
        copy = shutil.copy(WARREN, os.path.join(d, "warren"))
        p = subprocess.run([copy, "doctor", "--json"], stdin=subprocess.DEVNULL, capture_output=True,
                           timeout=WAIT, user=65534, group=65534, extra_groups=[], cwd="/")
    ok(p.returncode in (0, 1), f"status {p.returncode}: {p.stderr!r}")
    eq(p.returncode == 0, json.loads(p.stdout)["ok"])


if __name__ == "__main__":
    sys.exit(main())
