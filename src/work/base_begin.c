/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base_begin.c - keep the contents that no commit has, before they are changed
 *
 * If the user and the sandbox both change a file, a merge needs what it was before. For
 * most files of a repository, the commit says that. Files that were changed or added
 * since it, and all files of a project without a repository, are copied to <work>/before.
 *
 * A child does that while the sandbox starts, so that the start takes no longer. It is
 * a race with the user, without a wrong result: a file that has changed since then
 * (by its ctime, before and after it was read) is not copied, and then its contents are
 * as unknown as without the copy. Hidden files are not copied: the sandbox cannot change
 * them.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "textdiff/text.h"
#include "work/base.h"
#include "work/changes_internal.h"
#include "work/files_internal.h"
#include "work/git_run.h"
#include "work/hide_internal.h"

#define BEFORE_FILE_MAX    ((size_t)4 << 20)  /* bytes of one file, */
#define BEFORE_BYTES_MAX   ((size_t)64 << 20) /* and of all */
#define BEFORE_FILES_MAX   4096
#define BEFORE_VISITS_MAX  50000 /* entries of directories, without a repository */
#define BEFORE_DEPTH_MAX   32
#define BEFORE_LIST_MAX    ((size_t)16 << 20) /* bytes of git's list */
#define BEFORE_SECONDS_MAX 60

struct before {
	struct work *w;
	int out, hide;
	size_t files, bytes, visits;
	char path[PATH_MAX];
};

/* ------------------------------------------------------------------------ files */

/* Read a file that has not changed since the work started. */
static int before_read(struct before *b, const char *path, char **ret, size_t *ret_n)
{
	const char *name;
	AUTO_CLOSE int dir = beneath_parent(b->w->project_fd, path, &name), fd = -1;
	struct stat st, after;
	int r;

	if (dir < 0)
		return dir;
	fd = beneath_file(dir, name, &st);
	if (fd < 0)
		return fd;
	if ((size_t)st.st_size > BEFORE_FILE_MAX ||
	    (size_t)st.st_size > BEFORE_BYTES_MAX - b->bytes)
		return -EFBIG;
	if (known_touched(b->w, path, &st))
		return -ESTALE;
	r = work_file_read(fd, BEFORE_FILE_MAX, ret, ret_n);
	if (r == 0 &&
	    (fstat(fd, &after) < 0 || stat_ctime_ns(&after) != stat_ctime_ns(&st)))
		r = -ESTALE;
	return r;
}

/* What cannot be copied is not known later: that is all. */
static void before_copy(struct before *b, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	AUTO_FREE char *data = NULL,
		       *parent = strndup(path, slash ? (size_t)(slash - path) : 0);
	AUTO_CLOSE int dir = -1;
	size_t n = 0;

	if (!parent || hide_layer_has(b->hide, path) ||
	    before_read(b, path, &data, &n) < 0 || text_is_binary(TEXT(data, n)))
		return;
	dir = beneath_make_dirs(b->out, parent, 0700);
	if (dir < 0 || work_file_replace(dir, name, n ? data : "", n, false) < 0)
		return;
	b->files++;
	b->bytes += n;
}

static bool before_is_full(const struct before *b)
{
	return b->files >= BEFORE_FILES_MAX || b->bytes >= BEFORE_BYTES_MAX;
}

/* ----------------------------------------------------------------------- git */

/* Copy the files that a command of git lists. */
static int before_list(struct before *b, const char *const *argv)
{
	struct buf out AUTO_BUF = BUF_INIT(BEFORE_LIST_MAX);
	struct warren_error ignored;
	const struct git_command c = { .argv = argv, .slow = true, .in = -1, .out = -1 };
	int r = git_run(b->w, &c, &out, &ignored);
	const char *end;

	/* A list that is too long is used as far as it goes. */
	if (r < 0 && r != -EFBIG)
		return r;
	for (const char *at = out.data; out.len > 0 && !before_is_full(b); at = end + 1) {
		end = memchr(at, '\0', (size_t)(out.data + out.len - at));
		if (!end)
			break;
		before_copy(b, at);
		if (end + 1 >= out.data + out.len)
			break;
	}
	return 0;
}

/*
 * What differs from the commit, by the times and sizes in the index, without reading
 * files or running filters; and what git does not know, except for ignored files.
 */
static int before_repository(struct before *b)
{
	const char *changed[] = { "diff-index",
				  "--name-only",
				  "-z",
				  "--no-renames",
				  "--no-ext-diff",
				  "--ignore-submodules=all",
				  b->w->since_head,
				  "--",
				  NULL };
	const char *const others[] = { "ls-files", "--others", "--exclude-standard", "-z",
				       NULL };
	int r = before_list(b, changed);

	return r < 0 ? r : before_list(b, others);
}

/* ---------------------------------------------------------------------- others */

/* Results and dependencies, of which there are many, and which users do not edit. */
static bool before_is_skipped(const char *name)
{
	static const char *const skipped[] = { ".git",         ".hg",   ".svn",
					       "node_modules", ".venv", "venv",
					       "target",       "build", "dist",
					       "vendor",       ".tox",  "__pycache__" };

	for (size_t i = 0; i < ARRAY_SIZE(skipped); i++)
		if (strcmp(name, skipped[i]) == 0)
			return true;
	return strncmp(name, ".warren-", 8) == 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as BEFORE_DEPTH_MAX */
static void before_walk(struct before *b, size_t length, unsigned depth)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int dir = beneath_dir(b->w->project_fd, b->path, O_RDONLY);
	const struct dir_entry *e;

	if (!reader || dir < 0 || depth > BEFORE_DEPTH_MAX)
		return;
	reader->fd = dir;
	while (!before_is_full(b) && b->visits < BEFORE_VISITS_MAX &&
	       dir_next(reader, &e) > 0) {
		size_t n = strlen(e->name), slash = length > 0;
		struct stat st;

		b->visits++;
		if (length + slash + n >= sizeof(b->path) || before_is_skipped(e->name) ||
		    fstatat(dir, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (slash)
			b->path[length] = '/';
		(void)memcpy(b->path + length + slash, e->name, n + 1);
		if (S_ISREG(st.st_mode))
			before_copy(b, b->path);
		else if (S_ISDIR(st.st_mode))
			before_walk(b, length + slash + n, depth + 1);
		b->path[length] = '\0';
	}
}

/* ----------------------------------------------------------------------- child */

/* Keeps nothing of the caller open: neither its terminal nor its lock. */
_Noreturn static void before_child(struct work *w, pid_t parent)
{
	static struct before b;
	const struct sched_param idle = { 0 };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), project, dir;

	/* In its own group, which is killed with git. */
	if (setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
	    getppid() != parent)
		_exit(1);
	project = fcntl(w->project_fd, F_DUPFD, 10);
	dir = fcntl(w->dir_fd, F_DUPFD, 10);
	if (project < 0 || dir < 0 || null < 0 || dup2(null, 0) < 0 ||
	    dup2(null, 1) < 0 || dup2(null, 2) < 0 || dup2(project, 3) < 0 ||
	    dup2(dir, 4) < 0)
		_exit(1);
	(void)close_range(5, ~0U, 0);
	(void)sched_setscheduler(0, SCHED_IDLE, &idle);
	(void)alarm(BEFORE_SECONDS_MAX);
	w->project_fd = 3;
	w->dir_fd = 4;
	w->lock_fd = -1;
	b.w = w;
	b.out = beneath_make_dirs(w->dir_fd, "before", 0700);
	b.hide = beneath_dir(w->dir_fd, "hide", O_PATH);
	if (b.out < 0 || b.hide < 0)
		_exit(1);
	/* Without git on this machine, the repository is an ordinary directory. */
	if (!w->since_head || before_repository(&b) < 0)
		before_walk(&b, 0, 0);
	_exit(0);
}

int base_begin(struct work *w, struct warren_error *err)
{
	pid_t parent = getpid(), pid;

	if (w->mode != WORK_OVERLAY)
		return 0;
	pid = fork();
	if (pid == 0)
		before_child(w, parent);
	if (pid < 0)
		return error_errno(err, errno, "keep the contents of changed files");
	/* The child does the same, in case it is not this fast. */
	(void)setpgid(pid, pid);
	w->before = pid;
	return 0;
}

void base_wait(struct work *w, bool end)
{
	if (w->before <= 0)
		return;
	if (end)
		(void)kill(-w->before, SIGKILL);
	while (waitpid(w->before, NULL, 0) < 0 && errno == EINTR)
		;
	w->before = 0;
}
