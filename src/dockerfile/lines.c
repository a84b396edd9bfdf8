/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c - read the lines of a Dockerfile */
#include "dockerfile/lines.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/strv.h"
#include "base/utf8.h"
#include "dockerfile/words.h"

struct line {
	const char *p;
	size_t n;
};

/* The next line of the file, without its end. */
static bool lines_raw(struct lines *l, struct line *ret)
{
	const char *newline;

	if (l->p == l->end)
		return false;
	newline = memchr(l->p, '\n', (size_t)(l->end - l->p));
	ret->p = l->p;
	ret->n = (size_t)((newline ? newline : l->end) - l->p);
	if (ret->n > 0 && ret->p[ret->n - 1] == '\r')
		ret->n--;
	l->p = newline ? newline + 1 : l->end;
	l->number++;
	return true;
}

static struct line line_trim_left(struct line line)
{
	while (line.n > 0 && words_blank(*line.p)) {
		line.p++;
		line.n--;
	}
	return line;
}

static struct line line_trim(struct line line)
{
	line = line_trim_left(line);
	while (line.n > 0 && words_blank(line.p[line.n - 1]))
		line.n--;
	return line;
}

/* -------------------------------------------------------------- directives */

struct directive {
	struct line name, value;
};

/* "# name = value" */
static bool directive_parse(struct line line, struct directive *ret)
{
	const char *equals;
	struct line name;

	line = line_trim(line);
	if (line.n == 0 || line.p[0] != '#')
		return false;
	line.p++;
	line.n--;
	equals = memchr(line.p, '=', line.n);
	if (!equals)
		return false;
	name = line_trim((struct line){ line.p, (size_t)(equals - line.p) });
	ret->name = name;
	ret->value = line_trim(
		(struct line){ equals + 1, line.n - (size_t)(equals + 1 - line.p) });
	for (size_t i = 0; i < name.n; i++)
		if (!((name.p[i] | 32) >= 'a' && (name.p[i] | 32) <= 'z') &&
		    (i == 0 || name.p[i] < '0' || name.p[i] > '9'))
			return false;
	return name.n > 0 && ret->value.n > 0;
}

static bool line_is(struct line line, const char *word)
{
	return line.n == strlen(word) && strncasecmp(line.p, word, line.n) == 0;
}

static int directive_escape(struct lines *l, struct line value, struct warren_error *err)
{
	if (value.n != 1 || (*value.p != '\\' && *value.p != '`'))
		return error_set(err, EINVAL,
				 "the directive 'escape' must be \\ or `, not '%.*s'",
				 (int)(value.n > 40 ? 40 : value.n), value.p);
	l->escape = *value.p;
	return 0;
}

/* Accept only the frontend that this parser implements. */
static int directive_syntax(struct lines *l UNUSED, struct line value,
			    struct warren_error *err)
{
	static const char *const known[] = { "docker/dockerfile:1",
					     "docker.io/docker/dockerfile:1" };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		size_t n = strlen(known[i]);

		if (value.n >= n && strncmp(value.p, known[i], n) == 0 &&
		    (value.n == n || value.p[n] == '.' || value.p[n] == '-' ||
		     value.p[n] == '@'))
			return 0;
	}
	return error_set(err, EINVAL,
			 "the directive 'syntax' must be docker/dockerfile:1, not "
			 "'%.*s': other frontends are not supported",
			 (int)(value.n > 80 ? 80 : value.n), value.p);
}

/* Ignore the settings of docker's linter. */
static int directive_check(struct lines *l UNUSED, struct line value UNUSED,
			   struct warren_error *err UNUSED)
{
	return 0;
}

static const struct {
	const char *name;
	int (*set)(struct lines *l, struct line value, struct warren_error *err);
} directives[] = {
	{ "escape", directive_escape },
	{ "syntax", directive_syntax },
	{ "check", directive_check },
};

/* Directives are at the top: the first other line ends them. */
static int lines_directives(struct lines *l, struct warren_error *err)
{
	bool seen[ARRAY_SIZE(directives)] = { 0 };

	for (;;) {
		struct lines before = *l;
		struct directive d;
		struct line line;
		size_t i = 0;
		int r;

		if (!lines_raw(l, &line))
			return 0;
		if (directive_parse(line, &d))
			while (i < ARRAY_SIZE(directives) &&
			       !line_is(d.name, directives[i].name))
				i++;
		else
			i = ARRAY_SIZE(directives);
		if (i == ARRAY_SIZE(directives)) {
			*l = before;
			return 0;
		}
		if (seen[i])
			return error_set(err, EINVAL, "the directive '%s' is given twice",
					 directives[i].name);
		seen[i] = true;
		r = directives[i].set(l, d.value, err);
		if (r < 0)
			return r;
	}
}

/* The number of the line with the byte @at. */
static unsigned lines_number_of(const char *text, const char *at)
{
	unsigned n = 1;

	for (; text < at; text++)
		n += *text == '\n';
	return n;
}

/* The first byte that is not text: a configuration is JSON, and JSON is UTF-8. */
static const char *lines_not_text(const char *text, size_t size)
{
	for (size_t i = 0; i < size;) {
		size_t n = text[i] ? utf8_len(text + i, size - i) : 0;

		if (n == 0)
			return text + i;
		i += n;
	}
	return NULL;
}

int lines_init(struct lines *l, const char *text, size_t size, struct warren_error *err)
{
	const char *bad = lines_not_text(text, size);

	*l = (struct lines){ .p = text, .end = text + size, .escape = '\\' };
	if (bad) {
		l->number = lines_number_of(text, bad);
		return error_set(
			err, EINVAL,
			"the file is not text in UTF-8: it contains the byte 0x%02x",
			(unsigned)(unsigned char)*bad);
	}
	if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		l->p += 3;
	return lines_directives(l, err);
}

/* ------------------------------------------------------------ instructions */

/*
 * Remove an escape at the end of the line, and whitespace after it: the line continues.
 */
static bool line_continues(struct line *line, char escape)
{
	size_t n = line->n;

	while (n > 0 && (line->p[n - 1] == ' ' || line->p[n - 1] == '\t'))
		n--;
	if (n == 0 || line->p[n - 1] != escape || (n > 1 && line->p[n - 2] == escape))
		return false;
	line->n = n - 1;
	return true;
}

int lines_next(struct lines *l, struct buf *out, unsigned *ret_line,
	       struct warren_error *err)
{
	struct line line, trimmed;
	bool begun = false, more = true;

	buf_done(out);
	*out = (struct buf)BUF_INIT(DOCKERFILE_SIZE_MAX);
	while (more && lines_raw(l, &line)) {
		trimmed = line_trim_left(line);
		if (trimmed.n == 0 || trimmed.p[0] == '#')
			continue;
		if (!begun) {
			*ret_line = l->number;
			line = trimmed;
		}
		begun = true;
		more = line_continues(&line, l->escape);
		buf_add(out, line.p, line.n);
	}
	if (out->failed)
		return error_errno(err, ENOMEM, "read the instruction");
	return begun;
}

/* ---------------------------------------------------------------- heredocs */

/* Remove the quotes of a heredoc's name. */
static char *heredoc_name(const char *word, bool *ret_quoted)
{
	char *name = calloc(1, strlen(word) + 1), *to = name;

	*ret_quoted = strpbrk(word, "'\"\\") != NULL;
	for (; name && *word; word++)
		if (!strchr("'\"\\", *word))
			*to++ = *word;
	return name;
}

/*
 * Return the name in a word such as "<<EOF", "<<-EOF" or "3<<'EOF'"; NULL: the word does
 * not begin a heredoc.
 */
static const char *heredoc_word(const char *word, bool *ret_chomp)
{
	const char *p = word + strspn(word, "0123456789");

	if (strncmp(p, "<<", 2) != 0)
		return NULL;
	p += 2;
	*ret_chomp = *p == '-';
	p += *ret_chomp;
	return *p && !strchr(p, '<') ? p : NULL;
}

static int heredoc_read(struct lines *l, const char *name, bool chomp, char **ret,
			struct warren_error *err)
{
	AUTO_BUF struct buf data = BUF_INIT(DOCKERFILE_SIZE_MAX);
	unsigned begun = l->number;
	struct line line;

	buf_add(&data, "", 0);
	while (lines_raw(l, &line)) {
		while (chomp && line.n > 0 && *line.p == '\t') {
			line.p++;
			line.n--;
		}
		if (line.n == strlen(name) && memcmp(line.p, name, line.n) == 0) {
			if (data.failed || !data.data)
				return error_errno(err, ENOMEM, "read a heredoc");
			*ret = TAKE_PTR(data.data);
			return 0;
		}
		buf_add(&data, line.p, line.n);
		buf_add(&data, "\n", 1);
	}
	l->number = begun;
	return error_set(err, EINVAL, "the heredoc has no end: there is no line '%.80s'",
			 name);
}

static int heredoc_add(struct lines *l, const char *word, const char *rest, bool chomp,
		       struct dockerfile_instruction *i, struct warren_error *err)
{
	struct dockerfile_heredoc *grown, *h;
	bool quoted;

	if (i->n_heredocs == DOCKERFILE_HEREDOCS_MAX)
		return error_set(err, E2BIG, "it has more than %d heredocs",
				 DOCKERFILE_HEREDOCS_MAX);
	grown = reallocarray(i->heredocs, i->n_heredocs + 1, sizeof(*grown));
	if (!grown)
		return error_errno(err, ENOMEM, "read a heredoc");
	i->heredocs = grown;
	h = &grown[i->n_heredocs++];
	*h = (struct dockerfile_heredoc){ .word = strdup(word),
					  .name = heredoc_name(rest, &quoted) };
	h->expand = !quoted;
	if (!h->word || !h->name)
		return error_errno(err, ENOMEM, "read a heredoc");
	if (!h->name[0])
		return error_set(err, EINVAL, "the heredoc '%.80s' has no name", word);
	return heredoc_read(l, h->name, chomp, &h->data, err);
}

int lines_heredocs(struct lines *l, const char *text, struct dockerfile_instruction *i,
		   struct warren_error *err)
{
	AUTO_STRV char **words = NULL;
	int r = words_split(text, true, l->escape, &words, err);

	for (char **w = words; r == 0 && *w; w++) {
		bool chomp = false;
		const char *rest = heredoc_word(*w, &chomp);

		if (rest)
			r = heredoc_add(l, *w, rest, chomp, i, err);
	}
	return r;
}
