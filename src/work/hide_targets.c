/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hide_targets.c - hide what links with the names of secrets lead to
 *
 * '.env' may be a link to config/production, and '.aws' one to a directory: if only the
 * link were hidden, the secret would still be visible. Only targets in the project are
 * hidden, and not those that a pattern shows, such as .env.example.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "work/files_internal.h"
#include "work/hide_internal.h"

#define TARGETS_SIZE_MAX ((size_t)4 << 20)

struct hide_targets {
	const struct work *w;
	struct work_hidden *h;
	struct gitignore defaults, asked;
};

/* Where the path leads to, relative to the project; NULL: out of it, or nowhere. */
static char *targets_find(const struct hide_targets *t, const char *path, struct stat *st)
{
	AUTO_FREE char *real = NULL;
	char full[2 * PATH_MAX];
	const size_t n = strlen(t->w->project);
	size_t size;

	(void)snprintf(full, sizeof(full), "%s/%s", t->w->project, path);
	real = realpath(full, NULL);
	if (!real || strncmp(real, t->w->project, n) != 0 || real[n] != '/' ||
	    lstat(real, st) < 0)
		return NULL;
	/* A directory above the link also contains other files. */
	size = strlen(real + n + 1);
	if (strncmp(path, real + n + 1, size) == 0 && (!path[size] || path[size] == '/'))
		return NULL;
	return strdup(real + n + 1);
}

static bool targets_has_secret(const struct hide_targets *t, const char *path,
			       unsigned what)
{
	AUTO_FREE char *text = NULL;
	size_t n;

	return what == 0 ||
	       work_file_read_at(t->w->project_fd, path, TARGETS_SIZE_MAX, &text, &n) <
		       0 ||
	       hide_has_secret(text, n, what);
}

static int targets_add(struct hide_targets *t, const char *path, bool is_dir)
{
	if (gitignore_match(&t->asked, path, is_dir, NULL) == 0 ||
	    gitignore_match(&t->defaults, path, is_dir, NULL) == 0)
		return 0;
	return hide_add(&t->h->paths, &t->h->n, path);
}

/* Would a pattern hide the path? */
static bool targets_matches(struct hide_targets *t, const char *path, bool is_dir)
{
	int asked = gitignore_match(&t->asked, path, is_dir, NULL);

	return asked >= 0 ? asked > 0
			  : gitignore_match(&t->defaults, path, is_dir, NULL) == 1;
}

/* Add the target of a link that is hidden because of its name. */
static int targets_hidden(struct hide_targets *t, const char *path)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *target = NULL;
	struct stat st;

	if (beneath_stat(t->w->project_fd, path, &st) < 0 || !S_ISLNK(st.st_mode))
		return 0;
	target = targets_find(t, path, &st);
	/* As a directory with the name of the link would be, whatever is in it. */
	if (target && S_ISDIR(st.st_mode))
		return targets_matches(t, path, true) ? targets_add(t, target, true) : 0;
	if (!target || !S_ISREG(st.st_mode) ||
	    !targets_has_secret(t, target, hide_contents_of(slash ? slash + 1 : path)))
		return 0;
	return targets_add(t, target, false);
}

/* For example, ".docker" is a link, and the pattern is ".docker/config.json". */
static int targets_in(struct hide_targets *t, const char *link, const char *pattern)
{
	const char *from = pattern + (strncmp(pattern, "**/", 3) == 0 ? 3 : 0);
	const char *rest = strchr(from, '/');
	char path[2 * PATH_MAX];
	AUTO_FREE char *target = NULL;
	struct stat st;

	if (from[0] == '!' || !rest || !rest[1])
		return 0;
	(void)snprintf(path, sizeof(path), "%s%s", link, rest);
	if (path[strlen(path) - 1] == '/')
		path[strlen(path) - 1] = '\0';
	target = targets_find(t, path, &st);
	if (!target || !targets_matches(t, path, S_ISDIR(st.st_mode)))
		return 0;
	return targets_add(t, target, S_ISDIR(st.st_mode));
}

/* Add the target of another link, if it is a directory with secrets. */
static int targets_dir(struct hide_targets *t, const char *link)
{
	AUTO_FREE char *target = NULL;
	struct stat st;
	int r = 0;

	target = targets_find(t, link, &st);
	if (!target || !S_ISDIR(st.st_mode))
		return 0;
	if (targets_matches(t, link, true)) {
		r = targets_add(t, target, true);
		return r < 0 ? r : hide_add(&t->h->paths, &t->h->n, link);
	}
	for (const char *const *p = hide_defaults(); r == 0 && *p; p++)
		r = targets_in(t, link, *p);
	return r;
}

int hide_targets(const struct work *w, const char *const *patterns, struct work_hidden *h)
{
	struct hide_targets t = { .w = w, .h = h };
	const size_t n = h->n;
	int r = hide_parse(&t.defaults, hide_defaults());

	r = r < 0 ? r : hide_parse(&t.asked, patterns);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = targets_hidden(&t, h->paths[i]);
	for (size_t i = 0; r == 0 && i < h->n_links; i++)
		r = targets_dir(&t, h->links[i]);
	gitignore_done(&t.defaults);
	gitignore_done(&t.asked);
	return r;
}
