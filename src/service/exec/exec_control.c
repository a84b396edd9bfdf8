/* SPDX-License-Identifier: Apache-2.0 */
/* exec_exec_control.c - signals, input and size of an exec that runs */
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "service/core/internal.h"

struct asked {
	service_done_fn done;
	void *ctx;
	const char *what;
};

static void on_answer(void *ctx, struct answer *a, const struct warren_error *failure)
{
	struct asked *q = ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	int code = failure ? 0 : reply_code(&a->m.reply);

	if (failure)
		q->done(q->ctx, -failure->code, failure);
	else if (code != 0)
		q->done(q->ctx, error_errno(&err, code, "%s", q->what), &err);
	else
		q->done(q->ctx, 0, NULL);
	free(q);
}

void run_ask(struct run *run, const void *msg, size_t size, const char *what,
	     service_done_fn done, void *ctx)
{
	struct asked *q = malloc(sizeof(*q));
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (!q)
		r = error_errno(&err, ENOMEM, "%s", what);
	else if (!run->box || run->row.ended || run->lost)
		r = error_set(&err, ESRCH, "the exec has ended%s",
			      ((const struct proto_header *)msg)->type == PROTO_SIGNAL
				      ? "; signal what it left running from another exec"
				      : "");
	else
		r = 0;
	if (r == 0) {
		*q = (struct asked){ done, ctx, what };
		r = line_ask_struct(run->box, msg, size, -1, on_answer, q, &err);
	}
	if (r < 0) {
		free(q);
		done(ctx, r, &err);
	}
}

void run_signal(struct run *run, int sig, int whom, service_done_fn done, void *ctx)
{
	struct proto_signal msg = { .h = { .type = PROTO_SIGNAL },
				    .exec = run->row.number,
				    .sig = sig,
				    .whom = (uint32_t)whom };

	run_ask(run, &msg, sizeof(msg), "send the signal", done, ctx);
}

void run_signal_one(struct run *run, int sig, int pid, service_done_fn done, void *ctx)
{
	struct proto_signal msg = { .h = { .type = PROTO_SIGNAL },
				    .exec = run->row.number,
				    .sig = sig,
				    .whom = PROTO_WHOM_ONE,
				    .pid = pid };

	run_ask(run, &msg, sizeof(msg), "send the signal", done, ctx);
}

struct listing {
	void (*fn)(void *ctx, const struct proto_process *list, size_t n);
	void *ctx;
	int file;
};

static void on_listed(void *ctx, struct answer *a, const struct warren_error *failure)
{
	struct listing *l = ctx;
	size_t room = PROTO_PROCESSES_MAX * sizeof(struct proto_process);
	struct proto_process *list =
		failure || a->m.reply.status < 0 ? NULL : malloc(room);
	ssize_t n = list ? pread(l->file, list, room, 0) : 0;

	l->fn(l->ctx, list, n > 0 ? (size_t)n / sizeof(*list) : 0);
	free(list);
	(void)close(l->file);
	free(l);
}

void run_list(struct run *run,
	      void (*fn)(void *ctx, const struct proto_process *list, size_t n),
	      void *ctx)
{
	struct proto_list msg = { .h = { .type = PROTO_LIST }, .exec = run->row.number };
	struct listing *l = malloc(sizeof(*l));
	struct warren_error err = WARREN_ERROR_INIT;
	int r = -ENOMEM;

	if (l) {
		*l = (struct listing){ fn, ctx,
				       memfd_create("warren-list", MFD_CLOEXEC) };
		r = l->file < 0 || !run->box
			    ? -ESRCH
			    : line_ask_struct(run->box, &msg, sizeof(msg), l->file,
					      on_listed, l, &err);
	}
	if (r < 0) {
		if (l && l->file >= 0)
			(void)close(l->file);
		free(l);
		fn(ctx, NULL, 0);
	}
}

/* After what was written before. */
void run_close_input(struct run *run, service_done_fn done, void *ctx)
{
	run_feed(run, NULL, 0, true, done, ctx);
}

int run_resize(struct run *run, uint16_t rows, uint16_t cols, struct warren_error *err)
{
	struct winsize ws = { .ws_row = rows, .ws_col = cols };

	if (!run->row.pty)
		return error_set(err, EOPNOTSUPP, "the exec has no terminal");
	if (run->input < 0)
		return error_set(err, ESRCH, "the exec has ended");
	if (ioctl(run->input, TIOCSWINSZ, &ws) < 0)
		return error_errno(err, errno, "resize the terminal");
	run_tell_watchers(run);
	return 0;
}

bool run_size(const struct run *run, uint16_t *ret_rows, uint16_t *ret_cols)
{
	struct winsize ws;

	if (run->input < 0 || ioctl(run->input, TIOCGWINSZ, &ws) < 0)
		return false;
	*ret_rows = ws.ws_row;
	*ret_cols = ws.ws_col;
	return true;
}

/* ------------------------------------------------------------------ attaching */

struct attaching {
	struct run *run;
	service_done_fn done;
	void *ctx;
};

static void on_attached(void *ctx, struct answer *a, const struct warren_error *failure)
{
	struct attaching *t = ctx;
	struct run *run = t->run;
	struct warren_error err = WARREN_ERROR_INIT;
	int r = failure ? -failure->code : -reply_code(&a->m.reply);

	if (!failure && r == 0) {
		run_take_streams(run, a);
	} else if (!failure) {
		(void)error_errno(&err, -r, "find the exec again");
	}
	t->done(t->ctx, r, failure ? failure : &err);
	(void)run_unref(run);
	free(t);
}

/* The streams of an exec that a former process started. */
void run_attach(struct run *run, service_done_fn done, void *ctx)
{
	struct proto_attach msg = { .h = { .type = PROTO_ATTACH },
				    .exec = run->row.number,
				    .flags = PROTO_ATTACH_NOTIFY };
	struct attaching *t = malloc(sizeof(*t));
	struct warren_error err = WARREN_ERROR_INIT;
	int r = -ENOMEM;

	if (run->attached) {
		free(t);
		done(ctx, 0, NULL);
		return;
	}
	if (t && run->box) {
		*t = (struct attaching){ run_ref(run), done, ctx };
		r = line_ask_struct(run->box, &msg, sizeof(msg), run->notify, on_attached,
				    t, &err);
		if (r < 0)
			(void)run_unref(run);
	} else {
		(void)error_set(&err, ESRCH, "the exec has ended");
		r = -ESRCH;
	}
	if (r < 0) {
		free(t);
		done(ctx, r, &err);
	}
}

struct inputting {
	struct run *run;
	box_fd_fn done;
	void *ctx;
};

static void on_input(void *ctx, int r, const struct warren_error *err)
{
	struct inputting *i = ctx;
	struct warren_error none = WARREN_ERROR_INIT;

	if (r == 0 && i->run->input < 0)
		(void)error_set(&none, EPIPE,
				"the exec's stdin is closed, or it has none");
	i->done(i->ctx, r == 0 ? i->run->input : -1, r == 0 ? &none : err);
	(void)run_unref(i->run);
	free(i);
}

void run_input(struct run *run, box_fd_fn done, void *ctx)
{
	struct inputting *i = malloc(sizeof(*i));
	struct warren_error err = WARREN_ERROR_INIT;

	if (!i || run->row.ended || run->lost) {
		free(i);
		(void)error_set(&err, i ? EPIPE : ENOMEM, "the exec has ended");
		done(ctx, -1, &err);
		return;
	}
	*i = (struct inputting){ run_ref(run), done, ctx };
	run_attach(run, on_input, i);
}

int run_poke_fd(const struct run *run)
{
	return run->poke;
}

bool run_lost(const struct run *run)
{
	return run->lost;
}
