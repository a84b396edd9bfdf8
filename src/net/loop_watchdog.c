/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_watchdog.c - find turns of the loop that took too long, and their cause
 *
 * One thread serves all clients, so a callback that blocks or computes for long stops
 * every client. The monotonic clock is read once for each callback (this takes about 30
 * ns, without a system call). When a turn takes too long, its longest callback is
 * reported.
 *
 * Elapsed time alone would also blame callbacks that other processes interrupted.
 * Processor time tells the two apart, but reading it is a system call. It is read at the
 * end of a turn, at most once in SAMPLE_NS. The reported processor time of a slow turn
 * begins at that sample, so it is too high by at most SAMPLE_NS.
 */
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "net/loop_internal.h"

#define SAMPLE_NS 10000000

void loop_leave(struct net_loop *loop, const char *name)
{
	uint64_t now = clock_now(), took = now - loop->last;

	loop->last = now;
	if (took > loop->worst) {
		loop->worst = took;
		loop->worst_name = loop->mark ? loop->mark : name;
	}
	loop->mark = NULL;
}

void loop_mark(struct net_loop *loop, const char *what)
{
	loop->mark = what;
}

static uint64_t cpu_now(void)
{
	struct timespec ts = { 0 };

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Convert "../src/net/stream.c:on_poll" to "net/stream.c:on_poll". */
static const char *short_name(const char *name)
{
	const char *at = strstr(name, "src/");

	return at ? at + 4 : name;
}

static void loop_watchdog_count(struct loop_turns *t, const char *name)
{
	size_t i = 0;

	while (i < t->n && strcmp(t->by[i].name, name) != 0)
		i++;
	if (i == t->n && t->n < LOOP_SLOW_KEPT)
		t->by[t->n++].name = name;
	else if (i == t->n)
		i = LOOP_SLOW_KEPT;
	t->by[i].turns++;
}

static void loop_watchdog_tell(struct net_loop *loop, uint64_t took, uint64_t cpu)
{
	const char *name = short_name(loop->worst_name);

	loop->turns.slow++;
	loop_watchdog_count(&loop->turns, name);
	if (cpu / 1000 > loop->turns.longest_cpu_usec)
		loop->turns.longest_cpu_usec = cpu / 1000;
	if (loop->on_slow)
		loop->on_slow(loop->slow_ctx, name, took / 1000, cpu / 1000);
}

void loop_turn_end(struct net_loop *loop)
{
	uint64_t took = loop->last - loop->turn;
	bool slow = took > LOOP_SLOW_MS * 1000000ULL;

	if (loop->turn == 0)
		return;
	if (took / 1000 > loop->turns.longest_usec)
		loop->turns.longest_usec = took / 1000;
	if (slow || loop->last - loop->sampled > SAMPLE_NS) {
		uint64_t cpu = cpu_now(), used = cpu - loop->sample;

		loop->sampled = loop->last;
		loop->sample = cpu;
		if (slow)
			loop_watchdog_tell(loop, took, used < took ? used : took);
	}
	loop->turn = loop->worst = 0;
	loop->worst_name = "";
}

const struct loop_turns *loop_turns(const struct net_loop *loop)
{
	return &loop->turns;
}

void loop_on_slow(struct net_loop *loop,
		  void (*fn)(void *ctx, const char *name, uint64_t usec,
			     uint64_t cpu_usec),
		  void *ctx)
{
	loop->on_slow = fn;
	loop->slow_ctx = ctx;
}
