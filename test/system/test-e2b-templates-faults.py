#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-e2b-templates-faults.py - builds and uploads of templates when processes are killed, and when the disk is full"""
import contextlib
import fcntl
import os
import signal
import socket
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import MIB, Skip, eq, ok, test  # pylint: disable=wrong-import-position
from fault_world import PRELOAD, SPACE, FaultyWorld, fill, free, small_disk  # pylint: disable=wrong-import-position
from mcp_stdio import run_alone  # pylint: disable=wrong-import-position
from serve_world import until  # pylint: disable=wrong-import-position
from template_world import COPY, HASH, TemplateWorld, archive, runs  # pylint: disable=wrong-import-position

WORLD = []
VICTIMS = (("api",), ("warden",), ("api", "warden"))


def w():
    if not WORLD:
        WORLD.append(TemplateWorld())
    return WORLD[0]


def kill(*who):
    """Kills processes of the service, and waits until it serves again."""
    w().kill(*who)
    if "warden" in who:
        w().start()
    else:
        w().ready()


def works(world, name):
    """Checks that nothing is left of a build that has failed, and that the next one succeeds."""
    until(lambda: not world.builder(), "the end of the process of the build")
    until(lambda: world.value("SELECT count(*) FROM snapshots") == 0, "the end of the snapshot")
    eq(world.snapshot_refs(), [])
    path = world.build(name, "echo 1 >n")
    eq(world.ended(path), ("ready", None))
    # It has removed incomplete layers and directories of the failed one.
    eq([x for x in os.listdir(f"{world.state}/layers/d") if x.startswith(".new-")], [])
    eq(world.e2b("DELETE", f"/templates/{name}")[0], 204)
    until(lambda: world.value("SELECT count(*) FROM snapshots") == 0, "the end of the files")


@test
def a_service_that_is_killed_during_a_command_has_failed_the_build():
    for n, who in enumerate(VICTIMS):
        path = w().build("killed", f"echo begun; sleep {100790 + n}")
        w().logged(path, "begun")
        kill(*who)
        state, reason = w().ended(path)
        eq((state, "restarted" in reason["message"]), ("error", True), who)
        until(lambda n=n: not runs(f"sleep {100790 + n}"), "the end of the command")
        works(w(), "killed")


@test
def a_service_that_is_killed_during_the_context_has_failed_the_build():
    for who in VICTIMS:
        eq(w().upload(w().upload_path(w().request("context")[0]), archive(a=os.urandom(4 * MIB))), 200)
        with open(f"{w().state}/images/lock", "rb") as lock:
            # The build locks the store before it reads the context, which is larger than its pipe.
            fcntl.flock(lock, fcntl.LOCK_EX)
            path = w().build("context", COPY)
            until(w().builder, "the process of the build")
            kill(*who)
        eq(w().ended(path)[0], "error", who)
        works(w(), "context")


@test
def a_service_that_is_killed_before_it_reads_the_result_has_failed_the_build():
    for who in VICTIMS:
        path = w().build("result", "echo begun; sleep 2; echo 1 >n", force=True)
        w().logged(path, "begun")
        os.kill(w().api, signal.SIGSTOP)
        until(lambda: not w().builder(), "the end of the process of the build")
        eq(len(w().snapshot_refs()), 1, "the build has its image")  # positive control
        kill(*who)
        eq(w().ended(path)[0], "error", who)
        works(w(), "result")


@test
def a_build_whose_process_is_killed_has_failed():
    path = w().build("process", "echo begun; sleep 100795")
    w().logged(path, "begun")
    os.kill(until(w().builder, "the process of the build"), signal.SIGKILL)
    state, reason = w().ended(path)
    eq((state, "ended before it was done" in reason["message"]), ("error", True), reason)
    until(lambda: not runs("sleep 100795"), "the end of the command")
    works(w(), "process")


@test
def nothing_is_left_of_an_upload_when_the_service_is_killed():
    template = w().request("upload")[0]
    for who in VICTIMS:
        path = w().upload_path(template)
        with contextlib.closing(socket.create_connection(("127.0.0.1", w().port), timeout=60)) as s:
            s.sendall(f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {2 * MIB}\r\n\r\n".encode() + bytes(MIB))
            until(lambda: MIB in w().archives(), "the upload")
            kill(*who)
        ok(MIB not in w().archives(), "the archive is still there")
        eq(w().e2b("GET", f"/templates/{template}/files/{HASH}")[1]["present"], False)
        eq(w().upload(path, archive(a=b"1")), 200)  # the same URL is valid
        eq(w().ended(w().build("upload", COPY)), ("ready", None))
        eq(w().e2b("DELETE", "/templates/upload")[0], 204)
        works(w(), "upload")
        template = w().request("upload")[0]


@test
def a_full_disk_fails_builds_and_uploads():
    with small_disk("tmpfs", 96 * MIB) as at, TemplateWorld(state=f"{at}/state") as other:
        path = other.build("full", "head -c 150000000 /dev/urandom >big")
        state, reason = other.ended(path)
        eq((state, reason["step"]), ("error", "1"), reason)
        works(other, "full")
        # Even its result cannot be written.
        path = other.build("full", "echo begun; yes 123456789 | head -n 100000; sleep 3; head -c 1000000 /dev/urandom >n")
        other.logged(path, "begun")
        upload = other.upload_path(other.request("full")[0])
        fill(at)
        status = other.upload(upload, archive(a=bytes(100000)))
        ok(status in (503, 507), f"status {status} of an upload")
        until(lambda: not other.builder(), "the end of the process of the build")
        state, reason = other.ended(path)
        eq((state, reason["step"], "could not be saved" in reason["message"]), ("error", "1", False), reason)
        free(at)
        eq(other.ended(path), (state, reason))
        works(other, "full")
        template = other.request("full")[0]
        eq(other.upload(other.upload_path(template), archive(a=bytes(100000))), 200)
        eq(other.ended(other.build("full", COPY)), ("ready", None))


def space(at):
    """The free bytes of the disk."""
    disk = os.statvfs(at)
    return disk.f_bavail * disk.f_frsize


@test
def a_full_disk_removes_cached_steps_of_builds():
    with small_disk("tmpfs", 192 * MIB) as at, TemplateWorld(state=f"{at}/state") as other:
        eq(other.ended(other.build("large", "head -c 80000000 /dev/urandom >big")), ("ready", None))
        eq(other.e2b("DELETE", "/templates/large")[0], 204)
        with_steps = space(at)
        eq(other.ended(other.build("large", "head -c 80000000 /dev/urandom >big")), ("ready", None))  # of the cache
        ok(space(at) > with_steps - 20 * MIB, "the cache was not used")  # positive control
        eq(other.e2b("DELETE", "/templates/large")[0], 204)
        with open(f"{at}/other", "wb") as f:
            f.write(bytes(space(at) - 2 * MIB))
        until(lambda: space(at) > 70 * MIB, "the end of the cached steps")
        eq(other.ended(other.build("large", "echo 1 >n")), ("ready", None))


class FaultyTemplateWorld(FaultyWorld, TemplateWorld):
    pass


@test
def a_build_whose_end_cannot_be_saved_has_failed():
    if not os.path.exists(PRELOAD):
        raise Skip("this build has no library that lets calls fail")
    with FaultyTemplateWorld() as other:
        path = other.build("unsaved", "echo begun; sleep 2; false")
        other.logged(path, "begun")
        other.faults.set(SPACE, 1, 1)
        state, reason = other.ended(path)
        eq((state, "could not be saved" in reason["message"]), ("error", True), reason)
        other.faults.off()
        eq(other.value("SELECT state FROM template_builds WHERE id = ?", path.split("/")[-1]), 1, "its state in the database")
        works(other, "unsaved")


if __name__ == "__main__":
    sys.exit(run_alone(WORLD, tempfile.mkdtemp(prefix="warren-test-")))
