#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-work-hostile.py - the project of an attacker runs nothing on the machine (warren work)

Prints TAP. $WARREN is the program (default build/warren). Each test runs as the current user and, if that is
root, as an ordinary user, too.
"""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from checks import eq, ok  # pylint: disable=wrong-import-position
from cli_world import WAIT, main  # pylint: disable=wrong-import-position
from work_world import each_user  # pylint: disable=wrong-import-position

OLD = "2026-01-01 00:00:00"
# Repositories that make git run a command, which creates $RAN. Each was unpacked from an archive, with its times.
REPOSITORIES = {
    # The index is as old as the file, so git compares the contents, which it converts with a filter.
    "filter": f"""git config core.checkStat minimal; git config core.trustctime false
        echo '* filter=f' >.gitattributes; touch -d '{OLD}' a .gitattributes; git add -A; git commit -qm i
        git config filter.f.clean "touch $RAN; cat"; touch -d '{OLD}' .git/index a .gitattributes""",
    "process": f"""git config core.checkStat minimal; git config core.trustctime false
        echo '* filter=f' >.gitattributes; touch -d '{OLD}' a .gitattributes; git add -A; git commit -qm i
        git config filter.f.process "touch $RAN; cat"; touch -d '{OLD}' .git/index a .gitattributes""",
    # An object is missing, and the repository says how to get it.
    "fetch": """git add -A; git commit -qm i; tree=$(git rev-parse HEAD^{tree})
        rm -f .git/objects/$(echo $tree | sed 's#..#&/#'); printf '#!/bin/sh\\ntouch %s\\n' $RAN >x.sh; chmod +x x.sh
        git config extensions.partialClone x; git config protocol.ext.allow always
        git config remote.x.url "ext::sh $PWD/x.sh"; git config remote.x.promisor true; touch a""",
    "ssh": """git add -A; git commit -qm i; tree=$(git rev-parse HEAD^{tree})
        rm -f .git/objects/$(echo $tree | sed 's#..#&/#')
        git config extensions.partialClone x; git config protocol.ssh.allow always; git config core.sshCommand "touch $RAN; true"
        git config remote.x.url ssh://h/p; git config remote.x.promisor true; touch a""",
    "monitor": """git add -A; git commit -qm i; git config core.fsmonitor "touch $RAN; true"; touch a""",
}


def unpack(u, name):
    """Creates the repository in the project of the user; returns the path of the file that its command creates."""
    ran = f"{u.dir}/run/ran"
    env = {**u.env, "RAN": ran, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    u.own()
    shutil.rmtree(u.project)
    os.mkdir(u.project, 0o755)
    u.own()
    subprocess.run([*u.prefix, "sh", "-ec", f"git init -q; echo a >a; {REPOSITORIES[name]}; tar -cf ../run/h.tar .; rm -rf .git; tar -xf ../run/h.tar"],
                   env=env, cwd=u.project, check=True, capture_output=True, timeout=WAIT)
    if os.path.exists(ran):
        os.unlink(ran)
    return ran


@each_user
def git_on_the_machine_runs_no_command_of_a_project(u):
    for name in REPOSITORIES:
        ran = unpack(u, name)
        subprocess.run([*u.prefix, "git", "diff-index", "--name-only", "HEAD", "--"], env=u.env, cwd=u.project, check=False, timeout=WAIT,
                       capture_output=True)
        ok(os.path.exists(ran), f"control: git runs it: {name}")
        ran = unpack(u, name)
        u.work("sh", "-c", "echo x >>a; echo y >b; sleep 0.3", options=["--no-setup", "--name", "w"])
        with open(f"{u.project}/a", "a", encoding="utf-8") as f:
            f.write("mine\n")  # so that git reads the commit
        found = u.warren("diff", "w", "--stat")
        ok(b" b " in found.stdout, f"{name}: {found}")
        u.warren("accept", "w", "--conflicts", "skip")
        eq(os.path.exists(f"{u.project}/b"), True, "an accept works")
        u.warren("work", "--remove", "w")
        ok(not os.path.exists(ran), f"it ran: {name}")


@each_user
def a_pipe_in_gits_configuration_does_not_stop_a_work(u):
    u.run("sh", "-ec", "git init -q; echo a >a; git add -A; git -c user.name=a -c user.email=a@b commit -qm i; git config include.path pipe; "
          "mkfifo .git/pipe")
    try:
        subprocess.run([*u.prefix, "git", "status"], env=u.env, cwd=u.project, check=False, timeout=1, capture_output=True)
        ok(False, "control: git waits for it")
    except subprocess.TimeoutExpired:
        pass
    u.work("sh", "-c", "echo b >b", options=["--no-setup", "--sync"])
    eq(os.path.exists(f"{u.project}/b"), True, "an accept works")


# Places where git waits for a named pipe, as the receiver of the commits or as the sender.
PIPES = {
    ".git/pipe": "git config include.path pipe; mkfifo .git/pipe",
    ".git/objects/info/alternates": "mkfifo .git/objects/info/alternates",
}


@each_user
def a_pipe_in_a_repository_does_not_stop_an_accept_of_commits(u):
    commit = "git -c user.name=a -c user.email=a@b commit -qm"
    u.run("sh", "-ec", f"git init -q; echo a >a; git add -A; {commit} i")
    u.work("sh", "-ec", f"echo b >a; git add -A; {commit} two", options=["--no-setup", "--name", "w"])
    for pipe, create in PIPES.items():
        u.run("sh", "-ec", create)
        p = u.warren("accept", "w", "--as-commits", timeout=3 * WAIT)
        eq((p.returncode, p.stdout), (125, b""), f"{pipe}: {p}")
        ok(b"git did not end" in p.stderr and b"named pipe" in p.stderr, f"{pipe}: {p}")
        # Compare without git, which would wait for the pipe. git itself leaves an incomplete pack.
        found = u.run("sh", "-ec", f"find .git/refs .git/objects -name 'pack-*' -o -name w -o -name '*.lock'; rm {pipe}").stdout
        eq(found, b"", "there are no new objects and no branch")
    eq(u.warren("accept", "w", "--as-commits").stdout, b"1 new commit in branch warren/w\n", "control: without a pipe")


if __name__ == "__main__":
    sys.exit(main())
