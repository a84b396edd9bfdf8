/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zip.h - a zip archive, read as a tar archive while it arrives
 *
 * So what unpacks a tar, with all its care, unpacks this. Pure functions on bytes; read
 * from the front, entry by entry: the directory at its end says nothing that is believed.
 * Names, sizes and sums are those of the entries; modes are those of a file that is new.
 * What is encrypted, or compressed by anything but deflate, or does not say its size in
 * front of the data, is refused.
 */
#ifndef ARCHIVE_ZIP_H
#define ARCHIVE_ZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct zip;

struct zip *zip_new(void);
struct zip *zip_free(struct zip *z);
/* As unpack_take(). -EBADMSG, -EOPNOTSUPP. */
int zip_take(struct zip *z, const char *data, size_t n, size_t *ret_used, char *out,
	     size_t size, size_t *ret_made, struct warren_error *err);
bool zip_is_whole(const struct zip *z);

#endif /* ARCHIVE_ZIP_H */
