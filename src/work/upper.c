/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upper.c - remove single changes from the directory of changes
 *
 * There is no journal for this: each path changes in one step (a rename, an exchange or
 * an unlink), and no step before it changes what the sandbox sees. So a change that is
 * discarded is either there or not, even after a crash, and the list of changes says
 * which; discarding it again does the rest. What an interruption leaves in the directory
 * of the work is removed by the next call.
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

#include "os/tree_copy.h"
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
		accept_step("spell out");
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
	accept_step("not opaque");
	if (r == 0 && dir_is_opaque(d->upper) &&
	    fremovexattr(d->upper, "user.overlay.opaque") < 0)
		r = -errno;
	return r;
}

/*
 * Replace a whiteout by a directory with a whiteout for each entry, in one step: without
 * either of them, all that was removed in the directory would be there again. The new
 * directory is made outside of the changes, so that an interruption leaves nothing in
 * them. Overlays need filesystems that can exchange files, so this one can.
 */
static int upper_open_whiteout(const struct work *w, const struct upper_dirs *d,
			       const char *name)
{
	static const char temporary[] = UPPER_NEW;
	struct upper_dirs below CLEANUP(upper_close) = { -1, upper_open(d->lower, name) };
	struct stat st;
	int r;

	if (below.lower < 0 || fstat(below.lower, &st) < 0)
		return -ENOENT;
	r = tree_remove(w->dir_fd, w->dir_fd, temporary);
	if (r < 0 && r != -ENOENT)
		return r;
	if (mkdirat(w->dir_fd, temporary, 0700) < 0)
		return -errno;
	below.upper = upper_open(w->dir_fd, temporary);
	r = below.upper < 0 ? -errno : upper_spell_out(&below, 0);
	if (r == 0 && fchown(below.upper, st.st_uid, st.st_gid) < 0 && geteuid() == 0)
		r = -errno;
	if (r == 0 && fchmod(below.upper, st.st_mode & 07777) < 0)
		r = -errno;
	accept_step("replace whiteout");
	if (r == 0 &&
	    renameat2(w->dir_fd, temporary, d->upper, name, RENAME_EXCHANGE) < 0)
		r = -errno;
	accept_step("remove whiteout");
	(void)tree_remove(w->dir_fd, w->dir_fd, temporary);
	return r;
}

/*
 * A removal below the whiteout was accepted. It stays as long as it hides anything:
 * without it, the sandbox would see a directory that it has removed.
 */
static int upper_keep_whiteout(const struct upper_dirs *d, const char *name)
{
	struct stat st;

	if (fstatat(d->lower, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
		(void)unlinkat(d->upper, name, 0);
	return -ENOENT;
}

/*
 * Go down one level, so that the two sides are merged there. @accepted: what the sandbox
 * removed there was, so it is not shown again; -ENOENT: it has removed the directory.
 */
static int upper_descend(const struct work *w, struct upper_dirs *d, const char *name,
			 bool accepted)
{
	struct upper_dirs next = { -1, -1 };
	struct stat st;
	int r = 0;

	if (fstatat(d->upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (stat_is_whiteout(&st))
		r = accepted ? upper_keep_whiteout(d, name)
			     : upper_open_whiteout(w, d, name);
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
static int upper_parent(struct work *w, const char *path, bool accepted,
			struct upper_dirs *d, const char **ret_name)
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
		r = upper_descend(w, d, name, accepted);
	return r;
}

int upper_show_below(int upper, int lower)
{
	return upper_spell_out(&(struct upper_dirs){ upper, lower }, 0);
}

int upper_drop(struct work *w, const struct op *op)
{
	struct upper_dirs d CLEANUP(upper_close) = { -1, -1 };
	const char *path = op->path, *name;
	char trash[40];
	struct stat st = { 0 };
	int r;

	if (w->mode == WORK_COPY)
		return upper_drop_copy(w, path);
	r = upper_parent(w, path, true, &d, &name);
	if (r == 0 && fstatat(d.upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
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

/* -------------------------------------------------------------------- contents */

int upper_write(int dir, const char *name, struct text text, const struct stat *like)
{
	int r = work_file_replace(dir, name, text.len ? text.data : "", text.len, true);

	if (r == 0 &&
	    fchownat(dir, name, like->st_uid, like->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == 0 && fchmodat(dir, name, like->st_mode & 07777, 0) < 0)
		r = -errno;
	return r;
}

void upper_edit_name(const struct op *op, char ret[32])
{
	(void)snprintf(ret, 32, "%llu", (unsigned long long)op->number);
}

static int upper_edited(struct work *w)
{
	if (mkdirat(w->dir_fd, UPPER_EDITED, 0700) < 0 && errno != EEXIST)
		return -errno;
	return beneath_dir(w->dir_fd, UPPER_EDITED, O_RDONLY);
}

int upper_stage_edit(struct work *w, const struct op *op, struct text text,
		     const struct stat *like)
{
	AUTO_CLOSE int dir = upper_edited(w);
	char name[32];

	upper_edit_name(op, name);
	return dir < 0 ? dir : upper_write(dir, name, text, like);
}

int upper_stage_part(struct work *w, const struct op *op, const struct change_at *from)
{
	struct tree_copy copy = { 0 };
	AUTO_CLOSE int dir = upper_edited(w), source = -1, fd = -1;
	char name[32];
	struct stat st;

	upper_edit_name(op, name);
	if (dir < 0)
		return dir;
	source = beneath_file(from->dir, from->name, &st);
	if (source < 0)
		return source;
	/* An interrupted accept may have left the file. */
	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		return -errno;
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return -errno;
	if (st.st_size > 0) {
		int r = tree_copy_contents(&copy, source, fd, &st);

		if (r < 0)
			return r;
	}
	if (fchown(fd, st.st_uid, st.st_gid) < 0 ||
	    fchmod(fd, (mode_t)op->new_mode) < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

int upper_edit(struct work *w, const struct op *op)
{
	AUTO_CLOSE int dir = beneath_dir(w->dir_fd, UPPER_EDITED, O_PATH),
		       upper = changes_upper(w);
	struct change_at at = { .dir = -1 };
	char name[32];
	struct stat st;
	int r = upper < 0 ? upper : 0;

	upper_edit_name(op, name);
	if (r < 0 || dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return r;
	r = change_at_open(upper, op->path, &at);
	if (r == 0 && renameat(dir, name, at.dir, at.name) < 0)
		r = -errno;
	close_p(&at.dir);
	return r;
}

/* --------------------------------------------------------------------- restore */

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

/* A directory is moved away first, so that it does not lose its files one by one. */
static int upper_remove(const struct work *w, int dir, const char *name)
{
	int r;

	accept_step("restore");
	if (unlinkat(dir, name, 0) == 0)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	r = tree_remove(w->dir_fd, w->dir_fd, UPPER_GONE);
	if (r < 0 && r != -ENOENT)
		return r;
	if (renameat(dir, name, w->dir_fd, UPPER_GONE) < 0)
		return -errno;
	accept_step("restored");
	return tree_remove(w->dir_fd, w->dir_fd, UPPER_GONE);
}

int upper_restore(struct work *w, const char *path)
{
	struct upper_dirs d CLEANUP(upper_close) = { -1, -1 };
	const char *name;
	int r = upper_parent(w, path, false, &d, &name);

	r = r < 0 ? r : upper_remove(w, d.upper, name);
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r == 0)
		upper_remove_empty(w, path);
	return r;
}

/* Does the sandbox have any entry in the directory? 1, 0 or -errno. */
static int upper_has_entries(int dir)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	const struct dir_entry *e;
	struct stat st;
	int r;

	if (!reader)
		return -ENOMEM;
	reader->fd = dir;
	while ((r = dir_next(reader, &e)) > 0)
		if (fstatat(dir, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !stat_is_whiteout(&st))
			return 1;
	return r;
}

int upper_restore_new_dir(struct work *w, const char *path)
{
	AUTO_CLOSE int upper = changes_upper(w), dir = -1;
	struct stat st;
	int r;

	dir = upper < 0 ? upper : beneath_dir(upper, path, O_RDONLY);
	r = dir < 0 ? dir : upper_has_entries(dir);
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r <= 0)
		return r < 0 ? r : upper_restore(w, path);
	if (fstat(dir, &st) < 0)
		return -errno;
	return fchmod(dir, st.st_mode & 07777 & ~(S_IWOTH | MODE_SET_ID)) < 0 ? -errno
									      : 0;
}

int upper_restore_mode(struct work *w, const char *path)
{
	AUTO_CLOSE int upper = changes_upper(w), lower = changes_lower(w), dir = -1;
	char at[48];
	struct stat st;
	int r = upper < 0 ? upper : lower < 0 ? lower : beneath_stat(lower, path, &st);

	if (r < 0)
		return r;
	dir = beneath_dir(upper, path, O_PATH);
	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	(void)snprintf(at, sizeof(at), "/proc/self/fd/%d", dir);
	return chmod(at, st.st_mode & 07777) < 0 ? -errno : 0;
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
