/* SPDX-License-Identifier: Apache-2.0 */
/* visible.c - write hostile text so that a person can see what it contains */
#include "base/utf8.h"
#include "textdiff/unified.h"

static void visible_put_char(struct buf *out, const unsigned char *p, size_t n)
{
	uint32_t c = n > 1 ? utf8_char(p, n) : *p;

	if (n == 0)
		buf_printf(out, "<%02X>", *p);
	else if (n > 1 && utf8_deceives(p, n))
		buf_printf(out, "<U+%04X>", c);
	else if (n == 1 && (c < 0x20 || c == 0x7f) && c != '\t')
		buf_printf(out, "^%c", (char)(c ^ 0x40));
	else
		buf_add(out, p, n);
}

void text_put_visible(struct buf *out, struct text t)
{
	const unsigned char *p = (const unsigned char *)t.data;
	size_t end = t.len, n;

	if (end && p[end - 1] == '\n')
		end--;
	for (size_t i = 0; i < end; i += n ? n : 1) {
		size_t plain = i;

		while (plain < end &&
		       ((p[plain] >= 0x20 && p[plain] < 0x7f) || p[plain] == '\t'))
			plain++;
		n = plain - i;
		if (n) {
			buf_add(out, p + i, n);
			continue;
		}
		n = utf8_len(p + i, end - i);
		visible_put_char(out, p + i, n);
	}
	buf_add(out, p + end, t.len - end);
}
