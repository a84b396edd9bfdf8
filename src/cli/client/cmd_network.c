/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_network.c - warren network: show or change the network policy of a sandbox */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "cli/client/commands.h"
#include "cli/client/network_suggest.h"
#include "cli/client/policy_file.h"
#include "cli/client/spec.h"
#include "cli/client/table.h"
#include "cli/common_options.h"
#include "cli/format.h"
#include "cli/network_options.h"

#define RECORD_MAX (8U << 20)

struct cmd_network_options {
	struct network_options network;
	json_t *policy;
	bool suggest;
	bool json;
};

#define FIELD(name) offsetof(struct cmd_network_options, name)

/* clang-format off */
static const struct opt network_table[] = {
	{ "Change", OPT_NETWORK(FIELD(network.mode)) },
	{ NULL, OPT_ALLOW(FIELD(network.rules)) },
	{ NULL, OPT_DENY(FIELD(network.rules)) },
	{ NULL, OPT_POLICY(FIELD(policy)) },
	{ "Output", "suggest", 0, NULL, NULL,
	  "print the smallest policy that would have sufficed, as options",
	  opt_flag, FIELD(suggest) },
	{ NULL, OPT_JSON("print the network, or the suggested policy, as a JSON object",
		FIELD(json)) },
};

static const struct opt_conflict network_conflicts[] = {
	{ "suggest", "network", "one suggests a policy, the other changes it" },
	{ "suggest", "allow", "one suggests a policy, the other changes it" },
	{ "suggest", "deny", "one suggests a policy, the other changes it" },
	{ "suggest", "policy", "one suggests a policy, the other changes it" },
	{ "policy", "network", POLICY_FILE_ONLY },
	{ "policy", "allow", POLICY_FILE_ONLY },
	{ "policy", "deny", POLICY_FILE_ONLY },
};
/* clang-format on */

static const struct opts network_opts = {
	.table = network_table,
	.n = ARRAY_SIZE(network_table),
	.conflicts = network_conflicts,
	.n_conflicts = ARRAY_SIZE(network_conflicts),
	.operands = "SANDBOX",
	.example = "warren network --allow example.com:443 k3f9x2m7qd1w",
	.mixed = true,
};

/* --------------------------------------------------------------------- tables */

static uint64_t network_number(const json_t *of, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(of, key));

	return n > 0 ? (uint64_t)n : 0;
}

/* Join the elements of an array of a rule; "-" stands for any value. */
static void network_cell_list(struct table *t, const json_t *list)
{
	AUTO_BUF struct buf text = BUF_INIT(4096);

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *item = json_array_get(list, i);

		if (json_is_integer(item))
			buf_printf(&text, "%s%" JSON_INTEGER_FORMAT, i ? "," : "",
				   json_integer_value(item));
		else if (json_is_string(item))
			buf_printf(&text, "%s%s", i ? "," : "", json_string_value(item));
	}
	table_cell(t, "%s", text.len ? text.data : "-");
}

/* The names of headers that are added; their values may be secrets. */
static void network_cell_names(struct table *t, json_t *headers)
{
	AUTO_JSON json_t *names = json_array();
	const char *name;
	json_t *value;

	json_object_foreach(headers, name, value)(void)
		json_array_append_new(names, json_string(name));
	network_cell_list(t, names);
}

static void network_add_rules(struct table *t, const json_t *policy, const char *key)
{
	static const char *const lists[] = { "ports", "protocols", "methods", "paths" };
	const json_t *rules = json_object_get(policy, key);

	for (size_t i = 0; i < json_array_size(rules); i++) {
		const json_t *rule = json_array_get(rules, i);
		const char *host = print_text_of(rule, "host");

		table_cell(t, "%s", key);
		table_cell(t, "%s", *host ? host : "(every public host)");
		for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
			network_cell_list(t, json_object_get(rule, lists[k]));
		network_cell_names(t, json_object_get(rule, "headers"));
	}
}

static void network_put_rules(struct buf *out, const json_t *policy)
{
	AUTO_TABLE struct table t = TABLE_INIT("RULE", "HOST", "PORTS", "PROTOCOLS",
					       "METHODS", "PATHS", "HEADERS");

	network_add_rules(&t, policy, "allow");
	network_add_rules(&t, policy, "deny");
	if (t.n == 0)
		return;
	buf_puts(out, "\n");
	table_put(&t, 0, "\n", out);
}

static void network_cell_target(struct table *t, const json_t *of)
{
	const char *host = print_text_of(of, "host");

	table_cell(t, "%s", *host ? host : "-");
	if (json_object_get(of, "port"))
		table_cell(t, "%" PRIu64, network_number(of, "port"));
	else
		table_cell(t, "-");
	table_cell(t, "%s",
		   *print_text_of(of, "protocol") ? print_text_of(of, "protocol") : "-");
}

static void network_put_live(struct buf *out, const json_t *live)
{
	AUTO_TABLE struct table t = TABLE_INIT("CONNECTED TO", "PORT", "PROTOCOL",
					       "ADDRESS", "RECEIVED", "SENT", "SECONDS");
	char text[HUMAN_MAX];

	for (size_t i = 0; i < json_array_size(live); i++) {
		const json_t *flow = json_array_get(live, i);

		network_cell_target(&t, flow);
		table_cell(&t, "%s", print_text_of(flow, "address"));
		table_cell(&t, "%s", human_size(network_number(flow, "bytes_in"), text));
		table_cell(&t, "%s", human_size(network_number(flow, "bytes_out"), text));
		table_cell(&t, "%" PRIu64, network_number(flow, "age_ms") / 1000);
	}
	if (t.n == 0)
		return;
	buf_puts(out, "\n");
	table_put(&t, 0, "\n", out);
}

static void network_put_denials(struct buf *out, const json_t *denials)
{
	AUTO_TABLE struct table t =
		TABLE_INIT("DENIED", "PORT", "PROTOCOL", "WHEN", "WHY", "TO ALLOW IT");

	for (size_t i = 0; i < json_array_size(denials); i++) {
		const json_t *denial = json_array_get(denials, i);
		AUTO_BUF struct buf ago = BUF_INIT(256), option = BUF_INIT(8192);

		put_ago(&ago, print_text_of(denial, "time"));
		network_cell_target(&t, denial);
		table_cell(&t, "%s", ago.data ? ago.data : "-");
		table_cell(&t, "%s", print_text_of(denial, "reason"));
		network_suggest_denial(denial, &option);
		table_cell(&t, "%s", option.len ? option.data : "-");
	}
	if (t.n == 0)
		return;
	buf_puts(out, "\n");
	table_put(&t, 0, "\n", out);
}

static void network_put_usage(struct buf *out, const json_t *network)
{
	const json_t *usage = json_object_get(network, "usage");
	char text[HUMAN_MAX];

	buf_printf(out, "connections:  %" PRIu64 " (%" PRIu64 " live)\n",
		   network_number(usage, "connections"),
		   network_number(network, "live_count"));
	buf_printf(out, "denied:       %" PRIu64 "\n", network_number(usage, "denied"));
	buf_printf(out, "received:     %s\n",
		   human_size(network_number(usage, "bytes_in"), text));
	buf_printf(out, "sent:         %s\n",
		   human_size(network_number(usage, "bytes_out"), text));
	if (json_object_get(network, "distrust"))
		buf_printf(out, "distrust:     %s\n", print_text_of(network, "distrust"));
}

static void network_put_limits(struct buf *out, const json_t *limits)
{
	static const char *const sizes[][2] = { { "bytes_per_second", "per second" },
						{ "total_bytes", "in total" } };
	const char *between = "";
	char text[HUMAN_MAX];

	if (json_object_size(limits) == 0)
		return;
	buf_puts(out, "limits:       ");
	if (json_object_get(limits, "connections")) {
		buf_printf(out, "%" PRIu64 " connections",
			   network_number(limits, "connections"));
		between = ", ";
	}
	if (json_object_get(limits, "lookups_per_second")) {
		buf_printf(out, "%s%" PRIu64 " lookups per second", between,
			   network_number(limits, "lookups_per_second"));
		between = ", ";
	}
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		if (!json_object_get(limits, sizes[i][0]))
			continue;
		buf_printf(out, "%s%s %s", between,
			   human_size(network_number(limits, sizes[i][0]), text),
			   sizes[i][1]);
		between = ", ";
	}
	buf_puts(out, "\n");
}

static int network_print(const json_t *network)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);

	buf_puts(&out, "network:      ");
	network_put_clean(&out, print_text_of(network, "network"));
	buf_puts(&out, "\n");
	if (json_object_get(network, "policy")) {
		network_put_usage(&out, network);
		network_put_limits(
			&out,
			json_object_get(json_object_get(network, "policy"), "limits"));
		network_put_rules(&out, json_object_get(network, "policy"));
		network_put_live(&out, json_object_get(network, "live"));
		network_put_denials(&out, json_object_get(network, "denials"));
		if (!json_object_get(network, "live"))
			buf_puts(&out,
				 "\nwarren-egress did not answer: live connections and "
				 "denials are unknown; try again\n");
	}
	return message_print(client_network.name, &out);
}

/* ----------------------------------------------------------------- command line */

static int network_print_suggestion(const json_t *record, bool json,
				    struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	AUTO_POLICY struct policy p = { 0 };
	struct json j = { .out = &out };
	int r = json ? network_suggest_policy(record, &p, err)
		     : network_suggest_options(record, &out, err);

	if (r < 0)
		return r;
	if (json) {
		policy_write(&p, &j, NULL);
		buf_puts(&out, "\n");
	}
	return message_print(client_network.name, &out);
}

/* Read the record that `warren run` or 'warren network --json' printed.
 * */
static int network_read_stdin(json_t **ret, struct warren_error *err)
{
	AUTO_FREE char *text = malloc(RECORD_MAX);
	json_error_t why;
	ssize_t n = text ? fd_read_all(STDIN_FILENO, text, RECORD_MAX) : -ENOMEM;

	if (n < 0)
		return error_errno(err, (int)-n, "read stdin");
	*ret = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &why);
	if (!json_is_object(*ret))
		return error_set(err, EINVAL,
				 "stdin is not the output of 'warren network --json'");
	return 0;
}

static int network_get(struct client *c, const char *word,
		       const struct cmd_network_options *o, json_t **ret,
		       struct warren_error *err)
{
	AUTO_JSON json_t *body = json_object();
	char id[ID_LEN + 1], path[96];
	int r = resolve_id_find_sandbox(c, word, id, err);

	if (o->policy)
		(void)json_object_set(body, "network", o->policy);
	else
		spec_put_network(body, &o->network);
	if (r == 0 && json_object_size(body) > 0) {
		(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s", id);
		r = client_call(c, "PATCH", path, body, NULL, err);
	}
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/network", id);
	return r < 0 ? r : client_call(c, "GET", path, NULL, ret, err);
}

static int network_show(const char *word, const struct cmd_network_options *o,
			struct warren_error *err)
{
	AUTO_CLIENT struct client *c = NULL;
	AUTO_JSON json_t *network = NULL;
	bool from_stdin = o->suggest && strcmp(word, "-") == 0;
	int r = network_options_check(&o->network, err);

	if (r == 0 && from_stdin)
		r = network_read_stdin(&network, err);
	else if (r == 0 && client_open(&c, err) < 0)
		r = -err->code;
	else if (r == 0)
		r = network_get(c, word, o, &network, err);
	if (r < 0)
		return r;
	if (o->suggest)
		return network_print_suggestion(network, o->json, err);
	return o->json ? print_json(&client_network, network) : network_print(network);
}

static int run_network(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct cmd_network_options o = { 0 };
	char **words = NULL;
	int status = 0;

	if (command_operands(&client_network, argc, argv, &o, 1, 1, &words, &status)) {
		status = network_show(*words, &o, &err);
		policy_file_explain(o.policy, &err);
		if (status < 0)
			status = client_fail(&client_network, &err);
	}
	network_options_done(&o.network);
	json_decref(o.policy);
	return status;
}

const struct command client_network = {
	.name = "network",
	.summary = "Show or change what a sandbox may reach.",
	.about =
		"Shows the policy, live connections, and what was denied recently. With --network,\n"
		"--allow, --deny or --policy, these options replace the policy, and connections\n"
		"that it no longer allows end.\n",
	.opts = &network_opts,
	.run = run_network,
	.complete = complete_sandbox,
};
