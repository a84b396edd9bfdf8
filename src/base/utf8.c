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

struct utf8_range {
	uint32_t first, last;
};

static bool utf8_is_in(uint32_t c, const struct utf8_range *v, size_t n)
{
	for (size_t i = 0; i < n && c >= v[i].first; i++)
		if (c <= v[i].last)
			return true;
	return false;
}

uint32_t utf8_char(const void *data, size_t n)
{
	return utf8_decode(data, n);
}

/*
 * In order: all of Unicode's Default_Ignorable_Code_Point (with those that it reserves)
 * and Bidi_Control, the C1 control characters, and what fonts show as nothing or as
 * another line.
 */
bool utf8_deceives(const void *data, size_t n)
{
	static const struct utf8_range ranges[] = {
		{ 0x80, 0x9f },       /* C1 */
		{ 0xad, 0xad },       /* soft hyphen */
		{ 0x34f, 0x34f },     /* combining grapheme joiner */
		{ 0x61c, 0x61c },     /* Arabic letter mark */
		{ 0x115f, 0x1160 },   /* Hangul fillers */
		{ 0x17b4, 0x17b5 },   /* Khmer inherent vowels */
		{ 0x180b, 0x180f },   /* Mongolian selectors and separator */
		{ 0x200b, 0x200f },   /* zero width, direction */
		{ 0x2028, 0x202e },   /* line and paragraph, direction */
		{ 0x2060, 0x206f },   /* invisible operators, direction */
		{ 0x2800, 0x2800 },   /* Braille without dots */
		{ 0x3164, 0x3164 },   /* Hangul filler */
		{ 0xfe00, 0xfe0f },   /* variation selectors */
		{ 0xfeff, 0xfeff },   /* byte order mark */
		{ 0xffa0, 0xffa0 },   /* halfwidth Hangul filler */
		{ 0xfff0, 0xfffb },   /* reserved, interlinear annotation */
		{ 0x16fe4, 0x16fe4 }, /* Khitan filler */
		{ 0x1bca0, 0x1bca3 }, /* shorthand format controls */
		{ 0x1d159, 0x1d159 }, /* musical null notehead */
		{ 0x1d173, 0x1d17a }, /* musical format controls */
		{ 0xe0000, 0xe0fff }, /* tags, variation selectors */
	};

	return utf8_is_in(utf8_decode(data, n), ranges, ARRAY_SIZE(ranges));
}

bool utf8_is_blank(const void *data, size_t n)
{
	static const struct utf8_range blanks[] = {
		{ ' ', ' ' },       { 0xa0, 0xa0 },     { 0x1680, 0x1680 },
		{ 0x2000, 0x200a }, { 0x202f, 0x202f }, { 0x205f, 0x205f },
		{ 0x3000, 0x3000 },
	};
	const unsigned char *s = data;

	return utf8_is_in(n == 1 ? s[0] : utf8_decode(s, n), blanks, ARRAY_SIZE(blanks));
}

bool utf8_shows(const void *data, size_t n, size_t *ret_len)
{
	const unsigned char *s = data;
	size_t len = utf8_len(data, n);

	*ret_len = len ? len : 1;
	return len == 1 ? s[0] >= ' ' && s[0] != 0x7f : len > 1 && !utf8_deceives(s, len);
}
