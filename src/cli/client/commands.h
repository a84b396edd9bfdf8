/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands.h - the commands that use `warren serve`, and their common functions
 *
 * Each command has a file and a `struct command`; main.c has the table.
 */
#ifndef CLI_CLIENT_COMMANDS_H
#define CLI_CLIENT_COMMANDS_H

#include "cli/client/client.h"
#include "cli/client_commands.h"
#include "cli/command.h"

#define OUTPUT_MAX (256U << 20)
#define ID_LEN     12

extern const struct command client_image;
extern const struct command client_run;
#define CLIENT_DECLARED(word, says) extern const struct command client_##word;
CLIENT_COMMANDS(CLIENT_DECLARED)
CLIENT_FORWARDED(CLIENT_DECLARED)
#undef CLIENT_DECLARED

/*
 * Parse the operands "SANDBOX [--] CMD [ARG...]" with command_operands(). If this returns
 * false, the command returns *@ret_status.
 */
bool command_in_sandbox(const struct command *cmd, int argc, char **argv, void *target,
			const char **ret_sandbox, char ***ret_words,
			int *ret_status) MUST_CHECK;

/* Copy @err, with names of API fields replaced by the options of @cmd. */
struct warren_error client_words(const struct command *cmd,
				 const struct warren_error *err);
/* Print client_words() of @err. */
void client_say(const struct command *cmd, const struct warren_error *err);
/* Print client_words() of @err; return the exit status. */
int client_fail(const struct command *cmd, const struct warren_error *err);

/* Run the given verb of a command with verbs ("token create"); return the exit status. */
int verbs_run(const struct command *of, int argc, char **argv);

/* ----------------------------------------------------------------- finding */

/* Find a sandbox by id, name, or an unambiguous prefix of its id. */
int resolve_id_find_sandbox(struct client *c, const char *word, char ret_id[ID_LEN + 1],
			    struct warren_error *err) MUST_CHECK;
/* Find an exec by id or prefix of its id; NULL: the one that was started last. */
int resolve_id_find_exec(struct client *c, const char *sandbox, const char *word,
			 char ret_id[ID_LEN + 1], struct warren_error *err) MUST_CHECK;
/* Find a session by id or prefix of its id; @word must not be NULL. */
int find_session(struct client *c, const char *sandbox, const char *word,
		 char ret_id[ID_LEN + 1], struct warren_error *err) MUST_CHECK;
int find_token(struct client *c, const char *word, char ret_id[ID_LEN + 1],
	       struct warren_error *err) MUST_CHECK;
/*
 * Functions for command.complete: complete sandboxes, as the first operand or as every
 * operand.
 */
void complete_sandbox(int at, struct buf *out);
void complete_sandboxes(int at, struct buf *out);

/* ---------------------------------------------------------------- printing */

/* Print @value as one line on stdout; return the exit status. */
int print_json(const struct command *cmd, const json_t *value);
/*
 * Print the entries of the array `enforced` that are not enforced, in the words of
 * `warren run`.
 */
void print_enforced(const char *command, const json_t *list, bool verbose);
/* Print the id of a deleted object as a line of JSON. */
int print_gone(const struct command *cmd, const char *id);
/* Get the string at @key, or "". */
const char *print_text_of(const json_t *object, const char *key);
/* Has the sandbox failed, or is it lost? Its "error" says why. */
bool print_is_over(const json_t *sandbox);

/* Append labels as sorted "KEY=VALUE", for a table cell. */
void put_labels(struct buf *out, const json_t *labels);
/* Append argv in readable form, quoted where needed. */
void put_argv(struct buf *out, const json_t *argv);
/* Append an RFC 3339 time as "3 minutes ago"; "-" if it is not a time. */
void put_ago(struct buf *out, const char *time);

/* cmd_snapshot.c: check that @word can be a name or an id; otherwise report it. */
int snapshot_check_operand(const struct command *cmd, const char *word);

#endif /* CLI_CLIENT_COMMANDS_H */
