/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_snapshot.c - warren snapshot: make, list, inspect, tag and remove snapshots; warren
 * fork: create copies of a sandbox
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "base/snapshot_name.h"
#include "cli/client/commands.h"
#include "cli/client/spec.h"
#include "cli/client/table.h"
#include "cli/common_options.h"
#include "cli/format.h"
#include "cli/values.h"

struct snapshot_options {
	uint64_t count;
	json_t *labels;
	bool force;
	bool quiet;
	bool json;
};

#define FIELD(name) offsetof(struct snapshot_options, name)

/* clang-format off */
static const struct opt snapshot_create_table[] = {
	{ NULL, "label", 'l', "KEY=VALUE", "team=search", "attach a label", value_label, FIELD(labels) },
	{ NULL, OPT_JSON("print the snapshot as one JSON object", FIELD(json)) },
};

static const struct opt snapshot_ls_table[] = {
	{ NULL, OPT_QUIET("print ids only", FIELD(quiet)) },
	{ NULL, OPT_JSON("print one JSON array", FIELD(json)) },
};

static const struct opt snapshot_tag_table[] = {
	{ NULL, OPT_JSON("print the snapshot as one JSON object", FIELD(json)) },
};

static const struct opt snapshot_rm_table[] = {
	{ .name = "force", .letter = 'f',
	  .help = "ignore missing snapshots; delete a snapshot in use when its last sandbox is deleted",
	  .set = opt_flag, .field = FIELD(force) },
	{ NULL, OPT_JSON("print what was removed, one JSON object on each line", FIELD(json)) },
};

static const struct opt fork_table[] = {
	{ NULL, "count", 'n', "NUMBER", "8", "number of copies (default: 1)", value_count, FIELD(count) },
	{ NULL, "label", 'l', "KEY=VALUE", "try=2", "attach an additional label to the copies", value_label, FIELD(labels) },
	{ NULL, OPT_JSON("print the copies as one JSON array", FIELD(json)) },
};
/* clang-format on */

static const struct command snapshot_create, snapshot_ls, snapshot_inspect, snapshot_tag,
	snapshot_rm;

/* Names are part of paths, so only what can be a name or an id is sent. */
int snapshot_check_operand(const struct command *cmd, const char *word)
{
	if (snapshot_name_ok(word) || id_valid(word))
		return 0;
	message_say(cmd->name, "'%.80s' is not the name of a snapshot: a name has %s",
		    word, SNAPSHOT_NAME_RULE);
	return STATUS_FAILED;
}

static int snapshot_collect(void *arg, json_t *item)
{
	return json_array_append(arg, item);
}

static void complete_snapshots(int at UNUSED, struct buf *out)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLIENT struct client *c = NULL;
	AUTO_JSON json_t *all = json_array();

	if (client_open(&c, &err) < 0 ||
	    client_list(c, "/v1/snapshots", "snapshots", snapshot_collect, all, &err) < 0)
		return;
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *names = json_object_get(json_array_get(all, i), "names");

		for (size_t k = 0; k < json_array_size(names); k++)
			buf_printf(out, "%s\n",
				   json_string_value(json_array_get(names, k)));
	}
}

/* --------------------------------------------------------------------- create */

static int snapshot_post(const struct snapshot_options *o, const char *sandbox,
			 const char *name)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_JSON json_t *body = json_object(), *made = NULL;
	AUTO_CLIENT struct client *c = NULL;
	char id[ID_LEN + 1], path[128];

	if (name)
		(void)json_object_set_new(body, "name", json_string(name));
	if (o->labels)
		(void)json_object_set(body, "labels", o->labels);
	if (client_open(&c, &err) < 0 ||
	    resolve_id_find_sandbox(c, sandbox, id, &err) < 0)
		return client_fail(&snapshot_create, &err);
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/snapshots", id);
	if (client_call(c, "POST", path, body, &made, &err) < 0)
		return client_fail(&snapshot_create, &err);
	if (o->json)
		return print_json(&snapshot_create, made);
	(void)printf("%s\n", name ? name : print_text_of(made, "id"));
	return 0;
}

static int snapshot_run_create(int argc, char **argv)
{
	struct snapshot_options o = { 0 };
	char **words = NULL;
	int status = 0;

	if (command_operands(&snapshot_create, argc, argv, &o, 1, 2, &words, &status)) {
		if (words[1] && !snapshot_name_ok(words[1]))
			status = snapshot_check_operand(&snapshot_create, words[1]);
		if (status == 0)
			status = snapshot_post(&o, words[0], words[1]);
	}
	json_decref(o.labels);
	return status;
}

/* ----------------------------------------------------------------------- show */

static void snapshot_put_row(struct table *t, const json_t *snapshot, const char *name)
{
	AUTO_BUF struct buf created = BUF_INIT(64);
	char size[HUMAN_MAX];

	put_ago(&created, print_text_of(snapshot, "created_at"));
	table_cell(t, "%s", name);
	table_cell(t, "%s", print_text_of(snapshot, "id"));
	table_cell(t, "%s", print_text_of(snapshot, "source"));
	table_cell(t, "%lld", json_integer_value(json_object_get(snapshot, "users")));
	table_cell(t, "%s",
		   human_size((uint64_t)json_integer_value(
				      json_object_get(snapshot, "size")),
			      size));
	table_cell(t, "%s", created.data);
}

static int snapshot_run_ls(int argc, char **argv)
{
	AUTO_TABLE struct table t =
		TABLE_INIT("NAME", "ID", "SOURCE", "SANDBOXES", "SIZE", "CREATED");
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	AUTO_JSON json_t *all = json_array();
	struct warren_error err = WARREN_ERROR_INIT;
	struct snapshot_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0;

	if (!command_operands(&snapshot_ls, argc, argv, &o, 0, 0, &words, &status))
		return status;
	if (client_open(&c, &err) < 0 ||
	    client_list(c, "/v1/snapshots", "snapshots", snapshot_collect, all, &err) < 0)
		return client_fail(&snapshot_ls, &err);
	if (o.json)
		return print_json(&snapshot_ls, all);
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *snapshot = json_array_get(all, i);
		const json_t *names = json_object_get(snapshot, "names");

		for (size_t k = 0; k < json_array_size(names); k++)
			snapshot_put_row(&t, snapshot,
					 json_string_value(json_array_get(names, k)));
		if (json_array_size(names) == 0)
			snapshot_put_row(&t, snapshot, "<none>");
		if (o.quiet)
			buf_printf(&out, "%s\n", print_text_of(snapshot, "id"));
	}
	if (!o.quiet)
		table_put(&t, 0, "\n", &out);
	return message_print(snapshot_ls.name, &out);
}

static int snapshot_run_inspect(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct snapshot_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	AUTO_JSON json_t *snapshot = NULL;
	char path[128], **words = NULL;
	int status = 0;

	if (!command_operands(&snapshot_inspect, argc, argv, &o, 1, 1, &words, &status))
		return status;
	if (snapshot_check_operand(&snapshot_inspect, *words) != 0)
		return STATUS_FAILED;
	(void)snprintf(path, sizeof(path), "/v1/snapshots/%s", *words);
	if (client_open(&c, &err) < 0 ||
	    client_call(c, "GET", path, NULL, &snapshot, &err) < 0)
		return client_fail(&snapshot_inspect, &err);
	return print_json(&snapshot_inspect, snapshot);
}

/* --------------------------------------------------------------- tag and remove */

static int snapshot_run_tag(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct snapshot_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	AUTO_JSON json_t *body = NULL, *snapshot = NULL;
	char path[128], **words = NULL;
	int status = 0;

	if (!command_operands(&snapshot_tag, argc, argv, &o, 2, 2, &words, &status))
		return status;
	if (snapshot_check_operand(&snapshot_tag, words[0]) != 0)
		return STATUS_FAILED;
	body = json_pack("{ss}", "name", words[1]);
	(void)snprintf(path, sizeof(path), "/v1/snapshots/%s/tag", words[0]);
	if (client_open(&c, &err) < 0 ||
	    client_call(c, "POST", path, body, &snapshot, &err) < 0)
		return client_fail(&snapshot_tag, &err);
	return o.json ? print_json(&snapshot_tag, snapshot) : 0;
}

static int snapshot_remove_one(struct client *c, const struct snapshot_options *o,
			       const char *word)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_JSON json_t *gone = json_pack("{ss}", "snapshot", word);
	char path[128];
	int r;

	(void)snprintf(path, sizeof(path), "/v1/snapshots/%s%s", word,
		       o->force ? "?force=true" : "");
	r = client_call(c, "DELETE", path, NULL, NULL, &err);
	if (r == -ENOENT && o->force)
		return 0;
	if (r < 0)
		return client_fail(&snapshot_rm, &err);
	return o->json ? print_json(&snapshot_rm, gone) : 0;
}

static int snapshot_run_rm(int argc, char **argv)
{
	struct snapshot_options o = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0;

	if (!command_operands(&snapshot_rm, argc, argv, &o, 1, 0, &words, &status))
		return status;
	if (client_open(&c, &err) < 0)
		return client_fail(&snapshot_rm, &err);
	for (; *words; words++)
		if (snapshot_check_operand(&snapshot_rm, *words) != 0 ||
		    snapshot_remove_one(c, &o, *words) != 0)
			status = STATUS_FAILED;
	return status;
}

/* ----------------------------------------------------------------------- fork */

static int fork_post(const struct snapshot_options *o, const char *sandbox)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_JSON json_t *body = json_object(), *made = NULL;
	AUTO_CLIENT struct client *c = NULL;
	char id[ID_LEN + 1], path[128];
	json_t *all;

	spec_put_number(body, "count", o->count);
	if (o->labels)
		(void)json_object_set(body, "labels", o->labels);
	if (client_open(&c, &err) < 0 ||
	    resolve_id_find_sandbox(c, sandbox, id, &err) < 0)
		return client_fail(&client_fork, &err);
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/fork", id);
	if (client_call(c, "POST", path, body, &made, &err) < 0)
		return client_fail(&client_fork, &err);
	all = json_object_get(made, "sandboxes");
	if (o->json)
		return print_json(&client_fork, all);
	for (size_t i = 0; i < json_array_size(all); i++)
		(void)printf("%s\n", print_text_of(json_array_get(all, i), "id"));
	return 0;
}

static int fork_run(int argc, char **argv)
{
	struct snapshot_options o = { 0 };
	char **words = NULL;
	int status = 0;

	if (command_operands(&client_fork, argc, argv, &o, 1, 1, &words, &status))
		status = fork_post(&o, *words);
	json_decref(o.labels);
	return status;
}

const struct command client_fork = {
	.name = "fork",
	.summary = "Create copies of a sandbox.",
	.about =
		"The copies have its files, environment, limits, labels and network policy. Its\n"
		"processes are not copied, and continue. Either all copies are created or none.\n",
	.opts = &(const struct opts){ .table = fork_table,
				      .n = ARRAY_SIZE(fork_table),
				      .operands = "SANDBOX",
				      .example = "warren fork --count 8 k3f9x2m7qd1w",
				      .mixed = true },
	.run = fork_run,
	.complete = complete_sandboxes,
};

/* ------------------------------------------------------------------- commands */

static const struct command snapshot_create = {
	.name = "snapshot create",
	.summary = "Create a snapshot of a sandbox, and print its name or id.",
	.opts = &(const struct opts){ .table = snapshot_create_table,
				      .n = ARRAY_SIZE(snapshot_create_table),
				      .operands = "SANDBOX [NAME]",
				      .example =
					      "warren snapshot create k3f9x2m7qd1w ready",
				      .mixed = true },
	.run = snapshot_run_create,
	.complete = complete_sandboxes,
};

static const struct command snapshot_ls = {
	.name = "snapshot ls",
	.summary = "List snapshots.",
	.opts = &(const struct opts){ .table = snapshot_ls_table,
				      .n = ARRAY_SIZE(snapshot_ls_table),
				      .example = "warren snapshot ls" },
	.run = snapshot_run_ls,
};

static const struct command snapshot_inspect = {
	.name = "snapshot inspect",
	.summary = "Print a snapshot as JSON.",
	.opts = &(const struct opts){ .operands = "SNAPSHOT",
				      .example = "warren snapshot inspect ready",
				      .mixed = true },
	.run = snapshot_run_inspect,
	.complete = complete_snapshots,
};

static const struct command snapshot_tag = {
	.name = "snapshot tag",
	.summary = "Give a snapshot another name.",
	.opts = &(const struct opts){ .table = snapshot_tag_table,
				      .n = ARRAY_SIZE(snapshot_tag_table),
				      .operands = "SNAPSHOT NAME",
				      .example = "warren snapshot tag ready ready:v2",
				      .mixed = true },
	.run = snapshot_run_tag,
	.complete = complete_snapshots,
};

static const struct command snapshot_rm = {
	.name = "snapshot rm",
	.summary = "Remove names of snapshots, and snapshots without a name.",
	.opts = &(const struct opts){ .table = snapshot_rm_table,
				      .n = ARRAY_SIZE(snapshot_rm_table),
				      .operands = "SNAPSHOT...",
				      .example = "warren snapshot rm ready",
				      .mixed = true },
	.run = snapshot_run_rm,
	.complete = complete_snapshots,
};

static const struct command *const snapshot_verbs[] = { &snapshot_create,  &snapshot_ls,
							&snapshot_inspect, &snapshot_tag,
							&snapshot_rm,      NULL };

/* Is @word the last word of a verb's name? */
static bool snapshot_is_verb(const char *word)
{
	for (const struct command *const *v = snapshot_verbs; *v; v++)
		if (strcmp(strchr((*v)->name, ' ') + 1, word) == 0)
			return true;
	return false;
}

/* `warren snapshot SANDBOX [NAME]` makes one. */
static int snapshot_command(int argc, char **argv)
{
	if (argc > 1 && argv[1][0] != '-' && !snapshot_is_verb(argv[1]))
		return snapshot_run_create(argc, argv);
	return verbs_run(&client_snapshot, argc, argv);
}

const struct command client_snapshot = {
	.name = "snapshot",
	.summary = "Create, list, tag and remove snapshots of sandboxes.",
	.about =
		"'warren snapshot SANDBOX [NAME]' is short for 'warren snapshot create'.\n",
	.opts = &(const struct opts){ .operands = "COMMAND [ARG...]",
				      .example = "warren snapshot k3f9x2m7qd1w ready" },
	.run = snapshot_command,
	.verbs = snapshot_verbs,
};
