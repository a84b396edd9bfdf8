/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec.h - the bytes of a file as text, with Python's names of encodings and error
 * handlers
 *
 * Encodings: utf-8, utf-8-sig, ascii, latin-1, cp1252, utf-16 and utf-32 with or without
 * an order, by all their names. Errors: strict, ignore, replace, backslashreplace. Lines
 * end as in a file that Python has opened as text: by a line feed, whatever they ended
 * by.
 */
#ifndef API_SWEREX_CODEC_H
#define API_SWEREX_CODEC_H

#include "base/buf.h"
#include "base/error.h"

struct codec_encoding;
struct taken;
typedef struct taken codec_take_fn(const unsigned char *p, size_t n);

/* How far the bytes, which are borrowed, have been decoded. A copy goes on by itself. */
struct codec {
	const unsigned char *data;
	size_t size, at;
	const struct codec_encoding *encoding;
	codec_take_fn *take;
	int errors;
	bool after_cr;
};

/* NULL names are utf-8 and strict. -ENOSYS as below. */
int codec_open(struct codec *c, const char *encoding, const char *errors,
	       const char *data, size_t n, struct warren_error *err);
/*
 * Add what @n bytes more become, or a few more: to the end of a character. 1: there is
 * more, 0, or -errno.
 */
int codec_next(struct codec *c, size_t n, struct buf *out, struct warren_error *err);
/* Whether codec_next() will come to the end: 0, or -EILSEQ. */
int codec_check(struct codec c, struct warren_error *err);

/*
 * All at once. Adds UTF-8 to @out. NULL names are utf-8 and strict. -EILSEQ: @err says
 * what cannot be decoded, as Python says it; -ENOSYS: there is no such encoding, or way
 * with errors.
 */
int codec_decode(const char *encoding, const char *errors, const char *data, size_t n,
		 struct buf *out, struct warren_error *err);

#endif /* API_SWEREX_CODEC_H */
