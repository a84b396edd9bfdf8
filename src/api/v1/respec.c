/* SPDX-License-Identifier: Apache-2.0 */
/*
 * respec.c - convert the row of a sandbox back to a spec, to create the sandbox again
 *
 * The row contains the request as it was accepted, with all defaults. So it is read like
 * a request of the sandbox's owner that sets every field, and the current maximum values
 * and policy of the service apply.
 */
#include <errno.h>
#include <string.h>

#include "api/v1/sandbox.h"
#include "api/validate.h"
#include "config/config.h"
#include "proto/warden_proto.h"
#include "spec/spec.h"

/*
 * Fields of a row's spec that are not fields of a CreateSandbox. The last ones are, but
 * the engine does not need them to create a sandbox again.
 */
static const char *const respec_private[] = { "code_run", SANDBOX_LIFETIME, "on_idle",
					      "on_ttl" };
#define RESPEC_OF_SERVICE 2 /* number of the last ones */

/* The policy is not part of the spec in the row. */
static int respec_put_network(struct v1 *v1, const struct sandbox_row *row, json_t *spec,
			      struct warren_error *err)
{
	AUTO_FREE char *text = NULL;
	json_t *policy;
	int r;

	if (!row->network ||
	    strcmp(row->network, v1_network_names[V1_NETWORK_POLICY]) != 0)
		return 0;
	r = db_get_policy(service_db(v1->service), row->id, &text, err);
	if (r < 0)
		return r;
	policy = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	if (!policy || json_object_set_new(spec, "network", policy) < 0)
		return error_errno(err, EBADMSG, "read the network policy");
	return 0;
}

/* @copy: for another sandbox that does the same when it is idle, or its time has passed.
 */
static json_t *respec_load(struct v1 *v1, const struct sandbox_row *row, bool copy,
			   struct warren_error *err)
{
	size_t n = ARRAY_SIZE(respec_private) - (copy ? RESPEC_OF_SERVICE : 0);
	json_t *spec =
		json_loads(row->spec ? row->spec : "{}", JSON_REJECT_DUPLICATES, NULL);
	int r = spec ? 0 : error_errno(err, EBADMSG, "read the spec of the sandbox");

	for (size_t i = 0; r == 0 && i < n; i++)
		(void)json_object_del(spec, respec_private[i]);
	if (r == 0 && json_object_set_new(spec, "backend", json_string(row->backend)) < 0)
		r = error_errno(err, ENOMEM, "read the spec of the sandbox");
	if (r == 0)
		r = respec_put_network(v1, row, spec, err);
	if (r < 0) {
		json_decref(spec);
		return NULL;
	}
	return spec;
}

/*
 * The row has every limit of the sandbox, including those that were defaults. A default
 * that the backend cannot enforce must not keep the sandbox from being created again.
 */
static void respec_limits(const struct v1 *v1, const json_t *spec,
			  struct warren_spec *ret)
{
	const json_t *limits = json_object_get(spec, "limits");

	ret->soft_limits = 0;
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++) {
		uint64_t value = (uint64_t)json_integer_value(
			json_object_get(limits, spec_limits[i].name));

		spec_limit_set(ret, i, value);
		if (value == 0 || value == v1->config->defaults.limits[i])
			ret->soft_limits |= spec_limits[i].bit;
	}
}

void v1_respec(void *ctx, const struct sandbox *sandbox, sandbox_spec_fn *use,
	       void *use_ctx)
{
	struct v1 *v1 = ctx;
	const struct sandbox_row *row = sandbox_row(sandbox);
	struct warren_error err = WARREN_ERROR_INIT;
	struct api_error refusal = { 0 };
	CLEANUP(wanted_done) struct wanted w = { 0 };
	struct caller owner = { .scopes = V1_SCOPE_ADMIN };
	struct body body = { .schema = v1_face.ops[V1_CREATE_SANDBOX].schema };
	int r = 0;

	(void)strncpy(owner.tenant, row->owner, sizeof(owner.tenant) - 1);
	body.json = respec_load(v1, row, false, &err);
	if (!body.json) {
		use(use_ctx, NULL, &err);
		return;
	}
	r = validate_json(body.schema, body.json, &refusal);
	if (r == 0)
		r = wanted_read(v1, &owner, &body, &w, &refusal);
	if (r == 0)
		respec_limits(v1, body.json, &w.spec);
	if (r < 0)
		(void)error_set(&err, EPERM, "it cannot be created again: %s",
				refusal.message);
	use(use_ctx, r < 0 ? NULL : &w.spec, r < 0 ? &err : NULL);
	json_decref(body.json);
}

static json_t *respec_labels(const struct sandbox_row *row, json_t *more)
{
	json_t *all = json_object();

	for (size_t i = 0; all && i < row->n_labels; i++)
		(void)json_object_set_new(all, row->labels[i].key,
					  json_string(row->labels[i].value));
	if (more)
		(void)json_object_update(all, more);
	return all;
}

int v1_respec_fork(struct v1 *v1, const struct sandbox *sandbox, const char *image,
		   json_t *labels, json_t **ret_body, struct wanted *w,
		   struct api_error *err)
{
	AUTO_SANDBOX_ROW struct sandbox_row row = { 0 };
	struct warren_error why = WARREN_ERROR_INIT;
	struct caller owner = { .scopes = V1_SCOPE_ADMIN };
	struct body body = { .schema = v1_face.ops[V1_CREATE_SANDBOX].schema };
	int r = db_get_sandbox(service_db(v1->service), NULL, sandbox_row(sandbox)->id,
			       &row, &why);

	if (r == 0) {
		body.json = respec_load(v1, &row, true, &why);
		r = body.json ? 0 : -EBADMSG;
	}
	if (r < 0)
		return api_error_from(err, &why);
	*ret_body = body.json;
	(void)strncpy(owner.tenant, row.owner, sizeof(owner.tenant) - 1);
	(void)json_object_set_new(body.json, "image", json_string(image));
	(void)json_object_set(body.json, "labels", labels);
	r = validate_json(body.schema, body.json, err);
	/* The labels of the source may have other keys, which no request can set. */
	(void)json_object_set_new(body.json, "labels", respec_labels(&row, labels));
	if (r == 0)
		r = wanted_read(v1, &owner, &body, w, err);
	if (r < 0)
		return r;
	respec_limits(v1, body.json, &w->spec);
	w->row.owner = sandbox_row(sandbox)->owner;
	w->row.idle_timeout_ms = row.idle_timeout_ms;
	/* One that hibernates or pauses gets the whole time whenever it wakes. */
	if (sandbox_lifetime(sandbox))
		w->row.expires_at =
			w->row.created_at + (int64_t)sandbox_lifetime(sandbox);
	else
		w->row.expires_at = row.expires_at ? w->row.created_at + row.expires_at -
							     row.created_at
						   : 0;
	w->row.template = sandbox_row(sandbox)->template;
	w->row.command = sandbox_row(sandbox)->command;
	w->row.on_exit = sandbox_row(sandbox)->on_exit;
	return 0;
}
