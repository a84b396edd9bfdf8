/* SPDX-License-Identifier: Apache-2.0 */
/* diff_internal.h - the steps of a comparison: classes, shortest edit, placement */
#ifndef TEXTDIFF_DIFF_INTERNAL_H
#define TEXTDIFF_DIFF_INTERNAL_H

#include "textdiff/diff.h"

/*
 * Equal lines of both texts get the same number. Lines [first, first + n) of each text
 * are numbered; those outside are equal in both texts.
 */
struct line_classes {
	uint32_t *old, *new; /* the class of each numbered line */
	uint32_t n;          /* number of classes */
};

struct line_range {
	uint32_t first, n;
};

int line_classes_make(const struct text_lines *old, struct line_range old_range,
		      const struct text_lines *new, struct line_range new_range,
		      struct line_classes *ret, struct warren_error *err) MUST_CHECK;
void line_classes_done(struct line_classes *c);

/*
 * Find which elements of two sequences are not in their longest common subsequence: these
 * bytes become 1. If that would take too long, the subsequence is common, but shorter.
 * The number of steps is added to *@work.
 */
int myers_compare(const uint32_t *old, uint32_t old_n, const uint32_t *new,
		  uint32_t new_n, uint8_t *old_changed, uint8_t *new_changed,
		  uint64_t *work, struct warren_error *err) MUST_CHECK;

/*
 * Lines that were only added or only removed can often be described at several places
 * with the same result. Move them to where a person expects them.
 */
void diff_slide(struct text_diff *d);

#endif /* TEXTDIFF_DIFF_INTERNAL_H */
