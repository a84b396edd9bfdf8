/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_body.h - where a body begins and ends: by length, in chunks, or with the
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
	uint8_t state; /* of the chunks, private */
	bool done;
	uint16_t line; /* bytes of framing since the last data */
	uint64_t left; /* of the length, or of this chunk */
};

void http_body_init(struct http_body *b, enum http_body_kind kind, uint64_t length);

/*
 * Take from the @n bytes at @data: up to one piece of the body, which is then
 * *@ret_piece and *@ret_len (0: there was framing only). Returns how many bytes
 * were used, or -EBADMSG. Nothing is used once the body is done.
 */
long http_body_take(struct http_body *b, const char *data, size_t n,
		    const char **ret_piece, size_t *ret_len);

#endif /* NET_HTTP_BODY_H */
