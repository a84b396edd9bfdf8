#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-names.py - a sandbox can resolve its own name, and the usual environment variables are set

Prints TAP. WARREN_TEST_BACKEND is the backend (default: native).
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import BACKEND, World  # pylint: disable=wrong-import-position

RESOLVE = ("import socket; name = socket.gethostname(); "
           "print(name, socket.gethostbyname(name), socket.getaddrinfo(name, 80, flags=socket.AI_CANONNAME)[0][3])")
HOSTS = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback", "fe00::\tip6-localnet",
         "ff00::\tip6-mcastprefix", "ff02::1\tip6-allnodes", "ff02::2\tip6-allrouters"]


def said(box, command, **more):
    r = w.run(box, command, **more)
    eq(r["result"]["exit_code"], 0, r)
    return r["stdout"].split("\n")


@test
def a_sandbox_resolves_its_own_name():
    box = w.create()
    eq(said(box, f"python3 -c '{RESOLVE}'"), [f"{box} 127.0.0.1 {box}", ""])
    eq(said(box, "cat /etc/hosts"), [*HOSTS, f"127.0.0.1\t{box}", ""])
    eq(said(box, "python3 -c 'import os\nfor p in (\"/etc\", \"/etc/hosts\"):\n  s = os.stat(p)\n  print(oct(s.st_mode), s.st_uid, s.st_gid)'"),
       ["0o40755 0 0", "0o100644 0 0", ""])
    # It is an ordinary file: a name can be added and resolved.
    eq(said(box, "echo 127.0.0.9 other >> /etc/hosts; getent hosts other | tr -s ' '"), ["127.0.0.9 other", ""])
    w.delete(box)


@test
def a_sandbox_resolves_its_given_hostname():
    box = w.create(hostname="node7.example.org")
    eq(said(box, f"python3 -c '{RESOLVE}'"), ["node7.example.org 127.0.0.1 node7.example.org", ""])
    eq(said(box, "getent hosts node7 | cut -d' ' -f1; tail -n 1 /etc/hosts; getent hosts absent.example.org; echo $?"),
       ["127.0.0.1", "127.0.0.1\tnode7.example.org node7", "2", ""])
    w.delete(box)


@test
def a_name_resolves_with_a_read_only_root_and_with_a_disk():
    """Two cases: the layer with /etc/hosts is sealed, or it is in a file."""
    box = w.create(read_only=True)
    eq(said(box, f"python3 -c '{RESOLVE}'; touch /etc/hosts 2>/dev/null || echo sealed"), [f"{box} 127.0.0.1 {box}", "sealed", ""])
    w.delete(box)
    if BACKEND == "native":
        box = w.create(limits={"memory": "128m", "disk": "192m"})
        eq(said(box, f"python3 -c '{RESOLVE}'"), [f"{box} 127.0.0.1 {box}", ""])
        w.delete(box)


@test
def the_locale_is_utf_8_and_a_terminal_has_a_type():
    box = w.create()
    eq(said(box, "echo $LANG ${TERM-none}; python3 -c 'import sys; print(sys.stdout.encoding)'"), ["C.UTF-8 none", "utf-8", ""])
    e = w.exec(box, "echo $LANG $TERM", pty=True)
    eq(w.result(box, e)["exit_code"], 0)
    got = w.ask("GET", f"/v1/sandboxes/{box}/execs/{e}/output?format=raw&follow=false", status=200).body.decode()
    eq(got.split(), ["C.UTF-8", "xterm"])
    # Explicit values override the defaults.
    eq(said(box, "echo $LANG $TERM", env={"LANG": "C", "TERM": "dumb"}), ["C dumb", ""])
    w.delete(box)
    box = w.create(env={"LANG": "en_GB.UTF-8"})
    eq(said(box, "echo $LANG"), ["en_GB.UTF-8", ""])
    w.delete(box)


if __name__ == "__main__":
    with World() as w:
        ok(BACKEND in ("native", "gvisor"), "a backend whose /etc/hosts is ours")
        failed = run_tests()
    sys.exit(failed)
