/* SPDX-License-Identifier: Apache-2.0 */
/* layer_add.c - write files into a new layer on top of an image */
#include "image/layer_add.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "image/unpack_internal.h"

#define ADD_BLOCK     (256U << 10)
#define ADD_XATTR_MAX 65536

struct layer_late {
	char *path;
	mode_t mode;
	struct timespec mtime;
	bool has_time;
};

/* The attributes of a new file. */
struct layer_meta {
	uid_t uid;
	gid_t gid;
	mode_t mode;
	struct timespec mtime;
	bool has_time;
};

int layer_add_init(struct layer_add *a, const struct store *s,
		   const struct store_image *image, int dir, struct warren_error *err)
{
	static char *none[] = { NULL };
	const struct store_image empty = { .layers = none };

	*a = (struct layer_add){ .dir = dir, .own_ids = unpack_own_ids(), .mode = -1 };
	return view_open(s, image ? image : &empty, dir, &a->view, err);
}

void layer_add_done(struct layer_add *a)
{
	for (size_t i = 0; i < a->n_late; i++)
		free(a->late[i].path);
	free(a->late);
	view_close(&a->view);
	*a = (struct layer_add){ .dir = -1 };
}

static int layer_later(struct layer_add *a, const char *path, const struct layer_meta *m)
{
	if (a->n_late == a->late_cap) {
		size_t cap = a->late_cap ? a->late_cap * 2 : 64;
		void *grown = reallocarray(a->late, cap, sizeof(*a->late));

		if (!grown)
			return -ENOMEM;
		a->late = grown;
		a->late_cap = cap;
	}
	a->late[a->n_late] =
		(struct layer_late){ strdup(path), m->mode, m->mtime, m->has_time };
	return a->late[a->n_late++].path ? 0 : -ENOMEM;
}

/* Open a directory of the layer, which has no links on the way. */
static int layer_open_dir(const struct layer_add *a, const char *path)
{
	return view_open_in(&a->view, 0, path);
}

/*
 * In reverse order, because a directory may no longer be accessible once its mode is set.
 */
int layer_add_finish(struct layer_add *a, struct warren_error *err)
{
	for (size_t i = a->n_late; i-- > 0;) {
		const struct layer_late *l = &a->late[i];
		const struct timespec times[2] = { l->mtime, l->mtime };
		AUTO_CLOSE int fd = layer_open_dir(a, l->path);
		int r = fd < 0 ? fd : 0;

		if (r == 0 && fchmod(fd, l->mode) < 0)
			r = -errno;
		if (r == 0 && l->has_time && futimens(fd, times) < 0)
			r = -errno;
		if (r < 0)
			return error_errno(err, -r, "set the attributes of '/%s'",
					   l->path);
	}
	return 0;
}

/* ------------------------------------------------------------- directories */

/* Without the owner, the set-id bits would be those of another user. */
static mode_t layer_mode(const struct layer_add *a, mode_t mode)
{
	return mode & (a->own_ids ? 07777 : 01777);
}

static struct layer_meta layer_meta_of(const struct layer_add *a, const struct stat *st)
{
	return (struct layer_meta){ .uid = st->st_uid,
				    .gid = st->st_gid,
				    .mode = layer_mode(a, st->st_mode),
				    .mtime = st->st_mtim,
				    .has_time = true };
}

/* Attributes of a new parent directory. */
static struct layer_meta layer_meta_new(const struct layer_add *a, mode_t mode)
{
	return (struct layer_meta){ .uid = a->keep_ids ? 0 : a->uid,
				    .gid = a->keep_ids ? 0 : a->gid,
				    .mode = mode };
}

/* Attributes that an image can have (unpack.h). */
static bool layer_keeps_xattr(const struct layer_add *a, const char *name)
{
	return (strncmp(name, "user.", 5) == 0 &&
		strncmp(name, "user.overlay.", 13) != 0) ||
	       (a->own_ids && strcmp(name, "security.capability") == 0);
}

/* Attributes that cannot be read or set are not an error: the source may have none. */
static int layer_copy_xattrs(const struct layer_add *a, int from, int to)
{
	char names[ADD_XATTR_MAX];
	ssize_t n = flistxattr(from, names, sizeof(names));

	for (const char *p = names; n > 0 && p < names + n; p += strlen(p) + 1) {
		AUTO_FREE char *value = NULL;
		ssize_t size;

		if (!layer_keeps_xattr(a, p))
			continue;
		size = fgetxattr(from, p, NULL, 0);
		value = size > 0 ? malloc((size_t)size) : NULL;
		if (size > 0 && value)
			size = fgetxattr(from, p, value, (size_t)size);
		if (size >= 0 &&
		    fsetxattr(to, p, value ? value : "", (size_t)size, 0) < 0)
			return -errno;
	}
	return 0;
}

/* Create the directory @base in @at, whose whole path is @path. */
static int layer_make_dir(struct layer_add *a, int at, const char *base, const char *path,
			  const struct layer_meta *m)
{
	if (mkdirat(at, base, 0700) < 0)
		return -errno;
	a->made++;
	if (a->own_ids && fchownat(at, base, m->uid, m->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return layer_later(a, path, m);
}

/* The image has this directory: create it with the same attributes. */
static int layer_copy_up(struct layer_add *a, int at, const char *base, const char *path,
			 const struct stat *st, size_t layer)
{
	struct layer_meta m = layer_meta_of(a, st);
	AUTO_CLOSE int from = view_open_in(&a->view, layer, path);
	AUTO_CLOSE int to = -1;
	int r;

	if (from < 0)
		return from;
	r = layer_make_dir(a, at, base, path, &m);
	if (r < 0)
		return r;
	to = openat(at, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return to < 0 ? -errno : layer_copy_xattrs(a, from, to);
}

/*
 * Open the directory @path in the layer, and create it and its parents: like those of the
 * image, or new ones with mode @mode. @path has no links.
 */
static int layer_enter(struct layer_add *a, const char *path, mode_t mode)
{
	AUTO_CLOSE int at = openat(a->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char part[PATH_MAX];
	size_t end = 0;

	if (at < 0)
		return -errno;
	if (strlen(path) >= sizeof(part))
		return -ENAMETOOLONG;
	while (path[end]) {
		const char *base = path + end + (path[end] == '/');
		size_t n = strcspn(base, "/"), layer;
		const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
		struct stat st;
		int fd, r;

		end = (size_t)(base - path) + n;
		(void)snprintf(part, sizeof(part), "%.*s", (int)end, path);
		base = part + end - n;
		r = view_stat(&a->view, part, &st, &layer);
		if (r == 0 && !S_ISDIR(st.st_mode))
			return -ENOTDIR;
		if (r == -ENOENT) {
			struct layer_meta m = layer_meta_new(a, mode);

			r = layer_make_dir(a, at, base, part, &m);
		} else if (r == 0 && layer > 0) {
			r = layer_copy_up(a, at, base, part, &st, layer);
		}
		if (r < 0)
			return r;
		fd = openat(at, base, flags);
		if (fd < 0)
			return -errno;
		(void)close(at);
		at = fd;
	}
	return TAKE_FD(at);
}

int layer_add_resolve(const struct layer_add *a, const char *path, char **ret,
		      struct warren_error *err)
{
	AUTO_FREE char *resolved = NULL;
	struct stat st;
	int r = view_resolve(&a->view, path, true, &resolved);

	if (r < 0)
		return error_errno(err, -r, "find '%s' in the image", path);
	r = view_stat(&a->view, resolved, &st, NULL);
	*ret = TAKE_PTR(resolved);
	return r == 0 && S_ISDIR(st.st_mode);
}

int layer_add_dirs(struct layer_add *a, const char *path, struct warren_error *err)
{
	AUTO_FREE char *resolved = NULL;
	AUTO_CLOSE int fd = -1;
	int r = layer_add_resolve(a, path, &resolved, err);

	if (r != 0)
		return r < 0 ? r : 0;
	fd = layer_enter(a, resolved, 0755);
	return fd < 0 ? error_errno(err, -fd, "create the directory '%s'", path) : 0;
}

/* ------------------------------------------------------------------- files */

static int layer_copy_range(int from, int to, off_t start, off_t end, char *block,
			    bool (*cancelled)(void))
{
	while (start < end) {
		size_t want = end - start < (off_t)ADD_BLOCK ? (size_t)(end - start)
							     : ADD_BLOCK;
		ssize_t n = pread(from, block, want, start);

		if (cancelled && cancelled())
			return -ECANCELED;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		for (ssize_t done = 0; done < n;) {
			ssize_t w = pwrite(to, block + done, (size_t)(n - done),
					   start + done);

			if (w < 0 && errno != EINTR)
				return -errno;
			done += w > 0 ? w : 0;
		}
		start += n;
	}
	return 0;
}

/* Holes stay holes. */
static int layer_copy_data(int from, int to, bool (*cancelled)(void))
{
	AUTO_FREE char *block = malloc(ADD_BLOCK);
	off_t at = 0, hole;
	struct stat st;
	int r = 0;

	if (!block)
		return -ENOMEM;
	if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
		return -errno;
	while (r == 0 && at < st.st_size) {
		at = lseek(from, at, SEEK_DATA);
		if (at < 0)
			return errno == ENXIO ? 0 : -errno;
		hole = lseek(from, at, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		r = layer_copy_range(from, to, at, hole, block, cancelled);
		at = hole;
	}
	return r;
}

/* The destination of a file of the list. */
struct layer_target {
	int dir; /* owned */
	char *path;
	const char *base;
};

static void layer_target_done(struct layer_target *t)
{
	close_p(&t->dir);
	free(t->path);
}

/* A new file replaces an old one, but not a directory. */
static int layer_target_open(struct layer_add *a, const char *path,
			     struct layer_target *ret)
{
	AUTO_FREE char *parent = strdup(path);
	char *slash = parent ? strrchr(parent, '/') : NULL;
	struct stat st;
	int r;

	*ret = (struct layer_target){ .dir = -1, .path = strdup(path) };
	if (!parent || !ret->path)
		return -ENOMEM;
	*(slash ? slash : parent) = '\0';
	ret->base = slash ? ret->path + (slash - parent) + 1 : ret->path;
	if (!*ret->base)
		return -EISDIR;
	ret->dir = layer_enter(a, parent, 0755);
	if (ret->dir < 0)
		return ret->dir;
	r = view_stat(&a->view, path, &st, NULL);
	if (r == -ENOENT)
		return 0;
	if (r < 0 || S_ISDIR(st.st_mode))
		return r < 0 ? r : -EISDIR;
	return unlinkat(ret->dir, ret->base, 0) < 0 && errno != ENOENT ? -errno : 0;
}

static struct layer_meta layer_entry_meta(const struct layer_add *a,
					  const struct copy_entry *e)
{
	struct layer_meta m = layer_meta_of(a, &e->st);

	if (!a->keep_ids) {
		m.uid = a->uid;
		m.gid = a->gid;
	}
	if (a->mode >= 0)
		m.mode = layer_mode(a, (mode_t)a->mode);
	return m;
}

static int layer_apply(const struct layer_add *a, int fd, const struct layer_meta *m)
{
	const struct timespec times[2] = { m->mtime, m->mtime };

	if (a->own_ids && fchown(fd, m->uid, m->gid) < 0)
		return -errno;
	if (fchmod(fd, m->mode) < 0)
		return -errno;
	return m->has_time && futimens(fd, times) < 0 ? -errno : 0;
}

static int layer_add_regular(struct layer_add *a, const struct copy_list *list,
			     const struct copy_entry *e, const struct layer_target *t)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	struct layer_meta m = layer_entry_meta(a, e);
	AUTO_CLOSE int from = view_open_in(list->from, e->layer, e->path);
	AUTO_CLOSE int to = -1;
	int r;

	if (from < 0)
		return from;
	to = openat(t->dir, t->base, flags, 0600);
	if (to < 0)
		return -errno;
	r = layer_copy_data(from, to, list->cancelled);
	if (r == 0)
		r = layer_apply(a, to, &m);
	/* Set these after the owner, because changing the owner removes capabilities. */
	if (r == 0)
		r = layer_copy_xattrs(a, from, to);
	return r;
}

/* Links and pipes, which cannot be opened. */
static int layer_add_special(struct layer_add *a, const struct copy_list *list,
			     const struct copy_entry *e, const struct layer_target *t)
{
	struct layer_meta m = layer_entry_meta(a, e);
	const struct timespec times[2] = { m.mtime, m.mtime };
	AUTO_FREE char *to = NULL;
	int r = 0;

	if (S_ISLNK(e->st.st_mode))
		r = view_readlink(list->from, e->layer, e->path, &to);
	if (r < 0)
		return r;
	if (to ? symlinkat(to, t->dir, t->base) < 0
	       : mkfifoat(t->dir, t->base, m.mode) < 0)
		return -errno;
	if (a->own_ids &&
	    fchownat(t->dir, t->base, m.uid, m.gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!to && fchmodat(t->dir, t->base, m.mode, 0) < 0)
		return -errno;
	return utimensat(t->dir, t->base, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* A directory: one that exists keeps its attributes. */
static int layer_add_dir(struct layer_add *a, const struct copy_list *list,
			 const struct copy_entry *e, const char *path)
{
	AUTO_CLOSE int from = -1;
	AUTO_CLOSE int to = -1;
	struct layer_meta m;
	struct stat st;
	bool fresh = view_stat(&a->view, path, &st, NULL) == -ENOENT;

	to = layer_enter(a, path, 0755);
	if (to < 0)
		return to;
	/* The destination itself is a new directory, not a copy. */
	if (!fresh || !*e->to)
		return 0;
	m = layer_entry_meta(a, e);
	a->late[a->n_late - 1].mode = m.mode;
	a->late[a->n_late - 1].mtime = m.mtime;
	a->late[a->n_late - 1].has_time = true;
	if (a->own_ids && fchown(to, m.uid, m.gid) < 0)
		return -errno;
	from = view_open_in(list->from, e->layer, e->path);
	return from < 0 ? from : layer_copy_xattrs(a, from, to);
}

static int layer_add_entry(struct layer_add *a, const struct copy_list *list,
			   const struct copy_entry *e, const char *path)
{
	CLEANUP(layer_target_done) struct layer_target t = { .dir = -1 };
	int r;

	if (S_ISDIR(e->st.st_mode))
		return layer_add_dir(a, list, e, path);
	r = layer_target_open(a, path, &t);
	if (r < 0)
		return r;
	a->made++;
	return S_ISREG(e->st.st_mode) ? layer_add_regular(a, list, e, &t)
				      : layer_add_special(a, list, e, &t);
}

int layer_add_list(struct layer_add *a, const struct copy_list *list, const char *dest,
		   struct warren_error *err)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct copy_entry *e = &list->v[i];
		AUTO_FREE char *path = NULL;
		int r;

		if (list->cancelled && list->cancelled())
			return error_set(err, ECANCELED, "cancelled");
		if (asprintf(&path, "%s%s%s", dest, *dest && *e->to ? "/" : "", e->to) <
		    0) {
			path = NULL;
			return error_errno(err, ENOMEM, "copy files");
		}
		r = layer_add_entry(a, list, e, path);
		if (r == -EISDIR)
			return error_set(err, EISDIR,
					 "'/%.200s' is a directory in the image, and a "
					 "file in the source",
					 path);
		if (r == -ENOTDIR)
			return error_set(err, ENOTDIR,
					 "'/%.200s' is not a directory in the image",
					 path);
		if (r == -ECANCELED)
			return error_set(err, ECANCELED, "cancelled");
		if (r < 0)
			return error_errno(err, -r, "copy '%s' to '/%s'", e->path, path);
	}
	return 0;
}

int layer_add_file(struct layer_add *a, const char *path, const char *data, size_t n,
		   struct warren_error *err)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	struct layer_meta m =
		layer_meta_new(a, a->mode >= 0 ? layer_mode(a, (mode_t)a->mode) : 0644);
	CLEANUP(layer_target_done) struct layer_target t = { .dir = -1 };
	AUTO_CLOSE int fd = -1;
	int r = layer_target_open(a, path, &t);

	if (r == 0) {
		fd = openat(t.dir, t.base, flags, 0600);
		r = fd < 0 ? -errno : fd_write_all(fd, data, n);
	}
	if (r == 0)
		r = layer_apply(a, fd, &m);
	a->made++;
	return r < 0 ? error_errno(err, -r, "write '/%s'", path) : 0;
}
