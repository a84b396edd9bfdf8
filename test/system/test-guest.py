#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-guest.py - run the program on a machine with only cgroup v2 and Debian's kernel, in an emulator

The test builds a small ext4 root from busybox, the program and its libraries, boots Debian's kernel with it in qemu
without acceleration, and forwards the TAP that guest/init prints on the console.

$WARREN_GUEST selects another architecture (make arm64), $WARREN_GUEST_ROOT is the folder with its Debian files, and
the test programs in $WARREN_GUEST_TESTS run there as well.
"""
import glob, os, platform, re, shutil, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
WARREN = os.environ.get("WARREN", "build/warren")
MACHINES = {
    "x86_64": ("qemu-system-x86_64", ["-machine", "q35", "-cpu", "max"], "ttyS0", "amd64"),
    "aarch64": ("qemu-system-aarch64", ["-machine", "virt", "-cpu", "max"], "ttyAMA0", "arm64"),
}
DEBIAN = os.environ.get("WARREN_GUEST_ROOT", "")  # prefix of all paths that are copied
TESTS = os.environ.get("WARREN_GUEST_TESTS", "").split()
MODULES = ["virtio_pci", "virtio_blk", "ext4", "overlay", "loop"]


def skip(why):
    print(f"ok 1 - guest # SKIP {why}\n1..1")
    sys.exit(0)


def copy_program(root, path, where):
    """Copies the program and every library that the loader would map, to the same paths."""
    os.makedirs(f"{root}/{where}", exist_ok=True)
    shutil.copy(path, f"{root}/{where}/")
    for lib in foreign_libraries(path) if DEBIAN else own_libraries(path):
        to = f"{root}/usr{lib}" if lib.startswith("/lib") else root + lib
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy(os.path.realpath(DEBIAN + lib), to)


def own_libraries(path):
    out = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    return [lib for lib in re.findall(r"(/\S+)", out) if os.path.exists(lib)]


def foreign_libraries(path):
    """Reads the ELF sections, because the loader of another architecture does not run here."""
    said = subprocess.run(["readelf", "-Wld", path], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"interpreter: (/\S+)\]", said)
    for name in re.findall(r"\(NEEDED\).*\[(\S+)\]", said):
        here = sorted(glob.glob(f"{DEBIAN}/usr/lib/*-linux-gnu/{name}"))
        if here:
            found += [here[0].removeprefix(DEBIAN), *foreign_libraries(here[0])]
    return found


def link_busybox(root):
    for d in ("bin", "sbin", "lib", "lib64"):
        os.makedirs(f"{root}/usr/{d}", exist_ok=True)
        os.symlink(f"usr/{d}", f"{root}/{d}")
    shutil.copy(f"{DEBIAN}/bin/busybox", f"{root}/usr/bin/busybox")
    for name in subprocess.run(["/bin/busybox", "--list"], capture_output=True,
                               text=True).stdout.split():
        if not os.path.lexists(f"{root}/usr/bin/{name}"):
            os.symlink("busybox", f"{root}/usr/bin/{name}")


def make_root(root):
    link_busybox(root)
    for d in ("proc", "sys", "dev", "run", "tmp", "etc", "root", "var/lib", "opt"):
        os.makedirs(f"{root}/{d}", exist_ok=True)
    # A second root filesystem, for --image.
    os.makedirs(f"{root}/srv/root/old")
    link_busybox(f"{root}/srv/root")
    with open(f"{root}/srv/root/old/moved", "w"):
        pass
    with open(f"{root}/etc/passwd", "w") as f:
        f.write("root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n")
    with open(f"{root}/etc/group", "w") as f:
        f.write("root:x:0:\nuser:x:1000:\n")
    copy_program(root, WARREN, "usr/bin")
    copy_program(root, f"{DEBIAN}/sbin/mkfs.ext4", "usr/sbin")
    copy_program(root, f"{os.path.dirname(WARREN)}/test/test-native", "usr/lib/engine")
    for program in TESTS:
        copy_program(root, program, "usr/lib/tests")
    shutil.copy(f"{HERE}/../lib/guest/init", f"{root}/sbin/init")
    os.chmod(f"{root}/sbin/init", 0o755)


def make_initrd(tmp, version):
    """An initrd that loads the drivers of the disk and its filesystem, and continues from there."""
    root = f"{tmp}/initrd"
    for d in ("bin", "proc", "dev", "new", "m"):
        os.makedirs(f"{root}/{d}")
    shutil.copy(f"{DEBIAN}/bin/busybox", f"{root}/bin/busybox")
    order = []
    for m in MODULES:
        out = subprocess.run(["modprobe", "-d", DEBIAN or "/", "-S", version, "--show-depends", m],
                             capture_output=True, text=True).stdout
        for path in re.findall(r"^insmod (\S+)", out, re.M):
            if path not in order:
                order.append(path)
                shutil.copy(path, f"{root}/m/")
    with open(f"{root}/init", "w") as f:
        f.write("#!/bin/busybox sh\n/bin/busybox mount -t devtmpfs dev /dev\n")
        for path in order:
            f.write(f"/bin/busybox insmod /m/{os.path.basename(path)}\n")
        f.write("i=0; while [ ! -b /dev/vda ] && [ $i -lt 100 ]; do\n"
                "/bin/busybox sleep 0.1; i=$((i + 1)); done\n"
                "/bin/busybox mount -t ext4 /dev/vda /new\n"
                "exec /bin/busybox switch_root /new /sbin/init\n")
    os.chmod(f"{root}/init", 0o755)
    with open(f"{tmp}/initrd.img", "wb") as f:
        names = subprocess.run(["find", "."], cwd=root, capture_output=True).stdout
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names, stdout=f,
                       check=True)


def boot(tmp, machine, kernel):
    qemu, args, console, _ = machine
    cmd = [qemu, *args, "-accel", "tcg,thread=multi", "-smp", "2", "-m", "1024", "-nographic",
           "-no-reboot", "-nic", "none", "-kernel", kernel, "-initrd", f"{tmp}/initrd.img",
           "-append", f"console={console} quiet panic=-1 cgroup_no_v1=all",
           "-drive", f"file={tmp}/root.img,format=raw,if=none,id=d",
           "-device", "virtio-blk-pci,drive=d"]
    with open(f"{tmp}/console", "wb") as log:
        try:
            subprocess.run(cmd, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=540)
        except subprocess.TimeoutExpired:
            pass
    with open(f"{tmp}/console", errors="replace") as f:
        return f.read().replace("\r", "")


def main():
    name = os.environ.get("WARREN_GUEST", platform.machine())
    machine = MACHINES.get(name)
    if not machine:
        skip(f"no emulator is known for {name}")
    kernels = sorted(glob.glob(f"{DEBIAN}/boot/vmlinuz-*-{machine[3]}"))
    for need, there in ((machine[0], shutil.which(machine[0])), ("Debian's kernel", kernels),
                        ("busybox-static", os.path.exists("/bin/busybox")),
                        ("mkfs.ext4", shutil.which("mkfs.ext4", path="/sbin:/usr/sbin")),
                        ("cpio", shutil.which("cpio"))):
        if not there:
            skip(f"{need} is not installed: tools/run/install-deps test")
    with tempfile.TemporaryDirectory() as tmp:
        os.makedirs(f"{tmp}/root")
        make_root(f"{tmp}/root")
        subprocess.run(["/sbin/mkfs.ext4", "-q", "-d", f"{tmp}/root", f"{tmp}/root.img", "256M"],
                       check=True, stdout=subprocess.DEVNULL)
        make_initrd(tmp, kernels[-1].removeprefix(f"{DEBIAN}/boot/vmlinuz-"))
        text = boot(tmp, machine, kernels[-1])
    begin, end = text.find("TAP BEGIN\n"), text.find("TAP END")
    if begin < 0 or end < 0:
        print("\n".join("# " + line for line in text.splitlines()[-40:]))
        print("not ok 1 - the guest ran to its end\n1..1")
        return 1
    print(text[begin + len("TAP BEGIN\n"):end], end="")
    return 1 if re.search(r"^not ok", text[begin:end], re.M) else 0


if __name__ == "__main__":
    sys.exit(main())
