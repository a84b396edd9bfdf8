/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - files of a project, opened beneath its directory */
#include "setup/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "setup/plan.h"

int setup_tree_open(int dir, const char *path)
{
	/* O_NONBLOCK: a named pipe must not block. */
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
	AUTO_CLOSE int fd = -1;
	struct stat st;

	fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? TAKE_FD(fd) : -ENOENT;
}

int setup_tree_dir(int dir, const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
	int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

/* Is the file simply not there, or not one of the project? */
static bool setup_tree_absent(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -EXDEV || r == -ELOOP ||
	       r == -ENXIO || r == -ENODEV;
}

int setup_tree_read(int dir, const char *path, char **ret, size_t *ret_size,
		    struct warren_error *err)
{
	AUTO_CLOSE int fd = setup_tree_open(dir, path);
	AUTO_FREE char *text = NULL;
	struct stat st;
	ssize_t n;

	if (setup_tree_absent(fd))
		return error_set(err, ENOENT, "%s: there is no such file", path);
	if (fd < 0)
		return error_errno(err, -fd, "open %s", path);
	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "read %s", path);
	if (st.st_size > SETUP_TEXT_MAX)
		return error_set(err, EFBIG, "%s is larger than 1 MiB", path);
	text = malloc(SETUP_TEXT_MAX + 2);
	if (!text)
		return error_errno(err, ENOMEM, "read %s", path);
	n = fd_read_all(fd, text, SETUP_TEXT_MAX + 1);
	if (n < 0)
		return error_errno(err, (int)-n, "read %s", path);
	if (n > SETUP_TEXT_MAX)
		return error_set(err, EFBIG, "%s is larger than 1 MiB", path);
	text[n] = '\0';
	if (ret_size)
		*ret_size = (size_t)n;
	*ret = TAKE_PTR(text);
	return 0;
}

bool setup_tree_has(int dir, const char *path)
{
	AUTO_CLOSE int fd = setup_tree_open(dir, path);

	return fd >= 0;
}

char *setup_tree_real(int dir, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
	AUTO_CLOSE int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	char link[64];

	if (fd < 0)
		return NULL;
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return realpath(link, NULL);
}

int setup_tree_list(int fd, DIR **ret)
{
	*ret = fd < 0 ? NULL : fdopendir(fd);
	if (*ret)
		return 0;
	if (fd < 0)
		return fd;
	(void)close(fd);
	return -ENOMEM;
}

char *setup_tree_join(const char *dir, const char *name)
{
	char *path = NULL;

	if (asprintf(&path, "%s%s%s", dir, dir[0] ? "/" : "", name) < 0)
		return NULL;
	return path;
}
