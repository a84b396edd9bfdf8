#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-queries.py - parameters of queries are as long as their values may be; longer ones are refused"""
import base64
import hashlib
import os
import sys
import tempfile
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, test  # pylint: disable=wrong-import-position
from e2b_raw import RawWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position

WORLD = []
STATE = tempfile.mkdtemp(prefix="warren-test-")
PATH_MAX = 4095  # bytes of a path, without its NUL
NAME = "\u00e4" * 100  # a directory whose name is six times as long in a query


def w():
    if not WORLD:
        WORLD.append(RawWorld())
    return WORLD[0]


def long_path(size, under="/tmp"):
    """Returns a path of @size bytes below a directory."""
    path = under
    while size - len(path.encode()) > 250:
        path += "/" + NAME
    return path + "/" + "x" * (size - len(path.encode()) - 1)


def quoted(text):
    return urllib.parse.quote(text, safe="")


def files(box, path, method="GET", body=None, user=None, **headers):
    who = f"&username={user}" if user is not None else ""
    return w().request(method, f"/files?path={quoted(path)}{who}", body, **w().plane(box), **headers)


def signed(box, path, operation):
    """Returns the path and the query of a URL that the SDK has signed."""
    text = hashlib.sha256(f"{path}:{operation}::{box['envdAccessToken']}".encode()).digest()
    return f"/files?path={quoted(path)}&signature=v1_{quoted(base64.b64encode(text).decode().rstrip('='))}"


def raw(text):
    return {"body": text, "Content-Type": "application/octet-stream"}


@test
def a_path_may_be_as_long_as_in_the_kernel():
    path = long_path(PATH_MAX)
    eq(len(path.encode()), PATH_MAX)
    ok(len(quoted(path)) > 11000, "the query is short")
    with w().e2b_box() as box:
        status, made = files(box, path, "POST", **raw(b"1"))
        eq((status, made[0]["path"] if status == 200 else made), (200, path))
        eq(files(box, path), (200, b"1"))
        url = signed(box, path, "read")
        eq(w().request("GET", url), (200, b"1"), "a URL with a signature")
        eq(w().request("GET", url, **w().plane(box, token=False)), (200, b"1"), "the same, of this sandbox")
        eq(w().rpc(box, "filesystem.Filesystem/Stat", {"path": path})[0], 200)


@test
def a_longer_path_is_refused():
    with w().e2b_box() as box:
        for method, request in (("GET", {}), ("POST", raw(b"1")),
                                ("POST", {"body": b'--x\r\nContent-Disposition: form-data; name="file"; filename="other"\r\n\r\n1\r\n--x--\r\n',
                                          "Content-Type": "multipart/form-data; boundary=x"})):
            status, answer = files(box, long_path(PATH_MAX + 1), method, **request)
            eq((status, answer["code"]), (400, 400), answer)
            ok("path" in answer["message"] and "4095" in answer["message"], answer)
        eq(w().shell(box, "ls /home/user"), "", "a file with another path")
        eq(files(box, "other", "POST", **raw(b"1"))[0], 200)  # positive control


@test
def a_long_name_of_a_user_is_not_the_default_user():
    with w().e2b_box() as box:
        eq(files(box, "a", "POST", user="user", **raw(b"1"))[0], 200)  # positive control
        for n in (32, 63, 64, 200):
            for method, request in (("GET", {}), ("POST", raw(b"2"))):
                status, answer = files(box, "a", method, user="u" * n, **request)
                eq((status, answer["code"]), ((401, 401) if n < 64 else (400, 400)), f"{n} {answer}")
        eq(files(box, "a"), (200, b"1"))


def listed(pairs, **others):
    """Returns the answer to a list with this filter, which is encoded three times."""
    text = urllib.parse.urlencode({quoted(k): quoted(v) for k, v in pairs.items()})
    query = urllib.parse.urlencode({"metadata": text, **others})
    return len(query), *w().control("GET", f"/v2/sandboxes?{query}")


@test
def a_filter_may_have_all_metadata():
    metadata = {f"key {i} \u00e4": "\u00e4\u20ac \U0001f600" * 4 for i in range(40)}
    with w().e2b_box(metadata=metadata) as box:
        size, status, found = listed(metadata)
        ok(size > 12000, f"the query has only {size} bytes")
        eq((status, [x["sandboxID"] for x in found] if status == 200 else found), (200, [box["sandboxID"]]))
        eq(listed({**metadata, "key 1 \u00e4": "other"})[1:], (200, []))
        eq(listed({str(i): "" for i in range(64)})[1:], (200, []))
        status, answer = listed({str(i): "" for i in range(65)})[1:]
        eq((status, answer["code"]), (400, 400))
        ok("metadata" in answer["message"] and "64" in answer["message"], answer)
        # A request whose head is too large gets the status of HTTP, in E2B's form.
        status, answer = listed({"a": "\u00e4" * 4000})[1:]
        eq((status, answer["code"]), (431, 431))


@test
def a_value_that_is_too_long_is_refused_with_its_name():
    for path, name in (("/v2/sandboxes", "state"), ("/v2/sandboxes", "order"), ("/v2/sandboxes", "limit"),
                       ("/v2/sandboxes", "nextToken"), ("/v2/sandboxes", "startedAfter"), ("/v2/sandboxes", "template"),
                       ("/snapshots", "name"), ("/snapshots", "sandboxID"), ("/snapshots", "limit"), ("/v2/templates", "teamID")):
        status, answer = w().control("GET", f"{path}?{name}={'1' * 300}")
        eq((status, answer["code"]), (400, 400), f"{name} {answer}")
        ok(answer["message"].startswith(name), answer)
    eq(w().control("GET", f"/v2/sandboxes?template={'1' * 256}"), (200, []))  # positive control
    eq(w().control("GET", f"/v2/sandboxes?limit=5&{'x' * 300}=1&y={'z' * 9000}"), (200, []), "unknown parameters are ignored")
    eq(w().control("GET", "/v2/sandboxes?template=%zz")[0], 400)


@test
def snapshots_of_another_sandbox_are_not_listed():
    with w().e2b_box() as box:
        eq(w().control("POST", f"/sandboxes/{box['sandboxID']}/snapshots", {})[0], 201)

        def names(of):
            return [x["snapshotID"] for x in w().control("GET", f"/snapshots?sandboxID={of}")[1]]

        eq((len(names(box["sandboxID"])), len(names(f"{box['sandboxID']}-client"))), (1, 1))
        eq(names("k" * 40), [])
        for name in names(box["sandboxID"]):
            eq(w().control("DELETE", f"/templates/{quoted(name)}")[0], 204)


@test
def names_in_paths_that_are_too_long_do_not_exist():
    for path in ("/templates/aliases/{}", "/templates/{}", "/templates/{}/tags", "/sandboxes/{}", "/volumes/{}", "/secrets/{}"):
        for n in (100, 300, 3000):
            status, answer = w().control("GET", path.format("a" * n))
            eq((status, answer["code"]), (404, 404), f"{path} {n}")
        eq(w().control("DELETE", "/templates/" + quoted("a" * 3000 + ":default"))[0], 404)
    name, tag = "n" * 128, "t" * 128
    status, made = w().control("POST", "/v3/templates", {"name": name, "tags": [tag]})
    eq(status, 202, made)
    for word in (name, f"local/{name}", f"local/{name}:{tag}"):  # positive control
        eq(w().control("GET", f"/templates/{quoted(word)}")[0], 200, word)
    eq(w().control("DELETE", f"/templates/{name}")[0], 204)


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, STATE))
