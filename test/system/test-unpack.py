#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-unpack.py - unpack layers and outer archives, including hostile ones

Prints TAP. $WARREN_BUILD/test/unpack_one unpacks every archive, as root and as an ordinary user (only if root runs
the test: it changes its user). A canary next to the directory, the target of crafted names and links, has the same
fingerprint before and after; no process is left behind.
"""
import bz2
import functools
import gzip
import lzma
import os
import re
import signal
import sys
import tarfile
import threading

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), d) for d in ("../lib", "../lib/posture")]
from archives import END, entry, file, hard, header, link, pad, pax_record, tar  # pylint: disable=wrong-import-position
from harness import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position

BUILD = os.environ.get("WARREN_BUILD", os.path.join(SOURCE, "build"))
ONE = os.environ.get("UNPACK_ONE", os.path.join(BUILD, "test/unpack_one"))
UID = 52346
BASE = 0x0FFF0000
EBADMSG, EFBIG = errno.EBADMSG, errno.EFBIG


# ---------------------------------------------------------------- unpacking


class Place:
    """A directory to unpack into, a canary next to it, and the user who unpacks."""

    def __init__(self, user):
        self.user = user
        self.top = tempfile.mkdtemp(prefix="warren-test-")
        os.chmod(self.top, 0o755)
        self.canary = f"{self.top}/canary"
        os.makedirs(f"{self.canary}/etc")
        for name in ("file", "etc/passwd"):
            with open(f"{self.canary}/{name}", "w", encoding="ascii") as f:
                f.write("canary\n")
            os.chmod(f"{self.canary}/{name}", 0o666)
        os.chmod(self.canary, 0o777)
        self.before = fingerprint(self.canary)
        self.n = 0
        self.dir = None
        self.program = shutil.copy(ONE, f"{self.top}/unpack_one")
        self.fresh()

    def fresh(self):
        self.n += 1
        self.dir = f"{self.top}/d{self.n}"
        os.mkdir(self.dir, 0o755)
        if self.user:
            os.chown(self.dir, UID, UID)
        return self.dir

    def command(self, *args):
        as_user = ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"] if self.user else []
        return [*as_user, self.program, *args, self.dir]

    def unpack(self, data, *args, timeout=60):
        """Unpacks into a new directory; returns (status, output)."""
        self.fresh()
        with tempfile.TemporaryFile() as f:
            f.write(data)
            f.flush()
            p = subprocess.run(self.command(*args), stdin=f, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
        eq(fingerprint(self.canary), self.before, "the canary's fingerprint")
        return p.returncode, (p.stderr if p.returncode else p.stdout).decode()

    def good(self, data, *args):
        """Unpacks, which must succeed; returns the report as a dict."""
        status, said = self.unpack(data, *args)
        ok(status == 0, f"status {status}: {said}")
        return {k: int(v) if v.isdigit() else v for k, _, v in (line.partition(" ") for line in said.splitlines())}

    def bad(self, data, *args, code=EBADMSG, says=""):
        """Unpacks, which must fail with @code and one line that matches @says."""
        status, said = self.unpack(data, *args)
        ok(status == code, f"status {status}, not {code}: {said!r}")
        ok(said.count("\n") == 1 and re.search(says, said), f"said {said!r}, not {says!r}")
        ok(all(" " <= c <= "~" for c in said[:-1]), f"unprintable: {said!r}")
        return said

    def path(self, name):
        return os.path.join(os.fsencode(self.dir), os.fsencode(name))

    def stat(self, name):
        return os.lstat(self.path(name))

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def tree(self):
        """Returns the names and types of all files."""
        found = {}
        for base, dirs, files in os.walk(os.fsencode(self.dir)):
            for n in dirs + files:
                p = os.path.join(base, n)
                found[os.fsdecode(os.path.relpath(p, os.fsencode(self.dir)))] = stat.filemode(os.lstat(p).st_mode)[0]
        return found

    def close(self):
        left = [n for n in os.listdir("/proc") if n.isdigit() and self.ran(n)]
        subprocess.run(["rm", "-rf", self.top], check=True)
        ok(not left, f"processes are left: {left}")

    def ran(self, pid):
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/{pid}/exe") == self.program
        return False


def both(f):
    """Runs the test as root and as an ordinary user; only the latter if root does not run it."""
    for user in ([False, True] if ROOT else [False]):
        @functools.wraps(f)
        def run_it(user=user):
            place = Place(user)
            try:
                f(place)
            finally:
                place.close()
        run_it.__name__ = f.__name__ + ("_rootless" if user else "")
        test(run_it)
    return f


def keeps_ids(place):
    return ROOT and not place.user


# ------------------------------------------------------------ valid archives


@both
def every_kind_of_file_is_unpacked(p):
    r = p.good(tar(entry("./"), entry("d/", mode=0o750, uid=7, gid=8), file("d/f", b"hello", mode=0o640, uid=1000, gid=65535),
                   link("d/l", "../../nowhere"), hard("d/h", "d/f"), entry("p", kind=tarfile.FIFOTYPE, mode=0o600),
                   file("empty", b""), link("abs", "/etc/passwd")))
    eq(p.tree(), {"d": "d", "d/f": "-", "d/l": "l", "d/h": "-", "p": "p", "empty": "-", "abs": "l"}, "tree")
    eq(p.read("d/f"), b"hello")
    eq(os.readlink(p.path("d/l")), b"../../nowhere")
    eq(os.readlink(p.path("abs")), b"/etc/passwd")
    eq(p.stat("d/f").st_ino, p.stat("d/h").st_ino, "inode of the hard link")
    eq(stat.S_IMODE(p.stat("d/f").st_mode), 0o640, "mode")
    eq(stat.S_IMODE(p.stat("d").st_mode), 0o750, "mode of the directory")
    for name in ("d", "d/f", "d/l", "p", "."):
        eq(p.stat(name).st_mtime_ns, 1_000_000_000 * 10**9, f"time of {name}")
    if keeps_ids(p):
        eq((p.stat("d/f").st_uid, p.stat("d/f").st_gid, p.stat("d").st_uid), (1000, 65535, 7), "owners")
    else:
        eq(p.stat("d/f").st_uid, UID if ROOT else os.geteuid(), "owner")
    eq((r["entries"], r["skipped"], r["remapped"]), (7, 0, 0), "counts")


@both
def every_compression_is_supported_and_its_digest_checked(p):
    plain = tar(*[file(f"f{i}", os.urandom(1000) * (i * 6)) for i in range(30)])
    digest = "sha256:" + hashlib.sha256(plain).hexdigest()
    half = len(plain) // 3
    forms = {"plain": plain, "gzip": gzip.compress(plain), "two members": gzip.compress(plain[:half]) + gzip.compress(plain[half:]),
             "stored": gzip.compress(plain, 0), "padded": gzip.compress(plain) + bytes(700), "xz": lzma.compress(plain),
             "bzip2": bz2.compress(plain), "trailing zeros": plain + bytes(10240)}
    if shutil.which("zstd"):
        forms["zstd"] = subprocess.run(["zstd", "-qc"], input=plain, stdout=subprocess.PIPE, check=True).stdout
    for what, data in forms.items():
        want = "sha256:" + hashlib.sha256(data).hexdigest() if what == "trailing zeros" else digest
        for more in ((), ("-f",)):
            r = p.good(data, "-d", want, *more)
            eq((r["diff_id"], r["bytes"], len(p.tree())), (want, len(data) if what == "trailing zeros" else len(plain), 30), what)
        eq(p.read("f29"), plain[plain.index(p.read("f29")[:1000]):][:1000 * 29 * 6], f"content of {what}")
    # Data after the end marker is part of the digest, and of nothing else.
    junk = plain + b"junk" * 1000
    eq(p.good(junk)["diff_id"], "sha256:" + hashlib.sha256(junk).hexdigest(), "digest with what follows the end")
    eq(len(p.tree()), 30)


@both
def a_wrong_digest_is_an_error(p):
    data = tar(file("f"))
    p.bad(gzip.compress(data), "-d", "sha256:" + "0" * 64, says="digest sha256:.* says sha256:0000")
    for more in ((), ("-f",)):
        p.bad(data, "-d", "sha256:" + "0" * 64, *more, says="digest")
    p.good(data, "-d", "sha256:" + hashlib.sha256(data).hexdigest())


@both
def file_names_can_contain_any_bytes(p):
    names = ["e\u0301 decomposed", "\u00e9 composed", b"bad \xff\xfe".decode("utf-8", "surrogateescape"), "\u6f22\u5b57", "a b\tc\nd",
             "x" * 255, "/".join(["y" * 200] * 15), "\u00e9" * 127]
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        p.good(tar(*[file(n, n.encode("utf-8", "surrogateescape")) for n in names], link("l", names[0]), link("m", names[2]), form=form))
        for n in names:
            eq(p.read(n), n.encode("utf-8", "surrogateescape"), f"content of {n!r}")
        eq(os.readlink(p.path("l")), names[0].encode(), "target")
        eq(os.readlink(p.path("m")), b"bad \xff\xfe", "target")


@both
def names_are_normalised_and_made_relative(p):
    p.good(tar(file("/abs/f"), file("//x///y/./z"), file("./././w"), file("sub/./f")))
    eq(p.tree(), {"abs": "d", "abs/f": "-", "x": "d", "x/y": "d", "x/y/z": "-", "w": "-", "sub": "d", "sub/f": "-"}, "tree")
    eq(stat.S_IMODE(p.stat("x/y").st_mode), 0o755, "mode of a directory that no entry names")


@both
def times_have_nanoseconds_and_directories_keep_theirs(p):
    p.good(tar(entry("d/", mode=0o555, pax={"mtime": "1234567890.123456789"}), entry("d/e/", mode=0, mtime=7),
               file("d/f", pax={"mtime": "1.000000001"}), file("d/e/g"), file("neg", mtime=-5), entry("d/", mode=0o511, mtime=9)))
    eq(p.stat("d/f").st_mtime_ns, 1_000_000_001, "time of the file")
    eq((p.stat("d").st_mtime_ns, stat.S_IMODE(p.stat("d").st_mode)), (9 * 10**9, 0o511), "the last word about d")
    eq(p.stat("d/e").st_mtime_ns, 7 * 10**9, "time of d/e")
    eq(p.stat("neg").st_mtime_ns, -5 * 10**9, "a time before 1970")
    p.good(tar(entry("d/", pax={"mtime": "1234567890.123456789"}), file("d/f")))
    eq(p.stat("d").st_mtime_ns, 1234567890123456789, "time of the directory")
    if p.user or not ROOT:
        subprocess.run(["chmod", "-R", "u+rwx", p.top], check=True)


@both
def set_id_bits_are_kept(p):
    p.good(tar(file("u", mode=0o4755, uid=0), file("g", mode=0o2755, uid=5, gid=6), entry("s/", mode=0o3777, gid=4), file("s/in"),
               entry("s/dir/")))
    got = {n: stat.S_IMODE(p.stat(n).st_mode) for n in ("u", "g", "s", "s/in", "s/dir")}
    want = {"u": 0o4755, "g": 0o2755, "s": 0o3777, "s/in": 0o644, "s/dir": 0o755}
    if not keeps_ids(p):
        want |= {"u": 0o755, "g": 0o755, "s": 0o1777}
    eq(got, want, "modes")
    if keeps_ids(p):
        eq((p.stat("g").st_uid, p.stat("g").st_gid, p.stat("s/in").st_gid), (5, 6, 0), "owners")


@both
def ids_outside_the_range_of_a_sandbox_become_nobody(p):
    r = p.good(tar(file("big", uid=65536, gid=3, mode=0o6755), file("huge", pax={"uid": "4294967296", "gid": "99999999999"}),
                   file("ok", uid=65535, gid=65535, mode=0o4755)))
    if not keeps_ids(p):
        eq(r["remapped"], 0, "remapped")
        return
    eq(r["remapped"], 2, "remapped")
    eq((p.stat("big").st_uid, p.stat("big").st_gid, stat.S_IMODE(p.stat("big").st_mode)), (65534, 3, 0o755), "of 65536")
    eq((p.stat("huge").st_uid, p.stat("huge").st_gid), (65534, 65534), "of the huge")
    eq((p.stat("ok").st_uid, stat.S_IMODE(p.stat("ok").st_mode)), (65535, 0o4755), "of 65535")


def xattrs(path):
    return {n: os.getxattr(path, n, follow_symlinks=False) for n in os.listxattr(path, follow_symlinks=False)}


@both
def only_allowed_attributes_are_kept(p):
    cap = b"\x01\x00\x00\x02\x00\x20\x00\x00" + bytes(12)  # cap_net_raw=ep, revision 2
    def x(**kw):
        return {f"SCHILY.xattr.{k}": v for k, v in kw.items()}
    bad = {"SCHILY.xattr.trusted.overlay.opaque": "y", "SCHILY.xattr.user.overlay.opaque": "y", "SCHILY.xattr.user.overlay.redirect": "/x",
           "SCHILY.xattr.security.selinux": "s", "SCHILY.xattr.trusted.x": "1", "SCHILY.xattr.system.posix_acl_access": "z",
           "SCHILY.xattr.user.overlay.whiteout": "", "SCHILY.xattr.user.overlay.metacopy": ""}
    r = p.good(tar(file("f", pax={"SCHILY.xattr.user.a": "value", "SCHILY.xattr.user.overlayed": "kept"}), file("bad", pax=bad),
                   entry("d/", pax={**bad, "SCHILY.xattr.user.d": "1"}), link("l", "x", pax={"SCHILY.xattr.user.l": "1"})))
    eq(xattrs(p.path("f")), {"user.a": b"value", "user.overlayed": b"kept"}, "attributes")
    eq((xattrs(p.path("bad")), xattrs(p.path("d")), xattrs(p.path("l"))), ({}, {"user.d": b"1"}, {}), "attributes")
    eq(r["skipped"], 2 * len(bad) + 1, "skipped")
    # A capability is encoded by hand, since its bytes are no text.
    records = pax_record(b"SCHILY.xattr.security.capability", cap)
    data = header(b"pax", b"%011o\0" % len(records), b"x") + pad(records) + header(b"ping", b"%011o\0" % 4) + pad(b"ping") + END
    r = p.good(data)
    if keeps_ids(p):
        eq(xattrs(p.path("ping")), {"security.capability": cap}, "the capability as root sees it")
    else:
        eq((xattrs(p.path("ping")), r["skipped"]), ({}, 1), "attributes of an ordinary user")


@both
def devices_are_omitted(p):
    r = p.good(tar(entry("null", kind=tarfile.CHRTYPE, devmajor=1, devminor=3), entry("sda", kind=tarfile.BLKTYPE, devmajor=8),
                   entry("wh", kind=tarfile.CHRTYPE), file("f")), "-o")
    eq((p.tree(), r["skipped"]), ({"f": "-"}, 3), "tree")


@both
def whiteouts_are_translated(p):
    members = [entry("a/"), file("a/.wh.gone", b""), file("b/.wh..wh..opq", b""), file("b/new"), file(".wh.top", b""),
               file(".wh.dir", b""), entry("dir/"), file("dir/mine"), file(".wh.dir2", b""), file("dir2/implicit"), entry("late/"),
               file(".wh.late", b""), file("f"), file(".wh.f", b""), file(".wh.g", b""), file("g"), file(".wh..wh.plnk", b""),
               file(".wh..wh..opq", b"")]
    r = p.good(tar(*members), "-o")
    eq(p.tree(), {"a": "d", "a/gone": "c", "b": "d", "b/new": "-", "top": "c", "dir": "d", "dir/mine": "-", "dir2": "d",
                  "dir2/implicit": "-", "late": "d", "f": "-", "g": "-"}, "tree")
    eq(p.stat("a/gone").st_rdev, 0, "device of a whiteout")
    opaque = {n for n in ("a", "b", "dir", "dir2", "late", ".") if xattrs(p.path(n)) == {"user.overlay.opaque": b"y"}}
    eq((opaque, r["skipped"]), ({"b", "dir", "dir2", "late", "."}, 1), "opaque directories")
    p.bad(tar(*members), says="'a/.wh.gone' is reserved for whiteouts")
    for name in (".wh.", ".wh..", ".wh...", "a/.wh.", ".wh.x/y", "a/.wh.x/y", ".wh..wh..opq/x"):
        p.bad(tar(file(name)), "-o", says="not a valid whiteout")


@test
def the_overlay_filesystem_applies_the_whiteouts():
    if not ROOT:
        raise Skip("needs root")
    p = Place(False)
    try:
        p.good(tar(entry("a/"), file("a/x"), file("a/y"), entry("b/"), file("b/x"), file("c"), entry("e/"), file("e/old")))
        lower = p.dir
        p.good(tar(entry("a/"), file("a/.wh.x", b""), entry("b/"), file("b/.wh..wh..opq", b""), file("b/z"), file(".wh.c", b""),
                   file(".wh.e", b""), file("e/new")), "-o")
        os.mkdir(f"{p.top}/m")
        script = f"mount -t overlay -o userxattr,lowerdir={p.dir}:{lower} overlay {p.top}/m && cd {p.top}/m && find . | sort | xargs"
        r = subprocess.run(["unshare", "-Urm", "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30)
        eq(r.stdout.decode().strip(), ". ./a ./a/y ./b ./b/z ./e ./e/new", f"merged tree ({r.stderr!r})")
    finally:
        p.close()


@both
def sparse_and_huge_files_are_unpacked(p):
    d = f"{p.top}/sparse"
    os.mkdir(d)
    with open(f"{d}/s", "wb") as f:
        for at in (0, 5 << 20, 3 << 30):
            f.seek(at)
            f.write(b"data" * 1024)
        f.truncate(9 << 30)
    for form in ("--format=gnu", "--format=pax", "--format=pax --sparse-version=0.0", "--format=pax --sparse-version=0.1"):
        data = subprocess.run(["tar", "-C", d, "-S", *form.split(), "-cf", "-", "s"], stdout=subprocess.PIPE, check=True).stdout
        p.good(data)
        st = p.stat("s")
        eq((st.st_size, st.st_blocks < 200), (9 << 30, True), f"size and blocks of {form}")
        with open(p.path("s"), "rb") as f:
            for at in (0, 5 << 20, 3 << 30):
                f.seek(at)
                eq(f.read(8192), b"data" * 1024 + bytes(4096), f"data of {form} at {at}")
        os.unlink(p.path("s"))
    # Sizes of 8 GiB and more are not octal; the content is zeros, which are cheap to create and to read. The option
    # -m limits it.
    p.bad(header(b"big", b"\x80" + (9 << 30).to_bytes(11, "big")) + bytes(1 << 20), "-m", "2000000", says="(?i)truncated")


@both
def hard_links_are_unpacked(p):
    p.good(tar(file("a", b"1"), hard("b", "a"), hard("c", "./b"), hard("d/e", "/a"), link("s", "a"), hard("t", "s"), hard("a", "a"),
               hard("b", "a"), file("z", b"2"), hard("z", "a")))
    eq({p.stat(n).st_ino for n in ("b", "c", "d/e", "z")}, {p.stat("a").st_ino}, "inodes")
    eq(os.readlink(p.path("t")), b"a", "a second name of the link itself")
    # A second entry with the same name is a new file: the other link keeps its content.
    p.good(tar(file("a", b"1"), hard("b", "a"), file("b", b"22")))
    eq((p.read("a"), p.read("b")), (b"1", b"22"), "contents")


@both
def later_entries_replace_earlier_ones(p):
    p.good(tar(file("f", b"1"), file("f", b"22"), entry("d/"), file("d/x/y/z"), file("d", b"now a file"), link("l", "f"), entry("l/"),
               file("l/in"), file("m"), link("m", "f"), entry("n/"), file("n/x"), link("n", "f"), link("o", "f"), file("o", b"plain"),
               entry("q/"), file("q/kept"), entry("q/", mode=0o700), entry("r/"), file("r/x"), entry("r", kind=tarfile.FIFOTYPE),
               file("s"), entry("s/")))
    eq(p.tree(), {"f": "-", "d": "-", "l": "d", "l/in": "-", "m": "l", "n": "l", "o": "-", "q": "d", "q/kept": "-", "r": "p", "s": "d"})
    eq((p.read("f"), p.read("o"), p.read("d")), (b"22", b"plain", b"now a file"), "contents")
    eq(stat.S_IMODE(p.stat("q").st_mode), 0o700, "mode")


@both
def a_deep_tree_can_be_replaced(p):
    deep = "/".join(["d"] * 1000)
    p.good(tar(*[file(f"{deep}/{i}") for i in range(3)], file("d/d/x"), file("keep"), file("d", b"flat")))
    eq(p.tree(), {"d": "-", "keep": "-"}, "tree")


# ---------------------------------------------------------- invalid archives


@both
def names_with_dotdot_are_refused(p):
    up = "../" * 12
    for name in ("../canary/file", "a/../../canary/file", f"{up}{p.canary[1:]}/file", "..", "a/..", "/../x", "./../canary/new", "d/../e"):
        p.bad(tar(file(name)), says=r"contains '\.\.'")
        p.bad(tar(entry(name, kind=tarfile.DIRTYPE)), says=r"contains '\.\.'")
        p.bad(tar(link(name, "x")), says=r"contains '\.\.'")
        p.bad(tar(file("f"), hard("h", name)), says=r"contains '\.\.'")
    p.good(tar(file(f"{p.canary}/file"), file("..a"), file("a.."), file("...")))
    ok(p.read(p.canary[1:] + "/file") == b"new\n", "an absolute name ends inside")


@both
def links_in_a_path_stay_inside(p):
    """The same as in docker, whose tar uses the layer as its root: entries behind a link are created at its target
    inside."""
    inside = p.canary[1:]
    for to, where in ((p.canary, inside), ("../canary", "canary"), ("/", ""), (".", ""), ("..", ""), ("real", "real"), ("/real/", "real"),
                      ("../../real/./sub/..", "real"), ("real/../new/sub", "new/sub"), ("/proc/self/root", "proc/self/root")):
        def at(name, where=where):
            return f"{where}/{name}".lstrip("/")
        p.good(tar(entry("real/"), link("l", to), file("l/file", b"1"), entry("l/dir/", mode=0o711, mtime=5), file("l/dir/f", b"2"),
                   link("l/soft", "x"), entry("l/p", kind=tarfile.FIFOTYPE), hard("l/hard", "l/file"), hard("top", at("file")),
                   file("l/file", b"3", mode=0o600)))
        eq((p.read(at("file")), p.read(at("dir/f")), p.read(at("hard")), p.read("top")), (b"3", b"2", b"1", b"1"), f"contents behind {to}")
        eq((p.stat(at("dir")).st_mtime, stat.S_IMODE(p.stat(at("dir")).st_mode)), (5, 0o711), f"the directory behind {to}")
        eq(({p.tree()[at(n)] for n in ("soft",)}, p.tree()[at("p")], os.readlink(p.path("l"))), ({"l"}, "p", to.encode()), "links and pipes")
        p.good(tar(entry("real/"), link("l", to), file("l/.wh.file", b""), file("l/.wh..wh..opq", b"")), "-o")
        eq((p.stat(at("file")).st_rdev, xattrs(p.path(where or "."))), (0, {"user.overlay.opaque": b"y"}), f"whiteouts behind {to}")
        # The last component of a name is replaced, whatever it is.
        p.good(tar(entry("real/"), link("l", to), file("l", b"x")))
        eq(p.read("l"), b"x")
        p.good(tar(entry("real/"), link("l", to), entry("l/"), file("l/file")))
        eq(p.tree(), {"real": "d", "l": "d", "l/file": "-"}, "tree")
    # The usual case: a merged /usr.
    p.good(tar(entry("usr/"), entry("usr/lib/"), link("lib", "usr/lib"), file("lib/a"), file("lib/b/c"), file("usr/lib/d")))
    eq(set(p.tree()), {"usr", "usr/lib", "lib", "usr/lib/a", "usr/lib/b", "usr/lib/b/c", "usr/lib/d"}, "names")


@both
def links_that_change_during_unpacking_stay_inside(p):
    """A link to a link, a hard link to a link, and a link that is replaced between two uses."""
    inside = p.canary[1:]
    for first in ((link("a", p.canary), link("b", "a")), (link("a", p.canary), hard("b", "a")), (link("d/a", "../../" + p.canary), link("b", "d/a"))):
        p.good(tar(*first, file("b/file")))
        eq(p.read(f"{inside}/file"), b"new\n", "what is inside")
    p.good(tar(entry("x/"), entry("y/"), link("l", "x"), file("l/1"), link("l", "y"), file("l/2"), link("l", p.canary), file("l/file"),
               entry("l/"), file("l/4"), link("l", "x"), file("l/5")))
    eq({n for n in p.tree() if n.count("/") == 1 and n[0] in "xyl"}, {"x/1", "y/2", "x/5"}, "names")
    eq(p.read(f"{inside}/file"), b"new\n", "what is inside")
    # The target of a link is removed while the link is in use; then it is created again.
    p.good(tar(entry("x/"), link("l", "x"), file("l/1"), file("x", b"flat"), entry("x/"), file("l/2")))
    eq(p.tree(), {"x": "d", "l": "l", "x/2": "-"}, "tree")
    p.good(tar(link("a", f"{p.canary}/file"), hard("b", "a"), file("b", b"x"), file("a", b"y", mode=0o777)))
    p.good(tar(entry("d/"), file("d/x"), link("e", "d"), file("e", b"1"), file("d/y")))
    # These links lead nowhere.
    for loop in ((link("l", "l"),), (link("l", "m"), link("m", "l")), (link("l", "l/l"),), (link("l", "d/../l"), entry("d/"))):
        p.bad(tar(*loop, file("l/x")), code=errno.ELOOP, says="open the directory 'l'")
    chain = [link(f"c{i}", f"c{i + 1}") for i in range(60)]
    p.good(tar(*chain, file("c30/x")))
    eq(p.tree()["c60/x"], "-", "the end of a chain of 30")
    p.bad(tar(*chain, file("c0/x")), code=errno.ELOOP)
    p.bad(tar(link("l", "x/../" * 800), link("m", "l/l/l"), file("m/x")), code=errno.ELOOP)
    p.bad(tar(link("l", "/".join(["y" * 200] * 20)), file("/".join(["l", "z" * 250]) + "/x")), code=errno.ENAMETOOLONG)
    p.bad(tar(file("f"), link("l", "f"), file("l/x")), says="'f' is a file, not a directory")
    p.bad(tar(link("l", p.canary), hard("h", "l/file")), says="is not an earlier file of the archive")


@both
def hard_links_stay_inside(p):
    for to in (f"{p.canary}/file", "/etc/passwd", "missing", "", ".", "/", "d", "dev"):
        p.bad(tar(entry("d/"), hard("h", to)), says="hard link|no name|unknown type")
    p.bad(tar(file(".wh.w", b""), hard("h", "w")), "-o", says="hard link")
    p.bad(tar(file("a"), hard("a/b", "a")), says="file, not a directory")
    p.bad(tar(entry("d/"), file("d/x"), hard("d", "d/x")), code=errno.ENOENT, says="link 'd' to 'd/x'")


@both
def the_root_is_a_directory(p):
    for member in (file("."), file("/"), link("/", "x"), link("./", "/"), entry(".", kind=tarfile.FIFOTYPE), file("")):
        p.bad(tar(member), says="is the root|no name|Damaged")
    p.good(tar(entry("./", mode=0o711, uid=3), file("f")))
    eq(stat.S_IMODE(p.stat(".").st_mode), 0o711, "mode of the root")


@both
def names_that_are_too_long_or_too_deep_are_refused(p):
    p.bad(tar(file("x" * 256)), says="longer than 255")
    p.bad(tar(file("/".join(["y" * 250] * 17))), says="too long")
    p.bad(tar(file("/".join(["d"] * 1025))), says="too deep")
    p.bad(tar(link("l", "t" * 4096)), says="more than 4,095")
    p.good(tar(file("/".join(["d"] * 1024)), link("l", "t" * 4095)))
    p.bad(tar(link("l", "")), says="no bytes|truncated|[Dd]amaged")


@both
def damaged_archives_are_refused(p):
    with open(f"{p.top}/hole", "wb") as f:
        f.seek(1 << 20)
        f.write(b"end")
    good = tar(file("a", b"x" * 3000), file("b", b"y" * 3000))
    packed = gzip.compress(good)
    p.good(good)
    for cut in (1, 100, 511, 513, 700, 2000, 3500, 4095, 4097, 4100, 5000, 7095):
        for more in ((), ("-f",)):
            p.bad(good[:cut], *more, says="(?i)truncated|unrecognized|damaged")
    # Data after the last byte of the last file may be missing, partly or completely, compressed or not.
    for cut in (7096, 7097, 7100, 7167, 7168, 7169, 7680, 8191, 8192):
        for data in (good[:cut], gzip.compress(good[:cut])):
            eq((p.good(data)["diff_id"], p.read("b")), ("sha256:" + hashlib.sha256(good[:cut]).hexdigest(), b"y" * 3000), f"cut at {cut}")
    p.good(good[:7096], "-s")
    p.bad(good[:7095], "-s", says="(?i)truncated")
    sparse = subprocess.run(["tar", "--format=pax", "-S", "-cf", "-", "-C", p.top, "hole"], stdout=subprocess.PIPE, check=True).stdout
    body = sparse.rindex(b"end") + 3
    p.good(sparse[:body])
    eq((p.stat("hole").st_size, p.read("hole")[-3:]), ((1 << 20) + 3, b"end"), "a sparse file without its padding")
    p.bad(sparse[:body - 1], says="(?i)truncated")
    for cut in (1, 5, 9, 12, len(packed) // 2, len(packed) - 9, len(packed) - 1):
        p.bad(packed[:cut], says="(?i)truncated|unrecognized")
    for at in (len(packed) // 2, len(packed) - 6, len(packed) - 2):
        p.bad(packed[:at] + bytes([packed[at] ^ 0x55]) + packed[at + 1:], says="decompress: the gzip data is")
    p.bad(packed + b"junk", says="followed by other data")
    for what in (lzma.compress(good), bz2.compress(good)):
        p.bad(what[:-20], says="decompress: ")
        p.bad(what[:len(what) // 2] + b"\x13" + what[len(what) // 2 + 1:], says="decompress: ")
    p.bad(b"", says="(?i)unrecognized")
    p.bad(os.urandom(5000).replace(b"\x1f", b"x"), says="(?i)unrecognized|damaged")
    p.bad(b"\x1f\x8b\x08" + bytes(100), says="gzip")
    p.bad(b"\x28\xb5\x2f\xfd" + bytes(100), says="zstd")
    p.bad(gzip.compress(gzip.compress(good)), says="(?i)unrecognized")
    p.bad(b"7z\xbc\xaf\x27\x1c" + bytes(1000), says="(?i)unrecognized")
    p.bad(b"PK\x03\x04" + bytes(1000), says="(?i)unrecognized|damaged")
    # This header has a wrong checksum.
    p.bad(good[:3584] + b"c" + good[3585:], says="(?i)damaged")
    eq(p.good(END)["entries"], 0, "entries of an empty layer")


@both
def the_pax_size_of_an_entry_is_used_and_invalid_sizes_are_refused(p):
    # The pax header's size takes precedence; a reader that uses the other one would see the second file.
    inner = tar(file("smuggled"))
    records = pax_record(b"size", str(len(inner)).encode())
    data = header(b"x", b"%011o\0" % len(records), b"x") + pad(records) + header(b"outer", b"%011o\0" % 0) + pad(inner) + END
    p.good(data)
    eq(p.tree(), {"outer": "-"}, "tree")
    # Sizes that are no numbers, negative, or larger than the rest of the archive.
    for size in (b"77777777777\0", b"\x80" + b"\xff" * 11, b"\xff" * 12, b"\x80" + bytes(3) + b"\x7f" + b"\xff" * 7):
        status, said = p.unpack(header(b"f", size) + b"data" + END)
        ok(status in (EBADMSG, EFBIG), f"{size!r}: {status} {said}")
    # Bodies of links and directories are skipped.
    status, _ = p.unpack(header(b"l", b"%011o\0" % 512, b"2", b"to") + pad(b"x" * 512) + header(b"f") + END)
    ok(status in (0, EBADMSG), f"status {status}")
    for records in (b"99999 path=x\n", b"5 path=x\n", b"-1 path=x\n", b"a path=x\n", b"\n" * 512, b"30 path=" + b"x" * 20):
        status, said = p.unpack(header(b"x", b"%011o\0" % len(records), b"x") + pad(records) + header(b"f") + END)
        ok(status in (0, EBADMSG), f"{records!r}: {status} {said}")
    for path in (b"../canary/file", b"/../../canary/file", b"a/../../b"):
        records = pax_record(b"path", path)
        p.bad(header(b"x", b"%011o\0" % len(records), b"x") + pad(records) + header(b"f") + END, says=r"'\.\.'")
        long_name = header(b"././@LongLink", b"%011o\0" % (len(path) + 1), b"L") + pad(path + b"\0")
        p.bad(long_name + header(b"f") + END, says=r"'\.\.'")


@both
def decompression_bombs_are_refused(p):
    p.bad(gzip.compress(tar(file("zeros", bytes(64 << 20)))), "-m", str(8 << 20), code=EFBIG, says="larger than 8388608 bytes")
    p.bad(bz2.compress(bytes(64 << 20)), "-m", str(8 << 20), code=EFBIG, says="larger than")
    p.bad(tar(file("zeros", bytes(1 << 20))), "-m", "1000000", code=EFBIG, says="larger than")
    p.bad(tar(file("zeros", bytes(1 << 20))), "-f", "-m", "1000000", code=EFBIG, says="larger than")
    exact = tar(file("f", bytes(100000)))
    p.good(exact, "-m", str(len(exact)))
    p.bad(exact, "-m", str(len(exact) - 1), code=EFBIG)
    # A hole of 2 TiB takes no space here, but could take much elsewhere.
    size = str(2 << 40).encode()
    records = (pax_record(b"GNU.sparse.major", b"1") + pax_record(b"GNU.sparse.minor", b"0") +
               pax_record(b"GNU.sparse.name", b"hole") + pax_record(b"GNU.sparse.realsize", size))
    body = pad(b"1\n" + size + b"\n0\n")
    data = header(b"x", b"%011o\0" % len(records), b"x") + pad(records) + header(b"hole", b"%011o\0" % len(body)) + body + END
    p.bad(data, code=EFBIG, says="File too large")
    p.bad(header(b"x", b"%011o\0" % (4 << 20), b"x") + bytes(4 << 20) + END, says="(?i)too large|malformed|damaged|invalid")


@both
def control_characters_do_not_reach_a_terminal(p):
    p.bad(tar(file("../\x1b]0;title\x07\x1b[31m\u202e\xff")), says=r"\?\]0;title")


@test
def a_full_filesystem_is_reported():
    if not ROOT:
        raise Skip("needs root")
    p = Place(False)
    try:
        script = f"mount -t tmpfs -o size=2m,nr_inodes=50 none {p.dir} && exec {p.program} {p.dir}"
        for data, what in ((tar(file("f", bytes(4 << 20))), "space"), (tar(*[file(f"f{i}") for i in range(99)]), "inodes")):
            with tempfile.TemporaryFile() as f:
                f.write(data)
                f.flush()
                r = subprocess.run(["unshare", "-m", "sh", "-c", script], stdin=f, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            eq(r.returncode, errno.ENOSPC, f"status, {what} ({r.stderr!r})")
            ok(r.stderr.endswith(b": No space left on device\n"), f"said {r.stderr!r}")
    finally:
        p.close()


# ------------------------------------------------------------ outer archives


@both
def spooled_archives_are_unpacked(p):
    members = [entry("blobs/"), entry("blobs/sha256/", mode=0o555), file("blobs/sha256/ab", b"layer", mode=0o4000), file("manifest.json", b"[]"),
               link("old/layer.tar", "../zz/layer.tar"), file("zz/layer.tar", b"tar"), link("a", "b"), link("b", "c"), file("c", b"c"),
               hard("hard", "manifest.json"), entry("./")]
    for data in (tar(*members), gzip.compress(tar(*members))):
        p.good(data, "-s")
        eq((p.read("old/layer.tar"), p.read("a"), p.read("hard")), (b"tar", b"c", b"[]"), "contents")
        eq(set(p.tree().values()), {"d", "-"}, "kinds")
        eq({stat.S_IMODE(p.stat(n).st_mode) for n, k in p.tree().items() if k == "-"}, {0o644}, "modes")
        eq({stat.S_IMODE(p.stat(n).st_mode) for n, k in p.tree().items() if k == "d"}, {0o755}, "modes")
    for member in (file("/abs"), file("../x"), file("a/../b"), file("1/2/3/4/5/6/7/8/9"), link("l", p.canary + "/file"), link("l", "../canary/file"),
                   link("l", "nothing"), link("l", "l"), link("d/l", "../../canary/file"), hard("h", "../canary/file"), hard("h", p.canary + "/file"),
                   entry("n", kind=tarfile.CHRTYPE, devmajor=1), entry("p", kind=tarfile.FIFOTYPE), link("l", "."), link("l", "dir")):
        p.bad(tar(entry("dir/"), member), "-s")
    p.bad(tar(link("x", "y"), link("y", "x")), "-s", says="link to something that is not in the archive")
    p.bad(tar(file("f", bytes(1 << 20))), "-s", "-m", "100000", code=EFBIG, says="larger than")
    p.good(tar(link("l", "c"), file("c"), link("l", "c")), "-s")
    p.bad(tar(link("l", "d/c"), entry("d/"), link("d/c", "../../../canary/file")), "-s")


# ----------------------------------------------------------------- processes


def feed_slowly(place, *args):
    """Starts unpacking and keeps it waiting for more input, so that the processes can be inspected. Returns the
    process and its children."""
    data = gzip.compress(tar(file("f", os.urandom(3 << 20))))
    r, w = os.pipe()
    p = subprocess.Popen(place.command(*args), stdin=r, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[])
    os.close(r)
    feeder = threading.Thread(target=lambda: os.write(w, data[:2 << 20]))
    feeder.start()
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        found = {}
        for pid in children(p.pid):
            with contextlib.suppress(OSError):
                if status_of(pid)["Seccomp"].strip() == "2":
                    found["untar" if int(status_of(pid)["CapEff"], 16) else "inflate"] = pid
        if len(found) == 2 and os.path.exists(place.path("f")) and place.stat("f").st_size > 1 << 20:
            feeder.join()
            return p, found, data[2 << 20:], w
        time.sleep(0.01)
    p.kill()
    raise AssertionError(f"no children show up: {p.communicate()}")


def check_posture(place, pid, what):
    s = status_of(pid)
    kept = {"inflate": 0, "untar": 0x8000001b if keeps_ids(place) else 0xa}[what]
    eq({k: int(s[k], 16) for k in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb")},
       {"CapEff": kept, "CapPrm": kept, "CapBnd": kept, "CapInh": 0, "CapAmb": 0}, f"capabilities of {what}")
    eq((s["NoNewPrivs"].strip(), s["Seccomp"].strip(), s["NSpid"].split()[-1], s["Threads"].strip()), ("1", "2", "1", "1"), what)
    eq({int(n) for n in (s["Uid"] + " " + s["Gid"]).split()}, {BASE} if keeps_ids(place) else {UID if ROOT else os.geteuid()}, f"ids of {what}")
    for ns in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
        ok(os.readlink(f"/proc/{pid}/ns/{ns}") != os.readlink(f"/proc/self/ns/{ns}"), f"{what} is in our {ns} namespace")
    fds = {int(n): os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")}
    kinds = {n: re.sub(r":.*", "", t) for n, t in fds.items()}
    want = {0: "pipe", 1: "pipe" if what == "inflate" else "/dev/null", 2: "/dev/null", 3: "socket"}
    eq({n: kinds.get(n) for n in want}, want, f"descriptors of {what}")
    rest = {t for n, t in fds.items() if n > 3}
    ok(rest <= {"/", "/f"} if what == "untar" else not rest, f"{what} has more descriptors: {rest}")
    mounts = mountinfo(slurp(f"/proc/{pid}/mountinfo"))
    eq([(m["target"], {"nosuid", "nodev", "noexec", "nosymfollow"} <= m["flags"]) for m in mounts], [("/", True)], f"mounts of {what}")
    if what == "inflate":
        eq((mounts[0]["type"], "ro" in mounts[0]["flags"]), ("tmpfs", True), "its root")
        eq(os.listdir(f"/proc/{pid}/root/"), [], "what it sees")
    limits = {line[:26].strip(): line[26:].split()[1] for line in slurp(f"/proc/{pid}/limits").splitlines()[1:]}
    eq((limits["Max processes"], limits["Max open files"], limits["Max core file size"]), ("1", "32", "0"), f"limits of {what}")


@both
def the_unpacking_process_is_confined(place):
    if not ROOT:
        raise Skip("only root can look into them")
    for args in ((), ("-s",)):
        place.fresh()
        p, pids, rest, w = feed_slowly(place, *args)
        try:
            if not args:
                for what, pid in pids.items():
                    check_posture(place, pid, what)
            # Positive control: it then ends successfully.
            os.write(w, rest)
            os.close(w)
            out, err = p.communicate(timeout=WAIT)
            eq(p.returncode, 0, f"status ({out} {err})")
            eq(place.stat("f").st_size, 3 << 20, "size")
        finally:
            p.kill()
            p.communicate()


@both
def a_killed_unpacking_process_is_reported(place):
    for victim in ("inflate", "untar"):
        place.fresh()
        p, pids, _, w = feed_slowly(place)
        os.kill(pids[victim], signal.SIGKILL)
        if victim == "inflate":
            os.close(w)
        _, err = p.communicate(timeout=WAIT)
        if victim == "untar":
            os.close(w)
        eq((p.returncode, b"killed by signal 9" in err), (errno.EPIPE, True), f"what it says of {victim}: {err!r}")
    place.fresh()
    p, pids, _, w = feed_slowly(place)
    p.kill()
    p.communicate()
    deadline = time.monotonic() + WAIT
    while any(lives(pid) for pid in pids.values()) and time.monotonic() < deadline:
        time.sleep(0.01)
    ok(not any(lives(pid) for pid in pids.values()), "children outlive their parent")
    os.close(w)


# ---------------------------------------------------------------- real trees


def describe(top):
    """All attributes of a tree that tar keeps."""
    found = {}
    for base, dirs, files in os.walk(top):
        for n in [*dirs, *files, "."] if base == top else [*dirs, *files]:
            path = os.path.join(base, n)
            st = os.lstat(path)
            what = [stat.filemode(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns if os.path.relpath(path, top) != "." else 0]
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    what += [st.st_size, st.st_nlink, hashlib.sha256(f.read()).digest()]
            if stat.S_ISLNK(st.st_mode):
                what.append(os.readlink(path))
            found[os.path.relpath(path, top)] = what
    return found


@test
def a_real_tree_is_unpacked_as_by_gnu_tar():
    if not ROOT:
        raise Skip("needs root, to keep owners")
    p = Place(False)
    try:
        os.mkdir(f"{p.top}/tar")
        archive = f"{p.top}/a.tar"
        names = [n for n in ("usr/share/doc", "usr/share/man", "etc/alternatives", "usr/lib/git-core") if os.path.isdir(f"/{n}")]
        small = sorted(os.listdir("/usr/bin"))[:300]
        with contextlib.suppress(subprocess.CalledProcessError):
            subprocess.run(["tar", "-C", "/", "--format=pax", "--numeric-owner", "--warning=no-file-changed", "-cf", archive, *names,
                            *[f"usr/bin/{n}" for n in small]], check=True, timeout=120)
        subprocess.run(["tar", "-C", f"{p.top}/tar", "--numeric-owner", "--same-owner", "-pxf", archive], check=True, timeout=120)
        with open(archive, "rb") as f:
            p.good(f.read())
        ours, theirs = describe(p.dir), describe(f"{p.top}/tar")
        # Directories without an entry have the time of their creation.
        for implicit in ("usr", "usr/share", "usr/lib", "usr/bin", "etc", "."):
            ours.pop(implicit, None), theirs.pop(implicit, None)
        different = [n for n in ours.keys() | theirs.keys() if ours.get(n) != theirs.get(n)]
        ok(len(ours) > 500 and not different, f"{len(ours)} entries, different: {[(n, ours.get(n), theirs.get(n)) for n in different[:3]]}")
    finally:
        p.close()


def check_program():
    if not os.access(ONE, os.X_OK):
        print(f"Bail out! there is no {ONE}")
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main(check_program))
