/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_body.c - parse chunks strictly
 *
 * Sizes have at most 15 hexadecimal digits, lines end in CR LF, and the framing between
 * two pieces of data (extensions, trailers) must be short: because the server ignores it,
 * it must not be expensive.
 */
#include "net/http_body.h"

#include <errno.h>

#include "base/hex.h"
#include "net/http_head.h"

/* For extensions of a chunk, and for all trailers together. */
#define LINE_MAX_BYTES 4096U
#define SIZE_DIGITS    15

enum {
	SIZE,      /* the first digit of a size */
	SIZE_MORE, /* further digits, CR, or an extension */
	EXTENSION, /* until CR */
	SIZE_LF,   /* the LF after a size */
	DATA,      /* @left bytes */
	DATA_CR,   /* the CR after the data */
	DATA_LF,
	TRAILER,      /* at the start of a line after the last chunk */
	TRAILER_NAME, /* in the name of a trailer, up to its colon */
	TRAILER_LINE, /* behind that */
	TRAILER_LF,   /* the LF after a trailer */
	LAST_LF,      /* the LF of the empty line */
};

void http_body_init(struct http_body *b, enum http_body_kind kind, uint64_t length)
{
	*b = (struct http_body){ .kind = (uint8_t)kind,
				 .state = SIZE,
				 .left = kind == HTTP_BODY_LENGTH ? length : 0 };
	b->done = kind == HTTP_BODY_NONE || (kind == HTTP_BODY_LENGTH && length == 0);
}

static int size_byte(struct http_body *b, char c)
{
	int digit = hex_value(c);

	if (digit >= 0 && b->line <= SIZE_DIGITS) {
		b->left = b->left * 16 + (uint64_t)digit;
		return SIZE_MORE;
	}
	if (b->state == SIZE || digit >= 0)
		return -EBADMSG;
	if (c == '\r')
		return SIZE_LF;
	return c == ';' ? EXTENSION : -EBADMSG;
}

/* Handle a byte of a line that is skipped: its CR, its text, or an invalid byte. */
static int skipped_byte(char c, int inside, int at_cr)
{
	if (c == '\r')
		return at_cr;
	return (unsigned char)c < ' ' && c != '\t' ? -EBADMSG : inside;
}

/* Handle one byte of framing. Return the next state, or -EBADMSG. */
static int framing_byte(struct http_body *b, char c)
{
	if (++b->line > LINE_MAX_BYTES)
		return -EBADMSG;
	switch (b->state) {
	case SIZE:
	case SIZE_MORE:
		return size_byte(b, c);
	case EXTENSION:
		return skipped_byte(c, EXTENSION, SIZE_LF);
	case SIZE_LF:
		return c != '\n' ? -EBADMSG : b->left > 0 ? DATA : TRAILER;
	case DATA_CR:
		return c == '\r' ? DATA_LF : -EBADMSG;
	case DATA_LF:
		b->line = 0;
		return c == '\n' ? SIZE : -EBADMSG;
	case TRAILER:
		/* A trailer is a field: a name and a colon precede the value. */
		if (c == '\r')
			return LAST_LF;
		return http_is_token((char[]){ c, '\0' }) ? TRAILER_NAME : -EBADMSG;
	case TRAILER_NAME:
		if (c == ':')
			return TRAILER_LINE;
		return http_is_token((char[]){ c, '\0' }) ? TRAILER_NAME : -EBADMSG;
	case TRAILER_LINE:
		return skipped_byte(c, TRAILER_LINE, TRAILER_LF);
	case TRAILER_LF:
		return c == '\n' ? TRAILER : -EBADMSG;
	case LAST_LF:
		b->done = c == '\n';
		return b->done ? LAST_LF : -EBADMSG;
	default:
		return -EBADMSG;
	}
}

static long take_chunks(struct http_body *b, const char *data, size_t n,
			const char **ret_piece, size_t *ret_len)
{
	size_t used = 0;

	while (used < n && !b->done && b->state != DATA) {
		int next = framing_byte(b, data[used++]);

		if (next < 0)
			return next;
		b->state = (uint8_t)next;
	}
	if (b->state == DATA && used < n) {
		size_t len = n - used < b->left ? n - used : (size_t)b->left;

		*ret_piece = data + used;
		*ret_len = len;
		b->left -= len;
		used += len;
		if (b->left == 0)
			b->state = DATA_CR;
	}
	return (long)used;
}

long http_body_take(struct http_body *b, const char *data, size_t n,
		    const char **ret_piece, size_t *ret_len)
{
	*ret_len = 0;
	if (b->done)
		return 0;
	if (b->kind == HTTP_BODY_CHUNKED)
		return take_chunks(b, data, n, ret_piece, ret_len);
	if (b->kind == HTTP_BODY_LENGTH) {
		n = n < b->left ? n : (size_t)b->left;
		b->left -= n;
		b->done = b->left == 0;
	}
	*ret_piece = data;
	*ret_len = n;
	return (long)n;
}
