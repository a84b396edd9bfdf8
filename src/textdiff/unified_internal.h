/* SPDX-License-Identifier: Apache-2.0 */
/* unified_internal.h - parts of a file's entry in a patch */
#ifndef TEXTDIFF_UNIFIED_INTERNAL_H
#define TEXTDIFF_UNIFIED_INTERNAL_H

#include "textdiff/unified.h"

/* Write a line of a header in the colour for it. */
void unified_meta(struct buf *out, const struct unified_options *o, const char *fmt, ...)
	PRINTF_LIKE(3, 4);
/* The mode that git records: of a link, an executable file or another file. */
unsigned unified_mode(mode_t mode);
/* Write all lines of the header before "---". @equal: both sides have the same contents.
 */
void unified_header(struct buf *out, const struct unified_side *old,
		    const struct unified_side *new, bool equal,
		    const struct unified_options *o);
/* Write the lines "---" and "+++". */
void unified_names(struct buf *out, const struct unified_side *old,
		   const struct unified_side *new, const struct unified_options *o);
/* Write "GIT binary patch" with both contents. */
int unified_binary(struct buf *out, struct text old, struct text new,
		   struct warren_error *err) MUST_CHECK;

#endif /* TEXTDIFF_UNIFIED_INTERNAL_H */
