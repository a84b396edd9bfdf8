/* SPDX-License-Identifier: Apache-2.0 */
/* percent.c - decode %XX strictly: two digits, no NUL, and valid UTF-8 */
#include "base/percent.h"

#include <errno.h>

#include "base/hex.h"
#include "base/utf8.h"

ssize_t percent_decode(const char *in, size_t n, bool plus, char *out, size_t size)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		char c = in[i];

		if (c == '%') {
			int high = n - i > 2 ? hex_value(in[i + 1]) : -1;
			int low = n - i > 2 ? hex_value(in[i + 2]) : -1;

			if (high < 0 || low < 0)
				return -EINVAL;
			c = (char)(high << 4 | low);
			i += 2;
		} else if (c == '+' && plus) {
			c = ' ';
		}
		if (c == '\0')
			return -EINVAL;
		if (len + 1 >= size)
			return -ENOSPC;
		out[len++] = c;
	}
	if (size == 0)
		return -ENOSPC;
	out[len] = '\0';
	return utf8_valid(out, len) ? (ssize_t)len : -EINVAL;
}
