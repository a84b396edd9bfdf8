/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.c - MCP over HTTP ("streamable HTTP"): methods, headers, bodies
 *
 * The checks of a POST have a fixed order: Origin and Host, token, method, type of the
 * body, Accept, JSON, one message, headers against the message, version, method.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/body.h"
#include "api/mcp/internal.h"
#include "api/record.h"
#include "base/clock.h"
#include "base/list.h"
#include "config/config.h"

#define BODY_FLAGS (JSON_ALLOW_NUL | JSON_DECODE_ANY)

bool mcp_wants(const struct http_request *req)
{
	return strcmp(req->path, MCP_PATH) == 0 || strcmp(req->path, MCP_SSE_PATH) == 0;
}

int mcp_header(const struct http_request *req, const char *name, const char **ret)
{
	int n = 0;

	*ret = NULL;
	for (size_t i = 0; i < req->n_headers; i++)
		if (strcasecmp(req->headers[i].name, name) == 0) {
			*ret = *ret ? *ret : req->headers[i].value;
			n++;
		}
	return n > 1 ? -1 : n;
}

static void transport_refuse(struct mcp_exchange *x, int status, int code,
			     const char *message)
{
	struct rpc_error err;

	(void)rpc_error_set(&err, code, "%s", message);
	mcp_exchange_refuse(x, status, &err);
}

static void transport_drop_work(void *ctx)
{
	json_decref(ctx);
}

void mcp_drop(struct mcp *mcp, const char *tenant, json_t *json, bool large)
{
	if (!json || !large ||
	    loop_work(service_loop(mcp->service), tenant, transport_drop_work, NULL,
		      json) < 0)
		json_decref(json);
}

/* ------------------------------------------------------------------- messages */

static void transport_run(struct mcp_exchange *x, json_t *json,
			  const struct rpc_message *m)
{
	struct mcp_call *c = mcp_call_new(x, json, m);

	if (c)
		mcp_call_run(c);
	else
		transport_refuse(x, 503, RPC_INTERNAL_ERROR, "out of memory");
}

static void transport_modern(struct mcp_exchange *x, json_t *json)
{
	struct rpc_headers h = { 0 };
	struct rpc_error err = { 0 };
	struct rpc_message m;

	h.doubled = mcp_header(x->req, "MCP-Protocol-Version", &h.version) < 0;
	h.doubled = mcp_header(x->req, "Mcp-Method", &h.method) < 0 || h.doubled;
	h.doubled = mcp_header(x->req, "Mcp-Name", &h.name) < 0 || h.doubled;
	if (json_is_array(json)) {
		transport_refuse(x, 400, RPC_INVALID_REQUEST,
				 "an array of messages is not allowed; send one message");
		return;
	}
	if (rpc_read(json, &m, &err) < 0) {
		mcp_exchange_refuse(x, rpc_status(x->era, err.code), &err);
	} else if (m.kind == RPC_RESPONSE) {
		transport_refuse(
			x, 400, RPC_INVALID_REQUEST,
			"this server sends no requests, so there is no response");
	} else if (m.kind == RPC_NOTIFICATION) {
		mcp_exchange_empty(x, 202);
	} else if (rpc_check_modern(&m, &h, &err) < 0 || mcp_session_join(x, &err) < 0) {
		AUTO_BUF struct buf out = BUF_INIT(8192);

		rpc_write_error(&out, m.id, &err);
		mcp_exchange_answer(x, rpc_status(x->era, err.code), &out);
	} else {
		transport_run(x, json, &m);
	}
}

void mcp_notified(struct mcp_exchange *x, const struct rpc_message *m)
{
	struct mcp_call *c = NULL;

	if (m->method && strcmp(m->method, "notifications/cancelled") == 0 && x->session)
		c = mcp_call_find(x->session, json_object_get(m->params, "requestId"));
	if (c && strcmp(c->method, "initialize") != 0)
		mcp_call_cancel(c);
}

static bool transport_needs_session(const struct rpc_message *m)
{
	return m->kind != RPC_REQUEST ||
	       (strcmp(m->method, "initialize") != 0 && strcmp(m->method, "ping") != 0);
}

static void transport_legacy(struct mcp_exchange *x, json_t *json)
{
	struct rpc_error err = { 0 };
	struct rpc_message m;
	int status = 0;

	if (rpc_read(json, &m, &err) < 0) {
		mcp_exchange_refuse(x, 400, &err);
		return;
	}
	if (transport_needs_session(&m))
		status = mcp_session_find(x, &err);
	if (status) {
		mcp_exchange_refuse(x, status, &err);
	} else if (m.kind == RPC_REQUEST) {
		transport_run(x, json, &m);
	} else {
		mcp_notified(x, &m);
		mcp_exchange_empty(x, 202);
	}
}

/* An invalid call in an array also gets an answer. */
static void transport_collect_error(struct mcp_exchange *x, const struct rpc_message *m,
				    const struct rpc_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(8192);

	rpc_write_error(&out, m->id, err);
	mcp_exchange_answer(x, 200, &out);
}

static void transport_one_of_many(struct mcp_exchange *x, json_t *json)
{
	struct rpc_error err = { 0 };
	struct rpc_message m;
	struct mcp_call *c;

	if (rpc_read(json, &m, &err) < 0) {
		m.id = NULL;
		transport_collect_error(x, &m, &err);
	} else if (m.kind != RPC_REQUEST) {
		mcp_notified(x, &m);
	} else if (!x->session) {
		(void)rpc_error_set(&err, RPC_INVALID_REQUEST, "the session has ended");
		transport_collect_error(x, &m, &err);
	} else if (strcmp(m.method, "initialize") == 0) {
		(void)rpc_error_set(&err, RPC_INVALID_REQUEST,
				    "initialize cannot be part of an array");
		transport_collect_error(x, &m, &err);
	} else if ((c = mcp_call_new(x, json, &m))) {
		mcp_call_run(c);
	} else {
		(void)rpc_error_set(&err, RPC_INTERNAL_ERROR, "out of memory");
		transport_collect_error(x, &m, &err);
	}
}

/* An array of messages, as in the revision 2025-03-26. Each message is handled in its own
 * turn of the loop. */
struct mcp_batch {
	struct mcp_exchange *x; /* a reference */
	json_t *messages;
	size_t next;
	struct loop_task task;
};

static void transport_on_batch(void *ctx)
{
	struct mcp_batch *b = ctx;
	struct mcp_exchange *x = b->x;

	if (x->req && b->next < json_array_size(b->messages)) {
		loop_later(service_loop(x->mcp->service), &b->task);
		transport_one_of_many(x, json_array_get(b->messages, b->next++));
		return;
	}
	x->reading = false;
	mcp_exchange_collected(x);
	mcp_drop(x->mcp, x->caller.tenant, b->messages, x->large);
	mcp_exchange_unref(x);
	free(b);
}

static void transport_batch(struct mcp_exchange *x, json_t *json)
{
	struct mcp_batch *b;
	struct rpc_error err = { 0 };
	size_t n = json_array_size(json);
	int status;

	if (n == 0 || n > RPC_BATCH_MAX) {
		transport_refuse(x, 400, RPC_INVALID_REQUEST,
				 n ? "an array can have at most 100 messages"
				   : "the array is empty");
		return;
	}
	status = mcp_session_find(x, &err);
	if (status == 0 && strcmp(x->session->version, "2025-03-26") != 0) {
		status = 400;
		(void)rpc_error_set(
			&err, RPC_INVALID_REQUEST,
			"arrays of messages are supported only in the revision "
			"2025-03-26; send one message");
	}
	if (status) {
		mcp_exchange_refuse(x, status, &err);
		return;
	}
	b = calloc(1, sizeof(*b));
	if (!b) {
		transport_refuse(x, 503, RPC_INTERNAL_ERROR, "out of memory");
		return;
	}
	b->x = x;
	b->messages = json_incref(json);
	b->task = (struct loop_task){ .fn = transport_on_batch, .ctx = b };
	mcp_exchange_ref(x);
	x->batch = x->reading = true;
	loop_later(service_loop(x->mcp->service), &b->task);
}

static void transport_on_json(struct mcp_exchange *x, json_t *json,
			      const struct api_error *why)
{
	const char *version = NULL;

	if (!json) {
		bool bad = why->code == API_ERR_INVALID_JSON;

		transport_refuse(x, bad ? 400 : 503,
				 bad ? RPC_PARSE_ERROR : RPC_INTERNAL_ERROR,
				 why->message);
		return;
	}
	if (x->mcp->stopping) {
		transport_refuse(x, 503, RPC_INTERNAL_ERROR, "the service is stopping");
		return;
	}
	(void)mcp_header(x->req, "MCP-Protocol-Version", &version);
	x->era = x->at_sse ? RPC_LEGACY : rpc_era(version, json);
	mcp_exchange_ref(x);
	if (x->at_sse)
		mcp_sse_message(x, json);
	else if (x->era == RPC_MODERN)
		transport_modern(x, json);
	else if (json_is_array(json))
		transport_batch(x, json);
	else
		transport_legacy(x, json);
	mcp_exchange_unref(x);
}

/* ----------------------------------------------------------------------- bodies */

/* A large body, which is parsed on another thread. */
struct mcp_parse {
	struct mcp_exchange *x; /* a reference */
	struct buf text;
	json_t *json;
	struct api_error why;
};

static void transport_parse_work(void *ctx)
{
	struct mcp_parse *p = ctx;

	p->json = body_load(p->text.data, p->text.len, BODY_FLAGS, &p->why);
	buf_done(&p->text);
}

static void transport_parse_done(void *ctx)
{
	struct mcp_parse *p = ctx;

	p->x->large = true;
	if (p->x->req)
		transport_on_json(p->x, p->json, &p->why);
	mcp_drop(p->x->mcp, p->x->caller.tenant, p->json, true);
	mcp_exchange_unref(p->x);
	free(p);
}

static void transport_parse_apart(struct mcp_exchange *x, size_t n)
{
	struct mcp_parse *p = calloc(1, sizeof(*p));

	if (p)
		p->x = x;
	if (p && http_keep(x->req, n))
		p->text = http_take_body(x->req);
	if (p && p->text.data &&
	    loop_work(service_loop(x->mcp->service), x->caller.tenant,
		      transport_parse_work, transport_parse_done, p) == 0) {
		mcp_exchange_ref(x);
		return;
	}
	if (p)
		buf_done(&p->text);
	free(p);
	transport_refuse(x, 503, RPC_INTERNAL_ERROR,
			 "not enough memory for the request; try again");
}

static void transport_on_body(struct http_request *req, const char *data, size_t n)
{
	struct mcp_exchange *x = req->user;
	struct api_error why = { 0 };
	json_t *json;

	if (n > MCP_AT_ONCE) {
		transport_parse_apart(x, n);
		return;
	}
	json = body_load(data, n, BODY_FLAGS, &why);
	transport_on_json(x, json, &why);
	json_decref(json);
}

/* ---------------------------------------------------------------------- HTTP methods */

/* Is the value of a header this type, with or without parameters? */
static bool transport_is_type(const char *value, size_t n, const char *type)
{
	while (n > 0 && (*value == ' ' || *value == '\t')) {
		value++;
		n--;
	}
	n = strcspn(value, ";, \t") < n ? strcspn(value, ";, \t") : n;
	return n == strlen(type) && strncasecmp(value, type, n) == 0;
}

/* Does the client accept answers of this type? Without Accept, it accepts every type. */
static bool transport_accepts(const struct http_request *req, const char *type,
			      const char *range)
{
	bool any = false;

	for (size_t i = 0; i < req->n_headers; i++) {
		const char *at = req->headers[i].value;

		if (strcasecmp(req->headers[i].name, "Accept") != 0)
			continue;
		any = true;
		while (*at) {
			size_t n = strcspn(at, ",");

			if (transport_is_type(at, n, type) ||
			    transport_is_type(at, n, range) ||
			    transport_is_type(at, n, "*/*"))
				return true;
			at += n + (at[n] == ',');
		}
	}
	return !any;
}

static void transport_post(struct mcp_exchange *x)
{
	struct http_request *req = x->req;
	const char *type = http_header(req, "Content-Type");

	x->takes_events = transport_accepts(req, "text/event-stream", "text/*");
	if (!type || !transport_is_type(type, strlen(type), "application/json"))
		transport_refuse(x, 415, RPC_INVALID_REQUEST,
				 "Content-Type must be application/json");
	else if (!access_body_is_plain(req))
		transport_refuse(x, 415, RPC_INVALID_REQUEST,
				 "Content-Encoding is not supported: send the body "
				 "without it");
	else if (!transport_accepts(req, "application/json", "application/*"))
		transport_refuse(x, 406, RPC_INVALID_REQUEST,
				 "Accept must list application/json and "
				 "text/event-stream");
	else if (!req->has_body)
		transport_on_body(req, "", 0);
	else
		http_collect(req, MCP_BODY_MAX, transport_on_body);
}

/*
 * Open the stream of a session, for messages that belong to no request. With
 * Warren-Session, the sessions of that name end with the stream.
 */
static void transport_get(struct mcp_exchange *x)
{
	struct rpc_error err = { 0 };
	const char *holder = NULL;
	int status;

	x->takes_events = transport_accepts(x->req, "text/event-stream", "text/*");
	if (!x->takes_events) {
		transport_refuse(x, 406, RPC_INVALID_REQUEST,
				 "Accept must list text/event-stream");
		return;
	}
	if (x->mcp->stopping) {
		transport_refuse(x, 503, RPC_INTERNAL_ERROR, "the service is stopping");
		return;
	}
	if (x->at_sse) {
		mcp_sse_open(x);
		return;
	}
	if (http_header(x->req, "Last-Event-ID")) {
		transport_refuse(x, 400, RPC_INVALID_REQUEST,
				 "streams cannot be resumed: their events have no ids. "
				 "Omit Last-Event-ID for a new stream");
		return;
	}
	(void)mcp_header(x->req, "Warren-Session", &holder);
	if (holder && !http_header(x->req, "Mcp-Session-Id"))
		status = mcp_session_join(x, &err) < 0 ? 400 : 0;
	else
		status = mcp_session_find(x, &err);
	if (status) {
		mcp_exchange_refuse(x, status, &err);
		return;
	}
	if (x->session->stream) {
		transport_refuse(x, 409, RPC_INVALID_REQUEST,
				 "the session has a stream already");
		return;
	}
	x->is_get = true;
	if (holder)
		(void)snprintf(x->holds, sizeof(x->holds), "%s", x->session->holder);
	x->session->stream = x;
	x->session->subs.stream = x;
	mcp_exchange_begin(x);
}

static void transport_delete(struct mcp_exchange *x)
{
	struct rpc_error err = { 0 };
	int status = mcp_session_find(x, &err);
	struct mcp_session *s = x->session;

	if (status) {
		mcp_exchange_refuse(x, status, &err);
		return;
	}
	x->session = NULL;
	(void)snprintf(x->holds, sizeof(x->holds), "%s", s->holder);
	mcp_session_end(s);
	if (x->holds[0])
		mcp_session_let_go(x->mcp, &x->caller, x->holds);
	mcp_exchange_empty(x, 204);
}

/* ----------------------------------------------------------------- start of a request */

static int transport_admit(struct mcp_exchange *x, struct api_error *err)
{
	const char *auth = http_header(x->req, "Authorization");
	struct mcp *mcp = x->mcp;

	if (access_origin(mcp->config->domain, x->req, err) < 0)
		return 403;
	(void)strcpy(x->caller.tenant, DB_LOCAL);
	if (auth && strncasecmp(auth, "Bearer ", 7) != 0) {
		(void)api_error_set(err, API_ERR_UNAUTHORIZED,
				    "Authorization must be 'Bearer <token>'");
		return 401;
	}
	if (auth && access_token(mcp->service, auth + 7, &x->caller, err) < 0)
		return 401;
	if (!auth && !access_is_owner(mcp->owner, x->req->peer)) {
		(void)api_error_set(err, API_ERR_UNAUTHORIZED,
				    "a token is required: Authorization: Bearer <token>; "
				    "'warren token create' creates one");
		return 401;
	}
	if (!auth)
		(void)access_scopes_parse("admin", &x->caller.scopes);
	http_known(x->req, x->caller.token[0]);
	if (live_enter(mcp->live, &x->live, x->req, &x->caller, err) < 0)
		return api_code_status(err->code);
	if (x->caller.token[0] && http_owner(x->req, x->caller.tenant) < 0) {
		(void)api_error_set(err, API_ERR_OVERLOADED, "out of memory");
		return 503;
	}
	return 0;
}

static void transport_on_closed(struct http_request *req, int why)
{
	struct mcp_exchange *x = req->user;
	struct sandbox *lost = why && x->created[0]
				       ? sandbox_find(x->mcp->service, NULL, x->created)
				       : NULL;
	struct mcp_session *ends = x->at_sse && x->is_get ? x->session : NULL;
	struct api_record r = {
		.request_id = http_request_id(req),
		.method = req->method,
		.path = req->path,
		.tenant = x->caller.token[0] ? x->caller.tenant : "",
		.status = http_status(req),
		.usec = (clock_now() - x->begun) / 1000,
		.cause = x->cause,
	};

	if (x->mcp->record)
		x->mcp->record(&r);
	live_leave(&x->live);
	x->req = NULL;
	if (x->is_get && x->session && x->session->stream == x)
		x->session->stream = x->session->subs.stream = NULL;
	while (x->calls) {
		struct mcp_call *c = x->calls;

		if (x->era == RPC_MODERN)
			mcp_call_cancel(c);
		else
			mcp_call_detach(c);
	}
	x->session = NULL;
	x->quiet = loop_timer_free(x->quiet);
	DLIST_REMOVE(x);
	if (lost)
		sandbox_delete(lost, mcp_ignore, NULL);
	if (ends)
		mcp_session_end(ends);
	if (x->is_get && x->holds[0])
		mcp_session_let_go(x->mcp, &x->caller, x->holds);
	mcp_exchange_unref(x);
}

/* Is the HTTP method allowed? GET and DELETE are allowed only for sessions. */
static bool transport_has_method(struct mcp_exchange *x)
{
	const char *version = NULL;
	bool get = strcmp(x->req->method, "GET") == 0;
	bool ends = strcmp(x->req->method, "DELETE") == 0;

	if (strcmp(x->req->method, "POST") == 0)
		return true;
	(void)mcp_header(x->req, "MCP-Protocol-Version", &version);
	if (version && !rpc_is_legacy_version(version) && !x->at_sse)
		x->era = RPC_MODERN;
	if (x->at_sse)
		return get;
	return (get && x->era == RPC_LEGACY) ||
	       (ends && (x->era == RPC_LEGACY || http_header(x->req, "Warren-Session")));
}

void mcp_request(struct http_request *req, struct mcp *mcp)
{
	struct mcp_exchange *x = calloc(1, sizeof(*x));
	struct api_error err = { 0 };
	int status;

	if (!x) {
		(void)http_refuse(req, 503, "overloaded", "out of memory");
		return;
	}
	x->mcp = mcp;
	x->req = req;
	x->refs = 1;
	x->era = RPC_LEGACY;
	x->at_sse = strcmp(req->path, MCP_SSE_PATH) == 0;
	x->out = (struct buf)BUF_INIT(MCP_RESULT_MAX);
	x->begun = clock_now();
	DLIST_PUSH(mcp->exchanges, x);
	req->user = x;
	req->closed = transport_on_closed;
	status = transport_admit(x, &err);
	if (status == 401)
		http_known(req, false);
	if (status)
		transport_refuse(x, status, RPC_INVALID_REQUEST, err.message);
	else if (!transport_has_method(x))
		transport_refuse(x, 405, RPC_INVALID_REQUEST,
				 "this method is not allowed here");
	else if (strcmp(req->method, "POST") == 0)
		transport_post(x);
	else if (strcmp(req->method, "GET") == 0)
		transport_get(x);
	else
		transport_delete(x);
}

/* ---------------------------------------------------------------- stop of the service */

/*
 * Streams that never end by themselves are closed at once; calls continue as long as
 * possible. The session outlives its stream in this case, because otherwise its calls
 * would be cancelled.
 */
static void transport_stop_one(struct mcp_exchange *x, bool last)
{
	x->holds[0] = '\0';
	if (x->is_get && x->req && !x->answered && !x->calls) {
		x->answered = true;
		(void)http_end(x->req);
	} else if (x->stream && x->calls && x->calls->listens) {
		mcp_listen_end(x->calls);
	}
	while (last && x->calls)
		mcp_call_error(x->calls, RPC_INTERNAL_ERROR,
			       "the service is stopping before the request is finished");
}

void mcp_stop(struct mcp *mcp, bool last)
{
	struct mcp_exchange *next;

	mcp->stopping = true;
	for (struct mcp_exchange *x = mcp->exchanges; x; x = next) {
		next = x->next; /* an answer does not end the request at once (net/http.h)
				 */
		transport_stop_one(x, last);
	}
}
