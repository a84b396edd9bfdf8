/* SPDX-License-Identifier: Apache-2.0 */
/*
 * accept_commit.c - move staged files to their places, and back
 *
 * A new file and the old one change places in one step, so that there is a file under the
 * name at all times. What is now in the staging directory is checked: if it is not the
 * file that was there when the accept was planned, the user has just changed it, and
 * everything is undone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "work/accept_internal.h"
#include "work/files_internal.h"

/* How long an undo waits for directories that are not in their places. */
#define UNDO_WAIT_MS 500

void (*accept_step_hook)(const char *step);

/* An operation, and the directory that it changes. */
struct commit_at {
	struct op *op;
	int staging;
	int dir;
	const char *name;
	char new_name[32], old_name[32]; /* in the staging directory */
};

static int commit_at_open(int project, int staging, struct op *op, struct commit_at *ret)
{
	*ret = (struct commit_at){ .op = op, .staging = staging };
	(void)snprintf(ret->new_name, sizeof(ret->new_name), "n%llu",
		       (unsigned long long)op->number);
	(void)snprintf(ret->old_name, sizeof(ret->old_name), "o%llu",
		       (unsigned long long)op->number);
	ret->dir = beneath_parent(project, op->path, &ret->name);
	return ret->dir < 0 ? ret->dir : 0;
}

static int commit_stat(int dir, const char *name, struct stat *ret)
{
	return fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int commit_rename(int from, const char *old, int to, const char *new,
			 unsigned flags)
{
	struct stat st;

	if (renameat2(from, old, to, new, flags) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* The filesystem knows no flags. */
	if (flags != RENAME_NOREPLACE)
		return -EINVAL;
	if (commit_stat(to, new, &st) == 0)
		return -EEXIST;
	return renameat(from, old, to, new) < 0 ? -errno : 0;
}

/* Is it the file that was there when the accept was planned? */
static int commit_check_old(const struct commit_at *c)
{
	struct stat st;
	int r = commit_stat(c->dir, c->name, &st);

	if (r < 0)
		return r == -ENOENT ? -ESTALE : r;
	if (!op_file_same(&c->op->old, &st) ||
	    (c->op->old_ctime_ns && c->op->old_ctime_ns != stat_ctime_ns(&st)))
		return -ESTALE;
	return 0;
}

static int commit_check_taken(int dir, const char *name, const struct op_file *f)
{
	struct stat st;
	int r = commit_stat(dir, name, &st);

	return r < 0 ? r : op_file_same(f, &st) ? 0 : -ESTALE;
}

/* ------------------------------------------------------------------- operations */

static int commit_remove(struct commit_at *c)
{
	int r = commit_check_old(c);

	r = r < 0 ? r
		  : commit_rename(c->dir, c->name, c->staging, c->old_name,
				  RENAME_NOREPLACE);
	return r < 0 ? r : commit_check_taken(c->staging, c->old_name, &c->op->old);
}

static int commit_is_empty(int dir, const char *name)
{
	AUTO_CLOSE int fd =
		openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dir_reader reader = { .fd = fd };
	const struct dir_entry *e;
	int r = fd < 0 ? -errno : dir_next(&reader, &e);

	return r < 0 ? r : r == 0;
}

/* A directory that the user has put something into stays, unless it is in the way. */
static int commit_rmdir(struct commit_at *c)
{
	struct stat st;
	int r = commit_is_empty(c->dir, c->name);

	if (r < 0)
		return c->op->must ? r : 0;
	if (r == 0)
		return c->op->must ? -ENOTEMPTY : 0;
	r = commit_stat(c->dir, c->name, &st);
	if (r < 0)
		return r;
	if (st.st_ino != c->op->old.ino)
		return c->op->must ? -ESTALE : 0;
	r = commit_rename(c->dir, c->name, c->staging, c->old_name, RENAME_NOREPLACE);
	if (r < 0)
		return r;
	if (commit_is_empty(c->staging, c->old_name) == 1)
		return 0;
	r = commit_rename(c->staging, c->old_name, c->dir, c->name, RENAME_NOREPLACE);
	return r < 0 ? r : c->op->must ? -ENOTEMPTY : 0;
}

static int commit_mkdir(struct commit_at *c)
{
	struct stat st;
	int r = commit_rename(c->staging, c->new_name, c->dir, c->name, RENAME_NOREPLACE);

	if (r == -EEXIST && commit_stat(c->dir, c->name, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	return r == -EEXIST ? -ESTALE : r;
}

static int commit_put(struct commit_at *c)
{
	int r;

	if (!c->op->old.ino) {
		r = commit_rename(c->staging, c->new_name, c->dir, c->name,
				  RENAME_NOREPLACE);
		return r == -EEXIST ? -ESTALE : r;
	}
	r = commit_check_old(c);
	if (r < 0)
		return r;
	r = commit_rename(c->staging, c->new_name, c->dir, c->name, RENAME_EXCHANGE);
	if (r == 0)
		return commit_check_taken(c->staging, c->new_name, &c->op->old);
	if (r != -EINVAL)
		return r;
	r = commit_rename(c->dir, c->name, c->staging, c->old_name, RENAME_NOREPLACE);
	r = r < 0 ? r : commit_check_taken(c->staging, c->old_name, &c->op->old);
	return r < 0 ? r
		     : commit_rename(c->staging, c->new_name, c->dir, c->name,
				     RENAME_NOREPLACE);
}

static int commit_set_mode(const struct commit_at *c, const struct op_file *f,
			   uint64_t mode)
{
	AUTO_CLOSE int fd = openat(c->dir, c->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char path[48];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if ((!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) || st.st_ino != f->ino)
		return -ESTALE;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return chmod(path, (mode_t)mode & 07777) < 0 ? -errno : 0;
}

static int commit_chmod(struct commit_at *c)
{
	struct stat st;
	int r = commit_check_old(c);

	r = r < 0 ? r : commit_stat(c->dir, c->name, &st);
	if (r == 0 && (st.st_mode & 07777) != c->op->old_mode)
		r = -ESTALE;
	return r < 0 ? r : commit_set_mode(c, &c->op->old, c->op->new_mode);
}

/* ------------------------------------------------------------------------- undo */

/*
 * Put the original @name back from the staging directory. If the user has made another
 * file in its place, the original gets a name next to it: nothing is lost.
 */
static int undo_put_back(struct commit_at *c, const char *name)
{
	char other[300];
	int r = commit_rename(c->staging, name, c->dir, c->name, RENAME_NOREPLACE);

	for (unsigned i = 1; r == -EEXIST && i < 100; i++) {
		(void)snprintf(other, sizeof(other), "%.200s.original-%u", c->name, i);
		r = commit_rename(c->staging, name, c->dir, other, RENAME_NOREPLACE);
	}
	return r;
}

static bool undo_has(int dir, const char *name, const struct op_file *f)
{
	return f->ino && commit_check_taken(dir, name, f) == 0;
}

static int undo_taken(struct commit_at *c)
{
	struct stat st;

	int r = commit_stat(c->staging, c->old_name, &st);

	return r == -ENOENT ? 0 : r < 0 ? r : undo_put_back(c, c->old_name);
}

static int undo_mkdir(struct commit_at *c)
{
	if (!undo_has(c->dir, c->name, &c->op->new))
		return 0;
	/* What the user has put into it stays. */
	return unlinkat(c->dir, c->name, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY &&
			       errno != EEXIST
		       ? -errno
		       : 0;
}

/* The new file is in place if it is no longer in the staging directory. */
static int undo_put(struct commit_at *c)
{
	bool placed = undo_has(c->dir, c->name, &c->op->new);
	struct stat st;
	int r;

	/* They changed places. */
	if (c->op->old.ino && commit_stat(c->staging, c->new_name, &st) == 0 &&
	    st.st_ino != c->op->new.ino) {
		if (placed)
			return commit_rename(c->staging, c->new_name, c->dir, c->name,
					     RENAME_EXCHANGE);
		return undo_put_back(c, c->new_name);
	}
	if (placed) {
		r = commit_rename(c->dir, c->name, c->staging, c->new_name,
				  RENAME_NOREPLACE);
		if (r < 0)
			return r;
	}
	return undo_taken(c);
}

static int undo_chmod(struct commit_at *c)
{
	struct stat st;
	int r = commit_stat(c->dir, c->name, &st);

	if (r < 0 || st.st_ino != c->op->old.ino ||
	    (st.st_mode & 07777) != (c->op->new_mode & 07777))
		return 0;
	return commit_set_mode(c, &c->op->old, c->op->old_mode);
}

static const struct {
	const char *what;
	int (*commit)(struct commit_at *c);
	int (*undo)(struct commit_at *c);
} commit_table[OP_KIND_MAX] = {
	[OP_WIDEN] = { "change the mode of", commit_chmod, undo_chmod },
	[OP_REMOVE] = { "remove", commit_remove, undo_taken },
	[OP_RMDIR] = { "remove the directory", commit_rmdir, undo_taken },
	[OP_MKDIR] = { "create the directory", commit_mkdir, undo_mkdir },
	[OP_PUT] = { "write", commit_put, undo_put },
	[OP_CHMOD] = { "change the mode of", commit_chmod, undo_chmod },
};

/* ------------------------------------------------------------------- hard links */

static int links_compare(const void *a, const void *b)
{
	const struct op *x = *(struct op *const *)a, *y = *(struct op *const *)b;

	if (x->old.ino != y->old.ino)
		return x->old.ino < y->old.ino ? -1 : 1;
	return x < y ? -1 : x > y;
}

/*
 * The next operation on another name of the same file, for each one: *@ret has an index,
 * or 0. A rename of one name changes the ctime that the others have, too.
 */
static int links_find(const struct ops *ops, size_t **ret)
{
	AUTO_FREE struct op **sorted = calloc(ops->n + 1, sizeof(struct op *));
	AUTO_FREE size_t *next = calloc(ops->n + 1, sizeof(*next));
	size_t n = 0;

	if (!sorted || !next)
		return -ENOMEM;
	for (size_t i = 0; i < ops->n; i++)
		if (ops->v[i].old_ctime_ns)
			sorted[n++] = &ops->v[i];
	qsort(sorted, n, sizeof(struct op *), links_compare);
	for (size_t i = 1; i < n; i++)
		if (sorted[i]->old.ino == sorted[i - 1]->old.ino)
			next[sorted[i - 1] - ops->v] = (size_t)(sorted[i] - ops->v);
	*ret = TAKE_PTR(next);
	return 0;
}

/* Get the status of the original of @op, which is in the staging directory now. */
static int links_original(int staging, const struct op *op, char ret_name[32],
			  struct stat *ret)
{
	static const char letters[] = { 'o', 'n' };

	for (size_t i = 0; i < sizeof(letters); i++) {
		(void)snprintf(ret_name, 32, "%c%llu", letters[i],
			       (unsigned long long)op->number);
		if (commit_stat(staging, ret_name, ret) == 0 &&
		    ret->st_ino == op->old.ino)
			return 0;
	}
	return -ENOENT;
}

/* What the accept itself did to the file does not look like a change by the user. */
static void links_follow(int staging, const struct op *op, struct op *next)
{
	char name[32];
	struct stat st;

	if (links_original(staging, op, name, &st) == 0)
		next->old_ctime_ns = stat_ctime_ns(&st);
}

int commit_release_links(struct work *w, int staging, const struct ops *ops)
{
	int n = 0, r = 0;

	for (size_t i = 0; r == 0 && staging >= 0 && i < ops->n; i++) {
		const struct op *op = &ops->v[i];
		AUTO_CLOSE int fd = -1;
		char name[32];
		struct stat st;

		if ((op->kind != OP_PUT && op->kind != OP_REMOVE) || !op->old.ino ||
		    !op->clean || links_original(staging, op, name, &st) < 0 ||
		    st.st_nlink < 2)
			continue;
		/* The removal of a name is the last change of the ctime. */
		fd = openat(staging, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || unlinkat(staging, name, 0) < 0 || fstat(fd, &st) < 0)
			continue;
		r = known_add_inode(w, &st);
		n++;
	}
	return r < 0 ? r : n > 0;
}

/* -------------------------------------------------------------------------- all */

/* The user has not changed the original, although it has a new ctime now. */
static int undo_known(struct work *w, const struct commit_at *c, bool *any)
{
	struct stat st;

	if (!c->op->clean || commit_stat(c->dir, c->name, &st) < 0 ||
	    !op_file_same(&c->op->old, &st))
		return 0;
	*any = true;
	if (S_ISREG(st.st_mode) && st.st_nlink > 1)
		return known_add_inode(w, &st);
	return known_add(w, c->op->path, &st);
}

/* The name in the staging directory of an original that must not be lost; NULL: none. */
static const char *undo_original(const struct commit_at *c)
{
	struct stat st;

	if (c->op->kind == OP_RMDIR && commit_is_empty(c->staging, c->old_name) == 1)
		return NULL;
	if (commit_stat(c->staging, c->old_name, &st) == 0)
		return c->old_name;
	return c->op->kind == OP_PUT && c->op->old.ino &&
			       commit_stat(c->staging, c->new_name, &st) == 0 &&
			       st.st_ino != c->op->new.ino
		       ? c->new_name
		       : NULL;
}

/* Was the operation done, or a part of it? A mode is not worth waiting for. */
static bool undo_is_needed(const struct commit_at *c)
{
	struct stat st;

	return undo_original(c) ||
	       ((c->op->kind == OP_PUT || c->op->kind == OP_MKDIR) &&
		c->op->new.ino &&commit_stat(c->staging, c->new_name, &st) == -ENOENT);
}

static bool undo_is_gone(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EXDEV;
}

/*
 * Open the directory of the operation. If another directory or a link has taken its
 * place, it may be back in a moment: wait for at most *@naps milliseconds in total.
 */
static int undo_open(int project, int staging, struct op *op, unsigned *naps,
		     struct commit_at *ret)
{
	int r = commit_at_open(project, staging, op, ret);

	while (undo_is_gone(r) && *naps > 0 && undo_is_needed(ret)) {
		--*naps;
		(void)usleep(1000);
		r = commit_at_open(project, staging, op, ret);
	}
	return r;
}

/*
 * The directory of the operation was not created, or the user has moved or removed it. An
 * original goes to the nearest directory above that exists. 1: there was one, and @err
 * says where it is; 0: there was none.
 */
static int undo_elsewhere(int project, struct commit_at *c, struct warren_error *err)
{
	const char *path = c->op->path, *slash = strrchr(path, '/');
	AUTO_FREE char *above = strndup(path, slash ? (size_t)(slash - path) : 0);
	const char *from = undo_original(c);
	AUTO_CLOSE int dir = -1;
	char name[300];
	int r;

	if (!from)
		return 0;
	if (!above)
		return -ENOMEM;
	do {
		char *end = strrchr(above, '/');

		above[end ? end - above : 0] = '\0';
		dir = beneath_dir(project, above, O_PATH);
	} while (dir < 0 && *above);
	r = dir < 0 ? dir : -EEXIST;
	for (unsigned i = 1; r == -EEXIST && i < 100; i++) {
		(void)snprintf(name, sizeof(name), "%.200s.original-%u",
			       slash ? slash + 1 : path, i);
		r = commit_rename(c->staging, from, dir, name, RENAME_NOREPLACE);
	}
	if (r < 0)
		return r;
	(void)error_set(
		err, ESTALE,
		"the directory of '%s' was moved or removed at the same time; the "
		"original file is now '%s%s%s'",
		path, above, *above ? "/" : "", name);
	return 1;
}

int commit_undo(struct work *w, int staging, struct ops *ops, struct warren_error *err)
{
	struct warren_error where = WARREN_ERROR_INIT;
	unsigned naps = UNDO_WAIT_MS;
	size_t elsewhere = 0;
	int result = 0;
	bool any = false;

	for (size_t i = ops->n; i-- > 0;) {
		struct op *op = &ops->v[i];
		struct commit_at c;
		int r;

		if (!commit_table[op->kind].undo)
			continue;
		accept_step("undo");
		r = undo_open(w->project_fd, staging, op, &naps, &c);
		if (undo_is_gone(r)) {
			r = undo_elsewhere(w->project_fd, &c, &where);
			elsewhere += r > 0;
		} else {
			r = r < 0 ? r : commit_table[op->kind].undo(&c);
			r = r < 0 ? r : undo_known(w, &c, &any);
		}
		close_p(&c.dir);
		if (r < 0)
			result =
				error_errno(err, -r, "undo the change of '%s'", op->path);
	}
	if (any && result >= 0 && known_save(w) < 0)
		return error_set(err, EIO, "store the record of work '%s'", w->id);
	if (result < 0 || elsewhere == 0)
		return result;
	*err = where;
	if (elsewhere > 1)
		(void)error_set(err, ESTALE,
				"%.300s; %zu other%s kept in the same way, as files with "
				"'.original-' and a number at the end of the name",
				where.msg, elsewhere - 1,
				elsewhere == 2 ? " is" : "s are");
	return 1;
}

static int commit_fail(const struct op *op, int r, struct warren_error *err)
{
	switch (r) {
	case -ESTALE:
		return error_set(err, ESTALE,
				 "'%s' was changed at the same time, so nothing was "
				 "accepted: try again",
				 op->path);
	case -ELOOP:
	case -ENOTDIR:
		return error_set(err, -r,
				 "'%s' leads through a link or a file, so nothing was "
				 "accepted",
				 op->path);
	case -EXDEV:
		return error_set(err, EXDEV,
				 "'%s' is on another filesystem than the project, so "
				 "nothing was accepted",
				 op->path);
	default:
		return error_errno(err, -r, "%s '%s' (nothing was accepted)",
				   commit_table[op->kind].what, op->path);
	}
}

int commit_ops(struct work *w, int staging, struct ops *ops, struct warren_error *err)
{
	struct warren_error undo = WARREN_ERROR_INIT, why = WARREN_ERROR_INIT;
	AUTO_FREE size_t *next = NULL;

	if (links_find(ops, &next) < 0)
		return error_errno(err, ENOMEM, "accept the changes");
	for (size_t i = 0; i < ops->n; i++) {
		struct op *op = &ops->v[i];
		struct commit_at c;
		int r;

		if (!commit_table[op->kind].commit)
			continue;
		accept_step("commit");
		r = commit_at_open(w->project_fd, staging, op, &c);
		r = r < 0 ? r : commit_table[op->kind].commit(&c);
		close_p(&c.dir);
		if (r < 0) {
			int undone = commit_undo(w, staging, ops, &undo);

			(void)commit_fail(op, r, &why);
			*err = why;
			return undone == 0
				       ? r
				       : error_set(err, undone < 0 ? EUCLEAN : -r,
						   "%.400s; %.500s", why.msg, undo.msg);
		}
		if (next[i])
			links_follow(staging, op, &ops->v[next[i]]);
	}
	accept_step("committed");
	return 0;
}
