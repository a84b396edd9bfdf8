/* SPDX-License-Identifier: Apache-2.0 */
/* buf.c - a buffer that grows by doubling, up to its maximum */
#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

char *buf_reserve(struct buf *b, size_t n)
{
	size_t cap = b->cap ? b->cap : 256;
	char *p;

	if (b->failed || n > b->max - b->len) {
		b->full = b->full || !b->failed;
		b->failed = true;
		return NULL;
	}
	if (b->len + n < b->cap)
		return b->data + b->len;
	while (cap <= b->len + n && cap <= SIZE_MAX / 2)
		cap *= 2;
	if (cap <= b->len + n) {
		b->failed = true;
		return NULL;
	}
	p = realloc(b->data, cap);
	if (!p) {
		b->failed = true;
		return NULL;
	}
	b->data = p;
	b->cap = cap;
	return b->data + b->len;
}

void buf_add(struct buf *b, const void *data, size_t n)
{
	char *p = buf_reserve(b, n);

	if (!p)
		return;
	if (n)
		(void)memcpy(p, data, n);
	b->len += n;
	b->data[b->len] = '\0';
}

void buf_puts(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	char text[1024], *p;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(text)) {
		buf_add(b, text, (size_t)n);
		return;
	}
	p = n < 0 ? NULL : buf_reserve(b, (size_t)n);
	if (!p) {
		b->failed = true;
		return;
	}
	va_start(ap, fmt);
	(void)vsnprintf(p, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

void buf_done(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ .max = b->max };
}
