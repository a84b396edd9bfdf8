/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work_commands.h - list of the commands that work on a project
 *
 * warren(1) lists them and runs warren-work, which has a `struct command work_<name>` for
 * each. X(name, summary), in the order of the help.
 */
#ifndef CLI_WORK_COMMANDS_LIST_H
#define CLI_WORK_COMMANDS_LIST_H

/* clang-format off */
#define WORK_COMMANDS(X) \
	X(work, "Run a command on a project in a sandbox.") \
	X(diff, "Show what was changed in a work or a sandbox.") \
	X(accept, "Apply changes of a work to the project.") \
	X(reject, "Discard changes of a work.") \
	X(detect, "Show how a project is prepared for work.") \
	X(setup, "Prepare a project for work, and manage the results.")
/* clang-format on */

#endif /* CLI_WORK_COMMANDS_LIST_H */
