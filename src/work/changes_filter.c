/* SPDX-License-Identifier: Apache-2.0 */
/* changes_filter.c - which changes git ignores, and which need the user's permission */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/strv.h"
#include "work/changes_internal.h"
#include "work/files_internal.h"
#include "work/hide.h"

/* ------------------------------------------------------------------- ignored */

/* A second, and some seconds: a user may have many patterns and files. */
#define IGNORE_THEIRS_MAX ((uint64_t)1 << 27)
#define IGNORE_YOURS_MAX  ((uint64_t)1 << 30)

static int ignore_filter_read(struct gitignore *rules, int dir, const char *path,
			      uint64_t *work)
{
	AUTO_FREE char *text = NULL;
	size_t n;

	if (work_file_read_at(dir, path, GITIGNORE_SIZE_MAX, &text, &n) < 0)
		return 0;
	gitignore_spend(work, GITIGNORE_PARSE_WORK(n));
	return *work ? gitignore_parse(rules, text, n) : 0;
}

/* What the patterns of one directory say: 1, 0 or -1 (nothing). */
static int ignore_level_match(const struct ignore_level *l, const struct gitignore *rules,
			      const char *path, bool is_dir, uint64_t *work)
{
	char full[2 * PATH_MAX];

	if (rules->n == 0)
		return -1;
	if (!l->above)
		return gitignore_match(rules, path + l->at, is_dir, work);
	if (snprintf(full, sizeof(full), "%s%s", l->above, path) >= (int)sizeof(full))
		return -1;
	return gitignore_match(rules, full, is_dir, work);
}

/* Is a directory on the way from the top to the project ignored, or the project? */
static bool ignore_above_is_ignored(struct ignore_filter *f)
{
	AUTO_FREE char *path = strdup(f->prefix);

	for (char *end = path; path && (end = strchr(end, '/')); *end++ = '/') {
		*end = '\0';
		for (size_t i = f->n; i-- > 0;) {
			size_t at = (size_t)(f->levels[i].above - f->prefix);
			int r = -1;

			if (f->levels[i].rules.n > 0 && path + at < end)
				r = gitignore_match(&f->levels[i].rules, path + at, true,
						    &f->yours);
			if (r > 0)
				return true;
			if (r == 0)
				break;
		}
	}
	return false;
}

/*
 * Read the patterns of the directories above the project. If one of them ignores the
 * project, it is none of the repository's, and all that is in it would be ignored.
 */
static int ignore_above_begin(struct ignore_filter *f)
{
	AUTO_CLOSE int top = open(f->top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *below = f->prefix;
	int r = top < 0 ? -errno : 0;

	f->levels[0].above = f->prefix;
	if (r == 0)
		r = ignore_filter_read(&f->levels[0].rules, top, ".git/info/exclude",
				       &f->yours);
	for (; r == 0 && *below; below = strchr(below, '/') + 1) {
		struct ignore_level *l = &f->levels[f->n++];
		AUTO_FREE char *path = NULL;

		if (asprintf(&path, "%.*s.gitignore", (int)(below - f->prefix),
			     f->prefix) < 0)
			return -ENOMEM;
		*l = (struct ignore_level){ .above = below };
		r = ignore_filter_read(&l->rules, top, path, &f->yours);
	}
	if (r == -ENOMEM || !ignore_above_is_ignored(f))
		return r == -ENOMEM ? r : 0;
	while (f->n > 0)
		ignore_filter_leave(f);
	f->levels[f->n++] = (struct ignore_level){ .at = 0 };
	return 0;
}

int ignore_filter_begin(struct ignore_filter *f, struct work *w, bool drop)
{
	AUTO_STRV char **repositories = NULL;
	bool more = false;
	int r = hide_repositories_read(w, &repositories, &more);

	*f = (struct ignore_filter){ .w = w,
				     .theirs = IGNORE_THEIRS_MAX,
				     .yours = IGNORE_YOURS_MAX,
				     .drop = drop,
				     .n = 1 };
	r = r < 0 ? r : git_named_read(w->project, repositories, true, &f->named);
	/* If the search may have missed a repository, its configuration may name any
	 * file. */
	f->named.unclear |= more;
	if (r == 0)
		r = git_top(w->project, &f->top);
	if (r > 0) {
		const char *below = w->project + strlen(f->top) + 1;

		return asprintf(&f->prefix, "%s/", below) < 0 ? -ENOMEM
							      : ignore_above_begin(f);
	}
	if (r < 0)
		return r;
	return ignore_filter_read(&f->levels[0].rules, w->project_fd, ".git/info/exclude",
				  &f->yours);
}

void ignore_filter_done(struct ignore_filter *f)
{
	while (f->n > 0)
		ignore_filter_leave(f);
	git_index_done(&f->index);
	free(f->top);
	free(f->prefix);
	f->top = f->prefix = NULL;
	git_named_done(&f->named);
}

int ignore_filter_enter(struct ignore_filter *f, size_t at, int upper, int lower)
{
	struct ignore_level *l = &f->levels[f->n++];
	struct stat st;
	int r = 0;

	*l = (struct ignore_level){ .at = at };
	l->differs = upper >= 0 && !f->drop &&
		     fstatat(upper, ".gitignore", &st, AT_SYMLINK_NOFOLLOW) == 0;
	f->n_differ += l->differs;
	if (l->differs && S_ISREG(st.st_mode))
		r = ignore_filter_read(&l->rules, upper, ".gitignore", &f->theirs);
	if (r == 0 && lower >= 0)
		r = ignore_filter_read(l->differs ? &l->own : &l->rules, lower,
				       ".gitignore", &f->yours);
	return r == 0 && f->theirs == 0 ? -ECANCELED : r;
}

void ignore_filter_leave(struct ignore_filter *f)
{
	struct ignore_level *l = &f->levels[--f->n];

	f->n_differ -= l->differs;
	gitignore_done(&l->rules);
	gitignore_done(&l->own);
}

static bool ignore_filter_says(struct ignore_filter *f, bool own, const char *path,
			       bool is_dir)
{
	for (size_t i = f->n; i-- > 0;) {
		const struct ignore_level *l = &f->levels[i];
		const struct gitignore *rules = own && l->differs ? &l->own : &l->rules;
		uint64_t *work = !own && l->differs ? &f->theirs : &f->yours;
		int r = ignore_level_match(l, rules, path, is_dir, work);

		/* A pattern of the user that was not tried may be there for a key. */
		if (f->yours == 0)
			return true;
		if (r >= 0 || *work == 0)
			return r > 0;
	}
	return f->yours == 0;
}

bool ignore_filter_has(struct ignore_filter *f, const char *path, bool is_dir)
{
	return ignore_filter_says(f, false, path, is_dir) ||
	       (f->n_differ > 0 && ignore_filter_says(f, true, path, is_dir));
}

int ignore_filter_repository(struct ignore_filter *f, const char *path)
{
	return git_named_add(f->w->project, path, &f->named);
}

bool ignore_filter_tracked(struct ignore_filter *f, const char *path)
{
	AUTO_FREE char *full = NULL;

	if (!f->index_read) {
		AUTO_CLOSE int top =
			f->prefix ? open(f->top, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
		AUTO_FREE char *data = NULL;
		size_t n, id_size = f->w->head && strlen(f->w->head) == 64 ? 32 : 20;

		f->index_read = true;
		if (work_file_read_at(f->prefix ? top : f->w->project_fd, ".git/index",
				      GIT_INDEX_MAX, &data, &n) == 0 &&
		    git_index_join(f->prefix ? top : f->w->project_fd, ".git/index",
				   id_size, &data, &n) >= 0)
			(void)git_index_parse(data, n, id_size, &f->index);
	}
	if (!f->prefix)
		return git_index_has(&f->index, path);
	return asprintf(&full, "%s%s", f->prefix, path) < 0 ||
	       git_index_has(&f->index, full);
}

/* --------------------------------------------------------------------- guards */

/* Characters that HFS+ does not compare: U+200C to U+200F, U+202A to U+202E, ... */
static size_t guard_invisible(const char *s)
{
	const unsigned char *u = (const unsigned char *)s;

	if (u[0] == 0xef && u[1] == 0xbb && u[2] == 0xbf)
		return 3;
	if (u[0] != 0xe2)
		return 0;
	if (u[1] == 0x80 &&
	    ((u[2] >= 0x8c && u[2] <= 0x8f) || (u[2] >= 0xaa && u[2] <= 0xae)))
		return 3;
	return u[1] == 0x81 && u[2] >= 0xaa && u[2] <= 0xaf ? 3 : 0;
}

bool guard_is_dotgit(const char *name)
{
	const char *want = ".git";

	if (strncasecmp(name, "git~1", 5) == 0 &&
	    strspn(name + 5, ". ") == strlen(name + 5))
		return true;
	while (*name) {
		size_t skip = guard_invisible(name);

		if (skip == 0 && *want && tolower((unsigned char)*name) == *want) {
			want++;
			skip = 1;
		} else if (skip == 0) {
			/* NTFS drops dots and spaces at the end, and streams. */
			return !*want && (*name == ':' || *name == '\\' ||
					  strspn(name, ". ") == strlen(name));
		}
		name += skip;
	}
	return !*want;
}

bool change_is_ref(const struct change *c)
{
	const char *at = c->path, *end;

	while ((end = strchr(at, '/')) != NULL) {
		char name[NAME_MAX + 1];

		(void)snprintf(name, sizeof(name), "%.*s", (int)(end - at), at);
		if (guard_is_dotgit(name))
			return guard_git_refs(end + 1);
		at = end + 1;
	}
	return false;
}

bool guard_link_out(const char *path, const char *target)
{
	size_t depth = 0;
	bool down = false;

	if (target[0] == '/')
		return true;
	for (const char *s = strchr(path, '/'); s; s = strchr(s + 1, '/'))
		depth++;
	while (*target) {
		size_t n = strcspn(target, "/");

		if (n == 2 && target[0] == '.' && target[1] == '.') {
			/* What is above the target of another link is not known. */
			if (down || depth-- == 0)
				return true;
		} else if (n > 0 && !(n == 1 && target[0] == '.')) {
			down = true;
		}
		target += n;
		target += strspn(target, "/");
	}
	return false;
}
