/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_head.h - the head of a request or a response, parsed strictly
 *
 * Requests and responses have the same grammar, RFC 9112 without its leniencies: lines
 * end in CR LF only, a field name is a token directly followed by its colon, values have
 * no control characters, and lines are not folded. The parser also decides how the body
 * is framed. It refuses a message with two different framings, because the next program
 * might choose the other one.
 */
#ifndef NET_HTTP_HEAD_H
#define NET_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_FIELDS_MAX 100

struct http_field {
	const char *name, *value; /* both NUL-terminated, in place */
	size_t name_len, value_len;
};

struct http_head {
	const char *method, *target; /* method and target of a request */
	/* The host of an absolute target, or the target of CONNECT; NULL: neither. */
	const char *authority;
	bool https;      /* the scheme of an absolute target */
	unsigned status; /* status of a response */
	unsigned minor;  /* minor number of the version 1.x */
	size_t n_fields;
	struct http_field fields[HTTP_FIELDS_MAX];

	bool has_host, has_length, chunked;
	uint64_t length;
	bool close, keep_alive, upgrade; /* options of the header Connection */
	bool expect_continue;

	const char *why; /* reason for a refusal */
};

/*
 * Find the end of the head at the start of @data. Returns the length of the head with the
 * empty line; 0: more bytes are needed; -1: it is not a head. Start with *@scanned = 0
 * and pass it again with more data, so that no byte is scanned twice.
 */
long http_head_find(const char *data, size_t n, size_t *scanned);

/*
 * Parse the @n bytes that http_head_find() found. The strings in @h point into @data,
 * which is modified: line ends become NULs. Returns 0, or the status of a refusal with
 * its reason in @h->why. An empty line in front of a request is skipped.
 */
int http_head_request(char *data, size_t n, struct http_head *h);
/*
 * Like http_head_request(), for a request to a proxy: CONNECT has a host and a port as
 * its target, and an absolute target does not replace the header Host.
 */
int http_head_proxy_request(char *data, size_t n, struct http_head *h);
int http_head_response(char *data, size_t n, struct http_head *h);

/* Return whether @token is in a list such as that of Connection. Ignores case. */
bool http_list_has(const char *list, const char *token);
bool http_is_token(const char *s);
/* Return whether @s may be sent as the value of a field. */
bool http_is_value(const char *s);

#endif /* NET_HTTP_HEAD_H */
