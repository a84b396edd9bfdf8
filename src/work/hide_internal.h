/* SPDX-License-Identifier: Apache-2.0 */
/* hide_internal.h - how files are hidden: the search, and git's configuration */
#ifndef WORK_HIDE_INTERNAL_H
#define WORK_HIDE_INTERNAL_H

#include <sys/stat.h>

#include "base/buf.h"
#include "base/gitignore.h"
#include "work/hide.h"

#define HIDE_CLEAN_MAX ((size_t)64 << 20) /* a file that is shown without credentials */

/*
 * Find the files that are hidden (h->paths), and git's configuration files (h->cleaned),
 * of which some may need no change. Unsorted. The file @name in the directory @memory
 * remembers directories for the next search; NULL: none. *@ret_remembered: it has all
 * now.
 */
int hide_search(int project, const char *const *patterns, int memory, const char *name,
		struct work_hidden *h, bool *ret_remembered, struct warren_error *err);
/* Read patterns; 0 or -errno. */
int hide_parse(struct gitignore *g, const char *const *patterns);
int hide_add(char ***list, size_t *n, const char *path);

/* --------------------------------------------------------------- hide_names.c */

#define HIDE_PARTS_MAX 8
#define HIDE_PART_SIZE 32

/* Beginnings and ends of names that may match a pattern. Zero it before use. */
struct hide_names {
	bool first[256][256], last[256][256];
	bool dirs[256][256]; /* those of directories, which may be links */
	char parts[HIDE_PARTS_MAX][HIDE_PART_SIZE];
	size_t n_parts;
	bool all;
};

void hide_names_note(struct hide_names *names, const struct gitignore *g);
bool hide_names_may_match(const struct hide_names *names, const char *name);
/* Could it be a link to a directory that a pattern hides, or whose files one hides? */
bool hide_names_may_be_dir(const struct hide_names *names, const char *name);

/* --------------------------------------------------------------- hide_links.c */

/* Add the other names of hidden files, except those that one of @patterns shows. */
int hide_links(int project, const char *const *patterns, struct work_hidden *h);
/* Add the other names of the files that are shown without credentials. */
int hide_links_cleaned(int project, struct work_hidden *h);

/* ------------------------------------------------------------ hide_targets.c */

/* Add the files that hidden links lead to, and the directories of h->links. */
int hide_targets(const struct work *w, const char *const *patterns,
		 struct work_hidden *h);

/* ------------------------------------------------------------ hide_contents.c */

/* What must be in a file with this name so that it is hidden; 0: anything. */
unsigned hide_contents_of(const char *name);
/* Does the text have one of these things? */
bool hide_has_secret(const char *text, size_t n, unsigned what);

/* Is the file, or a directory above it, hidden by the layer? */
bool hide_layer_has(int layer, const char *path);
/* Write a file of the layer, or of the copy, with the mode and owner of @like. */
int hide_layer_write(int layer, int project, const char *path, const struct buf *data,
		     const struct stat *like);

/* -------------------------------------------------------------- hide_index.c */

/*
 * Mark the hidden files, whose paths are sorted, in the indices of their repositories, so
 * that they do not look deleted to git. The indices are written to @to, the layer or the
 * copy. Hidden files that an index has, committed or only staged, are added to
 * h->indexed.
 */
int hide_indices(const struct work *w, int to, struct work_hidden *h);

/* Open the directory at @path of the layer, which is created like the project's. */
int hide_layer_dir(int layer, int project, const char *path);
/*
 * A directory of the layer has the mode of the project's, which may forbid an ordinary
 * user to create files in it. Returns the mode for hide_close_up(); 0: it was
 * not changed.
 */
mode_t hide_open_up(int dir);
void hide_close_up(int dir, mode_t mode);

/* ------------------------------------------------------------- hide_shared.c */

/* May the directory have files that the sandbox has no id for? @own has the ids it has.
 */
bool hide_is_shared(const struct stat *st, const struct stat *own);
/* Give those of h->shared to the sandbox that the user may write. */
int hide_share(const struct work *w, int layer, struct work_hidden *h,
	       struct warren_error *err);

/* ------------------------------------------------------------ hide_command.c */

/* Does the command or line contain a password, a token, or a header with one? */
bool hide_command_has_secret(const char *text);

/* ------------------------------------------------------------- hide_config.c */

/*
 * Write git's configuration without credentials: sections "credential", keys that hold
 * tokens, passwords or headers, commands with passwords, and user names and passwords in
 * URLs. In lines of git's records (the reflog and FETCH_HEAD), only URLs are changed.
 */
void git_config_clean(const char *text, size_t n, struct buf *out);

#endif /* WORK_HIDE_INTERNAL_H */
