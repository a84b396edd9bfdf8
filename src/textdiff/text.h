/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h - bytes, and the lines that they consist of
 *
 * All functions of this folder are pure: they compute with bytes in memory. The contents
 * may be hostile: time is O(n log n) or has a cap, and memory is O(n).
 */
#ifndef TEXTDIFF_TEXT_H
#define TEXTDIFF_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Contents with more bytes or lines are treated as binary. */
#define TEXT_MAX       ((size_t)64 << 20)
#define TEXT_LINES_MAX ((size_t)4 << 20)

struct text {
	const char *data; /* borrowed; may be NULL if @len is 0 */
	size_t len;
};

#define TEXT(bytes, n) ((struct text){ .data = (bytes), .len = (n) })

/* Return whether git would treat @t as binary, or it is larger than the limits above. */
bool text_is_binary(struct text t);
bool text_equal(struct text a, struct text b);

/* Lines with their "\n"; the last one may have none. */
struct text_lines {
	struct text text;
	uint32_t *start; /* n + 1 offsets; the last one is the end of the text */
	size_t n;
};

/* -EFBIG: it is larger than the limits above. */
int text_lines_make(struct text t, struct text_lines *ret,
		    struct warren_error *err) MUST_CHECK;
void text_lines_done(struct text_lines *l);

static inline struct text text_line(const struct text_lines *l, size_t i)
{
	return (struct text){ .data = l->text.data + l->start[i],
			      .len = l->start[i + 1] - l->start[i] };
}

#define AUTO_LINES CLEANUP(text_lines_done)

#endif /* TEXTDIFF_TEXT_H */
