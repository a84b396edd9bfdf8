/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.h - the event loop of a process: descriptors, timers, and work for later
 *
 * One thread runs one loop. Callbacks run one after another, and only loop_run() calls
 * them. Handles may be freed from any callback, including their own; their callbacks are
 * not called afterwards.
 */
#ifndef NET_LOOP_H
#define NET_LOOP_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct net_loop;
struct loop_watch;
struct loop_timer;

enum loop_event {
	LOOP_READ = 1,
	LOOP_WRITE = 2,
	LOOP_GONE = 4, /* the other side has closed its half of a socket */
};

int loop_new(struct net_loop **ret, struct warren_error *err);
struct net_loop *loop_free(struct net_loop *loop);

/* Run until loop_stop(), or until there are no watches and timers. */
void loop_run(struct net_loop *loop);
void loop_stop(struct net_loop *loop);
/* Milliseconds of the monotonic clock when this round began. */
uint64_t loop_now(const struct net_loop *loop);

/*
 * Call @fn whenever @fd (a socket, pipe, eventfd, pidfd: not a regular file) has one of
 * @events. Events are level-triggered; an error is reported as all of @events. The
 * descriptor becomes non-blocking, still belongs to the caller, and must stay open until
 * after loop_watch_free().
 */
#define loop_watch(loop, fd, events, fn, ctx, ret) \
	loop_watch_named(loop, fd, events, fn, ctx, LOOP_NAME(fn), ret)
int loop_watch_named(struct net_loop *loop, int fd, unsigned events,
		     void (*fn)(void *ctx, unsigned events), void *ctx, const char *name,
		     struct loop_watch **ret);
/* Change the events to wait for; 0: none. */
int loop_watch_set(struct loop_watch *w, unsigned events);
struct loop_watch *loop_watch_free(struct loop_watch *w);

/* Create a timer that does not run yet. */
#define loop_timer_new(loop, fn, ctx, ret) \
	loop_timer_new_named(loop, fn, ctx, LOOP_NAME(fn), ret)
int loop_timer_new_named(struct net_loop *loop, void (*fn)(void *ctx), void *ctx,
			 const char *name, struct loop_timer **ret);
/* Call the timer's function once, in @ms. Replaces an earlier time. */
void loop_timer_set(struct loop_timer *t, uint64_t ms);
void loop_timer_stop(struct loop_timer *t);
/* Will the timer call its function? @t may be NULL. */
bool loop_timer_is_set(const struct loop_timer *t);
struct loop_timer *loop_timer_free(struct loop_timer *t);

/*
 * A deferred call, as a member of its owner's struct. It allocates nothing, so it cannot
 * fail.
 */
struct loop_task {
	void (*fn)(void *ctx);
	void *ctx;
	struct loop_task *next, *prev; /* private; NULL while not queued */
	const char *name;
};

/* Call the task once, before the loop sleeps again. A queued task keeps its place. */
#define loop_defer(loop, task) loop_defer_named(loop, task, LOOP_NAME(task))
void loop_defer_named(struct net_loop *loop, struct loop_task *task, const char *name);
/*
 * Like loop_defer(), for long work that is done in slices: a task that is not done queues
 * itself again. All such tasks together run for LOOP_LATER_MS per turn, in the order of
 * their calls; the rest wait for the next turn. So a new request waits for at most one
 * such share, even if many streams have a lot to send.
 */
#define LOOP_LATER_MS          2
#define loop_later(loop, task) loop_later_named(loop, task, LOOP_NAME(task))
void loop_later_named(struct net_loop *loop, struct loop_task *task, const char *name);
void loop_task_cancel(struct loop_task *task);

/* -------------------------------------------------------------- other threads */

/*
 * For work that may block: call @work on another thread, then @done (NULL: nothing) from
 * the loop. The data that they use must stay valid until @done; the work cannot be
 * cancelled. -ENOMEM: nothing will be called. The threads serve tenants in turn; @tenant
 * NULL is the service itself.
 */
#define loop_work(loop, tenant, work, done, ctx) \
	loop_work_named(loop, tenant, work, done, ctx, LOOP_NAME(done))
int loop_work_named(struct net_loop *loop, const char *tenant, void (*work)(void *ctx),
		    void (*done)(void *ctx), void *ctx, const char *name) MUST_CHECK;
/*
 * Close @fd. Closing the last descriptor of a removed file frees its blocks, which takes
 * long for a large file; so a large file is closed on another thread.
 */
void loop_close(struct net_loop *loop, int fd);

/* --------------------------------------------------------------- the watchdog */

/*
 * A turn is everything that the loop does between two waits. A turn that takes longer
 * than LOOP_SLOW_MS is counted under the name of its longest callback, such as
 * "service/exec/exec_output.c:on_notify", or under the name that this callback gave to
 * loop_mark().
 */
#define LOOP_SLOW_MS   50
#define LOOP_SLOW_KEPT 64 /* maximum number of names with separate counts */

#define LOOP_STRING(x) #x
#define LOOP_NAME(fn)  (__FILE__ ":" LOOP_STRING(fn))

struct loop_slow {
	const char *name; /* "": all names without a separate count */
	uint64_t turns;
};

struct loop_turns {
	uint64_t slow;             /* turns over LOOP_SLOW_MS */
	uint64_t longest_usec;     /* longest of all turns */
	uint64_t longest_cpu_usec; /* processor time of the longest slow turn */
	size_t n;
	struct loop_slow by[LOOP_SLOW_KEPT + 1];
};

/* Name the operation of the current callback. The string @what must stay valid. */
void loop_mark(struct net_loop *loop, const char *what);
const struct loop_turns *loop_turns(const struct net_loop *loop);
/* Call @fn for each slow turn with its name, its duration, and its processor time. */
void loop_on_slow(struct net_loop *loop,
		  void (*fn)(void *ctx, const char *name, uint64_t usec,
			     uint64_t cpu_usec),
		  void *ctx);

#endif /* NET_LOOP_H */
