#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-registry-client.py - the registry client: a real registry, logins, TLS, redirects

Prints TAP. Everything is on loopback, and every server is stopped by the process that started it.
"""
import contextlib
import io
import json
import os
import shutil
import socket
import socketserver
import subprocess
import sys
import tarfile
import threading
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import free_port  # pylint: disable=wrong-import-position
from registry_harness import MIB, PULL, Skip, bad, eq, folder, good, main, noise, ok, pull, test, work  # pylint: disable=wrong-import-position
from registry_server import (MANIFEST, Evil, Image, Registry, basic, make_certificate,  # pylint: disable=wrong-import-position
                             make_token, sha256)

REAL = ("docker-registry", "skopeo", "umoci", "htpasswd", "openssl")
WORK = work.name


# --------------------------------------------------------------------- real registry

class Real:
    """An image made by umoci, and a folder that a registry serves, to which the image was pushed."""

    def __init__(self):
        for tool in REAL:
            if not shutil.which(tool):
                raise Skip(f"{tool} is not installed")
        self.layout, self.storage = os.path.join(WORK, "layout"), os.path.join(WORK, "storage")
        self.run("umoci", "init", "--layout", self.layout)
        self.run("umoci", "new", "--image", self.layout + ":one")
        for n, data in enumerate((open("/bin/busybox", "rb").read(), noise(3 * MIB))):
            layer = os.path.join(WORK, f"layer{n}.tar")
            with tarfile.open(layer, "w") as tar:
                info = tarfile.TarInfo(f"bin/file{n}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
            self.run("umoci", "raw", "add-layer", "--image", self.layout + ":one", layer)
        os.mkdir(self.storage)
        with self.registry() as registry:
            self.push(registry, "test/one:1")
            self.push(registry, "test/docker:1", "--format", "v2s2")

    def run(self, *command):
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def registry(self, **kw):
        return Registry(WORK, self.storage, **kw)

    def push(self, registry, name, *args):
        self.run("skopeo", "copy", "--insecure-policy", "--dest-tls-verify=false", *args,
                 f"oci:{self.layout}:one", f"docker://{registry.host}/{name}")

    def check(self, got):
        eq((got.status, got.error), (0, ""), "status and error")
        manifest = json.loads(got.file("manifest.json"))
        blobs = [manifest["config"], *manifest["layers"]]
        eq(len(blobs), 3, "blobs")
        for b in blobs:
            eq(sha256(got.file(b["digest"])), b["digest"], "digest")
        return got


def real():
    if not hasattr(real, "made"):
        real.made = Real()
    return real.made


@test
def images_are_pulled_from_a_real_registry():
    with real().registry() as registry:
        ref = f"{registry.host}/test/one"
        got = real().check(pull(ref + ":1"))
        for name in os.listdir(got.folder):
            if name != "manifest.json":
                with open(os.path.join(real().layout, "blobs/sha256", name), "rb") as f:
                    ok(got.file(name) == f.read(), name)
        kind, digest = got.out.split("\n")[0].split()
        eq(kind, MANIFEST, "type")
        eq(digest, sha256(got.file("manifest.json")), "digest")
        real().check(pull(f"{ref}@{digest}"))
        real().check(pull(f"localhost:{registry.port}/test/one:1"))
        got = real().check(pull(f"{registry.host}/test/docker:1"))
        ok(got.out.startswith("application/vnd.docker.distribution.manifest.v2+json "), got.out)

        bad("ENOENT", r"the registry has no such image \(404 manifest unknown\)$", ref + ":nope")
        bad("ENOENT", r"the registry has no such image \(404 manifest unknown\)$", f"{registry.host}/nope")
        bad("ENOENT", r"no such image", f"{ref}@{sha256(b'nothing')}")


@test
def a_registry_that_does_not_listen_is_reported():
    port = free_port()
    got = bad("ECONNREFUSED", f"cannot connect to localhost:{port}: Connection refused$",
              f"localhost:{port}/x")
    ok(got.seconds < 5, f"it took {got.seconds} s")
    got = bad("EHOSTUNREACH", "cannot find the host registry.invalid: ", "registry.invalid/x")


@test
def a_login_is_used_from_every_place():
    users = os.path.join(WORK, "htpasswd")
    real().run("htpasswd", "-Bbc", users, "me", "pass:word")
    auth = {"htpasswd": {"realm": "here", "path": users}}
    with real().registry(auth=auth) as registry:
        ref, host = f"{registry.host}/test/one:1", registry.host
        login = basic("me", "pass:word").split()[1]
        real().check(pull(ref, config={"auths": {host: {"auth": login}}}))
        real().check(pull(ref, config={"auths": {f"http://{host}/v2/": {"auth": login}}}))
        plain = {"username": "me", "password": "pass:word"}
        real().check(pull(ref, config={"auths": {host: plain, "other": {"auth": "AAAA"}}}))

        wrong = {"auth": basic("me", "guess").split()[1]}
        bad("EACCES", rf": {host}: login refused \(401 authentication required\)$", ref,
            config={"auths": {host: wrong}})
        for config in ({}, {"auths": {"other.example.com": plain}}, {"auths": {host: {}}}):
            bad("EACCES", r"login refused \(401 .*the docker configuration does not have$", ref,
                config=config)
        for garbage in ("", "!", "me:pass", "AAA", "bWU="):
            bad("EINVAL" if garbage else "EACCES", "", ref, config={"auths": {host: {"auth": garbage}}})

        for name, home in (("HOME", ".docker"), ("DOCKER_CONFIG", ".")):
            where = folder()
            os.makedirs(os.path.join(where, home), exist_ok=True)
            with open(os.path.join(where, home, "config.json"), "w") as f:
                json.dump({"auths": {host: plain}}, f)
            p = subprocess.run([PULL, ref, folder()], env={name: where}, capture_output=True)
            eq((p.returncode, p.stderr), (0, b""), name)


@test
def an_invalid_docker_configuration_is_refused():
    with Evil(Image(b"x"), lambda r, kind: r.error(401, "X", "no", {
            "WWW-Authenticate": "Basic realm=x"}) or True) as server:
        for text in ("", "{", "[]", '{"auths":{},"auths":{}}', "[" * 100000):
            path = os.path.join(folder(), "config.json")
            with open(path, "w") as f:
                f.write(text)
            p = subprocess.run([PULL, "--config", path, server.ref, folder()], capture_output=True)
            eq(p.returncode, 1, "status")
            ok(b"EINVAL: pull" in p.stderr and b"is not a docker configuration" in p.stderr, p.stderr)
        p = subprocess.run([PULL, "--config", path + ".nope", server.ref, folder()],
                           capture_output=True)
        ok(p.stderr.startswith(b"ENOENT: pull "), p.stderr)


def helper(script):
    """A folder with docker-credential-test, for PATH."""
    where = folder()
    path = os.path.join(where, "docker-credential-test")
    with open(path, "w") as f:
        f.write("#!/bin/sh\n" + script.replace("HERE", where))
    os.chmod(path, 0o755)
    return where, {"PATH": where + ":" + os.environ["PATH"]}


@test
def a_credential_helper_is_used():
    def behave(r, kind):
        if r.headers["Authorization"] == basic("me", "secret"):
            return False
        r.error(401, "UNAUTHORIZED", "authentication required", {
            "WWW-Authenticate": 'Basic realm="x"'})
        return True

    with Evil(Image(b"layer"), behave) as server:
        where, env = helper('cat >HERE/input; echo "$@" >HERE/args\n'
                            'echo \'{"ServerURL":"x","Username":"me","Secret":"secret"}\'')
        for config in ({"credHelpers": {server.host: "test"}}, {"credsStore": "test"},
                       {"credsStore": "nope", "credHelpers": {server.host: "test"}}):
            good(server.image, server.ref, env=env, config=config)
            eq(open(where + "/input").read(), server.host, "input")
            eq(open(where + "/args").read(), "get\n", "arguments")
            os.unlink(where + "/input")
        # The helper of another registry is not called.
        bad("EACCES", "docker configuration does not have$", server.ref, env=env, config={"credHelpers": {"other": "test"}})
        ok(not os.path.exists(where + "/input"), "the helper was asked")

        cases = (("echo credentials not found; exit 1", "docker-credential-test has no login for "),
                 ("echo not json", "docker-credential-test returned no login"),
                 ("yes", "docker-credential-test: File too large"),
                 ("exec </dev/null", "docker-credential-test returned no login"))
        for script, said in cases:
            bad("EACCES", "login refused .*" + said, server.ref, env=helper(script)[1],
                config={"credsStore": "test"})
        bad("EACCES", "docker-credential-nope: No such file", server.ref,
            config={"credsStore": "nope"})
        for name in ("../test", "a b", "x;y", "/bin/sh"):
            bad("EACCES", "is not the name of a credential helper", server.ref,
                config={"credsStore": name})
        # If the helper has no login, the file may have one.
        good(server.image, server.ref, env=helper("exit 1")[1], config={
            "credsStore": "test", "auths": {server.host: {"username": "me", "password": "secret"}}})


@test
def tokens_work_with_a_real_registry():
    cert = make_certificate(WORK, "tokens")
    seen = []

    def give(r, kind):
        url = urllib.parse.urlsplit(r.path)
        form = urllib.parse.parse_qs(r.form if r.command == "POST" else url.query)
        seen.append((r.command, form, r.headers["Authorization"]))
        if r.command == "POST":
            allowed = form["refresh_token"] == ["re fresh&+"]
        else:
            allowed = r.headers["Authorization"] == basic("me", "secret")
            if not allowed and r.headers["Authorization"]:
                r.answer(401, b'{"details":"incorrect username or password"}')
                return True
        kind, name, actions = form["scope"][0].split(":")
        access = [{"type": kind, "name": name, "actions": actions.split(",")}] if allowed else []
        token = make_token(cert, form["service"][0], access)
        r.answer(200, json.dumps({("access_token" if r.command == "POST" else "token"): token}).encode())
        return True

    with Evil(Image(), give) as server:
        auth = {"token": {"realm": server.url + "/token", "service": "a test", "issuer": "test",
                          "rootcertbundle": cert[0]}}
        with real().registry(auth=auth) as registry:
            ref, host = f"{registry.host}/test/one:1", registry.host
            login = {"username": "me", "password": "secret"}
            real().check(pull(ref, config={"auths": {host: login}}))
            eq(len(seen), 1, "tokens asked for")
            eq(seen[0][1], {"service": ["a test"], "scope": ["repository:test/one:pull"]}, "query")
            real().check(pull(ref, config={"auths": {host: {"identitytoken": "re fresh&+"}}}))
            eq((seen[1][0], seen[1][1]["grant_type"]), ("POST", ["refresh_token"]), "a refresh")
            where, env = helper('echo \'{"Username":"<token>","Secret":"re fresh&+"}\'')
            real().check(pull(ref, env=env, config={"credsStore": "test"}))

            bad("EACCES", "login refused .401.*there is no such image, or it needs a login", ref)
            bad("EACCES", f": {host}: login refused .401 incorrect username or password.$", ref,
                config={"auths": {host: {"username": "me", "password": "guess"}}})


def tokens(valid):
    """A registry whose tokens are valid for @valid requests each; the registry itself is the realm."""
    state = {"given": 0, "left": 0}

    def behave(r, kind):
        if not kind:
            state["given"] += 1
            state["left"] = valid
            r.answer(200, json.dumps({"token": f"token{state['given']}"}).encode())
            return True
        if r.headers["Authorization"] == f"Bearer token{state['given']}" and state["left"] > 0:
            state["left"] -= 1
            return False
        r.error(401, "UNAUTHORIZED", "authentication required", {
            "WWW-Authenticate": f'Bearer realm="{r.server.url}/token?x=1",service="s&t"'})
        return True

    return behave, state


@test
def tokens_are_kept_and_renewed():
    image = Image(*(noise(1000, bytes([n])) for n in range(6)))
    behave, state = tokens(1000)
    with Evil(image, behave) as server:
        good(image, server.ref)
        eq(state["given"], 1, "tokens")
        query = [r.path for r in server.seen if "token" in r.path][0].split("?")[1]
        eq(urllib.parse.parse_qs(query), {"x": ["1"], "service": ["s&t"],
                                          "scope": ["repository:a/b:pull"]}, "query")
    behave, state = tokens(3)
    with Evil(image, behave) as server:
        good(image, server.ref, "--parallel", "1")
        eq(state["given"], 3, "tokens")
    behave, state = tokens(0)
    with Evil(image, behave) as server:
        bad("EACCES", "login refused .401 authentication required", server.ref)
        eq(state["given"], 1, "tokens")


@test
def invalid_challenges_and_tokens_are_refused():
    challenge, token = ["?"], [b'{"token":"t"}']

    def behave(r, kind):
        if not kind:
            r.answer(200, token[0])
        elif r.headers["Authorization"] == "Bearer t":
            return False
        else:
            r.error(401, "X", "no", {"WWW-Authenticate": challenge[0]} if challenge[0] else {})
        return True

    with Evil(Image(b"x"), behave) as server:
        real_one = f'Bearer realm="{server.url}/token"'
        for challenge[0] in (real_one, f"Negotiate, {real_one}", f"Basic realm=x, {real_one}",
                             f'bearer  REALM = "{server.url}/\\token" , error="x"'):
            good(server.image, server.ref)
        for challenge[0] in ("", "?", "Negotiate", "Bearer", 'Bearer realm=""', 'Bearer realm="http://a',
                             real_one + ',realm="http://b/"', real_one + " x", "Bearer realm=a b",
                             "Digest realm=x", 'Bearer realm="\x01"', f'Bearer realm="{"x" * 2000}"',
                             "Bearer " + "x=1," * 5000):
            bad("EPROTO", "requests a login in a way that is not supported", server.ref)
        for challenge[0] in ('Bearer realm="ftp://127.0.0.1/"', 'Bearer realm="file:///etc/passwd"',
                             'Bearer realm="token"', 'Bearer realm="http://me:pw@127.0.0.1/"'):
            bad("EPROTO", "names a token server whose address is not https", server.ref)
        challenge[0] = real_one
        for token[0] in (b"", b"{}", b"t", b'{"token":1}', b'{"token":"a\\nb: c"}', b'{"token":""}',
                         b'{"token":"t","token":"t"}', b"[" * 100000,
                         b'{"token":"' + b"t" * 70000 + b'"}'):
            bad("EPROTO", "sent no token", server.ref)
        token[0] = b"x" * (1 << 19)
        bad("EFBIG", "the token is larger than", server.ref)


# ------------------------------------------------------------------------------- TLS

def certificates():
    if not hasattr(certificates, "made"):
        ca = make_certificate(WORK, "ca")
        certificates.made = ca[0], make_certificate(WORK, "server", ca)
    return certificates.made


@test
def certificates_of_registries_are_verified():
    ca, cert = certificates()
    other = make_certificate(WORK, "other")[0]
    with real().registry(cert=cert) as registry:
        for host in (registry.host, f"localhost:{registry.port}"):
            real().check(pull(f"{host}/test/one:1", "--ca", ca))
        for args in ((), ("--ca", other)):
            bad("EPROTO", f"the certificate of {registry.host} is not trusted: ",
                f"{registry.host}/test/one:1", *args)
        got = pull(f"{registry.host}/test/one:1", "--ca", "/dev/null")
        ok("EINVAL: there are no certificates in /dev/null" in got.error, got.error)


class Proxy(socketserver.ThreadingTCPServer):
    """Connects every CONNECT to one port, and records the request."""
    daemon_threads, block_on_close = True, False

    def __init__(self, port):
        self.asked, self.to = [], port
        super().__init__(("127.0.0.1", 0), ProxyHandler)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class ProxyHandler(socketserver.StreamRequestHandler):
    def handle(self):
        self.server.asked.append(self.rfile.readline().decode().split()[:2])
        while self.rfile.readline().strip():
            pass
        if self.server.asked[-1][0] != "CONNECT":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", self.server.to)) as far:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")

            def copy(a, b):
                with contextlib.suppress(OSError):
                    while data := a.recv(65536):
                        b.sendall(data)
                    b.shutdown(socket.SHUT_WR)

            back = threading.Thread(target=copy, args=(far, self.connection), daemon=True)
            back.start()
            copy(self.connection, far)
            back.join(5)


@test
def plain_http_is_used_only_where_it_is_allowed():
    ca, cert = certificates()
    image = Image(b"layer")
    with Evil(image) as plain, Evil(image, cert=cert) as secure:
        good(image, plain.ref)
        eq(plain.hellos > 0, True, "TLS was tried first")
        # A name that is not loopback's, through a proxy: TLS is always used.
        with Proxy(secure.port) as proxy:
            env = {"https_proxy": proxy.url, "http_proxy": proxy.url}
            good(image, "registry.test/a/b", "--ca", ca, env=env)
            eq(proxy.asked[0], ["CONNECT", "registry.test:443"], "what the proxy was asked")
        before = len(plain.seen)
        with Proxy(plain.port) as proxy:
            env = {"https_proxy": proxy.url, "http_proxy": proxy.url}
            bad("EPROTO", "cannot use TLS with registry.test: ", "registry.test/a/b", "--ca", ca,
                env=env)
            eq({a[0] for a in proxy.asked}, {"CONNECT"}, "what the proxy was asked")
            eq(len(plain.seen), before, "requests")
            bad("EPROTO", "", "registry.test/a/b", "--insecure", "other.test", env=env)
            eq({a[0] for a in proxy.asked}, {"CONNECT"}, "what the proxy was asked")
            pull("registry.test/a/b", "--insecure", "registry.test", env=env)
            eq(proxy.asked[-1], ["GET", "http://registry.test/v2/a/b/manifests/latest"], "the last")
        proxy_refuses = {"https_proxy": f"http://127.0.0.1:{free_port()}"}
        bad("ECONNREFUSED", "cannot connect to ", "registry.test/a/b", env=proxy_refuses)


# ------------------------------------------------------------------------- redirects

def redirect(to, when="blobs", status=307):
    def behave(r, kind):
        if kind == when:
            r.answer(status, b"", {"Location": to(r)})
        return kind == when

    return behave


@test
def redirects_do_not_carry_the_login():
    behave, _ = tokens(1000)
    image = Image(noise(5000))
    with Evil(image) as other:
        def both(r, kind):
            if behave(r, kind):
                return True
            return redirect(lambda r: other.url + r.path)(r, kind)

        with Evil(image, both) as server:
            good(image, server.ref)
            eq(len(other.seen), 2, "requests at the other")
            for r in other.seen:
                eq(r.headers["Authorization"], None, "Authorization at the other")
            ok(all(r.headers["Authorization"] for r in server.requests("blobs")), "none at the first")
    # A redirect on the same registry keeps the login.
    def inside(r, kind):
        return behave(r, kind) or (not r.path.endswith("?again") and
                                   redirect(lambda r: r.path + "?again")(r, kind))

    def serve(r, kind):
        if inside(r, kind):
            return True
        if kind == "blobs":
            r.blob(r.path.split("/")[-1].split("?")[0])
            return True
        return False

    with Evil(image, serve) as server:
        good(image, server.ref)
        ok(all(r.headers["Authorization"] for r in server.requests("blobs") if "?" in r.path),
           "no login at the registry itself")
    # A redirect of a token server does not forward the login either.
    with Evil(image, lambda r, kind: not kind and (r.answer(200, b'{"token":"t"}') or True)) as other:
        def ask(r, kind):
            if not kind:
                r.answer(302, b"", {"Location": other.url + "/elsewhere"})
            elif r.headers["Authorization"] == "Bearer t":
                return False
            else:
                r.answer(401, b"", {"WWW-Authenticate": f'Bearer realm="{r.server.url}/token"'})
            return True

        with Evil(image, ask) as server:
            login = {"auths": {server.host: {"username": "me", "password": "secret"}}}
            good(image, server.ref, config=login)
            eq([r.headers["Authorization"] for r in other.seen], [None], "at the other")
            eq([r.headers["Authorization"] for r in server.seen if "token" in r.path],
               [basic("me", "secret")], "at the first")


@test
def redirects_are_bounded():
    image = Image(noise(5000))
    with Evil(image, redirect(lambda r: r.path + "x", "manifests")) as server:
        bad("ELOOP", "redirects more than 5 times", server.ref)
        eq(len(server.seen), 6, "requests")
    for to in ("ftp://127.0.0.1/", "file:///etc/passwd", "http://me:pw@127.0.0.1/", "gopher://x/"):
        with Evil(image, redirect(lambda r: to)) as server:
            bad("EPROTO", "redirects to .* refused", server.ref)
    with Evil(image, lambda r, kind: kind == "blobs" and (r.answer(302) or True)) as server:
        bad("EPROTO", "a redirect without a target", server.ref)


@test
def redirects_from_tls_to_plain_http_are_refused():
    ca, cert = certificates()
    image = Image(noise(5000))
    with Evil(image) as plain, Evil(image, cert=cert) as secure:
        with Evil(image, redirect(lambda r: secure.url + r.path), cert=cert) as server:
            good(image, server.ref, "--ca", ca)
        with Evil(image, redirect(lambda r: secure.url + r.path)) as server:
            good(image, server.ref, "--ca", ca)
        with Evil(image, redirect(lambda r: plain.url + r.path), cert=cert) as server:
            bad("EPROTO", f"redirects to {plain.host} without TLS, which is refused", server.ref,
                "--ca", ca)
            eq(plain.seen, [], "requests without TLS")
            good(image, server.ref, "--ca", ca, "--insecure", server.host)


if __name__ == "__main__":
    sys.exit(main())
