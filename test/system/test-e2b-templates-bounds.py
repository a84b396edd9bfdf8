#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-templates-bounds.py - what ends builds of templates, and what bounds the space that they use"""
import contextlib
import fcntl
import os
import signal
import socket
import sqlite3
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import MIB, test, eq, ok  # pylint: disable=wrong-import-position
from build_world import Image, Layer, Store, WAIT, base, base_image, folder, layout  # pylint: disable=wrong-import-position
from fault_world import small_disk  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from registry_server import Evil  # pylint: disable=wrong-import-position
from registry_server import Image as ServerImage  # pylint: disable=wrong-import-position
from serve_world import refused, until  # pylint: disable=wrong-import-position
from template_world import COPY, TemplateWorld, archive, runs  # pylint: disable=wrong-import-position

WORLD = []


def w():
    if not WORLD:
        WORLD.append(TemplateWorld())
    return WORLD[0]


def new_key(**spec):
    """Returns the secret of a new key, and its id."""
    secret = w().key(**spec)
    return secret, w().value("SELECT id FROM tokens ORDER BY seq DESC LIMIT 1")


def delete_templates():
    for template in w().e2b("GET", "/templates")[1]:
        eq(w().e2b("DELETE", f"/templates/{template['templateID']}")[0], 204)
    until(lambda: w().value("SELECT (SELECT count(*) FROM snapshots) + (SELECT count(*) FROM template_builds)") == 0,
          "the end of their files")


def revoke(token):
    eq(w().client().ask("DELETE", f"/v1/tokens/{token}").status, 204)


def send_part(path, world=None, size=2 * MIB):
    """Sends one of several megabytes to the path; returns the connection."""
    s = socket.create_connection(("127.0.0.1", (world or w()).port), timeout=60)
    s.sendall(f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {size}\r\n\r\n".encode() + bytes(MIB))
    return s


def connections():
    """Returns the number of clients on the port of the service."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        lines = [line.split() for line in f]
    return sum(x[1].endswith(f":{w().port:04X}") and x[3] in ("01", "08") for x in lines)


@test
def an_upload_url_ends_with_its_key():
    secret, token = new_key()
    template = w().request("keys")[0]
    path, kept = w().upload_path(template, secret=secret), w().upload_path(template)
    eq(w().upload(path, archive(a=b"1")), 200)  # positive control
    with contextlib.closing(send_part(path)) as s:
        until(lambda: MIB in w().archives(), "the upload")
        revoke(token)
        ok(b" 401 " in s.recv(4096).split(b"\r\n")[0], "an upload in progress continues")
    eq(w().upload(path, archive(a=b"2")), 401)
    eq(w().upload(kept, archive(a=b"2")), 200)


@test
def a_build_ends_with_its_key():
    secret, token = new_key()
    path = w().build("keys", "echo begun; sleep 100782", secret=secret)
    other = w().build("kept", "echo begun; sleep 100783")
    for at in (path, other):
        w().logged(at, "begun")
    revoke(token)
    state, reason = w().ended(path)
    eq((state, "revoked" in reason["message"], reason["step"]), ("error", True, "1"))
    until(lambda: not runs("sleep 100782"), "the end of its command")
    eq(w().status(other), "building")  # positive control
    eq(w().e2b("DELETE", f"/templates/{other.split('/')[2]}")[0], 204)
    until(lambda: not runs("sleep 100783"), "the end of the other command")
    eq(w().ended(w().build("keys", "true")), ("ready", None))


@test
def uploads_and_builds_end_when_their_key_expires():
    secret = new_key(expires_in_ms=12000)[0]
    path = w().build("keys", "echo begun; sleep 100784", secret=secret)
    upload = w().upload_path(path.split("/")[2], secret=secret)
    eq(w().upload(upload, archive(a=b"3")), 200)  # positive control
    state, reason = w().ended(path)
    eq((state, "expired" in reason["message"]), ("error", True))
    eq(w().upload(upload, archive(a=b"3")), 401)
    until(lambda: not runs("sleep 100784"), "the end of its command")


def waits_for_lock(pid):
    with open("/proc/locks", encoding="ascii") as f:
        return any(line.split()[1] == "->" and line.split()[5] == str(pid) for line in f)


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@test
def a_refused_build_reserves_nothing():
    def started(n):
        template, build = w().request(f"turns{n}")
        return w().e2b("POST", f"/v2/templates/{template}/builds/{build}",
                       {"fromTemplate": "base", "steps": [{"type": "RUN", "args": ["sleep 100785"]}]})[0]

    delete_templates()
    n = 0
    while (status := started(n)) == 202:
        n += 1
    eq((status, n > 0), (429, True))
    eq([started(i) for i in range(3)], [429] * 3)
    eq(w().value("SELECT count(*) FROM snapshots"), n)
    delete_templates()
    until(lambda: not runs("sleep 100785"), "the end of the commands")
    eq(w().ended(w().build("turns", "true")), ("ready", None))  # positive control


@test
def a_build_that_is_cancelled_at_its_end_leaves_no_image():
    delete_templates()
    data = archive(a=os.urandom(4 << 20))
    template = w().request("late")[0]
    eq(w().upload(w().upload_path(template), data), 200)
    eq(w().ended(w().build("late", COPY)), ("ready", None))
    eq(len(w().snapshot_refs()), 1)  # positive control
    with open(f"{w().state}/images/lock", "rb") as lock:
        # Its steps are in the cache, so it locks the store only once: to record its image.
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = w().build("late", COPY)
        pid = until(w().builder, "the process of the build")
        until(lambda: waits_for_lock(pid), "the end of the build")
        w().logged(path, "CACHED")
        with stopped(pid):
            eq(w().status(path), "building")
            eq(w().e2b("DELETE", f"/templates/{path.split('/')[2]}")[0], 204)
            fcntl.flock(lock, fcntl.LOCK_UN)
            until(lambda: w().value("SELECT count(*) FROM snapshots") == 0, "the end of its snapshot")
    until(lambda: not w().builder(), "the end of the build")
    eq(w().snapshot_refs(), [])


@test
def builds_at_the_same_time_keep_their_files():
    """Each build that begins or ends frees what is left of others, while the others unpack what they copy."""
    tenants, count = ("one", "two", "three"), 1500
    check = {"type": "RUN", "args": [f"test $(ls /home/user/many | wc -l) = {count}"]}

    def built(n, k):
        secret, name = w().key_of(tenants[n]), f"many{k}"
        template, files = w().request(name, secret)[0], f"{n}{k}" * 32
        eq(w().upload(w().upload_path(template, files, secret), archive(**{f"{i}": b"x" * n for i in range(count)})), 200)
        path = w().build(name, {"type": "COPY", "args": [".", "/home/user/many/"], "filesHash": files}, check, secret=secret)
        if k == 1:  # a cancelled build frees what it leaves, too
            until(lambda: w().status(path, secret) == "building", "the build")
            return w().e2b("DELETE", f"/templates/{template}", secret=secret)[0]
        return w().ended(path, secret)

    for tenant in tenants:
        w().key_of(tenant)
    with ThreadPoolExecutor(len(tenants)) as pool:
        found = list(pool.map(lambda n: [built(n, k) for k in range(4)], range(len(tenants))))
    eq(found, [[("ready", None), 204, ("ready", None), ("ready", None)]] * len(tenants))
    for tenant in tenants:
        for template in w().e2b("GET", "/templates", secret=w().key_of(tenant))[1]:
            eq(w().e2b("DELETE", f"/templates/{template['templateID']}", secret=w().key_of(tenant))[0], 204)
    # Positive control: the check of the files fails if one is missing.
    eq(w().upload(w().upload_path(w().request("few")[0]), archive(a=b"1")), 200)
    path = w().build("few", COPY | {"args": ["a", "/home/user/many/"]}, check)
    eq(w().ended(path)[0], "error")


@test
def a_check_ends_with_the_wait_for_readiness():
    eq(w().ended(w().build("slow", startCmd="true", readyCmd="sleep 21; false")), ("ready", None))
    body = b'{"templateID": "slow"}'
    with contextlib.closing(socket.create_connection(("127.0.0.1", w().port))) as s:
        s.sendall(f"POST /v2/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {w().key_of()}\r\nContent-Type: application/json\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        until(lambda: len(w().sandboxes()) == 1, "the sandbox")
        box = w().sandboxes()[0]["id"]

        def checks():
            execs = w().get(f"/v1/sandboxes/{box}/execs")["execs"]
            return sorted(x["timeout_ms"] for x in execs if "sleep 21" in str(x["argv"]))

        until(lambda: len(checks()) == 2, "the second check", 60)
        eq((checks()[0] < 30000, checks()[1]), (True, 30000))
    until(lambda: w().sandboxes() == [], "the end of the sandbox", 60)


def layer_bytes(world):
    """Returns the size of all layers in the store of images."""
    total = 0
    for name in os.listdir(f"{world.state}/layers"):
        if name.endswith(".size"):
            with contextlib.suppress(OSError), open(f"{world.state}/layers/{name}", encoding="ascii") as f:
                total += int(f.read())
    return total


@test
def steps_of_builds_are_bounded():
    with TemplateWorld(config="quota: { snapshot_bytes: 20m }\n") as other:
        def built(n, **fields):
            path = other.build("steps", f"head -c 8000000 /dev/urandom >{n}", **fields)
            eq(other.ended(path), ("ready", None))
            cached = "CACHED" in other.e2b("GET", f"{path}/status")[1]["logs"]
            eq(other.e2b("DELETE", "/templates/steps")[0], 204)
            until(lambda: other.value("SELECT count(*) FROM snapshots") == 0, "the end of the snapshot")
            return cached

        eq([built(n) for n in range(2)], [False, False])
        eq(built(0), True)  # positive control, and the other is now the one that was not used for longest
        eq([built(n, force=n > 2) for n in range(2, 5)], [False] * 3)
        eq(other.ended(other.build("small", "true")), ("ready", None))
        eq(other.e2b("DELETE", "/templates/small")[0], 204)
        until(lambda: 16000000 <= layer_bytes(other) <= 20 << 20, "the end of the oldest steps")
        eq((built(1), built(0)), (False, False))
        eq(built(0), True)
        # Steps that are not used are removed by builds of other tenants, too.
        old, keys = time.time() - 15 * 86400, f"{other.state}/images/build"
        eq(other.ended(other.build("theirs", "true", secret=other.key_of("other")), other.key_of("other")), ("ready", None))
        ok(layer_bytes(other) > 8000000, "steps were removed")  # positive control
        for name in os.listdir(keys):
            os.utime(f"{keys}/{name}", (old, old))
        eq(other.ended(other.build("theirs", "true"), None), ("ready", None))
        until(lambda: layer_bytes(other) < 1 << 20, "the end of all steps")


def add_steps(world, tenant, n, age=0):
    """Adds steps without layers to the cache of a tenant, which were used @age days ago; returns their names."""
    images, names = f"{world.state}/images", [f"{age:02x}{i:062x}" for i in range(n)]
    os.makedirs(f"{images}/build", exist_ok=True)
    for i, name in enumerate(names):
        os.mkdir(f"{images}/{name}")
        with open(f"{images}/{name}/record", "w", encoding="ascii") as f:
            f.write(f"warren-image 1\nid sha256:{name}\nsnapshot step:{tenant}\nsize 0\n")
        with open(f"{images}/build/{name}", "w", encoding="ascii") as f:
            f.write(f"sha256:{name}\n")
        used = time.time() - age * 86400 - i
        os.utime(f.name, (used, used))
    return names


@test
def the_number_of_steps_is_bounded():
    for config, limit in (("", 1000), ("quota: { snapshot_bytes: 20m }\n", 320)):
        with TemplateWorld(config=config) as other:
            def steps(names):
                return [i for i, name in enumerate(names) if os.path.exists(f"{other.state}/images/{name}")]

            eq(other.ended(other.build("first", "true")), ("ready", None))
            mine, theirs = add_steps(other, "local", 1100, 1), add_steps(other, "other", 50, 2)
            eq((len(steps(mine)), len(steps(theirs))), (1100, 50))  # positive control
            eq(other.ended(other.build("second", "true")), ("ready", None))
            until(lambda: not other.builder(), "the end of the build")
            # The newest stay; a step of the build is one of those that are counted.
            kept = steps(mine)
            ok(limit - 10 < len(kept) < limit, f"{len(kept)} of at most {limit}")
            eq(kept, list(range(len(kept))))
            eq(len(steps(theirs)), 50)
            ok(len(os.listdir(f"{other.state}/images/build")) < limit + 60, "the cache names removed steps")


@test
def steps_are_freed_while_the_store_is_in_use():
    late = Layer({"late": "1"})
    image, go, served = Image(base(), late), threading.Event(), ServerImage()
    served.manifest, served.type, served.blobs = image.manifest, image.type, image.blobs()

    def behave(request, _):
        if request.path.endswith(late.digest):
            go.wait(WAIT)
        return False

    with TemplateWorld(config="quota: { snapshot_bytes: 20m }\n") as other, Evil(served, behave) as registry:
        pull = Store(other.state).start("image", "pull", "-q", f"{registry.ref}:latest")
        try:
            until(lambda: [x for x in registry.seen if x.path.endswith(late.digest)], "the pull")
            for n in range(5):
                eq(other.ended(other.build("steps", f"head -c 8000000 /dev/urandom >{n}")), ("ready", None))
                eq(other.e2b("DELETE", "/templates/steps")[0], 204)
                until(lambda: other.value("SELECT count(*) FROM snapshots") == 0, "the end of the snapshot")
            eq(other.ended(other.build("small", "true")), ("ready", None))
            until(lambda: 16000000 <= layer_bytes(other) <= 24 << 20, "the end of the oldest steps")
            eq(pull.poll(), None)  # positive control: it still needs the store
            go.set()
            eq((pull.communicate(timeout=WAIT)[1], pull.returncode), (b"", 0))
        finally:
            go.set()
            pull.kill()
            pull.communicate()


@test
def the_end_of_a_failed_build_is_saved_without_its_log():
    path = w().build("unsaved", "echo a log; sleep 3; exit 3")
    w().logged(path, "a log")
    trigger = "CREATE TRIGGER no_space BEFORE {} ON template_builds WHEN length(NEW.logs) > 0 BEGIN SELECT RAISE(ABORT, 'full'); END"
    with contextlib.closing(sqlite3.connect(f"{w().state}/serve/warren.db", timeout=10)) as db:
        db.execute(trigger.format("UPDATE"))
        db.execute(trigger.format("INSERT").replace("no_space", "no_space2"))
        db.commit()
        try:
            state, reason = w().ended(path)
            eq((state, "exit status 3" in reason["message"], reason["step"]), ("error", True, "1"))
            build = path.split("/")[-1]
            eq(w().rows("SELECT logs, step, ended_at > 0 FROM template_builds WHERE id = ?", build), [("", "1", 1)])
        finally:
            db.execute("DROP TRIGGER no_space")
            db.execute("DROP TRIGGER no_space2")
            db.commit()
    # Positive control: otherwise the log is saved, too.
    path = w().build("saved", "echo a log; exit 3")
    eq(w().ended(path)[0], "error")
    ok("a log" in w().value("SELECT logs FROM template_builds WHERE id = ?", path.split("/")[-1]), "the log was not saved")


@test
def steps_are_hidden_from_other_tenants():
    other = w().key_of("other")

    def listed(secret):
        return [x["id"] for x in w().get("/v1/images", token=secret)["images"]]

    def found(word):
        return w().ask("GET", "/v1/images/inspect", query={"image": word}, token=other).status

    Store(w().state).image("import", "-q", layout(f"{folder()}/layout", {"base:1": base_image()}))
    eq(w().ended(w().build("hidden")), ("ready", None))  # all begin with the same image, which has no files
    before, known = listed(other), os.listdir(f"{w().state}/images")
    eq([found(x[:19]) for x in before], [200])  # positive control
    for _ in range(2):  # the second time, the cache forgets the steps of the first
        eq(w().ended(w().build("hidden", "echo secret >n", force=True)), ("ready", None))
        eq(w().upload(w().upload_path(w().request("hidden")[0]), archive(a=b"secret")), 200)
        eq(w().ended(w().build("hidden", COPY, force=True)), ("ready", None))
    steps = [x for x in os.listdir(f"{w().state}/images") if len(x) == 64 and x not in known]
    ok(len(steps) > 3, steps)
    eq(listed(other), before)
    for step in steps:
        for word in (step[:12], f"sha256:{step[:12]}"):
            eq(found(word), 404, word)


@test
def the_files_of_a_template_cannot_be_deleted_as_a_snapshot():
    path = w().build("named", "echo 7 >n")
    eq(w().ended(path), ("ready", None))
    snapshot = w().value("SELECT snapshot FROM template_builds WHERE id = ?", path.split("/")[-1])
    refused(w().ask("DELETE", f"/v1/snapshots/{snapshot}"), 409, None, "template")
    eq(w().e2b("DELETE", f"/templates/{snapshot}")[0], 409)
    w().post(f"/v1/snapshots/{snapshot}/tag", {"name": "prod"})
    eq(w().ask("DELETE", "/v1/snapshots/prod").status, 204)
    status, box = w().e2b("POST", "/v2/sandboxes", {"templateID": "named"})
    eq(status, 201)
    eq(w().run(box["sandboxID"], "cat n")["stdout"], "7\n")
    eq(w().e2b("DELETE", f"/sandboxes/{box['sandboxID']}")[0], 204)
    # A name keeps the files of a template that is deleted, until the name is removed.
    w().post(f"/v1/snapshots/{snapshot}/tag", {"name": "prod"})
    eq(w().e2b("DELETE", "/templates/named")[0], 204)
    with w().box(snapshot="prod") as box:
        eq(w().run(box, "cat /home/user/n")["stdout"], "7\n")
    eq(w().ask("DELETE", "/v1/snapshots/prod").status, 204)
    until(lambda: w().value("SELECT count(*) FROM snapshots WHERE id = ?", snapshot) == 0, "the end of the files")


@test
def a_repeated_creation_runs_the_start_command_that_the_first_did_not():
    eq(w().ended(w().build("repeats", startCmd="sleep 100786")), ("ready", None))
    body = b'{"templateID": "repeats"}'
    head = (f"POST /v2/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {w().key_of()}\r\nContent-Type: application/json\r\n"
            f"Idempotency-Key: once\r\nContent-Length: {len(body)}\r\n\r\n").encode()
    with stopped(w().warden):
        with contextlib.closing(socket.create_connection(("127.0.0.1", w().port), timeout=60)) as s:
            s.sendall(head + body)
            until(lambda: w().value("SELECT count(*) FROM sandboxes") == 1, "the creation")
        until(lambda: not connections(), "the end of the connection")
    until(lambda: [x["state"] for x in w().sandboxes()] == ["running"], "the sandbox")
    ok(not runs("sleep 100786"), "the command runs without its client")
    status, box = w().call("POST", "/v2/sandboxes", {"templateID": "repeats"}, X_API_Key=w().key_of(), Idempotency_Key="once")
    eq((status, box["sandboxID"]), (201, w().sandboxes()[0]["id"]))
    until(lambda: runs("sleep 100786"), "the start command")
    # It does not run a second time.
    status, box = w().call("POST", "/v2/sandboxes", {"templateID": "repeats"}, X_API_Key=w().key_of(), Idempotency_Key="once")
    eq((status, len(w().get(f"/v1/sandboxes/{box['sandboxID']}/execs")["execs"])), (201, 1))
    eq(w().e2b("DELETE", f"/sandboxes/{box['sandboxID']}")[0], 204)
    until(lambda: not runs("sleep 100786"), "the end of the command")


@test
def an_upload_reserves_its_space_on_the_disk():
    with small_disk("tmpfs", 96 * MIB) as at, TemplateWorld(state=f"{at}/state") as other:
        template = other.request("space")[0]
        first, second = (other.upload_path(template, name * 64) for name in "ab")
        with contextlib.closing(send_part(first, other, 60 * MIB)):
            until(lambda: MIB in other.archives(), "the upload")
            eq(other.announce(second, 60 * MIB), 507)
            eq(other.upload(second, bytes(100000)), 200)  # positive control
        until(lambda: MIB not in other.archives(), "the end of the upload")
        eq(other.announce(second, 60 * MIB, bytes(60 * MIB)), 200)


@test
def nothing_is_left():
    delete_templates()


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
