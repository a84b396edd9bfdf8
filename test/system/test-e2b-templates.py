#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-templates.py - the official SDKs of E2B build templates with Warren"""
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, test, ok, eq  # pylint: disable=wrong-import-position
from build_world import Store, base_image, folder, layout  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from serve_world import free_port, until  # pylint: disable=wrong-import-position
from template_world import HASH, TemplateWorld, archive, runs  # pylint: disable=wrong-import-position

DOMAIN = "box.localhost"
WORLD = []


def w():
    if not WORLD:
        world = TemplateWorld(start=False)
        port, made = free_port(), subprocess.run([f"{BUILD}/warren", "cert", "--json", "--dir", f"{world.dir}/tls", DOMAIN],
                                                 stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True)
        files = json.loads(made.stdout)
        world.options += ["--domain", DOMAIN, "--tls-cert", files["cert"], "--tls-key", files["key"],
                          "--listen", f"tls:127.0.0.1:{port}"]
        world.by_domain = {"E2B_DOMAIN": f"{DOMAIN}:{port}", "SSL_CERT_FILE": files["ca"], "NODE_EXTRA_CA_CERTS": files["ca"]}
        WORLD.append(world.start())
    return WORLD[0]


def python(area, version="new"):
    with tempfile.TemporaryDirectory(prefix="warren-test-") as temp:
        w().python("templates.py", area, version=version, TMPDIR=temp)


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
def a_sandbox_that_lost_its_processes_starts_its_command_again():
    """After a pause without memory, on request or at its end, and when the client wants a new boot."""
    eq(w().ended(w().build("again", startCmd="echo x >>/tmp/starts; sleep 0.3; touch /dev/shm/ready; exec sleep 100787",
                           readyCmd="test -e /dev/shm/ready")), ("ready", None))

    def created(**fields):
        status, box = w().e2b("POST", "/v2/sandboxes", {"templateID": "again", **fields})
        eq(status, 201, box)
        return f"/sandboxes/{box['sandboxID']}", box["sandboxID"]

    def seen(box):
        """Returns how often the command was started, and whether it runs; and the id of the boot."""
        out = w().run(box, ["sh", "-c", "wc -l </tmp/starts; ls /dev/shm; grep -lx sleep /proc/[0-9]*/comm | wc -l; cat /proc/sys/kernel/random/boot_id"])
        return out["stdout"].splitlines()[:3], out["stdout"].splitlines()[3]

    def connected(at, **fields):
        status, box = w().e2b("POST", f"/v2{at}/connect", fields)
        eq(status, 201, box)

    at, box = created()
    starts, boot = seen(box)
    eq(starts, ["1", "ready", "1"])
    eq(w().e2b("POST", f"{at}/pause", {})[0], 204)
    connected(at)
    eq(seen(box), (starts, boot))  # positive control: its processes continue
    n = 1
    for memory, fields in ((False, {}), (True, {"memory": False}), (False, {"memory": False})):
        eq(w().e2b("POST", f"{at}/pause", {"memory": memory})[0], 204)
        connected(at, **fields)
        n, before = n + 1, boot
        again, boot = seen(box)
        eq(again, [str(n), *starts[1:]], (memory, fields))
        ok(boot != before, "another boot")
    # Of several clients, one starts it.
    eq(w().e2b("POST", f"{at}/pause", {"memory": False})[0], 204)
    with ThreadPoolExecutor(4) as pool:
        answers = [x[0] for x in pool.map(lambda _: w().e2b("POST", f"/v2{at}/connect", {}), range(4))]
    eq((set(answers) <= {200, 201}, seen(box)[0]), (True, [str(n + 1), *starts[1:]]), answers)
    eq(w().e2b("DELETE", at)[0], 204)
    at, box = created(timeout=2, autoPause=True, autoPauseMemory=False)
    until(lambda: w().e2b("GET", at)[1]["state"] == "paused", "the pause at its end")
    eq(w().e2b("GET", at)[1]["pauseMode"], "filesystem")
    connected(at, timeout=100)
    eq(seen(box)[0], ["2", *starts[1:]])
    eq(w().e2b("DELETE", at)[0], 204)
    until(lambda: not runs("sleep 100787"), "the end of the commands")


@test
def copies_start_the_command_of_their_template():
    """Forks, forks of them, and sandboxes of a snapshot."""
    start = "echo x >>/tmp/starts; sleep 0.3; touch /dev/shm/ready; exec sleep 100789"
    eq(w().ended(w().build("copied", startCmd=start, readyCmd="test -e /dev/shm/ready")), ("ready", None))

    def seen(box):
        out = w().run(box, ["sh", "-c", "wc -l </tmp/starts; ls /dev/shm; grep -lx sleep /proc/[0-9]*/comm | wc -l"])
        return out["stdout"].splitlines()

    status, box = w().e2b("POST", "/v2/sandboxes", {"templateID": "copied"})
    eq((status, seen(box["sandboxID"])), (201, ["1", "ready", "1"]), box)
    status, copies = w().e2b("POST", f"/sandboxes/{box['sandboxID']}/fork", {"count": 2, "timeout": 300})
    eq((status, len(copies)), (201, 2), copies)
    ids = [c["sandbox"]["sandboxID"] for c in copies]
    eq([seen(i) for i in ids], [["2", "ready", "1"]] * 2)
    status, again = w().e2b("POST", f"/sandboxes/{ids[0]}/fork", {"timeout": 300})
    ids.append(again[0]["sandbox"]["sandboxID"])
    eq((status, seen(ids[2])), (201, ["3", "ready", "1"]))
    # A copy that lost its processes starts it again.
    eq(w().e2b("POST", f"/sandboxes/{ids[0]}/pause", {"memory": False})[0], 204)
    eq(w().e2b("POST", f"/v2/sandboxes/{ids[0]}/connect", {})[0], 201)
    eq(seen(ids[0]), ["3", "ready", "1"])
    status, snapshot = w().e2b("POST", f"/sandboxes/{box['sandboxID']}/snapshots", {})
    eq(status, 201, snapshot)
    status, made = w().e2b("POST", "/v2/sandboxes", {"templateID": snapshot["snapshotID"]})
    eq((status, seen(made["sandboxID"])), (201, ["2", "ready", "1"]), made)
    status, refused = w().call("POST", f"/v1/sandboxes/{box['sandboxID']}/snapshots", {"labels": {"e2b:build": "x"}},
                                Authorization=f"Bearer {w().key_of()}")
    eq(status, 400, refused)  # only this API writes such labels
    for i in (*ids, made["sandboxID"], box["sandboxID"]):
        eq(w().e2b("DELETE", f"/sandboxes/{i}")[0], 204)
    eq(w().e2b("DELETE", f"/templates/{snapshot['snapshotID']}")[0], 204)
    until(lambda: not runs("sleep 100789"), "the end of the commands")


@test
def a_sandbox_whose_template_is_never_ready_is_deleted_with_its_request():
    path = w().build("never", startCmd="sleep 100781", readyCmd="false")
    eq(w().ended(path), ("ready", None))
    for ends in (lambda s: s.close(), lambda s: w().stop() or w().start()):
        body = b'{"templateID": "never"}'
        with contextlib.closing(socket.create_connection(("127.0.0.1", w().port))) as s:
            s.sendall(f"POST /v2/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {w().key_of()}\r\nContent-Type: application/json\r\n"
                      f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            until(lambda: runs("sleep 100781"), "the start command")
            ends(s)
        until(lambda: not runs("sleep 100781") and w().e2b("GET", "/v2/sandboxes")[1] == [], "the end of the sandbox")


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


@test
def logs_have_pages():
    path = w().build("pages", "seq 1 250")
    eq(w().ended(path), ("ready", None))
    lines, n = [], 0
    while True:
        page = w().e2b("GET", f"{path}/status?logsOffset={n}")[1]
        eq(page["logs"], [x["message"] for x in page["logEntries"]])
        if not page["logs"]:
            break
        ok(len(page["logs"]) <= 100, len(page["logs"]))
        lines += page["logs"]
        n = len(lines)
    eq(lines[1:251], [str(i) for i in range(1, 251)])
    eq(len(w().e2b("GET", f"{path}/status?limit=7")[1]["logs"]), 7)
    eq(w().e2b("GET", f"{path}/status?level=warn")[1]["logs"], [])
    eq(len(w().e2b("GET", f"{path}/logs")[1]["logs"]), 100)
    eq(w().e2b("GET", f"{path}/status?logsOffset=x")[0], 400)
    # A log that is too large is cut, and the build goes on.
    path = w().build("pages", "yes 123456789 | head -n 60000; echo the end")
    eq(w().ended(path), ("ready", None))
    ok(any("not kept" in x["message"] for n in range(0, 20000, 100)
           for x in w().e2b("GET", f"{path}/status?logsOffset={n}&level=warn")[1]["logEntries"]), "no entry about it")


@test
def templates_are_listed_and_deleted():
    path = w().build("listed", "echo 1 >n")
    eq(w().ended(path), ("ready", None))
    template = path.split("/")[2]
    for route in ("/templates", "/v2/templates"):
        found = [x for x in w().e2b("GET", route)[1] if x["templateID"] == template]
        eq([(x["names"], x["aliases"], x["buildStatus"], x["buildCount"]) for x in found], [(["listed"], ["listed"], "ready", 1)])
    with w().client(tcp=True) as c:
        r = c.ask("GET", "/v2/templates?limit=1", headers={"X-API-Key": w().key_of()})
        eq((len(r.json()), len(r.headers["x-next-token"])), (1, len(template)))
    eq(w().e2b("GET", f"/templates/{template}")[1]["names"], ["listed"])
    eq(w().e2b("GET", "/templates/aliases/listed")[1], {"templateID": template, "public": False})
    eq(w().e2b("PATCH", f"/v2/templates/{template}", {"public": True})[0], 501)
    eq(w().e2b("PATCH", f"/v2/templates/{template}", {"public": False}), (200, {"names": ["listed"]}))
    # Its files are those of a snapshot, which is not listed as one, and which no other tenant can use.
    eq([x for x in w().e2b("GET", "/snapshots")[1] if "listed" in str(x)], [])
    status, box = w().e2b("POST", "/v2/sandboxes", {"templateID": "listed"})
    eq(status, 201)
    eq(w().e2b("DELETE", "/templates/listed")[0], 204)
    eq(w().e2b("DELETE", "/templates/listed")[0], 404)
    eq(w().e2b("POST", "/v2/sandboxes", {"templateID": "listed"})[0], 404)
    eq(w().run(box["sandboxID"], "cat n")["stdout"], "1\n", "a sandbox keeps its files")
    eq(w().e2b("DELETE", f"/sandboxes/{box['sandboxID']}")[0], 204)
    # A build that runs ends with its template.
    path = w().build("listed", "echo begun; sleep 100779")
    w().logged(path, "begun")
    eq(w().e2b("DELETE", f"/templates/{path.split('/')[2]}")[0], 204)
    until(lambda: not runs("sleep 100779"), "the end of its command")


@test
def lists_of_many_templates_are_whole():
    """They are written in slices of 16."""
    key = w().key_of("many")
    made = {w().request(f"many-{i}", key)[0] for i in range(35)}
    eq({x["templateID"] for x in w().e2b("GET", "/templates", secret=key)[1]}, made)
    with w().client(tcp=True) as c:
        for limit in (1, 15, 16, 17, 32, 34, 35, 36):
            found, after = [], ""
            for _ in range(36):
                r = c.ask("GET", f"/v2/templates?limit={limit}{after}", headers={"X-API-Key": key})
                found += [x["templateID"] for x in r.json()]
                ok(len(r.json()) <= limit, limit)
                if "x-next-token" not in r.headers:
                    break
                after = f"&nextToken={r.headers['x-next-token']}"
            eq((len(found), set(found)), (35, made), f"pages of {limit}")
    for template in made:
        eq(w().e2b("DELETE", f"/templates/{template}", secret=key)[0], 204)


@test
def other_tenants_find_nothing():
    path = w().build("private", "true")
    eq(w().ended(path), ("ready", None))
    template = path.split("/")[2]
    other = w().key_of("other")
    routes = [("GET", f"/templates/{template}"), ("GET", "/templates/aliases/private"), ("GET", f"/templates/{template}/tags"),
              ("GET", f"{path}/status"), ("GET", f"{path}/logs"), ("GET", f"/templates/{template}/files/{HASH}"),
              ("POST", f"/v2{path}", {"fromTemplate": "base"}), ("PATCH", f"/v2/templates/{template}", {"public": False}),
              ("POST", "/templates/tags", {"target": "private:default", "tags": ["x"]}),
              ("DELETE", "/templates/tags", {"name": "private", "tags": ["default"]}),
              ("DELETE", f"/templates/{template}"), ("POST", "/v2/sandboxes", {"templateID": "private"}),
              ("POST", "/v2/sandboxes", {"templateID": template}), ("POST", "/v2/sandboxes", {"templateID": "local/private"})]
    for method, route, *body in routes:
        status, answer = w().e2b(method, route, *body, secret=other)
        eq((status, answer["code"]), (404, 404), f"{method} {route}")
        eq(w().e2b(method, route, *body, secret="")[0], 401, f"{method} {route} without a key")
    eq(w().e2b("GET", "/templates", secret=other)[1], [])
    theirs = w().build("mine", "true", fromTemplate="base", secret=other)
    eq(w().ended(theirs, other), ("ready", None))
    build = w().request("mine", other)
    eq(w().e2b("POST", f"/v2/templates/{build[0]}/builds/{build[1]}", {"fromTemplate": "private"}, other)[0], 404)
    snapshot = w().value("SELECT snapshot FROM template_builds WHERE template = ?", template)
    eq(w().e2b("POST", f"/v2/templates/{build[0]}/builds/{build[1]}", {"fromImage": f"warren.snapshot/{snapshot}"}, other)[0], 400)
    eq(w().e2b("POST", f"/v2/templates/{build[0]}/builds/{build[1]}", {"fromImage": snapshot}, other)[0], 202)
    eq(w().ended(f"/templates/{build[0]}/builds/{build[1]}", other)[0], "error")
    status, box = w().e2b("POST", "/v2/sandboxes", {"templateID": "local/private"})  # positive control
    eq((status, w().e2b("DELETE", f"/sandboxes/{box['sandboxID']}")[0]), (201, 204))


@test
def uploads_need_their_url():
    _, other = w().key_of(), w().key_of("other")
    template, build = w().request("uploads")
    status, answer = w().e2b("GET", f"/templates/{template}/files/{HASH}")
    eq((status, answer["present"]), (201, False))
    path = answer["url"].partition(f":{w().port}")[2]

    def put(where, data=archive(a=b"1")):
        return w().e2b("PUT", where, data, secret="")[0]

    step = {"type": "COPY", "args": ["a", "/home/user/a"], "filesHash": HASH}
    eq(put(path.replace(HASH, "cd" * 32)), 401)
    eq(put(re.sub("key=[^&]*", f"key={w().value('SELECT id FROM tokens ORDER BY seq DESC')}", path)), 401)
    eq(put(re.sub("key=[^&]*", "key=", path)), 401)
    eq(put(path.replace("expires=", "expires=1")), 401)
    eq(put(path[:-1] + ("0" if path[-1] != "0" else "1")), 401)
    eq(put(path.partition("?")[0]), 401)
    eq(w().e2b("POST", f"/v2/templates/{template}/builds/{build}", {"fromTemplate": "base", "steps": [step]})[0], 400)
    eq(w().e2b("GET", f"/templates/{template}/files/{'x' * 64}")[0], 400)
    eq(put(path, b"this is not an archive"), 200)
    status, answer = w().e2b("POST", f"/v2/templates/{template}/builds/{build}", {"fromTemplate": "base", "steps": [step]})
    eq((status, "step 1: what was uploaded is not an archive" in answer["message"]), (400, True), answer)
    eq(put(path), 200)  # positive control, and it replaces the other
    eq(w().e2b("GET", f"/templates/{template}/files/{HASH}")[1]["present"], True)
    eq(w().e2b("GET", f"/templates/{w().request('uploads', other)[0]}/files/{HASH}", secret=other)[1]["present"], False)
    template, build = w().request("uploads")
    eq(w().e2b("POST", f"/v2/templates/{template}/builds/{build}", {"fromTemplate": "base", "steps": [step]})[0], 202)
    eq(w().ended(f"/templates/{template}/builds/{build}"), ("ready", None))
    # The archive can name files outside of its directory only inside the image.
    eq(put(path, archive(**{"../../a": b"2", "a": b"3"})), 200)
    template, build = w().request("uploads")
    eq(w().e2b("POST", f"/v2/templates/{template}/builds/{build}", {"fromTemplate": "base", "steps": [step]})[0], 202)
    ok(w().ended(f"/templates/{template}/builds/{build}")[0] in ("ready", "error"), "it has no end")


@test
def archives_count_with_the_disk_quota():
    with TemplateWorld(config="quota: { disk: 64m }\n") as other:
        secret = other.key()
        status, body = other.call("POST", "/v3/templates", {"name": "full"}, X_API_Key=secret)
        eq(status, 202)

        def url(name):
            answer = other.call("GET", f"/templates/{body['templateID']}/files/{name * 64}", X_API_Key=secret)[1]
            return answer["url"].partition(f":{other.port}")[2]

        eq(other.announce(url("a"), 65 << 20), 429)
        eq(other.announce(url("a"), 0, b""), 411)
        eq(other.announce(url("a"), 40 << 20, bytes(40 << 20)), 200)
        eq(other.announce(url("b"), 40 << 20), 429)
        eq(other.announce(url("b"), 20 << 20, bytes(20 << 20)), 200)  # positive control
        eq(other.announce(url("c"), 5 << 30), 400)
        # A client that goes away leaves nothing.
        with contextlib.closing(socket.create_connection(("127.0.0.1", other.port))) as s:
            s.sendall(f"PUT {url('c')} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3000000\r\n\r\n".encode() + bytes(1000000))
        until(lambda: other.announce(url("d"), 4 << 20, bytes(4 << 20)) == 200, "the end of the upload")


@test
def steps_that_are_not_served_are_refused():
    for step in ({"type": "EXPOSE", "args": ["80"]}, {"type": "RUN", "args": []}, {"type": "RUN", "args": ["id", "a b"]},
                 {"type": "USER", "args": ["$x"]}, {"type": "ENV", "args": ["A"]}, {"type": "ENV", "args": ["A\nRUN x", "1"]},
                 {"type": "ENV", "args": ["A", "1\nRUN x"]}, {"type": "WORKDIR", "args": ["/a\nRUN x"]},
                 {"type": "COPY", "args": ["a", "b"]}, {"type": "COPY", "args": ["a", "b", "", "9"], "filesHash": HASH},
                 {"type": "RUN", "args": ["id"], "shell": "x"}, {"type": "RUN", "args": [1]}):
        template, build = w().request("refused")
        status, body = w().e2b("POST", f"/v2/templates/{template}/builds/{build}", {"fromTemplate": "base", "steps": [step]})
        eq((status, body["code"]), (400, 400), step)
    template, build = w().request("refused")
    where = f"/v2/templates/{template}/builds/{build}"
    for body in ({}, {"fromImage": "a", "fromTemplate": "base"}, {"fromImage": "a b"}, {"fromImage": "a\nRUN x"}, {"fromImage": "dir:/"},
                 {"fromTemplate": "base", "unknown": 1}):
        status = w().e2b("POST", where, body)[0]
        ok(status == 400 or (status == 202 and w().ended(where[3:])[0] == "error"), (body, status))
        template, build = w().request("refused")
        where = f"/v2/templates/{template}/builds/{build}"
    eq(w().e2b("POST", where, {"fromTemplate": "base"})[0], 202)  # positive control
    eq(w().ended(where[3:]), ("ready", None))
    eq(w().e2b("POST", where, {"fromTemplate": "base"})[0], 409)
    for path in ("/templates", "/v2/templates", "/templates/x", "/templates/x/builds/y"):
        status, body = w().e2b("POST", path, {"dockerfile": "FROM x"})
        eq((status, body["code"]), (501, 501), path)


@test
def a_killed_service_has_failed_builds_and_the_others():
    good = w().build("survives", "echo 5 >n")
    eq(w().ended(good), ("ready", None))
    bad = w().build("survives", "echo begun; sleep 100780")
    w().logged(bad, "begun")
    w().kill("api", "warden")
    w().start()
    until(lambda: not runs("sleep 100780"), "the end of its command")
    status, reason = w().ended(bad)
    eq((status, "restarted" in reason["message"]), ("error", True))
    eq(w().status(good), "ready")
    ok("Build finished" in w().e2b("GET", f"{good}/status")[1]["logs"], "the log is lost")
    status, box = w().e2b("POST", "/v2/sandboxes", {"templateID": "survives"})
    eq(status, 201)
    eq(w().run(box["sandboxID"], "cat n")["stdout"], "5\n")
    eq(w().e2b("DELETE", f"/sandboxes/{box['sandboxID']}")[0], 204)
    until(lambda: w().value("SELECT count(*) FROM snapshots WHERE state <> 1") == 0,
          "the end of the snapshot of the killed build")


@test
def nothing_is_left_of_deleted_templates():
    for secret in (w().key_of(), w().key_of("other")):
        for template in w().e2b("GET", "/templates", secret=secret)[1]:
            eq(w().e2b("DELETE", f"/templates/{template['templateID']}", secret=secret)[0], 204)
    left = "SELECT (SELECT json_group_array(id || ' ' || state) FROM snapshots) || (SELECT json_group_array(id || ' ' || state) FROM template_builds)"
    until(lambda: w().value("SELECT (SELECT count(*) FROM snapshots) + (SELECT count(*) FROM template_builds)") == 0,
          lambda: f"the end of their files: {w().value(left)}", seconds=60)  # removed one after the other
    eq([x["sandboxID"] for x in w().e2b("GET", "/v2/sandboxes")[1]], [])


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
