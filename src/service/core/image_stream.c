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
	uint64_t uses[DB_QUOTA_MAX]; /* by a build */
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

static bool image_stream_fits(const struct service *s, const char *tenant)
{
	unsigned all = 0, own = 0;

	for (const struct image_stream *i = s->image_streams; i; i = i->next) {
		all++;
		own += strcmp(i->tenant, tenant) == 0;
	}
	return all < STREAMS_AT_ONCE && own < STREAMS_OF_ONE;
}

/* A build needs one sandbox at a time, which is not in the database. */
static int image_stream_check_quota(struct service *s, const char *tenant,
				    const uint64_t uses[DB_QUOTA_MAX],
				    struct warren_error *err)
{
	struct tenant_row row;
	int r = db_get_tenant(s->db, tenant, &row, err);

	for (size_t i = 0; r == 0 && i < DB_QUOTA_MAX; i++) {
		uint64_t used = row.used[i];

		for (const struct image_stream *k = s->image_streams; k; k = k->next)
			used += strcmp(k->tenant, tenant) == 0 ? k->uses[i] : 0;
		if (row.limit[i] == DB_UNLIMITED || uses[i] == 0 ||
		    (used <= row.limit[i] && uses[i] <= row.limit[i] - used))
			continue;
		(void)error_set(
			err, EUSERS,
			"%s: the tenant '%s' uses %ju of at most %ju, and the build needs "
			"%ju",
			db_quota_name((enum db_quota)i), tenant, (uintmax_t)used,
			(uintmax_t)row.limit[i], (uintmax_t)uses[i]);
		r = service_deny(s, db_quota_name((enum db_quota)i), used, row.limit[i],
				 err);
	}
	return r == -ENOENT ? 0 : r;
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
	const char *tenant = request->tenant;
	struct image_stream *stream;

	if (request->kind != IMAGE_STREAM_SAVE && disk_admit(s, err) < 0)
		return -err->code;
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
	if (builds) {
		stream->uses[DB_QUOTA_SANDBOXES] = 1;
		stream->uses[DB_QUOTA_MEMORY] = request->memory;
		stream->uses[DB_QUOTA_CPU_MILLIS] = request->cpu_millis;
		stream->uses[DB_QUOTA_DISK] = request->disk;
	}
	if (!stream->tenant ||
	    (builds && image_stream_check_quota(s, tenant, stream->uses, err) < 0)) {
		if (!stream->tenant)
			(void)error_errno(err, ENOMEM, "transfer an image");
		free(stream->tenant);
		free(stream);
		return -err->code;
	}
	LIST_PUSH(s->image_streams, stream);
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
