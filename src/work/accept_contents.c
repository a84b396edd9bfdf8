/* SPDX-License-Identifier: Apache-2.0 */
/* accept_contents.c - what a file becomes that the user and the sandbox changed */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/tree_remove.h"
#include "textdiff/merge.h"
#include "work/accept_internal.h"
#include "work/base.h"
#include "work/files_internal.h"

#define MERGED_MAX (2 * TEXT_MAX)

static const struct merge_labels accept_labels = {
	.ours = "yours",
	.base = "before",
	.theirs = "sandbox",
};

void accept_merge_done(struct accept_merge *m)
{
	buf_done(&m->out);
	change_side_done(&m->yours);
	change_side_done(&m->theirs);
	change_side_done(&m->base);
}

static bool accept_is_text(const struct change_side *s)
{
	return S_ISREG(s->mode) && !s->large && !text_is_binary(s->text);
}

static int accept_merge_three(struct accept *a, const struct change *c,
			      struct accept_merge *m, struct warren_error *err)
{
	struct warren_error ignored;
	size_t conflicts = 0;
	int r;

	if (!accept_is_text(&m->yours) || !accept_is_text(&m->theirs)) {
		m->reason = "you and the sandbox changed a file that is not text";
		return 0;
	}
	/*
	 * If the sandbox did not have the file, there were no contents before, even if
	 * the project has the file: it was hidden.
	 */
	r = c->old_mode ? base_shown(a->w, c, &m->base) : -ENOENT;
	if (r == 0)
		r = base_find(a->w, c->path, &m->base, &ignored);
	if (r < 0 || !accept_is_text(&m->base)) {
		change_side_done(&m->base);
		m->reason = c->old_mode ? "you and the sandbox changed the file, and its "
					  "previous contents are not known"
					: "you and the sandbox added different files";
	}
	/*
	 * The commit may not be what the file was when the work started. If it is the
	 * same as one side, a merge would silently take the other one.
	 */
	if (!m->reason && m->base.committed &&
	    (text_equal(m->base.text, m->yours.text) ||
	     text_equal(m->base.text, m->theirs.text)))
		m->reason = "you and the sandbox changed the file, and one of you "
			    "went back to what is committed";
	m->out = (struct buf)BUF_INIT(MERGED_MAX);
	r = text_merge3(m->base.text, m->yours.text, m->theirs.text, &accept_labels,
			&m->out, &conflicts, err);
	if (r < 0)
		return r;
	if (!m->reason && conflicts == 0) {
		m->merged = true;
		m->result = text_equal(TEXT(m->out.data, m->out.len), m->yours.text)
				    ? CONTENTS_SAME
				    : CONTENTS_TEXT;
		return 0;
	}
	if (!m->reason)
		m->reason = "you and the sandbox changed the same lines";
	return 0;
}

/* The hunks were made for contents that the user may have changed since then. */
static int accept_apply(const struct patch *hunks, struct accept_merge *m,
			struct warren_error *err)
{
	if (!accept_is_text(&m->yours))
		return error_set(err, EINVAL,
				 "only whole files can be accepted if they "
				 "are not text");
	m->out = (struct buf)BUF_INIT(MERGED_MAX);
	if (patch_apply(hunks, m->yours.text, &m->out, err) < 0) {
		m->reason = "the hunks do not fit your file";
		return 0;
	}
	m->result = text_equal(TEXT(m->out.data, m->out.len), m->yours.text)
			    ? CONTENTS_SAME
			    : CONTENTS_TEXT;
	return 0;
}

int accept_merge(struct accept *a, const struct change *c, const struct patch *hunks,
		 const struct change_at *yours, const struct change_at *theirs,
		 struct accept_merge *ret, struct warren_error *err)
{
	struct accept_merge m = { .result = CONTENTS_CONFLICT };
	int r = change_side_read(yours, &m.yours);

	if (r == 0 && theirs)
		r = change_side_read(theirs, &m.theirs);
	if (r < 0)
		(void)error_errno(err, -r, "read '%s'", c->path);
	else if (hunks)
		r = accept_apply(hunks, &m, err);
	else if (!theirs)
		m.reason = "you changed the file, and the sandbox removed it";
	else
		r = accept_merge_three(a, c, &m, err);
	if (r < 0) {
		accept_merge_done(&m);
		return r;
	}
	*ret = m;
	return 0;
}

/* --------------------------------------------------------------------- conflicts */

static const char conflict_open[] = "conflicts", conflict_marked[] = "marked";

bool accept_has_marked(const struct work *w)
{
	return faccessat(w->dir_fd, conflict_marked, F_OK, 0) == 0;
}

int accept_conflicts_begin(struct accept *a)
{
	AUTO_CLOSE int dir = beneath_dir(a->w->dir_fd, conflict_marked, O_RDONLY);
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	const struct dir_entry *e;
	int r = 0;

	if (!reader)
		return -ENOMEM;
	(void)tree_remove(a->w->dir_fd, a->w->dir_fd, conflict_open);
	/* Keep files with markers: they are accepted, so no accept would write them
	 * again. */
	for (reader->fd = dir; dir >= 0 && (r = dir_next(reader, &e)) > 0;) {
		const size_t n = strtoul(e->name, NULL, 10);

		a->n_marked = n > a->n_marked ? n : a->n_marked;
	}
	a->n_marked_before = a->n_marked;
	return r;
}

void accept_conflicts_undo(struct accept *a)
{
	AUTO_CLOSE int dir = beneath_dir(a->w->dir_fd, conflict_marked, O_RDONLY);
	char name[32];

	/* One more, of which only some files could be written. */
	for (size_t i = a->n_marked + 1; dir >= 0 && i > a->n_marked_before; i--) {
		(void)snprintf(name, sizeof(name), "%zu", i);
		(void)tree_remove(dir, dir, name);
	}
	/* Unless earlier accepts kept some. */
	(void)unlinkat(a->w->dir_fd, conflict_marked, AT_REMOVEDIR);
}

/* Write <work>/conflicts/<number>/<what>/<name of the file>, or below <work>/marked. */
static int conflict_keep(struct accept *a, bool markers, const char *path,
			 const char *what, struct text text, char **ret)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	AUTO_CLOSE int dir = -1, fd = -1;
	char below[64];
	int r = 0;

	(void)snprintf(below, sizeof(below), "%s/%zu/%s",
		       markers ? conflict_marked : conflict_open,
		       (markers ? a->n_marked : a->result->n_conflicts) + 1, what);
	dir = beneath_make_dirs(a->w->dir_fd, below, 0700);
	if (dir < 0)
		return dir;
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return -errno;
	for (size_t at = 0; r == 0 && at < text.len;) {
		ssize_t n = write(fd, text.data + at, text.len - at);

		if (n < 0 && errno != EINTR)
			r = -errno;
		at += n > 0 ? (size_t)n : 0;
	}
	if (r == 0 && asprintf(ret, "%s/%s/%s", a->w->dir, below, name) < 0)
		r = -ENOMEM;
	return r;
}

int accept_conflict_add(struct accept *a, const char *path, const struct accept_merge *m,
			struct warren_error *err)
{
	/* The same condition as in plan_conflict(). */
	const bool markers =
		a->o->conflicts == ACCEPT_MARKERS && m->out.data && m->theirs.exists;
	struct accept_result *result = a->result;
	struct accept_conflict c = { .path = strdup(path), .reason = m->reason }, *more;
	int r = c.path ? 0 : -ENOMEM;

	if (r == 0 && m->yours.exists && !m->yours.large)
		r = conflict_keep(a, markers, path, "yours", m->yours.text, &c.yours);
	if (r == 0 && m->theirs.exists && !m->theirs.large)
		r = conflict_keep(a, markers, path, "sandbox", m->theirs.text, &c.theirs);
	if (r == 0 && m->out.data && m->theirs.exists)
		r = conflict_keep(a, markers, path, "merged",
				  TEXT(m->out.data, m->out.len), &c.merged);
	more = reallocarray(result->conflicts, result->n_conflicts + 1, sizeof(*more));
	if (more)
		result->conflicts = more;
	if (r < 0 || !more) {
		free(c.path);
		free(c.yours);
		free(c.theirs);
		free(c.merged);
		return error_errno(err, r < 0 ? -r : ENOMEM, "keep both versions of '%s'",
				   path);
	}
	more[result->n_conflicts++] = c;
	a->n_marked += markers;
	return 0;
}
