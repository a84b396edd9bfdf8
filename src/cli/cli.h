/* SPDX-License-Identifier: Apache-2.0 */
/* cli.h - the commands of warren(1) */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "cli/client_commands.h"
#include "cli/command.h"
#include "cli/work_commands.h"

extern const struct command command_completion;
extern const struct command command_doctor;
extern const struct command command_gc;
extern const struct command command_help;
extern const struct command command_image;
extern const struct command command_run;
extern const struct command command_serve;
extern const struct command command_version;

#define CLIENT_DECLARED(word, says) extern const struct command command_##word;
CLIENT_COMMANDS(CLIENT_DECLARED)
WORK_COMMANDS(CLIENT_DECLARED)

/* The program itself, in main.c: it has no name, and all commands are its verbs. */
extern const struct command command_warren;

#endif /* CLI_CLI_H */
