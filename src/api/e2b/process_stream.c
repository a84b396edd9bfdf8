/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_stream.c - the events of a command: its start, its output, its end
 *
 * Like output.c of v1, this holds only a position in the journal and one piece of output.
 * The output of a command is held for its first client, which then misses nothing; a slow
 * client slows the command down. If the sandbox ends first, the connection is cut: the
 * SDKs then ask whether the sandbox still exists.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/e2b/internal.h"
#include "base/parse.h"
#include "net/loop.h"
#include "service/exec/exec.h"

#define KEEPALIVE_S     90
#define PIECE_MAX       (32U << 10) /* bytes of output in one event */
#define READ_MAX        65536       /* a record of the journal has at most this size */
#define PIECES_PER_TURN 8
#define LOOK_MS         100

struct process_stream {
	struct call *call;
	struct exec *exec;
	struct waiter watcher, waiter;
	struct exec_holder holder;
	struct loop_timer *timer;
	struct loop_timer *limit; /* of a client that connected; NULL: none */
	struct loop_task turn;
	struct journal_hint hint;
	uint64_t at; /* position in the journal */
	uint64_t keepalive_ms;
	bool bounded;
	bool blocked; /* the client must read before more is sent */
	bool looks;   /* the timer is for another look at the journal */
	bool ended;
};

static void process_stream_gone(struct call *c)
{
	struct process_stream *s = c->state;

	c->state = NULL;
	if (!s)
		return;
	exec_watch_cancel(&s->watcher);
	exec_wait_cancel(&s->waiter);
	exec_hold_cancel(&s->holder);
	s->timer = loop_timer_free(s->timer);
	s->limit = loop_timer_free(s->limit);
	loop_task_cancel(&s->turn);
	(void)exec_unref(s->exec);
	free(s);
}

static void stream_wait_turn(struct process_stream *s)
{
	loop_later(service_loop(s->call->v1->service), &s->turn);
}

static void stream_cut(struct process_stream *s)
{
	s->ended = true;
	http_abort(s->call->req);
}

/* Send a message; afterwards, s->blocked says whether the client must read first. */
static void process_stream_send(struct process_stream *s, unsigned flags,
				const struct buf *json)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);

	envelope_put(&out, flags, json->data, json->len);
	if (json->failed || out.failed)
		stream_cut(s);
	else if (http_write(s->call->req, out.data, out.len) == 1)
		s->blocked = true;
}

static void stream_send_event(struct process_stream *s, const char *event)
{
	AUTO_BUF struct buf json = BUF_INIT(4096);

	buf_printf(&json, "{\"event\":{%s}}", event);
	process_stream_send(s, 0, &json);
}

static void stream_send_output(struct process_stream *s, int stream, const char *data,
			       size_t n)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	struct json j = { .out = &out };
	const char *key = exec_row(s->exec)->pty ? "pty"
			  : stream == 2          ? "stderr"
						 : "stdout";

	json_open(&j, NULL, '{');
	json_open(&j, "event", '{');
	json_open(&j, "data", '{');
	json_base64(&j, key, data, n);
	json_close(&j, '}');
	json_close(&j, '}');
	json_close(&j, '}');
	process_stream_send(s, 0, &out);
}

static const char *signal_text(int sig, char room[48])
{
	static const struct {
		int sig;
		const char *text;
	} names[] = {
		{ 1, "hangup" },
		{ 2, "interrupt" },
		{ 3, "quit" },
		{ 4, "illegal instruction" },
		{ 5, "trace/breakpoint trap" },
		{ 6, "aborted" },
		{ 7, "bus error" },
		{ 8, "floating point exception" },
		{ 9, "killed" },
		{ 10, "user defined signal 1" },
		{ 11, "segmentation fault" },
		{ 12, "user defined signal 2" },
		{ 13, "broken pipe" },
		{ 14, "alarm clock" },
		{ 15, "terminated" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].sig == sig)
			return names[i].text;
	(void)snprintf(room, 48, "signal %d", sig);
	return room;
}

static void stream_send_end(struct process_stream *s, const struct warren_result *result)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };
	char status[96], room[48];

	if (result->signal)
		(void)snprintf(status, sizeof(status), "signal: %s",
			       signal_text(result->signal, room));
	else
		(void)snprintf(status, sizeof(status), "exit status %d",
			       result->exit_code);
	json_open(&j, NULL, '{');
	json_open(&j, "event", '{');
	json_open(&j, "end", '{');
	json_int(&j, "exitCode", result->signal ? -1 : result->exit_code);
	json_bool(&j, "exited", !result->signal);
	json_str(&j, "status", status);
	if (result->signal || result->exit_code)
		json_str(&j, "error", status);
	json_close(&j, '}');
	json_close(&j, '}');
	json_close(&j, '}');
	process_stream_send(s, 0, &out);
}

static void process_stream_finish(struct process_stream *s)
{
	const struct exec_row *row = exec_row(s->exec);
	AUTO_BUF struct buf last = BUF_INIT(256);
	struct call *c = s->call;

	if (s->ended)
		return;
	if (!row->ended || row->lost || exec_lost(s->exec)) {
		stream_cut(s);
		return;
	}
	if (s->bounded && row->result.timed_out) {
		s->ended = true;
		e2b_end_stream(c, "deadline_exceeded",
			       "the command took longer than the time limit of the "
			       "request, and was killed");
		return;
	}
	stream_send_end(s, &row->result);
	if (s->ended)
		return;
	buf_puts(&last, "{}");
	process_stream_send(s, ENVELOPE_LAST, &last);
	s->ended = true;
	(void)http_end(c->req);
}

/* All output so far has been sent. */
static void stream_at_end(struct process_stream *s, bool end)
{
	if (!end) {
		/* Processes that it left may still write, without a notification. */
		if (exec_row(s->exec)->ended) {
			s->looks = true;
			loop_timer_set(s->timer, LOOK_MS);
		}
		return;
	}
	if (exec_row(s->exec)->ended || exec_lost(s->exec))
		process_stream_finish(s);
	else if (!s->waiter.list)
		exec_wait(s->exec, &s->waiter);
}

static void stream_go_on(struct process_stream *s)
{
	static char room[READ_MAX]; /* there is one thread */
	struct warren_error err = WARREN_ERROR_INIT;

	for (int i = 0; i < PIECES_PER_TURN && !s->blocked && !s->ended; i++) {
		struct warren_output o;
		int r = exec_output(s->exec, s->at, &s->hint, room, sizeof(room), &o,
				    &err);

		if (r == -EINPROGRESS)
			break;
		if (r < 0) {
			stream_cut(s);
			return;
		}
		s->at = o.cursor;
		if (o.size == 0) {
			stream_at_end(s, o.end);
			return;
		}
		for (size_t sent = 0; o.stream <= 2 && sent < o.size && !s->ended;
		     sent += PIECE_MAX)
			stream_send_output(s, o.stream, room + sent,
					   o.size - sent < PIECE_MAX ? o.size - sent
								     : PIECE_MAX);
		if (!s->blocked)
			exec_hold_move(&s->holder, s->at);
	}
	if (!s->blocked && !s->ended)
		stream_wait_turn(s);
}

static void process_stream_on_turn(void *ctx)
{
	struct process_stream *s = ctx;

	if (!s->blocked && !s->ended)
		stream_go_on(s);
}

static void process_stream_on_exit(struct waiter *w, void *of UNUSED)
{
	process_stream_finish(w->ctx);
}

static void process_stream_on_more(struct waiter *w, void *of UNUSED)
{
	struct process_stream *s = w->ctx;

	if (!s->blocked && !s->ended)
		stream_wait_turn(s);
}

static void process_stream_on_drained(struct http_request *req)
{
	struct process_stream *s = ((struct call *)req->user)->state;

	if (!s)
		return;
	s->blocked = false;
	exec_hold_move(&s->holder, s->at);
	if (!s->ended)
		stream_wait_turn(s);
}

static void process_stream_on_timer(void *ctx)
{
	struct process_stream *s = ctx;
	bool looks = s->looks;

	s->looks = false;
	loop_timer_set(s->timer, s->keepalive_ms);
	if (s->ended || s->blocked)
		return;
	if (!looks)
		stream_send_event(s, "\"keepalive\":{}");
	if (!s->ended && !s->blocked)
		stream_go_on(s);
}

/* The time of a client that connected to the command is over; the command continues. */
static void process_stream_on_limit(void *ctx)
{
	struct process_stream *s = ctx;

	if (s->ended)
		return;
	s->ended = true;
	e2b_end_stream(s->call, "deadline_exceeded",
		       "the time limit of the request is over; the command continues");
}

/* The service stops: the command continues, and the client can connect to it again. */
static void process_stream_on_stop(struct call *c, bool last UNUSED)
{
	struct process_stream *s = c->state;

	if (s && !s->ended)
		stream_cut(s);
}

uint64_t e2b_keepalive_ms(const struct call *c)
{
	const char *text = http_header(c->req, "Keepalive-Ping-Interval");
	struct warren_error why = WARREN_ERROR_INIT;
	uint64_t seconds = KEEPALIVE_S;

	if (text && (parse_u64(text, 86400, &seconds, &why) < 0 || seconds == 0))
		seconds = KEEPALIVE_S;
	return seconds * 1000;
}

static struct process_stream *process_stream_new(struct call *c,
						 const struct process_stream_options *o)
{
	struct net_loop *loop = service_loop(c->v1->service);
	struct process_stream *s = calloc(1, sizeof(*s));

	if (!s || loop_timer_new(loop, process_stream_on_timer, s, &s->timer) < 0 ||
	    (o->limit_ms &&
	     loop_timer_new(loop, process_stream_on_limit, s, &s->limit) < 0)) {
		if (s)
			s->timer = loop_timer_free(s->timer);
		free(s);
		return NULL;
	}
	s->call = c;
	s->exec = o->exec;
	s->bounded = o->bounded;
	s->keepalive_ms = e2b_keepalive_ms(c);
	s->turn = (struct loop_task){ .fn = process_stream_on_turn, .ctx = s };
	s->watcher = (struct waiter){ .fn = process_stream_on_more, .ctx = s };
	s->waiter = (struct waiter){ .fn = process_stream_on_exit, .ctx = s };
	return s;
}

void process_stream_begin(struct call *c, const struct process_stream_options *o)
{
	struct process_stream *s = process_stream_new(c, o);
	struct warren_error err = WARREN_ERROR_INIT;
	uint64_t first = 0;
	char start[64];

	if (!s) {
		(void)exec_unref(o->exec);
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	c->state = s;
	c->gone = process_stream_gone;
	c->stop = process_stream_on_stop;
	if (!exec_row(s->exec)->ended && exec_watch(s->exec, &s->watcher, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	if (o->from_start)
		exec_hold(s->exec, &s->holder, 0);
	else
		(void)exec_extent(s->exec, &first, &s->at);
	c->req->drained = process_stream_on_drained;
	envelope_begin(c);
	(void)snprintf(start, sizeof(start), "\"start\":{\"pid\":%d}", o->pid);
	stream_send_event(s, start);
	if (s->ended)
		return;
	loop_timer_set(s->timer, s->keepalive_ms);
	if (s->limit)
		loop_timer_set(s->limit, o->limit_ms);
	stream_wait_turn(s);
}
