/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mount.h - the descriptor-based mount API
 *
 * A mount is made detached, as a descriptor, then attached at a descriptor: no
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

/* A new filesystem of @type, detached; @attr are MOUNT_ATTR_*. NULL key ends @options. */
int mount_new(const char *type, const struct mount_option *options, uint64_t attr,
	      int *ret_fd, struct warren_error *err);

/*
 * A detached copy of the mount at @path (below @dirfd; "": @dirfd itself). Adds
 * @attr and, with @userns >= 0, the id map of that namespace. @recursive: with
 * all that is mounted below.
 */
int mount_copy(int dirfd, const char *path, bool recursive, uint64_t attr, int userns,
	       int *ret_fd, struct warren_error *err);

/*
 * How many names a path has: what has fewer is mounted first, as it would hide what is
 * below it.
 */
unsigned mount_depth(const char *path);

/* Attach @mount_fd at @path below @dirfd ("": at @dirfd itself). */
int mount_attach(int mount_fd, int dirfd, const char *path, struct warren_error *err);

/* Other values of @options for the filesystem of the mount @fd. */
int mount_change(int fd, const struct mount_option *options, struct warren_error *err);

/* Add @attr to the mount that @fd is of. */
int mount_restrict(int fd, uint64_t attr, struct warren_error *err);

/* Give a detached mount, made by mount_new(), the id map of @userns. */
int mount_idmap(int fd, int userns, struct warren_error *err);

/* openat2(2); O_CLOEXEC is added. A descriptor or -errno. */
int mount_openat2(int dirfd, const char *path, uint64_t flags, uint64_t mode,
		  uint64_t resolve);

#endif /* OS_MOUNT_H */
