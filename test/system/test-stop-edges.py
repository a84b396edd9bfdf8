#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-stop-edges.py - main commands, stopped sandboxes and updates: scopes, quotas, and atomic changes

Prints TAP.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, refused, running, together, until  # pylint: disable=wrong-import-position


@test
def a_main_command_needs_the_exec_scope():
    scopes = {"read", "write", "exec"}
    whole, short = w.token(*scopes, tenant="t"), w.token(*scopes - {"exec"}, tenant="t")
    main = {"main": {"argv": ["sleep", "1101"]}}
    e = refused(w.ask("POST", "/v1/sandboxes", main, token=short), 403, "forbidden", "'exec'", "/main")
    eq(e["detail"]["scope"], "exec")
    eq(w.sandboxes(), [])
    box = w.create(token=whole, **main)
    until(lambda: running("sleep", "1101"), "it runs")
    # A stop is a change and runs nothing; a start runs the main command, which needs the scope 'exec'.
    eq(w.post(f"/v1/sandboxes/{box}/stop", token=short)["state"], "stopped")
    refused(w.ask("POST", f"/v1/sandboxes/{box}/start", token=short), 403, "forbidden", "'exec'")
    eq(w.show(box)["state"], "stopped")
    ok(not running("sleep", "1101"), "it does not run")
    eq(w.post(f"/v1/sandboxes/{box}/start", token=whole)["state"], "running")
    until(lambda: running("sleep", "1101"), "it runs again")
    refused(w.ask("POST", f"/v1/sandboxes/{box}/start", token=short), 403, "forbidden", "'exec'")
    w.delete(box, token=short)
    # A sandbox without a main command runs nothing when it is started.
    plain = w.create(token=short)
    w.post(f"/v1/sandboxes/{plain}/stop", token=short)
    eq(w.post(f"/v1/sandboxes/{plain}/start", token=short)["state"], "running")
    w.delete(plain, token=short)


@test
def a_stopped_sandbox_keeps_its_charge():
    # Its files may be in memory: a stop must not free the quota for more of them.
    with World(config="quota:\n  memory: 128m\n") as other:
        token = other.token("read", "write", "exec", tenant="small")
        used = "SELECT memory, sandboxes FROM tenants WHERE name = 'small'"
        spec = {"limits": {"memory": "128m"}}
        box = other.create(token=token, **spec)
        other.run(box, "head -c 10000000 /dev/zero > /root/f", token=token)
        eq(other.post(f"/v1/sandboxes/{box}/stop", token=token)["state"], "stopped")
        eq(other.rows(used)[0], (128 << 20, 1))
        refused(other.ask("POST", "/v1/sandboxes", spec, token=token), 429, "quota_exceeded", "memory")
        other.kill("api", "warden")
        other.start()
        eq((other.show(box)["state"], other.rows(used)[0]), ("stopped", (128 << 20, 1)))
        refused(other.ask("POST", "/v1/sandboxes", spec, token=token), 429, "quota_exceeded", "memory")
        # So a start has the memory that it needs, and a deletion frees it.
        eq(other.post(f"/v1/sandboxes/{box}/start", token=token)["state"], "running")
        eq(other.run(box, "wc -c < /root/f", token=token)["stdout"].strip(), "10000000")
        other.post(f"/v1/sandboxes/{box}/stop", token=token)
        other.delete(box, token=token)
        eq(other.rows(used)[0], (0, 0))
        other.delete(other.create(token=token, **spec), token=token)


@test
def a_sandbox_is_not_created_if_its_main_command_exceeds_the_quota():
    with World(config="quota:\n  execs: 1\n") as other:
        token = other.token("read", "write", "exec", tenant="t")
        main = {"main": {"argv": ["sleep", "1102"]}}
        first = other.create(token=token, **main)
        e = refused(other.ask("POST", "/v1/sandboxes", main, token=token), 429, "quota_exceeded", "execs")
        eq((e["detail"]["quota"], e["detail"]["used"], e["detail"]["maximum"]), ("execs", 1, 1))
        eq([s["id"] for s in other.sandboxes()], [first])
        plain = other.create(token=token)
        # Several requests pass the first check at once: one gets its command, and the others create nothing.
        other.delete(first)
        replies = together(8, lambda _: other.client(token).ask("POST", "/v1/sandboxes", main))
        made = [r.json() for r in replies if r.status == 201]
        for r in replies:
            if r.status != 201:
                refused(r, 429, "quota_exceeded")
        eq(len(made), 1, "of them is there")
        ok(made[0]["main"]["exec_id"], "its command runs")
        until(lambda: {s["id"] for s in other.sandboxes()} == {plain, made[0]["id"]}, other.sandboxes)
        eq(other.rows("SELECT execs, sandboxes FROM tenants WHERE name = 't'")[0], (1, 2))
        other.empty()


@test
def an_update_above_the_resources_of_the_machine_is_refused():
    box = w.create(limits={"memory": "64m"})
    for memory, words in (("900t", ["machine has"]), ((1 << 53) - 1, [])):
        refused(w.ask("POST", "/v1/sandboxes", {"limits": {"memory": memory}}), 400, "invalid_request", *words)
        refused(w.ask("PATCH", f"/v1/sandboxes/{box}", {"limits": {"memory": memory}}), 400, "invalid_request", "machine has")
        eq(w.show(box)["limits"]["memory"], 64 << 20)
    eq(w.ask("PATCH", f"/v1/sandboxes/{box}", {"limits": {"memory": "80m"}}, status=200).json()["limits"]["memory"], 80 << 20)
    w.delete(box)


@test
def an_update_takes_effect_as_a_whole_or_not_at_all():
    other = w.create(name="taken", limits={"memory": "64m"})
    box = w.create(name="first", limits={"memory": "64m"}, labels={f"k{i}": "v" for i in range(40)}, ttl_ms=3600000)
    before = {k: v for k, v in w.show(box).items() if k != "last_used_at"}
    rest = {"ttl_ms": None, "on_idle": "delete", "idle_timeout_ms": 5000000, "wake_on_use": False}
    many = {f"j{i}": "v" for i in range(40)}
    for body, status, code in (({"name": "new", "labels": many}, 400, "invalid_request"),
                               ({"limits": {"memory": "100m"}, "labels": many}, 400, "invalid_request"),
                               ({"name": "taken", "limits": {"memory": "100m"}, "labels": {"k1": None}}, 409, "name_in_use"),
                               ({"name": "taken", "labels": {"k1": None}}, 409, "name_in_use"),
                               ({"name": "new", "limits": {"memory": "900t"}}, 400, "invalid_request")):
        refused(w.ask("PATCH", f"/v1/sandboxes/{box}", {**rest, **body}), status, code)
        eq({k: v for k, v in w.show(box).items() if k != "last_used_at"}, before)
    s = w.ask("PATCH", f"/v1/sandboxes/{box}", {**rest, "name": "new", "limits": {"memory": "100m"}, "labels": {"k1": None}},
              status=200).json()
    eq((s["name"], s["limits"]["memory"], len(s["labels"]), s["expires_at"], s["on_idle"], s["wake_on_use"]),
       ("new", 100 << 20, 39, None, "delete", False))
    # Two requests for the same name at once: the one that is refused does not change the limits either.
    for i in range(5):
        boxes = [box, other]
        memory = [w.show(b)["limits"]["memory"] for b in boxes]
        want = {"name": f"both{i}", "limits": {"memory": (200 + i) << 20}}
        replies = together(2, lambda n: w.client().ask("PATCH", f"/v1/sandboxes/{boxes[n]}", want))  # pylint: disable=W0640
        eq(sorted(r.status for r in replies), [200, 409])
        for b, r, old in zip(boxes, replies, memory):
            eq(w.show(b)["limits"]["memory"], (200 + i) << 20 if r.status == 200 else old)
            eq(w.show(b)["name"] == f"both{i}", r.status == 200)
    w.delete(box)
    w.delete(other)


if __name__ == "__main__":
    with World() as w:
        failed = run_tests()
    sys.exit(failed)
