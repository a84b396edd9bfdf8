#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""E2B's SDK on other backends, where the configuration says what `base` is."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import test, eq, ok  # pylint: disable=wrong-import-position
from e2b_world import E2bWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from serve_world import BACKEND, CONFIGS, IMAGES, has  # pylint: disable=wrong-import-position

WORLD = []
TEMPLATES = {"chroot": "templates:\n  base: { workdir: /tmp }\n",
             "docker": f"templates:\n  base: {{ image: '{IMAGES['docker']}' }}\n"}


def w():
    if not WORLD:
        WORLD.append(E2bWorld(config=CONFIGS[BACKEND] + TEMPLATES.get(BACKEND, "")))
    return WORLD[0]


@test
def the_sdk_works():
    w().python("portable.py", "pauses" if has("pause") else "stays")


@test
def what_a_backend_cannot_do_is_refused():
    key = w().key()
    status, box = w().call("POST", "/v2/sandboxes", {"templateID": "base"}, X_API_Key=key)
    eq(status, 201, box)
    plane = {"E2b_Sandbox_Id": box["sandboxID"], "E2b_Sandbox_Port": "49983", "X_Access_Token": box["envdAccessToken"]}
    status, answer = w().call("POST", "/filesystem.Filesystem/CreateWatcher", {"path": "/tmp"}, **plane)
    if has("watch"):
        eq(status, 200, answer)
    else:  # not `unavailable`, after which SDKs try again
        eq((status, answer["code"]), (501, "unimplemented"), answer)
    status, answer = w().call("POST", f"/sandboxes/{box['sandboxID']}/pause", {"memory": False}, X_API_Key=key)
    ok(status == 204 if has("pause") else status in (400, 501) and answer["code"] == status, (status, answer))
    eq(w().call("DELETE", f"/sandboxes/{box['sandboxID']}", X_API_Key=key)[0], 204)


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
