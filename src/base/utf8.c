/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.c - check UTF-8 with the table of well-formed sequences of the Unicode standard */
#include "base/utf8.h"

#include <stdint.h>

#include "base/macro.h"

/*
 * The first byte selects the row; the second byte has its own bounds, and the others are
 * 80..bf.
 */
static const struct {
	unsigned char first, last, low, high, len;
} forms[] = {
	{ 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 },
	{ 0xe1, 0xec, 0x80, 0xbf, 3 }, { 0xed, 0xed, 0x80, 0x9f, 3 },
	{ 0xee, 0xef, 0x80, 0xbf, 3 }, { 0xf0, 0xf0, 0x90, 0xbf, 4 },
	{ 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
};

size_t utf8_len(const void *data, size_t n)
{
	const unsigned char *s = data;
	size_t i = 0;

	if (n > 0 && s[0] < 0x80)
		return 1;
	while (n > 0 && i < ARRAY_SIZE(forms) && s[0] > forms[i].last)
		i++;
	if (n == 0 || i == ARRAY_SIZE(forms) || s[0] < forms[i].first ||
	    n < forms[i].len || s[1] < forms[i].low || s[1] > forms[i].high)
		return 0;
	for (size_t k = 2; k < forms[i].len; k++)
		if ((s[k] & 0xc0) != 0x80)
			return 0;
	return forms[i].len;
}

bool utf8_valid(const void *data, size_t n)
{
	const char *s = data;

	for (size_t at = 0, len; at < n; at += len) {
		len = utf8_len(s + at, n - at);
		if (len == 0)
			return false;
	}
	return true;
}

size_t utf8_cut(const void *data, size_t n)
{
	const unsigned char *s = data;

	for (size_t back = 1; back <= 3 && back <= n; back++) {
		unsigned char c = s[n - back];
		size_t want = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

		if ((c & 0xc0) == 0x80)
			continue;
		return want > back ? back : 0;
	}
	return 0;
}

size_t utf8_count(const void *data, size_t n)
{
	const unsigned char *s = data;
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += (s[i] & 0xc0) != 0x80;
	return count;
}

static uint32_t utf8_decode(const unsigned char *p, size_t n)
{
	uint32_t c = n == 2 ? p[0] & 0x1fU : n == 3 ? p[0] & 0x0fU : p[0] & 0x07U;

	for (size_t i = 1; i < n; i++)
		c = c << 6 | (p[i] & 0x3fU);
	return c;
}

/* Control characters beyond ASCII, and characters that are invisible or move others. */
bool utf8_deceives(const void *data, size_t n)
{
	const uint32_t c = utf8_decode(data, n);
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0x80, 0x9f },       { 0xad, 0xad },     { 0x61c, 0x61c },
		{ 0x180e, 0x180e },   { 0x200b, 0x200f }, { 0x2028, 0x202e },
		{ 0x2060, 0x206f },   { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb },
		{ 0xe0000, 0xe0fff },
	};

	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		if (c >= ranges[i].first && c <= ranges[i].last)
			return true;
	return false;
}
