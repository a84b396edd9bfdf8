/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_json.c - an answer with the output of a command, encoded as the client reads it
 */
#include "api/v1/output_json.h"

#include <errno.h>
#include <string.h>

#include "base/utf8.h"
#include "net/loop.h"

#define PIECES_A_TURN 16          /* or */
#define BYTES_A_TURN  (64U << 10) /* bytes of JSON to write in one turn */
/* Maximum size of a piece as JSON; at most 64 kB are read at once. */
#define PIECE_MAX (8U << 20)

/* Write bytes of a string, without its quotes. */
static void output_json_put_bytes(struct buf *out, const char *data, size_t n,
				  bool base64)
{
	AUTO_BUF struct buf quoted = BUF_INIT(PIECE_MAX);

	if (n == 0)
		return;
	bytes_to_json(&quoted, data, n, base64);
	out->failed = out->failed || quoted.failed;
	if (!quoted.failed)
		buf_add(out, quoted.data + 1, quoted.len - 2);
}

/* A piece ends after a complete character, or after three bytes in base64. */
static void output_json_put_piece(struct pieces *p, struct buf *out, const char *data,
				  size_t n)
{
	char joined[sizeof(p->kept) + 4];
	size_t cut;

	/*
	 * A few bytes of this piece complete the kept character; the rest is handled
	 * separately.
	 */
	while (p->n_kept > 0 && n > 0) {
		(void)memcpy(joined, p->kept, p->n_kept);
		joined[p->n_kept++] = *data++;
		n--;
		cut = p->base64 ? p->n_kept % 3 : utf8_cut(joined, p->n_kept);
		if (cut < p->n_kept)
			output_json_put_bytes(out, joined, p->n_kept - cut, p->base64);
		(void)memcpy(p->kept, joined + p->n_kept - cut, cut);
		p->n_kept = cut;
	}
	if (n == 0)
		return;
	cut = p->base64 ? n % 3 : utf8_cut(data, n);
	output_json_put_bytes(out, data, n - cut, p->base64);
	(void)memcpy(p->kept, data + n - cut, cut);
	p->n_kept = cut;
}

/* Write the next part of the answer. Return 1 if there is more, 0 at the end, or
 * -errno. */
static int output_json_put_next(struct pieces *p, struct buf *out)
{
	static const char *const names[] = { ",\"stdout\":\"", ",\"stderr\":\"" };
	const char *data = NULL;
	size_t n = 0;
	int r;

	if (p->stream == 2) {
		p->tail(p, out);
		buf_puts(out, "}");
		return 0;
	}
	if (!p->opened)
		buf_puts(out, names[p->stream]);
	p->opened = true;
	r = p->next(p, p->stream, &data, &n);
	if (r < 0)
		return r;
	output_json_put_piece(p, out, data, n);
	if (r == 1)
		return 1;
	output_json_put_bytes(out, p->kept, p->n_kept, p->base64);
	p->n_kept = 0;
	buf_puts(out, "\"");
	p->opened = false;
	p->stream++;
	return 1;
}

static void output_json_wait_turn(struct pieces *p)
{
	loop_later(service_loop(p->call->v1->service), &p->turn);
}

static void output_json_go_on(struct pieces *p)
{
	struct http_request *req = p->call->req;

	size_t bytes = 0;

	for (int i = 0; i < PIECES_A_TURN && bytes < BYTES_A_TURN && !p->blocked; i++) {
		AUTO_BUF struct buf out = BUF_INIT(PIECE_MAX);
		int r = output_json_put_next(p, &out);

		if (r == -EINPROGRESS)
			break;
		bytes += out.len;
		if (r < 0 || out.failed) {
			/* An incomplete answer must not look complete. */
			http_abort(req);
			return;
		}
		p->blocked = http_write(req, out.data, out.len) != 0;
		if (r == 0) {
			p->blocked = false;
			(void)http_end(req);
			return;
		}
	}
	if (!p->blocked)
		output_json_wait_turn(p);
}

static void output_json_on_turn(void *ctx)
{
	output_json_go_on(ctx);
}

static void output_json_on_drained(struct http_request *req)
{
	struct pieces *p = ((struct call *)req->user)->state;

	if (!p || !p->blocked)
		return;
	p->blocked = false;
	output_json_wait_turn(p);
}

static void answer_in_pieces(struct pieces *p, const struct buf *head)
{
	struct call *c = p->call;

	if (head->failed) {
		call_refuse(c, API_ERR_OVERLOADED, "not enough memory for the answer");
		return;
	}
	p->turn = (struct loop_task){ .fn = output_json_on_turn, .ctx = p };
	c->req->drained = output_json_on_drained;
	call_begin_json(c, 200);
	p->blocked = http_write(c->req, head->data, head->len) != 0;
	if (!p->blocked)
		output_json_wait_turn(p);
}

static void answer_at_once(struct pieces *p, struct buf *out)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	do
		r = output_json_put_next(p, out);
	while (r == 1);
	if (r == 0) {
		call_json(p->call, 200, out);
		return;
	}
	/* The stream has little output, and it is far into the journal. */
	if (r == -EINPROGRESS) {
		answer_in_pieces(p, out);
		return;
	}
	(void)error_errno(&err, -r, "read the output");
	call_fail(p->call, &err);
}

void pieces_answer(struct pieces *p, struct buf *head, uint64_t size)
{
	if (size <= PIECES_SMALL)
		answer_at_once(p, head);
	else
		answer_in_pieces(p, head);
}

void pieces_done(struct pieces *p)
{
	loop_task_cancel(&p->turn);
}
