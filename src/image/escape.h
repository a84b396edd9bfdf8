/* SPDX-License-Identifier: Apache-2.0 */
/* escape.h - escape text for one line of a record or for one file name */
#ifndef IMAGE_ESCAPE_H
#define IMAGE_ESCAPE_H

#include "base/buf.h"

/* Append @text with control characters and '%' as %XX. */
void encode_line(struct buf *out, const char *text);
/* Like encode_line(), but also escape '/' and a leading '.', for a file name. */
void encode_name(struct buf *out, const char *text);
/* Decode the output of either function, in place; -EBADMSG: an escape is not valid. */
int decode_line(char *text);

#endif /* IMAGE_ESCAPE_H */
