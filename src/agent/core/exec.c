/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - the table of execs: reaping, deadlines, resource usage
 *
 * A slot is in use from SPAWN until the first process is reaped and, with a
 * journal, until all streams have ended.
 */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "agent/core/agent.h"

struct exec *agent_exec_new(uint32_t id)
{
	struct exec *ex = NULL;

	for (unsigned i = 0; i < PROTO_EXECS_MAX && !ex; i++)
		if (!init.execs[i].used)
			ex = &init.execs[i];
	if (!ex)
		return NULL;
	*ex = (struct exec){ .id = id,
			     .used = true,
			     .journal = -1,
			     .group = -1,
			     .start = -1,
			     .input = -1,
			     .wakeup = -1,
			     .command = -1 };
	for (unsigned i = 0; i < STREAMS; i++)
		ex->pipe[i] = -1;
	for (unsigned i = 0; i < PROTO_CONNECTIONS_MAX; i++)
		ex->notify[i] = -1;
	if (id > init.last_exec)
		init.last_exec = id;
	if ((unsigned)(ex - init.execs) >= init.n_execs)
		init.n_execs = (unsigned)(ex - init.execs) + 1;
	return ex;
}

struct exec *exec_find(uint32_t id)
{
	for (unsigned i = 0; i < init.n_execs; i++)
		if (init.execs[i].used && init.execs[i].id == id)
			return &init.execs[i];
	return NULL;
}

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0)
			sys_close(fds[i]);
}

void agent_exec_release(struct exec *ex)
{
	const int fds[] = { ex->journal, ex->start, ex->input, ex->wakeup, ex->command };

	if (ex->tty && ex->pipe[0] >= 0)
		watch_drop(ex->pipe[0]);
	drain_forget(ex);
	close_all(ex->pipe, STREAMS);
	close_all(ex->notify, PROTO_CONNECTIONS_MAX);
	close_all(fds, sizeof(fds) / sizeof(fds[0]));
	if (ex->group >= 0)
		group_leave(ex);
	ex->used = false;
	/* The sandbox exists only for this exec, so it ends with the exec, without a
	 * request. */
	if (ex->accounts_sandbox && !ex->failed && ex->started)
		init_end();
}

static uint64_t exec_usec(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000 + (uint64_t)tv->tv_usec;
}

static void note_result(struct exec *ex, const struct proto_exited *msg)
{
	const struct journal_result res = {
		.status = msg->status,
		.flags = msg->flags,
		.oom_kills = msg->oom_kills,
		.wall_usec = msg->wall_usec,
		.user_usec = msg->user_usec,
		.system_usec = msg->system_usec,
		.max_memory = msg->max_memory,
		.read_bytes = msg->read_bytes,
		.written_bytes = msg->written_bytes,
		.pid = tree_first(ex),
	};

	drain_result(ex, JOURNAL_EXITED, &res);
}

static void exec_finished(struct exec *ex, int status, const struct rusage *ru)
{
	struct proto_exited msg = {
		.h = { .version = PROTO_VERSION, .type = PROTO_EXITED },
		.exec = ex->id,
		.status = status,
		.wall_usec = (agent_now() - ex->started) / 1000,
		.user_usec = exec_usec(&ru->ru_utime),
		.system_usec = exec_usec(&ru->ru_stime),
		.max_memory = (uint64_t)ru->ru_maxrss * 1024,
		.read_bytes = (uint64_t)ru->ru_inblock * 512,
		.written_bytes = (uint64_t)ru->ru_oublock * 512,
	};

	/* The exec may have ended before init read how it started. */
	spawn_started(ex);
	msg.status = exec_status(ex, status);
	ex->pid = ex->failed ? 0 : ex->pid;
	if (ex->failed) {
		agent_exec_release(ex);
		return;
	}
	if (ex->gone) { /* clients that wait are informed when the sandbox ends */
		for (unsigned i = 0; i < STREAMS; i++)
			journal_drain(ex, i);
		ex->pid = 0;
		agent_exec_release(ex);
		return;
	}
	if (ex->timed_out)
		msg.flags |= PROTO_EXITED_TIMED_OUT;
	/* The journal has all output of the exec before the end is reported. */
	for (unsigned i = 0; i < STREAMS; i++)
		journal_drain(ex, i);
	if (ex->retry_at != 0)
		msg.flags |= PROTO_EXITED_FULL;
	group_account(ex, &msg);
	init.oom_kills += msg.oom_kills;
	/* Write the result to the journal before reporting it, so that clients find it
	 * there. */
	note_result(ex, &msg);
	conn_report(ex, &msg);
	ex->pid = 0;
	if (ex->journal < 0)
		agent_exec_release(ex);
	else
		drain_end(ex);
}

void exec_reap(void)
{
	for (;;) {
		struct rusage ru = { 0 };
		int status = 0;
		long pid = SYS_4(SYS_wait4, -1, &status, WNOHANG, &ru);
		unsigned i = 0;

		if (pid <= 0)
			break;
		while (i < init.n_execs &&
		       (!init.execs[i].used || init.execs[i].pid != pid))
			i++;
		if (i < init.n_execs)
			exec_finished(&init.execs[i], status, &ru);
		else
			exec_stranger((int)pid, status);
	}
}

void exec_forget(int c)
{
	for (unsigned i = 0; i < init.n_execs; i++) {
		struct exec *ex = &init.execs[i];

		if (!ex->used)
			continue;
		ex->hears &= ~(1U << c);
		ex->holds &= ~(1U << c);
		if (ex->asker == c)
			ex->asker = -1;
		if (ex->notify[c] >= 0)
			sys_close(ex->notify[c]);
		ex->notify[c] = -1;
		drain_resume(ex);
	}
}

static uint64_t exec_sooner(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

static void exec_kill_overdue(struct exec *ex, uint64_t t)
{
	bool again = ex->kill_at && ex->kill_at <= t;
	bool overdue = ex->pid != 0 && ex->deadline && ex->deadline <= t;

	if (overdue) {
		ex->timed_out = true;
		ex->deadline = 0;
	}
	if (again || overdue) {
		ex->kill_at = 0;
		tree_kill(ex);
	}
}

/* Kill overdue execs, and set the timer to the next deadline. */
void exec_deadlines(void)
{
	struct itimerspec next = { 0 };
	uint64_t soonest = 0, t = agent_now();

	for (unsigned i = 0; i < init.n_execs; i++) {
		struct exec *ex = &init.execs[i];

		if (!ex->used)
			continue;
		drain_retry(ex, t);
		soonest = exec_sooner(soonest, ex->retry_at);
		exec_kill_overdue(ex, t);
		soonest = exec_sooner(soonest, ex->kill_at);
		if (ex->pid == 0)
			continue;
		/*
		 * A process inside stopped or delayed the child before its execve:
		 * killing it closes the pipe.
		 */
		if (ex->start >= 0 && ex->start_by && ex->start_by <= t) {
			ex->start_by = 0;
			(void)sys_kill(ex->pid, SIGKILL);
		}
		soonest = exec_sooner(soonest, ex->deadline);
		soonest = exec_sooner(soonest, ex->start >= 0 ? ex->start_by : 0);
	}
	soonest = exec_sooner(soonest, conn_hear_again(t));
	next.it_value.tv_sec = (time_t)(soonest / 1000000000);
	next.it_value.tv_nsec = (long)(soonest % 1000000000);
	(void)SYS_4(SYS_timerfd_settime, init.timer, TFD_TIMER_ABSTIME, &next, NULL);
}

void exec_event(unsigned what, unsigned slot, unsigned which)
{
	char scrap[sizeof(struct signalfd_siginfo) * 8];

	if (what == WATCH_LISTEN) {
		conn_accept();
	} else if (what == WATCH_SIGNAL) {
		(void)sys_read(init.signals, scrap, sizeof(scrap));
		exec_reap();
	} else if (what == WATCH_TIMER) {
		(void)sys_read(init.timer, scrap, sizeof(uint64_t));
		exec_deadlines();
	} else if (what == WATCH_START && slot < PROTO_EXECS_MAX) {
		spawn_started(&init.execs[slot]);
	} else if (what == WATCH_OUT && slot < PROTO_EXECS_MAX) {
		journal_drain(&init.execs[slot], which);
	}
}
