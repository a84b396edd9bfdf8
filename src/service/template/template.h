/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template.h - builds of templates, and the archives that clients upload for them
 *
 *	archive.c	archives with the files of COPY
 *	build.c		builds in progress
 *	build_log.c	what they print
 *	context.c	writes the context of a build to warren-image(1)
 *
 * A build is that of an image (image_stream.c): the API translates the steps of the
 * template to a Dockerfile, and the archives are files of its context. The image becomes
 * a snapshot of the tenant. The row of a build says `building` from its start to its end;
 * a build of an earlier process has failed.
 *
 * An archive is a file without a name, so nothing is left of it when the process ends. It
 * counts with the tenant's disk quota, and is deleted TEMPLATE_KEEP_MS after its last
 * use.
 */
#ifndef SERVICE_TEMPLATE_TEMPLATE_H
#define SERVICE_TEMPLATE_TEMPLATE_H

#include <jansson.h>

#include "db/template.h"
#include "service/core/hooks.h"
#include "service/snapshot/snapshot.h"

extern const struct service_module template_hooks;

#define TEMPLATE_KEEP_MS      600000
#define TEMPLATE_HASH_LEN     64
#define TEMPLATE_ARCHIVE_MAX  (4ULL << 30) /* bytes of one archive */
#define TEMPLATE_ARCHIVES_MAX 1000         /* archives of one tenant */
#define TEMPLATE_STEPS_MAX    100
#define TEMPLATE_BUILD_MS     3600000 /* maximum time of a build */
/* The name of the archive @hash in the context. */
#define TEMPLATE_ARCHIVE_NAME "files/%s.tar"

/* ---------------------------------------------------------------- archive.c */

struct template_upload;

bool template_has_archive(struct service *s, const char *tenant, const char *hash);
/*
 * Begin to receive an archive of exactly @size bytes. -EUSERS, -EDQUOT: the tenant has
 * reached a maximum; -ENOSPC: the disk is full.
 */
int template_upload_begin(struct service *s, const char *tenant, const char *hash,
			  uint64_t size, struct template_upload **ret,
			  struct warren_error *err) MUST_CHECK;
/*
 * Write the next bytes on another thread. One call at a time.
 */
void template_upload_write(struct template_upload *u, const char *data, size_t n,
			   service_done_fn done, void *ctx);
/* The archive has arrived. -EBADMSG: it has another size; @u is freed in any case. */
int template_upload_end(struct template_upload *u, struct warren_error *err) MUST_CHECK;
/* Accepts NULL, returns NULL. No callback is called afterwards. */
struct template_upload *template_upload_cancel(struct template_upload *u);

/* ------------------------------------------------------------------ build.c */

struct template_build_request {
	const struct template_build_row *row; /* id, template, spec */
	const char *tenant;
	/* For warren-image(1): cli/image/build_request.h; changed. */
	json_t *options;
	const char *dockerfile;
	const char *const *tags; /* of the build; NULL-terminated */
	/* The texts of the steps, and the archives of those that need one (NULL). */
	size_t n_steps;
	const char *const *steps, *const *hashes;
	const char *labels; /* of the snapshot; a JSON object */
	struct snapshot_quota quota;
	uint64_t memory, cpu_millis, disk; /* of its commands */
};

/*
 * Start the build. -ENOENT: an archive is missing; -EBUSY: it has begun before; otherwise
 * errors of image_stream_start() and snapshot_reserve().
 */
int template_build_start(struct service *s, const struct template_build_request *request,
			 struct warren_error *err) MUST_CHECK;
/* Cancel the builds of a template. */
void template_build_cancel(struct service *s, const char *template);
/* The log of a build in progress so far; NULL: it is not in progress. Borrowed. */
const char *template_build_log(struct service *s, const char *id);

#endif /* SERVICE_TEMPLATE_TEMPLATE_H */
