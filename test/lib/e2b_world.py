# SPDX-License-Identifier: Apache-2.0
"""e2b_world.py - a service, and the published SDKs of E2B as its clients"""
import os
import subprocess

from checks import ok
from published import Published
from serve_world import World

SECONDS = 300
SCOPES = ("read", "write", "exec", "files", "secrets")


class E2bWorld(World):
    """A service on TCP, with programs in test/lib/e2b-clients."""

    clients = Published("e2b-clients")

    def __init__(self, *options, **kw):
        super().__init__(*options, tcp=True, **kw)
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {"E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url, "E2B_VOLUME_API_URL": self.url}

    def key(self, *scopes, **spec):
        return self.token(*(scopes or SCOPES), e2b=True, **spec)

    def run_client(self, *command, **env):
        """Runs a client, and returns its output. A failed check in it is a failure here."""
        r = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                           timeout=SECONDS, check=False,
                           env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "E2B_API_KEY": self.key(),
                                **self.environment, **env})
        ok(r.returncode == 0 and r.stdout.splitlines()[-1:] == ["done"],
           f"status {r.returncode}: {r.stdout[-500:]} {r.stderr[-2500:]}")
        return r.stdout

    def python(self, name, *args, version="new", **env):
        return self.run_client(self.clients.python(f"python-{version}"), "-B", f"{self.clients.wanted}/{name}", *args, **env)

    def node(self, name, **env):
        return self.run_client("node", f"{self.clients.wanted}/{name}", E2B_CLIENTS=self.clients.node(), **env)

    def call(self, method, path, body=None, **headers):
        """Returns the status and the body of a response."""
        with self.client(tcp=True) as c:
            r = c.ask(method, path, body, headers={k.replace("_", "-"): v for k, v in headers.items()})
            return r.status, r.json() if r.body else None
