/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build_request.h - a build for a client of the service
 *
 * The warden starts `warren-image build-request` with what the configuration permits. On
 * stdin is the request: its length as BUILD_REQUEST_DIGITS digits and a newline, a JSON
 * object of that length, and then the context as a tar archive, compressed or not. The
 * output is a report (report.h); output of the build is in lines of the type "output".
 *
 * The client is not trusted. The archive is unpacked by confined processes (unpack.h)
 * into a temporary directory of the store, and read only through a view. A file that is
 * not part of the context, such as a Dockerfile from elsewhere, is in the directory
 * BUILD_REQUEST_DIR, which is removed before the first instruction. Steps and caches of
 * mounts are found only by builds of the same tenant.
 */
#ifndef CLI_IMAGE_BUILD_REQUEST_H
#define CLI_IMAGE_BUILD_REQUEST_H

#include <jansson.h>

#include "cli/image/settings.h"
#include "spec/limits.h"
#include "warren.h"

#define BUILD_REQUEST_WORD   "build-request"
#define BUILD_REQUEST_DIGITS 10
#define BUILD_REQUEST_DIR    ".warren-build"

struct build;

enum build_request_limits {
	BUILD_REQUEST_MAX = 16 << 20, /* bytes of the JSON object */
};
#define BUILD_CONTEXT_MAX (8ULL << 30)  /* bytes of the context, uncompressed */
#define BUILD_BYTES_MAX   (64ULL << 30) /* bytes of all new layers */
#define BUILD_STEPS_MAX   (10ULL << 30) /* bytes that steps of a tenant keep */

struct build_request {
	/* From the warden. */
	uint64_t most[SPEC_LIMIT_MAX]; /* the maximum of each limit; 0: none */
	const char *run_dir, *dns_servers;
	struct host_list insecure, trusted;
	bool no_host; /* FROM host is refused */
	bool trim;    /* there is no request: build_steps_trim() */
	/* From the client. */
	json_t *json;
	const char *tenant;
	enum warren_network network;
	char *policy;  /* as JSON; NULL: none */
	uint32_t soft; /* limits that the client did not give */
	/* From the service. */
	const char *snapshot; /* id of the snapshot that the image becomes; NULL: none */
	const char *base;     /* id of a snapshot that the build may use; NULL: none */
	uint64_t steps_max;   /* bytes that the tenant's steps may keep */
	uint64_t bytes;       /* of the layers so far */
};

/* Build the image, with the words after BUILD_REQUEST_WORD; return the exit status. */
int build_request_main(int argc, char **argv);
/* Return whether the build may use the image @ref: 0 or -errno. */
int build_request_may_use(const struct build *b, const char *ref,
			  struct warren_error *err) MUST_CHECK;
/* Make the image of a snapshot different from every other, by its history. */
void build_request_differ(json_t *config);
/* Name the image as a snapshot. */
int build_request_name(const struct build *b, const char *id,
		       struct warren_error *err) MUST_CHECK;
/* Count the bytes of a new layer. -EFBIG: they are too many. */
int build_request_count(struct build_request *q, uint64_t bytes,
			struct warren_error *err) MUST_CHECK;

#endif /* CLI_IMAGE_BUILD_REQUEST_H */
