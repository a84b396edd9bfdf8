/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_spec.c - the text of a sandbox's spec: the fields that the service uses and
 * changes
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "service/core/internal.h"
#include "spec/spec.h"

static json_t *sandbox_spec_load(const char *text)
{
	return json_loads(text ? text : "{}", JSON_REJECT_DUPLICATES, NULL);
}

static enum sandbox_action spec_action(const json_t *spec, const char *key,
				       enum sandbox_action otherwise)
{
	static const char *const names[ACTION_MAX] = {
		[ACTION_PAUSE] = "pause",
		[ACTION_HIBERNATE] = "hibernate",
		[ACTION_DELETE] = "delete",
	};
	const char *name = json_string_value(json_object_get(spec, key));

	for (size_t i = 0; name && i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return (enum sandbox_action)i;
	return otherwise;
}

/* Read the spec's settings for a sandbox that is idle, or whose time has passed. */
void spec_read_idle(struct sandbox *sandbox)
{
	json_t *spec = sandbox_spec_load(sandbox->row.spec);
	const json_t *wake = json_object_get(spec, "wake_on_use");

	sandbox->on_idle = spec_action(spec, "on_idle", ACTION_PAUSE);
	sandbox->on_ttl = spec_action(spec, "on_ttl", ACTION_DELETE);
	sandbox->lifetime_ms =
		(uint64_t)json_integer_value(json_object_get(spec, SANDBOX_LIFETIME));
	sandbox->wake_on_use = !wake || json_is_true(wake);
	sandbox->persist = json_is_true(json_object_get(spec, "persist"));
	sandbox->code_run = json_is_true(json_object_get(spec, "code_run"));
	json_decref(spec);
}

/* If @network is NULL, it is unchanged, like limits that are not given. */
static int store_spec(const struct sandbox *sandbox, json_t *spec, const char *network,
		      const struct warren_limits *limits, struct warren_error *err)
{
	struct sandbox_row row = sandbox->row;
	char *text = json_dumps(spec, JSON_COMPACT);
	int r;

	if (!text)
		return error_errno(err, ENOMEM, "change the sandbox");
	row.spec = text;
	if (network)
		row.network = network;
	if (limits && limits->memory)
		row.memory = limits->memory;
	if (limits && limits->cpu_millis)
		row.cpu_millis = limits->cpu_millis;
	r = db_set_limits(sandbox->service->db, sandbox->row.id, &row, err);
	free(text);
	return r;
}

void sandbox_limits(const struct sandbox *sandbox, struct warren_limits *ret)
{
	json_t *spec = sandbox_spec_load(sandbox->row.spec),
	       *l = json_object_get(spec, "limits");

	for (size_t i = 0; i < SPEC_LIVE_MAX; i++)
		spec_live_set(ret, i,
			      (uint64_t)json_integer_value(
				      json_object_get(l, spec_limits[i].name)));
	json_decref(spec);
}

int spec_set_limits(struct sandbox *sandbox, const struct warren_limits *limits,
		    struct warren_error *err)
{
	json_t *spec = sandbox_spec_load(sandbox->row.spec),
	       *old = json_object_get(spec, "limits");
	int r;

	if (!old) {
		json_decref(spec);
		return error_errno(err, ENOMEM, "change the limits");
	}
	for (size_t i = 0; i < SPEC_LIVE_MAX; i++) {
		uint64_t value = spec_live_get(limits, i);

		if (value)
			(void)json_object_set_new(old, spec_limits[i].name,
						  json_integer((json_int_t)value));
	}
	r = store_spec(sandbox, spec, NULL, limits, err);
	json_decref(spec);
	return r < 0 ? r : sandbox_refresh(sandbox, err);
}

/* The time that a sandbox runs each time is its time to live, as it was last set. */
static void spec_put_lifetime(const struct sandbox *sandbox, json_t *spec,
			      const struct sandbox_change *c)
{
	int64_t now = service_time();
	int64_t from = c->sets_times && c->expires_at != sandbox->row.expires_at
			       ? now
			       : sandbox->row.created_at;

	if (spec_action(spec, "on_ttl", ACTION_DELETE) == ACTION_DELETE ||
	    c->expires_at == 0)
		(void)json_object_del(spec, SANDBOX_LIFETIME);
	else if (from == now || !json_object_get(spec, SANDBOX_LIFETIME))
		(void)json_object_set_new(spec, SANDBOX_LIFETIME,
					  json_integer(c->expires_at - from));
}

int spec_write_idle(const struct sandbox *sandbox, const struct sandbox_change *c,
		    struct warren_error *err)
{
	json_t *spec = sandbox_spec_load(sandbox->row.spec);
	int r;

	if (!spec)
		return error_errno(err, ENOMEM, "change the sandbox");
	if (c->on_idle)
		(void)json_object_set_new(spec, "on_idle", json_string(c->on_idle));
	if (c->on_ttl)
		(void)json_object_set_new(spec, "on_ttl", json_string(c->on_ttl));
	if (c->wake_on_use >= 0)
		(void)json_object_set_new(spec, "wake_on_use",
					  json_boolean(c->wake_on_use));
	spec_put_lifetime(sandbox, spec, c);
	r = store_spec(sandbox, spec, NULL, NULL, err);
	json_decref(spec);
	return r;
}

int spec_set_network(struct sandbox *sandbox, const char *policy,
		     struct warren_error *err)
{
	const char *network = policy ? "policy" : "loopback";
	json_t *spec = sandbox_spec_load(sandbox->row.spec);
	AUTO_DB_TX struct db_tx tx = { 0 };
	int r = json_object_set_new(spec, "network", json_string(network)) < 0
			? error_errno(err, ENOMEM, "change the network")
			: db_begin(sandbox->service->db, DB_CRASH_SAFE, &tx, err);

	if (r == 0)
		r = db_set_policy(sandbox->service->db, sandbox->row.id, policy, err);
	if (r == 0)
		r = store_spec(sandbox, spec, network, NULL, err);
	json_decref(spec);
	if (r == 0)
		r = db_commit(&tx, err);
	return r < 0 ? r : sandbox_refresh(sandbox, err);
}
