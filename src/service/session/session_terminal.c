/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_terminal.c - type into a shell, and wait for output
 *
 * All output of the terminal is appended to the screen. An act takes the screen up to its
 * own end. Later output belongs to the next act, as does the output of an act that
 * failed.
 *
 * The first act in the list is under way; it may have to wait for the shell before it
 * begins. An interrupt is not in the list.
 *
 * Literal texts are searched as soon as output arrives. A client's regular expression on
 * endless output could take too long, so such searches take turns, and each handles only
 * a part of the output at a time (look.c). After a timeout, the remaining output is
 * searched once more before the timeout is reported.
 */
#include "service/session/session_terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "service/core/undo.h"
#include "service/session/expect.h"
#include "service/session/internal.h"
#include "service/session/look.h"

#define CODE_MS 1000 /* time for the end of a command after the expected output */
#define KILL_MS 1000 /* time for the end of a killed command */
#define INTR    "\003"

#define HOLES_MAX   4096 /* bytes reserved for texts that report missing output */
#define SCREEN_ROOM (CONSOLE_SCREEN_MAX + HOLES_MAX)
/*
 * All tenants share the memory for screens, so large screens are charged, in steps of
 * this size.
 */
#define SCREEN_SMALL (256U << 10)
#define SCREEN_STEP  (4U << 20)

/* Number of new bytes after which a regular expression is searched again. */
#define LOOK_BYTES 4096U
#define LOOK_LAST  5000000 /* time for the last search of a command, in ns */

#define COPY_BYTES (1U << 20) /* number of bytes of the screen to copy at once */
#define WAIT_MAX   64         /* maximum number of acts that wait in a session */

struct act {
	struct act *next;
	struct session_terminal *session_terminal;
	enum session_terminal_kind kind;
	struct expect *expect;
	int64_t timeout_ms;
	unsigned tries, tried;
	bool wants_code;
	bool begun;
	bool waited;  /* the act had to wait for its turn */
	bool late;    /* its time is over, but some output has not been searched */
	int expected; /* -1: nothing was found yet */
	size_t upto;  /* position of the expected text on the screen */
	struct loop_timer *timer;
	void (*done)(void *ctx, const struct session_terminal_result *r);
	void *ctx;
	/*
	 * The act has ended, but its output is still being copied from the screen. Other
	 * acts may append to the screen, and may take output from it after the copy.
	 */
	bool finishing;
	struct session_terminal_result result;
	struct buf part;
	struct fair_quota_lease lease; /* memory of the copy */
	size_t shown, taken;           /* number of bytes of the screen */
	struct act *next_copy;
	struct loop_task copying;
	struct permit permit;
	size_t size;
	char text[];
};

struct session_terminal {
	struct session *session;
	struct service *service;
	struct session_command command;
	bool running;
	struct buf screen;
	char tenant[DB_NAME_MAX + 1];  /* the owner of the sandbox; a copy, because the
					  sandbox may be deleted first */
	struct fair_quota_lease lease; /* memory of the screen beyond SCREEN_SMALL */
	size_t seen;                   /* number of bytes that were searched */
	uint64_t dropped; /* number of bytes at the end for which there was no room */
	uint64_t missing; /* number of missing bytes; a text on the screen shows where */
	struct act *acts; /* the first act is in progress */
	struct act *interrupt; /* NULL: none */
	struct act *copies;    /* acts that are finishing */
	struct loop_task task; /* starts the next act */
	struct look look;      /* searches new output */
	int exit_code;         /* exit code of the last command */
};

static void begin_next(struct session_terminal *c);

/* ----------------------------------------------------------------------- acts */

static void act_free(struct act *a)
{
	loop_task_cancel(&a->copying);
	buf_done(&a->part);
	fair_quota_end(&service_sessions(a->session_terminal->service)->screens,
		       &a->lease);
	a->expect = expect_free(a->expect);
	a->timer = loop_timer_free(a->timer);
	free(a);
}

/*
 * Reserve memory for a screen, or a copy of it, of @size bytes. On success, the lease has
 * at least this size.
 */
static bool lease_screen(struct session_terminal *c, size_t size,
			 struct fair_quota_lease *lease)
{
	uint64_t steps = (size + SCREEN_STEP - 1) / SCREEN_STEP * SCREEN_STEP;

	if (size <= SCREEN_SMALL || size <= lease->n)
		return true;
	return fair_quota_lease(&service_sessions(c->service)->screens, c->tenant, steps,
				lease) == 0;
}

struct fair_quota *service_screens(struct service *s)
{
	return &service_sessions(s)->screens;
}

/* Return how many of @n more bytes fit. */
static size_t screen_room(struct session_terminal *c, size_t n)
{
	size_t has = c->screen.len, most = c->lease.n;

	if (has >= CONSOLE_SCREEN_MAX)
		return 0;
	if (n > CONSOLE_SCREEN_MAX - has)
		n = CONSOLE_SCREEN_MAX - has;
	if (lease_screen(c, has + n, &c->lease))
		return n;
	most = most > SCREEN_SMALL ? most : SCREEN_SMALL;
	return most > has ? most - has : 0;
}

/* Copy a slice of the output of @a. Return false if there is no more. */
static bool copy_screen(struct act *a, size_t most)
{
	size_t left = a->shown - a->part.len;

	if (left > 0)
		buf_add(&a->part, a->session_terminal->screen.data + a->part.len,
			left < most ? left : most);
	return a->part.len < a->shown && !a->part.failed;
}

/* The first @n bytes of the screen will be removed: finish all copies of them now. */
static void settle_copies(struct session_terminal *c, size_t n)
{
	for (struct act *a = n > 0 ? c->copies : NULL; a; a = a->next_copy) {
		(void)copy_screen(a, SIZE_MAX);
		a->taken -= a->taken < n ? a->taken : n;
	}
}

/* Remove the first @n bytes from the screen. */
static void take_screen(struct session_terminal *c, size_t n)
{
	settle_copies(c, n);
	c->screen.len -= n;
	if (c->screen.len > 0)
		(void)memmove(c->screen.data, c->screen.data + n, c->screen.len);
	c->seen = 0;
	c->dropped = c->missing = 0;
	if (c->screen.len > 0)
		return;
	/* The lease ends with the memory, not before. */
	if (c->screen.cap > SCREEN_SMALL) {
		buf_done(&c->screen);
		c->screen = (struct buf)BUF_INIT(SCREEN_ROOM);
	}
	fair_quota_end(&service_sessions(c->service)->screens, &c->lease);
}

static void session_terminal_unlist(struct session_terminal *c, struct act *a)
{
	(void)LIST_REMOVE_BY(c->copies, a, next_copy);
	if (c->interrupt == a) {
		c->interrupt = NULL;
		return;
	}
	(void)LIST_REMOVE(c->acts, a);
}

/* Write the number of missing bytes as text at their position, because a terminal has no
 * other way to report it. */
static void session_terminal_put_hole(struct buf *out, uint64_t n)
{
	buf_printf(out, "\n[%ju bytes of output were dropped here]\n", (uintmax_t)n);
}

void session_terminal_plain(struct buf *out, const struct buf *screen, uint64_t cut)
{
	expect_plain(out, screen->data ? screen->data : "", screen->len);
	if (cut > 0)
		session_terminal_put_hole(out, cut);
}

/* All output of the act has been copied. */
static void finish_now(struct act *a)
{
	struct session_terminal *c = a->session_terminal;
	size_t taken = a->taken;

	session_terminal_unlist(c, a);
	if (taken > 0)
		take_screen(c, taken < c->screen.len ? taken : c->screen.len);
	loop_defer(c->service->loop, &c->task);
	a->result.screen = &a->part;
	a->result.lease = &a->lease;
	a->done(a->ctx, &a->result);
	act_free(a);
}

static void on_copy(void *ctx)
{
	struct act *a = ctx;

	if (copy_screen(a, COPY_BYTES))
		loop_later(a->session_terminal->service->loop, &a->copying);
	else
		finish_now(a);
}

/* The act has ended, but its output has not been copied. */
static void finish_begin(struct act *a, enum session_terminal_outcome outcome,
			 size_t shown, size_t taken)
{
	struct session_terminal *c = a->session_terminal;

	a->finishing = true;
	a->result = (struct session_terminal_result){
		.outcome = outcome,
		.expected = a->expected,
		.exit_code = c->running ? -1 : c->exit_code,
		.cut = shown == c->screen.len ? c->dropped : 0,
		.dropped = c->dropped + c->missing
	};
	a->part = (struct buf)BUF_INIT(SCREEN_ROOM);
	a->shown = shown;
	a->taken = taken;
	a->copying = (struct loop_task){ .fn = on_copy, .ctx = a };
	a->next_copy = c->copies;
	c->copies = a;
	loop_timer_stop(a->timer);
}

/*
 * Reserve memory for a copy of the output, in addition to the screen. If there is not
 * enough memory for both, the end of the output is dropped.
 */
static void lease_copy(struct act *a)
{
	if (lease_screen(a->session_terminal, a->shown, &a->lease))
		return;
	a->result.cut += a->shown - SCREEN_SMALL;
	a->shown = SCREEN_SMALL;
}

/*
 * Report the end; @shown bytes of the screen are its output, and @taken bytes are
 * removed. If the output is the whole screen, nothing is copied. If it is large, it is
 * copied in slices, and the end is reported later.
 */
static void session_terminal_finish(struct act *a, enum session_terminal_outcome outcome,
				    size_t shown, size_t taken)
{
	struct session_terminal *c = a->session_terminal;

	if (taken > 0 && taken == c->screen.len) {
		settle_copies(c, taken);
		finish_begin(a, outcome, shown, 0);
		a->part = c->screen;
		a->part.len = shown;
		a->lease = c->lease;
		c->lease = (struct fair_quota_lease){ 0 };
		c->screen = (struct buf)BUF_INIT(SCREEN_ROOM);
		take_screen(c, 0);
	} else {
		finish_begin(a, outcome, shown, taken);
		lease_copy(a);
	}
	on_copy(a);
}

static void finish_at_once(struct act *a, enum session_terminal_outcome outcome)
{
	if (!a->finishing) {
		finish_begin(a, outcome, a->begun ? a->session_terminal->screen.len : 0,
			     0);
		lease_copy(a);
	}
	(void)copy_screen(a, SIZE_MAX);
	finish_now(a);
}

/* ---------------------------------------------------------------- output of the shell */

static bool session_terminal_expects(const struct act *a)
{
	return a && a->begun && a->expected < 0 && !a->finishing;
}

/* Search the screen up to @upto for what @a expects. */
static void session_terminal_look(struct session_terminal *c, struct act *a, size_t upto)
{
	size_t from, to;

	if (!session_terminal_expects(a))
		return;
	a->expected = expect_find(a->expect, c->screen.data, upto, c->seen, &from, &to);
	if (a->expected < 0)
		return;
	a->upto = from;
	if (a->wants_code && c->running)
		loop_timer_set(a->timer, CODE_MS);
	else
		session_terminal_finish(a, CONSOLE_EXPECTED, from, to);
}

static bool is_costly(const struct act *a)
{
	return session_terminal_expects(a) && !expect_is_text(a->expect);
}

/* Return true if there is more to search. Output that one act has taken is not given to
 * another. */
static bool look_on(struct session_terminal *c, size_t most)
{
	size_t left = c->screen.len - c->seen,
	       upto = c->seen + (left < most ? left : most);

	session_terminal_look(c, c->acts, upto);
	upto = upto < c->screen.len ? upto : c->screen.len;
	session_terminal_look(c, c->interrupt, upto);
	c->seen = upto < c->screen.len ? upto : c->screen.len;
	return c->seen < c->screen.len;
}

/*
 * It is this session's turn to search. An act whose time is over searches once more, and
 * then reports the timeout.
 */
static void on_looking(void *ctx)
{
	struct session_terminal *c = ctx;
	struct act *late = c->acts && c->acts->late ? c->acts : NULL;
	uint64_t until = clock_now() + LOOK_LAST;
	bool more = look_on(c, LOOK_BYTES);

	while (late && more && c->acts == late && session_terminal_expects(late) &&
	       clock_now() < until)
		more = look_on(c, LOOK_BYTES);
	if (late && c->acts == late && session_terminal_expects(late)) {
		session_terminal_finish(late, CONSOLE_TIMED_OUT, c->screen.len, 0);
		more = c->seen < c->screen.len;
	}
	if (more)
		(void)look_wait(c->service, &c->look, c->tenant);
}

static void look_soon(struct session_terminal *c)
{
	if (!is_costly(c->acts) && !is_costly(c->interrupt))
		(void)look_on(c, SIZE_MAX);
	else
		(void)look_wait(c->service, &c->look, c->tenant);
}

static void session_terminal_on_output(struct session_command *command, int stream UNUSED,
				       const void *data, size_t n)
{
	struct session_terminal *c = command->ctx;
	size_t take = c->dropped > 0 ? 0 : screen_room(c, n); /* the rest is dropped */

	buf_add(&c->screen, data, take);
	c->dropped += n - take;
	look_soon(c);
}

static void session_terminal_on_gap(struct session_command *command, uint64_t lost)
{
	struct session_terminal *c = command->ctx;

	c->missing += lost;
	if (c->screen.len < CONSOLE_SCREEN_MAX)
		session_terminal_put_hole(&c->screen, lost);
}

/* The command has ended, or the shell is gone: report it to the act that waits for it. */
static void session_terminal_on_result(struct session_command *command,
				       const struct session_result *r)
{
	struct session_terminal *c = command->ctx;
	enum session_terminal_outcome outcome = r->ended          ? CONSOLE_ENDED
						: r->syntax_error ? CONSOLE_SYNTAX
								  : CONSOLE_BACK;
	uint64_t until = clock_now() + LOOK_LAST;
	struct act *a;

	while (c->seen < c->screen.len && look_on(c, LOOK_BYTES) && clock_now() < until)
		;
	a = c->acts && c->acts->begun && !c->acts->finishing ? c->acts : NULL;
	c->running = false;
	c->exit_code = r->exit_code;
	if (a && a->expected >= 0 && !r->ended)
		outcome = CONSOLE_EXPECTED;
	if (a)
		session_terminal_finish(a, outcome, c->screen.len, c->screen.len);
	if (c->interrupt && !c->interrupt->finishing)
		session_terminal_finish(c->interrupt,
					r->ended ? CONSOLE_ENDED : CONSOLE_BACK,
					c->screen.len, c->screen.len);
	loop_defer(c->service->loop, &c->task);
}

/* ----------------------------------------------------------------- input of the shell */

static void try_interrupt(struct act *a)
{
	struct session_terminal *c = a->session_terminal;

	if (a->tried < a->tries) {
		session_type(c->session, INTR, 1);
		/* A program may use this key for other purposes. */
		if (a->tried > 0)
			session_interrupt(c->session, SIGINT);
		loop_timer_set(a->timer, (uint64_t)a->timeout_ms);
	} else if (a->tried < a->tries + 2) {
		session_stop(c->session, a->tried > a->tries);
		loop_timer_set(a->timer, KILL_MS);
	} else {
		session_terminal_finish(a, CONSOLE_TIMED_OUT, c->screen.len, 0);
		return;
	}
	a->tried++;
}

static void session_terminal_on_timer(void *ctx)
{
	struct act *a = ctx;
	struct session_terminal *c = a->session_terminal;

	if (a->kind == CONSOLE_INTERRUPT)
		try_interrupt(a);
	else if (a->expected >= 0)
		session_terminal_finish(a, CONSOLE_EXPECTED, a->upto, c->screen.len);
	else if (is_costly(a) && c->seen < c->screen.len &&
		 look_wait(c->service, &c->look, c->tenant))
		a->late = true;
	else /* an act that waits for its turn has no output on the screen */
		session_terminal_finish(a, CONSOLE_TIMED_OUT,
					a->begun ? c->screen.len : 0, 0);
}

static void session_terminal_run(struct act *a)
{
	struct session_terminal *c = a->session_terminal;
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	take_screen(c, c->screen.len);
	r = session_run(c->session, a->text, a->size, 0, &c->command, &err);
	if (r < 0) {
		c->exit_code = -1;
		buf_puts(&c->screen, err.msg);
		session_terminal_finish(a, r == -EPIPE ? CONSOLE_ENDED : CONSOLE_SYNTAX,
					c->screen.len, c->screen.len);
		return;
	}
	c->running = true;
}

static void
session_terminal_refuse(void (*done)(void *ctx, const struct session_terminal_result *r),
			void *ctx, enum session_terminal_outcome outcome, const char *why)
{
	AUTO_BUF struct buf screen = BUF_INIT(4096);
	struct fair_quota_lease none = { 0 };
	struct session_terminal_result r = { .outcome = outcome,
					     .expected = -1,
					     .exit_code = -1,
					     .screen = &screen,
					     .lease = &none };

	buf_puts(&screen, why);
	done(ctx, &r);
}

/* The act has not started, and never will. */
static void act_refuse(struct act *a, const char *why)
{
	struct session_terminal *c = a->session_terminal;

	session_terminal_unlist(c, a);
	loop_defer(c->service->loop, &c->task);
	session_terminal_refuse(a->done, a->ctx, CONSOLE_REFUSED, why);
	act_free(a);
}

static void session_terminal_begin(struct act *a)
{
	struct session_terminal *c = a->session_terminal;
	struct warren_error err = WARREN_ERROR_INIT;

	if (a->kind == CONSOLE_COMMAND && c->running) {
		a->waited = true;
		return; /* the act starts when the other one has ended */
	}
	if (a->waited && permit_check(c->service, &a->permit, &err) < 0) {
		act_refuse(a, err.msg);
		return;
	}
	a->begun = true;
	if (!c->running) {
		session_terminal_run(a);
		return;
	}
	session_type(c->session, a->text, a->size);
	session_type(c->session, "\n", 1);
	c->seen = 0;
	look_soon(c);
}

static void session_terminal_on_task(void *ctx)
{
	begin_next(ctx);
}

static void begin_next(struct session_terminal *c)
{
	if (c->acts && !c->acts->begun)
		session_terminal_begin(c->acts);
}

void session_terminal_withdraw(struct session_terminal *c, const void *ctx)
{
	struct act *a = c->acts;

	while (a && (a->ctx != ctx || a->begun || a->finishing))
		a = a->next;
	if (a)
		act_refuse(a, "the client is gone, and nothing was started");
}

/* Has the maximum number of waiting acts been reached? */
static bool is_crowded(const struct session_terminal *c)
{
	size_t n = 0;

	for (const struct act *a = c->acts; a; a = a->next)
		n += !a->begun;
	return n >= WAIT_MAX;
}

void session_terminal_do(struct session_terminal *c,
			 const struct session_terminal_act *act,
			 void (*done)(void *ctx, const struct session_terminal_result *r),
			 void *ctx)
{
	struct act *a = calloc(1, sizeof(*a) + act->size + 1);
	bool interrupts = act->kind == CONSOLE_INTERRUPT;

	if (c->session->sandbox)
		undo_spoil(c->session->sandbox);
	if (!interrupts && is_crowded(c)) {
		free(a);
		session_terminal_refuse(
			done, ctx, CONSOLE_REFUSED,
			"too many commands are waiting in this session, and nothing "
			"was started: wait until some of them end");
		return;
	}
	if (a) {
		a->session_terminal = c;
		a->expect = expect_new(act->expect, act->n_expect);
		if (!a->expect ||
		    loop_timer_new(c->service->loop, session_terminal_on_timer, a,
				   &a->timer) < 0) {
			act_free(a);
			a = NULL;
		}
	}
	if (!a || (interrupts && c->interrupt)) {
		if (a)
			act_free(a);
		session_terminal_refuse(done, ctx, CONSOLE_TIMED_OUT, "");
		return;
	}
	a->kind = act->kind;
	a->timeout_ms = act->timeout_ms;
	a->tries = act->tries;
	a->wants_code = act->wants_code;
	a->expected = -1;
	a->done = done;
	a->ctx = ctx;
	a->size = act->size;
	if (act->size > 0)
		(void)memcpy(a->text, act->text, act->size);
	if (interrupts) {
		a->begun = true;
		c->interrupt = a;
		if (c->running)
			try_interrupt(a);
		else
			session_terminal_finish(a, CONSOLE_BACK, c->screen.len,
						c->screen.len);
		return;
	}
	a->permit = c->service->permit;
	a->waited = c->acts != NULL;
	LIST_APPEND(c->acts, a);
	if (a->timeout_ms >= 0)
		loop_timer_set(a->timer, (uint64_t)a->timeout_ms);
	begin_next(c);
}

/* ------------------------------------------------------------- lifetime of a terminal */

static struct session_terminal *session_terminal_new(struct session *session)
{
	struct session_terminal *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->session = session;
	c->service = session_sandbox(session)->service;
	(void)snprintf(c->tenant, sizeof(c->tenant), "%s",
		       session_sandbox(session)->row.owner);
	c->command = (struct session_command){ .output = session_terminal_on_output,
					       .gap = session_terminal_on_gap,
					       .result = session_terminal_on_result,
					       .ctx = c };
	c->task = (struct loop_task){ .fn = session_terminal_on_task, .ctx = c };
	c->screen = (struct buf)BUF_INIT(SCREEN_ROOM);
	c->look = (struct look){ .fn = on_looking, .ctx = c };
	c->running = session_join(session, &c->command);
	*session_terminal_of(session) = c;
	return c;
}

void session_terminal_gone(struct session_terminal *c)
{
	if (!c)
		return;
	session_forget(&c->command);
	c->running = false;
	c->exit_code = -1;
	if (c->interrupt)
		finish_at_once(c->interrupt, CONSOLE_ENDED);
	while (c->acts)
		finish_at_once(c->acts, CONSOLE_ENDED);
	loop_task_cancel(&c->task);
	look_cancel(c->service, &c->look);
	buf_done(&c->screen);
	fair_quota_end(&service_sessions(c->service)->screens, &c->lease);
	free(c);
}

struct session_terminal *session_terminal_find(struct sandbox *sandbox, const char *name)
{
	struct session *session = session_named(sandbox, name);

	if (!session || !session_is_open(session))
		return NULL;
	return *session_terminal_of(session) ? *session_terminal_of(session)
					     : session_terminal_new(session);
}

struct session_terminal_opening {
	session_terminal_fn done;
	void *ctx;
};

static void session_terminal_on_opened(void *ctx, struct session *session,
				       const struct warren_error *failure)
{
	struct session_terminal_opening *o = ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	struct session_terminal *c = session ? session_terminal_new(session) : NULL;

	if (session && !c)
		(void)error_errno(&err, ENOMEM, "open a session");
	o->done(o->ctx, c, session ? (c ? NULL : &err) : failure);
	free(o);
}

void session_terminal_open(struct sandbox *sandbox, const char *name,
			   const struct exec_start *start, session_terminal_fn done,
			   void *ctx)
{
	struct session_terminal_opening *o = malloc(sizeof(*o));
	struct warren_error err = WARREN_ERROR_INIT;
	struct exec_start at = *start;

	if (!o || session_named(sandbox, name)) {
		if (!o)
			(void)error_errno(&err, ENOMEM, "open a session");
		else
			(void)error_set(&err, EEXIST, "session %s already exists", name);
		free(o);
		done(ctx, NULL, &err);
		return;
	}
	*o = (struct session_terminal_opening){ done, ctx };
	at.name = name;
	at.pty = true;
	at.rows = 24;
	at.cols = 80;
	session_open(sandbox, &at, "bash", session_terminal_on_opened, o);
}

void session_terminal_close(struct session_terminal *c, service_done_fn done, void *ctx)
{
	session_close(c->session, done, ctx);
}

struct closing {
	unsigned n;
	service_done_fn done;
	void *ctx;
};

static void session_terminal_on_closed(void *ctx, int r UNUSED,
				       const struct warren_error *err UNUSED)
{
	struct closing *k = ctx;

	if (--k->n > 0)
		return;
	k->done(k->ctx, 0, NULL);
	free(k);
}

void session_terminal_close_all(struct sandbox *sandbox, service_done_fn done, void *ctx)
{
	struct closing *k = calloc(1, sizeof(*k));
	struct warren_error err = WARREN_ERROR_INIT;
	struct session *next;

	if (!k) {
		done(ctx, error_errno(&err, ENOMEM, "close the sessions"), &err);
		return;
	}
	*k = (struct closing){ .n = 1, .done = done, .ctx = ctx };
	for (struct session *session = session_next(sandbox, NULL); session;
	     session = next) {
		next = session_next(sandbox, session);
		if (!session_row(session)->name)
			continue;
		k->n++;
		session_close(session, session_terminal_on_closed, k);
	}
	session_terminal_on_closed(k, 0, NULL);
}
