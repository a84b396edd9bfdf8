/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_kill.c - find overdue execs, and kill them
 *
 * Finding the processes of an exec means looking at all processes inside. Hundreds of
 * execs may reach their deadline at the same moment, so they are killed together: as many
 * as fit into one message to the worker (exec_procs.c), and the others after it has
 * answered.
 *
 * No process inside can be killed while the sandbox is paused or saved. In this case, all
 * overdue execs wait, and the shim checks once a second whether the pause is over;
 * nothing else is delayed. While an exec waits, its tool is not killed, because the end
 * of the tool would mean that the processes inside have ended too.
 *
 * An exec may time out while the platform still starts it. Its processes may then appear
 * only after the search for them. So the search is repeated until one search has begun
 * after the platform reported the start.
 */
#include <errno.h>
#include <string.h>

#include "shim/core/shim.h"
#include "shim/core/workers.h"

/* Time until the next check whether killing is possible. */
#define AGAIN_NS    1000000000ULL
#define STARTING_NS 50000000ULL /* time until the next search for a starting exec */

enum overdue_state {
	OVERDUE_NOT,
	OVERDUE_WAITS,
	OVERDUE_ASKED, /* the worker is killing its processes */
};

static struct overdue {
	enum overdue_state state;
	uint32_t exec;
	uint64_t until; /* time until which to search while it is starting, in ns */
	bool starting;  /* it was still starting when the worker began */
} overdue[PROTO_EXECS_MAX];

static bool kill_asked;     /* a batch is in progress */
static uint64_t kill_again; /* earliest time of the next batch, in ns */

/*
 * Return the exec in that slot, if it is still in this state; NULL: there is none, or it
 * has ended.
 */
static struct exec *overdue_exec(unsigned slot, enum overdue_state state)
{
	struct exec *ex = &init.execs[slot];

	if (overdue[slot].state != state)
		return NULL;
	if (slot < init.n_execs && ex->used && ex->id == overdue[slot].exec &&
	    ex->pid > 0)
		return ex;
	overdue[slot].state = OVERDUE_NOT;
	return NULL;
}

void tree_kill(struct exec *ex)
{
	/* The processes of a saved sandbox can be killed only after it is resumed. */
	if (save_is_away()) {
		ex->timed_out = false;
		ex->deadline = agent_now() + AGAIN_NS;
		return;
	}
	if (!inside.shell[0] && !this_sandbox.driver->signal) {
		child_end(ex); /* no process inside will be found */
		return;
	}
	overdue[ex - init.execs] = (struct overdue){
		.state = OVERDUE_WAITS,
		.exec = ex->id,
		.until = agent_now() + SIGNAL_SECS * 1000000000ULL,
	};
	child_spare(ex);
}

void kill_spare(void)
{
	for (unsigned i = 0; !sandbox_is_dead() && i < init.n_execs; i++) {
		child_spare(overdue_exec(i, OVERDUE_WAITS));
		child_spare(overdue_exec(i, OVERDUE_ASKED));
	}
}

uint64_t kill_next(void)
{
	for (unsigned i = 0; !kill_asked && i < init.n_execs; i++)
		if (overdue_exec(i, OVERDUE_WAITS))
			return kill_again ? kill_again : agent_now();
	return 0;
}

/* Collect the execs of one user, because the search runs as that user; other users' execs
 * follow later. */
static size_t kill_batch(struct target *targets)
{
	size_t n = 0;

	for (unsigned i = 0; n < WORK_KILLS_MAX && i < init.n_execs; i++) {
		const struct exec *ex = overdue_exec(i, OVERDUE_WAITS);

		if (!ex ||
		    (n > 0 && strcmp(child_target(ex)->user, targets[0].user) != 0))
			continue;
		targets[n++] = *child_target(ex);
		overdue[i].state = OVERDUE_ASKED;
		overdue[i].starting = ex->start >= 0;
	}
	return n;
}

/* The batch has ended: end its execs, or let them wait for another batch. */
static void kill_settle(bool again)
{
	uint64_t t = agent_now();

	kill_again = again ? t + AGAIN_NS : 0;
	for (unsigned i = 0; i < init.n_execs; i++) {
		struct exec *ex = overdue_exec(i, OVERDUE_ASKED);

		if (!ex)
			continue;
		if (!again && overdue[i].starting && t < overdue[i].until) {
			overdue[i].state = OVERDUE_WAITS;
			kill_again = t + STARTING_NS;
			continue;
		}
		overdue[i].state = again ? OVERDUE_WAITS : OVERDUE_NOT;
		if (!again)
			child_end(ex);
	}
	if (again)
		kill_spare();
}

void kill_deadlines(void)
{
	static struct target targets[WORK_KILLS_MAX];
	uint64_t by = kill_next();
	size_t n;

	if (by == 0 || agent_now() < by)
		return;
	n = kill_batch(targets);
	if (sandbox_is_dead() || save_is_away() || work_kill(targets, n) < 0)
		kill_settle(!sandbox_is_dead());
	else
		kill_asked = true;
}

void kill_over(long status)
{
	kill_asked = false;
	kill_settle(status == -EBUSY && !sandbox_is_dead());
}
