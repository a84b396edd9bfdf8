/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.c - handler: stream the output of an exec from a cursor
 *
 * The position of a reader is a cursor in the journal; only one piece of output is in
 * memory. While the client does not read, the handler does not read from the journal.
 * Output that the journal drops in the meantime is reported as a gap, unless the reader
 * holds the output.
 *
 * The format is NDJSON, SSE or bytes. If the client requests a WebSocket, events are text
 * messages, and bytes are binary messages.
 */
#include <errno.h>
#include <string.h>

#include "api/v1/v1.h"
#include "base/json.h"
#include "base/utf8.h"
#include "net/loop.h"
#include "net/ws.h"

#define HEARTBEAT_MS 15000
#define LOOK_MS      100
#define LOOKS_A_BEAT (HEARTBEAT_MS / LOOK_MS)
#define PIECES_MAX   16          /* pieces in one turn */
#define BYTES_MAX    (64U << 10) /* bytes in one turn */

struct tail {
	struct call *call;
	struct ws *ws; /* NULL: none */
	struct exec *exec;
	struct waiter watcher;
	struct exec_holder holder;
	/* Waits for the end of the exec, if its output ended first. */
	struct waiter waiter;
	struct loop_timer *timer; /* for heartbeats */
	struct loop_task
		turn; /* there is more output, but others have their turn first */
	struct journal_hint hint;
	uint64_t at;     /* position in the journal that was read */
	uint64_t cursor; /* position up to which output was sent, where the next piece
			    begins */
	uint64_t first;  /* position at which the stream began */
	uint64_t left;   /* remaining part of max_bytes */
	int only;        /* the only stream to send; 0: all */
	enum {
		AS_NDJSON,
		AS_SSE,
		AS_RAW
	} form;
	bool base64, follow, bounded;
	bool blocked; /* the client must read before more is sent */
	bool again; /* the timer is for another check of the journal, not for a heartbeat
		     */
	bool ended;
	bool broken; /* an event could not be written */
	unsigned looks;
	/* The beginning of a character whose other bytes have not arrived yet. */
	char kept[4];
	size_t n_kept;
	int kept_stream;
};

static void tail_gone(struct call *c)
{
	struct tail *t = c->state;

	c->state = NULL;
	if (!t)
		return;
	exec_watch_cancel(&t->watcher);
	exec_wait_cancel(&t->waiter);
	exec_hold_cancel(&t->holder);
	t->timer = loop_timer_free(t->timer);
	loop_task_cancel(&t->turn);
	(void)exec_unref(t->exec);
	free(t);
}

/* Continue in the next turn of this stream. */
static void output_wait_turn(struct tail *t)
{
	loop_later(service_loop(t->call->v1->service), &t->turn);
}

/* Return 0 to continue, or 1 if the client must read the event first. */
static int output_put_event(struct tail *t, const struct buf *json)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);

	t->broken = t->broken || json->failed;
	if (t->broken)
		return 0;
	if (t->ws)
		return ws_send(t->ws, true, json->data, json->len);
	if (t->form == AS_SSE) {
		buf_printf(&out, "id: %ju\ndata: ", (uintmax_t)t->cursor);
		buf_add(&out, json->data, json->len);
		buf_puts(&out, "\n\n");
	} else {
		buf_add(&out, json->data, json->len);
		buf_puts(&out, "\n");
	}
	t->broken = out.failed;
	return t->broken ? 0 : http_write(t->call->req, out.data, out.len);
}

static int output_put_gap(struct tail *t, uint64_t lost)
{
	AUTO_BUF struct buf json = BUF_INIT(256);
	struct json j = { .out = &json };

	if (t->form == AS_RAW)
		return 0;
	json_open(&j, NULL, '{');
	json_str(&j, "type", "gap");
	json_u64(&j, "cursor", t->cursor);
	json_u64(&j, "lost", lost);
	json_close(&j, '}');
	return output_put_event(t, &json);
}

static int output_put_piece(struct tail *t, int stream, const char *data, size_t n)
{
	AUTO_BUF struct buf json = BUF_INIT(1U << 20);
	struct json j = { .out = &json };

	if (t->form == AS_RAW)
		return t->ws ? ws_send(t->ws, false, data, n)
			     : http_write(t->call->req, data, n);
	json_open(&j, NULL, '{');
	json_str(&j, "type", "output");
	json_u64(&j, "cursor", t->cursor);
	json_str(&j, "stream", stream == 2 ? "stderr" : "stdout");
	json_raw(&j, "data", "", 0);
	bytes_to_json(&json, data, n, t->base64);
	json_close(&j, '}');
	return output_put_event(t, &json);
}

/* The stream cannot continue, and must not look complete. */
static void break_off(struct tail *t)
{
	t->ended = true;
	if (t->ws)
		ws_close(t->ws, 1011, "the output cannot be read");
	else
		http_abort(t->call->req);
}

static void output_finish(struct tail *t)
{
	AUTO_BUF struct buf json = BUF_INIT(4096);
	struct json j = { .out = &json };

	if (t->ended)
		return;
	t->ended = true;
	if (t->form != AS_RAW && exec_row(t->exec)->ended && t->follow) {
		json_open(&j, NULL, '{');
		json_str(&j, "type", "exit");
		json_u64(&j, "cursor", t->cursor);
		json_raw(&j, "result", "", 0);
		result_to_json(&json, &exec_row(t->exec)->result);
		json_close(&j, '}');
		(void)output_put_event(t, &json);
	}
	if (t->broken)
		break_off(t);
	else if (t->ws)
		ws_close(t->ws, 1000, NULL);
	else
		(void)http_end(t->call->req);
}

/* Write the kept bytes of a character that remains incomplete. */
static int output_put_kept(struct tail *t)
{
	size_t n = t->n_kept;

	t->n_kept = 0;
	t->cursor += n;
	return n > 0 ? output_put_piece(t, t->kept_stream, t->kept, n) : 0;
}

/* @data has space for the kept bytes in front of it. */
static int output_put(struct tail *t, const struct warren_output *o, char *data)
{
	size_t n = o->size, cut;
	int r = 0;

	t->at = o->cursor;
	if (t->n_kept > 0 && (o->lost > 0 || o->stream != t->kept_stream))
		r |= output_put_kept(t);
	if (o->lost > 0) {
		t->cursor = o->cursor - o->size;
		r |= output_put_gap(t, o->lost);
	}
	if (o->stream == 3 || (t->only && t->only != o->stream)) {
		t->cursor = t->at;
		return r;
	}
	if (t->bounded && n > t->left) {
		t->at -= n - t->left;
		n = (size_t)t->left;
	}
	t->left -= t->bounded ? n : 0;
	data -= t->n_kept;
	n += t->n_kept;
	(void)memcpy(data, t->kept, t->n_kept);
	/* A piece ends after a complete character. */
	cut = t->form == AS_RAW || t->base64 ? 0 : utf8_cut(data, n);
	t->n_kept = cut;
	t->kept_stream = o->stream;
	(void)memcpy(t->kept, data + n - cut, cut);
	t->cursor = t->at - cut;
	return n > cut ? r | output_put_piece(t, o->stream, data, n - cut) : r;
}

/* All output so far has been read. */
static void output_at_end(struct tail *t, const struct warren_output *o)
{
	if (o->lost > 0) {
		t->at = t->cursor = o->cursor;
		(void)output_put_gap(t, o->lost);
	}
	/* The rest of a character may still arrive. */
	if (o->end) {
		(void)output_put_kept(t);
	} else if (t->follow) {
		/*
		 * No notifications arrive for an exec that has ended, but processes that
		 * it left may still write.
		 */
		if (exec_row(t->exec)->ended) {
			t->again = ++t->looks % LOOKS_A_BEAT != 0;
			loop_timer_set(t->timer, LOOK_MS);
		}
		return;
	}
	/* The end of the output may be seen before the end of the exec is reported. */
	if (!t->follow || exec_row(t->exec)->ended || exec_lost(t->exec))
		output_finish(t);
	else if (!t->waiter.list)
		exec_wait(t->exec, &t->waiter);
}

static void output_go_on(struct tail *t)
{
	static char room[4 + 65536];
	struct warren_error err = WARREN_ERROR_INIT;
	size_t bytes = 0;

	for (int i = 0; i < PIECES_MAX && bytes < BYTES_MAX && !t->blocked && !t->ended;
	     i++) {
		struct warren_output o;
		int r = exec_output(t->exec, t->at, &t->hint, room + 4, sizeof(room) - 4,
				    &o, &err);

		if (r == -EINPROGRESS)
			break;
		if (r < 0) {
			break_off(t);
			return;
		}
		bytes += o.size;
		if (o.size == 0) {
			output_at_end(t, &o);
			return;
		}
		t->blocked = output_put(t, &o, room + 4) != 0;
		if (t->broken) {
			break_off(t);
			return;
		}
		if (!t->blocked)
			exec_hold_move(&t->holder, t->at);
		if (t->bounded && t->left == 0) {
			/*
			 * The piece is too small for one character: split it, or the
			 * client would make no progress.
			 */
			if (t->cursor == t->first)
				(void)output_put_kept(t);
			output_finish(t);
		}
	}
	if (!t->blocked && !t->ended)
		output_wait_turn(t);
}

static void output_on_turn(void *ctx)
{
	struct tail *t = ctx;

	if (!t->blocked && !t->ended)
		output_go_on(t);
}

static void output_on_exit_heard(struct waiter *w, void *of UNUSED)
{
	output_finish(w->ctx);
}

static void output_on_more(struct waiter *w, void *of UNUSED)
{
	struct tail *t = w->ctx;

	if (!t->blocked && !t->ended)
		output_wait_turn(t);
}

static void output_taken(struct tail *t)
{
	t->blocked = false;
	exec_hold_move(&t->holder, t->at);
	if (!t->ended)
		output_wait_turn(t);
}

static void output_on_drained(struct http_request *req)
{
	struct tail *t = ((struct call *)req->user)->state;

	if (t)
		output_taken(t);
}

static void on_ws_drained(struct ws *ws)
{
	output_taken(ws_user(ws));
}

static void on_ws_message(struct ws *ws UNUSED, bool text UNUSED, const char *data UNUSED,
			  size_t n UNUSED)
{
	/* Nothing to do in this case. */
}

static void on_ws_closed(struct ws *ws, unsigned code UNUSED)
{
	struct tail *t = ws_user(ws);

	call_closed(t->call);
}

static void output_on_timer(void *ctx)
{
	struct tail *t = ctx;
	AUTO_BUF struct buf json = BUF_INIT(256);

	loop_timer_set(t->timer, HEARTBEAT_MS);
	if (t->ended || t->blocked)
		return;
	if (t->again || t->form == AS_RAW) {
		t->again = false;
		output_go_on(t);
		return;
	}
	/* An exec that ended before the service restarted sends no more notifications. */
	if (exec_row(t->exec)->ended)
		output_go_on(t);
	if (t->ended || t->blocked)
		return;
	buf_printf(&json, "{\"type\":\"heartbeat\",\"cursor\":%ju}",
		   (uintmax_t)t->cursor);
	t->blocked = output_put_event(t, &json) != 0;
	if (t->looks > 0 && !t->blocked)
		output_go_on(t);
}

/* The client continues at its cursor. A stream of bytes has no cursor, so it must not
 * look as if it had ended normally. */
static void output_on_stop(struct call *c, bool last UNUSED)
{
	struct tail *t = c->state;
	AUTO_BUF struct buf json = BUF_INIT(256);

	if (!t || t->ended || !t->follow)
		return;
	t->ended = true;
	if (t->form != AS_RAW) {
		buf_printf(&json, "{\"type\":\"heartbeat\",\"cursor\":%ju}",
			   (uintmax_t)t->cursor);
		(void)output_put_event(t, &json);
	}
	if (t->ws)
		ws_close(t->ws, 1012, "the service is stopping: connect again");
	else if (t->form == AS_RAW || t->broken)
		http_abort(c->req);
	else
		(void)http_end(c->req);
}

static void output_begin(struct tail *t)
{
	struct call *c = t->call;
	const struct ws_options options = { .message = on_ws_message,
					    .drained = on_ws_drained,
					    .closed = on_ws_closed,
					    .user = t };

	if (call_wants_socket(c)) {
		if (ws_accept(c->req, &options, &t->ws) < 0)
			return;
		c->answered = true;
	} else {
		c->req->drained = output_on_drained;
		if (t->form == AS_RAW)
			call_begin_bytes(c, "application/octet-stream");
		else
			call_begin_stream(c, t->form == AS_SSE);
	}
	loop_timer_set(t->timer, HEARTBEAT_MS);
	output_wait_turn(t);
}

static struct tail *tail_new(struct call *c, struct exec *exec, uint64_t from)
{
	struct api_value *v = c->query.v;
	struct tail *t = calloc(1, sizeof(*t));

	if (!t || loop_timer_new(service_loop(c->v1->service), output_on_timer, t,
				 &t->timer) < 0) {
		free(t);
		return NULL;
	}
	t->call = c;
	t->exec = exec;
	t->turn = (struct loop_task){ .fn = output_on_turn, .ctx = t };
	t->watcher = (struct waiter){ .fn = output_on_more, .ctx = t };
	t->waiter = (struct waiter){ .fn = output_on_exit_heard, .ctx = t };
	t->at = t->cursor = t->first = from;
	t->left = (uint64_t)v[V1_READ_OUTPUT_QUERY_MAX_BYTES].number;
	t->bounded = t->left > 0;
	t->only = (int)v[V1_READ_OUTPUT_QUERY_STREAM].number;
	t->form = (int)v[V1_READ_OUTPUT_QUERY_FORMAT].number;
	t->base64 = v[V1_READ_OUTPUT_QUERY_ENCODING].number == V1_ENCODING_BASE64;
	t->follow = v[V1_READ_OUTPUT_QUERY_FOLLOW].number;
	return t;
}

/* Is the cursor within the output? A cursor beyond the end is an error, which is reported
 * before the stream begins. */
static bool is_within(struct call *c, struct exec *exec, uint64_t from)
{
	struct warren_error err = WARREN_ERROR_INIT;
	uint64_t first = 0, end = 0;
	int r = exec_extent(exec, &first, &end);

	if (r < 0) {
		(void)error_errno(&err, -r, "read the output");
		call_fail(c, &err);
		return false;
	}
	if (from <= end || r == 1)
		return true;
	call_refuse(c, API_ERR_RANGE_NOT_SATISFIABLE,
		    "from: %ju is past the end of the output, which is at %ju",
		    (uintmax_t)from, (uintmax_t)end);
	return false;
}

void v1_read_output(struct call *c)
{
	uint64_t from = (uint64_t)c->query.v[V1_READ_OUTPUT_QUERY_FROM].number;
	struct warren_error err = WARREN_ERROR_INIT;
	struct exec *exec;
	struct tail *t;

	if (call_wants_socket(c) && !call_check_socket(c))
		return;
	if (!call_last_event(c, &from))
		return;
	exec = call_exec(c);
	if (!exec)
		return;
	if (!is_within(c, exec, from)) {
		(void)exec_unref(exec);
		return;
	}
	t = tail_new(c, exec, from);
	if (!t) {
		(void)exec_unref(exec);
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	c->state = t;
	c->gone = tail_gone;
	c->stop = output_on_stop;
	if (t->follow && exec_watch(exec, &t->watcher, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	if (c->query.v[V1_READ_OUTPUT_QUERY_HOLD].number)
		exec_hold(exec, &t->holder, t->at);
	output_begin(t);
}
