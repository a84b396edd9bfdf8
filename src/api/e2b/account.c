/* SPDX-License-Identifier: Apache-2.0 */
/* account.c - the tenant as a team; the network of a sandbox */
#include <errno.h>
#include <string.h>

#include "api/e2b/internal.h"
#include "api/v1/network.h"
#include "api/v1/sandbox.h"
#include "config/config.h"
#include "service/network/network.h"

void e2b_teams(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };

	json_open(&j, NULL, '[');
	json_open(&j, NULL, '{');
	json_str(&j, "teamID", c->caller.tenant);
	json_str(&j, "name", c->caller.tenant);
	json_str(&j, "apiKey", "");
	json_bool(&j, "isDefault", true);
	json_close(&j, '}');
	json_close(&j, ']');
	call_json(c, 200, &out);
}

/* ------------------------------------------------------------------------ network */

/* Convert the settings to a policy, as JSON; empty: no network. */
static int network_convert(struct call *c, const struct sandbox *sandbox,
			   struct buf *policy, struct api_error *err)
{
	const struct sandbox_row *row = sandbox_row(sandbox);
	struct body v1 = { .schema = v1_face.ops[V1_UPDATE_SANDBOX].schema };
	const struct config_backend *b = NULL;
	struct warren_error why = WARREN_ERROR_INIT;
	json_t *value = NULL;
	enum v1_network network;
	bool terminates;
	int internet = body_has(&c->body, "allow_internet_access")
			       ? body_bool(&c->body, "allow_internet_access")
			       : -1;
	int r = e2b_network(&c->body, internet, &value, err);

	if (r < 0)
		return r;
	if (config_select_backend(c->v1->config, row->owner, row->backend, TIER_NONE, &b,
				  &why) < 0) {
		json_decref(value);
		return api_error_set(err, API_ERR_BACKEND_UNAVAILABLE, "%s", why.msg);
	}
	v1.json = json_pack("{so}", "network", value ? value : json_string("loopback"));
	if (!v1.json)
		return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	r = network_read(c->v1, row->owner, access_may(&c->caller, "secrets"), &v1, b,
			 policy, &network, &terminates, err);
	json_decref(v1.json);
	return r;
}

/* Note what the request says about the internet, for e2b_network_to_json(). */
static int network_note(struct sandbox *sandbox, const struct body *body,
			struct warren_error *err)
{
	const struct sandbox_row *row = sandbox_row(sandbox);
	struct db_label *labels = calloc(row->n_labels + 1, sizeof(*labels));
	struct sandbox_change change = { .labels = labels,
					 .sets_labels = true,
					 .wake_on_use = -1 };
	int r;

	if (!labels)
		return error_errno(err, ENOMEM, "change the network");
	for (size_t i = 0; i < row->n_labels; i++)
		if (strcmp(row->labels[i].key, E2B_LABEL_INTERNET) != 0)
			labels[change.n_labels++] = row->labels[i];
	if (body_has(body, "allow_internet_access"))
		labels[change.n_labels++] = (struct db_label){
			E2B_LABEL_INTERNET,
			body_bool(body, "allow_internet_access") ? "true" : "false"
		};
	r = sandbox_change(sandbox, &change, err);
	free(labels);
	return r;
}

static void network_on_updated(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;
	struct sandbox *sandbox = sandbox_find(c->v1->service, NULL, c->route.sandbox);
	struct warren_error why = WARREN_ERROR_INIT;

	if (r == 0 && c->req && sandbox) {
		r = network_note(sandbox, &c->body, &why);
		err = &why;
	}
	e2b_on_done(c, r, err);
}

void e2b_update_network(struct call *c)
{
	AUTO_BUF struct buf policy = BUF_INIT(16U << 20);
	struct sandbox *sandbox = e2b_sandbox(c);
	struct api_error err = { 0 };

	if (!sandbox)
		return;
	if (network_convert(c, sandbox, &policy, &err) < 0)
		call_error(c, &err);
	else
		network_change(sandbox, policy.len > 0 ? policy.data : NULL,
			       network_on_updated, call_ref(c));
}
