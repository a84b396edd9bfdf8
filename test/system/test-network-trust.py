#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-network-trust.py - programs in a sandbox trust the service's authority if its policy needs that, and files do not change

Most programs run with an empty environment (env -i), so that only the files of the image count.
"""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
import network_world as nw  # pylint: disable=wrong-import-position
from loopback_dns import Dns  # pylint: disable=wrong-import-position
from serve_world import BACKEND, CONFIGS, World, refused, until  # pylint: disable=wrong-import-position

w = None  # pylint: disable=invalid-name
dns, tls = Dns(), None  # pylint: disable=invalid-name
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"  # of this machine's image
FILE = "/etc/warren/ca-certificates.crt"


def headers():
    """A policy for which TLS is terminated."""
    return {"allow": [{"host": "a.test", "ports": [tls.port], "headers": {"X-Key": "k"}}, {"host": "127.0.0.0/8"}]}


def plain():
    """A policy that passes TLS on unchanged."""
    return {"allow": [{"host": "a.test", "ports": [tls.port]}, {"host": "127.0.0.0/8"}]}


def new_box(network, **spec):
    """Creates a sandbox with this machine's programs and certificates; a container gets them before its policy."""
    if BACKEND != "docker":
        return w.create(image="host", network=network, **spec)
    box = w.create(image="host", mounts=[{"source": "/usr", "target": "/usr", "read_only": True}], **spec)
    sh(box, f"mkdir -p /etc/ssl/certs; cat /usr/share/ca-certificates/mozilla/* >{BUNDLE}")
    if network != "loopback":
        patch(box, network)
    return box


def url():
    return f"https://a.test:{tls.port}/"


def clients():
    """Commands that succeed if they trust the server's certificate."""
    python = f"import urllib.request as u; u.urlopen('{url()}').read()"
    openssl = f"openssl s_client -connect a.test:{tls.port} -servername a.test -verify_return_error </dev/null"
    yield "curl", ["curl", "-sSf", "-m", "50", url()]
    yield "python3", ["python3", "-c", python]
    yield "openssl", ["sh", "-c", openssl]
    if shutil.which("wget"):
        yield "wget", ["wget", "-q", "-T", "50", "-t", "1", "-O", "/dev/null", url()]
    if shutil.which("git"):
        # The server has no repository, so git fails in any case; its message shows whether the certificate was accepted.
        yield "git", ["sh", "-c", f"git ls-remote {url()} 2>&1 | grep -q -v -e certificate -e verification"]


def works(box, command, alone=True):
    r = w.run(box, ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *command] if alone else command)
    return r["result"]["exit_code"] == 0, r


def trusts(box):
    return works(box, ["curl", "-sSf", "-m", "50", url()])[0]


def sh(box, text):
    r = w.run(box, ["sh", "-c", text])
    eq(r["result"]["exit_code"], 0, r)
    return r["stdout"]


def patch(box, network, status=200):
    return w.ask("PATCH", f"/v1/sandboxes/{box}", {"network": network}, status=status)


@test
def clients_that_ignore_the_variables_trust_the_authority():
    box, other = new_box(network=headers()), new_box(network=plain())
    for name, command in clients():
        # The control: without termination, they meet a certificate of an authority that nothing in the image knows.
        eq((name, works(other, command)[0]), (name, False))
        done, r = works(box, command)
        ok(done, (name, r))
    eq(tls.keys[-1], ["k"])
    # The file is the image's, with one more certificate.
    count = f"grep -c BEGIN.CERT {BUNDLE}"
    eq(int(sh(box, count)), int(sh(other, count)) + 1)
    w.delete(box)
    w.delete(other)


@test
def the_files_of_the_image_do_not_change():
    box = new_box(network=headers())
    r = w.run(box, ["sh", "-c", f"echo x >>{BUNDLE}; echo x >>{FILE}; touch /etc/warren/x"])
    eq(r["stderr"].count("Read-only file system"), 3, r)
    eq(sh(box, f"stat -c %a:%U {BUNDLE} {FILE}"), "644:root\n" * 2)
    if BACKEND == "native":
        # A sandbox that hibernated has exactly the files that were written to its root. The control: a file that was written.
        sh(box, "echo x >/etc/mine")
        w.ask("POST", f"/v1/sandboxes/{box}/hibernate", {}, status=200)
        saved = f"{w.state}/saved/{box}"
        found = [os.path.relpath(os.path.join(at, name), saved) for at, dirs, files in os.walk(saved) for name in dirs + files]
        eq([name for name in found if "ssl" in name or "warren" in name], [], found)
        ok("etc/mine" in found, found)
        # A sandbox that wakes has new mounts.
        ok(trusts(box), "it trusts the authority after it woke")
    w.delete(box)


@test
def trust_follows_the_policy_of_a_running_sandbox():
    variables = "echo $SSL_CERT_FILE $PIP_CERT"
    for first in ("loopback", plain()):
        box = new_box(network=first, env={"PIP_CERT": "mine"})
        eq((trusts(box), sh(box, variables)), (False, "mine\n"))
        patch(box, headers())
        ok(trusts(box), first)
        eq(sh(box, variables), f"{FILE} mine\n")
        eq(w.run(box, ["sh", "-c", variables], env={"SSL_CERT_FILE": "/x"})["stdout"], "/x mine\n")
        # A second time changes nothing, and neither does the end of the policy.
        mounts = sh(box, "cat /proc/self/mountinfo")
        patch(box, plain())
        patch(box, headers())
        eq((sh(box, "cat /proc/self/mountinfo"), trusts(box)), (mounts, True))
        w.delete(box)


@test
def trust_survives_each_process_of_the_service():
    box = new_box(network="loopback")
    patch(box, headers())
    mounts = sh(box, "cat /proc/self/mountinfo")
    for who in (("api",), ("warden",), ("api", "warden")):
        w.kill(*who)
        if "warden" in who:
            w.start()
        w.ready()
        until(lambda: trusts(box), "it trusts the authority")
        eq((sh(box, "echo $SSL_CERT_FILE"), sh(box, "cat /proc/self/mountinfo")), (f"{FILE}\n", mounts))
    w.delete(box)


# Commands with which a hostile image or process replaces the file, and the reason why a change is then refused.
HOSTILE = [
    ("ln -s /proc/1/mem", None),
    ("ln -s /proc/self/fd/0", None),
    ("ln -s /proc/version", None),
    ("ln -s ../../../../../../../../etc/shadow-of-nothing", None),
    ("ln -s /etc/ssl/certs/ca-certificates.crt", None),  # a loop
    ("mkfifo", None),
    ("mkdir", None),
    ("ln -s /dev/zero", None),
    ("head -c 3000000 /dev/zero >", "larger than 2 MiB"),
    ("truncate -s 1T", "larger than 2 MiB"),
    (":  >", None),
]


@test
def files_of_a_hostile_image_do_no_harm():
    for command, why in HOSTILE:
        box = new_box(network="loopback")
        sh(box, f"rm {BUNDLE}; {command} {BUNDLE}")
        if why:  # nothing inside prevents a policy
            patch(box, headers())
            ok(why in w.get(f"/v1/sandboxes/{box}/network")["distrust"], w.get(f"/v1/sandboxes/{box}/network"))
            ok(not works(box, ["curl", "-sSf", "-m", "50", url()])[0], "it trusts what it cannot have")
            sh(box, f"rm {BUNDLE}")  # the control: only that was wrong
        patch(box, headers())
        ok("distrust" not in w.get(f"/v1/sandboxes/{box}/network"), command)
        eq(w.show(box)["network"], "policy", command)
        ok(works(box, ["curl", "-sSf", "-m", "50", "--cacert", FILE, url()])[0], command)
        w.delete(box)


@test
def a_link_is_resolved_inside():
    box = new_box(network="loopback")
    # The host has this file too, with another content.
    sh(box, f"mv {BUNDLE} /tmp/mine; ln -s ../../../../../../../tmp/mine {BUNDLE}; echo '# inside' >>/tmp/mine")
    before = sh(box, "sha256sum /tmp/mine")
    patch(box, headers())
    ok(trusts(box), "it trusts the authority")
    ok("# inside" in sh(box, f"tail -n 40 {BUNDLE}"), "the content is that of the file inside")
    eq(sh(box, f"readlink {BUNDLE}").strip(), "../../../../../../../tmp/mine")
    ok(sh(box, "sha256sum /tmp/mine") != before, "the copy is mounted over the file that the link names")
    w.delete(box)


@test
def a_bundle_of_the_service_that_was_replaced_is_refused():
    bundle = f"{w.state}/serve/trust/ca-certificates.crt"
    box = new_box(network=headers())  # creates it
    w.delete(box)
    os.rename(bundle, bundle + ".away")
    for target in (bundle + ".away", "/etc/ssl/certs/ca-certificates.crt"):
        os.symlink(target, bundle)
        box = new_box(network="loopback")
        refused(patch(box, headers(), status=None), 500, "internal", "open")
        w.delete(box)
        os.unlink(bundle)
    os.rename(bundle + ".away", bundle)
    box = new_box(network=headers())  # the control
    ok(trusts(box), "it trusts the authority")
    w.delete(box)


@test
def a_paused_sandbox_does_not_keep_a_change_waiting():
    box = new_box(network=plain())
    w.post(f"/v1/sandboxes/{box}/pause")
    patch(box, headers())
    w.post(f"/v1/sandboxes/{box}/resume")
    ok(trusts(box), "it trusts the authority")
    w.delete(box)
    w.check_empty()


CONFIG = """
mounts: ['/usr:ro']
network:
  permit: {{ allow: [{{ public: true }}, {{ host: 127.0.0.0/8 }}] }}
  dns_servers: '127.0.0.1:{dns}'
  ca_file: {authority}
"""


def main():
    global tls, w  # pylint: disable=global-statement
    try:
        with tempfile.TemporaryDirectory(prefix="test-network-trust-") as folder:
            os.chmod(folder, 0o755)
            tls = nw.TlsServer(folder)
            with World(config=CONFIGS[BACKEND] + CONFIG.format(dns=dns.port, authority=tls.authority)) as w:
                return run_tests()
    except Skip as why:
        print(f"1..0 # SKIP {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
