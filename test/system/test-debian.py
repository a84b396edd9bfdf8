#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-debian.py - a Debian system in a sandbox: accounts, su and sudo work, and packages can be installed

Prints TAP. The packages come from this machine's package sources (apt-get uses directories of the test; nothing is
installed here) and are cached in the build folder. A sandbox has no network: it gets the packages through a volume.
The root is created in the sandbox itself, as in the second stage of debootstrap(8).
"""
import fcntl
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import BUILD, Skip, be_alone, eq, needs_root, ok, run_tests, scratch, test, warren  # pylint: disable=wrong-import-position

CACHE = f"{BUILD}/debian-packages"
BASE = ["?essential", "apt", "passwd", "usr-is-merged"]
MORE = ["sudo", "postgresql", "redis-server", "openssh-server", "dbus"]

INSTALL = r"""
set -e
export DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
cp /usr/share/base-passwd/passwd.master /etc/passwd
cp /usr/share/base-passwd/group.master /etc/group
ln -sf mawk /usr/bin/awk
dpkg --force-unsafe-io --force-depends -i /debs/base/*.deb
apt-get -y -o Dpkg::Options::=--force-unsafe-io install /debs/more/*.deb
"""

# One line of output for each feature that works; all other output goes to stderr.
USE = r"""
say() { echo "$1: $(eval "$2")"; }
say installed "dpkg-query -W -f='\${Package}=\${Status} ' postgresql redis-server openssh-server dbus sudo"
say broken "dpkg --audit"
say groupadd "groupadd crew >&2; getent group crew | cut -d: -f1"
say useradd "useradd -m -G crew -s /bin/bash ann >&2; id -nG ann"
say chpasswd "echo ann:secret | chpasswd >&2; getent shadow ann | cut -c1-6"
say su "su ann -c 'id -un'"
say sudo "sudo -u ann id -un 2>&1"
su postgres -c '/usr/lib/postgresql/15/bin/pg_ctl -s -w -D /var/lib/postgresql/15/main \
	-o "-c config_file=/etc/postgresql/15/main/postgresql.conf" start' >&2 2>/tmp/pg </dev/null
say postgresql "su postgres -c \"psql -Atc 'select 6*7'\""
service redis-server start >&2
say redis "for i in \$(seq 100); do redis-cli ping 2>/dev/null && break; sleep 0.1; done"
mkdir -p /run/sshd
/usr/sbin/sshd
say ssh "su ann -c 'mkdir -m 700 ~/.ssh; ssh-keygen -q -N \"\" -t ed25519 -f ~/.ssh/id_ed25519;
	cp ~/.ssh/id_ed25519.pub ~/.ssh/authorized_keys; ssh -o StrictHostKeyChecking=no ann@localhost id -un'"
service dbus start >&2
say dbus "dbus-send --system --print-reply=literal --dest=org.freedesktop.DBus / org.freedesktop.DBus.GetId | tr -cd 0-9a-f | wc -c"
"""

WANTED = {
    "installed": "".join(f"{name}=install ok installed " for name in sorted(MORE)),
    "broken": "", "groupadd": "crew", "useradd": "ann crew", "chpasswd": "ann:$y", "su": "ann", "sudo": "ann",
    "postgresql": "42", "redis": "PONG", "ssh": "ann", "dbus": "32",
}


def apt(cache, *args):
    p = subprocess.run(
        ["apt-get", "-qq", "-o", f"Dir::State={CACHE}/state", "-o", f"Dir::State::status={CACHE}/status",
         "-o", f"Dir::Cache={cache}", "-o", "Debug::NoLocking=true", "-o", "APT::Sandbox::User=root",
         "-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=20", "--no-install-recommends", *args],
        capture_output=True, text=True, timeout=300, check=False)
    if p.returncode != 0:
        raise Skip(f"Debian's packages cannot be downloaded: {p.stderr.strip().splitlines()[-1:]}")
    return p.stdout


def download(empty):
    """The names of the base packages, and of all packages."""
    for d in (f"{CACHE}/state/lists/partial", f"{CACHE}/archives/partial", f"{empty}/archives/partial"):
        os.makedirs(d, exist_ok=True)
    with open(f"{CACHE}/status", "wb"):
        pass
    apt(CACHE, "update")
    # The cache must be empty, because apt-get does not list packages that are already cached.
    base = [line.split()[1] for line in apt(empty, "--print-uris", "-y", "install", *BASE).splitlines()]
    every = [line.split()[1] for line in apt(empty, "--print-uris", "-y", "install", *BASE, *MORE).splitlines()]
    apt(CACHE, "--download-only", "-y", "install", *BASE, *MORE)
    ok(len(base) > 50 and set(base) < set(every), "what apt-get lists")
    return base, [name for name in every if name not in base]


def first_stage(root, base):
    for name in ("bin", "sbin", "lib", "lib64"):
        os.makedirs(f"{root}/usr/{name}")
        os.symlink(f"usr/{name}", f"{root}/{name}")
    for name in base:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", f"{CACHE}/archives/{name}"], stdout=subprocess.PIPE) as p:
            subprocess.run(["tar", "-C", root, "--keep-directory-symlink", "-x"], stdin=p.stdout, check=True)
    for name in ("status", "available"):
        with open(f"{root}/var/lib/dpkg/{name}", "wb"):
            pass


@test
def the_audit_service_appears_to_be_absent():
    """An error like "refused" would mean that the service exists but cannot be reached."""
    code = ("import errno, socket\n"
            "for protocol in (9, 8, 12, 0):\n"
            "    try:\n"
            "        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)\n"
            "        print(protocol, 'ok')\n"
            "    except OSError as e:\n"
            "        print(protocol, errno.errorcode[e.errno])\n")
    p = warren("run", "--", "python3", "-c", code)
    eq(p.stdout.decode().split("\n"), ["9 EPROTONOSUPPORT", "8 EPERM", "12 EPERM", "0 ok", ""], p.stderr)


@test
def accounts_can_be_added_to_the_machines_own_image():
    if not shutil.which("useradd"):
        raise Skip("no useradd on this machine")
    p = warren("run", "--", "sh", "-c", "groupadd crew && useradd -m -G crew ann && id -nG ann")
    eq((p.stdout, p.returncode), (b"ann crew\n", 0), p.stderr)


@test
@needs_root
def debian_packages_can_be_installed_and_used():
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise Skip(f"no {tool} on this machine")
    os.makedirs(CACHE, exist_ok=True)
    with scratch() as d, open(f"{CACHE}/lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        base, more = download(f"{d}/none")
        first_stage(f"{d}/root", base)
        for kind, names in (("base", base), ("more", more)):
            os.makedirs(f"{d}/{kind}")
            for name in names:
                os.symlink(f"/debs/all/{name}", f"{d}/{kind}/{name}")
        with open(f"{d}/install", "w", encoding="ascii") as f:
            f.write(INSTALL)
        with open(f"{d}/use", "w", encoding="ascii") as f:
            f.write(USE)
        p = warren("run", "--memory", "1536m", "--disk", "1400m", "--image", f"dir:{d}/root", "-v", f"{CACHE}/archives:/debs/all:ro",
                   "-v", f"{d}/base:/debs/base:ro", "-v", f"{d}/more:/debs/more:ro", "-v", f"{d}/install:/debs/install:ro",
                   "-v", f"{d}/use:/debs/use:ro", "--", "sh", "-c",
                   "sh /debs/install >/tmp/log 2>&1 </dev/null || { tail -40 /tmp/log; exit 1; }; . /debs/use", timeout=500)
    said = p.stdout.decode()
    eq(p.returncode, 0, f"{said}\n{p.stderr.decode()[-2000:]}: the status")
    got = dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)
    eq(got, WANTED, f"{p.stderr.decode()[-2000:]}: what works")


if __name__ == "__main__":
    be_alone()
    sys.exit(run_tests())
