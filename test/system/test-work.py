#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-work.py - a command works on a project in a sandbox (warren work)

Prints TAP. $WARREN is the program (default build/warren). Each test runs as the current user and, if that is root, as
an ordinary user, too. After every test, no trace of a sandbox may remain.
"""
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, free_port, needs_root, eq, ok, ROOT  # pylint: disable=wrong-import-position
from cli_world import WAIT, main  # pylint: disable=wrong-import-position
from set_id_attempts import ATTEMPTS, remains  # pylint: disable=wrong-import-position
from work_world import UID, User, each_user, slurp, spill  # pylint: disable=wrong-import-position

ODD = [b"-rf", b"a b", b"new\nline", b"\xff\xfe", b"'quote\"", b"$(id)", b"x" * 255, b"\x1b[31m"]


@each_user
def changes_are_kept_apart_from_the_project(u):
    spill(f"{u.project}/a", "1\n")
    p = u.work("sh", "-c", "pwd; cat a; echo 2 >a; echo 3 >b; mkdir -p c/empty")
    eq(p.stdout, f"{u.project}\n1\n".encode())
    eq((slurp(f"{u.project}/a"), os.listdir(u.project)), ("1\n", ["a"]))
    (work,) = u.works()
    ok(f"warren accept {work}".encode() in p.stderr, f"{p}")
    eq(u.work("sh", "-c", "cat a b; ls c; rm -r a b c; echo 1 >a", options=["--resume", work]).stdout, b"2\n3\nempty\n")
    eq(u.works(), [], "no change is left, so there is nothing to decide")


@each_user
def a_work_is_removed_with_its_changes(u):
    u.work("sh", "-c", "umask 0; mkdir -p a/b; touch a/b/c; chmod 0 a/b/c a/b a", options=["--name", "mine"])
    eq(len(u.works()), 1)
    eq(u.warren("work", "--remove", "mine").returncode, 0)
    eq(u.works(), [])
    deadline = time.monotonic() + WAIT
    # Files are removed in the background; what is remembered about the project stays.
    while left := [n for n in os.listdir(f"{u.store}/works") if not n.startswith(".scan-")]:
        ok(time.monotonic() < deadline, f"what is left of it: {left}")
        time.sleep(0.02)
    u.work("touch", "x", options=["--no-sync"])
    eq((u.works(), os.listdir(u.project)), ([], []))
    u.work("true", options=["--keep"])
    eq(len(u.works()), 1, "kept, even without changes")


@each_user
def a_directory_of_an_image_whose_group_has_no_id_is_reported(u):
    image = tempfile.mkdtemp(prefix="warren-test-")
    try:
        os.chmod(image, 0o755)
        os.mkdir(f"{image}/mine")
        owner = UID if u.other else 0
        for path in (image, f"{image}/mine"):
            os.chown(path, owner, owner)
        ok(b"mount point" not in u.work("no-such-tool", options=["--image", f"dir:{image}", "-w", "/mine/p"], status=127).stderr, "a control")
        if u.other:
            os.chown(f"{image}/mine", owner, 0)
            p = u.work("no-such-tool", options=["--image", f"dir:{image}", "-w", "/mine/p"], status=125)
            ok(b"the group of the directory in the image has no id in the sandbox" in p.stderr, f"{p}")
    finally:
        shutil.rmtree(image)


@each_user
def changes_that_cannot_be_accepted_are_kept(u):
    spill(f"{u.project}/a", "1\n")
    if u.other:
        os.chmod(u.project, 0o555)
        p = u.work("sh", "-c", "echo 2 >a", options=["--sync"], status=125)
        eq((slurp(f"{u.project}/a"), p.stderr.count(b"the changes are kept in work"), p.stderr.count(b"the changes are kept")),
           ("1\n", 1, 1), f"{p}")
        os.chmod(u.project, 0o755)
    u.work("sh", "-c", "echo 2 >a", options=["--sync"])
    eq(slurp(f"{u.project}/a"), "2\n", "a control")


@each_user
def all_changes_can_be_accepted_or_discarded(u):
    spill(f"{u.project}/a", "1\n")
    spill(f"{u.project}/gone", "1\n")
    script = "echo 2 >a; rm gone; mkdir -p d/e; echo 3 >d/b; ln -s b d/l; chmod +x a"
    p = u.work("sh", "-c", script, options=["--sync"])
    eq((u.works(), sorted(os.listdir(u.project))), ([], ["a", "d"]), f"{p}")
    eq((slurp(f"{u.project}/a"), slurp(f"{u.project}/d/l"), os.readlink(f"{u.project}/d/l")), ("2\n", "3\n", "b"))
    eq(os.stat(f"{u.project}/a").st_mode & 0o777, 0o755)
    owner = os.stat(u.project).st_uid
    eq({os.lstat(f"{u.project}/{n}").st_uid for n in ("a", "d", "d/b", "d/l")}, {owner})
    u.work("rm", "-r", "d", options=["--no-sync"])
    eq((u.works(), sorted(os.listdir(u.project))), ([], ["a", "d"]))


@each_user
def modes_are_exact_in_both_directions(u):
    modes = {"private": 0o600, "run": 0o750, "all": 0o666, "ro": 0o444, "none": 0o400}
    for name, mode in modes.items():
        spill(f"{u.project}/{name}", "1\n")
        os.chmod(f"{u.project}/{name}", mode)
    dirs = {"d": 0o700, "setgid": 0o2775, "sticky": 0o1777, "closed": 0o555}
    for name, mode in dirs.items():
        os.mkdir(f"{u.project}/{name}")
        spill(f"{u.project}/{name}/f", "1\n")
        spill(f"{u.project}/{name}/.env", "1\n")  # is hidden
        os.chmod(f"{u.project}/{name}/f", 0o640)
    u.own()
    for name, mode in dirs.items():
        os.chmod(f"{u.project}/{name}", mode)
    seen = u.work("sh", "-c", "stat -c '%n %a' * | sort; for d in d setgid sticky closed; do echo 2 >>$d/f; touch $d/.; done;"
                  "for f in private run all ro none; do cp $f x; cat x >$f; done; rm x", options=["--name", "w"]).stdout.decode()
    eq(dict(line.split() for line in seen.splitlines()), {n: f"{m:o}" for n, m in {**modes, **dirs}.items()})
    eq(u.warren("diff", "w", "--name-status").stdout, b"".join(b"M\t%s/f\n" % n for n in (b"closed", b"d", b"setgid", b"sticky")),
       "what was only copied has no other mode")
    u.work("sh", "-c", "chmod 640 private; chmod 711 d; chmod 755 closed; chmod 644 all none; umask 027; mkdir new setgid/new; echo 3 >new/f",
           options=["--resume", "w"])
    p = u.warren("accept", "w")
    eq(p.returncode, 0, f"{p}")
    want = {**modes, **dirs, "closed": 0o755, "private": 0o640, "d": 0o711, "all": 0o644, "none": 0o644, "new": 0o750, "new/f": 0o640,
            "setgid/new": 0o2750, "setgid/f": 0o640}
    eq({n: oct(os.stat(f"{u.project}/{n}").st_mode & 0o7777) for n in want}, {n: oct(m) for n, m in want.items()})
    eq(u.works(), [])


@each_user
def the_project_is_prepared_once(u):
    spill(f"{u.project}/setup.sh", "#!/bin/sh\ntouch ready /root/tool\ndate +%N >stamp\n")
    spill(f"{u.project}/.gitignore", "/ready\n/stamp\n")
    p = u.work("ls", "ready", status=2)
    ok(b"not approved" in p.stderr, f"{p}")
    one = u.work("sh", "-c", "ls ready /root/tool; cat stamp", options=["--yes"])
    two = u.work("sh", "-c", "ls ready /root/tool; cat stamp", options=["--yes"])
    eq((one.stdout.split()[:2], two.stdout), ([b"/root/tool", b"ready"], one.stdout), "the second start uses what the first made")
    eq((sorted(os.listdir(u.project)), u.works()), ([".gitignore", "setup.sh"], []), "it is not a change")
    u.work("ls", "ready", options=["--no-setup"], status=2)
    eq(u.work("sh", "-c", "echo 1 >ready; cat ready; rm stamp", options=["--name", "w", "--yes"]).stdout, b"1\n")
    eq(u.work("sh", "-c", "cat ready; ls", options=["--resume", "w", "--yes"]).stdout, b"1\nready\nsetup.sh\n")


@each_user
def a_devcontainer_is_honoured(u):
    os.mkdir(f"{u.project}/.devcontainer")
    spill(f"{u.project}/.devcontainer/devcontainer.json",
          '{ // with a comment\n"containerEnv": {"A": "1", "B": "1"}, "workspaceFolder": "/workspaces/p",\n'
          '"postStartCommand": "echo started >/tmp/started", }')
    p = u.work("sh", "-c", "test ! -e /tmp/started", options=["-e", "B=2"])
    ok(b"postStartCommand is not run, because it is not approved" in p.stderr, f"{p}")
    p = u.work("sh", "-c", "pwd; echo $A $B; cat /tmp/started", options=["-e", "B=2", "--yes"])
    eq(p.stdout, b"/workspaces/p\n1 2\nstarted\n")
    ok(b"sets these variables for the command: A, B\n" in p.stderr, f"{p}")
    eq(u.work("cat", "/tmp/started").stdout, b"started\n", "the approval is remembered")
    eq(u.work("pwd", options=["-w", "/mine"]).stdout, b"/mine\n")


@each_user
def a_command_that_only_the_machine_has_is_explained(u):
    home = f"{u.dir}/home"
    for name in (".local/bin", ".local/share/tool/v1"):
        os.makedirs(f"{home}/{name}")
    spill(f"{home}/.local/share/tool/v1/tool", "#!/bin/sh\necho ran\n")
    os.chmod(f"{home}/.local/share/tool/v1/tool", 0o755)
    os.symlink("../share/tool/v1/tool", f"{home}/.local/bin/tool")
    shutil.copy(f"{home}/.local/share/tool/v1/tool", f"{home}/alone")
    u.env["PATH"] += f":{home}/.local/bin:{home}"
    for name in ("tool", f"{home}/.local/bin/tool"):
        p = u.work(name, status=127)
        said = p.stderr.decode().splitlines()[-1]
        ok(f"this machine has '{name}' in '{home}/.local/bin', which the sandbox does not see" in said, said)
        # It works with exactly these options.
        eq(u.work(name, options=said.split(" show it with ")[1].split()).stdout, b"ran\n", said)
    os.makedirs(f"{u.dir}/image/bin")
    shutil.copy("/bin/true", f"{u.dir}/image/bin/true")
    p = u.work("tool", options=["--image", f"dir:{u.dir}/image"], status=127)
    ok(b"'tool'" in p.stderr and b"this machine has" not in p.stderr, f"another image: {p}")
    p = u.work("alone", status=127)
    ok(b"copy it to a directory for programs" in p.stderr and b" -v /" not in p.stderr, f"{p}")
    for name in ("no-such-command", f"{u.project}/x"):
        p = u.work(name, status=127)
        ok(b"No such file" in p.stderr and b"this machine has" not in p.stderr, f"{p}")


SERVER = """
import socket, sys, threading
def serve(c):
    data = b""
    while chunk := c.recv(65536):
        data += chunk
    c.sendall(data.upper())  # after the other side has ended its half
    c.close()
def listen(s):
    while True:
        threading.Thread(target=serve, args=[s.accept()[0]], daemon=True).start()
for port in sys.argv[1:]:
    s = socket.socket()
    s.bind(("127.0.0.1", int(port)))
    s.listen()
    threading.Thread(target=listen, args=[s], daemon=True).start()
print("serving", flush=True)
sys.stdin.read()
"""


def say_to(port, text):
    with socket.create_connection(("127.0.0.1", port), WAIT) as s:
        s.sendall(text)
        s.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: s.recv(65536), b""))


@each_user
def ports_of_the_project_are_forwarded(u):
    mine, closed = free_port(), free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        theirs = taken.getsockname()[1]
        spill(f"{u.project}/.devcontainer.json", json.dumps({"forwardPorts": [mine, f"localhost:{theirs}", closed, mine]}))
        u.own()
        words = [*u.prefix, u.program, "work", "--no-sync", u.project, "--", "python3", "-c", SERVER, f"{mine}", f"{theirs}"]
        with subprocess.Popen(words, env=u.env, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            try:
                eq(p.stdout.readline(), b"serving\n")
                said = {}
                while len(said) < 3:
                    found = re.search(rb"port (\d+) of the project is at 127.0.0.1:(\d+)", p.stderr.readline())
                    if found:
                        said[int(found[1])] = int(found[2])
                eq((said[mine], said[theirs] != theirs), (mine, True), f"{said}")
                large = os.urandom(3 << 20).lower()
                for port in (mine, said[theirs], mine):
                    eq(say_to(port, b"abc"), b"ABC")
                    ok(say_to(port, large) == large.upper(), "much data")
                with socket.create_connection(("127.0.0.1", mine), WAIT):  # it does not delay others
                    eq(say_to(mine, b"next"), b"NEXT")
                try:
                    ok(say_to(said[closed], b"x") is None, "nothing listens there")
                except ConnectionError:
                    pass
            finally:
                p.stdin.close()
                eq(p.wait(WAIT), 0)
        try:
            say_to(mine, b"x")
            ok(False, "it listens after the end")
        except ConnectionRefusedError:
            pass
    p = u.work("true", options=["--no-setup"])
    ok(b"of the project is at" not in p.stderr, f"{p}")
    eq(u.work("true").stderr.count(b"of the project is at"), 3, "without --no-setup, each port once")


@each_user
def secrets_are_hidden(u):
    for name in (".env", "key.pem", "a", "id.secret"):
        spill(f"{u.project}/{name}", "1\n")
    p = u.work("ls", "-A")
    ok(b".env" not in p.stdout.split() and b"a" in p.stdout.split(), f"{p}")
    ok(b"hidden" in p.stderr and b".env" in p.stderr, f"{p}")
    eq(u.work("ls", "-A", options=["--hide", "*.secret", "--hide", "!.env", "--hide", "!*.pem"]).stdout,
       b".env\na\nkey.pem\n")
    spill(f"{u.project}/warren.yaml", "hide: [a]\n")
    ok(b"a" not in u.work("ls", "-A").stdout.split(), "the project hides files, too")
    os.unlink(f"{u.project}/warren.yaml")
    u.work("sh", "-c", "rm -f a; echo mine >.env", options=["--sync"])
    eq((slurp(f"{u.project}/.env"), os.path.exists(f"{u.project}/a")), ("1\n", False), "a hidden file is not replaced")
    eq(len(u.works()), 1, "it is left to decide on")


@each_user
def secrets_in_a_directory_that_cannot_be_written_are_hidden(u):
    os.makedirs(f"{u.project}/d/e")
    for name in ("d/.env", "d/e/.env", "d/a"):
        spill(f"{u.project}/{name}", "1\n")
    u.own()
    for name in ("d/e", "d"):
        os.chmod(f"{u.project}/{name}", 0o555)
    eq(u.work("sh", "-c", "ls -A d d/e; stat -c %a d d/e").stdout, b"d:\na\ne\n\nd/e:\n555\n555\n")


@each_user
def secrets_in_packages_and_in_the_index_are_reported(u):
    os.makedirs(f"{u.project}/node_modules/x")
    for name in ("node_modules/x/.env", "node_modules/x/my.cfg", "node_modules/x/index.js"):
        spill(f"{u.project}/{name}", "1\n")
    p = u.work("ls", "-A", "node_modules/x", options=["--hide", "node_modules/x/my.cfg"])
    eq(p.stdout, b"index.js\n", f"{p}")
    ok(b"2 files are hidden" in p.stderr and b"index has" not in p.stderr, f"{p}")
    u.run("git", "init", "-q", ".")
    u.run("git", "add", "-f", "node_modules/x/.env")
    ok(b"git's index has hidden files ('node_modules/x/.env')" in u.work("true").stderr, "its contents can be read with git")


@each_user
def secrets_stay_hidden_when_a_work_is_resumed(u):
    os.mkdir(f"{u.project}/d")
    for name in ("a", "x.mine", "d/b"):
        spill(f"{u.project}/{name}", "1\n")
    u.work("touch", "new", options=["--name", "w", "--hide", "*.mine"])
    for name in (".env", "d/.env", "y.mine", "c"):
        spill(f"{u.project}/{name}", "1\n")
    p = u.work("ls", "-A", ".", "d", options=["--resume", "w"])
    eq(p.stdout, b".:\na\nc\nd\nnew\n\nd:\nb\n", f"{p}")
    ok(b"hidden" in p.stderr, f"{p}")


@each_user
def a_work_that_was_killed_while_it_was_created_is_not_resumed(u):
    spill(f"{u.project}/.env", "1\n")
    u.work("touch", "x", options=["--name", "half"])
    (work,) = u.works()
    spill(f"{u.store}/works/{work}/unprepared", "")
    os.mkdir(f"{u.store}/works/bcdfghjklmnp")  # not even a record
    p = u.work("ls", options=["--resume", "half"], status=125)
    ok(b"was interrupted before its files were hidden" in p.stderr, f"{p}")
    u.work("touch", "y", options=["--name", "whole"])
    u.work("true", options=["--no-sync"])  # its removal finds the remains
    eq([n for n in os.listdir(f"{u.store}/works") if n[0] != "."], u.works())
    eq(u.work("ls", "-A", options=["--resume", "whole"]).stdout, b"y\n")


@each_user
def files_that_deny_access_to_their_owner_are_read(u):
    spill(f"{u.dir}/outside", "1\n")
    os.chmod(f"{u.dir}/outside", 0o400)
    u.work("sh", "-c", f"mkdir d; echo 2 >d/f; ln -s {u.dir}/outside d/l; mkfifo d/p; chmod 0 d/f d/p d; echo 3 >g; chmod 0 g",
           options=["--name", "w"])
    p = u.warren("diff", "w")
    ok(p.returncode == 0 and b"+2\n" in p.stdout and b"+3\n" in p.stdout, f"{p}")
    eq(os.stat(f"{u.dir}/outside").st_mode & 0o777, 0o400, "the target of a link")
    # Not while the sandbox runs: it could put a link there.
    q = u.start("work", "--resume", "w", "--", "sh", "-c", "mkdir -p e; echo 4 >e/f; chmod 0 e/f e; echo up; read x")
    try:
        eq(q.stdout.readline(), b"up\n")
        p = u.warren("diff", "w")
        if u.other:
            ok(p.returncode == 125 and b"only when its sandbox has ended" in p.stderr, f"{p}")
    finally:
        q.communicate(timeout=WAIT)
    p = u.warren("diff", "w")
    ok(p.returncode == 0 and b"+4\n" in p.stdout, f"{p}")


@each_user
def another_directory_with_the_name_of_the_project_is_not_shown(u):
    spill(f"{u.project}/a", "1\n")
    spill(f"{u.project}/warren.yaml", "steps: [{run: 'touch begun; sleep 1'}]\n")
    os.mkdir(f"{u.dir}/secret")
    spill(f"{u.dir}/secret/key", "1\n")
    u.own()
    p = u.start("work", u.project, "--", "ls")
    try:
        deadline = time.monotonic() + WAIT
        while not glob.glob(f"{u.store}/setups/.new-*/project/upper/begun") and time.monotonic() < deadline:
            time.sleep(0.02)
        os.rename(u.project, f"{u.dir}/moved")
        os.rename(f"{u.dir}/secret", u.project)
        out = p.communicate(timeout=WAIT)[0]
    finally:
        os.rename(u.project, f"{u.dir}/secret")
        os.rename(f"{u.dir}/moved", u.project)
    ok(b"key" not in out, f"{out}")
    ok(b"a" in u.work("ls").stdout.split(), "a control")


@each_user
def a_copy_is_independent_of_the_project(u):
    spill(f"{u.project}/a", "1\n")
    os.symlink("/etc/passwd", f"{u.project}/link")
    os.mkdir(f"{u.project}/empty")
    spill(f"{u.project}/run", "#!/bin/sh\n")
    os.chmod(f"{u.project}/run", 0o755)
    eq(u.work("sh", "-c", "stat -c '%n %a %F %u' *; echo 2 >a", options=["--mode", "copy"]).stdout,
       b"a 644 regular file 0\nempty 755 directory 0\nlink 777 symbolic link 0\nrun 755 regular file 0\n")
    eq(slurp(f"{u.project}/a"), "1\n")
    spill(f"{u.project}/a", "other\n")
    spill(f"{u.project}/new", "new\n")
    eq(u.work("cat", "a", "link", options=["--resume", u.works()[0]]).stdout.splitlines()[0], b"2")
    eq(u.work("ls", options=["--resume", u.works()[0]]).stdout, b"a\nempty\nlink\nrun\n", "the copy has no newer files")
    if u.other:
        os.chmod(f"{u.project}/new", 0)
        p = u.work("true", options=["--mode", "copy"], status=125)
        ok(b"make this file or directory readable (chmod u+r), move it out of the project" in p.stderr and b"'new': Permission denied" in p.stderr, f"{p}")
        os.chmod(f"{u.project}/new", 0o400)
    eq(u.work("cat", "new", options=["--mode", "copy"]).stdout, b"new\n", "a control")


@each_user
def bind_changes_the_project_itself(u):
    spill(f"{u.project}/a", "1\n")
    p = u.work("sh", "-c", "pwd; cat a; echo 2 >b", options=["--mode", "bind"])
    eq(p.stdout, f"{u.project}\n1\n".encode())
    eq(slurp(f"{u.project}/b"), "2\n")
    ok(b"changes the files of" in p.stderr, f"a warning: {p}")
    eq(u.works(), [])
    for words in (["--keep"], ["--name", "x"], ["--no-sync"]):
        u.work("true", options=["--mode", "bind", *words], status=125)


@each_user
def with_bind_no_program_gets_the_rights_of_the_projects_owner(u):
    spill(f"{u.project}/attempts.py", ATTEMPTS)
    os.mkdir(f"{u.project}/d")
    eq(u.work("python3", "attempts.py", "d", options=["--mode", "bind"]).stdout, b"")
    eq(remains(u.project), [])
    eq(os.stat(f"{u.project}/d/plain").st_mode & 0o7777, 0o1751)
    # In a work, the bits are a change that needs permission.
    ok(b"fchmodat" in u.work("python3", "attempts.py", "/tmp", options=["--no-sync"]).stdout, "the attempts")


@each_user
def any_name_is_possible(u):
    for name in ODD:
        spill(os.path.join(os.fsencode(u.project), name), "1\n")
    script = ("import os; print(len(os.listdir(b'.'))); [os.rename(n, b'd' + n[:200]) for n in os.listdir(b'.')];"
              "[open(b'n' + n[:200], 'w').close() for n in os.listdir(b'.')]")
    eq(u.work("python3", "-c", script).stdout, f"{len(ODD)}\n".encode())
    eq(sorted(os.listdir(os.fsencode(u.project))), sorted(ODD))
    eq(u.work("python3", "-c", "import os; print(len(os.listdir(b'.')))", options=["--resume", u.works()[0]]).stdout,
       f"{2 * len(ODD)}\n".encode())


@each_user
def the_project_can_have_another_path_inside(u):
    spill(f"{u.project}/a", "1\n")
    eq(u.work("sh", "-c", "pwd; ls", options=["-w", "/workspace"]).stdout, b"/workspace\na\n")
    eq(u.work("pwd", options=["-w", "/deep/in/side", "--mode", "bind"]).stdout, b"/deep/in/side\n")


@each_user
def a_project_that_cannot_be_written_can_be_worked_on(u):
    os.mkdir(f"{u.project}/d")
    spill(f"{u.project}/d/a", "1\n")
    for name, mode in (("d/a", 0o444), ("d", 0o555), (".", 0o555)):
        os.chmod(f"{u.project}/{name}", mode)
    eq(u.work("sh", "-c", "chmod u+w . d d/a; echo 2 >d/a; echo 3 >d/b; cat d/*").stdout, b"2\n3\n")
    eq((slurp(f"{u.project}/d/a"), os.stat(u.project).st_mode & 0o777), ("1\n", 0o555))


@each_user
def the_exit_status_is_passed_on(u):
    u.work("sh", "-c", "exit 7", status=7)
    u.work("sh", "-c", "touch x; kill -TERM $$", status=143)
    eq(len(u.works()), 1, "its changes are kept")
    u.work("no-such-program", status=127)
    u.work("sleep", "60", options=["--timeout", "200ms"], status=124)
    eq(len(u.works()), 1, "a work without a change is not")


@each_user
def wrong_projects_are_refused(u):
    keys = f"{u.dir}/.ssh"
    os.makedirs(f"{keys}/in")
    for words, reason in ((["/no/such", "--", "true"], b"No such file"), (["/etc/passwd", "--", "true"], b"Not a directory"),
                          (["/", "--", "true"], b"cannot be a project"), ([u.project, "true"], b"write '--' before"),
                          ([u.env["HOME"], "--", "true"], b"home directory"), ([u.dir, "--", "true"], b"home directory"),
                          ([u.store, "--", "true"], b"own files"), ([keys, "--", "true"], b"directory for keys"),
                          (["--mode", "bind", f"{keys}/in", "--", "true"], b"directory for keys"),
                          (["--resume", "x", u.project, "--", "true"], b"that of the work"),
                          (["--resume", "nothing"], b"nothing"), (["--mode", "magic"], b"magic"),
                          (["-v", f"{u.project}:{u.project}", u.project], b"where the project is")):
        p = u.warren("work", *words)
        eq((p.returncode, p.stderr.count(b"\n")), (125, 1), f"{words}: {p}")
        ok(reason in p.stderr, f"{words}: {p}")
    eq(u.works(), [])


@each_user
def a_work_is_used_by_one_command_at_a_time(u):
    u.work("touch", "x", options=["--name", "one"])
    p = u.start("work", "--resume", "one", "--", "sh", "-c", "echo up; read x")
    try:
        eq(p.stdout.readline(), b"up\n")
        for words in (["--resume", "one", "--", "true"], ["--remove", "one"], ["--name", "one", u.project, "--", "true"]):
            q = u.warren("work", *words)
            eq(q.returncode, 125, f"{words}: {q}")
        p.communicate(b"\n", timeout=WAIT)
    finally:
        p.kill()
    eq(u.warren("work", "--resume", "one", "--", "ls").stdout, b"x\n")


@each_user
def two_works_on_one_project_do_not_affect_each_other(u):
    spill(f"{u.project}/a", "1\n")
    p = u.start("work", u.project, "--", "sh", "-c", "echo 2 >a; echo up; read x; cat a; ls")
    try:
        eq(p.stdout.readline(), b"up\n")
        eq(u.work("sh", "-c", "cat a; echo 3 >a; touch b").stdout, b"1\n")
        eq(p.communicate(b"\n", timeout=WAIT)[0], b"2\na\n")
    finally:
        p.kill()
    eq((len(u.works()), slurp(f"{u.project}/a")), (2, "1\n"))


@each_user
def changes_survive_a_kill(u):
    p = u.start("work", "--name", "killed", u.project, "--", "sh", "-c", "echo 1 >a; echo up; sleep 60")
    try:
        eq(p.stdout.readline(), b"up\n")
    finally:
        p.kill()
        p.communicate()
    deadline = time.monotonic() + WAIT
    q = u.warren("work", "--resume", "killed", "--", "cat", "a")
    while b"another sandbox" in q.stderr and time.monotonic() < deadline:  # the old one is just ending
        time.sleep(0.05)
        q = u.warren("work", "--resume", "killed", "--", "cat", "a")
    eq((q.returncode, q.stdout), (0, b"1\n"), f"{q}")


@each_user
def a_signal_ends_the_command_and_keeps_its_changes(u):
    p = u.start("work", u.project, "--", "sh", "-c", "trap 'exit 9' TERM; touch x; echo up; while :; do sleep 0.1; done")
    try:
        eq(p.stdout.readline(), b"up\n")
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=WAIT)
        eq(p.returncode, 9)
    finally:
        p.kill()
    eq(len(u.works()), 1)


@each_user
def git_works_inside_and_a_worktree_is_explained(u):
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    spill(f"{u.project}/a", "1\n")
    for words in (["init", "-q"], ["add", "a"], ["commit", "-qm", "one"]):
        u.run(*git, *words)
    eq(u.work("sh", "-c", "git status --short; echo 2 >a; git -c user.name=a -c user.email=a@example.org commit -qam two; "
                          "git log --format=%s").stdout, b"two\none\n")
    eq(u.run("git", "log", "--format=%s").stdout, b"one\n")
    eq(u.run("git", "status", "--short").stdout, b"")
    u.run("git", "worktree", "add", "-q", f"{u.dir}/tree")
    p = u.warren("work", f"{u.dir}/tree", "--", "true")
    ok(b"git does not work inside" in p.stderr, f"{p}")
    os.mkdir(f"{u.project}/sub")
    p = u.warren("work", f"{u.project}/sub", "--", "true")
    ok(b"git does not work inside" in p.stderr and f"the repository at '{u.project}'".encode() in p.stderr, f"{p}")


GIT = "git -c user.name=t -c user.email=t@example.org"


@each_user
def git_commits_inside_with_the_identity_of_the_user(u):
    def author(*options, script="git commit -q --allow-empty -m x", mode="overlay", where="."):
        p = u.work("sh", "-ec", f"cd {where}; {script}; git log -1 --format='%an <%ae> %cn <%ce>'",
                   options=["--mode", mode, *(["--no-sync"] if mode != "bind" else []), *options])
        return p.stdout.decode().strip()

    def same(name, email):
        return f"{name} <{email}> {name} <{email}>"

    u.run("git", "init", "-q")
    eq(author(), same("warren", "warren@localhost"), "the user has none")
    u.run("git", "config", "--global", "user.name", 'Jos\u00e9 "J" \\ B; #1')
    u.run("git", "config", "--global", "user.email", "user@example.org")
    user = same('Jos\u00e9 "J" \\ B; #1', "user@example.org")
    for mode in ("overlay", "copy", "bind"):
        eq(author(mode=mode), user, mode)
    os.mkdir(f"{u.project}/new")
    eq(author(where="new", script="git init -q; git commit -q --allow-empty -m x"), user, "a repository that is made inside")
    # Whatever else sets a name takes precedence.
    eq(author(script="git config user.name inside; git commit -q --allow-empty -m x"), same("inside", "user@example.org"))
    eq(author("-e", "GIT_AUTHOR_NAME=option"), f"option <user@example.org> {user.split('> ')[1]}")
    eq(author("-e", "GIT_CONFIG_SYSTEM=/dev/null", "-e", "EMAIL=m@example.org", script="git commit -q --allow-empty -m x").split("> ")[1],
       "root <m@example.org>")
    u.run("git", "config", "user.name", "repository")
    eq(author(), same("repository", "user@example.org"))
    eq([n for n in os.listdir("/tmp") if n.startswith("warren-git-") and os.stat(f"/tmp/{n}").st_uid in (UID, os.getuid())], [])


@each_user
def hidden_files_do_not_look_deleted_to_git(u):
    u.run("sh", "-ec", f"""git init -qb main; mkdir d .aws; echo 1 >a; echo 1 >d/.env; echo 1 >.aws/c; git add -A; {GIT} commit -qm one
git init -qb main sub; cd sub; echo 1 >.env; echo 1 >a; git add -A; {GIT} commit -qm one; {GIT} worktree add -q wt""")
    for mode in ("overlay", "copy"):
        p = u.work("sh", "-ec", f"for d in . sub sub/wt; do cd {u.project}/$d; {GIT} status --short -uno; {GIT} ls-files -v; done; cd {u.project};"
                   f"echo 2 >a; {GIT} commit -qam two; {GIT} add -u; echo 3 >a; {GIT} stash -q; {GIT} checkout -q HEAD~1; git checkout -q main;"
                   f"git log --format= --name-status -1; ls d .aws 2>&1", options=["--name", mode, "--mode", mode], status=2)
        eq(p.stdout, b"S .aws/c\nH a\nS d/.env\n" + b"S .env\nH a\n" * 2 + b"M\ta\n"
           b"ls: cannot access '.aws': No such file or directory\nd:\n", f"{p}")
        eq(u.warren("accept", mode, "--as-commits").returncode, 0)
        u.run("git", "reset", "-q", "--hard", "main")
        u.run("git", "-c", "advice.detachedHead=false", "checkout", "-q", f"warren/{mode}")
        eq(slurp(f"{u.project}/d/.env") + slurp(f"{u.project}/a"), "1\n2\n", "nothing hidden was deleted")
        u.run("git", "checkout", "-q", "main")
        eq(u.run("git", "ls-files", "-v").stdout, b"H .aws/c\nH a\nH d/.env\n", "the user's index has no marks")


@each_user
def commits_are_accepted_after_git_has_packed_them(u):
    u.run("sh", "-ec", f"git init -qb main; echo 1 >a; git add -A; {GIT} commit -qm one; {GIT} gc -q")
    for mode in ("overlay", "copy"):
        u.work("sh", "-ec", f"echo {mode} >a; {GIT} commit -qam two; {GIT} gc -q; ls .git/objects/pack/*.pack | grep -c . | grep -qx 1",
               options=["--name", mode, "--mode", mode])
        p = u.warren("accept", mode)
        ok(p.returncode == 0 and b"--as-commits" in p.stderr, f"{p}")
        p = u.warren("accept", mode, "--as-commits")
        eq((p.returncode, p.stdout.splitlines()[0]), (0, f"1 new commit in branch warren/{mode}".encode()), f"{p}")
        eq(u.run("git", "show", f"warren/{mode}:a").stdout, f"{mode}\n".encode())
        u.run("git", "fsck", "--strict")


@each_user
def commits_that_delete_hidden_files_need_permission(u):
    u.run("sh", "-ec", f"git init -qb main; echo 1 >a; echo 1 >.env; git add -A; {GIT} commit -qm one")
    u.work("sh", "-ec", f"git rm -q --sparse --cached .env; {GIT} commit -qm two", options=["--name", "w"])
    p = u.warren("accept", "w", "--as-commits")
    eq((p.returncode, p.stdout), (125, b""), f"{p}")
    ok(b"'.env'" in p.stderr and b"--allow hidden" in p.stderr, f"{p}")
    eq(u.run("git", "branch", "--format=%(refname:short)").stdout, b"main\n")
    eq(u.warren("accept", "w", "--as-commits", "--allow", "hidden").stdout.splitlines()[0], b"1 new commit in branch warren/w")


@each_user
def commits_that_change_hooks_need_permission(u):
    u.run("sh", "-ec", f"git init -qb main; mkdir .husky; echo 1 >.husky/x; git add -A; {GIT} commit -qm one; git config core.hooksPath .husky")
    u.work("sh", "-ec", f"echo 2 >.husky/pre-commit; git add -A; {GIT} commit -qm two", options=["--name", "w"])
    p = u.warren("accept", "w", "--as-commits")
    eq((p.returncode, p.stdout), (125, b""), f"{p}")
    ok(b"'.husky/pre-commit'" in p.stderr and b"--allow git" in p.stderr, f"{p}")
    eq(u.run("git", "branch", "--format=%(refname:short)").stdout, b"main\n")
    eq(u.warren("accept", "w", "--as-commits", "--allow", "git").stdout, b"1 new commit in branch warren/w\n")


@test
@needs_root
def mounts_below_the_project_are_named():
    def point(u):
        os.mkdir(f"{u.project}/m")
        subprocess.run(["mount", "-t", "tmpfs", "none", f"{u.project}/m"], check=True)
        try:
            spill(f"{u.project}/m/x", "")
            p = u.work("ls", "-A", "m")
            eq(p.stdout, b"")
            ok(f"what is mounted at '{u.project}/m' is not visible".encode() in p.stderr, f"{p}")
        finally:
            subprocess.run(["umount", f"{u.project}/m"], check=True)

    each_user(point, only_root=True)


@test
@needs_root
def files_of_the_project_keep_their_owner():
    def point(u):
        os.chown(u.project, 52001, 52001)
        spill(f"{u.project}/mine", "1\n")
        os.chown(f"{u.project}/mine", 52001, 52001)
        spill(f"{u.project}/other", "1\n")
        os.chmod(f"{u.project}/other", 0o600)
        eq(u.work("sh", "-c", "stat -c '%n %u' mine other; cat other 2>&1 | tail -c 18; echo 2 >mine; touch new").stdout,
           b"mine 0\nother 65534\nPermission denied\n")
        upper = f"{u.store}/works/{u.works()[0]}/writes/upper"
        eq([os.stat(f"{upper}/{n}").st_uid for n in (".", "mine", "new")], [52001] * 3)

    each_user(point, only_root=True)


GROUP, COLLEAGUE = 54321, 52002


def share(u):
    """Fills the project as on a shared machine: all belongs to a group, and some to a colleague."""
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "safe.directory=*", "-C", u.project]
    os.makedirs(f"{u.project}/shared/sub")
    for name in ("top", "f", "ro", "secret", "gone", "moved", "sub/f"):
        spill(f"{u.project}/{name if name == 'top' else f'shared/{name}'}", "1\n")
    spill(f"{u.project}/shared/moved", "moved\n")
    os.makedirs(f"{u.project}/large")
    with open(f"{u.project}/large/f", "wb") as f:
        f.truncate(300 << 20)
    for words in (["init", "-q", "--shared=group"], ["add", "top", "shared/f"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    spill(f"{u.project}/shared/.env", "secret\n")
    u.own()
    subprocess.run(f"chown -R {COLLEAGUE}:{GROUP} . && chmod -R g+rwX . && find . -type d -exec chmod g+s {{}} + && "
                   f"chmod 644 shared/ro && chmod 600 shared/secret && chown 52001:{GROUP} .",
                   shell=True, cwd=u.project, check=True)
    u.prefix = [f"--groups={GROUP}" if w == "--clear-groups" else w for w in u.prefix]
    u.own = lambda: None


def change_shared_files(u):
    share(u)
    p = u.work("sh", "-c", "echo 2 >>shared/f && echo 2 >>top && echo 2 >>shared/sub/f && echo n >shared/n && mkdir shared/d &&"
               "rm shared/gone && mv shared/moved shared/there && ls -A shared && git -c user.name=a -c user.email=a@b commit -qam two;"
               "for f in ro secret; do echo 2 >>shared/$f; done; cat shared/secret", options=["--name", "w"], status=1)
    eq(p.stdout.split(), [b"d", b"f", b"n", b"ro", b"secret", b"sub", b"there"], f"{p}")
    eq(p.stderr.count(b"too large to be copied"), 1, f"{p}")
    ok(b"in 'large' belong" in p.stderr, f"{p}")
    eq(p.stderr.count(b"Permission denied"), 3, f"what the user may not write or read: {p}")
    eq([line for line in u.warren("diff", "w", "--name-status").stdout.splitlines() if b".git" not in line],
       [b"A\tshared/d", b"M\tshared/f", b"D\tshared/gone", b"A\tshared/n", b"M\tshared/sub/f", b"R\tshared/moved\tshared/there",
        b"M\ttop"])
    spill(f"{u.project}/shared/sub/f", "new\n")  # a copy of the file is in the work
    eq(u.work("cat", "shared/f", options=["--resume", "w"]).stdout, b"1\n2\n")
    p = u.warren("accept", "w", f"{u.project}/shared", f"{u.project}/top", "--conflicts", "theirs")
    eq(p.returncode, 0, f"{p}")
    eq(slurp(f"{u.project}/shared/f") + slurp(f"{u.project}/top") + slurp(f"{u.project}/shared/n"), "1\n2\n1\n2\nn\n")
    for name in ("f", "n", "d", "there", "sub/f"):
        eq(os.stat(f"{u.project}/shared/{name}").st_gid, GROUP, name)
    eq([oct(os.stat(f"{u.project}/shared/{n}").st_mode & 0o7777) for n in ("", "d", "f")], ["0o2775", "0o2755", "0o664"])


@test
@needs_root
def files_that_a_group_shares_can_be_changed():
    for other in (False, True):
        u = User(other)
        try:
            change_shared_files(u)
        finally:
            u.done()


if __name__ == "__main__":
    ok(ROOT in (True, False), "ROOT is known")
    sys.exit(main())
