/* SPDX-License-Identifier: Apache-2.0 */
/* pyrepr.h - values formatted like Python's repr(), for messages that clients know */
#ifndef API_SWEREX_PYREPR_H
#define API_SWEREX_PYREPR_H

#include "base/buf.h"

/* repr() of a text. */
void python_repr(struct buf *out, const char *text, size_t n);
/* The quote that it has around it, and a part of what is between the quotes. */
char python_quote(const char *text, size_t n);
void python_repr_inside(struct buf *out, const char *text, size_t n, char quote);
/* repr() of a float: "0.1", "5.0". */
void python_float(struct buf *out, double value);
/* "\\xff"; not by printf(3): a stranger may send nothing else, and much of it. */
void python_put_byte(struct buf *out, unsigned char c);
/* bytes.decode(errors="backslashreplace"). */
void python_decode(struct buf *out, const char *data, size_t n);
/* The range of str.strip(), as far as it is ASCII. */
void python_strip(const char **text, size_t *n);

#endif /* API_SWEREX_PYREPR_H */
