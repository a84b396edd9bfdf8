/* SPDX-License-Identifier: Apache-2.0 */
/* first.c - classify the first bytes of a connection: a TLS record, a line of HTTP, or
 * something else */
#include "egress/first.h"

#include <string.h>
#include <strings.h>

#define FIRST_METHOD_MAX 32
#define FIRST_BLANK      "\r\n\t\v\f "

static enum first_kind first_tls(const unsigned char *data, size_t n)
{
	if (n > 1 && data[1] != 3)
		return FIRST_OTHER;
	if (n > 2 && data[2] > 4)
		return FIRST_OTHER;
	return n > 2 ? FIRST_TLS : FIRST_MORE;
}

/* Can this byte follow the method, as the start of a path, a URI, or "*"? */
static bool first_is_target(char c)
{
	return c == '/' || c == 'h' || c == 'H' || c == '*';
}

/* Does the line end in a version of HTTP/1? */
static bool first_has_version(const char *line, size_t n)
{
	static const char version[] = " HTTP/1.";
	const size_t len = sizeof(version) - 1;

	if (n > 0 && line[n - 1] == '\r')
		n--;
	return n > len && memcmp(line + n - len - 1, version, len) == 0;
}

/* A well-formed line of a request, or the beginning of one. */
static enum first_kind first_http(const char *data, size_t n)
{
	const char *end = n ? memchr(data, '\n', n) : NULL;
	size_t method = 0;

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

/* The number of bytes at the start that are in @set. */
static size_t first_span(const char *data, size_t n, const char *set)
{
	size_t i = 0;

	while (i < n && data[i] && strchr(set, data[i]))
		i++;
	return i;
}

/* HTTP, perhaps after whitespace, which some servers skip. */
static enum first_kind first_text(const char *data, size_t n)
{
	size_t blank = first_span(data, n, FIRST_BLANK);
	enum first_kind kind;

	if (blank == n)
		return n < FIRST_LINE_MAX ? FIRST_MORE : FIRST_OTHER;
	kind = first_http(data + blank, n - blank);
	if (kind == FIRST_HTTP && (blank > 2 || first_span(data, n, "\r\n") < blank))
		return FIRST_ODD;
	return kind;
}

/* TLS with other records before the handshake, or SSL 2. */
static enum first_kind first_odd_tls(const unsigned char *data, size_t n)
{
	if (data[0] >= 0x14 && data[0] <= 0x18)
		return n < 2 ? FIRST_MORE : data[1] == 3 ? FIRST_ODD : FIRST_OTHER;
	if (data[0] & 0x80)
		return n < 3 ? FIRST_MORE : data[2] == 1 ? FIRST_ODD : FIRST_OTHER;
	return FIRST_OTHER;
}

static bool first_is_text(char c)
{
	return c == '\t' || c == '\r' || (c >= ' ' && c < 0x7f);
}

/* Return whether a line without its end has the version of HTTP, in any case,
 * anywhere. */
static bool first_mentions_http(const char *line, size_t n)
{
	static const char version[] = "HTTP/";
	const size_t len = sizeof(version) - 1;

	for (size_t i = 0; i + len <= n; i++)
		if (strncasecmp(line + i, version, len) == 0)
			return true;
	return false;
}

/* Malformed HTTP: could a server read it as HTTP? */
static enum first_kind first_odd_line(const char *line, size_t n)
{
	static const char proxy[] = "PROXY "; /* what a load balancer sends first */
	size_t len = 0;

	while (len < n && first_is_text(line[len]))
		len++;
	if (len >= sizeof(proxy) - 1 && memcmp(line, proxy, sizeof(proxy) - 1) == 0)
		return FIRST_ODD;
	if (first_mentions_http(line, len))
		return FIRST_ODD;
	/* The end of the line, or a byte that a line cannot contain. */
	if (len < n)
		return FIRST_OTHER;
	return n < FIRST_LINE_MAX ? FIRST_MORE : FIRST_ODD;
}

static enum first_kind first_wary(const char *data, size_t n)
{
	size_t blank = first_span(data, n, FIRST_BLANK);
	enum first_kind kind = first_odd_tls((const unsigned char *)data, n);

	if (kind != FIRST_OTHER)
		return kind;
	/* More empty lines than a client may send by mistake. */
	if (first_span(data, n, "\r\n") > 2)
		return FIRST_ODD;
	kind = first_text(data, n);
	return kind == FIRST_OTHER ? first_odd_line(data + blank, n - blank) : kind;
}

enum first_kind first_classify(const char *data, size_t n, bool wary)
{
	enum first_kind kind;

	if (n == 0)
		return FIRST_MORE;
	if (data[0] != 0x16 || (n > 1 && data[1] != 3))
		return wary ? first_wary(data, n) : first_text(data, n);
	kind = first_tls((const unsigned char *)data, n);
	return kind == FIRST_OTHER && wary ? FIRST_ODD : kind;
}
