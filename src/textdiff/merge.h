/* SPDX-License-Identifier: Apache-2.0 */
/* merge.h - combine the changes that were made to two copies of a text */
#ifndef TEXTDIFF_MERGE_H
#define TEXTDIFF_MERGE_H

#include "base/buf.h"
#include "textdiff/text.h"

/* Names for the markers of conflicts, as in "<<<<<<< ours"; NULL: none. */
struct merge_labels {
	const char *ours, *base, *theirs;
	bool show_base; /* also write the lines of @base ("|||||||"), as diff3 does */
};

/*
 * Apply the changes from @base to @theirs to @ours. Where both changed the same lines, or
 * lines next to each other, both versions are written, with markers as `git merge-file`
 * writes them. *@ret_conflicts is how often: 0 means a clean merge. -EFBIG: one of the
 * texts is too long, or @out is full.
 */
int text_merge3(struct text base, struct text ours, struct text theirs,
		const struct merge_labels *labels, struct buf *out, size_t *ret_conflicts,
		struct warren_error *err) MUST_CHECK;

#endif /* TEXTDIFF_MERGE_H */
