/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal_limit.c - keep journals within their limit, even if a hostile init writes them
 *
 * init obeys the limit that it is given, but an init that an attacker controls may not:
 * it has the file open, and the kernel offers no size limit for a single file of a
 * process that its children would not inherit. So the service checks the size and the
 * capacity of a journal whenever the journal changes, and every two seconds. A journal
 * beyond its limit violates the protocol: the file is truncated, and the sandbox is lost.
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/exec/internal.h"

#define TURN_MS 250
#define TURNS   8 /* number of turns to check all sandboxes */

static void journal_limit_on_broken(void *ctx)
{
	struct warren_error why = WARREN_ERROR_INIT;
	struct sandbox *sandbox = ctx;

	(void)error_set(&why, EPROTO, "the sandbox's init violated the journal format");
	if (sandbox->conn >= 0)
		sandbox_lost(sandbox, &why);
}

/* The caller is still reading, and its data would be freed with the sandbox, so do this
 * later. */
void exec_journal_broken(struct exec *exec)
{
	struct loop_task *task;

	if (!exec->sandbox || exec->sandbox->conn < 0)
		return;
	task = &sandbox_execs(exec->sandbox)->broken_task;
	task->fn = journal_limit_on_broken;
	task->ctx = exec->sandbox;
	loop_defer(exec->service->loop, task);
}

bool exec_check_journal(struct exec *exec)
{
	const struct sandbox *sandbox = exec->sandbox;
	uint64_t most, claimed = 0;
	struct stat st;

	if (!sandbox || sandbox->conn < 0 || exec->journal < 0 ||
	    fstat(exec->journal, &st) < 0)
		return true;
	most = exec->capacity ? exec->capacity
			      : service_execs(sandbox->service)->journal_max;
	if (most < JOURNAL_CAPACITY_MIN)
		most = JOURNAL_CAPACITY_MIN;
	if (pread(exec->journal, &claimed, sizeof(claimed),
		  offsetof(struct journal_header, capacity)) != sizeof(claimed))
		claimed = 0; /* the exec has not started yet */
	if ((uint64_t)st.st_size <= JOURNAL_RING + most && claimed <= most)
		return true;
	/* If the file cannot be truncated, it is removed with the sandbox. */
	survive(sandbox->service, ftruncate(exec->journal, (off_t)(JOURNAL_RING + most)));
	exec_journal_broken(exec);
	return false;
}

static void check_sandbox(struct sandbox *sandbox)
{
	for (struct exec *exec = sandbox_execs(sandbox)->list; exec; exec = exec->next)
		if (!exec->row.ended && !exec_check_journal(exec))
			return;
}

static void journal_limit_on_turn(void *ctx)
{
	struct service *s = ctx;
	struct service_execs *x = service_execs(s);
	const size_t n = SANDBOX_BUCKETS / TURNS;

	for (size_t i = x->journal_turn * n; i < (x->journal_turn + 1) * n; i++) {
		struct sandbox *next;

		for (struct sandbox *sandbox = s->sandboxes[i]; sandbox; sandbox = next) {
			next = sandbox->hash_next;
			check_sandbox(sandbox);
		}
	}
	x->journal_turn = (x->journal_turn + 1) % TURNS;
	loop_timer_set(x->journal_timer, TURN_MS);
}

int journal_limit_open(struct service *s)
{
	struct service_execs *x = service_execs(s);
	int r = loop_timer_new(s->loop, journal_limit_on_turn, s, &x->journal_timer);

	if (r == 0)
		loop_timer_set(x->journal_timer, TURN_MS);
	return r;
}

void journal_limit_close(struct service *s)
{
	struct service_execs *x = service_execs(s);

	x->journal_timer = loop_timer_free(x->journal_timer);
}
