# SPDX-License-Identifier: Apache-2.0
"""swerex_client.py - measure calls of the official client of SWE-ReX, in the same way for each server

    python swerex_client.py URL TOKEN ROUNDS      prints seconds, as JSON, of each call
"""
import asyncio
import json
import logging
import sys
import time

from swerex.runtime.abstract import BashAction, CloseBashSessionRequest, Command, CreateBashSessionRequest
from swerex.runtime.remote import RemoteRuntime

logging.disable(logging.CRITICAL)


async def timed(awaitable):
    start = time.perf_counter()
    await awaitable
    return time.perf_counter() - start


async def main(url, token, rounds):
    r = RemoteRuntime(host=url, auth_token=token, timeout=60)
    took = {"is_alive": [], "create_session": [], "run_in_session": [], "execute": []}
    for name in ("one", "two", "three"):
        took["create_session"].append(await timed(r.create_session(
            CreateBashSessionRequest(session=name, startup_timeout=10))))
    for _ in range(int(rounds)):
        took["is_alive"].append(await timed(r.is_alive()))
        took["run_in_session"].append(await timed(r.run_in_session(BashAction(command="true", session="one", timeout=10))))
        took["execute"].append(await timed(r.execute(Command(command=["true"]))))
    for name in ("one", "two", "three"):
        await r.close_session(CloseBashSessionRequest(session=name))
    print(json.dumps(took))


asyncio.run(main(*sys.argv[1:]))
