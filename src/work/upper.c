/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upper.c - remove single changes from the directory of changes
 *
 * What the sandbox sees at other paths must stay the same. If a directory is opaque, or a
 * whiteout hides it, all files of the project in it are removed at once. Before one of
 * them is treated on its own, such a mark is replaced by a whiteout for each file.
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

/* The same directory of both sides; lower is -1 if it does not exist. */
struct upper_dirs {
	int upper, lower;
};

static void upper_close(struct upper_dirs *d)
{
	close_p(&d->upper);
	close_p(&d->lower);
}

static int upper_open(int dir, const char *name)
{
	return dir < 0 ? -1
		       : openat(dir, name,
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Hide each entry of lower that upper does not have. */
static int upper_spell_out(const struct upper_dirs *d, unsigned depth);

/* NOLINTNEXTLINE(misc-no-recursion): as deep as CHANGES_DEPTH_MAX */
static int upper_spell_out_entry(const struct upper_dirs *d, const char *name,
				 unsigned depth)
{
	struct upper_dirs below CLEANUP(upper_close) = { -1, -1 };
	struct stat st;

	if (fstatat(d->upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return -errno;
		return mknodat(d->upper, name, S_IFCHR, 0) < 0 && errno != EEXIST ? -errno
										  : 0;
	}
	if (!S_ISDIR(st.st_mode))
		return 0;
	below.upper = upper_open(d->upper, name);
	below.lower = upper_open(d->lower, name);
	if (below.upper < 0)
		return -errno;
	return below.lower < 0 ? 0 : upper_spell_out(&below, depth + 1);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as CHANGES_DEPTH_MAX */
static int upper_spell_out(const struct upper_dirs *d, unsigned depth)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	const struct dir_entry *e;
	int r;

	if (!reader)
		return -ENOMEM;
	if (depth > CHANGES_DEPTH_MAX)
		return -ELOOP;
	reader->fd = d->lower;
	while ((r = dir_next(reader, &e)) > 0) {
		r = upper_spell_out_entry(d, e->name, depth);
		if (r < 0)
			break;
	}
	if (r == 0 && dir_is_opaque(d->upper) &&
	    fremovexattr(d->upper, "user.overlay.opaque") < 0)
		r = -errno;
	return r;
}

/* Replace a whiteout by a directory with a whiteout for each entry. */
static int upper_open_whiteout(const struct upper_dirs *d, const char *name)
{
	char temporary[48];
	struct upper_dirs below CLEANUP(upper_close) = { -1, upper_open(d->lower, name) };
	struct stat st;
	int r;

	if (below.lower < 0 || fstat(below.lower, &st) < 0)
		return -ENOENT;
	(void)snprintf(temporary, sizeof(temporary), ".warren-new-%d", (int)getpid());
	if (mkdirat(d->upper, temporary, 0700) < 0)
		return -errno;
	below.upper = upper_open(d->upper, temporary);
	r = below.upper < 0 ? -errno : upper_spell_out(&below, 0);
	if (r == 0 && fchown(below.upper, st.st_uid, st.st_gid) < 0 && geteuid() == 0)
		r = -errno;
	if (r == 0 && fchmod(below.upper, st.st_mode & 07777) < 0)
		r = -errno;
	/* The whiteout may not be there for an instant: nothing looks at it. */
	if (r == 0 && unlinkat(d->upper, name, 0) < 0)
		r = -errno;
	if (r == 0 && renameat(d->upper, temporary, d->upper, name) < 0)
		r = -errno;
	if (r < 0)
		(void)tree_remove(d->upper, d->upper, temporary);
	return r;
}

/* Go down one level, so that the two sides are merged there. */
static int upper_descend(struct upper_dirs *d, const char *name)
{
	struct upper_dirs next = { -1, -1 };
	struct stat st;
	int r = 0;

	if (fstatat(d->upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (stat_is_whiteout(&st))
		r = upper_open_whiteout(d, name);
	if (r < 0)
		return r;
	next.upper = upper_open(d->upper, name);
	if (next.upper < 0)
		return -errno;
	next.lower = upper_open(d->lower, name);
	if (dir_is_opaque(next.upper))
		r = next.lower < 0 ? 0 : upper_spell_out(&next, 0);
	upper_close(d);
	*d = next;
	return r;
}

/* Get the directory of @path. -ENOENT: the sandbox changed nothing there. */
static int upper_parent(struct work *w, const char *path, struct upper_dirs *d,
			const char **ret_name)
{
	AUTO_FREE char *copy = strdup(path);
	const char *slash = strrchr(path, '/');
	char *save = NULL;
	int r = 0;

	if (!copy)
		return -ENOMEM;
	*ret_name = slash ? slash + 1 : path;
	copy[slash ? slash - path : 0] = '\0';
	*d = (struct upper_dirs){ changes_upper(w), changes_lower(w) };
	if (d->upper < 0 || d->lower < 0)
		return d->upper < 0 ? d->upper : d->lower;
	if (dir_is_opaque(d->upper))
		r = upper_spell_out(d, 0);
	for (const char *name = strtok_r(copy, "/", &save); r == 0 && name;
	     name = strtok_r(NULL, "/", &save))
		r = upper_descend(d, name);
	return r;
}

/* Mode WORK_COPY: the copy becomes what the sandbox has. */
static int upper_move_to_copy(struct work *w, const struct upper_dirs *d,
			      const char *path, const char *name, const struct stat *st)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *parent = strndup(path, slash ? (size_t)(slash - path) : 0);
	AUTO_CLOSE int copy = changes_lower(w), to = -1;
	int r;

	if (!parent)
		return -ENOMEM;
	if (copy < 0)
		return copy;
	to = beneath_make_dirs(copy, parent, 0755);
	if (to < 0)
		return to;
	if (S_ISDIR(st->st_mode))
		return mkdirat(to, name, 0755) < 0 && errno != EEXIST ? -errno : 0;
	r = tree_remove(copy, to, name);
	if (r == 0 && !stat_is_whiteout(st) && renameat(d->upper, name, to, name) < 0)
		r = -errno;
	return r;
}

int upper_drop(struct work *w, const struct op *op)
{
	struct upper_dirs d CLEANUP(upper_close) = { -1, -1 };
	const char *path = op->path, *name;
	char trash[40];
	struct stat st = { 0 };
	int r = upper_parent(w, path, &d, &name);

	if (r == 0 && fstatat(d.upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r == 0 && w->mode == WORK_COPY)
		r = upper_move_to_copy(w, &d, path, name, &st);
	if (r < 0)
		return r;
	/* A directory stays, with what else has changed in it. */
	if (S_ISDIR(st.st_mode)) {
		struct upper_dirs own CLEANUP(upper_close) = {
			upper_open(d.upper, name), upper_open(d.lower, name)
		};

		if (own.upper >= 0 && own.lower >= 0 && dir_is_opaque(own.upper))
			r = upper_spell_out(&own, 0);
		(void)unlinkat(d.upper, name, AT_REMOVEDIR);
		return r;
	}
	(void)snprintf(trash, sizeof(trash), "trash/%llu",
		       (unsigned long long)op->number);
	if (renameat(d.upper, name, w->dir_fd, trash) == 0)
		return 0;
	return unlinkat(d.upper, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* Directories that only the sandbox has are removed, if they are empty now. */
static void upper_remove_empty(struct work *w, const char *path)
{
	AUTO_FREE char *copy = strdup(path);
	AUTO_CLOSE int upper = changes_upper(w), lower = changes_lower(w);
	char *slash;

	while (copy && (slash = strrchr(copy, '/')) != NULL) {
		const char *name;
		struct stat st;
		AUTO_CLOSE int dir = -1;

		*slash = '\0';
		if (beneath_stat(lower, copy, &st) == 0)
			return;
		dir = beneath_parent(upper, copy, &name);
		if (dir < 0 || unlinkat(dir, name, AT_REMOVEDIR) < 0)
			return;
	}
}

int upper_restore(struct work *w, const char *path)
{
	struct upper_dirs d CLEANUP(upper_close) = { -1, -1 };
	const char *name;
	int r = upper_parent(w, path, &d, &name);

	r = r < 0 ? r : tree_remove(d.upper, d.upper, name);
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r == 0)
		upper_remove_empty(w, path);
	return r;
}

bool upper_has_dir(int upper, int lower, const char *path)
{
	struct upper_dirs d CLEANUP(upper_close) = { upper_open(upper, "."),
						     upper_open(lower, ".") };
	AUTO_FREE char *copy = strdup(path);
	char *save = NULL;

	if (!copy)
		return true;
	if (d.upper >= 0 && dir_is_opaque(d.upper))
		close_p(&d.lower), d.lower = -1;
	for (const char *name = strtok_r(copy, "/", &save); name;
	     name = strtok_r(NULL, "/", &save)) {
		struct upper_dirs next = { -1, -1 };
		struct stat st;

		if (d.upper >= 0 &&
		    fstatat(d.upper, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
			if (!S_ISDIR(st.st_mode))
				return false;
			next.upper = upper_open(d.upper, name);
			if (next.upper >= 0 && !dir_is_opaque(next.upper))
				next.lower = upper_open(d.lower, name);
		} else {
			next.lower = upper_open(d.lower, name);
		}
		upper_close(&d);
		d = next;
		if (d.upper < 0 && d.lower < 0)
			return false;
	}
	return true;
}
