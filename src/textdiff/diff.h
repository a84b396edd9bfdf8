/* SPDX-License-Identifier: Apache-2.0 */
/* diff.h - which lines of a text were replaced to make another text */
#ifndef TEXTDIFF_DIFF_H
#define TEXTDIFF_DIFF_H

#include "textdiff/text.h"

/* Lines of the old text that are replaced by lines of the new one; indices from 0. */
struct text_edit {
	uint32_t old_at, old_n;
	uint32_t new_at, new_n;
};

/* Edits in order; at least one equal line is between two of them. */
struct text_diff {
	struct text_lines old, new; /* the bytes are borrowed from the caller */
	struct text_edit *v;
	size_t n;
	uint64_t work; /* what comparing has cost, in steps of a few nanoseconds */
};

/*
 * Compare by lines. The result is the shortest one if that can be found in reasonable
 * time, and always correct. -EFBIG: one of the texts is larger than text.h permits.
 */
int text_diff_make(struct text old, struct text new, struct text_diff *ret,
		   struct warren_error *err) MUST_CHECK;
void text_diff_done(struct text_diff *d);
/* Count the lines that were added and removed. */
void text_diff_count(const struct text_diff *d, size_t *ret_added, size_t *ret_removed);

#define AUTO_DIFF CLEANUP(text_diff_done)

#endif /* TEXTDIFF_DIFF_H */
