/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_stream.c - archives of images that are saved, loaded or built from
 *
 * A client may be slow, and a build may take a day, so the tenants share the turns, those
 * for builds and those for archives (fair_quota.h).
 */
#include <errno.h>
#include <string.h>

#include "service/core/image_job.h"
#include "service/core/internal.h"

#define STREAMS_AT_ONCE 8

struct image_stream {
	struct service *service;
	char *tenant;
	struct fair_quota *turns; /* NULL: none was taken */
	struct fair_quota_lease turn;
	struct db_hold *hold; /* what a build uses of the tenant's quotas */
	struct image_job *job;
	const struct image_stream_ops *ops;
	void *ctx;
};

static void image_stream_free(struct image_stream *stream)
{
	stream->hold = db_release(stream->service->db, stream->hold);
	if (stream->turns)
		fair_quota_end(stream->turns, &stream->turn);
	free(stream->tenant);
	free(stream);
}

static void image_stream_on_opened(void *ctx, int fd)
{
	struct image_stream *stream = ctx;

	stream->ops->opened(stream->ctx, fd);
}

static bool image_stream_on_output(void *ctx, const char *text, size_t n)
{
	struct image_stream *stream = ctx;

	return stream->ops->output(stream->ctx, text, n);
}

static void image_stream_on_done(void *ctx, const struct buf *result,
				 const struct warren_error *err)
{
	struct image_stream *stream = ctx;
	struct warren_error why = err ? *err : (struct warren_error)WARREN_ERROR_INIT;
	const struct image_stream_ops *ops = stream->ops;
	void *theirs = stream->ctx;

	if (why.code == ENOENT)
		why.code = ENOMEDIUM;
	image_stream_free(stream);
	ops->done(theirs, -why.code, result->data ? result->data : "", result->len, &why);
}

/* Take one of the turns; a tenant gets no more than are left for the others. */
static int image_stream_take_turn(struct image_stream *stream,
				  enum image_stream_kind kind, struct warren_error *err)
{
	bool builds = kind == IMAGE_STREAM_BUILD;
	int r;

	stream->turns = &stream->service->image_turns[builds];
	stream->turns->limit = STREAMS_AT_ONCE;
	r = fair_quota_lease(stream->turns, stream->tenant, 1, &stream->turn);
	if (r == -EDQUOT)
		return error_set(err, EAGAIN, "too many %s; try again",
				 builds ? "images are being built"
					: "archives of images are being transferred");
	return r < 0 ? error_errno(err, -r, "transfer an image") : 0;
}

/* A build needs one sandbox at a time, which is not in the database. */
static int image_stream_hold(struct image_stream *stream,
			     const struct image_stream_request *request,
			     struct warren_error *err)
{
	const uint64_t uses[DB_QUOTA_MAX] = {
		[DB_QUOTA_SANDBOXES] = 1,
		[DB_QUOTA_MEMORY] = request->memory,
		[DB_QUOTA_CPU_MILLIS] = request->cpu_millis,
		[DB_QUOTA_DISK] = request->disk,
	};

	return request->kind != IMAGE_STREAM_BUILD
		       ? 0
		       : db_hold(stream->service->db, stream->tenant, uses, &stream->hold,
				 err);
}

int image_stream_start(struct service *s, const struct image_stream_request *request,
		       const struct image_stream_ops *ops, void *ctx,
		       struct image_stream **ret, struct warren_error *err)
{
	static const uint32_t verbs[] = { [IMAGE_STREAM_SAVE] = WIRE_IMAGE_SAVE,
					  [IMAGE_STREAM_LOAD] = WIRE_IMAGE_LOAD,
					  [IMAGE_STREAM_BUILD] = WIRE_IMAGE_BUILD };
	const bool builds = request->kind == IMAGE_STREAM_BUILD;
	struct warden_proto_image msg = { .verb = verbs[request->kind] };
	struct image_stream *stream;
	int r;

	if (request->kind != IMAGE_STREAM_SAVE && disk_admit(s, err) < 0)
		return -err->code;
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return error_errno(err, ENOMEM, "transfer an image");
	*stream = (struct image_stream){
		.service = s, .tenant = strdup(request->tenant), .ops = ops, .ctx = ctx
	};
	r = stream->tenant ? image_stream_take_turn(stream, request->kind, err)
			   : error_errno(err, ENOMEM, "transfer an image");
	if (r == 0)
		r = image_stream_hold(stream, request, err);
	if (r < 0) {
		image_stream_free(stream);
		return r;
	}
	stream->job = image_job_start(s, &msg, request->ref ? request->ref : "", err);
	if (!stream->job) {
		image_stream_free(stream);
		return -err->code;
	}
	stream->job->opened = image_stream_on_opened;
	if (builds)
		stream->job->output = image_stream_on_output;
	stream->job->objects = true;
	stream->job->done = image_stream_on_done;
	stream->job->ctx = stream;
	*ret = stream;
	return 0;
}

void image_stream_resume(struct image_stream *stream)
{
	image_job_resume(stream->job);
}

struct image_stream *image_stream_cancel(struct image_stream *stream)
{
	if (!stream)
		return NULL;
	image_job_cancel(stream->job);
	image_stream_free(stream);
	return NULL;
}
