#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-network-run.py - `warren run` with a network policy, without a service

The test enters a network namespace, in which it runs servers for DNS, HTTP, TLS and TCP, which represent the outside.
Every refusal has a control that differs only in the policy.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import (BUILD, ROOT, Skip, WARREN, be_alone, check_isolated, eq, needs_root, ok,  # noqa: E402
                    run_tests, test, tests, warren)
from cli_world import and_nothing_left, finish, is_alive, run, run_json  # noqa: E402
import egress_world as ew  # noqa: E402
from setup_world import World, put  # noqa: E402

UID = 53000 + os.getpid() % 1000  # an ordinary user that no other test uses
UNPRIVILEGED = 65534
OUTSIDE = []  # the servers, once they are started

# Sends a request to a host, and prints the answer or the name of the error.
CLIENT = """
import socket, ssl, sys
host, port, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
def talk():
    try:
        s = socket.create_connection((host, port), 20)
        if how.startswith("tls:"):
            c = ssl.create_default_context()
            c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
            s = c.wrap_socket(s, server_hostname=how[4:])
        if how == "raw":
            s.sendall(b"hello")
        else:
            s.sendall(b"GET /x HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % host.encode())
        return s.recv(4096).decode().split("\\r\\n")[0] or "end"
    except OSError as e:
        return type(e).__name__
print(talk(), flush=True)
if how == "twice":
    sys.stdin.readline()
    print(talk(), flush=True)
"""
HTTP_OK, HTTP_NO, NO_NAME = "HTTP/1.1 200 OK", "HTTP/1.1 403 Forbidden", "gaierror"


def client(host, port=80, how="http"):
    return ["--", "python3", "-c", CLIENT, host, str(port), how]


def talk(*options, to=("a.example",), **kw):
    """Returns the answer that a client gets in a sandbox with these options."""
    return run("-q", *options, *client(*to), **kw).decode().strip()


# ------------------------------------------------------------------------------- options


@test
def allow_opens_a_host_on_one_port_or_on_all():
    eq(talk(), NO_NAME, "without a policy")
    eq(talk("--allow", "a.example:80"), HTTP_OK)
    eq(talk("--allow", "a.example:80", to=("b.example",)), NO_NAME)
    eq(talk("--allow", "a.example:80", "--allow", "b.example", to=("b.example",)), HTTP_OK)
    eq(talk("--allow", "a.example:80", to=("a.example", 7000, "raw")), "ConnectionResetError")
    eq(talk("--allow", "a.example", to=("a.example", 7000, "raw")), "hello")
    eq(talk("--allow", "*.example:80"), HTTP_OK)


@test
def deny_takes_precedence_over_allow():
    eq(talk("--allow", "*.example", "--deny", "b.example", to=("b.example",)), NO_NAME)
    eq(talk("--allow", "*.example", "--deny", "b.example"), HTTP_OK)
    eq(talk("--allow", "a.example", "--deny", "a.example:7000", to=("a.example", 7000, "raw")), "ConnectionResetError")
    eq(talk("--allow", "a.example", "--deny", "a.example:7000"), HTTP_OK)


@test
def capabilities_allow_what_they_list():
    eq(talk("--network", "web"), HTTP_OK)
    eq(talk("--network", "web", to=("a.example", 7000, "raw")), "ConnectionResetError")
    eq(talk("--network", "git"), NO_NAME)
    eq(talk("--network", "packages,git", "--allow", "a.example"), HTTP_OK)
    eq(talk("--network", "packages,web"), HTTP_OK)


@test
def loopback_with_allow_opens_only_what_is_allowed():
    eq(talk("--network", "loopback", "--allow", "a.example"), HTTP_OK)
    eq(talk("--network", "loopback", "--allow", "a.example", to=("b.example",)), NO_NAME)


@test
def special_purpose_addresses_need_their_own_rule():
    eq(talk("--network", "web", to=("inner.example",)), HTTP_NO)
    eq(talk("--network", "web", "--allow", "10.0.0.1:80", to=("inner.example",)), HTTP_OK)
    eq(talk("--network", "learn", to=("169.254.169.254",), stderr=None), HTTP_NO)
    eq(talk("--allow", "169.254.169.254", to=("169.254.169.254",)), HTTP_OK)


@test
def tls_must_name_the_host_that_was_connected_to():
    eq(talk("--allow", "a.example:443", to=("a.example", 443, "tls:a.example")), HTTP_OK)
    eq(talk("--allow", "a.example:443", to=("a.example", 443, "tls:b.example")), "ConnectionResetError")


# ------------------------------------------------------------------------------- reports


def denied(*options, to):
    p = warren("run", *options, *client(*to))
    eq(p.returncode, 0)
    return p.stderr.decode()


@test
def denials_are_explained_with_the_option_that_allows_them():
    said = denied("--allow", "a.example:80", to=("b.example",))
    eq(said, "warren run: the network policy denied 1 of its requests; with these options, it allows all:\n# denied: no rule allows b.example\n--allow b.example\n")
    eq(denied("--allow", "a.example:80", to=("a.example",)), "")
    eq(denied("-q", "--allow", "a.example:80", to=("b.example",)), "")
    eq(talk("--allow", "a.example:80", "--allow", "b.example", to=("b.example",)), HTTP_OK, "the option works")


@test
def json_has_the_policy_and_its_usage():
    d = run_json("--network", "git", "--allow", "a.example:80", "--deny", "b.example", *client("a.example"))
    policy, usage = d["network"]["policy"], d["network"]["usage"]
    ok({"host": "a.example", "ports": [80]} in policy["allow"], f"{policy}")
    eq(policy["deny"], [{"host": "b.example"}])
    eq((usage["connections"], usage["denied"]), (1, 0))
    ok(usage["bytes_in"] > 20 and usage["bytes_out"] > 20, f"{usage}")
    row = [e for e in d["enforced"] if e["name"] == "network"]
    eq(row, [{"name": "network", "enforced": True,
              "detail": f"policy (allow: {len(policy['allow'])}, deny: 1 rules); all else is refused"}])
    plain = run_json("--", "true")
    ok("network" not in plain, "a run without a policy")
    eq([e["detail"] for e in plain["enforced"] if e["name"] == "network"], ["loopback only"])


@test
def learn_prints_a_policy_that_suffices():
    talks = 'exec 3<>/dev/tcp/$1/7000; echo hello >&3; head -c 3 <&3; exec 3<>/dev/tcp/$2/80 && ' \
            'printf "GET / HTTP/1.1\\r\\nHost: $2\\r\\n\\r\\n" >&3 && head -c 3 <&3'
    command, hosts = ["--", "bash", "-c", talks, "-"], ["a.example", "b.example"]
    p = warren("run", "--network", "learn", *command, *hosts)
    eq((p.returncode, p.stdout), (0, b"helHTT"), f"{p.stderr}")
    said = p.stderr.decode().splitlines()
    eq(said, ["warren run: the command used this network:", "--allow a.example:7000 --allow b.example:80"])
    options = said[1].split()
    eq(run(*options, *command, *hosts), b"helHTT")
    p = warren("run", *options[:2], *command, *hosts)
    ok(p.stdout == b"hel" and b"denied: no rule allows b.example" in p.stderr, f"{p}")


# --------------------------------------------------------------------------------- setups


def denied_options(text):
    """The options that a message about denied requests names, if it names some."""
    said = text.decode().splitlines()
    at = [i for i, line in enumerate(said) if "the network policy denied" in line]
    return " ".join(line for line in said[at[0]:] if line.startswith("--allow ")).split() if at else []


FETCH = "bash -c 'exec 3<>/dev/tcp/a.example/80 && printf \"GET / HTTP/1.1\\r\\nHost: a.example\\r\\n\\r\\n\" >&3 && head -c 12 <&3 | grep 200'"


@test
def what_a_setup_was_denied_is_named_and_can_be_allowed():
    with World() as w:
        put(w.project, {"warren.yaml": f"steps:\n  - run: |\n      {FETCH}\n    files: [dep]\n", "dep": "1\n"})
        for words in (("setup",), ("work", "--no-sync", "--", "true")):
            put(w.project, {"dep": f"{words}\n"})
            p = w.run(*words, status=125)
            eq(denied_options(p.stderr), ["--allow", "a.example"], f"{p.stderr}")
            ok(b"'warren work --no-setup' starts without it" in p.stderr, f"{p.stderr}")
            eq(denied_options(w.run(words[0], "-q", *words[1:], status=125).stderr), [], "--quiet")
            p = w.run(words[0], *denied_options(p.stderr), *words[1:])
            ok(b"denied" not in p.stderr, f"{p.stderr}")
            # The result is found without these options.
            ok(w.setup().endswith("ready"), "the key")
        put(w.project, {"dep": "2\n"})
        ok(w.setup("--network", "web").endswith("created"), "--network")
        put(w.project, {"dep": "3\n"})
        w.run("work", "--network", "web", "--no-sync", "--", "true", status=125)  # this is for the command
        eq(w.run("setup", "--network", "web", "--deny", "a.example", status=125).stdout, b"")
        w.run("setup", "--deny", "a.example", status=125)
        # A step that succeeds without the network needs no message.
        put(w.project, {"warren.yaml": f"steps:\n  - run: |\n      {FETCH} || true\n"})
        eq(denied_options(w.run("setup").stderr), [])


@test
def what_the_build_of_an_image_was_denied_can_be_allowed():
    with World() as w:
        put(w.project, {".devcontainer/devcontainer.json": '{"build": {"dockerfile": "Dockerfile", "context": ".."}}', "fetch": "true\n",
                        ".devcontainer/Dockerfile": "FROM host\nCOPY fetch /srv/fetch\nRUN bash /srv/fetch\n"})
        w.run("setup")
        # It is built again quietly, but a failure is explained.
        put(w.project, {"fetch": f"{FETCH}\n"})
        p = w.run("setup", status=125)
        eq(denied_options(p.stderr), ["--allow", "a.example"], f"{p.stderr}")
        w.run("setup", "--allow", "b.example", "--allow", "[::1]:80", status=125)
        w.run("setup", *denied_options(p.stderr), "--deny", "a.example:80", status=125)
        w.run("setup", *denied_options(p.stderr))


# ------------------------------------------------------------------------------- process


def egress_of(p):
    """The pid of warren-egress that a run has started."""
    with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
        for pid in f.read().split():
            with open(f"/proc/{pid}/comm", encoding="ascii") as comm:
                if comm.read().startswith("warren-egress"):
                    return int(pid)
    raise AssertionError("there is no warren-egress")


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f)


def waiting(*options, prefix=(), program=WARREN, **kw):
    """A run whose client has sent one request, and waits."""
    p = subprocess.Popen([*prefix, program, "run", "-i", *options, *client("a.example", 80, "twice")],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
    line = p.stdout.readline().decode().strip()
    if line != HTTP_OK:
        raise AssertionError(f"{line}; {finish(p)}")
    return p


def check_confined(status, uid):
    eq(status["Uid"].split(), [str(uid)] * 4)
    eq(status["Gid"].split(), [str(uid)] * 4)
    eq(status["Groups"].strip(), "")
    eq((status["CapEff"], status["CapPrm"]), ("0" * 16, "0" * 16))
    eq((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))


@test
def egress_of_root_runs_as_nobody():
    p = waiting("-q", "--allow", "a.example")
    pid = egress_of(p)
    check_confined(status_of(pid), UNPRIVILEGED)
    ok(os.getsid(pid) == pid, "a signal from the terminal does not reach it")
    eq(sorted(os.readlink(f"/proc/{pid}/fd/{n}") for n in "01"), ["/dev/null"] * 2)
    p.stdin.write(b"\n")
    eq(finish(p), (0, HTTP_OK.encode() + b"\n", b""))
    ok(not os.path.exists(f"/proc/{pid}"), "it has ended with the run")


@test
def a_killed_egress_closes_the_network_and_the_run_continues():
    p = waiting("--allow", "a.example")
    os.kill(egress_of(p), signal.SIGKILL)
    p.stdin.write(b"\n")
    status, out, err = finish(p)
    eq(status, 0)
    ok(out.decode().strip() in (NO_NAME, "ConnectionRefusedError"), f"{out}")
    eq(err, b"warren run: warren-egress has ended: the network is closed\n")


@test
def egress_ends_when_the_run_is_killed():
    p = waiting("--allow", "a.example")
    ok(egress_of(p), "warren-egress runs")
    with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
        children = f.read().split()
    p.kill()
    finish(p)
    ew.until(lambda: not any(map(is_alive, children)), "the end of warren-egress and of the sandbox")
    eq(warren("gc").returncode, 0, "status of gc")


@test
def bytes_of_a_command_that_ended_are_delivered():
    OUTSIDE[0].sink.received = b""
    send = "import socket\ns = socket.create_connection(('a.example', 7001))\ns.sendall(b'x' * 3000000)\n"
    eq(run("-q", "--allow", "a.example", "--", "python3", "-c", send), b"")
    ew.until(lambda: len(OUTSIDE[0].sink.received) == 3000000, "the last byte")


@test
def only_a_policy_needs_warren_egress():
    with tempfile.TemporaryDirectory() as d:
        env = {**os.environ, "WARREN_LIBEXEC": d}
        eq(run("--", "echo", "hello", env=env), b"hello\n")
        p = warren("run", "--allow", "a.example", "--", "echo", "hello", env=env)
        eq((p.returncode, p.stdout), (125, b""))
        ok(b"warren-egress" in p.stderr, f"{p.stderr}")


@test
@needs_root
def a_run_of_gvisor_has_the_same_policy():
    p = warren("run", "--backend", "gvisor", "--", "true")
    if p.returncode != 0:
        raise Skip("needs gVisor")
    eq(talk("--backend", "gvisor"), NO_NAME, "without a policy")
    eq(talk("--backend", "gvisor", "--allow", "a.example:80"), HTTP_OK)
    eq(talk("--backend", "gvisor", "--allow", "a.example:80", to=("b.example",)), NO_NAME)
    eq(talk("--backend", "gvisor", "--allow", "a.example:80", to=("a.example", 7000, "raw")), "ConnectionResetError")


@test
def an_error_before_the_start_is_in_the_json_object():
    p = warren("run", "--json", "--network", "nothing", "--", "true")
    eq((p.returncode, list(json.loads(p.stdout))), (125, ["error"]))


# -------------------------------------------------------------------------- ordinary user


class User:
    """An ordinary user with separate programs and directories."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="warren-test-")
        os.chmod(self.dir, 0o755)
        for name in ("warren", "warren-egress", "warren-client", "warren-serve"):
            shutil.copy(os.path.join(BUILD, name), self.dir)
        for name in ("home", "run", "data"):
            os.mkdir(f"{self.dir}/{name}", 0o700)
            os.chown(f"{self.dir}/{name}", UID, UID)
        self.program = f"{self.dir}/warren"
        self.prefix = ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"]
        self.env = {"HOME": f"{self.dir}/home", "XDG_RUNTIME_DIR": f"{self.dir}/run",
                    "XDG_DATA_HOME": f"{self.dir}/data", "PATH": os.environ["PATH"]}

    def talk(self, *options, to=("a.example",)):
        p = subprocess.run([*self.prefix, self.program, "run", "-q", *options, *client(*to)], env=self.env, cwd="/",
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        eq(p.returncode, 0, f"status; it said {p.stderr}")
        return p.stdout.decode().strip()

    def ask(self, *args):
        """The output of a command that uses the service."""
        p = subprocess.run([*self.prefix, self.program, *args], env=self.env, cwd="/", stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=60, check=False)
        eq(p.returncode, 0, f"{args}: {p.stderr}")
        return p.stdout.decode().strip()

    def serve(self):
        """Starts a service, and waits until it is ready."""
        log = f"{self.dir}/log"
        with open(log, "w", encoding="utf-8") as f:
            p = subprocess.Popen([*self.prefix, self.program, "serve"], env=self.env, cwd="/", stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=f)

        def ready():
            with open(log, encoding="utf-8") as f:
                return "ready; " in f.read()
        ew.until(ready, "the service is ready")
        return p


@test
def a_service_of_an_ordinary_user_has_the_same_network_after_a_restart():
    u = User()
    p = u.serve()
    try:
        box = u.ask("create", "--allow", "a.example:80", "-q")
        def reach(*to):
            return u.ask("exec", box, *client(*to)).splitlines()[-1]
        eq((reach("a.example"), reach("b.example"), reach("a.example", 7000, "raw")), (HTTP_OK, NO_NAME, "ConnectionResetError"))
        for number in (signal.SIGKILL, signal.SIGTERM):
            p.send_signal(number)
            p.wait(60)
            p = u.serve()
            ew.until(lambda: reach("a.example") == HTTP_OK, "the network is open again")
            eq((reach("b.example"), reach("a.example", 7000, "raw")), (NO_NAME, "ConnectionResetError"))
        u.ask("rm", box)
    finally:
        p.terminate()
        p.wait(60)
        shutil.rmtree(u.dir)


@test
def an_ordinary_user_has_the_same_network():
    u = User()
    try:
        eq(u.talk("--allow", "a.example:80"), HTTP_OK)
        eq(u.talk("--allow", "a.example:80", to=("b.example",)), NO_NAME)
        eq(u.talk(), NO_NAME)
        eq(u.talk("--network", "web", "--deny", "b.example", to=("b.example",)), NO_NAME)
        eq(u.talk("--network", "web", "--deny", "b.example"), HTTP_OK)
        p = waiting("-q", "--allow", "a.example", prefix=u.prefix, program=u.program, env=u.env, cwd="/")
        pid = egress_of(p)
        check_confined(status_of(pid), UID)
        os.kill(pid, signal.SIGKILL)
        p.stdin.write(b"\n")
        status, out, _ = finish(p)
        ok(status == 0 and out.decode().strip() in (NO_NAME, "ConnectionRefusedError"), f"{status}, {out}")
    finally:
        shutil.rmtree(u.dir)


# -------------------------------------------------------------------------- servers outside


def keep(server, s):
    while piece := s.recv(65536):
        server.received += piece


class Outside:
    def __init__(self, directory):
        self.dns = ew.Dns()
        self.dns.names.update({"a.example": ["1.2.3.4"], "b.example": ["5.6.7.8"], "inner.example": ["10.0.0.1"]})
        context = ew.make_certificate(directory, "a.example")

        def https(server, s):
            with context.wrap_socket(s, server_side=True) as tls:
                ew.http(server, tls)

        self.servers = [ew.Server(address, 80, ew.http) for address in ("1.2.3.4", "5.6.7.8", "10.0.0.1", "169.254.169.254")]
        self.servers += [ew.Server("1.2.3.4", 443, https), ew.Server("1.2.3.4", 7000, ew.echo)]
        self.sink = ew.Server("1.2.3.4", 7001, keep)
        resolv = os.path.join(directory, "resolv.conf")
        with open(resolv, "w", encoding="ascii") as f:
            f.write(f"nameserver {ew.NAMESERVER}\n")
        ew.run("mount", "--bind", resolv, "/etc/resolv.conf")


def main():
    if not ROOT:
        tests[:] = [needs_root(t) for t in tests]
        return run_tests()
    be_alone()
    check_isolated()
    ew.enter_outside()
    with tempfile.TemporaryDirectory() as d:
        OUTSIDE.append(Outside(d))
        try:
            return run_tests(and_nothing_left)
        finally:
            ew.run("umount", "/etc/resolv.conf")


if __name__ == "__main__":
    sys.exit(main())
