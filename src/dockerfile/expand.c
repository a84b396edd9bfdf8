/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expand.c - expand variables in a word, as BuildKit does
 *
 * A word is read once, from left to right; values of variables are inserted unchanged and
 * are not expanded again, so the result is never longer than the word and its values
 * together.
 */
#include <errno.h>
#include <string.h>

#include "dockerfile/words.h"

struct expand_op {
	const struct words_vars *vars;
	const char *p; /* what follows */
	bool text;     /* quotes have no meaning: a heredoc */
	unsigned depth;
	struct warren_error *err;
};

static int expand_until(struct expand_op *op, char stop, struct buf *out);

static bool expand_is_name(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       (!first && c >= '0' && c <= '9');
}

/* Length of the name at @p: of a variable, or of a special parameter such as $1 or $@. */
static size_t expand_name(const char *p)
{
	size_t n = 0;

	if (expand_is_name(p[0], true)) {
		while (expand_is_name(p[n], false))
			n++;
		return n;
	}
	if (p[0] >= '0' && p[0] <= '9')
		return strspn(p, "0123456789");
	return p[0] && strchr("@*#?-$!", p[0]) ? 1 : 0;
}

/* Apply the operator of ${name:-word} and the like; @word is already expanded. */
static int expand_modified(struct expand_op *op, const char *name, size_t n, bool colon,
			   char modifier, const char *word, struct buf *out)
{
	const char *value = op->vars->get(op->vars->ctx, name, n);
	bool set = value && (!colon || value[0]);

	if (modifier == '+')
		buf_puts(out, set ? word : "");
	else if (set)
		buf_puts(out, value);
	else if (modifier == '-')
		buf_puts(out, word);
	else
		return error_set(
			op->err, EINVAL, "the variable '%.*s' is not set%s%.200s",
			(int)(n > 100 ? 100 : n), name, word[0] ? ": " : "", word);
	return 0;
}

static int expand_braces(struct expand_op *op, struct buf *out)
{
	AUTO_BUF struct buf word = BUF_INIT(WORDS_EXPANDED_MAX);
	const char *name = op->p, *value;
	size_t n = expand_name(name);
	bool colon;
	char modifier;
	int r;

	op->p += n;
	if (n == 0)
		return error_set(op->err, EINVAL, "'${%.20s': a name is missing", name);
	if (*op->p == '}') {
		op->p++;
		value = op->vars->get(op->vars->ctx, name, n);
		buf_puts(out, value ? value : "");
		return 0;
	}
	colon = *op->p == ':';
	op->p += colon;
	modifier = *op->p;
	if (!modifier)
		return error_set(op->err, EINVAL, "'${%.20s': the '}' is missing", name);
	if (!strchr("+-?", modifier))
		return error_set(op->err, EINVAL,
				 "'${%.*s%s%c': only ${x:-y}, ${x:+y} and ${x:?y} are "
				 "supported",
				 (int)(n > 100 ? 100 : n), name, colon ? ":" : "",
				 modifier);
	op->p++;
	if (++op->depth > WORDS_NESTED_MAX)
		return error_set(op->err, E2BIG, "variables are nested too deeply");
	r = expand_until(op, '}', &word);
	op->depth--;
	if (r < 0)
		return r;
	return expand_modified(op, name, n, colon, modifier, word.data ? word.data : "",
			       out);
}

/* Expand the variable whose '$' is the next character. */
static int expand_dollar(struct expand_op *op, struct buf *out)
{
	const char *value;
	size_t n;

	op->p++;
	if (*op->p == '{') {
		op->p++;
		return expand_braces(op, out);
	}
	n = expand_name(op->p);
	if (n == 0) {
		buf_puts(out, "$");
		return 0;
	}
	value = op->vars->get(op->vars->ctx, op->p, n);
	buf_puts(out, value ? value : "");
	op->p += n;
	return 0;
}

static int expand_single(struct expand_op *op, struct buf *out)
{
	const char *end = strchr(op->p + 1, '\'');

	if (!end)
		return error_set(op->err, EINVAL, "a single quote is not closed");
	buf_add(out, op->p + 1, (size_t)(end - op->p - 1));
	op->p = end + 1;
	return 0;
}

static int expand_double(struct expand_op *op, struct buf *out)
{
	const char escape = op->vars->escape;

	for (op->p++; *op->p != '"';) {
		char next;

		if (!*op->p)
			return error_set(op->err, EINVAL, "a double quote is not closed");
		next = op->p[1];
		if (*op->p == '$') {
			int r = expand_dollar(op, out);

			if (r < 0)
				return r;
		} else if (*op->p == escape &&
			   (next == '"' || next == '$' || next == escape)) {
			buf_add(out, &next, 1);
			op->p += 2;
		} else {
			buf_add(out, op->p++, 1);
		}
	}
	op->p++;
	return 0;
}

/*
 * Handle an escape outside of quotes. In a heredoc, only '$' and the escape character
 * itself can be escaped.
 */
static void expand_escape(struct expand_op *op, struct buf *out)
{
	const char escape = op->vars->escape, next = op->p[1];

	if (op->text && next != '$' && next != escape) {
		buf_add(out, op->p++, 1);
		return;
	}
	op->p++;
	if (*op->p)
		buf_add(out, op->p++, 1);
}

/* Expand the text up to the character @stop, which is skipped; 0: up to the end. */
static int expand_until(struct expand_op *op, char stop, struct buf *out)
{
	int r = 0;

	while (r == 0 && *op->p && *op->p != stop) {
		if (*op->p == '$')
			r = expand_dollar(op, out);
		else if (*op->p == op->vars->escape)
			expand_escape(op, out);
		else if (*op->p == '\'' && !op->text)
			r = expand_single(op, out);
		else if (*op->p == '"' && !op->text)
			r = expand_double(op, out);
		else
			buf_add(out, op->p++, 1);
		if (r == 0 && out->failed)
			r = error_set(op->err, E2BIG,
				      "it is longer than %d bytes when its variables are "
				      "replaced",
				      WORDS_EXPANDED_MAX);
	}
	if (r == 0 && stop && *op->p != stop)
		r = error_set(op->err, EINVAL, "a '%c' is missing", stop);
	op->p += r == 0 && stop;
	return r;
}

static int expand_all(struct expand_op *op, char **ret)
{
	AUTO_BUF struct buf out = BUF_INIT(WORDS_EXPANDED_MAX);
	int r;

	buf_add(&out, "", 0);
	r = expand_until(op, '\0', &out);
	if (r < 0)
		return r;
	*ret = out.data ? TAKE_PTR(out.data) : strdup("");
	return *ret ? 0 : error_errno(op->err, ENOMEM, "expand variables");
}

int words_expand(const struct words_vars *vars, const char *word, char **ret,
		 struct warren_error *err)
{
	struct expand_op op = { .vars = vars, .p = word, .err = err };

	return expand_all(&op, ret);
}

int words_expand_text(const struct words_vars *vars, const char *text, char **ret,
		      struct warren_error *err)
{
	struct expand_op op = { .vars = vars, .p = text, .text = true, .err = err };

	return expand_all(&op, ret);
}
