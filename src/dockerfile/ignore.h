/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ignore.h - .dockerignore, and patterns for the names of files, with docker's meaning
 *
 * A pattern matches a path from the root of the context: '*' and '?' do not match a '/',
 * "**" matches any number of directories, and "[a-z]" one character. A file is ignored if
 * the last line that matches it, or a directory that it is in, does not begin with '!'.
 */
#ifndef DOCKERFILE_IGNORE_H
#define DOCKERFILE_IGNORE_H

#include "base/error.h"

enum ignore_limits {
	IGNORE_SIZE_MAX = 256 << 10,
	IGNORE_PATTERNS_MAX = 4000,
	/* Steps to compare one pattern with one path; after that, it does not match. */
	IGNORE_STEPS_MAX = 100000,
};

struct ignore_pattern {
	char *glob;
	bool except; /* it begins with '!' */
};

struct ignore {
	struct ignore_pattern *v;
	size_t n;
	bool has_exceptions;
};

int ignore_parse(const char *text, size_t size, struct ignore *ret,
		 struct warren_error *err) MUST_CHECK;
void ignore_done(struct ignore *ignore);

/* Return whether @path ("dir/file", without a slash at the start) is ignored. */
bool ignore_match(const struct ignore *ignore, const char *path);

/* Match the whole @path with a pattern. */
bool ignore_glob(const char *glob, const char *path);
/*
 * Return whether @glob contains any of the characters that have a meaning in a
 * pattern.
 */
bool ignore_is_glob(const char *glob);

#endif /* DOCKERFILE_IGNORE_H */
