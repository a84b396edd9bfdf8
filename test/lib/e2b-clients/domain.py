# SPDX-License-Identifier: Apache-2.0
"""domain.py - find a service by its domain with the Python SDK of E2B

The SDK resolves all names below localhost itself; for other requests, this program does it.
"""
import asyncio
import json
import os
import socket
import urllib.error
import urllib.request

from e2b import AsyncSandbox, Sandbox, Volume
from expect import done, eq

RESOLVE = socket.getaddrinfo
socket.getaddrinfo = lambda host, *args, **kw: RESOLVE(
    "127.0.0.1" if str(host).endswith(".localhost") else host, *args, **kw)


def fetch(url):
    """Returns the status and the body of a response; the certificate is checked."""
    try:
        with urllib.request.urlopen(url, timeout=60) as f:
            return f.status, f.read().decode()
    except urllib.error.HTTPError as e:
        with e:
            return e.code, e.read().decode()


async def upload_at_once():
    s = await AsyncSandbox.create()
    try:
        await asyncio.gather(*[s.files.write(f"part-{i}", "x" * 100000) for i in range(24)])
        eq((await s.commands.run("cat part-* | wc -c")).stdout, "2400000\n")
    finally:
        await s.kill()


def main():
    assert os.environ["E2B_DOMAIN"] and "E2B_API_URL" not in os.environ and "E2B_SANDBOX_URL" not in os.environ
    s = Sandbox.create()
    try:
        eq(s.commands.run("echo hello").stdout, "hello\n")
        s.files.write("a.txt", "of a domain")
        eq(s.files.read("a.txt"), "of a domain")
        eq(s.is_running(), True)
        host = s.get_host(8000)
        eq(host, f"8000-{s.sandbox_id}.{os.environ['E2B_DOMAIN']}")
        eq(fetch(f"https://{host}/a.txt")[0], 502, "a port that is closed")
        s.commands.run("python3 -m http.server 8000", background=True)
        s.commands.run("until (: >/dev/tcp/127.0.0.1/8000) 2>/dev/null; do sleep 0.1; done")
        eq(fetch(f"https://{host}/a.txt"), (200, "of a domain"))
        eq(fetch(s.download_url("a.txt", use_signature_expiration=600)), (200, "of a domain"))
        again = Sandbox.connect(s.sandbox_id)
        eq(again.commands.run("cat a.txt").stdout, "of a domain")
    finally:
        s.kill()
    status, text = fetch(f"https://{host}/a.txt")
    eq((status, json.loads(text)), (502, {"sandboxId": s.sandbox_id, "message": "The sandbox was not found", "code": 502}))
    v = Volume.create("domain")
    try:
        v.write_file("/b.txt", "of a volume")
        eq(v.read_file("/b.txt"), "of a volume")
    finally:
        eq(Volume.destroy(v.volume_id), True)


main()
asyncio.run(upload_at_once())
done()
