/* SPDX-License-Identifier: Apache-2.0 */
/* pyrepr.c - format values like Python's repr() */
#include "api/swerex/pyrepr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/utf8.h"

void python_put_byte(struct buf *out, unsigned char c)
{
	buf_add(out, (const char[]){ '\\', 'x', hex_digit(c >> 4), hex_digit(c) }, 4);
}

char python_quote(const char *text, size_t n)
{
	return memchr(text, '\'', n) && !memchr(text, '"', n) ? '"' : '\'';
}

void python_repr(struct buf *out, const char *text, size_t n)
{
	char quote = python_quote(text, n);

	buf_add(out, &quote, 1);
	python_repr_inside(out, text, n, quote);
	buf_add(out, &quote, 1);
}

void python_repr_inside(struct buf *out, const char *text, size_t n, char quote)
{
	for (size_t i = 0; i < n;) {
		unsigned char c = (unsigned char)text[i];
		size_t len = utf8_len(text + i, n - i);

		if (c == '\n')
			buf_puts(out, "\\n");
		else if (c == '\r')
			buf_puts(out, "\\r");
		else if (c == '\t')
			buf_puts(out, "\\t");
		else if (c == '\\' || c == (unsigned char)quote)
			buf_add(out, (const char[]){ '\\', (char)c }, 2);
		else if (c < ' ' || c == 0x7f || len == 0)
			python_put_byte(out, c);
		else
			buf_add(out, text + i, len);
		i += len ? len : 1;
	}
}

void python_float(struct buf *out, double value)
{
	char text[40];

	for (int digits = 1; digits <= 17; digits++) {
		(void)snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	buf_puts(out, text);
	if (text[strspn(text, "-0123456789")] == '\0')
		buf_puts(out, ".0");
}

void python_decode(struct buf *out, const char *data, size_t n)
{
	while (n > 0) {
		size_t run = 0, len;

		while (run < n && (len = utf8_len(data + run, n - run)) > 0)
			run += len;
		buf_add(out, data, run);
		if (run == n)
			return;
		python_put_byte(out, (unsigned char)data[run]);
		data += run + 1;
		n -= run + 1;
	}
}

void python_strip(const char **text, size_t *n)
{
	static const char blanks[] = " \t\n\r\v\f\x1c\x1d\x1e\x1f";

	while (*n > 0 && strchr(blanks, (*text)[0]) && (*text)[0]) {
		(*text)++;
		(*n)--;
	}
	while (*n > 0 && strchr(blanks, (*text)[*n - 1]) && (*text)[*n - 1])
		(*n)--;
}
