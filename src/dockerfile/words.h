/* SPDX-License-Identifier: Apache-2.0 */
/*
 * words.h - split the text of an instruction into words, and expand variables in words
 *
 * The rules are those of BuildKit's Dockerfile frontend. Splitting keeps quotes and
 * escapes; expanding removes them.
 */
#ifndef DOCKERFILE_WORDS_H
#define DOCKERFILE_WORDS_H

#include "base/buf.h"
#include "base/error.h"

enum words_limits {
	WORDS_MAX = 2000,            /* words of one instruction */
	WORDS_EXPANDED_MAX = 256000, /* bytes of one expanded word */
	WORDS_NESTED_MAX = 20,       /* "${a:-${b:-...}}" */
};

/* Where names are looked up. get() returns NULL if the variable is not set. */
struct words_vars {
	const char *(*get)(void *ctx, const char *name, size_t n);
	void *ctx;
	char escape; /* '\\' or '`' */
};

/*
 * Split at whitespace. With @quotes, whitespace in quotes and after an escape does not
 * count. The caller frees the list.
 */
int words_split(const char *text, bool quotes, char escape, char ***ret,
		struct warren_error *err) MUST_CHECK;

/*
 * Parse a JSON array of strings. 1: the caller frees *@ret; 0: @text is not a JSON array,
 * so it has another form.
 */
int words_array(const char *text, char ***ret, struct warren_error *err) MUST_CHECK;

/*
 * Replace variables ($x, ${x}, ${x:-y}, ${x-y}, ${x:+y}, ${x+y}, ${x:?y}, ${x?y}), and
 * remove quotes and escapes. The caller frees *@ret.
 */
int words_expand(const struct words_vars *vars, const char *word, char **ret,
		 struct warren_error *err) MUST_CHECK;
/* Like words_expand(), for the text of a heredoc: quotes have no meaning. */
int words_expand_text(const struct words_vars *vars, const char *text, char **ret,
		      struct warren_error *err) MUST_CHECK;

/* Return whether @c is a space, tab or other whitespace. */
bool words_blank(char c);

#endif /* DOCKERFILE_WORDS_H */
