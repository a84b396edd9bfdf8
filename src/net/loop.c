/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.c - a thin layer on libuv
 *
 * libuv reports asynchronously when the memory of a handle may be freed. So each handle
 * of libuv is a small allocation that is freed at that time, while the caller's object is
 * freed immediately. Tasks run from a prepare handle: after timers, before the wait for
 * descriptors.
 */
#include "net/loop.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "net/loop_internal.h"

/* Number of rounds of tasks before descriptors have their turn. */
#define TASK_ROUNDS 16

struct loop_watch {
	uv_poll_t poll;
	void (*fn)(void *ctx, unsigned events);
	void *ctx;
	const char *name;
	unsigned events;
};

struct loop_timer {
	uv_timer_t timer;
	void (*fn)(void *ctx);
	void *ctx;
	const char *name;
};

_Static_assert((int)LOOP_READ == UV_READABLE && (int)LOOP_WRITE == UV_WRITABLE &&
		       (int)LOOP_GONE == UV_DISCONNECT,
	       "the events must equal those of libuv");

static struct net_loop *loop_of(uv_loop_t *uv)
{
	return (struct net_loop *)((char *)uv - offsetof(struct net_loop, uv));
}

static bool ring_is_empty(const struct loop_task *ring)
{
	return ring->next == ring;
}

static void ring_add(struct loop_task *ring, struct loop_task *task)
{
	task->next = ring;
	task->prev = ring->prev;
	task->prev->next = task;
	ring->prev = task;
}

static void run_task(struct net_loop *loop, struct loop_task *t)
{
	const char *name = t->name;

	loop_task_cancel(t);
	loop_enter(loop);
	t->fn(t->ctx);
	loop_leave(loop, name);
}

static void run_tasks(struct net_loop *loop)
{
	for (int round = 0; round < TASK_ROUNDS && !ring_is_empty(&loop->tasks);
	     round++) {
		/*
		 * Move the current tasks to a separate ring, so that tasks which they add
		 * run in the next round.
		 */
		struct loop_task now = { .next = loop->tasks.next,
					 .prev = loop->tasks.prev };

		now.next->prev = now.prev->next = &now;
		loop->tasks.next = loop->tasks.prev = &loop->tasks;
		while (now.next != &now)
			run_task(loop, now.next);
	}
}

/* Run these tasks in order, for a limited part of the turn; at least one task runs. */
static void run_later(struct net_loop *loop)
{
	uint64_t until;

	if (ring_is_empty(&loop->later))
		return;
	until = clock_now() + LOOP_LATER_MS * 1000000ULL;
	do
		run_task(loop, loop->later.next);
	while (!ring_is_empty(&loop->later) && loop->last < until);
}

static void on_idle(uv_idle_t *idle)
{
	(void)uv_idle_stop(idle);
}

static void on_prepare(uv_prepare_t *prepare)
{
	struct net_loop *loop = prepare->data;

	run_tasks(loop);
	run_later(loop);
	run_tasks(loop); /* run tasks that these have queued */
	if (!ring_is_empty(&loop->tasks) || !ring_is_empty(&loop->later))
		(void)uv_idle_start(&loop->idle, on_idle);
	loop_turn_end(loop);
}

int loop_new(struct net_loop **ret, struct warren_error *err)
{
	struct net_loop *loop = calloc(1, sizeof(*loop));
	int r;

	if (!loop)
		return error_errno(err, ENOMEM, "create an event loop");
	loop->in = malloc(LOOP_IN_SIZE);
	loop->out = malloc(LOOP_OUT_SIZE);
	r = loop->in && loop->out ? uv_loop_init(&loop->uv) : -ENOMEM;
	if (r < 0) {
		free(loop->in);
		free(loop->out);
		free(loop);
		return error_errno(err, -r, "create an event loop");
	}
	loop->tasks.next = loop->tasks.prev = &loop->tasks;
	loop->later.next = loop->later.prev = &loop->later;
	loop_work_init();
	(void)uv_prepare_init(&loop->uv, &loop->prepare);
	(void)uv_idle_init(&loop->uv, &loop->idle);
	loop->prepare.data = loop;
	(void)uv_prepare_start(&loop->prepare, on_prepare);
	uv_unref((uv_handle_t *)&loop->prepare);
	*ret = loop;
	return 0;
}

struct net_loop *loop_free(struct net_loop *loop)
{
	if (!loop)
		return NULL;
	run_tasks(loop);
	/* Wait for work on other threads, which must not be abandoned. */
	while (loop->working > 0)
		(void)uv_run(&loop->uv, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&loop->prepare, NULL);
	uv_close((uv_handle_t *)&loop->idle, NULL);
	/*
	 * Finish the handles that were freed before. If a handle is still open, its owner
	 * has a bug.
	 */
	(void)uv_run(&loop->uv, UV_RUN_NOWAIT);
	(void)uv_loop_close(&loop->uv);
	free(loop->in);
	free(loop->out);
	free(loop);
	return NULL;
}

void loop_run(struct net_loop *loop)
{
	run_tasks(loop);
	(void)uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void loop_stop(struct net_loop *loop)
{
	uv_stop(&loop->uv);
}

uint64_t loop_now(const struct net_loop *loop)
{
	return uv_now(&loop->uv);
}

static void free_handle(uv_handle_t *handle)
{
	free(handle->data);
}

static void loop_on_poll(uv_poll_t *poll, int status, int events)
{
	struct loop_watch *w = poll->data;

	struct net_loop *loop = loop_of(poll->loop);
	const char *name = w->name;

	loop_enter(loop);
	/*
	 * After an error, libuv has stopped watching: the owner notices the error and
	 * frees the watch.
	 */
	w->fn(w->ctx, status < 0 ? w->events : (unsigned)events);
	loop_leave(loop, name);
}

int loop_watch_named(struct net_loop *loop, int fd, unsigned events,
		     void (*fn)(void *ctx, unsigned events), void *ctx, const char *name,
		     struct loop_watch **ret)
{
	struct loop_watch *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	r = uv_poll_init(&loop->uv, &w->poll, fd);
	if (r < 0) {
		free(w);
		return r;
	}
	w->poll.data = w;
	w->fn = fn;
	w->ctx = ctx;
	w->name = name;
	r = loop_watch_set(w, events);
	if (r < 0) {
		(void)loop_watch_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

int loop_watch_set(struct loop_watch *w, unsigned events)
{
	w->events = events;
	return events ? uv_poll_start(&w->poll, (int)events, loop_on_poll)
		      : uv_poll_stop(&w->poll);
}

struct loop_watch *loop_watch_free(struct loop_watch *w)
{
	if (!w)
		return NULL;
	(void)uv_poll_stop(&w->poll);
	uv_close((uv_handle_t *)&w->poll, free_handle);
	return NULL;
}

static void loop_on_timer(uv_timer_t *timer)
{
	struct loop_timer *t = timer->data;
	struct net_loop *loop = loop_of(timer->loop);
	const char *name = t->name;

	loop_enter(loop);
	t->fn(t->ctx);
	loop_leave(loop, name);
}

int loop_timer_new_named(struct net_loop *loop, void (*fn)(void *ctx), void *ctx,
			 const char *name, struct loop_timer **ret)
{
	struct loop_timer *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	(void)uv_timer_init(&loop->uv, &t->timer);
	t->timer.data = t;
	t->fn = fn;
	t->ctx = ctx;
	t->name = name;
	*ret = t;
	return 0;
}

void loop_timer_set(struct loop_timer *t, uint64_t ms)
{
	/*
	 * Before version 1.45, libuv runs a timer that sets itself to 0 again and again
	 * in the same round, and nothing else.
	 */
	(void)uv_timer_start(&t->timer, loop_on_timer, ms ? ms : 1, 0);
}

void loop_timer_stop(struct loop_timer *t)
{
	(void)uv_timer_stop(&t->timer);
}

bool loop_timer_is_set(const struct loop_timer *t)
{
	return t && uv_is_active((const uv_handle_t *)&t->timer);
}

struct loop_timer *loop_timer_free(struct loop_timer *t)
{
	if (!t)
		return NULL;
	(void)uv_timer_stop(&t->timer);
	uv_close((uv_handle_t *)&t->timer, free_handle);
	return NULL;
}

void loop_defer_named(struct net_loop *loop, struct loop_task *task, const char *name)
{
	if (task->next)
		return;
	task->name = name;
	ring_add(&loop->tasks, task);
}

void loop_later_named(struct net_loop *loop, struct loop_task *task, const char *name)
{
	if (task->next)
		return;
	task->name = name;
	ring_add(&loop->later, task);
}

void loop_task_cancel(struct loop_task *task)
{
	if (!task->next)
		return;
	task->prev->next = task->next;
	task->next->prev = task->prev;
	task->next = task->prev = NULL;
}
