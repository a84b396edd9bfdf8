/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - handlers: shells that keep their state between commands */
#include <errno.h>
#include <string.h>

#include "api/format.h"
#include "api/v1/exec.h"
#include "api/v1/output_json.h"
#include "base/date.h"
#include "base/json.h"
#include "base/strv.h"
#include "base/utf8.h"
#include "config/config.h"
#include "service/core/undo.h"

static struct session *call_session(struct call *c, struct sandbox **ret_sandbox)
{
	struct sandbox *sandbox = call_sandbox(c);
	struct session *session =
		sandbox ? session_find(sandbox, c->route.param[1]) : NULL;

	if (sandbox && !session)
		call_refuse(c, API_ERR_SESSION_NOT_FOUND,
			    "sandbox '%s' has no session '%s'", c->route.param[0],
			    c->route.param[1]);
	*ret_sandbox = sandbox;
	return session;
}

static void show_session(struct buf *out, const struct session *session)
{
	const struct session_row *row = session_row(session);
	struct json j = { .out = out };
	char at[DATE_SIZE];

	date_iso(at, service_wall(row->created_at));
	json_open(&j, NULL, '{');
	json_str(&j, "id", row->id);
	json_str(&j, "sandbox_id", row->sandbox);
	json_str(&j, "exec_id", row->exec);
	json_str(&j, "shell", row->shell);
	if (session_cwd(session))
		json_str(&j, "cwd", session_cwd(session));
	json_str(&j, "state", session_state(session));
	json_str(&j, "created_at", at);
	json_u64(&j, "commands", row->serial);
	json_bool(&j, "undoable", row->undoable);
	json_close(&j, '}');
}

/* ------------------------------------------------------- opening and closing sessions */

static void session_on_opened(void *ctx, struct session *session,
			      const struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct call *c = ctx;

	if (c->req && !session && err->code == ENOENT) {
		call_refuse(c, API_ERR_COMMAND_NOT_FOUND, "%s", err->msg);
	} else if (c->req && !session) {
		call_fail(c, err);
	} else if (c->req) {
		show_session(&out, session);
		call_json(c, 201, &out);
	}
	call_unref(c);
}

void v1_open_session(struct call *c)
{
	struct sandbox *sandbox = call_sandbox(c);
	struct warren_error err = WARREN_ERROR_INIT;
	struct api_error refusal = { 0 };
	bool undoable = body_bool(&c->body, "undoable");
	char **env = NULL;
	size_t n = 0;

	if (!sandbox)
		return;
	for (struct session *session = session_next(sandbox, NULL); session;
	     session = session_next(sandbox, session))
		n++;
	if (c->v1->config->sessions_max && n >= c->v1->config->sessions_max) {
		call_refuse(c, API_ERR_QUOTA_EXCEEDED,
			    "the sandbox has %zu sessions, the maximum that the service "
			    "allows: close one",
			    n);
		return;
	}
	if (exec_check_output(c->v1, &c->body, &refusal) < 0) {
		call_error(c, &refusal);
		return;
	}
	if (undoable && undo_check_backend(sandbox, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	if (exec_read_env(&c->body, &env) < 0) {
		free(env);
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	struct exec_start start = {
		.env = (const char *const *)env,
		.cwd = body_text(&c->body, "cwd"),
		.user = body_text(&c->body, "user"),
		.journal = body_size(&c->body, "output_limit"),
		.undoable = undoable,
	};

	session_open(sandbox, &start, body_text(&c->body, "shell"), session_on_opened,
		     call_ref(c));
	(void)strv_free(env);
}

void v1_get_session(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct sandbox *sandbox;
	struct session *session = call_session(c, &sandbox);

	if (!session)
		return;
	show_session(&out, session);
	call_json(c, 200, &out);
}

/*
 * Find the newest session that is older than @number. The number remains valid when its
 * session is gone.
 */
static struct session *older_than(struct sandbox *sandbox, uint64_t number)
{
	struct session *found = NULL;

	for (struct session *session = session_next(sandbox, NULL); session;
	     session = session_next(sandbox, session))
		if (session_number(session) < number &&
		    (!found || session_number(session) > session_number(found)))
			found = session;
	return found;
}

void v1_list_sessions(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(16U << 20);
	struct sandbox *sandbox = call_sandbox(c);
	size_t max = (size_t)c->query.v[V1_LIST_SESSIONS_QUERY_LIMIT].number, n = 0;
	uint64_t before = UINT64_MAX;
	struct session *session;

	if (!sandbox ||
	    !call_page(c, &c->query.v[V1_LIST_SESSIONS_QUERY_CURSOR], &before))
		return;
	buf_puts(&out, "{\"sessions\":[");
	for (session = older_than(sandbox, before); session && n < max;
	     session = older_than(sandbox, before)) {
		if (n++ > 0)
			buf_puts(&out, ",");
		show_session(&out, session);
		before = session_number(session);
	}
	if (session)
		buf_printf(&out, "],\"next_cursor\":\"%ju\"}", (uintmax_t)before);
	else
		buf_puts(&out, "],\"next_cursor\":null}");
	call_json(c, 200, &out);
}

static void session_on_closed(void *ctx, int r, const struct warren_error *err)
{
	struct call *c = ctx;

	/* The session ended by itself in the meantime, which is not an error. */
	if (c->req && r < 0 && r != -ESRCH)
		call_fail(c, err);
	else if (c->req)
		call_empty(c, 204);
	call_unref(c);
}

void v1_close_session(struct call *c)
{
	struct sandbox *sandbox;
	struct session *session = call_session(c, &sandbox);

	if (session)
		session_close(session, session_on_closed, call_ref(c));
}

void v1_interrupt_session(struct call *c)
{
	struct sandbox *sandbox;
	struct session *session = call_session(c, &sandbox);

	if (!session)
		return;
	session_interrupt(session, format_signal(body_text(&c->body, "signal")));
	call_empty(c, 204);
}

/* -------------------------------------------------------------- commands of a session */

/* Maximum number of separate gaps; later gaps are added to the last one. */
#define GAPS_MAX 64

/* A gap in the output of a command, and its position in the stream. */
struct gap {
	size_t at[2];
	int stream; /* stdout or stderr; 0: not known */
	uint64_t lost;
};

struct running {
	struct pieces pieces;
	struct session_command command;
	struct buf text[2]; /* stdout and stderr, if the answer is not a stream */
	size_t at;          /* position in one of the texts */
	struct buf tail;    /* of that */
	bool full[2];       /* some output did not fit, so no more is added */
	struct gap *gaps;   /* GAPS_MAX entries, allocated for the first gap */
	size_t n_gaps;
	uint64_t lost;
	uint64_t cursor; /* position in the shell's output */
	bool stream, sse;
	bool broken; /* an event could not be written: the stream must not look complete
		      */
	/* For a stream: the beginning of a character whose end has not arrived. */
	char kept[4];
	size_t n_kept;
	int kept_stream;
};

#define KEPT_MAX  (64U << 20)
#define KEPT_FREE (16U << 10) /* bytes that each session may always keep */

static void session_running_gone(struct call *c)
{
	struct running *k = c->state;

	c->state = NULL;
	if (!k)
		return;
	session_forget(&k->command);
	pieces_done(&k->pieces);
	buf_done(&k->text[0]);
	buf_done(&k->text[1]);
	buf_done(&k->tail);
	free(k->gaps);
	free(k);
}

/* Write the part before the output. */
static void session_put_head(struct buf *out, const struct session_result *r)
{
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	json_u64(&j, "serial", r->serial);
	json_int(&j, "exit_code", r->exit_code);
}

static void session_put_gap_at(struct json *j, const struct gap *g, int stream,
			       const char *name)
{
	if (g->stream == 0 || g->stream == stream)
		json_u64(j, name, g->at[stream - 1]);
	else
		json_nil(j, name);
}

static void put_gaps(struct json *j, const struct running *k)
{
	json_open(j, "gaps", '[');
	for (size_t i = 0; i < k->n_gaps; i++) {
		json_open(j, NULL, '{');
		session_put_gap_at(j, &k->gaps[i], 1, "stdout_at");
		session_put_gap_at(j, &k->gaps[i], 2, "stderr_at");
		json_u64(j, "lost", k->gaps[i].lost);
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* Write the part after the output, without the closing brace. */
static void put_tail(struct buf *out, const struct running *k,
		     const struct session_result *r)
{
	struct json j = { .out = out, .comma = true };

	json_u64(&j, "lost", k->stream ? r->lost : k->lost);
	if (!k->stream)
		put_gaps(&j, k);
	json_str(&j, "cwd", r->cwd);
	json_bool(&j, "timed_out", r->timed_out);
	json_bool(&j, "interrupted", r->interrupted);
	json_bool(&j, "syntax_error", r->syntax_error);
	json_bool(&j, "ended", r->ended);
	json_bool(&j, "new_state", r->new_state);
	json_u64(&j, "wall_usec", r->wall_usec);
}

/* Return at most 64 kB at a time, as from a journal. */
static int next_text(struct pieces *p, int stream, const char **ret_data, size_t *ret_n)
{
	struct running *k = (struct running *)p;
	const struct buf *text = &k->text[stream];
	size_t n = text->len - k->at;

	*ret_n = n < 65536 ? n : 65536;
	*ret_data = n > 0 ? text->data + k->at : "";
	k->at = *ret_n < n ? k->at + *ret_n : 0;
	return *ret_n < n;
}

static void add_tail(struct pieces *p, struct buf *out)
{
	const struct running *k = (const struct running *)p;

	buf_add(out, k->tail.data, k->tail.len);
}

static void session_put_event(struct running *k, const struct buf *json)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);

	if (k->sse)
		buf_puts(&out, "data: ");
	buf_add(&out, json->data, json->len);
	buf_puts(&out, k->sse ? "\n\n" : "\n");
	k->broken = k->broken || json->failed || out.failed;
	if (k->broken)
		return;
	k->command.blocked = http_write(k->pieces.call->req, out.data, out.len) != 0;
}

static void session_on_drained(struct http_request *req)
{
	struct running *k = ((struct call *)req->user)->state;

	if (k)
		session_go_on(&k->command);
}

static void session_put_piece(struct running *k, int stream, const char *data, size_t n)
{
	AUTO_BUF struct buf json = BUF_INIT(1U << 20);
	struct json j = { .out = &json };

	json_open(&j, NULL, '{');
	json_str(&j, "type", "output");
	json_u64(&j, "cursor", k->cursor - k->n_kept);
	json_str(&j, "stream", stream == 2 ? "stderr" : "stdout");
	json_raw(&j, "data", "", 0);
	bytes_to_json(&json, data, n, k->pieces.base64);
	json_close(&j, '}');
	session_put_event(k, &json);
}

/* Write the kept bytes of a character that remains incomplete. */
static void session_put_kept(struct running *k)
{
	size_t n = k->n_kept;

	k->n_kept = 0;
	if (n > 0)
		session_put_piece(k, k->kept_stream, k->kept, n);
}

/* A piece ends after a complete character. */
static void v1_session_put_output(struct running *k, int stream, const char *data,
				  size_t n)
{
	AUTO_BUF struct buf joined = BUF_INIT(1U << 20);
	size_t cut;

	if (stream != k->kept_stream)
		session_put_kept(k);
	if (k->n_kept > 0) {
		buf_add(&joined, k->kept, k->n_kept);
		buf_add(&joined, data, n);
		if (joined.failed) {
			session_put_kept(k);
		} else {
			data = joined.data;
			n = joined.len;
		}
	}
	cut = k->pieces.base64 ? 0 : utf8_cut(data, n);
	(void)memcpy(k->kept, data + n - cut, cut);
	k->n_kept = cut;
	k->kept_stream = stream;
	if (n > cut)
		session_put_piece(k, stream, data, n - cut);
}

/* Record that @lost bytes of @stream are missing here (0: the stream is not known). */
static void note_gap(struct running *k, int stream, uint64_t lost)
{
	struct gap *g;

	k->lost += lost;
	if (!k->gaps)
		k->gaps = calloc(GAPS_MAX, sizeof(*k->gaps));
	if (!k->gaps) {
		k->tail.failed = true; /* it is better to fail than to omit a gap */
		return;
	}
	/*
	 * Extend a gap at the end of the same stream. If there are too many gaps, extend
	 * the last one.
	 */
	for (size_t i = 0; i < k->n_gaps; i++)
		if (k->gaps[i].stream == stream && stream != 0) {
			k->gaps[i].lost += lost;
			return;
		}
	if (k->n_gaps < GAPS_MAX)
		k->gaps[k->n_gaps++] =
			(struct gap){ .at = { k->text[0].len, k->text[1].len },
				      .stream = stream };
	g = &k->gaps[k->n_gaps - 1];
	g->lost += lost;
}

static void session_put_gap(struct running *k, uint64_t lost)
{
	AUTO_BUF struct buf json = BUF_INIT(256);
	struct json j = { .out = &json };

	session_put_kept(k);
	json_open(&j, NULL, '{');
	json_str(&j, "type", "gap");
	json_u64(&j, "cursor", k->cursor);
	json_u64(&j, "lost", lost);
	json_close(&j, '}');
	session_put_event(k, &json);
}

static void session_on_gap(struct session_command *command, uint64_t lost)
{
	struct running *k = command->ctx;

	if (!k->stream) {
		note_gap(k, 0, lost);
		return;
	}
	k->cursor = session_cursor(command->session);
	session_put_gap(k, lost);
}

static void v1_session_on_output(struct session_command *command, int stream,
				 const void *data, size_t n)
{
	struct running *k = command->ctx;
	struct buf *text = &k->text[stream - 1];
	size_t room = KEPT_MAX - text->len, take = n < room ? n : room;

	k->cursor = session_cursor(command->session);
	if (k->stream) {
		v1_session_put_output(k, stream, data, n);
		return;
	}
	/*
	 * The output of all sessions together is also limited, except for small outputs.
	 */
	if (k->text[0].len + k->text[1].len + take > KEPT_FREE &&
	    !http_keep(k->pieces.call->req, take))
		k->full[stream - 1] = true;
	if (k->full[stream - 1])
		take = 0; /* drop the rest as well, so that there is no gap in the middle
			   */
	buf_add(text, data, take);
	if (take < n)
		note_gap(k, stream, n - take);
}

static void v1_session_on_result(struct session_command *command,
				 const struct session_result *r)
{
	struct running *k = command->ctx;
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);

	if (!k->stream) {
		put_tail(&k->tail, k, r);
		session_put_head(&out, r);
		out.failed = out.failed || k->text[0].failed || k->text[1].failed ||
			     k->tail.failed;
		pieces_answer(&k->pieces, &out,
			      (uint64_t)k->text[0].len + k->text[1].len);
		return;
	}
	session_put_kept(k);
	k->cursor = command->session ? session_cursor(command->session) : k->cursor;
	buf_printf(&out, "{\"type\":\"result\",\"cursor\":%ju,\"session\":",
		   (uintmax_t)k->cursor);
	session_put_head(&out, r);
	put_tail(&out, k, r);
	buf_puts(&out, "}}");
	session_put_event(k, &out);
	if (k->broken)
		http_abort(k->pieces.call->req);
	else
		(void)http_end(k->pieces.call->req);
}

/*
 * The command continues; its further output can be read from the cursor, as the output of
 * the session's exec.
 */
static void session_on_stop(struct call *c, bool last)
{
	struct running *k = c->state;
	AUTO_BUF struct buf json = BUF_INIT(256);

	if (!last || !k || !k->stream || !k->command.session)
		return;
	session_forget(&k->command);
	buf_printf(&json, "{\"type\":\"heartbeat\",\"cursor\":%ju}",
		   (uintmax_t)(k->cursor - k->n_kept));
	session_put_event(k, &json);
	c->req->drained = NULL;
	if (k->broken)
		http_abort(c->req);
	else
		(void)http_end(c->req);
}

static void refuse_exec(struct call *c, const struct warren_error *err)
{
	if (err->code == EBUSY)
		call_refuse(c, API_ERR_SESSION_BUSY, "%s", err->msg);
	else if (err->code == EPIPE)
		call_refuse(c, API_ERR_SESSION_ENDED, "%s", err->msg);
	else
		call_fail(c, err);
}

/* The command, or all commands of the session. */
static bool v1_session_is_undoable(const struct call *c, const struct session *session)
{
	return body_bool(&c->body, "undoable") || session_row(session)->undoable;
}

/* @undo: see session_undoable(). Return whether the command has started. */
static bool v1_session_start(struct call *c, bool stream, uint32_t undo)
{
	struct warren_error err = WARREN_ERROR_INIT;
	const char *text = body_text(&c->body, "command");
	struct sandbox *sandbox;
	struct session *session = call_session(c, &sandbox);
	struct running *k = session ? calloc(1, sizeof(*k)) : NULL;

	if (!session)
		return false;
	if (!k) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return false;
	}
	*k = (struct running){ .pieces = { .call = c,
					   .base64 = body_word(&c->body, "encoding") ==
						     V1_ENCODING_BASE64,
					   .next = next_text,
					   .tail = add_tail },
			       .command = { .output = v1_session_on_output,
					    .gap = session_on_gap,
					    .result = v1_session_on_result,
					    .ctx = k },
			       .text = { BUF_INIT(KEPT_MAX + 1), BUF_INIT(KEPT_MAX + 1) },
			       .tail = BUF_INIT(65536),
			       .stream = stream };
	c->state = k;
	c->gone = session_running_gone;
	session_undoable(session, undo);
	if (session_run(session, text, strlen(text),
			(uint64_t)body_int(&c->body, "timeout_ms"), &k->command,
			&err) < 0) {
		refuse_exec(c, &err);
		return false;
	}
	if (stream) {
		k->sse = c->query.v[V1_STREAM_IN_SESSION_QUERY_FORMAT].number ==
			 V1_STREAM_IN_SESSION_FORMAT_IS_SSE;
		c->req->drained = session_on_drained;
		c->stop = session_on_stop;
		call_begin_stream(c, k->sse);
	}
	return true;
}

static void v1_session_on_kept(struct call *c, bool stream, int r,
			       const struct warren_error *err)
{
	struct sandbox *sandbox =
		r < 0 ? NULL : sandbox_find(c->v1->service, NULL, c->route.param[0]);
	bool started = false;

	if (c->req && r < 0 && r != -ENOENT)
		refuse_exec(c, err);
	else if (c->req)
		started = v1_session_start(c, stream, r > 0 ? (uint32_t)r : 0);
	if (sandbox && !started)
		undo_not_started(sandbox, (uint32_t)r);
	call_unref(c);
}

static void v1_session_on_kept_run(void *ctx, int r, const struct warren_error *err)
{
	v1_session_on_kept(ctx, false, r, err);
}

static void v1_session_on_kept_stream(void *ctx, int r, const struct warren_error *err)
{
	v1_session_on_kept(ctx, true, r, err);
}

/* Another command may have begun while this one waited: its copy must stay. */
static int v1_session_check(void *ctx, struct warren_error *err)
{
	struct call *c = ctx;
	struct sandbox *sandbox = c->req ? call_sandbox(c) : NULL;
	const struct session *session =
		sandbox ? session_find(sandbox, c->route.param[1]) : NULL;

	if (!session)
		return error_set(err, ENOENT, "the session is gone");
	if (strcmp(session_state(session), "busy") == 0)
		return error_set(err, EBUSY, "a command is running in the session");
	return 0;
}

/*
 * An undoable command starts when a copy of the files has been made. A session that
 * cannot run it refuses it before.
 */
static void v1_session_run(struct call *c, bool stream)
{
	struct sandbox *sandbox;
	struct session *session = call_session(c, &sandbox);

	if (session && (!v1_session_is_undoable(c, session) ||
			strcmp(session_state(session), "idle") != 0))
		(void)v1_session_start(c, stream, 0);
	else if (session)
		undo_settle(sandbox, true, v1_session_check,
			    stream ? v1_session_on_kept_stream : v1_session_on_kept_run,
			    call_ref(c));
}

/* The sandbox is awake, and the session has a shell. */
static void session_on_usable(struct call *c, bool stream, int r,
			      const struct warren_error *err)
{
	if (c->req && r < 0 && r != -ENOENT)
		call_fail(c, err);
	else if (c->req)
		v1_session_run(c, stream);
	call_unref(c);
}

static void session_on_usable_run(void *ctx, int r, const struct warren_error *err)
{
	session_on_usable(ctx, false, r, err);
}

static void session_on_usable_stream(void *ctx, int r, const struct warren_error *err)
{
	session_on_usable(ctx, true, r, err);
}

void v1_run_in_session(struct call *c)
{
	struct sandbox *sandbox;
	struct session *session = call_session(c, &sandbox);

	if (session)
		session_use(sandbox, session_row(session)->id, session_on_usable_run,
			    call_ref(c));
}

void v1_stream_in_session(struct call *c)
{
	struct sandbox *sandbox;
	struct session *session = call_session(c, &sandbox);

	if (session)
		session_use(sandbox, session_row(session)->id, session_on_usable_stream,
			    call_ref(c));
}
