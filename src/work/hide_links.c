/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hide_links.c - hide the other names of hidden files: hard links
 *
 * The directories that are remembered have names, and no inodes, so all of them are read;
 * but only if a hidden file has another name, which is rare.
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
	struct stat *v; /* of hidden files with more than one name */
	size_t n, n_paths;
	const struct gitignore *asked;
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

/* NOLINTNEXTLINE(misc-no-recursion): as deep as LINKS_DEPTH_MAX */
static int links_entry(struct hide_links *l, int dir, const struct dir_entry *e,
		       const char *above, unsigned depth)
{
	AUTO_FREE char *path = NULL;
	bool is_dir = e->type == DT_DIR || e->type == DT_UNKNOWN;

	if (!is_dir && (e->type != DT_REG || !links_has_inode(l, e->ino)))
		return 0;
	if (asprintf(&path, "%s%s%s", above, *above ? "/" : "", e->name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	if (links_has_path(l, path))
		return 0;
	if (links_is_one(l, dir, e->name))
		return gitignore_match(l->asked, path, false, NULL) == 0
			       ? 0
			       : hide_add(&l->found->paths, &l->found->n, path);
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
	/* What this user cannot read, the sandbox cannot either. */
	if (dir < 0)
		return dir == -EMFILE || dir == -ENFILE || dir == -ENOMEM ? dir : 0;
	reader->fd = dir;
	while (r >= 0 && (r = dir_next(reader, &e)) > 0)
		r = links_entry(l, dir, e, path, depth + 1);
	return r < 0 ? r : 0;
}

int hide_links(int project, const char *const *patterns, struct work_hidden *h)
{
	struct gitignore asked = { 0 };
	struct hide_links l = {
		.project = project, .found = h, .n_paths = h->n, .asked = &asked
	};
	int r = 0;

	l.v = calloc(h->n + 1, sizeof(*l.v));
	if (!l.v)
		return -ENOMEM;
	for (size_t i = 0; i < h->n; i++) {
		struct stat st;

		if (beneath_stat(project, h->paths[i], &st) == 0 && S_ISREG(st.st_mode) &&
		    st.st_nlink > 1)
			l.v[l.n++] = st;
	}
	if (l.n > 0)
		r = hide_parse(&asked, patterns);
	if (l.n > 0 && r == 0)
		r = links_dir(&l, project, ".", "", 0);
	gitignore_done(&asked);
	free(l.v);
	return r;
}
