/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_helper.h - the helper programs
 *
 * `warren` loads nothing, so that a run starts at once. What needs libraries is
 * in programs of their own, which people do not call by name.
 */
#ifndef CLI_EXEC_HELPER_H
#define CLI_EXEC_HELPER_H

#include "base/error.h"
#include "cli/command.h"

/* The program that has @cmd: where WARREN_HOST is set, the one for that. */
const char *helper_program(const struct command *cmd);
/* Becomes the program of @cmd, with @argv; returns only if that failed: the status. */
int helper_run(const struct command *cmd, char **argv);

#endif /* CLI_EXEC_HELPER_H */
