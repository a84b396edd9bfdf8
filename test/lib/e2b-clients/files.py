# SPDX-License-Identifier: Apache-2.0
"""files.py AREA - compressed uploads, metadata and users of files with the Python SDK of E2B"""
import asyncio
import os
import sys

import e2b
from e2b import AsyncSandbox, Sandbox
from expect import done, eq, raises

LARGE = os.urandom(1 << 20) + bytes(3 << 20) + os.urandom(1 << 20)


def sync():
    s = Sandbox.create()
    try:
        w = s.files.write("d/small.txt", "hello", gzip=True)
        eq((w.path, w.name), ("/home/user/d/small.txt", "small.txt"))
        eq(s.files.read("d/small.txt"), "hello")
        eq(s.files.read("d/small.txt", gzip=True), "hello")
        s.files.write("large", LARGE, gzip=True)
        assert bytes(s.files.read("large", format="bytes")) == LARGE, "a large file differs"
        assert bytes(s.files.read("large", format="bytes", gzip=True)) == LARGE, "a large file differs"
        s.files.write("empty", "", gzip=True)
        eq(s.files.read("empty"), "")
        many = s.files.write_files([{"path": f"m/{n}", "data": str(n)} for n in range(5)], gzip=True)
        eq([x.name for x in many], [str(n) for n in range(5)])
        eq([s.files.read(f"m/{n}") for n in range(5)], [str(n) for n in range(5)])
    finally:
        s.kill()


def metadata():
    s = Sandbox.create()
    try:
        w = s.files.write("d/f", "1", metadata={"Owner": "a b", "run-id": "7"})
        eq(w.metadata, {"owner": "a b", "run-id": "7"})
        eq(s.files.get_info("d/f").metadata, w.metadata)
        eq([(x.name, x.metadata) for x in s.files.list("d")], [("f", w.metadata)])
        eq(s.files.rename("d/f", "d/g").metadata, w.metadata)
        eq(s.files.write("d/g", "2", metadata={"run-id": "8"}).metadata, {"run-id": "8"}, "replaced")
        eq(s.files.write("d/g", LARGE, metadata={"x": "y"}, gzip=True).metadata, {"x": "y"}, "compressed")
        s.files.write("d/g", "3")
        eq(s.files.get_info("d/g").metadata or {}, {}, "cleared")
        for x in s.files.write_files([{"path": f"m/{n}", "data": "x"} for n in range(3)], metadata={"k": "v"}):
            eq((x.metadata, s.files.get_info(x.path).metadata), ({"k": "v"}, {"k": "v"}), x.path)
    finally:
        s.kill()


def users():
    s = Sandbox.create()
    try:
        for call in (s.files.read, s.files.get_info, s.files.list, s.files.make_dir, s.files.remove, s.files.watch_dir,
                     lambda path, user: s.files.write(path, "x", user=user),
                     lambda path, user: s.files.rename(path, "y", user=user)):
            raises(e2b.AuthenticationException, lambda: call("/tmp", user="missing"), "invalid username: 'missing'")
        s.files.write("/tmp/x", "y", user="root")
        eq(s.files.read("/tmp/x", user="root"), "y", "an account that exists")
    finally:
        s.kill()


async def asynchronous():
    s = await AsyncSandbox.create()
    try:
        await s.files.write("large", LARGE, gzip=True)
        assert bytes(await s.files.read("large", format="bytes", gzip=True)) == LARGE, "a large file differs"
        w = await s.files.write("tagged", "x", metadata={"k": "v"})
        eq((w.metadata, (await s.files.get_info("tagged")).metadata), ({"k": "v"}, {"k": "v"}))
        many = await s.files.write_files([{"path": f"m/{n}", "data": str(n)} for n in range(5)], gzip=True)
        eq(sorted(x.name for x in many), [str(n) for n in range(5)])
        eq([await s.files.read(f"m/{n}") for n in range(5)], [str(n) for n in range(5)])
    finally:
        await s.kill()


AREAS = {"sync": sync, "metadata": metadata, "users": users, "async": lambda: asyncio.run(asynchronous())}
AREAS[sys.argv[1]]()
done()
