#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-schemas.py - responses of E2B's control plane have the fields and types that its SDKs expect"""
import datetime
import json
import os
import subprocess
import sys
import tempfile
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, test  # pylint: disable=wrong-import-position
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


@test
def the_log_has_the_commands_of_the_sandbox():
    key = w().key()
    status, box = w().call("POST", "/v2/sandboxes", {"templateID": "base"}, X_API_Key=key)
    eq(status, 201)
    at = f"/sandboxes/{box['sandboxID']}"

    def logs(path, **query):
        status, answer = w().call("GET", f"{path}?{urllib.parse.urlencode(query)}", X_API_Key=key)
        eq(status, 200, answer)
        return answer

    eq(logs(f"{at}/logs"), {"logs": [], "logEntries": []})
    eq(logs(f"/v2{at}/logs"), {"logs": []})
    for command in ("true", "exit 3", "kill -9 $$"):
        w().run(box["sandboxID"], ["sh", "-c", command])
    entries = logs(f"/v2{at}/logs")["logs"]
    eq([(e["level"], e["message"]) for e in entries],
       [("info", "command started"), ("info", "command ended"), ("info", "command started"), ("warn", "command ended"),
        ("info", "command started"), ("warn", "command ended")])
    eq([e["fields"].get("exit_code") for e in entries], [None, "0", None, "3", None, None])
    eq((entries[5]["fields"]["signal"], entries[4]["fields"]["cmd"], json.loads(entries[4]["fields"]["argv"])),
       ("9", "sh", ["sh", "-c", "kill -9 $$"]))
    ok(all(isinstance(v, str) for e in entries for v in e["fields"].values()), entries)
    eq(len({e["fields"]["exec"] for e in entries}), 3)
    old = logs(f"{at}/logs")
    eq((old["logEntries"], [x["timestamp"] for x in old["logs"]]), (entries, [e["timestamp"] for e in entries]))
    eq([json.loads(x["line"]) for x in old["logs"]],
       [{"level": e["level"], "message": e["message"], **e["fields"]} for e in entries])
    # Pages, in both directions, and filters.
    eq(logs(f"/v2{at}/logs", limit=2)["logs"], entries[:2])
    eq(logs(f"/v2{at}/logs", limit=2, direction="backward")["logs"], entries[:-3:-1])
    eq(logs(f"/v2{at}/logs", level="warn")["logs"], [entries[3], entries[5]])
    eq(logs(f"/v2{at}/logs", search="exit 3")["logs"], entries[2:4])
    ms = [round(datetime.datetime.fromisoformat(e["timestamp"].replace("Z", "+00:00")).timestamp() * 1000) for e in entries]
    eq(logs(f"/v2{at}/logs", cursor=ms[3])["logs"], [e for e, t in zip(entries, ms) if t >= ms[3]])
    eq(logs(f"/v2{at}/logs", cursor=ms[3], direction="backward")["logs"], [e for e, t in zip(entries, ms) if t <= ms[3]][::-1])
    eq(logs(f"{at}/logs", start=ms[5] + 1), {"logs": [], "logEntries": []})
    for bad in ("start=x", "limit=-1", "level=loud", "direction=up"):
        status, answer = w().call("GET", f"{at}/logs?{bad}", X_API_Key=key)
        eq((status, answer["code"]), (400, 400), bad)
    eq(w().call("DELETE", at, X_API_Key=key)[0], 204)


@test
def the_command_line_of_e2b_works():
    key = w().key()
    program = f"{w().clients.node()}/node_modules/.bin/e2b"
    status, box = w().call("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 300}, X_API_Key=key)
    eq(status, 201)
    sandbox = box["sandboxID"]

    def e2b(*args, want=0):
        r = subprocess.run([program, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
                           env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "E2B_API_KEY": key, **w().environment})
        eq(r.returncode, want, f"{args}: {r.stdout} {r.stderr}")
        return r.stdout + r.stderr

    for args, words in ((("sandbox", "exec", sandbox, "echo", "printed"), "printed"), (("sandbox", "list"), sandbox),
                        (("sandbox", "info", sandbox), "running"), (("sandbox", "logs", sandbox), "command started"),
                        (("sandbox", "metrics", sandbox), "Memory"), (("template", "list"), "No templates"),
                        (("sandbox", "pause", sandbox), "paused"), (("sandbox", "resume", sandbox), "resumed"),
                        (("sandbox", "kill", sandbox), "killed"), (("sandbox", "kill", sandbox), "wasn't found")):
        ok(words in e2b(*args), args)
    e2b("sandbox", "exec", sandbox, "true", want=1)


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
