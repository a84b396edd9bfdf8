/* SPDX-License-Identifier: Apache-2.0 */
/* base64.c - encode and decode base64 */
#include "base/base64.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

static void base64_encode_triple(const unsigned char in[3], char out[4])
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	out[0] = digits[in[0] >> 2];
	out[1] = digits[(in[0] & 3) << 4 | in[1] >> 4];
	out[2] = digits[(in[1] & 15) << 2 | in[2] >> 6];
	out[3] = digits[in[2] & 63];
}

void base64_encode(const void *data, size_t n, char *ret)
{
	const unsigned char *in = data;
	unsigned char tail[3] = { 0 };

	for (; n >= 3; n -= 3, in += 3, ret += 4)
		base64_encode_triple(in, ret);
	if (n == 0)
		return;
	(void)memcpy(tail, in, n);
	base64_encode_triple(tail, ret);
	(void)memset(ret + 1 + n, '=', 3 - n);
}

static int base64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decode four characters, of which the last @pad are padding, to 24 bits. */
static int32_t base64_quad(const char *text, size_t pad)
{
	int32_t bits = 0;

	for (size_t i = 0; i < 4; i++) {
		int v = i < 4 - pad ? base64_value(text[i]) : 0;

		if (v < 0)
			return -EINVAL;
		bits = bits << 6 | v;
	}
	return bits;
}

/* Return the number of padding characters at the end. */
static size_t base64_padding(const char *text, size_t n)
{
	if (n < 4 || text[n - 1] != '=')
		return 0;
	return text[n - 2] == '=' ? 2 : 1;
}

ssize_t base64_decode(const char *text, size_t n, void *ret)
{
	size_t pad = base64_padding(text, n), len = 0;
	unsigned char *out = ret;

	if (n % 4)
		return -EINVAL;
	for (size_t i = 0; i < n; i += 4) {
		size_t missing = i + 4 == n ? pad : 0;
		int32_t bits = base64_quad(text + i, missing);

		if (bits < 0)
			return -EINVAL;
		out[len++] = (unsigned char)(bits >> 16);
		if (missing < 2)
			out[len++] = (unsigned char)(bits >> 8);
		if (missing < 1)
			out[len++] = (unsigned char)bits;
	}
	return (ssize_t)len;
}

bool base64_valid(const char *text, size_t n)
{
	size_t pad = base64_padding(text, n);

	for (size_t i = 0; i < n - pad; i++)
		if (base64_value(text[i]) < 0)
			return false;
	return n % 4 == 0;
}
