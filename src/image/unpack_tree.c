/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack_tree.c - create the entries of an archive, and nothing else, below one directory
 *
 * The kernel resolves names below the root, without links (openat2(2)). If the path of a
 * name leads through links of the archive ("lib/x" after "lib -> usr/lib"), the name is
 * first replaced by one without links: each link is read here and replaced by its target,
 * as if this directory were "/", as in a chroot. So the name that is checked is the name
 * that is used, and no call follows a link. An entry never opens an existing file. The
 * existing file is removed and a new one is created, so that nothing is written through
 * another name of the same file, or through a link at that path.
 *
 * The untar process has CAP_DAC_OVERRIDE in the tree, so the mode of a directory can be
 * set immediately. Its time cannot; unpack_tree_settle() sets it at the end.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "image/unpack_internal.h"
#include "os/mount.h"

/* Maximum size of the names of directories whose time is not set yet. */
#define NAMES_MAX (256U << 20)
#define OPEN_DIR  (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
#define BENEATH   (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

/* A location in the tree: the directory that a name is in, and its last component. */
struct tree_location {
	int dir; /* belongs to the tree */
	const char *base;
};

int unpack_tree_init(struct unpack_tree *t, int root, const struct unpack_rules *rules)
{
	*t = (struct unpack_tree){ .dir = -1,
				   .own_ids = rules->own_ids,
				   .made_max = rules->entries_max };
	t->root = openat(root, ".", OPEN_DIR | O_CLOEXEC);
	return t->root < 0 ? -errno : 0;
}

static void forget_dir(struct unpack_tree *t)
{
	if (t->dir >= 0)
		(void)close(t->dir);
	t->dir = -1;
}

void unpack_tree_done(struct unpack_tree *t)
{
	forget_dir(t);
	if (t->root >= 0)
		(void)close(t->root);
	free(t->names);
	free(t->late);
}

/* ------------------------------------------------------------------ counting */

static int unpack_tree_refuse(struct warren_error *err, const char *name, const char *why)
{
	return error_set(err, EBADMSG, "the name '%.200s' %s", name, why);
}

/* Count one more entry. */
static int unpack_tree_count(struct unpack_tree *t, struct warren_error *err)
{
	if (++t->made > t->made_max)
		return error_set(err, EFBIG, "the archive has more than %ju files",
				 (uintmax_t)t->made_max);
	return 0;
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static int set_opaque(int dir, const char *name, struct warren_error *err)
{
	if (fsetxattr(dir, "user.overlay.opaque", "y", 1, 0) < 0)
		return error_errno(err, errno, "mark '%.200s' as opaque", name);
	return 0;
}

/* ------------------------------------------------------------------ removing */

/* Remove a file or an empty directory. Return -ENOTEMPTY if it is neither. */
static int unpack_tree_remove_one(int at, const char *name)
{
	if (unlinkat(at, name, 0) == 0)
		return 0;
	if (errno != EISDIR)
		return -errno;
	return unlinkat(at, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

/*
 * Remove everything in @at up to a directory that is not empty, which is opened as
 * *@ret_child. -1: @at is empty.
 */
static int empty_dir(int at, int *ret_child)
{
	int copy = openat(at, ".", OPEN_DIR | O_CLOEXEC), r = 0;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	*ret_child = -1;
	if (!d) {
		r = -errno;
		close_p(&copy);
		return r;
	}
	while (r == 0 && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		r = unpack_tree_remove_one(at, e->d_name);
		if (r == -ENOTEMPTY) {
			*ret_child = openat(at, e->d_name, OPEN_DIR | O_CLOEXEC);
			r = *ret_child < 0 ? -errno : 0;
			break;
		}
	}
	(void)closedir(d);
	return r;
}

/*
 * Remove a tree. Go down and up again with one descriptor, whatever the depth. ".." is
 * the parent, because no other process changes this tree.
 */
static int unpack_tree_remove(int dir, const char *name)
{
	int at = openat(dir, name, OPEN_DIR | O_CLOEXEC), r = at < 0 ? -errno : 0;
	size_t depth = 0;

	while (r == 0) {
		int next;

		r = empty_dir(at, &next);
		if (r < 0 || (next < 0 && depth == 0))
			break;
		if (next >= 0) {
			depth++;
		} else {
			depth--;
			next = openat(at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		}
		if (next < 0)
			r = -errno;
		(void)close(at);
		at = next;
	}
	if (at >= 0)
		(void)close(at);
	if (r == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0)
		r = -errno;
	return r;
}

static int unpack_tree_clear(const struct tree_location *at, bool *ret_whiteout,
			     struct warren_error *err)
{
	struct stat st;
	int r = 0;

	*ret_whiteout = false;
	if (fstatat(at->dir, at->base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT
			       ? 0
			       : error_errno(err, errno, "inspect '%s'", at->base);
	*ret_whiteout = is_whiteout(&st);
	/* The last used directory contains this one, so it is not removed. */
	if (S_ISDIR(st.st_mode))
		r = unpack_tree_remove(at->dir, at->base);
	else if (unlinkat(at->dir, at->base, 0) < 0)
		r = -errno;
	return r < 0 ? error_errno(err, -r, "replace '%s'", at->base) : 0;
}

/* ------------------------------------------------------------------- search */

/* Only a whiteout may be removed to make room for a directory. */
static int make_way(int at, const char *name, struct warren_error *err)
{
	struct stat st;

	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_errno(err, errno, "inspect '%s'", name);
	if (!is_whiteout(&st))
		return error_set(err, EBADMSG, "'%s' is a %s, not a directory", name,
				 S_ISLNK(st.st_mode) ? "symbolic link" : "file");
	if (unlinkat(at, name, 0) < 0)
		return error_errno(err, errno, "replace '%s'", name);
	return 0;
}

/*
 * Open a directory directly below @at, and create it if it is missing. A whiteout becomes
 * opaque.
 */
static int make_step(struct unpack_tree *t, int at, const char *name,
		     struct warren_error *err)
{
	int fd = mount_openat2(at, name, OPEN_DIR, 0, BENEATH), r = 0;
	bool opaque = fd == -ENOTDIR || fd == -ELOOP;

	if (opaque)
		r = make_way(at, name, err);
	if (r == 0 && (opaque || fd == -ENOENT)) {
		r = unpack_tree_count(t, err);
		if (r == 0 && mkdirat(at, name, 0755) < 0)
			r = error_errno(err, errno, "create the directory '%s'", name);
		fd = mount_openat2(at, name, OPEN_DIR, 0, BENEATH);
	}
	if (r == 0 && fd < 0)
		r = error_errno(err, -fd, "open the directory '%s'", name);
	if (r == 0 && opaque)
		r = set_opaque(fd, name, err);
	if (r < 0 && fd >= 0)
		(void)close(fd);
	return r < 0 ? r : fd;
}

static int unpack_tree_make_dirs(struct unpack_tree *t, const char *name,
				 struct warren_error *err)
{
	AUTO_CLOSE int at = -1;

	for (const char *p = name; *p;) {
		char part[NAME_MAX + 1];
		size_t n = strcspn(p, "/");
		int fd;

		if (n >= sizeof(part))
			return unpack_tree_refuse(err, name, "is too long");
		(void)memcpy(part, p, n);
		part[n] = '\0';
		fd = make_step(t, at < 0 ? t->root : at, part, err);
		if (fd < 0)
			return fd;
		if (at >= 0)
			(void)close(at);
		at = fd;
		p += n;
		p += *p == '/';
	}
	return TAKE_FD(at);
}

/* Record the directory @name, opened as @fd, as the last used one. */
static void remember_dir(struct unpack_tree *t, const char *name, int fd)
{
	forget_dir(t);
	t->dir = fd;
	/* Normalised names always fit. */
	(void)snprintf(t->dir_name, sizeof(t->dir_name), "%s", name);
}

/* Do the same for a directory directly below the last used one. */
static int remember_child(struct unpack_tree *t, const char *base, int fd)
{
	char name[sizeof(t->dir_name)];
	int n = snprintf(name, sizeof(name), "%s%s%s", t->dir_name,
			 *t->dir_name ? "/" : "", base);

	/* With links, a path may be longer than its name. */
	if (n < 0 || (size_t)n >= sizeof(name)) {
		(void)close(fd);
		return -ENAMETOOLONG;
	}
	remember_dir(t, name, fd);
	return 0;
}

/* Enter the directory @name, which becomes t->dir. -errno if it does not exist. */
static int unpack_tree_enter(struct unpack_tree *t, const char *name)
{
	size_t n = strlen(t->dir_name);
	int from = t->root, fd;
	const char *rest = name;

	if (t->dir >= 0 && strncmp(name, t->dir_name, n) == 0) {
		if (name[n] == '\0')
			return 0;
		if (n > 0 && name[n] == '/') {
			from = t->dir;
			rest = name + n + 1;
		}
	}
	fd = mount_openat2(from, *rest ? rest : ".", OPEN_DIR, 0, BENEATH);
	if (fd < 0)
		return fd;
	remember_dir(t, name, fd);
	return 0;
}

static int enter_or_make(struct unpack_tree *t, const char *name, bool make,
			 struct warren_error *err)
{
	char path[4096];
	int fd, r = unpack_tree_enter(t, name);

	if (r == 0)
		return 0;
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP) {
		r = unpack_resolve_name(t->root, name, path);
		if (r == 0)
			r = unpack_tree_enter(t, path);
	}
	if (r == 0)
		return 0;
	if (!make || (r != -ENOENT && r != -ENOTDIR))
		return error_errno(err, -r, "open the directory '%.200s'", name);
	fd = unpack_tree_make_dirs(t, path, err);
	if (fd < 0)
		return fd;
	remember_dir(t, path, fd);
	return 0;
}

/* Find where @name is or will be; if @make is set, create its parent directories. */
static int unpack_tree_find(struct unpack_tree *t, const char *name, bool make,
			    struct tree_location *ret, struct warren_error *err)
{
	const char *slash = strrchr(name, '/');
	char parent[4096] = "";
	int r;

	if (slash) {
		(void)memcpy(parent, name, (size_t)(slash - name));
		parent[slash - name] = '\0';
	}
	r = enter_or_make(t, parent, make, err);
	if (r < 0)
		return r;
	ret->dir = t->dir;
	ret->base = slash ? slash + 1 : name;
	return 0;
}

/* As above, for a file that will be created: it must have a name, and is counted. */
static int find_new(struct unpack_tree *t, const char *name, struct tree_location *ret,
		    struct warren_error *err)
{
	int r = *name ? unpack_tree_count(t, err)
		      : unpack_tree_refuse(err, name,
					   "is the root, which is a directory");

	return r < 0 ? r : unpack_tree_find(t, name, true, ret, err);
}

/* ---------------------------------------------------------------- attributes */

int unpack_apply(const struct unpack_tree *t, int fd, const struct unpack_meta *meta)
{
	const struct timespec times[2] = { meta->mtime, meta->mtime };
	struct stat st;
	bool again = false;

	if (fstat(fd, &st) < 0)
		return -errno;
	/* Set the owner first, because that clears set-id bits. */
	if (t->own_ids && (st.st_uid != meta->uid || st.st_gid != meta->gid)) {
		if (fchown(fd, meta->uid, meta->gid) < 0)
			return -errno;
		again = ((st.st_mode | meta->mode) & (S_ISUID | S_ISGID)) != 0;
	}
	if ((again || (st.st_mode & 07777) != meta->mode) && fchmod(fd, meta->mode) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) && futimens(fd, times) < 0)
		return -errno;
	return 0;
}

/* Set the attributes of files that cannot be opened: links and pipes. */
static int apply_at(const struct unpack_tree *t, const struct tree_location *at,
		    const struct unpack_meta *meta)
{
	const struct timespec times[2] = { meta->mtime, meta->mtime };
	int flags = AT_SYMLINK_NOFOLLOW;

	if (t->own_ids && fchownat(at->dir, at->base, meta->uid, meta->gid, flags) < 0)
		return -errno;
	return utimensat(at->dir, at->base, times, flags) < 0 ? -errno : 0;
}

static void *unpack_tree_grow(void *data, size_t *cap, size_t need, size_t size)
{
	size_t n = *cap ? *cap : 64;
	void *p;

	while (n < need)
		n *= 2;
	if (n == *cap)
		return data;
	p = realloc(data, n * size);
	if (p)
		*cap = n;
	return p;
}

static int remember_time(struct unpack_tree *t, const char *name, struct timespec mtime)
{
	size_t n = strlen(name) + 1;
	void *p;

	if (t->names_len + n > NAMES_MAX)
		return -ENOMEM;
	p = unpack_tree_grow(t->names, &t->names_cap, t->names_len + n, 1);
	if (!p)
		return -ENOMEM;
	t->names = p;
	p = unpack_tree_grow(t->late, &t->late_cap, t->n_late + 1, sizeof(*t->late));
	if (!p)
		return -ENOMEM;
	t->late = p;
	(void)memcpy(t->names + t->names_len, name, n);
	t->late[t->n_late++] = (struct unpack_late){ mtime, t->names_len };
	t->names_len += n;
	return 0;
}

int unpack_tree_settle(struct unpack_tree *t, struct warren_error *err)
{
	for (size_t i = 0; i < t->n_late; i++) {
		const struct timespec times[2] = { t->late[i].mtime, t->late[i].mtime };
		const char *name = t->names + t->late[i].name;
		int r = unpack_tree_enter(t, name);

		/* Another entry has replaced it. */
		if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
			continue;
		if (r < 0 || futimens(t->dir, times) < 0)
			return error_errno(err, r < 0 ? -r : errno,
					   "set the time of '%.200s'", name);
	}
	return 0;
}

/* ---------------------------------------------------------------- creation of entries */

/* Create or find the directory at @at. */
static int unpack_tree_make_dir(const struct tree_location *at, mode_t mode,
				struct warren_error *err)
{
	bool whiteout = false;
	int fd, r = mkdirat(at->dir, at->base, mode) < 0 ? -errno : 0;

	if (r == 0 || r == -EEXIST) {
		fd = mount_openat2(at->dir, at->base, OPEN_DIR, 0, BENEATH);
		if (fd >= 0 || r == 0)
			return fd < 0 ? error_errno(err, -fd, "open '%s'", at->base) : fd;
		r = unpack_tree_clear(at, &whiteout, err);
		if (r < 0)
			return r;
		r = mkdirat(at->dir, at->base, mode) < 0 ? -errno : 0;
	}
	if (r < 0)
		return error_errno(err, -r, "create the directory '%s'", at->base);
	fd = mount_openat2(at->dir, at->base, OPEN_DIR, 0, BENEATH);
	if (fd < 0)
		return error_errno(err, -fd, "open '%s'", at->base);
	r = whiteout ? set_opaque(fd, at->base, err) : 0;
	if (r < 0)
		(void)close(fd);
	return r < 0 ? r : fd;
}

int unpack_tree_dir(struct unpack_tree *t, const char *name,
		    const struct unpack_meta *meta, int *ret_fd, struct warren_error *err)
{
	struct tree_location at;
	int fd, r;

	if (*name) {
		r = find_new(t, name, &at, err);
		if (r < 0)
			return r;
		fd = unpack_tree_make_dir(&at, meta->mode & 0777, err);
		if (fd < 0)
			return fd;
		r = remember_child(t, at.base, fd);
		if (r < 0)
			return error_errno(err, -r, "create the directory '%.200s'",
					   name);
	} else {
		r = enter_or_make(t, "", true, err);
		if (r < 0)
			return r;
	}
	r = unpack_apply(t, t->dir, meta);
	if (r == 0)
		r = remember_time(t, t->dir_name, meta->mtime);
	if (r < 0)
		return error_errno(err, -r, "set the attributes of '%.200s'", name);
	*ret_fd = t->dir;
	return 0;
}

int unpack_tree_file(struct unpack_tree *t, const char *name, mode_t mode, int *ret_fd,
		     struct warren_error *err)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	struct tree_location at;
	bool whiteout;
	int fd, r = find_new(t, name, &at, err);

	if (r < 0)
		return r;
	fd = openat(at.dir, at.base, flags, mode & 0777);
	if (fd < 0 && errno == EEXIST) {
		r = unpack_tree_clear(&at, &whiteout, err);
		if (r < 0)
			return r;
		fd = openat(at.dir, at.base, flags, mode & 0777);
	}
	if (fd < 0)
		return error_errno(err, errno, "make '%.200s'", name);
	*ret_fd = fd;
	return 0;
}

int unpack_tree_symlink(struct unpack_tree *t, const char *name, const char *target,
			const struct unpack_meta *meta, struct warren_error *err)
{
	struct tree_location at;
	bool whiteout;
	int r = find_new(t, name, &at, err);

	if (r < 0)
		return r;
	r = symlinkat(target, at.dir, at.base) < 0 ? -errno : 0;
	if (r == -EEXIST) {
		r = unpack_tree_clear(&at, &whiteout, err);
		if (r < 0)
			return r;
		r = symlinkat(target, at.dir, at.base) < 0 ? -errno : 0;
	}
	if (r == 0)
		r = apply_at(t, &at, meta);
	return r < 0 ? error_errno(err, -r, "create the link '%.200s'", name) : 0;
}

int unpack_tree_fifo(struct unpack_tree *t, const char *name,
		     const struct unpack_meta *meta, struct warren_error *err)
{
	struct tree_location at;
	bool whiteout;
	int r = find_new(t, name, &at, err);

	if (r == 0)
		r = unpack_tree_clear(&at, &whiteout, err);
	if (r < 0)
		return r;
	r = mknodat(at.dir, at.base, S_IFIFO | (meta->mode & 0777), 0) < 0 ? -errno : 0;
	if (r == 0)
		r = apply_at(t, &at, meta);
	/* It was just created, and is not a link, so chmod cannot follow one. */
	if (r == 0 && (meta->mode & 07000) &&
	    fchmodat(at.dir, at.base, meta->mode, 0) < 0)
		r = -errno;
	return r < 0 ? error_errno(err, -r, "create the pipe '%.200s'", name) : 0;
}

int unpack_tree_hardlink(struct unpack_tree *t, const char *name, const char *target,
			 struct warren_error *err)
{
	AUTO_CLOSE int from = -1;
	struct tree_location at, to = { .dir = -1, .base = "" };
	struct stat st, old;
	bool whiteout;
	int r = *target ? unpack_tree_find(t, target, false, &to, err) : -EBADMSG;

	if (r < 0 || fstatat(to.dir, to.base, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    S_ISDIR(st.st_mode) || S_ISCHR(st.st_mode))
		return error_set(
			err, EBADMSG,
			"'%.160s' is a hard link to '%.160s', which is not an earlier "
			"file of the archive",
			name, target);
	from = fcntl(to.dir, F_DUPFD_CLOEXEC, 3);
	if (from < 0)
		return error_errno(err, errno, "link '%.200s'", name);
	r = find_new(t, name, &at, err);
	if (r < 0)
		return r;
	/* Link the link itself, not its target: flags without AT_SYMLINK_FOLLOW. */
	if (linkat(from, to.base, at.dir, at.base, 0) == 0)
		return 0;
	if (errno != EEXIST)
		return error_errno(err, errno, "link '%.160s' to '%.160s'", name, target);
	if (fstatat(at.dir, at.base, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
	    old.st_ino == st.st_ino && old.st_dev == st.st_dev)
		return 0;
	r = unpack_tree_clear(&at, &whiteout, err);
	if (r == 0 && linkat(from, to.base, at.dir, at.base, 0) < 0)
		r = error_errno(err, errno, "link '%.160s' to '%.160s'", name, target);
	return r;
}

/* ----------------------------------------------------------------- whiteouts */

int unpack_tree_whiteout(struct unpack_tree *t, const char *name,
			 struct warren_error *err)
{
	struct tree_location at;
	struct stat st;
	int r = find_new(t, name, &at, err);

	if (r < 0)
		return r;
	/* Since Linux 5.8, every user may create the device 0/0. */
	if (mknodat(at.dir, at.base, S_IFCHR, makedev(0, 0)) == 0)
		return 0;
	if (errno != EEXIST || fstatat(at.dir, at.base, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_errno(err, errno, "create the whiteout of '%.200s'", name);
	/* A file of this layer hides lower files anyway, but a directory would be merged.
	 */
	return S_ISDIR(st.st_mode) ? unpack_tree_opaque(t, name, err) : 0;
}

int unpack_tree_opaque(struct unpack_tree *t, const char *name, struct warren_error *err)
{
	int r = enter_or_make(t, name, true, err);

	return r < 0 ? r : set_opaque(t->dir, name, err);
}
