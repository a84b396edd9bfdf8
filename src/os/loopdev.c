/* SPDX-License-Identifier: Apache-2.0 */
/* loopdev.c - LOOP_CTL_GET_FREE and LOOP_CONFIGURE */
#include "os/loopdev.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <sys/ioctl.h>

int loopdev_attach(int backing, char path[LOOP_PATH_MAX], int *ret_fd,
		   struct warren_error *err)
{
	AUTO_CLOSE int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	struct loop_config config = {
		.fd = (uint32_t)backing,
		.info = { .lo_flags = LO_FLAGS_AUTOCLEAR },
	};

	if (control < 0 && errno == ENOENT)
		return error_set(
			err, EOPNOTSUPP,
			"this machine has no loop devices (/dev/loop-control); a disk "
			"that is not larger than the memory limit needs none");
	if (control < 0)
		return error_errno(err, errno, "open /dev/loop-control");
	/* Another process may take the device between the two calls. */
	for (int tries = 0; tries < 64; tries++) {
		AUTO_CLOSE int fd = -1;
		int n = ioctl(control, LOOP_CTL_GET_FREE);

		if (n < 0)
			return error_errno(err, errno, "find a free loop device");
		(void)snprintf(path, LOOP_PATH_MAX, "/dev/loop%d", n);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return error_errno(err, errno, "open '%s'", path);
		if (ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
			*ret_fd = TAKE_FD(fd);
			return 0;
		}
		if (errno != EBUSY)
			return error_errno(err, errno, "attach '%s'", path);
	}
	return error_set(err, EBUSY, "other processes keep taking the free loop devices");
}
