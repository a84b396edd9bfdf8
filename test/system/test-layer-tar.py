#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-layer-tar.py - a layer that is packed and unpacked is the same tree; files that an image cannot contain are
refused

Prints TAP. $WARREN_BUILD/test/layer_tar_one packs a directory, and unpack_one unpacks it again. Needs root, for
owners and whiteouts.
"""
import hashlib
import io
import random
import socket
import sys
import tarfile

from os.path import abspath, dirname, join
sys.path[:0] = [join(dirname(abspath(__file__)), d) for d in ("../lib", "../lib/posture")]
from harness import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position

BUILD = os.environ.get("WARREN_BUILD", os.path.join(SOURCE, "build"))
PACK, UNPACK = f"{BUILD}/test/layer_tar_one", f"{BUILD}/test/unpack_one"
OPAQUE = "user.overlay.opaque"
# Use a disk, because tmpfs has no user attributes on some kernels.
ROOM = os.environ.get("WARREN_TEST_DISK", "/var/tmp")


class Tree:
    """A directory to pack, and the directories that it was unpacked into."""

    def __init__(self):
        self.top = os.fsencode(tempfile.mkdtemp(prefix="warren-test-", dir=ROOM))
        self.n = 0
        self.dir = self.fresh()

    def fresh(self):
        self.n += 1
        path = self.top + b"/%d" % self.n
        os.mkdir(path, 0o755)
        return path

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["rm", "-rf", self.top], check=True)

    def at(self, name):
        return os.path.join(self.dir, os.fsencode(name))

    def mkdir(self, name, mode=0o755):
        os.makedirs(self.at(name))
        os.chmod(self.at(name), mode)

    def write(self, name, data=b"x", mode=0o644):
        with open(self.at(name), "wb") as f:
            f.write(data)
        os.chmod(self.at(name), mode)

    def whiteout(self, name):
        os.mknod(self.at(name), stat.S_IFCHR, os.makedev(0, 0))

    def pack(self, path=None, *options):
        """Returns the archive; the program must succeed."""
        p = subprocess.run([PACK, *options, path or self.dir], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=300)
        ok(p.returncode == 0, f"pack: {p.returncode} {p.stderr!r}")
        said = dict(line.split(b" ") for line in p.stderr.splitlines())
        eq(int(said[b"bytes"]), len(p.stdout), "the reported size")
        return p.stdout

    def unpack(self, data):
        """Returns a directory with the contents of the archive."""
        path = self.fresh()
        with tempfile.TemporaryFile() as f:
            f.write(data)
            f.flush()
            p = subprocess.run([UNPACK, "-o", path], stdin=f, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        ok(p.returncode == 0, f"unpack: {p.returncode} {p.stderr!r}")
        return path

    def round(self):
        """Packs, unpacks, compares and packs again: everything is the same. Returns the archive."""
        data = self.pack()
        again = self.unpack(data)
        same(described(self.dir), described(again))
        ok(self.pack(again) == data, "the archive of the unpacked tree differs")
        return data

    def refused(self, code, words, *options):
        p = subprocess.run([PACK, *options, self.dir], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, timeout=60)
        said = p.stderr.decode()
        eq(p.returncode, code, f"status ({said!r})")
        for word in words:
            ok(word in said, f"{word!r} is not in {said!r}")
        ok(said.count("\n") == 1 and all(" " <= c <= "~" for c in said[:-1]), f"not one printable line: {said!r}")


def attributes(path):
    return {n: os.getxattr(path, n, follow_symlinks=False) for n in os.listxattr(path, follow_symlinks=False)}


def described(top):
    """Returns everything that must be preserved, by relative name."""
    found, first = {}, {}
    for base, dirs, files in os.walk(top):
        for path in [os.path.join(base, n) for n in (*dirs, *files)] + ([base] if base == top else []):
            st, name = os.lstat(path), os.path.relpath(path, top)
            if stat.S_ISSOCK(st.st_mode):
                continue
            if stat.S_ISCHR(st.st_mode):
                found[name] = ("whiteout", st.st_rdev)
                continue
            data = None
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    data = hashlib.sha256(f.read()).hexdigest()
            elif stat.S_ISLNK(st.st_mode):
                data = os.readlink(path)
            found[name] = [stat.filemode(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns, data, attributes(path)]
            if not stat.S_ISDIR(st.st_mode):
                first.setdefault(st.st_ino, []).append(name)
    for names in first.values():
        for name in names:
            found[name].append(sorted(names))
    return found


def same(a, b):
    eq(sorted(a), sorted(b), "names")
    for name, what in a.items():
        eq(b[name], what, f"what is known of {name!r}")


def names(data):
    with tarfile.open(fileobj=io.BytesIO(data), encoding="utf-8", errors="surrogateescape") as t:
        return [m.name for m in t]


# -------------------------------------------------------------------- trees


def every_kind_of_entry(t):
    t.mkdir("a dir", 0o1777)
    t.mkdir("a dir/deeper", 0o2750)
    t.write("a dir/file", os.urandom(70000), 0o4755)
    t.write("empty", b"")
    t.write("no access", b"secret", 0)
    t.write("a\nname\x01with \"all\" in it")
    t.write(b"not utf-8 \xff\xfe")
    t.write("ünïcödé")
    os.symlink("/etc/passwd", t.at("absolute"))
    os.symlink(b"not utf-8 \xff", t.at("link"))
    os.symlink("x" * 4000, t.at("long link"))
    os.symlink("gone", t.at("dangling"))
    os.mkfifo(t.at("pipe"), 0o620)
    t.whiteout("removed")
    t.whiteout("a dir/removed")
    t.mkdir("opaque")
    os.setxattr(t.at("opaque"), OPAQUE, b"y")
    t.write("opaque/new")
    for i, name in enumerate(("empty", "a dir/file", "link", "pipe", "opaque")):
        os.chown(t.at(name), 1000 + i, 65535 - i, follow_symlinks=False)
    os.chmod(t.at("a dir/file"), 0o6711)
    os.chmod(t.at("pipe"), 0o620)


@test
def a_tree_with_every_kind_of_entry_survives():
    with Tree() as t:
        every_kind_of_entry(t)
        for n, name in enumerate(("empty", "link", "a dir/deeper", "a dir", "pipe", ".")):
            os.utime(t.at(name), ns=(0, 1_600_000_000_123_456_789 + n * 7), follow_symlinks=False)
        got = names(t.round())
        for name in (".wh.removed", "a dir/.wh.removed", "opaque/.wh..wh..opq"):
            ok(name in got, f"{name} is missing in {got}")
        ok(got.index("opaque") < got.index("opaque/.wh..wh..opq") < got.index("opaque/new"), "the mark comes too late")


@test
def entries_are_sorted_by_their_bytes():
    with Tree() as t:
        for name in ("b", "a", "a.b", "Z", b"\xffz"):
            t.write(name)
        t.mkdir("a-dir")
        t.write("a-dir/z")
        t.write("a-dir/y")
        got = [os.fsencode(n) for n in names(t.round())]
        eq(got, [b".", b"Z", b"a", b"a-dir", b"a-dir/y", b"a-dir/z", b"a.b", b"b", b"\xffz"], "names")


@test
def times_survive():
    with Tree() as t:
        for i, ns in enumerate((0, 1, 999_999_999, 1_700_000_000_000_000_001, 1_700_000_000_500_000_000, 5_000_000_000 * 10**9,
                                -86400 * 10**9)):
            t.write(f"f{i}")
            os.utime(t.at(f"f{i}"), ns=(0, ns))
        t.round()
        # Programs disagree about the fraction of such a time, so only the second is kept.
        t.write("old")
        os.utime(t.at("old"), ns=(0, -1_500_000_000))
        eq(os.lstat(t.unpack(t.pack()) + b"/old").st_mtime_ns, -2_000_000_000, "a time before 1970")


@test
def long_names_and_deep_trees_survive():
    with Tree() as t:
        part = "n" * 255
        t.mkdir("/".join([part] * 8))
        t.write("/".join([part] * 8) + "/" + "f" * 255)
        t.whiteout("w" * 255)
        t.mkdir("/".join(["d"] * 600))
        for n in (98, 99, 100, 101, 102):
            t.mkdir("s" * n)
            t.write("e" * n)
            os.symlink("l" * n, t.at("k" * n))
        t.round()


@test
def hard_links_survive():
    with Tree() as t:
        t.mkdir("a")
        t.mkdir("z")
        t.write("z/first", b"data" * 1000)
        os.link(t.at("z/first"), t.at("a/second"))
        os.link(t.at("z/first"), t.at("b"))
        os.symlink("to", t.at("link"))
        os.link(t.at("link"), t.at("other link"), follow_symlinks=False)
        os.mkfifo(t.at("pipe"))
        os.link(t.at("pipe"), t.at("pipe2"))
        for i in range(2000):  # many files that wait for another name, and many that have all their names
            t.write(f"a/{i}", b"%d" % i)
            os.link(t.at(f"a/{i}"), t.at(f"{'a' if i % 2 else 'z'}/l{i}"))
        # A whiteout of overlay is one file with many names.
        t.whiteout("gone1")
        os.link(t.at("gone1"), t.at("gone2"))
        data = t.round()
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            kinds = {m.name: (m.type, m.linkname) for m in tar}
        eq(kinds["b"], (tarfile.LNKTYPE, "a/second"), "a later name")
        eq(kinds["a/second"][0], tarfile.REGTYPE, "the first name")
        # A name outside the tree does not count.
        os.link(t.at("b"), t.top + b"/outside")
        t.round()


@test
def attributes_survive():
    with Tree() as t:
        t.write("f")
        t.mkdir("d")
        for name in ("f", "d", "."):
            os.setxattr(t.at(name), "user.text", b"a value")
            os.setxattr(t.at(name), "user.bytes", bytes(range(256)) * 2)
            os.setxattr(t.at(name), "user.empty", b"")
            os.setxattr(t.at(name), "user.a=b%c", b"with\0an=equals")
            os.setxattr(t.at(name), b"user.\xff\x01 \n", b"odd")
        os.setxattr(t.at("f"), "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
        t.round()


@test
def attributes_of_overlay_are_not_written():
    with Tree() as t:
        t.mkdir("d")
        t.write("d/f")
        os.setxattr(t.at("d"), "user.overlay.impure", b"y")
        os.setxattr(t.at("d/f"), "user.overlay.origin", bytes(20))
        again = t.unpack(t.pack())
        eq((attributes(again + b"/d"), attributes(again + b"/d/f")), ({}, {}), "attributes")
        for name in ("redirect", "metacopy"):
            os.setxattr(t.at("d"), f"user.overlay.{name}", b"/x")
            t.refused(errno.EOPNOTSUPP, ["'d/' refers to a file of another layer"])
            os.removexattr(t.at("d"), f"user.overlay.{name}")
        t.pack()


@test
def sparse_files_have_the_same_contents():
    with Tree() as t:
        for name, parts in {"hole": [], "head": [(0, b"x" * 5000)], "tail": [(9_999_990, b"y" * 10)],
                            "both": [(1_000_000, os.urandom(4096)), (3_000_000, os.urandom(100_000))]}.items():
            with open(t.at(name), "wb") as f:
                f.truncate(10_000_000)
                for offset, data in parts:
                    f.seek(offset)
                    f.write(data)
        t.round()
        os.truncate(t.at("hole"), 2**33 + 1)  # the size does not fit into a header
        p = subprocess.Popen([PACK, t.dir], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        with tarfile.open(fileobj=p.stdout, mode="r|") as tar:
            sizes = {m.name: m.size for m in tar}
        eq((p.wait(60), sizes["hole"], sizes["tail"]), (0, 2**33 + 1, 10_000_000), "status and sizes")


@test
def random_trees_survive():
    for seed in range(12):
        rng = random.Random(seed)
        with Tree() as t:
            random_tree(rng, t)
            t.round()


def random_name(rng):
    return bytes(rng.choice([c for c in range(1, 256) if c != ord("/")]) for _ in range(rng.choice((1, 3, 12, 99, 200))))


def random_tree(rng, t):
    dirs, files = [b"."], []
    for _ in range(rng.randrange(5, 80)):
        path = os.path.normpath(os.path.join(rng.choice(dirs), random_name(rng)))
        if os.path.lexists(t.at(path)) or len(path) > 3000 or os.path.basename(path).startswith(b".wh."):
            continue
        kind = rng.choice("ddfffffllhhwp")
        if kind == "d":
            os.mkdir(t.at(path), 0o700)
            dirs.append(path)
            if rng.random() < .3:
                os.setxattr(t.at(path), OPAQUE, b"y")
        elif kind == "l":
            os.symlink(random_name(rng), t.at(path))
        elif kind == "h" and files:
            os.link(t.at(rng.choice(files)), t.at(path), follow_symlinks=False)
        elif kind == "w":
            t.whiteout(path)
            continue
        elif kind == "p":
            os.mkfifo(t.at(path))
        else:
            t.write(path, rng.randbytes(rng.choice((0, 1, 511, 512, 513, 300_000))))
            files.append(path)
        os.chown(t.at(path), rng.randrange(65536), rng.randrange(65536), follow_symlinks=False)
        if kind != "l" and kind != "h":
            os.chmod(t.at(path), rng.randrange(0o10000))
        if kind in "df" and rng.random() < .5:
            os.setxattr(t.at(path), b"user." + rng.choice((b"x", b"a=b", b"\xe4")), rng.randbytes(rng.randrange(300)))
        if kind == "f" and rng.random() < .2:
            os.truncate(t.at(path), 500_000)
    for path in [*dirs, *files]:
        os.utime(t.at(path), ns=(0, rng.randrange(2**62)))


# ------------------------------------------------------------------ refusals


@test
def devices_are_refused_by_path():
    with Tree() as t:
        t.mkdir("d")
        for name, kind, dev in (("d/null", stat.S_IFCHR, (1, 3)), ("d/disk", stat.S_IFBLK, (8, 0)), ("d/zero", stat.S_IFBLK, (0, 0))):
            os.mknod(t.at(name), kind | 0o666, os.makedev(*dev))
            t.refused(errno.EPERM, [f"'{name}' is a device"])
            os.unlink(t.at(name))
        t.whiteout("d/null")
        t.round()


@test
def names_of_whiteouts_are_refused():
    with Tree() as t:
        t.mkdir("d")
        for name in (".wh.x", "d/.wh.", "d/.wh..wh..opq"):
            t.write(name)
            t.refused(errno.EINVAL, [f"'{name}'", "stand for removed files"])
            os.unlink(t.at(name))
        t.mkdir(".wh.dir")
        t.refused(errno.EINVAL, ["'.wh.dir'"])
        os.rmdir(t.at(".wh.dir"))
        t.write(".whx")
        t.round()


@test
def sockets_are_skipped():
    with Tree() as t, socket.socket(socket.AF_UNIX) as s:
        here = os.open(t.dir, os.O_PATH)
        s.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
        t.write("file")
        eq(names(t.round()), [".", "file"], "names")


@test
def paths_that_no_archive_can_have_are_refused():
    with Tree() as t:
        def deep(parts):
            at = os.open(t.dir, os.O_RDONLY)
            for part in parts:
                os.mkdir(part, dir_fd=at)
                at, old = os.open(part, os.O_RDONLY, dir_fd=at), at
                os.close(old)
            os.close(at)
        deep(["n" * 255] * 17)
        t.refused(errno.ENAMETOOLONG, ["is too long"])
        subprocess.run(["rm", "-rf", t.at("n" * 255)], check=True)
        deep(["d"] * 1026)
        t.refused(errno.ENAMETOOLONG, ["more than 1024 directories"])
        subprocess.run(["rm", "-rf", t.at("d")], check=True)
        deep(["d"] * 1024)
        t.pack()


@test
def a_size_limit_and_a_full_sink_end_the_archive():
    with Tree() as t:
        for i in range(3):
            t.write(f"f{i}", os.urandom(400_000))
        size = len(t.pack(None, "-m", "1300000"))
        ok(size > 1_200_000, f"{size} bytes")
        t.refused(errno.EFBIG, ["larger than 1000000 bytes"], "-m", "1000000")
        t.refused(errno.ENOSPC, ["the sink is full"], "-s", "500000")
        with open(t.at("huge"), "wb") as f:
            f.truncate(2**42)
        t.refused(errno.EFBIG, ["larger than 1300000 bytes"], "-m", "1300000")


@test
def memory_does_not_grow_with_the_number_of_files():
    with Tree() as t:
        for d in range(60):
            t.mkdir(f"d{d}")
            for f in range(500):
                t.write(f"d{d}/{f}", b"")
        program = "import resource, subprocess, sys; r = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode; " \
                  "print(r, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        out = subprocess.run([sys.executable, "-c", program, PACK, t.dir], check=True, capture_output=True).stdout.split()
        eq(out[0], b"0", "status")
        ok(int(out[1]) < 24_000 or "SAN" in " ".join(os.environ), f"{out[1]} KiB for 30,000 files")


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root")
        sys.exit(0)
    sys.exit(run_tests())
