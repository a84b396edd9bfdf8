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

/* The mode of a new directory, without set-id bits that were not accepted. */
static mode_t copy_new_mode(const struct work *w, const char *path, mode_t upper)
{
	struct stat st;
	mode_t has = w->project_fd >= 0 && beneath_stat(w->project_fd, path, &st) == 0
			     ? st.st_mode
			     : 0;

	return upper & 07777 & ~(MODE_SET_ID & ~has);
}

/*
 * The view has the directory @name, whose path is @path: create it in the copy, and
 * remove there what the view hides.
 */
static int copy_descend(const struct work *w, struct copy_dirs *d, const char *path,
			const char *name, struct copy_dirs *ret)
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
	if (r > 0 && fchmod(next.copy, copy_new_mode(w, path, upper.st_mode)) < 0)
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
static int copy_take(const struct work *w, struct copy_dirs *d, const char *path,
		     const char *name, const struct stat *st)
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
	r = copy_descend(w, d, path, name, &own);
	if (r == 0 && fchmod(own.copy, upper.st_mode & 07777) < 0)
		r = -errno;
	accept_step("copy");
	/* With what else has changed in it, it stays. */
	if (r == 0)
		(void)unlinkat(d->upper, name, AT_REMOVEDIR);
	return r;
}

/* The last component of the path. */
static int copy_last(const struct work *w, struct copy_dirs *d, const char *path,
		     const char *name)
{
	struct stat st;
	int r;

	if (fstatat(d->upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return -errno;
		return dir_is_opaque(d->upper) ? copy_remove(d->copy, name) : 0;
	}
	if (!stat_is_whiteout(&st))
		return copy_take(w, d, path, name, &st);
	r = copy_remove(d->copy, name);
	accept_step("copy");
	/* It may hide the rest of a directory. */
	if (r == 0 && fstatat(d->copy, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		(void)unlinkat(d->upper, name, 0);
	return r;
}

/*
 * Go down to the directory that contains @path; *@ret_name is the name in it. 0: the copy
 * is already the same as the view.
 */
static int copy_parent(const struct work *w, char *path, struct copy_dirs *d,
		       const char **ret_name)
{
	char *name = path, *slash;

	for (; (slash = strchr(name, '/')) != NULL; name = slash + 1) {
		struct copy_dirs next = { -1, -1 };
		struct stat st;
		int r;

		*slash = '\0';
		if (fstatat(d->upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno != ENOENT)
				return -errno;
			/* What the copy has is what the sandbox sees. */
			if (!dir_is_opaque(d->upper))
				return 0;
			st.st_mode = S_IFCHR;
		}
		if (!S_ISDIR(st.st_mode)) {
			*slash = '/';
			return copy_remove(d->copy, name);
		}
		r = copy_descend(w, d, path, name, &next);
		if (r < 0)
			return r;
		*slash = '/';
		copy_close(d);
		*d = next;
	}
	*ret_name = name;
	return 1;
}

int upper_drop_copy(struct work *w, const char *path)
{
	struct copy_dirs d CLEANUP(copy_close) = { changes_upper(w), changes_lower(w) };
	AUTO_FREE char *copy = strdup(path);
	const char *name;
	int r = copy ? 0 : -ENOMEM;

	if (r == 0 && (d.upper < 0 || d.copy < 0))
		r = d.upper < 0 ? d.upper : d.copy;
	r = r < 0 ? r : copy_parent(w, copy, &d, &name);
	return r <= 0 ? r : copy_last(w, &d, path, name);
}

/* ------------------------------------------------------------------------- parts */

/* Move the file that is kept for the operation into the copy; 0 if it was moved before.
 */
static int copy_put(const struct work *w, const struct copy_dirs *d, const char *name,
		    const struct op *op)
{
	AUTO_CLOSE int dir = beneath_dir(w->dir_fd, UPPER_EDITED, O_PATH);
	char edited[32];
	struct stat st;
	int r;

	upper_edit_name(op, edited);
	if (dir < 0 || fstatat(dir, edited, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return dir < 0 ? (dir == -ENOENT ? 0 : dir)
			       : (errno == ENOENT ? 0 : -errno);
	r = tree_remove(d->copy, d->copy, name);
	if (r < 0 && r != -ENOENT)
		return r;
	accept_step("copy");
	return renameat(dir, edited, d->copy, name) < 0 ? -errno : 0;
}

static int copy_part_dir(const struct work *w, struct copy_dirs *d, const char *name,
			 const struct op *op)
{
	struct copy_dirs own CLEANUP(copy_close) = { -1, -1 };
	int r = copy_descend(w, d, op->path, name, &own);

	return r < 0 ? r : fchmod(own.copy, (mode_t)op->new_mode) < 0 ? -errno : 0;
}

int upper_part_copy(struct work *w, const struct op *op)
{
	struct copy_dirs d CLEANUP(copy_close) = { changes_upper(w), changes_lower(w) };
	AUTO_FREE char *copy = strdup(op->path);
	const char *name = copy;
	struct stat st;
	int r = copy ? 0 : -ENOMEM;

	if (r == 0 && (d.upper < 0 || d.copy < 0))
		r = d.upper < 0 ? d.upper : d.copy;
	r = r < 0 ? r : copy_parent(w, copy, &d, &name);
	if (r <= 0)
		return r;
	if (op->must)
		return copy_put(w, &d, name, op);
	if (fstatat(d.upper, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
		return copy_part_dir(w, &d, name, op);
	/* Only the mode was changed. */
	if (fstatat(d.copy, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return 0;
	return fchmodat(d.copy, name, (mode_t)op->new_mode, 0) < 0 ? -errno : 0;
}
