#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-serve-drain.py - SIGTERM: streams end where they can be continued, and requests in progress are answered

Prints TAP. A stopping service has ten seconds, after which it is killed; these tests check whether it needs them.
"""
import http.client
import json
import socket
import threading
import time
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, check_error, needs, until  # pylint: disable=wrong-import-position

ALL = 9  # in seconds: a stop that takes this long has waited for its time limit


def stop(w):
    """Stops the service; returns how long that took."""
    begun = time.monotonic()
    w.stop()
    return time.monotonic() - begun


class Reader(threading.Thread):
    """Reads a stream to its end: its lines, and whether the answer was complete."""

    def __init__(self, w, where, **query):
        super().__init__(daemon=True)
        self.lines, self.whole, self.client = [], None, w.client()
        self.answer = self.client.send("GET", where, query=query)
        self.start()

    def run(self):
        try:
            for line in self.answer:
                self.lines.append(json.loads(line))
            self.whole = True
        except (OSError, http.client.HTTPException):
            self.whole = False
        self.client.close()


@test
def streams_end_with_a_cursor_when_the_service_stops():
    with World() as w:
        box = w.create()
        e = w.exec(box, "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done")
        output = Reader(w, f"/v1/sandboxes/{box}/execs/{e}/output", follow="true", format="ndjson")
        events = Reader(w, "/v1/events", format="ndjson", since=0)
        quiet = Reader(w, "/v1/events", format="ndjson", type="image.pulled")
        w.ask("PUT", f"/v1/sandboxes/{box}/files", b"x", query={"path": "/tmp/x"})
        watch = Reader(w, f"/v1/sandboxes/{box}/files/watch", path="/tmp", format="ndjson")
        until(lambda: len(output.lines) > 20 and events.lines and watch.lines, lambda: (output.lines, events.lines, watch.lines))
        took = stop(w)
        for r in (output, events, quiet, watch):
            r.join(10)
            ok(r.whole, f"a stream was cut: {r.lines[-2:]}")
        ok(took < ALL, f"it took {took:.1f} s to stop")
        eq([r.answer.headers.get("connection") for r in (output, events)], [None, None], "before it was told to stop")
        ok(all(x["type"] != "exit" for x in output.lines), "an end of what goes on")
        eq((events.lines[-1]["type"], quiet.lines[-1]["type"]), ("heartbeat", "heartbeat"), "the last of the events")

        w.start()
        eq(w.show(box)["state"], "running", "the sandbox")
        more = w.output(box, e, follow="true", format="ndjson", **{"from": output.lines[-1]["cursor"]})
        text = "".join(x.get("data", "") for x in output.lines)
        while len(text) < 4000:
            x = next(more)
            ok(x["type"] in ("output", "heartbeat"), x)
            text += x.get("data", "")
        whole = text.split("\n")[:-1]
        eq(whole, [str(i + 1) for i in range(len(whole))], "the output, before and after")
        for r in (events, quiet):
            found = next(w.events("/v1/events", format="ndjson", since=r.lines[-1]["id"], type=["sandbox.updated", "gap"])
                         if w.ask("PATCH", f"/v1/sandboxes/{box}", {"labels": {"a": "b"}}, status=200) else None)
            eq(found["type"], "sandbox.updated", "what comes after the cursor")


@test
def requests_for_running_commands_are_answered_when_the_service_stops():
    with World() as w:
        box = w.create()
        answers = {}

        def ask(name, method, path, body=None, **query):
            with w.client() as c:
                answers[name] = c.ask(method, path, body, query=query)

        long = w.exec(box, "sleep 1000")
        session = w.post(f"/v1/sandboxes/{box}/sessions", {}, status=201)["id"]
        busy = w.post(f"/v1/sandboxes/{box}/sessions", {}, status=201)["id"]
        asked = {
            "short": ("POST", f"/v1/sandboxes/{box}/run", {"command": "sleep 2; echo done; exit 3"}),
            "long": ("POST", f"/v1/sandboxes/{box}/run", {"command": "echo begun; sleep 1000"}),
            "look": ("GET", f"/v1/sandboxes/{box}/execs/{long}"),
            "wait": ("GET", f"/v1/sandboxes/{box}/wait"),
            "session": ("POST", f"/v1/sandboxes/{box}/sessions/{session}/run", {"command": "sleep 2; echo said"}),
            "busy": ("POST", f"/v1/sandboxes/{box}/sessions/{busy}/run", {"command": "sleep 1000"}),
        }
        query = {"look": {"wait_ms": 60000}, "wait": {"state": "paused", "timeout_ms": 60000}}
        threads = [threading.Thread(target=ask, args=(name, *what), kwargs=query.get(name, {})) for name, what in asked.items()]
        for t in threads:
            t.start()
        until(lambda: len(w.get(f"/v1/sandboxes/{box}/execs")["execs"]) == 5, "not all have begun")
        time.sleep(0.5)
        took = stop(w)
        for t in threads:
            t.join(10)
        eq(sorted(answers), sorted(asked), "requests that were answered")
        ok(took < ALL, f"it took {took:.1f} s to stop")
        eq({name: a.headers.get("connection") for name, a in answers.items()}, {name: "close" for name in asked}, "Connection")
        said = {name: a.json() for name, a in answers.items()}
        eq((said["short"]["stdout"], said["short"]["result"]["exit_code"]), ("done\n", 3), "what could be waited for")
        eq((said["long"]["state"], said["long"]["stdout"], said["long"]["result"]), ("running", "begun\n", None), "what could not")
        eq((said["look"]["state"], said["wait"]["reached"]), ("running", False), "what looks at others")
        eq((said["session"]["stdout"], said["session"]["exit_code"]), ("said\n", 0), "a command of a session")
        check_error(answers["busy"], 503, "shutting_down")

        w.start()
        eq(w.get(f"/v1/sandboxes/{box}/execs/{said['long']['id']}")["state"], "running", "it goes on")


@test
def the_service_does_not_wait_for_readers_that_do_not_read():
    with World() as w:
        box = w.create()
        e = w.exec(box, "yes")
        readers = []
        for _ in range(20):
            s = socket.socket(socket.AF_UNIX)
            s.connect(w.socket)
            s.sendall(f"GET /v1/sandboxes/{box}/execs/{e}/output?follow=true HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            ok(s.recv(12) == b"HTTP/1.1 200", "the head")
            readers.append(s)
        time.sleep(0.5)
        took = stop(w)
        ok(took < ALL, f"it took {took:.1f} s to stop")
        w.start()
        eq(w.get(f"/v1/sandboxes/{box}/execs/{e}")["state"], "running", "who writes for them")


@test
def a_large_pool_is_removed_at_once():
    """Removing the parts one after the other would take as long as creating them."""
    needs("init")
    with World(config="pool:\n  min: 300\n  max: 300\n") as w:
        begun = time.monotonic()
        until(lambda: len(w.parts()) == 300, "the pool is not full", 120)
        made, took = time.monotonic() - begun, stop(w)
        print(f"# 300 were made in {made:.1f} s, and removed in {took:.1f} s", flush=True)
        ok(took < max(1, made * 0.45), f"it took {took:.1f} s to stop, and {made:.1f} s to make the pool")
        eq(w.boxes(), set(), "what is left of the pool")


@test
def clients_can_reconnect_after_a_restart_under_load():
    needs("control")
    with World() as w:
        boxes = [w.create() for _ in range(3)]
        over, wrong, done, again = threading.Event(), [], [0], [0]

        def client(n):
            c, i = w.client(), 0
            while not over.is_set():
                i += 1
                try:
                    r = c.send("POST", f"/v1/sandboxes/{boxes[n]}/run", {"command": f"echo {i}"})
                except (OSError, http.client.HTTPException):  # the answer has not begun: connect again
                    c.close()
                    again[0] += 1
                    time.sleep(0.02)
                    continue
                try:
                    body = json.loads(r.read())
                except (OSError, http.client.HTTPException) as e:
                    wrong.append(f"an answer was cut: {e!r}")
                    c.close()
                    continue
                if r.status == 200 and (body["stdout"], body["state"]) == (f"{i}\n", "exited"):
                    done[0] += 1
                elif r.status == 503 and body["code"] == "shutting_down":
                    again[0] += 1
                else:
                    wrong.append((r.status, body))
            c.close()

        threads = [threading.Thread(target=client, args=(n,)) for n in range(3)]
        for t in threads:
            t.start()
        for _ in range(4):
            before = done[0]
            until(lambda b=before: done[0] > b + 30, "nothing happens")
            took = stop(w)
            ok(took < ALL, f"it took {took:.1f} s to stop")
            w.start()
        over.set()
        for t in threads:
            t.join(30)
        eq(wrong, [], "what clients saw")
        ok(done[0] > 120 and again[0] > 0, (done, again))


if __name__ == "__main__":
    run_tests()
