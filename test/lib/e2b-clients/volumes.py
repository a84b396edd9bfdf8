# SPDX-License-Identifier: Apache-2.0
"""volumes.py AREA - use volumes with the Python SDK of E2B; the environment says where the service is"""
import asyncio
import datetime
import io
import sys

import e2b
from e2b import AsyncSandbox, AsyncVolume, Sandbox, Volume
from expect import done, eq, raises


def contents(v):
    stat = v.write_file("/test.txt", "Hello")
    eq((stat.name, stat.type.value, stat.path, stat.size, stat.uid, stat.mode),
       ("test.txt", "file", "/test.txt", 5, 1000, 0o644))
    now = datetime.datetime.now(datetime.timezone.utc)
    for time in (stat.atime, stat.mtime, stat.ctime):
        assert abs(now - time) < datetime.timedelta(days=1), f"{time}, although it is {now}"
    eq(v.read_file("/test.txt"), "Hello")
    eq(v.read_file("test.txt"), "Hello", "a path without its first slash")
    eq(v.read_file("/test.txt", format="bytes"), b"Hello")
    eq(b"".join(v.read_file("/test.txt", format="stream")), b"Hello")
    v.write_file("/stream.txt", io.BytesIO(b"x" * 3000000))
    eq(len(v.read_file("/stream.txt", format="bytes")), 3000000)
    v.write_file("/empty.txt", "")
    eq(v.read_file("/empty.txt"), "")
    v.write_file("/test.txt", "New", force=True)
    v.write_file("/test.txt", "Newer")
    eq(v.read_file("/test.txt"), "Newer")
    raises(e2b.NotFoundException, lambda: v.read_file("/missing"))
    raises(e2b.VolumeException, lambda: v.read_file("/"), "400")

    stat = v.write_file("/owned", "x", uid=1001, gid=1002, mode=0o600)
    eq((stat.uid, stat.gid, stat.mode), (1001, 1002, 0o600))
    eq(v.write_file("/owned", "y").uid, 1001, "the owner of a file that was replaced")
    stat = v.update_metadata("/owned", uid=7, gid=8, mode=0o755)
    eq((stat.uid, stat.gid, stat.mode, stat.path), (7, 8, 0o755, "/owned"))
    eq(v.update_metadata("/owned", gid=9).mode, 0o755, "what is not given does not change")
    raises(e2b.NotFoundException, lambda: v.update_metadata("/missing", mode=0o644))


def directories(v):
    stat = v.make_dir("/dir", uid=1001, mode=0o700)
    eq((stat.name, stat.type.value, stat.path, stat.uid, stat.gid, stat.mode),
       ("dir", "directory", "/dir", 1001, 1000, 0o700))
    raises(e2b.NotFoundException, lambda: v.make_dir("/a/b/c"))
    raises(e2b.NotFoundException, lambda: v.write_file("/a/b/c", "x"))
    v.make_dir("/a/b/c", force=True)
    eq(v.get_info("/a").uid, 1000, "the owner of a directory that was created with another one")
    v.make_dir("/a/b/c", force=True)
    raises(e2b.VolumeException, lambda: v.make_dir("/a/b/c"), "409")
    v.write_file("/a/b/c/file", "1")
    v.write_file("/n/m/file", "2", force=True)
    eq(sorted(e.name for e in v.list("/a")), ["b"])
    eq([e.path for e in v.list("/a/", depth=2)], ["/a/b", "/a/b/c"])
    eq([(e.path, e.name) for e in v.list("/a", depth=9)],
       [("/a/b", "b"), ("/a/b/c", "c"), ("/a/b/c/file", "file")])
    eq(v.get_info("/").type.value, "directory")
    raises(e2b.NotFoundException, lambda: v.list("/missing"))
    raises(e2b.VolumeException, lambda: v.list("/a/b/c/file"), "400")
    v.remove("/a")
    eq((v.exists("/a"), v.exists("/n/m/file")), (False, True))
    raises(e2b.NotFoundException, lambda: v.remove("/a"))


def mounts(v):
    s = Sandbox.create(volume_mounts={"/mnt/data": v})
    try:
        eq(s.get_info().volume_mounts, [{"name": v.name, "path": "/mnt/data"}])
        v.write_file("/from-outside", "1")
        eq(s.commands.run("cat /mnt/data/from-outside; echo 2 >>/mnt/data/from-outside").stdout, "1")
        eq(v.read_file("/from-outside"), "12\n")
        s.files.write("/mnt/data/from-inside", "3")
        eq((v.read_file("/from-inside"), v.get_info("/from-inside").uid), ("3", 1000))
        s.commands.run("ln -s /etc/passwd /mnt/data/link; ln -s from-inside /mnt/data/good; mkfifo /mnt/data/pipe")
        info = v.get_info("/link")
        eq((info.type.value, info.target), ("symlink", "/etc/passwd"))
        raises(e2b.NotFoundException, lambda: v.read_file("/link"))
        raises(e2b.NotFoundException, lambda: v.update_metadata("/link", mode=0o777))
        eq(v.read_file("/good"), "3", "a link inside the volume")
        raises(e2b.VolumeException, lambda: v.read_file("/pipe"), "400")
        raises(e2b.VolumeException, lambda: v.update_metadata("/pipe", mode=0o777), "400")
        eq(v.get_info("/pipe").type.value, "unknown")
        v.write_file("/link", "replaced")
        eq(s.commands.run("cat /mnt/data/link; test -L /mnt/data/link || echo; echo file").stdout, "replaced\nfile\n")
        raises(e2b.VolumeException, lambda: Volume.destroy(v.volume_id), "409")
    finally:
        s.kill()
    s = Sandbox.create(volume_mounts={"/again": v.name})
    try:
        eq(s.commands.run("cat /again/from-inside").stdout, "3")
    finally:
        s.kill()
    raises(e2b.SandboxException, lambda: Sandbox.create(volume_mounts={"/x": "no-such-volume"}), "no-such-volume")


def sync():
    v = Volume.create("python")
    try:
        eq([(x.volume_id, x.name) for x in Volume.list()], [(v.volume_id, "python")])
        raises(e2b.VolumeException, lambda: Volume.create("python"), "409")
        raises(e2b.VolumeException, lambda: Volume.create("no/name"), "400")
        same = Volume.connect(v.volume_id)
        eq((same.name, same.token), (v.name, v.token))
        contents(same)
        directories(v)
        mounts(v)
    finally:
        eq(Volume.destroy(v.volume_id), True)
    eq(Volume.destroy(v.volume_id), False)
    raises(e2b.NotFoundException, lambda: Volume.connect(v.volume_id))
    raises(e2b.NotFoundException, lambda: v.read_file("/test.txt"))
    eq(Volume.list(), [])


async def run_async():
    v = await AsyncVolume.create("async")
    try:
        await v.make_dir("/d/e", force=True)
        stat = await v.write_file("/d/e/f", "async", mode=0o640)
        eq((stat.path, stat.mode), ("/d/e/f", 0o640))
        eq(await v.read_file("/d/e/f"), "async")
        pieces = [piece async for piece in await v.read_file("/d/e/f", format="stream")]
        eq(b"".join(pieces), b"async")
        await asyncio.gather(*(v.write_file(f"/d/{i}", str(i)) for i in range(20)))
        eq(len(await v.list("/d")), 21)
        eq((await v.update_metadata("/d/e/f", uid=5)).uid, 5)
        s = await AsyncSandbox.create(volume_mounts={"/v": v})
        try:
            eq((await s.commands.run("cat /v/d/19")).stdout, "19")
        finally:
            await s.kill()
        await v.remove("/d")
        eq((await v.exists("/d"), await v.list("/")), (False, [x for x in await v.list("/") if x.name == "lost+found"]))
        eq([x.name for x in await AsyncVolume.list()], ["async"])
    finally:
        eq(await AsyncVolume.destroy(v.volume_id), True)


def asynchronous():
    asyncio.run(run_async())


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    done()
