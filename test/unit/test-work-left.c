/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-left.c - the commits that the user's repository does not have are named */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/strv.h"
#include "work/commits.h"
#include "work/work_internal.h"

#include "lib/work_commits.h"

/* Run a script inside: what is said about the commits? "": there are none. */
static void expect_left_in(const char *before, const char *script, bool head,
			   const char *others)
{
	AUTO_WORK struct work *w = prepare_with("fix", before);
	AUTO_COMMITS struct work_commits c = { 0 };
	AUTO_COMMITS_LEFT struct work_commits_left left = { 0 };
	struct buf text AUTO_BUF = BUF_INIT(4096);
	int r;

	/* Commits that the user has, even if only since then, are not new. */
	git("tag old && git branch other && git update-ref refs/remotes/o/x $(git "
	    "commit-tree -m z HEAD^{tree}) && git update-ref refs/notes/n refs/remotes/o/x");
	inside(w, "set -e; c=$(" GIT "commit-tree -m two HEAD^{tree}); %s", script);
	git("commit -q --allow-empty -m mine");
	EQ(work_commits_left(w, &left, &err), 0);
	EQ(left.head, head);
	EQ(left.any, head || others[0]);
	EQ(left.others != NULL, others[0] != 0);
	if (left.others)
		work_commits_left_text(&left, "ID", &text);
	buf_add(&text, "", 1);
	if (strncmp(text.data, others, strlen(others)) != 0)
		TAP_FAIL("%s: %s", script, text.data);
	r = work_commits_accept(w, 0, &c, &err);
	EQ(r, head ? 0 : -ENOENT);
	OK(head || !others[0] || strstr(err.msg, "the "));
	OK(head || others[0] || strstr(err.msg, "made no commits"));
	work_commits_left_done(&left);
	EQ(work_commits_left(w, &left, &err), 0);
	OK(!left.head);
	end();
}

static void expect_left(const char *script, bool head, const char *others)
{
	expect_left_in("true", script, head, others);
}

TEST(commits_that_are_not_checked_out_are_named)
{
	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	/* Controls. */
	expect_left("touch .git/index x; " GIT "add x; " GIT "branch same; " GIT
		    "pack-refs --all",
		    false, "");
	expect_left("touch x; " GIT "add x; " GIT "commit -qm two", true, "");
	expect_left(
		GIT "checkout -q -b feat; " GIT "commit -q --allow-empty -m two; " GIT
		    "checkout -q main",
		false,
		"the branch 'feat' (to get it, first run: warren work --resume ID -- git checkout feat)");
	expect_left(GIT "checkout -q -b feat; " GIT "commit -q --allow-empty -m two; " GIT
			"checkout -q main; " GIT "gc -q",
		    false, "the branch 'feat'");
	/* git has deleted the file of the branch. */
	expect_left("touch x; " GIT "add x; " GIT "commit -qm two; " GIT
		    "pack-refs --all",
		    true, "");
	expect_left("touch x; " GIT "add x; " GIT "commit -qm two; " GIT "gc -q", true,
		    "");
	expect_left(
		"echo 2 >a; " GIT "stash -q", false,
		"the stash (to get it, first run: warren work --resume ID -- git stash pop)");
	expect_left(GIT "checkout -q --detach; " GIT
			"commit -q --allow-empty -m two; " GIT "tag -a -m x v1; " GIT
			"checkout -q main",
		    false, "the tag 'v1'");
	expect_left(
		GIT "checkout -q -b 'a;b'; " GIT "commit -q --allow-empty -m two; " GIT
		    "checkout -q -b feat; " GIT "commit -q --allow-empty -m three",
		true,
		"the branch 'a;b' (to get it, first run: warren work --resume ID -- git checkout BRANCH)");
}

TEST(earlier_entries_of_the_stash_are_named)
{
	static const struct {
		const char *drop;
		bool left;
	} cases[] = { { "stash drop -q stash@{1}", false }, { "status -s", true } };

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_WORK struct work *w = prepare("fix");
		AUTO_COMMITS struct work_commits c = { 0 };
		AUTO_COMMITS_LEFT struct work_commits_left left = { 0 };

		inside(w,
		       "set -e; echo 2 >a; " GIT "stash -q; echo 3 >a; " GIT
		       "stash -q; " GIT "branch keep refs/stash; " GIT
		       "checkout -q keep; " GIT "%s",
		       cases[i].drop);
		EQ(work_commits_accept(w, 0, &c, &err), 0);
		EQ(work_commits_left(w, &left, &err), 0);
		EQ(left.any, cases[i].left);
		EQ(left.others != NULL, cases[i].left);
		if (cases[i].left)
			STREQ(left.others[0], "refs/stash");
		end();
	}
}

TEST(commits_of_references_that_are_no_branches_are_named)
{
	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	/* Controls: the user has the commits. */
	expect_left(GIT "update-ref refs/remotes/o/y HEAD; " GIT
			"update-ref refs/x/y refs/remotes/o/x; " GIT "pack-refs --all",
		    false, "");
	expect_left(GIT "update-ref refs/x/y $c; " GIT "update-ref -d refs/x/y", false,
		    "");
	expect_left(
		GIT "update-ref refs/backup/main $c", false,
		"the reference 'refs/backup/main' (to get it, first run: warren work --resume "
		"ID -- git checkout refs/backup/main)");
	expect_left(GIT "update-ref refs/remotes/o/x $c", false,
		    "the reference 'refs/remotes/o/x'");
	expect_left(GIT "update-ref refs/original/refs/heads/main $c; " GIT
			"pack-refs --all",
		    false, "the reference 'refs/original/refs/heads/main'");
	expect_left(GIT "update-ref refs/bisect/bad $c", false,
		    "the reference 'refs/bisect/bad'");
	expect_left(GIT "notes add -m note", false, "the reference 'refs/notes/commits'");
	expect_left(GIT "worktree add -q --detach ../out $c", false,
		    "the reference 'worktrees/out/HEAD'");
	expect_left("mkdir .git/reftable", false, "references that Warren cannot read");
}

TEST(commits_of_submodules_are_named)
{
	static const char module[] =
		"git init -q ../lib && " GIT
		"-C ../lib commit -q --allow-empty -m one && " GIT
		"-C ../lib commit -q --allow-empty -m two && " GIT
		"-c protocol.file.allow=always submodule --quiet add ../lib sub && " GIT
		"commit -qm sub";
	static const struct {
		const char *script, *others;
	} cases[] = {
		/* Controls: another commit that the user has, and a new submodule. */
		{ GIT "-C sub checkout -q HEAD~", "" },
		{ GIT "init -q new && cp -r new/.git .git/modules/new && " GIT
		      "--git-dir=.git/modules/new commit -q --allow-empty -m n",
		  "" },
		{ GIT "-C sub checkout -q --detach && " GIT
		      "-C sub commit -q --allow-empty -m three",
		  "the submodule 'sub' (which cannot be accepted" },
		{ GIT "-C sub checkout -q -b b && " GIT
		      "-C sub commit -q --allow-empty -m three && " GIT
		      "-C sub checkout -q -",
		  "the submodule 'sub' (which" },
		{ GIT "-C sub checkout -q -b b && " GIT
		      "-C sub commit -q --allow-empty -m three && " GIT
		      "-C sub checkout -q - && " GIT "-C sub gc -q",
		  "the submodule 'sub' (which" },
		{ "echo 1 >sub/x && " GIT "-C sub add x && " GIT "-C sub stash -q && " GIT
		  "-C sub pack-refs --all",
		  "the submodule 'sub' (which" },
		{ GIT "-C sub checkout -q --detach && " GIT
		      "-C sub commit -q --allow-empty -m three && " GIT
		      "-C sub checkout -q -",
		  "the submodule 'sub' (which" },
		{ GIT "-C sub pack-refs --all", "" },
		{ "mkdir .git/modules/sub/rebase-merge && " GIT
		  "-C sub commit-tree -m s HEAD^{tree} >.git/modules/sub/rebase-merge/autostash",
		  "the submodule 'sub' (which" },
		{ GIT "-C sub checkout -q -b objects/logs && " GIT
		      "-C sub commit -q --allow-empty -m three && " GIT
		      "-C sub checkout -q - && " GIT "branch feat $c",
		  "the branch 'feat', the submodule 'sub' (to get one of them" },
	};

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_left_in(module, cases[i].script, false, cases[i].others);
}

TEST(what_git_has_put_away_is_named)
{
	static const char begin_rebase[] =
		"echo 1 >g; " GIT "add g; " GIT "commit -q -m g; echo 2 >g; " GIT
		"rebase --autostash -q HEAD~ --exec false >/dev/null 2>&1 || true";
	static const char begin_merge[] =
		"echo 1 >g; " GIT "add g; " GIT "commit -q -m g; " GIT
		"checkout -q -b y HEAD~; echo 3 >a; " GIT "commit -qam y; " GIT
		"checkout -q main; echo 4 >a; " GIT "commit -qam m; echo 2 >g; " GIT
		"merge --autostash y >/dev/null 2>&1 || true";

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	for (int i = 0; i < 2; i++) {
		AUTO_WORK struct work *w = prepare("fix");
		AUTO_COMMITS_LEFT struct work_commits_left left = { 0 };
		bool named = false;

		inside(w, "%s", i ? begin_merge : begin_rebase);
		EQ(work_commits_left(w, &left, &err), 0);
		for (char **o = left.others; o && *o; o++)
			named |= strlen(*o) == 40;
		OK(named);
		end();
	}
}

TEST(commits_that_no_branch_has_are_named)
{
	/* The path of its repository is that of the project, which is elsewhere here. */
	static const char worktree[] = GIT "worktree add -q --detach wt && "
					   "echo gitdir: ../.git/worktrees/wt >wt/.git";
	static const char left_head[] =
		GIT "checkout -q --detach; " GIT "commit -q --allow-empty -m two; " GIT
		    "checkout -q main";
	AUTO_WORK struct work *w = NULL;
	AUTO_COMMITS struct work_commits c = { 0 };
	AUTO_COMMITS_LEFT struct work_commits_left left = { 0 };

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	/* Controls: old commits, and what git replaced or discarded. */
	expect_left(GIT "checkout -q --detach; " GIT "checkout -q main; " GIT
			"checkout -q refs/remotes/o/x; " GIT "checkout -q main",
		    false, "");
	expect_left(GIT "commit -q --allow-empty -m two; " GIT "reset -q --hard HEAD~",
		    false, "");
	expect_left(GIT "commit -q --allow-empty -m two; " GIT
			"commit -q --amend --allow-empty -m three; " GIT
			"rebase -q --force-rebase HEAD~",
		    true, "");
	expect_left(left_head, false, "no branch: ");
	expect_left_in(worktree, "cd wt; " GIT "checkout -q HEAD", false, "");
	expect_left_in(worktree,
		       "cd .git/worktrees/wt; mkdir rebase-merge; "
		       "echo $c >rebase-merge/autostash",
		       false, "the reference 'worktrees/wt/rebase-merge/autostash'");
	expect_left_in(worktree,
		       "cd wt; " GIT "commit -q --allow-empty -m two; " GIT
		       "checkout -q HEAD~",
		       false, "no branch: ");

	/* Once it is accepted, nothing is left. */
	w = prepare("fix");
	inside(w, "set -e; %s", left_head);
	OK(work_commits_were_detached(w, "logs/HEAD"));
	EQ(work_commits_left(w, &left, &err), 0);
	EQ(strv_len(left.others), 1);
	inside(w, GIT "checkout -q %.12s", left.others[0]);
	EQ(work_commits_accept(w, 0, &c, &err), 0);
	git("log -1 --format=%s warren/fix | grep -qx two");
	inside(w, GIT "checkout -q main");
	work_commits_left_done(&left);
	EQ(work_commits_left(w, &left, &err), 0);
	OK(!left.any);
	end();
}

TEST_MAIN()
