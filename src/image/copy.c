/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c - copy files and trees with descriptors only, bounded in depth and size */
#include "image/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "os/mount.h"

#define DEPTH_MAX 8
#define FILE_MAX  (16L << 20)
#define REMOVERS  8

static int copy_entry(int from, int to, const char *name, int depth);

static int copy_link(int from, int to, const char *name)
{
	char target[4096];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	return symlinkat(target, to, name) < 0 && errno != EEXIST ? -errno : 0;
}

static int image_copy_file(int from, int to, const char *name, mode_t mode)
{
	AUTO_CLOSE int in =
		openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	AUTO_CLOSE int out = -1;
	char block[65536];
	long total = 0;
	ssize_t n;

	if (in < 0)
		return -errno;
	out = openat(to, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		     0600);
	if (out < 0)
		return -errno;
	while ((n = fd_read_all(in, block, sizeof(block))) > 0) {
		int r = fd_write_all(out, block, (size_t)n);

		if (r < 0)
			return r;
		total += n;
		if (total > FILE_MAX)
			return -EFBIG;
	}
	if (n < 0)
		return (int)n;
	return fchmod(out, mode & 0755) < 0 ? -errno : 0;
}

/* Create a directory with @mode, whatever the umask, or find the existing one; return it
 * open. */
static int copy_make_dir(int at, const char *name, mode_t mode)
{
	bool made = mkdirat(at, name, 0700) == 0;
	AUTO_CLOSE int fd = -1;

	if (!made && errno != EEXIST)
		return -errno;
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || (made && fchmod(fd, mode) < 0))
		return -errno;
	return TAKE_FD(fd);
}

static int copy_dir(int from, int to, const char *name, mode_t mode, int depth)
{
	int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_CLOSE int out = -1;
	struct dirent *e;
	DIR *d = in < 0 ? NULL : fdopendir(in);
	int r = 0;

	if (!d)
		return -errno;
	out = copy_make_dir(to, name, mode & 0755);
	if (out < 0)
		r = out;
	while (r == 0 && depth > 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = copy_entry(in, out, e->d_name, depth - 1);
	(void)closedir(d);
	return r;
}

static int copy_entry(int from, int to, const char *name, int depth)
{
	struct stat st;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return copy_link(from, to, name);
	if (S_ISREG(st.st_mode) && (st.st_mode & S_IROTH))
		return image_copy_file(from, to, name, st.st_mode);
	if (S_ISDIR(st.st_mode) &&
	    (st.st_mode & (S_IROTH | S_IXOTH)) == (S_IROTH | S_IXOTH))
		return copy_dir(from, to, name, st.st_mode, depth);
	return 0;
}

int copy_from_host(int root, const char *path)
{
	AUTO_CLOSE int from = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE int to = fcntl(root, F_DUPFD_CLOEXEC, 3);
	char parts[256], *save = NULL, *part, *next;
	struct stat st;

	if (from < 0 || to < 0)
		return -errno;
	if (strlen(path) >= sizeof(parts))
		return -ENAMETOOLONG;
	(void)strcpy(parts, path);
	/* Check first that the file exists, so that no empty directory is created for it.
	 */
	if (fstatat(from, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	for (part = strtok_r(parts, "/", &save); part; part = next) {
		int fd;

		next = strtok_r(NULL, "/", &save);
		if (!next)
			return copy_entry(from, to, part, DEPTH_MAX);
		fd = copy_make_dir(to, part, 0755);
		if (fd < 0)
			return fd;
		(void)close(to);
		to = fd;
		fd = openat(from, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		(void)close(from);
		from = fd;
	}
	return -EINVAL;
}

void copy_remove_whole(int at, const char *name, const char *aside)
{
	copy_remove_tree(at, aside);
	if (renameat(at, name, at, aside) < 0)
		copy_remove_tree(at, name);
	else
		copy_remove_tree(at, aside);
}

int copy_open_dir(int at, const char *path)
{
	return mount_openat2(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
			     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

void copy_remove_part(int at, const char *name, uint64_t *max)
{
	struct dirent *e;
	DIR *d;
	int fd;

	if (*max == 0)
		return;
	--*max;
	if (unlinkat(at, name, 0) == 0 || (errno != EISDIR && errno != EPERM))
		return;
	/* The mode of an image's directory may deny access even to its owner. */
	if (geteuid() != 0)
		(void)!fchmodat(at, name, 0700, 0);
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	while (d && *max > 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			copy_remove_part(fd, e->d_name, max);
	if (d)
		(void)closedir(d);
	(void)unlinkat(at, name, AT_REMOVEDIR);
}

void copy_remove_tree(int at, const char *name)
{
	uint64_t max = UINT64_MAX;

	copy_remove_part(at, name, &max);
}

struct copy_removal {
	int at;
	const char *name;
};

static void *copy_remover(void *ctx)
{
	const struct copy_removal *r = ctx;

	copy_remove_tree(r->at, r->name);
	return NULL;
}

/*
 * All threads walk the same tree. A name that is gone costs almost nothing, so while one
 * thread waits for the end of a file, the others remove those after it.
 */
void copy_remove_large(int at, const char *name)
{
	struct copy_removal r = { at, name };
	pthread_t threads[REMOVERS];
	size_t n = 0;

	if (unlinkat(at, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return;
	while (n < REMOVERS && pthread_create(&threads[n], NULL, copy_remover, &r) == 0)
		n++;
	for (size_t i = 0; i < n; i++)
		(void)pthread_join(threads[i], NULL);
	/* What is left: the threads share the limit for open files. */
	copy_remove_tree(at, name);
}
