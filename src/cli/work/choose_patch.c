/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choose_patch.c - find the files and hunks of a patch among the changes of a work
 *
 * Each file of the patch is compared with the patch that the change itself makes, so that
 * nothing is chosen that the patch does not contain, and nothing in it is ignored. First,
 * whole hunks are found, and then parts of the remaining ones.
 */
#include "cli/work/choose_patch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/work/show.h"

/* Hunks to compare at most, in all files together. */
#define COMPARE_MAX ((int64_t)1 << 27)

struct choose_search {
	struct choose *c;
	struct choose_file *f;
	const struct patch *p; /* a file of the patch */
	int64_t work;
};

static int choose_patch_fail(const struct choose_search *s, struct warren_error *err,
			     const char *why)
{
	return error_set(err, ESTALE,
			 "file '%.1024s' of the patch: %s; nothing was changed "
			 "('warren diff --patch %s' makes a patch)",
			 s->p->new_path, why, s->c->work->id);
}

/* ------------------------------------------------------------------- files */

/* Find the change of the file @path; NULL: there is none. Changes are sorted by path. */
static struct choose_file *choose_find(struct choose *c, const char *path)
{
	size_t low = 0, high = c->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int order = strcmp(c->v[mid].change->path, path);

		if (order == 0)
			return &c->v[mid];
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

static int change_path_order(const void *path, const void *change)
{
	return strcmp(path, ((const struct change *)change)->path);
}

bool choose_patch_needs_more(const struct changes *changes, const struct patches *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (!changes->n || !bsearch(p->v[i].new_path, changes->v, changes->n,
					    sizeof(*changes->v), change_path_order))
			return true;
	return false;
}

/* The mode that a patch shows. */
static mode_t choose_mode(const struct change_side *s)
{
	return !s->exists          ? 0
	       : S_ISLNK(s->mode)  ? 0120000
	       : s->mode & S_IXUSR ? 0100755
				   : 0100644;
}

static bool choose_changes_type(const struct choose_file *f)
{
	return f->old.exists &&
	       f->new.exists &&S_ISLNK(f->old.mode) != S_ISLNK(f->new.mode);
}

/* Compare the kind, the names and the modes of the file. */
static int choose_check_header(struct choose_search *s, struct warren_error *err)
{
	const struct choose_file *f = s->f;
	const struct patch *p = s->p;
	const mode_t old = choose_mode(&f->old), new = choose_mode(&f->new);
	const char *from = f->change->from && f->old.exists && f->new.exists
				   ? f->change->from
				   : f->change->path;
	const enum patch_kind kind = !f->old.exists                  ? PATCH_ADDED
				     : !f->new.exists                ? PATCH_REMOVED
				     : strcmp(from, f->change->path) ? PATCH_RENAMED
								     : PATCH_MODIFIED;

	if (choose_changes_type(f) ? p->kind != PATCH_ADDED && p->kind != PATCH_REMOVED
				   : p->kind != kind)
		return choose_patch_fail(s, err, "the file was not changed in this way");
	if (p->kind == PATCH_RENAMED ? strcmp(p->old_path, from) != 0
				     : strcmp(p->old_path, p->new_path) != 0)
		return choose_patch_fail(s, err, "the file had another name before");
	if ((p->old_mode && p->old_mode != old) || (p->new_mode && p->new_mode != new))
		return choose_patch_fail(s, err, "the work has a different mode");
	return 0;
}

/* ------------------------------------------------------------------- hunks */

static bool choose_same_hunk(const struct patch_hunk *a, const struct patch_hunk *b)
{
	if (a->n != b->n || a->old_n != b->old_n || a->new_n != b->new_n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->v[i].kind != b->v[i].kind ||
		    !text_equal(a->v[i].text, b->v[i].text))
			return false;
	return true;
}

/* Return whether the patch has all that changes @old to @new. */
static bool choose_same_contents(const struct patch *p, const struct patch *own,
				 struct text old, struct text new)
{
	if (p->binary)
		return text_equal(TEXT(p->forward.data, p->forward.len), new) &&
		       (!p->reverse.present ||
			text_equal(TEXT(p->reverse.data, p->reverse.len), old));
	if (text_equal(old, new))
		return p->n == 0;
	if (text_is_binary(old) || text_is_binary(new) || p->n != own->n)
		return false;
	for (size_t i = 0; i < p->n; i++)
		if (!choose_same_hunk(&p->v[i], &own->v[i]))
			return false;
	return true;
}

/* The patch must have the whole change. */
static int choose_check_whole(struct choose_search *s, struct warren_error *err)
{
	const struct text none = { 0 };
	/* If the type changes, the patch has the two files one after the other. */
	const bool half = choose_changes_type(s->f);
	const struct text old = half && s->p->kind == PATCH_ADDED ? none : s->f->old.text;
	const struct text new =
		half && s->p->kind == PATCH_REMOVED ? none : s->f->new.text;
	AUTO_DIFF struct text_diff d = { 0 };
	AUTO_PATCH struct patch own = { 0 };
	int r = 0;

	if (!s->p->binary && !text_is_binary(old) && !text_is_binary(new)) {
		r = text_diff_make(old, new, &d, err);
		if (r == 0)
			r = patch_from_diff(&d, PATCH_CONTEXT, &own, err);
	}
	if (r < 0)
		return r;
	if (choose_same_contents(s->p, &own, old, new))
		return 0;
	return choose_patch_fail(s, err,
				 "the contents are not those of the work, and this "
				 "change can only be decided on as a whole");
}

static uint32_t choose_distance(int64_t a, int64_t b)
{
	int64_t d = a < b ? b - a : a - b;

	return d > UINT32_MAX ? UINT32_MAX : (uint32_t)d;
}

/* Return the first hunk at or behind line @at. */
static size_t choose_hunk_at(const struct patch *own, int64_t at)
{
	size_t low = 0, high = own->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (own->v[mid].old_at < at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/*
 * Find the hunk @h, which should be at line @at, and is not chosen yet: the nearest one
 * with the same lines; own->n: there is none.
 */
static size_t choose_find_hunk(struct choose_search *s, const struct patch_hunk *h,
			       int64_t at)
{
	const struct patch *own = &s->f->patch;
	size_t up = choose_hunk_at(own, at), down = up;

	while (up < own->n || down > 0) {
		bool above = down > 0 && (up == own->n ||
					  choose_distance(own->v[down - 1].old_at, at) <
						  choose_distance(own->v[up].old_at, at));
		size_t i = above ? --down : up++;

		if (--s->work < 0)
			break;
		if (s->f->states[i] == CHOOSE_OPEN && choose_same_hunk(h, &own->v[i]))
			return i;
	}
	return own->n;
}

/* Choose all hunks that are not yet @found; return how many are still missing. */
static size_t choose_find_hunks_of(struct choose_search *s, bool *found)
{
	const struct patch *p = s->p;
	size_t missing = 0;
	int64_t shift = 0;

	for (size_t i = 0; i < p->n; i++) {
		size_t at;

		if (found[i])
			continue;
		at = choose_find_hunk(s, &p->v[i], p->v[i].old_at + shift);
		if (at == s->f->patch.n) {
			missing++;
			continue;
		}
		shift = (int64_t)s->f->patch.v[at].old_at - p->v[i].old_at;
		s->f->states[at] = CHOOSE_YES;
		found[i] = true;
	}
	return missing;
}

static int choose_split_open(struct choose_file *f, struct warren_error *err)
{
	int r = 0;

	for (size_t i = f->n; i-- > 0 && r == 0;)
		if (f->states[i] == CHOOSE_OPEN)
			r = choose_split(f, i, err);
	return r;
}

static int choose_missing_hunk(const struct choose_search *s, const bool *found,
			       struct warren_error *err)
{
	char why[128];
	size_t i = 0;

	if (s->work < 0)
		return choose_patch_fail(s, err,
					 "its hunks are not in the order of the file");
	while (found[i])
		i++;
	(void)snprintf(why, sizeof(why),
		       "hunk %zu (line %u) is not one of the hunks of the work", i + 1,
		       s->p->v[i].old_at + 1);
	return choose_patch_fail(s, err, why);
}

/* The patch has all hunks of a text file, or some. */
static int choose_check_hunks(struct choose_search *s, struct warren_error *err)
{
	struct choose_file *f = s->f;
	const bool chmods = choose_mode(&f->old) != choose_mode(&f->new);
	const bool takes_mode = s->p->old_mode && s->p->new_mode;
	AUTO_FREE bool *found = calloc(s->p->n + 1, sizeof(*found));
	size_t missing;
	int r = 0;

	if (!found)
		return error_errno(err, ENOMEM, "'%s'", f->change->path);
	if (s->p->binary)
		return choose_patch_fail(s, err,
					 "the contents are not those of the work");
	missing = choose_find_hunks_of(s, found);
	if (missing) {
		r = choose_split_open(f, err);
		missing = r == 0 ? choose_find_hunks_of(s, found) : 0;
	}
	if (r == 0 && missing)
		r = choose_missing_hunk(s, found, err);
	if (r < 0)
		return r;
	f->leaves_mode = chmods && !takes_mode;
	for (size_t i = 0; i < f->n; i++)
		if (f->states[i] == CHOOSE_OPEN && takes_mode)
			return choose_patch_fail(s, err,
						 "the mode can only be decided on "
						 "together with all hunks");
	return s->p->n ? 0
		       : choose_patch_fail(s, err, "the patch contains no hunk of it");
}

/* ------------------------------------------------------------------- patch */

/* Choose what the file of the patch has; @half: the type changes, see patch_pair(). */
static int choose_patch_file(struct choose_search *s, struct warren_error *err)
{
	struct choose_file *f = s->f;
	int r = choose_check_header(s, err);

	if (r == 0)
		r = f->whole ? choose_check_whole(s, err) : choose_check_hunks(s, err);
	if (r < 0 || !f->whole)
		return r;
	if (choose_changes_type(f))
		f->halves |= s->p->kind == PATCH_ADDED ? 2 : 1;
	if (!choose_changes_type(f) || f->halves == 3)
		f->states[0] = CHOOSE_YES;
	return 0;
}

static int choose_patch_next(struct choose_search *s, struct warren_error *err)
{
	struct choose_file *f = choose_find(s->c, s->p->new_path);
	bool again = f && f->states;
	int r = 0;

	s->f = f;
	if (!f || !show_in_patch(f->change))
		return choose_patch_fail(s, err, "the work has no such change");
	if (!again)
		r = choose_load(s->c, f, err);
	if (r < 0)
		return r;
	if (f->old.large || f->new.large)
		return choose_patch_fail(s, err, "the file is too large for a patch");
	if (again && (!choose_changes_type(f) ||
		      f->halves & (s->p->kind == PATCH_ADDED ? 2U : 1U)))
		return choose_patch_fail(s, err, "the file is in the patch twice");
	r = choose_patch_file(s, err);
	/* The type is needed to find the second half. */
	if (r == 0 && !choose_changes_type(f))
		choose_release(f);
	return r;
}

int choose_patch(struct choose *c, const struct patches *p, struct warren_error *err)
{
	struct choose_search s = { .c = c, .work = COMPARE_MAX };

	for (size_t i = 0; i < p->n; i++) {
		int r;

		s.p = &p->v[i];
		r = choose_patch_next(&s, err);
		if (r < 0)
			return r;
	}
	if (!p->n)
		return error_set(err, EINVAL,
				 "the patch is empty: 'warren diff --patch %s' makes one",
				 c->work->id);
	for (size_t i = 0; i < p->n; i++) {
		s.p = &p->v[i];
		s.f = choose_find(c, s.p->new_path);
		if (s.f->halves == 1 || s.f->halves == 2)
			return choose_patch_fail(&s, err,
						 "the type of the file changes: the "
						 "patch contains only half of that");
	}
	return 0;
}
