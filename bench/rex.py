# SPDX-License-Identifier: Apache-2.0
"""rex.py - the SWE-ReX API with its official client, compared with SWE-ReX's own server

bench/run calls this. The client opens a connection for each request, which takes about two milliseconds of each
figure: `is_alive` shows the cost of the client and of HTTP. The last figure is measured with raw requests, without
that client.
"""
import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "test/lib"))
import serve  # noqa: E402

CLIENT = pathlib.Path(__file__).resolve().parent / "swerex_client.py"


def by_client(python, who, url, token, rounds):
    out = subprocess.run([python, str(CLIENT), url, token, str(rounds)], check=True, capture_output=True, text=True).stdout
    figures = []
    for call, took in json.loads(out.splitlines()[-1]).items():
        took = iter(took)
        figures.append(serve.times(f"{who}: {call}", {"create_session": 3}.get(call, rounds), lambda t=took: next(t)))
    return figures


def by_bytes(world, token, rounds):
    c = serve.Client(world, token)
    c.head += f"X-API-Key: {token}\r\n"

    def first_command():
        start = time.perf_counter()
        box = c.create()
        c.ask("POST", f"/swerex/{box}/create_session", "{}")
        c.ask("POST", f"/swerex/{box}/run_in_session", '{"command":"true"}')
        took = time.perf_counter() - start
        c.ask("DELETE", f"/v1/sandboxes/{box}")
        return took

    box = c.create()
    c.ask("POST", f"/swerex/{box}/create_session", "{}")
    run = lambda: serve.timed(lambda: c.ask("POST", f"/swerex/{box}/run_in_session", '{"command":"true"}'))
    return [serve.times("warren: create, session, first command", max(1, rounds // 4), first_command),
            serve.times("warren: run_in_session, by bytes", rounds * 5, run)]


def section(rounds=100):
    """Prints the section; returns its figures, and 1 if something of Warren failed."""
    from checks import Skip  # pylint: disable=import-outside-toplevel
    from serve_world import World  # pylint: disable=import-outside-toplevel
    from swerex_world import Reference, client_python  # pylint: disable=import-outside-toplevel
    print(f"\n{'SWE-ReX, by its own client':46} {'p50':>8} {'p99':>8} {'n':>9}", flush=True)
    try:
        python = client_python()
        with World("--log-level", "error", tcp=True) as world:
            token = world.token("admin")
            url = f"http://127.0.0.1:{world.port}/swerex/{world.create()}"
            figures = by_client(python, "warren", url, token, rounds)
            figures += by_bytes(world, token, rounds)
        with Reference() as r:
            figures += by_client(python, "swe-rex", r.url, r.token, max(1, rounds // 4))
        return [f | {"bench": "swerex"} for f in figures], 0
    except Skip as why:
        print(f"  {why}")
        return [], 0
    except (RuntimeError, OSError, AssertionError, subprocess.SubprocessError) as why:
        print(f"  failed: {why}")
        return [], 1
