/* SPDX-License-Identifier: Apache-2.0 */
/* cli.h - the commands of warren(1) */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "cli/command.h"

extern const struct command command_doctor;
extern const struct command command_help;
extern const struct command command_image;
extern const struct command command_run;
extern const struct command command_version;

/* The tables in main.c; the commands end with NULL. */
extern const struct command *const commands[];
extern const struct opts main_opts;
/* NULL when there is none of that name; then the reason was said. */
const struct command *command_find(const char *name);

/* The list of commands on stdout: returns the status. */
int help_all(void);

#endif /* CLI_CLI_H */
