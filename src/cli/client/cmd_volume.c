/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_volume.c - warren volume create, ls, inspect, rm and prune: manage volumes */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/volume_name.h"
#include "cli/client/cmd_volume.h"
#include "cli/client/commands.h"
#include "cli/client/spec.h"
#include "cli/client/table.h"
#include "cli/common_options.h"
#include "cli/format.h"
#include "cli/values.h"

struct volume_options {
	uint64_t size;
	json_t *labels;
	bool quiet;
	bool force;
	bool json;
};

#define FIELD(name) offsetof(struct volume_options, name)

/* clang-format off */
static const struct opt volume_create_table[] = {
	{ NULL, "size", 0, "SIZE", "1g",
	  "size of the filesystem (default: 1g)",
	  value_size, FIELD(size) },
	{ NULL, "label", 'l', "KEY=VALUE", "team=search",
	  "attach a label",
	  value_label, FIELD(labels) },
	{ NULL, OPT_JSON("print the volume as one JSON object", FIELD(json)) },
};

static const struct opt volume_ls_table[] = {
	{ NULL, OPT_QUIET("print names only", FIELD(quiet)) },
	{ NULL, OPT_JSON("print one JSON array", FIELD(json)) },
};

static const struct opt volume_prune_table[] = {
	{ NULL, "force", 'f', NULL, NULL,
	  "for compatibility with docker: the command never asks",
	  opt_flag, FIELD(force) },
	{ NULL, OPT_JSON("print what was removed, one JSON object on each line", FIELD(json)) },
};

static const struct opt volume_rm_table[] = {
	{ NULL, "force", 'f', NULL, NULL,
	  "ignore volumes that do not exist",
	  opt_flag, FIELD(force) },
	{ NULL, OPT_JSON("print what was removed, one JSON object on each line", FIELD(json)) },
};
/* clang-format on */

static const struct command volume_create, volume_ls, volume_inspect, volume_rm,
	volume_prune;

/* ---------------------------------------------------------------------- names */

int volume_check_operand(const struct command *cmd, const char *name)
{
	if (volume_name_ok(name))
		return 0;
	message_say(cmd->name, "'%.80s' is not the name of a volume: use %s", name,
		    VOLUME_NAME_RULE);
	return STATUS_FAILED;
}

static int volume_collect(void *arg, json_t *item)
{
	return json_array_append(arg, item);
}

/* Complete the names of volumes, at every position. */
void complete_volumes(int at UNUSED, struct buf *out)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLIENT struct client *c = NULL;
	AUTO_JSON json_t *all = json_array();

	if (client_open(&c, &err) < 0 ||
	    client_list(c, "/v1/volumes", "volumes", volume_collect, all, &err) < 0)
		return;
	for (size_t i = 0; i < json_array_size(all); i++)
		buf_printf(out, "%s\n", print_text_of(json_array_get(all, i), "name"));
}

/* --------------------------------------------------------------------- create */

static int volume_post(const struct volume_options *o, const char *name)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_JSON json_t *body = json_pack("{ss}", "name", name), *made = NULL;
	AUTO_CLIENT struct client *c = NULL;

	spec_put_number(body, "size", o->size);
	if (o->labels)
		(void)json_object_set(body, "labels", o->labels);
	if (client_open(&c, &err) < 0 ||
	    client_call(c, "POST", "/v1/volumes", body, &made, &err) < 0)
		return client_fail(&volume_create, &err);
	if (o->json)
		return print_json(&volume_create, made);
	(void)printf("%s\n", name);
	return 0;
}

static int volume_run_create(int argc, char **argv)
{
	struct volume_options o = { 0 };
	char **words = NULL;
	int status = 0;

	if (command_operands(&volume_create, argc, argv, &o, 1, 1, &words, &status)) {
		status = volume_check_operand(&volume_create, *words);
		if (status == 0)
			status = volume_post(&o, *words);
	}
	json_decref(o.labels);
	return status;
}

/* ----------------------------------------------------------------------- show */

static void volume_put_row(struct table *t, const json_t *volume)
{
	AUTO_BUF struct buf created = BUF_INIT(64);
	char size[HUMAN_MAX];

	put_ago(&created, print_text_of(volume, "created_at"));
	table_cell(t, "%s", print_text_of(volume, "name"));
	table_cell(
		t, "%s",
		human_size((uint64_t)json_integer_value(json_object_get(volume, "size")),
			   size));
	table_cell(t, "%lld", json_integer_value(json_object_get(volume, "users")));
	table_cell(t, "%s", created.data);
}

/* Read the options of a command without operands, and get all volumes. */
static bool volume_list_all(const struct command *cmd, int argc, char **argv,
			    struct volume_options *o, struct client **ret, json_t *all,
			    int *ret_status)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char **words = NULL;

	if (!command_operands(cmd, argc, argv, o, 0, 0, &words, ret_status))
		return false;
	if (client_open(ret, &err) == 0 &&
	    client_list(*ret, "/v1/volumes", "volumes", volume_collect, all, &err) == 0)
		return true;
	*ret_status = client_fail(cmd, &err);
	return false;
}

static int volume_run_ls(int argc, char **argv)
{
	AUTO_TABLE struct table t = TABLE_INIT("NAME", "SIZE", "SANDBOXES", "CREATED");
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	AUTO_JSON json_t *all = json_array();
	struct volume_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	int status = 0;

	if (!volume_list_all(&volume_ls, argc, argv, &o, &c, all, &status))
		return status;
	if (o.json)
		return print_json(&volume_ls, all);
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *volume = json_array_get(all, i);

		volume_put_row(&t, volume);
		if (o.quiet)
			buf_printf(&out, "%s\n", print_text_of(volume, "name"));
	}
	if (!o.quiet)
		table_put(&t, 0, "\n", &out);
	return message_print(volume_ls.name, &out);
}

static int volume_run_inspect(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct volume_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	AUTO_JSON json_t *volume = NULL;
	char path[128], **words = NULL;
	int status = 0;

	if (!command_operands(&volume_inspect, argc, argv, &o, 1, 1, &words, &status))
		return status;
	if (volume_check_operand(&volume_inspect, *words) != 0)
		return STATUS_FAILED;
	(void)snprintf(path, sizeof(path), "/v1/volumes/%s", *words);
	if (client_open(&c, &err) < 0 ||
	    client_call(c, "GET", path, NULL, &volume, &err) < 0)
		return client_fail(&volume_inspect, &err);
	return print_json(&volume_inspect, volume);
}

/* --------------------------------------------------------------------- remove */

static int volume_remove_one(struct client *c, const struct command *cmd,
			     const char *name, const struct volume_options *o)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_JSON json_t *gone = json_pack("{ss}", "name", name);
	char path[128];

	(void)snprintf(path, sizeof(path), "/v1/volumes/%s", name);
	if (client_call(c, "DELETE", path, NULL, NULL, &err) < 0)
		return o->force && client_said(c, "volume_not_found")
			       ? 0
			       : client_fail(cmd, &err);
	return o->json ? print_json(cmd, gone) : 0;
}

static int volume_run_rm(int argc, char **argv)
{
	struct volume_options o = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0;

	if (!command_operands(&volume_rm, argc, argv, &o, 1, 0, &words, &status))
		return status;
	if (client_open(&c, &err) < 0)
		return client_fail(&volume_rm, &err);
	for (; *words; words++)
		if (volume_check_operand(&volume_rm, *words) != 0 ||
		    volume_remove_one(c, &volume_rm, *words, &o) != 0)
			status = STATUS_FAILED;
	return status;
}

/* Delete the volumes that no sandbox uses; print their names. */
static int volume_run_prune(int argc, char **argv)
{
	AUTO_JSON json_t *all = json_array();
	struct volume_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	int status = 0;

	if (!volume_list_all(&volume_prune, argc, argv, &o, &c, all, &status))
		return status;
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *volume = json_array_get(all, i);
		const char *name = print_text_of(volume, "name");

		if (json_integer_value(json_object_get(volume, "users")) > 0)
			continue;
		if (volume_remove_one(c, &volume_prune, name, &o) != 0)
			status = STATUS_FAILED;
		else if (!o.json)
			(void)printf("%s\n", name);
	}
	return status;
}

/* ------------------------------------------------------------------- commands */

static const struct command volume_create = {
	.name = "volume create",
	.summary = "Create a volume and print its name.",
	.opts = &(const struct opts){ .table = volume_create_table,
				      .n = ARRAY_SIZE(volume_create_table),
				      .operands = "NAME",
				      .example = "warren volume create --size 10g data",
				      .mixed = true },
	.run = volume_run_create,
};

static const struct command volume_ls = {
	.name = "volume ls",
	.summary = "List volumes.",
	.opts = &(const struct opts){ .table = volume_ls_table,
				      .n = ARRAY_SIZE(volume_ls_table),
				      .example = "warren volume ls" },
	.run = volume_run_ls,
};

static const struct command volume_inspect = {
	.name = "volume inspect",
	.summary = "Print a volume as JSON, with the sandboxes that use it.",
	.opts = &(const struct opts){ .operands = "NAME",
				      .example = "warren volume inspect data",
				      .mixed = true },
	.run = volume_run_inspect,
	.complete = complete_volumes,
};

static const struct command volume_rm = {
	.name = "volume rm",
	.summary = "Delete volumes with their files.",
	.opts = &(const struct opts){ .table = volume_rm_table,
				      .n = ARRAY_SIZE(volume_rm_table),
				      .operands = "NAME...",
				      .example = "warren volume rm data",
				      .mixed = true },
	.run = volume_run_rm,
	.complete = complete_volumes,
};

static const struct command volume_prune = {
	.name = "volume prune",
	.summary = "Delete all volumes that no sandbox uses.",
	.opts = &(const struct opts){ .table = volume_prune_table,
				      .n = ARRAY_SIZE(volume_prune_table),
				      .example = "warren volume prune" },
	.run = volume_run_prune,
};

static const struct command *const volume_verbs[] = {
	&volume_create, &volume_ls, &volume_inspect, &volume_cp, &volume_rm,
	&volume_prune,  NULL
};

static int volume_run(int argc, char **argv)
{
	return verbs_run(&client_volume, argc, argv);
}

const struct command client_volume = {
	.name = "volume",
	.summary = "Create, list, copy and delete volumes.",
	.opts = &(const struct opts){ .operands = "COMMAND [ARG...]",
				      .example = "warren volume create data" },
	.run = volume_run,
	.verbs = volume_verbs,
};
