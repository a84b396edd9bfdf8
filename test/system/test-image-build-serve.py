#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-image-build-serve.py - a service builds images for its clients, by the rules for each tenant

The tests of test-image-build.py in SHARED run again, with the service as the builder.
"""
import glob
import importlib.util
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import checks  # pylint: disable=wrong-import-position
from build_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from fault_world import small_disk  # pylint: disable=wrong-import-position
from serve_world import UnixConnection, World, check_error  # pylint: disable=wrong-import-position

SHARED = ("a_build_runs_commands_and_copies_files", "a_second_build_is_cached_completely", "a_changed_file_invalidates_the_steps_after_it",
          "stages_are_built_only_if_they_are_needed", "copy_follows_dockers_rules", "a_link_never_leads_out_of_the_context_or_the_image",
          "files_can_come_from_heredocs", "add_unpacks_local_archives", "dockerignore_excludes_files",
          "a_dockerignore_that_cannot_be_read_is_an_error", "the_configuration_is_recorded",
          "arguments_have_their_scope", "a_build_can_start_from_host", "run_has_no_network_unless_it_is_allowed",
          "each_refusal_names_its_line_before_anything_runs", "a_failed_command_ends_the_build")
TAR = {"Content-Type": "application/x-tar"}
world = None  # pylint: disable=invalid-name


class Served(Builder):
    """The store of the service, with the image base:1; `image build` is sent to the service."""

    def __init__(self, *args, config=None, where=None, **kw):
        Store.__init__(self, (where or world).state, *args, **kw)
        self.where = where or world
        for image in self.ls():
            self.image("rm", "-f", image["id"])
        self.image("prune", "-a")
        self.image("import", "-q", layout(f"{folder()}/layout", {"base:1": base_image(config)}))

    def start(self, *args, **kw):
        if args[:2] == ("image", "build"):
            kw["env"] = {"WARREN_HOST": f"unix:{self.where.socket}", **kw.get("env", {})}
        return super().start(*args, **kw)


def share():
    """Registers the tests of test-image-build.py that mean the same here."""
    mine, checks.tests[:] = list(checks.tests), []
    spec = importlib.util.spec_from_file_location("test_image_build", f"{HERE}/test-image-build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.Builder = Served
    theirs = {t.__name__: t for t in checks.tests}
    checks.tests[:] = [theirs[n] for n in SHARED] + mine


def context(dockerfile, **files):
    return tar({"Dockerfile": dockerfile, **files})


def send(body, status=200, token=None, where=None, **query):
    """Builds and returns the events; or the error, if the status is another one."""
    r = (where or world).ask("POST", "/v1/images/build", body, headers=TAR, query=query, token=token)
    eq(r.status, status, r.body[:500])
    return [json.loads(line) for line in r.body.splitlines()] if status == 200 else r


def built(body, **kw):
    events = send(body, **kw)
    eq(events[-1]["type"], "done", events[-3:])
    return events[-1]["id"]


def failed(body, words, **kw):
    events = send(body, **kw)
    eq(events[-1]["type"], "error", events[-3:])
    ok(words in events[-1]["error"]["message"], f"{words!r} is not in {events[-1]['error']}")
    return events[-1]["error"]


def left(s):
    """What a build that has ended must not leave: its processes and temporary files."""
    found = [n for n in glob.glob(f"{s.path}/layers/d/.new-*")]
    for n in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            with open(n, "rb") as f:
                line = f.read()
            if line == b"sleep\x00100778\x00" or (b"build-request" in line and s.where.run_dir.encode() in line):
                found.append(line)
    return found


@contextlib.contextmanager
def half_way(s, body=None, token=None):
    """A build that runs a command which does not end; yields the answer, and its text until now in .text."""
    c = UnixConnection(s.where.socket, WAIT)
    c.request("POST", "/v1/images/build", body or context("FROM base:1\nCOPY . /c\nRUN echo started; sleep 100778\n"),
              {**TAR, **({"Authorization": f"Bearer {token}"} if token else {})})
    r = c.getresponse()
    eq(r.status, 200)
    r.text = ""
    while "started\n" not in r.text:  # one event may contain several lines
        line = r.readline()
        ok(line, f"it ended: {r.text}")
        r.text += json.loads(line).get("text", "")
    ok(left(s), "nothing runs")  # positive control
    try:
        yield r
    finally:
        c.close()


# --------------------------------------------------------------------- requests


@test
def events_report_the_output_and_the_result():
    s = Served()
    events = send(context("FROM base:1\nARG V\nRUN printf '\\303\\244 \\377\\n'; echo v is $V\n", x="y"), tag="mine:1", label="a=b", build_arg="V=5")
    text = "".join(e.get("text", "") for e in events)
    ok("[2/2] RUN printf" in text and "\u00e4 \ufffd\n" in text and "v is 5\n" in text and "naming it mine:1\n" in text, text)
    eq(events[-1]["names"], ["mine:1"])
    eq(s.config("mine:1")["config"]["Labels"], {"a": "b"})
    r = world.ask("POST", "/v1/images/build", context("FROM base:1\n"), headers=TAR, query={"format": "sse"})
    ok(b"data: {\"type\":\"done\"" in r.body, r.body)
    eq(built(gzip.compress(context("FROM base:1\n"))), built(context("FROM base:1\n")))
    eq(send(context("FROM base:1\nRUN echo said\n"), quiet="true")[:-1], [])
    check_error(world.ask("POST", "/v1/images/build", None), 400, "invalid_request")
    check_error(send(context("FROM base:1\n"), 400, limits='{"'), 400, "invalid_json")
    check_error(send(context("FROM base:1\n"), 400, limits='{"memory": "x"}'), 400, "invalid_request")
    check_error(send(context("FROM base:1\n"), 400, build_arg="NONE"), 400, "invalid_request")
    check_error(send(context("FROM base:1\nRUN true\n"), 422, dockerfile="none"), 422, "build_failed")


@test
def files_outside_of_the_context_are_sent():
    s, d = Served(), folder()
    write_tree(d, {"c/a": "a", "c/b": "b", "c/.dockerignore": "a\n", "c/.warren-build/x": "x", "sub/Other": "FROM base:1\nCOPY . /t\n",
                   "sub/Other.dockerignore": "b\n"})
    image = s.image("build", "-f", f"{d}/sub/Other", f"{d}/c", "--iidfile", f"{d}/id").strip()
    eq([x.split()[0] for x in s.listing(image)], ["t", "t/.dockerignore", "t/a"])
    with open(f"{d}/id", encoding="ascii") as f:
        eq(f.read(), image)
    image = s.image("build", "-q", "-f", "-", f"{d}/c", input=b"FROM base:1\nCOPY . /t\n").strip()
    eq([x.split()[0] for x in s.listing(image)], ["t", "t/.dockerignore", "t/b"])
    eq(s.said, "")
    s.bad("image", "build", "--secret", "id=a,src=/etc/hostname", f"{d}/c", words=["--secret does not work with WARREN_HOST"])
    s.bad("image", "build", "--allow-dir", f"{d}/c", words=["--allow-dir does not work with WARREN_HOST"])
    os.mknod(f"{d}/c/device", 0o600 | 0o020000, os.makedev(1, 3))
    ok("is a device" in s.call("image", "build", "-f", f"{d}/sub/Other", f"{d}/c")[2], "a device is sent")


@test
def a_hostile_context_is_refused():
    s, outside = Served(), folder()
    for body in (tar({"../x": "x"}), tar({"a/../../x": "x"}), tar({"l": symlink("/"), "l/../../x": "y"}), tar({"h": hardlink("/etc/passwd")}),
                 b"no archive" * 1000, gzip.compress(context("FROM base:1\n"))[:-9]):
        check_error(world.ask("POST", "/v1/images/build", body, headers={**TAR, "Content-Length": str(len(body))}), 422, "build_failed")
    # Links lead nowhere outside of the context.
    check_error(send(tar({"Dockerfile": symlink("/etc/passwd")}), 422), 422, "build_failed")
    check_error(send(tar({"Dockerfile": symlink("../" * 20 + "etc/passwd")}), 422), 422, "build_failed")
    image = built(tar({"Dockerfile": symlink("/d/real"), "d/real": "FROM base:1\nCOPY d /t\n", ".dockerignore": symlink("/etc/passwd"),
                       ".warren-build": symlink(outside)}))
    ok("t/real f 644 0:0 FROM base:1" in s.listing(image), "a link in the context is not followed")
    failed(tar({"Dockerfile": "FROM base:1\nCOPY l/passwd /\n", "l": symlink("/etc")}), "'l/passwd' does not exist")
    ok(os.path.isdir(outside), "a link was followed")
    eq(left(s), [])


# ------------------------------------------------------------------------ rules


@test
def a_tenant_needs_scopes_and_stays_within_its_limits():
    Served()
    for scope in ("images", "write", "exec"):
        token = world.token(*({"images", "write", "exec"} - {scope}), tenant="poor")
        check_error(send(context("FROM base:1\n"), 403, token=token), 403, "forbidden")
    token = world.token("images", "write", "exec", tenant="poor")
    built(context("FROM base:1\nRUN true\n"), token=token)
    check_error(send(context("FROM base:1\n"), 403, limits='{"memory": 3221225472}'), 403, "policy_refused")
    check_error(send(context("FROM base:1\n"), 403, network='{"allow": [{"host": "10.1.2.3"}]}'), 403, "policy_refused")
    failed(context("FROM base:1\nRUN head -c 60000000 /dev/zero >/dev/shm/x\n"), "the command", limits='{"memory": 33554432}')


@test
def quotas_count_builds():
    s = Served()
    with half_way(s):
        used = world.ask("POST", "/v1/images/build", context("FROM base:1\n"), headers=TAR, query={"limits": '{"memory": 2147483648}'})
        eq(used.status, 429, used.body)
        eq(used.json()["code"], "quota_exceeded")
        # It counts for new sandboxes, too.
        check_error(world.ask("POST", "/v1/sandboxes", {"limits": {"memory": 2147483648}}), 429, "quota_exceeded")
    until(lambda: not left(s), "end of the build")
    world.delete(world.create(limits={"memory": 2147483648}))
    built(context("FROM base:1\n"), limits='{"memory": 2147483648}')


@test
def a_limit_above_the_machines_memory_is_refused():
    with World() as w:
        s = Served(where=w)
        check_error(send(context("FROM base:1\n"), 422, where=w, limits='{"memory": 1125899906842624}'), 422, "build_failed")
        built(context("FROM base:1\n"), where=w)
        s.image("prune", "-a")


@test
def no_tenant_occupies_all_turns():
    with World() as w, contextlib.ExitStack() as stack:
        s = Served(where=w)
        one, two, three = (w.token("images", "write", "exec", "read", tenant=t) for t in ("one", "two", "three"))
        body = context("FROM base:1\nRUN true\n")
        for token, n in ((one, 4), (two, 2)):
            for _ in range(n):
                stack.enter_context(half_way(s, token=token))
            check_error(send(body, 503, token=token, where=w), 503, "overloaded")
        built(body, token=three, where=w)
        # Archives do not wait for builds.
        r = w.ask("GET", "/v1/images/archive", token=one, query={"image": "base:1"})
        eq(r.status, 200, r.body[:500])
        stack.close()
        until(lambda: not left(s), "end of the builds")
        built(body, token=one, where=w)
        s.image("prune", "-a")


@test
def tenants_share_no_cache_and_no_snapshot():
    s = Served()
    body = context("FROM base:1\nRUN --mount=type=cache,target=/c,id=one echo x >>/c/n; wc -l </c/n\n")
    text = "".join(e.get("text", "") for e in send(body))
    ok("\n1\n" in text, text)
    ok("CACHED" in str(send(body)), "the tenant has no cache")
    # No directory of the machine keeps what clients write.
    text = "".join(e.get("text", "") for e in send(body, no_cache="true"))
    ok("\n1\n" in text, text)
    text = str(send(context("FROM base:1\nRUN --mount=type=bind,target=/c,rw touch /c/x\n")))
    ok("cannot write to the bind mount" in text, text)
    text = "".join(e.get("text", "") for e in send(body, token=world.token("images", "write", "exec", tenant="other")))
    ok("CACHED" not in text and "\n1\n" in text, text)
    box = world.create(image="base:1")
    made = world.post(f"/v1/sandboxes/{box}/snapshots", {"name": "mine"}, status=201)
    for ref in (made["image"], made["image"][7:], f"warren.snapshot/{made['id']}"):
        for dockerfile in (f"FROM {ref}\n", f"FROM base:1\nCOPY --from={ref} /bin /x\n"):
            r = send(context(dockerfile), 422, token=world.token("images", "write", "exec", "pull", tenant="other"))
            ok("there is no image" in r.json()["message"], r.body)
    r = send(context("FROM base:1\n"), 422, tag="warren.snapshot/x:1")
    eq(r.json()["code"], "build_failed")
    r = send(context(f"FROM dir:{folder()}\n"), 422)
    ok("cannot use a directory of its machine" in r.json()["message"], r.body)
    world.delete(box)
    world.ask("DELETE", "/v1/snapshots/mine", status=204)
    ok(s.ls(), "images")


# ----------------------------------------------------------------------- faults


@test
def a_client_that_leaves_cancels_its_build():
    s = Served()
    with half_way(s):
        pass
    until(lambda: not left(s), "end of the build")
    context_of = write_tree(folder(), {"Dockerfile": "FROM base:1\nRUN echo started; sleep 100778\n"})
    p = s.start("image", "build", context_of)
    until(lambda: any(line == b"sleep\x00100778\x00" for line in left(s)), "command")
    p.terminate()
    p.wait()
    until(lambda: not left(s), "end of the build")
    # A slow context does not lock the store.
    c = UnixConnection(world.socket, WAIT)
    c.putrequest("POST", "/v1/images/build")
    c.putheader("Content-Type", "application/x-tar")
    c.putheader("Content-Length", "1000000")
    c.endheaders(context("FROM base:1\n", **{"x": "x" * 100000})[:60000])
    until(lambda: glob.glob(f"{s.path}/layers/d/.new-*/Dockerfile"), "context")
    s.image("prune")
    ok(glob.glob(f"{s.path}/layers/d/.new-*/Dockerfile"), "the context was removed")
    c.close()
    until(lambda: not left(s), "end of the build")


@test
def a_build_is_cancelled_within_a_large_file():
    s = Served()

    def large():
        return any(os.path.getsize(n) > 1 << 20 for n in glob.glob(f"{s.path}/layers/d/.new-*/large"))
    for body in (context("FROM base:1\nADD large.tar.zst /\n", **{"large.tar.zst": zstd_bomb("large", 60 << 30)}),
                 context("FROM base:1\nRUN dd if=/dev/null of=/large bs=1 seek=60G\n")):
        c = UnixConnection(world.socket, WAIT)
        c.request("POST", "/v1/images/build", body, TAR)
        until(large, "large file")
        ok(left(s), "nothing runs")  # positive control
        c.close()
        until(lambda: not left(s), "end of the build")
    built(context("FROM base:1\nRUN true\n"))


@test
def the_output_of_a_build_may_contain_nul():
    s = Served()
    body = context("FROM base:1\nRUN printf 'a\\000b\\n'; printf 'c\\000d\\n'\n")
    text = "".join(e.get("text", "") for e in send(body))
    ok("a\0b\nc\0d\n" in text, text)
    s.build("FROM base:1\nRUN printf 'a\\000b\\n'; printf 'c\\000d\\n'\n", "--no-cache")
    ok("a\0b\nc\0d\n" in s.said, s.said)


@test
def a_build_has_a_time_limit():
    s = Served()
    error = failed(context("FROM base:1\nRUN echo started; sleep 100778\n"), "did not end within its time", timeout_ms=3000)
    eq(error["code"], "timeout")
    until(lambda: not left(s), "end of the build")


@test
def a_slow_client_stops_the_output_and_loses_nothing():
    s = Served()
    n = 400000
    with half_way(s, context(f"FROM base:1\nRUN sleep 100778 & echo started; seq {n}; echo end\n")) as r:
        text = r.text
        while True:
            event = json.loads(r.readline())
            if event["type"] == "done":
                break
            text += event.get("text", "")
    numbers = text.partition("started\n")[2].partition("end\n")[0]
    ok(numbers == "".join(f"{i}\n" for i in range(1, n + 1)), f"{len(numbers)}: {numbers[:100]!r} ... {text[-200:]!r}")


@test
def a_killed_service_leaves_nothing():
    for who in (("api",), ("warden",), ("api", "warden")):
        with World() as w:
            s = Served(where=w)
            with half_way(s):
                w.kill(*who)
                if "warden" in who:
                    w.start()
                else:
                    w.ready()
            until(lambda s=s: not left(s), f"end of the build after the end of {who}")
            built(context("FROM base:1\nRUN true\n"), where=w)
            s.image("prune", "-a")


@test
def a_full_disk_fails_the_build():
    with small_disk("tmpfs", 64 << 20) as at, World(state=f"{at}/state") as w:
        s = Served(where=w)
        big = context("FROM base:1\nCOPY big /\n", big=os.urandom(40 << 20))
        r = w.ask("POST", "/v1/images/build", big, headers=TAR)
        ok(r.status == 507 or b"disk_full" in r.body, r.body[-500:])
        failed_run = w.ask("POST", "/v1/images/build", context("FROM base:1\nRUN dd if=/dev/urandom of=/big bs=1M count=60\n"), headers=TAR)
        ok(b"disk_full" in failed_run.body, failed_run.body[-500:])
        until(lambda: not left(s), "end of the builds")
        built(context("FROM base:1\nRUN true\n"), where=w)


def around_all(run=run_tests):
    global world  # pylint: disable=global-statement
    with World(config="max: { memory: 2g }\nquota: { memory: 2g }\n") as w:
        world = w
        return run()


if __name__ == "__main__":
    share()
    sys.exit(main(around_all) if checks.ROOT else main())
