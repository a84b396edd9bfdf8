/* SPDX-License-Identifier: Apache-2.0 */
/* words.c - split text into words; JSON arrays of strings */
#include "dockerfile/words.h"

#include <errno.h>
#include <string.h>

#include "base/hex.h"
#include "base/strv.h"

bool words_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r' || c == '\n';
}

static int words_add(char ***list, size_t *n, const char *start, size_t len,
		     struct warren_error *err)
{
	AUTO_FREE char *word = strndup(start, len);

	if (++*n > WORDS_MAX)
		return error_set(err, E2BIG, "it has more than %d words", WORDS_MAX);
	if (!word || strv_add(list, word) < 0)
		return error_errno(err, ENOMEM, "split the line");
	return 0;
}

/* The end of the word that begins at @p. */
static const char *words_end(const char *p, bool quotes, char escape)
{
	char quote = 0;

	for (; *p && (quote || !words_blank(*p)); p++) {
		if (!quotes)
			continue;
		if (*p == escape && p[1] && quote != '\'')
			p++;
		else if (quote == *p)
			quote = 0;
		else if (!quote && (*p == '\'' || *p == '"'))
			quote = *p;
	}
	return p;
}

int words_split(const char *text, bool quotes, char escape, char ***ret,
		struct warren_error *err)
{
	AUTO_STRV char **list = calloc(1, sizeof(*list));
	const char *p = text;
	size_t n = 0;

	if (!list)
		return error_errno(err, ENOMEM, "split the line");
	for (;;) {
		const char *start;
		int r;

		while (words_blank(*p))
			p++;
		if (!*p)
			break;
		start = p;
		p = words_end(p, quotes, escape);
		r = words_add(&list, &n, start, (size_t)(p - start), err);
		if (r < 0)
			return r;
	}
	*ret = TAKE_PTR(list);
	return 0;
}

/* -------------------------------------------------------------------- JSON */

static const char *json_skip(const char *p)
{
	while (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')
		p++;
	return p;
}

static void json_put_utf8(struct buf *out, unsigned c)
{
	char text[4];
	size_t n = 0;

	if (c < 0x80) {
		text[n++] = (char)c;
	} else if (c < 0x800) {
		text[n++] = (char)(0xc0 | c >> 6);
		text[n++] = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		text[n++] = (char)(0xe0 | c >> 12);
		text[n++] = (char)(0x80 | (c >> 6 & 0x3f));
		text[n++] = (char)(0x80 | (c & 0x3f));
	} else {
		text[n++] = (char)(0xf0 | c >> 18);
		text[n++] = (char)(0x80 | (c >> 12 & 0x3f));
		text[n++] = (char)(0x80 | (c >> 6 & 0x3f));
		text[n++] = (char)(0x80 | (c & 0x3f));
	}
	buf_add(out, text, n);
}

/* Return the value of four hexadecimal digits at @p; -1: there are fewer. */
static int json_hex4(const char *p)
{
	int c = 0;

	for (int i = 0; i < 4; i++) {
		int v = hex_value(p[i]);

		if (v < 0)
			return -1;
		c = c * 16 + v;
	}
	return c;
}

/* Decode "\uXXXX", or two of them for a character above U+FFFF. */
static const char *json_unicode(const char *p, struct buf *out)
{
	int c = json_hex4(p), low;

	if (c <= 0)
		return NULL;
	p += 4;
	if (c >= 0xd800 && c < 0xdc00 && p[0] == '\\' && p[1] == 'u') {
		low = json_hex4(p + 2);
		if (low >= 0xdc00 && low < 0xe000) {
			json_put_utf8(out, 0x10000U + (((unsigned)c - 0xd800U) << 10) +
						   ((unsigned)low - 0xdc00U));
			return p + 6;
		}
	}
	json_put_utf8(out, c >= 0xd800 && c < 0xe000 ? 0xfffd : (unsigned)c);
	return p;
}

/*
 * Decode the string whose opening quote is before @p; return what follows it, or NULL if
 * it is not valid.
 */
static const char *json_string(const char *p, struct buf *out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";

	buf_add(out, "", 0);
	while (p && *p && *p != '"') {
		const char *known;

		if ((unsigned char)*p < 0x20)
			return NULL;
		if (*p != '\\') {
			buf_add(out, p++, 1);
			continue;
		}
		p++;
		known = *p ? strchr(from, *p) : NULL;
		if (known) {
			buf_add(out, &to[known - from], 1);
			p++;
		} else {
			p = *p == 'u' ? json_unicode(p + 1, out) : NULL;
		}
	}
	return p && *p == '"' ? p + 1 : NULL;
}

int words_array(const char *text, char ***ret, struct warren_error *err)
{
	AUTO_STRV char **list = calloc(1, sizeof(*list));
	const char *p = json_skip(text);
	size_t n = 0;

	if (!list)
		return error_errno(err, ENOMEM, "split the line");
	if (*p != '[')
		return 0;
	p = json_skip(p + 1);
	while (*p != ']' || n > 0) {
		AUTO_BUF struct buf word = BUF_INIT(WORDS_EXPANDED_MAX);
		int r;

		if (*p != '"')
			return 0;
		p = json_string(p + 1, &word);
		if (!p || word.failed)
			return 0;
		r = words_add(&list, &n, word.data ? word.data : "", word.len, err);
		if (r < 0)
			return r;
		p = json_skip(p);
		if (*p == ']')
			break;
		if (*p != ',')
			return 0;
		p = json_skip(p + 1);
	}
	if (*json_skip(p + 1))
		return 0;
	*ret = TAKE_PTR(list);
	return 1;
}
