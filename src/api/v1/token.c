/* SPDX-License-Identifier: Apache-2.0 */
/* token.c - handlers: create, list and revoke tokens */
#include <errno.h>
#include <string.h>

#include "api/v1/v1.h"
#include "base/date.h"
#include "base/json.h"
#include "service/code/code.h"

static void put_when(struct json *j, const char *key, int64_t ms)
{
	char text[DATE_SIZE];

	if (!ms) {
		json_nil(j, key);
		return;
	}
	date_iso(text, service_wall(ms));
	json_str(j, key, text);
}

static void show_token(struct buf *out, const struct token_row *row, const char *secret)
{
	struct json j = { .out = out };
	uint32_t scopes = 0;

	(void)access_scopes_parse(row->scopes, &scopes);
	json_open(&j, NULL, '{');
	json_str(&j, "id", row->id);
	json_str(&j, "name", row->name);
	json_str(&j, "tenant", row->tenant);
	json_open(&j, "scopes", '[');
	for (size_t i = 0; v1_scope_names[i]; i++)
		if (scopes & 1U << i)
			json_str(&j, NULL, v1_scope_names[i]);
	json_close(&j, ']');
	if (row->sandbox)
		json_str(&j, "sandbox_id", row->sandbox);
	put_when(&j, "created_at", row->created_at);
	put_when(&j, "expires_at", row->expires_at);
	put_when(&j, "last_used_at", row->last_used);
	if (secret)
		json_str(&j, "secret", secret);
	json_close(&j, '}');
}

/* The first token of a tenant creates the tenant, with the configured quota. */
static int make_tenant(struct call *c, const char *name, struct warren_error *err)
{
	struct tenant_row row;
	int r = db_get_tenant(service_db(c->v1->service), name, &row, err);

	if (r != -ENOENT)
		return r;
	*err = (struct warren_error)WARREN_ERROR_INIT;
	return db_put_tenant(service_db(c->v1->service), name, c->v1->quota, err);
}

/* Write the id of the token's sandbox to @ret. Return false if the request was
 * refused. */
static bool find_token_sandbox(struct call *c, struct token_row *row,
			       char ret[ID_LEN + 1])
{
	struct warren_error why = WARREN_ERROR_INIT;
	int r = sandbox_resolve(c->v1->service, row->tenant, false, row->sandbox, ret,
				&why);

	if (r == -ENOTUNIQ)
		call_refuse(c, API_ERR_AMBIGUOUS_ID, "%s", why.msg);
	else if (r < 0)
		call_refuse(c, API_ERR_SANDBOX_NOT_FOUND,
			    "tenant '%s' has no sandbox '%s'", row->tenant, row->sandbox);
	row->sandbox = ret;
	return r == 0;
}

void v1_create_token(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(4096), words = BUF_INIT(1024);
	json_t *scopes = body_json(&c->body, "scopes"), *scope;
	const char *tenant = body_text(&c->body, "tenant");
	char id[ID_LEN + 1], secret[DB_SECRET_LEN + 1], sandbox[ID_LEN + 1];
	struct warren_error err = WARREN_ERROR_INIT;
	int64_t now = service_time();
	struct token_row row = {
		.tenant = tenant ? tenant : c->caller.tenant,
		.name = body_text(&c->body, "name"),
		.sandbox = body_text(&c->body, "sandbox_id"),
		.e2b = body_bool(&c->body, "e2b"),
		.created_at = now,
	};
	uint32_t bits = 0;
	size_t i;
	int r;

	json_array_foreach(scopes, i, scope)
		buf_printf(&words, "%s%s", i > 0 ? " " : "", json_string_value(scope));
	row.scopes = words.data;
	if (body_has(&c->body, "expires_in_ms"))
		row.expires_at = now + body_int(&c->body, "expires_in_ms");
	else
		row.expires_at = c->caller.expires_at;
	if (c->caller.expires_at && row.expires_at > c->caller.expires_at) {
		call_refuse(c, API_ERR_FORBIDDEN,
			    "a token cannot outlive the token that creates it: omit "
			    "expires_in_ms, or give a shorter time");
		return;
	}
	(void)access_scopes_parse(row.scopes, &bits);
	if (!(c->caller.scopes & V1_SCOPE_ADMIN) &&
	    ((bits & ~c->caller.scopes) || strcmp(row.tenant, c->caller.tenant) != 0)) {
		call_refuse(c, API_ERR_FORBIDDEN,
			    "a token cannot have a scope or a tenant that the token "
			    "creating it lacks");
		return;
	}
	/* The works of this machine are only for its own tenant (work_is_ours()). */
	if (strcmp(row.tenant, DB_LOCAL) == 0 &&
	    strcmp(c->caller.tenant, DB_LOCAL) != 0) {
		call_refuse(c, API_ERR_FORBIDDEN,
			    "only a token of the tenant '" DB_LOCAL "', or the owner of "
			    "the unix socket, can create tokens of this tenant");
		return;
	}
	if (row.sandbox && !find_token_sandbox(c, &row, sandbox))
		return;
	r = make_tenant(c, row.tenant, &err);
	if (r == 0)
		r = db_make_token(service_db(c->v1->service), &row, id, secret, &err);
	if (r < 0) {
		call_fail(c, &err);
		return;
	}
	(void)memcpy(row.id, id, sizeof(row.id));
	show_token(&out, &row, secret);
	call_synced(c, 201, &out);
	explicit_bzero(secret, sizeof(secret));
}

struct listing {
	struct buf *out;
	size_t n, max;
	uint64_t last;
	bool more;
};

static int token_list_one(void *ctx, const struct token_row *row)
{
	struct listing *l = ctx;

	if (row->revoked_at)
		return 0;
	if (l->n == l->max) {
		l->more = true;
		return 1;
	}
	if (l->n++ > 0)
		buf_puts(l->out, ",");
	show_token(l->out, row, NULL);
	l->last = row->seq;
	return 0;
}

void v1_list_tokens(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(16U << 20);
	uint64_t after = 0;
	struct listing l = {
		.out = &out, .max = (size_t)c->query.v[V1_LIST_TOKENS_QUERY_LIMIT].number
	};
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (!call_page(c, &c->query.v[V1_LIST_TOKENS_QUERY_CURSOR], &after))
		return;
	buf_puts(&out, "{\"tokens\":[");
	r = db_each_token(service_db(c->v1->service),
			  c->caller.scopes & V1_SCOPE_ADMIN ? NULL : c->caller.tenant,
			  after, 0, token_list_one, &l, &err);
	if (r < 0) {
		call_fail(c, &err);
		return;
	}
	if (l.more)
		buf_printf(&out, "],\"next_cursor\":\"%ju\"}", (uintmax_t)l.last);
	else
		buf_puts(&out, "],\"next_cursor\":null}");
	call_json(c, 200, &out);
}

void v1_revoke_token(struct call *c)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r = db_revoke_token(service_db(c->v1->service),
				c->caller.scopes & V1_SCOPE_ADMIN ? NULL
								  : c->caller.tenant,
				c->route.param[0], service_time(), &err);

	if (r == -ENOENT)
		call_refuse(c, API_ERR_NOT_FOUND, "there is no token '%s'",
			    c->route.param[0]);
	else if (r < 0)
		call_fail(c, &err);
	else {
		/*
		 * No warm interpreter may outlive the token, so end all of them; starting
		 * new ones takes milliseconds.
		 */
		code_warm_drop_of(c->v1->service, NULL);
		call_synced(c, 204, NULL);
	}
}
