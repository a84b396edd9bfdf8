/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks.h - functions that each agent program provides for the core
 *
 * The core is linked into three programs. Each provides the functions in its
 * column; a program that lacks one does not link.
 *
 *	hook                    init              guest             shim
 *	agent_main              main.c            main.c            (has its own main())
 *	init_dispatch, _end     main.c            guest_server.c    run.c
 *	agent_now               privileges.c (of the core), both    run.c
 *	exec_forget             exec.c (core)     guest_server.c    exec.c (core)
 *	watch_*, exec_stranger  main.c            -                 run.c
 *	exec_status             main.c            -                 exec.c
 *	spawn_*                 exec_child.c      -                 exec.c
 *	group_*                 exec_cgroup.c     -                 exec.c
 *	tree_kill               exec_procs.c      -                 exec_kill.c
 *	tree_newest             exec_procs.c      -                 exec.c
 *	tree_first              exec_procs.c      -                 exec.c
 */
#ifndef AGENT_CORE_HOOKS_H
#define AGENT_CORE_HOOKS_H

#include "agent/core/agent.h"

struct plan; /* spawn.h */

/* The C entry point, which start.c calls with a prepared stack. */
__attribute__((noreturn)) void agent_main(void);
/* End the sandbox and this process. */
__attribute__((noreturn)) void init_end(void);
/*
 * Handle a message from connection @c: @size bytes in inbox, and descriptors. It may keep
 * descriptors by taking them out of @fds.
 */
void init_dispatch(int c, size_t size, int *fds, size_t n_fds);
/* Nanoseconds of the monotonic clock. */
uint64_t agent_now(void);

/* Start and stop watching @fd in the event loop. */
int watch_add(int fd, enum watch what, unsigned slot, unsigned which);
void watch_drop(int fd);

/*
 * Create the process with the plan's streams and set ex->pid. spawn_started() reports
 * later whether it started.
 */
long spawn_child(struct plan *p, struct exec *ex);
long spawn_terminal(const struct proto_spawn *msg, int *ret_master, int *ret_slave);
/* Called when the start pipe of an exec is readable: answer the SPAWN request. */
void spawn_started(struct exec *ex);

/* Compute how an exec ended from the wait status of its process. */
int exec_status(struct exec *ex, int status);
/* Handle the end of a process that belongs to no exec. */
void exec_stranger(int pid, int status);
/* Connection @c has ended: release everything that belongs to it. */
void exec_forget(int c);

/*
 * The cgroup of an exec: create it, set the limits of the request, read its usage, remove
 * it.
 */
long group_make(struct exec *ex, int *own, int *n_own);
long group_limit(struct exec *ex, const struct proto_spawn *msg);
void group_account(const struct exec *ex, struct proto_exited *out);
void group_leave(struct exec *ex);

/* Kill all processes of an exec. */
void tree_kill(struct exec *ex);
/* The newest pid of the namespace, or 0 if it is unknown. */
int tree_newest(void);
/* The pid of the first process of an exec inside the sandbox, or 0 if it is unknown. */
int tree_first(const struct exec *ex);

#endif /* AGENT_CORE_HOOKS_H */
