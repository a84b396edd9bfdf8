/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context_store.c - contexts in the database, and kernels of an earlier process
 *
 * After a restart of the service, a kernel is used again: its variables are still there.
 * A cell that ran is interrupted, because its client is gone. The earlier process may
 * have been killed in the middle of a request, so the first byte that the kernel gets
 * ends the line.
 *
 * A kernel that the earlier process had not recorded yet is found by its command line.
 */
#include <stdio.h>
#include <string.h>

#include "api/e2b/context.h"

#define SWEEP_MS      60000
#define SWEEP_SOON_MS 1000 /* while a sandbox is not connected yet */

static void context_on_sweep(void *ctx);

int context_save(struct e2b_context *x, enum context_state state, const char *exec,
		 struct warren_error *err)
{
	struct db *db = service_db(x->e2b->v1->service);
	struct context_row row = { .language = x->kernel->name,
				   .cwd = x->cwd,
				   .is_default = x->is_default,
				   .state = state };

	(void)memmove(x->exec_id, exec, strlen(exec) + 1);
	x->state = state;
	(void)memcpy(row.id, x->id, sizeof(row.id));
	(void)memcpy(row.sandbox, x->sandbox, sizeof(row.sandbox));
	(void)memcpy(row.exec, x->exec_id, sizeof(row.exec));
	if (x->removed && state == CONTEXT_IDLE)
		return db_delete_context(db, x->id, err);
	if (x->removed)
		row.state = CONTEXT_REMOVED;
	return db_put_context(db, &row, err);
}

void context_note(struct e2b_context *x, enum context_state state, const char *exec)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	(void)context_save(x, state, exec, &ignored);
}

/* ------------------------------------------------------------------------- restore */

static bool is_kernel_argv(const struct e2b_context *x, const char *text)
{
	json_t *list = json_loads(text, 0, NULL);
	const char *argv[16];
	char tool[64];
	size_t n = 1;
	bool same = context_argv(x, tool, argv);

	for (; same && argv[n]; n++) {
		const char *word = json_string_value(json_array_get(list, n));

		same = word && strcmp(word, argv[n]) == 0;
	}
	same = same && json_array_size(list) == n;
	json_decref(list);
	return same;
}

bool e2b_is_kernel(const struct e2b *e, const char *sandbox, const char *exec)
{
	const struct e2b_context *x = e->contexts[e2b_bucket(sandbox)];

	while (x && strcmp(x->exec_id, exec) != 0)
		x = x->next;
	return x != NULL;
}

/* Is the exec the kernel of the context, as far as the earlier process recorded it? */
static bool context_is_kernel(void *ctx, struct exec *exec)
{
	const struct e2b_context *x = ctx;
	const struct exec_row *row = exec_row(exec);

	if (x->exec_id[0])
		return strcmp(row->id, x->exec_id) == 0;
	return x->state != CONTEXT_READY && row->started_at < x->e2b->restored_at &&
	       is_kernel_argv(x, row->argv) &&
	       !e2b_is_kernel(x->e2b, x->sandbox, row->id);
}

static void context_attach(struct e2b_context *x, struct exec *exec)
{
	static const char interrupt[] = "\n{\"op\":\"interrupt\"}\n";
	uint64_t from = 0, at = 0;

	(void)exec_extent(exec, &from, &at);
	context_use_kernel(x, exec, at);
	if (x->exec)
		exec_feed(exec, interrupt, sizeof(interrupt) - 1, false, e2b_ignore,
			  NULL);
}

void context_settle(struct e2b_context *x)
{
	struct sandbox *sandbox = sandbox_find(x->e2b->v1->service, NULL, x->sandbox);
	struct exec *exec;

	if (!x->restored || !sandbox || !sandbox_is_loaded(sandbox) ||
	    sandbox_row(sandbox)->state != SANDBOX_RUNNING)
		return;
	exec = exec_each_running(sandbox, context_is_kernel, x);
	x->restored = false;
	if (exec && x->state == CONTEXT_READY) {
		context_attach(x, exec);
	} else if (exec) {
		/* Another context may look for another kernel. */
		context_note(x, CONTEXT_UNREADY, exec_row(exec)->id);
		context_kill(x, exec);
	} else {
		context_note(x, CONTEXT_IDLE, "");
	}
	if (x->removed)
		context_unlist(x);
}

static int context_load(void *ctx, const struct context_row *row)
{
	struct e2b *e = ctx;
	const struct code_kernel *kernel = code_kernel_find(row->language);
	struct e2b_context *x = kernel ? context_alloc(e, row->sandbox, kernel) : NULL;

	if (!x)
		return 0;
	(void)memcpy(x->id, row->id, sizeof(x->id));
	(void)snprintf(x->cwd, sizeof(x->cwd), "%s", row->cwd);
	(void)memcpy(x->exec_id, row->exec, sizeof(x->exec_id));
	x->is_default = row->is_default;
	x->state = row->state;
	x->restored = row->state != CONTEXT_IDLE;
	x->removed = row->state == CONTEXT_REMOVED;
	return 0;
}

void e2b_restore(struct e2b *e)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	e->restored_at = service_time();
	if (db_each_context(service_db(e->v1->service), context_load, e, &ignored) < 0)
		return;
	context_watch(e);
	if (e->context_timer)
		context_on_sweep(e);
}

/* --------------------------------------------------------------------------- sweep */

/* Return whether to look again soon, because its sandbox is not connected yet. */
static bool context_sweep_one(struct e2b_context *x)
{
	struct sandbox *sandbox = sandbox_find(x->e2b->v1->service, NULL, x->sandbox);
	bool soon = sandbox && x->restored && !sandbox_is_loaded(sandbox) &&
		    sandbox_row(sandbox)->state == SANDBOX_RUNNING;

	if (sandbox) {
		context_settle(x);
	} else {
		x->restored = false;
		context_remove(x, "the sandbox is gone");
	}
	return soon;
}

/* Forget the contexts of sandboxes that are gone; settle those of others. */
static void context_on_sweep(void *ctx)
{
	struct e2b *e = ctx;
	bool soon = false;

	e->context_sweeps = false;
	for (size_t i = 0; i < E2B_BUCKETS; i++) {
		struct e2b_context *next;

		for (struct e2b_context *x = e->contexts[i]; x; x = next) {
			next = x->next;
			soon = context_sweep_one(x) || soon;
		}
		e->context_sweeps = e->context_sweeps || e->contexts[i];
	}
	if (e->context_sweeps)
		loop_timer_set(e->context_timer, soon ? SWEEP_SOON_MS : SWEEP_MS);
}

void context_watch(struct e2b *e)
{
	if (e->context_sweeps ||
	    (!e->context_timer &&
	     loop_timer_new(service_loop(e->v1->service), context_on_sweep, e,
			    &e->context_timer) < 0))
		return; /* without a timer, the next context tries again */
	e->context_sweeps = true;
	loop_timer_set(e->context_timer, SWEEP_MS);
}
