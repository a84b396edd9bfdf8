/* SPDX-License-Identifier: Apache-2.0 */
/* vars.h - the variables that an instruction of a stage can use */
#ifndef DOCKERFILE_VARS_H
#define DOCKERFILE_VARS_H

#include "dockerfile/state.h"
#include "dockerfile/words.h"

/* Lists in which a variable is looked up, in this order. */
struct vars_scope {
	char *const *lists[3];
};

/* Variables of the commands of a stage, unless its image sets them. */
extern char *const vars_defaults[];

struct words_vars vars_in(const struct dockerfile *d, struct vars_scope *scope);
/* Expand a word with the variables of a stage. */
int vars_expand(const struct dockerfile *d, const struct dockerfile_state *s,
		const char *word, char **ret, struct warren_error *err) MUST_CHECK;
/* Like vars_expand(), for the data of a heredoc. */
int vars_expand_text(const struct dockerfile *d, const struct dockerfile_state *s,
		     const char *text, char **ret, struct warren_error *err) MUST_CHECK;

/* Append the words of the stage's shell. */
int vars_add_shell(const struct dockerfile_state *s, char ***list) MUST_CHECK;

#endif /* DOCKERFILE_VARS_H */
