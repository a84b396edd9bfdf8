/* SPDX-License-Identifier: Apache-2.0 */
/* cli.h - the commands of warren(1) */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "cli/command.h"

extern const struct command command_attach;
extern const struct command command_backends;
extern const struct command command_completion;
extern const struct command command_cp;
extern const struct command command_create;
extern const struct command command_doctor;
extern const struct command command_events;
extern const struct command command_exec;
extern const struct command command_gc;
extern const struct command command_help;
extern const struct command command_image;
extern const struct command command_kill;
extern const struct command command_logs;
extern const struct command command_ls;
extern const struct command command_pause;
extern const struct command command_port;
extern const struct command command_rename;
extern const struct command command_restart;
extern const struct command command_resume;
extern const struct command command_rm;
extern const struct command command_run;
extern const struct command command_serve;
extern const struct command command_session;
extern const struct command command_shell;
extern const struct command command_show;
extern const struct command command_start;
extern const struct command command_stop;
extern const struct command command_token;
extern const struct command command_top;
extern const struct command command_version;
extern const struct command command_wait;

/* The program itself, in main.c: it has no name, and all of them as its verbs. */
extern const struct command command_warren;

#endif /* CLI_CLI_H */
