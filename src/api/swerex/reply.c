/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply.c - a large answer, encoded as the client reads it
 *
 * The output of a program is kept unchanged. As JSON it can be six times as long, and
 * converting much of it takes seconds. So it is decoded, quoted and escaped in slices,
 * with loop_later(), and only as fast as the client reads. The memory of all replies
 * together is limited, and each tenant has a share of it.
 */
#include <stdlib.h>
#include <string.h>

#include "api/swerex/internal.h"
#include "api/swerex/pyrepr.h"
#include "base/utf8.h"

#define SLICE        (4U << 10)   /* bytes that are decoded and escaped at once */
#define SLICE_MAX    (256U << 10) /* maximum size of an encoded slice */
#define BYTES_A_TURN (32U << 10)

struct reply *reply_new(struct swerex *sx)
{
	struct reply *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->sx = sx;
	r->account = &sx->answers;
	r->refs = 1;
	r->json = (struct buf)BUF_INIT(16U << 20);
	for (size_t i = 0; i < ARRAY_SIZE(r->raw); i++)
		r->raw[i] = (struct buf)BUF_INIT(REPLY_RAW_MAX);
	return r;
}

void reply_unref(struct reply *r)
{
	if (!r || --r->refs > 0)
		return;
	fair_quota_end(r->account, &r->lease);
	buf_done(&r->json);
	for (size_t i = 0; i < ARRAY_SIZE(r->raw); i++)
		buf_done(&r->raw[i]);
	free(r);
}

bool reply_charge(struct reply *r, const char *tenant, size_t n)
{
	return n <= REPLY_SMALL ||
	       fair_quota_lease(r->account, tenant, n, &r->lease) == 0;
}

static struct reply_part *add_part(struct reply *r)
{
	if (r->n == REPLY_PARTS) {
		r->json.failed = true;
		return &r->part[REPLY_PARTS - 1];
	}
	return &r->part[r->n++];
}

/* Add a part with the data that was written to @json since the last part. */
static void end_json(struct reply *r)
{
	if (r->json.len > r->json_done)
		*add_part(r) = (struct reply_part){ .form = REPLY_JSON,
						    .from = r->json_done,
						    .size = r->json.len - r->json_done };
	r->json_done = r->json.len;
}

void reply_put(struct reply *r, enum reply_form form, int raw, size_t from, size_t size)
{
	struct reply_part part = { .form = form, .raw = raw, .from = from, .size = size };

	end_json(r);
	if (form == REPLY_REPR) {
		part.quote = python_quote(r->raw[raw].data ? r->raw[raw].data + from : "",
					  size);
		buf_puts(&r->json, part.quote == '"' ? "\\\"" : "'");
		end_json(r);
	}
	*add_part(r) = part;
	if (form == REPLY_REPR)
		buf_puts(&r->json, part.quote == '"' ? "\\\"" : "'");
}

size_t reply_size(const struct reply *r)
{
	size_t n = r ? r->json.len : 0;

	for (size_t i = 0; r && i < ARRAY_SIZE(r->raw); i++)
		n += r->raw[i].len;
	return n;
}

/* ------------------------------------------------------------------ slices of a reply */

/* Write text inside the quotes of a JSON string. */
static void reply_put_escaped(struct buf *out, const struct buf *text)
{
	AUTO_BUF struct buf quoted = BUF_INIT(SLICE_MAX);
	struct json j = { .out = &quoted };

	if (text->len == 0)
		return;
	json_strn(&j, NULL, text->data, text->len);
	if (!quoted.failed)
		buf_add(out, quoted.data + 1, quoted.len - 2);
	out->failed |= quoted.failed || text->failed;
}

/* Write the next slice of a part that contains a program's output. */
static void put_slice(struct reply_reader *rd, const struct reply_part *part,
		      struct buf *out)
{
	const char *data = rd->reply->raw[part->raw].data + part->from + rd->at;
	AUTO_BUF struct buf text = BUF_INIT(SLICE_MAX), repr = BUF_INIT(SLICE_MAX);
	size_t left = part->size - rd->at, n = left < SLICE ? left : SLICE;
	struct warren_error err = WARREN_ERROR_INIT;

	if (part->form == REPLY_FILE) {
		if (rd->at == 0)
			rd->codec = rd->reply->codec;
		if (codec_next(&rd->codec, SLICE, &text, &err) < 0)
			out->failed = true;
		rd->at = rd->codec.at;
		reply_put_escaped(out, &text);
		return;
	}
	/* A slice ends after a complete character. */
	if (n < left)
		n -= utf8_cut(data, n);
	rd->at += n;
	python_decode(&text, data, n);
	if (part->form == REPLY_REPR) {
		python_repr_inside(&repr, text.data ? text.data : "", text.len,
				   part->quote);
		repr.failed |= text.failed;
	}
	reply_put_escaped(out, part->form == REPLY_REPR ? &repr : &text);
}

/* Return whether there is more. */
static bool reply_put_next(struct reply_reader *rd, struct buf *out)
{
	const struct reply *r = rd->reply;
	const struct reply_part *part = &r->part[rd->part];

	if (rd->part == r->n)
		return false;
	if (part->form == REPLY_JSON) {
		size_t left = part->size - rd->at, n = left < SLICE ? left : SLICE;

		buf_add(out, r->json.data + part->from + rd->at, n);
		rd->at += n;
	} else if (rd->at < part->size) {
		put_slice(rd, part, out);
	}
	if (rd->at >= part->size) {
		rd->part++;
		rd->at = 0;
	}
	return rd->part < r->n;
}

bool reply_failed(struct reply *r)
{
	end_json(r);
	return r->json.failed || r->raw[0].failed || r->raw[1].failed;
}

void reply_write(struct reply *r, struct buf *out)
{
	struct reply_reader rd = { .reply = r };

	while (reply_put_next(&rd, out) && !out->failed)
		;
}

/* --------------------------------------------------------------- sending to a client */

static void reader_turn(void *ctx)
{
	struct reply_reader *rd = ctx;
	struct http_request *req = rd->req;
	bool more = true;

	for (size_t bytes = 0; more && bytes < BYTES_A_TURN && !rd->blocked;) {
		AUTO_BUF struct buf out = BUF_INIT((size_t)4 * SLICE_MAX);

		more = reply_put_next(rd, &out);
		bytes += out.len;
		if (out.failed) {
			/* An incomplete answer must not look complete. */
			http_abort(req);
			return;
		}
		rd->blocked = http_write(req, out.data, out.len) != 0;
	}
	if (!more)
		(void)http_end(req);
	else if (!rd->blocked)
		loop_later(service_loop(rd->reply->sx->service), &rd->turn);
}

static void reply_on_drained(struct http_request *req)
{
	struct reply_reader *rd = &((struct ask *)req->user)->reader;

	if (!rd->reply || !rd->blocked)
		return;
	rd->blocked = false;
	loop_later(service_loop(rd->reply->sx->service), &rd->turn);
}

void reply_send(struct ask *ask, struct reply *r)
{
	static const struct http_header headers[] = {
		{ "Content-Type", "application/json" },
		{ "Cache-Control", "no-store" },
	};
	struct reply_reader *rd = &ask->reader;

	if (!ask->req)
		return;
	r->refs++;
	r->readers++;
	*rd = (struct reply_reader){ .reply = r,
				     .req = ask->req,
				     .turn = { .fn = reader_turn, .ctx = rd } };
	ask->req->drained = reply_on_drained;
	if (http_begin_response(ask->req, r->status, headers, ARRAY_SIZE(headers), -1) ==
	    0)
		loop_later(service_loop(r->sx->service), &rd->turn);
}

void reply_left(struct ask *ask)
{
	struct reply *r = ask->reader.reply;

	if (!r)
		return;
	loop_task_cancel(&ask->reader.turn);
	ask->reader.reply = NULL;
	/* Answers that are kept for repeated requests have a separate limit. */
	if (--r->readers == 0)
		fair_quota_end(r->account, &r->lease);
	reply_unref(r);
}
