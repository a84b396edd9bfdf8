/* SPDX-License-Identifier: Apache-2.0 */
/* hide.c - the layer that hides files, and the copy of a project without them
 */
#include "work/hide.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/sha256.h"
#include "base/strv.h"
#include "os/tree_copy.h"
#include "os/tree_remove.h"
#include "work/files_internal.h"
#include "work/git_named.h"
#include "work/hide_internal.h"
#include "work/moved.h"
#include "work/work_internal.h"

#define HIDE_REPOSITORIES      "repositories"
#define HIDE_REPOSITORIES_MAX  ((size_t)4096)
#define HIDE_REPOSITORIES_SIZE (HIDE_REPOSITORIES_MAX * PATH_MAX)
#define HIDE_CLOSED            "/" /* first entry: there may be more repositories */
/* Files in the directory of all works: what is remembered of a project, for 30
 * days. */
#define HIDE_MEMORY     ".scan-"
#define HIDE_MEMORY_AGE ((time_t)30 * 24 * 3600)

static void hide_forget(char ***list, size_t *n)
{
	for (size_t i = 0; i < *n; i++)
		free((*list)[i]);
	free(*list);
	*list = NULL;
	*n = 0;
}

void work_hidden_done(struct work_hidden *h)
{
	hide_forget(&h->paths, &h->n);
	hide_forget(&h->cleaned, &h->n_cleaned);
	hide_forget(&h->shared, &h->n_shared);
	hide_forget(&h->repositories, &h->n_repositories);
	hide_forget(&h->links, &h->n_links);
	hide_forget(&h->closed, &h->n_closed);
	hide_forget(&h->indexed, &h->n_indexed);
}

/* ------------------------------------------------------------------- the layer
 */

/* A directory of the layer looks like that of the project, which it is merged
 * with. */
static int hide_like(int from, int to)
{
	struct stat st;
	struct timespec times[2];

	if (fstat(from, &st) < 0)
		return -errno;
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	if (fchown(to, st.st_uid, st.st_gid) < 0 && geteuid() == 0)
		return -errno;
	if (fchmod(to, st.st_mode & 07777) < 0 || futimens(to, times) < 0)
		return -errno;
	return 0;
}

mode_t hide_open_up(int dir)
{
	struct stat st;

	if (geteuid() == 0 || fstat(dir, &st) < 0 || (st.st_mode & S_IRWXU) == S_IRWXU ||
	    fchmod(dir, S_IRWXU) < 0)
		return 0;
	return st.st_mode;
}

void hide_close_up(int dir, mode_t mode)
{
	if (mode)
		(void)fchmod(dir, mode & 07777);
}

/* Make the parents of @path in the layer; returns the last one. */
static int hide_parents(int layer, int project, const char *path, const char **ret_name)
{
	AUTO_FREE char *copy = strdup(path);
	AUTO_CLOSE int to = beneath_dir(layer, ".", O_RDONLY),
		       from = beneath_dir(project, ".", O_RDONLY);
	const char *slash = strrchr(path, '/');
	char *save = NULL, *name;

	if (!copy)
		return -ENOMEM;
	*ret_name = slash ? slash + 1 : path;
	copy[slash ? slash - path : 0] = '\0';
	for (name = strtok_r(copy, "/", &save); name; name = strtok_r(NULL, "/", &save)) {
		mode_t mode = hide_open_up(to);
		bool made = mkdirat(to, name, 0700) == 0;
		int next_to, next_from, r = made || errno == EEXIST ? 0 : -errno;

		hide_close_up(to, mode);
		if (r < 0)
			return r;
		next_to = beneath_dir(to, name, O_RDONLY);
		next_from = beneath_dir(from, name, O_RDONLY);
		close_p(&to);
		close_p(&from);
		to = next_to;
		from = next_from;
		r = to < 0 ? to : from < 0 ? from : made ? hide_like(from, to) : 0;
		if (r < 0)
			return r;
	}
	return TAKE_FD(to);
}

int hide_layer_dir(int layer, int project, const char *path)
{
	AUTO_FREE char *below = NULL;
	const char *name;

	if (asprintf(&below, "%s%sx", path, *path ? "/" : "") < 0)
		return -ENOMEM;
	return hide_parents(layer, project, below, &name);
}

static int hide_whiteout(int layer, int project, const char *path)
{
	const char *name;
	AUTO_CLOSE int dir = hide_parents(layer, project, path, &name);
	mode_t mode;
	int r;

	if (dir < 0)
		return dir;
	mode = hide_open_up(dir);
	r = mknodat(dir, name, S_IFCHR, 0) < 0 && errno != EEXIST ? -errno : 0;
	hide_close_up(dir, mode);
	return r;
}

bool hide_layer_has(int layer, const char *path)
{
	AUTO_FREE char *copy = strdup(path);
	struct stat st;

	if (!copy)
		return true;
	for (char *slash = copy; slash; *slash++ = '/') {
		slash = strchr(slash, '/');
		if (slash)
			*slash = '\0';
		if (fstatat(layer, copy, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return false;
		if (!S_ISDIR(st.st_mode))
			return stat_is_whiteout(&st);
		if (!slash)
			break;
	}
	return false;
}

int hide_layer_write(int layer, int project, const char *path, const struct buf *data,
		     const struct stat *like)
{
	const char *name;
	AUTO_CLOSE int dir = hide_parents(layer, project, path, &name);
	mode_t mode;
	int r;

	if (dir < 0)
		return dir;
	mode = hide_open_up(dir);
	r = work_file_replace(dir, name, data->data ? data->data : "", data->len, false);
	hide_close_up(dir, mode);
	if (r == 0 && fchmodat(dir, name, like->st_mode & 0777, 0) < 0)
		r = -errno;
	if (r == 0 &&
	    fchownat(dir, name, like->st_uid, like->st_gid, AT_SYMLINK_NOFOLLOW) < 0 &&
	    geteuid() == 0)
		r = -errno;
	return r;
}

/* 1: the file was changed; 0: it has no credentials. */
static int hide_clean(int layer, int project, const char *path)
{
	struct buf clean AUTO_BUF = BUF_INIT(HIDE_CLEAN_MAX);
	AUTO_FREE char *text = NULL;
	struct stat st;
	size_t n;
	int r = work_file_read_at(project, path, HIDE_CLEAN_MAX, &text, &n);

	/* Or it is on another mount, which the sandbox does not see. */
	if (r == -ENOENT || r == -EXDEV)
		return 0;
	if (r < 0)
		return r;
	git_config_clean(text, n, &clean);
	if (clean.failed)
		return -ENOMEM;
	if (clean.len == n && (n == 0 || memcmp(clean.data, text, n) == 0))
		return 0;
	r = beneath_stat(project, path, &st);
	r = r < 0 ? r : hide_layer_write(layer, project, path, &clean, &st);
	return r < 0 ? r : 1;
}

/* -------------------------------------------------------------------- the copy
 */

static int hide_copy(struct work *w, struct warren_error *err)
{
	struct tree_copy c = { .marks = TREE_COPY_USER };
	AUTO_CLOSE int to = -1;

	if (mkdirat(w->dir_fd, "copy", 0700) < 0)
		return error_errno(err, errno, "create a copy of the project");
	to = beneath_dir(w->dir_fd, "copy", O_RDONLY);
	if (to < 0)
		return error_errno(err, -to, "open the copy of the project");
	if (tree_copy(w->project_fd, to, &c, err) == 0)
		return TAKE_FD(to);
	/* This includes hidden files: these are copied first and then removed. */
	if (err->code == EACCES)
		return error_wrap(err, "with --mode copy, you must be able to read the "
				       "whole project; make this file or directory "
				       "readable (chmod u+r), move it out of the "
				       "project, or use --mode overlay");
	return error_wrap(err, "copy the project '%s'", w->project);
}

static int hide_in_copy(int copy, const char *path)
{
	const char *name;
	AUTO_CLOSE int dir = beneath_parent(copy, path, &name);

	return dir < 0 ? dir : tree_remove(copy, dir, name);
}

static int hide_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* -------------------------------------------------------------- the search */

/* Remove what is remembered of projects that were not searched for long. */
static void hide_forget_old(int works)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int dir = beneath_dir(works, ".", O_RDONLY);
	const struct dir_entry *e;
	struct stat st;

	if (!reader || dir < 0)
		return;
	reader->fd = dir;
	while (dir_next(reader, &e) > 0)
		if (strncmp(e->name, HIDE_MEMORY, strlen(HIDE_MEMORY)) == 0 &&
		    fstatat(works, e->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    st.st_mtim.tv_sec + HIDE_MEMORY_AGE < time(NULL))
			(void)unlinkat(works, e->name, 0);
}

/* Search the project, with what was remembered of it the last time. */
static int hide_find(const struct work *w, const char *const *patterns,
		     struct work_hidden *h, struct warren_error *err)
{
	AUTO_CLOSE int works = works_dir(false, NULL, err);
	struct sha256 sum = SHA256_INIT;
	char digits[SHA256_DIGITS + 1], name[sizeof(HIDE_MEMORY) + SHA256_DIGITS];
	bool remembered;
	int r;

	if (works < 0)
		return works;
	sha256_text(&sum, w->project);
	sha256_end(&sum, digits);
	(void)snprintf(name, sizeof(name), HIDE_MEMORY "%.32s", digits);
	r = hide_search(w->project_fd, patterns, works, name, h, &remembered, err);
	if (r == 0)
		moved_keep(w, works, remembered ? name : NULL);
	if (r == 0)
		hide_forget_old(works);
	return r;
}

static bool hide_has(const struct work_hidden *h, const char *path)
{
	for (size_t i = 0; i < h->n; i++) {
		size_t n = strlen(h->paths[i]);

		if (strncmp(h->paths[i], path, n) == 0 && (!path[n] || path[n] == '/'))
			return true;
	}
	return false;
}

static void hide_unique(char **list, size_t *n)
{
	size_t out = 0;

	if (*n > 0)
		qsort(list, *n, sizeof(*list), hide_compare);
	for (size_t i = 0; i < *n; i++)
		if (out > 0 && strcmp(list[out - 1], list[i]) == 0)
			free(list[i]);
		else
			list[out++] = list[i];
	*n = out;
}

static bool hide_is_cleaned(const struct work_hidden *h, const char *path)
{
	for (size_t i = 0; i < h->n_cleaned; i++)
		if (strcmp(h->cleaned[i], path) == 0)
			return true;
	return false;
}

/* Hide files with secrets that git's configuration names, unless a pattern shows them. */
static int hide_secrets(char *const *secrets, const char *const *patterns,
			struct work_hidden *h)
{
	struct gitignore asked = { 0 };
	int r = secrets ? hide_parse(&asked, patterns) : 0;

	for (; r == 0 && secrets && *secrets; secrets++)
		if (!hide_has(h, *secrets) && !hide_is_cleaned(h, *secrets) &&
		    gitignore_match(&asked, *secrets, false, NULL) != 0)
			r = hide_add(&h->paths, &h->n, *secrets);
	gitignore_done(&asked);
	return r;
}

/* Drop paths below hidden directories: a whiteout cannot be below another one. */
static void hide_paths_drop(struct work_hidden *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n; i++) {
		char *path = h->paths[i], *slash = path;
		bool below = false;

		while (!below && (slash = strchr(slash, '/'))) {
			*slash = '\0';
			below = bsearch(&path, h->paths, n, sizeof(*h->paths),
					hide_compare) != NULL;
			*slash++ = '/';
		}
		if (below)
			free(path);
		else
			h->paths[n++] = path;
	}
	h->n = n;
}

/* Drop configuration files that are hidden for another reason. */
static void hide_cleaned_drop(struct work_hidden *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_cleaned; i++)
		if (hide_has(h, h->cleaned[i]))
			free(h->cleaned[i]);
		else
			h->cleaned[n++] = h->cleaned[i];
	h->n_cleaned = n;
}

/* A limit was reached: files that should be hidden could be visible. */
static int hide_say_too_much(const char *why, struct warren_error *err)
{
	return error_set(err, E2BIG,
			 "git's configuration may name files with secrets that Warren "
			 "cannot find: %s; reduce this, or hide directories that have "
			 "repositories: --hide '/DIRECTORY/'",
			 why ? why : "there are too many repositories");
}

/*
 * Add the files that git's configuration includes, wherever they are, and those with
 * secrets that it names.
 */
static int hide_named(const struct work *w, const char *const *patterns,
		      struct work_hidden *h, struct warren_error *err)
{
	struct git_named named = { 0 };
	AUTO_STRV char **repositories = NULL;
	bool many = h->n_repositories > HIDE_REPOSITORIES_MAX;
	int r = 0;

	for (size_t i = 0; r == 0 && !many && i < h->n_repositories; i++)
		r = strv_add(&repositories, h->repositories[i]);
	r = r < 0 || many ? r : git_named_read(w->project, repositories, false, &named);
	for (char **c = named.configs; r == 0 && c && *c; c++)
		r = hide_add(&h->cleaned, &h->n_cleaned, *c);
	r = r < 0 ? r : hide_secrets(named.secrets, patterns, h);
	if (r < 0)
		r = error_errno(err, -r,
				"search for files that git's configuration names");
	else if (many || named.too_much)
		r = hide_say_too_much(named.too_much, err);
	git_named_done(&named);
	return r;
}

/* Add what links lead to, and the other names of hidden files. */
static int hide_others(const struct work *w, const char *const *patterns,
		       struct work_hidden *h)
{
	int r = hide_targets(w, patterns, h);

	hide_unique(h->paths, &h->n);
	hide_paths_drop(h);
	hide_unique(h->closed, &h->n_closed);
	r = r < 0 ? r : hide_links(w->project_fd, patterns, h);
	hide_unique(h->paths, &h->n);
	hide_unique(h->cleaned, &h->n_cleaned);
	hide_cleaned_drop(h);
	return r;
}

/* For the search for changes: it does not walk through the whole project. */
static int hide_repositories_write(const struct work *w, const struct work_hidden *h)
{
	struct buf list AUTO_BUF = BUF_INIT(HIDE_REPOSITORIES_SIZE);

	if (h->n_closed > 0)
		buf_add(&list, HIDE_CLOSED, sizeof(HIDE_CLOSED));
	for (size_t i = 0; i < h->n_repositories && i < HIDE_REPOSITORIES_MAX; i++)
		buf_add(&list, h->repositories[i], strlen(h->repositories[i]) + 1);
	return work_file_replace(w->dir_fd, HIDE_REPOSITORIES, list.data ? list.data : "",
				 list.len, false);
}

int hide_repositories_read(const struct work *w, char ***ret, bool *ret_more)
{
	AUTO_STRV char **list = NULL;
	AUTO_FREE char *text = NULL;
	size_t n = 0;
	int r = work_file_read_at(w->dir_fd, HIDE_REPOSITORIES, HIDE_REPOSITORIES_SIZE,
				  &text, &n);

	/* A work of an earlier version has no list. */
	if (r == -ENOENT)
		r = 0;
	*ret_more = r == 0 && n > 0 && strcmp(text, HIDE_CLOSED) == 0;
	for (size_t at = *ret_more ? sizeof(HIDE_CLOSED) : 0; r == 0 && at < n;
	     at += strlen(text + at) + 1)
		r = strv_add(&list, text + at);
	if (r == 0)
		*ret = TAKE_PTR(list);
	return r;
}

/* Clean the files of h->cleaned from @from on; keep those that this changes. */
static int hide_clean_from(const struct work *w, int to, size_t from,
			   struct work_hidden *h, struct warren_error *err)
{
	size_t n = from;
	int r = 0;

	for (size_t i = from; i < h->n_cleaned; i++) {
		if (r >= 0) {
			r = hide_clean(to, w->project_fd, h->cleaned[i]);
			if (r < 0)
				(void)error_errno(err, -r, "hide the credentials in '%s'",
						  h->cleaned[i]);
		}
		if (r > 0)
			h->cleaned[n++] = h->cleaned[i];
		else
			free(h->cleaned[i]);
	}
	h->n_cleaned = n;
	return r < 0 ? r : 0;
}

/* Write git's files, and all their other names, without credentials. */
static int hide_clean_all(const struct work *w, int to, struct work_hidden *h,
			  struct warren_error *err)
{
	size_t n;
	int r = hide_clean_from(w, to, 0, h, err);

	if (r < 0)
		return r;
	n = h->n_cleaned;
	r = hide_links_cleaned(w->project_fd, h);
	if (r < 0)
		return error_errno(err, -r, "search for other names of git's files");
	return hide_clean_from(w, to, n, h, err);
}

int work_hide(struct work *w, const char *const *patterns, struct work_hidden *ret,
	      struct warren_error *err)
{
	AUTO_HIDDEN struct work_hidden h = { 0 };
	AUTO_CLOSE int layer = beneath_dir(w->dir_fd, "hide", O_RDONLY), copy = -1;
	int r = hide_find(w, patterns, &h, err);

	if (r < 0)
		return r;
	r = hide_named(w, patterns, &h, err);
	if (r < 0)
		return r;
	r = hide_others(w, patterns, &h);
	r = r < 0 ? r : hide_repositories_write(w, &h);
	if (r < 0)
		return error_errno(err, -r, "search for files to hide");
	if (layer < 0)
		return error_errno(err, -layer, "open '%s/hide'", w->dir);
	if (w->mode == WORK_COPY) {
		copy = hide_copy(w, err);
		if (copy < 0)
			return copy;
	}
	for (size_t i = 0; i < h.n; i++) {
		r = copy < 0 ? 0 : hide_in_copy(copy, h.paths[i]);
		r = r < 0 ? r : hide_whiteout(layer, w->project_fd, h.paths[i]);
		if (r < 0)
			return error_errno(err, -r, "hide '%s'", h.paths[i]);
	}
	r = hide_clean_all(w, copy < 0 ? layer : copy, &h, err);
	if (r < 0)
		return r;
	/* The files of a copy belong to the user. */
	if (copy >= 0)
		hide_forget(&h.shared, &h.n_shared);
	r = hide_share(w, layer, &h, err);
	if (r < 0)
		return r;
	if (h.n > 0)
		qsort(h.paths, h.n, sizeof(*h.paths), hide_compare);
	r = hide_indices(w, copy < 0 ? layer : copy, &h);
	if (r < 0)
		return error_errno(err, -r, "hide files from git");
	*ret = h;
	h = (struct work_hidden){ 0 };
	return 0;
}
