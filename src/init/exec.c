/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - the table of execs: reaping, deadlines, killing a tree
 *
 * A slot is in use from SPAWN until the first process is reaped and, with a
 * journal, until both streams have ended. Everybody else's orphans come to us
 * as well (we are pid 1): they are reaped and forgotten.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "init/init.h"

struct exec *exec_new(uint32_t id)
{
	struct exec *ex = NULL;

	if (exec_find(id))
		return NULL;
	for (unsigned i = 0; i < PROTO_EXECS_MAX && !ex; i++)
		if (!init.execs[i].used)
			ex = &init.execs[i];
	if (!ex)
		return NULL;
	*ex = (struct exec){ .id = id,
			     .used = true,
			     .journal = -1,
			     .notify = -1,
			     .pipe = { -1, -1 },
			     .group = -1,
			     .start = -1,
			     .master = -1 };
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

void exec_release(struct exec *ex)
{
	const int fds[] = { ex->pipe[0], ex->pipe[1], ex->journal,
			    ex->notify,  ex->start,   ex->master };

	for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			sys_close(fds[i]);
	if (ex->group >= 0)
		group_leave(ex);
	ex->used = false;
	/* The sandbox was for this one alone: its end need not wait for an order. */
	if (ex->sole && !ex->failed && ex->started)
		sys_exit(0);
}

static uint64_t usec(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000 + (uint64_t)tv->tv_usec;
}

static void finished(struct exec *ex, int status, const struct rusage *ru)
{
	struct proto_exited msg = {
		.h = { .version = PROTO_VERSION, .type = PROTO_EXITED },
		.exec = ex->id,
		.status = status,
		.wall_usec = (now() - ex->started) / 1000,
		.user_usec = usec(&ru->ru_utime),
		.system_usec = usec(&ru->ru_stime),
		.max_memory = (uint64_t)ru->ru_maxrss * 1024,
		.read_bytes = (uint64_t)ru->ru_inblock * 512,
		.written_bytes = (uint64_t)ru->ru_oublock * 512,
	};

	/* It may have ended before we looked at how it began. */
	spawn_started(ex);
	ex->pid = ex->failed ? 0 : ex->pid;
	if (ex->failed) {
		exec_release(ex);
		return;
	}
	if (ex->timed_out)
		msg.flags |= PROTO_EXITED_TIMED_OUT;
	/* What it wrote before it ended is in the journal before its end is told. */
	drain(ex, 0);
	drain(ex, 1);
	group_account(ex, &msg);
	report(&msg);
	ex->pid = 0;
	if (ex->journal < 0)
		exec_release(ex);
	else
		drain_end(ex);
}

void exec_reap(void)
{
	for (;;) {
		struct rusage ru = { 0 };
		int status = 0;
		long pid = SYS_4(SYS_wait4, -1, &status, WNOHANG, &ru);

		if (pid <= 0)
			break;
		for (unsigned i = 0; i < init.n_execs; i++) {
			if (init.execs[i].used && init.execs[i].pid == pid) {
				finished(&init.execs[i], status, &ru);
				break;
			}
		}
	}
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Kill what is overdue, and set the timer to the next deadline. */
void exec_deadlines(void)
{
	struct itimerspec next = { 0 };
	uint64_t soonest = 0, t = now();

	for (unsigned i = 0; i < init.n_execs; i++) {
		struct exec *ex = &init.execs[i];

		if (!ex->used || ex->pid == 0)
			continue;
		if (ex->deadline && ex->deadline <= t) {
			ex->timed_out = true;
			ex->deadline = 0;
			exec_kill_tree(ex);
		}
		/* Stopped or held up from inside before it could exec: its end closes the pipe. */
		if (ex->start >= 0 && ex->start_by && ex->start_by <= t) {
			ex->start_by = 0;
			(void)sys_kill(ex->pid, SIGKILL);
		}
		soonest = sooner(soonest, ex->deadline);
		soonest = sooner(soonest, ex->start >= 0 ? ex->start_by : 0);
	}
	next.it_value.tv_sec = (time_t)(soonest / 1000000000);
	next.it_value.tv_nsec = (long)(soonest % 1000000000);
	(void)SYS_4(SYS_timerfd_settime, init.timer, TFD_TIMER_ABSTIME, &next, NULL);
}

/* The session of process @name of /proc: the sixth word of its stat, after "(comm)". */
static long session_of(const char *name)
{
	char path[64] = "/proc/", text[512];
	size_t len = strlen(name);
	const char *p = text, *close = NULL;
	long fd, n, sid = 0;

	if (len > 20)
		return -1;
	memcpy(path + 6, name, len);
	memcpy(path + 6 + len, "/stat", 6);
	fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	n = sys_read(fd, text, sizeof(text) - 1);
	sys_close(fd);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	for (; *p; p++)
		if (*p == ')')
			close = p;
	if (!close)
		return -1;
	p = close + 1; /* " S ppid pgrp session" */
	for (int word = 0; word < 4; word++) {
		while (*p == ' ')
			p++;
		if (word == 3)
			break;
		while (*p && *p != ' ')
			p++;
	}
	while (*p >= '0' && *p <= '9')
		sid = sid * 10 + (*p++ - '0');
	return sid;
}

struct dirent64 {
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

/*
 * Without cgroups a tree is known by its session only. A process that made a
 * session of its own escapes this, though not the end of the sandbox.
 */
static void kill_session(int leader)
{
	static _Alignas(8) char list[8192];
	long fd = sys_openat(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	long n;

	(void)sys_kill(-leader, SIGKILL);
	while (fd >= 0 && (n = SYS_3(SYS_getdents64, fd, list, sizeof(list))) > 0) {
		for (long at = 0; at < n;) {
			const struct dirent64 *d = (const void *)(list + at);
			long pid = 0;

			at += d->reclen;
			for (const char *c = d->name; *c >= '0' && *c <= '9'; c++)
				pid = pid * 10 + (*c - '0');
			if (pid > 1 && session_of(d->name) == leader)
				(void)sys_kill(pid, SIGKILL);
		}
	}
	if (fd >= 0)
		sys_close(fd);
}

void exec_kill_tree(struct exec *ex)
{
	if (ex->sole)
		(void)sys_kill(-1, SIGKILL); /* all of the namespace but us */
	else if (!group_kill(ex) && ex->pid > 0)
		kill_session(ex->pid);
}
