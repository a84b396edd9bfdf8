/* SPDX-License-Identifier: Apache-2.0 */
/* first.c - a TLS record, a line of HTTP, or something else */
#include "egress/first.h"

#include <string.h>

#define FIRST_METHOD_MAX 32

static enum first_kind first_tls(const unsigned char *data, size_t n)
{
	if (n > 1 && data[1] != 3)
		return FIRST_OTHER;
	if (n > 2 && data[2] > 4)
		return FIRST_OTHER;
	return n > 2 ? FIRST_TLS : FIRST_MORE;
}

/* The bytes after the method: a path, a URI, or "*". */
static bool first_is_target(char c)
{
	return c == '/' || c == 'h' || c == 'H' || c == '*';
}

/* Whether the line ends in the version of HTTP/1. */
static bool first_has_version(const char *line, size_t n)
{
	static const char version[] = " HTTP/1.";
	const size_t len = sizeof(version) - 1;

	if (n > 0 && line[n - 1] == '\r')
		n--;
	return n > len && memcmp(line + n - len - 1, version, len) == 0;
}

enum first_kind first_classify(const char *data, size_t n)
{
	const char *end = n ? memchr(data, '\n', n) : NULL;
	size_t method = 0;

	if (n == 0)
		return FIRST_MORE;
	if (data[0] == 0x16)
		return first_tls((const unsigned char *)data, n);
	while (method < n && data[method] >= 'A' && data[method] <= 'Z')
		method++;
	if (method == 0 || method > FIRST_METHOD_MAX)
		return FIRST_OTHER;
	if (method < n && data[method] != ' ')
		return FIRST_OTHER;
	if (method + 1 < n && !first_is_target(data[method + 1]))
		return FIRST_OTHER;
	if (end)
		return first_has_version(data, (size_t)(end - data)) ? FIRST_HTTP
								     : FIRST_OTHER;
	return n < FIRST_LINE_MAX ? FIRST_MORE : FIRST_OTHER;
}
