/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hide_links.c - find the other names (hard links) of hidden files, and of files that are
 * shown without credentials
 *
 * The directories that are remembered have names, and no inodes, so all of them are read;
 * but only if such a file has another name, which is rare.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "work/files_internal.h"
#include "work/hide_internal.h"

#define LINKS_DEPTH_MAX 400

struct hide_links {
	int project;
	struct work_hidden *found;
	struct stat *v; /* of the files with more than one name */
	size_t n, n_paths;
	const struct gitignore *asked;
	bool cleaned; /* search for files that are shown without credentials */
};

static bool links_has_path(const struct hide_links *l, const char *path)
{
	for (size_t i = 0; i < l->n_paths; i++)
		if (strcmp(l->found->paths[i], path) == 0)
			return true;
	return false;
}

static bool links_has_inode(const struct hide_links *l, uint64_t ino)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].st_ino == ino)
			return true;
	return false;
}

static bool links_is_one(const struct hide_links *l, int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return false;
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].st_ino == st.st_ino && l->v[i].st_dev == st.st_dev)
			return true;
	return false;
}

static int links_dir(struct hide_links *l, int parent, const char *name, const char *path,
		     unsigned depth);

static int links_add(struct hide_links *l, const char *path)
{
	struct work_hidden *h = l->found;

	if (!l->cleaned)
		return gitignore_match(l->asked, path, false, NULL) == 0
			       ? 0
			       : hide_add(&h->paths, &h->n, path);
	for (size_t i = 0; i < h->n_cleaned; i++)
		if (strcmp(h->cleaned[i], path) == 0)
			return 0;
	return hide_add(&h->cleaned, &h->n_cleaned, path);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as LINKS_DEPTH_MAX */
static int links_entry(struct hide_links *l, int dir, const struct dir_entry *e,
		       const char *above, unsigned depth)
{
	AUTO_FREE char *path = NULL;
	bool is_dir = e->type == DT_DIR;

	if (!is_dir && (e->type != DT_REG || !links_has_inode(l, e->ino)))
		return 0;
	if (asprintf(&path, "%s%s%s", above, *above ? "/" : "", e->name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	if (links_has_path(l, path))
		return 0;
	if (links_is_one(l, dir, e->name))
		return links_add(l, path);
	return is_dir ? links_dir(l, dir, e->name, path, depth) : 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as LINKS_DEPTH_MAX */
static int links_dir(struct hide_links *l, int parent, const char *name, const char *path,
		     unsigned depth)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int dir = beneath_dir(parent, name, O_RDONLY);
	const struct dir_entry *e;
	int r = 0;

	if (!reader)
		return -ENOMEM;
	if (depth > LINKS_DEPTH_MAX)
		return -ELOOP;
	/* A directory that the user cannot list is not visible to the sandbox, either. */
	if (dir < 0)
		return dir == -EMFILE || dir == -ENFILE || dir == -ENOMEM ? dir : 0;
	reader->fd = dir;
	while (r >= 0 && (r = dir_next(reader, &e)) > 0)
		r = links_entry(l, dir, e, path, depth + 1);
	return r < 0 ? r : 0;
}

/* Add the other names of the files @paths. */
static int links_search(struct hide_links *l, char *const *paths, size_t n,
			const char *const *patterns)
{
	struct gitignore asked = { 0 };
	int r = 0;

	l->v = calloc(n + 1, sizeof(*l->v));
	if (!l->v)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct stat st;

		if (beneath_stat(l->project, paths[i], &st) == 0 && S_ISREG(st.st_mode) &&
		    st.st_nlink > 1)
			l->v[l->n++] = st;
	}
	l->asked = &asked;
	if (l->n > 0)
		r = hide_parse(&asked, patterns);
	if (l->n > 0 && r == 0)
		r = links_dir(l, l->project, ".", "", 0);
	gitignore_done(&asked);
	free(l->v);
	return r;
}

int hide_links(int project, const char *const *patterns, struct work_hidden *h)
{
	struct hide_links l = { .project = project, .found = h, .n_paths = h->n };

	return links_search(&l, h->paths, h->n, patterns);
}

int hide_links_cleaned(int project, struct work_hidden *h)
{
	struct hide_links l = {
		.project = project, .found = h, .n_paths = h->n, .cleaned = true
	};

	return links_search(&l, h->cleaned, h->n_cleaned, NULL);
}
