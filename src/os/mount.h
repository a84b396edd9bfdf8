/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mount.h - the descriptor-based mount API
 *
 * A mount is created detached, as a descriptor, and then attached at a descriptor. No
 * path is looked up twice, so no link can be swapped in between.
 */
#ifndef OS_MOUNT_H
#define OS_MOUNT_H

#include <stdint.h>

#include "base/error.h"

struct mount_option {
	const char *key;
	const char *value; /* NULL: a flag */
};

/*
 * Create a detached filesystem of @type; @attr are MOUNT_ATTR_*. A NULL key ends
 * @options.
 */
int mount_new(const char *type, const struct mount_option *options, uint64_t attr,
	      int *ret_fd, struct warren_error *err);

/*
 * Create a detached copy of the mount at @path (below @dirfd; "": @dirfd itself). Add
 * @attr and, if @userns >= 0, the id map of that namespace. @recursive: include all
 * mounts below it.
 */
int mount_copy(int dirfd, const char *path, bool recursive, uint64_t attr, int userns,
	       int *ret_fd, struct warren_error *err);

/*
 * Count the components of @path. Paths with fewer are mounted first, because they would
 * hide mounts below them.
 */
unsigned mount_depth(const char *path);

/* Attach @mount_fd at @path below @dirfd ("": at @dirfd itself). */
int mount_attach(int mount_fd, int dirfd, const char *path, struct warren_error *err);

/* Change @options of the filesystem of the mount @fd. */
int mount_change(int fd, const struct mount_option *options, struct warren_error *err);

/* Add @attr to the mount @fd. */
int mount_restrict(int fd, uint64_t attr, struct warren_error *err);

/* Give a detached mount from mount_new() the id map of @userns. */
int mount_idmap(int fd, int userns, struct warren_error *err);

/* Call openat2(2) with O_CLOEXEC added; return a descriptor or -errno. */
int mount_openat2(int dirfd, const char *path, uint64_t flags, uint64_t mode,
		  uint64_t resolve);

#endif /* OS_MOUNT_H */
