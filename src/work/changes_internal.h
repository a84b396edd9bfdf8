/* SPDX-License-Identifier: Apache-2.0 */
/* changes_internal.h - the parts of the search for changes */
#ifndef WORK_CHANGES_INTERNAL_H
#define WORK_CHANGES_INTERNAL_H

#include <limits.h>

#include "base/gitignore.h"
#include "work/changes.h"
#include "work/git_index.h"
#include "work/git_named.h"
#include "work/git_top.h"

#define CHANGES_DEPTH_MAX 400

/* Set-user-id, set-group-id. */
#define MODE_SET_ID ((mode_t)(S_ISUID | S_ISGID))

/* ------------------------------------------------------------ changes_filter.c */

struct ignore_level {
	struct gitignore rules; /* of the directory as the sandbox left it */
	struct gitignore own; /* the user's, if .differs; otherwise, they are the same */
	bool differs;
	size_t at; /* length of the directory's path, with the "/" */
	/* Of a directory above the project: the project's path in it, with a "/". */
	const char *above;
};

/*
 * Which paths are ignored, for a walk that goes through the tree depth first: those that
 * the user's .gitignore files or the sandbox's say. A sandbox that empties a .gitignore
 * must not get files accepted that the user has it for, such as keys and dependencies.
 */
struct ignore_filter {
	struct work *w;
	/* What matching the patterns of the sandbox, and the user's, may still cost. */
	uint64_t theirs, yours;
	bool drop; /* the sandbox's .gitignore files do not count */
	/* If the project is a part of a repository: its top, and the path there, "a/b/".
	 */
	char *top, *prefix;
	struct ignore_level levels[CHANGES_DEPTH_MAX + 2 + GIT_TOP_ABOVE_MAX];
	size_t n, n_differ;
	bool index_read;
	struct git_index index; /* of the user's repository */
	struct git_named named;
};

/*
 * Read the patterns that hold for the whole project, also those of directories above it
 * up to the top of the repository. @drop: the sandbox's .gitignore
 * files do not count.
 */
int ignore_filter_begin(struct ignore_filter *f, struct work *w, bool drop);
void ignore_filter_done(struct ignore_filter *f);
/*
 * The patterns and paths come from a sandbox, so matching takes a limited time. If it is
 * over, -ECANCELED: begin again without the sandbox's .gitignore files (changes.h).
 *
 * Enter a directory, whose path has @at bytes: its .gitignore is in @lower, and if the
 * sandbox changed it, in @upper (-1: none). Each call needs an ignore_filter_leave().
 */
int ignore_filter_enter(struct ignore_filter *f, size_t at, int upper, int lower);
void ignore_filter_leave(struct ignore_filter *f);
/* The user has a repository in the directory @path: its configuration counts, too. */
int ignore_filter_repository(struct ignore_filter *f, const char *path);
bool ignore_filter_has(struct ignore_filter *f, const char *path, bool is_dir);
/* Is the path in the index of the user's repository? Such a file is never ignored. */
bool ignore_filter_tracked(struct ignore_filter *f, const char *path);

/* Could a file system or git take @name for ".git"? */
bool guard_is_dotgit(const char *name);
/* Does a link at @path with @target lead out of the project? */
bool guard_link_out(const char *path, const char *target);

/* ---------------------------------------------------------------- git_guard.c */

/* Does @name make a directory part of another repository, wherever it is? */
bool guard_is_git_link(const char *name);
/*
 * In a git directory: does git execute the file, or read its configuration from it, or is
 * it none that git knows?
 */
bool guard_git_notable(const char *path_in_git);
/*
 * Could the file, or link, be executed, or be a part of a program in a language that is
 * not compiled? @dir and @name are where it is.
 */
bool guard_is_program(int dir, const char *name, const struct stat *st);
/* Does a file with this name usually have a program in such a language? */
bool guard_is_script_name(const char *name);
/* In a git directory: does the file say which commits there are? */
bool guard_git_refs(const char *path_in_git);

/* -------------------------------------------------------------- changes_same.c */

/* An entry of a directory; .dir is -1 if it does not exist. */
struct change_at {
	int dir;
	const char *name;
	struct stat st;
};

/* Do two files, or links, have the same contents? 1, 0 or -errno. */
int change_same(const struct change_at *a, const struct change_at *b);
/* Read one side of a change. */
int change_side_read(const struct change_at *at, struct change_side *ret);

/* ------------------------------------------------------------------ changes.c */

/* The directory that is below the sandbox's changes: the project, or its copy. */
int changes_lower(const struct work *w);
/* The directory of the sandbox's changes. */
int changes_upper(const struct work *w);
/* Find an entry beneath @root; the caller closes ret->dir. */
int change_at_open(int root, const char *path, struct change_at *ret);
int change_compare(const void *a, const void *b);
void change_done(struct change *c);

/* ----------------------------------------------------------- changes_renames.c */

/* Could a file have been moved into a directory that is listed as one change? */
bool changes_may_be_moved_inside(const struct changes *c);
/*
 * Pair files that were removed with equal ones that were added, and sort the list. Files
 * that were moved into such directories are taken out of @inside, which is the list of
 * all files, or empty.
 */
int changes_find_renames(int upper, int lower, struct changes *c, struct changes *inside);

/* ------------------------------------------------------------- changes_walk.c */

/* Find all changes in @upper over @hide over @lower; unsorted. */
int changes_walk(struct work *w, int upper, int hide, int lower, unsigned flags,
		 struct changes *ret, struct warren_error *err);

/* --------------------------------------------------------------- base_names.c */

/* Is it known that the commit @head does not have the file? */
bool base_names_lack(struct work *w, const char *path, const char *head);
void base_names_free(struct base_names *b);

/* -------------------------------------------------------------------- known.c */

/*
 * Has the user changed the file since the work started? @st is the status of the file in
 * the lower directory. Not if it has the same contents and mode again, as far as it is
 * known which those were.
 */
bool known_touched(struct work *w, const char *path, const struct stat *st);
/* Has the user written or replaced the file since then, maybe with the same contents? */
bool known_written(struct work *w, const char *path, const struct stat *st);
/* The file at @path was written by an accept. known_save() stores that. */
int known_add(struct work *w, const char *path, const struct stat *st);
/* An accept removed another name of the file. */
int known_add_inode(struct work *w, const struct stat *st);
int known_save(struct work *w);
/*
 * Get the mode of a file or directory of the lower directory, with the type, before the
 * user changed it; 0: it is not known. @st is its status now.
 */
mode_t known_mode(struct work *w, const char *path, const struct stat *st);
/*
 * Remember the mode of a file or directory that the user has not changed; the search for
 * changes does so if the work is locked. known_note_save() stores that.
 */
int known_note(struct work *w, const char *path, const struct stat *st);
/* Remember the contents, too, of a file or link that the user has not written. */
int known_note_sum(struct work *w, const char *path);
int known_note_save(struct work *w);
/*
 * An accept removed or replaced the file: what it was says nothing about later ones.
 * Returns whether known_save() has to store that.
 */
bool known_forget_sum(struct work *w, const char *path);
/* Forget files that the sandbox has no earlier version of (earlier.h). */
int known_keep_earlier(struct work *w);
void known_free(struct work_known *k);

static inline uint64_t stat_ctime_ns(const struct stat *st)
{
	return (uint64_t)st->st_ctim.tv_sec * 1000000000 + (uint64_t)st->st_ctim.tv_nsec;
}

/*
 * Some filesystems keep times in units of one or two seconds: there, a file with the time
 * @since_ns may have been changed after it. It rather counts as changed.
 */
static inline bool stat_is_newer(const struct stat *st, uint64_t since_ns)
{
	uint64_t margin = st->st_ctim.tv_nsec == 0 ? 2000000000U : 0;

	return stat_ctime_ns(st) + margin > since_ns;
}

#endif /* WORK_CHANGES_INTERNAL_H */
