/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_work.c - what may block, on the threads of libuv
 *
 * There are few of them (four), so work here is short: a piece of a file, the end of one.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/loop_internal.h"

#define CLOSE_AT_ONCE \
	(1U << 20) /* bytes on disk or in memory: freed in a fraction of a ms */

struct job {
	uv_work_t req;
	struct net_loop *loop;
	void (*work)(void *ctx);
	void (*done)(void *ctx);
	void *ctx;
	const char *name;
};

static void job_work(uv_work_t *req)
{
	struct job *job = req->data;

	job->work(job->ctx);
}

static void job_done(uv_work_t *req, int status)
{
	struct job *job = req->data;
	struct net_loop *loop = job->loop;

	(void)status; /* nothing is cancelled */
	loop->working--;
	loop_enter(loop);
	if (job->done)
		job->done(job->ctx);
	loop_leave(loop, job->name);
	free(job);
}

int loop_work_named(struct net_loop *loop, void (*work)(void *ctx),
		    void (*done)(void *ctx), void *ctx, const char *name)
{
	struct job *job = malloc(sizeof(*job));

	if (!job)
		return -ENOMEM;
	*job = (struct job){
		.loop = loop, .work = work, .done = done, .ctx = ctx, .name = name
	};
	job->req.data = job;
	if (uv_queue_work(&loop->uv, &job->req, job_work, job_done) < 0) {
		free(job);
		return -ENOMEM;
	}
	loop->working++;
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
	/* Whether it has a name is not asked: it may lose it before the next line. */
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    (uint64_t)st.st_blocks * 512 > CLOSE_AT_ONCE &&
	    loop_work_named(loop, close_work, NULL, (void *)(intptr_t)fd,
			    LOOP_NAME(close_work)) == 0)
		return;
	(void)close(fd);
}
