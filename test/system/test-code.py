#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-code.py - run code over the API: the environment and the results of a program, and refused requests"""
import base64
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from code_programs import PROGRAMS  # pylint: disable=wrong-import-position
from serve_world import World, check_error, together, until  # pylint: disable=wrong-import-position

w = None
LONG = 60000  # in ms; no program here takes as long, even on a loaded machine

def code(language, text, **more):
    return w.post("/v1/code", {"language": language, "code": text, "timeout_ms": LONG, **more})


@test
def a_timeout_ends_all_processes():
    r = code("bash", "sleep 600 & sleep 600", timeout_ms=1)
    eq((r["exit_code"], r["timed_out"]), (124, True), r)
    w.empty()


@test
def files_are_written_and_artifacts_returned():
    r = code("bash", "cat a/b/text raw | od -An -tx1; mkdir -p out/deep; echo é >out/deep/a.txt; printf '\\0\\377' >out/b.bin;"
             " ln -s /etc/passwd out/link; ln -s /etc out/dir; mkfifo out/fifo; echo no >other", files={"a/b/text": "hi"},
             files_base64={"raw": base64.b64encode(b"\0\xff").decode()}, artifacts=["out/**"])
    eq(r["stdout"].split(), ["68", "69", "00", "ff"], r)
    eq([(a["path"], a["encoding"], a["content"]) for a in r["artifacts"]],
       [("out/b.bin", "base64", "AP8="), ("out/deep/a.txt", "utf-8", "é\n")], r)
    ok(r["artifacts_complete"], r)
    eq([a["path"] for a in code("bash", "touch x.py y.py z", artifacts=["*.py", "z"])["artifacts"]], ["x.py", "y.py", "z"])
    # Files of the request also count as artifacts, but the program does not.
    eq([a["path"] for a in code("bash", "true", files={"in": ""}, artifacts=["*"])["artifacts"]], ["in"])


@test
def long_output_is_truncated_and_marked():
    r = code("bash", "printf 'é%.0s' {1..100}; echo bad >&2", max_output=33)
    eq((r["stdout"], r["stdout_truncated"], r["stderr"], r["stderr_truncated"]), ("é" * 16, True, "bad\n", False), r)


@test
def a_stream_has_the_output_and_result_of_a_run():
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
def errors_name_the_cause():
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
def many_programs_run_at_the_same_time():
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
