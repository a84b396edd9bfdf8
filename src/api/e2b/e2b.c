/* SPDX-License-Identifier: Apache-2.0 */
/*
 * e2b.c - the path of a request to its handler
 *
 * A client of the control plane has a token of a tenant, in X-API-Key. A client of the
 * data plane has the access token of one sandbox, which the control plane gave it. That
 * token is derived from the sandbox's id and a key in the database, so it need not be
 * stored, and is the same as long as the sandbox exists.
 */
#include "api/e2b/e2b.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "api/e2b/internal.h"
#include "base/hex.h"
#include "base/parse.h"
#include "config/config.h"

#define KEY_NAME  "e2b_key"
#define KEY_BYTES 32

int e2b_open(struct e2b *e, struct v1 *v1, struct warren_error *err)
{
	struct db *db = service_db(v1->service);
	AUTO_FREE char *key = NULL;
	unsigned char bits[KEY_BYTES];
	int r = db_get_meta(db, KEY_NAME, &key, err);

	*e = (struct e2b){ .v1 = v1 };
	if (r == 0 && strlen(key) == sizeof(e->key) - 1) {
		(void)strcpy(e->key, key);
		return 0;
	}
	if (r < 0 && r != -ENOENT)
		return r;
	*err = (struct warren_error)WARREN_ERROR_INIT; /* of the key that is missing */
	if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		return error_errno(err, errno, "create a key");
	(void)hex_encode(bits, sizeof(bits), e->key);
	OPENSSL_cleanse(bits, sizeof(bits));
	return db_set_meta(db, KEY_NAME, e->key, err);
}

void e2b_close(struct e2b *e)
{
	e2b_forget_processes(e);
	e2b_forget_watchers(e);
	e2b_forget_starting(e);
	e2b_forget_contexts(e);
}

size_t e2b_bucket(const char *sandbox)
{
	uint32_t hash = 2166136261U;

	for (; *sandbox; sandbox++)
		hash = (hash ^ (unsigned char)*sandbox) * 16777619U;
	return hash % E2B_BUCKETS;
}

void e2b_token(const struct e2b *e, const char *id, const char *purpose,
	       char ret[E2B_TOKEN_LEN + 1])
{
	e2b_derive(e->key, id, purpose, ret);
}

void e2b_sign(const char *key, const char *text, char ret[E2B_TOKEN_LEN + 1])
{
	unsigned char mac[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	ret[0] = '\0';
	if (HMAC(EVP_sha256(), key, (int)strlen(key), (const unsigned char *)text,
		 strlen(text), mac, &n))
		(void)hex_encode(mac, E2B_TOKEN_LEN / 2, ret);
}

void e2b_derive(const char *key, const char *id, const char *purpose,
		char ret[E2B_TOKEN_LEN + 1])
{
	char text[64];

	(void)snprintf(text, sizeof(text), "%s:%s", purpose, id);
	e2b_sign(key, text, ret);
}

const char *e2b_label(const struct sandbox *sandbox, const char *key)
{
	const struct sandbox_row *row = sandbox_row(sandbox);

	for (size_t i = 0; i < row->n_labels; i++)
		if (strcmp(row->labels[i].key, key) == 0)
			return row->labels[i].value;
	return NULL;
}

void e2b_ignore(void *ctx UNUSED, int r UNUSED, const struct warren_error *err UNUSED)
{
}

/* ------------------------------------------------------------------ which plane */

/* The sandbox and the port that a request of the data plane is for. */
struct target {
	char id[ID_LEN + 1];
	uint16_t port;
	bool given; /* the request names a sandbox, although it may not be valid */
};

/* An id may be followed by a dash and the id of a client. */
static bool target_set(struct target *t, const char *id, size_t n, uint64_t port)
{
	size_t len = strcspn(id, "-");

	t->given = true;
	t->id[0] = '\0';
	if (port == 0 || port > UINT16_MAX)
		return false;
	t->port = (uint16_t)port;
	if (len > n)
		len = n;
	if (len == ID_LEN) {
		(void)memcpy(t->id, id, ID_LEN);
		t->id[ID_LEN] = '\0';
	}
	return true;
}

static bool target_from_headers(const struct http_request *req, struct target *ret)
{
	const char *id = http_header(req, "E2b-Sandbox-Id");
	const char *port = http_header(req, "E2b-Sandbox-Port");
	struct warren_error why = WARREN_ERROR_INIT;
	uint64_t n = 0;

	if (!id && !port)
		return false;
	if (!id || !port || parse_u64(port, UINT16_MAX, &n, &why) < 0) {
		ret->given = true;
		return true;
	}
	(void)target_set(ret, id, strlen(id), n);
	return true;
}

/* "49983-k3f9x2m7qd1w.example.org" */
static bool target_from_host(const char *domain, const struct http_request *req,
			     struct target *ret)
{
	const char *host = http_header(req, "Host");
	size_t n = host ? strcspn(host, ".") : 0, d = strlen(domain);
	uint64_t port = 0;
	size_t i = 0;

	if (n == 0 || d == 0 || host[n] != '.' ||
	    strncasecmp(host + n + 1, domain, d) != 0 ||
	    (host[n + 1 + d] != '\0' && host[n + 1 + d] != ':'))
		return false;
	for (; i < 5 && isdigit((unsigned char)host[i]); i++)
		port = port * 10 + (uint64_t)(host[i] - '0');
	if (i == 0 || host[i] != '-')
		return false;
	return target_set(ret, host + i + 1, n - i - 1, port);
}

static bool is_api_host(const char *domain, const struct http_request *req)
{
	const char *host = http_header(req, "Host");
	size_t d = strlen(domain);

	return d > 0 && host && strncasecmp(host, "api.", 4) == 0 &&
	       strncasecmp(host + 4, domain, d) == 0 &&
	       (host[4 + d] == '\0' || host[4 + d] == ':');
}

/*
 * Ports by host name are served here only if a client of this API created the sandbox;
 * otherwise v1 serves them, which requires a token. A sandbox that is gone may have been
 * either; only clients of v1 have a token.
 */
static bool e2b_is_own(const struct e2b *e, const struct target *t,
		       const struct http_request *req)
{
	const struct sandbox *sandbox = sandbox_find(e->v1->service, NULL, t->id);

	if (t->port == ENVD_PORT || t->port == INTERPRETER_PORT)
		return true;
	if (sandbox)
		return e2b_label(sandbox, E2B_LABEL_TEMPLATE) != NULL;
	return t->id[0] && !http_header(req, "Authorization") &&
	       !access_is_owner(e->v1->owner, req->peer);
}

/* Is this a path that only clients of this API use, although no operation may be there?
 */
static bool e2b_is_path(const char *path)
{
	static const char *const first[] = { "/sandboxes",    "/v2/sandboxes",
					     "/templates",    "/v2/templates",
					     "/v3/templates", "/volumes",
					     "/volumecontent" };

	for (size_t i = 0; i < ARRAY_SIZE(first); i++) {
		size_t n = strlen(first[i]);

		if (strncmp(path, first[i], n) == 0 &&
		    (path[n] == '\0' || path[n] == '/'))
			return true;
	}
	return false;
}

bool e2b_wants(const struct e2b *e, const struct http_request *req)
{
	const char *domain = e->v1->config->domain;
	struct target t = { 0 };
	struct route route;
	bool other;

	if (target_from_host(domain, req, &t))
		return e2b_is_own(e, &t, req);
	if (target_from_headers(req, &t) || e2b_is_preflight(req, false))
		return true;
	if (is_api_host(domain, req))
		return strncmp(req->path, "/v1/", 4) != 0;
	if (strcmp(req->path, "/files") == 0)
		return true;
	return e2b_find_control(req->method, req->path, &route, &other) || other ||
	       e2b_is_path(req->path);
}

/* ----------------------------------------------------------- refusals of the server */

/* The form of errors for a request whose head could not be read. */
static bool refused_by_path(const char *path, enum e2b_form *ret)
{
	struct route route;
	bool other;

	*ret = E2B_REST;
	return e2b_is_rpc(path, ret) || strcmp(path, "/files") == 0 ||
	       e2b_find_control("GET", path, &route, &other) || other ||
	       e2b_is_path(path);
}

static enum e2b_form refused_form(const struct http_request *req, uint16_t port)
{
	const struct e2b_op *op;
	struct route route;
	bool other;

	if (port == 0)
		return E2B_REST;
	if (port != ENVD_PORT && port != INTERPRETER_PORT)
		return E2B_PROXY;
	op = e2b_find_data(port, req->method, req->path, &route, &other);
	return op ? op->form : E2B_REST;
}

void e2b_refused(struct http_refusal *refusal, struct buf *body, const struct e2b *e)
{
	const struct http_request *req = refusal->req;
	enum e2b_form form;
	struct target t = { 0 };

	if (req && e2b_wants(e, req)) {
		if (!target_from_host(e->v1->config->domain, req, &t))
			(void)target_from_headers(req, &t);
		form = refused_form(req, t.port);
	} else if (req || !refused_by_path(refusal->path, &form)) {
		return;
	}
	body->len = 0;
	e2b_write_refusal(form, refusal, t.id, t.port, body);
}

/* ------------------------------------------------------------------------- access */

/* A server in the sandbox: every path and method belongs to it. */
static void e2b_proxy(struct call *c)
{
	c->by_host = true;
	v1_proxy_port(c);
}

static const struct e2b_op proxy_op = {
	.op = { .id = "e2b proxy", .path = "", .any_method = true },
	.form = E2B_PROXY,
	.public = true,
	.streams = true,
	.handler = e2b_proxy,
};

static void (*const show[])(struct call *c, const struct api_error *err) = {
	[E2B_REST] = e2b_show_rest,
	[E2B_UNARY] = e2b_show_unary,
	[E2B_STREAM] = e2b_show_stream,
	[E2B_PROXY] = e2b_show_proxy,
};

static int e2b_missing(struct call *c, bool other, struct api_error *err)
{
	if (!other && e2b_is_path(c->req->path))
		return api_error_set(err, API_ERR_NOT_SUPPORTED,
				     "this service has no operation %s %.200s of E2B; "
				     "doc/e2b.md shows what it has instead",
				     c->req->method, c->req->path);
	return api_error_set(err, other ? API_ERR_METHOD_NOT_ALLOWED : API_ERR_NOT_FOUND,
			     "there is no operation %s %.200s", c->req->method,
			     c->req->path);
}

static void e2b_use_op(struct call *c, const struct e2b_op *op)
{
	c->route.op = &op->op;
	c->handler = op->handler;
	c->show_error = show[op->form];
}

int e2b_key_caller(struct call *c, const char *key, struct api_error *err)
{
	if (key[0])
		return access_token_id(c->v1->service, key, &c->caller, err);
	(void)strcpy(c->caller.tenant, DB_LOCAL);
	c->caller.scopes = V1_SCOPE_ADMIN;
	return 0;
}

/* Identify the tenant by the key of a request to the control plane. */
static int control_caller(struct call *c, struct api_error *err)
{
	const char *key = http_header(c->req, "X-API-Key");
	const char *bearer = http_header(c->req, "Authorization");
	struct v1 *v1 = c->v1;

	if (!key && bearer && strncasecmp(bearer, "Bearer ", 7) == 0)
		key = bearer + 7;
	if (key)
		return access_token(v1->service, key, &c->caller, err);
	if (!access_is_owner(v1->owner, c->req->peer))
		return api_error_set(err, API_ERR_UNAUTHORIZED,
				     "an API key is required, in the header X-API-Key; "
				     "'warren token create --e2b' creates one");
	return e2b_key_caller(c, "", err);
}

static int control_check_scope(struct call *c, const struct e2b_op *e,
			       struct api_error *err)
{
	const struct api_op *op = &e->op;

	if (!op->scope)
		return 0;
	if (c->caller.sandbox[0])
		return api_error_set(err, API_ERR_FORBIDDEN,
				     "the key is a token for one sandbox");
	if (!(c->caller.scopes & (op->scope | V1_SCOPE_ADMIN)))
		return api_error_set(err, API_ERR_FORBIDDEN,
				     "the key lacks the scope '%s'",
				     v1_scope_names[__builtin_ctz(op->scope)]);
	if (e->opens && !e2b_may_open(c))
		return api_error_set(
			err, API_ERR_FORBIDDEN,
			"the key lacks the scope 'exec' or 'files', which the "
			"access token of a sandbox includes");
	return 0;
}

/* Find the sandbox in the path; a missing one is refused by the handler. */
static void control_sandbox(struct call *c)
{
	const char *id = c->route.n_params > 0 ? c->route.param[0] : "";
	size_t n = strcspn(id, "-");

	if (n == ID_LEN) {
		(void)memcpy(c->route.sandbox, id, ID_LEN);
		c->route.sandbox[ID_LEN] = '\0';
	}
}

static int e2b_admit_control(struct call *c, struct api_error *err)
{
	const struct http_request *req = c->req;
	bool other = false;
	const struct e2b_op *op;
	int r = access_origin(c->v1->config->domain, req, err);

	c->show_error = e2b_show_rest;
	if (r < 0)
		return r;
	op = e2b_find_control(req->method, req->path, &c->route, &other);
	if (!op)
		return e2b_missing(c, other, err);
	e2b_use_op(c, op);
	r = e2b_query_check(req, err);
	if (r < 0)
		return r;
	r = op->caller ? op->caller(c, err) : op->op.scope ? control_caller(c, err) : 0;
	http_known(c->req, r == 0 && c->caller.token[0]);
	if (r == 0)
		r = control_check_scope(c, op, err);
	if (r == 0 && c->caller.token[0])
		r = live_enter(c->v1->live, &c->live, c->req, &c->caller, err);
	if (r == 0 && c->caller.token[0] && http_owner(c->req, c->caller.tenant) < 0)
		r = api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	if (r == 0 && !op->caller)
		control_sandbox(c);
	return r;
}

static bool token_matches(const struct e2b *e, const char *id, const char *purpose,
			  const char *given)
{
	char token[E2B_TOKEN_LEN + 1];

	e2b_token(e, id, purpose, token);
	return given && strlen(given) == E2B_TOKEN_LEN && token[0] &&
	       CRYPTO_memcmp(given, token, E2B_TOKEN_LEN) == 0;
}

/* The rights of the access token of a sandbox. */
static void data_caller(struct call *c, const struct sandbox *sandbox)
{
	const struct sandbox_row *row = sandbox_row(sandbox);

	(void)snprintf(c->caller.tenant, sizeof(c->caller.tenant), "%s", row->owner);
	(void)memcpy(c->caller.sandbox, row->id, sizeof(c->caller.sandbox));
	c->caller.scopes = V1_SCOPE_EXEC | V1_SCOPE_FILES | V1_SCOPE_READ;
}

/*
 * Is the sandbox running, or does its use resume it? One whose processes are gone is
 * resumed only by a client that connects to it.
 */
static bool data_is_there(const struct sandbox *sandbox)
{
	enum sandbox_state state = sandbox_row(sandbox)->state;

	return state == SANDBOX_RUNNING ||
	       (state == SANDBOX_PAUSED && e2b_label(sandbox, E2B_LABEL_RESUME));
}

static bool is_other_than(const char *text, const char *wanted)
{
	return text && strcasecmp(text, wanted) != 0;
}

/* Is the body of an RPC what its method needs? As in Connect, a type is never guessed. */
static bool check_rpc_type(const char *type, enum e2b_form form)
{
	const char *wanted = form == E2B_STREAM ? E2B_STREAM_TYPE : E2B_UNARY_TYPE;
	size_t n = type ? strcspn(type, "; \t") : 0;

	return n == strlen(wanted) && strncasecmp(type, wanted, n) == 0;
}

/* Settings of the protocol that are not supported are refused. */
static int check_rpc_headers(const struct http_request *req, struct api_error *err)
{
	const char *timeout = http_header(req, "Connect-Timeout-Ms");

	if (e2b_query_check(req, err) < 0)
		return -EBADMSG;
	if (timeout && (strlen(timeout) > 10 || !*timeout ||
			strspn(timeout, "0123456789") != strlen(timeout)))
		return api_error_set(err, API_ERR_INVALID_REQUEST,
				     "Connect-Timeout-Ms: must have 1 to 10 digits");
	if (is_other_than(http_header(req, "Connect-Content-Encoding"), "identity"))
		return api_error_set(err, API_ERR_NOT_SUPPORTED,
				     "compressed messages are not supported");
	return 0;
}

static int e2b_admit_data(struct call *c, const struct target *t, struct api_error *err)
{
	const struct http_request *req = c->req;
	const struct e2b *e = call_e2b(c);
	const struct sandbox *sandbox = sandbox_find(e->v1->service, NULL, t->id);
	bool other = false, shown;
	const struct e2b_op *op;

	c->show_error = e2b_show_rest;
	if (!t->port)
		return api_error_set(
			err, API_ERR_INVALID_REQUEST,
			"missing header: E2b-Sandbox-Id and E2b-Sandbox-Port "
			"are both required");
	op = t->port == ENVD_PORT || t->port == INTERPRETER_PORT
		     ? e2b_find_data(t->port, req->method, req->path, &c->route, &other)
		     : &proxy_op;
	(void)memcpy(c->route.sandbox, t->id, sizeof(t->id));
	if (op)
		e2b_use_op(c, op);
	/* The ports of other sandboxes are not public: v1 serves them to clients with a
	 * token. */
	if (!sandbox || !data_is_there(sandbox) ||
	    (t->port != ENVD_PORT && (!op || op->public) &&
	     !e2b_label(sandbox, E2B_LABEL_TEMPLATE))) {
		e2b_refuse_gone(c);
		return -EBADMSG;
	}
	if (!op)
		return e2b_missing(c, other, err);
	if (t->port == ENVD_PORT && (op->form == E2B_STREAM || op->form == E2B_UNARY) &&
	    !check_rpc_type(http_header(req, "Content-Type"), op->form)) {
		e2b_refuse_type(c, op->form);
		return -EBADMSG;
	}
	if (t->port == ENVD_PORT && check_rpc_headers(req, err) < 0)
		return -EBADMSG;
	/* The handlers of v1 expect the sandbox first, and then what the path names. */
	c->route.param[1] = c->route.n_params > 0 ? c->route.param[0] : "";
	c->route.n_params = 2;
	c->route.param[0] = c->route.sandbox;
	c->route.number[1] = t->port;
	shown = token_matches(e, t->id, "envd", http_header(req, "X-Access-Token"));
	if (!op->public && !shown)
		return api_error_set(err, API_ERR_UNAUTHORIZED,
				     "unauthorized access, please provide a valid access "
				     "token or method signing if supported");
	if (t->port != ENVD_PORT && e2b_label(sandbox, E2B_LABEL_TRAFFIC) &&
	    !token_matches(e, t->id, "traffic",
			   http_header(req, "E2b-Traffic-Access-Token")))
		return api_error_set(err, API_ERR_FORBIDDEN,
				     "Missing or invalid traffic access token");
	data_caller(c, sandbox);
	if (shown) /* without the token, a public operation shows nothing about its client
		    */
		http_known(c->req, true);
	if (live_count(c->v1->live, &c->live, c->req, &c->caller, err) < 0)
		return -EBADMSG;
	if (http_owner(c->req, c->caller.tenant) < 0)
		return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	return 0;
}

/* ------------------------------------------------------------------------- resume */

/*
 * May the request resume the sandbox? Everyone may who may use it; operations without an
 * access token do not show that before they begin. False: the call was refused.
 */
static bool resume_is_allowed(struct call *c, const struct sandbox *sandbox)
{
	const struct e2b_op *op = (const struct e2b_op *)c->route.op;

	if (op->handler == e2b_file_read || op->handler == e2b_file_write)
		return e2b_may_use_file(c);
	if (op->handler != e2b_envd_health || !e2b_label(sandbox, E2B_LABEL_TRAFFIC) ||
	    token_matches(call_e2b(c), c->route.sandbox, "envd",
			  http_header(c->req, "X-Access-Token")))
		return true;
	e2b_refuse_gone(c);
	return false;
}

static void e2b_on_resumed(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;
	struct sandbox *sandbox = sandbox_find(c->v1->service, NULL, c->route.sandbox);
	bool waits = c->req && !c->answered;

	if (r < 0 && sandbox)
		e2b_without_end(c, sandbox);
	if (waits && (!sandbox || sandbox_row(sandbox)->state == SANDBOX_DELETING))
		e2b_refuse_gone(c);
	else if (waits && r < 0)
		call_fail(c, err);
	else if (waits && e2b_renew(c, sandbox))
		c->handler(c);
	call_unref(c);
}

void e2b_resume(struct call *c, void (*next)(struct call *c))
{
	struct sandbox *sandbox = sandbox_find(c->v1->service, NULL, c->route.sandbox);

	if (!sandbox) {
		e2b_refuse_gone(c);
	} else if (sandbox_row(sandbox)->state != SANDBOX_PAUSED) {
		next(c);
	} else if (resume_is_allowed(c, sandbox) && e2b_renew(c, sandbox)) {
		c->handler = next;
		sandbox_pause(sandbox, false, e2b_on_resumed, call_ref(c));
	}
}

/* ------------------------------------------------------------------------ requests */

static void e2b_begin(struct call *c)
{
	const struct e2b_op *op = (const struct e2b_op *)c->route.op;

	c->handler = op->handler;
	if (op->streams)
		c->handler(c);
	else if (op->form == E2B_STREAM)
		envelope_read(c);
	else
		call_read_body(c);
}

/* The outcome of admission: refuse the call, or carry it out. */
static void e2b_go_on(struct call *c, int r, struct api_error *err, bool data)
{
	if (r == 0 && c->v1->stopping)
		r = api_error_set(err, API_ERR_SHUTTING_DOWN, "the service is stopping");
	if (c->answered)
		return;
	if (r < 0 || !c->route.op)
		call_error(c, err);
	else if (data)
		e2b_resume(c, e2b_begin);
	else
		e2b_begin(c);
}

static void e2b_on_signed(struct call *c, const char *id)
{
	struct target t = { .port = ENVD_PORT, .given = true };
	struct api_error err = { 0 };

	(void)strcpy(t.id, id);
	e2b_go_on(c, e2b_admit_data(c, &t, &err), &err, true);
}

void e2b_request(struct http_request *req, struct e2b *e)
{
	struct api_error err = { 0 };
	struct target t = { 0 };
	bool data = target_from_host(e->v1->config->domain, req, &t) ||
		    target_from_headers(req, &t);
	bool is_signed = !data && strcmp(req->path, "/files") == 0;
	struct call *c;
	int r;

	/* On other ports, it is a request to a server in the sandbox. */
	if ((!data || t.port == ENVD_PORT) &&
	    e2b_is_preflight(req, t.port == ENVD_PORT)) {
		e2b_answer_preflight(req);
		return;
	}
	if (is_signed || t.port == ENVD_PORT)
		e2b_allow_origins(req);
	c = call_new(e->v1, req);
	if (!c)
		return;
	c->face = e;
	c->route = (struct route){ 0 };
	if (is_signed) {
		c->show_error = e2b_show_rest;
		c->route.op = &proxy_op.op;
		e2b_find_signed(c, e2b_on_signed);
		return;
	}
	r = data ? e2b_admit_data(c, &t, &err) : e2b_admit_control(c, &err);
	e2b_go_on(c, r, &err, data);
}
