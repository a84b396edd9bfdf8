/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base_renew.c - a work is resumed: what the user has done is now what both begin with
 *
 * The sandbox sees the project's files as they are now, except for those that it has
 * changed, which keep what they are compared with (earlier.h). Copies of other files are
 * those of old versions, and are removed. The steps are in an order in which an
 * interruption loses at most such copies, which leads to a conflict and not to a merge
 * with a wrong version.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "work/base.h"
#include "work/changes_internal.h"
#include "work/earlier.h"
#include "work/files_internal.h"
#include "work/moved.h"
#include "work/work_internal.h"

/* Remove copies in @dir, the directory at @path, of files without an earlier version. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as the copies are */
static int renew_prune(struct work *w, int dir, const char *path)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	const struct dir_entry *e;
	int r;

	if (!reader)
		return -ENOMEM;
	reader->fd = dir;
	while ((r = dir_next(reader, &e)) > 0) {
		AUTO_FREE char *name = NULL;
		AUTO_CLOSE int below = -1;

		if (asprintf(&name, "%s%s%s", path, path[0] ? "/" : "", e->name) < 0)
			return -ENOMEM;
		below = beneath_dir(dir, e->name, O_RDONLY);
		if (below >= 0)
			r = renew_prune(w, below, name);
		else if (!earlier_has(w, name) && unlinkat(dir, e->name, 0) < 0)
			r = -errno;
		if (r < 0)
			return r;
		/* It may have other copies. */
		if (below >= 0)
			(void)unlinkat(dir, e->name, AT_REMOVEDIR);
	}
	return r;
}

static int renew_prune_all(struct work *w)
{
	static const char *const kept[] = { "base", "before" };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(kept); i++) {
		AUTO_CLOSE int dir = beneath_dir(w->dir_fd, kept[i], O_RDONLY);

		if (dir < 0 && dir != -ENOENT)
			r = dir;
		else if (dir >= 0)
			r = renew_prune(w, dir, "");
	}
	return r < 0 ? r : known_keep_earlier(w);
}

int base_renew(struct work *w, struct warren_error *err)
{
	AUTO_FREE char *head = NULL;
	uint64_t since_ns;
	int r;

	if (w->mode != WORK_OVERLAY)
		return 0;
	r = git_head(w->project_fd, &head);
	r = r < 0 ? r : earlier_renew(w, &since_ns);
	r = r < 0 ? r : renew_prune_all(w);
	if (r < 0)
		return error_errno(
			err, -r, "note which files work '%s' has changed so far", w->id);
	w->since_ns = since_ns;
	r = moved_begin(w, err);
	if (r < 0)
		return r;
	free(w->since_head);
	w->since_head = TAKE_PTR(head);
	base_names_free(w->names);
	w->names = NULL;
	return work_record_save(w, err);
}
