/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_words.c - find the paths in a command for the shell
 *
 * The text is split into words. What stands for something else is replaced by a mark: the
 * word may then be any file. Such a word is harmless if it is an argument of a program
 * that executes none of its arguments; a pattern is only a path below its directory.
 * Arguments of the command itself ($1, "$@") come from the user or from git.
 */
#include "work/git_words.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "work/git_keys.h"
#include "work/git_words_internal.h"

#define WORDS_DEPTH_MAX 6     /* of commands in commands */
#define WORDS_SIZE_MAX  16384 /* bytes of a command; a longer one is unclear */

#define WORDS_SPECIAL " \t\n;&|<>()$`" /* only in words that are commands */

#define MARK_ANY     '\1' /* something that is not known */
#define MARK_PATTERN '\2' /* any part of a name */
#define MARK_GIVEN   '\3' /* an argument of the command */
#define MARKS        "\1\2\3"

struct words {
	struct git_words *w;
	struct buf dir; /* where "cd" went; "": nowhere */
	bool lost;      /* it went to a directory that is not known */
	bool quiet;     /* nothing is executed: unclear words are harmless */
	bool plain;
	unsigned depth;
	/* The word that is being read: */
	struct buf word;
	bool begun, redirects;
	unsigned parens;
	/* The command that it is given to: */
	bool inside;     /* its name was read */
	bool isolated;   /* python -I: no module of the project is used */
	bool argued;     /* it has an argument that is not an option */
	bool optioned;   /* a wrapper has an option, which may have a value */
	bool fed;        /* xargs adds arguments */
	bool piped;      /* a command before it may write the commands that it executes */
	bool config;     /* of git: a configuration assignment follows */
	const char *git; /* a command of git that executes something, or NULL */
	enum words_kind kind;
};

static int words_run(struct words *s, const char *at, const char *end);

/* NOLINTBEGIN(misc-no-recursion): as deep as WORDS_DEPTH_MAX */

/* --------------------------------------------------------------------- a word */

static void words_unclear(struct words *s)
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
	if (*rest == MARK_GIVEN)
		return true;
	if (strchr(rest, MARK_ANY) || strstr(rest, "..") || strchr(rest, MARK_GIVEN))
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
static int words_nested(struct words *s, const char *word)
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
static int words_command(struct words *s, char *word)
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

/* The name of a command, or what may be before it. */
static int words_name(struct words *s, char *word)
{
	size_t assigned = words_assigns(word);
	bool relative = word[0] != '/' && strchr(word, '/');

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
	s->kind = words_kind_of(word);
	s->isolated = s->argued = s->config = false;
	s->git = NULL;
	s->fed |= s->kind == WORDS_XARGS;
	if (s->kind == WORDS_XARGS)
		s->kind = WORDS_WRAPPER;
	/* The word may be the value of an option, and the next one the program. */
	s->inside =
		s->kind != WORDS_WRAPPER && !(s->optioned && s->kind == WORDS_PROGRAM);
	s->optioned = false;
	if (s->kind == WORDS_RUNNER || (s->lost && relative) ||
	    !words_note(s, word, false))
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
static int words_finish(struct words *s, char next)
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

/* ------------------------------------------------------------------- expansions */

static void words_put(struct words *s, const char *text, size_t n)
{
	s->begun = true;
	buf_add(&s->word, text, n);
}

static void words_mark(struct words *s, char mark)
{
	words_put(s, &mark, 1);
}

/* $NAME, or the text between the braces of ${NAME...} */
static void words_variable(struct words *s, const char *name, size_t n)
{
	const char *home = s->w->home;

	if (n == 3 && memcmp(name, "PWD", 3) == 0 && !s->lost)
		words_put(s, s->w->top, strlen(s->w->top));
	else if (n == 4 && memcmp(name, "HOME", 4) == 0 && home)
		words_put(s, home, strlen(home));
	else
		words_mark(s, words_is_given(name, n) ? MARK_GIVEN : MARK_ANY);
}

/* The end of what @open began, which may have quotes and more of the same in it. */
static const char *words_closed(const char *at, const char *end, char open, char close)
{
	unsigned depth = 1;
	char quote = '\0';

	for (; at < end; at++) {
		if (*at == '\\' && quote != '\'')
			at++;
		else if (quote && *at == quote)
			quote = '\0';
		else if (quote)
			continue;
		else if (*at == '\'' || *at == '"')
			quote = *at;
		else if (*at == open && open != close)
			depth++;
		else if (*at == close && --depth == 0)
			return at;
	}
	return end;
}

static bool words_same(const char *at, const char *end, const char *want)
{
	while (at < end && isspace((unsigned char)*at))
		at++;
	while (end > at && isspace((unsigned char)end[-1]))
		end--;
	return (size_t)(end - at) == strlen(want) &&
	       memcmp(at, want, (size_t)(end - at)) == 0;
}

/* $(command) or `command` */
static int words_output(struct words *s, const char *at, const char *end)
{
	AUTO_FREE char *command = strndup(at, (size_t)(end - at));
	enum words_kind kind = s->kind;
	int r;

	if (!command)
		return -ENOMEM;
	if (words_same(at, end, "git rev-parse --show-toplevel") ||
	    (words_same(at, end, "pwd") && !s->lost)) {
		words_put(s, s->w->top, strlen(s->w->top));
		return 0;
	}
	words_mark(s, MARK_ANY);
	if (s->depth >= WORDS_DEPTH_MAX) {
		words_unclear(s);
		return 0;
	}
	s->kind = WORDS_SHELL;
	r = words_nested(s, command);
	s->kind = kind;
	return r;
}

/* ${NAME:-$(command)} */
static int words_default(struct words *s, const char *at, const char *end)
{
	struct buf command AUTO_BUF = BUF_INIT(WORDS_SIZE_MAX);

	/* In double quotes, this may be an ordinary character. */
	if (memchr(at, '\'', (size_t)(end - at)))
		words_unclear(s);
	if (!memchr(at, '`', (size_t)(end - at)) &&
	    !memmem(at, (size_t)(end - at), "$(", 2))
		return 0;
	buf_puts(&command, "echo ");
	buf_add(&command, at, (size_t)(end - at));
	if (command.failed || s->depth >= WORDS_DEPTH_MAX) {
		words_unclear(s);
		return 0;
	}
	return words_command(s, command.data);
}

/* What follows "$"; returns what follows that. */
static int words_dollar(struct words *s, const char **at, const char *end)
{
	const char *name = *at, *stop = name;
	int r = 0;

	if (name < end && *name == '(') {
		stop = words_closed(name + 1, end, '(', ')');
		r = words_output(s, name + 1, stop);
		*at = stop < end ? stop + 1 : end;
		return r;
	}
	if (name < end && *name == '{') {
		stop = words_closed(name + 1, end, '{', '}');
		words_variable(s, name + 1, (size_t)(stop - name - 1));
		*at = stop < end ? stop + 1 : end;
		return words_default(s, name + 1, stop);
	}
	while (stop < end && (isalnum((unsigned char)*stop) || *stop == '_') &&
	       !(stop > name && isdigit((unsigned char)*name)))
		stop++;
	if (stop == name && stop < end && strchr("@*#?$!-", *stop))
		stop++;
	if (stop == name)
		words_put(s, "$", 1);
	else
		words_variable(s, name, (size_t)(stop - name));
	*at = stop;
	return 0;
}

/* What is between double quotes, from @at; *@at is set to what follows. */
static int words_quoted(struct words *s, const char **at, const char *end)
{
	const char *c = *at, *stop;
	int r = 0;

	s->begun = true;
	while (r == 0 && c < end && *c != '"') {
		if (*c == '\\' && c + 1 < end && strchr("\"\\$`\n", c[1])) {
			if (c[1] != '\n')
				words_put(s, c + 1, 1);
			c += 2;
		} else if (*c == '$' && !s->plain) {
			c++;
			r = words_dollar(s, &c, end);
		} else if (*c == '`' && !s->plain) {
			stop = words_closed(c + 1, end, '`', '`');
			r = words_output(s, c + 1, stop);
			c = stop < end ? stop + 1 : end;
		} else {
			words_put(s, c++, 1);
		}
	}
	*at = c < end ? c + 1 : end;
	return r;
}

/* ------------------------------------------------------------------ the command */

/* Quotes and blanks, which git understands as well. Returns 0 if it is nothing of that.
 */
static int words_plain_char(struct words *s, const char **at, const char *end, int *ret)
{
	const char *c = *at, *stop;

	switch (*c) {
	case '\'':
		stop = memchr(c + 1, '\'', (size_t)(end - c - 1));
		stop = stop ? stop : end;
		words_put(s, c + 1, (size_t)(stop - c - 1));
		*at = stop < end ? stop + 1 : end;
		return 1;
	case '"':
		*at = c + 1;
		*ret = words_quoted(s, at, end);
		return 1;
	case '\\':
		if (c + 1 < end && c[1] != '\n')
			words_put(s, c + 1, 1);
		*at = c + 1 < end ? c + 2 : end;
		return 1;
	case ' ':
	case '\t':
		*at = c + 1;
		*ret = words_finish(s, *c);
		return 1;
	default:
		return 0;
	}
}

/* The command ends. It may execute its input. */
static void words_command_end(struct words *s)
{
	if ((s->fed && !words_harmless(s->kind) && s->kind != WORDS_WRAPPER) ||
	    (s->piped && s->inside && words_executes(s->kind) && !s->argued))
		words_unclear(s);
	s->lost |= s->inside && s->kind == WORDS_CD && !s->argued;
	s->inside = s->redirects = s->fed = s->optioned = false;
	s->kind = WORDS_HARMLESS;
}

/* A character that ends a word. */
static int words_operator(struct words *s, char c)
{
	int r = words_finish(s, c);

	if (c == '<' || c == '>') {
		/* "<<": the following text is the input of the command. */
		if (c == '<' && s->redirects)
			words_unclear(s);
		s->redirects = true;
		return r;
	}
	/* "sh <(command)" */
	if (c == '(' && s->redirects && s->inside && !words_harmless(s->kind))
		words_unclear(s);
	s->parens += c == '(';
	s->parens -= c == ')' && s->parens > 0;
	s->piped |= c == '|';
	/* "2>&1" */
	if (c != '&' || !s->redirects)
		words_command_end(s);
	return r;
}

/* Is it "{1..3}", or does it have quotes, which may contain blanks? Not "@{u}..". */
static bool words_is_range(const char *at, const char *end)
{
	const char *close = memchr(at, '}', (size_t)(end - at));
	size_t n = (size_t)((close ? close : end) - at);

	return memmem(at, n, "..", 2) || memchr(at, '"', n) || memchr(at, '\'', n) ||
	       memchr(at, '\\', n);
}

/* $'...', in which a backslash can precede a quote, unlike in '...'. */
static void words_ansi(struct words *s, const char **at, const char *end)
{
	const char *c = *at + 1;

	while (c < end && *c != '\'')
		c += *c == '\\' && c + 1 < end ? 2 : 1;
	words_mark(s, MARK_ANY);
	*at = c < end ? c + 1 : end;
}

/* "[a-z]" and "{a,b}"; otherwise, it is an ordinary character. */
static void words_bracket(struct words *s, const char *at, const char *end)
{
	const char *stop = at;

	while (stop < end && !isspace((unsigned char)*stop) && *stop != ';')
		stop++;
	if (memchr(at, *at == '[' ? ']' : ',', (size_t)(stop - at)) ||
	    (*at == '{' && words_is_range(at, stop)))
		words_mark(s, MARK_PATTERN);
	else
		words_put(s, at, 1);
}

/* "~user" is the directory of any user; "~+" is this one. */
static bool words_is_user(const struct words *s, const char *at, const char *end)
{
	return (!s->begun || at[-1] == '=' || at[-1] == ':') && at + 1 < end &&
	       (isalpha((unsigned char)at[1]) || strchr("_+-", at[1]));
}

/* A character outside of quotes. */
static int words_char(struct words *s, const char **at, const char *end)
{
	const char *c = *at, *stop;
	int r = 0;

	if (words_plain_char(s, at, end, &r))
		return r;
	*at = c + 1;
	if (s->plain) {
		words_put(s, c, 1);
	} else if (*c == '$' && c + 1 < end && c[1] == '\'') {
		words_ansi(s, at, end);
	} else if (*c == '$' && c + 1 < end && c[1] == '"') {
		words_mark(s, MARK_ANY);
	} else if (*c == '$') {
		r = words_dollar(s, at, end);
	} else if (*c == '~' && words_is_user(s, c, end)) {
		words_mark(s, MARK_ANY);
	} else if (*c == '`') {
		stop = words_closed(c + 1, end, '`', '`');
		*at = stop < end ? stop + 1 : end;
		r = words_output(s, c + 1, stop);
	} else if (*c == '*' || *c == '?') {
		words_mark(s, MARK_PATTERN);
	} else if (strchr("\n;&|()<>", *c)) {
		r = words_operator(s, *c);
	} else if (*c == '#' && !s->begun) {
		stop = memchr(c, '\n', (size_t)(end - c));
		*at = stop ? stop : end;
	} else if (*c == '[' || *c == '{') {
		words_bracket(s, c, end);
	} else {
		words_put(s, c, 1);
	}
	return r;
}

static int words_run(struct words *s, const char *at, const char *end)
{
	int r = 0;

	while (r == 0 && at < end)
		r = words_char(s, &at, end);
	r = r < 0 ? r : words_finish(s, '\0');
	words_command_end(s);
	return r;
}

/* NOLINTEND(misc-no-recursion) */

static int words_start(struct git_words *w, const char *command, bool plain)
{
	struct words s = { .w = w,
			   .dir = BUF_INIT(WORDS_SIZE_MAX),
			   .quiet = plain,
			   .plain = plain,
			   .kind = WORDS_HARMLESS,
			   .word = BUF_INIT((size_t)WORDS_SIZE_MAX * 4) };
	size_t n = strlen(command);
	int r = 0;

	if (n > WORDS_SIZE_MAX)
		w->unclear = true;
	else
		r = words_run(&s, command, command + n);
	buf_done(&s.dir);
	buf_done(&s.word);
	/* It became too long, because of $PWD. */
	if (r == -ENOMEM) {
		w->unclear = true;
		r = 0;
	}
	return r;
}

int git_words_read(struct git_words *w, const char *command)
{
	return words_start(w, command, false);
}

int git_words_read_plain(struct git_words *w, const char *words)
{
	return words_start(w, words, true);
}
