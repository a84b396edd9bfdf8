#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-oci-store.py - the store of images: listing, naming, removing, sharing, and failures

Prints TAP. $WARREN is the program, $WARREN_BUILD where it was built.
"""
import base64
import fcntl
import glob
import os
import pty
import random
import re
import select
import socket
import struct
import sys
import tarfile
import termios
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from oci_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position

KILLS = int(os.environ.get("WARREN_TEST_KILLS", "25"))


# ---------------------------------------------------------- lists and names


@test
def an_empty_store_can_be_listed_and_pruned():
    s = Store(f"{folder()}/not/there/yet")
    eq(s.image("ls"), "REPOSITORY   TAG   IMAGE ID       CREATED   SIZE\n")
    eq(s.image("ls", "-q"), "")
    eq(s.ls(), [])
    ok(not os.path.exists(s.path), "looking makes nothing")
    eq(s.image("prune"), "Removed: 0 images, 0 layers, 0 leftovers\nTotal reclaimed space: 0B\n")
    eq(s.du(), {"images": [], "layers": 0, "total": 0, "unused": 0})
    s.bad("image", "rm", "none", words=["there is no image 'none'"])
    s.bad("image", "inspect", "none", words=["there is no image 'none'"])
    s.bad("image", "tag", "none", "other", words=["there is no image 'none'"])
    s.env["WARREN_STATE"] = "relative"
    s.bad("image", "ls", words=["WARREN_STATE", "absolute"])
    s.bad("run", "true", words=["WARREN_STATE", "absolute"])


@test
def invalid_arguments_are_refused():
    s = Store()
    rows = [
        ([], "warren image: no command given (see 'warren image --help'; example: warren image pull python:3.12)"),
        (["pul"], "warren image: there is no command 'pul', did you mean 'warren image pull'?"),
        (["pull"], "warren image pull: REFERENCE is missing (example: warren image pull python:3.12)"),
        (["pull", "a", "b"], "warren image pull: unexpected argument 'b' (example: warren image pull python:3.12)"),
        (["pull", "a", "--platfrom", "x"], "warren image pull: unknown option '--platfrom', did you mean --platform? "
                                           "(example: --platform linux/arm64)"),
        (["pull", "--platform", "amd64", "a"], "warren image pull: --platform: 'amd64' is not OS/ARCH[/VARIANT] "
                                               "(example: --platform linux/arm64)"),
        (["pull", "--insecure", "http://x", "a"], "warren image pull: --insecure: 'http://x' is not HOST or HOST:PORT "
                                                  "(example: --insecure registry.lan:5000)"),
        (["pull", "A"], "warren image pull: 'A' is not an image reference: names are lower-case letters and digits, "
                        "separated by . _ - (example: python:3.12)"),
        (["ls", "x"], "warren image ls: unexpected argument 'x' (example: warren image ls)"),
        (["tag", "a"], "warren image tag: REFERENCE is missing (example: warren image tag python:3.12 mine:1.0)"),
        (["rm"], "warren image rm: IMAGE... is missing (example: warren image rm python:3.12)"),
        (["inspect"], "warren image inspect: IMAGE... is missing (example: warren image inspect python:3.12)"),
    ]
    for args, line in rows:
        eq(s.bad("image", *args), line)


@test
def help_and_the_manual_agree():
    s = Store()
    text = s.good("image", "--help")
    eq(s.good("help", "image"), text)
    eq(s.good("image", "-h"), text)
    with open(f"{SOURCE}/man/warren-image.1", encoding="utf-8") as f:
        manual = f.read()
    commands = re.findall(r"^  ([a-z]+) {2,}", text, re.M)
    eq(len(commands), 14, "commands")
    for command in commands:
        ok(re.search(rf"^\.It Cm {command}\b", manual, re.M), f"{command} is not in the manual")
        of_one = s.good("image", command, "--help")
        eq(s.good("help", "image", command), of_one)
        ok(of_one.startswith(f"Usage: warren image {command} [OPTIONS]"), of_one)
        for name in set(re.findall(r"--([a-z-]+)", of_one)) - {"help"}:
            ok(f"Fl -{name}" in manual, f"--{name} is not in the manual")
        ok(max(map(len, of_one.split("\n"))) <= 90, "lines of help are short")
    s.env["WARREN_LIBEXEC"] = "/nowhere"
    s.bad("image", "ls", words=["warren-image", "/nowhere"])


@test
def report_prints_results_as_json_lines():
    s, image = Store(), simple("reported")
    ref = registry().push(image, "report/x", "1")

    def report(*args):
        status, out, err = s.call("image", "--report", *args)
        lines = [json.loads(x) for x in out.splitlines()]
        eq((lines[-1]["type"], lines[-1]["status"], err), ("end", status, ""), f"the last of {lines}")
        return lines
    lines = report("pull", "--json", ref)
    eq({x["digest"]: x["phase"] for x in lines if x.get("type") == "layer"},
       {x.digest: "present" for x in image.layers}, "layers in the end")
    eq(lines[-2]["id"], image.id, "what was printed")
    eq(report("ls", "--json")[0][0]["id"], image.id, "what was listed")
    end = report("inspect", "nothing")[-1]
    eq((end["status"], end["errno"]), (125, 2), "a failure")
    ok("'nothing'" in end["message"], end)


@test
def an_image_whose_record_cannot_be_read_is_refused():
    s, good = Store(), simple("text")
    s.pull(registry().push(good, "record/good", "1"))
    large = simple("text", config={"Env": [f"A{i}=" + "x" * 1000000 for i in range(5)]})
    s.bad("image", "pull", "--quiet", registry().push(large, "record/large", "1"), words=["is larger than 4 MiB"])
    eq([x["id"] for x in s.ls()], [good.id])
    s.image("prune", "-f")


@test
def images_are_found_by_name_and_id():
    s, image = Store(), simple("text", config={"Cmd": ["cat", "/text"], "Labels": {"k": "v"}, "Env": ["A=\n\u00fc"]})
    ref = registry().push(image, "list/x", "1")
    s.pull(ref)
    s.image("tag", ref, "mine")
    s.image("tag", image.id[7:20], "mine/tool:2.0")
    size = sum(x.size for x in image.layers)
    (told,) = s.ls()
    ok(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", told.pop("pulled")), "when it came here")
    eq({k: told[k] for k in told if k != "names"}, {
        "id": image.id, "digest": image.digest, "platform": f"linux/{ARCH}", "created": "2024-02-29T12:00:00Z",
        "size": size, "layers": [x.diff_id for x in image.layers], "user": "", "workdir": "", "env": ["A=\n\u00fc"],
        "entrypoint": [], "cmd": ["cat", "/text"]})
    eq(sorted(s.ls()[0]["names"]), sorted([ref, "mine:latest", "mine/tool:2.0"]))
    lines = [x.split() for x in s.image("ls").splitlines()]
    eq(lines[0], ["REPOSITORY", "TAG", "IMAGE", "ID", "CREATED", "SIZE"])
    eq(sorted(x[:3] for x in lines[1:]), sorted([[ref[:-2], "1", image.id[7:19]], ["mine", "latest", image.id[7:19]],
                                                 ["mine/tool", "2.0", image.id[7:19]]]))
    ok(all(x[3:-1] == ["2", "years", "ago"] and x[-1] == f"{size / 1e6:.2f}MB" for x in lines[1:]), lines)
    eq(s.image("ls", "-q").split(), [image.id[7:19]])
    eq(s.image("ls", "-q", "--no-trunc").split(), [image.id])
    ok(image.digest in s.image("ls", "--digests"), "the digest is not shown")
    for name in (ref, "mine", "mine/tool:2.0", image.id, image.id[7:13]):
        (told,) = json.loads(s.image("inspect", name))
        eq((told["id"], told["digest"], told["platform"], told["size"]), (image.id, image.digest, f"linux/{ARCH}", size))
        eq(told["layers"], [x.diff_id for x in image.layers])
        eq(told["config"], json.loads(image.config))
    eq(len(json.loads(s.image("inspect", "mine", ref))), 2)
    status, out, err = s.call("image", "inspect", "mine", "none")
    ok(status == 125 and len(json.loads(out)) == 1 and "'none'" in err, (status, out, err))
    s.bad("image", "tag", "mine", f"x@{image.digest}", words=["digest"])
    s.bad("image", "tag", "mine", "Upper:x", words=["not an image reference"])


@test
def dangling_images_are_listed_and_pruned():
    s, one, two = Store(), simple("one"), simple("two")
    s.pull(registry().push(one, "dangling/x", "1"))
    s.pull(registry().push(two, "dangling/x", "1"))
    rows = {x.split()[2]: x.split()[:2] for x in s.image("ls").splitlines()[1:]}
    eq(rows[one.id[7:19]], ["<none>", "<none>"])
    eq(s.run(one.id), "one")
    out = s.image("prune")
    eq(out, f"Deleted: {one.id}\nRemoved: 1 image, 1 layer, 0 leftovers\nTotal reclaimed space: {one.layers[1].size / 1e3:.1f}kB\n")
    eq(len(s.directories()), 2)
    eq(json.loads(s.image("prune", "--json"))["images"], 0)
    got = json.loads(s.image("prune", "-a", "--json"))
    eq((got["images"], got["names"], got["layers"], got["bytes"]), (1, 1, 2, sum(x.size for x in two.layers)))
    s.empty()


@test
def damaged_images_are_removed():
    s, whole, broken = Store(), simple("whole"), simple("broken")
    refs = [registry().push(x, "damaged/x", str(n)) for n, x in enumerate((whole, broken))]
    for ref in refs:
        s.pull(ref)
    os.unlink(f"{s.path}/images/{broken.id[7:]}/record")
    # The size of a layer that was written before the layer got its name.
    with open(f"{s.path}/layers/{'ab' * 32}.size", "w", encoding="ascii") as f:
        f.write("1\n")
    eq([x["id"] for x in s.ls()], [whole.id])
    s.bad("run", "--pull", "never", "--image", refs[1], words=[refs[1]])
    eq(json.loads(s.image("prune", "--json"))["leftovers"], 1)
    eq((sorted(os.listdir(f"{s.path}/images")), len(s.directories())), (sorted([whole.id[7:], "lock", "refs"]), 2))
    eq([n for n in os.listdir(f"{s.path}/layers") if n.startswith("abab")], [])
    eq(s.run(refs[0]), "whole")
    eq(s.good("run", "--quiet", "--image", refs[1]), "broken")


# ------------------------------------------------------------------ removal


@test
def an_image_is_deleted_with_its_last_name():
    s, image = Store(), simple("named")
    ref = registry().push(image, "rm/x", "1")
    s.pull(ref)
    s.image("tag", ref, "second")
    s.bad("image", "rm", image.id, words=["several names", "--force"])
    eq(s.image("rm", ref), f"Untagged: {ref}\n")
    eq(s.run("second"), "named")
    eq(s.image("rm", "second"), f"Untagged: second:latest\nDeleted: {image.id}\n")
    s.empty()
    s.pull(ref)
    s.image("tag", ref, "second")
    eq(sorted(s.image("rm", image.id[7:19], "-f").splitlines()),
       sorted(["Untagged: second:latest", f"Untagged: {ref}", f"Deleted: {image.id}"]))
    s.empty()
    s.bad("image", "rm", ref, words=[ref])
    eq(s.image("rm", "-f", ref), "")


@test
def shared_layers_are_stored_once():
    s, shared = Store(), Layer({"shared": noise(3 * MIB, 1)})
    one, two = (Image(base(), shared, Layer({"own": noise((n + 1) * MIB, n)}), config={"Cmd": ["stat", "-c", "%s", "/own"]})
                for n in range(2))
    refs = [registry().push(x, "shared/x", str(n)) for n, x in enumerate((one, two))]
    s.pull(refs[0])
    before = s.du()["total"]
    s.image("pull", refs[1])
    eq(s.said.count("already present"), 2, "layers that were there")
    eq(s.du()["total"] - before, two.layers[2].size, "what the second adds")
    eq(len(s.directories()), 4)
    by_id = {x["id"]: x for x in s.du()["images"]}
    common = base().size + shared.size
    for x in (one, two):
        eq((by_id[x.id]["own"], by_id[x.id]["shared"]), (x.layers[2].size, common))
    lines = s.image("du").splitlines()
    eq(lines[0].split(), ["IMAGE", "IMAGE", "ID", "OWN", "SHARED"])
    eq(lines[-1], f"Total: {(common + one.layers[2].size + two.layers[2].size) / 1e6:.2f}MB in 4 layers")
    s.image("rm", refs[0])
    eq(len(s.directories()), 3)
    eq(s.run(refs[1]), f"{2 * MIB}\n")
    s.image("rm", refs[1])
    s.empty()


@test
def a_removal_does_not_lock_the_store():
    files = Layer({f"d{n % 7}/{n}": "x" for n in range(4000)})
    s = Store()

    def removed_while_stopped():
        """Stops the removal while it removes files; returns whether the store was unlocked then."""
        s.image("import", "-q", layout(f"{folder()}/layout", {"many:1": Image(files)}))
        p = s.start("image", "rm", "many:1")
        try:
            wait_for(lambda: glob.glob(f"{s.path}/layers/d/.removed-*") or p.poll() is not None, "removal")
            p.send_signal(signal.SIGSTOP)
            left = glob.glob(f"{s.path}/layers/d/.removed-*")
            with open(f"{s.path}/images/lock", "rb") as f:
                try:
                    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    left = []
            if left:
                s.image("prune")  # leaves the files to the other process
            p.send_signal(signal.SIGCONT)
            eq(p.wait(timeout=WAIT), 0)
        finally:
            p.kill()
            p.wait()
        s.empty()
        return bool(left)
    wait_for(removed_while_stopped, "unlocked store")


@test
def what_a_killed_removal_leaves_is_removed():
    s = Store()
    s.image("prune")
    left = f"{s.path}/layers/d/.removed-abc"
    os.makedirs(f"{left}/sub" + "/d" * 600)
    with open(f"{left}/sub/f", "wb"):
        pass
    fd = os.open(left, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    s.image("prune")
    ok(os.path.exists(f"{left}/sub/f"), "another process removes it")
    os.close(fd)
    s.image("prune")
    s.empty()


@test
def adding_an_image_does_not_wait_for_the_removal_of_many_files():
    s = Store()
    s.image("prune")
    archive = layout(f"{folder()}/layout", {"small:1": simple("small")})

    def leave(n):
        left = f"{s.path}/layers/d/.removed-abc"
        os.makedirs(f"{left}/sub")
        for i in range(n):
            with open(f"{left}/sub/{i}", "wb"):
                pass

    def count():
        return sum(len(files) for path in glob.glob(f"{s.path}/layers/d/.removed-*") for _, _, files in os.walk(path))
    leave(4000)
    for _ in range(2):
        before = count()
        s.image("import", "-q", archive)
        ok(0 < before - count() <= 1000, f"{before} files, then {count()}")
    s.bad("pull", f"{registry().host}/tidy/none:1", words=["tidy/none"])
    ok(count() > 0, "a failed pull has removed the files of others")
    s.image("prune")
    eq(count(), 0)
    # The control: few files are removed at once.
    leave(10)
    s.image("import", "-q", archive)
    eq(count(), 0)
    s.image("rm", "small:1")
    s.empty()


@test
def an_image_in_use_can_be_untagged():
    s, image = Store(), simple("running")
    ref = registry().push(image, "busy/x", "1")
    s.pull(ref)
    p = s.start("run", "--image", ref, "-i", "--", "sh", "-c", "echo up; read x; cat /text; ls /bin/busybox", stdin=subprocess.PIPE)
    try:
        eq(p.stdout.readline(), b"up\n")
        out = s.image("rm", ref)
        eq(out, f"Untagged: {ref}\n")
        ok("a sandbox uses it" in s.said, s.said)
        s.bad("run", "--pull", "never", "--image", ref, words=[ref])
        ok("Kept: 1 image that sandboxes use" in s.image("prune", "-a"), "prune does not say what it kept")
        eq(len(s.directories()), 2)
        eq(p.communicate(b"\n", timeout=WAIT), (b"running/bin/busybox\n", b""))
    finally:
        p.kill()
        p.wait()
    s.image("prune")
    s.empty()


@test
def concurrent_runs_and_removals_do_no_harm():
    """Each run either works or reports that the image does not exist."""
    s, image = Store(), simple("racing")
    ref = registry().push(image, "race/x", "1")
    failed = []
    for _ in range(6):
        s.pull(ref)
        runs = [s.start("run", "--pull", "never", "--image", ref) for _ in range(4)]
        time.sleep(random.random() * 0.02)
        s.image("rm", "-f", ref)
        for p in runs:
            out, err = p.communicate(timeout=WAIT)
            if (p.returncode, out) != (0, b"racing") and not (p.returncode == 125 and ref.encode() in err):
                failed.append((p.returncode, out, err))
    eq(failed, [], "runs")
    s.image("prune")
    s.empty()


# ------------------------------------------------------------- interruptions


def slow_image(n):
    return Image(base(), *(Layer({f"f{i}": noise(2 * MIB, f"{n}/{i}"), **{f"d{i}/{k}": "x" for k in range(200)}})
                           for i in range(4)), config={"Cmd": ["sh", "-c", "cat /f? | wc -c"]})


@test
def a_pull_killed_at_any_moment_does_no_harm():
    s, image = Store(), slow_image("kill")
    ref = registry().push(image, "kill/x", "1")
    started = time.monotonic()
    s.pull(ref)
    whole = time.monotonic() - started
    s.image("rm", ref)
    s.empty()
    seen = set()
    for n in range(KILLS):
        p = s.start("image", "pull", "-q", ref, start_new_session=True)
        time.sleep(whole * 1.1 * n / KILLS)
        p.kill()
        p.communicate()
        state = "whole" if s.call("run", "--pull", "never", "--image", ref)[1] == f"{8 * MIB}\n" else "absent"
        seen.add(state)
        if state == "absent":
            # If it is killed before the image has a name, the image is complete, and prune removes it.
            eq([i for i in s.ls() if i["names"]], [], "an image that cannot be run")
            s.bad("run", "--pull", "never", "--image", ref, words=["no image"])
        if n % 5 == 4:
            s.image("prune", "-a")
            s.empty()
    ok("absent" in seen, "no kill came in time")
    s.pull(ref)
    eq(s.run(ref), f"{8 * MIB}\n")


@test
def an_interrupted_pull_leaves_nothing_behind():
    s, image = Store(), slow_image("int")
    ref = registry().push(image, "int/x", "1")
    for sig in (signal.SIGINT, signal.SIGTERM):
        p = s.start("image", "pull", ref)
        p.stderr.readline()
        p.send_signal(sig)
        _, err = p.communicate(timeout=WAIT)
        eq((p.returncode, err.splitlines()[-1]), (128 + sig, b"warren image pull: interrupted"))
        s.empty()
        p = s.start("run", "--image", ref)
        p.stderr.readline()
        p.send_signal(sig)
        _, err = p.communicate(timeout=WAIT)
        eq(p.returncode, 128 + sig, f"status of the run ({err[-300:]!r})")
        s.empty()


def catches(pid, sig):
    """Has the process installed its signal handler?"""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            return bool(int(re.search(r"^SigCgt:\s*(\w+)", f.read(), re.M)[1], 16) >> (sig - 1) & 1)
    return False


def wait_for(condition, what):
    deadline = time.monotonic() + WAIT
    while not condition():
        ok(time.monotonic() < deadline, f"{what} does not happen")
        time.sleep(0.01)


def interrupted(s, p, command, ready=lambda: True):
    """Sends one SIGINT while the command waits: it must end cleanly and leave nothing."""
    try:
        wait_for(lambda: p.poll() is not None or (catches(p.pid, signal.SIGINT) and ready()), "what it is to wait for")
        time.sleep(0.2)
        eq(p.poll(), None, f"status of '{command}' before the signal")
        p.send_signal(signal.SIGINT)
        err = p.communicate(timeout=30)[1]
        eq((p.returncode, err.splitlines()[-1]), (128 + signal.SIGINT, f"warren image {command}: interrupted".encode()))
    finally:
        p.kill()
        p.communicate()
    eq([n for n in os.listdir(f"{s.path}/layers/d")], [], "what is left of it")


class Silent:
    """A server that accepts connections, reads, sends @answer, and nothing more."""

    def __init__(self, answer=b""):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.answer, self.asked, self.open = answer, 0, []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                c, _ = self.listener.accept()
                self.open.append(c)
                if c.recv(4096).startswith(b"GET "):  # not a TLS handshake
                    self.asked += 1
                    c.sendall(self.answer)
                else:
                    c.close()

    def stop(self):
        self.listener.close()
        for c in self.open:
            c.close()


@test
def a_pull_that_waits_for_others_can_be_interrupted():
    s, image = Store(), simple("waited for")
    ref = registry().push(image, "wait/x", "1")
    s.image("prune")
    path = f"{folder()}/x.tar"
    with open(path, "wb") as f:
        f.write(tar({"f": "x"}))
    saved = f"{folder()}/saved.tar"
    with tarfile.open(saved, "w") as t:
        t.add(layout(f"{folder()}/layout", {"waited:1": image}), ".")
    with open(f"{s.path}/images/lock", "rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for args in (("pull", ref), ("import", path), ("load", saved)):
            interrupted(s, s.start("image", *args), args[0])
        fcntl.flock(lock, fcntl.LOCK_SH)  # no garbage collection can run now
        with open(f"{s.path}/layers/.lock-{image.layers[1].diff_id[7:]}", "w", encoding="ascii") as layer:
            fcntl.flock(layer, fcntl.LOCK_EX)
            interrupted(s, s.start("image", "pull", ref), "pull")
            waiting = s.start("image", "pull", "-q", ref)
            wait_for(lambda: catches(waiting.pid, signal.SIGINT), "the pull")
        # Positive control: the process that waited continues.
        out, err = waiting.communicate(timeout=WAIT)
        eq((out.decode().strip(), err), (image.id, b""))
    eq(s.run(ref), "waited for")


@test
def an_archive_that_arrives_slowly_does_not_lock_the_store():
    s, image = Store(), simple("slow")
    whole = subprocess.check_output(["tar", "-C", layout(f"{folder()}/layout", {"slow:1": image}), "-c", "."])
    for args, data in ((("load", "--quiet"), whole), (("import", "-", "plain:1"), tar({"f": "x" * 100000}))):
        p = s.start("image", *args, stdin=subprocess.PIPE)
        try:
            p.stdin.write(data[:len(data) // 2])
            p.stdin.flush()
            wait_for(lambda: glob.glob(f"{s.path}/layers/d/.new-*/*"), "files of the archive")
            s.image("prune")  # waits for the lock of the store
            ok(glob.glob(f"{s.path}/layers/d/.new-*/*"), "the files of the archive were removed")
            p.stdin.write(data[len(data) // 2:])
            _, err = p.communicate(timeout=WAIT)
            eq((p.returncode, err), (0, b""))
        finally:
            p.kill()
            p.wait()
        eq(glob.glob(f"{s.path}/layers/d/.new-*"), [])
    eq(s.run("slow:1"), "slow")
    p = s.start("image", "load", stdin=subprocess.PIPE)
    p.stdin.write(whole[:len(whole) // 2])
    p.stdin.flush()
    wait_for(lambda: glob.glob(f"{s.path}/layers/d/.new-*/*"), "files of the archive")
    p.kill()
    p.wait()
    s.image("prune")
    wait_for(lambda: s.image("prune") is not None and not glob.glob(f"{s.path}/layers/d/.new-*"), "the end of the files")


@test
def a_pull_that_waits_for_an_answer_can_be_interrupted():
    s, d = Store(), folder()
    s.image("prune")
    pid = f"{d}/pid"
    with open(f"{d}/docker-credential-slow", "w", encoding="ascii") as f:
        f.write(f"#!/bin/sh\necho $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 1000\n")
    os.chmod(f"{d}/docker-credential-slow", 0o755)
    with open(f"{d}/config.json", "w", encoding="ascii") as f:
        f.write('{"credsStore": "slow"}')
    env = {"DOCKER_CONFIG": d, "PATH": f"{d}:{os.environ['PATH']}"}
    challenge = b'HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n'
    for answer in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", challenge):
        server = Silent(answer)
        try:
            interrupted(s, s.start("image", "pull", f"{server.host}/x:1", env=env), "pull",
                        lambda server=server, answer=answer: os.path.exists(pid) if answer is challenge else server.asked)
        finally:
            server.stop()
    with open(pid, encoding="ascii") as f:
        helper = int(f.read())
    wait_for(lambda: not os.path.exists(f"/proc/{helper}"), "the end of the helper")
    s.empty()


@test
def a_load_that_waits_for_input_can_be_interrupted():
    s, d = Store(), folder()
    s.image("prune")
    path = layout(f"{d}/layout", {"cut:1": simple(noise(3 * MIB, "read"))})
    with tarfile.open(f"{d}/whole.tar", "w") as t:
        t.add(path, ".")
    with open(f"{d}/whole.tar", "rb") as f:
        data = f.read()
    for command in ("load", "import"):
        for part in (b"", gzip.compress(data)[:MIB], data[:2 * MIB]):
            p = s.start("image", command, "-", stdin=subprocess.PIPE)
            p.stdin.write(part)
            p.stdin.flush()
            interrupted(s, p, command)
    s.image("load", "-", input=data)
    eq(len(s.directories()), 2)


def below(pid):
    """All descendants of a process, parents first."""
    found = [pid]
    parents = {}
    for n in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if n.isdigit():
                with open(f"/proc/{n}/stat", encoding="utf-8", errors="replace") as f:
                    parents.setdefault(int(f.read().rsplit(")", 1)[1].split()[1]), []).append(int(n))
    for x in found:
        found += parents.get(x, [])
    return found[1:]


def is_confined(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            return "\nSeccomp:\t2\n" in f.read()
    return False


def memory(pid):
    """All readable memory of a process."""
    parts = []
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps, \
            open(f"/proc/{pid}/mem", "rb", 0) as f:
        for line in maps:
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            with contextlib.suppress(OSError, ValueError, OverflowError):
                f.seek(start)
                parts.append(f.read(min(end - start, 16 * MIB)))
    return b"\n".join(parts)


@test
def unpacking_processes_have_no_secrets():
    """The memory of a process that unpacks a layer contains neither the environment nor a login."""
    if not ROOT:
        raise Skip("only root can look into them")
    s, d = Store(), folder()
    secret, variable = "s3cr3t-" + noise(8, os.getpid()).hex(), "v4r1abl3-" + noise(8, time.time()).hex()
    image = Image(Layer({f"f{i}": noise(4 * MIB, f"secret{i}") for i in range(6)}))
    with Registry(login=("user", secret)) as r:
        ref = r.push(image, "secret/x", "1")
        with open(f"{d}/config.json", "w", encoding="ascii") as f:
            json.dump({"auths": {r.host: {"username": "user", "password": secret}}}, f)
        found, looked = [], 0
        words = (secret.encode(), variable.encode(), base64.b64encode(f"user:{secret}".encode()))
        own = {words[1]} if "WARREN_SANITIZE" in os.environ else set()  # the sanitizers copy the environment
        for _ in range(20):
            p = s.start("image", "pull", "-q", ref, env={"DOCKER_CONFIG": d, "SOME_TOKEN": variable})
            wait_for(lambda p=p: p.poll() is not None or len(below(p.pid)) >= 3, "an unpacking")
            confined = [x for x in below(p.pid) if is_confined(x)]
            for x in confined:
                os.kill(x, signal.SIGSTOP)
                found += [(x, w) for w in words if w not in own and w in memory(x)]
                looked += 1
            # Positive control: the pulling process has it in memory.
            known = memory(p.pid)
            for x in confined:
                with contextlib.suppress(OSError):
                    os.kill(x, signal.SIGCONT)
            eq(p.communicate(timeout=WAIT)[1], b"", "what the pull says")
            s.image("rm", ref)
            if looked:
                break
    eq(found, [], "secrets")
    ok(looked, "nobody was seen unpacking")
    ok(words[2] in known and words[1] in known, "the one who pulls does not know it either")


@test
def overlapping_images_can_be_pulled_at_the_same_time():
    s = Store()
    layers = [Layer({f"l{i}": noise(MIB, f"overlap{i}")}) for i in range(6)]
    images = [Image(base(), *(layers[(n + k) % 6] for k in range(4)), config={"Cmd": ["sh", "-c", "ls / | grep -c ^l"]})
              for n in range(6)]
    images += [Image(base(), *reversed(layers[:4]))]
    refs = [registry().push(x, "overlap/x", str(n)) for n, x in enumerate(images)]
    pulls = [s.start("image", "pull", "-q", ref) for ref in refs + refs[:3]]
    for p, image in zip(pulls, images + images[:3]):
        try:
            out, err = p.communicate(timeout=WAIT)
        except subprocess.TimeoutExpired:
            for x in pulls:
                x.kill()
            raise AssertionError("the pulls wait for each other") from None
        eq((p.returncode, out.decode().strip()), (0, image.id), f"pull ({err[-300:]!r})")
    eq(len(s.directories()), 7)
    eq(len(s.ls()), len({x.id for x in images}))
    for ref in refs:
        eq(s.run(ref, "true"), "")
    eq(json.loads(s.image("prune", "--json"))["leftovers"], 0)


@test
def a_full_disk_during_a_pull_is_reported():
    if not ROOT:
        raise Skip("needs root")
    d = folder()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "none", d], check=True)
    try:
        s, image = Store(f"{d}/state"), slow_image("full")
        ref = registry().push(image, "full/x", "1")
        s.bad("image", "pull", "-q", ref, words=[ref, "No space left on device"])
        s.empty()
        s.bad("run", "--quiet", "--image", ref, words=[ref, "No space left on device"])
        s.empty()
        path = f"{folder()}/x.tar"
        with open(path, "wb") as f:
            f.write(tar({"f": noise(8 * MIB, "x")}))
        s.bad("image", "import", "-q", path, words=[path, "No space left on device"])
        s.empty()
        small = registry().push(Image(base()), "full/small", "1")
        s.pull(small)
        eq(s.run(small, "echo", "fits"), "fits\n")
    finally:
        subprocess.run(["umount", d], check=True)


# ---------------------------------------------------------- terminal output


def on_a_terminal(s, columns, *args):
    """Returns the status and all output."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 10, columns, 0, 0))
    before = termios.tcgetattr(slave)
    p = s.start(*args, stderr=slave, env={"TERM": "xterm"})
    seen = b""
    while p.poll() is None:
        if select.select([master], [], [], 0.05)[0]:
            seen += os.read(master, 65536)
    p.stdout.close()
    while select.select([master], [], [], 0)[0]:
        seen += os.read(master, 65536)
    eq(termios.tcgetattr(slave), before, "the terminal's settings")
    os.close(slave)
    os.close(master)
    return p.returncode, seen.decode()


@test
def progress_bars_fit_the_terminal():
    image = slow_image("bars")
    many = Image(base(), *(Layer({f"n{i}": str(i)}) for i in range(30)))
    for columns in (20, 60, 100):
        for what, tag in ((image, "1"), (many, "many")):
            s = Store()
            ref = registry().push(what, "bars/x", tag)
            status, seen = on_a_terminal(s, columns, "image", "pull", ref)
            eq(status, 0, f"status ({seen[-300:]!r})")
            lines = [re.sub(r"\x1b\[[0-9]*[AKJ]", "", x) for x in re.split(r"\r\n", seen)]
            ok(all(len(x) < columns for x in lines), f"a line wider than {columns}: {max(lines, key=len)!r}")
            ok("\x1b[?25l" not in seen, "the cursor is hidden")
            ups = [int(x) for x in re.findall(r"\x1b\[([0-9]+)A", seen)]
            ok(max(ups, default=0) < 10, "more lines than the screen has")
            if what is image and columns == 100:
                ok(re.search(r"[0-9a-f]{12}: done", lines[-2]), lines[-3:])


if __name__ == "__main__":
    sys.exit(main())
