/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec.h - decodes the bytes of a file, with Python's names of encodings and error
 * handlers
 *
 * Encodings: utf-8, utf-8-sig, ascii, latin-1, cp1252, utf-16 and utf-32 with or without
 * a byte order, under all their names. Errors: strict, ignore, replace, backslashreplace.
 * All line ends become a line feed, as in a file that Python has opened as text.
 */
#ifndef API_SWEREX_CODEC_H
#define API_SWEREX_CODEC_H

#include "base/buf.h"
#include "base/error.h"

struct codec_encoding;
struct taken;
typedef struct taken codec_take_fn(const unsigned char *p, size_t n);

/* The progress of decoding borrowed bytes. A copy continues independently. */
struct codec {
	const unsigned char *data;
	size_t size, at;
	const struct codec_encoding *encoding;
	codec_take_fn *take;
	int errors;
	bool after_cr;
};

/* @encoding and @errors may be NULL: utf-8, strict. -ENOSYS: as for codec_decode(). */
int codec_open(struct codec *c, const char *encoding, const char *errors,
	       const char *data, size_t n, struct warren_error *err);
/*
 * Decode at least @n more bytes, up to the end of a character, and append the text to
 * @out. 1: there is more; 0: the end; or -errno.
 */
int codec_next(struct codec *c, size_t n, struct buf *out, struct warren_error *err);
/* Check whether codec_next() will reach the end: 0, or -EILSEQ. */
int codec_check(struct codec c, struct warren_error *err);

/*
 * Decode everything at once and append UTF-8 to @out. NULL: utf-8, strict. -EILSEQ: the
 * bytes cannot be decoded, and @err has the message of Python; -ENOSYS: unknown encoding
 * or error handler.
 */
int codec_decode(const char *encoding, const char *errors, const char *data, size_t n,
		 struct buf *out, struct warren_error *err);

#endif /* API_SWEREX_CODEC_H */
