# SPDX-License-Identifier: Apache-2.0
"""push_world.py - a registry in memory that accepts pushes, and misbehaves if a test wants that"""
import json
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from oci_world import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from registry_server import Evil, Handler, Seen, basic  # noqa: F401 pylint: disable=wrong-import-position,unused-import


class PushHandler(Handler):
    """Answers like a correct registry, unless the server's behave(handler) returns true."""

    def answer(self, status, body=b"", headers=(), length=None):
        if self.command == "HEAD":  # its answer has no body
            body, length = b"", len(body) if length is None else length
        super().answer(status, body, headers, length)

    def query(self):
        return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def serve(self):
        server, path = self.server, urllib.parse.urlsplit(self.path).path
        server.seen.append(Seen(self))
        if server.behave and server.behave(self):
            return
        if server.login and self.headers["Authorization"] != basic(*server.login):
            self.body()
            self.error(401, "UNAUTHORIZED", "log in", {"WWW-Authenticate": 'Basic realm="here"'})
        elif path.startswith("/v2/") and "/blobs/uploads/" in path:
            self.upload(path)
        elif path.startswith("/v2/") and "/manifests/" in path and self.command == "PUT":
            data = self.body()
            m = json.loads(data)
            missing = [x["digest"] for x in (m["config"], *m["layers"]) if x["digest"] not in server.stored]
            server.manifests[path.rsplit("/", 1)[-1]] = (self.headers["Content-Type"], data)
            if missing:
                self.error(400, "MANIFEST_BLOB_UNKNOWN", f"blob unknown: {missing}")
            else:
                self.answer(201, headers={"Docker-Content-Digest": digest(data)})
        elif path.rsplit("/", 1)[-1] in server.stored:
            self.answer(200, length=len(server.stored[path.rsplit("/", 1)[-1]]))
        else:
            self.answer(404)

    def upload(self, path):
        server = self.server
        if self.command == "POST":
            self.body()
            wanted = self.query().get("mount")
            if wanted in server.mountable:
                server.stored[wanted] = server.mountable[wanted]
                self.answer(201)
            else:
                self.answer(202, headers={"Location": server.location or f"{path}7?state=a%20b"})
            return
        data = self.body()
        if self.query().get("digest") != digest(data):
            self.error(400, "DIGEST_INVALID", "digest invalid")
            return
        server.stored[digest(data)] = data
        self.answer(201, headers={"Docker-Content-Digest": digest(data)})

    do_GET = do_HEAD = do_POST = do_PUT = serve


class PushServer(Evil):
    def __init__(self, behave=None, login=None, location=None, cert=None):
        super().__init__(None, behave, cert)
        self.RequestHandlerClass = PushHandler
        self.login, self.location = login, location
        self.stored, self.mountable, self.manifests = {}, {}, {}
        self.ref = f"{self.host}/a/b:1"

    def methods(self):
        """Returns a short form of the requests."""
        return [f"{r.command} {'manifest' if '/manifests/' in r.path else 'upload' if '/uploads/' in r.path else 'blob'}" for r in self.seen]

    def puts(self):
        return [r for r in self.seen if r.command == "PUT" and "/uploads/" in r.path]
