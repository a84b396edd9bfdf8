#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-image-push.py - images are pushed to registries: real ones, and hostile ones

Prints TAP. The real registry is Debian's. Each hostile server also accepts the same push correctly, in the same test:
that is the control.
"""
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from push_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from registry_server import make_certificate  # pylint: disable=wrong-import-position

LOGIN = ("me", "secret")


def load(s, name, image):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as t:
        t.add(layout(f"{folder()}/layout", {name: image}), ".")
    s.image("load", "-q", "-", input=data.getvalue())


def stored(text="pushed"):
    """Returns a store with the image mine:1, which has two layers."""
    s = Store()
    load(s, "mine:1", simple(text))
    return s


def log_in(s, host):
    """A login as `warren login` stores it, without a check."""
    path = folder()
    with open(f"{path}/config.json", "w", encoding="ascii") as f:
        json.dump({"auths": {host: {"auth": basic(*LOGIN).split()[1]}}}, f)
    s.env["DOCKER_CONFIG"] = path


def push(s, ref, *args, image="mine:1"):
    return json.loads(s.image("push", "--json", *args, image, ref))


# ------------------------------------------------------------- a real registry


@test
def a_pushed_image_can_be_pulled():
    s, other = stored(), Store()
    with Registry() as r:
        told = push(s, f"{r.host}/x/y:1")
        eq((told["reference"], list(told)), (f"{r.host}/x/y:1", ["id", "digest", "reference"]))
        eq(other.pull(f"{r.host}/x/y:1"), told["id"], "the id of the pulled image")
        eq(other.run(f"{r.host}/x/y:1"), "pushed")
        eq(other.ls()[0]["digest"], told["digest"], "the digest of the manifest")
        # Push it again: nothing is uploaded, and nothing changes.
        eq(s.image("push", "mine:1", f"{r.host}/x/y:2"), f"Digest: {told['digest']}\nImage ID: {told['id']}\n{r.host}/x/y:2\n")
        ok("already present" in s.said and "uploading" not in s.said, s.said)
        # Without a reference, the image is pushed under its own name.
        s.image("tag", "mine:1", f"{r.host}/own:1")
        eq(s.image("push", "-q", f"{r.host}/own:1"), told["digest"] + "\n")
        eq(s.good("push", "-q", f"{r.host}/own:1"), told["digest"] + "\n")
        skopeo("copy", "--src-tls-verify=false", f"docker://{r.host}/own:1", f"oci:{folder()}/copy:x")


@test
def an_image_pulled_from_the_same_registry_keeps_its_digest():
    for family in ("oci", "docker"):
        s = Store()
        image = simple(family, family=family)
        with Registry() as r:
            s.pull(r.push(image, "from/x", "1"))
            for to in ("to/y:1", "from/x:2"):  # the blobs are mounted, or already there
                told = push(s, f"{r.host}/{to}", image=f"{r.host}/from/x:1")
                eq((told["digest"], told["id"]), (image.digest, image.id), f"{family} as {to}")
            other = Store()
            eq(other.pull(f"{r.host}/to/y:1"), image.id, "the id")
            eq(other.run(f"{r.host}/to/y:1"), family)


@test
def an_image_pulled_from_another_registry_is_packed_again():
    image, s = simple("elsewhere"), Store()
    with Registry() as r, Registry() as to:
        ref = r.push(image, "from/x", "1")
        s.pull(ref)
        told = push(s, f"{to.host}/y:1", image=ref)
        ok(told["id"] != image.id and told["digest"] != image.digest, "the layers cannot have kept their digests")
        other = Store()
        eq(other.pull(f"{to.host}/y:1"), told["id"], "the id")
        eq(other.run(f"{to.host}/y:1"), "elsewhere")
        # From now on, its digest is the same everywhere.
        with Registry() as third:
            eq(push(other, f"{third.host}/z:1", image=f"{to.host}/y:1")["id"], told["id"], "the id")


@test
def some_original_layers_are_used_with_new_ones():
    """The registry has the base as it was pulled: only the other layer is uploaded."""
    image, s = simple("mixed"), Store()
    with Registry() as r, Registry() as to:
        ref = r.push(image, "from/x", "1")
        s.pull(ref)
        to.push_blob("y", base().blob)
        s.image("push", ref, f"{to.host}/y:1")
        ok(s.said.count("already present") == 1 and s.said.count("uploading") == 1, s.said)
        other = Store()
        other.pull(f"{to.host}/y:1")
        eq(other.run(f"{to.host}/y:1"), "mixed")
        eq(other.ls()[0]["layers"][0], base().diff_id, "the diff id of the base")


@test
def a_registry_that_needs_a_login_gets_it():
    s = stored()
    with Registry(login=LOGIN) as r:
        s.bad("image", "push", "-q", "mine:1", f"{r.host}/x:1", words=[f"push {r.host}/x:1", "login refused"])
        log_in(s, r.host)
        told = push(s, f"{r.host}/x:1")
        eq(Store().image("pull", "-q", f"{r.host}/x:1", env={"DOCKER_CONFIG": s.env["DOCKER_CONFIG"]}).strip(), told["id"])


@test
def tls_is_verified():
    s, path = stored(), folder()
    ca = make_certificate(path, "ca")
    cert = make_certificate(path, "server", ca)
    with Registry(cert=cert, ca=ca[0]) as r:
        s.bad("image", "push", "-q", "mine:1", f"{r.host}/x:1", words=["certificate", "is not trusted"])
        push(s, f"{r.host}/x:1", "--ca", ca[0])


@test
def wrong_arguments_are_refused():
    s = stored()
    s.bad("image", "push", words=["IMAGE [REFERENCE] is missing"])
    s.bad("image", "push", "a:1", "b:1", "c:1", words=["unexpected argument"])
    s.bad("image", "push", "none:1", "127.0.0.1:1/x:1", words=["there is no image 'none:1' on this machine"])
    s.bad("image", "push", "mine:1", "127.0.0.1:1/x@sha256:" + "0" * 64, words=["give a tag"])
    s.bad("image", "push", "mine:1", "127.0.0.1:1/X:1", words=["127.0.0.1:1/X:1"])
    s.bad("image", "push", "-q", "mine:1", f"127.0.0.1:{free_port()}/x:1", words=["push 127.0.0.1", "cannot connect"])
    # An operation that the service does not support is refused by name.
    s.bad("image", "push", "mine:1", env={"WARREN_HOST": "unix:///nowhere"}, words=["push"], status=125)
    s.bad("image", "save", "mine:1", env={"WARREN_HOST": "unix:///nowhere"}, words=["save"], status=125)


# ----------------------------------------------------------- hostile registries


@test
def requests_follow_the_protocol():
    s = stored()
    with PushServer() as server:
        told = push(s, server.ref)
        eq(server.methods(), ["HEAD blob"] * 2 + ["POST upload", "PUT upload"] + ["HEAD blob"] * 2 + ["POST upload", "PUT upload"] +
           ["HEAD blob", "POST upload", "PUT upload", "PUT manifest"])
        kind, data = server.manifests["1"]
        eq((kind, digest(data)), (OCI + "manifest.v1+json", told["digest"]))
        ok(all("state=a%20b&digest=sha256:" in r.path for r in server.puts()), [r.path for r in server.puts()])
        eq({x["mediaType"] for x in json.loads(data)["layers"]}, {OCI + "layer.v1.tar+gzip"})


@test
def blobs_are_mounted_only_with_the_registrys_consent():
    image, s = simple("mounted"), Store()
    with PushServer() as server:
        load(s, f"{server.host}/from/x:1", image)
        server.mountable = {base().digest: base().blob}
        s.image("push", f"{server.host}/from/x:1", server.ref)
        ok(s.said.count("already present") == 1 and s.said.count("uploading") == 1, s.said)
        ok(any("from=from/x" in r.path for r in server.seen), [r.path for r in server.seen])


@test
def a_login_is_not_sent_to_another_server():
    s = stored()
    for how in ("location", "redirect"):
        with PushServer() as other:
            def redirect(h):
                if h.command != "PUT" or "/uploads/" not in h.path or how == "location":
                    return False
                h.body()
                h.answer(307, headers={"Location": other.url + h.path})
                return True
            with PushServer(redirect, login=LOGIN, location=f"{other.url}/v2/a/b/blobs/uploads/9?x=y" if how == "location" else None) as server:
                log_in(s, server.host)
                s.bad("image", "push", "-q", "mine:1", server.ref, words=["refused the manifest"])
                eq(len(other.puts()), 3, f"uploads at the other server ({how})")
                eq([r.headers["Authorization"] for r in other.seen], [None] * 3, "what the other server got")
                ok(all(r.headers["Authorization"] for r in server.seen[1:]), "the registry itself gets the login")
                # The control: the registry has the blobs now.
                server.stored, server.behave, server.location = dict(other.stored), None, None
                push(s, server.ref)


@test
def a_push_never_falls_back_to_plain_http():
    s, path = stored(), folder()
    ca = make_certificate(path, "ca")
    with PushServer() as other, PushServer(cert=make_certificate(path, "server", ca)) as server:
        for server.location in (f"{other.url}/v2/x", "ftp://127.0.0.1/x", "file:///etc/passwd", f"https://u:p@{server.host}/x"):
            s.bad("image", "push", "-q", "--ca", ca[0], "mine:1", server.ref, words=["without TLS, which is refused"])
        eq((other.seen, server.puts()), ([], []), "requests")
        server.location = None
        push(s, server.ref, "--ca", ca[0])


@test
def bad_answers_end_the_push():
    s = stored()

    def answers(command, part, *answer, **kw):
        def behave(h):
            if h.command != command or part not in h.path:
                return False
            h.body()
            h.answer(*answer, **kw)
            return True
        return behave
    upload, manifest = "/uploads/", "/manifests/"
    other = {"Docker-Content-Digest": "sha256:" + "0" * 64}
    with PushServer() as server:
        for server.behave, words in (
                (answers("POST", upload, 202), "without a location"),
                (answers("POST", upload, 200, headers={"Location": "/x"}), "without a location"),
                (answers("POST", upload, 202, headers={"Location": "http://[bad"}), "without a location"),
                (answers("POST", upload, 202, b"x" * 100_000, {"Location": "/x"}), "is larger than"),
                (answers("POST", upload, 302, headers={"Location": "/x"}), "a redirect without a target"),
                (answers("PUT", upload, 302, headers={"Location": "/x"}), "a redirect without a target"),
                (answers("PUT", upload, 307, headers={"Location": f"{server.url}/v2/x/uploads/"}), "redirects more than"),
                (answers("PUT", upload, 400, b'{"errors":[{"message":"no\\u001b[31m"}]}'), "refused the blob sha256:"),
                (answers("PUT", upload, 404), "has no such blob"),
                (answers("PUT", upload, 403), "refuses access (403"),
                (answers("PUT", upload, 201, headers=other), "stored the blob sha256:"),
                (answers("PUT", upload, 201, b"x" * 100_000), "is larger than"),
                (answers("PUT", manifest, 201, headers=other), "stored the manifest with the digest sha256:000000000000"),
                (answers("PUT", manifest, 400), "refused the manifest (400)"),
                (answers("HEAD", "/blobs/", 401, headers={"WWW-Authenticate": "Negotiate"}), "not supported")):
            server.stored.clear()
            line = s.bad("image", "push", "-q", "mine:1", server.ref, words=[f"push {server.ref}", words])
            ok(line.isprintable(), repr(line))
        server.behave = None
        push(s, server.ref)


@test
def a_login_that_is_never_accepted_is_tried_once():
    s = stored()
    for command in ("HEAD", "POST", "PUT"):
        def refuse(h, command=command):
            if h.command != command:
                return False
            h.body()
            h.error(401, "UNAUTHORIZED", "again", {"WWW-Authenticate": 'Basic realm="here"'})
            return True
        with PushServer(refuse, login=LOGIN) as server:
            log_in(s, server.host)
            s.bad("image", "push", "-q", "mine:1", server.ref, words=["login refused (401"])
            ok(sum(r.command == command for r in server.seen) <= 2, f"{command} is repeated: {server.methods()}")
            server.behave = None
            push(s, server.ref)


@test
def temporary_failures_are_retried():
    s = stored()
    for failure in ("500", "drop", "429"):
        failed = []

        def fail(h, failure=failure, failed=failed):
            if h.command != "PUT" or "/uploads/" not in h.path or failed:
                return False
            failed.append(1)
            if failure == "drop":
                h.rfile.read(1000)
                h.drop()
            else:
                h.body()
                h.answer(int(failure))
            return True
        with PushServer(fail) as server:
            push(s, server.ref)
            eq(len(failed), 1, "failures")
            eq(len(server.puts()), 4, "uploads: three, and one again")


@test
def a_registry_need_not_support_head_requests():
    s = stored()
    for status in (405, 403, 400):
        def refuse(h, status=status):
            if h.command == "HEAD":
                h.answer(status)
            return h.command == "HEAD"
        with PushServer(refuse) as server:
            push(s, server.ref)


@test
def a_push_can_be_interrupted():
    s = stored()
    waiting = []

    def stall(h):
        if h.command == "PUT":
            waiting.append(h)
            time.sleep(30)
        return h.command == "PUT"
    with PushServer(stall) as server:
        p = s.start("image", "push", "mine:1", server.ref)
        while not waiting:
            ok(p.poll() is None, "it ended")
            time.sleep(0.01)
        p.send_signal(signal.SIGINT)
        err = p.communicate(timeout=20)[1].decode()
        eq((p.returncode, "interrupted" in err), (130, True), err)
    s.image("prune")


@test
@needs_root
def a_full_store_is_reported():
    small = folder()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", small], check=True)
    try:
        s = Store(f"{small}/state")
        load(s, "mine:1", simple("full"))
        fd = os.open(f"{small}/fill", os.O_WRONLY | os.O_CREAT)
        with contextlib.suppress(OSError):
            while True:
                os.write(fd, bytes(4096))
        os.close(fd)
        with PushServer() as server:
            s.bad("image", "push", "-q", "mine:1", server.ref, words=["write to the store: No space left on device"])
            eq(server.manifests, {}, "manifests")
            os.unlink(f"{small}/fill")
            push(s, server.ref)
    finally:
        subprocess.run(["umount", small], check=True)


if __name__ == "__main__":
    sys.exit(main())
