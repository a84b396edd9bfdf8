/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upper_copy.c - mode WORK_COPY: what was accepted becomes part of the copy
 *
 * The sandbox's view of a path is what the directory of changes has over the copy. When a
 * change was accepted, the copy gets the view of its path, so that it is no longer a
 * change, and the view of all paths stays as it is. Each step can be repeated, even after
 * an interruption.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "os/tree_remove.h"
#include "work/accept_internal.h"
#include "work/files_internal.h"
#include "work/reach.h"

/* The same directory of the changes and of the copy. */
struct copy_dirs {
	int upper, copy;
};

static void copy_close(struct copy_dirs *d)
{
	close_p(&d->upper);
	close_p(&d->copy);
}

/* The view has the directory @name: the copy gets it, without what the view hides. */
static int copy_descend(const struct work *w, struct copy_dirs *d, const char *name,
			struct copy_dirs *ret)
{
	struct copy_dirs next CLEANUP(copy_close) = { -1, -1 };
	struct stat upper, old;
	int r = 0;

	if (fstatat(d->upper, name, &upper, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	reach_mode(w, d->upper, name, &upper);
	if (fstatat(d->copy, name, &old, AT_SYMLINK_NOFOLLOW) < 0)
		r = errno == ENOENT ? 1 : -errno;
	else if (!S_ISDIR(old.st_mode))
		r = unlinkat(d->copy, name, 0) < 0 ? -errno : 1;
	if (r > 0 && mkdirat(d->copy, name, 0700) < 0)
		r = -errno;
	if (r < 0)
		return r;
	next.upper = beneath_dir(d->upper, name, O_RDONLY);
	next.copy = beneath_dir(d->copy, name, O_RDONLY);
	if (next.upper < 0 || next.copy < 0)
		return next.upper < 0 ? next.upper : next.copy;
	if (r > 0 && fchmod(next.copy, upper.st_mode & 07777) < 0)
		return -errno;
	r = dir_is_opaque(next.upper) ? upper_show_below(next.upper, next.copy) : 0;
	if (r < 0)
		return r;
	*ret = next;
	next = (struct copy_dirs){ -1, -1 };
	return 0;
}

/* Remove a file or an empty directory, if it exists; 1: the directory is not empty. */
static int copy_remove_one(int dir, const char *path)
{
	const char *name;
	AUTO_CLOSE int parent = beneath_parent(dir, path, &name);

	if (parent == -ENOENT || parent == -ENOTDIR || parent == -ELOOP)
		return 0;
	if (parent < 0)
		return parent;
	if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return -errno;
	if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
		return 0;
	return errno == ENOTEMPTY || errno == EEXIST ? 1 : -errno;
}

/*
 * The view has nothing at @rest, a path below @dir: remove that, and the directories
 * above it that the view does not have and that are empty then.
 */
static int copy_remove(int dir, const char *rest)
{
	AUTO_FREE char *path = strdup(rest);
	char *slash = path;
	int r = 0;

	if (!path)
		return -ENOMEM;
	for (; slash && r == 0; slash = strrchr(path, '/')) {
		if (slash != path)
			*slash = '\0';
		r = copy_remove_one(dir, path);
	}
	return r < 0 ? r : 0;
}

/* The view is the file or directory that the changes have. */
static int copy_take(const struct work *w, struct copy_dirs *d, const char *name,
		     const struct stat *st)
{
	struct copy_dirs own CLEANUP(copy_close) = { -1, -1 };
	struct stat upper = *st;
	int r;

	if (!S_ISDIR(st->st_mode)) {
		r = tree_remove(d->copy, d->copy, name);
		accept_step("copy");
		return r == 0 && renameat(d->upper, name, d->copy, name) < 0 ? -errno : r;
	}
	reach_mode(w, d->upper, name, &upper);
	r = copy_descend(w, d, name, &own);
	if (r == 0 && fchmod(own.copy, upper.st_mode & 07777) < 0)
		r = -errno;
	accept_step("copy");
	/* With what else has changed in it, it stays. */
	if (r == 0)
		(void)unlinkat(d->upper, name, AT_REMOVEDIR);
	return r;
}

/* The last component of the path. */
static int copy_last(const struct work *w, struct copy_dirs *d, const char *name)
{
	struct stat st;
	int r;

	if (fstatat(d->upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return -errno;
		return dir_is_opaque(d->upper) ? copy_remove(d->copy, name) : 0;
	}
	if (!stat_is_whiteout(&st))
		return copy_take(w, d, name, &st);
	r = copy_remove(d->copy, name);
	accept_step("copy");
	/* It may hide the rest of a directory. */
	if (r == 0 && fstatat(d->copy, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		(void)unlinkat(d->upper, name, 0);
	return r;
}

int upper_drop_copy(struct work *w, const char *path)
{
	struct copy_dirs d CLEANUP(copy_close) = { changes_upper(w), changes_lower(w) };
	AUTO_FREE char *copy = strdup(path);
	char *name = copy, *slash;

	if (!copy)
		return -ENOMEM;
	if (d.upper < 0 || d.copy < 0)
		return d.upper < 0 ? d.upper : d.copy;
	for (; (slash = strchr(name, '/')) != NULL; name = slash + 1) {
		struct copy_dirs next = { -1, -1 };
		struct stat st;
		int r;

		*slash = '\0';
		if (fstatat(d.upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno != ENOENT)
				return -errno;
			/* What the copy has is what the sandbox sees. */
			if (!dir_is_opaque(d.upper))
				return 0;
			st.st_mode = S_IFCHR;
		}
		if (!S_ISDIR(st.st_mode)) {
			*slash = '/';
			return copy_remove(d.copy, name);
		}
		r = copy_descend(w, &d, name, &next);
		if (r < 0)
			return r;
		copy_close(&d);
		d = next;
	}
	return copy_last(w, &d, name);
}
