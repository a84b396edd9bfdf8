/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expect.h - the output of a terminal, and which of several expected patterns comes first
 *
 * An expectation is a regular expression (regex.h), as those who wait at terminals have
 * written them since Expect; and it is text, so that "(gdb) " is found where it stands.
 * What is no regular expression is text alone.
 */
#ifndef SERVICE_SESSION_EXPECT_H
#define SERVICE_SESSION_EXPECT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define EXPECT_MAX    64   /* of them at a time */
#define EXPECT_WINDOW 4096 /* bytes: what is found is no longer */
#define EXPECT_COST   320  /* pattern_cost() of their regular expressions together */

struct expect;

/* NULL: no memory, or too many or too large. */
struct expect *expect_new(const char *const *texts, size_t n);
struct expect *expect_free(struct expect *e);
/* Is it but texts, which are found in no time? */
bool expect_is_text(const struct expect *e);
/*
 * The first in the @n bytes at @data of which @seen were looked at before: which it is,
 * where it begins and ends; or -1.
 */
int expect_find(struct expect *e, const char *data, size_t n, size_t seen,
		size_t *ret_from, size_t *ret_to);

/*
 * Text as a person reads it: without the sequences that move and colour, lines ended by a
 * line feed alone. Added to @out.
 */
void expect_plain(struct buf *out, const char *data, size_t n);

#endif /* SERVICE_SESSION_EXPECT_H */
