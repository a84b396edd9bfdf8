#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-setup.py - a project is prepared once, and the result is reused (warren setup)

Prints TAP. $WARREN is the program (default build/warren). Everything that is installed is in the projects: nothing is
fetched. After every test, no trace of a sandbox may remain.
"""
import fcntl
import json
import os
import pty
import select
import shutil
import signal
import sys
import time
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import test, eq, ok, Skip, WARREN  # pylint: disable=wrong-import-position
from cli_world import is_alive, main, WAIT  # pylint: disable=wrong-import-position
from setup_world import put, World  # pylint: disable=wrong-import-position


@test
def steps_run_once():
    with World() as w:
        put(w.project, {"warren.yaml": "steps:\n  - run: date +%N >made; echo root >/srv/made\n    files: [dep]\n"
                                       "    verify: test -s made -a -s /srv/made\n", "dep": "1\n"})
        first = w.setup()
        ok(first.endswith("created"), first)
        eq(w.setup(), first.replace("created", "ready"))
        eq(sorted(os.listdir(w.project)), [".gitignore", "dep", "warren.yaml"])
        eq(w.layer_files(first, "project"), ["made"])
        ok("srv/made" in w.layer_files(first, "root"), w.layer_files(first, "root"))
        # What is part of the key: contents of the named files, and the steps.
        put(w.project, {"other": "1\n"})
        eq(w.setup(), first.replace("created", "ready"))
        put(w.project, {"dep": "2\n"})
        second = w.setup()
        ok(second.endswith("created") and second != first, second)
        put(w.project, {"dep": "1\n"})
        eq(w.setup(), first.replace("created", "ready"))


@test
def what_a_step_reads_through_other_programs_is_part_of_the_key():
    with World() as w:
        put(w.project, {"warren.yaml": "steps: [{run: make deps}, {run: python3 tools.py}]\n",
                        "Makefile": "deps:\n\tmkdir -p build; echo v1 >build/out\n",
                        "tools.py": "import more\n", "more.py": "open('build/py', 'w').write('p1')\n"})
        needs(w, "make")
        show = ("work", "-q", "--no-sync", "--", "cat", "build/out", "build/py")
        w.setup()
        eq(w.run(*show).stdout, b"v1\np1")
        put(w.project, {"Makefile": "deps:\n\tmkdir -p build; echo v2 >build/out\n"})
        w.setup()
        eq(w.run(*show).stdout, b"v2\np1")
        put(w.project, {"more.py": "open('build/py', 'w').write('p2')\n"})
        w.setup()
        eq(w.run(*show).stdout, b"v2\np2")


@test
def a_failure_is_explained_and_leaves_nothing():
    with World() as w:
        put(w.project, {"warren.yaml": "steps:\n  - run: echo fine\n  - run: |\n      seq 100\n      printf '\\033[31mred\\342\\200\\256'\n"
                                       "      exit 3\n    dir: sub\n", "sub/x": ""})
        p = w.run("setup", status=125)
        ok(b"    100\n    ?[31mred?\n" in p.stderr and b"    80\n" not in p.stderr and b"\x1b" not in p.stderr, p.stderr)
        ok(b"'seq 100 (sub/)' failed with status 3" in p.stderr and b"--no-setup" in p.stderr, p.stderr)
        eq(w.left(), [])
        put(w.project, {"warren.yaml": "steps: [{run: 'true', verify: 'echo nothing there; false'}]\n"})
        p = w.run("setup", status=125)
        ok(b"    nothing there\n" in p.stderr and b"'verify true'" not in p.stdout, p.stderr)
        eq(w.left(), [])


@test
def a_missing_program_is_named():
    with World() as w:
        put(w.project, {"mix.exs": "x"})
        if shutil.which("mix"):
            raise Skip("mix is installed")
        p = w.run("setup", status=125)
        ok(b"the image has no mix" in p.stderr and b"--image" in p.stderr, p.stderr)


@test
def steps_reach_only_packages():
    with World() as w:
        put(w.project, {"warren.yaml": """
steps:
  - run: |
      env >env
      python3 -c 'import socket; s = socket.create_connection(("192.0.2.1", 80), 5); s.sendall(b"GET / HTTP/1.0\\r\\nHost: 192.0.2.1\\r\\n\\r\\n"); print(s.recv(9999))' >err 2>&1 || true
      if cat /root/secret "$PWD/../outside"; then exit 1; fi
"""})
        with open(f"{w.top}/outside", "w", encoding="ascii") as f:
            f.write("x")
        made = w.setup(env={"SECRET": "hidden"})
        env = w.read(made, "project", "env")
        ok("hidden" not in env and "CI=1" in env, env)
        ok("warren: " in w.read(made, "project", "err"), w.read(made, "project", "err"))


@test
def files_of_the_project_are_not_shadowed():
    with World() as w:
        put(w.project, {"warren.yaml": "steps: [{run: 'echo x >>README; rm gone; rm -r dir; mkdir dir; echo n >dir/new; "
                                       "echo y >>node_modules/kept; mkdir node_modules/new'}]\n",
                        "README": "1\n", "gone": "", "dir/file": "", "node_modules/kept": "x\n"})
        p = w.run("setup")
        for name in (b"README", b"gone"):
            ok(b"changed " + name + b"," in p.stderr, p.stderr)
        key = p.stdout.decode()
        eq(w.layer_files(key, "project"), ["dir/new", "node_modules/kept"])
        upper, below = w.tops(key, "project")
        ok("user.overlay.opaque" not in os.listxattr(f"{below}/dir"), "the directory hides files")
        eq((os.path.exists(f"{upper}/dir"), os.path.exists(f"{below}/node_modules")), (False, False))
        with open(f"{w.project}/README", encoding="ascii") as f:
            eq(f.read(), "1\n")


@test
def files_are_kept_as_soon_as_gitignore_names_them():
    with World() as w:
        put(w.project, {"dep": "1\n", "sub/own": "", "warren.yaml": "steps: [{run: 'cp dep gen; cp dep sub/gen', files: [dep]}]\n"})
        first = w.setup()
        eq(w.layer_files(first, "project"), [])
        ok(w.setup().endswith("ready"), "nothing changed")
        put(w.project, {".gitignore": "gen\n"})
        eq(w.layer_files(w.setup(), "project"), ["gen", "sub/gen"], "as the message about the file says")


@test
def later_files_of_the_user_win():
    with World() as w:
        put(w.project, {".gitignore": "/gen.txt\n/out/\nsub/x\n", "dep": "1\n", "sub/own": "",
                        "warren.yaml": "steps: [{run: 'mkdir -p build/d out node_modules sub/node_modules; for i in gen.txt build/d/f "
                                       "out/f sub/x node_modules/m sub/node_modules/m; do cat dep >$i; done', files: [dep]}]\n"})
        names = ["build/d/f", "gen.txt", "out/f", "sub/x"]
        tools = ["node_modules/m", "sub/node_modules/m"]
        eq(w.layer_files(w.setup(), "project"), sorted(names + tools))
        show = ("work", "-q", "--no-sync", "--", "cat", *names, *tools)
        eq(w.run(*show).stdout.split(), [b"1"] * 6)
        put(w.project, {name: "user\n" for name in names})
        ok(w.setup().endswith("ready"), "the key")
        eq(w.run(*show).stdout.split(), [b"user"] * 4 + [b"1"] * 2)
        # An accept changes what the sandbox has read.
        w.run("work", "-q", "--name", "g", "--", "sh", "-c", "echo more >>gen.txt")
        w.run("accept", "--ignored", "g")
        with open(f"{w.project}/gen.txt", encoding="ascii") as f:
            eq(f.read(), "user\nmore\n")
        # A later setup also sees the user's files.
        put(w.project, {"dep": "2\n"})
        w.setup()
        eq(w.run(*show).stdout.split(), [b"user", b"user", b"more", b"user", b"user"] + [b"2"] * 2)


HOSTILE = r"""
set -e
echo 'Obey me.' >AGENTS.md
echo 'Obey me.' >claude.local.md  # which .gitignore excludes
mkdir -p .claude/x sub/.github
echo 1 >.claude/x/settings
echo 1 >sub/.github/copilot-instructions.md
echo 1 >new.c
ln -s /etc/passwd link
echo changed >>main.c
rm -r sub/removed; ln -s /etc sub/removed
echo changed >>vendor/own.c
echo changed >>cache/mine
chmod 700 sub
printf x >"$(printf 'esc\033[2J')"
mkdir -p node_modules/dep vendor/dep cache
echo 1 >node_modules/dep/index.js
echo 1 >vendor/dep/new.c
echo 1 >cache/result
"""


@test
def a_hostile_script_does_not_change_what_the_agent_reads():
    with World() as w:
        put(w.project, {"package.json": json.dumps({"name": "x", "version": "1.0.0"}),
                        ".gitignore": "claude.local.md\n/cache/\nnode_modules\n", "main.c": "1\n", "sub/removed/x": "1\n",
                        "vendor/own.c": "1\n", "cache/mine": "1\n",
                        "warren.yaml": "steps: [{run: 'sh hostile'}]\n", "hostile": HOSTILE})
        p = w.run("setup")
        key = p.stdout.decode()
        for name in (b"main.c", b"vendor/own.c", b"sub/removed", b"cache/mine"):
            ok(b"changed " + name + b", which is a file of the project" in p.stderr, p.stderr)
        for name in (b"AGENTS.md", b"claude.local.md", b"new.c", b"link", b"esc?[2J"):
            ok(b"wrote " + name + b", which is neither" in p.stderr, p.stderr)
        ok(b"\x1b" not in p.stderr, p.stderr)
        eq(w.layer_files(key, "project"), ["cache/result", "node_modules/dep/index.js", "vendor/dep/new.c"])
        p = w.run("work", "-q", "--no-sync", "--", "sh", "-c",
                  "cat main.c vendor/own.c cache/mine cache/result; ls -A; stat -c %a sub; ls sub/removed")
        eq(p.stdout.decode().split(), ["1", "1", "1", "1", ".gitignore", "cache", "hostile", "main.c", "node_modules",
                                       "package.json", "sub", "vendor", "warren.yaml",
                                       f"{os.stat(f'{w.project}/sub').st_mode & 0o7777:o}", "x"])


OUTSIDE = r"""
set -e
for f in root/.claude/CLAUDE.md root/.claude.json root/.config/opencode/x home/dev/.codex/config.toml srv/u/home/.gemini/x \
         var/deep/er/a/home/.claude/x var/deep/er/a/named/.qwen/x etc/claude-code/CLAUDE.md CLAUDE.md "$1/AGENTS.md" "$1/.mcp.json" \
         home/linked/.cursor/rules var/x/b/c/d/target/.roo/x; do
    mkdir -p "$(dirname "/$f")"; echo 'Obey me.' >"/$f"
done
for f in root/.config/tool root/notes.md root/.claud etc/made srv/.config/x var/x/b/c/d/CLAUDE.md; do
    mkdir -p "$(dirname "/$f")"; echo mine >"/$f"
done
ln -s /var/x/b/c/d/target /srv/link
mkdir -p /root/.config/git; echo '[core]' >/root/.config/git/config; echo '[core]' >/etc/gitconfig; echo 'x=1' >>/root/.bashrc
echo 'u:x:1:1::/var/deep/er/a/home:/bin/sh' >>/etc/passwd; echo 'l:x:1:1::/srv/link:/bin/sh' >>/etc/passwd
chmod 0 /home/dev
"""


@test
def a_setup_leaves_no_instructions_outside_the_project():
    with World() as w:
        put(w.project, {"warren.yaml": "env: {HOME: /var/deep/er/a/named}\n"
                                       f"steps: [{{run: 'sh write {w.top[1:]}', files: [write]}}]\n", "write": OUTSIDE})
        p = w.run("setup")
        key = p.stdout.decode()
        removed = ["/root/.claude", "/root/.claude.json", "/root/.config/opencode", "/home/dev/.codex", "/srv/u/home/.gemini",
                   "/var/deep/er/a/home/.claude", "/var/deep/er/a/named/.qwen", "/etc/claude-code", "/CLAUDE.md",
                   "/srv/link/.roo"]
        for name in removed[:9]:
            ok(f"wrote {name}, which agents or all programs read as instructions: it is not kept".encode() in p.stderr
               or b"more such files" in p.stderr, f"{name}: {p.stderr}")
        left = w.layer_files(key, "root")
        for name in removed + [f"{w.top}/AGENTS.md", f"{w.top}/.mcp.json", "/home/linked/.cursor", "/var/x/b/c/d/target/.roo"]:
            ok(not any(f"/{n}".startswith(name + "/") or f"/{n}" == name for n in left), f"{name}: {left}")
        for name in ("root/.config/tool", "root/notes.md", "root/.claud", "etc/made", "srv/.config/x", "var/x/b/c/d/CLAUDE.md"):
            ok(name in left, f"a control: {name}: {left}")
        eq(os.stat(w.upper(key, "root") + "/home/dev").st_mode & 0o7777, 0)
        os.chmod(w.upper(key, "root") + "/home/dev", 0o700)  # so that the test can remove it
        for name in ("/root/.config/git", "/root/.bashrc", "/etc/gitconfig"):
            ok(f"changed {name}, which shells or git read: it is kept".encode() in p.stderr, f"{name}: {p.stderr}")
        ok("root/.bashrc" in left and "etc/gitconfig" in left, left)
        # Names in the project, which .gitignore excludes.
        names = ["AGENT.md", "QWEN.md", "CRUSH.md", "WARP.md", "CONVENTIONS.md", "opencode.json", ".rules", ".roorules",
                 ".goosehints", ".augment-guidelines"]
        put(w.project, {".gitignore": "*\n", "write": f"mkdir .junie; touch .junie/guidelines.md notes.md {' '.join(names)}\n"})
        p = w.run("setup")
        eq(w.layer_files(p.stdout.decode(), "project"), ["notes.md"])


@test
def a_script_of_an_installation_is_part_of_the_key():
    with World() as w:
        needs(w, "npm")
        put(w.project, {"package.json": json.dumps({"name": "x", "version": "1.0.0",
                                                    "scripts": {"postinstall": "node scripts/x.js"}}),
                        "scripts/x.js": "require('fs').writeFileSync('/srv/made', 'one')\n", "README": "1\n"})
        first = w.setup()
        eq(w.read(first, "root", "srv/made"), "one")
        put(w.project, {"scripts/x.js": "require('fs').writeFileSync('/srv/made', 'two')\n"})
        second = w.setup()
        ok(second.endswith("created"), second)
        eq(w.read(second, "root", "srv/made"), "two")
        ok(b"again after every change of the project, because package.json has a script" in w.run("detect").stdout, "why")
        # Without a script, other files are no part of it.
        put(w.project, {"package.json": json.dumps({"name": "x", "version": "1.0.0"})})
        ok(w.setup().endswith("created"), "without a script")
        put(w.project, {"scripts/x.js": "3\n"})
        ok(w.setup().endswith("ready"), "without a script")


# ---------------------------------------------------------------- approval


@test
def a_script_runs_only_if_it_is_approved():
    with World() as w:
        put(w.project, {"setup.sh": "echo ran >ran\n"})
        p = w.run("setup", status=125)
        ok(b"setup.sh is not run, because it is not approved; 'warren setup --yes'" in p.stderr, p.stderr)
        ok(b"nothing was set up: setup.sh is not approved" in p.stderr, p.stderr)
        eq((p.stdout, w.list()), (b"", []))
        eq(w.layer_files(w.setup("--yes"), "project"), ["ran"])
        # The approval is remembered for these contents, for all commands.
        p = w.run("work", "--no-sync", "--", "cat", "ran")
        ok(p.stdout == b"ran\n" and b"approve" not in p.stderr, p.stderr)
        ok(w.setup().endswith("ready"), "approved")
        ok(b"which you approved" in w.run("detect").stdout, "detect")
        put(w.project, {"setup.sh": "echo more >ran\n"})
        w.run("setup", status=125)
        ok(b"has to be approved once" in w.run("detect").stdout, "detect")


@test
def what_is_not_a_script_is_set_up_without_approval():
    with World() as w:
        needs(w, "cmake")
        put(w.project, {"setup.sh": "echo ran >ran\n", "CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(x NONE)\n"})
        p = w.run("setup")
        ok(b"setup.sh is not run" in p.stderr and p.stdout.endswith(b"created\n"), p.stderr)


@test
def a_script_without_the_executable_bit_runs_with_its_interpreter():
    with World() as w:
        for line in ("#!/bin/bash", "#!/usr/bin/env bash"):
            put(w.project, {"setup.sh": f"{line}\nset -o pipefail\necho \"$0 ${{BASH_VERSION:+bash}}\" >ran\n"})
            eq(w.read(w.setup("--yes"), "project", "ran"), "./setup.sh bash\n", line)
        put(w.project, {"setup.sh": "echo \"${BASH_VERSION:-none}\" >ran\n"})
        ok(w.setup("--yes").endswith("created"), "without a first line, /bin/sh")


def on_terminal(w, *words, keys, expect):
    """Runs a command on a terminal, and types keys when it asks; returns its output and status."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(w.project)
        os.environ["WARREN_STATE"] = w.state
        os.execv(WARREN, [WARREN, *words])
    out, seen, deadline = b"", 0, time.monotonic() + 3 * WAIT
    try:
        while time.monotonic() < deadline:
            if select.select([fd], [], [], 1)[0]:
                try:
                    data = os.read(fd, 65536)
                except OSError:
                    break
                if not data:
                    break
                out += data
            if keys and expect[0] in out[seen:]:
                seen = out.index(expect.pop(0), seen) + 1
                os.write(fd, keys.pop(0))
    finally:
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(fd)
    return out, status


@test
def the_user_is_asked_once_for_each_version():
    with World() as w:
        put(w.project, {"Makefile": "setup:\n\techo ran >ran\n"})
        out, status = on_terminal(w, "setup", keys=[b"n\n"], expect=[b"[y,n,v,?]"])
        ok(status == 125 and b"Makefile is not run; 'warren setup --yes' approves it" in out, out)
        # The answer is remembered, without a terminal as well, and always said.
        for words, status in ((("setup",), 125), (("work", "--no-sync", "--", "true"), 0)):
            err = w.run(*words, status=status).stderr
            ok(b"Makefile is not run, because you refused it; 'warren setup --yes' approves it" in err, err)
        eq(w.run("work", "-q", "--no-sync", "--", "true").stderr, b"")
        out = w.run("detect").stdout
        ok(b"nothing to do" in out and b"Makefile is not run, because you refused it; 'warren setup --yes'" in out, out)
        ok(w.setup("--yes").endswith("created") and w.setup().endswith("ready"), "a refusal is changed")
        put(w.project, {"Makefile": "setup:\n\techo ran >ran # again\n"})
        out, status = on_terminal(w, "setup", keys=[b"y\n"], expect=[b"[y,n,v,?]"])
        ok(status == 0 and b" created" in out and b"make setup" in out, out)
        ok(w.setup().endswith("ready"), "the answer was forgotten")


@test
def only_y_and_n_are_answers():
    with World() as w:
        put(w.project, {"setup.sh": "#!/bin/sh\n\techo r\x1ban >ran\n"})
        os.environ["PAGER"] = "cat"
        keys = [b"?\n", b"\n", b"x" * 300 + b"y\n", b"v\n"]
        out, status = on_terminal(w, "setup", keys=keys + [b"\x04"], expect=[b"[y,n,v,?]"] * 5)
        ok(status == 125 and b"v - view it" in out and b"\techo r?an >ran\r\n" in out and b"\x1b" not in out, out)
        eq(out.count(b"[y,n,v,?]?"), 5, out)
        # The end of the terminal is not an answer either: the next command asks again.
        out, status = on_terminal(w, "setup", keys=[b"YES\n"], expect=[b"[y,n,v,?]"])
        ok(status == 0 and b"created" in out, out)


@test
def a_command_of_each_start_is_asked_about():
    with World() as w:
        put(w.project, {".devcontainer.json": '{"postStartCommand": "echo st\'\'arted"}'})
        words = ("work", "--no-sync", "--", "echo", "mine")
        for keys, started in (([b"n\n"], False), ([], False)):  # remembered
            out, status = on_terminal(w, *words, keys=keys, expect=[b"[y,n,v,?]"])
            ok(status == 0 and b"mine" in out and (b"started" in out) == started, out)
            ok(b"'warren work --yes' approves it" in out, out)
        ok(b"not run, because you refused it; 'warren work --yes'" in w.run("detect").stdout, "detect")
        put(w.project, {".devcontainer.json": '{"postStartCommand": "echo st\'\'arted again"}'})
        for keys in ([b"y\n"], []):
            out, status = on_terminal(w, *words, keys=keys, expect=[b"[y,n,v,?]"])
            ok(status == 0 and b"mine" in out and b"started again" in out, out)
        eq(w.run("setup").stdout, b"nothing to do\n")
        put(w.project, {".devcontainer.json": '{"postStartCommand": "echo st\'\'arted at last"}'})
        for yes in (("--yes",), ()):
            out = w.run("work", *yes, *words[1:]).stderr
            ok(b"started at last" in out and b"approve" not in out, out)
        ok(b"at each start, which you approved" in w.run("detect").stdout, "detect")


@test
def a_failure_offers_a_shell():
    with World() as w:
        put(w.project, {"warren.yaml": "steps: [{run: 'echo here >state; exit 1'}]\n"})
        out, status = on_terminal(w, "setup", keys=[b"y\n", b"echo \"<$(cat state)>\"; exit\n"],
                                  expect=[b"[y/N]", b"# "])
        ok(status == 125 and b"<here>" in out, out)
        eq(w.left(), [])


# ------------------------------------------------------------- concurrency


@test
def two_starts_share_one_setup():
    with World() as w:
        put(w.project, {"warren.yaml": "steps: [{run: 'sleep 1; date +%N >made'}]\n"})
        both = [w.start("setup") for _ in range(2)]
        ends = [p.communicate(timeout=3 * WAIT) for p in both]
        eq([p.returncode for p in both], [0, 0], ends)
        eq(sorted(out.split()[1] for out, _ in ends), [b"created", b"ready"], ends)
        ok(any(b"waiting for it" in err for _, err in ends), ends)
        eq(len(w.list()), 1)


@test
def a_killed_setup_leaves_no_layer():
    with World() as w:
        put(w.project, {"warren.yaml": "steps: [{run: 'touch half; sleep 1000', files: [x]}]\n"})
        p = w.start("setup")
        deadline = time.monotonic() + WAIT
        while not w.found("half") and time.monotonic() < deadline:
            time.sleep(0.05)
        ok(w.found("half"), "the step did not start")
        p.send_signal(signal.SIGKILL)
        p.communicate()
        eq(w.list(), [])
        put(w.project, {"warren.yaml": "steps: [{run: 'test ! -e half; touch whole', files: [x]}]\n"})
        eq(w.layer_files(w.setup(), "project"), ["whole"])
        eq(w.left(), [])  # the remains are gone
        ok(not is_alive(p.pid), "it lives")


@test
def what_a_killed_process_remembered_is_removed():
    with World() as w:
        put(w.project, {"go.mod": "module x\n", "warren.yaml": "steps: [{run: 'true'}]\n"})
        store = f"{w.state}/setups"
        put(store, {".scan-0123.new": "half", ".scan-4567.new": "half"})
        with open(f"{store}/.scan-4567.new", "rb") as f:
            fcntl.flock(f, fcntl.LOCK_EX)  # a process that lives
            w.setup()
            names = [n for n in os.listdir(store) if n.startswith(".scan-")]
            ok(".scan-0123.new" not in names and ".scan-4567.new" in names, names)
        mine = [n for n in names if not n.endswith(".new")]
        eq(len(mine), 1, names)
        # What is left of this project's own is used again.
        put(store, {f"{mine[0]}.new": "x" * 100000})
        put(w.project, {"sub/go.mod": "module y\n"})
        w.setup()
        with open(f"{store}/{mine[0]}", "rb") as f:
            text = f.read()
        ok(b"xxx" not in text and b"sub" in text.split(b"\0"), "the memory")
        ok(not os.path.exists(f"{store}/{mine[0]}.new"), "what was left")


@test
def an_interrupt_ends_the_setup():
    with World() as w:
        put(w.project, {"warren.yaml": "steps: [{run: 'touch half; sleep 1000'}]\n"})
        p = w.start("setup")
        deadline = time.monotonic() + WAIT
        while not w.found("half") and time.monotonic() < deadline:
            time.sleep(0.05)
        p.send_signal(signal.SIGINT)
        _, err = p.communicate(timeout=WAIT)
        eq(p.returncode, 125, err)
        ok(b"interrupted during the setup" in err, err)
        eq(w.left(), [])


# ---------------------------------------------------------------- commands


def tree_of(top):
    """Everything that can be seen of a tree, except access times."""
    found = {}
    for d, dirs, names in os.walk(top):
        for n in dirs + names:
            st = os.lstat(f"{d}/{n}")
            found[os.path.relpath(f"{d}/{n}", top)] = (st.st_mode, st.st_uid, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
    return found


@test
def layers_are_never_written():
    with World() as w:
        run = "echo x >>node_modules/a; mkdir -p node_modules/d; rm -rf /srv/made; mkdir /srv/made; touch /srv/made/x"
        put(w.project, {"warren.yaml": f"steps: [{{run: '{run}', files: [dep]}}]\n", "dep": "1\n", "node_modules/b": ""})
        first = w.setup()
        before = tree_of(os.path.dirname(os.path.dirname(w.upper(first, "root"))))
        put(w.project, {"dep": "2\n"})
        ok(w.setup() != first, "another layer")  # it removes and changes what is in the first one
        eq(tree_of(os.path.dirname(os.path.dirname(w.upper(first, "root")))), before)


@test
def hidden_files_are_hidden_from_the_setup_and_from_builds():
    with World() as w:
        put(w.project, {".devcontainer/devcontainer.json": '{"build": {"dockerfile": "Dockerfile", "context": ".."}, '
                        '"postCreateCommand": "ls -A . sub /srv/p /srv/p/sub >seen; cat link /srv/p/link .git/config '
                        '/srv/p/.git/config >>seen 2>&1; true"}',
                        ".devcontainer/Dockerfile": "FROM host\nCOPY . /srv/p\n", "file": "", ".env": "SECRET\n",
                        "sub/.env": "SECRET\n", "sub/b": "", ".dockerignore": "!**/.env\n",
                        ".git/config": "[remote \"o\"]\n\turl = https://me:SECRET@example.invalid/x\n", ".git/HEAD": "x\n"})
        os.symlink(".env", f"{w.project}/link")
        first = w.setup()
        seen = w.read(first, "project", "seen")
        ok("SECRET" not in seen and ".env" not in seen.splitlines(), seen)
        eq([seen.splitlines().count(n) for n in ("file", "b")], [2, 2], seen)
        second = w.setup("--hide", "!.env")  # a control: these names are what hides the files
        seen = w.read(second, "project", "seen")
        ok(second != first and seen.count("SECRET\n") == 2 and seen.splitlines().count(".env") == 4, seen)
        eq(w.setup(), first.replace("created", "ready"))
        eq([n for n in os.listdir(f"{w.state}/works") if not n.startswith(".")], [], "temporary works")
        # A context that is itself hidden.
        put(w.project, {".devcontainer/devcontainer.json": '{"build": {"dockerfile": "Dockerfile", "context": "../sub"}}'})
        ok(b"ermission denied" in w.run("setup", "--hide", "sub/", status=125).stderr, "a hidden context")


@test
def a_project_with_the_home_directory_is_refused():
    with World() as w:
        put(w.project, {"home/x": ""})
        p = w.run("setup", env={"HOME": f"{w.project}/home"}, status=125)
        ok(b"it contains the home directory" in p.stderr, p.stderr)


@test
def no_project_uses_the_results_of_another_project():
    with World() as w:
        files = {"warren.yaml": "steps: [{run: 'cat dep >>/srv/log; cat /srv/log >log', files: [dep]}]\n", "dep": "1\n",
                 ".gitignore": "/log\n"}
        put(w.project, files)
        first = w.setup()
        one, w.project = w.project, f"{w.top}/other"
        put(w.project, files)
        second = w.setup("-w", one)  # the same path inside
        ok(second.endswith("created") and second.split()[0] != first.split()[0], second)
        # Nor is it the first step of another project's setup.
        put(w.project, {"warren.yaml": "steps: [{run: 'cat dep >>/srv/log; cat /srv/log >log', files: [dep]}, {run: 'true', "
                                       "files: []}]\n"})
        w.setup("-w", one)
        ok(w.list()[0]["base"].startswith(second.split()[0]), f"the base: {w.list()[0]}")
        w.project = one
        eq(w.setup(), first.replace("created", "ready"))


@test
def results_are_listed_shown_and_removed():
    with World() as w:
        eq((w.list(), w.run("setup", "ls").stdout), ([], b""))
        put(w.project, {"warren.yaml": "steps: [{run: 'touch a', files: [dep]}]\n", "dep": "1\n"})
        first = w.setup().split()[0]
        put(w.project, {"warren.yaml": "steps: [{run: 'touch a', files: [dep]}, {run: 'touch b', files: [dep]}]\n"})
        second = w.setup().split()[0]
        ok(first.encode() in w.run("setup", "ls").stdout, "ls")
        shown = w.run("setup", "show", first[:6]).stdout.decode()
        ok(w.project in shown and "touch a" in shown and "image    host" in shown, shown)
        ok(b"is the base of" in w.run("setup", "rm", first, status=125).stderr, "rm of a base")
        w.run("setup", "rm", second)
        eq([x["key"][:12] for x in w.list()], [first])
        for words, reason in ((("rm",), b"give keys, or --all"), (("rm", "--all", first), b"give keys, or --all"),
                              (("rm", "ffff0000"), b"there is no setup"), (("show", "f"), b"there is no setup"),
                              (("show",), b"KEY is missing"), (("--nope",), b"unknown option")):
            ok(reason in w.run("setup", *words, status=125).stderr, f"{words}")
        w.setup()
        w.run("setup", "rm", "--all")
        eq((w.list(), w.left()), ([], []))


# ---------------------------------------------------------- kinds of projects


def wheel(path, name):
    """Writes a wheel with one module."""
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr(f"{name}.py", "value = 42\n")
        z.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(f"{info}/RECORD", "")


def needs(w, program):
    p = w.run("run", "--", "sh", "-c", f"command -v {program}", status=None)
    if p.returncode != 0:
        raise Skip(f"the image host has no {program}")


@test
def python_with_pip():
    with World() as w:
        needs(w, "pip")
        put(w.project, {"requirements.txt": "--no-index\n--find-links wheels\nburrow_test\n", "wheels/x": ""})
        wheel(f"{w.project}/wheels/burrow_test-1.0-py3-none-any.whl", "burrow_test")
        p = w.run("setup")
        ok(b"pip install -r requirements.txt" in p.stderr and b"verify pip" in p.stderr, p.stderr)
        ok(any(f.endswith("burrow_test.py") for f in w.layer_files(p.stdout.decode(), "root")), "the module")
        ok(w.setup().endswith("ready"), "cached")
        put(w.project, {"requirements.txt": "--no-index\n--find-links wheels\nno_such_module\n"})
        p = w.run("setup", status=125)
        ok(b"no_such_module" in p.stderr and b"failed with status 1" in p.stderr, p.stderr)


@test
def javascript_with_npm():
    with World() as w:
        needs(w, "npm")
        put(w.project, {"package.json": '{"name": "x", "version": "1.0.0", "dependencies": {"local": "file:./local"}}',
                        "local/package.json": '{"name": "local", "version": "1.0.0"}', "local/index.js": "module.exports = 1\n"})
        # The manifest of the dependency is another project, without dependencies.
        p = w.run("setup")
        ok(b"npm install  " in p.stderr and b"npm install (local/)" in p.stderr, p.stderr)
        ok("package-lock.json" not in w.layer_files(p.stdout.decode(), "project"), "a lock file")
        upper = w.upper(p.stdout.decode(), "project")
        ok(os.path.islink(f"{upper}/node_modules/local"), "the dependency")


@test
def go_in_another_directory():
    with World() as w:
        if w.run("run", "--", "test", "-x", "/usr/local/go/bin/go", status=None).returncode != 0:
            raise Skip("the image host has no go in /usr/local/go")
        put(w.project, {"tool/go.mod": "module x\n", "tool/main.go": "package main\nfunc main() {}\n",
                        ".devcontainer.json": '{"remoteEnv": {"PATH": "/usr/local/go/bin:${containerEnv:PATH}"}}'})
        p = w.run("setup")
        ok(b"go mod download (tool/)" in p.stderr and b"verify go mod download (tool/)" in p.stderr, p.stderr)


@test
def a_change_during_the_setup_is_noticed():
    with World() as w:
        put(w.project, {"warren.yaml": "steps: [{run: 'touch half; sleep 5', files: [dep]}]\n",
                        "dep": "1\n"})
        p = w.start("setup")
        deadline = time.monotonic() + WAIT
        while not w.found("half") and time.monotonic() < deadline:
            time.sleep(0.05)
        put(w.project, {"dep": "2\n"})
        _, err = p.communicate(timeout=WAIT)
        eq(p.returncode, 125, err)
        ok(b"changed while it ran" in err, err)
        eq((w.list(), w.left()), ([], []))


@test
def c_with_cmake():
    with World() as w:
        needs(w, "cmake")
        put(w.project, {"CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(x NONE)\n"})
        ok("build/CMakeCache.txt" in w.layer_files(w.setup(), "project"), "the cache")


@test
def a_devcontainer_without_an_image():
    with World() as w:
        put(w.project, {".devcontainer/devcontainer.json": json.dumps({
            "containerEnv": {"A": "1"}, "remoteEnv": {"PATH": "${containerEnv:PATH}:/extra"},
            "onCreateCommand": "echo \"$A $PATH\" >env", "postCreateCommand": {"a": "touch a", "b": ["touch", "b c"]},
            "postStartCommand": "touch never", "workspaceFolder": "/workspace", "features": {"x": {}}})})
        p = w.run("setup")
        key = p.stdout.decode()
        ok(b"'features' is not honoured" in p.stderr, p.stderr)
        eq(w.layer_files(key, "project"), ["a", "b c", "env"])
        eq(w.read(key, "project", "env"), "1 /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/extra\n")


@test
def a_large_project_is_found_ready():
    with World() as w:
        put(w.project, {"go.mod": "module x\n", "warren.yaml": "steps: [{run: 'true'}]\n"})
        for i in range(100):
            os.makedirs(f"{w.project}/d{i}")
            for j in range(100):
                with open(f"{w.project}/d{i}/f{j}", "wb"):
                    pass
        ok(w.setup().endswith("created") and w.setup().endswith("ready"), "a large project")


if __name__ == "__main__":
    sys.exit(main())
