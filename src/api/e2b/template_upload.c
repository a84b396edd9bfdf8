/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template_upload.c - archives with the files of COPY
 *
 * The SDK asks for a URL, and sends the archive there without its key. So the URL has a
 * signature of the service, for this key and this archive. It expires, and ends with the
 * key.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "api/e2b/internal.h"
#include "base/hex.h"
#include "base/parse.h"
#include "service/template/template.h"

#define UPLOAD_SECONDS 3600
#define UPLOAD_PIECE   (4U << 20)

struct archive_upload {
	struct call *call;
	struct template_upload *upload;
	struct buf piece;
	bool ended;
};

bool e2b_hash_is_valid(const char *hash)
{
	return strlen(hash) == TEMPLATE_HASH_LEN && hex_is(hash, TEMPLATE_HASH_LEN);
}

/* @key: the id of the API key; "": the owner of the service, who needs none. */
static void upload_sign(struct call *c, const char *key, const char *template,
			const char *hash, int64_t expires, char ret[E2B_TOKEN_LEN + 1])
{
	char text[512];

	(void)snprintf(text, sizeof(text), "upload:%jd:%s:%s:%s", (intmax_t)expires, hash,
		       template, key);
	e2b_sign(call_e2b(c)->key, text, ret);
}

static int64_t upload_now(void)
{
	return service_wall(service_time()) / 1000;
}

void e2b_get_upload(struct call *c)
{
	AUTO_TEMPLATE_ROW struct template_row row = { 0 };
	AUTO_BUF struct buf out = BUF_INIT(8192), url = BUF_INIT(8192);
	struct json j = { .out = &out };
	const char *hash = c->route.param[1], *tenant = c->caller.tenant;
	const char *host = http_header(c->req, "Host");
	int64_t expires = upload_now() + UPLOAD_SECONDS;
	char code[E2B_TOKEN_LEN + 1];

	if (!e2b_template(c, &row))
		return;
	if (!e2b_hash_is_valid(hash)) {
		e2b_refuse(c, 400, "the hash must have 64 hexadecimal digits");
		return;
	}
	upload_sign(c, c->caller.token, row.id, hash, expires, code);
	buf_printf(&url, "%s://%s/templates/%s/files/%s?key=%s&expires=%jd&signature=%s",
		   c->req->peer->tls ? "https" : "http", host ? host : "localhost",
		   row.id, hash, c->caller.token, (intmax_t)expires, code);
	json_open(&j, NULL, '{');
	json_bool(&j, "present", template_has_archive(c->v1->service, tenant, hash));
	json_str(&j, "url", url.data);
	json_close(&j, '}');
	call_json(c, 201, &out);
}

/* ---------------------------------------------------------------------- receive */

static void archive_upload_gone(struct call *c)
{
	struct archive_upload *u = c->state;

	c->state = NULL;
	if (!u)
		return;
	u->upload = template_upload_cancel(u->upload);
	buf_done(&u->piece);
	free(u);
}

static void archive_upload_finish(struct archive_upload *u)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct call *c = u->call;
	struct template_upload *upload = u->upload;

	u->upload = NULL;
	if (template_upload_end(upload, &err) < 0)
		e2b_refuse(c, 400, "%s", err.msg);
	else
		call_empty(c, 200);
}

static void archive_upload_on_written(void *ctx, int r, const struct warren_error *err)
{
	struct archive_upload *u = ctx;

	u->piece.len = 0;
	if (r == -EBADMSG)
		e2b_refuse(u->call, 400, "%s", err->msg);
	else if (r < 0)
		call_fail(u->call, err);
	else if (u->ended)
		archive_upload_finish(u);
	else
		http_resume(u->call->req);
}

static void archive_upload_on_piece(struct http_request *req, const char *data, size_t n)
{
	struct call *c = req->user;
	struct archive_upload *u = c->state;

	if (!u || c->answered)
		return;
	if (n == 0) {
		u->ended = true;
		archive_upload_finish(u);
		return;
	}
	buf_add(&u->piece, data, n);
	if (u->piece.failed) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	http_pause(req);
	template_upload_write(u->upload, u->piece.data, u->piece.len,
			      archive_upload_on_written, u);
}

int e2b_upload_caller(struct call *c, struct api_error *err)
{
	const char *template = c->route.param[0], *hash = c->route.param[1];
	struct warren_error ignored = WARREN_ERROR_INIT;
	char text[32], given[E2B_TOKEN_LEN + 2], code[E2B_TOKEN_LEN + 1];
	char key[ID_LEN + 1];
	uint64_t expires = 0;

	if (!e2b_query(c, "key", key, sizeof(key)) ||
	    !e2b_query(c, "expires", text, sizeof(text)) ||
	    parse_u64(text, INT64_MAX, &expires, &ignored) < 0 ||
	    !e2b_query(c, "signature", given, sizeof(given)) ||
	    !e2b_hash_is_valid(hash) || !id_valid(template))
		return api_error_set(err, API_ERR_UNAUTHORIZED, "invalid signature");
	upload_sign(c, key, template, hash, (int64_t)expires, code);
	if (strlen(given) != E2B_TOKEN_LEN ||
	    CRYPTO_memcmp(given, code, E2B_TOKEN_LEN) != 0)
		return api_error_set(err, API_ERR_UNAUTHORIZED, "invalid signature");
	if ((int64_t)expires < upload_now())
		return api_error_set(err, API_ERR_UNAUTHORIZED,
				     "signature is already expired");
	return e2b_key_caller(c, key, err);
}

void e2b_upload_archive(struct call *c)
{
	AUTO_TEMPLATE_ROW struct template_row row = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	const char *tenant = c->caller.tenant;
	struct archive_upload *u;

	if (!e2b_template(c, &row))
		return;
	if (!c->req->has_body || c->req->length < 0) {
		e2b_refuse(c, 411, "the header Content-Length is required");
		return;
	}
	u = calloc(1, sizeof(*u));
	if (!u) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	u->call = c;
	u->piece = (struct buf)BUF_INIT(UPLOAD_PIECE);
	c->state = u;
	c->gone = archive_upload_gone;
	if (template_upload_begin(c->v1->service, tenant, c->route.param[1],
				  (uint64_t)c->req->length, &u->upload, &err) < 0)
		call_fail(c, &err);
	else
		http_stream(c->req, archive_upload_on_piece);
}
