/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http2_stream.c - a stream: its request, its deadline and its end
 *
 * http2_settle() does everything that follows from a change of a stream's state: it calls
 * the handler, delivers bytes, refuses or resets, and closes the request.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "net/http2_internal.h"

void http2_touch(struct http2_stream *st)
{
	struct http_conn *c = st->conn;

	if (link_empty(&st->touched))
		link_add(&c->h2->touched, &st->touched);
	http_conn_kick(c);
}

void http2_close_request(struct http2_stream *st, int why)
{
	struct request *r = st->req;

	st->req = NULL;
	if (st->held) {
		st->held = false;
		st->conn->h2->n_held--;
	}
	if (r)
		http_conn_close_request(r, why);
}

void http2_reset(struct http2_stream *st, uint32_t code)
{
	http2_drop_out(st);
	http2_body_drop(st);
	if (st->reset || st->closed)
		return;
	st->reset = true;
	(void)nghttp2_submit_rst_stream(st->conn->h2->session, NGHTTP2_FLAG_NONE, st->id,
					code);
}

void http2_free_stream(struct http2_stream *st)
{
	struct http2 *h2 = st->conn->h2;

	http2_close_request(st, -ECONNRESET);
	link_remove(&st->link);
	link_remove(&st->touched);
	link_remove(&st->timer.queue);
	http2_drop_out(st);
	segments_drop(&st->in, http_server_loop(st->conn->server));
	h2->heads -= st->head_bytes;
	free(st);
}

void http2_refuse(struct http2_stream *st, int status, const char *why, int error)
{
	struct http_server *s = st->conn->server;
	char id[ID_LEN + 1];
	struct http_refusal f = { .status = status,
				  .code = http_refusal_code(status),
				  .message = why,
				  .request_id = id };
	struct http_header headers[2 + HTTP_ADDED_MAX] = { { "Content-Type", "" },
							   { "X-Request-Id", id } };
	size_t n_headers = 2;
	bool bodiless = st->req && st->req->head_method;
	struct buf *body;

	if (st->begun) {
		http2_reset(st, NGHTTP2_CANCEL);
		http2_close_request(st, error);
		return;
	}
	if (st->req) {
		(void)memcpy(id, st->req->id, sizeof(id));
		st->req->status = status;
		f.req = &st->req->pub;
		n_headers += http_refusal_add_headers(st->req, headers + n_headers);
	} else {
		const struct buf *path = &st->conn->h2->head.pseudo[HTTP2_PATH];

		http_server_id(s, id);
		f.peer = &st->conn->peer;
		http_refusal_set_path(&f, path->data, path->len);
	}
	body = http_refusal_body(s, &f);
	headers[0].value = f.type;
	(void)http2_respond(st, f.status, headers, n_headers, body->data, body->len,
			    bodiless);
	http2_close_request(st, error);
}

static enum deadline http2_stream_deadline(const struct http2_stream *st)
{
	if (st->closed || st->reset)
		return DEADLINE_NONE;
	if (st->out.first)
		return DEADLINE_WRITE;
	if (st->end_sent)
		return DEADLINE_LINGER;
	return !st->body_done && http2_body_wanted(st) ? http_conn_body_deadline(st->req)
						       : DEADLINE_NONE;
}

static void http2_arm_stream(struct http2_stream *st)
{
	enum deadline d = http2_stream_deadline(st);
	bool body = d == DEADLINE_BODY || d == DEADLINE_SLOW_BODY;
	uint64_t progress = d == DEADLINE_WRITE ? st->sent : body ? st->received : 0;

	http_conn_set_deadline(st->conn->server, &st->timer, d, progress);
}

const struct http2_limits *http2_limits(const struct http2 *h2)
{
	static const struct http2_limits known = { .heads = 512U << 10,
						   .bodies = (size_t)HTTP2_STREAMS *
							     HTTP2_WINDOW,
						   .high = 256U << 10,
						   .hold = 16U << 20 };
	static const struct http2_limits unknown = { .heads = 128U << 10,
						     .bodies = 128U << 10,
						     .high = 64U << 10,
						     .hold = 256U << 10 };

	return h2->conn->known ? &known : &unknown;
}

bool http2_holds(const struct http2 *h2)
{
	return h2->queued > http2_limits(h2)->hold;
}

void http2_start_held(struct http2_stream *st)
{
	struct http2 *h2 = st->conn->h2;

	if (!st->held || http2_holds(h2))
		return;
	st->held = false;
	h2->n_held--;
	if (!st->req->begun)
		http_conn_start_request(st->req);
}

void http2_settle(struct http2_stream *st)
{
	struct request *r = st->req;

	if (st->closed) {
		if (r)
			http2_close_request(st, r->ended      ? 0
						: st->aborted ? st->why
							      : -ECONNRESET);
		http2_free_stream(st);
		return;
	}
	if (st->aborted) {
		http2_reset(st, NGHTTP2_INTERNAL_ERROR);
		http2_close_request(st, st->why);
	} else if (r && r->oversize && !r->ended) {
		http2_refuse(st, 413, "the body is too large", -EFBIG);
	} else if (r && r->crowded && !r->ended) {
		http2_refuse(st, 503, "too many large requests are being sent at once",
			     -ENOBUFS);
	} else if (r) {
		http2_start_held(st);
		http2_body_settle(st);
		if (r->waiting && !r->ended && http2_is_drained(st)) {
			r->waiting = false;
			if (r->pub.drained)
				r->pub.drained(&r->pub);
		}
		if (r->ended && !st->aborted)
			http2_close_request(st, 0);
	}
	if (!st->req && st->in.first)
		http2_body_drop(st);
	if (st->begun && !st->reset)
		(void)nghttp2_session_resume_data(st->conn->h2->session, st->id);
	http2_arm_stream(st);
}

static void http2_stream_expired(struct http_timer *timer, enum deadline which)
{
	struct http2_stream *st = CONTAINER(timer, struct http2_stream, timer);
	struct http_conn *c = st->conn;
	struct pollfd p = { .fd = c->stream.fd, .events = POLLIN };

	/*
	 * If this process was stopped for a while, the frame that would have kept the
	 * stream may be in the socket.
	 */
	if (which != DEADLINE_LINGER && !st->late && poll(&p, 1, 0) > 0) {
		st->late = true;
		http_server_set_deadline(c->server, timer, which);
		return;
	}
	if (which == DEADLINE_BODY || which == DEADLINE_SLOW_BODY) {
		http2_refuse(st, 408, "the request did not arrive in time", -ETIMEDOUT);
	} else {
		http2_reset(st,
			    which == DEADLINE_LINGER ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL);
		http2_close_request(st, -ETIMEDOUT);
	}
	http2_run(c);
}

struct http2_stream *http2_new_stream(struct http_conn *c, int32_t id)
{
	struct http2_stream *st = calloc(1, sizeof(*st));

	if (!st)
		return NULL;
	st->conn = c;
	st->id = id;
	st->timer.expired = http2_stream_expired;
	link_init(&st->timer.queue);
	link_init(&st->touched);
	link_add(&c->h2->streams, &st->link);
	return st;
}
