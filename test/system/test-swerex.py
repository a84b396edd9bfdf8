#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-swerex.py - the SWE-ReX API: its unchanged official client, a comparison with its own server, and the protocol
itself"""
import hashlib
import io
import json
import socket
import struct
import sys
import threading
import time
import uuid
import zipfile
import zlib
import os

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import swerex_world  # pylint: disable=wrong-import-position
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, check_error, slurp, until  # pylint: disable=wrong-import-position
from swerex_world import Reference, points  # pylint: disable=wrong-import-position

WORLD = World(tcp=True)
ADMIN = WORLD.token("admin")


def scoped(box, *scopes):
    return WORLD.token(*(scopes or ("exec", "files")), sandbox_id=box)


class Face(swerex_world.Face):
    def __init__(self, box, token=ADMIN, prefix=True):
        super().__init__(WORLD, box, token, prefix)


def face(**kw):
    return Face(WORLD.create(**kw))


# ----------------------------------------------------------------- official client

# Points in which the two servers differ, and why; the tests below check Warren's behavior.
DIFFERENT = {
    "a_session_says_what_it_is",    # the first prompt of the shell, before prompts are disabled
    "a_megabyte",                   # SWE-ReX's server adds some bytes of its prompt
    "errors_of_files",              # a file in place of a directory: ENOTDIR, with the whole path
}


@test
def the_official_client_sees_no_difference_to_its_own_server():
    with Reference() as r:
        reference = points(r.url, r.token, r.dir)
    broken = {k: v for k, v in reference.items() if v and v[0] == "raised"}
    eq(broken, {}, "points that SWE-ReX's own server fails")
    for where in ("path", "token"):
        box = WORLD.create()
        url = f"http://127.0.0.1:{WORLD.port}" + (f"/swerex/{box}" if where == "path" else "")
        ours = points(url, ADMIN if where == "path" else scoped(box), "/tmp/points")
        eq(sorted(ours), sorted(reference))
        for name, said in reference.items():
            if name not in DIFFERENT:
                eq(ours[name], said, f"{name}, by {where}")
        eq(ours["a_session_says_what_it_is"],
           [{"output": "", "session_type": "bash"},
            {"output": "hello\n", "exit_code": 0, "failure_reason": "", "expect_string": "SHELLPS1PREFIX",
             "session_type": "bash"}, {"session_type": "bash"}])
        eq(ours["a_megabyte"], [1000000, "0123456789\n"])
        eq([c for c, _ in ours["errors_of_files"]],
           [f"builtins.{c}Error" for c in ("FileNotFound", "IsADirectory", "NotADirectory", "IsADirectory",
                                           "NotADirectory")])


# --------------------------------------------------- authentication and addresses


@test
def only_valid_tokens_are_accepted():
    box, other = WORLD.create(), WORLD.create()
    token = scoped(box)
    for f in (Face(box), Face(box, token), Face(box, token, prefix=False)):
        eq(f.ask("/", method="GET").json(), {"message": "hello world"})
        eq(f.ask("/is_alive", method="GET").json(), {"is_alive": True, "message": ""})
        eq(f.good("/execute", {"command": ["echo", "x"]})["stdout"], "x\n")
    for f in (Face(box, "wrong"), Face(box, None), Face(other, token), Face(box, ADMIN, prefix=False),
              Face(box, "wrn_" + "0" * 64, prefix=False)):
        for path, method in (("/is_alive", "GET"), ("/execute", "POST"), ("/upload", "POST")):
            r = f.ask(path, {"command": ["true"]} if method == "POST" else None, method)
            eq((r.status, r.json()), (401, {"detail": "Invalid API Key"}), f"{f.prefix} {path}")
    eq(Face("0" * 12).ask("/is_alive", method="GET").status, 404)
    eq(Face(box).ask("/nope", {}).status, 404)
    eq(Face(box).ask("/execute", method="GET").status, 405)


@test
def a_token_for_one_sandbox_allows_nothing_else():
    box, other = WORLD.create(), WORLD.create()
    token = scoped(box, "read", "exec", "files")
    eq(WORLD.ask("GET", f"/v1/sandboxes/{box}", token=token, tcp=True).status, 200)
    eq(WORLD.ask("POST", f"/v1/sandboxes/{box}/run", {"command": "true"}, token=token, tcp=True).status, 200)
    for method, path in (("GET", "/v1/sandboxes"), ("GET", f"/v1/sandboxes/{other}"), ("GET", "/v1/events"),
                         ("POST", f"/v1/sandboxes/{other}/run")):
        body = {"command": "true"} if method == "POST" else None
        check_error(WORLD.ask(method, path, body, token=token, tcp=True), 403, "forbidden")
    eq(Face(box, scoped(box, "files")).ask("/execute", {"command": ["true"]}).status, 403)
    eq(Face(box, scoped(box, "exec")).ask("/read_file", {"path": "/etc/passwd"}).status, 403)
    check_error(WORLD.ask("POST", "/v1/tokens", {"name": "x", "scopes": ["exec"], "sandbox_id": "0" * 12}), 404,
                "sandbox_not_found")
    eq([t["sandbox_id"] for t in WORLD.get("/v1/tokens", query={"limit": 1000})["tokens"] if t.get("sandbox_id") == box],
       [box] * 3)
    WORLD.delete(box)
    eq(Face(box, token, prefix=False).ask("/is_alive", method="GET").status, 401)
    eq([t for t in WORLD.get("/v1/tokens", query={"limit": 1000})["tokens"] if t.get("sandbox_id") == box], [])


@test
def a_name_or_a_prefix_of_an_id_is_enough():
    box, other = WORLD.create(name="rex-1"), WORLD.create(name="rex-2")
    token, shared = scoped(box), WORLD.token("read", "exec", "files")
    for word in ("rex-1", box, box[:6]):
        for t in (token, shared):
            eq(Face(word, t).good("/execute", {"command": ["hostname"]})["stdout"], Face(box).good("/execute", {"command": ["hostname"]})["stdout"],
               f"{word}")
    eq(Face("rex-2", token).ask("/is_alive", method="GET").status, 401, "it is for another")
    eq(Face("rex-2", shared).ask("/is_alive", method="GET").status, 200)
    for word in ("rex-3", "x" * 63, "x" * 64, "..", "%2e"):
        eq(Face(word, shared).ask("/is_alive", method="GET").status, 404, word)
        eq(Face(word, "wrong").ask("/is_alive", method="GET").status, 401, word)
    eq(Face("rex-1", WORLD.token("exec", tenant="stranger")).ask("/is_alive", method="GET").status, 404, "another tenant's name")
    WORLD.delete(box)
    eq(Face("rex-1", shared).ask("/is_alive", method="GET").status, 404)
    WORLD.delete(other)


@test
def another_tenants_sandbox_is_not_found():
    box = WORLD.create()
    token = WORLD.token("exec", "files", tenant="stranger")
    eq(Face(box, token).ask("/is_alive", method="GET").status, 404)
    eq(Face(box, token).ask("/execute", {"command": ["true"]}).status, 404)


@test
def requests_from_another_origin_are_refused():
    f = face()
    eq(f.ask("/execute", {"command": ["true"]}, Origin="http://evil.example").status, 403)
    eq(f.ask("/execute", {"command": ["true"]}, Host="evil.example").status, 403)


# ----------------------------------------------------------- malformed requests


@test
def invalid_bodies_are_refused():
    f = face()
    for path, body, loc in (("/execute", {}, ["body", "command"]), ("/execute", {"command": 1}, ["body", "command"]),
                            ("/execute", {"command": "x", "timeout": "1"}, ["body", "timeout"]),
                            ("/execute", {"command": "x", "env": {"a": 1}}, ["body", "env"]),
                            ("/execute", {"command": "x", "unknown": 1}, ["body", "unknown"]),
                            ("/run_in_session", {"action_type": "other"}, ["body", "action_type"]),
                            ("/run_in_session", {"command": "x", "check": "maybe"}, ["body", "check"]),
                            *(("/create_session", {"session_type": t}, ["body", "session_type"])
                              for t in ("zsh", "", " ", " bash", "bash ", "bas")),
                            ("/write_file", {"path": "/x"}, ["body", "content"]), ("/read_file", [], ["body"]),
                            ("/execute", "[1,", None), ("/execute", "", None), ("/execute", "\xff", None)):
        r = f.ask(path, body if isinstance(body, (dict, list)) else body.encode("latin-1"))
        eq(r.status, 422, f"{path} {body}: {r}")
        detail = r.json()["detail"]
        ok(detail and {"type", "loc", "msg"} <= set(detail[0]), detail)
        if loc:
            eq(detail[0]["loc"], loc)
    eq(f.ask("/execute", b"[" * 100000).status, 422)
    eq(f.ask("/execute", b'{"command": "' + b"x" * (5 << 20) + b'"}').status, 413)


def peak():
    """The maximum memory of the api since forget_peak(), in bytes."""
    return int(slurp(f"/proc/{WORLD.api}/status").partition("VmHWM:")[2].split()[0]) << 10


def forget_peak():
    """Resets the maximum, so that earlier usage does not hide later usage."""
    with open(f"/proc/{WORLD.api}/clear_refs", "w", encoding="ascii") as f:
        f.write("5")


@test
def hostile_bodies_are_refused_in_little_memory():
    f = face()
    f.good("/write_file", {"path": "/tmp/large", "content": "x" * (8 << 20)})
    eq(f.good("/execute", {"command": ["wc", "-c", "/tmp/large"]})["stdout"].split()[0], str(8 << 20))
    forget_peak()
    before = peak()
    many = b'{"path": "/tmp/x", "content": "", "z": [' + b"[]," * ((8 << 20) // 3) + b"[]]}"
    deep = b'{"path": "/tmp/x", "content": "", "z": ' + b"[" * 1000 + b"]" * 1000 + b"}"
    twice = b'{"path": "/tmp/x", "path": "/tmp/y", "content": ""}'
    for body in (many, deep, twice):
        r = f.ask("/write_file", body)
        eq((r.status, r.json()["detail"][0]["type"]), (422, "json_invalid"), f"{body[:50]}: {r}")
    ok(peak() - before < 64 << 20, f"{peak() - before} bytes more for a body of {len(many)}")
    eq(f.good("/execute", {"command": ["sh", "-c", "ls /tmp"]})["stdout"], "large\n", "what was written")


@test
def costly_expected_patterns_do_not_block_others():
    """Matching expensive patterns against a flood of output delays neither other sandboxes nor its own session."""
    f, other = face(), WORLD.create()
    f.open()
    f.raised("/run_in_session", {"command": "true", "expect": ["(a?){150}y", "(a?){150}z"]}, "builtins.ValueError")
    f.raised("/run_in_session", {"command": "true", "expect": ["x"] * 65}, "builtins.ValueError")
    flood = "head -c 3000000 /dev/zero | tr '\\0' a"
    ended = WORLD.beside(other, lambda _: f.run(flood, expect=["(a?){150}z"], timeout=60))
    eq(len(ended["output"]), 3000000, "the flood")
    eq(f.run("printf 'aaa%s' z; sleep 600", expect=["(a?){150}z"], timeout=60, is_interactive_command=True)["expect_string"],
       "(a?){150}z", "what is expected and comes")
    f.interrupt()


@test
def null_characters_are_refused():
    f = face()
    f.open()
    for path, body, field in (("/execute", {"command": ["pwd"], "cwd": "/tmp\0x"}, "cwd"),
                              ("/create_session", {"session": "a\0b"}, "session"),
                              ("/create_session", {"session": "a", "startup_source": ["/x\0y"]}, "startup_source"),
                              ("/run_in_session", {"command": "true", "expect": ["a\0"]}, "expect"),
                              ("/read_file", {"path": "/etc/passwd", "encoding": "utf-8\0x"}, "encoding")):
        r = f.ask(path, body)
        eq((r.status, r.json()["detail"][0]["loc"]), (422, ["body", field]), f"{path} {body}: {r}")
    f.raised("/read_file", {"path": "/etc/passwd\0"}, "builtins.ValueError")
    f.raised("/execute", {"command": ["echo", "a\0b"]}, "builtins.ValueError")
    f.good("/write_file", {"path": "/tmp/n", "content": "a\0b"})
    eq(f.good("/read_file", {"path": "/tmp/n"})["content"], "a\0b", "where it may be")


@test
def invalid_forms_are_refused():
    f = face()
    file, target = (b'name="file"; filename="f"', b"data"), (b'name="target_path"', b"/tmp/x")
    eq(f.form([file, target]).status, 200)
    for parts, tail in (([file], b"--XX--\r\n"), ([target], b"--XX--\r\n"), ([file, target], b""),
                        ([file, target], b"--XX"), ([(b'name=""', b"x"), target], b"--XX--\r\n"),
                        ([file, file, target], b"--XX--\r\n"), ([file, (b'name="other"', b"x")], b"--XX--\r\n"),
                        ([file, (b'name="target_path"', b"/tmp/\0x")], b"--XX--\r\n"),
                        ([(b"x" * 9000, b"x")], b"--XX--\r\n"), ([target] * 20, b"--XX--\r\n")):
        eq(f.form(parts, tail).status, 422, f"{parts!r:.60} {tail!r}")
    eq(f.form([file, (b'name="target_path"', b"x" * 5000)]).status, 413)
    for kind in ("multipart/form-data", "multipart/form-data; boundary=", "text/plain", "multipart/form-data; boundary=YY"):
        eq(f.form([file, target], Content_Type=kind).status, 422, kind)
    # The boundary is found wherever the body is split, and similar bytes are data.
    data = b"\r\n--X\r\n-\r\n\r--XY\r\r\n--" * 50
    eq(f.upload("/tmp/y", data).status, 200)
    eq(WORLD.run(f.box, "cksum </tmp/y; wc -c </tmp/y")["stdout"].split()[1], str(len(data)))


@test
def a_form_may_arrive_byte_by_byte():
    f = face()
    data = b"a\r\n--Xb\r\n"
    body = (b'--XX\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n' + data + b"\r\n--XX \r\n"
            b'Content-Disposition: form-data; name="target_path"\r\n\r\n/tmp/slow\r\n--XX--\r\n')
    head = (f"POST /swerex/{f.box}/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {ADMIN}\r\nConnection: close\r\n"
            f"Content-Type: multipart/form-data; boundary=XX\r\nContent-Length: {len(body)}\r\n\r\n").encode()
    with socket.create_connection(("127.0.0.1", WORLD.port)) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.sendall(head)
        for i in range(len(body)):
            s.sendall(body[i:i + 1])
        ok(b" 200 " in s.makefile("rb").readline(), "not answered by 200")
    eq(f.good("/read_file", {"path": "/tmp/slow"})["content"], data.decode().replace("\r\n", "\n"))


# ------------------------------------------------------------ repeated requests


@test
def a_repeated_request_gets_the_same_answer():
    f, number = face(), str(uuid.uuid4())
    body = {"command": "echo ran >>/tmp/ran; cat /tmp/ran", "shell": True}
    first = f.ask("/execute", body, X_Request_ID=number)
    for i in range(40):
        f.good("/execute", {"command": ["true"]}, X_Request_ID=str(uuid.uuid4()))
    eq(f.ask("/execute", body, X_Request_ID=number).body, first.body)
    eq(f.good("/execute", {"command": ["cat", "/tmp/ran"]})["stdout"], "ran\n")
    # The same request number for another sandbox is a different request.
    eq(face().ask("/execute", {"command": ["echo", "mine"]}, X_Request_ID=number).json()["stdout"], "mine\n")
    # An exception is also an answer. The positive control: without a number, the command runs again.
    for _ in range(2):
        eq(f.ask("/execute", {"command": "echo x >>/tmp/n; exit 3", "shell": True, "check": True},
                 X_Request_ID="same").status, 511)
    eq(f.good("/execute", {"command": ["cat", "/tmp/n"]})["stdout"], "x\n")
    for _ in range(2):
        f.good("/execute", {"command": "echo y >>/tmp/m", "shell": True})
    eq(f.good("/execute", {"command": ["cat", "/tmp/m"]})["stdout"], "y\ny\n")


@test
def a_repeated_request_waits_for_the_first():
    f, said = face(), []
    ask = lambda: said.append(f.ask("/execute", {"command": "sleep 0.7; echo ran >>/tmp/ran; cat /tmp/ran",
                                                 "shell": True}, X_Request_ID="one").body)
    threads = [threading.Thread(target=ask) for _ in range(3)]
    for t in threads:
        t.start()
        time.sleep(0.1)
    for t in threads:
        t.join()
    eq([json.loads(b)["stdout"] for b in said], ["ran\n"] * 3)


@test
def a_disconnected_client_can_fetch_its_answer():
    f = face()
    body = json.dumps({"command": "sleep 0.5; echo ran >>/tmp/ran; cat /tmp/ran", "shell": True})
    with socket.create_connection(("127.0.0.1", WORLD.port)) as s:
        s.sendall((f"POST /swerex/{f.box}/execute HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {ADMIN}\r\nX-Request-ID: lost\r\n"
                   f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode())
        until(lambda: WORLD.get(f"/v1/sandboxes/{f.box}/execs")["execs"], "it has begun")
    eq(f.good("/execute", json.loads(body), X_Request_ID="lost")["stdout"], "ran\n")


# --------------------------------------------------------------------- sessions


@test
def a_session_continues_after_a_hibernation():
    f = face()
    f.open()
    f.run("X=5; echo kept >/tmp/x")
    for _ in range(2):
        WORLD.ask("POST", f"/v1/sandboxes/{f.box}/hibernate", {"timeout_ms": 0}, status=200)
        eq(f.out("echo $X; cat /tmp/x"), "\nkept\n")  # a new shell, and no error


@test
def a_session_outlives_the_service():
    f = face()
    f.open()
    f.run("X=5; cd /usr")
    f.raised("/run_in_session", {"command": "echo begun; sleep 100", "timeout": 0.3}, "swerex.exceptions.CommandTimeoutError")
    for who in (("api",), ("api", "warden")):
        WORLD.kill(*who)
        if "warden" in who:
            WORLD.start()
        WORLD.ready()
    f.raised("/create_session", {}, "swerex.exceptions.SessionExistsError")
    eq(f.interrupt()["exit_code"], 0)
    eq(f.out("echo $X; pwd"), "5\n/usr\n")


@test
def a_command_that_ignores_interrupts_is_ended():
    f = face()
    f.open()
    for command in ("trap '' INT; sleep 100", "sh -c 'trap \"\" INT; sleep 100; true'", "stty raw; sleep 100",
                    "while :; do :; done", "sleep 100 | cat", "cat"):
        f.raised("/run_in_session", {"command": command, "timeout": 0.3}, "swerex.exceptions.CommandTimeoutError")
        eq(f.interrupt(timeout=0.1)["exit_code"], 0, command)
        eq(f.out("trap - INT; echo alive"), "alive\n", command)


@test
def another_client_can_interrupt_a_command():
    f, said = face(), []
    f.open()
    t = threading.Thread(target=lambda: said.append(f.run("sleep 100", check="silent")))
    t.start()
    until(lambda: WORLD.get(f"/v1/sandboxes/{f.box}/sessions")["sessions"][0]["state"] == "busy", "it runs")
    f.interrupt()
    t.join()
    eq(said[0]["exit_code"], 130)


@test
def a_command_waits_for_the_previous_one():
    f = face()
    f.open()
    f.raised("/run_in_session", {"command": "sleep 1; echo first", "timeout": 0.1}, "swerex.exceptions.CommandTimeoutError")
    eq(f.out("echo second"), "second\n")
    f.raised("/run_in_session", {"command": "sleep 100", "timeout": 0.1}, "swerex.exceptions.CommandTimeoutError")
    f.raised("/run_in_session", {"command": "echo never", "timeout": 0.2}, "swerex.exceptions.CommandTimeoutError")
    f.interrupt()
    eq(f.out("echo third"), "third\n")


@test
def the_end_of_a_swerex_shell_is_reported():
    f = face()
    f.open()
    e = f.raised("/run_in_session", {"command": "echo last words; exit 3"}, "pexpect.exceptions.EOF")
    ok("exit code 3" in e["message"] and "last words" in e["message"], e)
    f.raised("/run_in_session", {"command": "true"}, "pexpect.exceptions.EOF")
    f.good("/close_session", {})
    f.open()
    eq(f.out("echo new"), "new\n")


@test
def commands_may_change_the_settings_of_the_shell():
    f = face()
    f.open()
    for command in ("PS1='$ '; PS2='> '; PROMPT_COMMAND='echo PROMPT'", "exec 2>/dev/null", "set -u", "set -x", "set +x",
                    "IFS=x", "alias eval=false printf=false", "printf() { :; }", "stty echo", "set -v; set +v",
                    "trap 'echo debug >/dev/null' DEBUG", "bind() { :; }; unset HISTFILE"):
        f.run(command, check="silent")
        eq(f.out("echo \\alive"), "alive\n", command)
    eq(f.run("echo ${unset_?}; echo not reached", check="silent")["exit_code"], 1)
    eq(f.out("\\echo alive"), "alive\n")


@test
def control_characters_are_passed_unchanged():
    f = face()
    f.open()
    text = "".join(map(chr, range(1, 32))) + "\x7f'\"\\$`!é☃"
    f.good("/write_file", {"path": "/tmp/text", "content": text.replace("\n", "") + "\n"})
    f.run("cat >/tmp/typed <<'E'\n" + text.replace("\n", "") + "\nE")
    eq(f.run("cmp /tmp/text /tmp/typed", check="silent")["output"], "")
    eq(f.out("echo " + "y" * 1000000 + " | wc -c"), "1000001\n")
    eq(f.out("[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo a terminal"), "a terminal\n")


@test
def expected_patterns_and_texts_are_found():
    f = face()
    f.open()
    eq(f.run("sh -c 'printf \"(gdb) \"; read x; echo got $x'", is_interactive_command=True, expect=["(gdb) "],
             timeout=10)["expect_string"], "(gdb) ")
    eq(f.run("it", is_interactive_quit=True, timeout=10)["output"], "got it\n")
    eq(f.run("echo a[b; sleep 0", expect=["a[b"], check="silent")["expect_string"], "a[b")
    eq(f.run("true", expect=["(((", "*"], check="silent")["expect_string"], "SHELLPS1PREFIX")
    f.raised("/run_in_session", {"command": "echo now; sleep 100", "expect": ["now"]}, "swerex.exceptions.NoExitCodeError")
    f.interrupt()
    r = f.run("echo now; sleep 100", expect=["now"], check="ignore")
    eq((r["exit_code"], r["output"]), (None, ""))
    f.interrupt()
    f.raised("/run_in_session", {"command": "true", "expect": ["x"] * 65}, "builtins.ValueError")


@test
def an_image_without_bash_is_reported():
    f = face(env={"PATH": "/nowhere"})
    e = f.raised("/create_session", {}, "builtins.FileNotFoundError")
    ok("no bash" in e["message"], e)
    f.raised("/create_session", {}, "builtins.FileNotFoundError")
    eq(f.good("/execute", {"command": "echo still", "shell": True})["stdout"], "still\n")


@test
def output_over_the_limit_is_reported_as_lost():
    f = face()
    f.open()
    r = f.run("head -c 70000000 /dev/zero | tr '\\0' x", timeout=120)
    ok(len(r["output"]) >= 1 << 20 and "dropped" in r["failure_reason"], (len(r["output"]), r["failure_reason"]))
    eq(f.out("echo alive"), "alive\n")


@test
def many_sessions_work_at_the_same_time():
    f = face()
    said = {}

    def one(i):
        f.open(session=f"s{i}")
        for k in range(5):
            f.run(f"x{k}={i}", session=f"s{i}")
        said[i] = f.out("echo $x0 $x4", session=f"s{i}")

    threads = [threading.Thread(target=one, args=(i,)) for i in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    eq(said, {i: f"{i} {i}\n" for i in range(12)})
    f.good("/close")
    eq(WORLD.get(f"/v1/sandboxes/{f.box}/sessions")["sessions"], [])


@test
def the_end_of_a_sandbox_during_a_command_is_reported():
    f, said = face(), []
    f.open()
    t = threading.Thread(target=lambda: said.append(f.ask("/run_in_session", {"command": "sleep 100"})))
    t.start()
    until(lambda: WORLD.get(f"/v1/sandboxes/{f.box}/sessions")["sessions"][0]["state"] == "busy", "it runs")
    WORLD.delete(f.box)
    t.join()
    eq(said[0].status, 511)
    eq(said[0].json()["swerexception"]["class_path"], "pexpect.exceptions.EOF")


@test
def requests_to_a_paused_sandbox_are_refused():
    f = face()
    f.open()
    WORLD.post(f"/v1/sandboxes/{f.box}/pause")
    for path, body in (("/run_in_session", {"command": "true"}), ("/execute", {"command": ["true"]}),
                       ("/read_file", {"path": "/etc/passwd"})):
        f.raised(path, body, "builtins.RuntimeError")
    WORLD.post(f"/v1/sandboxes/{f.box}/resume")
    eq(f.out("echo awake"), "awake\n")


# ----------------------------------------------------------------------- archives


def archive(*entries, method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, data in entries:
            z.writestr(name, data)
    return out.getvalue()


@test
def archives_are_unpacked():
    f = face()
    big = bytes(range(256)) * 4000
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        eq(f.upload("/tmp/z", archive(("a", "one"), ("d/", ""), ("d/e/f", big), ("empty", ""), method=method),
                    unzip=True).status, 200)
        eq(WORLD.run(f.box, "cd /tmp/z && find . | LC_ALL=C sort && cat a && wc -c <d/e/f && md5sum <d/e/f && "
                            "rm -r /tmp/z")["stdout"],
           f".\n./a\n./d\n./d/e\n./d/e/f\n./empty\none{len(big)}\n{hashlib.md5(big).hexdigest()}  -\n")
    eq(f.upload("/tmp/none", archive(), unzip=True).status, 200)
    eq(WORLD.run(f.box, "cd /tmp/none && find .")["stdout"], ".\n")
    for word, unzip in ((b"1", True), (b"y", True), (b"t", True), (b"yes", True), (b"", False), (b" ", False), (b" true", False),
                        (b"rue", False), (b"true on", False), (b"t\0", False), (b"t" + b"\0" * 4000, False)):
        eq(f.upload("/tmp/word", archive(("a", "one")), unzip=word).status, 200, word[:9])
        eq(WORLD.run(f.box, "test -d /tmp/word; echo $?; rm -r /tmp/word")["stdout"], f"{int(not unzip)}\n", f"unzip={word[:9]}")


@test
def hostile_archives_are_refused():
    f = face()
    good = archive(("a", "x" * 1000), ("b", "y"))
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr(link, "/etc/passwd")
        z.writestr("link/x", "through")
    stream = io.BytesIO()

    class Pipe(io.RawIOBase):
        def writable(self):
            return True

        def write(self, b):
            return stream.write(b)

    with zipfile.ZipFile(Pipe(), "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("s", "streamed")
    crypt = bytearray(good)
    crypt[6] |= 1
    bad = {"absolute": archive(("/tmp/abs", "x")), "climbing": archive(("../up", "x")), "inner": archive(("a/../../up", "x")),
           "truncated": good[:60], "no zip": b"PK not", "nothing": b"", "a sum": good.replace(struct.pack("<I", zlib.crc32(b"y")), b"\0\0\0\0"),
           "through a link": out.getvalue(), "streamed": stream.getvalue(), "encrypted": bytes(crypt),
           "size": good[:22] + struct.pack("<I", 5) + good[26:]}
    for what, data in bad.items():
        r = f.upload("/tmp/in", data, unzip=True)
        eq(r.status, 511, f"{what}: {r}")
        ok(r.json()["swerexception"]["class_path"] in
           ("builtins.ValueError", "zipfile.BadZipFile", "builtins.NotADirectoryError", "builtins.NotImplementedError",
            "builtins.FileExistsError"), f"{what}: {r}")
    eq(WORLD.run(f.box, "ls /tmp /; cat /tmp/abs /tmp/up /up 2>&1 | grep -c 'No such'")["stdout"].split()[-1], "3")
    eq(f.upload("/tmp/in", good, unzip=True).status, 200)
    bomb = archive(("bomb", b"\0" * (400 << 20)))
    r = Face(WORLD.create(limits={"disk": "64m"})).upload("/tmp/in", bomb, unzip=True)
    eq(r.status, 511, r)
    ok(b"No space" in r.body or b"Disk quota" in r.body, r)


@test
def file_paths_stay_inside_the_sandbox():
    f = face()
    WORLD.run(f.box, "echo inside >/tmp/inside; ln -s /../../tmp/inside /tmp/link")
    for path in ("/tmp/../../../../tmp/inside", "../../../../../../tmp/./inside", "/tmp/link"):
        eq(f.good("/read_file", {"path": path})["content"], "inside\n", path)
    WORLD.run(f.box, "mkfifo /tmp/fifo; ln -s /dev/zero /tmp/zero")
    for path in ("/tmp/fifo", "/tmp/zero", "/dev/zero"):
        f.raised("/read_file", {"path": path}, "builtins.OSError")
    f.raised("/read_file", {"path": "/tmp/a\0b"}, "builtins.ValueError")
    f.raised("/write_file", {"path": "/proc/1/environ", "content": "x"})
    f.raised("/write_file", {"path": "/x" * 3000, "content": "x"})
    eq(f.good("/write_file", {"path": "relative", "content": "x"}), {})
    eq(f.good("/read_file", {"path": "relative"})["content"], "x")


if __name__ == "__main__":
    with WORLD:
        status = run_tests()
    sys.exit(status)
