/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_restore.h - make the files of an overlay what they were when its upper directory
 * was copied
 *
 * The upper directory of a mounted overlay must not be changed beneath it. So the paths
 * at which the upper directory differs from its copy are found first (tree_walk.h), and
 * each of them is then changed through the mounted root: removed, created or rewritten.
 * What the copy does not have comes from the lower directory.
 *
 * It is done in three passes: count the space that is needed; remove what did not exist,
 * which makes space; write the rest. A pass that is repeated after a failure continues
 * where the first one ended.
 *
 * No other process may change the files in the meantime. Nothing is allocated with
 * malloc(3), so that a process can call this after clone(2).
 */
#ifndef OS_TREE_RESTORE_H
#define OS_TREE_RESTORE_H

#include <stdint.h>

#include "base/error.h"

struct tree_restore {
	int copy;  /* the copy of the upper directory */
	int upper; /* the present upper directory */
	int lower; /* the directory below it */
	int root;  /* the mounted root */
	/* The result: */
	uint64_t removed, restored, changed;
};

/* -ENOSPC: the space is not sufficient, and nothing has changed. */
int tree_restore(struct tree_restore *t, struct warren_error *err);

#endif /* OS_TREE_RESTORE_H */
