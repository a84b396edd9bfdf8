/* SPDX-License-Identifier: Apache-2.0 */
/* ext4.h - filesystems in files: create one with mkfs.ext4, copy and mount one */
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

/*
 * Create a detached mount of the filesystem in @file, through a loop device: the one
 * that it is attached to, or another. No two callers may do this for one file at a time.
 * -EMEDIUMTYPE: it is damaged; -EOPNOTSUPP: the machine has no loop devices.
 */
int ext4_mount(int file, int *ret_fd, struct warren_error *err);

#endif /* OS_EXT4_H */
