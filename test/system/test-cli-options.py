#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-cli-options.py - the options of `warren run`

Prints TAP. $WARREN is the program (default build/warren). After every test, no trace of a sandbox may remain. Hostile
commands limit themselves, and none runs before a probe has shown that commands are isolated.
"""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, needs_root, ok, eq, scratch, warren, WARREN, ROOT, MIB  # pylint: disable=wrong-import-position
from cli_world import WAIT, run, sh, run_json, start, finish, main  # pylint: disable=wrong-import-position


@test
def an_option_can_be_written_in_every_usual_form():
    for form in (["-e", "A=1"], ["-eA=1"], ["--env", "A=1"], ["--env=A=1"], ["-ieA=1"]):
        eq(sh("echo $A", *form), b"1\n", f"with {form}")
    eq(run("--env", "A=1", "sh", "-c", "echo $A"), b"1\n", "the first word ends the options")
    eq(run("echo", "-e", "--json"), b"--json\n", "what follows is the command's")
    eq(run("--", "echo", "--", "-i"), b"-- -i\n")


@test
def the_exit_status_is_that_of_the_command():
    sh("exit 0")
    sh("exit 1", status=1)
    sh("exit 255", status=255)
    for name in ("KILL", "TERM", "SEGV", "USR1"):
        sh(f"kill -{name} $$", status=128 + getattr(signal, f"SIG{name}"))


@test
def a_missing_command_has_status_127():
    p = warren("run", "no-such-command")
    eq((p.returncode, p.stdout), (127, b""))
    ok(re.fullmatch(rb"warren run: [^\n]*no-such-command[^\n]*\n", p.stderr), p.stderr)
    eq(warren("run", "/no/such").returncode, 127)


@test
def a_command_that_cannot_be_executed_has_status_126():
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
def env_sets_variables():
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
def env_file_sets_variables():
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
def workdir_sets_the_working_directory():
    eq(run("pwd"), b"/\n")
    eq(run("--workdir", "/usr", "pwd"), b"/usr\n")
    eq(run("-w", "/made/for/it", "sh", "-c", "pwd; touch here"), b"/made/for/it\n")
    eq(run("-w", "/a:b/..c/d.", "pwd"), b"/a:b/..c/d.\n", "an odd name")
    run("-w", "/etc/passwd", "true", status=125,
        stderr=b"warren run: enter the directory '/etc/passwd': Not a directory\n")


@needs_root
def user_sets_the_user():
    script = 'echo "$(id -u):$(id -g)"'
    eq(sh(script), b"0:0\n")
    eq(sh(script, "--user", "1000:1001"), b"1000:1001\n")
    eq(sh(script, "-u", "1000")[:5], b"1000:")
    eq(sh(script, "-u", "nobody"), b"65534:65534\n")
    p = warren("run", "-u", "no-such-user", "true")
    eq((p.returncode, p.stdout), (125, b""))
    ok(re.fullmatch(rb"warren run: [^\n]*'no-such-user'[^\n]*\n", p.stderr), p.stderr)


test(user_sets_the_user)


@test
def hostname_sets_the_hostname():
    eq(run("--hostname", "burrow", "uname", "-n"), b"burrow\n")
    eq(run("--hostname", "a.b-c.D9", "uname", "-n"), b"a.b-c.D9\n")
    name = ".".join(["a" * 31, "b" * 31])
    eq(run("--hostname", name, "uname", "-n"), name.encode() + b"\n", "of 63 letters")
    r = run_json("uname", "-n")
    eq(r["stdout"], r["id"] + "\n", "the default is the id")


@needs_root
def memory_limits_memory():
    # This uses at most 256 MiB, even if the limit does not work.
    hog = "head -c 256M /dev/zero | exec tail"
    r = run_json("--memory", "64m", "sh", "-c", hog, status=137, stderr=None)
    eq((r["oom"], r["timed_out"]), (True, False))
    ok(r["max_memory_bytes"] <= 64 * MIB, f"it had {r['max_memory_bytes']} bytes")
    p = warren("run", "-m", "64m", "sh", "-c", hog)
    ok(b"warren run: out of memory: " in p.stderr, p.stderr)
    run_json("-m", "64m", "sh", "-c", "head -c 1M /dev/zero | exec tail >/dev/null")


test(memory_limits_memory)


@needs_root
def cpus_limits_processor_time():
    spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"

    def share(*limit):
        r = run_json(*limit, "sh", "-c", spin)
        return (r["user_ms"] + r["system_ms"]) / r["wall_ms"]
    held = share("--cpus", "0.2")
    ok(held < 0.5, f"{held} of a processor, with a fifth of one")
    # The control uses as much as the machine has available, which may be little at times.
    free = []
    while not free or max(free) <= held:
        free.append(share())
        ok(len(free) < 10, f"the control is held too: {free}, not more than {held}")


test(cpus_limits_processor_time)


@needs_root
def pids_limits_processes():
    # This starts at most 30 processes, even if the limit does not work.
    many = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 3 & done; echo all"
    p = warren("run", "--pids", "8", "sh", "-c", many)
    ok(b"ork" in p.stderr and b"all" not in p.stdout, f"8 processes are enough: {p}")
    eq(sh(many, "--pids", "40"), b"all\n")


test(pids_limits_processes)


@needs_root
def disk_limits_written_data():
    fill = "head -c 24M /dev/zero >/var/tmp/x 2>/dev/null || head -c 24M /dev/zero >/x"
    p = warren("run", "--disk", "8m", "sh", "-c", f"mkdir -p /var/tmp; {fill}; ls -l /x")
    ok(b"No space left" in p.stderr, f"8 MiB are enough for 24: {p}")
    sh("head -c 24M /dev/zero >/x", "--disk", "64m")


test(disk_limits_written_data)


@test
def nofile_limits_open_files():
    eq(sh("ulimit -n", "--nofile", "123"), b"123\n")
    eq(sh("ulimit -Hn", "--nofile", "123"), b"123\n")


@test
def timeout_ends_the_command():
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
def timeout_ends_a_command_whose_output_is_not_read():
    p = start("--timeout", "500ms", "cat", "/dev/zero")
    time.sleep(1.5)  # no process reads the output, but the timeout must still end the command
    eq(p.poll(), None, "the last output waits for its reader")
    status, out, err = finish(p)
    eq((status, err), (124, b"warren run: timed out after 500ms\n"))
    ok(len(out) > 0, "what was written before")


@test
def volume_mounts_a_directory():
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
def a_volume_of_another_user_belongs_to_the_sandboxs_user():
    """The owner of the source directory is the sandbox's user inside; all other owners appear as the user nobody."""
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


test(a_volume_of_another_user_belongs_to_the_sandboxs_user)


@test
def tmpfs_mounts_a_tmpfs_of_the_given_size():
    eq(sh("stat -f -c %T /t; stat -f -c '%b %S' /t | { read b s; echo $((b*s)); }",
          "--tmpfs", "/t:size=8m"), b"tmpfs\n8388608\n")
    eq(sh("stat -f -c '%b %S' /t | { read b s; echo $((b*s)); }", "--tmpfs", "/t"), b"67108864\n")
    sh("head -c 9M /dev/zero >/t/x 2>/dev/null", "--tmpfs", "/t:size=8m", status=1)


@test
def read_only_makes_the_root_read_only():
    eq(sh("touch /x 2>/dev/null || echo refused", "--read-only"), b"refused\n")
    eq(sh("touch /x && echo written"), b"written\n", "the control")
    eq(sh("touch /t/x && echo written", "--read-only", "--tmpfs", "/t"), b"written\n")


@test
def backend_and_tier_select_a_backend():
    eq(run("--backend", "native", "echo", "hi"), b"hi\n")
    eq(run("--tier", "container", "echo", "hi"), b"hi\n", "a stronger wall than asked for")
    for args, words in ((["--backend", "nosuch"], b"there is no backend 'nosuch' here; available: native (namespace)"),
                        (["--tier", "vm"], b"tier 'vm' is requested, but no backend provides it here"),
                        (["--backend", "native", "--tier", "gvisor"], b"backend 'native' is of tier 'namespace'"),
                        (["--tier", "strong"], b"there is no tier 'strong'")):
        p = warren("run", *args, "true")
        ok(p.returncode == 125 and p.stderr.startswith(b"warren run: ") and words in p.stderr, f"{args}: {p}")


@test
def image_selects_the_root_filesystem():
    eq(run("--image", "host", "echo", "hi"), b"hi\n")
    busybox = shutil.which("busybox")
    with scratch() as d:
        os.chmod(d, 0o755)
        os.mkdir(f"{d}/bin")
        if not busybox or b"statically" not in subprocess.run(
                ["file", "-L", busybox], capture_output=True, check=False).stdout:
            # Copy all files that one program needs.
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
def network_selects_loopback_or_none():
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
def interactive_passes_stdin():
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
def stdin_may_be_left_unread():
    eq(run("-i", "true", input=b"x" * (8 * MIB)), b"")
    p = start("-i", "sh", "-c", "exec <&-; echo closed; sleep 0.3", stdin=subprocess.PIPE)
    eq(p.stdout.readline(), b"closed\n")
    with contextlib.suppress(BrokenPipeError):
        p.stdin.write(b"x" * (4 * MIB))
        p.stdin.flush()
    eq(finish(p)[0], 0)


@test
def json_prints_the_result():
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
def json_replaces_output_that_is_not_text():
    r = run_json("sh", "-c", r"""printf 'a\000b\377\303\251\000\000\n\033\\"'""")
    eq(r["stdout"], 'a\0b\ufffd\u00e9\0\0\n\x1b\\"')
    eq(run_json("printf", r"\000")["stdout"], "\0")
    eq(run_json("head", "-c", "300000", "/dev/zero")["stdout"], "\0" * 300000)
    run_json("head", "-c", "500000", "/dev/urandom")


@test
def json_marks_output_as_truncated():
    r = run_json("sh", "-c", f"head -c {MIB + 1234567} /dev/zero | tr '\\0' x; printf y >&2")
    eq((len(r["stdout"]), r["stdout_truncated"], r["stdout_lost_bytes"]), (MIB, True, 1234567))
    eq((r["stderr"], r["stderr_truncated"], r["stderr_lost_bytes"]), ("y", False, 0))


@test
def json_reports_a_command_that_cannot_run():
    r = run_json("no-such-command", status=127, stderr=None)
    eq((r["error"]["errno"], r["error"]["status"]), ("ENOENT", 127))
    ok("no-such-command" in r["error"]["message"], r)


@test
def json_works_with_stdin():
    eq(run_json("-i", "cat", input=b"through")["stdout"], "through")


@test
def quiet_and_verbose_control_messages():
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


if __name__ == "__main__":
    sys.exit(main())
