/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commits_files.c - find files in commits of the sandbox that need permission
 *
 * A merge of such commits would delete hidden files of the user, or change what git then
 * executes. So they are checked by the rules for files (git_guard.c), as far as commits
 * can contain such files. At that time, the commits are in the user's repository, but in
 * no branch.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strv.h"
#include "work/changes_internal.h"
#include "work/commits.h"
#include "work/commits_internal.h"
#include "work/files_internal.h"
#include "work/git_run.h"
#include "work/hide.h"
#include "work/hide_internal.h"

#define FILES_LIST_MAX ((size_t)256 << 20)
#define FILES_KEPT     4096 /* paths of each kind */
#define FILES_NAMES    5    /* in a message */
#define FILES_NAME_MAX 150  /* bytes of each */
#define FILES_SIDES    64   /* a merge and its parents; git has a similar limit */

#define FILES_SUBMODULE 0160000u

struct commit_file_check {
	const struct work *w;
	const char *commit;
	int layer;              /* whiteouts of hidden files; -1: these may change */
	bool git;               /* files that git executes may not change */
	struct git_named named; /* by git's configuration of the user */
	char **hidden, **guarded;
};

static void commit_file_check_done(struct commit_file_check *f)
{
	close_p(&f->layer);
	git_named_done(&f->named);
	(void)strv_free(f->hidden);
	(void)strv_free(f->guarded);
}

/* ---------------------------------------------------------------- git's output */

/* "<colons><modes> <ids> <letters>\0<path>\0", with one colon for each parent. */
struct commit_file_record {
	size_t n;                    /* parents and the commit, which is the last */
	unsigned modes[FILES_SIDES]; /* 0: there is no such file */
	const char *ids[FILES_SIDES];
	const char *path;
};

static unsigned commit_file_mode(const struct commit_file_record *r)
{
	return r->modes[r->n - 1];
}

static int commit_file_next(const char **at, const char *end,
			    struct commit_file_record *ret)
{
	const char *head = *at, *stop = memchr(head, '\0', (size_t)(end - head));
	size_t n = strspn(head, ":") + 1;
	const char *path = stop ? stop + 1 : end;
	const char *path_end =
		path < end ? memchr(path, '\0', (size_t)(end - path)) : NULL;

	if (head == end)
		return 0;
	if (!path_end || n < 2 || n > FILES_SIDES)
		return -EPROTO;
	*ret = (struct commit_file_record){ .n = n, .path = path };
	head += n - 1;
	for (size_t i = 0; i < 2 * n; i++) {
		if (i < n)
			ret->modes[i] = (unsigned)strtoul(head, NULL, 8);
		else
			ret->ids[i - n] = head;
		head += strcspn(head, " ");
		if (*head++ != ' ')
			return -EPROTO;
	}
	*at = path_end + 1;
	return 1;
}

/* -------------------------------------------------------------- what git executes */

/* Add a path, unless there are very many. */
static int commit_file_add(char ***list, const char *path)
{
	return strv_len(*list) >= FILES_KEPT || strv_has(*list, path)
		       ? 0
		       : strv_add(list, path);
}

/* Is the file a part of a repository, or does it describe one? */
static bool commit_file_is_git(const struct commit_file_check *f, const char *path)
{
	AUTO_FREE char *copy = strdup(path);
	char head[PATH_MAX];
	struct stat st;

	for (char *at = copy, *end; at; at = end ? end + 1 : NULL) {
		int n = snprintf(head, sizeof(head), "%.*sHEAD", (int)(at - copy), path);

		end = strchr(at, '/');
		if (end)
			*end = '\0';
		/* Every repository has a file HEAD; other directories rarely do. */
		if (guard_is_dotgit(at) || guard_is_git_link(at) ||
		    strcmp(at, "HEAD") == 0)
			return true;
		if (n > 0 && n < PATH_MAX &&
		    beneath_stat(f->w->project_fd, head, &st) == 0)
			return true;
	}
	return !copy;
}

/* Can it be executed, or is it a link? */
static bool commit_file_is_executable(const struct commit_file_record *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (S_ISLNK(r->modes[i]) ||
		    (S_ISREG(r->modes[i]) && (r->modes[i] & 0111)))
			return true;
	return false;
}

/* Could the file be a program, by its mode or name? Its contents are checked later. */
static bool commit_file_is_program(const struct commit_file_record *r)
{
	const char *slash = strrchr(r->path, '/');

	return commit_file_is_executable(r) ||
	       guard_is_script_name(slash ? slash + 1 : r->path);
}

static bool commit_file_is_guarded(const struct commit_file_check *f,
				   const struct commit_file_record *r)
{
	bool dir = commit_file_mode(r) == 0 || commit_file_mode(r) == FILES_SUBMODULE;

	return commit_file_is_git(f, r->path) ||
	       git_named_has(&f->named, r->path, dir, commit_file_is_executable(r)) ||
	       (f->named.unclear && commit_file_is_program(r));
}

/* Read "<id> blob <size>", the contents, and a newline: 1 if it is a script. */
static int commit_file_read_blob(FILE *in)
{
	char line[256], *size;
	unsigned long long left;
	int first, second;

	if (!fgets(line, sizeof(line), in))
		return -EPROTO;
	size = strstr(line, " blob ");
	if (!size)
		return -EPROTO;
	left = strtoull(size + 6, NULL, 10) + 1;
	first = getc(in);
	second = left > 1 ? getc(in) : EOF;
	for (left -= left > 1 ? 2 : 1; left > 0 && getc(in) != EOF; left--)
		;
	return left > 0 ? -EPROTO : first == '#' && second == '!';
}

/* Find the scripts among @paths, which end with NULs; the file @ids has their objects. */
static int commit_file_find_scripts(struct commit_file_check *f, int ids,
				    const struct buf *paths, struct warren_error *err)
{
	static const char *const argv[] = { "cat-file", "--batch", NULL };
	struct git_command c = { .argv = argv, .slow = true, .in = ids };
	int ends[2], pid, r = 0;
	FILE *in;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "create a pipe");
	c.out = ends[1];
	pid = git_start(f->w, &c, err);
	(void)close(ends[1]);
	in = fdopen(ends[0], "r");
	if (!in)
		(void)close(ends[0]);
	for (const char *at = paths->data, *end = at + paths->len;
	     pid >= 0 && in && r >= 0 && at < end; at += strlen(at) + 1) {
		r = commit_file_read_blob(in);
		if (r > 0)
			r = commit_file_add(&f->guarded, at);
	}
	if (in)
		(void)fclose(in);
	if (pid < 0)
		return pid;
	(void)git_wait(pid);
	return !in || r < 0 ? error_errno(err, in ? -r : ENOMEM,
					  "read the files of the sandbox's commits")
			    : 0;
}

/* ------------------------------------------------------------------- all records */

/* If a file replaces a directory, the hidden files in it are lost. */
static bool commit_file_is_hidden(const struct commit_file_check *f,
				  const struct commit_file_record *r)
{
	struct stat st;

	return f->layer >= 0 &&
	       (hide_layer_has(f->layer, r->path) ||
		(commit_file_mode(r) != 0 && commit_file_mode(r) != FILES_SUBMODULE &&
		 beneath_stat(f->layer, r->path, &st) == 0 && S_ISDIR(st.st_mode)));
}

/* Ask for the contents of each side of a record. */
static void commit_file_ask(const struct commit_file_record *r, struct buf *ids,
			    struct buf *paths)
{
	for (size_t i = 0; i < r->n; i++)
		if (S_ISREG(r->modes[i])) {
			buf_add(ids, r->ids[i], strcspn(r->ids[i], " "));
			buf_puts(ids, "\n");
			buf_add(paths, r->path, strlen(r->path) + 1);
		}
}

static int commit_file_collect(struct commit_file_check *f, const struct buf *list,
			       struct buf *ids, struct buf *paths)
{
	const char *at = list->data, *end = at + list->len;
	struct commit_file_record record;
	int r = 0;

	while (r >= 0 && list->len > 0 && (r = commit_file_next(&at, end, &record)) > 0) {
		if (commit_file_is_hidden(f, &record))
			r = commit_file_add(&f->hidden, record.path);
		if (r >= 0 && f->git && commit_file_is_guarded(f, &record))
			r = commit_file_add(&f->guarded, record.path);
		else if (f->git && f->named.unclear)
			commit_file_ask(&record, ids, paths);
	}
	return r < 0 ? r : ids->failed || paths->failed ? -ENOMEM : 0;
}

/* Write a list for git to a file in memory. -1: failed. */
static int commit_file_memory(const struct buf *list)
{
	AUTO_CLOSE int fd = memfd_create("list", MFD_CLOEXEC);

	if (fd < 0 || fd_write_all(fd, list->data, list->len) < 0 ||
	    lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	return TAKE_FD(fd);
}

static int commit_file_run(struct commit_file_check *f, const char *const *argv, int in,
			   struct warren_error *err)
{
	struct buf list AUTO_BUF = BUF_INIT(FILES_LIST_MAX),
			ids AUTO_BUF = BUF_INIT(FILES_LIST_MAX),
			paths AUTO_BUF = BUF_INIT(FILES_LIST_MAX);
	const struct git_command c = { .argv = argv, .slow = true, .in = in, .out = -1 };
	AUTO_CLOSE int fd = -1;
	int r = git_run(f->w, &c, &list, err);

	/* A small repository can contain the same tree in very many places. */
	if (r == -ENOMEM || r == -EFBIG)
		return error_wrap(err, "the sandbox's commits change too many files to "
				       "be checked, so they were not accepted");
	if (r < 0)
		return r;
	r = commit_file_collect(f, &list, &ids, &paths);
	fd = r < 0 || !paths.len ? -1 : commit_file_memory(&ids);
	if (r < 0 || (paths.len && fd < 0))
		return error_errno(err, r < 0 ? -r : EIO,
				   "read the changes of the sandbox's commits");
	return paths.len ? commit_file_find_scripts(f, fd, &paths, err) : 0;
}

/* Check each commit that no reference of the user has; of merges, what they add. */
static int commit_file_in_commits(struct commit_file_check *f, struct warren_error *err)
{
	const char *const list[] = { "rev-list", f->commit, "--not", "--all", NULL };
	static const char *const show[] = {
		"diff-tree", "--stdin",      "--no-commit-id", "--root", "-r", "-c",
		"--raw",     "--no-renames", "--no-abbrev",    "-z",     NULL
	};
	struct buf commits AUTO_BUF = BUF_INIT(FILES_LIST_MAX);
	const struct git_command c = { .argv = list, .slow = true, .in = -1, .out = -1 };
	AUTO_CLOSE int in = -1;
	int r = git_run(f->w, &c, &commits, err);

	if (r < 0)
		return r;
	in = commit_file_memory(&commits);
	if (in < 0)
		return error_errno(err, EIO, "list the sandbox's commits");
	return commit_file_run(f, show, in, err);
}

/*
 * Check all commits together, because their sum can do more: for example, they can begin
 * at an old commit, and then merge its successors without their changes.
 */
static int commit_file_in_sum(struct commit_file_check *f, struct warren_error *err)
{
	const char *const find[] = { "merge-base", f->w->head, f->commit, NULL };
	const char *show[] = { "diff-tree", "-r", "--no-renames", "--raw", "--no-abbrev",
			       "-z",        NULL, NULL,           NULL };
	struct buf base AUTO_BUF = BUF_INIT(FILES_LIST_MAX);
	const struct git_command c = { .argv = find, .slow = true, .in = -1, .out = -1 };
	int r = f->w->head ? git_run(f->w, &c, &base, err) : 0;

	if (r < 0 && r != -EPROTO)
		return r;
	/* git does not merge commits without a common ancestor. */
	if (r < 0 || base.len == 0)
		return 0;
	buf_puts(&base, "\n");
	if (base.failed)
		return error_errno(err, ENOMEM, "compare the sandbox's commits");
	base.data[strcspn(base.data, "\n")] = '\0';
	show[6] = base.data;
	show[7] = f->commit;
	return commit_file_run(f, show, -1, err);
}

/* ---------------------------------------------------------------------- the verdict */

/* Name the first files. */
static int commit_file_refuse(char *const *paths, const char *why,
			      struct warren_error *err)
{
	const size_t n = strv_len(paths);
	struct buf names AUTO_BUF = BUF_INIT(1 << 14);

	for (size_t i = 0; i < n && i < FILES_NAMES; i++)
		buf_printf(&names, "%s'%.*s%s'", i > 0 ? ", " : "", FILES_NAME_MAX,
			   paths[i], strlen(paths[i]) > FILES_NAME_MAX ? "..." : "");
	if (n > FILES_NAMES)
		buf_printf(&names, " and %zu more", n - FILES_NAMES);
	return error_set(err, EPERM, "%s: %s", why, names.data ? names.data : "");
}

static int commit_file_begin(struct commit_file_check *f, unsigned flags,
			     struct warren_error *err)
{
	AUTO_STRV char **repositories = NULL;
	bool more = false;
	int r = 0;

	if (!(flags & COMMITS_HIDDEN)) {
		f->layer = beneath_dir(f->w->dir_fd, "hide", O_RDONLY);
		if (f->layer < 0)
			return error_errno(err, -f->layer, "open '%s/hide'", f->w->dir);
	}
	f->git = !(flags & COMMITS_GIT);
	if (f->git)
		r = hide_repositories_read(f->w, &repositories, &more);
	if (f->git && r == 0)
		r = git_named_read(f->w->project, repositories, true, &f->named);
	/* If the search may have missed a repository, its configuration may name any
	 * file. */
	f->named.unclear |= more;
	return r < 0 ? error_errno(err, -r, "read the configuration of git") : 0;
}

int commits_check_files(const struct work *w, const char *commit, unsigned flags,
			struct warren_error *err)
{
	struct commit_file_check f CLEANUP(
		commit_file_check_done) = { .w = w, .commit = commit, .layer = -1 };
	int r = commit_file_begin(&f, flags, err);

	if (r == 0 && (f.layer >= 0 || f.git))
		r = commit_file_in_commits(&f, err);
	if (r == 0 && (f.layer >= 0 || f.git))
		r = commit_file_in_sum(&f, err);
	if (r == 0 && f.hidden)
		return commit_file_refuse(
			f.hidden,
			"the commits delete or change files that were hidden "
			"from the sandbox, so a merge would do the same to "
			"your files (allow it with --as-commits --allow hidden)",
			err);
	if (r == 0 && f.guarded)
		return commit_file_refuse(
			f.guarded,
			"the commits change files that git could execute or "
			"read as its configuration after a merge (to create the "
			"branch anyway, and inspect it: --as-commits --allow "
			"git)",
			err);
	return r;
}
