#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-contract-others.py - run the contract of all backends against backends with servers or other kernels

Prints TAP. Each backend is one test here: it runs the suites test-contract.c and test-contract-life.c with that
backend's configuration. Tests that cannot pass on a backend are listed below, with the reason. The test starts the
servers itself, on loopback.
"""
import json
import os
import signal
import socket
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from dockerd import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position

SUITES = ("test-contract", "test-contract-life")
LIMIT = 900  # seconds for both suites, on a loaded machine
# With busybox as the image: its sh ignores SIGQUIT, and so do its children.
BUSYBOX = ("a_command_starts_with_default_signal_dispositions", "the_signal_that_ended_a_command_is_reported")


class Suite:
    """A running suite. The output before a result belongs to that test; output without a result shows what was
    running when the time was up."""

    def __init__(self, name, env):
        self.name, self.passed, self.failed = name, 0, {}
        # Each program has separate directories, so they do not conflict.
        self.process = subprocess.Popen([f"{BUILD}/test/{name}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)

    def finish(self, deadline):
        late = ""
        try:
            output, _ = self.process.communicate(timeout=max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            self.process.kill()
            output, _ = self.process.communicate()
            late = f"not done in {LIMIT} s, "
        self.read(output.decode(errors="replace").splitlines())
        # Exit status 1 means that a test failed, which its own line reports.
        if late or self.process.returncode not in (0, 1):
            self.failed[self.name] = [f"{late}exit status {self.process.returncode}"]

    def read(self, lines):
        said = []
        for line in lines:
            name = line.split(" - ", 1)[-1].removeprefix("other_")
            if line.startswith("not ok "):
                self.failed[name] = said
            elif line.startswith("ok "):
                self.passed += "# SKIP" not in line and " - other_" in line
            else:
                said.append(line)
                continue
            said = []
        # The output of a test that was interrupted.
        if said and not said[-1].startswith("1.."):
            self.failed[f"{self.name}, at its end"] = said


def contract(kind, config, image=None, but=()):
    """Runs both suites at the same time. Every test must pass, except those in @but, which must fail."""
    env = dict(os.environ, WARREN_OTHER_KIND=kind, WARREN_OTHER_CONFIG=json.dumps(config),
               WARREN_OTHER_NAME=config.get("name", kind), WARREN_LIBEXEC=BUILD, PATH=PATH)
    if image:
        env["WARREN_OTHER_IMAGE"] = image
    deadline = time.monotonic() + LIMIT
    suites = [Suite(name, env) for name in SUITES]
    for suite in suites:
        suite.finish(deadline)
    failed = {name: said for suite in suites for name, said in suite.failed.items() if name not in but}
    ok(not failed, "\n".join(f"{name}: {' '.join(said) or 'it gives no reason'}" for name, said in failed.items()))
    for suite in suites:
        ok(suite.passed > 10, f"only {suite.passed} of {suite.name} passed")
    for name in but:
        ok(any(name in suite.failed for suite in suites), f"{name} is no exception: it passes")


class Sshd:
    """A separate sshd on loopback, with its own keys and port, that accepts root with one key."""

    def __init__(self):
        if not ROOT:
            raise Skip("needs root, to start sshd")
        for tool in ("ssh", "sshd", "ssh-keygen"):
            if not shutil.which(tool, path=PATH):
                raise Skip(f"{tool} is not installed")
        self.dir = tempfile.mkdtemp(prefix="warren-ssh-")
        self.port = free_port()
        for name in ("host", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.dir}/{name}"], check=True)
        shutil.copy(f"{self.dir}/key.pub", f"{self.dir}/authorized")
        with open(f"{self.dir}/host.pub", encoding="ascii") as f:
            known = f"[127.0.0.1]:{self.port} {f.read()}"
        with open(f"{self.dir}/known", "w", encoding="ascii") as f:
            f.write(known)
        with open(f"{self.dir}/config", "w", encoding="ascii") as f:
            f.write(f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {self.dir}/host\nPidFile {self.dir}/pid\nUsePAM no\n"
                    f"AuthorizedKeysFile {self.dir}/authorized\nPermitRootLogin prohibit-password\nStrictModes no\n"
                    "PasswordAuthentication no\nMaxSessions 1000\nMaxStartups 1000\nPrintMotd no\n")
        self.log = open(f"{self.dir}/log", "wb")  # pylint: disable=consider-using-with
        # The directory that sshd confines itself to has a fixed name, so mount a separate /run.
        script = 'mount -t tmpfs warren-test /run && mkdir -m 755 /run/sshd && exec "$@"'
        self.process = subprocess.Popen(["unshare", "-m", "sh", "-c", script, "sh", shutil.which("sshd", path=PATH), "-D", "-e",
                                         "-f", f"{self.dir}/config"], stderr=self.log, stdin=subprocess.DEVNULL)
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.05)
        raise Skip("sshd does not start here")

    def config(self):
        """Each sandbox has one persistent ssh connection."""
        options = ["-F", "none", "-i", f"{self.dir}/key", "-o", f"UserKnownHostsFile={self.dir}/known", "-o", "BatchMode=yes",
                   "-o", "ControlMaster=auto", "-o", f"ControlPath={self.dir}/{{id}}", "-o", "ControlPersist=60", "-p", str(self.port)]
        return {"kind": "command", "name": "ssh", "tty": "-tt", "exec": ["ssh", "{tty}", *options, "root@127.0.0.1", "--", "{command}"],
                "destroy": ["rm", "-f", f"{self.dir}/{{id}}"]}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir)


@test
def the_command_backend_over_ssh_fulfils_the_contract():
    with Sshd() as sshd:
        contract("command", sshd.config())


@test
def the_command_backend_with_the_docker_cli_fulfils_the_contract():
    with Docker() as docker:
        with open(rootfs(), "rb") as f:
            docker.call("import", "-", "contract:1", stdin=f)
        client = ["docker", "-H", f"unix://{docker.socket}"]
        contract("command", {
            "kind": "command", "name": "docker-cli",
            "create": [*client, "run", "-d", "--init", "--network", "none", "--name", "warren-{id}", "{image}", "sleep", "2147483647"],
            "exec": [*client, "exec", "-i", "{tty}", "-u", "{user}", "warren-{id}", "{argv}"],
            "destroy": ["sh", "-c", f"{' '.join(client)} rm -f warren-$0 >/dev/null 2>&1; ! {' '.join(client)} inspect warren-$0 >/dev/null 2>&1",
                        "{id}"],
        }, image="contract:1", but=BUSYBOX)
        eq(docker.call("ps", "-aq").decode().split(), [], "containers that are left")


@test
def the_gvisor_backend_fulfils_the_contract():
    if not ROOT or not shutil.which("runsc", path=PATH):
        raise Skip("needs root and runsc")
    contract("gvisor", {"kind": "gvisor", "name": "gvisor"}, image="host")


@test
def the_docker_backend_fulfils_the_contract():
    with Docker() as daemon:
        daemon.call("import", "-", "contract:1", input=tar(host_like()))
        contract("docker", {"kind": "docker", "socket": daemon.socket}, image="contract:1")
        eq(daemon.call("ps", "-aq").decode().split(), [], "containers that are left")


if __name__ == "__main__":
    sys.exit(main())
