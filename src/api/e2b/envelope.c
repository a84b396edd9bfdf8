/* SPDX-License-Identifier: Apache-2.0 */
/*
 * envelope.c - messages of streams: a byte of flags, four bytes of length, then JSON
 *
 * This is the Connect protocol with its JSON codec. The last message of a response has
 * the flag 2, and holds the error, if any.
 */
#include <errno.h>
#include <string.h>

#include "api/e2b/internal.h"
#include "api/validate.h"

void envelope_put(struct buf *out, unsigned flags, const char *data, size_t size)
{
	const unsigned char head[ENVELOPE_HEAD] = {
		(unsigned char)flags,        (unsigned char)(size >> 24),
		(unsigned char)(size >> 16), (unsigned char)(size >> 8),
		(unsigned char)size,
	};

	buf_add(out, (const char *)head, sizeof(head));
	buf_add(out, data, size);
}

static size_t envelope_length(const struct envelope_reader *r)
{
	return (size_t)r->head[1] << 24 | (size_t)r->head[2] << 16 |
	       (size_t)r->head[3] << 8 | r->head[4];
}

int envelope_take(struct envelope_reader *r, const char **data, size_t *n)
{
	size_t length, part;

	while (*n > 0 && r->n_head < ENVELOPE_HEAD) {
		r->head[r->n_head++] = (unsigned char)**data;
		(*data)++;
		(*n)--;
	}
	if (r->n_head < ENVELOPE_HEAD)
		return 0;
	length = envelope_length(r);
	if (r->head[0] != 0 || length > ENVELOPE_MAX)
		return -EBADMSG;
	part = length - r->body.len < *n ? length - r->body.len : *n;
	r->body.max = ENVELOPE_MAX + 1;
	buf_add(&r->body, *data, part);
	*data += part;
	*n -= part;
	if (r->body.failed)
		return -EBADMSG;
	return r->body.len == length;
}

void envelope_next(struct envelope_reader *r)
{
	buf_done(&r->body);
	*r = (struct envelope_reader){ 0 };
}

json_t *envelope_parse(const struct api_schema *schema, const char *data, size_t n,
		       struct api_error *err)
{
	const struct api_op op = { .body = API_BODY_JSON,
				   .schema = schema,
				   .nulls = true };
	struct body body = { 0 };

	if (body_read(&op, n > 0 ? data : "{}", n > 0 ? n : 2, &body, err) < 0)
		return NULL;
	return body.json;
}

void envelope_begin(struct call *c)
{
	const struct http_header headers[] = {
		{ "X-Request-Id", http_request_id(c->req) },
		{ "Content-Type", E2B_STREAM_TYPE },
	};

	if (c->answered)
		return;
	c->answered = true;
	(void)http_begin_response(c->req, 200, headers, ARRAY_SIZE(headers), -1);
}

static void envelope_on_body(struct http_request *req, const char *data, size_t n)
{
	struct call *c = req->user;
	const struct e2b_op *op = (const struct e2b_op *)c->route.op;
	struct envelope_reader r = { 0 };
	struct api_error err = { 0 };
	json_t *json = NULL;

	int whole = envelope_take(&r, &data, &n);

	if (whole == 1 && n > 0)
		(void)api_error_set(&err, API_ERR_INVALID_REQUEST,
				    "the body has more than one message");
	else if (whole == 1)
		json = envelope_parse(op->op.schema, r.body.data, r.body.len, &err);
	else
		(void)api_error_set(&err, API_ERR_INVALID_REQUEST,
				    "the body is not one message of a stream: five bytes "
				    "of flags and length, and uncompressed JSON");
	envelope_next(&r);
	if (!json) {
		call_error(c, &err);
		return;
	}
	c->body = (struct body){ .schema = op->op.schema, .json = json, .owned = true };
	c->handler(c);
}

void envelope_read(struct call *c)
{
	if (!c->req->has_body) {
		call_refuse(c, API_ERR_INVALID_REQUEST, "the request has no message");
		return;
	}
	http_collect(c->req, ENVELOPE_MAX + ENVELOPE_HEAD, envelope_on_body);
}
