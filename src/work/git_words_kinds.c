/* SPDX-License-Identifier: Apache-2.0 */
/* git_words_kinds.c - which programs execute their arguments */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "work/git_words_internal.h"

static const struct {
	const char *name;
	enum words_kind kind;
} words_kinds[] = {
	{ "[", WORDS_HARMLESS },
	{ "[[", WORDS_HARMLESS },
	{ ":", WORDS_HARMLESS },
	{ "basename", WORDS_HARMLESS },
	{ "break", WORDS_HARMLESS },
	{ "cat", WORDS_HARMLESS },
	{ "column", WORDS_HARMLESS },
	{ "cut", WORDS_HARMLESS },
	{ "date", WORDS_HARMLESS },
	{ "diff", WORDS_HARMLESS },
	{ "dirname", WORDS_HARMLESS },
	{ "echo", WORDS_HARMLESS },
	{ "exit", WORDS_HARMLESS },
	{ "export", WORDS_HARMLESS },
	{ "expr", WORDS_HARMLESS },
	{ "false", WORDS_HARMLESS },
	{ "for", WORDS_HARMLESS },
	{ "git", WORDS_GIT },
	{ "grep", WORDS_HARMLESS },
	{ "head", WORDS_HARMLESS },
	{ "less", WORDS_HARMLESS },
	{ "local", WORDS_HARMLESS },
	{ "ls", WORDS_HARMLESS },
	{ "mkdir", WORDS_HARMLESS },
	{ "printf", WORDS_HARMLESS },
	{ "read", WORDS_HARMLESS },
	{ "return", WORDS_HARMLESS },
	{ "rm", WORDS_HARMLESS },
	{ "set", WORDS_HARMLESS },
	{ "shift", WORDS_HARMLESS },
	{ "sleep", WORDS_HARMLESS },
	{ "sort", WORDS_HARMLESS },
	{ "tail", WORDS_HARMLESS },
	{ "tee", WORDS_HARMLESS },
	{ "test", WORDS_HARMLESS },
	{ "tr", WORDS_HARMLESS },
	{ "true", WORDS_HARMLESS },
	{ "uniq", WORDS_HARMLESS },
	{ "unset", WORDS_HARMLESS },
	{ "wc", WORDS_HARMLESS },
	{ "!", WORDS_WRAPPER },
	{ "{", WORDS_WRAPPER },
	{ "builtin", WORDS_WRAPPER },
	{ "command", WORDS_WRAPPER },
	{ "do", WORDS_WRAPPER },
	{ "elif", WORDS_WRAPPER },
	{ "else", WORDS_WRAPPER },
	{ "env", WORDS_WRAPPER },
	{ "exec", WORDS_WRAPPER },
	{ "if", WORDS_WRAPPER },
	{ "nice", WORDS_WRAPPER },
	{ "nohup", WORDS_WRAPPER },
	{ "setsid", WORDS_WRAPPER },
	{ "sudo", WORDS_WRAPPER },
	{ "then", WORDS_WRAPPER },
	{ "time", WORDS_WRAPPER },
	{ "until", WORDS_WRAPPER },
	{ "while", WORDS_WRAPPER },
	{ "xargs", WORDS_XARGS },
	{ "bun", WORDS_RUNNER },
	{ "bunx", WORDS_RUNNER },
	{ "cargo", WORDS_RUNNER },
	{ "composer", WORDS_RUNNER },
	{ "gmake", WORDS_RUNNER },
	{ "gradle", WORDS_RUNNER },
	{ "just", WORDS_RUNNER },
	{ "make", WORDS_RUNNER },
	{ "mvn", WORDS_RUNNER },
	{ "ninja", WORDS_RUNNER },
	{ "npm", WORDS_RUNNER },
	{ "npx", WORDS_NPX },
	{ "pnpm", WORDS_RUNNER },
	{ "rake", WORDS_RUNNER },
	{ "task", WORDS_RUNNER },
	{ "uv", WORDS_RUNNER },
	{ "yarn", WORDS_RUNNER },
	{ ".", WORDS_SHELL },
	{ "ash", WORDS_SHELL },
	{ "bash", WORDS_SHELL },
	{ "dash", WORDS_SHELL },
	{ "eval", WORDS_RUNNER },
	{ "ksh", WORDS_SHELL },
	{ "sh", WORDS_SHELL },
	{ "source", WORDS_SHELL },
	{ "trap", WORDS_SHELL },
	{ "zsh", WORDS_SHELL },
	{ "deno", WORDS_INTERPRETER },
	{ "lua", WORDS_INTERPRETER },
	{ "node", WORDS_INTERPRETER },
	{ "nodejs", WORDS_INTERPRETER },
	{ "perl", WORDS_INTERPRETER },
	{ "php", WORDS_INTERPRETER },
	{ "python", WORDS_PYTHON },
	{ "pypy", WORDS_PYTHON },
	{ "ruby", WORDS_INTERPRETER },
	{ "cd", WORDS_CD },
	{ "pushd", WORDS_CD },
	{ "case", WORDS_CASE },
	{ "popd", WORDS_CD },
	{ "chdir", WORDS_CD },
	{ "find", WORDS_FIND },
	{ "coproc", WORDS_WRAPPER },
	{ "declare", WORDS_HARMLESS },
	{ "typeset", WORDS_HARMLESS },
	{ "readonly", WORDS_HARMLESS },
	{ "comm", WORDS_HARMLESS },
	{ "cmp", WORDS_HARMLESS },
	{ "join", WORDS_HARMLESS },
	{ "paste", WORDS_HARMLESS },
	{ "alias", WORDS_RUNNER },
	{ "ant", WORDS_RUNNER },
	{ "bazel", WORDS_RUNNER },
	{ "bundle", WORDS_RUNNER },
	{ "cmake", WORDS_RUNNER },
	{ "dotnet", WORDS_RUNNER },
	{ "go", WORDS_RUNNER },
	{ "grunt", WORDS_RUNNER },
	{ "gulp", WORDS_RUNNER },
	{ "hatch", WORDS_RUNNER },
	{ "meson", WORDS_RUNNER },
	{ "mix", WORDS_RUNNER },
	{ "nox", WORDS_RUNNER },
	{ "pdm", WORDS_RUNNER },
	{ "pipenv", WORDS_RUNNER },
	{ "poetry", WORDS_RUNNER },
	{ "pre-commit", WORDS_RUNNER },
	{ "pytest", WORDS_RUNNER },
	{ "sbt", WORDS_RUNNER },
	{ "tox", WORDS_RUNNER },
	{ "code", WORDS_HARMLESS },
	{ "codium", WORDS_HARMLESS },
	{ "emacs", WORDS_HARMLESS },
	{ "emacsclient", WORDS_HARMLESS },
	{ "gedit", WORDS_HARMLESS },
	{ "gvim", WORDS_HARMLESS },
	{ "hx", WORDS_HARMLESS },
	{ "kate", WORDS_HARMLESS },
	{ "micro", WORDS_HARMLESS },
	{ "nano", WORDS_HARMLESS },
	{ "nvim", WORDS_HARMLESS },
	{ "open", WORDS_HARMLESS },
	{ "subl", WORDS_HARMLESS },
	{ "vi", WORDS_HARMLESS },
	{ "vim", WORDS_HARMLESS },
	{ "xdg-open", WORDS_HARMLESS },
};

bool words_executes(enum words_kind kind)
{
	return kind == WORDS_INTERPRETER || kind == WORDS_PYTHON || kind == WORDS_SHELL;
}

enum words_kind words_kind_of(const char *word)
{
	const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word;
	size_t n = strlen(name);

	if (n == 1 && name[0] == MARK_EDITOR)
		return WORDS_HARMLESS;
	for (size_t i = 0; i < ARRAY_SIZE(words_kinds); i++) {
		size_t stem = strlen(words_kinds[i].name);

		if (strcmp(words_kinds[i].name, name) == 0)
			return words_kinds[i].kind;
		/* python3.11 */
		if (words_executes(words_kinds[i].kind) && n > stem &&
		    memcmp(name, words_kinds[i].name, stem) == 0 &&
		    strspn(name + stem, "0123456789.") == n - stem)
			return words_kinds[i].kind;
	}
	return WORDS_PROGRAM;
}

bool words_harmless(enum words_kind kind)
{
	return kind == WORDS_HARMLESS || kind == WORDS_GIT || kind == WORDS_FIND ||
	       kind == WORDS_CASE || kind == WORDS_CD;
}

/* Commands of git that execute what follows a certain word or option. */
static const struct {
	const char *command, *word;
} words_git[] = {
	{ "bisect", "run" },       { "submodule", "foreach" },
	{ "rebase", "-x" },        { "rebase", "--exec" },
	{ "difftool", "-x" },      { "difftool", "--extcmd" },
	{ "grep", "-O" },          { "grep", "--open-files-in-pager" },
	{ "filter-branch", "--" },
};

const char *words_git_command(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(words_git); i++)
		if (strcmp(words_git[i].command, word) == 0)
			return words_git[i].command;
	return NULL;
}

/* Long options may be shortened, and short options combined: -ix. */
static bool words_git_option(const char *option, const char *word, const char **ret)
{
	size_t n = strcspn(word, "=");
	const char *at;

	*ret = NULL;
	if (option[0] != '-')
		return strcmp(option, word) == 0;
	if (option[1] == '-') {
		*ret = word[n] ? word + n + 1 : NULL;
		return n > 2 && strncmp(word, option,
					n < strlen(option) ? n : strlen(option)) == 0;
	}
	at = word[0] == '-' && word[1] != '-' ? strchr(word, option[1]) : NULL;
	*ret = at && at[1] ? at + 1 : NULL;
	return at;
}

bool words_git_executes(const char *command, const char *word, const char **ret)
{
	for (size_t i = 0; command && i < ARRAY_SIZE(words_git); i++)
		if (strcmp(words_git[i].command, command) == 0 &&
		    words_git_option(words_git[i].word, word, ret))
			return true;
	return false;
}

/* "EDITOR", or "EDITOR:-vim" with a program of PATH that executes none of its arguments.
 */
bool words_is_editor(const char *name, size_t n)
{
	static const char *const editors[] = { "EDITOR", "VISUAL", "PAGER", "BROWSER" };
	char program[32];

	for (size_t i = 0; i < ARRAY_SIZE(editors); i++) {
		size_t size = strlen(editors[i]), rest = n - size;

		if (n < size || memcmp(editors[i], name, size) != 0)
			continue;
		if (rest == 0)
			return true;
		if (rest < 3 || memcmp(name + size, ":-", 2) != 0 ||
		    rest - 2 >= sizeof(program))
			continue;
		(void)snprintf(program, sizeof(program), "%.*s", (int)rest - 2,
			       name + size + 2);
		return strspn(program, "abcdefghijklmnopqrstuvwxyz") == rest - 2 &&
		       (words_kind_of(program) == WORDS_PROGRAM ||
			words_kind_of(program) == WORDS_HARMLESS);
	}
	return false;
}

bool words_is_given(const char *name, size_t n)
{
	/* Other variables of git, such as GIT_PREFIX, are paths, or may be empty. */
	static const char *const given[] = {
		"GIT_AUTHOR_NAME",
		"GIT_AUTHOR_EMAIL",
		"GIT_COMMITTER_NAME",
		"GIT_COMMITTER_EMAIL",
		"ARG",
		"ARGS",
		"BACKUP",
		"BASE",
		"COLUMNS",
		"DISPLAY",
		"FILENAME",
		"LINES",
		"LOCAL",
		"LOGNAME",
		"MERGED",
		"REMOTE",
		"REVISION",
		"SHELL",
		"TERM",
		"USER",
	};

	if (n > 1 && name[0] == '#')
		return true;
	if (n == 1 && strchr("0123456789@*#?$!-", name[0]))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(given); i++)
		if (strlen(given[i]) == n && memcmp(given[i], name, n) == 0)
			return true;
	return false;
}

bool words_is_command(const char *name, size_t n)
{
	static const char *const ends[] = { "EDITOR",  "PAGER", "GIT_SSH", "SSH_COMMAND",
					    "ASKPASS", "_DIFF", "VISUAL",  "SHELL" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		size_t end = strlen(ends[i]);

		if (n >= end && memcmp(name + n - end, ends[i], end) == 0)
			return true;
	}
	return false;
}
