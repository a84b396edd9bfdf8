/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h - changes of a file, a directory or a tree of a sandbox
 *
 * By inotify(7): the instance is ours, and init adds to it what is to be
 * watched, as the user, inside. The kernel counts both instances and what they
 * watch for us, whosever sandbox it is; so tenants share them (fair_quota.h).
 */
#ifndef SERVICE_FILES_WATCH_H
#define SERVICE_FILES_WATCH_H

#include "service/files/files.h"

enum watch_type {
	WATCH_READY,
	WATCH_CREATED,
	WATCH_MODIFIED,
	WATCH_ATTRIBUTES,
	WATCH_REMOVED,
	WATCH_MOVED,
	WATCH_OVERFLOW,
};

/* Of what its tenant has as much as it may. */
struct watch_denial {
	const char *quota; /* NULL: of nothing */
	uint64_t used, maximum;
};

struct watch_options {
	const char *path;
	bool recursive;
	/* @path NULL: of none; @from NULL: it came from a place that is not watched. */
	void (*event)(void *ctx, enum watch_type type, const char *path,
		      const char *from);
	void (*failed)(void *ctx, const struct warren_error *err);
	void *ctx;
	struct watch_denial *denial; /* written if it fails for that, with EDQUOT */
};

struct watch;

struct watch *watch_new(struct files *f, const struct watch_options *options,
			struct warren_error *err);
struct watch *watch_free(struct watch *w);
/*
 * While events cannot be delivered, none are read: the kernel keeps them, up to its
 * limit.
 */
void watch_pause(struct watch *w, bool pause);

#endif /* SERVICE_FILES_WATCH_H */
