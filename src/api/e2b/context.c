/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context.c - run cells in kernels
 *
 * The service reads the events of a kernel from the journal of its exec, like any other
 * output. A kernel is not trusted: each line must be an object of a known type, and goes
 * only to the client of the cell that runs. If the client of a cell leaves, the cell is
 * interrupted. If a kernel ends, its cell gets an error, and the next cell starts
 * another.
 */
#include "api/e2b/context.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "code/language.h"
#include "config/config.h"

#define KEEPALIVE_MS    5000
#define READ_MAX        65536 /* a record of the journal has at most this size */
#define PIECES_PER_TURN 8
#define REASON_MAX      4096
#define SWEEP_MS        60000

static void context_go_on(struct e2b_context *x);
static void context_on_sweep(void *ctx);

/* --------------------------------------------------------------------------- cells */

static void cell_free(struct cell *k)
{
	k->timer = loop_timer_free(k->timer);
	json_decref(k->request);
	free(k);
}

/* Send a line to the client of a cell; its end is added. */
static void cell_send(struct cell *k, const char *line, size_t n)
{
	AUTO_BUF struct buf out = BUF_INIT(CODE_KERNEL_LINE_MAX + 2);
	struct call *c = k->call;

	if (!c || !c->req)
		return;
	if (!k->begun)
		call_begin_stream(c, false);
	k->begun = true;
	buf_add(&out, line, n);
	buf_puts(&out, "\n");
	if (out.failed)
		http_abort(c->req);
	else if (http_write(c->req, out.data, out.len) == 1)
		k->context->blocked = true;
	loop_timer_set(k->timer, KEEPALIVE_MS);
}

static void cell_send_text(struct cell *k, const char *line)
{
	cell_send(k, line, strlen(line));
}

/* The first cell has ended: answer its client, and let the next begin. */
static void context_end_cell(struct e2b_context *x)
{
	struct cell *k = QUEUE_TAKE(x->first, x->tail);
	struct call *c = TAKE_PTR(k->call);

	x->sent = false;
	x->blocked = false;
	if (c) {
		c->state = NULL;
		if (c->req && k->begun)
			(void)http_end(c->req);
		call_unref(c);
	}
	cell_free(k);
}

/* Tell the client of the first cell that the kernel is gone. */
static void context_fail_cell(struct e2b_context *x, const char *name, const char *why)
{
	AUTO_BUF struct buf out = BUF_INIT(65536);
	struct json j = { .out = &out };
	struct cell *k = x->first;

	json_open(&j, NULL, '{');
	json_str(&j, "type", "error");
	json_str(&j, "name", name);
	json_str(&j, "value", why);
	json_str(&j, "traceback", "");
	json_close(&j, '}');
	cell_send(k, out.data, out.len);
	cell_send_text(k, "{\"type\":\"end_of_execution\"}");
	context_end_cell(x);
}

/* ----------------------------------------------------------------- requests to kernels
 */

static void context_ignore(void *ctx UNUSED, int r UNUSED,
			   const struct warren_error *err UNUSED)
{
}

static void context_feed(struct e2b_context *x, json_t *request)
{
	char *text = json_dumps(request, JSON_COMPACT | JSON_ENSURE_ASCII);
	AUTO_BUF struct buf out = BUF_INIT(64U << 20);

	if (text && x->exec) {
		buf_puts(&out, text);
		buf_puts(&out, "\n");
		if (!out.failed)
			exec_feed(x->exec, out.data, out.len, false, context_ignore,
				  NULL);
	}
	free(text);
}

static void context_interrupt(struct e2b_context *x, uint64_t n)
{
	json_t *request = json_pack("{ss, sI}", "op", "interrupt", "id", (json_int_t)n);

	context_feed(x, request);
	json_decref(request);
}

/* ------------------------------------------------------------------- events of kernels
 */

static bool is_event(const char *line, size_t n, bool *ret_end)
{
	static const char *const types[] = {
		"number_of_executions", "stdout", "stderr", "result", "error",
		"end_of_execution"
	};
	struct api_error err = { 0 };
	json_t *json = body_load(line, n, JSON_ALLOW_NUL, &err);
	const char *type = json_string_value(json_object_get(json, "type"));
	bool known = false;

	for (size_t i = 0; type && i < ARRAY_SIZE(types); i++)
		known = known || strcmp(types[i], type) == 0;
	*ret_end = known && strcmp(type, "end_of_execution") == 0;
	json_decref(json);
	return known;
}

static void context_take_line(struct e2b_context *x, const char *line, size_t n)
{
	bool end = false;

	if (n == 0 || !is_event(line, n, &end))
		return;
	if (!x->first || !x->sent)
		return; /* output between two cells belongs to no client */
	cell_send(x->first, line, n);
	if (end)
		context_end_cell(x);
}

static void context_take(struct e2b_context *x, const char *data, size_t n)
{
	while (n > 0) {
		const char *end = memchr(data, '\n', n);
		size_t part = end ? (size_t)(end - data) : n;

		if (x->line.len + part <= CODE_KERNEL_LINE_MAX)
			buf_add(&x->line, data, part);
		data += part + (end != NULL);
		n -= part + (end != NULL);
		if (!end)
			return;
		if (!x->line.failed && x->line.data)
			context_take_line(x, x->line.data, x->line.len);
		buf_done(&x->line);
		x->line = (struct buf)BUF_INIT(CODE_KERNEL_LINE_MAX + 1);
	}
}

/* The kernel has ended: its cell gets an error. */
static void context_kernel_gone(struct e2b_context *x)
{
	char why[REASON_MAX + 64];

	exec_watch_cancel(&x->watcher);
	exec_wait_cancel(&x->ended);
	exec_hold_cancel(&x->holder);
	loop_task_cancel(&x->turn);
	x->exec = exec_unref(x->exec);
	(void)snprintf(
		why, sizeof(why), "the kernel has ended, and its variables are lost%s%s",
		x->reason.len > 0 ? ": " : "", x->reason.len > 0 ? x->reason.data : "");
	buf_done(&x->line);
	buf_done(&x->reason);
	if (x->first && x->sent)
		context_fail_cell(x, "KernelDied", why);
	context_go_on(x);
}

static void context_read(struct e2b_context *x)
{
	static char room[READ_MAX]; /* there is one thread */
	struct warren_error err = WARREN_ERROR_INIT;

	for (int i = 0; i < PIECES_PER_TURN && !x->blocked && x->exec; i++) {
		struct warren_output o;
		int r = exec_output(x->exec, x->at, &x->hint, room, sizeof(room), &o,
				    &err);

		if (r == -EINPROGRESS)
			break;
		if (r < 0) {
			context_kernel_gone(x);
			return;
		}
		x->at = o.cursor;
		if (o.size == 0) {
			if (exec_row(x->exec)->ended || exec_lost(x->exec))
				context_kernel_gone(x);
			else
				context_go_on(x);
			return;
		}
		if (o.stream == 1)
			context_take(x, room, o.size);
		else if (o.stream == 2)
			buf_add(&x->reason, room, o.size);
		if (x->exec && !x->blocked)
			exec_hold_move(&x->holder, x->at);
	}
	if (x->exec && !x->blocked)
		loop_later(service_loop(x->e2b->v1->service), &x->turn);
}

static void context_on_turn(void *ctx)
{
	struct e2b_context *x = ctx;

	if (x->exec && !x->blocked)
		context_read(x);
}

static void context_on_more(struct waiter *w, void *of UNUSED)
{
	struct e2b_context *x = w->ctx;

	if (!x->blocked)
		loop_later(service_loop(x->e2b->v1->service), &x->turn);
}

/* ---------------------------------------------------------------------------- start */

static void context_start(struct e2b_context *x);

static void context_cannot_start(struct e2b_context *x, const char *why)
{
	char text[1024];

	(void)snprintf(
		text, sizeof(text),
		"the kernel of %s cannot start: %.600s; the image needs the package "
		"'%s', or what replaces it",
		x->kernel->name, why, x->kernel->package);
	while (x->first)
		context_fail_cell(x, "KernelError", text);
}

static void context_on_started(void *ctx, struct exec *exec,
			       const struct warren_error *err)
{
	struct e2b_context *x = ctx;
	struct warren_error why = WARREN_ERROR_INIT;
	const struct code_kernel *k = x->kernel;

	x->starting = false;
	if (x->removed) {
		if (exec)
			exec_signal(exec, SIGKILL, WARREN_WHOM_TREE, context_ignore,
				    NULL);
		free(x);
		return;
	}
	if (!exec && err->code == ENOENT) {
		x->tool++; /* the next program in the list, if there is one */
		context_start(x);
		return;
	}
	if (!exec) {
		context_cannot_start(x, err->msg);
		return;
	}
	x->exec = exec_ref(exec);
	x->at = 0;
	x->hint = (struct journal_hint){ 0 };
	x->line = (struct buf)BUF_INIT(CODE_KERNEL_LINE_MAX + 1);
	x->reason = (struct buf)BUF_INIT(REASON_MAX);
	exec_hold(exec, &x->holder, 0);
	if (exec_watch(exec, &x->watcher, &why) < 0) {
		context_stop(x, why.msg);
		return;
	}
	exec_wait(exec, &x->ended);
	exec_feed(exec, k->source, code_kernel_source_size(k), false, context_ignore,
		  NULL);
	context_go_on(x);
}

/* The program and its arguments; the first word may list several programs. */
static bool context_argv(const struct e2b_context *x, char tool[64], const char *argv[16])
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
	struct exec_start start = { .input = true,
				    .hold = true,
				    .cwd = x->cwd[0] ? x->cwd : NULL,
				    .journal = x->e2b->v1->config->journal_default };
	const char *argv[16];
	char tool[64];

	if (!sandbox || !context_argv(x, tool, argv)) {
		context_cannot_start(x, sandbox ? "its program is not in the image"
						: "the sandbox is gone");
		x->tool = 0;
		return;
	}
	start.argv = argv;
	x->starting = true;
	exec_start(sandbox, &start, context_on_started, x);
}

/* Send the next cell, if the kernel is free. */
static void context_go_on(struct e2b_context *x)
{
	struct cell *k = x->first;

	if (!k || x->sent || x->starting)
		return;
	if (!x->exec) {
		context_start(x);
		return;
	}
	if (!k->call) { /* its client left before it began */
		context_end_cell(x);
		context_go_on(x);
		return;
	}
	k->n = ++x->n;
	x->sent = true;
	(void)json_object_set_new(k->request, "id", json_integer((json_int_t)k->n));
	context_feed(x, k->request);
}

/* ---------------------------------------------------------------------- clients of cells
 */

static void cell_gone(struct call *c)
{
	struct cell *k = c->state;
	struct e2b_context *x = k ? k->context : NULL;

	c->state = NULL;
	if (!k)
		return;
	call_unref(TAKE_PTR(k->call));
	if (x->first == k && x->sent) {
		x->blocked = false;
		context_interrupt(x, k->n);
		loop_later(service_loop(x->e2b->v1->service), &x->turn);
	}
}

static void cell_on_drained(struct http_request *req)
{
	struct cell *k = ((struct call *)req->user)->state;

	if (!k)
		return;
	k->context->blocked = false;
	loop_later(service_loop(k->context->e2b->v1->service), &k->context->turn);
}

static void cell_on_timer(void *ctx)
{
	struct cell *k = ctx;

	if (!k->context->blocked)
		cell_send_text(k, "{\"type\":\"keepalive\"}");
	loop_timer_set(k->timer, KEEPALIVE_MS);
}

static void cell_on_stop(struct call *c, bool last UNUSED)
{
	const struct cell *k = c->state;

	if (k && k->begun)
		http_abort(c->req);
}

void context_run(struct e2b_context *x, struct call *c, json_t *request)
{
	struct cell *k = calloc(1, sizeof(*k));

	if (!k || loop_timer_new(service_loop(c->v1->service), cell_on_timer, k,
				 &k->timer) < 0) {
		free(k);
		json_decref(request);
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	k->context = x;
	k->call = call_ref(c);
	k->request = request;
	c->state = k;
	c->gone = cell_gone;
	c->stop = cell_on_stop;
	c->req->drained = cell_on_drained;
	loop_timer_set(k->timer, KEEPALIVE_MS);
	QUEUE_PUT(x->tail, k);
	context_go_on(x);
}

/* ------------------------------------------------------------------------ contexts */

struct e2b_context *context_find(struct e2b *e, const char *sandbox, const char *id)
{
	struct e2b_context *x = e->contexts;

	while (x && (strcmp(x->sandbox, sandbox) != 0 || strcmp(x->id, id) != 0))
		x = x->next;
	return x;
}

struct e2b_context *context_default(struct e2b *e, const char *sandbox,
				    const struct code_kernel *kernel)
{
	struct e2b_context *x = e->contexts;

	/* Languages with the same source share a kernel. */
	while (x && (strcmp(x->sandbox, sandbox) != 0 || !x->is_default ||
		     x->kernel->source != kernel->source))
		x = x->next;
	return x;
}

size_t context_count(const struct e2b *e, const char *sandbox)
{
	size_t n = 0;

	for (const struct e2b_context *x = e->contexts; x; x = x->next)
		n += strcmp(x->sandbox, sandbox) == 0;
	return n;
}

struct e2b_context *context_new(struct e2b *e, const char *sandbox,
				const struct code_kernel *kernel, const char *cwd)
{
	struct e2b_context *x =
		context_count(e, sandbox) < CONTEXTS_MAX ? calloc(1, sizeof(*x)) : NULL;

	if (!x || (!e->context_timer &&
		   loop_timer_new(service_loop(e->v1->service), context_on_sweep, e,
				  &e->context_timer) < 0)) {
		free(x);
		return NULL;
	}
	if (!e->contexts)
		loop_timer_set(e->context_timer, SWEEP_MS);
	x->e2b = e;
	x->kernel = kernel;
	x->tail = &x->first;
	x->turn = (struct loop_task){ .fn = context_on_turn, .ctx = x };
	x->watcher = (struct waiter){ .fn = context_on_more, .ctx = x };
	x->ended = (struct waiter){ .fn = context_on_more, .ctx = x };
	id_make(x->id);
	(void)snprintf(x->sandbox, sizeof(x->sandbox), "%s", sandbox);
	(void)snprintf(x->cwd, sizeof(x->cwd), "%s", cwd ? cwd : "");
	DLIST_PUSH(e->contexts, x);
	return x;
}

void context_stop(struct e2b_context *x, const char *why)
{
	exec_watch_cancel(&x->watcher);
	exec_wait_cancel(&x->ended);
	exec_hold_cancel(&x->holder);
	loop_task_cancel(&x->turn);
	if (x->exec)
		exec_signal(x->exec, SIGKILL, WARREN_WHOM_TREE, context_ignore, NULL);
	x->exec = exec_unref(x->exec);
	buf_done(&x->line);
	buf_done(&x->reason);
	while (x->first)
		context_fail_cell(x, "KernelStopped", why);
}

void context_free(struct e2b_context *x)
{
	context_stop(x, "the context was removed");
	DLIST_REMOVE(x);
	x->removed = true;
	if (!x->starting)
		free(x);
}

/* Forget the contexts of sandboxes that are gone. */
static void context_on_sweep(void *ctx)
{
	struct e2b *e = ctx;
	struct e2b_context *next;

	for (struct e2b_context *x = e->contexts; x; x = next) {
		next = x->next;
		if (!sandbox_find(e->v1->service, NULL, x->sandbox))
			context_free(x);
	}
	if (e->contexts)
		loop_timer_set(e->context_timer, SWEEP_MS);
}

void e2b_forget_contexts(struct e2b *e)
{
	while (e->contexts) {
		struct e2b_context *x = e->contexts;

		/* The kernel continues to run in its sandbox until the sandbox ends. */
		exec_watch_cancel(&x->watcher);
		exec_wait_cancel(&x->ended);
		exec_hold_cancel(&x->holder);
		loop_task_cancel(&x->turn);
		x->exec = exec_unref(x->exec);
		DLIST_REMOVE(x);
		buf_done(&x->line);
		buf_done(&x->reason);
		x->removed = true; /* a start in progress frees it */
		if (!x->starting)
			free(x);
	}
	e->context_timer = loop_timer_free(e->context_timer);
}
