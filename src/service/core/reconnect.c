/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reconnect.c - a line to an init that ended, or could not be opened, is opened again
 *
 * The end of a connection is not the end of a sandbox: init may have cut us off because we did
 * not read, or the machine was short of memory or descriptors. The warden knows whether the
 * init lives, and is asked for another connection. What waited for an answer hears that it shall
 * try again; execs run on, and are attached to anew, some at a time, since each attachment is
 * answered. Only if the warden says that there is no init any more, or if one ends its connections
 * again and again, the sandbox is lost.
 *
 * A request to start an exec may have been carried out though its answer never came: whoever asked
 * was told that it failed, so it is killed.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "service/core/internal.h"
#include "proto/warden_proto.h"

#define FLIGHT_MAX  64U /* attachments that wait for their answer */
#define UNWELCOME   6U  /* connections in a row that end before init has said a word */
#define BREAKS_MAX  32U /* within BREAKS_MS: such an init does more harm than good */
#define BREAKS_MS   60000U
#define DEAF_MS     5000U /* its socket is full, and it does not accept */
#define BACKOFF_MAX 1000U /* ms */

/* ---------------------------------------------------------------------- execs */

struct attach_op {
	struct service *service;
	char id[ID_LEN + 1];
	unsigned flight;
	bool working; /* attach_more() is on the stack */
	service_done_fn done;
	void *ctx;
};

struct attach_one {
	struct attach_op *op;
	struct run *run;
};

static void attach_more(struct attach_op *op);

static void attach_end_input(struct run *run)
{
	struct proto_close_input msg = { .h = { .type = PROTO_CLOSE_INPUT },
					 .exec = run->row.number };

	if (run->input_ended)
		run_ask(run, &msg, sizeof(msg), "close stdin", service_ignore, NULL);
}

static void on_attached(void *ctx, int r, const struct warren_error *err UNUSED)
{
	struct attach_one one = *(struct attach_one *)ctx;
	struct run *run = one.run;

	free(ctx);
	/* It ended before init was asked; or its journal has no end, too: it never began. */
	if (r == -ESRCH && !run->row.ended && run->box && !run_finish_by_journal(run)) {
		struct warren_result result = { .exit_code = -1 };

		run_finish(run, &result);
	}
	if (r == 0) {
		run_hold_again(run);
		attach_end_input(run);
	}
	/* There may be news that nobody was told of. */
	if (run->notify >= 0)
		(void)eventfd_write(run->notify, 1);
	(void)run_unref(run);
	one.op->flight--;
	attach_more(one.op);
}

static struct run *next_to_attach(struct box *box)
{
	struct run *run = box ? box->runs : NULL;

	while (run && !run->wants_attach)
		run = run->next;
	return run;
}

static void attach_more(struct attach_op *op)
{
	struct box *box = box_find(op->service, NULL, op->id);
	struct run *run;

	if (op->working)
		return;
	op->working = true;
	while (op->flight < FLIGHT_MAX && (run = next_to_attach(box))) {
		struct attach_one *one = malloc(sizeof(*one));

		run->wants_attach = false;
		/* Its output is read when somebody asks; its end is told in any case. */
		if (!one)
			continue;
		*one = (struct attach_one){ op, run_ref(run) };
		op->flight++;
		run_attach(run, on_attached, one);
		box = box_find(op->service, NULL, op->id);
	}
	op->working = false;
	if (op->flight > 0)
		return;
	op->done(op->ctx, 0, NULL);
	free(op);
}

void box_attach_all(struct box *box, service_done_fn done, void *ctx)
{
	struct attach_op *op = malloc(sizeof(*op));
	struct run *next;

	if (!op) {
		done(ctx, -ENOMEM, NULL);
		return;
	}
	*op = (struct attach_op){ .service = box->service, .done = done, .ctx = ctx };
	(void)memcpy(op->id, box->row.id, sizeof(op->id));
	for (struct run *run = box->runs; run; run = next) {
		next = run->next;
		if (run->lost || run->starting || (run->row.ended && !run->lingers))
			continue;
		if (run->row.ended || !run_finish_by_journal(run))
			run->wants_attach = true;
	}
	attach_more(op);
}

/* ----------------------------------------------------------------- what was unheard */

void box_disown(struct box *box, uint32_t exec)
{
	uint32_t *more = reallocarray(box->disowned, box->n_disowned + 1, sizeof(*more));

	if (!more) {
		survive(box->service, -ENOMEM);
		return;
	}
	box->disowned = more;
	more[box->n_disowned++] = exec;
}

static void on_killed(void *ctx UNUSED, struct answer *a UNUSED,
		      const struct warren_error *failure UNUSED)
{
	/* If it was never started, there is nothing to kill. */
}

static void kill_disowned(struct box *box)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	for (size_t i = 0; i < box->n_disowned; i++) {
		struct proto_signal msg = { .h = { .type = PROTO_SIGNAL },
					    .exec = box->disowned[i],
					    .sig = SIGKILL,
					    .whom = PROTO_WHOM_TREE };

		survive(box->service, line_ask_struct(box, &msg, sizeof(msg), -1,
						      on_killed, NULL, &ignored));
	}
	box->n_disowned = 0;
}

void reconnect_box_gone(struct box *box)
{
	free(TAKE_PTR(box->disowned));
	box->n_disowned = 0;
	box->reconnect_timer = loop_timer_free(box->reconnect_timer);
}

/* ------------------------------------------------------------------------- the line */

static void reconnect_note(const struct box *box, const char *what,
			   const struct warren_error *err)
{
	const struct service *s = box->service;
	char text[ID_LEN + sizeof(box->broke.msg) + 64];

	(void)snprintf(text, sizeof(text), "sandbox %s: %s%s%s", box->row.id, what,
		       err ? ": " : "", err ? err->msg : "");
	if (s->note)
		s->note(s->note_ctx, text);
}

struct reconnect_op {
	struct service *service;
	char id[ID_LEN + 1];
	service_done_fn done;
	void *ctx;
};

static void reconnect_end(struct reconnect_op *op, int r, const struct warren_error *err)
{
	op->done(op->ctx, r, err);
	free(op);
}

static void on_all_attached(void *ctx, int r UNUSED,
			    const struct warren_error *err UNUSED)
{
	reconnect_end(ctx, 0, NULL);
}

static void on_connection(void *ctx, const struct warren_error *failure, const char *data,
			  size_t size, int fd)
{
	struct reconnect_op *op = ctx;
	struct box *box = box_find(op->service, NULL, op->id);
	struct warren_error err = WARREN_ERROR_INIT;

	if (!box && fd >= 0)
		(void)close(fd);
	if (!box)
		reconnect_end(op, error_set(&err, ESTALE, "the sandbox is gone"), &err);
	else if (failure)
		reconnect_end(op, -failure->code, failure);
	else if (++box->unwelcome > 0 &&
		 box_take_up(box, data, size, fd, on_all_attached, op, &err) < 0)
		reconnect_end(op, -err.code, &err);
	else
		kill_disowned(box);
}

void box_reconnect(struct box *box, service_done_fn done, void *ctx)
{
	struct wire_box msg = { .h = { .type = WIRE_CONNECT } };
	struct reconnect_op *op = malloc(sizeof(*op));
	struct warren_error err = WARREN_ERROR_INIT;
	int r = -ENOMEM;

	if (op) {
		*op = (struct reconnect_op){ .service = box->service,
					     .done = done,
					     .ctx = ctx };
		(void)memcpy(op->id, box->row.id, sizeof(op->id));
		r = link_ask_of(box, &msg, sizeof(msg), on_connection, op);
	}
	if (r < 0) {
		free(op);
		done(ctx, error_errno(&err, -r, "ask the warden"), &err);
	}
}

static void on_reconnect_timer(void *ctx)
{
	box_reconnect_in_turn(ctx);
}

/* Another try, the later the more there have been. */
static void reconnect_later(struct box *box)
{
	unsigned n = box->breaks + box->tries;
	uint64_t ms = 1ULL << (n < 10 ? n : 10);

	if (!box->reconnect_timer &&
	    loop_timer_new(box->service->loop, on_reconnect_timer, box,
			   &box->reconnect_timer) < 0) {
		service_untidy(box->service); /* which looks for such boxes */
		return;
	}
	loop_timer_set(box->reconnect_timer, ms < BACKOFF_MAX ? ms : BACKOFF_MAX);
}

/* It has an init that lives, and does not keep a connection. */
static bool is_hopeless(const struct box *box)
{
	return box->unwelcome > UNWELCOME || box->breaks > BREAKS_MAX;
}

static void box_hopeless(struct box *box)
{
	struct warren_error why = WARREN_ERROR_INIT;

	(void)error_set(&why, EPROTO,
			"the sandbox's init ends its connections again and again");
	box_lost(box, &why);
}

static bool has_no_init(int r)
{
	return r == -ESRCH || r == -ENOENT;
}

void box_reconnected(struct box *box, int r, const struct warren_error *err)
{
	bool may_run =
		box->row.state == SANDBOX_RUNNING || box->row.state == SANDBOX_PAUSED;

	if (box->service->closing || r == -ESTALE || !may_run)
		return;
	if (r == 0) {
		if (box->breaks > 0)
			reconnect_note(box, "connected to its init again", NULL);
		return;
	}
	if (has_no_init(r)) {
		if (!box->broke.code)
			(void)error_set(&box->broke, ESRCH,
					"it ended with the machine, or by itself");
		box_lost(box, &box->broke);
	} else if (r == -EPROTO || r == -EPERM) {
		box_lost(box, err);
	} else if (is_hopeless(box)) {
		box_hopeless(box);
	} else if (r == -EAGAIN && box->tries > 0 &&
		   loop_now(box->service->loop) - box->tried_at > DEAF_MS) {
		box_lost(box, err);
	} else {
		if (box->tries++ == 0) {
			box->tried_at = loop_now(box->service->loop);
			reconnect_note(box, "connect to its init, trying again", err);
		}
		reconnect_later(box);
	}
}

void box_disconnected(struct box *box, const struct warren_error *why)
{
	uint64_t now = loop_now(box->service->loop);
	struct warren_error again = WARREN_ERROR_INIT;

	if (box->service->closing ||
	    (box->row.state != SANDBOX_RUNNING && box->row.state != SANDBOX_PAUSED)) {
		box_lost(box, why);
		return;
	}
	if (now - box->broke_at > BREAKS_MS)
		box->breaks = 0;
	box->broke_at = now;
	box->breaks++;
	if (is_hopeless(box)) {
		box_hopeless(box);
		return;
	}
	box->broke = *why;
	(void)error_set(&again, EAGAIN,
			"the connection to the sandbox's init broke; try again");
	line_close(box, &again);
	for (struct run *run = box->runs; run; run = run->next)
		run->attached = false;
	if (box->breaks == 1)
		box_reconnect_in_turn(box);
	else
		reconnect_later(box);
}
