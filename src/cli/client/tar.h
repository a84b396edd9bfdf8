/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar.h - pack and unpack directories of this machine, in a separate process
 *
 * Data from a sandbox is hostile: no part of an archive is written outside of its
 * directory, through a link, as a device, or with set-id bits.
 */
#ifndef CLI_CLIENT_TAR_H
#define CLI_CLIENT_TAR_H

#include <sys/types.h>

#include "base/error.h"

struct tar {
	pid_t pid; /* process at the other end */
	int fd;    /* the archive, to read or to write */
};

/*
 * Pack @path under the names "@name", "@name/..."; @name "": only the contents of @path.
 */
int tar_pack(const char *path, const char *name, struct tar *ret,
	     struct warren_error *err) MUST_CHECK;
/* Unpack into the existing directory @path. */
int tar_unpack(const char *path, struct tar *ret, struct warren_error *err) MUST_CHECK;
/* Close the archive and wait; -EIO: the process failed, and @err has its message. */
int client_tar_end(struct tar *t, struct warren_error *err) MUST_CHECK;

#endif /* CLI_CLIENT_TAR_H */
