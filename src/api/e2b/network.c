/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.c - the network settings of the SDKs, as a policy of Warren
 *
 * The SDKs allow everything, except what denyOut lists, except what allowOut lists. In a
 * policy of Warren, what is denied stays denied. Both mean the same if denyOut is empty,
 * if it denies everything, or if allowOut is empty; other combinations are refused.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "api/e2b/internal.h"
#include "service/network/network.h"

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

/* A name of a host as policies write it: in lower case. */
static json_t *network_host(const char *host)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);

	buf_puts(&out, host);
	for (size_t i = 0; i < out.len; i++)
		out.data[i] = (char)tolower((unsigned char)out.data[i]);
	return out.failed ? NULL : json_string(out.len > 0 ? out.data : "");
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
				       : json_pack("{so}", "host", network_host(host));

		if (json_array_append_new(to, rule) < 0)
			return -ENOMEM;
	}
	return 0;
}

#define SECRET_THEIRS "${e2b.secrets."
#define SECRET_OURS   "${secret."

static void network_put_value(struct buf *out, const char *text, const char *from,
			      const char *to)
{
	const char *at;

	for (; (at = strstr(text, from)); text = at + strlen(from)) {
		buf_add(out, text, (size_t)(at - text));
		buf_puts(out, to);
	}
	buf_puts(out, text);
}

/* "${e2b.secrets.NAME}" becomes "${secret.NAME}". */
static json_t *network_header_value(const char *text)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);

	network_put_value(&out, text, SECRET_THEIRS, SECRET_OURS);
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
		json_t *rule = json_pack("{so, s[s], s{}}", "host", network_host(host),
					 "protocols", "https", "headers");
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

/* Does an entry of the list stand for the host? */
static bool network_covers(json_t *list, const char *host)
{
	json_t *value;
	size_t i, n = strlen(host);

	json_array_foreach(list, i, value)
	{
		const char *entry = json_string_value(value);
		size_t m = strlen(entry);

		if (strcmp(entry, EVERYTHING) == 0 || strcasecmp(entry, host) == 0)
			return true;
		if (strncmp(entry, "*.", 2) == 0 && n >= m &&
		    strcasecmp(host + n - (m - 1), entry + 1) == 0)
			return true;
	}
	return false;
}

/*
 * In E2B, a rule does not open the network. Here it does, because the default is that
 * nothing is allowed; but not against what the request says.
 */
static int network_check_rules(json_t *rules, json_t *allow_out, bool denied,
			       struct api_error *err)
{
	const char *host;
	json_t *value;

	json_object_foreach(rules, host, value)
	{
		if (strchr(host, '*'))
			return api_error_set(
				err, API_ERR_INVALID_REQUEST,
				"network.rules: '%.100s' is not the name of one host: "
				"headers cannot be added for others",
				host);
		if (denied && !network_covers(allow_out, host))
			return api_error_set(
				err, API_ERR_INVALID_REQUEST,
				"network.rules: '%.100s' cannot be reached: add it to "
				"allowOut",
				host);
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
	if (network_check_rules(rules, allow_out,
				internet == 0 || network_has_everything(deny_out),
				err) < 0 ||
	    network_add_transforms(allow, rules, err) < 0)
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

/* ---------------------------------------------------------------------- show */

bool e2b_network_is_public(const json_t *policy)
{
	json_t *allow = json_object_get(policy, "allow"), *rule;
	size_t i;

	json_array_foreach(allow, i, rule) if (json_is_true(json_object_get(
						       rule, "public"))) return true;
	return false;
}

/* Write the hosts of rules without headers; @all: and one that means everything. */
static void network_put_hosts(struct json *j, const char *key, json_t *rules, bool all)
{
	json_t *rule;
	size_t i;

	json_open(j, key, '[');
	json_array_foreach(rules, i, rule)
	{
		const char *host = json_string_value(json_object_get(rule, "host"));

		if (host && !json_object_get(rule, "headers"))
			json_str(j, NULL, host);
	}
	if (all)
		json_str(j, NULL, EVERYTHING);
	json_close(j, ']');
}

static void network_put_transform(struct json *j, const char *host, json_t *headers)
{
	const char *name;
	json_t *value;

	json_open(j, host, '[');
	json_open(j, NULL, '{');
	json_open(j, "transform", '{');
	json_open(j, "headers", '{');
	json_object_foreach(headers, name, value)
	{
		AUTO_BUF struct buf out = BUF_INIT(65536);

		network_put_value(&out, json_string_value(value), SECRET_OURS,
				  SECRET_THEIRS);
		json_str(j, name, out.failed ? "" : out.data);
	}
	json_close(j, '}');
	json_close(j, '}');
	json_close(j, '}');
	json_close(j, ']');
}

static void e2b_network_put_rules(struct json *j, json_t *allow)
{
	json_t *rule;
	size_t i;

	json_open(j, "rules", '{');
	json_array_foreach(allow, i, rule)
	{
		const char *host = json_string_value(json_object_get(rule, "host"));
		json_t *headers = json_object_get(rule, "headers");

		if (host && json_object_size(headers) > 0)
			network_put_transform(j, host, headers);
	}
	json_close(j, '}');
}

void e2b_network_to_json(struct json *j, const struct sandbox *sandbox)
{
	const char *internet = e2b_label(sandbox, E2B_LABEL_INTERNET);
	const char *text = network_policy(sandbox);
	json_t *policy = text ? json_loads(text, 0, NULL) : NULL;
	json_t *allow = json_object_get(policy, "allow");
	bool asked = internet && strcmp(internet, "true") == 0;
	bool public = e2b_network_is_public(policy);

	if (internet)
		json_bool(j, "allowInternetAccess", asked);
	else
		json_nil(j, "allowInternetAccess");
	json_open(j, "network", '{');
	json_bool(j, "allowPublicTraffic", !e2b_label(sandbox, E2B_LABEL_TRAFFIC));
	network_put_hosts(j, "allowOut", allow, public && !asked);
	network_put_hosts(j, "denyOut", json_object_get(policy, "deny"), !public);
	e2b_network_put_rules(j, allow);
	json_close(j, '}');
	json_decref(policy);
}
