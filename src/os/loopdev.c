/* SPDX-License-Identifier: Apache-2.0 */
/* loopdev.c - LOOP_CTL_GET_FREE, LOOP_CONFIGURE and LOOP_GET_STATUS64 */
#include "os/loopdev.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

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

/*
 * The kernel's number of a device in an answer: 12 bits of the major number, and the
 * minor number in two parts.
 */
static uint64_t loopdev_number(dev_t dev)
{
	uint64_t low = minor(dev) & 0xff, high = minor(dev) & ~0xffU;

	return low | ((uint64_t)major(dev) << 8) | (high << 12);
}

/* Whether @fd is the device of the file @st. A device without a file answers ENXIO. */
static bool loopdev_is_of(int fd, const struct stat *st)
{
	struct loop_info64 info;

	return ioctl(fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_inode == st->st_ino &&
	       info.lo_device == loopdev_number(st->st_dev);
}

int loopdev_find(int backing, char path[LOOP_PATH_MAX], int *ret_fd,
		 struct warren_error *err)
{
	struct dirent *e;
	struct stat st;
	DIR *dev;
	int found = 0;

	if (fstat(backing, &st) < 0)
		return error_errno(err, errno, "inspect a file");
	dev = opendir("/dev");
	if (!dev)
		return error_errno(err, errno, "list /dev");
	while (!found && (e = readdir(dev))) {
		AUTO_CLOSE int fd = -1;

		if (strncmp(e->d_name, "loop", 4) != 0 || e->d_name[4] < '0' ||
		    e->d_name[4] > '9' || strlen(e->d_name) > 16)
			continue;
		(void)snprintf(path, LOOP_PATH_MAX, "/dev/%.16s", e->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
		if (fd >= 0 && loopdev_is_of(fd, &st)) {
			*ret_fd = TAKE_FD(fd);
			found = 1;
		}
	}
	(void)closedir(dev);
	return found;
}

/* The number of a device is not its minor number on a machine whose devices have
 * partitions. */
int loopdev_path(dev_t dev, char path[LOOP_PATH_MAX])
{
	char name[64], target[256];
	const char *last;
	ssize_t n;

	if (major(dev) != LOOP_MAJOR)
		return -ENODEV;
	(void)snprintf(name, sizeof(name), "/sys/dev/block/%u:%u", major(dev),
		       minor(dev));
	n = readlink(name, target, sizeof(target) - 1);
	if (n < 0)
		return -errno;
	target[n] = '\0';
	last = strrchr(target, '/');
	n = snprintf(path, LOOP_PATH_MAX, "/dev/%s", last ? last + 1 : target);
	return n < LOOP_PATH_MAX ? 0 : -ENAMETOOLONG;
}
