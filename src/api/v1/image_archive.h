/* SPDX-License-Identifier: Apache-2.0 */
/* image_archive.h - requests with an archive that passes through a pipe of
 * warren-image(1)
 */
#ifndef API_V1_IMAGE_ARCHIVE_H
#define API_V1_IMAGE_ARCHIVE_H

#include "api/v1/image.h"

struct loop_timer;
struct loop_watch;

/* The state of a call. */
struct image_archive {
	struct call *call;
	struct image_stream *stream; /* NULL: it has reported its result */
	struct loop_watch *watch;
	int fd; /* the pipe with the archive; -1: not open */
	bool begun;
	bool over;        /* a download: all of the archive was sent */
	bool fed;         /* an upload: all of the archive has arrived */
	bool done;        /* warren-image(1) has succeeded */
	struct buf waits; /* an upload: data for the pipe */
	size_t waits_off;
	/* For a build. */
	struct loop_timer *timer;
	uint64_t deadline; /* in ns, see clock_now() */
	bool sse;
};

/* Create the state of the call. NULL: out of memory, and the request was answered. */
struct image_archive *image_archive_new(struct call *c);
/* Close the pipe. */
void image_archive_close(struct image_archive *a);
/* image_stream_ops.opened: write a->waits and then the body of the request to @fd. */
void image_archive_upload(void *ctx, int fd);

#endif /* API_V1_IMAGE_ARCHIVE_H */
