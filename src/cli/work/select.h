/* SPDX-License-Identifier: Apache-2.0 */
/* select.h - find the work and the changes that a command refers to */
#ifndef CLI_WORK_SELECT_H
#define CLI_WORK_SELECT_H

#include "base/buf.h"
#include "work/changes.h"

/*
 * Open the work @id. If @id is NULL, open the only work whose project contains the
 * current directory; the error lists them if there are several.
 */
int select_work(const char *id, bool exclusive, struct work **ret,
		struct warren_error *err) MUST_CHECK;
/*
 * Split the words "[WORK] [PATH...]" of a command. Returns the work; NULL: the only one
 * of the current directory. The first word is a path if there is no such work, but such a
 * file or a change there.
 */
const char *select_words(char **words, char ***ret_paths);
/* Append the ids and names of all works, for shell completion. */
void select_complete(struct buf *out);

/*
 * List the changes at or below @paths (NULL or empty: all). The paths are those of the
 * project: absolute, or relative to the current directory if that is in the project, or
 * relative to the project. -ENOENT: nothing was changed at one of them.
 */
int select_changes(struct work *w, char *const *paths, unsigned flags,
		   struct changes *ret, struct warren_error *err) MUST_CHECK;

/* Is any of @changes at or below @path? They were listed with CHANGES_EXPAND. */
bool select_has(const struct work *w, const struct changes *changes, const char *path);

#endif /* CLI_WORK_SELECT_H */
