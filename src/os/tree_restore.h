/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_restore.h - restore the files of an overlay as they were when its upper directory
 * was copied
 *
 * The upper directory of an overlay must not be changed directly while the overlay is
 * mounted. So the paths at which the upper directory differs from its copy are found
 * first (tree_walk.h), and each of them is then changed through the mounted root:
 * removed, created or rewritten. Files that the copy does not contain come from the lower
 * directory.
 *
 * There are three passes: count the space that is needed; remove files that did not
 * exist, which frees space; write the others. After a failure, the passes can be
 * repeated, and continue where they ended.
 *
 * No other process may change the files in the meantime. Nothing is allocated with
 * malloc(3), so that a process can call this after clone(2).
 */
#ifndef OS_TREE_RESTORE_H
#define OS_TREE_RESTORE_H

#include <stdint.h>

#include "base/error.h"

/*
 * Maximum number of files with several names in the copy, and of bytes of one path of
 * each: a copy with more cannot be restored exactly, so it must not be made.
 */
#define TREE_RESTORE_LINKED_MAX (512U << 10)
#define TREE_RESTORE_PATHS_MAX  (128UL << 20)

struct tree_restore {
	int copy;  /* the copy of the upper directory */
	int upper; /* the present upper directory */
	int lower; /* the directory below it */
	int root;  /* the mounted root */
	/* When to give up, while nothing has changed (clock.h); 0: never. */
	uint64_t deadline;
	/* The result: */
	uint64_t removed, restored, changed;
};

/* -ENOSPC, -ELOOP, -ETIMEDOUT: nothing has changed. */
int tree_restore(struct tree_restore *t, struct warren_error *err);

#endif /* OS_TREE_RESTORE_H */
