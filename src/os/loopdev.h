/* SPDX-License-Identifier: Apache-2.0 */
/* loopdev.h - attach a file as a block device while it is in use */
#ifndef OS_LOOPDEV_H
#define OS_LOOPDEV_H

#include <sys/types.h>

#include "base/error.h"

#define LOOP_PATH_MAX 32

/*
 * Attach @backing to a free device. The kernel detaches it when the last user (@ret_fd,
 * then a mount of it) is gone, even after a crash.
 */
int loopdev_attach(int backing, char path[LOOP_PATH_MAX], int *ret_fd,
		   struct warren_error *err);

/*
 * Find the device that @backing is attached to. 1: found, and it stays attached while
 * @ret_fd is open; 0: none. So that a file is not attached twice, the caller must hold a
 * lock that excludes other callers of both functions.
 */
int loopdev_find(int backing, char path[LOOP_PATH_MAX], int *ret_fd,
		 struct warren_error *err);

/* The path of the device @dev, which a mounted filesystem has; -ENODEV: no loop device.
 */
int loopdev_path(dev_t dev, char path[LOOP_PATH_MAX]);

#endif /* OS_LOOPDEV_H */
