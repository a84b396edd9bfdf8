/* SPDX-License-Identifier: Apache-2.0 */
/* escape.h - text as one line of a record, or as one name of a directory */
#ifndef IMAGE_ESCAPE_H
#define IMAGE_ESCAPE_H

#include "base/buf.h"

/* Control characters and '%' as %XX. */
void encode_line(struct buf *out, const char *text);
/* And '/', and a '.' at the start: what a file can be called. */
void encode_name(struct buf *out, const char *text);
/* Undo either, in place; -EBADMSG for a bad escape. */
int decode_line(char *text);

#endif /* IMAGE_ESCAPE_H */
