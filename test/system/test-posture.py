#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-posture.py - compare a live sandbox, seen from outside, with posture/expected.json

Prints TAP. Values that differ between machines (numbers, sizes, masked files of the kernel) are normalised or marked
optional there; everything else must be equal. With --show, prints the current state in the form of that file.
"""
import json
import os
import re
import signal
import stat
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib/posture"))
from harness import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import,wrong-import-position
from set_id_attempts import ATTEMPTS, remains  # pylint: disable=wrong-import-position

EXPECTED = json.loads(slurp(os.path.join(HERE, "expected.json")))
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def id_map(pid, which):
    return [[int(n) for n in line.split()] for line in slurp(f"/proc/{pid}/{which}_map").splitlines()]


def base_of(pid):
    return id_map(pid, "uid")[0][1]


def namespaces(pid):
    names = sorted(n for n in os.listdir("/proc/self/ns") if "_for_" not in n)
    own = [n for n in names if os.readlink(f"/proc/{pid}/ns/{n}") != os.readlink(f"/proc/self/ns/{n}")]
    return {"own": own, "shared": [n for n in names if n not in own]}


def credentials(pid):
    """Ids relative to the sandbox's root."""
    s, base = status_of(pid), base_of(pid)
    ids = {k: [int(n) - base for n in s[k].split()] for k in ("Uid", "Gid", "Groups")}
    caps = {k: s[k] for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    return {**ids, **caps, **{k: int(s[k]) for k in ("NoNewPrivs", "Seccomp", "Seccomp_filters")}}


def descriptor_kind(pid, fd):
    to = os.readlink(f"/proc/{pid}/fd/{fd}")
    st = os.stat(f"/proc/{pid}/fd/{fd}")
    if stat.S_ISCHR(st.st_mode) and st.st_rdev == os.makedev(1, 3):
        return "null"
    if stat.S_ISFIFO(st.st_mode) or stat.S_ISSOCK(st.st_mode):
        return to.split(":")[0]
    if to.startswith("anon_inode:"):
        return to.split(":", 1)[1]
    with contextlib.suppress(OSError):
        if os.path.exists(f"/proc/{pid}/fd/{fd}/cgroup.procs"):
            return "cgroup directory"
    if os.path.basename(to) in ("tasks", "cgroup.procs"):
        return "cgroup membership"
    if re.search(r"/engines/\w+", to):
        return "lock"
    root = os.stat(f"/proc/{pid}/root")
    if stat.S_ISDIR(st.st_mode) and to == "/" and (st.st_dev, st.st_ino) != (root.st_dev, root.st_ino):
        return "upper directory"
    return to


def descriptors(pid):
    return {fd: descriptor_kind(pid, fd) for fd in sorted(os.listdir(f"/proc/{pid}/fd"), key=int)}


HOST_TREES = ("/usr", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")


def mount_rows(pid):
    """target -> [type, root, restricting flags]"""
    rows = {}
    for m in mountinfo(slurp(f"/proc/{pid}/mountinfo")):
        ok(m["target"] not in rows, f"two mounts at {m['target']}")
        ok(not [o for o in m["optional"] if o.startswith(("shared:", "master:"))],
           f"propagates: {m['line']}")
        device = os.path.dirname(m["target"]) == "/dev" and m["target"][5:] in DEVICES
        # For the mount of a device node, only set-user-ID matters; the machine decides the rest.
        flags = sorted(m["flags"] & ({"nosuid"} if device else {"ro", "rw", "nosuid", "nodev", "noexec"}))
        # Trees that `host` shows have the machine's filesystem and path.
        shown = m["target"] in HOST_TREES and m["type"] != "overlay"
        kind, root = ("host", "") if shown else ("device" if device else m["type"], m["root"])
        rows[m["target"]] = [kind, root, ",".join(flags)]
    return rows


def links(pid):
    same = os.stat(f"/proc/{pid}/root").st_dev
    return {"exe": re.sub(r":\S+", ":", os.readlink(f"/proc/{pid}/exe")),
            "cwd": os.readlink(f"/proc/{pid}/cwd"),
            "root": os.readlink(f"/proc/{pid}/root"),
            "host_root": same == os.stat("/").st_dev}


def session(pid):
    """Attributes that a child inherits from its parent, from stat(5) and limits."""
    f = slurp(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
    s = status_of(pid)
    return {"tty": int(f[4]), "nice": int(f[16]), "policy": int(f[38]),
            "SigIgn": s["SigIgn"], "SigBlk": s["SigBlk"], "Umask": s["Umask"],
            "personality": slurp(f"/proc/{pid}/personality").strip()}


def survey(box):
    with Live("-u", "1000:1000") as user:
        as_user = credentials(user.payload)
    return {
        "namespaces": namespaces(box.payload),
        "root": credentials(box.payload),
        "user": as_user,
        "init": credentials(box.init),
        "payload_descriptors": descriptors(box.payload),
        "init_descriptors": sorted(set(descriptors(box.init).values())),
        "mounts": mount_rows(box.payload),
        "init_links": links(box.init),
        "payload_links": {k: v for k, v in links(box.payload).items() if k != "exe"},
        "payload_session": session(box.payload),
    }


def same(what, got):
    eq(json.loads(json.dumps(got)), EXPECTED[what], what)


# -------------------------------------------------------------------- tests


@test
def a_sandbox_has_separate_namespaces():
    with Live() as box:
        same("namespaces", namespaces(box.payload))
        for n in os.listdir("/proc/self/ns"):
            eq(os.readlink(f"/proc/{box.init}/ns/{n}"), os.readlink(f"/proc/{box.payload}/ns/{n}"),
               f"init's {n} namespace")


@test
def two_sandboxes_share_neither_namespaces_nor_ids():
    with Live() as a, Live() as b:
        for n in EXPECTED["namespaces"]["own"]:
            ok(os.readlink(f"/proc/{a.payload}/ns/{n}") != os.readlink(f"/proc/{b.payload}/ns/{n}"),
               f"they share a {n} namespace")
        ok(abs(base_of(a.payload) - base_of(b.payload)) >= 65536, "their id ranges overlap")


@test
def root_inside_is_unprivileged_outside():
    with Live() as box:
        for which in ("uid", "gid"):
            rows = id_map(box.payload, which)
            eq(len(rows), 1, f"lines of {which}_map")
            inside, outside, count = rows[0]
            eq((inside, count), (0, 65537), f"{which}_map, its init's id among them")
            ok(outside >= 1 << 28, f"{which} 0 is {outside} outside")
            ok(outside + count <= 1 << 31, "ids beyond 2^31, where some programs stop")
        eq(os.stat(f"/proc/{box.payload}").st_uid, base_of(box.payload), "owner of the command")


@test
def root_has_only_the_listed_privileges():
    with Live() as box:
        same("root", credentials(box.payload))


@test
def an_ordinary_user_has_only_the_listed_privileges():
    with Live("-u", "1000:1000") as box:
        same("user", credentials(box.payload))


@test
def init_has_only_the_listed_privileges():
    with Live() as box:
        same("init", credentials(box.init))


@test
def the_command_has_three_descriptors():
    with Live() as box:
        same("payload_descriptors", descriptors(box.payload))
    with Live("-i", stdin=subprocess.PIPE) as box:
        same("payload_descriptors", {**descriptors(box.payload), "0": "null"})
        eq(descriptor_kind(box.payload, 0), "pipe", "stdin with -i")


@test
def no_descriptor_is_inherited_from_the_caller():
    extra = [os.open("/", os.O_RDONLY | os.O_DIRECTORY), os.open("/etc/hostname", os.O_RDONLY)]
    high = 200
    os.dup2(extra[0], high, inheritable=True)
    try:
        with Live(pass_fds=(*extra, high)) as box:
            same("payload_descriptors", descriptors(box.payload))
            same("init_descriptors", sorted(set(descriptors(box.init).values())))
    finally:
        for fd in (*extra, high):
            os.close(fd)


@test
def init_keeps_only_needed_descriptors():
    with Live() as box:
        same("init_descriptors", sorted(set(descriptors(box.init).values())))
        for fd in range(3):
            eq(descriptor_kind(box.init, fd), "null", f"init's descriptor {fd}")


def compare_mounts(got, wanted):
    for target, row in got.items():
        ok(target in wanted, f"unexpected mount at {target}: {row}")
        eq(row, wanted[target]["is"], f"the mount at {target}")
    for target, row in wanted.items():
        ok(target in got or row.get("optional"), f"nothing is mounted at {target}")


@test
def the_mounts_are_as_listed():
    with Live() as box:
        compare_mounts(mount_rows(box.payload), EXPECTED["mounts"])
        eq(mount_rows(box.init), mount_rows(box.payload), "init's mounts")


@test
def no_mount_honours_set_user_id_or_devices():
    with scratch() as d:
        os.mkdir(f"{d}/v")
        with Live("-v", f"{d}/v:/v", "--tmpfs", "/t", "--read-only") as box:
            rows = mountinfo(slurp(f"/proc/{box.payload}/mountinfo"))
            ok({"/v", "/t"} <= {m["target"] for m in rows}, "the volume and the tmpfs are there")
            for m in rows:
                ok("nosuid" in m["flags"], f"set-user-ID works on {m['line']}")
                ok("nodev" in m["flags"] or m["target"] == "/dev/pts" or
                   m["target"].startswith("/dev/") and m["target"][5:] in DEVICES,
                   f"devices work on {m['line']}")
            for target in ("/", "/usr"):
                ok("ro" in [m for m in rows if m["target"] == target][0]["flags"], f"{target} is writable")


@test
def a_sandbox_that_can_write_to_the_machine_creates_no_set_id_files_or_capabilities():
    python = need("python3")
    with scratch() as d:
        for name in ("v", "r"):
            os.mkdir(f"{d}/{name}")
        script = f"{d}/attempts.py"
        with open(script, "w", encoding="utf-8") as f:
            f.write(ATTEMPTS)
        here = ("-v", f"{script}:/attempts.py:ro")
        # Without a writable directory of the machine, all of it works, so the attempts are real.
        ways = run(*here, "-v", f"{d}/r:/r:ro", "--", python, "/attempts.py", "/tmp").split()
        ok({"openat", "fchmod", "fchmodat", "mknodat", "tmpfile", "group"} <= set(ways), f"the attempts: {ways}")
        ok("openat2" in ways and "capability" in ways, f"the attempts: {ways}")
        for place in ("/v", "/tmp"):
            eq(run(*here, "-v", f"{d}/v:/v", "--", python, "/attempts.py", place), "", f"set in {place}")
        eq(remains(f"{d}/v"), [])
        eq(stat.S_IMODE(os.stat(f"{d}/v/plain").st_mode), 0o1751, "other bits")
        eq(remains(f"{d}/r"), [])


@test
def no_mount_reveals_the_host():
    host = {m["target"] for m in mountinfo(slurp("/proc/self/mountinfo"))} - {"/"}
    with scratch() as d, Live() as other:
        rootfs = f"{d}/some-image-of-mine"
        os.makedirs(f"{rootfs}/bin")
        shutil.copy(need("busybox"), f"{rootfs}/bin/sleep")
        for args in ((), ("--image", f"dir:{rootfs}")):
            with Live(*args, command=("/bin/sleep", "60")) as box:
                text = slurp(f"/proc/{box.payload}/mountinfo")
                ids = {os.path.basename(v) for b in (box, other) for v in cgroup_dirs(b.payload).values()} - {""}
                for secret in (d, "some-image-of-mine", "/var/lib", "/run/warren", "warren", *ids):
                    ok(secret not in text, f"mountinfo shows {secret}: {text}")
                for m in mountinfo(text):
                    if m["target"] in HOST_TREES:
                        continue
                    ok(m["source"] in ("none", "devtmpfs", "udev", "tmpfs", "dev"), f"a source of the host's: {m['line']}")
                    ok(m["root"] == "/" or m["type"] == "proc" or m["root"] not in host, f"a path of the host's: {m['line']}")


@test
def init_runs_from_a_memfd():
    with Live() as box:
        same("init_links", links(box.init))
        same("payload_links", {k: v for k, v in links(box.payload).items() if k != "exe"})
        fd = os.open(f"/proc/{box.init}/exe", os.O_RDONLY)
        try:
            seals = 0x0002 | 0x0004 | 0x0008 | 0x0001  # shrink, grow, write, seal
            import fcntl
            eq(fcntl.fcntl(fd, 1034) & seals, seals, "seals of init")  # F_GET_SEALS
        finally:
            os.close(fd)


def read_as_sandbox_root(ns_of, caps, path):
    """The errno of reading @path as root of @ns_of's user namespace with @caps; 0 if it worked."""
    ns = os.open(f"/proc/{ns_of}/ns/user", os.O_RDONLY)
    pid = os.fork()
    if pid == 0:
        code = 255
        try:
            if libc.setns(ns, 0x10000000) == 0:
                os.setgroups([])
                os.setresgid(0, 0, 0)
                os.setresuid(0, 0, 0)
                head = (ctypes.c_uint32 * 2)(0x20080522, 0)
                low, high = caps & 0xffffffff, caps >> 32
                data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
                if libc.capset(head, data) == 0:
                    with open(path, "rb") as f:
                        f.read(16)
                    code = 0
        except OSError as e:
            code = e.errno
        finally:
            os._exit(code)
    os.close(ns)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@test
def init_is_not_dumpable():
    with Live() as box:
        caps = int(status_of(box.payload)["CapEff"], 16)
        eq(read_as_sandbox_root(box.init, caps, f"/proc/{box.payload}/environ"), 0, "reading the command's environ")
        for name in ("environ", "maps", "mem", "auxv"):
            got = read_as_sandbox_root(box.init, caps, f"/proc/{box.init}/{name}")
            ok(got in (errno.EACCES, errno.EPERM), f"init's {name}: {errno_name(got)}")
    # A command with another user id must not make the memory of the starting child dumpable.
    with Live("-u", "1000:1000") as box:
        got = read_as_sandbox_root(box.init, caps, f"/proc/{box.init}/environ")
        ok(got in (errno.EACCES, errno.EPERM), f"init's environ after a user's exec: {errno_name(got)}")


@test
def the_command_does_not_inherit_the_callers_state():
    def worst():
        os.nice(5)
        os.umask(0o077)
        for sig in (signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(sig, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
        libc.personality(0x0040000)  # ADDR_NO_RANDOMIZE

    with Live() as box:
        got = session(box.payload)
        same("payload_session", {**got, "nice": got["nice"] - os.nice(0)})
    with Live(preexec_fn=worst) as box:
        got = session(box.payload)
        got.pop("nice")  # the caller may only lower it
        same("payload_session", {**got, "nice": 0})


@test
def an_oom_exempt_caller_does_not_exempt_the_command():
    """A caller that is exempt from the machine's OOM killer starts commands that are not."""
    def exempt():
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as f:
            f.write("-1000")

    try:
        subprocess.run(["true"], preexec_fn=exempt, check=True)
    except subprocess.SubprocessError:
        raise Skip("needs CAP_SYS_RESOURCE to be exempt") from None
    with Live(preexec_fn=exempt) as box:
        ok(int(slurp(f"/proc/{box.payload}/oom_score_adj")) >= 0,
           "the command is exempt from the OOM killer as its caller was")
    p = warren("run", "-m", "32m", "--timeout", "20s", "--", "python3", "-c", "b = b'x' * (200 << 20)",
               preexec_fn=exempt)
    ok(p.returncode == 137, f"a memory hog ended with {p.returncode}: {p.stderr!r}")


@test
def init_is_outside_of_the_limits():
    with Live("--cpus", "1") as box:
        init, payload = cgroup_dirs(box.init), cgroup_dirs(box.payload)
        if cgroup_v2():
            ok(not (init[""] + "/").startswith(payload[""] + "/"), f"init is in {init['']}")
            return
        for c in ("memory", "pids"):
            if c not in payload:
                raise Skip(f"no {c} controller")
            ok(not (init[c] + "/").startswith(payload[c] + "/"), f"init is in {init[c]}")
        for c in ("memory", "pids", "cpu"):
            ok("/warren/" in payload[c] + "/", f"the command's {c} cgroup is {payload[c]}")


def limit_files(dirs):
    if cgroup_v2():
        d = dirs[""]
        while not os.path.exists(f"{d}/memory.max") or slurp(f"{d}/memory.max").strip() == "max":
            d = os.path.dirname(d)
        swap = slurp(f"{d}/memory.swap.max").strip() if os.path.exists(f"{d}/memory.swap.max") else "0"
        quota, period = slurp(f"{d}/cpu.max").split()
        return {"memory": int(slurp(f"{d}/memory.max")), "swap": int(swap),
                "pids": int(slurp(f"{d}/pids.max")), "cpu": int(quota) / int(period)}
    memory = int(slurp(f"{dirs['memory']}/memory.limit_in_bytes"))
    both = f"{dirs['memory']}/memory.memsw.limit_in_bytes"
    return {"memory": memory, "swap": int(slurp(both)) - memory if os.path.exists(both) else 0,
            "pids": int(slurp(f"{dirs['pids']}/pids.max")),
            "cpu": int(slurp(f"{dirs['cpu']}/cpu.cfs_quota_us")) / int(slurp(f"{dirs['cpu']}/cpu.cfs_period_us"))}


@test
def the_limits_are_as_requested():
    with Live("-m", "64m", "--pids", "50", "--cpus", "0.5", "--nofile", "77", "--disk", "8m") as box:
        eq(limit_files(cgroup_dirs(box.payload)),
           {"memory": 64 << 20, "swap": 0, "pids": 50, "cpu": 0.5}, "limits")
        row = [r for r in slurp(f"/proc/{box.payload}/limits").splitlines() if "open files" in r][0]
        eq(row.split()[3:5], ["77", "77"], "open files")
    with Live() as box:
        base = cgroup_dirs(box.payload)
        pids = f"{base.get('pids', base.get(''))}/pids.max"
        eq(slurp(pids).strip(), "1024", "the default limit on processes")


@test
def a_sandbox_cannot_change_its_limits():
    with Live("-m", "64m") as box:
        base = base_of(box.payload)
        for d in {d for d in cgroup_dirs(box.payload).values() if "/warren/" in d}:
            for name in os.listdir(d):
                st = os.stat(f"{d}/{name}")
                if st.st_uid < base or st.st_uid >= base + 65536:
                    continue
                ok(name in ("cgroup.procs", "cgroup.threads", "cgroup.subtree_control") or stat.S_ISDIR(st.st_mode),
                   f"{d}/{name} belongs to the sandbox")


def main_show():
    with Live() as box:
        got = survey(box)
    got["mounts"] = {t: {"is": r, **({"optional": True} if t.startswith("/proc/") and r[1].startswith("/m/") or
                                     t in ("/opt", "/bin", "/sbin", "/lib") else {})}
                     for t, r in got["mounts"].items()}
    print(json.dumps(got, indent=1))


if __name__ == "__main__":
    if "--show" in sys.argv:
        main_show()
        sys.exit(0)
    if not ROOT:
        print("1..0 # SKIP looking at a sandbox from outside needs root")
        sys.exit(0)
    sys.exit(main())
