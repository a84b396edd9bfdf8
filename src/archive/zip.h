/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zip.h - convert a zip archive into a tar archive, as a stream
 *
 * The code that unpacks tar archives, with all its checks, thus unpacks zip archives too.
 * Pure functions on bytes. The archive is read from the front, entry by entry; the
 * central directory at its end is ignored. Names, sizes and checksums come from the
 * entries; files and directories get default modes. Encrypted entries, compression other
 * than deflate, and entries whose size does not precede the data are refused.
 */
#ifndef ARCHIVE_ZIP_H
#define ARCHIVE_ZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct zip;

struct zip *zip_new(void);
struct zip *zip_free(struct zip *z);
/*
 * Like unpack_take(). -EBADMSG if the archive is damaged, -EOPNOTSUPP if it is refused.
 */
int zip_take(struct zip *z, const char *data, size_t n, size_t *ret_used, char *out,
	     size_t size, size_t *ret_made, struct warren_error *err);
bool zip_is_whole(const struct zip *z);

#endif /* ARCHIVE_ZIP_H */
