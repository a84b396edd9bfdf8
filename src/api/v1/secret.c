/* SPDX-License-Identifier: Apache-2.0 */
/* secret.c - handlers: set, list and delete secrets; none of them returns a value */
#include "service/core/secret.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "api/v1/v1.h"
#include "base/date.h"
#include "base/json.h"
#include "service/network/network.h"

static void secret_to_json(struct buf *out, const struct secret_row *row)
{
	struct json j = { .out = out };
	char created[DATE_SIZE], updated[DATE_SIZE];

	date_iso(created, service_wall(row->created_at));
	date_iso(updated, service_wall(row->updated_at));
	json_open(&j, NULL, '{');
	json_str(&j, "name", row->name);
	json_str(&j, "created_at", created);
	json_str(&j, "updated_at", updated);
	json_close(&j, '}');
}

static void secret_on_set(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;

	if (c->req && r == -EUSERS)
		call_refuse(c, API_ERR_QUOTA_EXCEEDED, "%s", err->msg);
	else if (c->req && r < 0)
		call_fail(c, err);
	else if (c->req)
		call_synced(c, r == 1 ? 201 : 204, NULL);
	call_unref(c);
}

void v1_set_secret(struct call *c)
{
	const char *value = body_text(&c->body, "value");
	size_t n = strlen(value);

	secret_set(c->v1->service, c->caller.tenant, c->route.param[0], value, n,
		   secret_on_set, call_ref(c));
	/* The parsed body belongs to the call until it ends. */
	explicit_bzero((char *)(uintptr_t)value, n);
}

struct secret_page {
	struct buf *out;
	size_t n, max;
	char last[SECRET_NAME_MAX + 1];
	bool more;
};

static int secret_list_one(void *ctx, const struct secret_row *row)
{
	struct secret_page *p = ctx;

	if (p->n == p->max) {
		p->more = true;
		return 1;
	}
	if (p->n++ > 0)
		buf_puts(p->out, ",");
	secret_to_json(p->out, row);
	(void)snprintf(p->last, sizeof(p->last), "%s", row->name);
	return 0;
}

void v1_list_secrets(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	const char *after = c->query.v[V1_LIST_SECRETS_QUERY_CURSOR].text;
	struct secret_page p = {
		.out = &out,
		.max = (size_t)c->query.v[V1_LIST_SECRETS_QUERY_LIMIT].number,
	};
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	buf_puts(&out, "{\"secrets\":[");
	r = db_each_secret(service_db(c->v1->service), c->caller.tenant,
			   after ? after : "", 0, secret_list_one, &p, &err);
	if (r < 0) {
		call_fail(c, &err);
		return;
	}
	if (p.more)
		buf_printf(&out, "],\"next_cursor\":\"%s\"}", p.last);
	else
		buf_puts(&out, "],\"next_cursor\":null}");
	call_json(c, 200, &out);
}

void v1_delete_secret(struct call *c)
{
	const char *name = c->route.param[0], *tenant = c->caller.tenant;
	const char *user = network_find_secret(c->v1->service, tenant, name);
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (user) {
		call_refuse(c, API_ERR_CONFLICT,
			    "the network policy of sandbox '%s' uses the secret '%s': "
			    "change the policy or delete the sandbox first; to revoke "
			    "the value at once, set another one",
			    user, name);
		return;
	}
	r = secret_delete(c->v1->service, tenant, name, &err);
	if (r == -ENOENT)
		call_refuse(c, API_ERR_NOT_FOUND, "there is no secret '%s'", name);
	else if (r < 0)
		call_fail(c, &err);
	else
		call_synced(c, 204, NULL);
}
