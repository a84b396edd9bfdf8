/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http2_body.c - the body of a request on a stream
 *
 * A client may send as many bytes as the window of the stream allows. The server widens
 * the window only when the handler reads, and then gives back each byte that the handler
 * took. So a handler that does not read, or that pauses, stops its own stream only, and
 * the bytes that the server keeps for it are limited.
 */
#include <errno.h>

#include "net/http2_internal.h"

/* Kept bytes are delivered in pieces, so that the handler can pause between them. */
#define PIECE_BYTES (64U << 10)

bool http2_body_wanted(const struct http2_stream *st)
{
	const struct request *r = st->req;

	return r && !st->held && !r->paused && !r->ended && r->sink != SINK_UNDECIDED &&
	       !r->oversize && !r->crowded && !st->aborted && !st->closed;
}

static void http2_body_deliver(struct http2_stream *st, const char *data, size_t n)
{
	struct request *r = st->req;

	r->expects = false;
	if (r->sink == SINK_STREAM) {
		r->fn(&r->pub, data, n);
	} else if (http_conn_collect(r, data, n) < 0) {
		st->aborted = true;
		st->why = -ENOMEM;
	}
	if (!st->closed)
		(void)nghttp2_session_consume_stream(st->conn->h2->session, st->id, n);
}

void http2_body_take(struct http2_stream *st, const char *data, size_t n)
{
	st->received += n;
	http2_touch(st);
	if (http2_body_wanted(st) && st->in.len == 0) {
		http2_body_deliver(st, data, n);
	} else if (st->req) {
		buf_add(&st->in, data, n);
		if (st->in.failed) {
			st->aborted = true;
			st->why = -ENOMEM;
		}
	} else {
		/* The request is answered: drop the rest until the client has ended it.
		 */
		(void)nghttp2_session_consume_stream(st->conn->h2->session, st->id, n);
	}
}

/* The handler reads: let the client send more at once. */
static void http2_body_widen(struct http2_stream *st)
{
	struct request *r = st->req;
	uint64_t window = HTTP2_UPLOAD_WINDOW;

	if (st->widened || st->body_done || r->sink == SINK_UNDECIDED)
		return;
	st->widened = true;
	if (r->pub.length >= 0 && (uint64_t)r->pub.length < window)
		window = (uint64_t)r->pub.length;
	if (window <= HTTP2_WINDOW)
		return;
	/* A body that is collected is counted as it arrives. */
	if (r->sink == SINK_STREAM &&
	    !http_account_window(http_server_accounts(st->conn->server), r, window))
		return;
	(void)nghttp2_session_set_local_window_size(
		st->conn->h2->session, NGHTTP2_FLAG_NONE, st->id, (int32_t)window);
}

void http2_body_settle(struct http2_stream *st)
{
	struct request *r = st->req;

	http2_body_widen(st);
	while (http2_body_wanted(st) && st->in_off < st->in.len) {
		size_t left = st->in.len - st->in_off,
		       n = left < PIECE_BYTES ? left : PIECE_BYTES;
		const char *piece = st->in.data + st->in_off;

		st->in_off += n;
		http2_body_deliver(st, piece, n);
	}
	if (st->in_off == st->in.len && st->in.len > 0) {
		size_t max = st->in.max;

		buf_done(&st->in);
		st->in = (struct buf)BUF_INIT(max);
		st->in_off = 0;
	}
	if (st->body_done && st->in.len == 0 && http2_body_wanted(st) && !r->told_end)
		http_conn_tell_end(r);
}
