/* SPDX-License-Identifier: Apache-2.0 */
/* changes.c - the list of changes, and the contents of one */
#include "work/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "textdiff/diff.h"
#include "textdiff/merge.h"
#include "work/base.h"
#include "work/changes_internal.h"
#include "work/files_internal.h"
#include "work/reach.h"
#include "work/work_internal.h"

static const char *const change_kind_names[] = {
	[CHANGE_ADDED] = "added",     [CHANGE_MODIFIED] = "modified",
	[CHANGE_REMOVED] = "removed", [CHANGE_RENAMED] = "renamed",
	[CHANGE_MODE] = "mode",       [CHANGE_TYPE] = "type",
};
_Static_assert(ARRAY_SIZE(change_kind_names) == CHANGE_KIND_MAX, "a kind has no name");

const char *change_kind_name(enum change_kind kind)
{
	return change_kind_names[kind];
}

static const struct {
	enum change_guard guard;
	const char *name, *reason;
} change_guards[] = {
	{ GUARD_GIT, "git",
	  "git executes such files, or reads its configuration from them" },
	{ GUARD_SETID, "set-id", "the program would run as the owner of the file" },
	{ GUARD_DEVICE, "device",
	  "devices, named pipes, sockets and Warren's own files (.warren-*) are never accepted" },
	{ GUARD_LINK_OUT, "link", "the link leads to a path outside the project" },
	{ GUARD_HIDDEN, "hidden",
	  "the project has a file there that was hidden from the sandbox" },
};

const char *change_guard_name(enum change_guard guard)
{
	for (size_t i = 0; i < ARRAY_SIZE(change_guards); i++)
		if (change_guards[i].guard == guard)
			return change_guards[i].name;
	return "";
}

const char *change_guard_reason(enum change_guard guard)
{
	for (size_t i = 0; i < ARRAY_SIZE(change_guards); i++)
		if (change_guards[i].guard == guard)
			return change_guards[i].reason;
	return "";
}

int change_guard_parse(const char *name, enum change_guard *ret, struct warren_error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(change_guards); i++)
		if (strcmp(change_guards[i].name, name) == 0) {
			*ret = change_guards[i].guard;
			return 0;
		}
	return error_set(err, EINVAL,
			 "'%s' cannot be allowed: use git, set-id, link or hidden", name);
}

static const struct {
	const char *name, *text;
} change_patterns[] = {
	[PATTERNS_ALL] = { "all", NULL },
	[PATTERNS_YOURS] = { "user",
			     "matching the .gitignore files of the sandbox takes too "
			     "long: only yours decide what is ignored" },
	[PATTERNS_UNKNOWN] = { "unknown",
			       "matching the .gitignore files takes too long: files that "
			       "were not compared with them count as ignored" },
};

const char *changes_patterns_name(enum changes_patterns patterns)
{
	return change_patterns[patterns].name;
}

const char *changes_patterns_text(enum changes_patterns patterns)
{
	return change_patterns[patterns].text;
}

bool change_is_set_id_only(const struct change *c)
{
	return c->kind == CHANGE_MODE && (c->guard & GUARD_SETID) &&
	       !((c->old_mode ^ c->new_mode) & 01777);
}

static bool change_mode_has_contents(mode_t mode)
{
	return S_ISREG(mode) || S_ISLNK(mode);
}

bool change_has_contents(const struct change *c)
{
	return change_mode_has_contents(c->old_mode) ||
	       change_mode_has_contents(c->new_mode);
}

void change_done(struct change *c)
{
	free(c->path);
	free(c->from);
	*c = (struct change){ 0 };
}

void changes_done(struct changes *c)
{
	for (size_t i = 0; i < c->n; i++)
		change_done(&c->v[i]);
	free(c->v);
	*c = (struct changes){ 0 };
}

int change_compare(const void *a, const void *b)
{
	return strcmp(((const struct change *)a)->path, ((const struct change *)b)->path);
}

/* ------------------------------------------------------------------------- sides */

int changes_lower(const struct work *w)
{
	return w->mode == WORK_COPY ? beneath_dir(w->dir_fd, "copy", O_RDONLY)
				    : fcntl(w->project_fd, F_DUPFD_CLOEXEC, 3);
}

int changes_upper(const struct work *w)
{
	return beneath_dir(w->dir_fd, "writes/upper", O_RDONLY);
}

/* Find an entry; the caller closes ret->dir. */
int change_at_open(int root, const char *path, struct change_at *ret)
{
	AUTO_CLOSE int dir = beneath_parent(root, path, &ret->name);

	if (dir < 0)
		return dir;
	if (fstatat(dir, ret->name, &ret->st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	ret->dir = TAKE_FD(dir);
	return 0;
}

static int change_side_open(int root, const char *path, struct change_side *ret)
{
	struct change_at at = { .dir = -1 };
	int r = change_at_open(root, path, &at);

	if (r == 0)
		r = change_side_read(&at, ret);
	close_p(&at.dir);
	return r;
}

/*
 * Read the project's file. The user may have changed it after the changes were listed, so
 * whether it is the one before both changes is judged here, when it has been read.
 */
static int change_old_open(struct work *w, int lower, const struct change *c,
			   struct change_side *ret)
{
	const char *path = c->from ? c->from : c->path;
	struct change_at at = { .dir = -1 };
	int r = change_at_open(lower, path, &at);

	if (r == 0)
		r = change_side_read(&at, ret);
	/* In the mode copy, this is the copy. */
	if (r == 0 && w->mode == WORK_OVERLAY)
		ret->touched =
			fstatat(at.dir, at.name, &at.st, AT_SYMLINK_NOFOLLOW) < 0 ||
			known_touched(w, path, &at.st);
	close_p(&at.dir);
	return r;
}

/*
 * The difference to a file that the user has changed since must not take that back: show
 * what the file becomes, if the two changes can be merged.
 */
static int change_show_merged(struct work *w, const struct change *c,
			      const struct change_side *old, struct change_side *new,
			      struct warren_error *err)
{
	AUTO_CHANGE_SIDE struct change_side base = { 0 };
	struct buf out AUTO_BUF = BUF_INIT(2 * TEXT_MAX);
	struct warren_error ignored;
	size_t conflicts;
	int r = w->mode == WORK_OVERLAY ? base_shown(w, c, &base) : 0;

	if (r < 0 || (r == 0 && !old->touched) || c->from || w->mode != WORK_OVERLAY ||
	    !S_ISREG(old->mode) || !S_ISREG(new->mode) || old->large || new->large ||
	    text_is_binary(old->text) || text_is_binary(new->text) ||
	    (r == 0 && base_find(w, c->path, &base, &ignored) < 0) || base.large ||
	    (base.committed &&
	     (text_equal(base.text, old->text) || text_equal(base.text, new->text))))
		return 0;
	r = text_merge3(base.text, old->text, new->text, &(struct merge_labels){ 0 },
			&out, &conflicts, err);
	if (r < 0 || conflicts > 0)
		return r < 0 ? r : 0;
	free(new->data);
	new->text = TEXT(out.data, out.len);
	new->data = TAKE_PTR(out.data);
	return 0;
}

int change_contents(struct work *w, const struct change *c, struct change_side *ret_old,
		    struct change_side *ret_new, struct warren_error *err)
{
	AUTO_CHANGE_SIDE struct change_side old = { 0 }, new = { 0 };
	AUTO_CLOSE int lower = changes_lower(w), upper = changes_upper(w);
	int r = lower < 0 ? lower : upper < 0 ? upper : 0;

	if (r < 0)
		return error_errno(err, -r, "open the directories of work '%s'", w->id);
	if (c->old_mode && !S_ISDIR(c->old_mode))
		r = change_old_open(w, lower, c, &old);
	if (r < 0 && r != -ENOENT)
		return error_errno(err, -r, "read '%s'", c->from ? c->from : c->path);
	r = c->new_mode && !S_ISDIR(c->new_mode) ? change_side_open(upper, c->path, &new)
						 : 0;
	if (r < 0)
		return error_errno(err, -r, "read the changed '%s'", c->path);
	r = change_show_merged(w, c, &old, &new, err);
	if (r < 0)
		return r;
	if (new.exists && (new.mode &S_IFMT) == (c->new_mode & S_IFMT))
		new.mode = c->new_mode;
	*ret_old = old;
	*ret_new = new;
	old = new = (struct change_side){ 0 };
	return 0;
}

/* ----------------------------------------------------------------------- renames */

#define RENAME_COMPARES_MAX 10000
#define RENAME_BYTES_MAX    ((uint64_t)4 << 30)
#define RENAME_STEPS_MAX    ((uint64_t)50 << 20)

/* What may still be compared to find renames. */
struct rename_budget {
	unsigned compares;
	uint64_t bytes, steps;
};

/* Return whether two files of @size may be compared. */
static bool rename_afford(struct rename_budget *b, uint64_t size)
{
	if (b->compares == 0 || b->bytes < size)
		return false;
	b->compares--;
	b->bytes -= size;
	return true;
}

static int rename_by_size(const void *a, const void *b)
{
	const struct change *x = *(const struct change *const *)a,
			    *y = *(const struct change *const *)b;

	if (x->old_size != y->old_size)
		return x->old_size < y->old_size ? -1 : 1;
	return strcmp(x->path, y->path);
}

static bool rename_may(const struct change *c)
{
	const mode_t mode = c->kind == CHANGE_REMOVED ? c->old_mode : c->new_mode;
	const uint64_t size = c->kind == CHANGE_REMOVED ? c->old_size : c->new_size;

	return !c->tree && !c->ignored && !c->guard && size > 0 &&
	       (S_ISREG(mode) || S_ISLNK(mode));
}

static int rename_same(int lower, int upper, const char *from, const char *to)
{
	struct change_at old = { .dir = -1 }, new = { .dir = -1 };
	int r = change_at_open(lower, from, &old);

	r = r < 0 ? r : change_at_open(upper, to, &new);
	r = r < 0 ? r : change_same(&old, &new);
	close_p(&old.dir);
	close_p(&new.dir);
	/* A file that cannot be read is not found to be renamed. */
	return r == -EACCES ? r : r > 0;
}

static const char *rename_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Find the removed file that became @c: best, one with the same name. */
static int rename_find(int upper, int lower, struct change **gone, size_t n,
		       struct change *c, struct rename_budget *budget)
{
	struct change *best = NULL;
	size_t low = 0;

	for (size_t high = n; low < high;) {
		size_t middle = low + (high - low) / 2;

		if (gone[middle]->old_size < c->new_size)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < n && budget->compares > 0 && budget->steps > 0 &&
	       gone[low]->old_size == c->new_size;
	     low++) {
		const char *from = gone[low]->path; /* NULL: it became another file */
		bool name = from && strcmp(rename_base(from), rename_base(c->path)) == 0;
		int r;

		budget->steps--;
		if (!from || (best && !name) ||
		    (gone[low]->old_mode & S_IFMT) != (c->new_mode & S_IFMT))
			continue;
		if (!rename_afford(budget, c->new_size))
			break;
		r = rename_same(lower, upper, gone[low]->path, c->path);
		if (r < 0)
			return r;
		if (r > 0)
			best = gone[low];
		if (r > 0 && name)
			break;
	}
	if (!best)
		return 0;
	c->kind = CHANGE_RENAMED;
	c->from = best->path;
	c->old_mode = best->old_mode;
	c->old_size = best->old_size;
	c->touched = best->touched;
	best->path = NULL; /* dropped by the caller */
	return 0;
}

int changes_find_renames(int upper, int lower, struct changes *c)
{
	AUTO_FREE struct change **gone = calloc(c->n + 1, sizeof(struct change *));
	struct rename_budget budget = { RENAME_COMPARES_MAX, RENAME_BYTES_MAX,
					RENAME_STEPS_MAX };
	size_t n = 0, out = 0;
	int r = 0;

	if (!gone)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].kind == CHANGE_REMOVED && rename_may(&c->v[i]))
			gone[n++] = &c->v[i];
	if (n == 0)
		return 0;
	qsort(gone, n, sizeof(struct change *), rename_by_size);
	for (size_t i = 0; r == 0 && i < c->n; i++)
		if (c->v[i].kind == CHANGE_ADDED && c->v[i].path && rename_may(&c->v[i]))
			r = rename_find(upper, lower, gone, n, &c->v[i], &budget);
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].path)
			c->v[out++] = c->v[i];
	c->n = out;
	return r;
}

/* ------------------------------------------------------------------------- lines */

/* Of the whole list, to limit its time; what is beyond it is shown without lines. */
#define LINES_BYTES_MAX ((uint64_t)1 << 30)
#define LINES_WORK_MAX  ((uint64_t)1 << 30)

struct lines_budget {
	uint64_t bytes, work;
};

static int changes_count_lines(struct work *w, struct change *c,
			       struct lines_budget *budget, struct warren_error *err)
{
	/* Larger files are not read. */
	const uint64_t size = (c->old_size > TEXT_MAX ? 0 : c->old_size) +
			      (c->new_size > TEXT_MAX ? 0 : c->new_size);
	AUTO_CHANGE_SIDE struct change_side old = { 0 }, new = { 0 };
	struct text_diff diff AUTO_DIFF = { 0 };
	int r;

	if (c->tree || (c->guard & GUARD_DEVICE) || c->kind == CHANGE_RENAMED ||
	    c->kind == CHANGE_MODE || !change_has_contents(c))
		return 0;
	c->binary = c->uncounted = size > budget->bytes || budget->work == 0;
	if (c->uncounted)
		return 0;
	budget->bytes -= size;
	r = change_contents(w, c, &old, &new, err);
	if (r < 0)
		return r;
	c->binary = old.large || new.large || text_is_binary(old.text) ||
		    text_is_binary(new.text);
	if (c->binary)
		return 0;
	r = text_diff_make(old.text, new.text, &diff, err);
	if (r < 0)
		return r;
	budget->work -= diff.work < budget->work ? diff.work : budget->work;
	text_diff_count(&diff, &c->lines_added, &c->lines_removed);
	return 0;
}

/* ---------------------------------------------------------------------- the list */

static int changes_list_once(struct work *w, unsigned flags, struct changes *ret,
			     struct warren_error *err)
{
	AUTO_CHANGES struct changes c = { 0 };
	AUTO_CLOSE int lower = -1, upper = -1, hide = -1;
	struct lines_budget budget = { LINES_BYTES_MAX, LINES_WORK_MAX };
	int r = work_project(w, err);

	if (r < 0)
		return r;
	if (w->mode == WORK_BIND) {
		*ret = c;
		return 0;
	}
	lower = changes_lower(w);
	upper = changes_upper(w);
	hide = beneath_dir(w->dir_fd, "hide", O_RDONLY);
	r = lower < 0 ? lower : upper < 0 ? upper : hide < 0 ? hide : 0;
	if (r < 0)
		return error_errno(err, -r, "open the directories of work '%s'", w->id);
	r = changes_walk(w, upper, hide, lower, flags, &c, err);
	if (r < 0)
		return r;
	if (c.n > 0)
		qsort(c.v, c.n, sizeof(*c.v), change_compare);
	r = changes_find_renames(upper, lower, &c);
	if (r < 0)
		return error_errno(err, -r, "search for renamed files");
	for (size_t i = 0; r == 0 && (flags & CHANGES_LINES) && i < c.n; i++)
		r = changes_count_lines(w, &c.v[i], &budget, err);
	if (r < 0)
		return r;
	*ret = c;
	c = (struct changes){ 0 };
	return 0;
}

int changes_list(struct work *w, unsigned flags, struct changes *ret,
		 struct warren_error *err)
{
	int r = changes_list_once(w, flags, ret, err);

	if (r != -EACCES || work_reach(w, err) < 0)
		return r < 0 ? -err->code : 0;
	return changes_list_once(w, flags, ret, err);
}
