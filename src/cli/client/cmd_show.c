/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_show.c - warren show: show all properties of a sandbox */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/client/commands.h"
#include "cli/common_options.h"
#include "cli/format.h"
#include "spec/spec.h"

struct show_options {
	bool json;
};

static const struct opt show_table[] = {
	{ NULL, OPT_JSON("print one JSON object, or an array for several sandboxes",
			 offsetof(struct show_options, json)) },
};

static const struct opts show_opts = {
	.table = show_table,
	.n = ARRAY_SIZE(show_table),
	.operands = "SANDBOX...",
	.example = "warren show k3f9x2m7qd1w",
	.mixed = true,
};

static void show_put_line(struct buf *out, const char *name, const char *value)
{
	buf_printf(out, "%-14s ", name);
	buf_puts(out, value);
	buf_puts(out, "\n");
}

/* Write a line "name: value", with the value as in JSON; write nothing for null. */
static void put_field(struct buf *out, const json_t *sandbox, const char *key,
		      const char *name)
{
	const json_t *value = json_object_get(sandbox, key);
	char *text;

	if (!value || json_is_null(value))
		return;
	if (json_is_string(value)) {
		show_put_line(out, name, json_string_value(value));
		return;
	}
	text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
	show_put_line(out, name, text ? text : "?");
	free(text);
}

static void show_put_limits(struct buf *out, const json_t *limits)
{
	buf_puts(out, "limits:\n");
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++) {
		const struct spec_limit *l = &spec_limits[i];
		const json_t *n = json_object_get(limits, l->name);
		char text[HUMAN_MAX], name[32];

		if (!json_is_integer(n))
			continue;
		(void)snprintf(name, sizeof(name), "%s", l->name);
		for (char *c = name; (c = strchr(c, '_'));)
			*c = ' ';
		if (l->unit == SPEC_BYTES)
			(void)human_size((uint64_t)json_integer_value(n), text);
		else
			(void)snprintf(text, sizeof(text), "%lld",
				       (long long)json_integer_value(n));
		buf_printf(out, "  %-12s %s\n", name, text);
	}
}

static void put_sandbox(struct buf *out, const json_t *sandbox)
{
	static const struct {
		const char *key, *name;
	} fields[] = {
		{ "id", "id:" },
		{ "name", "name:" },
		{ "state", "state:" },
		{ "error", "error:" },
		{ "checkpoint", "checkpoint:" },
		{ "owner", "owner:" },
		{ "image", "image:" },
		{ "template", "template:" },
		{ "backend", "backend:" },
		{ "tier", "tier:" },
		{ "hostname", "hostname:" },
		{ "user", "user:" },
		{ "workdir", "workdir:" },
		{ "env", "env:" },
		{ "labels", "labels:" },
		{ "mounts", "mounts:" },
		{ "network", "network:" },
		{ "read_only", "read-only:" },
		{ "persist", "persist:" },
		{ "created_at", "created:" },
		{ "last_used_at", "last used:" },
		{ "expires_at", "expires:" },
		{ "idle_timeout_ms", "idle after ms:" },
	};
	const json_t *enforced = json_object_get(sandbox, "enforced");

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		put_field(out, sandbox, fields[i].key, fields[i].name);
	show_put_limits(out, json_object_get(sandbox, "limits"));
	if (json_array_size(enforced) > 0)
		buf_puts(out, "enforced:\n");
	for (size_t i = 0; i < json_array_size(enforced); i++) {
		const json_t *e = json_array_get(enforced, i);

		buf_printf(out, "  %-12s %s%s\n", print_text_of(e, "name"),
			   json_is_true(json_object_get(e, "enforced")) ? "" : "NOT: ",
			   print_text_of(e, "detail"));
	}
}

static int show_get(struct client *c, const char *word, json_t **ret,
		    struct warren_error *err)
{
	char id[ID_LEN + 1], path[64];
	int r = resolve_id_find_sandbox(c, word, id, err);

	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s", id);
	return client_call(c, "GET", path, NULL, ret, err);
}

/* Add the sandbox that @word names to @all, and as a table to @out. */
static int show_add(struct client *c, const char *word, json_t *all, struct buf *out,
		    struct warren_error *err)
{
	AUTO_JSON json_t *sandbox = NULL;
	int r = show_get(c, word, &sandbox, err);

	if (r < 0)
		return r;
	if (json_array_append(all, sandbox) < 0)
		return error_errno(err, ENOMEM, "show");
	if (out->len)
		buf_puts(out, "\n");
	put_sandbox(out, sandbox);
	return 0;
}

static int run_show(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	AUTO_JSON json_t *all = json_array();
	struct warren_error err = WARREN_ERROR_INIT;
	struct show_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0, failed = 0;
	bool several;

	if (!command_operands(&client_show, argc, argv, &o, 1, 0, &words, &status))
		return status;
	if (client_open(&c, &err) < 0)
		return client_fail(&client_show, &err);
	several = words[1];
	for (; *words; words++)
		if (show_add(c, *words, all, &out, &err) < 0)
			failed = client_fail(&client_show, &err);
	if (o.json && !several && !failed)
		return print_json(&client_show, json_array_get(all, 0));
	status = !o.json                    ? message_print(client_show.name, &out)
		 : json_array_size(all) > 0 ? print_json(&client_show, all)
					    : 0;
	return status ? status : failed;
}

const struct command client_show = {
	.name = "show",
	.summary = "Show a sandbox and what is enforced in it.",
	.opts = &show_opts,
	.run = run_show,
	.complete = complete_sandboxes,
};
