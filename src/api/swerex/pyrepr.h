/* SPDX-License-Identifier: Apache-2.0 */
/* pyrepr.h - formats values like Python's repr(), for messages that clients parse */
#ifndef API_SWEREX_PYREPR_H
#define API_SWEREX_PYREPR_H

#include "base/buf.h"

/* repr() of a text. */
void python_repr(struct buf *out, const char *text, size_t n);
/*
 * python_quote() returns the quote that repr() uses for a text; the next function writes
 * a part of the text between the quotes.
 */
char python_quote(const char *text, size_t n);
void python_repr_inside(struct buf *out, const char *text, size_t n, char quote);
/* repr() of a float: "0.1", "5.0". */
void python_float(struct buf *out, double value);
/*
 * Write "\\xff". This does not use printf(3), because a client may send many such bytes.
 */
void python_put_byte(struct buf *out, unsigned char c);
/* bytes.decode(errors="backslashreplace"). */
void python_decode(struct buf *out, const char *data, size_t n);
/* Like str.strip(), for ASCII. */
void python_strip(const char **text, size_t *n);

#endif /* API_SWEREX_PYREPR_H */
