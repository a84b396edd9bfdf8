/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expect.h - finds the first of several expected patterns in the output of a terminal
 *
 * A pattern is tried both as a regular expression (regex.h), as in Expect, and as literal
 * text, so that "(gdb) " is found as it is written. A pattern that is not a valid regular
 * expression is only literal text.
 */
#ifndef SERVICE_SESSION_EXPECT_H
#define SERVICE_SESSION_EXPECT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define EXPECT_MAX    64   /* maximum number of patterns */
#define EXPECT_WINDOW 4096 /* maximum length of a match, in bytes */
#define EXPECT_COST   320 /* maximum pattern_cost() of all regular expressions together */

struct expect;

/* NULL: out of memory, or the patterns are too many or too complex. */
struct expect *expect_new(const char *const *texts, size_t n);
struct expect *expect_free(struct expect *e);
/* Return whether all patterns are only literal text, which is fast to search. */
bool expect_is_text(const struct expect *e);
/*
 * Find the first match in the @n bytes at @data, of which @seen were searched before.
 * Returns the index of the pattern with the start and end of the match, or -1.
 */
int expect_find(struct expect *e, const char *data, size_t n, size_t seen,
		size_t *ret_from, size_t *ret_to);

/*
 * Append readable text to @out: without control sequences for cursor and colour, and with
 * lines that end in a line feed.
 */
void expect_plain(struct buf *out, const char *data, size_t n);

#endif /* SERVICE_SESSION_EXPECT_H */
