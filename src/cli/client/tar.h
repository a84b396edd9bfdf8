/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar.h - pack and unpack directories of this machine, in a separate process
 *
 * Data from a sandbox is hostile: no part of an archive is written outside of its
 * directory, through a link, as a device, or with set-id bits.
 */
#ifndef CLI_CLIENT_TAR_H
#define CLI_CLIENT_TAR_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/* A file of the archive that is not a file of the directory. */
struct tar_extra {
	const char *name;
	const char *data;
	size_t size;
};

struct tar_options {
	const char *command; /* the command that messages name */
	/* Return whether to leave out the file @path, below the directory; NULL: none. */
	bool (*skip)(void *ctx, const char *path);
	bool skip_has_exceptions; /* a file in a skipped directory may be needed */
	void *ctx;
	bool refuse_devices;
	const struct tar_extra *extra;
	size_t n_extra;
};

struct tar {
	pid_t pid; /* process at the other end */
	int fd;    /* the archive, to read or to write */
};

/*
 * Pack @path under the names "@name", "@name/..."; @name "": only the contents of @path.
 */
int tar_pack(const char *path, const char *name, struct tar *ret,
	     struct warren_error *err) MUST_CHECK;
/* Pack the contents of @path, with options. */
int tar_pack_with(const char *path, const struct tar_options *o, struct tar *ret,
		  struct warren_error *err) MUST_CHECK;
/* Unpack into the existing directory @path. */
int tar_unpack(const char *path, struct tar *ret, struct warren_error *err) MUST_CHECK;
/* Close the archive and wait; -EIO: the process failed, and @err has its message. */
int client_tar_end(struct tar *t, struct warren_error *err) MUST_CHECK;

#endif /* CLI_CLIENT_TAR_H */
