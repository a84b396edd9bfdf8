/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - find lines; recognise binary contents */
#include "textdiff/text.h"

#include <errno.h>
#include <string.h>

/* The number of bytes that git examines. */
#define BINARY_PREFIX 8000

bool text_equal(struct text a, struct text b)
{
	return a.len == b.len && (!a.len || memcmp(a.data, b.data, a.len) == 0);
}

static size_t lines_count(struct text t)
{
	const char *p = t.data, *end = p + t.len;
	size_t n = 0;

	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));

		p = nl ? nl + 1 : end;
		n++;
	}
	return n;
}

bool text_is_binary(struct text t)
{
	size_t n = t.len < BINARY_PREFIX ? t.len : BINARY_PREFIX;

	return t.len > TEXT_MAX || (n && memchr(t.data, '\0', n)) ||
	       (t.len > TEXT_LINES_MAX && lines_count(t) > TEXT_LINES_MAX);
}

int text_lines_make(struct text t, struct text_lines *ret, struct warren_error *err)
{
	struct text_lines l = { .text = t };
	size_t at = 0;

	if (t.len > TEXT_MAX)
		return error_set(err, EFBIG, "%zu bytes are too long for a text", t.len);
	l.n = t.len ? lines_count(t) : 0;
	if (l.n > TEXT_LINES_MAX)
		return error_set(err, EFBIG, "%zu lines are too many for a text", l.n);
	l.start = malloc((l.n + 1) * sizeof(*l.start));
	if (!l.start)
		return error_errno(err, ENOMEM, "find %zu lines", l.n);
	for (size_t i = 0; i < l.n; i++) {
		const char *nl = memchr(t.data + at, '\n', t.len - at);

		l.start[i] = (uint32_t)at;
		at = nl ? (size_t)(nl - t.data) + 1 : t.len;
	}
	l.start[l.n] = (uint32_t)t.len;
	*ret = l;
	return 0;
}

void text_lines_done(struct text_lines *l)
{
	free(l->start);
	*l = (struct text_lines){ 0 };
}
