/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scratch_disk.c - a file as a block device for a sandbox's writes, if memory is not
 * enough
 *
 * The scratch space is a tmpfs unless the spec requests more disk than memory, or this
 * kernel's tmpfs lacks user.* attributes (before 6.6), without which an overlay cannot
 * replace a directory of the image. Then it is an ext4 filesystem of the requested size
 * in an unnamed file. Only the loop device and the mount refer to the file, so it
 * disappears with them, even after a crash.
 *
 * mkfs.ext4 creates an empty filesystem of each size once. It is kept in the state
 * directory and copied: a few hundred kilobytes of a file that is mostly holes. A client
 * may request any size, so only those that were used last are kept.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "backend/native/native.h"
#include "os/ext4.h"
#include "os/loopdev.h"
#include "os/mount.h"

#define DISK_VERSION "1"
#define DISK_PREFIX  "disk-" DISK_VERSION "-"
#define DISKS_MAX    64 /* sizes that are kept */

static const struct mount_option tmpfs_options[] = { { "size", "4096" }, { NULL, NULL } };

bool scratch_disk_tmpfs_has_xattrs(void)
{
	AUTO_CLOSE int fd = -1, file = -1;
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (mount_new("tmpfs", tmpfs_options, 0, &fd, &ignored) < 0)
		return false;
	file = openat(fd, "x", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return file >= 0 && fsetxattr(file, "user.warren", "y", 1, 0) == 0;
}

/* Remove the one that was not used for the longest time, if there are too many. */
static void scratch_disk_prune(const struct native *n)
{
	int fd = open(n->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char oldest[256] = "";
	struct timespec at = { 0 };
	size_t count = 0;
	struct dirent *e;

	while (d && (e = readdir(d))) {
		struct stat st;

		if (strncmp(e->d_name, DISK_PREFIX, strlen(DISK_PREFIX)) != 0 ||
		    fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		count++;
		if (!oldest[0] || st.st_mtim.tv_sec < at.tv_sec ||
		    (st.st_mtim.tv_sec == at.tv_sec && st.st_mtim.tv_nsec < at.tv_nsec)) {
			(void)snprintf(oldest, sizeof(oldest), "%s", e->d_name);
			at = st.st_mtim;
		}
	}
	if (count > DISKS_MAX)
		(void)unlinkat(fd, oldest, 0);
	if (d)
		(void)closedir(d);
	else if (fd >= 0)
		(void)close(fd);
}

/*
 * Open the empty filesystem of @size bytes. If there is none, create it under another
 * name and rename it.
 */
int scratch_disk_template(const struct native *n, uint64_t size, bool journal,
			  struct warren_error *err)
{
	char path[4096], temp[4096 + ID_LEN + 2], id[ID_LEN + 1];
	int fd, r = 0;

	if (snprintf(path, sizeof(path), "%s/" DISK_PREFIX "%ju%s", n->state_dir,
		     (uintmax_t)size, journal ? "-journal" : "") >= (int)sizeof(path))
		return error_errno(err, ENAMETOOLONG, "name a disk");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		(void)utimensat(AT_FDCWD, path, NULL, 0);
		return fd;
	}
	id_make(id);
	(void)snprintf(temp, sizeof(temp), "%s-%s", path, id);
	fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_errno(err, errno, "make '%s'", temp);
	if (ftruncate(fd, (off_t)size) < 0)
		r = error_errno(err, errno, "create a disk of %ju bytes",
				(uintmax_t)size);
	if (r == 0)
		r = ext4_create(temp, journal, err);
	if (r == 0 && rename(temp, path) < 0)
		r = error_errno(err, errno, "keep '%s'", path);
	if (r < 0) {
		(void)close(fd);
		(void)unlink(temp);
		return r;
	}
	scratch_disk_prune(n);
	return fd;
}

int scratch_disk_mount(const struct native *n, uint64_t size, int userns, int *ret_fd,
		       struct warren_error *err)
{
	AUTO_CLOSE int template = -1, file = -1, loop = -1, fd = -1;
	char path[LOOP_PATH_MAX];
	struct mount_option options[] = { { "source", path }, { NULL, NULL } };
	int r;

	template = scratch_disk_template(n, size, false, err);
	if (template <0)
		return template;
	file = open(n->state_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (file < 0)
		return error_errno(err, errno, "create a disk in '%s'", n->state_dir);
	r = ext4_copy(template, file, size);
	if (r < 0)
		return error_errno(err, -r, "create a disk in '%s'", n->state_dir);
	r = loopdev_attach(file, path, &loop, err);
	if (r < 0)
		return r;
	r = mount_new("ext4", options, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, &fd, err);
	if (r < 0)
		return r;
	r = mount_idmap(fd, userns, err);
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}
