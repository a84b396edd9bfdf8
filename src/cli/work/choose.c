/* SPDX-License-Identifier: Apache-2.0 */
/* choose.c - the parts of changes on which a user decides */
#include "cli/work/choose.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/work/pager.h"
#include "cli/work/show.h"

/* What would have to be allowed, if not all of it is needed. */
static bool choose_needs(const struct change *c, unsigned missing)
{
	return missing & ~(change_is_set_id_only(c) ? 0 : (unsigned)GUARD_SETID);
}

bool choose_is_blocked(const struct choose_file *f)
{
	return choose_needs(f->change, f->missing & ~f->given);
}

static bool choose_offers(const struct change *c, const struct choose_options *o)
{
	if ((c->guard & GUARD_DEVICE) ||
	    (!o->ask_permission && choose_needs(c, c->guard & ~o->allow)))
		return false;
	if (o->ignored == CHOOSE_ONLY_IGNORED)
		return c->ignored && !show_is_repository(c);
	return !c->tree && (o->ignored == CHOOSE_WITH_IGNORED || !c->ignored);
}

int choose_make(struct work *w, const struct changes *changes,
		const struct choose_options *o, struct choose *ret,
		struct warren_error *err)
{
	struct choose c = { .work = w, .verb = o->verb, .no_edit = o->no_edit };

	c.v = calloc(changes->n + 1, sizeof(*c.v));
	if (!c.v)
		return error_errno(err, ENOMEM, "list changes");
	for (size_t i = 0; i < changes->n; i++)
		if (choose_offers(&changes->v[i], o)) {
			c.v[c.n].missing = changes->v[i].guard & ~o->allow;
			c.v[c.n++].change = &changes->v[i];
		}
	*ret = c;
	return 0;
}

static void choose_file_done(struct choose_file *f)
{
	change_side_done(&f->old);
	change_side_done(&f->new);
	text_lines_done(&f->old_lines);
	for (size_t i = 0; f->originals && i < f->patch.n; i++)
		free(f->originals[i].v);
	free(f->originals);
	free(f->remains.v);
	patch_done(&f->patch);
	free(f->states);
	while (f->n_edited)
		free(f->edited[--f->n_edited]);
	free(f->edited);
}

void choose_done(struct choose *c)
{
	for (size_t i = 0; i < c->n; i++)
		choose_file_done(&c->v[i]);
	free(c->v);
	*c = (struct choose){ 0 };
}

static bool choose_is_text(const struct change_side *s)
{
	return !s->exists || (!s->large && !text_is_binary(s->text));
}

static int choose_find_hunks(struct choose_file *f, struct warren_error *err)
{
	AUTO_DIFF struct text_diff d = { 0 };
	int r = text_diff_make(f->old.text, f->new.text, &d, err);

	if (r == 0)
		r = patch_from_diff(&d, PATCH_CONTEXT, &f->patch, err);
	if (r == 0)
		r = text_lines_make(f->old.text, &f->old_lines, err);
	return r;
}

int choose_load(struct choose *c, struct choose_file *f, struct warren_error *err)
{
	int r = 0;

	f->whole = true;
	f->n = 1;
	if (!S_ISDIR(f->change->old_mode | f->change->new_mode)) {
		r = change_contents(c->work, f->change, &f->old, &f->new, err);
		if (r == 0 && choose_is_text(&f->old) && choose_is_text(&f->new))
			r = choose_find_hunks(f, err);
	}
	if (r < 0)
		return r;
	/*
	 * In the mode copy, .old is that of the copy: only hunks depend on it. A file
	 * that was hidden from the sandbox is not in .old, and is not replaced anyway.
	 */
	if (!f->change->unseen && !S_ISDIR(f->change->old_mode | f->change->new_mode) &&
	    !f->change->from)
		accept_sum(&f->old, f->seen);
	if (S_ISREG(f->old.mode) && S_ISREG(f->new.mode) && f->patch.n &&
	    !f->change->from) {
		f->whole = false;
		f->n = f->patch.n;
	}
	f->states = calloc(f->n, sizeof(*f->states));
	return f->states ? 0 : error_errno(err, ENOMEM, "'%s'", f->change->path);
}

void choose_release(struct choose_file *f)
{
	for (size_t i = 1; i < f->n; i++)
		if (f->states[i] != f->states[0])
			return;
	if (f->was_edited || f->leaves_mode)
		return;
	change_side_done(&f->old);
	change_side_done(&f->new);
	text_lines_done(&f->old_lines);
	patch_done(&f->patch);
	f->whole = true;
	f->n = 1;
}

int choose_split(struct choose_file *f, size_t at, struct warren_error *err)
{
	size_t was = f->patch.n, added;
	struct patch_hunk *originals = f->originals;
	enum choose_state *states;
	int r = patch_split(&f->patch, at, err);

	if (r < 0)
		return r;
	added = f->patch.n - was;
	if (originals) {
		originals = realloc(originals, f->patch.n * sizeof(*originals));
		if (!originals)
			return error_errno(err, ENOMEM, "split a hunk");
		f->originals = originals;
		(void)memmove(originals + at + added, originals + at,
			      (was - at) * sizeof(*originals));
		(void)memset(originals + at, 0, added * sizeof(*originals));
	}
	states = realloc(f->states, f->patch.n * sizeof(*states));
	if (!states)
		return error_errno(err, ENOMEM, "split a hunk");
	(void)memmove(states + at + added, states + at, (was - at) * sizeof(*states));
	for (size_t i = 0; i < added; i++)
		states[at + i] = states[at + added];
	f->states = states;
	f->n = f->patch.n;
	return 0;
}

/* -------------------------------------------------------------------- edit */

static const char choose_edit_help[] =
	"# What you save is accepted instead of the sandbox's lines, and the rest of them is\n"
	"# discarded.\n"
	"# To leave out a line with '-', replace the '-' by a space.\n"
	"# To leave out a line with '+', delete the line. Lines with '+' can be changed.\n"
	"# Lines with '#' are ignored. Without any '-' and '+', nothing is chosen.\n";

static int choose_edit_write(struct choose_file *f, size_t at, int fd,
			     struct warren_error *err)
{
	const struct unified_options plain = { .context = PATCH_CONTEXT };
	AUTO_BUF struct buf out = BUF_INIT((size_t)1 << 30);
	size_t done = 0;

	unified_write_hunk(&out, &f->patch.v[at], &f->old_lines, &plain);
	buf_puts(&out, choose_edit_help);
	if (out.failed)
		return error_errno(err, ENOMEM, "edit a hunk");
	while (done < out.len) {
		ssize_t n = write(fd, out.data + done, out.len - done);

		if (n < 0)
			return error_errno(err, errno, "write the hunk to a file");
		done += (size_t)n;
	}
	return 0;
}

/* Read what the editor left. The last line gets an end. */
static int choose_edit_read(const char *path, struct buf *out, struct warren_error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = 1;

	if (fd < 0)
		return error_errno(err, errno, "open '%s'", path);
	while (n > 0) {
		char *room = buf_reserve(out, 65536);

		if (!room)
			return error_errno(err, EFBIG, "read the edited hunk");
		n = read(fd, room, 65536);
		if (n < 0)
			return error_errno(err, errno, "read '%s'", path);
		out->len += (size_t)n;
	}
	if (out->len && out->data[out->len - 1] != '\n')
		buf_puts(out, "\n");
	return out->failed ? error_errno(err, EFBIG, "read the edited hunk") : 0;
}

/* Keep @data, to which the lines of a hunk will refer. */
static int choose_keep(struct choose_file *f, char *data, struct warren_error *err)
{
	char **v = realloc(f->edited, (f->n_edited + 1) * sizeof(*v));

	if (!v)
		return error_errno(err, ENOMEM, "edit a hunk");
	f->edited = v;
	f->edited[f->n_edited++] = data;
	return 0;
}

/* Replace hunk @at, and remember what it was before it was edited for the first time. */
static int choose_replace(struct choose_file *f, size_t at, struct text edited,
			  struct warren_error *err)
{
	const struct patch_hunk h = f->patch.v[at];
	AUTO_FREE struct patch_line *v = calloc(h.n + 1, sizeof(*v));
	int r;

	if (!f->originals)
		f->originals = calloc(f->patch.n, sizeof(*f->originals));
	if (!f->originals || !v)
		return error_errno(err, ENOMEM, "edit a hunk");
	(void)memcpy(v, h.v, h.n * sizeof(*v));
	r = patch_replace_hunk(&f->patch, at, f->old.text, edited, err);
	if (r < 0 || f->originals[at].v)
		return r;
	f->originals[at] = h;
	f->originals[at].v = TAKE_PTR(v);
	return 0;
}

static int choose_edit_apply(struct choose_file *f, size_t at, struct buf *edited,
			     struct warren_error *err)
{
	struct text t = TEXT(edited->data, edited->len);
	int r = choose_keep(f, edited->data, err);

	if (r < 0)
		return r;
	*edited = (struct buf){ 0 };
	r = choose_replace(f, at, t, err);
	if (r < 0)
		return r;
	f->was_edited = true;
	f->states[at] = CHOOSE_NO;
	for (size_t i = 0; i < f->patch.v[at].n; i++)
		if (f->patch.v[at].v[i].kind != ' ')
			f->states[at] = CHOOSE_YES;
	return 0;
}

int choose_edit(struct choose *c, struct choose_file *f, size_t at,
		struct warren_error *err)
{
	AUTO_BUF struct buf edited = BUF_INIT(TEXT_MAX);
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int fd = -1;
	int r;

	if (asprintf(&path, "%s/hunk-XXXXXX.diff", c->work->dir) < 0) {
		path = NULL;
		return error_errno(err, ENOMEM, "edit a hunk");
	}
	fd = mkostemps(path, (int)strlen(".diff"), O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "create '%s'", path);
	r = choose_edit_write(f, at, fd, err);
	if (r == 0)
		r = pager_edit(path, err);
	if (r == 0)
		r = choose_edit_read(path, &edited, err);
	(void)unlink(path);
	return r < 0 ? r : choose_edit_apply(f, at, &edited, err);
}

/* ------------------------------------------------------------------- items */

static size_t choose_count(const struct choose_file *f, enum choose_state state)
{
	size_t n = 0;

	for (size_t i = 0; f->states && i < f->n; i++)
		n += f->states[i] == state;
	return n;
}

/*
 * If edited hunks were chosen, the sandbox's file gets them in place of its own, so that
 * they are decided. Hunks that were not chosen stay as they are.
 */
static int choose_remains(struct choose_file *f, struct accept_item *item,
			  struct warren_error *err)
{
	bool any = false;

	for (size_t i = 0; f->originals && i < f->n; i++)
		any |= f->originals[i].v && f->states[i] == CHOOSE_YES;
	if (!any)
		return 0;
	free(f->remains.v);
	f->remains = f->patch;
	f->remains.v = calloc(f->n + 1, sizeof(*f->remains.v));
	if (!f->remains.v)
		return error_errno(err, ENOMEM, "list changes");
	for (size_t i = 0; i < f->n; i++) {
		bool original = f->originals[i].v && f->states[i] != CHOOSE_YES;

		f->remains.v[i] = original ? f->originals[i] : f->patch.v[i];
		f->remains.v[i].skip = false;
	}
	item->remains = &f->remains;
	return 0;
}

int choose_items(struct choose *c, struct choose_items *ret, struct warren_error *err)
{
	AUTO_CHOOSE_ITEMS struct choose_items items = { 0 };
	int r = 0;

	items.v = calloc(c->n + 1, sizeof(*items.v));
	if (!items.v)
		return error_errno(err, ENOMEM, "list changes");
	for (size_t i = 0; r == 0 && i < c->n; i++) {
		struct choose_file *f = &c->v[i];
		size_t yes = choose_count(f, CHOOSE_YES);
		struct accept_item *item = &items.v[items.n];

		if (!yes)
			continue;
		item->change = f->change;
		if (f->seen[0] && c->work->mode != WORK_COPY)
			item->seen = f->seen;
		if (!f->whole && (yes < f->n || f->was_edited || f->leaves_mode)) {
			for (size_t k = 0; k < f->n; k++)
				f->patch.v[k].skip = f->states[k] != CHOOSE_YES;
			item->hunks = &f->patch;
			item->seen = f->seen;
			r = choose_remains(f, item, err);
		}
		item->allow = f->given;
		items.ignored |= f->change->ignored;
		items.n++;
	}
	if (r < 0)
		return r;
	*ret = items;
	items = (struct choose_items){ 0 };
	return 0;
}

void choose_items_done(struct choose_items *items)
{
	free(items->v);
	*items = (struct choose_items){ 0 };
}
