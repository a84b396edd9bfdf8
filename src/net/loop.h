/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.h - the event loop of a process: descriptors, timers, and work for later
 *
 * One thread, one loop. Callbacks run one after another and none is ever called
 * from inside a function of this header, loop_run() aside. Handles may be freed
 * from any callback, their own included; nothing is called for them afterwards.
 */
#ifndef NET_LOOP_H
#define NET_LOOP_H

#include <stdint.h>

#include "base/error.h"

struct net_loop;
struct loop_watch;
struct loop_timer;

enum loop_event {
	LOOP_READ = 1,
	LOOP_WRITE = 2,
	LOOP_GONE = 4, /* the other side has ended its half of a socket */
};

int loop_new(struct net_loop **ret, struct warren_error *err);
struct net_loop *loop_free(struct net_loop *loop);

/* Until loop_stop(), or until nothing is watched or timed any more. */
void loop_run(struct net_loop *loop);
void loop_stop(struct net_loop *loop);
/* Milliseconds of the monotonic clock, as they were when this round began. */
uint64_t loop_now(const struct net_loop *loop);

/*
 * Call @fn whenever @fd (a socket, pipe, eventfd, pidfd: not a regular file) has
 * one of @events. Level-triggered; an error shows as all of @events at once. The
 * descriptor becomes non-blocking, stays the caller's, and must be open until
 * after loop_watch_free().
 */
int loop_watch(struct net_loop *loop, int fd, unsigned events,
	       void (*fn)(void *ctx, unsigned events), void *ctx,
	       struct loop_watch **ret);
/* Other events; 0 pauses. */
int loop_watch_set(struct loop_watch *w, unsigned events);
struct loop_watch *loop_watch_free(struct loop_watch *w);

/* A timer that is not running yet. */
int loop_timer_new(struct net_loop *loop, void (*fn)(void *ctx), void *ctx,
		   struct loop_timer **ret);
/* Call once, @ms from now, instead of whenever it was set to before. */
void loop_timer_set(struct loop_timer *t, uint64_t ms);
void loop_timer_stop(struct loop_timer *t);
struct loop_timer *loop_timer_free(struct loop_timer *t);

/* Work for later, inside the struct that it belongs to; needs no memory, so cannot fail. */
struct loop_task {
	void (*fn)(void *ctx);
	void *ctx;
	struct loop_task *next, *prev; /* the loop's; NULL while it does not wait */
};

/* Once, before the loop sleeps again. A task that waits already is left where it is. */
void loop_defer(struct net_loop *loop, struct loop_task *task);
void loop_task_cancel(struct loop_task *task);

#endif /* NET_LOOP_H */
