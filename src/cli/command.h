/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.h - commands as rows of a table, for all programs of Warren
 *
 * A command is one file with one `struct command`; the table in the program's
 * main.c lists them. Help, completion of typing errors and the tests of the
 * manual pages are made from these tables, so that nothing can drift.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

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
	const char *name;    /* the words after "warren" */
	const char *summary; /* a line in the list of commands */
	const char *about;   /* what else --help says; lines, or NULL */
	const struct opts *opts;
	int (*run)(int argc,
		   char **argv); /* argv[0] is the command; returns the status */
	const char *program;     /* another one has it, and its help; it has no run() */
	const char *remote;      /* the one that has it when WARREN_HOST is set */
	const char
		*alias_of; /* the words that this one stands for; it has nothing else */
	/* Of a command with commands of its own ("token create"); ends with NULL. */
	const struct command *const *verbs;
	/*
	 * What may stand as operand number @at, for a shell: lines of "word<TAB>about
	 * it".
	 */
	void (*complete)(int at, struct buf *out);
};

/*
 * opts_parse() for @cmd with its usual consequences. False: there is nothing
 * left to do but to return *@ret_status.
 */
bool command_options(const struct command *cmd, int argc, char **argv, void *target,
		     int *ret_first, int *ret_status) MUST_CHECK;
/*
 * The same, and the number of operands, which end with NULL; @max 0: as many as there
 * are.
 */
bool command_operands(const struct command *cmd, int argc, char **argv, void *target,
		      int min, int max, char ***ret_operands, int *ret_status) MUST_CHECK;

/* "create" of "token create". */
const char *command_word(const struct command *cmd);
/*
 * NULL: there is none of that name; *@ret_near (NULL: not wanted) may be what was meant.
 */
const struct command *command_among(const struct command *const *table, const char *word,
				    const char **ret_near);
/* The verb of @of that @word is; NULL: there is none, and that was said. */
const struct command *command_verb(const struct command *of, const char *word);
/*
 * What all that has verbs does before one is run: *@ret is the one that is meant, and
 * *@ret_first its index. NULL: return *@ret_status.
 */
bool command_verbs(const struct command *of, int argc, char **argv, void *target,
		   const struct command **ret, int *ret_first,
		   int *ret_status) MUST_CHECK;

/*
 * What the words @argv, of which the last one is being typed, may go on with:
 * commands of @table, options, values; on stdout, a line of "word<TAB>about it" each.
 * A program says it with the hidden command COMPLETE_WORD in front of the words.
 */
#define COMPLETE_WORD "__complete"
int complete_words(const struct command *const *table, int argc, char **argv);
/*
 * The whole help of one command on stdout, with its verbs if it has any: returns the
 * status.
 */
int help_command(const struct command *cmd);

/* "warren COMMAND: ..." as one line on stderr; @command may be NULL. */
void message_say(const char *command, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* All of @b on stdout; 0, or STATUS_FAILED after saying why. */
int message_print(const char *command, const struct buf *b);

/*
 * A descriptor among 0, 1 and 2 that the caller closed would be given to the
 * next file we open, and be written to as if it were stdout. The placeholder is
 * open the wrong way round, so that using it fails as the closed one did.
 */
int hold_standard_fds(void);

#endif /* CLI_COMMAND_H */
