/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secret.c - secrets of a tenant, which the rules of a network add to requests
 *
 * A secret is known by its name; its id is its name, too.
 */
#include "service/core/secret.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/e2b/internal.h"
#include "base/date.h"
#include "base/parse.h"
#include "service/network/network.h"

#define SECRET_PAGE_MAX 100

static void secret_show(struct json *j, const struct secret_row *row)
{
	char text[DATE_SIZE];

	json_open(j, NULL, '{');
	json_str(j, "secretID", row->name);
	json_str(j, "name", row->name);
	json_int(j, "currentVersion", 1);
	json_open(j, "metadata", '{');
	json_close(j, '}');
	date_iso(text, service_wall(row->created_at));
	json_str(j, "createdAt", text);
	date_iso(text, service_wall(row->updated_at));
	json_str(j, "updatedAt", text);
	json_close(j, '}');
}

static void secret_answer(struct call *c, int status, const char *name, bool synced)
{
	AUTO_SECRET_ROW struct secret_row row = { 0 };
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };
	struct warren_error err = WARREN_ERROR_INIT;
	int r = db_get_secret(service_db(c->v1->service), c->caller.tenant, name, &row,
			      &err);

	if (r == -ENOENT) {
		e2b_refuse(c, 404, "secret '%s' not found", name);
		return;
	}
	if (r < 0) {
		call_fail(c, &err);
		return;
	}
	secret_show(&j, &row);
	if (synced)
		call_synced(c, status, &out);
	else
		call_json(c, status, &out);
}

struct secret_page {
	struct json json;
	size_t n, limit;
	char last[E2B_TEMPLATE_MAX + 1]; /* the list goes on after this secret */
	bool more;
};

static int e2b_secret_list_one(void *ctx, const struct secret_row *row)
{
	struct secret_page *p = ctx;

	if (p->n == p->limit) {
		p->more = true;
		return 1;
	}
	p->n++;
	(void)snprintf(p->last, sizeof(p->last), "%s", row->name);
	secret_show(&p->json, row);
	return 0;
}

void e2b_list_secrets(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(4U << 20);
	struct secret_page p = { .json = { .out = &out } };
	struct warren_error err = WARREN_ERROR_INIT;
	char after[E2B_TEMPLATE_MAX + 1], limit[E2B_NUMBER_MAX + 1];
	uint64_t most = SECRET_PAGE_MAX;
	const struct http_header headers[3] = {
		{ "X-Request-Id", http_request_id(c->req) },
		{ "Content-Type", "application/json" },
		{ "X-Next-Token", p.last },
	};

	if (e2b_query(c, "limit", limit, sizeof(limit)) &&
	    (parse_u64(limit, SECRET_PAGE_MAX, &most, &err) < 0 || most == 0)) {
		e2b_refuse(c, 400, "limit: must be from 1 to %d", SECRET_PAGE_MAX);
		return;
	}
	p.limit = (size_t)most;
	(void)e2b_query(c, "nextToken", after, sizeof(after));
	json_open(&p.json, NULL, '[');
	if (db_each_secret(service_db(c->v1->service), c->caller.tenant, after, 0,
			   e2b_secret_list_one, &p, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	json_close(&p.json, ']');
	c->answered = true;
	(void)http_respond(c->req, 200, headers, p.more ? 3 : 2, out.data, out.len);
}

/* The name of the secret of the request: in the body, or in the path. */
static const char *secret_name(const struct call *c)
{
	return c->route.n_params > 0 ? c->route.param[0] : body_text(&c->body, "name");
}

static void e2b_secret_on_set(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;

	if (c->req && r == -EUSERS)
		e2b_refuse_as(c, 429, "secret_limit_reached", err->msg);
	else if (c->req && r < 0)
		call_fail(c, err);
	else if (c->req)
		secret_answer(c, c->route.n_params > 0 ? 200 : 201, secret_name(c), true);
	call_unref(c);
}

static void secret_put(struct call *c)
{
	const char *value = body_text(&c->body, "value");
	size_t n = strlen(value);

	secret_set(c->v1->service, c->caller.tenant, secret_name(c), value, n,
		   e2b_secret_on_set, call_ref(c));
	explicit_bzero((char *)(uintptr_t)value, n);
}

/* 1: it exists; 0: it does not; -errno: the call was refused. */
static int e2b_secret_exists(struct call *c, const char *name)
{
	AUTO_SECRET_ROW struct secret_row row = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	int r = db_get_secret(service_db(c->v1->service), c->caller.tenant, name, &row,
			      &err);

	if (r < 0 && r != -ENOENT)
		call_fail(c, &err);
	return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

void e2b_create_secret(struct call *c)
{
	int r = e2b_secret_exists(c, secret_name(c));

	if (r == 1)
		e2b_refuse(c, 409, "secret '%s' already exists", secret_name(c));
	else if (r == 0)
		secret_put(c);
}

void e2b_get_secret(struct call *c)
{
	secret_answer(c, 200, c->route.param[0], false);
}

void e2b_update_secret(struct call *c)
{
	int r = e2b_secret_exists(c, secret_name(c));

	if (r == 0)
		e2b_refuse(c, 404, "secret '%s' not found", secret_name(c));
	else if (r == 1)
		secret_put(c);
}

void e2b_delete_secret(struct call *c)
{
	const char *name = c->route.param[0], *tenant = c->caller.tenant;
	const char *user = network_find_secret(c->v1->service, tenant, name);
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (user) {
		e2b_refuse(c, 409, "the network of sandbox '%s' uses the secret '%s'",
			   user, name);
		return;
	}
	r = secret_delete(c->v1->service, tenant, name, &err);
	if (r == -ENOENT)
		e2b_refuse(c, 404, "secret '%s' not found", name);
	else if (r < 0)
		call_fail(c, &err);
	else
		call_synced(c, 204, NULL);
}
