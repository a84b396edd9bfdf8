/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_answer.c - send responses: what HTTP/1 and HTTP/2 have in common
 *
 * The length of a response is decided when its head is written, and does not change.
 * Bytes beyond the announced length are never sent; if bytes are missing, the response is
 * aborted.
 */
#include <errno.h>
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

bool http_wants_retry(int status, const struct http_header *headers, size_t n)
{
	if (status != 429 && status != 503)
		return false;
	for (size_t i = 0; i < n; i++)
		if (strcasecmp(headers[i].name, "retry-after") == 0)
			return false;
	return true;
}

static const struct http_protocol *http_answer_protocol(const struct request *r)
{
	return r->conn->protocol;
}

static bool http_answer_headers_ok(const struct http_header *headers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!header_ok(&headers[i]))
			return false;
	return true;
}

/* Add the headers of http_add_header(). False: there are too many. */
static bool http_answer_add_headers(const struct request *r,
				    const struct http_header **headers, size_t *n)
{
	static struct http_header all[HTTP_FIELDS_MAX + HTTP_ADDED_MAX];

	if (r->n_added == 0)
		return true;
	if (*n > HTTP_FIELDS_MAX)
		return false;
	if (*n > 0)
		(void)memcpy(all, *headers, *n * sizeof(*all));
	(void)memcpy(all + *n, r->added, r->n_added * sizeof(*all));
	*headers = all;
	*n += r->n_added;
	return true;
}

/*
 * Send the head of a response, and the first @n bytes of its body. Return -EINVAL if this
 * failed; the failure has been handled.
 */
static int http_answer_begin(struct request *r, int status,
			     const struct http_header *headers, size_t n_headers,
			     int64_t length, bool ours, const void *body, size_t n)
{
	int result = -EMSGSIZE;

	if (r->begun || status < 200 || status > 599)
		return -EINVAL;
	r->begun = true;
	r->status = status;
	r->bodiless = status == 204 || status == 304 || r->head_method;
	r->sized = length >= 0;
	r->left = length >= 0 ? (uint64_t)length : 0;
	if (http_answer_add_headers(r, &headers, &n_headers) &&
	    http_answer_headers_ok(headers, n_headers))
		result = http_answer_protocol(r)->head(r, headers, n_headers, length,
						       ours, body, r->bodiless ? 0 : n);
	if (result == -EMSGSIZE) {
		r->begun = false;
		r->n_added = 0;
		(void)http_refuse(&r->pub, 500, "internal",
				  "the answer cannot be written");
		return -EINVAL;
	}
	return result;
}

/* The response is complete. */
static int http_answer_end(struct request *r, int result)
{
	int ended = http_answer_protocol(r)->end(r);

	r->ended = true;
	http_answer_protocol(r)->kick(r);
	return result < 0 ? result : ended < 0 ? ended : 0;
}

bool http_add_header(struct http_request *req, const char *name, const char *value)
{
	struct request *r = request_of(req);

	if (r->n_added == ARRAY_SIZE(r->added))
		return false;
	r->added[r->n_added++] = (struct http_header){ name, value };
	return true;
}

int http_respond(struct http_request *req, int status, const struct http_header *headers,
		 size_t n_headers, const void *body, size_t n)
{
	struct request *r = request_of(req);
	int result = http_answer_begin(r, status, headers, n_headers, (int64_t)n, true,
				       body, n);

	return result == -EINVAL ? result : http_answer_end(r, result);
}

int http_respond_file(struct http_request *req, int status,
		      const struct http_header *headers, size_t n_headers, int fd,
		      uint64_t offset, uint64_t n)
{
	struct request *r = request_of(req);
	int result = n <= INT64_MAX ? http_answer_begin(r, status, headers, n_headers,
							(int64_t)n, true, NULL, 0)
				    : -EINVAL;

	if (result < 0 || r->bodiless || n == 0)
		(void)close(fd);
	else
		result = http_answer_protocol(r)->write_file(r, fd, offset, n);
	return result == -EINVAL ? result : http_answer_end(r, result);
}

int http_begin_response(struct http_request *req, int status,
			const struct http_header *headers, size_t n_headers,
			int64_t length)
{
	int result = http_answer_begin(request_of(req), status, headers, n_headers,
				       length, false, NULL, 0);

	return result < 0 ? result : 0;
}

int http_write(struct http_request *req, const void *data, size_t n)
{
	struct request *r = request_of(req);
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
	result = http_answer_protocol(r)->write(r, data, n);
	r->waiting = result == 1;
	return result;
}

int http_end(struct http_request *req)
{
	struct request *r = request_of(req);

	if (!r->begun || r->ended)
		return -EINVAL;
	if (r->sized && r->left > 0 && !r->bodiless) {
		http_abort(req);
		return -EMSGSIZE;
	}
	return http_answer_end(r, 0);
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
	struct request *r = request_of(req);

	http_answer_protocol(r)->abort(r);
}

void http_cut(struct http_request *req, int status, const char *why)
{
	struct request *r = request_of(req);

	http_answer_protocol(r)->cut(r, status, why, -ECANCELED);
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

void http_refusal_set_path(struct http_refusal *f, const char *path, size_t n)
{
	size_t len = 0;

	while (len < n && len < sizeof(f->path) - 1 && path[len] > ' ' &&
	       path[len] != '?' && path[len] < 0x7f) {
		f->path[len] = path[len];
		len++;
	}
	f->path[len] = '\0';
}

size_t http_refusal_add_headers(const struct request *r, struct http_header *to)
{
	(void)memcpy(to, r->added, r->n_added * sizeof(*to));
	return r->n_added;
}

struct buf *http_refusal_body(struct http_server *s, struct http_refusal *f)
{
	static char room[REFUSAL_MAX];
	static struct buf body;
	const struct http_options *o = http_server_options(s);

	body = (struct buf)BUF_IN(room);
	f->type = "application/json";
	if (o->refused)
		o->refused(f, &body, o->ctx);
	else
		default_body(f, &body);
	if (body.failed)
		body.len = 0;
	return &body;
}

int http_refuse(struct http_request *req, int status, const char *code,
		const char *message)
{
	struct http_refusal f = { .status = status,
				  .code = code ? code : http_refusal_code(status),
				  .message = message,
				  .request_id = http_request_id(req),
				  .req = req };
	struct buf *body = http_refusal_body(request_of(req)->conn->server, &f);
	const struct http_header headers[] = { { "Content-Type", f.type },
					       { "X-Request-Id", f.request_id } };

	return http_respond(req, f.status, headers, ARRAY_SIZE(headers), body->data,
			    body->len);
}

/* ---------------------------------------------------------------- bodies and upgrades */

static void http_answer_choose(struct request *r, enum sink sink,
			       void (*fn)(struct http_request *req, const char *data,
					  size_t n))
{
	r->sink = (uint8_t)sink;
	r->fn = fn;
	if (r->expects && !r->begun && !r->oversize) {
		r->expects = false;
		http_answer_protocol(r)->go_on(r);
	}
	http_answer_protocol(r)->kick(r);
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

void http_allow_slow_body(struct http_request *req)
{
	request_of(req)->slow_body = true;
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
	http_answer_protocol(r)->kick(r);
}

int http_upgrade(struct http_request *req, const struct http_header *headers,
		 size_t n_headers,
		 void (*fn)(struct http_request *req, const char *data, size_t n))
{
	struct request *r = request_of(req);
	int result = -EMSGSIZE;

	if (r->begun)
		return -EINVAL;
	if (req->has_body)
		result = -EOPNOTSUPP;
	else if (http_answer_headers_ok(headers, n_headers))
		result = http_answer_protocol(r)->upgrade(r, headers, n_headers);
	if (result == -EOPNOTSUPP) {
		(void)http_refuse(
			req, 400, NULL,
			req->major == 1 ? "a connection cannot be taken over like this"
					: "this needs a whole connection: use HTTP/1.1");
		return -EINVAL;
	}
	if (result == -EMSGSIZE) {
		(void)http_refuse(req, 500, NULL, "the answer cannot be written");
		return -EINVAL;
	}
	r->begun = r->upgraded = true;
	r->status = 101;
	http_answer_choose(r, SINK_STREAM, fn);
	return result < 0 ? result : 0;
}
