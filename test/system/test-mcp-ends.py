#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-mcp-ends.py - MCP while the service is stopped, or the client disconnects while a sandbox is created"""
import contextlib
import json
import os
import re
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, free_port, ok, run_tests, test  # pylint: disable=wrong-import-position
from mcp_world import Legacy, META, Modern, events, gone  # pylint: disable=wrong-import-position
from serve_world import World, until  # pylint: disable=wrong-import-position

PORT = free_port()
REGISTRY = f"127.0.0.1:{PORT}"
SHARED = "shared"  # a directory of this machine that sandboxes mount


def world():
    w = World("--trusted-registries", REGISTRY, "--insecure-registries", REGISTRY, start=False)
    directory = os.path.join(w.dir, SHARED)
    os.mkdir(directory)
    os.chmod(directory, 0o777)
    w.options += ["--mounts", f"{directory}:rw"]
    return w.start(), directory


WORLD, DIRECTORY = world()


def shared(name):
    return os.path.join(DIRECTORY, name)


def touch(name):
    with open(shared(name), "w", encoding="ascii"):
        pass


class Call:
    """A call that has been sent, with its unread response. Its command waits for a file on this machine."""

    def __init__(self, m, name, progress=True, **arguments):
        self.client, self.name = m.client(timeout=60), name
        message = m.message("tools/call", {
            "name": "run_command", **({"_meta": {"progressToken": 1}} if progress else {}),
            "arguments": {**arguments, "command": f"echo begun; touch {shared(name)}.begun; "
                                                  f"until [ -e {shared(name)} ]; do sleep 0.02; done; echo done"}})
        self.id, self.response = message["id"], None
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **m.own,
                   **m.headers_for(message)}
        self.client.open().request("POST", "/mcp", json.dumps(message), headers)
        until(lambda: os.path.exists(shared(name) + ".begun"), "the command does not begin")

    def answer(self):
        """The response in any of its forms."""
        with contextlib.closing(self.client), self.client.http.getresponse() as r:
            eq(r.status, 200)
            is_stream = r.getheader("Content-Type") == "text/event-stream"
            last = list(events(r))[-1] if is_stream else json.loads(r.read())
            eq(last["id"], self.id)
            return last


def listen(m, client, uri):
    message = m.message("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}})
    it = events(m.send(client, message, headers=m.headers_for(message)))
    eq(next(it)["params"]["notifications"], {"resourceSubscriptions": [uri]})
    return it, message["id"]


@test
def a_stopping_service_ends_streams_and_answers_calls():
    own = {"Warren-Project": DIRECTORY}
    plain, held = Legacy(WORLD, headers=own), Legacy(WORLD, headers={**own, "Warren-Session": "held"})
    box = WORLD.create(mounts=[{"source": DIRECTORY, "target": DIRECTORY}])
    modern = Modern(WORLD)
    with contextlib.ExitStack() as stack:
        streams = []
        for m in (plain, held):
            # The owner of a session keeps its stream open.
            stream = m.send(stack.enter_context(m.client(timeout=60)), None, "GET")
            eq(stream.status, 200)
            streams.append(stream)
        sandboxes = [m.good("run_command", command="true")["sandbox"] for m in (plain, held)]
        eq(plain.result("resources/subscribe", {"uri": f"warren://{sandboxes[0]}/tmp/f"}), {})
        heard, ident = listen(modern, stack.enter_context(modern.client(timeout=60)), f"warren://{box}/tmp/f")
        calls = [Call(m, f"{n}-{progress}", progress, **more) for n, (m, more) in enumerate(
            ((plain, {}), (held, {}), (modern, {"sandbox": box}))) for progress in (True, False)]
        slow = [Call(plain, "never-1"), Call(held, "never-2", False), Call(modern, "never-3", False, sandbox=box)]
        WORLD.process.terminate()
        # Endless streams end at once, as the protocol requires.
        for stream in streams:
            eq(stream.read(), b"")
        last = list(heard)
        eq([x.get("id") for x in last], [ident])
        eq(last[0]["result"]["resultType"], "complete")
        eq(last[0]["result"]["_meta"][META + "subscriptionId"], ident)
        for call in calls:
            touch(call.name)
        for call in calls:
            answer = call.answer()
            ok("result" in answer, f"{call.name}: {answer}")
            eq(answer["result"]["structuredContent"]["stdout"], "begun\ndone\n")
        for call in slow:
            answer = call.answer()
            eq(answer.get("error", {}).get("code"), -32603, f"{call.name}: {answer}")
            ok("stopping" in answer["error"]["message"], answer)
        eq(WORLD.process.wait(60), 0, "status of the service")
    WORLD.local.__dict__.clear()
    WORLD.start()
    for m, sandbox in zip((plain, held), sandboxes):
        eq(m.raw(m.message("tools/list")).status, 404, "a session outlives the service")
        gone(WORLD, sandbox)
    eq(WORLD.state_of(box), "running", "the sandbox of no session")
    WORLD.delete(box)


def created_so_far():
    text = WORLD.ask("GET", "/metrics", status=200).body.decode()
    return int(re.search(r"^warren_sandboxes_created_total (\d+)$", text, re.M)[1])


@contextlib.contextmanager
def being_created(m):
    """A call of sandbox_create whose image comes from a registry that does not answer; yields its client and the
    sandbox."""
    before = {b["id"] for b in WORLD.sandboxes()}
    with socket.create_server(("127.0.0.1", PORT)) as silent, m.client() as c:
        message = m.message("tools/call", {"name": "sandbox_create", "arguments": {"image": f"{REGISTRY}/a/b:1"}})
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **m.own,
                   **m.headers_for(message)}
        c.open().request("POST", "/mcp", json.dumps(message), headers)
        new = until(lambda: [b for b in WORLD.sandboxes() if b["id"] not in before], "nothing is created")
        eq([b["state"] for b in new], ["creating"], "positive control: it is being created")
        silent.settimeout(60)
        with silent.accept()[0]:
            yield c, new[0]["id"]


@test
def a_modern_client_that_leaves_during_a_create_leaves_nothing_behind():
    with being_created(Modern(WORLD)) as (c, box):
        c.http.sock.shutdown(socket.SHUT_RDWR)
        gone(WORLD, box)


@test
def a_session_that_ends_during_a_create_leaves_nothing_behind():
    m = Legacy(WORLD)
    with being_created(m) as (c, box):
        eq(m.close(), 204)
        eq(json.loads(c.http.getresponse().read())["error"]["code"], -32800)
        gone(WORLD, box)


@test
def a_client_that_does_not_wait_for_its_answer_leaves_nothing_behind():
    """The client disconnects at a random moment: before, during or after the creation."""
    before = sorted(b["id"] for b in WORLD.sandboxes())
    m = Modern(WORLD)
    message = m.message("tools/call", {"name": "sandbox_create", "arguments": {}})
    body = json.dumps(message).encode()
    head = "".join(f"{k}: {v}\r\n" for k, v in {**m.headers_for(message), "Host": "x", "Accept": "*/*",
                                                "Content-Type": "application/json", "Content-Length": len(body)}.items())
    request = f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body
    created = created_so_far()
    for _ in range(20):
        s = socket.socket(socket.AF_UNIX)
        s.connect(WORLD.socket)
        s.sendall(request)
        s.close()
    until(lambda: created_so_far() > created, "positive control: none was created")
    until(lambda: sorted(b["id"] for b in WORLD.sandboxes()) == before, lambda: f"left: {WORLD.sandboxes()}")
    box = m.good("sandbox_create")["sandbox"]
    eq(WORLD.state_of(box), "running", "positive control: a client that takes the answer has a sandbox")
    WORLD.delete(box)


if __name__ == "__main__":
    with WORLD:
        status = run_tests()
    sys.exit(status)
