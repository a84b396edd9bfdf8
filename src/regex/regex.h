/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regex.h - search for text, extended regular expressions and shell patterns in linear
 * time
 *
 * The client may be hostile, and so may the searched text: the time is bounded by the
 * product of both lengths, and a pattern that would need much memory is refused. Hence no
 * back-references. Bytes are bytes: `.` is one of them.
 *
 * Regular expressions are those of POSIX (extended), and \w \W \s \S \d \D \b \B.
 */
#ifndef REGEX_REGEX_H
#define REGEX_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct pattern;

int pattern_new_text(const char *text, bool ignore_case, struct pattern **ret,
		     struct warren_error *err);
int pattern_new_regex(const char *text, bool ignore_case, struct pattern **ret,
		      struct warren_error *err);
/* As a shell has it: `*` and `?` stop at a slash, `**` does not. Of all of a name. */
int pattern_new_glob(const char *text, bool ignore_case, struct pattern **ret,
		     struct warren_error *err);
struct pattern *pattern_free(struct pattern *p);

/* Is it in @line, and where does the first of it begin, and end at the earliest? */
bool pattern_find(struct pattern *p, const char *line, size_t n, size_t *ret_from,
		  size_t *ret_to);
/* What a byte of a line costs, at most: that of text is 1. */
size_t pattern_cost(const struct pattern *p);

#endif /* REGEX_REGEX_H */
