#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-oci-registry.py - registries that need TLS, a login or a token, and where these are configured

Prints TAP. The registries are Debian's, on loopback, each with the images of one folder. If a registry needs a name
that is not loopback's, the test adds it to /etc/hosts in a separate mount namespace.
"""
import os
import stat
import sys
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from oci_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from registry_server import Evil, basic, make_certificate, make_token  # pylint: disable=wrong-import-position
from registry_server import Image as ServerImage  # pylint: disable=wrong-import-position

NAME = "registry.test"
LOGIN = ("me", "pass:word")
_made = {}


def certificates():
    """The file of the authority, and (certificate, key) of a server."""
    if not shutil.which("openssl"):
        raise Skip("openssl is not installed")
    if not _made:
        d = folder()
        ca = make_certificate(d, "ca")
        _made.update(ca=ca[0], server=make_certificate(d, "server", ca), other=make_certificate(d, "other")[0])
    return _made


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


def docker_config(config, **helpers):
    """An environment with a docker configuration and credential helpers, given as name=script."""
    d = folder()
    write(f"{d}/config.json", json.dumps(config))
    for name, script in helpers.items():
        write(f"{d}/docker-credential-{name}", f"#!/bin/sh\n{script}\n", 0o755)
    return {"DOCKER_CONFIG": d, "PATH": f"{d}:{os.environ['PATH']}"}


def named(etc=None):
    """A store whose programs can resolve NAME; @etc has further files of their separate /etc."""
    if not ROOT:
        raise Skip("needs root, to give loopback a name")
    d = folder()
    for name, text in {"hosts": f"127.0.0.1 localhost {NAME}\n", **(etc or {})}.items():
        write(f"{d}/{name}", text)
    script = f"mount --bind {d} /etc" if etc else f"mount --bind {d}/hosts /etc/hosts"
    return Store(prefix=["unshare", "-m", "sh", "-c", f'{script} && exec "$@"', "sh"])


# ---------------------------------------------------------------------- TLS


@test
def tls_works_with_a_private_certificate():
    c, image = certificates(), simple("over TLS")
    with Registry(cert=c["server"], ca=c["ca"]) as r:
        ref = r.push(image, "tls/x", "1")
        s = Store()
        for args in ((), ("--ca", c["other"])):
            s.bad("image", "pull", "-q", *args, ref, words=[ref, f"the certificate of {r.host} is not trusted"])
        s.bad("image", "pull", "--ca", "/dev/null", ref, words=[ref, "there are no certificates in /dev/null"])
        s.bad("image", "pull", "--ca", "/nowhere", ref, words=["/nowhere"])
        s.bad("run", "--quiet", "--image", ref, words=[ref, "not trusted"])
        s.empty()
        eq(s.pull(ref, "--ca", c["ca"]), image.id)
        eq(s.run(ref), "over TLS")
        eq(Store().good("run", "--quiet", "--image", ref, env={"WARREN_CA_FILE": c["ca"]}), "over TLS")
        config = folder()
        write(f"{config}/warren/registries.conf", f"# ours\n\n  ca\t{c['ca']}  # of the registry\n")
        eq(Store().good("run", "--quiet", "--image", ref, env={"XDG_CONFIG_HOME": config}), "over TLS")
        # A machine without any certificates.
        if ROOT:
            bare = named({"nsswitch.conf": "hosts: files\n"})
            bare.bad("image", "pull", "-q", f"{NAME}:{r.port}/tls/x:1", words=["no certificates to trust"])
            eq(bare.pull(f"{NAME}:{r.port}/tls/x:1", "--ca", c["ca"]), image.id)
        # The option overrides the environment, which overrides the configuration.
        env = {"XDG_CONFIG_HOME": config, "WARREN_CA_FILE": c["other"]}
        Store().bad("image", "pull", "-q", ref, env=env, words=["not trusted"])
        eq(Store().pull(ref, "--ca", c["ca"], env=env), image.id)


@test
def plain_http_is_used_only_if_requested():
    image = simple("without TLS")
    with Registry() as r:
        r.push(image, "plain/x", "1")
        host = f"{NAME}:{r.port}"
        ref = f"{host}/plain/x:1"
        s = named()
        for args, env in (((), {}), (("--insecure", NAME), {}), (("--insecure", f"other.test:{r.port}"), {}),
                          ((), {"WARREN_INSECURE_REGISTRIES": f"other.test,{NAME}"})):
            s.bad("image", "pull", "-q", *args, ref, env=env, words=[ref, f"cannot use TLS with {host}"])
        s.empty()
        eq(s.pull(ref, "--insecure", host), image.id)
        eq(s.run(ref), "without TLS")
        eq(named().good("run", "--quiet", "--image", ref, env={"WARREN_INSECURE_REGISTRIES": f"other.test, {host}"}), "without TLS")
        config = folder()
        write(f"{config}/warren/registries.conf", f"insecure other.test\ninsecure {host.upper()}")
        eq(named().pull(ref, env={"XDG_CONFIG_HOME": config}), image.id)
        home = folder()
        write(f"{home}/.config/warren/registries.conf", f"insecure {host}\r\n")
        eq(named().pull(ref, env={"HOME": home}), image.id)
        machine = named({"warren/registries.conf": f"insecure {host}\n", "nsswitch.conf": "hosts: files\n"})
        eq(machine.pull(ref), image.id)


@test
def invalid_settings_are_refused():
    s, config = Store(), folder()
    env = {"XDG_CONFIG_HOME": config}
    path = f"{config}/warren/registries.conf"
    rows = {"insecure\n": "line 1: '' is not HOST or HOST:PORT", "\n#\ninsecure http://x\n": "line 3: 'http://x' is not HOST",
            "insecure a b\n": "line 1: 'a b' is not HOST", "ca ca.pem\n": "line 1: 'ca.pem' is not an absolute path",
            "mirror x\n": "line 1: 'mirror' is not a setting", "insecure x\n" * 65: "line 65: more than 64 registries"}
    for text, words in rows.items():
        write(path, text)
        s.bad("image", "pull", "127.0.0.1:1/x", env=env, words=[path, words])
    write(path, "x" * 100000)
    s.bad("image", "pull", "127.0.0.1:1/x", env=env, words=[path, "File too large"])
    s.bad("image", "pull", "127.0.0.1:1/x", env={"WARREN_INSECURE_REGISTRIES": "a/b"}, words=["WARREN_INSECURE_REGISTRIES: 'a/b'"])
    # Positive control: without errors, the command contacts the registry.
    write(path, "\n  # nothing\n")
    s.bad("image", "pull", "127.0.0.1:1/x", env=env, words=["cannot connect to 127.0.0.1:1"])
    eq(s.ls(), [])


# ------------------------------------------------------------------- logins


@test
def a_login_works_over_tls():
    c, image = certificates(), simple("logged in")
    with Registry(cert=c["server"], ca=c["ca"], login=LOGIN) as r:
        ref = r.push(image, "login/x", "1")
        plain = {"username": LOGIN[0], "password": LOGIN[1]}
        good = [docker_config({"auths": {r.host: {"auth": basic(*LOGIN).split()[1]}}}),
                docker_config({"auths": {f"https://{r.host}/v2/": plain}}),
                docker_config({"credsStore": "all"}, all=f"cat > /dev/null; echo '{{\"Username\":\"{LOGIN[0]}\",\"Secret\":\"{LOGIN[1]}\"}}'"),
                docker_config({"credHelpers": {r.host: "one"}, "credsStore": "none"},
                              one=f"test \"$1 $(cat)\" = 'get {r.host}' && echo '{{\"Username\":\"{LOGIN[0]}\",\"Secret\":\"{LOGIN[1]}\"}}'")]
        for env in good:
            s = Store()
            eq(s.pull(ref, "--ca", c["ca"], env=env), image.id)
            eq(s.run(ref), "logged in")
        # A run uses this configuration to pull, too.
        eq(Store().good("run", "--quiet", "--image", ref, env={**good[0], "WARREN_CA_FILE": c["ca"]}), "logged in")
        home = folder()
        write(f"{home}/.docker/config.json", json.dumps({"auths": {r.host: plain}}))
        eq(Store().pull(ref, "--ca", c["ca"], env={"HOME": home}), image.id)

        s = Store()
        rows = [({}, "the docker configuration does not have"), ({"auths": {"other.test": plain}}, "the docker configuration does not have"),
                ({"auths": {r.host: {**plain, "password": "guess"}}}, f"{r.host}: login refused (401"),
                ({"auths": {r.host: {"auth": "!"}}}, "read a login of the docker configuration"),
                ({"credsStore": "nope"}, "docker-credential-nope: No such file"),
                ({"credsStore": "fails"}, "docker-credential-fails has no login for")]
        for config, words in rows:
            line = s.bad("image", "pull", "-q", "--ca", c["ca"], ref, env=docker_config(config, fails="exit 1"), words=[ref, words])
            ok("guess" not in line and LOGIN[1] not in line, f"a password is shown: {line}")
        env = docker_config({})
        write(f"{env['DOCKER_CONFIG']}/config.json", "{")
        s.bad("image", "pull", "-q", "--ca", c["ca"], ref, env=env, words=[ref, "config.json"])
        s.empty()


@test
def tokens_are_requested_from_the_token_server():
    """A registry refers to a token server, which requires a login for one image and none for another."""
    c, asked = certificates(), []

    def give(h, _):
        url = urllib.parse.urlsplit(h.path)
        form = urllib.parse.parse_qs(h.form if h.command == "POST" else url.query)
        asked.append((h.command, form["scope"], h.headers["Authorization"]))
        logged_in = form["refresh_token"] == ["fresh"] if h.command == "POST" else h.headers["Authorization"] == basic(*LOGIN)
        if h.headers["Authorization"] and not logged_in:
            h.answer(401, b'{"details":"incorrect username or password"}')
            return True
        kind, name, actions = form["scope"][0].split(":")
        allowed = logged_in or (name.startswith("public/") and actions == "pull")
        access = [{"type": kind, "name": name, "actions": actions.split(",")}] if allowed else []
        h.answer(200, json.dumps({"token": make_token(c["server"], form["service"][0], access)}).encode())
        return True

    storage, public, private = folder(), simple("public"), simple("private")
    with Registry(storage) as open_one:
        open_one.push(public, "public/x", "1")
        open_one.push(private, "private/x", "1")
    with Evil(ServerImage(), give, cert=c["server"]) as server:
        auth = {"token": {"realm": server.url + "/token", "service": "a test", "issuer": "test", "rootcertbundle": c["server"][0]}}
        with Registry(storage, cert=c["server"], auth=auth) as r:
            ca = ("--ca", c["ca"])
            s = Store()
            eq(s.pull(f"{r.host}/public/x:1", *ca), public.id)
            eq(s.run(f"{r.host}/public/x:1"), "public")
            eq(asked, [("GET", ["repository:public/x:pull"], None)], "what the token server was asked")
            ref = f"{r.host}/private/x:1"
            s.bad("image", "pull", "-q", *ca, ref, words=[ref, "there is no such image, or it needs a login"])
            wrong = docker_config({"auths": {r.host: {"username": "me", "password": "guess"}}})
            s.bad("image", "pull", "-q", *ca, ref, env=wrong, words=[ref, "login refused (401 incorrect username or password)"])
            eq([x["id"] for x in s.ls()], [public.id])
            eq(s.pull(ref, *ca, env=docker_config({"auths": {r.host: {"username": LOGIN[0], "password": LOGIN[1]}}})), private.id)
            eq(s.run(ref), "private")
            script = "cat > /dev/null; echo '{\"Username\":\"<token>\",\"Secret\":\"fresh\"}'"
            eq(Store().pull(ref, *ca, env=docker_config({"credsStore": "id"}, id=script)), private.id)
            eq(asked[-1][0], "POST", "how a refresh token is sent")


# ------------------------------------------------------------ invalid input


@test
def errors_name_reference_step_and_cause():
    """Wrong digests, sizes, types and compressions cause one line each, and nothing is stored. The correct image is
    pulled."""
    image = Image(base(), Layer({"text": "right"}), config={"Cmd": ["cat", "/text"]})

    def served(edit=None, blobs=None):
        """The image with an edited manifest and replaced blobs."""
        manifest = json.loads(image.manifest)
        if edit:
            edit(manifest)
        x = ServerImage()
        x.manifest, x.type, x.blobs = json.dumps(manifest).encode(), image.type, {**image.blobs(), **(blobs or {})}
        return x

    def of_layer(**kw):
        return lambda m: m["layers"][1].update(kw)

    top = image.layers[1]
    other = bytes([top.blob[-1] ^ 1])
    broken = Layer({"text": "x" * 5000})
    broken_blob = gzip.compress(tar({"text": "x" * 5000})[:3000])
    config = json.loads(image.config)

    def with_config(**kw):
        data = json.dumps({**config, **kw}).encode()
        return (lambda m: m["config"].update(digest=digest(data), size=len(data)), {digest(data): data})

    rows = [
        (served(blobs={top.digest: top.blob[:-1] + other}), ["blob " + top.digest[:19], "has the digest"]),
        (served(blobs={top.digest: top.blob[:-1]}), [top.digest[:19], "bytes, but the manifest says"]),
        (served(of_layer(size=len(top.blob) + 1)), ["bytes, but the manifest says"]),
        (served(of_layer(digest="sha256:short")), ["digest"]),
        (served(of_layer(mediaType="application/x-tar-surprise")), ["application/x-tar-surprise"]),
        (served(of_layer(digest=digest(broken_blob), size=len(broken_blob)), {digest(broken_blob): broken_blob}),
         ["unpack layer " + digest(broken_blob)[:19], "runcated"]),
        (served(of_layer(digest=broken.digest, size=len(broken.blob)), {broken.digest: broken.blob}),
         ["unpack layer " + broken.digest[:19], "has the digest " + broken.diff_id, "but its image says"]),
        (served(*with_config(architecture=OTHER)), [f"it is for linux/{OTHER}, not for linux/{ARCH}"]),
        (served(*with_config(rootfs={"type": "layers", "diff_ids": config["rootfs"]["diff_ids"][:1]})), ["2 layers, but its configuration has 1"]),
        (served(*with_config(rootfs={"type": "layers", "diff_ids": ["md5:x", "md5:y"]})), ["configuration"]),
        (served(lambda m: m.update(layers="none")), ["manifest"]),
        (served(lambda m: m.update(schemaVersion=1)), ["schema 1"]),
    ]
    for x, words in rows:
        with Evil(x) as server:
            s, ref = Store(), f"{server.ref}:latest"
            s.bad("image", "pull", "-q", ref, words=[ref, *words])
            s.bad("run", "--quiet", "--image", ref, words=[ref, *words])
            s.empty()
    with Evil(served()) as server:
        s = Store()
        eq(s.pull(server.ref), image.id)
        eq(s.run(server.ref), "right")


@test
def hostile_layers_are_refused_or_confined():
    """Names with "..", a file in place of a directory, and too many names are refused. Links are confined, and
    devices are omitted."""
    s = Store()
    rows = {"climbs": ({"../../x": "x"}, "contains '..'"), "through": ({"f": "x", "f/y": "x"}, "is a file, not a directory"),
            "hard": ({"h": hardlink("/etc/shadow")}, "is a hard link to 'etc/shadow'"), "whiteout": ({".wh..": ""}, "is not a valid whiteout"),
            "deep": ({"/".join("d" * 1100): "x"}, "is too deep"), "loop": ({"l": symlink("l"), "l/x": "x"}, "Too many levels of symbolic links")}
    for name, (members, words) in rows.items():
        layer = Layer(members)
        ref = registry().push(Image(base(), layer), f"harm/{name}", "1")
        s.bad("image", "pull", "-q", ref, words=[ref, f"unpack layer {layer.digest[:19]}", words])
        s.empty()
    outside = folder()
    harmless = Layer({"out": symlink(outside), "out/f": "inside", "up": symlink("../../../.."), "up/g": "inside",
                      "null": File(kind=tarfile.CHRTYPE), "dev": directory()})
    ref = registry().push(Image(base(), harmless), "harm/none", "1")
    s.pull(ref)
    eq(s.run(ref, "sh", "-c", f"cat {outside}/f /g; test -e /null || echo -none"), "insideinside-none\n")
    eq(os.listdir(outside), [], "what was written outside")
    eq(stat.S_IMODE(os.stat(s.path + "/layers").st_mode), 0o700, "mode of the layers' directory")


if __name__ == "__main__":
    sys.exit(main())
