/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hide_search.c - find the files of a project that are hidden
 *
 * Every directory must be searched, so this takes most of the time until the sandbox
 * starts. Most names are dismissed by their first and last characters: only a few of them
 * begin or end like one of the patterns. These names, and those of directories, are
 * remembered (base/dir_cache.h), so that a directory that has not changed is not read
 * again. Whether a name is hidden is decided each time.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dir_cache.h"
#include "base/gitignore.h"
#include "os/mount.h"
#include "work/files_internal.h"
#include "work/git_config.h"
#include "work/hide_internal.h"

#define HIDE_DEPTH_MAX 400
#define HIDE_WORK_MAX  ((uint64_t)1 << 33) /* half a minute */
#define HIDE_HEAD      "HEAD"              /* the file that every repository has */
#define HIDE_LOG_MAX   HIDE_CLEAN_MAX
#define HIDE_READ_MAX  ((size_t)4 << 20) /* a file of all certificates is smaller */

struct hide_search {
	int project;
	struct gitignore defaults, asked;
	/* What matching .asked may still cost: the project can ask, too. */
	uint64_t work;
	struct dir_cache cache;
	struct hide_names names;
	struct work_hidden *found;
	struct stat own;          /* has the ids that the sandbox has for the project */
	char above[NAME_MAX + 1]; /* the name of the project's directory */
	char path[PATH_MAX];
	size_t length, depth;
	unsigned packages; /* number of directories node_modules above the path */
};

int hide_add(char ***list, size_t *n, const char *path)
{
	char *copy = strdup(path), **more;

	if (!copy)
		return -ENOMEM;
	if ((*n & (*n - 1)) == 0) { /* a power of two: double */
		more = reallocarray(*list, *n ? *n * 2 : 1, sizeof(*more));
		if (!more) {
			free(copy);
			return -ENOMEM;
		}
		*list = more;
	}
	(*list)[(*n)++] = copy;
	return 0;
}

static bool hide_may_match(const struct hide_search *s, const char *name)
{
	return hide_names_may_match(&s->names, name);
}

/* Open the directory at the current path, which the user may list and search. */
static int hide_open(const struct hide_search *s)
{
	AUTO_CLOSE int fd = mount_openat2(s->project, s->length ? s->path : ".",
					  O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
					  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);

	if (fd < 0)
		return fd;
	return faccessat(fd, ".", X_OK, 0) < 0 ? -errno : TAKE_FD(fd);
}

/*
 * The directory at the path could not be opened. If it belongs to the user, only its mode
 * denies access, which does not stop root inside: hide it with everything in it. So too
 * if it belongs to others and can be searched: the sandbox may know names of files. All
 * other directories are closed to the sandbox, too.
 */
static int hide_closed(struct hide_search *s, int why)
{
	struct stat st;
	int r;

	if (why == -EMFILE || why == -ENFILE || why == -ENOMEM || s->length == 0)
		return why;
	if (fstatat(s->project, s->path, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISDIR(st.st_mode) ||
	    (st.st_uid != s->own.st_uid && faccessat(s->project, s->path, X_OK, 0) < 0))
		return 0;
	r = hide_add(&s->found->closed, &s->found->n_closed, s->path);
	return r < 0 ? r : hide_add(&s->found->paths, &s->found->n, s->path);
}

/* Append a name to the path. hide_leave() restores it. */
static int hide_enter(struct hide_search *s, const char *name)
{
	size_t n = strlen(name), slash = s->length > 0;

	if (s->length + slash + n >= sizeof(s->path))
		return -ENAMETOOLONG;
	if (slash)
		s->path[s->length] = '/';
	(void)memcpy(s->path + s->length + slash, name, n + 1);
	s->length += slash + n;
	return 0;
}

static void hide_leave(struct hide_search *s, size_t length)
{
	s->length = length;
	s->path[length] = '\0';
}

/* A file that cannot be read may have one. */
static bool hide_contains(const struct hide_search *s, unsigned what)
{
	AUTO_FREE char *text = NULL;
	const char *name = NULL;
	struct stat st;
	size_t n;
	AUTO_CLOSE int dir = beneath_parent(s->project, s->path, &name);
	AUTO_CLOSE int fd = dir < 0 ? -1 : beneath_file(dir, name, &st);

	return fd < 0 || work_file_read(fd, HIDE_READ_MAX, &text, &n) < 0 ||
	       hide_has_secret(text, n, what);
}

/* In the project ~/.config, "gcloud" is ".config/gcloud". */
static bool hide_by_above(const struct hide_search *s, bool is_dir)
{
	char path[2 * PATH_MAX];

	if (!s->above[0])
		return false;
	(void)snprintf(path, sizeof(path), "%s/%s", s->above, s->path);
	return gitignore_match(&s->defaults, path, is_dir, NULL) == 1;
}

static bool hide_by_default(const struct hide_search *s, const char *name, bool is_dir)
{
	unsigned what;

	if (gitignore_match(&s->defaults, s->path, is_dir, NULL) != 1 &&
	    !hide_by_above(s, is_dir))
		return false;
	what = is_dir ? 0 : hide_contents_of(name);
	return what == 0 || hide_contains(s, what);
}

static bool hide_matches(struct hide_search *s, const char *name, bool is_dir)
{
	int asked = gitignore_match(&s->asked, s->path, is_dir, &s->work);

	return asked >= 0 ? asked > 0 : hide_by_default(s, name, is_dir);
}

static int hide_dir(struct hide_search *s);

/* Could the file be a configuration, which another one includes, with any name? */
static bool hide_is_config(const struct hide_search *s)
{
	AUTO_FREE char *text = NULL;
	const char *name = NULL;
	char first[4] = "";
	struct stat st;
	size_t n;
	AUTO_CLOSE int dir = beneath_parent(s->project, s->path, &name);
	AUTO_CLOSE int fd = dir < 0 ? -1 : beneath_file(dir, name, &st);

	/* An index and other data are not read. */
	return fd >= 0 && pread(fd, first, sizeof(first), 0) > 0 && first[0] &&
	       (isspace((unsigned char)first[0]) || strchr("#;[\xef", first[0])) &&
	       work_file_read(fd, HIDE_READ_MAX, &text, &n) == 0 &&
	       git_config_is(text, n);
}

/*
 * A file of git's directory: credentials are hidden, and what has URLs is shown without
 * their passwords: the configuration, and copies that editors and tools have made of it.
 */
static int hide_git_file(struct hide_search *s, const char *name, bool urls)
{
	if (hide_may_match(s, name) && hide_matches(s, name, false))
		return hide_add(&s->found->paths, &s->found->n, s->path);
	if (strcasestr(name, "credential") &&
	    gitignore_match(&s->asked, s->path, false, &s->work) != 0)
		return hide_add(&s->found->paths, &s->found->n, s->path);
	if (urls || strncmp(name, "config", 6) == 0 || strcmp(name, "FETCH_HEAD") == 0 ||
	    hide_is_config(s))
		return hide_add(&s->found->cleaned, &s->found->n_cleaned, s->path);
	return 0;
}

/* The files in the directory at the path; @urls: all of them have URLs. */
static int hide_git_files(struct hide_search *s, bool urls)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int fd = hide_open(s);
	const struct dir_entry *e;
	const size_t length = s->length;
	struct stat st;
	int r = 0;

	if (!reader)
		return -ENOMEM;
	if (fd < 0)
		return hide_closed(s, fd);
	reader->fd = fd;
	while (r >= 0 && (r = dir_next(reader, &e)) > 0) {
		if (e->type != DT_REG ||
		    fstatat(fd, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		r = hide_enter(s, e->name);
		if (r < 0)
			break;
		r = hide_git_file(s, e->name, urls);
		hide_leave(s, length);
	}
	return r < 0 ? r : 0;
}

/* git's directory: the configuration is of interest. */
static int hide_git(struct hide_search *s)
{
	static const char *const old[] = { "remotes", "branches" };
	const size_t length = s->length;
	int r = hide_git_files(s, false);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(old); i++) {
		if (hide_enter(s, old[i]) < 0)
			continue;
		r = hide_git_files(s, true);
		hide_leave(s, length);
	}
	return r;
}

/*
 * A file of the reflog, which has the name of a branch. Old versions of git, and 'git
 * pull URL', write URLs with passwords to it.
 */
static int hide_git_log(struct hide_search *s)
{
	AUTO_FREE char *text = NULL;
	size_t n;
	int r = work_file_read_at(s->project, s->path, HIDE_LOG_MAX, &text, &n);

	if (r == -EFBIG || gitignore_match(&s->asked, s->path, false, &s->work) == 1)
		return hide_add(&s->found->paths, &s->found->n, s->path);
	if (r == -ENOMEM)
		return r;
	/* What cannot be read is not visible inside either. */
	return r == 0 && memmem(text, n, "://", 3)
		       ? hide_add(&s->found->cleaned, &s->found->n_cleaned, s->path)
		       : 0;
}

/* Call a function for each entry of the current directory, which is then the current
 * path. */
static int hide_each(struct hide_search *s,
		     int (*entry)(struct hide_search *s, const struct dir_entry *e))
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int dir = hide_open(s);
	const struct dir_entry *e;
	const size_t length = s->length;
	int r = 0;

	if (!reader)
		return -ENOMEM;
	if (dir < 0)
		return hide_closed(s, dir);
	if (s->depth >= HIDE_DEPTH_MAX)
		return -ELOOP;
	reader->fd = dir;
	s->depth++;
	while (r >= 0 && (r = dir_next(reader, &e)) > 0) {
		r = hide_enter(s, e->name);
		if (r < 0)
			break;
		r = entry(s, e);
		hide_leave(s, length);
	}
	s->depth--;
	return r;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as HIDE_DEPTH_MAX */
static int hide_git_logs(struct hide_search *s, const struct dir_entry *e)
{
	if (e->type == DT_DIR)
		return hide_each(s, hide_git_logs);
	return e->type == DT_REG ? hide_git_log(s) : 0;
}

/* Is it a git directory? A submodule may have the name of one of git's directories. */
static bool hide_is_git(struct hide_search *s)
{
	const size_t length = s->length;
	bool is = false;

	if (hide_enter(s, "objects") == 0) {
		is = faccessat(s->project, s->path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
		hide_leave(s, length);
	}
	return is;
}

/*
 * Is it a directory of git that is hidden as a whole? A pattern that is only a name, such
 * as "logs", does not apply to git's directories, because git needs them.
 */
static bool hide_is_secret_of_git(struct hide_search *s, const char *name)
{
	static const char annex[] = "annex/creds"; /* git-annex keeps passwords there */
	const size_t n = strlen(annex);
	int asked = gitignore_match(&s->asked, s->path, true, &s->work);

	if (asked == 0)
		return false;
	if (asked == 1 && gitignore_match(&s->asked, name, true, &s->work) != 1)
		return true;
	return gitignore_match(&s->defaults, s->path, true, NULL) == 1 ||
	       (s->length > n && s->path[s->length - n - 1] == '/' &&
		strcmp(s->path + s->length - n, annex) == 0);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as HIDE_DEPTH_MAX */
static int hide_git_below(struct hide_search *s, const struct dir_entry *e)
{
	bool logs = strcmp(e->name, "logs") == 0;
	int r;

	if (e->type != DT_DIR)
		return 0;
	if (hide_is_secret_of_git(s, e->name))
		return hide_add(&s->found->paths, &s->found->n, s->path);
	if ((!logs && strcmp(e->name, "objects") != 0 && strcmp(e->name, "refs") != 0) ||
	    hide_is_git(s)) {
		r = hide_git(s);
		return r < 0 ? r : hide_each(s, hide_git_below);
	}
	return logs ? hide_each(s, hide_git_logs) : 0;
}

/* Other users of a repository have created directories in it. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as HIDE_DEPTH_MAX */
static int hide_git_shared(struct hide_search *s)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int dir = hide_open(s);
	const struct dir_entry *e;
	const size_t length = s->length;
	struct stat st;
	int r = 0;

	if (!reader)
		return -ENOMEM;
	if (dir < 0 || s->depth >= HIDE_DEPTH_MAX || fstat(dir, &st) < 0)
		return 0;
	if (hide_is_shared(&st, &s->own))
		r = hide_add(&s->found->shared, &s->found->n_shared, s->path);
	reader->fd = dir;
	s->depth++;
	while (r >= 0 && (r = dir_next(reader, &e)) > 0) {
		if (e->type != DT_DIR || hide_enter(s, e->name) < 0)
			continue;
		r = hide_git_shared(s);
		hide_leave(s, length);
	}
	s->depth--;
	return r;
}

static int hide_repository(struct hide_search *s)
{
	struct stat st;
	int r = hide_git(s);

	if (r == 0 && fstatat(s->project, s->path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode) && hide_is_shared(&st, &s->own))
		r = hide_git_shared(s);
	/* Submodules, worktrees, and files that the configuration includes. */
	return r < 0 ? r : hide_each(s, hide_git_below);
}

/* The directory of the current path has, or is, a repository. */
static int hide_note_repository(struct hide_search *s, size_t length)
{
	char kept = s->path[length];
	int r;

	s->path[length] = '\0';
	r = hide_add(&s->found->repositories, &s->found->n_repositories, s->path);
	s->path[length] = kept;
	return r;
}

/*
 * A repository whose directory has another name: a bare one, for example. HEAD is one of
 * the names that are remembered, so most directories need no system call.
 */
static bool hide_is_repository(struct hide_search *s, struct dir_names files)
{
	static const char *const names[] = { "objects", "refs", "commondir" };
	const size_t length = s->length;
	bool has[ARRAY_SIZE(names)] = { false }, head = false;
	const char *name = NULL;

	FOR_EACH_DIR_NAME(files, name)
	head |= strcmp(name, HIDE_HEAD) == 0;
	for (size_t i = 0; i < ARRAY_SIZE(names) && head; i++)
		if (hide_enter(s, names[i]) == 0) {
			has[i] = faccessat(s->project, s->path, F_OK,
					   AT_SYMLINK_NOFOLLOW) == 0;
			hide_leave(s, length);
		}
	return head && ((has[0] && has[1]) || has[2]);
}

/* The path is that of an entry. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as HIDE_DEPTH_MAX */
static int hide_entry(struct hide_search *s, const char *name, bool is_dir)
{
	const size_t n = strlen(name) + 1;
	unsigned packages;
	struct stat st;
	int r;

	if (hide_may_match(s, name) && hide_matches(s, name, is_dir))
		return hide_add(&s->found->paths, &s->found->n, s->path);
	if (!is_dir && hide_names_may_be_dir(&s->names, name) &&
	    fstatat(s->project, s->path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISLNK(st.st_mode))
		return hide_add(&s->found->links, &s->found->n_links, s->path);
	if (strcmp(name, ".git") == 0) {
		r = hide_note_repository(s, s->length < n ? 0 : s->length - n);
		if (r < 0)
			return r;
	}
	if (!is_dir)
		return 0;
	if (strcmp(name, ".git") == 0)
		return hide_repository(s);
	if (s->depth >= HIDE_DEPTH_MAX)
		return -ELOOP;
	packages = strcmp(name, "node_modules") == 0;
	s->packages += packages;
	s->depth++;
	r = hide_dir(s);
	s->depth--;
	s->packages -= packages;
	return r;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as HIDE_DEPTH_MAX */
static int hide_entries(struct hide_search *s, struct dir_names names, bool are_dirs)
{
	const size_t length = s->length;
	const char *name = NULL;

	FOR_EACH_DIR_NAME(names, name)
	{
		int r = hide_enter(s, name);

		r = r < 0 ? r : hide_entry(s, name, are_dirs);
		if (r < 0)
			return r;
		hide_leave(s, length);
	}
	return 0;
}

/* Read a directory: its directories, and its files that may match. */
static int hide_read(struct hide_search *s, int fd, struct buf *files, size_t *ret_files,
		     struct buf *dirs, size_t *ret_dirs)
{
	AUTO_FREE struct dir_reader *reader = malloc(sizeof(*reader));
	const struct dir_entry *e;
	int r;

	if (!reader)
		return -ENOMEM;
	reader->fd = fd;
	reader->n = reader->at = 0;
	while ((r = dir_next(reader, &e)) > 0) {
		bool is_dir = e->type == DT_DIR;

		if (!is_dir && !hide_may_match(s, e->name) &&
		    strcmp(e->name, HIDE_HEAD) != 0)
			continue;
		buf_add(is_dir ? dirs : files, e->name, strlen(e->name) + 1);
		++*(is_dir ? ret_dirs : ret_files);
	}
	return r < 0 ? r : files->failed || dirs->failed ? -ENOMEM : 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as HIDE_DEPTH_MAX */
static int hide_list(struct hide_search *s, struct dir_names files, struct dir_names dirs,
		     const struct stat *st)
{
	int r = !s->packages && hide_is_shared(st, &s->own)
			? hide_add(&s->found->shared, &s->found->n_shared, s->path)
			: 0;

	if (r == 0 && s->length && hide_is_repository(s, files)) {
		r = hide_note_repository(s, s->length);
		r = r < 0 ? r : hide_repository(s);
	}
	if (r == 0)
		r = hide_entries(s, files, false);
	return r < 0 ? r : hide_entries(s, dirs, true);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as HIDE_DEPTH_MAX */
static int hide_new_dir(struct hide_search *s)
{
	AUTO_BUF struct buf files = BUF_INIT(SIZE_MAX), dirs = BUF_INIT(SIZE_MAX);
	size_t n_files = 0, n_dirs = 0;
	struct stat st;
	int fd = hide_open(s), r;

	if (fd < 0)
		return hide_closed(s, fd);
	s->cache.changed = true;
	/* First the times: if the directory changes now, it is read again next time. */
	r = fstat(fd, &st) < 0 ? -errno
			       : hide_read(s, fd, &files, &n_files, &dirs, &n_dirs);
	(void)close(fd);
	if (r < 0)
		return r;
	dir_cache_add(&s->cache, s->path, &st, (struct dir_names){ files.data, n_files },
		      (struct dir_names){ dirs.data, n_dirs });
	return hide_list(s, (struct dir_names){ files.data, n_files },
			 (struct dir_names){ dirs.data, n_dirs }, &st);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as HIDE_DEPTH_MAX */
static int hide_dir(struct hide_search *s)
{
	const struct dir_known *known = NULL;
	struct dir_names files, dirs;
	struct stat st;

	if (s->cache.n > 0 &&
	    fstatat(s->project, s->length ? s->path : ".", &st, AT_SYMLINK_NOFOLLOW) == 0)
		known = dir_cache_find(&s->cache, s->path, &st);
	if (!known)
		return hide_new_dir(s);
	dir_cache_keep(&s->cache, known);
	files = known->files;
	dirs = known->dirs;
	return hide_list(s, files, dirs, &st);
}

int hide_parse(struct gitignore *g, const char *const *patterns)
{
	int r = 0;

	g->any_case = true;
	for (; r == 0 && patterns && *patterns; patterns++)
		r = gitignore_parse(g, *patterns, strlen(*patterns));
	return r;
}

/* All patterns decide which names are remembered. */
static void hide_rules(const char *const *patterns, struct buf *rules)
{
	buf_puts(rules, HIDE_HEAD "\n");
	for (const char *const *p = hide_defaults(); *p; p++)
		buf_printf(rules, "%s\n", *p);
	for (; patterns && *patterns; patterns++)
		buf_printf(rules, "%s\n", *patterns);
}

static int hide_walk(struct hide_search *s, int memory, const char *name,
		     const char *rules, bool *ret_remembered)
{
	int r;

	dir_cache_load(&s->cache, memory, dir_cache_trusts(s->project) ? name : NULL,
		       rules);
	r = hide_dir(s);
	*ret_remembered = r == 0 && dir_cache_save(&s->cache, memory);
	dir_cache_done(&s->cache);
	return r;
}

static void hide_find_above(struct hide_search *s)
{
	char link[64], path[PATH_MAX];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", s->project);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	if (strrchr(path, '/'))
		(void)snprintf(s->above, sizeof(s->above), "%s", strrchr(path, '/') + 1);
}

/* Only the first directory: the whole path would fill the message. */
static void hide_say_deep(const struct hide_search *s, int why, struct warren_error *err)
{
	size_t first = strcspn(s->path, "/");

	(void)error_set(err, -why,
			"'%.*s%s/...' contains directories that are too deep to be "
			"searched for files to hide: a path may have %d bytes and %d "
			"directories; move them, or hide all: --hide '/%.*s/'",
			(int)(first > 60 ? 60 : first), s->path, first > 60 ? "..." : "",
			PATH_MAX - 1, HIDE_DEPTH_MAX, (int)first, s->path);
}

int hide_search(int project, const char *const *patterns, int memory, const char *name,
		struct work_hidden *h, bool *ret_remembered, struct warren_error *err)
{
	AUTO_FREE struct hide_search *s = calloc(1, sizeof(*s));
	AUTO_BUF struct buf rules = BUF_INIT(SIZE_MAX);
	int r;

	for (const char *const *p = patterns; p && *p; p++)
		if (!**p || strchr(*p, '\n') || (*p)[0] == '#')
			return error_set(err, EINVAL,
					 "'%s' is not a pattern of files to hide", *p);
	hide_rules(patterns, &rules);
	if (!s || rules.failed)
		return error_errno(err, ENOMEM, "search for files to hide");
	s->project = project;
	s->found = h;
	s->work = HIDE_WORK_MAX;
	if (fstat(project, &s->own) < 0)
		return error_errno(err, errno, "inspect the project");
	if (geteuid() != 0) {
		s->own.st_uid = geteuid();
		s->own.st_gid = getegid();
	}
	hide_find_above(s);
	r = hide_parse(&s->defaults, hide_defaults());
	r = r < 0 ? r : hide_parse(&s->asked, patterns);
	hide_names_note(&s->names, &s->defaults);
	hide_names_note(&s->names, &s->asked);
	r = r < 0 ? r : hide_walk(s, memory, name, rules.data, ret_remembered);
	if (r == 0 && s->work == 0)
		r = -E2BIG;
	if (r == -E2BIG && s->work == 0)
		(void)error_set(err, E2BIG,
				"the patterns of files to hide take too long to match: "
				"remove some of warren.yaml or --hide");
	else if (r == -ENAMETOOLONG || r == -ELOOP)
		hide_say_deep(s, r, err);
	else if (r < 0)
		(void)error_errno(err, -r, "search for files to hide in '%.100s'",
				  s->length ? s->path : ".");
	gitignore_done(&s->defaults);
	gitignore_done(&s->asked);
	return r;
}

bool hide_is_secret_dir(const char *path)
{
	AUTO_FREE char *copy = strdup(path[0] == '/' ? path + 1 : path);
	struct gitignore dirs = { .any_case = true };
	bool found = false;

	for (const char *const *p = hide_defaults(); copy && !found && *p; p++) {
		const char *from = *p + (strncmp(*p, "**/", 3) == 0 ? 3 : 0);
		const char *slash = strrchr(from, '/');
		size_t n = slash ? (size_t)(slash - from) : 0, all = strlen(path);

		/* ".aws/": all in it. ".docker/config.json": what is next to it, too. */
		if (slash && !slash[1] && gitignore_parse(&dirs, *p, strlen(*p)) < 0)
			found = true;
		else if (slash && slash[1])
			found = all > n && path[all - n - 1] == '/' &&
				strncasecmp(path + all - n, from, n) == 0;
	}
	/* A pattern with a slash in it means one directory, so try from each. */
	for (char *at = copy; at && !found; at = strchr(at, '/')) {
		at += *at == '/';
		for (char *end = at; !found && end && *end; end = strchr(end + 1, '/')) {
			char *stop = strchrnul(end + 1, '/'), kept = *stop;

			*stop = '\0';
			found = gitignore_match(&dirs, at, true, NULL) == 1;
			*stop = kept;
		}
	}
	gitignore_done(&dirs);
	return found || !copy;
}
