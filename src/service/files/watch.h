/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h - reports changes of a file, a directory or a tree of a sandbox
 *
 * This uses inotify(7): init adds the watches with the privileges of the user. A worker
 * of init creates the instance, or the service if there are no workers. The kernel counts
 * instances and watches of all tenants together, so tenants share them (fair_quota.h).
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

/* The quota that the tenant has reached. */
struct watch_denial {
	const char *quota; /* NULL: none */
	uint64_t used, maximum;
};

struct watch_options {
	const char *path;
	bool recursive;
	/*
	 * @path NULL: the event has no path. @from NULL: the file came from a directory
	 * that is not watched.
	 */
	void (*event)(void *ctx, enum watch_type type, const char *path,
		      const char *from);
	void (*failed)(void *ctx, const struct warren_error *err);
	void *ctx;
	struct watch_denial *denial; /* set if the watch fails with EDQUOT */
};

struct watch;

struct watch *watch_new(struct files *f, const struct watch_options *options,
			struct warren_error *err);
struct watch *watch_free(struct watch *w);
/* While paused, the service reads no events: the kernel keeps them, up to its limit. */
void watch_pause(struct watch *w, bool pause);
/*
 * Count @bytes of memory that the user of the watch keeps, in total, for the tenant.
 * -EUSERS: the tenant cannot have so much.
 */
int watch_hold(struct watch *w, uint64_t bytes, struct warren_error *err) MUST_CHECK;

#endif /* SERVICE_FILES_WATCH_H */
