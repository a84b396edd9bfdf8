/* SPDX-License-Identifier: Apache-2.0 */
/* decide_find.c - find the changes to accept or reject, by paths or by a patch */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/work/choose_patch.h"
#include "cli/work/decide.h"
#include "cli/work/input.h"
#include "cli/work/select.h"

int decide_parse_allow(const char *word, unsigned *allow, struct warren_error *err)
{
	enum change_guard guard;
	int r = change_guard_parse(word, &guard, err);

	if (r < 0)
		return r;
	if (guard == GUARD_DEVICE)
		return error_set(err, EINVAL,
				 "'%s' is never accepted: use git, set-id, link or "
				 "hidden",
				 word);
	*allow |= guard;
	return 0;
}

static const char *const decide_conflicts_names[] = {
	[ACCEPT_STOP] = "stop",
	[ACCEPT_SKIP] = "skip",
	[ACCEPT_MARKERS] = "markers",
	[ACCEPT_THEIRS] = "theirs",
};

const char *decide_conflicts_name(enum accept_conflicts conflicts)
{
	return decide_conflicts_names[conflicts];
}

int decide_parse_conflicts(const char *word, enum accept_conflicts *ret,
			   struct warren_error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(decide_conflicts_names); i++)
		if (strcmp(word, decide_conflicts_names[i]) == 0) {
			*ret = (enum accept_conflicts)i;
			return 0;
		}
	return error_set(err, EINVAL, "'%s' is not stop, skip, markers or theirs", word);
}

/* Make items of all changes that were found, to reject them. */
static int decide_find_all(struct decide_found *f, struct warren_error *err)
{
	f->items.v = calloc(f->changes.n + 1, sizeof(*f->items.v));
	if (!f->items.v)
		return error_errno(err, ENOMEM, "list changes");
	for (; f->items.n < f->changes.n; f->items.n++)
		f->items.v[f->items.n].change = &f->changes.v[f->items.n];
	return 0;
}

static int decide_find_paths(struct work *w, const struct decide_wanted *wanted,
			     const struct accept_options *o, struct decide_found *f,
			     struct warren_error *err)
{
	AUTO_PATHS struct input_paths paths = { 0 };
	int r = input_paths(&wanted->paths_from, wanted->paths, &paths, err);

	if (r == 0)
		r = select_changes(w, paths.v, o && o->ignored ? CHANGES_EXPAND : 0,
				   &f->changes, err);
	if (r < 0)
		return r;
	if (!o)
		return decide_find_all(f, err);
	r = decide_all(&f->changes, o, &f->items, &f->left, err);
	decide_check_commits(w, &f->left);
	return r;
}

static int decide_find_patch(struct work *w, const struct input *patch,
			     const struct accept_options *o, struct decide_found *f,
			     struct warren_error *err)
{
	int r;

	f->patch = (struct buf)BUF_INIT(TEXT_MAX);
	r = input_read(patch, &f->patch, err);
	if (r == 0 &&
	    patches_parse(TEXT(f->patch.data, f->patch.len), &f->patches, err) < 0)
		r = error_wrap(err, "the patch is not valid");
	if (r == 0 && f->patch.len > 0 && f->patches.n == 0)
		r = error_set(
			err, EINVAL,
			"the patch cannot be read: it names no file ('--- a/FILE' and "
			"'+++ b/FILE'); to make a patch: warren diff --patch %s",
			w->id);
	if (r == 0)
		r = changes_list(w, 0, &f->changes, err);
	if (r == 0 && choose_patch_needs_more(&f->changes, &f->patches)) {
		changes_done(&f->changes);
		f->changes = (struct changes){ 0 };
		r = changes_list(w, CHANGES_EXPAND, &f->changes, err);
	}
	if (r == 0)
		r = choose_make(w, &f->changes,
				&(struct choose_options){
					.allow = ~0U, .ignored = CHOOSE_WITH_IGNORED },
				&f->choose, err);
	if (r == 0)
		r = choose_patch(&f->choose, &f->patches, err);
	if (r == 0)
		r = choose_items(&f->choose, &f->items, err);
	if (r < 0)
		return r;
	/* Naming a change in a patch permits nothing: only the options do. */
	f->items.ignored = o && o->ignored;
	return 0;
}

int decide_find(struct work *w, const struct decide_wanted *wanted,
		const struct accept_options *o, struct decide_found *ret,
		struct warren_error *err)
{
	AUTO_DECIDE_FOUND struct decide_found f = { 0 };
	int r = wanted->patch.path ? decide_find_patch(w, &wanted->patch, o, &f, err)
				   : decide_find_paths(w, wanted, o, &f, err);

	if (r < 0)
		return r;
	*ret = f;
	f = (struct decide_found){ 0 };
	return 0;
}

void decide_found_done(struct decide_found *f)
{
	choose_items_done(&f->items);
	choose_done(&f->choose);
	patches_done(&f->patches);
	buf_done(&f->patch);
	changes_done(&f->changes);
	*f = (struct decide_found){ 0 };
}
