# SPDX-License-Identifier: Apache-2.0
"""files.py - what is done with the files of sandboxes: hibernate, wake, reset, snapshot, fork

bench/run calls this. How long a snapshot stops the processes is measured inside the sandbox: the longest gap that a
process sees which does nothing but read the clock, minus the longest gap that it sees without a snapshot.
"""
import concurrent.futures
import json
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "test/lib"))
import serve  # noqa: E402

TRUE = json.dumps({"argv": ["true"]})
FORKS, ASLEEP, CALLERS = 100, 10000, 8
WATCH = """
import time
last, gap = time.monotonic(), 0
end = last + 1.5
while last < end:
    now = time.monotonic()
    gap, last = max(gap, now - last), now
print(gap)
"""


def write(client, box, megabytes):
    if megabytes:
        client.ask("POST", f"/v1/sandboxes/{box}/run",
                   json.dumps({"argv": ["sh", "-c", f"head -c {megabytes}M /dev/urandom >/tmp/data"]}))


def sleeping(client, rounds):
    """Hibernate and wake a sandbox with one small file, again and again."""
    box, asleep, awake = client.create(), [], []
    path = f"/v1/sandboxes/{box}"
    client.ask("POST", f"{path}/run", json.dumps({"argv": ["sh", "-c", "echo x >/tmp/x"]}))
    for _ in range(rounds):
        asleep.append(serve.timed(lambda: client.ask("POST", f"{path}/hibernate", '{"timeout_ms":0}')))
        awake.append(serve.timed(lambda: client.ask("POST", f"{path}/run", TRUE)))
    client.ask("DELETE", path)
    asleep, awake = iter(asleep), iter(awake)
    return [serve.times("hibernate", rounds, lambda: next(asleep)),
            serve.times("wake to first result", rounds, lambda: next(awake))]


def resetting(client, rounds):
    box = client.create()
    row = serve.times("reset", rounds, lambda: serve.timed(lambda: client.ask("POST", f"/v1/sandboxes/{box}/reset")))
    client.ask("DELETE", f"/v1/sandboxes/{box}")
    return [row]


def stopped(world, box, snapshot):
    """Returns the longest gap in seconds that a process in the sandbox sees."""
    client, other = serve.Client(world), serve.Client(world)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        watch = pool.submit(client.ask, "POST", f"/v1/sandboxes/{box}/run", json.dumps({"argv": ["python3", "-c", WATCH]}))
        time.sleep(0.5)
        if snapshot:
            other.ask("POST", f"/v1/sandboxes/{box}/snapshots", '{"name":"bench"}')
        return float(json.loads(watch.result())["stdout"])


def snapshots(world, client, rounds):
    rows = []
    for megabytes in (0, 100):
        box = client.create()
        path = f"/v1/sandboxes/{box}"
        write(client, box, megabytes)
        rows.append(serve.times(f"snapshot, {megabytes} MB", rounds, lambda p=path: serve.timed(
            lambda: client.ask("POST", f"{p}/snapshots", '{"name":"bench"}'))))
        rows.append(serve.times(f"processes stopped by it, {megabytes} MB", 5, lambda b=box: stopped(world, b, True)))
        rows.append(serve.times(f"longest gap without it, {megabytes} MB", 5, lambda b=box: stopped(world, b, False)))
        client.ask("DELETE", path)
    client.ask("DELETE", "/v1/snapshots/bench")
    return rows


def forks(world, client, rounds):
    box = client.create()

    def once():
        start = time.perf_counter()
        made = json.loads(client.ask("POST", f"/v1/sandboxes/{box}/fork", json.dumps({"count": FORKS})))["sandboxes"]
        callers = [serve.Client(world) for _ in range(CALLERS)]
        with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
            list(pool.map(lambda k: [callers[k].ask("POST", f"/v1/sandboxes/{b['id']}/run", TRUE) for b in made[k::CALLERS]],
                          range(CALLERS)))
            took = time.perf_counter() - start
            list(pool.map(lambda k: [callers[k].ask("DELETE", f"/v1/sandboxes/{b['id']}") for b in made[k::CALLERS]],
                          range(CALLERS)))
        return took
    row = serve.times(f"fork x{FORKS} until all have run a command", rounds, once)
    client.ask("DELETE", f"/v1/sandboxes/{box}")
    return [row]


def resident(pid):
    """Private memory of a process, in kB."""
    return sum(int(n) for n in re.findall(r"Private_\w+: +(\d+)", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")))


def asleep(world, client):
    """Many sandboxes that hibernate: the service's memory for each, a list, and a restart."""
    before = resident(world.api)
    callers = [serve.Client(world) for _ in range(CALLERS)]

    def some(k):
        boxes = []
        for _ in range(ASLEEP // CALLERS):
            boxes.append(callers[k].create())
            callers[k].ask("POST", f"/v1/sandboxes/{boxes[-1]}/hibernate", '{"timeout_ms":0}')
        return boxes
    with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
        boxes = [b for some_boxes in pool.map(some, range(CALLERS)) for b in some_boxes]
    each = (resident(world.api) - before) / len(boxes)
    print(f"  {'memory of the api for each that hibernates':44} {each:8.2f} kB {len(boxes):9}", flush=True)
    rows = [serve.entry("memory of the api for each that hibernates", "kB", value=each),
            serve.times(f"list of 1000 of {len(boxes)}", 10, lambda: serve.timed(
                lambda: client.ask("GET", "/v1/sandboxes?limit=1000")))]

    def restart():
        world.kill("api")
        world.ready()
    rows.append(serve.times(f"restart of the api with {len(boxes)}", 3, lambda: serve.timed(restart)))
    callers = [serve.Client(world) for _ in range(CALLERS)]
    with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
        list(pool.map(lambda k: [callers[k].ask("DELETE", f"/v1/sandboxes/{b}") for b in boxes[k::CALLERS]], range(CALLERS)))
    return rows


def section(rounds=100):
    """Prints the section; returns its figures, and 1 if something failed."""
    from checks import Skip  # pylint: disable=import-outside-toplevel
    from serve_world import World  # pylint: disable=import-outside-toplevel
    print(f"\n{'Files of sandboxes':46} {'p50':>8} {'p99':>8} {'n':>9}", flush=True)
    try:
        with World("--log-level", "error", "--quota-sandboxes", "none", "--max-sandboxes", "20000") as world:
            client = serve.Client(world)
            figures = [*sleeping(client, rounds), *resetting(client, rounds), *snapshots(world, client, rounds // 5),
                       *forks(world, client, max(rounds // 20, 2)), *asleep(world, client)]
        return [f | {"bench": "files"} for f in figures], 0
    except Skip as why:
        print(f"  {why}")
        return [], 0
    except (RuntimeError, OSError, AssertionError, ValueError, KeyError) as why:
        print(f"  failed: {why}")
        return [], 1
