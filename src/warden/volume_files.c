/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_files.c - files of a volume, without a sandbox
 *
 * Sandboxes may change the filesystem at the same time, so each path is resolved in one
 * step and below the root (RESOLVE_IN_ROOT): neither a link nor "..", nor a directory
 * that is moved, leads out of the volume. Only descriptors of regular files are passed
 * on.
 *
 * A file is written without a name, so nothing is left of one that is never complete, and
 * then gets its name. A link at the end of a path is replaced, not followed.
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

struct volume_handle {
	struct file_handle is;
	unsigned char bytes[WIRE_VOLUME_HANDLE_MAX];
};

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
			   const struct warden_proto_volume *m)
{
	char prefix[4096];
	int fd;

	(void)memcpy(prefix, path, n);
	prefix[n] = '\0';
	fd = volume_open_path(root, prefix, O_PATH | O_DIRECTORY);
	if (fd != -ENOENT)
		return fd;
	if (mkdirat(at, prefix + from, 0755) < 0)
		return errno == EEXIST
			       ? volume_open_path(root, prefix, O_PATH | O_DIRECTORY)
			       : -errno;
	/* Not by its name, which may mean another directory in the meantime. */
	fd = openat(at, prefix + from, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fchownat(fd, "", m->uid, m->gid, AT_EMPTY_PATH) < 0) {
		int r = -errno;

		(void)close(fd);
		return r;
	}
	return fd;
}

/* Open the directory @path; create missing directories, with the owner in @m. */
static int volume_make_dirs(int root, const char *path,
			    const struct warden_proto_volume *m)
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
			fd = volume_make_dir(root, at, path, i, from, m);
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
	ret->dir = parents ? volume_make_dirs(root, dir, m)
			   : volume_open_path(root, dir, O_PATH | O_DIRECTORY);
	return ret->dir < 0 ? volume_path_fail(m, -ret->dir, "find", err) : 0;
}

static void volume_place_done(struct volume_place *p)
{
	if (p->dir >= 0)
		(void)close(p->dir);
}

/* ------------------------------------------------------------------- entries */

/* Where entries are put. */
struct volume_entries {
	struct buf *out;
	size_t left;   /* how many more are allowed */
	unsigned deep; /* levels of directories below the first one */
	bool more;     /* each is followed by a struct warden_proto_volume_more */
};

static void volume_put_entry(struct volume_entries *to, const char *name,
			     const struct stat *st, const char *link, unsigned depth)
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
	const struct warden_proto_volume_more more = {
		.atime_sec = st->st_atim.tv_sec,
		.ctime_sec = st->st_ctim.tv_sec,
		.atime_nsec = (uint32_t)st->st_atim.tv_nsec,
		.ctime_nsec = (uint32_t)st->st_ctim.tv_nsec,
		.depth = depth,
	};
	size_t whole = sizeof(e) + e.name_size + 1U + e.link_size + 1U;
	struct buf *out = to->out;

	buf_add(out, &e, sizeof(e));
	buf_add(out, name, e.name_size + 1U);
	buf_add(out, link, e.link_size + 1U);
	buf_add(out, zeros, -whole & 7);
	if (to->more)
		buf_add(out, &more, sizeof(more));
}

/*
 * Describe the entry @name of @dir ("": @dir itself), which may disappear: -ENOENT. 1: it
 * is a directory.
 */
static int volume_stat_at(int dir, const char *name, const char *as, unsigned depth,
			  struct volume_entries *to)
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
	volume_put_entry(to, as, &st, link, depth);
	return S_ISDIR(st.st_mode);
}

/* Reply with the entry @name of @dir. */
static int volume_reply_entry(int dir, const char *name,
			      const struct warden_proto_volume *m, struct buf *reply)
{
	struct volume_entries to = { .out = reply, .more = m->flags & WIRE_VOLUME_MORE };
	int r = volume_stat_at(dir, name, "", 0, &to);

	return r < 0 ? r : 0;
}

static int volume_stat(int root, const struct warden_proto_volume *m, struct buf *reply,
		       struct warren_error *err)
{
	AUTO_CLOSE int fd = volume_open_path(
		root, m->path, O_PATH | (m->flags & WIRE_VOLUME_FOLLOW ? 0 : O_NOFOLLOW));
	int r = fd < 0 ? fd : volume_reply_entry(fd, "", m, reply);

	return r < 0 ? volume_path_fail(m, -r, "inspect", err) : 0;
}

/*
 * The first @max names of a directory, in their order. A directory may have more names
 * than fit into memory, so only twice as many are kept at a time.
 */
struct volume_names {
	char **all;
	size_t n, room, max;
	bool cut; /* there are more */
};

static int volume_compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void volume_names_sort(struct volume_names *v)
{
	if (!v->all)
		return;
	qsort(v->all, v->n, sizeof(*v->all), volume_compare_names);
	while (v->n > v->max) {
		v->cut = true;
		free(v->all[--v->n]);
	}
}

static int volume_names_add(struct volume_names *v, const char *name)
{
	char *copy;

	if (v->n == 2 * v->max + 64)
		volume_names_sort(v);
	if (v->n == v->room) {
		size_t room = v->room ? 2 * v->room : 64;
		char **all = reallocarray(v->all, room, sizeof(*all));

		if (!all)
			return -ENOMEM;
		v->all = all;
		v->room = room;
	}
	copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	v->all[v->n++] = copy;
	return 0;
}

static void volume_names_done(struct volume_names *v)
{
	while (v->n > 0)
		free(v->all[--v->n]);
	free(v->all);
}

static int volume_names_read(struct volume_names *v, int dir)
{
	int fd = fcntl(dir, F_DUPFD_CLOEXEC, 0), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d) {
		r = -errno;
		if (fd >= 0)
			(void)close(fd);
		return r;
	}
	while (r == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = volume_names_add(v, e->d_name);
	(void)closedir(d);
	volume_names_sort(v);
	return r;
}

static int volume_scan(int dir, unsigned depth, struct volume_entries *to);

/* Describe the entry @name, and what is below it if it is a directory. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as WIRE_VOLUME_DEPTH_MAX */
static int volume_scan_one(int dir, const char *name, unsigned depth,
			   struct volume_entries *to)
{
	AUTO_CLOSE int fd = -1;
	int r = volume_stat_at(dir, name, name, depth, to);

	if (r == 1 && depth < to->deep) {
		fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = fd < 0 ? -errno : volume_scan(fd, depth + 1, to);
	}
	/* A sandbox may have removed or replaced it in the meantime. */
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == 1 ? 0 : r;
}

/*
 * Sorted by name, so that a client that lists again finds the same order. The names of a
 * directory are counted before the first one is used, so that those of all levels
 * together do not exceed the maximum.
 */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as WIRE_VOLUME_DEPTH_MAX */
static int volume_scan(int dir, unsigned depth, struct volume_entries *to)
{
	CLEANUP(volume_names_done) struct volume_names names = { .max = to->left };
	int r = volume_names_read(&names, dir);

	if (!names.all) /* there is no name */
		return r;
	if (r == 0 && names.cut && to->deep > 0)
		r = -E2BIG;
	to->left -= names.n;
	for (size_t i = 0; r == 0 && i < names.n; i++)
		r = volume_scan_one(dir, names.all[i], depth, to);
	return r < 0 ? r : to->out->failed ? -ENOMEM : 0;
}

static int volume_list_dir(int root, const struct warden_proto_volume *m, int *ret_fd,
			   struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(VOLUME_ENTRIES_MAX);
	AUTO_CLOSE int dir = volume_open_path(root, m->path, O_RDONLY | O_DIRECTORY),
		       fd = -1;
	struct volume_entries to = {
		.out = &out,
		.left = m->max < VOLUME_LIST_MAX ? m->max : VOLUME_LIST_MAX,
		.deep = m->depth,
		.more = m->flags & WIRE_VOLUME_MORE,
	};
	int r = dir < 0 ? dir : volume_scan(dir, 0, &to);

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

/* Set the owner and the mode of the new file @fd. */
static int volume_set_new(int fd, uid_t uid, gid_t gid, mode_t mode)
{
	return fchown(fd, uid, gid) < 0 || fchmod(fd, mode & 07777) < 0 ? -errno : 0;
}

/* Set what the request contains; the rest is as that of @st, which the file replaces. */
static int volume_set_like(int fd, const struct stat *st,
			   const struct warden_proto_volume *m)
{
	return volume_set_new(fd, m->flags & WIRE_VOLUME_SET_UID ? m->uid : st->st_uid,
			      m->flags & WIRE_VOLUME_SET_GID ? m->gid : st->st_gid,
			      m->flags & WIRE_VOLUME_SET_MODE ? m->mode
							      : st->st_mode & 0777);
}

/* The owner comes first: its change clears bits of the mode. */
static int volume_set(int fd, const struct warden_proto_volume *m)
{
	uid_t uid = m->flags & WIRE_VOLUME_SET_UID ? m->uid : (uid_t)-1;
	gid_t gid = m->flags & WIRE_VOLUME_SET_GID ? m->gid : (gid_t)-1;

	if (m->flags & (WIRE_VOLUME_SET_UID | WIRE_VOLUME_SET_GID) &&
	    fchown(fd, uid, gid) < 0)
		return -errno;
	return m->flags & WIRE_VOLUME_SET_MODE && fchmod(fd, m->mode & 07777) < 0 ? -errno
										  : 0;
}

static int volume_change_file(int root, const struct warden_proto_volume *m,
			      struct buf *reply, struct warren_error *err)
{
	AUTO_CLOSE int fd = volume_open_path(root, m->path, O_RDONLY);
	struct stat st;
	int r = fd < 0 ? fd : fstat(fd, &st) < 0 ? -errno : 0;

	if (r == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		r = -ENXIO;
	if (r == 0)
		r = volume_set(fd, m);
	if (r == 0)
		r = volume_reply_entry(fd, "", m, reply);
	return r < 0 ? volume_path_fail(m, -r, "change", err) : 0;
}

/* A file without a name disappears when the api closes it, even if the api is killed. */
static int volume_new_file(const struct volume_place *p, const struct stat *like,
			   const struct warden_proto_volume *m, struct buf *reply)
{
	AUTO_CLOSE int fd = openat(p->dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	struct warden_proto_volume_new new = { 0 };
	struct volume_handle h;
	int r, ignored;

	if (fd < 0)
		return -errno;
	r = like ? volume_set_like(fd, like, m)
		 : volume_set_new(fd, m->uid, m->gid, m->mode);
	if (r < 0)
		return r;
	h.is.handle_bytes = sizeof(h.bytes);
	if (name_to_handle_at(fd, "", &h.is, &ignored, AT_EMPTY_PATH) < 0)
		return -errno;
	new.type = h.is.handle_type;
	new.size = h.is.handle_bytes;
	(void)memcpy(new.bytes, h.bytes, sizeof(new.bytes));
	buf_add(reply, &new, sizeof(new));
	return TAKE_FD(fd);
}

/*
 * A file that replaces another one gets the owner and mode of the other one, except what
 * the request sets.
 */
static int volume_write_file(int root, const struct warden_proto_volume *m,
			     struct buf *reply, int *ret_fd, struct warren_error *err)
{
	struct volume_place p = { .dir = -1 };
	struct stat st;
	bool replaces;
	int r = volume_find_place(root, m, m->flags & WIRE_VOLUME_PARENTS, &p, err);

	if (r < 0)
		return r;
	replaces = fstatat(p.dir, p.name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	r = replaces && S_ISDIR(st.st_mode)
		    ? -EISDIR
		    : volume_new_file(&p, replaces && S_ISREG(st.st_mode) ? &st : NULL, m,
				      reply);
	volume_place_done(&p);
	if (r < 0)
		return volume_path_fail(m, -r, "write", err);
	*ret_fd = r;
	return 0;
}

/* Open the file again that volume_new_file() has described; it has no name yet. */
static int volume_open_new(int root, const struct warden_proto_volume_new *new)
{
	AUTO_CLOSE int dir = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE int fd = -1;
	struct volume_handle h;
	struct stat st;

	if (dir < 0)
		return -errno;
	if (new->size > sizeof(new->bytes))
		return -EPROTO;
	h.is.handle_type = new->type;
	h.is.handle_bytes = new->size;
	(void)memcpy(h.bytes, new->bytes, sizeof(new->bytes));
	fd = open_by_handle_at(dir, &h.is, O_PATH | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) && st.st_nlink == 0 ? TAKE_FD(fd) : -ESTALE;
}

/* Create the link @link, or otherwise give the file @fd a name. */
static int volume_name(int dir, const char *name, const char *link, int fd)
{
	int r = link ? symlinkat(link, dir, name)
		     : linkat(fd, "", dir, name, AT_EMPTY_PATH);

	return r < 0 ? -errno : 0;
}

/* The same, and replace what has the name, but not a directory. */
static int volume_replace(const struct volume_place *p, const char *temp,
			  const char *link, int fd)
{
	int r = volume_name(p->dir, p->name, link, fd);

	if (r != -EEXIST)
		return r;
	r = volume_name(p->dir, temp, link, fd);
	if (r == 0 && renameat(p->dir, temp, p->dir, p->name) < 0) {
		r = -errno;
		(void)unlinkat(p->dir, temp, 0);
	}
	return r;
}

static int volume_place_file(int root, const struct warden_proto_volume *m,
			     struct buf *reply, struct warren_error *err)
{
	AUTO_CLOSE int fd = volume_open_new(root, &m->new);
	struct volume_place p = { .dir = -1 };
	int r = fd < 0 ? volume_path_fail(m, -fd, "write", err)
		       : volume_find_place(root, m, false, &p, err);

	if (r < 0)
		return r;
	r = volume_replace(&p, m->name, NULL, fd);
	if (r == 0)
		r = volume_reply_entry(p.dir, p.name, m, reply);
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
	r = volume_replace(&p, m->name, m->link, -1);
	if (r == 0)
		r = volume_reply_entry(p.dir, p.name, m, reply);
	volume_place_done(&p);
	return r < 0 ? volume_path_fail(m, -r, "create the link", err) : 0;
}

/* --------------------------------------------------------------- directories */

/* Give the new directory @name its owner and mode. */
static int volume_own_dir(int dir, const char *name, const struct warden_proto_volume *m)
{
	AUTO_CLOSE int fd =
		openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : volume_set_new(fd, m->uid, m->gid, m->mode);
}

static int volume_mkdir(int root, const struct warden_proto_volume *m, struct buf *reply,
			struct warren_error *err)
{
	struct volume_place p = { .dir = -1 };
	bool parents = m->flags & WIRE_VOLUME_PARENTS;
	int r = volume_find_place(root, m, parents, &p, err);

	if (r < 0)
		return r;
	if (mkdirat(p.dir, p.name, 0700) == 0) {
		r = volume_own_dir(p.dir, p.name, m);
	} else {
		AUTO_CLOSE int fd = -1;

		r = -errno;
		/* A link to a directory of the volume is good enough, any other is not.
		 */
		if (r == -EEXIST && parents)
			fd = volume_open_path(root, m->path, O_PATH | O_DIRECTORY);
		if (fd >= 0)
			r = 0;
	}
	if (r == 0)
		r = volume_reply_entry(p.dir, p.name, m, reply);
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
		return volume_write_file(root, m, reply, ret_fd, err);
	case WIRE_VOLUME_PLACE:
		return volume_place_file(root, m, reply, err);
	case WIRE_VOLUME_MKDIR:
		return volume_mkdir(root, m, reply, err);
	case WIRE_VOLUME_SYMLINK:
		return volume_symlink(root, m, reply, err);
	case WIRE_VOLUME_CHANGE:
		return volume_change_file(root, m, reply, err);
	case WIRE_VOLUME_REMOVE:
		return volume_remove(root, m, err);
	default:
		return error_set(err, EPROTO, "there is no such request");
	}
}
