/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commits.c - accept commits of the sandbox
 *
 * <work>/git is a new repository, with objects that are copied from the sandbox's
 * changes, and the objects of the user's repository as alternates. There, `git
 * pack-objects` writes the new objects to a pipe, and `git index-pack --strict` in the
 * user's repository reads them from it: it computes the id of each object, and checks its
 * form and what it refers to. Only then does the branch change.
 */
#include "work/commits.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/hex.h"
#include "os/tree_remove.h"
#include "work/changes_internal.h"
#include "work/commits_internal.h"
#include "work/files_internal.h"
#include "work/git_confine.h"
#include "work/git_errors.h"
#include "work/git_run.h"
#include "work/work_internal.h"

#define COMMITS_OBJECT_MAX ((size_t)2 << 30)
#define COMMITS_BYTES_MAX  ((uint64_t)8 << 30) /* of all objects together */
#define COMMITS_FILES_MAX  ((size_t)2 << 20)
#define COMMITS_TEXT_MAX   ((size_t)16 << 20)

struct commits {
	struct work *w;
	unsigned flags;
	int upper; /* .git of the sandbox's changes */
	size_t files;
	uint64_t bytes;
	struct work_commits result;
};

void work_commits_done(struct work_commits *c)
{
	free(c->branch);
	free(c->from);
	*c = (struct work_commits){ 0 };
}

/* ------------------------------------------------------ the sandbox's references */

static void commits_trim(char *text)
{
	text[strcspn(text, "\n")] = '\0';
}

/* Read a file of the sandbox's repository: changed, removed, or the user's. */
static int commits_read(const struct commits *c, const char *path, char **ret,
			size_t *ret_n)
{
	AUTO_CLOSE int lower = -1;
	struct stat st;
	int r = beneath_stat(c->upper, path, &st);

	if (r == 0)
		return stat_is_whiteout(&st)
			       ? -ENOENT
			       : work_file_read_at(c->upper, path, COMMITS_TEXT_MAX, ret,
						   ret_n);
	lower = beneath_dir(c->w->project_fd, ".git", O_PATH);
	return lower < 0 ? lower
			 : work_file_read_at(lower, path, COMMITS_TEXT_MAX, ret, ret_n);
}

/* Find a branch of the sandbox in packed-refs. */
static int commits_packed(const struct commits *c, const char *name, char commit[65])
{
	AUTO_FREE char *text = NULL;
	char *save = NULL;
	size_t n;
	int r = commits_read(c, "packed-refs", &text, &n);

	for (char *line = r == 0 ? strtok_r(text, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *space = strchr(line, ' ');

		if (!space || strcmp(space + 1, name) != 0)
			continue;
		*space = '\0';
		if (!git_is_id(line))
			return -EBADMSG;
		(void)strcpy(commit, line);
		return 0;
	}
	return r < 0 ? r : -ENOENT;
}

/* Only such names are safe as paths, and for messages. */
static bool commits_ref_valid(const char *name)
{
	if (strncmp(name, "refs/heads/", 11) != 0 || strlen(name) > 255 ||
	    strstr(name, "..") || strstr(name, "//") || name[strlen(name) - 1] == '/')
		return false;
	for (; *name; name++)
		if ((unsigned char)*name <= ' ' || strchr("~^:?*[\\\x7f", *name))
			return false;
	return true;
}

static int commits_head(struct commits *c, struct warren_error *err)
{
	AUTO_FREE char *head = NULL, *text = NULL;
	size_t n;
	int r = commits_read(c, "HEAD", &head, &n);

	if (r < 0)
		return error_set(err, ENOENT,
				 "the project has no git repository, so there are no "
				 "commits to accept");
	commits_trim(head);
	if (git_is_id(head)) {
		(void)strcpy(c->result.commit, head);
		return 0;
	}
	if (strncmp(head, "ref: ", 5) != 0 || !commits_ref_valid(head + 5))
		return error_set(err, EBADMSG, "the HEAD of the sandbox is damaged");
	c->result.from = strdup(head + 16);
	if (!c->result.from)
		return error_errno(err, ENOMEM, "read the sandbox's commits");
	r = commits_read(c, head + 5, &text, &n);
	if (r == 0) {
		commits_trim(text);
		if (!git_is_id(text))
			return error_set(err, EBADMSG,
					 "the branch '%s' of the sandbox is "
					 "damaged",
					 c->result.from);
		(void)strcpy(c->result.commit, text);
		return 0;
	}
	if (commits_packed(c, head + 5, c->result.commit) < 0)
		return error_set(err, ENOENT,
				 "the branch '%s' of the sandbox has no commit",
				 c->result.from);
	return 0;
}

/* ------------------------------------------------------------- the sandbox's objects */

static int commits_copy(struct commits *c, int from, int to, const char *name)
{
	struct stat st;
	AUTO_CLOSE int in = beneath_file(from, name, &st), out = -1;

	if (in < 0)
		return in == -EMEDIUMTYPE || in == -ENOENT ? 0 : in;
	c->bytes += (uint64_t)st.st_size;
	if ((uint64_t)st.st_size > COMMITS_OBJECT_MAX || c->bytes > COMMITS_BYTES_MAX ||
	    ++c->files > COMMITS_FILES_MAX)
		return -EFBIG;
	out = openat(to, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		     0600);
	if (out < 0)
		return -errno;
	for (off_t left = st.st_size; left > 0;) {
		char room[65536];
		ssize_t n = read(in, room, sizeof(room));
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		r = fd_write_all(out, room, (size_t)n);
		if (r < 0)
			return r;
		left -= n;
	}
	return 0;
}

/* Names of objects are their ids; of packs, "pack-<id>.pack". */
static bool commits_is_object(const char *name)
{
	size_t n = strlen(name);

	return (n == 38 || n == 62) && hex_is(name, n);
}

static bool commits_is_pack(const char *name)
{
	size_t n = strlen(name);

	return strncmp(name, "pack-", 5) == 0 && n > 10 &&
	       strcmp(name + n - 5, ".pack") == 0 &&
	       strspn(name + 5, "0123456789abcdef") == n - 10;
}

static int commits_copy_dir(struct commits *c, int objects, int to, const char *name,
			    bool (*is)(const char *name))
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int from = beneath_dir(objects, name, O_RDONLY), below = -1;
	const struct dir_entry *e;
	int r;

	if (!reader)
		return -ENOMEM;
	if (from < 0)
		return from == -EACCES ? from : 0;
	below = beneath_make_dirs(to, name, 0700);
	if (below < 0)
		return below;
	reader->fd = from;
	while ((r = dir_next(reader, &e)) > 0) {
		r = is(e->name) ? commits_copy(c, from, below, e->name) : 0;
		if (r < 0)
			break;
	}
	return r;
}

static int commits_copy_objects(struct commits *c, int git)
{
	AUTO_CLOSE int objects = beneath_dir(c->upper, "objects", O_RDONLY),
		       to = beneath_dir(git, "objects", O_PATH);
	int r = objects == -ENOENT ? 0 : objects < 0 ? objects : to < 0 ? to : 0;

	for (unsigned i = 0; objects >= 0 && r == 0 && i < 256; i++) {
		char name[3];

		(void)snprintf(name, sizeof(name), "%02x", i);
		r = commits_copy_dir(c, objects, to, name, commits_is_object);
	}
	return r < 0 || objects < 0
		       ? r
		       : commits_copy_dir(c, objects, to, "pack", commits_is_pack);
}

/* A repository that has only objects; git needs these files to recognise it. */
static int commits_make_repository(struct commits *c, struct warren_error *err)
{
	AUTO_FREE char *alternates = NULL;
	AUTO_CLOSE int git = -1, info = -1;
	const bool sha256 = strlen(c->result.commit) == 64;
	const char *config =
		sha256 ? "[core]\n\trepositoryformatversion = 1\n\tbare = true\n"
			 "[extensions]\n\tobjectFormat = sha256\n"
		       : "[core]\n\trepositoryformatversion = 0\n\tbare = true\n";
	int r = tree_remove(c->w->dir_fd, c->w->dir_fd, "git");

	/* As root, git sees it there (git_confine.c). */
	if (geteuid() == 0
		    ? !(alternates = strdup("../" GIT_CONFINE_PROJECT "\n"))
		    : asprintf(&alternates, "%s/.git/objects\n", c->w->project) < 0)
		return error_errno(err, ENOMEM, "copy the sandbox's commits");
	if (strchr(c->w->project, '\n') || c->w->project[0] == '"')
		return error_set(err, EINVAL,
				 "commits cannot be accepted into a project with such a "
				 "path: '%s'",
				 c->w->project);
	git = r < 0 ? r : beneath_make_dirs(c->w->dir_fd, "git", 0700);
	if (git >= 0)
		info = beneath_make_dirs(git, "objects/info", 0700);
	if (git < 0 || info < 0 || mkdirat(git, "refs", 0700) < 0 ||
	    mkdirat(git, GIT_CONFINE_PROJECT, 0700) < 0)
		return error_errno(err,
				   git < 0    ? -git
				   : info < 0 ? -info
					      : errno,
				   "create '%s/git'", c->w->dir);
	r = work_file_replace(git, "HEAD", "ref: refs/heads/x\n", 18, false);
	r = r < 0 ? r : work_file_replace(git, "config", config, strlen(config), false);
	r = r < 0 ? r
		  : work_file_replace(info, "alternates", alternates, strlen(alternates),
				      false);
	r = r < 0 ? r : commits_copy_objects(c, git);
	return r < 0 ? error_errno(err, -r, "copy the sandbox's commits") : 0;
}

/* git must index the sandbox's packs itself. */
static int commits_index_packs(struct commits *c, struct warren_error *err)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int dir = beneath_dir(c->w->dir_fd, "git/objects/pack", O_RDONLY);
	const struct dir_entry *e;
	int r = 0;

	if (!reader || dir < 0)
		return reader ? 0 : error_errno(err, ENOMEM, "read the sandbox's packs");
	reader->fd = dir;
	while (r >= 0 && (r = dir_next(reader, &e)) > 0) {
		struct buf out AUTO_BUF = BUF_INIT(COMMITS_TEXT_MAX);
		AUTO_FREE char *path = NULL;
		const char *argv[] = { "index-pack", NULL, NULL };

		if (!commits_is_pack(e->name))
			continue;
		if (asprintf(&path, "objects/pack/%s", e->name) < 0)
			return error_errno(err, ENOMEM, "read the sandbox's packs");
		argv[1] = path;
		r = git_run(c->w,
			    &(struct git_command){ .argv = argv,
						   .own = true,
						   .writes = "objects",
						   .hostile = true,
						   .in = -1,
						   .out = -1 },
			    &out, err);
	}
	return r < 0 ? r : 0;
}

/* -------------------------------------------------------------------- transfer */

/* "<commit>" without everything that the user's repository has. */
static struct git_command commits_sender(int revisions, int out, int errors)
{
	static const char *const argv[] = { "pack-objects",        "--revs", "--stdout",
					    "--delta-base-offset", "-q",     NULL };

	return (struct git_command){ .argv = argv,
				     .own = true,
				     .hostile = true,
				     .in = revisions,
				     .out = out,
				     .errors = errors };
}

/* A pipe with the revisions that are wanted, and those that are not. */
static int commits_revisions(struct commits *c, const char *have)
{
	struct buf b AUTO_BUF = BUF_INIT(COMMITS_TEXT_MAX);
	int fd = memfd_create("revisions", MFD_CLOEXEC);

	buf_printf(&b, "%s\n", c->result.commit);
	if (have[0])
		buf_printf(&b, "^%s\n", have);
	if (fd >= 0 && (b.failed || fd_write_all(fd, b.data, b.len) < 0 ||
			lseek(fd, 0, SEEK_SET) < 0)) {
		(void)close(fd);
		return -EIO;
	}
	return fd < 0 ? -errno : fd;
}

/*
 * If one of the two git processes fails, so does the other one: report the error that is
 * the cause. @r and @err are those of the receiver.
 */
static int commits_failed(const struct git_command *sender, int status, int r,
			  struct warren_error *err)
{
	struct warren_error cause = *err;

	if (r < 0 && r != -EPROTO)
		return r;
	if (r == 0 || (status != 0 && status != 128 + SIGPIPE && status != 128 + SIGKILL))
		r = git_failed(sender, status, sender->errors, &cause);
	if (r == -EPROTO)
		return error_set(err, EBADMSG,
				 "the commits of the sandbox are damaged or incomplete, "
				 "so they were not accepted: %s",
				 cause.msg);
	*err = cause;
	return r;
}

static int commits_transfer(struct commits *c, struct warren_error *err)
{
	static const char *const argv[] = { "index-pack", "--stdin", "--strict",
					    "--fix-thin", NULL };
	struct buf out AUTO_BUF = BUF_INIT(COMMITS_TEXT_MAX);
	AUTO_CLOSE int revisions = commits_revisions(c, c->w->head ? c->w->head : "");
	AUTO_CLOSE int errors = git_errors_open();
	char incoming[INCOMING_MAX];
	struct git_command send;
	int ends[2], sender, r, status;

	if (revisions < 0 || errors < 0)
		return error_errno(err, revisions < 0 ? -revisions : -errors,
				   "send the sandbox's commits");
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "create a pipe");
	commits_incoming_path(c->w, incoming);
	send = commits_sender(revisions, ends[1], errors);
	sender = git_start(c->w, &send, err);
	(void)close(ends[1]);
	r = sender < 0 ? sender
		       : git_run(c->w,
				 &(struct git_command){ .argv = argv,
							.writes = incoming,
							.incoming = true,
							.hostile = true,
							.sender = sender,
							.in = ends[0],
							.out = -1 },
				 &out, err);
	(void)close(ends[0]);
	if (sender < 0)
		return sender;
	/* The sender may wait for something, too. */
	if (r < 0)
		(void)kill(sender, SIGKILL);
	status = git_wait(sender);
	return r < 0 || status != 0 ? commits_failed(&send, status, r, err) : 0;
}

static int commits_receive(struct commits *c, struct warren_error *err)
{
	int r = commits_incoming_make(c->w, err);

	r = r < 0 ? r : commits_transfer(c, err);
	r = r < 0 ? r : commits_incoming_take(c->w, err);
	commits_incoming_remove(c->w);
	return r;
}

/* Read the user's repository with git, whose output is a line or empty. */
static int commits_git(struct commits *c, const char *const *argv, char **ret,
		       struct warren_error *err)
{
	struct buf out AUTO_BUF = BUF_INIT(COMMITS_TEXT_MAX);
	int r = git_run(
		c->w,
		&(struct git_command){ .argv = argv, .slow = true, .in = -1, .out = -1 },
		&out, err);

	if (r < 0 || !ret)
		return r;
	*ret = strndup(out.data ? out.data : "", out.len);
	if (!*ret)
		return error_errno(err, ENOMEM, "run git");
	commits_trim(*ret);
	return 0;
}

/* -------------------------------------------------------------------- the branch */

/* A worktree whose branch moves would show all of its files as changed. */
static int commits_check_worktrees(struct commits *c, const char *ref,
				   struct warren_error *err)
{
	static const char *const list[] = { "worktree", "list", "--porcelain", NULL };
	struct buf out AUTO_BUF = BUF_INIT(COMMITS_TEXT_MAX);
	const struct git_command command = {
		.argv = list, .slow = true, .in = -1, .out = -1
	};
	char *save = NULL;
	int r = git_run(c->w, &command, &out, err);

	if (r < 0)
		return r;
	buf_add(&out, "", 1);
	if (out.failed)
		return error_errno(err, ENOMEM, "list the worktrees");
	for (char *line = strtok_r(out.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		if (strncmp(line, "branch ", 7) == 0 && strcmp(line + 7, ref) == 0)
			return error_set(err, EBUSY,
					 "the branch '%s' is checked out: check out "
					 "another one first",
					 c->result.branch);
	return 0;
}

/* Would the branch lose commits? */
static int commits_check_branch(struct commits *c, const char *ref, char **ret_old,
				struct warren_error *err)
{
	const char *const show[] = { "rev-parse", "-q", "--verify", ref, NULL };
	const char *ancestor[] = { "merge-base", "--is-ancestor", NULL, c->result.commit,
				   NULL };
	struct warren_error why = WARREN_ERROR_INIT;
	int r = commits_git(c, show, ret_old, &why);

	if (r == -EPROTO) { /* there is no such branch */
		*ret_old = NULL;
		return 0;
	}
	ancestor[2] = *ret_old;
	if (r == 0 && !(c->flags & COMMITS_FORCE))
		r = commits_git(c, ancestor, NULL, &why);
	if (r == -EPROTO)
		return error_set(err, EEXIST,
				 "the branch '%s' has commits that would be lost: rename "
				 "or delete it, or use --force",
				 c->result.branch);
	if (r < 0)
		*err = why;
	return r;
}

/* Count the new commits: not those that the branch had. @old: its last one, or NULL. */
static int commits_count(struct commits *c, const char *old, struct warren_error *err)
{
	AUTO_FREE char *text = NULL;
	const char *argv[] = { "rev-list", "--count", c->result.commit, "--not", NULL,
			       NULL,       NULL };
	size_t n = 4;
	int r;

	if (c->w->head)
		argv[n++] = c->w->head;
	if (old)
		argv[n] = old;
	r = commits_git(c, argv, &text, err);
	if (r == 0)
		c->result.n = strtoul(text, NULL, 10);
	return r;
}

static int commits_update(struct commits *c, struct warren_error *err)
{
	AUTO_FREE char *ref = NULL, *old = NULL, *type = NULL;
	const char *const kind[] = { "cat-file", "-t", c->result.commit, NULL };
	const char *argv[] = { "update-ref", "--no-deref",
			       "-m",         "warren: accept commits",
			       NULL,         c->result.commit,
			       NULL,         NULL };
	struct buf out AUTO_BUF = BUF_INIT(COMMITS_TEXT_MAX);
	int r;

	if (asprintf(&ref, "refs/heads/%s", c->result.branch) < 0)
		return error_errno(err, ENOMEM, "update a branch");
	r = commits_git(c, kind, &type, err);
	if (r < 0 && r != -EPROTO) /* git could not even look */
		return r;
	if (r < 0 || strcmp(type, "commit") != 0)
		return error_set(err, EBADMSG, "the HEAD of the sandbox is not a commit");
	r = commits_check_worktrees(c, ref, err);
	if (r == 0)
		r = commits_check_files(c->w, c->result.commit, c->flags, err);
	if (r == 0)
		r = commits_check_branch(c, ref, &old, err);
	if (r < 0)
		return r;
	argv[4] = ref;
	argv[6] = old ? old : "";
	if (!old)
		argv[6] =
			strlen(c->result.commit) == 64
				? "0000000000000000000000000000000000000000000000000000000000000000"
				: "0000000000000000000000000000000000000000";
	r = git_run(
		c->w,
		&(struct git_command){
			.argv = argv, .writes = ".", .slow = true, .in = -1, .out = -1 },
		&out, err);
	if (r == -EPROTO)
		r = commits_find_lock(c->w, c->result.branch, err);
	return r < 0 ? error_wrap(err, "update the branch '%s'", c->result.branch)
		     : commits_count(c, old, err);
}

/* --------------------------------------------------------------------------- all */

static int commits_begin(struct commits *c, struct warren_error *err)
{
	AUTO_CLOSE int upper = -1, git = -1;
	int r = work_project(c->w, err);

	if (r < 0)
		return r;
	if (c->w->mode == WORK_BIND)
		return error_set(err, EINVAL,
				 "the sandbox of work '%s' committed to the "
				 "project itself (--mode bind)",
				 c->w->id);
	git = beneath_dir(c->w->project_fd, ".git", O_PATH);
	if (git == -ENOTDIR)
		return error_set(
			err, EOPNOTSUPP,
			"the project is a worktree or a submodule, whose commits "
			"cannot be accepted: accept the files");
	upper = changes_upper(c->w);
	c->upper = upper < 0 ? upper : beneath_dir(upper, ".git", O_RDONLY);
	if (git < 0 || c->upper < 0)
		return error_set(err, ENOENT,
				 git < 0 && c->upper >= 0
					 ? "the project has no git repository, but the "
					   "sandbox made one: accept it with --allow git"
				 : git < 0 ? "the project has no git repository"
					   : "the sandbox made no commits");
	return commits_head(c, err);
}

/* Does the user's branch have the same commit, or did it when the work began? */
static bool commits_are_old(const struct commits *c)
{
	AUTO_CLOSE int git = beneath_dir(c->w->project_fd, ".git", O_PATH);
	AUTO_FREE char *mine = NULL;
	char name[300];

	if (c->w->head && strcmp(c->w->head, c->result.commit) == 0)
		return true;
	(void)snprintf(name, sizeof(name), "refs/heads/%s",
		       c->result.from ? c->result.from : "");
	return git >= 0 && c->result.from && git_ref(git, name, &mine) == 0 &&
	       strcmp(mine, c->result.commit) == 0;
}

/* No new commits are checked out: report whether other references have some. */
static int commits_none(struct commits *c, struct warren_error *err)
{
	AUTO_COMMITS_LEFT struct work_commits_left left = { 0 };
	struct buf text AUTO_BUF = BUF_INIT(1 << 14);
	int r = work_commits_left(c->w, &left, err);

	if (r < 0)
		return r;
	if (!left.others)
		return error_set(err, ENOENT,
				 "the sandbox made no commits that the project does not "
				 "have");
	work_commits_left_text(&left, c->w->name ? c->w->name : c->w->id, &text);
	return error_set(err, ENOENT,
			 "no new commits are checked out in the sandbox, but there are "
			 "some in %s",
			 text.data ? text.data : "other branches");
}

int work_commits_accept(struct work *w, unsigned flags, struct work_commits *ret,
			struct warren_error *err)
{
	struct commits c = { .w = w, .flags = flags, .upper = -1 };
	int r = commits_begin(&c, err);

	if (r == 0 && commits_are_old(&c))
		r = commits_none(&c, err);
	if (r == 0 &&
	    asprintf(&c.result.branch, "warren/%s", w->name ? w->name : w->id) < 0)
		r = error_errno(err, ENOMEM, "accept commits");
	r = r < 0 ? r : commits_check_links(w, c.result.branch, err);
	r = r < 0 ? r : commits_make_repository(&c, err);
	r = r < 0 ? r : commits_index_packs(&c, err);
	r = r < 0 ? r : commits_receive(&c, err);
	r = r < 0 ? r : commits_update(&c, err);
	close_p(&c.upper);
	(void)tree_remove(w->dir_fd, w->dir_fd, "git");
	if (r < 0) {
		work_commits_done(&c.result);
		return r;
	}
	*ret = c.result;
	return 0;
}
