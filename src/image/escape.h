/* SPDX-License-Identifier: Apache-2.0 */
/* escape.h - escape text for one line of a record or for one file name */
#ifndef IMAGE_ESCAPE_H
#define IMAGE_ESCAPE_H

#include "base/buf.h"

/* Append @text with control characters and '%' as %XX. */
void encode_line(struct buf *out, const char *text);
/* The same, with '/' and a leading '.' escaped too, for use as a file name. */
void encode_name(struct buf *out, const char *text);
/* Undo either, in place; -EBADMSG for a bad escape. */
int decode_line(char *text);

#endif /* IMAGE_ESCAPE_H */
