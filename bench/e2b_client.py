# SPDX-License-Identifier: Apache-2.0
"""e2b_client.py - times of E2B's Python SDK, in seconds, as one line of JSON

bench/sdks.py calls this with the Python that has the SDK. Argument: number of rounds.
"""
import asyncio
import json
import sys
import time

from e2b import AsyncSandbox, Sandbox

SIZE, BURST = 50_000_000, 100


def timed(f):
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def create():
    start = time.perf_counter()
    sandbox = Sandbox.create()
    took = time.perf_counter() - start
    sandbox.kill()
    return took


async def burst():
    await (await AsyncSandbox.create()).kill()
    start = time.perf_counter()
    made = await asyncio.gather(*(AsyncSandbox.create() for _ in range(BURST)))
    took = time.perf_counter() - start
    await asyncio.gather(*(s.kill() for s in made))
    return took


def main():
    rounds = int(sys.argv[1])
    result = {"create": [create() for _ in range(rounds + 1)][1:]}
    sandbox = Sandbox.create(timeout=600)
    sandbox.commands.run("true")
    result["run"] = [timed(lambda: sandbox.commands.run("true")) for _ in range(rounds)]
    sandbox.files.write("/tmp/small", "x" * 1000)
    result["read"] = [timed(lambda: sandbox.files.read("/tmp/small")) for _ in range(rounds)]
    data = b"x" * SIZE
    result["write_large"] = [timed(lambda: sandbox.files.write("/tmp/large", data)) for _ in range(5)]
    result["read_large"] = [timed(lambda: sandbox.files.read("/tmp/large", format="bytes")) for _ in range(5)]
    sandbox.kill()
    result["burst"] = [asyncio.run(burst()) for _ in range(3)]
    print(json.dumps(result))


main()
