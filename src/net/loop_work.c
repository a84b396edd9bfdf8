/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_work.c - blocking work on the threads of libuv
 *
 * There are only eight threads, so each piece of work must be short: reading a part of a
 * file, or closing one. libuv handles work in the order of its arrival. So the loop gives
 * libuv only as much work as there are threads. The rest waits here in a queue for each
 * tenant, and tenants take turns. Work of a tenant begins only while more threads are
 * free than the tenant already uses, so a tenant gets at most half of the threads.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"
#include "net/loop_internal.h"

/* Size in bytes that is freed in a fraction of a millisecond. */
#define CLOSE_AT_ONCE (1U << 20)

#define WORK_THREADS      8
#define WORK_THREADS_TEXT "8"

struct job {
	uv_work_t req;
	struct job *next;
	struct net_loop *loop;
	struct work_queue *queue;
	void (*work)(void *ctx);
	void (*done)(void *ctx);
	void *ctx;
	const char *name;
};

/* The queue of a tenant that has work. */
struct work_queue {
	struct work_queue *next;
	uint64_t key;
	struct job *first, **tail;
	unsigned running;
};

void loop_work_init(void)
{
	/* libuv reads the number of threads only from the environment, when it gets its
	 * first work. */
	(void)setenv("UV_THREADPOOL_SIZE", WORK_THREADS_TEXT, 1);
}

/* Return a hash of the tenant's name. Two tenants with the same hash share a turn. */
static uint64_t work_key(const char *tenant)
{
	uint64_t key = 14695981039346656037ULL; /* FNV-1a */

	if (!tenant)
		return 0;
	for (; *tenant; tenant++)
		key = (key ^ (unsigned char)*tenant) * 1099511628211ULL;
	return key;
}

static struct work_queue *work_queue_get(struct net_loop *loop, uint64_t key)
{
	struct work_queue **p;

	LIST_FIND(loop->queues, p, (*p)->key == key);
	if (!*p) {
		*p = calloc(1, sizeof(**p));
		if (*p) {
			(*p)->key = key;
			(*p)->tail = &(*p)->first;
		}
	}
	return *p;
}

/* A queue is in the list as long as its tenant has work. */
static void work_queue_done(struct net_loop *loop, struct work_queue *q)
{
	if (--q->running > 0 || q->first)
		return;
	(void)LIST_REMOVE(loop->queues, q);
	free(q);
}

/* Take the next job that may begin; its tenant moves to the end of the list. */
static struct job *work_take(struct net_loop *loop)
{
	for (struct work_queue **p = &loop->queues, *q; (q = *p); p = &q->next) {
		struct job *job;

		if (!q->first || q->running >= WORK_THREADS - loop->in_pool)
			continue;
		job = QUEUE_TAKE(q->first, q->tail);
		q->running++;
		loop->in_pool++;
		*p = q->next;
		LIST_APPEND(loop->queues, q);
		return job;
	}
	return NULL;
}

static void job_work(uv_work_t *req)
{
	struct job *job = req->data;

	job->work(job->ctx);
}

static void loop_work_job_done(uv_work_t *req, int status);

static void work_begin(struct net_loop *loop)
{
	struct job *job;

	/* uv_queue_work() fails only without a function. */
	while ((job = work_take(loop)))
		(void)uv_queue_work(&loop->uv, &job->req, job_work, loop_work_job_done);
}

static void loop_work_job_done(uv_work_t *req, int status)
{
	struct job *job = req->data;
	struct net_loop *loop = job->loop;

	(void)status; /* work is never cancelled */
	loop->working--;
	loop->in_pool--;
	work_queue_done(loop, job->queue);
	work_begin(loop);
	loop_enter(loop);
	if (job->done)
		job->done(job->ctx);
	loop_leave(loop, job->name);
	free(job);
}

int loop_work_named(struct net_loop *loop, const char *tenant, void (*work)(void *ctx),
		    void (*done)(void *ctx), void *ctx, const char *name)
{
	struct job *job = malloc(sizeof(*job));
	struct work_queue *q = job ? work_queue_get(loop, work_key(tenant)) : NULL;

	if (!q) {
		free(job);
		return -ENOMEM;
	}
	*job = (struct job){ .loop = loop,
			     .queue = q,
			     .work = work,
			     .done = done,
			     .ctx = ctx,
			     .name = name };
	job->req.data = job;
	QUEUE_PUT(q->tail, job);
	loop->working++;
	work_begin(loop);
	return 0;
}

static void close_work(void *ctx)
{
	(void)close((int)(intptr_t)ctx);
}

void loop_close(struct net_loop *loop, int fd)
{
	struct stat st;

	if (fd < 0)
		return;
	/* Do not check whether the file has a name, because the name may be removed at
	 * any moment. */
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    (uint64_t)st.st_blocks * 512 > CLOSE_AT_ONCE &&
	    loop_work_named(loop, NULL, close_work, NULL, (void *)(intptr_t)fd,
			    LOOP_NAME(close_work)) == 0)
		return;
	(void)close(fd);
}
