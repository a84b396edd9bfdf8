/* SPDX-License-Identifier: Apache-2.0 */
/* reach.h - let an ordinary user read and remove the changes of a sandbox */
#ifndef WORK_REACH_H
#define WORK_REACH_H

#include <sys/stat.h>

#include "work/work.h"

/*
 * Give all files in the directory of changes to this user. To be called after -EACCES;
 * the caller then tries again. -EACCES: there is nothing that can be done.
 */
int work_reach(struct work *w, struct warren_error *err) MUST_CHECK;

/*
 * To be called before files in the directory of changes are renamed or removed: call
 * work_reach() if the user may not do that everywhere.
 */
int reach_all(struct work *w, struct warren_error *err) MUST_CHECK;
/* The same only for the directory itself, which the next sandbox needs. */
int reach_top(struct work *w, struct warren_error *err) MUST_CHECK;
/*
 * Like tree_remove(), even if it contains files of a sandbox that belong to others, or
 * are in directories that deny access.
 */
int reach_remove(int dir, const char *name);

/*
 * Open a regular file for reading that belongs to this user, but has a mode that denies
 * it even to its owner: a sandbox, whose root is this user, can read it as well. A
 * descriptor, or -EACCES.
 */
int reach_own_file(int dir, const char *name);

/*
 * Set the mode in @st, the status of the sandbox's file @name in @dir, to that which it
 * had before work_reach() changed it.
 */
void reach_mode(const struct work *w, int dir, const char *name, struct stat *st);

#endif /* WORK_REACH_H */
