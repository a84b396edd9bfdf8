/* SPDX-License-Identifier: Apache-2.0 */
/* loop_internal.h - the loop and its shared buffers, for the streams of this folder */
#ifndef NET_LOOP_INTERNAL_H
#define NET_LOOP_INTERNAL_H

#include <stddef.h>
#include <uv.h>

#include "base/clock.h"
#include "net/loop.h"

#define LOOP_IN_SIZE  (128U << 10)
#define LOOP_OUT_SIZE (64U << 10)

struct stream;

struct net_loop {
	uv_loop_t uv;
	uv_prepare_t prepare;   /* runs tasks before the loop sleeps */
	uv_idle_t idle;         /* keeps the loop awake if tasks have queued tasks */
	struct loop_task tasks; /* the head of a ring */
	struct loop_task later; /* the head of another ring, for tasks of loop_later() */
	size_t working;         /* calls of loop_work() that run or wait */
	unsigned in_pool;       /* how many of these calls run on threads */
	/* The calls that wait, by tenant; the first queue is served next. */
	struct work_queue *queues;
	/* The watchdog. */
	uint64_t turn;          /* ns: start of this turn; 0: not in a turn */
	uint64_t last;          /* ns: end of the last callback in this turn */
	uint64_t worst;         /* ns: duration of the longest callback in this turn */
	const char *worst_name; /* name of the longest callback in this turn */
	/* Name that the current callback gave to loop_mark(); NULL: none. */
	const char *mark;
	uint64_t sampled; /* time when `sample` was read */
	uint64_t sample;  /* processor time at that moment */
	struct loop_turns turns;
	void (*on_slow)(void *ctx, const char *name, uint64_t usec, uint64_t cpu_usec);
	void *slow_ctx;
	/*
	 * Received bytes are delivered before more are received, and all bytes that one
	 * stream sends in one round are sent together. So one buffer for each direction
	 * serves all connections, and an idle connection needs none.
	 */
	char *in;
	char *out;
	size_t out_len;
	struct stream *corked; /* the stream whose bytes are in @out */
};

/* loop_watchdog.c: called around each callback; the first one begins a turn. */
static inline void loop_enter(struct net_loop *loop)
{
	if (loop->turn == 0)
		loop->turn = loop->last = clock_now();
}

void loop_leave(struct net_loop *loop, const char *name);
/* loop_work.c: call this before the threads get any work. */
void loop_work_init(void);
/* End the turn. Call this before the loop waits. */
void loop_turn_end(struct net_loop *loop);

#endif /* NET_LOOP_INTERNAL_H */
