/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_tree_ops.c - change a whole tree: remove it, or set its mode or owner
 *
 * One request changes a part of the entries of a directory. A directory is changed after
 * its entries, so that the change does not remove permissions that are needed for them.
 * If a tree is too deep to keep all its directories open, its deep parts are moved to the
 * top while it is removed.
 *
 * On backends where each request runs a program inside, one request changes the whole
 * tree.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "service/files/files.h"

#define FLATTEN_DEPTH 128
#define ROUNDS_MAX    100000

struct tree_job {
	struct files *files;
	struct walk *walk;
	struct files_change change;
	char path[4096];
	unsigned rounds, moved;
	service_done_fn done;
	void *ctx;
};

struct tree_job *tree_free(struct tree_job *t)
{
	if (t)
		t->walk = walk_free(t->walk);
	free(t);
	return NULL;
}

static void file_tree_ops_over(struct tree_job *t, const struct warren_error *err)
{
	service_done_fn done = t->done;
	void *ctx = t->ctx;
	struct warren_error copy = WARREN_ERROR_INIT;

	if (err)
		copy = *err;
	(void)tree_free(t);
	done(ctx, err ? -copy.code : 0, &copy);
}

static bool file_tree_ops_removes(const struct tree_job *t)
{
	return t->change.verb == PROTO_UNLINK;
}

static void begin_walk(struct tree_job *t);

/* Change the path itself, after everything below it. */
static void on_top(void *ctx, struct files_answer *a UNUSED,
		   const struct warren_error *err)
{
	struct tree_job *t = ctx;

	/* Directories that were moved to the top were added after the walk had passed
	 * there, so walk again. */
	if (err && err->code == ENOTEMPTY && t->moved > 0 && t->rounds < ROUNDS_MAX)
		begin_walk(t);
	else
		file_tree_ops_over(t, err);
}

/*
 * Is one request enough? Not if the new mode forbids users other than root to enter a
 * directory: the tool begins at the top, so it could not enter directories that it has
 * already changed.
 */
static bool at_once(const struct tree_job *t)
{
	return files_are_copies(t->files) &&
	       (t->change.verb != PROTO_CHMOD || files_uid(t->files) == 0 ||
		(t->change.mode & 0700) == 0700);
}

static void file_tree_ops_on_all(void *ctx, struct files_answer *a UNUSED,
				 const struct warren_error *err)
{
	if (err && err->code == EINVAL)
		begin_walk(ctx);
	else
		file_tree_ops_over(ctx, err);
}

static void file_tree_ops_change_all(struct tree_job *t)
{
	struct files_change c = t->change;

	c.dir = c.to = -1;
	c.verb = c.verb == PROTO_UNLINK  ? PROTO_UNLINK_TREE
		 : c.verb == PROTO_CHMOD ? PROTO_CHMOD_TREE
					 : PROTO_CHOWN_TREE;
	files_change_one(t->files, c, t->path, NULL, file_tree_ops_on_all, t);
}

static void change_top(struct tree_job *t)
{
	struct files_change c = t->change;

	c.dir = c.to = -1;
	if (file_tree_ops_removes(t))
		c.verb = PROTO_RMDIR;
	else if (c.verb == PROTO_CHMOD)
		c.flags |= PROTO_CHANGE_FOLLOW;
	files_change_one(t->files, c, t->path, NULL, on_top, t);
}

static void file_tree_ops_on_walked(void *ctx, int r, const struct warren_error *err)
{
	struct tree_job *t = ctx;

	t->walk = NULL;
	/* There is nothing to walk: only the path itself is changed. */
	if (r == 0 || r == -ENOTDIR || r == -ELOOP)
		change_top(t);
	else
		file_tree_ops_over(t, err);
}

static void file_tree_ops_on_changed(void *ctx, struct files_answer *a UNUSED,
				     const struct warren_error *err)
{
	struct tree_job *t = ctx;

	if (err) {
		t->walk = walk_free(t->walk);
		file_tree_ops_over(t, err);
		return;
	}
	walk_go_on(t->walk, WALK_ON);
}

/* Change all entries that are not directories with one request. */
static enum walk_say on_batch(void *ctx, int dir, const char *path UNUSED,
			      const char *entries, size_t size)
{
	struct tree_job *t = ctx;
	AUTO_BUF struct buf names = BUF_INIT(FILES_NAMES_MAX);
	struct files_change c = t->change;
	struct proto_found found;

	c.dir = dir;
	c.to = -1;
	c.flags |= PROTO_CHANGE_LENIENT;
	for (size_t at = 0; proto_next(entries, size, &at, &found) == 1;) {
		if (S_ISDIR(found.is.mode))
			continue;
		buf_add(&names, found.name, found.is.name_size + 1U);
		c.n++;
	}
	if (c.n == 0)
		return WALK_ON;
	c.names = names.data;
	c.size = names.failed ? 0 : names.len;
	files_change(t->files, &c, file_tree_ops_on_changed, t);
	return WALK_WAIT;
}

static void file_tree_ops_on_moved(void *ctx, struct files_answer *a UNUSED,
				   const struct warren_error *err UNUSED)
{
	struct tree_job *t = ctx;

	/* If the directory cannot be moved, the depth is reported as an error later. */
	t->moved += !err;
	walk_go_on(t->walk, err ? WALK_ON : WALK_PAST);
}

static enum walk_say file_tree_ops_on_entry(void *ctx, const struct walk_entry *e)
{
	struct tree_job *t = ctx;
	struct files_change c = { .verb = PROTO_RENAME, .flags = PROTO_CHANGE_KEEP };
	char id[ID_LEN + 1], name[32];

	if (!file_tree_ops_removes(t) || e->depth < FLATTEN_DEPTH ||
	    !S_ISDIR(e->found->is.mode))
		return WALK_ON;
	id_make(id);
	(void)snprintf(name, sizeof(name), ".%s~", id);
	c.dir = e->dir;
	c.to = walk_root(t->walk);
	files_change_one(t->files, c, e->name, name, file_tree_ops_on_moved, t);
	return WALK_WAIT;
}

/* Change a directory after its entries. */
static enum walk_say on_leave(void *ctx, const struct walk_entry *e)
{
	struct tree_job *t = ctx;
	struct files_change c = t->change;

	c.dir = e->dir;
	c.to = -1;
	c.flags |= PROTO_CHANGE_LENIENT;
	if (file_tree_ops_removes(t))
		c.verb = PROTO_RMDIR;
	files_change_one(t->files, c, e->name, NULL, file_tree_ops_on_changed, t);
	return WALK_WAIT;
}

static void begin_walk(struct tree_job *t)
{
	static const struct walk_options options = { .nofollow = true,
						     .strict = true,
						     .batch = on_batch,
						     .entry = file_tree_ops_on_entry,
						     .leave = on_leave,
						     .end = file_tree_ops_on_walked };

	t->rounds++;
	t->moved = 0;
	walk_start(t->files, t->path, &options, t, &t->walk);
}

void tree_change(struct files *f, const char *path, const struct files_change *change,
		 service_done_fn done, void *ctx, struct tree_job **ret)
{
	struct tree_job *t = calloc(1, sizeof(*t));
	struct warren_error err = WARREN_ERROR_INIT;

	*ret = NULL;
	if (!t || strlen(path) >= sizeof(t->path)) {
		free(t);
		(void)error_errno(&err, ENOMEM, "change '%.40s'", path);
		done(ctx, -ENOMEM, &err);
		return;
	}
	t->files = f;
	t->change = *change;
	t->done = done;
	t->ctx = ctx;
	(void)strcpy(t->path, path);
	*ret = t;
	if (at_once(t))
		file_tree_ops_change_all(t);
	else
		begin_walk(t);
}
