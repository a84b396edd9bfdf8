#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-hostile.py - hostile root filesystems and volumes, and hostile commands

Prints TAP. Each tree is used with `--image dir:`. A run must end in time, and either work or print one line with the
reason (status 125, or the command's own 126 and 127). It must not change the machine: a canary tree, the target of
every crafted link, has the same fingerprint before and after.
"""
import os
import signal
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib/posture"))
from harness import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position

LIMIT = 15  # maximum number of seconds for a run


def make_root(path, extra=()):
    """A root filesystem with one static program."""
    os.makedirs(f"{path}/bin")
    shutil.copy(need("busybox"), f"{path}/bin/busybox")
    for name in ("sh", "ls", "cat", "id", "sleep", "true", "touch", "stat", "mkdir", "echo", "pwd", "readlink", *extra):
        os.symlink("busybox", f"{path}/bin/{name}")
    return path


class Place:
    """A scratch directory with a canary; call .check() after each run."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="warren-test-")
        os.chmod(self.dir, 0o755)
        self.canary = f"{self.dir}/canary"
        os.makedirs(f"{self.canary}/etc")
        for name in ("etc/passwd", "etc/hosts", "file"):
            with open(f"{self.canary}/{name}", "w", encoding="ascii") as f:
                f.write("canary:x:4242:4242::/canary:/bin/sh\n")
        self.before = fingerprint(self.canary)
        self.n = 0

    def root(self, *extra):
        self.n += 1
        return make_root(f"{self.dir}/r{self.n}", extra)

    def check(self):
        eq(fingerprint(self.canary), self.before, "the canary's fingerprint")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir)


def attempt(place, root, *args, command=("/bin/sh", "-c", "echo inside; cat /proc/1/comm"), may_fail=True, what=""):
    """Runs it; returns True if it worked. A refusal must be one line and a status of Warren."""
    try:
        p = warren("run", "--image", f"dir:{root}", *args, "--", *command, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{what}: it hangs") from None
    place.check()
    if p.returncode == 0:
        return p.stdout.decode(errors="replace")
    ok(may_fail, f"{what}: status {p.returncode}, {p.stderr!r}")
    ok(p.returncode in (125, 126, 127), f"{what}: status {p.returncode}, {p.stderr!r}")
    ok(p.stderr.startswith(b"warren run: ") and p.stderr.count(b"\n") == 1, f"{what}: said {p.stderr!r}")
    return None


def put(path, kind, canary):
    """Replaces the file at @path by something unexpected."""
    if os.path.lexists(path):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if kind.startswith("->"):
        os.symlink(kind[2:].replace("CANARY", canary).replace("SELF", os.path.basename(path)), path)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as s:
            here = os.open(os.path.dirname(path), os.O_RDONLY)
            s.bind(f"/proc/self/fd/{here}/{os.path.basename(path)}")
            os.close(here)
    elif kind == "device":
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    elif kind == "directory":
        os.mkdir(path)
    elif kind == "file":
        with open(path, "w", encoding="ascii") as f:
            f.write("hostile\n")
    elif kind == "huge":
        with open(path, "wb") as f:
            f.truncate(1 << 40)
    elif kind == "unreadable":
        with open(path, "w", encoding="ascii") as f:
            f.write("hostile\n")
        os.chmod(path, 0)
    elif kind == "whiteout":
        os.mknod(path, stat.S_IFCHR, 0)


KINDS = ("->/", "->CANARY", "->CANARY/etc", "->CANARY/file", "->CANARY/new", "->../../../../../../../../CANARY",
         "->/proc/self/fd/3", "->/proc/self/root", "->/proc/1/root", "->/proc/self/cwd", "->SELF", "->/nowhere/at/all",
         "->/dev/pts/0", "->.", "fifo", "socket", "device", "file", "huge", "unreadable", "whiteout", "directory")
PLACES = ("dev", "proc", "sys", "etc", "tmp", "run", "etc/passwd", "etc/group", "etc/hosts", "etc/resolv.conf", "dev/pts",
          "dev/null", "proc/self", "proc/sys")


@test
def any_file_at_a_mount_point_is_handled():
    with Place() as place:
        root = place.root()
        for name in PLACES:
            for kind in KINDS:
                put(f"{root}/{name}", kind, place.canary)
                out = attempt(place, root, may_fail=False, what=f"/{name} is {kind}")
                ok("init" in out and "inside" in out, f"/{name} is {kind}: {out!r}")
            shutil.rmtree(f"{root}/{name.split('/')[0]}", ignore_errors=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{root}/{name.split('/')[0]}")


@test
def links_in_an_image_do_not_replace_standard_mounts():
    with Place() as place:
        root = place.root()
        for name in ("dev", "proc", "tmp", "etc"):
            put(f"{root}/{name}", "->CANARY", place.canary)
        out = attempt(place, root, command=("/bin/sh", "-c", "ls /dev; cat /proc/self/comm; echo x > /tmp/file; echo y > /etc/new; "
                                            "echo z > /dev/null; readlink /tmp /dev /proc /etc; echo end"), may_fail=False)
        for want in ("null", "pts", "cat", "end"):
            ok(want in out.split(), out)


@test
def users_are_looked_up_inside():
    """Warren reads /etc/passwd before the sandbox exists: the file must not lead outside, block, or be opened if it
    is no regular file."""
    with Place() as place:
        root = place.root()
        put(f"{root}/etc/passwd", "file", place.canary)
        with open(f"{root}/etc/passwd", "w", encoding="ascii") as f:
            f.write("worker:x:77:78::/home:/bin/sh\nbad:x:99999999999:1::/:/\nnul\0l:x:1:1::/:/\n")
        eq(attempt(place, root, "-u", "worker", command=("/bin/id", "-u"), may_fail=False), "77\n")
        eq(attempt(place, root, "-u", "bad", command=("/bin/id", "-u")), None, "a user without an id")
        for kind in KINDS:
            put(f"{root}/etc/passwd", kind, place.canary)
            eq(attempt(place, root, "-u", "canary", command=("/bin/id", "-u"), what=kind), None,
               f"the canary's user, when /etc/passwd is {kind}")
            eq(attempt(place, root, "-u", "123:45", command=("/bin/stat", "-c", "%u", "/proc/self/"), what=kind), "123\n", kind)
        for kind in ("->CANARY/etc", "->/proc/self/root/etc", "fifo", "file", "->SELF"):
            shutil.rmtree(f"{root}/etc", ignore_errors=True)
            put(f"{root}/etc", kind, place.canary)
            eq(attempt(place, root, "-u", "canary", command=("/bin/id", "-u"), what=kind), None, f"/etc is {kind}")
            os.unlink(f"{root}/etc")


@test
def a_device_in_an_image_is_never_opened():
    """Opening a device has effects: it starts a watchdog, or rewinds a tape."""
    with Place() as place:
        root = place.root()
        put(f"{root}/etc/passwd", "device", place.canary)
        watch = libc.inotify_init1(os.O_NONBLOCK)
        ok(watch >= 0, "no inotify")
        try:
            ok(libc.inotify_add_watch(watch, os.fsencode(f"{root}/etc/passwd"), 0x20) >= 0, "watch")  # IN_OPEN
            with open(f"{root}/etc/passwd", "rb"):
                pass
            ok(os.read(watch, 4096), "the control: an open is seen")
            attempt(place, root, "-u", "somebody")
            try:
                seen = os.read(watch, 4096)
            except BlockingIOError:
                seen = b""
            ok(not seen, "the device node at /etc/passwd was opened")
        finally:
            os.close(watch)


@test
def mount_targets_stay_inside():
    with Place() as place:
        os.mkdir(f"{place.dir}/vol")
        with open(f"{place.dir}/vol/marker", "w", encoding="ascii") as f:
            f.write("marker\n")
        for kind in KINDS:
            root = place.root()
            put(f"{root}/data", kind, place.canary)
            for args in (("-v", f"{place.dir}/vol:/data"), ("-v", f"{place.dir}/vol:/data/deep/er"),
                         ("-v", f"{place.dir}/vol/marker:/data"), ("--tmpfs", "/data"), ("--tmpfs", "/data/x")):
                attempt(place, root, *args, what=f"/data is {kind}, {args}")
            shutil.rmtree(root)
        root = place.root()
        eq(attempt(place, root, "-v", f"{place.dir}/vol:/data/deep/er", command=("/bin/cat", "/data/deep/er/marker"),
                   may_fail=False), "marker\n", "the control")
        eq(os.listdir(f"{root}"), ["bin"], "the image is untouched")


@test
def unusual_mount_targets_stay_inside():
    with Place() as place:
        os.mkdir(f"{place.dir}/vol")
        root = place.root()
        for target in ("/", "/.", "/..", "/../../..", "//", "/a/../../../b", "/proc", "/proc/self", "/proc/1/root", "/proc/self/fd",
                       "/proc/self/fd/3", "/dev", "/dev/null", "/dev/pts", "/sys", "/bin", "/bin/sh", "/a,b", "/a b", "/a\nb",
                       "/a\\b", "/a\tb", "/é\x01", "/" + "x" * 255, "/" + "x" * 256, "/" + "/".join(["y" * 200] * 19),
                       "/" + "z/" * 1000):
            for args in (("-v", f"{place.dir}/vol:{target}"), ("--tmpfs", target)):
                attempt(place, root, *args, command=("/bin/true",), what=f"{args}")
        out = attempt(place, root, "--tmpfs", "/a b", "--tmpfs", "/c,d", command=("/bin/ls", "/"), may_fail=False)
        ok("a b" in out and "c,d" in out, out)


@test
def a_working_directory_stays_inside():
    with Place() as place:
        for kind in KINDS:
            root = place.root()
            put(f"{root}/work", kind, place.canary)
            for w in ("/work", "/work/a/b", "/work/..", "/work/../../../.."):
                out = attempt(place, root, "-w", w, command=("/bin/sh", "-c", "ls; pwd; echo x > new; echo end"), what=f"{kind} {w}")
                ok(out is None or "etc/passwd" not in out, f"{kind} {w}: {out}")
            shutil.rmtree(root)
        root = place.root()
        eq(attempt(place, root, "-w", "/work/a/b", command=("/bin/pwd",), may_fail=False), "/work/a/b\n")


@test
def a_root_directory_may_have_an_unusual_name():
    with Place() as place:
        names = ["with space", "comma,lowerdir=CANARY", "colon:two", "back\\slash", "new\nline", "tab\there", "upperdir=x,workdir=y",
                 "quote'\"", "é", "x" * 255, "\\134,", "a\\:b\\,c", "-v", "dir:", "percent%s%n"]
        for name in names:
            root = make_root(f"{place.dir}/{name}")
            out = attempt(place, root, may_fail=False, what=repr(name))
            ok("inside" in out, repr(name))
            os.symlink(name, f"{place.dir}/link")
            ok("inside" in attempt(place, f"{place.dir}/link", may_fail=False, what=f"a link to {name!r}"), name)
            os.unlink(f"{place.dir}/link")
            os.mkdir(f"{place.dir}/v{name[:100]}")
            if ":" not in name:
                out = attempt(place, root, "-v", f"{place.dir}/v{name[:100]}:/v", command=("/bin/touch", "/v/x"), may_fail=False)
                eq(os.listdir(f"{place.dir}/v{name[:100]}"), ["x"], "what the volume holds")


@test
def overlay_attributes_in_an_image_are_ignored():
    with Place() as place:
        for prefix in ("user.overlay.", "trusted.overlay."):
            root = place.root()
            os.makedirs(f"{root}/d/e")
            put(f"{root}/d/secret", "file", place.canary)
            put(f"{root}/f", "file", place.canary)
            marks = (("d", "opaque", b"y"), ("d", "redirect", b"/../../../.." + os.fsencode(place.canary)),
                     ("d/e", "redirect", os.fsencode(place.canary)), ("d", "origin", b"\0" * 32), ("d", "impure", b"y"),
                     ("f", "metacopy", b""), ("f", "redirect", os.fsencode(f"{place.canary}/file")), ("f", "origin", b"\xfb" * 24),
                     ("d", "whiteouts", b"x"), ("d/secret", "whiteout", b"y"), (".", "opaque", b"x"), ("etc", "opaque", b"y"),
                     ("tmp", "opaque", b"y"), ("f", "protattr", b"x"), ("f", "nlink", b"U-1"), ("f", "upper", b"x"))
            for n in ("etc", "tmp"):
                os.mkdir(f"{root}/{n}")
            for name, mark, value in marks:
                with contextlib.suppress(OSError):
                    os.setxattr(f"{root}/{name}", prefix + mark, value)
            put(f"{root}/gone", "whiteout", place.canary)
            put(f"{root}/bin/ls2", "whiteout", place.canary)
            out = attempt(place, root, command=("/bin/sh", "-c", "cat /f; ls /d /d/e; cat /etc/hosts; echo x > /f; echo x > /d/new; "
                                                "ls /gone; mkdir /gone; echo end"), what=prefix, may_fail=False)
            ok("canary" not in out and "end" in out, out)
            eq(sorted(os.listdir(f"{root}/d")), ["e", "secret"], "the image's own directory")


@test
def overlay_attributes_set_inside_have_no_effect():
    with Place() as place:
        script = ("import os\n"
                  "os.mkdir('/x'); open('/x/f', 'w').write('f')\n"
                  f"for n, v in (('redirect', {place.canary.encode()!r}), ('opaque', b'y'), ('metacopy', b''), ('origin', b'x' * 24)):\n"
                  "    for p in ('user.overlay.', 'trusted.overlay.'):\n"
                  "        for f in ('/x', '/x/f', '/', '/usr', '/usr/lib'):\n"
                  "            try: os.setxattr(f, p + n, v)\n"
                  "            except OSError: pass\n"
                  "os.system('echo 2 > /proc/sys/vm/drop_caches 2>/dev/null')\n"
                  "print(os.listdir('/x'), open('/x/f').read(), len(os.listdir('/usr')) > 3)")
        eq(run("--", need("python3"), "-c", script), "['f'] f True\n")
        place.check()


@test
def nearly_empty_roots_can_be_used():
    with Place() as place:
        os.mkdir(f"{place.dir}/empty")
        eq(attempt(place, f"{place.dir}/empty", command=("/bin/sh",)), None, "an empty root")
        p = warren("run", "--image", f"dir:{place.dir}/empty", "--", "/bin/sh", timeout=LIMIT)
        eq(p.returncode, 127, f"status of a command that is not there ({p.stderr})")
        root = place.root()
        for base, dirs, files in os.walk(root):
            for n in (*dirs, *files, "."):
                os.lchown(f"{base}/{n}", 4242, 4242)
        out = attempt(place, root, command=("/bin/stat", "-c", "%u", "/bin"), may_fail=False)
        eq(out, "4242\n", "owner inside")
        for base, dirs, files in os.walk(root):
            for n in (*dirs, *files, "."):
                os.lchown(f"{base}/{n}", 3000000000, 3000000000)
        out = attempt(place, root, command=("/bin/stat", "-c", "%u", "/bin"), may_fail=False)
        eq(out, "65534\n", "an owner beyond the range")
        root = place.root()
        os.chmod(root, 0o700)
        os.chmod(f"{root}/bin", 0o500)
        ok(attempt(place, root, may_fail=False), "a private root")
        os.chmod(f"{root}/bin/busybox", 0o4755)
        eq(attempt(place, root, "-u", "1000:1000", command=("/bin/id", "-u"), what="0700 root"), None, "a root that the user cannot enter")
        os.chmod(root, 0o755)
        os.chmod(f"{root}/bin", 0o755)
        eq(attempt(place, root, "-u", "1000:1000", command=("/bin/id", "-u"), may_fail=False), "1000\n", "set-user-ID busybox")
        for kind in ("directory", "fifo", "device", "socket", "huge", "unreadable", "whiteout", "->SELF", "file"):
            put(f"{root}/bin/cmd", kind, place.canary)
            os.chmod(f"{root}/bin/cmd", 0o755) if kind in ("file", "fifo", "device", "socket") else None
            eq(attempt(place, root, command=("/bin/cmd",), what=kind), None, f"a command that is {kind}")


@test
def a_root_may_change_during_use():
    """The owner of the root exchanges files in a loop, while sandboxes are created from it."""
    with Place() as place:
        root = place.root()
        os.mkdir(f"{place.dir}/vol")
        os.mkdir(f"{place.dir}/vol/sub")
        for name in ("etc", "data", "dev", "work"):
            os.makedirs(f"{root}/{name}")
            os.chmod(f"{root}/{name}", 0o777)
        with open(f"{root}/etc/passwd", "w", encoding="ascii") as f:
            f.write("worker:x:77:78::/home:/bin/sh\n")
        stop = threading.Event()

        def swap():
            while not stop.is_set():
                for top, name in ((root, "etc"), (root, "data"), (root, "dev"), (root, "work")):
                    with contextlib.suppress(OSError):
                        os.rename(f"{top}/{name}", f"{top}/{name}.away")
                        os.symlink(place.canary, f"{top}/{name}")
                        os.unlink(f"{top}/{name}")
                        os.rename(f"{top}/{name}.away", f"{top}/{name}")
                time.sleep(0.001)

        t = threading.Thread(target=swap)
        t.start()
        worked = 0
        try:
            for _ in range(60):
                p = warren("run", "--image", f"dir:{root}", "-u", "worker", "-w", "/work/x", "-v", f"{place.dir}/vol/sub:/data/y",
                           "--tmpfs", "/data/z", "--", "/bin/sh", "-c", "id -u; touch /data/y/new; ls /data/y", timeout=LIMIT)
                worked += p.returncode == 0
                ok(p.returncode in (0, 1, 125, 126, 127), f"status {p.returncode}: {p.stderr!r}")
        finally:
            stop.set()
            t.join()
        ok(worked > 0, "not one of sixty worked")
        place.check()


@test
def a_volumes_source_is_opened_only_once():
    """The owner may replace the directory between the check of its owner and the mount."""
    with Place() as place:
        os.mkdir(f"{place.dir}/mine")
        os.chown(f"{place.dir}/mine", 1000, 1000)
        os.mkdir(f"{place.dir}/theirs")
        os.chown(f"{place.dir}/theirs", 1001, 1001)
        os.chmod(f"{place.dir}/theirs", 0o700)
        stop = threading.Event()
        at_fd = -100

        def swap():
            a, b = os.fsencode(f"{place.dir}/mine"), os.fsencode(f"{place.dir}/theirs")
            while not stop.is_set():
                libc.renameat2(at_fd, a, at_fd, b, 2)  # RENAME_EXCHANGE

        t = threading.Thread(target=swap)
        t.start()
        try:
            for _ in range(150):
                p = warren("run", "-v", f"{place.dir}/mine:/v", "--", "sh", "-c", "stat -c %u /v", timeout=LIMIT)
                ok(p.returncode != 0 or p.stdout == b"0\n", f"mounted with another's ids: the owner inside is {p.stdout!r}")
        finally:
            stop.set()
            t.join()


# ------------------------------------------------------------ hostile commands


def ends(*args, status, within=LIMIT, **kw):
    begin = time.monotonic()
    try:
        p = warren("run", *args, timeout=within, **kw)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{args}: it hangs") from None
    ok(p.returncode in (status if isinstance(status, tuple) else (status,)),
       f"{args}: status {p.returncode}, {p.stderr[-300:]!r}, {time.monotonic() - begin:.1f} s")
    return p


@test
def a_run_ends_with_its_command_and_kills_other_processes():
    p = ends("--", "sh", "-c", "sleep 60 & (setsid sleep 61 &); nohup sleep 62 > /dev/null & echo started", status=0)
    eq(p.stdout, b"started\n")
    ends("--", "sh", "-c", "exec >&- 2>&- <&-; exit 3", status=3)
    ends("--", "sh", "-c", "sleep 60 >&- 2>&- & exit 4", status=4)


@test
def a_stopped_command_is_ended_by_its_timeout():
    ends("--timeout", "1s", "--", "sh", "-c", "kill -STOP $$", status=124)
    ends("--timeout", "1s", "--", "sh", "-c", "sh -c 'kill -STOP -1'; kill -STOP -1; sleep 60", status=124)
    ends("--timeout", "1s", "--", "sh", "-c", "trap '' TERM INT HUP QUIT; while :; do sleep 1; done", status=124)
    ends("--timeout", "1s", "--", "sh", "-c", "kill -STOP 1; kill -KILL 1; sleep 60", status=124)


@test
def a_command_killed_by_a_signal_has_status_128_plus_signal():
    for sig in (1, 2, 3, 4, 6, 8, 9, 11, 13, 14, 15, 24, 31, 34, 64):
        ends("--", "sh", "-c", f"kill -{sig} $$", status=128 + sig)


@test
def an_endless_number_of_processes_is_limited():
    ends("--pids", "64", "-m", "128m", "--timeout", "2s", "--", "sh", "-c", "f() { f | f & }; f; sleep 60", status=124)
    ends("--pids", "128", "-m", "256m", "--timeout", "3s", "--", "sh", "-c",
         "while :; do (setsid sh -c 'while :; do setsid true; done' &) 2>/dev/null; done", status=(124, 2))
    # Zombies are never reaped.
    ends("--pids", "1000", "--timeout", "5s", "--", need("python3"), "-c",
         "import os, time\nn = 0\ntry:\n  while n < 5000:\n    if os.fork() == 0: os._exit(0)\n    n += 1\nexcept OSError: pass\n"
         "print(n > 500)\ntime.sleep(60)", status=124)


@test
def endless_use_of_memory_and_disk_is_limited():
    for script in ("b = []\nwhile True: b.append(b'x' * (1 << 20))",
                   "import mmap, os\nfor i in range(400):\n  m = mmap.mmap(-1, 1 << 20); m.write(b'x' * (1 << 20)); globals()['m%d' % i] = m",
                   "import os\nfd = os.memfd_create('x')\nfor _ in range(400): os.write(fd, b'x' * (1 << 20))"):
        p = ends("-m", "64m", "--timeout", "10s", "--", need("python3"), "-c", script, status=137)
        ok(p, "")
    p = ends("-m", "128m", "--disk", "8m", "--", "sh", "-c",
             "dd if=/dev/zero of=/f bs=1M count=100 2>/dev/null; stat -c %s /f; i=0; while [ $i -lt 9000 ]; do : > /tmp/$i || break; i=$((i+1)); done 2>/dev/null; "
             "[ $i -lt 9000 ] && echo bounded", status=(0, 2))
    ok(int(p.stdout.split()[0]) <= 8 << 20, p.stdout)
    p = ends("-m", "64m", "--timeout", "10s", "--", "sh", "-c", "dd if=/dev/zero of=/dev/shm/f bs=1M count=300 2>/dev/null; stat -c %s /dev/shm/f", status=(0, 137))


@test
def endless_output_does_not_increase_memory():
    p = subprocess.Popen([WARREN, "run", "--timeout", "2s", "--", "sh", "-c", "yes & yes >&2"], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    peak = 0
    while p.poll() is None:
        with contextlib.suppress(KeyError, OSError):
            peak = max(peak, int(status_of(p.pid)["VmRSS"].split()[0]))
        time.sleep(0.05)
    eq(p.returncode, 124)
    ok(peak < 64 << 10, f"we grew to {peak} kB")
    p = ends("--timeout", "2s", "--json", "--", "sh", "-c", "yes & yes >&2", status=124)
    ok(len(p.stdout) < 16 << 20, f"{len(p.stdout)} bytes of JSON")
    # The output is not read.
    q = subprocess.Popen([WARREN, "run", "--timeout", "1s", "--", "yes"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        time.sleep(3)
        eq(q.poll() is None or q.returncode == 124, True, "status")
    finally:
        q.stdout.close()
        q.wait(timeout=LIMIT)


@test
def an_endless_number_of_descriptors_and_terminals_is_limited():
    ends("--nofile", "2000", "--", need("python3"), "-c",
         "import os\nn = 0\ntry:\n  while True: os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY); n += 1\nexcept OSError as e: print(n)", status=0)
    ends("--nofile", "4", "--", "sh", "-c", "true", status=(0, 127, 126))
    ends("--", need("python3"), "-c", "import os, socket\na, b = socket.socketpair()\nfor i in range(200):\n  try: socket.send_fds(a, [b'x'], [a.fileno(), b.fileno()] * 100)\n"
         "  except OSError: break\nprint('end')", status=0)


@test
def very_long_arguments_are_accepted_or_refused():
    with scratch() as d:
        big = "x" * (100 << 10)
        ends("--", "sh", "-c", f"printf %s {big} | wc -c", status=0)
        args = ["y" * 1000] * 1500
        p = ends("--", "sh", "-c", "echo $#", "sh", *args, status=(0, 125, 126))
        ok(p.returncode != 0 or p.stdout == b"1500\n", p.stdout)
        ends("-e", f"BIG={big}", "--", "sh", "-c", "echo ${#BIG}", status=0)
        p = ends("--", "true", *["z"] * 30000, status=(0, 125, 126))
        ok(d, "")


@test
def deep_directory_trees_do_not_block_the_end_of_a_run():
    ends("--", need("python3"), "-c",
         "import os\nn = 0\ntry:\n  while n < 20000: os.mkdir('d'); os.chdir('d'); n += 1\nexcept OSError: pass\nprint(n)", "-w", "/tmp", status=0)


@test
def a_command_cannot_imitate_init():
    """A command has no descriptor of init's connection to the engine."""
    forged = struct.pack("<HHIIIiI6Q", 1, 67, 0, 1, 0, 0, 0, *[0] * 6)  # message EXITED with status 0
    script = ("import os, socket, stat, time\n"
              "for fd in range(3, 256):\n"
              "    try: st = os.fstat(fd)\n"
              "    except OSError: continue\n"
              "    print('descriptor', fd, flush=True)\n"
              f"    if stat.S_ISSOCK(st.st_mode): socket.socket(fileno=fd).send({forged!r})\n"
              "time.sleep(0.3)\nos._exit(9)")
    p = ends("--", need("python3"), "-c", script, status=(0, 9, 125))
    eq((p.returncode, p.stdout), (9, b""), "status and descriptors")


HOSTILE = {
    "nothing": "import time\ntime.sleep(60)",
    # A process that stops a child of init before its exec must not block init.
    "SIGSTOP to all new processes": (
        "import os, signal\nwhile True:\n  for p in range(os.getpid() + 1, os.getpid() + 3000):\n"
        "    try: os.kill(p, signal.SIGSTOP)\n    except OSError: pass\n"),
    "SIGKILL to all new processes": (
        "import os, signal\nwhile True:\n  for p in range(os.getpid() + 1, os.getpid() + 3000):\n"
        "    try: os.kill(p, signal.SIGKILL)\n    except OSError: pass\n"),
    "a lease on the next command": (
        "import fcntl, os, shutil, signal, time\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\n"
        "os.mkdir('/tmp/bin'); shutil.copy('/usr/bin/true', '/tmp/bin/true')\n"
        "fd = os.open('/tmp/bin/true', os.O_RDWR)\n"
        "try: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)\nexcept OSError: pass\ntime.sleep(60)"),
    "init's processor time": (
        "import os, resource, time\n"
        "try: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0))\nexcept PermissionError: pass\n"
        "while True:\n  p = os.fork()\n  if p == 0:\n    for _ in range(200):\n"
        "      if os.fork() == 0: os._exit(0)\n    os._exit(0)\n  os.waitpid(p, 0)\n"),
}


@test
def an_exec_does_not_block_the_engine():
    build = os.environ.get("WARREN_BUILD", os.path.dirname(WARREN))
    failures = []
    with scratch() as d:
        program = compile_c(os.path.join(os.path.dirname(HERE), "probe-engine.c"), f"{d}/engine", f"-I{SOURCE}/include",
                            f"{build}/libwarren.so", f"-Wl,-rpath,{build}",
                            *os.environ.get("WARREN_SANITIZE", "").split())
        for what, script in HOSTILE.items():
            p = subprocess.run([program, script], stdout=subprocess.PIPE, timeout=150, check=False)
            got = dict(line.split(" ", 1) for line in p.stdout.decode().splitlines())
            if p.returncode != 0:
                failures.append(f"{what}: the engine {'hangs' if p.returncode == -signal.SIGALRM else p.returncode}, {got}")
            elif (got["waited"], got["timed_out"], got["destroyed"]) != ("1", "1", "0"):
                failures.append(f"{what}: the timeout of the hostile exec is not kept, {got}")
            elif max(float(got[k]) for k in ("longest", "after", "in")) > 30:  # a lease is broken after 45 seconds
                failures.append(f"{what}: held up, {got}")
    ok(not failures, "\n".join(failures))


@test
def a_killed_engine_leaves_nothing_running():
    p = subprocess.Popen([WARREN, "run", "--", "sh", "-c", "setsid sleep 4242 & setsid sleep 4243 & sleep 4244"], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        inits = children(p.pid)
        mine = [c for i in inits for c in children(i)]
        if len(mine) >= 1 and len(inits) == 1 and len([c for m in mine for c in children(m)] + mine) >= 3:
            break
        time.sleep(0.02)
    everyone = inits + mine + [c for m in mine for c in children(m)]
    ok(len(everyone) >= 4, f"processes {everyone}")
    p.send_signal(signal.SIGKILL)
    p.wait()
    while any(lives(q) for q in everyone):
        ok(time.monotonic() < deadline, "they live on")
        time.sleep(0.02)
    warren("run", "true")  # removes leftovers from the registry of engines


if __name__ == "__main__":
    if not ROOT:
        print("1..0 # SKIP making device nodes and owners needs root")
        sys.exit(0)
    sys.exit(main())
