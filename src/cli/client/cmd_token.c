/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_token.c - warren token create, ls and rm: manage tokens */
#include <stddef.h>
#include <stdio.h>

#include "cli/client/commands.h"
#include "cli/client/spec.h"
#include "cli/client/table.h"
#include "cli/common_options.h"

struct token_options {
	json_t *scopes;
	const char *tenant;
	const char *sandbox;
	uint64_t expires_ms;
	bool e2b;
	bool quiet;
	bool json;
};

#define FIELD(name) offsetof(struct token_options, name)

/* clang-format off */
static const struct opt create_table[] = {
	{ NULL, "scope", 0, "SCOPE", "exec",
	  "permission: read, write, exec, files, pull, images, ...",
	  value_word, FIELD(scopes) },
	{ NULL, "tenant", 0, "TENANT", "research",
	  "tenant of the token (default: your own)",
	  opt_text, FIELD(tenant) },
	{ NULL, OPT_SANDBOX("restrict the token to this sandbox (id or name)",
		FIELD(sandbox)) },
	{ NULL, "e2b", 0, NULL, NULL,
	  "make a key for the SDKs of E2B; without --scope, it may do all that they do",
	  opt_flag, FIELD(e2b) },
	{ NULL, "expires", 0, "DURATION", "24h",
	  "lifetime of the token (default: unlimited)",
	  opt_duration, FIELD(expires_ms) },
	{ NULL, OPT_JSON("print the token, with its secret, as one JSON object", FIELD(json)) },
};

static const struct opt ls_table[] = {
	{ NULL, OPT_QUIET("print ids only", FIELD(quiet)) },
	{ NULL, OPT_JSON("print one JSON array", FIELD(json)) },
};

static const struct opt rm_table[] = {
	{ NULL, OPT_JSON("print what was removed, one JSON object on each line", FIELD(json)) },
};
/* clang-format on */

static const struct command token_create, token_ls, token_rm;

static int cmd_token_create(const struct token_options *o, const char *name)
{
	AUTO_BUF struct buf out = BUF_INIT(1024);
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLIENT struct client *c = NULL;
	AUTO_JSON json_t *token = NULL;
	AUTO_JSON json_t *body = json_object();
	char id[ID_LEN + 1];

	if (!o->scopes && !o->e2b) {
		message_say(token_create.name, "--scope is missing (example: %s)",
			    token_create.opts->example);
		return STATUS_FAILED;
	}
	spec_put_text(body, "name", name);
	(void)json_object_set_new(body, "scopes",
				  o->scopes ? json_incref(o->scopes)
					    : json_pack("[sssss]", "read", "write",
							"exec", "files", "secrets"));
	if (o->e2b)
		(void)json_object_set_new(body, "e2b", json_true());
	spec_put_text(body, "tenant", o->tenant);
	spec_put_number(body, "expires_in_ms", o->expires_ms);
	if (client_open(&c, &err) < 0 ||
	    (o->sandbox && resolve_id_find_sandbox(c, o->sandbox, id, &err) < 0))
		return client_fail(&token_create, &err);
	if (o->sandbox)
		spec_put_text(body, "sandbox_id", id);
	if (client_call(c, "POST", "/v1/tokens", body, &token, &err) < 0)
		return client_fail(&token_create, &err);
	if (o->json)
		return print_json(&token_create, token);
	buf_printf(&out, "%s\n", print_text_of(token, "secret"));
	return message_print(token_create.name, &out);
}

static int token_run_create(int argc, char **argv)
{
	struct token_options o = { 0 };
	char **words = NULL;
	int status = 0;

	if (command_operands(&token_create, argc, argv, &o, 1, 1, &words, &status))
		status = cmd_token_create(&o, *words);
	json_decref(o.scopes);
	return status;
}

static int token_collect(void *arg, json_t *item)
{
	return json_array_append(arg, item);
}

static void put_scopes(struct buf *out, const json_t *scopes)
{
	for (size_t i = 0; i < json_array_size(scopes); i++)
		buf_printf(out, "%s%s", i ? "," : "",
			   json_string_value(json_array_get(scopes, i)));
}

static void token_put_row(struct table *t, const json_t *token)
{
	AUTO_BUF struct buf scopes = BUF_INIT(1024), made = BUF_INIT(64),
			    used = BUF_INIT(64);
	const char *expires = print_text_of(token, "expires_at");

	put_scopes(&scopes, json_object_get(token, "scopes"));
	put_ago(&made, print_text_of(token, "created_at"));
	put_ago(&used, print_text_of(token, "last_used_at"));
	table_cell(t, "%s", print_text_of(token, "id"));
	table_cell(t, "%s", print_text_of(token, "name"));
	table_cell(t, "%s", print_text_of(token, "tenant"));
	table_cell(t, "%s", scopes.data ? scopes.data : "");
	table_cell(t, "%s", made.data);
	table_cell(t, "%s", *expires ? expires : "never");
	table_cell(t, "%s", used.data);
}

static int token_run_ls(int argc, char **argv)
{
	AUTO_TABLE struct table t = TABLE_INIT("ID", "NAME", "TENANT", "SCOPES",
					       "CREATED", "EXPIRES", "LAST USED");
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	AUTO_JSON json_t *all = json_array();
	struct warren_error err = WARREN_ERROR_INIT;
	struct token_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0;

	if (!command_operands(&token_ls, argc, argv, &o, 0, 0, &words, &status))
		return status;
	if (client_open(&c, &err) < 0 ||
	    client_list(c, "/v1/tokens", "tokens", token_collect, all, &err) < 0)
		return client_fail(&token_ls, &err);
	if (o.json)
		return print_json(&token_ls, all);
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *token = json_array_get(all, i);

		token_put_row(&t, token);
		if (o.quiet)
			buf_printf(&out, "%s\n", print_text_of(token, "id"));
	}
	if (!o.quiet)
		table_put(&t, 0, "\n", &out);
	return message_print(token_ls.name, &out);
}

static int token_run_rm(int argc, char **argv)
{
	struct token_options o = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0;

	if (!command_operands(&token_rm, argc, argv, &o, 1, 0, &words, &status))
		return status;
	if (client_open(&c, &err) < 0)
		return client_fail(&token_rm, &err);
	for (; *words; words++) {
		char id[ID_LEN + 1], path[64];

		if (find_token(c, *words, id, &err) == 0) {
			(void)snprintf(path, sizeof(path), "/v1/tokens/%s", id);
			if (client_call(c, "DELETE", path, NULL, NULL, &err) == 0) {
				if (o.json && print_gone(&token_rm, id) != 0)
					return STATUS_FAILED;
				continue;
			}
		}
		status = client_fail(&token_rm, &err);
	}
	return status;
}

static const struct command token_create = {
	.name = "token create",
	.summary = "Create a token and print its secret, which is never shown again.",
	.about =
		"Scopes: read, write, exec, files, pull, images, tokens, secrets, metrics, admin.\n"
		"Repeat --scope for several.\n",
	.opts = &(const struct opts){ .table = create_table,
				      .n = ARRAY_SIZE(create_table),
				      .operands = "NAME",
				      .example = "warren token create --scope read "
						 "--scope exec nightly",
				      .mixed = true },
	.run = token_run_create,
};

static const struct command token_ls = {
	.name = "token ls",
	.summary = "List tokens, without their secrets.",
	.opts = &(const struct opts){ .table = ls_table,
				      .n = ARRAY_SIZE(ls_table),
				      .example = "warren token ls" },
	.run = token_run_ls,
};

static const struct command token_rm = {
	.name = "token rm",
	.summary = "Revoke tokens immediately.",
	.opts = &(const struct opts){ .table = rm_table,
				      .n = ARRAY_SIZE(rm_table),
				      .operands = "ID...",
				      .example = "warren token rm k3f9x2m7qd1w",
				      .mixed = true },
	.run = token_run_rm,
};

static const struct command *const verbs[] = { &token_create, &token_ls, &token_rm,
					       NULL };

static int run_token(int argc, char **argv)
{
	return verbs_run(&client_token, argc, argv);
}

const struct command client_token = {
	.name = "token",
	.summary = "Create, list and revoke tokens.",
	.opts = &(const struct opts){ .operands = "COMMAND [ARG...]",
				      .example = "warren token create --scope read me" },
	.run = run_token,
	.verbs = verbs,
};
