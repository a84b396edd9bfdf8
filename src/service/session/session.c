/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - sessions: shells whose state carries from command to command
 *
 * A session is an exec whose shell takes commands from a pipe and reports results
 * as stream 3 of its journal (src/shellproto is what is said; init sees to the order
 * of the streams). Where an exec has three streams and no more, commands go to its
 * stdin, and results are in its output, behind marks (session_marker.c). While a command runs the journal is read from where it ended
 * before (session_read.c); between commands nobody reads, and what jobs in the background write
 * is in the journal for whoever asks.
 * How a command is stopped is in session_stop.c.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <time.h>

#include "base/clock.h"
#include "service/session/session_internal.h"

/*
 * The end of a command is marked on both of its streams, which come by different ways: on one of them as much may
 * still come as all pipes on the way hold, and must not drive the other's mark out of the journal.
 */
#define FRAMED_LEAST (1U << 20)

#define EXIT_NO_EXEC   126 /* as a shell says that there is no such program, */
#define EXIT_NOT_FOUND 127 /* or that it is none */
#define EXIT_NOT_OURS  SESSION_EXIT_REFUSED
#define OPEN_MS        15000 /* for a shell to be ready; one that is not ours never is */
#define EXTENT_TRIES   16    /* to find where it ends, of an init that does not tell */

/* ------------------------------------------------------------------- life */

static void opening_free(struct opening *o)
{
	if (o) {
		free(o->own);
		run_start_done(&o->start);
	}
	free(o);
}

void shell_free(struct shell *sh)
{
	struct shell **p;

	if (sh->box) {
		for (p = &sh->box->shells; *p && *p != sh; p = &(*p)->next)
			;
		if (*p)
			*p = sh->next;
	}
	console_shell_gone(sh->console);
	run_watch_cancel(&sh->watcher);
	run_wait_cancel(&sh->waiter);
	sh->out_watch = loop_watch_free(sh->out_watch);
	sh->timer = loop_timer_free(sh->timer);
	shell_read_done(sh);
	sh->insist = loop_timer_free(sh->insist);
	(void)run_unref(sh->run);
	sh->codec = session_free(sh->codec);
	buf_done(&sh->out);
	session_row_done(&sh->row);
	opening_free(sh->opening);
	free(sh->cwd);
	free(sh);
}

struct shell *shell_find(struct box *box, const char *id)
{
	for (struct shell *sh = box->shells; sh; sh = sh->next)
		if (strcmp(sh->row.id, id) == 0 && !sh->opened)
			return sh;
	return NULL;
}

struct shell *shell_next(struct box *box, struct shell *after)
{
	struct shell *sh = after ? after->next : box->shells;

	while (sh && sh->opened)
		sh = sh->next;
	return sh;
}

struct shell *shell_named(struct box *box, const char *name)
{
	for (struct shell *sh = box->shells; sh; sh = sh->next)
		if (sh->row.name && strcmp(sh->row.name, name) == 0)
			return sh;
	return NULL;
}

bool shell_is_open(const struct shell *sh)
{
	return !sh->opened;
}

struct console **shell_console(struct shell *sh)
{
	return &sh->console;
}

struct box *shell_box(const struct shell *sh)
{
	return sh->box;
}

const struct session_row *shell_row(const struct shell *sh)
{
	return &sh->row;
}

uint64_t shell_number(const struct shell *sh)
{
	return run_row(sh->run)->number;
}

uint64_t shell_cursor(const struct shell *sh)
{
	return sh->cursor;
}

const char *shell_cwd(const struct shell *sh)
{
	return sh->cwd;
}

const char *shell_state(const struct shell *sh)
{
	return sh->ended ? "ended" : session_running(sh->codec) ? "busy" : "idle";
}

/* ----------------------------------------------------------------- to the shell */

static void on_room(void *ctx, unsigned events UNUSED)
{
	shell_pour(ctx);
}

/* Where commands go; -1: nowhere. */
static int commands_fd(const struct shell *sh)
{
	return sh->framed ? sh->run->input : run_poke_fd(sh->run);
}

void shell_pour(struct shell *sh)
{
	if (sh->stops > 0) { /* the last of them goes on here */
		sh->out_watch = loop_watch_free(sh->out_watch);
		return;
	}
	while (sh->sent < sh->out.len) {
		ssize_t n = write(commands_fd(sh), sh->out.data + sh->sent,
				  sh->out.len - sh->sent);

		if (n < 0 && errno == EAGAIN) {
			if (!sh->out_watch)
				(void)loop_watch(sh->service->loop, commands_fd(sh),
						 LOOP_WRITE, on_room, sh, &sh->out_watch);
			return;
		}
		if (n < 0 && errno != EINTR)
			break; /* its end is told by the exec's */
		sh->sent += n > 0 ? (size_t)n : 0;
	}
	sh->out_watch = loop_watch_free(sh->out_watch);
	buf_done(&sh->out);
	sh->out = (struct buf)BUF_INIT(SESSION_OUT_MAX);
	sh->sent = 0;
}

/*
 * A program that was killed may have left the terminal as it needed it. Where ours only leads to
 * another (a daemon's, another machine's), it stays raw, and the other is as the shell was told
 * at its start.
 */
static void tidy_terminal(const struct shell *sh)
{
	const struct box *box = sh->run->box;
	struct termios t;

	if (!box || box->is.base.framed || tcgetattr(sh->run->input, &t) < 0)
		return;
	t.c_iflag |= ICRNL;
	t.c_oflag |= OPOST | ONLCR;
	t.c_lflag |= ICANON | ISIG | IEXTEN | NOFLSH;
	t.c_lflag &= ~(tcflag_t)ECHO;
	(void)tcsetattr(sh->run->input, TCSANOW, &t);
}

void shell_type(struct shell *sh, const char *text, size_t n)
{
	if (!sh->terminal || commands_fd(sh) < 0)
		return;
	buf_add(&sh->out, text, n);
	shell_pour(sh);
}

/* --------------------------------------------------------------- from the shell */

static void on_output(void *arg, enum session_stream stream, const void *data, size_t n)
{
	struct shell *sh = arg;

	sh->spoke = true;
	if (sh->command)
		sh->command->output(sh->command, stream == SESSION_STDERR ? 2 : 1, data,
				    n);
}

static void finish_open(struct shell *sh, const struct warren_error *err)
{
	shell_fn opened = sh->opened;
	void *ctx = sh->ctx;

	sh->opened = NULL;
	if (err) {
		struct warren_error ignored = WARREN_ERROR_INIT;
		int r = db_delete_session(sh->service->db, sh->row.id, &ignored);

		/* Nobody heard of it, be it that its shell was started. */
		survive(sh->service, r == -ENOENT ? 0 : r);
		opened(ctx, NULL, err);
		return;
	}
	event_emit(sh->service, EVENT_SESSION_OPENED, sh->box, sh->row.id, NULL);
	opened(ctx, sh, NULL);
}

static void on_result(void *arg, const struct session_result *r)
{
	struct shell *sh = arg;
	struct shell_command *c = sh->command;
	struct shell_result res = {
		.serial = r->serial,
		.exit_code = r->exit_code,
		.cwd = r->cwd,
		.lost = sh->lost,
		.wall_usec = (clock_now() - sh->begun) / 1000,
		.timed_out = sh->timed_out,
		.interrupted = sh->interrupted,
		.syntax_error = r->outcome == SESSION_SYNTAX,
		.ended = r->outcome == SESSION_ENDED,
	};

	if (r->cwd) {
		free(sh->cwd);
		sh->cwd = strdup(r->cwd);
	}
	sh->ended = sh->ended || res.ended;
	sh->stopping = false;
	shell_hold_end(sh);
	if (sh->timer)
		loop_timer_stop(sh->timer);
	if (sh->insist)
		loop_timer_stop(sh->insist);
	run_watch_cancel(&sh->watcher);
	if (sh->opened) {
		struct warren_error err = WARREN_ERROR_INIT;

		if (r->outcome != SESSION_READY)
			(void)error_set(&err, EPIPE,
					"the shell ended before it was ready");
		/* What starts it elsewhere may be a shell, too, and says it in its way. */
		if (sh->framed && r->outcome == SESSION_ENDED &&
		    (r->exit_code == EXIT_NOT_FOUND || r->exit_code == EXIT_NO_EXEC))
			(void)error_set(
				&err, ENOENT,
				"the image has no such shell, or it does not run");
		if (r->outcome == SESSION_ENDED && r->exit_code == EXIT_NOT_OURS)
			(void)error_set(&err, EOPNOTSUPP,
					"zsh cannot run a session: open one with bash or "
					"sh, and start zsh in it");
		sh->done_opening = true;
		sh->open_err = err;
		return;
	}
	if (sh->box)
		figure_add(sh->service, FIGURE_SESSION, res.wall_usec);
	sh->command = NULL;
	if (c)
		c->result(c, &res);
}

static const struct session_events events = { .output = on_output, .result = on_result };

/* As the kernel counts the start of processes. */
static uint64_t ticks_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 100 + (uint64_t)ts.tv_nsec / 10000000;
}

/* -------------------------------------------------------------------- running */

int shell_run(struct shell *sh, const char *text, size_t n, uint64_t timeout_ms,
	      struct shell_command *command, struct warren_error *err)
{
	uint64_t from = 0, serial = 0;
	int r;

	if (sh->ended || !sh->box)
		return error_set(err, EPIPE, "the session's shell is gone");
	if (session_running(sh->codec) || commands_fd(sh) < 0)
		return error_set(err, EBUSY, "a command runs in the session");
	r = 1;
	for (int i = 0; r == 1 && i < EXTENT_TRIES; i++)
		r = run_extent(sh->run, &from, &sh->cursor);
	if (r == 1)
		r = -EAGAIN;
	if (r < 0)
		return error_errno(err, -r, "read the session's output");
	if (sh->terminal)
		tidy_terminal(sh);
	r = session_feed(sh->codec, text, n, &sh->out, &serial, err);
	if (r == 0)
		r = db_advance_session(sh->service->db, sh->row.id, serial,
				       service_time(), err);
	if (r < 0)
		return r;
	sh->row.serial = serial;
	sh->begun = clock_now();
	sh->since = ticks_now();
	sh->lost = 0;
	sh->step = 0;
	sh->stopping = sh->timed_out = sh->interrupted = sh->spoke = false;
	sh->command = command;
	command->shell = sh;
	r = run_watch(sh->run, &sh->watcher, err);
	if (r < 0)
		return r;
	if (timeout_ms)
		loop_timer_set(sh->timer, timeout_ms);
	box_touch(sh->box);
	shell_hold(sh); /* before it can write */
	shell_pour(sh);
	return 0;
}

bool shell_join(struct shell *sh, struct shell_command *command)
{
	if (!session_running(sh->codec) || sh->command)
		return false;
	sh->command = command;
	command->shell = sh;
	return true;
}

/* Nobody waits for it any more; it runs on, and so does the reading of its output. */
void shell_forget(struct shell_command *command)
{
	struct shell *sh = command->shell;

	if (sh && sh->command == command) {
		sh->command = NULL;
		if (command->blocked)
			loop_later(sh->service->loop, &sh->turn);
	}
	command->shell = NULL;
}

/* -------------------------------------------------------------------- opening */

struct shell *shell_new(struct box *box)
{
	struct shell *sh = calloc(1, sizeof(*sh));

	if (!sh)
		return NULL;
	sh->service = box->service;
	sh->box = box;
	sh->framed = box->is.base.framed;
	sh->out = (struct buf)BUF_INIT(SESSION_OUT_MAX);
	sh->next = box->shells;
	box->shells = sh;
	if (loop_timer_new(box->service->loop, shell_on_timer, sh, &sh->timer) < 0 ||
	    shell_read_init(sh) < 0 ||
	    loop_timer_new(box->service->loop, shell_on_insist, sh, &sh->insist) < 0) {
		shell_free(sh);
		return NULL;
	}
	return sh;
}

static void make_mark(void *arg, uint64_t serial, uint8_t ret[SESSION_MARKER_SIZE])
{
	const struct shell *sh = arg;

	marker_make(sh->service, sh->row.id, serial, ret);
}

static enum session_transport transport(const struct shell *sh)
{
	return sh->terminal ? SESSION_TERMINAL
	       : sh->framed ? SESSION_FRAMED
			    : SESSION_CONTROL;
}

int shell_codec(struct shell *sh, struct warren_error *err)
{
	int r = session_new(transport(sh), &events, sh, &sh->codec, err);

	if (r < 0)
		return r;
	session_name(sh->codec, sh->row.id);
	session_markers(sh->codec, make_mark);
	return 0;
}

static void try_shell(struct shell *sh);

static int write_down(struct shell *sh, const char *name, struct warren_error *err)
{
	struct session_row row = { .shell = name,
				   .name = sh->row.name,
				   .created_at = service_time(),
				   .last_used = service_time() };
	void *name_before = sh->row.block;
	int r;

	(void)memcpy(row.id, sh->row.id, sizeof(row.id));
	(void)memcpy(row.sandbox, sh->box->row.id, sizeof(row.sandbox));
	(void)memcpy(row.exec, sh->run->row.id, sizeof(row.exec));
	r = db_insert_session(sh->service->db, &row, err);
	if (r == 0)
		r = db_get_session(sh->service->db, NULL, row.id, &sh->row, err);
	if (r == 0)
		free(name_before);
	return r;
}

static int begin(struct shell *sh, struct run *run, const char *name,
		 struct warren_error *err)
{
	int r;

	sh->run = run_ref(run);
	r = shell_codec(sh, err);
	if (r == 0)
		r = write_down(sh, name, err);
	if (r == 0)
		r = session_start(sh->codec, &sh->out, err);
	if (r == 0)
		r = run_watch(run, &sh->watcher, err);
	if (r < 0)
		return r;
	run_wait(run, &sh->waiter);
	sh->begun = clock_now();
	loop_timer_set(sh->timer, OPEN_MS);
	shell_hold(sh);
	shell_pour(sh);
	return 0;
}

/* Is there another shell to try after one that is not there? Not where it was asked for. */
static bool has_next(const struct shell *sh, const struct warren_error *failure)
{
	return failure->code == ENOENT && sh->box && !sh->opening->own &&
	       sh->opening->kind + 1 < SESSION_SHELL_MAX;
}

static void say_none(const struct shell *sh, struct warren_error *err)
{
	if (err->code == ENOENT && !sh->opening->own)
		(void)error_set(err, ENOENT,
				"the image has no shell: neither bash nor sh");
}

/* It was started, and was none: as if it had not been. */
static bool try_next(struct shell *sh)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (!has_next(sh, &sh->open_err)) {
		say_none(sh, &sh->open_err);
		return false;
	}
	run_watch_cancel(&sh->watcher);
	run_wait_cancel(&sh->waiter);
	run_hold_cancel(&sh->holder);
	sh->out_watch = loop_watch_free(sh->out_watch);
	survive(sh->service, db_delete_session(sh->service->db, sh->row.id, &ignored));
	sh->run = run_unref(sh->run);
	sh->codec = session_free(sh->codec);
	buf_done(&sh->out);
	sh->out = (struct buf)BUF_INIT(SESSION_OUT_MAX);
	sh->sent = 0;
	sh->cursor = 0;
	sh->ended = sh->done_opening = false;
	sh->opening->kind++;
	try_shell(sh);
	return true;
}

/* It is none: nothing of it stays. */
static void fail_open(struct shell *sh, const struct warren_error *failure)
{
	struct warren_error err = *failure, ignored = WARREN_ERROR_INIT;

	survive(sh->service, db_delete_session(sh->service->db, sh->row.id, &ignored));
	if (!run_row(sh->run)->ended && !run_lost(sh->run))
		run_signal(sh->run, SIGKILL, WARREN_WHOM_TREE, service_ignore, NULL);
	finish_open(sh, &err);
	shell_free(sh);
}

void shell_after_reading(struct shell *sh)
{
	if (!sh->opened || !sh->done_opening || try_next(sh))
		return;
	if (sh->open_err.code)
		fail_open(sh, &sh->open_err);
	else
		finish_open(sh, NULL);
}

void shell_open_late(struct shell *sh)
{
	struct warren_error err = WARREN_ERROR_INIT;

	(void)error_set(
		&err, ETIMEDOUT,
		"'%s' was not ready after %d s: a session needs bash, or an sh that "
		"keeps to POSIX, such as dash or busybox's",
		sh->opening->argv[0], OPEN_MS / 1000);
	fail_open(sh, &err);
}

static void on_shell(void *ctx, struct run *run, const struct warren_error *failure)
{
	struct shell *sh = ctx;
	struct warren_error err = WARREN_ERROR_INIT;

	if (!run && has_next(sh, failure)) {
		sh->opening->kind++;
		try_shell(sh);
		return;
	}
	if (!run) {
		err = *failure;
		say_none(sh, &err);
	} else if (begin(sh, run, sh->opening->argv[0], &err) < 0) {
		run_signal(run, SIGKILL, WARREN_WHOM_TREE, service_ignore, NULL);
	}
	if (err.code) {
		finish_open(sh, &err);
		shell_free(sh);
	}
}

static void try_shell(struct shell *sh)
{
	struct opening *o = sh->opening;
	struct run_start start = o->start;
	const char *const *argv = session_argv(transport(sh), o->kind);
	size_t n = 0;

	for (; argv[n] && n + 1 < ARRAY_SIZE(o->argv); n++)
		o->argv[n] = argv[n];
	o->argv[n] = NULL;
	if (o->own)
		o->argv[0] = o->own;
	start.argv = o->argv;
	run_start(sh->box, &start, on_shell, sh);
}

static uint64_t kept_of(const struct service *s, const struct run_start *start)
{
	return start->journal ? start->journal : s->journal_default;
}

void shell_open(struct box *box, const struct run_start *start, const char *shell,
		shell_fn done, void *ctx)
{
	struct opening *o = calloc(1, sizeof(*o));
	struct shell *sh = o ? shell_new(box) : NULL;
	struct warren_error err = WARREN_ERROR_INIT;
	const char *name = shell && strrchr(shell, '/') ? strrchr(shell, '/') + 1 : shell;

	if (!sh || (shell && !(o->own = strdup(shell))) ||
	    (start->name && !(sh->row.block = strdup(start->name))) ||
	    run_start_copy(&o->start, start) < 0) {
		if (sh)
			shell_free(sh);
		opening_free(o);
		(void)error_errno(&err, ENOMEM, "open a session");
		done(ctx, NULL, &err);
		return;
	}
	id_make(sh->row.id);
	sh->opened = done;
	sh->ctx = ctx;
	sh->opening = o;
	sh->row.name = sh->row.block;
	sh->terminal = start->pty;
	sh->framed |= start->pty;
	o->start.name = NULL;
	o->start.control = !sh->framed;
	o->start.input = sh->framed;
	o->start.session = true;
	if (sh->framed && !start->pty && kept_of(sh->service, start) < FRAMED_LEAST)
		o->start.journal = FRAMED_LEAST;
	o->kind = name && strcmp(name, "bash") != 0 ? SESSION_SH : SESSION_BASH;
	try_shell(sh);
}

/* 0 also if it was told before: its sandbox has failed. */
static int shell_record_end(const struct shell *sh, struct warren_error *err)
{
	AUTO_EVENT_TX struct event_tx tx = { 0 };
	int r = event_begin(sh->service, &tx, err);

	if (r == 0)
		r = db_delete_session(sh->service->db, sh->row.id, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	event_emit(sh->service, EVENT_SESSION_CLOSED, sh->box, sh->row.id, NULL);
	return event_commit(&tx, err);
}

void shell_close(struct shell *sh, service_done_fn done, void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct run *run = sh->run;

	survive(sh->service, shell_record_end(sh, &err));
	if (sh->command) {
		struct shell_command *c = sh->command;
		struct shell_result res = { .serial = sh->row.serial,
					    .exit_code = -1,
					    .interrupted = true,
					    .ended = true };

		sh->command = NULL;
		c->result(c, &res);
	}
	/* Else it is forgotten when it ends. */
	if (run_row(run)->ended && sh->box)
		journals_forget_closed(sh->box, run_row(run)->id, run_row(run)->journal);
	if (run_row(run)->ended || run_lost(run))
		done(ctx, 0, NULL);
	else
		run_signal(run, SIGKILL, WARREN_WHOM_TREE, done, ctx);
	shell_free(sh);
}

/* Their sandbox is gone: whoever waits has heard by way of the exec. */
void shell_box_gone(struct box *box)
{
	while (box->shells)
		shell_free(box->shells);
}
