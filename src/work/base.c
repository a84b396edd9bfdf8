/* SPDX-License-Identifier: Apache-2.0 */
/* base.c - find and keep the contents of files before they were changed */
#include "work/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "work/changes_internal.h"
#include "work/earlier.h"
#include "work/files_internal.h"
#include "work/git_run.h"

/* The file itself, if it has not changed since. */
static int base_in_place(struct work *w, const char *path, struct change_side *ret)
{
	struct change_at at = { .dir = -1 };
	AUTO_CLOSE int lower = changes_lower(w);
	int r = lower < 0 ? lower : change_at_open(lower, path, &at);

	if (r == 0 && w->mode != WORK_COPY && known_touched(w, path, &at.st))
		r = -ENOENT;
	if (r == 0)
		r = change_side_read(&at, ret);
	close_p(&at.dir);
	return r;
}

/* A copy in <work>/@kept: "base" or "before". */
static int base_kept(struct work *w, const char *kept, const char *path,
		     struct change_side *ret)
{
	struct change_at at = { .dir = -1 };
	AUTO_CLOSE int dir = beneath_dir(w->dir_fd, kept, O_PATH);
	int r = dir < 0 ? dir : change_at_open(dir, path, &at);

	if (r == 0)
		r = S_ISREG(at.st.st_mode) ? change_side_read(&at, ret) : -ENOENT;
	close_p(&at.dir);
	return r;
}

int base_shown(struct work *w, const struct change *c, struct change_side *ret)
{
	AUTO_CHANGE_SIDE struct change_side shown = { 0 }, now = { 0 };
	struct change_at at = { .dir = -1 };
	int r;

	if (!S_ISREG(c->old_mode) || c->from ||
	    base_kept(w, w->mode == WORK_COPY ? "copy" : "hide", c->path, &shown) < 0)
		return 0;
	r = change_at_open(w->project_fd, c->path, &at);
	r = r < 0 ? r : change_side_read(&at, &now);
	close_p(&at.dir);
	if (r < 0 || (!now.large && text_equal(shown.text, now.text)))
		return 0;
	/* A copy contains all files. Cleaned files with other names are small. */
	if (now.large && !(c->guard & GUARD_GIT))
		return 0;
	/* The file was cleaned again, but the sandbox has not seen the result. */
	if (w->mode == WORK_OVERLAY && earlier_has(w, c->path))
		return -ENOENT;
	*ret = shown;
	shown = (struct change_side){ 0 };
	return 1;
}

/*
 * Does a program of the user convert the file, as git-lfs does? Then the commit does not
 * have its contents, and the program is not started for that.
 */
static int base_is_filtered(struct work *w, const char *path, struct warren_error *err)
{
	struct buf out AUTO_BUF = BUF_INIT((size_t)1 << 18);
	const char *const argv[] = { "check-attr", "-z", "filter", "--", path, NULL };
	const struct git_command c = { .argv = argv, .in = -1, .out = -1 };
	const char *value;
	int r = git_run(w, &c, &out, err);

	if (r < 0)
		return r;
	buf_puts(&out, "");
	/* "<path>\0filter\0<value>\0" */
	if (out.failed || out.len < strlen(path) + 1 + sizeof("filter") + 1)
		return -EPROTO;
	value = out.data + strlen(path) + 1 + sizeof("filter");
	return strcmp(value, "unspecified") != 0 && strcmp(value, "unset") != 0;
}

static int base_committed(struct work *w, const char *path, struct change_side *ret,
			  struct warren_error *err)
{
	struct buf out AUTO_BUF = BUF_INIT(TEXT_MAX + 65537);
	AUTO_FREE char *name = NULL;
	/* With the ends of lines that git writes for this file. */
	const char *const argv[] = { "cat-file", "--filters", NULL, NULL };
	const char *full[ARRAY_SIZE(argv)], *head = earlier_head(w, path);
	struct git_command c = { .argv = full, .in = -1, .out = -1 };
	int r;

	if (!head || base_names_lack(w, path, head))
		return -ENOENT;
	r = base_is_filtered(w, path, err);
	if (r != 0)
		return r < 0 ? r : -ENOENT;
	if (asprintf(&name, "%s:%s", head, path) < 0)
		return -ENOMEM;
	(void)memcpy(full, argv, sizeof(argv));
	full[2] = name;
	r = git_run(w, &c, &out, err);
	if (r < 0)
		return r;
	*ret = (struct change_side){ .exists = true,
				     .committed = true,
				     .mode = S_IFREG | 0644,
				     .data = TAKE_PTR(out.data),
				     .text = TEXT(NULL, out.len) };
	ret->text.data = ret->data;
	return 0;
}

int base_find(struct work *w, const char *path, struct change_side *ret,
	      struct warren_error *err)
{
	int r = base_in_place(w, path, ret);

	if (r < 0)
		r = base_kept(w, "base", path, ret);
	if (r < 0)
		r = base_kept(w, "before", path, ret);
	if (r < 0 && w->mode != WORK_COPY)
		r = base_committed(w, path, ret, err);
	return r < 0 ? error_set(err, ENOENT,
				 "the contents of '%s' before the change are "
				 "not known",
				 path)
		     : 0;
}

static int base_copy(struct work *w, int base, const struct change *c)
{
	const char *path = c->from ? c->from : c->path, *name = strrchr(path, '/');
	AUTO_FREE char *parent = strndup(path, name ? (size_t)(name - path) : 0);
	struct change_at at = { .dir = -1 };
	AUTO_CHANGE_SIDE struct change_side s = { 0 }, kept = { 0 };
	AUTO_CLOSE int dir = -1;
	int r = parent ? change_at_open(w->project_fd, path, &at) : -ENOMEM;

	r = r < 0 ? r : change_side_read(&at, &s);
	close_p(&at.dir);
	if (r < 0 || !S_ISREG(s.mode) || s.large || text_is_binary(s.text))
		return r == -ENOMEM ? r : 0;
	dir = beneath_make_dirs(base, parent, 0700);
	if (dir < 0)
		return dir;
	name = name ? name + 1 : path;
	/* One that was interrupted must not be taken for the whole. */
	if (base_kept(w, "base", path, &kept) == 0 && text_equal(kept.text, s.text))
		return 0;
	return work_file_replace(dir, name, s.text.len ? s.text.data : "", s.text.len,
				 false);
}

/*
 * To tell files that the user changes from those that are only touched. Ignored files
 * are left out here as well: those that tools create would take the most time.
 */
static int base_keep_sums(struct work *w, const struct changes *c)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < c->n; i++) {
		const struct change *v = &c->v[i];

		if (!v->tree && (!v->ignored || v->from) && v->old_mode &&
		    !S_ISDIR(v->old_mode))
			r = known_note_sum(w, v->from ? v->from : v->path);
	}
	return r < 0 ? r : known_note_save(w);
}

int base_keep(struct work *w, struct warren_error *err)
{
	AUTO_CHANGES struct changes c = { 0 };
	AUTO_CLOSE int base = -1;
	int r;

	if (w->mode != WORK_OVERLAY)
		return 0;
	r = changes_list(w, 0, &c, err);
	if (r < 0)
		return r;
	r = known_note_save(w);
	if (r < 0)
		return error_errno(err, -r, "keep the modes of work '%s'", w->id);
	r = base_keep_sums(w, &c);
	if (r < 0)
		return error_errno(err, -r, "keep the sums of work '%s'", w->id);
	base = beneath_make_dirs(w->dir_fd, "base", 0700);
	if (base < 0)
		return error_errno(err, -base, "create '%s/base'", w->dir);
	for (size_t i = 0; i < c.n; i++) {
		const struct change *v = &c.v[i];

		/* A file that was moved to an ignored place was not ignored before. */
		if (v->tree || (v->ignored && !v->from) || v->touched ||
		    !S_ISREG(v->old_mode) || v->old_size > TEXT_MAX)
			continue;
		r = base_copy(w, base, v);
		/* A directory and a file may have had the same name. */
		if (r < 0 && r != -ENOTDIR && r != -EISDIR && r != -EEXIST)
			return error_errno(err, -r, "keep the original of '%s'", v->path);
	}
	return 0;
}

int work_end(struct work *w, int status, struct warren_error *err)
{
	struct timespec now;
	int r;

	base_wait(w, true);
	(void)clock_gettime(CLOCK_REALTIME, &now);
	w->status = status;
	w->ended_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	r = work_record_save(w, err);
	return r < 0 || w->project_fd < 0 ? r : base_keep(w, err);
}
