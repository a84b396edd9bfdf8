/* SPDX-License-Identifier: Apache-2.0 */
/* base85.c - encode and decode lines of git's binary patches */
#include "textdiff/base85.h"

#include <errno.h>
#include <string.h>

enum {
	BASE = 85,
	HALF = 26
};

static const char base85_digits[] =
	"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

size_t base85_encode_line(const uint8_t *p, size_t n, char line[BASE85_LINE_MAX])
{
	size_t len = 0;

	line[len++] = (char)(n <= HALF ? 'A' + (int)n - 1 : 'a' + (int)n - HALF - 1);
	for (size_t i = 0; i < n; i += 4) {
		uint32_t word = 0;

		for (size_t k = i; k < i + 4; k++)
			word = word << 8 | (k < n ? p[k] : 0);
		for (size_t k = 5; k--; word /= BASE)
			line[len + k] = base85_digits[word % BASE];
		len += 5;
	}
	return len;
}

int base85_decode_line(const char *line, size_t len, uint8_t ret[BASE85_BYTES_MAX])
{
	size_t n, words = (len - 1) / 5;

	if (!len || (len - 1) % 5)
		return -EINVAL;
	if (line[0] >= 'A' && line[0] <= 'Z')
		n = (size_t)(line[0] - 'A') + 1;
	else if (line[0] >= 'a' && line[0] <= 'z')
		n = (size_t)(line[0] - 'a') + HALF + 1;
	else
		return -EINVAL;
	if (words != (n + 3) / 4)
		return -EINVAL;
	for (size_t i = 0; i < words; i++) {
		uint64_t word = 0;

		for (size_t k = 0; k < 5; k++) {
			char c = line[1 + i * 5 + k];
			const char *digit = c ? strchr(base85_digits, c) : NULL;

			if (!digit)
				return -EINVAL;
			word = word * BASE + (uint64_t)(digit - base85_digits);
		}
		if (word > UINT32_MAX)
			return -EINVAL;
		for (size_t k = 0; k < 4 && 4 * i + k < n; k++)
			ret[4 * i + k] = (uint8_t)(word >> (24 - 8 * k));
	}
	return (int)n;
}
