/* SPDX-License-Identifier: Apache-2.0 */
/* work_internal.h - functions that the files of this folder share */
#ifndef WORK_WORK_INTERNAL_H
#define WORK_WORK_INTERNAL_H

#include "work/work.h"

/* Open the directory of all works; -ENOENT: there is none, unless @make. */
int works_dir(bool make, char **ret_path, struct warren_error *err);
/* Find a work by its id, a unique beginning of it, or its name. */
int work_find_id(const char *id_or_name, char ret[ID_LEN + 1], struct warren_error *err);
/* Read the record of the work in @dir. */
int work_read_record(int dir, struct work_record *ret, struct warren_error *err);
/*
 * Is the directory @fd the project of @r? The device number of some filesystems changes
 * when they are mounted again; then their id decides.
 */
bool work_is_project(const struct work_record *r, int fd);
/* Lock @w; @flags are more flags of open(2). -EBUSY: another process has the lock. */
int work_lock(struct work *w, int flags, struct warren_error *err);
/* Does another process have the lock of the work in @dir? */
bool work_is_locked(int dir);

/*
 * Get the commit that the HEAD of the project's repository refers to; 0 and NULL: there
 * is no repository, or no commit.
 */
int git_head(int project, char **ret);
/* Find the commit of the reference @name in the git directory @dir: 0 or -errno. */
int git_ref(int dir, const char *name, char **ret);
/* Is it the name of a commit, as 40 or 64 hexadecimal digits? */
bool git_is_id(const char *text);

#endif /* WORK_WORK_INTERNAL_H */
