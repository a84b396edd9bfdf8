#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-code-languages.py - run code in each language that this machine has: success, failure and limits

The programs are in lib/code_programs.py. All cases are tested for the four main languages, and those that depend on
the language for the others. If the machine lacks a language, its tests are skipped, after a check that the error
names the tool.
"""
import base64
import os
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from code_programs import ALWAYS, FULL, PROGRAMS, TOOLS  # pylint: disable=wrong-import-position
from serve_world import World, check_error, together  # pylint: disable=wrong-import-position

w = None
LONG = 120000  # in ms; no program here takes as long, even on a loaded machine
ROOM = {"memory": "1g", "disk": "200m", "pids": 100}  # enough for compilers
here = {}  # language -> whether the machine has it


def code(language, text, **more):
    return w.post("/v1/code", {"language": language, "code": text, "timeout_ms": LONG, **more})


def has(language):
    """Does this machine have the language? If not, check that the error names the missing tool."""
    if language not in here:
        r = w.ask("POST", "/v1/code", {"language": language, "code": "", "timeout_ms": LONG})
        here[language] = r.status == 200
        if not here[language]:
            check_error(r, 422, "command_not_found")
            ok(f"'{TOOLS[language]}'" in r.json()["message"] and "image 'host'" in r.json()["message"], r.json())
            ok(language not in ALWAYS, f"{language}: {r.json()}")
    return here[language]


def each(case, check, at_once=2):
    """Calls check(language, program) for each language that has the case."""
    languages = [language for language in PROGRAMS if case in PROGRAMS[language] and has(language)]
    ok(set(FULL) <= set(languages), languages)
    together(at_once, lambda i: [check(language, PROGRAMS[language][case]) for language in languages[i::at_once]])


def must_have(language):
    """Adds a test for one language, so that a language which is not tested counts as skipped."""
    def is_here():
        if not has(language):
            raise Skip(f"this machine has no '{TOOLS[language]}'")
    is_here.__name__ = f"{language}_is_here"
    return test(is_here)


for one in PROGRAMS:
    must_have(one)


@test
def every_language_supports_arguments_stdin_and_unicode():
    def check(language, text):
        r = code(language, text, args=["a b"], stdin="in\n", env={"LC_ALL": "C.UTF-8"})
        eq((r["exit_code"], r["phase"], r["stdout"].replace("\t", " ").strip(), r["stderr"]), (0, "run", "a b in ☃", ""), f"{language}: {r}")
    each("success", check)


@test
def every_language_reports_a_failed_program():
    def check(language, text):
        r = code(language, text)
        eq((r["exit_code"], r["signal"], r["timed_out"], r["oom"], r["phase"]), (7, 0, False, False, "run"), f"{language}: {r}")
    each("fails", check)


@test
def every_language_reports_syntax_errors():
    def check(language, text):
        r = code(language, text)
        ok(r["exit_code"] not in (0, 7) and r["stderr"] + r["stdout"] and not r["timed_out"], f"{language}: {r}")
        eq(r["phase"], "compile" if language in ("typescript", "c", "c++", "go", "rust") else "run", f"{language}: {r}")
    each("syntax", check)


@test
def every_language_is_ended_by_a_timeout():
    def check(language, text):
        # The time is enough to compile and to begin, even on a loaded machine; the program itself never ends.
        r = code(language, text, timeout_ms=20000)
        eq((r["exit_code"], r["timed_out"], r["phase"], r["stdout"].strip()), (124, True, "run", "so far"), f"{language}: {r}")
        ok("Execution timed out" in r["stderr"], f"{language}: {r}")
    # The programs wait or compute, all at the same time.
    each("forever", check, at_once=len(PROGRAMS))
    w.empty()


@test
def every_language_has_a_memory_limit():
    def check(language, text):
        # The limits must be large enough for the compiler too.
        r = code(language, text, limits={"memory": "190m", "disk": "32m"})
        said = r["stderr"] + r["stdout"]
        ok(r["exit_code"] != 0 and r["phase"] == "run" and (r["oom"] or "memory" in said.lower() or "bad_alloc" in said), f"{language}: {r}")
        r = code(language, text, limits=ROOM)
        eq((r["exit_code"], r["stdout"].strip(), r["oom"]), (0, "got it", False), f"{language} with more memory: {r}")
    each("memory", check)


@test
def every_language_has_a_process_limit():
    def check(language, text):
        r = code(language, text, limits={"pids": 30})
        ok(r["stdout"].strip() != "all", f"{language}: {r}")
        r = code(language, text, limits={"pids": 200, "memory": "512m"})
        eq(r["stdout"].strip(), "all", f"{language} with more: {r}")
    each("pids", check)


@test
def no_language_has_network_access():
    outside = {"bash": ["bash", "-c"], "python": [sys.executable, "-c"], "javascript": ["node", "-e"]}
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])

        def check(language, text):
            r = code(language, text.replace("{port}", port))
            ok(r["exit_code"] != 0 and "connected" not in r["stdout"], f"{language}: {r}")
            if language in outside:  # the same program can connect if there is a network
                p = subprocess.run([*outside[language], text.replace("{port}", port)], capture_output=True, text=True, check=False)
                eq(p.stdout, "connected\n", f"{language} outside: {p}")
        each("connect", check)
    eq(code("bash", "tail -n +3 /proc/net/dev | grep -vc lo: ; ls /sys/class/net 2>/dev/null")["stdout"].split()[:1], ["0"], "interfaces")


@test
def programs_can_write_only_to_their_directory():
    def check(language, text):
        r = code(language, text)
        eq((r["exit_code"], r["stdout"].split()[-1]), (0, "in"), f"{language}: {r}")
        eq((r["stdout"] + r["stderr"]).count("ead-only") + r["stdout"].count("EROFS"), 3, f"{language}: {r}")
    each("write", check)
    ok(not os.path.exists("/usr/x") and not os.path.exists("/x"), "and nothing is outside")
    r = code("bash", "echo 'echo ran' >p; chmod +x p; ./p; grep NoNewPrivs /proc/self/status; id -u; pwd; df -m /sandbox | tail -1")
    eq(r["stdout"].split()[:5], ["ran", "NoNewPrivs:", "1", "0", "/sandbox"], r)
    ok(" 64 " in r["stdout"], r)


@test
def a_full_directory_is_reported_in_every_language():
    def check(language, text):
        r = code(language, text, limits={"memory": "512m"})
        ok(int(r["stdout"].split()[-1]) < 68 << 20 and ("space" in r["stdout"] + r["stderr"] or "ENOSPC" in r["stdout"]), f"{language}: {r}")
    each("fill", check)
    check_error(w.ask("POST", "/v1/code", {"language": "bash", "code": "true", "files": {"a": "x" * 2000000},
                                           "limits": {"disk": "1m"}}), 400, "invalid_request")


@test
def every_language_can_write_huge_and_binary_output():
    def huge(language, text):
        r = code(language, text, max_output="2m")
        eq((r["exit_code"], len(r["stdout"]), set(r["stdout"]), r["stdout_truncated"]), (0, 2 << 20, {"x"}, True), language)
        r = code(language, text, max_output="4m")
        eq((len(r["stdout"]), r["stdout_truncated"]), (3000000, False), language)
    each("huge", huge)

    def binary(language, text):
        r = code(language, text)
        eq((r["stdout_encoding"], base64.b64decode(r["stdout"])), ("base64", bytes(range(256))), f"{language}: {r['stderr']}")
    each("binary", binary)


@test
def every_language_can_create_artifacts():
    def check(language, text):
        r = code(language, text, artifacts=["**"])
        eq(([(a["path"], a["content"]) for a in r["artifacts"]], r["artifacts_complete"]), ([("out/a.txt", "made")], True), f"{language}: {r}")
    each("artifact", check)


@test
def errors_have_the_line_numbers_of_the_source():
    r = code("typescript", "const a = 1\nlet x: = 1")
    ok(r["phase"] == "compile" and "main.ts:2:7" in r["stderr"], r)
    r = code("typescript", "type T = number\nconst f = (x: T) => {\n  throw new Error('bang')\n}\nf(1)")
    ok("main.ts:3:" in r["stderr"], r)


def main():
    global w  # pylint: disable=global-statement
    try:
        with World() as w:
            return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
