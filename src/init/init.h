/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init.h - pid 1 of a native sandbox: the parts and what they share
 *
 * main.c	the loop: one control connection, one epoll, one signalfd, one timerfd
 * spawn.c	SPAWN: from a message to an execve(2)
 * exec.c	the table of execs: reaping, deadlines, killing a tree, accounting
 * group.c	the cgroup of an exec, v1 and v2
 * drain.c	output into a journal
 * reach.c	OPEN and CONNECT
 *
 * init runs under the same system call filter and with the same capabilities as
 * what it starts, but as a user of its own (INIT_ID): whoever is root inside
 * has no say over its limits, priority or processors. It is not dumpable, so
 * nothing inside can trace it or open its /proc files, and the kernel protects
 * pid 1 of a namespace from signals of that namespace. It waits for nothing
 * that runs inside, and trusts the control connection, and nothing else.
 */
#ifndef INIT_INIT_H
#define INIT_INIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "init/proto.h"
#include "init/sys.h"

#define CONTROL_FD 3     /* where the child before us left the connection */
#define INIT_ID    65535 /* the last of a sandbox's ids; nobody's, by convention */

/* One exec, from SPAWN until its first process is reaped and its output is drained. */
struct exec {
	uint32_t id;
	int pid; /* 0: the slot is free or the process has been reaped */
	bool used;
	bool sole;          /* accounted as the whole sandbox */
	int group;          /* number of its own cgroups, -1: none */
	uint64_t old_kills; /* by the OOM killer, of those who had its cgroups before */
	bool timed_out;
	bool failed; /* never started, and its request is answered: reap and forget */
	int start;   /* a pipe that ends when it execs, -1: it has */
	uint64_t start_by; /* ns, monotonic: when that must have happened */
	uint32_t seq;      /* of the request that is answered then */
	int master;        /* the terminal that goes with the answer, -1: none */
	uint64_t started;  /* ns, monotonic */
	uint64_t deadline; /* ns, monotonic; 0: none */
	int journal;       /* -1: none */
	int notify;        /* an eventfd that tells readers of the journal */
	int pipe[2];       /* read ends of stdout and stderr; -1: closed */
	uint64_t capacity, head, tail, lost; /* of the journal */
};

struct init {
	int control;
	int epoll;
	int signals;
	int timer;
	int null;
	int n_join, n_join_box;
	int join[PROTO_FDS_MAX]; /* `tasks` files for every exec */
	int join_box
		[PROTO_FDS_MAX]; /* `tasks` files for an exec without its own cgroup */
	int dir[PROTO_ROLE_MAX]; /* directories by role; -1: none */
	uint64_t caps;           /* what we have */
	unsigned n_execs;        /* slots ever used: the table is searched up to here */
	struct exec execs[PROTO_EXECS_MAX];
};

extern struct init init;

/* What epoll hands back: which kind of descriptor, and of which exec. */
enum watch {
	WATCH_CONTROL,
	WATCH_SIGNAL,
	WATCH_TIMER,
	WATCH_START, /* and the exec's slot */
	WATCH_OUT,   /* and the exec's slot, and which of its two pipes */
};
int watch_add(int fd, enum watch what, unsigned slot, unsigned which);

__attribute__((noreturn)) void init_main(void);
void report(const struct proto_exited *msg);
void reply(uint32_t seq, long status, enum proto_stage stage, int fd);
uint64_t now(void);

/* spawn.c */
void spawn(const struct proto_spawn *msg, size_t size, int *fds, size_t n_fds);
/* The pipe of a starting exec has something to say: answer the request. */
void spawn_started(struct exec *ex);
/* Only what is in @mask, of what we have; -1: all. */
void take_caps(uint64_t mask);

/* exec.c */
struct exec *exec_new(uint32_t id);
struct exec *exec_find(uint32_t id);
void exec_release(struct exec *ex);
void exec_reap(void);
void exec_deadlines(void);
void exec_kill_tree(struct exec *ex);

/* group.c */
long group_make(struct exec *ex, int *own, int *n_own);
void group_leave(struct exec *ex);
bool group_kill(struct exec *ex);
void group_account(const struct exec *ex, struct proto_exited *out);

/* drain.c */
long drain_start(struct exec *ex, uint64_t limit);
void drain(struct exec *ex, unsigned which);
void drain_end(struct exec *ex);

/* reach.c */
void reach_open(const struct proto_open *msg);
void reach_connect(const struct proto_connect *msg);

#endif /* INIT_INIT_H */
