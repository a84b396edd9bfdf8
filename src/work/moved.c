/* SPDX-License-Identifier: Apache-2.0 */
/* moved.c - compare the directories of the project with those of the start */
#include "work/moved.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dir_cache.h"
#include "work/changes_internal.h"
#include "work/earlier.h"
#include "work/files_internal.h"

#define MOVED_NEW      "directories.new"
#define MOVED_NAME_MAX 48

struct work_moved {
	uint64_t since_ns; /* of .list */
	struct dir_cache list;
	/* The last answer, because files are asked for by directory: */
	char parent[PATH_MAX];
	uint64_t parent_since_ns;
	bool parent_moved;
};

void moved_free(struct work_moved *m)
{
	if (!m)
		return;
	dir_cache_done(&m->list);
	free(m);
}

static void moved_name(uint64_t since_ns, char ret[MOVED_NAME_MAX])
{
	(void)snprintf(ret, MOVED_NAME_MAX, "directories-%llu",
		       (unsigned long long)since_ns);
}

/*
 * The next search replaces its file, so the link stays what it is. If it cannot be made,
 * moved_has() is only more careful.
 */
void moved_keep(const struct work *w, int at, const char *name)
{
	int ignored UNUSED;

	(void)unlinkat(w->dir_fd, MOVED_NEW, 0);
	ignored = name ? linkat(at, name, w->dir_fd, MOVED_NEW, 0) : 0;
}

int moved_begin(const struct work *w, struct warren_error *err)
{
	char name[MOVED_NAME_MAX];

	moved_name(w->since_ns, name);
	return renameat(w->dir_fd, MOVED_NEW, w->dir_fd, name) < 0 && errno != ENOENT
		       ? error_errno(err, errno, "note the directories of the project")
		       : 0;
}

static void moved_load(struct work *w, struct work_moved *m, uint64_t since_ns)
{
	char name[MOVED_NAME_MAX];

	if (m->since_ns == since_ns)
		return;
	moved_name(since_ns, name);
	dir_cache_done(&m->list);
	dir_cache_read(&m->list, w->dir_fd, name);
	m->since_ns = since_ns;
}

/* Is it the directory that was there, or was none moved there since? */
static bool moved_is_same(struct work *w, struct work_moved *m, const char *dir,
			  uint64_t since_ns)
{
	struct stat st;
	uint64_t inode;

	if (beneath_stat(w->project_fd, dir, &st) < 0 || !S_ISDIR(st.st_mode))
		return false;
	if (!stat_is_newer(&st, since_ns))
		return true;
	moved_load(w, m, since_ns);
	return dir_cache_inode(&m->list, dir, &inode) && inode == st.st_ino;
}

/* git's directories change all the time, and the search does not remember them. */
static bool moved_search(struct work *w, struct work_moved *m, uint64_t since_ns)
{
	char path[PATH_MAX];

	(void)strcpy(path, m->parent);
	for (char *at = path, *end; at; at = end) {
		end = strchr(at, '/');
		if (end)
			*end = '\0';
		if (guard_is_dotgit(at))
			return false;
		if (!moved_is_same(w, m, path, since_ns))
			return true;
		if (end)
			*end++ = '/';
	}
	return false;
}

bool moved_has(struct work *w, const char *path)
{
	const char *slash = strrchr(path, '/');
	const uint64_t since_ns = earlier_since(w, path);
	size_t n = slash ? (size_t)(slash - path) : 0;
	struct work_moved *m = w->moved;

	if (n == 0)
		return false;
	if (!m)
		m = w->moved = calloc(1, sizeof(*m));
	if (!m || n >= sizeof(m->parent))
		return true;
	if (m->parent_since_ns == since_ns && strlen(m->parent) == n &&
	    memcmp(m->parent, path, n) == 0)
		return m->parent_moved;
	(void)memcpy(m->parent, path, n);
	m->parent[n] = '\0';
	m->parent_since_ns = since_ns;
	m->parent_moved = moved_search(w, m, since_ns);
	return m->parent_moved;
}
