/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_tar.h - write the directory of a layer as a tar archive
 *
 * The reverse of unpack.h: unpacking the archive gives the same tree, and writing that
 * tree again gives the same bytes. So the diff id of a layer that was created here, and
 * not pulled, is the digest of this archive.
 *
 * Entries are sorted by the bytes of their names, with the directory itself ("./") first.
 * Modes, owners, times with nanoseconds, hard links, pipes, extended attributes (user.*
 * and file capabilities, as unpack.h keeps them) are exact; holes become zeros. The
 * whiteouts and opaque directories of overlay become ".wh.NAME" and ".wh..wh..opq".
 * Sockets are skipped. Times before 1970 lose their fraction of a second, because
 * programs disagree about its sign.
 *
 * It refuses, and names the path: devices (-EPERM), names that begin with ".wh."
 * (-EINVAL), paths of 4,096 bytes or with more than 1,024 directories (-ENAMETOOLONG),
 * and directories that overlay renamed without copying (-EOPNOTSUPP).
 *
 * It follows no links, and needs memory only for the names of the directories on the
 * current path and for files with several names. No other process may change the tree
 * while it runs; otherwise it fails, or the archive contains some of the changes.
 */
#ifndef IMAGE_LAYER_TAR_H
#define IMAGE_LAYER_TAR_H

#include <stdint.h>

#include "base/error.h"

struct layer_tar_options {
	/* Takes the next bytes; if it does not return 0, writing ends with that value. */
	int (*sink)(void *ctx, const void *data, size_t n);
	void *ctx;
	uint64_t max_bytes; /* maximum size of the archive (-EFBIG); 0: no limit */
};

struct layer_tar_result {
	uint64_t bytes;   /* size of the archive */
	uint64_t entries; /* files, directories, links and whiteouts */
	uint64_t skipped; /* sockets, and attributes that an image cannot have */
};

/*
 * Write the directory @dir. If @sink returns a negative value, @err may have no message:
 * the sink knows the reason.
 */
int layer_tar_write(int dir, const struct layer_tar_options *options,
		    struct layer_tar_result *ret, struct warren_error *err);

#endif /* IMAGE_LAYER_TAR_H */
