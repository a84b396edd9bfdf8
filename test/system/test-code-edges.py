#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-code-edges.py - run code at its limits: artifacts, remaining processes, and a service or client that ends
during a run"""
import base64
import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import WARREN, Skip, eq, ok, run_tests, scratch, test  # pylint: disable=wrong-import-position
from loop_probe import Probe  # pylint: disable=wrong-import-position
from serve_world import WAIT, World, check_error, together, until  # pylint: disable=wrong-import-position

w = None
LONG = 60000  # in ms; no program here takes as long, even on a loaded machine


def code(language, text, **more):
    return w.post("/v1/code", {"language": language, "code": text, "timeout_ms": LONG, **more})


@test
def a_program_of_any_size_arrives_whole():
    # A short program is sent with the exec, a long one is written before; mode and owner are the same.
    seen = set()
    for size in (40, 30000, 65535, 65536, 65537, 1 << 20):
        text = "sha256sum <$0; stat -c '%a %u %g' $0; ls -A\nexit 3\n"
        text += "#" * (size - len(text)) if size > len(text) else ""
        r = code("bash", text)
        at, kind, *names = r["stdout"].splitlines()
        eq((r["exit_code"], at.split()[0]), (3, hashlib.sha256(text.encode()).hexdigest()), f"{size} bytes: {r}")
        seen.add((kind, *names))
    eq(seen, {("644 0 0", "main.sh")}, "the file is the same")
    eq(code("bash", "")["exit_code"], 0, "an empty one")


@test
def large_base64_requests_keep_turns_short():
    """Earlier versions decoded a body of 16 MB in one turn, and checked the output in another."""
    body = {"language": "python", "code": "import sys; d = sys.stdin.buffer.read(); print(len(d), len(open('f', 'rb').read()));"
            " sys.stderr.write('\u00e9' * 8000000 + 'x')", "stdin_base64": base64.b64encode(bytes(range(256)) * 31000).decode(),
            "files_base64": {"f": base64.b64encode(b"\xff" * 8000000).decode()}, "max_output": "16m", "limits": {"memory": "256m"}}
    with World("--request-body", "24m") as large, contextlib.closing(Probe(large)) as beside:
        with beside.bounded("code in base64", most=0.05):
            got = together(3, lambda i: large.post("/v1/code", body))
        for r in got:
            eq((r["stdout"], r["stderr_encoding"], len(r["stderr"])), (f"{256 * 31000} 8000000\n", "utf-8", 8000001), "what came")


@test
def artifacts_are_bounded_and_never_follow_links_outside():
    r = code("bash", "for i in $(seq 300); do echo $i >f$i; done", artifacts=["f*"])
    eq((len(r["artifacts"]), r["artifacts_complete"]), (256, False), "too many")
    r = code("bash", "head -c 17000000 /dev/zero >big; echo small >small", artifacts=["*"])
    eq(([a["path"] for a in r["artifacts"]], r["artifacts_complete"]), (["small"], False), "too large")
    r = code("bash", "p=.; for i in $(seq 70); do p=$p/d; mkdir $p; echo $i >$p/f; done", artifacts=["**"])
    eq((max(a["path"].count("/") for a in r["artifacts"]) < 64, r["artifacts_complete"]), (True, False), "too deep")
    # A process that outlives the program replaces a directory by a link, again and again.
    r = code("bash", "mkdir -p d real; echo mine >d/passwd; (while :; do mv d e; ln -s /etc d; rm d; mv e d; done) >/dev/null 2>&1 &\n"
             "for i in $(seq 200); do echo $i >real/$i; done", artifacts=["**"])
    for a in r["artifacts"]:
        ok("root:" not in a["content"], a["path"])
    ok(any(a["path"].startswith("real/") for a in r["artifacts"]), "the others are there")


@test
def artifacts_with_unusable_names_are_omitted_and_reported():
    r = code("python", "import os\nfor n in (b'\\xff1', b'\\xff2', 'é'.encode()): open(n, 'w')", artifacts=["*"])
    eq(([a["path"] for a in r["artifacts"]], r["artifacts_complete"]), (["é"], False), "names that are not UTF-8")
    for language, text in (("c", "#include <stdio.h>\nint main(void) { fclose(fopen(\".program.txt\", \"w\")); }"),
                           ("bash", "touch .program.txt")):
        eq([a["path"] for a in code(language, text, files={"in": ""}, artifacts=["**"])["artifacts"]], [".program.txt", "in"], language)
    check_error(w.ask("POST", "/v1/code", {"language": "c", "code": "", "files": {".program": ""}}), 400, "invalid_request")
    # A name is omitted if the pattern takes too long to match it, and the answer reports that.
    r = code("bash", f"touch {'a' * 250} {'b' * 20}", artifacts=["*?" * 120])
    eq(([a["path"] for a in r["artifacts"]], r["artifacts_complete"]), ([], False), "a pattern that is too complicated")


# Stops all other processes, including the file worker, and continues them for a moment now and then.
HOLDS = """
import os, signal, time
for i in range(250):
    open(f"f{i}", "w").write("x")
parent = os.getpid()
if os.fork() == 0:
    os.setsid()
    while os.path.exists(f"/proc/{parent}"):
        time.sleep(0.001)
    while True:
        others = [int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]
        for s, pause in ((signal.SIGSTOP, 2), (signal.SIGCONT, 0.00005)):
            for p in others:
                try:
                    os.kill(p, s)
                except OSError:
                    pass
            time.sleep(pause)
"""


@test
def a_leftover_process_does_not_delay_the_answer():
    with w.client(timeout=4 * WAIT) as c:
        r = c.ask("POST", "/v1/code", {"language": "python", "code": HOLDS, "artifacts": ["**"], "timeout_ms": 20000})
    eq(r.status, 200, r)
    eq(r.json()["exit_code"], 0, r)
    w.check_empty()


def in_the_middle(work):
    """Calls work() with the id of the sandbox of a running program; returns the answer to that run."""
    answer = []

    def run():
        try:
            answer.append(w.ask("POST", "/v1/code", {"language": "bash", "code": "echo begun; sleep 600", "timeout_ms": 600000}))
        except OSError as e:
            answer.append(e)
    t = threading.Thread(target=run)
    t.start()
    box = until(lambda: [s["id"] for s in w.sandboxes() if s.get("code_run") and s["state"] == "running" and w.get(
        f"/v1/sandboxes/{s['id']}/execs")["execs"]], "a run in the list of sandboxes")[0]
    work(box)
    t.join()
    return answer[0]


@test
def the_sandbox_of_a_code_run_can_only_be_deleted():
    def work(box):
        at = f"/v1/sandboxes/{box}"
        for path, body in (("/pause", None), ("/stop", None), ("/stop", {"timeout_ms": 0}), ("/run", {"command": "true"}),
                           ("/execs", {"command": "true"}), ("/sessions", {}), ("/restart", None)):
            r = w.ask("POST", at + path, body)
            ok(r.status == 409 or path == "/restart" and r.status == 404, f"{path}: {r}")
        eq(w.ask("GET", at + "/files", query={"path": "/sandbox/main.sh"}).status, 409, "a file")
        exec_at = f"{at}/execs/{w.get(at + '/execs')['execs'][0]['id']}"
        for method, path, body in (("POST", "/stdin", b"x"), ("POST", "/stdin/close", None), ("POST", "/signal", {"signal": "KILL"}),
                                   ("POST", "/resize", {"rows": 5, "cols": 5}), ("GET", "/output", None), ("GET", "", None)):
            check_error(w.ask(method, exec_at + path, body), 409, "conflict")
        check_error(w.ask("PATCH", at, {"labels": {"a": "b"}}), 409, "conflict")
        eq(w.ask("GET", at).status, 200, "it can be shown")
        w.ask("DELETE", at, status=204)
    check_error(in_the_middle(work), 409, "conflict")
    w.empty()


@test
def a_code_run_ends_when_its_client_disconnects():
    for path in ("/v1/code", "/v1/code/stream"):
        with socket.socket(socket.AF_UNIX) as s:
            body = b'{"language":"bash","code":"echo begun; sleep 600","timeout_ms":600000}'
            s.connect(w.socket)
            s.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                      .encode() + body)
            until(lambda: [x for x in w.sandboxes() if x["state"] == "running"], "the run")
        until(lambda: w.sandboxes() == [], "its sandbox is gone")
    w.empty()


@test
def a_killed_service_leaves_nothing_of_a_code_run():
    def work(_):
        w.kill("api", "warden")
        w.start()
    gone = in_the_middle(work)
    ok(isinstance(gone, OSError) or gone.status >= 500, gone)
    until(lambda: w.sandboxes() == [], "its sandbox is gone")
    w.empty()
    eq(code("bash", "echo again")["stdout"], "again\n", "another run")


@test
def a_stopping_service_answers_code_runs_and_leaves_nothing():
    def work(_):
        w.stop()
    check_error(in_the_middle(work), 503, "shutting_down")
    w.start()
    until(lambda: w.sandboxes() == [], "its sandbox is gone")
    w.empty()


@test
def consecutive_runs_fit_into_a_quota_of_one():
    with World(config="quota: { sandboxes: 1 }\n") as m:
        for i in range(10):
            r = m.ask("POST", "/v1/code", {"language": "bash", "code": f"echo {i}"})
            eq((r.status, r.json().get("stdout")), (200, f"{i}\n"), r)
        until(lambda: m.ask("POST", "/v1/sandboxes", {}).status == 201, "no room for a sandbox")
        check_error(m.ask("POST", "/v1/code", {"language": "bash", "code": "echo"}), 429, "quota_exceeded")


@test
def a_configuration_adds_languages_and_sets_limits():
    config = """
defaults: { memory: 100m, disk: 50m }
max: { memory: 200m }
code:
  timeout: 50s
  pids: 20
  images: ['sed=dir:/nowhere', 'bash=host']
  languages:
    sed: { file: p.sed, run: [sed, -n, -f, '{file}'], aliases: [stream-editor] }
    cat: { file: text, compile: ['no-such-tool|cp', '{file}', made], run: [cat, made] }
"""
    with World(config=config) as m:
        def ask(language, text, **more):
            return m.ask("POST", "/v1/code", {"language": language, "code": text, **more})
        r = ask("stream-editor", "s/a/b/p", stdin="a\n", image="host")
        eq((r.status, r.json()["stdout"]), (200, "b\n"), r)
        ok(ask("sed", "").status >= 400, "the image of the configuration is used")
        eq(ask("cat", "as it is").json()["stdout"], "as it is", "compiled by the second tool")
        ok(" sed" in ask("x", "").json()["message"] and " cat" in ask("x", "").json()["message"], "they are listed")
        eq(ask("bash", "cat /sys/fs/cgroup/pids.max 2>/dev/null; echo", limits={"memory": "200m"}).status, 200, "the maximum")
        check_error(ask("bash", "", limits={"memory": "201m"}), 403, "policy_refused")
        m.empty()


@test
def a_token_needs_both_scopes():
    for scopes, status in ((("exec", "write"), 200), (("exec",), 403), (("write",), 403), (("read",), 403)):
        r = w.ask("POST", "/v1/code", {"language": "bash", "code": "true"}, token=w.token(*scopes))
        eq(r.status, status, f"{scopes}: {r}")


@test
def the_code_command_runs_code():
    def run(*words, status=0, stdin=b""):
        p = subprocess.run([WARREN, "code", *words], input=stdin, capture_output=True, check=False,
                           env={**os.environ, "WARREN_HOST": f"unix:{w.socket}"})
        eq(p.returncode, status, p)
        return p
    with scratch() as d:
        with open(f"{d}/p.sh", "w", encoding="utf-8") as f:
            f.write('echo "$1 $X $(cat) $(cat data)"; echo err >&2; mkdir o; echo art >o/a; exit 5')
        p = run("bash", f"{d}/p.sh", "-i", "-e", "X=y", "--file", f"data={d}/p.sh", "--artifact", "o/*", "-C", f"{d}/got", "--", "-arg",
                status=5, stdin=b"\xff")
        ok(p.stdout.startswith(b"-arg y \xff echo") and p.stderr == b"err\n", p)
        with open(f"{d}/got/o/a", encoding="utf-8") as f:
            eq(f.read(), "art\n", "the artifact")
    eq(run("py", "-", stdin=b"print(6 * 7)").stdout, b"42\n")
    ok(b"Execution timed out" in run("bash", "--timeout", "300ms", status=124, stdin=b"sleep 60").stderr, "timeout")
    ok(b"cobol" in run("cobol", status=125).stderr, "an unknown language")
    ok(b'"exit_code": 3' in run("sh", "--json", status=3, stdin=b"exit 3").stdout.replace(b'":', b'": ').replace(b":  ", b": "), "--json")
    w.empty()


def ordinary(home, *words):
    """Runs a command as a user who may not create cgroups."""
    return subprocess.run([WARREN, *words], input=b"echo out", capture_output=True, check=False, cwd="/", user=65534, group=65534,
                          extra_groups=[], env={"PATH": os.environ["PATH"], "HOME": home})


@test
def limits_that_are_not_enforced_are_reported():
    def states(enforced):
        return [e["enforced"] for e in enforced if e["name"] in ("memory", "pids")]
    eq(states(code("bash", "true")["enforced"]), [True, True], "for root")
    with scratch() as d:
        os.chown(d, 65534, 65534)
        p = ordinary(d, "run", "--", "true")
        if p.returncode == 125:
            raise Skip(f"an ordinary user has no sandboxes here: {p.stderr.decode()}")
        said = p.stderr.replace(b"warren run:", b"warren code:")
        ok(b"not enforced here: " in said and b"memory, pids" in said, said)
        p = ordinary(d, "code", "bash")
        eq((p.returncode, p.stdout, p.stderr), (0, b"out\n", said), "the words of warren run")
        p = ordinary(d, "code", "--json", "bash")
        eq((states(json.loads(p.stdout)["enforced"]), p.stderr), ([False, False], said), "--json")
        eq(ordinary(d, "code", "--quiet", "bash").stderr, b"", "--quiet")
        ok(b"NOT enforced memory: uid 65534 " in ordinary(d, "code", "--verbose", "bash").stderr, "--verbose")
        p = ordinary(d, "code", "--memory", "64m", "bash")
        ok(p.returncode == 125 and b"memory: a limit cannot be enforced here" in p.stderr, p)


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
