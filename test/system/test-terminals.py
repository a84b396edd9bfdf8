#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-terminals.py - terminals and output over WebSocket, which can be shared, reconnected and held, and never block
others"""
import json
import sys
import time
import os

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_socket import BINARY, CLOSE, Refused, Socket, TEXT  # pylint: disable=wrong-import-position
from serve_world import World, check_error, has  # pylint: disable=wrong-import-position

world = box = None


def path(exec_id=None, what="terminals", of=None):
    return f"/v1/sandboxes/{of or box}/{what}" + (f"/{exec_id}" if exec_id else "")


def terminal(exec_id=None, of=None, where=None, **query):
    """A WebSocket that has received its first event."""
    query = {"shell": "sh", **query} if not exec_id and "shell" not in query else query
    s = Socket(where or world.socket, path(exec_id, of=of), query={k: v for k, v in query.items() if v is not None})
    s.first = s.event()
    eq(s.first["type"], "attached", f"type of {s.first}")
    s.exec = s.first["exec_id"]
    return s


def refused(status, code, *args, **kw):
    try:
        s = Socket(*args, **kw)
        raise AssertionError(f"accepted: {s.read()}")
    except Refused as e:
        eq((e.status, json.loads(e.body)["code"]), (status, code), f"refusal ({e})")


@test
def a_websocket_terminal_is_a_terminal():
    with terminal(rows=33, cols=99) as s:
        eq((s.first["rows"], s.first["cols"], s.first["cursor"]), (33, 99, 0), "the first event")
        s.send(BINARY, b"tty; [ -t 0 ] && echo ye''s; stty size; echo $TERM; echo end''ed\n")
        seen, _ = s.until(b"ended\r\n")
        # A separate kernel may not have a name for a terminal of the host.
        for word in (b"/dev/pts/" if has("tty_name") else b"not a tty\r\n", b"yes\r\n", b"33 99\r\n", b"xterm-256color\r\n"):
            ok(word in seen, f"no {word!r} in {seen!r}")
        execs = world.get(path(what="execs"), query={"pty": "true"})["execs"]
        ok(s.exec in [e["id"] for e in execs], "it is not in the list of execs")
        s.send(BINARY, b"exit 7\n")
        while (m := s.read())[0] == BINARY:
            pass
        e = json.loads(m[1])
        eq((e["type"], e["exec_id"], e["result"]["exit_code"]), ("exit", s.exec, 7), "the last event")
        eq(s.close_code(), 1000, "its goodbye")


@test
def the_shell_of_a_terminal_can_be_chosen():
    with terminal(shell=None) as s:
        s.send(BINARY, b"echo shell=$0 $BASH_VERSION; echo end''ed\n")
        ok(b"shell=bash" in s.until(b"ended\r\n")[0], "no bash")
    with terminal(shell="/bin/sh", cwd="/tmp", user="65534") as s:
        s.send(BINARY, b"echo $0 $PWD $(id -u); echo end''ed\n")
        ok(b"/bin/sh /tmp 65534\r\n" in s.until(b"ended\r\n")[0], "shell, cwd or user")
    refused(422, "command_not_found", world.socket, path(), query={"shell": "/no/such"})
    refused(400, "invalid_request", world.socket, path(), query={"rows": 0})
    refused(404, "sandbox_not_found", world.socket, path(of="0" * 12))
    refused(404, "exec_not_found", world.socket, path("0" * 12))
    check_error(world.ask("GET", path()), 426, "upgrade_required")


@test
def several_clients_share_a_terminal():
    with terminal() as a, terminal(a.exec) as b, terminal(a.exec, read_only="true") as c:
        eq((a.exec, a.exec), (b.exec, c.exec), "which exec")
        a.send(BINARY, b"echo from-a''; stty size\n")
        for s in (a, b, c):
            s.until(b"24 80\r\n")
        b.send(BINARY, b"echo from-b''\n")
        for s in (a, b, c):
            s.until(b"from-b\r\n")
        b.say(type="resize", rows=11, cols=22)
        for s in (a, b, c):
            while (m := s.read())[0] == BINARY:
                pass
            e = json.loads(m[1])
            eq((e["type"], e["rows"], e["cols"]), ("resized", 11, 22), "what all are told")
        a.send(BINARY, b"stty size\n")
        for s in (a, b, c):
            s.until(b"11 22\r\n")
        c.send(BINARY, b"echo not me\n")
        eq(c.close_code(), 1008, "input from who may only watch")
        a.send(BINARY, b"echo still''\n")
        b.until(b"still\r\n")


@test
def a_terminal_continues_when_its_client_reconnects():
    s = terminal()
    s.send(BINARY, b"x=kept; echo before''\n")
    before, _ = s.until(b"before\r\n")
    s.send(BINARY, b"sleep 0.3; echo meanwhile''\n")
    s.until(b"meanwhile''\r\n")  # wait for its echo: input that is unread at a reset may be lost
    s.sock.close()
    time.sleep(0.6)
    with terminal(s.exec) as again:
        eq(again.first["cursor"], 0, "where the scrollback begins")
        seen, _ = again.until(b"meanwhile\r\n")
        ok(seen.startswith(before), f"scrollback {seen!r} does not begin with {before!r}")
        again.send(BINARY, b"echo $x\n")
        again.until(b"kept\r\n")
    at = len(before)
    with terminal(s.exec, **{"from": at}) as again:
        eq(again.first["cursor"], at, "where it goes on")
        rest, _ = again.until(b"kept\r\n")
        ok(seen[at:].startswith(rest[:len(seen) - at]), f"{rest!r} is not what came after {before!r}")


@test
def a_terminal_outlives_the_service():
    s = terminal()
    s.send(BINARY, b"y=alive; echo ready''\n")
    s.until(b"ready\r\n")
    world.kill("api", "warden")
    s.sock.close()
    world.start()
    with terminal(s.exec) as again:
        again.until(b"ready\r\n")
        again.send(BINARY, b"echo $y; stty size\n")
        again.until(b"24 80\r\n")
        again.say(type="resize", rows=5, cols=6)
        again.send(BINARY, b"stty size\n")
        again.until(b"5 6\r\n")


@test
def an_ended_terminal_can_be_reopened():
    with terminal() as s:
        s.send(BINARY, b"echo last''; exit 3\n")
        s.until(b"last\r\n")
        s.close_code()
    with terminal(s.exec) as again:
        _, _ = again.until(b"last\r\n")
        while (m := again.read())[0] == BINARY:
            pass
        eq(json.loads(m[1])["result"]["exit_code"], 3, "result")
        eq(again.close_code(), 1000, "its goodbye")
    plain = world.exec(box, "sleep 60")
    refused(400, "invalid_request", world.socket, path(plain))


@test
def processes_left_by_a_shell_do_not_keep_it_open():
    with terminal() as s:
        s.send(BINARY, b"trap '' HUP; (trap '' HUP; sleep 20) & echo on''; exit 4\n")
        s.until(b"on\r\n")
        while (m := s.read())[0] == BINARY:
            pass
        eq(json.loads(m[1])["result"]["exit_code"], 4, "result")


@test
def invalid_messages_are_refused():
    for message in (b"{}", b"[1]", b"resize", b'{"type":"resize","rows":0,"cols":5}', b'{"type":"resize","rows":5}',
                    b'{"type":"resize","rows":"5","cols":5}', b'{"type":"resize","rows":65536,"cols":5}',
                    b'{"type":"exec","rows":5,"cols":5}', b'{"type":"resize","rows":5,"cols":5,"x":1}',
                    b"[" * 100000):
        with terminal() as s:
            s.send(TEXT, message)
            eq(s.close_code(), 1008, f"after {message[:50]!r}")
    with terminal() as s:
        s.send(BINARY, b"x" * 300000)
        ok(s.close_code() in (1009,), "after a message that is too long")
    eq(world.run(box, "echo ok")["stdout"], "ok\n", "the sandbox after that")


@test
def a_flood_of_output_waits_and_gaps_are_reported():
    with terminal() as s:
        s.send(BINARY, b"stty -opost; yes abcdefg | head -c 30000000; echo end''ed\n")
        time.sleep(2)
        ok(memory() < 60 << 10, f"the api has {memory()} kB")
        seen = lost = 0
        last = b""
        while b"ended\n" not in last:
            opcode, data = s.read()
            if opcode == TEXT:
                lost += json.loads(data)["lost"]
            else:
                seen += len(data)
                last = (last + data)[-100:]
        ok(lost > 0 and seen + lost >= 30000000, f"{seen} seen, {lost} lost")


def memory():
    with open(f"/proc/{world.api}/status") as f:
        return [int(l.split()[1]) for l in f if l.startswith("VmRSS")][0]


@test
def unread_input_is_held_back():
    with terminal() as s, terminal() as other:
        s.send(BINARY, b"stty raw -echo; echo now''; sleep 100\n")
        s.until(b"now\n")
        s.sock.settimeout(1)
        sent = 0
        try:
            while sent < 64 << 20:
                s.send(BINARY, b"z" * 65536)
                sent += 65536
            raise AssertionError("64 MiB went into a terminal that nobody reads")
        except TimeoutError:
            pass
        other.send(BINARY, b"echo here''\n")
        other.until(b"here\r\n")
        ok(memory() < 60 << 10, f"the api has {memory()} kB")
        # The exec is killed while input is pending: no request is left waiting.
        world.post(path(s.exec, "execs") + "/signal", {"signal": "KILL"}, status=204)
        world.result(box, s.exec)


@test
def writing_unread_stdin_fails_when_the_exec_ends():
    e = world.exec(box, "sleep 1", stdin=True)
    r = world.ask("POST", path(e, "execs") + "/stdin", b"x" * (4 << 20))
    check_error(r, 409, "stdin_closed")


@test
def tokens_are_required():
    tcp = ("127.0.0.1", world.port)
    host = f"127.0.0.1:{world.port}"
    with terminal() as s:
        for p in (path(), path(s.exec)):
            refused(401, "unauthorized", tcp, p, host=host)
            refused(403, "forbidden", tcp, p, host=host, token=world.token("read"))
            refused(404, "sandbox_not_found", tcp, p, host=host, token=world.token("exec", tenant="other"))
            refused(403, "forbidden", tcp, p, host=host, token=world.token("exec"), headers=["Origin: http://x.test"])
        with Socket(tcp, path(s.exec), host=host, token=world.token("exec")) as mine:
            eq(mine.event()["exec_id"], s.exec)


@test
def deleting_the_sandbox_ends_its_terminals():
    mine = world.create(image="host")
    with terminal(of=mine) as s:
        s.send(BINARY, b"echo here''\n")
        s.until(b"here\r\n")
        world.delete(mine)
        ok(s.close_code() in (1000, 1001), "its goodbye")


# ---------------------------------------------------------------------- output


def output(exec_id, **query):
    return Socket(world.socket, path(exec_id, "execs") + "/output", query=query)


@test
def output_is_sent_as_messages():
    e = world.exec(box, "echo one; sleep 0.2; echo two >&2; exit 5")
    with output(e) as s:
        events = []
        while not events or events[-1]["type"] != "exit":
            events.append(s.event())
        eq(s.close_code(), 1000, "its goodbye")
    eq([(x.get("stream"), x.get("data")) for x in events[:-1]], [("stdout", "one\n"), ("stderr", "two\n")], "output")
    eq((events[-1]["cursor"], events[-1]["result"]["exit_code"]), (8, 5), "the end")
    with output(e, **{"from": 4}) as s:
        eq(s.event()["data"], "two\n", "from a cursor")
    with output(e, format="raw", stream="stdout") as s:
        eq(s.read(), (BINARY, b"one\n"), "as bytes")
        eq(s.read()[0], CLOSE, "the end of it")
    refused(404, "exec_not_found", world.socket, path("0" * 12, "execs") + "/output")


@test
def a_holding_websocket_reader_receives_all_output():
    # Four times the size of the journal, read slowly: without holding, there would be gaps.
    n = 4 << 20
    command = f"sleep 0.5; yes abcdefg | head -c {n}"
    for socket in (False, True):
        e = world.exec(box, command, output_limit=1 << 20)
        got, slow = 0, 20
        if socket:
            with output(e, hold="true") as s:
                time.sleep(1)
                eq(world.get(path(e, "execs"))["state"], "running", "a command that is held")
                while (m := s.read())[0] == TEXT:
                    event = json.loads(m[1])
                    ok(event["type"] != "gap", f"{event} though it was held")
                    got += len(event.get("data", ""))
        else:
            for event in world.output(box, e, hold="true"):
                ok(event["type"] != "gap", f"{event} though it was held")
                got += len(event.get("data", ""))
                slow -= 1
                if slow > 0:
                    time.sleep(0.02)
        eq(got, n, "bytes")
    # The control: without holding, some output is missing.
    e = world.exec(box, command, output_limit=1 << 20)
    world.result(box, e)
    eq([x["type"] for x in world.output(box, e)][0], "gap", "without holding")


@test
def a_holding_reader_that_disconnects_releases_the_command():
    e = world.exec(box, "sleep 0.5; yes abcdefg | head -c 8000000", output_limit=1 << 20)
    with output(e, hold="true") as s, output(e, hold="true") as second:
        s.event()
        second.event()
        time.sleep(1)
        eq(world.get(path(e, "execs"))["state"], "running", "a command that is held")
    eq(world.result(box, e)["exit_code"], 0, "after they went")


def main():
    global world, box  # pylint: disable=global-statement
    try:
        world = World(tcp=True)
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0
    with world:
        box = world.create(image="host")
        return run_tests()


if __name__ == "__main__":
    sys.exit(main())
