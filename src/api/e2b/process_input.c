/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_input.c - input for a command over one long request
 *
 * Each message is written to the command before the next is read. The end of the request
 * does not close its stdin. Clients keep such a request open while they have nothing to
 * write, and send a message from time to time. Connect-Timeout-Ms limits its whole time.
 */
#include <errno.h>
#include <string.h>

#include "api/e2b/internal.h"
#include "base/base64.h"
#include "net/loop.h"
#include "service/exec/exec.h"

struct input_stream {
	struct envelope_reader reader;
	struct exec *exec;        /* NULL: the first message has not arrived */
	int pid;                  /* of that command */
	struct loop_timer *timer; /* the end of the request; NULL: it has no limit */
	bool ended;
	bool feeding;
	char *held; /* bytes that arrived together with the message that is being written
		     */
	size_t n_held;
};

static void input_gone(struct call *c)
{
	struct input_stream *s = c->state;

	c->state = NULL;
	if (!s)
		return;
	envelope_next(&s->reader);
	(void)exec_unref(s->exec);
	(void)loop_timer_free(s->timer);
	free(s->held);
	free(s);
}

/* The request has ended. */
static void input_finish(struct call *c)
{
	const struct input_stream *s = c->state;
	AUTO_BUF struct buf out = BUF_INIT(64);

	if (s->reader.n_head > 0) {
		e2b_refuse_rpc(c, "invalid_argument",
			       "the request ended within a message");
		return;
	}
	if (!s->exec) {
		e2b_refuse_rpc(c, "invalid_argument",
			       "the first message must be 'start'");
		return;
	}
	envelope_put(&out, 0, "{}", 2);
	envelope_put(&out, ENVELOPE_LAST, "{}", 2);
	envelope_begin(c);
	(void)http_write(c->req, out.data, out.len);
	(void)http_end(c->req);
}

static void input_take(struct call *c, const char *data, size_t n);

static void input_on_fed(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;
	struct input_stream *s = c->state;
	char *held;
	size_t n;

	if (c->req && s && !c->answered) {
		s->feeding = false;
		held = TAKE_PTR(s->held);
		n = s->n_held;
		s->n_held = 0;
		if (r == -ENOBUFS) {
			e2b_refuse_rpc(c, "resource_exhausted", "%s", err->msg);
		} else if (r < 0) {
			process_refuse_input(c, s->exec, s->pid);
		} else {
			input_take(c, held ? held : "", n);
			if (!c->answered && !s->feeding && s->ended)
				input_finish(c);
			else if (!c->answered && !s->feeding)
				http_resume(c->req);
		}
		free(held);
	}
	call_unref(c);
}

/* Handle one message; false: the call was refused. */
static bool input_message(struct call *c, json_t *json)
{
	struct input_stream *s = c->state;
	struct body body = { .schema = c->route.op->schema, .json = json };
	struct body start = body_object(&body, "start"),
		    data = body_object(&body, "data");
	size_t n = 0;
	char *bytes;

	if (!s->exec) {
		s->exec = start.json ? process_find_running(c, &start, &s->pid) : NULL;
		if (!start.json)
			e2b_refuse_rpc(c, "invalid_argument",
				       "the first message must be 'start'");
		return s->exec != NULL;
	}
	if (!data.json)
		return true;
	bytes = process_input(c, &data, exec_row(s->exec)->pty, &n);
	if (!bytes)
		return false;
	s->feeding = true;
	exec_feed_shared(s->exec, bytes, n, input_on_fed, call_ref(c));
	free(bytes);
	return true;
}

static void input_take(struct call *c, const char *data, size_t n)
{
	struct input_stream *s = c->state;
	struct api_error err = { 0 };
	bool more = true;

	while (more && n > 0 && !s->feeding) {
		int r = envelope_take(&s->reader, &data, &n);
		json_t *json = NULL;

		if (r == 0)
			return;
		if (r == 1)
			json = envelope_parse(c->route.op->schema, s->reader.body.data,
					      s->reader.body.len, &err);
		else
			(void)api_error_set(&err, API_ERR_INVALID_REQUEST,
					    "a message is not valid");
		envelope_next(&s->reader);
		more = json && input_message(c, json);
		if (!json)
			call_error(c, &err);
		json_decref(json);
	}
	if (!more || n == 0)
		return;
	s->held = malloc(n);
	if (!s->held) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	(void)memcpy(s->held, data, n);
	s->n_held = n;
}

static void input_on_piece(struct http_request *req, const char *data, size_t n)
{
	struct call *c = req->user;
	struct input_stream *s = c->state;

	if (!s || c->answered)
		return;
	if (n == 0) {
		s->ended = true;
		if (!s->feeding)
			input_finish(c);
		return;
	}
	input_take(c, data, n);
	if (!c->answered && s->feeding)
		http_pause(req);
}

static void input_on_timer(void *ctx)
{
	struct call *c = ctx;

	if (!c->answered)
		e2b_refuse_rpc(c, "deadline_exceeded", "the request took too long");
}

void e2b_process_stream_input(struct call *c)
{
	struct input_stream *s = calloc(1, sizeof(*s));
	uint64_t ms = e2b_timeout_ms(c);

	if (!s || (ms && loop_timer_new(service_loop(c->v1->service), input_on_timer, c,
					&s->timer) < 0)) {
		free(s);
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	c->state = s;
	c->gone = input_gone;
	if (s->timer)
		loop_timer_set(s->timer, ms);
	http_allow_slow_body(c->req);
	if (c->req->has_body)
		http_stream(c->req, input_on_piece);
	else
		input_finish(c);
}
