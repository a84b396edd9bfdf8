#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-client.py - the commands that use the service: arguments, help, sandboxes"""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, ok, eq, scratch, warren, SOURCE, BUILD, WARREN, MIB  # pylint: disable=wrong-import-position
from client_world import w, environ, call, call_json, sandbox, main  # pylint: disable=wrong-import-position

CLIENT = ("create", "ls", "show", "exec", "shell", "session", "cp", "logs", "top", "events", "pause", "resume", "rm",
          "wait", "port", "token", "backends", "attach", "stop", "start", "hibernate", "restart", "kill", "rename", "mcp",
          "code", "network", "secret", "volume", "undo", "reset", "fork", "snapshot", "cert")
VERBS = {"session": ("open", "run", "ls", "close"), "token": ("create", "ls", "rm"), "secret": ("set", "ls", "rm"),
         "volume": ("create", "ls", "inspect", "cp", "rm", "prune"),
         "snapshot": ("create", "ls", "inspect", "tag", "rm")}


# -------------------------------------------------------------- arguments and help


def help_text(*args):
    p = warren(*args, "--help")
    eq((p.returncode, p.stderr), (0, b""), f"{args}")
    return p.stdout.decode()


def options(text):
    return set(re.findall(r"^  (?:-.,|   ) --([a-z0-9-]+)", text, re.M))


def every_command():
    for c in CLIENT:
        if c in VERBS:
            yield from ((c, v) for v in VERBS[c])
        else:
            yield (c,)


@test
def without_a_service_the_error_says_how_to_start_one():
    for host in ("unix:/nonexistent/w.sock", "http://127.0.0.1:1"):
        p = warren("ls", env={"PATH": "/bin", "WARREN_HOST": host})
        eq((p.returncode, p.stdout), (125, b""), host)
        ok(re.fullmatch(rb"warren ls: no service at " + host.encode() + rb": [^\n]*start one with 'warren serve'[^\n]*"
                        rb"WARREN_HOST\n", p.stderr), p.stderr)
    for host in ("nonsense", "unix:relative", "http://", "http://a@b", "https://a/path"):
        p = warren("ls", env={"PATH": "/bin", "WARREN_HOST": host})
        eq((p.returncode, p.stdout), (125, b""), host)
        ok(re.fullmatch(rb"warren ls: WARREN_HOST: [^\n]+\(example: WARREN_HOST=[^\n]+\)\n", p.stderr), p.stderr)
    p = warren("ls", env={"PATH": "/bin", "WARREN_TOKEN": "a\nb"})
    eq((p.returncode, p.stdout), (125, b""))
    ok(b"WARREN_TOKEN is not a token" in p.stderr, p.stderr)


@test
def an_error_is_one_line_and_status_125():
    for words in every_command():
        name = " ".join(words).encode()
        p = warren(*words, "--frobnicate")
        eq((p.returncode, p.stdout), (125, b""), words)
        ok(re.fullmatch(rb"warren " + name + rb": unknown option '--frobnicate' \(see --help; example: warren [^\n]*\)\n",
                        p.stderr), p.stderr)
        for name_, value in re.findall(r"^  (?:-.,|   ) --([a-z0-9-]+) (\S+)", help_text(*words), re.M):
            p = warren(*words, f"--{name_}")
            eq((p.returncode, p.stdout), (125, b""), words)
            ok(re.fullmatch(rb"warren [a-z ]+: --%s needs a value \(example: --%s [^\n]+\)\n" %
                            (name_.encode(), name_.encode()), p.stderr), (value, p.stderr))
    for args, said in [
        (["create", "--memroy", "1g"], "create: unknown option '--memroy', did you mean --memory? (example: --memory 512m)"),
        (["create", "--cpus", "x"], "create: --cpus: "),
        (["create", "--ttl", "1parsec"], "create: --ttl: "),
        (["create", "--count", "0"], "create: --count: '0' is less than 1 (example: --count 100)"),
        (["create", "word"], "create: unexpected argument 'word'"),
        (["exec"], "exec: SANDBOX [--] CMD [ARG...] is missing (example: warren exec -it"),
        (["exec", "box"], "exec: [--] CMD [ARG...] is missing"),
        (["exec", "-it", "box", "sh"], "exec: --tty: stdin is not a terminal"),
        (["exec", "-t", "--json", "box", "sh"], "exec: --json and --tty exclude each other"),
        (["exec", "box", "--"], "exec: CMD is missing (example: warren exec -it"),
        (["exec", "box", ""], "exec: CMD is missing"),
        (["session", "k3f9x2m7qd1w", ""], "session run: CMD is missing"),
        (["session", "opne"], "session: there is no command 'opne', did you mean 'warren session open'?"),
        (["help", "session", "nosuch"], "session: there is no command 'nosuch' (see 'warren session --help'"),
        (["help", "token", "crate"], "token: there is no command 'crate', did you mean 'warren token create'?"),
        (["help", "version", "x"], "help: 'warren version' has no subcommands"),
        (["help", "token", "create", "x"], "help: unexpected argument 'x'"),
        (["image", "tag", "a:1"], "image tag: REFERENCE is missing (example: warren image tag python:3.12 mine:1.0)"),
        (["image", "pul"], "image: there is no command 'pul', did you mean 'warren image pull'?"),
        (["image"], "image: no command given (see 'warren image --help'; example: warren image pull"),
        (["image", "load", "--input="], "image load: --input: it is empty (example: --input image.tar)"),
        (["--version", "x"], "version: unexpected argument 'x'"),
        (["events", "-n", "0"], "events: --count: '0' is less than 1 (example: --count 10)"),
        (["run", "--backend=", "true"], "run: --backend: it is empty (example: --backend docker)"),
        (["run", "--tier=", "true"], "run: --tier: it is empty (example: --tier gvisor)"),
        (["rm"], "rm: SANDBOX... is missing (example: warren rm"),
        (["ls", "--state", "running", "box"], "ls: the commands of 'box' cannot be selected with --label, --state, "),
        (["ls", "--wide", "box"], "ls: the commands of 'box' cannot be selected with --label, --state, "),
        (["rm", "--all", "box"], "rm: give sandbox ids or --all/--label, not both"),
        (["cp", "a", "b"], "cp: no sandbox is given"),
        (["cp", "--tar", "a:/x", "b:/y"], "cp: --tar needs '-'"),
        (["cp", "a", "b:relative"], "cp: 'relative' is not an absolute path in the sandbox"),
        (["cp", "--tar", "a", "b:/x"], "cp: --tar needs '-', not 'a'"),
        (["port", "box", "70000"], "port: '70000' is not a port"),
        (["token"], "token: no command given"),
        (["token", "crate"], "token: there is no command 'crate', did you mean 'warren token create'?"),
        (["token", "create", "me"], "token create: --scope is missing"),
        (["session"], "session: no command given"),
        (["wait", "--state", "gone", "--exec", "x", "box"], "wait: --state and --exec exclude each other"),
        (["logs", "--from", "x", "box"], "logs: --from: "),
        (["completion"], "completion: bash|zsh|fish is missing (example: warren completion bash)"),
        (["completion", "csh", "x"], "completion: unexpected argument 'x'"),
        (["completion", "csh"], "completion: 'csh' is not one of bash, zsh and fish"),
    ]:
        p = warren(*args)
        eq((p.returncode, p.stdout), (125, b""), args)
        ok(p.stderr.decode().startswith("warren " + said) and p.stderr.count(b"\n") == 1, f"{args}: {p.stderr!r}")


@test
def serve_refuses_in_one_line():
    for args, said in ((["--frobnicate"], "unknown option '--frobnicate' (see --help; example: warren serve --listen unix:"),
                       (["--log-levle", "x"], "unknown option '--log-levle', did you mean --log-level?"), (["--listen"], "--listen needs a value"),
                       (["--listen", ""], "--listen: an item is empty"), (["x"], "unexpected argument 'x' (example: warren serve --config"),
                       (["--max-pids", "-1"], "--max-pids: '-1' is not a whole number"), (["--state-dir=x"], "--state-dir: 'x' is not an absolute"),
                       (["--config", "/nonexistent"], "read '/nonexistent': No such file or directory")):
        p = warren("serve", "--check", *args)
        eq((p.returncode, p.stdout), (1, b""), args)
        ok(p.stderr.decode().startswith(f"warren serve: {said}") and p.stderr.count(b"\n") == 1, f"{args}: {p.stderr!r}")


@test
def serve_check_reports_what_would_make_a_start_fail():
    with scratch() as d:
        os.chmod(d, 0o755)
        os.mkdir(f"{d}/locked", 0o755)
        with open(f"{d}/file", "w", encoding="ascii"):
            pass
        program = shutil.copy(f"{BUILD}/warren-serve", d)  # the build may be in a directory that only root can access
        usual = {"--state-dir": f"{d}/s/t", "--run-dir": f"{d}/r"}

        def serve(*check, user=None, **changed):
            args = {**usual, **{f"--{k.replace('_', '-')}": v for k, v in changed.items()}}
            drop = {"user": user, "group": user, "extra_groups": [], "cwd": "/"} if user else {}
            return subprocess.run([program, *check, *(x for kv in args.items() for x in kv)], capture_output=True,
                                  stdin=subprocess.DEVNULL, timeout=30, text=True, check=False, **drop)
        r = serve("--check")
        eq((r.returncode, sorted(os.listdir(d))), (0, ["file", "locked", "warren-serve"]), f"nothing is made: {r}")
        os.mkdir(f"{d}/free")
        os.chmod(f"{d}/free", 0o777)
        for way in (["--check"], []):
            r = serve(*way, state_dir=f"{d}/file/x")
            ok(r.returncode == 1 and f"state_dir: '{d}/file/x' cannot be created: '{d}/file" in r.stderr, f"{way}: {r}")
            for key in ("state_dir", "run_dir"):
                r = serve(*way, user=65534, **{"state_dir": f"{d}/free/x", "run_dir": f"{d}/free/x", key: f"{d}/locked/deep/er"})
                ok(r.returncode == 1 and f"{key}: '{d}/locked/deep/er' cannot be created: '{d}/locked': Permission denied; "
                   f"choose another directory (example: --{key.replace('_', '-')} " in r.stderr, f"{way}: {r}")
        r = serve("--check", mounts=f"{d}/none:ro")
        eq(r.returncode, 0, f"{r}")
        ok(f"note: mounts: '{d}/none': No such file or directory" in r.stderr, f"{r}")
        r = serve("--check", tls_cert=f"{d}/file", tls_key=f"{d}/file")
        ok(r.returncode == 1 and f"{d}/file" in r.stderr, f"{r}")


@test
def no_option_accepts_an_invalid_value():
    """Gives each option of each command an invalid value. Client or service must answer with one line that names the
    option."""
    # These options accept any bytes: names of variables, programs, directories, or objects that may not exist.
    any_bytes = {"dir", "env", "env-file", "shell", "exec", "session", "sandbox"}
    with sandbox() as box:
        call("exec", box, "true")
        # The arguments that a command needs, so that only its options are invalid.
        after = {"exec": [box, "true"], "session run": [box, "true"], "session open": [box], "logs": [box], "wait": [box],
                 "port": [box, "80"], "cp": ["/etc/passwd", f"{box}:/tmp/x"], "token create": ["--scope", "read", "mine"], "kill": [box],
                 "code": ["bash", "/dev/null"], "volume create": ["mine"], "fork": [box],
                 "snapshot create": [box]}
        for words in every_command():
            for name in re.findall(r"^  (?:-.,|   ) --([a-z0-9-]+) \S+  ", help_text(*words), re.M):
                for odd in ("", "\x1b[31m\n", "x" * 5000):
                    if odd and name in any_bytes:
                        continue
                    p = warren(*words, f"--{name}={odd}", *after.get(" ".join(words), []), env=environ())
                    what = f"{' '.join(words)} --{name}={odd[:9]!r} said {p.stderr!r}"
                    eq((p.returncode, p.stdout), (125, b""), what)
                    ok(p.stderr.startswith(f"warren {' '.join(words)}: --{name}: ".encode()), what)
                    ok(b"(example: " in p.stderr and p.stderr.count(b"\n") == 1 and b"\x1b" not in p.stderr, what)
        eq(call("ls", "-q"), f"{box}\n".encode(), "and nothing was made")


@test
def an_error_of_the_service_names_the_option():
    with sandbox() as box:
        call("exec", box, "true")
        for args, said in [
            (["create", "--on-idle", "x"], "create: --on-idle: must be one of pause, hibernate, delete; is 'x' (example: --on-idle hibernate)"),
            (["create", "--pids", "4000000"], "create: --pids: 4000000 is more than the 32768 that the service allows (example: --"),
            (["create", "--count", "2", "--tier", "x"], "create: --tier: must be one of none, "),
            (["create", "--backend", "nosuch"], "create: --backend: there is no backend 'nosuch' here; available: native"),
            (["create", "--wait", "999h"], "create: --wait: must be at most 3600000"),
            (["create", "--key", "a b"], "create: --key: must be printable ASCII"),
            (["ls", "--state", "x"], "ls: --state: must be one of creating, "),
            (["rm", "--label", "=x"], "rm: --label: must be key=value, or a key; is '=x' (example: --label team=search)"),
            (["logs", "--stream", "x", box], "logs: --stream: must be one of all, stdout, stderr; is 'x' (example: --"),
            (["wait", "--state", "x", box], "wait: --state: must be one of creating, "),
            (["exec", "--output-limit", "4000g", box, "true"], "exec: --output-limit: must be at most "),
            (["token", "create", "--scope", "x", "mine"], "token create: --scope: must be one of read, "),
            (["token", "create", "--scope", "read", ""], "token create: NAME: must not be empty (example: warren token create "),
            (["run", "--daemon", "--backend", "nosuch", "true"], "run: --backend: there is no backend 'nosuch' here"),
        ]:
            call(*args, status=125, stderr=re.compile(rb"\Awarren " + re.escape(said.encode()) + rb"[^\n]*\n\Z"))
        for args, status, said in ((["--backend", "nosuch", "true"], 125, "--backend: there is no"), (["nosuch"], 127, "execute 'nosuch'")):
            told = call_json("run", "--daemon", "--json", *args, status=status, stderr=None)["error"]
            ok(told["message"].startswith(said) and told["status"] == status, f"{told}")


@test
def help_and_manual_agree():
    with open(f"{SOURCE}/man/warren-client.1", encoding="utf-8") as f:
        sections = dict(re.findall(r"^\.Ss warren ([a-z ]+)\n(.*?)(?=^\.S[sh])", f.read(), re.M | re.S))
    listed = dict(re.findall(r"^  ([a-z]+) +(\S.*)$", help_text(), re.M))
    for words in every_command():
        text, section = help_text(*words), sections.pop(" ".join(words))
        eq(set(re.findall(r"^\.It .*Fl -([a-z0-9-]+)", section, re.M)), options(text) - {"help"}, f"options of {words}")
        eq(set(re.findall(r"^\.It Fl (\S) ,", section, re.M)),
           set(re.findall(r"^  -(.),", text, re.M)) - {"h"}, f"letters of {words}")
        eq(warren("help", *words).stdout.decode(), text, f"help {words}")
        ok(max(map(len, text.split("\n"))) <= 110, f"lines of the help of {words} are short")
    for command in CLIENT:
        eq(help_text(command).split("\n")[2], listed[command], f"what {command} is for, here and in the list")
    eq(set(sections), set(VERBS), "sections that are of no command")
    with open(f"{SOURCE}/man/warren-serve.8", encoding="utf-8") as f:
        manual = f.read()
    for name in ("config", "check", "example", "help"):
        ok(f"--{name} " in help_text("serve"), f"--{name} in the help of serve")
        ok(re.search(rf"^\.It .*Fl -{name}\b", manual, re.M), f"--{name} in the manual of serve")


@test
def every_command_has_machine_readable_output():
    images = [("image", v) for v in re.findall(r"^  ([a-z]+) +[A-Z]", help_text("image"), re.M)]
    ok(("image", "load") in images, images)
    # These commands have no --json: terminals are for people, inspect and MCP always print JSON, and the others print
    # nothing.
    for words in [*every_command(), *images, ("run",), ("doctor",), ("version",)]:
        if words not in (("shell",), ("attach",), ("mcp",), ("image", "inspect"), ("secret", "set"), ("secret", "rm"),
                         ("volume", "inspect"), ("volume", "cp"), ("snapshot", "inspect")):
            ok("json" in options(help_text(*words)), f"--json of {words}")
    eq(list(json.loads(warren("version", "--json").stdout)), ["version"])


def completed(*words, **env):
    p = warren("__complete", *words, env=environ(**env))
    eq((p.returncode, p.stderr), (0, b""), words)
    return {line.split("\t")[0] for line in p.stdout.decode().splitlines()}


@test
def completion_is_generated_from_the_tables():
    listed = set(re.findall(r"^  ([a-z]+) {1,}[A-Z]", help_text(), re.M))
    eq(completed(""), listed, "commands")
    eq(completed("help", ""), listed, "commands to help with")
    for command, verbs in VERBS.items():
        eq(completed(command, ""), set(verbs), f"commands of {command}")
    for words in [*every_command(), ("run",), ("doctor",), ("image", "pull"), ("image", "ls")]:
        host = {"WARREN_HOST": ""} if words[0] == "image" else {}  # the help lists the options for this machine's images
        eq(completed(*words, "-", **host), {f"--{o}" for o in options(help_text(*words))}, f"options of {words}")
    serve = completed("serve", "--")
    ok({"--listen", "--log-level", "--config", "--help"} <= serve, serve)
    eq(serve, set(re.findall(r"^ +(?:-h, )?(--[a-z0-9-]+)", help_text("serve"), re.M)), "options of serve")
    eq(completed("completion", ""), {"bash", "zsh", "fish"})
    eq(completed("create", "--name", ""), set(), "values of options are the shell's business")
    with sandbox("--name", "completed") as box:
        for words in (["rm", ""], ["exec", "-e", "A=b", ""], ["rm", "x", ""], ["session", "run", ""]):
            eq(completed(*words), {"completed", box}, words)
        eq(completed("exec", box, ""), set(), "the command is not ours to complete")


@test
def docker_commands_are_aliases():
    """An alias works like its command, including help and completion."""
    with sandbox("--name", "known") as box:
        eq(call("ps", "-aq"), call("ls", "-q"))
        eq(json.loads(call("inspect", "--json", box))["id"], box)
    for alias, words in {"ps": ["ls"], "images": ["image", "ls"], "rmi": ["image", "rm"], "build": ["image", "build"],
                         "login": ["image", "login"], "logout": ["image", "logout"], "info": ["doctor"]}.items():
        eq(help_text(alias), help_text(*words), f"help of {alias}")
        eq(completed(alias, "--", WARREN_HOST=""), completed(*words, "--", WARREN_HOST=""), f"options of {alias}")


@test
def completion_scripts_work_in_every_shell():
    for shell in ("bash", "zsh", "fish"):
        script = call("completion", shell)
        ok(b"__complete" in script, script)
        if shutil.which(shell):
            subprocess.run([shell, "-n"], input=script, check=True, timeout=20)
    with scratch() as d:
        os.symlink(WARREN, f"{d}/warren")
        words = "eval \"$(warren completion bash)\"; COMP_WORDS=(warren token cre); COMP_CWORD=2; _warren; " \
                "echo ${COMPREPLY[*]}; COMP_WORDS=(warren create --idle-t); _warren; echo ${COMPREPLY[*]}"
        p = subprocess.run(["bash", "-c", words], stdout=subprocess.PIPE, timeout=20, check=True,
                           env=environ(PATH=f"{d}:{os.environ['PATH']}", WARREN_LIBEXEC=os.path.dirname(WARREN)))
        eq(p.stdout, b"create\n--idle-timeout\n")


# ------------------------------------------------------------------------ sandboxes


@test
def sandboxes_are_created_listed_shown_and_removed():
    with sandbox("--name", "one", "-l", "team=a", "-l", "run=1", "-e", "A=b", "-m", "128m", "--cpus", "0.5",
                 "--pids", "50", "--disk", "32m", "--nofile", "100", "-w", "/tmp", "-u", "1000:1000", "--hostname",
                 "burrow", "--network", "none", "--read-only", "--tmpfs", "/scratch:size=1m", "--ttl", "1h",
                 "--idle-timeout", "10m", "--on-idle", "delete", "--no-wake", "--image", "host") as one, \
            sandbox("-l", "team=b", "-q", "--idle-action", "hibernate", "--on-ttl", "pause") as two:
        shown = call_json("show", "--json", "one")
        for key, value in {"id": one, "name": "one", "labels": {"team": "a", "run": "1"}, "env": {"A": "b"},
                           "hostname": "burrow", "network": "none", "read_only": True, "ttl_ms": 3600000,
                           "idle_timeout_ms": 600000, "on_idle": "delete", "wake_on_use": False, "user": "1000:1000",
                           "workdir": "/tmp"}.items():
            eq(shown[key], value, key)
        other = call_json("show", "--json", two)
        eq((other["on_idle"], other["on_ttl"], shown["on_ttl"]), ("hibernate", "pause", "delete"))
        eq(shown["limits"], {"memory": 128 * MIB, "cpu_millis": 500, "pids": 50, "disk": 32 * MIB, "nofile": 100})
        text = call("show", one, two).decode()
        ok(f"id:            {one}\n" in text and f"id:            {two}\n" in text and "enforced:\n" in text, text)
        eq([s["id"] for s in call_json("show", "--json", one, two)], [one, two])

        lines = call("ls").decode().splitlines()
        eq(lines[0].split(), ["ID", "NAME", "IMAGE", "STATE", "CREATED", "LABELS"])
        eq(len({line.index(word) for line, word in ((lines[0], "STATE"), (lines[1], "running"), (lines[2], "running"))}),
           1, "columns are aligned")
        ok(re.search(r"[0-9]+ seconds? ago", lines[1]), lines[1])
        eq(call("ls", "-q").decode().split(), [two, one], "the newest first")
        for filters, want in ((["-l", "team=a"], [one]), (["-l", "team"], [two, one]), (["--name", "one"], [one]),
                              (["-l", "team=a", "-l", "run=2"], []), (["-s", "paused"], []),
                              (["--state", "running", "--state", "paused"], [two, one])):
            eq(call("ls", "-q", *filters).decode().split(), want, filters)
        eq({s["id"] for s in call_json("ls", "--json")}, {one, two})

        eq(call("pause", "one"), one.encode() + b"\n")
        eq(call("ls", "-q", "--state", "paused"), one.encode() + b"\n")
        eq(call("resume", "-q", one), b"")
        eq(json.loads(call("pause", "--json", one))["state"], "paused")
        eq(call("resume", "--all").decode().split(), [two, one])


@test
def a_sandbox_is_found_by_name_or_unique_prefix():
    with sandbox("--name", "Twin.1") as a, sandbox("--name", "twin") as b:
        prefix = next(a[:n] for n in range(1, 13) if a[:n] != b[:n])
        eq(call("exec", prefix, "echo", "hello"), b"hello\n")
        eq([call_json("show", name, "--json")["id"] for name in ("twin", "Twin.1")], [b, a])
        call("show", "nobody-there", status=125, stderr=re.compile(rb"^warren show: there is no sandbox 'nobody-there'\n$"))
        call("show", "bbbbbbbbbbbb", status=125, stderr=re.compile(rb"^warren show: [^\n]*bbbbbbbbbbbb[^\n]*\n$"))
        call("show", "Bad/name", status=125, stderr=re.compile(rb"neither an id nor a name"))
        call("rm", "bbbbbbbbbbbb", status=125, stderr=None)
        eq(call("rm", "-f", "bbbbbbbbbbbb"), b"")
        eq(call("rm", "-f", "nobody-there"), b"")
        eq(json.loads(call("rm", "--json", a)), {"id": a, "state": "gone"})
        eq(call("rm", "twin"), b.encode() + b"\n", "by its name")
        eq(call("ls", "-q"), b"")


@test
def an_empty_argument_matches_nothing():
    """An empty argument, such as an unset variable of a script, must not match the only object that exists."""
    with sandbox() as box:
        session = call("session", "open", box).decode().strip()
        call("exec", box, "true")
        token = call_json("token", "create", "--json", "--scope", "read", "mine")["id"]
        for words, said in ((("session", "close", box, ""), "session close: '' is not the id of a session"),
                            (("session", "run", "--session=", box, "true"), "session run: --session: it is empty"),
                            (("logs", box, ""), "logs: '' is not the id of an exec"),
                            (("wait", "--exec=", box), "wait: --exec: it is empty"),
                            (("token", "rm", ""), "token rm: '' is not the id of a token"),
                            (("token", "rm", "nosuch"), "token rm: there is no token 'nosuch'"),
                            (("rm", ""), "rm: '' is neither an id nor a name of a sandbox")):
            call(*words, status=125, stderr=re.compile(rb"\Awarren " + re.escape(said.encode()) + rb"[^\n]*\n\Z"))
        eq(call("session", "ls", "-q", box).decode().split(), [session], "sessions")
        ok(token in call("token", "ls", "-q").decode().split(), "the token is there")
        call("token", "rm", token[:8])
        ok(token not in call("token", "ls", "-q").decode().split(), "by the beginning of its id")


@test
def several_sandboxes_are_created_by_one_command():
    ids = call("create", "--count", "5", "-l", "batch=1").decode().split()
    w().seen |= set(ids)
    eq(len(set(ids)), 5)
    key = ["create", "--key", "the-same", "-l", "batch=1"]
    eq(call(*key), call(*key), "the same key, the same sandbox")
    eq(len(call_json("ls", "--json", "-l", "batch")), 6)
    eq(len(call_json("create", "--json", "--count", "2", "-l", "batch=1")), 2)
    eq(len(call("rm", "-l", "batch=1").split()), 8)
    eq(call("ls", "-q"), b"")


@test
def ls_shows_and_filters_backend_and_tier():
    with sandbox("--backend", "native", "--tier", "container", "--name", "here") as box:
        wide = call("ls", "--wide").decode().split("\n")
        eq(wide[0].split()[4:6], ["BACKEND", "TIER"])
        eq(wide[1].split()[4:6], ["native", "namespace"])
        eq(call("ls", "-q", "--backend", "native", "--tier", "namespace").decode().strip(), box)
        eq(call("ls", "-q", "--backend", "docker"), b"")
        ok("BACKEND" not in call("ls").decode(), "not asked for")
    call("create", "--tier", "vm", status=125, stderr=re.compile(rb"tier 'vm' is requested"))
    call("run", "--daemon", "--backend", "nosuch", "true", status=125, stderr=re.compile(rb"no backend 'nosuch'"))
    eq(call("run", "--daemon", "--tier", "namespace", "echo", "x"), b"x\n")
    rows = call("backends").decode().split("\n")
    eq(rows[0].split()[:4], ["NAME", "KIND", "TIER", "AVAILABLE"])
    eq(rows[1].split(), ["native", "(default)", "native", "namespace", "yes"])
    found = json.loads(call("backends", "--json"))
    eq([b["name"] for b in found], ["native", "docker", "gvisor"])
    features = call("backends", "--features").decode()
    for f in found[0]["features"]:
        ok(f["name"] in features and f["detail"] in features, f"{f} is not in the table")


@test
def a_failed_create_reports_the_reason():
    call("create", "--image", "no.such.host.invalid/x:1", "--pull", "never", status=125,
         stderr=re.compile(rb"^warren create: [^\n]+\n$"))
    call("create", "--name", ".name", status=125, stderr=re.compile(rb"^warren create: [^\n]*name[^\n]*\n$"))
    call("create", "-l", "=x", status=125, stderr=re.compile(rb"--label: '=x' is not KEY=VALUE"))
    call("create", "-e", b"A=\xff\xfe", status=125, stderr=re.compile(rb"^warren create: [^\n]*UTF-8\n$"))
    eq(call("ls", "-q"), b"")


if __name__ == "__main__":
    sys.exit(main())
