# SPDX-License-Identifier: Apache-2.0
"""code_runs.py - code runs over the API, compared with the interpreter on the host and with `docker run`

bench/run calls this. A run creates a sandbox, writes the program, runs it and deletes the sandbox. Docker has the
same limits and uses the same files, those of the machine. The last figure is the number of runs per second with
sixteen callers; a run that fails ends the section.
"""
import io
import json
import pathlib
import re
import selectors
import shutil
import socket
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "test/lib"))
import serve  # noqa: E402

PROGRAMS = {"bash": ("echo hello", ["bash", "-c"]), "python": ("print('hello')", ["python3", "-c"]),
            "javascript": ("console.log('hello')", ["node", "-e"])}
CALLERS, CALLS = 16, 1000
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # as in a sandbox

IMAGE = "warren-bench-code"
# The limits of a code run: see doc/code.md.
LIMITS = ["--network", "none", "--read-only", "--memory", "256m", "--memory-swap", "256m", "--pids-limit", "50", "--cpus", "1",
          "--security-opt", "no-new-privileges", "--tmpfs", "/sandbox:exec,size=64m", "--tmpfs", "/tmp:size=16m", "-w", "/sandbox"]
FILES = [word for path in ("/usr", "/etc/alternatives", "/etc/ld.so.cache") for word in ("-v", f"{path}:{path}:ro")]


def docker_image(docker):
    """Creates an empty image, for the machine's files; returns whether docker has it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name in ("usr", "etc", "tmp", "sandbox", "proc", "dev", "sys"):
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            t.addfile(info)
        for name in ("bin", "sbin", "lib", "lib64"):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, f"usr/{name}"
            t.addfile(info)
    return subprocess.run([docker.client, "-H", docker.host, "import", "-", IMAGE], input=out.getvalue(), check=False,
                          capture_output=True).returncode == 0


def docker_run(docker, argv):
    p = subprocess.run([docker.client, "-H", docker.host, "run", "--rm", *LIMITS, *FILES, IMAGE, *argv], check=False,
                       stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if (p.returncode, p.stdout) != (0, "hello\n"):
        raise RuntimeError(f"docker run {argv}: {p}")


def run(client, language, code):
    answer = json.loads(client.ask("POST", "/v1/code", json.dumps({"language": language, "code": code})))
    if (answer["exit_code"], answer["stdout"]) != (0, "hello\n"):
        raise RuntimeError(f"{language}: {answer}")


def figures_of(world, docker, rounds):
    client = serve.Client(world)
    figures = []
    for language, (code, host) in PROGRAMS.items():
        if not shutil.which(host[0], path=PATH):
            print(f"  this machine lacks {host[0]}")
            continue
        figures.append(serve.times(f"warren: {language}", rounds, lambda l=language, c=code: serve.timed(lambda: run(client, l, c))))
        figures.append(serve.times(f"host: {language}", rounds, lambda a=[*host, code]: serve.timed(
            lambda: subprocess.run(a, check=True, stdout=subprocess.DEVNULL, env={"PATH": PATH}))))
        if docker:
            figures.append(serve.times(f"docker run: {language}", max(rounds // 5, 5), lambda a=[*host, code]: serve.timed(
                lambda: docker_run(docker, a))))
    return figures


class Caller:
    """A connection that sends one request after another. It is simple, because it also uses processor time."""

    REQUEST = json.dumps({"language": "bash", "code": "echo hello"}).encode()

    def __init__(self, world, calls):
        self.left, self.answer = calls, b""
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(world.socket)
        self.ask()

    def ask(self):
        self.socket.sendall(b"POST /v1/code HTTP/1.1\r\nHost: warren\r\nContent-Type: application/json\r\n"
                            b"Content-Length: %d\r\n\r\n%s" % (len(self.REQUEST), self.REQUEST))

    def read(self):
        """Reads a part of an answer; returns true if it was the last."""
        more = self.socket.recv(65536)
        if not more:
            raise RuntimeError("the service closed the connection")
        self.answer += more
        head, end, body = self.answer.partition(b"\r\n\r\n")
        if not end or len(body) < int(re.search(rb"(?i)content-length: *(\d+)", head)[1]):
            return False
        answer = json.loads(body)
        if (answer["exit_code"], answer["stdout"]) != (0, "hello\n"):
            raise RuntimeError(f"bash: {answer}")
        self.left, self.answer = self.left - 1, b""
        if self.left:
            self.ask()
        return not self.left


def rate(world):
    start = time.perf_counter()
    with selectors.DefaultSelector() as ready:
        for _ in range(CALLERS):
            caller = Caller(world, CALLS // CALLERS)
            ready.register(caller.socket, selectors.EVENT_READ, caller)
        while ready.get_map():
            for key, _ in ready.select():
                if key.data.read():
                    ready.unregister(key.fileobj)
                    key.fileobj.close()
    n = CALLS // CALLERS * CALLERS / (time.perf_counter() - start)
    print(f"{'warren: bash, 16 callers':46} {n:8.0f} runs/s", flush=True)
    return {"name": "warren: bash, 16 callers", "unit": "runs/s", "value": n}


def section(docker=None, rounds=100):
    """Prints the section; returns its figures, and 1 if something of Warren failed."""
    from checks import Skip  # pylint: disable=import-outside-toplevel
    from serve_world import World  # pylint: disable=import-outside-toplevel
    print(f"\n{'Runs of code':46} {'p50':>8} {'p99':>8} {'n':>9}", flush=True)
    if not docker or not docker_image(docker):
        print("  docker does not start here")
        docker = None
    try:
        with World("--log-level", "error", "--quota-sandboxes", "none") as world:
            figures = [*figures_of(world, docker, rounds), rate(world)]
        return [f | {"bench": "code"} for f in figures], 0
    except Skip as why:
        print(f"  {why}")
        return [], 0
    except (RuntimeError, OSError, AssertionError, subprocess.SubprocessError) as why:
        print(f"  failed: {why}")
        return [], 1
