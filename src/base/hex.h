/* SPDX-License-Identifier: Apache-2.0 */
/* hex.h - hexadecimal digits: written in lower case, read in either case */
#ifndef BASE_HEX_H
#define BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The digit for the low four bits. */
static inline char hex_digit(unsigned value)
{
	return "0123456789abcdef"[value & 15];
}

/* Get the value of a digit; -1: @c is not a digit. */
static inline int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Write 2 * @n digits and a NUL to @ret; return the address of the NUL. */
static inline char *hex_encode(const void *data, size_t n, char *ret)
{
	const unsigned char *in = data;

	for (size_t i = 0; i < n; i++) {
		*ret++ = hex_digit(in[i] >> 4);
		*ret++ = hex_digit(in[i]);
	}
	*ret = '\0';
	return ret;
}

/* Return whether @text consists of exactly @n digits as hex_encode() writes them. */
static inline bool hex_is(const char *text, size_t n)
{
	return strlen(text) == n && strspn(text, "0123456789abcdef") == n;
}

#endif /* BASE_HEX_H */
