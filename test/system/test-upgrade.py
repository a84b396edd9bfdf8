#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-upgrade.py - this version takes over a service of the previous version with live sandboxes, and vice versa

Prints TAP. test/previous-version names the previous version, which is built from the repository's history. Each
version in turn finds what the other left: sandboxes with their files, running commands, results, sessions with their
variables, paused sandboxes, tokens. Then it creates one of each kind itself, for the other to find.
"""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, SOURCE, Skip, eq, ok, run_tests, test  # pylint: disable=wrong-import-position
from serve_world import BACKEND, SERVE, World, fitted, has, until  # pylint: disable=wrong-import-position

FOLDER = os.environ.get("WARREN_PREVIOUS", os.path.join(BUILD, "previous"))
BUILD_SECONDS = 1500  # on a loaded machine


def previous():
    """The folder with the programs of the previous version."""
    p = subprocess.run([os.path.join(SOURCE, "tools/run/previous-version"), FOLDER], stdout=subprocess.PIPE, text=True,
                       stderr=subprocess.PIPE, timeout=BUILD_SECONDS, check=False)
    if p.returncode == 77:
        raise Skip(p.stderr.strip())
    eq(p.returncode, 0, f"status of the build: {p.stderr[-2000:]}")
    return p.stdout.strip()


class Life:
    """One object of each kind, created by one version; they can be checked repeatedly."""

    def __init__(self, w, name):
        self.w, self.name, self.rounds = w, name, 0
        self.secret = w.token("read", "write")
        self.box = w.create(labels={"made-by": name})
        at = f"/v1/sandboxes/{self.box}"
        w.ask("PUT", f"{at}/files", b"kept by " + name.encode(), query={"path": "/root/note"}, status=201)
        self.done = w.exec(self.box, "echo out; echo err >&2; exit 7")
        eq(w.result(self.box, self.done)["exit_code"], 7, "exit code")
        self.ticking = w.exec(self.box, "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done", output_limit="16m")
        self.cat = w.exec(self.box, ["cat"], stdin=True)
        self.ending = w.exec(self.box, "while [ ! -e /root/end ]; do sleep 0.1; done; echo over; exit 9")
        self.session = w.post(f"{at}/sessions", {}, status=201)["id"]
        self.command("mkdir -p /root/d && cd /root/d && V=0 && export V")
        self.asleep = w.create(labels={"asleep": name}) if has("pause") else None
        if self.asleep:
            self.sleeper = w.exec(self.asleep, "echo before; sleep 1000")
            w.post(f"/v1/sandboxes/{self.asleep}/pause")

    def command(self, text):
        r = self.w.post(f"/v1/sandboxes/{self.box}/sessions/{self.session}/run", {"command": text})
        eq(r["exit_code"], 0, f"{text}: {r}")
        return r["stdout"]

    def lines(self):
        return self.w.raw(self.box, self.ticking, follow="false").decode().split()

    def check(self, who):
        """Checks that all objects still exist and work."""
        w, at, about = self.w, f"/v1/sandboxes/{self.box}", f"of what {self.name} made, by {who}"
        shown = w.show(self.box, token=self.secret)
        eq((shown["state"], shown["labels"]), ("running", {"made-by": self.name}), f"sandbox {about}")
        eq(w.ask("GET", f"{at}/files", query={"path": "/root/note"}, status=200).body, b"kept by " + self.name.encode(),
           f"file {about}")
        eq(w.result(self.box, self.done)["exit_code"], 7, f"result {about}")
        eq(w.raw(self.box, self.done), b"out\nerr\n", f"output {about}")
        before = self.lines()
        until(lambda: len(self.lines()) > len(before), f"more lines {about}")
        eq(self.lines()[:len(before)], [str(i + 1) for i in range(len(before))], f"lines {about}")
        self.rounds += 1
        w.ask("POST", f"{at}/execs/{self.cat}/stdin", b"%d\n" % self.rounds, status=200)
        until(lambda: w.raw(self.box, self.cat, follow="false").split()[-1:] == [b"%d" % self.rounds], f"input {about}")
        eq(self.command("V=$((V+1)); echo $V $PWD"), f"{self.rounds} /root/d\n", f"session {about}")
        eq(w.run(self.box, "echo new")["stdout"], "new\n", f"new command {about}")
        if self.asleep:
            eq(w.show(self.asleep)["state"], "paused", f"state {about}")
            w.post(f"/v1/sandboxes/{self.asleep}/resume")
            eq(w.run(self.asleep, "echo awake")["stdout"], "awake\n", f"command after a pause {about}")
            eq(w.raw(self.asleep, self.sleeper, follow="false"), b"before\n", f"output from before the pause {about}")
            w.post(f"/v1/sandboxes/{self.asleep}/pause")

    def ends(self):
        """Results from the time without a service are reported by the next one; a version can end the execs that it
        took over."""
        w = self.w
        eq(w.result(self.box, self.ending)["exit_code"], 9, "of what ended while nobody served")
        eq(w.raw(self.box, self.ending), b"over\n", "its output")
        w.post(f"/v1/sandboxes/{self.box}/execs/{self.ticking}/signal", {"signal": "KILL"}, status=204)
        eq(w.get(f"/v1/sandboxes/{self.box}/execs/{self.ticking}", query={"wait_ms": 30000})["state"], "exited", "killed")
        for box in filter(None, (self.box, self.asleep)):
            w.delete(box)
            eq(w.ask("GET", f"/v1/sandboxes/{box}").status, 404, "a sandbox that was deleted")


@test
def sandboxes_survive_an_upgrade_and_a_downgrade():
    """previous, this, previous, this: the objects of each version survive all changes."""
    old = os.path.join(previous(), "warren-serve")
    w = World("--log-level", "error", start=False)
    w.program = old
    with w.start():
        lives = [Life(w, "previous")]
        for who, program in (("this", SERVE), ("previous", old), ("this", SERVE)):
            w.stop()
            w.program = program
            w.start()
            eq(len(w.sandboxes()), len(lives) * (2 if has("pause") else 1), f"sandboxes that {who} finds")
            for life in lives:
                life.check(who)
            if len(lives) == 1:
                lives.append(Life(w, who))
        for life in lives:
            w.ask("PUT", f"/v1/sandboxes/{life.box}/files", b"", query={"path": "/root/end"}, status=201)
            w.stop()
            time.sleep(0.3)
            w.start()
            life.ends()


@test
def duplicate_names_become_unique_after_an_upgrade():
    """The previous version allowed several sandboxes with the same name: the oldest keeps it, and all are found."""
    old = os.path.join(previous(), "warren-serve")
    w = World("--log-level", "error", start=False)
    w.program = old
    with w.start():
        a, b = w.create(name="same"), w.create(name="same")
        w.kill("api", "warden")
        w.program = SERVE
        w.start()
        eq([w.show(box)["name"] for box in (a, b)], ["same", f"same-{b}"], "names")
        eq(w.get("/v1/sandboxes/same")["id"], a, "whose name it is")
        eq(w.run("same", "echo alive")["stdout"], "alive\n", "a command by the name")
        # After a downgrade, the names stay the same.
        w.stop()
        w.program = old
        w.start()
        eq([w.show(box)["name"] for box in (a, b)], ["same", f"same-{b}"], "names, by the previous version")


@test
def sandboxes_survive_a_kill_between_versions():
    """One version is killed with SIGKILL before the other starts."""
    old = os.path.join(previous(), "warren-serve")
    w = World("--log-level", "error", start=False)
    w.program = old
    with w.start():
        life = Life(w, "previous")
        for who, program in (("this", SERVE), ("previous", old), ("this", SERVE)):
            w.kill("api", "warden")
            w.program = program
            w.start()
            life.check(who)
        ok(w.post("/v1/sandboxes", fitted({}), status=201)["state"] == "running", f"a new one, on {BACKEND}")


def main():
    if not os.access(SERVE, os.X_OK) or os.geteuid() != 0:
        print("1..0 # SKIP needs root, and warren-serve")
        return 0
    return run_tests()


if __name__ == "__main__":
    sys.exit(main())
