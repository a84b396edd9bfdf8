/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.h - read a project's directory, which is hostile
 *
 * Paths are below the project: links in them may lead to other files of the project, but
 * never out of it. Only regular files are read, and never more than a limit.
 */
#ifndef SETUP_TREE_H
#define SETUP_TREE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Open a regular file below @dir; -ENOENT: there is none. */
int setup_tree_open(int dir, const char *path);
/* Open a directory below @dir, without links. */
int setup_tree_dir(int dir, const char *path);
/* List the directory @fd, or pass on -errno that it is: 0, and closedir(3) closes @fd. */
int setup_tree_list(int fd, DIR **ret);
/*
 * Read a file of at most SETUP_TEXT_MAX bytes; *@ret_size may be NULL. -ENOENT: there is
 * none. The text ends with a NUL; the caller frees it.
 */
int setup_tree_read(int dir, const char *path, char **ret, size_t *ret_size,
		    struct warren_error *err) MUST_CHECK;
bool setup_tree_has(int dir, const char *path);
/* The real path on the host of a file below @dir; NULL: it is not below, or missing. */
char *setup_tree_real(int dir, const char *path) MUST_CHECK;
/* Return "dir/name", or "name" if @dir is empty; NULL: no memory. */
char *setup_tree_join(const char *dir, const char *name) MUST_CHECK;

enum setup_tree_limits {
	SETUP_TREE_DEPTH = 3,      /* directories below the project's */
	SETUP_TREE_DIRS = 2000,    /* that are searched */
	SETUP_TREE_NAMES = 200000, /* names that are read */
};

/* A directory, and the wanted names in it. */
struct setup_dir {
	char *path;   /* "": the project */
	char **names; /* sorted */
};

struct setup_scan {
	struct setup_dir *v; /* sorted; a directory is in front of those in it */
	size_t n, room;
	size_t n_names;
	bool truncated; /* the project exceeds a limit */
};

/* A file that makes the next scan of the same project faster. */
struct setup_scan_memory {
	const char *path;
	const char *rules; /* identifies @wanted */
};

/*
 * Look for files for which @wanted returns true. Hidden directories, directories of
 * dependencies and results (node_modules, target ...), and those that a .gitignore
 * excludes are skipped. Links are not followed. @memory may be NULL.
 */
int setup_scan(int project_fd, bool (*wanted)(const void *ctx, const char *name),
	       const void *ctx, const struct setup_scan_memory *memory,
	       struct setup_scan *ret, struct warren_error *err) MUST_CHECK;
void setup_scan_done(struct setup_scan *s);
bool setup_dir_has(const struct setup_dir *d, const char *name);

#endif /* SETUP_TREE_H */
