/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec.h - the bytes of a file as text, by the names that Python has for encodings and errors
 *
 * Encodings: utf-8, utf-8-sig, ascii, latin-1, cp1252, utf-16 and utf-32 with or without an order,
 * by all their names. Errors: strict, ignore, replace, backslashreplace. Lines end as in a file
 * that Python has opened as text: by a line feed, whatever they ended by.
 */
#ifndef API_SWEREX_CODEC_H
#define API_SWEREX_CODEC_H

#include "base/buf.h"
#include "base/error.h"

/*
 * Adds UTF-8 to @out. NULL names are utf-8 and strict. -EILSEQ: @err says what cannot be
 * decoded, as Python says it; -ENOSYS: there is no such encoding, or way with errors.
 */
int codec_decode(const char *encoding, const char *errors, const char *data, size_t n,
		 struct buf *out, struct warren_error *err);

#endif /* API_SWEREX_CODEC_H */
