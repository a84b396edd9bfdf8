/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_restore.c - find execs again after a restart or a broken connection
 *
 * Execs that ended in the meantime have their result in their journal. Running execs are
 * attached again, some at a time, because init answers each attachment.
 *
 * init may have started an exec although its answer never arrived. The client got an
 * error, so such an exec is killed.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "service/core/undo.h"
#include "service/exec/internal.h"

#define FLIGHT_MAX 64U /* unanswered attachments */
#define AWAY_MS    300000
#define AWAY_MAX   256U

/* ------------------------------------- execs that an earlier process of the service
 * started */

struct exec_away {
	struct exec_away *next;
	char id[ID_LEN + 1];
	int pid;
	int64_t noted_at;
};

/* Forget those that were noted before @until. */
void exec_forget_away(struct sandbox *sandbox, int64_t until)
{
	struct exec_away **at = &sandbox_execs(sandbox)->away;

	while (*at) {
		struct exec_away *a = *at;

		if (a->noted_at < until) {
			*at = a->next;
			free(a);
		} else {
			at = &a->next;
		}
	}
}

/* If there are too many, forget the one that was noted first. */
static void exec_trim_away(struct sandbox_execs *all)
{
	struct exec_away **at = &all->away;

	for (size_t n = 1; *at; n++) {
		if (n == AWAY_MAX) {
			free(TAKE_PTR(*at));
			return;
		}
		at = &(*at)->next;
	}
}

void exec_note_away(struct exec *exec)
{
	struct sandbox_execs *all = sandbox_execs(exec->sandbox);
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct exec_away *a;
	int pid = exec->pid;

	if (exec->capacity)
		return;
	if (pid <= 0 && exec_open_journal(exec, &ignored) == 0)
		pid = journal_pid(exec->journal);
	exec_trim_away(all);
	a = pid > 0 ? malloc(sizeof(*a)) : NULL;
	if (!a)
		return;
	*a = (struct exec_away){ .pid = pid, .noted_at = service_time() };
	(void)memcpy(a->id, exec->row.id, sizeof(a->id));
	LIST_PUSH(all->away, a);
}

struct exec *exec_find_away(struct sandbox *sandbox, int pid)
{
	const struct exec_away *a;

	exec_forget_away(sandbox, service_time() - AWAY_MS);
	a = sandbox_execs(sandbox)->away;
	while (a && a->pid != pid)
		a = a->next;
	return a ? exec_of_sandbox(sandbox, a->id) : NULL;
}

/* ------------------------------------------------------------------------- restore */

static int exec_restore_take(void *ctx, const struct exec_row *row)
{
	struct sandbox *sandbox = ctx;

	if (row->number > sandbox->last_number)
		sandbox->last_number = row->number;
	sandbox_execs(sandbox)->n_kept++;
	journals_restore(sandbox, row, row->ended ? NULL : exec_load(sandbox, row));
	return 0;
}

bool exec_finish_by_journal(struct exec *exec)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct warren_result result;
	struct proto_exited exited;
	enum journal_state state;

	if (exec_open_journal(exec, &ignored) < 0 ||
	    journal_result(exec->journal, &state, &exited) != 1)
		return false;
	if (state == JOURNAL_FAILED)
		exited.status = 127 << 8;
	result_fill(&exited, &result);
	exec_finish(exec, &result);
	return true;
}

void exec_restore_all(struct sandbox *sandbox)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct exec *next;

	survive(sandbox->service, db_each_exec(sandbox->service->db, sandbox->row.id, 0,
					       0, exec_restore_take, sandbox, &ignored));
	for (struct exec *exec = sandbox_execs(sandbox)->list; exec; exec = next) {
		next = exec->next;
		lease_force(exec->service, LEASE_DESCRIPTORS, sandbox->row.owner, 4,
			    &exec->descriptors);
		if (exec->row.pty)
			lease_force(exec->service, LEASE_TERMINALS, sandbox->row.owner, 1,
				    &exec->terminal);
		exec->notify = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (exec->row.number == sandbox->last_number && !exec->row.session)
			exec->undo = undo_restored(sandbox);
		(void)exec_finish_by_journal(exec);
	}
}

/* ------------------------------------------------------------- end of all processes */

/*
 * The sandbox has no init any more, but its files are kept: its processes were killed
 * with it. Execs that ended before have their results in their journals.
 */
static void exec_end_killed(struct sandbox *sandbox)
{
	const struct warren_result killed = { .exit_code = -1,
					      .signal = SIGKILL,
					      .user_usec = WARREN_UNKNOWN,
					      .system_usec = WARREN_UNKNOWN,
					      .max_memory = WARREN_UNKNOWN,
					      .read_bytes = WARREN_UNKNOWN,
					      .written_bytes = WARREN_UNKNOWN };
	struct exec *next;

	for (struct exec *exec = sandbox_execs(sandbox)->list; exec; exec = next) {
		next = exec->next;
		if (exec->row.ended || exec->lost || exec->starting ||
		    exec_finish_by_journal(exec))
			continue;
		exec->row.ended_by = sandbox->row.state == SANDBOX_HIBERNATED
					     ? EXEC_BY_HIBERNATION
					     : EXEC_BY_REBOOT;
		exec_finish(exec, &killed);
	}
}

void exec_sandbox_lost(struct sandbox *sandbox)
{
	if (sandbox_state_sleeps(sandbox->row.state))
		exec_end_killed(sandbox);
	exec_sandbox_gone(sandbox);
}

/* ----------------------------------------------------------------- attaching to execs */

struct attach_op {
	struct service *service;
	char id[ID_LEN + 1];
	unsigned flight;
	bool working; /* attach_more() is running */
	service_done_fn done;
	void *ctx;
};

struct attach_one {
	struct attach_op *op;
	struct exec *exec;
};

static void attach_more(struct attach_op *op);

static void attach_end_input(struct exec *exec)
{
	struct proto_close_input msg = { .h = { .type = PROTO_CLOSE_INPUT },
					 .exec = exec->row.number };

	if (exec->input_ended)
		exec_ask(exec, &msg, sizeof(msg), "close stdin", service_ignore, NULL);
}

static void exec_restore_on_attached(void *ctx, int r,
				     const struct warren_error *err UNUSED)
{
	struct attach_one one = *(struct attach_one *)ctx;
	struct exec *exec = one.exec;

	free(ctx);
	/*
	 * The exec ended before the request to init. If the journal contains no end
	 * either, it was never started.
	 */
	if (r == -ESRCH && !exec->row.ended && exec->sandbox &&
	    !exec_finish_by_journal(exec)) {
		struct warren_result result = { .exit_code = -1 };

		exec_finish(exec, &result);
	}
	if (r == 0) {
		exec_hold_again(exec);
		attach_end_input(exec);
	}
	/* There may be output for which no notification arrived. */
	if (exec->notify >= 0)
		(void)eventfd_write(exec->notify, 1);
	(void)exec_unref(exec);
	one.op->flight--;
	attach_more(one.op);
}

static struct exec *next_to_attach(const struct sandbox *sandbox)
{
	struct exec *exec = sandbox ? sandbox_execs(sandbox)->list : NULL;

	while (exec && !exec->wants_attach)
		exec = exec->next;
	return exec;
}

static void attach_more(struct attach_op *op)
{
	struct sandbox *sandbox = sandbox_find(op->service, NULL, op->id);
	struct exec *exec;

	if (op->working)
		return;
	op->working = true;
	while (op->flight < FLIGHT_MAX && (exec = next_to_attach(sandbox))) {
		struct attach_one *one = malloc(sizeof(*one));

		exec->wants_attach = false;
		/*
		 * The output is read when a client requests it; the end is reported in
		 * any case.
		 */
		if (!one)
			continue;
		*one = (struct attach_one){ op, exec_ref(exec) };
		op->flight++;
		exec_attach(exec, exec_restore_on_attached, one);
		sandbox = sandbox_find(op->service, NULL, op->id);
	}
	op->working = false;
	if (op->flight > 0)
		return;
	op->done(op->ctx, 0, NULL);
	free(op);
}

void exec_attach_all(struct sandbox *sandbox, service_done_fn done, void *ctx)
{
	struct attach_op *op = malloc(sizeof(*op));
	struct exec *next;

	if (!op) {
		done(ctx, -ENOMEM, NULL);
		return;
	}
	*op = (struct attach_op){ .service = sandbox->service, .done = done, .ctx = ctx };
	(void)memcpy(op->id, sandbox->row.id, sizeof(op->id));
	for (struct exec *exec = sandbox_execs(sandbox)->list; exec; exec = next) {
		next = exec->next;
		if (exec->lost || exec->starting || (exec->row.ended && !exec->lingers))
			continue;
		if (exec->row.ended || !exec_finish_by_journal(exec))
			exec->wants_attach = true;
	}
	attach_more(op);
}

void exec_detach_all(struct sandbox *sandbox)
{
	for (struct exec *exec = sandbox_execs(sandbox)->list; exec; exec = exec->next)
		exec->attached = false;
}

/* ------------------------------------------------- execs whose start was not answered */

void exec_disown(struct exec *exec)
{
	struct sandbox_execs *all = sandbox_execs(exec->sandbox);
	uint32_t *more = reallocarray(all->disowned, all->n_disowned + 1, sizeof(*more));

	if (!more) {
		survive(exec->service, -ENOMEM);
		return;
	}
	all->disowned = more;
	more[all->n_disowned++] = exec->row.number;
}

static void on_killed(void *ctx UNUSED, struct init_reply *a UNUSED,
		      const struct warren_error *failure UNUSED)
{
	/* If the exec was never started, there is nothing to kill. */
}

void exec_kill_disowned(struct sandbox *sandbox)
{
	struct sandbox_execs *all = sandbox_execs(sandbox);
	struct warren_error ignored = WARREN_ERROR_INIT;

	for (size_t i = 0; i < all->n_disowned; i++) {
		struct proto_signal msg = { .h = { .type = PROTO_SIGNAL },
					    .exec = all->disowned[i],
					    .sig = SIGKILL,
					    .whom = PROTO_WHOM_TREE };

		survive(sandbox->service,
			init_conn_ask_struct(sandbox, &msg, sizeof(msg), -1, on_killed,
					     NULL, &ignored));
	}
	all->n_disowned = 0;
}
