/* SPDX-License-Identifier: Apache-2.0 */
/* accept_plan.c - what has to be done to the project for one change */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "work/accept_internal.h"
#include "work/base.h"
#include "work/files_internal.h"
#include "work/reach.h"

/* A change, and the file on both sides as it is now. */
struct plan {
	struct accept *a;
	const struct change *c;
	const struct patch *hunks, *remains;
	unsigned allow; /* enum change_guard, combined */
	bool yours_exists;
	struct change_at yours, theirs; /* dir -1: it does not exist */
	mode_t mode; /* of the file or directory afterwards, without the type */
	bool drop;   /* the sandbox's change is done with afterwards */
};

static int plan_error(const struct plan *p, int r, struct warren_error *err)
{
	if (r == -EXDEV)
		return error_set(err, EXDEV,
				 "'%s' is on another filesystem than the project",
				 p->c->path);
	if (r == -ELOOP || r == -ENOTDIR)
		return error_set(err, -r,
				 "a part of the path '%s' is a link or a file in the "
				 "project, so nothing was accepted",
				 p->c->path);
	return error_errno(err, -r, "prepare '%s'", p->c->path);
}

/* ---------------------------------------------------------------- permissions */

static int plan_check_guards(const struct plan *p, struct warren_error *err)
{
	unsigned missing = p->c->guard & ~(p->allow & ~(unsigned)GUARD_DEVICE);
	enum change_guard guard;

	/* The bit stays a change; but if that is all, nothing would be accepted. */
	if (!change_is_set_id_only(p->c))
		missing &= ~(unsigned)GUARD_SETID;
	if (p->c->ignored && !p->a->o->ignored)
		return error_set(err, EPERM,
				 "'%s' is ignored by .gitignore, and is accepted only on "
				 "request (--ignored)",
				 p->c->path);
	if (!missing)
		return 0;
	guard = (enum change_guard)(missing & -missing);
	return error_set(err, EPERM, "'%s' is not accepted: %s%s%s%s", p->c->path,
			 change_guard_reason(guard),
			 guard == GUARD_DEVICE ? "" : " (allow it with --allow ",
			 guard == GUARD_DEVICE ? "" : change_guard_name(guard),
			 guard == GUARD_DEVICE ? "" : ")");
}

/* ------------------------------------------------------------------ operations */

static struct op *plan_op(const struct plan *p, enum op_kind kind, const char *path)
{
	return ops_add(&p->a->ops, kind, path);
}

static void plan_expect(const struct plan *p, struct op *op)
{
	op->old = op_file_of(&p->yours.st);
	/* The ctime of a directory is that of its last entry, too. */
	op->old_ctime_ns = S_ISDIR(p->yours.st.st_mode) ? 0 : stat_ctime_ns(&p->yours.st);
	/* If the file was replaced with the same contents, its other names may differ. */
	op->clean = S_ISDIR(p->yours.st.st_mode) ||
		    !known_written(p->a->w, op->path, &p->yours.st);
}

/* Create the directory of @path with the mode @mode. */
static int plan_stage_dir(const struct plan *p, const char *path, mode_t mode)
{
	struct op *op = plan_op(p, OP_MKDIR, path);
	struct op_file made;
	int r = op ? stage_dir(p->a, op, mode | S_IRWXU) : -ENOMEM;

	if (r < 0 || (mode & S_IRWXU) == S_IRWXU)
		return r;
	/* What is put into it must be there before that is forbidden. */
	made = op->new;
	op = plan_op(p, OP_CHMOD, path);
	if (!op)
		return -ENOMEM;
	op->old = made;
	op->old_mode = mode | S_IRWXU;
	op->new_mode = mode;
	return 0;
}

/*
 * A new directory has the sandbox's mode; without permission, only the set-id bit that
 * the kernel would give to it.
 */
static int plan_dir_mode(const struct plan *p, const char *path, mode_t *ret)
{
	struct change_at at = { .dir = -1 };
	int r = change_at_open(p->a->upper, path, &at);

	if (r < 0)
		return r;
	reach_mode(p->a->w, at.dir, at.name, &at.st);
	close_p(&at.dir);
	if (!S_ISDIR(at.st.st_mode))
		return -ESTALE;
	*ret = p->allow & GUARD_SETID
		       ? at.st.st_mode & 07777
		       : (at.st.st_mode & 01777) | stage_inherit(p->a, path, NULL);
	return 0;
}

/* Is there a link above @path that another change of this call removes? */
static bool plan_removes_above(const struct plan *p, const char *path)
{
	for (const char *slash = strchr(path, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		AUTO_FREE char *above = strndup(path, (size_t)(slash - path));

		if (above && ops_has(&p->a->ops, OP_REMOVE, above))
			return true;
	}
	return false;
}

/* Directories above @path that the project does not have. */
static int plan_parents(const struct plan *p, const char *path)
{
	AUTO_FREE char *copy = strdup(path);
	char *slash;

	if (!copy)
		return -ENOMEM;
	while ((slash = strrchr(copy, '/')) != NULL) {
		struct stat st;
		mode_t mode;
		int r;

		*slash = '\0';
		r = beneath_stat(p->a->w->project_fd, copy, &st);
		if (r == 0 && S_ISDIR(st.st_mode))
			return 0;
		/* A file is in the way: another change of this call must remove it. */
		if (r < 0 && r != -ENOENT && r != -ENOTDIR &&
		    !(r == -ELOOP && plan_removes_above(p, copy)))
			return r;
		if (ops_has(&p->a->ops, OP_MKDIR, copy))
			return 0;
		r = plan_dir_mode(p, copy, &mode);
		r = r < 0 ? r : plan_stage_dir(p, copy, mode);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Directories above @path that the sandbox no longer has. */
static int plan_empty_parents(const struct plan *p, const char *path)
{
	AUTO_FREE char *copy = strdup(path);
	char *slash;

	if (!copy)
		return -ENOMEM;
	while ((slash = strrchr(copy, '/')) != NULL) {
		struct stat st;
		struct op *op;

		*slash = '\0';
		/* Then those above it are removed, too. */
		if (ops_has(&p->a->ops, OP_RMDIR, copy))
			return 0;
		if (upper_has_dir(p->a->upper, p->a->lower, copy) ||
		    beneath_stat(p->a->w->project_fd, copy, &st) < 0 ||
		    !S_ISDIR(st.st_mode))
			return 0;
		op = plan_op(p, OP_RMDIR, copy);
		if (!op)
			return -ENOMEM;
		op->old = op_file_of(&st);
	}
	return 0;
}

/* -------------------------------------------------------------------- conflicts */

/*
 * 1: take the sandbox's version in spite of the conflict; 2: the contents with markers;
 * 0: it is recorded.
 */
static int plan_conflict(const struct plan *p, struct accept_merge *m,
			 struct warren_error *err)
{
	int r;

	if (p->a->o->conflicts == ACCEPT_THEIRS)
		return 1;
	r = accept_conflict_add(p->a, p->c->path, m, err);
	if (r < 0)
		return r;
	return p->a->o->conflicts == ACCEPT_MARKERS && m->out.data && m->theirs.exists
		       ? 2
		       : 0;
}

/* Has the user's file something that the sandbox did not see? */
static bool plan_touched(const struct plan *p)
{
	AUTO_CHANGE_SIDE struct change_side shown = { 0 };

	return p->yours_exists && (known_touched(p->a->w, p->c->path, &p->yours.st) ||
				   base_shown(p->a->w, p->c, &shown) != 0);
}

/* ------------------------------------------------------------------------ kinds */

static const char plan_in_the_way[] = "you have a file where the sandbox has a directory";

/* Remove a file of the user. */
static int plan_remove(struct plan *p, const char *path, struct warren_error *err)
{
	struct change_at at = { .dir = -1 };
	struct accept_merge m = { 0 };
	struct op *op;
	int r = change_at_open(p->a->w->project_fd, path, &at);

	if (r == -ENOENT || r == -ENOTDIR)
		return 1;
	if (r < 0)
		return plan_error(p, r, err);
	close_p(&p->yours.dir);
	p->yours = at;
	if (S_ISDIR(at.st.st_mode))
		m.reason = "you replaced the file with a directory";
	else if (known_touched(p->a->w, path, &at.st))
		r = accept_merge(p->a, p->c, NULL, &at, NULL, &m, err);
	if (r == 0 && m.reason) {
		r = plan_conflict(p, &m, err);
		accept_merge_done(&m);
		if (r <= 0 || S_ISDIR(at.st.st_mode))
			return r < 0 ? r : 0;
	}
	op = r < 0 ? NULL : plan_op(p, OP_REMOVE, path);
	if (r < 0)
		return r;
	if (!op)
		return plan_error(p, -ENOMEM, err);
	plan_expect(p, op);
	r = plan_empty_parents(p, path);
	return r < 0 ? plan_error(p, r, err) : 1;
}

static int plan_rmdir(struct plan *p, bool must, struct warren_error *err)
{
	struct op *op;

	if (!p->yours_exists)
		return 1;
	if (!S_ISDIR(p->yours.st.st_mode)) {
		struct accept_merge m = {
			.reason = "you replaced the directory, and the sandbox removed it"
		};
		int r = plan_conflict(p, &m, err);

		if (r != 1)
			return r < 0 ? r : 0;
		op = plan_op(p, OP_REMOVE, p->c->path);
		if (!op)
			return plan_error(p, -ENOMEM, err);
		plan_expect(p, op);
		return 1;
	}
	op = plan_op(p, OP_RMDIR, p->c->path);
	if (!op)
		return plan_error(p, -ENOMEM, err);
	op->old = op_file_of(&p->yours.st);
	op->must = must;
	return plan_empty_parents(p, p->c->path) < 0 ? plan_error(p, -ENOMEM, err) : 1;
}

/*
 * The user may have a file where the sandbox has a directory: *@ret is its path, or NULL.
 * It does no harm if another change of this call removes it.
 */
static int plan_find_in_the_way(const struct plan *p, const char *path, char **ret)
{
	AUTO_FREE char *copy = strdup(path);
	char *slash;

	*ret = NULL;
	if (!copy)
		return -ENOMEM;
	while ((slash = strrchr(copy, '/')) != NULL) {
		struct stat st;
		int r;

		*slash = '\0';
		r = beneath_stat(p->a->w->project_fd, copy, &st);
		if (r == 0 && !S_ISDIR(st.st_mode) &&
		    !ops_has(&p->a->ops, OP_REMOVE, copy))
			*ret = TAKE_PTR(copy);
		if (r == 0)
			return 0;
	}
	return 0;
}

/* 1: nothing is in the way of @path now; 0: there is a conflict. */
static int plan_clear_the_way(struct plan *p, const char *path, struct warren_error *err)
{
	struct accept_merge m = { .reason = plan_in_the_way };
	AUTO_FREE char *file = NULL;
	struct plan other = *p;
	struct op *op;
	int r = plan_find_in_the_way(p, path, &file);

	if (r == 0 && !file)
		return 1;
	if (r == 0 && p->theirs.dir >= 0 && !S_ISDIR(p->theirs.st.st_mode))
		r = change_side_read(&p->theirs, &m.theirs);
	r = r < 0 ? plan_error(p, r, err) : plan_conflict(p, &m, err);
	accept_merge_done(&m);
	if (r != 1)
		return r < 0 ? r : 0;
	r = beneath_stat(p->a->w->project_fd, file, &other.yours.st);
	op = r < 0 ? NULL : plan_op(&other, OP_REMOVE, file);
	if (!op)
		return plan_error(p, r < 0 ? r : -ENOMEM, err);
	plan_expect(&other, op);
	return 1;
}

static int plan_stage(struct plan *p, const struct change_at *file,
		      const struct text *text, struct warren_error *err);

/* Change the mode of an entry that both have. */
static int plan_chmod(struct plan *p, mode_t new, struct warren_error *err)
{
	const mode_t old = p->yours.st.st_mode & 07777;
	bool dir = S_ISDIR(p->yours.st.st_mode);
	struct op *op;

	if (new == old)
		return 1;
	/* Its other names keep the mode, as they keep the contents if those change. */
	if (S_ISREG(p->yours.st.st_mode) && p->yours.st.st_nlink > 1)
		return plan_stage(p, &p->yours, NULL, err);
	/* What is in a directory is changed while its owner may do that. */
	op = plan_op(p, dir && (new & ~old &S_IRWXU) ? OP_WIDEN : OP_CHMOD, p->c->path);
	if (!op)
		return plan_error(p, -ENOMEM, err);
	plan_expect(p, op);
	op->old_mode = old;
	op->new_mode = new;
	return 1;
}

/* Remove the file that the user has where the sandbox has a directory. */
static int plan_make_room(struct plan *p, struct warren_error *err)
{
	struct accept_merge m = { .reason = plan_in_the_way };
	int r;

	if (p->c->old_mode)
		return plan_remove(p, p->c->path, err);
	/* The sandbox did not replace it, but did not see it. */
	r = plan_conflict(p, &m, err);
	return r != 1 ? (r < 0 ? r : 0) : plan_remove(p, p->c->path, err);
}

static int plan_mkdir(struct plan *p, struct warren_error *err)
{
	AUTO_FREE char *below = NULL;
	int r = 1;

	if (p->yours_exists && S_ISDIR(p->yours.st.st_mode))
		return plan_chmod(p, p->mode, err);
	/* Nothing is left that could have the mode. */
	if (!p->yours_exists && p->c->kind == CHANGE_MODE)
		return 1;
	if (p->yours_exists)
		r = plan_make_room(p, err);
	if (r <= 0)
		return r;
	r = plan_clear_the_way(p, p->c->path, err);
	if (r <= 0)
		return r;
	/* As if it were the parent of a file. */
	if (asprintf(&below, "%s/x", p->c->path) < 0)
		return plan_error(p, -ENOMEM, err);
	r = plan_parents(p, below);
	return r < 0 ? plan_error(p, r, err) : 1;
}

/* Stage @text, or the contents of @file, for the path of the change. */
static int plan_stage(struct plan *p, const struct change_at *file,
		      const struct text *text, struct warren_error *err)
{
	/* A directory is removed by another operation, if it is empty then. */
	bool old = p->yours_exists && !S_ISDIR(p->yours.st.st_mode);
	struct stage_source from = {
		.file = text ? NULL : file,
		.text = text,
		.mode = (p->theirs.st.st_mode & S_IFMT) | p->mode,
		.old_dir = old ? p->yours.dir : -1,
		.old_name = p->yours.name,
		.old = old ? &p->yours.st : NULL,
	};
	struct op *op;
	int r = plan_parents(p, p->c->path);

	op = r < 0 ? NULL : plan_op(p, OP_PUT, p->c->path);
	if (r == 0 && !op)
		r = -ENOMEM;
	if (r == 0 && old) {
		plan_expect(p, op);
		op->must = p->hunks && !op->clean;
	}
	r = r < 0 ? r : stage_file(p->a, op, &from);
	return r < 0 ? plan_error(p, r, err) : 1;
}

/* Stage @text, or the sandbox's file. */
static int plan_put(struct plan *p, const struct text *text, struct warren_error *err)
{
	return plan_stage(p, &p->theirs, text, err);
}

/*
 * Merge what both sides did to the mode. False: they did different things to it, or the
 * mode before that is not known.
 */
static bool plan_merge_mode(const struct plan *p, mode_t yours, mode_t theirs,
			    mode_t *ret)
{
	const mode_t base = p->c->base_mode & 07777;

	/* What the sandbox did not see, it did not change. */
	if (p->hunks || theirs == yours || (p->c->base_mode && theirs == base) ||
	    (p->c->guard & GUARD_HIDDEN) ||
	    (S_ISDIR(p->yours.st.st_mode) && p->c->kind != CHANGE_MODE))
		*ret = yours;
	else if ((p->c->base_mode && yours == base) ||
		 p->a->o->conflicts == ACCEPT_THEIRS)
		*ret = theirs;
	else
		return false;
	return true;
}

/* The set-id bits that need no permission, because the file has or gets them anyway. */
static int plan_keep_set_id(const struct plan *p, bool both, mode_t *ret)
{
	mode_t bits = p->yours.st.st_mode & MODE_SET_ID;
	int r = 1;

	if (!both)
		bits = S_ISDIR(p->theirs.st.st_mode)
			       ? stage_inherit(p->a, p->c->path, NULL)
			       : 0;
	else if (bits && S_ISREG(p->yours.st.st_mode))
		r = change_same(&p->yours, &p->theirs);
	*ret = r > 0 ? bits : 0;
	return r;
}

/*
 * Decide on the mode. Without permission, set-id bits are not added, and those of a file
 * whose contents change are dropped; then the sandbox's file stays listed as a change of
 * the mode. 1: go on; 0: there is a conflict; or -errno.
 */
static int plan_mode(struct plan *p, struct warren_error *err)
{
	const mode_t theirs = p->theirs.st.st_mode & 07777;
	struct accept_merge m = { .reason = "you and the sandbox changed the mode" };
	bool both = p->yours_exists &&
		    (p->yours.st.st_mode & S_IFMT) == (p->theirs.st.st_mode & S_IFMT);
	mode_t keep = 0;
	int r;

	p->mode = theirs;
	if (S_ISLNK(p->theirs.st.st_mode))
		return 1;
	if (both && !plan_merge_mode(p, p->yours.st.st_mode & 07777, theirs, &p->mode)) {
		r = accept_conflict_add(p->a, p->c->path, &m, err);
		return r < 0 ? r : 0;
	}
	if (p->allow & GUARD_SETID)
		return 1;
	r = plan_keep_set_id(p, both, &keep);
	if (r < 0)
		return plan_error(p, r, err);
	if (p->mode & theirs & MODE_SET_ID & ~keep)
		p->drop = false;
	p->mode &= ~(MODE_SET_ID & ~keep);
	return 1;
}

/*
 * The user has edited hunks: what the sandbox had there must not undo that later. @now is
 * what the project's file becomes.
 */
static int plan_remains(struct plan *p, const struct accept_merge *m, struct text now,
			struct warren_error *err)
{
	struct buf out AUTO_BUF = BUF_INIT(2 * TEXT_MAX);
	struct text text;
	struct op *op;
	struct stat st;
	int r = p->a->w->mode == WORK_COPY
			? accept_part_apply(p->a, p->c->path, p->remains, &out, &st, err)
			: patch_apply(p->remains, m->yours.text, &out, err);

	if (r < 0)
		return r;
	text = TEXT(out.data, out.len);
	if (text_equal(text, m->theirs.text))
		return 1;
	/* In the mode copy, the copy would get the sandbox's version. */
	if (text_equal(text, now) && p->c->old_mode == p->c->new_mode &&
	    p->a->w->mode != WORK_COPY)
		return plan_op(p, OP_DROP, p->c->path) ? 1 : plan_error(p, -ENOMEM, err);
	op = plan_op(p, OP_EDIT, p->c->path);
	r = op ? upper_stage_edit(p->a->w, op, text, &p->theirs.st) : -ENOMEM;
	return r < 0 ? plan_error(p, r, err) : 1;
}

/* Both have the file, and the user has changed it, or only hunks are wanted. */
static int plan_merge(struct plan *p, struct warren_error *err)
{
	struct accept_merge m = { 0 };
	struct text text;
	int r, done;

	if (!S_ISREG(p->yours.st.st_mode) || !S_ISREG(p->theirs.st.st_mode))
		m.reason = "you and the sandbox changed the type of the file";
	r = m.reason ? 0
		     : accept_merge(p->a, p->c, p->hunks, &p->yours, &p->theirs, &m, err);
	if (r < 0)
		return r;
	if (m.reason)
		m.result = CONTENTS_CONFLICT;
	text = TEXT(m.out.data, m.out.len);
	if (m.result == CONTENTS_CONFLICT) {
		done = plan_conflict(p, &m, err);
		r = done == 1   ? plan_put(p, NULL, err)
		    : done == 2 ? plan_put(p, &text, err)
				: done;
	} else if (m.result == CONTENTS_TEXT) {
		r = plan_put(p, &text, err);
		p->a->result->merged += r > 0 && m.merged;
	} else {
		r = p->hunks ? 1 : plan_chmod(p, p->mode, err);
	}
	if (r > 0 && p->remains && m.result != CONTENTS_CONFLICT)
		r = plan_remains(p, &m, m.result == CONTENTS_TEXT ? text : m.yours.text,
				 err);
	accept_merge_done(&m);
	return r;
}

/* Does this call remove everything in the directory? 1, 0 or -errno. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as CHANGES_DEPTH_MAX */
static int plan_empties(const struct plan *p, const char *path, unsigned depth)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int dir = beneath_dir(p->a->w->project_fd, path, O_RDONLY);
	const struct dir_entry *e;
	int r;

	if (!reader || dir < 0)
		return dir < 0 ? dir : -ENOMEM;
	reader->fd = dir;
	while ((r = dir_next(reader, &e)) > 0) {
		AUTO_FREE char *below = NULL;
		struct stat st;

		if (asprintf(&below, "%s/%s", path, e->name) < 0)
			return -ENOMEM;
		if (ops_has(&p->a->ops, OP_REMOVE, below))
			continue;
		if (!ops_has(&p->a->ops, OP_RMDIR, below) ||
		    fstatat(dir, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISDIR(st.st_mode) || depth > CHANGES_DEPTH_MAX)
			return 0;
		r = plan_empties(p, below, depth + 1);
		if (r <= 0)
			return r;
	}
	return r < 0 ? r : 1;
}

/* The sandbox has a file where the user has a directory. */
static int plan_replace_dir(struct plan *p, struct warren_error *err)
{
	struct accept_merge m = {
		.reason = "you have a directory where the sandbox has a file"
	};
	int empties = plan_empties(p, p->c->path, 0), r = empties;

	if (r < 0)
		return plan_error(p, r, err);
	if (p->c->kind != CHANGE_TYPE || !S_ISDIR(p->c->old_mode) || !empties) {
		r = change_side_read(&p->theirs, &m.theirs);
		r = r < 0 ? plan_error(p, r, err) : plan_conflict(p, &m, err);
		accept_merge_done(&m);
		if (r != 1)
			return r < 0 ? r : 0;
	}
	if (!empties)
		return error_set(
			err, ENOTEMPTY,
			"the directory '%s' cannot be replaced by the sandbox's "
			"file, because it would not be empty: nothing was accepted",
			p->c->path);
	r = plan_rmdir(p, true, err);
	return r <= 0 ? r : plan_put(p, NULL, err);
}

static int plan_file(struct plan *p, struct warren_error *err)
{
	struct accept_merge m = {
		.reason = "you removed the file, and the sandbox changed it"
	};
	AUTO_CHANGE_SIDE struct change_side base = { 0 };
	struct warren_error ignored;
	int same, r = plan_clear_the_way(p, p->c->path, err);

	if (r <= 0)
		return r;
	if (!p->yours_exists) {
		if (p->hunks)
			return error_set(
				err, EINVAL,
				"'%s' is new: it can only be accepted as a whole",
				p->c->path);
		/* If it had contents before, the user has removed it. */
		if (p->c->kind != CHANGE_RENAMED &&
		    (p->c->kind != CHANGE_ADDED ||
		     base_find(p->a->w, p->c->path, &base, &ignored) == 0)) {
			r = change_side_read(&p->theirs, &m.theirs);
			r = r < 0 ? plan_error(p, r, err) : plan_conflict(p, &m, err);
			accept_merge_done(&m);
			if (r != 1)
				return r < 0 ? r : 0;
		}
		return plan_put(p, NULL, err);
	}
	if (p->hunks && !S_ISDIR(p->yours.st.st_mode))
		return plan_merge(p, err);
	if (S_ISDIR(p->yours.st.st_mode))
		return plan_replace_dir(p, err);
	same = change_same(&p->yours, &p->theirs);
	if (same < 0)
		return plan_error(p, same, err);
	if (same)
		return S_ISREG(p->yours.st.st_mode) ? plan_chmod(p, p->mode, err) : 1;
	/* If the sandbox did not see the file, there is no common version. */
	if (plan_touched(p) || (!p->c->old_mode && p->c->kind == CHANGE_ADDED))
		return plan_merge(p, err);
	return plan_put(p, NULL, err);
}

/* ------------------------------------------------------------------------- one */

static int plan_open(struct plan *p, struct warren_error *err)
{
	int r = change_at_open(p->a->w->project_fd, p->c->path, &p->yours);

	p->yours_exists = r == 0;
	if (r == -ELOOP && plan_removes_above(p, p->c->path))
		r = -ENOENT;
	if (r < 0 && r != -ENOENT && r != -ENOTDIR)
		return plan_error(p, r, err);
	if (!p->c->new_mode)
		return 0;
	r = change_at_open(p->a->upper, p->c->path, &p->theirs);
	if (r < 0)
		return plan_error(p, r, err);
	reach_mode(p->a->w, p->theirs.dir, p->theirs.name, &p->theirs.st);
	/* The list of changes is not up to date. */
	if ((p->theirs.st.st_mode & S_IFMT) != (p->c->new_mode & S_IFMT))
		return plan_error(p, -ESTALE, err);
	return 0;
}

static int plan_by_kind(struct plan *p, struct warren_error *err)
{
	const struct change *c = p->c;
	const size_t n_ops = p->a->ops.n;
	int r;

	if (S_ISDIR(c->new_mode)) {
		r = plan_mode(p, err);
		return r <= 0 ? r : plan_mkdir(p, err);
	}
	if (!c->new_mode)
		return S_ISDIR(c->old_mode) ? plan_rmdir(p, false, err)
					    : plan_remove(p, c->path, err);
	if (!S_ISREG(c->new_mode) && !S_ISLNK(c->new_mode))
		return plan_error(p, -EPERM, err);
	if (c->from) {
		r = plan_remove(p, c->from, err);
		close_p(&p->yours.dir);
		p->yours = (struct change_at){ .dir = -1 };
		if (r <= 0)
			return r;
		r = change_at_open(p->a->w->project_fd, c->path, &p->yours);
		p->yours_exists = r == 0;
	}
	r = plan_mode(p, err);
	r = r <= 0 ? r : plan_file(p, err);
	/* If the new name has a conflict, the old file stays. */
	if (r == 0)
		ops_cut(&p->a->ops, n_ops);
	return r;
}

static int plan_drop(struct plan *p)
{
	if (p->hunks)
		return 0;
	if (p->c->from && !plan_op(p, OP_DROP, p->c->from))
		return -ENOMEM;
	return !p->drop || plan_op(p, OP_DROP, p->c->path) ? 0 : -ENOMEM;
}

/* In mode WORK_COPY, an accepted change remains a change until the copy has it. */
static int plan_part(const struct plan *p, struct warren_error *err)
{
	const struct accept_part part = {
		.change = p->c, .hunks = p->hunks, .theirs = &p->theirs, .mode = p->mode
	};

	return p->drop || p->a->w->mode != WORK_COPY ? 0
						     : accept_part_plan(p->a, &part, err);
}

/* After plan_open(): a change after that is noticed when the file is replaced. */
static int plan_check_seen(const struct plan *p, const struct accept_item *item,
			   struct warren_error *err)
{
	AUTO_CHANGE_SIDE struct change_side now = { 0 };
	bool read = item->seen && p->yours_exists && !S_ISDIR(p->yours.st.st_mode);
	int r = read ? change_side_read(&p->yours, &now) : 0;

	return r < 0 ? plan_error(p, r, err) : accept_check_seen(item, &now, err);
}

int accept_plan_item(struct accept *a, const struct accept_item *item,
		     struct warren_error *err)
{
	struct plan p = { .a = a,
			  .c = item->change,
			  .hunks = item->hunks,
			  .remains = item->remains,
			  .allow = a->o->allow | item->allow,
			  .yours = { .dir = -1 },
			  .theirs = { .dir = -1 },
			  .drop = !item->hunks };
	int part, r = plan_check_guards(&p, err);

	r = r < 0 ? r : plan_open(&p, err);
	r = r < 0 ? r : plan_check_seen(&p, item, err);
	r = r < 0 ? r : plan_by_kind(&p, err);
	if (r > 0 && plan_drop(&p) < 0)
		r = plan_error(&p, -ENOMEM, err);
	part = r > 0 ? plan_part(&p, err) : 0;
	r = part < 0 ? part : r;
	close_p(&p.yours.dir);
	close_p(&p.theirs.dir);
	return r;
}
