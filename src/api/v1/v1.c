/* SPDX-License-Identifier: Apache-2.0 */
/*
 * v1.c - the path of a request to its handler
 *
 * route -> caller -> path parameters -> query -> body -> handler. An unauthorized client
 * can find out only which routes exist, which is public. If the body of an operation is
 * not JSON, the handler reads the body itself.
 */
#include "api/v1/v1.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "config/config.h"
#include "net/loop.h"

#define PARSE_AT_ONCE (64U << 10) /* a millisecond */

const v1_handler v1_handlers[V1_OP_COUNT] = {
#define V1_HANDLER(op, name) [V1_##op] = v1_##name,
	V1_OPS(V1_HANDLER)
#undef V1_HANDLER
};

static void v1_handle(struct call *c)
{
	struct service *s = c->v1->service;

	loop_mark(service_loop(s), c->route.op->id);
	service_permit(s, c->caller.token, c->caller.expires_at);
	c->handler(c);
	service_permit(s, NULL, 0);
}

/* A large body takes a tenth of a second to parse, so it is parsed on another thread. */
struct body_parse {
	struct call *call; /* a reference; its client may be gone */
	struct buf text;
	struct body body;
	struct api_error err;
	int result;
};

static void body_parse_work(void *ctx)
{
	struct body_parse *p = ctx;

	p->result = body_read(p->call->route.op, p->text.data, p->text.len, &p->body,
			      &p->err);
	buf_done(&p->text);
}

static void body_parse_done(void *ctx)
{
	struct body_parse *p = ctx;
	struct call *c = p->call;

	if (c->v1->stopping && p->result == 0)
		p->result = api_error_set(&p->err, API_ERR_SHUTTING_DOWN,
					  "the service is stopping");
	c->body = p->body;
	c->body_is_large = true;
	if (c->req && p->result < 0)
		call_error(c, &p->err);
	else if (c->req)
		v1_handle(c);
	free(p);
	call_unref(c);
}

static void body_parse_apart(struct call *c, size_t n)
{
	struct body_parse *p = calloc(1, sizeof(*p));

	if (p)
		p->call = c;
	/* The bytes of the body are charged until the request ends. */
	if (p && http_keep(c->req, n))
		p->text = http_take_body(c->req);
	if (p && p->text.data &&
	    loop_work(service_loop(c->v1->service), c->caller.tenant, body_parse_work,
		      body_parse_done, p) == 0) {
		(void)call_ref(c);
		return;
	}
	if (p)
		buf_done(&p->text);
	free(p);
	call_refuse(c, API_ERR_OVERLOADED,
		    "not enough memory for the request body; try again");
}

static void v1_on_body(struct http_request *req, const char *data, size_t n)
{
	struct call *c = req->user;
	struct api_error err = { 0 };

	loop_mark(service_loop(c->v1->service), c->route.op->id);
	if (n > PARSE_AT_ONCE)
		body_parse_apart(c, n);
	else if (body_read(c->route.op, data, n, &c->body, &err) < 0)
		call_error(c, &err);
	else
		v1_handle(c);
}

/* Accept JSON, or a body without a type: a form on a foreign page can send neither. */
static bool is_json(const struct http_request *req)
{
	const char *type = http_header(req, "Content-Type");
	size_t n;

	if (!type)
		return true;
	n = strcspn(type, "; \t");
	return n == strlen("application/json") &&
	       strncasecmp(type, "application/json", n) == 0;
}

void call_read_body(struct call *c)
{
	const struct api_op *op = c->route.op;
	struct api_error err = { 0 };

	if (!op->any_method && !access_body_is_plain(c->req)) {
		call_refuse(c, API_ERR_UNSUPPORTED_MEDIA_TYPE,
			    "Content-Encoding '%.60s' is not supported: send the body "
			    "without it",
			    http_header(c->req, "Content-Encoding"));
	} else if (op->body == API_BODY_STREAM || op->any_method) {
		v1_handle(c);
	} else if (!c->req->has_body) {
		if (body_read(op, "", 0, &c->body, &err) < 0)
			call_error(c, &err);
		else
			v1_handle(c);
	} else if (op->body == API_BODY_JSON && !is_json(c->req)) {
		call_refuse(c, API_ERR_UNSUPPORTED_MEDIA_TYPE,
			    "Content-Type must be application/json");
	} else {
		size_t max = op->max_body ? (size_t)op->max_body : 1U << 20;

		if (c->v1->config->request_body && max > c->v1->config->request_body)
			max = (size_t)c->v1->config->request_body;
		http_collect(c->req, max, v1_on_body);
	}
}

static void v1_record(struct call *c)
{
	const struct api_op *op = c->route.op;
	struct api_record r = {
		.request_id = http_request_id(c->req),
		.method = c->req->method,
		.path = c->req->path,
		.tenant = c->caller.tenant,
		.status = http_status(c->req),
		.proxied = c->by_host || op == &v1_face.ops[V1_PROXY_PORT] ||
			   op == &v1_face.ops[V1_OPEN_TUNNEL],
		.usec = (clock_now() - c->begun) / 1000,
		.cause = c->cause,
	};

	c->v1->record(&r);
}

static void v1_delist(struct call *c)
{
	if (c->prev)
		DLIST_REMOVE(c);
}

void v1_stop(struct v1 *v1, bool last)
{
	struct call *left = v1->calls;

	v1->stopping = true;
	v1->calls = NULL;
	if (left)
		left->prev = &left;
	/* Any of the requests may end in the meantime. */
	while (left) {
		struct call *c = call_ref(left);

		v1_delist(c);
		DLIST_PUSH(v1->calls, c);
		if (c->stop && c->req)
			c->stop(c, last);
		call_unref(c);
	}
}

void call_closed(struct call *c)
{
	v1_delist(c);
	if (c->v1->record)
		v1_record(c);
	live_leave(&c->live);
	c->req = NULL;
	c->answered = true;
	if (c->gone)
		c->gone(c);
	call_unref(c);
}

static void v1_on_closed(struct http_request *req, int why UNUSED)
{
	call_closed(req->user);
}

/*
 * Identify the caller and the operation. The body of a forwarded request is not parsed.
 */
static int v1_admit(struct call *c, struct api_error *err)
{
	const struct http_request *req = c->req;
	int r = port_route(c) ? 0
			      : route_find(&v1_face, req->method, req->path,
					   strlen(req->path), &c->route, err);

	if (r < 0)
		return r;
	c->head = c->route.head;
	c->handler = v1_handlers[c->route.op - v1_face.ops];
	r = access_check(c->v1, c->req, &c->route, &c->caller, err);
	if (r < 0 && !c->caller.token[0])
		c->caller.tenant[0] = '\0'; /* the client is not known */
	if (c->caller.token[0]) {
		int busy = live_enter(c->v1->live, &c->live, c->req, &c->caller,
				      r < 0 ? &(struct api_error){ 0 } : err);

		r = r < 0 ? r : busy;
		http_known(c->req, true);
		if (http_owner(c->req, c->caller.tenant) < 0 && r == 0)
			r = api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	} else if (r < 0) {
		http_known(c->req, false);
	}
	if (r == 0 && !c->by_host)
		r = route_check(&c->route, err);
	if (r == 0 && !c->route.op->any_method)
		r = query_read(c->route.op, req->query,
			       req->query ? strlen(req->query) : 0, c + 1, &c->query,
			       err);
	if (r == 0 && c->v1->stopping)
		r = api_error_set(err, API_ERR_SHUTTING_DOWN, "the service is stopping");
	return r;
}

struct call *call_new(struct v1 *v1, struct http_request *req)
{
	struct call *c =
		malloc(sizeof(*c) + (req->query ? query_room(strlen(req->query)) : 0));

	if (!c) {
		(void)http_refuse(req, 503, "overloaded", "out of memory");
		return NULL;
	}
	/* Do not clear the query, because it is initialised separately. */
	c->v1 = v1;
	c->face = NULL;
	c->handler = NULL;
	c->show_error = NULL;
	c->req = req;
	c->refs = 1;
	c->answered = c->head = c->by_host = false;
	c->caller = (struct caller){ 0 };
	c->live = (struct live_request){ 0 };
	c->route.op = NULL;
	c->state = NULL;
	c->gone = NULL;
	c->stop = NULL;
	DLIST_PUSH(c->v1->calls, c);
	c->body = (struct body){ 0 };
	c->body_is_large = false;
	c->begun = clock_now();
	c->cause[0] = '\0';
	req->user = c;
	req->closed = v1_on_closed;
	return c;
}

void v1_request(struct http_request *req, void *ctx)
{
	struct call *c = call_new(ctx, req);
	struct api_error err = { 0 };

	if (!c)
		return;
	if (v1_admit(c, &err) < 0)
		call_error(c, &err);
	else
		call_read_body(c);
}

/* Use the code that was set here, or map the status. */
static enum api_code refusal_code(const struct http_refusal *refusal)
{
	for (int code = 0; code < API_ERR_COUNT; code++)
		if (api_code_status((enum api_code)code) == refusal->status &&
		    strcmp(api_code_name((enum api_code)code), refusal->code) == 0)
			return (enum api_code)code;
	return api_code_refused(refusal->status);
}

/* A request that could not be read has no call that would log its end, so log it here. */
static void record_refusal(const struct v1 *v1, const struct http_refusal *refusal)
{
	char peer[96];
	struct api_record r = { .request_id = refusal->request_id,
				.method = "",
				.path = "",
				.tenant = "",
				.status = refusal->status,
				.cause = refusal->message,
				.peer = peer };

	http_peer_text(refusal->peer, peer, sizeof(peer));
	v1->record(&r);
}

void v1_refused(const struct http_refusal *refusal, struct buf *body, void *ctx)
{
	const struct v1 *v1 = ctx;
	struct api_error err = { 0 };

	if (refusal->peer && v1->record)
		record_refusal(v1, refusal);
	(void)api_error_set(&err, refusal_code(refusal), "%s", refusal->message);
	api_error_write(&err, refusal->request_id, body);
}
