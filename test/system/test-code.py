#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run code over the API: each language that this machine has, and what a program gets and leaves"""
import base64
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, check_error, together, until  # pylint: disable=wrong-import-position

w = None
LONG = 60000  # ms that no program here takes, on a loaded machine either

# A program of each language that prints its argument, its stdin and a snowman; one that fails; one with an error in
# its syntax; and one that prints "so far" and never ends.
PROGRAMS = {
    "bash": ('read -r line; echo "$1 $line ☃"', "echo bad >&2; exit 7", "if then", "echo so far; while :; do sleep 1; done"),
    "python": ("import sys; print(sys.argv[1], input(), '☃')", "raise SystemExit(7)", "def (", "import time; print('so far'); time.sleep(600)"),
    "javascript": ("console.log(process.argv[2], require('fs').readFileSync(0, 'utf8').trim(), '☃')", "process.exit(7)",
                   "let x = = 1", "console.log('so far'); setInterval(() => 0, 1000)"),
    "typescript": ("enum E { A = 1 }\nnamespace N { export const s: string = '☃' }\nimport { readFileSync } from 'fs'\n"
                   "const line: string = await Promise.resolve(readFileSync(0, 'utf8').trim())\n"
                   "console.log(process.argv[2], line, N.s.repeat(E.A))",
                   "const n: number = 7; process.exit(n)", "let x: = 1", "console.log('so far'); setInterval(() => 0, 1000)"),
    "c": ('#include <stdio.h>\nint main(int n, char **v) { char s[9]; if (!n || !fgets(s, 3, stdin)) return 1;\n'
          'printf("%s %s ☃\\n", v[1], s); return 0; }', "int main(void) { return 7; }", "int main( {",
          '#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts("so far"); fflush(stdout); for (;;) pause(); }'),
    "c++": ("#include <iostream>\nint main(int, char **v) { std::string s; std::cin >> s; std::cout << v[1] << ' ' << s << \" ☃\\n\"; }",
            "int main() { return 7; }", "int main( {", '#include <iostream>\nint main() { std::cout << "so far" << std::endl; for (;;); }'),
    "perl": ("chomp(my $line = <STDIN>); print \"$ARGV[0] $line ☃\\n\"", "exit 7", "my $x = ;", "$| = 1; print 'so far'; 1 while 1;"),
    "ruby": ("puts \"#{ARGV[0]} #{STDIN.gets.chomp} ☃\"", "exit 7", "def (", "$stdout.sync = true; puts 'so far'; sleep"),
    "php": ("echo $argv[1], ' ', trim(fgets(STDIN)), \" ☃\\n\";", "exit(7);", "<?php function (;", "echo 'so far'; while (true);"),
    "lua": ("print(arg[1], io.read(), '☃')", "os.exit(7)", "x = = 1", "io.write('so far'); io.flush(); while true do end"),
    "java": ("class Main { public static void main(String[] a) { System.out.println(a[0] + ' ' + new java.util.Scanner(System.in)"
             ".nextLine() + \" \\u2603\".replace('?', '?')); } }", "class Main { public static void main(String[] a) { System.exit(7); } }",
             "class Main { void f( }",
             "class Main { public static void main(String[] a) { System.out.println(\"so far\"); for (;;); } }"),
    "go": ('package main\nimport ("fmt"; "os")\nfunc main() { var s string; fmt.Scan(&s); fmt.Println(os.Args[1], s, "☃") }',
           'package main\nimport "os"\nfunc main() { os.Exit(7) }', "package main\nfunc main( {",
           'package main\nimport "fmt"\nfunc main() { fmt.Println("so far"); for {} }'),
    "rust": ("fn main() { let mut s = String::new(); std::io::stdin().read_line(&mut s).unwrap();\n"
             "println!(\"{} {} ☃\", std::env::args().nth(1).unwrap(), s.trim()); }",
             "fn main() { std::process::exit(7) }", "fn main( {", 'fn main() { println!("so far"); loop {} }'),
    "r": ("cat(commandArgs(TRUE)[1], readLines('stdin', 1), '☃\\n')", "quit(status = 7)", "x <- <- 1",
          "cat('so far'); while (TRUE) {}"),
}
# What a test needs is there in any case; the others are tried where the machine has them.
ALWAYS = ("bash", "python", "javascript", "typescript", "c", "perl", "ruby", "php", "lua")
# Compilers need more than the usual limits.
ROOM = {"limits": {"memory": "1g", "disk": "400m", "pids": 200}}


def code(language, text, **more):
    return w.post("/v1/code", {"language": language, "code": text, "timeout_ms": LONG, **more})


def missing(language):
    """Whether this machine lacks the language: the error says so, and names the tool."""
    r = w.ask("POST", "/v1/code", {"language": language, "code": "", "timeout_ms": LONG, **ROOM})
    if r.status == 200:
        return False
    check_error(r, 422, "command_not_found")
    ok("'" in r.json()["message"] and "image 'host'" in r.json()["message"], r.json())
    ok(language not in ALWAYS, f"{language}: {r.json()}")
    return True


def each_language(check):
    for language, programs in PROGRAMS.items():
        if missing(language):
            print(f"# this machine lacks {language}")
        else:
            check(language, *programs)


@test
def programs_succeed_with_arguments_stdin_and_unicode():
    def check(language, good, *_):
        r = code(language, good, args=["a b"], stdin="in\n", **ROOM)
        eq((r["exit_code"], r["phase"], r["stdout"].replace("\t", " ").replace("?", "☃").strip(), r["stderr"]),
           (0, "run", "a b in ☃", ""), f"{language}: {r}")
    each_language(check)


@test
def programs_fail_by_themselves_and_by_their_syntax():
    def check(language, _, fails, wrong, *__):
        r = code(language, fails, **ROOM)
        eq((r["exit_code"], r["signal"], r["timed_out"], r["phase"]), (7, 0, False, "run"), f"{language}: {r}")
        r = code(language, wrong, **ROOM)
        ok(r["exit_code"] not in (0, 7) and r["stderr"] + r["stdout"], f"{language}: {r}")
    each_language(check)
    r = code("typescript", "const a = 1\nlet x: = 1")
    ok(r["phase"] == "compile" and "main.ts:2:7" in r["stderr"], r)
    r = code("typescript", "type T = number\nconst f = (x: T) => {\n  throw new Error('bang')\n}\nf(1)")
    ok("main.ts:3:" in r["stderr"], r)


@test
def programs_end_when_their_time_is_up():
    languages = ("bash", "python", "javascript", "typescript", "c", "ruby")
    # Enough to compile and to begin, on a loaded machine too; the program itself never ends.
    for language, r in zip(languages, together(len(languages), lambda i: code(languages[i], PROGRAMS[languages[i]][3],
                                                                              timeout_ms=10000))):
        eq((r["exit_code"], r["timed_out"], r["phase"], r["stdout"].strip()), (124, True, "run", "so far"), f"{language}: {r}")
        ok("Execution timed out" in r["stderr"], f"{language}: {r}")
    r = code("bash", "sleep 600 & sleep 600", timeout_ms=1)
    eq((r["exit_code"], r["timed_out"]), (124, True), r)
    w.empty()


@test
def files_come_and_artifacts_go():
    r = code("bash", "cat a/b/text raw | od -An -tx1; mkdir -p out/deep; echo é >out/deep/a.txt; printf '\\0\\377' >out/b.bin;"
             " ln -s /etc/passwd out/link; ln -s /etc out/dir; mkfifo out/fifo; echo no >other", files={"a/b/text": "hi"},
             files_base64={"raw": base64.b64encode(b"\0\xff").decode()}, artifacts=["out/**"])
    eq(r["stdout"].split(), ["68", "69", "00", "ff"], r)
    eq([(a["path"], a["encoding"], a["content"]) for a in r["artifacts"]],
       [("out/b.bin", "base64", "AP8="), ("out/deep/a.txt", "utf-8", "é\n")], r)
    ok(r["artifacts_complete"], r)
    eq([a["path"] for a in code("bash", "touch x.py y.py z", artifacts=["*.py", "z"])["artifacts"]], ["x.py", "y.py", "z"])
    # Those that came with it count as well, but not the program.
    eq([a["path"] for a in code("bash", "true", files={"in": ""}, artifacts=["*"])["artifacts"]], ["in"])


@test
def output_is_cut_and_marked():
    r = code("bash", "printf 'é%.0s' {1..100}; echo bad >&2", max_output=33)
    eq((r["stdout"], r["stdout_truncated"], r["stderr"], r["stderr_truncated"]), ("é" * 16, True, "bad\n", False), r)
    r = code("bash", "head -c 3000000 /dev/zero | tr '\\0' x; head -c 100000 /dev/zero >&2", max_output="2m")
    eq((len(r["stdout"]), r["stdout_truncated"]), (2 << 20, True), "huge output")
    eq((r["stderr_encoding"], base64.b64decode(r["stderr"])), ("base64", bytes(100000)), "binary output")


@test
def a_stream_has_the_same_in_pieces():
    program = {"language": "bash", "code": "echo a; echo b >&2; printf '\\377'; exit 3", "timeout_ms": LONG}
    for sse in (False, True):
        body = w.ask("POST", "/v1/code/stream", program, query={"format": "sse" if sse else "ndjson"}, status=200).body.decode()
        events = [json.loads(line[6:] if sse else line) for line in body.splitlines() if line]
        got = {"stdout": b"", "stderr": b""}
        for e in events[:-1]:
            eq(e["type"], "output", e)
            got[e["stream"]] += base64.b64decode(e["data"]) if e["encoding"] == "base64" else e["data"].encode()
        eq(got, {"stdout": b"a\n\xff", "stderr": b"b\n"}, "output")
        eq((events[-1]["type"], events[-1]["result"]["exit_code"], "stdout" in events[-1]["result"]), ("exit", 3, False), events[-1])
    check_error(w.ask("POST", "/v1/code/stream", {"language": "no", "code": ""}), 400, "invalid_request")


@test
def what_is_wrong_is_named():
    for field, more in (("/language", {"language": "cobol"}), ("/timeout_ms", {"timeout_ms": 0}), ("/timeout_ms", {"timeout_ms": -1}),
                        ("/timeout_ms", {"timeout_ms": 10**9}), ("/timeout_ms", {"timeout_ms": "1"}),
                        ("/files", {"files": {"../x": ""}}), ("/files", {"files": {"main.sh": ""}}),
                        ("/artifacts/0", {"artifacts": ["/etc/*"]}), ("/limits/disk", {"limits": {"disk": "10g"}}),
                        ("/limits/memory", {"limits": {"memory": 1}}), ("/stdin", {"stdin": "", "stdin_base64": ""}),
                        ("/limits/cpu_millis", {"limits": {"cpu_millis": 1}}), ("/nonsense", {"nonsense": 1})):
        r = w.ask("POST", "/v1/code", {"language": "bash", "code": "true", **more})
        check_error(r, 400, "invalid_request")
        ok(field in r.json()["message"], f"{more}: {r.json()}")
        ok(r.json()["detail"]["pointer"].startswith(field), f"{more}: {r.json()}")
    message = w.ask("POST", "/v1/code", {"language": "cobol", "code": ""}).json()["message"]
    ok(all(f" {name}" in message for name in PROGRAMS), message)
    eq(code("SH", "echo alias")["stdout"], "alias\n", "an alias")
    r = w.ask("POST", "/v1/code", {"language": "bash", "code": "true", "env": {"PATH": "/nowhere"}})
    check_error(r, 422, "command_not_found")
    ok("'bash' or 'sh'" in r.json()["message"] and "PATH" in r.json()["message"], r.json())
    eq(r.json()["detail"]["pointer"], "/env", r.json())


@test
def many_run_at_the_same_time():
    got = together(12, lambda i: code("bash", f"echo {i}; exit {i}"))
    eq([(r["stdout"], r["exit_code"]) for r in got], [(f"{i}\n", i) for i in range(12)], "results")
    until(lambda: w.sandboxes() == [], "no sandbox is left")


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
