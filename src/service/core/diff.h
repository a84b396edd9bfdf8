/* SPDX-License-Identifier: Apache-2.0 */
/* diff.h - list the changed files of a sandbox */
#ifndef SERVICE_CORE_DIFF_H
#define SERVICE_CORE_DIFF_H

#include "service/core/service.h"

struct diff_request {
	const char *image; /* the id of the image to compare with; NULL: the sandbox's */
	uint64_t skip;     /* do not return the first changes */
	uint64_t max;
	uint64_t timeout_ms; /* give up after this time; 0: the maximum */
};

struct diff_result {
	uint64_t n;
	bool more;     /* there are more changes after these */
	bool too_deep; /* see struct warren_diff */
	/* A file with records of the type struct warren_change, which diff_fn closes. */
	int fd;
};

struct diff_op;

/* @result is NULL after a failure. */
typedef void (*diff_fn)(void *ctx, const struct diff_result *result,
			const struct warren_error *err);
/* Prepare a list of the changed files; NULL: it failed, and @done is not called. */
struct diff_op *sandbox_diff_new(const struct sandbox *sandbox,
				 const struct diff_request *request, diff_fn done,
				 void *ctx, struct warren_error *err);
/*
 * List the changed files of the sandbox; it is woken if it hibernates. Afterwards, or at
 * once, @done is called, and the operation is freed. @done gets -ENOMEDIUM: there is no
 * such image; -EINVAL: its layers do not begin with those of the sandbox's image;
 * -ETIMEDOUT.
 */
void sandbox_diff_start(struct diff_op *op, struct sandbox *sandbox);
/* No client waits for the result: @done is not called any more. */
void sandbox_diff_cancel(struct diff_op *op);
/*
 * End the comparisons of a sandbox whose files are about to be removed, with -ESTALE: as
 * long as they run, they keep the files in memory or on disk.
 */
void sandbox_diffs_end(const struct sandbox *sandbox);

#endif /* SERVICE_CORE_DIFF_H */
