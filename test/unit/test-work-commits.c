/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-commits.c - commits of the sandbox are verified and accepted */
#include "work/commits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <time.h>

#include "base/strv.h"
#include "work/hide.h"
#include "work/work_internal.h"

#include "lib/work_commits.h"

TEST(commits_become_a_branch)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_COMMITS struct work_commits c = { 0 };

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	w = prepare("fix");
	EQ(work_commits_accept(w, 0, &c, &err), -ENOENT);
	inside(w, "echo 2 >a; " GIT "commit -qam two; echo 3 >b; " GIT "add b; " GIT
		  "commit -qm three");
	EQ(work_commits_accept(w, 0, &c, &err), 0);
	STREQ(c.branch, "warren/fix");
	STREQ(c.from, "main");
	EQ(c.n, 2);
	git("log --format=%s main..warren/fix | tr '\\n' ' ' | grep -qx 'three two ' && "
	    "git fsck --strict 2>/dev/null && git show warren/fix:b | grep -qx 3 && "
	    "test $(cat a) = 1 -a $(git rev-parse --abbrev-ref HEAD) = main");
	work_commits_done(&c);
	/* Again, with a commit on top, from a packed repository and a detached HEAD. */
	inside(w, "echo 4 >b; " GIT "commit -qam four; " GIT "repack -adq; " GIT
		  "pack-refs --all; " GIT "prune-packed; " GIT "checkout -q --detach");
	EQ(work_commits_accept(w, 0, &c, &err), 0);
	EQ(c.n, 1);
	OK(!c.from);
	EQ(work_commits_accept(w, 0, &c, &err), 0);
	EQ(c.n, 0);
	git("show warren/fix:b | grep -qx 4 && git fsck --strict 2>/dev/null");
	end();
}

TEST(a_branch_does_not_lose_commits)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_COMMITS struct work_commits c = { 0 };

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	w = prepare("fix");
	inside(w, "echo 2 >a; " GIT "commit -qam two");
	git("checkout -qb warren/fix && git commit -q --allow-empty -m mine && git checkout -q main");
	EQ(work_commits_accept(w, 0, &c, &err), -EEXIST);
	git("log -1 --format=%s warren/fix | grep -qx mine");
	EQ(work_commits_accept(w, COMMITS_FORCE, &c, &err), 0);
	git("log -1 --format=%s warren/fix | grep -qx two");
	end();
}

/* Make commits inside, and try to accept them without permission and with it. */
static void accept_hidden(const char *script, const char *named)
{
	AUTO_COMMITS struct work_commits c = { 0 };
	AUTO_WORK struct work *w = NULL;
	AUTO_HIDDEN struct work_hidden h = { 0 };

	begin();
	git("init -q -b main . && mkdir d s && echo 1 >a && echo 1 >d/.env && touch s/a && "
	    "git add . && git commit -qm one && git checkout -q -b gone && git rm -q d/.env && "
	    "git commit -qm gone && git checkout -q -b fine main && touch f && git add f && "
	    "git commit -qm fine && git checkout -q main && touch l && git add l && "
	    "git commit -qm two && echo .env >.git/info/exclude && touch s/.env u.key");
	w = start_with(&(struct work_options){ .name = "fix" });
	EQ(work_hide(w, (const char *const[]){ "u.key", NULL }, &h, &err), 0);
	EQ(h.n, 3);
	inside(w, "set -e; test -z \"$(" GIT "status --short | grep -v env)\"; %s",
	       script);
	if (work_commits_accept(w, 0, &c, &err) != (named ? -EPERM : 0))
		TAP_FAIL("%s", script);
	OK(!named || strstr(err.msg, named));
	if (named) {
		git("rev-parse -q --verify warren/fix >/dev/null && exit 1 || exit 0");
		EQ(work_commits_accept(w, COMMITS_HIDDEN, &c, &err), 0);
	}
	git("rev-parse -q --verify warren/fix >/dev/null");
	end();
}

TEST(commits_that_delete_or_change_hidden_files_need_permission)
{
	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	/* Controls: all that git finds changed, and a merge of what the user has. */
	accept_hidden("echo 2 >a; rm l; " GIT "add -A s/a a l; " GIT "commit -qam two",
		      NULL);
	accept_hidden(GIT "merge -q fine -m m", NULL);
	/* The deletion, also if a later commit takes it back. */
	accept_hidden(GIT "rm -q --cached --sparse d/.env; " GIT "commit -qm two",
		      "'d/.env'");
	accept_hidden(GIT "rm -q --cached --sparse d/.env; " GIT "commit -qm two; " GIT
			  "revert --no-edit HEAD >/dev/null",
		      "'d/.env'");
	/* A file that git does not know at the user's. */
	accept_hidden("echo 2 >u.key; " GIT "add -f u.key; " GIT "commit -qm two",
		      "'u.key'");
	/* A file instead of the directory with one. */
	accept_hidden("rm -r s; echo 2 >s; " GIT "add -A s; " GIT "commit -qm two",
		      "'s'");
	/* Merges without the file: only the sum of the commits says so. */
	accept_hidden(GIT "merge -q gone -m m", "'d/.env'");
	accept_hidden(GIT "checkout -q gone; " GIT "merge -q -s ours main -m m",
		      "'d/.env'");
}

/*
 * Make commits inside after the user ran @mine, and try to accept them without
 * permission. If they need permission, @named is in the message.
 */
static void accept_guarded(const char *mine, const char *script, const char *named)
{
	AUTO_COMMITS struct work_commits c = { 0 };
	AUTO_WORK struct work *w = NULL;
	AUTO_HIDDEN struct work_hidden h = { 0 };

	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	git("init -q -b main . && mkdir d && echo 1 >a && echo '# 1' >d/x && echo 1 >r && "
	    "printf '#!/bin/sh\\n' >script && ln -s a l && git add . && git commit -qm one && "
	    "git rm -q script && git commit -qm gone && git branch gone && git reset -q --hard HEAD~");
	shell("cd p && %s", mine);
	w = start_with(&(struct work_options){ .name = "fix" });
	EQ(work_hide(w, NULL, &h, &err), 0);
	inside(w, "set -e; %s", script);
	if (work_commits_accept(w, COMMITS_HIDDEN, &c, &err) != (named ? -EPERM : 0))
		TAP_FAIL("%s; %s", mine, script);
	if (named && (!strstr(err.msg, named) || !strstr(err.msg, "--allow git")))
		TAP_FAIL("%s: %s", script, err.msg);
	if (named) {
		git("rev-parse -q --verify warren/fix >/dev/null && exit 1 || exit 0");
		EQ(work_commits_accept(w, COMMITS_GIT, &c, &err), 0);
	}
	git("rev-parse -q --verify warren/fix >/dev/null");
	end();
}

#define ADD(what) what "; " GIT "add -A .; " GIT "commit -qm two"

TEST(commits_that_change_what_git_executes_need_permission)
{
	static const char husky[] =
		"git config core.hooksPath .husky; git config advice.ignoredHook false",
			  unclear[] = "git config core.pager '$TOOL'";

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	/* Hooks, even if a later commit reverts them, or the sum does not have them. */
	accept_guarded(husky, ADD("mkdir .husky; echo 1 >.husky/pre-commit"),
		       "'.husky/pre-commit'");
	accept_guarded(
		husky,
		ADD("mkdir .husky; echo 1 >.husky/pre-commit") "; " GIT
							       "revert --no-edit HEAD >/dev/null",
		"'.husky/pre-commit'");
	accept_guarded(husky, ADD("ln -s d .husky"), "'.husky'");
	accept_guarded(husky, ADD("echo 2 >a; mkdir husky; echo 1 >husky/x"), NULL);
	accept_guarded("true", ADD("mkdir .husky; echo 1 >.husky/pre-commit"), NULL);
	accept_guarded("git config include.path ../d/x", ADD("rm d/x"), "'d/x'");
	accept_guarded("git config include.path ../d/x", ADD("rm a"), NULL);
	/* Repositories, and what describes them. */
	accept_guarded("true", ADD("echo 1 >.gitmodules"), "'.gitmodules'");
	accept_guarded("true", ADD("mkdir e e/refs; touch e/refs/x e/HEAD"), "'e/HEAD'");
	accept_guarded("touch d/HEAD", ADD("mkdir d/refs; touch d/refs/x"), "'d/refs/x'");
	accept_guarded("true", ADD("mkdir d/refs; touch d/refs/x .gitattributes"), NULL);
	/* Any program, if it is unclear which one is executed. */
	accept_guarded(unclear, ADD("echo 1 >x.py"), "'x.py'");
	accept_guarded(unclear, ADD("chmod +x d/x"), "'d/x'");
	accept_guarded(unclear, ADD("ln -sf r l"), "'l'");
	accept_guarded(unclear, ADD("printf '#!' >d/y"), "'d/y'");
	accept_guarded(unclear, ADD("echo 1 >script"), "'script'");
	/* The user removed it, but not in this branch. */
	accept_guarded(unclear, GIT "merge -q gone", "'script'");
	accept_guarded(unclear,
		       GIT
		       "checkout -q gone; " ADD("echo 2 >a") "; " GIT
							     "merge -q -s ours main -m m",
		       "'script'");
	accept_guarded(unclear,
		       ADD("printf '#' >d/y; printf x >d/z; touch d/e; echo 2 >a"), NULL);
	accept_guarded("true", ADD("printf '#!' >d/y; echo 1 >x.py; chmod +x d/x"), NULL);
}

TEST(nothing_of_the_sandbox_runs)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_COMMITS struct work_commits c = { 0 };

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	w = prepare("fix");
	inside(w,
	       "echo 2 >a; " GIT
	       "commit -qam two; for h in reference-transaction post-checkout "
	       "pre-auto-gc post-index-change; do printf '#!/bin/sh\\ntouch %s/ran\\n' "
	       ">.git/hooks/$h; chmod +x .git/hooks/$h; done; " GIT
	       "config core.fsmonitor 'touch %s/ran'; " GIT
	       "config uploadpack.packObjectsHook 'touch %s/ran'; "
	       "ln -s /etc .git/objects/aa 2>/dev/null || true",
	       top, top, top);
	/* Hooks of the user are not run either. */
	shell("printf '#!/bin/sh\\ntouch %s/ran\\n' >p/.git/hooks/reference-transaction && "
	      "chmod +x p/.git/hooks/reference-transaction",
	      top);
	EQ(work_commits_accept(w, 0, &c, &err), 0);
	shell("test ! -e ran");
	git("rev-parse -q --verify warren/fix >/dev/null && rm .git/hooks/reference-transaction");
	end();
}

/* `accept` may have put a program into the project: it is not the one that runs. */
TEST(git_is_not_found_through_a_relative_path)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_COMMITS struct work_commits c = { 0 };
	AUTO_FREE char *path = NULL;

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	w = prepare("fix");
	inside(w, "echo 2 >a; " GIT "commit -qam two");
	shell("mkdir p/bin && printf '#!/bin/sh\ntouch %s/ran\n' >p/bin/git && "
	      "chmod +x p/bin/git",
	      top);
	OK(asprintf(&path, "bin:%s", getenv("PATH")) > 0);
	EQ(setenv("PATH", path, 1), 0);
	EQ(work_commits_accept(w, 0, &c, &err), 0);
	shell("test ! -e ran && cd p && git && test -e %s/ran", top); /* a control */
	EQ(setenv("PATH", path + 4, 1), 0);
	git("rev-parse -q --verify warren/fix >/dev/null");
	end();
}

TEST(a_branch_whose_name_clashes_is_named)
{
	static const char *const how[] = { "branch warren",
					   "branch warren && git pack-refs --all" };

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	for (size_t i = 0; i < ARRAY_SIZE(how); i++) {
		AUTO_WORK struct work *w = prepare("fix");
		AUTO_COMMITS struct work_commits c = { 0 };

		inside(w, "echo 2 >a; " GIT "commit -qam two");
		git(how[i]);
		EQ(work_commits_accept(w, 0, &c, &err), -EEXIST);
		OK(strstr(err.msg, "git branch -m warren "));
		/* A control. */
		git("branch -m warren mine");
		EQ(work_commits_accept(w, 0, &c, &err), 0);
		git("log -1 --format=%s warren/fix | grep -qx two");
		end();
	}
}

TEST(a_branch_that_is_checked_out_does_not_move)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_COMMITS struct work_commits c = { 0 };

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	w = prepare("fix");
	inside(w, "echo 2 >a; " GIT "commit -qam two");
	git("branch warren/fix && git worktree add -q ../other warren/fix");
	EQ(work_commits_accept(w, COMMITS_FORCE, &c, &err), -EBUSY);
	git("worktree remove ../other && git log -1 --format=%s warren/fix | grep -qx one");
	EQ(work_commits_accept(w, 0, &c, &err), 0);
	git("log -1 --format=%s warren/fix | grep -qx two");
	end();
}

static char *head_of(const char *name)
{
	AUTO_CLOSE int fd = open(in(name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char *head = NULL;

	OK(fd >= 0);
	EQ(git_head(fd, &head), 0);
	return head;
}

static void expect_head(const char *name, bool known)
{
	AUTO_FREE char *head = head_of(name);

	EQ(head != NULL, known);
}

TEST(a_git_file_leads_only_to_its_own_repository)
{
	begin();
	git("init -q -b main . && echo 1 >a && git add . && git commit -qm one && "
	    "git worktree add -q ../tree && cd .. && "
	    "git -c protocol.file.allow=always clone -q p sub && cd sub && "
	    "git -c protocol.file.allow=always submodule --quiet add ../p s");
	expect_head("p", true);
	expect_head("tree", true);
	expect_head("sub/s", true);
	/* Others that name the same directories. */
	shell("mkdir evil && echo \"gitdir: $PWD/p/.git\" >evil/.git");
	expect_head("evil", false);
	shell("cp tree/.git evil/.git");
	expect_head("evil", false);
	shell("echo \"gitdir: $PWD/sub/.git/modules/s\" >evil/.git");
	expect_head("evil", false);
	/* A repository that names another one as its main one. */
	shell("mkdir two && mkdir two/.git && echo 'ref: refs/heads/main' >two/.git/HEAD && "
	      "echo $PWD/p/.git >two/.git/commondir");
	expect_head("two", false);
	shell("echo $PWD/p/.git >p/.git/worktrees/tree/commondir");
	expect_head("tree", false);
	end();
}

static void refuse(const char *how, int code)
{
	AUTO_WORK struct work *w = prepare("fix");
	AUTO_COMMITS struct work_commits c = { 0 };

	inside(w, "echo 2 >a; " GIT "commit -qam two; %s", how);
	EQ(work_commits_accept(w, 0, &c, &err), code);
	git("fsck 2>/dev/null && ! git rev-parse -q --verify warren/fix >/dev/null");
	end();
}

TEST(damaged_commits_are_refused)
{
	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	/* The tree of the commit is missing. */
	refuse("t=$(" GIT "rev-parse HEAD:); rm -f .git/objects/${t%${t#??}}/${t#??}",
	       -EBADMSG);
	/* An object with other contents than its name says. */
	refuse("t=$(" GIT "rev-parse HEAD:a); f=.git/objects/${t%${t#??}}/${t#??}; "
	       "u=$(echo evil | " GIT "hash-object -w --stdin); chmod u+w $f; "
	       "cp .git/objects/${u%${u#??}}/${u#??} $f",
	       -EBADMSG);
	refuse("echo 'ref: refs/heads/../../../../etc/passwd' >.git/HEAD", -EBADMSG);
	refuse("echo nonsense >.git/refs/heads/main", -EBADMSG);
	refuse("rm .git/refs/heads/main; mkfifo .git/refs/heads/main", -ENOENT);
	refuse("printf '%040d\\n' 1 >.git/refs/heads/main", -EBADMSG);
	/* A tree with an entry that would be written to .git. */
	refuse("b=$(echo x | " GIT
	       "hash-object -w --stdin); t=$(printf '100644 blob %s\\t.git\\n' $b | " GIT
	       "mktree); c=$(" GIT
	       "commit-tree -p HEAD -m x $t); echo $c >.git/refs/heads/main",
	       -EBADMSG);
}

TEST(links_in_the_repository_lead_git_nowhere)
{
	static const char *const how[] = {
		"mkdir -p .git/logs/refs/heads/warren && ln -s $T/victim .git/logs/refs/heads/warren/fix",
		"mkdir -p .git/logs/refs/heads && ln -s $T/dir .git/logs/refs/heads/warren",
		"rm -rf .git/logs && ln -s $T/dir .git/logs",
		"ln -s $T/dir .git/refs/heads/warren",
		"mkdir -p .git/refs/heads/warren && ln -s $T/victim .git/refs/heads/warren/fix.lock",
		"mkdir -p .git/refs/heads/warren && echo 'ref: refs/heads/main' >.git/refs/heads/warren/fix",
		"rmdir .git/objects/pack && ln -s $T/dir .git/objects/pack",
		"rm -f .git/packed-refs && ln -s $T/victim .git/packed-refs",
		"git init -q $T/dir && echo $T/dir/.git >.git/commondir",
	};

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	for (size_t i = 0; i <= ARRAY_SIZE(how); i++) {
		AUTO_WORK struct work *w = prepare("fix");
		AUTO_COMMITS struct work_commits c = { 0 };
		bool last = i == ARRAY_SIZE(how); /* a control: without a link */

		shell("mkdir dir && echo mine >victim");
		inside(w, "echo 2 >a; " GIT "commit -qam two");
		if (!last)
			shell("export T=$PWD; cd p && %s", how[i]);
		shell("find dir victim p/.git/refs/heads/main -type f -exec cat {} + >before");
		if (work_commits_accept(w, 0, &c, &err) != (last ? 0 : -EPERM))
			TAP_FAIL("%s: %s", last ? "no link" : how[i], err.msg);
		shell("find dir victim p/.git/refs/heads/main -type f -exec cat {} + | cmp - before");
		end();
	}
}

TEST(new_objects_belong_to_the_owner_of_the_repository)
{
	AUTO_WORK struct work *w = NULL;
	struct work_commits c AUTO_COMMITS = { 0 };

	SKIP_UNLESS(geteuid() == 0, "gives files away");
	begin();
	git("init -q . && echo 1 >a && git add . && git commit -qm one");
	shell("chmod 755 . && cp -a p other && chown -R 1234:1235 p && chmod 700 p");
	w = start();
	shell("cd other && echo 2 >a && git -c user.name=a -c user.email=a@b commit -qam two && "
	      "git repack -adq && cp -a .git '%s/writes/upper/.git'",
	      w->dir);
	if (work_commits_accept(w, 0, &c, &err) < 0)
		TAP_FAIL("%s", err.msg);
	EQ(c.n, 1);
	shell("test -z \"$(find p/.git ! -user 1234)\" && "
	      "git -c safe.directory=* -C p log --format=%%s %s | head -1 | grep -qx two",
	      c.branch);
	end();
}

/* Accept in another process, which is killed with its git after @ns (0: not killed). */
static int accept_killed(const char *id, long ns, bool *ret_killed)
{
	const struct timespec wait = { ns / 1000000000, ns % 1000000000 };
	int status;
	pid_t pid = fork();

	OK(pid >= 0);
	if (pid == 0) {
		struct work_commits c = { 0 };
		struct work *w;

		OK(setpgid(0, 0) == 0);
		OK(work_open(id, true, &w, &err) == 0);
		_exit(-work_commits_accept(w, 0, &c, &err));
	}
	(void)setpgid(pid, pid);
	if (ns > 0) {
		(void)nanosleep(&wait, NULL);
		(void)kill(-pid, SIGKILL);
	}
	EQ(waitpid(pid, &status, 0), pid);
	/* Also end the git processes that its children started. */
	while (kill(-pid, 0) == 0)
		(void)usleep(1000);
	*ret_killed = WIFSIGNALED(status);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : 0;
}

TEST(a_killed_accept_leaves_an_intact_repository_and_can_be_repeated)
{
	enum {
		ROUNDS = 16
	};
	struct timespec begun, ended;
	unsigned killed = 0;
	long took = 0;

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	for (int i = 0; i <= ROUNDS; i++) {
		AUTO_WORK struct work *w = prepare("fix");
		char id[ID_LEN + 1];
		bool was = false;
		int r;

		(void)strcpy(id, w->id);
		inside(w, "seq 50000 >a; for i in 1 2 3 4 5; do echo $i >b; " GIT
			  "add b; " GIT "commit -qam $i; done; " GIT "repack -adq");
		w = work_close(w);
		(void)clock_gettime(CLOCK_MONOTONIC, &begun);
		r = accept_killed(id, took * i / ROUNDS, &was);
		(void)clock_gettime(CLOCK_MONOTONIC, &ended);
		if (i == 0)
			took = (ended.tv_sec - begun.tv_sec) * 1000000000 +
			       (ended.tv_nsec - begun.tv_nsec);
		EQ(r, 0);
		killed += was;
		git("fsck --strict --no-dangling 2>/dev/null && test $(cat a) = 1 && "
		    "{ ! git rev-parse -q --verify warren/fix >/dev/null || "
		    "git show warren/fix:b | grep -qx 5; }");
		/* If the first accept left a lock, the second one names it. */
		r = accept_killed(id, 0, &was);
		if (r == -EBUSY) {
			git("rev-parse HEAD >/dev/null && rm .git/refs/heads/warren/fix.lock");
			r = accept_killed(id, 0, &was);
		}
		EQ(r, 0);
		git("fsck --strict --no-dangling 2>/dev/null && "
		    "git show warren/fix:b | grep -qx 5 && "
		    "! find .git -name 'tmp_*' | grep .");
		end();
	}
	printf("# %u of %d were killed\n", killed, ROUNDS);
	OK(killed > 0);
}

TEST(objects_that_a_killed_git_left_are_removed_with_the_work)
{
	AUTO_WORK struct work *w = NULL;
	char id[ID_LEN + 1];

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	for (int i = 0; i < 2; i++) {
		w = prepare("fix");
		(void)strcpy(id, w->id);
		w = work_close(w);
		/* Directories of the user's git and of other works stay. */
		shell("cd p/.git/objects && mkdir -p tmp_objdir-warren-%s/pack "
		      "tmp_objdir-warren-other tmp_objdir-incoming-x && "
		      "touch tmp_objdir-warren-%s/pack/tmp_pack_x pack/tmp_pack_y",
		      id, id);
		EQ(work_open(id, i == 0, &w, &err), 0);
		if (i == 1)
			EQ(work_remove(TAKE_PTR(w), &err), 0);
		shell("cd p/.git/objects && test ! -e tmp_objdir-warren-%s -a -e "
		      "pack/tmp_pack_y -a -d tmp_objdir-warren-other -a -d "
		      "tmp_objdir-incoming-x",
		      id);
		w = work_close(w);
		end();
	}
}

/* Nested trees, each with ten entries for the next one: 10^@levels files. */
static void inside_bomb(struct work *w, int levels)
{
	inside(w,
	       "set -e; b=$(echo x | " GIT
	       "hash-object -w --stdin); l='100644 blob'; n=$b; for i in $(seq %d); do "
	       "n=$(for k in 0 1 2 3 4 5 6 7 8 9; do printf '%%s %%s\tf%%s\n' \"$l\" $n "
	       "$k; done | " GIT "mktree); l='040000 tree'; done; " GIT
	       "update-ref HEAD $(" GIT "commit-tree -m bomb -p HEAD $n)",
	       levels);
}

TEST(commits_with_very_many_files_take_little_memory)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_COMMITS struct work_commits c = { 0 };
	struct rlimit old, small;

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	SKIP_UNLESS(!SANITIZED, "sanitizers need more than this limit themselves");
	w = prepare("fix");
	/* The same as with the real limit, but sooner. */
	EQ(getrlimit(RLIMIT_DATA, &old), 0);
	small = (struct rlimit){ (rlim_t)128 << 20, old.rlim_max };
	inside_bomb(w, 4);
	EQ(setrlimit(RLIMIT_DATA, &small), 0);
	EQ(work_commits_accept(w, 0, &c, &err), 0); /* a control */
	inside_bomb(w, 8);
	if (work_commits_accept(w, 0, &c, &err) != -ENOMEM)
		TAP_FAIL("%s", err.msg);
	EQ(setrlimit(RLIMIT_DATA, &old), 0);
	OK(strstr(err.msg, "too many files") && strstr(err.msg, "more memory"));
	git("log -1 --format=%s warren/fix | grep -qx bomb && "
	    "git ls-tree -r warren/fix | wc -l | grep -qx 10000");
	end();
}

/* Accept commits into a repository on a small disk, after the shell command @how. */
static void accept_on_disk(const char *how, int code, const char *named)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_COMMITS struct work_commits c = { 0 };

	begin();
	EQ(mount("tmpfs", in("p"), "tmpfs", 0, "size=4m"), 0);
	git("init -q -b main . && echo 1 >a && git add . && git commit -qm one");
	w = start_with(&(struct work_options){ .name = "fix" });
	inside(w, "head -c 2000000 /dev/urandom >b; " GIT "add b; " GIT "commit -qm two");
	shell("cd p && %s", how);
	if (work_commits_accept(w, 0, &c, &err) != code)
		TAP_FAIL("%s: %s", how, err.msg);
	OK(!named || (strstr(err.msg, named) && !strstr(err.msg, "damaged")));
	/* The disk is not fuller than before. */
	shell("! find p/.git -name 'tmp_*' | grep .");
	/* A control: when the reason is gone, nothing was lost. */
	shell("mount -o remount,rw p && rm -rf p/full && chmod -R u+w p");
	EQ(work_commits_accept(w, 0, &c, &err), 0);
	git("show warren/fix:b | wc -c | grep -qx 2000000 && git fsck --strict 2>/dev/null");
	w = work_close(w);
	EQ(umount2(in("p"), MNT_DETACH), 0);
	end();
}

TEST(commits_that_cannot_be_written_are_not_called_damaged)
{
	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	accept_on_disk("true", 0, NULL);
	accept_on_disk("head -c 3000000 /dev/zero >full", -ENOSPC,
		       "No space left on device");
	accept_on_disk("! head -c 9000000 /dev/zero >full 2>/dev/null", -ENOSPC,
		       "No space left on device");
	accept_on_disk("mount -o remount,ro .", -EROFS, "Read-only file system");
}

TEST(a_lock_that_a_killed_git_left_is_named)
{
	static const char lock[] = ".git/refs/heads/warren/fix.lock";
	AUTO_WORK struct work *w = NULL;
	AUTO_COMMITS struct work_commits c = { 0 };

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	w = prepare("fix");
	inside(w, "echo 2 >a; " GIT "commit -qam two");
	shell("cd p && mkdir -p .git/refs/heads/warren && touch %s", lock);
	EQ(work_commits_accept(w, 0, &c, &err), -EBUSY);
	OK(strstr(err.msg, lock) && strstr(err.msg, "remove this file"));
	shell("cd p && test ! -e .git/refs/heads/warren/fix && rm %s", lock);
	EQ(work_commits_accept(w, 0, &c, &err), 0);
	git("rev-parse -q --verify warren/fix >/dev/null");
	end();
}

TEST_MAIN()
