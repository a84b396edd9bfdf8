/* SPDX-License-Identifier: Apache-2.0 */
/* base85.h - the lines of bytes in git's binary patches */
#ifndef TEXTDIFF_BASE85_H
#define TEXTDIFF_BASE85_H

#include <stddef.h>
#include <stdint.h>

#define BASE85_BYTES_MAX 52
#define BASE85_LINE_MAX  (1 + BASE85_BYTES_MAX / 4 * 5)

/* Encode 1 to BASE85_BYTES_MAX bytes; return the length of the line, without "\n". */
size_t base85_encode_line(const uint8_t *p, size_t n, char line[BASE85_LINE_MAX]);
/* Decode a line of @len characters, without "\n"; return the number of bytes, or -EINVAL.
 */
int base85_decode_line(const char *line, size_t len, uint8_t ret[BASE85_BYTES_MAX]);

#endif /* TEXTDIFF_BASE85_H */
