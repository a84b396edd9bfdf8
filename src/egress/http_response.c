/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_response.c - HTTP/1: find the ends of responses, and forward them
 *
 * A body whose end does not depend on its content is not even read: relay.c splices it.
 */
#include <errno.h>
#include <string.h>

#include "egress/http_flow.h"

/* Determine how the body of a response ends. */
static void http_flow_frame(struct http_flow *h, const struct http_head *r)
{
	enum http_body_kind kind = HTTP_BODY_UNTIL_CLOSE;

	if (h->is_head || r->status == 204 || r->status == 304)
		kind = HTTP_BODY_NONE;
	else if (r->chunked)
		kind = HTTP_BODY_CHUNKED;
	else if (r->has_length)
		kind = HTTP_BODY_LENGTH;
	http_body_init(&h->body, kind, r->length);
	h->in_body = true;
	if (r->close || (r->minor == 0 && !r->keep_alive) ||
	    kind == HTTP_BODY_UNTIL_CLOSE)
		h->close = true;
}

/* The server has accepted an upgrade: the rest of the connection is not HTTP. */
static void http_flow_upgrade(struct egress_flow *f, const char *rest, size_t n)
{
	struct http_flow *h = f->http;

	egress_count(f, n, 0);
	buf_done(&f->first);
	f->first = (struct buf)BUF_INIT(HTTP_FLOW_READ);
	buf_add(&f->first, h->pending.data ? h->pending.data + h->pending_off : "",
		h->pending.len - h->pending_off);
	http_flow_free(f);
	f->state = EGRESS_FLOW_RAW;
	if (f->first.failed || (n && end_write(&f->client, rest, n) < 0))
		egress_flow_reset(f);
	else
		relay_start(f);
}

/*
 * Parse the head of a response in @h->head, of which @n bytes are the head, and forward
 * it. Return false if the flow has ended, or is not HTTP any more.
 */
static bool http_flow_response(struct egress_flow *f, size_t n)
{
	struct http_flow *h = f->http;
	AUTO_BUF struct buf copy = BUF_INIT(REQUEST_HEAD_MAX + EGRESS_SCRATCH);
	AUTO_FREE struct http_head *r = malloc(sizeof(*r));

	buf_add(&copy, h->head.data, h->head.len);
	if (!r || copy.failed || http_head_response(h->head.data, n, r) != 0 ||
	    r->status < 100 || (r->status == 101 && !h->websocket)) {
		h->head.len = 0;
		http_flow_fail(f, 502, "the response of the server is malformed");
		return false;
	}
	if (end_write(&f->client, copy.data, n) < 0) {
		egress_flow_end(f);
		return false;
	}
	if (r->status == 101) {
		http_flow_upgrade(f, copy.data + n, copy.len - n);
		return false;
	}
	if (r->status >= 200)
		http_flow_frame(h, r);
	return true;
}

/* Forward the bytes that belong to the body. Return their number, or -1 if the body is
 * malformed. */
static ssize_t http_flow_response_body(struct egress_flow *f, const char *data, size_t n)
{
	struct http_flow *h = f->http;
	size_t used = 0;

	while (!h->body.done && used < n) {
		const char *piece;
		size_t len;
		long took = http_body_take(&h->body, data + used, n - used, &piece, &len);

		if (took < 0)
			return -1;
		used += (size_t)took;
	}
	if (used && end_write(&f->client, data, used) < 0)
		return -1;
	return (ssize_t)used;
}

/* Handle bytes of the server while a response is expected. Return how many were used. */
static ssize_t http_flow_respond(struct egress_flow *f, const char *data, size_t n)
{
	struct http_flow *h = f->http;
	size_t before = h->head.len;
	long len;

	if (h->in_body)
		return http_flow_response_body(f, data, n);
	buf_add(&h->head, data, n);
	len = h->head.failed
		      ? -1
		      : http_head_find(h->head.data, h->head.len, &h->head_scanned);
	if (len < 0) {
		h->head.len = 0;
		http_flow_fail(f, 502, "the response of the server is malformed");
		return -1;
	}
	if (len == 0)
		return (ssize_t)n;
	if (!http_flow_response(f, (size_t)len))
		return -1;
	h->head.len = 0;
	h->head_scanned = 0;
	return (ssize_t)((size_t)len - before);
}

static void http_flow_response_end(struct egress_flow *f)
{
	struct http_flow *h = f->http;

	buf_done(&h->head);
	h->head = (struct buf)BUF_INIT(REQUEST_HEAD_MAX + EGRESS_SCRATCH);
	relay_done(f);
	h->in_body = false;
	h->response_done = true;
	/*
	 * The server may not read the rest of the request, and take it for the next one,
	 * for example after "Expect: 100-continue".
	 */
	if (!h->request_done)
		h->close = true;
	http_flow_next(f);
}

static void http_flow_server_end(struct egress_flow *f)
{
	struct http_flow *h = f->http;

	/* Tell the client whether the server's body was complete. */
	f->client.cut = f->server.cut;
	if (h->busy && h->in_body && h->body.kind == HTTP_BODY_UNTIL_CLOSE)
		http_flow_response_end(f);
	else if (!h->busy)
		/* The connection was idle, so the client connects again. */
		egress_flow_linger(f);
	else
		http_flow_fail(f, 502, "the server closed the connection");
}

/*
 * After a read of @n bytes: there is more of a body whose end does not depend on its
 * content, so that it need not be read.
 */
static bool http_flow_may_splice(const struct egress_flow *f, size_t n)
{
	const struct http_flow *h = f->http;

	return h->in_body && !h->body.done && h->body.kind != HTTP_BODY_CHUNKED &&
	       n == egress_buffer_max(f->sandbox) && !f->client.tls && !f->server.tls &&
	       !end_has_queue(&f->client);
}

/* The response ends when the client has got everything in the pipe. */
static void http_flow_check_body(struct egress_flow *f)
{
	const struct http_flow *h = f->http;

	if (h->in_body && h->body.done && !(f->pipe_in && f->pipe_in->held))
		http_flow_response_end(f);
}

static void http_flow_splice(struct egress_flow *f)
{
	struct http_flow *h = f->http;

	for (size_t moved = 0; f->pipe_in && !f->pipe_in->held && !h->body.done &&
			       moved < EGRESS_TURN_MAX;) {
		bool bounded = h->body.kind == HTTP_BODY_LENGTH;
		ssize_t n = relay_body(f, bounded ? h->body.left : UINT64_MAX);
		const char *piece;
		size_t len;

		if (f->over || n == -EAGAIN)
			return;
		if (n == -EPIPE) {
			egress_flow_reset(f);
			return;
		}
		if (n <= 0) {
			http_flow_server_end(f);
			return;
		}
		/* If a body is spliced, its bytes are only counted. */
		(void)http_body_take(&h->body, f->sandbox->egress->scratch, (size_t)n,
				     &piece, &len);
		moved += (size_t)n;
	}
	http_flow_check_body(f);
}

void http_flow_push_body(struct egress_flow *f)
{
	int r = relay_push_body(f);

	if (r == -EPIPE)
		egress_flow_reset(f);
	else if (r == 0)
		http_flow_check_body(f);
}

void http_flow_from_server(struct egress_flow *f)
{
	struct egress *e = f->sandbox->egress;
	size_t want, at = 0;
	ssize_t n;

	if (f->pipe_in) {
		http_flow_splice(f);
		return;
	}
	want = egress_allowance(f, egress_buffer_max(f->sandbox));
	n = want ? end_read(&f->server, e->scratch, want) : -EAGAIN;
	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		http_flow_server_end(f);
		return;
	}
	egress_count(f, (size_t)n, 0);
	while (!f->over && f->state == EGRESS_FLOW_HTTP && at < (size_t)n) {
		struct http_flow *h = f->http;
		ssize_t used = -1;

		/* Bytes that belong to no request would be mistaken for the next
		 * response. */
		if (h->busy && !h->response_done)
			used = http_flow_respond(f, e->scratch + at, (size_t)n - at);
		if (used < 0) {
			if (!f->over && f->state == EGRESS_FLOW_HTTP)
				egress_flow_reset(f);
			return;
		}
		at += (size_t)used;
		if (h->in_body && h->body.done)
			http_flow_response_end(f);
	}
	if (!f->over && f->state == EGRESS_FLOW_HTTP &&
	    http_flow_may_splice(f, (size_t)n))
		(void)relay_begin_body(f);
}
