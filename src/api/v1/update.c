/* SPDX-License-Identifier: Apache-2.0 */
/*
 * update.c - handler: change a running sandbox
 *
 * Limits come first, since only they can be refused by the kernel; what follows
 * is written to the store, and either all of it is or the request fails.
 */
#include <errno.h>
#include <string.h>

#include "api/v1/v1.h"
#include "config/config.h"
#include "spec/spec.h"

/* Labels as they are, with the changes: a null removes one. */
static int change_labels(struct call *c, struct sandbox *sandbox,
			 struct warren_error *err)
{
	const struct sandbox_row *row = sandbox_row(sandbox);
	json_t *changes = body_json(&c->body, "labels"), *value;
	struct db_label labels[DB_LABELS_MAX];
	size_t n = 0;
	const char *key;

	if (!changes)
		return 0;
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
	return sandbox_set_labels(sandbox, labels, n, err);
}

static int change_times(struct call *c, struct sandbox *sandbox, struct warren_error *err)
{
	const struct sandbox_row *row = sandbox_row(sandbox);
	int64_t expires = row->expires_at;
	uint64_t idle = row->idle_timeout_ms;

	if (body_has(&c->body, "ttl_ms"))
		expires = service_time() + body_int(&c->body, "ttl_ms");
	else if (body_is_null(&c->body, "ttl_ms"))
		expires = 0;
	if (body_has(&c->body, "idle_timeout_ms"))
		idle = (uint64_t)body_int(&c->body, "idle_timeout_ms");
	else if (body_is_null(&c->body, "idle_timeout_ms"))
		idle = 0;
	if (expires == row->expires_at && idle == row->idle_timeout_ms)
		return 0;
	return sandbox_set_times(sandbox, expires, idle, err);
}

static void update_finish(struct call *c, struct sandbox *sandbox)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	struct warren_error err = WARREN_ERROR_INIT;
	int r = body_has(&c->body, "name")
			? sandbox_set_name(sandbox, body_text(&c->body, "name"), &err)
			: 0;

	if (r == 0)
		r = change_labels(c, sandbox, &err);
	if (r == 0)
		r = change_times(c, sandbox, &err);
	if (r == 0 &&
	    (body_has(&c->body, "on_idle") || body_has(&c->body, "wake_on_use")))
		r = sandbox_set_idle(sandbox, body_text(&c->body, "on_idle"),
				     body_has(&c->body, "wake_on_use")
					     ? body_bool(&c->body, "wake_on_use")
					     : -1,
				     &err);
	if (r < 0) {
		call_fail(c, &err);
		return;
	}
	sandbox_to_json(&out, sandbox);
	call_json(c, 200, &out);
}

static void on_limits(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;
	struct sandbox *sandbox = sandbox_find(c->v1->service, NULL, c->route.param[0]);

	/* Memory that is in use: the kernel does not take it away. */
	if (c->req && r == -EBUSY)
		call_refuse(c, API_ERR_LIMIT_REFUSED, "%s", err->msg);
	else if (c->req && r < 0)
		call_fail(c, err);
	else if (c->req && !sandbox)
		call_refuse(c, API_ERR_SANDBOX_NOT_FOUND,
			    "it was deleted in the meantime");
	else if (c->req)
		update_finish(c, sandbox);
	call_unref(c);
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
	struct sandbox *sandbox = call_sandbox(c);

	if (!sandbox)
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
	if (spec_live_any(&want)) {
		/* It may wait; what a client that is gone sent is not kept. */
		c->gone = call_drop_body;
		sandbox_update(sandbox, &want, on_limits, call_ref(c));
	} else {
		update_finish(c, sandbox);
	}
}
