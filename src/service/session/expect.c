/* SPDX-License-Identifier: Apache-2.0 */
/* expect.c - wait on a terminal for the first of several patterns */
#include "service/session/expect.h"

#include <stdlib.h>
#include <string.h>

#include "regex/regex.h"

struct expect {
	size_t n, cost;
	struct {
		struct pattern *text, *regex; /* regex: NULL if it is the same as text */
	} of[EXPECT_MAX];
};

static bool is_only_text(const char *text)
{
	return text[strcspn(text, "\\^$.|?*+()[]{}")] == '\0';
}

struct expect *expect_new(const char *const *texts, size_t n)
{
	struct expect *e = n <= EXPECT_MAX ? calloc(1, sizeof(*e)) : NULL;
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (!e)
		return NULL;
	for (; e->n < n; e->n++) {
		if (pattern_new_text(texts[e->n], false, &e->of[e->n].text, &ignored) < 0)
			return expect_free(e);
		if (!is_only_text(texts[e->n]) &&
		    pattern_new_regex(texts[e->n], false, &e->of[e->n].regex, &ignored) ==
			    0)
			e->cost += pattern_cost(e->of[e->n].regex);
	}
	return e->cost <= EXPECT_COST ? e : expect_free(e);
}

struct expect *expect_free(struct expect *e)
{
	for (size_t i = 0; e && i < e->n; i++) {
		e->of[i].text = pattern_free(e->of[i].text);
		e->of[i].regex = pattern_free(e->of[i].regex);
	}
	free(e);
	return NULL;
}

bool expect_is_text(const struct expect *e)
{
	return e->cost == 0;
}

int expect_find(struct expect *e, const char *data, size_t n, size_t seen,
		size_t *ret_from, size_t *ret_to)
{
	size_t skip = seen > EXPECT_WINDOW ? seen - EXPECT_WINDOW : 0, best = n + 1;
	int which = -1;

	for (size_t i = 0; e && i < e->n; i++)
		for (int k = 0; k < 2; k++) {
			struct pattern *p = k ? e->of[i].regex : e->of[i].text;
			size_t from, to;

			if (!p || !pattern_find(p, data + skip, n - skip, &from, &to) ||
			    from >= best)
				continue;
			best = from;
			*ret_from = skip + from;
			*ret_to = skip + to;
			which = (int)i;
		}
	return which;
}

/* ------------------------------------------------------------- plain text of a screen */

/*
 * Return the length of the control sequence (ECMA-48) at @p, which has @n bytes; 0: it is
 * incomplete.
 */
static size_t expect_sequence(const char *p, size_t n)
{
	size_t i = 2;

	if (n < 2)
		return 0;
	switch (p[1]) {
	case '[': /* parameters, intermediate bytes, a final byte */
		while (i < n && p[i] >= 0x20 && p[i] <= 0x3f)
			i++;
		return i < n ? i + (p[i] >= 0x40 && p[i] <= 0x7e) : 0;
	case ']': /* a string that ends with BEL or ESC \ */
	case 'P':
	case 'X':
	case '^':
	case '_':
		for (; i < n; i++) {
			if (p[i] == '\a')
				return i + 1;
			if (p[i] == '\033')
				return i + 1 < n ? i + (p[i + 1] == '\\' ? 2 : 0) : 0;
		}
		return 0;
	default:
		while (i - 1 < n && p[i - 1] >= 0x20 && p[i - 1] <= 0x2f)
			i++;
		return i - 1 < n ? i : 0;
	}
}

void expect_plain(struct buf *out, const char *data, size_t n)
{
	while (n > 0) {
		size_t run = 0, used;

		while (run < n && data[run] != '\033' && data[run] != '\r')
			run++;
		buf_add(out, data, run);
		data += run;
		n -= run;
		if (n == 0)
			break;
		if (*data == '\r') {
			used = 1;
			if (n < 2 || data[1] != '\n')
				buf_add(out, "\r", 1);
		} else {
			used = expect_sequence(data, n);
			used = used ? used : n; /* an incomplete sequence */
		}
		data += used;
		n -= used;
	}
}
