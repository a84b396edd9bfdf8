/* SPDX-License-Identifier: Apache-2.0 */
/* scan.c - find manifests in a project, in directories near its top */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/dir_cache.h"
#include "base/strv.h"
#include "setup/ignored.h"
#include "setup/plan.h"
#include "setup/tree.h"

/* Directories that hold copies of other projects, results, or examples. */
static const char *const scan_skipped[] = {
	"__fixtures__", "__pycache__", "_build",        "bower_components",
	"build",        "deps",        "dist",          "env",
	"example",      "examples",    "fixtures",      "node_modules",
	"out",          "samples",     "site-packages", "target",
	"testdata",     "third_party", "vendor",        "venv",
};

/* A search: what is wanted, and what is found. */
struct scan_work {
	int project_fd;
	bool (*wanted)(const void *ctx, const char *name);
	const void *ctx;
	struct setup_scan *scan;
	struct dir_cache *cache;
	struct setup_ignored *ignored;
};

static bool scan_is_skipped(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(scan_skipped); i++)
		if (strcmp(name, scan_skipped[i]) == 0)
			return true;
	return name[0] == '.';
}

static int scan_compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int scan_compare_dirs(const void *a, const void *b)
{
	return strcmp(((const struct setup_dir *)a)->path,
		      ((const struct setup_dir *)b)->path);
}

static unsigned scan_depth(const char *path)
{
	unsigned depth = path[0] != '\0';

	for (const char *p = path; *p; p++)
		depth += *p == '/';
	return depth;
}

/* Append a directory to the list; it is searched later. */
static int scan_add_dir(struct scan_work *w, const char *dir, const char *name)
{
	struct setup_scan *s = w->scan;
	AUTO_FREE char *path = setup_tree_join(dir, name);

	if (!path)
		return -ENOMEM;
	if (path[0] &&
	    (scan_is_skipped(name) || setup_ignored_has(w->ignored, path, true)))
		return 0;
	if (s->n == SETUP_TREE_DIRS) {
		s->truncated = true;
		return 0;
	}
	if (s->n == s->room) {
		size_t room = s->room ? 2 * s->room : 16;
		struct setup_dir *v = reallocarray(s->v, room, sizeof(*v));

		if (!v)
			return -ENOMEM;
		s->v = v;
		s->room = room;
	}
	s->v[s->n++] = (struct setup_dir){ .path = TAKE_PTR(path) };
	return 0;
}

static bool scan_is_dir(int fd, const struct dirent *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN)
		return e->d_type == DT_DIR;
	return fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(st.st_mode);
}

/* Read a directory: @names gets the wanted files, @dirs the directories to look into. */
static int scan_entries(struct scan_work *w, bool descend, DIR *d, char ***names,
			char ***dirs)
{
	const struct dirent *e;
	int r = 0;

	while (r == 0 && (e = readdir(d))) {
		if (w->scan->n_names++ >= SETUP_TREE_NAMES) {
			w->scan->truncated = true;
			break;
		}
		if (e->d_type != DT_DIR && w->wanted(w->ctx, e->d_name))
			r = strv_add(names, e->d_name);
		else if (descend && !scan_is_skipped(e->d_name) &&
			 scan_is_dir(dirfd(d), e))
			r = strv_add(dirs, e->d_name);
	}
	return r;
}

static struct dir_names scan_names(char *const *list, struct buf *text)
{
	struct dir_names names = { 0 };

	for (; list && *list; list++, names.n++)
		buf_add(text, *list, strlen(*list) + 1);
	names.text = text->data;
	return names;
}

static int scan_remember(struct scan_work *w, const char *path, const struct stat *st,
			 char *const *files, char *const *dirs)
{
	AUTO_BUF struct buf file_text = BUF_INIT(SIZE_MAX), dir_text = BUF_INIT(SIZE_MAX);
	struct dir_names file_names = scan_names(files, &file_text);
	struct dir_names dir_names = scan_names(dirs, &dir_text);

	if (file_text.failed || dir_text.failed)
		return -ENOMEM;
	dir_cache_add(w->cache, path, st, file_names, dir_names);
	return 0;
}

static int scan_read_dir(struct scan_work *w, size_t at)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
	const char *path = w->scan->v[at].path;
	int fd = (int)syscall(SYS_openat2, w->project_fd, path[0] ? path : ".", &how,
			      sizeof(how));
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char AUTO_STRV **names = NULL, **dirs = NULL;
	struct stat st;
	int r;

	/* A directory that is gone or cannot be read has nothing to set up. */
	if (!d) {
		if (fd >= 0)
			(void)close(fd);
		return 0;
	}
	w->cache->changed = true;
	r = fstat(fd, &st) < 0 ? -errno : 0;
	if (r == 0)
		r = scan_entries(w, scan_depth(path) < SETUP_TREE_DEPTH, d, &names,
				 &dirs);
	(void)closedir(d);
	if (names)
		qsort(names, strv_len((union strv){ .list = names }), sizeof(char *),
		      scan_compare_names);
	if (r == 0)
		r = scan_remember(w, path, &st, names, dirs);
	for (char **v = dirs; r == 0 && v && *v; v++)
		r = scan_add_dir(w, w->scan->v[at].path, *v);
	w->scan->v[at].names = TAKE_PTR(names);
	return r;
}

/* Use what is known about a directory that has not changed. */
static int scan_use_known(struct scan_work *w, size_t at, const struct dir_known *known)
{
	char AUTO_STRV **names = NULL;
	const char *name = NULL;
	int r = 0;

	dir_cache_keep(w->cache, known);
	FOR_EACH_DIR_NAME(known->files, name)
	r = r == 0 ? strv_add(&names, name) : r;
	FOR_EACH_DIR_NAME(known->dirs, name)
	r = r == 0 ? scan_add_dir(w, w->scan->v[at].path, name) : r;
	w->scan->v[at].names = TAKE_PTR(names);
	return r;
}

static int scan_dir(struct scan_work *w, size_t at)
{
	const char *path = w->scan->v[at].path;
	const struct dir_known *known = NULL;
	struct stat st;

	if (w->cache->n > 0 &&
	    fstatat(w->project_fd, path[0] ? path : ".", &st, AT_SYMLINK_NOFOLLOW) == 0)
		known = dir_cache_find(w->cache, path, &st);
	return known ? scan_use_known(w, at, known) : scan_read_dir(w, at);
}

int setup_scan(int project_fd, bool (*wanted)(const void *ctx, const char *name),
	       const void *ctx, const struct setup_scan_memory *memory,
	       struct setup_scan *ret, struct warren_error *err)
{
	struct setup_scan scan = { 0 };
	struct setup_ignored *ignored = setup_ignored_new(project_fd);
	struct dir_cache cache;
	struct scan_work w = { .project_fd = project_fd,
			       .wanted = wanted,
			       .ctx = ctx,
			       .scan = &scan,
			       .cache = &cache,
			       .ignored = ignored };
	int r = ignored ? setup_ignored_enter(ignored, project_fd, 0) : -ENOMEM;

	dir_cache_load(&cache, AT_FDCWD,
		       memory && dir_cache_trusts(project_fd) ? memory->path : NULL,
		       memory ? memory->rules : "");

	if (r == 0)
		r = scan_add_dir(&w, "", "");
	for (size_t at = 0; r == 0 && at < scan.n; at++)
		r = scan_dir(&w, at);
	if (r == 0 && !scan.truncated)
		dir_cache_save(&cache, AT_FDCWD);
	dir_cache_done(&cache);
	(void)setup_ignored_free(ignored);
	if (r < 0) {
		setup_scan_done(&scan);
		return error_errno(err, -r, "look for manifests");
	}
	if (scan.n > 0)
		qsort(scan.v, scan.n, sizeof(*scan.v), scan_compare_dirs);
	*ret = scan;
	return 0;
}

void setup_scan_done(struct setup_scan *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].path);
		(void)strv_free(s->v[i].names);
	}
	free(s->v);
	*s = (struct setup_scan){ 0 };
}

bool setup_dir_has(const struct setup_dir *d, const char *name)
{
	for (char **v = d->names; v && *v; v++)
		if (strcmp(*v, name) == 0)
			return true;
	return false;
}
