/* SPDX-License-Identifier: Apache-2.0 */
/* buf.h - a growing byte buffer with a maximum size */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/macro.h"

struct buf {
	char *data; /* NUL-terminated once anything was added */
	size_t len;
	size_t cap;
	size_t max;
	bool failed; /* an addition did not fit or memory ran out: contents are incomplete
		      */
	bool full;   /* it was the former */
};

/*
 * In the caller's array, which is all there is: for what must not need memory. No
 * buf_done().
 */
#define BUF_IN(room)                                                          \
	{                                                                     \
		.data = (room), .cap = sizeof(room), .max = sizeof(room) - 1, \
	}
#define BUF_INIT(maximum)        \
	{                        \
		.max = (maximum) \
	}

/* Additions after a failure do nothing, so that only the end needs a check. */
void buf_add(struct buf *b, const void *data, size_t n);
void buf_puts(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Room for @n more bytes: returns where they go, NULL on failure. Add to len after. */
char *buf_reserve(struct buf *b, size_t n);
void buf_done(struct buf *b);

#define AUTO_BUF CLEANUP(buf_done)

#endif /* BASE_BUF_H */
