# SPDX-License-Identifier: Apache-2.0
"""mcp_clients.py - the official clients of MCP, installed once next to the build

    python = python_client(2)     # an interpreter with version 2 of the Python client
    packages = node_clients()     # a directory with the packages of mcp-clients/package.json
"""
import contextlib
import fcntl
import os
import shutil
import subprocess
import sys

from checks import Skip, BUILD, SOURCE

WHERE = os.path.join(BUILD, "mcp-clients")
WANTED = os.path.join(SOURCE, "test/lib/mcp-clients")
INSTALL_SECONDS = 300


def attempt(*command, **kw):
    """Returns the reason of the failure, or None."""
    try:
        r = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                           timeout=INSTALL_SECONDS, check=False, **kw)
    except subprocess.TimeoutExpired:
        return f"no end after {INSTALL_SECONDS} s"
    except OSError as e:
        return str(e)
    return None if r.returncode == 0 else (r.stderr or r.stdout).strip()[-200:] or f"status {r.returncode}"


def install(name, list_name, prepare):
    """Creates WHERE/name with prepare(directory), unless it matches the list; repeats once if it fails."""
    directory = os.path.join(WHERE, name)
    with open(os.path.join(WANTED, list_name), encoding="utf-8") as f:
        wanted = f.read()
    os.makedirs(WHERE, exist_ok=True)
    with open(f"{directory}.lock", "w", encoding="ascii") as lock:  # only one test may do this at a time
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(OSError), open(f"{directory}/wanted", encoding="utf-8") as f:
            if f.read() == wanted:
                return directory
        why = None
        for _ in range(2):
            shutil.rmtree(directory, ignore_errors=True)
            why = prepare(directory)
            if why is None:
                with open(f"{directory}/wanted", "w", encoding="utf-8") as f:
                    f.write(wanted)
                return directory
    raise Skip(f"{name} cannot be installed: {why}")


def python_client(version):
    def prepare(directory):
        return attempt(sys.executable, "-m", "venv", directory) or attempt(
            f"{directory}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r",
            f"{WANTED}/python-{version}.txt")
    return install(f"python-{version}", f"python-{version}.txt", prepare) + "/bin/python"


def node_clients():
    for program in ("node", "npm"):
        if not shutil.which(program):
            raise Skip(f"{program} is not installed")
    major = subprocess.run(["node", "-p", "process.versions.node"], capture_output=True, text=True, check=True,
                           timeout=60).stdout.split(".")[0]
    if int(major) < 20:
        raise Skip(f"the clients need node 20 or later; this is {major}")

    def prepare(directory):
        os.makedirs(directory)
        shutil.copy(f"{WANTED}/package.json", directory)
        return attempt("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts",
                       cwd=directory)
    return install("node", "package.json", prepare)
