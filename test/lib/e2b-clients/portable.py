# SPDX-License-Identifier: Apache-2.0
"""What works on every backend, with E2B's Python SDK. Argument: whether the backend can pause."""
import sys

import e2b
from expect import done, eq


def kernel_files(sandbox):
    """Files of /proc are those that a command reads; what shows a process, or leads out of /proc, is refused."""
    for path in ("/proc/version", "/proc/mounts", "/proc/self/mounts", "/proc/1/comm", "/proc/cpuinfo", "/proc/net/dev"):
        try:
            expected = sandbox.commands.run(f"cat {path}").stdout
        except e2b.CommandExitException:  # the image has no /proc, or the backend no such file
            continue
        got = sandbox.files.read(path)
        if path in ("/proc/cpuinfo", "/proc/net/dev"):  # numbers change
            got, expected = ([line[:5] for line in x.splitlines()] for x in (got, expected))
        eq((path, got), (path, expected))
    for path in ("/proc/self/environ", "/proc/self/maps", "/proc/self/fd/0", "/proc/1/root/etc/passwd", "/proc/self/cwd/etc/passwd",
                 "/proc/1/environ", "/proc/kcore", "/proc/net/../self/environ", "/proc/thread-self/environ", "/proc/self/task/1/mem"):
        try:
            got = sandbox.files.read(path)
            eq((path, got), (path, ""))  # a file that the backend hides is empty
        except e2b.SandboxException:
            pass


def main():
    sandbox = e2b.Sandbox.create(timeout=200, metadata={"on": "any"}, envs={"A": "1"})
    r = sandbox.commands.run("echo out $A $B; echo err >&2", envs={"B": "2"})
    eq((r.stdout, r.stderr, r.exit_code), ("out 1 2\n", "err\n", 0))
    try:
        sandbox.commands.run("exit 3")
        raise AssertionError("no exception")
    except e2b.CommandExitException as e:
        eq(e.exit_code, 3)
    command = sandbox.commands.run("read line; echo got $line", background=True, stdin=True)
    sandbox.commands.send_stdin(command.pid, "text\n")
    eq(command.wait().stdout, "got text\n")
    command = sandbox.commands.run("sleep 1000", background=True)
    eq([p.pid for p in sandbox.commands.list()], [command.pid])
    eq((sandbox.commands.kill(command.pid), sandbox.commands.kill(command.pid)), (True, False))
    at = sandbox.commands.run("mktemp -d").stdout.strip()
    sandbox.files.write(f"{at}/deep/a.txt", "content")
    eq(sandbox.files.read(f"{at}/deep/a.txt"), "content")
    sandbox.files.write(f"{at}/b.bin", bytes(range(256)) * 1000)
    eq(sandbox.files.read(f"{at}/b.bin", format="bytes"), bytearray(range(256)) * 1000)
    eq([e.name for e in sandbox.files.list(at)], ["b.bin", "deep"])
    eq((sandbox.files.exists(f"{at}/b.bin"), sandbox.files.exists(f"{at}/c")), (True, False))
    sandbox.files.rename(f"{at}/b.bin", f"{at}/c")
    eq(sandbox.files.get_info(f"{at}/c").size, 256000)
    eq((sandbox.files.make_dir(f"{at}/d"), sandbox.files.make_dir(f"{at}/d")), (True, False))
    sandbox.files.remove(f"{at}/deep")
    eq([e.name for e in sandbox.files.list(at)], ["c", "d"])
    sandbox.files.write_files([{"path": f"{at}/m{i}", "data": str(i)} for i in range(5)])
    eq([sandbox.files.read(f"{at}/m{i}") for i in range(5)], [str(i) for i in range(5)])
    try:
        sandbox.files.write_files([{"path": "/etc/passwd/x", "data": "1"}, {"path": f"{at}/good", "data": "2"}])
        raise AssertionError("no exception")
    except e2b.SandboxException:
        pass
    try:
        sandbox.files.read(f"{at}/missing")
        raise AssertionError("no exception")
    except e2b.FileNotFoundException:
        pass
    kernel_files(sandbox)
    if sys.argv[1] == "pauses":
        sandbox.pause()
        eq(sandbox.is_running(), False)
        sandbox = e2b.Sandbox.connect(sandbox.sandbox_id, timeout=200)
        eq(sandbox.files.get_info(f"{at}/c").size, 256000)
    eq(sandbox.get_info().metadata, {"on": "any"})
    eq((sandbox.is_running(), sandbox.kill(), sandbox.kill(), sandbox.is_running()), (True, True, False, False))
    done()


main()
