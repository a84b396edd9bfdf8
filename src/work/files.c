/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - open, read and replace files beneath a directory */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "os/mount.h"
#include "work/files_internal.h"
#include "work/reach.h"

#define BENEATH \
	(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)

int beneath_dir(int root, const char *path, int flags)
{
	return mount_openat2(root, path[0] ? path : ".",
			     (uint64_t)(flags | O_DIRECTORY | O_NOFOLLOW), 0, BENEATH);
}

int beneath_parent(int root, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *parent = slash ? strndup(path, (size_t)(slash - path)) : NULL;

	if (slash && !parent)
		return -ENOMEM;
	*ret_name = slash ? slash + 1 : path;
	return beneath_dir(root, parent ? parent : ".", O_PATH);
}

int beneath_file(int dir, const char *name, struct stat *ret)
{
	AUTO_CLOSE int fd = openat(
		dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 && errno != EACCES)
		return errno == ELOOP || errno == ENXIO ? -EMEDIUMTYPE : -errno;
	/* Only root may open a whiteout. */
	if (fd < 0 && fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) == 0 &&
	    !S_ISREG(ret->st_mode))
		return -EMEDIUMTYPE;
	if (fd < 0)
		fd = reach_own_file(dir, name);
	if (fd < 0)
		return fd;
	if (fstat(fd, ret) < 0)
		return -errno;
	return S_ISREG(ret->st_mode) ? TAKE_FD(fd) : -EMEDIUMTYPE;
}

int beneath_stat(int root, const char *path, struct stat *ret)
{
	const char *name;
	AUTO_CLOSE int dir = beneath_parent(root, path, &name);

	if (dir < 0)
		return dir;
	return fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int beneath_make_dirs(int root, const char *path, mode_t mode)
{
	AUTO_CLOSE int dir = beneath_dir(root, ".", O_PATH);
	AUTO_FREE char *copy = strdup(path);
	char *save = NULL;

	if (!copy)
		return -ENOMEM;
	for (char *name = strtok_r(copy, "/", &save); dir >= 0 && name;
	     name = strtok_r(NULL, "/", &save)) {
		int next;

		if (mkdirat(dir, name, mode) < 0 && errno != EEXIST)
			return -errno;
		next = beneath_dir(dir, name, O_PATH);
		(void)close(dir);
		dir = next;
	}
	return dir < 0 ? dir : TAKE_FD(dir);
}

/* ------------------------------------------------------------------ contents */

int work_file_read(int fd, size_t max, char **ret, size_t *ret_len)
{
	AUTO_FREE char *data = NULL;
	struct stat st;
	size_t room;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size > max)
		return -EFBIG;
	/* Room for one more byte, which a file that grows has. */
	room = (size_t)st.st_size + 1;
	data = malloc(room + 1);
	if (!data)
		return -ENOMEM;
	n = fd_read_all(fd, data, room);
	if (n < 0)
		return (int)n;
	if ((size_t)n == room)
		return -EFBIG;
	data[n] = '\0';
	*ret = TAKE_PTR(data);
	*ret_len = (size_t)n;
	return 0;
}

int work_file_read_at(int root, const char *path, size_t max, char **ret, size_t *ret_len)
{
	struct stat st;
	const char *name;
	AUTO_CLOSE int dir = beneath_parent(root, path, &name), fd = -1;

	if (dir < 0)
		return dir;
	fd = beneath_file(dir, name, &st);
	return fd < 0 ? fd : work_file_read(fd, max, ret, ret_len);
}

int link_read(int dir, const char *name, char **ret, size_t *ret_len)
{
	char target[4097];
	ssize_t n = readlinkat(dir, name, target, sizeof(target));

	if (n < 0)
		return -errno;
	if ((size_t)n >= sizeof(target))
		return -ENAMETOOLONG;
	target[n] = '\0';
	*ret = strdup(target);
	*ret_len = (size_t)n;
	return *ret ? 0 : -ENOMEM;
}

int work_file_replace(int dir, const char *name, const void *data, size_t n, bool sync)
{
	AUTO_CLOSE int fd = -1;
	char new_name[NAME_MAX + 8];
	int r;

	(void)snprintf(new_name, sizeof(new_name), "%s.new",
		       strlen(name) + 4 <= NAME_MAX ? name : ".warren");
	fd = openat(dir, new_name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, data, n);
	if (r == 0 && sync && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dir, new_name, dir, name) < 0)
		r = -errno;
	if (r == 0 && sync && fsync(dir) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir, new_name, 0);
	return r;
}

/* --------------------------------------------------------------- directories */

int dir_next(struct dir_reader *r, const struct dir_entry **ret)
{
	for (;;) {
		struct dir_entry *e;
		struct stat st;

		if (r->at >= r->n) {
			r->n = syscall(SYS_getdents64, r->fd, r->room, sizeof(r->room));
			r->at = 0;
			if (r->n <= 0)
				return r->n < 0 ? -errno : 0;
		}
		e = (void *)(r->room + r->at);
		r->at += e->size;
		if (e->name[0] == '.' &&
		    (!e->name[1] || (e->name[1] == '.' && !e->name[2])))
			continue;
		/* Not every file system keeps the type in its directories. */
		if (e->type == DT_UNKNOWN &&
		    fstatat(r->fd, e->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			e->type = (uint8_t)IFTODT(st.st_mode);
		*ret = e;
		return 1;
	}
}

bool dir_is_opaque(int fd)
{
	char mark = 0;

	return fgetxattr(fd, "user.overlay.opaque", &mark, 1) == 1 && mark == 'y';
}
