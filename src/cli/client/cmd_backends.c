/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_backends.c - warren backends: show the service's backends and what each can do */
#include <stddef.h>
#include <string.h>

#include "cli/client/commands.h"
#include "cli/client/table.h"
#include "cli/common_options.h"

struct backends_options {
	bool features;
	bool json;
};

#define FIELD(name) offsetof(struct backends_options, name)

static const struct opt backends_table[] = {
	{ .name = "features",
	  .letter = 'f',
	  .help = "list the features of each backend, one on each line",
	  .set = opt_flag,
	  .field = FIELD(features) },
	{ NULL, OPT_JSON("print everything as one JSON array", FIELD(json)) },
};

static const struct opts backends_opts = {
	.table = backends_table,
	.n = ARRAY_SIZE(backends_table),
	.example = "warren backends --features",
};

static bool is_true(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

static void put_overview(const json_t *backends, struct buf *out)
{
	AUTO_TABLE struct table t =
		TABLE_INIT("NAME", "KIND", "TIER", "AVAILABLE", "WHY NOT");

	for (size_t i = 0; i < json_array_size(backends); i++) {
		const json_t *b = json_array_get(backends, i);

		table_cell(&t, "%s%s", print_text_of(b, "name"),
			   is_true(b, "default") ? " (default)" : "");
		table_cell(&t, "%s", print_text_of(b, "kind"));
		table_cell(&t, "%s", print_text_of(b, "tier"));
		table_cell(&t, "%s", is_true(b, "available") ? "yes" : "no");
		table_cell(&t, "%s", print_text_of(b, "reason"));
	}
	table_put(&t, 0, "\n", out);
}

static void backends_put_features(const json_t *backends, struct buf *out)
{
	AUTO_TABLE struct table t =
		TABLE_INIT("BACKEND", "FEATURE", "FOUND", "WHAT", "TO FIX IT");

	for (size_t i = 0; i < json_array_size(backends); i++) {
		const json_t *b = json_array_get(backends, i);
		const json_t *features = json_object_get(b, "features");

		for (size_t k = 0; k < json_array_size(features); k++) {
			const json_t *f = json_array_get(features, k);

			table_cell(&t, "%s", print_text_of(b, "name"));
			table_cell(&t, "%s", print_text_of(f, "name"));
			table_cell(&t, "%s",
				   is_true(f, "ok")         ? "yes"
				   : is_true(f, "required") ? "NO"
							    : "no");
			table_cell(&t, "%s", print_text_of(f, "detail"));
			table_cell(&t, "%s",
				   is_true(f, "ok") ? "" : print_text_of(f, "fix"));
		}
	}
	table_put(&t, 0, "\n", out);
}

static int run_backends(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct backends_options o = { 0 };
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	AUTO_CLIENT struct client *c = NULL;
	AUTO_JSON json_t *answer = NULL;
	const json_t *backends;
	char **words = NULL;
	int status = 0;

	if (!command_operands(&client_backends, argc, argv, &o, 0, 0, &words, &status))
		return status;
	if (client_open(&c, &err) < 0 ||
	    client_call(c, "GET", "/v1/backends", NULL, &answer, &err) < 0)
		return client_fail(&client_backends, &err);
	backends = json_object_get(answer, "backends");
	if (o.json)
		return print_json(&client_backends, backends);
	if (o.features)
		backends_put_features(backends, &out);
	else
		put_overview(backends, &out);
	return message_print(client_backends.name, &out);
}

const struct command client_backends = {
	.name = "backends",
	.summary = "Show backends and the features of each.",
	.opts = &backends_opts,
	.run = run_backends,
};
