/* SPDX-License-Identifier: Apache-2.0 */
/* tree_remove.h - remove a tree of any depth, without following links */
#ifndef OS_TREE_REMOVE_H
#define OS_TREE_REMOVE_H

/*
 * Remove @name in @dir, with everything in it, however deep. Directories that are too
 * deep are first moved to @top, under temporary names. Other mounts are not entered:
 * -EXDEV. Nothing is allocated with malloc(3). 0 or -errno.
 */
int tree_remove(int top, int dir, const char *name);

#endif /* OS_TREE_REMOVE_H */
