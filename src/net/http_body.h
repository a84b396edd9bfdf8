/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_body.h - finds the end of a body: by length, in chunks, or at the end of the
 * connection
 */
#ifndef NET_HTTP_BODY_H
#define NET_HTTP_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum http_body_kind {
	HTTP_BODY_NONE,
	HTTP_BODY_LENGTH,
	HTTP_BODY_CHUNKED,
	HTTP_BODY_UNTIL_CLOSE, /* responses only */
};

struct http_body {
	uint8_t kind;  /* enum http_body_kind */
	uint8_t state; /* private state of the chunk parser */
	bool done;
	uint16_t line; /* bytes of framing since the last data */
	uint64_t left; /* bytes left of the body, or of this chunk */
};

void http_body_init(struct http_body *b, enum http_body_kind kind, uint64_t length);

/*
 * Parse the @n bytes at @data up to one piece of the body. The piece is *@ret_piece with
 * *@ret_len bytes (0: only framing). Returns how many bytes were used (0 once the body is
 * done), or -EBADMSG.
 */
long http_body_take(struct http_body *b, const char *data, size_t n,
		    const char **ret_piece, size_t *ret_len);

#endif /* NET_HTTP_BODY_H */
