/* SPDX-License-Identifier: Apache-2.0 */
/* image_job.c - read the reports of warren-image(1), line by line */
#include "service/core/image_job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/snapshot_name.h"
#include "service/core/internal.h"

#define REPORT_MAX (64U << 20)
#define PIECE      65536

static void image_job_free(struct image_job *job)
{
	if (job->gone)
		*job->gone = true;
	job->watch = loop_watch_free(job->watch);
	if (job->fd >= 0)
		(void)close(job->fd);
	buf_done(&job->line);
	buf_done(&job->result);
	free(job);
}

static void image_job_end(struct image_job *job)
{
	if (!job->ended)
		(void)error_set(&job->err, EIO, "warren-image ended before it was done");
	job->done(job->ctx, &job->result, job->err.code ? &job->err : NULL);
	image_job_free(job);
}

static void take_end(struct image_job *job, json_t *line)
{
	const char *why = json_string_value(json_object_get(line, "message"));
	const char *detail = json_string_value(json_object_get(line, "detail"));
	int code = (int)json_integer_value(json_object_get(line, "errno"));

	job->ended = true;
	/* This detail is for the administrator, not for the client. */
	if (detail && job->service->note)
		job->service->note(job->service->note_ctx, detail);
	if (json_integer_value(json_object_get(line, "status")) != 0)
		(void)error_set(&job->err, code > 0 ? code : EIO, "%s",
				why ? why : "warren-image failed");
}

static void image_take_output(struct image_job *job, const json_t *line)
{
	const json_t *text = json_object_get(line, "text");
	const bool *gone = job->gone;

	if (json_is_string(text) &&
	    !job->output(job->ctx, json_string_value(text), json_string_length(text)) &&
	    !*gone)
		job->paused = true;
}

/* A callback may cancel the job: then *@job->gone is set. */
static void image_take_line(struct image_job *job)
{
	/* The output of a command may contain NUL. */
	json_t *line = json_loadb(job->line.data, job->line.len,
				  JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	const char *type = json_string_value(json_object_get(line, "type"));
	bool output = false;

	if (type && strcmp(type, "end") == 0)
		take_end(job, line);
	else if (type && strcmp(type, "layer") == 0 && job->layer)
		job->layer(job->ctx, line);
	else if (type && strcmp(type, "output") == 0 && job->output)
		output = true;
	else if (json_is_array(line) && job->result.len == 0)
		buf_add(&job->result, job->line.data, job->line.len);
	else if (job->objects && !type && json_is_object(line))
		buf_printf(&job->result, "%.*s\n", (int)job->line.len, job->line.data);
	job->line.len = 0;
	if (output)
		image_take_output(job, line);
	json_decref(line);
}

static void take_bytes(struct image_job *job, const char *data, size_t n)
{
	const bool *gone = job->gone;
	const char *end;

	while ((end = memchr(data, '\n', n))) {
		size_t len = (size_t)(end - data);

		buf_add(&job->line, data, len);
		image_take_line(job);
		if (*gone)
			return;
		data += len + 1;
		n -= len + 1;
	}
	buf_add(&job->line, data, n);
}

static void on_report(void *ctx, unsigned events UNUSED)
{
	static char room[PIECE];
	struct image_job *job = ctx;
	bool gone = false;

	job->gone = &gone;
	for (int i = 0; i < 16 && !job->paused; i++) {
		ssize_t n = read(job->fd, room, sizeof(room));

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n <= 0 || job->line.failed || job->result.failed) {
			image_job_end(job);
			return;
		}
		take_bytes(job, room, (size_t)n);
		if (gone)
			return;
	}
	job->gone = NULL;
	if (job->paused)
		(void)loop_watch_set(job->watch, 0);
	else if (job->turn)
		job->turn(job->ctx);
}

void image_job_resume(struct image_job *job)
{
	if (!job->paused)
		return;
	job->paused = false;
	if (job->watch)
		(void)loop_watch_set(job->watch, LOOP_READ);
}

/* Take the report and the archive from the bundle. */
static int image_job_unbundle(struct image_job *job)
{
	int fds[WIRE_IMAGE_FDS];

	if (fd_unbundle(TAKE_FD(job->fd), fds, ARRAY_SIZE(fds)) < 0)
		return -1;
	job->fd = fds[0];
	job->opened(job->ctx, fds[1]);
	return job->fd;
}

static void image_on_started(void *ctx, const struct warren_error *failure,
			     const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct image_job *job = ctx;
	int r;

	job->fd = fd;
	if (job->cancelled) {
		image_job_free(job);
		return;
	}
	if (!failure && fd >= 0 && job->opened)
		fd = image_job_unbundle(job);
	if (job->cancelled) {
		image_job_free(job);
		return;
	}
	if (failure || fd < 0) {
		job->ended = true;
		if (failure)
			job->err = *failure;
		else
			(void)error_errno(&job->err, EPROTO, "start warren-image");
		image_job_end(job);
		return;
	}
	r = loop_watch(job->service->loop, fd, LOOP_READ, on_report, job, &job->watch);
	if (r < 0) {
		job->ended = true;
		(void)error_errno(&job->err, -r, "watch warren-image");
		image_job_end(job);
	}
}

struct image_job *image_job_start(struct service *s, struct warden_proto_image *msg,
				  const char *ref, struct warren_error *err)
{
	struct image_job *job = calloc(1, sizeof(*job));
	int r = job ? 0 : -ENOMEM;

	if (strlen(ref) >= sizeof(msg->ref))
		r = -ENAMETOOLONG;
	/* Only the service itself uses references of snapshots. */
	if (!(msg->flags & WIRE_IMAGE_OURS) &&
	    (snapshot_is_ref(ref) || snapshot_is_ref(msg->to)))
		r = -ENOMEDIUM;
	if (job && r == 0) {
		*job = (struct image_job){ .service = s,
					   .fd = -1,
					   .line = BUF_INIT(REPORT_MAX),
					   .result = BUF_INIT(REPORT_MAX) };
		msg->h.type = WIRE_IMAGE;
		(void)strcpy(msg->ref, ref);
		r = warden_conn_ask(s, msg, sizeof(*msg), image_on_started, job);
	}
	if (r < 0) {
		free(job);
		if (r == -ENOMEDIUM)
			(void)error_set(err, ENOMEDIUM, "there is no image '%.200s'",
					ref);
		else
			(void)error_errno(err, -r, "request the image '%.200s'", ref);
		return NULL;
	}
	return job;
}

int image_job_follow(struct service *s, int fd,
		     void (*done)(void *ctx, const struct buf *result,
				  const struct warren_error *err),
		     void *ctx, struct warren_error *err)
{
	struct image_job *job = calloc(1, sizeof(*job));

	if (!job) {
		(void)close(fd);
		return error_errno(err, ENOMEM, "follow warren-image");
	}
	*job = (struct image_job){ .service = s,
				   .fd = -1,
				   .line = BUF_INIT(REPORT_MAX),
				   .result = BUF_INIT(REPORT_MAX),
				   .done = done,
				   .ctx = ctx };
	image_on_started(job, NULL, NULL, 0, fd);
	return 0;
}

void image_job_cancel(struct image_job *job)
{
	if (job->watch)
		image_job_free(job);
	else
		job->cancelled = true; /* the pipe has not arrived yet */
}
