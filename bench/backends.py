# SPDX-License-Identifier: Apache-2.0
"""backends.py - the same requests on the native backend and on docker, compared with docker's own client

bench/run calls this. A separate command needs an exec of the platform; a command in a session does not, because its
shell already runs. A hundred sessions run at the same time: none waits for one that floods its output, or for one
that sleeps.
"""
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "test/lib"))
import peers  # noqa: E402
from serve import TRUE, Client, percentile, timed  # noqa: E402

IMAGE = "warren-bench-shell"
APPLETS = ("sh", "true", "cat", "ls", "mkdir", "grep", "sleep", "kill", "stat", "env", "seq", "yes")
COMMAND = '{"command":":"}'
SESSIONS = 100
BOXES = 4  # sandboxes for the sessions, because each has at most 64


def entry(name, unit, **values):
    return {"bench": "backends", "name": name, "unit": unit, **values}


def row(name, values):
    made = entry(name, "us", p50=round(percentile(values, 50) * 1e6, 1), p99=round(percentile(values, 99) * 1e6, 1), n=len(values))
    print(f"  {name:44} {made['p50'] / 1e3:8.2f} {made['p99'] / 1e3:8.2f} ms {len(values):6}", flush=True)
    return made


def image(docker):
    """Loads a busybox image with a shell; returns 0 when the daemon has it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name in ("bin", "tmp", "etc", "proc", "dev", "sys"):
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            t.addfile(info)
        t.add(peers.find("busybox"), "bin/busybox")
        for name in APPLETS:
            info = tarfile.TarInfo(f"bin/{name}")
            info.type, info.linkname = tarfile.SYMTYPE, "busybox"
            t.addfile(info)
    return subprocess.run([docker.client, "-H", docker.host, "import", "-", IMAGE], input=out.getvalue(), check=False,
                          capture_output=True).returncode


def create(c, backend):
    spec = {"backend": backend, **({"image": IMAGE} if backend == "docker" else {})}
    return f"/v1/sandboxes/{json.loads(c.ask('POST', '/v1/sandboxes', json.dumps(spec)))['id']}"


def open_session(c, at):
    made = json.loads(c.ask("POST", f"{at}/sessions", '{"shell":"sh"}'))
    return f"{at}/sessions/{made['id']}/run"


def by_turns(c, docker, rounds):
    """Runs each way once, in rounds, so that other load on the machine affects all of them."""
    boxes = {b: create(c, b) for b in ("native", "docker")}
    shells = {b: open_session(c, at) for b, at in boxes.items()}
    docker.call("run", "-d", "--name", "warren-bench-exec", "--network", "none", IMAGE, "sleep", "1000")
    client = [docker.client, "-H", docker.host, "exec", "warren-bench-exec", "true"]
    ways = {f"session command, {b}": lambda at=at: c.ask("POST", at, COMMAND) for b, at in shells.items()}
    ways |= {f"exec true, {b}": lambda at=at: c.ask("POST", f"{at}/run", TRUE) for b, at in boxes.items()}
    ways["docker exec true"] = lambda: subprocess.run(client, check=True, stdin=subprocess.DEVNULL)
    times = {name: [] for name in ways}
    for way in ways.values():
        way()
    for n in range(rounds):
        for name, way in ways.items():
            if "session" in name or n % 10 == 0:
                times[name].append(timed(way))
    docker.call("rm", "-f", "warren-bench-exec")
    for at in boxes.values():
        c.ask("DELETE", at)
    return [row(name, values) for name, values in times.items()]


def at_once(world, backend, rounds):
    """Runs sessions in separate threads, next to one that floods its output and one that sleeps."""
    c = Client(world)
    boxes = [create(c, backend) for _ in range(BOXES)]
    shells = [open_session(c, boxes[n % BOXES]) for n in range(SESSIONS)]
    flood, sleep = (open_session(c, at) for at in boxes[:2])
    times, lock = [], threading.Lock()

    def busy(path, command):
        try:
            Client(world).ask("POST", path, json.dumps({"command": command, "timeout_ms": 60000}))
        except (RuntimeError, OSError):
            pass

    def use(path):
        mine = Client(world)
        for _ in range(rounds):
            took = timed(lambda: mine.ask("POST", path, COMMAND))
            with lock:
                times.append(took)
    beside = [threading.Thread(target=busy, args=a, daemon=True) for a in ((flood, "yes"), (sleep, "sleep 50"))]
    threads = [threading.Thread(target=use, args=(s,)) for s in shells]
    for t in beside:
        t.start()
    time.sleep(0.5)
    start = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    took = time.perf_counter() - start
    for at in boxes:
        c.ask("DELETE", at)
    print(f"  {f'{SESSIONS} sessions at once, {backend}':44} {len(times) / took:8.0f} commands a second", flush=True)
    return [row(f"one of {SESSIONS} sessions, {backend}", times),
            entry(f"{SESSIONS} sessions at once, {backend}", "/s", value=round(len(times) / took, 1))]


def section(docker, rounds=200):
    """Prints the section; returns its figures, and 1 if something of Warren failed."""
    from serve_world import World  # pylint: disable=import-outside-toplevel
    print(f"\n{'backends, through the service':46} {'p50':>8} {'p99':>8} {'n':>9}", flush=True)
    if not docker or image(docker):
        print("  docker does not start here")
        return [], 0
    config = f"backends:\n  docker:\n    kind: docker\n    socket: {docker.host.removeprefix('unix://')}\n"
    try:
        with World("--log-level", "error", config=config) as world:
            figures = by_turns(Client(world), docker, rounds)
            for backend in ("native", "docker"):
                figures += at_once(world, backend, 20)
            world.empty()
            return figures, 0
    except (RuntimeError, OSError, AssertionError, subprocess.SubprocessError) as why:
        print(f"  failed: {why}")
        return [], 1
