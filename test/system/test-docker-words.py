#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-docker-words.py - commands that docker users type work, with and without the service

Prints TAP.
"""
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, SOURCE, WARREN, Skip, eq, free_port, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, running, until  # pylint: disable=wrong-import-position

MINI = "mini-swe-agent==2.4.6"
VENV = os.path.join(BUILD, "mini-swe-agent-venv")
IMAGE = "example/tools:1.0"
BUSYBOX = "/bin/busybox"


def environ(**more):
    return {**os.environ, "WARREN_HOST": f"unix:{w.socket}", "WARREN_STATE": w.state, **more}


def call(*words, status=0, **kw):
    p = subprocess.run([WARREN, *words], stdin=kw.pop("stdin", subprocess.DEVNULL), stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, timeout=90, check=False, env=environ(**kw.pop("env", {})), **kw)
    eq(p.returncode, status, f"status of {words}: {p.stdout!r} {p.stderr!r}")
    return p


def said(*words, **kw):
    return call(*words, **kw).stdout


def fails(*words, status=125, has=(), **kw):
    p = call(*words, status=status, **kw)
    for word in has:
        ok(word in p.stderr, f"'{word}' in {p.stderr!r}")


def state(box):
    r = w.ask("GET", f"/v1/sandboxes/{box}")
    return r.json()["state"] if r.status == 200 else "gone"


def an_image():
    """A small image in the store that the service and runs without it share."""
    if not os.path.exists(BUSYBOX):
        raise Skip("busybox-static is not installed")
    root = f"{w.dir}/rootfs"
    if not os.path.exists(root):
        os.makedirs(f"{root}/bin")
        shutil.copy(BUSYBOX, f"{root}/bin/busybox")
        for name in ("sh", "cat", "echo", "sleep", "ls", "true", "httpd", "hostname", "pwd", "env"):
            os.symlink("busybox", f"{root}/bin/{name}")
        with open(f"{root}/mark", "w", encoding="ascii") as f:
            f.write("small\n")
        call("image", "import", root, IMAGE, env={"WARREN_HOST": ""})  # as on the service's machine
    return IMAGE


# ---------------------------------------------------------------------- run


@test
def an_image_as_the_first_word_is_recognised_by_its_form():
    image = an_image()
    for service in ([], ["--daemon"]):
        eq(said("run", *service, image, "cat", "/mark"), "small\n", "a tag makes it an image")
        eq(said("run", *service, image, "--", "cat", "/mark"), "small\n", "dashes behind it")
        eq(said("run", *service, "--rm", image, "cat", "/mark"), "small\n", "--rm is accepted")
        eq(said("run", *service, "--image", image, "cat", "/mark"), "small\n", "--image")
        eq(said("run", *service, "echo", image), f"{image}\n", "only the first word")
    eq(said("run", f"dir:{w.dir}/rootfs", "cat", "/mark"), "small\n", "a directory")
    # With --image or after --, the word is a program, whatever its form.
    fails("run", "--image", image, image, status=127, has=[image])
    fails("run", "--", image, status=127, has=[image])


@test
def a_misspelled_name_gets_a_suggestion():
    image = an_image().partition(":")[0]
    fails("run", image, "ls", status=127, has=[f"{image}:latest", "--image"])
    fails("run", "no-such-program", "ls", status=127, has=["no-such-program:latest", "--image"])
    fails("run", "--name", "x", "true", has=["--name", "service", "-d"])
    fails("run", "-p", "1:2", "true", has=["--publish", "service"])
    fails("run", "-d", has=["IMAGE is missing"])
    fails("run", "-d", "--", "true", has=["IMAGE is missing"])
    fails("run", "-d", "--pull", "never", "sleep", "5", has=["'sleep' was interpreted as IMAGE", "--image host"])
    fails("run", "-d", "host", has=["no command"])
    fails("run", "-d", "host", "true", env={"WARREN_HOST": "unix:/nonexistent/w.sock"}, has=["/nonexistent/w.sock", "warren serve"])


@test
def run_detached_prints_an_id_and_continues():
    box = said("run", "-d", "--name", "worker", "-w", "/srv/work", "-e", "A=b c", "host", "sleep", "2001").strip()
    s = w.show(box)
    eq((s["state"], s["name"], s["main"]["argv"], s["on_exit"]), ("running", "worker", ["sleep", "2001"], "stop"))
    eq(said("exec", "worker", "sh", "-c", "pwd; echo $A"), "/srv/work\nb c\n")
    fails("run", "-d", "--name", "worker", "host", "true", has=["'worker' is in use", box])
    eq(len(w.sandboxes()), 1)
    fails("run", "-d", "host", "no-such-program", status=127, has=["no-such-program"])
    until(lambda: len(w.sandboxes()) == 1, "nothing is left of it")
    call("rm", "-f", "worker")
    eq(state(box), "gone")
    call("rm", "-f", "worker")
    # With --rm, the sandbox is deleted when its command ends.
    box = said("run", "-d", "--rm", "host", "true").strip()
    until(lambda: state(box) == "gone", "it is gone")
    box = said("run", "--detach", "host", "sh", "-c", "exit 4").strip()
    until(lambda: state(box) == "stopped", "it is stopped")
    eq(call("attach", box, status=4).stdout, "")
    call("rm", box)
    # The command of the image.
    box = said("run", "-d", an_image(), "sh", "-c", "cat /mark; sleep 2002").strip()
    until(lambda: said("logs", box) == "small\n", "its output")
    call("rm", box)


# --------------------------------------------------------- stop, start and others


@test
def stop_start_restart_and_kill_work():
    box = said("run", "-d", "--name", "svc", "host", "sh", "-c", "echo run >> /tmp/runs; exec sleep 2003").strip()
    eq(said("stop", "svc"), f"{box}\n")
    eq(state(box), "stopped")
    fails("exec", "svc", "true", has=["stopped", "start it first"])
    eq(json.loads(said("start", "--json", "svc"))["state"], "running")
    until(lambda: said("exec", "svc", "cat", "/tmp/runs") == "run\nrun\n", "it ran again")
    eq(said("restart", "-t", "0", "svc"), f"{box}\n")
    until(lambda: said("exec", "svc", "cat", "/tmp/runs") == "run\nrun\nrun\n", "and again")
    eq(said("kill", "-q", "svc"), "")
    eq(state(box), "stopped")
    call("start", "-q", "svc")
    eq(said("kill", "-s", "TERM", "svc"), f"{box}\n")
    until(lambda: state(box) == "stopped", "its command ended by the signal")
    fails("kill", "-s", "NONSENSE", "svc", has=["signal"])
    fails("stop", "no-such-box", has=["there is no sandbox 'no-such-box'"])
    call("rename", "svc", "other")
    eq(said("ls", "-q", "--name", "other").strip(), box)
    fails("rename", "svc", "x", has=["there is no sandbox 'svc'"])
    call("rm", "other")
    plain = said("create").strip()
    fails("attach", plain, has=["no main command"])
    fails("kill", "-s", "HUP", plain, has=["no main command"])
    eq(said("stop", plain, "-t", "0"), f"{plain}\n")
    call("start", plain)
    eq(said("exec", plain, "echo", "again"), "again\n")
    call("rm", plain)


@test
def attach_connects_to_the_main_command():
    box = said("run", "-d", "-i", "host", "sh", "-c", "echo hello; read x; echo got $x; exit 5").strip()
    with subprocess.Popen([WARREN, "attach", box], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ()) as p:
        eq(p.stdout.readline(), "hello\n")
        p.stdin.write("word\n")
        p.stdin.flush()
        eq(p.stdout.readline(), "got word\n")
        eq(p.wait(30), 5, "its status")
    call("rm", box)


@test
def ports_are_published():
    port = free_port()
    box = said("run", "-d", "-p", f"{port}:8000", "host", "python3", "-m", "http.server", "8000", "--bind", "127.0.0.1").strip()

    def answer():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10) as s:
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return s.recv(15)
        return b""
    until(lambda: answer().startswith(b"HTTP/1.0 200"), "the server answers")
    fails("run", "-d", "-p", f"{port}:1", "host", "sleep", "2004", has=["--publish", f"'{port}'"])
    until(lambda: len(w.sandboxes()) == 1, "nothing is left of it")
    fails("run", "-d", "-p", "nonsense:x", "host", "sleep", "2004", has=["--publish", "nonsense:x"])
    call("rm", "-f", box)

    def refuses():
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except ConnectionRefusedError:
            return True
        return False
    until(refuses, "the listener went with its sandbox")
    until(lambda: len(w.sandboxes()) == 0, "all is gone")


@test
def exec_takes_dockers_options():
    box = said("run", "-d", "host", "sleep", "2005").strip()
    e = said("exec", "-d", box, "sleep", "2006").strip()
    until(lambda: running("sleep", "2006"), "it runs in the background")
    eq(w.get(f"/v1/sandboxes/{box}/execs/{e}")["state"], "running")
    # -it works at a terminal.
    got = subprocess.run(["script", "-qec", f"{WARREN} exec -it {box} sh -c 'tty >/dev/null && echo a terminal'", "/dev/null"],
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environ(), timeout=60, check=False)
    ok("a terminal" in got.stdout, got)
    call("rm", box)


@test
def logs_take_dockers_options():
    box = said("run", "-d", "host", "sh", "-c", "for i in 1 2 3 4 5; do echo line $i; done; exec sleep 2007").strip()
    until(lambda: said("logs", box).endswith("line 5\n"), "its output")
    said("exec", box, "echo", "another")
    eq(said("logs", "--tail", "2", box), "line 4\nline 5\n", "of the main command, not the last one")
    eq(said("logs", "-n", "100", box), said("logs", box))
    eq(said("logs", "--tail", "0", box), "")
    eq(said("logs", "--tail", "all", box), said("logs", box))
    eq(said("logs", "--since", "1h", box), said("logs", box), "it started since then")
    fails("logs", "--since", "2099-01-01T00:00:00Z", box, has=["--since", "has no times"])
    fails("logs", "--since", "nonsense", box, has=["--since"])
    p = call("logs", "--timestamps", box)
    ok(all(re.fullmatch(r"20\S+Z line \d", line) for line in p.stdout.splitlines()) and p.stdout.endswith("line 5\n"), p)
    ok("stored output has no times" in p.stderr, p)
    eq(call("logs", "--timestamps", "--quiet", box).stderr, "", "a note that was declined")
    call("stop", "-t", "0", box)
    eq(said("logs", "--since", "2099-01-01T00:00:00Z", box), "", "it ended before that")
    stamped = said("logs", "-f", "--timestamps", "--tail", "1", box).splitlines()
    ok(len(stamped) == 1 and stamped[0].endswith("Z line 5") and stamped[0].startswith("20"), stamped)
    call("rm", box)


@test
def files_are_copied_between_sandboxes():
    a, b = (said("create").strip() for _ in range(2))
    said("exec", a, "sh", "-c", "mkdir -p /srv/tree/sub; echo one > /srv/tree/sub/one; echo file > /srv/file; chmod 741 /srv/file")
    call("cp", "-q", f"{a}:/srv/file", f"{b}:/tmp/")
    eq(said("exec", b, "sh", "-c", "cat /tmp/file; stat -c %a /tmp/file"), "file\n741\n")
    call("cp", "-q", f"{a}:/srv/file", f"{b}:/tmp/renamed")
    call("cp", "-q", f"{a}:/srv/tree", f"{b}:/srv/copy")
    eq(said("exec", b, "cat", "/tmp/renamed", "/srv/copy/sub/one"), "file\none\n")
    call("cp", "-q", f"{a}:/srv/tree/.", f"{b}:/tmp")
    eq(said("exec", b, "cat", "/tmp/sub/one"), "one\n")
    fails("cp", f"{a}:/srv/absent", f"{b}:/tmp", has=["/srv/absent"])
    ok(not [n for n in os.listdir("/tmp") if n.startswith("warren-cp-") and os.stat(f"/tmp/{n}").st_uid == os.getuid()], "left")
    call("rm", a, b)


@test
def a_session_without_a_command_reads_lines():
    box = said("create").strip()
    p = subprocess.run([WARREN, "session", box], input="cd /tmp\nX=5\npwd\necho $X\nfalse\n", stdout=subprocess.PIPE, text=True,
                       stderr=subprocess.PIPE, env=environ(), timeout=60, check=False)
    eq((p.returncode, p.stdout, p.stderr), (1, "/tmp\n5\n", ""))
    listed = said("ls", box)
    session = w.get(f"/v1/sandboxes/{box}/sessions")["sessions"][0]
    ok(f"session {session['id']}" in listed and "idle" in listed, listed)
    eq(json.loads(said("ls", "--json", box))[0]["session_id"], session["id"])
    call("rm", box)


@test
def rm_all_asks_at_a_terminal():
    box = said("create").strip()

    def typed(answer, *options):
        p = subprocess.run(["script", "-qec", " ".join([WARREN, "rm", "--all", *options]), "/dev/null"], input=answer, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environ(), timeout=60, check=False)
        return p.stdout
    ok("[y/N]" in typed("n\n"), "it asks")
    eq(state(box), "running")
    ok("[y/N]" in typed("y\n"), "it asks")
    until(lambda: state(box) == "gone", "deleted")
    box = said("create").strip()
    ok("[y/N]" not in typed("", "-f"), "it does not ask")
    until(lambda: state(box) == "gone", "deleted")
    box = said("create").strip()
    call("rm", "--all")
    eq(state(box), "gone", "a program is not asked")


@test
def a_limit_above_the_machines_is_reported():
    for limit, word in ((("--memory", "4000g"), "--memory is more than"), (("--cpus", "999"), "--cpus is more than")):
        p = call("run", *limit, "echo", "x")
        eq(p.stdout, "x\n")
        ok(word in p.stderr and "this machine has" in p.stderr, p.stderr)
        eq(call("run", "-q", *limit, "true").stderr, "")
    eq(call("run", "--memory", "64m", "--cpus", "1", "true").stderr, "", "what can be had is not talked about")


@test
def processes_of_the_service_have_readable_names():
    def title(pid):
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as f:
            return f.read().rstrip("\0")
    eq((title(w.warden), title(w.api)), ("warren: warden", "warren: api"))


@test
def aliases_are_listed_as_aliases():
    shown = said("--help")
    for alias, of in (("ps", "ls"), ("unpause", "resume"), ("rmi", "image rm")):
        ok(any(line.split()[:1] == [alias] and f"Alias of '{of}'." in line for line in shown.splitlines()), f"{alias} in {shown}")
    for word in ("stop", "start", "restart", "kill", "attach", "rename"):
        ok(f"warren {word}" in said(word, "--help"), word)


# ------------------------------------------------------------- mini-swe-agent


def mini_python():
    """Creates the environment once, in the build directory."""
    python, wanted = f"{VENV}/bin/python", os.path.join(SOURCE, "test/lib/mini-swe-agent-requirements.txt")
    if os.path.exists(f"{VENV}/ready"):
        return python
    shutil.rmtree(VENV, ignore_errors=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", VENV], [*pip, "-r", wanted], [*pip, "--no-deps", MINI]):
        r = subprocess.run(command, capture_output=True, text=True, check=False)
        if r.returncode != 0:
            raise Skip(f"mini-swe-agent cannot be installed: {(r.stderr or r.stdout).strip()[-200:]}")
    with open(f"{VENV}/ready", "w", encoding="ascii"):
        return python


AGENT = """
import sys, time
from minisweagent.environments.docker import DockerEnvironment
env = DockerEnvironment(image=sys.argv[2], cwd="/testbed", executable=sys.argv[1], env={"PAGER": "cat"})
run = lambda command, **kw: env.execute({"command": command}, **kw)
assert len(env.container_id) == 12, env.container_id
r = run("pwd; echo $PAGER; echo text > file; echo err >&2")
assert (r["output"], r["returncode"]) == ("/testbed\\ncat\\nerr\\n", 0), r
assert run("cat file")["output"] == "text\\n"
assert run("pwd", cwd="/tmp")["output"] == "/tmp\\n"
assert run("exit 7")["returncode"] == 7
r = run("echo before; sleep 60", timeout=2)
assert r["returncode"] == -1 and "timed out" in r["exception_info"], r
assert run("echo alive")["output"] == "alive\\n"
print(env.container_id)
env.cleanup()
"""


@test
def mini_swe_agent_works_with_warren_as_its_docker():
    python = mini_python()
    p = subprocess.run([python, "-c", AGENT, WARREN, "host"], capture_output=True, text=True, timeout=120, check=False,
                       env=environ(MSWEA_SILENT_STARTUP="1", MSWEA_GLOBAL_CONFIG_DIR=f"{w.dir}/mini"))
    eq(p.returncode, 0, f"status: {p.stdout} {p.stderr}")
    box = p.stdout.split()[-1]
    until(lambda: state(box) == "gone", "its cleanup removes the sandbox")
    ok(not running("sleep", "2h"), "nothing of it runs")


if __name__ == "__main__":
    with World() as w:
        failed = run_tests()
        time.sleep(0)
    sys.exit(failed)
