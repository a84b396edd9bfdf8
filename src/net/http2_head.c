/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http2_head.c - turn a list of header fields into the head of a request
 *
 * The fields are written as a head of HTTP/1 and parsed as such. So both versions have
 * the same rules and limits: what is a valid host or length, which fields may be
 * repeated, and how large a head may be. Each part is checked before it is written, so
 * that it cannot end a line.
 */
#include <string.h>

#include "net/http2_internal.h"

static const char *const pseudo_names[] = {
	[HTTP2_METHOD] = ":method",
	[HTTP2_PATH] = ":path",
	[HTTP2_AUTHORITY] = ":authority",
	[HTTP2_SCHEME] = ":scheme",
};
_Static_assert(ARRAY_SIZE(pseudo_names) == HTTP2_PSEUDO_MAX, "a field has no name");

/* Fields about a connection of HTTP/1, which HTTP/2 does not have (RFC 9113, 8.2.2). */
static const char *const forbidden[] = {
	"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade",
};

static void http2_head_refuse(struct http2_head *b, int status, const char *why)
{
	if (b->status != 0)
		return;
	b->status = status;
	b->why = why;
}

void http2_head_start(struct http2_head *b, size_t max)
{
	*b = (struct http2_head){ .fields = BUF_INIT(max),
				  .cookie = BUF_INIT(max),
				  .host = BUF_INIT(max),
				  .max = max };
	for (size_t i = 0; i < HTTP2_PSEUDO_MAX; i++)
		b->pseudo[i] = (struct buf)BUF_INIT(max);
}

void http2_head_done(struct http2_head *b)
{
	for (size_t i = 0; i < HTTP2_PSEUDO_MAX; i++)
		buf_done(&b->pseudo[i]);
	buf_done(&b->fields);
	buf_done(&b->cookie);
	buf_done(&b->host);
}

static void http2_head_add_pseudo(struct http2_head *b, const char *name,
				  const char *value)
{
	for (size_t i = 0; i < HTTP2_PSEUDO_MAX; i++) {
		if (strcmp(pseudo_names[i], name) != 0)
			continue;
		if (!*value || b->pseudo[i].len > 0)
			break;
		buf_puts(&b->pseudo[i], value);
		return;
	}
	http2_head_refuse(b, 400, "a pseudo-header field is unknown, empty or repeated");
}

static bool http2_head_is_lower(const char *name)
{
	for (; *name; name++)
		if (*name >= 'A' && *name <= 'Z')
			return false;
	return true;
}

static bool http2_head_is_forbidden(const char *name, const char *value)
{
	for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++)
		if (strcmp(forbidden[i], name) == 0)
			return true;
	return strcmp(name, "te") == 0 && strcmp(value, "trailers") != 0;
}

static void http2_head_add_field(struct http2_head *b, const char *name,
				 const char *value)
{
	if (!http_is_token(name) || !http2_head_is_lower(name)) {
		http2_head_refuse(b, 400, "a field name is malformed");
	} else if (http2_head_is_forbidden(name, value)) {
		http2_head_refuse(b, 400, "a field is not allowed in HTTP/2");
	} else if (strcmp(name, "cookie") == 0) {
		/* A client may send each cookie as a separate field. */
		if (b->cookie.len > 0)
			buf_puts(&b->cookie, "; ");
		buf_puts(&b->cookie, value);
	} else if (strcmp(name, "host") == 0) {
		if (b->host.len > 0)
			http2_head_refuse(
				b, 400,
				"a field that must not be repeated is given twice");
		buf_puts(&b->host, value);
	} else {
		buf_puts(&b->fields, name);
		buf_puts(&b->fields, ": ");
		buf_puts(&b->fields, value);
		buf_puts(&b->fields, "\r\n");
	}
}

void http2_head_add(struct http2_head *b, const char *name, size_t name_len,
		    const char *value, size_t value_len)
{
	b->size += name_len + value_len + 4; /* with ": " and the line end */
	if (b->size > b->max)
		http2_head_refuse(b, 431, "the head of the request is too large");
	if (strlen(name) != name_len || strlen(value) != value_len ||
	    !http_is_value(value))
		http2_head_refuse(b, 400, "a field value contains a control character");
	if (b->status != 0)
		return;
	if (name[0] == ':')
		http2_head_add_pseudo(b, name, value);
	else
		http2_head_add_field(b, name, value);
}

/* Check the rules that a head of HTTP/1 does not have. */
static void http2_head_check(struct http2_head *b)
{
	const struct buf *path = &b->pseudo[HTTP2_PATH],
			 *authority = &b->pseudo[HTTP2_AUTHORITY],
			 *method = &b->pseudo[HTTP2_METHOD];

	if (method->len == 0 || path->len == 0 || b->pseudo[HTTP2_SCHEME].len == 0)
		http2_head_refuse(b, 400, "a pseudo-header field is missing");
	else if (!http_is_token(method->data))
		http2_head_refuse(b, 400, "the method is malformed");
	else if (path->data[0] != '/' &&
		 (strcmp(path->data, "*") != 0 || strcmp(method->data, "OPTIONS") != 0))
		http2_head_refuse(b, 400, "the request target is not a path");
	else if (strchr(path->data, ' ') || strchr(path->data, '\t'))
		http2_head_refuse(b, 400, "the request target is malformed");
	else if (authority->len > 0 && b->host.len > 0 &&
		 strcmp(authority->data, b->host.data) != 0)
		http2_head_refuse(b, 400, "Host and :authority differ");
}

static bool http2_head_is_incomplete(const struct http2_head *b)
{
	bool failed = b->fields.failed || b->cookie.failed || b->host.failed;

	for (size_t i = 0; i < HTTP2_PSEUDO_MAX; i++)
		failed |= b->pseudo[i].failed;
	return failed;
}

static void http2_head_put(struct http2_head *b, struct buf *text)
{
	const struct buf *authority = &b->pseudo[HTTP2_AUTHORITY],
			 *host = authority->len > 0 ? authority : &b->host;

	buf_puts(text, b->pseudo[HTTP2_METHOD].data);
	buf_puts(text, " ");
	buf_puts(text, b->pseudo[HTTP2_PATH].data);
	buf_puts(text, " HTTP/1.1\r\n");
	if (host->len > 0) {
		buf_puts(text, "host: ");
		buf_puts(text, host->data);
		buf_puts(text, "\r\n");
	}
	buf_add(text, b->fields.data, b->fields.len);
	if (b->cookie.len > 0) {
		buf_puts(text, "cookie: ");
		buf_puts(text, b->cookie.data);
		buf_puts(text, "\r\n");
	}
	buf_puts(text, "\r\n");
}

int http2_head_finish(struct http2_head *b, bool ended, struct buf *text,
		      struct http_head *h)
{
	int status;

	if (http2_head_is_incomplete(b))
		http2_head_refuse(b, 503, "the server is out of memory");
	if (b->status == 0)
		http2_head_check(b);
	if (b->status == 0)
		http2_head_put(b, text);
	if (text->failed)
		http2_head_refuse(b, 431, "the head of the request is too large");
	h->why = b->why;
	if (b->status != 0)
		return b->status;
	status = http_head_request(text->data, text->len, h);
	if (status != 0)
		return status;
	h->chunked = !ended && !h->has_length;
	if (ended && h->length > 0) {
		h->why = "the body is shorter than Content-Length";
		return 400;
	}
	return 0;
}
