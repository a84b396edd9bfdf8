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

/* May @n more bytes be kept for the handler? */
static bool http2_body_has_room(const struct http2_stream *st, size_t n)
{
	const struct http2 *h2 = st->conn->h2;
	const struct link *l;

	if (st->counted)
		return true;
	for (l = h2->streams.next; l != &h2->streams; l = l->next) {
		const struct http2_stream *s = CONTAINER(l, struct http2_stream, link);

		n += s->counted ? 0 : s->in.queued;
	}
	return n <= http2_limits(h2)->bodies;
}

void http2_body_take(struct http2_stream *st, const char *data, size_t n)
{
	st->received += n;
	st->late = false;
	http2_touch(st);
	/*
	 * This request waits because the client does not read its responses. Only a
	 * client with a token may use memory for it.
	 */
	if (st->held && !st->conn->known) {
		http2_reset(st, NGHTTP2_REFUSED_STREAM);
		http2_close_request(st, -ENOBUFS);
	} else if (http2_body_wanted(st) && !st->in.first) {
		http2_body_deliver(st, data, n);
	} else if (st->req && !http2_body_has_room(st, n)) {
		st->aborted = true;
		st->why = -ENOBUFS;
	} else if (st->req) {
		if (!segments_add(&st->in, data, n)) {
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
	st->counted = r->sink == SINK_STREAM;
	(void)nghttp2_session_set_local_window_size(
		st->conn->h2->session, NGHTTP2_FLAG_NONE, st->id, (int32_t)window);
}

void http2_body_drop(struct http2_stream *st)
{
	if (!st->closed && !st->reset)
		(void)nghttp2_session_consume_stream(st->conn->h2->session, st->id,
						     st->in.queued);
	segments_drop(&st->in, http_server_loop(st->conn->server));
}

void http2_body_settle(struct http2_stream *st)
{
	struct net_loop *loop = http_server_loop(st->conn->server);
	struct request *r = st->req;
	struct iovec piece;

	http2_body_widen(st);
	while (http2_body_wanted(st) && segments_iov(&st->in, &piece, 1, PIECE_BYTES)) {
		http2_body_deliver(st, piece.iov_base, piece.iov_len);
		segments_sent(&st->in, loop, piece.iov_len);
	}
	if (st->body_done && !st->in.first && http2_body_wanted(st) && !r->told_end)
		http_conn_tell_end(r);
}
