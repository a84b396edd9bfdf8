/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split.c - divide a setup's changes to the project by what they may hide
 *
 * A layer is used long after it was made, and the user may have created files of the same
 * names since. The user's files must win: the sandbox would read an old file otherwise,
 * and an accept would mistake the user's file for the one that the sandbox has read. So
 * nearly all of a layer lies below the project, where it hides nothing. Above it stay
 * only directories to which only tools write (setup_is_of_tools()): a mixture of the
 * user's node_modules with another one would be neither.
 *
 * The files are hostile: links are not followed, and the depth is limited (by
 * setup_prune(), which runs before).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "setup/store.h"

#define SPLIT_DEPTH_MAX 64 /* as deep as setup_prune() looks */
#define SPLIT_OPAQUE    "user.overlay.opaque"

static int split_open(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

/* Create @name in @below like the directory @up. It hides layers below, as @up did. */
static int split_mkdir(int up, int below, const char *name)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;

	if (fstat(up, &st) < 0 || mkdirat(below, name, 0700) < 0)
		return -errno;
	fd = split_open(below, name);
	if (fd < 0)
		return fd;
	if (fchown(fd, st.st_uid, st.st_gid) < 0 || fchmod(fd, st.st_mode & 07777) < 0)
		return -errno;
	if (fgetxattr(up, SPLIT_OPAQUE, NULL, 0) > 0 &&
	    (fsetxattr(fd, SPLIT_OPAQUE, "y", 1, 0) < 0 ||
	     fremovexattr(up, SPLIT_OPAQUE) < 0))
		return -errno;
	return TAKE_FD(fd);
}

/* A directory that is moved must be writable, because its ".." changes. */
static int split_move(int upper, int below, const char *name, const struct stat *st)
{
	if (renameat(upper, name, below, name) == 0)
		return 0;
	if (errno != EACCES || !S_ISDIR(st->st_mode))
		return -errno;
	if (fchmodat(upper, name, (st->st_mode & 07777) | S_IRWXU, 0) < 0 ||
	    renameat(upper, name, below, name) < 0 ||
	    fchmodat(below, name, st->st_mode & 07777, 0) < 0)
		return -errno;
	return 0;
}

static int split_dir(int upper, int below, unsigned depth);

/* NOLINTNEXTLINE(misc-no-recursion): as deep as SPLIT_DEPTH_MAX */
static int split_entry(int upper, int below, const char *name, unsigned depth)
{
	AUTO_CLOSE int up = -1, low = -1;
	struct stat st;
	int r;

	if (fstatat(upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (setup_is_of_tools(name))
		return 0;
	if (!S_ISDIR(st.st_mode) || depth == SPLIT_DEPTH_MAX)
		return split_move(upper, below, name, &st);
	up = split_open(upper, name);
	if (up < 0)
		return up;
	low = split_mkdir(up, below, name);
	if (low < 0)
		return low;
	r = split_dir(up, low, depth + 1);
	/* Remove one of them, unless both contain something. An empty one was empty
	 * before. */
	if (r == 0 && unlinkat(upper, name, AT_REMOVEDIR) < 0)
		(void)unlinkat(below, name, AT_REMOVEDIR);
	return r;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as SPLIT_DEPTH_MAX */
static int split_dir(int upper, int below, unsigned depth)
{
	int fd = split_open(upper, "."), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d) {
		if (fd >= 0)
			(void)close(fd);
		return fd < 0 ? fd : -ENOMEM;
	}
	while (r == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = split_entry(upper, below, e->d_name, depth);
	(void)closedir(d);
	return r;
}

int setup_split(int project, struct warren_error *err)
{
	AUTO_CLOSE int upper = split_open(project, "upper"), below = -1;
	int r = upper;

	if (r >= 0)
		r = below = split_mkdir(upper, project, "below");
	if (r >= 0)
		r = split_dir(upper, below, 0);
	return r < 0 ? error_errno(err, -r, "divide the changes of the setup") : 0;
}
