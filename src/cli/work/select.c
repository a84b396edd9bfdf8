/* SPDX-License-Identifier: Apache-2.0 */
/* select.c - find the work and the changes that the words of a command refer to */
#include "cli/work/select.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Return whether @path is @dir or below it; *@ret_rest is what follows. */
static bool select_below(const char *path, const char *dir, const char **ret_rest)
{
	size_t n = strlen(dir);

	if (strncmp(path, dir, n) != 0 || (path[n] && path[n] != '/'))
		return false;
	*ret_rest = path + n + (path[n] == '/');
	return true;
}

static int select_ambiguous(const struct work_list *l, const bool *chosen,
			    struct warren_error *err)
{
	char ids[256] = "";
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		if (chosen[i] && n < sizeof(ids) - ID_LEN - 3)
			n += (size_t)snprintf(ids + n, sizeof(ids) - n, "%s%s",
					      n ? ", " : "", l->v[i].id);
	return error_set(err, EINVAL,
			 "this directory has several works: name one of them (%s)", ids);
}

/* Find the only work of the current directory. */
static int select_here(char ret_id[ID_LEN + 1], struct warren_error *err)
{
	AUTO_WORK_LIST struct work_list list = { 0 };
	AUTO_FREE bool *chosen = NULL;
	char cwd[PATH_MAX];
	const char *rest;
	size_t n = 0;
	int r = works_list(NULL, &list, err);

	if (r < 0)
		return r;
	if (!getcwd(cwd, sizeof(cwd)))
		return error_errno(err, errno, "current directory");
	chosen = calloc(list.n + 1, sizeof(*chosen));
	if (!chosen)
		return error_errno(err, ENOMEM, "list works");
	for (size_t i = 0; i < list.n; i++) {
		chosen[i] = list.v[i].mode != WORK_BIND && !list.v[i].remains &&
			    select_below(cwd, list.v[i].project, &rest);
		if (chosen[i])
			(void)memcpy(ret_id, list.v[i].id, ID_LEN + 1);
		n += chosen[i];
	}
	if (n > 1)
		return select_ambiguous(&list, chosen, err);
	if (!n)
		return error_set(err, ENOENT,
				 "this directory has no changes to decide on "
				 "('warren work' runs a command here)");
	return 0;
}

int select_work(const char *id, bool exclusive, struct work **ret,
		struct warren_error *err)
{
	char found[ID_LEN + 1] = "";
	AUTO_WORK struct work *w = NULL;
	int r;

	if (!id) {
		r = select_here(found, err);
		if (r < 0)
			return r;
	}
	r = work_open(id ? id : found, exclusive, &w, err);
	/* Without its project, nothing of it can be shown or decided on. */
	if (r == 0 && w->project_fd >= 0)
		r = works_settle(w->project, exclusive ? w->id : NULL, err);
	if (r == 0)
		*ret = TAKE_PTR(w);
	return r;
}

/* Is the word a path, for the only work of the current directory? */
static bool select_is_path(char *word)
{
	char *const paths[] = { word, NULL };
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_CHANGES struct changes changes = { 0 };
	AUTO_WORK struct work *w = NULL;

	return select_work(NULL, false, &w, &ignored) == 0 &&
	       (access(word, F_OK) == 0 ||
		select_changes(w, paths, 0, &changes, &ignored) == 0);
}

const char *select_words(char **words, char ***ret_paths)
{
	const bool no_work =
		words[0] && !work_exists(words[0]) && select_is_path(words[0]);

	*ret_paths = words[0] && !no_work ? words + 1 : words;
	return no_work ? NULL : words[0];
}

void select_complete(struct buf *out)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_WORK_LIST struct work_list list = { 0 };

	if (works_list(NULL, &list, &err) < 0)
		return;
	for (size_t i = 0; i < list.n; i++)
		buf_printf(out, "%s\t%s\n", list.v[i].id,
			   list.v[i].name ? list.v[i].name : "work");
}

/* ----------------------------------------------------------------- changes */

/* Remove "." and resolve ".." in a relative path, in place; -1: it leaves the project. */
static int select_normalise(char *path)
{
	char *out = path, *next = path;

	do {
		char *part = next;
		size_t n;

		next = strchr(part, '/');
		n = next ? (size_t)(next++ - part) : strlen(part);
		if (n == 0 || (n == 1 && part[0] == '.'))
			continue;
		if (n == 2 && part[0] == '.' && part[1] == '.') {
			if (out == path)
				return -1;
			while (out > path && *--out != '/')
				;
			continue;
		}
		if (out > path)
			*out++ = '/';
		(void)memmove(out, part, n);
		out += n;
	} while (next);
	*out = '\0';
	return 0;
}

/* Get @path relative to the project; the caller frees it. NULL: @err is set. */
static char *select_path(const struct work *w, const char *path, struct warren_error *err)
{
	AUTO_FREE char *joined = NULL;
	char cwd[PATH_MAX];
	const char *rest = NULL;

	if (!path[0]) {
		(void)error_set(err, EINVAL,
				"a path is empty: the current directory is '.'");
		return NULL;
	}
	if (path[0] == '/') {
		if (!select_below(path, w->project, &rest)) {
			(void)error_set(err, EINVAL, "'%s' is not in the project (%s)",
					path, w->project);
			return NULL;
		}
		joined = strdup(rest);
	} else if (getcwd(cwd, sizeof(cwd)) && select_below(cwd, w->project, &rest) &&
		   *rest) {
		if (asprintf(&joined, "%s/%s", rest, path) < 0)
			joined = NULL;
	} else {
		joined = strdup(path);
	}
	if (!joined) {
		(void)error_errno(err, ENOMEM, "path '%s'", path);
		return NULL;
	}
	if (select_normalise(joined) < 0) {
		(void)error_set(err, EINVAL, "'%s' is not in the project (%s)", path,
				w->project);
		return NULL;
	}
	return TAKE_PTR(joined);
}

static bool select_matches(const char *path, const char *wanted)
{
	const char *rest;

	return !*wanted || (path && select_below(path, wanted, &rest));
}

bool select_has(const struct work *w, const struct changes *changes, const char *path)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_FREE char *wanted = select_path(w, path, &ignored);

	for (size_t i = 0; wanted && i < changes->n; i++)
		if (select_matches(changes->v[i].path, wanted) ||
		    select_matches(changes->v[i].from, wanted))
			return true;
	return false;
}

static void select_free_change(struct change *c)
{
	free(c->path);
	free(c->from);
	*c = (struct change){ 0 };
}

/* Mark the changes that @path means in @keep. */
static int select_mark(const struct work *w, const struct changes *all, const char *path,
		       bool *keep, struct warren_error *err)
{
	AUTO_FREE char *wanted = select_path(w, path, err);
	bool found = false;

	if (!wanted)
		return -err->code;
	for (size_t i = 0; i < all->n; i++) {
		bool match = select_matches(all->v[i].path, wanted) ||
			     select_matches(all->v[i].from, wanted);

		keep[i] |= match;
		found |= match;
	}
	return found ? 0 : error_set(err, ENOENT, "nothing was changed at '%s'", path);
}

/* Return whether @path is below a directory that is listed as one change. */
static bool select_is_inside(const struct work *w, const struct changes *all,
			     const char *path)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_FREE char *wanted = select_path(w, path, &ignored);
	const char *rest;

	if (!wanted)
		return false;
	for (size_t i = 0; i < all->n; i++)
		if (all->v[i].tree && select_below(wanted, all->v[i].path, &rest) &&
		    *rest)
			return true;
	return false;
}

/* Return whether one of the paths is. */
static bool select_inside(const struct work *w, const struct changes *all,
			  char *const *paths)
{
	for (; *paths; paths++)
		if (select_is_inside(w, all, *paths))
			return true;
	return false;
}

int select_changes(struct work *w, char *const *paths, unsigned flags,
		   struct changes *ret, struct warren_error *err)
{
	AUTO_CHANGES struct changes all = { 0 };
	AUTO_FREE bool *keep = NULL;
	size_t n = 0;
	int r = changes_list(w, flags, &all, err);

	if (r == 0 && paths && *paths && select_inside(w, &all, paths)) {
		changes_done(&all);
		all = (struct changes){ 0 };
		r = changes_list(w, flags | CHANGES_EXPAND, &all, err);
	}
	if (r < 0)
		return r;
	if (paths && *paths) {
		keep = calloc(all.n + 1, sizeof(*keep));
		if (!keep)
			return error_errno(err, ENOMEM, "list changes");
		for (; *paths && r == 0; paths++)
			r = select_mark(w, &all, *paths, keep, err);
		if (r < 0)
			return r;
		for (size_t i = 0; i < all.n; i++)
			if (keep[i])
				all.v[n++] = all.v[i];
			else
				select_free_change(&all.v[i]);
		all.n = n;
	}
	*ret = all;
	all = (struct changes){ 0 };
	return 0;
}
