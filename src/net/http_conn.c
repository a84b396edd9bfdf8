/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_conn.c - a connection of HTTP/1: read heads and bodies, request after request
 *
 * A connection of HTTP/1 has at most one request at a time. Bytes are read only when they
 * are needed: a head when there is no request, a body when its handler has requested it.
 * All other bytes wait in the client's socket, so data that a client sends too early uses
 * no memory of the server.
 *
 * Only http_conn_work() processes bytes. It runs when bytes have arrived and, through
 * http_conn_kick(), after a handler did something at another time. At its end it decides
 * whether to continue to read, and sets the deadline.
 *
 * The server does not close a connection while the client may still be sending: the
 * kernel would answer with a reset, which could overtake the last answer. It closes its
 * half, and then reads and drops bytes until the client closes its half or a time limit
 * passes.
 */
#include <errno.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <string.h>

#include "net/http2_internal.h"
#include "net/stream_internal.h"
#include "net/tls_internal.h"

/* Reading a body of this size is cheaper than a new connection. */
#define CHEAP_BODY (64U << 10)

void http_conn_close_request(struct request *r, int why)
{
	struct http_conn *c = r->conn;

	link_remove(&r->link);
	if (c->req == r)
		c->req = NULL;
	r->conn = NULL;
	if (r->pub.handle)
		*r->pub.handle = NULL;
	buf_done(&r->collected);
	http_account_leave(http_server_accounts(c->server), r);
	if (r->pub.closed)
		r->pub.closed(&r->pub, why);
	free(r);
}

void http_conn_end(struct http_conn *c, int why)
{
	if (c->stream.is_closed)
		return;
	loop_task_cancel(&c->task);
	http_server_gone(c);
	stream_close(&c->stream);
	while (!link_empty(&c->requests))
		http_conn_close_request(CONTAINER(c->requests.next, struct request, link),
					why);
	c->protocol->gone(c);
}

void http_conn_kick(struct http_conn *c)
{
	if (!c->working && !c->stream.is_closed)
		loop_defer(http_server_loop(c->server), &c->task);
}

bool http_conn_body_is_cheap(const struct http_conn *c)
{
	if (c->body.done)
		return true;
	return c->body.kind == HTTP_BODY_LENGTH && c->body.left <= CHEAP_BODY &&
	       !c->req->expects;
}

void http_conn_linger(struct http_conn *c)
{
	c->lingering = true;
	stream_finish(&c->stream);
}

/* ------------------------------------------------------------------ heads */

static const char *http_conn_moved(const char *p, const char *from, const char *to)
{
	return to + (p - from);
}

struct request *http_conn_new_request(struct http_conn *c, const struct http_head *h,
				      const char *data, size_t n)
{
	size_t path_len = strcspn(h->target, "?"),
	       table = h->n_fields * sizeof(struct http_header);
	struct request *r = malloc(sizeof(*r) + table + n + path_len + 1);
	char *text, *path;

	if (!r)
		return NULL;
	*r = (struct request){ .conn = c };
	text = (char *)r + sizeof(*r) + table;
	path = text + n;
	(void)memcpy(text, data, n);
	(void)memcpy(path, h->target, path_len);
	path[path_len] = '\0';
	for (size_t i = 0; i < h->n_fields; i++)
		r->headers[i] = (struct http_header){
			.name = http_conn_moved(h->fields[i].name, data, text),
			.value = http_conn_moved(h->fields[i].value, data, text),
		};
	r->pub = (struct http_request){
		.method = http_conn_moved(h->method, data, text),
		.target = http_conn_moved(h->target, data, text),
		.path = path,
		.query = h->target[path_len]
				 ? http_conn_moved(h->target, data, text) + path_len + 1
				 : NULL,
		.headers = r->headers,
		.n_headers = h->n_fields,
		.peer = &c->peer,
		.has_body = h->chunked || h->length > 0,
		.length = h->chunked ? -1 : (int64_t)h->length,
		.major = 1,
		.minor = h->minor,
	};
	r->expects = h->expect_continue && h->minor == 1 && r->pub.has_body;
	r->head_method = strcmp(h->method, "HEAD") == 0;
	r->keep_alive = !h->close && (h->minor == 1 || h->keep_alive);
	http_server_id(c->server, r->id);
	link_add(&c->requests, &r->link);
	return r;
}

void http_conn_start_request(struct request *r)
{
	struct http_conn *c = r->conn;
	const struct http_options *o = http_server_options(c->server);

	c->used = true;
	/*
	 * The connection is no longer idle: idle connections may be closed from anywhere,
	 * even in handlers.
	 */
	http_server_set_deadline(c->server, &c->timer, DEADLINE_NONE);
	o->request(&r->pub, o->ctx);
}

static void start_request(struct http_conn *c, const struct http_head *h,
			  const char *data, size_t n)
{
	enum http_body_kind kind = h->chunked      ? HTTP_BODY_CHUNKED
				   : h->has_length ? HTTP_BODY_LENGTH
						   : HTTP_BODY_NONE;
	struct request *r = http_conn_new_request(c, h, data, n);

	if (!r) {
		http_conn_end(c, -ENOMEM);
		return;
	}
	http_body_init(&c->body, kind, h->length);
	c->req = r;
	c->close_after = !r->keep_alive;
	http_conn_start_request(r);
}

static size_t http_conn_take_head(struct http_conn *c, char *data, size_t n)
{
	size_t max = http_server_options(c->server)->limits.header_bytes;
	struct http_head *h = http_server_head(c->server);
	long len;
	int status;

	if (n == 0 || c->stream.out.queued > STREAM_HIGH)
		return 0;
	len = http_head_find(data, n, &c->scanned);
	if (len == 0 && n <= max)
		return 0;
	c->scanned = 0;
	if (len < 0) {
		http1_refuse_head(c, 400, "this is not an HTTP/1.1 request", -EBADMSG,
				  data, n);
		return n;
	}
	if (len == 0 || (size_t)len > max) {
		http1_refuse_head(c, 431, "the head of the request is too large",
				  -EMSGSIZE, data, n);
		return n;
	}
	status = http_head_request(data, (size_t)len, h);
	if (status != 0) {
		http1_refuse_head(c, status, h->why, -EBADMSG, data, n);
		return n;
	}
	start_request(c, h, data, (size_t)len);
	return (size_t)len;
}

/* ------------------------------------------------------------------ bodies */

/* Skip the body of an answered request, so that the next request can be read. */
static size_t drop_body(struct http_conn *c, const char *data, size_t n)
{
	const char *piece = NULL;
	size_t len = 0;
	long used = http_body_take(&c->body, data, n, &piece, &len);

	if (used < 0) {
		http_conn_end(c, -EBADMSG);
		return n;
	}
	return (size_t)used;
}

int http_conn_collect(struct request *r, const char *piece, size_t len)
{
	if (len > r->collected.max - r->collected.len) {
		r->oversize = true;
		return 0;
	}
	if (!http_account_body(http_server_accounts(r->conn->server), r,
			       r->collected.len + len)) {
		r->crowded = true;
		return 0;
	}
	buf_add(&r->collected, piece, len);
	return r->collected.failed ? -ENOMEM : 0;
}

static size_t take_body(struct http_conn *c, const char *data, size_t n)
{
	struct request *r = c->req;
	const char *piece = NULL;
	size_t len = 0;
	long used;

	if (n == 0 || r->paused || r->sink == SINK_UNDECIDED)
		return 0;
	if (r->upgraded) {
		r->fn(&r->pub, data, n);
		return n;
	}
	if (c->body.done)
		return 0;
	used = http_body_take(&c->body, data, n, &piece, &len);
	if (used < 0) {
		http1_refuse(c, 400, "the chunks of the body are malformed", -EBADMSG);
		return n;
	}
	r->expects = false;
	if (len > 0 && r->sink == SINK_STREAM)
		r->fn(&r->pub, piece, len);
	else if (len > 0 && http_conn_collect(r, piece, len) < 0)
		http_conn_end(c, -ENOMEM);
	return (size_t)used;
}

void http_conn_tell_end(struct request *r)
{
	r->told_end = true;
	if (r->sink == SINK_STREAM) {
		r->fn(&r->pub, "", 0);
		return;
	}
	buf_add(&r->collected, "", 0); /* adds a NUL even if the body is empty */
	r->fn(&r->pub, r->collected.data, r->collected.len);
	/* Free the body now, not when the answer ends. */
	buf_done(&r->collected);
	http_account_give(http_server_accounts(r->conn->server), HTTP_BODIES, r);
}

static void tell_end(struct http_conn *c)
{
	struct request *r = c->req;

	if (r->told_end || r->paused || r->sink == SINK_UNDECIDED)
		return;
	if (r->upgraded ? c->stream.ended : c->body.done)
		http_conn_tell_end(r);
}

/* ----------------------------------------------------------- progress of a connection */

/* Complete answers and bodies that need no further bytes. */
static void http_conn_settle(struct http_conn *c, bool bytes_left)
{
	struct request *r = c->req;

	if (c->aborted) {
		http_conn_end(c, -ECONNABORTED);
		return;
	}
	if (r && r->oversize && !r->ended) {
		http1_refuse(c, 413, "the body is too large", -EFBIG);
		return;
	}
	if (r && r->crowded && !r->ended) {
		http1_refuse(c, 503, "too many large requests are being sent at once",
			     -ENOBUFS);
		return;
	}
	if (r && (r->upgraded ? !bytes_left : !r->ended))
		tell_end(c);
	r = c->req;
	if (!r || !r->ended || (r->upgraded && !r->told_end))
		return;
	http_conn_close_request(r, 0);
	if (c->close_after)
		http_conn_linger(c);
}

static bool wants_bytes(const struct http_conn *c)
{
	const struct request *r = c->req;

	if (c->lingering)
		return true;
	if (!r)
		return !c->body.done || c->stream.out.queued <= STREAM_HIGH;
	if (r->paused || r->sink == SINK_UNDECIDED)
		return false;
	return r->upgraded || !c->body.done;
}

enum deadline http_conn_body_deadline(const struct request *r)
{
	return r->slow_body ? DEADLINE_SLOW_BODY : DEADLINE_BODY;
}

static enum deadline wanted_deadline(const struct http_conn *c)
{
	const struct request *r = c->req;

	if (!stream_idle(&c->stream))
		return DEADLINE_WRITE;
	if (c->lingering)
		return DEADLINE_LINGER;
	if (r && r->upgraded)
		return DEADLINE_NONE;
	if (r && c->body.done)
		return c->stream.hung_up ? DEADLINE_HALF : DEADLINE_NONE;
	if (r)
		return wants_bytes(c) ? http_conn_body_deadline(r) : DEADLINE_NONE;
	if (!c->body.done)
		return DEADLINE_BODY;
	if (c->partial || !c->used)
		return DEADLINE_HEAD;
	return c->known ? DEADLINE_KEPT : DEADLINE_IDLE;
}

void http_conn_set_deadline(struct http_server *s, struct http_timer *t, enum deadline d,
			    uint64_t progress)
{
	if (d == t->kind && progress == t->progress)
		return;
	t->progress = progress;
	http_server_set_deadline(s, t, d);
}

static void http_conn_arm(struct http_conn *c)
{
	enum deadline d = wanted_deadline(c);
	bool absolute = d == DEADLINE_HEAD || d == DEADLINE_LINGER || d == DEADLINE_NONE;
	/* A client that sends but does not read makes no progress. */
	uint64_t progress =
		c->stream.sent + (d == DEADLINE_WRITE ? 0 : c->stream.received);

	http_conn_set_deadline(c->server, &c->timer, d,
			       absolute ? c->timer.progress : progress);
}

static size_t http_conn_work(struct http_conn *c, char *data, size_t n)
{
	size_t done = 0, used;

	c->working = true;
	stream_cork(&c->stream);
	do {
		http_conn_settle(c, done < n);
		if (c->stream.is_closed)
			return n;
		if (c->lingering)
			used = n - done;
		else if (c->req)
			used = take_body(c, data + done, n - done);
		else if (!c->body.done)
			used = drop_body(c, data + done, n - done);
		else
			used = http_conn_take_head(c, data + done, n - done);
		if (c->stream.is_closed)
			return n;
		done += used;
	} while (used > 0);
	c->partial = !c->req && (n > 0 ? done < n : stream_kept(&c->stream) > 0);
	stream_uncork(&c->stream);
	c->working = false;

	if (wants_bytes(c))
		stream_resume(&c->stream);
	else
		stream_pause(&c->stream);
	if (c->lingering && c->stream.ended && stream_idle(&c->stream))
		http_conn_end(c, 0);
	else
		http_conn_arm(c);
	return done;
}

void http_conn_look_again(struct http_conn *c)
{
	char none[1];

	(void)http_conn_work(c, none, 0);
}

static void http_conn_refuse_overfull(struct http_conn *c)
{
	http1_refuse(c, 503, "there are too many connections: try again later", -EBUSY);
}

void http_conn_overfull(struct http_conn *c)
{
	http_conn_refuse_overfull(c);
	if (!c->stream.is_closed)
		http_conn_look_again(c);
}

static size_t on_data(void *ctx, char *data, size_t n)
{
	struct http_conn *c = ctx;

	if (!c->chosen) {
		c->chosen = true;
		if (c->stream.ssl && tls_is_http2(c->stream.ssl)) {
			int r = http2_conn_open(c);

			if (r < 0) {
				http_conn_end(c, r);
				return n;
			}
			if (c->refused)
				http2_overfull(c);
			return c->stream.ops->data(c, data, n);
		}
		if (c->refused && !c->lingering)
			http_conn_refuse_overfull(c);
		if (c->stream.is_closed)
			return n;
	}
	return http_conn_work(c, data, n);
}

/* The bytes after the body belong to the next request, and must not be in this buffer. */
static char *http_conn_on_room(void *ctx, size_t *size)
{
	struct http_conn *c = ctx;
	struct request *r = c->req;
	size_t left = (size_t)c->body.left;
	char *room;

	if (!r || !r->pub.room || r->sink != SINK_STREAM || r->upgraded || r->paused ||
	    r->ended || c->lingering || c->aborted || c->body.done ||
	    c->body.kind != HTTP_BODY_LENGTH)
		return NULL;
	*size = left;
	room = r->pub.room(&r->pub, size);
	if (*size > left)
		*size = left;
	return room;
}

/*
 * The client has closed its half of the connection. Requests that need no more data
 * continue.
 */
static void http_conn_on_ended(void *ctx, bool drained)
{
	struct http_conn *c = ctx;

	if (!drained) {
		http_conn_arm(c);
		return;
	}
	if (c->req && !c->req->upgraded && !c->body.done) {
		http_conn_end(c, -ECONNRESET);
		return;
	}
	if (!c->req && !c->lingering) {
		if (stream_idle(&c->stream)) {
			http_conn_end(c, 0);
			return;
		}
		http_conn_linger(c);
	}
	http_conn_look_again(c);
}

static void http_conn_on_drained(void *ctx)
{
	struct http_conn *c = ctx;
	struct request *r = c->req;

	if (r && r->waiting && !r->ended) {
		r->waiting = false;
		if (r->pub.drained)
			r->pub.drained(&r->pub);
	}
	if (!c->stream.is_closed)
		http_conn_look_again(c);
}

/*
 * Handlers, timers and workers may write an answer, so the deadline is set wherever that
 * happens.
 */
static void on_queued(void *ctx)
{
	struct http_conn *c = ctx;

	if (!c->working)
		http_conn_arm(c);
}

static void http_conn_on_failed(void *ctx, int error)
{
	http_conn_end(ctx, error);
}

static void http_conn_on_closed(void *ctx)
{
	free(ctx);
}

static void http_conn_on_task(void *ctx)
{
	http_conn_look_again(ctx);
}

bool http_conn_reads_on(struct http_conn *c)
{
	struct pollfd p = { .fd = c->stream.fd, .events = POLLOUT };
	uint64_t sent = c->stream.sent;

	if (poll(&p, 1, 0) <= 0 || p.revents != POLLOUT)
		return false;
	stream_flush(&c->stream);
	if (!c->stream.is_closed)
		stream_update(&c->stream);
	return c->stream.is_closed || c->stream.error || c->stream.sent != sent;
}

static void http_conn_expired(struct http_timer *timer, enum deadline which)
{
	struct http_conn *c = CONTAINER(timer, struct http_conn, timer);
	bool refusable =
		(which == DEADLINE_HEAD && c->partial) ||
		((which == DEADLINE_BODY || which == DEADLINE_SLOW_BODY) && c->req);
	size_t head = stream_kept(&c->stream);

	if (which == DEADLINE_WRITE && http_conn_reads_on(c))
		return;
	if (refusable)
		http1_refuse_head(
			c, 408, "the request did not arrive in time", -ETIMEDOUT,
			head > 0 ? c->stream.kept + c->stream.kept_off : NULL, head);
	else
		http_conn_end(c, which == DEADLINE_HALF ? -ECONNRESET : -ETIMEDOUT);
	if (!c->stream.is_closed)
		http_conn_look_again(c);
}

static const struct stream_ops conn_ops = {
	.data = on_data,
	.room = http_conn_on_room,
	.ended = http_conn_on_ended,
	.drained = http_conn_on_drained,
	.queued = on_queued,
	.failed = http_conn_on_failed,
	.closed = http_conn_on_closed,
};

int http_conn_open(struct http_server *server, int fd, struct tls *tls,
		   struct http_conn **ret)
{
	struct http_conn *c = calloc(1, sizeof(*c));
	SSL *ssl = c && tls ? tls_accept(tls, fd) : NULL;
	int r;

	if (!c || (tls && !ssl)) {
		free(c);
		(void)close(fd);
		return -ENOMEM;
	}
	c->server = server;
	c->task = (struct loop_task){ .fn = http_conn_on_task, .ctx = c };
	c->body.done = true;
	link_init(&c->all);
	link_init(&c->requests);
	link_init(&c->timer.queue);
	c->timer.expired = http_conn_expired;
	c->protocol = &http1_protocol;
	r = stream_open(&c->stream, http_server_loop(server), fd, ssl, &conn_ops, c);
	if (r < 0) {
		SSL_free(ssl);
		(void)close(fd);
		free(c);
		return r;
	}
	http_conn_arm(c);
	*ret = c;
	return 0;
}
