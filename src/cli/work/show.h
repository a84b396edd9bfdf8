/* SPDX-License-Identifier: Apache-2.0 */
/* show.h - show the changes of a work: as a patch, a summary, names or JSON */
#ifndef CLI_WORK_SHOW_H
#define CLI_WORK_SHOW_H

#include "base/json.h"
#include "textdiff/unified.h"
#include "work/changes.h"

/* The maximum that is shown at once, in bytes. */
#define SHOW_MAX ((size_t)1 << 30)

/* The colours for descriptor @fd; NULL: it is not a terminal, or NO_COLOR is set. */
const struct unified_colors *show_colors(int fd);
/* The width of the terminal at @fd, or 80. */
unsigned show_width(int fd);

/* Return whether a diff can show the change: only those of files and links. */
bool show_in_diff(const struct change *c);
/* Return whether a patch can contain the change: git refuses paths in ".git". */
bool show_in_patch(const struct change *c);
/* Return whether this is the directory of a repository (".git"). */
bool show_is_repository(const struct change *c);
/* Return whether this is the directory of a repository that the project does not have. */
bool show_is_new_repository(const struct change *c);
/*
 * Return whether this is a file of a new worktree or submodule. Its repository is in
 * several places, so that no part of it is of use alone.
 */
bool show_is_linked(const struct change *c);

/* Append the difference of a change as `git diff` shows it. */
int show_patch(struct work *w, const struct change *c, const struct unified_options *o,
	       struct buf *out, struct warren_error *err) MUST_CHECK;
/* Append the differences of all changes; @patch: of those that a patch can contain. */
int show_patches(struct work *w, const struct changes *changes, bool ignored, bool patch,
		 const struct unified_options *o, struct buf *out,
		 struct warren_error *err) MUST_CHECK;
/* Append a table with a row for each change, and a line with sums, like `git diff
 * --stat`.
 */
void show_stat(const struct changes *changes, unsigned width,
	       const struct unified_colors *colors, struct buf *out);
/* Append a path for a person: in quotes, with escapes, if it has unusual characters. */
void show_path(const char *path, struct buf *out);
/* Append how the type and the mode changed, or the mode, unless git has a name for it. */
void show_mode(const struct change *c, struct buf *out);
/* Append "A\tpath" with the letter that git uses, or only the path. */
void show_name(const struct change *c, bool status, struct buf *out);
/*
 * Append rows for the changes whose difference does not say everything, or that have
 * none: directories, modes, and so on; with @ignored, also of files that are ignored.
 */
void show_changes_rest(const struct changes *changes, bool ignored, unsigned width,
		       const struct unified_colors *colors, struct buf *out);
/* Append a line that says what was left out of differences, or of a @patch for git. */
void show_left_out(const struct changes *changes, bool patch, struct buf *out);
void show_json(const struct change *c, struct json *j);
/* Append all changes as one JSON object. */
void show_changes_json(const struct work *w, const struct changes *changes,
		       struct buf *out);
/* Write @path as the string @key; if it is not UTF-8, also in base64. */
void show_json_path(struct json *j, const char *key, const char *path);

#endif /* CLI_WORK_SHOW_H */
