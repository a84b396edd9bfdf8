/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_stream.c - archives of images that are saved or loaded
 *
 * A client may be slow, so the number of archives is limited for each tenant.
 */
#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "service/core/image_job.h"
#include "service/core/internal.h"

#define STREAMS_AT_ONCE 8
#define STREAMS_OF_ONE  4 /* tenant */

struct image_stream {
	struct image_stream *next;
	struct service *service;
	char *tenant;
	struct image_job *job;
	const struct image_stream_ops *ops;
	void *ctx;
};

static void image_stream_free(struct image_stream *stream)
{
	(void)LIST_REMOVE(stream->service->image_streams, stream);
	free(stream->tenant);
	free(stream);
}

static void image_stream_on_opened(void *ctx, int fd)
{
	struct image_stream *stream = ctx;

	stream->ops->opened(stream->ctx, fd);
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

static bool image_stream_fits(const struct service *s, const char *tenant)
{
	unsigned all = 0, own = 0;

	for (const struct image_stream *i = s->image_streams; i; i = i->next) {
		all++;
		own += strcmp(i->tenant, tenant) == 0;
	}
	return all < STREAMS_AT_ONCE && own < STREAMS_OF_ONE;
}

int image_stream_start(struct service *s, const char *tenant, const char *ref,
		       const struct image_stream_ops *ops, void *ctx,
		       struct image_stream **ret, struct warren_error *err)
{
	struct warden_proto_image msg = { .verb = ref ? WIRE_IMAGE_SAVE
						      : WIRE_IMAGE_LOAD };
	struct image_stream *stream;

	if (!image_stream_fits(s, tenant))
		return error_set(err, EAGAIN,
				 "too many archives of images are being transferred; try "
				 "again");
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return error_errno(err, ENOMEM, "transfer an image");
	*stream = (struct image_stream){
		.service = s, .tenant = strdup(tenant), .ops = ops, .ctx = ctx
	};
	LIST_PUSH(s->image_streams, stream);
	if (stream->tenant)
		stream->job = image_job_start(s, &msg, ref ? ref : "", err);
	else
		(void)error_errno(err, ENOMEM, "transfer an image");
	if (!stream->job) {
		image_stream_free(stream);
		return -err->code;
	}
	stream->job->opened = image_stream_on_opened;
	stream->job->objects = true;
	stream->job->done = image_stream_on_done;
	stream->job->ctx = stream;
	*ret = stream;
	return 0;
}

struct image_stream *image_stream_cancel(struct image_stream *stream)
{
	if (!stream)
		return NULL;
	image_job_cancel(stream->job);
	image_stream_free(stream);
	return NULL;
}
