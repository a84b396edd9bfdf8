/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_stop.c - stop a session's command step by step, and keep its shell
 *
 * A command that timed out or is interrupted is stopped with the steps below, each with a
 * time limit; only the last step ends the shell. On other backends, signals may take a
 * long time to arrive. So the next input for the shell waits until the signals have
 * arrived; otherwise a late interrupt would stop the next command.
 *
 * Each step is for commands that ignored the previous one. A command that cannot react,
 * or whose result cannot be read yet, gets more time: is_held_up().
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "service/session/internal.h"

#define INSIST_MS  150 /* first interval between interrupts; it doubles each time */
#define INSIST_MAX 4
#define HELD_MS    250 /* interval between checks whether the command is held up */
/* Maximum number of these checks in which little is read: two seconds. */
#define LOOKS_MAX 8
#define LITTLE    4096 /* bytes */
/* Maximum number of bytes between a command and its journal. */
#define PIPES_MAX (4 << 20)

/* The steps to stop a command; src/shellproto chooses the processes. */
static const struct {
	enum shellproto_step step;
	unsigned ms; /* time until the next step */
} steps[] = {
	{ SHELLPROTO_STEP_INTERRUPT, 150 }, /* a shell in a function needs more than one
					     * interrupt
					     */
	{ SHELLPROTO_STEP_INTERRUPT, 250 }, { SHELLPROTO_STEP_INTERRUPT, 500 },
	{ SHELLPROTO_STEP_KILL, 500 },      { SHELLPROTO_STEP_KILL_ALL, 1000 },
	{ SHELLPROTO_STEP_END, 5000 },
};

/* A step in progress: get the processes of the exec, then signal some of them. */
struct stopping {
	struct exec *exec;
	char session[ID_LEN + 1];
	uint64_t serial; /* number of the command to stop */
	enum shellproto_step step;
	int sig;     /* signal to send instead of the step's own; 0: the step's own */
	bool again;  /* repeat an interrupt that may have come too early */
	size_t left; /* number of signals that were not answered yet, plus one for the
			step itself */
};

/* All signals of a step have arrived, so none of them can reach the next command. */
static void on_sent(void *ctx, int r UNUSED, const struct warren_error *err UNUSED)
{
	struct stopping *k = ctx;
	struct session *session;

	if (--k->left > 0)
		return;
	session = exec_sandbox(k->exec) ? session_find(exec_sandbox(k->exec), k->session)
					: NULL;
	if (session && --session->stops == 0)
		session_pour(session);
	(void)exec_unref(k->exec);
	free(k);
}

static struct session *session_stop_still(const struct stopping *k)
{
	struct session *session =
		exec_sandbox(k->exec) ? session_find(exec_sandbox(k->exec), k->session)
				      : NULL;

	return session && shellproto_running(session->codec) &&
			       session->row.serial == k->serial
		       ? session
		       : NULL;
}

/*
 * Repeat an interrupt that came too early. A shell ignores an interrupt if it has not
 * begun with the command yet. If it is about to start a program, only the shell receives
 * the interrupt, not the program. So if only the shell received it, and the command
 * continues, another interrupt is sent; a program gets only one. A shell whose command
 * has written output also gets only one, because a trap of the command would run again
 * each time.
 */
static void session_stop_insist(struct session *session)
{
	if (!session->stopping && !session->terminal && session->insisted < INSIST_MAX)
		loop_timer_set(session->insist, INSIST_MS << session->insisted++);
}

static void on_processes(void *ctx, const struct proto_process *list, size_t n)
{
	struct stopping *k = ctx;
	struct session *session = session_stop_still(k);
	struct shellproto_process *procs = calloc(n + 1, sizeof(*procs));
	int *pids = calloc(n + 1, sizeof(*pids)), sig = SIGKILL;
	size_t count = 0, had = 0;

	for (size_t i = 0; procs && i < n; i++)
		procs[i] = (struct shellproto_process){
			.pid = list[i].pid,
			.ppid = list[i].ppid,
			.start = list[i].start,
			.ignores_int = list[i].flags & PROTO_PROCESS_IGNORES_INT,
		};
	if (session && procs && pids)
		count = shellproto_victims(session->codec, k->step, session->since, procs,
					   n, pids, &sig);
	if (session && k->again && session->spoke && count > 0 &&
	    pids[0] == shellproto_pid(session->codec))
		had = 1;
	k->left = 1 + count - had;
	for (size_t i = had; i < count; i++)
		exec_signal_one(k->exec, k->sig ? k->sig : sig, pids[i], on_sent, k);
	if (session && count <= 1 && k->step == SHELLPROTO_STEP_INTERRUPT)
		session_stop_insist(session);
	free(procs);
	free(pids);
	on_sent(k, 0, NULL);
}

static void take_step(struct session *session, enum shellproto_step step, int sig,
		      bool again)
{
	struct stopping *k = calloc(1, sizeof(*k));

	if (!k)
		return;
	k->exec = exec_ref(session->exec);
	(void)memcpy(k->session, session->row.id, sizeof(k->session));
	k->serial = session->row.serial;
	k->step = step;
	k->sig = sig;
	k->again = again;
	session->stops++;
	exec_list(session->exec, on_processes, k);
}

void session_on_insist(void *ctx)
{
	struct session *session = ctx;

	if (shellproto_running(session->codec) && session->interrupted &&
	    !session->stopping)
		take_step(session, SHELLPROTO_STEP_INTERRUPT, 0, true);
}

/*
 * Has the output stopped moving? Blocked output gets some time to move again: init checks
 * a full disk only at intervals, and everything takes longer on a busy machine.
 */
static bool session_stop_is_stuck(struct session *session)
{
	if (!(session->command && session->command->blocked) &&
	    !session->service->disk_full)
		return false;
	session->stop_cursor = session->cursor;
	session->stop_looks = LOOKS_MAX;
	session->stop_stuck = true;
	return true;
}

/*
 * The result of a command that ended may come after unread output, in the journal or in
 * pipes on the way to it. Return true while that output is being read. A command that
 * continues to write cannot extend this: output after the mark does not count, and
 * neither does slow output.
 */
static bool is_reading(struct session *session)
{
	uint64_t from, to, before = session->stop_cursor;
	uint64_t moved = session->cursor - before;

	if (session->stop_mark == 0) {
		if (exec_extent(session->exec, &from, &to) < 0 || to < session->cursor)
			to = session->cursor;
		session->stop_mark = to + PIPES_MAX;
	}
	session->stop_cursor = session->cursor;
	if (session->cursor >= session->stop_mark || (moved == 0 && !session->stop_stuck))
		return false;
	session->stop_stuck &= moved == 0;
	if (before == UINT64_MAX || moved >= LITTLE)
		return true;
	return session->stop_looks > 0 && session->stop_looks-- > 0;
}

/*
 * Is there a reason to wait longer before the shell is killed? A paused sandbox cannot
 * react, and the result may be behind unread output, or behind output for which the disk
 * has no space.
 */
static bool is_held_up(struct session *session, enum shellproto_step next)
{
	if (session->stops > 0 ||
	    (session->sandbox && session->sandbox->row.state == SANDBOX_PAUSED))
		return true;
	if (next != SHELLPROTO_STEP_END)
		return false;
	return session_stop_is_stuck(session) || is_reading(session);
}

void session_on_timer(void *ctx)
{
	struct session *session = ctx;

	if (!shellproto_running(session->codec))
		return;
	if (session->opened) {
		session_open_late(session);
		return;
	}
	if (!session->stopping) {
		session->stopping = true;
		session->timed_out = true;
		session->step = 0;
		session->stop_cursor = UINT64_MAX;
		session->stop_mark = 0;
		session->stop_looks = LOOKS_MAX;
		session->stop_stuck = false;
	}
	if (session->step >= ARRAY_SIZE(steps))
		return;
	if (is_held_up(session, steps[session->step].step)) {
		loop_timer_set(session->timer, HELD_MS);
		return;
	}
	take_step(session, steps[session->step].step, 0, false);
	loop_timer_set(session->timer, steps[session->step++].ms);
}

void session_interrupt(struct session *session, int sig)
{
	if (!shellproto_running(session->codec) || session->opened)
		return;
	session->interrupted = true;
	session->insisted = 0;
	/*
	 * An interrupt repeats the first step each time. If a command ignores it, its
	 * timeout ends it.
	 */
	if (sig == SIGINT)
		take_step(session, SHELLPROTO_STEP_INTERRUPT, 0, false);
	else if (session->framed)
		take_step(session, SHELLPROTO_STEP_KILL_ALL, sig, false);
	else
		exec_signal(session->exec, sig, WARREN_WHOM_NEW, service_ignore, NULL);
}

void session_stop(struct session *session, bool all)
{
	if (shellproto_running(session->codec) && !session->opened)
		take_step(session, all ? SHELLPROTO_STEP_KILL_ALL : SHELLPROTO_STEP_KILL,
			  0, false);
}

/* ------------------------------------------------------------- end of a closed session
 */

struct shell_end {
	service_done_fn done;
	void *ctx;
};

/* The shell has ended, or ends with its sandbox, for example by a hibernation. */
static void shell_end_on_signal(void *ctx, int r, const struct warren_error *err)
{
	struct shell_end *e = ctx;
	bool gone = r == -ESRCH || r == -ESTALE;

	e->done(e->ctx, gone ? 0 : r, gone ? NULL : err);
	free(e);
}

void session_end_shell(struct exec *exec, service_done_fn done, void *ctx)
{
	struct shell_end *e = malloc(sizeof(*e));

	if (e)
		*e = (struct shell_end){ .done = done, .ctx = ctx };
	exec_signal(exec, SIGKILL, WARREN_WHOM_TREE, e ? shell_end_on_signal : done,
		    e ? (void *)e : ctx);
}
