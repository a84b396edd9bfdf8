/* SPDX-License-Identifier: Apache-2.0 */
/*
 * punycode.c - decode punycode without keeping the result
 *
 * Only the code points and their number show whether a text is valid, so the positions at
 * which they are inserted are computed but not kept.
 */
#include "network/punycode.h"

#include <stdint.h>

/* The parameters of RFC 3492, section 5. */
enum {
	BASE = 36,
	TMIN = 1,
	TMAX = 26,
	SKEW = 38,
	DAMP = 700,
	INITIAL_BIAS = 72,
	INITIAL_N = 128,
};

static int punycode_digit(char c)
{
	if (c >= 'a' && c <= 'z')
		return c - 'a';
	return c >= '0' && c <= '9' ? c - '0' + 26 : -1;
}

static uint32_t punycode_adapt(uint32_t delta, uint32_t points, bool first)
{
	uint32_t k = 0;

	delta = first ? delta / DAMP : delta / 2;
	delta += delta / points;
	for (; delta > (BASE - TMIN) * TMAX / 2; k += BASE)
		delta /= BASE - TMIN;
	return k + (BASE - TMIN + 1) * delta / (delta + SKEW);
}

/* Read a number of variable length at *@at. Return false if it is truncated or too
 * large. */
static bool punycode_number(const char *text, size_t n, size_t *at, uint32_t bias,
			    uint32_t *ret)
{
	uint64_t value = 0, weight = 1;

	for (uint32_t k = BASE;; k += BASE) {
		uint32_t t = k <= bias ? TMIN : k >= bias + TMAX ? TMAX : k - bias;
		int digit = *at < n ? punycode_digit(text[*at]) : -1;

		if (digit < 0)
			return false;
		++*at;
		value += (uint64_t)digit * weight;
		if (value > INT32_MAX)
			return false;
		if ((uint32_t)digit < t)
			break;
		weight *= BASE - t;
		if (weight > INT32_MAX)
			return false;
	}
	*ret = (uint32_t)value;
	return true;
}

bool punycode_valid(const char *text, size_t n)
{
	uint32_t point = INITIAL_N, bias = INITIAL_BIAS, i = 0, points = 0, delta;
	size_t at = 0;

	/* The ASCII characters come before the last '-'. */
	for (size_t k = 0; k < n; k++)
		if (text[k] == '-') {
			points = (uint32_t)k;
			at = k + 1;
		}
	if (at == 1 || at == n)
		return false;
	while (at < n) {
		bool first = i == 0;

		if (!punycode_number(text, n, &at, bias, &delta))
			return false;
		points++;
		bias = punycode_adapt(delta, points, first);
		if (delta > UINT32_MAX - i)
			return false;
		i += delta;
		point += i / points;
		i = i % points + 1;
		/* U+0080 to U+009F are control characters. */
		if (point < 0xa0 || point > 0x10ffff ||
		    (point >= 0xd800 && point <= 0xdfff))
			return false;
	}
	return true;
}
