/* SPDX-License-Identifier: Apache-2.0 */
/* ext4.h - filesystems in files: create one with mkfs.ext4, and copy one */
#ifndef OS_EXT4_H
#define OS_EXT4_H

#include <stdint.h>

#include "base/error.h"

/*
 * Create an empty filesystem in the file @path, whose size is set. With a @journal, it
 * is consistent after a power cut. -ENOENT: mkfs.ext4 is not installed.
 */
int ext4_create(const char *path, bool journal, struct warren_error *err);

/*
 * Copy the @size bytes of @from to the empty file @to; holes stay holes. The two files
 * share blocks if the filesystem supports it. 0 or -errno.
 */
int ext4_copy(int from, int to, uint64_t size);

#endif /* OS_EXT4_H */
