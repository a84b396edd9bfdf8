/* SPDX-License-Identifier: Apache-2.0 */
/* changes_filter.c - which changes git ignores, and which need the user's permission */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "work/changes_internal.h"
#include "work/files_internal.h"

/* ------------------------------------------------------------------- ignored */

static int ignore_filter_add(struct ignore_filter *f, int dir, const char *path)
{
	AUTO_FREE char *text = NULL;
	size_t n;

	if (work_file_read_at(dir, path, GITIGNORE_SIZE_MAX, &text, &n) < 0)
		return 0;
	return gitignore_parse(&f->levels[f->n - 1].rules, text, n);
}

int ignore_filter_begin(struct ignore_filter *f, struct work *w)
{
	int r;

	*f = (struct ignore_filter){ .w = w, .n = 1 };
	r = git_named_read(w->project, &f->named);
	if (r < 0)
		return r;
	return ignore_filter_add(f, w->project_fd, ".git/info/exclude");
}

void ignore_filter_done(struct ignore_filter *f)
{
	while (f->n > 0)
		ignore_filter_leave(f);
	git_index_done(&f->index);
	git_named_done(&f->named);
}

int ignore_filter_enter(struct ignore_filter *f, size_t at, int upper, int lower)
{
	struct stat st;

	f->levels[f->n++] = (struct ignore_level){ .at = at };
	if (upper >= 0 && fstatat(upper, ".gitignore", &st, AT_SYMLINK_NOFOLLOW) == 0)
		return S_ISREG(st.st_mode) ? ignore_filter_add(f, upper, ".gitignore")
					   : 0;
	return lower >= 0 ? ignore_filter_add(f, lower, ".gitignore") : 0;
}

void ignore_filter_leave(struct ignore_filter *f)
{
	gitignore_done(&f->levels[--f->n].rules);
}

bool ignore_filter_has(const struct ignore_filter *f, const char *path, bool is_dir)
{
	for (size_t i = f->n; i-- > 0;) {
		int r = f->levels[i].rules.n > 0
				? gitignore_match(&f->levels[i].rules,
						  path + f->levels[i].at, is_dir)
				: -1;

		if (r >= 0)
			return r > 0;
	}
	return false;
}

bool ignore_filter_tracked(struct ignore_filter *f, const char *path)
{
	if (!f->index_read) {
		AUTO_FREE char *data = NULL;
		size_t n, id_size = f->w->head && strlen(f->w->head) == 64 ? 32 : 20;

		f->index_read = true;
		if (work_file_read_at(f->w->project_fd, ".git/index", GIT_INDEX_MAX,
				      &data, &n) == 0)
			(void)git_index_parse(data, n, id_size, &f->index);
	}
	return git_index_has(&f->index, path);
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
