/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.c - answers over HTTP: one JSON value, or a stream of events
 *
 * An answer is JSON unless something must be sent before it. Then it becomes a stream of
 * events, which ends with the answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/mcp/internal.h"
#include "base/list.h"

#define PIECE (256U << 10) /* bytes of a large answer that are sent at once */

void mcp_exchange_ref(struct mcp_exchange *x)
{
	x->refs++;
}

static void exchange_drop_part(struct mcp_exchange *x)
{
	struct mcp_part *p = LIST_POP(x->parts);

	buf_done(&p->data);
	free(p);
	x->sent = 0;
}

void mcp_exchange_unref(struct mcp_exchange *x)
{
	if (--x->refs > 0)
		return;
	x->quiet = loop_timer_free(x->quiet);
	while (x->parts)
		exchange_drop_part(x);
	buf_done(&x->out);
	free(x);
}

static size_t exchange_headers(struct mcp_exchange *x, struct http_header *h,
			       const char *type)
{
	size_t n = 0;

	h[n++] = (struct http_header){ "X-Request-Id", http_request_id(x->req) };
	if (type) {
		h[n++] = (struct http_header){ "Content-Type", type };
		h[n++] = (struct http_header){ "Cache-Control", "no-store" };
	}
	if (x->opened && x->session)
		h[n++] = (struct http_header){ "Mcp-Session-Id", x->session->id };
	return n;
}

void mcp_exchange_empty(struct mcp_exchange *x, int status)
{
	struct http_header h[8];

	if (!x->req || x->answered)
		return;
	x->answered = true;
	(void)http_respond(x->req, status, h, exchange_headers(x, h, NULL), NULL, 0);
}

static const char *exchange_allowed(const struct mcp_exchange *x)
{
	if (x->at_sse)
		return "POST, GET";
	return x->era == RPC_MODERN ? "POST" : "POST, GET, DELETE";
}

void mcp_exchange_refuse(struct mcp_exchange *x, int status, const struct rpc_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(8192);
	struct http_header h[8];
	size_t n;

	if (!x->req || x->answered)
		return;
	rpc_write_error(&out, NULL, err);
	n = exchange_headers(x, h, "application/json");
	if (status == 401)
		h[n++] = (struct http_header){ "WWW-Authenticate", "Bearer" };
	if (status == 405)
		h[n++] = (struct http_header){ "Allow", exchange_allowed(x) };
	if (status >= 500)
		(void)snprintf(x->cause, sizeof(x->cause), "%.255s", err->message);
	x->answered = true;
	(void)http_respond(x->req, status, h, n, out.data, out.len);
}

/* --------------------------------------------------------- streams of events */

static void exchange_event(struct buf *out, const struct buf *message)
{
	buf_puts(out, "event: message\ndata: ");
	buf_add(out, message->data, message->len);
	buf_puts(out, "\n\n");
}

static void exchange_on_drained(struct http_request *req)
{
	struct mcp_exchange *x = req->user;
	size_t max = x->out.max;

	x->blocked = false;
	if (x->out.len == 0)
		return;
	x->blocked = http_write(req, x->out.data, x->out.len) != 0;
	buf_done(&x->out);
	x->out = (struct buf)BUF_INIT(max);
	if (x->answered)
		(void)http_end(req);
}

static void exchange_on_quiet(void *ctx)
{
	struct mcp_exchange *x = ctx;

	if (!x->req || x->answered)
		return;
	mcp_exchange_begin(x);
	if (!x->blocked)
		x->blocked = http_write(x->req, ": ping\n\n", 8) != 0;
	loop_timer_set(x->quiet, MCP_QUIET_MS);
}

void mcp_exchange_keep_alive(struct mcp_exchange *x)
{
	if (x->quiet || !x->takes_events || x->batch)
		return;
	if (loop_timer_new(service_loop(x->mcp->service), exchange_on_quiet, x,
			   &x->quiet) == 0)
		loop_timer_set(x->quiet, MCP_QUIET_MS);
}

void mcp_exchange_begin(struct mcp_exchange *x)
{
	struct http_header h[8];
	size_t n;

	if (x->stream || x->answered || !x->req)
		return;
	n = exchange_headers(x, h, NULL);
	h[n++] = (struct http_header){ "Content-Type", "text/event-stream" };
	h[n++] = (struct http_header){ "Cache-Control", "no-cache, no-transform" };
	h[n++] = (struct http_header){ "X-Accel-Buffering", "no" };
	x->stream = true;
	x->req->drained = exchange_on_drained;
	(void)http_begin_response(x->req, 200, h, n, -1);
	mcp_exchange_keep_alive(x);
}

bool mcp_exchange_notify(struct mcp_exchange *x, const struct buf *message)
{
	AUTO_BUF struct buf out = BUF_INIT(MCP_EVENT_MAX);

	if (!x->req || x->answered || x->batch || !x->takes_events || x->blocked)
		return false;
	exchange_event(&out, message);
	if (message->failed || out.failed)
		return false;
	mcp_exchange_begin(x);
	x->blocked = http_write(x->req, out.data, out.len) != 0;
	return true;
}

/* Send an answer as an event, which may be the last one. While the client does not read,
 * the event waits. */
static void exchange_send(struct mcp_exchange *x, const struct buf *message, bool last)
{
	x->answered = last;
	exchange_event(&x->out, message);
	if (x->out.failed) {
		http_abort(x->req);
		return;
	}
	if (!x->blocked)
		exchange_on_drained(x->req);
}

/* ---------------------------------------------------------------- a single answer */

static void exchange_respond(struct mcp_exchange *x, int status, const char *data,
			     size_t n)
{
	struct http_header h[8];

	x->answered = true;
	(void)http_respond(x->req, status, h, exchange_headers(x, h, "application/json"),
			   data, n);
}

/* ------------------------------------------------------------- large answers */

/* Move the next part of the answer out of the buffer. */
static void exchange_keep(struct mcp_exchange *x, struct buf *data)
{
	struct mcp_part *p = calloc(1, sizeof(*p));

	if (!p || data->failed) {
		free(p);
		x->out.failed = true;
		return;
	}
	p->data = *data;
	*data = (struct buf)BUF_INIT(data->max);
	LIST_APPEND(x->parts, p);
}

static void exchange_put_large(struct mcp_exchange *x, const json_t *id,
			       struct buf *result)
{
	rpc_write_result(&x->out, id, "", 0);
	if (x->out.failed)
		return;
	x->out.len--; /* write the closing brace after the result */
	exchange_keep(x, &x->out);
	exchange_keep(x, result);
	buf_puts(&x->out, "}");
}

static void exchange_on_parts_drained(struct http_request *req)
{
	struct mcp_exchange *x = req->user;

	while (x->parts) {
		const struct buf *b = &x->parts->data;
		size_t n = b->len - x->sent < PIECE ? b->len - x->sent : PIECE;
		int r = http_write(req, b->data + x->sent, n);

		if (r < 0)
			return;
		x->sent += n;
		if (x->sent == b->len)
			exchange_drop_part(x);
		if (r == 1 && x->parts)
			return;
	}
	(void)http_end(req);
}

static void exchange_respond_parts(struct mcp_exchange *x)
{
	struct http_header h[8];
	int64_t length = 0;

	exchange_keep(x, &x->out);
	if (x->out.failed) {
		x->answered = true;
		(void)http_refuse(x->req, 503, "overloaded",
				  "not enough memory for the answer");
		return;
	}
	for (const struct mcp_part *p = x->parts; p; p = p->next)
		length += (int64_t)p->data.len;
	x->answered = true;
	x->req->drained = exchange_on_parts_drained;
	(void)http_begin_response(x->req, 200, h,
				  exchange_headers(x, h, "application/json"), length);
	exchange_on_parts_drained(x->req);
}

void mcp_exchange_answer_large(struct mcp_exchange *x, const json_t *id,
			       struct buf *result)
{
	if (!x->req || x->answered)
		return;
	if (x->batch)
		buf_puts(&x->out, x->n++ ? "," : "[");
	exchange_put_large(x, id, result);
	if (x->batch)
		mcp_exchange_collected(x);
	else
		exchange_respond_parts(x);
}

/* -------------------------------------------------------- answers to several messages */

void mcp_exchange_collected(struct mcp_exchange *x)
{
	if (!x->req || x->answered || x->calls || x->reading)
		return;
	if (x->n == 0) {
		mcp_exchange_empty(x, 202);
		return;
	}
	buf_puts(&x->out, "]");
	exchange_respond_parts(x);
}

/* Store one of several answers; the last one sends all of them. */
static void exchange_collect(struct mcp_exchange *x, const struct buf *message)
{
	buf_puts(&x->out, x->n++ ? "," : "[");
	buf_add(&x->out, message->data, message->len);
	mcp_exchange_collected(x);
}

void mcp_exchange_answer(struct mcp_exchange *x, int status, const struct buf *message)
{
	if (!x->req || x->answered)
		return;
	if (x->batch)
		exchange_collect(x, message);
	else if (x->stream)
		exchange_send(x, message, !x->is_get || (x->mcp->stopping && !x->calls));
	else
		exchange_respond(x, status, message->data, message->len);
}
