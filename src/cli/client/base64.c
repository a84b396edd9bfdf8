/* SPDX-License-Identifier: Apache-2.0 */
/* base64.c - four characters, three bytes */
#include "cli/client/base64.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

static int value_of(char c)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		"0123456789+/";
	const char *at = c ? strchr(letters, c) : NULL;

	return at ? (int)(at - letters) : -1;
}

ssize_t base64_decode(char *text, size_t n)
{
	size_t out = 0;

	if (n % 4)
		return -EINVAL;
	for (size_t i = 0; i < n; i += 4) {
		unsigned pad = 0;
		uint32_t bits = 0;

		for (size_t k = 0; k < 4; k++) {
			int v = value_of(text[i + k]);

			if (v < 0) {
				/* One or two at the very end. */
				if (text[i + k] != '=' || i + 4 != n || k < 2)
					return -EINVAL;
				pad++;
				v = 0;
			} else if (pad) {
				return -EINVAL;
			}
			bits = bits << 6 | (uint32_t)v;
		}
		text[out++] = (char)(bits >> 16);
		if (pad < 2)
			text[out++] = (char)(bits >> 8);
		if (pad < 1)
			text[out++] = (char)bits;
	}
	return (ssize_t)out;
}
