/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base.h - contents of files before the sandbox and the user changed them, for merges
 *
 * The project's file itself, as long as the user has not changed it. Otherwise a copy,
 * which base_keep() made when the sandbox had ended, or base_begin() before it started.
 * Otherwise, the file's contents in the commit that the repository was at when the work
 * started. After a work was resumed, all this is about the time of that (earlier.h).
 */
#ifndef WORK_BASE_H
#define WORK_BASE_H

#include "work/changes.h"

/*
 * Start to copy files that no commit has, in a child: text files that were changed or
 * added since the commit, or all of a project without a repository, up to 4,096 files and
 * 64 MiB. Before the sandbox starts, and after files were hidden.
 */
int base_begin(struct work *w, struct warren_error *err) MUST_CHECK;
/*
 * A work is resumed: the files of the project as they are now are those that the sandbox
 * sees, and that later changes of both sides are compared with, except for files that the
 * sandbox has already changed. After files were hidden, and before base_begin().
 */
int base_renew(struct work *w, struct warren_error *err) MUST_CHECK;
/* Wait until the child has ended. @end: end it now, with what it has copied. */
void base_wait(struct work *w, bool end);
/* Copy the originals of files that the sandbox changed, unless the user has as well. */
int base_keep(struct work *w, struct warren_error *err) MUST_CHECK;
/*
 * Get what the sandbox saw of a file of git that was shown to it without credentials: 1.
 * 0: it saw the project's file. -ENOENT: it is no longer known.
 */
int base_shown(struct work *w, const struct change *c, struct change_side *ret);
/* Get the contents of @path; -ENOENT: they are not known. */
int base_find(struct work *w, const char *path, struct change_side *ret,
	      struct warren_error *err) MUST_CHECK;

#endif /* WORK_BASE_H */
