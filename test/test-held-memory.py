#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-held-memory.py - what the service holds for a tenant while it waits: for its turn, for a client to read

What waits is counted against its tenant, has a bound, and begins only while its token is good; and whatever one
tenant leaves unread or unsent, another one is served as if it were alone.

Speaks TAP. Bounds are of orders of magnitude.
"""
import contextlib
import json
import socket
import sys
import threading
import time

from checks import MIB, Skip, eq, ok, run_tests, test
from serve_world import World, rss, until
from swerex_world import Face

w = None  # pylint: disable=invalid-name


def tenant(name):
    """A token of its own, a sandbox, and a session of SWE-ReX in it."""
    token = w.token("read", "write", "exec", "files", tenant=name)
    box = w.create(token=token)
    face = Face(w, box, token)
    face.open()
    return token, box, face


def sent(token, path, body, data=None):
    """A request whose answer nobody reads; @data: what is sent of the body."""
    s = socket.create_connection(("127.0.0.1", w.port))
    data = json.dumps(body).encode() if data is None else data
    s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {token}\r\nAuthorization: Bearer {token}\r\n"
              f"Content-Type: application/json\r\nContent-Length: {len(json.dumps(body))}\r\n\r\n".encode() + data)
    return s


def bash(command, **kw):
    return {"command": command, "action_type": "bash", **kw}


def is_there(box, path):
    return "yes" in w.run(box, f"[ -e {path} ] && echo yes; true")["stdout"]


# ------------------------------------------------------------------- tokens


@test
def a_command_that_waits_does_not_begin_when_its_token_is_gone():
    token, box, face = tenant("waits")
    doomed = w.post("/v1/tokens", {"name": "doomed", "scopes": ["exec"], "tenant": "waits"}, status=201)
    short = w.post("/v1/tokens", {"name": "short", "scopes": ["exec"], "tenant": "waits", "expires_in_ms": 3000}, status=201)
    path, held = f"/swerex/{box}/run_in_session", []
    held.append(sent(token, path, bash("until [ -e /tmp/go ]; do sleep 0.1; done")))
    time.sleep(0.5)
    for secret, name in ((doomed["secret"], "revoked"), (short["secret"], "expired"), (token, "control")):
        held.append(sent(secret, path, bash(f"touch /tmp/{name}")))
        time.sleep(0.3)
    w.ask("DELETE", f"/v1/tokens/{doomed['id']}", status=204)
    time.sleep(3)
    w.run(box, "touch /tmp/go")
    until(lambda: is_there(box, "/tmp/control"), "the command of a good token did not begin")
    eq(face.out("echo $((6 * 7))").strip(), "42", "the session after that")
    for name in ("revoked", "expired"):
        ok(not is_there(box, f"/tmp/{name}"), f"a command began although its token was {name}")
    for s in held:
        s.close()
    w.delete(box)


def main():
    global w  # pylint: disable=global-statement
    try:
        with World(tcp=True) as w:
            return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
