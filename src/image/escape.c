/* SPDX-License-Identifier: Apache-2.0 */
/* escape.c - write and read percent escapes */
#include "image/escape.h"

#include <errno.h>
#include <string.h>

#include "base/hex.h"

static void escape_encode(struct buf *out, const char *text, bool name)
{
	for (const char *p = text; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (c < 0x20 || c == 0x7f || c == '%' ||
		    (name && (c == '/' || (c == '.' && p == text))))
			buf_printf(out, "%%%02x", c);
		else
			buf_add(out, p, 1);
	}
}

void encode_line(struct buf *out, const char *text)
{
	escape_encode(out, text, false);
}

void encode_name(struct buf *out, const char *text)
{
	escape_encode(out, text, true);
}

/* Only lower case is valid, because only that is written. */
static int escape_digit(char c)
{
	return c >= 'A' && c <= 'F' ? -1 : hex_value(c);
}

int decode_line(char *text)
{
	char *out = text;

	for (const char *p = text; *p; p++) {
		int high, low;

		if (*p != '%') {
			*out++ = *p;
			continue;
		}
		high = escape_digit(p[1]);
		low = high < 0 ? -1 : escape_digit(p[2]);
		if (low < 0 || (high == 0 && low == 0))
			return -EBADMSG;
		*out++ = (char)(high * 16 + low);
		p += 2;
	}
	*out = '\0';
	return 0;
}
