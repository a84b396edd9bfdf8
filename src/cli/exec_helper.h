/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_helper.h - run helper programs
 *
 * `warren` loads no shared libraries, so that a run starts at once. Features that need
 * libraries live in helper programs, which users do not call by name.
 */
#ifndef CLI_EXEC_HELPER_H
#define CLI_EXEC_HELPER_H

#include "base/error.h"
#include "cli/command.h"

/* Get the program that runs @cmd; it may differ if WARREN_HOST is set. */
const char *helper_program(const struct command *cmd);
/*
 * Replace this process by the program of @cmd, with @argv. If that fails, return the exit
 * status.
 */
int helper_run(const struct command *cmd, char **argv);

#endif /* CLI_EXEC_HELPER_H */
