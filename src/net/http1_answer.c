/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http1_answer.c - send responses over HTTP/1: heads, chunks, files, refusals, upgrades
 *
 * The framing of a response is decided when its head is written, from the request and the
 * status, and does not change.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "net/http_internal.h"

static void http1_put_u64(struct buf *b, uint64_t v)
{
	char text[20], *p = text + sizeof(text);

	do
		*--p = (char)('0' + v % 10);
	while (v /= 10);
	buf_add(b, p, (size_t)(text + sizeof(text) - p));
}

#define PUT(b, literal) buf_add(b, literal, sizeof(literal) - 1)

/* Write the status line and headers; http1_put_framing() adds those of the body. */
static int http1_put_head(struct buf *b, struct http_server *s, int status,
			  const struct http_header *headers, size_t n)
{
	PUT(b, "HTTP/1.1 ");
	http1_put_u64(b, (uint64_t)status);
	PUT(b, " ");
	buf_puts(b, http_status_text(status));
	PUT(b, "\r\nDate: ");
	buf_puts(b, http_server_date(s));
	PUT(b, "\r\n");
	for (size_t i = 0; i < n; i++) {
		buf_puts(b, headers[i].name);
		PUT(b, ": ");
		buf_puts(b, headers[i].value);
		PUT(b, "\r\n");
	}
	return b->failed ? -EMSGSIZE : 0;
}

static void http1_put_framing(struct buf *b, struct request *r, int64_t length)
{
	struct http_conn *c = r->conn;
	bool nothing = r->status == 204 || r->status == 304;

	r->chunked = length < 0 && r->pub.minor == 1 && !r->bodiless;
	if (length < 0 && r->pub.minor == 0 && !r->bodiless)
		c->close_after = true;
	if (!http_conn_body_is_cheap(c) || http_server_is_draining(c->server))
		c->close_after = true;
	if (length >= 0 && !nothing) {
		PUT(b, "Content-Length: ");
		http1_put_u64(b, (uint64_t)length);
		PUT(b, "\r\n");
	} else if (length < 0 && r->pub.minor == 1 && !nothing) {
		PUT(b, "Transfer-Encoding: chunked\r\n");
	}
	if (c->close_after)
		PUT(b, "Connection: close\r\n");
	else if (r->pub.minor == 0)
		PUT(b, "Connection: keep-alive\r\n");
	PUT(b, "\r\n");
}

static int http1_head(struct request *r, const struct http_header *headers,
		      size_t n_headers, int64_t length, bool ours, const void *body,
		      size_t n)
{
	struct http_conn *c = r->conn;
	struct buf *b = http_server_scratch(c->server);
	struct iovec iov[2];
	int result = http1_put_head(b, c->server, r->status, headers, n_headers);

	if (result < 0)
		return result;
	if (ours && http_wants_retry(r->status, headers, n_headers))
		PUT(b, "Retry-After: 1\r\n");
	http1_put_framing(b, r, length);
	iov[0] = (struct iovec){ .iov_base = b->data, .iov_len = b->len };
	iov[1] = (struct iovec){ .iov_base = (void *)(uintptr_t)body, .iov_len = n };
	return stream_writev(&c->stream, iov, n == 0 ? 1 : 2);
}

static int http1_write_chunk(struct stream *s, const void *data, size_t n)
{
	char size[20];
	int len = snprintf(size, sizeof(size), "%zx\r\n", n);
	struct iovec iov[] = {
		{ .iov_base = size, .iov_len = (size_t)len },
		{ .iov_base = (void *)(uintptr_t)data, .iov_len = n },
		{ .iov_base = (void *)(uintptr_t) "\r\n", .iov_len = 2 },
	};

	return stream_writev(s, iov, ARRAY_SIZE(iov));
}

static int http1_write(struct request *r, const void *data, size_t n)
{
	struct stream *s = &r->conn->stream;

	return r->chunked ? http1_write_chunk(s, data, n) : stream_write(s, data, n);
}

static int http1_write_file(struct request *r, int fd, uint64_t offset, uint64_t n)
{
	return stream_write_file(&r->conn->stream, fd, offset, n);
}

static int http1_end(struct request *r)
{
	struct stream *s = &r->conn->stream;
	int result = r->chunked ? stream_write(s, "0\r\n\r\n", 5) : 0;

	if (r->upgraded)
		stream_finish(s);
	return result;
}

static void http1_go_on(struct request *r)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

	(void)stream_write(&r->conn->stream, go_on, sizeof(go_on) - 1);
}

static int http1_upgrade(struct request *r, const struct http_header *headers,
			 size_t n_headers)
{
	struct http_conn *c = r->conn;
	struct buf *b = http_server_scratch(c->server);

	if (r->pub.minor == 0)
		return -EOPNOTSUPP;
	if (http1_put_head(b, c->server, 101, headers, n_headers) < 0)
		return -EMSGSIZE;
	PUT(b, "Connection: Upgrade\r\n\r\n");
	c->close_after = true;
	return stream_write(&c->stream, b->data, b->len);
}

static void http1_abort(struct request *r)
{
	r->conn->aborted = true;
	http_conn_kick(r->conn);
}

static void http1_kick(struct request *r)
{
	http_conn_kick(r->conn);
}

/* The bytes are those that the client sent, or were parsed in place. */
static void http1_set_path(struct http_refusal *f, const char *head, size_t n)
{
	size_t at = 0;

	while (at < n && head[at] >= 'A' && head[at] <= 'Z')
		at++;
	if (at > 0 && at + 1 < n && head[at + 1] == '/')
		http_refusal_set_path(f, head + at + 1, n - at - 1);
}

void http1_refuse(struct http_conn *c, int status, const char *why, int error)
{
	http1_refuse_head(c, status, why, error, NULL, 0);
}

void http1_refuse_head(struct http_conn *c, int status, const char *why, int error,
		       const char *head, size_t n)
{
	struct buf *b, *body;
	char id[ID_LEN + 1];
	struct http_refusal f = { .status = status,
				  .code = http_refusal_code(status),
				  .message = why,
				  .request_id = id };
	struct http_header headers[2 + HTTP_ADDED_MAX] = { { "Content-Type", "" },
							   { "X-Request-Id", id } };
	size_t n_headers = 2;

	if (c->req && c->req->begun) {
		http_conn_end(c, error);
		return;
	}
	if (c->req) {
		(void)memcpy(id, http_request_id(&c->req->pub), sizeof(id));
		c->req->status = status;
		f.req = &c->req->pub;
		n_headers += http_refusal_add_headers(c->req, headers + n_headers);
	} else {
		http_server_id(c->server, id);
		f.peer = &c->peer;
		http1_set_path(&f, head, n);
	}
	body = http_refusal_body(c->server, &f);
	headers[0].value = f.type;
	status = f.status;
	b = http_server_scratch(c->server);
	(void)http1_put_head(b, c->server, status, headers, n_headers);
	if (http_wants_retry(status, headers, n_headers))
		PUT(b, "Retry-After: 1\r\n");
	PUT(b, "Content-Length: ");
	http1_put_u64(b, body->len);
	PUT(b, "\r\nConnection: close\r\n\r\n");
	if (!c->req || !c->req->head_method)
		buf_add(b, body->data, body->len);
	(void)stream_write(&c->stream, b->data, b->len);
	c->body.done = true;
	c->close_after = true;
	if (c->req)
		http_conn_close_request(c->req, error);
	if (!c->stream.is_closed)
		http_conn_linger(c);
}

static void http1_cut(struct request *r, int status, const char *why, int error)
{
	struct http_conn *c = r->conn;

	http1_refuse(c, status, why, error);
	if (!c->stream.is_closed)
		http_conn_look_again(c);
}

static void http1_drain(struct http_conn *c)
{
	if (c->timer.kind == DEADLINE_IDLE || c->timer.kind == DEADLINE_KEPT)
		http_conn_end(c, -ECANCELED);
}

static void http1_gone(struct http_conn *c UNUSED)
{
}

const struct http_protocol http1_protocol = {
	.head = http1_head,
	.write = http1_write,
	.write_file = http1_write_file,
	.end = http1_end,
	.go_on = http1_go_on,
	.upgrade = http1_upgrade,
	.abort = http1_abort,
	.kick = http1_kick,
	.cut = http1_cut,
	.drain = http1_drain,
	.gone = http1_gone,
};
