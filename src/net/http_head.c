/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_head.c - a strict parser of message heads
 *
 * It has two passes. The first finds the empty line, and detects invalid bytes while they
 * arrive. The second runs once, over a complete head in one piece. So the parser keeps no
 * state between bytes, and no part of a head is used before the whole head is valid.
 */
#include "net/http_head.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/macro.h"

enum {
	C_TOKEN = 1,  /* may be in a method or a field name */
	C_VALUE = 2,  /* may be in a field value */
	C_TARGET = 4, /* may be in a request target */
	C_DIGIT = 8,
};

/*
 * Letters, digits and !#$%&'*+-.^_`|~ are tokens; a target has visible characters except
 * '#'.
 */
#define T  (C_TOKEN | C_VALUE | C_TARGET)
#define D  (T | C_DIGIT)
#define V  (C_VALUE | C_TARGET)
#define VO C_VALUE
#define TO (C_TOKEN | C_VALUE)

static const unsigned char class_of[256] = {
	['\t'] = VO,       [' '] = VO,        ['!'] = T,
	['"'] = V,         ['#'] = TO,        ['$' ... '\''] = T,
	['(' ... ')'] = V, ['*' ... '+'] = T, [','] = V,
	['-' ... '.'] = T, ['/'] = V,         ['0' ... '9'] = D,
	[':' ... '@'] = V, ['A' ... 'Z'] = T, ['[' ... ']'] = V,
	['^' ... 'z'] = T, ['{'] = V,         ['|'] = T,
	['}'] = V,         ['~'] = T,         [0x80 ... 0xff] = VO,
};

#undef T
#undef D
#undef V
#undef VO
#undef TO

static const char *http_head_span(const char *p, unsigned char of)
{
	while (class_of[(unsigned char)*p] & of)
		p++;
	return p;
}

bool http_is_token(const char *s)
{
	return *s && !*http_head_span(s, C_TOKEN);
}

bool http_is_value(const char *s)
{
	return !*http_head_span(s, C_VALUE);
}

long http_head_find(const char *data, size_t n, size_t *scanned)
{
	size_t start = *scanned; /* beginning of the incomplete line */

	if (n > 0 && data[0] != '\r' && !(class_of[(unsigned char)data[0]] & C_TOKEN))
		return -1;
	if (n > 1 && data[0] == '\r' && data[1] != '\n')
		return -1;
	while (start < n) {
		const char *lf = memchr(data + start, '\n', n - start);
		size_t len;

		if (!lf)
			break;
		len = (size_t)(lf - (data + start));
		if (len == 0 || lf[-1] != '\r')
			return -1;
		start += len + 1;
		/* An empty line ends the head, except at the beginning. */
		if (len == 1 && start > 2)
			return (long)start;
	}
	*scanned = start;
	return 0;
}

static int http_head_refuse(struct http_head *h, int status, const char *why)
{
	h->why = why;
	return status;
}

bool http_list_has(const char *list, const char *token)
{
	size_t len = strlen(token);

	for (const char *p = list; *p;) {
		const char *end;

		p += strspn(p, " \t,");
		end = p + strcspn(p, " \t,");
		if ((size_t)(end - p) == len && strncasecmp(p, token, len) == 0)
			return true;
		p = end;
	}
	return false;
}

/* Known fields. The table also lists fields that must not be repeated. */
enum known {
	K_OTHER,
	K_HOST,
	K_LENGTH,
	K_ENCODING,
	K_CONNECTION,
	K_EXPECT,
	K_SINGLE, /* not used here, but programs differ in which of two such fields they
		     use */
	K_MAX
};

static const struct {
	const char *name;
	size_t len;
	enum known known;
	bool repeats;
} known_fields[] = {
#define F(n) n, sizeof(n) - 1
	{ F("host"), K_HOST, false },
	{ F("content-length"), K_LENGTH, false },
	{ F("transfer-encoding"), K_ENCODING, false },
	{ F("connection"), K_CONNECTION, true },
	{ F("expect"), K_EXPECT, false },
	{ F("authorization"), K_SINGLE, false },
	{ F("content-type"), K_SINGLE, false },
	{ F("origin"), K_SINGLE, false },
	{ F("sec-websocket-key"), K_SINGLE, false },
	{ F("sec-websocket-version"), K_SINGLE, false },
#undef F
};

static int find_known(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(known_fields); i++)
		if (known_fields[i].len == len &&
		    strncasecmp(known_fields[i].name, name, len) == 0)
			return (int)i;
	return -1;
}

static int take_length(struct http_head *h, const char *s)
{
	uint64_t v = 0;

	if (!*s || *http_head_span(s, C_DIGIT))
		return http_head_refuse(h, 400, "Content-Length is not a number");
	for (; *s; s++) {
		/* Keep the value below 2^63, so that sums with it do not overflow. */
		if (v > (INT64_MAX - 9) / 10)
			return http_head_refuse(h, 400, "Content-Length is too large");
		v = v * 10 + (uint64_t)(*s - '0');
	}
	h->length = v;
	h->has_length = true;
	return 0;
}

/* Is it a host with an optional port, such as "name", "name:80" or "[::1]:80"? */
static bool is_host(const char *s)
{
	/* Other characters of names, according to RFC 3986. */
	static const char others[] = "-._~%!$&'()*+,;=";
	const char *start = s;

	if (*s == '[') {
		s += strspn(s, "[:.%0123456789abcdefABCDEFvV");
		if (*s++ != ']')
			return false;
	} else {
		while ((class_of[(unsigned char)*s] & C_DIGIT) ||
		       (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
		       (*s && strchr(others, *s)))
			s++;
	}
	if (s == start)
		return false;
	return !*s || (*s == ':' && !*http_head_span(s + 1, C_DIGIT));
}

static int take_known(struct http_head *h, enum known known, const char *value)
{
	switch (known) {
	case K_HOST:
		h->has_host = true;
		return is_host(value)
			       ? 0
			       : http_head_refuse(h, 400, "Host is empty or malformed");
	case K_LENGTH:
		return take_length(h, value);
	case K_ENCODING:
		if (strcasecmp(value, "chunked") != 0)
			return http_head_refuse(
				h, 501,
				"only the transfer encoding 'chunked' is supported");
		h->chunked = true;
		return 0;
	case K_CONNECTION:
		h->close |= http_list_has(value, "close");
		h->keep_alive |= http_list_has(value, "keep-alive");
		h->upgrade |= http_list_has(value, "upgrade");
		return 0;
	case K_EXPECT:
		if (strcasecmp(value, "100-continue") != 0)
			return http_head_refuse(h, 417,
						"Expect supports only '100-continue'");
		h->expect_continue = true;
		return 0;
	case K_OTHER:
	case K_SINGLE:
	case K_MAX:
		break;
	}
	return 0;
}

/* Parse one line, "name: value", with a NUL instead of its CR. */
static int take_field(struct http_head *h, char *line, char *end, unsigned *seen)
{
	char *colon = (char *)(uintptr_t)http_head_span(line, C_TOKEN);
	char *value = colon + 1;
	struct http_field *f = &h->fields[h->n_fields];
	int known;

	if (*line == ' ' || *line == '\t')
		return http_head_refuse(h, 400, "a field is folded over two lines");
	if (colon == line || *colon != ':')
		return http_head_refuse(h, 400, "a field name is malformed");
	if (h->n_fields == HTTP_FIELDS_MAX)
		return http_head_refuse(h, 431, "too many fields");
	while (*value == ' ' || *value == '\t')
		value++;
	if (http_head_span(value, C_VALUE) != end)
		return http_head_refuse(h, 400,
					"a field value contains a control character");
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*colon = '\0';
	*end = '\0';
	*f = (struct http_field){ .name = line,
				  .value = value,
				  .name_len = (size_t)(colon - line),
				  .value_len = (size_t)(end - value) };
	h->n_fields++;

	known = find_known(line, f->name_len);
	if (known < 0)
		return 0;
	if ((*seen & (1U << known)) && !known_fields[known].repeats)
		return http_head_refuse(
			h, 400, "a field that must not be repeated is given twice");
	*seen |= 1U << known;
	return take_known(h, known_fields[known].known, value);
}

/* Parse the lines from @p to @end, where the empty line begins. */
static int take_fields(struct http_head *h, char *p, char *end)
{
	unsigned seen = 0;

	while (p < end) {
		char *lf = memchr(p, '\n', (size_t)(end - p));
		int r;

		if (!lf || lf == p || lf[-1] != '\r')
			return http_head_refuse(h, 400, "a line does not end in CR LF");
		lf[-1] = '\0';
		r = take_field(h, p, lf - 1, &seen);
		if (r != 0)
			return r;
		p = lf + 1;
	}
	if (h->chunked && h->has_length)
		return http_head_refuse(h, 400,
					"both Content-Length and Transfer-Encoding");
	if (h->chunked && h->minor == 0)
		return http_head_refuse(h, 400,
					"Transfer-Encoding in an HTTP/1.0 message");
	return 0;
}

/* Parse "HTTP/1.x". Return 0, or the status of a refusal. */
static int take_version(struct http_head *h, const char *s, size_t n)
{
	if (n != 8 || strncmp(s, "HTTP/", 5) != 0 || s[6] != '.' ||
	    !(class_of[(unsigned char)s[5]] & C_DIGIT) ||
	    !(class_of[(unsigned char)s[7]] & C_DIGIT))
		return http_head_refuse(h, 400, "the version is malformed");
	if (s[5] != '1' || s[7] > '1')
		return http_head_refuse(h, 505,
					"only HTTP/1.0 and HTTP/1.1 are supported");
	h->minor = (unsigned)(s[7] - '0');
	return 0;
}

static void http_head_start(struct http_head *h)
{
	/* Do not clear the table of fields, which would take longer than parsing. */
	h->method = h->target = h->authority = h->why = NULL;
	h->https = false;
	h->status = h->minor = 0;
	h->n_fields = 0;
	h->has_host = h->has_length = h->chunked = false;
	h->length = 0;
	h->close = h->keep_alive = h->upgrade = h->expect_continue = false;
}

/* Return the first line, with its CR LF replaced by NULs; NULL: there is none. */
static char *first_line(char *data, size_t n, char **ret_next)
{
	char *lf = memchr(data, '\n', n);

	if (n < 4 || !lf || lf == data || lf[-1] != '\r' ||
	    memcmp(data + n - 4, "\r\n\r\n", 4) != 0)
		return NULL;
	lf[-1] = '\0';
	*ret_next = lf + 1;
	return lf - 1;
}

/*
 * Split "http://host/path", the form for proxies, which servers must also accept (RFC
 * 9112, 3.2.2). The host is taken from the target, whatever the Host field contains, and
 * moved to the front of @target; the path becomes the target.
 */
static int split_target(struct http_head *h, char *target)
{
	size_t scheme = strncasecmp(target, "http://", 7) == 0    ? 7
			: strncasecmp(target, "https://", 8) == 0 ? 8
								  : 0;
	char *path = target + scheme + strcspn(target + scheme, "/?");
	size_t n = (size_t)(path - target) - scheme;

	if (scheme == 0)
		return http_head_refuse(h, 400, "the request target is not a path");
	(void)memmove(target, target + scheme, n);
	target[n] = '\0';
	if (!is_host(target))
		return http_head_refuse(h, 400,
					"the host of the request target is malformed");
	if (*path != '/')
		*--path = '/'; /* there is space where the scheme was */
	h->target = path;
	h->authority = target;
	h->https = scheme == 8;
	return 0;
}

/* Check the target of CONNECT, which is a host. */
static int take_authority(struct http_head *h)
{
	if (!is_host(h->target))
		return http_head_refuse(h, 400, "the target of CONNECT is not a host");
	h->authority = h->target;
	return 0;
}

static void replace_host(struct http_head *h, const char *host)
{
	for (size_t i = 0; i < h->n_fields; i++) {
		struct http_field *f = &h->fields[i];

		if (f->name_len != 4 || strncasecmp(f->name, "host", 4) != 0)
			continue;
		f->value = host;
		f->value_len = strlen(host);
	}
}

static int http_head_parse(char *data, size_t n, bool proxy, struct http_head *h)
{
	char *end, *next = NULL, *p;
	int r = 0;

	http_head_start(h);
	if (n >= 2 && data[0] == '\r' && data[1] == '\n') {
		data += 2;
		n -= 2;
	}
	end = first_line(data, n, &next);
	p = (char *)(uintptr_t)http_head_span(data, C_TOKEN);
	if (!end || p == data || *p != ' ')
		return http_head_refuse(h, 400, "the request line is malformed");
	*p++ = '\0';
	h->method = data;
	h->target = p;
	p = (char *)(uintptr_t)http_head_span(p, C_TARGET);
	if (p == h->target || *p != ' ')
		return http_head_refuse(h, 400, "the request target is malformed");
	*p++ = '\0';
	r = take_version(h, p, (size_t)(end - p));
	if (r != 0)
		return r;
	if (proxy && strcmp(h->method, "CONNECT") == 0)
		r = take_authority(h);
	else if (h->target[0] != '/' &&
		 (strcmp(h->target, "*") != 0 || strcmp(h->method, "OPTIONS") != 0))
		r = split_target(h, (char *)(uintptr_t)h->target);
	if (r == 0)
		r = take_fields(h, next, data + n - 2);
	if (r != 0)
		return r;
	if (h->authority && !proxy)
		replace_host(h, h->authority);
	if (h->minor == 1 && !h->has_host)
		return http_head_refuse(h, 400, "Host is missing");
	return 0;
}

int http_head_request(char *data, size_t n, struct http_head *h)
{
	return http_head_parse(data, n, false, h);
}

int http_head_proxy_request(char *data, size_t n, struct http_head *h)
{
	return http_head_parse(data, n, true, h);
}

int http_head_response(char *data, size_t n, struct http_head *h)
{
	char *next = NULL, *end = first_line(data, n, &next);
	int r;

	http_head_start(h);
	if (!end || end - data < 12 || data[8] != ' ' ||
	    http_head_span(data + 9, C_DIGIT) != data + 12 ||
	    (data[12] != ' ' && data + 12 != end))
		return http_head_refuse(h, 502, "the status line is malformed");
	r = take_version(h, data, 8);
	if (r != 0)
		return r;
	if (http_head_span(data + 12, C_VALUE) != end)
		return http_head_refuse(h, 502,
					"the status line contains a control character");
	h->status = (unsigned)((data[9] - '0') * 100 + (data[10] - '0') * 10 + data[11] -
			       '0');
	if (h->status < 100 || h->status > 599)
		return http_head_refuse(h, 502, "the status is not valid");
	return take_fields(h, next, data + n - 2);
}
