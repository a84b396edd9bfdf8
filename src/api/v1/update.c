/* SPDX-License-Identifier: Apache-2.0 */
/*
 * update.c - handler: change a running sandbox
 *
 * Either all changes are made or none. The changes in the database are one transaction,
 * which is first tried without being committed. Then the limits are changed, because only
 * this step can be refused by the kernel, and finally the transaction is committed. If
 * the transaction fails now, because another request took the name in the meantime, the
 * old limits are restored.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1/network.h"
#include "api/v1/v1.h"
#include "config/config.h"
#include "proto/warden_proto.h"
#include "service/network/network.h"
#include "spec/spec.h"

struct update_op {
	struct call *call; /* a reference; its client may be gone */
	struct warren_limits before;
	bool more;               /* something besides the limits changes */
	struct warren_error err; /* why the old limits must be restored */
};

/* Merge the changes into the current labels; a null removes a label. */
static int update_read_labels(const struct body *body, const struct sandbox_row *row,
			      struct db_label labels[DB_LABELS_MAX], size_t *ret_n,
			      struct warren_error *err)
{
	json_t *changes = body_json(body, "labels"), *value;
	size_t n = 0;
	const char *key;

	for (size_t i = 0; i < row->n_labels; i++)
		if (!json_object_get(changes, row->labels[i].key))
			labels[n++] = row->labels[i];
	json_object_foreach(changes, key, value)
	{
		if (json_is_null(value))
			continue;
		if (n == DB_LABELS_MAX)
			return error_set(err, EINVAL, "/labels: at most %d labels",
					 DB_LABELS_MAX);
		labels[n++] = (struct db_label){ key, json_string_value(value) };
	}
	*ret_n = n;
	return 0;
}

static void update_read_times(const struct body *body, const struct sandbox_row *row,
			      struct sandbox_change *change)
{
	change->expires_at = row->expires_at;
	change->idle_timeout_ms = row->idle_timeout_ms;
	if (body_has(body, "ttl_ms"))
		change->expires_at = service_time() + body_int(body, "ttl_ms");
	else if (body_is_null(body, "ttl_ms"))
		change->expires_at = 0;
	if (body_has(body, "idle_timeout_ms"))
		change->idle_timeout_ms = (uint64_t)body_int(body, "idle_timeout_ms");
	else if (body_is_null(body, "idle_timeout_ms"))
		change->idle_timeout_ms = 0;
	change->sets_times = change->expires_at != row->expires_at ||
			     change->idle_timeout_ms != row->idle_timeout_ms;
}

static const char *update_text(const struct body *body, const char *field)
{
	return body_has(body, field) ? body_text(body, field) : NULL;
}

/* Refuse an action that the sandbox's backend or the configuration does not allow. */
static bool update_actions_ok(struct call *c, const struct sandbox *sandbox)
{
	static const char *const fields[] = { "on_idle", "idle_action", "on_ttl" };
	const struct body *body = &c->body;
	const struct config_backend *b =
		config_backend(c->v1->config, sandbox_row(sandbox)->backend);
	bool hibernates = b && b->hibernates;
	const char *on_ttl = update_text(body, "on_ttl");

	if (body_has(body, "idle_action") && body_has(body, "on_idle")) {
		call_refuse(c, API_ERR_INVALID_REQUEST,
			    "/idle_action: this is another name for on_idle; give only "
			    "one of them");
		return false;
	}
	for (size_t i = 0; !hibernates && i < ARRAY_SIZE(fields); i++) {
		const char *text = update_text(body, fields[i]);

		if (text && strcmp(text, v1_on_idle_names[V1_ON_IDLE_HIBERNATE]) == 0) {
			call_refuse(c, API_ERR_NOT_SUPPORTED,
				    "/%s: backend '%s' cannot hibernate sandboxes",
				    fields[i], sandbox_row(sandbox)->backend);
			return false;
		}
	}
	if (on_ttl && c->v1->config->max.ttl_ms &&
	    strcmp(on_ttl, v1_on_ttl_names[V1_ON_TTL_DELETE]) != 0) {
		call_refuse(c, API_ERR_POLICY_REFUSED,
			    "/on_ttl: the service deletes sandboxes at a maximum age");
		return false;
	}
	return true;
}

/* Make the requested changes in the database, or (@try) only check them. */
static int update_change(const struct body *body, struct sandbox *sandbox, bool try,
			 struct warren_error *err)
{
	const struct sandbox_row *row = sandbox_row(sandbox);
	struct db_label labels[DB_LABELS_MAX];
	struct sandbox_change change = {
		.name = body_text(body, "name"),
		.labels = labels,
		.sets_labels = body_json(body, "labels") != NULL,
		.on_idle = update_text(body, "on_idle"),
		.on_ttl = update_text(body, "on_ttl"),
		.wake_on_use = body_has(body, "wake_on_use")
				       ? body_bool(body, "wake_on_use")
				       : -1,
	};
	int r = 0;

	if (body_has(body, "idle_action"))
		change.on_idle = body_text(body, "idle_action");
	if (change.sets_labels)
		r = update_read_labels(body, row, labels, &change.n_labels, err);
	if (r < 0)
		return r;
	update_read_times(body, row, &change);
	if (!change.name && !change.sets_labels && !change.sets_times &&
	    !change.on_idle && !change.on_ttl && change.wake_on_use < 0)
		return 0;
	return try ? sandbox_change_check(sandbox, &change, err)
		   : sandbox_change(sandbox, &change, err);
}

static void update_answer(struct call *c, struct sandbox *sandbox)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);

	sandbox_to_json(&out, sandbox);
	call_json(c, 200, &out);
}

static void update_op_end(struct update_op *op)
{
	call_unref(op->call);
	free(op);
}

static void update_on_restored(void *ctx, int r UNUSED,
			       const struct warren_error *err UNUSED)
{
	struct update_op *op = ctx;

	if (op->call->req)
		call_fail(op->call, &op->err);
	update_op_end(op);
}

static void on_limits(void *ctx, int r, const struct warren_error *err)
{
	struct update_op *op = ctx;
	struct call *c = op->call;
	struct sandbox *sandbox = sandbox_find(c->v1->service, NULL, c->route.param[0]);

	/* If the client is gone, its request has been freed, so nothing is changed. */
	if (r == 0 && sandbox && op->more &&
	    (!c->req || update_change(&c->body, sandbox, false, &op->err) < 0)) {
		sandbox_update(sandbox, &op->before, update_on_restored, op);
		return;
	}
	/* The sandbox uses the memory, and the kernel does not reclaim it. */
	if (c->req && r == -EBUSY)
		call_refuse(c, API_ERR_LIMIT_REFUSED, "%s", err->msg);
	else if (c->req && r < 0)
		call_fail(c, err);
	else if (c->req && !sandbox)
		call_refuse(c, API_ERR_SANDBOX_NOT_FOUND,
			    "the sandbox was deleted in the meantime");
	else if (c->req)
		update_answer(c, sandbox);
	update_op_end(op);
}

static void update_limits(struct call *c, struct sandbox *sandbox,
			  const struct warren_limits *want)
{
	struct update_op *op = calloc(1, sizeof(*op));

	if (!op) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	/* The change may wait; if the client disconnects in the meantime, its body is
	 * freed. */
	c->gone = call_drop_body;
	op->call = call_ref(c);
	op->more = json_object_size(c->body.json) > 1;
	op->err = (struct warren_error)WARREN_ERROR_INIT;
	sandbox_limits(sandbox, &op->before);
	sandbox_update(sandbox, want, on_limits, op);
}

/* -------------------------------------------------------------------- network */

struct update_network_op {
	struct call *call; /* a reference; its client may be gone */
	char *before;      /* the previous policy; NULL: none */
	struct warren_error err;
};

static void update_network_op_end(struct update_network_op *op)
{
	call_unref(op->call);
	free(op->before);
	free(op);
}

static void update_on_network_restored(void *ctx, int r UNUSED,
				       const struct warren_error *err UNUSED)
{
	struct update_network_op *op = ctx;

	if (op->call->req)
		call_fail(op->call, &op->err);
	update_network_op_end(op);
}

static void update_on_network(void *ctx, int r, const struct warren_error *err)
{
	struct update_network_op *op = ctx;
	struct call *c = op->call;
	struct sandbox *sandbox = sandbox_find(c->v1->service, NULL, c->route.param[0]);

	if (r == 0 && sandbox && c->req &&
	    update_change(&c->body, sandbox, false, &op->err) < 0) {
		network_change(sandbox, op->before, update_on_network_restored, op);
		return;
	}
	if (c->req && r < 0)
		call_fail(c, err);
	else if (c->req && !sandbox)
		call_refuse(c, API_ERR_SANDBOX_NOT_FOUND,
			    "it was deleted in the meantime");
	else if (c->req)
		update_answer(c, sandbox);
	update_network_op_end(op);
}

static int update_read_network(struct call *c, const struct sandbox *sandbox,
			       struct buf *policy, struct api_error *refusal)
{
	const struct sandbox_row *row = sandbox_row(sandbox);
	const struct config_backend *b = NULL;
	struct warren_error err = WARREN_ERROR_INIT;
	enum v1_network network;
	bool terminates;
	int r = config_select_backend(c->v1->config, row->owner, row->backend, TIER_NONE,
				      &b, &err);

	if (r < 0)
		return api_error_set(refusal, API_ERR_BACKEND_UNAVAILABLE, "%s", err.msg);
	r = network_read(c->v1, row->owner, access_may(&c->caller, "secrets"), &c->body,
			 b, policy, &network, &terminates, refusal);
	if (r == 0 && network == V1_NETWORK_NONE)
		r = api_error_set(
			refusal, API_ERR_INVALID_REQUEST,
			"/network: 'none' can only be chosen when a sandbox is "
			"created; 'loopback' ends all connections to the outside");
	return r;
}

static void update_network(struct call *c, struct sandbox *sandbox)
{
	AUTO_BUF struct buf policy = BUF_INIT(16U << 20);
	const char *before = network_policy(sandbox);
	struct api_error refusal = { 0 };
	struct update_network_op *op;

	if (update_read_network(c, sandbox, &policy, &refusal) < 0) {
		call_error(c, &refusal);
		return;
	}
	op = calloc(1, sizeof(*op));
	if (op && before)
		op->before = strdup(before);
	if (!op || (before && !op->before)) {
		free(op);
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	c->gone = call_drop_body;
	op->call = call_ref(c);
	op->err = (struct warren_error)WARREN_ERROR_INIT;
	network_change(sandbox, policy.len > 0 ? policy.data : NULL, update_on_network,
		       op);
}

static bool update_above_max(const struct config *cfg, const struct warren_limits *want)
{
	for (size_t i = 0; i < SPEC_LIVE_MAX; i++)
		if (cfg->max.limits[i] && spec_live_get(want, i) > cfg->max.limits[i])
			return true;
	return false;
}

void v1_update_sandbox(struct call *c)
{
	const struct config *cfg = c->v1->config;
	struct body limits = body_object(&c->body, "limits");
	struct warren_limits want = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct sandbox *sandbox = call_sandbox_to_use(c);
	bool live, network;

	if (!sandbox || !update_actions_ok(c, sandbox))
		return;
	body_live_limits(&limits, &want);
	if (update_above_max(cfg, &want)) {
		call_refuse(c, API_ERR_POLICY_REFUSED,
			    "/limits: more than the service allows");
		return;
	}
	if (cfg->max.ttl_ms &&
	    (body_is_null(&c->body, "ttl_ms") ||
	     (uint64_t)body_int(&c->body, "ttl_ms") > cfg->max.ttl_ms)) {
		call_refuse(c, API_ERR_POLICY_REFUSED,
			    "/ttl_ms: more than the %ju that the service allows",
			    (uintmax_t)cfg->max.ttl_ms);
		return;
	}
	live = spec_live_any(&want);
	network = json_object_get(c->body.json, "network");
	if (live && network)
		call_refuse(c, API_ERR_INVALID_REQUEST,
			    "/network: change it and the limits in two requests");
	else if (update_change(&c->body, sandbox, live || network, &err) < 0)
		call_fail(c, &err);
	else if (network)
		update_network(c, sandbox);
	else if (live)
		update_limits(c, sandbox, &want);
	else
		update_answer(c, sandbox);
}
