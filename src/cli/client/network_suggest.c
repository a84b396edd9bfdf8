/* SPDX-License-Identifier: Apache-2.0 */
/* network_suggest.c - convert records of warren-egress to a policy and to options */
#include "cli/client/network_suggest.h"

#include <errno.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "network/policy_json.h"
#include "network/within.h"

void network_put_clean(struct buf *out, const char *text)
{
	const size_t size = strlen(text);

	for (size_t i = 0, n; i < size; i += n)
		if (utf8_shows(text + i, size - i, &n))
			buf_add(out, text + i, n);
		else
			buf_puts(out, "?");
}

static int network_read_used(const json_t *record, struct policy *ret,
			     struct warren_error *err)
{
	const json_t *used = json_object_get(record, "used");
	int r = used ? policy_read(used, "/used", ret, err) : 0;

	return r < 0 ? error_wrap(err, "the record of the network") : 0;
}

/*
 * Read the rules that would have allowed a denial, if there are any. If the address of a
 * name was denied, a rule already allows the name, but not the policy that is suggested.
 */
static void network_suggest_read_rules(const json_t *denial, struct policy *ret)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	json_t *rule = json_object_get(denial, "rule"), *rules, *name;
	AUTO_JSON json_t *policy = rule ? json_pack("{s:[]}", "allow") : NULL;

	if (!policy)
		return;
	rules = json_object_get(policy, "allow");
	name = json_object_get(denial, "host");
	if (name && json_object_get(denial, "address") &&
	    !json_equal(name, json_object_get(rule, "host"))) {
		(void)json_array_append_new(rules, json_copy(rule));
		(void)json_object_set(json_array_get(rules, 0), "host", name);
	}
	(void)json_array_append(rules, rule);
	(void)!policy_read(policy, "", ret, &ignored);
}

int network_suggest_policy(const json_t *record, struct policy *ret,
			   struct warren_error *err)
{
	const json_t *denials = json_object_get(record, "denials");
	int r = network_read_used(record, ret, err);

	for (size_t i = 0; r == 0 && i < json_array_size(denials); i++) {
		AUTO_POLICY struct policy more = { 0 };

		network_suggest_read_rules(json_array_get(denials, i), &more);
		r = policy_within(ret, &more, err);
		for (size_t k = 0; r == 0 && k < more.allow.n; k++)
			r = policy_add_copy(ret, &ret->allow, &more.allow.list[k], err);
		r = r > 0 ? 0 : r;
	}
	return r;
}

/* ------------------------------------------------------------------- options */

/* @seen contains the options that were already written, as keys. */
static void network_put_option(struct buf *out, json_t *seen, const struct rule *rule,
			       uint16_t port)
{
	char host[HOST_TEXT_SIZE], option[HOST_TEXT_SIZE + 32];
	bool brackets;

	host_text(&rule->host, host);
	brackets = port && strchr(host, ':');
	(void)snprintf(option, sizeof(option), "--allow %s%s%s", brackets ? "[" : "",
		       host, brackets ? "]" : "");
	if (port)
		(void)snprintf(option + strlen(option), sizeof(option) - strlen(option),
			       ":%u", port);
	if (!host[0] || json_object_get(seen, option))
		return;
	(void)json_object_set_new(seen, option, json_true());
	if (out->len && out->data[out->len - 1] != '\n')
		buf_puts(out, " ");
	buf_puts(out, option);
}

/* Options cannot name protocols, so write one option for each port. */
static void network_put_rule(struct buf *out, json_t *seen, const struct rule *rule)
{
	if (rule->n_ports == 0)
		network_put_option(out, seen, rule, 0);
	for (size_t i = 0; i < rule->n_ports; i++)
		for (unsigned port = rule->ports[i].low; port <= rule->ports[i].high;
		     port++)
			network_put_option(out, seen, rule, (uint16_t)port);
}

static void network_suggest_put_rules(struct buf *out, json_t *seen,
				      const struct policy *p)
{
	for (size_t i = 0; i < p->allow.n; i++)
		network_put_rule(out, seen, &p->allow.list[i]);
}

static void network_end_line(struct buf *out)
{
	if (out->len && out->data[out->len - 1] != '\n')
		buf_puts(out, "\n");
}

static void network_put_denial(struct buf *out, json_t *seen, const json_t *denial)
{
	AUTO_BUF struct buf reason = BUF_INIT(8192);
	AUTO_POLICY struct policy p = { 0 };

	buf_puts(&reason, "# denied: ");
	network_put_clean(&reason, print_text_of(denial, "reason"));
	if (reason.failed || json_object_get(seen, reason.data))
		return;
	(void)json_object_set_new(seen, reason.data, json_true());
	buf_printf(out, "%s\n", reason.data);
	network_suggest_read_rules(denial, &p);
	network_suggest_put_rules(out, seen, &p);
	network_end_line(out);
}

void network_suggest_denial(const json_t *denial, struct buf *out)
{
	AUTO_JSON json_t *seen = json_object();
	AUTO_POLICY struct policy p = { 0 };

	network_suggest_read_rules(denial, &p);
	network_suggest_put_rules(out, seen, &p);
}

int network_suggest_options(const json_t *record, struct buf *out,
			    struct warren_error *err)
{
	const json_t *denials = json_object_get(record, "denials");
	AUTO_JSON json_t *seen = json_object();
	AUTO_POLICY struct policy used = { 0 };
	int r = network_read_used(record, &used, err);

	if (r < 0)
		return r;
	network_suggest_put_rules(out, seen, &used);
	network_end_line(out);
	if (json_is_false(json_object_get(record, "used_complete")))
		buf_puts(out, "# not everything could be recorded\n");
	for (size_t i = 0; i < json_array_size(denials); i++)
		network_put_denial(out, seen, json_array_get(denials, i));
	if (out->len == 0)
		buf_puts(out, "# no connections\n");
	return out->failed ? error_errno(err, ENOMEM, "suggest a policy") : 0;
}
