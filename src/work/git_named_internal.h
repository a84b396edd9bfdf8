/* SPDX-License-Identifier: Apache-2.0 */
/* git_named_internal.h - the search for files that git's configuration names */
#ifndef WORK_GIT_NAMED_INTERNAL_H
#define WORK_GIT_NAMED_INTERNAL_H

#include <limits.h>
#include <sys/types.h>

#include "base/macro.h"
#include "work/git_named.h"

/*
 * Suffixes of a path in git_named if only some files of the directory are named. No file
 * has such a path.
 */
#define NAMED_FILES    "//f" /* files that are directly in it */
#define NAMED_PROGRAMS "//p" /* of these, links and files that can be executed */
#define NAMED_ITSELF   "//i" /* nothing in it; but it may not become a link */

/* A file of configuration, which is read once. */
struct named_file {
	char *path;
	char *text; /* NULL: there is none */
	size_t n;
	/* For which top and home it was read last, and as which include: */
	char *top;
	const char *home;
	unsigned depth;
};

struct named_search {
	const char *project;
	struct git_named *out;
	size_t cap;  /* of out->paths */
	void *files; /* struct named_file: a tree */
	size_t n_files, bytes;
	const char *homes[2]; /* of this user, and of the project's owner */
	char *owner_home;
	char *known[256]; /* paths that are no links */
	const char *only; /* NAMED_...: only files directly in the path are named */
	bool failed;      /* out of memory */
	/* Of the configuration that is being read: */
	char top[PATH_MAX]; /* where commands run */
	bool top_real;      /* it exists, and has no links */
	const char *home;
	const char *file;
	unsigned depth, evaluated; /* files that include each other */
	size_t walked;             /* entries of directories */
	bool credential;           /* the value is one of a credential helper */
	void *tried;               /* paths that may have secrets: a tree */
	size_t n_tried;
	void *looked;  /* files that were looked at, for all repositories */
	size_t words;  /* that may be paths */
	char **linked; /* directories that links lead to, absolute */
	size_t n_linked;
};

/* ---------------------------------------------------------- git_named_paths.c */

/* Join paths, unless @path is absolute or in the user's home; false: it is too long. */
bool named_join(const struct named_search *s, const char *base, const char *path,
		char ret[PATH_MAX]);
/* The file or directory @path is named, and all links that lead to it are. */
void named_add(struct named_search *s, const char *base, const char *path);

/* ---------------------------------------------------------------- git_named.c */

/* Programs are found in the directory @path, which is relative to s->top, by their names.
 */
void named_path_entry(struct named_search *s, const char *path);
/* Read a configuration that exists, or not. */
void named_config(struct named_search *s, const char *path);
/* Read all that is not the repository's; s->top is set. */
void named_environment(struct named_search *s);
/* Get the contents of a file; NULL: it cannot be read. */
const struct named_file *named_slurp(struct named_search *s, const char *path);
/* There is more to read than a limit allows: files may be named that are not found. */
void named_too_much(struct named_search *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* How an absolute path looks in a message: the end of a path in the project. */
const char *named_in_project(const struct named_search *s, const char *path);

/* -------------------------------------------------------- git_named_secrets.c */

struct git_config_entry;

/* Note the files with secrets that the value names. */
void named_secrets(struct named_search *s, const struct git_config_entry *e);
/* Note the file that a word of a command names, if it has secrets. */
void named_secrets_word(struct named_search *s, const char *word);
/* Another repository is read: the limit of paths is for each. */
void named_secrets_next(struct named_search *s);
void named_secrets_done(struct named_search *s);

/* --------------------------------------------------------- git_named_places.c */

/* The links in a directory are named, and so are those in directories that they lead to.
 */
void named_links(struct named_search *s, const char *dir);
/*
 * Git starts its pager, ssh and other programs from the first directory of PATH that has
 * them, so a new file in such a directory of the project may be any of these. @relative:
 * note the directories that are relative to s->top; otherwise, the others.
 */
void named_path(struct named_search *s, bool relative);
/* Read the repository whose ".git", or which itself, is in the directory @top. */
void named_repository_at(struct named_search *s, const char *top);
/* Read the repository that the project is a part of, and those around it. */
void named_repositories_above(struct named_search *s);

#endif /* WORK_GIT_NAMED_INTERNAL_H */
