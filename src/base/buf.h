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
	bool failed; /* incomplete: too large, or out of memory */
	bool full;   /* the failure was that the size exceeded max */
};

/*
 * A buffer in the caller's array, which never grows: for code that must not allocate.
 * Needs no buf_done().
 */
#define BUF_IN(room)                                                          \
	{                                                                     \
		.data = (room), .cap = sizeof(room), .max = sizeof(room) - 1, \
	}
#define BUF_INIT(maximum)        \
	{                        \
		.max = (maximum) \
	}

/* Additions after a failure do nothing, so that callers check `failed` only once. */
void buf_add(struct buf *b, const void *data, size_t n);
void buf_puts(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/*
 * Reserve space for @n more bytes; return a pointer to it, or NULL on failure. The caller
 * writes the bytes and increases len.
 */
char *buf_reserve(struct buf *b, size_t n);
void buf_done(struct buf *b);

#define AUTO_BUF CLEANUP(buf_done)

#endif /* BASE_BUF_H */
