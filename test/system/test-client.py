#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-client.py - the commands of warren that a service answers, as people and scripts use them

One service for most of them; each test leaves it without a sandbox.
"""
import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from serve_world import World, below, until  # pylint: disable=wrong-import-position
from terminal import Terminal  # pylint: disable=wrong-import-position

CLIENT = ("create", "ls", "show", "exec", "shell", "session", "cp", "logs", "top", "events", "pause", "resume", "rm",
          "wait", "port", "token", "backends")
VERBS = {"session": ("open", "run", "ls", "close"), "token": ("create", "ls", "rm")}
WORLD = []  # the service, once there is one


def w():
    if not WORLD:
        port = free_port()
        world = World("--listen", f"tls:127.0.0.1:{port}", tcp=True, start=False)
        world.tls, world.cert = port, f"{world.dir}/cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{world.dir}/key.pem",
                        "-out", world.cert, "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True, timeout=60)
        world.options += ["--tls-cert", world.cert, "--tls-key", f"{world.dir}/key.pem"]
        world.start()
        WORLD.append(world)
    return WORLD[0]


def environ(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("WARREN_") or k == "WARREN_LIBEXEC"}
    return {**env, "WARREN_HOST": f"unix:{w().socket}", "TERM": "vt100", **more}


def call(*args, status=0, stderr=b"", env=None, **kw):
    """A command to its end. stderr: exactly this, a pattern, or None for anything."""
    p = warren(*args, env=environ(**(env or {})), **kw)
    eq(p.returncode, status, f"status of {args}, which said {p.stderr[-500:]!r},")
    if isinstance(stderr, re.Pattern):
        ok(stderr.search(p.stderr), f"{args} said {p.stderr!r}")
    elif stderr is not None:
        eq(p.stderr, stderr, f"stderr of {args}")
    return p.stdout


def call_json(*args, **kw):
    return json.loads(call(*args, **kw))


def start(*args, env=None, **kw):
    kw.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen([WARREN, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env or environ(), **kw)


@contextlib.contextmanager
def sandbox(*options):
    """A sandbox for the time of the block; its id."""
    box = call("create", *options).decode().strip()
    ok(re.fullmatch("[0-9b-df-hj-np-tv-z]{12}", box), f"an id: {box!r}")
    w().seen.add(box)
    try:
        yield box
    finally:
        call("rm", "-f", "-q", box)


def served(*path):
    """Skip where the service does not have it."""
    r = w().ask("GET", "/".join(path))
    if r.status == 501:
        raise Skip(f"the service does not have it: {r.json()['message']}")


# ------------------------------------------------------------------ words and help


def help_text(*args):
    p = warren(*args, "--help")
    eq((p.returncode, p.stderr), (0, b""), f"{args}")
    return p.stdout.decode()


def options(text):
    return set(re.findall(r"^  (?:-.,|   ) --([a-z-]+)", text, re.M))


def every_command():
    for c in CLIENT:
        if c in VERBS:
            yield from ((c, v) for v in VERBS[c])
        else:
            yield (c,)


@test
def no_service_says_how_to_start_one():
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
def what_is_wrong_gets_one_line_and_125():
    for words in every_command():
        name = " ".join(words).encode()
        p = warren(*words, "--frobnicate")
        eq((p.returncode, p.stdout), (125, b""), words)
        ok(re.fullmatch(rb"warren " + name + rb": unknown option '--frobnicate' \(see --help; example: warren [^\n]*\)\n",
                        p.stderr), p.stderr)
        for name_, value in re.findall(r"^  (?:-.,|   ) --([a-z-]+) (\S+)", help_text(*words), re.M):
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
        (["session", "k3f9x2m7qd1w"], "session run: [--] CMD... is missing (example: warren session run"),
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
        (["cp", "a", "b"], "cp: no sandbox is named"),
        (["cp", "a:/x", "b:/y"], "cp: from one sandbox to another is two steps"),
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
def a_check_tells_what_a_start_would_stumble_over():
    with scratch() as d:
        os.chmod(d, 0o755)
        os.mkdir(f"{d}/locked", 0o755)
        with open(f"{d}/file", "w", encoding="ascii"):
            pass
        program = shutil.copy(f"{BUILD}/warren-serve", d)  # it may lie where only root can see it
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
def no_option_takes_what_it_cannot_be():
    """Each option of each command with a value that is none: whoever judges it, one line that names the option."""
    # Any bytes are a variable's name, a program's, or that of something that is not there.
    any_bytes = {"env", "env-file", "shell", "exec", "session", "sandbox"}
    with sandbox() as box:
        call("exec", box, "true")
        # What follows a command, so that its options are all that is wrong.
        after = {"exec": [box, "true"], "session run": [box, "true"], "session open": [box], "logs": [box], "wait": [box],
                 "port": [box, "80"], "cp": ["/etc/passwd", f"{box}:/tmp/x"], "token create": ["--scope", "read", "mine"]}
        for words in every_command():
            for name in re.findall(r"^  (?:-.,|   ) --([a-z-]+) \S+  ", help_text(*words), re.M):
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
def what_the_service_refuses_is_told_of_the_option():
    with sandbox() as box:
        call("exec", box, "true")
        for args, said in [
            (["create", "--on-idle", "x"], "create: --on-idle: must be one of pause, delete; is 'x' (example: --on-idle delete)"),
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
        eq(set(re.findall(r"^\.It .*Fl -([a-z-]+)", section, re.M)), options(text) - {"help"}, f"options of {words}")
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
def programs_can_read_what_every_command_says():
    images = [("image", v) for v in re.findall(r"^  ([a-z]+) +[A-Z]", help_text("image"), re.M)]
    ok(("image", "load") in images, images)
    # A terminal is for people; what is inspected is JSON without asking.
    for words in [*every_command(), *images, ("run",), ("doctor",), ("version",)]:
        if words not in (("shell",), ("image", "inspect")):
            ok("json" in options(help_text(*words)), f"--json of {words}")
    eq(list(json.loads(warren("version", "--json").stdout)), ["version"])


def completed(*words):
    p = warren("__complete", *words, env=environ())
    eq((p.returncode, p.stderr), (0, b""), words)
    return {line.split("\t")[0] for line in p.stdout.decode().splitlines()}


@test
def completion_is_made_of_the_tables():
    listed = set(re.findall(r"^  ([a-z]+) {1,}[A-Z]", help_text(), re.M))
    eq(completed(""), listed, "commands")
    eq(completed("help", ""), listed, "commands to help with")
    for command, verbs in VERBS.items():
        eq(completed(command, ""), set(verbs), f"commands of {command}")
    for words in [*every_command(), ("run",), ("doctor",), ("image", "pull"), ("image", "ls")]:
        eq(completed(*words, "-"), {f"--{o}" for o in options(help_text(*words))}, f"options of {words}")
    serve = completed("serve", "--")
    ok({"--listen", "--log-level", "--config", "--help"} <= serve, serve)
    eq(serve, set(re.findall(r"^ +(?:-h, )?(--[a-z-]+)", help_text("serve"), re.M)), "options of serve")
    eq(completed("completion", ""), {"bash", "zsh", "fish"})
    eq(completed("create", "--name", ""), set(), "values of options are the shell's business")
    with sandbox("--name", "completed") as box:
        for words in (["rm", ""], ["exec", "-e", "A=b", ""], ["rm", "x", ""], ["session", "run", ""]):
            eq(completed(*words), {"completed", box}, words)
        eq(completed("exec", box, ""), set(), "the command is not ours to complete")


@test
def words_of_docker_work_or_say_what_does():
    """An alias is its command, help and completion included; what sandboxes do not do says what to do instead."""
    with sandbox("--name", "known") as box:
        eq(call("ps", "-q"), call("ls", "-q"))
        eq(json.loads(call("inspect", "--json", box))["id"], box)
    for alias, words in {"ps": ["ls"], "images": ["image", "ls"], "rmi": ["image", "rm"], "info": ["doctor"]}.items():
        eq(help_text(alias), help_text(*words), f"help of {alias}")
        eq(completed(alias, "--"), completed(*words, "--"), f"options of {alias}")
    for word, instead in {"stop": "'warren pause'", "kill": "'warren rm'", "login": "'docker login'"}.items():
        for words in ((word, "x"), ("help", word)):
            p = warren(*words)
            eq((p.returncode, p.stdout), (125, b""), words)
            ok(f"there is no command '{word}': " in p.stderr.decode() and instead in p.stderr.decode(), p.stderr)


@test
def scripts_of_shells_complete():
    for shell in ("bash", "zsh", "fish"):
        script = call("completion", shell)
        ok(b"__complete" in script, script)
        if shutil.which(shell):
            subprocess.run([shell, "-n"], input=script, check=True, timeout=20)
    with scratch() as d:
        os.symlink(WARREN, f"{d}/warren")
        words = "eval \"$(warren completion bash)\"; COMP_WORDS=(warren token cre); COMP_CWORD=2; _warren; " \
                "echo ${COMPREPLY[*]}; COMP_WORDS=(warren create --idle); _warren; echo ${COMPREPLY[*]}"
        p = subprocess.run(["bash", "-c", words], stdout=subprocess.PIPE, timeout=20, check=True,
                           env=environ(PATH=f"{d}:{os.environ['PATH']}", WARREN_LIBEXEC=os.path.dirname(WARREN)))
        eq(p.stdout, b"create\n--idle-timeout\n")


# ------------------------------------------------------------------------ sandboxes


@test
def sandboxes_are_made_listed_shown_and_removed():
    with sandbox("--name", "one", "-l", "team=a", "-l", "run=1", "-e", "A=b", "-m", "128m", "--cpus", "0.5",
                 "--pids", "50", "--disk", "32m", "--nofile", "100", "-w", "/tmp", "-u", "1000:1000", "--hostname",
                 "burrow", "--network", "none", "--read-only", "--tmpfs", "/scratch:size=1m", "--ttl", "1h",
                 "--idle-timeout", "10m", "--on-idle", "delete", "--no-wake", "--image", "host") as one, \
            sandbox("-l", "team=b", "-q") as two:
        shown = call_json("show", "--json", "one")
        for key, value in {"id": one, "name": "one", "labels": {"team": "a", "run": "1"}, "env": {"A": "b"},
                           "hostname": "burrow", "network": "none", "read_only": True, "ttl_ms": 3600000,
                           "idle_timeout_ms": 600000, "on_idle": "delete", "wake_on_use": False, "user": "1000:1000",
                           "workdir": "/tmp"}.items():
            eq(shown[key], value, key)
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
def by_prefix_by_name_or_not_at_all():
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
def an_empty_word_means_nothing():
    """As of a script whose variable has no value: never the only one there is."""
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
def many_at_once():
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
def where_sandboxes_run():
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
def what_cannot_be_made_says_why():
    call("create", "--image", "no.such.host.invalid/x:1", "--pull", "never", status=125,
         stderr=re.compile(rb"^warren create: [^\n]+\n$"))
    call("create", "--name", "No_Name", status=125, stderr=re.compile(rb"^warren create: [^\n]*name[^\n]*\n$"))
    call("create", "-l", "=x", status=125, stderr=re.compile(rb"--label: '=x' is not KEY=VALUE"))
    call("create", "-e", b"A=\xff\xfe", status=125, stderr=re.compile(rb"^warren create: [^\n]*UTF-8\n$"))
    eq(call("ls", "-q"), b"")


# --------------------------------------------------------------------------- exec


@test
def statuses_of_commands():
    with sandbox() as box:
        for argv, status in ((["true"], 0), (["sh", "-c", "exit 3"], 3), (["no-such-command"], 127), (["/etc"], 126),
                             (["sh", "-c", "kill -9 $$"], 137), (["sh", "-c", "kill -TERM $$"], 143)):
            call("exec", box, *argv, status=status, stderr=None)
            call("exec", box, "--", *argv, status=status, stderr=None)
        call("exec", "--timeout", "200ms", box, "sleep", "20", status=124,
             stderr=b"warren exec: timed out after 200 ms\n")
        call("exec", "-q", "--timeout", "200ms", box, "sleep", "20", status=124)
        p = warren("exec", box, "sh", "-c", "echo out; echo err >&2", env=environ())
        eq((p.stdout, p.stderr), (b"out\n", b"err\n"))
        eq(call("exec", "-e", "A=1", "-w", "/tmp", "-u", "1000:1000", box, "sh", "-c", "echo $A $(pwd) $(id -u)"),
           b"1 /tmp 1000\n")
        call("exec", "-m", "16m", box, "sh", "-c", "head -c 64m /dev/zero | tail", status=137, stderr=None)
        r = call_json("exec", "--json", box, "sh", "-c", "echo hello; exit 4", status=4)
        eq((r["stdout"], r["result"]["exit_code"]), ("hello\n", 4))
        eq(call_json("exec", "--json", "-i", box, "cat", input=b"given\n")["stdout"], "given\n")


@test
def streams_are_whole():
    data = noise(5 * MIB)
    with sandbox() as box:
        eq(call("exec", "-i", box, "cat", input=data), data, "there and back")
        eq(call("exec", box, "cat", input=b"unread"), b"", "without -i there is no stdin")
        for _ in range(10):
            eq(len(call("exec", box, "head", "-c", str(8 * MIB), "/dev/zero")), 8 * MIB, "from the first byte on")
        eq(call("exec", "-i", box, "head", "-c", "3", input=data), data[:3], "what is not read does not hang")
        eq(call("exec", "-i", box, "sh", "-c", "exec <&-; sleep 0.1; echo gone", input=data), b"gone\n")
        p = start("exec", box, "yes")
        ok(p.stdout.read(4096).startswith(b"y\ny\n"), "it flows")
        p.stdout.close()
        eq(p.wait(20), 141, "a reader that left is told as a pipe tells it")
        p.stderr.close()


@test
def signals_are_passed_on():
    with sandbox() as box:
        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            p = start("exec", box, "sh", "-c", "echo ready; exec sleep 60")
            eq(p.stdout.readline(), b"ready\n")
            p.send_signal(sig)
            eq((p.wait(20), p.stderr.read()), (128 + sig, b""))
        p = start("exec", box, "sh", "-c", "trap 'echo caught; exit 9' USR1; echo ready; while :; do sleep 0.05; done")
        eq(p.stdout.readline(), b"ready\n")
        p.send_signal(signal.SIGUSR1)
        out, err = p.communicate(timeout=20)
        ok(p.returncode in (9, 138) and (p.returncode != 9 or b"caught\n" in out), (p.returncode, out, err))


@test
def a_terminal_of_its_own():
    with sandbox() as box:
        with Terminal("-it", box, "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && stty size && echo $TERM",
                      command=("exec",), env=environ()) as t:
            t.expect(rb"33 99\r\nvt100\r\n")
            eq(t.wait(), 0)
            t.restored()
        with Terminal("-it", box, "sh", command=("exec",), env=environ()) as t:
            t.expect(rb"[$#] ")
            ok(t.raw(), "keys go to the other terminal")
            t.type(b"stty size; echo se''en\n")
            t.expect(rb"33 99\r\nseen\r\n")
            t.resize(40, 120)
            t.type(b"sleep 0.3; stty size\n")
            t.expect(rb"40 120\r\n")
            t.type(b"sleep 60\n")
            time.sleep(0.3)
            t.type(b"\x03")
            t.type(b"echo af''ter $?\n")
            t.expect(rb"after 130\r\n")
            t.type(b"exit 7\n")
            eq(t.wait(), 7)
            t.restored()


@test
def the_terminal_is_restored_on_every_way_out():
    with sandbox() as box:
        for end in (lambda t: t.p.send_signal(signal.SIGSEGV), lambda t: call("rm", "-q", "-f", box)):
            with Terminal("-it", box, "sh", command=("exec",), env=environ()) as t:
                t.expect(rb"[$#] ")
                ok(t.raw(), "it is raw")
                end(t)
                t.wait()
                t.restored()


@test
def a_shell_in_a_new_sandbox_or_in_one_that_is_there():
    with Terminal("--memory", "64m", command=("shell",), env=environ()) as t:
        t.expect(rb"[$#] ")
        eq(len(call("ls", "-q").split()), 1)
        t.type(b"echo in''side; exit 5\n")
        t.expect(rb"inside\r\n")
        eq(t.wait(), 5)
        t.restored()
    eq(call("ls", "-q"), b"", "it is gone with its shell")
    eq(call("shell", "--keep", "--name", "kept", "--image", "host", "--shell", "sh", input=b"echo piped\n",
            stderr=re.compile(rb"the sandbox is [a-z0-9]{12}\n")), b"piped\n")
    eq(call("shell", "kept", "-e", "A=b", "-w", "/tmp", input=b"echo $A; pwd; exit 3\n", status=3), b"b\n/tmp\n")
    call("shell", "--image", "host", "kept", status=125, stderr=re.compile(rb"already exists"))
    call("rm", "kept")


# ------------------------------------------------------------- output, time, events


@test
def output_is_kept_and_read_from_any_place():
    with sandbox() as box:
        first = call("exec", "-d", box, "sh", "-c", "echo 0123456789; echo err >&2; exit 6").decode().strip()
        eq(call("wait", "--exec", first[:11], box, status=6), b"6\n")
        p = warren("logs", box, env=environ())
        eq((p.returncode, p.stdout, p.stderr), (0, b"0123456789\n", b"err\n"))
        eq(call("logs", "--stream", "stdout", "--from", "4", box, first), b"456789\n")
        call("logs", "-f", box, first, status=6, stderr=b"err\n")
        events = [json.loads(line) for line in call("logs", "--json", box, first[:11]).splitlines()]
        eq("".join(e.get("data", "") for e in events if e.get("stream") == "stdout"), "0123456789\n")

        second = call("exec", "-d", "-q", box, "sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.2; done").decode().strip()
        eq(call("logs", "-f", box), b"1\n2\n3\n", "the last one is meant")
        eq(call("ls", "-q", box).decode().split(), [first, second])
        listed = call("ls", box).decode()
        ok("exited 6" in listed and "exited 0" in listed, listed)
        eq(call_json("exec", "-d", "--json", box, "true")["sandbox_id"], box)


@test
def output_of_what_a_command_left_behind():
    with sandbox() as box:
        script = "(sleep 1; echo late) & echo early; exit 3"
        call("exec", box, "sh", "-c", script, status=3, stderr=None)
        left = call("exec", "-d", box, "sh", "-c", script).decode().strip()
        call("wait", "--exec", left, box, status=3)
        eq(call("logs", "-f", box, left, status=3), b"early\nlate\n", "who comes after the end of the first process")
        for _ in range(40):  # the end of the output and of the command in any order
            call("exec", box, "sh", "-c", "exit 3", status=3)
        left = call("exec", "-d", box, "sh", "-c", "sleep 60 & exit 3").decode().strip()
        call("wait", "--exec", left, box, status=3)
        p = start("logs", "-f", box, left)
        time.sleep(0.3)
        call("rm", box)
        eq((p.communicate(timeout=20), p.returncode), ((b"", b""), 3), "a sandbox that goes takes its writers along")


@test
def output_goes_on_after_the_service_was_killed():
    with sandbox() as box:
        p = start("exec", box, "sh", "-c", "for i in $(seq 1 60); do echo $i; sleep 0.05; done; exit 8")
        eq(p.stdout.readline(), b"1\n")
        w().kill("api")
        out, err = p.communicate(timeout=30)
        eq((p.returncode, out, err), (8, b"".join(b"%d\n" % i for i in range(2, 61)), b""))
        p = start("exec", box, "sh", "-c", "echo begun; sleep 1.5; echo over")
        eq(p.stdout.readline(), b"begun\n")
        w().kill("api", "warden")
        w().start()
        eq(p.communicate(timeout=30), (b"over\n", b""))
        eq(p.returncode, 0)


@test
def waiting():
    with sandbox("--name", "awaited") as box:
        eq(call("wait", "-s", "running", "awaited"), b"running\n")
        call("wait", "--timeout", "200ms", box, status=124, stderr=b"warren wait: timed out\n")
        eq(call("wait", "-q", "--timeout", "200ms", box, status=124), b"")
        p = start("wait", box)
        time.sleep(0.2)
        call("rm", box)
        eq(p.communicate(timeout=20), (b"gone\n", b""))
    with sandbox() as box:
        eq(call_json("wait", "--json", "--state", "running", box)["reached"], True)


@test
def events_are_lines():
    p = start("events", "-n", "3", "--type", "sandbox.created", "--type", "sandbox.deleted", "--type", "exec.finished")
    time.sleep(0.3)
    with sandbox() as box:
        call("exec", box, "sh", "-c", "exit 2", status=2)
    out, err = p.communicate(timeout=20)
    lines = out.decode().splitlines()
    eq((p.returncode, err, len(lines)), (0, b"", 3), lines)
    for line, kind in zip(lines, ("sandbox.created", "exec.finished", "sandbox.deleted")):
        ok(re.match(r"\d{4}-\d\d-\d\dT[0-9:.]+Z +\d+ " + kind + r" +sandbox_id=" + box, line), line)
    ok(" exit_code=2" in lines[1], lines[1])
    since = lines[0].split()[1]
    again = [json.loads(e) for e in call("events", "--json", "--since", since, "--sandbox", box, "-n", "1").splitlines()]
    ok(again[0]["id"] > int(since) and again[0]["sandbox_id"] == box, again)


@test
def what_sandboxes_use():
    with sandbox("--name", "busy", "-l", "top=1"):
        lines = call("top").decode().splitlines()
        eq(lines[0].split()[:4], ["ID", "NAME", "STATE", "CPU"])
        eq(lines[1].split()[1:3], ["busy", "running"])
        eq(len(call_json("top", "--json", "-l", "top=1")), 1)
        eq(call_json("top", "--once", "--json", "-l", "top=2"), [])
        with Terminal(command=("top",), env=environ()) as t:
            t.expect(rb"ID +NAME.*busy +running")
            t.expect(rb"busy +running +[0-9.]+%")
            t.type(b"q")
            eq(t.wait(), 0)
            t.restored()


# ------------------------------------------------------------------------- sessions


@test
def a_shell_that_keeps_its_state():
    with sandbox("--name", "shelly") as box:
        served("/v1/sandboxes", box, "sessions")
        call("session", "shelly", "cd /tmp; export A=1; f() { echo \"f $1\"; }")
        eq(call("session", box, "pwd; echo $A; f x"), b"/tmp\n1\nf x\n")
        eq(len(call("session", "ls", "-q", box).split()), 1, "it was one session")
        call("session", box, "--", "(exit 5)", status=5)
        p = warren("session", "run", box, "echo out; echo err >&2", env=environ())
        eq((p.returncode, p.stdout, p.stderr), (0, b"out\n", b"err\n"))
        call("session", "run", "--timeout", "300ms", box, "sleep 30", status=124, stderr=re.compile(rb"timed out"))
        eq(call("session", box, "echo $A"), b"1\n", "the shell was kept")
        second = call("session", "open", "-e", "B=2", "-w", "/", "--shell", "sh", "-u", "0:0", box).decode().strip()
        call("session", box, "true", status=125, stderr=re.compile(rb"2 sessions: name one"))
        eq(call("session", "run", "-s", second[:11], box, "echo $B"), b"2\n")
        r = call_json("session", "run", "--json", "--session", second, box, "cd /usr; exit 3", status=3)
        eq((r["exit_code"], r["ended"]), (3, True))
        eq(call_json("session", "close", "--json", box, second), {"id": second, "state": "gone"})
        eq(len(call_json("session", "ls", "--json", box)), 1)
        ok("idle" in call("session", "ls", box).decode(), "the table")
        eq(call("session", box, "head -c 300000 /dev/zero | tr '\\0' x"), b"x" * 300000)


# ---------------------------------------------------------------------------- files


@test
def the_short_form_of_a_session_takes_options():
    with sandbox() as box:
        eq(call("session", box, "X=5; echo $X"), b"5\n", "without any")
        p = warren("session", "--timeout", "500ms", box, "sleep 100", env=environ())
        eq(p.returncode, 124, f"its status: {p.stderr}")
        eq(call("session", "-q", box, "echo $X"), b"5\n", "the same shell")
        p = warren("session", "--no-such", box, "true", env=environ())
        ok(p.returncode == 125 and b"--no-such" in p.stderr, f"an option that there is not: {p}")


@test
def who_leaves_a_session_leaves_no_command_in_it():
    with sandbox() as box:
        session = call("session", "open", box).decode().strip()
        for n, (sig, json_, status) in enumerate(((signal.SIGINT, [], 130), (signal.SIGINT, ["--json"], 130), (signal.SIGTERM, [], 143))):
            p = start("session", "run", *json_, box, f"touch /tmp/begun{n}; sleep 100; echo not reached")
            until(lambda n=n: warren("exec", box, "test", "-e", f"/tmp/begun{n}", env=environ()).returncode == 0, "it runs")
            p.send_signal(sig)
            out, err = p.communicate(timeout=30)
            eq((p.returncode, err, b"not reached" in out), (status, b"", False), f"{sig.name} {json_}")
            until(lambda: json.loads(call("session", "ls", "--json", box))[0]["state"] == "idle", "the command has ended")
        with start("session", box, "yes") as p:
            ok(p.stdout.readline(), "it says something")
            p.stdout.close()
            eq((p.wait(timeout=30), p.stderr.read()), (141, b""), "who reads no more")
        until(lambda: json.loads(call("session", "ls", "--json", box))[0]["state"] == "idle", "and the command with it")
        eq(call("session", "ls", "-q", box).decode().split(), [session], "the shell was kept")


@test
def output_that_cannot_be_written_is_an_error():
    with sandbox() as box, open("/dev/full", "wb") as full:
        call("exec", box, "echo", "x")
        for words in (("ls",), ("ls", "-q"), ("ls", "--json"), ("ls", box), ("show", box), ("show", "--json", box), ("logs", box),
                      ("logs", "--json", box), ("top",), ("top", "--json"), ("backends",), ("exec", box, "echo", "x"),
                      ("exec", "--json", box, "true"), ("session", box, "echo x"), ("session", "run", "--json", box, "true"),
                      ("session", "ls", box), ("events", "--since", "0", "-n", "1"), ("cp", f"{box}:/etc/passwd", "-"),
                      ("pause", box), ("resume", box), ("wait", "--state", "running", box), ("port", box, "80"), ("token", "ls"),
                      ("completion", "bash"), ("help",), ("version",), ("doctor",), ("run", "--daemon", "echo", "x")):
            p = warren(*words, env=environ(), stdout=full)
            eq(p.returncode, 125, f"status of {words}")
            ok(re.fullmatch(rb"warren[a-z ]*: write to (stdout|'-'): No space left on device\n", p.stderr), f"{words} said {p.stderr!r}")
        for option in ("--example", "--check", "--help"):
            p = warren("serve", option, stdout=full)
            eq((p.returncode, p.stderr), (1, b"warren serve: write to stdout: No space left on device\n"), option)
            ok(warren("serve", option).returncode == 0, f"serve {option}")
    for name in ("state_dir", "run_dir"):
        p = warren("serve", "--check", f"--{name.replace('_', '-')}=")
        eq((p.returncode, p.stdout), (1, b""), name)
        ok(p.stderr.startswith(f"warren serve: {name} is empty (example: /".encode()), p.stderr)


@test
def a_place_that_the_api_cannot_reach_is_named():
    with scratch() as d:
        os.makedirs(f"{d}/private/within")
        os.chmod(d, 0o755)
        os.chmod(f"{d}/private", 0o700)
        words = ("serve", "--state-dir", f"{d}/private/within/state", "--run-dir", f"{d}/run")
        p = warren(*words)
        eq((p.returncode, p.stdout), (1, b""), "one that only root may pass")
        ok(f"cannot enter '{d}/private': allow it (chmod o+x '{d}/private')".encode() in p.stderr, p.stderr)
        os.chmod(f"{d}/private", 0o711)
        with start(*words) as p:
            host = {**os.environ, "WARREN_HOST": f"unix:{d}/run/warren.sock"}
            try:
                until(lambda: warren("ls", env=host).returncode == 0, "it serves")
            finally:
                p.terminate()


@test
def files_and_trees_go_in_and_out():
    data = noise(3 * MIB)
    with sandbox("--name", "files") as box, scratch() as d:
        served("/v1/sandboxes", box, "files/stat?path=/tmp")
        with open(f"{d}/run.sh", "wb") as f:
            f.write(b"#!/bin/sh\necho ran\n")
        os.chmod(f"{d}/run.sh", 0o755)
        call("cp", f"{d}/run.sh", "files:/tmp/")
        eq(call("exec", box, "/tmp/run.sh"), b"ran\n", "with its permissions")
        call("cp", f"{d}/run.sh", f"{box}:/tmp/deep/er/other.sh")
        eq(call("exec", box, "/tmp/deep/er/other.sh"), b"ran\n")
        call("cp", "-", f"{box}:/tmp/data", input=data)
        eq(call("cp", f"{box}:/tmp/data", "-"), data, "by stdin and stdout")
        told = {"sandbox_id": box, "inside": "/tmp/data", "outside": f"{d}/copy", "type": "file", "bytes": len(data)}
        eq(call_json("cp", "--json", f"{box}:/tmp/data", f"{d}/copy"), {**told, "direction": "out"})
        eq(call_json("cp", "--json", f"{d}/copy", f"files:/tmp/data"), {**told, "direction": "in"})
        call("cp", "--json", f"{box}:/tmp/data", "-", status=125, stderr=re.compile(rb"both write to stdout"))
        eq(call_json("cp", "--json", f"{box}:/tmp/.", f"{d}/all")["type"], "tree")
        with open(f"{d}/copy", "rb") as f:
            eq(f.read(), data)
        call("cp", "-u", "1000:1000", f"{d}/run.sh", f"{box}:/tmp/owned")
        eq(call("exec", box, "stat", "-c", "%u", "/tmp/owned"), b"1000\n")

        os.makedirs(f"{d}/tree/sub/empty")
        with open(f"{d}/tree/sub/a", "wb") as f:
            f.write(b"A")
        os.symlink("sub/a", f"{d}/tree/link")
        call("cp", f"{d}/tree", f"{box}:/tmp/new")
        call("cp", f"{d}/tree", f"{box}:/tmp")
        call("cp", "-q", f"{d}/tree/.", f"{box}:/tmp/deep")
        eq(call("exec", box, "cat", "/tmp/new/sub/a", "/tmp/tree/link", "/tmp/deep/link"), b"AAA")
        call("cp", f"{box}:/tmp/tree", f"{d}/back")
        call("cp", f"{box}:/tmp/tree", f"{d}/back")
        eq(sorted(os.listdir(f"{d}/back")), ["link", "sub", "tree"], "as docker has it")
        eq(os.readlink(f"{d}/back/tree/link"), "sub/a")
        ok(os.path.isdir(f"{d}/back/sub/empty"), "empty directories, too")

        archive = call("cp", f"{box}:/tmp/tree", "-")
        with open(f"{d}/t.tar", "wb") as f:
            f.write(archive)
        with tarfile.open(f"{d}/t.tar") as tar:
            ok(any(n.endswith("sub/a") for n in tar.getnames()), tar.getnames())
        call("cp", "--tar", "-", f"{box}:/tmp/from-tar", input=archive)
        eq(call("exec", box, "cat", "/tmp/from-tar/sub/a"), b"A")

        call("cp", f"{box}:/tmp/nothing", d, status=125, stderr=re.compile(rb"there is no '/tmp/nothing'"))
        call("cp", f"{d}/nothing", f"{box}:/tmp/", status=125, stderr=re.compile(rb"No such file"))


@test
def what_comes_out_of_a_sandbox_stays_where_it_belongs():
    with sandbox() as box, scratch() as d:
        served("/v1/sandboxes", box, "files/stat?path=/tmp")
        os.mkdir(f"{d}/victim")
        call("exec", box, "sh", "-c", f"mkdir -p /tmp/x; cd /tmp/x; ln -s {d}/victim out; echo s > s; chmod 6777 s; "
             "mkfifo pipe; mkdir sub; echo b > sub/b")
        call("cp", f"{box}:/tmp/x", f"{d}/got", stderr=None)
        eq(os.listdir(f"{d}/victim"), [], "nothing was written through the link")
        eq(os.stat(f"{d}/got/s").st_mode & 0o7000, 0, "no rights to become somebody")
        ok(not os.path.exists(f"{d}/got/pipe"), "no special files")
        eq(os.readlink(f"{d}/got/out"), f"{d}/victim", "a link is a link")
        # The same tree again, with a directory where the link was: not through it either.
        call("exec", box, "sh", "-c", "cd /tmp/x; rm out; mkdir out; echo evil > out/evil")
        os.rename(f"{d}/got", f"{d}/x")
        warren("cp", f"{box}:/tmp/x", d, env=environ())
        eq(os.listdir(f"{d}/victim"), [], "nor on a second copy")


@test
def a_copy_does_not_replace_what_is_no_file():
    with sandbox() as box, scratch() as d:
        served("/v1/sandboxes", box, "files/stat?path=/tmp")
        call("cp", "-", f"{box}:/tmp/hello", input=b"hello\n")
        os.mkfifo(f"{d}/pipe")
        with subprocess.Popen(["cat", f"{d}/pipe"], stdout=subprocess.PIPE) as reader:
            call("cp", f"{box}:/tmp/hello", f"{d}/pipe")
            eq(reader.communicate(timeout=30)[0], b"hello\n", "what came through the pipe")
        ok(stat.S_ISFIFO(os.lstat(f"{d}/pipe").st_mode), "a pipe stays one")
        os.symlink("/dev/null", f"{d}/null")
        call("cp", f"{box}:/tmp/hello", f"{d}/null", status=125, stderr=re.compile(rb"is a link to something that is not a file"))
        eq(os.readlink(f"{d}/null"), "/dev/null", "a link to a device stays")
        if ROOT:
            os.mknod(f"{d}/full", 0o666 | stat.S_IFCHR, os.makedev(1, 7))
            call("cp", f"{box}:/tmp/hello", f"{d}/full", status=125,
                 stderr=re.compile(rb"\Awarren cp: write to '[^']*/full': No space left on device\n\Z"))
            ok(stat.S_ISCHR(os.lstat(f"{d}/full").st_mode), "a device stays one")
        # One to a file may have come out of a sandbox: its target is not what was named.
        for name, target in (("link", f"{d}/target"), ("dangling", f"{d}/nowhere")):
            os.symlink(target, f"{d}/{name}")
        with open(f"{d}/target", "w", encoding="ascii") as f:
            f.write("mine")
        for name in ("link", "dangling", "target2"):
            call("cp", f"{box}:/tmp/hello", f"{d}/{name}")
            ok(stat.S_ISREG(os.lstat(f"{d}/{name}").st_mode), f"{name} is a file")
        with open(f"{d}/target", encoding="ascii") as f:
            eq(f.read(), "mine", "the target of a link")
        eq(sorted(os.listdir(d)), sorted({"pipe", "null", "link", "dangling", "target", "target2", *(["full"] * ROOT)}))


@test
def names_are_bytes():
    names = ["ű".encode(), b"bad\xff", "ő".encode() * 100, b"\xfe" * 200, b"new\nline", b" "]
    with sandbox() as box, scratch() as d:
        served("/v1/sandboxes", box, "files/stat?path=/tmp")
        os.mkdir(f"{d}/tree")
        for n, name in enumerate(names):
            with open(os.path.join(f"{d}/tree".encode(), name), "w", encoding="ascii") as f:
                f.write(str(n))
            os.symlink(name, f"{d}/tree/link{n}".encode())
            os.link(os.path.join(f"{d}/tree".encode(), name), f"{d}/tree/hard{n}".encode())
        for lang in ("C", "C.UTF-8"):
            call("cp", f"{d}/tree", f"{box}:/tmp/{lang}", env={"LC_ALL": lang})
            eq(call("exec", box, "sh", "-c", f"cd /tmp/{lang}; cat link? hard?"), b"012345" * 2, "what is in them inside")
            call("cp", f"{box}:/tmp/{lang}", f"{d}/{lang}", env={"LC_ALL": lang})
            eq(subprocess.run(["diff", "-r", f"{d}/tree", f"{d}/{lang}"], capture_output=True).stdout, b"", "and back")


# ---------------------------------------------------------------- ports, tokens, hosts


@test
def a_port_of_a_sandbox_here():
    with sandbox() as box:
        r = w().ask("GET", f"/v1/sandboxes/{box}/ports/8080/")
        if r.status == 501:
            raise Skip("the service has no ports")
        eq(call("port", box, "8080"), f"unix:{w().socket} /v1/sandboxes/{box}/ports/8080/\n".encode())
        eq(call_json("port", "--json", box, "8080")["path"], f"/v1/sandboxes/{box}/ports/8080")
        call("exec", "-d", box, "sh", "-c", "mkdir /tmp/w; cd /tmp/w; echo page > index.html; "
             "exec python3 -m http.server 8080")
        call("exec", box, "sh", "-c", "until grep -q :1F90 /proc/net/tcp; do sleep .05; done")
        with forwarded(box, 8080) as port:
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            c.request("GET", "/index.html", headers={"Origin": "http://elsewhere.example"})
            eq(c.getresponse().read(), b"page\n")
            c.close()


# Of one's own protocol: it speaks first, says back what comes, and at the end how much that was. "flood" makes it
# send 16 MB while it reads as much, neither waiting for the other.
PEER = r'''
import socketserver, struct, threading

class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        s, n = self.request, 0
        s.sendall(b"\x00\xffhello")
        first = s.recv(5, 256)
        if first == b"flood":
            sender = threading.Thread(target=s.sendall, args=(b"x" * (16 << 20),))
            sender.start()
            while data := s.recv(65536):
                n += len(data)
            sender.join()
        else:
            s.sendall(first)
            n = len(first)
            while data := s.recv(65536):
                n += len(data)
                s.sendall(data)
        s.sendall(b"end" + struct.pack(">Q", n))

class Server(socketserver.ThreadingTCPServer):
    daemon_threads, allow_reuse_address, request_queue_size = True, True, 100

Server(("127.0.0.1", 9000), Handler).serve_forever()
'''

# HTTP/1.1 that keeps its connections and says what it was asked.
SHIM = r'''
import http.server

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        said = self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

http.server.ThreadingHTTPServer(("127.0.0.1", 9001), Handler).serve_forever()
'''


@contextlib.contextmanager
def forwarded(box, port, env=None):
    """warren port --listen for the time of the block; where it listens."""
    p = start("port", box, str(port), "--listen", "127.0.0.1:0", "--json", env=env)
    try:
        where = json.loads(p.stdout.readline())
        eq((where["address"], where["sandbox_id"], where["sandbox_port"]), ("127.0.0.1", box, port))
        yield where["port"]
        eq(p.poll(), None, "it goes on until it is told")
    finally:
        p.terminate()
        eq(p.wait(20), -signal.SIGTERM)
        p.stdout.close()
        p.stderr.close()
    until(lambda: not any(b"port" in open(f"/proc/{q}/cmdline", "rb").read().split(b"\0")[1:2]
                          for q in below(os.getpid()) if os.path.exists(f"/proc/{q}/cmdline")),
          "its processes go with it")


def dialogue(port, data, flood=False):
    """All that the peer says to @data, which is sent before any of it is read."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        if flood:
            s.sendall(b"flood")
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: s.recv(65536), b""))


@test
def a_forwarded_port_carries_any_bytes():
    with sandbox() as box:
        call("exec", "-d", box, "python3", "-c", PEER)
        call("exec", "-d", box, "python3", "-c", SHIM)
        call("exec", box, "sh", "-c",
             "for p in 2328 2329; do until grep -q :$p /proc/net/tcp; do sleep .05; done; done")
        token = call("token", "create", "--scope", "exec", "--scope", "read", "tunnel").decode().strip()
        ways = {"unix": {}, "tls": {"WARREN_HOST": f"https://127.0.0.1:{w().tls}", "WARREN_TOKEN": token,
                                    "WARREN_CA": w().cert}}
        for way, env in ways.items():
            with forwarded(box, 9000, environ(**env)) as port:
                data = bytes(range(256)) * 16
                whole = b"\0\xffhello" + data + b"end" + struct.pack(">Q", len(data))
                eq(dialogue(port, data), whole, f"{way}: bytes, and what comes after our end")
                with concurrent.futures.ThreadPoolExecutor(40) as pool:
                    for got in pool.map(lambda _, port=port: dialogue(port, data), range(40)):
                        eq(got, whole, f"{way}: one of many")
                got = dialogue(port, b"y" * (16 << 20), flood=True)
                eq((len(got), got[-11:]), (7 + (16 << 20) + 11, b"end" + struct.pack(">Q", 16 << 20)),
                   f"{way}: both at once, neither waiting")
        with forwarded(box, 9001) as port:
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            socks = []
            for path in ("/a", "/b"):
                c.request("GET", path)
                eq(c.getresponse().read(), path.encode(), "on one connection")
                socks.append(c.sock)
            s = socks[0]
            ok(s is not None and s is socks[1], "the connection is kept")
            s.sendall(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % i for i in range(20)))
            got = b""
            while not got.endswith(b"/19"):
                piece = s.recv(65536)
                ok(piece, f"it ends after {got[-200:]!r}")
                got += piece
            eq(re.findall(rb"\r\n\r\n(/\d+)", got), [b"/%d" % i for i in range(20)], "pipelined")
            c.close()


@test
def a_forwarded_port_where_nobody_listens():
    with sandbox() as box:
        p = start("port", box, "9000", "--listen", "127.0.0.1:0")
        try:
            port = int(re.fullmatch(rb"127\.0\.0\.1:(\d+)\n", p.stdout.readline())[1])
            with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
                try:
                    s.recv(1)
                    raise AssertionError("an end looks like an answer")
                except ConnectionResetError:
                    pass
            eq(p.stderr.readline(), f"warren port: nothing listens on port 9000 of sandbox '{box}'\n".encode())
            eq(p.poll(), None, "it waits for the next")
        finally:
            p.terminate()
            eq(p.wait(20), -signal.SIGTERM)
            p.stdout.close()
            p.stderr.close()


@test
def tokens_and_other_hosts():
    secret = call("token", "create", "--scope", "read", "--scope", "write", "--expires", "1h", "for tests").decode().strip()
    ok(secret.startswith("wrn_"), "a secret")
    told = call_json("token", "ls", "--json")
    mine = next(t for t in told if t["name"] == "for tests")
    eq((mine["scopes"], "secret" in mine), (["read", "write"], False))
    ok("for tests" in call("token", "ls").decode(), "the table")
    tcp = {"WARREN_HOST": f"http://127.0.0.1:{w().port}"}
    call("ls", env=tcp, status=125, stderr=re.compile(rb"^warren ls: [^\n]*set WARREN_TOKEN to a token\)\n$"))
    call("ls", env={**tcp, "WARREN_TOKEN": "wrn_" + "0" * 64}, status=125, stderr=re.compile(rb"WARREN_TOKEN"))
    with sandbox() as box:
        eq(call("ls", "-q", env={**tcp, "WARREN_TOKEN": secret}), box.encode() + b"\n")
        call("exec", box, "true", env={**tcp, "WARREN_TOKEN": secret}, status=125, stderr=re.compile(rb"exec"))
        other = call("token", "create", "--json", "--scope", "read", "--scope", "exec", "--tenant", "local", "runner")
        eq(call("exec", box, "echo", "hello", env={**tcp, "WARREN_TOKEN": json.loads(other)["secret"]}), b"hello\n")
    eq(len(call("token", "ls", "-q").split()), len(call_json("token", "ls", "--json")))
    eq(call_json("token", "rm", "--json", mine["id"]), {"id": mine["id"], "state": "gone"})
    call("ls", env={**tcp, "WARREN_TOKEN": secret}, status=125, stderr=None)
    call("token", "rm", "../sandboxes", status=125, stderr=None)
    for token in call("token", "ls", "-q").decode().split():
        call("token", "rm", token)


@test
def by_tls_with_a_certificate_of_ones_own():
    env = {"WARREN_HOST": f"https://127.0.0.1:{w().tls}", "WARREN_TOKEN": w().token("read", "exec")}
    call("ls", "-q", env=env, status=125, stderr=re.compile(rb"certificate|SSL|CA"))
    with sandbox() as box:
        env["WARREN_CA"] = w().cert
        eq(call("ls", "-q", env=env), box.encode() + b"\n")
        data = noise(300000)
        eq(call("exec", "-i", box, "cat", env=env, input=data), data)
    for token in call("token", "ls", "-q").decode().split():
        call("token", "rm", token)


# ------------------------------------------------------------------------ run --daemon


@test
def a_run_by_the_service():
    for argv, status in ((["true"], 0), (["sh", "-c", "exit 3"], 3), (["no-such-command"], 127), (["/etc"], 126),
                         (["sh", "-c", "kill -9 $$"], 137)):
        call("run", "--daemon", "--", *argv, status=status, stderr=None)
    eq(call("run", "--daemon", "-i", "-e", "A=b", "-m", "64m", "sh", "-c", "echo $A; cat", input=b"in\n"), b"b\nin\n")
    call("run", "--daemon", "--timeout", "300ms", "sleep", "20", status=124,
         stderr=b"warren run: timed out after 300ms\n")
    ours, theirs = (json.loads(warren("run", *extra, "--json", "sh", "-c", "echo x; exit 2", env=environ()).stdout)
                    for extra in ([], ["--daemon"]))
    eq((theirs["exit_code"], theirs["stdout"], theirs["signal"]), (2, "x\n", None))
    eq(list(theirs), list(ours), "what is told, and in which order")
    much = ["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; printf 'y\\377\\000' >&2; exec cat"]
    ours, theirs = (json.loads(warren("run", *extra, "-i", "--json", *much, env=environ(), input=b"z" * 2000000).stdout)
                    for extra in ([], ["--daemon"]))
    eq((len(ours["stdout"]), ours["stdout_truncated"], ours["stdout_lost_bytes"]), (MIB, True, 5000000 - MIB), "of much output")
    shape = [k for k in ours if k.startswith("std")]
    eq({k: theirs[k] for k in shape} == {k: ours[k] for k in shape}, True, "the same by both")
    with Terminal("--daemon", "-it", "sh", "-c", "stty size; exit 6", env=environ()) as t:
        t.expect(rb"33 99\r\n")
        eq(t.wait(), 6)
        t.restored()
    p = start("run", "--daemon", "sh", "-c", "echo ready; exec sleep 60")
    eq(p.stdout.readline(), b"ready\n")
    p.terminate()
    eq((p.wait(20), p.stderr.read()), (143, b""))
    eq(call("ls", "-q"), b"", "nothing is left")
    p = warren("run", "--daemon", "true", env=environ(WARREN_HOST="unix:/nonexistent"))
    ok(p.returncode == 125 and b"start one with 'warren serve'" in p.stderr, p)


# --------------------------------------------------------------------------- systemd


@test
def a_socket_that_was_opened_before_and_a_word_when_it_is_ready():
    with scratch() as d, socket.socket(socket.AF_UNIX) as listener, \
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        os.chmod(d, 0o755)
        listener.bind(f"{d}/early.sock")
        listener.listen()
        notified.bind(f"{d}/notify")
        notified.settimeout(20)
        command = ["sh", "-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"", "sh", WARREN, "serve", "--config", "/dev/null",
                   "--state-dir", f"{d}/state", "--run-dir", f"{d}/run", "--log-format", "text", "--listen",
                   f"unix:{d}/early.sock"]
        with open(f"{d}/log", "wb") as log:
            p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, close_fds=False,
                                 env=environ(NOTIFY_SOCKET=f"{d}/notify", WARREN_LIBEXEC=BUILD),
                                 preexec_fn=lambda: os.dup2(os.dup(listener.fileno()), 3))
        try:
            eq(notified.recv(100), b"READY=1")
            eq(call("ls", "-q", env={"WARREN_HOST": f"unix:{d}/early.sock"}), b"")
            ok(not os.path.exists(f"{d}/run/warren.sock"), "it listens nowhere else")
            p.terminate()
            eq(notified.recv(100), b"STOPPING=1")
            eq(p.wait(20), 0)
        finally:
            if p.poll() is None:
                p.kill()
                p.wait()


def around(t):
    t()
    if WORLD:
        eq(call("ls", "-q"), b"", "sandboxes that the test left")


if __name__ == "__main__":
    if not ROOT:
        print("1..0 # SKIP needs root")
        sys.exit(0)
    failed = run_tests(around)
    for world in WORLD:
        with world:
            pass
    sys.exit(failed)
