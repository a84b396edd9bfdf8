/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_job.h - a run of warren-image(1), as a child of the warden
 *
 * The program writes its report to a pipe, in lines of JSON. It stops when the pipe is
 * closed.
 */
#ifndef SERVICE_CORE_IMAGE_JOB_H
#define SERVICE_CORE_IMAGE_JOB_H

#include <jansson.h>

#include "base/buf.h"
#include "proto/warden_proto.h"
#include "service/core/service.h"

struct image_job {
	struct service *service;
	int fd; /* -1: not started yet */
	bool cancelled;
	struct loop_watch *watch;
	struct buf line, result;
	bool ended; /* the last line was received */
	bool paused;
	bool *gone; /* set if the job ends while its report is read; NULL: it is not */
	struct warren_error err;
	/* Called for each layer; NULL: not needed. */
	void (*layer)(void *ctx, json_t *layer);
	/* Called with output of a build; returns false to wait for image_job_resume(). */
	bool (*output)(void *ctx, const char *text, size_t n);
	void (*turn)(void *ctx); /* called after several layers; NULL: not needed */
	/* For WIRE_IMAGE_SAVE and _LOAD: takes the pipe with the archive. */
	void (*opened)(void *ctx, int fd);
	/* The result is one JSON object or several, each on a line, not an array. */
	bool objects;
	void (*done)(void *ctx, const struct buf *result, const struct warren_error *err);
	void *ctx;
};

/*
 * Start it for the image @ref (""), and for @msg->to. The caller then sets the callbacks;
 * done() is the last one, and not called before this function has returned.
 */
struct image_job *image_job_start(struct service *s, struct warden_proto_image *msg,
				  const char *ref, struct warren_error *err);
/* Read the report of a running program from @fd, which it takes. */
int image_job_follow(struct service *s, int fd,
		     void (*done)(void *ctx, const struct buf *result,
				  const struct warren_error *err),
		     void *ctx, struct warren_error *err);
/* Read more of the report, after output() returned false. */
void image_job_resume(struct image_job *job);
/* No callback is called from now on. */
void image_job_cancel(struct image_job *job);

#endif /* SERVICE_CORE_IMAGE_JOB_H */
