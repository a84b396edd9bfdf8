/* SPDX-License-Identifier: Apache-2.0 */
/* stdin.c - handler: pass a body on to an exec's stdin as it arrives */
#include <errno.h>

#include "api/v1/v1.h"
#include "base/json.h"

struct writing {
	struct call *call;
	struct exec *exec;
	uint64_t written;
	size_t piece; /* bytes that are being written to the pipe */
	bool ended;   /* the body has ended */
};

static void writing_gone(struct call *c)
{
	struct writing *w = c->state;

	c->state = NULL;
	if (!w)
		return;
	(void)exec_unref(w->exec);
	free(w);
}

static void stdin_answer(struct call *c, uint64_t written)
{
	AUTO_BUF struct buf out = BUF_INIT(256);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	json_u64(&j, "written", written);
	json_close(&j, '}');
	call_json(c, 200, &out);
}

static void stdin_on_fed(void *ctx, int r, const struct warren_error *why)
{
	struct call *c = ctx;
	struct writing *w = c->state;
	struct api_error err = { 0 };

	if (c->req && w && r < 0) {
		(void)api_error_set(&err, API_ERR_STDIN_CLOSED, "%s", why->msg);
		api_error_number(&err, "written", w->written);
		call_error(c, &err);
	} else if (c->req && w) {
		w->written += w->piece;
		w->piece = 0;
		if (w->ended)
			stdin_answer(c, w->written);
		else
			http_resume(c->req);
	}
	call_unref(c);
}

static void stdin_on_piece(struct http_request *req, const char *data, size_t n)
{
	struct call *c = req->user;
	struct writing *w = c->state;
	bool end = n == 0 && c->query.v[V1_WRITE_STDIN_QUERY_CLOSE].number;

	if (!w || c->answered)
		return;
	w->ended = n == 0;
	w->piece = n;
	if (n == 0 && !end) {
		stdin_answer(c, w->written);
		return;
	}
	if (n > 0)
		http_pause(req);
	exec_feed(w->exec, data, n, end, stdin_on_fed, call_ref(c));
}

void v1_write_stdin(struct call *c)
{
	struct exec *exec = call_exec(c);
	struct writing *w = exec ? calloc(1, sizeof(*w)) : NULL;

	if (!exec)
		return;
	if (!w) {
		(void)exec_unref(exec);
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	*w = (struct writing){ .call = c, .exec = exec };
	c->state = w;
	c->gone = writing_gone;
	http_stream(c->req, stdin_on_piece);
}
