/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar.h - trees of this machine to and from archives, in a separate process
 *
 * Data from a sandbox is hostile: no part of an archive is written outside of its
 * directory, through a link, as a device, or with set-id bits.
 */
#ifndef CLI_CLIENT_TAR_H
#define CLI_CLIENT_TAR_H

#include <sys/types.h>

#include "base/error.h"

struct tar {
	pid_t pid; /* of the process at the other end */
	int fd;    /* the archive: read it, or write it */
};

/* What is at @path, as "@name", "@name/..."; @name "": only what is in it. */
int tar_pack(const char *path, const char *name, struct tar *ret,
	     struct warren_error *err) MUST_CHECK;
/* Into the directory @path, which is there. */
int tar_unpack(const char *path, struct tar *ret, struct warren_error *err) MUST_CHECK;
/* Closes it and waits; -EIO with the process's own words when it failed. */
int client_tar_end(struct tar *t, struct warren_error *err) MUST_CHECK;

#endif /* CLI_CLIENT_TAR_H */
