/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commits_left.c - which commits of the sandbox does the user's repository not have?
 *
 * A reference of the sandbox that the sandbox changed, and whose commit no reference of
 * the user leads to, has some. Only files of the sandbox are read, and git runs in the
 * user's repository.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/strv.h"
#include "work/changes_internal.h"
#include "work/commits.h"
#include "work/files_internal.h"
#include "work/git_run.h"
#include "work/work_internal.h"

#define LEFT_TEXT_MAX ((size_t)16 << 20)
#define LEFT_DEPTH    16
#define LEFT_FILES    4096
#define LEFT_ASKED    64 /* references that git is asked for; more are taken for new */

struct left {
	struct work *w;
	int upper, project; /* .git of the sandbox's changes, and of the user */
	char *head;         /* "refs/heads/main", or NULL */
	unsigned files, asked;
	struct work_commits_left *ret;
};

void work_commits_left_done(struct work_commits_left *l)
{
	(void)strv_free(l->others);
	*l = (struct work_commits_left){ 0 };
}

static bool left_starts(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Not those of other repositories, which it may have fetched. */
static bool left_is_own(const char *name)
{
	return left_starts(name, "refs/heads/") || left_starts(name, "refs/tags/") ||
	       strcmp(name, "refs/stash") == 0;
}

/* Has no reference of the user the commit? 1: none has; or -errno. */
static int left_is_new(struct left *l, const char *id, struct warren_error *err)
{
	const char *const argv[] = { "rev-list", "-n", "1", id, "--not", "--all", NULL };
	struct buf out AUTO_BUF = BUF_INIT(LEFT_TEXT_MAX);
	const struct git_command c = { .argv = argv, .slow = true, .in = -1, .out = -1 };
	int r;

	if (++l->asked > LEFT_ASKED)
		return 1;
	r = git_run(l->w, &c, &out, err);
	/* The object is not there. */
	return r == -EPROTO ? 1 : r < 0 ? r : out.len > 0;
}

static int left_reference(struct left *l, const char *name, const char *id,
			  struct warren_error *err)
{
	AUTO_FREE char *mine = NULL;
	bool is_head = l->head && strcmp(name, l->head) == 0;
	int r;

	if (!git_is_id(id) || !left_is_own(name) ||
	    (git_ref(l->project, name, &mine) == 0 && strcmp(mine, id) == 0))
		return 0;
	r = left_is_new(l, id, err);
	if (r <= 0)
		return r;
	l->ret->any = true;
	if (is_head)
		l->ret->head = true;
	else if (!strv_has(l->ret->others, name) && strv_add(&l->ret->others, name) < 0)
		return error_errno(err, ENOMEM, "list the sandbox's branches");
	return 0;
}

static int left_file(struct left *l, const char *name, struct warren_error *err)
{
	AUTO_FREE char *id = NULL;
	size_t n;

	if (++l->files > LEFT_FILES || !left_is_own(name) ||
	    work_file_read_at(l->upper, name, 4096, &id, &n) < 0)
		return 0;
	id[strcspn(id, "\n")] = '\0';
	return left_reference(l, name, id, err);
}

static int left_dir(struct left *l, const char *path, int depth, struct warren_error *err)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int dir = beneath_dir(l->upper, path, O_RDONLY);
	const struct dir_entry *e;
	int r = 0;

	if (!reader)
		return error_errno(err, ENOMEM, "list the sandbox's branches");
	if (dir < 0 || depth > LEFT_DEPTH)
		return 0;
	reader->fd = dir;
	while (r == 0 && dir_next(reader, &e) > 0) {
		char below[PATH_MAX];
		struct stat st;

		if (snprintf(below, sizeof(below), "%s/%s", path, e->name) >=
			    (int)sizeof(below) ||
		    beneath_stat(l->upper, below, &st) < 0)
			continue;
		r = S_ISDIR(st.st_mode)   ? left_dir(l, below, depth + 1, err)
		    : S_ISREG(st.st_mode) ? left_file(l, below, err)
					  : 0;
	}
	return r;
}

/* Lines are "<id> <name>"; those that the user has, too, are not new. */
static int left_packed(struct left *l, struct warren_error *err)
{
	AUTO_FREE char *text = NULL, *mine = NULL;
	char *save = NULL;
	struct stat st;
	size_t n;
	int r = 0;

	if (work_file_read_at(l->upper, "packed-refs", LEFT_TEXT_MAX, &text, &n) < 0)
		return 0;
	(void)work_file_read_at(l->project, "packed-refs", LEFT_TEXT_MAX, &mine, &n);
	for (char *line = strtok_r(text, "\n", &save); line && r == 0;
	     line = strtok_r(NULL, "\n", &save)) {
		char *space = strchr(line, ' ');

		if (!space || line[0] == '#' || (mine && strstr(mine, line)))
			continue;
		*space = '\0';
		/* A file, or its deletion, takes precedence. */
		if (beneath_stat(l->upper, space + 1, &st) < 0)
			r = left_reference(l, space + 1, line, err);
	}
	return r;
}

static int left_head(struct left *l, struct warren_error *err)
{
	AUTO_FREE char *text = NULL;
	size_t n;
	int r = work_file_read_at(l->upper, "HEAD", 4096, &text, &n);

	if (r < 0)
		r = work_file_read_at(l->project, "HEAD", 4096, &text, &n);
	if (r < 0)
		return 0;
	text[strcspn(text, "\n")] = '\0';
	if (git_is_id(text)) {
		r = left_is_new(l, text, err);
		l->ret->head = l->ret->any = r > 0;
		return r < 0 ? r : 0;
	}
	if (left_starts(text, "ref: ")) {
		l->head = strdup(text + 5);
		return l->head ? 0 : error_errno(err, ENOMEM, "read the sandbox's HEAD");
	}
	return 0;
}

int work_commits_left(struct work *w, struct work_commits_left *ret,
		      struct warren_error *err)
{
	AUTO_COMMITS_LEFT struct work_commits_left found = { 0 };
	AUTO_CLOSE int root = changes_upper(w),
		       upper = root < 0 ? root : beneath_dir(root, ".git", O_RDONLY),
		       project = w->project_fd < 0
					 ? -1
					 : beneath_dir(w->project_fd, ".git", O_PATH);
	struct left l = { .w = w, .upper = upper, .project = project, .ret = &found };
	int r;

	if (upper < 0 || project < 0)
		return 0;
	r = left_head(&l, err);
	if (r == 0)
		r = left_dir(&l, "refs", 0, err);
	if (r == 0)
		r = left_packed(&l, err);
	free(l.head);
	if (r < 0)
		return r;
	*ret = found;
	found = (struct work_commits_left){ 0 };
	return 0;
}

/* May it be a word of a command that the user copies? */
static bool left_is_plain(const char *name)
{
	return name[0] != '-' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			    "0123456789._/-") == strlen(name);
}

void work_commits_left_text(const struct work_commits_left *l, const char *id,
			    struct buf *out)
{
	const char *first = NULL;
	size_t n = strv_len(l->others);

	for (size_t i = 0; i < n && i < 5; i++) {
		const char *name = l->others[i];
		bool tag = left_starts(name, "refs/tags/");

		buf_puts(out, i > 0 ? ", " : "");
		if (strcmp(name, "refs/stash") == 0) {
			buf_puts(out, "the stash");
			continue;
		}
		name += tag ? 10 : 11;
		buf_printf(out, "%s '%.60s'", tag ? "the tag" : "the branch", name);
		first = first ? first : name;
	}
	if (n > 5)
		buf_printf(out, " and %zu more", n - 5);
	buf_printf(out, " (to get %s, first: warren work --resume %s -- git %s%.60s)",
		   n == 1 ? "it" : "one of them", id, first ? "checkout " : "stash pop",
		   !first                 ? ""
		   : left_is_plain(first) ? first
					  : "BRANCH");
}
