/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http2_conn.c - a connection of HTTP/2: frames in both directions
 *
 * http2_work() passes received bytes to nghttp2, whose callbacks create streams and
 * deliver bodies. Then it processes the streams whose state has changed, and sends
 * frames, until there is nothing to do or the socket is full.
 *
 * A client that makes the server work without requests (frames that need an answer, many
 * streams that it resets at once) uses up its allowance of frames, and the connection is
 * ended with ENHANCE_YOUR_CALM.
 */
#include <errno.h>
#include <stdlib.h>

#include "net/http2_internal.h"

/* ------------------------------------------------------------------ floods */

/* What a frame costs, by its type; see also http2_cost(). */
static const uint8_t costs[] = {
	[NGHTTP2_DATA] = 0,         [NGHTTP2_HEADERS] = 0,  [NGHTTP2_PRIORITY] = 1,
	[NGHTTP2_RST_STREAM] = 1,   [NGHTTP2_SETTINGS] = 1, [NGHTTP2_PUSH_PROMISE] = 1,
	[NGHTTP2_PING] = 1,         [NGHTTP2_GOAWAY] = 1,   [NGHTTP2_WINDOW_UPDATE] = 1,
	[NGHTTP2_CONTINUATION] = 0,
};

static unsigned http2_cost(const nghttp2_frame_hd *hd)
{
	if (hd->type >= ARRAY_SIZE(costs))
		return 1;
	if (hd->type == NGHTTP2_DATA && hd->length == 0)
		return hd->flags & NGHTTP2_FLAG_END_STREAM ? 0 : 1;
	return costs[hd->type];
}

static void http2_allow_frames(struct http2 *h2, uint64_t n)
{
	h2->frames =
		n < HTTP2_FRAMES - h2->frames ? h2->frames + (unsigned)n : HTTP2_FRAMES;
}

/* Return whether the client may send an expensive frame now. */
static bool http2_take_frames(struct http2 *h2, unsigned n)
{
	uint64_t now = loop_now(http_server_loop(h2->conn->server)),
		 more = (now - h2->frames_at) * HTTP2_FRAMES_PER_SEC / 1000;

	if (more > 0) {
		http2_allow_frames(h2, more);
		h2->frames_at = now;
	}
	if (h2->frames < n)
		return false;
	h2->frames -= n;
	return true;
}

static int http2_flooded(struct http2 *h2)
{
	h2->flooded = true;
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* ------------------------------------------------------------ callbacks of nghttp2 */

static struct http2_stream *http2_find(nghttp2_session *session, int32_t id)
{
	return nghttp2_session_get_stream_user_data(session, id);
}

static int http2_on_begin_frame(nghttp2_session *session UNUSED,
				const nghttp2_frame_hd *hd, void *ctx)
{
	struct http2 *h2 = ctx;

	if (hd->type == NGHTTP2_CONTINUATION && ++h2->continuations > HTTP2_CONTINUATIONS)
		return http2_flooded(h2);
	return http2_take_frames(h2, http2_cost(hd)) ? 0 : http2_flooded(h2);
}

/* The HEADERS frame that was being received is complete, or was refused. */
static void http2_end_head(struct http2 *h2)
{
	h2->in_head = 0;
	http2_head_done(&h2->head);
	http2_head_start(&h2->head, 0);
}

static int http2_on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame,
				  void *ctx)
{
	struct http2 *h2 = ctx;
	struct http_conn *c = h2->conn;
	size_t max = http_server_options(c->server)->limits.header_bytes;
	struct http2_stream *st;

	h2->continuations = 0;
	h2->in_head = frame->hd.stream_id;
	h2->n_heads++;
	http2_head_done(&h2->head);
	http2_head_start(&h2->head, max);
	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0; /* trailers, which are checked and dropped */
	st = http2_new_stream(c, frame->hd.stream_id);
	if (!st)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	(void)nghttp2_session_set_stream_user_data(session, st->id, st);
	return 0;
}

/*
 * References to a long field that was sent once make a short head long, and each of them
 * costs as much as the field. So a head that is far too large ends the connection before
 * the rest of it is decoded, and one that is too large counts as an expensive frame.
 */
static bool http2_head_goes_on(struct http2 *h2)
{
	struct http2_head *head = &h2->head;

	if (head->size <= head->max)
		return true;
	if (!head->counted && !http2_take_frames(h2, HTTP2_LARGE_HEAD_COST))
		return false;
	head->counted = true;
	return head->size <= HTTP2_LARGE_HEAD * head->max;
}

static int http2_on_header(nghttp2_session *session UNUSED,
			   const nghttp2_frame *frame UNUSED, const uint8_t *name,
			   size_t name_len, const uint8_t *value, size_t value_len,
			   uint8_t flags UNUSED, void *ctx)
{
	struct http2 *h2 = ctx;

	http2_head_add(&h2->head, (const char *)name, name_len, (const char *)value,
		       value_len);
	return http2_head_goes_on(h2) ? 0 : http2_flooded(h2);
}

/* By default, nghttp2 would drop this field and accept the rest. */
static int http2_on_invalid_header(nghttp2_session *session UNUSED,
				   const nghttp2_frame *frame UNUSED,
				   const uint8_t *name UNUSED, size_t name_len,
				   const uint8_t *value UNUSED, size_t value_len,
				   uint8_t flags UNUSED, void *ctx)
{
	struct http2 *h2 = ctx;

	h2->head.size += name_len + value_len;
	if (!http2_head_goes_on(h2))
		return http2_flooded(h2);
	if (h2->head.status == 0) {
		h2->head.status = 400;
		h2->head.why = "a field is malformed";
	}
	return 0;
}

/* Serve all streams of a connection in turn, whatever the client's priorities. */
static void http2_set_priority(struct http2_stream *st)
{
	const nghttp2_extpri same = { .urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY,
				      .inc = 1 };

	(void)nghttp2_session_change_extpri_stream_priority(st->conn->h2->session, st->id,
							    &same, 1);
}

/* The head of a request is complete. */
static void http2_take_head(struct http2_stream *st, bool ended)
{
	struct http_conn *c = st->conn;
	struct http2 *h2 = c->h2;
	AUTO_BUF struct buf text = BUF_INIT(h2->head.max + 64);
	struct http_head *h = http_server_head(c->server);
	int status = http2_head_finish(&h2->head, ended, &text, h);

	http2_set_priority(st);
	c->used = true;
	if (status != 0) {
		http2_refuse(st, status, h->why, -EBADMSG);
		return;
	}
	if (h2->heads + text.len > http2_limits(h2)->heads) {
		http2_reset(st, NGHTTP2_REFUSED_STREAM);
		return;
	}
	st->req = http_conn_new_request(c, h, text.data, text.len);
	if (!st->req) {
		http2_reset(st, NGHTTP2_REFUSED_STREAM);
		return;
	}
	st->head_bytes = text.len;
	h2->heads += text.len;
	st->req->h2 = st;
	st->req->pub.major = 2;
	st->req->pub.minor = 0;
	st->held = true;
	h2->n_held++;
	http2_start_held(st);
}

static void http2_on_ack(struct http2 *h2)
{
	if (h2->acked)
		return;
	h2->acked = true;
	(void)nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0,
						    HTTP2_CONN_WINDOW);
	(void)nghttp2_session_consume_connection(h2->session, h2->unacked);
	h2->unacked = 0;
}

static int http2_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
	struct http2 *h2 = ctx;
	bool ended = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
	struct http2_stream *st;

	switch (frame->hd.type) {
	case NGHTTP2_SETTINGS:
		if (frame->hd.flags & NGHTTP2_FLAG_ACK)
			http2_on_ack(h2);
		break;
	case NGHTTP2_HEADERS:
		st = http2_find(session, frame->hd.stream_id);
		if (st) {
			st->body_done |= ended;
			http2_touch(st);
			if (frame->headers.cat == NGHTTP2_HCAT_REQUEST)
				http2_take_head(st, ended);
			else if (h2->head.status != 0)
				http2_reset(st, NGHTTP2_PROTOCOL_ERROR);
		}
		http2_end_head(h2);
		break;
	case NGHTTP2_DATA:
		st = http2_find(session, frame->hd.stream_id);
		if (st && ended) {
			st->body_done = true;
			http2_touch(st);
		}
		break;
	default:
		break;
	}
	return 0;
}

static int http2_on_data_chunk(nghttp2_session *session, uint8_t flags UNUSED, int32_t id,
			       const uint8_t *data, size_t n, void *ctx)
{
	struct http2 *h2 = ctx;
	struct http2_stream *st = http2_find(session, id);

	/*
	 * The window of the connection does not limit what is kept: those of the streams
	 * do. Until the client knows their size, it may only send the 64 kB of its first
	 * window for the connection.
	 */
	if (h2->acked)
		(void)nghttp2_session_consume_connection(session, n);
	else
		h2->unacked += n;
	if (st && !st->reset)
		http2_body_take(st, (const char *)data, n);
	return 0;
}

static int http2_on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame,
			       void *ctx)
{
	struct http2 *h2 = ctx;
	struct http2_stream *st = http2_find(session, frame->hd.stream_id);
	bool carries =
		frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;

	if (frame->hd.type == NGHTTP2_DATA)
		http2_allow_frames(h2, HTTP2_FRAMES_PER_DATA);
	if (st && carries && frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
		st->end_sent = true;
		http2_touch(st);
	}
	/* A reset that the client provoked costs as much as one that it sends. */
	if (frame->hd.type == NGHTTP2_RST_STREAM && !(st && st->reset) &&
	    !http2_take_frames(h2, 1))
		return http2_flooded(h2);
	return 0;
}

/*
 * The head breaks a rule for requests: nghttp2 resets the stream, and does not report the
 * frame.
 */
static int http2_on_invalid_frame(nghttp2_session *session UNUSED,
				  const nghttp2_frame *frame, int error UNUSED, void *ctx)
{
	struct http2 *h2 = ctx;

	if (frame->hd.type == NGHTTP2_HEADERS && frame->hd.stream_id == h2->in_head)
		http2_end_head(h2);
	return 0;
}

static int http2_on_stream_close(nghttp2_session *session, int32_t id,
				 uint32_t code UNUSED, void *ctx)
{
	struct http2_stream *st = http2_find(session, id);
	struct http2 *h2 = ctx;

	if (id == h2->in_head)
		http2_end_head(h2);
	if (st) {
		st->closed = true;
		http2_touch(st);
	}
	return 0;
}

static ssize_t http2_on_send(nghttp2_session *session UNUSED, const uint8_t *data,
			     size_t n, int flags UNUSED, void *ctx)
{
	struct http2 *h2 = ctx;

	if (!http2_may_send(h2))
		return NGHTTP2_ERR_WOULDBLOCK;
	if (stream_write(&h2->conn->stream, data, n) < 0)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	h2->round += n;
	return (ssize_t)n;
}

/* ------------------------------------------------------------ progress of a connection
 */

static enum deadline http2_deadline(const struct http_conn *c)
{
	if (!stream_idle(&c->stream))
		return DEADLINE_WRITE;
	if (c->lingering)
		return DEADLINE_LINGER;
	/* A connection with a deadline for a head may be closed to make room. */
	if (c->h2->in_head)
		return link_empty(&c->requests) ? DEADLINE_HEAD : DEADLINE_BODY;
	if (!link_empty(&c->h2->streams))
		return c->stream.hung_up ? DEADLINE_HALF : DEADLINE_NONE;
	return c->known ? DEADLINE_KEPT : DEADLINE_IDLE;
}

static uint64_t http2_progress(const struct http_conn *c, enum deadline d)
{
	if (d == DEADLINE_WRITE)
		return c->stream.sent;
	/* Each head has its own time. */
	return d == DEADLINE_HEAD || d == DEADLINE_BODY ? c->h2->n_heads : 0;
}

static void http2_arm(struct http_conn *c)
{
	enum deadline d = http2_deadline(c);

	http_conn_set_deadline(c->server, &c->timer, d, http2_progress(c, d));
}

/*
 * Send the rest, and end the connection when the client has read it. nghttp2 must not be
 * called any more, because it still knows the streams.
 */
static void http2_finish(struct http_conn *c, int why)
{
	while (!link_empty(&c->h2->streams)) {
		struct http2_stream *st =
			CONTAINER(c->h2->streams.next, struct http2_stream, link);

		http2_close_request(st, why);
		http2_free_stream(st);
	}
	http_conn_linger(c);
}

/* Nothing that the client sends is of interest any more. */
static void http2_fail(struct http_conn *c, uint32_t code, int why)
{
	(void)nghttp2_session_terminate_session(c->h2->session, code);
	(void)nghttp2_session_send(c->h2->session);
	if (!c->stream.is_closed)
		http2_finish(c, why);
}

void http2_overfull(struct http_conn *c)
{
	http2_fail(c, NGHTTP2_ENHANCE_YOUR_CALM, -EBUSY);
}

static void http2_take(struct http_conn *c, const char *data, size_t n)
{
	ssize_t r;

	if (n == 0 || c->lingering)
		return;
	r = nghttp2_session_mem_recv(c->h2->session, (const uint8_t *)data, n);
	if (c->h2->flooded)
		http2_fail(c, NGHTTP2_ENHANCE_YOUR_CALM, -EPROTO);
	else if (r < 0)
		http2_fail(c,
			   r == NGHTTP2_ERR_FLOODED ? NGHTTP2_ENHANCE_YOUR_CALM
						    : NGHTTP2_PROTOCOL_ERROR,
			   -EPROTO);
}

/* Requests that had to wait may start now. */
static void http2_touch_held(struct http2 *h2)
{
	if (h2->n_held == 0 || http2_holds(h2))
		return;
	for (struct link *l = h2->streams.next; l != &h2->streams; l = l->next) {
		struct http2_stream *st = CONTAINER(l, struct http2_stream, link);

		if (st->held)
			http2_touch(st);
	}
}

static void http2_settle_all(struct http_conn *c)
{
	struct http2 *h2 = c->h2;

	while (!c->lingering) {
		http2_touch_held(h2);
		while (!link_empty(&h2->touched)) {
			struct http2_stream *st =
				CONTAINER(h2->touched.next, struct http2_stream, touched);

			link_remove(&st->touched);
			http2_settle(st);
		}
		if (nghttp2_session_send(h2->session) != 0 && !c->stream.error)
			http2_fail(c,
				   h2->flooded ? NGHTTP2_ENHANCE_YOUR_CALM
					       : NGHTTP2_INTERNAL_ERROR,
				   -EPROTO);
		if (link_empty(&h2->touched))
			break;
	}
	if (!c->lingering && !nghttp2_session_want_read(h2->session) &&
	    !nghttp2_session_want_write(h2->session))
		http2_finish(c, -EPROTO);
}

static void http2_work(struct http_conn *c, const char *data, size_t n)
{
	c->working = true;
	c->h2->round = 0;
	stream_cork(&c->stream);
	http2_take(c, data, n);
	http2_settle_all(c);
	stream_uncork(&c->stream);
	c->working = false;
	if (c->lingering || c->stream.out.queued <= STREAM_HIGH)
		stream_resume(&c->stream);
	else
		stream_pause(&c->stream);
	if (c->stream.ended && stream_idle(&c->stream) &&
	    (c->lingering || link_empty(&c->h2->streams)))
		http_conn_end(c, 0);
	else
		http2_arm(c);
}

void http2_run(struct http_conn *c)
{
	http2_work(c, NULL, 0);
}

/* ------------------------------------------------------------ events of the connection
 */

static size_t http2_on_data(void *ctx, char *data, size_t n)
{
	http2_work(ctx, data, n);
	return n;
}

static void http2_on_ended(void *ctx, bool drained UNUSED)
{
	http2_work(ctx, NULL, 0);
}

static void http2_on_drained(void *ctx)
{
	http2_work(ctx, NULL, 0);
}

static void http2_on_queued(void *ctx)
{
	struct http_conn *c = ctx;

	if (!c->working)
		http2_arm(c);
}

static void http2_on_failed(void *ctx, int error)
{
	http_conn_end(ctx, error);
}

static void http2_on_closed(void *ctx)
{
	struct http_conn *c = ctx;

	nghttp2_session_del(c->h2->session);
	http2_head_done(&c->h2->head);
	free(c->h2);
	free(c);
}

static void http2_on_task(void *ctx)
{
	http2_work(ctx, NULL, 0);
}

static void http2_expired(struct http_timer *timer, enum deadline which)
{
	struct http_conn *c = CONTAINER(timer, struct http_conn, timer);

	if (which == DEADLINE_WRITE && http_conn_reads_on(c))
		return;
	/*
	 * After GOAWAY, a client knows that it can repeat its next request elsewhere. A
	 * connection that lingers has no streams any more, but nghttp2 may still hold a
	 * frame of one.
	 */
	if (!c->lingering) {
		if (which != DEADLINE_WRITE)
			(void)nghttp2_session_terminate_session(c->h2->session,
								NGHTTP2_NO_ERROR);
		(void)nghttp2_session_send(c->h2->session);
	}
	http_conn_end(c, which == DEADLINE_HALF ? -ECONNRESET : -ETIMEDOUT);
}

void http2_drain(struct http_conn *c)
{
	nghttp2_session *session = c->h2->session;

	if (c->lingering)
		return;
	(void)nghttp2_submit_goaway(session, NGHTTP2_FLAG_NONE,
				    nghttp2_session_get_last_proc_stream_id(session),
				    NGHTTP2_NO_ERROR, NULL, 0);
	http_conn_kick(c);
	if (c->timer.kind != DEADLINE_IDLE && c->timer.kind != DEADLINE_KEPT)
		return;
	(void)nghttp2_session_send(session);
	http_conn_end(c, -ECANCELED);
}

void http2_gone(struct http_conn *c)
{
	struct http2 *h2 = c->h2;

	loop_task_cancel(&h2->later);
	while (!link_empty(&h2->streams)) {
		struct http2_stream *st =
			CONTAINER(h2->streams.next, struct http2_stream, link);

		st->req = NULL; /* closed with the connection */
		st->held = false;
		http2_free_stream(st);
	}
}

static const struct stream_ops http2_ops = {
	.data = http2_on_data,
	.ended = http2_on_ended,
	.drained = http2_on_drained,
	.queued = http2_on_queued,
	.failed = http2_on_failed,
	.closed = http2_on_closed,
};

static void http2_set_callbacks(nghttp2_session_callbacks *cb)
{
	nghttp2_session_callbacks_set_on_begin_frame_callback(cb, http2_on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb,
								http2_on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(cb, http2_on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback(cb,
								 http2_on_invalid_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, http2_on_frame);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(
		cb, http2_on_invalid_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb,
								  http2_on_data_chunk);
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, http2_on_frame_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, http2_on_stream_close);
	nghttp2_session_callbacks_set_send_callback(cb, http2_on_send);
	nghttp2_session_callbacks_set_send_data_callback(cb, http2_on_send_data);
}

static int http2_session_new(struct http2 *h2)
{
	nghttp2_session_callbacks *callbacks = NULL;
	nghttp2_option *option = NULL;
	int r = nghttp2_session_callbacks_new(&callbacks);

	if (r == 0)
		r = nghttp2_option_new(&option);
	if (r == 0) {
		http2_set_callbacks(callbacks);
		nghttp2_option_set_no_auto_window_update(option, 1);
		r = nghttp2_session_server_new2(&h2->session, callbacks, h2, option);
	}
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(callbacks);
	return r;
}

int http2_conn_open(struct http_conn *c)
{
	const struct http_limits *l = &http_server_options(c->server)->limits;
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, HTTP2_STREAMS },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, HTTP2_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, l->header_bytes },
		{ NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1 },
	};
	struct http2 *h2 = calloc(1, sizeof(*h2));

	if (!h2)
		return -ENOMEM;
	h2->conn = c;
	h2->frames = HTTP2_FRAMES;
	h2->frames_at = loop_now(http_server_loop(c->server));
	h2->later = (struct loop_task){ .fn = http2_on_task, .ctx = c };
	link_init(&h2->streams);
	link_init(&h2->touched);
	if (http2_session_new(h2) != 0 ||
	    nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings,
				    ARRAY_SIZE(settings)) != 0) {
		nghttp2_session_del(h2->session);
		free(h2);
		return -ENOMEM;
	}
	c->h2 = h2;
	c->task.fn = http2_on_task;
	c->timer.expired = http2_expired;
	c->protocol = &http2_protocol;
	c->stream.ops = &http2_ops;
	if (http_server_is_draining(c->server))
		http2_drain(c);
	return 0;
}
