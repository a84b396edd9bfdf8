/* SPDX-License-Identifier: Apache-2.0 */
/*
 * helper.h - the programs beside this one
 *
 * `warren` loads nothing, so that a run starts at once. What needs libraries is
 * in programs of their own, which people do not call by name.
 */
#ifndef CLI_HELPER_H
#define CLI_HELPER_H

#include <limits.h>

#include "base/error.h"
#include "cli/command.h"

/*
 * Where @name is: in $WARREN_LIBEXEC if that is set, else beside this program,
 * else where it was installed.
 */
int helper_find(const char *name, char ret_path[PATH_MAX],
		struct warren_error *err) MUST_CHECK;

/* Becomes the program of @cmd, with @argv; returns only if that failed: the status. */
int helper_run(const struct command *cmd, char **argv);

#endif /* CLI_HELPER_H */
