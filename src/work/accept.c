/* SPDX-License-Identifier: Apache-2.0 */
/* accept.c - apply changes, or discard them */
#include "work/accept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "os/tree_remove.h"
#include "work/accept_internal.h"
#include "work/base.h"
#include "work/files_internal.h"
#include "work/reach.h"

void accept_result_done(struct accept_result *r)
{
	for (size_t i = 0; i < r->n_conflicts; i++) {
		free(r->conflicts[i].path);
		free(r->conflicts[i].yours);
		free(r->conflicts[i].theirs);
		free(r->conflicts[i].merged);
	}
	free(r->conflicts);
	*r = (struct accept_result){ 0 };
}

void accept_sum(const struct change_side *seen, char ret[ACCEPT_SUM_SIZE])
{
	struct sha256 h = SHA256_INIT;
	const uint32_t kind = seen->exists ? seen->mode & S_IFMT : 0;

	sha256_add(&h, &kind, sizeof(kind));
	if (seen->text.len > 0)
		sha256_add(&h, seen->text.data, seen->text.len);
	sha256_end(&h, ret);
}

int accept_check_seen(const struct accept_item *item, const struct change_side *now,
		      struct warren_error *err)
{
	char sum[ACCEPT_SUM_SIZE];

	if (!item->seen)
		return item->hunks
			       ? error_set(
					 err, EINVAL,
					 "'%s': the version that the hunks change is not "
					 "known",
					 item->change->path)
			       : 0;
	accept_sum(now, sum);
	return strcmp(sum, item->seen) == 0
		       ? 0
		       : error_set(err, ESTALE,
				   "'%s' was changed in the project while you chose: "
				   "choose again",
				   item->change->path);
}

static void accept_done(struct accept *a)
{
	ops_done(&a->ops);
	close_p(&a->lower);
	close_p(&a->upper);
	close_p(&a->staging);
}

static int accept_begin(struct accept *a, struct warren_error *err)
{
	struct work *w = a->w;
	struct stat st;
	int r = work_project(w, err);

	if (r < 0)
		return r;
	if (w->mode == WORK_BIND)
		return error_set(
			err, EINVAL,
			"work '%s' wrote to the project itself (--mode bind), so "
			"there is nothing to accept or reject",
			w->id);
	if (w->lock_fd < 0)
		return error_set(err, EINVAL, "work '%s' is not locked", w->id);
	/* What is accepted could not be dropped from the changes otherwise. */
	r = reach_all(w, err);
	if (r < 0)
		return r;
	/* The originals of an accept that could not be undone must not be lost. */
	r = accept_recover(w, err);
	if (r < 0)
		return r;
	if (fstat(w->project_fd, &st) < 0)
		return error_errno(err, errno, "inspect '%s'", w->project);
	a->uid = st.st_uid;
	a->gid = st.st_gid;
	a->lower = changes_lower(w);
	a->upper = changes_upper(w);
	r = a->lower < 0 ? a->lower : a->upper < 0 ? a->upper : 0;
	return r < 0 ? error_errno(err, -r, "open the directories of work '%s'", w->id)
		     : 0;
}

/* ------------------------------------------------------------ whole directories */

/* Call @one for a change, or for each one in a directory that is listed as one. */
typedef int accept_one(void *ctx, const struct accept_item *item,
		       struct warren_error *err);

static bool accept_is_below(const char *path, const char *tree)
{
	size_t n = strlen(tree);

	return strncmp(path, tree, n) == 0 && path[n] == '/';
}

/* The first change below a directory, or where it would be: they are sorted by path. */
static size_t accept_first_in(const struct changes *all, const char *tree)
{
	size_t low = 0, n = strlen(tree);

	for (size_t high = all->n; low < high;) {
		size_t middle = low + (high - low) / 2;
		const char *path = all->v[middle].path;
		int d = strncmp(path, tree, n);

		if (d < 0 || (d == 0 && (unsigned char)path[n] < '/'))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool accept_is_part(const struct change *c, const struct change *tree, bool set_id)
{
	/* A file that was moved to an ignored directory is a separate change. */
	if (tree->ignored && c->from && !accept_is_below(c->from, tree->path))
		return false;
	return (!tree->ignored || c->ignored) && (set_id || !change_is_set_id_only(c));
}

/* @set_id: also changes of set-id bits in such a directory. */
static int accept_expand(struct work *w, const struct accept_item *items, size_t n,
			 bool set_id, accept_one *one, void *ctx,
			 struct warren_error *err)
{
	AUTO_CHANGES struct changes all = { 0 };
	bool listed = false;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		const struct change *c = items[i].change, *own;
		struct accept_item part = { 0 };
		bool bits;

		if (!c->tree) {
			r = one(ctx, &items[i], err);
			continue;
		}
		if (!listed) {
			r = changes_list(w, CHANGES_EXPAND, &all, err);
			listed = true;
		}
		if (r < 0)
			return r;
		/* The mode of the directory itself. */
		own = bsearch(c, all.v, all.n, sizeof(*all.v), change_compare);
		part.allow = items[i].allow;
		bits = set_id || (part.allow & GUARD_SETID);
		part.change = own;
		if (own && accept_is_part(own, c, bits))
			r = one(ctx, &part, err);
		for (size_t k = accept_first_in(&all, c->path);
		     r >= 0 && k < all.n && accept_is_below(all.v[k].path, c->path);
		     k++) {
			part.change = &all.v[k];
			if (accept_is_part(&all.v[k], c, bits))
				r = one(ctx, &part, err);
		}
	}
	return r < 0 ? r : 0;
}

/* ------------------------------------------------------------------------ accept */

/* A directory becomes a file after all that is in it was decided on. */
static bool accept_is_last(const struct change *c)
{
	return c->kind == CHANGE_TYPE && S_ISDIR(c->old_mode) && !S_ISDIR(c->new_mode);
}

static int accept_one_item(void *ctx, const struct accept_item *item,
			   struct warren_error *err)
{
	struct accept *a = ctx;
	int r;

	if (accept_is_last(item->change) != a->last) {
		a->any_last = true;
		return 0;
	}
	r = accept_plan_item(a, item, err);
	a->result->accepted += r > 0;
	return r;
}

static int accept_plan_all(struct accept *a, const struct accept_item *items, size_t n,
			   struct warren_error *err)
{
	bool set_id = a->o->allow & GUARD_SETID;
	int r = accept_expand(a->w, items, n, set_id, accept_one_item, a, err);

	a->last = true;
	return r < 0 || !a->any_last
		       ? r
		       : accept_expand(a->w, items, n, set_id, accept_one_item, a, err);
}

/* How long an accept waits for another accept in the same project. */
#define ACCEPT_TRIES   200
#define ACCEPT_WAIT_US 50000

/*
 * Two accepts at the same time would each notice that files have changed, and be undone.
 * So the second one waits. Any process that can read the directory could lock it, so
 * after some seconds, or if the filesystem has no locks, go on: at worst, nothing is
 * accepted.
 */
static void accept_wait(const struct work *w)
{
	for (int tries = 0; tries < ACCEPT_TRIES; tries++) {
		if (flock(w->project_fd, LOCK_EX | LOCK_NB) == 0 ||
		    (errno != EWOULDBLOCK && errno != EINTR))
			return;
		(void)usleep(ACCEPT_WAIT_US);
	}
}

static int accept_locked(struct work *w, const struct accept_item *items, size_t n,
			 const struct accept_options *o, struct accept_result *ret,
			 struct warren_error *err)
{
	struct accept a CLEANUP(accept_done) = {
		.w = w,
		.o = o,
		.result = ret,
		.lower = -1,
		.upper = -1,
		.staging = -1,
	};
	struct warren_error ignored;
	int r;

	*ret = (struct accept_result){ 0 };
	r = accept_begin(&a, err);
	if (r < 0)
		return r;
	r = known_note_save(w);
	if (r < 0)
		return error_errno(err, -r, "keep the modes of work '%s'", w->id);
	r = accept_conflicts_begin(&a);
	if (r < 0)
		return error_errno(err, -r, "read '%s/marked'", w->dir);
	(void)tree_remove(w->dir_fd, w->dir_fd, UPPER_EDITED);
	r = stage_begin(&a, err);
	if (r < 0)
		return r;
	r = accept_plan_all(&a, items, n, err);
	if (r == 0 && ret->n_conflicts > 0 && o->conflicts == ACCEPT_STOP)
		r = error_set(err, EEXIST,
			      "%zu file%s could not be merged, so nothing was accepted",
			      ret->n_conflicts, ret->n_conflicts == 1 ? "" : "s");
	if (r == 0 && a.ops.n > 0)
		r = accept_commit(&a, err);
	/* Otherwise, the staging directory has originals. */
	if (r != -EUCLEAN && (r < 0 || a.ops.n == 0))
		(void)stage_remove(w);
	/* Otherwise, files may have markers. */
	if (r < 0 && r != -EUCLEAN)
		accept_conflicts_undo(&a);
	if (r < 0) {
		ret->accepted = ret->merged = 0;
		return r;
	}
	/* Without the originals, a later merge is a conflict. */
	r = base_keep(w, &ignored);
	return r < 0 ? 0 : r;
}

int accept_changes(struct work *w, const struct accept_item *items, size_t n,
		   const struct accept_options *o, struct accept_result *ret,
		   struct warren_error *err)
{
	int r;

	*ret = (struct accept_result){ 0 };
	r = work_project(w, err);
	if (r < 0)
		return r;
	accept_wait(w);
	r = accept_locked(w, items, n, o, ret, err);
	(void)flock(w->project_fd, LOCK_UN);
	return r;
}

/* ------------------------------------------------------------------------ reject */

/* The sandbox's file becomes the project's, with the hunks that are kept. */
static int reject_hunks(struct work *w, const struct accept_item *item,
			struct warren_error *err)
{
	AUTO_CHANGE_SIDE struct change_side old = { 0 }, new = { 0 };
	AUTO_FREE struct patch_hunk *hunks =
		calloc(item->hunks->n + 1, sizeof(struct patch_hunk));
	struct buf out AUTO_BUF = BUF_INIT(2 * TEXT_MAX);
	struct patch kept = *item->hunks;
	struct change_at at = { .dir = -1 };
	AUTO_CLOSE int upper = changes_upper(w);
	static const char temporary[] = UPPER_NEW;
	int r = change_contents(w, item->change, &old, &new, err);

	if (r == 0)
		r = accept_check_seen(item, &old, err);
	if (r < 0)
		return r;
	if (!hunks)
		return error_errno(err, ENOMEM, "reject '%s'", item->change->path);
	for (size_t i = 0; i < kept.n; i++) {
		hunks[i] = kept.v[i];
		hunks[i].skip = !hunks[i].skip;
	}
	kept.v = hunks;
	r = patch_apply(&kept, old.text, &out, err);
	if (r < 0)
		return r;
	if (text_equal(TEXT(out.data, out.len), old.text) &&
	    item->change->old_mode == item->change->new_mode) {
		r = upper_restore(w, item->change->path);
		return r < 0 ? error_errno(err, -r, "reject '%s'", item->change->path)
			     : 0;
	}
	r = upper < 0 ? upper : change_at_open(upper, item->change->path, &at);
	r = r < 0 ? r
		  : upper_write(w->dir_fd, temporary, TEXT(out.data, out.len), &at.st);
	accept_step("restore");
	if (r == 0 && renameat(w->dir_fd, temporary, at.dir, at.name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(w->dir_fd, temporary, 0);
	close_p(&at.dir);
	return r < 0 ? error_errno(err, -r, "reject hunks of '%s'", item->change->path)
		     : 0;
}

struct reject {
	struct work *w;
	size_t n_failed;
	struct warren_error first; /* of what failed */
};

/* What cannot be discarded stays a change, and does not keep the others from it. */
static int reject_one_item(void *ctx, const struct accept_item *item,
			   struct warren_error *err)
{
	struct reject *reject = ctx;
	struct work *w = reject->w;
	int r;

	if (item->hunks) {
		r = reject_hunks(w, item, err);
	} else if (item->change->kind == CHANGE_MODE && S_ISDIR(item->change->new_mode)) {
		r = upper_restore_mode(w, item->change->path);
		if (r < 0)
			(void)error_errno(err, -r, "reject '%s'", item->change->path);
	} else if (item->change->kind == CHANGE_ADDED && !item->change->tree &&
		   S_ISDIR(item->change->new_mode)) {
		r = upper_restore_new_dir(w, item->change->path);
		if (r < 0)
			(void)error_errno(err, -r, "reject '%s'", item->change->path);
	} else {
		/* In between, there are both: nothing is lost. */
		r = item->change->from ? upper_restore(w, item->change->from) : 0;
		if (r == 0)
			r = upper_restore(w, item->change->path);
		if (r < 0)
			(void)error_errno(err, -r, "reject '%s'", item->change->path);
	}
	if (r < 0 && reject->n_failed++ == 0)
		reject->first = *err;
	return 0;
}

int reject_changes(struct work *w, const struct accept_item *items, size_t n,
		   struct warren_error *err)
{
	struct accept a CLEANUP(
		accept_done) = { .w = w, .lower = -1, .upper = -1, .staging = -1 };
	struct reject reject = { .w = w };
	int r = accept_begin(&a, err);

	r = r < 0 ? r : accept_expand(w, items, n, true, reject_one_item, &reject, err);
	if (r < 0 || reject.n_failed == 0)
		return r;
	return error_set(err, reject.first.code, "%.900s%s", reject.first.msg,
			 reject.n_failed > 1 ? ", and others; the rest was rejected"
					     : "; the rest was rejected");
}
