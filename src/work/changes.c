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
	  "git executes such files or reads its configuration from them, or they are "
	  "other files in its directory" },
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
	const uint64_t ctime_ns = r < 0 ? 0 : stat_ctime_ns(&at.st);

	if (r == 0)
		r = change_side_read(&at, ret);
	/* In the mode copy, this is the copy. */
	if (r == 0 && w->mode == WORK_OVERLAY)
		ret->touched =
			fstatat(at.dir, at.name, &at.st, AT_SYMLINK_NOFOLLOW) < 0 ||
			stat_ctime_ns(&at.st) != ctime_ns ||
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
	AUTO_CHANGES struct changes c = { 0 }, inside = { 0 };
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
	if (r == 0 && !(flags & CHANGES_EXPAND) && changes_may_be_moved_inside(&c)) {
		r = changes_walk(w, upper, hide, lower, flags | CHANGES_EXPAND, &inside,
				 err);
		/* Too many files: do not search the ignored directories. */
		r = r == -E2BIG ? 0 : r;
	}
	if (r < 0)
		return r;
	r = changes_find_renames(upper, lower, &c, &inside);
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
