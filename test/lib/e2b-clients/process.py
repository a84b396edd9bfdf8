# SPDX-License-Identifier: Apache-2.0
"""process.py - commands of the Python SDK of E2B: late clients, lost clients, restarts of the service"""
import asyncio
import base64
import datetime
import json
import os
import socket
import struct
import sys
import threading
import time
import urllib.parse

import e2b
from e2b import AsyncSandbox, Sandbox
from expect import done, eq, raises, step, until


def quietly(f):
    try:
        f()
    except Exception:  # pylint: disable=broad-exception-caught
        pass


def pids(s):
    return [p.pid for p in s.commands.list()]


def token(s):
    return s._envd_access_token  # pylint: disable=protected-access


def open_stream(s, method, request, key=None):
    """Returns a connection with an RPC whose response is a stream."""
    url = urllib.parse.urlparse(os.environ["E2B_SANDBOX_URL"])
    body = json.dumps(request).encode()
    body = struct.pack(">BI", 0, len(body)) + body
    c = socket.create_connection((url.hostname, url.port), timeout=30)
    c.sendall((f"POST /process.Process/{method} HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: {s.sandbox_id}\r\n"
               "E2b-Sandbox-Port: 49983\r\nContent-Type: application/connect+json\r\nConnect-Protocol-Version: 1\r\n"
               f"X-Access-Token: {key or token(s)}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body)
    return c


# ------------------------------------------------------------------------- areas


def restarts(s):
    """A command continues when the service restarts, and the SDK connects to it again."""
    for how in ("kill", "restart"):
        counter = s.commands.run("i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done", background=True)
        reader = s.commands.run("read line; echo got $line; exit 7", background=True, stdin=True)
        pty = s.pty.create(size=e2b.PtySize(24, 80))
        broken = []

        def wait(handle=counter):
            try:
                handle.wait()
            except Exception as e:  # pylint: disable=broad-exception-caught
                broken.append(e)  # pylint: disable=cell-var-from-loop
        t = threading.Thread(target=wait)
        t.start()
        eq(sorted(pids(s)), sorted([counter.pid, reader.pid, pty.pid]))
        step(how)
        t.join()
        eq(len(broken), 1, "the stream ends with an error")
        assert not isinstance(broken[0], e2b.CommandExitException), broken
        eq(sorted(pids(s)), sorted([counter.pid, reader.pid, pty.pid]), f"commands after {how}")
        listed = next(p for p in s.commands.list() if p.pid == reader.pid)
        eq((listed.cmd, listed.args[-1]), ("/bin/bash", "read line; echo got $line; exit 7"))
        # The output continues, and the exit status arrives.
        again, seen = s.commands.connect(counter.pid), []

        def read():
            for out, _, _ in again:  # pylint: disable=cell-var-from-loop
                seen.append(out or "")  # pylint: disable=cell-var-from-loop
                if len(seen) > 3:
                    return
        read()
        numbers = [int(n) for n in "".join(seen).split()]
        eq(numbers, list(range(numbers[0], numbers[0] + len(numbers))), "the output")
        eq(s.commands.kill(counter.pid), True)
        again = s.commands.connect(reader.pid)
        s.commands.send_stdin(reader.pid, "hello\n")
        e = raises(e2b.CommandExitException, again.wait)
        eq((e.exit_code, e.stdout), (7, "got hello\n"))
        data, again = [], s.pty.connect(pty.pid)
        s.pty.resize(pty.pid, e2b.PtySize(30, 100))
        s.pty.send_stdin(pty.pid, b"stty size; exit 4\n")
        e = raises(e2b.CommandExitException, lambda: again.wait(on_pty=data.append))  # pylint: disable=cell-var-from-loop
        eq((e.exit_code, b"30 100" in b"".join(data)), (4, True))
        until(lambda: pids(s) == [], "the end of all commands")
        eq(s.commands.kill(counter.pid), False)
        raises(e2b.NotFoundException, lambda: s.commands.connect(999999))


def late(s):
    """Clients that come late get the result; many results are kept, but not all."""
    h = s.commands.run("exit 3", background=True)
    until(lambda: pids(s) == [], "the end")
    for _ in range(2):
        e = raises(e2b.CommandExitException, s.commands.connect(h.pid).wait)
        eq(e.exit_code, 3)
    # Several clients of one command.
    h = s.commands.run("read x; echo $x", background=True, stdin=True)
    others = [s.commands.connect(h.pid) for _ in range(5)]
    s.commands.send_stdin(h.pid, "to all\n")
    eq([o.wait().stdout for o in [h, *others]], ["to all\n"] * 6)
    # A long request is not kept, but the command works, and is in the list.
    h = s.commands.run("sleep 1000", background=True, envs={"LONG": "x" * 100_000, "SHORT": "y"})
    listed = next(p for p in s.commands.list() if p.pid == h.pid)
    eq((listed.pid, listed.cmd, listed.args[-1]), (h.pid, "/bin/bash", "sleep 1000"))
    h.kill()
    h = s.commands.run("sleep 1000", background=True, envs={"SHORT": "y"}, cwd="/tmp")
    listed = next(p for p in s.commands.list() if p.pid == h.pid)
    eq((listed.envs, listed.cwd), ({"SHORT": "y"}, "/tmp"))
    h.kill()
    # 300 commands: the newest 256 results are kept.
    made = [s.commands.run("exit 5", background=True).pid for _ in range(300)]
    until(lambda: pids(s) == [], "the end of all")
    s.commands.run("true")
    eq(raises(e2b.CommandExitException, s.commands.connect(made[-1]).wait).exit_code, 5)
    raises(e2b.NotFoundException, lambda: s.commands.connect(made[0]))


def vanished(s):
    """Clients leave in the middle: their commands go on, and the service holds nothing for them."""
    before = int(step("descriptors"))
    run = {"process": {"cmd": "/bin/sh", "args": ["-c", "echo begun; exec sleep 1000"]}, "stdin": False}
    flood = {"process": {"cmd": "/bin/sh", "args": ["-c", "exec yes"]}, "stdin": False}
    made = [open_stream(s, "Start", run) for _ in range(20)] + [open_stream(s, "Start", flood) for _ in range(5)]
    for c in made:
        assert c.recv(4096).startswith(b"HTTP/1.1 200"), "no answer"
    until(lambda: len(pids(s)) == 25, "the commands")
    for i, c in enumerate(made):
        if i % 2:  # with a reset
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.close()
    # Clients that leave before the answer.
    for _ in range(20):
        open_stream(s, "Start", run).close()
    # They go on without their clients.
    time.sleep(0.2)
    left = pids(s)
    assert len(left) >= 25, left
    for pid in left:
        eq(s.commands.kill(pid), True, pid)
    until(lambda: all(not s.commands.kill(pid) for pid in pids(s)) and pids(s) == [], "the end of all")
    until(lambda: int(step("descriptors")) <= before + 5, "descriptors that are closed")
    # A client that does not read slows its command down, and no one else.
    c = open_stream(s, "Start", flood)
    c.recv(10)
    eq(s.commands.run("echo fine").stdout, "fine\n")
    memory = int(step("memory"))
    time.sleep(1)
    assert int(step("memory")) < memory + 20_000, "the service stores what the client does not read"
    c.close()
    for pid in pids(s):
        s.commands.kill(pid)


def killed(_):
    """The sandbox ends while streams are open: every client gets an error that says so."""
    for how in ("kill", "timeout"):
        s = Sandbox.create(timeout=300)
        handles = [s.commands.run(text, background=True, stdin=True)
                   for text in ("sleep 1000", "yes", "read x", "while :; do echo x >&2; sleep 0.01; done")]
        failed = []

        def wait(handle):
            try:
                failed.append(handle.wait())  # pylint: disable=cell-var-from-loop
            except Exception as e:  # pylint: disable=broad-exception-caught
                failed.append(e)  # pylint: disable=cell-var-from-loop
        threads = [threading.Thread(target=wait, args=(h,)) for h in handles]
        for t in threads:
            t.start()
        time.sleep(0.3)
        if how == "kill":
            eq(s.kill(), True)
        else:
            s.set_timeout(1)
        for t in threads:
            t.join()
        eq([isinstance(e, e2b.SandboxException) and not isinstance(e, e2b.CommandExitException) for e in failed],
           [True] * 4, f"errors after {how}: {failed}")
        eq(s.is_running(), False)
        quietly(s.kill)


def tenants(s):
    """The ids and tokens of another tenant are of no use."""
    h = s.commands.run("sleep 1000", background=True)
    other = Sandbox.create(api_key=step("key"))
    try:
        eq(pids(other), [])
        eq(other.commands.kill(h.pid), False)
        raises(e2b.NotFoundException, lambda: other.commands.connect(h.pid))
        for method in ("Start", "Connect", "StreamInput"):
            with open_stream(s, method, {"process": {"pid": h.pid}}, token(other)) as c:
                head = c.recv(4096)
            assert b"unauthenticated" in head or b" 401 " in head, (method, head)
        with open_stream(s, "Connect", {"process": {"pid": h.pid}}) as c:
            assert b'"start"' in c.recv(4096), "with the right token"
    finally:
        other.kill()
    h.kill()


def tags(s):
    """Commands have tags on the wire, although the SDK sets none."""
    with open_stream(s, "Start", {"process": {"cmd": "/bin/sleep", "args": ["1000"]}, "tag": "mine"}) as c:
        c.recv(4096)
        with open_stream(s, "Connect", {"process": {"tag": "mine"}}) as d:
            assert b'"start"' in d.recv(4096), "by its tag"
        with open_stream(s, "Connect", {"process": {"tag": "other"}}) as d:
            assert b"not_found" in d.recv(4096), "an unknown tag"
    h = s.commands.run("cat", background=True, stdin=True)
    with open_stream(s, "Connect", {"process": {"pid": h.pid}}) as c:
        c.recv(4096)
        s.commands.send_stdin(h.pid, "data\n")
        assert base64.b64encode(b"data\n") in c.recv(4096), "the output"
    for pid in pids(s):
        s.commands.kill(pid)


def resumes(_):
    """Traffic resumes a paused sandbox, if its creator asked for that, and only one with its memory."""
    s = Sandbox.create(timeout=300, lifecycle={"on_timeout": "pause", "auto_resume": True})
    try:
        h = s.commands.run("sleep 1000", background=True)
        for _ in range(2):
            s.set_timeout(1)
            until(lambda: s.get_info().state.value == "paused", "the pause")
            answers = []
            threads = [threading.Thread(target=lambda: answers.append(pids(s))) for _ in range(5)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            eq(answers, [[h.pid]] * 5, "requests that resume it")
            info = s.get_info()
            left = (info.end_at - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
            assert 200 < left <= 300, f"{left} s are left"
        s.pause()
        eq(pids(s), [h.pid], "after a pause that was asked for")
        s.pause(keep_memory=False)
        raises(Exception, lambda: pids(s))
        eq((s.is_running(), s.get_info().state.value), (False, "paused"), "without its memory")
        s.connect()
        eq(pids(s), [])
    finally:
        s.kill()
    s = Sandbox.create(timeout=300, lifecycle={"on_timeout": "pause"})
    try:
        s.pause()
        raises(Exception, lambda: pids(s))
        eq(s.get_info().state.value, "paused", "without auto_resume")
    finally:
        s.kill()


async def with_async(_):
    """Many commands and clients at once, some of which are cancelled."""
    s = await AsyncSandbox.create()
    try:
        handles = await asyncio.gather(*[s.commands.run(f"sleep 1000 # {n}", background=True) for n in range(20)])
        eq(len(await s.commands.list()), 20)
        for h in handles[:10]:
            await h.disconnect()
        eq(len(await s.commands.list()), 20, "after clients left")
        again = await asyncio.gather(*[s.commands.connect(h.pid) for h in handles[:10]])
        eq(await asyncio.gather(*[s.commands.kill(h.pid) for h in handles]), [True] * 20)
        ends = await asyncio.gather(*[h.wait() for h in [*again, *handles[10:]]], return_exceptions=True)
        eq([type(e) for e in ends], [e2b.CommandExitException] * 20)
        try:
            await s.commands.run("sleep 1000", timeout=1)
            raise AssertionError("no timeout")
        except e2b.TimeoutException:
            pass
        for _ in range(100):
            if not await s.commands.list():
                break
            await asyncio.sleep(0.1)
        eq(await s.commands.list(), [], "the time limit kills the command")
    finally:
        await s.kill()


def main():
    area = globals()[sys.argv[1]]
    if area is with_async:
        asyncio.run(area(None))
    elif area in (killed, resumes):
        area(None)
    else:
        s = Sandbox.create()
        try:
            area(s)
        finally:
            s.kill()
    done()


if __name__ == "__main__":
    main()
