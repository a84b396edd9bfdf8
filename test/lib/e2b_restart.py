# SPDX-License-Identifier: Apache-2.0
"""e2b_restart.py - clients that have the service restarted, or ask for another tenant, while they run

A client writes a line with the name of a step, and waits for a line with its result.
"""
import os
import signal
import subprocess
import threading

from checks import ok
from e2b_world import SECONDS, E2bWorld
from serve_world import descriptors, rss


class RestartWorld(E2bWorld):
    def step(self, name):
        if name == "kill":
            self.kill("api", "warden")
            self.start()
        elif name == "restart":
            self.stop()
            self.start()
        elif name == "key":
            return self.key(tenant="other")
        elif name == "descriptors":
            return str(descriptors(self.api))
        elif name == "memory":
            return str(rss(self.api) >> 10)
        return "ok"

    def run_client(self, *command, **env):
        """Runs a client. A failed check in it is a failure here."""
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              errors="replace", env={"PATH": os.environ["PATH"], "HOME": "/nonexistent",
                                                     "E2B_API_KEY": self.key(), **self.environment, **env}) as p:
            late = threading.Timer(SECONDS, p.send_signal, [signal.SIGKILL])
            errors = []
            reader = threading.Thread(target=lambda: errors.append(p.stderr.read()))
            late.start()
            reader.start()
            last = ""
            for line in p.stdout:
                last = line.strip()
                if last.startswith("step "):
                    p.stdin.write(self.step(last[5:]) + "\n")
                    p.stdin.flush()
            status = p.wait()
            late.cancel()
            reader.join()
        ok(status == 0 and last == "done", f"status {status}: {last} {errors[0][-3000:]}")
