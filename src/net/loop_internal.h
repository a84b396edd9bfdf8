/* SPDX-License-Identifier: Apache-2.0 */
/* loop_internal.h - the loop for the streams of this folder: shared buffers */
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
	uv_idle_t idle;         /* keeps it awake when tasks have made tasks */
	struct loop_task tasks; /* the head of a ring */
	struct loop_task later; /* the head of another ring: tasks of loop_later() */
	size_t working;         /* of loop_work(): under way or waiting */
	unsigned in_pool;       /* of these: with the threads */
	struct work_queue
		*queues; /* the others, by tenant; the first is the next in turn */
	/* The watchdog. */
	uint64_t turn;          /* ns: when this turn began; 0: in none */
	uint64_t last;          /* when its last callback ended */
	uint64_t worst;         /* how long its longest took, */
	const char *worst_name; /* and which that was */
	const char *mark;       /* what the callback that runs says of itself; NULL */
	uint64_t sampled;       /* when the processor time was read, */
	uint64_t sample;        /* and what it was */
	struct loop_turns turns;
	void (*on_slow)(void *ctx, const char *name, uint64_t usec, uint64_t cpu_usec);
	void *slow_ctx;
	/*
	 * What is received is passed on before the next thing is received, and what
	 * one round of one stream sends is sent together: so one buffer each serves
	 * all connections, and an idle one needs none.
	 */
	char *in;
	char *out;
	size_t out_len;
	struct stream *corked; /* whose bytes are in @out */
};

/* loop_watchdog.c: around each callback; the first of a turn begins it. */
static inline void loop_enter(struct net_loop *loop)
{
	if (loop->turn == 0)
		loop->turn = loop->last = clock_now();
}

void loop_leave(struct net_loop *loop, const char *name);
/* loop_work.c: before anything is asked of the threads. */
void loop_work_init(void);
/* Before the loop waits. */
void loop_turn_end(struct net_loop *loop);

#endif /* NET_LOOP_INTERNAL_H */
