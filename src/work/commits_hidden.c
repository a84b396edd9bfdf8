/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commits_hidden.c - which hidden files do commits of the sandbox delete or change?
 *
 * A merge of such commits would do the same to the user's files. The commits are in the
 * user's repository already, without a branch.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strv.h"
#include "work/commits_internal.h"
#include "work/files_internal.h"
#include "work/git_run.h"
#include "work/hide_internal.h"

#define HIDDEN_LIST_MAX ((size_t)256 << 20)
#define HIDDEN_NAMES    5 /* in the message */

/* git's output: "<colons><modes> <ids> <letters>\0<path>\0", with a colon per parent. */
struct hidden_record {
	unsigned mode; /* 0: deleted */
	const char *path;
};

static int hidden_next(const char **at, const char *end, struct hidden_record *ret)
{
	const char *head = *at, *stop = memchr(head, '\0', (size_t)(end - head));
	size_t parents = strspn(head, ":");
	const char *path = stop ? stop + 1 : end;
	const char *path_end =
		path < end ? memchr(path, '\0', (size_t)(end - path)) : NULL;

	if (head == end)
		return 0;
	if (!path_end || parents == 0)
		return -EPROTO;
	head += parents;
	/* The last mode is the one that the commit has. */
	for (size_t i = 0; i < parents; i++)
		head += strcspn(head, " ") + (head[strcspn(head, " ")] == ' ');
	*ret = (struct hidden_record){ (unsigned)strtoul(head, NULL, 8), path };
	*at = path_end + 1;
	return 1;
}

/* A file in the place of a directory replaces the hidden files in it. */
static bool hidden_replaces(int layer, const struct hidden_record *r)
{
	const unsigned submodule = 0160000;
	struct stat st;

	return r->mode != 0 && r->mode != submodule &&
	       beneath_stat(layer, r->path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int hidden_collect(int layer, const struct buf *list, char ***ret)
{
	const char *at = list->data, *end = at + list->len;
	struct hidden_record record;
	int r = 0;

	while (r >= 0 && list->len > 0 && (r = hidden_next(&at, end, &record)) > 0)
		if ((hide_layer_has(layer, record.path) ||
		     hidden_replaces(layer, &record)) &&
		    !strv_has(*ret, record.path))
			r = strv_add(ret, record.path);
	return r;
}

static int hidden_run(const struct work *w, const char *const *argv, int in, int layer,
		      char ***ret, struct warren_error *err)
{
	struct buf list AUTO_BUF = BUF_INIT(HIDDEN_LIST_MAX);
	const struct git_command c = { .argv = argv, .slow = true, .in = in, .out = -1 };
	int r = git_run(w, &c, &list, err);

	if (r < 0)
		return r;
	r = hidden_collect(layer, &list, ret);
	return r < 0 ? error_errno(err, -r, "read the changes of the sandbox's commits")
		     : 0;
}

/* What each commit changes that no branch of the user has; of merges, what is new. */
static int hidden_in_commits(const struct work *w, const char *commit, int layer,
			     char ***ret, struct warren_error *err)
{
	const char *const list[] = { "rev-list", commit, "--not", "--all", NULL };
	static const char *const show[] = {
		"diff-tree", "--stdin",      "--no-commit-id", "--root", "-r",
		"-c",        "--no-renames", "--raw",          "-z",     NULL
	};
	struct buf commits AUTO_BUF = BUF_INIT(HIDDEN_LIST_MAX);
	const struct git_command c = { .argv = list, .slow = true, .in = -1, .out = -1 };
	AUTO_CLOSE int in = memfd_create("commits", MFD_CLOEXEC);
	int r = git_run(w, &c, &commits, err);

	if (r < 0)
		return r;
	if (in < 0 || fd_write_all(in, commits.data, commits.len) < 0 ||
	    lseek(in, 0, SEEK_SET) < 0)
		return error_errno(err, EIO, "list the sandbox's commits");
	return hidden_run(w, show, in, layer, ret, err);
}

/*
 * All commits together can do more: for example, if they begin at an old commit, and are
 * then merged without its successors' changes.
 */
static int hidden_in_sum(const struct work *w, const char *commit, int layer, char ***ret,
			 struct warren_error *err)
{
	const char *const find[] = { "merge-base", w->head, commit, NULL };
	const char *show[] = { "diff-tree", "-r", "--no-renames", "--raw",
			       "-z",        NULL, NULL,           NULL };
	struct buf base AUTO_BUF = BUF_INIT(HIDDEN_LIST_MAX);
	const struct git_command c = { .argv = find, .slow = true, .in = -1, .out = -1 };
	int r = w->head ? git_run(w, &c, &base, err) : 0;

	if (r < 0 && r != -EPROTO)
		return r;
	/* Without a common commit, they cannot be merged. */
	if (r < 0 || base.len == 0)
		return 0;
	buf_puts(&base, "\n");
	if (base.failed)
		return error_errno(err, ENOMEM, "compare the sandbox's commits");
	base.data[strcspn(base.data, "\n")] = '\0';
	show[5] = base.data;
	show[6] = commit;
	return hidden_run(w, show, -1, layer, ret, err);
}

/* Name the first files. */
static int hidden_refuse(char *const *paths, struct warren_error *err)
{
	const size_t n = strv_len(paths);
	struct buf names AUTO_BUF = BUF_INIT(1 << 14);

	for (size_t i = 0; i < n && i < HIDDEN_NAMES; i++)
		buf_printf(&names, "%s'%s'", i > 0 ? ", " : "", paths[i]);
	if (n > HIDDEN_NAMES)
		buf_printf(&names, " and %zu more", n - HIDDEN_NAMES);
	return error_set(err, EPERM,
			 "the commits delete or change files that were hidden from the "
			 "sandbox, so merging them would do the same (allow it with "
			 "--as-commits --allow hidden): %s",
			 names.data ? names.data : "");
}

int commits_check_hidden(const struct work *w, const char *commit,
			 struct warren_error *err)
{
	AUTO_CLOSE int layer = beneath_dir(w->dir_fd, "hide", O_RDONLY);
	AUTO_STRV char **found = NULL;
	int r = layer < 0 ? error_errno(err, -layer, "open '%s/hide'", w->dir) : 0;

	if (r == 0)
		r = hidden_in_commits(w, commit, layer, &found, err);
	if (r == 0)
		r = hidden_in_sum(w, commit, layer, &found, err);
	return r == 0 && found ? hidden_refuse(found, err) : r;
}
