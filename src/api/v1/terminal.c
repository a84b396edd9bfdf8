/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminal.c - handlers: shared terminals over WebSocket
 *
 * A terminal is an exec with a pty. The only state of a client is a cursor in the exec's
 * journal, like that of every reader of output. So several clients can watch the same
 * terminal, each at its own pace, and a client that reconnects gets the output that it
 * missed. The input of all clients goes to the same pty. The terminal does not end when a
 * client disconnects.
 *
 * Binary messages are bytes, in both directions; text messages are JSON.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "api/v1/v1.h"
#include "base/json.h"
#include "net/loop.h"
#include "net/ws.h"

#define MESSAGE_MAX 262144
/*
 * Time for the last output after the end of the shell, because processes that the shell
 * left may keep the terminal open forever.
 */
#define LAST_WORDS_MS 200

/* Close codes of RFC 6455. */
enum goodbye {
	BYE_ENDED = 1000,
	BYE_GONE = 1001,
	BYE_REFUSED = 1008,
	BYE_BROKEN = 1011,
	BYE_RESTART = 1012, /* asks the client to reconnect: the shell continues */
};

struct terminal {
	struct call *call;
	struct ws *ws;
	struct exec *exec;
	struct waiter watcher;
	struct waiter waiter;
	struct loop_timer *timer; /* limits the time for the last output */
	struct loop_task turn;
	struct journal_hint hint;
	uint64_t cursor;
	uint16_t rows, cols; /* the last size that was sent to the client */
	bool read_only;
	bool blocked; /* the client must read before more is sent */
	bool late;    /* the time for the last output is over */
	bool ended;
};

static void terminal_gone(struct call *c)
{
	struct terminal *t = c->state;

	c->state = NULL;
	if (!t)
		return;
	exec_watch_cancel(&t->watcher);
	exec_wait_cancel(&t->waiter);
	t->timer = loop_timer_free(t->timer);
	loop_task_cancel(&t->turn);
	(void)exec_unref(t->exec);
	free(t);
}

/* --------------------------------------------------------------------- events */

static void open_event(const struct terminal *t, struct json *j, const char *type)
{
	json_open(j, NULL, '{');
	json_str(j, "type", type);
	json_str(j, "exec_id", exec_row(t->exec)->id);
	json_u64(j, "cursor", t->cursor);
}

static void send_event(struct terminal *t, struct json *j)
{
	json_close(j, '}');
	if (ws_send(t->ws, true, j->out->data, j->out->len) != 0)
		t->blocked = true;
}

static void terminal_tell_size(struct terminal *t, const char *type)
{
	AUTO_BUF struct buf out = BUF_INIT(1024);
	struct json j = { .out = &out };

	open_event(t, &j, type);
	if (t->rows && t->cols) {
		json_u64(&j, "rows", t->rows);
		json_u64(&j, "cols", t->cols);
	}
	send_event(t, &j);
}

static void terminal_tell_gap(struct terminal *t, uint64_t lost)
{
	AUTO_BUF struct buf out = BUF_INIT(1024);
	struct json j = { .out = &out };

	open_event(t, &j, "gap");
	json_u64(&j, "lost", lost);
	send_event(t, &j);
}

static void terminal_finish(struct terminal *t)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };

	t->ended = true;
	if (!exec_row(t->exec)->ended) {
		ws_close(t->ws, BYE_GONE, "the sandbox is gone");
		return;
	}
	open_event(t, &j, "exit");
	json_raw(&j, "result", "", 0);
	result_to_json(&out, &exec_row(t->exec)->result);
	send_event(t, &j);
	ws_close(t->ws, BYE_ENDED, NULL);
}

/* --------------------------------------------------------------------- output */

/* All output so far has been read. */
static void terminal_at_end(struct terminal *t, const struct warren_output *o)
{
	bool over = exec_row(t->exec)->ended || exec_lost(t->exec);

	if (!over)
		return;
	if (o->end || t->late)
		terminal_finish(t);
	else
		loop_timer_set(t->timer, LAST_WORDS_MS);
}

static void terminal_put_output(struct terminal *t, const struct warren_output *o,
				const char *data)
{
	t->cursor = o->cursor;
	if (o->lost > 0) {
		t->cursor -= o->size;
		terminal_tell_gap(t, o->lost);
		t->cursor = o->cursor;
	}
	if (o->size > 0 && o->stream != 3 && ws_send(t->ws, false, data, o->size) != 0)
		t->blocked = true;
}

/* There is more output, but others have their turn first. */
static void terminal_wait_turn(struct terminal *t)
{
	loop_later(service_loop(t->call->v1->service), &t->turn);
}

static void terminal_go_on(struct terminal *t)
{
	static char room[65536];
	struct warren_error err = WARREN_ERROR_INIT;
	uint16_t rows, cols;

	if (exec_size(t->exec, &rows, &cols) && (rows != t->rows || cols != t->cols)) {
		t->rows = rows;
		t->cols = cols;
		terminal_tell_size(t, "resized");
	}
	for (int i = 0; i < 4 && !t->blocked && !t->ended; i++) {
		struct warren_output o;
		int r = exec_output(t->exec, t->cursor, &t->hint, room, sizeof(room), &o,
				    &err);

		if (r == -EINPROGRESS)
			break;
		if (r < 0) {
			t->ended = true;
			ws_close(t->ws, BYE_BROKEN, "the terminal cannot be read");
			return;
		}
		if (o.size > 0 || o.lost > 0)
			terminal_put_output(t, &o, room);
		if (o.size == 0) {
			terminal_at_end(t, &o);
			return;
		}
	}
	if (!t->blocked && !t->ended)
		terminal_wait_turn(t);
}

static void terminal_on_turn(void *ctx)
{
	struct terminal *t = ctx;

	if (!t->blocked && !t->ended)
		terminal_go_on(t);
}

static void terminal_on_more(struct waiter *w, void *of UNUSED)
{
	terminal_wait_turn(w->ctx);
}

static void terminal_on_exit_heard(struct waiter *w, void *of UNUSED)
{
	terminal_wait_turn(w->ctx);
}

static void terminal_on_timer(void *ctx)
{
	struct terminal *t = ctx;

	if (t->blocked || t->ended)
		return;
	t->late = exec_row(t->exec)->ended || exec_lost(t->exec);
	terminal_go_on(t);
}

static void terminal_on_drained(struct ws *ws)
{
	struct terminal *t = ws_user(ws);

	t->blocked = false;
	terminal_wait_turn(t);
}

/* ---------------------------------------------------------------------- input */

static void terminal_refuse(struct terminal *t, const char *why)
{
	t->ended = true;
	ws_close(t->ws, BYE_REFUSED, why);
}

/*
 * Data that could not be written was for a shell that has ended; another message informs
 * the client.
 */
static void terminal_on_fed(void *ctx, int r UNUSED,
			    const struct warren_error *err UNUSED)
{
	struct call *c = ctx;
	struct terminal *t = c->state;

	if (t)
		ws_resume(t->ws);
	call_unref(c);
}

static int64_t terminal_dimension(json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);
	json_int_t n = json_is_integer(v) ? json_integer_value(v) : 0;

	return n >= 1 && n <= 65535 ? n : 0;
}

static void on_control(struct terminal *t, const char *data, size_t n)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	json_t *o = json_loadb(data, n, JSON_REJECT_DUPLICATES, NULL);
	const char *type = json_string_value(json_object_get(o, "type"));
	int64_t rows = terminal_dimension(o, "rows"),
		cols = terminal_dimension(o, "cols");

	if (!type || strcmp(type, "resize") != 0 || !rows || !cols ||
	    json_object_size(o) != 3)
		terminal_refuse(
			t,
			"a text message must be {\"type\": \"resize\", \"rows\": ROWS, "
			"\"cols\": COLS}");
	else
		(void)exec_resize(t->exec, (uint16_t)rows, (uint16_t)cols, &ignored);
	json_decref(o);
}

static void terminal_on_message(struct ws *ws, bool text, const char *data, size_t n)
{
	struct terminal *t = ws_user(ws);

	if (t->ended)
		return;
	if (t->read_only) {
		terminal_refuse(t, "this connection is read-only");
	} else if (text) {
		on_control(t, data, n);
	} else if (n > 0) {
		/* Read the next message only after this one has been written to the
		 * terminal. */
		ws_pause(ws);
		exec_feed(t->exec, data, n, false, terminal_on_fed, call_ref(t->call));
	}
}

/* ------------------------------------------------------------------- attached clients */

static void terminal_on_closed(struct ws *ws, unsigned code UNUSED)
{
	struct terminal *t = ws_user(ws);

	call_closed(t->call);
}

static void terminal_on_stop(struct call *c, bool last UNUSED)
{
	struct terminal *t = c->state;

	if (!t || !t->ws || t->ended)
		return;
	t->ended = true;
	ws_close(t->ws, BYE_RESTART, "the service is stopping: connect again");
}

/* Takes over the reference to @run. */
static void terminal_attach(struct call *c, struct exec *exec, uint64_t from,
			    bool read_only)
{
	struct terminal *t = calloc(1, sizeof(*t));
	const struct ws_options options = { .message = terminal_on_message,
					    .drained = terminal_on_drained,
					    .closed = terminal_on_closed,
					    .user = t,
					    .max_message = MESSAGE_MAX };
	struct warren_error err = WARREN_ERROR_INIT;

	if (!t || loop_timer_new(service_loop(c->v1->service), terminal_on_timer, t,
				 &t->timer) < 0) {
		free(t);
		(void)exec_unref(exec);
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	t->call = c;
	t->exec = exec;
	t->cursor = from;
	t->read_only = read_only;
	t->turn = (struct loop_task){ .fn = terminal_on_turn, .ctx = t };
	t->watcher = (struct waiter){ .fn = terminal_on_more, .ctx = t };
	t->waiter = (struct waiter){ .fn = terminal_on_exit_heard, .ctx = t };
	c->state = t;
	c->gone = terminal_gone;
	c->stop = terminal_on_stop;
	if (exec_watch(exec, &t->watcher, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	if (ws_accept(c->req, &options, &t->ws) < 0)
		return;
	c->answered = true;
	if (!exec_row(exec)->ended && !exec_lost(exec))
		exec_wait(exec, &t->waiter);
	(void)exec_size(exec, &t->rows, &t->cols);
	terminal_tell_size(t, "attached");
	terminal_go_on(t);
}

/* ---------------------------------------------------------------------- new terminals */

static void start_session(struct call *c, const char *shell, exec_fn done)
{
	struct api_value *v = c->query.v;
	struct sandbox *sandbox = call_sandbox(c);
	const char *const argv[] = { shell, NULL };
	static const char *const env[] = { "TERM=xterm-256color", NULL };
	const struct exec_start start = {
		.argv = argv,
		.env = env,
		.cwd = v[V1_OPEN_TERMINAL_QUERY_CWD].text,
		.user = v[V1_OPEN_TERMINAL_QUERY_USER].text,
		.pty = true,
		.rows = (uint16_t)v[V1_OPEN_TERMINAL_QUERY_ROWS].number,
		.cols = (uint16_t)v[V1_OPEN_TERMINAL_QUERY_COLS].number,
	};

	if (sandbox)
		exec_start(sandbox, &start, done, call_ref(c));
}

static void terminal_ignore(void *ctx UNUSED, int r UNUSED,
			    const struct warren_error *err UNUSED)
{
}

static void terminal_on_opened(void *ctx, struct exec *exec,
			       const struct warren_error *err)
{
	struct call *c = ctx;

	if (!c->req && exec) /* no client will ever know its id */
		exec_signal(exec, SIGKILL, WARREN_WHOM_TREE, terminal_ignore, NULL);
	else if (c->req && !exec)
		call_fail_start(c, err);
	else if (c->req)
		terminal_attach(c, exec_ref(exec), 0, false);
	call_unref(c);
}

static void on_bash(void *ctx, struct exec *exec, const struct warren_error *err)
{
	struct call *c = ctx;

	if (exec || !c->req || err->code != ENOENT) {
		terminal_on_opened(ctx, exec, err);
		return;
	}
	start_session(c, "sh", terminal_on_opened);
	call_unref(c);
}

void v1_open_terminal(struct call *c)
{
	const char *shell = c->query.v[V1_OPEN_TERMINAL_QUERY_SHELL].text;

	if (call_check_socket(c))
		start_session(c, shell ? shell : "bash",
			      shell ? terminal_on_opened : on_bash);
}

/* ----------------------------------------------------------------- existing terminals */

static void terminal_on_awake(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;
	struct api_value *v = c->query.v;
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct exec *exec = NULL;
	uint64_t from = 0, to = 0;
	bool read_only = v[V1_JOIN_TERMINAL_QUERY_READ_ONLY].number;

	if (c->req && r < 0)
		call_fail(c, err);
	else if (c->req)
		exec = call_exec(c);
	if (exec && !exec_row(exec)->pty) {
		call_refuse(c, API_ERR_INVALID_REQUEST,
			    "exec '%s' has no terminal; read its output",
			    exec_row(exec)->id);
		exec = exec_unref(exec);
	}
	if (exec) {
		(void)exec_extent(exec, &from, &to);
		if (v[V1_JOIN_TERMINAL_QUERY_FROM].given)
			from = (uint64_t)v[V1_JOIN_TERMINAL_QUERY_FROM].number;
		/* Do not change the size for the other clients, unless this client
		 * requests a size. */
		if (!read_only && v[V1_JOIN_TERMINAL_QUERY_ROWS].given &&
		    v[V1_JOIN_TERMINAL_QUERY_COLS].given)
			(void)exec_resize(exec,
					  (uint16_t)v[V1_JOIN_TERMINAL_QUERY_ROWS].number,
					  (uint16_t)v[V1_JOIN_TERMINAL_QUERY_COLS].number,
					  &ignored);
		terminal_attach(c, exec, from, read_only);
	}
	call_unref(c);
}

void v1_join_terminal(struct call *c)
{
	struct exec *exec = call_check_socket(c) ? call_exec(c) : NULL;
	bool runs = exec && !exec_row(exec)->ended && !exec_lost(exec);

	if (!exec)
		return;
	(void)exec_unref(exec);
	if (runs)
		sandbox_use(call_sandbox(c), terminal_on_awake, call_ref(c));
	else
		terminal_on_awake(call_ref(c), 0, NULL);
}
