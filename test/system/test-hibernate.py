#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-hibernate.py - a sandbox that hibernates keeps its files and nothing else, and wakes when it is used"""
import concurrent.futures
import contextlib
import glob
import os
import random
import shutil
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import World, refused, until  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name


def sh(box, text, **kw):
    r = w.run(box, ["sh", "-c", text], **kw)
    eq(r["result"]["exit_code"], 0, r)
    return r["stdout"]


def hibernate(box, **body):
    r = w.ask("POST", f"/v1/sandboxes/{box}/hibernate", body or None, status=200).json()
    eq(r["state"], "hibernated")


def state(box):
    return w.get(f"/v1/sandboxes/{box}")["state"]


def remains():
    """What exists of sandboxes in the kernel, apart from what the service prepares in advance."""
    return {k: n for k, n in w.objects().items() if n and k in ("processes", "namespaces", "cgroups", "mounts", "boxes", "links")}


@test
def a_use_wakes_a_sandbox_with_its_files():
    box = w.create(image="host", env={"A": "b"}, workdir="/srv")
    sh(box, "echo kept >/srv/x; chown 12:34 /srv/x; rm /etc/login.defs; sleep 1000 >/dev/null 2>&1 &")
    ok(len(remains()) > 3, remains())  # the control
    hibernate(box, timeout_ms=0)
    until(lambda: remains() == {}, remains)
    eq(sh(box, "cat x; stat -c %u:%g x; echo $A; test ! -e /etc/login.defs; ps ax | grep -c '[s]leep 1000' || true"),
       "kept\n12:34\nb\n0\n")
    eq(state(box), "running")
    w.delete(box)


@test
def many_uses_wake_it_once():
    box = w.create(image="host")
    sh(box, "echo 1 >/srv/x")
    hibernate(box)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        eq(set(pool.map(lambda i: sh(box, f"echo {i} >/srv/y{i}; cat /srv/x"), range(20))), {"1\n"})
    eq(sh(box, "ls /srv | wc -l"), "21\n")
    w.delete(box)


@test
def it_hibernates_again_and_again():
    box = w.create(image="host")
    for i in range(5):
        sh(box, f"echo {i} >>/srv/x")
        hibernate(box, timeout_ms=0)
        hibernate(box, timeout_ms=0)
    eq(sh(box, "cat /srv/x"), "0\n1\n2\n3\n4\n")
    w.delete(box)


@test
def it_survives_each_process_of_the_service():
    box = w.create(image="host")
    sh(box, "echo kept >/srv/x")
    hibernate(box)
    for victims in (["api"], ["warden"], ["api", "warden"]):
        w.kill(*victims)
        if "warden" in victims:
            w.start()
        w.ready()
        eq(state(box), "hibernated")
    eq(sh(box, "cat /srv/x"), "kept\n")
    w.delete(box)


@test
def a_hibernating_sandbox_is_deleted_with_its_files():
    box = w.create(image="host")
    hibernate(box)
    ok(os.path.isdir(f"{w.state}/saved/{box}"), "the control: no saved files")
    w.delete(box)
    ok(not os.path.exists(f"{w.state}/saved/{box}"), "its files were left")


@test
def start_wakes_it_and_wake_on_use_is_obeyed():
    box = w.create(image="host", wake_on_use=False)
    sh(box, "echo kept >/srv/x")
    hibernate(box)
    refused(w.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]}), 409, None, "hibernated")
    w.ask("POST", f"/v1/sandboxes/{box}/start", status=200)
    eq(sh(box, "cat /srv/x"), "kept\n")
    w.delete(box)


def reboot():
    """Ends everything that a reboot would end: all processes, the run directory, the cgroups."""
    boxes = {os.readlink(p).rpartition("/")[2] for p in glob.glob(f"{w.run_dir}/ids/*")}
    w.kill("api", "warden")
    w.seen |= boxes
    for p in w.processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(p, signal.SIGKILL)
    until(lambda: w.processes() == [], w.processes)
    for top in (p for box in boxes for p in glob.glob(f"/sys/fs/cgroup/*/warren*/{box}") + glob.glob(f"/sys/fs/cgroup/warren*/{box}")):
        for path, _, _ in os.walk(top, topdown=False):
            os.rmdir(path)
    shutil.rmtree(w.run_dir)
    w.start()
    w.ready()


@test
def its_files_are_found_after_a_reboot():
    box, lost = w.create(image="host"), w.create(image="host")
    sh(box, "echo kept >/srv/x")
    hibernate(box)
    reboot()
    until(lambda: state(lost) == "failed", lambda: state(lost))
    eq(sh(box, "cat /srv/x"), "kept\n")
    w.delete(box)
    w.delete(lost)


@test
def no_file_is_lost_whenever_the_service_is_killed():
    rng = random.Random(os.environ.get("WARREN_TEST_SEED", "1"))
    box, written = w.create(image="host"), []
    for i in range(16):
        sh(box, f"echo {i} >>/srv/x")
        written.append(str(i))
        if i % 2:
            hibernate(box, timeout_ms=0)
        request = ("run", {"argv": ["true"]}) if i % 2 else ("hibernate", {"timeout_ms": 0})

        def ask(request=request):
            with contextlib.suppress(Exception):
                w.client().ask("POST", f"/v1/sandboxes/{box}/{request[0]}", request[1])

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(rng.random() * 0.03)
        who = rng.choice((["api"], ["warden"], ["api", "warden"]))
        w.kill(*who)
        thread.join()
        if "warden" in who:
            w.start()
        w.ready()
        if state(box) == "stopped":
            w.ask("POST", f"/v1/sandboxes/{box}/start", status=200)
        eq(sh(box, "cat /srv/x").split(), written, (i, request, who))
    w.delete(box)
    until(lambda: remains() == {}, remains)


def main():
    global w  # pylint: disable=global-statement
    try:
        with World() as w:
            return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
