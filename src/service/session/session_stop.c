/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_stop.c - a session's command is stopped, step by step, and its shell is kept
 *
 * A command that is out of time, or interrupted, is stopped by the steps below, each of which is given a while. The
 * shell goes last. Signals take their time where a sandbox is another program's: what the shell is told next waits
 * until they have arrived, as an interrupt that comes late would be the next command's.
 *
 * A step is for commands that do not obey. One that cannot obey, or whose result cannot be read
 * yet, is given time: is_held_up().
 */
#include <signal.h>
#include <string.h>

#include "service/session/session_internal.h"

#define INSIST_MS  150 /* and twice as long each time */
#define INSIST_MAX 4
#define HELD_MS    250 /* until one looks again whether it is held up */
#define PIPES_MAX \
	(4 << 20) /* bytes that may be on their way from a command to its journal */

/* How a command is stopped, step by step; src/shellproto says who is meant. */
static const struct {
	enum session_step step;
	unsigned ms; /* until the next */
} steps[] = {
	{ SESSION_STEP_INTERRUPT, 150 }, /* a shell in a function needs more than one */
	{ SESSION_STEP_INTERRUPT, 250 }, { SESSION_STEP_INTERRUPT, 500 },
	{ SESSION_STEP_KILL, 500 },      { SESSION_STEP_KILL_ALL, 1000 },
	{ SESSION_STEP_END, 5000 },
};

/* A step under way: the processes of the exec are asked for, then some are signalled. */
struct stopping {
	struct run *run;
	char session[ID_LEN + 1];
	uint64_t serial; /* of the command that is meant */
	enum session_step step;
	int sig;     /* instead of the step's own; 0: that */
	bool again;  /* one that may have come too early */
	size_t left; /* signals on their way, and the step itself */
};

/* All that a step sends has arrived: now nothing of it can meet the next command. */
static void on_sent(void *ctx, int r UNUSED, const struct warren_error *err UNUSED)
{
	struct stopping *k = ctx;
	struct shell *sh;

	if (--k->left > 0)
		return;
	sh = run_box(k->run) ? shell_find(run_box(k->run), k->session) : NULL;
	if (sh && --sh->stops == 0)
		shell_pour(sh);
	(void)run_unref(k->run);
	free(k);
}

static struct shell *still(const struct stopping *k)
{
	struct shell *sh =
		run_box(k->run) ? shell_find(run_box(k->run), k->session) : NULL;

	return sh && session_running(sh->codec) && sh->row.serial == k->serial ? sh
									       : NULL;
}

/*
 * A shell that has not begun with the command yet ignores an interrupt, and one that was about
 * to start a program hears of it after that. So where it reached nobody but the shell, and
 * the command goes on, there is another; a program that got it has had its one. So has a shell
 * whose command has written something: a trap of the command's own would run once more each time.
 */
static void insist(struct shell *sh)
{
	if (!sh->stopping && !sh->terminal && sh->insisted < INSIST_MAX)
		loop_timer_set(sh->insist, INSIST_MS << sh->insisted++);
}

static void on_processes(void *ctx, const struct proto_process *list, size_t n)
{
	struct stopping *k = ctx;
	struct shell *sh = still(k);
	struct session_process *procs = calloc(n + 1, sizeof(*procs));
	int *pids = calloc(n + 1, sizeof(*pids)), sig = SIGKILL;
	size_t count = 0, had = 0;

	for (size_t i = 0; procs && i < n; i++)
		procs[i] = (struct session_process){
			.pid = list[i].pid,
			.ppid = list[i].ppid,
			.start = list[i].start,
			.ignores_int = list[i].flags & PROTO_PROCESS_IGNORES_INT,
		};
	if (sh && procs && pids)
		count = session_victims(sh->codec, k->step, sh->since, procs, n, pids,
					&sig);
	if (sh && k->again && sh->spoke && count > 0 && pids[0] == session_pid(sh->codec))
		had = 1;
	k->left = 1 + count - had;
	for (size_t i = had; i < count; i++)
		run_signal_one(k->run, k->sig ? k->sig : sig, pids[i], on_sent, k);
	if (sh && count <= 1 && k->step == SESSION_STEP_INTERRUPT)
		insist(sh);
	free(procs);
	free(pids);
	on_sent(k, 0, NULL);
}

static void take_step(struct shell *sh, enum session_step step, int sig, bool again)
{
	struct stopping *k = calloc(1, sizeof(*k));

	if (!k)
		return;
	k->run = run_ref(sh->run);
	(void)memcpy(k->session, sh->row.id, sizeof(k->session));
	k->serial = sh->row.serial;
	k->step = step;
	k->sig = sig;
	k->again = again;
	sh->stops++;
	run_list(sh->run, on_processes, k);
}

void shell_on_insist(void *ctx)
{
	struct shell *sh = ctx;

	if (session_running(sh->codec) && sh->interrupted && !sh->stopping)
		take_step(sh, SESSION_STEP_INTERRUPT, 0, true);
}

/*
 * The result of a command that obeyed may stand behind output which was not read yet: in the
 * journal, or in pipes on the way to it. True while that is read, which a command that goes on
 * writing cannot draw out: what it writes beyond the mark does not count.
 */
static bool is_reading(struct shell *sh)
{
	uint64_t from, to, before = sh->stop_cursor;

	if (sh->stop_mark == 0) {
		if (run_extent(sh->run, &from, &to) < 0 || to < sh->cursor)
			to = sh->cursor;
		sh->stop_mark = to + PIPES_MAX;
	}
	sh->stop_cursor = sh->cursor;
	return before != sh->cursor && sh->cursor < sh->stop_mark;
}

/*
 * A sandbox that is paused hears nothing. Output that nobody takes, or for which the disk has no
 * room, is no reason to end the shell.
 */
static bool is_held_up(struct shell *sh, enum session_step next)
{
	if (sh->stops > 0 || (sh->box && sh->box->row.state == SANDBOX_PAUSED))
		return true;
	if (next != SESSION_STEP_END)
		return false;
	return is_reading(sh) || (sh->command && sh->command->blocked) ||
	       sh->service->disk_full;
}

void shell_on_timer(void *ctx)
{
	struct shell *sh = ctx;

	if (!session_running(sh->codec))
		return;
	if (sh->opened) {
		shell_open_late(sh);
		return;
	}
	if (!sh->stopping) {
		sh->stopping = true;
		sh->timed_out = true;
		sh->step = 0;
		sh->stop_cursor = UINT64_MAX;
		sh->stop_mark = 0;
	}
	if (sh->step >= ARRAY_SIZE(steps))
		return;
	if (is_held_up(sh, steps[sh->step].step)) {
		loop_timer_set(sh->timer, HELD_MS);
		return;
	}
	take_step(sh, steps[sh->step].step, 0, false);
	loop_timer_set(sh->timer, steps[sh->step++].ms);
}

void shell_interrupt(struct shell *sh, int sig)
{
	if (!session_running(sh->codec) || sh->opened)
		return;
	sh->interrupted = true;
	sh->insisted = 0;
	/* The first of the steps, once more each time; a stubborn command has a timeout for it. */
	if (sig == SIGINT)
		take_step(sh, SESSION_STEP_INTERRUPT, 0, false);
	else if (sh->framed)
		take_step(sh, SESSION_STEP_KILL_ALL, sig, false);
	else
		run_signal(sh->run, sig, WARREN_WHOM_NEW, service_ignore, NULL);
}

void shell_stop(struct shell *sh, bool all)
{
	if (session_running(sh->codec) && !sh->opened)
		take_step(sh, all ? SESSION_STEP_KILL_ALL : SESSION_STEP_KILL, 0, false);
}
