/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-guard.c - what git can be led to read or execute needs permission */
#include <errno.h>
#include <sys/stat.h>

#include "work/changes_internal.h"
#include "work/hide.h"

#include "lib/work.h"

#define BELOW_MODULES "modules/a/b/"

/* Files of a git directory, and whether each is listed as a separate change. */
static const struct {
	const char *path;
	bool acts, refs;
} git_files[] = {
	{ "config", true, false },
	{ "CONFIG", true, false },
	{ "config.worktree", true, false },
	{ "commondir", true, false },
	{ "gitdir", true, false },
	{ "hooks/pre-commit", true, false },
	{ "hooks/deep/er", true, false },
	{ "info/attributes", true, false },
	{ "objects/info/alternates", true, false },
	{ "objects/info/http-alternates", true, false },
	{ "packed-refs", false, true },
	{ "refs/heads/x", false, true },
	{ "HEAD", false, true },
	/* They have no effect alone. */
	{ "config.bak", false, false },
	{ "config~", false, false },
	{ "hooks/pre-commit.sample", false, false },
	{ "FETCH_HEAD", false, false },
	{ "ORIG_HEAD", false, false },
	{ "logs/HEAD", false, false },
	{ "index", false, false },
	{ "info/exclude", false, false },
	{ "description", false, false },
	{ "objects/ab/cd", false, false },
	{ "index.stash.5.lock", false, false },
	{ "COMMIT_EDITMSG", false, false },
	{ "rebase-merge/done", false, false },
	{ "lfs/cache/locks", false, false },
	/* git does not know them. */
	{ "backup/notes", true, false },
	{ "notes.txt", true, false },
	{ "annex/journal/x", true, false },
};

static const struct change *find_change(const struct changes *c, const char *path)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->v[i].path, path) == 0)
			return &c->v[i];
	return NULL;
}

TEST(everything_in_a_git_directory_needs_permission)
{
	for (size_t i = 0; i < ARRAY_SIZE(git_files); i++)
		for (int nested = 0; nested < 2; nested++) {
			AUTO_CHANGES struct changes all = { 0 }, some = { 0 };
			AUTO_WORK struct work *w = NULL;
			const struct change *c;
			char path[128];

			/* A name in another case would be the same file in a module. */
			if (nested && strcmp(git_files[i].path, "logs/HEAD") == 0)
				continue;
			begin();
			git("init -q .");
			w = start();
			(void)snprintf(path, sizeof(path), ".git/%s%s",
				       nested ? BELOW_MODULES : "", git_files[i].path);
			shell("cd '%s/writes/upper' && mkdir -p \"$(dirname %s)\" && echo 1 >%s",
			      w->dir, path, path);
			EQ(changes_list(w, CHANGES_EXPAND, &all, &err), 0);
			c = find_change(&all, path);
			OK(c);
			EQ(c->guard, GUARD_GIT);
			EQ(change_is_ref(c), git_files[i].refs);
			EQ(changes_list(w, 0, &some, &err), 0);
			c = find_change(&some, path);
			if ((c != NULL) != git_files[i].acts)
				TAP_FAIL("%s is %slisted", path, c ? "" : "not ");
			end();
		}
}

/* The guards of the changes at these paths, in the order of the list. */
static void expect_guards(struct work *w, const char *guarded, const char *harmless)
{
	AUTO_CHANGES struct changes c = { 0 };
	char yes[4096] = "", no[4096] = "";

	EQ(changes_list(w, 0, &c, &err), 0);
	for (size_t i = 0; i < c.n; i++) {
		char *to = c.v[i].guard & GUARD_GIT ? yes : no;
		size_t n = strlen(to);

		(void)snprintf(to + n, 4096 - n, "%s ", c.v[i].path);
	}
	STREQ(yes, guarded);
	STREQ(no, harmless);
}

/* The sandbox writes all of these. */
static void write_all(const struct work *w, const char *paths)
{
	shell("cd '%s/writes/upper' && for f in %s; do mkdir -p \"$(dirname $f)\" && echo 1 >$f; done",
	      w->dir, paths);
}

TEST(what_the_configuration_names_needs_permission)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	EQ(setenv("HOME", in("home"), 1), 0);
	EQ(unsetenv("XDG_CONFIG_HOME"), 0);
	shell("mkdir home p/own && printf '[include]\\n\\tpath = ~/more\\n' >home/.gitconfig && "
	      "printf '[core]\\n hooksPath = own/hooks ; a comment\\n' >home/more && ln -s ../tools p/own/link && "
	      "mkdir p/tools");
	git("init -q .");
	git("config include.path ../.gitconfig");
	git("config 'includeIf.onbranch:main.path' ../conf/main");
	git("config core.fsmonitor 'sh \"./watch.sh\" --fast'");
	git("config filter.x.clean 'tools/clean %f'");
	git("config diff.y.textconv own/link/textconv");
	git("config alias.go '!f() { ./scripts/go; }; f'");
	git("config user.name name");
	shell("cd p && printf '[core] hooksPath = \"hooks\\\\\n2\" # no\\n[merge \"a]b\"]driver=sub/merge %%%%O\\n' "
	      ">.gitconfig");
	w = start();
	write_all(w,
		  ".gitconfig conf/main conf/other watch.sh tools/clean tools/textconv "
		  "scripts/go scripts/other own/hooks/pre-commit hooks2/x sub/merge name "
		  "own/file hooks/x .husky/pre-commit");
	expect_guards(
		w,
		".gitconfig conf/main hooks2/x own/hooks/pre-commit scripts/go "
		"sub/merge tools/clean tools/textconv watch.sh ",
		".husky/pre-commit conf/other hooks/x name own/file scripts/other ");
	end();
}

TEST(hooks_of_husky_and_links_to_hooks_need_permission)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	git("init -q .");
	git("config core.hooksPath .husky/_");
	w = start();
	write_all(w, ".husky/pre-commit .husky/_/h husky/x");
	expect_guards(w, ".husky/_/h .husky/pre-commit ", "husky/x ");
	end();
	begin();
	git("init -q .");
	git("config core.hooksPath a/b/hooks");
	w = work_close(w);
	w = start();
	shell("ln -s c '%s/writes/upper/a'", w->dir);
	write_all(w, "c/b/hooks/x");
	/* The link would be what makes the other one a hook. */
	expect_guards(w, "a ", "c/b/hooks/x ");
	end();
}

TEST(a_worktree_and_a_part_of_one_have_the_same_configuration)
{
	AUTO_WORK struct work *w = NULL, *below = NULL;

	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	shell("git init -q main && cd main && git config user.name a && git config user.email a@b && "
	      "git commit -q --allow-empty -m one && git config core.hooksPath sub/hooks && "
	      "rmdir ../p && git worktree add -q ../p && mkdir ../p/sub");
	w = start();
	write_all(w, "sub/hooks/x sub/other hooks/x");
	expect_guards(w, "sub/hooks/x ", "hooks/x sub/other ");
	below = start_with(&(struct work_options){ .project = in("p/sub") });
	write_all(below, "hooks/x other");
	expect_guards(below, "hooks/x ", "other ");
	end();
}

TEST(files_that_git_reads_in_the_project)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	git("init -q .");
	w = start();
	write_all(w, ".gitmodules d/.gitmodules .gitattributes .gitignore .mailmap "
		     ".lfsconfig .git-blame-ignore-revs");
	/* .gitattributes only names filters, which are in the configuration. */
	expect_guards(
		w, ".gitmodules d/.gitmodules ",
		".git-blame-ignore-revs .gitattributes .gitignore .lfsconfig .mailmap ");
	end();
}

TEST(links_in_git_directories_make_their_targets_gits)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	git("init -q .");
	shell("cd p && mkdir scripts attr hooks2 far && rm -rf .git/info .git/hooks/* && mv .git/config conf && "
	      "ln -s ../conf .git/config && ln -s ../attr .git/info && ln -s ../scripts/pre.sh .git/hooks/pre && "
	      "ln -s ../../scripts/one .git/hooks/one && ln -s %s/scripts/two .git/hooks/two && "
	      "ln -s ../../step/in .git/hooks/three && ln -s far step && ln -s ../scripts/last far/in && "
	      "ln -s ../../hooks2 .git/hooks/more && ln -s ../scripts/deep hooks2/deep",
	      project);
	w = start();
	write_all(
		w,
		"conf attr/attributes scripts/one scripts/two scripts/last scripts/deep "
		"hooks2/x scripts/other far/other pre.sh scripts/pre.sh");
	shell("cd '%s/writes/upper' && mkdir n && ln -s n step && ln -s n step2", w->dir);
	/* .git/hooks/pre leads to .git/scripts. */
	expect_guards(
		w,
		"attr/attributes conf hooks2/x scripts/deep scripts/last scripts/one "
		"scripts/two step ",
		"far/other n pre.sh scripts/other scripts/pre.sh step2 ");
	end();
}

TEST(a_link_in_the_repository_of_a_worktree_makes_its_target_gits)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	shell("git init -q main && cd main && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one && "
	      "rmdir ../p && git worktree add -q ../p && ln -s %s/s/pre .git/hooks/pre-commit",
	      project);
	w = start();
	write_all(w, "s/pre s/other");
	expect_guards(w, "s/pre ", "s/other ");
	end();
}

TEST(repositories_in_the_project_have_configurations)
{
	AUTO_HIDDEN struct work_hidden hidden = { 0 };
	AUTO_WORK struct work *w = NULL;

	begin();
	EQ(setenv("HOME", in("home"), 1), 0);
	shell("mkdir home && printf '[core]\\n\\tfsmonitor = ./watch\\n' >home/.gitconfig");
	git("init -q . && git commit -q --allow-empty -m one");
	git("worktree add -q tree && git config core.hooksPath .husky");
	shell("cd p && git init -q nested && git -C nested config core.hooksPath ../shared && "
	      "git init -q --bare bare && git -C bare config core.hooksPath ../bare-hooks && "
	      "mkdir .git/modules && git init -q --separate-git-dir=.git/modules/m sub && "
	      "git -C sub config core.hooksPath hk && git -C sub config core.worktree ../../../sub && "
	      "git -C sub config include.path ../../../sub/inc");
	w = start();
	EQ(work_hide(w, NULL, &hidden, &err), 0);
	/* The user makes another one while the sandbox runs. */
	shell("cd p && git init -q late && git -C late config core.hooksPath hk");
	write_all(
		w,
		"watch other tree/watch tree/.husky/x sub/watch sub/hk/x sub/inc sub/.husky/x "
		"shared/x bare-hooks/x late/hk/x late/watch nested/hk/x nested/watch hk/x");
	expect_guards(w,
		      "bare-hooks/x late/hk/x late/watch nested/watch shared/x sub/hk/x "
		      "sub/inc sub/watch tree/.husky/x tree/watch watch ",
		      "hk/x nested/hk/x other sub/.husky/x ");
	end();
}

TEST(separate_git_directories_belong_to_the_directory_that_names_them)
{
	/* Places for the git directory of p/n, and ways in which p/n names it. */
	static const char *const made[] = {
		"git init -q --separate-git-dir=gd n", /* found before n */
		"git init -q --separate-git-dir=z/gd n",
		"mkdir n && git init -q --separate-git-dir=n/gd n",
		"git init -q --separate-git-dir=../gd n",
		"git init -q n && mv n/.git gd && ln -s ../gd n/.git",
		"git init -q n && mv n/.git z/gd && ln -s ../z/gd n/.git",
		"git init -q n && mv n/.git ../gd && ln -s $PWD/../gd n/.git",
		"mkdir .git/modules && git init -q --separate-git-dir=.git/modules/n n",
		"git init -q --separate-git-dir=gd m && mkdir n && cp m/.git n/.git",
		"git init -q m && git -C m -c user.name=a -c user.email=a@b commit -q "
		"--allow-empty -m 1 && git -C m worktree add -q ../n",
		"git init -q z/m && git -C z/m -c user.name=a -c user.email=a@b commit -q "
		"--allow-empty -m 1 && git -C z/m worktree add -q ../../n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(made); i++)
		for (int late = 0; late < 2; late++) {
			AUTO_HIDDEN struct work_hidden hidden = { 0 };
			AUTO_WORK struct work *w = NULL;
			begin();
			EQ(setenv("HOME", "/nonexistent", 1), 0);
			git("init -q . && mkdir z");
			w = start();
			if (late)
				EQ(work_hide(w, NULL, &hidden, &err), 0);
			shell("cd p && %s && git -C n config core.hooksPath .husky && "
			      "git -C n config core.fsmonitor ./watch && "
			      "git -C n config gpg.program ../z/sign",
			      made[i]);
			if (!late)
				EQ(work_hide(w, NULL, &hidden, &err), 0);
			write_all(w, "n/.husky/pre-commit n/husky/x n/watch z/sign z/x");
			expect_guards(w, "n/.husky/pre-commit n/watch z/sign ",
				      "n/husky/x z/x ");
			end();
		}
}

TEST(a_repository_counts_in_addition_to_its_worktrees)
{
	AUTO_HIDDEN struct work_hidden hidden = { 0 };
	AUTO_WORK struct work *w = NULL;

	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	shell("cd p && git init -q main && git -C main -c user.name=a -c user.email=a@b "
	      "commit -q --allow-empty -m 1 && git -C main worktree add -q ../a && "
	      "git -C main worktree add -q ../z && git -C main config core.hooksPath hk");
	w = start();
	EQ(work_hide(w, NULL, &hidden, &err), 0);
	write_all(w, "main/hk/x main/x a/hk/x a/x z/hk/x z/x hk/x");
	expect_guards(w, "a/hk/x main/hk/x z/hk/x ", "a/x hk/x main/x z/x ");
	end();
}

TEST(unclear_commands_may_be_any_program_or_script)
{
	AUTO_WORK struct work *w = NULL;

	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	git("init -q .");
	git("config core.fsmonitor '$TOOL'");
	shell("cd p && printf '#!/bin/sh\\n' | tee was >now");
	w = start();
	write_all(w, "a.sh b.txt bin lib/x.PY Makefile was d/e.c");
	shell("cd '%s/writes/upper' && chmod +x bin && printf '#!/bin/sh\\n' >script && ln -s b.txt link",
	      w->dir);
	expect_guards(w, "Makefile a.sh bin lib/x.PY link script was ", "b.txt d/e.c ");
	end();
}

TEST(programs_where_git_runs_need_permission_if_path_has_that_directory)
{
	AUTO_FREE char *path = strdup(getenv("PATH")), *more = NULL;
	AUTO_WORK struct work *w = NULL;

	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	git("init -q .");
	w = start();
	write_all(w, "a.py less Makefile src/a.py src/less");
	shell("cd '%s/writes/upper' && chmod +x less src/less && ln -s src/a.py more",
	      w->dir);
	expect_guards(w, "", "Makefile a.py less more src/a.py src/less ");
	OK(asprintf(&more, "%s:", path) > 0);
	EQ(setenv("PATH", more, 1), 0);
	expect_guards(w, "less more ", "Makefile a.py src/a.py src/less ");
	EQ(setenv("PATH", path, 1), 0);
	end();
}

TEST_MAIN()
