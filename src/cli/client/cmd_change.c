/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_change.c - warren pause, resume and rm: change several sandboxes */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/client/commands.h"
#include "cli/client/spec.h"
#include "cli/common_options.h"

struct change_options {
	json_t *labels;
	const char *owner;
	bool all;
	bool force;
	bool checkpoint;
	bool memory;
	bool quiet;
	bool json;
	uint64_t time_ms; /* grace period of stop; TIME_DEFAULT: the service's */
};

#define TIME_DEFAULT UINT64_MAX
#define FIELD(name)  offsetof(struct change_options, name)

/* clang-format off */
#define COMMON \
	{ NULL, OPT_LABEL("all sandboxes with this label (repeatable)", FIELD(labels)) }, \
	{ NULL, "all", 'a', NULL, NULL, "every sandbox that 'warren ls' shows", opt_flag, FIELD(all) }, \
	{ NULL, "owner", 0, "TENANT", "research", "with --all or --label: only sandboxes of this tenant", \
	  opt_text, FIELD(owner) }, \
	{ NULL, OPT_QUIET("do not print the ids", FIELD(quiet)) }
/* clang-format on */

static const struct opt change_table[] = {
	COMMON,
	{ NULL, OPT_JSON("print the changed sandboxes, one JSON object on each line",
			 FIELD(json)) },
};

static const struct opt pause_table[] = {
	COMMON,
	{ .name = "checkpoint",
	  .help = "save the processes to a file, and free their memory",
	  .set = opt_flag,
	  .field = FIELD(checkpoint) },
	{ NULL, OPT_JSON("print the changed sandboxes, one JSON object on each line",
			 FIELD(json)) },
};

/* Parse a time, which may be 0. */
static int change_set_time(void *field, const char *value, struct warren_error *err)
{
	if (strcmp(value, "0") != 0)
		return opt_duration(field, value, err);
	*(uint64_t *)field = 0;
	return 0;
}

#define OPT_TIME                                                             \
	.name = "time", .letter = 't', .value = "DURATION", .example = "2s", \
	.help = "time between SIGTERM and SIGKILL (default: 10s)",           \
	.set = change_set_time, .field = FIELD(time_ms)

static const struct opt hibernate_table[] = {
	COMMON,
	{ OPT_TIME },
	{ .name = "memory",
	  .help = "save the processes too, which continue when the sandbox wakes",
	  .set = opt_flag,
	  .field = FIELD(memory) },
	{ NULL, OPT_JSON("print the changed sandboxes, one JSON object on each line",
			 FIELD(json)) },
};

static const struct opt stop_table[] = {
	COMMON,
	{ OPT_TIME },
	{ NULL, OPT_JSON("print the changed sandboxes, one JSON object on each line",
			 FIELD(json)) },
};

static const struct opt rm_table[] = {
	COMMON,
	{ .name = "force",
	  .letter = 'f',
	  .help = "ignore sandboxes that do not exist; do not ask about --all",
	  .set = opt_flag,
	  .field = FIELD(force) },
	{ NULL,
	  OPT_JSON("print what was removed, one JSON object on each line", FIELD(json)) },
};

struct change {
	const struct command *cmd;
	const struct change_options *o;
	struct client *client;
	struct buf out;
	json_t *ids;    /* ids that were selected by --all or --label */
	char owner[80]; /* owner of the first sandbox */
	bool others;    /* the sandboxes have different owners */
	int failed;
};

static int change_post(struct change *ch, const char *id, const char *word, json_t **ret,
		       struct warren_error *err)
{
	AUTO_JSON json_t *body =
		ch->o->checkpoint ? json_pack("{s:b}", "checkpoint", 1) : NULL;
	char path[96];

	if (ch->o->memory)
		body = json_pack("{s:b}", "memory", 1);
	else if ((strcmp(word, "stop") == 0 || strcmp(word, "hibernate") == 0) &&
		 ch->o->time_ms != TIME_DEFAULT)
		body = json_pack("{s:I}", "timeout_ms", (json_int_t)ch->o->time_ms);
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/%s", id, word);
	return client_call(ch->client, "POST", path, body, ret, err);
}

/* DELETE the sandbox itself, or POST to the command's path below it. */
static int change_id(struct change *ch, const char *id, json_t **ret,
		     struct warren_error *err)
{
	int r = 0;

	if (ch->cmd == &client_rm)
		return delete_sandbox(ch->client, id, err);
	if (ch->cmd != &client_restart)
		return change_post(ch, id, ch->cmd->name, ret, err);
	r = change_post(ch, id, "stop", NULL, err);
	return r < 0 ? r : change_post(ch, id, "start", ret, err);
}

static void cmd_change_one(struct change *ch, const char *word)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_JSON json_t *sandbox = NULL;
	char id[ID_LEN + 1] = "";
	int r = resolve_id_find_sandbox(ch->client, word, id, &err);

	if (r == 0)
		r = change_id(ch, id, &sandbox, &err);
	if (r == -ENOENT && ch->o->force)
		return;
	if (r < 0) {
		ch->failed = client_fail(ch->cmd, &err);
		return;
	}
	if (ch->o->json) {
		char *text;

		if (!sandbox)
			sandbox = json_pack("{s:s, s:s}", "id", id, "state", "gone");
		text = json_dumps(sandbox, JSON_COMPACT);
		buf_puts(&ch->out, text ? text : "");
		buf_puts(&ch->out, "\n");
		free(text);
	} else if (!ch->o->quiet) {
		buf_printf(&ch->out, "%s\n", id);
	}
}

static int change_note(void *arg, json_t *sandbox)
{
	struct change *ch = arg;
	const char *owner = json_string_value(json_object_get(sandbox, "owner"));

	if (owner && !ch->owner[0])
		(void)snprintf(ch->owner, sizeof(ch->owner), "%s", owner);
	ch->others |= owner && strcmp(owner, ch->owner) != 0;
	(void)json_array_append(ch->ids, json_object_get(sandbox, "id"));
	return 0;
}

/* Ask for confirmation, but only at a terminal. */
static bool change_confirm(const struct change *ch)
{
	size_t n = json_array_size(ch->ids);
	char answer[8] = "";

	if (ch->o->force || n == 0 || !isatty(STDIN_FILENO))
		return true;
	(void)fprintf(stderr, "Delete %zu %s%s? [y/N] ", n,
		      n == 1 ? "sandbox" : "sandboxes",
		      ch->others ? ", also of other tenants" : "");
	if (fgets(answer, sizeof(answer), stdin) &&
	    (answer[0] == 'y' || answer[0] == 'Y'))
		return true;
	message_say(client_rm.name, "nothing was deleted");
	return false;
}

/* Collect all sandboxes that have all the labels before the first one is changed. */
static void change_matching(struct change *ch)
{
	AUTO_BUF struct buf path = BUF_INIT(PATH_LIMIT);
	struct warren_error err = WARREN_ERROR_INIT;
	const json_t *labels = ch->o->labels;

	buf_puts(&path, "/v1/sandboxes");
	for (size_t i = 0; i < json_array_size(labels); i++)
		put_query(&path, "label", json_string_value(json_array_get(labels, i)));
	if (ch->o->owner)
		put_query(&path, "owner", ch->o->owner);
	if (client_list(ch->client, path.data, "sandboxes", change_note, ch, &err) < 0) {
		ch->failed = client_fail(ch->cmd, &err);
		return;
	}
	if (ch->cmd == &client_rm && ch->o->all && !change_confirm(ch)) {
		ch->failed = STATUS_FAILED;
		return;
	}
	for (size_t i = 0; i < json_array_size(ch->ids); i++)
		cmd_change_one(ch, json_string_value(json_array_get(ch->ids, i)));
}

static int client_cmd_change(const struct command *cmd, const struct change_options *o,
			     char **words)
{
	struct change ch = { .cmd = cmd, .o = o, .out = BUF_INIT(OUTPUT_MAX) };
	struct warren_error err = WARREN_ERROR_INIT;
	bool matching = o->all || o->labels;
	int status;

	if (o->owner && !matching) {
		message_say(
			cmd->name,
			"--owner: needs --all or --label (example: --all --owner research)");
		return STATUS_FAILED;
	}
	if (!*words == !matching) {
		message_say(cmd->name, "%s (example: %s)",
			    *words ? "give sandbox ids or --all/--label, not both"
				   : "SANDBOX... is missing",
			    cmd->opts->example);
		return STATUS_FAILED;
	}
	if (client_open(&ch.client, &err) < 0)
		return client_fail(cmd, &err);
	ch.ids = json_array();
	if (matching)
		change_matching(&ch);
	for (; *words; words++)
		cmd_change_one(&ch, *words);
	status = message_print(cmd->name, &ch.out);
	buf_done(&ch.out);
	json_decref(ch.ids);
	ch.client = client_close(ch.client);
	return status ? status : ch.failed;
}

static int change_run(const struct command *cmd, int argc, char **argv)
{
	struct change_options o = { .time_ms = TIME_DEFAULT };
	char **words = NULL;
	int status = 0;

	if (command_operands(cmd, argc, argv, &o, 0, 0, &words, &status))
		status = client_cmd_change(cmd, &o, words);
	json_decref(o.labels);
	return status;
}

static int run_pause(int argc, char **argv)
{
	return change_run(&client_pause, argc, argv);
}

static int run_resume(int argc, char **argv)
{
	return change_run(&client_resume, argc, argv);
}

static int run_stop(int argc, char **argv)
{
	return change_run(&client_stop, argc, argv);
}

static int run_start(int argc, char **argv)
{
	return change_run(&client_start, argc, argv);
}

static int run_hibernate(int argc, char **argv)
{
	return change_run(&client_hibernate, argc, argv);
}

static int run_reset(int argc, char **argv)
{
	return change_run(&client_reset, argc, argv);
}

static int run_restart(int argc, char **argv)
{
	return change_run(&client_restart, argc, argv);
}

static int change_run_rm(int argc, char **argv)
{
	return change_run(&client_rm, argc, argv);
}

const struct command client_pause = {
	.name = "pause",
	.summary = "Freeze all processes of a sandbox.",
	.opts = &(const struct opts){ .table = pause_table,
				      .n = ARRAY_SIZE(pause_table),
				      .operands = "SANDBOX...",
				      .example = "warren pause k3f9x2m7qd1w",
				      .mixed = true },
	.run = run_pause,
	.complete = complete_sandboxes,
};

const struct command client_resume = {
	.name = "resume",
	.summary = "Resume a paused sandbox.",
	.opts = &(const struct opts){ .table = change_table,
				      .n = ARRAY_SIZE(change_table),
				      .operands = "SANDBOX...",
				      .example = "warren resume k3f9x2m7qd1w",
				      .mixed = true },
	.run = run_resume,
	.complete = complete_sandboxes,
};

const struct command client_stop = {
	.name = "stop",
	.summary = "End all processes of a sandbox, and keep its files.",
	.about =
		"'warren start' runs its main command again. A sandbox that was run with --rm is\n"
		"deleted. A stopped sandbox survives a reboot of the machine only with --persist.\n",
	.opts = &(const struct opts){ .table = stop_table,
				      .n = ARRAY_SIZE(stop_table),
				      .operands = "SANDBOX...",
				      .example = "warren stop k3f9x2m7qd1w",
				      .mixed = true },
	.run = run_stop,
	.complete = complete_sandboxes,
};

const struct command client_start = {
	.name = "start",
	.summary = "Start a stopped sandbox and its main command again.",
	.opts = &(const struct opts){ .table = change_table,
				      .n = ARRAY_SIZE(change_table),
				      .operands = "SANDBOX...",
				      .example = "warren start k3f9x2m7qd1w",
				      .mixed = true },
	.run = run_start,
	.complete = complete_sandboxes,
};

const struct command client_reset = {
	.name = "reset",
	.summary = "Bring a sandbox back to its image.",
	.about =
		"Ends all processes, discards everything that was written, and starts the sandbox\n"
		"again from the same image or snapshot, with the same id. Volumes keep their files.\n",
	.opts = &(const struct opts){ .table = change_table,
				      .n = ARRAY_SIZE(change_table),
				      .operands = "SANDBOX...",
				      .example = "warren reset k3f9x2m7qd1w",
				      .mixed = true },
	.run = run_reset,
	.complete = complete_sandboxes,
};

const struct command client_hibernate = {
	.name = "hibernate",
	.summary = "Stop a sandbox, and keep only its files, on disk.",
	.about =
		"Nothing of it stays in memory, and its files survive a reboot. The next command in\n"
		"it wakes it, and so does 'warren start'.\n",
	.opts = &(const struct opts){ .table = hibernate_table,
				      .n = ARRAY_SIZE(hibernate_table),
				      .operands = "SANDBOX...",
				      .example = "warren hibernate k3f9x2m7qd1w",
				      .mixed = true },
	.run = run_hibernate,
	.complete = complete_sandboxes,
};

const struct command client_restart = {
	.name = "restart",
	.summary = "Stop a sandbox and start it again.",
	.opts = &(const struct opts){ .table = stop_table,
				      .n = ARRAY_SIZE(stop_table),
				      .operands = "SANDBOX...",
				      .example = "warren restart k3f9x2m7qd1w",
				      .mixed = true },
	.run = run_restart,
	.complete = complete_sandboxes,
};

const struct command client_rm = {
	.name = "rm",
	.summary = "Delete sandboxes with their processes and data.",
	.opts = &(const struct opts){ .table = rm_table,
				      .n = ARRAY_SIZE(rm_table),
				      .operands = "SANDBOX...",
				      .example = "warren rm k3f9x2m7qd1w",
				      .mixed = true },
	.run = change_run_rm,
	.complete = complete_sandboxes,
};
