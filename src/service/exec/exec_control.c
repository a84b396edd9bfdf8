/* SPDX-License-Identifier: Apache-2.0 */
/* exec_control.c - signals, input and size of a running exec */
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "service/exec/internal.h"

struct asked {
	service_done_fn done;
	void *ctx;
	const char *what;
};

static void exec_control_on_answer(void *ctx, struct init_reply *a,
				   const struct warren_error *failure)
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

void exec_ask(struct exec *exec, const void *msg, size_t size, const char *what,
	      service_done_fn done, void *ctx)
{
	struct asked *q = malloc(sizeof(*q));
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (!q)
		r = error_errno(&err, ENOMEM, "%s", what);
	else if (!exec->sandbox || exec->row.ended || exec->lost)
		r = error_set(
			&err, ESRCH, "the exec has ended%s",
			((const struct proto_header *)msg)->type == PROTO_SIGNAL
				? "; to signal the processes that it left running, use "
				  "another exec"
				: "");
	else
		r = 0;
	if (r == 0) {
		*q = (struct asked){ done, ctx, what };
		r = init_conn_ask_struct(exec->sandbox, msg, size, -1,
					 exec_control_on_answer, q, &err);
	}
	if (r < 0) {
		free(q);
		done(ctx, r, &err);
	}
}

void exec_signal(struct exec *exec, int sig, int whom, service_done_fn done, void *ctx)
{
	struct proto_signal msg = { .h = { .type = PROTO_SIGNAL },
				    .exec = exec->row.number,
				    .sig = sig,
				    .whom = (uint32_t)whom };

	exec_ask(exec, &msg, sizeof(msg), "send the signal", done, ctx);
}

void exec_signal_one(struct exec *exec, int sig, int pid, service_done_fn done, void *ctx)
{
	struct proto_signal msg = { .h = { .type = PROTO_SIGNAL },
				    .exec = exec->row.number,
				    .sig = sig,
				    .whom = PROTO_WHOM_ONE,
				    .pid = pid };

	exec_ask(exec, &msg, sizeof(msg), "send the signal", done, ctx);
}

struct listing {
	void (*fn)(void *ctx, const struct proto_process *list, size_t n);
	void *ctx;
	int file;
};

static void on_listed(void *ctx, struct init_reply *a, const struct warren_error *failure)
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

void exec_list(struct exec *exec,
	       void (*fn)(void *ctx, const struct proto_process *list, size_t n),
	       void *ctx)
{
	struct proto_list msg = { .h = { .type = PROTO_LIST }, .exec = exec->row.number };
	struct listing *l = malloc(sizeof(*l));
	struct warren_error err = WARREN_ERROR_INIT;
	int r = -ENOMEM;

	if (l) {
		*l = (struct listing){ fn, ctx,
				       memfd_create("warren-list", MFD_CLOEXEC) };
		r = l->file < 0 || !exec->sandbox
			    ? -ESRCH
			    : init_conn_ask_struct(exec->sandbox, &msg, sizeof(msg),
						   l->file, on_listed, l, &err);
	}
	if (r < 0) {
		if (l && l->file >= 0)
			(void)close(l->file);
		free(l);
		fn(ctx, NULL, 0);
	}
}

/* The input is closed after earlier writes. */
void exec_close_input(struct exec *exec, service_done_fn done, void *ctx)
{
	exec_feed(exec, NULL, 0, true, done, ctx);
}

int exec_resize(struct exec *exec, uint16_t rows, uint16_t cols, struct warren_error *err)
{
	struct winsize ws = { .ws_row = rows, .ws_col = cols };

	if (!exec->row.pty)
		return error_set(err, EOPNOTSUPP, "the exec has no terminal");
	if (exec->input < 0)
		return error_set(err, ESRCH, "the exec has ended");
	if (ioctl(exec->input, TIOCSWINSZ, &ws) < 0)
		return error_errno(err, errno, "resize the terminal");
	exec_tell_watchers(exec);
	return 0;
}

bool exec_size(const struct exec *exec, uint16_t *ret_rows, uint16_t *ret_cols)
{
	struct winsize ws;

	if (exec->input < 0 || ioctl(exec->input, TIOCGWINSZ, &ws) < 0)
		return false;
	*ret_rows = ws.ws_row;
	*ret_cols = ws.ws_col;
	return true;
}

/* ----------------------------------------------------------------- streams of an exec */

struct attaching {
	struct exec *exec;
	service_done_fn done;
	void *ctx;
};

static void exec_control_on_attached(void *ctx, struct init_reply *a,
				     const struct warren_error *failure)
{
	struct attaching *t = ctx;
	struct exec *exec = t->exec;
	struct warren_error err = WARREN_ERROR_INIT;
	int r = failure ? -failure->code : -reply_code(&a->m.reply);

	if (!failure && r == 0) {
		exec_take_streams(exec, a);
	} else if (!failure) {
		(void)error_errno(&err, -r, "restore the exec");
	}
	t->done(t->ctx, r, failure ? failure : &err);
	(void)exec_unref(exec);
	free(t);
}

/* Get the streams of an exec that an earlier process started. */
void exec_attach(struct exec *exec, service_done_fn done, void *ctx)
{
	struct proto_attach msg = { .h = { .type = PROTO_ATTACH },
				    .exec = exec->row.number,
				    .flags = PROTO_ATTACH_NOTIFY };
	struct attaching *t = malloc(sizeof(*t));
	struct warren_error err = WARREN_ERROR_INIT;
	int r = -ENOMEM;

	if (exec->attached) {
		free(t);
		done(ctx, 0, NULL);
		return;
	}
	if (t && exec->sandbox) {
		*t = (struct attaching){ exec_ref(exec), done, ctx };
		r = init_conn_ask_struct(exec->sandbox, &msg, sizeof(msg), exec->notify,
					 exec_control_on_attached, t, &err);
		if (r < 0)
			(void)exec_unref(exec);
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
	struct exec *exec;
	sandbox_fd_fn done;
	void *ctx;
};

static void exec_control_on_input(void *ctx, int r, const struct warren_error *err)
{
	struct inputting *i = ctx;
	struct warren_error none = WARREN_ERROR_INIT;

	if (r == 0 && i->exec->input < 0)
		(void)error_set(&none, EPIPE,
				"the exec's stdin is closed, or it has none");
	i->done(i->ctx, r == 0 ? i->exec->input : -1, r == 0 ? &none : err);
	(void)exec_unref(i->exec);
	free(i);
}

void exec_input(struct exec *exec, sandbox_fd_fn done, void *ctx)
{
	struct inputting *i = malloc(sizeof(*i));
	struct warren_error err = WARREN_ERROR_INIT;

	if (!i || exec->row.ended || exec->lost) {
		free(i);
		(void)error_set(&err, i ? EPIPE : ENOMEM, "the exec has ended");
		done(ctx, -1, &err);
		return;
	}
	*i = (struct inputting){ exec_ref(exec), done, ctx };
	exec_attach(exec, exec_control_on_input, i);
}

int exec_input_fd(const struct exec *exec)
{
	return exec->input;
}

int exec_poke_fd(const struct exec *exec)
{
	return exec->wakeup;
}

int exec_pid(const struct exec *exec)
{
	return exec->pid;
}

struct pid_search {
	struct exec *exec;
	void (*fn)(void *ctx, int pid);
	void *ctx;
};

static void exec_on_pid_listed(void *ctx, const struct proto_process *list, size_t n)
{
	struct pid_search *s = ctx;

	for (size_t i = 0; i < n; i++)
		if (list[i].flags & PROTO_PROCESS_FIRST)
			s->exec->pid = list[i].pid;
	s->fn(s->ctx, s->exec->pid);
	(void)exec_unref(s->exec);
	free(s);
}

void exec_find_pid(struct exec *exec, void (*fn)(void *ctx, int pid), void *ctx)
{
	struct pid_search *s = exec->pid ? NULL : malloc(sizeof(*s));

	if (!s) {
		fn(ctx, exec->pid);
		return;
	}
	*s = (struct pid_search){ exec_ref(exec), fn, ctx };
	exec_list(exec, exec_on_pid_listed, s);
}

struct exec *exec_each_running(struct sandbox *sandbox,
			       bool (*fn)(void *ctx, struct exec *exec), void *ctx)
{
	struct exec *next;

	for (struct exec *exec = sandbox_execs(sandbox)->list; exec; exec = next) {
		next = exec->next;
		if (!exec->row.ended && !exec->starting && fn(ctx, exec))
			return exec;
	}
	return NULL;
}

bool exec_lost(const struct exec *exec)
{
	return exec->lost;
}

bool exec_output_waits(const struct exec *exec)
{
	return exec->output_waits;
}
