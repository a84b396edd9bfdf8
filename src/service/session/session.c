/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - sessions: shells that keep their state between commands
 *
 * A session is an exec whose shell reads commands from a pipe and reports results as
 * stream 3 of its journal. src/shellproto is the protocol; init keeps the order of the
 * streams. If an exec has only three streams, commands go to its stdin, and results are
 * part of its output, after markers (session_marker.c). While a command runs,
 * session_read.c reads the journal from where the last command ended. Between commands
 * the service does not read; output of background jobs stays in the journal for clients.
 * session_stop.c stops commands.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <time.h>

#include "base/clock.h"
#include "base/list.h"
#include "service/core/undo.h"
#include "service/session/internal.h"

/*
 * Minimum size of the journal. The end of a command is marked on both streams, which
 * arrive separately. After the mark of one stream, as many bytes of the other stream may
 * arrive as fit into all pipes on the way. They must not push the mark out of the
 * journal.
 */
#define FRAMED_LEAST (1U << 20)

#define EXIT_NO_EXEC   126 /* exit code of a shell for a file that is not executable */
#define EXIT_NOT_FOUND 127 /* exit code for a missing program */
#define EXIT_NOT_OURS  SHELLPROTO_EXIT_REFUSED
/* Time for a shell to become ready; a program that is not a shell never does. */
#define OPEN_MS 15000
/* Number of attempts to find the end of the output, if init does not report it. */
#define EXTENT_TRIES 16
/* How often a shell is started again after a hibernation. */
#define OPEN_TRIES 16

/* -------------------------------------------------------------- lifetime of a session */

static void session_undo_ended(struct session *session)
{
	if (session->sandbox)
		undo_ended(session->sandbox, session->undo);
	session->undo = 0;
}

static void opening_free(struct opening *o)
{
	if (o) {
		free(o->own);
		exec_start_done(&o->start);
	}
	free(o);
}

void session_free(struct session *session)
{
	struct warren_error gone = WARREN_ERROR_INIT;

	session_users_end(session, error_set(&gone, ESTALE, "the session is gone"),
			  &gone);
	if (session->sandbox)
		(void)LIST_REMOVE(sandbox_sessions(session->sandbox)->list, session);
	session_terminal_gone(session->session_terminal);
	exec_watch_cancel(&session->watcher);
	exec_wait_cancel(&session->waiter);
	session->out_watch = loop_watch_free(session->out_watch);
	session->timer = loop_timer_free(session->timer);
	session_read_done(session);
	session->insist = loop_timer_free(session->insist);
	session_end_brief(session);
	session_undo_ended(session);
	(void)exec_unref(session->exec);
	(void)exec_unref(session->before);
	(void)exec_unref(session->discarded);
	free(session->shell_before);
	session->codec = shellproto_free(session->codec);
	buf_done(&session->out);
	session_row_done(&session->row);
	opening_free(session->opening);
	free(session->cwd);
	free(session);
}

struct session *session_find(struct sandbox *sandbox, const char *id)
{
	for (struct session *session = sandbox_sessions(sandbox)->list; session;
	     session = session->next)
		if (strcmp(session->row.id, id) == 0 && session_is_open(session))
			return session;
	return NULL;
}

struct session *session_next(struct sandbox *sandbox, struct session *after)
{
	struct session *session = after ? after->next : sandbox_sessions(sandbox)->list;

	while (session && !session_is_open(session))
		session = session->next;
	return session;
}

struct session *session_named(struct sandbox *sandbox, const char *name)
{
	for (struct session *session = sandbox_sessions(sandbox)->list; session;
	     session = session->next)
		if (session->row.name && strcmp(session->row.name, name) == 0)
			return session;
	return NULL;
}

/* A session that gets a new shell was open before. */
bool session_is_open(const struct session *session)
{
	return !session->opened || session->fresh;
}

struct session_terminal **session_terminal_of(struct session *session)
{
	return &session->session_terminal;
}

struct sandbox *session_sandbox(const struct session *session)
{
	return session->sandbox;
}

const struct session_row *session_row(const struct session *session)
{
	return &session->row;
}

uint64_t session_number(const struct session *session)
{
	return exec_row(session->exec ? session->exec : session->before)->number;
}

uint64_t session_cursor(const struct session *session)
{
	return session->cursor;
}

const char *session_cwd(const struct session *session)
{
	return session->cwd;
}

const char *session_state(const struct session *session)
{
	/* A shell that has ended runs nothing, although its last command has no result.
	 */
	if (session->opened || (!session->ended && shellproto_running(session->codec)))
		return "busy";
	return session->ended && !session_renews(session) ? "ended" : "idle";
}

/* ----------------------------------------------------------------- input of the shell */

static void session_on_room(void *ctx, unsigned events UNUSED)
{
	session_pour(ctx);
}

/* Return the descriptor for commands; -1: none. */
static int commands_fd(const struct session *session)
{
	return session->framed ? exec_input_fd(session->exec)
			       : exec_poke_fd(session->exec);
}

void session_pour(struct session *session)
{
	if (session->stops > 0) { /* the last of these stops calls this function again */
		session->out_watch = loop_watch_free(session->out_watch);
		return;
	}
	while (session->sent < session->out.len) {
		ssize_t n = write(commands_fd(session), session->out.data + session->sent,
				  session->out.len - session->sent);

		if (n < 0 && errno == EAGAIN) {
			if (!session->out_watch)
				(void)loop_watch(session->service->loop,
						 commands_fd(session), LOOP_WRITE,
						 session_on_room, session,
						 &session->out_watch);
			return;
		}
		if (n < 0 && errno != EINTR)
			break; /* the end of the exec is reported elsewhere */
		session->sent += n > 0 ? (size_t)n : 0;
	}
	session->out_watch = loop_watch_free(session->out_watch);
	buf_done(&session->out);
	session->out = (struct buf)BUF_INIT(SHELLPROTO_OUT_MAX);
	session->sent = 0;
}

/*
 * A killed program may have changed the settings of the terminal. If this terminal only
 * leads to another terminal (of a daemon or of another machine), it stays raw; the shell
 * sets up the other terminal at its start.
 */
static void tidy_terminal(const struct session *session)
{
	const struct sandbox *sandbox = exec_sandbox(session->exec);
	struct termios t;

	if (!sandbox || sandbox->is.base.framed ||
	    tcgetattr(exec_input_fd(session->exec), &t) < 0)
		return;
	t.c_iflag |= ICRNL;
	t.c_oflag |= OPOST | ONLCR;
	t.c_lflag |= ICANON | ISIG | IEXTEN | NOFLSH;
	t.c_lflag &= ~(tcflag_t)ECHO;
	(void)tcsetattr(exec_input_fd(session->exec), TCSANOW, &t);
}

void session_type(struct session *session, const char *text, size_t n)
{
	if (!session->terminal || commands_fd(session) < 0)
		return;
	buf_add(&session->out, text, n);
	session_pour(session);
}

/* --------------------------------------------------------------- output of the shell */

static void session_on_output(void *arg, enum shellproto_stream stream, const void *data,
			      size_t n)
{
	struct session *session = arg;

	session->spoke = true;
	if (session->command)
		session->command->output(session->command,
					 stream == SHELLPROTO_STDERR ? 2 : 1, data, n);
}

/*
 * The row of the session does not name this exec any more. If it has not ended yet, it is
 * forgotten at its end.
 */
static void session_forget_discarded(struct session *session)
{
	struct exec *exec = TAKE_PTR(session->discarded);

	if (exec && session->sandbox && exec_row(exec)->ended)
		exec_forget_closed(session->sandbox, exec_row(exec)->id,
				   exec_row(exec)->journal);
	(void)exec_unref(exec);
}

/* No client knows about the session, even if its shell was started. */
static void session_never_opened(struct session *session)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int r = db_delete_session(session->service->db, session->row.id, &ignored);

	survive(session->service, r == -ENOENT ? 0 : r);
	session_forget_discarded(session);
	session->discarded = TAKE_PTR(session->exec);
	session_forget_discarded(session);
}

static void finish_open(struct session *session, const struct warren_error *err)
{
	struct sandbox *sandbox = session->brief ? session->sandbox : NULL;
	session_fn opened = session->opened;
	void *ctx = session->ctx;

	if (!err)
		session_renew_done(session);
	session->opened = NULL;
	session->brief = false;
	if (err) {
		session_never_opened(session);
		opened(ctx, NULL, err);
	} else {
		session->tries = 0;
		event_emit(session->service, EVENT_SESSION_OPENED, session->sandbox,
			   session->row.id, NULL);
		opened(ctx, session, NULL);
	}
	/* A hibernation lets the command begin for which the session was opened. */
	if (sandbox)
		sandbox_end_brief(sandbox);
}

static void session_on_result(void *arg, const struct shellproto_result *r)
{
	struct session *session = arg;
	struct session_command *c = session->command;
	struct session_result res = {
		.serial = r->serial,
		.exit_code = r->exit_code,
		.cwd = r->cwd,
		.lost = session->lost,
		.wall_usec = (clock_now() - session->begun) / 1000,
		.timed_out = session->timed_out,
		.interrupted = session->interrupted,
		.syntax_error = r->outcome == SHELLPROTO_SYNTAX,
		.ended = r->outcome == SHELLPROTO_ENDED,
		.new_state = session->fresh,
	};

	if (r->cwd) {
		free(session->cwd);
		session->cwd = strdup(r->cwd);
	}
	session->ended = session->ended || res.ended;
	session->stopping = false;
	session_undo_ended(session);
	session_hold_end(session);
	if (session->timer)
		loop_timer_stop(session->timer);
	if (session->insist)
		loop_timer_stop(session->insist);
	exec_watch_cancel(&session->watcher);
	if (session->opened) {
		struct warren_error err = WARREN_ERROR_INIT;

		if (r->outcome != SHELLPROTO_READY)
			(void)error_set(&err, EPIPE,
					"the shell ended before it was ready");
		/*
		 * The platform may start the shell with another shell, which reports a
		 * missing program in its own way.
		 */
		if (session->framed && r->outcome == SHELLPROTO_ENDED &&
		    (r->exit_code == EXIT_NOT_FOUND || r->exit_code == EXIT_NO_EXEC))
			(void)error_set(
				&err, ENOENT,
				"the image has no such shell, or it does not run");
		if (r->outcome == SHELLPROTO_ENDED && r->exit_code == EXIT_NOT_OURS)
			(void)error_set(
				&err, EOPNOTSUPP,
				"zsh cannot run a session: open one with bash or sh, "
				"and start zsh in the session");
		session->done_opening = true;
		session->open_err = err;
		return;
	}
	if (session->sandbox)
		figure_add(session->service, FIGURE_SESSION, res.wall_usec);
	session->command = NULL;
	session->fresh = false;
	if (c)
		c->result(c, &res);
}

static const struct shellproto_events events = { .output = session_on_output,
						 .result = session_on_result };

/* Return the time in the unit that the kernel uses for start times of processes. */
static uint64_t ticks_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 100 + (uint64_t)ts.tv_nsec / 10000000;
}

/* -------------------------------------------------------------------- commands */

void session_undoable(struct session *session, uint32_t undo)
{
	session->undoable = undo;
}

int session_run(struct session *session, const char *text, size_t n, uint64_t timeout_ms,
		struct session_command *command, struct warren_error *err)
{
	uint64_t from = 0, serial = 0;
	uint32_t undo = session->undoable; /* of this command alone, even if it fails */
	int r;

	session->undoable = 0;
	if (session->ended || !session->sandbox)
		return error_set(err, EPIPE, "the session's shell is gone");
	if (session->opened || shellproto_running(session->codec) ||
	    commands_fd(session) < 0)
		return error_set(err, EBUSY, "a command is running in the session");
	r = 1;
	for (int i = 0; r == 1 && i < EXTENT_TRIES; i++)
		r = exec_extent(session->exec, &from, &session->cursor);
	if (r == 1)
		r = -EAGAIN;
	if (r < 0)
		return error_errno(err, -r, "read the session's output");
	if (!undo)
		undo_spoil(session->sandbox);
	if (session->terminal)
		tidy_terminal(session);
	r = shellproto_feed(session->codec, text, n, &session->out, &serial, err);
	if (r == 0)
		r = db_advance_session(session->service->db, session->row.id, serial,
				       service_time(), err);
	if (r < 0)
		return r;
	session->row.serial = serial;
	session->begun = clock_now();
	session->since = ticks_now();
	session->lost = 0;
	session->step = 0;
	session->stopping = session->timed_out = session->interrupted = session->spoke =
		false;
	session->command = command;
	command->session = session;
	r = exec_watch(session->exec, &session->watcher, err);
	if (r < 0)
		return r;
	if (timeout_ms)
		loop_timer_set(session->timer, timeout_ms);
	sandbox_touch(session->sandbox);
	session_hold(session); /* this must happen before the command can write */
	session->undo = undo;
	undo_started(session->sandbox, undo);
	session_pour(session);
	return 0;
}

bool session_join(struct session *session, struct session_command *command)
{
	if (!shellproto_running(session->codec) || session->command)
		return false;
	session->command = command;
	command->session = session;
	return true;
}

/*
 * No client waits for the command any longer; it continues, and its output is still read.
 */
void session_forget(struct session_command *command)
{
	struct session *session = command->session;

	if (session && session->command == command) {
		session->command = NULL;
		if (command->blocked)
			loop_later(session->service->loop, &session->turn);
	}
	command->session = NULL;
}

/* ------------------------------------------------------ opening and closing a session */

struct session *session_new(struct sandbox *sandbox)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->service = sandbox->service;
	session->sandbox = sandbox;
	session->framed = sandbox->is.base.framed;
	session->out = (struct buf)BUF_INIT(SHELLPROTO_OUT_MAX);
	LIST_PUSH(sandbox_sessions(sandbox)->list, session);
	if (loop_timer_new(sandbox->service->loop, session_on_timer, session,
			   &session->timer) < 0 ||
	    session_read_init(session) < 0 ||
	    loop_timer_new(sandbox->service->loop, session_on_insist, session,
			   &session->insist) < 0) {
		session_free(session);
		return NULL;
	}
	return session;
}

static void make_mark(void *arg, uint64_t serial, uint8_t ret[SHELLPROTO_MARKER_SIZE])
{
	const struct session *session = arg;

	session_marker_make(session->service, session->row.id, serial, ret);
}

static enum shellproto_transport session_transport(const struct session *session)
{
	return session->terminal ? SHELLPROTO_TERMINAL
	       : session->framed ? SHELLPROTO_FRAMED
				 : SHELLPROTO_CONTROL;
}

int session_codec(struct session *session, struct warren_error *err)
{
	int r = shellproto_new(session_transport(session), &events, session,
			       &session->codec, err);

	if (r < 0)
		return r;
	shellproto_name(session->codec, session->row.id);
	shellproto_markers(session->codec, make_mark);
	return 0;
}

int session_write_down(struct session *session, const char *name,
		       struct warren_error *err)
{
	struct session_row row = { .shell = name,
				   .name = session->row.name,
				   .undoable = session->row.undoable,
				   .created_at = service_time(),
				   .last_used = service_time() };
	void *name_before = session->row.block;
	int r;

	(void)memcpy(row.id, session->row.id, sizeof(row.id));
	(void)memcpy(row.sandbox, session->sandbox->row.id, sizeof(row.sandbox));
	(void)memcpy(row.exec, exec_row(session->exec)->id, sizeof(row.exec));
	r = session->recorded ? db_renew_session(session->service->db, &row, err)
			      : db_insert_session(session->service->db, &row, err);
	if (r < 0)
		return r;
	session->recorded = true;
	session_forget_discarded(session);
	r = db_get_session(session->service->db, NULL, row.id, &session->row, err);
	if (r == 0)
		free(name_before);
	return r;
}

static int session_begin(struct session *session, struct exec *exec, const char *name,
			 struct warren_error *err)
{
	int r;

	session->exec = exec_ref(exec);
	r = session_codec(session, err);
	if (r == 0)
		r = session_write_down(session, name, err);
	if (r == 0)
		r = shellproto_start(session->codec, &session->out, err);
	if (r == 0)
		r = exec_watch(exec, &session->watcher, err);
	if (r < 0)
		return r;
	exec_wait(exec, &session->waiter);
	session->begun = clock_now();
	session->brief = true;
	sandbox_begin_brief(session->sandbox);
	loop_timer_set(session->timer, OPEN_MS);
	session_hold(session);
	session_pour(session);
	return 0;
}

/*
 * Is there another shell to try if this one is missing? Not if the client requested this
 * shell.
 */
static bool has_next(const struct session *session, const struct warren_error *failure)
{
	return failure->code == ENOENT && session->sandbox && !session->opening->own &&
	       session->opening->kind + 1 < SHELLPROTO_SHELL_MAX;
}

static void say_none(const struct session *session, struct warren_error *err)
{
	if (err->code == ENOENT && !session->opening->own)
		(void)error_set(err, ENOENT,
				"the image has no shell: neither bash nor sh");
}

void session_reset(struct session *session)
{
	exec_watch_cancel(&session->watcher);
	exec_wait_cancel(&session->waiter);
	exec_hold_cancel(&session->holder);
	session->out_watch = loop_watch_free(session->out_watch);
	loop_timer_stop(session->timer);
	session_end_brief(session);
	if (session->exec) {
		(void)exec_unref(session->discarded);
		session->discarded = TAKE_PTR(session->exec);
	}
	session->codec = shellproto_free(session->codec);
	buf_done(&session->out);
	session->out = (struct buf)BUF_INIT(SHELLPROTO_OUT_MAX);
	session->sent = 0;
	session->cursor = 0;
	session->ended = session->exited = session->done_opening = false;
}

/* The program was not a shell: remove all traces of it, and try the next one. */
static bool session_try_next(struct session *session)
{
	if (!has_next(session, &session->open_err)) {
		say_none(session, &session->open_err);
		return false;
	}
	session_reset(session);
	session->opening->kind++;
	session_try(session);
	return true;
}

/* A hibernation ended the shell before it was ready: begin again when it is over. */
static bool session_try_again(struct session *session)
{
	if (!session->open_err.code || !session->sandbox || !session->exec ||
	    exec_row(session->exec)->ended_by == EXEC_BY_ITSELF ||
	    session->tries++ == OPEN_TRIES)
		return false;
	session_reset(session);
	session_try(session);
	return true;
}

/* Opening failed: remove the session completely, unless it was open before. */
static void fail_open(struct session *session, const struct warren_error *failure)
{
	struct warren_error err = *failure;

	if (session->fresh) {
		session_renew_fail(session, &err);
		return;
	}
	finish_open(session, &err);
	session_free(session);
}

/* The program was started, but it is no shell, or not ready in time. */
static void session_fail_shell(struct session *session,
			       const struct warren_error *failure)
{
	if (!exec_row(session->exec)->ended && !exec_lost(session->exec))
		exec_signal(session->exec, SIGKILL, WARREN_WHOM_TREE, service_ignore,
			    NULL);
	fail_open(session, failure);
}

void session_after_reading(struct session *session)
{
	if (!session->opened || !session->done_opening || session_try_again(session) ||
	    session_try_next(session))
		return;
	if (session->open_err.code)
		session_fail_shell(session, &session->open_err);
	else
		finish_open(session, NULL);
}

void session_open_late(struct session *session)
{
	struct warren_error err = WARREN_ERROR_INIT;

	(void)error_set(
		&err, ETIMEDOUT,
		"'%s' was not ready after %d s: a session needs bash or a POSIX sh, "
		"such as dash or busybox sh",
		session->opening->argv[0], OPEN_MS / 1000);
	session_fail_shell(session, &err);
}

static void on_session(void *ctx, struct exec *exec, const struct warren_error *failure)
{
	struct session *session = ctx;
	struct warren_error err = WARREN_ERROR_INIT;

	if (!exec && has_next(session, failure)) {
		session->opening->kind++;
		session_try(session);
		return;
	}
	if (exec && session->exec) {
		/* The session gets a new shell, and needs the old one if that fails. */
		session->before = TAKE_PTR(session->exec);
		session->shell_before = strdup(session->row.shell);
		session_reset(session);
	}
	if (!exec) {
		err = *failure;
		say_none(session, &err);
	} else if (session_begin(session, exec, session->opening->argv[0], &err) < 0) {
		exec_signal(exec, SIGKILL, WARREN_WHOM_TREE, service_ignore, NULL);
	}
	if (err.code)
		fail_open(session, &err);
}

void session_try(struct session *session)
{
	struct opening *o = session->opening;
	struct exec_start start = o->start;
	const char *const *argv = shellproto_argv(session_transport(session), o->kind);
	size_t n = 0;

	for (; argv[n] && n + 1 < ARRAY_SIZE(o->argv); n++)
		o->argv[n] = argv[n];
	o->argv[n] = NULL;
	if (o->own)
		o->argv[0] = o->own;
	start.argv = o->argv;
	exec_start(session->sandbox, &start, on_session, session);
}

static uint64_t kept_of(const struct service *s, const struct exec_start *start)
{
	return start->journal ? start->journal : exec_journal_default(s);
}

void session_open(struct sandbox *sandbox, const struct exec_start *start,
		  const char *shell, session_fn done, void *ctx)
{
	struct opening *o = calloc(1, sizeof(*o));
	struct session *session = o ? session_new(sandbox) : NULL;
	struct warren_error err = WARREN_ERROR_INIT;
	const char *name = shell && strrchr(shell, '/') ? strrchr(shell, '/') + 1 : shell;

	if (!session || (shell && !(o->own = strdup(shell))) ||
	    (start->name && !(session->row.block = strdup(start->name))) ||
	    exec_start_copy(&o->start, start) < 0) {
		if (session)
			session_free(session);
		opening_free(o);
		(void)error_errno(&err, ENOMEM, "open a session");
		done(ctx, NULL, &err);
		return;
	}
	id_make(session->row.id);
	session->opened = done;
	session->ctx = ctx;
	session->opening = o;
	session->row.name = session->row.block;
	session->row.undoable = start->undoable;
	session->terminal = start->pty;
	session->framed |= start->pty;
	o->start.name = NULL;
	o->start.undoable = false; /* its commands are, not its shell */
	o->start.control = !session->framed;
	o->start.input = session->framed;
	o->start.session = true;
	if (session->framed && !start->pty &&
	    kept_of(session->service, start) < FRAMED_LEAST)
		o->start.journal = FRAMED_LEAST;
	o->kind = name && strcmp(name, "bash") != 0 ? SHELLPROTO_SH : SHELLPROTO_BASH;
	session_try(session);
}

/* Return 0 even if the end was already recorded because the sandbox has failed. */
static int session_record_end(const struct session *session, struct warren_error *err)
{
	AUTO_EVENT_TX struct event_tx tx = { 0 };
	int r = event_begin(session->service, &tx, err);

	if (r == 0)
		r = db_delete_session(session->service->db, session->row.id, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	event_emit(session->service, EVENT_SESSION_CLOSED, session->sandbox,
		   session->row.id, NULL);
	return event_commit(&tx, err);
}

void session_close(struct session *session, service_done_fn done, void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct exec *exec = session->exec;

	if (session->opened) {
		session->close_late = true;
		done(ctx, 0, NULL);
		return;
	}
	survive(session->service, session_record_end(session, &err));
	if (session->command) {
		struct session_command *c = session->command;
		struct session_result res = { .serial = session->row.serial,
					      .exit_code = -1,
					      .interrupted = true,
					      .ended = true };

		session->command = NULL;
		c->result(c, &res);
	}
	/* Otherwise, the exec is deleted when it ends. */
	if (exec_row(exec)->ended && session->sandbox)
		exec_forget_closed(session->sandbox, exec_row(exec)->id,
				   exec_row(exec)->journal);
	if (exec_row(exec)->ended || exec_lost(exec))
		done(ctx, 0, NULL);
	else
		session_end_shell(exec, done, ctx);
	session_free(session);
}

/* The sandbox is gone. The exec has reported this to waiting clients. */
void session_sandbox_gone(struct sandbox *sandbox)
{
	while (sandbox_sessions(sandbox)->list)
		session_free(sandbox_sessions(sandbox)->list);
}
