/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_words.c - which words of a command are paths, or other commands?
 *
 * A word that may be any file is harmless if it is an argument of a program that executes
 * none of its arguments; a pattern is only a path below its directory. Arguments of the
 * command itself ($1, "$@") come from the user or from git.
 */
#include "work/git_words.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "work/git_keys.h"
#include "work/git_words_internal.h"

#define WORDS_ABOVE 32 /* directories in which npx looks for its files */
#define WORDS_UNKNOWN                                   \
	(char[])                                        \
	{                                               \
		MARK_ANY, MARK_GIVEN, MARK_EDITOR, '\0' \
	}
#define WORDS_SPECIAL " \t\n;&|<>()$`" /* only in words that are commands */

/* NOLINTBEGIN(misc-no-recursion): as deep as WORDS_DEPTH_MAX */

/* --------------------------------------------------------------------- a word */

void words_unclear(struct words *s)
{
	if (!s->quiet)
		s->w->unclear = true;
}

static void words_say(struct words *s, const char *word, bool dir)
{
	struct buf below AUTO_BUF = BUF_INIT(WORDS_SIZE_MAX);

	s->w->path(s->w->arg, word, dir);
	if (s->dir.len == 0 || word[0] == '/' || word[0] == '~')
		return;
	buf_add(&below, s->dir.data, s->dir.len);
	buf_puts(&below, "/");
	buf_puts(&below, word);
	if (!below.failed)
		s->w->path(s->w->arg, below.data, dir);
}

/*
 * Note a word as a path. Returns false if it may be any: of a pattern, the directory is
 * known, unless the pattern or what follows leads out of it.
 */
static bool words_note(struct words *s, char *word, bool dir)
{
	size_t n = strcspn(word, MARKS);
	const char *rest = word + n;
	char *slash;

	if (!*rest) {
		if (n > 0)
			words_say(s, word, dir);
		return true;
	}
	if (*rest == MARK_GIVEN || *rest == MARK_EDITOR)
		return true;
	if (strstr(rest, "..") || rest[strcspn(rest, WORDS_UNKNOWN)])
		return false;
	word[n] = '\0';
	slash = strrchr(word, '/');
	if (!slash || slash == word)
		return false;
	*slash = '\0';
	words_say(s, word, dir || !words_harmless(s->kind));
	return true;
}

/* The pieces of a list of directories, such as that of PATH=. */
static void words_note_list(struct words *s, const char *name, size_t n, char *list)
{
	static const char *const executed[] = { "LD_PRELOAD",   "BASH_ENV", "ENV",
						"NODE_OPTIONS", "PERL5LIB", "PERL5OPT",
						"RUBYLIB",      "RUBYOPT" };
	char *piece;
	bool path;

	n -= name[n - 1] == '+';
	path = n >= 4 && memcmp(name + n - 4, "PATH", 4) == 0;
	for (size_t i = 0; i < ARRAY_SIZE(executed); i++)
		path |= strlen(executed[i]) == n && memcmp(executed[i], name, n) == 0;
	while ((piece = strsep(&list, ":"))) {
		/* "$PATH" alone is what it was before; an empty one is the directory. */
		bool same = piece[0] == MARK_ANY && !piece[1];

		if (path && (!*piece || strcmp(piece, ".") == 0))
			words_unclear(s);
		else if (!same && !words_note(s, piece, path) && path)
			words_unclear(s);
	}
}

/* The length of NAME in "NAME=value"; 0: it is no assignment. */
static size_t words_assigns(const char *word)
{
	size_t n = 0;

	while (isalnum((unsigned char)word[n]) || word[n] == '_')
		n++;
	if (n == 0 || isdigit((unsigned char)word[0]))
		return 0;
	n += word[n] == '+';
	return word[n] == '=' ? n : 0;
}

/* ---------------------------------------------------------- the words of a command */

static void words_go(struct words *s, const char *word)
{
	if (word[strcspn(word, MARKS)] || strcmp(word, "-") == 0) {
		s->lost = true;
		return;
	}
	if (word[0] == '-')
		return;
	/* The first "cd" may be in a subshell, or in another branch. */
	if (s->dir.len > 0 && (s->dir.len != strlen(s->w->top) ||
			       memcmp(s->dir.data, s->w->top, s->dir.len) != 0)) {
		s->lost = true;
		return;
	}
	if (word[0] == '/')
		s->dir.len = 0;
	else if (s->dir.len > 0)
		buf_puts(&s->dir, "/");
	buf_puts(&s->dir, word);
}

/* A command in a word: 'sh -c "exec t/x.sh"', or "rebase -x 'make check'". */
int words_nested(struct words *s, const char *word)
{
	struct words below = { .w = s->w,
			       .dir = BUF_INIT(WORDS_SIZE_MAX),
			       .lost = s->lost,
			       .quiet = s->quiet || s->kind != WORDS_SHELL,
			       .depth = s->depth + 1,
			       .word = BUF_INIT(WORDS_SIZE_MAX) };
	int r;

	if (s->dir.len > 0)
		buf_add(&below.dir, s->dir.data, s->dir.len);
	r = words_run(&below, word, word + strlen(word));
	buf_done(&below.dir);
	buf_done(&below.word);
	return r;
}

/* Scripts that are named without their suffix. */
static void words_script(struct words *s, const char *word)
{
	static const char *const suffixes[] = { ".js", ".mjs", ".cjs", ".ts" };

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		struct buf name AUTO_BUF = BUF_INIT(WORDS_SIZE_MAX);

		buf_puts(&name, word);
		buf_puts(&name, suffixes[i]);
		if (!name.failed)
			words_say(s, name.data, false);
	}
}

/* Options with which Python imports modules from the directory that it starts in. */
static void words_option(struct words *s, const char *word)
{
	if (word[0] != '-' || word[1] == '-')
		return;
	s->isolated |= strpbrk(word, "IP") != NULL;
	if (strpbrk(word, "mc") && !s->isolated)
		words_unclear(s);
}

/* A word that names a file, or has a command in it. */
static int words_value(struct words *s, char *word)
{
	bool executes = !words_harmless(s->kind);
	/* A shell may execute any word as a command: sh -c make */
	bool command = strpbrk(word, WORDS_SPECIAL) != NULL ||
		       (s->kind == WORDS_SHELL && word[0] != '-');
	int r = 0;

	if (command && s->depth < WORDS_DEPTH_MAX)
		r = words_nested(s, word);
	else if (command)
		words_unclear(s);
	/* What is in a command for the shell was judged there. */
	if (!words_note(s, word, false) && executes &&
	    !(command && s->kind == WORDS_SHELL))
		words_unclear(s);
	return r;
}

/* A word that is a shell command, whichever program it was given to. */
int words_command(struct words *s, char *word)
{
	enum words_kind kind = s->kind;
	int r;

	s->kind = WORDS_SHELL;
	r = words_value(s, word);
	s->kind = kind;
	return r;
}

/* NAME=value: paths, or a command (GIT_EDITOR="t/x.sh -w"). */
static int words_assign(struct words *s, char *word, size_t n)
{
	char *value = word + n + 1;
	/* LESSOPEN="|-t/x.sh %s" */
	bool pipe = value[0] == '|';

	if (value[0] && words_is_command(word, n))
		return words_command(s, value);
	words_note_list(s, word, n, value);
	value += pipe ? strspn(value, "|-") : 0;
	return pipe || strpbrk(value, " \t\n\"'") ? words_value(s, value) : 0;
}

static int words_wrapper_option(struct words *s, char *word)
{
	s->optioned = true;
	/* env -C t, sudo --chdir=t */
	s->lost |= word[1] == 'C' || word[1] == 'D' || strncmp(word, "--chdir", 7) == 0;
	if (strpbrk(word, WORDS_SPECIAL))
		words_unclear(s);
	(void)words_note(s, word, false);
	return 0;
}

/* Say a path of the directory in which the command runs, and of all above it. */
static void words_say_above(struct words *s, const char *path, const char *name, bool dir)
{
	struct buf above AUTO_BUF = BUF_INIT(WORDS_SIZE_MAX);

	for (int i = 0; i < WORDS_ABOVE; i++) {
		above.len = (size_t)i * 3;
		buf_puts(&above, path);
		buf_puts(&above, name);
		if (above.failed)
			break;
		words_say(s, above.data, dir);
		above.len = (size_t)i * 3;
		buf_puts(&above, "../");
	}
	if (above.failed)
		words_unclear(s);
}

/* What npx starts, in a way that these files decide. */
static void words_npx(struct words *s)
{
	s->npx = true;
	words_say_above(s, "node_modules", "", true);
	words_say_above(s, "package.json", "", false);
	words_say_above(s, ".npmrc", "", false);
	if (s->lost)
		words_unclear(s);
}

/* The name of a command, or what may be before it. */
static int words_name(struct words *s, char *word)
{
	size_t assigned = words_assigns(word);
	bool relative = word[0] != '/' && strchr(word, '/'), known;

	if (assigned)
		return words_assign(s, word, assigned);
	if (word[0] == '-')
		return words_wrapper_option(s, word);
	/* env -S 'sh t/x.sh' */
	if (s->kind == WORDS_WRAPPER && strpbrk(word, WORDS_SPECIAL)) {
		s->inside = true;
		s->kind = WORDS_PROGRAM;
		return words_command(s, word);
	}
	/* Of a package of the project itself, this is a link out of node_modules. */
	if (s->npx && !word[strcspn(word, MARKS "/")])
		words_say_above(s, "node_modules/.bin/", word, false);
	s->kind = words_kind_of(word);
	s->isolated = s->argued = s->fed_script = s->config = false;
	s->git = NULL;
	s->fed |= s->kind == WORDS_XARGS;
	if (s->kind == WORDS_NPX)
		words_npx(s);
	if (s->kind == WORDS_XARGS || s->kind == WORDS_NPX)
		s->kind = WORDS_WRAPPER;
	/* The word may be the value of an option, and the next one the program. */
	s->inside =
		s->kind != WORDS_WRAPPER && !(s->optioned && s->kind == WORDS_PROGRAM);
	s->optioned = false;
	known = words_note(s, word, false);
	if (s->kind == WORDS_RUNNER || (s->lost && relative) || !known)
		words_unclear(s);
	return 0;
}

/* An assignment after "git -c". */
static int words_git_config(struct words *s, const char *word)
{
	AUTO_FREE char *copy = strdup(word);
	char *value = copy ? strchr(copy, '=') : NULL,
	     *dot = copy ? strchr(copy, '.') : NULL;
	enum git_key is;

	if (!copy || !value || !dot || dot > value)
		return copy ? 0 : -ENOMEM;
	*value++ = *dot = '\0';
	is = git_key_of(copy,
			strrchr(dot + 1, '.') ? strrchr(dot + 1, '.') + 1 : dot + 1);
	if (is == GIT_KEY_INCLUDE)
		words_unclear(s);
	if (is == GIT_KEY_COMMAND || is == GIT_KEY_PATH ||
	    (is == GIT_KEY_ALIAS && value[0] == '!'))
		return words_command(s, value + (value[0] == '!'));
	return 0;
}

/* Arguments that git executes. */
static int words_git(struct words *s, char *word)
{
	const char *inside = NULL;
	int r = 0;

	if (s->config)
		r = words_git_config(s, word);
	s->config = strcmp(word, "-c") == 0 || strcmp(word, "--config-env") == 0;
	if (words_git_executes(s->git, word, &inside)) {
		AUTO_FREE char *copy = inside ? strdup(inside) : NULL;

		/* In each submodule, whose directory is not known here. */
		s->lost |= strcmp(word, "foreach") == 0;

		if (copy)
			return words_command(s, copy);
		s->inside = s->optioned = false;
		s->kind = WORDS_WRAPPER;
		return inside ? -ENOMEM : 0;
	}
	if (words_git_command(word))
		s->git = words_git_command(word);
	return r;
}

/* Arguments that make a program execute something. */
static int words_special(struct words *s, char *word, bool *ret_done)
{
	static const char *const execs[] = { "-exec", "-execdir", "-ok", "-okdir" };
	enum words_kind kind;
	int r;

	for (size_t i = 0; s->kind == WORDS_FIND && i < ARRAY_SIZE(execs); i++)
		if (strcmp(word, execs[i]) == 0)
			words_unclear(s);
	if (s->kind == WORDS_GIT) {
		r = words_git(s, word);
		*ret_done = s->kind != WORDS_GIT;
		return r;
	}
	if (s->kind != WORDS_PROGRAM)
		return 0;
	/* function f { ... */
	kind = words_kind_of(word);
	*ret_done = strcmp(word, "{") == 0;
	if (*ret_done)
		s->inside = false;
	/* An unknown program may be a wrapper. */
	if (!isalpha((unsigned char)word[0]) ||
	    (kind != WORDS_RUNNER && !words_executes(kind)))
		return 0;
	*ret_done = true;
	return words_name(s, word);
}

/* Is it the directory in which the command runs: "python3 .", "node $PWD"? */
static bool words_is_top(const struct words *s, const char *word)
{
	size_t top = strlen(s->w->top);

	if (strncmp(word, s->w->top, top) == 0)
		word += top;
	else if (word[0] != '.')
		return false;
	while (*word == '/' || (*word == '.' && (word[1] == '/' || !word[1])))
		word++;
	return !*word;
}

static int words_argument(struct words *s, char *word)
{
	size_t assigned = words_assigns(word);
	char *value = strchr(word, '=');
	bool known = !word[strcspn(word, MARKS)];
	bool done = false;
	int r = s->plain ? 0 : words_special(s, word, &done);

	if (r < 0 || done)
		return r;
	s->argued |= word[0] != '-';
	/* "bash -s x": the arguments are those of the script. */
	s->fed_script |= s->kind == WORDS_SHELL && word[0] == '-' && word[1] != '-' &&
			 strchr(word, 's');
	if (words_executes(s->kind) && words_is_top(s, word))
		words_unclear(s);
	if (s->kind == WORDS_CD)
		words_go(s, word);
	if (s->kind == WORDS_PYTHON)
		words_option(s, word);
	if (s->kind == WORDS_INTERPRETER && word[0] != '-' && known)
		words_script(s, word);
	if (s->lost && words_executes(s->kind) && word[0] != '-' && word[0] != '/')
		words_unclear(s);
	/* export PATH=t:$PATH */
	if (assigned && s->kind == WORDS_HARMLESS)
		return words_assign(s, word, assigned);
	/* --exec-path=t, -c alias.x=!t/x.sh, -ft/x.awk */
	if (value && value[1])
		r = words_value(s, value + 1 + (value[1] == '!'));
	if (word[0] == '-' && word[1] && word[1] != '-' && word[2])
		(void)words_note(s, word + 2, false);
	return r < 0 ? r : words_value(s, word);
}

/* The word ends before @next. */
int words_finish(struct words *s, char next)
{
	char *word;
	int r = 0;

	if (!s->begun)
		return 0;
	s->begun = false;
	buf_add(&s->word, "", 0);
	if (s->word.failed)
		return -ENOMEM;
	word = s->word.data;
	if (s->redirects) {
		if (!words_note(s, word, false) && words_executes(s->kind))
			words_unclear(s);
	} else if (s->plain)
		r = words_argument(s, word);
	else if (s->inside && s->kind == WORDS_CASE && strcmp(word, "in") == 0)
		s->inside = false;
	else if (s->inside)
		r = words_argument(s, word);
	else if (next != ')' || s->parens > 0) /* otherwise, a pattern of "case" */
		r = words_name(s, word);
	s->redirects = false;
	s->word.len = 0;
	return r;
}

/* The command ends. It may execute its input. */
void words_command_end(struct words *s)
{
	if ((s->fed && !words_harmless(s->kind) && s->kind != WORDS_WRAPPER) ||
	    (s->piped && s->inside && words_executes(s->kind) &&
	     (!s->argued || s->fed_script)))
		words_unclear(s);
	s->lost |= s->inside && s->kind == WORDS_CD && !s->argued;
	s->inside = s->redirects = s->fed = s->npx = s->optioned = false;
	s->kind = WORDS_HARMLESS;
}

/* NOLINTEND(misc-no-recursion) */
