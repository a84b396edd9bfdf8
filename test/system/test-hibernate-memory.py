#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-hibernate-memory.py - a sandbox that hibernates with its memory continues as if nothing had happened"""
import contextlib
import glob
import os
import random
import shutil
import stat
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import WARREN, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from reboot import reboot  # pylint: disable=wrong-import-position
from serve_world import World, cgroups_of, refused, until  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name
# The service must not use memory that it has freed: the C library overwrites it, also in the caches of threads.
os.environ["GLIBC_TUNABLES"] = "glibc.malloc.perturb=85:glibc.malloc.tcache_count=0"

# A process with state that is in no file: an open file and its position, a pipe with data in it, a listening socket,
# and two threads. It answers each connection with its state.
PROGRAM = """
import os, socket, threading
f = open("/srv/file", "r+")
f.readline()
there, here = os.pipe()
os.write(here, b"piped")
os.set_blocking(there, False)
secret = os.urandom(8).hex()
go, done = threading.Semaphore(0), threading.Semaphore(0)
def serve():
    while True:
        go.acquire()
        done.release()
for _ in range(2):
    threading.Thread(target=serve, daemon=True).start()
s = socket.create_server(("127.0.0.1", 7000))
open("/srv/secret", "w").write(secret)
while True:
    c, _ = s.accept()
    go.release()
    done.acquire()
    try:
        piped = os.read(there, 100)
    except BlockingIOError:
        piped = b""
    c.sendall(f"{os.getpid()} {secret} {f.readline().strip()} {piped.decode()} {threading.active_count()}\\n".encode())
    c.close()
"""
ASK = "python3 -c 'import socket; print(socket.create_connection((\"127.0.0.1\", 7000)).makefile().read(), end=\"\")'"


def sh(box, text):
    r = w.run(box, ["sh", "-c", text])
    eq(r["result"]["exit_code"], 0, r)
    return r["stdout"]


def start(box):
    """Starts the process; returns its pid and its secret."""
    w.ask("PUT", f"/v1/sandboxes/{box}/files", PROGRAM.encode(), query={"path": "/srv/program"}, status=201)
    sh(box, "printf '1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n' >/srv/file; cd /srv; setsid python3 program </dev/null >log 2>&1 & "
            "until [ -s /srv/secret ]; do sleep 0.1; done")
    first = sh(box, ASK).split()
    eq(first[2:], ["2", "piped", "3"])
    eq(first[1], sh(box, "cat /srv/secret"))
    return first[:2]


def hibernate(box):
    s = w.ask("POST", f"/v1/sandboxes/{box}/hibernate", {"memory": True}, status=200).json()
    eq((s["state"], s["checkpoint"]), ("hibernated", False))


def saved(box):
    return glob.glob(f"{w.state}/saved/gvisor.*/{box}/*")


def remains():
    return {k: n for k, n in w.objects().items() if n and k in ("processes", "namespaces", "cgroups", "mounts", "boxes", "links")}


def restart(*victims):
    w.kill(*victims)
    if "warden" in victims:
        w.start()
    w.ready()


@test
def its_processes_continue():
    for network in ("loopback", "none"):
        box = w.create(backend="gvisor", network=network)
        if network == "none":  # without a loopback device, there is only the file
            sh(box, "(i=0; while :; do i=$((i+1)); echo $i >/srv/next; mv /srv/next /srv/count; sleep 0.05; done) "
                    "</dev/null >/dev/null 2>&1 & until [ -s /srv/count ]; do sleep 0.05; done")
            n = int(sh(box, "cat /srv/count"))
        else:
            who = start(box)
        ok(len(remains()) > 2, remains())  # the control
        hibernate(box)
        until(lambda: remains() == {}, remains)
        eq(w.get(f"/v1/sandboxes/{box}")["state"], "hibernated")
        if network == "none":
            ok(int(sh(box, "cat /srv/count")) >= n, "it began again")
        else:
            eq(sh(box, ASK).split(), [*who, "3", "3"])
            hibernate(box)
            hibernate(box)
            eq(sh(box, ASK).split(), [*who, "4", "3"])
        w.delete(box)


@test
def its_memory_is_secret_and_is_removed_with_it():
    box = w.create(backend="gvisor")
    start(box)
    hibernate(box)
    memory, = (p for p in saved(box) if p.endswith("/memory"))
    eq((stat.S_IMODE(os.stat(memory).st_mode), os.stat(memory).st_uid), (0o600, os.geteuid()))
    eq(stat.S_IMODE(os.stat(os.path.dirname(memory)).st_mode), 0o700)
    w.delete(box)
    eq(saved(box), [])
    # It does not outlive the wake either.
    box = w.create(backend="gvisor")
    hibernate(box)
    ok(saved(box), "the control: nothing is saved")
    sh(box, "true")
    eq(saved(box), [])
    # Without the option, no memory is kept.
    w.ask("POST", f"/v1/sandboxes/{box}/hibernate", {"timeout_ms": 0}, status=200)
    eq(sorted(os.path.basename(p) for p in saved(box)), ["files", "image"])
    w.delete(box)


@test
def it_survives_the_service_and_a_reboot():
    box = w.create(backend="gvisor")
    who = start(box)
    hibernate(box)
    for victims in (["api"], ["warden"], ["api", "warden"]):
        restart(*victims)
    reboot(w)
    eq(sh(box, ASK).split(), [*who, "3", "3"])
    w.delete(box)
    eq(saved(box), [])


@test
def it_is_not_lost_whenever_the_service_is_killed():
    rng = random.Random(os.environ.get("WARREN_TEST_SEED", "1"))
    box = w.create(backend="gvisor")
    who = start(box)
    for i in range(8):
        if i % 2:
            hibernate(box)
        request = ("run", {"argv": ["true"]}) if i % 2 else ("hibernate", {"memory": True})

        def ask(request=request):
            with contextlib.suppress(Exception):
                w.client().ask("POST", f"/v1/sandboxes/{box}/{request[0]}", request[1])

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(rng.random() * 0.6)
        victims = rng.choice((["api"], ["warden"], ["api", "warden"]))
        w.kill(*victims)
        thread.join()
        if "warden" in victims:
            w.start()
        w.ready()
        # A sandbox whose hibernation was interrupted may be paused, or still being saved.
        if w.get(f"/v1/sandboxes/{box}")["state"] == "paused":
            until(lambda: w.ask("POST", f"/v1/sandboxes/{box}/resume").status == 200, "it cannot be resumed")
        eq(sh(box, ASK).split()[:2], who, (i, request, victims))
    w.delete(box)
    until(lambda: remains() == {}, remains)


@test
def the_error_names_what_cannot_be_saved():
    box, native = w.create(backend="gvisor"), w.create(backend="native", image="host")
    refused(w.ask("POST", f"/v1/sandboxes/{native}/hibernate", {"memory": True}), 501, "not_supported", "native")
    eq(sh(native, "echo on"), "on\n")
    w.delete(native)
    session = w.post(f"/v1/sandboxes/{box}/sessions", {}, status=201)["id"]
    refused(w.ask("POST", f"/v1/sandboxes/{box}/hibernate", {"memory": True}), 409, "conflict", "command")
    w.ask("DELETE", f"/v1/sandboxes/{box}/sessions/{session}")
    until(lambda: w.ask("POST", f"/v1/sandboxes/{box}/hibernate", {"memory": True}).status == 200, "it is not saved")
    w.delete(box)
    box = w.create(backend="gvisor", main={"argv": ["sleep", "1000"]})
    refused(w.ask("POST", f"/v1/sandboxes/{box}/hibernate", {"memory": True}), 501, "not_supported", "main command")
    w.delete(box)


@test
def a_failure_does_not_harm_it():
    """The memory can be saved, but not the files: the processes continue."""
    box = w.create(backend="gvisor")
    who = start(box)
    at = f"{w.state}/saved"
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(at)
    with open(at, "w", encoding="ascii"):
        r = w.ask("POST", f"/v1/sandboxes/{box}/hibernate", {"memory": True})
    ok(r.status >= 400 and at in r.json()["message"], r)
    eq(w.get(f"/v1/sandboxes/{box}")["state"], "running")
    eq(sh(box, ASK).split(), [*who, "3", "3"])
    os.unlink(at)  # the control
    hibernate(box)
    eq(sh(box, ASK).split(), [*who, "4", "3"])
    w.delete(box)


@test
def damaged_state_is_reported():
    box, other = w.create(backend="gvisor"), w.create(backend="gvisor")
    hibernate(box)
    memory, = (p for p in saved(box) if p.endswith("/memory"))
    os.truncate(memory, os.stat(memory).st_size // 2)
    r = w.ask("POST", f"/v1/sandboxes/{box}/run", {"argv": ["true"]})
    ok(r.status >= 500, r)
    eq(sh(other, "echo on"), "on\n")
    w.delete(box)
    w.delete(other)
    until(lambda: not cgroups_of(box), lambda: cgroups_of(box))


@test
def the_command_has_the_option():
    box = w.create(backend="gvisor")
    who = start(box)
    subprocess.run([WARREN, "hibernate", "--memory", box], check=True, timeout=120, stdout=subprocess.PIPE,
                   env={**os.environ, "WARREN_HOST": f"unix:{w.socket}"})
    eq(w.get(f"/v1/sandboxes/{box}")["state"], "hibernated")
    eq(sh(box, ASK).split(), [*who, "3", "3"])
    w.delete(box)


def main():
    global w  # pylint: disable=global-statement
    if not shutil.which("runsc"):
        print("1..0 # SKIP runsc is not installed")
        return 0
    try:
        with World() as w:
            return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
