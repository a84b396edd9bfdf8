#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-serve-http2.py - the service over HTTP/2: many commands, files, ports and streams on one connection

Prints TAP.
"""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, eq, noise, ok, test  # pylint: disable=wrong-import-position
from client_world import main, w  # pylint: disable=wrong-import-position
from h2_raw import CANCEL, NO_ERROR, Raw, get as h2_get  # pylint: disable=wrong-import-position
from serve_world import WAIT  # pylint: disable=wrong-import-position

LARGE = 50 * 1000 * 1000
COMMANDS = 60


def connect():
    return Raw(w(), w().cert)


def get(path, method="GET"):
    return h2_get(path, method, host="127.0.0.1")


def bearer(token):
    return ("authorization", f"Bearer {token}")


def post(c, path, token, **body):
    return c.request(get(path, "POST") + [bearer(token), ("content-type", "application/json")],
                     json.dumps(body).encode())


def curl(token, *args):
    program = shutil.which("curl")
    if not program:
        raise Skip("curl is not installed")
    r = subprocess.run([program, "-sS", "--fail", "--http2", "--cacert", w().cert, "-H", f"Authorization: Bearer {token}",
                        "-w", "%{http_version}", *args], timeout=WAIT * 4, check=False, capture_output=True)
    eq(r.returncode, 0, f"status of curl, which said {r.stderr[-500:]!r},")
    ok(r.stdout.endswith(b"2"), "it did not use HTTP/2")
    return r.stdout[:-1]


@test
def many_commands_share_a_connection():
    token = w().token("admin")
    with w().box() as box, connect() as c:
        eq(c.answer(c.request(get(f"/v1/sandboxes/{box}")))[0], 401, "without a token")
        streams = [post(c, f"/v1/sandboxes/{box}/run", token, command=f"echo {i}; exit {i % 7}") for i in range(COMMANDS)]
        for i, s in enumerate(streams):
            status, body = c.answer(s)
            eq(status, 200, f"status of {body!r}")
            run = json.loads(body)
            eq((run["stdout"], run["result"]["exit_code"]), (f"{i}\n", i % 7))


@test
def files_are_uploaded_and_downloaded():
    token, data, url = w().token("admin"), noise(LARGE), f"https://127.0.0.1:{w().tls}/v1/sandboxes"
    path = f"{w().dir}/up"
    with open(path, "wb") as f:
        f.write(data)
    with w().box(limits={"memory": "1g", "disk": "512m"}) as box:
        curl(token, "-T", path, f"{url}/{box}/files?path=/known")
        with open(path, "rb") as f:
            subprocess.run([shutil.which("curl"), "-sS", "--fail", "--http2", "--cacert", w().cert, "-H",
                            f"Authorization: Bearer {token}", "-T", "-", f"{url}/{box}/files?path=/unknown"], stdin=f,
                           check=True, capture_output=True, timeout=WAIT * 4)
        for name in ("known", "unknown"):
            curl(token, "-o", f"{path}.down", f"{url}/{box}/files?path=/{name}")
            with open(f"{path}.down", "rb") as f:
                eq(hashlib.sha256(f.read()).hexdigest(), hashlib.sha256(data).hexdigest(), f"the file of {name} length")


@test
def ports_are_reached_and_whole_connections_refused():
    token = w().token("admin")
    with w().box() as box, connect() as c:
        server = "cd /tmp && echo inside >f && python3 -m http.server 8000 >/dev/null 2>&1"
        if w().run(box, "command -v python3")["result"]["exit_code"]:
            raise Skip("the image has no python3")
        w().exec(box, server)
        path, end = f"/v1/sandboxes/{box}/ports/8000/f", time.monotonic() + WAIT
        while (answer := c.answer(c.request(get(path) + [bearer(token)])))[0] != 200:
            ok(time.monotonic() < end, answer)
            time.sleep(0.1)
        eq(answer[1], b"inside\n")
        status, body = c.answer(c.request(get(f"/v1/sandboxes/{box}/tunnels/8000") + [bearer(token)]))
        ok(400 <= status < 500, f"a tunnel: {status} {body!r}")


@test
def a_revoked_token_ends_its_streams_only():
    doomed = w().post("/v1/tokens", {"name": "doomed", "scopes": ["admin"]}, status=201)
    token = w().token("admin")
    with connect() as c:
        follow = [c.request(get("/v1/events") + [bearer(t)]) for t in (doomed["secret"], token)]
        c.until(lambda: all(s in c.status for s in follow), "both streams")
        eq([c.status[s] for s in follow], [200, 200])
        w().ask("DELETE", f"/v1/tokens/{doomed['id']}", status=204)
        c.until(lambda: follow[0] in c.reset or follow[0] in c.ended, "the end of its stream")
        eq(c.reset.get(follow[0]), CANCEL, "it was cut off")
        ok(follow[1] not in c.reset and follow[1] not in c.ended, "the other stream ended, too")
        eq(c.answer(c.request(get("/v1/sandboxes") + [bearer(token)]))[0], 200, "the connection goes on")


@test
def idle_connections_do_not_delay_the_end_of_the_service():
    token = w().token("admin")
    with connect() as c:
        eq(c.answer(c.request(get("/v1/sandboxes") + [bearer(token)]))[0], 200)
        w().stop()
        eq(c.closed(), NO_ERROR, "GOAWAY")
    w().start()
    eq(w().get("/v1/sandboxes")["sandboxes"], [], "sandboxes")


if __name__ == "__main__":
    sys.exit(main())
