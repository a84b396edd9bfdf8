/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_answer.c - send answers: heads, chunks, files, refusals, upgrades
 *
 * The framing of an answer is decided when its head is written, from the request and the
 * status, and does not change. Bytes beyond the announced length are never sent; if bytes
 * are missing, the connection is closed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "net/http_internal.h"

#define REFUSAL_MAX (64U << 10)

/* Headers that only this server may set. */
static const char *const own_headers[] = {
	"connection",
	"content-length",
	"date",
	"transfer-encoding",
};

static bool header_ok(const struct http_header *h)
{
	for (size_t i = 0; i < ARRAY_SIZE(own_headers); i++)
		if (strcasecmp(h->name, own_headers[i]) == 0)
			return false;
	return http_is_token(h->name) && http_is_value(h->value);
}

static void http_answer_put_u64(struct buf *b, uint64_t v)
{
	char text[20], *p = text + sizeof(text);

	do
		*--p = (char)('0' + v % 10);
	while (v /= 10);
	buf_add(b, p, (size_t)(text + sizeof(text) - p));
}

#define PUT(b, literal) buf_add(b, literal, sizeof(literal) - 1)

/* Tell the client when to retry a temporary refusal, unless the caller has set it. */
static void put_retry(struct buf *b, int status, const struct http_header *headers,
		      size_t n)
{
	if (status != 429 && status != 503)
		return;
	for (size_t i = 0; i < n; i++)
		if (strcasecmp(headers[i].name, "retry-after") == 0)
			return;
	PUT(b, "Retry-After: 1\r\n");
}

/* Write the status line and headers; put_framing() adds those of the body. */
static int http_answer_put_head(struct buf *b, struct http_server *s, int status,
				const struct http_header *headers, size_t n)
{
	PUT(b, "HTTP/1.1 ");
	http_answer_put_u64(b, (uint64_t)status);
	PUT(b, " ");
	buf_puts(b, http_status_text(status));
	PUT(b, "\r\n");
	buf_puts(b, http_server_date(s));
	for (size_t i = 0; i < n; i++) {
		if (!header_ok(&headers[i]))
			return -EINVAL;
		buf_puts(b, headers[i].name);
		PUT(b, ": ");
		buf_puts(b, headers[i].value);
		PUT(b, "\r\n");
	}
	return b->failed ? -EMSGSIZE : 0;
}

static void put_framing(struct buf *b, struct request *r, int status, int64_t length)
{
	struct http_conn *c = r->conn;
	bool nothing = status == 204 || status == 304;

	r->bodiless = nothing || r->head_method;
	r->sized = length >= 0;
	r->left = length >= 0 ? (uint64_t)length : 0;
	r->chunked = length < 0 && r->pub.minor == 1 && !r->bodiless;
	if (length < 0 && r->pub.minor == 0 && !r->bodiless)
		c->close_after = true;
	if (!http_conn_body_is_cheap(c) || http_server_is_draining(c->server))
		c->close_after = true;
	if (length >= 0 && !nothing) {
		PUT(b, "Content-Length: ");
		http_answer_put_u64(b, (uint64_t)length);
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

/*
 * Write the head of an answer to the scratch buffer. Return NULL if this failed; the
 * failure has been handled. @ours is set if the answer is from Warren; nothing is added
 * to an answer of a proxied server.
 */
static struct buf *http_answer_begin(struct request *r, int status,
				     const struct http_header *headers, size_t n,
				     int64_t length, bool ours)
{
	struct http_conn *c = r->conn;
	struct buf *b;

	if (r->begun || status < 200 || status > 599)
		return NULL;
	b = http_server_scratch(c->server);
	if (http_answer_put_head(b, c->server, status, headers, n) < 0) {
		(void)http_refuse(&r->pub, 500, "internal",
				  "the answer cannot be written");
		return NULL;
	}
	if (ours)
		put_retry(b, status, headers, n);
	r->begun = true;
	r->status = status;
	put_framing(b, r, status, length);
	return b;
}

static int http_answer_end(struct request *r, int result)
{
	r->ended = true;
	http_conn_kick(r->conn);
	return result < 0 ? result : 0;
}

int http_respond(struct http_request *req, int status, const struct http_header *headers,
		 size_t n_headers, const void *body, size_t n)
{
	struct request *r = request_of(req);
	struct buf *b =
		http_answer_begin(r, status, headers, n_headers, (int64_t)n, true);
	struct iovec iov[2];

	if (!b)
		return -EINVAL;
	iov[0] = (struct iovec){ .iov_base = b->data, .iov_len = b->len };
	iov[1] = (struct iovec){ .iov_base = (void *)(uintptr_t)body, .iov_len = n };
	return http_answer_end(
		r, stream_writev(&r->conn->stream, iov, r->bodiless || n == 0 ? 1 : 2));
}

int http_respond_file(struct http_request *req, int status,
		      const struct http_header *headers, size_t n_headers, int fd,
		      uint64_t offset, uint64_t n)
{
	struct request *r = request_of(req);
	struct buf *b = n <= INT64_MAX ? http_answer_begin(r, status, headers, n_headers,
							   (int64_t)n, true)
				       : NULL;
	int result;

	if (!b) {
		(void)close(fd);
		return -EINVAL;
	}
	result = stream_write(&r->conn->stream, b->data, b->len);
	if (result < 0 || r->bodiless || n == 0)
		(void)close(fd);
	else
		result = stream_write_file(&r->conn->stream, fd, offset, n);
	return http_answer_end(r, result);
}

int http_begin_response(struct http_request *req, int status,
			const struct http_header *headers, size_t n_headers,
			int64_t length)
{
	struct request *r = request_of(req);
	struct buf *b = http_answer_begin(r, status, headers, n_headers, length, false);
	int result;

	if (!b)
		return -EINVAL;
	result = stream_write(&r->conn->stream, b->data, b->len);
	return result < 0 ? result : 0;
}

static int write_chunk(struct stream *s, const void *data, size_t n)
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

int http_write(struct http_request *req, const void *data, size_t n)
{
	struct request *r = request_of(req);
	struct stream *s = &r->conn->stream;
	int result;

	if (!r->begun || r->ended)
		return -EINVAL;
	if (r->bodiless || n == 0)
		return 0;
	if (r->sized && n > r->left) {
		http_abort(req);
		return -EMSGSIZE;
	}
	r->left -= r->sized ? n : 0;
	result = r->chunked ? write_chunk(s, data, n) : stream_write(s, data, n);
	r->waiting = result == 1;
	return result;
}

int http_end(struct http_request *req)
{
	struct request *r = request_of(req);
	int result = 0;

	if (!r->begun || r->ended)
		return -EINVAL;
	if (r->sized && r->left > 0 && !r->bodiless) {
		http_abort(req);
		return -EMSGSIZE;
	}
	if (r->chunked)
		result = stream_write(&r->conn->stream, "0\r\n\r\n", 5);
	if (r->upgraded)
		stream_finish(&r->conn->stream);
	return http_answer_end(r, result);
}

void http_known(struct http_request *req, bool known)
{
	http_server_known(request_of(req)->conn, known);
}

int http_owner(struct http_request *req, const char *name)
{
	struct request *r = request_of(req);

	return http_account_own(http_server_accounts(r->conn->server), r, name);
}

bool http_keep(struct http_request *req, size_t n)
{
	struct request *r = request_of(req);

	return http_account_keep(http_server_accounts(r->conn->server), r, n);
}

bool http_response_begun(const struct http_request *req)
{
	return ((const struct request *)req)->begun;
}

int http_status(const struct http_request *req)
{
	return ((const struct request *)req)->status;
}

void http_abort(struct http_request *req)
{
	struct http_conn *c = request_of(req)->conn;

	c->aborted = true;
	http_conn_kick(c);
}

/* ------------------------------------------------------------------ refusals */

static void default_body(const struct http_refusal *f, struct buf *body)
{
	struct json j = { .out = body };

	json_open(&j, NULL, '{');
	json_str(&j, "code", f->code);
	json_str(&j, "message", f->message);
	json_nil(&j, "detail");
	json_str(&j, "request_id", f->request_id);
	json_close(&j, '}');
}

static void put_refusal(struct http_server *s, const struct http_refusal *f,
			struct buf *body)
{
	const struct http_options *o = http_server_options(s);

	if (o->refused)
		o->refused(f, body, o->ctx);
	else
		default_body(f, body);
	if (body->failed)
		body->len = 0;
}

#define JSON_TYPE                                  \
	{                                          \
		"Content-Type", "application/json" \
	}

int http_refuse(struct http_request *req, int status, const char *code,
		const char *message)
{
	struct request *r = request_of(req);
	static char room[REFUSAL_MAX];
	struct buf body = BUF_IN(room);
	struct http_refusal f = { .status = status,
				  .code = code ? code : http_refusal_code(status),
				  .message = message,
				  .request_id = http_request_id(req) };

	const struct http_header headers[] = { JSON_TYPE,
					       { "X-Request-Id", f.request_id } };

	put_refusal(r->conn->server, &f, &body);
	return http_respond(req, status, headers, ARRAY_SIZE(headers), body.data,
			    body.len);
}

void http_conn_refuse(struct http_conn *c, int status, const char *why, int error)
{
	static char room[REFUSAL_MAX];
	struct buf body = BUF_IN(room);
	struct buf *b;
	char id[ID_LEN + 1];
	struct http_refusal f = { .status = status,
				  .code = http_refusal_code(status),
				  .message = why,
				  .request_id = id };

	if (c->req && c->req->begun) {
		http_conn_end(c, error);
		return;
	}
	if (c->req) {
		(void)memcpy(id, http_request_id(&c->req->pub), sizeof(id));
		c->req->status = status;
	} else {
		http_server_id(c->server, id);
		f.peer = &c->peer;
	}
	const struct http_header headers[] = { JSON_TYPE, { "X-Request-Id", id } };

	put_refusal(c->server, &f, &body);
	b = http_server_scratch(c->server);
	(void)http_answer_put_head(b, c->server, status, headers, ARRAY_SIZE(headers));
	put_retry(b, status, headers, ARRAY_SIZE(headers));
	PUT(b, "Content-Length: ");
	http_answer_put_u64(b, body.len);
	PUT(b, "\r\nConnection: close\r\n\r\n");
	if (!c->req || !c->req->head_method)
		buf_add(b, body.data, body.len);
	(void)stream_write(&c->stream, b->data, b->len);
	c->body.done = true;
	c->close_after = true;
	http_conn_close_request(c, error);
	if (!c->stream.is_closed)
		http_conn_linger(c);
}

/* ---------------------------------------------------------------- bodies and upgrades */

static void http_answer_choose(struct request *r, enum sink sink,
			       void (*fn)(struct http_request *req, const char *data,
					  size_t n))
{
	r->sink = (uint8_t)sink;
	r->fn = fn;
	if (r->expects && !r->begun && !r->oversize) {
		static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

		r->expects = false;
		(void)stream_write(&r->conn->stream, go_on, sizeof(go_on) - 1);
	}
	http_conn_kick(r->conn);
}

void http_collect(struct http_request *req, size_t max,
		  void (*fn)(struct http_request *req, const char *body, size_t n))
{
	struct request *r = request_of(req);

	r->collected = (struct buf)BUF_INIT(max);
	r->oversize = req->length > 0 && (uint64_t)req->length > max;
	http_answer_choose(r, SINK_COLLECT, fn);
}

struct buf http_take_body(struct http_request *req)
{
	struct request *r = request_of(req);
	struct buf body = r->collected;

	r->collected = (struct buf)BUF_INIT(0);
	return body;
}

void http_stream(struct http_request *req,
		 void (*fn)(struct http_request *req, const char *data, size_t n))
{
	http_answer_choose(request_of(req), SINK_STREAM, fn);
}

void http_pause(struct http_request *req)
{
	request_of(req)->paused = true;
}

void http_resume(struct http_request *req)
{
	struct request *r = request_of(req);

	if (!r->paused)
		return;
	r->paused = false;
	http_conn_kick(r->conn);
}

int http_upgrade(struct http_request *req, const struct http_header *headers,
		 size_t n_headers,
		 void (*fn)(struct http_request *req, const char *data, size_t n))
{
	struct request *r = request_of(req);
	struct http_conn *c = r->conn;
	struct buf *b = http_server_scratch(c->server);
	int result;

	if (r->begun)
		return -EINVAL;
	if (req->has_body || req->minor == 0) {
		(void)http_refuse(req, 400, NULL,
				  "a connection cannot be taken over like this");
		return -EINVAL;
	}
	if (http_answer_put_head(b, c->server, 101, headers, n_headers) < 0) {
		(void)http_refuse(req, 500, NULL, "the answer cannot be written");
		return -EINVAL;
	}
	PUT(b, "Connection: Upgrade\r\n\r\n");
	r->begun = r->upgraded = true;
	r->status = 101;
	c->close_after = true;
	result = stream_write(&c->stream, b->data, b->len);
	http_answer_choose(r, SINK_STREAM, fn);
	return result < 0 ? result : 0;
}
