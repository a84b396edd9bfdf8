/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_words_read.c - split a command into words, as the shell does
 *
 * What stands for something else is replaced by a mark: what it is cannot be known. Each
 * word is judged when it ends (git_words.c).
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "work/git_words.h"
#include "work/git_words_internal.h"

/* NOLINTBEGIN(misc-no-recursion): as deep as WORDS_DEPTH_MAX */

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
		words_mark(s, words_is_editor(name, n)  ? MARK_EDITOR
			      : words_is_given(name, n) ? MARK_GIVEN
							: MARK_ANY);
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

int words_run(struct words *s, const char *at, const char *end)
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
