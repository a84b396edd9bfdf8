/* SPDX-License-Identifier: Apache-2.0 */
/* accept_finish.c - the journal, and what is done after an accept or after a crash */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "work/accept_internal.h"
#include "work/files_internal.h"
#include "work/reach.h"
#include "work/work_internal.h"

#define FINISH_SYNC_EACH 4 /* directories */

/* Make sure that the names of all files are on disk. */
static int finish_sync_dirs(struct work *w, const struct ops *ops)
{
	AUTO_FREE char *last = NULL;
	size_t n_dirs = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ops->n; i++) {
		const char *path = ops->v[i].path, *slash = strrchr(path, '/');
		size_t n = slash ? (size_t)(slash - path) : 0;
		char *parent;
		int fd;

		if (ops->v[i].kind > OP_CHMOD)
			break;
		if (last && strlen(last) == n && strncmp(last, path, n) == 0)
			continue;
		parent = strndup(path, n);
		if (!parent)
			return -ENOMEM;
		free(last);
		last = parent;
		fd = beneath_dir(w->project_fd, parent, O_RDONLY);
		/* It was removed. */
		if (fd < 0)
			continue;
		/* One call for all of them takes less time than many. */
		if (++n_dirs > FINISH_SYNC_EACH)
			r = syncfs(fd) < 0 ? -errno : 0;
		else if (fsync(fd) < 0)
			r = -errno;
		(void)close(fd);
		if (n_dirs > FINISH_SYNC_EACH)
			return r;
	}
	return r;
}

/* The user has not changed these files: the accept has. */
static int finish_known(struct work *w, const struct ops *ops)
{
	AUTO_CLOSE int staging = w->project_fd < 0 ? -1 : stage_open(w);
	int r = commit_release_links(w, staging, ops);
	bool any = r > 0;

	/* All of them before others are added, which have to be sorted again. */
	for (size_t i = 0; i < ops->n; i++)
		if (ops->v[i].kind == OP_PUT || ops->v[i].kind == OP_REMOVE)
			any |= known_forget_sum(w, ops->v[i].path);
	for (size_t i = 0; r >= 0 && i < ops->n; i++) {
		const struct op *op = &ops->v[i];
		bool is_new = op->kind == OP_PUT || op->kind == OP_MKDIR;
		uint64_t ino = is_new ? op->new.ino : op->old.ino;
		struct stat st;

		if (op->kind == OP_PUT
			    ? op->must
			    : op->kind != OP_MKDIR &&
				      ((op->kind != OP_CHMOD && op->kind != OP_WIDEN) ||
				       !op->clean))
			continue;
		if (beneath_stat(w->project_fd, op->path, &st) < 0 || st.st_ino != ino ||
		    (is_new && !op_file_same(&op->new, &st)))
			continue;
		r = known_add(w, op->path, &st);
		any = true;
	}
	return r < 0 ? r : any ? known_save(w) : 0;
}

/* With the originals in it: if possible, they are removed later. */
static int finish_discard_stage(struct work *w)
{
	char name[ID_LEN + 16], trash[64];

	if (w->project_fd < 0)
		return 0;
	stage_name(w->id, name);
	(void)snprintf(trash, sizeof(trash), "trash/originals-%d", (int)getpid());
	return renameat(w->project_fd, name, w->dir_fd, trash) == 0 ? 0 : stage_remove(w);
}

/* What is in a directory comes before the directory. */
static int finish_compare(const void *a, const void *b)
{
	return -strcmp((*(const struct op *const *)a)->path,
		       (*(const struct op *const *)b)->path);
}

/* Remove the directory of @op from the changes, if nothing else has changed in it. */
static void finish_drop_dir(const struct work *w, int upper, const struct op *op)
{
	struct change_at at = { .dir = -1 };
	AUTO_CLOSE int dir = -1;

	if (change_at_open(upper, op->path, &at) < 0)
		return;
	dir = S_ISDIR(at.st.st_mode) ? beneath_dir(at.dir, at.name, O_RDONLY) : -1;
	reach_mode(w, at.dir, at.name, &at.st);
	if (dir >= 0 && !dir_is_opaque(dir) && !(at.st.st_mode & MODE_SET_ID) &&
	    (op->kind == OP_MKDIR || (at.st.st_mode & 07777) == op->new_mode))
		(void)unlinkat(at.dir, at.name, AT_REMOVEDIR);
	close_p(&at.dir);
}

/*
 * Directories whose mode was accepted: that may deny access, so that nothing below them
 * could be compared afterwards.
 */
static int finish_drop_dirs(const struct work *w, const struct ops *ops)
{
	AUTO_FREE const struct op **dirs = calloc(ops->n + 1, sizeof(struct op *));
	AUTO_CLOSE int upper = changes_upper(w);
	size_t n = 0;

	if (!dirs || upper < 0)
		return dirs ? upper : -ENOMEM;
	for (size_t i = 0; i < ops->n; i++)
		if (ops->v[i].kind == OP_MKDIR || ops->v[i].kind == OP_CHMOD ||
		    ops->v[i].kind == OP_WIDEN)
			dirs[n++] = &ops->v[i];
	qsort(dirs, n, sizeof(struct op *), finish_compare);
	for (size_t i = 0; i < n; i++)
		finish_drop_dir(w, upper, dirs[i]);
	return 0;
}

/*
 * Each step can be repeated if it is interrupted. Whatever happens, nothing is left in
 * the project: it has all changes, and the originals are no longer needed.
 */
static int accept_finish(struct work *w, const struct ops *ops, struct warren_error *err)
{
	int r = finish_known(w, ops), discarded;

	if (mkdirat(w->dir_fd, "trash", 0700) < 0 && errno != EEXIST && r == 0)
		r = -errno;
	discarded = finish_discard_stage(w);
	for (size_t i = 0; r == 0 && i < ops->n; i++) {
		accept_step("finish");
		if (ops->v[i].kind == OP_DROP)
			r = upper_drop(w, &ops->v[i]);
		else if (ops->v[i].kind == OP_EDIT)
			r = upper_edit(w, &ops->v[i]);
		else if (ops->v[i].kind == OP_PART)
			r = upper_part_copy(w, &ops->v[i]);
	}
	r = r < 0 ? r : finish_drop_dirs(w, ops);
	if (r < 0)
		return error_errno(err, -r, "note what was accepted from work '%s'",
				   w->id);
	if (discarded < 0)
		return error_errno(err, -discarded,
				   "remove the temporary directory in '%s'", w->project);
	accept_step("remove journal");
	if (unlinkat(w->dir_fd, "journal.done", 0) < 0 && errno != ENOENT)
		return error_errno(err, errno, "remove the journal of work '%s'", w->id);
	(void)unlinkat(w->dir_fd, UPPER_EDITED, AT_REMOVEDIR);
	remove_behind(w->dir_fd, "trash", 20);
	return 0;
}

/* The journal must be gone from the disk before the files that it is about. */
static int recover_forget(struct work *w)
{
	if (unlinkat(w->dir_fd, "journal", 0) < 0 && errno != ENOENT)
		return -errno;
	return fsync(w->dir_fd) < 0 ? -errno : 0;
}

static int finish_commit(struct accept *a, struct warren_error *err)
{
	struct buf b AUTO_BUF = BUF_INIT(JOURNAL_SIZE_MAX);
	struct work *w = a->w;
	struct warren_error later;
	int r;

	ops_sort(&a->ops);
	journal_write(&b, &a->ops);
	r = b.failed ? -ENOMEM : stage_sync(a);
	if (r < 0)
		return error_errno(err, -r, "write the new files to disk");
	accept_step("journal");
	r = work_file_replace(w->dir_fd, "journal", b.data, b.len, true);
	if (r < 0)
		return error_errno(err, -r, "write the journal of work '%s'", w->id);
	r = commit_ops(w, a->staging, &a->ops, err);
	/* If it could not be undone, the journal stays, for another try. */
	if (r == -EUCLEAN)
		return r;
	if (r < 0)
		return recover_forget(w) < 0 ? -EUCLEAN : r;
	r = finish_sync_dirs(w, &a->ops);
	accept_step("done");
	if (r == 0 && renameat(w->dir_fd, "journal", w->dir_fd, "journal.done") < 0)
		r = -errno;
	if (r < 0) {
		(void)error_errno(err, -r, "write the project '%s' to disk", w->project);
		return commit_undo(w, a->staging, &a->ops, err) < 0 ||
				       recover_forget(w) < 0
			       ? -EUCLEAN
			       : r;
	}
	/*
	 * Now everything is accepted. What cannot be done now, for instance because the
	 * disk is full, is done before the next accept, or when the work is opened.
	 */
	if (fsync(w->dir_fd) == 0)
		(void)accept_finish(w, &a->ops, &later);
	return 0;
}

/* A key or a closed terminal does not leave the project half changed. */
int accept_commit(struct accept *a, struct warren_error *err)
{
	sigset_t later, old;
	int r;

	(void)sigemptyset(&later);
	(void)sigaddset(&later, SIGINT);
	(void)sigaddset(&later, SIGTERM);
	(void)sigaddset(&later, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &later, &old);
	r = finish_commit(a, err);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

static int recover_read(struct work *w, const char *name, struct ops *ret,
			struct warren_error *err)
{
	AUTO_FREE char *text = NULL;
	size_t n;
	int r = work_file_read_at(w->dir_fd, name, JOURNAL_SIZE_MAX, &text, &n);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return error_errno(err, -r, "read the journal of work '%s'", w->id);
	r = journal_parse(text, n, ret, err);
	return r < 0 ? error_wrap(err, "work '%s'", w->id) : 1;
}

int accept_recover(struct work *w, struct warren_error *err)
{
	struct ops ops AUTO_OPS = { 0 };
	char name[ID_LEN + 16];
	AUTO_CLOSE int staging = -1;
	int r;

	if (w->project_fd < 0)
		return 0;
	r = recover_read(w, "journal.done", &ops, err);
	if (r < 0)
		return r;
	if (r > 0) {
		r = reach_all(w, err);
		return r < 0 ? r : accept_finish(w, &ops, err);
	}
	r = recover_read(w, "journal", &ops, err);
	if (r < 0)
		return r;
	stage_name(w->id, name);
	staging = stage_open(w);
	/* Without a staging directory, there is nothing to undo: the accept had ended. */
	if (r > 0 && staging != -ENOENT) {
		if (staging < 0)
			return error_errno(err, -staging,
					   "open '%s/%s', which has the originals of an "
					   "accept that was interrupted",
					   w->project, name);
		r = commit_undo(w, staging, &ops, err);
		if (r < 0)
			return r;
		r = finish_sync_dirs(w, &ops);
		if (r < 0)
			return error_errno(err, -r, "write '%s' to disk", w->project);
	}
	r = recover_forget(w);
	r = r < 0 ? r : stage_remove(w);
	return r < 0 ? error_errno(err, -r,
				   "remove what an interrupted accept left in '%s'",
				   w->project)
		     : 0;
}
