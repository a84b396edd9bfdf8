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

#define WORDS_DEPTH_MAX 6     /* of commands in commands */
#define WORDS_SIZE_MAX  16384 /* bytes of a command; a longer one is unclear */

#define MARK_ANY     '\1' /* something that is not known */
#define MARK_PATTERN '\2' /* any part of a name */
#define MARK_GIVEN   '\3' /* an argument of the command */
#define MARKS        "\1\2\3"

/* What is known of the command that the words are given to. */
enum words_kind {
	WORDS_PROGRAM,
	WORDS_HARMLESS,    /* it executes none of its arguments */
	WORDS_WRAPPER,     /* its arguments are a command */
	WORDS_INTERPRETER, /* it executes an argument */
	WORDS_PYTHON,      /* and may import modules from the directory it starts in */
	WORDS_SHELL,       /* its arguments may be commands */
	WORDS_RUNNER,      /* it executes what files of the project say */
	WORDS_CD,
	WORDS_CASE,
};

static const struct {
	const char *name;
	enum words_kind kind;
} words_kinds[] = {
	{ "[", WORDS_HARMLESS },       { "[[", WORDS_HARMLESS },
	{ ":", WORDS_HARMLESS },       { "basename", WORDS_HARMLESS },
	{ "break", WORDS_HARMLESS },   { "cat", WORDS_HARMLESS },
	{ "column", WORDS_HARMLESS },  { "cut", WORDS_HARMLESS },
	{ "date", WORDS_HARMLESS },    { "diff", WORDS_HARMLESS },
	{ "dirname", WORDS_HARMLESS }, { "echo", WORDS_HARMLESS },
	{ "exit", WORDS_HARMLESS },    { "export", WORDS_HARMLESS },
	{ "expr", WORDS_HARMLESS },    { "false", WORDS_HARMLESS },
	{ "for", WORDS_HARMLESS },     { "git", WORDS_HARMLESS },
	{ "grep", WORDS_HARMLESS },    { "head", WORDS_HARMLESS },
	{ "less", WORDS_HARMLESS },    { "local", WORDS_HARMLESS },
	{ "ls", WORDS_HARMLESS },      { "mkdir", WORDS_HARMLESS },
	{ "printf", WORDS_HARMLESS },  { "read", WORDS_HARMLESS },
	{ "return", WORDS_HARMLESS },  { "rm", WORDS_HARMLESS },
	{ "set", WORDS_HARMLESS },     { "shift", WORDS_HARMLESS },
	{ "sleep", WORDS_HARMLESS },   { "sort", WORDS_HARMLESS },
	{ "tail", WORDS_HARMLESS },    { "tee", WORDS_HARMLESS },
	{ "test", WORDS_HARMLESS },    { "tr", WORDS_HARMLESS },
	{ "true", WORDS_HARMLESS },    { "uniq", WORDS_HARMLESS },
	{ "unset", WORDS_HARMLESS },   { "wc", WORDS_HARMLESS },
	{ "!", WORDS_WRAPPER },        { "{", WORDS_WRAPPER },
	{ "builtin", WORDS_WRAPPER },  { "command", WORDS_WRAPPER },
	{ "do", WORDS_WRAPPER },       { "elif", WORDS_WRAPPER },
	{ "else", WORDS_WRAPPER },     { "env", WORDS_WRAPPER },
	{ "exec", WORDS_WRAPPER },     { "if", WORDS_WRAPPER },
	{ "nice", WORDS_WRAPPER },     { "nohup", WORDS_WRAPPER },
	{ "setsid", WORDS_WRAPPER },   { "sudo", WORDS_WRAPPER },
	{ "then", WORDS_WRAPPER },     { "time", WORDS_WRAPPER },
	{ "until", WORDS_WRAPPER },    { "while", WORDS_WRAPPER },
	{ "xargs", WORDS_WRAPPER },    { "bun", WORDS_RUNNER },
	{ "bunx", WORDS_RUNNER },      { "cargo", WORDS_RUNNER },
	{ "composer", WORDS_RUNNER },  { "gmake", WORDS_RUNNER },
	{ "gradle", WORDS_RUNNER },    { "just", WORDS_RUNNER },
	{ "make", WORDS_RUNNER },      { "mvn", WORDS_RUNNER },
	{ "ninja", WORDS_RUNNER },     { "npm", WORDS_RUNNER },
	{ "npx", WORDS_RUNNER },       { "pnpm", WORDS_RUNNER },
	{ "rake", WORDS_RUNNER },      { "task", WORDS_RUNNER },
	{ "uv", WORDS_RUNNER },        { "yarn", WORDS_RUNNER },
	{ ".", WORDS_SHELL },          { "ash", WORDS_SHELL },
	{ "bash", WORDS_SHELL },       { "dash", WORDS_SHELL },
	{ "eval", WORDS_SHELL },       { "ksh", WORDS_SHELL },
	{ "sh", WORDS_SHELL },         { "source", WORDS_SHELL },
	{ "trap", WORDS_SHELL },       { "zsh", WORDS_SHELL },
	{ "deno", WORDS_INTERPRETER }, { "lua", WORDS_INTERPRETER },
	{ "node", WORDS_INTERPRETER }, { "nodejs", WORDS_INTERPRETER },
	{ "perl", WORDS_INTERPRETER }, { "php", WORDS_INTERPRETER },
	{ "python", WORDS_PYTHON },    { "pypy", WORDS_PYTHON },
	{ "ruby", WORDS_INTERPRETER }, { "cd", WORDS_CD },
	{ "pushd", WORDS_CD },         { "case", WORDS_CASE },
};

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
	bool inside;   /* its name was read */
	bool isolated; /* python -I: no module of the project is used */
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
	words_say(s, word, true);
	return true;
}

/* The pieces of a list of directories, such as that of PATH=. */
static void words_note_list(struct words *s, const char *name, size_t n, char *list)
{
	static const char *const executed[] = { "LD_PRELOAD",   "BASH_ENV", "ENV",
						"NODE_OPTIONS", "PERL5LIB", "PERL5OPT",
						"RUBYLIB",      "RUBYOPT" };
	bool path = n >= 4 && memcmp(name + n - 4, "PATH", 4) == 0;
	char *piece;

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
	return n > 0 && !isdigit((unsigned char)word[0]) && word[n] == '=' ? n : 0;
}

/* Does such a program execute files that are its arguments? */
static bool words_executes(enum words_kind kind)
{
	return kind == WORDS_INTERPRETER || kind == WORDS_PYTHON || kind == WORDS_SHELL;
}

static enum words_kind words_kind_of(const char *word)
{
	const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word;
	size_t n = strlen(name);

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

/* ---------------------------------------------------------- the words of a command */

static void words_go(struct words *s, const char *word)
{
	if (word[strcspn(word, MARKS)] || strcmp(word, "-") == 0) {
		s->lost = true;
		return;
	}
	if (word[0] == '-')
		return;
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
	bool executes =
		s->kind != WORDS_HARMLESS && s->kind != WORDS_CASE && s->kind != WORDS_CD;
	bool command = strpbrk(word, " \t\n;&|<>()$`") != NULL;
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

/* NAME=value: paths, or a command (GIT_EDITOR="t/x.sh -w"). */
static int words_assign(struct words *s, char *word, size_t n)
{
	char *value = word + n + 1;
	/* LESSOPEN="|-t/x.sh %s" */
	bool pipe = value[0] == '|';

	words_note_list(s, word, n, value);
	value += pipe ? strspn(value, "|-") : 0;
	return pipe || strpbrk(value, " \t\n\"'") ? words_value(s, value) : 0;
}

/* The name of a command, or what may be before it. */
static int words_name(struct words *s, char *word)
{
	size_t assigned = words_assigns(word);
	bool relative = word[0] != '/' && strchr(word, '/');

	if (assigned)
		return words_assign(s, word, assigned);
	/* An option of a wrapper. */
	if (word[0] == '-') {
		(void)words_note(s, word, false);
		return 0;
	}
	s->kind = words_kind_of(word);
	s->isolated = false;
	s->inside = s->kind != WORDS_WRAPPER;
	if (s->kind == WORDS_RUNNER || (s->lost && relative) ||
	    !words_note(s, word, false))
		words_unclear(s);
	return 0;
}

static int words_argument(struct words *s, char *word)
{
	size_t assigned = words_assigns(word);
	char *value = strchr(word, '=');
	bool known = !word[strcspn(word, MARKS)];
	int r = 0;

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

/* Does git, or the user's session, set the variable to something that is not a script? */
static bool words_is_given(const char *name, size_t n)
{
	/* Others of git, such as GIT_PREFIX, are paths, or may be empty. */
	static const char *const given[] = { "GIT_AUTHOR_NAME",
					     "GIT_AUTHOR_EMAIL",
					     "GIT_COMMITTER_NAME",
					     "GIT_COMMITTER_EMAIL",
					     "ARG",
					     "ARGS",
					     "BACKUP",
					     "BASE",
					     "COLUMNS",
					     "DISPLAY",
					     "EDITOR",
					     "FILENAME",
					     "LINES",
					     "LOCAL",
					     "LOGNAME",
					     "MERGED",
					     "PAGER",
					     "REMOTE",
					     "REVISION",
					     "SHELL",
					     "TERM",
					     "USER",
					     "VISUAL" };

	if (n > 1 && name[0] == '#')
		return true;
	if (n == 1 && strchr("0123456789@*#?$!-", name[0]))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(given); i++)
		if (strlen(given[i]) == n && memcmp(given[i], name, n) == 0)
			return true;
	return false;
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
		return 0;
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

/* A character that ends a word. */
static int words_operator(struct words *s, char c)
{
	int r = words_finish(s, c);

	if (c == '<' || c == '>') {
		s->redirects = true;
		return r;
	}
	s->parens += c == '(';
	s->parens -= c == ')' && s->parens > 0;
	/* "2>&1" */
	if (c != '&' || !s->redirects)
		s->inside = s->redirects = false;
	return r;
}

/* "[a-z]" and "{a,b}"; otherwise, the character means itself. */
static void words_bracket(struct words *s, const char *at, const char *end)
{
	const char *stop = at;

	while (stop < end && !isspace((unsigned char)*stop) && *stop != ';')
		stop++;
	if (memchr(at, *at == '[' ? ']' : ',', (size_t)(stop - at)))
		words_mark(s, MARK_PATTERN);
	else
		words_put(s, at, 1);
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
	} else if (*c == '$') {
		r = words_dollar(s, at, end);
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
	return r < 0 ? r : words_finish(s, '\0');
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
