# SPDX-License-Identifier: Apache-2.0
"""template_world.py - a service that builds templates for clients of E2B's API"""
import contextlib
import http.client
import io
import os
import subprocess
import tarfile

from checks import eq
from e2b_world import E2bWorld
from serve_world import until

HASH = "ab" * 32
COPY = {"type": "COPY", "args": ["a", "/home/user/a"], "filesHash": HASH}


def archive(**files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def runs(command):
    return subprocess.run(["pgrep", "-f", f"^{command}"], check=False, capture_output=True).returncode == 0


class TemplateWorld(E2bWorld):
    def __init__(self, *options, **kw):
        super().__init__(*options, **kw)
        self.keys = {}

    def key_of(self, tenant="local"):
        if tenant not in self.keys:
            self.keys[tenant] = self.key(tenant=tenant)
        return self.keys[tenant]

    def e2b(self, method, path, body=None, secret=None):
        """Returns the status and the body of a response; @secret "": without a key."""
        return self.call(method, path, body, **({"X_API_Key": secret or self.key_of()} if secret != "" else {}))

    def request(self, name, secret=None, **fields):
        """Requests a build; returns the ids of the template and of the build."""
        status, body = self.e2b("POST", "/v3/templates", {"name": name, **fields}, secret)
        eq(status, 202, body)
        return body["templateID"], body["buildID"]

    def build(self, name, *steps, secret=None, **fields):
        """Starts a build with commands, or other steps; returns its path."""
        template, build = self.request(name, secret)
        path = f"/templates/{template}/builds/{build}"
        steps = [x if isinstance(x, dict) else {"type": "RUN", "args": [x]} for x in steps]
        eq(self.e2b("POST", f"/v2{path}", {"fromTemplate": "base", "steps": steps, **fields}, secret), (202, None))
        return path

    def status(self, path, secret=None):
        return self.e2b("GET", f"{path}/status", secret=secret)[1]["status"]

    def ended(self, path, secret=None):
        """Waits for the end of the build; returns its state and the reason of a failure."""
        until(lambda: self.status(path, secret) not in ("waiting", "building"), "the end of the build")
        body = self.e2b("GET", f"{path}/status", secret=secret)[1]
        return body["status"], body.get("reason")

    def logged(self, path, text, secret=None):
        until(lambda: text in self.e2b("GET", f"{path}/status", secret=secret)[1]["logs"], f"{text!r} in the log")

    def upload_path(self, template, name=HASH, secret=None):
        """Returns the path for the upload of an archive."""
        status, answer = self.e2b("GET", f"/templates/{template}/files/{name}", secret=secret)
        eq(status, 201, answer)
        return answer["url"].partition(f":{self.port}")[2]

    def upload(self, path, data):
        return self.e2b("PUT", path, data, secret="")[0]

    def announce(self, path, size, data=b""):
        """Sends the head of an upload of @size bytes and @data; returns the status."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.putrequest("PUT", path)
        c.putheader("Content-Length", str(size))
        c.endheaders(data)
        status = c.getresponse().status
        c.close()
        return status

    def value(self, text, *values):
        """Returns the first value of the result of a query."""
        return self.rows(text, *values)[0][0]

    def builder(self):
        """Returns the process of the build that runs; 0: none."""
        found = subprocess.run(["pgrep", "-o", "-f", f"warren-image.*build-request.*{self.run_dir}"], check=False,
                               capture_output=True).stdout
        return int(found) if found else 0

    def snapshot_refs(self):
        """Returns the names of snapshots in the store of images."""
        return [x for x in os.listdir(f"{self.state}/images/refs") if "warren.snapshot" in x]

    def archives(self):
        """Returns the sizes of the archives that the service has; they are files without a name."""
        sizes, fds = [], f"/proc/{self.api}/fd"
        for fd in os.listdir(fds):
            with contextlib.suppress(OSError):
                if os.readlink(f"{fds}/{fd}").endswith("(deleted)"):
                    sizes.append(os.stat(f"{fds}/{fd}").st_size)
        return sizes
