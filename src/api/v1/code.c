/* SPDX-License-Identifier: Apache-2.0 */
/* code.c - handlers: run code and answer with its result, or with a stream of events */
#include <errno.h>
#include <string.h>

#include "api/v1/code.h"

/* Maximum number of bytes that are encoded in one turn. */
#define CODE_SMALL         (64U << 10)
#define CODE_SLICES_A_TURN 2
#define CODE_ANSWER_MAX    (8U << 20) /* maximum size of a small answer, as JSON */

static void code_call_gone(struct call *c)
{
	struct code_call *k = c->state;

	c->state = NULL;
	if (!k)
		return;
	loop_task_cancel(&k->turn);
	k->timer = loop_timer_free(k->timer);
	k->run = code_cancel(k->run);
	code_wanted_done(&k->wanted);
	free(k);
}

/* ------------------------------------------------------------------- answers */

void code_call_send(struct code_call *k)
{
	struct http_request *req = k->call->req;

	for (int i = 0; i < CODE_SLICES_A_TURN && !k->blocked; i++) {
		AUTO_BUF struct buf out = BUF_INIT(CODE_ANSWER_MAX);
		int r = code_answer_next(&k->answer, &out);

		if (r == 0 && k->stream)
			buf_puts(&out, k->sse ? "}\n\n" : "}\n");
		if (out.failed) {
			/* An incomplete answer must not look complete. */
			http_abort(req);
			return;
		}
		k->blocked = out.len > 0 && http_write(req, out.data, out.len) != 0;
		if (r == 0) {
			k->blocked = false;
			(void)http_end(req);
			return;
		}
	}
	if (!k->blocked)
		loop_later(service_loop(k->call->v1->service), &k->turn);
}

static void code_call_start(struct code_call *k);

static void code_call_on_turn(void *ctx)
{
	struct code_call *k = ctx;

	if (k->decoding)
		code_call_start(k);
	else if (k->broken)
		http_abort(k->call->req);
	else
		code_call_send(k);
}

static void code_call_on_drained(struct http_request *req)
{
	struct code_call *k = ((struct call *)req->user)->state;

	if (!k || !k->blocked)
		return;
	k->blocked = false;
	if (k->answering)
		loop_later(service_loop(k->call->v1->service), &k->turn);
	else
		code_go_on(k->run);
}

static void code_call_answer(struct code_call *k)
{
	AUTO_BUF struct buf out = BUF_INIT(CODE_ANSWER_MAX);

	if (code_answer_size(&k->answer) > CODE_SMALL) {
		call_begin_json(k->call, 200);
		code_call_send(k);
		return;
	}
	while (code_answer_next(&k->answer, &out) == 1)
		;
	call_json(k->call, 200, &out);
}

static void code_call_done(void *ctx, const struct code_result *result,
			   const struct warren_error *err)
{
	struct code_call *k = ctx;
	struct api_error refusal = { 0 };

	k->answering = true;
	k->answer = (struct code_answer){ .result = result, .no_output = k->stream };
	if (k->stream && k->begun) {
		code_stream_done(k, result, err);
	} else if (!result) {
		if (err->msg[0] == '/') {
			api_code_failed(&refusal, err);
			call_error(k->call, &refusal);
		} else {
			call_fail(k->call, err);
		}
	} else if (k->stream) {
		code_stream_started(k);
		code_stream_done(k, result, NULL);
	} else {
		code_call_answer(k);
	}
}

/*
 * A run ends with the service, and the client may repeat it. A run that waits for its
 * quota is not started any more.
 */
static void code_call_stop(struct call *c, bool last)
{
	struct code_call *k = c->state;
	struct warren_error err = WARREN_ERROR_INIT;

	if (!k || k->answering || (!last && !code_waits(k->run)))
		return;
	if (k->decoding)
		loop_task_cancel(&k->turn);
	k->run = code_cancel(k->run);
	(void)error_set(&err, ESHUTDOWN, "the service is stopping: run the code again");
	code_call_done(k, NULL, &err);
}

/* ----------------------------------------------------------------- handlers */

/* The token must be allowed to create a sandbox, because one is created for the run. */
static bool code_may_run(struct call *c)
{
	struct api_error err = { 0 };

	if (access_may(&c->caller, "write"))
		return true;
	(void)api_error_set(&err, API_ERR_FORBIDDEN,
			    "code runs in a new sandbox, and the token lacks the "
			    "scope 'write'");
	api_error_text(&err, "scope", "write");
	call_error(c, &err);
	return false;
}

/* Decode the request in slices, then start the run. */
static void code_call_start(struct code_call *k)
{
	struct call *c = k->call;
	struct body limits = body_object(&c->body, "limits");
	const struct code_client where = {
		.service = c->v1->service,
		.config = c->v1->config,
		.policy = c->v1->policy,
		.caller = &c->caller,
		.backend = body_text(&c->body, "backend"),
		.tier = body_text(&c->body, "tier"),
		.cpu_millis = (uint64_t)body_int(&limits, "cpu_millis"),
	};
	const struct code_callbacks on = {
		.started = k->stream ? code_stream_started : NULL,
		.output = k->stream ? code_stream_output : NULL,
		.done = code_call_done,
	};
	struct api_error refusal = { 0 };

	k->decoding = code_wanted_decode(&k->wanted);
	if (k->decoding)
		loop_later(service_loop(c->v1->service), &k->turn);
	else if (api_code_begin(&where, &k->wanted.request, &on, k, &k->run, &refusal) <
		 0)
		call_error(c, &refusal);
}

static void code_call_begin(struct call *c, bool stream, bool sse)
{
	struct api_error refusal = { 0 };
	struct code_call *k;

	if (!code_may_run(c))
		return;
	k = calloc(1, sizeof(*k));
	if (!k) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	k->call = c;
	k->stream = stream;
	k->sse = sse;
	k->turn = (struct loop_task){ .fn = code_call_on_turn, .ctx = k };
	c->state = k;
	c->gone = code_call_gone;
	c->stop = code_call_stop;
	c->req->drained = code_call_on_drained;
	if (code_wanted_read(&c->body, &k->wanted, &refusal) < 0)
		call_error(c, &refusal);
	else
		code_call_start(k);
}

void v1_run_code(struct call *c)
{
	code_call_begin(c, false, false);
}

void v1_stream_code(struct call *c)
{
	code_call_begin(c, true,
			c->query.v[V1_STREAM_CODE_QUERY_FORMAT].number ==
				V1_STREAM_CODE_FORMAT_IS_SSE);
}
