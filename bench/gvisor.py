# SPDX-License-Identifier: Apache-2.0
"""gvisor.py - sandboxes, commands and sessions of the gVisor tier over the API, compared with runsc itself

bench/run calls this. The peer is runsc on the command line (`runsc run --detach`, `runsc exec`), with a bundle of
busybox. The same requests to the native backend in the same run show the cost of the tier.
"""
import json
import os
import subprocess

import peers
from serve import Client, timed, times

TRUE = '{"argv":["/bin/true"]}'


class Runsc:
    """A container of runsc, with a process that waits."""

    def __init__(self, folder):
        self.program = peers.find("runsc")
        self.folder = folder
        self.id = f"wb{os.getpid()}"

    def call(self, *arguments):
        return subprocess.run([self.program, "--root", str(self.folder / "root"), "--network", "none",
                               "--ignore-cgroups", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=60, check=False).returncode

    def bundle(self):
        """Creates a bundle; returns why there is none, or None."""
        if not self.program:
            return "runsc is not installed"
        made = peers.make_bundle(self.folder)
        if not made:
            return "no bundle: busybox or a runtime that writes a spec is missing"
        (made / "rootfs/bin/sleep").symlink_to("busybox")
        config = json.loads((made / "config.json").read_text())
        config["process"]["args"] = ["/bin/sleep", "1000"]
        config["linux"].pop("resources", None)
        (made / "config.json").write_text(json.dumps(config))
        return None

    def first_result(self):
        took = timed(lambda: (self.call("run", "--detach", "--bundle", str(self.folder), self.id),
                              self.call("exec", self.id, "/bin/true")))
        self.call("delete", "--force", self.id)
        return took

    def figures(self, rounds):
        made = [times("create to first result, runsc", max(1, rounds // 10), self.first_result)]
        try:
            if self.call("run", "--detach", "--bundle", str(self.folder), self.id):
                raise RuntimeError("runsc run: its container does not start")
            made.append(times("runsc exec /bin/true", rounds, lambda: timed(
                lambda: self.call("exec", self.id, "/bin/true"))))
        finally:
            self.call("delete", "--force", self.id)
        return made


def first_result(c, backend):
    made = []

    def both():
        made.append(json.loads(c.ask("POST", "/v1/sandboxes", json.dumps({"backend": backend})))["id"])
        c.ask("POST", f"/v1/sandboxes/{made[-1]}/run", TRUE)
    took = timed(both)
    c.ask("DELETE", f"/v1/sandboxes/{made[-1]}")
    return took


def ours(c, backend, rounds):
    figures = [times(f"create to first result, {backend}", max(1, rounds // 10), lambda: first_result(c, backend))]
    box = json.loads(c.ask("POST", "/v1/sandboxes", json.dumps({"backend": backend})))["id"]
    at = f"/v1/sandboxes/{box}"
    figures.append(times(f"exec /bin/true, {backend}", rounds, lambda: timed(lambda: c.ask("POST", at + "/run", TRUE))))
    session = json.loads(c.ask("POST", at + "/sessions", "{}"))["id"]
    figures.append(times(f"command in a session, {backend}", rounds, lambda: timed(
        lambda: c.ask("POST", f"{at}/sessions/{session}/run", '{"command":"true"}'))))
    figures.append(times(f"pause and resume, {backend}", max(1, rounds // 4), lambda: timed(
        lambda: (c.ask("POST", at + "/pause"), c.ask("POST", at + "/resume")))))
    c.ask("DELETE", at)
    return figures


def section(folder, rounds=100):
    """Prints the section; returns its figures, and 1 if something of Warren failed."""
    from serve_world import World  # pylint: disable=import-outside-toplevel
    print(f"\n{'behind the wall of gVisor':46} {'p50':>8} {'p99':>8} {'n':>9}", flush=True)
    folder = folder / "gvisor"
    folder.mkdir()
    runsc = Runsc(folder)
    why = "needs root" if os.geteuid() != 0 else runsc.bundle()
    if why:
        print(f"  {why}")
        return [], 0
    try:
        figures = runsc.figures(rounds)
        with World("--log-level", "error") as world:
            c = Client(world)
            for backend in ("gvisor", "native"):
                figures += ours(c, backend, rounds)
            world.empty()
        return [dict(f, bench="gvisor") for f in figures], 0
    except (RuntimeError, OSError, AssertionError, subprocess.SubprocessError) as failed:
        print(f"  failed: {failed}")
        return [], 1
