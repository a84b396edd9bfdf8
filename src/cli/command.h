/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.h - tables of commands, for all programs of Warren
 *
 * A command is one file with one `struct command`; the table in the program's main.c
 * lists them. Help, suggestions for misspelt words and the tests of the manual pages all
 * use these tables, so that they agree.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "cli/opts.h"

/* Exit statuses that are not the command's own; shells and timeout(1) use the same. */
enum status {
	STATUS_TIMEOUT = 124,
	STATUS_FAILED = 125, /* Warren failed, not the command */
	STATUS_CANNOT_EXEC = 126,
	STATUS_NOT_FOUND = 127,
	STATUS_SIGNAL = 128, /* plus the signal number */
};

struct command {
	const char *name;    /* the words after "warren" */
	const char *summary; /* a line in the list of commands */
	const char *about;   /* further lines of --help, or NULL */
	const struct opts *opts;
	int (*run)(int argc,
		   char **argv); /* argv[0] is the command; returns the exit status */
	/*
	 * The other program that runs the command and has its help; then run() is NULL.
	 */
	const char *program;
	const char *remote; /* the program that runs the command if WARREN_HOST is set */
	/* The command that this is an alias of; then all other fields are unset. */
	const char *alias_of;
	/* Subcommands ("token create"); ends with NULL. */
	const struct command *const *verbs;
	/*
	 * Print candidates for operand number @at, for shell completion: lines of
	 * "word<TAB>description".
	 */
	void (*complete)(int at, struct buf *out);
};

/*
 * Call opts_parse() for @cmd, and print help or the error. If this returns false, the
 * command returns *@ret_status.
 */
bool command_options(const struct command *cmd, int argc, char **argv, void *target,
		     int *ret_first, int *ret_status) MUST_CHECK;
/*
 * Like command_options(), but also check that there are @min to @max operands (@max 0:
 * any number). The list of operands ends with NULL.
 */
bool command_operands(const struct command *cmd, int argc, char **argv, void *target,
		      int min, int max, char ***ret_operands, int *ret_status) MUST_CHECK;

/* The last word of the name: "create" for "token create". */
const char *command_word(const struct command *cmd);
/*
 * Find a command by name. If there is none, return NULL and set *@ret_near (@ret_near may
 * be NULL) to a similar name, if any.
 */
const struct command *command_among(const struct command *const *table, const char *word,
				    const char **ret_near);
/* Find the verb @word of @of; if there is none, print an error and return NULL. */
const struct command *command_verb(const struct command *of, const char *word);
/*
 * Parse the options and the verb of @of: *@ret is the verb, *@ret_first its index in
 * @argv. If this returns false, the command returns *@ret_status.
 */
bool command_verbs(const struct command *of, int argc, char **argv, void *target,
		   const struct command **ret, int *ret_first,
		   int *ret_status) MUST_CHECK;

/*
 * Print completions for the last word of @argv, which is being typed: commands of @table,
 * options or values, each as a line of "word<TAB>description". The hidden command
 * COMPLETE_WORD in front of the words calls it.
 */
#define COMPLETE_WORD "__complete"
int complete_words(const struct command *const *table, int argc, char **argv);
/*
 * Print the whole help of a command, with its verbs if it has any; return the exit
 * status.
 */
int help_command(const struct command *cmd);

/* Print "warren COMMAND: ..." as one line on stderr; @command may be NULL. */
void message_say(const char *command, const char *fmt, ...) PRINTF_LIKE(2, 3);
/*
 * Replace what would control a terminal, break the line or look like other text by '?',
 * in place; return the new length.
 */
size_t message_clean(char *line, size_t len);
/* Print all of @b on stdout; return 0, or print the error and return STATUS_FAILED. */
int message_print(const char *command, const struct buf *b);

/*
 * Open placeholders for those of the descriptors 0, 1 and 2 that are closed. Otherwise
 * the next file to be opened would get such a number, and would be used as stdout, for
 * example. A placeholder is opened in the wrong direction, so that using it fails like a
 * closed descriptor.
 */
int hold_standard_fds(void);

/*
 * The main function of a program that `warren` runs with the words of a command: argv[0]
 * is its name.
 */
int command_helper_main(const struct command *const *commands, int argc, char **argv);

#endif /* CLI_COMMAND_H */
