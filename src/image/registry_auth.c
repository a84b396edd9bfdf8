/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry_auth.c - log in after a 401
 *
 * The first attempt is always anonymous, because most images are public and credential
 * helpers are slow. Basic authentication sends the login to the registry itself. With
 * bearer tokens, the login goes to the token server that the registry names, and the
 * token that this server returns goes to the registry. The login is looked up by the
 * registry's name, so a registry that names the token server of a third party can reveal
 * only the login for itself.
 */
#include "image/registry_auth.h"

#include <errno.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "image/registry_creds.h"
#include "image/registry_internal.h"

char *auth_basic(const struct creds *c)
{
	AUTO_FREE char *plain = NULL;
	char *login;
	int n = asprintf(&plain, "%s:%s", c->user, c->secret);

	if (n < 0)
		return NULL;
	login = calloc(1, sizeof("Basic ") + base64_size((size_t)n));
	if (login) {
		(void)memcpy(login, "Basic ", 6);
		base64_encode(plain, (size_t)n, login + 6);
	}
	OPENSSL_cleanse(plain, (size_t)n);
	return login;
}

static void set_authorization(struct registry *reg, char *login)
{
	if (reg->authorization)
		OPENSSL_cleanse(reg->authorization, strlen(reg->authorization));
	free(reg->authorization);
	reg->authorization = login;
	reg->logins++;
}

static bool has_login(const struct creds *c)
{
	return c->identity || c->user;
}

/* The registry or its token server refused the login: report which login, and what to
 * do. */
static int registry_auth_refused(const struct http *h, struct warren_error *err)
{
	const struct registry *reg = h->reg;
	const struct creds *c = &reg->creds;
	char said[128];

	http_message(h, said);
	if (has_login(c))
		return error_set(err, EACCES, "%s: login refused (%ld%s%s)",
				 reg->ref.registry, h->status, said[0] ? " " : "", said);
	return error_set(
		err, EACCES,
		"%s: login refused (%ld%s%s): there is no such image, or it needs a "
		"login that the docker configuration does not have%s%s",
		reg->ref.registry, h->status, said[0] ? " " : "", said,
		c->note[0] && !reg->public_only ? ": " : "",
		reg->public_only ? "" : c->note);
}

/* A token must consist of visible characters, so that it fits into one header. */
static bool token_ok(const char *s)
{
	size_t n = s ? strlen(s) : 0;

	if (n == 0 || n > REGISTRY_TOKEN_MAX)
		return false;
	for (; *s; s++)
		if (*s < '!' || *s > '~')
			return false;
	return true;
}

static int take_token(struct registry *reg, const struct buf *body,
		      struct warren_error *err)
{
	json_t *root = json_loadb(body->data ? body->data : "", body->len,
				  JSON_REJECT_DUPLICATES, NULL);
	const char *token = json_string_value(json_object_get(root, "token"));
	char *login = NULL;
	int code = 0;

	if (!token || !*token)
		token = json_string_value(json_object_get(root, "access_token"));
	if (!token_ok(token))
		code = error_set(err, EPROTO, "the token server of %s sent no token",
				 reg->ref.registry);
	else if (asprintf(&login, "Bearer %s", token) < 0)
		code = error_errno(err, ENOMEM, "log in");
	else
		set_authorization(reg, login);
	json_decref(root);
	return code;
}

static bool add_query(CURLU *u, const char *name, const char *value)
{
	AUTO_FREE char *pair = NULL;

	return asprintf(&pair, "%s=%s", name, value) >= 0 &&
	       curl_url_set(u, CURLUPART_QUERY, pair,
			    CURLU_APPENDQUERY | CURLU_URLENCODE) == CURLUE_OK;
}

/* realm?service=...&scope=... */
static char *token_url(const struct challenge *c, const char *scope)
{
	CURLU *u = curl_url();
	char words[sizeof(c->scope)], *rest = words, *word;
	char *url = NULL, *copy = NULL;
	bool fine = u && curl_url_set(u, CURLUPART_URL, c->realm, 0) == CURLUE_OK;

	(void)snprintf(words, sizeof(words), "%s", scope);
	if (c->service[0])
		fine = fine && add_query(u, "service", c->service);
	while (fine && (word = strsep(&rest, " ")))
		if (*word)
			fine = add_query(u, "scope", word);
	if (fine && curl_url_get(u, CURLUPART_URL, &url, 0) == CURLUE_OK)
		copy = strdup(url);
	curl_free(url);
	curl_url_cleanup(u);
	return copy;
}

static void add_field(struct buf *form, CURL *easy, const char *name, const char *value)
{
	char *escaped = curl_easy_escape(easy, value, 0);

	buf_puts(form, form->len > 0 ? "&" : "");
	buf_puts(form, name);
	buf_puts(form, "=");
	buf_puts(form, escaped ? escaped : "");
	form->failed = form->failed || !escaped;
	curl_free(escaped);
}

/* A refresh token is not a password, so it is sent in a form (OAuth 2). */
static char *token_form(CURL *easy, const struct challenge *c, const char *scope,
			const char *identity)
{
	struct buf form = BUF_INIT(4UL * REGISTRY_TOKEN_MAX);

	add_field(&form, easy, "grant_type", "refresh_token");
	add_field(&form, easy, "client_id", "warren");
	add_field(&form, easy, "service", c->service);
	add_field(&form, easy, "scope", scope);
	add_field(&form, easy, "refresh_token", identity);
	if (form.failed)
		buf_done(&form);
	return form.data;
}

static int prepare_token(struct http *h, const struct challenge *c,
			 struct warren_error *err)
{
	const struct registry *reg = h->reg;
	char scope[sizeof(c->scope)];

	if (c->scope[0])
		(void)memcpy(scope, c->scope, sizeof(scope));
	else if (reg->ref.name[0])
		(void)snprintf(scope, sizeof(scope), "repository:%s:pull", reg->ref.name);
	else
		scope[0] = '\0'; /* only check a login, without pulling */
	h->body_max = REGISTRY_TOKEN_BODY_MAX;
	if (reg->creds.identity) {
		h->absolute = strdup(c->realm);
		h->form = token_form(h->easy, c, scope, reg->creds.identity);
	} else {
		h->absolute = token_url(c, scope);
		if (reg->creds.user)
			h->login = auth_basic(&reg->creds);
	}
	if (!h->absolute || (reg->creds.identity && !h->form) ||
	    (reg->creds.user && !h->login))
		return error_errno(err, ENOMEM, "log in");
	return 0;
}

static int fetch_token(struct registry *reg, const struct challenge *c,
		       struct warren_error *err)
{
	CLEANUP(http_done) struct http h = { 0 };
	int code;

	if (reg->public_only ? !guard_url_ok(reg, c->realm)
			     : !http_url_ok(c->realm, reg->plain_ok))
		return error_set(err, EPROTO,
				 "%s names a token server whose address is not https",
				 reg->ref.registry);
	code = http_init(&h, reg, "token", err);
	if (code == 0)
		code = prepare_token(&h, c, err);
	if (code < 0)
		return code;
	code = http_run(&h, err);
	/* Some servers answer 400 to a wrong refresh token. */
	if (code < 0 &&
	    (h.status == 401 || h.status == 403 || (h.status == 400 && h.form)))
		return registry_auth_refused(&h, err);
	if (code < 0 && code != -ECANCELED)
		return error_wrap(err, "get a token for %s", reg->ref.registry);
	return code < 0 ? code : take_token(reg, &h.body, err);
}

static int answer_basic(struct http *h, struct warren_error *err)
{
	struct registry *reg = h->reg;
	char *login;

	if (!reg->creds.user)
		return registry_auth_refused(h, err);
	login = auth_basic(&reg->creds);
	if (!login)
		return error_errno(err, ENOMEM, "log in");
	set_authorization(reg, login);
	return 0;
}

static bool helper_cancelled(void *ctx)
{
	struct registry *reg = ctx;

	if (reg->progress && reg->progress(reg->ctx, reg->blobs, reg->n_blobs) != 0)
		reg->cancelled = true;
	return reg->cancelled;
}

static int read_creds(struct registry *reg, struct warren_error *err)
{
	const struct helper_watch watch = { helper_cancelled, reg };
	int code = 0;

	if (!reg->creds_read)
		code = creds_read(reg->docker_config, reg->ref.registry, &watch,
				  &reg->creds, err);
	reg->creds_read = reg->creds_read || code == 0;
	return code;
}

int auth_answer(struct http *h, struct warren_error *err)
{
	struct registry *reg = h->reg;
	struct challenge c;
	int code;

	if (h->location && !h->login_sent)
		return registry_auth_refused(
			h, err); /* the target of a redirect must not get a login */
	if (h->logins != reg->logins)
		return 0; /* another request has logged in in the meantime */
	if (h->login_renewed)
		return registry_auth_refused(h, err);
	if (h->challenge.failed ||
	    challenge_parse(h->challenge.data ? h->challenge.data : "", &c) < 0 ||
	    c.scheme == CHALLENGE_NONE)
		return error_set(
			err, EPROTO,
			"%s requests a login in a way that is not supported (401)",
			reg->ref.registry);
	code = read_creds(reg, err);
	if (code < 0)
		return code;
	if (c.scheme == CHALLENGE_BASIC)
		code = answer_basic(h, err);
	else
		code = fetch_token(reg, &c, err);
	h->login_renewed = true;
	return code;
}
