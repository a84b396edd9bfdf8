/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_result.c - record the results of execs
 *
 * A result that cannot be written because the disk is full stays in memory until it can
 * be written; until then, clients get it from memory. If the process dies before that,
 * the next one finds the result in the journal.
 */
#include <errno.h>

#include "service/exec/internal.h"

static bool exec_result_save(struct exec *exec)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int r = exec_record_end(exec, &ignored);

	if (r == -EALREADY || r == -ENOENT)
		return true;
	survive(exec->service, r);
	if (r == 0 && exec->row.session)
		exec_forget_closed(exec->sandbox, exec->row.id, exec->row.journal);
	return r == 0;
}

void exec_save_result(struct exec *exec)
{
	if (exec_result_save(exec))
		return;
	/* Until then, clients find the result in the list of the sandbox. */
	exec->unsaved = true;
	exec->service->n_unsaved++;
	(void)exec_ref(exec);
}

void exec_forget_unsaved(struct exec *exec)
{
	if (!exec->unsaved)
		return;
	exec->unsaved = false;
	exec->service->n_unsaved--;
	(void)exec_unref(exec);
}

static void exec_result_save_all(struct sandbox *sandbox)
{
	struct exec *next;

	for (struct exec *exec = sandbox_execs(sandbox)->list; exec; exec = next) {
		next = exec->next;
		if (!exec->unsaved)
			continue;
		if (!exec_result_save(exec))
			return;
		exec_forget_unsaved(exec);
	}
}

void exec_save_results(struct service *s)
{
	for (size_t i = 0; s->n_unsaved > 0 && i < SANDBOX_BUCKETS; i++)
		for (struct sandbox *sandbox = s->sandboxes[i]; sandbox;
		     sandbox = sandbox->hash_next)
			exec_result_save_all(sandbox);
}
