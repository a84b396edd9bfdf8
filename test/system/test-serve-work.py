#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-serve-work.py - works over HTTP: who may see them, their changes, accept and reject

The works are those of `warren work` in the state directory of the service. Prints TAP.
"""
import base64
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import MIB, WARREN, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from review_world import project, tree  # pylint: disable=wrong-import-position
from serve_world import WAIT, World, check_error, refused, rss, slurp, until  # pylint: disable=wrong-import-position

NO_WORK = "k3f9x2m7qd1w"  # an id that does not exist
w = None  # pylint: disable=invalid-name
CHANGE = """sed -i 's/^line 7$/seven/; s/^line 40$/forty/' a.c; rm gone; mv old new; chmod +x run.sh; printf 'x\\0y' >data
printf 'no end' >added; mkdir -p target; echo 1 >target/x; ln -s /etc out"""


@contextlib.contextmanager
def ours(fill=True):
    """A project whose works are those of the service."""
    with project() as p:
        p.env["WARREN_STATE"] = w.state
        if fill:
            p.put("a.c", b"".join(b"line %d\n" % i for i in range(50)))
            p.put("gone", b"1\n2\n")
            p.put("old", b"a file that moves\n" * 5)
            p.put("run.sh", b"#!/bin/sh\n")
            p.put("data", bytes(range(256)) * 10)
            p.put(".gitignore", b"target/\n")
            p.git()
        try:
            yield p
        finally:
            for work in w.get("/v1/works", query={"limit": 1000})["works"]:
                w.ask("DELETE", f"/v1/works/{work['id']}")


def work_of(p, script, *options):
    """Runs a real sandbox in the project; returns the id of its work."""
    before = {x["id"] for x in w.get("/v1/works")["works"]}
    said = subprocess.run([WARREN, "work", *options, p.path, "--", "sh", "-ec", script], env=p.env, cwd="/", check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT)
    eq(said.returncode, 0, said)
    found = {x["id"] for x in w.get("/v1/works")["works"]} - before
    eq(len(found), 1, f"works: {said}")
    return found.pop()


def post(at, verb, status=200, **body):
    return w.ask("POST", f"{at}/{verb}", body, status=status).json()


def programs():
    """Returns the processes of warren-work that the service has started."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and slurp(f"/proc/{name}/cmdline").startswith("request\0"):
                found.append(int(name))
    return found


# ------------------------------------------------------------------ operations


@test
def a_work_is_listed_and_shown():
    with ours() as p:
        eq(w.get("/v1/works"), {"works": [], "next_cursor": None})
        wid = work_of(p, CHANGE, "--name", "mine")
        for name in (wid, wid[:5], "mine"):
            shown = w.get(f"/v1/works/{name}")
            eq((shown["id"], shown["name"], shown["project"], shown["mode"]), (wid, "mine", p.path, "overlay"))
            eq((shown["running"], shown["exit_status"], shown["argv"]), (False, 0, ["sh", "-ec", CHANGE]))
            ok(shown["created_at"] <= shown["ended_at"], shown)
        eq(w.get("/v1/works")["works"], [shown])
        refused(w.ask("GET", f"/v1/works/{NO_WORK}"), 404, "work_not_found", NO_WORK)
        refused(w.ask("GET", "/v1/works/none"), 404, "work_not_found", "none")
        refused(w.ask("GET", "/v1/works/-x"), 404, "not_found", "work_id")
        w.ask("DELETE", "/v1/works/mine", status=204)
        refused(w.ask("DELETE", f"/v1/works/{wid}"), 404, "work_not_found")
        eq(p.get("gone"), b"1\n2\n", "the project")


@test
def the_list_has_pages():
    with ours() as p:
        ids = sorted(p.work(f"echo {i} >f") for i in range(5))
        found, cursor = [], None
        for n in (2, 2, 1):
            page = w.get("/v1/works", query={"limit": 2, **({"cursor": cursor} if cursor else {})})
            eq(len(page["works"]), n)
            found += [x["id"] for x in page["works"]]
            cursor = page["next_cursor"]
        eq((found, cursor), (ids, None))
        refused(w.ask("GET", "/v1/works", query={"cursor": "x"}), 400, "invalid_request", "cursor")
        w.ask("GET", "/v1/works", query={"limit": 0}, status=400)


@test
def changes_and_the_patch_are_those_of_the_command_line():
    with ours() as p:
        wid = work_of(p, CHANGE)
        at = f"/v1/works/{wid}"
        for query, words in (({}, []), ({"ignored": "true"}, ["--ignored"]), ({"path": ["a.c", "old"]}, ["a.c", "old"])):
            eq(w.get(f"{at}/changes", query=query), json.loads(p.warren("diff", wid, "--json", *words).stdout), query)
            r = w.ask("GET", f"{at}/diff", query=query, status=200)
            eq((r.body, r.headers["content-type"]), (p.warren("diff", wid, "--patch", *words).stdout, "text/x-patch"), query)
            ok(r.body, "a patch")
        refused(w.ask("GET", f"{at}/diff", query={"path": "none"}), 404, "file_not_found", "nothing was changed at 'none'")
        refused(w.ask("GET", f"{at}/changes", query={"path": "../x"}), 400, "invalid_request", "not in the project")
        refused(w.ask("GET", f"{at}/changes", query={"path": "/etc"}), 400, "invalid_request", "not in the project")
        refused(w.ask("GET", f"{at}/diff", query={"other": "1"}), 400, "invalid_request", "other")
        refused(w.ask("GET", f"/v1/works/{NO_WORK}/diff"), 404, "work_not_found")


@test
def paths_are_accepted_and_rejected():
    with ours() as p:
        at = f"/v1/works/{work_of(p, CHANGE)}"
        said = post(at, "accept", paths=["a.c", "old"])
        eq((said["accepted"], said["conflicts"]), (2, []))
        n = len(w.get(f"{at}/changes")["changes"])
        eq((said["remaining"], said["removed"], n > 2), (n, False, True), "what the list has")
        ok(b"\nseven\n" in p.get("a.c") and not os.path.lexists(f"{p.path}/old") and p.get("gone"), "those two")
        said = post(at, "reject", paths=["gone"])
        eq((said["rejected"], said["remaining"], said["removed"]), (1, n - 1, False))
        refused(w.ask("POST", f"{at}/reject", {"paths": ["gone"]}), 404, "file_not_found")
        said = post(at, "accept")
        eq((said["accepted"], said["left"]), (3, {"ignored": 1, "guarded": 1, "needs": ["link"], "repository": False}))
        eq(os.stat(f"{p.path}/added").st_mode & 0o777, 0o644, "the umask of the service is for its own files")
        ok(not os.path.lexists(f"{p.path}/out") and not os.path.lexists(f"{p.path}/target"), "what was left")
        said = post(at, "accept", ignored=True, allow=["link"])
        eq((said["accepted"], said["left"]["needs"]), (2, []))
        eq((said["remaining"], said["removed"]), (0, True))
        eq((os.readlink(f"{p.path}/out"), p.get("target/x")), ("/etc", b"1\n"))
        refused(w.ask("GET", at), 404, "work_not_found")


@test
def a_patch_is_accepted_and_rejected_exactly():
    with ours() as p:
        at = f"/v1/works/{work_of(p, CHANGE)}"
        patch = w.ask("GET", f"{at}/diff", query={"path": "a.c"}, status=200).body.decode()
        head, one, two = patch.partition("@@ -5,7")[0], *("@@" + h for h in patch.split("\n@@")[1:])
        one = one if one.endswith("\n") else one + "\n"
        shifted = two.replace("@@ -38,7 +38,7", "@@ -48,7 +50,7")
        ok(shifted != two, two)
        eq(post(at, "accept", patch=head + shifted)["accepted"], 1)
        ok(b"\nforty\n" in p.get("a.c") and b"\nline 7\n" in p.get("a.c"), p.get("a.c"))
        before = tree(p.path)
        data = w.ask("GET", f"{at}/diff", query={"path": "data"}, status=200).body.decode()
        for bad, status, code, why in (
                (data + head + one.replace("seven", "eight"), 409, "conflict", "is not one of the hunks"),
                (data + head + two, 409, "conflict", "is not one of the hunks"),
                (data + "diff --git a/x b/x\nnew file mode 100644\n", 409, "conflict", "no such change"),
                (data + "--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-1\n+2\n", 400, "invalid_request", "the patch is not valid"),
                (data + "--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-1\n+2\n", 409, "conflict", "'etc/passwd' of the patch: the work has no"),
                ("x", 400, "invalid_request", "the patch cannot be read: it names no file"), (data[:-20], 400, "invalid_request", "the patch is not valid")):
            for verb in ("accept", "reject"):
                refused(w.ask("POST", f"{at}/{verb}", {"patch": bad}), status, code, why)
        link = w.ask("GET", f"{at}/diff", query={"path": "out"}, status=200).body.decode()
        refused(w.ask("POST", f"{at}/accept", {"patch": data + link}), 403, "permission_needed", "link")
        eq(tree(p.path), before, "nothing has changed")
        eq(post(at, "reject", patch=head + one)["rejected"], 1)
        eq(post(at, "accept", patch_base64=base64.b64encode(data.encode()).decode())["accepted"], 1)
        eq(p.get("data"), b"x\0y")
        for body in ({"patch": data, "paths": ["x"]}, {"patch": data, "patch_base64": "eA=="}, {"paths": []}, {"patch": ""},
                     {"paths_base64": ["YQBi"]}, {"paths_base64": ["!"]}, {"nonsense": 1}, {"paths": [1]}):
            check_error(w.ask("POST", f"{at}/accept", body), 400)
        for body in ({"allow": ["device"]}, {"conflicts": "x"}):
            check_error(w.ask("POST", f"{at}/accept", body), 400)
        refused(w.ask("POST", f"{at}/reject", {"ignored": True}), 400, "invalid_request", "ignored")


@test
def names_of_any_bytes_are_shown_and_accepted():
    names = [b"new\nline", b'quote"d', b"inv\xff\xfealid", b"-dash", "ä\u202e€".encode(), b"esc\x1b[31m"]
    with ours(fill=False) as p:
        for name in names:
            p.put(os.fsdecode(name), b"1\n")
        wid = work_of(p, "for f in ./*; do echo 2 >\"$f\"; done")
        at = f"/v1/works/{wid}"
        eq(w.get(f"{at}/changes"), json.loads(p.warren("diff", wid, "--json").stdout))
        found = {c["path"]: c for c in w.get(f"{at}/changes")["changes"]}
        bad = [c for c in found.values() if "path_base64" in c]
        eq([base64.b64decode(c["path_base64"]) for c in bad], [b"inv\xff\xfealid"])
        ok("new\nline" in found and 'quote"d' in found, found)
        patch = w.ask("GET", f"{at}/diff", status=200).body
        eq(patch, p.warren("diff", wid, "--patch").stdout)
        encoded = bad[0]["path_base64"]
        one = w.ask("GET", f"{at}/diff", query={"path_base64": encoded, "path": "new\nline"}, status=200).body
        eq(one.count(b"diff --git"), 2)
        eq(post(at, "accept", paths=["new\nline", 'quote"d'], paths_base64=[encoded])["accepted"], 3)
        eq([p.get(os.fsdecode(n)) for n in names], [b"2\n", b"2\n", b"2\n", b"1\n", b"1\n", b"1\n"])
        rest = w.ask("GET", f"{at}/diff", status=200).body.decode()
        eq(post(at, "accept", patch=rest)["accepted"], 3)
        eq({p.get(os.fsdecode(n)) for n in names}, {b"2\n"})


@test
def conflicts_are_listed_and_nothing_is_accepted():
    with ours() as p:
        at = f"/v1/works/{work_of(p, CHANGE)}"
        p.put("a.c", p.get("a.c").replace(b"line 7\n", b"my seven\n"))
        before = tree(p.path)
        r = w.ask("POST", f"{at}/accept", {"paths": ["a.c", "gone"]}, status=409)
        said = r.json()
        eq((said["code"], said["accepted"], [c["path"] for c in said["conflicts"]]), ("merge_conflict", 0, ["a.c"]))
        ok(said["remaining"] > 1 and not said["removed"], said)
        eq((said["request_id"], said["detail"]), (r.headers["x-request-id"], None))
        eq(tree(p.path), before, "nothing has changed")
        said = post(at, "accept", paths=["a.c", "gone"], conflicts="skip")
        eq((said["accepted"], [c["path"] for c in said["conflicts"]]), (1, ["a.c"]))
        said = post(at, "accept", paths=["a.c"], conflicts="theirs")
        eq((said["accepted"], b"\nseven\n" in p.get("a.c")), (1, True))


# ---------------------------------------------------------------- permissions


@test
def only_administrators_of_this_machine_see_works():
    everything = ["read", "write", "exec", "files", "images", "tokens", "metrics", "pull", "secrets"]
    with ours() as p:
        at = f"/v1/works/{work_of(p, CHANGE)}"
        mine, other = w.token("admin"), w.token("admin", tenant="other")
        few, fewer = w.token(*everything), w.token(*everything, tenant="other")
        box = w.create()
        single = w.token("read", "write", sandbox_id=box)
        asks = [("GET", at, None), ("GET", f"{at}/changes", None), ("GET", f"{at}/diff", None),
                ("POST", f"{at}/accept", {"paths": ["none"]}), ("POST", f"{at}/reject", {"paths": ["none"]}), ("DELETE", at, None)]
        for method, path, body in asks:
            gone = refused(w.ask(method, path, body, token=other), 404, "work_not_found")
            none = refused(w.ask(method, path.replace(at, f"/v1/works/{NO_WORK}"), body, token=other), 404, "work_not_found")
            eq(gone["message"].replace(at[10:], NO_WORK), none["message"], "as if it did not exist")
            for token in (few, fewer, single):
                check_error(w.ask(method, path, body, token=token), 403, "forbidden")
        eq(w.get("/v1/works", token=other), {"works": [], "next_cursor": None})
        wanted = {"name": "x", "tenant": "local", "scopes": ["admin"]}
        check_error(w.ask("POST", "/v1/tokens", wanted, token=other), 403, "forbidden")
        check_error(w.ask("GET", "/v1/works", token=few), 403, "forbidden")
        check_error(w.ask("GET", "/v1/works", token="wrn_nonsense"), 401)
        w.delete(box)
        # The positive control: the same requests, of the right tenant.
        eq(len(w.get("/v1/works", token=mine)["works"]), 1)
        w.ask("POST", "/v1/tokens", wanted, token=mine, status=201)
        w.ask("POST", "/v1/tokens", {**wanted, "tenant": "other"}, token=other, status=201)
        for method, path, body in asks[:-1]:
            r = w.ask(method, path, body, token=mine)
            ok(r.status == (404 if body else 200) and b"work_not_found" not in r.body, r)
        w.ask("DELETE", at, status=204, token=mine)


@test
def a_running_work_can_be_seen_but_not_decided_on():
    with ours() as p:
        process = subprocess.Popen([WARREN, "work", "--name", "busy", p.path, "--", "sh", "-c", "echo x >new; sleep 1000"],
                                   env=p.env, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            until(lambda: [c for c in (w.ask("GET", "/v1/works/busy/changes").json().get("changes") or ()) if c["path"] == "new"],
                  "the work does not change anything")
            shown = w.get("/v1/works/busy")
            eq((shown["running"], shown["exit_status"], shown["ended_at"]), (True, None, None))
            ok(b"new file mode" in w.ask("GET", "/v1/works/busy/diff", status=200).body, "its diff")
            for verb in ("accept", "reject"):
                refused(w.ask("POST", f"/v1/works/busy/{verb}", {}), 409, "work_in_use")
            refused(w.ask("DELETE", "/v1/works/busy"), 409, "work_in_use")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(WAIT)
        until(lambda: not w.get("/v1/works/busy")["running"], "it still runs")
        eq(post("/v1/works/busy", "accept")["accepted"], 1)
        eq(p.get("new"), b"x\n")


# --------------------------------------------------------------------- bounds


@test
def a_large_diff_passes_through():
    with ours(fill=False) as p:
        at = f"/v1/works/{p.work('for i in 1 2 3; do head -c 40m /dev/zero | tr -c x y >big$i; done')}"
        before = rss(w.api)
        patch = w.ask("GET", f"{at}/diff", status=200).body
        eq(patch, p.warren("diff", at[10:], "--patch").stdout)
        ok(len(patch) > 120 * MIB, len(patch))
        # With sanitizers, memory that was freed is kept for a while.
        ok("WARREN_SANITIZE" in os.environ or rss(w.api) - before < 32 * MIB, f"the api keeps none of it: {before}, {rss(w.api)}")


@test
def a_diff_that_is_too_large_is_refused():
    with ours(fill=False) as p:
        at = f"/v1/works/{p.work('for i in 1 2 3 4 5 6; do head -c 50m /dev/zero | tr -c x y >big$i; done')}"
        refused(w.ask("GET", f"{at}/diff"), 400, "invalid_request", "more than 268435456 bytes", "give paths")
        ok(len(w.ask("GET", f"{at}/diff", query={"path": "big1"}, status=200).body) > 50 * MIB, "one of them")


@test
def a_client_that_leaves_ends_what_only_reads():
    with ours(fill=False) as p:
        at = f"/v1/works/{p.work('for i in 1 2; do head -c 50m /dev/zero | tr -c x y >big$i; done')}"
        for wait_for_answer in (False, True):
            with w.client() as c:
                if wait_for_answer:
                    c.send("GET", f"{at}/diff").read(1000)
                else:
                    c.open().request("GET", f"{at}/diff")
                until(programs, "the program has not started")
            until(lambda: not programs(), "the program goes on")
        eq(w.ask("GET", "/version").status, 200)


@test
def the_number_of_programs_is_limited():
    with ours(fill=False) as p:
        at = f"/v1/works/{p.work('for i in 1 2 3; do head -c 20m /dev/zero | tr -c x y >big$i; done')}"
        clients = [w.client() for _ in range(12)]
        try:
            replies = [c.send("GET", f"{at}/diff") for c in clients]
            statuses = [r.status for r in replies]
            ok(set(statuses) == {200, 503} and statuses.count(200) >= 6, statuses)
            ok(len(programs()) <= 6, programs())
            eq(post(at, "reject", paths=["big3"])["rejected"], 1, "a decision still has a place")
        finally:
            for c in clients:
                c.close()
        until(lambda: not programs(), "programs go on")
        w.ask("GET", at, status=200)


# ------------------------------------------------------------------- failures


def many(p, n=600):
    """A work that changes many files; returns what the project is before and after."""
    for i in range(n):
        p.put(f"d{i % 50}/f{i}", b"before %d\n" % i)
    before = tree(p.path)
    os.mkdir(f"{p.top}/after")
    wid = p.work("for f in */*; do echo after >$f; done", copy=f"{p.top}/after")
    return wid, before, tree(f"{p.top}/after")


@test
def an_accept_is_complete_or_undone_if_the_api_is_killed():
    seen = set()
    for delay in (0, 0.03, 0.1, 0.3):
        with ours(fill=False) as p:
            wid, before, after = many(p)

            def ask(wid=wid):
                with contextlib.suppress(OSError, http.client.HTTPException):
                    with w.client() as c:
                        c.ask("POST", f"/v1/works/{wid}/accept", {})
            t = threading.Thread(target=ask)
            t.start()
            until(lambda: programs() or not t.is_alive(), "no program")
            time.sleep(delay)
            w.kill("api")
            t.join()
            until(lambda: not programs(), "the program goes on")
            if w.process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    w.process.wait(1)
            if not w.alive():
                w.start()
            w.ready()
            found = tree(p.path)
            ok(found in (before, after), f"some files: {sum(found.get(f) == after[f] for f in after)} of {len(after)}")
            seen.add(found == after)
    ok(True in seen, "a program that has begun completes its work")


@test
def an_accept_is_completed_if_the_client_leaves():
    with ours(fill=False) as p:
        wid, _, after = many(p)
        with w.client() as c:
            c.open().request("POST", f"/v1/works/{wid}/accept", "{}", {"Content-Type": "application/json"})
            until(programs, "the program has not started")
        until(lambda: not programs(), "the program does not end")
        eq(tree(p.path), after)


def accept_killed():
    """Kills the program of an accept. Returns the status of the answer: 200 if it was too late for that."""
    with ours(fill=False) as p:
        wid, before, after = many(p)
        answers = []
        t = threading.Thread(target=lambda: answers.append(w.ask("POST", f"/v1/works/{wid}/accept", {})))
        t.start()
        for pid in until(programs, "the program has not started"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        t.join()
        if answers[0].status == 200:
            return 200
        check_error(answers[0], 500, "internal")
        w.ask("POST", f"/v1/works/{wid}/reject", {"paths": ["none"]}, status=404)  # completes it, or undoes it
        ok(tree(p.path) in (before, after), "all or nothing")
        ok(w.ask("POST", f"/v1/works/{wid}/accept", {}).status in (200, 404), "it continues")
        eq(tree(p.path), after)
        return 500


@test
def a_killed_program_is_an_error_and_nothing_is_lost():
    ok(any(accept_killed() == 500 for _ in range(10)), "it was never killed in time")


@test
def a_large_patch_is_sent_whole():
    with ours(fill=False) as p:
        wid = p.work("seq 250000 >big; cp big bigger; seq 500000 >>bigger")
        one, both = (w.ask("GET", f"/v1/works/{wid}/diff", query=q, status=200).body.decode() for q in ({"path": "big"}, {}))
        ok(MIB < len(one) < 3 * MIB and 4 * MIB < len(both), (len(one), len(both)))  # request.body is 4m
        eq(post(f"/v1/works/{wid}", "accept", patch=one)["accepted"], 1)
        eq(p.get("big"), "".join(f"{i}\n" for i in range(1, 250001)).encode())
        refused(w.ask("POST", f"/v1/works/{wid}/accept", {"patch": both}), 413, "body_too_large")
        eq(post(f"/v1/works/{wid}", "accept")["accepted"], 1)


if __name__ == "__main__":
    with World(tcp=True, limits=lambda: os.umask(0o077)) as w:  # as in packaging/warren.service.in
        run_tests()
