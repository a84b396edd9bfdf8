#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-volumes.py - volumes through the official SDKs of E2B"""
import concurrent.futures
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, ok, eq  # pylint: disable=wrong-import-position
from e2b_world import E2bWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position

WORLD = []
FILE = b"0123456789" * 10


def w():
    if not WORLD:
        WORLD.append(E2bWorld())
    return WORLD[0]


def create(key, name):
    status, volume = w().call("POST", "/volumes", {"name": name}, X_API_Key=key)
    eq(status, 201, volume)
    return volume


def content(volume, method, rest, body=None, token=None):
    return w().call(method, f"/volumecontent/{volume['volumeID']}/{rest}", body,
                    Authorization=f"Bearer {token or volume['token']}")


def destroy(key, volume):
    eq(w().call("DELETE", f"/volumes/{volume['volumeID']}", X_API_Key=key)[0], 204)


@test
def the_python_sdk_uses_volumes():
    w().python("volumes.py", "sync")


@test
def the_python_sdk_uses_volumes_asynchronously():
    w().python("volumes.py", "asynchronous")


@test
def the_oldest_supported_python_sdk_uses_volumes():
    w().python("volumes.py", "sync", version="old")


@test
def the_javascript_sdk_uses_volumes():
    w().node("volumes.mjs")


@test
def a_volume_belongs_to_its_tenant():
    mine, other = w().key(), w().key(tenant="other")
    volume, theirs = create(mine, "same"), create(other, "same")
    path = f"/volumes/{volume['volumeID']}"
    for method in ("GET", "DELETE"):
        status, body = w().call(method, path, X_API_Key=other)
        eq((status, body["code"]), (404, 404), method)
        eq(w().call(method, path)[0], 401, f"{method} without a key")
    eq([v["volumeID"] for v in w().call("GET", "/volumes", X_API_Key=other)[1]], [theirs["volumeID"]])
    # A token is valid for one volume, and is no key.
    eq(content(volume, "PUT", "file?path=/x", FILE)[0], 201)
    for token in (theirs["token"], mine, "wv__" + "0" * 40, volume["token"][:-1], "x"):
        for method, rest in (("GET", "file?path=/x"), ("GET", "path?path=/x"), ("PUT", "file?path=/x"),
                             ("DELETE", "path?path=/x"), ("GET", "dir?path=/"), ("PATCH", "path?path=/x"),
                             ("POST", "dir?path=/d")):
            eq(content(volume, method, rest, {} if method == "PATCH" else None, token=token)[0], 401, f"{method} {token}")
    eq(w().call("GET", f"/volumecontent/{volume['volumeID']}/path?path=/x")[0], 401, "no token")
    eq(w().call("GET", "/volumes", X_API_Key=volume["token"])[0], 401)
    eq(content(volume, "GET", "path?path=/x")[1]["size"], len(FILE))
    destroy(mine, volume)
    destroy(other, theirs)


@test
def a_token_of_a_volume_has_the_rights_of_its_key_and_ends_with_it():
    maker = w().key()
    volume = create(maker, "rights")
    reader = w().key("read")
    seen = w().call("GET", f"/volumes/{volume['volumeID']}", X_API_Key=reader)[1]
    ok(seen["token"] != volume["token"], "each key gets another token")
    eq(content(volume, "GET", "dir?path=/", token=seen["token"])[0], 403, "the key lacks the scope files")
    made = w().post("/v1/tokens", {"name": "short", "scopes": ["read", "files"], "e2b": True}, status=201)
    seen = w().call("GET", f"/volumes/{volume['volumeID']}", X_API_Key=made["secret"])[1]
    eq(content(volume, "GET", "dir?path=/", token=seen["token"])[0], 200)
    eq(w().call("DELETE", f"/volumes/{volume['volumeID']}", X_API_Key=made["secret"])[0], 403)
    w().ask("DELETE", f"/v1/tokens/{made['id']}", status=204)
    eq(content(volume, "GET", "dir?path=/", token=seen["token"])[0], 401, "the key was revoked")
    eq(content(volume, "GET", "dir?path=/")[0], 200)
    destroy(maker, volume)


@test
def parameters_that_are_not_valid_are_refused():
    key = w().key()
    volume = create(key, "parameters")
    for method, rest in (("GET", "path"), ("GET", "path?path="), ("GET", "dir?path=/&depth=0"),
                         ("GET", "dir?path=/&depth=257"), ("POST", "dir?path=/d&mode=x"), ("POST", "dir?path=/d&uid=-1"),
                         ("POST", "dir?path=/d&uid=4294967295"), ("POST", "dir?path=/d&mode=4096"),
                         ("POST", "dir?path=/d&force=7"), ("PUT", "file?path=/"), ("DELETE", "path?path=/"),
                         ("DELETE", "path?path=/.."), ("PUT", "file?path=/" + "a" * 300),
                         ("GET", "path?path=/" + "a" * 5000)):
        status, body = content(volume, method, rest, b"x" if method == "PUT" else None)
        eq((status, body["code"]), (400, 400), f"{method} {rest[:50]}: {body}")
    for body in ({"uid": -1}, {"mode": 0o10000}, {"mode": "644"}, {"owner": 1}):
        eq(content(volume, "PATCH", "path?path=/", body)[0], 400, body)
    eq(content(volume, "POST", "dir?path=/d&mode=0&uid=4294967294&force=true")[1]["uid"], 4294967294)
    eq(content(volume, "PATCH", "path?path=/d", {"mode": 0o1777, "uid": None})[1]["mode"], 0o1777)
    eq(content(volume, "GET", "path?path=/../../d/../d/.")[0], 200, "no path leads out of the volume")
    eq(w().call("GET", "/volumes/..", X_API_Key=key)[0], 404)
    destroy(key, volume)


@test
def a_mount_needs_a_volume_and_a_path_that_is_clear():
    key = w().key()
    volume = create(key, "mounted")
    theirs = create(w().key(tenant="other"), "theirs")
    for mounts in ([{"name": "missing", "path": "/a"}], [{"name": "theirs", "path": "/a"}], [{"name": "mounted"}],
                   *([{"name": "mounted", "path": p}] for p in ("a", "", "/", "/a/", "/a//b", "/a/../b", "/./a", "/a/..")),
                   [{"name": "mounted", "path": "/a"}, {"name": "mounted", "path": "/a"}],
                   [{"name": "mounted", "path": "/a", "size": 1}]):
        status, body = w().call("POST", "/v2/sandboxes", {"templateID": "base", "volumeMounts": mounts}, X_API_Key=key)
        eq((status, body["code"]), (400, 400), f"{mounts}: {body}")
    status, box = w().call("POST", "/v2/sandboxes", {"templateID": "base", "volumeMounts": [
        {"name": "mounted", "path": "/a"}, {"name": "mounted", "path": "/..b"}]}, X_API_Key=key)
    eq(status, 201, box)
    shown = [x["volumeMounts"] for x in w().call("GET", "/v2/sandboxes", X_API_Key=key)[1]]
    eq(shown, [[{"name": "mounted", "path": "/a"}, {"name": "mounted", "path": "/..b"}]])
    eq(w().call("DELETE", f"/sandboxes/{box['sandboxID']}", X_API_Key=key)[0], 204)
    destroy(key, volume)
    destroy(w().key(tenant="other"), theirs)


@test
def the_size_of_a_volume_is_a_limit_for_uploads():
    key = w().key()
    w().ask("POST", "/v1/volumes", {"name": "small", "size": 16 << 20}, token=key, status=201)
    listed = w().call("GET", "/volumes", X_API_Key=key)[1]
    eq([v["name"] for v in listed], ["small"], "volumes of v1 are volumes of this API")
    volume = w().call("GET", f"/volumes/{listed[0]['volumeID']}", X_API_Key=key)[1]
    eq(content(volume, "PUT", "file?path=/fits", b"x" * (1 << 20))[0], 201)
    status, body = content(volume, "PUT", "file?path=/big", b"x" * (20 << 20))
    eq(status, 507, body)
    eq([e["name"] for e in content(volume, "GET", "dir?path=/")[1] if e["name"] != "lost+found"], ["fits"],
       "an upload that failed leaves nothing")
    destroy(key, volume)


@test
def a_list_of_a_deep_tree_has_a_maximum():
    key = w().key()
    volume = create(key, "deep")
    path = "".join(f"/{i:0100}" for i in range(30))
    eq(content(volume, "POST", f"dir?path={path}&force=true")[0], 201)
    eq(content(volume, "PUT", f"file?path={path}/end", b"x")[0], 201)
    entries = [e for e in content(volume, "GET", "dir?path=/&depth=256")[1] if e["name"] != "lost+found"]
    eq((len(entries), entries[-1]["path"]), (31, f"{path}/end"))
    entries = [e for e in content(volume, "GET", "dir?path=/&depth=3")[1] if e["name"] != "lost+found"]
    eq(len(entries), 3)
    # More names (of two files) than a list may have, in two directories; each of them can be listed.
    with w().box(mounts=[{"volume": "deep", "target": "/deep"}], user="root") as box:
        for name in ("many", "more"):
            program = f"import os; os.chdir('/deep/{name}'); [os.link('1', str(i)) for i in range(2, 50001)]"
            r = w().run(box, f'mkdir /deep/{name} && touch /deep/{name}/1 && python3 -c "{program}"')
            eq(r["result"]["exit_code"], 0, r)
    status, body = content(volume, "GET", "dir?path=/&depth=2")
    eq(status, 400)
    ok("more than 100000 entries" in body["message"], body)
    status, entries = content(volume, "GET", "dir?path=/many&depth=2")
    eq((status, [e["name"] for e in entries] == sorted(str(i + 1) for i in range(50000))), (200, True))
    destroy(key, volume)


@test
def a_token_of_a_volume_outlives_the_service():
    key = w().key()
    volume = create(key, "lasting")
    eq(content(volume, "PUT", "file?path=/x", FILE)[0], 201)
    w().stop()
    w().start()
    eq(content(volume, "GET", "path?path=/x")[1]["size"], len(FILE))
    destroy(key, volume)


@test
def every_volume_of_a_killed_service_can_be_written():
    key, seen = w().key(), 0

    def mode(volume):
        return content(volume, "GET", "path?path=/")[1]["mode"] & 0o7777
    for turn in range(6):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            jobs = [pool.submit(w().call, "POST", "/volumes", {"name": f"k{n}"}, X_API_Key=key) for n in range(4)]
            if turn % 2 == 0:
                next(concurrent.futures.as_completed(jobs))
            w().kill("api", "warden")
            done = {j.result()[1]["name"] for j in jobs if not j.exception() and j.result()[0] == 201}
        w().start()
        listed = w().call("GET", "/volumes", X_API_Key=key)[1]
        ok(done <= {v["name"] for v in listed}, f"acknowledged: {done}, listed: {listed}")
        for volume in listed:
            status, volume = w().call("GET", f"/volumes/{volume['volumeID']}", X_API_Key=key)
            eq((status, mode(volume)), (200, 0o777), volume["name"])
            seen += 1
            destroy(key, volume)
    ok(seen > 0, "no volume was created")
    eq(w().ask("POST", "/v1/volumes", {"name": "plain", "size": "16m"}).status, 201)
    listed = w().call("GET", "/volumes", X_API_Key=key)[1]
    eq([v["name"] for v in listed], ["plain"])
    status, plain = w().call("GET", f"/volumes/{listed[0]['volumeID']}", X_API_Key=key)
    eq((status, mode(plain)), (200, 0o755), "a volume of another API")
    eq(w().ask("DELETE", "/v1/volumes/plain").status, 204)


@test
def no_volume_is_left():
    eq(w().rows("SELECT tenant, name FROM volumes"), [])
    eq(os.listdir(f"{w().state}/volumes"), [])


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
