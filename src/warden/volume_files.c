/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_files.c - files of a volume, without a sandbox
 *
 * Sandboxes may change the filesystem at the same time, so each path is resolved in one
 * step and below the root (RESOLVE_IN_ROOT): neither a link nor "..", nor a directory
 * that is moved, leads out of the volume. Only descriptors of regular files are passed
 * on.
 *
 * A file is written under a temporary name in its directory, and then renamed. A link at
 * the end of a path is replaced, not followed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "os/mount.h"
#include "proto/init_proto.h"
#include "proto/warden_proto.h"
#include "warden/volume.h"

/* Depth of a tree that is removed: each level needs a descriptor. */
#define VOLUME_DEPTH_MAX   512
#define VOLUME_LIST_MAX    100001
#define VOLUME_ENTRIES_MAX (64U << 20)
#define VOLUME_RESOLVE     (RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)

/* The directory of a path, and the last part of the path. */
struct volume_place {
	int dir;
	char name[256];
};

static int volume_path_fail(const struct warden_proto_volume *m, int code,
			    const char *what, struct warren_error *err)
{
	return error_errno(err, code, "%s '%s'", what, m->path);
}

static int volume_open_path(int root, const char *path, uint64_t flags)
{
	if (!(flags & O_PATH))
		flags |= O_NONBLOCK | O_NOCTTY; /* a pipe must not block the warden */
	return mount_openat2(root, path, flags, 0, VOLUME_RESOLVE);
}

/* Create the directory of the first @n bytes of @path, below @at if it is missing. */
static int volume_make_dir(int root, int at, const char *path, size_t n, size_t from,
			   mode_t mode)
{
	char prefix[4096];
	int fd;

	(void)memcpy(prefix, path, n);
	prefix[n] = '\0';
	fd = volume_open_path(root, prefix, O_PATH | O_DIRECTORY);
	if (fd != -ENOENT)
		return fd;
	if (mkdirat(at, prefix + from, mode) < 0 && errno != EEXIST)
		return -errno;
	return volume_open_path(root, prefix, O_PATH | O_DIRECTORY);
}

/* Open the directory @path; create missing directories. */
static int volume_make_dirs(int root, const char *path, mode_t mode)
{
	AUTO_CLOSE int at = fcntl(root, F_DUPFD_CLOEXEC, 0);
	size_t from = 0, n = strlen(path);

	if (at < 0)
		return -errno;
	for (size_t i = 0; i <= n; i++) {
		int fd;

		if (path[i] != '/' && path[i] != '\0')
			continue;
		if (i > from) {
			fd = volume_make_dir(root, at, path, i, from, mode);
			if (fd < 0)
				return fd;
			(void)close(at);
			at = fd;
		}
		from = i + 1;
	}
	return TAKE_FD(at);
}

static int volume_find_place(int root, const struct warden_proto_volume *m, bool parents,
			     struct volume_place *ret, struct warren_error *err)
{
	char dir[4096];
	size_t n = strlen(m->path);
	const char *slash;

	while (n > 1 && m->path[n - 1] == '/')
		n--;
	slash = memrchr(m->path, '/', n);
	if (!slash || slash + 1 == m->path + n)
		return error_set(
			err, EINVAL,
			"'%s' is the root of the volume, or not an absolute path",
			m->path);
	n -= (size_t)(slash + 1 - m->path);
	if (n >= sizeof(ret->name))
		return volume_path_fail(m, ENAMETOOLONG, "find", err);
	(void)memcpy(ret->name, slash + 1, n);
	ret->name[n] = '\0';
	if (strcmp(ret->name, ".") == 0 || strcmp(ret->name, "..") == 0)
		return error_set(err, EINVAL, "'%s' does not end in a name", m->path);
	(void)memcpy(dir, m->path, (size_t)(slash - m->path) + 1);
	dir[slash - m->path + 1] = '\0';
	ret->dir = parents ? volume_make_dirs(root, dir, 0755)
			   : volume_open_path(root, dir, O_PATH | O_DIRECTORY);
	return ret->dir < 0 ? volume_path_fail(m, -ret->dir, "find", err) : 0;
}

static void volume_place_done(struct volume_place *p)
{
	if (p->dir >= 0)
		(void)close(p->dir);
}

/* ------------------------------------------------------------------- entries */

static void volume_put_entry(struct buf *out, const char *name, const struct stat *st,
			     const char *link)
{
	static const char zeros[8] = "";
	const struct proto_entry e = {
		.size = (uint64_t)st->st_size,
		.ino = st->st_ino,
		.mtime_sec = st->st_mtim.tv_sec,
		.mtime_nsec = (uint32_t)st->st_mtim.tv_nsec,
		.mode = st->st_mode,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.name_size = (uint16_t)strlen(name),
		.link_size = (uint16_t)strlen(link),
	};
	size_t whole = sizeof(e) + e.name_size + 1U + e.link_size + 1U;

	buf_add(out, &e, sizeof(e));
	buf_add(out, name, e.name_size + 1U);
	buf_add(out, link, e.link_size + 1U);
	buf_add(out, zeros, -whole & 7);
}

/* Describe the entry @name of @dir ("": @dir itself), which may disappear: -ENOENT. */
static int volume_stat_at(int dir, const char *name, const char *as, struct buf *out)
{
	char link[4096] = "";
	struct stat st;
	ssize_t n;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(dir, name, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
	}
	volume_put_entry(out, as, &st, link);
	return 0;
}

static int volume_stat(int root, const struct warden_proto_volume *m, struct buf *reply,
		       struct warren_error *err)
{
	AUTO_CLOSE int fd = volume_open_path(
		root, m->path, O_PATH | (m->flags & WIRE_VOLUME_FOLLOW ? 0 : O_NOFOLLOW));
	int r = fd < 0 ? fd : volume_stat_at(fd, "", "", reply);

	return r < 0 ? volume_path_fail(m, -r, "inspect", err) : 0;
}

static int volume_compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* Sorted by name, so that a client that lists again finds the same order. */
static int volume_scan(int dir, size_t max, struct buf *out)
{
	struct dirent **names = NULL;
	size_t kept = 0;
	int n = scandirat(dir, ".", &names, NULL, volume_compare_names), r = 0;

	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;

		if (r == 0 && kept < max && strcmp(name, ".") != 0 &&
		    strcmp(name, "..") != 0) {
			r = volume_stat_at(dir, name, name, out);
			kept += r == 0;
			r = r == -ENOENT ? 0 : r;
		}
		free(names[i]);
	}
	free(names);
	return r < 0 ? r : out->failed ? -ENOMEM : 0;
}

static int volume_list_dir(int root, const struct warden_proto_volume *m, int *ret_fd,
			   struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(VOLUME_ENTRIES_MAX);
	AUTO_CLOSE int dir = volume_open_path(root, m->path, O_RDONLY | O_DIRECTORY),
		       fd = -1;
	int r = dir < 0 ? dir
			: volume_scan(dir,
				      m->max < VOLUME_LIST_MAX ? m->max : VOLUME_LIST_MAX,
				      &out);

	if (r == 0) {
		fd = memfd_create("warren-list", MFD_CLOEXEC);
		r = fd < 0 ? -errno : fd_write_all(fd, out.data, out.len);
	}
	if (r < 0)
		return volume_path_fail(m, -r, "list", err);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* --------------------------------------------------------------------- files */

static int volume_read_file(int root, const struct warden_proto_volume *m, int *ret_fd,
			    struct warren_error *err)
{
	AUTO_CLOSE int fd = volume_open_path(root, m->path, O_RDONLY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return volume_path_fail(m, fd < 0 ? -fd : errno, "read", err);
	if (S_ISDIR(st.st_mode))
		return volume_path_fail(m, EISDIR, "read", err);
	if (!S_ISREG(st.st_mode))
		return volume_path_fail(m, ENXIO, "read", err);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* A file that replaces another one gets the owner and mode of the other one. */
static int volume_write_file(int root, const struct warden_proto_volume *m, int *ret_fd,
			     struct warren_error *err)
{
	struct volume_place p = { .dir = -1 };
	AUTO_CLOSE int fd = -1;
	struct stat st;
	bool replaces;
	int r = volume_find_place(root, m, m->flags & WIRE_VOLUME_PARENTS, &p, err);

	if (r < 0)
		return r;
	replaces = fstatat(p.dir, p.name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (replaces && S_ISDIR(st.st_mode))
		r = volume_path_fail(m, EISDIR, "write", err);
	replaces = replaces && S_ISREG(st.st_mode);
	if (r == 0) {
		fd = openat(p.dir, m->name,
			    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 || (replaces && fchown(fd, st.st_uid, st.st_gid) < 0) ||
		    fchmod(fd, replaces ? st.st_mode & 0777 : m->mode & 0777) < 0)
			r = volume_path_fail(m, errno, "write", err);
		if (r < 0 && fd >= 0)
			(void)unlinkat(p.dir, m->name, 0);
	}
	volume_place_done(&p);
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

static int volume_rename(int root, const struct warden_proto_volume *m, struct buf *reply,
			 struct warren_error *err)
{
	struct volume_place p = { .dir = -1 };
	int r = volume_find_place(root, m, false, &p, err);

	if (r < 0)
		return r;
	if (renameat(p.dir, m->name, p.dir, p.name) < 0)
		r = -errno;
	if (r == 0)
		r = volume_stat_at(p.dir, p.name, "", reply);
	if (r < 0)
		(void)unlinkat(p.dir, m->name, 0);
	volume_place_done(&p);
	return r < 0 ? volume_path_fail(m, -r, "write", err) : 0;
}

/* Because of VOLUME_RESOLVE, links lead only into the volume. */
static int volume_symlink(int root, const struct warden_proto_volume *m,
			  struct buf *reply, struct warren_error *err)
{
	struct volume_place p = { .dir = -1 };
	int r = volume_find_place(root, m, m->flags & WIRE_VOLUME_PARENTS, &p, err);

	if (r < 0)
		return r;
	if (symlinkat(m->link, p.dir, m->name) < 0)
		r = -errno;
	volume_place_done(&p);
	return r < 0 ? volume_path_fail(m, -r, "create the link", err)
		     : volume_rename(root, m, reply, err);
}

static int volume_drop(int root, const struct warden_proto_volume *m,
		       struct warren_error *err)
{
	struct volume_place p = { .dir = -1 };
	int r = volume_find_place(root, m, false, &p, err);

	if (r == 0 && unlinkat(p.dir, m->name, 0) < 0 && errno != ENOENT)
		r = volume_path_fail(m, errno, "remove a temporary file next to", err);
	volume_place_done(&p);
	return r;
}

/* --------------------------------------------------------------- directories */

static int volume_mkdir(int root, const struct warden_proto_volume *m, struct buf *reply,
			struct warren_error *err)
{
	struct volume_place p = { .dir = -1 };
	mode_t mode = m->mode & 0777;
	bool parents = m->flags & WIRE_VOLUME_PARENTS;
	int r = volume_find_place(root, m, parents, &p, err);

	if (r < 0)
		return r;
	if (mkdirat(p.dir, p.name, mode) < 0) {
		struct stat st;

		r = -errno;
		if (r == -EEXIST && parents && fstatat(p.dir, p.name, &st, 0) == 0 &&
		    S_ISDIR(st.st_mode))
			r = 0;
	}
	if (r == 0)
		r = volume_stat_at(p.dir, p.name, "", reply);
	volume_place_done(&p);
	return r < 0 ? volume_path_fail(m, -r, "create the directory", err) : 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as VOLUME_DEPTH_MAX */
static int volume_remove_tree(int dir, const char *name, unsigned depth)
{
	int fd, r = 0;
	struct dirent *e;
	DIR *d;

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return -errno;
	if (depth == VOLUME_DEPTH_MAX)
		return -ELOOP;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		return -errno;
	while (r == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = volume_remove_tree(fd, e->d_name, depth + 1);
	(void)closedir(d);
	if (r == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = -errno;
	return r;
}

static int volume_remove(int root, const struct warden_proto_volume *m,
			 struct warren_error *err)
{
	struct volume_place p = { .dir = -1 };
	struct stat st;
	int r = volume_find_place(root, m, false, &p, err);

	if (r < 0)
		return r;
	if (fstatat(p.dir, p.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	else if (m->flags & WIRE_VOLUME_RECURSIVE)
		r = volume_remove_tree(p.dir, p.name, 0);
	else if (unlinkat(p.dir, p.name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0)
		r = -errno;
	volume_place_done(&p);
	return r < 0 ? volume_path_fail(m, -r, "remove", err) : 0;
}

int volume_files(int root, const struct warden_proto_volume *m, struct buf *reply,
		 int *ret_fd, struct warren_error *err)
{
	switch (m->verb) {
	case WIRE_VOLUME_STAT:
		return volume_stat(root, m, reply, err);
	case WIRE_VOLUME_LIST:
		return volume_list_dir(root, m, ret_fd, err);
	case WIRE_VOLUME_READ:
		return volume_read_file(root, m, ret_fd, err);
	case WIRE_VOLUME_WRITE:
		return volume_write_file(root, m, ret_fd, err);
	case WIRE_VOLUME_RENAME:
		return volume_rename(root, m, reply, err);
	case WIRE_VOLUME_DROP:
		return volume_drop(root, m, err);
	case WIRE_VOLUME_MKDIR:
		return volume_mkdir(root, m, reply, err);
	case WIRE_VOLUME_SYMLINK:
		return volume_symlink(root, m, reply, err);
	case WIRE_VOLUME_REMOVE:
		return volume_remove(root, m, err);
	default:
		return error_set(err, EPROTO, "there is no such request");
	}
}
