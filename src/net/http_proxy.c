/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_proxy.c - forward a request to an untrusted server, and its answer back
 *
 *	client -- conn, request --> [piece_in] -- stream up --> server
 *	client <-- http_write() --  [take_answer] <----------- server
 *
 * Each request has one connection to the server. In each direction, the source is paused
 * while the destination is full, so only a limited number of bytes is in memory. The
 * proxy exists from http_proxy() until the request is closed; only the end of the request
 * closes the connection to the server.
 */
#include "net/http_proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/strv.h"
#include "net/http_internal.h"

#define HEAD_MS 60000
/*
 * Idle timeout for the second half of a pipe after the first half has ended: the peer
 * that ended its half may be gone, which TCP does not report. The time is long, because a
 * tunnel may carry any protocol, whose answers may take long.
 */
#define PIPE_ENDED_MS   60000
#define TUNNEL_ENDED_MS 600000
#define HEAD_MAX        (64U << 10)
#define INTERIM_MAX     64 /* limits a server that sends only "103" */

enum state {
	STATE_HEAD, /* the head of the answer has not arrived */
	STATE_BODY,
	STATE_PIPE, /* upgraded: bytes in both directions */
	STATE_DONE, /* the answer is complete, or cannot be completed */
};

struct proxy {
	struct http_request *req;
	struct stream up;
	struct http_body body; /* body of the answer */
	struct loop_timer *timer;
	uint64_t progress; /* time at which the timer was set */
	size_t scanned;
	unsigned head_ms, ended_ms;
	unsigned interim; /* number of interim answers so far */
	void (*closed)(void *ctx, int why);
	void *ctx;
	struct http_header with; /* header to add to the answer; name NULL: none */
	const char *const *answer_without;
	uint8_t state; /* enum state */
	bool chunked;  /* the body of the request is chunked */
	bool wants_upgrade;
	bool half_ended;     /* one half of a pipe has ended */
	bool answered_early; /* the server has answered, and reads no more of the body */
};

/* ------------------------------------------------------------------ headers */

/* Headers that apply to one connection only. The header Connection may name more of
 * them. */
static const char *const hop_by_hop[] = {
	"connection",
	"keep-alive",
	"proxy-authenticate",
	"proxy-authorization",
	"proxy-connection",
	"te",
	"trailer",
	"transfer-encoding",
	"upgrade",
	"content-length", /* written again from the parsed values */
};

/* Headers that the proxy sets itself. */
static const char *const rewritten[] = {
	"expect",           "host",
	"x-forwarded-for",  "x-forwarded-proto",
	"x-forwarded-host", "x-forwarded-port",
	"forwarded",        "x-real-ip",
};

static bool http_proxy_listed(const char *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcasecmp(list[i], name) == 0)
			return true;
	return false;
}

static void http_proxy_put_header(struct buf *b, const char *name, const char *value)
{
	buf_puts(b, name);
	buf_add(b, ": ", 2);
	buf_puts(b, value);
	buf_add(b, "\r\n", 2);
}

static void put_forwarded(struct buf *b, const struct http_request *req)
{
	char address[INET6_ADDRSTRLEN] = "unix";
	const char *host = http_header(req, "Host");

	if (req->peer->kind == HTTP_PEER_TCP && IN6_IS_ADDR_V4MAPPED(&req->peer->address))
		(void)inet_ntop(AF_INET, &req->peer->address.s6_addr[12], address,
				sizeof(address));
	else if (req->peer->kind == HTTP_PEER_TCP)
		(void)inet_ntop(AF_INET6, &req->peer->address, address, sizeof(address));
	http_proxy_put_header(b, "X-Forwarded-For", address);
	http_proxy_put_header(b, "X-Forwarded-Proto", req->peer->tls ? "https" : "http");
	if (host)
		http_proxy_put_header(b, "X-Forwarded-Host", host);
}

static void put_request(struct proxy *p, struct buf *b,
			const struct http_proxy_options *o)
{
	const struct http_request *req = p->req;
	const char *host = o->host ? o->host : http_header(req, "Host");
	const char *upgrade = http_header(req, "Upgrade");

	p->wants_upgrade = upgrade && req->minor == 1 && !req->has_body &&
			   http_header_has(req, "Connection", "upgrade");
	p->chunked = req->length < 0;
	buf_puts(b, req->method);
	buf_puts(b, " ");
	buf_puts(b, o->target ? o->target : req->target);
	buf_puts(b, " HTTP/1.1\r\n");
	http_proxy_put_header(b, "Host", host ? host : "localhost");
	for (size_t i = 0; i < req->n_headers; i++) {
		const struct http_header *h = &req->headers[i];

		if (!http_proxy_listed(hop_by_hop, ARRAY_SIZE(hop_by_hop), h->name) &&
		    !http_proxy_listed(rewritten, ARRAY_SIZE(rewritten), h->name) &&
		    !strv_has_case(o->without, h->name) &&
		    !http_header_has(req, "Connection", h->name))
			http_proxy_put_header(b, h->name, h->value);
	}
	put_forwarded(b, req);
	if (p->chunked)
		http_proxy_put_header(b, "Transfer-Encoding", "chunked");
	else if (req->length > 0 || http_header(req, "Content-Length"))
		buf_printf(b, "Content-Length: %lld\r\n", (long long)req->length);
	if (p->wants_upgrade)
		http_proxy_put_header(b, "Upgrade", upgrade);
	http_proxy_put_header(b, "Connection", p->wants_upgrade ? "Upgrade" : "close");
	buf_puts(b, "\r\n");
}

/* ---------------------------------------------------------------- body of the request */

static void note_progress(struct proxy *p)
{
	p->progress = p->up.sent + p->up.received;
}

static void piece_in(struct http_request *req, const char *data, size_t n)
{
	struct proxy *p = req->user;
	char size[20];
	struct iovec iov[3];
	size_t parts = 0;
	int r;

	if (p->answered_early)
		return;
	if (n == 0 && !p->chunked)
		return;
	if (p->chunked) {
		int len = snprintf(size, sizeof(size), "%zx\r\n", n);

		iov[parts++] = (struct iovec){ .iov_base = size, .iov_len = (size_t)len };
	}
	if (n > 0)
		iov[parts++] = (struct iovec){ .iov_base = (void *)(uintptr_t)data,
					       .iov_len = n };
	if (p->chunked)
		iov[parts++] = (struct iovec){ .iov_base = (void *)(uintptr_t) "\r\n",
					       .iov_len = 2 };
	r = stream_writev(&p->up, iov, parts);
	if (r > 0)
		http_pause(req);
	else if (r == -EPIPE)
		p->answered_early = true;
}

static void up_drained(void *ctx)
{
	struct proxy *p = ctx;

	if (p->req)
		http_resume(p->req);
}

/* ---------------------------------------------------------------- the server's answer */

static void refuse_as(struct proxy *p, int status, const char *code, const char *why)
{
	if (p->state == STATE_DONE)
		return;
	p->state = STATE_DONE;
	stream_pause(&p->up);
	if (http_response_begun(p->req))
		http_abort(p->req);
	else
		(void)http_refuse(p->req, status, code, why);
}

static void http_proxy_refuse(struct proxy *p, int status, const char *why)
{
	refuse_as(p, status, NULL, why);
}

static void http_proxy_complete(struct proxy *p)
{
	p->state = STATE_DONE;
	stream_pause(&p->up);
	(void)http_end(p->req);
}

static bool named_by_connection(const struct http_head *h, const char *name)
{
	for (size_t i = 0; i < h->n_fields; i++)
		if (strcasecmp(h->fields[i].name, "connection") == 0 &&
		    http_list_has(h->fields[i].value, name))
			return true;
	return false;
}

static size_t pick_headers(const struct proxy *p, const struct http_head *h, bool upgrade,
			   struct http_header headers[HTTP_FIELDS_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_fields; i++) {
		const struct http_field *f = &h->fields[i];
		bool is_upgrade = strcasecmp(f->name, "upgrade") == 0;

		if (upgrade && is_upgrade) {
			headers[n++] = (struct http_header){ f->name, f->value };
			continue;
		}
		if (http_proxy_listed(hop_by_hop, ARRAY_SIZE(hop_by_hop), f->name) ||
		    named_by_connection(h, f->name) ||
		    strv_has_case(p->answer_without, f->name) ||
		    strcasecmp(f->name, "date") == 0)
			continue;
		headers[n++] = (struct http_header){ f->name, f->value };
	}
	return n;
}

static void pipe_in(struct http_request *req, const char *data, size_t n)
{
	struct proxy *p = req->user;

	if (n == 0) {
		p->half_ended = true;
		loop_timer_set(p->timer, p->ended_ms);
		stream_finish(&p->up);
	} else if (stream_write(&p->up, data, n) > 0) {
		http_pause(req);
	}
}

static void start_pipe(struct proxy *p, const struct http_head *h)
{
	struct http_header headers[HTTP_FIELDS_MAX];
	size_t n = pick_headers(p, h, true, headers);

	if (!p->wants_upgrade) {
		http_proxy_refuse(p, 502,
				  "the server upgraded a connection without a request");
		return;
	}
	loop_timer_stop(p->timer);
	p->state = STATE_PIPE;
	if (http_upgrade(p->req, headers, n, pipe_in) < 0)
		p->state = STATE_DONE;
}

static void start_answer(struct proxy *p, const struct http_head *h)
{
	struct http_header headers[HTTP_FIELDS_MAX + 1];
	size_t n = pick_headers(p, h, false, headers);
	enum http_body_kind kind = h->chunked      ? HTTP_BODY_CHUNKED
				   : h->has_length ? HTTP_BODY_LENGTH
						   : HTTP_BODY_UNTIL_CLOSE;

	if (request_of(p->req)->head_method || h->status == 204 || h->status == 304)
		kind = HTTP_BODY_NONE;
	if (p->with.name)
		headers[n++] = p->with;
	http_body_init(&p->body, kind, h->length);
	p->state = STATE_BODY;
	loop_timer_stop(p->timer);
	if (http_begin_response(p->req, (int)h->status, headers, n,
				h->has_length ? (int64_t)h->length : -1) < 0)
		p->state = STATE_DONE;
	else if (p->body.done)
		http_proxy_complete(p);
}

static size_t take_answer_head(struct proxy *p, char *data, size_t n)
{
	/* Use a separate struct http_head, because this may be called within a callback.
	 */
	struct http_head h;
	long len = http_head_find(data, n, &p->scanned);

	if (len == 0 && n <= HEAD_MAX)
		return 0;
	p->scanned = 0;
	if (len <= 0 || len > (long)HEAD_MAX) {
		http_proxy_refuse(
			p, 502,
			len < 0 ? "the server's answer is not HTTP/1.1"
				: "the head of the server's answer is too large");
		return n;
	}
	if (http_head_response(data, (size_t)len, &h) != 0) {
		http_proxy_refuse(p, 502, h.why);
		return n;
	}
	if (h.status == 101)
		start_pipe(p, &h);
	else if (h.status >= 200)
		start_answer(p, &h);
	else if (++p->interim > INTERIM_MAX)
		http_proxy_refuse(
			p, 502,
			"the server sent too many interim answers and no final one");
	return (size_t)len; /* other interim answers are not forwarded */
}

static size_t take_answer_body(struct proxy *p, const char *data, size_t n)
{
	const char *piece = NULL;
	size_t len = 0;
	long used = http_body_take(&p->body, data, n, &piece, &len);

	if (used < 0) {
		http_proxy_refuse(p, 502,
				  "the chunks of the server's answer are malformed");
		return n;
	}
	if (len > 0 && http_write(p->req, piece, len) > 0)
		stream_pause(&p->up);
	if (p->body.done)
		http_proxy_complete(p);
	return (size_t)used;
}

static size_t up_data(void *ctx, char *data, size_t n)
{
	struct proxy *p = ctx;
	size_t done = 0, used = 1;

	while (done < n && used > 0 && !p->up.paused) {
		switch ((enum state)p->state) {
		case STATE_HEAD:
			used = take_answer_head(p, data + done, n - done);
			break;
		case STATE_BODY:
			used = take_answer_body(p, data + done, n - done);
			break;
		case STATE_PIPE:
			used = n - done;
			if (http_write(p->req, data + done, used) > 0)
				stream_pause(&p->up);
			break;
		case STATE_DONE:
			/* After the end of the answer: unrequested data. */
			used = n - done;
			break;
		}
		done += used;
	}
	return done;
}

static void up_ended(void *ctx, bool drained)
{
	struct proxy *p = ctx;

	if (!drained || p->state == STATE_DONE)
		return;
	if (p->state == STATE_PIPE) {
		if (!p->half_ended)
			loop_timer_set(p->timer, p->ended_ms);
		p->half_ended = true;
		(void)http_end(p->req);
	} else if (p->state == STATE_BODY && p->body.kind == HTTP_BODY_UNTIL_CLOSE) {
		http_proxy_complete(p);
	} else {
		refuse_as(p, 502, "port_closed",
			  "the server ended the connection without an answer");
	}
}

static void up_failed(void *ctx, int error)
{
	struct proxy *p = ctx;

	(void)error;
	refuse_as(p, 502, "port_closed", "the connection to the server failed");
}

static void client_drained(struct http_request *req)
{
	struct proxy *p = req->user;

	if (p->state != STATE_DONE)
		stream_resume(&p->up);
}

/* ---------------------------------------------------------------- lifetime of a proxy */

static void http_proxy_on_timer(void *ctx)
{
	struct proxy *p = ctx;
	uint64_t before = p->progress;

	note_progress(p);
	if (p->progress != before)
		loop_timer_set(p->timer,
			       p->state == STATE_PIPE ? p->ended_ms : p->head_ms);
	else if (p->state == STATE_PIPE)
		http_abort(p->req);
	else
		http_proxy_refuse(p, 504, "the server did not answer in time");
}

static void up_closed(void *ctx)
{
	free(ctx);
}

static const struct stream_ops up_ops = {
	.data = up_data,
	.ended = up_ended,
	.drained = up_drained,
	.failed = up_failed,
	.closed = up_closed,
};

static void request_closed(struct http_request *req, int why)
{
	struct proxy *p = req->user;

	p->req = NULL;
	p->state = STATE_DONE;
	p->timer = loop_timer_free(p->timer);
	if (p->closed)
		p->closed(p->ctx, why);
	stream_close(&p->up);
}

/* Do everything that can fail before taking over the request. */
static struct proxy *new_proxy(struct http_request *req, int fd,
			       const struct http_proxy_options *o)
{
	struct net_loop *loop = request_of(req)->conn->stream.loop;
	struct proxy *p = calloc(1, sizeof(*p));
	int one = 1;

	if (!p)
		return NULL;
	p->req = req;
	p->head_ms = o->head_ms ? o->head_ms : HEAD_MS;
	p->ended_ms = PIPE_ENDED_MS;
	/*
	 * Send each write immediately, as the server did. If the socket is not TCP, this
	 * has no effect.
	 */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	p->closed = o->closed;
	p->with = o->with;
	p->answer_without = o->answer_without;
	p->ctx = o->ctx;
	if (loop_timer_new(loop, http_proxy_on_timer, p, &p->timer) < 0 ||
	    stream_open(&p->up, loop, fd, NULL, &up_ops, p) < 0) {
		(void)loop_timer_free(p->timer);
		free(p);
		return NULL;
	}
	p->up.reads_on = true;
	return p;
}

/* Return NULL if there is no memory; this has been reported. */
static struct proxy *http_proxy_take(struct http_request *req, int fd,
				     const struct http_proxy_options *options)
{
	struct proxy *p = new_proxy(req, fd, options);

	if (!p) {
		(void)close(fd);
		(void)http_refuse(req, 502, NULL, "the connection to the server failed");
		if (options->closed)
			options->closed(options->ctx, -ENOMEM);
		return NULL;
	}
	req->user = p;
	req->drained = client_drained;
	req->closed = request_closed;
	return p;
}

void http_proxy(struct http_request *req, int fd,
		const struct http_proxy_options *options)
{
	AUTO_BUF struct buf head = BUF_INIT(HEAD_MAX + (HEAD_MAX >> 1));
	struct proxy *p = http_proxy_take(req, fd, options);

	if (!p)
		return;
	put_request(p, &head, options);
	if (head.failed) {
		http_proxy_refuse(p, 502, "the request is too large to be forwarded");
		return;
	}
	(void)stream_write(&p->up, head.data, head.len);
	if (req->has_body)
		http_stream(req, piece_in);
	note_progress(p);
	loop_timer_set(p->timer, p->head_ms);
}

void http_tunnel(struct http_request *req, int fd, const struct http_header *headers,
		 size_t n_headers, void (*closed)(void *ctx, int why), void *ctx)
{
	const struct http_proxy_options options = { .closed = closed, .ctx = ctx };
	struct proxy *p = http_proxy_take(req, fd, &options);

	if (!p)
		return;
	p->ended_ms = TUNNEL_ENDED_MS;
	p->state = STATE_PIPE;
	if (http_upgrade(req, headers, n_headers, pipe_in) < 0)
		p->state = STATE_DONE;
}
