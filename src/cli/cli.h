/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli.h - what the commands of warren(1) share
 *
 * A command is one file with one `struct command`; the table in main.c lists
 * them. Help, completion of typing errors and the tests of the manual pages
 * are made from these tables, so that nothing can drift.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "cli/opts.h"

/* Exit statuses beside the command's own. Shells and timeout(1) use the same. */
enum status {
	STATUS_TIMEOUT = 124,
	STATUS_FAILED = 125, /* Warren, not the command */
	STATUS_CANNOT_EXEC = 126,
	STATUS_NOT_FOUND = 127,
	STATUS_SIGNAL = 128, /* and the signal's number */
};

struct command {
	const char *name;
	const char *summary; /* a line in the list of commands */
	const char *about;   /* what else --help says; lines, or NULL */
	const struct opts *opts;
	int (*run)(int argc,
		   char **argv); /* argv[0] is the command; returns the status */
};

extern const struct command command_doctor;
extern const struct command command_help;
extern const struct command command_run;
extern const struct command command_version;

/* The tables in main.c; the commands end with NULL. */
extern const struct command *const commands[];
extern const struct opts main_opts;
/* NULL when there is none of that name; then the reason was said. */
const struct command *command_find(const char *name);

/*
 * opts_parse() for @cmd with its usual consequences. False: there is nothing
 * left to do but to return *@ret_status.
 */
bool command_options(const struct command *cmd, int argc, char **argv, void *target,
		     int *ret_first, int *ret_status) MUST_CHECK;

/* "warren COMMAND: ..." as one line on stderr; @command may be NULL. */
void say(const char *command, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* All of @b on stdout; 0, or STATUS_FAILED after saying why. */
int print(const char *command, const struct buf *b);

/* The whole help of one command on stdout, or of all: returns the status. */
int help_command(const struct command *cmd);
int help_all(void);

#endif /* CLI_CLI_H */
