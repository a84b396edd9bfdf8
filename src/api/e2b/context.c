/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context.c - contexts, and the start and end of their kernels
 *
 * If a kernel ends, its cell gets an error, and the next cell starts another. The kernel
 * of a cell that does not end although it was interrupted is killed as soon as another
 * cell waits for it.
 */
#include "api/e2b/context.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "code/language.h"
#include "config/config.h"

#define REASON_MAX 4096
#define GRACE_MS   10000 /* for a cell that was interrupted */
/* Processes of an earlier kernel end some time after they were killed. */
#define RETRY_MS  100
#define TRIES_MAX 50

/* Numbers of cells of this process differ from those that an earlier one used. */
#define FIRST_CELL_MASK 0x3fffffff

struct e2b_context *context_ref(struct e2b_context *x)
{
	x->refs++;
	return x;
}

void context_unref(struct e2b_context *x)
{
	if (--x->refs > 0)
		return;
	if (x->prev)
		DLIST_REMOVE(x);
	context_drop_lines(x);
	buf_done(&x->reason);
	x->retry = loop_timer_free(x->retry);
	free(x);
}

void context_unlist(struct e2b_context *x)
{
	bool listed = x->listed;

	x->listed = false;
	if (listed)
		context_unref(x);
}

/* ------------------------------------------------------------------------ the kernel */

static void context_release_kernel(struct e2b_context *x)
{
	exec_watch_cancel(&x->watcher);
	exec_wait_cancel(&x->ended);
	exec_hold_cancel(&x->holder);
	loop_task_cancel(&x->turn);
	context_drop_lines(x);
	x->exec = exec_unref(x->exec);
	x->heard = false;
}

static bool context_sandbox_runs(const struct e2b_context *x)
{
	const struct sandbox *sandbox =
		sandbox_find(x->e2b->v1->service, NULL, x->sandbox);

	return sandbox && sandbox_stays(sandbox);
}

void context_kernel_gone(struct e2b_context *x)
{
	char why[REASON_MAX + 64];

	(void)snprintf(
		why, sizeof(why), "the kernel has ended, and its variables are lost%s%s",
		x->reason.len > 0 ? ": " : "", x->reason.len > 0 ? x->reason.data : "");
	context_release_kernel(x);
	context_note(x, CONTEXT_IDLE, "");
	if (x->first && x->sent)
		context_fail_cell(x, "KernelDied", why);
	/* The start of another kernel would wake a sandbox that was just hibernated. */
	if (!context_sandbox_runs(x))
		while (x->first)
			context_fail_cell(x, "KernelStopped",
					  "the sandbox does not run any more");
	context_go_on(x);
}

static void context_on_more(struct waiter *w, void *of UNUSED)
{
	struct e2b_context *x = w->ctx;

	if (!x->blocked)
		loop_later(service_loop(x->e2b->v1->service), &x->turn);
}

void context_use_kernel(struct e2b_context *x, struct exec *exec, uint64_t at)
{
	struct warren_error why = WARREN_ERROR_INIT;

	x->exec = exec_ref(exec);
	x->at = at;
	x->hint = (struct journal_hint){ 0 };
	context_drop_lines(x);
	x->line.stray = at > 0; /* it can be the rest of a line */
	buf_done(&x->reason);
	x->reason = (struct buf)BUF_INIT(REASON_MAX);
	exec_hold(exec, &x->holder, at);
	if (exec_watch(exec, &x->watcher, &why) < 0)
		context_stop(x, why.msg);
	else
		exec_wait(exec, &x->ended);
}

/* ----------------------------------------------------------------------------- start */

static void context_start(struct e2b_context *x);

static void context_cannot_start(struct e2b_context *x, const char *why, bool missing)
{
	char text[1024];

	(void)snprintf(text, sizeof(text), "the kernel of %s cannot start: %.600s%s%s%s",
		       x->kernel->name, why,
		       missing ? "; the image needs the package '" : "",
		       missing ? x->kernel->package : "",
		       missing ? "', or what replaces it" : "");
	x->tool = x->tries = 0;
	while (x->first)
		context_fail_cell(x, "KernelError", text);
}

/* The kernel has its whole source, so the next process can use it. */
static void context_on_source(void *ctx, int r, const struct warren_error *err UNUSED)
{
	struct e2b_context *x = ctx;

	if (r == 0 && x->exec && !x->e2b->closing)
		context_note(x, CONTEXT_READY, exec_row(x->exec)->id);
	context_unref(x);
}

static void context_take_started(struct e2b_context *x, struct exec *exec)
{
	const struct code_kernel *k = x->kernel;

	x->tries = 0;
	context_note(x, CONTEXT_UNREADY, exec_row(exec)->id);
	context_use_kernel(x, exec, 0);
	if (x->exec)
		exec_feed(exec, k->source, code_kernel_source_size(k), false,
			  context_on_source, context_ref(x));
	context_go_on(x);
}

static void context_on_retry(void *ctx)
{
	struct e2b_context *x = ctx;

	x->retrying = x->starting = false;
	if (x->removed)
		context_note(x, CONTEXT_IDLE, "");
	else
		context_go_on(x);
	context_unref(x);
}

/* Start the kernel again later; false: that was tried often enough. */
static bool context_retry(struct e2b_context *x)
{
	if (x->tries >= TRIES_MAX ||
	    (!x->retry && loop_timer_new(service_loop(x->e2b->v1->service),
					 context_on_retry, x, &x->retry) < 0))
		return false;
	x->tries++;
	x->retrying = x->starting = true;
	(void)context_ref(x);
	loop_timer_set(x->retry, RETRY_MS);
	return true;
}

static void context_on_started(void *ctx, struct exec *exec,
			       const struct warren_error *err)
{
	struct e2b_context *x = ctx;

	x->starting = false;
	if (x->e2b->closing) {
		/* The next process finds it. */
	} else if (x->removed && exec) {
		context_kill(x, exec);
	} else if (x->removed) {
		context_note(x, CONTEXT_IDLE, "");
	} else if (exec) {
		context_take_started(x, exec);
	} else if (err->code == ENOENT && !strstr(err->msg, "enter the directory")) {
		x->tool++; /* the next program in the list, if there is one */
		context_start(x);
	} else if (err->code != EAGAIN || !context_retry(x)) {
		context_note(x, CONTEXT_IDLE, "");
		context_cannot_start(x, err->msg, false);
	}
	context_unref(x);
}

bool context_argv(const struct e2b_context *x, char tool[64], const char *argv[16])
{
	size_t n = 0;

	if (!code_step_tool(x->kernel->argv[0], x->tool, tool, 64))
		return false;
	argv[n++] = tool;
	for (size_t i = 1; x->kernel->argv[i] && n < 15; i++)
		argv[n++] = x->kernel->argv[i];
	argv[n] = NULL;
	return true;
}

static void context_start(struct e2b_context *x)
{
	struct service *s = x->e2b->v1->service;
	struct sandbox *sandbox = sandbox_find(s, NULL, x->sandbox);
	const char *template = sandbox ? e2b_label(sandbox, E2B_LABEL_TEMPLATE) : NULL;
	char id[64], from[512], tool[64];
	const char *argv[16];
	const char *env[] = { "E2B_SANDBOX=true", E2B_EVENTS_ENV, id, from, NULL };
	struct exec_start start = { .argv = argv,
				    .env = env,
				    .account = true,
				    .input = true,
				    .hold = true,
				    .cwd = x->is_default ? NULL : x->cwd,
				    .journal = x->e2b->v1->config->journal_default };
	struct warren_error err = WARREN_ERROR_INIT;

	(void)snprintf(id, sizeof(id), "E2B_SANDBOX_ID=%s", x->sandbox);
	(void)snprintf(from, sizeof(from), "E2B_TEMPLATE_ID=%s",
		       template ? template : "");
	if (!sandbox) {
		context_cannot_start(x, "the sandbox is gone", false);
	} else if (!context_argv(x, tool, argv)) {
		context_note(x, CONTEXT_IDLE, "");
		context_cannot_start(x, "its program is not in the image", true);
	} else if (context_save(x, CONTEXT_UNREADY, "", &err) < 0) {
		context_cannot_start(x, err.msg, false);
	} else {
		x->starting = true;
		exec_start(sandbox, &start, context_on_started, context_ref(x));
	}
}

/* The sandbox is connected again after a restart of the service, or it is lost. */
static void context_on_usable(void *ctx, int r, const struct warren_error *err)
{
	struct e2b_context *x = ctx;

	x->starting = false;
	if (x->e2b->closing) {
		context_unref(x);
		return;
	}
	if (r == 0)
		context_settle(x);
	if (x->restored && !x->removed)
		context_cannot_start(x, r < 0 ? err->msg : "the sandbox does not run",
				     false);
	context_go_on(x);
	context_unref(x);
}

static void context_await(struct e2b_context *x)
{
	struct sandbox *sandbox = sandbox_find(x->e2b->v1->service, NULL, x->sandbox);

	if (!sandbox) {
		context_cannot_start(x, "the sandbox is gone", false);
		return;
	}
	x->starting = true;
	sandbox_use(sandbox, context_on_usable, context_ref(x));
}

static void context_on_fed(void *ctx, int r, const struct warren_error *err UNUSED)
{
	struct e2b_context *x = ctx;

	x->fed = r == 0;
	context_unref(x);
}

void context_go_on(struct e2b_context *x)
{
	struct buf request;

	if (x->sent || x->starting || x->killing > 0 || x->removed)
		return;
	while (x->first && !x->first->call) /* its client left before it began */
		context_end_cell(x);
	if (!x->first)
		return;
	if (x->restored) {
		context_await(x);
		return;
	}
	if (!x->exec) {
		context_start(x);
		return;
	}
	x->sent = true;
	x->fed = x->heard = false;
	request = x->first->request;
	x->first->request = (struct buf){ 0 };
	exec_feed(x->exec, request.data, request.len, false, context_on_fed,
		  context_ref(x));
	buf_done(&request);
}

/* ----------------------------------------------------------------------------- stop */

static void context_on_killed(void *ctx, int r, const struct warren_error *err UNUSED)
{
	struct e2b_context *x = ctx;

	x->killing--;
	/* Another kernel may have been started before. */
	if (!x->e2b->closing && (r == 0 || r == -ESRCH) && !x->exec && !x->starting)
		context_note(x, CONTEXT_IDLE, "");
	if (!x->e2b->closing)
		context_go_on(x);
	context_unref(x);
}

void context_kill(struct e2b_context *x, struct exec *exec)
{
	x->killing++;
	exec_signal(exec, SIGKILL, WARREN_WHOM_TREE, context_on_killed, context_ref(x));
}

static void context_end_kernel(struct e2b_context *x)
{
	struct exec *exec = x->exec ? exec_ref(x->exec) : NULL;

	if (exec || x->restored) /* context_settle() kills a kernel that was restored */
		context_note(x, CONTEXT_UNREADY, x->exec_id);
	context_release_kernel(x);
	if (exec)
		context_kill(x, exec);
	(void)exec_unref(exec);
}

void context_stop(struct e2b_context *x, const char *why)
{
	context_end_kernel(x);
	while (x->first)
		context_fail_cell(x, "KernelStopped", why);
}

bool context_reclaim(struct e2b_context *x)
{
	const struct cell *k = x->first;

	if (!k || !k->next || !x->sent || !k->left_at ||
	    service_time() < k->left_at + GRACE_MS || !context_sandbox_runs(x))
		return false;
	context_stop(x, "an earlier cell, whose client has left, did not end when it was "
			"interrupted; so the kernel was killed, and its variables are "
			"lost: run the cell again");
	return true;
}

void context_replace(struct e2b_context *x)
{
	context_end_kernel(x);
	context_end_cell(x);
	context_go_on(x);
}

void context_remove(struct e2b_context *x, const char *why)
{
	bool kernel = x->exec || x->restored;

	x->removed = true;
	if (x->starting)
		context_note(x, CONTEXT_UNREADY, "");
	context_stop(x, why);
	if (!kernel && !x->starting)
		context_note(x, CONTEXT_IDLE, "");
	if (!x->restored)
		context_unlist(x);
}

/* ------------------------------------------------------------------------ contexts */

struct e2b_context *context_find(struct e2b *e, const char *sandbox, const char *id)
{
	struct e2b_context *x = e->contexts[e2b_bucket(sandbox)];

	while (x &&
	       (x->removed || strcmp(x->sandbox, sandbox) != 0 || strcmp(x->id, id) != 0))
		x = x->next;
	return x;
}

struct e2b_context *context_default(struct e2b *e, const char *sandbox,
				    const struct code_kernel *kernel)
{
	struct e2b_context *x = e->contexts[e2b_bucket(sandbox)];

	/* Languages with the same source share a kernel. */
	while (x && (x->removed || !x->is_default || strcmp(x->sandbox, sandbox) != 0 ||
		     x->kernel->source != kernel->source))
		x = x->next;
	return x;
}

/* Without default contexts, which are created as soon as a client wants to see them. */
static size_t context_count(const struct e2b *e, const char *sandbox)
{
	const struct e2b_context *x = e->contexts[e2b_bucket(sandbox)];
	size_t n = 0;

	for (; x; x = x->next)
		n += !x->is_default && strcmp(x->sandbox, sandbox) == 0;
	return n;
}

struct e2b_context *context_alloc(struct e2b *e, const char *sandbox,
				  const struct code_kernel *kernel)
{
	struct e2b_context *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->refs = 1;
	x->listed = true;
	x->e2b = e;
	x->kernel = kernel;
	x->n = (uint64_t)service_time() & FIRST_CELL_MASK;
	x->tail = &x->first;
	x->turn = (struct loop_task){ .fn = context_on_turn, .ctx = x };
	x->watcher = (struct waiter){ .fn = context_on_more, .ctx = x };
	x->ended = (struct waiter){ .fn = context_on_more, .ctx = x };
	(void)snprintf(x->sandbox, sizeof(x->sandbox), "%s", sandbox);
	DLIST_PUSH(e->contexts[e2b_bucket(sandbox)], x);
	return x;
}

struct e2b_context *context_new(struct e2b *e, const struct sandbox *sandbox,
				const struct code_kernel *kernel, const char *cwd,
				struct warren_error *err)
{
	const char *id = sandbox_row(sandbox)->id;
	struct e2b_context *x;

	if (cwd && context_count(e, id) >= CONTEXTS_MAX) {
		(void)error_set(err, EUSERS,
				"the sandbox has %d contexts: remove one first",
				CONTEXTS_MAX);
		return NULL;
	}
	x = context_alloc(e, id, kernel);
	if (!x) {
		(void)error_errno(err, ENOMEM, "create a context");
		return NULL;
	}
	id_make(x->id);
	x->is_default = !cwd;
	(void)snprintf(x->cwd, sizeof(x->cwd), "%s",
		       cwd ? cwd : sandbox_workdir(sandbox));
	if (context_save(x, CONTEXT_IDLE, "", err) < 0) {
		context_unlist(x);
		return NULL;
	}
	context_watch(e);
	return x;
}

/* The kernel continues to run in its sandbox; the next process uses it. */
static void context_leave(struct e2b_context *x)
{
	(void)context_ref(x); /* one that was removed may have only the timer's */
	context_release_kernel(x);
	while (x->first)
		context_end_cell(x);
	if (x->retrying) {
		loop_timer_stop(x->retry);
		context_unref(x);
	}
	DLIST_REMOVE(x);
	context_unlist(x);
	context_unref(x);
}

void e2b_forget_contexts(struct e2b *e)
{
	e->closing = true;
	for (size_t i = 0; i < E2B_BUCKETS; i++)
		while (e->contexts[i])
			context_leave(e->contexts[i]);
	e->context_timer = loop_timer_free(e->context_timer);
}
