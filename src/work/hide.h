/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hide.h - keep files with secrets out of the sandbox
 *
 * The layer <work>/hide lies between the sandbox's changes and the project. It has a
 * whiteout for each hidden file, and copies of git's configuration files without
 * credentials. In mode WORK_COPY, hidden files are not copied, and the configuration is
 * changed in the copy.
 *
 * The layer also has copies of files that belong to others, but that the user may write
 * (hide_shared.c).
 *
 * Patterns are those of .gitignore: "*.pem" is a name anywhere, "/a/b" a path, "dir/" a
 * directory with all that is in it, and "!pattern" shows again what an earlier one hid.
 * Names are compared without regard to case. Patterns of the user follow the default ones
 * (hide_defaults()).
 *
 * Other names of a hidden file, wherever they are, are hidden as well (hide_links.c), but
 * not those of files in a directory that is hidden.
 *
 * Git's object store is not searched, because its contents cannot be hidden: a file with
 * secrets that was committed, staged or stashed stays visible in git. A directory that
 * the user cannot list or search is hidden as a whole, because root inside could read it.
 * Files that the user creates in the project while the sandbox runs are visible.
 */
#ifndef WORK_HIDE_H
#define WORK_HIDE_H

#include "work/work.h"

struct work_hidden {
	char **paths; /* files and directories that are hidden, relative, sorted */
	size_t n;
	char **cleaned; /* files of git that are shown without credentials */
	size_t n_cleaned;
	/*
	 * Directories with files that the user may write, but the sandbox cannot, because
	 * they belong to others and are too large, or too many, to be copied.
	 */
	char **shared;
	size_t n_shared;
	/*
	 * Directories of .paths that the user cannot list or search: their
	 * contents are unknown.
	 */
	char **closed;
	size_t n_closed;
	char **indexed; /* hidden files that git's index has; not sorted */
	size_t n_indexed;
	char **links; /* links that may lead to directories with secrets, by their names
		       */
	size_t n_links;
	/* Directories of the project that have, or are, a repository; "": the project. */
	char **repositories;
	size_t n_repositories;
};

/* The default patterns, NULL-terminated, to print and document. */
const char *const *hide_defaults(void);
/*
 * Is the directory at the absolute @path one that would be hidden in a project, or in
 * one? As a project, its files have no names that would be recognised.
 */
bool hide_is_secret_dir(const char *path);

/*
 * Make the layer `hide` of a new work; in mode WORK_COPY, also the copy. @patterns is
 * NULL-terminated, or NULL. -EINVAL: a pattern is invalid.
 */
int work_hide(struct work *w, const char *const *patterns, struct work_hidden *ret,
	      struct warren_error *err) MUST_CHECK;
void work_hidden_done(struct work_hidden *h);
/*
 * Get the list of repositories that work_hide() found; NULL: none. *@ret_more: there may
 * be more of them, in directories that it could not search. 0 or -errno.
 */
int hide_repositories_read(const struct work *w, char ***ret, bool *ret_more) MUST_CHECK;

#define AUTO_HIDDEN CLEANUP(work_hidden_done)

#endif /* WORK_HIDE_H */
