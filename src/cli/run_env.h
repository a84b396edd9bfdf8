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
 * Of a variable that is added twice the last value counts.
 *
 * "NAME=value", or "NAME" to take over the caller's value; not set there: nothing.
 */
int env_list_add(struct env_list *env, const char *text,
		 struct warren_error *err) MUST_CHECK;
/*
 * A file of such lines. As docker reads them: blank lines and lines that begin
 * with '#' are skipped, blanks before a name too; a value is taken as it is,
 * quotes included. Errors name the file and the line.
 */
int env_list_add_file(struct env_list *env, const char *path,
		      struct warren_error *err) MUST_CHECK;
int env_list_add_all(struct env_list *env, const struct env_list *from,
		     struct warren_error *err) MUST_CHECK;
void env_list_done(struct env_list *env);

#endif /* CLI_RUN_ENV_H */
