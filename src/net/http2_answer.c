/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http2_answer.c - send responses over HTTP/2
 *
 * The body of a response waits in the queue of its stream. nghttp2 takes it from there
 * when the client's windows allow it, one frame of each stream in turn; so a client that
 * does not read one response does not delay the others. Frames are made only while the
 * socket accepts them: what waits longer can still be cancelled or overtaken.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "net/http2_internal.h"

/* Headers of a response, with those that the server adds. */
#define NV_MAX (HTTP_FIELDS_MAX + 8)
/* Pieces of memory in one DATA frame. */
#define PIECES_MAX 8
/* Frames that wait for the socket. */
#define BACKLOG_BYTES (64U << 10)
/* Maximum for one connection before others have their turn. */
#define ROUND_BYTES (256U << 10)

/* Fields about a connection of HTTP/1. */
static const char *const http1_only[] = { "keep-alive", "proxy-connection", "upgrade" };

bool http2_may_send(struct http2 *h2)
{
	if (h2->conn->stream.out.queued > BACKLOG_BYTES)
		return false;
	if (h2->round <= ROUND_BYTES)
		return true;
	loop_later(http_server_loop(h2->conn->server), &h2->later);
	return false;
}

/* ---------------------------------------------------------------- bodies of responses */

/* The queue of @st had @before bytes in memory. */
static void http2_count_out(struct http2_stream *st, size_t before)
{
	struct http2 *h2 = st->conn->h2;

	h2->queued = h2->queued - before + st->out.queued;
}

static void http2_sent_out(struct http2_stream *st, size_t n)
{
	size_t before = st->out.queued;

	segments_sent(&st->out, http_server_loop(st->conn->server), n);
	http2_count_out(st, before);
	st->sent += n;
	st->late = false;
	http2_touch(st);
}

void http2_drop_out(struct http2_stream *st)
{
	size_t before = st->out.queued;

	segments_drop(&st->out, http_server_loop(st->conn->server));
	http2_count_out(st, before);
}

/* Where a handler has to wait: less, if other streams of the connection use much. */
static size_t http2_high(const struct http2_stream *st)
{
	const struct http2 *h2 = st->conn->h2;

	return h2->queued > http2_limits(h2)->high ? HTTP2_LOW : STREAM_HIGH;
}

bool http2_is_drained(const struct http2_stream *st)
{
	return st->out.queued <= HTTP2_LOW && (!st->out.first || st->out.first->fd < 0);
}

static int http2_fullness(const struct http2_stream *st)
{
	return st->out.queued > http2_high(st) || (st->out.last && st->out.last->fd >= 0);
}

static ssize_t http2_read_file(struct http2_stream *st, uint8_t *data, size_t n)
{
	ssize_t r = segments_read_file(&st->out, data, n);

	if (r < 0) {
		/* The rest cannot be sent, so the client must not take it for complete.
		 */
		st->aborted = true;
		st->why = (int)r;
		http2_touch(st);
		return NGHTTP2_ERR_DEFERRED;
	}
	http2_sent_out(st, (size_t)r);
	return r;
}

/* nghttp2 makes a DATA frame of at most @n bytes. */
static ssize_t http2_on_read(nghttp2_session *session, int32_t id, uint8_t *data,
			     size_t n, uint32_t *flags, nghttp2_data_source *source,
			     void *ctx)
{
	struct http2_stream *st = source->ptr;
	struct iovec iov[PIECES_MAX];
	size_t pieces, total = 0;
	ssize_t r;

	(void)session;
	(void)id;
	(void)ctx;
	if (st->aborted)
		return NGHTTP2_ERR_DEFERRED;
	if (!st->out.first) {
		if (!st->complete)
			return NGHTTP2_ERR_DEFERRED;
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		return 0;
	}
	if (st->out.first->fd >= 0) {
		r = http2_read_file(st, data, n);
		if (st->complete && !st->out.first)
			*flags |= NGHTTP2_DATA_FLAG_EOF;
		return r;
	}
	pieces = segments_iov(&st->out, iov, ARRAY_SIZE(iov), n);
	for (size_t i = 0; i < pieces; i++)
		total += iov[i].iov_len;
	*flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	if (st->complete && total == st->out.queued && st->out.last->fd < 0)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)total;
}

int http2_on_send_data(nghttp2_session *session, nghttp2_frame *frame,
		       const uint8_t *head, size_t length, nghttp2_data_source *source,
		       void *ctx)
{
	struct http2_stream *st = source->ptr;
	struct iovec iov[1 + PIECES_MAX];
	size_t pieces;

	(void)session;
	(void)frame;
	(void)ctx;
	if (st->aborted || st->reset) /* the bytes are gone */
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (!http2_may_send(st->conn->h2))
		return NGHTTP2_ERR_WOULDBLOCK;
	iov[0] = (struct iovec){ .iov_base = (void *)(uintptr_t)head, .iov_len = 9 };
	pieces = segments_iov(&st->out, iov + 1, PIECES_MAX, length);
	if (stream_writev(&st->conn->stream, iov, 1 + pieces) < 0)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	st->conn->h2->round += length;
	http2_sent_out(st, length);
	return 0;
}

/* ------------------------------------------------------------------ heads */

static nghttp2_nv http2_nv(const char *name, const char *value)
{
	return (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name,
			     .value = (uint8_t *)(uintptr_t)value,
			     .namelen = strlen(name),
			     .valuelen = strlen(value) };
}

static bool http2_is_http1_only(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(http1_only); i++)
		if (strcasecmp(http1_only[i], name) == 0)
			return true;
	return false;
}

/* Write @name in lower case to @b, with a NUL. */
static void http2_put_lower(struct buf *b, const char *name)
{
	size_t start = b->len;

	buf_add(b, name, strlen(name) + 1);
	for (char *p = b->failed ? NULL : b->data + start; p && *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p - 'A' + 'a');
}

/* Add the handler's headers to @nv. Return their number; 0 if there are too many. */
static size_t http2_put_headers(struct buf *names, nghttp2_nv nv[NV_MAX], size_t at,
				const struct http_header *headers, size_t n)
{
	const char *name;

	if (n > HTTP_FIELDS_MAX + 1)
		return 0;
	for (size_t i = 0; i < n; i++)
		http2_put_lower(names, headers[i].name);
	if (names->failed)
		return 0;
	name = names->data;
	for (size_t i = 0; i < n; i++) {
		if (!http2_is_http1_only(name))
			nv[at++] = http2_nv(name, headers[i].value);
		name += strlen(name) + 1;
	}
	return at;
}

/* Submit the head of a response. @bodiless: nothing follows it. */
static int http2_submit(struct http2_stream *st, int status,
			const struct http_header *headers, size_t n, int64_t length,
			bool ours, bool bodiless)
{
	struct http_server *s = st->conn->server;
	nghttp2_data_provider provider = { .source.ptr = st,
					   .read_callback = http2_on_read };
	nghttp2_nv nv[NV_MAX];
	char status_text[12], length_text[24];
	size_t at = 0;
	int r;

	(void)snprintf(status_text, sizeof(status_text), "%d", status);
	(void)snprintf(length_text, sizeof(length_text), "%lld", (long long)length);
	nv[at++] = http2_nv(":status", status_text);
	nv[at++] = http2_nv("date", http_server_date(s));
	if (length >= 0 && status != 204 && status != 304)
		nv[at++] = http2_nv("content-length", length_text);
	if (ours && http_wants_retry(status, headers, n))
		nv[at++] = http2_nv("retry-after", "1");
	at = http2_put_headers(http_server_scratch(s), nv, at, headers, n);
	if (at == 0)
		return -EMSGSIZE;
	st->begun = true;
	st->complete = bodiless;
	r = nghttp2_submit_response(st->conn->h2->session, st->id, nv, at,
				    bodiless ? NULL : &provider);
	if (r != 0) {
		st->aborted = true;
		st->why = r == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPIPE;
	}
	http2_touch(st);
	return st->aborted ? st->why : 0;
}

static int http2_add(struct http2_stream *st, const void *data, size_t n)
{
	size_t before = st->out.queued;

	if (before > STREAM_HIGH && before + n > STREAM_MAX) {
		st->aborted = true;
		st->why = -ENOBUFS;
	} else if (!segments_add(&st->out, data, n)) {
		st->aborted = true;
		st->why = -ENOMEM;
	}
	http2_count_out(st, before);
	http2_touch(st);
	return st->aborted ? st->why : http2_fullness(st);
}

int http2_respond(struct http2_stream *st, int status, const struct http_header *headers,
		  size_t n_headers, const void *body, size_t n, bool bodiless)
{
	int r = http2_submit(st, status, headers, n_headers, (int64_t)n, true,
			     bodiless || n == 0);

	if (r == 0 && !st->complete) {
		r = http2_add(st, body, n);
		st->complete = true;
	}
	return r;
}

/* ------------------------------------------------------------------ the protocol */

/* The stream of a request that can be answered; NULL: the client has left it. */
static struct http2_stream *http2_stream_of(struct request *r)
{
	struct http2_stream *st = r->h2;

	return st->closed || st->aborted || st->reset ? NULL : st;
}

static int http2_head_out(struct request *r, const struct http_header *headers,
			  size_t n_headers, int64_t length, bool ours, const void *body,
			  size_t n)
{
	struct http2_stream *st = http2_stream_of(r);
	int result;

	if (!st)
		return -EPIPE;
	/*
	 * A handler that only begins the response ends it later, even if it has no body.
	 * The stream stays open until then, and counts.
	 */
	result = http2_submit(st, r->status, headers, n_headers, length, ours,
			      ours && (r->bodiless || length == 0));
	return result == 0 && n > 0 ? http2_add(st, body, n) : result;
}

static int http2_write(struct request *r, const void *data, size_t n)
{
	struct http2_stream *st = http2_stream_of(r);

	return st ? http2_add(st, data, n) : -EPIPE;
}

static int http2_write_file(struct request *r, int fd, uint64_t offset, uint64_t n)
{
	struct http2_stream *st = http2_stream_of(r);

	if (!st || !segments_add_file(&st->out, fd, offset, n)) {
		(void)close(fd);
		if (st) {
			st->aborted = true;
			st->why = -ENOMEM;
			http2_touch(st);
		}
		return st ? -ENOMEM : -EPIPE;
	}
	http2_touch(st);
	return http2_fullness(st);
}

static int http2_end(struct request *r)
{
	struct http2_stream *st = http2_stream_of(r);

	if (!st)
		return -EPIPE;
	st->complete = true;
	http2_touch(st);
	return 0;
}

static void http2_go_on(struct request *r)
{
	struct http2_stream *st = http2_stream_of(r);
	nghttp2_nv nv = http2_nv(":status", "100");

	if (!st || st->body_done)
		return;
	(void)nghttp2_submit_headers(st->conn->h2->session, NGHTTP2_FLAG_NONE, st->id,
				     NULL, &nv, 1, NULL);
	http2_touch(st);
}

static int http2_upgrade(struct request *r UNUSED,
			 const struct http_header *headers UNUSED,
			 size_t n_headers UNUSED)
{
	return -EOPNOTSUPP;
}

static void http2_abort(struct request *r)
{
	struct http2_stream *st = http2_stream_of(r);

	if (!st)
		return;
	st->aborted = true;
	st->why = -ECONNABORTED;
	http2_touch(st);
}

static void http2_kick(struct request *r)
{
	http2_touch(r->h2);
}

static void http2_cut(struct request *r, int status, const char *why, int error)
{
	struct http_conn *c = r->conn;

	http2_refuse(r->h2, status, why, error);
	http2_run(c);
}

const struct http_protocol http2_protocol = {
	.head = http2_head_out,
	.write = http2_write,
	.write_file = http2_write_file,
	.end = http2_end,
	.go_on = http2_go_on,
	.upgrade = http2_upgrade,
	.abort = http2_abort,
	.kick = http2_kick,
	.cut = http2_cut,
	.drain = http2_drain,
	.gone = http2_gone,
};
