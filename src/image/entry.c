/* SPDX-License-Identifier: Apache-2.0 */
/* entry.c - create what is locked from the beginning, and lock what is left */
#include "image/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/fd.h"

static int entry_flock(int fd, int how)
{
	while (flock(fd, how) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

/* Does the name still mean the open file? */
static bool entry_has_name(int at, const char *name, int fd)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstatat(at, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int entry_open_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* A clean-up holds the lock only while it removes the entry, so this does not wait long.
 */
static int entry_keep(int at, const char *name, int fd)
{
	int r = entry_flock(fd, LOCK_EX);

	return r < 0 ? r : entry_has_name(at, name, fd) ? 0 : -ENOENT;
}

int entry_new_dir(int at, const char *name, mode_t mode)
{
	for (;;) {
		AUTO_CLOSE int fd = -1;
		int r;

		if (mkdirat(at, name, mode) < 0)
			return -errno;
		fd = entry_open_dir(at, name);
		r = fd < 0 ? fd : entry_keep(at, name, fd);
		if (r == 0)
			return TAKE_FD(fd);
		if (r == -ENOENT) /* a clean-up was faster */
			continue;
		(void)unlinkat(at, name, AT_REMOVEDIR);
		return r;
	}
}

int entry_new_file(int at, const char *name, mode_t mode)
{
	for (;;) {
		AUTO_CLOSE int fd =
			openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
		int r = fd < 0 ? -errno : entry_keep(at, name, fd);

		if (r == 0)
			return TAKE_FD(fd);
		if (r == -ENOENT && fd >= 0)
			continue;
		if (fd >= 0)
			(void)unlinkat(at, name, 0);
		return r;
	}
}

int entry_lock_unused(int at, const char *name, int flags)
{
	/* Neither a link nor a pipe of another program may block it. */
	AUTO_CLOSE int fd =
		openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags);
	int r = fd < 0 ? -errno : entry_flock(fd, LOCK_EX | LOCK_NB);

	if (r == 0 && !entry_has_name(at, name, fd))
		r = -ENOENT;
	return r < 0 ? r : TAKE_FD(fd);
}

bool entry_is_used(int at, const char *name)
{
	AUTO_CLOSE int fd = entry_open_dir(at, name);

	/* A shared lock, because two processes may look at the same time. */
	return fd >= 0 && entry_flock(fd, LOCK_SH | LOCK_NB) == -EWOULDBLOCK;
}
