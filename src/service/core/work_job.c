/* SPDX-License-Identifier: Apache-2.0 */
/* work_job.c - pass input to warren-work(1), and its answer to a handler */
#include "service/core/work_job.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "service/core/internal.h"

#define WORK_HEAD_MAX 16384 /* the first line of an answer */
#define WORK_PIECE    65536
#define WORK_TURN     8 /* pieces before other work has its turn */

struct work_job {
	struct service *service;
	const struct work_job_ops *ops;
	void *ctx;
	bool cancelled; /* before the warden has answered */
	bool calling;   /* a callback is called, which may cancel the job: */
	bool freed;     /* then its memory is freed after that */
	/* The program's input; -1: none, or all of it is written. */
	int in;
	struct loop_watch *in_watch;
	const char *input;
	size_t input_left;
	/* Its answer; -1: not started. */
	int out;
	struct loop_watch *out_watch;
	struct buf head;
	bool begun, paused;
	uint64_t left; /* bytes of the answer that are missing */
};

static void work_job_close_input(struct work_job *job)
{
	job->in_watch = loop_watch_free(job->in_watch);
	if (job->in >= 0)
		(void)close(TAKE_FD(job->in));
}

static void work_job_free(struct work_job *job)
{
	work_job_close_input(job);
	job->out_watch = loop_watch_free(job->out_watch);
	if (job->out >= 0)
		(void)close(TAKE_FD(job->out));
	buf_done(&job->head);
	job->freed = job->calling;
	if (!job->calling)
		free(job);
}

/* A callback has returned; false: it has cancelled the job. */
static bool work_job_called(struct work_job *job)
{
	job->calling = false;
	if (!job->freed)
		return true;
	free(job);
	return false;
}

static void work_job_report(struct work_job *job, const struct warren_error *err,
			    bool unopened)
{
	const struct work_job_ops *ops = job->ops;
	void *ctx = job->ctx;

	work_job_free(job);
	ops->failed(ctx, err, unopened);
}

static void work_job_end(struct work_job *job, bool whole)
{
	struct warren_error err = WARREN_ERROR_INIT;
	const struct work_job_ops *ops = job->ops;
	void *ctx = job->ctx;

	if (!job->begun) {
		(void)error_set(&err, EIO, "warren-work ended without an answer");
		work_job_report(job, &err, false);
		return;
	}
	work_job_free(job);
	ops->end(ctx, whole);
}

/* ------------------------------------------------------------------- answer */

/* Read the first line; false: the job has ended. */
static bool work_job_take_head(struct work_job *job)
{
	json_t *line =
		json_loadb(job->head.data, job->head.len, JSON_REJECT_DUPLICATES, NULL);
	const char *why = json_string_value(json_object_get(line, "message"));
	json_int_t code = json_integer_value(json_object_get(line, "errno"));
	json_int_t size = json_integer_value(json_object_get(line, "size"));
	json_int_t status = json_integer_value(json_object_get(line, "status"));
	bool unopened = json_is_true(json_object_get(line, "work"));
	struct warren_error err = WARREN_ERROR_INIT;
	bool valid = json_is_object(line) && size >= 0 && (!why || code > 0);

	if (!valid)
		(void)error_set(&err, EIO, "the answer of warren-work cannot be read");
	else if (why)
		(void)error_set(&err, (int)code, "%s", why);
	json_decref(line);
	if (err.code) {
		work_job_report(job, &err, unopened);
		return false;
	}
	job->begun = true;
	job->left = (uint64_t)size;
	job->calling = true;
	job->ops->begin(job->ctx, status != 0);
	return work_job_called(job);
}

/* Take a piece of the answer; false: the job has ended, or waits. */
static bool work_job_take(struct work_job *job, const char *data, size_t n)
{
	const char *end = job->begun ? NULL : memchr(data, '\n', n);
	size_t line = job->begun ? 0 : end ? (size_t)(end - data) + 1 : n;
	bool more = true;

	buf_add(&job->head, data, line);
	if (!job->begun && end && !work_job_take_head(job))
		return false;
	if (!job->begun) {
		if (job->head.failed)
			work_job_end(job, false);
		return !job->head.failed;
	}
	n -= line;
	if (n > job->left)
		n = (size_t)job->left;
	job->left -= n;
	job->calling = true;
	if (n)
		more = job->ops->data(job->ctx, data + line, n);
	if (!work_job_called(job))
		return false;
	if (!job->left) {
		work_job_end(job, true);
		return false;
	}
	job->paused = !more;
	if (!more)
		(void)loop_watch_set(job->out_watch, 0);
	return more;
}

static void work_job_on_answer(void *ctx, unsigned events UNUSED)
{
	static char room[WORK_PIECE];
	struct work_job *job = ctx;

	for (int i = 0; i < WORK_TURN; i++) {
		ssize_t n = read(job->out, room, sizeof(room));

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			work_job_end(job, false);
			return;
		}
		if (!work_job_take(job, room, (size_t)n))
			return;
	}
}

void work_job_continue(struct work_job *job)
{
	if (!job->paused)
		return;
	job->paused = false;
	(void)loop_watch_set(job->out_watch, LOOP_READ);
}

/* -------------------------------------------------------------------- input */

/* If the program no longer reads, its answer says why. */
static void work_job_on_writable(void *ctx, unsigned events UNUSED)
{
	struct work_job *job = ctx;

	for (int i = 0; i < WORK_TURN && job->input_left; i++) {
		size_t size = job->input_left < WORK_PIECE ? job->input_left : WORK_PIECE;
		ssize_t n = write(job->in, job->input, size);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0) {
			work_job_close_input(job);
			return;
		}
		job->input += n;
		job->input_left -= (size_t)n;
	}
	if (!job->input_left)
		work_job_close_input(job);
}

/* -------------------------------------------------------------------- start */

/* Watch the pipes in @fd, which it takes. */
static int work_job_watch(struct work_job *job, int fd)
{
	int fds[WIRE_WORK_FDS] = { fd, -1 }, r = 0;

	if (job->input_left)
		r = fd_unbundle(fd, fds, ARRAY_SIZE(fds));
	if (r < 0)
		return r;
	job->out = fds[0];
	job->in = fds[1];
	r = loop_watch(job->service->loop, job->out, LOOP_READ, work_job_on_answer, job,
		       &job->out_watch);
	if (r == 0 && job->in >= 0)
		r = loop_watch(job->service->loop, job->in, LOOP_WRITE,
			       work_job_on_writable, job, &job->in_watch);
	return r;
}

static void work_job_on_started(void *ctx, const struct warren_error *failure,
				const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct work_job *job = ctx;
	int r;

	if (job->cancelled) {
		if (fd >= 0)
			(void)close(fd);
		work_job_free(job);
		return;
	}
	if (failure) {
		work_job_report(job, failure, false);
		return;
	}
	r = fd < 0 ? -EPROTO : work_job_watch(job, fd);
	if (r < 0) {
		(void)error_errno(&err, -r, "start warren-work");
		work_job_report(job, &err, false);
	}
}

int work_job_start(struct service *s, struct warden_proto_work *msg, const char *input,
		   const struct work_job_ops *ops, void *ctx, struct work_job **ret,
		   struct warren_error *err)
{
	struct work_job *job = calloc(1, sizeof(*job));
	int r;

	if (!job)
		return error_errno(err, ENOMEM, "start warren-work");
	*job = (struct work_job){ .service = s,
				  .ops = ops,
				  .ctx = ctx,
				  .in = -1,
				  .input = input,
				  .input_left = msg->input,
				  .out = -1,
				  .head = BUF_INIT(WORK_HEAD_MAX) };
	msg->h.type = WIRE_WORK;
	r = warden_conn_ask(s, msg, sizeof(*msg), work_job_on_started, job);
	if (r < 0) {
		work_job_free(job);
		return error_errno(err, -r, "start warren-work");
	}
	*ret = job;
	return 0;
}

struct work_job *work_job_cancel(struct work_job *job)
{
	if (!job)
		return NULL;
	if (job->out_watch)
		work_job_free(job);
	else
		job->cancelled = true; /* the warden has not answered yet */
	return NULL;
}
