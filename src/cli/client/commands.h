/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands.h - the commands that use `warren serve`, and what they share
 *
 * As in warren(1): a file and a `struct command` each, a table in main.c.
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
#undef CLIENT_DECLARED

/* command_operands() of "SANDBOX [--] CMD [ARG...]"; false: return *@ret_status. */
bool command_in_sandbox(const struct command *cmd, int argc, char **argv, void *target,
			const char **ret_sandbox, char ***ret_words,
			int *ret_status) MUST_CHECK;

/* @err, which may be the service's, in words of the command's own options. */
struct warren_error client_words(const struct command *cmd,
				 const struct warren_error *err);
/* Says it so. */
void client_say(const struct command *cmd, const struct warren_error *err);
/* The same; the status. */
int client_fail(const struct command *cmd, const struct warren_error *err);

/* Of a command with verbs ("token create"): runs the one that is meant; the status. */
int verbs_run(const struct command *of, int argc, char **argv);

/* ----------------------------------------------------------------- finding */

/* By its id, its name, or the beginning of its id, as long as there is only one. */
int resolve_id_find_sandbox(struct client *c, const char *word, char ret_id[ID_LEN + 1],
			    struct warren_error *err) MUST_CHECK;
/* By its id or the beginning of it; NULL: the one that was started last. */
int resolve_id_find_exec(struct client *c, const char *sandbox, const char *word,
			 char ret_id[ID_LEN + 1], struct warren_error *err) MUST_CHECK;
/* The same of sessions, of which one is always named. */
int find_session(struct client *c, const char *sandbox, const char *word,
		 char ret_id[ID_LEN + 1], struct warren_error *err) MUST_CHECK;
int find_token(struct client *c, const char *word, char ret_id[ID_LEN + 1],
	       struct warren_error *err) MUST_CHECK;
/* For struct command: sandboxes, as the first operand or as all of them. */
void complete_sandbox(int at, struct buf *out);
void complete_sandboxes(int at, struct buf *out);

/* ---------------------------------------------------------------- printing */

/* @value as one line on stdout: returns the status. */
int print_json(const struct command *cmd, const json_t *value);
/* Of something that is no more: its id, as such a line. */
int print_gone(const struct command *cmd, const char *id);
/* Text of @key, or "". */
const char *print_text_of(const json_t *object, const char *key);

/* "KEY=VALUE" of labels, sorted; for a cell. */
void put_labels(struct buf *out, const json_t *labels);
/* argv for people: quoted where needed. */
void put_argv(struct buf *out, const json_t *argv);
/* "3 minutes ago" of an RFC 3339 time; "-" for what is none. */
void put_ago(struct buf *out, const char *time);

#endif /* CLI_CLIENT_COMMANDS_H */
