#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-egress-packages.py - package managers install from the registries that a policy allows, and from no others

Each registry is served by the test, in a namespace without a connection to the machine's network.
"""
import base64
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import Skip, eq, ok, scratch, test  # noqa: E402
import egress_world as ew  # noqa: E402
from egress_clients import ALLOW_A, Site, inside, need  # noqa: E402
from egress_world import run, world  # noqa: E402


def check(result, what):
    code, out, err = result
    eq(code, 0, f"the exit status of {what} ({out[-2000:].decode(errors='replace')} {err[-2000:]})")


def fails(result, what):
    ok(result[0] not in (0, "timeout"), f"{what}: {result}")


def two_hosts(w, site):
    """a.example is allowed; b.example has the same files, and is not allowed."""
    servers = site.serve(w), site.serve(w, "5.6.7.8")
    return lambda: sum(s.n for s in servers[0]), lambda: sum(s.n for s in servers[1])


def archive(files):
    """Returns the files as a gzipped tar, without times that change."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as gz, tarfile.open(fileobj=gz, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content.encode()))
    return out.getvalue()


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, content in files.items():
            z.writestr(name, content)
    return out.getvalue()


@test
def pip_installs_from_an_index():
    with scratch() as d, world(ALLOW_A) as w:
        if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode != 0:
            raise Skip("needs pip")
        site = Site(d, "a.example", "b.example")
        meta = "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n"
        site.put("simple/thing/thing-1.0-py3-none-any.whl", zipped({
            "thing.py": "answer = 42\n", "thing-1.0.dist-info/METADATA": meta,
            "thing-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "thing-1.0.dist-info/RECORD": "thing.py,,\nthing-1.0.dist-info/METADATA,,\nthing-1.0.dist-info/WHEEL,,\n"
                                          "thing-1.0.dist-info/RECORD,,\n"}))
        site.put("simple/thing/index.html", '<a href="thing-1.0-py3-none-any.whl">thing-1.0-py3-none-any.whl</a>')
        used, unused = two_hosts(w, site)

        def pip(host, target):
            return inside(w, d, sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input",
                          "--no-cache-dir", "--retries", "1", "--timeout", "20", "--root-user-action", "ignore", "--cert",
                          site.cert, "--index-url", f"https://{host}/simple", "--target", os.path.join(d, target), "thing")

        check(pip("a.example", "into"), "pip")
        ok(os.path.exists(os.path.join(d, "into", "thing.py")) and used() > 0, "the package is not installed")
        fails(pip("b.example", "other"), "pip from a host that is not allowed")
        ok(not os.path.exists(os.path.join(d, "other", "thing.py")), "the package is installed")
        eq(unused(), 0, "connections to the host that is not allowed")


@test
def npm_installs_from_a_registry():
    need("npm", "node")
    with scratch() as d, world(ALLOW_A) as w:
        site = Site(d, "a.example", "b.example")
        tarball = archive({"package/package.json": json.dumps({"name": "thing", "version": "1.0.0", "main": "i.js"}),
                           "package/i.js": "module.exports = 42\n"})
        for host in ("a.example", "b.example"):
            dist = {"tarball": f"https://{host}/thing-1.0.0.tgz",
                    "integrity": "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()}
            site.put(f"{host[0]}/thing", json.dumps(
                {"name": "thing", "dist-tags": {"latest": "1.0.0"},
                 "versions": {"1.0.0": {"name": "thing", "version": "1.0.0", "main": "i.js", "dist": dist}}}))
        site.put("thing-1.0.0.tgz", tarball)
        used, unused = two_hosts(w, site)

        def npm(host, into):
            os.makedirs(os.path.join(d, into))
            return inside(w, os.path.join(d, into), "npm", "install", "thing", "--registry", f"https://{host}/{host[0]}/",
                          "--cafile", site.cert, "--no-audit", "--no-fund", "--no-update-notifier", "--fetch-retries", "0",
                          "--prefix", os.path.join(d, into), "--cache", os.path.join(d, into, "cache"))

        check(npm("a.example", "into"), "npm")
        p = subprocess.run(["node", "-p", "require('thing')"], cwd=os.path.join(d, "into"), capture_output=True, check=False)
        eq((p.stdout, used() > 0), (b"42\n", True), p.stderr)
        fails(npm("b.example", "other"), "npm from a host that is not allowed")
        ok(not os.path.exists(os.path.join(d, "other", "node_modules", "thing")), "the package is installed")
        eq(unused(), 0, "connections to the host that is not allowed")


@test
def apt_downloads_from_a_repository():
    need("apt-get", "dpkg-deb")
    with scratch() as d, world(ALLOW_A) as w:
        site = Site(d, "a.example", "b.example")
        os.makedirs(os.path.join(d, "deb", "DEBIAN"))
        control = "Package: thing\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@example.com>\nDescription: a thing\n"
        with open(os.path.join(d, "deb", "DEBIAN", "control"), "w", encoding="ascii") as f:
            f.write(control)
        package = site.put("thing_1.0_all.deb", b"")
        run("dpkg-deb", "--build", os.path.join(d, "deb"), package)
        with open(package, "rb") as f:
            data = f.read()
        site.put("Packages", f"{control}Filename: ./thing_1.0_all.deb\nSize: {len(data)}\n"
                             f"SHA256: {hashlib.sha256(data).hexdigest()}\n\n")
        used, unused = two_hosts(w, site)

        def apt(source, *words):
            """apt with a separate set of directories for each source."""
            base = os.path.join(d, re.sub(r"\W", "", source))
            for sub in ("etc/apt.conf.d", "etc/preferences.d", "etc/trusted.gpg.d", "state/lists/partial", "cache/archives/partial",
                        "into"):
                os.makedirs(os.path.join(base, sub), exist_ok=True)
            with open(os.path.join(base, "etc/sources.list"), "w", encoding="ascii") as f:
                f.write(f"deb [trusted=yes] {source} ./\n")
            with open(os.path.join(base, "status"), "w", encoding="ascii"):
                pass
            options = {"Dir::Etc": f"{base}/etc", "Dir::State": f"{base}/state", "Dir::Cache": f"{base}/cache",
                       "Dir::State::status": f"{base}/status", "Dir::Log": base, "APT::Sandbox::User": "root", "Acquire::Retries": "0",
                       "Acquire::https::CAInfo": site.cert, "Acquire::Languages": "none",
                       "Acquire::http::Timeout": "20", "APT::Update::Error-Mode": "any"}
            return inside(w, os.path.join(base, "into"), "apt-get", "-q", *(f"-o{k}={v}" for k, v in options.items()), *words), base

        for scheme in ("http", "https"):
            check(apt(f"{scheme}://a.example", "update")[0], f"apt-get update over {scheme}")
            result, base = apt(f"{scheme}://a.example", "download", "thing")
            check(result, f"apt-get download over {scheme}")
            with open(os.path.join(base, "into", "thing_1.0_all.deb"), "rb") as f:
                ok(f.read() == data, "the package differs")
            fails(apt(f"{scheme}://b.example", "update")[0], f"apt-get update over {scheme} from a host that is not allowed")
        ok(used() > 0, "the repository was used")
        eq(unused(), 0, "connections to the host that is not allowed")


@test
def go_downloads_modules_from_a_proxy():
    need("go")
    with scratch() as d, world(ALLOW_A) as w:
        site = Site(d, "a.example", "b.example")
        at = "example.com/thing/@v"
        mod = "module example.com/thing\n\ngo 1.16\n"
        site.put(f"{at}/list", "v1.0.0\n")
        site.put(f"{at}/v1.0.0.info", '{"Version":"v1.0.0","Time":"2025-01-20T15:04:05Z"}')
        site.put(f"{at}/v1.0.0.mod", mod)
        site.put(f"{at}/v1.0.0.zip", zipped({"example.com/thing@v1.0.0/go.mod": mod,
                                             "example.com/thing@v1.0.0/thing.go": "package thing\n\nconst Answer = 42\n"}))
        used, unused = two_hosts(w, site)

        def go(host, into):
            return inside(w, d, "go", "mod", "download", "-json", "example.com/thing@v1.0.0", SSL_CERT_FILE=site.cert,
                          GOPROXY=f"https://{host}", GOSUMDB="off", GOTOOLCHAIN="local", GOFLAGS="-modcacherw", GOTELEMETRY="off",
                          GOPATH=os.path.join(d, into), GOCACHE=os.path.join(d, "cache"))

        check(go("a.example", "into"), "go")
        ok(os.path.exists(os.path.join(d, "into/pkg/mod/example.com/thing@v1.0.0/thing.go")) and used() > 0, "the module is missing")
        fails(go("b.example", "other"), "go from a host that is not allowed")
        eq(unused(), 0, "connections to the host that is not allowed")


@test
def cargo_fetches_crates_from_a_sparse_registry():
    need("cargo")
    home = os.environ.get("RUSTUP_HOME", os.path.expanduser("~/.rustup"))
    found = subprocess.run(["cargo", "--version"], capture_output=True, text=True, check=False)
    version = re.match(r"cargo 1\.(\d+)", found.stdout)
    if not version or int(version.group(1)) < 68:
        raise Skip(f"needs cargo 1.68 or newer: {found.stdout or found.stderr}")
    with scratch() as d, world(ALLOW_A) as w:
        site = Site(d, "a.example", "b.example")
        crate = archive({"thing-1.0.0/Cargo.toml": '[package]\nname = "thing"\nversion = "1.0.0"\nedition = "2021"\n',
                         "thing-1.0.0/src/lib.rs": "pub const ANSWER: u32 = 42;\n"})
        row = {"name": "thing", "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(crate).hexdigest(), "features": {},
               "yanked": False}
        for host in ("a.example", "b.example"):
            site.put(f"{host[0]}/config.json", json.dumps({"dl": f"https://{host}/crates/{{crate}}-{{version}}.crate"}))
            site.put(f"{host[0]}/th/in/thing", json.dumps(row) + "\n")
        site.put("crates/thing-1.0.0.crate", crate)
        used, unused = two_hosts(w, site)

        def cargo(host):
            work = os.path.join(d, "work-" + host)
            os.makedirs(os.path.join(work, "src"))
            with open(os.path.join(work, "src", "lib.rs"), "w", encoding="ascii"):
                pass
            with open(os.path.join(work, "Cargo.toml"), "w", encoding="ascii") as f:
                f.write('[package]\nname = "user"\nversion = "0.1.0"\nedition = "2021"\n'
                        '[dependencies]\nthing = { version = "1", registry = "own" }\n')
            return inside(w, work, "cargo", "fetch", CARGO_HOME=os.path.join(work, "home"), RUSTUP_HOME=home, CARGO_NET_RETRY="0",
                          CARGO_REGISTRIES_OWN_INDEX=f"sparse+https://{host}/{host[0]}/", CARGO_HTTP_CAINFO=site.cert), work

        result, work = cargo("a.example")
        check(result, "cargo")
        sources = [f for _, _, files in os.walk(os.path.join(work, "home", "registry")) for f in files]
        ok("thing-1.0.0.crate" in sources and used() > 0, sources)
        fails(cargo("b.example")[0], "cargo from a host that is not allowed")
        eq(unused(), 0, "connections to the host that is not allowed")


if __name__ == "__main__":
    sys.exit(ew.run_outside())
