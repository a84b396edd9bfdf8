# SPDX-License-Identifier: Apache-2.0
"""published.py - published packages for tests, installed once next to the build

    clients = Published("mcp-clients")       # with the lists in test/lib/mcp-clients
    python = clients.python("python-2")      # an interpreter with the packages of python-2.txt
    directory = clients.node()               # a directory with the packages of package.json
"""
import contextlib
import fcntl
import os
import shutil
import subprocess
import sys

from checks import Skip, BUILD, SOURCE

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


class Published:
    """Packages that are listed in test/lib/NAME."""

    def __init__(self, name):
        self.where = os.path.join(BUILD, name)
        self.wanted = os.path.join(SOURCE, "test/lib", name)

    def install(self, name, list_name, prepare):
        """Creates a directory with prepare(directory), unless it matches the list; repeats once if it fails."""
        directory = os.path.join(self.where, name)
        with open(os.path.join(self.wanted, list_name), encoding="utf-8") as f:
            wanted = f.read()
        os.makedirs(self.where, exist_ok=True)
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

    def python(self, name):
        def prepare(directory):
            return attempt(sys.executable, "-m", "venv", directory) or attempt(
                f"{directory}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r",
                f"{self.wanted}/{name}.txt")
        return self.install(name, f"{name}.txt", prepare) + "/bin/python"

    def node(self):
        for program in ("node", "npm"):
            if not shutil.which(program):
                raise Skip(f"{program} is not installed")
        major = subprocess.run(["node", "-p", "process.versions.node"], capture_output=True, text=True, check=True,
                               timeout=60).stdout.split(".")[0]
        if int(major) < 20:
            raise Skip(f"the clients need node 20 or later; this is {major}")

        def prepare(directory):
            os.makedirs(directory)
            shutil.copy(f"{self.wanted}/package.json", directory)
            return attempt("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts",
                           cwd=directory)
        return self.install("node", "package.json", prepare)
