#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-templates.py - the official SDKs of E2B build templates with Warren"""
import contextlib
import http.client
import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, test, ok, eq  # pylint: disable=wrong-import-position
from build_world import Store, base_image, folder, layout  # pylint: disable=wrong-import-position
from e2b_world import E2bWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from serve_world import free_port, until  # pylint: disable=wrong-import-position

HASH = "ab" * 32
DOMAIN = "box.localhost"
WORLD = []
KEYS = {}


def w():
    if not WORLD:
        world = E2bWorld(start=False)
        port, made = free_port(), subprocess.run([f"{BUILD}/warren", "cert", "--json", "--dir", f"{world.dir}/tls", DOMAIN],
                                                 stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True)
        files = json.loads(made.stdout)
        world.options += ["--domain", DOMAIN, "--tls-cert", files["cert"], "--tls-key", files["key"],
                          "--listen", f"tls:127.0.0.1:{port}"]
        world.by_domain = {"E2B_DOMAIN": f"{DOMAIN}:{port}", "SSL_CERT_FILE": files["ca"], "NODE_EXTRA_CA_CERTS": files["ca"]}
        WORLD.append(world.start())
    return WORLD[0]


def key(tenant="local"):
    if tenant not in KEYS:
        KEYS[tenant] = w().key(tenant=tenant)
    return KEYS[tenant]


def python(area, version="new"):
    with tempfile.TemporaryDirectory(prefix="warren-test-") as temp:
        w().python("templates.py", area, version=version, TMPDIR=temp)


def ask(method, path, body=None, secret=None):
    """Returns the status and the body of a response; @secret "": without a key."""
    return w().call(method, path, body, **({"X_API_Key": secret or key()} if secret != "" else {}))


def runs(command):
    return subprocess.run(["pgrep", "-f", f"^{command}"], check=False, capture_output=True).returncode == 0


def query(text, *values):
    """Returns the first value of the result."""
    with w().database() as db:
        return db.execute(text, values).fetchone()[0]


@test
def steps_become_files_of_sandboxes():
    python("steps")


@test
def files_are_uploaded_once_and_copied():
    python("copies")


@test
def a_failure_names_its_step():
    python("errors")


@test
def a_start_command_runs_in_each_sandbox_before_its_creation_is_answered():
    python("starts")


@test
def a_sandbox_whose_template_is_never_ready_is_deleted_with_its_request():
    path = start("never", startCmd="sleep 100781", readyCmd="false")
    eq(ended(path), ("ready", None))
    for ends in (lambda s: s.close(), lambda s: w().stop() or w().start()):
        body = b'{"templateID": "never"}'
        with contextlib.closing(socket.create_connection(("127.0.0.1", w().port))) as s:
            s.sendall(f"POST /v2/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {key()}\r\nContent-Type: application/json\r\n"
                      f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            until(lambda: runs("sleep 100781"), "the start command")
            ends(s)
        until(lambda: not runs("sleep 100781") and ask("GET", "/v2/sandboxes")[1] == [], "the end of the sandbox")


@test
def tags_name_builds():
    python("tags")


@test
def a_dockerfile_becomes_a_template():
    python("dockerfile")


@test
def the_asynchronous_sdk_builds():
    python("async")


@test
def the_oldest_supported_sdk_builds():
    python("old", "old")


@test
def the_javascript_sdk_builds():
    with tempfile.TemporaryDirectory(prefix="warren-test-") as temp:
        w().node("templates.mjs", TMPDIR=temp)


@test
def files_are_uploaded_over_tls():
    plain, w().environment = w().environment, w().by_domain
    try:
        python("tls")
    finally:
        w().environment = plain


@test
def an_image_of_others_gets_the_account():
    Store(w().state).image("import", "-q", layout(f"{folder()}/layout", {"base:1": base_image()}))
    python("image")


def request(name, secret=None, **fields):
    status, body = ask("POST", "/v3/templates", {"name": name, **fields}, secret)
    eq(status, 202, body)
    return body["templateID"], body["buildID"]


def start(name, *steps, secret=None, **fields):
    """Starts a build; returns its path."""
    template, build = request(name, secret)
    path = f"/templates/{template}/builds/{build}"
    eq(ask("POST", f"/v2{path}", {"fromTemplate": "base", "steps": [{"type": "RUN", "args": [x]} for x in steps], **fields}, secret),
       (202, None))
    return path


def state(path, secret=None):
    return ask("GET", f"{path}/status", secret=secret)[1]["status"]


def ended(path, secret=None):
    """Waits for the end of the build; returns its state and the reason of a failure."""
    until(lambda: state(path, secret) not in ("waiting", "building"), "the end of the build")
    body = ask("GET", f"{path}/status", secret=secret)[1]
    return body["status"], body.get("reason")


def logged(path, text):
    until(lambda: text in ask("GET", f"{path}/status")[1]["logs"], f"{text!r} in the log")


@test
def logs_have_pages():
    path = start("pages", "seq 1 250")
    eq(ended(path), ("ready", None))
    lines, n = [], 0
    while True:
        page = ask("GET", f"{path}/status?logsOffset={n}")[1]
        eq(page["logs"], [x["message"] for x in page["logEntries"]])
        if not page["logs"]:
            break
        ok(len(page["logs"]) <= 100, len(page["logs"]))
        lines += page["logs"]
        n = len(lines)
    eq(lines[1:251], [str(i) for i in range(1, 251)])
    eq(len(ask("GET", f"{path}/status?limit=7")[1]["logs"]), 7)
    eq(ask("GET", f"{path}/status?level=warn")[1]["logs"], [])
    eq(len(ask("GET", f"{path}/logs")[1]["logs"]), 100)
    eq(ask("GET", f"{path}/status?logsOffset=x")[0], 400)
    # A log that is too large is cut, and the build goes on.
    path = start("pages", "yes 123456789 | head -n 60000; echo the end")
    eq(ended(path), ("ready", None))
    ok(any("not kept" in x["message"] for n in range(0, 20000, 100)
           for x in ask("GET", f"{path}/status?logsOffset={n}&level=warn")[1]["logEntries"]), "no entry about it")


@test
def templates_are_listed_and_deleted():
    path = start("listed", "echo 1 >n")
    eq(ended(path), ("ready", None))
    template = path.split("/")[2]
    for route in ("/templates", "/v2/templates"):
        found = [x for x in ask("GET", route)[1] if x["templateID"] == template]
        eq([(x["names"], x["aliases"], x["buildStatus"], x["buildCount"]) for x in found], [(["listed"], ["listed"], "ready", 1)])
    with w().client(tcp=True) as c:
        r = c.ask("GET", "/v2/templates?limit=1", headers={"X-API-Key": key()})
        eq((len(r.json()), len(r.headers["x-next-token"])), (1, len(template)))
    eq(ask("GET", f"/templates/{template}")[1]["names"], ["listed"])
    eq(ask("GET", "/templates/aliases/listed")[1], {"templateID": template, "public": False})
    eq(ask("PATCH", f"/v2/templates/{template}", {"public": True})[0], 501)
    eq(ask("PATCH", f"/v2/templates/{template}", {"public": False}), (200, {"names": ["listed"]}))
    # Its files are those of a snapshot, which is not listed as one, and which no other tenant can use.
    eq([x for x in ask("GET", "/snapshots")[1] if "listed" in str(x)], [])
    status, box = ask("POST", "/v2/sandboxes", {"templateID": "listed"})
    eq(status, 201)
    eq(ask("DELETE", "/templates/listed")[0], 204)
    eq(ask("DELETE", "/templates/listed")[0], 404)
    eq(ask("POST", "/v2/sandboxes", {"templateID": "listed"})[0], 404)
    eq(w().run(box["sandboxID"], "cat n")["stdout"], "1\n", "a sandbox keeps its files")
    eq(ask("DELETE", f"/sandboxes/{box['sandboxID']}")[0], 204)
    # A build that runs ends with its template.
    path = start("listed", "echo begun; sleep 100779")
    logged(path, "begun")
    eq(ask("DELETE", f"/templates/{path.split('/')[2]}")[0], 204)
    until(lambda: not runs("sleep 100779"), "the end of its command")


@test
def other_tenants_find_nothing():
    path = start("private", "true")
    eq(ended(path), ("ready", None))
    template = path.split("/")[2]
    other = key("other")
    routes = [("GET", f"/templates/{template}"), ("GET", "/templates/aliases/private"), ("GET", f"/templates/{template}/tags"),
              ("GET", f"{path}/status"), ("GET", f"{path}/logs"), ("GET", f"/templates/{template}/files/{HASH}"),
              ("POST", f"/v2{path}", {"fromTemplate": "base"}), ("PATCH", f"/v2/templates/{template}", {"public": False}),
              ("POST", "/templates/tags", {"target": "private:default", "tags": ["x"]}),
              ("DELETE", "/templates/tags", {"name": "private", "tags": ["default"]}),
              ("DELETE", f"/templates/{template}"), ("POST", "/v2/sandboxes", {"templateID": "private"}),
              ("POST", "/v2/sandboxes", {"templateID": template}), ("POST", "/v2/sandboxes", {"templateID": "local/private"})]
    for method, route, *body in routes:
        status, answer = ask(method, route, *body, secret=other)
        eq((status, answer["code"]), (404, 404), f"{method} {route}")
        eq(ask(method, route, *body, secret="")[0], 401, f"{method} {route} without a key")
    eq(ask("GET", "/templates", secret=other)[1], [])
    theirs = start("mine", "true", fromTemplate="base", secret=other)
    eq(ended(theirs, other), ("ready", None))
    build = request("mine", other)
    eq(ask("POST", f"/v2/templates/{build[0]}/builds/{build[1]}", {"fromTemplate": "private"}, other)[0], 404)
    snapshot = query("SELECT snapshot FROM template_builds WHERE template = ?", template)
    eq(ask("POST", f"/v2/templates/{build[0]}/builds/{build[1]}", {"fromImage": f"warren.snapshot/{snapshot}"}, other)[0], 400)
    eq(ask("POST", f"/v2/templates/{build[0]}/builds/{build[1]}", {"fromImage": snapshot}, other)[0], 202)
    eq(ended(f"/templates/{build[0]}/builds/{build[1]}", other)[0], "error")
    status, box = ask("POST", "/v2/sandboxes", {"templateID": "local/private"})  # positive control
    eq((status, ask("DELETE", f"/sandboxes/{box['sandboxID']}")[0]), (201, 204))


def archive(**files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


@test
def uploads_need_their_url():
    template, build = request("uploads")
    status, answer = ask("GET", f"/templates/{template}/files/{HASH}")
    eq((status, answer["present"]), (201, False))
    path = answer["url"].partition(f":{w().port}")[2]

    def put(where, data=archive(a=b"1")):
        return ask("PUT", where, data, secret="")[0]

    step = {"type": "COPY", "args": ["a", "/home/user/a"], "filesHash": HASH}
    eq(put(path.replace(HASH, "cd" * 32)), 401)
    eq(put(path.replace("tenant=local", "tenant=other")), 401)
    eq(put(path.replace("expires=", "expires=1")), 401)
    eq(put(path[:-1] + ("0" if path[-1] != "0" else "1")), 401)
    eq(put(path.partition("?")[0]), 401)
    eq(ask("POST", f"/v2/templates/{template}/builds/{build}", {"fromTemplate": "base", "steps": [step]})[0], 400)
    eq(ask("GET", f"/templates/{template}/files/{'x' * 64}")[0], 400)
    eq(put(path, b"this is not an archive"), 200)
    eq(ask("POST", f"/v2/templates/{template}/builds/{build}", {"fromTemplate": "base", "steps": [step]})[0], 202)
    where = f"/templates/{template}/builds/{build}"
    eq((ended(where)[0], ended(where)[1]["step"]), ("error", "1"))
    eq(put(path), 200)  # positive control, and it replaces the other
    eq(ask("GET", f"/templates/{template}/files/{HASH}")[1]["present"], True)
    eq(ask("GET", f"/templates/{request('uploads', key('other'))[0]}/files/{HASH}", secret=key("other"))[1]["present"], False)
    template, build = request("uploads")
    eq(ask("POST", f"/v2/templates/{template}/builds/{build}", {"fromTemplate": "base", "steps": [step]})[0], 202)
    eq(ended(f"/templates/{template}/builds/{build}"), ("ready", None))
    # The archive can name files outside of its directory only inside the image.
    eq(put(path, archive(**{"../../a": b"2", "a": b"3"})), 200)
    template, build = request("uploads")
    eq(ask("POST", f"/v2/templates/{template}/builds/{build}", {"fromTemplate": "base", "steps": [step]})[0], 202)
    ok(ended(f"/templates/{template}/builds/{build}")[0] in ("ready", "error"), "it has no end")


def announce(world, path, size, data=b""):
    """Sends the head of an upload of @size bytes and @data; returns the status."""
    c = http.client.HTTPConnection("127.0.0.1", world.port, timeout=60)
    c.putrequest("PUT", path)
    c.putheader("Content-Length", str(size))
    c.endheaders(data)
    status = c.getresponse().status
    c.close()
    return status


@test
def archives_count_with_the_disk_quota():
    with E2bWorld(config="quota: { disk: 64m }\n") as other:
        secret = other.key()
        status, body = other.call("POST", "/v3/templates", {"name": "full"}, X_API_Key=secret)
        eq(status, 202)

        def url(name):
            answer = other.call("GET", f"/templates/{body['templateID']}/files/{name * 64}", X_API_Key=secret)[1]
            return answer["url"].partition(f":{other.port}")[2]

        eq(announce(other, url("a"), 65 << 20), 429)
        eq(announce(other, url("a"), 0, b""), 411)
        eq(announce(other, url("a"), 40 << 20, bytes(40 << 20)), 200)
        eq(announce(other, url("b"), 40 << 20), 429)
        eq(announce(other, url("b"), 20 << 20, bytes(20 << 20)), 200)  # positive control
        eq(announce(other, url("c"), 5 << 30), 400)
        # A client that goes away leaves nothing.
        with contextlib.closing(socket.create_connection(("127.0.0.1", other.port))) as s:
            s.sendall(f"PUT {url('c')} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3000000\r\n\r\n".encode() + bytes(1000000))
        until(lambda: announce(other, url("d"), 4 << 20, bytes(4 << 20)) == 200, "the end of the upload")


@test
def steps_that_are_not_served_are_refused():
    for step in ({"type": "EXPOSE", "args": ["80"]}, {"type": "RUN", "args": []}, {"type": "RUN", "args": ["id", "a b"]},
                 {"type": "USER", "args": ["$x"]}, {"type": "ENV", "args": ["A"]}, {"type": "ENV", "args": ["A\nRUN x", "1"]},
                 {"type": "ENV", "args": ["A", "1\nRUN x"]}, {"type": "WORKDIR", "args": ["/a\nRUN x"]},
                 {"type": "COPY", "args": ["a", "b"]}, {"type": "COPY", "args": ["a", "b", "", "9"], "filesHash": HASH},
                 {"type": "RUN", "args": ["id"], "shell": "x"}, {"type": "RUN", "args": [1]}):
        template, build = request("refused")
        status, body = ask("POST", f"/v2/templates/{template}/builds/{build}", {"fromTemplate": "base", "steps": [step]})
        eq((status, body["code"]), (400, 400), step)
    template, build = request("refused")
    where = f"/v2/templates/{template}/builds/{build}"
    for body in ({}, {"fromImage": "a", "fromTemplate": "base"}, {"fromImage": "a b"}, {"fromImage": "a\nRUN x"}, {"fromImage": "dir:/"},
                 {"fromTemplate": "base", "unknown": 1}):
        status = ask("POST", where, body)[0]
        ok(status == 400 or (status == 202 and ended(where[3:])[0] == "error"), (body, status))
        template, build = request("refused")
        where = f"/v2/templates/{template}/builds/{build}"
    eq(ask("POST", where, {"fromTemplate": "base"})[0], 202)  # positive control
    eq(ended(where[3:]), ("ready", None))
    eq(ask("POST", where, {"fromTemplate": "base"})[0], 409)
    for path in ("/templates", "/v2/templates", "/templates/x", "/templates/x/builds/y"):
        status, body = ask("POST", path, {"dockerfile": "FROM x"})
        eq((status, body["code"]), (501, 501), path)


@test
def a_killed_service_has_failed_builds_and_the_others():
    good = start("survives", "echo 5 >n")
    eq(ended(good), ("ready", None))
    bad = start("survives", "echo begun; sleep 100780")
    logged(bad, "begun")
    w().kill("api", "warden")
    w().start()
    until(lambda: not runs("sleep 100780"), "the end of its command")
    status, reason = ended(bad)
    eq((status, "restarted" in reason["message"]), ("error", True))
    eq(state(good), "ready")
    ok("Build finished" in ask("GET", f"{good}/status")[1]["logs"], "the log is lost")
    status, box = ask("POST", "/v2/sandboxes", {"templateID": "survives"})
    eq(status, 201)
    eq(w().run(box["sandboxID"], "cat n")["stdout"], "5\n")
    eq(ask("DELETE", f"/sandboxes/{box['sandboxID']}")[0], 204)
    until(lambda: query("SELECT count(*) FROM snapshots WHERE state <> 1") == 0,
          "the end of the snapshot of the killed build")


@test
def nothing_is_left_of_deleted_templates():
    for secret in (key(), key("other")):
        for template in ask("GET", "/templates", secret=secret)[1]:
            eq(ask("DELETE", f"/templates/{template['templateID']}", secret=secret)[0], 204)
    until(lambda: query("SELECT (SELECT count(*) FROM snapshots) + (SELECT count(*) FROM template_builds)") == 0,
          "the end of their files")
    eq([x["sandboxID"] for x in ask("GET", "/v2/sandboxes")[1]], [])


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
