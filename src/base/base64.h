/* SPDX-License-Identifier: Apache-2.0 */
/* base64.h - bytes as text (RFC 4648, section 4), with padding */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Number of characters for @n bytes. */
static inline size_t base64_size(size_t n)
{
	return n / 3 * 4 + (n % 3 ? 4 : 0);
}

/* Write base64_size(@n) characters to @ret, without a NUL. */
void base64_encode(const void *data, size_t n, char *ret);
/*
 * Decode @n characters and return the number of bytes. @ret has space for @n / 4 * 3
 * bytes, and may be @text itself. -EINVAL: @text is not base64, or its padding is
 * missing.
 */
ssize_t base64_decode(const char *text, size_t n, void *ret);
/* Return whether base64_decode() would succeed. */
bool base64_valid(const char *text, size_t n);

#endif /* BASE_BASE64_H */
