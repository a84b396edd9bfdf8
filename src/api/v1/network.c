/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.c - the network of a sandbox: read a policy from a request, show it, change it
 */
#include "service/network/network.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1/network.h"
#include "api/v1/v1.h"
#include "base/date.h"
#include "base/json.h"
#include "base/strv.h"
#include "config/config.h"
#include "network/capability.h"
#include "network/header.h"
#include "network/policy_json.h"
#include "network/within.h"
#include "service/core/secret.h"

#define CAPABILITIES_MAX 256

/* -------------------------------------------------- capabilities of the configuration */

/* The named sets of rules in the configuration. */
struct network_capabilities {
	struct capability_row rows[CAPABILITIES_MAX];
	struct policy policies[CAPABILITIES_MAX];
	size_t n;
};

static void network_capabilities_done(struct network_capabilities *all)
{
	for (size_t i = 0; i < all->n; i++)
		policy_done(&all->policies[i]);
}

static int network_read_capabilities(const struct config *cfg,
				     struct network_capabilities *ret,
				     struct warren_error *err)
{
	json_t *in = json_object_get(cfg->network, "capabilities"), *value;
	const struct policy_limits none = { 0 };
	const char *name;
	int r = 0;

	ret->n = 0;
	json_object_foreach(in, name, value)
	{
		char at[128];

		if (ret->n == CAPABILITIES_MAX)
			return error_set(err, E2BIG, "network.capabilities: at most %d",
					 CAPABILITIES_MAX);
		(void)snprintf(at, sizeof(at), "network.capabilities.%.60s", name);
		ret->policies[ret->n] = (struct policy){ 0 };
		r = policy_read(value, at, &ret->policies[ret->n], err);
		if (r < 0)
			return r;
		/* A capability may only contain rules; limits would be accepted, but
		 * ignored. */
		if (memcmp(&ret->policies[ret->n].limits, &none, sizeof(none)) != 0) {
			policy_done(&ret->policies[ret->n]);
			return error_set(
				err, EINVAL,
				"%s: a capability has no limits; set them in the "
				"policy of a sandbox",
				at);
		}
		ret->rows[ret->n] =
			(struct capability_row){ name, &ret->policies[ret->n] };
		ret->n++;
	}
	return 0;
}

/* Read what the administrator permits; the default is every public address. */
static int network_read_permit(const struct config *cfg, struct policy *ret,
			       struct warren_error *err)
{
	const json_t *permit = json_object_get(cfg->network, "permit");
	const struct host everything = { .kind = HOST_PUBLIC };
	struct rule *rule;
	int r;

	if (permit)
		return policy_read(permit, "network.permit", ret, err);
	r = policy_add(ret, &ret->allow, &everything, &rule, err);
	return r < 0 ? r : rule_finish(rule, err);
}

int v1_check_network(const struct config *cfg, struct warren_error *err)
{
	struct network_capabilities *all = malloc(sizeof(*all));
	AUTO_POLICY struct policy permit = { 0 };
	int r;

	if (!all)
		return error_errno(err, ENOMEM, "read the section 'network'");
	r = network_read_capabilities(cfg, all, err);
	if (r == 0)
		r = network_read_permit(cfg, &permit, err);
	network_capabilities_done(all);
	free(all);
	return r;
}

/* ---------------------------------------------------------------- policy of a request */

static int network_add_capabilities(const struct config *cfg, const json_t *in,
				    struct policy *p, struct warren_error *err)
{
	struct network_capabilities *all = malloc(sizeof(*all));
	AUTO_BUF struct buf list = BUF_INIT(1U << 16);
	size_t i;
	json_t *value;
	int r = all ? network_read_capabilities(cfg, all, err)
		    : error_errno(err, ENOMEM, "read the policy");

	if (json_is_string(in))
		buf_puts(&list, json_string_value(in));
	json_array_foreach(in, i, value)
		buf_printf(&list, "%s%s", i > 0 ? "," : "", json_string_value(value));
	if (r == 0 && list.failed)
		r = error_errno(err, ENOMEM, "read the policy");
	if (r == 0 && list.len > 0) {
		const struct capability_table table = { all->rows, all->n };

		r = policy_option_network(p, &table, list.data, err);
		if (r < 0)
			(void)error_wrap(err, "/network%s",
					 json_is_array(in) ? "/capabilities" : "");
	}
	if (all)
		network_capabilities_done(all);
	free(all);
	return r;
}

/* Read the rules of an object. The key for capabilities is not part of a policy, so
 * remove it first. */
static int network_read_rules(const json_t *in, struct policy *p,
			      struct warren_error *err)
{
	json_t *copy = json_copy((json_t *)(uintptr_t)in);
	int r;

	if (!copy)
		return error_errno(err, ENOMEM, "read the policy");
	(void)json_object_del(copy, "capabilities");
	r = policy_read(copy, "/network", p, err);
	json_decref(copy);
	return r;
}

/* Check that the tenant has the secrets of its policy; their values are not needed
 * here. */
static int network_check_secrets(struct service *s, const char *tenant, struct policy *p,
				 struct warren_error *err)
{
	struct secret_source source = { s, tenant };
	struct warren_error why = WARREN_ERROR_INIT;
	int r = policy_resolve_secrets(p, secret_lookup, &source, &why);

	policy_secrets_done(p);
	/* The error begins with a location in the policy: "/allow/0/headers/X: ...". */
	return r < 0 ? error_set(err, -r, "/network%s", why.msg) : 0;
}

/* A rule sends its secrets to the host that it names, so naming one is as good as reading
 * it. -EACCES: the policy names one. */
static int network_refuse_secrets(const struct policy *p, struct warren_error *err)
{
	AUTO_STRV char **names = NULL;
	int r = policy_secret_names(p, &names, err);

	if (r == 0 && names)
		r = error_set(
			err, EACCES,
			"/network: the policy uses secrets, and the token lacks the "
			"scope 'secrets'");
	return r;
}

static int network_read_policy(struct v1 *v1, const char *tenant, bool may_use_secrets,
			       const json_t *in, struct buf *out, bool *ret_terminates,
			       struct warren_error *err)
{
	AUTO_POLICY struct policy p = { 0 }, permit = { 0 };
	struct json j = { .out = out };
	struct warren_error why = WARREN_ERROR_INIT;
	int r = 0;

	if (json_is_object(in))
		r = network_read_rules(in, &p, err);
	if (r == 0 && !may_use_secrets)
		r = network_refuse_secrets(&p, err);
	if (r == 0)
		r = network_add_capabilities(
			v1->config,
			json_is_object(in) ? json_object_get(in, "capabilities") : in, &p,
			err);
	if (r == 0)
		r = network_check_secrets(v1->service, tenant, &p, err);
	if (r == 0)
		r = network_read_permit(v1->config, &permit, err);
	if (r == 0)
		r = policy_restrict(&p, &permit, err);
	if (r < 0)
		return r;
	policy_write(&p, &j, NULL);
	*ret_terminates = policy_needs_trust(&p);
	/* The administrator's policy restricts hosts. Headers contain the tenant's own
	 * secrets, so they are not compared. */
	for (size_t i = 0; i < p.allow.n; i++)
		rule_headers_done(&p.allow.list[i]);
	r = policy_within(&permit, &p, &why);
	if (r == 0)
		return error_set(err, EPERM,
				 "/network%s: the service does not permit this policy "
				 "(network.permit in its configuration); %s",
				 json_object_get(in, "allow") ? "/allow" : "", why.msg);
	if (r < 0)
		*err = why;
	if (r > 0 && out->failed)
		r = error_errno(err, ENOMEM, "read the policy");
	return r < 0 ? r : 1;
}

/* NOLINTNEXTLINE(readability-function-size): a request, its tenant, and three results */
int network_read(struct v1 *v1, const char *tenant, bool may_use_secrets,
		 const struct body *body, const struct config_backend *backend,
		 struct buf *out, enum v1_network *ret, bool *ret_terminates,
		 struct api_error *err)
{
	const json_t *in = json_object_get(body->json, "network");
	const char *text = json_string_value(in);
	struct warren_error why = WARREN_ERROR_INIT;
	int r;

	*ret_terminates = false;
	*ret = V1_NETWORK_LOOPBACK;
	if (!in || (text && strcmp(text, v1_network_names[V1_NETWORK_LOOPBACK]) == 0))
		return 0;
	*ret = V1_NETWORK_NONE;
	if (text && strcmp(text, v1_network_names[V1_NETWORK_NONE]) == 0)
		return 0;
	*ret = V1_NETWORK_POLICY;
	if (!backend->policies) {
		(void)api_error_set(
			err, API_ERR_NOT_SUPPORTED,
			"/network: backend '%s' cannot enforce a network policy",
			backend->name);
		api_error_text(err, "pointer", "/network");
		api_error_text(err, "backend", "%s", backend->name);
		return -EBADMSG;
	}
	r = network_read_policy(v1, tenant, may_use_secrets, in, out, ret_terminates,
				&why);
	if (r > 0)
		return 0;
	(void)api_error_set(err,
			    r == -EPERM    ? API_ERR_POLICY_REFUSED
			    : r == -EACCES ? API_ERR_FORBIDDEN
			    : r == -ENOMEM ? API_ERR_OVERLOADED
					   : API_ERR_INVALID_REQUEST,
			    "%s", why.msg);
	api_error_text(err, "pointer", "%.*s", (int)strcspn(why.msg, ":"), why.msg);
	if (r == -EACCES)
		api_error_text(err, "scope", "secrets");
	return -EBADMSG;
}

/* --------------------------------------------------------- policies and usage as JSON */

void network_usage_to_json(struct json *j, const char *key,
			   const struct egress_usage *usage)
{
	json_open(j, key, '{');
	json_u64(j, "connections", usage->connections);
	json_u64(j, "denied", usage->denied);
	json_u64(j, "bytes_in", usage->bytes_in);
	json_u64(j, "bytes_out", usage->bytes_out);
	json_close(j, '}');
}

/* Update @u with the answer of warren-egress, which is newer. */
static void network_newer_usage(struct egress_usage *u, const json_t *in)
{
	const struct {
		const char *name;
		uint64_t *value;
	} members[] = {
		{ "connections", &u->connections },
		{ "denied", &u->denied },
		{ "bytes_in", &u->bytes_in },
		{ "bytes_out", &u->bytes_out },
	};

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		const json_t *now = json_object_get(in, members[i].name);

		if (now)
			*members[i].value = (uint64_t)json_integer_value(now);
	}
}

/* Write the answer of warren-egress, with times in the format of the API. */
static void network_put_answer(struct json *j, json_t *in)
{
	static const char *const members[] = { "live_count", "live", "denials", "used",
					       "used_complete" };
	json_t *value;
	size_t i;

	json_array_foreach(json_object_get(in, "denials"), i, value)
	{
		char time[DATE_SIZE];

		date_iso(time,
			 (int64_t)(json_number_value(json_object_get(value, "time")) *
				   1000));
		(void)json_object_set_new(value, "time", json_string(time));
	}
	for (i = 0; i < ARRAY_SIZE(members); i++) {
		json_t *m = json_object_get(in, members[i]);
		char *dump = m ? json_dumps(m, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

		if (dump)
			json_raw(j, members[i], dump, strlen(dump));
		free(dump);
	}
}

static void network_respond(struct call *c, const struct sandbox *sandbox,
			    const char *text, size_t n)
{
	AUTO_BUF struct buf out = BUF_INIT(32U << 20);
	const char *policy = network_policy(sandbox);
	struct json j = { .out = &out };
	json_t *in = text ? json_loadb(text, n, 0, NULL) : NULL;
	struct egress_usage usage = *network_usage(sandbox);

	json_open(&j, NULL, '{');
	json_str(&j, "network", sandbox_row(sandbox)->network);
	if (policy)
		json_raw(&j, "policy", policy, strlen(policy));
	if (network_distrust(sandbox))
		json_str(&j, "distrust", network_distrust(sandbox));
	network_newer_usage(&usage, in);
	network_usage_to_json(&j, "usage", &usage);
	network_put_answer(&j, in);
	json_close(&j, '}');
	json_decref(in);
	call_json(c, 200, &out);
}

static void network_on_queried(void *ctx, int r, const char *json, size_t n,
			       const struct warren_error *err UNUSED)
{
	struct call *c = ctx;
	const struct sandbox *sandbox =
		sandbox_find(c->v1->service, NULL, c->route.param[0]);

	if (c->req && !sandbox)
		call_refuse(c, API_ERR_SANDBOX_NOT_FOUND,
			    "it was deleted in the meantime");
	else if (c->req)
		network_respond(c, sandbox, r < 0 ? NULL : json, n);
	call_unref(c);
}

void v1_get_network(struct call *c)
{
	struct sandbox *sandbox = call_sandbox(c);

	if (!sandbox)
		return;
	if (network_policy(sandbox))
		network_query(sandbox, network_on_queried, call_ref(c));
	else
		network_respond(c, sandbox, NULL, 0);
}
