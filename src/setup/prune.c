/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prune.c - keep of a setup's changes to the project only what belongs to the tools
 *
 * A layer lies over the project as it is at the next start, and the agent reads it as a
 * part of the project. So a script of a dependency must not use it to write instructions
 * for the agent, or code that the user mistakes for the project's, and a changed file
 * must not hide the user's later changes. It keeps new files that the project's
 * .gitignore files ignore, and new files in directories of dependencies and results.
 * These directories stay whole if .gitignore excludes them, or if only tools write to
 * them. Everything else is removed, and named to the user.
 *
 * The files are hostile: links are not followed, and the depth is limited.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/strv.h"
#include "os/tree_remove.h"
#include "setup/ignored.h"
#include "setup/store.h"
#include "setup/tree.h"

#define PRUNE_DEPTH_MAX   64
#define PRUNE_DROPPED_MAX 1000
#define PRUNE_OPAQUE      "user.overlay.opaque"

/* Directories of dependencies and results. Only tools write to the first ones. */
static const char *const prune_tools[] = { "node_modules", ".venv",       ".gradle",
					   ".bundle",      "__pycache__", ".tox",
					   "*.egg-info",   ".pnpm-store" };
static const char *const prune_results[] = { "venv", "target", "build", "vendor",
					     "deps", "_build", ".yarn", "dist" };
/* What is known about the current directory. */
struct prune {
	int upper, lower;
	const char *path;
	unsigned depth;
	bool results;      /* a directory of results is above, or it is one itself */
	bool excluded;     /* .gitignore excludes a directory above, so all in it */
	bool instructions; /* a directory above has one of those names */
	struct setup_ignored *ignored;
	struct setup_pruned *found;
};

static bool prune_has(const char *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (fnmatch(list[i], name, 0) == 0)
			return true;
	return false;
}

#define PRUNE_HAS(list, name) prune_has(list, ARRAY_SIZE(list), name)

bool setup_is_of_tools(const char *name)
{
	return PRUNE_HAS(prune_tools, name);
}

static bool prune_is_ignored(const struct prune *p, const char *path, bool is_dir)
{
	return p->excluded || setup_ignored_has(p->ignored, path, is_dir);
}

static int prune_dir(const struct prune *p);

static int setup_prune_open(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

static int prune_drop(const struct prune *p, const char *name, const char *path,
		      char ***list)
{
	int r = tree_remove(p->upper, p->upper, name);

	if (r < 0 || strv_len((union strv){ .list = *list }) >= PRUNE_DROPPED_MAX)
		return r;
	return strv_add(list, path);
}

/* Look into a directory; @lower -1: the project does not have it. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as PRUNE_DEPTH_MAX */
static int prune_descend(const struct prune *p, const char *name, const char *path,
			 const struct stat *original, int lower)
{
	AUTO_CLOSE int up = setup_prune_open(p->upper, name);
	struct prune below = *p;
	int r;

	if (up < 0)
		return up;
	below.upper = up;
	below.lower = lower;
	below.path = path;
	below.depth++;
	below.results |= PRUNE_HAS(prune_results, name);
	below.excluded |= prune_is_ignored(p, path, true);
	below.instructions |= setup_is_instruction(name);
	if (original) {
		(void)fremovexattr(up, PRUNE_OPAQUE);
		/* The layer's mode would be that of the project's directory. */
		if (fchmod(up, original->st_mode & 07777) < 0)
			return -errno;
	}
	r = prune_dir(&below);
	if (r == 0)
		(void)unlinkat(p->upper, name, AT_REMOVEDIR); /* if it is empty */
	return r;
}

/* It hides a file of the layer below, but not one that the project gets later. */
static int prune_whiteout(const struct prune *p, const char *name, const char *path)
{
	return PRUNE_HAS(prune_tools, name) || PRUNE_HAS(prune_results, name) ||
			       prune_is_ignored(p, path, false) ||
			       prune_is_ignored(p, path, true)
		       ? 0
		       : tree_remove(p->upper, p->upper, name);
}

/* An entry that the project does not have. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as PRUNE_DEPTH_MAX */
static int prune_new(const struct prune *p, const char *name, const char *path,
		     const struct stat *st)
{
	bool is_dir = S_ISDIR(st->st_mode);

	if (p->results)
		return 0;
	if (S_ISCHR(st->st_mode) && st->st_rdev == 0)
		return prune_whiteout(p, name, path);
	if (p->instructions || setup_is_instruction(name))
		return prune_drop(p, name, path, &p->found->added);
	if (is_dir && (PRUNE_HAS(prune_tools, name) || PRUNE_HAS(prune_results, name)))
		return 0;
	if (is_dir)
		return prune_descend(p, name, path, NULL, -1);
	return prune_is_ignored(p, path, false)
		       ? 0
		       : prune_drop(p, name, path, &p->found->added);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as PRUNE_DEPTH_MAX */
static int prune_entry(const struct prune *p, const char *name)
{
	AUTO_FREE char *path = setup_tree_join(p->path, name);
	AUTO_CLOSE int low = -1;
	struct stat changed, original;
	bool tools = PRUNE_HAS(prune_tools, name);

	if (!path)
		return -ENOMEM;
	if (fstatat(p->upper, name, &changed, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (p->lower < 0 || fstatat(p->lower, name, &original, AT_SYMLINK_NOFOLLOW) < 0) {
		if (p->lower >= 0 && errno != ENOENT)
			return -errno;
		return prune_new(p, name, path, &changed);
	}
	/* Directories that hold nothing of the project. */
	if (S_ISDIR(original.st_mode) &&
	    (tools || ((p->results || PRUNE_HAS(prune_results, name)) &&
		       prune_is_ignored(p, path, true))))
		return 0;
	if (!S_ISDIR(changed.st_mode) || !S_ISDIR(original.st_mode))
		return p->results && prune_is_ignored(p, path, false)
			       ? 0
			       : prune_drop(p, name, path, &p->found->changed);
	low = setup_prune_open(p->lower, name);
	return low < 0 ? low : prune_descend(p, name, path, &original, low);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as PRUNE_DEPTH_MAX */
static int prune_dir(const struct prune *p)
{
	const struct dirent *e;
	DIR *d;
	int r = setup_tree_list(setup_prune_open(p->upper, "."), &d);

	if (r < 0)
		return r;
	if (p->depth > PRUNE_DEPTH_MAX)
		r = -ELOOP;
	else
		r = setup_ignored_enter(p->ignored, p->lower,
					p->path[0] ? strlen(p->path) + 1 : 0);
	if (r < 0) {
		(void)closedir(d);
		return r;
	}
	while (r == 0 && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = prune_entry(p, e->d_name);
	setup_ignored_leave(p->ignored);
	(void)closedir(d);
	return r;
}

void setup_pruned_done(struct setup_pruned *p)
{
	p->changed = strv_free(p->changed);
	p->added = strv_free(p->added);
}

int setup_prune(int upper, int project, struct setup_pruned *ret,
		struct warren_error *err)
{
	struct setup_ignored AUTO_SETUP_IGNORED *ignored = setup_ignored_new(project);
	struct setup_pruned found = { 0 };
	struct prune p = { .upper = upper,
			   .lower = project,
			   .path = "",
			   .ignored = ignored,
			   .found = &found };
	struct stat st;
	int r = ignored ? 0 : -ENOMEM;

	if (r == 0 && (fstat(project, &st) < 0 || fchmod(upper, st.st_mode & 07777) < 0))
		r = -errno;
	if (r == 0)
		r = prune_dir(&p);
	if (r < 0) {
		setup_pruned_done(&found);
		return error_errno(err, -r, "inspect the changes of the setup");
	}
	*ret = found;
	return 0;
}
