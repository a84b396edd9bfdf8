/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hide_index.c - hidden files that git tracks do not look deleted
 *
 * A tracked file that is missing is a deletion for git, which `git commit -a` and `git
 * add -A` would commit. So the sandbox gets a copy of the index in which hidden files are
 * marked as not checked out. The user's index is not changed.
 *
 * This is only a convenience, because the sandbox can remove the marks: commits are
 * checked for hidden files when they are accepted (commits_files.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/strv.h"
#include "work/files_internal.h"
#include "work/git_index.h"
#include "work/hide_internal.h"

struct hide_index {
	const struct work *w;
	struct work_hidden *h;
	int to;
	char **done; /* git directories whose index was judged */
	/* The repository: */
	char *git; /* its git directory, relative to the project */
	char *top; /* the directory of its files; "" or with a "/" at the end */
};

static int hide_index_compare(const void *key, const void *item)
{
	return strcmp(key, *(char *const *)item);
}

/* Is the file at this path of the repository hidden, or a directory above it? */
static bool hide_index_is_hidden(const void *context, const char *path)
{
	const struct hide_index *j = context;
	AUTO_FREE char *full = NULL;
	size_t top = strlen(j->top);
	bool found;

	if (asprintf(&full, "%s%s", j->top, path) < 0)
		return true;
	for (char *end = full + top; end; end++) {
		end = strchr(end, '/');
		if (end)
			*end = '\0';
		found = bsearch(full, j->h->paths, j->h->n, sizeof(*j->h->paths),
				hide_index_compare);
		if (end)
			*end = '/';
		/* Only for a message, so one of the hidden files is enough. */
		if (found && hide_add(&j->h->indexed, &j->h->n_indexed, full) == 0)
			return true;
		if (found || !end)
			return found;
	}
	return false;
}

/*
 * In a worktree or submodule, `.git` is a file: "gitdir: <path>". 0: the repository is
 * not in the project, so git does not work inside.
 */
static int hide_index_follow(struct hide_index *j, const char *git)
{
	AUTO_FREE char *text = NULL, *path = NULL, *real = NULL;
	size_t n, project = strlen(j->w->project);

	if (work_file_read_at(j->w->project_fd, git, 4096, &text, &n) < 0 ||
	    strncmp(text, "gitdir: ", 8) != 0)
		return 0;
	text[strcspn(text, "\r\n")] = '\0';
	if ((text[8] == '/'
		     ? asprintf(&path, "%s", text + 8)
		     : asprintf(&path, "%s/%s%s", j->w->project, j->top, text + 8)) < 0)
		return -ENOMEM;
	real = realpath(path, NULL);
	if (!real || strncmp(real, j->w->project, project) != 0 || real[project] != '/')
		return 0;
	j->git = strdup(real + project + 1);
	return j->git ? 1 : -ENOMEM;
}

/* Find the repository of the file at @path: 1, or 0 if it is in none. */
static int hide_index_find(struct hide_index *j, const char *path)
{
	size_t at = strlen(path);

	do {
		AUTO_FREE char *git = NULL;
		struct stat st;

		while (at > 0 && path[at - 1] != '/')
			at--;
		free(j->top);
		j->top = strndup(path, at);
		if (!j->top || asprintf(&git, "%s.git", j->top) < 0)
			return -ENOMEM;
		if (beneath_stat(j->w->project_fd, git, &st) == 0) {
			if (S_ISREG(st.st_mode))
				return hide_index_follow(j, git);
			j->git = S_ISDIR(st.st_mode) ? TAKE_PTR(git) : NULL;
			return j->git ? 1 : 0;
		}
	} while (at-- > 0);
	return 0;
}

/* Write the index with the marks. */
static int hide_index_write(struct hide_index *j, const char *path)
{
	static const size_t id_sizes[] = { 20, 32 };
	struct buf out AUTO_BUF = BUF_INIT(2 * GIT_INDEX_MAX);
	AUTO_FREE char *data = NULL;
	struct stat st, own;
	const size_t known = j->h->n_indexed;
	size_t n;
	int r = work_file_read_at(j->w->project_fd, path, GIT_INDEX_MAX, &data, &n);

	if (r >= 0)
		r = beneath_stat(j->w->project_fd, path, &st);
	if (r >= 0 && fstat(j->w->project_fd, &own) < 0)
		r = -errno;
	if (r < 0) /* there is no index to change */
		return r == -ENOMEM ? r : 0;
	r = -EBADMSG;
	/* The form of ids is in the configuration; only one of them fits. */
	for (size_t i = 0;
	     (r == -EBADMSG || r == -EOPNOTSUPP) && i < ARRAY_SIZE(id_sizes); i++) {
		out.len = 0;
		while (j->h->n_indexed > known)
			free(j->h->indexed[--j->h->n_indexed]);
		r = git_index_join(j->w->project_fd, path, id_sizes[i], &data, &n);
		if (r < 0)
			continue;
		r = git_index_skip(data, n, id_sizes[i], hide_index_is_hidden, j, &out);
	}
	if (r == -ENOMEM)
		return r;
	if (r <= 0) /* it has no hidden files, or only git can read it */
		return 0;
	st.st_uid = own.st_uid;
	st.st_gid = own.st_gid;
	return hide_layer_write(j->to, j->w->project_fd, path, &out, &st);
}

static int hide_index_judge(struct hide_index *j, const char *path)
{
	AUTO_FREE char *index = NULL;
	int r;

	free(j->git);
	j->git = NULL;
	r = hide_index_find(j, path);
	if (r <= 0 || strv_has(j->done, j->git))
		return r < 0 ? r : 0;
	if (asprintf(&index, "%s/index", j->git) < 0 || strv_add(&j->done, j->git) < 0)
		return -ENOMEM;
	return hide_index_write(j, index);
}

int hide_indices(const struct work *w, int to, struct work_hidden *h)
{
	struct hide_index j = { .w = w, .h = h, .to = to };
	int r = 0;

	for (size_t i = 0; r == 0 && i < h->n; i++)
		r = hide_index_judge(&j, h->paths[i]);
	strv_free(j.done);
	free(j.git);
	free(j.top);
	return r;
}
