/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-named.c - which files of the project git's configuration names */
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "work/git_named.h"

#include "lib/work_config.h"

/* What a value of the configuration says about a file. */
enum judged {
	HARMLESS,
	NAMED,
	UNCLEAR
};

static enum judged judge_as(const char *path, bool program)
{
	char *nested[] = { (char[]){ "nested" }, NULL };
	struct git_named n = { 0 };
	enum judged is;

	EQ(git_named_read(project, nested, true, &n), 0);
	is = git_named_has(&n, path, false, program) ? NAMED
	     : n.unclear                             ? UNCLEAR
						     : HARMLESS;
	git_named_done(&n);
	return is;
}

static enum judged judge(const char *path)
{
	return judge_as(path, true);
}

static const struct {
	const char *section, *key, *value, *path;
	enum judged want;
} values[] = {
	/* Quotes and escapes, which keep words together. */
	{ "core", "fsmonitor", "'my tools/x.sh'", "my tools/x.sh", NAMED },
	{ "core", "fsmonitor", "\"my tools/x.sh\" -a", "my tools/x.sh", NAMED },
	{ "core", "fsmonitor", "my\\ tools/x.sh", "my tools/x.sh", NAMED },
	{ "gpg", "program", "my tools/x.sh", "my tools/x.sh", NAMED },
	{ "alias", "a", "!'my tools/x.sh'", "my tools/x.sh", NAMED },
	{ "merge \"f\"", "driver", "bash -c \"exec t/x.sh %O\"", "t/x.sh", NAMED },
	{ "core", "fsmonitor", "sh<t/x.sh", "t/x.sh", NAMED },
	{ "core", "fsmonitor", "t/\"x\".sh", "t/x.sh", NAMED },
	{ "core", "fsmonitor", "'t/x.sh'.old", "t/x.sh", HARMLESS },
	{ "core", "fsmonitor", "# t/x.sh", "t/x.sh", HARMLESS },
	/* Expansions. */
	{ "core", "fsmonitor", "$PWD/t/x.sh", "t/x.sh", NAMED },
	{ "core", "fsmonitor", "\"${PWD}\"/t/x.sh", "t/x.sh", NAMED },
	{ "core", "fsmonitor", "$HOME/p/t/x.sh", "t/x.sh", NAMED },
	{ "core", "fsmonitor", "~/p/t/x.sh", "t/x.sh", NAMED },
	{ "core", "fsmonitor", "$(git rev-parse --show-toplevel)/t/x.sh", "t/x.sh",
	  NAMED },
	{ "core", "fsmonitor", "`pwd`/t/x.sh", "t/x.sh", NAMED },
	{ "core", "fsmonitor", "'$PWD'/t/x.sh", "t/x.sh", HARMLESS },
	{ "credential", "helper", "$PWD/t/x.sh", "t/x.sh", NAMED },
	{ "alias", "a", "!\"$GIT_PREFIX/x.sh\"", "t/x.sh", UNCLEAR },
	{ "alias", "a", "!sh ${GIT_PREFIX}x.sh", "t/x.sh", UNCLEAR },
	{ "alias", "a", "!t$GIT_NONE/x.sh", "t/x.sh", UNCLEAR },
	{ "alias", "a", "!echo $GIT_PREFIX $GIT_AUTHOR_NAME", "t/x.sh", HARMLESS },
	/* Assignments. */
	{ "alias", "a", "!GIT_EDITOR='t/x.sh -w' git commit", "t/x.sh", NAMED },
	{ "alias", "a", "!export GIT_PAGER='sh t/x.sh'; git log", "t/x.sh", NAMED },
	{ "core", "pager", "LESSOPEN='|-t/x.sh %s' less", "t/x.sh", NAMED },
	{ "alias", "a", "!A='some words' git log", "t/x.sh", HARMLESS },
	{ "alias", "a", "!cd t && ./x.sh", "t/x.sh", NAMED },
	{ "alias", "a", "!cd \"$(git rev-parse --show-toplevel)\" && t/x.sh", "t/x.sh",
	  NAMED },
	{ "alias", "a", "!PATH=\"./t:$PATH\" x.sh", "t/x.sh", NAMED },
	{ "alias", "a", "!export PYTHONPATH=t; y", "t/x.py", NAMED },
	{ "core", "fsmonitor", "t/*.sh", "t/x.sh", NAMED },
	{ "core", "fsmonitor", "t/*.sh", "u/x.sh", HARMLESS },
	{ "core", "fsmonitor", "node t/x", "t/x.js", NAMED },
	/* An unknown word may be any program. */
	{ "core", "fsmonitor", "$TOOL", "t/x.sh", UNCLEAR },
	{ "core", "fsmonitor", "sh $(which x)", "t/x.sh", UNCLEAR },
	{ "core", "fsmonitor", "./*.sh", "x.sh", UNCLEAR },
	{ "core", "fsmonitor", "t/*/../../x", "y", UNCLEAR },
	{ "core", "fsmonitor", "python3 -m t.x", "t/x.py", UNCLEAR },
	{ "core", "fsmonitor", "PATH=: x", "y", UNCLEAR },
	{ "core", "fsmonitor", "make hook", "Makefile", UNCLEAR },
	{ "alias", "a", "!d=t; $d/x.sh", "u/x.sh", UNCLEAR },
	{ "alias", "a", "!cd $X && ./x.sh", "t/x.sh", UNCLEAR },
	{ "alias", "a", "!eval \"$X\"", "t/x.sh", UNCLEAR },
	{ "core", "hooksPath", ".", "pre-commit", UNCLEAR },
	/* Common commands are harmless. */
	{ "core", "fsmonitor", "true", "true", HARMLESS },
	{ "core", "editor", "code --wait", "t/x.sh", HARMLESS },
	{ "core", "fsmonitor", "python3 -I -m x", "t/x.py", HARMLESS },
	{ "core", "pager", "delta | less -FRX", "t/x.sh", HARMLESS },
	{ "difftool \"d\"", "cmd", "code --wait --diff $LOCAL \"$REMOTE\"", "t/x.sh",
	  HARMLESS },
	{ "filter \"lfs\"", "clean", "git-lfs clean -- %f", "t/x.sh", HARMLESS },
	{ "alias", "a", "!git push -u origin $(git branch --show-current)", "t/x.sh",
	  HARMLESS },
	{ "alias", "a", "!f() { git log \"$1\" | grep -v '^*' && test -n \"$X\"; }; f",
	  "t/x.sh", HARMLESS },
	{ "alias", "a", "!case $1 in a|b) git x;; *) git y;; esac", "t/x.sh", HARMLESS },
	{ "alias", "a", "log --format='%h $x'", "t/x.sh", HARMLESS },
	{ "credential", "helper", "!f() { echo password=$TOKEN; }; f", "t/x.sh",
	  HARMLESS },
	{ "diff \"css\"", "xfuncname", "^[a-z]*$(", "t/x.sh", HARMLESS },
	/* Any key, except those with names of branches and people. */
	{ "imap", "tunnel", "t/x.sh", "t/x.sh", NAMED },
	{ "instaweb", "httpd", "t/x.sh -f", "t/x.sh", NAMED },
	{ "lfs \"customtransfer.f\"", "path", "t/x.sh", "t/x.sh", NAMED },
	{ "unknown", "key", "t/x.sh", "t/x.sh", NAMED },
	{ "remote \"o\"", "url", "ext::sh t/x.sh", "t/x.sh", NAMED },
	{ "remote \"o\"", "url", "ext::t/my%20x t/my% x.sh", "t/my x.sh", NAMED },
	{ "url \"ext::sh t/x.sh\"", "insteadOf", "foo:", "t/x.sh", NAMED },
	{ "remote \"o\"", "url", "t/x.sh", "t/x.sh", HARMLESS },
	{ "branch \"o\"", "remote", "t", "t/x.sh", HARMLESS },
	{ "init", "defaultBranch", "t", "t/x.sh", HARMLESS },
	{ "safe", "directory", "t", "t/x.sh", HARMLESS },
	{ "GitFlow \"prefix\"", "Feature", "t/", "t/x.sh", HARMLESS },
	{ "gitflow \"path\"", "hooks", "t", "t/x.sh", NAMED },
	{ "gitflow", "unknown", "t", "t/x.sh", NAMED },
	{ "gitreview", "branch", "t", "t/x.sh", HARMLESS },
	{ "credential", "username", "t", "t/x.sh", HARMLESS },
	{ "credential", "user", "t", "t/x.sh", NAMED },
	{ "remote", "pushDefault", "t", "t/x.sh", HARMLESS },
	{ "remote", "pushDefault", "ext::sh t/x.sh", "t/x.sh", NAMED },
	{ "remote \"o\"", "gh-resolved", "t", "t/x.sh", HARMLESS },
	{ "remote \"o\"", "vcs", "t/x.sh", "t/x.sh", NAMED },
	{ "lfs", "fetchInclude", "t,u", "t/x.sh", HARMLESS },
	{ "lfs", "fetchExclude", "t", "t/x.sh", HARMLESS },
	{ "lfs \"https://h/\"", "access", "t", "t/x.sh", HARMLESS },
	{ "lfs", "standaloneTransferAgent", "t/x.sh", "t/x.sh", NAMED },
	{ "lfs \"customtransfer.f\"", "args", "t/x.sh", "t/x.sh", NAMED },
	{ "lfs \"extension.f\"", "clean", "sh t/x.sh", "t/x.sh", NAMED },
	{ "core", "autocrlf", "input", "input/x.sh", HARMLESS },
	{ "core", "attributesFile", "t/x", "t/x", NAMED },
	{ "diff", "submodule", "log", "log/x.sh", HARMLESS },
	{ "diff \"d\"", "command", "log/x.sh", "log/x.sh", NAMED },
	{ "gpg", "format", "ssh", "ssh/x.sh", HARMLESS },
	{ "gpg \"ssh\"", "program", "ssh/x.sh", "ssh/x.sh", NAMED },
	{ "merge \"t\"", "name", "merge t", "t/x.sh", HARMLESS },
	{ "merge \"t\"", "driver", "t/x.sh %A", "t/x.sh", NAMED },
	{ "gc", "recentObjectsHook", "cd t && ./x.sh", "t/x.sh", NAMED },
	{ "tar \"x\"", "command", "t/x.sh", "t/x.sh", NAMED },
	{ "trailer \"t\"", "cmd", "t/x.sh", "t/x.sh", NAMED },
	{ "sendemail \"i\"", "toCmd", "t/x.sh", "t/x.sh", NAMED },
};

TEST(the_words_of_commands_are_read_as_the_shell_reads_them)
{
	begin();
	EQ(setenv("HOME", top, 1), 0);
	git("init -q .");
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		const char *text = configure_value(values[i].section, values[i].key,
						   values[i].value);

		if (judge(values[i].path) != values[i].want)
			TAP_FAIL("%s is judged wrongly for %s", values[i].path, text);
	}
	end();
}

/* Shell syntax with which a command can execute more than its words show. */
static const struct {
	const char *command;
	enum judged want; /* of t/x.sh */
} shell_forms[] = {
	{ "sh t/x{1..3}.sh", UNCLEAR },
	{ "{t,u}/x.sh", UNCLEAR },
	{ "../{p,q}/t/x.sh", UNCLEAR },
	{ "env -S 'sh t/x.sh'", NAMED },
	{ "env -S 'make x'", UNCLEAR },
	{ "nice -n 5 make", UNCLEAR },
	{ "timeout 5 sh -c 'cd $X; ./x.sh'", UNCLEAR },
	{ "find . -name '*.sh' -exec sh {} +", UNCLEAR },
	{ "find . -execdir ./x.sh \\;", UNCLEAR },
	{ "git ls-files | xargs -n 1 tool", UNCLEAR },
	{ "git grep -Ot/x.sh a", NAMED },
	{ "git grep --open-files-in-pager=make a", UNCLEAR },
	{ "git -c alias.y='!make' y", UNCLEAR },
	{ "git -c core.editor=\"$X\" commit", UNCLEAR },
	{ "git rebase -ix 'make test' main", UNCLEAR },
	{ "git rebase --exec=make main", UNCLEAR },
	{ "git bisect run make", UNCLEAR },
	{ "git submodule foreach 'make; true'", UNCLEAR },
	{ "git difftool -x \"$X\"", UNCLEAR },
	{ "sh -c make", UNCLEAR },
	{ "trap make EXIT", UNCLEAR },
	{ "sh <(git show HEAD:x)", UNCLEAR },
	{ "sh <<E\necho\nE", UNCLEAR },
	{ "echo make | sh", UNCLEAR },
	{ "git show HEAD:x | bash -s", UNCLEAR },
	{ "function f { cd t; ./x.sh; }; f", NAMED },
	{ "f() { \"$@\"; }; f make", UNCLEAR },
	{ "echo ${X:-$(t/x.sh)}", NAMED },
	{ "echo ${X:-`make`}", UNCLEAR },
	{ "$'t/\\x78.sh'", UNCLEAR },
	{ "~me/p/t/x.sh", UNCLEAR },
	{ "PATH+=:t x.sh", NAMED },
	{ "declare PATH=t:/bin; x.sh", NAMED },
	{ "cd; p/t/x.sh", UNCLEAR },
	{ "GIT_EDITOR=make git commit", UNCLEAR },
	{ "GIT_SEQUENCE_EDITOR=$X git rebase -i", UNCLEAR },
	{ "${EDITOR:-t/x.sh} a", UNCLEAR },
	{ "${EDITOR:-sh} a", UNCLEAR },
	{ "${EDITOR:-make} a", UNCLEAR },
	{ "${TOOL:-vim} a", UNCLEAR },
	{ "EDITOR=$X; $EDITOR a", UNCLEAR },
	{ "git submodule foreach ./u/x.sh", UNCLEAR },
	{ "git submodule foreach 'git fetch; sh u/x.sh'", UNCLEAR },
	{ "./t/go", UNCLEAR },
	{ "python3 .", UNCLEAR },
	{ "node ./", UNCLEAR },
	{ "node \"$PWD\"", UNCLEAR },
	{ "cd t && python3 .", NAMED },
	{ "go run .", UNCLEAR },
	{ "cat a | bash -s x", UNCLEAR },
	{ "$EDITOR \"$(t/x.sh)\"", NAMED },
	{ "$EDITOR -S t/x.sh", NAMED },
	{ "npx ./t/x.sh", NAMED },
	{ "npx tsx t/x.sh", NAMED },
	{ "npx -c \"$X\"", UNCLEAR },
	{ "npx make", UNCLEAR },
	{ "cd $X; npx tool", UNCLEAR },
	{ "EDITOR=t/x.sh; ${EDITOR:-vim} a", NAMED },
	/* Common commands stay harmless. */
	{ "${EDITOR:-vim} ~/.gitconfig", HARMLESS },
	{ "\"${VISUAL:-vi}\" a", HARMLESS },
	{ "$EDITOR $(git diff --name-only)", HARMLESS },
	{ "\"$VISUAL\" -p $(git diff --name-only)", HARMLESS },
	{ "vim $(git diff --name-only)", HARMLESS },
	{ "open $(git remote get-url origin)", HARMLESS },
	{ "npx npm-merge-driver merge a b", HARMLESS },
	{ "git log | ${PAGER:-less}", HARMLESS },
	{ "git log --oneline", HARMLESS },
	{ "f() { git push origin \"$1\"; }; f", HARMLESS },
	{ "git branch --merged | grep -v main | xargs git branch -d", HARMLESS },
	{ "git branch -q | xargs -n 1 git branch -D", HARMLESS },
	{ "git push origin \"${1:-$(git branch --show-current)}\"", HARMLESS },
	{ "git submodule foreach 'git checkout $branch || :'", HARMLESS },
	{ "git -c color.ui=always -c core.pager=cat log", HARMLESS },
	{ "git cherry-pick -x $(git log -1 --format=%h)", HARMLESS },
	{ "git diff stash@{0} HEAD~1", HARMLESS },
	{ "GIT_SEQUENCE_EDITOR=: git rebase -i --autosquash", HARMLESS },
	{ "GIT_EDITOR='sed -i s/a/b/' git commit --amend", HARMLESS },
	{ "cd \"$(git rev-parse --show-toplevel)\" && cd u && ls", HARMLESS },
	{ "sh -c 'git log $1' -", HARMLESS },
	{ "git submodule foreach --recursive 'git fetch --all'", HARMLESS },
	{ "git add . && git commit", HARMLESS },
	{ "cat a | bash /usr/local/bin/x", HARMLESS },
	{ "find . -name a -print", HARMLESS },
	{ "git log | awk '{print $1}' | sort -u", HARMLESS },
	{ "git log | perl -pe 's/a/b/'", HARMLESS },
	{ "diff <(git show a) <(git show b)", HARMLESS },
};

TEST(unclear_words_may_execute_any_program)
{
	begin();
	EQ(setenv("HOME", top, 1), 0);
	git("init -q .");
	for (size_t i = 0; i < ARRAY_SIZE(shell_forms); i++) {
		char value[1024];

		(void)snprintf(value, sizeof(value), "!%s", shell_forms[i].command);
		(void)configure_value("alias", "a", value);
		if (judge("t/x.sh") != shell_forms[i].want)
			TAP_FAIL("wrong: %s", shell_forms[i].command);
	}
	end();
}

TEST(npx_executes_what_node_modules_and_package_json_say)
{
	static const struct {
		const char *file;
		enum judged want;
	} files[] = {
		{ "node_modules/.bin/tool", NAMED },
		{ "node_modules/tool/index.js", NAMED },
		{ "package.json", NAMED },
		{ ".npmrc", NAMED },
		{ "packages/tool/cli.js", NAMED }, /* a link leads there */
		{ "packages/tool/test.js", HARMLESS },
		{ "src/main.js", HARMLESS },
	};

	begin();
	git("init -q .");
	shell("cd p && mkdir -p node_modules/.bin packages/tool && "
	      "ln -s ../packages/tool node_modules/tool && "
	      "ln -s ../tool/cli.js node_modules/.bin/tool && "
	      "touch packages/tool/cli.js && test -e node_modules/.bin/tool");
	EQ(judge("node_modules/.bin/tool"), HARMLESS);
	git("config merge.m.driver 'npx tool %%A %%O %%B'");
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (judge(files[i].file) != files[i].want)
			TAP_FAIL("wrong: %s", files[i].file);
	end();
}

TEST(a_path_with_a_blank_is_understood)
{
	char text[512];

	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	(void)strcat(project, " of me");
	shell("mkdir '%s'", project);
	shell("git init -q '%s'", project);
	(void)snprintf(text, sizeof(text),
		       "[core]\nfsmonitor = '%s/t/x.sh'\n[gpg]\nprogram = %s/t/y.sh\n",
		       project, project);
	configure(text);
	EQ(judge("t/x.sh"), NAMED);
	EQ(judge("t/y.sh"), NAMED);
	EQ(judge("t/z.sh"), HARMLESS);
	end();
}

static const struct {
	const char *text;
	enum judged want;
} forms[] = {
	{ "[core]hooksPath=hk", NAMED },
	{ "\xef\xbb\xbf[core]\n\thooksPath = hk", NAMED },
	{ "[core]\nhooksPath = \\\n hk", NAMED },
	{ "[core]\nhooksPath = \\\n \\\n\thk # x", NAMED },
	{ "[core]\r\nhooksPath = \\\r\n hk\r\n", NAMED },
	{ "[core]\r\nhooksPath = hk\r\n", NAMED },
	{ "[core]\nhooksPath = h\\\nk", NAMED },
	{ "[core]\nhooksPath = h\"k\"", NAMED },
	{ "[core]\nhooksPath\t= ./t/../hk/ ; x", NAMED },
	{ "[CORE]\nHOOKSPATH = hk", NAMED },
	{ "[core]\nhooksPath = h\\\n k", HARMLESS },
	{ "[core]\nhooksPath = hk\\\n2", HARMLESS },
	{ "# [core]\n#hooksPath = hk", HARMLESS },
	{ "[core]\n# \\\nhooksPath = hk", NAMED },
	{ "[user \"\xef\xbb\xbf\"]\nname = hk", HARMLESS },
};

TEST(the_configuration_is_read_as_git_reads_it)
{
	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	git("init -q .");
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		configure(forms[i].text);
		if (judge("hk/pre-commit") != forms[i].want)
			TAP_FAIL("wrong: %s", forms[i].text);
	}
	end();
}

TEST(beginnings_of_paths_are_expanded_as_git_does)
{
	static const struct {
		const char *before, *after;
		enum judged want;
	} begins[] = {
		{ "~root/..", "/hk", NAMED },
		{ "%(prefix)/..", "/hk", NAMED },
		{ ":(optional)", "/hk", NAMED },
		{ ":(optional)~root/..", "/hk", NAMED },
		{ "~no-user/..", "/hk", HARMLESS },
		{ "%(prefix)", "/hk", HARMLESS },
		{ "~root/..", "/hk2", HARMLESS },
	};
	char real_path[PATH_MAX], text[2 * PATH_MAX];

	begin();
	git("init -q .");
	OK(realpath(in("p"), real_path));
	for (size_t i = 0; i < ARRAY_SIZE(begins); i++) {
		(void)snprintf(text, sizeof(text), "[core]\nhooksPath = %s%s%s\n",
			       begins[i].before, real_path, begins[i].after);
		configure(text);
		if (judge("hk/pre-commit") != begins[i].want)
			TAP_FAIL("wrong: %s", text);
	}
	end();
}

TEST(a_directory_before_dot_dot_may_not_become_a_link)
{
	static const struct {
		const char *hooks, *file;
		enum judged want;
	} sets[] = {
		{ "x/../hk", "x", NAMED },
		{ "x/../hk", "hk/pre-commit", NAMED },
		{ "x/../hk", "x/a", HARMLESS },
		{ "none/../hk", "none", NAMED },
		{ "d/x/../../hk", "d", NAMED },
		{ "d/x/../../hk", "d/x", NAMED },
		{ "d/x/../../hk", "d/y", HARMLESS },
		{ "link/../hk", "d/x", NAMED },
		{ "link/../hk", "link", NAMED },
		{ "hk", "x", HARMLESS },
	};

	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	git("init -q .");
	shell("cd p && mkdir -p x hk d/x d/hk && ln -s d/x link");
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		char text[128];

		(void)snprintf(text, sizeof(text), "[core]\nhooksPath = %s\n",
			       sets[i].hooks);
		configure(text);
		if (judge(sets[i].file) != sets[i].want)
			TAP_FAIL("wrong: %s with %s", sets[i].file, sets[i].hooks);
	}
	end();
}

TEST(includes_are_followed_as_far_as_git_follows_them)
{
	begin();
	git("init -q .");
	shell("cd p && for i in 1 2 3 4 5 6 7 8 9; do "
	      "printf '[include]\npath = %%s\n' \"$PWD/.git/i$((i + 1))\" >.git/i$i; done; "
	      "printf '[core]\nhooksPath = hk\n' >.git/i10; "
	      "git config include.path i1; test \"$(git config core.hooksPath)\" = hk");
	EQ(judge("hk/pre-commit"), NAMED);
	end();
}

TEST(the_environment_is_configuration_too)
{
	static const struct {
		const char *names[3], *values[3];
	} sets[] = {
		{ { "GIT_CONFIG_GLOBAL" }, { "conf" } },
		{ { "GIT_CONFIG_SYSTEM" }, { "conf" } },
		{ { "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0" },
		  { "1", "core.hooksPath", "hk" } },
		{ { "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0" },
		  { "1", "filter.a.b.clean", "sh hk/x" } },
		{ { "GIT_CONFIG_PARAMETERS" },
		  { "'user.name'='x' 'core.hooksPath'='hk'" } },
		{ { "GIT_CONFIG_PARAMETERS" }, { "'core.hooksPath=hk'" } },
		{ { "GIT_EDITOR" }, { "hk/x -w" } },
		{ { "GIT_SSH_COMMAND" }, { "ssh -o ProxyCommand='hk/x %h'" } },
		{ { "PAGER" }, { "hk/x" } },
		{ { "EDITOR" }, { "sh hk/x" } },
		{ { "VISUAL" }, { "hk/x -w" } },
		{ { "GIT_EXEC_PATH" }, { "hk" } },
	};

	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	git("init -q .");
	shell("printf '[core]\\nhooksPath = hk\\n' >p/conf");
	EQ(judge("hk/x"), HARMLESS);
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		for (int j = 0; j < 3 && sets[i].names[j]; j++)
			EQ(setenv(sets[i].names[j], sets[i].values[j], 1), 0);
		if (judge("hk/x") != NAMED)
			TAP_FAIL("not read: %s=%s", sets[i].names[0], sets[i].values[0]);
		EQ(judge("other/x"), HARMLESS);
		for (int j = 0; j < 3 && sets[i].names[j]; j++)
			EQ(unsetenv(sets[i].names[j]), 0);
	}
	EQ(judge("hk/x"), HARMLESS);
	end();
}

TEST(programs_in_directories_of_path_are_executed_by_git)
{
	AUTO_FREE char *path = strdup(getenv("PATH"));
	static const struct {
		const char *path; /* "@": the test's directory */
		const char *file;
		enum judged want;
	} sets[] = {
		{ "@/p/bin", "bin/myed", NAMED },    /* exists */
		{ "@/p/bin", "bin/less", NAMED },    /* git's pager, and a new file */
		{ "@/p/new", "new/less", NAMED },    /* so is the directory */
		{ "@/home/bin", "bin/less", NAMED }, /* a link to it */
		{ "@/home/mine", "t/x.sh", NAMED },  /* has a link to the file */
		{ "@/home/mine", "t/y.sh", HARMLESS },
		{ "./bin", "bin/less", NAMED },
		{ "bin", "bin/less", NAMED },
		{ "bin", "other/less", HARMLESS },
		/* Only files directly in the directory are found by name. */
		{ "@/p/bin", "bin/lib/less", HARMLESS },
		{ "./bin", "bin/lib/less", HARMLESS },
		{ "", "bin/less", HARMLESS },
		{ ".", "bin/less", HARMLESS },
		{ "", "less", NAMED },
		{ ".", "less", NAMED },
		{ "", "nested/less", NAMED },
		{ ".", "nested/bin/less", HARMLESS },
		{ "bin", "nested/bin/less", NAMED },
		{ "bin", "nested/less", HARMLESS },
		{ "@/p", "bin/less", HARMLESS },
		{ "@/p", "less", NAMED },
		{ "@/p", "nested/less", HARMLESS },
		{ "@", "bin/less", HARMLESS },
		{ "@", "less", HARMLESS },
		{ "@/p/way/in", "t/x", NAMED },
		{ "@/p/way/in", "way", NAMED },
		{ "@/p/way/in", "way/x", HARMLESS },
		{ "@/p/new/in", "new", NAMED },
		{ "/usr/bin", "bin/myed", HARMLESS },
	};

	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	git("init -q . && git config core.editor myed");
	shell("mkdir home p/bin p/t && touch p/bin/myed && ln -s ../p/bin home/bin && "
	      "mkdir home/mine && ln -s ../../p/t/x.sh home/mine/x");
	git("init -q nested");
	shell("mkdir p/way && ln -s ../t p/way/in");
	EQ(judge("bin/myed"), HARMLESS);
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		char all[4096];
		const char *rest = sets[i].path;
		bool below = rest[0] == '@';

		(void)snprintf(all, sizeof(all), "%s:%s%s", path, below ? top : "",
			       below ? rest + 1 : rest);
		EQ(setenv("PATH", all, 1), 0);
		if (judge(sets[i].file) != sets[i].want)
			TAP_FAIL("wrong for %s: %s", all, sets[i].file);
		EQ(setenv("PATH", path, 1), 0);
	}
	/* In the directory where git runs, only executable files are found. */
	EQ(setenv("PATH", ":", 1), 0);
	EQ(judge_as("less", true), NAMED);
	EQ(judge_as("less", false), HARMLESS);
	EQ(setenv("PATH", "bin", 1), 0);
	EQ(judge_as("bin/less", false), NAMED);
	EQ(setenv("PATH", path, 1), 0);
	end();
}

TEST(root_reads_the_configuration_of_the_projects_owner)
{
	SKIP_UNLESS(geteuid() == 0, "gives the project to another user");
	begin();
	EQ(setenv("HOME", in("mine"), 1), 0);
	git("init -q .");
	shell("mkdir mine owners && printf '[core]\\nhooksPath = ~/p/hk\\n' >owners/.gitconfig && "
	      "cp -r p owners && printf 'a:x:1234:1234::%s/owners:/bin/sh\\n' >passwd",
	      top);
	(void)snprintf(project, sizeof(project), "%s/owners/p", top);
	if (unshare(CLONE_NEWNS) < 0 ||
	    mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		SKIP("needs a mount namespace");
	EQ(mount(in("passwd"), "/etc/passwd", NULL, MS_BIND, NULL), 0);
	EQ(judge("hk/x"), HARMLESS); /* it belongs to root */
	shell("chown 1234 owners/p");
	EQ(judge("hk/x"), NAMED);
	EQ(judge("other/x"), HARMLESS);
	EQ(umount2("/etc/passwd", MNT_DETACH), 0);
	end();
}

TEST(a_file_that_is_included_again_and_again_is_read_once)
{
	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	git("init -q .");
	shell("cd p/.git && for i in $(seq 400); do printf '[include]\\npath = i\\n'; done "
	      ">>config && printf '[core]\\nhooksPath = hk\\n' >i");
	EQ(judge("hk/pre-commit"), NAMED);
	EQ(judge("t/x.sh"), HARMLESS);
	/* Control: there is a limit for different ones. */
	shell("cd p/.git && for i in $(seq 400); do printf '[include]\\npath = i%%d\\n' $i; "
	      "cp i i$i; done >>config");
	EQ(judge("hk/pre-commit"), NAMED);
	EQ(judge("t/x.sh"), UNCLEAR);
	end();
}

TEST(very_many_links_in_a_repository_are_not_all_followed)
{
	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	git("init -q .");
	shell("cd p && mkdir d && cd d && seq 3000 | xargs mkdir && mkdir ../.git/links && "
	      "cd ../.git/links && ln -s ../../d/5 .");
	EQ(judge("d/5/x"), NAMED);
	EQ(judge("t/x.sh"), HARMLESS);
	shell("cd p/.git/links && ln -s $(seq -f ../../d/%%g 6 3000) .");
	EQ(judge("d/5/x"), NAMED);
	EQ(judge("t/x.sh"), UNCLEAR);
	end();
}

TEST(damaged_and_endless_configuration_does_no_harm)
{
	static const char *const texts[] = {
		"[",
		"[core",
		"[core]hooksPath",
		"[core]\nhooksPath=",
		"[core]\nhooksPath=\"x",
		"[core]\nhooksPath=\\",
		"[x \"\\\"]\n[core]\nhooksPath=..//../../../..",
		"[include]path=config",
		"\\\n=\n[]\n[core]a",
		"[core]\nhooksPath=/",
	};

	begin();
	EQ(setenv("HOME", "/nonexistent", 1), 0);
	git("init -q .");
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct git_named n = { 0 };
		char path[256];
		FILE *f;

		(void)snprintf(path, sizeof(path), "%s/p/.git/config", top);
		f = fopen(path, "we");
		OK(f && fputs(texts[i], f) >= 0 && fclose(f) == 0);
		EQ(git_named_read(project, NULL, true, &n), 0);
		git_named_done(&n);
	}
	end();
}

TEST_MAIN()
