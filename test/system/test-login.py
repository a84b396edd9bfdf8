#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-login.py - warren login and logout: a login is checked at the registry, stored for pulls, and removed again

Prints TAP. The registries are on loopback: Debian's with a password, and a test server with a token server.
"""
import os
import signal
import stat
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from oci_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from checks import free_port  # pylint: disable=wrong-import-position
from registry_server import Evil, basic  # pylint: disable=wrong-import-position
from registry_server import Image as ServerImage  # pylint: disable=wrong-import-position
from terminal import Terminal  # pylint: disable=wrong-import-position

LOGIN = ("me", "pass:word")
HELPER = """#!/bin/sh
input=$(cat)
echo "$1 $input" >> "$0.calls"
case $1 in
get) test -f "$0.secret" && cat "$0.secret" || { echo credentials not found in native keychain; exit 1; };;
store) echo "$input" > "$0.secret";;
erase) test -f "$0.secret" && rm "$0.secret" || { echo credentials not found in native keychain; exit 1; };;
esac
"""


class Home:
    """A folder with a docker configuration, and the program that uses it."""

    def __init__(self, config=None, mode=0o644):
        self.dir, self.store = folder(), Store()
        self.path = f"{self.dir}/docker/config.json"
        self.env = {"DOCKER_CONFIG": f"{self.dir}/docker", "PATH": f"{self.dir}:{os.environ['PATH']}"}
        if config is not None:
            os.mkdir(f"{self.dir}/docker")
            self.write(json.dumps(config), mode)

    def write(self, text, mode=0o644):
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(self.path, mode)

    def read(self):
        with open(self.path, encoding="utf-8") as f:
            return json.load(f)

    def helper(self, name, script=HELPER):
        path = f"{self.dir}/docker-credential-{name}"
        with open(path, "w", encoding="utf-8") as f:
            f.write(script)
        os.chmod(path, 0o755)
        return path

    def login(self, *args, password=LOGIN[1], user=LOGIN[0], **kw):
        return self.store.good("login", "-u", user, "--password-stdin", *args, input=f"{password}\n".encode(), env=self.env, **kw)

    def refused(self, *args, words, password=LOGIN[1], user=LOGIN[0]):
        line = self.store.bad("login", "-u", user, "--password-stdin", *args, input=f"{password}\n".encode(),
                              env=self.env, words=words)
        ok(password == "" or password not in line, f"a password is shown: {line}")

    def logout(self, *args):
        return self.store.good("logout", *args, env=self.env)

    def check_file(self):
        eq(stat.S_IMODE(os.stat(self.path).st_mode), 0o600, "mode")
        eq(os.listdir(os.path.dirname(self.path)), ["config.json"], "files in its folder")


@test
def a_login_is_checked_stored_used_and_removed():
    image = simple("logged in")
    with Registry(login=LOGIN) as r:
        ref, h = r.push(image, "login/x", "1"), Home()
        h.store.bad("image", "pull", "-q", ref, env=h.env, words=["needs a login"])
        h.refused(r.host, password="guess", words=[r.host, "login refused (401"])
        ok(not os.path.exists(h.path), "a refused login is stored")
        eq(h.login(r.host), f"Login for {r.host} stored in {h.path}\n")
        eq(h.store.said, "", "what it said")
        eq(h.read(), {"auths": {r.host: {"auth": basic(*LOGIN).split()[1]}}})
        h.check_file()
        eq(stat.S_IMODE(os.stat(os.path.dirname(h.path)).st_mode), 0o700, "mode of the folder")
        eq(h.store.pull(ref, env=h.env), image.id)
        # A refused login does not change the file.
        before = h.read()
        h.refused(r.host, password="guess", words=["login refused"])
        eq(h.read(), before)
        eq(h.logout(r.host), f"Login for {r.host} removed\n")
        eq(h.read(), {"auths": {}})
        h.check_file()
        eq(h.logout(r.host), f"There is no login for {r.host}\n")
        Store().bad("image", "pull", "-q", ref, env=h.env, words=["needs a login"])
        eq(json.loads(h.login("--json", f"http://{r.host}/v2/")),
           {"registry": r.host, "username": "me", "stored_in": h.path, "checked": True})
        eq(json.loads(h.logout("--json", r.host)), {"registry": r.host, "removed": True})


@test
def other_contents_of_the_file_are_kept():
    with Registry(login=LOGIN) as r:
        other = {"auth": basic("a", "b").split()[1], "email": "a@b"}
        config = {"zeta": [1, {"a": None}], "auths": {"other.test": other, r.host: {"identitytoken": "old", "email": "me@x"}},
                  "credHelpers": {"helped.test": "nope"}, "HttpHeaders": {"X": "y\u00e9"}}
        h = Home(config)
        h.login(r.host)
        config["auths"][r.host] = {"email": "me@x", "auth": basic(*LOGIN).split()[1]}
        eq(h.read(), config)
        eq(list(h.read()), list(config), "the order of its keys")
        h.check_file()
        # Logout removes every login that a pull from this registry would use, and no other.
        config["auths"][f"https://{r.host}/v1/"] = {"auth": "eDp5"}
        h.write(json.dumps(config))
        h.logout(r.host)
        config["auths"] = {"other.test": other}
        eq(h.read(), config)
        # A link to the file stays a link, and a file that cannot be parsed is not replaced.
        os.rename(h.path, f"{h.dir}/real.json")
        os.symlink(f"{h.dir}/real.json", h.path)
        h.login(r.host)
        ok(os.path.islink(h.path) and r.host in h.read()["auths"], "behind a link")
        h = Home({})
        for text in ("{", "[]", '{"auths": []}', '{"auths": {"%s": 1}}' % r.host):
            h.write(text)
            h.refused(r.host, words=[h.path])
            with open(h.path, encoding="utf-8") as f:
                eq(f.read(), text)


@test
def configured_credential_helpers_are_used():
    with Registry(login=LOGIN) as r:
        ref = r.push(simple("helped"), "login/h", "1")
        for config in ({"credsStore": "test"}, {"credHelpers": {r.host: "test"}, "credsStore": "nope"}):
            h = Home({**config, "auths": {r.host: {"auth": "eDp5"}}})
            path = h.helper("test")
            eq(h.login(r.host), f"Login for {r.host} stored in docker-credential-test\n")
            with open(f"{path}.secret", encoding="utf-8") as f:
                eq(json.load(f), {"ServerURL": r.host, "Username": LOGIN[0], "Secret": LOGIN[1]})
            eq(h.read(), {**config, "auths": {r.host: {}}}, "the file keeps no copy")
            h.store.pull(ref, env=h.env)
            eq(h.logout(r.host), f"Login for {r.host} removed\n")
            ok(not os.path.exists(f"{path}.secret"), "the helper still has it")
            eq(h.logout(r.host), f"There is no login for {r.host}\n")
        h.helper("test", "#!/bin/sh\necho the keychain is locked; exit 1\n")
        h.refused(r.host, words=["docker-credential-test store failed: the keychain is locked"])
        h.store.bad("logout", r.host, env=h.env, words=["docker-credential-test erase failed: the keychain is locked"])
        h.write(json.dumps({"credsStore": "none"}))
        h.refused(r.host, words=["docker-credential-none: No such file"])
        eq(h.read(), {"credsStore": "none"})


@test
def a_login_is_checked_by_the_token_server():
    def behave(h, _):
        if h.path.startswith("/token"):
            asked.append(h.path)
            if h.headers["Authorization"] == basic(*LOGIN):
                h.answer(200, b'{"token":"good"}')
            else:
                h.answer(401, b'{"details":"incorrect username or password"}')
        elif h.headers["Authorization"] == "Bearer good":
            h.answer(200, b"{}")
        else:
            h.answer(401, b"{}", {"WWW-Authenticate": f'Bearer realm="{server.url}/token",service="a test"'})
        return True

    asked = []
    with Evil(ServerImage(), behave) as server:
        h = Home()
        h.refused(server.host, password="guess", words=["login refused (401 incorrect username or password)"])
        ok(not os.path.exists(h.path), "a refused login is stored")
        eq(json.loads(h.login("--json", server.host))["checked"], True)
        eq(asked, ["/token?service=a+test"] * 2, "no right to any image is asked for")


@test
def an_unchecked_login_is_stored_with_a_warning():
    h, host = Home(), f"127.0.0.1:{free_port()}"
    eq(json.loads(h.login("--json", host))["checked"], False)
    ok("cannot connect to" in h.store.said and "the login is stored unchecked" in h.store.said, h.store.said)
    with Registry() as r:
        eq(json.loads(h.login("--json", r.host))["checked"], False)
        ok(f"{r.host} does not require a login" in h.store.said, h.store.said)
        eq(sorted(h.read()["auths"]), sorted([host, r.host]))
    # Any other answer counts as a refusal.
    with Evil(ServerImage(), lambda x, _: x.answer(404, b"{}") or True) as server:
        h = Home()
        h.refused(server.host, words=["(404"])
        ok(not os.path.exists(h.path), "it is stored")


@test
def bad_input_is_refused():
    h = Home()
    for host in ("", "myhost", "http://a.test/path", "a.test/x", "a b.test", "-", "x" * 300 + ".test"):
        h.refused("--", host, words=["is not a registry"])
    h.refused("a.test", password="", words=["the password is empty"])
    h.refused("a.test", password="a\0b", words=["the password contains a NUL byte"])
    h.refused("a.test", password="x" * 20000, words=["the password is longer than"])
    h.refused("a.test", user="a:b", words=["contains a colon"])
    h.store.bad("login", "--password-stdin", "a.test", env=h.env, words=["--password-stdin needs --username"])
    h.store.bad("login", "-u", "me", "a.test", env=h.env, words=["use --password-stdin"])
    h.store.bad("login", "a.test", "b.test", env=h.env, words=["unexpected argument 'b.test'"])
    h.store.bad("logout", "myhost", env=h.env, words=["is not a registry"])
    ok(not os.path.exists(h.path), "something is stored")
    host = f"127.0.0.1:{free_port()}"
    _, out, err = h.store.call("login", "-u", "me", "--password-stdin", host, input=b"x", env={"HOME": ""})
    ok(out == "" and "set HOME or DOCKER_CONFIG" in err, err)


@test
def a_terminal_does_not_show_the_password():
    with Registry(login=LOGIN) as r:
        h = Home()
        env = {**h.store.env, **h.env, "TERM": "vt100"}
        with Terminal(r.host, command=("login",), env=env) as t:
            t.expect(b"Username: ")
            t.type(b"me\n")
            t.expect(b"Password: ")
            t.type(LOGIN[1].encode() + b"\n")
            seen = t.seen
            eq(t.wait(), 0, f"status, after {t.seen!r}")
            ok(LOGIN[1].encode() not in seen + t.seen and b"stored in" in t.seen, t.seen)
            t.restored()
        eq(h.read()["auths"][r.host]["auth"], basic(*LOGIN).split()[1])
        # The test's parent may ignore the signal, and children inherit that.
        with Terminal("-u", "me", r.host, command=("login",), env=env,
                      before=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as t:
            t.expect(b"Password: ")
            t.type(b"\x03")
            eq(t.wait(), 130, "status of one that is interrupted")
            t.restored()


if __name__ == "__main__":
    sys.exit(main())
