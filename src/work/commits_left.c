/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commits_left.c - find commits of the sandbox that the user's repository does not have
 *
 * A reference has such commits if the sandbox changed it, and no reference of the user
 * leads to its commit. All references count, including those that a clone does not have,
 * such as notes and those of git-bisect. Only files of the sandbox are read; git runs in
 * the user's repository.
 *
 * If no reference has such commits, the reflog may name commits of an earlier detached
 * HEAD. Commits that git itself replaced or discarded (commit --amend, rebase, reset) are
 * in other lines of the reflog. These do not count, because every rebase writes them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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
#define LEFT_ASKED    64 /* git is asked about so many references; others count as new */
#define LEFT_NAMED    256
#define LEFT_LOG      1024 /* commits in the reflog; if there are more, the work is kept */
#define LEFT_LOG_TEXT "\tcheckout: moving from "

/* A line of packed-refs, in which the blank after the id has become a NUL. */
struct left_packed {
	const char *id, *name;
};

struct left {
	struct work *w;
	int upper, project;         /* .git in the sandbox's changes, and the user's */
	char *head;                 /* "refs/heads/main", or NULL */
	char *packed_text;          /* of the user */
	struct left_packed *packed; /* sorted by name */
	size_t n_packed;
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

/* What git puts away while it merges or rebases, and brings back at the end. */
static const char *const left_autostashes[] = { "MERGE_AUTOSTASH",
						"rebase-merge/autostash",
						"rebase-apply/autostash" };

static bool left_is_autostash(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(left_autostashes); i++)
		if (strcmp(path, left_autostashes[i]) == 0)
			return true;
	return false;
}

/* Submodules, also those of linked worktrees: "modules/x", "worktrees/w/modules/x". */
static const char *left_submodule(const char *name)
{
	const char *in =
		left_starts(name, "worktrees/") ? strstr(name, "/modules/") : NULL;

	return left_starts(name, "modules/") ? name + 8 : in ? in + 9 : NULL;
}

/* Is it a reference? The HEAD of a worktree is one, too. */
static bool left_is_reference(const char *name)
{
	const char *in = left_starts(name, "worktrees/") ? strchr(name + 10, '/') : NULL;

	return left_starts(name, "refs/") ||
	       (in && (strcmp(in, "/HEAD") == 0 || left_starts(in, "/refs/") ||
		       left_is_autostash(in + 1)));
}

static int left_add(struct left *l, const char *name, struct warren_error *err)
{
	l->ret->any = true;
	if (!strv_has(l->ret->others, name) && strv_add(&l->ret->others, name) < 0)
		return error_errno(err, ENOMEM, "list the sandbox's branches");
	return 0;
}

/* Some references cannot be read: keep the work, whatever they are. */
static int left_unread(struct left *l, struct warren_error *err)
{
	return left_add(l, "refs/", err);
}

/* Does no reference of the user lead to the commit? 1: none does; 0; or -errno. */
static int left_is_new(struct left *l, const char *id, struct warren_error *err)
{
	const char *const argv[] = { "rev-list", "-n", "1", id, "--not", "--all", NULL };
	struct buf out AUTO_BUF = BUF_INIT(LEFT_TEXT_MAX);
	const struct git_command c = { .argv = argv, .slow = true, .in = -1, .out = -1 };
	int r;

	if (++l->asked > LEFT_ASKED)
		return 1;
	r = git_run(l->w, &c, &out, err);
	/* -EPROTO: the user's repository does not have the object. */
	return r == -EPROTO ? 1 : r < 0 ? r : out.len > 0;
}

static bool left_is_missing(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -EISDIR || r == -ELOOP ||
	       r == -EMEDIUMTYPE;
}

static int left_failed(const char *path, int r, struct warren_error *err)
{
	return error_errno(err, -r, "read '%.200s' of the sandbox's repository", path);
}

/*
 * Read a file of the sandbox. Returns 1, or 0 if there is none; if it cannot be read,
 * nothing may be concluded from that.
 */
static int left_read(struct left *l, const char *path, size_t max, char **ret,
		     struct warren_error *err)
{
	size_t n;
	int r = work_file_read_at(l->upper, path, max, ret, &n);

	if (r == 0 || left_is_missing(r))
		return r == 0;
	return r == -EFBIG ? left_unread(l, err) : left_failed(path, r, err);
}

/* ------------------------------------------------------------------- packed-refs */

/* Read the next line that is a reference; false: there is none. */
static bool left_packed_next(char **at, struct left_packed *ret)
{
	char *line, *space;

	while ((line = strsep(at, "\n"))) {
		space = strchr(line, ' ');
		if (!space)
			continue;
		*space = '\0';
		*ret = (struct left_packed){ .id = line, .name = space + 1 };
		if (git_is_id(line) && left_is_reference(space + 1))
			return true;
	}
	return false;
}

static int left_packed_compare(const void *a, const void *b)
{
	const struct left_packed *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* There may be very many, with which each reference of the sandbox is compared. */
static int left_packed_read(struct left *l, struct warren_error *err)
{
	size_t n, cap = 0;
	struct left_packed ref;
	char *at;

	if (work_file_read_at(l->project, "packed-refs", LEFT_TEXT_MAX, &l->packed_text,
			      &n) < 0)
		return 0;
	at = l->packed_text;
	while (left_packed_next(&at, &ref)) {
		if (l->n_packed == cap) {
			struct left_packed *more;

			cap = cap ? cap * 2 : 256;
			more = reallocarray(l->packed, cap, sizeof(*more));
			if (!more)
				return error_errno(err, ENOMEM, "read packed-refs");
			l->packed = more;
		}
		l->packed[l->n_packed++] = ref;
	}
	if (l->n_packed > 0)
		qsort(l->packed, l->n_packed, sizeof(*l->packed), left_packed_compare);
	return 0;
}

/* Has the user the same reference to the same commit? */
static bool left_is_mine(const struct left *l, const char *name, const char *id)
{
	const struct left_packed key = { .name = name }, *found = NULL;
	AUTO_FREE char *mine = NULL;
	size_t n;

	if (work_file_read_at(l->project, name, 4096, &mine, &n) == 0) {
		mine[strcspn(mine, "\n")] = '\0';
		return strcmp(mine, id) == 0;
	}
	if (l->n_packed > 0)
		found = bsearch(&key, l->packed, l->n_packed, sizeof(key),
				left_packed_compare);
	return found && strcmp(found->id, id) == 0;
}

static int left_reference(struct left *l, const char *name, const char *id,
			  struct warren_error *err)
{
	bool is_head = l->head && strcmp(name, l->head) == 0;
	int r;

	/* One is enough to keep the work, and a sandbox can create very many. */
	if (!is_head && strv_len(l->ret->others) >= LEFT_NAMED)
		return 0;
	if (!git_is_id(id) || !left_is_reference(name) || left_is_mine(l, name, id))
		return 0;
	r = left_is_new(l, id, err);
	if (r <= 0)
		return r;
	if (!is_head)
		return left_add(l, name, err);
	l->ret->any = l->ret->head = true;
	return 0;
}

static int left_file(struct left *l, const char *name, struct warren_error *err)
{
	AUTO_FREE char *id = NULL;
	int r;

	if (!left_is_reference(name))
		return 0;
	if (++l->files > LEFT_FILES)
		return left_unread(l, err);
	r = left_read(l, name, 4096, &id, err);
	if (r <= 0)
		return r;
	id[strcspn(id, "\n")] = '\0';
	return left_reference(l, name, id, err);
}

typedef int left_file_fn(struct left *l, const char *path, struct warren_error *err);

/* Submodules have many objects. */
static bool left_is_of_no_interest(const char *path, const char *name)
{
	return strstr(path, "modules/") && !strstr(path, "/refs") &&
	       strcmp(name, "objects") == 0;
}

/* Call a function for each file below a directory. */
static int left_dir(struct left *l, const char *path, int depth, left_file_fn *file,
		    struct warren_error *err)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int dir = beneath_dir(l->upper, path, O_RDONLY);
	const struct dir_entry *e;
	int r = 0, more = 0;

	if (!reader)
		return error_errno(err, ENOMEM, "list the sandbox's branches");
	if (dir < 0)
		return left_is_missing(dir) ? 0 : left_failed(path, dir, err);
	if (depth > LEFT_DEPTH)
		return left_unread(l, err);
	reader->fd = dir;
	while (r == 0 && (more = dir_next(reader, &e)) > 0) {
		char below[PATH_MAX];
		struct stat st;

		if (left_is_of_no_interest(path, e->name) ||
		    snprintf(below, sizeof(below), "%s/%s", path, e->name) >=
			    (int)sizeof(below) ||
		    beneath_stat(l->upper, below, &st) < 0)
			continue;
		r = S_ISDIR(st.st_mode)   ? left_dir(l, below, depth + 1, file, err)
		    : S_ISREG(st.st_mode) ? file(l, below, err)
					  : 0;
	}
	return r == 0 && more < 0 ? left_failed(path, more, err) : r;
}

/* --------------------------------------------------------------------- submodules */

/*
 * The length of the path of the submodule's repository that the file is in: the innermost
 * one that the user has. 0: none; those that the sandbox made are not accepted anyway.
 */
static size_t left_module(const struct left *l, const char *path)
{
	char at[PATH_MAX];
	struct stat st;

	for (size_t n = strlen(path); n > 0 && n < sizeof(at); n--) {
		if (path[n] != '/')
			continue;
		(void)snprintf(at, sizeof(at), "%.*s/objects", (int)n, path);
		if (beneath_stat(l->project, at, &st) == 0 && S_ISDIR(st.st_mode))
			return n;
	}
	return 0;
}

/* Commits in a file of a submodule's repository. */
struct left_ids {
	const char **argv; /* of git: the first ones are LEFT_ARGS others */
	size_t n;
	bool more; /* than are asked for */
};

#define LEFT_ARGS 4

static void left_ids_add(struct left_ids *i, const char *id)
{
	if (!git_is_id(id))
		return;
	if (i->n >= LEFT_LOG)
		i->more = true;
	else
		i->argv[LEFT_ARGS + i->n++] = id;
}

/* Find the ids in @text, which is changed. @rest is the path in the repository. */
static void left_module_ids(char *text, const char *rest, const char *mine,
			    struct left_ids *ids)
{
	bool log = strcmp(rest, "logs/HEAD") == 0,
	     stash = strcmp(rest, "logs/refs/stash") == 0;
	char *line, *id;

	while ((line = strsep(&text, "\n"))) {
		id = log ? strstr(line, LEFT_LOG_TEXT) : line;
		if (!id)
			continue;
		id += log ? strlen(LEFT_LOG_TEXT) : 0;
		if (stash)
			id += strcspn(id, " ") + (strchr(id, ' ') != NULL);
		id[strcspn(id, " ")] = '\0';
		/* One that the user's file has, too, is not new. */
		if (!mine || !strstr(mine, id))
			left_ids_add(ids, id);
	}
}

/* Has the user's repository of the submodule no reference that leads to one of these? */
static int left_module_is_new(struct left *l, const char *module, struct left_ids *ids,
			      struct warren_error *err)
{
	static const char *const end[] = { "--not", "--all", "HEAD", NULL };
	char dir[PATH_MAX + 32];
	struct buf out AUTO_BUF = BUF_INIT(LEFT_TEXT_MAX);
	const struct git_command c = {
		.argv = ids->argv, .slow = true, .in = -1, .out = -1
	};
	int r;

	if (ids->n == 0)
		return 0;
	if (ids->more || ++l->asked > LEFT_ASKED)
		return 1;
	(void)snprintf(dir, sizeof(dir), "--git-dir=.git/%s", module);
	ids->argv[0] = dir;
	ids->argv[1] = "rev-list";
	ids->argv[2] = "-n";
	ids->argv[3] = "1";
	(void)memcpy(ids->argv + LEFT_ARGS + ids->n, end, sizeof(end));
	r = git_run(l->w, &c, &out, err);
	/* -EPROTO: it does not have one of them. */
	return r == -EPROTO ? 1 : r < 0 ? r : out.len > 0;
}

static bool left_module_has(const char *rest)
{
	static const char *const files[] = { "HEAD", "packed-refs", "logs/HEAD",
					     "logs/refs/stash" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (strcmp(rest, files[i]) == 0)
			return true;
	return left_starts(rest, "refs/") || left_is_autostash(rest);
}

static int left_module_file(struct left *l, const char *path, struct warren_error *err)
{
	AUTO_FREE char *text = NULL, *mine = NULL, *module = NULL;
	AUTO_FREE const char **argv = NULL;
	struct left_ids ids = { 0 };
	size_t n = strstr(path, "modules/") ? left_module(l, path) : 0, ignored;
	int r;

	if (n == 0 || !left_module_has(path + n + 1))
		return 0;
	if (++l->files > LEFT_FILES)
		return left_unread(l, err);
	r = left_read(l, path, LEFT_TEXT_MAX, &text, err);
	if (r <= 0)
		return r;
	(void)work_file_read_at(l->project, path, LEFT_TEXT_MAX, &mine, &ignored);
	module = strndup(path, n);
	ids.argv = argv = calloc(LEFT_ARGS + LEFT_LOG + 8, sizeof(*argv));
	if (!module || !argv)
		return error_errno(err, ENOMEM, "list the sandbox's submodules");
	if (strv_has(l->ret->others, module) || strv_len(l->ret->others) >= LEFT_NAMED)
		return 0;
	left_module_ids(text, path + n + 1, mine, &ids);
	r = left_module_is_new(l, module, &ids, err);
	return r > 0 ? left_add(l, module, err) : r;
}

/*
 * A file of the sandbox takes precedence over a line of packed-refs, but a deleted one
 * does not: git packs a reference, and then deletes its file.
 */
static int left_packed_refs(struct left *l, struct warren_error *err)
{
	AUTO_FREE char *text = NULL;
	struct left_packed ref;
	struct stat st;
	char *at;
	int r = left_read(l, "packed-refs", LEFT_TEXT_MAX, &text, err);

	at = text;
	r = r < 0 ? r : 0;
	while (r == 0 && at && left_packed_next(&at, &ref)) {
		bool is_head = l->head && strcmp(ref.name, l->head) == 0;

		if (left_is_mine(l, ref.name, ref.id))
			continue;
		if (!is_head && ++l->files > LEFT_FILES)
			r = left_unread(l, err);
		else if (beneath_stat(l->upper, ref.name, &st) < 0 ||
			 !S_ISREG(st.st_mode))
			r = left_reference(l, ref.name, ref.id, err);
	}
	return r;
}

static int left_head(struct left *l, struct warren_error *err)
{
	AUTO_FREE char *text = NULL;
	size_t n;
	int r = left_read(l, "HEAD", 4096, &text, err);

	if (r < 0)
		return r;
	if (r == 0)
		r = work_file_read_at(l->project, "HEAD", 4096, &text, &n);
	if (r < 0)
		return left_is_missing(r) ? 0 : left_failed("HEAD", r, err);
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

static int left_autostash(struct left *l, struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(left_autostashes); i++) {
		AUTO_FREE char *id = NULL;

		r = left_read(l, left_autostashes[i], 4096, &id, err);
		if (r <= 0)
			continue;
		id[strcspn(id, "\n")] = '\0';
		if (git_is_id(id) && (r = left_is_new(l, id, err)) > 0)
			r = left_add(l, id, err);
	}
	return r < 0 ? r : 0;
}

/* Warren cannot read this format, which also contains the reflog. */
static int left_reftable(struct left *l, struct warren_error *err)
{
	struct stat st;

	return beneath_stat(l->upper, "reftable", &st) == 0 ? left_unread(l, err) : 0;
}

/* refs/stash is only the last entry; the log has all that were not dropped. */
static int left_stash(struct left *l, struct warren_error *err)
{
	AUTO_FREE char *text = NULL, *mine = NULL;
	int r = left_read(l, "logs/refs/stash", LEFT_TEXT_MAX, &text, err);
	char *at = text, *line, id[65];
	size_t n;

	if (r <= 0)
		return r;
	(void)work_file_read_at(l->project, "logs/refs/stash", LEFT_TEXT_MAX, &mine, &n);
	r = 0;
	while (r == 0 && (line = strsep(&at, "\n"))) {
		const char *new = strchr(line, ' ');

		(void)snprintf(id, sizeof(id), "%.*s",
			       new ? (int)strcspn(new + 1, " ") : 0, new ? new + 1 : "");
		if (!git_is_id(id) || (mine && strstr(mine, id)))
			continue;
		if (++l->files > LEFT_FILES)
			return left_unread(l, err);
		r = left_is_new(l, id, err);
	}
	return r > 0 ? left_add(l, "refs/stash", err) : r;
}

/* ------------------------------------------------------------------- detached HEAD */

/* Find the lines of the reflog that the sandbox added. */
static const char *left_log_new(int project, const char *path, const char *text)
{
	AUTO_FREE char *mine = NULL;
	size_t n = 0, ignored;

	(void)work_file_read_at(project, path, LEFT_TEXT_MAX, &mine, &ignored);
	while (mine && text[n] && text[n] == mine[n])
		n++;
	while (n > 0 && text[n - 1] != '\n')
		n--;
	return text + n;
}

/* Get the next commit at which a detached HEAD was before a checkout. */
static bool left_log_next(const char **at, char id[65])
{
	while ((*at = strstr(*at, LEFT_LOG_TEXT)) != NULL) {
		*at += strlen(LEFT_LOG_TEXT);
		(void)snprintf(id, 65, "%.*s", (int)strcspn(*at, " \n"), *at);
		if (git_is_id(id))
			return true;
	}
	return false;
}

/* List the commits that the user's repository has, with or without a reference. */
static int left_log_known(struct left *l, char *const *ids, struct buf *out,
			  struct warren_error *err)
{
	AUTO_FREE const char **argv = calloc(strv_len(ids) + 4, sizeof(*argv));
	const struct git_command c = { .argv = argv, .slow = true, .in = -1, .out = -1 };
	size_t n = 0;

	if (!argv)
		return error_errno(err, ENOMEM, "read the sandbox's reflog");
	argv[n++] = "rev-list";
	argv[n++] = "--no-walk=unsorted";
	argv[n++] = "--ignore-missing";
	for (; *ids; ids++)
		argv[n++] = *ids;
	return git_run(l->w, &c, out, err);
}

static int left_log_ids(struct left *l, char *const *ids, struct warren_error *err)
{
	struct buf known AUTO_BUF = BUF_INIT(LEFT_TEXT_MAX);
	int r = left_log_known(l, ids, &known, err);

	if (r < 0 && r != -EPROTO)
		return r;
	buf_add(&known, "", 1);
	r = 0;
	for (; *ids && r == 0 && strv_len(l->ret->others) < LEFT_NAMED; ids++)
		if (!known.data || !strstr(known.data, *ids))
			r = left_add(l, *ids, err);
	return r;
}

bool work_commits_is_log(const char *path)
{
	static const char log[] = "/logs/HEAD";
	size_t n = strlen(path), size = sizeof(log) - 1;

	return strcmp(path, log + 1) == 0 ||
	       (n > size && strcmp(path + n - size, log) == 0);
}

/* Is it that of HEAD in the project, or in a linked worktree, and not in a submodule? */
static bool left_is_log(const char *path)
{
	const char *in = left_starts(path, "worktrees/") ? strchr(path + 10, '/') : NULL;

	return strcmp(in ? in + 1 : path, "logs/HEAD") == 0;
}

/* Of the reflog of a worktree; others are of no interest. */
static int left_log(struct left *l, const char *path, struct warren_error *err)
{
	AUTO_FREE char *text = NULL;
	char **ids = NULL, id[65];
	const char *at;
	size_t n = 0;
	int r = left_is_log(path) ? left_read(l, path, LEFT_TEXT_MAX, &text, err) : 0;

	if (r <= 0)
		return r;
	at = left_log_new(l->project, path, text);
	r = 0;
	while (r == 0 && n <= LEFT_LOG && left_log_next(&at, id)) {
		if (strv_has(ids, id))
			continue;
		r = strv_add(&ids, id);
		n++;
	}
	if (r < 0)
		r = error_errno(err, ENOMEM, "read the sandbox's reflog");
	else if (n > LEFT_LOG)
		r = left_unread(l, err);
	else if (n > 0)
		r = left_log_ids(l, ids, err);
	(void)strv_free(ids);
	return r;
}

bool work_commits_were_detached(struct work *w, const char *path)
{
	AUTO_CLOSE int root = changes_upper(w),
		       upper = root < 0 ? root : beneath_dir(root, ".git", O_PATH),
		       project = w->project_fd < 0
					 ? -1
					 : beneath_dir(w->project_fd, ".git", O_PATH);
	AUTO_FREE char *text = NULL;
	const char *at;
	char id[65];
	size_t n;
	int r = upper < 0 || project < 0
			? -ENOENT
			: work_file_read_at(upper, path, LEFT_TEXT_MAX, &text, &n);

	if (r < 0)
		return !left_is_missing(r);
	at = left_log_new(project, path, text);
	return left_log_next(&at, id);
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
		return upper >= 0 || left_is_missing(upper)
			       ? 0
			       : left_failed(".", upper, err);
	r = left_packed_read(&l, err);
	if (r == 0)
		r = left_head(&l, err);
	if (r == 0)
		r = left_dir(&l, "refs", 0, left_file, err);
	if (r == 0)
		r = left_dir(&l, "worktrees", 0, left_file, err);
	if (r == 0)
		r = left_dir(&l, "modules", 0, left_module_file, err);
	if (r == 0)
		r = left_dir(&l, "worktrees", 0, left_module_file, err);
	if (r == 0)
		r = left_autostash(&l, err);
	if (r == 0)
		r = left_packed_refs(&l, err);
	if (r == 0)
		r = left_stash(&l, err);
	if (r == 0)
		r = left_reftable(&l, err);
	/* If references have new commits, those of the reflog may be among them. */
	if (r == 0 && !found.any)
		r = left_log(&l, "logs/HEAD", err);
	if (r == 0 && !found.any)
		r = left_dir(&l, "worktrees", 0, left_log, err);
	free(l.head);
	free(l.packed);
	free(l.packed_text);
	if (r < 0)
		return r;
	*ret = found;
	found = (struct work_commits_left){ 0 };
	return 0;
}

/* Is the name safe in a command that the user copies? */
static bool left_is_plain(const char *name)
{
	return name[0] != '-' && strlen(name) <= 60 &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			    "0123456789._/-") == strlen(name);
}

/* Write the name of a reference. Returns the name that git uses, or NULL. */
static const char *left_name(const char *name, struct buf *out)
{
	const char *kind = left_starts(name, "refs/heads/")  ? "the branch"
			   : left_starts(name, "refs/tags/") ? "the tag"
							     : "the reference";

	if (strcmp(name, "refs/stash") == 0) {
		buf_puts(out, "the stash");
		return NULL;
	}
	if (left_submodule(name)) {
		buf_printf(out, "the submodule '%.60s'", left_submodule(name));
		return NULL;
	}
	if (strcmp(name, "refs/") == 0) {
		buf_puts(out, "references that Warren cannot read");
		return "BRANCH";
	}
	if (git_is_id(name)) {
		buf_printf(out, "%.12s", name);
		return name;
	}
	name += left_starts(name, "refs/heads/")  ? 11
		: left_starts(name, "refs/tags/") ? 10
						  : 0;
	buf_printf(out, "%s '%.60s'", kind, name);
	return name;
}

/* How to get them, if @first is what git calls the first one; NULL: it has no name. */
static void left_hint(const struct work_commits_left *l, const char *id,
		      const char *first, struct buf *out)
{
	size_t n = strv_len(l->others);
	bool ids = n > 0 && git_is_id(l->others[0]);

	if (n > 0 && left_submodule(l->others[0])) {
		buf_printf(
			out,
			" (which cannot be accepted; to get them, first write them to "
			"files with 'git format-patch' there: warren work --resume %s)",
			id);
		return;
	}
	buf_printf(out, " (to get %s, first run: warren work --resume %s -- git %s%.*s)",
		   n == 1 ? "it" : "one of them", id, first ? "checkout " : "stash pop",
		   ids ? 12 : 60,
		   !first                        ? ""
		   : ids || left_is_plain(first) ? first
						 : "BRANCH");
}

void work_commits_left_text(const struct work_commits_left *l, const char *id,
			    struct buf *out)
{
	const char *first = NULL, *name;
	size_t n = strv_len(l->others);

	buf_puts(out, n > 0 && git_is_id(l->others[0]) ? "no branch: " : "");
	for (size_t i = 0; i < n && i < 5; i++) {
		buf_puts(out, i > 0 ? ", " : "");
		name = left_name(l->others[i], out);
		first = first ? first : name;
	}
	if (n > 5)
		buf_printf(out, " and %zu more", n - 5);
	left_hint(l, id, first, out);
}
