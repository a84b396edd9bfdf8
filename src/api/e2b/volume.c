/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume.c - volumes, and the tokens for their files
 *
 * A client of the files of a volume has a token that the control plane gave it:
 *
 *	wv_<id of the API key>_<HMAC of the volume's id and the key's id>
 *
 * It is valid for one volume, as long as the volume and the API key exist, and has the
 * rights of that key. The owner of the service, who needs no key, gets one without an id.
 */
#include "service/volume/volume.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "api/e2b/internal.h"
#include "base/volume_name.h"
#include "config/config.h"

#define VOLUME_TOKEN     "wv_"
#define VOLUME_TOKEN_MAX (sizeof(VOLUME_TOKEN) + ID_LEN + 1 + E2B_TOKEN_LEN)

/* ------------------------------------------------------------------------ tokens */

static void volume_token_make(const struct e2b *e, const char *volume, const char *key,
			      char ret[VOLUME_TOKEN_MAX])
{
	char both[2 * ID_LEN + 2], mac[E2B_TOKEN_LEN + 1];

	(void)snprintf(both, sizeof(both), "%.*s:%.*s", ID_LEN, volume, ID_LEN, key);
	e2b_token(e, both, "volume", mac);
	(void)snprintf(ret, VOLUME_TOKEN_MAX, VOLUME_TOKEN "%.*s_%s", ID_LEN, key, mac);
}

/* Find out whether @given is a token for the volume, and for which key it was made. */
static bool volume_token_matches(const struct e2b *e, const char *volume,
				 const char *given, char ret_key[ID_LEN + 1])
{
	char wanted[VOLUME_TOKEN_MAX];
	size_t n;

	if (strncmp(given, VOLUME_TOKEN, strlen(VOLUME_TOKEN)) != 0)
		return false;
	n = strcspn(given + strlen(VOLUME_TOKEN), "_");
	if (n != 0 && n != ID_LEN)
		return false;
	(void)memcpy(ret_key, given + strlen(VOLUME_TOKEN), n);
	ret_key[n] = '\0';
	volume_token_make(e, volume, ret_key, wanted);
	return strlen(given) == strlen(wanted) &&
	       CRYPTO_memcmp(given, wanted, strlen(wanted)) == 0;
}

int e2b_volume_caller(struct call *c, struct api_error *err)
{
	AUTO_VOLUME_ROW struct volume_row row = { 0 };
	const char *bearer = http_header(c->req, "Authorization");
	const char *id = c->route.param[0];
	struct warren_error why = WARREN_ERROR_INIT;
	char key[ID_LEN + 1];
	int r;

	if (!bearer || strncasecmp(bearer, "Bearer ", 7) != 0)
		return api_error_set(err, API_ERR_UNAUTHORIZED,
				     "the token of the volume is required, in the "
				     "header Authorization");
	if (!id_valid(id) || !volume_token_matches(call_e2b(c), id, bearer + 7, key))
		return api_error_set(err, API_ERR_UNAUTHORIZED,
				     "the token is not valid for this volume");
	r = e2b_key_caller(c, key, err);
	if (r < 0)
		return r;
	r = db_get_volume_by_id(service_db(c->v1->service), c->caller.tenant, id, &row,
				&why);
	if (r == -ENOENT)
		return api_error_set(err, API_ERR_VOLUME_NOT_FOUND, "%s", why.msg);
	if (r < 0)
		return api_error_from(err, &why);
	(void)snprintf(c->route.text, sizeof(c->route.text), "%s", row.name);
	c->route.param[0] = c->route.text;
	return 0;
}

/* -------------------------------------------------------------------------- show */

static void e2b_volume_fail(struct call *c, const struct warren_error *err)
{
	if (err->code == ENOENT)
		e2b_refuse(c, 404, "%s", err->msg);
	else if (err->code == EBUSY)
		e2b_refuse(c, 409, "%s", err->msg);
	else
		call_fail(c, err);
}

static void volume_show(struct json *j, const struct volume_row *row, const char *token)
{
	json_open(j, NULL, '{');
	json_str(j, "volumeID", row->id);
	json_str(j, "name", row->name);
	if (token)
		json_str(j, "token", token);
	json_close(j, '}');
}

static void volume_answer(struct call *c, int status, const struct volume_row *row)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };
	char token[VOLUME_TOKEN_MAX];

	volume_token_make(call_e2b(c), row->id, c->caller.token, token);
	volume_show(&j, row, token);
	if (status == 201)
		call_synced(c, status, &out);
	else
		call_json(c, status, &out);
}

static int e2b_volume_list_one(void *ctx, const struct volume_row *row)
{
	volume_show(ctx, row, NULL);
	return 0;
}

void e2b_list_volumes(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(16U << 20);
	struct json j = { .out = &out };
	struct warren_error err = WARREN_ERROR_INIT;

	json_open(&j, NULL, '[');
	if (db_each_volume(service_db(c->v1->service), c->caller.tenant, "", 0,
			   e2b_volume_list_one, &j, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	json_close(&j, ']');
	call_json(c, 200, &out);
}

/* Find the volume with the id in the path; otherwise the call is refused. */
static bool e2b_volume_find(struct call *c, struct volume_row *ret)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r = db_get_volume_by_id(service_db(c->v1->service), c->caller.tenant,
				    c->route.param[0], ret, &err);

	if (r < 0)
		e2b_volume_fail(c, &err);
	return r == 0;
}

void e2b_get_volume(struct call *c)
{
	AUTO_VOLUME_ROW struct volume_row row = { 0 };

	if (e2b_volume_find(c, &row))
		volume_answer(c, 200, &row);
}

/* ------------------------------------------------------------------------ create */

struct e2b_volume_creation {
	struct call *call;
	char name[VOLUME_NAME_MAX + 1];
};

static void e2b_volume_on_created(void *ctx, int r, const struct warren_error *err)
{
	AUTO_VOLUME_ROW struct volume_row row = { 0 };
	struct warren_error why = r < 0 ? *err : (struct warren_error)WARREN_ERROR_INIT;
	struct e2b_volume_creation *k = ctx;
	struct call *c = k->call;

	if (c->req && r == 0)
		r = db_get_volume(service_db(c->v1->service), c->caller.tenant, k->name,
				  &row, &why);
	if (c->req && r < 0)
		e2b_volume_fail(c, &why);
	else if (c->req)
		volume_answer(c, 201, &row);
	call_unref(c);
	free(k);
}

void e2b_create_volume(struct call *c)
{
	const struct config *cfg = c->v1->config;
	const char *name = body_text(&c->body, "name");
	struct e2b_volume_creation *k = calloc(1, sizeof(*k));
	const struct volume_request request = {
		.tenant = c->caller.tenant,
		.name = name,
		.size = VOLUME_SIZE_DEFAULT,
		.labels = "{}",
		/* Commands of the SDKs do not run as root, and may write to it. */
		.mode = 0777,
		.quota = { .volumes = cfg->quota_volumes,
			   .bytes = cfg->quota_volume_bytes },
	};

	if (!k) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	k->call = call_ref(c);
	(void)snprintf(k->name, sizeof(k->name), "%s", name);
	volume_create(c->v1->service, &request, e2b_volume_on_created, k);
}

/* ------------------------------------------------------------------------ delete */

static void e2b_volume_on_deleted(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;

	if (c->req && r < 0)
		e2b_volume_fail(c, err);
	else if (c->req)
		call_synced(c, 204, NULL);
	call_unref(c);
}

void e2b_delete_volume(struct call *c)
{
	AUTO_VOLUME_ROW struct volume_row row = { 0 };

	if (e2b_volume_find(c, &row))
		volume_delete(c->v1->service, c->caller.tenant, row.name,
			      e2b_volume_on_deleted, call_ref(c));
}
