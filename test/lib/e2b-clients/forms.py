# SPDX-License-Identifier: Apache-2.0
"""forms.py - write thousands of files with one call of the Python SDK"""
import asyncio

import e2b
from e2b import AsyncSandbox, Sandbox
from expect import done, eq, raises

MANY = 3000


def entries(n):
    return [{"path": f"many/{i % 50}/{i}", "data": str(i)} for i in range(n)]


async def in_parallel(sandbox_id):
    s = await AsyncSandbox.connect(sandbox_id)
    written = await asyncio.gather(*[s.files.write_files([{"path": f"p{n}/{i}", "data": "x"} for i in range(300)])
                                     for n in range(4)])
    eq([len(w) for w in written], [300] * 4)


sandbox = Sandbox.create()
try:
    eq([w.path for w in sandbox.files.write_files(entries(MANY))], [f"/home/user/many/{i % 50}/{i}" for i in range(MANY)])
    eq(sandbox.commands.run("find many -type f | wc -l; cat $(find many -type f) | wc -c").stdout,
       f"{MANY}\n{sum(len(str(i)) for i in range(MANY))}\n")
    asyncio.run(in_parallel(sandbox.sandbox_id))
    raises(e2b.InvalidArgumentException, lambda: sandbox.files.write_files(entries(10001)), "at most 10000 files")
    eq(sandbox.commands.run("find many -type f | wc -l").stdout, "10000\n", "the number of files before the bound")
finally:
    sandbox.kill()
done()
