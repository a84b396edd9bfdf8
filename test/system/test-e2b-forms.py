#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-forms.py - uploads of E2B's SDK with very many files"""
import http.client
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, test  # pylint: disable=wrong-import-position
from e2b_world import E2bWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position

WORLD = []


def w():
    if not WORLD:
        WORLD.append(E2bWorld())
    return WORLD[0]


def upload(box, names):
    body = b"".join(b"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"%s\"\r\n\r\n1\r\n" % n.encode()
                    for n in names) + b"--x--\r\n"
    c = http.client.HTTPConnection("127.0.0.1", w().port, timeout=120)
    c.request("POST", "/files", body, {"Content-Type": "multipart/form-data; boundary=x", "E2b-Sandbox-Id": box["sandboxID"],
                                       "E2b-Sandbox-Port": "49983", "X-Access-Token": box["envdAccessToken"]})
    r = c.getresponse()
    answer = json.loads(r.read())
    c.close()
    return r.status, answer


@test
def thousands_of_files_are_one_form():
    w().python("forms.py")


@test
def a_path_that_is_repeated_is_found_among_many():
    key = w().key()
    status, box = w().call("POST", "/v2/sandboxes", {"templateID": "base"}, X_API_Key=key)
    eq(status, 201)
    names = [f"d/{i}" for i in range(1500)]
    status, answer = upload(box, names)
    eq((status, len(answer)), (200, 1500))
    status, answer = upload(box, names + ["d/0"])
    eq(status, 400, answer)
    ok("same path '/home/user/d/0'" in answer["message"], answer)
    # The answer is bounded, too: long paths reach its limit before the number of files does.
    long = "/".join(["x" * 250] * 14)
    status, answer = upload(box, [f"{long}/{i}" for i in range(1300)])
    eq(status, 400, str(answer)[:200])
    ok("an answer of 4 MiB" in answer["message"], answer)
    eq(upload(box, ["after"])[0], 200)
    eq(w().call("DELETE", f"/sandboxes/{box['sandboxID']}", X_API_Key=key)[0], 204)


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
