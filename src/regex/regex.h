/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regex.h - search for text, extended regular expressions and shell patterns in linear
 * time
 *
 * The client and the searched text may be hostile. The time is therefore bounded by the
 * product of both lengths, and a pattern that needs too much memory is refused. This
 * rules out back-references. Patterns match bytes: `.` matches any single byte.
 *
 * Regular expressions are POSIX extended ones, with \w \W \s \S \d \D \b \B in addition.
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
/*
 * Create a shell pattern, which must match a whole name: `*` and `?` do not match a
 * slash, `**` does.
 */
int pattern_new_glob(const char *text, bool ignore_case, struct pattern **ret,
		     struct warren_error *err);
struct pattern *pattern_free(struct pattern *p);

/* Find the first match in @line; return its start and its earliest end. */
bool pattern_find(struct pattern *p, const char *line, size_t n, size_t *ret_from,
		  size_t *ret_to);
/* The maximum cost of searching one byte of a line; plain text costs 1. */
size_t pattern_cost(const struct pattern *p);

#endif /* REGEX_REGEX_H */
