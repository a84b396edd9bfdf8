/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moved.h - which directories of the project the user has moved since the work started
 *
 * A directory that is moved gets a new ctime, but the files in it do not: by their times
 * alone, the files of another directory that is now in its place would look unchanged.
 * So the inodes of all directories are kept from the search for files to hide. A
 * directory with a new ctime, which it also gets if an entry of it is added or removed,
 * was not moved if it has the same inode.
 */
#ifndef WORK_MOVED_H
#define WORK_MOVED_H

#include "work/work.h"

/*
 * Keep the directories that a search has found; the directory @at has its file @name.
 * NULL: it has none, and those of an earlier search do not count.
 */
void moved_keep(const struct work *w, int at, const char *name);
/* They are those of the time when the work started, or was resumed: w->since_ns. */
int moved_begin(const struct work *w, struct warren_error *err);
/*
 * Could the user have moved a directory to a place above @path after earlier_since()? If
 * it is not known which directories there were, a new ctime counts as a move.
 */
bool moved_has(struct work *w, const char *path);
void moved_free(struct work_moved *m);

#endif /* WORK_MOVED_H */
