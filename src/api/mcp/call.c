/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - calls: results, errors, progress, log messages, cancellation */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/mcp/internal.h"
#include "base/list.h"

#define ERROR_MAX 8192 /* maximum size of an error message */

static const char *const level_names[] = { "debug", "info",     "notice", "warning",
					   "error", "critical", "alert",  "emergency" };
_Static_assert(ARRAY_SIZE(level_names) == MCP_LEVEL_MAX, "a level has no name");

int mcp_level_parse(const char *name)
{
	for (int i = 0; name && i < MCP_LEVEL_MAX; i++)
		if (strcmp(level_names[i], name) == 0)
			return i;
	return -1;
}

/* --------------------------------------------------------------------- lifetime */

static void call_read_host(struct mcp_call *c, const struct http_request *req)
{
	const char *host = http_header(req, "Host");

	c->tls = req->peer->tls;
	if (host && req->peer->kind == HTTP_PEER_TCP)
		(void)snprintf(c->host, sizeof(c->host), "%.255s", host);
}

struct mcp_call *mcp_call_new(struct mcp_exchange *x, json_t *message,
			      const struct rpc_message *m)
{
	struct mcp_call *c = calloc(1, sizeof(*c));
	const char *wish = http_header(x->req, "Warren-Sandbox");

	if (!c)
		return NULL;
	c->mcp = x->mcp;
	c->refs = 1;
	c->exchange = x;
	c->caller = x->caller;
	c->era = x->era;
	c->large = x->large;
	c->message = json_incref(message);
	c->id = m->id;
	c->method = m->method;
	c->params = m->params;
	c->meta = m->meta;
	c->progress_token = json_object_get(m->meta, "progressToken");
	if (!json_is_string(c->progress_token) && !json_is_integer(c->progress_token))
		c->progress_token = NULL;
	c->log_level = x->session ? x->session->log_level : -1;
	if (!x->session && wish)
		(void)snprintf(c->wish, sizeof(c->wish), "%s", wish);
	call_read_host(c, x->req);
	mcp_exchange_ref(x);
	DLIST_PUSH(x->calls, c);
	if (x->session) {
		c->session = x->session;
		c->session->n_calls++;
		DLIST_PUSH_BY(c->session->calls, c, snext, sprev);
	}
	return c;
}

struct mcp_call *mcp_call_ref(struct mcp_call *c)
{
	c->refs++;
	return c;
}

void mcp_call_unref(struct mcp_call *c)
{
	if (--c->refs > 0)
		return;
	json_decref(c->made_args);
	mcp_drop(c->mcp, c->caller.tenant, c->message, c->large);
	free(c);
}

void mcp_call_detach(struct mcp_call *c)
{
	struct mcp_exchange *x = c->exchange;

	if (!x)
		return;
	DLIST_REMOVE(c);
	c->exchange = NULL;
	mcp_exchange_unref(x);
}

/* The call has ended: remove it from all lists. */
static void call_finish(struct mcp_call *c)
{
	if (c->session) {
		c->session->n_calls--;
		c->session->used = loop_now(service_loop(c->mcp->service));
		DLIST_REMOVE_BY(c, snext, sprev);
		c->session = NULL;
	}
	if (c->stop)
		c->stop(c);
	c->stop = NULL;
	c->state = NULL;
	mcp_call_unref(c);
}

struct mcp_call *mcp_call_find(struct mcp_session *s, const json_t *id)
{
	for (struct mcp_call *c = s->calls; c; c = c->snext)
		if (json_equal(c->id, id))
			return c;
	return NULL;
}

/* ----------------------------------------------------------------------- answers */

/* Send @message, if a client waits for it. */
static void call_send(struct mcp_call *c, int status, const struct buf *message)
{
	struct mcp_exchange *x = c->exchange;

	c->done = true;
	if (!x)
		return;
	mcp_exchange_ref(x);
	mcp_call_detach(c);
	mcp_exchange_answer(x, status, message);
	mcp_exchange_unref(x);
}

void mcp_call_fail(struct mcp_call *c, const struct rpc_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(ERROR_MAX);

	if (c->done)
		return;
	rpc_write_error(&out, c->id, err);
	call_send(c, rpc_status(c->era, err->code), &out);
	call_finish(c);
}

void mcp_call_error(struct mcp_call *c, int code, const char *fmt, ...)
{
	struct rpc_error err = { .code = code };
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(err.message, sizeof(err.message), fmt, ap);
	va_end(ap);
	mcp_call_fail(c, &err);
}

void mcp_call_cancel(struct mcp_call *c)
{
	struct rpc_error err;
	AUTO_BUF struct buf out = BUF_INIT(ERROR_MAX);

	if (c->done)
		return;
	c->cancelled = true;
	(void)rpc_error_set(&err, RPC_CANCELLED, "the request was cancelled");
	rpc_write_error(&out, c->id, &err);
	call_send(c, 200, &out);
	call_finish(c);
}

void mcp_result_open(struct json *j, enum rpc_era era, bool cached)
{
	json_open(j, NULL, '{');
	if (era != RPC_MODERN)
		return;
	json_str(j, "resultType", "complete");
	json_open(j, "_meta", '{');
	mcp_write_server(j, RPC_META "serverInfo");
	json_close(j, '}');
	if (cached) {
		json_int(j, "ttlMs", 0);
		json_str(j, "cacheScope", "private");
	}
}

bool mcp_list_open(struct mcp_call *c, struct json *j, const char *name)
{
	if (json_object_get(c->params, "cursor")) {
		mcp_call_error(c, RPC_INVALID_PARAMS,
			       "params.cursor: there is only one page; omit the cursor");
		return false;
	}
	mcp_result_open(j, c->era, true);
	json_open(j, name, '[');
	return true;
}

/* Send a large result without changes. */
static void call_send_large(struct mcp_call *c, struct buf *result)
{
	struct mcp_exchange *x = c->exchange;

	if (!http_keep(x->req, result->len)) {
		mcp_call_error(c, RPC_INTERNAL_ERROR,
			       "not enough memory for the result; try again");
		return;
	}
	c->done = true;
	mcp_exchange_ref(x);
	mcp_call_detach(c);
	mcp_exchange_answer_large(x, c->id, result);
	mcp_exchange_unref(x);
	call_finish(c);
}

void mcp_call_result(struct mcp_call *c, struct buf *result)
{
	struct mcp_exchange *x = c->exchange;
	AUTO_BUF struct buf out = BUF_INIT(MCP_RESULT_MAX);

	if (c->done)
		return;
	if (x && x->stream && result->len > MCP_EVENT_MAX - 4096) {
		mcp_call_error(
			c, RPC_INTERNAL_ERROR,
			"the result has %zu bytes, which is too much for a stream of "
			"events: ask for less%s",
			result->len, x->at_sse ? "" : ", or without a progressToken");
		return;
	}
	if (x && x->req && !x->stream && result->len > MCP_AT_ONCE && !result->failed) {
		call_send_large(c, result);
		return;
	}
	rpc_write_result(&out, c->id, result->data, result->len);
	if (result->failed || out.failed ||
	    (x && x->req && out.len > MCP_AT_ONCE && !http_keep(x->req, out.len))) {
		mcp_call_error(c, RPC_INTERNAL_ERROR,
			       "not enough memory for the result; try again");
		return;
	}
	call_send(c, 200, &out);
	call_finish(c);
}

void mcp_call_empty(struct mcp_call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };

	mcp_result_open(&j, c->era, false);
	json_close(&j, '}');
	mcp_call_result(c, &out);
}

/* -------------------------------------------------------------- notifications */

static void call_notify_open(struct json *j, const char *method)
{
	json_open(j, NULL, '{');
	json_str(j, "jsonrpc", "2.0");
	json_str(j, "method", method);
	json_open(j, "params", '{');
}

static void call_notify_close(struct mcp_call *c, struct json *j)
{
	json_close(j, '}');
	json_close(j, '}');
	(void)mcp_exchange_notify(c->exchange, j->out);
}

bool mcp_call_wants_progress(const struct mcp_call *c)
{
	return c->progress_token && c->exchange && !c->exchange->batch &&
	       c->exchange->takes_events;
}

void mcp_call_progress(struct mcp_call *c, uint64_t progress, const char *text, size_t n)
{
	AUTO_BUF struct buf out = BUF_INIT(256U << 10);
	struct json j = { .out = &out };

	if (c->done || !mcp_call_wants_progress(c) || progress <= c->progress ||
	    c->exchange->blocked)
		return;
	c->progress = progress;
	call_notify_open(&j, "notifications/progress");
	rpc_write_id(&j, "progressToken", c->progress_token);
	json_u64(&j, "progress", progress);
	json_strn(&j, "message", text, n);
	call_notify_close(c, &j);
}

void mcp_call_log(struct mcp_call *c, int level, const char *fmt, ...)
{
	AUTO_BUF struct buf out = BUF_INIT(16384);
	struct json j = { .out = &out };
	char text[512];
	va_list ap;

	if (c->done || !c->exchange || c->log_level < 0 || level < c->log_level)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	call_notify_open(&j, "notifications/message");
	json_str(&j, "level", level_names[level]);
	json_str(&j, "logger", "warren");
	json_str(&j, "data", text);
	call_notify_close(c, &j);
}
