/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_named_places.c - the repositories whose configuration counts, and links in them
 *
 * Git executes hooks, and reads its configuration, through links: .git/hooks/pre-commit
 * may be a link to a script of the project. So what a link anywhere in git's directory
 * leads to is named. The same directory has the repositories of submodules and of linked
 * worktrees, which have configurations and tops of their own.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/strv.h"
#include "work/files_internal.h"
#include "work/git_config.h"
#include "work/git_keys.h"
#include "work/git_named_internal.h"

#define PLACES_MAX       2048    /* repositories, and directories that links lead to */
#define PLACES_DEPTH_MAX 32      /* of directories in a repository, and links to others */
#define PLACES_LINKS_MAX 65536   /* entries of a directory with hooks */
#define PLACES_WALK_MAX  2000000 /* entries of all repositories */
#define PLACES_MANY      "there are more than %d repositories"

struct places_walk {
	struct named_search *s;
	size_t left;    /* entries */
	unsigned depth; /* that is still allowed */
	bool git;
};

static void places_repository(struct named_search *s, const char *dir, const char *top);

/* NOLINTBEGIN(misc-no-recursion): as deep as PLACES_DEPTH_MAX */

/* ------------------------------------------------------------------------ links */

static void places_walk(const struct places_walk *above, const char *dir);

static bool places_has(char *const *list, const char *path)
{
	for (; list && *list; list++)
		if (strcmp(*list, path) == 0)
			return true;
	return false;
}

/* Of directories with programs, only links to programs are missed. */
static void places_too_much(const struct places_walk *w, const char *path)
{
	w->s->out->unclear = true;
	if (w->git)
		named_too_much(w->s, "'%.150s' has too many files or links",
			       named_in_project(w->s, path));
}

static void places_link(const struct places_walk *w, const char *path)
{
	struct places_walk below = *w;
	AUTO_FREE char *real = NULL;
	struct stat st;

	named_add(w->s, "/", path);
	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return;
	real = realpath(path, NULL);
	if (!real || places_has(w->s->linked, real) || places_has(w->s->out->read, real))
		return;
	if (++w->s->n_linked > PLACES_MAX) {
		places_too_much(w, path);
		return;
	}
	if (strv_add(&w->s->linked, real) < 0)
		w->s->failed = true;
	below.left = w->s->walked + PLACES_LINKS_MAX;
	if (below.left > w->left)
		below.left = w->left;
	places_walk(&below, real);
}

/* Files with objects are many, and git checks what is in them. */
static bool places_is_objects(const struct places_walk *w, const char *dir)
{
	const char *slash = strrchr(dir, '/');

	return w->git && slash && strcmp(slash, "/objects") == 0;
}

/* Could git use the directory as a repository, or as the part of a worktree? */
static bool places_is_repository(const char *dir)
{
	static const char *const others[] = { "config", "commondir" };
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/HEAD", dir) >= PATH_MAX ||
	    faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (snprintf(path, sizeof(path), "%s/%s", dir, others[i]) < PATH_MAX &&
		    faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	return false;
}

static void places_entry(const struct places_walk *w, const char *dir,
			 const struct dir_entry *e)
{
	char path[PATH_MAX];
	bool objects = places_is_objects(w, dir);

	if (snprintf(path, sizeof(path), "%s/%s", dir, e->name) >= PATH_MAX)
		return;
	if (e->type == DT_LNK)
		places_link(w, path);
	else if (e->type == DT_DIR && w->git && !objects && places_is_repository(path))
		places_repository(w->s, path, path);
	else if (e->type == DT_DIR && (!objects || strcmp(e->name, "info") == 0))
		places_walk(w, path);
}

static void places_walk(const struct places_walk *above, const char *dir)
{
	AUTO_FREE struct dir_reader *reader = NULL;
	AUTO_CLOSE int fd = -1;
	struct places_walk w = *above;
	const struct dir_entry *e;

	if (w.depth == 0 || w.s->walked >= w.left) {
		if (w.git || w.depth > 0)
			places_too_much(&w, dir);
		return;
	}
	w.depth--;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	reader = calloc(1, sizeof(*reader));
	w.s->failed |= !reader;
	if (fd < 0 || !reader)
		return;
	reader->fd = fd;
	while (w.s->walked < w.left && dir_next(reader, &e) > 0) {
		w.s->walked++;
		places_entry(&w, dir, e);
	}
	if (w.s->walked >= w.left)
		places_too_much(&w, dir);
}

void named_links(struct named_search *s, const char *dir)
{
	const struct places_walk w = { s, s->walked + PLACES_LINKS_MAX, 4, false };

	places_walk(&w, dir);
}

/*
 * Note what links in a directory of PATH lead to: programs. Only the directory itself is
 * read, because such directories are large, and the shell does not search below them.
 */
static void places_programs(struct named_search *s, const char *dir)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct dir_entry *e;
	char path[PATH_MAX], target[PATH_MAX];
	size_t left = PLACES_LINKS_MAX;

	s->failed |= !reader;
	if (fd < 0 || !reader)
		return;
	reader->fd = fd;
	for (; left > 0 && dir_next(reader, &e) > 0; left--) {
		ssize_t n = e->type == DT_LNK
				    ? readlinkat(fd, e->name, target, sizeof(target))
				    : -1;

		/* A link to a program in the same directory leads to another entry. */
		if (n > 0 && memchr(target, '/', (size_t)n) &&
		    named_join(s, dir, e->name, path))
			named_add(s, "/", path);
	}
	s->out->unclear |= left == 0;
}

void named_path(struct named_search *s, bool relative)
{
	const char *path = getenv("PATH");
	AUTO_FREE char *all = strdup(path ? path : "");
	AUTO_STRV char **read = NULL;
	char *next = all, *dir;

	s->failed |= !all;
	while ((dir = strsep(&next, ":"))) {
		AUTO_FREE char *real = NULL;

		if (relative != (dir[0] != '/'))
			continue;
		/* An empty element is the directory in which git runs. */
		named_path_entry(s, dir[0] ? dir : ".");
		real = relative ? NULL : realpath(dir, NULL);
		if (!real || places_has(read, real))
			continue;
		places_programs(s, real);
		if (strv_add(&read, real) < 0)
			s->failed = true;
	}
}

/* ------------------------------------------------------------------ repositories */

/* Get the path in a file of one line, such as "gitdir: ../x"; false: there is none. */
static bool places_read(struct named_search *s, const char *dir, const char *name,
			const char *prefix, char ret[PATH_MAX])
{
	char path[PATH_MAX], line[PATH_MAX];
	const struct named_file *f;
	size_t n = strlen(prefix);

	f = named_join(s, dir, name, path) ? named_slurp(s, path) : NULL;
	if (!f || strncmp(f->text, prefix, n) != 0)
		return false;
	(void)snprintf(line, sizeof(line), "%s", f->text + n);
	line[strcspn(line, "\n")] = '\0';
	return line[0] && named_join(s, dir, line, ret);
}

struct places_worktree {
	struct named_search *s;
	const char *dir;
	char top[PATH_MAX]; /* "": not set */
};

static void places_entry_worktree(void *arg, struct git_config_entry *e)
{
	struct places_worktree *w = arg;

	if (git_key_of(e->section, e->key) == GIT_KEY_WORKTREE && e->value[0] &&
	    !named_join(w->s, w->dir, e->value, w->top))
		w->top[0] = '\0';
}

/* Where core.worktree, and "gitdir" of a linked worktree, say that commands run. */
static void places_find_top(struct places_worktree *w, const char *common)
{
	static const char *const names[] = { "config", "config.worktree" };
	char path[PATH_MAX], *slash;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct named_file *f = NULL;

		if (named_join(w->s, i == 0 ? common : w->dir, names[i], path))
			f = named_slurp(w->s, path);
		if (f && git_config_parse(f->text, f->n, places_entry_worktree, w) < 0)
			w->s->failed = true;
	}
	if (w->top[0] || !places_read(w->s, w->dir, "gitdir", "", w->top))
		return;
	slash = strrchr(w->top, '/');
	if (slash)
		*slash = '\0';
}

/*
 * Note that commands of the repository @dir run in @top. False: it was noted before. One
 * repository may have several tops: files ".git" in any directory may name it, and it may
 * also have been found as a directory that is a repository.
 */
static bool places_is_new_top(struct named_search *s, const char *dir, const char *top)
{
	AUTO_FREE char *real = realpath(dir, NULL), *pair = NULL;

	if (asprintf(&pair, "%s\n%s", real ? real : dir, top) < 0) {
		s->failed = true;
		return false;
	}
	if (places_has(s->out->tops, pair))
		return false;
	if (strv_len(s->out->tops) >= PLACES_MAX) {
		named_too_much(s, PLACES_MANY, PLACES_MAX);
		return false;
	}
	if (strv_add(&s->out->tops, pair) < 0)
		s->failed = true;
	return true;
}

/* Read the configuration of a repository whose commands run in @top. */
static void places_evaluate(struct named_search *s, const char *dir, const char *common,
			    const char *top)
{
	AUTO_FREE char *real = realpath(top, NULL);
	char path[PATH_MAX];

	if (!places_is_new_top(s, dir, real ? real : top))
		return;
	(void)snprintf(s->top, sizeof(s->top), "%s", real ? real : top);
	s->top_real = real != NULL;
	named_secrets_next(s);
	for (size_t i = 0; i < ARRAY_SIZE(s->homes); i++) {
		if (i > 0 && !s->homes[i])
			continue;
		s->home = s->homes[i];
		s->evaluated = 0;
		named_environment(s);
		if (named_join(s, dir, "config.worktree", path))
			named_config(s, path);
		if (named_join(s, common, "config", path))
			named_config(s, path);
	}
	s->home = s->homes[0];
}

/* Note that git's directory was read; false: it was before. */
static bool places_is_new(struct named_search *s, const char *dir)
{
	AUTO_FREE char *real = realpath(dir, NULL);
	size_t n = strv_len(s->out->read);

	if (real && places_has(s->out->read, real))
		return false;
	if (n >= PLACES_MAX)
		named_too_much(s, PLACES_MANY, PLACES_MAX);
	if (!real || n >= PLACES_MAX)
		return false;
	if (strv_add(&s->out->read, real) < 0)
		s->failed = true;
	return true;
}

/* Read the repository @dir, whose commands run in @top. Its files are read once. */
static void places_repository(struct named_search *s, const char *dir, const char *top)
{
	AUTO_FREE struct places_worktree *w = calloc(1, sizeof(*w));
	struct places_walk walk = { s, PLACES_WALK_MAX, PLACES_DEPTH_MAX, true };
	char common[PATH_MAX];
	bool new;

	if (!w) {
		s->failed = true;
		return;
	}
	new = places_is_new(s, dir);
	named_add(s, "/", dir);
	if (places_read(s, dir, "commondir", "", common)) {
		named_add(s, "/", common);
		if (places_is_new(s, common))
			places_walk(&walk, common);
	} else {
		(void)snprintf(common, sizeof(common), "%s", dir);
	}
	w->s = s;
	w->dir = dir;
	places_find_top(w, common);
	places_evaluate(s, dir, common, top);
	if (w->top[0])
		places_evaluate(s, dir, common, w->top);
	if (new)
		places_walk(&walk, dir);
}

void named_repository_at(struct named_search *s, const char *top)
{
	char dir[PATH_MAX], other[PATH_MAX];
	struct stat st;

	if (!named_join(s, top, ".git", dir))
		return;
	if (stat(dir, &st) < 0) {
		if (places_is_repository(top))
			places_repository(s, top, top);
		return;
	}
	if (S_ISDIR(st.st_mode))
		places_repository(s, dir, top);
	else if (places_read(s, top, ".git", "gitdir: ", other))
		places_repository(s, other, top);
}

void named_repositories_above(struct named_search *s)
{
	const char *dir = getenv("GIT_DIR"), *tree = getenv("GIT_WORK_TREE");
	char top[PATH_MAX], path[PATH_MAX];

	(void)snprintf(top, sizeof(top), "%s", s->project);
	for (;;) {
		char *slash = strrchr(top, '/');

		named_repository_at(s, top);
		if (!slash || slash == top)
			break;
		*slash = '\0';
	}
	if (dir && named_join(s, s->project, dir, path) &&
	    named_join(s, s->project, tree ? tree : ".", top))
		places_repository(s, path, top);
	/* The configuration of the user counts without a repository, too. */
	if (!s->out->read)
		places_evaluate(s, "/nonexistent", "/nonexistent", s->project);
}

/* NOLINTEND(misc-no-recursion) */
