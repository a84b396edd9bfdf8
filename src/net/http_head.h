/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_head.h - the head of a request or a response, parsed strictly
 *
 * One grammar for both sides, RFC 9112 without its leniencies: lines end in CR LF
 * and nothing else, a field name is a token directly followed by its colon, values
 * hold no control characters, no line is folded. What frames the body is decided
 * here, once: a message that says it in two ways is refused, because the next
 * program may believe the other.
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
	const char *method, *target; /* of a request */
	unsigned status;             /* of a response */
	unsigned minor;              /* of version 1.x */
	size_t n_fields;
	struct http_field fields[HTTP_FIELDS_MAX];

	bool has_host, has_length, chunked;
	uint64_t length;
	bool close, keep_alive, upgrade; /* what Connection lists */
	bool expect_continue;

	const char *why; /* when it is refused */
};

/*
 * Where the head at the start of @data ends: its length with the empty line, 0
 * when more bytes are needed, -1 when it is no head. *@scanned remembers what was
 * looked at; it starts at 0 and is for the next call with more of the same.
 */
long http_head_find(const char *data, size_t n, size_t *scanned);

/*
 * Take apart the @n bytes that http_head_find() found; they are written to (line
 * ends become NULs), and what is returned points into them. 0, or the status to
 * refuse it with, and @h->why. An empty line in front of a request is skipped.
 */
int http_head_request(char *data, size_t n, struct http_head *h);
int http_head_response(char *data, size_t n, struct http_head *h);

/* Is @token in a list like that of Connection, whatever its case? */
bool http_list_has(const char *list, const char *token);
bool http_is_token(const char *s);
/* May be sent as the value of a field. */
bool http_is_value(const char *s);

#endif /* NET_HTTP_HEAD_H */
