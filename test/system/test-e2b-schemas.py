#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-schemas.py - responses of E2B's control plane have the fields and types that its SDKs expect"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, test  # pylint: disable=wrong-import-position
from e2b_world import E2bWorld  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position

WORLD = []


def w():
    if not WORLD:
        WORLD.append(E2bWorld())
    return WORLD[0]


@test
def every_response_is_whole():
    w().python("schemas.py")


@test
def metrics_and_logs_are_those_of_the_tenant():
    mine, other = w().key(), w().key(tenant="other")
    status, box = w().call("POST", "/v2/sandboxes", {"templateID": "base"}, X_API_Key=mine)
    eq(status, 201)
    path = f"/sandboxes/metrics?sandbox_ids={box['sandboxID']}"
    eq(w().call("GET", path, X_API_Key=other), (200, {"sandboxes": {}}))
    eq(list(w().call("GET", path, X_API_Key=mine)[1]["sandboxes"]), [box["sandboxID"]])
    logs = f"/v2/sandboxes/{box['sandboxID']}/logs"
    eq([w().call("GET", logs, X_API_Key=k)[0] for k in (mine, other)], [200, 404])
    eq([w().call("GET", p)[0] for p in (path, logs)], [401, 401], "without a key")
    eq(w().call("DELETE", f"/sandboxes/{box['sandboxID']}", X_API_Key=mine)[0], 204)


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
