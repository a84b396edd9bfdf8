#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-hibernate-races.py - every use of a sandbox succeeds while it hibernates again and again"""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_socket import Socket  # pylint: disable=wrong-import-position
from serve_world import World  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name
SECONDS = 3
ours = threading.local()  # the session of a thread


def write_file(box, i):
    return w.client().ask("PUT", f"/v1/sandboxes/{box}/files", f"{i}".encode(), query={"path": f"/srv/{i}"})


def read_file(box, _):
    r = w.client().ask("GET", f"/v1/sandboxes/{box}/files", query={"path": "/srv/first"})
    ok(r.status != 200 or r.body == b"kept", r.body)
    return r


def list_files(box, _):
    return w.client().ask("GET", f"/v1/sandboxes/{box}/files/list", query={"path": "/srv"})


def run(box, _):
    return w.client().ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]})


def diff(box, _):
    return w.client().ask("GET", f"/v1/sandboxes/{box}/diff")


def snapshot(box, _):
    r = w.client().ask("POST", f"/v1/sandboxes/{box}/snapshots", {})
    return w.client().ask("DELETE", f"/v1/snapshots/{r.json()['id']}") if r.status == 201 else r


def reset(box, _):
    return w.client().ask("POST", f"/v1/sandboxes/{box}/reset")


def run_undoable(box, i):
    return w.client().ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["sh", "-c", f"echo {i} >/srv/x"], "undoable": True})


def run_as_user(box, _):
    return w.client().ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"], "user": "daemon"})


def open_session(box, _):
    r = w.client().ask("POST", f"/v1/sandboxes/{box}/sessions", {})
    return w.client().ask("DELETE", f"/v1/sandboxes/{box}/sessions/{r.json()['id']}") if r.status == 201 else r


def in_session(box, undoable):
    """Runs a command in the session of this thread. Only a hibernation may end its shell."""
    if getattr(ours, "box", None) != box:
        r = w.client().ask("POST", f"/v1/sandboxes/{box}/sessions", {"undoable": undoable})
        if r.status != 201:
            return r
        ours.box, ours.session = box, r.json()["id"]
    r = w.client().ask("POST", f"/v1/sandboxes/{box}/sessions/{ours.session}/run", {"command": "echo $((6 * 7))"})
    if r.status == 200 and not r.json()["ended"]:
        eq((r.json()["exit_code"], r.json()["stdout"]), (0, "42\n"))
    return r


def run_in_session(box, _):
    return in_session(box, False)


def run_undoable_in_session(box, _):
    return in_session(box, True)


def open_terminal(box, _):
    with Socket(w.socket, f"/v1/sandboxes/{box}/terminals") as s:
        eq(s.event()["type"], "attached")
    return None


def open_swerex_session(box, _):
    name = f"s{threading.get_ident()}"
    r = w.client().ask("POST", f"/swerex/{box}/create_session", {"session": name})
    return w.client().ask("POST", f"/swerex/{box}/close_session", {"session": name}) if r.status == 200 else r


USES = (write_file, read_file, list_files, run, diff, snapshot, reset, run_undoable, run_as_user, open_session, run_in_session,
        run_undoable_in_session, open_terminal, open_swerex_session)


def meets(box, use):
    """Calls @use again and again while the sandbox hibernates again and again; returns the answers."""
    end, answers, slept, errors = time.monotonic() + SECONDS, [], [], []

    def again(fn):
        i = 0
        while time.monotonic() < end or i < 3:
            i += 1
            try:
                fn(i)
            except Exception as e:  # pylint: disable=broad-exception-caught
                errors.append(e)
                return

    def sleep(_):
        r = w.client().ask("POST", f"/v1/sandboxes/{box}/hibernate", {"timeout_ms": 0})
        slept.append((r.status, r.body))

    threads = [threading.Thread(target=again, args=(f,))
               for f in (sleep, *[lambda i, u=use: answers.append(u(box, i))] * 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    eq(errors, [])
    eq([s for s in slept if s[0] != 200], [])
    return answers


def make(use):
    def point():
        box = w.create(image="host")
        w.ask("PUT", f"/v1/sandboxes/{box}/files", b"kept", query={"path": "/srv/first"}, status=201)
        answers = meets(box, use)
        ok(len(answers) >= 9, len(answers))
        eq([(a.status, a.body[:300]) for a in answers if a and a.status not in (200, 201, 204)], [])
        w.delete(box)
    point.__name__ = f"{use.__name__}_meets_hibernations"
    return point


for one in USES:
    test(make(one))


@test
def the_output_of_a_shell_that_a_hibernation_ended_is_not_reserved():
    """The output of all shells together would be more than a sandbox may have."""
    box = w.create(image="host")
    at = f"/v1/sandboxes/{box}/sessions"
    session = w.post(at, {"output_limit": "100m"}, status=201)["id"]
    for i in range(8):
        eq(w.post(f"{at}/{session}/run", {"command": "echo x"})["stdout"], "x\n", i)
        w.ask("POST", f"/v1/sandboxes/{box}/hibernate", {"timeout_ms": 0}, status=200)
    w.delete(box)


def main():
    global w  # pylint: disable=global-statement
    with World() as w:
        return run_tests()


if __name__ == "__main__":
    sys.exit(main())
