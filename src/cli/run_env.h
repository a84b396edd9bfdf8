/* SPDX-License-Identifier: Apache-2.0 */
/* run_env.h - the environment of a command: only what the options set */
#ifndef CLI_RUN_ENV_H
#define CLI_RUN_ENV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct env_list {
	char **v; /* "NAME=value", NULL-terminated once anything was added; owned */
	size_t n;
	size_t cap;
};

/*
 * If a variable is added twice, the last value counts.
 *
 * Add "NAME=value", or "NAME" to copy the caller's value; if the caller has none, nothing
 * is added.
 */
int env_list_add(struct env_list *env, const char *text,
		 struct warren_error *err) MUST_CHECK;
/*
 * Add the variables of a file, one per line, with docker's rules: blank lines, lines that
 * begin with '#' and spaces before a name are skipped; a value is used unchanged,
 * including quotes. Errors name the file and the line.
 */
int env_list_add_file(struct env_list *env, const char *path,
		      struct warren_error *err) MUST_CHECK;
int env_list_add_all(struct env_list *env, const struct env_list *from,
		     struct warren_error *err) MUST_CHECK;
void env_list_done(struct env_list *env);

#endif /* CLI_RUN_ENV_H */
