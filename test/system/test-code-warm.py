#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-code-warm.py - interpreters that are started before their program arrives (code.warm)

A program must not notice the difference, except by the age of its process. Prints TAP.
"""
import json
import os
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, check_error, together, until  # pylint: disable=wrong-import-position

EACH = 2
TICK_MS = 10  # resolution of the start time that the kernel reports

# Prints the process's start time in ms, and then its privileges, working directory and environment.
POSTURE = """
import json, os, re, resource, sys
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
ticks = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19])
began = ticks * 1000 / os.sysconf("SC_CLK_TCK")
mask = os.umask(0)
print(json.dumps([began, {
    "status": {k: status[k] for k in ("Name", "Umask", "PPid", "Uid", "Gid", "Groups", "Threads", "SigBlk", "SigIgn", "SigCgt",
                                      "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters")},
    "mounts": sorted(line.split()[1] + " " + re.sub("[ug]id=[0-9]+", "", line.split()[3]) for line in open("/proc/mounts")),
    "limits": {str(i): resource.getrlimit(i) for i in range(16)},
    "fds": sorted(f for f in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + f)),
    "env": {k: v for k, v in os.environ.items() if k != "HOSTNAME"}, "argv": sys.argv, "flags": list(sys.flags), "path": sys.path, "cwd": os.getcwd(),
    "file": __file__, "name": __name__, "modules": sorted(sys.modules), "files": sorted(os.listdir(".")),
    "code": open(__file__).read() != "", "stdin": sys.stdin.read(), "session": os.getsid(0) == os.getpid(),
    "net": sorted(os.listdir("/sys/class/net")) if os.path.isdir("/sys/class/net") else None,
    "mask": mask}]))
"""
FAULTY = "def f():\n    return 1 / 0\n\n\nf()\n"

world = None


def uptime_ms():
    return time.clock_gettime(time.CLOCK_BOOTTIME) * 1000


def code(text, language="python", w=None, **more):
    return (w or world).post("/v1/code", {"language": language, "code": text, **more})


def waiting(w=None):
    """The ids of running sandboxes; none of them belongs to a client."""
    return {b["id"] for b in (w or world).sandboxes() if b["state"] == "running"}


def warm_up(w=None):
    """Wait until an interpreter has loaded and waits for a program."""
    code("1", w=w)
    until(lambda: waiting(w), "no interpreter waits")
    begin = uptime_ms()
    until(lambda: uptime_ms() > begin + 2 * TICK_MS and waiting(w), "no interpreter has waited")


def posture(w=None, **more):
    """Returns whether the process is older than the request, and the rest of the posture."""
    sent = uptime_ms()
    r = (w or world).post("/v1/code", {"language": "python", "code": POSTURE}, **more)
    eq(r["exit_code"], 0, r["stderr"])
    began, found = json.loads(r["stdout"])
    return began + TICK_MS < sent, found


def waited_posture():
    """Returns the posture of a program whose interpreter has waited. The interpreter before it may still have been
    loading."""
    return until(lambda: (lambda waited, found: waited and found)(*posture()), "no program had an interpreter that waited")


@test
def a_waiting_interpreter_has_the_usual_environment():
    warm_up()
    warm = waited_posture()
    with World() as cold:
        waited, other = posture(cold)
    ok(not waited, "control: one of a service without them has not waited")
    for field, value in other.items():
        eq(warm[field], value, field)


@test
def stdin_results_and_errors_are_the_same_as_without_waiting():
    warm_up()
    echo = "import sys; sys.stdout.write(sys.stdin.read()[::-1]); sys.exit(7)"
    eq([code(echo, stdin="abc")[k] for k in ("stdout", "exit_code")], ["cba", 7], "stdin and status")
    with World() as cold:
        for text in (FAULTY, "print(1\n", "import os\nos.kill(os.getpid(), 9)", "# \u00e9\nprint('\u2192')", "",
                     "# -*- coding: latin-1 -*-\nprint('\xe9')", "raise SystemExit('bye')"):
            warm_up()
            a, b = code(text), code(text, w=cold)
            eq([a[k] for k in ("stdout", "stderr", "exit_code", "signal")],
               [b[k] for k in ("stdout", "stderr", "exit_code", "signal")], repr(text))


@test
def a_program_larger_than_a_pipe_arrives_whole():
    warm_up()
    text = "x = '" + "y" * 60000 + "'\nprint(len(x))\n"
    eq(code(text)["stdout"], "60000\n", "60 KB")
    eq(code("x = '" + "y" * 600000 + "'\nprint(len(x))\n")["stdout"], "600000\n", "600 KB, which does not wait")


@test
def each_interpreter_is_used_once_and_has_different_random_numbers():
    seen = set()
    for _ in range(12):
        r = code("import os, random\nopen('left', 'x')\nprint(hash('a'), random.random(), os.listdir('.'))")
        eq(r["exit_code"], 0, r["stderr"])
        ok("['left', 'main.py']" in r["stdout"] or "['main.py', 'left']" in r["stdout"], r["stdout"])
        seen |= set(r["stdout"].split()[:2])
    eq(len(seen), 24, "different hashes and random numbers")


@test
def the_timeout_starts_with_the_program():
    warm_up()
    r = code("import subprocess, time\nprint('begun', flush=True)\nsubprocess.Popen(['sleep', '5037.25'])\ntime.sleep(60)",
             timeout_ms=3000)
    eq([r["exit_code"], r["timed_out"], r["stdout"]], [124, True, "begun\n"], "its end")
    ok("Execution timed out" in r["stderr"], r["stderr"])
    eq(code("import time; time.sleep(0.3); print('done')", timeout_ms=20000)["stdout"], "done\n", "one in time")


@test
def javascript_interpreters_wait_too():
    if not shutil.which("node", path="/usr/local/bin:/usr/bin:/bin"):
        raise Skip("this machine has no node")
    for text, want in (("console.log(__filename, require('fs').readFileSync(0, 'utf8'))", "/sandbox/main.js abc\n"),
                       ("import fs from 'fs'; console.log(await 5)", "5\n")):
        for _ in range(3):
            r = code(text, "javascript", stdin="abc")
            eq([r["stdout"], r["exit_code"]], [want, 0], r["stderr"])
    ok("main.js:2" in code("\nthrow new Error('no')", "javascript")["stderr"], "the line")


@test
def many_programs_can_use_waiting_interpreters_at_the_same_time():
    replies = together(16, lambda i: [code(f"print({i} * {n})")["stdout"] for n in range(4)])
    eq(replies, [[f"{i * n}\n" for n in range(4)] for i in range(16)], "results")
    until(lambda: len(waiting()) <= 2 * EACH, lambda: f"too many wait: {waiting()}")


@test
def deleting_a_waiting_sandbox_does_no_harm():
    warm_up()
    for box in waiting():
        check_error(world.ask("POST", f"/v1/sandboxes/{box}/pause"), 409)
        check_error(world.ask("POST", f"/v1/sandboxes/{box}/execs", {"argv": ["true"]}), 409)
        world.delete(box)
    eq(code("print(5)")["stdout"], "5\n", "after that")


@test
def a_missing_image_is_an_error():
    r = world.ask("POST", "/v1/code", {"language": "python", "code": "print(1)", "image": "nosuch:image"})
    ok(r.status >= 400, r)
    eq(code("print(6)")["stdout"], "6\n", "with the usual image")


@test
def a_killed_service_leaves_no_waiting_interpreter():
    warm_up()
    world.kill("api", "warden")
    world.start()
    until(lambda: not world.sandboxes(), lambda: f"left: {world.sandboxes()}")
    eq(code("print(8)")["stdout"], "8\n", "after that")


@test
def idle_interpreters_are_ended_for_other_runs():
    with World(config=f"code:\n  warm: {EACH}\nquota:\n  sandboxes: {EACH + 1}\n") as small:
        code("1", w=small)
        until(lambda: len(waiting(small)) == EACH, "no interpreter waits")
        # The first run's sandbox may still be being deleted.
        until(lambda: small.ask("POST", "/v1/sandboxes", {}).status == 201, "no room for a sandbox")
        eq(small.ask("POST", "/v1/code", {"language": "bash", "code": "echo 1"}).status, 200, "a run of another language")


@test
def clients_cannot_access_a_waiting_interpreter():
    warm_up()
    for box in waiting():
        for e in world.get(f"/v1/sandboxes/{box}/execs")["execs"]:
            at = f"/v1/sandboxes/{box}/execs/{e['id']}"
            check_error(world.ask("POST", at + "/stdin", b"INJECTED"), 409)
            check_error(world.ask("POST", at + "/signal", {"signal": "STOP"}), 409)
    eq(code("import sys; print(sys.stdin.read())", stdin="genuine")["stdout"], "genuine\n", "its stdin")


@test
def waiting_interpreters_are_not_shared_between_tenants():
    token = world.token("exec", "write", "read", tenant="other")
    warm_up()
    ok(not posture(token=token)[0], "another tenant's first program got a process that waited")
    ok(waited_posture(), "control: our own waits")


@test
def waiting_interpreters_end_when_the_token_is_revoked():
    token = world.post("/v1/tokens", {"name": "short", "scopes": ["exec", "write"], "tenant": "leaving"}, status=201)
    world.post("/v1/code", {"language": "python", "code": "1"}, token=token["secret"])
    def theirs():
        return [b["id"] for b in world.sandboxes() if b["owner"] == "leaving" and b["state"] == "running"]
    until(theirs, "no interpreter waits")
    world.ask("DELETE", f"/v1/tokens/{token['id']}", status=204)
    until(lambda: not theirs(), "an interpreter of the tenant is left")


if __name__ == "__main__":
    with World(config=f"code:\n  warm: {EACH}\n") as world:
        failed = run_tests()
    sys.exit(failed)
