/* SPDX-License-Identifier: Apache-2.0 */
/* exec_hooks.c - execs, as a module of the service */
#include <stdlib.h>

#include "service/exec/internal.h"

static int exec_hooks_open(struct service *s, const struct service_options *o,
			   struct warren_error *err)
{
	struct service_execs *x = service_execs(s);
	int r;

	x->reuse = o->reuse;
	x->journal_default = o->journal_default ? o->journal_default : 1U << 20;
	x->journal_max = o->journal_max ? o->journal_max : 1U << 30;
	x->journal_total = o->journal_total ? o->journal_total : 512U << 20;
	x->execs_max = o->execs_max ? o->execs_max : 1000;
	r = journal_limit_open(s);
	if (r == 0)
		r = journal_pool_open(s);
	if (r == 0)
		r = remove_open(s);
	return r < 0 ? error_errno(err, -r, "start the service") : 0;
}

static void exec_hooks_close(struct service *s)
{
	journal_limit_close(s);
	sweep_close(s);
	remove_close(s);
	journal_pool_close(s);
}

static void exec_hooks_created(struct sandbox *sandbox)
{
	if (sandbox->row.command)
		main_command_first(sandbox);
}

static void exec_hooks_restore(struct sandbox *sandbox)
{
	exec_restore_all(sandbox);
	main_command_restore(sandbox);
}

static void exec_hooks_connected(struct sandbox *sandbox, service_done_fn done, void *ctx)
{
	exec_kill_disowned(sandbox);
	exec_attach_all(sandbox, done, ctx);
	/* An earlier process was killed while it let the sandbox hibernate. */
	if (sandbox->row.state == SANDBOX_HIBERNATING && !sandbox->hibernating)
		sandbox_start(sandbox, service_ignore, NULL);
}

static int exec_hooks_remove_journal(void *ctx, const struct exec_row *row)
{
	exec_remove_journal(ctx, row->journal);
	return 0;
}

static void exec_hooks_forget(struct sandbox *sandbox)
{
	struct service *s = sandbox->service;
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (db_each_exec(s->db, sandbox->row.id, 0, 0, exec_hooks_remove_journal, s,
			 &ignored) < 0)
		service_untidy(s);
}

static void exec_hooks_disconnected(struct sandbox *sandbox)
{
	exec_detach_all(sandbox);
	sandbox_stop_disconnected(sandbox);
}

static void exec_hooks_gone(struct sandbox *sandbox)
{
	struct sandbox_execs *all = sandbox_execs(sandbox);

	sandbox_stop_gone(sandbox);
	exec_sandbox_gone(sandbox);
	lease_end(sandbox->service, LEASE_OUTPUT, &all->output);
	loop_task_cancel(&all->broken_task);
	exec_forget_away(sandbox, INT64_MAX);
	free(all->disowned);
}

static void exec_hooks_held(const struct sandbox *sandbox, struct sandbox_held *sum)
{
	const struct sandbox_execs *all = sandbox_execs(sandbox);

	sum->output += all->journal_bytes;
	for (const struct exec *exec = all->list; exec; exec = exec->next)
		sum->descriptors += exec->descriptors.n;
}

uint64_t exec_journal_default(const struct service *s)
{
	return service_execs(s)->journal_default;
}

const struct service_module exec_hooks = {
	.number = MODULE_EXEC,
	.service_size = sizeof(struct service_execs),
	.sandbox_size = sizeof(struct sandbox_execs),
	.open = exec_hooks_open,
	.close = exec_hooks_close,
	.gc = sweep_start,
	.save = exec_save_results,
	.created = exec_hooks_created,
	.restore = exec_hooks_restore,
	.connected = exec_hooks_connected,
	.resumed = main_command_resumed,
	.hibernate = sandbox_hibernate_for,
	.disconnected = exec_hooks_disconnected,
	.exited = exec_ended,
	.lost = exec_sandbox_lost,
	.forget = exec_hooks_forget,
	.gone = exec_hooks_gone,
	.held = exec_hooks_held,
};
