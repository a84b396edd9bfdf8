/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.c - the network settings of the SDKs, as a policy of Warren
 *
 * The SDKs allow everything, except what denyOut lists, except what allowOut lists. In a
 * policy of Warren, what is denied stays denied. Both mean the same if denyOut is empty,
 * if it denies everything, or if allowOut is empty; other combinations are refused.
 */
#include <errno.h>
#include <string.h>

#include "api/e2b/internal.h"

#define EVERYTHING "0.0.0.0/0"

static int network_memory(struct api_error *err)
{
	return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
}

static bool network_has_everything(json_t *list)
{
	json_t *value;
	size_t i;

	json_array_foreach(list, i, value) if (strcmp(json_string_value(value),
						      EVERYTHING) == 0) return true;
	return false;
}

/* Add a rule for each host of @from, except the one that means everything. */
static int network_add_hosts(json_t *to, json_t *from)
{
	json_t *value;
	size_t i;

	json_array_foreach(from, i, value)
	{
		const char *host = json_string_value(value);
		json_t *rule = strcmp(host, EVERYTHING) == 0
				       ? json_pack("{sb}", "public", 1)
				       : json_pack("{ss}", "host", host);

		if (json_array_append_new(to, rule) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* "${e2b.secrets.NAME}" becomes "${secret.NAME}". */
static json_t *network_header_value(const char *text)
{
	static const char theirs[] = "${e2b.secrets.", ours[] = "${secret.";
	AUTO_BUF struct buf out = BUF_INIT(65536);
	const char *at;

	for (; (at = strstr(text, theirs)); text = at + strlen(theirs)) {
		buf_add(&out, text, (size_t)(at - text));
		buf_puts(&out, ours);
	}
	buf_puts(&out, text);
	return out.failed ? NULL : json_string(out.data);
}

/* Requests to these hosts get headers; the rule also allows them. */
static int network_add_transforms(json_t *to, json_t *rules, struct api_error *err)
{
	const char *host, *name;
	json_t *list, *value;

	json_object_foreach(rules, host, list)
	{
		json_t *transform = json_object_get(json_array_get(list, 0), "transform");
		json_t *headers = json_object_get(transform, "headers");
		json_t *rule = json_pack("{ss, s[s], s{}}", "host", host, "protocols",
					 "https", "headers");
		json_t *out = json_object_get(rule, "headers");

		json_object_foreach(headers, name, value)
		{
			if (strstr(json_string_value(value), "${e2b.identity.")) {
				json_decref(rule);
				return api_error_set(
					err, API_ERR_NOT_SUPPORTED,
					"network.rules: tokens of an identity are not "
					"supported: use a secret");
			}
			if (json_object_set_new(
				    out, name,
				    network_header_value(json_string_value(value))) < 0) {
				json_decref(rule);
				return network_memory(err);
			}
		}
		if (json_object_size(out) == 0) {
			json_decref(rule);
			return api_error_set(err, API_ERR_INVALID_REQUEST,
					     "network.rules: '%.100s' has no headers",
					     host);
		}
		if (json_array_append_new(to, rule) < 0)
			return network_memory(err);
	}
	return 0;
}

/* @internet: -1: the request does not say. */
static int network_build(struct body *network, int internet, json_t *allow, json_t *deny,
			 struct api_error *err)
{
	json_t *allow_out = body_json(network, "allowOut");
	json_t *deny_out = body_json(network, "denyOut");
	json_t *rules = body_json(network, "rules");
	bool none = internet != 1 || network_has_everything(deny_out);

	if (!none && json_array_size(allow_out) > 0 && json_array_size(deny_out) > 0)
		return api_error_set(
			err, API_ERR_INVALID_REQUEST,
			"network: exceptions from denied hosts are not supported: deny '%s' "
			"and list in allowOut what is allowed",
			EVERYTHING);
	if (network_add_transforms(allow, rules, err) < 0)
		return -EBADMSG;
	if (network_add_hosts(allow, allow_out) < 0 ||
	    (!none && network_add_hosts(deny, deny_out) < 0))
		return network_memory(err);
	/* allowOut restricts nothing if everything is allowed. */
	if (!none && json_array_append_new(allow, json_pack("{sb}", "public", 1)) < 0)
		return network_memory(err);
	return 0;
}

int e2b_network(struct body *network, int internet, json_t **ret, struct api_error *err)
{
	json_t *allow = json_array(), *deny = json_array();
	int r = allow && deny ? network_build(network, internet, allow, deny, err)
			      : network_memory(err);
	json_t *out = NULL;

	if (r == 0 && json_array_size(allow) + json_array_size(deny) > 0)
		out = json_pack("{sO, sO}", "allow", allow, "deny", deny);
	else if (r == 0 &&
		 (internet == 0 || network_has_everything(body_json(network, "denyOut"))))
		out = json_string("loopback");
	json_decref(allow);
	json_decref(deny);
	*ret = out;
	return r;
}
